//! `sum`, `avg`, `min` and `max` of intervals (`interval_accum` and its kin in `src/backend/utils/adt/timestamp.c`).
//!
//! Intervals compare as if a month had 30 days and a day 24 hours. An average is the sum divided field by field, with
//! what is left of months going to days and of days to the time.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::datetime::{DAY_US, SECOND_US};
use crate::errors::to_datafusion;
use crate::wire::SqlError;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Avg,
    Min,
    Max,
}

/// The aggregate of that name over intervals.
pub fn interval_aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    let (kind, name) = match name {
        "sum" => (Kind::Sum, "interval_sum"),
        "avg" => (Kind::Avg, "interval_avg"),
        "min" => (Kind::Min, "interval_min"),
        "max" => (Kind::Max, "interval_max"),
        _ => return None,
    };
    let signature = Signature::exact(vec![INTERVAL], Volatility::Immutable);
    Some(Arc::new(AggregateUDF::new_from_impl(OfIntervals { kind, name, signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfIntervals {
    kind: Kind,
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for OfIntervals {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(INTERVAL)
    }
    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(State { kind: self.kind, value: None, count: 0 }))
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        Ok(vec![
            Field::new(format!("{}[value]", args.name), INTERVAL, true).into(),
            Field::new(format!("{}[count]", args.name), DataType::Int64, true).into(),
        ])
    }
}

#[derive(Debug)]
struct State {
    kind: Kind,
    value: Option<IntervalMonthDayNano>,
    count: i64,
}

fn out_of_range() -> SqlError {
    SqlError::new("22008", "interval out of range")
}

/// What intervals compare by.
fn span(value: IntervalMonthDayNano) -> i128 {
    (i128::from(value.months) * 30 + i128::from(value.days)) * i128::from(DAY_US) * 1000 + i128::from(value.nanoseconds)
}

fn plus(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let nanos = a.nanoseconds.checked_add(b.nanoseconds)?;
    Some(IntervalMonthDayNano::new(a.months.checked_add(b.months)?, a.days.checked_add(b.days)?, nanos))
}

/// Rounded to microseconds, as PostgreSQL rounds between the fields.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

fn divided(value: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    let (months, days) = (f64::from(value.months), f64::from(value.days));
    let whole = |value: f64| (value.abs() <= f64::from(i32::MAX)).then_some(value as i32);
    let (month, mut day) = (whole(months / factor)?, whole(days / factor)?);
    let left_days = rounded((months / factor - f64::from(month)) * 30.0);
    let mut left = rounded((days / factor - f64::from(day) + left_days - left_days.trunc()) * 86_400.0);
    if left.abs() >= 86_400.0 {
        day = day.checked_add((left / 86_400.0) as i32)?;
        left -= (left / 86_400.0).trunc() * 86_400.0;
    }
    day = day.checked_add(left_days as i32)?;
    let us = ((value.nanoseconds / 1000) as f64 / factor + left * SECOND_US as f64).round_ties_even();
    let us = (us.abs() < 9.2e18).then_some(us as i64)?;
    Some(IntervalMonthDayNano::new(month, day, us.checked_mul(1000)?))
}

impl State {
    fn add(&mut self, value: IntervalMonthDayNano, count: i64) -> DfResult<()> {
        self.count += count;
        self.value = Some(match (self.value, self.kind) {
            (None, _) => value,
            (Some(before), Kind::Sum | Kind::Avg) => {
                plus(before, value).ok_or_else(|| to_datafusion(out_of_range()))?
            }
            // Of equal ones the last, as in PostgreSQL.
            (Some(before), Kind::Min) => {
                if span(value) <= span(before) {
                    value
                } else {
                    before
                }
            }
            (Some(before), Kind::Max) => {
                if span(value) >= span(before) {
                    value
                } else {
                    before
                }
            }
        });
        Ok(())
    }
}

impl Accumulator for State {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for value in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.add(value, 1)?;
        }
        Ok(())
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let value = match (self.kind, self.value) {
            (Kind::Avg, Some(sum)) => {
                Some(divided(sum, self.count as f64).ok_or_else(|| to_datafusion(out_of_range()))?)
            }
            (_, value) => value,
        };
        Ok(ScalarValue::IntervalMonthDayNano(value))
    }
    fn size(&self) -> usize {
        size_of_val(self)
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::IntervalMonthDayNano(self.value), ScalarValue::Int64(Some(self.count))])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        for (value, count) in states[0].as_primitive::<IntervalMonthDayNanoType>().iter().zip(counts.values()) {
            if let Some(value) = value {
                self.add(value, *count)?;
            }
        }
        Ok(())
    }
}
