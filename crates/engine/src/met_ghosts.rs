//! Deleted rows that cursors pass over.
//!
//! A deleted row stays on its leaf, a *ghost*, until nobody needs what it was. Where rows are taken from the front of a table, as
//! from a queue, they gather before the first row that is left, and every reader would walk all of them until the cleaner has come by.
//! - Those that nobody needs: a cursor that has passed over many before the first row that it sees has their leaf cleaned, and
//!   taken out of its tree if nothing is left of it. Each leaf is cleaned once, by whoever meets it first; the others find it gone.
//! - Those that must stay, for an older snapshot or since their transaction has not ended: it notes the range, and others jump over it
//!   (`versions/src/empty_spans.rs`). When nobody needs them any more, who jumps has a few of the leaves cleaned.
//!
//! # Invariants
//! 1. It changes no answer: only what no snapshot needs goes (`versions/src/prune.rs`), as the cleaner and writers have it go, and
//!    only ranges are jumped over in which the cursor's view sees nothing.
//! 2. The cursor has nothing latched, and goes on from a key, not from a place on a page.
//! 3. A reader does not fail, or wait, for the sake of order: what cannot be cleaned stays, and near the bound of the log all does.

use std::sync::atomic::Ordering;

use resurgam_base::{CommitTs, PageId, Result, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::{Access, to_the_end};
use resurgam_page::{LeafRecord, leaf};
use resurgam_txn::Status;
use resurgam_versions::{Passed, PlantedJump, View, remove_ghosts};

use crate::database::Database;

/// From how many on something is done about ghosts that are passed over; fewer cost less to pass over again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostLimits {
    /// On one leaf, those that nobody needs: the leaf is cleaned.
    pub cleaned_from: u32,
    /// In one walk, those that must stay: ranges of the tree are noted from then on.
    pub noted_from: u64,
    /// A range that is noted, or is to grow, has so many.
    pub range_from: u64,
}

impl Default for GhostLimits {
    fn default() -> Self {
        Self { cleaned_from: 16, noted_from: 64, range_from: 16 }
    }
}

/// Leaves that a cursor has cleaned in one walk: after a large deletion readers share the work, and none does all of it.
const CLEANED_MAX: u32 = 64;
/// Leaves that a cursor has cleaned of a range that it jumped over.
const LEAVES_CLEANED: usize = 4;

/// What was passed over before the first row that was seen.
#[derive(Default)]
pub(crate) struct MetGhosts {
    /// Read when the first is met.
    horizon: Option<CommitTs>,
    /// Rows of one leaf are often of one transaction.
    last: Option<(TxId, Status)>,
    /// Who deleted the row that was passed last, if the view sees that; else none. And whether nobody needs that row.
    last_ghost: TxId,
    last_unneeded: bool,
    /// On this leaf: ghosts that nobody needs.
    unneeded: u32,
    /// Of the whole walk.
    unneeded_in_all: u64,
    /// From the begin of the walk on, as long as there were only ghosts that the view sees as such.
    passed: Passed,
    interrupted: bool,
    /// Leaves that were cleaned in this walk.
    cleaned: u32,
}

impl MetGhosts {
    /// Another walk begins.
    pub fn begin(&mut self) {
        let mut edge = std::mem::take(&mut self.passed.edge);
        edge.clear();
        *self = Self { passed: Passed { edge, ..Passed::default() }, ..Self::default() };
    }

    /// Another leaf begins.
    pub fn clear(&mut self) {
        self.unneeded = 0;
    }

    /// A record that the cursor does not see.
    pub fn pass(&mut self, view: &View<'_>, record: &LeafRecord<'_>) {
        let status = match self.last {
            Some((xid, status)) if xid == record.xid => status,
            _ if record.xid.is_none() => Status::Committed(CommitTs::NONE),
            _ => {
                let status = view.txs.status(record.xid);
                self.last = Some((record.xid, status));
                status
            }
        };
        if !record.is_ghost() {
            self.interrupted = true;
            return;
        }
        let is_seen = match status {
            Status::Committed(ts) => {
                let horizon = *self.horizon.get_or_insert_with(|| view.txs.horizon());
                self.passed.seen.ts = self.passed.seen.ts.max(ts);
                self.last_unneeded = ts <= horizon;
                ts <= view.ts
            }
            Status::Active(top) if top == view.own && view.own.is_some() && record.xid < view.hidden_from => {
                let seen = &mut self.passed.seen;
                let newest = seen.own.map_or(record.xid, |(_, newest)| newest.max(record.xid));
                seen.own = Some((top, newest));
                self.last_unneeded = false;
                true
            }
            Status::Active(_) | Status::Aborted | Status::Unknown => {
                self.last_unneeded = false;
                false
            }
        };
        self.interrupted |= !is_seen;
        self.last_ghost = if is_seen { record.xid } else { TxId::NONE };
        self.count(record.key);
    }

    /// Passes a record that deletes its row as the one before it did, which the view sees: what is true of that is true of it.
    #[inline]
    pub fn pass_alike(&mut self, record: &[u8]) -> bool {
        let alike = self.last_ghost.is_some()
            && leaf::flags_of(record) & leaf::GHOST != 0
            && (leaf::xid_of(record) == self.last_ghost || PlantedJump::AlikeByAnyone.is_planted());
        if alike {
            self.count(leaf::key_of(record));
        }
        alike
    }

    fn count(&mut self, key: &[u8]) {
        self.unneeded += u32::from(self.last_unneeded);
        self.unneeded_in_all += u64::from(self.last_unneeded);
        if !self.interrupted {
            self.passed.ghosts += 1;
            self.passed.edge.clear();
            self.passed.edge.extend_from_slice(key);
        }
    }

    /// Whether a leaf with so many records is to be cleaned.
    pub fn are_many(&mut self, limits: GhostLimits, records: u16) -> bool {
        let many = self.cleaned < CLEANED_MAX
            && (self.unneeded >= limits.cleaned_from || (self.unneeded > 0 && self.unneeded == u32::from(records)));
        self.cleaned += u32::from(many);
        many
    }

    /// What was passed over from the begin of the walk on, if it is worth a range.
    pub fn passed(&self, limits: GhostLimits) -> Option<&Passed> {
        Some(&self.passed).filter(|passed| passed.ghosts >= limits.range_from.max(1))
    }

    /// Whether it is worth it to note such ranges of the tree.
    pub fn are_worth_a_note(&self, limits: GhostLimits) -> bool {
        self.passed.ghosts.saturating_sub(self.unneeded_in_all) >= limits.noted_from
    }
}

impl Database {
    /// Cleans a leaf that a cursor has passed over.
    pub(crate) fn remove_met_ghosts(&self, tree: Tree, page: PageId, key: &[u8]) {
        if self.may_clean() {
            // It stays, then.
            let _ = to_the_end(|| self.clean_at(tree, page, key));
        }
    }

    /// Not while a page may have to be waited for that the reader does not need, and not where it cannot be logged.
    fn may_clean(&self) -> bool {
        let inner = self.inner();
        !inner.stopping.load(Ordering::Relaxed)
            && self.has_log_room()
            && self.check_running().is_ok()
            && inner.pool.pending_redo().is_caught_up()
            && inner.pool.restoring().is_none()
            && inner.pool.dead_devices().is_empty()
    }

    fn clean_at(&self, tree: Tree, page: PageId, key: &[u8]) -> Result<()> {
        let inner = self.inner();
        let rows = remove_ghosts(&inner.pool, &inner.txs, tree, key, page)?;
        inner.cleaner.add_removed_by_readers(rows);
        Ok(())
    }

    /// Cleans some leaves of a range that cursors jump over, if nobody needs it any more.
    pub(crate) fn clean_jumped_over(&self, tree: Tree) {
        to_the_end(|| self.clean_some_jumped_over(tree));
    }

    fn clean_some_jumped_over(&self, tree: Tree) {
        let inner = self.inner();
        let Some(part) = inner.empty_spans.unneeded(tree.object, || inner.txs.horizon()) else { return };
        if !self.may_clean() {
            return;
        }
        let mut from = part.from.clone();
        for _ in 0..LEAVES_CLEANED {
            let Ok(page) = tree.read_leaf(&inner.pool, &from, Access::Scan) else { return };
            let (id, upper, versions) = (page.id(), page.upper_fence().map(<[u8]>::to_vec), page.has_versions());
            drop(page);
            if versions && self.clean_at(tree, id, &from).is_err() {
                return;
            }
            match upper {
                Some(upper) if part.to.as_ref().is_none_or(|to| upper < *to) => from = upper,
                _ => return inner.empty_spans.cleaned(tree.object, &part, None),
            }
        }
        inner.empty_spans.cleaned(tree.object, &part, Some(&from));
    }
}
