//! Arrow cells and scalars as datums.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use datafusion::common::ScalarValue;
use resurgam_engine::{ColumnType, Datum, DatumRef, Interval, array};

use crate::citext;

use super::assign::{assignment_cast, fit_text, local_us};
use crate::datetime::{Zone, days_from_engine, days_to_engine, us_from_engine, us_to_engine};
use crate::decode::{self, parse_uuid};
use crate::encode::uuid_text;
use crate::ordered;
use crate::types::{UTC, arrow_type};
use crate::user_types::enum_of_data;
use crate::wire::SqlError;

/// A column that [`assignment_cast`] made, read as datums without copying.
pub struct DatumColumn<'a> {
    array: &'a dyn Array,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Bool(&'a BooleanArray),
    Int2(&'a [i16]),
    Int4(&'a [i32]),
    Int8(&'a [i64]),
    Float4(&'a [f32]),
    Float8(&'a [f64]),
    Numeric(&'a [i128]),
    VarNumeric(&'a LargeBinaryArray),
    Text(&'a StringViewArray),
    Uuid(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
    Ordered(ordered::Stored<'a>),
    Date(&'a [i32]),
    Time(&'a [i64]),
    Timestamp(&'a [i64]),
    TimestampTz(&'a [i64]),
    Jsonb(&'a BinaryArray),
    Interval(&'a [IntervalMonthDayNano]),
    /// Made when the column is looked at, as arrays are.
    Array(Vec<Vec<u8>>),
}

impl<'a> DatumColumn<'a> {
    /// Reads an array of the column type's Arrow type.
    ///
    /// # Errors
    /// `XX000` if the array is of another type.
    pub fn new(array: &'a dyn Array, ty: &ColumnType) -> Result<Self, SqlError> {
        if array.data_type() != &arrow_type(ty) {
            return Err(SqlError::internal(format!(
                "column of type {ty:?} was given an array of type {}",
                array.data_type()
            )));
        }
        let kind = match ty {
            ColumnType::Bool => Kind::Bool(array.as_boolean()),
            ColumnType::Int2 => Kind::Int2(array.as_primitive::<Int16Type>().values()),
            ColumnType::Int4 => Kind::Int4(array.as_primitive::<Int32Type>().values()),
            ColumnType::Int8 => Kind::Int8(array.as_primitive::<Int64Type>().values()),
            ColumnType::Enum(_) => Kind::Int8(array.as_primitive::<TimestampSecondType>().values()),
            ColumnType::Float4 => Kind::Float4(array.as_primitive::<Float32Type>().values()),
            ColumnType::Float8 => Kind::Float8(array.as_primitive::<Float64Type>().values()),
            ColumnType::Numeric { .. } => Kind::Numeric(array.as_primitive::<Decimal128Type>().values()),
            ColumnType::VarNumeric(_) => Kind::VarNumeric(array.as_binary::<i64>()),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) | ColumnType::Json => {
                Kind::Text(array.as_string_view())
            }
            ColumnType::Uuid => Kind::Uuid(array.as_string_view()),
            ColumnType::Folded => {
                let stored = |text: Option<&str>| text.map(citext::stored).unwrap_or_default();
                Kind::Array(citext::Column::of(array).iter().map(stored).collect())
            }
            ColumnType::Bytes => Kind::Bytes(array.as_binary_view()),
            ColumnType::Ordered(ty) => Kind::Ordered(ordered::Stored::of(*ty, array)?),
            ColumnType::Date => Kind::Date(array.as_primitive::<Date32Type>().values()),
            ColumnType::Time(_) => Kind::Time(array.as_primitive::<Time64MicrosecondType>().values()),
            ColumnType::Timestamp(_) => Kind::Timestamp(array.as_primitive::<TimestampMicrosecondType>().values()),
            ColumnType::TimestampTz(_) => Kind::TimestampTz(array.as_primitive::<TimestampMicrosecondType>().values()),
            ColumnType::Jsonb => Kind::Jsonb(array.as_binary::<i32>()),
            ColumnType::Interval(_) => Kind::Interval(array.as_primitive::<IntervalMonthDayNanoType>().values()),
            ColumnType::Array(element) => Kind::Array(stored_arrays(array.as_list::<i32>(), &element.column_type())?),
        };
        Ok(Self { array, kind })
    }

    /// The value of a row.
    ///
    /// # Errors
    /// `22P02` for a uuid column with text that is none.
    pub fn get(&self, row: usize) -> Result<DatumRef<'_>, SqlError> {
        if self.array.is_null(row) {
            return Ok(DatumRef::Null);
        }
        Ok(match &self.kind {
            Kind::Bool(array) => DatumRef::Bool(array.value(row)),
            Kind::Int2(values) => DatumRef::Int2(values[row]),
            Kind::Int4(values) => DatumRef::Int4(values[row]),
            Kind::Int8(values) => DatumRef::Int8(values[row]),
            Kind::Float4(values) => DatumRef::Float4(values[row]),
            Kind::Float8(values) => DatumRef::Float8(values[row]),
            Kind::Numeric(values) => DatumRef::Numeric(values[row]),
            Kind::VarNumeric(array) => DatumRef::Bytes(array.value(row)),
            Kind::Text(array) => DatumRef::Text(array.value(row)),
            Kind::Uuid(array) => DatumRef::Uuid(parse_uuid(array.value(row))?),
            Kind::Bytes(array) => DatumRef::Bytes(array.value(row)),
            Kind::Ordered(values) => DatumRef::Bytes(values.value(row)),
            Kind::Date(values) => DatumRef::Date(days_to_engine(values[row])),
            Kind::Time(values) => DatumRef::Time(values[row]),
            Kind::Timestamp(values) => DatumRef::Timestamp(us_to_engine(values[row])),
            Kind::TimestampTz(values) => DatumRef::TimestampTz(us_to_engine(values[row])),
            Kind::Jsonb(array) => DatumRef::Bytes(array.value(row)),
            Kind::Interval(values) => DatumRef::Interval(interval_to_engine(values[row])),
            Kind::Array(arrays) => DatumRef::Bytes(&arrays[row]),
        })
    }
}

/// An interval as rows keep it. In plans it has microseconds too, in nanoseconds.
pub(crate) fn interval_to_engine(value: IntervalMonthDayNano) -> Interval {
    Interval { months: value.months, days: value.days, micros: value.nanoseconds / 1000 }
}

/// Lists of one dimension as rows keep them.
fn stored_arrays(lists: &ListArray, element: &ColumnType) -> Result<Vec<Vec<u8>>, SqlError> {
    let elements = DatumColumn::new(lists.values().as_ref(), element)?;
    let offsets = lists.value_offsets();
    let mut out = Vec::with_capacity(lists.len());
    let mut values = Vec::new();
    for row in 0..lists.len() {
        let mut stored = Vec::new();
        if lists.is_valid(row) {
            values.clear();
            for at in offsets[row] as usize..offsets[row + 1] as usize {
                values.push(elements.get(at)?);
            }
            array::encode(&values, *element, &mut stored)?;
        }
        out.push(stored);
    }
    Ok(out)
}

/// A scalar as a datum of a column, by the rules of [`assignment_cast`].
pub fn datum_of_scalar(value: &ScalarValue, ty: &ColumnType, zone: &Zone) -> Result<Datum, SqlError> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    // what needs no conversion
    match (value, ty) {
        (ScalarValue::Boolean(Some(v)), ColumnType::Bool) => return Ok(Datum::Bool(*v)),
        (ScalarValue::Int16(Some(v)), ColumnType::Int2) => return Ok(Datum::Int2(*v)),
        (ScalarValue::Int32(Some(v)), ColumnType::Int4) => return Ok(Datum::Int4(*v)),
        (ScalarValue::Int64(Some(v)), ColumnType::Int8) => return Ok(Datum::Int8(*v)),
        (ScalarValue::TimestampSecond(Some(v), Some(_)), ColumnType::Enum(id))
            if enum_of_data(&value.data_type()) == Some(*id) =>
        {
            return Ok(Datum::Int8(*v));
        }
        (ScalarValue::Int32(Some(v)), ColumnType::Int8) => return Ok(Datum::Int8((*v).into())),
        (ScalarValue::Int64(Some(v)), ColumnType::Int4) => {
            return i32::try_from(*v).map(Datum::Int4).map_err(|_| SqlError::new("22003", "integer out of range"));
        }
        (ScalarValue::Float64(Some(v)), ColumnType::Float8) => return Ok(Datum::Float8(*v)),
        (ScalarValue::Int16(Some(v)), ColumnType::Int4) => return Ok(Datum::Int4((*v).into())),
        (ScalarValue::Int16(Some(v)), ColumnType::Int8) => return Ok(Datum::Int8((*v).into())),
        (
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_),
        ) => return fit_text(v, ty, false).map(|text| Datum::Text(text.to_owned())),
        (ScalarValue::Decimal128(Some(v), _, from), ColumnType::Numeric { .. }) => {
            if let DataType::Decimal128(precision, scale) = arrow_type(ty) {
                return decode::rescale(*v, i32::from(*from), precision, scale).map(Datum::Numeric);
            }
        }
        (ScalarValue::LargeBinary(Some(v)), ColumnType::VarNumeric(None)) => return Ok(Datum::Bytes(v.clone())),
        (ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)), ColumnType::Folded) => {
            return Ok(Datum::Bytes(citext::stored(v)));
        }
        (ScalarValue::Date32(Some(v)), ColumnType::Date) => return Ok(Datum::Date(days_to_engine(*v))),
        (ScalarValue::TimestampMicrosecond(Some(v), None), ColumnType::Timestamp(None)) => {
            return Ok(Datum::Timestamp(us_to_engine(*v)));
        }
        (ScalarValue::TimestampMicrosecond(Some(v), Some(_)), ColumnType::Timestamp(None)) => {
            return Ok(Datum::Timestamp(us_to_engine(local_us(*v, zone)?)));
        }
        (ScalarValue::TimestampMicrosecond(Some(v), Some(_)), ColumnType::TimestampTz(None)) => {
            return Ok(Datum::TimestampTz(us_to_engine(*v)));
        }
        _ => {}
    }
    let array = value.to_array().map_err(|error| crate::errors::from_datafusion(error, ""))?;
    let array = assignment_cast(&array, ty, zone)?;
    let column = DatumColumn::new(array.as_ref(), ty)?;
    Ok(match column.get(0)? {
        DatumRef::Null => Datum::Null,
        DatumRef::Bool(v) => Datum::Bool(v),
        DatumRef::Int2(v) => Datum::Int2(v),
        DatumRef::Int4(v) => Datum::Int4(v),
        DatumRef::Int8(v) => Datum::Int8(v),
        DatumRef::Float4(v) => Datum::Float4(v),
        DatumRef::Float8(v) => Datum::Float8(v),
        DatumRef::Numeric(v) => Datum::Numeric(v),
        DatumRef::Text(v) => Datum::Text(v.to_owned()),
        DatumRef::Bytes(v) => Datum::Bytes(v.to_vec()),
        DatumRef::Date(v) => Datum::Date(v),
        DatumRef::Time(v) => Datum::Time(v),
        DatumRef::Timestamp(v) => Datum::Timestamp(v),
        DatumRef::TimestampTz(v) => Datum::TimestampTz(v),
        DatumRef::Uuid(v) => Datum::Uuid(v),
        DatumRef::Interval(v) => Datum::Interval(v),
        DatumRef::External(v) => Datum::External(v),
    })
}

/// A datum of a column as a scalar of the column's Arrow type.
///
/// # Errors
/// `XX000` for a large value that was not fetched.
pub fn scalar_of_datum(datum: DatumRef<'_>, ty: &ColumnType) -> Result<ScalarValue, SqlError> {
    Ok(match datum {
        DatumRef::Null => {
            ScalarValue::try_from(&arrow_type(ty)).map_err(|error| crate::errors::from_datafusion(error, ""))?
        }
        DatumRef::Bool(v) => ScalarValue::Boolean(Some(v)),
        DatumRef::Int2(v) => ScalarValue::Int16(Some(v)),
        DatumRef::Int4(v) => ScalarValue::Int32(Some(v)),
        DatumRef::Int8(v) => match arrow_type(ty) {
            DataType::Timestamp(_, zone) => ScalarValue::TimestampSecond(Some(v), zone),
            _ => ScalarValue::Int64(Some(v)),
        },
        DatumRef::Float4(v) => ScalarValue::Float32(Some(if v.is_nan() { f32::NAN } else { v })),
        DatumRef::Float8(v) => ScalarValue::Float64(Some(if v.is_nan() { f64::NAN } else { v })),
        DatumRef::Numeric(v) => match arrow_type(ty) {
            DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(v), precision, scale),
            _ => return Err(SqlError::internal("a numeric value in a column of another type")),
        },
        DatumRef::Text(v) => ScalarValue::Utf8View(Some(
            if matches!(ty, ColumnType::Char(_)) { v.trim_end_matches(' ') } else { v }.to_owned(),
        )),
        DatumRef::Bytes(v) if matches!(ty, ColumnType::VarNumeric(_)) => ScalarValue::LargeBinary(Some(v.to_vec())),
        DatumRef::Bytes(v) if matches!(ty, ColumnType::Jsonb) => ScalarValue::Binary(Some(v.to_vec())),
        DatumRef::Bytes(_) | DatumRef::Interval(_) if matches!(ty, ColumnType::Array(_) | ColumnType::Interval(_)) => {
            let mut builder = super::ColumnBuilder::new(ty, 1);
            builder.append(datum)?;
            let array = builder.finish();
            ScalarValue::try_from_array(&array, 0).map_err(|error| crate::errors::from_datafusion(error, ""))?
        }
        DatumRef::Interval(_) => return Err(SqlError::internal("an interval in a column of another type")),
        DatumRef::Bytes(v) if matches!(ty, ColumnType::Folded) => citext::scalar(Some(citext::shown(v)?)),
        DatumRef::Bytes(v) if let ColumnType::Ordered(ty) = ty => ordered::scalar(*ty, Some(v))?,
        DatumRef::Bytes(v) => ScalarValue::BinaryView(Some(v.to_vec())),
        DatumRef::Date(v) => ScalarValue::Date32(Some(days_from_engine(v))),
        DatumRef::Time(v) => ScalarValue::Time64Microsecond(Some(v)),
        DatumRef::Timestamp(v) => ScalarValue::TimestampMicrosecond(Some(us_from_engine(v)), None),
        DatumRef::TimestampTz(v) => ScalarValue::TimestampMicrosecond(Some(us_from_engine(v)), Some(Arc::from(UTC))),
        DatumRef::Uuid(v) => ScalarValue::Utf8View(Some(uuid_text(&v))),
        DatumRef::External(_) => return Err(SqlError::internal("a large value was not fetched")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow::ColumnBuilder;

    #[test]
    fn builder_and_reader_are_inverse() {
        let cases: Vec<(ColumnType, Vec<DatumRef<'_>>)> = vec![
            (ColumnType::Bool, vec![DatumRef::Bool(true), DatumRef::Null]),
            (ColumnType::Int2, vec![DatumRef::Int2(-1)]),
            (ColumnType::Int4, vec![DatumRef::Int4(7), DatumRef::Null]),
            (ColumnType::Int8, vec![DatumRef::Int8(i64::MIN)]),
            (ColumnType::Float4, vec![DatumRef::Float4(1.5)]),
            (ColumnType::Float8, vec![DatumRef::Float8(-0.5)]),
            (ColumnType::Numeric { precision: 5, scale: 2 }, vec![DatumRef::Numeric(12345)]),
            (ColumnType::Text, vec![DatumRef::Text("a longer text than twelve bytes"), DatumRef::Text("")]),
            (ColumnType::Bytes, vec![DatumRef::Bytes(&[0, 1])]),
            (ColumnType::Date, vec![DatumRef::Date(0), DatumRef::Date(i32::MAX), DatumRef::Date(-9999)]),
            (ColumnType::VarNumeric(None), vec![DatumRef::Bytes(&[0x80, 0, 2])]),
            (ColumnType::Time(None), vec![DatumRef::Time(1)]),
            (ColumnType::Timestamp(None), vec![DatumRef::Timestamp(5), DatumRef::Timestamp(i64::MIN)]),
            (ColumnType::TimestampTz(Some(6)), vec![DatumRef::TimestampTz(-5)]),
            (ColumnType::Uuid, vec![DatumRef::Uuid([7; 16])]),
            (ColumnType::Enum(16_400), vec![DatumRef::Int8(7), DatumRef::Null]),
        ];
        for (ty, datums) in cases {
            let mut builder = ColumnBuilder::new(&ty, datums.len());
            for datum in &datums {
                builder.append(*datum).expect("append");
            }
            let array = builder.finish();
            assert_eq!(array.data_type(), &arrow_type(&ty));
            let column = DatumColumn::new(array.as_ref(), &ty).expect("column");
            for (row, datum) in datums.iter().enumerate() {
                assert_eq!(&column.get(row).expect("get"), datum);
                let scalar = scalar_of_datum(*datum, &ty).expect("scalar");
                assert_eq!(ScalarValue::try_from_array(&array, row).expect("scalar"), scalar);
            }
        }
    }
}
