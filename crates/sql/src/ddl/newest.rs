//! The newest definition of something, locked or kept: it is looked up again when it was changed by whoever was waited for.
//! In REPEATABLE READ it cannot be: there the snapshot decides, and the change is the statement's error.

use std::sync::Arc;

use resurgam_engine::{Attempt, Isolation, StatementKind, Table, Transaction};

use crate::session::Session;
use crate::wire::SqlError;

/// How often something is looked up again that others keep changing.
pub(super) const LOOKUPS_MAX: usize = 20;

impl Session {
    /// What `find` finds, locked against everyone else.
    ///
    /// # Errors
    /// What `find` fails with; `40001` where the snapshot, or too many changes, are in the way.
    pub(crate) async fn locked_newest(
        &mut self,
        txn: &Transaction,
        find: impl Fn(&mut Self) -> Result<Arc<Table>, SqlError>,
    ) -> Result<Arc<Table>, SqlError> {
        self.settled_newest(txn, find, Transaction::lock_for_change).await
    }

    /// What `find` finds, kept as it is until the transaction has ended.
    ///
    /// # Errors
    /// As [`Session::locked_newest`].
    pub(super) async fn kept_newest(
        &mut self,
        txn: &Transaction,
        find: impl Fn(&mut Self) -> Result<Arc<Table>, SqlError>,
    ) -> Result<Arc<Table>, SqlError> {
        self.settled_newest(txn, find, Transaction::keep).await
    }

    async fn settled_newest(
        &mut self,
        txn: &Transaction,
        find: impl Fn(&mut Self) -> Result<Arc<Table>, SqlError>,
        settle: fn(&Transaction, &Table) -> resurgam_engine::Result<Attempt<()>>,
    ) -> Result<Arc<Table>, SqlError> {
        let mut lookups = 0;
        loop {
            let found = find(self)?;
            lookups += 1;
            match self.settle_ddl(|| settle(txn, &found)).await {
                Ok(()) => return Ok(found),
                Err(error)
                    if error.definition_changed
                        && txn.isolation() == Isolation::ReadCommitted
                        && lookups < LOOKUPS_MAX =>
                {
                    txn.statement(StatementKind::PointWrite)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
