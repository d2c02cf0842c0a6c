//! The aborted-transaction map (Constant Time Recovery, section 3.3.2): ids whose row
//! versions are to be ignored until the cleaner has reverted them all.

use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;
use resurgam_base::{Lsn, TxId};

/// What is kept of an aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTx {
    pub id: TxId,
    /// Where its ABORT record is, or where recovery declared it aborted.
    pub lsn: Lsn,
    /// Microseconds since 2000-01-01 UTC; 0 = unknown (aborted by a crash).
    pub aborted_us: i64,
}

/// See the module.
#[derive(Default)]
pub struct AbortedMap {
    map: RwLock<HashMap<TxId, AbortedTx>>,
    len: AtomicUsize,
}

impl AbortedMap {
    pub fn contains(&self, id: TxId) -> bool {
        self.len.load(Ordering::SeqCst) != 0 && self.map.read().contains_key(&id)
    }
    pub fn insert(&self, tx: AbortedTx) {
        let mut map = self.map.write();
        map.insert(tx.id, tx);
        self.len.store(map.len(), Ordering::SeqCst);
    }
    /// Forgets `ids`: all their versions are reverted.
    pub fn forget(&self, ids: &[TxId]) {
        let mut map = self.map.write();
        for id in ids {
            map.remove(id);
        }
        self.len.store(map.len(), Ordering::SeqCst);
    }
    pub fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All entries, by id.
    pub fn snapshot(&self) -> Vec<AbortedTx> {
        let mut all: Vec<AbortedTx> = self.map.read().values().copied().collect();
        all.sort_by_key(|tx| tx.id);
        all
    }
    /// The lowest aborted id.
    pub fn oldest(&self) -> Option<TxId> {
        self.map.read().keys().min().copied()
    }
}
