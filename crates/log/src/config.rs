//! Sizes of the log.

use resurgam_base::{Error, ErrorKind, Lsn, Result};

use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES};
use crate::flights::FLIGHTS_MAX;

/// Settings of a [`Log`](crate::Log). `segment_bytes` is part of the format: a
/// log must be opened with the value it was made with.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Size of a segment file, in bytes; a multiple of 512.
    pub segment_bytes: u64,
    /// Most payload bytes of a block, and therefore of a group.
    pub block_payload_bytes_max: usize,
    /// Appended bytes kept in memory before `append` waits for the disk.
    pub buffer_bytes_max: usize,
    /// Segments prepared ahead of the end, and kept when the log is truncated.
    pub spare_segments: u64,
    /// Each opening writes files of its own, with its epoch in their names: a writer of an earlier one, on another machine perhaps, that
    /// goes on to write, writes to nothing that counts ([`LogSink`](crate::LogSink)).
    pub own_files: bool,
    /// Flushes under way at once, at most, from 1 to 16: they are acknowledged in order, whichever is durable first.
    pub flights: usize,
    /// For tests, where it is not 0: a flush makes several flights, and does what belongs to each in an order that follows from this number.
    #[doc(hidden)]
    pub shuffled: u64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            block_payload_bytes_max: 256 << 10,
            buffer_bytes_max: 16 << 20,
            spare_segments: 2,
            own_files: false,
            flights: 1,
            shuffled: 0,
        }
    }
}

impl LogConfig {
    /// The first block of a new log: the start of segment 1.
    pub fn first_lsn(&self) -> Lsn {
        Lsn(self.segment_bytes)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let bad = |what: &str| Err(Error::new(ErrorKind::InvalidParameter, what));
        if self.segment_bytes < 4096 || !self.segment_bytes.is_multiple_of(BLOCK_ALIGN as u64) {
            return bad("a log segment must be a multiple of 512 bytes, and 4096 at least");
        }
        if self.segment_bytes > 1 << 30 {
            return bad("a log segment must not be larger than 1 GB");
        }
        let block = (self.block_payload_bytes_max + BLOCK_HEADER_BYTES) as u64;
        if !(1..=FLIGHTS_MAX).contains(&self.flights) {
            return bad("from 1 to 16 flushes of the log can be under way at once");
        }
        if self.block_payload_bytes_max == 0 || block > self.segment_bytes {
            return bad("a log block must fit into a segment");
        }
        Ok(())
    }
}
