//! What stands between the files of the log and those who wait for them: a log that several processes could write, one after another, and
//! that others follow from elsewhere.
//!
//! # Contract
//! 1. [`LogSink::writing`] is given each block once, in order, before it is written; it must not wait.
//! 2. [`LogSink::durable`] is asked when blocks, and all before them, are durable in the files and nobody was told; in the order of the log, and
//!    once at a time, however many flushes are under way. When it refuses nobody ever is told: the log stops. So a header's durable position
//!    never covers what was refused.

use resurgam_base::{Lsn, Result};

use crate::follow::LogBlock;

/// See the module. Given to [`Log::set_sink`](crate::Log::set_sink).
pub trait LogSink: Send + Sync {
    /// These blocks are about to be written. Called within a flush, under its lock.
    fn writing(&self, blocks: &[LogBlock]);

    /// Everything below `upto` is durable in the files.
    ///
    /// # Errors
    /// That this process may not acknowledge it: another one has the log, or nobody knows.
    fn durable(&self, upto: Lsn) -> Result<()>;
}
