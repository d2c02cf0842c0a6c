//! A whole block whose bytes were checked: what those who copy the log elsewhere (an archive, a replica) are given.
//!
//! The same type serves both places that blocks come from: the bytes that a flush has just written, and those that a
//! [`LogReader`](crate::LogReader) read from a segment file.
//!
//! # Invariants
//! 1. Checksum, position and length are right; records fill the payload; groups are whole.
//! 2. A block without records is a SKIP.

use resurgam_base::{Error, Lsn, Result, checksum, checksum_append};

use crate::block::{BLOCK_HEADER_BYTES, BlockHeader};
use crate::record::{RecordRef, record_at};

/// What tells a block from every other one that a log, or the log of a copy of its database, can have at its position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockMark {
    pub lsn: Lsn,
    pub epoch: u32,
    /// The random number of the opening that wrote it; 0 in blocks of earlier versions.
    pub opening: u32,
    /// CRC-32C of all of it but for position, epoch, opening, and the durable position, which memory does not have.
    pub checksum: u32,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    header: BlockHeader,
    bytes: &'a [u8],
    next: Lsn,
}

impl<'a> Block<'a> {
    /// The block at `lsn`, whose header and payload are exactly `bytes`, of a log with segments of `segment_bytes`.
    ///
    /// # Errors
    /// `Corrupt`, naming the position, when these bytes are no such block; `NewerFormat`.
    pub fn parse(bytes: &'a [u8], lsn: Lsn, segment_bytes: u64) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(format!("log block at LSN {lsn}: {what}"));
        let header = bytes
            .first_chunk::<BLOCK_HEADER_BYTES>()
            .and_then(|head| BlockHeader::decode(head, lsn))
            .ok_or_else(|| bad("there is no block of this position"))?;
        let room = segment_bytes.checked_sub(lsn.0.checked_rem(segment_bytes).unwrap_or(u64::MAX));
        let right_length = header.len() == bytes.len() as u64 && room.is_some_and(|room| header.len() <= room);
        if !right_length || header.skip != header.is_empty() {
            return Err(bad("its length is wrong"));
        }
        if !BlockHeader::verify(bytes)? {
            return Err(bad("its checksum is wrong"));
        }
        let block = Self { header, bytes, next: header.next(segment_bytes) };
        let (mut at, mut in_group) = (BLOCK_HEADER_BYTES, false);
        while at < bytes.len() {
            let record = record_at(bytes, lsn, at)?;
            if record.header.first_of_group == in_group {
                return Err(bad("a group is not whole"));
            }
            in_group = !record.header.last_of_group;
            at += record.header.len as usize;
        }
        if in_group {
            return Err(bad("its last group is not whole"));
        }
        Ok(block)
    }

    /// A block that this process has made, or has checked: `bytes` are header and payload, and the header among them may
    /// not be filled in.
    pub(crate) fn trusted(header: BlockHeader, bytes: &'a [u8], segment_bytes: u64) -> Self {
        Self { header, bytes, next: header.next(segment_bytes) }
    }

    /// The decoded header.
    pub fn header(&self) -> &BlockHeader {
        &self.header
    }

    /// Its position.
    pub fn lsn(&self) -> Lsn {
        self.header.lsn
    }

    /// Header and records; of a block that was not parsed the header is not filled in.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where the block after it starts.
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// What tells it from every other block that a log can have there; the same whether it came from memory or from a file.
    pub fn mark(&self) -> BlockMark {
        let BlockHeader { lsn, prev, epoch, payload_len, opening, skip, durable: _ } = self.header;
        let mut head = [0; 13];
        head[..8].copy_from_slice(&prev.0.to_le_bytes());
        head[8..12].copy_from_slice(&payload_len.to_le_bytes());
        head[12] = u8::from(skip);
        let payload = self.bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
        BlockMark { lsn, epoch, opening, checksum: checksum_append(checksum(&head), payload) }
    }

    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = RecordRef<'a>> + use<'a> {
        let (bytes, lsn, mut at) = (self.bytes, self.header.lsn, BLOCK_HEADER_BYTES);
        std::iter::from_fn(move || {
            if at >= bytes.len() {
                return None;
            }
            // Checked when the block was parsed.
            let record = record_at(bytes, lsn, at).ok()?;
            at += record.header.len as usize;
            Some(record)
        })
    }
}
