//! Newtypes, errors, checksums and limits shared by every Resurgam crate. No I/O.
//!
//! A number that names something has a type of its own, so that a page id can
//! never be passed where a log position is meant.

mod crc;
mod error;
mod ids;
pub mod limits;
pub mod memory;
#[doc(hidden)]
pub mod pauses;
pub mod region;

pub use crc::checksum_shift;
pub use error::{Error, ErrorKind, Result};
pub use ids::{CommitTs, Lsn, ObjectId, PageId, SlotId, TxId};

/// CRC-32C (Castagnoli) of `bytes`; the checksum of pages, log blocks and double-write slots.
#[inline]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C continued from `seed` over `bytes`.
#[inline]
pub fn checksum_append(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}
