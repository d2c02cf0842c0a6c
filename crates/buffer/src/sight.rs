//! What the last one who looked at every record of a leaf has found, for the next: who counts rows then looks at the page's header only.
//!
//! It is beside the page, in memory alone, and of the page's state at one LSN; it is no part of it, and needs no log.
//!
//! # Invariants
//! 1. It is written and read by who has the page latched, shared is enough. So whatever was found of an earlier state was written before
//!    the page changed, and the LSN, which is written last, says of which state the rest is.
//! 2. Who writes it side by side with others found the same number of ghosts, of the same state, and a time that is true as well.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use resurgam_base::{CommitTs, Lsn};

use crate::planted::Planted;

/// See the module.
#[derive(Default)]
pub(crate) struct Sight {
    /// The state of the page that it is of; 0: none.
    lsn: AtomicU64,
    /// Every record is of a transaction that has committed at or before.
    ts: AtomicU64,
    /// Records that delete their row.
    ghosts: AtomicU16,
}

impl Sight {
    /// What is known of the page as of `lsn`.
    #[inline]
    pub fn of(&self, lsn: Lsn) -> Option<(CommitTs, u16)> {
        let of = self.lsn.load(Ordering::Acquire);
        let known = of == lsn.0 || Planted::SightOfAnyState.is_planted();
        let known = known && of != 0;
        known.then(|| (CommitTs(self.ts.load(Ordering::Relaxed)), self.ghosts.load(Ordering::Relaxed)))
    }

    /// Of the page as of `lsn`.
    pub fn note(&self, lsn: Lsn, ts: CommitTs, ghosts: u16) {
        self.ts.store(ts.0, Ordering::Relaxed);
        self.ghosts.store(ghosts, Ordering::Relaxed);
        self.lsn.store(lsn.0, Ordering::Release);
    }

    /// Another page comes.
    pub fn forget(&self) {
        self.lsn.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_of_one_state() {
        let sight = Sight::default();
        assert_eq!(sight.of(Lsn::NONE), None);
        sight.note(Lsn(5), CommitTs(9), 2);
        assert_eq!(sight.of(Lsn(5)), Some((CommitTs(9), 2)));
        assert_eq!(sight.of(Lsn(6)), None);
        sight.forget();
        assert_eq!(sight.of(Lsn(5)), None);
        sight.note(Lsn::NONE, CommitTs(9), 2);
        assert_eq!(sight.of(Lsn::NONE), None);
    }
}
