//! The leaf that a transaction wrote last. Rows that follow each other need no descent: the leaf is asked first whether it is the one.
//!
//! A guess: whoever goes by it checks the leaf (`Tree::find_to_write`), so that it may name any page, of any tree. Where rows come in no
//! order a guess costs more than the descent by guides that it saves, so it is made only as long as guesses have been right.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use resurgam_base::PageId;

/// Wrong guesses in a row after which none is made, where all before were right.
const TRUST_MAX: u8 = 4;

#[derive(Default)]
pub(crate) struct Near {
    leaf: AtomicU64,
    trust: AtomicU8,
}

impl Near {
    /// The leaf to try first, if that is worth it.
    pub fn hint(&self) -> Option<PageId> {
        (self.trust.load(Ordering::Relaxed) > 0).then(|| PageId(self.leaf.load(Ordering::Relaxed)))
    }

    /// A row was written on `leaf`, if that is known.
    pub fn note(&self, leaf: Option<PageId>) {
        let Some(leaf) = leaf else { return };
        let trust = self.trust.load(Ordering::Relaxed);
        // (Other threads of the transaction may write it as well: then it is one of the leaves.)
        if self.leaf.load(Ordering::Relaxed) == leaf.0 {
            self.trust.store(trust.saturating_add(1).min(TRUST_MAX), Ordering::Relaxed);
        } else {
            self.leaf.store(leaf.0, Ordering::Relaxed);
            self.trust.store(trust.saturating_sub(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_tried_where_rows_follow_each_other() {
        let near = Near::default();
        let note = |leaf| near.note(Some(PageId(leaf)));
        note(7);
        assert_eq!(near.hint(), None, "one row says nothing");
        note(7);
        assert_eq!(near.hint(), Some(PageId(7)));
        (0..10).for_each(|_| note(7));
        // The leaf is full, and the next one is written.
        note(8);
        assert_eq!(near.hint(), Some(PageId(8)));
        (9..20).for_each(note);
        assert_eq!(near.hint(), None, "rows in no order");
        near.note(None);
        assert_eq!(near.hint(), None);
    }
}
