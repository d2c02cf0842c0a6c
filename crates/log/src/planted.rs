//! Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.

use std::sync::atomic::{AtomicU8, Ordering};

/// A mistake of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedInLog {
    None,
    /// The log is truncated as if nobody held it: neither the archive, nor a backup, a restore, a repair.
    SkippedHold,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

impl PlantedInLog {
    /// For the whole process, from now on.
    pub fn plant(self) {
        PLANTED.store(self as u8, Ordering::SeqCst);
    }

    /// Whether it is this one.
    pub(crate) fn is_planted(self) -> bool {
        PLANTED.load(Ordering::Relaxed) == self as u8
    }
}
