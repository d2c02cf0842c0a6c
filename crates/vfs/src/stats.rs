//! Counters of file calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A reading of the counters of one [`Vfs`](crate::Vfs); all count from its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VfsStats {
    /// Read calls.
    pub reads: u64,
    /// Write calls.
    pub writes: u64,
    /// Syncs of files and folders.
    pub syncs: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// The live counters behind [`VfsStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
    }
    pub(crate) fn write(&self, bytes: usize) {
        self.writes.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes as u64, Relaxed);
    }
    pub(crate) fn sync(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }
    pub(crate) fn snapshot(&self) -> VfsStats {
        VfsStats {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }
}
