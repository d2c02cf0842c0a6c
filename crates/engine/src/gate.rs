//! What is under way in something that has a state under a lock, and can be ended while threads use it.
//!
//! # Invariants
//! 1. An operation begins under the state's lock.
//! 2. Whoever has the lock from [`Gate::quiet`] has it while no operation is under way, and none begins until
//!    the lock is given back.
//! 3. The end of the last operation wakes everybody who waits for it: nobody depends on the time limit of a wait.
//!
//! 3 is that one of two comes first: who waits says so and then looks for operations, who ends one takes it away
//! and then looks for those who wait; both under one order (`SeqCst`).
//!
//! `models/tests/gate.rs` holds it against all of this, with bugs planted in this very text.

use std::time::Duration;

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};

/// How long one wait takes at most: what gives up meanwhile (a cancel) is looked at in between.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Counts what is under way.
#[derive(Default)]
pub(crate) struct Gate {
    under_way: AtomicUsize,
    /// Who waits for there to be none.
    waiting: AtomicUsize,
    mutex: Mutex<()>,
    none_left: Condvar,
}

/// One operation that is under way, until it is dropped.
#[must_use]
pub(crate) struct Operation<'gate>(&'gate Gate);

impl Gate {
    /// Begins one; `_state` is what the state's lock protects.
    pub fn begin<S>(&self, _state: &S) -> Operation<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        Operation(self)
    }

    /// Locks `state` while none is under way. `blocking` is given each wait.
    pub fn quiet<'s, S>(&self, state: &'s Mutex<S>, blocking: impl Fn(&mut dyn FnMut())) -> MutexGuard<'s, S> {
        loop {
            let locked = state.lock();
            if self.under_way.load(Ordering::SeqCst) == 0 {
                return locked;
            }
            // An operation needs the lock on its way to its end.
            drop(locked);
            blocking(&mut || self.wait());
        }
    }

    /// Waits until none is under way, or for a while.
    fn wait(&self) {
        let mut mutex = self.mutex.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.under_way.load(Ordering::SeqCst) > 0 {
            self.none_left.wait_for(&mut mutex, WAIT_MAX);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        let gate = self.0;
        if gate.under_way.fetch_sub(1, Ordering::SeqCst) == 1 && gate.waiting.load(Ordering::SeqCst) > 0 {
            // Who waits has the mutex until it sleeps.
            let _asleep = gate.mutex.lock();
            gate.none_left.notify_all();
        }
    }
}
