//! Window frames that leave out rows around the current one: `EXCLUDE CURRENT ROW`, `GROUP`, `TIES`.
//!
//! The query engine has no such frames. It gives a function of the kind that goes by frames the whole partition, row by row in
//! its order, with the frame of each as a range; behind the arguments are the values of the window's ORDER BY. So the function
//! here knows which row it is at (it counts them), which rows are its peers, and makes of the range the pieces that are left. An
//! aggregate is begun anew for each row, as in PostgreSQL, which cannot take rows back from such frames either.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::{self, SortColumn};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Int64Type, Schema};
use datafusion::common::utils::evaluate_partition_ranges;
use datafusion::common::{DataFusionError, Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    AggregateUDF, PartitionEvaluator, ReversedUDWF, Signature, Volatility, WindowFunctionDefinition, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::expressions::{Column, Literal};

use crate::errors::to_datafusion;
use crate::running;

/// What a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Excluded {
    CurrentRow,
    /// The row and its peers.
    Group,
    /// Its peers without itself.
    Ties,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Inner {
    /// Of the pieces' rows; `filtered`: of those of which the last argument is true.
    Aggregate {
        function: Arc<AggregateUDF>,
        filtered: bool,
    },
    First(Arc<WindowUDF>),
    Last(Arc<WindowUDF>),
    Nth(Arc<WindowUDF>),
}

/// The function over frames that leave rows out. `filtered`: an aggregate's FILTER is behind its arguments. `None`: it does not
/// go by frames.
pub fn excluding(
    function: &WindowFunctionDefinition,
    excluded: Excluded,
    filtered: bool,
) -> Option<WindowFunctionDefinition> {
    let inner = match function {
        WindowFunctionDefinition::AggregateUDF(function) => {
            Inner::Aggregate { function: Arc::clone(function), filtered }
        }
        WindowFunctionDefinition::WindowUDF(function) => match function.name() {
            "first_value" => Inner::First(Arc::clone(function)),
            "last_value" => Inner::Last(Arc::clone(function)),
            "nth_value" => Inner::Nth(Arc::clone(function)),
            _ => return None,
        },
    };
    let filter = if filtered { " FILTER" } else { "" };
    // Windows that are named alike are taken for one.
    let name = format!("{}{filter} EXCLUDE {excluded:?}", function.name());
    let signature = Signature::variadic_any(Volatility::Immutable);
    let made = WindowUDF::new_from_impl(Excluding { inner, excluded, name, signature });
    Some(WindowFunctionDefinition::WindowUDF(Arc::new(made)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Excluding {
    inner: Inner,
    excluded: Excluded,
    name: String,
    signature: Signature,
}

impl Excluding {
    /// The arguments without the filter.
    fn own<'f, T>(&self, args: &'f [T]) -> &'f [T] {
        match (&self.inner, args) {
            (Inner::Aggregate { filtered: true, .. }, [own @ .., _]) => own,
            _ => args,
        }
    }
}

impl WindowUDFImpl for Excluding {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> DfResult<Box<dyn PartitionEvaluator>> {
        let given = args.input_exprs().len();
        let (exprs, fields) = (self.own(args.input_exprs()), self.own(args.input_fields()));
        // What an aggregate asks of its arguments it asks of a row of these; constants stay what they are.
        let exprs = exprs.iter().enumerate().map(|(at, expr)| match expr.downcast_ref::<Literal>() {
            Some(_) => Arc::clone(expr),
            None => Arc::new(Column::new(fields[at].name(), at)) as Arc<dyn PhysicalExpr>,
        });
        Ok(Box::new(Rows {
            inner: self.inner.clone(),
            excluded: self.excluded,
            given,
            exprs: exprs.collect(),
            schema: Schema::new(fields.to_vec()),
            fields: fields.to_vec(),
            at: 0,
            peers: Vec::new(),
            group: 0,
        }))
    }
    fn field(&self, args: WindowUDFFieldArgs<'_>) -> DfResult<FieldRef> {
        let fields = self.own(args.input_fields());
        let field = match &self.inner {
            Inner::Aggregate { function, .. } => function.return_field(fields)?,
            Inner::First(function) | Inner::Last(function) | Inner::Nth(function) => {
                function.field(WindowUDFFieldArgs::new(fields, args.name()))?
            }
        };
        Ok(Arc::new(Field::clone(&field).with_name(args.name()).with_nullable(true)))
    }
    fn reverse_expr(&self) -> ReversedUDWF {
        ReversedUDWF::NotSupported
    }
}

/// One partition, row by row.
#[derive(Debug)]
struct Rows {
    inner: Inner,
    excluded: Excluded,
    /// Arguments, the filter among them; the values of ORDER BY are behind.
    given: usize,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
    schema: Schema,
    /// The current row.
    at: usize,
    /// Rows that are each other's peers, and which of these the current row is in.
    peers: Vec<Range<usize>>,
    group: usize,
}

impl Rows {
    /// What is left of a frame, in its order.
    fn pieces(&mut self, values: &[ArrayRef], frame: &Range<usize>, at: usize) -> DfResult<Vec<Range<usize>>> {
        let hole = match self.excluded {
            Excluded::CurrentRow => at..at + 1,
            Excluded::Group | Excluded::Ties => self.peers_of(values, at)?,
        };
        let own = if self.excluded == Excluded::Ties && frame.contains(&at) { at..at + 1 } else { 0..0 };
        let pieces = [frame.start..frame.end.min(hole.start), own, frame.start.max(hole.end)..frame.end];
        Ok(pieces.into_iter().filter(|piece| piece.start < piece.end).collect())
    }

    fn peers_of(&mut self, values: &[ArrayRef], at: usize) -> DfResult<Range<usize>> {
        if self.peers.is_empty() {
            let rows = values.first().map_or(0, |values| values.len());
            let columns = values.iter().skip(self.given);
            let columns: Vec<SortColumn> =
                columns.map(|values| SortColumn { values: zeros_alike(values), options: None }).collect();
            self.peers = evaluate_partition_ranges(rows, &columns)?;
        }
        while self.peers.get(self.group).is_some_and(|peers| peers.end <= at) {
            self.group += 1;
        }
        let wrong = || DataFusionError::Internal("a row of a window without peers".to_owned());
        self.peers.get(self.group).cloned().ok_or_else(wrong)
    }

    fn aggregate(
        &self,
        function: &AggregateUDF,
        filtered: bool,
        values: &[ArrayRef],
        pieces: &[Range<usize>],
    ) -> DfResult<ScalarValue> {
        let mut accumulator = function.accumulator(AccumulatorArgs {
            return_field: function.return_field(&self.fields)?,
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: function.name(),
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.fields,
        })?;
        for piece in pieces {
            let slice = |values: &ArrayRef| values.slice(piece.start, piece.len());
            let mut rows: Vec<ArrayRef> = values.iter().take(self.fields.len()).map(slice).collect();
            if filtered && let Some(filter) = values.get(self.fields.len()) {
                let filter = slice(filter);
                let mask: &BooleanArray = filter.as_boolean();
                rows = rows.iter().map(|rows| compute::filter(rows, mask)).collect::<Result<_, _>>()?;
            }
            accumulator.update_batch(&rows)?;
        }
        accumulator.evaluate()
    }
}

impl PartitionEvaluator for Rows {
    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> DfResult<ScalarValue> {
        running::check().map_err(to_datafusion)?;
        let at = self.at;
        self.at += 1;
        let pieces = self.pieces(values, frame, at)?;
        let Some(first) = values.first() else {
            return Err(DataFusionError::Internal("a function over a window without arguments".to_owned()));
        };
        let row = match &self.inner {
            Inner::Aggregate { function, filtered } => return self.aggregate(function, *filtered, values, &pieces),
            Inner::First(_) => pieces.first().map(|piece| piece.start),
            Inner::Last(_) => pieces.last().map(|piece| piece.end - 1),
            Inner::Nth(_) => {
                let counts = values.get(1).and_then(|counts| counts.as_primitive_opt::<Int64Type>());
                let counts = counts.filter(|counts| !counts.is_null(at));
                let mut before = counts.and_then(|counts| usize::try_from(counts.value(at).checked_sub(1)?).ok());
                pieces.iter().find_map(|piece| {
                    let wanted = before?;
                    before = wanted.checked_sub(piece.len());
                    (wanted < piece.len()).then_some(piece.start + wanted)
                })
            }
        };
        match row {
            Some(row) => ScalarValue::try_from_array(first, row),
            None => ScalarValue::try_from(first.data_type()),
        }
    }
    fn uses_window_frame(&self) -> bool {
        true
    }
}

/// One zero and one NaN, as in comparisons.
fn zeros_alike(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        ),
        _ => Arc::clone(values),
    }
}
