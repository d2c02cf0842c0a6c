//! INSERT, UPDATE and DELETE: a planned source feeding the engine's row operators.
//!
//! The source of an UPDATE yields every column's new value and then the row's key; of a
//! DELETE the old columns and the key; of an INSERT every column. UPDATE and DELETE are planned
//! as queries over the target, so that FROM, USING and subqueries need nothing special.
//!
//! READ COMMITTED: when the newest committed version of a row is not the one that the
//! statement saw, the source runs again with that version alone in place of the target, and
//! its answer (new values, or none if the row no longer qualifies) is applied instead.
//! (A row that has another primary key now counts as gone: it cannot be told from one that was deleted,
//! and a search of everything anew would also find rows that are new altogether.)

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, BinaryArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, ConflictTarget, FromTable, Ident, OnConflictAction, OnInsert, SelectItem, SetExpr,
    Statement, TableFactor, TableObject, TableWithJoins, UpdateTableFromKind, VisitorMut,
};
use futures::StreamExt;
use resurgam_ast::AstWalkMut;
use resurgam_engine::{
    Attempt, Change, DatumRef, ErrorKind, ReadView, RowBuf, Seen, StatementKind, Table, Transaction,
};

use crate::bridge;
use crate::cell::{KeptExprs, RunningExprs};
use crate::check::Checks;
use crate::context::{StatementContext, StopFlag, TargetRow};
use crate::fast::{FastWrite, Output, Resolution};
use crate::foreign::{Deferred, Enforcer, Help, References};
use crate::locking::Locked;
use crate::naming;
use crate::params::{contains_placeholder, is_typed_by_literal};
use crate::pg::arrow::{DatumColumn, assignment_cast};
use crate::pg::context::PgContext;
use crate::pg::datetime::Zone;
use crate::pg::errors;
use crate::pg::types;
use crate::planner::{Names, QueryPlan, TARGET, settled, simplified, task_context};
use crate::statement::{ParamTypes, mentioned, parse_expression, template};
use crate::table::{KEY_COLUMN, table_schema};
use crate::wait::{Waiting, settle};
use crate::wire::{Field, SqlError};

/// What kind of statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Insert,
    Update,
    Delete,
}

/// Rows that are written before others get their turn.
pub(crate) const ROWS_PER_TURN: usize = 256;

/// A planned statement that writes.
#[derive(Debug)]
pub(crate) struct WritePlan {
    pub op: Op,
    pub table: Arc<Table>,
    pub source: QueryPlan,
    pub returning: Option<Returning>,
    pub conflict: Option<Conflict>,
    pub fast: Option<FastWrite>,
    /// What its new rows must satisfy.
    pub checks: Checks,
    /// Foreign keys that its rows concern.
    pub references: Arc<References>,
}

/// RETURNING: expressions over the row after (before, for DELETE) the change.
#[derive(Debug)]
pub(crate) struct Returning {
    pub fields: Arc<[Field]>,
    pub schema: Arc<Schema>,
    /// With literals for parameters some of its types would be others.
    pub typed_by_literals: bool,
    exprs: Arc<KeptExprs>,
    input: Arc<Schema>,
    /// The same for the short path, if that can do it.
    pub short: Option<Output>,
}

/// ON CONFLICT.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The unique keys whose conflicts are handled: `None` is the primary key.
    keys: Vec<Option<usize>>,
    /// `None` is DO NOTHING.
    update: Option<ConflictUpdate>,
    /// Its values depend on the session, or are parameters, which one execution at a time sets.
    pub of_session: bool,
    /// The same for the short path, if that can do it.
    pub short: Option<Resolution>,
}

/// Expressions over the existing row followed by the proposed one.
#[derive(Debug)]
struct ConflictUpdate {
    /// Columns that get new values.
    set: Vec<usize>,
    /// These values, and the condition behind them if there is one.
    exprs: Arc<KeptExprs>,
    input: Arc<Schema>,
}

fn ident_text(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Schema and name that an object name means.
pub(crate) fn table_name(name: &ast::ObjectName) -> Result<(String, String), SqlError> {
    let parts: Vec<String> = name
        .0
        .iter()
        .map(|part| part.as_ident().map(ident_text).ok_or_else(|| SqlError::syntax(format!("improper name: {name}"))))
        .collect::<Result<_, _>>()?;
    match parts.as_slice() {
        [table] => Ok(("public".to_owned(), table.clone())),
        [schema, table] => Ok((schema.clone(), table.clone())),
        [database, schema, table] if database == "postgres" => Ok((schema.clone(), table.clone())),
        [_, _, _] => Err(SqlError::unsupported(format!("cross-database references are not implemented: \"{name}\""))),
        _ => Err(SqlError::syntax(format!("improper qualified name (too many dotted names): {name}"))),
    }
}

/// The table, or `42P01`.
pub(crate) fn find_table(txn: &Transaction, name: &ast::ObjectName) -> Result<Arc<Table>, SqlError> {
    let (schema, table) = table_name(name)?;
    if matches!(schema.as_str(), "pg_catalog" | "information_schema" | "sys") {
        return Err(SqlError::new("42501", format!("permission denied: \"{table}\" is a system catalog")));
    }
    txn.table(&schema, &table)?.ok_or_else(|| {
        let shown = if name.0.len() > 1 { format!("{schema}.{table}") } else { table };
        SqlError::new("42P01", format!("relation \"{shown}\" does not exist"))
    })
}

/// Position of a column, or `42703`.
pub(crate) fn find_column(table: &Table, ident: &Ident) -> Result<usize, SqlError> {
    let name = ident_text(ident);
    table.columns.iter().position(|c| c.name == name).ok_or_else(|| {
        SqlError::new("42703", format!("column \"{name}\" of relation \"{}\" does not exist", table.name))
    })
}

/// Whether `expr` is the keyword DEFAULT.
fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// A column's default as syntax.
fn default_of(table: &Table, column: usize) -> Result<ast::Expr, SqlError> {
    match &table.columns[column].default_sql {
        Some(text) => parse_expression(text),
        None => Ok(ast::Expr::Value(ast::Value::Null.into())),
    }
}

/// Plans an INSERT, UPDATE or DELETE.
pub(crate) fn plan(
    names: &Names<'_>,
    statement: Statement,
    params: &mut ParamTypes,
    text: &str,
) -> Result<WritePlan, SqlError> {
    let mut plan = match statement {
        Statement::Insert(insert) => plan_insert(names, insert, params, text),
        Statement::Update(update) => plan_update(names, update, params, text),
        Statement::Delete(delete) => plan_delete(names, delete, params, text),
        _ => Err(SqlError::internal("not a write")),
    }?;
    if plan.op != Op::Delete {
        plan.checks = Checks::plan(names, &plan.table)?;
    }
    if plan.checks.is_empty() {
        plan.fast = FastWrite::new(names.state, &plan);
    }
    Ok(plan)
}

fn plan_insert(
    names: &Names<'_>,
    insert: ast::Insert,
    params: &mut ParamTypes,
    text: &str,
) -> Result<WritePlan, SqlError> {
    let failed = |error| errors::from_datafusion(error, text);
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into this kind of target is not supported"));
    };
    if insert.overwrite || insert.replace_into || insert.or.is_some() || insert.ignore || !insert.assignments.is_empty()
    {
        return Err(SqlError::syntax("this form of INSERT is not supported"));
    }
    let table = find_table(names.txn, name)?;
    let alias = insert.table_alias.as_ref().map(|a| ident_text(&a.alias));
    let columns: Vec<usize> = if insert.columns.is_empty() {
        (0..table.columns.len()).collect()
    } else {
        let mut out: Vec<usize> = Vec::with_capacity(insert.columns.len());
        for name in &insert.columns {
            let ident =
                name.0.last().and_then(|part| part.as_ident()).ok_or_else(|| SqlError::syntax("bad column name"))?;
            let column = find_column(&table, ident)?;
            if out.contains(&column) {
                return Err(SqlError::new(
                    "42701",
                    format!("column \"{}\" specified more than once", ident_text(ident)),
                ));
            }
            out.push(column);
        }
        out
    };
    let implicit = insert.columns.is_empty();
    let mut source = match insert.source {
        Some(source) => source,
        // INSERT INTO t DEFAULT VALUES
        None => template("VALUES (DEFAULT)")?,
    };
    let defaults_only = matches!(source.body.as_ref(), SetExpr::Values(v) if v.rows.len() == 1 && v.rows[0].content.len() == 1 && is_default(&v.rows[0].content[0]) && columns.len() != 1);
    let mut columns = if defaults_only { Vec::new() } else { columns };
    let schema = table_schema(&table);
    if defaults_only {
        *source = *template("SELECT 1")?;
    } else if let SetExpr::Values(values) = source.body.as_mut() {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        if values.rows.iter().any(|row| row.content.len() != width) {
            return Err(SqlError::syntax("VALUES lists must all be the same length"));
        }
        if width > columns.len() {
            return Err(SqlError::syntax("INSERT has more expressions than target columns"));
        }
        if width < columns.len() {
            if !implicit {
                return Err(SqlError::syntax("INSERT has more target columns than expressions"));
            }
            columns.truncate(width);
        }
        for row in &mut values.rows {
            for (value, &column) in row.content.iter_mut().zip(&columns) {
                if is_default(value) {
                    *value = default_of(&table, column)?;
                }
                params.hint(value, schema.field(column));
            }
        }
        if values.rows.len() > 1 {
            cast_apart(names, &table, &columns, values, params)?;
        }
    } else {
        // A parameter in a place of its own has the type of the column that it goes to.
        if let SetExpr::Select(select) = source.body.as_ref() {
            for (item, &column) in select.projection.iter().zip(&columns) {
                match item {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                        params.hint(expr, schema.field(column));
                    }
                    _ => break,
                }
            }
        }
        naming::name_columns(&mut source);
    }
    // Others of the statement's parameters get their types from its other parts.
    let mentioned = mentioned(&source);
    let logical =
        params.resolve_mentioned(&mentioned, |known| names.query((*source).clone(), known, None)).map_err(failed)?;
    let produced = if defaults_only { 0 } else { logical.schema().fields().len() };
    if produced > columns.len() {
        return Err(SqlError::syntax("INSERT has more expressions than target columns"));
    }
    if produced < columns.len() {
        if !implicit {
            return Err(SqlError::syntax("INSERT has more target columns than expressions"));
        }
        columns.truncate(produced);
    }
    let mut exprs = Vec::with_capacity(table.columns.len());
    for (at, column) in table.columns.iter().enumerate() {
        let expr = match columns.iter().position(|&c| c == at) {
            Some(i) => {
                let from = datafusion::common::Column::from(logical.schema().qualified_field(i));
                let given = logical.schema().field(i).data_type();
                check_assignable(given, &column.ty, &column.name)?;
                Expr::Column(from)
            }
            None => names.expression(default_of(&table, at)?, &DFSchema::empty(), &[]).map_err(failed)?,
        };
        exprs.push(expr.alias(&column.name));
    }
    let logical = LogicalPlanBuilder::from(logical).project(exprs).and_then(|b| b.build()).map_err(failed)?;
    let conflict = match insert.on {
        None => None,
        Some(OnInsert::OnConflict(on)) => Some(plan_conflict(names, &table, on, alias.as_deref(), params, text)?),
        Some(_) => return Err(SqlError::syntax("ON DUPLICATE KEY is not supported; use ON CONFLICT")),
    };
    let returning = plan_returning(names, &table, alias.as_deref(), insert.returning, params, text)?;
    let source = QueryPlan::new(names.state, logical, params.data_types()).map_err(failed)?;
    let updated = conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
    let updated: Vec<usize> = updated.iter().flat_map(|update| update.set.iter().copied()).collect();
    let references = Arc::new(References::of_insert(names.txn, &table, &updated)?);
    Ok(WritePlan {
        op: Op::Insert,
        table,
        source,
        returning,
        conflict,
        fast: None,
        checks: Checks::default(),
        references,
    })
}

/// A VALUES list whose rows have different types in a column: as in PostgreSQL each value is brought to
/// the column's type by itself, and not to one that holds them all.
fn cast_apart(
    names: &Names<'_>,
    table: &Table,
    columns: &[usize],
    values: &mut ast::Values,
    params: &ParamTypes,
) -> Result<(), SqlError> {
    let empty = DFSchema::empty();
    for (at, &column) in columns.iter().enumerate() {
        let column = &table.columns[column];
        let of_column = || values.rows.iter().filter_map(|row| row.content.get(at));
        let Some(first) = of_column().next() else { continue };
        // Most lists are of one kind of literal.
        if literal_kind(first).is_some_and(|kind| of_column().all(|value| literal_kind(value) == Some(kind))) {
            continue;
        }
        let types: Vec<DataType> = names
            .expressions(of_column().cloned(), &empty, &params.known)
            .map(|planned| planned.and_then(|expr| expr.get_type(&empty)).unwrap_or(DataType::Null))
            .collect();
        let exact = |ty: &DataType| ty.is_integer() || matches!(ty, DataType::Decimal128(..));
        let mut given = types.iter().filter(|ty| !ty.is_null());
        let first = given.next();
        if given.clone().all(|ty| Some(ty) == first) || given.chain(first).all(exact) {
            continue;
        }
        let wanted = types::arrow_type(&column.ty);
        for (row, ty) in values.rows.iter_mut().zip(&types) {
            if let Some(value) = row.content.get_mut(at)
                && !ty.is_null()
                && ty != &wanted
            {
                check_assignable(ty, &column.ty, &column.name)?;
                crate::pg::rewrite::cast_to(value, &column.ty);
            }
        }
    }
    Ok(())
}

/// What kind of literal an expression is, if it is one.
fn literal_kind(expr: &ast::Expr) -> Option<std::mem::Discriminant<ast::Value>> {
    match expr {
        ast::Expr::Value(value) if !matches!(value.value, ast::Value::Placeholder(_)) => {
            Some(std::mem::discriminant(&value.value))
        }
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => literal_kind(expr),
        _ => None,
    }
}

/// `42804` for assignments that PostgreSQL refuses although a cast exists.
fn check_assignable(from: &DataType, to: &resurgam_engine::ColumnType, column: &str) -> Result<(), SqlError> {
    use resurgam_engine::ColumnType as T;
    let numeric = |ty: &DataType| ty.is_numeric() || ty == &crate::pg::functions::numeric::DYNAMIC;
    let to_numeric = matches!(to, T::Int2 | T::Int4 | T::Int8 | T::Float4 | T::Float8 | T::Numeric { .. });
    let bad = match from {
        DataType::Boolean => !matches!(to, T::Bool | T::Text | T::Varchar(_) | T::Char(_)),
        ty if numeric(ty) => !(to_numeric || matches!(to, T::Text | T::Varchar(_) | T::Char(_))),
        DataType::Date32 | DataType::Timestamp(..) => {
            to_numeric || matches!(to, T::Bool | T::Uuid | T::Json | T::Bytes)
        }
        _ => false,
    };
    if bad {
        return Err(SqlError::new(
            "42804",
            format!(
                "column \"{column}\" is of type {} but expression is of type {}",
                types::column_type_name(to),
                types::format_type(types::arrow_oid(from), None)
            ),
        )
        .with_hint("You will need to rewrite or cast the expression."));
    }
    Ok(())
}

/// `UPDATE`'s and `DELETE`'s target as a FROM item with its key column.
fn target_query(table: &Table, alias: &str) -> Result<Box<ast::Query>, SqlError> {
    template(&format!(
        "SELECT 1 FROM {}.{}.{} AS {}",
        quoted(TARGET),
        quoted(&table.schema),
        quoted(&table.name),
        quoted(alias)
    ))
}

fn select_of(query: &mut ast::Query) -> Result<&mut ast::Select, SqlError> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(SqlError::internal("template is not a SELECT")),
    }
}

fn column_ref(alias: &str, column: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![Ident::with_quote('"', alias), Ident::with_quote('"', column)])
}

fn single_relation(table: &TableWithJoins) -> Result<(&ast::ObjectName, Option<String>), SqlError> {
    match &table.relation {
        TableFactor::Table { name, alias, .. } if table.joins.is_empty() => {
            Ok((name, alias.as_ref().map(|a| ident_text(&a.name))))
        }
        _ => Err(SqlError::syntax("the target of UPDATE or DELETE must be one table")),
    }
}

/// Inside expressions, `schema.table.column` of the target becomes `alias.column`.
pub(crate) fn requalify<T: AstWalkMut>(node: &mut T, table: &Table, alias: &str) {
    struct Walk<'a>(&'a Table, &'a str);
    impl VisitorMut for Walk<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::CompoundIdentifier(parts) = expr
                && parts.len() == 3
                && ident_text(&parts[0]) == self.0.schema
                && ident_text(&parts[1]) == self.0.name
            {
                parts.remove(0);
                parts[0] = Ident::with_quote('"', self.1);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = node.walk_mut(&mut Walk(table, alias));
}

fn plan_update(
    names: &Names<'_>,
    mut update: ast::Update,
    params: &mut ParamTypes,
    text: &str,
) -> Result<WritePlan, SqlError> {
    let failed = |error| errors::from_datafusion(error, text);
    if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() {
        return Err(SqlError::syntax("UPDATE with ORDER BY, LIMIT or OR is not supported"));
    }
    let (name, alias) = single_relation(&update.table)?;
    let table = find_table(names.txn, name)?;
    let alias = alias.unwrap_or_else(|| table.name.clone());
    requalify(&mut update, &table, &alias);
    let schema = table_schema(&table);
    let mut assigned: Vec<Option<ast::Expr>> = vec![None; table.columns.len()];
    for assignment in std::mem::take(&mut update.assignments) {
        let pairs: Vec<(&ast::ObjectName, ast::Expr)> = match (&assignment.target, assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => vec![(name, value)],
            (AssignmentTarget::Tuple(columns), ast::Expr::Tuple(values)) if columns.len() == values.len() => {
                columns.iter().zip(values).collect()
            }
            (AssignmentTarget::Tuple(_), _) => {
                return Err(SqlError::unsupported("this form of multi-column assignment is not supported"));
            }
        };
        for (name, value) in pairs {
            let [part] = name.0.as_slice() else {
                return Err(SqlError::unsupported("assignment to part of a column is not supported"));
            };
            let ident = part.as_ident().ok_or_else(|| SqlError::syntax("bad column name"))?;
            let column = find_column(&table, ident)?;
            if assigned[column].is_some() {
                return Err(SqlError::syntax(format!("multiple assignments to same column \"{}\"", ident_text(ident))));
            }
            let value = if is_default(&value) { default_of(&table, column)? } else { value };
            params.hint(&value, schema.field(column));
            assigned[column] = Some(value);
        }
    }
    let mut query = target_query(&table, &alias)?;
    let select = select_of(&mut query)?;
    if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = update.from {
        select.from.extend(from);
    }
    select.selection = update.selection;
    select.projection = table
        .columns
        .iter()
        .zip(&assigned)
        .enumerate()
        .map(|(i, (column, value))| SelectItem::ExprWithAlias {
            expr: value.clone().unwrap_or_else(|| column_ref(&alias, &column.name)),
            alias: Ident::with_quote('"', format!("{KEY_COLUMN}{i}")),
        })
        .chain([SelectItem::UnnamedExpr(column_ref(&alias, KEY_COLUMN))])
        .collect();
    // Others of the statement's parameters get their types from RETURNING.
    let mentioned = mentioned(&query);
    let logical =
        params.resolve_mentioned(&mentioned, |known| names.query((*query).clone(), known, None)).map_err(failed)?;
    let mut exprs = Vec::with_capacity(table.columns.len() + 1);
    for (i, column) in table.columns.iter().enumerate() {
        let from = datafusion::common::Column::from(logical.schema().qualified_field(i));
        if assigned[i].is_some() {
            check_assignable(logical.schema().field(i).data_type(), &column.ty, &column.name)?;
        }
        exprs.push(Expr::Column(from).alias(&column.name));
    }
    let key = datafusion::common::Column::from(logical.schema().qualified_field(table.columns.len()));
    exprs.push(Expr::Column(key).alias(KEY_COLUMN));
    let logical = LogicalPlanBuilder::from(logical).project(exprs).and_then(|b| b.build()).map_err(failed)?;
    let returning = plan_returning(names, &table, Some(&alias), update.returning, params, text)?;
    let source = QueryPlan::new(names.state, logical, params.data_types()).map_err(failed)?;
    let assigned: Vec<usize> = (0..assigned.len()).filter(|at| assigned[*at].is_some()).collect();
    let references = Arc::new(References::of_update(names.txn, &table, &assigned)?);
    Ok(WritePlan {
        op: Op::Update,
        table,
        source,
        returning,
        conflict: None,
        fast: None,
        checks: Checks::default(),
        references,
    })
}

fn plan_delete(
    names: &Names<'_>,
    mut delete: ast::Delete,
    params: &mut ParamTypes,
    text: &str,
) -> Result<WritePlan, SqlError> {
    let failed = |error| errors::from_datafusion(error, text);
    if !delete.order_by.is_empty() || delete.limit.is_some() || !delete.tables.is_empty() {
        return Err(SqlError::syntax("this form of DELETE is not supported"));
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [target] = from.as_slice() else {
        return Err(SqlError::syntax("the target of DELETE must be one table"));
    };
    let (name, alias) = single_relation(target)?;
    let table = find_table(names.txn, name)?;
    let alias = alias.unwrap_or_else(|| table.name.clone());
    requalify(&mut delete, &table, &alias);
    let mut query = target_query(&table, &alias)?;
    let select = select_of(&mut query)?;
    select.from.extend(delete.using.unwrap_or_default());
    select.selection = delete.selection;
    let old: &[resurgam_engine::Column] = if delete.returning.is_some() { &table.columns } else { &[] };
    select.projection = old
        .iter()
        .map(|column| SelectItem::UnnamedExpr(column_ref(&alias, &column.name)))
        .chain([SelectItem::UnnamedExpr(column_ref(&alias, KEY_COLUMN))])
        .collect();
    // Others of the statement's parameters get their types from RETURNING.
    let mentioned = mentioned(&query);
    let logical =
        params.resolve_mentioned(&mentioned, |known| names.query((*query).clone(), known, None)).map_err(failed)?;
    let returning = plan_returning(names, &table, Some(&alias), delete.returning, params, text)?;
    let source = QueryPlan::new(names.state, logical, params.data_types()).map_err(failed)?;
    let references = Arc::new(References::of_delete(names.txn, &table)?);
    Ok(WritePlan {
        op: Op::Delete,
        table,
        source,
        returning,
        conflict: None,
        fast: None,
        checks: Checks::default(),
        references,
    })
}

fn plan_returning(
    names: &Names<'_>,
    table: &Arc<Table>,
    alias: Option<&str>,
    items: Option<Vec<SelectItem>>,
    params: &mut ParamTypes,
    text: &str,
) -> Result<Option<Returning>, SqlError> {
    let Some(mut items) = items else { return Ok(None) };
    let failed = |error| errors::from_datafusion(error, text);
    let alias = alias.unwrap_or(&table.name);
    naming::name_items(&mut items);
    for item in &mut items {
        requalify(item, table, alias);
    }
    let mut query =
        template(&format!("SELECT 1 FROM {}.{} AS {}", quoted(&table.schema), quoted(&table.name), quoted(alias)))?;
    select_of(&mut query)?.projection = items;
    let logical = params.resolve(|known| names.query((*query).clone(), known, None)).map_err(failed)?;
    let LogicalPlan::Projection(projection) = &logical else {
        return Err(SqlError::unsupported("this RETURNING list is not supported"));
    };
    let input = projection.input.schema();
    if !matches!(projection.input.as_ref(), LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_)) {
        return Err(SqlError::unsupported("subqueries and aggregates in RETURNING are not supported"));
    }
    let mut coerced = Vec::with_capacity(projection.expr.len());
    let mut fields = Vec::with_capacity(projection.expr.len());
    for (expr, field) in projection.expr.iter().zip(logical.schema().fields()) {
        let expr = settled(names.state, expr.clone(), input).map_err(failed)?;
        let expr = simplified(names.state, expr, input).map_err(failed)?;
        let ty = expr.get_type(input).map_err(failed)?;
        fields.push(match &ty == field.data_type() {
            true => Arc::clone(field),
            false => Arc::new(ArrowField::new(field.name(), ty, true)),
        });
        coerced.push(expr);
    }
    let typed_by_literals = coerced.iter().any(|expr| is_typed_by_literal(expr, input));
    let schema = Arc::new(Schema::new(fields));
    Ok(Some(Returning {
        fields: crate::statement::result_fields(&schema),
        typed_by_literals,
        input: Arc::clone(input.inner()),
        short: Output::new(&coerced, schema.fields(), table, input),
        exprs: KeptExprs::new(coerced, Arc::clone(input), params.data_types()).map_err(failed)?,
        schema,
    }))
}

fn plan_conflict(
    names: &Names<'_>,
    table: &Arc<Table>,
    on: ast::OnConflict,
    alias: Option<&str>,
    params: &mut ParamTypes,
    text: &str,
) -> Result<Conflict, SqlError> {
    let failed = |error| errors::from_datafusion(error, text);
    let all: Vec<Option<usize>> = (!table.primary_key.is_empty())
        .then_some(None)
        .into_iter()
        .chain(table.indexes.iter().enumerate().filter(|(_, index)| index.unique).map(|(i, _)| Some(i)))
        .collect();
    let keys = match &on.conflict_target {
        None => all,
        Some(ConflictTarget::Columns(columns)) => {
            let mut wanted: Vec<usize> =
                columns.iter().map(|ident| find_column(table, ident)).collect::<Result<_, _>>()?;
            wanted.sort_unstable();
            let found: Vec<Option<usize>> = all
                .into_iter()
                .filter(|key| {
                    let mut columns =
                        key.map_or_else(|| table.primary_key.clone(), |i| table.indexes[i].columns.clone());
                    columns.sort_unstable();
                    columns == wanted
                })
                .collect();
            if found.is_empty() {
                return Err(SqlError::new(
                    "42P10",
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                ));
            }
            found
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let (_, name) = table_name(name)?;
            let found: Vec<Option<usize>> = all
                .into_iter()
                .filter(|key| match key {
                    None => table.primary_key_name == name,
                    Some(i) => table.indexes[*i].name == name,
                })
                .collect();
            if found.is_empty() {
                return Err(SqlError::new(
                    "42704",
                    format!("constraint \"{name}\" for table \"{}\" does not exist", table.name),
                ));
            }
            found
        }
    };
    let of_session = std::cell::Cell::new(false);
    let mut short = Some(Resolution::Nothing);
    let update = match on.action {
        OnConflictAction::DoNothing => None,
        OnConflictAction::DoUpdate(action) => {
            if on.conflict_target.is_none() {
                return Err(SqlError::syntax(
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                ));
            }
            let schema = table_schema(table);
            let existing =
                DFSchema::try_from_qualified_schema(alias.unwrap_or(&table.name), &schema).map_err(failed)?;
            let proposed =
                DFSchema::try_from_qualified_schema(TableReference::bare("excluded"), &schema).map_err(failed)?;
            let joined = existing.join(&proposed).map_err(failed)?;
            let mut assignments = Vec::new();
            for assignment in action.assignments {
                let AssignmentTarget::ColumnName(name) = &assignment.target else {
                    return Err(SqlError::unsupported("multi-column assignment in ON CONFLICT is not supported"));
                };
                let ident = name
                    .0
                    .last()
                    .and_then(|part| part.as_ident())
                    .ok_or_else(|| SqlError::syntax("bad column name"))?;
                let column = find_column(table, ident)?;
                let value = if is_default(&assignment.value) { default_of(table, column)? } else { assignment.value };
                params.hint(&value, schema.field(column));
                assignments.push((column, value));
            }
            // A plain column means the existing row.
            let mut condition = action.selection;
            for expr in assignments.iter_mut().map(|(_, value)| value).chain(&mut condition) {
                qualify(expr, table, alias.unwrap_or(&table.name));
                params.infer(|known| names.expression(expr.clone(), &joined, known), &joined);
            }
            let known = params.known.clone();
            let data_types = params.data_types();
            let plan_expr = |expr: ast::Expr| -> Result<Expr, SqlError> {
                let expr = names.expression(expr, &joined, &known).map_err(failed)?;
                let expr = settled(names.state, expr, &joined).map_err(failed)?;
                let bound = bridge::is_of_session(names.state, &expr) || contains_placeholder(&expr);
                of_session.set(of_session.get() || bound);
                simplified(names.state, expr, &joined).map_err(failed)
            };
            let mut values = Vec::new();
            for (column, value) in assignments {
                values.push((column, plan_expr(value)?));
            }
            let condition = condition.map(plan_expr).transpose()?;
            short = Resolution::update(&values, condition.as_ref(), &joined);
            let input = Arc::clone(joined.inner());
            let set = values.iter().map(|(column, _)| *column).collect();
            let exprs = values.into_iter().map(|(_, value)| value).chain(condition).collect();
            let exprs = KeptExprs::new(exprs, Arc::new(joined), data_types).map_err(failed)?;
            Some(ConflictUpdate { set, exprs, input })
        }
    };
    Ok(Conflict { keys, update, of_session: of_session.get(), short })
}

/// Unqualified names of the table's columns get `alias` in front.
fn qualify(expr: &mut ast::Expr, table: &Table, alias: &str) {
    struct Walk<'a>(&'a Table, &'a str);
    impl VisitorMut for Walk<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Identifier(ident) = expr {
                let name = ident_text(ident);
                if self.0.columns.iter().any(|c| c.name == name) {
                    *expr = column_ref(self.1, &name);
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Walk(table, alias));
}

/// What a write did.
pub(crate) struct Written {
    pub rows: u64,
    /// Batches for RETURNING, already evaluated.
    pub returned: Vec<RecordBatch>,
    /// Looks after foreign keys, if any.
    foreign: Option<Enforcer>,
    /// The expressions of RETURNING and ON CONFLICT with the values of this run.
    returning: Option<RunningExprs>,
    conflict: Option<RunningExprs>,
}

impl Written {
    fn inserted(&mut self, row: &[DatumRef<'_>]) -> DfResult<()> {
        match &mut self.foreign {
            Some(foreign) => foreign.inserted(row).map_err(bridge::failure),
            None => Ok(()),
        }
    }

    /// Room for a row as it was, if anybody asks for it.
    fn note<'r>(&self, old: &'r mut RowBuf) -> Option<&'r mut RowBuf> {
        self.foreign.is_some().then_some(old)
    }
}

/// One execution of a write.
pub(crate) struct WriteRun<'a> {
    pub plan: &'a WritePlan,
    pub state: &'a SessionState,
    pub txn: &'a Transaction,
    pub values: &'a [ScalarValue],
    pub waiting: Waiting<'a>,
    pub stop: &'a Arc<StopFlag>,
    pub zone: Zone,
    pub locked: Option<Arc<Locked>>,
    pub cx: &'a Arc<dyn PgContext>,
    pub deferred: &'a Arc<parking_lot::Mutex<Deferred>>,
}

type DfResult<T> = datafusion::common::Result<T>;

/// The table's columns of a source batch, brought to their types by the rules of assignment.
fn typed(table: &Table, batch: &RecordBatch, zone: &Zone) -> DfResult<RecordBatch> {
    let mut fields = Vec::with_capacity(table.columns.len());
    let mut arrays = Vec::with_capacity(table.columns.len());
    for (column, array) in table.columns.iter().zip(batch.columns()) {
        arrays.push(assignment_cast(array, &column.ty, zone).map_err(|mut error| {
            if error.column.is_none() {
                error.column = Some(column.name.clone());
            }
            bridge::failure(error)
        })?);
        fields.push(types::arrow_field(&column.name, &column.ty, true));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

fn readers<'a>(table: &Table, batch: &'a RecordBatch) -> DfResult<Vec<DatumColumn<'a>>> {
    table
        .columns
        .iter()
        .zip(batch.columns())
        .map(|(column, array)| DatumColumn::new(array.as_ref(), &column.ty).map_err(bridge::failure))
        .collect()
}

fn datums<'a>(readers: &[DatumColumn<'a>], row: usize) -> DfResult<Vec<DatumRef<'a>>> {
    readers.iter().map(|reader| reader.get(row).map_err(bridge::failure)).collect()
}

impl WriteRun<'_> {
    /// Runs the statement to its end.
    pub(crate) async fn run(&self) -> DfResult<Written> {
        let view = self.txn.statement(StatementKind::BulkWrite).map_err(bridge::storage)?;
        let running = |exprs: &Arc<KeptExprs>| exprs.with(self.values);
        let returning = self.plan.returning.as_ref().map(|returning| running(&returning.exprs)).transpose()?;
        let update = self.plan.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        let conflict = update.map(|update| running(&update.exprs)).transpose()?;
        let mut out = Written { rows: 0, returned: Vec::new(), foreign: None, returning, conflict };
        if !self.plan.references.is_empty() {
            let begun = Enforcer::begin(self.txn, &self.plan.references, self.deferred, &self.waiting).await;
            out.foreign = Some(begun.map_err(bridge::failure)?);
        }
        let instance = self.plan.source.instance(self.state, self.values).await?;
        let mut stream = instance.start(self.task(&view, None))?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            match self.plan.op {
                Op::Insert => self.insert(&batch, &mut out).await?,
                Op::Update | Op::Delete => self.change(&batch, &view, &mut out).await?,
            }
            self.stop.check().map_err(bridge::failure)?;
        }
        drop(stream);
        self.plan.source.give_back(instance);
        if let Some(foreign) = out.foreign.as_mut().filter(|foreign| !foreign.is_done()) {
            let names = Names { state: self.state, txn: self.txn, cx: self.cx };
            let help = Help { names, waiting: self.waiting, zone: self.zone };
            foreign.finish(&help).await.map_err(bridge::failure)?;
        }
        Ok(out)
    }

    fn task(&self, view: &ReadView, target: Option<TargetRow>) -> Arc<datafusion::execution::TaskContext> {
        let (stop, locked) = (Arc::clone(self.stop), self.locked.clone());
        let context = StatementContext { view: view.clone(), stop, target, locked };
        task_context(self.state, Arc::new(context))
    }

    /// Now and then between two rows: others get their turn, a timeout and a cancel are noticed.
    async fn breathe(&self, row: usize) -> DfResult<()> {
        if row % ROWS_PER_TURN == ROWS_PER_TURN - 1 {
            self.stop.check().map_err(bridge::failure)?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn settle<T>(&self, attempt: impl FnMut() -> resurgam_base::Result<Attempt<T>>) -> DfResult<T> {
        settle(&self.waiting, attempt).await.map_err(bridge::failure)
    }

    async fn insert(&self, batch: &RecordBatch, out: &mut Written) -> DfResult<()> {
        let table = &self.plan.table;
        let batch = &typed(table, batch, &self.zone)?;
        let readers = readers(table, batch)?;
        let broken = self.plan.checks.broken(batch)?;
        let mut kept: Vec<u32> = Vec::new();
        let mut bulk = self.txn.bulk_insert(table);
        for row in 0..batch.num_rows() {
            self.breathe(row).await?;
            let datums = datums(&readers, row)?;
            self.plan.checks.refuse(&broken, row, table, &datums)?;
            match &self.plan.conflict {
                None => {
                    let result = match bulk.push(&datums) {
                        Ok(Attempt::Done(())) => Ok(()),
                        Ok(Attempt::Wait(wait)) => {
                            self.waiting.wait(wait).await.map_err(bridge::failure)?;
                            self.settle(|| bulk.push(&datums)).await
                        }
                        Err(error) => Err(bridge::row_error(error, table, &datums)),
                    };
                    result?;
                    out.inserted(&datums)?;
                    out.rows += 1;
                    if self.plan.returning.is_some() {
                        kept.push(row as u32);
                    }
                }
                Some(conflict) => {
                    if let Some(changed) = self.upsert(conflict, batch, row, &datums, out).await? {
                        out.rows += 1;
                        match changed {
                            None => kept.push(row as u32),
                            Some(updated) => {
                                if let Some(returning) = &self.plan.returning {
                                    self.flush_returning(returning, batch, &mut kept, out)?;
                                    let updated = returning.evaluate(out.returning.as_deref(), &updated)?;
                                    out.returned.push(updated);
                                }
                            }
                        }
                    }
                }
            }
        }
        bulk.finish();
        if let Some(returning) = &self.plan.returning {
            self.flush_returning(returning, batch, &mut kept, out)?;
        }
        Ok(())
    }

    fn flush_returning(
        &self,
        returning: &Returning,
        batch: &RecordBatch,
        kept: &mut Vec<u32>,
        out: &mut Written,
    ) -> DfResult<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let rows = datafusion::arrow::compute::take_record_batch(batch, &UInt32Array::from(std::mem::take(kept)))?;
        let rows = returning.evaluate(out.returning.as_deref(), &rows)?;
        out.returned.push(rows);
        Ok(())
    }

    /// Inserts a row or handles its conflict. `None`: nothing done; `Some(None)`: inserted;
    /// `Some(Some(row))`: updated to that row.
    async fn upsert(
        &self,
        conflict: &Conflict,
        batch: &RecordBatch,
        row: usize,
        datums: &[DatumRef<'_>],
        out: &mut Written,
    ) -> DfResult<Option<Option<RecordBatch>>> {
        let table = &self.plan.table;
        // The newest rows are of the newest definition.
        self.settle(|| self.txn.lock_rows(table)).await?;
        loop {
            if let Some((key, existing, seen)) = conflicting(self.txn, table, conflict, datums)? {
                let Some(update) = &conflict.update else { return Ok(None) };
                // Not a statement of its own: rows that this one wrote must stay known as such.
                let view = self.txn.view().map_err(bridge::storage)?;
                let exprs = out.conflict.as_deref().unwrap_or_default();
                let Some(updated) = update.evaluate(exprs, table, &view, &existing, batch, row)? else {
                    return Ok(None);
                };
                let updated = typed(table, &updated, &self.zone)?;
                let readers = readers(table, &updated)?;
                let new = self::datums(&readers, 0)?;
                let broken = self.plan.checks.broken(&updated)?;
                self.plan.checks.refuse(&broken, 0, table, &new)?;
                let mut old = RowBuf::default();
                match self.settle(|| self.txn.update_noting(table, &key, seen, &new, out.note(&mut old))).await? {
                    Change::Done => {
                        self.updated(out, &old, &new).await?;
                        return Ok(Some(Some(updated)));
                    }
                    Change::SelfModified => {
                        return Err(bridge::failure(
                            SqlError::new("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time")
                                .with_hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."),
                        ));
                    }
                    Change::Changed | Change::Gone => continue,
                }
            }
            match self.settle_insert(datums).await {
                Ok(()) => {
                    out.inserted(datums)?;
                    return Ok(Some(None));
                }
                Err(error) if error.kind() == ErrorKind::UniqueViolation => {
                    // Someone was faster, or another constraint is in the way.
                    if conflicting(self.txn, table, conflict, datums)?.is_none() {
                        return Err(bridge::row_error(error, table, datums));
                    }
                }
                Err(error) => return Err(bridge::row_error(error, table, datums)),
            }
        }
    }

    async fn settle_insert(&self, datums: &[DatumRef<'_>]) -> resurgam_base::Result<()> {
        loop {
            match self.txn.insert(&self.plan.table, datums)? {
                Attempt::Done(()) => return Ok(()),
                Attempt::Wait(wait) => self
                    .waiting
                    .wait(wait)
                    .await
                    .map_err(|error| resurgam_base::Error::new(ErrorKind::Cancelled, error.message))?,
            }
        }
    }

    async fn change(&self, batch: &RecordBatch, view: &ReadView, out: &mut Written) -> DfResult<()> {
        let table = &self.plan.table;
        let keys = Arc::clone(batch.columns().last().ok_or_else(|| bridge::failure(SqlError::internal("no columns")))?);
        let keys = Some(&keys)
            .and_then(|array| array.as_any().downcast_ref::<BinaryArray>())
            .ok_or_else(|| bridge::failure(SqlError::internal("a write without keys")))?;
        let update = self.plan.op == Op::Update;
        let typed_batch = if update { typed(table, batch, &self.zone)? } else { batch.clone() };
        let readers = if update { readers(table, &typed_batch)? } else { Vec::new() };
        let batch = &typed_batch;
        let broken = if update { self.plan.checks.broken(batch)? } else { Default::default() };
        let mut kept: Vec<u32> = Vec::new();
        for row in 0..batch.num_rows() {
            self.breathe(row).await?;
            if keys.is_null(row) {
                continue;
            }
            let key = keys.value(row);
            let change = match self.plan.op {
                Op::Update => {
                    let datums = datums(&readers, row)?;
                    self.plan.checks.refuse(&broken, row, table, &datums)?;
                    self.update(key, Seen::Snapshot, &datums, out).await?
                }
                _ => self.delete(key, Seen::Snapshot, out).await?,
            };
            match change {
                Change::Done => {
                    out.rows += 1;
                    if self.plan.returning.is_some() {
                        kept.push(row as u32);
                    }
                }
                Change::Changed => {
                    if let Some(rechecked) = self.recheck(key, view, out).await? {
                        out.rows += 1;
                        if let Some(returning) = &self.plan.returning {
                            self.flush_returning(returning, batch, &mut kept, out)?;
                            let rechecked = returning.evaluate(out.returning.as_deref(), &rechecked)?;
                            out.returned.push(rechecked);
                        }
                    }
                }
                Change::Gone | Change::SelfModified => {}
            }
        }
        if let Some(returning) = &self.plan.returning {
            self.flush_returning(returning, batch, &mut kept, out)?;
        }
        Ok(())
    }

    async fn update(&self, key: &[u8], seen: Seen, new: &[DatumRef<'_>], out: &mut Written) -> DfResult<Change> {
        let table = &self.plan.table;
        let mut old = RowBuf::default();
        let change = settle(&self.waiting, || self.txn.update_noting(table, key, seen, new, out.note(&mut old)))
            .await
            .map_err(|error| bridge::row_failure(error, table, new))?;
        if change == Change::Done {
            self.updated(out, &old, new).await?;
        }
        Ok(change)
    }

    async fn updated(&self, out: &mut Written, old: &RowBuf, new: &[DatumRef<'_>]) -> DfResult<()> {
        match &mut out.foreign {
            Some(foreign) => foreign.updated(old, new, &self.waiting).await.map_err(bridge::failure),
            None => Ok(()),
        }
    }

    async fn delete(&self, key: &[u8], seen: Seen, out: &mut Written) -> DfResult<Change> {
        let mut old = RowBuf::default();
        let change = self.settle(|| self.txn.delete_noting(&self.plan.table, key, seen, out.note(&mut old))).await?;
        if change == Change::Done
            && let Some(foreign) = &mut out.foreign
        {
            foreign.deleted(&old, &self.waiting).await.map_err(bridge::failure)?;
        }
        Ok(change)
    }

    /// Applies the statement to the newest version of one row; the source's batch if it qualified.
    async fn recheck(&self, key: &[u8], view: &ReadView, out: &mut Written) -> DfResult<Option<RecordBatch>> {
        let table = &self.plan.table;
        loop {
            let mut row = RowBuf::default();
            let Some(seen) = self.txn.latest(table, key, &mut row).map_err(bridge::storage)? else { return Ok(None) };
            let target = TargetRow::new(table.id, Some(row));
            let instance = self.plan.source.instance(self.state, self.values).await?;
            let mut stream = instance.start(self.task(view, Some(target)))?;
            let mut found = None;
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                if batch.num_rows() > 0 {
                    found = Some(batch.slice(0, 1));
                    break;
                }
            }
            drop(stream);
            self.plan.source.give_back(instance);
            let Some(batch) = found else { return Ok(None) };
            let batch = if self.plan.op == Op::Update { typed(table, &batch, &self.zone)? } else { batch };
            let change = match self.plan.op {
                Op::Update => {
                    let readers = readers(table, &batch)?;
                    let datums = datums(&readers, 0)?;
                    self.plan.checks.refuse(&self.plan.checks.broken(&batch)?, 0, table, &datums)?;
                    self.update(key, seen, &datums, out).await?
                }
                _ => self.delete(key, seen, out).await?,
            };
            match change {
                Change::Done => return Ok(Some(batch)),
                Change::Changed => {}
                Change::Gone | Change::SelfModified => return Ok(None),
            }
        }
    }
}

/// The newest row that has one of the handled keys in common with `datums`.
pub(crate) fn conflicting(
    txn: &Transaction,
    table: &Arc<Table>,
    conflict: &Conflict,
    datums: &[DatumRef<'_>],
) -> DfResult<Option<(Vec<u8>, RowBuf, Seen)>> {
    let mut row = RowBuf::default();
    for key in &conflict.keys {
        let columns = key.map_or(&table.primary_key, |i| &table.indexes[i].columns);
        let values: Vec<DatumRef<'_>> = columns.iter().map(|&c| datums[c]).collect();
        if values.iter().any(|v| matches!(v, DatumRef::Null)) {
            continue;
        }
        let mut clustered = Vec::new();
        match key {
            None => table.encode_key(&values, &mut clustered).map_err(bridge::storage)?,
            Some(i) => {
                let mut encoded = Vec::new();
                table.encode_index_key(*i, &values, &mut encoded).map_err(bridge::storage)?;
                // What stands in the way is met as writers meet it, durable or not, and their own.
                let view = txn.view().map_err(bridge::storage)?.newest().with_own_writes();
                if !view.get_by_index(table, &table.indexes[*i], &encoded, &mut row).map_err(bridge::storage)? {
                    continue;
                }
                clustered.extend_from_slice(row.raw().key);
            }
        }
        if let Some(seen) = txn.latest(table, &clustered, &mut row).map_err(bridge::storage)? {
            return Ok(Some((clustered, row, seen)));
        }
    }
    Ok(None)
}

impl Returning {
    fn evaluate(&self, exprs: Option<&[Arc<dyn PhysicalExpr>]>, rows: &RecordBatch) -> DfResult<RecordBatch> {
        let columns = rows.columns()[..self.input.fields().len()].to_vec();
        let fields: Vec<_> = self.input.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let input = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        let arrays = exprs
            .unwrap_or_default()
            .iter()
            .map(|expr| expr.evaluate(&input)?.into_array(input.num_rows()))
            .collect::<DfResult<Vec<_>>>()?;
        let fields: Vec<_> = self
            .schema
            .fields()
            .iter()
            .zip(&arrays)
            .map(|(f, array)| f.as_ref().clone().with_nullable(true).with_data_type(array.data_type().clone()))
            .collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

impl ConflictUpdate {
    /// The row after the update; `None` if the condition does not hold.
    fn evaluate(
        &self,
        exprs: &[Arc<dyn PhysicalExpr>],
        table: &Arc<Table>,
        view: &ReadView,
        existing: &RowBuf,
        batch: &RecordBatch,
        row: usize,
    ) -> DfResult<Option<RecordBatch>> {
        let mut columns = bridge::RowColumns::new(table, view);
        let mut arrays = Vec::with_capacity(table.columns.len() * 2);
        for column in 0..table.columns.len() {
            arrays.push(columns.array(column, std::iter::once(existing.raw()))?);
        }
        let mut result = arrays.clone();
        let proposed = batch.slice(row, 1);
        arrays.extend(proposed.columns().iter().cloned());
        let fields: Vec<_> = self.input.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let input = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        if let Some(condition) = exprs.get(self.set.len()) {
            let holds = condition.evaluate(&input)?.into_array(1)?;
            if ScalarValue::try_from_array(&holds, 0)? != ScalarValue::Boolean(Some(true)) {
                return Ok(None);
            }
        }
        for (column, expr) in self.set.iter().zip(exprs) {
            result[*column] = expr.evaluate(&input)?.into_array(1)?;
        }
        let fields: Vec<_> = table
            .columns
            .iter()
            .zip(&result)
            .map(|(column, array)| ArrowField::new(&column.name, array.data_type().clone(), true))
            .collect();
        Ok(Some(RecordBatch::try_new(Arc::new(Schema::new(fields)), result)?))
    }
}
