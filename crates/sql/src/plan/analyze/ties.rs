//! `FETCH FIRST n ROWS WITH TIES`: so many rows, and those that ORDER BY does not tell apart from the last one.
//!
//! Rows are numbered and ranked in the order of the query. With an offset of `m`, those stay whose number is above `m` and
//! whose rank is at most `m + n`: the rank of a row is one more than the rows before all that are equal to it.

use std::sync::Arc;

use datafusion::common::{Column as PlanColumn, ScalarValue};
use datafusion::functions_window::expr_fn::{rank, row_number};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Projection, Sort, lit};

use super::{Result, unknown};

const RANK: &str = "resurgam$rank";
const NUMBER: &str = "resurgam$number";

/// The first rows of a sorted plan, with ties; counts that are not there are those of no limit.
///
/// # Errors
/// Refusals: the counts are no constants.
pub(super) fn with_ties(plan: LogicalPlan, fetch: Option<Expr>, skip: Option<Expr>) -> Result<LogicalPlan> {
    let (Some(fetch), Some(skip)) = (count(fetch), count(skip)) else {
        return unknown("FETCH FIRST … WITH TIES with a count that is no constant");
    };
    let Some(fetch) = fetch else {
        let skip = skip.map(lit);
        return Ok(LogicalPlanBuilder::from(plan).limit_by_expr(skip, None)?.build()?);
    };
    if fetch == 0 {
        return Ok(LogicalPlanBuilder::from(plan).limit(0, Some(0))?.build()?);
    }
    let skip = skip.unwrap_or(0);
    limited(plan, skip.saturating_add(fetch), skip)
}

/// What a count is; the outer `None`: it is not known.
#[allow(clippy::option_option)]
fn count(expr: Option<Expr>) -> Option<Option<i64>> {
    match expr {
        None => Some(None),
        Some(Expr::Literal(ScalarValue::Int64(count), _)) => Some(count),
        Some(_) => None,
    }
}

fn limited(plan: LogicalPlan, last: i64, skip: i64) -> Result<LogicalPlan> {
    match plan {
        // It takes away what only ORDER BY needs.
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let input = limited(Arc::unwrap_or_clone(input), last, skip)?;
            Ok(LogicalPlan::Projection(Projection::try_new(expr, Arc::new(input))?))
        }
        LogicalPlan::Sort(Sort { expr: keys, input, .. }) => ranked(keys, Arc::unwrap_or_clone(input), last, skip),
        _ => unknown("this form of FETCH FIRST … WITH TIES"),
    }
}

fn ranked(keys: Vec<SortExpr>, input: LogicalPlan, last: i64, skip: i64) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let column = |name: &str| Expr::Column(PlanColumn::from_name(name));
    let number = |count: i64| lit(count.unsigned_abs());
    let windows = [
        rank().order_by(keys.clone()).build()?.alias(RANK),
        row_number().order_by(keys.clone()).build()?.alias(NUMBER),
    ];
    let kept = column(RANK).lt_eq(number(last)).and(column(NUMBER).gt(number(skip)));
    let plan = LogicalPlanBuilder::from(input).window(windows)?.filter(kept)?.project(columns)?.sort(keys)?;
    Ok(plan.build()?)
}
