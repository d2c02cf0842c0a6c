//! Aggregates of many groups at once: 48 bytes a group, as long as its sum fits 128 bits.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use resurgam_numeric::Numeric;
use resurgam_numeric::aggregate::Moments;

use super::aggregate::{Input, Kind, scalar};
use super::column::{Numbers, NumericBuilder, numeric_error};
use super::floats::FloatState;
use crate::errors::to_datafusion;
use crate::wire::SqlError;

/// Visits the integers of an integer or decimal column that are not null, with their rows.
pub(super) fn each_integer(array: &ArrayRef, mut visit: impl FnMut(usize, i128)) {
    macro_rules! each {
        ($ty:ty) => {{
            let array = array.as_primitive::<$ty>();
            match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => array.values().iter().enumerate().for_each(|(row, value)| visit(row, i128::from(*value))),
                Some(nulls) => nulls.valid_indices().for_each(|row| visit(row, i128::from(array.value(row)))),
            }
        }};
    }
    match array.data_type() {
        DataType::Int16 => each!(Int16Type),
        DataType::Int32 => each!(Int32Type),
        DataType::Int64 => each!(Int64Type),
        DataType::Decimal128(..) => each!(Decimal128Type),
        _ => {}
    }
}

/// One group.
#[derive(Debug)]
enum State {
    /// Integers at the input's scale.
    Few {
        sum: i128,
        count: u64,
    },
    Full(Box<Moments>),
    Float(FloatState),
}

/// Accumulator of all groups.
#[derive(Debug)]
pub(super) struct Groups {
    kind: Kind,
    input: Input,
    returns: DataType,
    states: Vec<State>,
    /// Heap memory of the full states, roughly.
    heap: usize,
}

impl Groups {
    pub(super) fn new(kind: Kind, input: Input, returns: DataType) -> Self {
        Self { kind, input, returns, states: Vec::new(), heap: 0 }
    }

    fn scale(&self) -> i32 {
        if let Input::Fixed(scale) = self.input { scale } else { 0 }
    }

    fn resize(&mut self, groups: usize) {
        let (kind, input) = (self.kind, self.input);
        if self.states.len() < groups && !self.few() && !matches!(input, Input::Float32 | Input::Float64) {
            self.heap += (groups - self.states.len()) * size_of::<Moments>();
        }
        let few = self.few();
        self.states.resize_with(groups, || match input {
            Input::Float32 | Input::Float64 => State::Float(FloatState::default()),
            _ if few => State::Few { sum: 0, count: 0 },
            _ => State::Full(Box::new(Moments::new(kind.squares(), false))),
        });
    }

    fn few(&self) -> bool {
        matches!(self.input, Input::Integer | Input::Fixed(_)) && !self.kind.squares()
    }

    /// The group's state in the form that holds everything; `None` of floats.
    fn full(state: &mut State, scale: i32, squares: bool) -> Option<&mut Moments> {
        if let State::Few { sum, count } = state {
            let mut moments = Moments::new(squares, false);
            moments.add_sum(*sum, scale, *count);
            *state = State::Full(Box::new(moments));
        }
        if let State::Full(moments) = state { Some(moments) } else { None }
    }

    fn update(&mut self, array: &ArrayRef, groups: &[usize], filter: Option<&BooleanArray>) -> Result<(), SqlError> {
        let wanted = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let (kind, scale) = (self.kind, self.scale());
        match self.input {
            Input::Integer | Input::Fixed(_) => {
                let states = &mut self.states;
                each_integer(array, |row, value| {
                    if !wanted(row) {
                        return;
                    }
                    let state = &mut states[groups[row]];
                    if let State::Few { sum, count } = state
                        && let Some(more) = sum.checked_add(value)
                    {
                        *sum = more;
                        *count += 1;
                        return;
                    }
                    if let Some(state) = Self::full(state, scale, kind.squares()) {
                        state.add_scaled(value, scale);
                    }
                });
            }
            Input::Numeric => {
                let numbers = Numbers::of(array.as_ref())?;
                for (row, group) in groups.iter().enumerate() {
                    if wanted(row)
                        && let Some(value) = numbers.get(row)?
                        && let Some(state) = Self::full(&mut self.states[*group], scale, kind.squares())
                    {
                        state.add(&value);
                    }
                }
            }
            Input::Float32 => {
                for (row, value) in array.as_primitive::<Float32Type>().iter().enumerate() {
                    if let (true, Some(value), State::Float(state)) =
                        (wanted(row), value, &mut self.states[groups[row]])
                    {
                        state.add_single(value, kind.float())?;
                    }
                }
            }
            Input::Float64 => {
                for (row, value) in array.as_primitive::<Float64Type>().iter().enumerate() {
                    if let (true, Some(value), State::Float(state)) =
                        (wanted(row), value, &mut self.states[groups[row]])
                    {
                        state.add(value, kind.float())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> Vec<State> {
        let taken = emit.take_needed(&mut self.states);
        if self.states.is_empty() {
            self.heap = 0;
        }
        taken
    }

    fn number(&self, state: &State) -> Result<Option<Numeric>, SqlError> {
        match state {
            State::Few { count: 0, .. } => Ok(None),
            State::Few { sum, count } => {
                let total = Numeric::from_scaled(*sum, self.scale()).map_err(numeric_error)?;
                match self.kind {
                    Kind::Avg => total.div(&Numeric::from(*count)).map(Some).map_err(numeric_error),
                    _ => Ok(Some(total)),
                }
            }
            State::Full(moments) => self.kind.answer(moments),
            State::Float(_) => Ok(None),
        }
    }

    fn finish(&mut self, emit: EmitTo) -> Result<ArrayRef, SqlError> {
        let states = self.take(emit);
        let what = self.kind.float();
        let float = |state: &State| match state {
            State::Float(state) => state.result(what),
            _ => None,
        };
        Ok(match &self.returns {
            DataType::Float64 => Arc::new(states.iter().map(float).collect::<Float64Array>()),
            DataType::Float32 => Arc::new(
                states
                    .iter()
                    .map(|state| if let State::Float(state) = state { state.single_result() } else { None })
                    .collect::<Float32Array>(),
            ),
            DataType::LargeBinary => {
                let mut builder = NumericBuilder::new(states.len());
                for state in &states {
                    match state {
                        State::Few { sum, count: 1.. } if self.kind == Kind::Sum => {
                            builder.push_scaled(*sum, self.scale() as u16);
                        }
                        state => builder.push(self.number(state)?.as_ref()),
                    }
                }
                builder.finish()
            }
            returns => {
                let values = states.iter().map(|state| scalar(self.number(state)?, returns));
                let values = values.collect::<Result<Vec<ScalarValue>, SqlError>>()?;
                if values.is_empty() {
                    new_empty_array(returns)
                } else {
                    ScalarValue::iter_to_array(values).map_err(|error| crate::errors::from_datafusion(error, ""))?
                }
            }
        })
    }

    fn bytes(&self, state: &State) -> Vec<u8> {
        match state {
            State::Few { sum, count } => {
                let mut moments = Moments::new(false, false);
                moments.add_sum(*sum, self.scale(), *count);
                moments.to_bytes()
            }
            State::Full(moments) => moments.to_bytes(),
            State::Float(state) => state.to_bytes(),
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
        self.resize(total);
        self.update(&values[0], groups, filter).map_err(to_datafusion)
    }
    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        self.finish(emit).map_err(to_datafusion)
    }
    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let states = self.take(emit);
        let array: BinaryArray = states.iter().map(|state| Some(self.bytes(state))).collect();
        Ok(vec![Arc::new(array)])
    }
    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.resize(total);
        let (kind, scale) = (self.kind, self.scale());
        for (bytes, group) in values[0].as_binary::<i32>().iter().zip(groups) {
            let Some(bytes) = bytes else { continue };
            let state = &mut self.states[*group];
            if let State::Float(state) = state {
                state.merge(&FloatState::from_bytes(bytes), kind.float()).map_err(to_datafusion)?;
                continue;
            }
            let other = Moments::from_bytes(bytes).map_err(|error| to_datafusion(numeric_error(error)))?;
            if let Some(state) = Self::full(state, scale, kind.squares()) {
                state.merge(&other);
            }
        }
        Ok(())
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let mut each = Self::new(self.kind, self.input, self.returns.clone());
        let rows = values[0].len();
        let groups: Vec<usize> = (0..rows).collect();
        each.update_batch(values, &groups, filter, rows)?;
        each.state(EmitTo::All)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.states.capacity() * size_of::<State>() + self.heap
    }
}
