//! Casts to types of users, what domains demand, and ranges of labels. Each is made for the statement that calls it, as its type is: it
//! knows no session, and asks for the type where it runs.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, TimestampSecondArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, FieldRef, TimestampSecondType};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::errors::{from_arrow, to_datafusion};
use crate::types::{field_of_oid, type_by_oid};
use crate::user_types::{Constraint, labels_of, violated};
use crate::wire::SqlError;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// A text as a value of the type, or an array of such.
    Cast,
    /// The labels from the one to the other.
    Range,
}

#[derive(Debug)]
struct OfType {
    what: What,
    /// Oid of the type, of the enumerated type of the labels.
    oid: u32,
    name: String,
    returns: FieldRef,
    signature: Signature,
}

impl PartialEq for OfType {
    fn eq(&self, other: &Self) -> bool {
        (self.what, self.oid) == (other.what, other.oid)
    }
}
impl Eq for OfType {}
impl Hash for OfType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.what, self.oid).hash(state);
    }
}

/// A cast to the type with that oid, of texts; `None` if it is not known here.
pub fn cast_to_user_type(oid: u32) -> Option<ScalarUDF> {
    made(What::Cast, oid, oid, format!("cast_to_{}", type_by_oid(oid)?.name))
}

/// `enum_range(from, to)` of the enumerated type with that oid.
pub fn enum_range(oid: u32) -> Option<ScalarUDF> {
    made(What::Range, oid, type_by_oid(oid)?.array, "enum_range".to_owned())
}

fn made(what: What, oid: u32, returns: u32, name: String) -> Option<ScalarUDF> {
    let returns = Arc::new(field_of_oid(&name, returns, -1)?);
    let signature = Signature::user_defined(Volatility::Stable);
    Some(ScalarUDF::new_from_impl(OfType { what, oid, name, returns, signature }))
}

impl OfType {
    fn compute(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef, SqlError> {
        match (self.what, args) {
            (What::Cast, [array]) => cast_array(array, self.returns.data_type(), self.oid, &Zone::Utc),
            (What::Range, [from, to]) => self.ranges(from, to, rows),
            _ => Err(SqlError::internal(format!("{} of {} arguments", self.name, args.len()))),
        }
    }

    /// NULL is no bound.
    fn ranges(&self, from: &ArrayRef, to: &ArrayRef, rows: usize) -> Result<ArrayRef, SqlError> {
        let DataType::List(item) = self.returns.data_type() else { return Err(SqlError::internal("no list")) };
        let labels = labels_of(self.oid, None)?;
        let bound = |array: &ArrayRef, row: usize| {
            let values = array.as_primitive_opt::<TimestampSecondType>()?;
            values.is_valid(row).then(|| values.value(row))
        };
        let (mut numbers, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            let range = labels.range(bound(from, row), bound(to, row))?;
            lengths.push(range.len());
            numbers.extend(range);
        }
        let numbers = TimestampSecondArray::from(numbers).with_data_type(item.data_type().clone());
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = ListArray::try_new(Arc::clone(item), offsets, Arc::new(numbers), None::<NullBuffer>);
        Ok(Arc::new(lists.map_err(|error| from_arrow(&error))?))
    }
}

impl ScalarUDFImpl for OfType {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(types.to_vec())
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.data_type().clone())
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::clone(&self.returns))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<DfResult<Vec<_>>>()?;
        let out = self.compute(&arrays, rows).map_err(to_datafusion)?;
        match scalar {
            true => Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&out, 0)?)),
            false => Ok(ColumnarValue::Array(out)),
        }
    }
}

/// `domain_check(value, condition, …)`: the value, unless a condition is false.
#[derive(Debug)]
struct DomainCheck {
    /// One for each condition.
    constraints: Vec<Constraint>,
    returns: FieldRef,
    signature: Signature,
}

impl PartialEq for DomainCheck {
    fn eq(&self, other: &Self) -> bool {
        self.constraints == other.constraints && self.returns == other.returns
    }
}
impl Eq for DomainCheck {}
impl Hash for DomainCheck {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.constraints.len().hash(state);
    }
}

/// A check of values of that Arrow type: its arguments are the value and, for each constraint, whether it holds.
pub fn domain_check(constraints: Vec<Constraint>, value: FieldRef) -> ScalarUDF {
    let returns = Arc::new(value.as_ref().clone().with_name("domain_check").with_nullable(true));
    let signature = Signature::user_defined(Volatility::Stable);
    ScalarUDF::new_from_impl(DomainCheck { constraints, returns, signature })
}

impl ScalarUDFImpl for DomainCheck {
    fn name(&self) -> &str {
        "domain_check"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(types.to_vec())
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.data_type().clone())
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::clone(&self.returns))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let mut args_of_rows = args.args.into_iter();
        let Some(value) = args_of_rows.next() else {
            return Err(to_datafusion(SqlError::internal("domain_check of nothing")));
        };
        for (constraint, condition) in self.constraints.iter().zip(args_of_rows) {
            let condition = condition.into_array(args.number_rows)?;
            let Some(holds) = condition.as_boolean_opt() else { continue };
            if (0..holds.len()).any(|row| holds.is_valid(row) && !holds.value(row)) {
                return Err(to_datafusion(violated(constraint)));
            }
        }
        Ok(value)
    }
}
