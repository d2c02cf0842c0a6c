//! Rows of a logical plan, for the order of joins.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan};

use super::condition::Condition;
use super::table::{Origin, TableEstimate};
use super::{PART_UNKNOWN, ROWS_UNKNOWN, written};
use crate::exec::access_path::probe_column;

/// Rows that one group is made of.
const ROWS_OF_GROUP: f64 = 10.0;

/// Operators of an input of a join that are looked at.
const OPERATORS_MAX: usize = 256;

/// Conditions that are looked for among those before them.
const COMPARED_MAX: usize = 64;

/// The column of a table that an expression over its rows is.
pub(crate) fn origin(of: &Arc<TableEstimate>, expr: &Expr) -> Option<Origin> {
    probe_column(&of.table, expr).map(|column| Origin { of: Arc::clone(of), column })
}

/// The part of a table's rows that satisfies these conditions, each of which may be there several times.
pub(crate) fn part(of: &Arc<TableEstimate>, conditions: &[&Expr]) -> f64 {
    let mut distinct: Vec<&Expr> = Vec::with_capacity(conditions.len());
    for condition in conditions.iter().flat_map(|condition| split_conjunction(condition)) {
        if distinct.len() >= COMPARED_MAX || !distinct.contains(&condition) {
            distinct.push(condition);
        }
    }
    let column = |expr: &Expr| origin(of, expr);
    Condition::All(distinct.into_iter().map(|condition| written::logical(condition, &column)).collect()).part()
}

/// Rows of a plan; `of` knows those of tables with conditions. Of a plan of very many operators only some are looked at: it is
/// looked at again with each join around it.
pub(crate) fn rows(plan: &LogicalPlan, of: &dyn Fn(&LogicalPlan) -> Option<f64>) -> f64 {
    rows_within(plan, of, &Cell::new(OPERATORS_MAX))
}

fn rows_within(plan: &LogicalPlan, of: &dyn Fn(&LogicalPlan) -> Option<f64>, left: &Cell<usize>) -> f64 {
    let inner = |plan: &LogicalPlan| rows_within(plan, of, left);
    if left.get() == 0 {
        return ROWS_UNKNOWN;
    }
    left.set(left.get() - 1);
    if let Some(rows) = of(plan) {
        return rows;
    }
    match plan {
        LogicalPlan::Filter(filter) => inner(&filter.input) * PART_UNKNOWN,
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
        LogicalPlan::Aggregate(aggregate) => (inner(&aggregate.input) / ROWS_OF_GROUP).max(1.0),
        LogicalPlan::Distinct(distinct) => (inner(distinct.input()) / ROWS_OF_GROUP).max(1.0),
        LogicalPlan::Limit(limit) => match limit.get_fetch_type() {
            Ok(FetchType::Literal(Some(fetch))) => inner(&limit.input).min(fetch as f64),
            _ => inner(&limit.input),
        },
        LogicalPlan::Join(join) => {
            let (left, right) = (inner(&join.left), inner(&join.right));
            match join.join_type {
                JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left,
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right,
                _ if join.on.is_empty() => left * right,
                _ => left.max(right),
            }
        }
        LogicalPlan::Union(union) => union.inputs.iter().map(|input| inner(input)).sum(),
        LogicalPlan::Values(values) => values.values.len() as f64,
        LogicalPlan::EmptyRelation(empty) => f64::from(u8::from(empty.produce_one_row)),
        other => match other.inputs().as_slice() {
            [input] => inner(input),
            _ => ROWS_UNKNOWN,
        },
    }
}
