//! `LOCK [TABLE] [ONLY] name [, …] [IN … MODE] [NOWAIT]`, and waiting for it before a table is read.
//!
//! Tables are locked one after another, a view with what its query reads, each where its rights allow the mode. A name is
//! looked up again when its table was changed while it was waited for. Nothing is locked by a statement that fails at its rights
//! or names: these come first.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use resurgam_engine::{LockMode, Table, Transaction};

use crate::exec::wait::{Waiting, guarded, settle};
use crate::parse::statement::lock::LockTables;
use crate::pg::catalog::{is_system_schema, system_relation};
use crate::pg::roles::FIRST_ROLE;
use crate::pg::roles::acl::privilege as p;
use crate::plan::needs::{access_of, denied, object_of, word_of};
use crate::plan::statement::{Kind, Prepared};
use crate::session::Session;
use crate::session::execution::command;
use crate::wire::{Execution, SqlError};

/// Any of these rights is enough.
fn privileges_for(mode: LockMode) -> u32 {
    match mode {
        LockMode::AccessShare => p::SELECT,
        LockMode::RowExclusive => p::INSERT | p::UPDATE | p::DELETE | p::TRUNCATE,
        _ => p::UPDATE | p::DELETE | p::TRUNCATE,
    }
}

impl Session {
    pub(crate) async fn lock_tables(&mut self, lock: &LockTables) -> Result<Execution, SqlError> {
        if !self.is_local_to_something() {
            return Err(SqlError::new("25P01", "LOCK TABLE can only be used in transaction blocks"));
        }
        if lock.mode > LockMode::RowExclusive {
            self.refuse_if_read_only("LOCK TABLE")?;
        }
        let txn = self.transaction().txn.clone();
        for name in &lock.names {
            self.lock_named(&txn, name, lock).await?;
        }
        if let Some(ticket) = self.db.engine.until_visible()? {
            ticket.await?;
        }
        command("LOCK TABLE")
    }

    async fn lock_named(&mut self, txn: &Transaction, name: &ObjectName, lock: &LockTables) -> Result<(), SqlError> {
        let (schema, wanted) = self.lookup(txn).place(name)?;
        if is_system_schema(&schema) && system_relation(&schema, &wanted).is_some() {
            if lock.mode == LockMode::AccessShare {
                return Ok(()); // nobody changes one
            }
            return Err(SqlError::unsupported("LOCK TABLE of system catalogs is not supported"));
        }
        let mut locked = None;
        loop {
            let entry = self.lockable(txn, name)?;
            if locked == Some(entry.id) {
                return Ok(()); // as its snapshot sees it: it was changed since
            }
            self.may_lock(&entry, lock.mode, self.role())?;
            let mut all = vec![Arc::clone(&entry)];
            self.add_below(txn, &entry, lock.mode, &mut all)?;
            let mut is_current = true;
            for entry in all {
                is_current &= self.lock_entry(txn, &entry, lock).await?;
            }
            if is_current {
                return Ok(());
            }
            locked = Some(entry.id);
        }
    }

    /// What a view reads is locked with it, by the rights of its owner.
    fn add_below(
        &self,
        txn: &Transaction,
        entry: &Table,
        mode: LockMode,
        all: &mut Vec<Arc<Table>>,
    ) -> Result<(), SqlError> {
        for relation in entry.view.iter().flat_map(|view| &view.relations) {
            if all.iter().any(|known| known.id == relation.id) {
                continue;
            }
            // What is gone, or is no table, cannot be locked.
            let found = match txn.table_by_id(relation.id)? {
                Some(table) => Some(table),
                None => txn.view_by_id(relation.id)?,
            };
            let Some(below) = found else { continue };
            self.may_lock(&below, mode, access_of(entry).owner)?;
            all.push(Arc::clone(&below));
            self.add_below(txn, &below, mode, all)?;
        }
        Ok(())
    }

    async fn lock_entry(&mut self, txn: &Transaction, entry: &Table, lock: &LockTables) -> Result<bool, SqlError> {
        let stop = Arc::clone(&self.shared.stop);
        let waiting = Waiting { stop: &stop, lock_timeout: self.hot().lock_timeout };
        let attempts = settle(&waiting, || txn.lock_by_name(entry, lock.mode, lock.nowait));
        guarded(&stop, self.deadline(), attempts).await
    }

    /// The table or view that a name means.
    fn lockable(&self, txn: &Transaction, name: &ObjectName) -> Result<Arc<Table>, SqlError> {
        let (schema, wanted) = self.lookup(txn).place(name)?;
        let refused = |kind: &str| {
            SqlError::new("42809", format!("cannot lock relation \"{wanted}\""))
                .with_detail(format!("This operation is not supported for {kind}."))
        };
        if txn.table_of_index(&schema, &wanted)?.is_some() {
            return Err(refused("indexes"));
        }
        let found = self.relation_named(txn, name)?;
        if found.sequence.is_some() { Err(refused("sequences")) } else { Ok(found) }
    }

    fn may_lock(&self, entry: &Table, mode: LockMode, role: u32) -> Result<(), SqlError> {
        if role == FIRST_ROLE {
            return Ok(());
        }
        let allowed = self.rights()?.allowed(role, access_of(entry), object_of(entry), privileges_for(mode));
        if allowed != 0 { Ok(()) } else { Err(denied(word_of(entry), &entry.name)) }
    }

    /// Before a statement reads: waits for tables that others have locked in ACCESS EXCLUSIVE by name.
    pub(crate) async fn until_readable(&mut self, prepared: &Prepared) -> Result<(), SqlError> {
        let prepared = if let Kind::Declare { inner, .. } = &prepared.kind { &**inner } else { prepared };
        let txn = self.transaction().txn.clone();
        let stop = Arc::clone(&self.shared.stop);
        let waiting = Waiting { stop: &stop, lock_timeout: self.hot().lock_timeout };
        let deadline = self.deadline();
        for need in &prepared.needs.relations {
            let attempts = settle(&waiting, || txn.until_readable(&need.entry));
            guarded(&stop, deadline, attempts).await?;
        }
        if let Some(ticket) = self.db.engine.until_visible()? {
            ticket.await?;
        }
        Ok(())
    }
}
