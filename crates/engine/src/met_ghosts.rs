//! Deleted rows that cursors pass over.
//!
//! A deleted row stays on its leaf, a *ghost*, until nobody needs what it was. Where rows are taken from the front of a table, as
//! from a queue, they gather before the first row that is left, and every reader would walk all of them until the cleaner has come by.
//! So a cursor that has passed over many which nobody needs, before the first row that it sees, has their leaf cleaned,
//! and taken out of its tree if nothing is left of it. Each leaf is cleaned once, by whoever meets it first; the others find it gone.
//!
//! # Invariants
//! 1. It changes no answer: only what no snapshot needs goes (`versions/src/prune.rs`), as the cleaner and writers have it go.
//! 2. The cursor has nothing latched, and goes on from a key, not from a place on a page.
//! 3. A reader does not fail, or wait, for the sake of order: what cannot be cleaned stays, and near the bound of the log all does.

use std::sync::atomic::Ordering;

use resurgam_base::{CommitTs, PageId, TxId};
use resurgam_btree::Tree;
use resurgam_page::LeafRecord;
use resurgam_txn::{Status, TxManager};
use resurgam_versions::remove_ghosts;

use crate::database::Database;

/// On one leaf; fewer cost less to pass over than to remove.
const MANY: u32 = 16;

/// What was passed over on one leaf before the first row that was seen.
#[derive(Default)]
pub(crate) struct MetGhosts {
    /// Read when the first is met.
    horizon: Option<CommitTs>,
    /// Rows of one leaf are often of one transaction.
    last: (TxId, bool),
    unneeded: u32,
}

impl MetGhosts {
    /// Another walk begins.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// Another leaf begins.
    pub fn clear(&mut self) {
        self.unneeded = 0;
    }

    /// A record that the cursor does not see.
    pub fn pass(&mut self, txs: &TxManager, record: &LeafRecord<'_>) {
        if record.is_ghost() && self.is_for_all(txs, record.xid) {
            self.unneeded += 1;
        }
    }

    fn is_for_all(&mut self, txs: &TxManager, xid: TxId) -> bool {
        if xid.is_none() || self.last.0 != xid {
            let horizon = *self.horizon.get_or_insert_with(|| txs.horizon());
            let seen = xid.is_none() || matches!(txs.status(xid), Status::Committed(ts) if ts <= horizon);
            self.last = (xid, seen);
        }
        self.last.1
    }

    /// Whether a leaf with so many records is to be cleaned.
    pub fn are_many(&self, records: u16) -> bool {
        self.unneeded >= MANY || (self.unneeded > 0 && self.unneeded == u32::from(records))
    }
}

impl Database {
    /// Cleans a leaf that a cursor has passed over.
    pub(crate) fn remove_met_ghosts(&self, tree: Tree, page: PageId, key: &[u8]) {
        let inner = self.inner();
        if inner.stopping.load(Ordering::Relaxed) || !self.has_log_room() {
            return;
        }
        if let Ok(rows) = remove_ghosts(&inner.pool, &inner.txs, tree, key, page) {
            inner.cleaner.add_removed_by_readers(rows);
        }
    }
}
