//! Bounds for ids that are named: a damaged range must neither fill the memory nor leave no ids
//! for those that come after.

use resurgam_base::{Error, Result, TxId};
use resurgam_txn::TxIdSet;

use crate::tx_record::TX_ID_MAX;

/// Guards against ranges of ids that would fill the memory: no log names as many.
#[derive(Default)]
pub(super) struct Named(u64);

const NAMED_MAX: u64 = 1 << 36;
/// The same for transactions that are undone: each id takes a word of memory.
pub(super) const LOSER_IDS_MAX: u64 = 1 << 30;

impl Named {
    pub fn insert(&mut self, into: &mut TxIdSet, first: TxId, last: TxId) -> Result<()> {
        self.0 = self.0.saturating_add(last.0.saturating_sub(first.0)).saturating_add(1);
        if first > last || self.0 > NAMED_MAX || last > TX_ID_MAX {
            return Err(Error::corrupt(format!("a range of transaction ids from {first} to {last} is impossible")));
        }
        into.insert_range(first, last);
        Ok(())
    }
}

/// Refuses an id that no transaction has: those after it could not be counted any more.
pub(super) fn check_id(id: TxId) -> Result<()> {
    if id > TX_ID_MAX {
        return Err(Error::corrupt(format!("the transaction id {id} is impossible")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_ranges_are_refused() {
        let (mut named, mut set) = (Named::default(), TxIdSet::default());
        let far = TX_ID_MAX.0 + 1;
        for (first, last) in
            [(9, 8), (1, u64::MAX), (0, u64::MAX), (5, 5 + NAMED_MAX), (u64::MAX, u64::MAX), (far, far)]
        {
            let refused = Named::default().insert(&mut set, TxId(first), TxId(last));
            assert!(refused.is_err_and(|e| e.kind() == resurgam_base::ErrorKind::Corrupt), "{first} {last}");
        }
        assert!(set.is_empty());
        assert!(check_id(TxId(far)).is_err() && check_id(TX_ID_MAX).is_ok());
        assert!(named.insert(&mut set, TxId(3), TxId(1_000_000)).is_ok());
        assert!(named.insert(&mut set, TxId(1), TxId(NAMED_MAX)).is_err(), "all of them together");
        assert_eq!(set.len(), 999_998);
    }
}
