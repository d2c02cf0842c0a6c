//! Costs as PostgreSQL writes them, counted from rows alone.
//!
//! Plans are not chosen by them. Programs that read EXPLAIN want a number for each node that grows with the work below it: a
//! row that is handed on is [`ROW`], one that is looked at [`LOOK`] (PostgreSQL's `cpu_tuple_cost` and `cpu_operator_cost`). Pages
//! are not counted.

use datafusion::arrow::datatypes::{DataType, Fields, IntervalUnit};

use super::node::{Estimate, Node};
use crate::exec::access_path::FETCH;
use crate::exec::table::KEY_COLUMN;

pub(crate) const ROW: f64 = 0.01;
pub(crate) const LOOK: f64 = 0.0025;

/// What is expected of a node's input; nothing if that is not known.
pub(crate) fn input(node: &Node) -> Estimate {
    node.estimate.unwrap_or_default()
}

/// Rows that are read by a scan; by an index they are fetched one by one.
pub(crate) fn scan(rows: f64, by_index: bool, width: u64) -> Estimate {
    let each = if by_index { ROW * FETCH } else { ROW };
    Estimate { startup: 0.0, total: rows * each, rows: shown(rows), width }
}

/// Rows that are looked at and handed on one by one.
pub(crate) fn passed(below: Estimate, rows: f64, width: u64) -> Estimate {
    Estimate { startup: below.startup, total: below.total + below.rows * LOOK, rows: shown(rows), width }
}

/// The first rows of an input.
pub(crate) fn limited(below: Estimate, skip: f64, fetch: Option<f64>) -> Estimate {
    let after = (below.rows - skip).max(0.0);
    let rows = fetch.map_or(after, |fetch| after.min(fetch));
    let part = if below.rows > 0.0 { ((rows + skip.min(below.rows)) / below.rows).min(1.0) } else { 1.0 };
    let total = below.startup + (below.total - below.startup) * part;
    Estimate { startup: below.startup, total, rows: shown(rows), width: below.width }
}

/// Rows that are all there before the first is handed on, compared `times` times each.
pub(crate) fn held(below: Estimate, times: f64, rows: f64, width: u64) -> Estimate {
    let startup = below.total + below.rows * times * LOOK;
    Estimate { startup, total: startup + rows * LOOK, rows: shown(rows), width }
}

/// How often a row is compared when so many are sorted.
pub(crate) fn comparisons(rows: f64) -> f64 {
    2.0 * rows.max(2.0).log2()
}

/// A join that makes a table of one side first, or reads both at once (`held`: 0).
pub(crate) fn joined(outer: Estimate, inner: Estimate, held: f64, looks: f64, rows: f64, width: u64) -> Estimate {
    let startup = outer.startup + held;
    let total = outer.total + inner.total + looks * LOOK + rows * ROW;
    Estimate { startup, total: total.max(startup), rows: shown(rows), width }
}

/// PostgreSQL shows no less than a row.
fn shown(rows: f64) -> f64 {
    rows.round().max(1.0)
}

/// Bytes of a row of these columns: PostgreSQL's widths of types of one length, and its guess for others.
pub(crate) fn width(fields: &Fields) -> u64 {
    let fields = fields.iter().filter(|field| field.name() != KEY_COLUMN);
    fields.map(|field| width_of(field.data_type())).sum()
}

fn width_of(ty: &DataType) -> u64 {
    match ty {
        DataType::Null | DataType::Boolean => 1,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => 2,
        DataType::Int32 | DataType::UInt16 | DataType::UInt32 | DataType::Float32 | DataType::Date32 => 4,
        DataType::Interval(IntervalUnit::MonthDayNano) => 16,
        ty => match ty.primitive_width() {
            Some(_) if matches!(ty, DataType::Decimal128(..) | DataType::Decimal256(..)) => 32,
            Some(bytes) => bytes as u64,
            None => 32,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_grow_with_the_work_and_begin_before_they_end() {
        let few = scan(100.0, false, 8);
        let many = scan(10_000.0, false, 8);
        assert!(few.total < many.total && scan(100.0, true, 8).total > few.total);
        let sorted = held(many, comparisons(10_000.0), 10_000.0, 8);
        assert!(sorted.startup > many.total && sorted.total > sorted.startup);
        let first = limited(many, 0.0, Some(10.0));
        assert_eq!((first.rows, first.total < many.total / 100.0), (10.0, true));
        let first = limited(sorted, 5.0, Some(10.0));
        assert!(first.total >= sorted.startup && first.total < sorted.total);
        assert_eq!(limited(scan(0.0, false, 0), 0.0, None).rows, 1.0);
        let hash = joined(many, few, few.total, 10_100.0, 10_000.0, 16);
        assert!(hash.startup >= few.total && hash.total > many.total + few.total);
    }
}
