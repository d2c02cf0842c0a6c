//! What is under way in one transaction, on whatever threads: its handle can be cloned and shared.
//!
//! An *operation* is a call that writes, locks, or changes definitions. Whoever ends the transaction,
//! prepares it, or goes back to a savepoint waits until none is under way, and does so under the state's
//! lock; an operation begins under the same lock, and only while the transaction is open. So:
//! 1. No operation begins behind the end of its transaction, or goes on beyond it.
//! 2. What the log has of an operation, it has before the transaction's COMMIT, ABORT or PREPARE.
//! 3. An operation of several steps (a change of definitions) is in the transaction whole.
//!
//! Operations nest. None may end its own transaction, which would wait for itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use resurgam_base::Result;

use crate::transaction::{Transaction, TxState, check_open};

/// The operations of one transaction.
#[derive(Default)]
pub(crate) struct Operations {
    under_way: AtomicUsize,
    /// Somebody waits for there to be none.
    awaited: AtomicBool,
    gate: Mutex<()>,
    none_left: Condvar,
}

/// One that is under way, until it is dropped.
#[must_use]
pub(crate) struct Operation<'tx>(&'tx Operations);

impl Operations {
    /// Begins one; under the lock of the transaction's state.
    pub fn begin(&self, _state: &TxState) -> Operation<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        Operation(self)
    }

    /// Locks `state` if none is under way.
    fn try_quiet<'s>(&self, state: &'s Mutex<TxState>) -> Option<MutexGuard<'s, TxState>> {
        let locked = state.lock();
        (self.under_way.load(Ordering::SeqCst) == 0).then_some(locked)
    }

    /// Waits until none is under way, or for a while. Not under the lock of the state, which an
    /// operation needs on its way to its end.
    fn wait(&self) {
        let mut gate = self.gate.lock();
        self.awaited.store(true, Ordering::SeqCst);
        if self.under_way.load(Ordering::SeqCst) > 0 {
            // Several may wait, and the first that goes on says that nobody does.
            self.none_left.wait_for(&mut gate, Duration::from_millis(20));
        }
        self.awaited.store(false, Ordering::SeqCst);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.awaited.load(Ordering::SeqCst) {
            let _gate = self.0.gate.lock();
            self.0.none_left.notify_all();
        }
    }
}

impl Transaction {
    /// Begins an operation.
    ///
    /// # Errors
    /// `InvalidTransactionState` when the transaction has ended.
    pub(crate) fn operation(&self) -> Result<Operation<'_>> {
        let state = self.0.state.lock();
        check_open(&state)?;
        Ok(self.0.operations.begin(&state))
    }

    /// The state, for ending the transaction or taking a part of it back: while this is held no
    /// operation is under way, and none begins.
    pub(crate) fn quiet(&self) -> MutexGuard<'_, TxState> {
        loop {
            if let Some(state) = self.0.operations.try_quiet(&self.0.state) {
                return state;
            }
            (self.0.db.inner().options.blocking)(&mut || self.0.operations.wait());
        }
    }
}
