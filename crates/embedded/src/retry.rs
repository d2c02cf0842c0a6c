//! Trying a transaction again that met others: how often, how soon, and how it comes to an end.
//!
//! The first attempts run beside each other, a little later each time. Whoever has failed [`BESIDE`] times then runs alone, as far as
//! this process goes: others wait before they begin, also those that would not meet it (what a closure writes is not known before),
//! for a short time: neither a long closure that runs alone nor one that waits for another thread's transaction holds them up. So
//! transactions that all write one row come to an end, as long as one of them takes no longer than [`PATIENCE`].

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Attempts beside others.
const BESIDE: u32 = 3;
/// Longest wait for who runs alone.
const PATIENCE: Duration = Duration::from_millis(50);
/// Longest wait for running alone, during which nobody else begins.
const PATIENCE_ALONE: Duration = Duration::from_millis(50);
/// The pause after the first failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Who runs beside others, and who alone.
#[derive(Default)]
pub(crate) struct Lane(RwLock<()>);

/// Held while an attempt runs. Nothing depends on it but how soon it succeeds.
pub(crate) enum Turn<'l> {
    Beside(#[allow(dead_code, reason = "it is held")] Option<RwLockReadGuard<'l, ()>>),
    Alone(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'l, ()>),
}

impl Lane {
    /// Waits for the turn of an attempt, counted from 1.
    pub fn turn(&self, attempt: u32) -> Turn<'_> {
        if attempt > BESIDE
            && let Some(alone) = self.0.try_write_for(PATIENCE_ALONE)
        {
            return Turn::Alone(alone);
        }
        Turn::Beside(self.0.try_read_for(PATIENCE))
    }
}

/// The pause after an attempt that failed, counted from 1: longer each time, of random length, so that who met once does not meet again.
pub(crate) fn pause(attempt: u32) -> Duration {
    let most = PAUSE_MIN.saturating_mul(1 << attempt.min(16)).min(PAUSE_MAX);
    let random = RandomState::new().hash_one(attempt) % 1000;
    most * u32::try_from(random).unwrap_or(0) / 1000
}

/// That of a database, however many [`Db`](crate::Db)s are over it.
type Address = (usize, u32);

thread_local! {
    /// The databases that this thread has a writing closure of.
    static WRITING: RefCell<Vec<Address>> = const { RefCell::new(Vec::new()) };
}

/// Held by a thread while it runs a writing closure of a database.
pub(crate) struct Writing(Address);

impl Writing {
    /// `None`: this thread runs one of that database already. The second would wait for rows of the first for ever.
    pub fn begin(database: Address) -> Option<Self> {
        WRITING.with_borrow_mut(|writing| match writing.contains(&database) {
            true => None,
            false => {
                writing.push(database);
                Some(Self(database))
            }
        })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITING.with_borrow_mut(|writing| writing.retain(|database| *database != self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_bounded() {
        assert!((1..1000).all(|attempt| pause(attempt) <= PAUSE_MAX));
    }

    #[test]
    fn a_thread_writes_once_in_each_database() {
        let first = Writing::begin((1, 0)).unwrap();
        assert!(Writing::begin((1, 0)).is_none());
        let second = Writing::begin((1, 1));
        assert!(second.is_some());
        drop(first);
        assert!(Writing::begin((1, 0)).is_some());
        assert!(
            std::panic::catch_unwind(|| {
                let _writing = Writing::begin((3, 0)).unwrap();
                panic!("on purpose");
            })
            .is_err()
        );
        assert!(Writing::begin((3, 0)).is_some());
    }

    #[test]
    fn who_runs_alone_waits_for_others() {
        let lane = Lane::default();
        let beside = lane.turn(1);
        assert!(matches!(beside, Turn::Beside(Some(_))));
        // Not for ever: it runs beside them then.
        assert!(matches!(lane.turn(BESIDE + 1), Turn::Beside(Some(_))));
        drop(beside);
        let alone = lane.turn(BESIDE + 1);
        assert!(matches!(alone, Turn::Alone(_)));
        // Who does not meet it is not held up for long.
        let begun = std::time::Instant::now();
        assert!(matches!(lane.turn(1), Turn::Beside(None)));
        assert!(begun.elapsed() < Duration::from_millis(500));
    }
}
