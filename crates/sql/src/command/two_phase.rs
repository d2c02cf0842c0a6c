//! PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED, as PostgreSQL has them.
//!
//! ```text
//! block  --PREPARE TRANSACTION--> idle; the transaction is in doubt, nobody's
//! block  --it fails-------------> idle; the transaction is rolled back
//! failed --PREPARE TRANSACTION--> idle; ROLLBACK
//! idle   --PREPARE TRANSACTION--> idle; a warning, ROLLBACK
//! ```
//! The other two are statements of their own, from any session.

use resurgam_engine::{CommitTicket, Database};

use crate::parse::statement::two_phase::{COMMIT, ROLLBACK};
use crate::session::Session;
use crate::session::execution::command;
use crate::wire::{Execution, SqlError};

impl Session {
    /// PREPARE TRANSACTION: the open transaction is nobody's from here on, in doubt until it is
    /// committed or rolled back by its identifier.
    pub(crate) async fn prepare_transaction(&mut self, gid: &str) -> Result<Execution, SqlError> {
        if self.failed {
            self.failed = false;
            self.roll_back();
            return command("ROLLBACK");
        }
        let block = self.open.as_ref().is_some_and(|open| open.block);
        if !block {
            self.notice(SqlError::notice("WARNING", "25P01", "there is no transaction in progress"));
            // What came before it in the same string is a transaction, as in PostgreSQL.
            if !self.open.as_ref().is_some_and(|open| open.used) {
                return command("ROLLBACK");
            }
        }
        if let Err(error) = self.check_deferred(false).await {
            self.roll_back();
            return Err(error);
        }
        if self.shared.advisory_used().is_some_and(|locks| locks.taken(self.shared.pid) > 0) {
            self.roll_back();
            return Err(SqlError::unsupported("PREPARE TRANSACTION with advisory locks is not supported"));
        }
        if self.has_touched_temporary()? {
            self.roll_back();
            return Err(SqlError::unsupported("cannot PREPARE a transaction that has operated on temporary objects"));
        }
        if !self.closing.is_empty() {
            self.roll_back();
            return Err(SqlError::unsupported(
                "PREPARE TRANSACTION of one that has renamed a database is not supported",
            ));
        }
        if self.shared.has_pending() {
            self.roll_back();
            return Err(SqlError::unsupported(
                "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY",
            ));
        }
        let owner = self.rights()?.name(self.role());
        let Some(open) = &self.open else { return Err(SqlError::internal("no transaction")) };
        match open.txn.prepare(gid, &owner, &self.shared.database_name) {
            Ok(ticket) => {
                self.leave_transaction(true);
                ticket.await?;
                command("PREPARE TRANSACTION")
            }
            Err(error) => {
                // As in PostgreSQL it becomes a rollback, whatever savepoints there are.
                self.roll_back();
                Err(error.into())
            }
        }
    }

    /// COMMIT PREPARED or ROLLBACK PREPARED.
    pub(crate) async fn finish_prepared(&mut self, gid: &str, to_commit: bool) -> Result<Execution, SqlError> {
        let name = if to_commit { COMMIT } else { ROLLBACK };
        self.refuse_in_transaction(name)?;
        let engine = &self.db.engine;
        let found = engine.prepared().into_iter().find(|prepared| prepared.gid == gid);
        if let Some(found) = found
            && found.owner != self.rights()?.name(self.role())
            && !self.rights()?.is_superuser(self.role())
        {
            return Err(SqlError::new("42501", "permission denied to finish prepared transaction")
                .with_hint("Must be superuser or the user that prepared the transaction."));
        }
        let other = engine.prepared().into_iter().find(|prepared| prepared.gid == gid).map(|found| found.database);
        if other.is_some_and(|other| other != self.shared.database_name) {
            return Err(SqlError::unsupported("prepared transaction belongs to another database")
                .with_hint("Connect to the database where the transaction was prepared to finish it."));
        }
        let finish: fn(&Database, &str) -> resurgam_engine::Result<CommitTicket> =
            if to_commit { Database::commit_prepared } else { Database::rollback_prepared };
        let gid = gid.to_owned();
        let ticket = self.apart(move |engine| finish(engine, &gid)).await?;
        ticket.await?;
        command(name)
    }
}
