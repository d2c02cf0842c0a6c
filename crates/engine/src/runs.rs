//! Sorted runs of records in a temporary file, and their merge: what a sort puts aside that its memory does not hold.
//!
//! ```text
//! run    blocks of 64 KB, one behind the other, of which the last one ends with its records
//! block   0 crc32c u32   of all that follows
//!         4 used u32     bytes of records in it
//!         8 place u64    where it is in the file, ...
//!        16 file u64     ... and in which one
//!        24 records      length u16, record
//! ```
//! A record is one of a leaf, which has its key in it.
//!
//! # Invariants
//! 1. The file is as `sort_files.rs` says. Nothing of it is made durable.
//! 2. What is read is checked, its place and its number among it: what the device has lost or mixed up is an error, never a row.
//! 3. The merge has all records of all runs, in the order of their keys, and of equal keys that of the runs: of the records as they were
//!    taken.
//! 4. Merging takes [`MERGE_BYTES`] of memory, and a run's last key, whatever there are of records: when there are too many runs for
//!    that, they become one of the next level, whose runs are so much longer. Each record is written once for each level.

use std::cmp::Ordering;
use std::sync::Arc;

use resurgam_base::{Error, Result, checksum, limits::RECORD_BYTES_MAX};
use resurgam_page::leaf;

use crate::sort_files::SortFile;

const BLOCK: usize = 64 << 10;
const HEAD: usize = 24;
/// Bytes of runs that are in memory while they are merged.
const MERGE_BYTES: usize = 8 << 20;
/// Runs that can be merged at once.
pub(crate) const RUNS_MAX: usize = MERGE_BYTES / BLOCK;
/// Most blocks that are written, and read, at once.
const BLOCKS_MAX: usize = 16;
/// Records that are merged between two looks at whether to stop.
const UNASKED: u64 = 10_000;
const _: () = assert!(RECORD_BYTES_MAX + 2 + HEAD <= BLOCK && RECORD_BYTES_MAX <= u16::MAX as usize);

/// One run: where its blocks are.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: u64,
    end: u64,
}

/// See the module.
pub(crate) struct Runs {
    file: Arc<dyn SortFile>,
    number: u64,
    end: u64,
    runs: Vec<Run>,
    records: u64,
    /// The least and the greatest of all keys: what they have in common all have.
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Runs {
    /// None yet, in a file which is empty; each has another number.
    pub fn new(file: Arc<dyn SortFile>, number: u64) -> Self {
        Self { file, number, end: 0, runs: Vec::new(), records: 0, low: Vec::new(), high: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Of all runs.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Takes records in the order of their keys as one run behind the others.
    ///
    /// # Errors
    /// Those of writing.
    pub fn push<'r>(&mut self, records: impl Iterator<Item = &'r [u8]>) -> Result<()> {
        let mut writer = self.writer();
        let (mut first, mut last) = (None, None);
        for record in records {
            writer.put(record)?;
            self.records += 1;
            first.get_or_insert(record);
            last = Some(record);
        }
        if let (Some(first), Some(last)) = (first, last) {
            self.widen(leaf::key_of(first), leaf::key_of(last));
            let run = writer.finish(self.end)?;
            self.end = run.end;
            self.runs.push(run);
        }
        Ok(())
    }

    fn widen(&mut self, low: &[u8], high: &[u8]) {
        if self.runs.is_empty() || low < self.low.as_slice() {
            self.low = low.to_vec();
        }
        if high > self.high.as_slice() {
            self.high = high.to_vec();
        }
    }

    fn writer(&self) -> Writer {
        Writer { file: Arc::clone(&self.file), number: self.number, at: self.end, blocks: Vec::new(), block: 0 }
    }

    /// Makes one run of all, behind those of `into`, which are longer and older. `ask` is asked now and then whether to go on, and told
    /// how many records are merged since it was asked before.
    ///
    /// # Errors
    /// Those of reading and writing, and those of `ask`.
    pub fn merge_into(&self, into: &mut Runs, ask: &dyn Fn(u64) -> Result<()>) -> Result<()> {
        let mut merge = Merge::of([self])?;
        let mut writer = into.writer();
        let mut record = Vec::new();
        let mut records = 0u64;
        while merge.next(&mut record)? {
            writer.put(&record)?;
            record.clear();
            records += 1;
            if records.is_multiple_of(UNASKED) {
                ask(UNASKED)?;
            }
        }
        let run = writer.finish(into.end)?;
        into.widen(&self.low, &self.high);
        (into.end, into.records) = (run.end, into.records + records);
        into.runs.push(run);
        Ok(())
    }
}

/// Writes one run.
struct Writer {
    file: Arc<dyn SortFile>,
    number: u64,
    at: u64,
    blocks: Vec<u8>,
    /// Where the block that is being filled begins.
    block: usize,
}

impl Writer {
    fn put(&mut self, record: &[u8]) -> Result<()> {
        if self.blocks.is_empty() || self.blocks.len() - self.block + 2 + record.len() > BLOCK {
            self.next_block()?;
        }
        self.blocks.extend_from_slice(&(record.len() as u16).to_le_bytes());
        self.blocks.extend_from_slice(record);
        Ok(())
    }

    fn next_block(&mut self) -> Result<()> {
        self.seal(true);
        if self.blocks.len() >= BLOCKS_MAX * BLOCK {
            self.flush()?;
        }
        self.block = self.blocks.len();
        self.blocks.extend_from_slice(&[0; HEAD]);
        Ok(())
    }

    fn seal(&mut self, others_follow: bool) {
        if self.blocks.is_empty() {
            return;
        }
        let used = (self.blocks.len() - self.block - HEAD) as u32;
        if others_follow {
            self.blocks.resize(self.block + BLOCK, 0);
        }
        let block = &mut self.blocks[self.block..];
        block[4..8].copy_from_slice(&used.to_le_bytes());
        block[8..16].copy_from_slice(&(self.at + self.block as u64).to_le_bytes());
        block[16..HEAD].copy_from_slice(&self.number.to_le_bytes());
        let crc = checksum(&block[4..]);
        block[..4].copy_from_slice(&crc.to_le_bytes());
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.blocks, self.at)?;
        self.at += self.blocks.len() as u64;
        self.blocks.clear();
        Ok(())
    }

    fn finish(mut self, from: u64) -> Result<Run> {
        self.seal(false);
        self.flush()?;
        Ok(Run { at: from, end: self.at })
    }
}

/// What is read of one run.
struct Source {
    file: Arc<dyn SortFile>,
    number: u64,
    /// The blocks that are to be read.
    next: u64,
    end: u64,
    blocks: Vec<u8>,
    /// Bytes of those that are read.
    loaded: usize,
    /// Where the next one begins, where the next record of this one is, and where its records end.
    block: usize,
    at: usize,
    used: usize,
    record: (usize, usize),
}

impl Source {
    /// Goes to the next record. False: there is none.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        if self.at == self.used && !self.next_block()? {
            return Ok(false);
        }
        let begin = self.at + 2;
        let end = match self.blocks.get(self.at..begin) {
            Some(&[a, b]) => begin + usize::from(u16::from_le_bytes([a, b])),
            _ => return Err(self.damaged()),
        };
        if end > self.used || end - begin <= 3 {
            return Err(self.damaged());
        }
        self.record = (begin, end);
        self.at = end;
        Ok(true)
    }

    fn next_block(&mut self) -> Result<bool> {
        if self.block == self.loaded {
            let bytes = (self.end - self.next).min(self.blocks.len() as u64) as usize;
            if bytes == 0 {
                return Ok(false);
            }
            self.file.read_exact_at(&mut self.blocks[..bytes], self.next)?;
            self.next += bytes as u64;
            (self.block, self.loaded) = (0, bytes);
        }
        let block = &self.blocks[self.block..self.loaded.min(self.block + BLOCK)];
        if block.len() <= HEAD {
            return Err(self.damaged());
        }
        let number = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let used = number(4) as usize;
        let place = self.next - (self.loaded - self.block) as u64;
        let is_it = block[8..16] == place.to_le_bytes() && block[16..HEAD] == self.number.to_le_bytes();
        if number(0) != checksum(&block[4..]) || used > block.len() - HEAD || used == 0 || !is_it {
            return Err(self.damaged());
        }
        self.at = self.block + HEAD;
        self.used = self.at + used;
        self.block = self.loaded.min(self.block + BLOCK);
        Ok(true)
    }

    #[cold]
    fn damaged(&self) -> Error {
        let path = self.file.path().display();
        Error::corrupt(format!("the temporary file \"{path}\" of a sort does not hold what was written to it"))
    }

    fn record(&self) -> &[u8] {
        &self.blocks[self.record.0..self.record.1]
    }
    fn key(&self) -> &[u8] {
        leaf::key_of(self.record())
    }

    /// The eight bytes behind those that all keys have in common.
    #[inline]
    fn head(&self, common: usize) -> u64 {
        let rest = self.key().get(common..).unwrap_or_default();
        match rest.first_chunk::<8>() {
            Some(head) => u64::from_be_bytes(*head),
            None => {
                let mut head = [0; 8];
                head[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(head)
            }
        }
    }
}

/// The records of all runs, the least first.
pub(crate) struct Merge {
    sources: Vec<Source>,
    /// Those that have a record, a heap with the least on top: the head of its key, and which it is.
    heap: Vec<(u64, u32)>,
    common: usize,
    /// Records that are to come.
    left: u64,
}

impl Merge {
    /// All records of all runs, those of the older ones first; of equal keys they come in this order.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of<'r>(all: impl IntoIterator<Item = &'r Runs>) -> Result<Self> {
        let all: Vec<&Runs> = all.into_iter().filter(|runs| !runs.runs.is_empty()).collect();
        let low = all.iter().map(|runs| runs.low.as_slice()).min().unwrap_or_default();
        let high = all.iter().map(|runs| runs.high.as_slice()).max().unwrap_or_default();
        let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
        let count = all.iter().map(|runs| runs.len()).sum::<usize>();
        let blocks = (RUNS_MAX / count.max(1)).clamp(1, BLOCKS_MAX);
        let left = all.iter().map(|runs| runs.records).sum();
        let mut merge = Self { sources: Vec::with_capacity(count), heap: Vec::new(), common, left };
        for (runs, run) in all.iter().flat_map(|runs| runs.runs.iter().map(move |run| (runs, run))) {
            let mut source = Source {
                file: Arc::clone(&runs.file),
                number: runs.number,
                next: run.at,
                end: run.end,
                blocks: vec![0; blocks * BLOCK],
                loaded: 0,
                block: 0,
                at: 0,
                used: 0,
                record: (0, 0),
            };
            if source.advance()? {
                let head = source.head(common);
                merge.heap.push((head, merge.sources.len() as u32));
                merge.sources.push(source);
            }
        }
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        Ok(merge)
    }

    /// Records that are to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Appends the next record to `out`. False: there is none.
    ///
    /// # Errors
    /// Those of reading; `Corrupt` when that is not what was written.
    #[inline]
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some((head, of)) = self.heap.first_mut() else {
            return if self.left == 0 { Ok(false) } else { Err(Error::corrupt("records of a sort are missing")) };
        };
        self.left =
            self.left.checked_sub(1).ok_or_else(|| Error::corrupt("a sort has records that it was not given"))?;
        let source = &mut self.sources[*of as usize];
        out.extend_from_slice(source.record());
        if source.advance()? {
            *head = source.head(self.common);
        } else {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(true)
    }

    fn is_less(&self, a: (u64, u32), b: (u64, u32)) -> bool {
        let key = |of: u32| self.sources[of as usize].key();
        match a.0.cmp(&b.0) {
            Ordering::Equal => key(a.1).cmp(key(b.1)).then(a.1.cmp(&b.1)).is_lt(),
            order => order.is_lt(),
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(&left_entry) = self.heap.get(left) else { return };
            let least = match self.heap.get(right) {
                Some(&right_entry) if self.is_less(right_entry, left_entry) => right,
                _ => left,
            };
            if !self.is_less(self.heap[least], self.heap[at]) {
                return;
            }
            self.heap.swap(least, at);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use resurgam_page::{LeafBuilder, LeafRecord};
    use resurgam_vfs::{OpenMode, SimVfs, Vfs};

    use super::*;
    use crate::sort_files::in_data_folder;

    fn disk() -> SimVfs {
        let vfs = SimVfs::new(1);
        vfs.create_dir_all(Path::new("/db")).unwrap();
        vfs
    }

    fn new_runs(vfs: &SimVfs, n: u32) -> Runs {
        Runs::new(in_data_folder(vfs, Path::new("/db"), n.into()).unwrap(), n.into())
    }

    fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        LeafBuilder::plain(key, value).encode_into(&mut record).unwrap();
        record
    }

    fn merged(runs: &Runs) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut merge = Merge::of([runs]).unwrap();
        let (mut out, mut all) = (Vec::new(), Vec::new());
        while merge.next(&mut out).unwrap() {
            let record = LeafRecord::parse(&out).unwrap();
            all.push((record.key.to_vec(), record.value.to_vec()));
            out.clear();
        }
        all
    }

    /// Puts keys into runs of some length, each value saying when its key came; and sorts them plainly.
    fn is_merged_as_plain(keys: &[Vec<u8>], of_a_run: usize, value_len: usize) {
        let vfs = disk();
        let mut runs = new_runs(&vfs, 0);
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (run, keys) in keys.chunks(of_a_run).enumerate() {
            let value = |at: usize| [&(run * of_a_run + at).to_be_bytes()[..], &vec![7; value_len]].concat();
            let mut rows: Vec<_> = keys.iter().enumerate().map(|(at, key)| (key.clone(), value(at))).collect();
            rows.sort();
            let records: Vec<Vec<u8>> = rows.iter().map(|(key, value)| record(key, value)).collect();
            runs.push(records.iter().map(Vec::as_slice)).unwrap();
            all.append(&mut rows);
        }
        all.sort();
        assert!(merged(&runs) == all);
        let told = std::cell::Cell::new(0);
        let ask = |records| {
            told.set(told.get() + records);
            Ok(())
        };
        let mut one = new_runs(&vfs, 1);
        runs.merge_into(&mut one, &ask).unwrap();
        assert_eq!((one.len(), told.get()), (1, all.len() as u64 / UNASKED * UNASKED));
        assert_eq!(one.records(), runs.records());
        assert!(merged(&one) == all);
        // Behind what is older, of equal keys too.
        let mut of_two = new_runs(&vfs, 2);
        one.merge_into(&mut of_two, &ask).unwrap();
        runs.merge_into(&mut of_two, &ask).unwrap();
        assert_eq!(merged(&of_two).len(), 2 * all.len());
        assert_eq!(of_two.len(), 2);
        assert_eq!(vfs.list(Path::new("/db")).unwrap(), Vec::<String>::new(), "a file has a name");
    }

    proptest! {
        #[test]
        fn order_of_random_records(
            keys in proptest::collection::vec(proptest::collection::vec(0..4u8, 0..12), 1..300),
            of_a_run in 1..100usize,
        ) {
            is_merged_as_plain(&keys, of_a_run, 0);
        }
    }

    #[test]
    fn runs_of_many_blocks_and_long_records() {
        let key = |n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec();
        is_merged_as_plain(&(0..30_000).map(key).collect::<Vec<_>>(), 7000, 50);
        is_merged_as_plain(&(0..1000).map(key).collect::<Vec<_>>(), 400, 1900);
        // As many runs as there may be, with equal keys.
        is_merged_as_plain(&(0..1280).map(|n| key(n % 100)).collect::<Vec<_>>(), 10, 5);
    }

    #[test]
    fn what_was_lost_is_told() {
        let vfs = disk();
        for at in [0, 3, 4, 100, BLOCK as u64 - 1] {
            let mut runs = new_runs(&vfs, 0);
            let records: Vec<Vec<u8>> = (0..5000u32).map(|n| record(&n.to_be_bytes(), b"value")).collect();
            runs.push(records.iter().map(Vec::as_slice)).unwrap();
            let mut byte = [0];
            runs.file.read_exact_at(&mut byte, at).unwrap();
            runs.file.write_at(&[byte[0] ^ 0x10], at).unwrap();
            let error = Merge::of([&runs]).err().unwrap();
            assert_eq!(error.kind(), resurgam_base::ErrorKind::Corrupt);
        }
        // A block that has landed in the place of another one, or in another file.
        let records: Vec<Vec<u8>> = (0..9000u32).map(|n| record(&n.to_be_bytes(), b"a longer value")).collect();
        let (mut runs, mut other) = (new_runs(&vfs, 1), new_runs(&vfs, 2));
        runs.push(records.iter().map(Vec::as_slice)).unwrap();
        other.push(records.iter().map(Vec::as_slice)).unwrap();
        assert!(runs.end > 2 * BLOCK as u64);
        let mut block = vec![0; BLOCK];
        for (from, at) in [(&runs.file, 0), (&other.file, BLOCK as u64)] {
            from.read_exact_at(&mut block, at).unwrap();
            runs.file.write_at(&block, BLOCK as u64).unwrap();
            let mut merge = Merge::of([&runs]).unwrap();
            let (mut out, mut count) = (Vec::new(), 0);
            let error = loop {
                match merge.next(&mut out) {
                    Ok(true) => count += 1,
                    Ok(false) => panic!("all {count} records are there"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), resurgam_base::ErrorKind::Corrupt);
            assert!(count > 1000 && count < 9000, "{count}");
        }
        // And records that are missing in the end.
        other.records += 1;
        let mut merge = Merge::of([&other]).unwrap();
        let mut out = Vec::new();
        while let Ok(true) = merge.next(&mut out) {}
        assert!(merge.next(&mut out).is_err());
        // A file of the same name, left by a process that died.
        vfs.open(Path::new("/db/sort.9"), OpenMode::CreateNew).unwrap();
        assert_eq!(new_runs(&vfs, 9).len(), 0);
    }
}
