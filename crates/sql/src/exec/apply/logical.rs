//! Optimising a plan and the subqueries that were taken out of it, each by itself.
//!
//! A subquery without arguments has one value for the whole statement, which is not known yet: to
//! the optimiser it is a placeholder, so that conditions with it get where they become key ranges.

use std::collections::HashMap;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::function::{called, has_calls, map_calls};
use super::lazy;

/// The optimised form of an analysed plan.
pub(crate) fn optimize(state: &SessionState, analyzed: LogicalPlan) -> Result<LogicalPlan> {
    if !has_calls(&analyzed) {
        return state.optimizer().optimize(analyzed, state, |_, _| {});
    }
    let analyzed = map_calls(analyzed, &mut |sub| {
        let plan = optimize(state, sub.plan.clone())?;
        Ok(sub.with_plan(plan).function())
    })?;
    let mut constants = HashMap::new();
    let open = map(analyzed, &mut |expr| {
        let Some(sub) = called(expr).filter(|sub| sub.is_constant()) else { return Ok(None) };
        // Named as the call: columns may be named after it.
        let name = expr.schema_name().to_string();
        let field = Some(sub.returns.clone());
        constants.insert(name.clone(), expr.clone());
        Ok(Some(Expr::Placeholder(Placeholder::new_with_field(name, field))))
    })?;
    let optimized = state.optimizer().optimize(open, state, |_, _| {})?;
    let closed = map(optimized, &mut |expr| match expr {
        Expr::Placeholder(Placeholder { id, .. }) => Ok(constants.get(id).cloned()),
        _ => Ok(None),
    })?;
    lazy::conditions(closed)
}

fn map(plan: LogicalPlan, replace: &mut dyn FnMut(&Expr) -> Result<Option<Expr>>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| {
                Ok(match replace(&expr)? {
                    Some(new) => Transformed::yes(new),
                    None => Transformed::no(expr),
                })
            })
        })
    })
    .data()
}
