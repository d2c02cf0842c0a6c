//! One column of a batch, ready to be written cell by cell.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use datafusion::arrow::temporal_conversions::MILLISECONDS_IN_DAY;

use super::array::{ListCells, put_list_binary, put_list_text};
use super::binary::put_numeric_binary;
use super::record::{put_record_binary, put_record_text};
use super::text::*;
use resurgam_engine::OrderedType;

use crate::citext;
use crate::datetime::{Zone, days_to_engine, us_to_engine};
use crate::functions::cast::char_byte;
use crate::functions::numeric::column::numeric_error;
use crate::ordered;
use crate::types::{NUMERIC_PRECISION, NUMERIC_SCALE, field_oid, oid};
use crate::user_types::{Labels, enum_of_data, labels_of};
use crate::wire::SqlError;

/// Names of `reg…` values by oid.
pub(super) type Names = Arc<HashMap<u32, String>>;

/// How the cells of a column read, apart from their Arrow type.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub oid: u32,
    pub typmod: i32,
    pub zone: Zone,
    pub names: Option<Names>,
}

/// A column of a batch, downcast once.
pub struct Cell<'a> {
    nulls: Option<&'a datafusion::arrow::buffer::NullBuffer>,
    data: Data<'a>,
}

pub(super) enum Data<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    UInt8(&'a UInt8Array),
    UInt16(&'a UInt16Array),
    Oid(&'a UInt32Array, Option<Names>),
    UInt64(&'a UInt64Array),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Decimal {
        array: &'a Decimal128Array,
        scale: i32,
        trim: bool,
    },
    Text(&'a StringArray, TextKind),
    LargeText(&'a LargeStringArray, TextKind),
    TextView(&'a StringViewArray, TextKind),
    Document(&'a BinaryArray),
    /// Dynamic numerics.
    Numeric(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    Ordered(&'a FixedSizeBinaryArray, OrderedType, Zone),
    FixedBytes(&'a FixedSizeBinaryArray),
    Date(&'a Date32Array),
    Date64(&'a Date64Array),
    /// Values and how many of their unit make a microsecond (negative: how many microseconds a unit has).
    Time64(&'a [i64], Unit),
    Time32(&'a [i32], Unit),
    Timestamp(&'a [i64], Unit),
    TimestampTz(&'a [i64], Unit, Zone),
    /// Labels of an enumerated type.
    Enum(&'a [i64], Labels),
    Interval(&'a IntervalMonthDayNanoArray),
    IntervalYearMonth(&'a IntervalYearMonthArray),
    IntervalDayTime(&'a IntervalDayTimeArray),
    Duration(&'a [i64], Unit),
    Citext(citext::Column<'a>),
    List(ListCells<'a>),
    Dictionary(Vec<Option<usize>>, Box<Cell<'a>>),
    /// Columns of a record, and their types.
    Record(Vec<(u32, Cell<'a>)>),
    /// Types that PostgreSQL has no counterpart for, formatted once.
    Other(StringArray),
}

/// What kind of text a text column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Plain,
    /// `char(n)`: padded to so many characters.
    Padded(usize),
    /// Canonical text in Arrow, 16 bytes in binary.
    Uuid,
    /// Zeros and ones, eight in a byte in binary.
    Bits,
    /// A path: in binary behind a version.
    Path,
    /// `"char"`: one byte in binary.
    OneByte,
}

/// A time unit as a factor to microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Times(i64),
    Over(i64),
}

impl Unit {
    fn of(unit: &TimeUnit) -> Self {
        match unit {
            TimeUnit::Second => Self::Times(1_000_000),
            TimeUnit::Millisecond => Self::Times(1000),
            TimeUnit::Microsecond => Self::Times(1),
            TimeUnit::Nanosecond => Self::Over(1000),
        }
    }
    fn us(self, value: i64) -> i64 {
        match self {
            Self::Times(factor) => value.saturating_mul(factor),
            Self::Over(divisor) => value.div_euclid(divisor),
        }
    }
}

fn down<T: 'static>(array: &dyn Array) -> Result<&T, SqlError> {
    array
        .as_any()
        .downcast_ref::<T>()
        .ok_or_else(|| SqlError::internal(format!("array of type {} is not what it says", array.data_type())))
}

impl<'a> Cell<'a> {
    /// Prepares a column.
    ///
    /// # Errors
    /// Only if the array's class contradicts its type, which is a bug.
    pub(super) fn new(array: &'a dyn Array, look: &Look) -> Result<Self, SqlError> {
        let text = match look.oid {
            oid::BPCHAR if look.typmod > 4 => TextKind::Padded((look.typmod - 4) as usize),
            oid::UUID => TextKind::Uuid,
            oid::BIT | oid::VARBIT => TextKind::Bits,
            oid::JSONPATH => TextKind::Path,
            oid::CHAR => TextKind::OneByte,
            _ => TextKind::Plain,
        };
        let data = match array.data_type() {
            DataType::Null => Data::Null,
            DataType::Boolean => Data::Bool(down(array)?),
            DataType::Int8 => Data::Int8(down(array)?),
            DataType::Int16 => Data::Int16(down(array)?),
            DataType::Int32 => Data::Int32(down(array)?),
            DataType::Int64 => Data::Int64(down(array)?),
            DataType::UInt8 => Data::UInt8(down(array)?),
            DataType::UInt16 => Data::UInt16(down(array)?),
            DataType::UInt32 => Data::Oid(down(array)?, look.names.clone()),
            DataType::UInt64 => Data::UInt64(down(array)?),
            DataType::Float32 => Data::Float32(down(array)?),
            DataType::Float64 => Data::Float64(down(array)?),
            DataType::Decimal128(precision, scale) => Data::Decimal {
                array: down(array)?,
                scale: i32::from(*scale),
                trim: *precision == NUMERIC_PRECISION && *scale == NUMERIC_SCALE as i8,
            },
            DataType::Utf8 => Data::Text(down(array)?, text),
            DataType::LargeUtf8 => Data::LargeText(down(array)?, text),
            DataType::Utf8View => Data::TextView(down(array)?, text),
            DataType::Binary => Data::Document(down(array)?),
            DataType::LargeBinary => Data::Numeric(down(array)?),
            DataType::BinaryView => Data::BytesView(down(array)?),
            DataType::FixedSizeBinary(_) => match ordered::type_of_data(array.data_type()) {
                Some(ty) => Data::Ordered(down(array)?, ty, look.zone),
                None => Data::FixedBytes(down(array)?),
            },
            DataType::Date32 => Data::Date(down(array)?),
            DataType::Date64 => Data::Date64(down(array)?),
            DataType::Time32(TimeUnit::Second) => {
                Data::Time32(down::<Time32SecondArray>(array)?.values(), Unit::Times(1_000_000))
            }
            DataType::Time32(_) => Data::Time32(down::<Time32MillisecondArray>(array)?.values(), Unit::Times(1000)),
            DataType::Time64(TimeUnit::Nanosecond) => {
                Data::Time64(down::<Time64NanosecondArray>(array)?.values(), Unit::Over(1000))
            }
            DataType::Time64(_) => Data::Time64(down::<Time64MicrosecondArray>(array)?.values(), Unit::Times(1)),
            DataType::Timestamp(TimeUnit::Second, _) if let Some(ty) = enum_of_data(array.data_type()) => {
                Data::Enum(down::<TimestampSecondArray>(array)?.values(), labels_of(ty, None)?)
            }
            DataType::Timestamp(unit, zone) => {
                let values: &[i64] = match unit {
                    TimeUnit::Second => down::<TimestampSecondArray>(array)?.values(),
                    TimeUnit::Millisecond => down::<TimestampMillisecondArray>(array)?.values(),
                    TimeUnit::Microsecond => down::<TimestampMicrosecondArray>(array)?.values(),
                    TimeUnit::Nanosecond => down::<TimestampNanosecondArray>(array)?.values(),
                };
                match zone {
                    None => Data::Timestamp(values, Unit::of(unit)),
                    Some(_) => Data::TimestampTz(values, Unit::of(unit), look.zone),
                }
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => Data::Interval(down(array)?),
            DataType::Interval(IntervalUnit::YearMonth) => Data::IntervalYearMonth(down(array)?),
            DataType::Interval(IntervalUnit::DayTime) => Data::IntervalDayTime(down(array)?),
            DataType::Duration(unit) => {
                let values: &[i64] = match unit {
                    TimeUnit::Second => down::<DurationSecondArray>(array)?.values(),
                    TimeUnit::Millisecond => down::<DurationMillisecondArray>(array)?.values(),
                    TimeUnit::Microsecond => down::<DurationMicrosecondArray>(array)?.values(),
                    TimeUnit::Nanosecond => down::<DurationNanosecondArray>(array)?.values(),
                };
                Data::Duration(values, Unit::of(unit))
            }
            data if citext::is_citext(data) => Data::Citext(citext::Column::of(array)),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                Data::List(ListCells::new(array, look)?)
            }
            DataType::Dictionary(..) => {
                let dictionary =
                    array.as_any_dictionary_opt().ok_or_else(|| SqlError::internal("dictionary array is not one"))?;
                let normalized = dictionary.normalized_keys();
                let keys =
                    (0..array.len()).map(|row| (!dictionary.keys().is_null(row)).then(|| normalized[row])).collect();
                Data::Dictionary(keys, Box::new(Cell::new(dictionary.values().as_ref(), look)?))
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter().zip(fields);
                let cells = columns.map(|(column, field)| {
                    let ty = field_oid(field);
                    let typmod = crate::types::field_typmod(field);
                    let inner = Look { oid: ty, typmod, zone: look.zone, names: look.names.clone() };
                    Ok((ty, Cell::new(column.as_ref(), &inner)?))
                });
                Data::Record(cells.collect::<Result<_, SqlError>>()?)
            }
            _ => {
                let formatter = datafusion::arrow::util::display::ArrayFormatter::try_new(
                    array,
                    &datafusion::arrow::util::display::FormatOptions::default(),
                )
                .map_err(|error| crate::errors::from_arrow(&error))?;
                Data::Other((0..array.len()).map(|row| Some(formatter.value(row).to_string())).collect())
            }
        };
        Ok(Self { nulls: array.nulls(), data })
    }

    /// The lists, if it is a column of those.
    pub(super) fn list(&self) -> Option<&ListCells<'a>> {
        match &self.data {
            Data::List(list) => Some(list),
            _ => None,
        }
    }

    /// Whether the cell is null.
    pub fn is_null(&self, row: usize) -> bool {
        match &self.data {
            Data::Null => true,
            Data::Dictionary(keys, values) => keys[row].is_none_or(|key| values.is_null(key)),
            _ => self.nulls.is_some_and(|nulls| nulls.is_null(row)),
        }
    }

    /// Appends the text of a cell that is not null.
    ///
    /// # Errors
    /// `22003` for an unsigned number beyond `bigint`.
    pub fn put_text(&self, row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
        match &self.data {
            Data::Null => {}
            Data::Bool(array) => out.put_u8(if array.value(row) { b't' } else { b'f' }),
            Data::Int8(array) => put_int(out, array.value(row).into()),
            Data::Int16(array) => put_int(out, array.value(row).into()),
            Data::Int32(array) => put_int(out, array.value(row).into()),
            Data::Int64(array) => put_int(out, array.value(row)),
            Data::UInt8(array) => put_uint(out, array.value(row).into()),
            Data::UInt16(array) => put_uint(out, array.value(row).into()),
            Data::Oid(array, names) => {
                let value = array.value(row);
                match names.as_ref() {
                    Some(names) => match names.get(&value) {
                        Some(name) => out.put_slice(name.as_bytes()),
                        None if value == 0 => out.put_u8(b'-'),
                        None => put_uint(out, value.into()),
                    },
                    None => put_uint(out, value.into()),
                }
            }
            Data::UInt64(array) => put_int(out, signed(array.value(row))?),
            Data::Float32(array) => put_float4(out, array.value(row)),
            Data::Float64(array) => put_float8(out, array.value(row)),
            Data::Decimal { array, scale, trim } => put_numeric(out, array.value(row), *scale, *trim),
            Data::Text(array, kind) => put_str(out, array.value(row), *kind),
            Data::LargeText(array, kind) => put_str(out, array.value(row), *kind),
            Data::TextView(array, kind) => put_str(out, array.value(row), *kind),
            Data::Document(array) => out.put_slice(crate::jsonb::to_text(array.value(row))?.as_bytes()),
            Data::Numeric(array) => put_dynamic(out, array.value(row))?,
            Data::BytesView(array) => put_bytea(out, array.value(row)),
            Data::Ordered(array, ty, zone) => {
                out.put_slice(ordered::to_text(*ty, array.value(row), zone)?.as_bytes());
            }
            Data::FixedBytes(array) => put_bytea(out, array.value(row)),
            Data::Date(array) => put_date(out, array.value(row)),
            Data::Date64(array) => put_date(out, date64(array.value(row))),
            Data::Time64(values, unit) => put_time(out, unit.us(values[row])),
            Data::Time32(values, unit) => put_time(out, unit.us(values[row].into())),
            Data::Timestamp(values, unit) => put_timestamp(out, unit.us(values[row])),
            Data::TimestampTz(values, unit, zone) => put_timestamptz(out, unit.us(values[row]), zone),
            Data::Enum(values, labels) => out.put_slice(labels.text(values[row])?.as_bytes()),
            Data::Interval(array) => {
                let value = array.value(row);
                put_interval(out, value.months, value.days, value.nanoseconds / 1000);
            }
            Data::IntervalYearMonth(array) => put_interval(out, array.value(row), 0, 0),
            Data::IntervalDayTime(array) => {
                let value = array.value(row);
                put_interval(out, 0, value.days, i64::from(value.milliseconds) * 1000);
            }
            Data::Duration(values, unit) => {
                let us = unit.us(values[row]);
                put_duration(out, us);
            }
            Data::Citext(texts) => out.put_slice(texts.get(row).unwrap_or_default().as_bytes()),
            Data::List(list) => put_list_text(list, row, out)?,
            Data::Dictionary(keys, values) => {
                if let Some(key) = keys[row] {
                    values.put_text(key, out)?;
                }
            }
            Data::Record(columns) => put_record_text(columns, row, out)?,
            Data::Other(array) => out.put_slice(array.value(row).as_bytes()),
        }
        Ok(())
    }

    /// Appends the binary form of a cell that is not null.
    ///
    /// # Errors
    /// `22003` for an unsigned number beyond `bigint`; `22P03` for what is no uuid.
    pub fn put_binary(&self, row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
        match &self.data {
            Data::Null => {}
            Data::Bool(array) => out.put_u8(array.value(row).into()),
            Data::Int8(array) => out.put_i16(array.value(row).into()),
            Data::Int16(array) => out.put_i16(array.value(row)),
            Data::Int32(array) => out.put_i32(array.value(row)),
            Data::Int64(array) => out.put_i64(array.value(row)),
            Data::UInt8(array) => out.put_i16(array.value(row).into()),
            Data::UInt16(array) => out.put_i32(array.value(row).into()),
            Data::Oid(array, _) => out.put_u32(array.value(row)),
            Data::UInt64(array) => out.put_i64(signed(array.value(row))?),
            Data::Float32(array) => out.put_f32(array.value(row)),
            Data::Float64(array) => out.put_f64(array.value(row)),
            Data::Decimal { array, scale, trim } => put_numeric_binary(out, array.value(row), *scale, *trim),
            Data::Text(array, kind) => put_str_binary(out, array.value(row), *kind)?,
            Data::LargeText(array, kind) => put_str_binary(out, array.value(row), *kind)?,
            Data::TextView(array, kind) => put_str_binary(out, array.value(row), *kind)?,
            Data::Document(array) => {
                out.put_u8(1);
                out.put_slice(crate::jsonb::to_text(array.value(row))?.as_bytes());
            }
            Data::Numeric(array) => put_dynamic_binary(out, array.value(row))?,
            Data::BytesView(array) => out.put_slice(array.value(row)),
            Data::Ordered(array, ty, _) => out.put_slice(&ordered::send(*ty, array.value(row))?),
            Data::FixedBytes(array) => out.put_slice(array.value(row)),
            Data::Date(array) => out.put_i32(days_to_engine(array.value(row))),
            Data::Date64(array) => out.put_i32(days_to_engine(date64(array.value(row)))),
            Data::Time64(values, unit) => out.put_i64(unit.us(values[row])),
            Data::Time32(values, unit) => out.put_i64(unit.us(values[row].into())),
            Data::Timestamp(values, unit) | Data::TimestampTz(values, unit, _) => {
                out.put_i64(us_to_engine(unit.us(values[row])));
            }
            Data::Enum(values, labels) => out.put_slice(labels.text(values[row])?.as_bytes()),
            Data::Interval(array) => {
                let value = array.value(row);
                put_interval_binary(out, value.months, value.days, value.nanoseconds / 1000);
            }
            Data::IntervalYearMonth(array) => put_interval_binary(out, array.value(row), 0, 0),
            Data::IntervalDayTime(array) => {
                let value = array.value(row);
                put_interval_binary(out, 0, value.days, i64::from(value.milliseconds) * 1000);
            }
            Data::Duration(values, unit) => {
                let us = unit.us(values[row]);
                let (days, us) = split_days(us);
                put_interval_binary(out, 0, days, us);
            }
            Data::Citext(texts) => out.put_slice(texts.get(row).unwrap_or_default().as_bytes()),
            Data::List(list) => put_list_binary(list, row, out)?,
            Data::Dictionary(keys, values) => {
                if let Some(key) = keys[row] {
                    values.put_binary(key, out)?;
                }
            }
            Data::Record(columns) => put_record_binary(columns, row, out)?,
            Data::Other(array) => out.put_slice(array.value(row).as_bytes()),
        }
        Ok(())
    }
}

/// The text of an encoded numeric.
pub(super) fn put_dynamic(out: &mut BytesMut, encoded: &[u8]) -> Result<(), SqlError> {
    let mut text = String::with_capacity(24);
    resurgam_numeric::Numeric::decode(encoded).map_err(numeric_error)?.write_text(&mut text);
    out.put_slice(text.as_bytes());
    Ok(())
}

pub(super) fn put_dynamic_binary(out: &mut BytesMut, encoded: &[u8]) -> Result<(), SqlError> {
    let mut bytes = Vec::with_capacity(24);
    resurgam_numeric::Numeric::decode(encoded).map_err(numeric_error)?.write_wire(&mut bytes);
    out.put_slice(&bytes);
    Ok(())
}

fn signed(value: u64) -> Result<i64, SqlError> {
    i64::try_from(value).map_err(|_| SqlError::new("22003", "bigint out of range"))
}

fn date64(ms: i64) -> i32 {
    ms.div_euclid(MILLISECONDS_IN_DAY).clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// The difference of two timestamps has whole days apart from the time.
fn split_days(us: i64) -> (i32, i64) {
    let days = us / crate::datetime::DAY_US;
    (days.clamp(i32::MIN.into(), i32::MAX.into()) as i32, us % crate::datetime::DAY_US)
}

fn put_duration(out: &mut BytesMut, us: i64) {
    let (days, us) = split_days(us);
    put_interval(out, 0, days, us);
}

pub(super) fn put_interval_binary(out: &mut BytesMut, months: i32, days: i32, us: i64) {
    out.put_i64(us);
    out.put_i32(days);
    out.put_i32(months);
}

pub(super) fn put_str(out: &mut BytesMut, value: &str, kind: TextKind) {
    out.put_slice(value.as_bytes());
    if let TextKind::Padded(width) = kind {
        let count = if value.is_ascii() { value.len() } else { value.chars().count() };
        out.put_bytes(b' ', width.saturating_sub(count));
    }
}

pub(super) fn put_str_binary(out: &mut BytesMut, value: &str, kind: TextKind) -> Result<(), SqlError> {
    match kind {
        TextKind::Plain | TextKind::Padded(_) => put_str(out, value, kind),
        TextKind::Uuid => out.put_slice(&crate::decode::parse_uuid(value)?),
        TextKind::Bits => out.put_slice(&crate::bits::send(value)),
        TextKind::OneByte => out.put_u8(char_byte(value)),
        TextKind::Path => {
            out.put_u8(1);
            out.put_slice(value.as_bytes());
        }
    }
    Ok(())
}
