//! `order_key(value)`: bytes that compare as PostgreSQL compares documents, arrays, and `character`.
//!
//! Documents have one by [`resurgam_engine::document::order_key`]; arrays by their elements (NULL above all), the shorter
//! first (PostgreSQL's `array_cmp`); elements as keys of indexes have them. Of a `character` it is the text without the
//! blanks at its end, of a `citext` that text in small letters.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::compute::{cast, interleave};
use datafusion::arrow::datatypes::{DataType, FieldRef, IntervalUnit, TimeUnit};
use resurgam_engine::{ColumnType, DatumRef, document, key};

use super::define::{P, PgFunction, Returns, f, oid};
use crate::arrow::DatumColumn;
use crate::citext;
use crate::errors::from_arrow;
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
        DataType::LargeBinary => ColumnType::VarNumeric(None),
        DataType::Utf8View => ColumnType::Text,
        DataType::BinaryView => ColumnType::Bytes,
        DataType::FixedSizeBinary(_) => ColumnType::Ordered(crate::ordered::type_of_data(ty)?),
        DataType::Binary => ColumnType::Jsonb,
        DataType::Date32 => ColumnType::Date,
        DataType::Time64(TimeUnit::Microsecond) => ColumnType::Time(None),
        DataType::Timestamp(TimeUnit::Second, Some(_)) => ColumnType::Enum(crate::user_types::enum_of_data(ty)?),
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
        Elements::Decimals(array, _) if array.is_null(at) => out.push(2),
        // As a numeric that has digits of its own: both are in one array's elements or in the other's.
        Elements::Decimals(array, scale) => {
            let mut encoded = Vec::with_capacity(16);
            resurgam_numeric::key::write_scaled(array.value(at), *scale, &mut encoded);
            key::encode_unbounded(DatumRef::Bytes(&encoded), ColumnType::VarNumeric(None), out)?;
        }
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
    /// And how many of their digits are behind the point.
    Decimals(&'a Decimal128Array, u16),
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
        if let DataType::Decimal128(_, scale) = array.data_type()
            && let Ok(scale) = u16::try_from(*scale)
        {
            return Ok(Self::Decimals(array.as_primitive(), scale));
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

/// Keys of a column; `None` of NULLs.
fn keys(array: &ArrayRef) -> Result<BinaryViewArray, SqlError> {
    if array.data_type().is_string() {
        return trimmed(array);
    }
    if citext::is_citext(array.data_type()) {
        let folded = citext::Column::of(array.as_ref());
        return Ok(folded.iter().map(|text| text.map(citext::fold)).collect());
    }
    let array = &viewed(array)?;
    let mut out = BinaryViewBuilder::with_capacity(array.len());
    let mut bytes = Vec::new();
    let documents = array.as_binary_opt::<i32>();
    let elements = match documents {
        Some(_) => Elements::None,
        None => Elements::of(array.as_ref())?,
    };
    for row in 0..array.len() {
        crate::running::check()?;
        if array.data_type().is_null() || array.is_null(row) {
            out.append_null();
            continue;
        }
        bytes.clear();
        match documents {
            Some(documents) => document::order_key(documents.value(row), &mut bytes)?,
            None => put_element(&elements, row, &mut bytes)?,
        }
        out.append_value(&bytes);
    }
    Ok(out.finish())
}

/// Keys of `character`: what is before the blanks at the end.
fn trimmed(array: &ArrayRef) -> Result<BinaryViewArray, SqlError> {
    let texts = cast(array, &DataType::Utf8View).map_err(|error| from_arrow(&error))?;
    let keys = texts.as_string_view().iter().map(|text| text.map(|text| text.trim_end_matches(' ').as_bytes()));
    Ok(keys.collect())
}

/// Lists of texts in the form that texts have, those of `character` without the blanks at the ends of their elements.
fn viewed(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    match array.data_type() {
        DataType::List(item) if item.data_type() == &crate::types::PADDED => super::array_blanks::trimmed(array),
        DataType::List(item) if matches!(item.data_type(), DataType::Utf8 | DataType::LargeUtf8) => {
            let item = item.as_ref().clone().with_data_type(DataType::Utf8View);
            cast(array, &DataType::List(Arc::new(item))).map_err(|error| from_arrow(&error))
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// The function.
pub(super) fn function() -> PgFunction {
    f(NAME, &[P::Any], oid(t::BYTEA), |c| match c.arrays.first() {
        Some(array) => Ok(Arc::new(keys(array)?)),
        None => c.null(),
    })
}

fn as_given(fields: &[FieldRef]) -> FieldRef {
    let given = fields.iter().find(|field| !field.data_type().is_null()).or(fields.first());
    given.cloned().unwrap_or_else(|| crate::types::parameter_field("", 0))
}

/// `greatest` and `least` of documents and arrays, NULLs left out.
pub(super) fn extreme(greatest: bool) -> PgFunction {
    let name = if greatest { "order_greatest" } else { "order_least" };
    f(name, &[P::Any], Returns::By(as_given), move |c| {
        let given: Vec<&ArrayRef> = c.arrays.iter().filter(|array| !array.data_type().is_null()).collect();
        if given.is_empty() {
            return c.null();
        }
        let keys = given.iter().map(|array| keys(array)).collect::<Result<Vec<_>, _>>()?;
        let chosen: Vec<(usize, usize)> = (0..c.rows)
            .map(|row| {
                let mut best = 0;
                for (at, keys_of) in keys.iter().enumerate().skip(1) {
                    let better = match (keys_of.is_null(row), keys[best].is_null(row)) {
                        (true, _) => false,
                        (false, true) => true,
                        (false, false) if greatest => keys_of.value(row) > keys[best].value(row),
                        (false, false) => keys_of.value(row) < keys[best].value(row),
                    };
                    if better {
                        best = at;
                    }
                }
                (best, row)
            })
            .collect();
        let arrays: Vec<&dyn Array> = given.iter().map(|array| array.as_ref()).collect();
        interleave(&arrays, &chosen).map_err(|error| from_arrow(&error))
    })
    .required(1)
    .variadic()
}
