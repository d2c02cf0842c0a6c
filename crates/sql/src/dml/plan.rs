//! Planning INSERT, UPDATE and DELETE: a planned source for the executor ([`super::modify`]).
//!
//! The source of an UPDATE yields every column's new value and then the row's key; of a
//! DELETE the old columns and the key; of an INSERT every column. UPDATE and DELETE are planned
//! as queries over the target, so that FROM, USING and subqueries need nothing special.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, ConflictTarget, FromTable, Ident, OnConflictAction, OnInsert, SelectItem, SetExpr,
    Statement, TableFactor, TableObject, TableWithJoins, UpdateTableFromKind, VisitorMut,
};
use resurgam_ast::AstWalkMut;
use resurgam_engine::{Table, Transaction};

use super::conflict::{Conflict, ConflictUpdate};
use super::returning::Returning;
use super::source::Tree;
use crate::dml::check::Checks;
use crate::dml::foreign::References;
use crate::exec::bridge;
use crate::exec::direct::Output;
use crate::exec::table::{KEY_COLUMN, table_schema};
use crate::naming;
use crate::pg::errors;
use crate::pg::types;
use crate::plan::params::is_typed_by_literal;
use crate::plan::planner::{Names, QueryPlan, TARGET, settled, simplified};
use crate::plan::statement::{ParamTypes, mentioned, parse_expression, template};
use crate::wire::SqlError;

/// What kind of statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Insert,
    Update,
    Delete,
}

impl Op {
    /// The statement's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A planned statement that writes.
#[derive(Debug)]
pub(crate) struct WritePlan {
    pub op: Op,
    pub table: Arc<Table>,
    /// Its rows by a plan.
    pub stream: QueryPlan,
    /// The same without one, if that can be.
    pub tree: Option<Tree>,
    pub returning: Option<Returning>,
    pub conflict: Option<Conflict>,
    /// What its new rows must satisfy.
    pub checks: Checks,
    /// Foreign keys that its rows concern.
    pub references: Arc<References>,
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
    plan.tree = Tree::new(names.state, &plan);
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
    let updated: Vec<usize> = updated.iter().flat_map(|update| update.set.iter().map(|(column, _)| *column)).collect();
    let references = Arc::new(References::of_insert(names.txn, &table, &updated)?);
    Ok(WritePlan {
        op: Op::Insert,
        table,
        stream: source,
        returning,
        conflict,
        tree: None,
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
        stream: source,
        returning,
        conflict: None,
        tree: None,
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
    // The row as it was is the engine's to tell.
    select.projection = vec![SelectItem::UnnamedExpr(column_ref(&alias, KEY_COLUMN))];
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
        stream: source,
        returning,
        conflict: None,
        tree: None,
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
    let mut exprs = Vec::with_capacity(projection.expr.len());
    let mut fields = Vec::with_capacity(projection.expr.len());
    let mut of_session = false;
    for (expr, field) in projection.expr.iter().zip(logical.schema().fields()) {
        let expr = settled(names.state, expr.clone(), input).map_err(failed)?;
        of_session |= bridge::is_of_session(names.state, &expr);
        let expr = simplified(names.state, expr, input).map_err(failed)?;
        let ty = expr.get_type(input).map_err(failed)?;
        fields.push(match &ty == field.data_type() {
            true => Arc::clone(field),
            false => Arc::new(ArrowField::new(field.name(), ty, true)),
        });
        exprs.push(expr);
    }
    let typed_by_literals = exprs.iter().any(|expr| is_typed_by_literal(expr, input));
    let schema = Schema::new(fields);
    let output = Output::new(&exprs, schema.fields(), table, input)
        .ok_or_else(|| SqlError::unsupported("this RETURNING list is not supported"))?;
    let fields = crate::plan::statement::result_fields(&schema);
    Ok(Some(Returning { fields, output, typed_by_literals, of_session }))
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
            let plan_expr = |expr: ast::Expr| -> Result<Expr, SqlError> {
                let expr = names.expression(expr, &joined, &known).map_err(failed)?;
                let expr = settled(names.state, expr, &joined).map_err(failed)?;
                of_session.set(of_session.get() || bridge::is_of_session(names.state, &expr));
                simplified(names.state, expr, &joined).map_err(failed)
            };
            let mut values = Vec::new();
            for (column, value) in assignments {
                values.push((column, plan_expr(value)?));
            }
            let condition = condition.map(plan_expr).transpose()?;
            let update = ConflictUpdate::new(&values, condition.as_ref(), &joined);
            Some(update.ok_or_else(|| SqlError::unsupported("subqueries in ON CONFLICT DO UPDATE are not supported"))?)
        }
    };
    Ok(Conflict { keys, update, of_session: of_session.get() })
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
