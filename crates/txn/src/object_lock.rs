//! Locks on tables, in PostgreSQL's eight modes. Writers of rows hold `ROW EXCLUSIVE`, changes of a definition `ACCESS
//! EXCLUSIVE`; the others are there for whoever asks for them by name (LOCK TABLE). Readers take no lock: what they read
//! is kept by their snapshot. So that nobody reads what is locked by name in `ACCESS EXCLUSIVE`, they ask
//! ([`ObjectLocks::closed_by`]) before a statement begins, which is one load while nothing is locked so.
//!
//! A lock is held until its transaction ends. Who must wait waits for one transaction that is in the way and tries again.
//!
//! # Invariants
//! 1. No two transactions hold modes of one object that conflict.
//! 2. Who asked and did not get it keeps later ones out whose modes conflict with his, but for those who hold the object
//!    already; until he gets it, withdraws, or releases it.
//! 3. What a transaction holds because of what it does and what it has asked for by name are kept apart: the latter can be
//!    given back by itself ([`ObjectLocks::release_one`]).

use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{ObjectId, TxId};

/// How a table is locked, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

impl LockMode {
    /// All of them, the weakest first.
    pub const ALL: [Self; 8] = [
        Self::AccessShare,
        Self::RowShare,
        Self::RowExclusive,
        Self::ShareUpdateExclusive,
        Self::Share,
        Self::ShareRowExclusive,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// The mode as `pg_locks` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccessShare => "AccessShareLock",
            Self::RowShare => "RowShareLock",
            Self::RowExclusive => "RowExclusiveLock",
            Self::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            Self::Share => "ShareLock",
            Self::ShareRowExclusive => "ShareRowExclusiveLock",
            Self::Exclusive => "ExclusiveLock",
            Self::AccessExclusive => "AccessExclusiveLock",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The modes that others must not hold meanwhile: table 13.2 of PostgreSQL's manual.
    const fn conflicts(self) -> u8 {
        // From the strongest mode down to the weakest.
        match self {
            Self::AccessShare => 0b1000_0000,
            Self::RowShare => 0b1100_0000,
            Self::RowExclusive => 0b1111_0000,
            Self::ShareUpdateExclusive => 0b1111_1000,
            Self::Share => 0b1110_1100,
            Self::ShareRowExclusive => 0b1111_1100,
            Self::Exclusive => 0b1111_1110,
            Self::AccessExclusive => 0b1111_1111,
        }
    }

    /// Whether two transactions cannot hold these at once.
    pub const fn conflicts_with(self, other: Self) -> bool {
        self.conflicts() & other.bit() != 0
    }
}

/// A lock that a transaction holds or asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lock {
    pub mode: LockMode,
    /// By name, not because of what it does.
    pub by_name: bool,
}

impl Lock {
    /// To write rows.
    pub const ROWS: Self = Self { mode: LockMode::RowExclusive, by_name: false };
    /// To change the definition.
    pub const DEFINITION: Self = Self { mode: LockMode::AccessExclusive, by_name: false };

    pub const fn by_name(mode: LockMode) -> Self {
        Self { mode, by_name: true }
    }

    const fn keeps_readers_out(self) -> bool {
        self.by_name && matches!(self.mode, LockMode::AccessExclusive)
    }
}

/// What one transaction holds of an object: a bit for each mode.
#[derive(Clone, Copy, Default)]
struct Held {
    by_work: u8,
    by_name: u8,
}

impl Held {
    fn all(self) -> u8 {
        self.by_work | self.by_name
    }
    fn part(&mut self, lock: Lock) -> &mut u8 {
        if lock.by_name { &mut self.by_name } else { &mut self.by_work }
    }
    fn locks(self) -> impl Iterator<Item = Lock> {
        let of = |bits: u8, by_name| {
            LockMode::ALL.into_iter().filter(move |mode| bits & mode.bit() != 0).map(move |mode| Lock { mode, by_name })
        };
        of(self.by_work, false).chain(of(self.by_name, true))
    }
}

#[derive(Default)]
struct Entry {
    held: HashMap<TxId, Held>,
    /// How many transactions hold each mode.
    counts: [u32; 8],
    /// Who asked and has not got it, in the order in which they came.
    waiting: Vec<(TxId, LockMode)>,
}

impl Entry {
    fn is_unused(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Notes that the modes of a transaction were `before` and are `after`.
    fn count(&mut self, before: u8, after: u8) {
        for (mode, count) in LockMode::ALL.into_iter().zip(&mut self.counts) {
            match (before & mode.bit() != 0, after & mode.bit() != 0) {
                (false, true) => *count += 1,
                (true, false) => *count -= 1,
                _ => {}
            }
        }
    }

    /// Another transaction that holds what `mode` conflicts with, if `own` is what `tx` holds.
    fn holder_in_the_way(&self, tx: TxId, own: u8, mode: LockMode) -> Option<TxId> {
        let is_held = |other: &LockMode| {
            let others = self.counts[*other as usize] - u32::from(own & other.bit() != 0);
            mode.conflicts_with(*other) && others > 0
        };
        if !LockMode::ALL.iter().any(is_held) {
            return None;
        }
        let other = |(other, held): &(&TxId, &Held)| **other != tx && held.all() & mode.conflicts() != 0;
        self.held.iter().find(other).map(|(other, _)| *other)
    }

    /// Who asked before `tx` for what conflicts with `mode`, and has not got it.
    fn asked_before(&self, tx: TxId, mode: LockMode) -> impl Iterator<Item = &(TxId, LockMode)> {
        let before = self.waiting.iter().take_while(move |(other, _)| *other != tx);
        before.filter(move |(_, other)| mode.conflicts_with(*other))
    }
}

const SHARDS: usize = 16;

/// A lock as an observer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRow {
    pub object: ObjectId,
    pub tx: TxId,
    pub mode: LockMode,
    /// It is held; otherwise asked for.
    pub granted: bool,
}

/// The lock table.
#[derive(Default)]
pub struct ObjectLocks {
    shards: [Mutex<HashMap<ObjectId, Entry>>; SHARDS],
    /// Objects that are kept from readers.
    closed: AtomicUsize,
}

impl ObjectLocks {
    fn shard(&self, object: ObjectId) -> &Mutex<HashMap<ObjectId, Entry>> {
        &self.shards[object.0 as usize % SHARDS]
    }

    /// Tries to lock. `Err` names a transaction to wait for; the request is noted.
    pub fn try_lock(&self, object: ObjectId, tx: TxId, lock: Lock) -> Result<(), TxId> {
        self.attempt(object, tx, lock, true)
    }

    /// As [`ObjectLocks::try_lock`], for whoever will not wait.
    pub fn try_lock_at_once(&self, object: ObjectId, tx: TxId, lock: Lock) -> Result<(), TxId> {
        self.attempt(object, tx, lock, false)
    }

    fn attempt(&self, object: ObjectId, tx: TxId, lock: Lock, waits: bool) -> Result<(), TxId> {
        let mut shard = self.shard(object).lock();
        let entry = shard.entry(object).or_default();
        let mode = lock.mode;
        let own = entry.held.get(&tx).copied().unwrap_or_default();
        if own.all() & mode.bit() == 0 {
            let mut in_the_way = entry.holder_in_the_way(tx, own.all(), mode);
            // Who holds it already does not wait for those who wait for him, perhaps.
            if in_the_way.is_none() && own.all() == 0 && !entry.waiting.is_empty() {
                in_the_way = entry.asked_before(tx, mode).next().map(|(other, _)| *other);
            }
            if let Some(other) = in_the_way {
                if waits && !entry.waiting.contains(&(tx, mode)) {
                    entry.waiting.push((tx, mode));
                }
                return Err(other);
            }
        }
        let mut now = own;
        *now.part(lock) |= mode.bit();
        entry.count(own.all(), now.all());
        entry.held.insert(tx, now);
        if !entry.waiting.is_empty() {
            entry.waiting.retain(|waiting| *waiting != (tx, mode));
        }
        if lock.keeps_readers_out() && own.by_name & mode.bit() == 0 {
            self.closed.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// What `tx` holds of `object`.
    pub fn held(&self, object: ObjectId, tx: TxId) -> Vec<Lock> {
        let shard = self.shard(object).lock();
        let held = shard.get(&object).and_then(|entry| entry.held.get(&tx)).copied().unwrap_or_default();
        held.locks().collect()
    }

    /// Who besides `tx` holds what keeps it from `mode`.
    pub fn holders(&self, object: ObjectId, tx: TxId, mode: LockMode) -> Vec<TxId> {
        let shard = self.shard(object).lock();
        let Some(entry) = shard.get(&object) else { return Vec::new() };
        let others = entry.held.iter().filter(|(other, held)| **other != tx && held.all() & mode.conflicts() != 0);
        others.map(|(other, _)| *other).collect()
    }

    /// Whether `other` still keeps `tx` from `lock`, which it has asked for: it holds what conflicts with it, or asked before.
    /// Who has given `object` back and asked again is behind `tx`, and not in its way.
    pub fn is_in_the_way(&self, object: ObjectId, tx: TxId, lock: Lock, other: TxId) -> bool {
        let shard = self.shard(object).lock();
        let Some(entry) = shard.get(&object) else { return false };
        let own = entry.held.get(&tx).copied().unwrap_or_default().all();
        let held = entry.held.get(&other).copied().unwrap_or_default().all();
        held & lock.mode.conflicts() != 0
            || own == 0 && entry.asked_before(tx, lock.mode).any(|(before, _)| *before == other)
    }

    /// Whether some object is kept from readers.
    #[inline]
    pub fn any_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) > 0
    }

    /// The transaction that keeps others from reading `object`.
    pub fn closed_by(&self, object: ObjectId) -> Option<TxId> {
        let shard = self.shard(object).lock();
        let holds = |held: &Held| held.by_name & LockMode::AccessExclusive.bit() != 0;
        shard.get(&object)?.held.iter().find(|(_, held)| holds(held)).map(|(tx, _)| *tx)
    }

    /// Takes back what `tx` has asked of `object` and not got. False: nothing.
    pub fn withdraw(&self, object: ObjectId, tx: TxId) -> bool {
        let mut shard = self.shard(object).lock();
        let Some(entry) = shard.get_mut(&object) else { return false };
        let before = entry.waiting.len();
        entry.waiting.retain(|(waiter, _)| *waiter != tx);
        let withdrawn = entry.waiting.len() < before;
        if entry.is_unused() {
            shard.remove(&object);
        }
        withdrawn
    }

    /// Gives one lock of `tx` back, if it holds it.
    pub fn release_one(&self, object: ObjectId, tx: TxId, lock: Lock) {
        let mut shard = self.shard(object).lock();
        let Some(entry) = shard.get_mut(&object) else { return };
        let Some(own) = entry.held.get(&tx).copied() else { return };
        let mut now = own;
        *now.part(lock) &= !lock.mode.bit();
        self.change(entry, tx, own, now);
        if entry.is_unused() {
            shard.remove(&object);
        }
    }

    /// Releases what `tx` holds on, or has asked of, `object`.
    pub fn release(&self, object: ObjectId, tx: TxId) {
        let mut shard = self.shard(object).lock();
        let Some(entry) = shard.get_mut(&object) else { return };
        if let Some(own) = entry.held.get(&tx).copied() {
            self.change(entry, tx, own, Held::default());
        }
        if !entry.waiting.is_empty() {
            entry.waiting.retain(|(waiter, _)| *waiter != tx);
        }
        if entry.is_unused() {
            shard.remove(&object);
        }
    }

    /// `tx` holds less than before.
    fn change(&self, entry: &mut Entry, tx: TxId, before: Held, now: Held) {
        entry.count(before.all(), now.all());
        match now.all() {
            0 => drop(entry.held.remove(&tx)),
            _ => drop(entry.held.insert(tx, now)),
        }
        if (before.by_name & !now.by_name) & LockMode::AccessExclusive.bit() != 0 {
            self.closed.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// All locks that are held or asked for, by object.
    pub fn rows(&self) -> Vec<LockRow> {
        let mut rows = Vec::new();
        for shard in &self.shards {
            for (object, entry) in shard.lock().iter() {
                let row = |tx, mode, granted| LockRow { object: *object, tx, mode, granted };
                for (tx, held) in &entry.held {
                    let modes = LockMode::ALL.into_iter().filter(|mode| held.all() & mode.bit() != 0);
                    rows.extend(modes.map(|mode| row(*tx, mode, true)));
                }
                rows.extend(entry.waiting.iter().map(|(tx, mode)| row(*tx, *mode, false)));
            }
        }
        rows.sort_by_key(|row| (row.object, !row.granted));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: ObjectId = ObjectId(1);

    #[test]
    fn modes_conflict_as_in_postgresql() {
        // `X` of the manual's table 13.2, weakest mode first.
        let table = [".......X", "......XX", "....XXXX", "...XXXXX", "..XX.XXX", "..XXXXXX", ".XXXXXXX", "XXXXXXXX"];
        for (held, line) in LockMode::ALL.into_iter().zip(table) {
            for (asked, mark) in LockMode::ALL.into_iter().zip(line.chars()) {
                assert_eq!(held.conflicts_with(asked), mark == 'X', "{held:?} {asked:?}");
                let locks = ObjectLocks::default();
                assert!(locks.try_lock(T, TxId(1), Lock::by_name(held)).is_ok());
                let got = locks.try_lock(T, TxId(2), Lock::by_name(asked));
                assert_eq!(got, if mark == 'X' { Err(TxId(1)) } else { Ok(()) }, "{held:?} {asked:?}");
                assert!(
                    locks.try_lock(T, TxId(1), Lock::by_name(asked)).is_ok() || mark != 'X',
                    "its own is no obstacle"
                );
            }
        }
    }

    #[test]
    fn who_gave_it_back_and_asks_again_is_behind_whoever_asked_meanwhile() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok());
        assert_eq!(locks.try_lock(T, TxId(2), Lock::DEFINITION), Err(TxId(1)));
        assert!(locks.is_in_the_way(T, TxId(2), Lock::DEFINITION, TxId(1)), "it holds the object");
        locks.release_one(T, TxId(1), Lock::ROWS);
        assert!(!locks.is_in_the_way(T, TxId(2), Lock::DEFINITION, TxId(1)));
        assert_eq!(locks.try_lock(T, TxId(1), Lock::ROWS), Err(TxId(2)));
        assert!(!locks.is_in_the_way(T, TxId(2), Lock::DEFINITION, TxId(1)), "each would wait for the other");
        assert!(locks.is_in_the_way(T, TxId(1), Lock::ROWS, TxId(2)), "it asked before");
    }

    #[test]
    fn writers_keep_a_definition_from_changing_and_its_change_keeps_new_writers_out() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok());
        assert!(locks.try_lock(T, TxId(2), Lock::ROWS).is_ok());
        assert!(locks.try_lock(T, TxId(3), Lock::DEFINITION).is_err());
        assert_eq!(locks.try_lock(T, TxId(4), Lock::ROWS), Err(TxId(3)));
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok(), "a holder may ask again");
        let mut holders = locks.holders(T, TxId(3), LockMode::AccessExclusive);
        holders.sort_unstable();
        assert_eq!(holders, [TxId(1), TxId(2)]);
        assert_eq!(locks.holders(T, TxId(2), LockMode::AccessExclusive), [TxId(1)]);
        assert_eq!(locks.holders(T, TxId(3), LockMode::RowExclusive), []);
        locks.release(T, TxId(1));
        locks.release(T, TxId(2));
        assert!(locks.try_lock(T, TxId(3), Lock::DEFINITION).is_ok());
        assert_eq!(locks.try_lock(T, TxId(1), Lock::ROWS), Err(TxId(3)));
        locks.release(T, TxId(3));
        assert!(locks.try_lock(T, TxId(4), Lock::ROWS).is_ok());
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok());
    }

    #[test]
    fn who_waits_for_a_share_lock_is_not_passed_by_later_writers() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok());
        assert_eq!(locks.try_lock(T, TxId(2), Lock::by_name(LockMode::Share)), Err(TxId(1)));
        assert_eq!(locks.try_lock(T, TxId(3), Lock::ROWS), Err(TxId(2)));
        assert!(locks.try_lock(T, TxId(4), Lock::by_name(LockMode::AccessShare)).is_ok(), "in nobody's way");
        assert_eq!(locks.try_lock_at_once(T, TxId(5), Lock::by_name(LockMode::Share)), Err(TxId(1)));
        locks.release(T, TxId(1));
        assert_eq!(locks.try_lock(T, TxId(3), Lock::ROWS), Err(TxId(2)));
        assert!(locks.try_lock(T, TxId(2), Lock::by_name(LockMode::Share)).is_ok());
        let waits: Vec<_> = locks.rows().into_iter().filter(|row| !row.granted).map(|row| (row.tx, row.mode)).collect();
        assert_eq!(waits, [(TxId(3), LockMode::RowExclusive)], "who would not wait is not noted");
        locks.release(T, TxId(2));
        assert!(locks.try_lock(T, TxId(3), Lock::ROWS).is_ok());
    }

    #[test]
    fn what_is_withdrawn_keeps_nobody_out() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok());
        assert!(locks.try_lock(T, TxId(2), Lock::ROWS).is_ok());
        assert!(locks.try_lock(T, TxId(2), Lock::DEFINITION).is_err());
        assert!(!locks.withdraw(T, TxId(1)));
        assert_eq!(locks.try_lock(T, TxId(3), Lock::ROWS), Err(TxId(2)));
        assert_eq!(locks.held(T, TxId(2)), [Lock::ROWS], "what was asked for is not held");
        assert!(locks.withdraw(T, TxId(2)));
        assert!(locks.try_lock(T, TxId(3), Lock::ROWS).is_ok());
        assert!(locks.is_in_the_way(T, TxId(9), Lock::DEFINITION, TxId(2)), "what it had it keeps");
    }

    #[test]
    fn a_sole_sharer_upgrades() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok());
        assert!(locks.try_lock(T, TxId(1), Lock::DEFINITION).is_ok());
        assert_eq!(locks.held(T, TxId(1)), [Lock::ROWS, Lock::DEFINITION]);
    }

    #[test]
    fn what_is_locked_by_name_is_given_back_by_itself() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(T, TxId(1), Lock::ROWS).is_ok());
        for mode in [LockMode::RowExclusive, LockMode::AccessExclusive] {
            assert!(locks.try_lock(T, TxId(1), Lock::by_name(mode)).is_ok());
        }
        assert!(locks.any_closed());
        assert_eq!(locks.closed_by(T), Some(TxId(1)));
        for mode in [LockMode::RowExclusive, LockMode::AccessExclusive] {
            locks.release_one(T, TxId(1), Lock::by_name(mode));
        }
        assert!(!locks.any_closed());
        assert_eq!(locks.held(T, TxId(1)), [Lock::ROWS]);
        assert_eq!(locks.try_lock(T, TxId(2), Lock::by_name(LockMode::Share)), Err(TxId(1)));
        locks.release(T, TxId(1));
        assert!(locks.try_lock(T, TxId(2), Lock::by_name(LockMode::AccessExclusive)).is_ok());
        locks.release(T, TxId(2));
        assert!(!locks.any_closed() && locks.rows().is_empty());
    }

    #[test]
    fn a_change_of_the_definition_keeps_no_reader_out() {
        let locks = ObjectLocks::default();
        assert!(locks.try_lock(T, TxId(1), Lock::DEFINITION).is_ok());
        assert!(!locks.any_closed());
        assert_eq!(locks.closed_by(T), None);
    }
}
