//! Single records by their LSN: for undo chains and on-demand redo.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::{Error, Lsn, Result};
use resurgam_vfs::File;

use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader};
use crate::record::{OwnedRecord, RECORD_HEADER_BYTES, RecordHeader, record_at};

/// Blocks kept after they were read and verified once.
const CACHED_BLOCKS_MAX: usize = 16;

/// A block from disk that passed every check.
pub(crate) struct VerifiedBlock {
    start: Lsn,
    bytes: Vec<u8>,
    /// Where its records start, ascending.
    offsets: Vec<u32>,
}

impl VerifiedBlock {
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

/// Recently used blocks, the latest first.
#[derive(Default)]
pub(crate) struct BlockCache {
    blocks: Mutex<VecDeque<Arc<VerifiedBlock>>>,
}

impl BlockCache {
    pub(crate) fn get(&self, lsn: Lsn) -> Option<Arc<VerifiedBlock>> {
        let mut blocks = self.blocks.lock();
        let at = blocks.iter().position(|block| block.contains(lsn))?;
        let block = blocks.remove(at)?;
        blocks.push_front(Arc::clone(&block));
        Some(block)
    }

    pub(crate) fn put(&self, block: Arc<VerifiedBlock>) {
        let mut blocks = self.blocks.lock();
        blocks.push_front(block);
        blocks.truncate(CACHED_BLOCKS_MAX);
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
