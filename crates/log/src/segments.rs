//! Segment files: made ahead of need, recycled when no longer needed.
//!
//! A new segment is filled with zeros and synced before it is used, so that
//! later syncs of it need no metadata. A recycled one keeps its old bytes: its
//! blocks carry positions of the old segment number, so no reader takes them for
//! new ones.
//!
//! # Invariants
//! 1. The kept segments are numbered without a gap from `first` to
//!    `prepared - 1`; all have the full length.
//! 2. A segment counts as prepared only after its name is durable (folder
//!    synced): a block must never be lost with the name of its file.
//!
//! # Locking
//! Preparation and recycling take `maintenance` for their whole, slow work;
//! `table` is only held for moments, so that a flush never waits for a segment
//! that is being filled with zeros.
//!
//! After a crash names may be those from before an unfinished recycling. What is
//! not connected to the segment of the log's end is removed at opening.
//!
//! # Files of its own
//! Where each opening writes files of its own ([`LogConfig::own_files`]) their names carry its epoch: `NUMBER-EPOCH.log`. Of a segment the file with
//! the highest epoch counts. An opening copies the segment in which the log ends, up to there, to a file of its own, and goes on in that; only
//! files of its own are recycled. So whatever a writer of an earlier epoch still does, it does to files that count no more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::block::{BLOCK_HEADER_BYTES, BlockHeader};
use crate::config::LogConfig;
use crate::holds::{Holds, LogHolder};
use crate::planted::PlantedInLog;
use crate::reader::LogEnd;
use crate::stats::Counters;

const ZERO_FILL_BYTES: usize = 1 << 20;

/// Name of the file of segment `number`.
pub fn segment_file_name(number: u64) -> String {
    format!("{number:016x}.log")
}

/// Name of the file of segment `number` that the opening of `epoch` has written; 0: of one that writes no files of its own.
fn file_name_of(number: u64, epoch: u32) -> String {
    match epoch {
        0 => segment_file_name(number),
        epoch => format!("{number:016x}-{epoch:08x}.log"),
    }
}

/// The inverse of [`file_name_of`].
fn parse_file_name(name: &str) -> Option<(u64, u32)> {
    let digits = name.strip_suffix(".log")?;
    let (number, epoch) = digits.split_once('-').unwrap_or((digits, "0"));
    let (number, epoch) = (u64::from_str_radix(number, 16).ok()?, u32::from_str_radix(epoch, 16).ok()?);
    (file_name_of(number, epoch) == name).then_some((number, epoch))
}

/// The number of the segment of a file of the log, by its name.
pub fn segment_number_of(name: &str) -> Option<u64> {
    parse_file_name(name).map(|(number, _)| number)
}

/// The epoch in the name of a file of the log; 0: there is none in it ([`LogConfig::own_files`]).
pub fn segment_epoch_of(name: &str) -> Option<u32> {
    parse_file_name(name).map(|(_, epoch)| epoch)
}

/// The segment files in `dir`: by number, ascending, the epoch of the one that counts.
fn list_files(vfs: &dyn Vfs, dir: &Path) -> Result<BTreeMap<u64, u32>> {
    let mut files = BTreeMap::new();
    for (number, epoch) in vfs.list(dir)?.iter().filter_map(|name| parse_file_name(name)) {
        let newest: &mut u32 = files.entry(number).or_insert(epoch);
        *newest = (*newest).max(epoch);
    }
    Ok(files)
}

/// Numbers of the segments in `dir`, ascending.
pub(crate) fn list_segments(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<u64>> {
    Ok(list_files(vfs, dir)?.into_keys().collect())
}

/// The number of the oldest segment in `dir`; none: there is none, or no folder.
///
/// # Errors
/// Those of listing.
pub fn oldest_segment(vfs: &dyn Vfs, dir: &Path) -> Result<Option<u64>> {
    if !vfs.exists(dir)? {
        return Ok(None);
    }
    Ok(list_files(vfs, dir)?.first_key_value().map(|(number, _)| *number))
}

/// The file of segment `number` in `dir` that counts; where there is none, its plain name.
///
/// # Errors
/// Those of listing.
pub fn segment_path(vfs: &dyn Vfs, dir: &Path, number: u64) -> Result<PathBuf> {
    let epoch = list_files(vfs, dir)?.get(&number).copied().unwrap_or(0);
    Ok(dir.join(file_name_of(number, epoch)))
}

/// The size of the segments in `dir`, as their first blocks say: the one at the start of segment *n* is at LSN *n* times that. None: no
/// segment begins with a whole block. (Its files may be shorter, or cut. One that was used again and not written yet begins with a block of an
/// earlier number, which says less: the most that one says is right.)
///
/// # Errors
/// Those of reading.
pub fn segment_bytes_of(vfs: &dyn Vfs, dir: &Path) -> Result<Option<u64>> {
    let mut most = None;
    for (number, epoch) in list_files(vfs, dir)?.into_iter().filter(|(number, _)| *number > 0) {
        let file = vfs.open(&dir.join(file_name_of(number, epoch)), OpenMode::ReadOnly)?;
        let mut head = [0; BLOCK_HEADER_BYTES];
        if file.read_at(&mut head, 0)? < head.len() {
            continue;
        }
        let lsn =
            Lsn(u64::from_le_bytes([head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15]]));
        let bytes = lsn.0 / number;
        let may_be = lsn.0.is_multiple_of(number) && LogConfig { segment_bytes: bytes, ..SMALLEST }.check().is_ok();
        let Some(header) = BlockHeader::decode(&head, lsn).filter(|_| may_be) else { continue };
        if header.len() > bytes.min(file.len()?) {
            continue;
        }
        let mut block = vec![0; header.len() as usize];
        if file.read_at(&mut block, 0)? == block.len() && BlockHeader::verify(&block)? {
            most = most.max(Some(bytes));
        }
    }
    Ok(most)
}

/// Any size of a segment fits with these.
const SMALLEST: LogConfig = LogConfig {
    segment_bytes: 0,
    block_payload_bytes_max: 1,
    buffer_bytes_max: 0,
    spare_segments: 0,
    own_files: false,
    flights: 1,
    shuffled: 0,
};

struct Table {
    /// The oldest kept segment.
    first: u64,
    /// One past the last prepared segment.
    prepared: u64,
    files: BTreeMap<u64, Arc<dyn File>>,
    /// Kept segments whose files are of another epoch than what is prepared now.
    others: BTreeMap<u64, u32>,
    holds: Holds,
}

/// What the name of a segment's copy that is being made begins with; its epoch follows.
const COPY: &str = "copy-";
/// Bytes written at a time when the end of the log is made durable.
const REWRITE_BYTES: usize = 1 << 20;

pub(crate) struct Segments {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    segment_bytes: u64,
    /// Of the files that are made; 0: they carry none.
    epoch: u32,
    /// Held by whoever changes which segments there are.
    maintenance: Mutex<()>,
    table: Mutex<Table>,
    /// `Table::prepared` as an LSN, for reading without the lock.
    prepared_end: AtomicU64,
    /// `Table::first` as an LSN.
    oldest: AtomicU64,
}

impl Segments {
    fn new(vfs: Arc<dyn Vfs>, dir: &Path, (segment_bytes, epoch): (u64, u32), first: u64, prepared: u64) -> Segments {
        let (files, others) = (BTreeMap::new(), BTreeMap::new());
        Segments {
            vfs,
            dir: dir.to_path_buf(),
            segment_bytes,
            epoch,
            maintenance: Mutex::default(),
            table: Mutex::new(Table { first, prepared, files, others, holds: Holds::default() }),
            prepared_end: AtomicU64::new(prepared * segment_bytes),
            oldest: AtomicU64::new(first * segment_bytes),
        }
    }

    /// Makes the folder and the first segment, number `first`, of a new log. `epoch`: in the names of files; 0 for none.
    pub(crate) fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        (segment_bytes, epoch): (u64, u32),
        first: u64,
        counters: &Counters,
    ) -> Result<Segments> {
        vfs.make_folder(dir)?;
        // One of an earlier epoch is of who was making a log here when another one came, and perhaps still at it: it counts for nothing.
        let counts = |of: &u32| epoch == 0 || *of >= epoch;
        if let Some((number, _)) = list_files(&*vfs, dir)?.iter().find(|(_, of)| counts(of)) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("folder \"{}\" already holds a log (segment {})", dir.display(), segment_file_name(*number)),
            ));
        }
        let segments = Self::new(vfs, dir, (segment_bytes, epoch), first, first);
        segments.prepare(first, counters)?;
        Ok(segments)
    }

    /// Opens the segments of a log that ends at `end`: makes durable what was
    /// found there, and removes files that are not connected to the end. `epoch`: as in [`Segments::create`].
    pub(crate) fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        (segment_bytes, epoch): (u64, u32),
        end: LogEnd,
        counters: &Counters,
    ) -> Result<Segments> {
        let LogEnd { lsn: end, durable, .. } = end;
        let found = list_files(&*vfs, dir)?;
        if let Some(newer) = found.values().max().filter(|newer| **newer >= epoch && **newer > 0) {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!(
                    "the log in \"{}\" was opened under epoch {newer}, and is not under epoch {epoch}",
                    dir.display()
                ),
            ));
        }
        let has = |number: u64| found.contains_key(&number);
        let path = |number: u64| dir.join(file_name_of(number, found.get(&number).copied().unwrap_or(0)));
        let current = end.0 / segment_bytes;
        let last_used = if has(current) {
            current
        } else if end.0.is_multiple_of(segment_bytes) && has(current - 1) {
            // Not by a crash: whoever opens has been told and goes on.
            current - 1
        } else {
            return Err(Error::corrupt(format!(
                "log segment \"{}\" is missing, in which the log ends",
                dir.join(segment_file_name(current)).display()
            )));
        };
        let mut first = last_used;
        while first > 0 && has(first - 1) {
            first -= 1;
        }
        let mut prepared = last_used + 1;
        // What another epoch has made ready may still be written to by it.
        while epoch == 0 && has(prepared) {
            let file = vfs.open(&path(prepared), OpenMode::ReadOnly)?;
            if file.len()? != segment_bytes {
                break;
            }
            // Of a process that was killed: its length may be in the system's cache only, and the log may come to end where it begins.
            file.sync()?;
            prepared += 1;
        }
        let segments = Self::new(Arc::clone(&vfs), dir, (segment_bytes, epoch), first, prepared);
        if epoch > 0 {
            segments.table.lock().others = found.range(first..prepared).map(|(number, of)| (*number, *of)).collect();
            segments.copy_the_last(last_used, Lsn(end.0.min((last_used + 1) * segment_bytes)))?;
        }
        segments.remove_unconnected(first, prepared)?;
        for number in first..=last_used {
            let file = segments.file(number)?;
            let len = file.len()?;
            if number == current && len < segment_bytes {
                segments.fill_with_zeros(&*file, len)?;
            }
            // What the reader saw may be in the system's cache only, and there as clean.
            let start = number * segment_bytes;
            rewrite(&*file, durable.0.max(start) - start, end.0.clamp(start, start + segment_bytes) - start)?;
            file.sync()?;
        }
        vfs.sync_dir(dir)?;
        if prepared <= current {
            segments.prepare(current, counters)?;
        }
        Ok(segments)
    }

    /// Removes files that are of no segment from `first` to before `prepared`, or not the ones that count. Files of later epochs stay: whoever
    /// made them has the log now, and this opening will be told so.
    fn remove_unconnected(&self, first: u64, prepared: u64) -> Result<()> {
        let newest = list_files(&*self.vfs, &self.dir)?;
        for name in self.vfs.list(&self.dir)? {
            // Of an opening that did not get far.
            let copy = name.strip_prefix(COPY).and_then(|epoch| u32::from_str_radix(epoch, 16).ok());
            if copy.is_some_and(|epoch| epoch < self.epoch) {
                self.vfs.remove(&self.dir.join(name))?;
                continue;
            }
            let Some((number, epoch)) = parse_file_name(&name) else { continue };
            let counts = number >= first && number < prepared && newest.get(&number) == Some(&epoch);
            if !counts && epoch <= self.epoch {
                self.vfs.remove(&self.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Makes a file of this epoch of segment `number`, with what the log has in it up to `end`, and zeros behind that.
    fn copy_the_last(&self, number: u64, end: Lsn) -> Result<()> {
        let from = self.file(number)?;
        let beside = self.dir.join(format!("{COPY}{:08x}", self.epoch));
        let to = self.vfs.open(&beside, OpenMode::Create)?;
        to.set_len(0)?;
        let (len, mut at) = (end.0 - number * self.segment_bytes, 0);
        let mut buf = vec![0; REWRITE_BYTES.min(len as usize)];
        while at < len {
            let want = ((len - at) as usize).min(buf.len());
            // Behind the last block's padding the file may end.
            let read = from.read_at(&mut buf[..want], at)?;
            if read == 0 {
                break;
            }
            to.write_at(&buf[..read], at)?;
            at += read as u64;
        }
        self.fill_with_zeros(&*to, at)?;
        to.sync()?;
        let mut table = self.table.lock();
        self.vfs.rename(&beside, &self.dir.join(file_name_of(number, self.epoch)))?;
        self.vfs.sync_dir(&self.dir)?;
        table.others.remove(&number);
        table.files.remove(&number);
        Ok(())
    }

    pub(crate) fn path(&self, number: u64) -> PathBuf {
        let other = self.table.lock().others.get(&number).copied();
        self.own_path(number, other)
    }

    /// `other`: of which other epoch its file is.
    fn own_path(&self, number: u64, other: Option<u32>) -> PathBuf {
        self.dir.join(file_name_of(number, other.unwrap_or(self.epoch)))
    }

    pub(crate) fn prepared_end(&self) -> Lsn {
        Lsn(self.prepared_end.load(Ordering::Acquire))
    }

    pub(crate) fn oldest(&self) -> Lsn {
        Lsn(self.oldest.load(Ordering::Acquire))
    }

    /// Keeps everything from `lsn` on for `name`.
    pub(crate) fn hold(&self, name: &str, lsn: Lsn) -> Result<u64> {
        let mut table = self.table.lock();
        let oldest = Lsn(table.first * self.segment_bytes);
        table.holds.add(name, lsn, oldest)
    }

    pub(crate) fn change_holds(&self, change: impl FnOnce(&mut Holds)) {
        change(&mut self.table.lock().holds);
    }

    /// The holder of the lowest position.
    pub(crate) fn lowest_holder(&self) -> Option<LogHolder> {
        self.table.lock().holds.lowest().cloned()
    }

    pub(crate) fn holders(&self) -> Vec<LogHolder> {
        self.table.lock().holds.list()
    }

    /// The open file of a kept segment.
    pub(crate) fn file(&self, number: u64) -> Result<Arc<dyn File>> {
        let mut table = self.table.lock();
        if number < table.first || number >= table.prepared {
            return Err(Error::corrupt(format!(
                "log segment {number} is not kept (kept are {} to {})",
                table.first,
                table.prepared - 1
            )));
        }
        if let Some(file) = table.files.get(&number) {
            return Ok(Arc::clone(file));
        }
        let other = table.others.get(&number).copied();
        let file = self.vfs.open(&self.own_path(number, other), OpenMode::ReadWrite)?;
        table.files.insert(number, Arc::clone(&file));
        Ok(file)
    }

    /// Another handle of the file of a segment of this opening.
    pub(crate) fn another_handle(&self, number: u64) -> Result<Arc<dyn File>> {
        self.vfs.open(&self.path(number), OpenMode::ReadWrite)
    }

    fn fill_with_zeros(&self, file: &dyn File, from: u64) -> Result<()> {
        let zeros = vec![0; ZERO_FILL_BYTES.min(self.segment_bytes as usize)];
        let mut at = from;
        while at < self.segment_bytes {
            let n = (self.segment_bytes - at).min(zeros.len() as u64);
            file.write_at(&zeros[..n as usize], at)?;
            at += n;
        }
        Ok(())
    }

    /// Prepares every segment up to and including `number`.
    pub(crate) fn prepare(&self, number: u64, counters: &Counters) -> Result<()> {
        let _maintenance = self.maintenance.lock();
        loop {
            let next = self.table.lock().prepared;
            if next > number {
                return Ok(());
            }
            let path = self.own_path(next, None);
            let made = self.make(&path);
            if made.is_err() {
                // Best effort: a half-made file would only take space.
                let _ = self.vfs.remove(&path);
            }
            let file = made?;
            let mut table = self.table.lock();
            table.files.insert(next, file);
            table.prepared = next + 1;
            self.prepared_end.store(table.prepared * self.segment_bytes, Ordering::Release);
            Counters::add(&counters.segments_created, 1);
        }
    }

    fn make(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = self.vfs.open(path, OpenMode::Create)?;
        self.fill_with_zeros(&*file, 0)?;
        file.sync()?;
        self.vfs.sync_dir(&self.dir)?;
        Ok(file)
    }

    /// Gives up the segments that lie wholly below `before` and that nobody holds; the log's end is in
    /// segment `current`. Up to `spares` of them become prepared segments, the
    /// others are removed. Returns the bytes given up.
    pub(crate) fn truncate(&self, before: Lsn, current: u64, spares: u64, counters: &Counters) -> Result<u64> {
        let _maintenance = self.maintenance.lock();
        let (first, keep_from, already_prepared, mut others) = {
            let mut table = self.table.lock();
            let holder = table.holds.lowest().filter(|_| !PlantedInLog::SkippedHold.is_planted());
            let before = holder.map_or(before, |holder| holder.lsn.min(before));
            let keep_from = (before.0 / self.segment_bytes).min(current);
            let first = table.first;
            if keep_from <= first {
                return Ok(0);
            }
            // From here on nobody opens them.
            table.first = keep_from;
            table.files.retain(|number, _| *number >= keep_from);
            let kept = table.others.split_off(&keep_from);
            let others = std::mem::replace(&mut table.others, kept);
            self.oldest.store(keep_from * self.segment_bytes, Ordering::Release);
            (first, keep_from, table.prepared, others)
        };
        let freed = keep_from - first;
        let mut prepared = already_prepared;
        for number in first..keep_from {
            let other = others.remove(&number);
            // A file of another epoch may still be written to by that.
            if prepared.saturating_sub(current + 1) < spares && other.is_none() {
                self.vfs.rename(&self.own_path(number, None), &self.own_path(prepared, None))?;
                prepared += 1;
            } else {
                self.vfs.remove(&self.own_path(number, other))?;
            }
        }
        self.vfs.sync_dir(&self.dir)?;
        Counters::add(&counters.segments_recycled, prepared - already_prepared);
        self.table.lock().prepared = prepared;
        self.prepared_end.store(prepared * self.segment_bytes, Ordering::Release);
        Ok(freed * self.segment_bytes)
    }
}

/// Writes again what stands from `from` to `to`.
fn rewrite(file: &dyn File, from: u64, to: u64) -> Result<()> {
    let mut buf = vec![0; REWRITE_BYTES.min(to.saturating_sub(from) as usize)];
    let mut at = from;
    while at < to {
        let len = ((to - at) as usize).min(buf.len());
        // Behind the last block's padding the file may end.
        let read = file.read_at(&mut buf[..len], at)?;
        if read == 0 {
            break;
        }
        file.write_at(&buf[..read], at)?;
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(segment_file_name(0x1f), "000000000000001f.log");
        assert_eq!(parse_file_name("000000000000001f.log"), Some((0x1f, 0)));
        assert_eq!(file_name_of(0x1f, 0xab), "000000000000001f-000000ab.log");
        assert_eq!(parse_file_name("000000000000001f-000000ab.log"), Some((0x1f, 0xab)));
        for bad in [
            "1f.log",
            "000000000000001F.log",
            "000000000000001f.tmp",
            "+00000000000001f.log",
            "000000000000001f-ab.log",
            "000000000000001f-00000000.log",
            "000000000000001f-.log",
        ] {
            assert_eq!(parse_file_name(bad), None, "{bad}");
        }
    }
}
