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
        xid.is_none() || self.sees_and_notes(xid, &mut KnownSeen::default())
    }

    /// As [`View::sees`]; a transaction whose writes will always be seen is noted.
    pub(crate) fn sees_and_notes(&self, xid: TxId, known: &mut KnownSeen) -> bool {
        match self.txs.status(xid) {
            Status::Committed(ts) if ts <= self.ts => {
                *known = KnownSeen(xid);
                true
            }
            Status::Committed(_) => false,
            Status::Active(top) => top == self.own && self.own.is_some() && xid < self.hidden_from,
            // Whoever looks at what was before it is told of an id that was never given out.
            Status::Aborted | Status::Unknown => false,
        }
    }
}

/// A transaction whose writes a view is known to see, and always will: it is committed. Rows beside each other are often of
/// one transaction, and what became of it is asked once. For one view only.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownSeen(TxId);

impl KnownSeen {
    /// None: no transaction is known.
    pub fn of(xid: TxId) -> Self {
        Self(xid)
    }
    pub fn id(self) -> TxId {
        self.0
    }
    /// Whether what `xid` wrote is known to be seen.
    #[inline]
    pub fn includes(self, xid: TxId) -> bool {
        xid.is_none() || xid == self.0
    }
}
