//! Rows of several columns beside a subquery, in the syntax.
//!
//! `(a, b) IN (SELECT x, y …)` compares structs: `struct(a, b) IN (SELECT struct(c1, c2) FROM (SELECT
//! x, y …) AS r(c1, c2))`; [`super::compare`] knows which of them are equal.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut,
};
use resurgam_ast::AstWalkMut;

use crate::plan::statement::template;
use crate::wire::SqlError;

/// Puts such comparisons in place of those of rows, and refuses subqueries of more columns than fit.
///
/// # Errors
/// `42601` for another number of columns, `0A000` for comparisons other than IN.
pub(crate) fn compare_rows(query: &mut Query) -> Result<(), SqlError> {
    match query.walk_mut(&mut Walk) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Walk;

impl VisitorMut for Walk {
    type Break = SqlError;
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match of_expr(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// The number of columns that a query selects, if the text says it.
fn width(query: &Query) -> Option<usize> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let named = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    select.projection.iter().all(named).then_some(select.projection.len())
}

fn of_expr(expr: &mut Expr) -> Result<(), SqlError> {
    match expr {
        Expr::Subquery(query) if width(query).is_some_and(|width| width > 1) => {
            Err(SqlError::syntax("subquery must return only one column"))
        }
        Expr::InSubquery { expr: operand, subquery, .. } => {
            let columns = match bare(operand) {
                Expr::Tuple(columns) => columns.clone(),
                _ => {
                    return match width(subquery) {
                        Some(width) if width > 1 => Err(SqlError::syntax("subquery has too many columns")),
                        _ => Ok(()),
                    };
                }
            };
            match width(subquery) {
                Some(width) if width > columns.len() => return Err(SqlError::syntax("subquery has too many columns")),
                Some(width) if width < columns.len() => return Err(SqlError::syntax("subquery has too few columns")),
                _ => {}
            }
            let names: Vec<Ident> = (1..=columns.len()).map(|n| Ident::new(format!("c{n}"))).collect();
            *subquery = rows_of(subquery, &names)?;
            **operand = structure(columns);
            Ok(())
        }
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. }
            if matches!(bare(left), Expr::Tuple(_)) && matches!(bare(right), Expr::Subquery(_)) =>
        {
            Err(SqlError::unsupported("ANY and ALL of rows are not supported"))
        }
        Expr::BinaryOp { left, right, .. }
            if [(&*left, &*right), (&*right, &*left)]
                .iter()
                .any(|(row, sub)| matches!(bare(row), Expr::Tuple(_)) && matches!(bare(sub), Expr::Subquery(_))) =>
        {
            Err(SqlError::unsupported("comparing a row with a subquery is not supported"))
        }
        _ => Ok(()),
    }
}

/// `SELECT struct(names) FROM (query) AS r(names)`
fn rows_of(query: &Query, names: &[Ident]) -> Result<Box<Query>, SqlError> {
    let mut outer = template("SELECT 1 FROM (SELECT 1) AS \"resurgam$row\"")?;
    if let SetExpr::Select(select) = outer.body.as_mut() {
        select.projection = vec![SelectItem::ExprWithAlias {
            expr: structure(names.iter().cloned().map(Expr::Identifier).collect()),
            alias: Ident::new("row"),
        }];
        if let Some(from) = select.from.first_mut()
            && let TableFactor::Derived { subquery, alias: Some(TableAlias { columns, .. }), .. } = &mut from.relation
        {
            **subquery = query.clone();
            *columns = names.iter().map(|name| TableAliasColumnDef { name: name.clone(), data_type: None }).collect();
        }
    }
    Ok(outer)
}

fn structure(values: Vec<Expr>) -> Expr {
    let args = values.into_iter().map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value))).collect();
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new("struct"))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
