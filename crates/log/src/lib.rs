//! The write-ahead log: one stream of records, grouped into checksummed blocks.
//!
//! This crate knows positions, atomicity and durability; the body of a record is
//! opaque bytes to it.
//!
//! # The stream
//! An [`Lsn`](resurgam_base::Lsn) is a byte position in the stream, block headers
//! included, and is never reused. The stream is cut into segment files of equal
//! size, named by the number `lsn / segment_bytes` in 16 hexadecimal digits; the
//! first one of a new database is number 1, so that LSN 0 stays "none".
//!
//! ```text
//! segment n                                  segment n + 1
//! |block|pad|block....|pad|block|pad|SKIP....|block|pad| ...
//!  ^512-aligned                      ^fills what no group fitted into
//! block  = header (48 bytes), payload = groups back to back
//! group  = records back to back; first and last are flagged
//! record = header (48 bytes), body
//! ```
//!
//! # Invariants
//! 1. A group lies within one block, a block within one segment; so one checksum
//!    decides over a whole group: all of its records count, or none.
//! 2. A block is written once; once synced its bytes never change until its
//!    segment is recycled.
//! 3. The end of the log is the first position at which no valid block of the
//!    expected position, predecessor and epoch (not below the last one's) is
//!    found. The epoch is raised at each opening for writing, so blocks that
//!    lie behind the end from before a crash never become its continuation.
//! 4. `flushed_lsn` only moves over blocks that were written and synced, all before
//!    them included: with several flushes under way what is durable behind a hole is
//!    not acknowledged, and no log after a crash.
//! 5. A write or sync that failed stops the log for good: nothing is retried,
//!    nothing later is acknowledged.
//!
//! # Locking
//! In this order, each held briefly unless noted: flights (with a condition variable;
//! the lock is not held during a write, a sync or an acknowledgement, and the sink is
//! given blocks under it) → segment maintenance (held
//! during preparation and recycling) → segment table. The buffers, the block
//! cache, the tail for followers, memory of blocks that are gone and the table of waiting tasks are leaves: nothing is locked and no file
//! is touched while one of them is held.

mod block;
mod buffers;
mod config;
mod core;
mod decoded;
mod fetch;
mod flights;
mod follow;
mod group;
mod holds;
mod log;
mod planted;
mod reader;
mod record;
mod sealed;
mod segments;
mod sink;
mod stats;
mod tail;
mod waiters;

pub use block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader};
pub use config::LogConfig;
pub use core::is_log_full;
pub use decoded::{Block, BlockMark};
pub use follow::{LogBlock, LogFollower};
pub use group::Group;
pub use holds::{LogHold, LogHolder};
pub use log::{Appended, Log};
#[doc(hidden)]
pub use planted::PlantedInLog;
pub use reader::{GroupRef, LogEnd, LogReader, Opening, WhyStopped};
pub use record::{OwnedRecord, RECORD_HEADER_BYTES, RecordHeader, RecordKind, RecordRef};
pub use segments::{
    oldest_segment, segment_bytes_of, segment_epoch_of, segment_file_name, segment_number_of, segment_path,
};
pub use sink::LogSink;
pub use stats::LogStats;
pub use waiters::FlushTicket;

#[cfg(test)]
mod tests;
