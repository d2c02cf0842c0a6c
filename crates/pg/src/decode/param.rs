//! Parameter values and `COPY` fields to scalars and datums.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use resurgam_engine::{ColumnType, Datum, DatumRef, Interval};
use resurgam_numeric::Numeric;

use super::datetime::{parse_date, parse_time, parse_timestamp, parse_timestamptz};
use super::interval::{interval_value, parse_interval};
use super::numbers::{parse_bool, parse_float4, parse_float8, parse_int, parse_numeric, parse_oid};
use super::{bad_text, binary, check_json, parse_bytea, parse_uuid, utf8};
use crate::arrow::{datum_of_scalar, fit_text};
use crate::citext;
use crate::datetime::{Zone, days_to_engine, round_seconds, us_to_engine};
use crate::encode::{TextStyle, uuid_text};
use crate::functions::cast;
use crate::functions::numeric::column::numeric_error;
use crate::ordered;
use crate::types::{UTC, column_oid, numeric_limits, oid, type_by_name};
use crate::user_types::{self, labels_of};
use crate::wire::{Format, SqlError};

/// A parameter as the scalar in which its type is computed (see
/// [`crate::types::arrow_type_of_oid`]); `None` bytes are null. `ty` 0 is text.
///
/// # Errors
/// `22P02`, `22007`, `22008`, `22003`, `22P03`, `22021` as the value deserves.
pub fn decode_param(ty: u32, format: Format, bytes: Option<&[u8]>, zone: &Zone) -> Result<ScalarValue, SqlError> {
    match (bytes, format) {
        (None, _) => Ok(binary::null_of(ty)),
        (Some(bytes), Format::Text) => decode_text(ty, utf8(bytes)?, zone),
        (Some(bytes), Format::Binary) => binary::decode_binary(ty, bytes),
    }
}

/// Decodes a parameter whose declared type differs from what the plan wants: decoded by
/// its declared type, then brought to `want` by DataFusion's cast.
pub fn infer_param(
    ty: u32,
    want: &DataType,
    format: Format,
    bytes: Option<&[u8]>,
    zone: &Zone,
) -> Result<ScalarValue, SqlError> {
    let value = decode_param(ty, format, bytes, zone)?;
    if &value.data_type() == want {
        return Ok(value);
    }
    value.cast_to(want).map_err(|error| crate::errors::from_datafusion(error, ""))
}

pub(super) fn decode_text(ty: u32, text: &str, zone: &Zone) -> Result<ScalarValue, SqlError> {
    if ty == oid::CITEXT {
        return Ok(citext::scalar(Some(text)));
    }
    if let Some(read) = user_value(ty, text, &|base| decode_text(base, text, zone)) {
        return read;
    }
    Ok(match ty {
        oid::BOOL => ScalarValue::Boolean(Some(parse_bool(text)?)),
        oid::INT2 => ScalarValue::Int16(Some(parse_int(text, i16::MIN.into(), i16::MAX.into(), "smallint")? as i16)),
        oid::INT4 => ScalarValue::Int32(Some(parse_int(text, i32::MIN.into(), i32::MAX.into(), "integer")? as i32)),
        oid::INT8 => ScalarValue::Int64(Some(parse_int(text, i64::MIN, i64::MAX, "bigint")?)),
        oid::FLOAT4 => ScalarValue::Float32(Some(parse_float4(text)?)),
        oid::FLOAT8 => ScalarValue::Float64(Some(parse_float8(text)?)),
        oid::NUMERIC => ScalarValue::LargeBinary(Some(Numeric::parse(text, None).map_err(numeric_error)?.encoded())),
        oid::BPCHAR => ScalarValue::Utf8View(Some(text.trim_end_matches(' ').to_owned())),
        oid::JSONB => ScalarValue::Binary(Some(crate::jsonb::from_text(text)?)),
        oid::JSON => {
            check_json(text)?;
            ScalarValue::Utf8View(Some(text.to_owned()))
        }
        oid::JSONPATH => ScalarValue::Utf8View(Some(crate::jsonpath::parse(text)?.to_string())),
        oid::UUID => ScalarValue::Utf8View(Some(uuid_text(&parse_uuid(text)?))),
        ty if let Some(ty) = ordered::type_of_oid(ty) => ordered::scalar_of_text(ty, text, zone)?,
        oid::BYTEA => {
            let mut bytes = Vec::new();
            parse_bytea(text, &mut bytes)?;
            ScalarValue::BinaryView(Some(bytes))
        }
        oid::DATE => ScalarValue::Date32(Some(parse_date(text, zone)?)),
        oid::TIME => ScalarValue::Time64Microsecond(Some(parse_time(text)?)),
        oid::TIMESTAMP => ScalarValue::TimestampMicrosecond(Some(parse_timestamp(text, zone)?), None),
        oid::TIMESTAMPTZ => {
            ScalarValue::TimestampMicrosecond(Some(parse_timestamptz(text, zone)?), Some(Arc::from(UTC)))
        }
        oid::INTERVAL => ScalarValue::IntervalMonthDayNano(Some(interval_value(parse_interval(text)?)?)),
        // Nothing, as these show it.
        oid::REGNAMESPACE | oid::REGROLE | oid::REGCLASS | oid::REGTYPE if text == "-" => ScalarValue::UInt32(Some(0)),
        oid::OID | oid::XID | oid::CID | oid::REGNAMESPACE | oid::REGROLE | oid::REGCLASS => {
            ScalarValue::UInt32(Some(parse_oid(text)?))
        }
        oid::REGTYPE => match parse_oid(text) {
            Ok(value) => ScalarValue::UInt32(Some(value)),
            Err(_) => match type_by_name(text) {
                Some(row) => ScalarValue::UInt32(Some(row.oid)),
                None => return Err(SqlError::new("42704", format!("type \"{text}\" does not exist"))),
            },
        },
        oid::CHAR => ScalarValue::Utf8View(Some(cast::one_byte(cast::char_byte(text)))),
        oid::NAME => ScalarValue::Utf8View(Some(cast::cut(text, cast::NAME_BYTES).to_owned())),
        // It has no value, whatever is sent for it.
        oid::VOID => ScalarValue::Utf8View(None),
        0
        | oid::TEXT
        | oid::VARCHAR
        | oid::UNKNOWN
        | oid::CSTRING
        | oid::REGPROC
        | oid::REGPROCEDURE
        | oid::PG_NODE_TREE
        | oid::ACLITEM => ScalarValue::Utf8View(Some(text.to_owned())),
        _ => return binary::text_array(ty, text, zone),
    })
}

/// A value of a type of users: a label, or, by `of_base`, what a domain is of; `None` of other types.
pub(super) fn user_value(
    ty: u32,
    label: &str,
    of_base: &dyn Fn(u32) -> Result<ScalarValue, SqlError>,
) -> Option<Result<ScalarValue, SqlError>> {
    let found = user_types::by_oid(ty)?;
    if found.as_domain().is_some() {
        return Some(of_base(user_types::base_type(ty, -1).0));
    }
    let DataType::Timestamp(_, zone) = user_types::enum_data(ty) else { return None };
    let number = labels_of(ty, None).and_then(|labels| labels.number(label));
    Some(number.map(|number| ScalarValue::TimestampSecond(Some(number), zone)))
}

/// A parameter or field as a datum of a table column, checked against its length,
/// precision and range.
pub fn decode_datum(
    column: &ColumnType,
    ty: u32,
    format: Format,
    bytes: Option<&[u8]>,
    zone: &Zone,
) -> Result<Datum, SqlError> {
    let Some(bytes) = bytes else { return Ok(Datum::Null) };
    // the usual cases go straight; the rest through a scalar
    match (column, ty, format) {
        (ColumnType::Int4, oid::INT4, Format::Binary) => {
            if let Ok(raw) = <[u8; 4]>::try_from(bytes) {
                return Ok(Datum::Int4(i32::from_be_bytes(raw)));
            }
        }
        (ColumnType::Int8, oid::INT8, Format::Binary) => {
            if let Ok(raw) = <[u8; 8]>::try_from(bytes) {
                return Ok(Datum::Int8(i64::from_be_bytes(raw)));
            }
        }
        (_, _, Format::Text) if ty == crate::types::column_oid(column) || ty == 0 => {
            let mut scratch = Vec::new();
            return Ok(owned(parse_datum(column, utf8(bytes)?, zone, &mut scratch)?));
        }
        _ => {}
    }
    datum_of_scalar(&decode_param(ty, format, Some(bytes), zone)?, column, zone)
}

fn owned(datum: DatumRef<'_>) -> Datum {
    match datum {
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
    }
}

/// The text of a field as a datum of a column, without allocation: `bytea` is decoded into
/// `scratch`, text is borrowed.
///
/// # Errors
/// As PostgreSQL's input functions give them; `22001` for text that is too long.
pub fn parse_datum<'a>(
    ty: &ColumnType,
    text: &'a str,
    zone: &Zone,
    scratch: &'a mut Vec<u8>,
) -> Result<DatumRef<'a>, SqlError> {
    Ok(match *ty {
        ColumnType::Bool => DatumRef::Bool(parse_bool(text)?),
        ColumnType::Int2 => DatumRef::Int2(parse_int(text, i16::MIN.into(), i16::MAX.into(), "smallint")? as i16),
        ColumnType::Int4 => DatumRef::Int4(parse_int(text, i32::MIN.into(), i32::MAX.into(), "integer")? as i32),
        ColumnType::Int8 => DatumRef::Int8(parse_int(text, i64::MIN, i64::MAX, "bigint")?),
        ColumnType::Float4 => DatumRef::Float4(parse_float4(text)?),
        ColumnType::Float8 => DatumRef::Float8(parse_float8(text)?),
        ColumnType::Numeric { precision, scale } => DatumRef::Numeric(parse_numeric(text, precision, scale)?),
        ColumnType::VarNumeric(_) => {
            scratch.clear();
            Numeric::parse(text, numeric_limits(ty)).map_err(numeric_error)?.write_encoded(scratch);
            DatumRef::Bytes(scratch)
        }
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => DatumRef::Text(fit_text(text, ty, false)?),
        ColumnType::Json => {
            check_json(text)?;
            DatumRef::Text(text)
        }
        ColumnType::Bytes => {
            scratch.clear();
            parse_bytea(text, scratch)?;
            DatumRef::Bytes(scratch)
        }
        ColumnType::Date => DatumRef::Date(days_to_engine(parse_date(text, zone)?)),
        ColumnType::Time(digits) => DatumRef::Time(round_seconds(parse_time(text)?, digits)),
        ColumnType::Timestamp(digits) => {
            DatumRef::Timestamp(round_seconds(us_to_engine(parse_timestamp(text, zone)?), digits))
        }
        ColumnType::TimestampTz(digits) => {
            DatumRef::TimestampTz(round_seconds(us_to_engine(parse_timestamptz(text, zone)?), digits))
        }
        ColumnType::Enum(id) => DatumRef::Int8(labels_of(id, None)?.number(text)?),
        ColumnType::Uuid => DatumRef::Uuid(parse_uuid(text)?),
        ColumnType::Ordered(ty) => {
            *scratch = ordered::parse(ty, text, zone)?;
            DatumRef::Bytes(scratch)
        }
        ColumnType::Folded => {
            *scratch = citext::stored(text);
            DatumRef::Bytes(scratch)
        }
        ColumnType::Jsonb => {
            *scratch = crate::jsonb::from_text(text)?;
            DatumRef::Bytes(scratch)
        }
        ColumnType::Interval(limit) => {
            let typmod = limit.map_or(-1, |limit| limit as i32);
            let value = super::parse_interval_of(text, typmod)?;
            // What plans cannot hold is not stored.
            interval_value(super::Interval { months: value.months, days: value.days, us: value.us })?;
            DatumRef::Interval(Interval { months: value.months, days: value.days, micros: value.us })
        }
        ColumnType::Array(_) => {
            let list = binary::text_array(column_oid(ty), text, zone)?;
            *scratch = match datum_of_scalar(&list, ty, zone)? {
                Datum::Bytes(bytes) => bytes,
                _ => return Err(SqlError::internal("an array that is none")),
            };
            DatumRef::Bytes(scratch)
        }
    })
}

/// The text of a scalar, as a result of that value would show it; `None` for null.
pub fn scalar_text(value: &ScalarValue, style: &TextStyle) -> Result<Option<String>, SqlError> {
    if value.is_null() {
        return Ok(None);
    }
    let array = value.to_array().map_err(|error| crate::errors::from_datafusion(error, ""))?;
    let field = datafusion::arrow::datatypes::Field::new("", array.data_type().clone(), true);
    let fields = datafusion::arrow::datatypes::Fields::from(vec![field]);
    let encoder = crate::encode::RowEncoder::new(&fields, &[], style)?;
    let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
    let batch = datafusion::arrow::array::RecordBatch::try_new(schema, vec![array])
        .map_err(|error| crate::errors::from_arrow(&error))?;
    let cells = encoder.cells(&batch)?;
    let mut out = bytes::BytesMut::new();
    cells[0].put_text(0, &mut out)?;
    String::from_utf8(out.to_vec()).map(Some).map_err(|_| bad_text("text", "?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ty: u32, value: &str) -> Result<ScalarValue, SqlError> {
        decode_param(ty, Format::Text, Some(value.as_bytes()), &Zone::Utc)
    }

    #[test]
    fn every_type_prints_what_it_read() {
        for (ty, value) in [
            (oid::BOOL, "t"),
            (oid::INT2, "-3"),
            (oid::INT4, "42"),
            (oid::INT8, "9223372036854775807"),
            (oid::FLOAT4, "1.5"),
            (oid::FLOAT8, "0.1"),
            (oid::NUMERIC, "12.34"),
            (oid::TEXT, "abc"),
            (oid::JSON, "{\"a\": 1}"),
            (oid::UUID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            (oid::BYTEA, "\\x0aff"),
            (oid::DATE, "2024-02-29"),
            (oid::TIME, "01:02:03.5"),
            (oid::TIMESTAMP, "2024-02-29 01:02:03.5"),
            (oid::TIMESTAMPTZ, "2024-02-29 01:02:03.5+00"),
            (oid::INTERVAL, "1 year 2 days 03:00:00"),
            (oid::OID, "16384"),
            (oid::INT4_ARRAY, "{1,NULL,3}"),
            (oid::TEXT_ARRAY, "{a,\"b c\"}"),
        ] {
            let scalar = text(ty, value).unwrap_or_else(|e| panic!("{value}: {e}"));
            assert_eq!(scalar_text(&scalar, &TextStyle::default()).expect("text").as_deref(), Some(value), "{ty}");
        }
    }

    #[test]
    fn errors_are_postgresqls() {
        let error = text(oid::INT4, "abc").unwrap_err();
        assert_eq!(error.message, "invalid input syntax for type integer: \"abc\"");
        assert_eq!(text(oid::INT2, "40000").unwrap_err().sqlstate, "22003");
        assert_eq!(text(oid::DATE, "x").unwrap_err().sqlstate, "22007");
        assert_eq!(text(oid::UUID, "x").unwrap_err().sqlstate, "22P02");
    }

    #[test]
    fn datums() {
        let mut scratch = Vec::new();
        let zone = Zone::Utc;
        assert_eq!(parse_datum(&ColumnType::Int4, "7", &zone, &mut scratch).expect("int"), DatumRef::Int4(7));
        assert_eq!(
            parse_datum(&ColumnType::Numeric { precision: 5, scale: 2 }, "1.235", &zone, &mut scratch).expect("num"),
            DatumRef::Numeric(124)
        );
        assert_eq!(
            parse_datum(&ColumnType::Varchar(3), "abc  ", &zone, &mut scratch).expect("fits"),
            DatumRef::Text("abc")
        );
        assert_eq!(parse_datum(&ColumnType::Varchar(3), "abcd", &zone, &mut scratch).unwrap_err().sqlstate, "22001");
        assert_eq!(parse_datum(&ColumnType::Date, "2000-01-01", &zone, &mut scratch).expect("date"), DatumRef::Date(0));
        assert_eq!(
            decode_datum(&ColumnType::Int4, oid::INT4, Format::Binary, Some(&[0, 0, 0, 5]), &zone).expect("int"),
            Datum::Int4(5)
        );
        assert_eq!(
            decode_datum(&ColumnType::Int4, oid::INT8, Format::Binary, Some(&[1, 0, 0, 0, 0, 0, 0, 5]), &zone)
                .unwrap_err()
                .sqlstate,
            "22003"
        );
    }
}
