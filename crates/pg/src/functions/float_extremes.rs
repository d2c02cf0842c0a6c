//! `min` and `max` of `real` and `double precision` by groups (`float8larger`, `float8smaller` in
//! `src/backend/utils/adt/float.c`): NaN is above everything, infinities are values like others.
//!
//! DataFusion's own begin with the least and greatest finite number and take a NaN for what comes next, so that a
//! group's answer went by the order of its rows. Its accumulators without groups and of windows are right, and used.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::{Result as DfResult, ScalarValue, internal_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
    utils::AggregateOrderSensitivity,
};

/// `min` or `max` of floats.
pub fn float_extreme(name: &str) -> Option<Arc<AggregateUDF>> {
    let (inner, largest) = match name {
        "min" => (min_udaf(), false),
        "max" => (max_udaf(), true),
        _ => return None,
    };
    Some(Arc::new(AggregateUDF::new_from_impl(OfFloats { inner, largest })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfFloats {
    inner: Arc<AggregateUDF>,
    largest: bool,
}

impl AggregateUDFImpl for OfFloats {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(types)
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }
    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }
    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }
    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(Groups { largest: self.largest, single: true, values: Vec::new() })),
            DataType::Float64 => Ok(Box::new(Groups { largest: self.largest, single: false, values: Vec::new() })),
            other => internal_err!("the extremes of floats were asked for values of type {other}"),
        }
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
    // (Nothing is said of how they follow each other in a running window: see `window_values.rs`.)
    fn default_value(&self, data: &DataType) -> DfResult<ScalarValue> {
        ScalarValue::try_from(data)
    }
}

/// The extreme of each group so far; none: it has had no value.
struct Groups {
    largest: bool,
    /// They are of `real`.
    single: bool,
    values: Vec<Option<f64>>,
}

/// Whether `a` is above `b`, in PostgreSQL's order.
fn above(a: f64, b: f64) -> bool {
    if a.is_nan() { !b.is_nan() } else { a > b }
}

impl Groups {
    fn take(&mut self, group: usize, value: f64) {
        let best = &mut self.values[group];
        // As PostgreSQL's: of equal ones (0 and -0) the later.
        let keeps = best.is_some_and(|best| if self.largest { above(best, value) } else { above(value, best) });
        if !keeps {
            *best = Some(value);
        }
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        self.values.resize(total, None);
        let wanted = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        if self.single {
            let array = values[0].as_primitive::<Float32Type>();
            for (row, group) in groups.iter().enumerate().filter(|(row, _)| array.is_valid(*row) && wanted(*row)) {
                self.take(*group, f64::from(array.value(row)));
            }
        } else {
            let array = values[0].as_primitive::<Float64Type>();
            for (row, group) in groups.iter().enumerate().filter(|(row, _)| array.is_valid(*row) && wanted(*row)) {
                self.take(*group, array.value(row));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        let values = emit.take_needed(&mut self.values);
        Ok(match self.single {
            true => Arc::new(values.into_iter().map(|value| value.map(|value| value as f32)).collect::<Float32Array>()),
            false => Arc::new(values.into_iter().collect::<Float64Array>()),
        })
    }

    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.update_batch(values, groups, None, total)
    }

    /// Each row as a group's state of its own.
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let Some(filter) = filter else { return Ok(vec![Arc::clone(&values[0])]) };
        let left_out: BooleanArray = filter.iter().map(|wanted| Some(wanted != Some(true))).collect();
        Ok(vec![nullif(&values[0], &left_out)?])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<Option<f64>>()
    }
}
