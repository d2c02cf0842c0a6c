//! CREATE, DROP and TRUNCATE, from their syntax to the engine's definitions.

pub(crate) mod alter;
pub(crate) mod alter_index;
pub(crate) mod alter_sequence;
pub(crate) mod clauses;
mod comment;
mod concurrent_index;
pub(crate) mod database;
pub(crate) mod domain;
mod drop_schema;
pub(crate) mod extension;
mod extension_users;
pub(crate) mod foreign;
pub(crate) mod function;
pub(crate) mod generated;
pub(crate) mod identity;
mod key_expr;
pub(crate) mod like;
mod made_name;
pub(crate) mod needed;
mod newest;
mod policy;
mod qualify;
pub(crate) mod retype;
pub(crate) mod schema;
pub(crate) mod sequence;
pub(crate) mod set_schema;
pub(crate) mod temporary;
mod type_texts;
mod type_users;
pub(crate) mod user_type;
pub(crate) mod view;

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, AlterTable, ColumnDef, ColumnOption, CreateIndex, CreateTable, Expr, Ident, IndexColumn, NullsDistinctOption,
    ObjectName, ObjectType, Statement, TableConstraint, Truncate,
};
use resurgam_base::limits::INDEX_COLUMNS_MAX;
use resurgam_engine::{
    Attempt, ColumnOrder, ColumnSpec, ColumnType, CommentOn, Declared, Deferral, IndexDetails, IndexSpec, Table,
    TableChange, TableSpec, Transaction,
};
use tokio::time::Instant;

use crate::ddl::alter::CheckParts;
use crate::ddl::foreign::{Depends, ForeignParts, refuse_needed_elsewhere};
use crate::ddl::needed::drop_hint;
use crate::dml::Around;
use crate::exec::context::StopFlag;
use crate::exec::wait::{Waiting, guarded, out_of_time, settle};
use crate::parse::names::{last_name, name_of, unsupported};
use crate::parse::read::parse_known;
use crate::parse::statement::domain::refuse_not_enforced;
use crate::parse::{include, nulls};
use crate::pg::catalog::{distinct_names, is_system_schema, system_relation};
use crate::pg::collation;
use crate::pg::roles::acl::privilege;
use crate::pg::search_path::is_temporary;
use crate::pg::types::{column_oid, column_type_from_sql, column_type_name};
use crate::plan::analyze::{UNDETERMINED, is_system_column};
use crate::plan::expression::{Place, cast_literal, parse_expression, zoned_type};
use crate::plan::needs::{access_of, denied, object_of, word_of};
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

pub(crate) use comment::checked as checked_comment;
pub(crate) use key_expr::reworded;
pub(crate) use made_name::free_name;

/// The default's text; it is planned where it is used.
pub(crate) fn default_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) if matches!(value.value, ast::Value::Null) => None,
        other => {
            let next = crate::pg::sequence_names::next_value(other);
            Some(next.unwrap_or_else(|| crate::plan::expression::kept_text(other)))
        }
    }
}

/// A column, and what its inline constraints ask for.
pub(crate) struct ColumnParts {
    pub spec: ColumnSpec,
    pub primary: Option<Option<String>>,
    pub unique: Option<Option<String>>,
    /// NULLS NOT DISTINCT of that.
    pub nulls_alike: bool,
    /// When that is judged.
    pub deferral: Deferral,
    pub checks: Vec<CheckParts>,
    pub foreign: Vec<ForeignParts>,
    /// What its values are made of.
    pub generated: Option<Expr>,
    /// Its values come from a sequence of its own, by default.
    pub serial: Option<sequence::Serial>,
    /// Its collation, where that is not its type's.
    pub collation: Option<u32>,
}

/// A type's name, without `pg_catalog`.
fn name_of_type(name: &ast::ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    match parts.as_slice() {
        [name] => name.clone(),
        [schema, name] if schema == "pg_catalog" => name.clone(),
        _ => String::new(),
    }
}

pub(crate) fn column_parts(def: &ColumnDef, table: &str) -> Result<ColumnParts, SqlError> {
    let name = name_of(&def.name);
    refuse_system_column(&name)?;
    if matches!(&def.data_type, ast::DataType::Custom(ty, _) if name_of_type(ty) == "unknown") {
        return Err(SqlError::new("42P16", format!("column \"{name}\" has pseudo-type unknown")));
    }
    let shown = format!("for column \"{name}\" of table \"{table}\"");
    let serial = sequence::serial(def)?;
    let ty: ColumnType = column_type_from_sql(serial.as_ref().map_or(&def.data_type, |(_, ty)| ty))?;
    let mut parts = ColumnParts {
        spec: ColumnSpec { name: name.clone(), ty, nullable: true, default_sql: None },
        primary: None,
        unique: None,
        nulls_alike: false,
        deferral: Deferral::Never,
        checks: Vec::new(),
        foreign: Vec::new(),
        generated: None,
        serial: serial.map(|(serial, _)| serial),
        collation: None,
    };
    let (mut says_null, mut has_default) = (None, parts.serial.is_some());
    if has_default {
        (says_null, parts.spec.nullable) = (Some(false), false);
    }
    for option in &def.options {
        let given = option.name.as_ref().map(name_of);
        match &option.option {
            ColumnOption::Null | ColumnOption::NotNull => {
                let nullable = matches!(option.option, ColumnOption::Null);
                if says_null.replace(nullable).is_some_and(|before| before != nullable) {
                    let text = format!("conflicting NULL/NOT NULL declarations {shown}");
                    return Err(SqlError::syntax(text));
                }
                parts.spec.nullable = nullable;
            }
            ColumnOption::Default(expr) => {
                if has_default {
                    let text = match &parts.serial {
                        Some(serial) if serial.identity != resurgam_engine::Identity::No => {
                            format!("both default and identity specified {shown}")
                        }
                        _ => format!("multiple default values specified {shown}"),
                    };
                    return Err(SqlError::syntax(text));
                }
                has_default = true;
                parts.spec.default_sql = default_text(expr);
            }
            ColumnOption::PrimaryKey(key) => {
                clauses::primary_key(key)?;
                if parts.primary.is_some() {
                    return Err(SqlError::new("42P16", "multiple primary keys for one table are not allowed"));
                }
                parts.primary = Some(key.name.as_ref().map(name_of).or(given));
                parts.spec.nullable = false;
            }
            ColumnOption::Unique(key) => {
                parts.deferral = clauses::unique(key)?;
                parts.unique = Some(key.name.as_ref().map(name_of).or(given));
            }
            ColumnOption::Comment(word) if word == nulls::NOT_DISTINCT => parts.nulls_alike = true,
            ColumnOption::Comment(text) if let Some(named) = text.strip_prefix(crate::parse::sequence::NAME) => {
                let Some(serial) = &mut parts.serial else { return Err(unsupported("SEQUENCE NAME in this place")) };
                serial.name = Some(sequence::read_name(named)?);
            }
            ColumnOption::ForeignKey(foreign) => {
                let name = foreign.name.as_ref().map(name_of).or(given);
                parts.foreign.push(ForeignParts::of_column(&def.name, name, foreign));
            }
            ColumnOption::Check(check) => {
                refuse_not_enforced(check)?;
                let name = check.name.as_ref().map(name_of).or(given);
                parts.checks.push(CheckParts { name, expr: Expr::clone(&check.expr) });
            }
            ColumnOption::Generated { generated_as, generation_expr: Some(expr), generation_expr_mode, .. } => {
                if parts.generated.is_some() {
                    let text = format!("multiple generation clauses specified {shown}");
                    return Err(SqlError::syntax(text));
                }
                parts.generated =
                    Some(generated::expression(&name, *generated_as, expr, generation_expr_mode.as_ref())?);
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                if parts.serial.is_some() {
                    let is_serial =
                        parts.serial.as_ref().is_some_and(|serial| serial.identity == resurgam_engine::Identity::No);
                    let what = if is_serial {
                        "both default and identity specified"
                    } else {
                        "multiple identity specifications"
                    };
                    return Err(SqlError::syntax(format!("{what} {shown}")));
                }
                if has_default {
                    return Err(SqlError::syntax(format!("both default and identity specified {shown}")));
                }
                if says_null == Some(true) {
                    let text = format!("conflicting NULL/NOT NULL declarations {shown}");
                    return Err(SqlError::syntax(text));
                }
                parts.serial = Some(sequence::identity(generated_as, sequence_options.as_deref(), def)?);
                (has_default, says_null, parts.spec.nullable) = (true, Some(false), false);
            }
            ColumnOption::Identity(_) => {
                return Err(unsupported("a generated column"));
            }
            ColumnOption::Collation(collation) => {
                parts.collation = column_collation(collation, &ty)?;
            }
            other => return Err(unsupported(&format!("column option {other}"))),
        }
    }
    if parts.generated.is_some() && has_default {
        return Err(SqlError::syntax(format!("both default and generation expression specified {shown}")));
    }
    Ok(parts)
}

/// The collation that is named for a column of a type, where that is not what it has anyway.
///
/// # Errors
/// `42704`, `42804`
pub(crate) fn column_collation(name: &ObjectName, ty: &ColumnType) -> Result<Option<u32>, SqlError> {
    let oid = column_oid(ty);
    let named = collation::named(name, oid, &column_type_name(ty))?;
    Ok(Some(named).filter(|named| *named != collation::of_type(oid)))
}

/// The columns of a PRIMARY KEY or UNIQUE constraint, by position.
#[derive(Default)]
pub(crate) struct KeyColumns {
    pub columns: Vec<usize>,
    pub included: Vec<usize>,
    /// NULLS NOT DISTINCT.
    pub nulls_alike: bool,
    /// When the constraint is judged.
    pub deferral: Deferral,
}

impl KeyColumns {
    /// A key of one column.
    pub(crate) fn one(at: usize) -> Self {
        Self { columns: vec![at], ..Self::default() }
    }

    /// With what UNIQUE says of NULLs.
    pub(crate) fn with_nulls(self, nulls: NullsDistinctOption) -> Self {
        Self { nulls_alike: matches!(nulls, NullsDistinctOption::NotDistinct), ..self }
    }

    /// Reads them among columns of these names.
    ///
    /// # Errors
    /// `42703`, `42601`: they have no order in a constraint.
    pub(crate) fn read(names: &[&str], columns: &[IndexColumn]) -> Result<Self, SqlError> {
        let mut key = Self::default();
        for ident in simple_columns(columns)? {
            match include::included(&ident) {
                Some(ident) => key.included.push(position(names, &ident)?),
                None => key.columns.push(position(names, &ident)?),
            }
        }
        check_index_columns(key.columns.len() + key.included.len())?;
        Ok(key)
    }

    /// The names that an index's own is made of.
    pub(crate) fn made_of(&self, names: &[&str]) -> Vec<String> {
        let columns = self.columns.iter().chain(&self.included);
        distinct_names(columns.filter_map(|at| names.get(*at)).map(|name| (*name).to_owned()))
    }
}

/// `54011` for more columns than an index may have, included ones counted.
fn check_index_columns(count: usize) -> Result<(), SqlError> {
    match count > INDEX_COLUMNS_MAX {
        true => Err(SqlError::new("54011", format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"))),
        false => Ok(()),
    }
}

fn simple_columns(columns: &[IndexColumn]) -> Result<Vec<Ident>, SqlError> {
    let plain = |column: &IndexColumn| {
        let options = &column.column.options;
        let word = match (options.asc, options.nulls_first) {
            (None, None) => return index_column(column),
            (Some(true), _) => "ASC",
            (Some(false), _) => "DESC",
            (None, Some(_)) => "NULLS",
        };
        Err(SqlError::syntax(format!("syntax error at or near \"{word}\"")))
    };
    columns.iter().map(plain).collect()
}

/// The column that is a column of an index.
fn index_column(column: &IndexColumn) -> Result<Ident, SqlError> {
    match &column.column.expr {
        Expr::Identifier(ident) => Ok(ident.clone()),
        _ => Err(unsupported("an index on an expression")),
    }
}

/// In which order an index has the values of a column: NULLs count as greater than all values.
fn index_order(column: &IndexColumn) -> ColumnOrder {
    let options = &column.column.options;
    let descending = options.asc == Some(false);
    ColumnOrder { descending, nulls_first: options.nulls_first.unwrap_or(descending) }
}

fn position(names: &[&str], ident: &Ident) -> Result<usize, SqlError> {
    let name = name_of(ident);
    let found = names.iter().position(|known| *known == name);
    found.ok_or_else(|| SqlError::new("42703", format!("column \"{name}\" named in key does not exist")))
}

/// Whether a table or an index has that name.
pub(crate) fn is_relation(txn: &Transaction, schema: &str, name: &str) -> Result<bool, SqlError> {
    Ok(txn.relation(schema, name)?.is_some())
}

/// A table's name in full.
pub(crate) fn full_name(table: &Table) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', table.schema.as_str()), Ident::with_quote('"', table.name.as_str())])
}

/// `42701` for a name that a column of the system has in each table.
pub(crate) fn refuse_system_column(name: &str) -> Result<(), SqlError> {
    match is_system_column(name) {
        true => Err(SqlError::new("42701", format!("column name \"{name}\" conflicts with a system column name"))),
        false => Ok(()),
    }
}

/// `42501` for a relation of the system.
fn refuse_system(schema: &str, name: &str) -> Result<(), SqlError> {
    match is_system_schema(schema) && system_relation(schema, name).is_some() {
        true => Err(SqlError::new("42501", format!("permission denied: \"{name}\" is a system catalog"))),
        false => Ok(()),
    }
}

/// The engine's form of CREATE TABLE without AS, and what is added to the table once it is there.
struct TableParts {
    spec: TableSpec,
    checks: Vec<CheckParts>,
    foreign: Vec<ForeignParts>,
    /// Generated columns, by name.
    generated: Vec<(String, Expr)>,
    serials: Vec<(usize, sequence::Serial)>,
    /// Columns that constraints include, by the names of these.
    included: Vec<(String, Vec<usize>)>,
    /// Of columns, by position.
    collations: Vec<(usize, u32)>,
}

fn table_spec(
    create: &CreateTable,
    schema: &str,
    taken: &dyn Fn(&str) -> Result<bool, SqlError>,
) -> Result<TableParts, SqlError> {
    let name = last_name(&create.name)?;
    let mut spec = TableSpec::new(schema, &name);
    let mut uniques: Vec<(Option<String>, KeyColumns)> = Vec::new();
    let mut primary: Option<(Option<String>, KeyColumns)> = None;
    let mut set_primary = |name: Option<String>, columns: KeyColumns| {
        if primary.is_some() {
            return Err(SqlError::new(
                "42P16",
                format!("multiple primary keys for table \"{}\" are not allowed", spec.name),
            ));
        }
        primary = Some((name, columns));
        Ok(())
    };
    let mut checks = Vec::new();
    let mut foreign = Vec::new();
    let mut generated = Vec::new();
    let mut columns = Vec::new();
    let mut serials = Vec::new();
    let mut collations = Vec::new();
    for (at, def) in create.columns.iter().enumerate() {
        let parts = column_parts(def, &name)?;
        if let Some(name) = parts.primary {
            set_primary(name, KeyColumns::one(at))?;
        }
        if let Some(name) = parts.unique {
            let (nulls_alike, deferral) = (parts.nulls_alike, parts.deferral);
            uniques.push((name, KeyColumns { nulls_alike, deferral, ..KeyColumns::one(at) }));
        }
        generated.extend(parts.generated.map(|expr| (parts.spec.name.clone(), expr)));
        checks.extend(parts.checks);
        foreign.extend(parts.foreign);
        serials.extend(parts.serial.map(|serial| (at, serial)));
        collations.extend(parts.collation.map(|collation| (at, collation)));
        columns.push(parts.spec);
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                clauses::primary_key(key)?;
                set_primary(key.name.as_ref().map(name_of), KeyColumns::read(&names, &key.columns)?)?;
            }
            TableConstraint::Unique(key) => {
                let deferral = clauses::unique(key)?;
                let columns = KeyColumns::read(&names, &key.columns)?.with_nulls(key.nulls_distinct);
                let columns = KeyColumns { deferral, ..columns };
                uniques.push((key.name.as_ref().map(name_of), columns));
            }
            TableConstraint::ForeignKey(constraint) => foreign.push(ForeignParts::of_table(constraint)),
            TableConstraint::Check(check) => {
                refuse_not_enforced(check)?;
                let name = check.name.as_ref().map(name_of);
                checks.push(CheckParts { name, expr: Expr::clone(&check.expr) });
            }
            other => return Err(unsupported(&format!("constraint {other}"))),
        }
    }
    let uniques: Vec<_> = uniques.into_iter().map(|(given, key)| (given, key.made_of(&names), key)).collect();
    let mut included = Vec::new();
    spec.columns = columns;
    if let Some((given, KeyColumns { columns, included: beside, .. })) = primary {
        for at in &columns {
            spec.columns[*at].nullable = false;
        }
        let name = match given {
            Some(given) => given,
            None => free_name(&name, &[], "pkey", taken)?,
        };
        included.push((name.clone(), beside));
        spec.primary_key = Some((name, columns));
    }
    for (given, names, KeyColumns { columns, included: beside, nulls_alike, deferral }) in uniques {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_taken = |n: &str| Ok(spec.indexes.iter().any(|i| i.name == n) || taken(n)?);
        let name = match given {
            Some(given) => given,
            None => free_name(&name, &names, "key", &is_taken)?,
        };
        included.push((name.clone(), beside));
        let (unique, constraint, orders) = (true, true, Vec::new());
        clauses::judged_later(deferral, columns.iter().map(|at| spec.columns[*at].ty))?;
        spec.indexes.push(IndexSpec { name, columns, orders, unique, constraint, nulls_alike, deferral });
    }
    // Those that have a name first, so that a made name is not one of theirs.
    checks.sort_by_key(|check| check.name.is_none());
    included.retain(|(_, columns)| !columns.is_empty());
    Ok(TableParts { spec, checks, foreign, generated, serials, included, collations })
}

/// Whether a statement that changes definitions has to stop: cancelled, or out of time.
pub(crate) fn check_stop(stop: &StopFlag, deadline: Option<Instant>) -> Result<(), SqlError> {
    stop.check()?;
    match deadline {
        Some(deadline) if Instant::now() >= deadline => Err(out_of_time()),
        _ => Ok(()),
    }
}

impl Session {
    /// Repeats an operation on definitions until nothing is in its way.
    pub(crate) async fn settle_ddl<T>(
        &mut self,
        attempt: impl FnMut() -> resurgam_base::Result<Attempt<T>>,
    ) -> Result<T, SqlError> {
        let lock_timeout = self.shared.variables.lock().lock_timeout;
        let stop = Arc::clone(&self.shared.stop);
        let waiting = Waiting { stop: &stop, lock_timeout };
        guarded(&stop, self.ddl_deadline, settle(&waiting, attempt)).await
    }

    /// The transaction that definitions are changed in.
    pub(crate) fn ddl_transaction(&mut self, what: &str) -> Result<Transaction, SqlError> {
        self.refuse_if_read_only(what)?;
        let open = self.transaction();
        open.used = true;
        let txn = open.txn.clone();
        txn.statement(resurgam_engine::StatementKind::PointWrite)?;
        Ok(txn)
    }

    /// Runs a change of definitions.
    pub(crate) async fn ddl(&mut self, statement: &Statement, text: &str) -> Result<Tag, SqlError> {
        self.ddl_deadline = self.deadline();
        match statement {
            Statement::CreateTable(create) => self.create_table(create, text).await,
            Statement::CreateView(create) => self.create_view(create).await,
            Statement::CreateIndex(create) => self.create_index(create).await,
            Statement::CreateSequence { .. } => self.create_sequence(statement).await,
            Statement::CreateType { name, representation } => self.create_type(name, representation.as_ref()).await,
            Statement::Drop { object_type: ObjectType::Type, if_exists, names, cascade, .. } => {
                self.drop_types(false, *if_exists, names, *cascade).await
            }
            Statement::Drop { object_type, if_exists, names, cascade, restrict: _, purge, temporary, table } => {
                if *purge || *temporary || table.is_some() {
                    return Err(SqlError::syntax("this form of DROP is not PostgreSQL's"));
                }
                self.drop_objects(*object_type, *if_exists, names, *cascade).await
            }
            Statement::Truncate(truncate) => self.truncate(truncate).await,
            Statement::AlterTable(alter) => self.alter_table_and_tell(alter).await,
            Statement::Comment {
                object_type: kind @ (ast::CommentObject::Type | ast::CommentObject::Domain),
                object_name,
                comment,
                if_exists: false,
            } => {
                let domain = matches!(kind, ast::CommentObject::Domain);
                self.comment_on_type(domain, object_name, comment.as_deref()).await
            }
            Statement::Comment { object_type, object_name, comment, if_exists: false } => {
                self.comment_on(*object_type, object_name, comment.as_deref()).await
            }
            Statement::AlterIndex { name, operation } => self.alter_index(name, operation).await,
            Statement::CreatePolicy(_) | Statement::AlterPolicy(_) | Statement::DropPolicy(_) => {
                Box::pin(self.policy_statement(statement)).await
            }
            Statement::Call(_) => Err(unsupported("CALL")),
            other => {
                let words: Vec<String> =
                    other.to_string().split_whitespace().take(2).map(str::to_ascii_uppercase).collect();
                Err(SqlError::unsupported(format!("{} is not supported", words.join(" "))))
            }
        }
    }

    /// ALTER TABLE, with warnings of what it asks for and has no effect.
    async fn alter_table_and_tell(&mut self, alter: &AlterTable) -> Result<Tag, SqlError> {
        if !alter.operations.iter().any(clauses::is_idle) {
            return self.alter_table(alter).await;
        }
        let txn = self.ddl_transaction("ALTER TABLE")?;
        let (schema, name) = self.lookup(&txn).place(&alter.name)?;
        if txn.view_named(&schema, &name)?.is_some() {
            // Options of views are something else.
            return self.alter_table(alter).await;
        }
        let (idle, operations): (Vec<_>, Vec<_>) = alter.operations.iter().cloned().partition(clauses::is_idle);
        let rest = AlterTable { operations, ..alter.clone() };
        let tag = self.alter_table(&rest).await?;
        // With IF EXISTS it may not be there.
        let Some(table) = txn.table(&schema, &name)? else { return Ok(tag) };
        for action in &idle {
            let (what, names) = clauses::idle(&table, action)?;
            self.warn_of_idle(what, &names);
        }
        Ok(tag)
    }

    /// A statement whose constants name relations with their schemas, as its calls do functions of extensions, which are
    /// kept for it.
    pub(crate) async fn qualified<T>(
        &mut self,
        txn: &Transaction,
        mut statement: Statement,
        part: impl FnOnce(Statement) -> Option<T>,
    ) -> Result<T, SqlError> {
        let called = qualify::qualify(&mut statement, &self.lookup(txn))?;
        self.keep_called(txn, &called).await?;
        let defs: Vec<&mut ColumnDef> = match &mut statement {
            Statement::CreateTable(create) => create.columns.iter_mut().collect(),
            Statement::AlterTable(alter) => {
                let added = |operation| match operation {
                    &mut ast::AlterTableOperation::AddColumn { ref mut column_def, .. } => Some(column_def),
                    _ => None,
                };
                alter.operations.iter_mut().filter_map(added).collect()
            }
            _ => Vec::new(),
        };
        for def in defs {
            let Ok(ty) = column_type_from_sql(&def.data_type) else { continue };
            for option in &mut def.options {
                if let ColumnOption::Default(expr) = &mut option.option {
                    self.fix_default(&ty, expr).await?;
                }
            }
        }
        part(statement).ok_or_else(|| SqlError::internal("a statement that became another one"))
    }

    /// A default of a column of that type means what it means now, in this session's zone.
    pub(super) async fn fix_default(&mut self, ty: &ColumnType, expr: &mut Expr) -> Result<(), SqlError> {
        if let Some(zoned) = zoned_type(ty) {
            cast_literal(expr, zoned);
        }
        self.fix_times(expr).await
    }

    pub(crate) fn skip(&mut self, message: String) {
        let what = message.split(' ').next().unwrap_or_default();
        // What there is already has the code of the error that it would be.
        let code = match (what, message.ends_with("already exists, skipping")) {
            ("relation", true) => "42P07",
            ("column", true) => "42701",
            (_, true) => "42710",
            _ => "00000",
        };
        let mut notice = SqlError::new(code, message);
        notice.severity = "NOTICE";
        self.notice(notice);
    }

    /// Tells of clauses that are accepted, since nobody relies on them, and have no effect.
    pub(crate) fn warn_of_idle(&mut self, what: &str, names: &[String]) {
        for name in names {
            self.notice(SqlError::notice("WARNING", "01000", format!("{what} \"{name}\" has no effect")));
        }
    }

    async fn create_table(&mut self, create: &CreateTable, text: &str) -> Result<Tag, SqlError> {
        let idle = clauses::create_table(create)?;
        self.warn_of_idle("storage parameter", &idle);
        let txn = self.ddl_transaction("CREATE TABLE")?;
        let (schema, name) = match create.temporary {
            true => self.temporary_place_for(&txn, &create.name).await?,
            false => self.place_for(&txn, &create.name).await?,
        };
        if create.on_commit.is_some() && !is_temporary(&schema) {
            return Err(SqlError::new("42P16", "ON COMMIT can only be used on temporary tables"));
        }
        let on_commit = create.on_commit;
        let taken = |name: &str| is_relation(&txn, &schema, name);
        if taken(&name)? {
            if create.if_not_exists {
                let mut notice = SqlError::new("42P07", format!("relation \"{name}\" already exists, skipping"));
                notice.severity = "NOTICE";
                self.notice(notice);
                return Ok(Tag::Fixed(if create.query.is_some() { "CREATE TABLE AS" } else { "CREATE TABLE" }));
            }
            return Err(SqlError::new("42P07", format!("relation \"{name}\" already exists")));
        }
        if let Some(query) = &create.query {
            if create.columns.iter().any(|column| column.name.value == crate::parse::like::LIKE) {
                return Err(SqlError::syntax("syntax error at or near \"LIKE\""));
            }
            return self.create_table_as(&txn, create, (&schema, &name), query, text).await;
        }
        let mut create = self
            .qualified(&txn, Statement::CreateTable(create.clone()), |statement| match statement {
                Statement::CreateTable(create) => Some(create),
                _ => None,
            })
            .await?;
        let (rights, role) = (self.rights()?, self.role());
        let may_read = |entry: &Table| match rights.allowed(role, access_of(entry), object_of(entry), privilege::SELECT)
        {
            0 => Err(denied(word_of(entry), &entry.name)),
            _ => Ok(()),
        };
        let like = like::expand(&self.lookup(&txn), &mut create, &may_read)?;
        let create = &create;
        let TableParts { mut spec, checks, foreign, generated, serials: found, included, collations } =
            table_spec(create, &schema, &taken)?;
        let mut serials: Vec<(String, String, sequence::Serial)> = Vec::new();
        for (at, serial) in found {
            let column = &mut spec.columns[at];
            let used: Vec<&str> = serials.iter().map(|(_, name, _)| name.as_str()).collect();
            let is_taken = |wanted: &str| Ok(wanted == name || used.contains(&wanted) || taken(wanted)?);
            let made = match serial.name_in(&schema)? {
                Some(given) => given,
                None => free_name(&name, &[&column.name], "seq", &is_taken)?,
            };
            column.default_sql = Some(sequence::default_of(&schema, &made));
            serials.push((column.name.clone(), made, serial));
        }
        self.keep_types(&txn, spec.columns.iter().map(|column| column.ty).collect::<Vec<_>>()).await?;
        let mut table = self.settle_ddl(|| txn.create_table(spec.clone())).await?;
        self.note_at_commit(&table, on_commit);
        table = self.own_new(&txn, table).await?;
        for (name, included) in included {
            table = self.detail(&txn, &table, &name, included, Vec::new()).await?;
        }
        for (at, collation) in collations {
            table = self.change(&txn, &table, TableChange::SetCollation(at, Some(collation))).await?;
        }
        table = self.add_serials(&txn, table, &serials).await?;
        table = self.with_domains(&txn, table, &create.columns).await?;
        for column in &spec.columns {
            if let Some(default) = &column.default_sql {
                self.check_default(&txn, &table, default, &column.name, column.ty)?;
            }
        }
        table = self.add_generated(&txn, &table, &generated).await?;
        for check in &checks {
            table = self.add_check(&txn, &table, check, true).await?;
        }
        for foreign in &foreign {
            table = self.add_foreign_key(&txn, &table, foreign, true).await?;
        }
        for like::Index { columns, included, orders, declared, unique, nulls_alike } in like.indexes {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            let found = |of: &[String]| -> Vec<usize> {
                of.iter().filter_map(|name| names.iter().position(|known| known == name)).collect()
            };
            let (columns, included, deferral) = (found(&columns), found(&included), Deferral::Never);
            let key = KeyColumns { columns, included, nulls_alike, deferral };
            let made_of = key.made_of(&names);
            let made_of: Vec<&str> = made_of.iter().map(String::as_str).collect();
            let name = free_name(&table.name, &made_of, "idx", &|name| is_relation(&txn, &table.schema, name))?;
            let (columns, constraint) = (key.columns, false);
            let spec = IndexSpec { name: name.clone(), columns, orders, unique, constraint, nulls_alike, deferral };
            table = self.settle_ddl(|| txn.create_index(&table, spec.clone())).await?;
            table = self.detail(&txn, &table, &name, key.included, declared).await?;
        }
        for (name, comment) in like.comments {
            if let Some(at) = table.columns.iter().position(|column| column.name == name) {
                table = self.set_comment(&txn, &table, CommentOn::Column(at), Some(&comment)).await?;
            }
        }
        Ok(Tag::Fixed("CREATE TABLE"))
    }

    /// Says what an index has beside its key, by name.
    pub(crate) async fn detail(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        index: &str,
        included: Vec<usize>,
        declared: Vec<Declared>,
    ) -> Result<Arc<Table>, SqlError> {
        if included.is_empty() && declared.is_empty() {
            return Ok(Arc::clone(table));
        }
        let index = table.indexes.iter().find(|known| known.name == index).map(|index| index.id);
        let details = IndexDetails { index, included, declared };
        self.change(txn, table, TableChange::SetIndexDetails(details)).await
    }

    /// A default must be an expression without columns, of a type that can be assigned to its column.
    pub(crate) fn check_default(
        &mut self,
        txn: &Transaction,
        table: &Table,
        text: &str,
        column: &str,
        ty: ColumnType,
    ) -> Result<(), SqlError> {
        self.plan_over(txn, table, &parse_expression(text)?, Place::Default(column, ty)).map(|_| ())
    }

    async fn create_table_as(
        &mut self,
        txn: &Transaction,
        create: &CreateTable,
        (schema, name): (&str, &str),
        query: &ast::Query,
        text: &str,
    ) -> Result<Tag, SqlError> {
        let filled = clauses::Filled::read(create)?;
        let executed = match clauses::executed(query) {
            Some((name, parameters)) => Some(self.executed_query(&name, &parameters)?),
            None => None,
        };
        let (query, values, declared) = match &executed {
            Some((query, values, declared)) => (&**query, values.as_slice(), declared.as_slice()),
            None => (query, &[] as &[ScalarValue], &[] as &[u32]),
        };
        let select = query.to_string();
        let prepared = self.prepare_text(&select, declared)?;
        if prepared.param_oids.len() > values.len() {
            let text = format!("there is no parameter ${}", prepared.param_oids.len());
            return Err(SqlError::new("42P02", text));
        }
        let fields = prepared.fields.clone().ok_or_else(|| SqlError::syntax("CREATE TABLE AS needs a query"))?;
        let collations = match prepared.kind {
            crate::plan::statement::Kind::Query(_) => self.collations_of(txn, query, declared)?,
            _ => Vec::new(),
        };
        if filled.names.len() > fields.len() {
            return Err(SqlError::syntax("too many column names were specified"));
        }
        let mut spec = TableSpec::new(schema, name);
        for (at, field) in fields.iter().enumerate() {
            let given = filled.names.get(at).cloned();
            if field.type_oid == crate::pg::types::oid::VOID {
                let name = given.as_ref().unwrap_or(&field.name);
                return Err(SqlError::new("42P16", format!("column \"{name}\" has pseudo-type void")));
            }
            let kept = crate::pg::types::column_type_of_oid(field.type_oid, field.typmod);
            // There is no column of it that would keep blanks.
            let has_blanks = match field.type_oid {
                crate::pg::types::oid::BPCHAR => field.typmod < 0,
                ty => ty == crate::pg::types::oid::BPCHAR_ARRAY,
            };
            let ty = kept.filter(|_| !has_blanks).ok_or_else(|| {
                unsupported(&format!("a column of type {}", crate::pg::types::format_type(field.type_oid, None)))
            })?;
            let name = given.unwrap_or_else(|| field.name.clone());
            refuse_system_column(&name)?;
            if collations.get(at) == Some(&UNDETERMINED) {
                let ty = crate::pg::types::format_type(field.type_oid, None);
                let text = format!("no collation was derived for column \"{name}\" with collatable type {ty}");
                return Err(
                    SqlError::new("42P22", text).with_hint("Use the COLLATE clause to set the collation explicitly.")
                );
            }
            spec.columns.push(ColumnSpec { name, ty, nullable: true, default_sql: None });
        }
        self.keep_types(txn, spec.columns.iter().map(|column| column.ty).collect::<Vec<_>>()).await?;
        let mut table = self.settle_ddl(|| txn.create_table(spec.clone())).await?;
        self.note_at_commit(&table, create.on_commit);
        for (at, collation) in collations.into_iter().enumerate().filter(|(_, oid)| collation::is_icu(*oid)) {
            table = self.change(txn, &table, TableChange::SetCollation(at, Some(collation))).await?;
        }
        self.own_new(txn, table).await?;
        if !filled.with_data {
            // That of a prepared statement says how many rows it gave.
            return Ok(if executed.is_some() { Tag::Count("SELECT", 0) } else { Tag::Fixed("CREATE TABLE AS") });
        }
        let quoted = |n: &str| format!("\"{}\"", n.replace('"', "\"\""));
        // What writes in WITH stands before the statement.
        let mut rest = query.clone();
        let with = match crate::parse::with_write::writes_within(query) {
            true => rest.with.take().map(|with| format!("{with} ")).unwrap_or_default(),
            false => String::new(),
        };
        let insert = format!("{with}INSERT INTO {}.{} {rest}", quoted(schema), quoted(name));
        let prepared = self.prepare_text(&insert, declared)?;
        let crate::plan::statement::Kind::Write(plan) = &prepared.kind else {
            return Err(SqlError::internal("not an INSERT"));
        };
        self.check_allowed(&prepared)?;
        let written = self.modify_by_plan(plan, Around::of(&prepared), values, &[], text, None).await?;
        Ok(Tag::Count("SELECT", written.rows))
    }

    /// The collations of a query's columns, where collations of ICU are met in it.
    fn collations_of(&mut self, txn: &Transaction, query: &ast::Query, declared: &[u32]) -> Result<Vec<u32>, SqlError> {
        let state = self.state()?;
        let cx = Arc::clone(&self.cx);
        self.planning(|| {
            let mut params = ParamTypes::new(declared.len(), declared);
            let names = Names { state: &state, txn, cx: &cx };
            let analyzed = crate::plan::analyze::query(&names, query, "", &mut params)?;
            Ok(analyzed.columns.iter().map(|column| column.collation).collect())
        })
    }

    /// The query of a prepared statement, with the values of its parameters and their types.
    fn executed_query(
        &mut self,
        name: &ObjectName,
        parameters: &[Expr],
    ) -> Result<(Box<ast::Query>, Vec<ScalarValue>, Vec<u32>), SqlError> {
        let (prepared, values) = self.execute_named(name, parameters)?;
        match (parse_known(&prepared.text)?.pop(), &prepared.kind) {
            (Some(Statement::Query(query)), crate::plan::statement::Kind::Query(_)) => {
                Ok((query, values, prepared.param_oids.to_vec()))
            }
            _ => Err(SqlError::new("42809", "prepared statement is not a SELECT")),
        }
    }

    async fn create_index(&mut self, create: &CreateIndex) -> Result<Tag, SqlError> {
        if create.concurrently {
            self.refuse_in_transaction("CREATE INDEX CONCURRENTLY")?;
        }
        let mut create = create.clone();
        let idle = clauses::create_index(&create)?;
        self.warn_of_idle("storage parameter", &idle);
        let stood_for = clauses::access_method(&create)?;
        self.warn_of_idle("access method", stood_for.as_slice());
        let txn = self.ddl_transaction("CREATE INDEX")?;
        self.must_own_named(&txn, &create.table_name)?;
        if create.concurrently
            && let Ok(table) = self.lookup(&txn).table(&create.table_name)
        {
            self.lock_in_passing(&txn, &table).await?;
        }
        let table = match self.locked_table(&txn, &create.table_name).await {
            Err(error) if error.sqlstate == "42809" => {
                let (schema, name) = self.lookup(&txn).place(&create.table_name)?;
                let what = if txn.view_named(&schema, &name)?.is_some() { "views" } else { "sequences" };
                return Err(SqlError::new("42809", format!("cannot create index on relation \"{name}\""))
                    .with_detail(format!("This operation is not supported for {what}.")));
            }
            locked => locked?,
        };
        let mut called = qualify::Called::default();
        for expr in create.columns.iter_mut().map(|column| &mut column.column.expr).chain(&mut create.predicate) {
            called.extend(qualify::qualify(expr, &self.lookup(&txn))?);
        }
        self.keep_called(&txn, &called).await?;
        let create = &create;
        let is_taken = |name: &str| is_relation(&txn, &table.schema, name);
        let name = match &create.name {
            Some(name) => last_name(name)?,
            None => String::new(),
        };
        if create.name.is_some() && is_taken(&name)? {
            if create.if_not_exists {
                self.skip(format!("relation \"{name}\" already exists, skipping"));
                return Ok(Tag::Fixed("CREATE INDEX"));
            }
            return Err(SqlError::new("42P07", format!("relation \"{name}\" already exists")));
        }
        check_index_columns(create.columns.len() + create.include.len())?;
        let keys = self.index_keys(&txn, &table, create).await?;
        let include = create.include.iter();
        let included =
            include.map(|ident| key_expr::index_column(&table, ident)).collect::<Result<Vec<usize>, SqlError>>()?;
        let name = match &create.name {
            Some(_) => name,
            None => {
                let names = keys.names(&table, &included);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                free_name(&table.name, &names, "idx", &is_taken)?
            }
        };
        let (orders, declared) = (keys.orders.clone(), keys.declared.clone());
        let concurrently = create.concurrently && keys.is_plain() && !is_temporary(&table.schema);
        let (table, columns) = self.add_hidden(&txn, &table, keys).await?;
        let (unique, nulls_alike) = (create.unique, create.nulls_distinct == Some(false));
        let (constraint, deferral) = (false, Deferral::Never);
        let spec = IndexSpec { name, columns, orders, unique, constraint, nulls_alike, deferral };
        let of_index = |error, table: &Table| {
            let mut error = key_expr::reworded(error, table, &spec.columns);
            if error.sqlstate == "23505" {
                error.schema = Some(table.schema.clone());
                error.table = Some(table.name.clone());
                error.constraint = Some(spec.name.clone());
            }
            error
        };
        if concurrently {
            let table = self.settle_ddl(|| txn.add_index(&table, spec.clone())).await?;
            let table = self.detail(&txn, &table, &spec.name, included, declared).await?;
            drop(txn);
            let filled = self.fill_concurrently(&table, &spec.name).await;
            filled.map_err(|mut error| {
                // What is committed is not begun again.
                error.definition_changed = false;
                of_index(error, &table)
            })?;
            return Ok(Tag::Fixed("CREATE INDEX"));
        }
        let fill = || tokio::task::block_in_place(|| txn.create_index(&table, spec.clone()));
        let filled = self.settle_ddl(fill).await;
        let table = filled.map_err(|error| of_index(error, &table))?;
        self.detail(&txn, &table, &spec.name, included, declared).await?;
        Ok(Tag::Fixed("CREATE INDEX"))
    }

    pub(crate) async fn drop_objects(
        &mut self,
        kind: ObjectType,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Tag, SqlError> {
        if kind == ObjectType::View {
            return self.drop_views(if_exists, names, cascade).await;
        }
        if kind == ObjectType::Schema {
            return self.drop_schemas(if_exists, names, cascade).await;
        }
        if kind == ObjectType::Sequence {
            return self.drop_sequences(if_exists, names, cascade).await;
        }
        let (tag, word) = match kind {
            ObjectType::Table => ("DROP TABLE", "table"),
            ObjectType::Index => ("DROP INDEX", "index"),
            other => return Err(unsupported(&format!("DROP {other}"))),
        };
        let txn = self.ddl_transaction(tag)?;
        // Of tables that go together none is in the way of the other.
        let mut together = Vec::new();
        for name in names {
            let (schema, wanted) = self.lookup(&txn).place(name)?;
            if kind != ObjectType::Table {
                if kind == ObjectType::Index
                    && let Some(table) = txn.table_of_index(&schema, &wanted)?
                {
                    self.may_drop(&table, "index", &wanted)?;
                }
                continue;
            }
            let found = txn.table(&schema, &wanted)?;
            if let Some(table) = &found {
                self.may_drop(table, "table", &wanted)?;
            }
            together.extend(found);
        }
        if together.len() > 1 && !cascade {
            refuse_needed_elsewhere(&self.lookup(&txn), &together)?;
        }
        let together: Vec<u32> = together.iter().map(|table| table.id).collect();
        for name in names {
            let (schema, wanted) = self.lookup(&txn).place(name)?;
            refuse_system(&schema, &wanted)?;
            let missing = |session: &mut Self| {
                let error = session.lookup(&txn).undefined(name, word)?;
                session.not_there(&error, word, name, if_exists)
            };
            match kind {
                ObjectType::Table => match txn.table(&schema, &wanted)? {
                    Some(_) => match self.locked_table(&txn, name).await {
                        Ok(table) => {
                            self.refuse_if_pending(&table, "DROP TABLE")?;
                            let table = self.drop_dependents(&txn, &table, &Depends::Table, cascade, &together).await?;
                            let with = format!("table {}", self.lookup(&txn).shown(&table)?);
                            self.drop_policies_of(&txn, &table).await?;
                            self.settle_ddl(|| txn.drop_table(&table)).await?;
                            self.drop_owned(&txn, &table.owned, Some(&with), cascade, &together).await?;
                        }
                        // Dropped by the one who was waited for.
                        Err(error) if matches!(error.sqlstate.as_str(), "42P01" | "3F000") => missing(self)?,
                        Err(error) => return Err(error),
                    },
                    None if is_relation(&txn, &schema, &wanted)? => {
                        return Err(SqlError::new("42809", format!("\"{wanted}\" is not a table"))
                            .with_hint(drop_hint(&txn, &schema, &wanted)?));
                    }
                    None => missing(self)?,
                },
                ObjectType::Index => match txn.table_of_index(&schema, &wanted)? {
                    Some(table) => {
                        let of_constraint = table.primary_key_name == wanted
                            || table.indexes.iter().any(|i| i.name == wanted && i.constraint);
                        if of_constraint {
                            return Err(SqlError::new(
                                "2BP01",
                                format!(
                                    "cannot drop index {wanted} because constraint {wanted} on table {} requires it",
                                    table.name
                                ),
                            )
                            .with_hint(format!("You can drop constraint {wanted} on table {} instead.", table.name)));
                        }
                        let owner = full_name(&table);
                        let table = self.locked_table(&txn, &owner).await?;
                        let table = self.drop_dependents(&txn, &table, &Depends::Index(&wanted), cascade, &[]).await?;
                        self.drop_index_whole(&txn, &table, &wanted).await?;
                    }
                    None if is_relation(&txn, &schema, &wanted)? => {
                        return Err(SqlError::new("42809", format!("\"{wanted}\" is not an index"))
                            .with_hint(drop_hint(&txn, &schema, &wanted)?));
                    }
                    None => missing(self)?,
                },
                _ => missing(self)?,
            }
        }
        Ok(Tag::Fixed(tag))
    }

    async fn truncate(&mut self, truncate: &Truncate) -> Result<Tag, SqlError> {
        clauses::truncate(truncate)?;
        let txn = self.ddl_transaction("TRUNCATE TABLE")?;
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for target in &truncate.table_names {
            if let Ok(table) = self.lookup(&txn).table(&target.name) {
                self.may(&table, privilege::TRUNCATE)?;
            }
            let table = self.locked_table(&txn, &target.name).await?;
            if !tables.iter().any(|known| known.id == table.id) {
                tables.push(table);
            }
        }
        let cascade = matches!(truncate.cascade, Some(ast::CascadeOption::Cascade));
        let tables = self.truncated_with(&txn, tables, cascade).await?;
        for table in &tables {
            self.may(table, privilege::TRUNCATE)?;
            self.refuse_if_pending(table, "TRUNCATE")?;
        }
        for table in &tables {
            self.settle_ddl(|| txn.truncate(table)).await?;
            if matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart)) {
                self.restart_owned(&txn, table).await?;
            }
        }
        Ok(Tag::Fixed("TRUNCATE TABLE"))
    }
}
