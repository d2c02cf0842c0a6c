//! What is under way in one transaction, on whatever threads: its handle can be cloned and shared.
//!
//! An *operation* is a call that writes, locks, or changes definitions. Whoever ends the transaction,
//! prepares it, or goes back to a savepoint waits until none is under way, and does so under the state's
//! lock; an operation begins under the same lock, and only while the transaction is open (`gate.rs`). So:
//! 1. No operation begins behind the end of its transaction, or goes on beyond it.
//! 2. What the log has of an operation, it has before the transaction's COMMIT, ABORT or PREPARE.
//! 3. An operation of several steps (a change of definitions) is in the transaction whole.
//!
//! Operations nest. None may end its own transaction, which would wait for itself.

use parking_lot::MutexGuard;
use resurgam_base::Result;

use crate::gate::Operation;
use crate::transaction::{Transaction, TxState, check_open};

impl Transaction {
    /// Begins an operation.
    ///
    /// # Errors
    /// `InvalidTransactionState` when the transaction has ended.
    pub(crate) fn operation(&self) -> Result<Operation<'_>> {
        let state = self.0.state.lock();
        check_open(&state)?;
        Ok(self.0.operations.begin(&*state))
    }

    /// The state, for ending the transaction or taking a part of it back: while this is held no
    /// operation is under way, and none begins.
    pub(crate) fn quiet(&self) -> MutexGuard<'_, TxState> {
        self.0.operations.quiet(&self.0.state, self.0.db.inner().options.blocking)
    }
}
