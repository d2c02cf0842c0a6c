//! Generated columns: GENERATED ALWAYS AS (expression) STORED.
//!
//! The expression is kept as text, with the columns that it reads; its values are computed where rows are written
//! ([`crate::dml`]), so they are stored, indexed and checked as any others.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Expr, GeneratedAs, GeneratedExpressionMode};
use resurgam_engine::{Table, TableChange, Transaction};

use super::unsupported;
use crate::parse::like::DROP_EXPRESSION;
use crate::pg::definition::parse_expression;
use crate::plan::expression::{Place, TableExpr, kept_text, rename_column, unqualify};
use crate::session::Session;
use crate::wire::SqlError;

/// The expression of GENERATED ALWAYS AS.
///
/// # Errors
/// `42601`, `0A000` for what is not PostgreSQL's.
pub(super) fn expression(
    column: &str,
    given: GeneratedAs,
    expr: &Expr,
    mode: Option<&GeneratedExpressionMode>,
) -> Result<Expr, SqlError> {
    if given == GeneratedAs::ByDefault {
        return Err(SqlError::syntax("for a generated column, GENERATED ALWAYS must be specified"));
    }
    match mode {
        Some(GeneratedExpressionMode::Stored) => Ok(expr.clone()),
        _ => Err(SqlError::syntax(format!("generated column \"{column}\" has to be STORED"))),
    }
}

impl Session {
    /// An expression that a column of `table` is made of, ready to be evaluated, and as it is kept.
    ///
    /// # Errors
    /// `42P17` for one that depends on more than its row, or on other generated columns.
    pub(super) fn generation(
        &mut self,
        txn: &Transaction,
        table: &Table,
        column: (&str, resurgam_engine::ColumnType),
        expr: &Expr,
    ) -> Result<(TableExpr, String), SqlError> {
        let invalid = |message: String| SqlError::new("42P17", message);
        let mut expr = expr.clone();
        unqualify(&mut expr, &table.name);
        let planned = self.plan_over(txn, table, &expr, Place::Generated(column.0, column.1))?;
        let of_generated = |at: &&usize| table.generated(**at).is_some();
        let own = planned.columns().iter().find(|at| table.columns[**at].name == column.0);
        if let Some(at) = own.or_else(|| planned.columns().iter().find(of_generated)) {
            let name = &table.columns[*at].name;
            let error = invalid(format!("cannot use generated column \"{name}\" in column generation expression"));
            return Err(match own {
                Some(_) => error.with_detail("This would cause the generated column to depend on its own value."),
                None => error.with_detail("A generated column cannot reference another generated column."),
            });
        }
        if !planned.immutable {
            return Err(invalid("generation expression is not immutable".to_owned()));
        }
        let sql = kept_text(&expr);
        // What is kept must say the same when it is read again.
        if !planned.is_of_row() || !parse_expression(&sql).is_ok_and(|again| kept_text(&again) == sql) {
            return Err(unsupported("this form of a generation expression"));
        }
        Ok((planned, sql))
    }

    /// Makes columns of a table without rows generated ones.
    pub(super) async fn add_generated(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        generated: &[(String, Expr)],
    ) -> Result<Arc<Table>, SqlError> {
        let names: Vec<&str> = generated.iter().map(|(name, _)| name.as_str()).collect();
        let mut new = Arc::clone(table);
        for (name, expr) in generated {
            let Some(at) = table.columns.iter().position(|column| column.name == *name) else { continue };
            let (planned, sql) = self.generation(txn, table, (name, table.columns[at].ty), expr)?;
            let of_others = planned.columns().iter().find(|at| names.contains(&table.columns[**at].name.as_str()));
            if let Some(other) = of_others {
                let message = format!(
                    "cannot use generated column \"{}\" in column generation expression",
                    table.columns[*other].name
                );
                return Err(SqlError::new("42P17", message)
                    .with_detail("A generated column cannot reference another generated column."));
            }
            let change = TableChange::SetGenerated(at, Some((sql, planned.columns.clone())));
            new = self.change(txn, &new, change).await?;
        }
        Ok(new)
    }

    /// After a column was renamed: the expressions over it in other words.
    pub(super) async fn reword_generated(
        &mut self,
        txn: &Transaction,
        table: Arc<Table>,
        at: usize,
        (from, to): (&str, &str),
    ) -> Result<Arc<Table>, SqlError> {
        let mut table = table;
        for generated in table.generated.clone() {
            if generated.reads.contains(&at) {
                let mut expr = parse_expression(&generated.sql)?;
                rename_column(&mut expr, from, to);
                let change = TableChange::SetGenerated(generated.column, Some((kept_text(&expr), generated.reads)));
                table = self.change(txn, &table, change).await?;
            }
        }
        Ok(table)
    }

    /// DROP EXPRESSION.
    pub(super) async fn drop_expression(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        if_exists: bool,
    ) -> Result<Arc<Table>, SqlError> {
        let name = &table.columns[at].name;
        if table.generated(at).is_none() {
            let message = format!("column \"{name}\" of relation \"{}\" is not a stored generated column", table.name);
            if if_exists {
                self.skip(format!("{message}, skipping"));
                return Ok(Arc::clone(table));
            }
            return Err(SqlError::new("55000", message));
        }
        self.change(txn, table, TableChange::SetGenerated(at, None)).await
    }
}

/// Whether a default stands for DROP EXPRESSION, and if so whether IF EXISTS.
pub(super) fn is_drop_expression(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Function(call) if call.name.to_string() == DROP_EXPRESSION => {
            Some(matches!(&call.args, ast::FunctionArguments::List(list) if !list.args.is_empty()))
        }
        _ => None,
    }
}

/// Refuses another default of a generated column.
pub(super) fn refuse_default(table: &Table, at: usize, drops: bool) -> Result<(), SqlError> {
    if table.generated(at).is_none() {
        return Ok(());
    }
    let message = format!("column \"{}\" of relation \"{}\" is a generated column", table.columns[at].name, table.name);
    let error = SqlError::syntax(message);
    Err(match drops {
        true => error.with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead."),
        false => error,
    })
}

/// Refuses another type of a column that a generated one is made of.
pub(super) fn refuse_type(table: &Table, at: usize) -> Result<(), SqlError> {
    match table.generated.iter().find(|generated| generated.reads.contains(&at)) {
        Some(generated) if table.columns[generated.column].is_hidden() => Err(SqlError::unsupported(format!(
            "another type of column \"{}\" is not supported: an expression or predicate of an index reads it",
            table.columns[at].name
        ))),
        Some(generated) => {
            let (base, made) = (&table.columns[at].name, &table.columns[generated.column].name);
            Err(SqlError::unsupported("cannot alter type of a column used by a generated column")
                .with_detail(format!("Column \"{base}\" is used by generated column \"{made}\".")))
        }
        None if table.generated(at).is_some() => {
            Err(SqlError::unsupported("ALTER COLUMN TYPE of a generated column is not supported"))
        }
        None => Ok(()),
    }
}
