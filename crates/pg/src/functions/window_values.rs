//! Functions over windows whose values have no bound of their own (`string_agg`, `array_agg`, `max` of texts, `lag`).
//!
//! The query engine has them make a value for each row of a batch, or of a partition, and makes a column of all these before
//! anybody counts: `string_agg(t) OVER (ORDER BY i)` of 8192 rows are 8192 texts, each longer than the one before. So each
//! value asks whether there is room for what was made since the last column, once more, and whether the statement goes on.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{
    AccumulatorArgs, ExpressionArgs, PartitionEvaluatorArgs, StateFieldsArgs, WindowFunctionSimplification,
    WindowUDFFieldArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, LimitEffect, PartitionEvaluator, ReversedUDAF,
    ReversedUDWF, Signature, WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_plan::PhysicalExpr;

use crate::errors::to_datafusion;
use crate::{memory, running};

/// The same function, which asks; see the module's head.
pub fn watched(function: WindowFunctionDefinition) -> WindowFunctionDefinition {
    match function {
        WindowFunctionDefinition::AggregateUDF(inner) => WindowFunctionDefinition::AggregateUDF(aggregate(inner)),
        WindowFunctionDefinition::WindowUDF(inner) => WindowFunctionDefinition::WindowUDF(window(inner)),
    }
}

fn aggregate(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Aggregate { inner, sorts: Sorts::AsItDoes }))
}

/// An aggregate of distinct values in an order, which it sorts itself: no order of its input is asked for. (Over rows that come
/// in the opposite order the query engine has `array_agg` and `string_agg` collect them from the other end, and forgets to turn
/// the result around where they are DISTINCT.)
pub fn sorts_itself(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Aggregate { inner, sorts: Sorts::Distinct }))
}

/// An aggregate in an order that sorts what it has when it ends, as `string_agg` does: of those beside it each may have another
/// order. (The query engine takes it for one that wants its input in that order, and has one order for all of these.)
pub fn sorts_at_the_end(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Aggregate { inner, sorts: Sorts::AtTheEnd }))
}

fn window(inner: Arc<WindowUDF>) -> Arc<WindowUDF> {
    Arc::new(WindowUDF::new_from_impl(Window { inner }))
}

/// What was made and is still kept, as far as it can be known.
#[derive(Debug, Default)]
struct Made {
    bytes: usize,
    /// What the thread had then.
    from: isize,
}

impl Made {
    fn may_be_made(&mut self, value: &ScalarValue) -> DfResult<()> {
        let net = memory::net();
        // A column was made of the others, and they are gone.
        if net.saturating_sub(self.from) < isize::try_from(self.bytes / 2).unwrap_or(isize::MAX) {
            *self = Self { bytes: 0, from: net };
        }
        self.bytes = self.bytes.saturating_add(value.size());
        running::may_allocate(self.bytes).map_err(to_datafusion)
    }
}

/// What is said of an aggregate's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sorts {
    AsItDoes,
    /// See [`sorts_itself`].
    Distinct,
    /// See [`sorts_at_the_end`].
    AtTheEnd,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Aggregate {
    inner: Arc<AggregateUDF>,
    sorts: Sorts,
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(types)
    }
    fn return_field(&self, fields: &[FieldRef]) -> DfResult<FieldRef> {
        self.inner.return_field(fields)
    }
    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Values { inner: self.inner.accumulator(args)?, made: Made::default() }))
    }
    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Values { inner: self.inner.create_sliding_accumulator(args)?, made: Made::default() }))
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }
    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }
    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.sorts {
            Sorts::AsItDoes => self.inner.order_sensitivity(),
            Sorts::Distinct => AggregateOrderSensitivity::Insensitive,
            Sorts::AtTheEnd => AggregateOrderSensitivity::SoftRequirement,
        }
    }
    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> DfResult<Option<Arc<dyn AggregateUDFImpl>>> {
        // What comes in order is sorted all the same.
        Ok((self.sorts == Sorts::AtTheEnd).then_some(self as Arc<dyn AggregateUDFImpl>))
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        if self.sorts == Sorts::AtTheEnd {
            return ReversedUDAF::NotSupported;
        }
        match self.inner.reverse_udf() {
            // A frame that grows would shrink, which what is collected cannot: `string_agg(t) OVER (ORDER BY i)` beside windows in the
            // opposite order.
            ReversedUDAF::Reversed(_) if self.sorts == Sorts::AsItDoes => ReversedUDAF::NotSupported,
            ReversedUDAF::Reversed(inner) => ReversedUDAF::Reversed(aggregate(inner)),
            other => other,
        }
    }
    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }
    // Nothing is said of how values of a running window follow each other: DataFusion would take those of `max` for ascending with NULLs at the end, where
    // they come first, before there is any value.
    fn default_value(&self, data: &DataType) -> DfResult<ScalarValue> {
        self.inner.default_value(data)
    }
}

#[derive(Debug)]
struct Values {
    inner: Box<dyn Accumulator>,
    made: Made,
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        running::check().map_err(to_datafusion)?;
        self.inner.update_batch(values)
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let value = self.inner.evaluate()?;
        self.made.may_be_made(&value)?;
        Ok(value)
    }
    fn size(&self) -> usize {
        self.inner.size() + size_of::<Made>()
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.inner.state()
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.inner.merge_batch(states)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.inner.retract_batch(values)
    }
    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Window {
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for Window {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }
    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> DfResult<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Rows { inner: self.inner.partition_evaluator_factory(args)?, made: Made::default() }))
    }
    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.inner.simplify()
    }
    fn field(&self, args: WindowUDFFieldArgs<'_>) -> DfResult<FieldRef> {
        self.inner.field(args)
    }
    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.sort_options()
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }
    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(inner) => ReversedUDWF::Reversed(window(inner)),
            other => other,
        }
    }
    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct Rows {
    inner: Box<dyn PartitionEvaluator>,
    made: Made,
}

impl PartitionEvaluator for Rows {
    fn memoize(&mut self, state: &mut WindowAggState) -> DfResult<()> {
        self.inner.memoize(state)
    }
    fn get_range(&self, at: usize, rows: usize) -> DfResult<Range<usize>> {
        self.inner.get_range(at, rows)
    }
    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> DfResult<ArrayRef> {
        // Those that make all at once copy what they were given, at most once more.
        let given = values.iter().map(|values| values.get_array_memory_size()).sum();
        running::may_allocate(given).map_err(to_datafusion)?;
        self.inner.evaluate_all(values, rows)
    }
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> DfResult<ScalarValue> {
        let value = self.inner.evaluate(values, range)?;
        self.made.may_be_made(&value)?;
        Ok(value)
    }
    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> DfResult<ArrayRef> {
        self.inner.evaluate_all_with_rank(rows, ranks)
    }
    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }
    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }
    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
