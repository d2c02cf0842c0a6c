//! Row locks that several transactions hold at once: `FOR SHARE` and `FOR KEY SHARE`.
//!
//! Whoever writes a row, or locks it for itself alone, leaves a version of its own in it, which is all that others need to see
//! (Constant Time Recovery, section 3.5). A version has one writer, so locks that are shared are kept here, in memory: by tree and
//! key, with the transactions that hold them. A crash ends those, and their locks with them; a transaction that is prepared turns its own into
//! versions first.
//!
//! | held \ asked | key share | share | no key update | update |
//! |---|---|---|---|---|
//! | key share | | | | waits |
//! | share | | | waits | waits |
//! | no key update | | waits | waits | waits |
//! | update | waits | waits | waits | waits |
//!
//! (PostgreSQL's table of row-level locks.) Who holds one of the lower two is seen by its version; a *no key update* that changes nothing is noted
//! here besides, since its version does not tell it from an *update*.
//!
//! # Contract
//! - A lock is taken under a latch of the row's leaf, shared or not, and asked for under its exclusive latch by whoever writes the row: so
//!   of the two one finds the other.
//! - A lock belongs to the id that its holder's versions would have: it ends with that id's transaction, or with a rollback to a savepoint before
//!   it. From the moment on at which the holder's state says that it has ended, its locks count for nothing; they are taken away a
//!   little later, before those are woken who wait for it.
//! - There are no more than a bound says: who asks for one more gets none, and takes the row for itself alone instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;
use resurgam_base::{ObjectId, PageId, TxId};

/// How a row is locked, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowLockMode {
    /// The row stays, and so do the columns of its keys.
    KeyShare,
    /// The row stays as it is.
    Share,
    /// It is going to be changed, but not in the columns of its keys.
    NoKeyUpdate,
    /// It is going to be changed or deleted.
    Update,
}

impl RowLockMode {
    /// Whether a row cannot be locked in both ways by two transactions.
    pub fn conflicts_with(self, other: Self) -> bool {
        // The table above: by their places they are too much from three on.
        self as u8 + other as u8 >= 3
    }
    /// Whether several may hold it.
    pub fn is_shared(self) -> bool {
        self <= Self::Share
    }
}

/// One holder of a row.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The id under which it was taken: the transaction's or a sub-transaction's.
    xid: TxId,
    /// The transaction's.
    top: TxId,
    mode: RowLockMode,
}

/// A tree (its object and its root), as whoever locks its rows names it.
pub type TreeId = (ObjectId, PageId);

type Row = (TreeId, Arc<[u8]>);

/// A row that is looked for.
#[derive(Hash)]
struct Sought<'k>(TreeId, &'k [u8]);

impl Equivalent<Row> for Sought<'_> {
    fn equivalent(&self, row: &Row) -> bool {
        self.0 == row.0 && self.1 == &*row.1
    }
}

#[derive(Default)]
struct Maps {
    rows: HashMap<Row, Vec<Held>>,
    /// What each transaction has, in the order of taking.
    by_holder: HashMap<TxId, Vec<Row>>,
    /// How many there are in each tree.
    trees: HashMap<TreeId, usize>,
}

/// The shared row locks of a database; see the module's head.
#[derive(Default)]
pub struct RowLocks {
    maps: Mutex<Maps>,
    /// How many there are; lets those who write rows pass while there are none.
    held: AtomicUsize,
    refused: AtomicU64,
}

impl RowLocks {
    /// Whether nobody holds any.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.load(Ordering::SeqCst) == 0
    }

    /// Whether nobody holds any of a tree.
    pub fn has_none_of(&self, tree: TreeId) -> bool {
        self.is_empty() || !self.maps.lock().trees.contains_key(&tree)
    }

    /// How many are held, and how often there was no room for one.
    pub fn counts(&self) -> (usize, u64) {
        (self.held.load(Ordering::SeqCst), self.refused.load(Ordering::Relaxed))
    }

    /// Somebody other than `top` that holds the row in a way that excludes `mode`; `is_active` tells of an id whether it has not ended.
    pub fn conflict(
        &self,
        tree: TreeId,
        key: &[u8],
        top: TxId,
        mode: RowLockMode,
        is_active: impl Fn(TxId) -> bool,
    ) -> Option<TxId> {
        if self.is_empty() {
            return None;
        }
        let maps = self.maps.lock();
        let holders = maps.rows.get(&Sought(tree, key))?;
        let excludes = |held: &&Held| held.top != top && held.mode.conflicts_with(mode) && is_active(held.xid);
        holders.iter().find(excludes).map(|held| held.xid)
    }

    /// Whether `xid` has said that its version of the row leaves its keys as they are.
    pub fn keeps_keys(&self, tree: TreeId, key: &[u8], xid: TxId) -> bool {
        if self.is_empty() {
            return false;
        }
        let maps = self.maps.lock();
        let holders = maps.rows.get(&Sought(tree, key));
        holders.is_some_and(|all| all.iter().any(|held| held.xid == xid && held.mode == RowLockMode::NoKeyUpdate))
    }

    /// Gives `xid`, of the transaction `top`, the row. False: there are `most` locks already.
    pub fn take(&self, tree: TreeId, key: &[u8], xid: TxId, top: TxId, mode: RowLockMode, most: usize) -> bool {
        let mut maps = self.maps.lock();
        // One of an earlier id stays at least as long. (Who has said that a version of its own leaves keys alone is known by that version's id.)
        let serves = |held: &Held| {
            held.top == top
                && if mode.is_shared() {
                    held.mode >= mode && held.xid <= xid
                } else {
                    held.xid == xid && held.mode == mode
                }
        };
        if maps.rows.get(&Sought(tree, key)).is_some_and(|held| held.iter().any(serves)) {
            return true;
        }
        if self.held.load(Ordering::SeqCst) >= most {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.held.fetch_add(1, Ordering::SeqCst);
        let row = (tree, Arc::from(key));
        *maps.trees.entry(tree).or_default() += 1;
        maps.rows.entry(row.clone()).or_default().push(Held { xid, top, mode });
        maps.by_holder.entry(top).or_default().push(row);
        true
    }

    /// The rows that a transaction shares.
    pub fn of(&self, top: TxId) -> Vec<(TreeId, Arc<[u8]>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let maps = self.maps.lock();
        let Some(rows) = maps.by_holder.get(&top) else { return Vec::new() };
        let is_shared = |row: &&Row| {
            maps.rows.get(*row).is_some_and(|all| all.iter().any(|held| held.top == top && held.mode.is_shared()))
        };
        let mut rows: Vec<Row> = rows.iter().filter(is_shared).cloned().collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Takes away what a transaction holds under ids above `after`; all of it with [`TxId::NONE`].
    pub fn release(&self, top: TxId, after: TxId) {
        if self.is_empty() {
            return;
        }
        let mut maps = self.maps.lock();
        let Maps { rows, by_holder, trees } = &mut *maps;
        let Some(mut own) = by_holder.remove(&top) else { return };
        let mut gone = 0;
        own.retain(|row| {
            let Some(holders) = rows.get_mut(row) else { return false };
            let before = holders.len();
            holders.retain(|held| held.top != top || held.xid <= after);
            gone += before - holders.len();
            if let Some(count) = trees.get_mut(&row.0) {
                *count -= before - holders.len();
                if *count == 0 {
                    trees.remove(&row.0);
                }
            }
            let stays = holders.iter().any(|held| held.top == top);
            if holders.is_empty() {
                rows.remove(row);
            }
            stays
        });
        if !own.is_empty() {
            by_holder.insert(top, own);
        }
        self.held.fetch_sub(gone, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::RowLockMode::{KeyShare, NoKeyUpdate, Share, Update};
    use super::*;

    const T: TreeId = (ObjectId(7), PageId(1));
    const ALL: [RowLockMode; 4] = [KeyShare, Share, NoKeyUpdate, Update];

    fn asked(locks: &RowLocks, top: u64, mode: RowLockMode) -> Option<u64> {
        locks.conflict(T, b"k", TxId(top), mode, |_| true).map(|holder| holder.0)
    }

    #[test]
    fn modes_exclude_each_other_as_in_postgresql() {
        for (held, line) in ALL.into_iter().zip(["...x", "..xx", ".xxx", "xxxx"]) {
            for (asked, mark) in ALL.into_iter().zip(line.chars()) {
                assert_eq!(held.conflicts_with(asked), mark == 'x', "{held:?} {asked:?}");
            }
        }
    }

    #[test]
    fn several_share_a_row_until_they_end() {
        let locks = RowLocks::default();
        assert!(locks.is_empty());
        assert!(locks.take(T, b"k", TxId(1), TxId(1), KeyShare, 10));
        assert!(locks.take(T, b"k", TxId(2), TxId(2), Share, 10));
        assert_eq!((asked(&locks, 3, KeyShare), asked(&locks, 3, Share)), (None, None));
        assert_eq!((asked(&locks, 3, NoKeyUpdate), asked(&locks, 3, Update)), (Some(2), Some(1)));
        assert_eq!(asked(&locks, 1, NoKeyUpdate), Some(2), "another one shares it");
        assert_eq!(
            locks.conflict(T, b"k", TxId(3), Update, |xid| xid != TxId(1)),
            Some(TxId(2)),
            "who has ended has none"
        );
        assert_eq!(locks.conflict(T, b"l", TxId(3), Update, |_| true), None, "another row");
        locks.release(TxId(2), TxId::NONE);
        assert_eq!((asked(&locks, 3, NoKeyUpdate), asked(&locks, 1, Update)), (None, None));
        locks.release(TxId(1), TxId::NONE);
        assert!(
            locks.is_empty()
                && locks.maps.lock().rows.is_empty()
                && locks.maps.lock().by_holder.is_empty()
                && locks.maps.lock().trees.is_empty()
        );
    }

    #[test]
    fn a_savepoint_gives_back_what_came_after_it() {
        let locks = RowLocks::default();
        assert!(locks.take(T, b"k", TxId(1), TxId(1), KeyShare, 10));
        assert!(locks.take(T, b"k", TxId(5), TxId(1), Share, 10));
        assert!(locks.take(T, b"l", TxId(6), TxId(1), Share, 10));
        assert!(locks.take(T, b"k", TxId(6), TxId(1), KeyShare, 10), "a weaker one of a later id");
        assert_eq!((locks.of(TxId(1)).len(), locks.counts().0), (2, 3), "that one it has");
        locks.release(TxId(1), TxId(4));
        assert_eq!((asked(&locks, 9, NoKeyUpdate), asked(&locks, 9, Update)), (None, Some(1)));
        assert_eq!((locks.of(TxId(1)).len(), locks.counts().0), (1, 1));
        assert!(!locks.has_none_of(T) && locks.has_none_of((ObjectId(8), PageId(1))));
        locks.release(TxId(1), TxId::NONE);
        assert!(locks.is_empty());
    }

    #[test]
    fn there_are_no_more_than_the_bound() {
        let locks = RowLocks::default();
        assert!(locks.take(T, b"a", TxId(1), TxId(1), Share, 2) && locks.take(T, b"b", TxId(1), TxId(1), Share, 2));
        assert!(locks.take(T, b"a", TxId(1), TxId(1), KeyShare, 2), "it has that one");
        assert!(!locks.take(T, b"c", TxId(1), TxId(1), Share, 2));
        assert_eq!(locks.counts(), (2, 1));
    }

    #[test]
    fn a_version_that_leaves_keys_alone_is_known() {
        let locks = RowLocks::default();
        assert!(locks.take(T, b"k", TxId(3), TxId(1), NoKeyUpdate, 10));
        assert!(locks.keeps_keys(T, b"k", TxId(3)) && !locks.keeps_keys(T, b"k", TxId(1)));
        assert!(locks.of(TxId(1)).is_empty(), "nothing of it is shared");
        assert_eq!(asked(&locks, 2, KeyShare), None);
    }
}
