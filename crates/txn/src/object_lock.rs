//! Coarse locks on tables: writers of rows share a table, a change of its definition
//! has it alone. Readers take no lock: what they read is kept by their snapshot.
//!
//! A lock is held until its transaction ends. Who must wait waits for one of the holding
//! transactions and tries again; a pending exclusive request keeps new sharers out.

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use resurgam_base::{ObjectId, TxId};

/// How a table is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// To write rows.
    Share,
    /// To change the definition.
    Exclusive,
}

#[derive(Default)]
struct Entry {
    sharers: HashSet<TxId>,
    exclusive: Option<TxId>,
    pending: Option<TxId>,
}

const SHARDS: usize = 16;

/// The lock table.
#[derive(Default)]
pub struct ObjectLocks {
    shards: [Mutex<HashMap<ObjectId, Entry>>; SHARDS],
}

impl ObjectLocks {
    fn shard(&self, object: ObjectId) -> &Mutex<HashMap<ObjectId, Entry>> {
        &self.shards[object.0 as usize % SHARDS]
    }

    /// Tries to lock. `Err` names a transaction to wait for.
    pub fn try_lock(&self, object: ObjectId, tx: TxId, mode: LockMode) -> Result<(), TxId> {
        let mut shard = self.shard(object).lock();
        let entry = shard.entry(object).or_default();
        if let Some(holder) = entry.exclusive {
            return if holder == tx { Ok(()) } else { Err(holder) };
        }
        match mode {
            LockMode::Share => {
                if !entry.sharers.contains(&tx) {
                    if let Some(pending) = entry.pending.filter(|p| *p != tx) {
                        return Err(pending);
                    }
                    entry.sharers.insert(tx);
                }
                Ok(())
            }
            LockMode::Exclusive => {
                if let Some(other) = entry.sharers.iter().find(|t| **t != tx) {
                    let other = *other;
                    entry.pending.get_or_insert(tx);
                    return Err(other);
                }
                entry.sharers.clear();
                entry.pending = None;
                entry.exclusive = Some(tx);
                Ok(())
            }
        }
    }

    /// How `tx` holds `object`.
    pub fn mode_of(&self, object: ObjectId, tx: TxId) -> Option<LockMode> {
        let shard = self.shard(object).lock();
        let entry = shard.get(&object)?;
        match entry.exclusive {
            Some(holder) => (holder == tx).then_some(LockMode::Exclusive),
            None => entry.sharers.contains(&tx).then_some(LockMode::Share),
        }
    }

    /// Whether `tx` holds, or has asked for, `object` in a way that keeps someone out.
    pub fn is_holding(&self, object: ObjectId, tx: TxId) -> bool {
        let shard = self.shard(object).lock();
        shard.get(&object).is_some_and(|entry| {
            entry.exclusive == Some(tx) || entry.pending == Some(tx) || entry.sharers.contains(&tx)
        })
    }

    /// Takes back what `tx` has asked of `object` and not got. False: nothing.
    pub fn withdraw(&self, object: ObjectId, tx: TxId) -> bool {
        let mut shard = self.shard(object).lock();
        let Some(entry) = shard.get_mut(&object).filter(|entry| entry.pending == Some(tx)) else { return false };
        entry.pending = None;
        if entry.sharers.is_empty() && entry.exclusive.is_none() {
            shard.remove(&object);
        }
        true
    }

    /// Releases what `tx` holds on, or has asked of, `object`.
    pub fn release(&self, object: ObjectId, tx: TxId) {
        let mut shard = self.shard(object).lock();
        if let Some(entry) = shard.get_mut(&object) {
            entry.sharers.remove(&tx);
            if entry.exclusive == Some(tx) {
                entry.exclusive = None;
            }
            if entry.pending == Some(tx) {
                entry.pending = None;
            }
            if entry.sharers.is_empty() && entry.exclusive.is_none() && entry.pending.is_none() {
                shard.remove(&object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharers_keep_an_exclusive_out_and_it_keeps_new_sharers_out() {
        let locks = ObjectLocks::default();
        let t = ObjectId(1);
        assert!(locks.try_lock(t, TxId(1), LockMode::Share).is_ok());
        assert!(locks.try_lock(t, TxId(2), LockMode::Share).is_ok());
        assert!(locks.try_lock(t, TxId(3), LockMode::Exclusive).is_err());
        assert_eq!(locks.try_lock(t, TxId(4), LockMode::Share), Err(TxId(3)));
        assert!(locks.try_lock(t, TxId(1), LockMode::Share).is_ok(), "a holder may ask again");
        locks.release(t, TxId(1));
        locks.release(t, TxId(2));
        assert!(locks.try_lock(t, TxId(3), LockMode::Exclusive).is_ok());
        assert_eq!(locks.try_lock(t, TxId(1), LockMode::Share), Err(TxId(3)));
        locks.release(t, TxId(3));
        assert!(locks.try_lock(t, TxId(1), LockMode::Share).is_ok());
    }

    #[test]
    fn how_a_lock_is_held() {
        let locks = ObjectLocks::default();
        let t = ObjectId(1);
        assert_eq!(locks.mode_of(t, TxId(1)), None);
        assert!(locks.try_lock(t, TxId(1), LockMode::Share).is_ok());
        assert!(locks.try_lock(t, TxId(2), LockMode::Share).is_ok());
        assert!(locks.try_lock(t, TxId(1), LockMode::Exclusive).is_err());
        assert_eq!(locks.mode_of(t, TxId(1)), Some(LockMode::Share), "what was asked for is not held");
        assert_eq!(locks.try_lock(t, TxId(3), LockMode::Share), Err(TxId(1)));
        assert!(locks.withdraw(t, TxId(1)));
        assert!(locks.try_lock(t, TxId(3), LockMode::Share).is_ok());
        assert_eq!(locks.mode_of(t, TxId(1)), Some(LockMode::Share));
        [2, 3].into_iter().for_each(|other| locks.release(t, TxId(other)));
        assert!(locks.try_lock(t, TxId(1), LockMode::Exclusive).is_ok());
        assert_eq!(locks.mode_of(t, TxId(1)), Some(LockMode::Exclusive));
        assert_eq!(locks.mode_of(t, TxId(2)), None);
    }

    #[test]
    fn what_is_withdrawn_keeps_nobody_out() {
        let locks = ObjectLocks::default();
        let t = ObjectId(1);
        assert!(locks.try_lock(t, TxId(1), LockMode::Share).is_ok());
        assert!(locks.try_lock(t, TxId(2), LockMode::Share).is_ok());
        assert!(locks.try_lock(t, TxId(2), LockMode::Exclusive).is_err());
        assert!(!locks.withdraw(t, TxId(1)));
        assert_eq!(locks.try_lock(t, TxId(3), LockMode::Share), Err(TxId(2)));
        assert!(locks.withdraw(t, TxId(2)));
        assert!(locks.try_lock(t, TxId(3), LockMode::Share).is_ok());
        assert!(locks.is_holding(t, TxId(2)), "what it had it keeps");
    }

    #[test]
    fn a_sole_sharer_upgrades() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(ObjectId(1), TxId(1), LockMode::Share).is_ok());
        assert!(locks.try_lock(ObjectId(1), TxId(1), LockMode::Exclusive).is_ok());
    }
}
