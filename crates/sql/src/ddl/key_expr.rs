//! Indexes on expressions, and partial indexes.
//!
//! What such an index needs of a row is kept in hidden columns of the table (`resurgam_engine::is_hidden`), which are
//! stored generated ones: the value of an expression, and for a predicate `true` or NULL. The index has them among its
//! columns, the predicate's last, so all that keeps indexes right (uniqueness between sessions, rollback, cleaning,
//! recovery, foreign keys' actions) sees columns and nothing else. A NULL never conflicts, so rows that do not fulfil the
//! predicate are not subject to uniqueness; they do have entries, so any statement may use the index, whatever its
//! conditions say. Hidden columns belong to one index, and go with it.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CastKind, CreateIndex, Expr, Ident, ObjectName};
use resurgam_engine::{
    ColumnOrder, ColumnSpec, ColumnType, Declared, Table, TableChange, Transaction, expression_column, predicate_column,
};

use super::{index_order, unsupported};
use crate::pg::catalog::{distinct_names, expression_name};
use crate::pg::definition::parse_expression;
use crate::pg::types::{column_oid, column_type_name};
use crate::pg::{collation, operator_classes};
use crate::plan::expression::{Place, TableExpr, cast_times, kept_text, unqualify};
use crate::plan::lookup::find_column;
use crate::session::Session;
use crate::wire::SqlError;

/// What a column of an index is.
pub(super) enum Key {
    Column(usize),
    Made(Box<Made>),
}

/// A hidden column that is to be.
pub(super) struct Made {
    name: String,
    ty: ColumnType,
    sql: String,
    planned: TableExpr,
    /// What the index's own name has for it.
    shown: String,
}

/// The columns of an index as CREATE INDEX gives them.
pub(super) struct Keys {
    keys: Vec<Key>,
    predicate: Option<Made>,
    pub orders: Vec<ColumnOrder>,
    /// Operator classes and collations that are not what the columns have; empty if all are.
    pub declared: Vec<Declared>,
}

impl Keys {
    /// Whether it is of columns that the table has: what is made of them is written into the rows first.
    pub(super) fn is_plain(&self) -> bool {
        self.predicate.is_none() && self.keys.iter().all(|key| matches!(key, Key::Column(_)))
    }

    /// The names that the index's own is made of.
    pub(super) fn names(&self, table: &Table, included: &[usize]) -> Vec<String> {
        let of_column = |at: usize| table.columns[at].name.clone();
        let keys = self.keys.iter().map(|key| match key {
            Key::Column(at) => of_column(*at),
            Key::Made(made) => made.shown.clone(),
        });
        distinct_names(keys.chain(included.iter().map(|at| of_column(*at))))
    }
}

/// The expression within its parentheses.
fn bare(expr: &Expr) -> &Expr {
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Refuses an expression that needs parentheses and has none.
fn check_form(expr: &Expr) -> Result<(), SqlError> {
    match expr {
        Expr::Nested(_)
        | Expr::Function(_)
        | Expr::Cast { kind: CastKind::Cast, .. }
        | Expr::Extract { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Position { .. }
        | Expr::Overlay { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. } => Ok(()),
        Expr::BinaryOp { op, .. } => Err(SqlError::syntax(format!("syntax error at or near \"{op}\""))),
        _ => Err(SqlError::syntax("syntax error: an expression of an index needs parentheses around it")),
    }
}

impl Session {
    /// Analyses the columns and the predicate of an index.
    ///
    /// # Errors
    /// `42703`, `42P17` for what is not immutable, `42803`, `42P20`, `42804`, `0A000`.
    pub(super) async fn index_keys(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        create: &CreateIndex,
    ) -> Result<Keys, SqlError> {
        let mut number = 0;
        let mut free = |named: fn(usize) -> String| {
            loop {
                number += 1;
                let name = named(number);
                if !table.columns.iter().any(|column| column.name == name) {
                    return name;
                }
            }
        };
        let predicate = match &create.predicate {
            Some(given) => {
                let name = free(predicate_column);
                let given = self.fixed(table, given).await?;
                let planned = self.plan_over(txn, table, &given, Place::Predicate)?;
                check(table, &planned, "predicate")?;
                let sql = format!("CASE WHEN {} THEN true END", kept_text(&given));
                Some(self.made(txn, table, name, ColumnType::Bool, sql, String::new())?)
            }
            None => None,
        };
        let mut keys = Vec::with_capacity(create.columns.len());
        let mut declared = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            let (expr, named) = match &column.column.expr {
                Expr::Collate { expr, collation } => (expr.as_ref(), Some(collation)),
                expr => (expr, None),
            };
            let class = column.operator_class.as_ref();
            if let Expr::Identifier(ident) = bare(expr) {
                let at = index_column(table, ident)?;
                declared.push(declare(&table.columns[at].ty, collation::of_column(table, at), named, class)?);
                keys.push(Key::Column(at));
                continue;
            }
            check_form(expr)?;
            let expr = self.fixed(table, bare(expr)).await?;
            let planned = self.plan_over(txn, table, &expr, Place::Index)?;
            check(table, &planned, "expression")?;
            let sql = kept_text(&expr);
            let ty = self.type_over(table, &sql)?;
            let shown = expression_name(&expr);
            let has = match collation::of_type(column_oid(&ty)) {
                collation::DEFAULT => {
                    let derived = collation::derived(table, &planned.columns);
                    if named.is_some() { derived.unwrap_or(0) } else { derived? }
                }
                other => other,
            };
            declared.push(declare(&ty, has, named, class)?);
            keys.push(Key::Made(Box::new(self.made(txn, table, free(expression_column), ty, sql, shown)?)));
        }
        if declared.iter().all(|one| *one == Declared::default()) {
            declared.clear();
        }
        Ok(Keys { keys, predicate, orders: create.columns.iter().map(index_order).collect(), declared })
    }

    /// An expression as it is kept: with its own names for columns, and times that mean the same in all zones.
    async fn fixed(&mut self, table: &Table, expr: &Expr) -> Result<Expr, SqlError> {
        let mut expr = expr.clone();
        unqualify(&mut expr, &table.name);
        cast_times(&mut expr, table);
        self.fix_times(&mut expr).await?;
        Ok(expr)
    }

    /// The type of an expression over a table's columns.
    fn type_over(&mut self, table: &Table, sql: &str) -> Result<ColumnType, SqlError> {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let query = format!("SELECT {sql} FROM {}.{}", quoted(&table.schema), quoted(&table.name));
        let prepared = self.prepare_text(&query, &[])?;
        let field = prepared.fields.as_ref().and_then(|fields| fields.first());
        let Some(field) = field else { return Err(SqlError::internal("an expression without a type")) };
        crate::pg::types::column_type_of_oid(field.type_oid, field.typmod).ok_or_else(|| {
            let name = crate::pg::types::format_type(field.type_oid, None);
            SqlError::new(
                "42704",
                format!("data type {name} has no default operator class for access method \"btree\""),
            )
            .with_hint(
                "You must specify an operator class for the index or define a default operator class for the data \
                     type.",
            )
        })
    }

    fn made(
        &mut self,
        txn: &Transaction,
        table: &Table,
        name: String,
        ty: ColumnType,
        sql: String,
        shown: String,
    ) -> Result<Made, SqlError> {
        let again = parse_expression(&sql)?;
        let planned = self.plan_over(txn, table, &again, Place::Generated(&name, ty))?;
        // What is kept must say the same when it is read again.
        if !planned.is_of_row() || kept_text(&again) != sql {
            return Err(unsupported("this form of an expression in an index"));
        }
        Ok(Made { name, ty, sql, planned, shown })
    }

    /// Adds the hidden columns that an index needs. Returns the table with them, and the index's columns.
    pub(super) async fn add_hidden(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        keys: Keys,
    ) -> Result<(Arc<Table>, Vec<usize>), SqlError> {
        let mut columns = Vec::with_capacity(keys.keys.len() + 1);
        let mut made = Vec::new();
        for key in keys.keys.into_iter().chain(keys.predicate.map(|made| Key::Made(Box::new(made)))) {
            columns.push(match key {
                Key::Column(at) => at,
                Key::Made(column) => {
                    made.push(column);
                    table.columns.len() + made.len() - 1
                }
            });
        }
        if made.is_empty() {
            return Ok((Arc::clone(table), columns));
        }
        let mut added = Vec::with_capacity(made.len());
        let mut kept = Vec::with_capacity(made.len());
        for one in made {
            let spec = ColumnSpec { name: one.name, ty: one.ty, nullable: true, default_sql: None };
            kept.push((one.sql, one.planned.columns.clone()));
            added.push((spec, one.planned));
        }
        let mut new = Arc::clone(table);
        if txn.has_rows(table)? {
            self.refuse_if_pending(table, "CREATE INDEX")?;
            new = self.rewrite(txn, table, &[], &added).await?;
        } else {
            for (spec, _) in added {
                new = self.change(txn, &new, TableChange::AddColumn(spec)).await?;
            }
        }
        for (at, generated) in kept.into_iter().enumerate() {
            let change = TableChange::SetGenerated(table.columns.len() + at, Some(generated));
            new = self.change(txn, &new, change).await?;
        }
        Ok((new, columns))
    }

    /// Drops an index, and the hidden columns that it alone reads.
    pub(super) async fn drop_index_whole(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        name: &str,
    ) -> Result<Arc<Table>, SqlError> {
        let index = table.indexes.iter().find(|index| index.name == name);
        let hidden: Vec<String> = index
            .into_iter()
            .flat_map(|index| &index.columns)
            .map(|at| &table.columns[*at])
            .filter(|column| column.is_hidden())
            .map(|column| column.name.clone())
            .collect();
        let mut table = self.settle_ddl(|| txn.drop_index(table, name)).await?;
        for name in hidden {
            let Some(at) = table.columns.iter().position(|column| column.name == name) else { continue };
            table = self.change(txn, &table, TableChange::DropColumn(at)).await?;
        }
        Ok(table)
    }

    /// Before a column is dropped: as in PostgreSQL the indexes go whose expressions or predicates read it.
    pub(super) async fn drop_indexes_made_of(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
    ) -> Result<Arc<Table>, SqlError> {
        let of_column = |column: &usize| {
            *column == at
                || table.columns[*column].is_hidden()
                    && table.generated(*column).is_some_and(|generated| generated.reads.contains(&at))
        };
        let is_made = |column: &usize| table.columns[*column].is_hidden();
        let names: Vec<String> = table
            .indexes
            .iter()
            .filter(|index| {
                let needs = || table.included(Some(index.id)).contains(&at) || index.columns.iter().any(of_column);
                index.columns.iter().any(is_made) && needs()
            })
            .map(|index| index.name.clone())
            .collect();
        let mut table = Arc::clone(table);
        for name in names {
            table = self.drop_index_whole(txn, &table, &name).await?;
        }
        Ok(table)
    }
}

/// What an index names for a column of a type and a collation, where it is not what that has anyway.
///
/// # Errors
/// `42704`, `42804`
fn declare(
    ty: &ColumnType,
    has: u32,
    collation: Option<&ObjectName>,
    class: Option<&ObjectName>,
) -> Result<Declared, SqlError> {
    let oid = column_oid(ty);
    let collation = collation.map(|name| collation::named(name, oid, &column_type_name(ty))).transpose()?;
    let class = class.map(|name| operator_classes::named(name, oid)).transpose()?;
    Ok(Declared {
        class: class.filter(|class| *class != operator_classes::default_class(oid)).unwrap_or(0),
        collation: collation.filter(|collation| *collation != has).unwrap_or(0),
    })
}

/// The column of that name.
///
/// # Errors
/// `42703`
pub(super) fn index_column(table: &Table, ident: &Ident) -> Result<usize, SqlError> {
    find_column(table, ident).map_err(|error| unnamed(error, ident))
}

/// `42703` as the analysis of an index says it.
fn unnamed(error: SqlError, ident: &Ident) -> SqlError {
    match error.sqlstate.as_str() {
        "42703" => {
            let name = if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() };
            SqlError::new("42703", format!("column \"{name}\" does not exist"))
        }
        _ => error,
    }
}

/// Refuses what gives another value tomorrow.
fn check(table: &Table, planned: &TableExpr, what: &str) -> Result<(), SqlError> {
    if !planned.immutable {
        return Err(SqlError::new("42P17", format!("functions in index {what} must be marked IMMUTABLE")));
    }
    if planned.columns().iter().any(|at| table.generated(*at).is_some()) {
        return Err(unsupported("a generated column in an expression or predicate of an index"));
    }
    Ok(())
}

/// What the build of an index says of two rows with one key, in the index's own words.
pub(crate) fn reworded(mut error: SqlError, table: &Table, columns: &[usize]) -> SqlError {
    let Some(detail) = error.detail.take() else { return error };
    let mut detail = detail;
    for at in columns.iter().filter(|at| table.columns[**at].is_hidden()) {
        let name = &table.columns[*at].name;
        detail = match table.columns[*at].is_predicate() {
            true => {
                detail.replacen(&format!(", {name})="), ")=", 1).replacen(", t) is duplicated", ") is duplicated", 1)
            }
            false => detail.replacen(name.as_str(), &crate::exec::bridge::key_name(table, *at), 1),
        };
    }
    error.detail = Some(detail);
    error
}
