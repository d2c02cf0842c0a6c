//! `percentile_cont`, `percentile_disc` and `mode … WITHIN GROUP (ORDER BY …)`.
//!
//! The first interpolates between two values of type `double precision` and rounds nothing; the second gives one of the
//! values, of any type that has an order; the third the value that is there most often, the first of several. All values of a group are kept, NULLs not counted. The fraction is read when
//! rows come, not when a plan is made.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, IntervalMonthDayNano};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::errors::to_datafusion;
use crate::types::{arrow_oid, format_type};
use crate::wire::SqlError;

/// All of them.
pub(super) fn all() -> [AggregateUDF; 3] {
    [("percentile_cont", true), ("percentile_disc", false), ("mode", false)].map(|(name, continuous)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Percentile { name, continuous, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    name: &'static str,
    continuous: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        if let ("mode", [_]) = (self.name, types) {
            return Ok(types.to_vec());
        }
        let [value, fraction] = types else {
            let types: Vec<String> = types.iter().map(|ty| format_type(arrow_oid(ty), None)).collect();
            let message = format!("function {}({}) does not exist", self.name, types.join(", "));
            return Err(to_datafusion(SqlError::new("42883", message)));
        };
        if matches!(fraction, DataType::List(_)) || (self.continuous && matches!(value, DataType::Interval(_))) {
            let message = format!("{} of arrays and of intervals is not supported", self.name);
            return Err(to_datafusion(SqlError::unsupported(message)));
        }
        let number = |ty: &DataType| ty.is_numeric() || ty.is_null() || ty == &super::numeric::DYNAMIC;
        if !number(fraction) || (self.continuous && !number(value)) {
            let name = format_type(arrow_oid(if number(fraction) { value } else { fraction }), None);
            let message = format!("function {}(double precision, {name}) does not exist", self.name);
            return Err(to_datafusion(SqlError::new("42883", message)));
        }
        Ok(vec![value.clone(), fraction.clone()])
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(if self.continuous { DataType::Float64 } else { types.first().cloned().unwrap_or(DataType::Null) })
    }
    fn return_field(&self, fields: &[FieldRef]) -> DfResult<FieldRef> {
        let field = match (self.continuous, fields.first()) {
            (false, Some(field)) => field.as_ref().clone(),
            _ => Field::new("", DataType::Float64, true),
        };
        Ok(Arc::new(field.with_name(self.name).with_nullable(true)))
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let descending = args.order_bys.first().is_some_and(|sort| sort.options.descending);
        let ty = args.expr_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Box::new(Values {
            continuous: self.continuous,
            most_frequent: self.name == "mode",
            descending,
            ty: if self.continuous { DataType::Float64 } else { ty },
            fraction: None,
            values: vec![],
            bytes: 0,
        }))
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let item = Field::new_list_field(args.return_field.data_type().clone(), true);
        Ok(vec![
            Field::new(format!("{}[values]", args.name), DataType::List(Arc::new(item)), true).into(),
            Field::new(format!("{}[fraction]", args.name), DataType::Float64, true).into(),
        ])
    }
    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    continuous: bool,
    most_frequent: bool,
    descending: bool,
    /// Of the values as they are kept.
    ty: DataType,
    fraction: Option<f64>,
    values: Vec<ScalarValue>,
    bytes: usize,
}

/// A column of numbers as floats.
fn floats(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    crate::arrow::cast_array(array, &DataType::Float64, crate::types::oid::FLOAT8, &crate::datetime::Zone::Utc)
}

/// NaN is above all numbers; a month is thirty days.
fn order(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    match (a, b) {
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => {
            a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => {
            a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (ScalarValue::IntervalMonthDayNano(Some(a)), ScalarValue::IntervalMonthDayNano(Some(b))) => {
            length(a).cmp(&length(b))
        }
        _ => a.partial_cmp(b).unwrap_or(Ordering::Equal),
    }
}

/// What intervals compare by, in nanoseconds.
fn length(interval: &IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * 86_400_000_000_000 + i128::from(interval.nanoseconds)
}

impl Values {
    fn push(&mut self, array: &ArrayRef) -> DfResult<()> {
        for row in 0..array.len() {
            if array.is_valid(row) {
                let value = ScalarValue::try_from_array(array, row)?;
                self.bytes += value.size();
                self.values.push(value);
            }
        }
        Ok(())
    }

    fn mode(&mut self) -> Option<ScalarValue> {
        self.values.sort_by(order);
        if self.descending {
            self.values.reverse();
        }
        let mut best: Option<(usize, &ScalarValue)> = None;
        for same in self.values.chunk_by(|a, b| order(a, b) == Ordering::Equal) {
            if let Some(first) = same.first()
                && best.is_none_or(|(count, _)| same.len() > count)
            {
                best = Some((same.len(), first));
            }
        }
        best.map(|(_, value)| value.clone())
    }

    fn answer(&mut self) -> Result<ScalarValue, SqlError> {
        if self.most_frequent {
            let null = ScalarValue::try_from(&self.ty).unwrap_or(ScalarValue::Null);
            return Ok(self.mode().unwrap_or(null));
        }
        let null = || ScalarValue::try_from(&self.ty).unwrap_or(ScalarValue::Null);
        let Some(fraction) = self.fraction else { return Ok(null()) };
        if !(0.0..=1.0).contains(&fraction) {
            return Err(SqlError::new("22003", format!("percentile value {fraction} is not between 0 and 1")));
        }
        if self.values.is_empty() {
            return Ok(null());
        }
        self.values.sort_by(order);
        if self.descending {
            self.values.reverse();
        }
        let count = self.values.len();
        if !self.continuous {
            let at = ((fraction * count as f64).ceil() as usize).max(1);
            return Ok(self.values[at.min(count) - 1].clone());
        }
        let place = fraction * (count - 1) as f64;
        let float = |at: usize| match self.values.get(at.min(count - 1)) {
            Some(ScalarValue::Float64(Some(value))) => *value,
            _ => f64::NAN,
        };
        let (first, second) = (place.floor(), place.ceil());
        let (low, high) = (float(first as usize), float(second as usize));
        let value = if first == second { low } else { low + (place - first) * (high - low) };
        Ok(ScalarValue::Float64(Some(if value.is_nan() { f64::NAN } else { value })))
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        // Of `mode` there is none: what comes behind the values is what they are sorted by.
        if let Some(fractions) = values.get(1).filter(|_| !self.most_frequent) {
            let fractions = floats(fractions).map_err(to_datafusion)?;
            let fractions = fractions.as_primitive::<Float64Type>();
            if !fractions.is_empty() {
                self.fraction = fractions.is_valid(0).then(|| fractions.value(0));
            }
        }
        let array = if self.continuous { floats(&values[0]).map_err(to_datafusion)? } else { Arc::clone(&values[0]) };
        self.push(&array)
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.answer().map_err(to_datafusion)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + (self.values.capacity() - self.values.len()) * size_of::<ScalarValue>()
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let list = ScalarValue::new_list_nullable(&self.values, &self.ty);
        Ok(vec![ScalarValue::List(list), ScalarValue::Float64(self.fraction)])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let (lists, fractions) = (states[0].as_list::<i32>(), states[1].as_primitive::<Float64Type>());
        for row in 0..lists.len() {
            if fractions.is_valid(row) {
                self.fraction = Some(fractions.value(row));
            }
            if lists.is_valid(row) {
                self.push(&lists.value(row))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(continuous: bool, descending: bool, fraction: f64, values: &[f64]) -> ScalarValue {
        let values: Vec<ScalarValue> = values.iter().map(|value| ScalarValue::Float64(Some(*value))).collect();
        let fraction = Some(fraction);
        let ty = DataType::Float64;
        Values { continuous, most_frequent: false, descending, ty, fraction, values, bytes: 0 }.answer().expect("value")
    }

    #[test]
    fn percentiles_are_not_rounded() {
        let third = of(true, false, 1.0 / 3.0, &[1.0, 2.0]);
        assert_eq!(third, ScalarValue::Float64(Some(1.3333333333333333)));
        assert_eq!(of(true, true, 0.25, &[1.0, 2.0, 3.0]), ScalarValue::Float64(Some(2.5)));
        assert_eq!(of(false, false, 0.5, &[1.0, 2.0, 3.0, 4.0]), ScalarValue::Float64(Some(2.0)));
        assert_eq!(of(false, false, 0.0, &[7.0, 2.0]), ScalarValue::Float64(Some(2.0)));
        assert_eq!(of(true, false, 1.0, &[f64::NAN, 2.0]).to_string(), "NaN");
        assert_eq!(of(true, false, 0.5, &[]), ScalarValue::Float64(None));
    }
}
