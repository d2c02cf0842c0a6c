//! Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// A mistake of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedInLog {
    None,
    /// The log is truncated as if nobody held it: neither the archive, nor a backup, a restore, a repair.
    SkippedHold,
    /// A flush is acknowledged when it is durable, whatever of those before it is.
    OutOfOrder,
    /// A block of an earlier epoch counts where one of this position is expected: what was left behind a hole continues what is written there.
    StaleBlock,
    /// Flushes that are under way at once sync through one handle.
    SharedHandle,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

thread_local! {
    static HERE: Cell<Option<PlantedInLog>> = const { Cell::new(None) };
}

impl PlantedInLog {
    /// For the whole process, from now on.
    pub fn plant(self) {
        PLANTED.store(self as u8, Ordering::SeqCst);
    }

    /// For this thread, from now on, whatever is planted for the process.
    pub fn plant_here(self) {
        HERE.set(Some(self));
    }

    /// Whether it is this one.
    pub(crate) fn is_planted(self) -> bool {
        HERE.get().map_or_else(|| PLANTED.load(Ordering::Relaxed), |here| here as u8) == self as u8
    }
}
