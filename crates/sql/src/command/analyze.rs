//! ANALYZE: what is known of tables is found out anew, from a sample of their rows.
//!
//! All tables are sampled first, each by the snapshot of a moment and beside the session's thread; what was found is stored at
//! the end, in the session's transaction. So no lock is held while rows are read. Tables that are dropped meanwhile are passed over.

use std::sync::Arc;

use resurgam_engine::{Analysis, Attempt, ErrorKind, Sampled, StatementKind, Table, TableStatistics};

use crate::command::apart::Ending;
use crate::exec::wait::{Waiting, settle};
use crate::parse::statement::cleaning::Named;
use crate::pg::catalog::{is_system_schema, system_relation};
use crate::session::Session;
use crate::session::execution::command;
use crate::wire::{Execution, SqlError};

/// What a name means.
enum Target {
    Table(Arc<Table>),
    Other(String),
    System(String, bool),
}

impl Session {
    /// ANALYZE of these tables, or of all that the role may analyse.
    ///
    /// # Errors
    /// `42P01`, `42703`, `42701`; those of reading.
    pub(crate) async fn analyze(&mut self, verbose: bool, named: &[Named]) -> Result<Execution, SqlError> {
        self.analyze_tables(verbose, named).await?;
        command("ANALYZE")
    }

    /// The same without an answer.
    pub(crate) async fn analyze_tables(&mut self, verbose: bool, named: &[Named]) -> Result<(), SqlError> {
        let txn = self.transaction().txn.clone();
        if let Some(open) = &mut self.open {
            open.used = true;
        }
        let mut targets = Vec::new();
        for name in named {
            targets.push(self.target(name)?);
        }
        if named.is_empty() {
            targets.extend(txn.tables()?.into_iter().map(Target::Table));
        }
        let mut found = Vec::new();
        for (at, target) in targets.into_iter().enumerate() {
            let Some((table, columns)) = self.allowed(target, named.get(at).map_or(&[][..], |name| &name.columns))?
            else {
                continue;
            };
            let changed = table.rows_changed();
            let (statistics, sampled) = self.analyze_one(&table, columns).await?;
            if verbose {
                self.tell(&table, &statistics, &sampled);
            }
            found.push((table, statistics, changed));
        }
        txn.statement(StatementKind::PointWrite)?;
        for (table, statistics, changed) in found {
            self.store(&table, &statistics).await?;
            table.forget_changed(changed);
        }
        self.db.engine.note_statistics();
        Ok(())
    }

    fn target(&mut self, name: &Named) -> Result<Target, SqlError> {
        let txn = self.transaction().txn.clone();
        let lookup = self.lookup(&txn);
        let (schema, relation) = lookup.place(&name.table)?;
        if is_system_schema(&schema)
            && let Some(system) = system_relation(&schema, &relation)
        {
            return Ok(Target::System(relation, system.kind == 'r'));
        }
        if let Some(table) = txn.table(&schema, &relation)? {
            return Ok(Target::Table(table));
        }
        match txn.relation(&schema, &relation)? {
            Some(_) => Ok(Target::Other(relation)),
            None => Err(lookup.undefined(&name.table, "relation")?),
        }
    }

    /// The table and the columns that are wanted, if the role may analyse it and it is one; a warning otherwise.
    fn allowed(&mut self, target: Target, columns: &[String]) -> Result<Option<(Arc<Table>, Vec<usize>)>, SqlError> {
        let rights = self.rights()?;
        let database = rights.database_by_oid(self.db.oid());
        let owns_all = rights.is_superuser(self.role())
            || database.is_some_and(|database| rights.has_rights_of(self.role(), database.access.owner));
        let why = match &target {
            Target::System(name, _) if !owns_all => {
                Some((name.as_str(), "only superuser or database owner can analyze it"))
            }
            Target::System(_, true) => return Ok(None),
            Target::System(name, false) => Some((name.as_str(), "cannot analyze non-tables or special system tables")),
            Target::Other(name) => Some((name.as_str(), "cannot analyze non-tables or special system tables")),
            Target::Table(table) if !owns_all && !self.owns(table)? => {
                Some((table.name.as_str(), "only table or database owner can analyze it"))
            }
            Target::Table(..) => None,
        };
        if let Some((name, why)) = why {
            self.notice(SqlError::notice("WARNING", "01000", format!("skipping \"{name}\" --- {why}")));
            return Ok(None);
        }
        let Target::Table(table) = target else { return Ok(None) };
        if columns.is_empty() {
            let all = table.shown_columns().collect();
            return Ok(Some((table, all)));
        }
        let mut at = Vec::with_capacity(columns.len());
        for name in columns {
            let column = table.columns.iter().position(|column| column.name == *name && !column.is_hidden());
            let Some(column) = column else {
                let text = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
                return Err(SqlError::new("42703", text));
            };
            if at.contains(&column) {
                let text = format!("column \"{name}\" of relation \"{}\" appears more than once", table.name);
                return Err(SqlError::new("42701", text));
            }
            at.push(column);
        }
        Ok(Some((table, at)))
    }

    async fn analyze_one(
        &mut self,
        table: &Arc<Table>,
        columns: Vec<usize>,
    ) -> Result<(TableStatistics, Sampled), SqlError> {
        let target = self.shared.show("default_statistics_target")?.parse().unwrap_or(100);
        let view = self.transaction().txn.statement(StatementKind::Read)?;
        let table = Arc::clone(table);
        self.apart_until_stopped(Ending::Abandoned, move |_, is_stopped| {
            let what = Analysis { columns: &columns, target, is_automatic: false, is_stopped };
            view.analyze(&table, &what)
        })
        .await
    }

    fn tell(&mut self, table: &Table, statistics: &TableStatistics, sampled: &Sampled) {
        let info = |text: String| SqlError::notice("INFO", "00000", text);
        self.notice(info(format!("analyzing \"{}.{}\"", table.schema, table.name)));
        self.notice(info(format!(
            "\"{}\": scanned {} of {} pages, containing {} live rows and {} dead rows; {} rows in sample, {} estimated \
             total rows",
            table.name,
            sampled.pages.unwrap_or(statistics.pages).min(statistics.pages),
            statistics.pages,
            sampled.read,
            sampled.met.saturating_sub(sampled.read),
            sampled.read,
            sampled.rows
        )));
    }

    async fn store(&mut self, table: &Arc<Table>, statistics: &TableStatistics) -> Result<(), SqlError> {
        let txn = self.transaction().txn.clone();
        let stop = Arc::clone(&self.shared.stop);
        let waiting = Waiting { stop: &stop, lock_timeout: self.hot().lock_timeout };
        let mut table = Arc::clone(table);
        settle(&waiting, || match txn.store_statistics(&table, statistics) {
            Err(error) if error.kind() == ErrorKind::DefinitionChanged => match txn.table_by_id(table.id)? {
                Some(newer) if !Arc::ptr_eq(&newer, &table) => {
                    table = newer;
                    txn.store_statistics(&table, statistics)
                }
                Some(_) => Err(error),
                // It is gone.
                None => Ok(Attempt::Done(())),
            },
            other => other,
        })
        .await
    }
}
