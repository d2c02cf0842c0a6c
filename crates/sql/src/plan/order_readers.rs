//! Which inputs of an operator are read in the order that they declare.
//!
//! A join declares the order of the side that it reads as it comes, and as long as somebody may go by it that side is read through the
//! tree that gives it. Below a sort, groups that are found by hashing and the side of a join that is held in memory nobody does: there
//! rows may be looked up by any index.
//!
//! Contract: an operator that is not known here goes by every order, and so does what ends early (a limit, whose ORDER BY may have been
//! left out because the rows are in order), and an aggregate whose value tells of the order of rows (`array_agg`).

use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::exec::outer_side::OuterSideExec;
use crate::exec::paced::PacedExec;
use crate::exec::scan_chain::Plan;

/// Aggregates that are the same whatever the order of rows is.
const OF_ANY_ORDER: [&str; 9] =
    ["count", "sum", "avg", "min", "max", "numeric_min", "numeric_max", "bool_and", "bool_or"];

/// Of each input of `plan`, whose own order somebody may go by or not.
pub(super) fn inputs_in_order(plan: &Plan, is_in_order: bool) -> Vec<bool> {
    let all = vec![true; plan.children().len()];
    // (Nobody knows of an order that is hidden.)
    if plan.is::<SortExec>() || plan.is::<OuterSideExec>() {
        return vec![false];
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return vec![!is_of_any_order(aggregate)];
    }
    if plan.fetch().is_some() {
        return all;
    }
    if plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<PacedExec>() {
        return vec![is_in_order];
    }
    if plan.is::<HashJoinExec>() {
        return vec![false, is_in_order];
    }
    if plan.is::<NestedLoopJoinExec>() {
        return vec![is_in_order; 2];
    }
    all
}

/// Whether an aggregate gives the same for rows in any order.
fn is_of_any_order(aggregate: &AggregateExec) -> bool {
    let wants = aggregate.required_input_ordering().iter().any(Option::is_some) || aggregate.limit_options().is_some();
    let by = aggregate.group_expr();
    !wants
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.aggr_expr().iter().all(|call| OF_ANY_ORDER.contains(&call.fun().name()) || shows_key(call, by))
}

/// Whether it shows one of the values that are equal to each other in a group: which one that is follows from how its rows were found.
fn shows_key(call: &AggregateFunctionExpr, by: &PhysicalGroupBy) -> bool {
    let shown = call.expressions();
    let is_key = |key: &ScalarFunctionExpr| key.args() == shown;
    call.fun().name() == "first_value"
        && call.order_bys().is_empty()
        && by.expr().iter().any(|(expr, _)| expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(is_key))
}
