//! `min` and `max` of key columns, read at the ends of an order.
//!
//! An aggregate without groups that is one `min` or `max` needs the first row in the column's order. Several of
//! them are as many aggregates of one row each, side by side.
//!
//! Invariant: the aggregates stay, over fewer rows, so what they give (NULL of no rows, types) is theirs.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, IsNotNullExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::CrossJoinExec;

use crate::exec::lookup_join::key_column;
use crate::exec::scan::numeric_key;
use crate::exec::scan_chain::{Plan, input_in_order, scan_below, with_scan};
use crate::plan::key_order::{first_rows, ordered};

/// Most aggregates of one SELECT that are read one by one: each costs a descent of a tree.
const ENDS_MAX: usize = 8;

/// The same aggregate over the rows that decide it, if keys give these.
pub(super) fn by_order(aggregate: &AggregateExec) -> Result<Option<Plan>> {
    if !aggregate.group_expr().is_true_no_grouping() || aggregate.filter_expr().iter().any(Option::is_some) {
        return Ok(None);
    }
    let input = aggregate.input();
    if scan_below(input).is_none() {
        return Ok(None);
    }
    let of = |function: &Arc<AggregateFunctionExpr>, input: Plan| {
        AggregateExec::try_new(
            *aggregate.mode(),
            PhysicalGroupBy::default(),
            vec![Arc::clone(function)],
            vec![None],
            input,
            aggregate.input_schema(),
        )
    };
    match aggregate.aggr_expr() {
        [function] => match first_of(function, input)? {
            Some(first) => Ok(Some(Arc::new(of(function, first)?))),
            None => Ok(None),
        },
        functions => {
            // Each reads the input for itself, which must give them the same rows.
            if functions.len() > ENDS_MAX || *aggregate.mode() != AggregateMode::Single || gives_other_rows(input) {
                return Ok(None);
            }
            let mut all: Option<Plan> = None;
            for function in functions {
                let Some(first) = first_of(function, input)? else { return Ok(None) };
                let one: Plan = Arc::new(of(function, first)?);
                all = Some(match all {
                    None => one,
                    Some(before) => Arc::new(CrossJoinExec::new(before, one)),
                });
            }
            Ok(all.filter(|all| all.schema() == aggregate.schema()))
        }
    }
}

/// Whether a chain of filters and projections gives other rows when it is run again.
fn gives_other_rows(plan: &Plan) -> bool {
    let volatile = plan.downcast_ref::<FilterExec>().is_some_and(|filter| is_volatile(filter.predicate()));
    volatile || input_in_order(plan).is_some_and(gives_other_rows)
}

/// The one row of `input` that decides a `min` or `max` of a key column.
fn first_of(function: &AggregateFunctionExpr, input: &Plan) -> Result<Option<Plan>> {
    let (descending, by_key) = match function.fun().name() {
        "min" => (false, false),
        "max" => (true, false),
        "numeric_min" => (false, true),
        "numeric_max" => (true, true),
        _ => return Ok(None),
    };
    let arguments = function.expressions();
    let [argument] = arguments.as_slice() else { return Ok(None) };
    let Some(column) = argument.downcast_ref::<Column>() else { return Ok(None) };
    let order = match scan_below(input) {
        Some(scan) if by_key => numeric_key(Arc::clone(argument), &input.schema(), scan.config())?,
        _ => Arc::clone(argument),
    };
    // NULLs, at whichever end they are, are no minimum nor maximum: they are passed over.
    let mut sorted = None;
    for nulls_first in [false, true] {
        let wanted = PhysicalSortExpr::new(Arc::clone(&order), SortOptions { descending, nulls_first });
        if sorted.is_none() {
            sorted = ordered(input, &[wanted], Some(1))?;
        }
    }
    let Some(mut sorted) = sorted else { return Ok(None) };
    if let Some(scan) = scan_below(&sorted)
        && let Some(column) = key_column(&sorted, argument)
    {
        let scan = scan.without_nulls(column);
        sorted = with_scan(&sorted, Arc::new(scan), ChildrenPropertiesMode::Keep)?;
    }
    let nullable = input.schema().field(column.index()).is_nullable();
    let sorted: Plan = if nullable {
        Arc::new(FilterExec::try_new(Arc::new(IsNotNullExpr::new(Arc::clone(argument))), sorted)?)
    } else {
        sorted
    };
    Ok(Some(first_rows(sorted, Some(1))?))
}
