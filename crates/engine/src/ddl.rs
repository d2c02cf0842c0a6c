//! Changes of definitions. All are transactional: definitions are versioned rows, new trees
//! go if their creator aborts and old ones when their dropper is committed for all (see
//! `pending_frees.rs` of the versions crate).

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, ObjectId, Result, limits::COLUMNS_MAX, limits::INDEX_COLUMNS_MAX};
use resurgam_btree::{self as btree, Tree};
use resurgam_page::key::ColumnOrder;
use resurgam_page::row::RowLayout;
use resurgam_page::types::{ColumnType, Datum, DatumRef};
use resurgam_txn::Lock;
use resurgam_versions::PendingFree;

use crate::access::Access;
use crate::catalog::check_name;
use crate::definition::{Check, Column, CommentOn, Definition, ForeignKey, Generated, Index, Place, encode_missing};
use crate::index_details::{IndexDetails, included};
use crate::rewrite::{Rewrite, contains_nulls, is_stored_alike};
use crate::table::{ColumnSpec, IndexSpec, NO_COLUMN, Table, TableSpec};
use crate::transaction::{Attempt, Transaction, attempt};
use crate::view::ReadView;

/// Largest value that a definition keeps for rows that were stored without a column, encoded.
const MISSING_BYTES_MAX: usize = 1000;

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
    /// A column's values are computed from others from now on, or no longer. That the rows which are there have them is
    /// the caller's care.
    SetGenerated(usize, Option<(String, Vec<usize>)>),
    /// A comment, or none any more. The table may be a view.
    SetComment(CommentOn, Option<String>),
    /// Its owner and the rights to it. It may be anything that the catalog has.
    SetAccess(Box<Access>),
    /// Rows that exist have NULL in it: they must be none if it is NOT NULL.
    AddColumn(ColumnSpec),
    /// Rows that exist have this value in it, which is kept in the definition: constant time.
    AddColumnWith(ColumnSpec, Datum),
    /// Indexes and CHECK constraints that mention it go too. It must not be in the primary key.
    DropColumn(usize),
    /// The new type must store its values as the old one does ([`crate::is_stored_alike`]);
    /// otherwise see [`Transaction::rewrite_table`].
    SetType(usize, ColumnType),
    /// Rebuilds the table clustered on a hidden row id. Columns stay NOT NULL.
    DropPrimaryKey,
    /// An index, a UNIQUE constraint or the primary key, by name.
    RenameIndex(String, String),
    /// A unique index of plain columns is from now on that of a UNIQUE constraint of its name.
    MakeConstraint(String),
    /// What an index says beside its key, instead of what it said.
    SetIndexDetails(IndexDetails),
    /// A column's collation; `None`: that of its type.
    SetCollation(usize, Option<u32>),
    /// That the rows satisfy it, if they are said to, is the caller's care.
    AddCheck(CheckSpec),
    DropCheck(String),
    RenameCheck(String, String),
    /// The rows are known to satisfy it.
    ValidateCheck(String),
    /// The same condition in other words: after a column was renamed.
    RewordCheck(String, String),
    RenameForeignKey(String, String),
    /// The rows are known to satisfy it.
    ValidateForeignKey(String),
}

/// A CHECK constraint to be added; see [`crate::Check`].
#[derive(Clone, Debug, PartialEq)]
pub struct CheckSpec {
    pub name: String,
    pub sql: String,
    pub columns: Vec<usize>,
    pub validated: bool,
}

impl Transaction {
    /// An id for a table, an index, a tree or a constraint; `LimitExceeded` when there are no more.
    pub(crate) fn next_object(&self) -> Result<u32> {
        let inner = self.0.db.inner();
        // Pages tell a restart which ids there are; those of constraints, views and objects are in definitions alone.
        inner.catalog.committed(&self.0.db)?;
        loop {
            let id = inner.next_object(inner.catalog.highest_id())?;
            // Such a definition of a transaction that a crash has cut off may not be undone yet.
            if !inner.catalog.has_entry(&inner.pool, id)? {
                return Ok(id);
            }
        }
    }

    pub(crate) fn new_tree(&self) -> Result<Tree> {
        self.throttle_definition()?;
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        let object = ObjectId(self.next_object()?);
        // The tree and the note of what becomes of it if this transaction aborts, in one group.
        let mut made = None;
        let lsn = inner.pending_frees.add_with(&inner.pool, context.xid, PendingFree::TREE_BYTES, |mtr| {
            let tree = btree::create(mtr, object)?;
            made = Some(tree);
            Ok(PendingFree::TreeIfAborted(tree))
        })?;
        context.active.logged_aside(lsn);
        let Some(tree) = made else { return Err(Error::internal("a tree was not made")) };
        inner.note_tree(tree);
        Ok(tree)
    }

    pub(crate) fn drop_tree(&self, tree: Tree) -> Result<()> {
        self.throttle_definition()?;
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        context.active.logged_aside(inner.pending_frees.add(
            &inner.pool,
            context.xid,
            &PendingFree::TreeIfCommitted(tree),
        )?);
        Ok(())
    }

    /// Drops the tree of a table's rows, with the large values that they refer to.
    pub(crate) fn drop_rows(&self, table: &Table) -> Result<()> {
        if !table.may_hold_external() {
            return self.drop_tree(table.tree);
        }
        self.throttle_definition()?;
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        let widths = table.value_types.iter().map(|t| t.fixed_width().map_or(0, |w| w as u8)).collect();
        let action = PendingFree::RowsIfCommitted(table.tree, widths);
        context.active.logged_aside(inner.pending_frees.add(&inner.pool, context.xid, &action)?);
        Ok(())
    }

    /// Locks a table against everyone else. False: it was changed or dropped meanwhile.
    pub(crate) fn lock_exclusive(&self, table: &Table) -> Result<Attempt<()>> {
        if let Some(wait) = self.lock_table(ObjectId(table.id), Lock::DEFINITION)? {
            return Ok(Attempt::Wait(wait));
        }
        let current = self.is_newest(table)?;
        if !current {
            return Err(Error::new(
                ErrorKind::DefinitionChanged,
                format!(
                    "could not change table \"{}\" because its definition was changed at the same time",
                    table.name
                ),
            )
            .with_hint("Retry the transaction."));
        }
        Ok(Attempt::Done(()))
    }

    /// Locks a table against everyone else, ahead of changing it. When this is done, the
    /// newest definition may be another one than `table`: look it up again.
    ///
    /// # Errors
    /// `DefinitionChanged` when it was changed by someone else meanwhile; the
    /// lock is then held all the same.
    pub fn lock_for_change(&self, table: &Table) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        self.lock_exclusive(table)
    }

    /// Creates a table with its indexes.
    ///
    /// # Errors
    /// `DuplicateTable`, `DuplicateColumn`, `LimitExceeded`.
    pub fn create_table(&self, spec: TableSpec) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if let Some(wait) = self.enter()? {
            return Ok(Attempt::Wait(wait));
        }
        check_name("schema", &spec.schema)?;
        check_columns(&spec.columns)?;
        let key_columns = spec.primary_key.as_ref().map(|(_, c)| c.clone()).unwrap_or_default();
        check_positions(&key_columns, spec.columns.len())?;
        check_once(&key_columns, &spec.columns)?;
        let id = self.next_object()?;
        let primary_key_name = spec.primary_key.as_ref().map(|(n, _)| n.clone()).unwrap_or_default();
        for index in &spec.indexes {
            check_positions(&index.columns, spec.columns.len())?;
        }
        let mut names = vec![(spec.name.as_str(), false)];
        names.extend((!primary_key_name.is_empty()).then_some((primary_key_name.as_str(), true)));
        names.extend(spec.indexes.iter().map(|i| (i.name.as_str(), true)));
        attempt!(self.claim_names(&spec.schema, &names, id));
        let mut parts = Definition {
            id,
            database: self.database(),
            schema: spec.schema.clone(),
            name: spec.name.clone(),
            columns: spec.columns.iter().map(column_of).collect(),
            primary_key: key_columns,
            primary_key_name: primary_key_name.clone(),
            tree: self.new_tree()?,
            ..Definition::without_rows()
        };
        place(&mut parts);
        for index in &spec.indexes {
            let index_id = self.next_object()?;
            parts.indexes.push(index_of(index_id, index, self.new_tree()?));
        }
        self.store_definition(&parts, None).map(Attempt::Done)
    }

    /// Takes several names, or none of them if one is taken already or has to be waited for: a name without a definition
    /// would be nobody's for ever once it is committed.
    pub(crate) fn claim_names(&self, schema: &str, names: &[(&str, bool)], id: u32) -> Result<Attempt<()>> {
        for (at, (name, is_index)) in names.iter().enumerate() {
            let claimed = self.claim_name(schema, name, id, *is_index);
            if matches!(claimed, Ok(Attempt::Done(()))) {
                continue;
            }
            for (taken, _) in &names[..at] {
                self.release_name(schema, taken).inspect_err(|_| {
                    // It stays, and must not be committed.
                    let xid = self.0.state.lock().xid;
                    self.broken_off(xid);
                })?;
            }
            return claimed;
        }
        Ok(Attempt::Done(()))
    }

    /// Drops a table.
    ///
    /// # Errors
    /// `DependentObjects` when another table's foreign key refers to it.
    pub fn drop_table(&self, table: &Arc<Table>) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        self.refuse_if_seen(table)?;
        if let Some(other) = self.referrers(table.id)?.iter().find(|other| other.id != table.id) {
            return Err(Error::new(
                ErrorKind::DependentObjects,
                format!("cannot drop table {} because a foreign key of table {} depends on it", table.name, other.name),
            ));
        }
        for foreign in &table.foreign_keys {
            attempt!(self.renew_parent(foreign.parent, table.id));
        }
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
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        let mut parts = Definition::of(table);
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
        let _operation = self.operation()?;
        let new = attempt!(self.store_index(table, spec, true));
        self.fill_index(&new, new.indexes.len() - 1)?;
        Ok(Attempt::Done(new))
    }

    /// The definition with one index more, at the end, whose tree is empty.
    pub(crate) fn store_index(&self, table: &Arc<Table>, spec: IndexSpec, valid: bool) -> Result<Attempt<Arc<Table>>> {
        check_positions(&spec.columns, table.columns.len())?;
        attempt!(self.lock_exclusive(table));
        let mut parts = Definition::of(table);
        if spec.constraint {
            check_free_of_checks(&parts, &spec.name)?;
        }
        attempt!(self.claim_name(&table.schema, &spec.name, table.id, true));
        parts.indexes.push(Index { valid, ..index_of(self.next_object()?, &spec, self.new_tree()?) });
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// Drops an index by name.
    pub fn drop_index(&self, table: &Arc<Table>, name: &str) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        let Some(at) = table.indexes.iter().position(|i| i.name == name) else {
            return Err(Error::new(ErrorKind::UndefinedObject, format!("index \"{name}\" does not exist")));
        };
        if self.is_referenced(table, |index, _| index == Some(at))? {
            return Err(depended_on(name));
        }
        let mut parts = Definition::of(table);
        let index = parts.indexes.remove(at);
        self.release_name(&table.schema, &index.name)?;
        self.drop_tree(index.tree)?;
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// Changes a definition. The result is the new one.
    pub fn alter_table(&self, table: &Arc<Table>, change: TableChange) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        let mut parts = Definition::of(table);
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
            TableChange::SetComment(on, comment) => {
                parts.comments.retain(|(known, _)| *known != on);
                parts.comments.extend(comment.map(|text| (on, text)));
                parts.comments.sort_by_key(|(on, _)| *on);
            }
            TableChange::SetAccess(access) => {
                // What everything has without a word is not said.
                parts.access = Some(access).filter(|access| **access != Access::FIRST);
            }
            TableChange::SetGenerated(at, expression) => {
                column_exists(at)?;
                parts.generated.retain(|generated| generated.column != at);
                if let Some((sql, reads)) = expression {
                    check_positions_exist(&reads, table.columns.len())?;
                    parts.generated.push(Generated { column: at, sql, reads });
                    parts.generated.sort_by_key(|generated| generated.column);
                }
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
                    self.check_no_nulls(table, &[at])?;
                }
            }
            TableChange::AddColumn(spec) => {
                check_new_column(&parts, &spec)?;
                if !spec.nullable && self.has_rows(table)? {
                    return Err(contains_nulls(&spec.name, &table.name));
                }
                add_column(&mut parts, &spec, None)?;
            }
            TableChange::AddColumnWith(spec, value) => {
                check_new_column(&parts, &spec)?;
                if value == Datum::Null && !spec.nullable && self.has_rows(table)? {
                    return Err(contains_nulls(&spec.name, &table.name));
                }
                if value != Datum::Null && encode_missing(spec.ty, &value).is_none_or(|b| b.len() > MISSING_BYTES_MAX) {
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!("the value of column \"{}\" does not go into the table's definition", spec.name),
                    ));
                }
                add_column(&mut parts, &spec, (value != Datum::Null).then_some(value))?;
            }
            TableChange::SetType(at, ty) => {
                column_exists(at)?;
                let column = &mut parts.columns[at];
                if !is_stored_alike(column.ty, ty) {
                    return Err(Error::internal(format!("rows have to be rewritten for {} to be {ty}", column.ty)));
                }
                column.ty = ty;
                if let Place::Value(place) = column.place {
                    parts.value_types[place as usize] = ty;
                }
            }
            TableChange::DropPrimaryKey => {
                if table.primary_key.is_empty() {
                    return Err(Error::new(
                        ErrorKind::UndefinedObject,
                        format!("table \"{}\" has no primary key", table.name),
                    ));
                }
                if self.is_referenced(table, |index, _| index.is_none())? {
                    return Err(depended_on(&table.primary_key_name));
                }
                self.release_name(&table.schema, &table.primary_key_name)?;
                parts.primary_key.clear();
                parts.primary_key_name.clear();
                place(&mut parts);
                return self.begin_rewrite(table, parts)?.copy().map(Attempt::Done);
            }
            TableChange::RenameIndex(from, to) => {
                let is_key = !from.is_empty() && parts.primary_key_name == from;
                let at = parts.indexes.iter().position(|index| index.name == from);
                if !is_key && at.is_none() {
                    return Err(Error::new(ErrorKind::UndefinedObject, format!("index \"{from}\" does not exist")));
                }
                if at.is_none_or(|at| parts.indexes[at].constraint) {
                    check_free_of_checks(&parts, &to)?;
                }
                attempt!(self.claim_name(&table.schema, &to, table.id, true));
                self.release_name(&table.schema, &from)?;
                match at {
                    Some(at) => parts.indexes[at].name = to,
                    None => parts.primary_key_name = to,
                }
            }
            TableChange::MakeConstraint(name) => {
                let is_meant = |index: &Index| index.name == name && index.unique && index.valid;
                let Some(at) = parts.indexes.iter().position(is_meant) else {
                    return Err(Error::new(ErrorKind::UndefinedObject, format!("index \"{name}\" does not exist")));
                };
                check_free_of_checks(&parts, &name)?;
                parts.indexes[at].constraint = true;
            }
            TableChange::SetCollation(at, collation) => {
                column_exists(at)?;
                parts.collations.retain(|(column, _)| *column != at);
                parts.collations.extend(collation.map(|collation| (at, collation)));
                parts.collations.sort_unstable();
            }
            TableChange::SetIndexDetails(details) => {
                if !parts.has_index(details.index) {
                    return Err(Error::new(ErrorKind::UndefinedObject, "the index does not exist"));
                }
                let key = match details.index {
                    Some(id) => {
                        parts.indexes.iter().find(|index| index.id == id).map_or(0, |index| index.columns.len())
                    }
                    None => parts.primary_key.len(),
                };
                check_index_columns(key + details.included.len())?;
                check_positions_exist(&details.included, table.columns.len())?;
                parts.index_details.retain(|known| known.index != details.index);
                parts.index_details.extend(Some(details).filter(|details| !details.says_nothing()));
            }
            TableChange::AddCheck(spec) => {
                check_name("constraint", &spec.name)?;
                check_positions_exist(&spec.columns, table.columns.len())?;
                check_free(&parts, &spec.name)?;
                parts.checks.push(Check {
                    id: self.next_object()?,
                    name: spec.name,
                    sql: spec.sql,
                    columns: spec.columns,
                    validated: spec.validated,
                });
            }
            TableChange::DropCheck(name) => {
                let at = check_at(&parts, &name)?;
                parts.checks.remove(at);
            }
            TableChange::RenameCheck(from, to) => {
                let at = check_at(&parts, &from)?;
                check_name("constraint", &to)?;
                check_free(&parts, &to)?;
                parts.checks[at].name = to;
            }
            TableChange::ValidateCheck(name) => {
                let at = check_at(&parts, &name)?;
                parts.checks[at].validated = true;
            }
            TableChange::RewordCheck(name, sql) => {
                let at = check_at(&parts, &name)?;
                parts.checks[at].sql = sql;
            }
            TableChange::RenameForeignKey(from, to) => {
                let at = foreign_at(&parts, &from)?;
                check_name("constraint", &to)?;
                check_free(&parts, &to)?;
                parts.foreign_keys[at].name = to;
            }
            TableChange::ValidateForeignKey(name) => {
                let at = foreign_at(&parts, &name)?;
                parts.foreign_keys[at].validated = true;
            }
            TableChange::DropColumn(at) => {
                column_exists(at)?;
                let own = parts.foreign_keys.iter().any(|foreign| foreign.columns.contains(&at));
                let of_key = |index: Option<usize>, columns: &[usize]| {
                    columns.contains(&at) || table.included(index.map(|at| table.indexes[at].id)).contains(&at)
                };
                if own || self.is_referenced(table, of_key)? {
                    return Err(Error::new(
                        ErrorKind::DependentObjects,
                        format!("cannot drop column \"{}\" because a foreign key uses it", parts.columns[at].name),
                    ));
                }
                if parts.primary_key.contains(&at) || table.included(None).contains(&at) {
                    return Err(Error::new(
                        ErrorKind::DependentObjects,
                        format!("cannot drop column \"{}\" because the primary key uses it", parts.columns[at].name),
                    ));
                }
                if let Some(generated) = parts.generated.iter().find(|g| g.column != at && g.reads.contains(&at)) {
                    let name = &parts.columns[generated.column].name;
                    return Err(Error::new(
                        ErrorKind::DependentObjects,
                        format!(
                            "cannot drop column \"{}\" because column \"{name}\" is made of it",
                            parts.columns[at].name
                        ),
                    ));
                }
                attempt!(self.column_goes(table, at));
                parts.columns.remove(at);
                for numbered in [&mut parts.domains, &mut parts.collations] {
                    numbered.retain(|(column, _)| *column != at);
                    numbered.iter_mut().for_each(|(column, _)| *column -= usize::from(*column > at));
                }
                parts.owned.retain(|owned| owned.column != at);
                parts.owned.iter_mut().for_each(|owned| owned.column -= usize::from(owned.column > at));
                let mut kept = Vec::new();
                for mut index in std::mem::take(&mut parts.indexes) {
                    if index.columns.contains(&at) || included(&parts.index_details, Some(index.id)).contains(&at) {
                        self.release_name(&table.schema, &index.name)?;
                        self.drop_tree(index.tree)?;
                        continue;
                    }
                    index.columns.iter_mut().for_each(|c| *c -= usize::from(*c > at));
                    kept.push(index);
                }
                parts.indexes = kept;
                let details = std::mem::take(&mut parts.index_details);
                parts.index_details = details.into_iter().filter(|details| parts.has_index(details.index)).collect();
                let of_indexes = parts.index_details.iter_mut().flat_map(|details| &mut details.included);
                of_indexes.for_each(|column| *column -= usize::from(*column > at));
                parts.checks.retain(|check| !check.columns.contains(&at));
                parts.comments.retain(|(on, _)| *on != CommentOn::Column(at));
                for (on, _) in &mut parts.comments {
                    if let CommentOn::Column(column) = on {
                        *column -= usize::from(*column > at);
                    }
                }
                if let Some(access) = &mut parts.access {
                    access.column_goes(at);
                }
                parts.generated.retain(|generated| generated.column != at);
                let of_generated = parts.generated.iter_mut().flat_map(|g| g.reads.iter_mut().chain([&mut g.column]));
                of_generated.for_each(|column| *column -= usize::from(*column > at));
                let of_checks = parts.checks.iter_mut().flat_map(|check| &mut check.columns);
                for column in of_checks.chain(parts.foreign_keys.iter_mut().flat_map(|foreign| &mut foreign.columns)) {
                    *column -= usize::from(*column > at);
                }
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
                check_free_of_checks(&parts, &name)?;
                attempt!(self.claim_name(&table.schema, &name, table.id, true));
                self.check_no_nulls(table, &columns)?;
                parts.primary_key = columns;
                parts.primary_key_name = name;
                place(&mut parts);
                return self.begin_rewrite(table, parts)?.copy().map(Attempt::Done);
            }
        }
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// Adds a foreign key, whose `id` and `parent` are filled in here, and gives `parent` (which
    /// may be `table`) a new generation: no writer with an older definition of either goes on.
    /// Both are locked against everyone else. That the rows satisfy it, if they are said to, is
    /// the caller's care. The result is the new definition of `table`.
    ///
    /// # Errors
    /// `DuplicateObject`, `UndefinedColumn`; `UndefinedObject` when `parent` has no such key;
    /// those of [`Transaction::lock_for_change`].
    pub fn add_foreign_key(
        &self,
        table: &Arc<Table>,
        parent: &Arc<Table>,
        mut foreign: ForeignKey,
    ) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        attempt!(self.lock_exclusive(parent));
        check_name("constraint", &foreign.name)?;
        check_positions(&foreign.columns, table.columns.len())?;
        if foreign.columns.is_empty()
            || foreign.key.len() != foreign.columns.len()
            || foreign.referenced(parent).is_none()
        {
            return Err(Error::new(
                ErrorKind::UndefinedObject,
                format!("table \"{}\" has no key for the foreign key \"{}\"", parent.name, foreign.name),
            ));
        }
        let mut parts = Definition::of(table);
        check_free(&parts, &foreign.name)?;
        foreign.id = self.next_object()?;
        foreign.parent = parent.id;
        parts.foreign_keys.push(foreign);
        parts.generation += 1;
        if parent.id != table.id {
            self.renew(parent)?;
        }
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// Drops a foreign key of a table, by name; the referenced table gets a new generation.
    pub fn drop_foreign_key(&self, table: &Arc<Table>, name: &str) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        let mut parts = Definition::of(table);
        let foreign = parts.foreign_keys.remove(foreign_at(&parts, name)?);
        attempt!(self.renew_parent(foreign.parent, table.id));
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// Gives a referenced table a new generation, unless it is `table` itself.
    fn renew_parent(&self, parent: u32, table: u32) -> Result<Attempt<()>> {
        if parent != table
            && let Some(parent) = self.table_by_id(parent)?
        {
            attempt!(self.lock_exclusive(&parent));
            self.renew(&parent)?;
        }
        Ok(Attempt::Done(()))
    }

    /// The same definition under a new generation.
    fn renew(&self, table: &Table) -> Result<()> {
        let mut parts = Definition::of(table);
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(|_| ())
    }

    /// Whether a foreign key refers to a key of `table` of which `is_it` (position of its index,
    /// and columns of `table`) is true.
    fn is_referenced(&self, table: &Table, is_it: impl Fn(Option<usize>, &[usize]) -> bool) -> Result<bool> {
        let referrers = self.referrers(table.id)?;
        let mut foreign = referrers.iter().flat_map(|other| &other.foreign_keys).filter(|f| f.parent == table.id);
        Ok(foreign.any(|foreign| foreign.referenced(table).is_none_or(|(index, columns)| is_it(index, &columns))))
    }

    /// Begins to rewrite a table with columns of other types, and with columns added at its
    /// end. What rows have in them is told row by row; see [`Rewrite`].
    ///
    /// # Errors
    /// `DuplicateColumn`, `LimitExceeded`; those of [`Transaction::lock_for_change`].
    pub fn rewrite_table(
        &self,
        table: &Arc<Table>,
        types: &[(usize, ColumnType)],
        added: &[ColumnSpec],
    ) -> Result<Attempt<Rewrite>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        let mut parts = Definition::of(table);
        parts.generation += 1;
        for (at, ty) in types {
            check_positions_exist(&[*at], parts.columns.len())?;
            parts.columns[*at].ty = *ty;
        }
        for spec in added {
            check_new_column(&parts, spec)?;
            parts.columns.push(column_of(spec));
        }
        place(&mut parts);
        self.begin_rewrite(table, parts).map(Attempt::Done)
    }

    /// Whether a table that is locked exclusively has any row.
    pub fn has_rows(&self, table: &Arc<Table>) -> Result<bool> {
        self.newest_rows(table).next_batch(&mut crate::RowBatch::default(), 1)
    }

    /// Every row of a table that is locked exclusively, its own and those of all who have
    /// committed, whatever the statement's view sees.
    pub fn view_for_change(&self, table: &Table) -> Result<ReadView> {
        match self.lock_exclusive(table)? {
            Attempt::Done(()) => Ok(self.newest_view()),
            Attempt::Wait(_) => Err(Error::internal("the table is not locked")),
        }
    }

    /// That no row has NULL in any of these columns: one reading for all of them, and none where the definition says so already.
    fn check_no_nulls(&self, table: &Arc<Table>, columns: &[usize]) -> Result<()> {
        let mut columns: Vec<usize> = columns.iter().copied().filter(|at| table.columns[*at].nullable).collect();
        let mut cursor = self.newest_rows(table);
        let mut batch = crate::RowBatch::default();
        let mut found = None;
        while !columns.is_empty() {
            self.check_interrupt()?;
            batch.clear();
            if !cursor.next_batch(&mut batch, 1000)? {
                break;
            }
            for i in 0..batch.len() {
                for at in 0..columns.len() {
                    if matches!(table.column(batch.row(i), columns[at])?, DatumRef::Null) {
                        // Of several the first is told: only those before it count from here on.
                        found = Some(columns[at]);
                        columns.truncate(at);
                        break;
                    }
                }
            }
        }
        match found {
            Some(column) => Err(contains_nulls(&table.columns[column].name, &table.name)),
            None => Ok(()),
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
        missing: None,
    }
}

fn check_new_column(parts: &Definition, spec: &ColumnSpec) -> Result<()> {
    check_name("column", spec.name.strip_prefix('\0').unwrap_or(&spec.name))?;
    if parts.columns.iter().any(|c| c.name == spec.name) {
        return Err(Error::new(
            ErrorKind::DuplicateColumn,
            format!("column \"{}\" of relation \"{}\" already exists", spec.name, parts.name),
        ));
    }
    if parts.columns.len() >= COLUMNS_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, format!("tables can have at most {COLUMNS_MAX} columns")));
    }
    Ok(())
}

/// Bytes that columns of fixed width and the places of the others may need in a row when one is added: they leave room for a key.
const SHORT_COLUMNS_MAX: usize = 1500;

/// Adds a column behind all that rows store, which stay as they are.
fn add_column(parts: &mut Definition, spec: &ColumnSpec, missing: Option<Datum>) -> Result<()> {
    // Dropped columns keep their place in the rows, until the table is rewritten.
    let mut types = parts.value_types.clone();
    types.push(spec.ty);
    let empty = RowLayout::new(&types).encoded_len(&vec![DatumRef::Null; types.len()]);
    if types.len() > COLUMNS_MAX || empty > SHORT_COLUMNS_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("too many columns were added to and dropped from table \"{}\"", parts.name),
        )
        .with_hint(
            "Write its rows anew without the dropped ones: change a column's type, or copy them to a new table.",
        ));
    }
    let mut column = column_of(spec);
    column.place = Place::Value(parts.value_types.len() as u16);
    column.missing = missing;
    parts.value_types.push(column.ty);
    parts.columns.push(column);
    Ok(())
}

fn check_at(parts: &Definition, name: &str) -> Result<usize> {
    parts.checks.iter().position(|check| check.name == name).ok_or_else(|| {
        Error::new(
            ErrorKind::UndefinedObject,
            format!("constraint \"{name}\" of relation \"{}\" does not exist", parts.name),
        )
    })
}

fn foreign_at(parts: &Definition, name: &str) -> Result<usize> {
    parts.foreign_keys.iter().position(|foreign| foreign.name == name).ok_or_else(|| {
        Error::new(
            ErrorKind::UndefinedObject,
            format!("constraint \"{name}\" of relation \"{}\" does not exist", parts.name),
        )
    })
}

fn depended_on(index: &str) -> Error {
    Error::new(ErrorKind::DependentObjects, format!("cannot drop index {index} because a foreign key depends on it"))
}

/// Names of constraints are a table's own.
fn check_free(parts: &Definition, name: &str) -> Result<()> {
    if parts.primary_key_name == name || parts.indexes.iter().any(|index| index.constraint && index.name == name) {
        return Err(constraint_exists(parts, name));
    }
    check_free_of_checks(parts, name)
}

/// For a constraint that is an index: whether its name is another index's is seen when it is
/// claimed.
fn check_free_of_checks(parts: &Definition, name: &str) -> Result<()> {
    let is_foreign = parts.foreign_keys.iter().any(|foreign| foreign.name == name);
    match is_foreign || parts.checks.iter().any(|check| check.name == name) {
        true => Err(constraint_exists(parts, name)),
        false => Ok(()),
    }
}

fn constraint_exists(parts: &Definition, name: &str) -> Error {
    Error::new(
        ErrorKind::DuplicateObject,
        format!("constraint \"{name}\" for relation \"{}\" already exists", parts.name),
    )
}

fn index_of(id: u32, spec: &IndexSpec, tree: Tree) -> Index {
    let mut orders = spec.orders.clone();
    orders.resize(spec.columns.len(), ColumnOrder::ASCENDING);
    Index {
        orders,
        id,
        name: spec.name.clone(),
        columns: spec.columns.clone(),
        unique: spec.unique,
        constraint: spec.constraint,
        nulls_alike: spec.nulls_alike,
        deferral: spec.deferral,
        valid: true,
        tree,
    }
}

/// Decides where each column is stored, anew.
fn place(parts: &mut Definition) {
    parts.value_types.clear();
    for (at, column) in parts.columns.iter_mut().enumerate() {
        let key_at = parts.primary_key.iter().position(|c| *c == at);
        if key_at.is_some() {
            column.nullable = false;
        }
        // Every row is stored with all columns from now on.
        column.missing = None;
        column.place = match key_at {
            // The key form of bytea may need unescaping, that of a var numeric lacks its display scale, and that of a
            // float the sign of zero; they and their kin are kept in the value as well.
            Some(key_at) if !column.ty.is_kept_beside_key() => Place::Key(key_at as u16),
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
    check_index_columns(positions.len())?;
    check_positions_exist(positions, columns)
}

/// A primary key has each of its columns once. (An index may have one twice, as in PostgreSQL.)
fn check_once(key: &[usize], columns: &[ColumnSpec]) -> Result<()> {
    match key.iter().enumerate().find(|(at, column)| key[..*at].contains(column)) {
        Some((_, column)) => Err(Error::new(
            ErrorKind::DuplicateColumn,
            format!("column \"{}\" appears twice in primary key constraint", columns[*column].name),
        )),
        None => Ok(()),
    }
}

fn check_index_columns(count: usize) -> Result<()> {
    match count > INDEX_COLUMNS_MAX {
        true => {
            let text = format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index");
            Err(Error::new(ErrorKind::LimitExceeded, text))
        }
        false => Ok(()),
    }
}

fn check_positions_exist(positions: &[usize], columns: usize) -> Result<()> {
    match positions.iter().find(|at| **at >= columns) {
        Some(&NO_COLUMN) => {
            let text = "a column named in a key or an index does not exist";
            Err(Error::new(ErrorKind::UndefinedColumn, text))
        }
        Some(at) => Err(Error::new(ErrorKind::UndefinedColumn, format!("column number {at} does not exist"))),
        None => Ok(()),
    }
}
