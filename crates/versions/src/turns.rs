//! Turns of the cleaner: one sweep at a time, or one who looks at all pages at once.
//!
//! # Invariants
//! 1. Who asked first is first, so that nobody who asks again and again keeps another one from his turn.
//! 2. Sweeps that are asked for while one runs share the next one: the one that runs does not forget what
//!    aborted after it began. One that was told to stop is shared with nobody.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use resurgam_base::Result;

use crate::progress::SweepReport;

/// How often who waits for a turn looks whether to stop.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Somebody has his turn.
    taken: bool,
    /// Who waits, in the order in which they asked.
    waiting: VecDeque<u64>,
    next_ticket: u64,
    /// Sweeps that have begun, and the number of the one that ended last.
    begun: u64,
    ended: u64,
    /// Of the sweep that ended last.
    outcome: Option<Result<SweepReport>>,
}

/// What came of asking for a sweep.
#[allow(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(crate) enum Asked<'t> {
    /// It is the caller's turn to sweep.
    Turn(Turn<'t>),
    /// A sweep that began after the caller asked has ended so.
    Shared(Result<SweepReport>),
    /// The caller was told to stop.
    Stopped,
}

/// The turn of a sweep; ends when it is dropped, also by a panic.
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    /// What those are told who wait for this sweep; none: one of them sweeps itself.
    pub outcome: Option<Result<SweepReport>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.taken = false;
        state.ended = state.begun;
        state.outcome = self.outcome.take();
        drop(state);
        self.turns.changed.notify_all();
    }
}

/// While it lives no sweep runs; those that are asked for wait.
pub struct Held<'t>(&'t Turns);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state.lock().taken = false;
        self.0.changed.notify_all();
    }
}

impl Turns {
    /// The next turn, for something else than a sweep. None once `stop` says so.
    pub fn hold(&self, stop: &dyn Fn() -> bool) -> Option<Held<'_>> {
        match self.wait(stop, |_| None) {
            Waited::Taken => Some(Held(self)),
            Waited::Shared(_) | Waited::Stopped => None,
        }
    }

    /// The next turn for a sweep, or what came of one that began meanwhile.
    pub fn sweep(&self, stop: &dyn Fn() -> bool) -> Asked<'_> {
        let mut wanted = None;
        let waited = self.wait(stop, |state| {
            let wanted = *wanted.get_or_insert(state.begun + 1);
            state.outcome.clone().filter(|_| state.ended >= wanted)
        });
        match waited {
            Waited::Taken => {
                self.state.lock().begun += 1;
                Asked::Turn(Turn { turns: self, outcome: None })
            }
            Waited::Shared(outcome) => Asked::Shared(outcome),
            Waited::Stopped => Asked::Stopped,
        }
    }

    /// Waits in line, unless `shared` has something to end the wait with: it is asked when the caller
    /// joins the line, and each time that something has changed.
    fn wait(&self, stop: &dyn Fn() -> bool, mut shared: impl FnMut(&State) -> Option<Result<SweepReport>>) -> Waited {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        let waited = loop {
            if let Some(outcome) = shared(&state) {
                break Waited::Shared(outcome);
            }
            if !state.taken && state.waiting.front() == Some(&ticket) {
                state.taken = true;
                break Waited::Taken;
            }
            self.changed.wait_for(&mut state, LOOK);
            // It may wait itself. What has been done for the caller meanwhile counts before what he is told now.
            if MutexGuard::unlocked(&mut state, stop) && shared(&state).is_none() {
                break Waited::Stopped;
            }
        };
        state.waiting.retain(|waiting| *waiting != ticket);
        drop(state);
        // Who is first now may have been behind the caller.
        self.changed.notify_all();
        waited
    }
}

#[allow(clippy::large_enum_variant, reason = "as of Asked")]
enum Waited {
    Taken,
    Shared(Result<SweepReport>),
    Stopped,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    /// One who takes turn after turn does not keep others waiting for more than the one that he has.
    #[test]
    fn who_asks_again_goes_behind() {
        const EACH: u64 = 50;
        let (turns, over) = (Turns::default(), AtomicBool::new(false));
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let held = turns.hold(&|| false);
                    taken.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                    drop(held);
                }
            });
            for _ in 0..EACH {
                while turns.state.lock().waiting.is_empty() && !turns.state.lock().taken {
                    std::thread::yield_now();
                }
                let before = taken.load(Ordering::Relaxed);
                let asked = turns.sweep(&|| false);
                assert!(matches!(asked, Asked::Turn(_)));
                // The one that ran, and the one that may have been asked for before.
                assert!(taken.load(Ordering::Relaxed) <= before + 2);
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn those_who_wait_share_the_next_sweep() {
        let turns = Turns::default();
        let Asked::Turn(first) = turns.sweep(&|| false) else { panic!("nobody is before it") };
        std::thread::scope(|scope| {
            let sweep = || match turns.sweep(&|| false) {
                Asked::Turn(mut turn) => {
                    turn.outcome = Some(Ok(SweepReport::default()));
                    true
                }
                Asked::Shared(_) | Asked::Stopped => false,
            };
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(sweep)).collect();
            while turns.state.lock().waiting.len() < 4 {
                std::thread::yield_now();
            }
            drop(first);
            let swept = waiters.into_iter().map(|waiter| waiter.join().is_ok_and(|swept| swept));
            assert_eq!(swept.filter(|swept| *swept).count(), 1, "the others share what one of them did");
        });
        assert_eq!(turns.state.lock().begun, 2);
    }

    #[test]
    fn who_gives_up_leaves_the_line() {
        let turns = Turns::default();
        let held = turns.hold(&|| false);
        assert!(turns.hold(&|| true).is_none());
        assert!(matches!(turns.sweep(&|| true), Asked::Stopped));
        drop(held);
        assert!(turns.hold(&|| false).is_some());
        assert!(turns.state.lock().waiting.is_empty());
    }
}
