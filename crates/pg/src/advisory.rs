//! Advisory locks: numbers that sessions lock for one another.
//!
//! A lock is held by a session, exclusively or shared, for itself or for its transaction, and any number of times: what it
//! holds for itself it gives back as often as it took it, what it holds for the transaction ends with that, or with
//! the savepoint after which it was taken. Who cannot have a lock waits behind those who came before, unless it holds the lock
//! already. Sessions are known by their pids, which are not used again.
//!
//! A wait that would not end, since those who wait wait for each other, fails with `40P01` after a second. Of a circle that goes
//! through rows and tables as well it is who waits for an advisory lock that notices: whoever waits for a row knows nothing of
//! sessions.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::wire::SqlError;

/// Most locks of all sessions together.
const LOCKS_MAX: usize = 100_000;
/// How long a wait lasts until somebody looks whether it can end (PostgreSQL's `deadlock_timeout`).
const DEADLOCK_AFTER: Duration = Duration::from_secs(1);
/// How often a wait asks whether it has to stop.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// What is locked: one number of 64 bits, or two of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Numbers are a database's own.
    pub database: u32,
    /// The first number, or the upper half of the one.
    pub class: u32,
    /// The second, or the lower half.
    pub object: u32,
    pub two: bool,
}

/// What somebody who waits asks, without the locks' mutex.
pub trait Waiting {
    /// Whether to go on waiting.
    ///
    /// # Errors
    /// That the wait ends.
    fn ask(&self) -> Result<(), SqlError>;
    /// Which sessions wait for which others, for a row or a table.
    fn others(&self) -> Vec<(i32, i32)> {
        Vec::new()
    }
}

/// How it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
}

/// Until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It is given back, or the session ends.
    Released,
    TransactionEnds,
}

/// A lock that somebody has or waits for: a row of `pg_locks`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub key: Key,
    pub mode: Mode,
    pub pid: i32,
    pub granted: bool,
}

/// What one session holds of one lock.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// How often, for itself: exclusively, shared.
    session: [u64; 2],
    /// Whether for its transaction.
    transaction: [bool; 2],
}

impl Held {
    fn has(&self, mode: Mode) -> bool {
        self.session[mode as usize] > 0 || self.transaction[mode as usize]
    }
    fn is_none(&self) -> bool {
        !self.has(Mode::Exclusive) && !self.has(Mode::Shared)
    }
    /// Whether somebody else can not have it in that mode.
    fn excludes(&self, mode: Mode) -> bool {
        self.has(Mode::Exclusive) || mode == Mode::Exclusive && self.has(Mode::Shared)
    }
}

struct Waiter {
    key: Key,
    mode: Mode,
    pid: i32,
}

#[derive(Default)]
struct State {
    held: HashMap<Key, HashMap<i32, Held>>,
    /// Holders of all locks.
    count: usize,
    /// What each session's transaction took, in order.
    transactions: HashMap<i32, Vec<(Key, Mode)>>,
    /// In the order in which they came.
    waiters: Vec<Waiter>,
}

/// The advisory locks of a database.
#[derive(Default)]
pub struct Advisory {
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Advisory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("advisory locks")
    }
}

impl State {
    /// Those that `pid` has to wait for, with so many waiters before it.
    fn in_the_way(&self, key: Key, mode: Mode, pid: i32, before: usize) -> Vec<i32> {
        let Some(holders) = self.held.get(&key) else { return Vec::new() };
        let mut others: Vec<i32> = holders
            .iter()
            .filter(|(other, held)| **other != pid && held.excludes(mode))
            .map(|(other, _)| *other)
            .collect();
        if !holders.contains_key(&pid) {
            let earlier = self.waiters.iter().take(before).filter(|waiter| waiter.key == key && waiter.pid != pid);
            others.extend(
                earlier
                    .filter(|waiter| waiter.mode == Mode::Exclusive || mode == Mode::Exclusive)
                    .map(|waiter| waiter.pid),
            );
        }
        others
    }

    /// Takes it if nobody is in the way.
    fn take(&mut self, key: Key, mode: Mode, until: Until, pid: i32, before: usize) -> Result<bool, SqlError> {
        if !self.in_the_way(key, mode, pid, before).is_empty() {
            return Ok(false);
        }
        let is_new = !self.held.get(&key).is_some_and(|holders| holders.contains_key(&pid));
        if is_new && self.count >= LOCKS_MAX {
            return Err(SqlError::new("53200", "out of shared memory").with_hint("There are too many advisory locks."));
        }
        self.count += usize::from(is_new);
        let held = self.held.entry(key).or_default().entry(pid).or_default();
        let at = mode as usize;
        match until {
            Until::Released => held.session[at] += 1,
            Until::TransactionEnds if held.transaction[at] => {}
            Until::TransactionEnds => {
                held.transaction[at] = true;
                self.transactions.entry(pid).or_default().push((key, mode));
            }
        }
        Ok(true)
    }

    /// Changes what a session holds of a lock, and forgets it if that is nothing any more.
    fn change(&mut self, key: Key, pid: i32, change: impl FnOnce(&mut Held)) {
        let Some(holders) = self.held.get_mut(&key) else { return };
        let Some(held) = holders.get_mut(&pid) else { return };
        change(held);
        if held.is_none() {
            holders.remove(&pid);
            self.count = self.count.saturating_sub(1);
            if holders.is_empty() {
                self.held.remove(&key);
            }
        }
    }

    /// Whether the wait of `pid` is one for itself; `others` wait besides.
    fn is_circle(&self, pid: i32, others: &[(i32, i32)]) -> bool {
        let mut seen: Vec<i32> = Vec::new();
        let mut open = vec![pid];
        while let Some(next) = open.pop() {
            let waiters = self.waiters.iter().enumerate().filter(|(_, waiter)| waiter.pid == next);
            let for_locks = waiters.flat_map(|(at, waiter)| self.in_the_way(waiter.key, waiter.mode, waiter.pid, at));
            let for_rows = others.iter().filter(|(waiter, _)| *waiter == next).map(|(_, holder)| *holder);
            for other in for_locks.chain(for_rows) {
                if other == pid {
                    return true;
                }
                if !seen.contains(&other) {
                    seen.push(other);
                    open.push(other);
                }
            }
        }
        false
    }
}

impl Advisory {
    /// Takes a lock if it can be had at once.
    ///
    /// # Errors
    /// `53200`: there are too many.
    pub fn try_take(&self, key: Key, mode: Mode, until: Until, pid: i32) -> Result<bool, SqlError> {
        let mut state = self.state.lock();
        let before = state.waiters.len();
        state.take(key, mode, until, pid, before)
    }

    /// Takes a lock, and waits until it can, or `waiting` says otherwise.
    ///
    /// # Errors
    /// Those of `waiting`; `55P03` after `timeout`, if that is not zero; `40P01`; `53200`.
    pub fn take(
        &self,
        key: Key,
        mode: Mode,
        until: Until,
        pid: i32,
        timeout: Duration,
        waiting: &dyn Waiting,
    ) -> Result<(), SqlError> {
        let mut state = self.state.lock();
        let before = state.waiters.len();
        if state.take(key, mode, until, pid, before)? {
            return Ok(());
        }
        state.waiters.push(Waiter { key, mode, pid });
        let taken = self.wait(&mut state, key, mode, until, pid, timeout, waiting);
        state.waiters.retain(|waiter| waiter.pid != pid);
        drop(state);
        // Whoever was behind may go on.
        self.changed.notify_all();
        taken
    }

    #[allow(clippy::too_many_arguments)] // those of `take`
    fn wait(
        &self,
        state: &mut MutexGuard<'_, State>,
        key: Key,
        mode: Mode,
        until: Until,
        pid: i32,
        timeout: Duration,
        waiting: &dyn Waiting,
    ) -> Result<(), SqlError> {
        let begun = Instant::now();
        let mut look_at = DEADLOCK_AFTER;
        loop {
            self.changed.wait_for(state, ASK_EVERY);
            let before = state.waiters.iter().position(|waiter| waiter.pid == pid).unwrap_or(0);
            if state.take(key, mode, until, pid, before)? {
                return Ok(());
            }
            MutexGuard::unlocked(state, || waiting.ask())?;
            let waited = begun.elapsed();
            if !timeout.is_zero() && waited >= timeout {
                return Err(SqlError::new("55P03", "canceling statement due to lock timeout"));
            }
            if waited >= look_at {
                look_at += DEADLOCK_AFTER;
                let others = MutexGuard::unlocked(state, || waiting.others());
                if state.is_circle(pid, &others) {
                    return Err(SqlError::new("40P01", "deadlock detected"));
                }
            }
        }
    }

    /// Gives back what was taken once; whether it was held.
    pub fn release(&self, key: Key, mode: Mode, pid: i32) -> bool {
        let mut found = false;
        self.state.lock().change(key, pid, |held| {
            let times = &mut held.session[mode as usize];
            found = *times > 0;
            *times = times.saturating_sub(1);
        });
        self.changed.notify_all();
        found
    }

    /// Gives back all that a session holds for itself.
    pub fn release_session(&self, pid: i32) {
        let mut state = self.state.lock();
        let keys: Vec<Key> = state.held.iter().filter(|(_, by)| by.contains_key(&pid)).map(|(key, _)| *key).collect();
        for key in keys {
            state.change(key, pid, |held| held.session = [0, 0]);
        }
        self.changed.notify_all();
    }

    /// How many locks a session's transaction has taken: what [`Advisory::back_to`] goes back to.
    pub fn taken(&self, pid: i32) -> usize {
        self.state.lock().transactions.get(&pid).map_or(0, Vec::len)
    }

    /// Ends the locks that a session's transaction took after the first so many.
    pub fn back_to(&self, pid: i32, taken: usize) {
        let mut state = self.state.lock();
        let Some(all) = state.transactions.get_mut(&pid) else { return };
        let ended = all.split_off(taken.min(all.len()));
        if all.is_empty() {
            state.transactions.remove(&pid);
        }
        for (key, mode) in ended {
            state.change(key, pid, |held| held.transaction[mode as usize] = false);
        }
        self.changed.notify_all();
    }

    /// All that are held or waited for.
    pub fn rows(&self) -> Vec<Row> {
        let state = self.state.lock();
        let mut rows = Vec::with_capacity(state.count + state.waiters.len());
        for (key, holders) in &state.held {
            for (pid, held) in holders {
                for mode in [Mode::Exclusive, Mode::Shared] {
                    if held.has(mode) {
                        rows.push(Row { key: *key, mode, pid: *pid, granted: true });
                    }
                }
            }
        }
        rows.extend(state.waiters.iter().map(|w| Row { key: w.key, mode: w.mode, pid: w.pid, granted: false }));
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const A: Key = Key { database: 5, class: 0, object: 1, two: false };
    const B: Key = Key { database: 5, class: 0, object: 2, two: false };

    /// Waits as long as it takes, beside these.
    struct Patient(Vec<(i32, i32)>);

    impl Waiting for Patient {
        fn ask(&self) -> Result<(), SqlError> {
            Ok(())
        }
        fn others(&self) -> Vec<(i32, i32)> {
            self.0.clone()
        }
    }

    const ALONE: Patient = Patient(Vec::new());

    #[test]
    fn held_as_often_as_taken_and_until_the_transaction_ends() {
        let locks = Advisory::default();
        let try_it = |mode, until, pid| locks.try_take(A, mode, until, pid).expect("room");
        assert!(try_it(Mode::Exclusive, Until::Released, 1));
        assert!(try_it(Mode::Exclusive, Until::Released, 1));
        assert!(try_it(Mode::Shared, Until::TransactionEnds, 1));
        assert!(locks.release(A, Mode::Exclusive, 1));
        assert!(!try_it(Mode::Shared, Until::Released, 2));
        assert!(locks.release(A, Mode::Exclusive, 1));
        assert!(!locks.release(A, Mode::Exclusive, 1));
        assert!(try_it(Mode::Shared, Until::Released, 2));
        assert!(!try_it(Mode::Exclusive, Until::Released, 2));
        locks.back_to(1, 0);
        assert!(try_it(Mode::Exclusive, Until::Released, 2));
        locks.release_session(2);
        assert_eq!((locks.rows().len(), locks.state.lock().count), (0, 0));
    }

    #[test]
    fn those_who_wait_go_on_and_circles_fail() {
        let locks = Arc::new(Advisory::default());
        let take = |key, pid| locks.take(key, Mode::Exclusive, Until::TransactionEnds, pid, Duration::ZERO, &ALONE);
        take(A, 1).expect("free");
        take(B, 2).expect("free");
        let other = Arc::clone(&locks);
        let thread = std::thread::spawn(move || {
            let taken = other.take(A, Mode::Exclusive, Until::TransactionEnds, 2, Duration::ZERO, &ALONE);
            other.back_to(2, 0);
            taken
        });
        let mine = take(B, 1);
        locks.back_to(1, 0);
        let theirs = thread.join().expect("no panic");
        let failed = [mine, theirs].into_iter().filter_map(Result::err).map(|error| error.sqlstate.to_owned());
        assert_eq!(failed.collect::<Vec<_>>(), ["40P01"]);
        assert!(locks.rows().is_empty());
        take(A, 1).expect("free");
        let late = locks.take(A, Mode::Shared, Until::Released, 3, Duration::from_millis(30), &ALONE);
        assert_eq!(late.expect_err("held").sqlstate, "55P03");
    }

    #[test]
    fn a_circle_through_rows_fails() {
        let locks = Advisory::default();
        for pid in [2, 5] {
            locks.take(A, Mode::Shared, Until::Released, pid, Duration::ZERO, &ALONE).expect("free");
        }
        // 2 waits for a row of 3, who waits for one of ours; 5 waits for somebody who goes on.
        let beside = Patient(vec![(2, 3), (3, 1), (5, 6)]);
        let begun = Instant::now();
        let failed = locks.take(A, Mode::Exclusive, Until::Released, 1, Duration::from_secs(30), &beside);
        assert_eq!(failed.expect_err("a circle").sqlstate, "40P01");
        assert!(begun.elapsed() < Duration::from_secs(20));
        let beside = Patient(vec![(2, 3), (5, 6)]);
        let late = locks.take(A, Mode::Exclusive, Until::Released, 1, Duration::from_millis(1500), &beside);
        assert_eq!(late.expect_err("held").sqlstate, "55P03", "no circle");
    }
}
