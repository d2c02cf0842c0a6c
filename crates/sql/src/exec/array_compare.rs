//! `value op ANY (array)`, `value op ALL (array)`, with PostgreSQL's NULLs.
//!
//! | | some element decides | none does, and some comparison is NULL | otherwise |
//! |---|---|---|---|
//! | ANY | true | NULL | false |
//! | ALL | false | NULL | true |
//!
//! An array that is NULL gives NULL. An array without elements has no comparison.

use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::{Column, binary};

use crate::exec::bridge;
use crate::pg::functions::numeric;

/// The function of a value and an array.
pub(crate) fn function(op: Operator, any: bool) -> ScalarUDF {
    ScalarUDF::new_from_impl(ArrayCompare { op, any, signature: Signature::any(2, Volatility::Immutable) })
}

/// How such a function compares.
pub(crate) fn operator(function: &ScalarUDF) -> Option<Operator> {
    function.inner().downcast_ref::<ArrayCompare>().map(|compare| compare.op)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayCompare {
    op: Operator,
    any: bool,
    signature: Signature,
}

/// Both in one type: elements of a narrower one become the value's.
fn alike(left: ArrayRef, right: ArrayRef) -> Result<(ArrayRef, ArrayRef)> {
    let dynamic = |array: &ArrayRef| array.data_type() == &numeric::DYNAMIC;
    if dynamic(&left) || dynamic(&right) {
        let key = |array| {
            let array = match dynamic(&array) {
                true => array,
                false => numeric::apply("numeric_dynamic", &[array])?,
            };
            numeric::apply(numeric::KEY, &[array])
        };
        return Ok((key(left).map_err(bridge::failure)?, key(right).map_err(bridge::failure)?));
    }
    let right = if left.data_type() == right.data_type() { right } else { cast(&right, left.data_type())? };
    Ok((left, right))
}

impl ScalarUDFImpl for ArrayCompare {
    fn name(&self) -> &str {
        if self.any { "any_element" } else { "all_elements" }
    }
    fn schema_name(&self, args: &[datafusion::logical_expr::Expr]) -> Result<String> {
        let [value, array] = args else { return internal_err!("a comparison of two") };
        Ok(format!("{value} {} {}({array})", self.op, if self.any { "ANY" } else { "ALL" }))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let [value, array] = arrays.as_slice() else { return internal_err!("a comparison of two") };
        let Some(lists) = array.as_list_opt::<i32>() else { return internal_err!("no array to compare with") };
        // All comparisons at once.
        let mut indices: Vec<u32> = Vec::new();
        let mut pieces: Vec<ArrayRef> = Vec::new();
        for row in 0..rows {
            if lists.is_valid(row) {
                let elements = lists.value(row);
                indices.extend(std::iter::repeat_n(row as u32, elements.len()));
                pieces.push(elements);
            }
        }
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        let found = match indices.is_empty() {
            true => BooleanArray::from(Vec::<bool>::new()),
            false => {
                let left = take(value, &UInt32Array::from(indices), None)?;
                let (left, right) = alike(left, datafusion::arrow::compute::concat(&pieces)?)?;
                compared(left, self.op, right)?
            }
        };
        let mut at = 0;
        let answers: BooleanArray = (0..rows)
            .map(|row| {
                if lists.is_null(row) {
                    return None;
                }
                let end = at + lists.value_length(row) as usize;
                let (mut decided, mut unknown) = (false, false);
                for element in at..end {
                    match found.is_valid(element) {
                        true => decided |= found.value(element) == self.any,
                        false => unknown = true,
                    }
                }
                at = end;
                match (decided, unknown) {
                    (true, _) => Some(self.any),
                    (false, true) => None,
                    (false, false) => Some(!self.any),
                }
            })
            .collect();
        let answers: ArrayRef = Arc::new(answers);
        Ok(match scalar {
            true => ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(answers),
        })
    }
}

fn compared(left: ArrayRef, op: Operator, right: ArrayRef) -> Result<BooleanArray> {
    let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field("left", &left), field("right", &right)]));
    let compare = binary(Arc::new(Column::new("left", 0)), op, Arc::new(Column::new("right", 1)), &schema)?;
    let rows = left.len();
    let batch = RecordBatch::try_new(schema, vec![left, right])?;
    let found = compare.evaluate(&batch)?.into_array(rows)?;
    match found.as_boolean_opt() {
        Some(found) => Ok(found.clone()),
        None => internal_err!("a comparison without a truth"),
    }
}
