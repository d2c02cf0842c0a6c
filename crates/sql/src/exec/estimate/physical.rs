//! Rows of a physical plan, from the scans up.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::condition::Condition;
use super::table::{Origin, TableEstimate};
use super::written::{column_of, physical};
use super::{ROWS_MAX, ROWS_UNKNOWN};
use crate::exec::filter::ByteFilterExec;
use crate::exec::scan::ScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// Of groups by more than one thing, so many rows are one.
const ROWS_OF_GROUP: f64 = 10.0;

/// What comes out of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub rows: f64,
    /// Columns that are those of tables.
    pub columns: Vec<Option<Origin>>,
}

impl Estimate {
    fn unknown(plan: &Plan, rows: f64) -> Self {
        Self { rows, columns: vec![None; plan.schema().fields().len()] }
    }

    fn at_most(mut self, fetch: Option<usize>) -> Self {
        self.rows = fetch.map_or(self.rows, |fetch| self.rows.min(fetch as f64));
        self
    }
}

/// Where what is known of a scan's table is to be had.
pub(crate) type Known<'a> = &'a dyn Fn(&ScanExec) -> Option<Arc<TableEstimate>>;

/// From the scan itself, which was told when it was planned.
fn told(scan: &ScanExec) -> Option<Arc<TableEstimate>> {
    scan.estimate().cloned()
}

/// Rows of a plan; `None` if nothing is known of a table in it.
pub(crate) fn of(plan: &Plan) -> Option<Estimate> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return of_scan(scan, &told).map(|estimate| estimate.at_most(scan.fetch()));
    }
    let children = plan.children().into_iter().map(of).collect::<Option<Vec<Estimate>>>()?;
    Some(above(plan, children))
}

/// The same of an operator whose inputs are known.
pub(super) fn above(plan: &Plan, inputs: Vec<Estimate>) -> Estimate {
    without_limit(plan, inputs, &told).at_most(plan.fetch())
}

/// The same as far as no limit of its own ends it.
pub(crate) fn without_limit(plan: &Plan, mut inputs: Vec<Estimate>, known: Known<'_>) -> Estimate {
    match (inputs.pop(), inputs.pop()) {
        (None, _) => of_leaf(plan),
        (Some(input), None) => over(plan, input, known),
        (Some(right), Some(left)) if inputs.is_empty() && is_join(plan) => joined(plan, left, right),
        (Some(last), Some(before)) => {
            let rows: f64 = inputs.iter().chain([&last, &before]).map(|input| input.rows).sum();
            Estimate::unknown(plan, rows.min(ROWS_MAX))
        }
    }
}

pub(super) fn is_join(plan: &Plan) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
}

fn of_leaf(plan: &Plan) -> Estimate {
    if plan.is::<EmptyExec>() {
        return Estimate::unknown(plan, 0.0);
    }
    if plan.is::<PlaceholderRowExec>() {
        return Estimate::unknown(plan, 1.0);
    }
    Estimate::unknown(plan, ROWS_UNKNOWN)
}

/// What a scan reads, whatever its limit is.
pub(crate) fn of_scan(scan: &ScanExec, known: Known<'_>) -> Option<Estimate> {
    let of = &known(scan)?;
    let columns = (0..scan.schema().fields().len()).map(|at| {
        let column = scan.table_column(at)?;
        Some(Origin { of: Arc::clone(of), column })
    });
    Some(Estimate { rows: scan.estimated_rows(of), columns: columns.collect() })
}

/// An operator with one input.
fn over(plan: &Plan, input: Estimate, known: Known<'_>) -> Estimate {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return filtered(input, filter, known);
    }
    if let Some(bounded) = plan.downcast_ref::<ByteFilterExec>() {
        return filtered(input, bounded.filter(), known);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let columns = projection.expr().iter().map(|projected| column_of(&projected.expr, &input.columns));
        return Estimate { rows: input.rows, columns: columns.collect() };
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return grouped(plan, aggregate, &input);
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        let left = (input.rows - limit.skip() as f64).max(0.0);
        return Estimate { rows: left, ..input };
    }
    if input.columns.len() == plan.schema().fields().len() {
        return input;
    }
    // Columns that are added come last.
    let mut columns = input.columns;
    columns.resize(plan.schema().fields().len(), None);
    Estimate { rows: input.rows, columns }
}

fn filtered(input: Estimate, filter: &FilterExec, known: Known<'_>) -> Estimate {
    let part = physical(filter.predicate(), &input.columns).part();
    // What bounds a scan is a part of the predicate that stands above it.
    let rows = match scan_of(filter.input(), known) {
        Some(scan) => (scan.rows() * part).min(input.rows),
        None => input.rows * part,
    };
    let columns = match filter.projection().as_deref() {
        Some(projection) => projection.iter().map(|at| input.columns.get(*at).cloned().flatten()).collect(),
        None => input.columns,
    };
    Estimate { rows, columns }
}

/// The table at the end of a chain of projections.
fn scan_of(plan: &Plan, known: Known<'_>) -> Option<Arc<TableEstimate>> {
    match plan.downcast_ref::<ScanExec>() {
        Some(scan) => known(scan).filter(|_| scan.fetch().is_none()),
        None => scan_of(plan.downcast_ref::<ProjectionExec>()?.input(), known),
    }
}

fn grouped(plan: &Plan, aggregate: &AggregateExec, input: &Estimate) -> Estimate {
    let by = aggregate.group_expr();
    let mut out = Estimate::unknown(plan, 1.0);
    let mut groups = 1.0;
    for (at, (expr, _)) in by.expr().iter().enumerate() {
        let column = column_of(expr, &input.columns);
        groups *= column.as_ref().map_or(ROWS_UNKNOWN, Origin::distinct);
        if let Some(slot) = out.columns.get_mut(at) {
            *slot = column;
        }
    }
    let most = if by.expr().len() > 1 { input.rows / ROWS_OF_GROUP } else { input.rows };
    out.rows = if by.expr().is_empty() { 1.0 } else { groups.min(most).max(input.rows.min(1.0)) };
    out
}

/// A join of two inputs.
fn joined(plan: &Plan, left: Estimate, right: Estimate) -> Estimate {
    let mut parts: Vec<f64> = Vec::new();
    let mut keys: Vec<(Option<Origin>, Option<Origin>)> = Vec::new();
    let mut add = |on: &[(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)]| {
        keys.extend(on.iter().map(|(l, r)| (column_of(l, &left.columns), column_of(r, &right.columns))));
    };
    let (mut join_type, mut projection, mut filter): (JoinType, Option<&[usize]>, Option<&JoinFilter>) =
        (JoinType::Inner, None, None);
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        add(join.on());
        (join_type, projection, filter) = (*join.join_type(), join.projection.as_deref(), join.filter());
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        add(join.on());
        (join_type, filter) = (join.join_type(), join.filter().as_ref());
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        (join_type, projection, filter) = (*join.join_type(), join.projection().as_deref(), join.filter());
    }
    parts.push(by_keys(&keys, left.rows, right.rows));
    if let Some(filter) = filter {
        let columns: Vec<Option<Origin>> = filter
            .column_indices()
            .iter()
            .map(|ColumnIndex { index, side }| {
                let side = if *side == JoinSide::Left { &left } else { &right };
                side.columns.get(*index).cloned().flatten()
            })
            .collect();
        parts.push(physical(filter.expression(), &columns).part());
    }
    let part: f64 = parts.iter().product();
    let matches = (left.rows * right.rows * part).min(ROWS_MAX);
    // Of each side, the rows that have a partner.
    let with_partner = |own: f64, others: f64| own * (others * part).min(1.0);
    let (of_left, of_right) = (with_partner(left.rows, right.rows), with_partner(right.rows, left.rows));
    let rows = match join_type {
        JoinType::Inner => matches,
        JoinType::Left => matches.max(left.rows),
        JoinType::Right => matches.max(right.rows),
        JoinType::Full => matches.max(left.rows).max(right.rows),
        JoinType::LeftSemi => of_left,
        JoinType::RightSemi => of_right,
        JoinType::LeftAnti => left.rows - of_left,
        JoinType::RightAnti => right.rows - of_right,
        JoinType::LeftMark => left.rows,
        JoinType::RightMark => right.rows,
    };
    let all: Vec<Option<Origin>> = match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => left.columns,
        JoinType::RightSemi | JoinType::RightAnti => right.columns,
        JoinType::LeftMark => left.columns.into_iter().chain([None]).collect(),
        JoinType::RightMark => right.columns.into_iter().chain([None]).collect(),
        _ => left.columns.into_iter().chain(right.columns).collect(),
    };
    let columns = match projection {
        Some(projection) => projection.iter().map(|at| all.get(*at).cloned().flatten()).collect(),
        None => all,
    };
    Estimate { rows, columns }
}

/// The part of the pairs of rows of two sides that have equal keys.
pub(crate) fn by_keys(keys: &[(Option<Origin>, Option<Origin>)], left: f64, right: f64) -> f64 {
    let mut part = 1.0;
    for (l, r) in keys {
        part *= match (l, r) {
            (Some(l), Some(r)) => Condition::Same(l.clone(), r.clone()).part(),
            (Some(one), None) => 1.0 / one.distinct(),
            (None, Some(one)) => 1.0 / one.distinct(),
            (None, None) => 1.0 / left.min(right).clamp(1.0, ROWS_UNKNOWN),
        };
    }
    // All columns of a unique key: each row of the other side meets one row of the table at most.
    let of_left: Vec<&Origin> = keys.iter().filter_map(|(l, _)| l.as_ref()).collect();
    let of_right: Vec<&Origin> = keys.iter().filter_map(|(_, r)| r.as_ref()).collect();
    let unique = [of_left, of_right].into_iter().filter_map(|origins| {
        let table = &origins.first()?.of;
        let given =
            |column: usize| origins.iter().any(|origin| origin.column == column && Arc::ptr_eq(&origin.of, table));
        table.is_one_by(given).then(|| table.rows())
    });
    unique.reduce(f64::max).map_or(part, |rows| 1.0 / rows)
}
