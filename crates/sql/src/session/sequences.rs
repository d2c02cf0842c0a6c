//! `nextval`, `currval`, `setval` and `lastval` of a session.

use resurgam_engine::{Identity, SequenceState, Table, Transaction};

use crate::pg::catalog::relation_oid;
use crate::pg::context::SequenceCall;
use crate::pg::roles::acl::{Object, privilege};
use crate::plan::needs::{access_of, denied};
use crate::session::shared::SessionShared;
use crate::wire::SqlError;

fn lastval_undefined() -> SqlError {
    SqlError::new("55000", "lastval is not yet defined in this session")
}

impl SessionShared {
    /// See [`PgContext::sequence_value`](crate::pg::context::PgContext::sequence_value).
    pub(super) fn sequence_call(&self, oid: u32, what: SequenceCall) -> Result<i64, SqlError> {
        let txn = self.txn.lock().clone().ok_or_else(|| SqlError::internal("a sequence without a transaction"))?;
        if let SequenceCall::Last = what {
            let known = self.sequence_values.lock();
            let id = known.1.ok_or_else(lastval_undefined)?;
            // It may have been dropped.
            let sequence = txn.sequence_by_id(id)?.ok_or_else(lastval_undefined)?;
            self.may_use(&txn, &sequence, what)?;
            return known.0.get(&id).copied().ok_or_else(lastval_undefined);
        }
        let sequence = find(&txn, oid)?;
        self.may_use(&txn, &sequence, what)?;
        match what {
            SequenceCall::Next => {
                self.refuse_read_only("nextval()")?;
                let value = txn.next_value(&sequence)?;
                let mut known = self.sequence_values.lock();
                known.0.insert(sequence.id, value);
                known.1 = Some(sequence.id);
                Ok(value)
            }
            SequenceCall::Current => self.sequence_values.lock().0.get(&sequence.id).copied().ok_or_else(|| {
                let name = &sequence.name;
                SqlError::new("55000", format!("currval of sequence \"{name}\" is not yet defined in this session"))
            }),
            SequenceCall::Set(to, called) => {
                self.refuse_read_only("setval()")?;
                txn.set_value(&sequence, to, called)?;
                if called {
                    self.sequence_values.lock().0.insert(sequence.id, to);
                }
                Ok(to)
            }
            SequenceCall::Last => Err(lastval_undefined()),
        }
    }

    /// What `currval` and `lastval` give is not defined any more: DISCARD SEQUENCES.
    pub(crate) fn forget_sequence_values(&self) {
        *self.sequence_values.lock() = Default::default();
    }

    /// See [`PgContext::sequence_state`](crate::pg::context::PgContext::sequence_state).
    pub(super) fn sequence_place(&self, oid: u32) -> Result<SequenceState, SqlError> {
        let txn = self.txn.lock().clone().ok_or_else(|| SqlError::internal("a sequence without a transaction"))?;
        Ok(txn.sequence_state(find(&txn, oid)?.as_ref())?)
    }

    /// See [`PgContext::sequence_state_asked`](crate::pg::context::PgContext::sequence_state_asked).
    pub(super) fn sequence_place_asked(&self, oid: u32) -> Result<SequenceState, SqlError> {
        let txn = self.txn.lock().clone().ok_or_else(|| SqlError::internal("a sequence without a transaction"))?;
        let sequence = find(&txn, oid)?;
        // What it takes is what `currval` takes.
        self.may_use(&txn, &sequence, SequenceCall::Current)?;
        Ok(txn.sequence_state(sequence.as_ref())?)
    }

    /// # Errors
    /// `42501`. An identity column's sequence gives its values to whoever may insert.
    fn may_use(&self, txn: &Transaction, sequence: &Table, what: SequenceCall) -> Result<(), SqlError> {
        let role = self.role_now();
        let access = access_of(sequence);
        // Who made it, and has taken nothing from himself.
        if role == access.owner && access.grants.is_none() {
            return Ok(());
        }
        let any = match what {
            SequenceCall::Next => privilege::USAGE | privilege::UPDATE,
            SequenceCall::Set(..) => privilege::UPDATE,
            SequenceCall::Current | SequenceCall::Last => privilege::USAGE | privilege::SELECT,
        };
        if self.rights_now()?.allowed(role, access, Object::Sequence, any) != 0 {
            return Ok(());
        }
        let table = sequence.sequence.as_ref().and_then(|sequence| sequence.owner);
        let table = table.map(|table| txn.table_by_id(table)).transpose()?.flatten();
        let of_identity = |table: &std::sync::Arc<Table>| {
            table.owned.iter().any(|owned| owned.sequence == sequence.id && owned.identity != Identity::No)
        };
        match (what, table.as_ref().is_some_and(of_identity)) {
            (SequenceCall::Next, true) => Ok(()),
            _ => Err(denied("sequence", &sequence.name)),
        }
    }

    fn refuse_read_only(&self, what: &str) -> Result<(), SqlError> {
        match self.variables.lock().get("transaction_read_only").as_deref() {
            Some("on") => Err(SqlError::new("25006", format!("cannot execute {what} in a read-only transaction"))),
            _ => Ok(()),
        }
    }
}

fn find(txn: &Transaction, oid: u32) -> Result<std::sync::Arc<Table>, SqlError> {
    let id = oid.wrapping_sub(relation_oid(0));
    if let Some(sequence) = txn.sequence_by_id(id)? {
        return Ok(sequence);
    }
    let entry = match txn.table_by_id(id)? {
        Some(table) => Some(table),
        None => txn.view_by_id(id)?,
    };
    Err(match entry {
        Some(entry) => SqlError::new("42809", format!("\"{}\" is not a sequence", entry.name)),
        None => SqlError::new("XX000", format!("could not open relation with OID {oid}")),
    })
}
