//! `order_key(value)`: bytes that compare as PostgreSQL compares documents and arrays.
//!
//! Documents have one by [`resurgam_engine::document::order_key`]; arrays by their elements (NULL above all), the shorter
//! first (PostgreSQL's `array_cmp`); elements as keys of indexes have them.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use resurgam_engine::{ColumnType, DatumRef, document, key};

use super::define::{P, PgFunction, f, oid};
use crate::arrow::DatumColumn;
use crate::types::oid as t;
use crate::wire::SqlError;

/// The function's name.
pub const NAME: &str = "order_key";

/// A column type whose values are of that Arrow type: what its keys are made by.
fn column_type(ty: &DataType) -> Option<ColumnType> {
    Some(match ty {
        DataType::Boolean => ColumnType::Bool,
        DataType::Int16 => ColumnType::Int2,
        DataType::Int32 => ColumnType::Int4,
        DataType::Int64 => ColumnType::Int8,
        DataType::Float32 => ColumnType::Float4,
        DataType::Float64 => ColumnType::Float8,
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            ColumnType::Numeric { precision: *precision, scale: *scale }
        }
        DataType::LargeBinary => ColumnType::VarNumeric(None),
        DataType::Utf8View => ColumnType::Text,
        DataType::BinaryView => ColumnType::Bytes,
        DataType::Binary => ColumnType::Jsonb,
        DataType::Date32 => ColumnType::Date,
        DataType::Time64(TimeUnit::Microsecond) => ColumnType::Time(None),
        DataType::Timestamp(TimeUnit::Microsecond, None) => ColumnType::Timestamp(None),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => ColumnType::TimestampTz(None),
        DataType::Interval(IntervalUnit::MonthDayNano) => ColumnType::Interval(None),
        _ => return None,
    })
}

/// Appends the key of an element, which tells where it ends.
fn put_element(values: &Elements<'_>, at: usize, out: &mut Vec<u8>) -> Result<(), SqlError> {
    match values {
        Elements::Plain(column, ty) => match column.get(at)? {
            DatumRef::Null => out.push(2),
            value => key::encode_unbounded(value, *ty, out)?,
        },
        Elements::Oids(array) if array.is_null(at) => out.push(2),
        Elements::Oids(array) => {
            out.push(1);
            out.extend_from_slice(&array.value(at).to_be_bytes());
        }
        Elements::Lists(list, _) if list.is_null(at) => out.push(2),
        Elements::Lists(list, inner) => {
            let (mut dimensions, mut leaves) = (Vec::new(), Vec::new());
            put_leaves(list, inner, at, 0, &mut dimensions, &mut leaves)?;
            out.push(1);
            out.extend_from_slice(&leaves);
            out.push(0);
            // Arrays of the same elements: that of fewer dimensions, then of smaller ones.
            out.push(dimensions.len() as u8);
            dimensions.iter().for_each(|length| out.extend_from_slice(&(*length as u32).to_be_bytes()));
        }
        Elements::None => out.push(2),
    }
    Ok(())
}

/// Appends the elements of all dimensions, in their order; `dimensions` are those of the first.
fn put_leaves(
    list: &ListArray,
    inner: &Elements<'_>,
    at: usize,
    level: usize,
    dimensions: &mut Vec<usize>,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let offsets = list.value_offsets();
    let (start, end) = (offsets[at] as usize, offsets[at + 1] as usize);
    if dimensions.len() == level && end > start {
        dimensions.push(end - start);
    }
    for at in start..end {
        match inner {
            Elements::Lists(list, inner) if list.is_valid(at) => {
                put_leaves(list, inner, at, level + 1, dimensions, out)?;
            }
            other => put_element(other, at, out)?,
        }
    }
    Ok(())
}

enum Elements<'a> {
    Plain(DatumColumn<'a>, ColumnType),
    Oids(&'a UInt32Array),
    Lists(&'a ListArray, Box<Elements<'a>>),
    /// There are but NULLs.
    None,
}

impl<'a> Elements<'a> {
    fn of(array: &'a dyn Array) -> Result<Self, SqlError> {
        if let Some(list) = array.as_list_opt::<i32>() {
            return Ok(Self::Lists(list, Box::new(Self::of(list.values().as_ref())?)));
        }
        if let Some(oids) = array.as_primitive_opt() {
            return Ok(Self::Oids(oids));
        }
        if array.data_type().is_null() {
            return Ok(Self::None);
        }
        match column_type(array.data_type()) {
            Some(ty) => Ok(Self::Plain(DatumColumn::new(array, &ty)?, ty)),
            None => Err(SqlError::unsupported(format!("comparing arrays of {} is not supported", array.data_type()))),
        }
    }
}

/// The function.
pub(super) fn function() -> PgFunction {
    f(NAME, &[P::Any], oid(t::BYTEA), |c| {
        let Some(array) = c.arrays.first() else { return c.null() };
        let mut out = BinaryViewBuilder::with_capacity(c.rows);
        let mut bytes = Vec::new();
        if let Some(documents) = array.as_binary_opt::<i32>() {
            for row in 0..c.rows {
                crate::running::check()?;
                if documents.is_null(row) {
                    out.append_null();
                    continue;
                }
                bytes.clear();
                document::order_key(documents.value(row), &mut bytes)?;
                out.append_value(&bytes);
            }
            return Ok(Arc::new(out.finish()));
        }
        let elements = Elements::of(array.as_ref())?;
        for row in 0..c.rows {
            crate::running::check()?;
            if array.data_type().is_null() || array.is_null(row) {
                out.append_null();
                continue;
            }
            bytes.clear();
            put_element(&elements, row, &mut bytes)?;
            out.append_value(&bytes);
        }
        Ok(Arc::new(out.finish()))
    })
}
