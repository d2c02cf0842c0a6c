//! Correlated subqueries in a form that can be joined: DataFusion joins on equalities between
//! an inner and an outer column, and needs every other condition to be about inner columns.
//!
//! - `inner = outer AND … outer …` becomes `inner = outer AND … inner …`;
//! - a condition on outer columns alone moves out: `CASE WHEN condition THEN (subquery) END`;
//! - `EXISTS` in a select list becomes a count.
//!
//! Only qualified column names are understood; a bare name is left where it is.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Query, Select, SelectItem, TableFactor, Visitor, VisitorMut,
};
use resurgam_ast::{AstWalk, AstWalkMut};

use super::{bare, last_name, number, subquery, take};

/// Names under which a SELECT's FROM items are known; `None` if one is not understood.
fn aliases(select: &Select) -> Option<Vec<String>> {
    fn of(factor: &TableFactor, out: &mut Vec<String>) -> Option<()> {
        let fold = |ident: &Ident| {
            if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
        };
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. } => out.push(fold(&alias.name)),
            TableFactor::Table { name, .. } => out.push(last_name(name)),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                of(&table_with_joins.relation, out)?;
                for join in &table_with_joins.joins {
                    of(&join.relation, out)?;
                }
            }
            _ => return None,
        }
        Some(())
    }
    let mut out = Vec::new();
    for table in &select.from {
        of(&table.relation, &mut out)?;
        for join in &table.joins {
            of(&join.relation, &mut out)?;
        }
    }
    Some(out)
}

/// Whether a qualified column belongs to one of the tables; `None` for other expressions.
fn is_inner(expr: &Expr, inner: &[String]) -> Option<bool> {
    match bare(expr) {
        Expr::CompoundIdentifier(parts) if parts.len() == 2 => {
            let table = &parts[0];
            Some(inner.iter().any(|name| name.eq_ignore_ascii_case(&table.value)))
        }
        _ => None,
    }
}

/// Whether an expression mentions columns, and all of them are of outer tables.
fn only_outer(expr: &Expr, inner: &[String]) -> bool {
    struct Walk<'a> {
        inner: &'a [String],
        outer: bool,
    }
    impl Visitor for Walk<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) => ControlFlow::Break(()),
                Expr::CompoundIdentifier(_) => match is_inner(expr, self.inner) {
                    Some(false) => {
                        self.outer = true;
                        ControlFlow::Continue(())
                    }
                    _ => ControlFlow::Break(()),
                },
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let mut walk = Walk { inner, outer: false };
    expr.walk(&mut walk).is_continue() && walk.outer
}

fn conjuncts(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, out);
            conjuncts(*right, out);
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            conjuncts(*inner, out);
        }
        other => out.push(other),
    }
}

fn conjunction(parts: Vec<Expr>) -> Option<Expr> {
    parts.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

fn replace(expr: &mut Expr, from: &Expr, to: &Expr) {
    struct Replace<'a> {
        from: &'a Expr,
        to: &'a Expr,
    }
    impl VisitorMut for Replace<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if expr.to_string() == self.from.to_string() {
                *expr = self.to.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Replace { from, to });
}

/// Simplifies a subquery's condition; returns what has to hold outside of it.
pub(super) fn simplify(query: &mut Query) -> Option<Expr> {
    let select = subquery::plain_select(query)?;
    let inner = aliases(select)?;
    let mut parts = Vec::new();
    conjuncts(select.selection.take()?, &mut parts);
    // outer columns that an inner one equals
    let pairs: Vec<(usize, Expr, Expr)> = parts
        .iter()
        .enumerate()
        .filter_map(|(at, part)| match bare(part) {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                match (is_inner(left, &inner), is_inner(right, &inner)) {
                    (Some(true), Some(false)) => Some((at, bare(right).clone(), bare(left).clone())),
                    (Some(false), Some(true)) => Some((at, bare(left).clone(), bare(right).clone())),
                    _ => None,
                }
            }
            _ => None,
        })
        .collect();
    let mut outside = Vec::new();
    let mut kept = Vec::new();
    for (at, mut part) in parts.into_iter().enumerate() {
        if only_outer(&part, &inner) {
            outside.push(part);
            continue;
        }
        let equality = matches!(bare(&part), Expr::BinaryOp { op: BinaryOperator::Eq, .. });
        if !equality {
            for (from_at, outer, local) in &pairs {
                if *from_at != at {
                    replace(&mut part, outer, local);
                }
            }
        }
        kept.push(part);
    }
    select.selection = conjunction(kept);
    conjunction(outside)
}

/// A scalar subquery and the condition that moved out of it.
pub(super) fn guarded(condition: Expr, subquery: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: subquery }],
        else_result: None,
    }
}

/// `EXISTS (…)` in a select list as a comparison of a count.
pub(super) fn count_exists(item: &mut SelectItem) {
    struct Walk;
    impl VisitorMut for Walk {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Exists { subquery: query, negated } = expr
                && let Some(counted) = subquery::counted(query)
            {
                let op = if *negated { BinaryOperator::Eq } else { BinaryOperator::Gt };
                *expr =
                    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(counted), op, right: Box::new(number(0)) }));
            }
            ControlFlow::Continue(())
        }
    }
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return };
    // an EXISTS below a subquery's own WHERE is that subquery's affair
    if let Expr::Subquery(_) = expr {
        return;
    }
    let mut taken = take(expr);
    let _ = taken.walk_mut(&mut Walk);
    *expr = taken;
}
