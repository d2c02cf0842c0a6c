//! `array_fill`, and `width_bucket` of an array of bounds.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;

use super::arrays::{ELEMENTS_MAX, elements, ordering};
use super::define::{Call, P, PgFunction, Returns, f, oid};
use super::numeric::column::Numbers;
use super::numeric::{DYNAMIC, to_dynamic};
use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::errors::{from_arrow, from_datafusion};
use crate::memory;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Dimensions that an array may have.
const DIMENSIONS_MAX: usize = 6;

fn wrong_subscripts() -> SqlError {
    SqlError::new("2202E", "wrong number of array subscripts")
}

/// The numbers of an argument that says dimensions or where they begin.
fn numbers(call: &Call<'_>, at: usize, row: usize) -> Result<Vec<i32>, SqlError> {
    let Some(values) = elements(&call.arrays[at], row)? else {
        return Err(SqlError::new("22004", "dimension array or low bound array cannot be null"));
    };
    let number = |value: ScalarValue| match value {
        ScalarValue::Int32(Some(number)) => Ok(number),
        ScalarValue::List(_) => Err(wrong_subscripts()),
        _ => Err(SqlError::new("22004", "dimension values cannot be null")),
    };
    values.into_iter().map(number).collect()
}

/// How many elements a row's array shall have.
fn count(call: &Call<'_>, row: usize) -> Result<usize, SqlError> {
    let begins_given = call.given(2);
    if begins_given && (call.arrays[2].data_type().is_null() || call.arrays[2].is_null(row)) {
        return Err(SqlError::new("22004", "dimension array or low bound array cannot be null"));
    }
    let lengths = numbers(call, 1, row)?;
    if lengths.len() > DIMENSIONS_MAX {
        let count = lengths.len();
        let text = format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
        return Err(SqlError::new("54000", text));
    }
    let begins = if begins_given { numbers(call, 2, row)? } else { vec![1; lengths.len()] };
    if begins.len() != lengths.len() {
        return Err(wrong_subscripts().with_detail("Low bound array has different size than dimensions array."));
    }
    let mut count = usize::from(!lengths.is_empty());
    for length in &lengths {
        let more = usize::try_from(*length).ok().and_then(|length| count.checked_mul(length));
        count = more.filter(|count| *count <= ELEMENTS_MAX).ok_or_else(|| {
            SqlError::new("54000", format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"))
        })?;
    }
    if count > 0 && lengths.len() > 1 {
        return Err(SqlError::unsupported("an array of several dimensions is not supported"));
    }
    if count > 0 && begins != [1] {
        return Err(SqlError::unsupported("an array that does not begin at 1 is not supported"));
    }
    Ok(count)
}

/// `array_fill`: of one value as many as are wanted, also where it is NULL.
fn filled(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let DataType::List(field) = call.returns.data_type() else {
        return Err(SqlError::internal("an array that is none"));
    };
    let given = &call.arrays[0];
    let given = match given.data_type() == field.data_type() {
        true => Arc::clone(given),
        false if *field.data_type() == DYNAMIC => to_dynamic(given)?,
        false => datafusion::arrow::compute::cast(given, field.data_type()).map_err(|error| from_arrow(&error))?,
    };
    let length = |row: usize| match given.as_string_view_opt() {
        Some(texts) if texts.is_valid(row) => texts.value(row).len(),
        _ => 0,
    };
    let (mut places, mut lengths, mut bytes) = (Vec::new(), Vec::with_capacity(call.rows), 0usize);
    for row in 0..call.rows {
        crate::running::check()?;
        let count = count(call, row)?;
        let all = count.saturating_mul(size_of::<u128>() + length(row));
        memory::value(all)?;
        bytes = bytes.saturating_add(all);
        memory::column(call.rows, bytes)?;
        places.extend(std::iter::repeat_n(row as u32, count));
        lengths.push(count);
    }
    let values = take(&given, &UInt32Array::from(places), None).map_err(|error| from_arrow(&error))?;
    let field = Arc::new(field.as_ref().clone().with_nullable(true));
    let out = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, None);
    Ok(Arc::new(out.map_err(|error| from_arrow(&error))?))
}

/// An array of the first argument's type.
fn array_of_first(fields: &[FieldRef]) -> FieldRef {
    let element = fields.first().map(|field| field.data_type().clone()).filter(|ty| !ty.is_null());
    let element = match element {
        // Elements show digits of their own.
        Some(DataType::Decimal128(..) | DataType::Decimal256(..)) => DYNAMIC,
        element => element.unwrap_or(DataType::Utf8View),
    };
    let ty = DataType::new_list(element, true);
    Arc::new(Field::new("", ty, true))
}

/// How a row's operand compares to a bound among those of all rows.
type Compare<'a> = Box<dyn Fn(usize, usize) -> Result<Ordering, SqlError> + 'a>;

fn comparison<'a>(operands: &'a ArrayRef, bounds: &'a ArrayRef) -> Result<Compare<'a>, SqlError> {
    let refused = || SqlError::unsupported("width_bucket of bounds of this type is not supported");
    let (left, right) = (operands.data_type(), bounds.data_type());
    if left.is_floating() && right.is_floating() {
        let wide = |array: &ArrayRef| cast_array(array, &DataType::Float64, t::FLOAT8, &Zone::Utc);
        let (operands, bounds) = (wide(operands)?, wide(bounds)?);
        return Ok(Box::new(move |row: usize, at: usize| {
            let a = operands.as_primitive::<Float64Type>().value(row);
            let b = bounds.as_primitive::<Float64Type>().value(at);
            // NaN is above all.
            Ok(a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())))
        }));
    }
    let is_number = |ty: &DataType| !ty.is_floating() && (ty.is_numeric() || *ty == DYNAMIC);
    if is_number(left) && is_number(right) {
        let (operands, bounds) = (Numbers::of(operands.as_ref())?, Numbers::of(bounds.as_ref())?);
        return Ok(Box::new(move |row: usize, at: usize| Ok(operands.get(row)?.cmp(&bounds.get(at)?))));
    }
    let is_ordered = matches!(
        left,
        DataType::Utf8View | DataType::Boolean | DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(..)
    );
    if left != right || !is_ordered {
        return Err(refused());
    }
    Ok(Box::new(move |row: usize, at: usize| {
        let read = |array: &ArrayRef, at: usize| {
            ScalarValue::try_from_array(array, at).map_err(|error| from_datafusion(error, ""))
        };
        ordering(&read(operands, row)?, &read(bounds, at)?).ok_or_else(refused)
    }))
}

/// How many bounds are not above the operand; they are taken for sorted ones.
fn bucket(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let operands = &call.arrays[0];
    let Some(list) = call.arrays[1].as_list_opt::<i32>() else { return call.null() };
    let (bounds, offsets) = (list.values(), list.value_offsets());
    if matches!(bounds.data_type(), DataType::List(_)) {
        return Err(SqlError::new("2202E", "thresholds must be one-dimensional array"));
    }
    let compare = comparison(operands, bounds)?;
    call.int4s(|row| {
        if operands.is_null(row) || list.is_null(row) {
            return Ok(None);
        }
        let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
        if (from..to).any(|at| bounds.is_null(at)) {
            return Err(SqlError::new("22004", "thresholds array must not contain NULLs"));
        }
        let (mut left, mut right) = (0, to - from);
        while left < right {
            let middle = (left + right) / 2;
            match compare(row, from + middle)? {
                Ordering::Less => right = middle,
                _ => left = middle + 1,
            }
        }
        Ok(Some(left as i32))
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("array_fill", &[P::Any, P::Any, P::Any], Returns::By(array_of_first), filled).required(2),
        f("width_bucket_array", &[P::Any, P::Any], oid(t::INT4), bucket),
    ]
}
