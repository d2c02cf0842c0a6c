//! Single records by their LSN: for undo chains and on-demand redo.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::{Error, Lsn, Result};
use resurgam_vfs::File;

use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader};
use crate::record::{OwnedRecord, RECORD_HEADER_BYTES, RecordHeader, record_at};

/// Bytes of blocks kept after they were read and verified once. Undo after a crash goes back
/// through the log while its pages, each with records all over the log, are brought up to
/// date: with too few blocks every record would mean a block read again.
const CACHED_BYTES_MAX: usize = 64 << 20;

/// A block from disk that passed every check.
pub(crate) struct VerifiedBlock {
    start: Lsn,
    bytes: Vec<u8>,
    /// Where its records start, ascending.
    offsets: Vec<u32>,
}

impl VerifiedBlock {
    /// Memory that it takes.
    fn size(&self) -> usize {
        self.bytes.len() + self.offsets.len() * size_of::<u32>()
    }

    fn contains(&self, lsn: Lsn) -> bool {
        self.start <= lsn && lsn.0 < self.start.0 + self.bytes.len() as u64
    }

    /// The record at exactly `lsn`.
    pub(crate) fn record(&self, lsn: Lsn) -> Result<OwnedRecord> {
        let offset = lsn.0 - self.start.0;
        if u32::try_from(offset).is_ok_and(|offset| self.offsets.binary_search(&offset).is_ok()) {
            return Ok(record_at(&self.bytes, self.start, offset as usize)?.to_owned());
        }
        Err(Error::corrupt(format!(
            "LSN {lsn} is not that of a log record (it lies inside the block at LSN {})",
            self.start
        )))
    }
}

/// Recently used blocks.
#[derive(Default)]
pub(crate) struct BlockCache {
    inner: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    /// By their start, with when they were used last.
    blocks: BTreeMap<Lsn, (Arc<VerifiedBlock>, u64)>,
    /// The same the other way round: the first goes first.
    by_use: BTreeMap<u64, Lsn>,
    bytes: usize,
    uses: u64,
}

impl BlockCache {
    pub(crate) fn get(&self, lsn: Lsn) -> Option<Arc<VerifiedBlock>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let (start, (block, used)) = inner.blocks.range_mut(..=lsn).next_back()?;
        if !block.contains(lsn) {
            return None;
        }
        inner.uses += 1;
        inner.by_use.remove(&std::mem::replace(used, inner.uses));
        inner.by_use.insert(inner.uses, *start);
        Some(Arc::clone(block))
    }

    pub(crate) fn put(&self, block: Arc<VerifiedBlock>) {
        let mut inner = self.inner.lock();
        inner.remove(block.start);
        inner.uses += 1;
        let uses = inner.uses;
        inner.bytes += block.size();
        inner.by_use.insert(uses, block.start);
        inner.blocks.insert(block.start, (block, uses));
        // The newest stays, however large.
        while inner.bytes > CACHED_BYTES_MAX && inner.blocks.len() > 1 {
            let Some((_, oldest)) = inner.by_use.pop_first() else { return };
            inner.remove(oldest);
        }
    }

    /// Gives the memory back: when what reads single records in large numbers is over.
    pub(crate) fn clear(&self) {
        *self.inner.lock() = Cached::default();
    }
}

impl Cached {
    fn remove(&mut self, start: Lsn) {
        if let Some((block, used)) = self.blocks.remove(&start) {
            self.by_use.remove(&used);
            self.bytes -= block.size();
        }
    }
}

/// Reads and verifies the block around the record at `lsn` in its segment file.
///
/// # Errors
/// `Corrupt` when there is no intact block with a record at `lsn`.
pub(crate) fn read_block(file: &dyn File, lsn: Lsn, segment_bytes: u64) -> Result<VerifiedBlock> {
    let bad =
        |what: &str| Error::corrupt(format!("log record at LSN {lsn} in file \"{}\": {what}", file.path().display()));
    let in_segment = lsn.0 % segment_bytes;
    if in_segment + RECORD_HEADER_BYTES as u64 > segment_bytes {
        return Err(bad("no record fits there"));
    }
    let mut head = [0; RECORD_HEADER_BYTES];
    file.read_exact_at(&mut head, in_segment)?;
    let record = RecordHeader::decode_head(&head).map_err(|what| bad(&what))?;
    let block_at = in_segment
        .checked_sub(u64::from(record.offset_in_block))
        .filter(|at| at.is_multiple_of(BLOCK_ALIGN as u64))
        .ok_or_else(|| bad("it does not lead to the start of a block"))?;
    let start = Lsn(lsn.0 - u64::from(record.offset_in_block));

    let mut head = [0; BLOCK_HEADER_BYTES];
    file.read_exact_at(&mut head, block_at)?;
    let header = BlockHeader::decode(&head, start)
        .filter(|header| header.len() <= segment_bytes - block_at)
        .ok_or_else(|| bad("there is no block where it says its block starts"))?;
    let mut bytes = vec![0; header.len() as usize];
    file.read_exact_at(&mut bytes, block_at)?;
    if !BlockHeader::verify(&bytes)? {
        return Err(bad("the checksum of its block is wrong"));
    }
    let mut offsets = Vec::new();
    let mut at = BLOCK_HEADER_BYTES;
    while at < bytes.len() {
        offsets.push(at as u32);
        at += record_at(&bytes, start, at)?.header.len as usize;
    }
    Ok(VerifiedBlock { start, bytes, offsets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_goes_first_and_the_bound_holds() {
        let cache = BlockCache::default();
        let size = CACHED_BYTES_MAX / 4;
        let block = |at: u64| {
            let (start, bytes) = (Lsn(at * size as u64), vec![0; size - 8]);
            Arc::new(VerifiedBlock { start, bytes, offsets: Vec::new() })
        };
        for at in 0..4 {
            cache.put(block(at));
        }
        let inside = |at: u64| Lsn(at * size as u64 + 5);
        assert!(cache.get(inside(0)).is_some(), "used again");
        cache.put(block(3));
        cache.put(block(7));
        assert!(cache.get(inside(1)).is_none());
        assert!([0, 2, 3, 7].iter().all(|at| cache.get(inside(*at)).is_some()));
        assert!(cache.get(inside(6)).is_none());
        let inner = cache.inner.lock();
        assert_eq!((inner.blocks.len(), inner.by_use.len()), (4, 4));
        assert!(inner.bytes <= CACHED_BYTES_MAX);
    }
}
