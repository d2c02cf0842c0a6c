//! Changes of definitions. All are transactional: definitions are versioned rows, new trees
//! go if their creator aborts and old ones when their dropper is committed for all (see
//! `ledger.rs` of the versions crate).

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, ObjectId, Result, limits::COLUMNS_MAX};
use resurgam_btree::{self as btree, Tree};
use resurgam_page::types::{ColumnType, DatumRef};
use resurgam_txn::LockMode;
use resurgam_versions::LedgerAction;

use crate::catalog::check_name;
use crate::table::{Column, ColumnSpec, Index, IndexSpec, Parts, Place, Table, TableSpec};
use crate::transaction::{Attempt, Transaction};

/// A change of a table's definition.
#[derive(Clone, Debug, PartialEq)]
pub enum TableChange {
    /// Rebuilds the table clustered on these columns, which become NOT NULL.
    AddPrimaryKey {
        name: String,
        columns: Vec<usize>,
    },
    RenameTable(String),
    RenameColumn(usize, String),
    SetDefault(usize, Option<String>),
    SetNotNull(usize, bool),
    /// Rows that exist have NULL in it.
    AddColumn(ColumnSpec),
    DropColumn(usize),
}

/// Unwraps an attempt or returns its wait.
macro_rules! attempt {
    ($e:expr) => {
        match $e? {
            Attempt::Done(value) => value,
            Attempt::Wait(wait) => return Ok(Attempt::Wait(wait)),
        }
    };
}

impl Transaction {
    fn new_tree(&self) -> Result<Tree> {
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        let object = ObjectId(inner.next_object());
        // The tree and the note of what becomes of it if this transaction aborts, in one group.
        let mut made = None;
        let lsn = inner.ledger.add_with(&inner.pool, context.xid, LedgerAction::TREE_BYTES, |mtr| {
            let tree = btree::create(mtr, object)?;
            made = Some(tree);
            Ok(LedgerAction::TreeIfAborted(tree))
        })?;
        context.active.logged_aside(lsn);
        let Some(tree) = made else { return Err(Error::internal("a tree was not made")) };
        inner.note_tree(tree);
        Ok(tree)
    }

    fn drop_tree(&self, tree: Tree) -> Result<()> {
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        context.active.logged_aside(inner.ledger.add(
            &inner.pool,
            context.xid,
            &LedgerAction::TreeIfCommitted(tree),
        )?);
        Ok(())
    }

    /// Drops the tree of a table's rows, with the large values that they refer to.
    fn drop_rows(&self, table: &Table) -> Result<()> {
        if !table.may_hold_external() {
            return self.drop_tree(table.tree);
        }
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        let widths = table.value_types.iter().map(|t| t.fixed_width().map_or(0, |w| w as u8)).collect();
        let action = LedgerAction::RowsIfCommitted(table.tree, widths);
        context.active.logged_aside(inner.ledger.add(&inner.pool, context.xid, &action)?);
        Ok(())
    }

    /// Locks a table against everyone else. False: it was changed or dropped meanwhile.
    fn lock_exclusive(&self, table: &Table) -> Result<Attempt<()>> {
        if let Some(wait) = self.lock_table(ObjectId(table.id), LockMode::Exclusive)? {
            return Ok(Attempt::Wait(wait));
        }
        let current = self.is_newest(table)?;
        if !current {
            return Err(Error::new(
                ErrorKind::SerializationFailure,
                format!(
                    "could not change table \"{}\" because its definition was changed at the same time",
                    table.name
                ),
            )
            .with_hint("Retry the transaction."));
        }
        Ok(Attempt::Done(()))
    }

    /// Creates a table with its indexes.
    ///
    /// # Errors
    /// `DuplicateTable`, `DuplicateColumn`, `LimitExceeded`.
    pub fn create_table(&self, spec: TableSpec) -> Result<Attempt<Arc<Table>>> {
        if let Some(wait) = self.enter()? {
            return Ok(Attempt::Wait(wait));
        }
        check_name("schema", &spec.schema)?;
        check_columns(&spec.columns)?;
        let key_columns = spec.primary_key.as_ref().map(|(_, c)| c.clone()).unwrap_or_default();
        check_positions(&key_columns, spec.columns.len())?;
        let id = self.0.db.inner().next_object();
        let primary_key_name = spec.primary_key.as_ref().map(|(n, _)| n.clone()).unwrap_or_default();
        for index in &spec.indexes {
            check_positions(&index.columns, spec.columns.len())?;
        }
        let mut names = vec![(spec.name.as_str(), false)];
        names.extend((!primary_key_name.is_empty()).then_some((primary_key_name.as_str(), true)));
        names.extend(spec.indexes.iter().map(|i| (i.name.as_str(), true)));
        attempt!(self.claim_names(&spec.schema, &names, id));
        let mut parts = Parts {
            id,
            schema: spec.schema.clone(),
            name: spec.name.clone(),
            columns: spec.columns.iter().map(column_of).collect(),
            primary_key: key_columns,
            primary_key_name: primary_key_name.clone(),
            indexes: Vec::new(),
            tree: self.new_tree()?,
            generation: 1,
            value_types: Vec::new(),
        };
        place(&mut parts);
        for index in &spec.indexes {
            let index_id = self.0.db.inner().next_object();
            parts.indexes.push(index_of(index_id, index, self.new_tree()?));
        }
        self.store_definition(&parts, None).map(Attempt::Done)
    }

    /// Takes several names, or none of them if one has to be waited for.
    fn claim_names(&self, schema: &str, names: &[(&str, bool)], id: u32) -> Result<Attempt<()>> {
        for (at, (name, is_index)) in names.iter().enumerate() {
            if let Attempt::Wait(wait) = self.claim_name(schema, name, id, *is_index)? {
                for (taken, _) in &names[..at] {
                    self.release_name(schema, taken)?;
                }
                return Ok(Attempt::Wait(wait));
            }
        }
        Ok(Attempt::Done(()))
    }

    /// Drops a table.
    pub fn drop_table(&self, table: &Arc<Table>) -> Result<Attempt<()>> {
        attempt!(self.lock_exclusive(table));
        self.release_name(&table.schema, &table.name)?;
        if !table.primary_key_name.is_empty() {
            self.release_name(&table.schema, &table.primary_key_name)?;
        }
        self.drop_rows(table)?;
        for index in &table.indexes {
            self.release_name(&table.schema, &index.name)?;
            self.drop_tree(index.tree)?;
        }
        self.remove_definition(table)?;
        Ok(Attempt::Done(()))
    }

    /// Empties a table by giving it new trees: constant time.
    pub fn truncate(&self, table: &Arc<Table>) -> Result<Attempt<()>> {
        attempt!(self.lock_exclusive(table));
        let mut parts = Parts::of(table);
        self.drop_rows(table)?;
        parts.tree = self.new_tree()?;
        for index in &mut parts.indexes {
            self.drop_tree(index.tree)?;
            index.tree = self.new_tree()?;
        }
        parts.generation += 1;
        self.store_definition(&parts, Some(table))?;
        Ok(Attempt::Done(()))
    }

    /// Creates an index and fills it.
    ///
    /// # Errors
    /// `UniqueViolation` when rows that exist are not unique. The transaction must then be
    /// rolled back.
    pub fn create_index(&self, table: &Arc<Table>, spec: IndexSpec) -> Result<Attempt<Arc<Table>>> {
        check_positions(&spec.columns, table.columns.len())?;
        attempt!(self.lock_exclusive(table));
        attempt!(self.claim_name(&table.schema, &spec.name, table.id, true));
        let mut parts = Parts::of(table);
        parts.indexes.push(index_of(self.0.db.inner().next_object(), &spec, self.new_tree()?));
        parts.generation += 1;
        let at = parts.indexes.len() - 1;
        let new = self.store_definition(&parts, Some(table))?;
        self.fill_index(&new, at)?;
        Ok(Attempt::Done(new))
    }

    /// Drops an index by name.
    pub fn drop_index(&self, table: &Arc<Table>, name: &str) -> Result<Attempt<Arc<Table>>> {
        attempt!(self.lock_exclusive(table));
        let Some(at) = table.indexes.iter().position(|i| i.name == name) else {
            return Err(Error::new(ErrorKind::UndefinedObject, format!("index \"{name}\" does not exist")));
        };
        let mut parts = Parts::of(table);
        let index = parts.indexes.remove(at);
        self.release_name(&table.schema, &index.name)?;
        self.drop_tree(index.tree)?;
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// Changes a definition. The result is the new one.
    pub fn alter_table(&self, table: &Arc<Table>, change: TableChange) -> Result<Attempt<Arc<Table>>> {
        attempt!(self.lock_exclusive(table));
        let mut parts = Parts::of(table);
        parts.generation += 1;
        let column_exists = |at: usize| {
            if at < table.columns.len() {
                Ok(())
            } else {
                Err(Error::new(ErrorKind::UndefinedColumn, "column does not exist"))
            }
        };
        match change {
            TableChange::RenameTable(name) => {
                attempt!(self.claim_name(&table.schema, &name, table.id, false));
                self.release_name(&table.schema, &table.name)?;
                parts.name = name;
            }
            TableChange::RenameColumn(at, name) => {
                column_exists(at)?;
                check_name("column", &name)?;
                if parts.columns.iter().any(|c| c.name == name) {
                    return Err(Error::new(
                        ErrorKind::DuplicateColumn,
                        format!("column \"{name}\" of relation \"{}\" already exists", table.name),
                    ));
                }
                parts.columns[at].name = name;
            }
            TableChange::SetDefault(at, sql) => {
                column_exists(at)?;
                parts.columns[at].default_sql = sql;
            }
            TableChange::SetNotNull(at, not_null) => {
                column_exists(at)?;
                if !not_null && parts.primary_key.contains(&at) {
                    return Err(Error::new(
                        ErrorKind::InvalidParameter,
                        format!("column \"{}\" is in a primary key", parts.columns[at].name),
                    ));
                }
                parts.columns[at].nullable = !not_null;
                if not_null {
                    self.check_no_nulls(table, at)?;
                }
            }
            TableChange::AddColumn(spec) => {
                check_name("column", &spec.name)?;
                if parts.columns.iter().any(|c| c.name == spec.name) {
                    return Err(Error::new(
                        ErrorKind::DuplicateColumn,
                        format!("column \"{}\" of relation \"{}\" already exists", spec.name, table.name),
                    ));
                }
                if parts.columns.len() >= COLUMNS_MAX {
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!("tables can have at most {COLUMNS_MAX} columns"),
                    ));
                }
                // Dropped columns keep their place in the rows.
                if parts.value_types.len() >= LedgerAction::COLUMNS_MAX {
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!("too many columns were added to and dropped from table \"{}\"", table.name),
                    )
                    .with_hint("Copy its rows to a new table."));
                }
                let mut column = column_of(&spec);
                column.place = Place::Value(parts.value_types.len() as u16);
                parts.value_types.push(column.ty);
                parts.columns.push(column);
            }
            TableChange::DropColumn(at) => {
                column_exists(at)?;
                if parts.primary_key.contains(&at) {
                    return Err(Error::new(
                        ErrorKind::DependentObjects,
                        format!("cannot drop column \"{}\" because the primary key uses it", parts.columns[at].name),
                    ));
                }
                parts.columns.remove(at);
                let mut kept = Vec::new();
                for mut index in std::mem::take(&mut parts.indexes) {
                    if index.columns.contains(&at) {
                        self.release_name(&table.schema, &index.name)?;
                        self.drop_tree(index.tree)?;
                        continue;
                    }
                    index.columns.iter_mut().for_each(|c| *c -= usize::from(*c > at));
                    kept.push(index);
                }
                parts.indexes = kept;
                parts.primary_key.iter_mut().for_each(|c| *c -= usize::from(*c > at));
            }
            TableChange::AddPrimaryKey { name, columns } => {
                check_positions(&columns, table.columns.len())?;
                if !table.primary_key.is_empty() {
                    return Err(Error::new(
                        ErrorKind::InvalidParameter,
                        format!("multiple primary keys for table \"{}\" are not allowed", table.name),
                    ));
                }
                attempt!(self.claim_name(&table.schema, &name, table.id, true));
                for at in &columns {
                    parts.columns[*at].nullable = false;
                    self.check_no_nulls(table, *at)?;
                }
                parts.primary_key = columns;
                parts.primary_key_name = name;
                place(&mut parts);
                self.drop_tree(parts.tree)?;
                parts.tree = self.new_tree()?;
                for index in &mut parts.indexes {
                    self.drop_tree(index.tree)?;
                    index.tree = self.new_tree()?;
                }
                let new = self.store_definition(&parts, Some(table))?;
                self.rebuild(table, &new, |row, put| put(row))?;
                return Ok(Attempt::Done(new));
            }
        }
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    fn check_no_nulls(&self, table: &Arc<Table>, column: usize) -> Result<()> {
        let view = self.newest_view();
        let mut cursor = view.scan(table, crate::KeyRange::all(), crate::Direction::Forward);
        let mut batch = crate::RowBatch::default();
        loop {
            batch.clear();
            if !cursor.next_batch(&mut batch, 1000)? {
                return Ok(());
            }
            for i in 0..batch.len() {
                if matches!(table.column(batch.row(i), column)?, DatumRef::Null) {
                    return Err(Error::new(
                        ErrorKind::NotNullViolation,
                        format!(
                            "column \"{}\" of relation \"{}\" contains null values",
                            table.columns[column].name, table.name
                        ),
                    ));
                }
            }
        }
    }
}

fn column_of(spec: &ColumnSpec) -> Column {
    Column {
        name: spec.name.clone(),
        ty: spec.ty,
        nullable: spec.nullable,
        default_sql: spec.default_sql.clone(),
        place: Place::Value(0),
    }
}

fn index_of(id: u32, spec: &IndexSpec, tree: Tree) -> Index {
    Index {
        id,
        name: spec.name.clone(),
        columns: spec.columns.clone(),
        unique: spec.unique,
        constraint: spec.constraint,
        tree,
    }
}

/// Decides where each column is stored, anew.
fn place(parts: &mut Parts) {
    parts.value_types.clear();
    for (at, column) in parts.columns.iter_mut().enumerate() {
        let key_at = parts.primary_key.iter().position(|c| *c == at);
        if key_at.is_some() {
            column.nullable = false;
        }
        column.place = match key_at {
            // The key form of bytea may need unescaping; it is kept in the value as well.
            Some(key_at) if column.ty != ColumnType::Bytes => Place::Key(key_at as u16),
            _ => {
                parts.value_types.push(column.ty);
                Place::Value(parts.value_types.len() as u16 - 1)
            }
        };
    }
}

fn check_columns(columns: &[ColumnSpec]) -> Result<()> {
    if columns.len() > COLUMNS_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, format!("tables can have at most {COLUMNS_MAX} columns")));
    }
    for (at, column) in columns.iter().enumerate() {
        check_name("column", &column.name)?;
        if columns[..at].iter().any(|c| c.name == column.name) {
            return Err(Error::new(
                ErrorKind::DuplicateColumn,
                format!("column \"{}\" specified more than once", column.name),
            ));
        }
    }
    Ok(())
}

fn check_positions(positions: &[usize], columns: usize) -> Result<()> {
    if positions.len() > 32 {
        return Err(Error::new(ErrorKind::LimitExceeded, "cannot use more than 32 columns in an index"));
    }
    match positions.iter().find(|at| **at >= columns) {
        Some(at) => Err(Error::new(ErrorKind::UndefinedColumn, format!("column number {at} does not exist"))),
        None => Ok(()),
    }
}
