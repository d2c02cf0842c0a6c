//! Which unique keys ON CONFLICT means.

use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{self, ConflictTarget, Ident};
use resurgam_engine::{Index, Table};

use crate::parse::conflict::{self, Element};
use crate::parse::names::last_name;
use crate::pg::catalog::predicate_of;
use crate::pg::definition::parse_expression;
use crate::pg::errors;
use crate::plan::analyze::{OverRow, Place, over_row};
use crate::plan::expression::{cast_times, unqualify};
use crate::plan::implied::implies;
use crate::plan::lookup::{find_column, ident_text};
use crate::plan::planner::{Names, as_in_plan, simplified};
use crate::wire::SqlError;

/// The unique keys that ON CONFLICT means: `None` is the primary key.
///
/// # Errors
/// `42P10`, `42703`, `42704`: there is none like that.
pub(crate) fn arbiters(
    names: &Names<'_>,
    table: &Table,
    target: Option<&ConflictTarget>,
) -> Result<Vec<Option<usize>>, SqlError> {
    // Nothing is inferred from an index that is not valid. (A row that its entries keep out is in the way all the same.)
    let counts = |index: &Index| index.unique && (index.valid || target.is_none());
    let all = (!table.primary_key.is_empty())
        .then_some(None)
        .into_iter()
        .chain(table.indexes.iter().enumerate().filter(|(_, index)| counts(index)).map(|(i, _)| Some(i)));
    match target {
        None => Ok(all.collect()),
        Some(ConflictTarget::Columns(columns)) => {
            let target = Target::read(names, table, columns)?;
            let mut found: Vec<Option<usize>> = Vec::new();
            for key in all {
                if target.infers(names, table, key)? {
                    found.push(key);
                }
            }
            if found.is_empty() {
                let text = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                return Err(SqlError::new("42P10", text));
            }
            Ok(found)
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let name = last_name(name)?;
            let is_named = |key: &Option<usize>| match key {
                None => table.primary_key_name == name,
                Some(i) => table.indexes[*i].name == name,
            };
            let found: Vec<Option<usize>> = all.filter(is_named).collect();
            if found.is_empty() {
                let text = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                return Err(SqlError::new("42704", text));
            }
            Ok(found)
        }
    }
}

/// What ON CONFLICT infers its index from.
struct Target {
    columns: Vec<usize>,
    /// Analysed, as they are compared.
    exprs: Vec<Expr>,
    /// What is known of the rows: conditions that are all true.
    known: Vec<Expr>,
}

/// A condition as it is compared with others: with its constants computed.
fn condition(names: &Names<'_>, table: &Table, expr: &ast::Expr) -> Result<Expr, SqlError> {
    let OverRow { expr, schema, .. } = over_row(names, table, expr, Place::Predicate)?;
    let expr = as_in_plan(names.state, expr, &schema).and_then(|expr| simplified(names.state, expr, &schema));
    expr.map_err(|error| errors::from_datafusion(error, ""))
}

impl Target {
    fn read(names: &Names<'_>, table: &Table, idents: &[Ident]) -> Result<Self, SqlError> {
        let mut target = Self { columns: Vec::new(), exprs: Vec::new(), known: Vec::new() };
        for ident in idents {
            match conflict::element(ident)? {
                Element::Column => target.columns.push(named_column(table, ident)?),
                Element::Key(expr) => match bare(&expr) {
                    ast::Expr::Identifier(ident) => target.columns.push(named_column(table, ident)?),
                    expr => target.exprs.push(over_row(names, table, &unqualified(table, expr), Place::Index)?.expr),
                },
                Element::Predicate(expr) => target.known.push(condition(names, table, &unqualified(table, &expr))?),
            }
        }
        target.columns.sort_unstable();
        target.columns.dedup();
        Ok(target)
    }

    /// Whether it means that key: it has the same columns and expressions, and its condition implies the key's predicate.
    fn infers(&self, names: &Names<'_>, table: &Table, key: Option<usize>) -> Result<bool, SqlError> {
        let of_key = key.map_or(&table.primary_key, |i| &table.indexes[i].columns);
        let mut columns: Vec<usize> = of_key.iter().copied().filter(|at| !table.columns[*at].is_hidden()).collect();
        columns.sort_unstable();
        columns.dedup();
        if columns != self.columns {
            return Ok(false);
        }
        let mut exprs = Vec::new();
        for at in of_key.iter().filter(|at| table.columns[**at].is_hidden()) {
            if table.columns[*at].is_predicate() {
                let Some(predicate) = predicate_of(table, *at) else { return Ok(false) };
                let needed = condition(names, table, &predicate)?;
                if !implies(&self.known.iter().collect::<Vec<_>>(), &needed) {
                    return Ok(false);
                }
            } else if let Some(generated) = table.generated(*at) {
                exprs.push(over_row(names, table, &parse_expression(&generated.sql)?, Place::Index)?.expr);
            }
        }
        Ok(exprs.iter().all(|expr| self.exprs.contains(expr)) && self.exprs.iter().all(|expr| exprs.contains(expr)))
    }
}

fn bare(expr: &ast::Expr) -> &ast::Expr {
    let mut expr = expr;
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// As indexes keep their expressions.
fn unqualified(table: &Table, expr: &ast::Expr) -> ast::Expr {
    let mut expr = bare(expr).clone();
    unqualify(&mut expr, &table.name);
    cast_times(&mut expr, table);
    expr
}

fn named_column(table: &Table, ident: &Ident) -> Result<usize, SqlError> {
    find_column(table, ident).map_err(|error| match error.sqlstate.as_str() {
        "42703" => SqlError::new("42703", format!("column \"{}\" does not exist", ident_text(ident))),
        _ => error,
    })
}
