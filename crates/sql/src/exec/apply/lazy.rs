//! AND and OR that do not run subqueries whose value cannot matter.
//!
//! DataFusion evaluates both sides for all rows of a batch, unless the left one decides for all of
//! them. Here a side with a subquery is evaluated for the rows that the left side leaves open:
//!
//! | written | evaluated |
//! |---|---|
//! | `a AND s` | `CASE a WHEN true THEN s WHEN false THEN false ELSE s AND NULL END` |
//! | `a OR s` | `CASE a WHEN false THEN s WHEN true THEN true ELSE s OR NULL END` |
//! | `WHERE s AND a` | the same as `a AND s`, and NULL is as good as false |
//!
//! It has to come after the optimiser, which would turn these CASEs into AND and OR.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Filter, LogicalPlan, Operator, lit};

use super::function::has_call;

/// `plan` with such conditions.
pub(super) fn conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| match node {
        LogicalPlan::Filter(Filter { predicate, input, .. }) if has_call(&predicate) => {
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(filter(predicate)?, input)?)))
        }
        node => {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                if !has_call(&expr) {
                    return Ok(Transformed::no(expr));
                }
                let name = names.save(&expr);
                Ok(expression(expr)?.update_data(|expr| name.restore(expr)))
            })
        }
    })
    .data()
}

/// A condition of which only the truth counts.
fn filter(predicate: Expr) -> Result<Expr> {
    let (subqueries, others): (Vec<_>, Vec<_>) = split_conjunction_owned(predicate).into_iter().partition(has_call);
    let mut all = conjunction(others);
    for part in subqueries {
        let part = expression(part)?.data;
        all = Some(match all {
            Some(before) => case(None, vec![(before, part)], lit(false)),
            None => part,
        });
    }
    Ok(all.unwrap_or_else(|| lit(true)))
}

fn expression(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) if has_call(&right) => {
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
