//! The aborted-transaction map (Constant Time Recovery, section 3.3.2): ids whose row
//! versions are to be ignored until the cleaner has reverted them all.
//!
//! # Size
//! The map holds ids of top-level and sub-transactions alike, as a compressed set
//! ([`TxIdSet`]): ids that follow each other cost nothing, others 4 bytes at most and, where
//! they are dense, a bit. Looking one up, adding a range, the oldest one, and copying the
//! set for a sweep or a checkpoint do not depend on how many there are, or on their
//! logarithm only; `docs/measurements/aborted-map.md` has the numbers. *How many* there are
//! is bounded by the cleaner: each complete sweep forgets all that were there when it began.
//!
//! # Invariants
//! 1. An id is in the set before its state says that it is aborted, and stays until no
//!    version carries it.
//! 2. What operators are told besides ([`AbortedDetails`]) is bounded and may be incomplete.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use resurgam_base::{Lsn, TxId};

use crate::atm_details::{AbortedDetails, AbortedTx};
use crate::id_set::TxIdSet;

/// What operators see of the map.
#[derive(Clone, Debug, Default)]
pub struct AbortedList {
    /// Ids in the map, sub-transactions included.
    pub ids: u64,
    /// The oldest one and the newest [`DETAILS_MAX`](crate::DETAILS_MAX), by id.
    pub transactions: Vec<AbortedTx>,
    /// Some between these have been left out.
    pub cut_off: bool,
}

/// See the module.
#[derive(Default)]
pub struct AbortedMap {
    ids: RwLock<TxIdSet>,
    /// Of `ids`, to be read without its lock: most databases have none, most of the time.
    len: AtomicU64,
    /// Never locked together with `ids`.
    details: Mutex<AbortedDetails>,
}

impl AbortedMap {
    pub fn contains(&self, id: TxId) -> bool {
        self.len.load(Ordering::SeqCst) != 0 && self.ids.read().contains(id)
    }
    /// Adds inclusive ranges of ids, aborted together; operators know them as `tx`.
    pub fn insert(&self, ranges: &[(TxId, TxId)], tx: AbortedTx) {
        self.change(|ids| {
            for (first, last) in ranges {
                ids.insert_range(*first, *last);
            }
        });
        self.details.lock().note(tx);
    }
    /// Adds what recovery found.
    pub fn restore(&self, found: &TxIdSet, details: &AbortedDetails) {
        self.change(|ids| ids.insert_all(found));
        let mut ours = self.details.lock();
        details.iter().for_each(|tx| ours.note(*tx));
    }
    /// Forgets `gone`: all their versions are reverted.
    pub fn forget(&self, gone: &TxIdSet) {
        self.change(|ids| ids.remove_all(gone));
        self.details.lock().forget(gone);
    }
    fn change(&self, change: impl FnOnce(&mut TxIdSet)) {
        let mut ids = self.ids.write();
        change(&mut ids);
        self.len.store(ids.len(), Ordering::SeqCst);
    }
    /// Number of ids, sub-transactions included.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::SeqCst)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All ids, as of now: a copy that shares what is not changed later.
    pub fn ids(&self) -> TxIdSet {
        self.ids.read().clone()
    }
    /// The newest `most` of what is known of them, by id.
    pub fn newest(&self, most: usize) -> Vec<AbortedTx> {
        self.details.lock().newest(most)
    }
    /// For operators.
    pub fn snapshot(&self) -> AbortedList {
        let (mut transactions, given_up) = {
            let details = self.details.lock();
            (details.newest(usize::MAX), details.given_up())
        };
        let (ids, oldest) = {
            let ids = self.ids.read();
            (ids.len(), ids.first())
        };
        // The oldest is what holds things back: it is listed even when nothing else is known
        // of it.
        let missing = oldest.filter(|id| transactions.first().is_none_or(|tx| *id < tx.id));
        if let Some(id) = missing {
            transactions.insert(0, AbortedTx { id, lsn: Lsn::NONE, aborted_us: 0, began_us: 0 });
        }
        AbortedList { ids, transactions, cut_off: missing.is_some() || oldest.is_some_and(|id| id <= given_up) }
    }
    /// The lowest aborted id, and when it aborted, in microseconds since 2000-01-01 UTC; 0 =
    /// unknown.
    pub fn oldest_since(&self) -> Option<(TxId, i64)> {
        let oldest = self.oldest()?;
        let since = self.details.lock().get(oldest).map_or(0, |tx| tx.aborted_us);
        Some((oldest, since))
    }
    /// The lowest aborted id.
    pub fn oldest(&self) -> Option<TxId> {
        self.ids.read().first()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::DETAILS_MAX;

    fn tx(id: u64) -> AbortedTx {
        AbortedTx { id: TxId(id), lsn: Lsn(id * 100), aborted_us: id as i64, began_us: 0 }
    }

    #[test]
    fn what_operators_see_is_bounded_and_names_the_oldest() {
        let map = AbortedMap::default();
        map.insert(&[(TxId(1), TxId(1)), (TxId(3), TxId(5))], tx(1));
        assert_eq!(map.snapshot().transactions, [tx(1)]);
        let many = DETAILS_MAX as u64 + 10;
        for id in (0..many).map(|i| 10 + i * 2) {
            map.insert(&[(TxId(id), TxId(id))], tx(id));
        }
        let list = map.snapshot();
        assert_eq!((list.ids, list.transactions.len(), list.cut_off), (many + 4, DETAILS_MAX, true));
        assert_eq!(list.transactions[0], tx(1), "the oldest one stays");
        assert_eq!(list.transactions.last(), Some(&tx(10 + (many - 1) * 2)));
        assert!(map.contains(TxId(10)) && map.contains(TxId(4)) && !map.contains(TxId(11)));
        let all = map.ids();
        let late = 20 + many * 2;
        map.insert(&[(TxId(late), TxId(late))], tx(late));
        map.forget(&all);
        let list = map.snapshot();
        assert_eq!((list.ids, list.cut_off), (1, false), "what came later stays");
        assert_eq!((list.transactions, map.oldest()), (vec![tx(late)], Some(TxId(late))));
        map.restore(&TxIdSet::from_iter([TxId(2)]), &AbortedDetails::default());
        let list = map.snapshot();
        assert_eq!((list.transactions[0].id, list.cut_off), (TxId(2), true), "named though unknown");
    }

    /// Readers, a writer and one who forgets; each id is in from its insert to its forget.
    #[test]
    fn readers_beside_changes() {
        let map = AbortedMap::default();
        map.insert(&[(TxId(1), TxId(1))], tx(1));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    assert!(map.contains(TxId(1)) && !map.contains(TxId(0)));
                    std::thread::yield_now();
                }
            });
            for id in 2..20_000u64 {
                let at = id * 7;
                map.insert(&[(TxId(at), TxId(at + 3))], tx(at));
                assert!(map.contains(TxId(at + 3)));
                let mut mine = TxIdSet::default();
                mine.insert_range(TxId(at), TxId(at + 3));
                if id % 2 == 0 {
                    map.forget(&mine);
                    assert!(!map.contains(TxId(at)));
                }
            }
            done.store(true, Ordering::SeqCst);
            assert!(reader.join().is_ok());
        });
        assert_eq!(map.len(), 1 + 4 * 9_999);
    }
}
