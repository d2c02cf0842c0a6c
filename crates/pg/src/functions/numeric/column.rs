//! Columns of numbers, read as `numeric` whatever holds them, and `numeric` columns made.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use resurgam_numeric::{Numeric, key};

use crate::types::{NUMERIC_PRECISION, NUMERIC_SCALE, arrow_oid, format_type};
use crate::wire::SqlError;

/// The Arrow form of a `numeric` whose digits its type does not say.
pub const DYNAMIC: DataType = DataType::LargeBinary;

/// An error of the arithmetic as one of SQL.
#[cold]
pub fn numeric_error(error: resurgam_numeric::Error) -> SqlError {
    let out = SqlError::new(error.code, error.message.into_owned());
    match error.detail {
        Some(detail) => out.with_detail(detail),
        None => out,
    }
}

/// A column of numbers.
pub enum Numbers<'a> {
    Null,
    Dynamic(&'a LargeBinaryArray),
    /// Integers over a power of ten; `trim` where the column does not keep the digits that its values show.
    Fixed {
        array: &'a Decimal128Array,
        scale: i32,
        trim: bool,
    },
    /// What DataFusion makes of literals of more than 38 digits.
    Wide(&'a Decimal256Array, i32),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    Oid(&'a UInt32Array),
    UInt64(&'a UInt64Array),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Text(&'a StringViewArray),
}

/// Whether a column of that type can be read as numbers without a cast: a float is not a `numeric`.
pub fn is_exact_number(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt64
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::LargeBinary
    )
}

impl<'a> Numbers<'a> {
    /// Of an array of integers, floats, numerics in either form, or texts to be read as `numeric`.
    ///
    /// # Errors
    /// 42883 for other types.
    pub fn of(array: &'a dyn Array) -> Result<Self, SqlError> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::LargeBinary => Self::Dynamic(array.as_binary::<i64>()),
            DataType::Decimal128(precision, scale) => Self::Fixed {
                array: array.as_primitive(),
                scale: i32::from(*scale),
                trim: *precision == NUMERIC_PRECISION && *scale == NUMERIC_SCALE as i8,
            },
            DataType::Decimal256(_, scale) => Self::Wide(array.as_primitive(), i32::from(*scale)),
            DataType::Int16 => Self::Int16(array.as_primitive()),
            DataType::Int32 => Self::Int32(array.as_primitive()),
            DataType::Int64 => Self::Int64(array.as_primitive()),
            DataType::UInt32 => Self::Oid(array.as_primitive()),
            DataType::UInt64 => Self::UInt64(array.as_primitive()),
            DataType::Float32 => Self::Float32(array.as_primitive()),
            DataType::Float64 => Self::Float64(array.as_primitive()),
            DataType::Utf8View => Self::Text(array.as_string_view()),
            other => {
                let name = format_type(arrow_oid(other), None);
                return Err(SqlError::new("42883", format!("a value of type {name} is not a number")));
            }
        })
    }

    /// The value of a row; `None` for null.
    ///
    /// # Errors
    /// 22P02 and 22003 of texts; XX001 of bytes that are no numeric.
    pub fn get(&self, row: usize) -> Result<Option<Numeric>, SqlError> {
        fn valid<A: Array>(array: &A, row: usize) -> bool {
            array.is_valid(row)
        }
        Ok(match self {
            Self::Null => None,
            Self::Dynamic(array) if valid(*array, row) => {
                Some(Numeric::decode(array.value(row)).map_err(numeric_error)?)
            }
            Self::Fixed { array, scale, trim } if valid(*array, row) => {
                let value = Numeric::from_scaled(array.value(row), *scale).map_err(numeric_error)?;
                Some(if *trim { value.trim_scale() } else { value })
            }
            Self::Wide(array, scale) if valid(*array, row) => {
                Some(Numeric::from_scaled_bytes(&array.value(row).to_le_bytes(), *scale).map_err(numeric_error)?)
            }
            Self::Int16(array) if valid(*array, row) => Some(array.value(row).into()),
            Self::Int32(array) if valid(*array, row) => Some(array.value(row).into()),
            Self::Int64(array) if valid(*array, row) => Some(array.value(row).into()),
            Self::Oid(array) if valid(*array, row) => Some(array.value(row).into()),
            Self::UInt64(array) if valid(*array, row) => Some(array.value(row).into()),
            Self::Float32(array) if valid(*array, row) => Some(Numeric::from_f32(array.value(row))),
            Self::Float64(array) if valid(*array, row) => Some(Numeric::from_f64(array.value(row))),
            Self::Text(array) if valid(*array, row) => {
                Some(Numeric::parse(array.value(row), None).map_err(numeric_error)?)
            }
            _ => None,
        })
    }

    /// The key of a row's value, by which it compares; `scratch` holds it where it has to be made.
    ///
    /// # Errors
    /// As [`Numbers::get`].
    pub fn key<'s>(&'s self, row: usize, scratch: &'s mut Vec<u8>) -> Result<Option<&'s [u8]>, SqlError> {
        scratch.clear();
        match self {
            Self::Dynamic(array) => return Ok(array.is_valid(row).then(|| key::key_of(array.value(row)))),
            Self::Fixed { array, scale, .. } if array.is_valid(row) => {
                key::write_scaled_key(array.value(row), *scale, scratch);
            }
            _ => match self.get(row)? {
                Some(value) => value.write_key(scratch),
                None => return Ok(None),
            },
        }
        Ok((!scratch.is_empty()).then_some(scratch.as_slice()))
    }
}

/// A dynamic column, value by value.
pub struct NumericBuilder {
    builder: LargeBinaryBuilder,
    scratch: Vec<u8>,
}

impl NumericBuilder {
    /// With room for so many ordinary values.
    pub fn new(rows: usize) -> Self {
        Self { builder: LargeBinaryBuilder::with_capacity(rows, rows * 11), scratch: Vec::with_capacity(32) }
    }
    /// Appends a value.
    pub fn push(&mut self, value: Option<&Numeric>) {
        match value {
            Some(value) => {
                self.scratch.clear();
                value.write_encoded(&mut self.scratch);
                self.builder.append_value(&self.scratch);
            }
            None => self.builder.append_null(),
        }
    }
    /// Appends `value` / 10^`scale`.
    pub fn push_scaled(&mut self, value: i128, scale: u16) {
        self.scratch.clear();
        key::write_scaled(value, scale, &mut self.scratch);
        self.builder.append_value(&self.scratch);
    }
    /// The column.
    pub fn finish(mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

/// A dynamic column of what `value` says for each row.
///
/// # Errors
/// Those of `value`.
pub fn collect(
    rows: usize,
    mut value: impl FnMut(usize) -> Result<Option<Numeric>, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let mut builder = NumericBuilder::new(rows);
    for row in 0..rows {
        builder.push(value(row)?.as_ref());
    }
    Ok(builder.finish())
}

/// Any column of numbers in the dynamic form.
///
/// # Errors
/// As [`Numbers::get`].
pub fn to_dynamic(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    match Numbers::of(array.as_ref())? {
        Numbers::Dynamic(_) => Ok(Arc::clone(array)),
        Numbers::Fixed { array, scale, trim: false } if scale >= 0 => {
            let mut builder = NumericBuilder::new(array.len());
            for value in array {
                match value {
                    Some(value) => builder.push_scaled(value, scale as u16),
                    None => builder.push(None),
                }
            }
            Ok(builder.finish())
        }
        numbers => collect(array.len(), |row| numbers.get(row)),
    }
}
