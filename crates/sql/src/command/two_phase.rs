//! PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED, as PostgreSQL has them.
//!
//! ```text
//! block  --PREPARE TRANSACTION--> idle; the transaction is in doubt, nobody's
//! block  --it fails-------------> idle; the transaction is rolled back
//! failed --PREPARE TRANSACTION--> idle; ROLLBACK
//! idle   --PREPARE TRANSACTION--> idle; a warning, ROLLBACK
//! ```
//! The other two are statements of their own, from any session.

use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_engine::{CommitTicket, Database};

use crate::command::utility::command;
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::session::Session;
use crate::wire::{Execution, SqlError};

/// Names of the statements.
const PREPARE: &str = "PREPARE TRANSACTION";
const COMMIT: &str = "COMMIT PREPARED";
const ROLLBACK: &str = "ROLLBACK PREPARED";

/// Reads one of the three, whose first word is taken already; `None` if the text is something
/// else (a PREPARE of a statement, a plain COMMIT).
pub(crate) fn parse(first: &str, mut words: Words<'_>) -> Option<Result<Own, SqlError>> {
    let name = [PREPARE, COMMIT, ROLLBACK].into_iter().find(|name| {
        let (one, two) = name.split_once(' ').unwrap_or_default();
        first.eq_ignore_ascii_case(one) && words.take_word(two)
    })?;
    let gid = match words.peek() {
        Some(Token::SingleQuotedString(gid) | Token::EscapedStringLiteral(gid) | Token::UnicodeStringLiteral(gid)) => {
            gid.clone()
        }
        Some(Token::DollarQuotedString(gid)) => gid.value.clone(),
        // A prepared statement may be called "transaction".
        Some(Token::Word(_) | Token::LParen) if name == PREPARE => return None,
        _ => return Some(Err(words.unexpected())),
    };
    words.next();
    Some(words.expect_end().map(|()| match name {
        PREPARE => Own::PrepareTransaction { gid },
        COMMIT => Own::CommitPrepared { gid },
        _ => Own::RollbackPrepared { gid },
    }))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::words::first_word;

    fn parse(text: &str) -> Option<Result<Own, SqlError>> {
        let mut words = Words::of(text)?;
        words.next();
        super::parse(&first_word(text), words)
    }

    #[test]
    fn forms() {
        for (text, name, gid) in [
            ("PREPARE TRANSACTION 'a''b'", PREPARE, "a'b"),
            ("prepare\ttransaction e'x\\ty'", PREPARE, "x\ty"),
            ("COMMIT PREPARED'1_x'", COMMIT, "1_x"),
            ("rollback prepared $$a'b$$", ROLLBACK, "a'b"),
            ("ROLLBACK PREPARED /* which */ 'Ä'", ROLLBACK, "Ä"),
            ("/* a /* b */ */ commit -- c; d\n/**/prepared/**/'x'--", COMMIT, "x"),
        ] {
            let found = parse(text).map(|found| found.map_err(|error| error.to_string()));
            let gid = gid.to_owned();
            let own = match name {
                PREPARE => Own::PrepareTransaction { gid },
                COMMIT => Own::CommitPrepared { gid },
                _ => Own::RollbackPrepared { gid },
            };
            assert_eq!(found, Some(Ok(own)), "{text}");
        }
        for text in [
            "PREPARE transaction AS SELECT 1",
            "PREPARE transaction (int) AS SELECT $1",
            "PREPARE transactions AS SELECT 1",
            "COMMIT",
            "COMMIT AND CHAIN",
            "ROLLBACK TO a",
            "",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
        for (text, position) in [
            ("PREPARE TRANSACTION", None),
            ("PREPARE TRANSACTION $1", Some(21)),
            ("COMMIT PREPARED x", Some(17)),
            ("COMMIT PREPARED 'x' 'y'", Some(21)),
            ("ROLLBACK PREPARED 7", Some(19)),
        ] {
            let error = parse(text).and_then(Result::err).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", position), "{text}");
        }
    }
}
