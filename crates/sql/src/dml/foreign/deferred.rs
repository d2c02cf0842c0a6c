//! What waits for the end of the transaction, and SET CONSTRAINTS.
//!
//! A key that was not fine at the end of a statement is kept until the transaction commits or
//! is prepared, and judged by the definitions of that moment. One that SET CONSTRAINTS …
//! IMMEDIATE found to be fine is kept all the same: what made it so may be taken back to a
//! savepoint.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_engine::{Deferral, Index, Table};

use super::enforce::{Check, Id, Of, bounded, entry_bytes, run_check};
use super::{Reference, Unique};
use crate::exec::wait::{Waiting, guarded, settle};
use crate::parse::statement::set_constraints::Wanted;
use crate::session::Session;
use crate::session::execution::command;
use crate::wire::{Execution, SqlError};

/// What SET CONSTRAINTS said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modes {
    /// Of all at once.
    all: Option<bool>,
    /// Of single ones, since then: table, constraint, and whether it is deferred.
    each: HashMap<(u32, u32), bool>,
}

#[derive(Clone)]
struct Entry {
    of: Id,
    /// The table at the other end.
    other: u32,
    key: Vec<u8>,
    /// SET CONSTRAINTS found it to be fine.
    checked: bool,
}

/// See the module's head. One for each transaction.
#[derive(Default)]
pub(crate) struct Deferred {
    pub modes: Modes,
    entries: Vec<Entry>,
    /// Where each of them is.
    known: HashMap<(Id, Vec<u8>), usize>,
    bytes: usize,
}

impl Deferred {
    /// Whether a constraint waits for the end of the transaction.
    pub(super) fn is_deferred(&self, of: &Of) -> bool {
        let (deferrable, deferred) = match of {
            Of::Reference { restrict: true, .. } => return false,
            Of::Reference { reference, .. } => (reference.foreign.deferrable, reference.foreign.deferred),
            Of::Unique(unique) => (true, unique.deferral() == Deferral::Transaction),
        };
        let (table, constraint, _) = of.id();
        let set = self.modes.each.get(&(table, constraint)).copied().or(self.modes.all);
        deferrable && set.unwrap_or(deferred)
    }

    pub(super) fn push(&mut self, check: &Check) -> Result<(), SqlError> {
        let of = check.of.id();
        let known = (of, check.key.clone());
        if let Some(entry) = self.known.get(&known).and_then(|at| self.entries.get_mut(*at)) {
            entry.checked = false;
            return Ok(());
        }
        self.known.insert(known, self.entries.len());
        self.bytes += entry_bytes(&check.key);
        bounded(self.bytes)?;
        self.entries.push(Entry { of, other: check.of.other(), key: check.key.clone(), checked: false });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it is as it was made.
    pub(crate) fn is_unused(&self) -> bool {
        self.entries.is_empty()
            && self.known.is_empty()
            && self.bytes == 0
            && self.modes.all.is_none()
            && self.modes.each.is_empty()
    }

    /// The transaction went back to a savepoint, at which SET CONSTRAINTS had said `modes`.
    pub(crate) fn back_to(&mut self, modes: Modes) {
        self.modes = modes;
        for entry in &mut self.entries {
            entry.checked = false;
        }
    }

    /// `55006` for a change of a table of which keys wait to be looked at.
    pub(crate) fn refuse_change(&self, table: &Table, what: &str) -> Result<(), SqlError> {
        if self.entries.iter().any(|entry| entry.of.0 == table.id || entry.other == table.id) {
            return Err(SqlError::new(
                "55006",
                format!("cannot {what} \"{}\" because it has pending trigger events", table.name),
            ));
        }
        Ok(())
    }
}

impl Session {
    /// Judges what is kept, or (`only_immediate`) that of constraints that are not deferred any
    /// more. After an error the transaction is to be rolled back.
    pub(crate) async fn check_deferred(&mut self, only_immediate: bool) -> Result<(), SqlError> {
        let Some(open) = &self.open else { return Ok(()) };
        if open.deferred.lock().is_empty() {
            return Ok(());
        }
        let (txn, deferred) = (open.txn.clone(), Arc::clone(&open.deferred));
        let lock_timeout = self.shared.variables.lock().lock_timeout;
        let stop = Arc::clone(&self.shared.stop);
        // Whose row an error may tell of.
        let told = Mutex::new(None);
        let work = async {
            let waiting = Waiting { stop: &stop, lock_timeout };
            for at in 0.. {
                stop.check()?;
                let entry = deferred.lock().entries.get(at).cloned();
                let Some(entry) = entry else { break };
                // Looked up anew: the transaction may have changed them.
                let (table, constraint, side) = entry.of;
                let (Some(table), Some(other)) = (txn.table_by_id(table)?, txn.table_by_id(entry.other)?) else {
                    continue;
                };
                let of = match side {
                    Some(side) => {
                        *told.lock() = None;
                        let Some(foreign) = table.foreign_keys.iter().find(|foreign| foreign.id == constraint) else {
                            continue;
                        };
                        let reference = Arc::new(Reference::new(&table, &other, foreign)?);
                        Of::Reference { reference, side, restrict: false }
                    }
                    None => {
                        *told.lock() = Some(Arc::clone(&table));
                        let is_meant = |index: &Index| index.id == constraint && index.is_deferrable();
                        let Some(index) = table.indexes.iter().position(is_meant) else { continue };
                        Of::Unique(Arc::new(Unique::new(&table, index)))
                    }
                };
                if only_immediate && deferred.lock().is_deferred(&of) {
                    continue;
                }
                settle(&waiting, || txn.lock_rows(&table)).await?;
                settle(&waiting, || txn.lock_rows(&other)).await?;
                let check = Check { of, key: entry.key.clone() };
                run_check(&txn, &check, &waiting).await?;
                if let Some(entry) = deferred.lock().entries.get_mut(at) {
                    entry.checked = true;
                }
            }
            Ok(())
        };
        let checked = guarded(&stop, self.deadline(), work).await;
        checked.map_err(|error| self.discreet(error, told.lock().iter()))
    }

    /// Runs SET CONSTRAINTS.
    pub(crate) async fn set_constraints(&mut self, wanted: &Wanted) -> Result<Execution, SqlError> {
        if !self.is_local_to_something() {
            self.notice(SqlError::notice("WARNING", "25P01", "SET CONSTRAINTS can only be used in transaction blocks"));
            return command("SET CONSTRAINTS");
        }
        let open = self.transaction();
        open.used = true;
        let (txn, deferred) = (open.txn.clone(), Arc::clone(&open.deferred));
        if wanted.names.is_empty() {
            let mut deferred = deferred.lock();
            deferred.modes = Modes { all: Some(wanted.deferred), each: HashMap::new() };
        } else {
            let tables = txn.tables()?;
            let mut found = Vec::new();
            for (schema, name) in &wanted.names {
                let before = found.len();
                for table in tables.iter().filter(|table| schema.as_ref().is_none_or(|s| *s == table.schema)) {
                    for foreign in table.foreign_keys.iter().filter(|foreign| foreign.name == *name) {
                        if !foreign.deferrable {
                            return Err(SqlError::new("42809", format!("constraint \"{name}\" is not deferrable")));
                        }
                        found.push((table.id, foreign.id));
                    }
                    let mut named = table.indexes.iter().filter(|index| index.constraint && index.name == *name);
                    found.extend(named.clone().filter(|index| index.is_deferrable()).map(|index| (table.id, index.id)));
                    let other = table.primary_key_name == *name
                        || table.checks.iter().any(|check| check.name == *name)
                        || named.any(|index| !index.is_deferrable());
                    if other {
                        return Err(SqlError::new("42809", format!("constraint \"{name}\" is not deferrable")));
                    }
                }
                if found.len() == before {
                    return Err(SqlError::new("42704", format!("constraint \"{name}\" does not exist")));
                }
            }
            let mut deferred = deferred.lock();
            for id in found {
                deferred.modes.each.insert(id, wanted.deferred);
            }
        }
        if !wanted.deferred {
            self.check_deferred(true).await?;
        }
        command("SET CONSTRAINTS")
    }
}
