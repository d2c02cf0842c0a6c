//! Foreign keys in definitions: from their syntax, the look at rows that are there, and what
//! depends on a key.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, ConstraintReferenceMatchKind, DeferrableInitial, ForeignKeyConstraint, Ident,
};
use resurgam_engine::{
    ColumnType, Direction, ForeignKey, KeyRange, Presence, ReferentialAction, RowBatch, RowBuf, Table, TableChange,
    Transaction,
};

use crate::ddl::alter::{constraint_exists, is_constraint};
use crate::ddl::needed::{Needed, needed, needing_views};
use crate::ddl::{free_name, full_name};
use crate::dml::foreign::value::{Comparable, comparable};
use crate::dml::foreign::{Reference, Side, Target, columns_of};
use crate::parse::names::{name_of, unsupported};
use crate::pg::functions::quote_ident;
use crate::pg::types::{bare_type_name, column_type_name};
use crate::plan::lookup::Lookup;
use crate::session::Session;
use crate::wire::SqlError;

/// Rows that are looked at together.
const BATCH: usize = 1000;

/// A FOREIGN KEY as it was written.
pub(crate) struct ForeignParts {
    pub name: Option<String>,
    /// The table's own columns.
    pub columns: Vec<Ident>,
    pub constraint: ForeignKeyConstraint,
}

impl ForeignParts {
    /// Of a table's constraint.
    pub(crate) fn of_table(constraint: &ForeignKeyConstraint) -> Self {
        Self {
            name: constraint.name.as_ref().map(name_of),
            columns: constraint.columns.clone(),
            constraint: constraint.clone(),
        }
    }

    /// Of a column's REFERENCES.
    pub(crate) fn of_column(column: &Ident, name: Option<String>, constraint: &ForeignKeyConstraint) -> Self {
        Self { name, columns: vec![column.clone()], constraint: constraint.clone() }
    }
}

fn action(given: Option<ast::ReferentialAction>) -> ReferentialAction {
    match given {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}

fn column_named(table: &Table, ident: &Ident) -> Result<usize, SqlError> {
    let name = name_of(ident);
    table.columns.iter().position(|column| column.name == name).ok_or_else(|| {
        SqlError::new("42703", format!("column \"{name}\" referenced in foreign key constraint does not exist"))
    })
}

/// The key of `parent` on these columns (in any order, or its primary key): its index's id, and
/// for each column its position in the key.
fn find_key(parent: &Table, idents: &[Ident], own: usize) -> Result<(Option<u32>, Vec<usize>), SqlError> {
    let disagree = || SqlError::new("42830", "number of referencing and referenced columns for foreign key disagree");
    if idents.is_empty() {
        if parent.primary_key.is_empty() {
            return Err(SqlError::new(
                "42704",
                format!("there is no primary key for referenced table \"{}\"", parent.name),
            ));
        }
        if parent.primary_key.len() != own {
            return Err(disagree());
        }
        return Ok((None, (0..own).collect()));
    }
    let columns = idents.iter().map(|ident| column_named(parent, ident)).collect::<Result<Vec<_>, _>>()?;
    if columns.len() != own {
        return Err(disagree());
    }
    if columns.iter().enumerate().any(|(at, column)| columns[..at].contains(column)) {
        return Err(SqlError::new("42830", "foreign key referenced-columns list must not contain duplicates"));
    }
    let order = |key: &[usize]| -> Option<Vec<usize>> {
        if key.len() != columns.len() {
            return None;
        }
        columns.iter().map(|column| key.iter().position(|at| at == column)).collect()
    };
    if let Some(order) = order(&parent.primary_key) {
        return Ok((None, order));
    }
    let unique = parent.indexes.iter().filter(|index| index.unique && index.valid);
    let found: Vec<_> = unique.filter_map(|index| Some((index, order(&index.columns)?))).collect();
    if let Some((index, order)) = found.iter().find(|(index, _)| index.keeps_unique()) {
        return Ok((Some(index.id), order.clone()));
    }
    Err(match found.is_empty() {
        false => SqlError::new(
            "55000",
            format!("cannot use a deferrable unique constraint for referenced table \"{}\"", parent.name),
        ),
        true => SqlError::new(
            "42830",
            format!("there is no unique constraint matching given keys for referenced table \"{}\"", parent.name),
        ),
    })
}

/// `42601` for actions that would write to a generated column.
fn refuse_to_change(on_update: ReferentialAction, on_delete: ReferentialAction) -> Result<(), SqlError> {
    use ReferentialAction as A;
    let wrong = match (on_update, on_delete) {
        (A::Cascade | A::SetNull | A::SetDefault, _) => "ON UPDATE",
        (_, A::SetNull | A::SetDefault) => "ON DELETE",
        _ => return Ok(()),
    };
    let text = format!("invalid {wrong} action for foreign key constraint containing generated column");
    Err(SqlError::syntax(text))
}

/// `42804` when a column cannot hold what it is to refer to.
fn check_types(child: &Table, parent: &Table, foreign: &ForeignKey, referenced: &[usize]) -> Result<(), SqlError> {
    for (&from, &to) in foreign.columns.iter().zip(referenced) {
        let (from, to) = (&child.columns[from], &parent.columns[to]);
        let types = |name: fn(&ColumnType) -> String| format!("{} and {}", name(&from.ty), name(&to.ty));
        match comparable(&from.ty, &to.ty) {
            Comparable::Yes => {}
            Comparable::NotYet => {
                return Err(unsupported(&format!("a foreign key between types {}", types(column_type_name))));
            }
            Comparable::No => {
                return Err(SqlError::new(
                    "42804",
                    format!("foreign key constraint \"{}\" cannot be implemented", foreign.name),
                )
                .with_detail(format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {}.",
                    from.name,
                    to.name,
                    types(bare_type_name)
                )));
            }
        }
    }
    Ok(())
}

/// What may go only with the constraints that need it.
pub(crate) enum Depends<'a> {
    Table,
    /// A column of it, by position.
    Column(usize),
    /// An index or the constraint that it implements, by name.
    Index(&'a str),
}

/// A constraint that needs something, and its table.
struct Dependent {
    child: Arc<Table>,
    id: u32,
    name: String,
    /// The index that it needs, where that goes with the column.
    index: Option<String>,
}

/// `2BP01` when constraints of other tables need one of `tables`, which are to be dropped together.
pub(crate) fn refuse_needed_elsewhere(lookup: &Lookup<'_>, tables: &[Arc<Table>]) -> Result<(), SqlError> {
    let mut lines = Vec::new();
    for table in tables {
        for found in dependents(lookup.txn, table, &Depends::Table)? {
            if !tables.iter().any(|known| known.id == found.child.id) {
                let (child, table) = (lookup.shown(&found.child)?, lookup.shown(table)?);
                let name = quote_ident(&found.name);
                lines.push((found.id, format!("constraint {name} on table {child} depends on table {table}")));
            }
        }
    }
    let roots = tables.iter().map(|table| Needed::table(lookup, table)).collect::<Result<Vec<_>, _>>()?;
    for one in needing_views(lookup, &roots, &[])? {
        lines.push((one.age, format!("{} depends on {}", one.name, one.needs)));
    }
    if lines.is_empty() {
        return Ok(());
    }
    lines.sort_by_key(|(age, _)| *age);
    Err(needed(&roots, lines.into_iter().map(|(_, line)| line).collect()))
}

/// Constraints of other tables and of its own that need a part of `table`, oldest first.
fn dependents(txn: &Transaction, table: &Table, what: &Depends<'_>) -> Result<Vec<Dependent>, SqlError> {
    let mut found = Vec::new();
    for child in txn.referrers(table.id)? {
        for foreign in child.foreign_keys.iter().filter(|foreign| foreign.parent == table.id) {
            let referenced = foreign.referenced(table);
            // An index goes with a column that it includes.
            let index = match (what, &referenced) {
                (Depends::Column(at), Some((index, columns))) if !columns.contains(at) => {
                    let of = index.map(|at| &table.indexes[at]);
                    let name = of.map_or(&table.primary_key_name, |index| &index.name);
                    table.included(of.map(|index| index.id)).contains(at).then(|| name.clone())
                }
                _ => None,
            };
            let needs = match (what, referenced) {
                (Depends::Table, _) => child.id != table.id,
                (Depends::Column(at), Some((_, columns))) => columns.contains(at) || index.is_some(),
                (Depends::Index(name), Some((Some(index), _))) => table.indexes[index].name == **name,
                (Depends::Index(name), Some((None, _))) => table.primary_key_name == **name,
                (_, None) => true,
            };
            if needs {
                let (child, name) = (Arc::clone(&child), foreign.name.clone());
                found.push(Dependent { child, id: foreign.id, name, index });
            }
        }
    }
    found.sort_by_key(|dependent| dependent.id);
    Ok(found)
}

impl Session {
    /// Adds a foreign key to a table that is locked; `validate`: after a look at all its rows.
    pub(crate) async fn add_foreign_key(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        parts: &ForeignParts,
        validate: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let given = &parts.constraint;
        let found = self.lookup(txn).table(&given.foreign_table).map_err(|error| match error.sqlstate.as_str() {
            "42809" => SqlError::new("42809", format!("referenced relation {}", error.message)),
            _ => error,
        })?;
        crate::ddl::temporary::check_reference(table, &found)?;
        if found.id != table.id {
            // Who sees the definition may refer to it; that it has such a key is told behind the lock.
            let named: Vec<usize> =
                given.referred_columns.iter().filter_map(|ident| column_named(&found, ident).ok()).collect();
            let named = if named.is_empty() { found.primary_key.clone() } else { named };
            self.may_columns(&found, crate::pg::roles::acl::privilege::REFERENCES, &named)?;
        }
        let parent =
            if found.id == table.id { Arc::clone(table) } else { self.locked_table(txn, &given.foreign_table).await? };
        let columns = parts.columns.iter().map(|ident| column_named(table, ident)).collect::<Result<Vec<_>, _>>()?;
        if columns.iter().any(|at| table.generated(*at).is_some()) {
            refuse_to_change(action(given.on_update), action(given.on_delete))?;
        }
        let (index, key) = find_key(&parent, &given.referred_columns, columns.len())?;
        let (mut deferrable, mut deferred) = (None, false);
        if let Some(characteristics) = &given.characteristics {
            deferrable = characteristics.deferrable;
            deferred = characteristics.initially == Some(DeferrableInitial::Deferred);
            if characteristics.enforced == Some(false) {
                return Err(unsupported("NOT ENFORCED"));
            }
        }
        if deferred && deferrable == Some(false) {
            return Err(SqlError::syntax("constraint declared INITIALLY DEFERRED must be DEFERRABLE"));
        }
        if matches!(given.match_kind, Some(ConstraintReferenceMatchKind::Partial)) {
            return Err(SqlError::unsupported("MATCH PARTIAL not yet implemented"));
        }
        let taken = |name: &str| is_constraint(table, name);
        let names: Vec<&str> = columns.iter().map(|at| table.columns[*at].name.as_str()).collect();
        let name = match &parts.name {
            Some(name) => name.clone(),
            None => free_name(&table.name, &names, "fkey", &|name| Ok(taken(name)))?,
        };
        if taken(&name) {
            return Err(constraint_exists(table, &name));
        }
        let foreign = ForeignKey {
            id: 0,
            name,
            columns,
            parent: parent.id,
            index,
            key,
            on_delete: action(given.on_delete),
            on_update: action(given.on_update),
            match_full: matches!(given.match_kind, Some(ConstraintReferenceMatchKind::Full)),
            deferrable: deferrable.unwrap_or(deferred),
            deferred,
            validated: validate,
        };
        let reference = Reference::new(table, &parent, &foreign)?;
        check_types(table, &parent, &foreign, &reference.referenced)?;
        if validate {
            self.validate_reference(txn, &reference)?;
        }
        self.settle_ddl(|| txn.add_foreign_key(table, &parent, foreign.clone())).await
    }

    /// Looks whether every row refers to a key that is there. Both tables are locked.
    fn validate_reference(&mut self, txn: &Transaction, reference: &Reference) -> Result<(), SqlError> {
        let stop = Arc::clone(&self.shared.stop);
        let deadline = self.ddl_deadline;
        let table = &reference.child;
        tokio::task::block_in_place(|| {
            let view = txn.view_for_change(table)?;
            let mut cursor = view.scan(table, KeyRange::all(), Direction::Forward);
            let mut batch = RowBatch::default();
            let mut row = RowBuf::default();
            loop {
                crate::ddl::check_stop(&stop, deadline)?;
                batch.clear();
                if !cursor.next_batch(&mut batch, BATCH)? {
                    return Ok(());
                }
                for i in 0..batch.len() {
                    row.set(batch.row(i));
                    let columns = columns_of(table, &row)?;
                    match reference.target(txn, &columns)? {
                        Target::None => {}
                        Target::Mixed => return Err(reference.mixed()),
                        Target::Nowhere => return Err(reference.nowhere(&columns)),
                        Target::Key(key) => {
                            if txn.key_presence(&reference.parent, reference.index, &key)? != Presence::Yes {
                                return Err(reference.violated(Side::Child, &key));
                            }
                        }
                    }
                }
            }
        })
    }

    /// VALIDATE CONSTRAINT.
    pub(crate) async fn validate_foreign_key(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        foreign: &ForeignKey,
    ) -> Result<Arc<Table>, SqlError> {
        if foreign.validated {
            return Ok(Arc::clone(table));
        }
        let parent = self.locked_parent(txn, table, foreign).await?;
        self.validate_reference(txn, &Reference::new(table, &parent, foreign)?)?;
        self.change(txn, table, TableChange::ValidateForeignKey(foreign.name.clone())).await
    }

    /// The table that a constraint of `table` refers to, locked.
    async fn locked_parent(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        foreign: &ForeignKey,
    ) -> Result<Arc<Table>, SqlError> {
        if foreign.parent == table.id {
            return Ok(Arc::clone(table));
        }
        let parent = txn
            .table_by_id(foreign.parent)?
            .ok_or_else(|| SqlError::internal(format!("foreign key \"{}\" has no table", foreign.name)))?;
        self.locked_table(txn, &full_name(&parent)).await
    }

    /// After a column got another type: the constraints on it must still be possible, and hold.
    pub(crate) async fn recheck_foreign_keys(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
    ) -> Result<(), SqlError> {
        let mut references = Vec::new();
        for foreign in table.foreign_keys.iter().filter(|foreign| foreign.columns.contains(&at)) {
            let parent = self.locked_parent(txn, table, foreign).await?;
            references.push(Reference::new(table, &parent, foreign)?);
        }
        for child in txn.referrers(table.id)? {
            let child = if child.id == table.id {
                Arc::clone(table)
            } else {
                self.locked_table(txn, &full_name(&child)).await?
            };
            for foreign in child.foreign_keys.iter().filter(|foreign| foreign.parent == table.id) {
                let reference = Reference::new(&child, table, foreign)?;
                if reference.referenced.contains(&at) {
                    references.push(reference);
                }
            }
        }
        for reference in &references {
            check_types(&reference.child, &reference.parent, &reference.foreign, &reference.referenced)?;
            if reference.foreign.validated {
                self.validate_reference(txn, reference)?;
            }
        }
        Ok(())
    }

    /// Drops the constraints of which a column of the table itself is a part: they go with it.
    pub(crate) async fn drop_foreign_keys_of(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
    ) -> Result<Arc<Table>, SqlError> {
        let mut table = Arc::clone(table);
        while let Some(foreign) = table.foreign_keys.iter().find(|foreign| foreign.columns.contains(&at)) {
            let name = foreign.name.clone();
            table = self.settle_ddl(|| txn.drop_foreign_key(&table, &name)).await?;
        }
        Ok(table)
    }

    /// Makes way for a part of `table` (which is locked) to be dropped: with `cascade` the
    /// constraints that need it go, but for those of `spared` tables, which go without a word.
    /// Returns the newest definition of `table`.
    ///
    /// # Errors
    /// `2BP01` without `cascade`.
    pub(crate) async fn drop_dependents(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        what: &Depends<'_>,
        cascade: bool,
        spared: &[u32],
    ) -> Result<Arc<Table>, SqlError> {
        let found = dependents(txn, table, what)?;
        let counted: Vec<&Dependent> = found.iter().filter(|found| !spared.contains(&found.child.id)).collect();
        let lookup = self.lookup(txn);
        let shown = lookup.shown(table)?;
        let roots = match what {
            // Several tables have been looked at together.
            Depends::Table => vec![Needed::table(&lookup, table)?],
            Depends::Column(at) => vec![Needed::column(&lookup, table, *at)?],
            Depends::Index(_) => Vec::new(),
        };
        let views = needing_views(&lookup, &roots, &[])?;
        let constraint = |one: &&Dependent| -> Result<String, SqlError> {
            Ok(format!("constraint {} on table {}", quote_ident(&one.name), lookup.shown(&one.child)?))
        };
        let children: Vec<String> = counted.iter().map(constraint).collect::<Result<_, _>>()?;
        if !(cascade || counted.is_empty() && views.is_empty()) {
            let (dropped, needed) = match what {
                Depends::Table => (format!("table {shown}"), format!("table {shown}")),
                Depends::Column(at) => {
                    let column = format!("column {} of table {shown}", quote_ident(&table.columns[*at].name));
                    (column.clone(), column)
                }
                Depends::Index(name) => {
                    let constraint = table.primary_key_name == **name
                        || table.indexes.iter().any(|index| index.constraint && index.name == **name);
                    let dropped = if constraint {
                        format!("constraint {name} on table {shown}")
                    } else {
                        format!("index {name}")
                    };
                    (dropped, format!("index {name}"))
                }
            };
            let lines = counted.iter().zip(&children).map(|(one, child)| {
                let index = one.index.as_ref().map(|index| format!("index {}", quote_ident(index)));
                (one.id, format!("{child} depends on {}", index.as_ref().unwrap_or(&needed)))
            });
            let of_views = views.iter().map(|one| (one.age, format!("{} depends on {}", one.name, one.needs)));
            let mut lines: Vec<(u32, String)> = lines.chain(of_views).collect();
            lines.sort_by_key(|(age, _)| *age);
            let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
            return Err(SqlError::new("2BP01", format!("cannot drop {dropped} because other objects depend on it"))
                .with_detail(lines.join("\n"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let notices = counted.iter().zip(children).map(|(one, child)| (one.id, child));
        let mut notices: Vec<(u32, String)> =
            notices.chain(views.iter().map(|one| (one.age, one.name.clone()))).collect();
        notices.sort_by_key(|(age, _)| *age);
        let notices: Vec<String> = notices.into_iter().map(|(_, line)| line).collect();
        self.tell_of_cascade(&notices);
        let changed = !found.is_empty() || !views.is_empty();
        self.drop_all_views(txn, views.into_iter().map(|one| one.view).collect()).await?;
        for one in &found {
            let child = self.locked_table(txn, &full_name(&one.child)).await?;
            if child.foreign_keys.iter().any(|foreign| foreign.name == one.name) {
                self.settle_ddl(|| txn.drop_foreign_key(&child, &one.name)).await?;
            }
        }
        if !changed { Ok(Arc::clone(table)) } else { self.locked_table(txn, &full_name(table)).await }
    }

    /// The tables to be emptied with `tables`, which are locked: with `cascade` all that refer
    /// to them.
    ///
    /// # Errors
    /// `0A000` without `cascade`.
    pub(crate) async fn truncated_with(
        &mut self,
        txn: &Transaction,
        tables: Vec<Arc<Table>>,
        cascade: bool,
    ) -> Result<Vec<Arc<Table>>, SqlError> {
        let mut tables = tables;
        let mut at = 0;
        while at < tables.len() {
            let parent = Arc::clone(&tables[at]);
            at += 1;
            for child in txn.referrers(parent.id)? {
                if tables.iter().any(|table| table.id == child.id) {
                    continue;
                }
                if !cascade {
                    return Err(SqlError::unsupported(
                        "cannot truncate a table referenced in a foreign key constraint",
                    )
                    .with_detail(format!("Table \"{}\" references \"{}\".", child.name, parent.name))
                    .with_hint(format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name
                    )));
                }
                self.skip(format!("truncate cascades to table \"{}\"", child.name));
                tables.push(self.locked_table(txn, &full_name(&child)).await?);
            }
        }
        Ok(tables)
    }

    /// `55006` when keys of the table still wait for the end of the transaction.
    pub(crate) fn refuse_if_pending(&self, table: &Table, what: &str) -> Result<(), SqlError> {
        self.open.as_ref().map_or(Ok(()), |open| open.deferred.lock().refuse_change(table, what))
    }
}
