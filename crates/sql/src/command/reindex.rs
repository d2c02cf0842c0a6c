//! REINDEX: indexes are written anew from the rows of their tables.
//!
//! An index, or all of a table, is one transaction's: the statement's own. Of a schema or a database each table is a
//! transaction by itself, as in PostgreSQL, so that no more than one is locked at a time. `CONCURRENTLY` keeps the table
//! from others all the same. Catalogs have no indexes here: there is nothing to be done
//! for them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use resurgam_engine::{StatementKind, Table, Transaction};

use crate::ddl::{is_relation, reworded};
use crate::parse::names::no_schema;
use crate::parse::statement::reindex::{Reindex, What};
use crate::pg::catalog::{is_system_schema, system_relation};
use crate::pg::search_path::is_temporary;
use crate::plan::lookup::has_schema;
use crate::plan::needs::not_owner;
use crate::session::Session;
use crate::session::execution::command;
use crate::wire::{Execution, SqlError};

impl Session {
    /// Runs one.
    ///
    /// # Errors
    /// `42P01`, `42809`, `42501`, `25001`; `23505` where rows are not unique that an index which was wrong has let in.
    pub(crate) async fn reindex(&mut self, reindex: &Reindex) -> Result<Execution, SqlError> {
        if reindex.concurrently {
            self.refuse_in_transaction("REINDEX CONCURRENTLY")?;
        }
        match reindex.tablespace.as_deref() {
            None | Some("pg_default") => {}
            Some("pg_global") => {
                return Err(SqlError::new("22023", "only shared relations can be placed in pg_global tablespace"));
            }
            Some(other) => return Err(SqlError::new("42704", format!("tablespace \"{other}\" does not exist"))),
        }
        self.ddl_deadline = self.deadline();
        match &reindex.what {
            What::Table(name) => self.reindex_table(name, reindex).await?,
            What::Index(name) => self.reindex_index(name, reindex).await?,
            What::Schema(name) => {
                self.refuse_in_transaction("REINDEX SCHEMA")?;
                let txn = self.reindex_transaction()?;
                if !has_schema(&txn, name)? {
                    return Err(no_schema(name));
                }
                let rights = self.rights()?;
                if !rights.has_rights_of(self.role(), rights.schema(name).owner) {
                    return Err(not_owner("schema", name));
                }
                self.reindex_all(txn, Some(name), reindex).await?;
            }
            What::Database(name) => {
                self.refuse_in_transaction("REINDEX DATABASE")?;
                self.may_reindex_database(name)?;
                if reindex.concurrently {
                    let text = "cannot reindex system catalogs concurrently, skipping all";
                    self.notice(SqlError::notice("WARNING", "0A000", text));
                }
                let txn = self.reindex_transaction()?;
                self.reindex_all(txn, None, reindex).await?;
            }
            What::System(name) => {
                self.refuse_in_transaction("REINDEX SYSTEM")?;
                if reindex.concurrently {
                    return Err(of_catalogs());
                }
                self.may_reindex_database(name)?;
            }
        }
        command("REINDEX")
    }

    /// The transaction it is done in, which may be one that only reads, as in PostgreSQL: what rows there are stays.
    fn reindex_transaction(&mut self) -> Result<Transaction, SqlError> {
        let open = self.transaction();
        open.used = true;
        let txn = open.txn.clone();
        txn.statement(StatementKind::PointWrite)?;
        Ok(txn)
    }

    fn may_reindex_database(&self, name: &str) -> Result<(), SqlError> {
        if *name != *self.shared.database_name {
            return Err(SqlError::unsupported("can only reindex the currently open database"));
        }
        let rights = self.rights()?;
        match rights.database_by_oid(self.db.oid()) {
            Some(database) => self.must_own_database(&rights, database),
            None => Ok(()),
        }
    }

    async fn reindex_table(&mut self, name: &ObjectName, reindex: &Reindex) -> Result<(), SqlError> {
        let txn = self.reindex_transaction()?;
        let (schema, wanted) = self.lookup(&txn).place(name)?;
        let not_table = || SqlError::new("42809", format!("\"{wanted}\" is not a table or materialized view"));
        if is_system_schema(&schema)
            && let Some(system) = system_relation(&schema, &wanted)
        {
            return match system.kind {
                'r' if !self.rights()?.is_superuser(self.role()) => Err(not_owner("table", &wanted)),
                'r' if reindex.concurrently => Err(of_catalogs()),
                'r' => Ok(()),
                _ => Err(not_table()),
            };
        }
        if txn.table(&schema, &wanted)?.is_none() && is_relation(&txn, &schema, &wanted)? {
            return Err(not_table());
        }
        self.must_own_named(&txn, name)?;
        let table = self.locked_table(&txn, name).await?;
        if table.primary_key.is_empty() && table.indexes.is_empty() {
            // PostgreSQL has an index for large values, which a table without any cannot have.
            if table.columns.iter().all(|column| column.ty.fixed_width().is_some()) {
                let which = if reindex.concurrently { "that can be reindexed concurrently" } else { "to reindex" };
                self.skip(format!("table \"{}\" has no indexes {which}", table.name));
            }
            return Ok(());
        }
        self.write_indexes(&txn, &table, None, reindex.verbose).await
    }

    async fn reindex_index(&mut self, name: &ObjectName, reindex: &Reindex) -> Result<(), SqlError> {
        let txn = self.reindex_transaction()?;
        let (schema, wanted) = self.lookup(&txn).place(name)?;
        let find = |session: &mut Self| match txn.table_of_index(&schema, &wanted)? {
            Some(table) => Ok(table),
            None if is_relation(&txn, &schema, &wanted)? => {
                Err(SqlError::new("42809", format!("\"{wanted}\" is not an index")))
            }
            None => Err(session.lookup(&txn).undefined(name, "relation")?),
        };
        let table = find(self)?;
        if !self.owns(&table)? {
            return Err(not_owner("index", &wanted));
        }
        let table = self.locked_newest(&txn, find).await?;
        self.write_indexes(&txn, &table, Some(&wanted), reindex.verbose).await
    }

    /// Every table of a schema, or of the database, in a transaction of its own. Those that go meanwhile are passed over.
    async fn reindex_all(&mut self, txn: Transaction, schema: Option<&str>, reindex: &Reindex) -> Result<(), SqlError> {
        let own = self.cx.search_path().temporary().map(str::to_owned);
        let mut tables = txn.tables()?;
        tables.retain(|table| {
            let is_others = is_temporary(&table.schema) && own.as_deref() != Some(table.schema.as_str());
            let has_any = !table.primary_key.is_empty() || !table.indexes.is_empty();
            schema.is_none_or(|schema| table.schema == schema) && !is_others && has_any
        });
        let ids: Vec<u32> = tables.iter().map(|table| table.id).collect();
        drop((tables, txn));
        self.commit().await?;
        for id in ids {
            let txn = self.reindex_transaction()?;
            let gone = || SqlError::new("42P01", "the table was dropped");
            let find = |_: &mut Self| txn.table_by_id(id)?.filter(|table| table.is_table()).ok_or_else(gone);
            match self.locked_newest(&txn, find).await {
                Ok(table) => {
                    self.write_indexes(&txn, &table, None, reindex.verbose).await?;
                    if reindex.verbose {
                        self.tell_reindexed(format!("table \"{}.{}\"", table.schema, table.name));
                    }
                }
                Err(error) if error.sqlstate == "42P01" => {}
                Err(error) => return Err(error),
            }
            drop(txn);
            self.commit().await?;
        }
        Ok(())
    }

    /// Writes one index of a locked table anew, or all.
    async fn write_indexes(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        only: Option<&str>,
        verbose: bool,
    ) -> Result<(), SqlError> {
        let write = || tokio::task::block_in_place(|| txn.reindex(table, only));
        let columns: Vec<usize> = (0..table.columns.len()).collect();
        self.settle_ddl(write).await.map_err(|error| reworded(error, table, &columns))?;
        if verbose {
            let key = Some(&table.primary_key_name).filter(|name| !name.is_empty());
            let all = key.into_iter().chain(table.indexes.iter().map(|index| &index.name));
            for name in all.filter(|name| only.is_none_or(|only| only == name.as_str())) {
                self.tell_reindexed(format!("index \"{name}\""));
            }
        }
        Ok(())
    }

    fn tell_reindexed(&mut self, what: String) {
        self.notice(SqlError::notice("INFO", "00000", format!("{what} was reindexed")));
    }
}

fn of_catalogs() -> SqlError {
    SqlError::unsupported("cannot reindex system catalogs concurrently")
}
