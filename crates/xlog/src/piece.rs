//! A block of the log on its way: its bytes, and what its header says.

use resurgam_base::{Lsn, Result};
use resurgam_log::Block;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub lsn: Lsn,
    /// Where the block after it begins.
    pub next: Lsn,
    /// The block before it; none for the first of all.
    pub prev: Lsn,
    pub epoch: u32,
    /// All below was durable, and acknowledged, when it was written; none: it does not say.
    pub durable: Lsn,
    /// Header and records.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// The block at `lsn`, checked.
    ///
    /// # Errors
    /// Those of [`Block::parse`].
    pub fn parse(bytes: Vec<u8>, lsn: Lsn, segment_bytes: u64) -> Result<Self> {
        let block = Block::parse(&bytes, lsn, segment_bytes)?;
        Ok(Self::of(&block, Vec::new())).map(|piece| Self { bytes, ..piece })
    }

    /// Of a block that was checked.
    pub fn of(block: &Block<'_>, bytes: Vec<u8>) -> Self {
        let header = block.header();
        Self {
            lsn: block.lsn(),
            next: block.next(),
            prev: header.prev,
            epoch: header.epoch,
            durable: header.durable.min(block.lsn()),
            bytes,
        }
    }
}
