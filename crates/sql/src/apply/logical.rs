//! Optimising a plan and the subqueries that were taken out of it, each by itself.

use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use super::function::{has_calls, map_calls};
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
    lazy::conditions(state.optimizer().optimize(analyzed, state, |_, _| {})?)
}
