//! `sum`, `avg`, `min`, `max` and the variances as PostgreSQL types and computes them.
//!
//! | argument | sum | avg | variances, deviations |
//! |---|---|---|---|
//! | smallint, integer | bigint | numeric | numeric |
//! | bigint, numeric | numeric | numeric | numeric |
//! | real | real | double precision | double precision |
//! | double precision | double precision | double precision | double precision |
//!
//! A `numeric` result is dynamic, but the sum of a column `numeric(p,s)` with p ≤ 19 is fixed: no number of rows
//! makes it too long for 38 digits. Exact sums do not depend on the order of the rows; floats are added in the
//! order in which they come, and in a moving frame anew for each row, as PostgreSQL does.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use resurgam_numeric::aggregate::Moments;
use resurgam_numeric::{Numeric, key};

use super::column::{DYNAMIC, Numbers, numeric_error};
use super::floats::{FloatResult, FloatState};
use super::groups::Groups;
use crate::errors::to_datafusion;
use crate::types::{NUMERIC_PRECISION, NUMERIC_SCALE, arrow_oid, format_type};
use crate::wire::SqlError;

/// What is asked of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Sum,
    Avg,
    Variance { sample: bool, root: bool },
    Min,
    Max,
}

/// What the argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Integer,
    /// With that scale, which all values show.
    Fixed(i32),
    /// Dynamic, or of a column that does not keep what its values show.
    Numeric,
    Float32,
    Float64,
}

/// Most digits of a column whose sum is sure to have no more than 38.
const SURE_PRECISION: u8 = 19;

impl Input {
    pub(super) fn of(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Integer,
            DataType::Decimal128(NUMERIC_PRECISION, scale) if *scale == NUMERIC_SCALE as i8 => Self::Numeric,
            DataType::Decimal128(_, scale) if *scale >= 0 => Self::Fixed((*scale).into()),
            DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::LargeBinary => Self::Numeric,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            _ => return None,
        })
    }
}

impl Kind {
    pub(super) fn float(self) -> FloatResult {
        match self {
            Self::Avg => FloatResult::Avg,
            Self::Variance { sample, root } => FloatResult::Variance { sample, root },
            _ => FloatResult::Sum,
        }
    }

    pub(super) fn squares(self) -> bool {
        matches!(self, Self::Variance { .. })
    }

    fn returns(self, ty: &DataType) -> Option<DataType> {
        Some(match (self, ty, Input::of(ty)?) {
            (Self::Min | Self::Max, DataType::LargeBinary, _) => DYNAMIC,
            (Self::Min | Self::Max, ..) => return None,
            (Self::Sum, DataType::Int16 | DataType::Int32, _) => DataType::Int64,
            (Self::Sum, DataType::Decimal128(precision, scale), Input::Fixed(_)) if *precision <= SURE_PRECISION => {
                DataType::Decimal128(38, *scale)
            }
            (Self::Sum, DataType::Float32, _) => DataType::Float32,
            (_, _, Input::Float32 | Input::Float64) => DataType::Float64,
            _ => DYNAMIC,
        })
    }

    /// The result of exact sums.
    pub(super) fn answer(self, state: &Moments) -> Result<Option<Numeric>, SqlError> {
        match self {
            Self::Avg => state.avg(),
            Self::Variance { sample, root } => state.variance(sample, root),
            _ => state.sum(),
        }
        .map_err(numeric_error)
    }
}

/// One result of the type that the aggregate has.
pub(super) fn scalar(value: Option<Numeric>, ty: &DataType) -> Result<ScalarValue, SqlError> {
    Ok(match ty {
        DataType::Int64 => ScalarValue::Int64(value.map(|value| value.to_i64()).transpose().map_err(numeric_error)?),
        DataType::Decimal128(precision, scale) => {
            let unscaled = |value: Numeric| value.as_dec().map(|dec| dec.trunc((*scale).into()).coef.clone());
            match value.and_then(unscaled) {
                None => ScalarValue::Decimal128(None, *precision, *scale),
                Some(resurgam_numeric::coef::Coef::Small(value)) => {
                    ScalarValue::Decimal128(Some(value), *precision, *scale)
                }
                Some(_) => return Err(SqlError::new("22003", "numeric field overflow")),
            }
        }
        _ => ScalarValue::LargeBinary(value.map(|value| value.encoded())),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PgAggregate {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

pub(super) fn all() -> Vec<(&'static str, AggregateUDF)> {
    let variance = |sample, root| Kind::Variance { sample, root };
    [
        ("sum", Kind::Sum),
        ("avg", Kind::Avg),
        ("min", Kind::Min),
        ("max", Kind::Max),
        ("var_pop", variance(false, false)),
        ("var_samp", variance(true, false)),
        ("variance", variance(true, false)),
        ("stddev_pop", variance(false, true)),
        ("stddev_samp", variance(true, true)),
        ("stddev", variance(true, true)),
    ]
    .into_iter()
    .map(|(name, kind)| {
        // Those of other types are DataFusion's.
        let known = match kind {
            Kind::Min => "numeric_min",
            Kind::Max => "numeric_max",
            _ => name,
        };
        let signature = Signature::user_defined(Volatility::Immutable);
        (name, AggregateUDF::new_from_impl(PgAggregate { name: known, aliases: vec![], kind, signature }))
    })
    .collect()
}

impl PgAggregate {
    fn no_function(&self, types: &[DataType]) -> SqlError {
        if matches!((self.kind, types), (Kind::Sum | Kind::Avg, [DataType::Interval(_) | DataType::Duration(_)])) {
            return SqlError::unsupported(format!("{} of intervals is not supported", self.name));
        }
        let types: Vec<String> = types.iter().map(|ty| format_type(arrow_oid(ty), None)).collect();
        SqlError::new("42883", format!("function {}({}) does not exist", self.name, types.join(", "))).with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        )
    }

    fn input(&self, args: &AccumulatorArgs<'_>) -> DfResult<Input> {
        let ty = args.expr_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        Input::of(&ty).ok_or_else(|| to_datafusion(self.no_function(&[ty])))
    }

    fn one(&self, args: &AccumulatorArgs<'_>, moving: bool) -> DfResult<Box<dyn Accumulator>> {
        let input = self.input(args)?;
        let returns = args.return_field.data_type().clone();
        let seen = args.is_distinct.then(HashSet::new);
        Ok(match (self.kind, input) {
            (Kind::Min | Kind::Max, _) => {
                Box::new(Extreme { largest: self.kind == Kind::Max, moving, frame: VecDeque::new() })
            }
            (kind, Input::Float32 | Input::Float64) => Box::new(FloatOne {
                what: kind.float(),
                single: input == Input::Float32,
                state: FloatState::default(),
                seen: seen.map(|_| HashSet::new()),
                frame: moving.then(VecDeque::new),
            }),
            (kind, input) => {
                Box::new(ExactOne { kind, input, returns, state: Moments::new(kind.squares(), moving), seen })
            }
        })
    }
}

impl AggregateUDFImpl for PgAggregate {
    fn name(&self) -> &str {
        self.name
    }
    fn aliases(&self) -> &[String] {
        &self.aliases
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        // What does not fit is refused by `return_type`: errors here are wrapped in words.
        let [ty] = types else { return Ok(types.to_vec()) };
        let ty = match ty {
            DataType::UInt8 | DataType::Int8 => DataType::Int16,
            DataType::UInt16 => DataType::Int32,
            DataType::UInt32 | DataType::UInt64 => DataType::Int64,
            DataType::Null => DataType::Float64,
            other => other.clone(),
        };
        Ok(vec![ty])
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        let returns = if let [ty] = types { self.kind.returns(ty) } else { None };
        returns.ok_or_else(|| to_datafusion(self.no_function(types)))
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        self.one(&args, false)
    }
    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        self.one(&args, true)
    }
    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct && !matches!(self.kind, Kind::Min | Kind::Max) && self.input(&args).is_ok()
    }
    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        let returns = args.return_field.data_type().clone();
        Ok(Box::new(Groups::new(self.kind, self.input(&args)?, returns)))
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[state]", args.name), DataType::Binary, true))])
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        None
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// States as they are exchanged: each a list of byte strings in one.
fn pack<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

fn unpack(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(4) {
        let length = head.iter().rev().fold(0usize, |length, byte| (length << 8) | usize::from(*byte));
        let Some((part, rest)) = rest.split_at_checked(length) else { break };
        parts.push(part);
        bytes = rest;
    }
    parts
}

/// Sums of exact numbers without groups, or in a window.
#[derive(Debug)]
struct ExactOne {
    kind: Kind,
    input: Input,
    returns: DataType,
    state: Moments,
    /// With DISTINCT: the keys that were there.
    seen: Option<HashSet<Vec<u8>>>,
}

impl ExactOne {
    fn change(&mut self, array: &ArrayRef, add: bool) -> Result<(), SqlError> {
        let simple = self.seen.is_none();
        if let (Input::Integer | Input::Fixed(_), true) = (self.input, simple) {
            let scale = if let Input::Fixed(scale) = self.input { scale } else { 0 };
            super::groups::each_integer(array, |_, value| {
                if add { self.state.add_scaled(value, scale) } else { self.state.remove_scaled(value, scale) }
            });
            return Ok(());
        }
        let numbers = Numbers::of(array.as_ref())?;
        for row in 0..array.len() {
            let Some(value) = numbers.get(row)? else { continue };
            if let Some(seen) = &mut self.seen {
                let mut key = Vec::new();
                value.write_key(&mut key);
                if !seen.insert(key) {
                    continue;
                }
            }
            if add { self.state.add(&value) } else { self.state.remove(&value) }
        }
        Ok(())
    }
}

impl Accumulator for ExactOne {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.change(&values[0], true).map_err(to_datafusion)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.change(&values[0], false).map_err(to_datafusion)
    }
    fn supports_retract_batch(&self) -> bool {
        self.seen.is_none()
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let value = self.kind.answer(&self.state).map_err(to_datafusion)?;
        scalar(value, &self.returns).map_err(to_datafusion)
    }
    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, |seen| seen.iter().map(|key| key.capacity() + 48).sum());
        size_of_val(self) + self.state.size() + seen
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let bytes = match &self.seen {
            None => pack(std::iter::once(self.state.to_bytes().as_slice())),
            Some(seen) => pack(seen.iter().map(Vec::as_slice)),
        };
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let read = |bytes: &[u8]| Moments::from_bytes(bytes).map_err(|error| to_datafusion(numeric_error(error)));
        for bytes in states[0].as_binary::<i32>().iter().flatten() {
            for part in unpack(bytes) {
                match &mut self.seen {
                    None => self.state.merge(&read(part)?),
                    Some(seen) => {
                        if seen.insert(part.to_vec()) {
                            let value = key::read_key(part, 0).map_err(|error| to_datafusion(numeric_error(error)))?;
                            self.state.add(&value);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sums of floats without groups, or in a window.
#[derive(Debug)]
struct FloatOne {
    what: FloatResult,
    single: bool,
    state: FloatState,
    seen: Option<HashSet<u64>>,
    /// In a moving frame: its values.
    frame: Option<VecDeque<f64>>,
}

impl FloatOne {
    fn add(state: &mut FloatState, value: f64, what: FloatResult, single: bool) -> Result<(), SqlError> {
        if single { state.add_single(value as f32, what) } else { state.add(value, what) }
    }

    fn each(
        array: &ArrayRef,
        single: bool,
        mut visit: impl FnMut(f64) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        match single {
            true => array.as_primitive::<Float32Type>().iter().flatten().try_for_each(|value| visit(value.into())),
            false => array.as_primitive::<Float64Type>().iter().flatten().try_for_each(visit),
        }
    }
}

impl Accumulator for FloatOne {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let Self { what, single, state, seen, frame } = self;
        Self::each(&values[0], *single, |value| {
            if let Some(seen) = seen
                && !seen.insert((value + 0.0).to_bits())
            {
                return Ok(());
            }
            match frame {
                Some(frame) => {
                    frame.push_back(value);
                    Ok(())
                }
                None => Self::add(state, value, *what, *single),
            }
        })
        .map_err(to_datafusion)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        if let Some(frame) = &mut self.frame {
            let gone = values[0].len() - values[0].null_count();
            frame.drain(..gone.min(frame.len()));
        }
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        self.frame.is_some() && self.seen.is_none()
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if let Some(frame) = &self.frame {
            self.state = FloatState::default();
            for value in frame {
                Self::add(&mut self.state, *value, self.what, self.single).map_err(to_datafusion)?;
            }
        }
        Ok(self.state.scalar(self.what, self.single))
    }
    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, |seen| seen.capacity() * 16);
        size_of_val(self) + seen + self.frame.as_ref().map_or(0, |frame| frame.capacity() * 8)
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let bytes = match &self.seen {
            None => self.state.to_bytes(),
            Some(seen) => seen.iter().flat_map(|bits| bits.to_le_bytes()).collect(),
        };
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for bytes in states[0].as_binary::<i32>().iter().flatten() {
            match &mut self.seen {
                None => self.state.merge(&FloatState::from_bytes(bytes), self.what).map_err(to_datafusion)?,
                Some(seen) => {
                    for raw in bytes.chunks_exact(8) {
                        let bits = u64::from_le_bytes(raw.try_into().unwrap_or_default());
                        if seen.insert(bits) {
                            Self::add(&mut self.state, f64::from_bits(bits), self.what, self.single)
                                .map_err(to_datafusion)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The least or largest dynamic numeric; of equal ones the last.
#[derive(Debug)]
struct Extreme {
    largest: bool,
    moving: bool,
    /// What can still become the answer: in a moving frame its values, otherwise the answer so far.
    frame: VecDeque<Vec<u8>>,
}

impl Extreme {
    /// Whether the second is to be taken rather than the first.
    fn better(&self, old: &[u8], new: &[u8]) -> bool {
        let order = key::key_of(new).cmp(key::key_of(old));
        if self.largest { order.is_ge() } else { order.is_le() }
    }
    fn push(&mut self, value: &[u8]) {
        if self.moving {
            return self.frame.push_back(value.to_vec());
        }
        let replace = self.frame.front().is_none_or(|old| self.better(old, value));
        if replace {
            self.frame.clear();
            self.frame.push_back(value.to_vec());
        }
    }
    fn best(&self) -> Option<Vec<u8>> {
        let mut best: Option<&Vec<u8>> = None;
        for value in &self.frame {
            if best.is_none_or(|best| self.better(best, value)) {
                best = Some(value);
            }
        }
        best.cloned()
    }
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        values[0].as_binary::<i64>().iter().flatten().for_each(|value| self.push(value));
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let gone = values[0].len() - values[0].null_count();
        self.frame.drain(..gone.min(self.frame.len()));
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        self.moving
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(ScalarValue::LargeBinary(self.best()))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.frame.iter().map(|value| value.capacity() + 24).sum::<usize>()
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(self.best())])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        states[0].as_binary::<i32>().iter().flatten().for_each(|value| self.push(value));
        Ok(())
    }
}
