//! The leaf that a transaction wrote last. Rows that follow each other need no descent: the leaf is asked first whether it is the one.
//!
//! A guess: whoever goes by it only tries the leaf's latch, and checks the leaf (`Tree::find_to_write`), so that it may name any page. It
//! is of one tree, and none is made for another: whoever writes there has nothing to do with that leaf. Where rows come in no order a
//! guess costs more than the descent by guides that it saves, so it is made only as long as guesses have been right.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use resurgam_base::{ObjectId, PageId};

/// Wrong guesses in a row after which none is made, where all before were right.
const TRUST_MAX: u8 = 4;

#[derive(Default)]
pub(crate) struct Near {
    leaf: AtomicU64,
    /// The tree that the leaf is of.
    tree: AtomicU32,
    trust: AtomicU8,
}

impl Near {
    /// The leaf of `tree` to try first, if that is worth it.
    pub fn hint(&self, tree: ObjectId) -> Option<PageId> {
        let is_worth_it = self.trust.load(Ordering::Relaxed) > 0 && self.tree.load(Ordering::Relaxed) == tree.0;
        is_worth_it.then(|| PageId(self.leaf.load(Ordering::Relaxed)))
    }

    /// A row of `tree` was written on `leaf`, if that is known.
    pub fn note(&self, tree: ObjectId, leaf: Option<PageId>) {
        let Some(leaf) = leaf else { return };
        let trust = self.trust.load(Ordering::Relaxed);
        // (Other threads of the transaction may write it as well: then it is one of the leaves, or one of the trees with the leaf of
        // another, which is refused.)
        self.tree.store(tree.0, Ordering::Relaxed);
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
        let (tree, other) = (ObjectId(20), ObjectId(21));
        let note = |leaf| near.note(tree, Some(PageId(leaf)));
        note(7);
        assert_eq!(near.hint(tree), None, "one row says nothing");
        note(7);
        assert_eq!(near.hint(tree), Some(PageId(7)));
        assert_eq!(near.hint(other), None, "another tree has nothing on it");
        (0..10).for_each(|_| note(7));
        // The leaf is full, and the next one is written.
        note(8);
        assert_eq!(near.hint(tree), Some(PageId(8)));
        (9..20).for_each(note);
        assert_eq!(near.hint(tree), None, "rows in no order");
        near.note(tree, None);
        assert_eq!(near.hint(tree), None);
    }
}
