//! AND and OR that do not evaluate what cannot matter.
//!
//! DataFusion evaluates both sides for all rows of a batch, unless the left one decides for nearly all of
//! them. Here a side that may fail ([`fallible`]), or that has a subquery, is evaluated for the rows that the left side
//! leaves open: `b <> 0 AND 6 / b > 1` is no division by zero.
//!
//! | written | evaluated |
//! |---|---|
//! | `a AND s` | `CASE a WHEN true THEN s WHEN false THEN false ELSE s AND NULL END` |
//! | `a OR s` | `CASE a WHEN false THEN s WHEN true THEN true ELSE s OR NULL END` |
//! | `WHERE s AND a` | the same as `a AND s`, and NULL is as good as false |
//!
//! WHERE evaluates its conditions in the order of what they cost, as PostgreSQL does: so `6 / b > 1 AND b <> 0` does
//! not fail either.
//!
//! It has to come after the optimiser, which would turn these CASEs into AND and OR.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Filter, LogicalPlan, Operator, lit};

use super::fallible::{cost, may_fail};
use super::function::has_call;

/// `plan` with such conditions.
pub(super) fn conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| match node {
        LogicalPlan::Filter(Filter { predicate, input, .. }) if is_guarded(&predicate) => {
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(filter(predicate)?, input)?)))
        }
        node => {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                if !is_guarded(&expr) {
                    return Ok(Transformed::no(expr));
                }
                let name = names.save(&expr);
                Ok(expression(expr)?.update_data(|expr| name.restore(expr)))
            })
        }
    })
    .data()
}

/// Whether it matters for which rows it is evaluated.
fn is_guarded(expr: &Expr) -> bool {
    may_fail(expr) || has_call(expr)
}

/// Whether an expression may be written twice: a nest of AND and OR would double with each level. A larger one
/// is left to DataFusion, which evaluates it for all rows if the left side leaves some open.
fn is_small(expr: &Expr) -> bool {
    const NODES_MAX: usize = 256;
    let mut nodes = 0;
    let walked = expr.apply(|_| {
        nodes += 1;
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_ok() && nodes <= NODES_MAX
}

/// A condition of which only the truth counts.
fn filter(predicate: Expr) -> Result<Expr> {
    let (subqueries, mut others): (Vec<_>, Vec<_>) = split_conjunction_owned(predicate).into_iter().partition(has_call);
    // Stable: what costs the same stays in the order in which it was written.
    others.sort_by_key(cost);
    let mut all: Option<Expr> = None;
    for part in others.into_iter().chain(subqueries) {
        let guarded = is_guarded(&part);
        let part = if guarded { expression(part)?.data } else { part };
        all = Some(match all {
            Some(before) if guarded => case(None, vec![(before, part)], lit(false)),
            Some(before) => before.and(part),
            None => part,
        });
    }
    Ok(all.unwrap_or_else(|| lit(true)))
}

fn expression(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right })
            // It is written twice: nests must not double with each level.
            if (has_call(&right) || may_fail(&right)) && is_small(&right) =>
        {
            let open = lit(op == Operator::And);
            let decided = lit(op == Operator::Or);
            let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
            let null = Expr::BinaryExpr(BinaryExpr::new(right.clone(), op, Box::new(unknown)));
            Ok(Transformed::yes(case(Some(*left), vec![(open, *right), (decided.clone(), decided)], null)))
        }
        other => Ok(Transformed::no(other)),
    })
}

fn case(operand: Option<Expr>, branches: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    let branches = branches.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Expr::Case(Case::new(operand.map(Box::new), branches, Some(Box::new(otherwise))))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::col;

    use super::*;

    #[test]
    fn a_nest_does_not_double_with_each_level() {
        let quotient = || (lit(6) / col("b")).gt(lit(1));
        let mut nest = quotient();
        for level in 0..60 {
            nest = if level % 2 == 0 { col("a").and(nest) } else { col("a").or(nest) };
        }
        let mut nodes = 0usize;
        let made = expression(nest).expect("a nest").data;
        made.apply(|_| {
            nodes += 1;
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("no error");
        assert!(nodes < 5000, "{nodes} nodes");
        let made = filter(quotient().and(col("b").not_eq(lit(0)))).expect("a condition");
        assert_eq!(made.to_string(), "CASE WHEN b != Int32(0) THEN Int32(6) / b > Int32(1) ELSE Boolean(false) END");
    }
}
