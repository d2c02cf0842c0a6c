//! Which transactions' writes a statement sees.

use resurgam_base::{CommitTs, TxId};
use resurgam_txn::{Status, TxManager};

/// A statement's eye: a snapshot plus the transaction's own earlier writes.
#[derive(Clone, Copy)]
pub struct View<'t> {
    pub txs: &'t TxManager,
    /// Commits at or before this are seen.
    pub ts: CommitTs,
    /// The own transaction's top-level id, if it has one.
    pub own: TxId,
    /// Own writes under ids from here on are not seen: a statement that writes many rows
    /// writes under an id of its own and must not meet its own rows (Halloween).
    pub hidden_from: TxId,
}

impl View<'_> {
    /// Whether what `xid` wrote is seen.
    #[inline]
    pub fn sees(&self, xid: TxId) -> bool {
        if xid.is_none() {
            return true;
        }
        match self.txs.status(xid) {
            Status::Committed(ts) => ts <= self.ts,
            Status::Active(top) => top == self.own && self.own.is_some() && xid < self.hidden_from,
            Status::Aborted => false,
        }
    }
}
