//! Chains of operators: `a + b - c …`, `a || b || c …`, `a AND b AND c …`, however long.
//!
//! They are analysed from the left to the right without recursion ([`Links`]), and become what stays
//! shallow: of operators of one type a [`Fold`], of many alternatives that are equalities a list, of other conditions
//! groups. A long chain that is none of these is refused with `54001` beyond [`DEPTH_MAX`] levels.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, Volatility, binary_expr};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Spanned};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bound::{Bound, Type};
use super::condition::is_row;
use super::expr::{Clause, operator_name};
use super::scope::Scope;
use super::{Analyzer, Result, unknown};
use crate::exec::any_of::items;
use crate::exec::fold::{Fold, next, so_far, together};
use crate::parse::depth::{Chain, DEPTH_MAX, Links, TERMS_TOGETHER, too_deep};
use crate::wire::SqlError;

/// Terms from which on a chain is more than operators.
const TERMS_MANY: usize = 16;
/// Conditions that the query engine sees side by side.
const CONDITIONS_SEEN: usize = 128;
/// Values that alternatives are grouped by at most.
const LISTS_MAX: usize = 8;

type Link<'a> = (&'a BinaryOperator, &'a ast::Expr);

impl Analyzer<'_> {
    /// Operators between two operands, and what is chained to them on the left.
    pub(super) fn chain(&mut self, expr: &ast::Expr, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        let mut terms = Links::of(expr);
        let Some((_, first)) = terms.next() else { return unknown("an empty expression") };
        let links: Vec<Link<'_>> = terms.filter_map(|(op, term)| Some((op?, term))).collect();
        let mut done: Option<Bound> = None;
        let (mut at, mut levels) = (0, 0);
        while let Some(&(op, right)) = links.get(at) {
            let is_overlaps = *op == BinaryOperator::Overlaps;
            if is_overlaps && at > 0 {
                // What is on its left is no row.
                return Err(self.at(SqlError::syntax("syntax error at or near \"OVERLAPS\""), first.span()));
            }
            if at == 0 && (is_overlaps || is_row(first) || is_row(right)) {
                done = Some(self.row_comparison(first, op, right, scope, clause)?);
                at += 1;
                continue;
            }
            let left = match done.take() {
                Some(left) => left,
                None => self.expr(first, scope, clause)?,
            };
            let kind = Chain::of(op);
            let run = match kind {
                Some(_) => links[at..].iter().take_while(|(op, _)| Chain::of(op) == kind).count(),
                None => 1,
            };
            let run = if run < TERMS_MANY { 1 } else { run };
            let here = &links[at..at + run];
            done = Some(match kind {
                _ if run == 1 => {
                    let bound = self.expr(right, scope, clause)?;
                    levels += 1;
                    self.binary_op(left, op, bound, right.span())?
                }
                Some(Chain::And | Chain::Or) => self.conditions(left, here, scope, clause)?,
                _ => self.folded_steps(left, here, &mut levels, scope, clause)?,
            });
            if levels > DEPTH_MAX {
                return Err(too_deep().into());
            }
            at += run;
        }
        match done {
            Some(bound) => Ok(bound),
            None => self.expr(first, scope, clause),
        }
    }

    fn binary_op(&mut self, left: Bound, op: &BinaryOperator, right: Bound, right_span: Span) -> Result<Bound> {
        let span = left.span.union(&right_span);
        match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let (name, op) = connective(op);
                let (left, right) = (self.boolean(left, name)?, self.boolean(right, name)?);
                Ok(Bound::new(binary_expr(left.expr, op, right.expr), Type::BOOL).at(span))
            }
            op => match operator_name(op) {
                Some(name) => self.binary(name, left, right, span),
                None => Err(SqlError::new("42883", format!("operator does not exist: {op}")).into()),
            },
        }
    }

    /// Many conditions, all AND or all OR.
    fn conditions(&mut self, left: Bound, links: &[Link<'_>], scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        let Some((op, _)) = links.first() else { return Ok(left) };
        let (name, op) = connective(op);
        let mut span = left.span;
        let mut terms = Vec::with_capacity(links.len() + 1);
        let mut left = Some(left);
        for (_, right) in links {
            let bound = self.expr(right, scope, clause)?;
            span = span.union(&right.span());
            if let Some(left) = left.take() {
                terms.push(self.boolean(left, name)?.expr);
            }
            terms.push(self.boolean(bound, name)?.expr);
        }
        if op == Operator::Or {
            terms = with_lists(terms);
        }
        Ok(Bound::new(connected(terms, op), Type::BOOL).at(span))
    }

    /// Many operators of one precedence: as long as each takes and gives the same type they are one call.
    fn folded_steps(
        &mut self,
        mut left: Bound,
        links: &[Link<'_>],
        levels: &mut usize,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let mut open: Vec<(Expr, Expr)> = Vec::new();
        for (op, right) in links {
            let bound = self.expr(right, scope, clause)?;
            let (ty, data, span) = (left.ty, left.data.clone(), left.span);
            // A constant's value says what becomes of it.
            if ty.is_unknown() || matches!(left.expr, Expr::Literal(..)) {
                left = self.binary_op(left, op, bound, right.span())?;
                *levels += 1;
                continue;
            }
            let stand_in = Bound::with_data(so_far(), ty, data.clone()).at(span);
            let out = self.binary_op(stand_in, op, bound, right.span())?;
            let (expr, step) = step(out.expr);
            match step {
                Some((step, term)) if out.ty == ty && out.data == data => {
                    open.push((step, term));
                    left.span = out.span;
                }
                _ => {
                    let before = closed(left.expr, &mut open, &data);
                    left =
                        Bound { expr: with_value(expr, step, before)?, ..Bound::with_data(so_far(), out.ty, out.data) };
                    left.span = out.span;
                    *levels += 1;
                }
            }
            if open.len() >= TERMS_TOGETHER {
                left.expr = closed(left.expr, &mut open, &data);
                *levels += 1;
            }
            if *levels > DEPTH_MAX {
                return Err(too_deep().into());
            }
        }
        let data = left.data.clone();
        left.expr = closed(left.expr, &mut open, &data);
        Ok(left)
    }
}

fn connective(op: &BinaryOperator) -> (&'static str, Operator) {
    match op {
        BinaryOperator::And => ("AND", Operator::And),
        _ => ("OR", Operator::Or),
    }
}

/// An operator on [`so_far`] as a step and its right operand, if that is all that it is; else the expression.
fn step(expr: Expr) -> (Option<Expr>, Option<(Expr, Expr)>) {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *left == so_far() => {
            (None, Some((binary_expr(so_far(), op, next()), *right)))
        }
        Expr::ScalarFunction(mut call)
            if call.args.len() == 2
                && call.args[0] == so_far()
                // What depends on the session is seen by its name.
                && call.func.signature().volatility == Volatility::Immutable =>
        {
            let term = call.args.remove(1);
            (None, Some((call.func.call(vec![so_far(), next()]), term)))
        }
        other => (Some(other), None),
    }
}

/// What [`step`] took apart, with a value for [`so_far`].
fn with_value(whole: Option<Expr>, parts: Option<(Expr, Expr)>, value: Expr) -> Result<Expr> {
    let put = |expr: Expr, put: &Expr, with: &Expr| {
        expr.transform_up(|expr| Ok(if expr == *put { Transformed::yes(with.clone()) } else { Transformed::no(expr) }))
            .data()
    };
    Ok(match (whole, parts) {
        (Some(whole), _) => put(whole, &so_far(), &value)?,
        (None, Some((Expr::BinaryExpr(binary), term))) => binary_expr(value, binary.op, term),
        (None, Some((Expr::ScalarFunction(call), term))) => call.func.call(vec![value, term]),
        (None, _) => value,
    })
}

/// The value of the steps that are open.
fn closed(first: Expr, open: &mut Vec<(Expr, Expr)>, data: &datafusion::arrow::datatypes::DataType) -> Expr {
    if open.len() >= TERMS_MANY / 2 {
        return Fold::call(first, std::mem::take(open), data.clone());
    }
    open.drain(..).fold(first, |value, (step, term)| match step {
        Expr::BinaryExpr(binary) => binary_expr(value, binary.op, term),
        Expr::ScalarFunction(call) => call.func.call(vec![value, term]),
        _ => value,
    })
}

/// Alternatives that compare one value with constants are a list.
fn with_lists(terms: Vec<Expr>) -> Vec<Expr> {
    let mut lists: Vec<(Expr, Vec<Expr>)> = Vec::new();
    let mut rest = Vec::new();
    for term in terms {
        match term {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
                if matches!(*right, Expr::Literal(..) | Expr::Placeholder(_)) && matches!(*left, Expr::Column(_)) =>
            {
                match lists.iter().position(|(value, _)| *value == *left) {
                    Some(at) => lists[at].1.extend(items(*right)),
                    None if lists.len() < LISTS_MAX => lists.push((*left, items(*right))),
                    None => rest.push(binary_expr(*left, Operator::Eq, *right)),
                }
            }
            other => rest.push(other),
        }
    }
    let list = |(value, list): (Expr, Vec<Expr>)| Expr::InList(InList::new(Box::new(value), list, false));
    lists.into_iter().map(list).chain(rest).collect()
}

/// Conditions in a tree that nobody flattens to more than [`CONDITIONS_SEEN`] and as many groups. The first of them
/// stay what they are: what is read goes by them.
pub(super) fn connected(mut terms: Vec<Expr>, op: Operator) -> Expr {
    if terms.len() > 2 * CONDITIONS_SEEN {
        let mut groups = terms.split_off(CONDITIONS_SEEN);
        while groups.len() > CONDITIONS_SEEN {
            let mut next = Vec::with_capacity(groups.len().div_ceil(CONDITIONS_SEEN));
            let mut group = Vec::with_capacity(CONDITIONS_SEEN);
            for term in groups {
                group.push(term);
                if group.len() == CONDITIONS_SEEN {
                    next.push(together(balanced(std::mem::take(&mut group), op)));
                }
            }
            if !group.is_empty() {
                next.push(together(balanced(group, op)));
            }
            groups = next;
        }
        terms.extend(groups);
    }
    balanced(terms, op)
}

fn balanced(mut terms: Vec<Expr>, op: Operator) -> Expr {
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut rest = terms.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary_expr(left, op, right),
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop().unwrap_or_else(|| datafusion::logical_expr::lit(op == Operator::And))
}
