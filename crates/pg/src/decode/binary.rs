//! Binary parameter values.

use std::sync::Arc;

use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::ScalarValue;
use resurgam_numeric::Numeric;

use super::datetime::{received_date, received_timestamp};
use super::{check_json, parse_array, utf8};
use crate::citext;
use crate::datetime::DAY_US;
use crate::encode::uuid_text;
use crate::functions::cast::{NAME_BYTES, one_byte};
use crate::functions::numeric::column::numeric_error;
use crate::ordered;
use crate::types::{UTC, field_of_oid, format_type, oid, type_by_oid};
use crate::user_types;
use crate::wire::SqlError;

#[cold]
fn wrong_length(ty: u32) -> SqlError {
    let name = type_by_oid(ty).map_or("unknown", |row| row.sql_name);
    SqlError::new("22P03", format!("incorrect binary data format for type {name}"))
}

fn fixed<const N: usize>(bytes: &[u8], ty: u32) -> Result<[u8; N], SqlError> {
    bytes.try_into().map_err(|_| wrong_length(ty))
}

/// A binary value of a type as the scalar in which it is computed.
///
/// # Errors
/// `22P03` for bytes that are not of the type, `0A000` for types without a binary reader.
pub fn decode_binary(ty: u32, bytes: &[u8]) -> Result<ScalarValue, SqlError> {
    if ty >= user_types::FIRST_USER_OID && ty != oid::CITEXT {
        // Of labels the text is the binary form.
        let label = if user_types::is_domain(ty) { "" } else { std::str::from_utf8(bytes).unwrap_or_default() };
        if let Some(read) = super::param::user_value(ty, label, &|base| decode_binary(base, bytes)) {
            utf8(if label.is_empty() { &[] } else { bytes })?;
            return read;
        }
    }
    Ok(match ty {
        oid::BOOL => ScalarValue::Boolean(Some(fixed::<1>(bytes, ty)?[0] != 0)),
        oid::INT2 => ScalarValue::Int16(Some(i16::from_be_bytes(fixed(bytes, ty)?))),
        oid::INT4 => ScalarValue::Int32(Some(i32::from_be_bytes(fixed(bytes, ty)?))),
        oid::INT8 => ScalarValue::Int64(Some(i64::from_be_bytes(fixed(bytes, ty)?))),
        // Of NaNs there are many to a client, and one here.
        oid::FLOAT4 => {
            let value = f32::from_be_bytes(fixed(bytes, ty)?);
            ScalarValue::Float32(Some(if value.is_nan() { f32::NAN } else { value }))
        }
        oid::FLOAT8 => {
            let value = f64::from_be_bytes(fixed(bytes, ty)?);
            ScalarValue::Float64(Some(if value.is_nan() { f64::NAN } else { value }))
        }
        oid::NUMERIC => {
            if bytes.len() < 8 || !bytes.len().is_multiple_of(2) {
                return Err(wrong_length(ty));
            }
            let value = Numeric::from_wire(bytes, None).map_err(numeric_error)?;
            ScalarValue::LargeBinary(Some(value.encoded()))
        }
        oid::CHAR => ScalarValue::Utf8View(Some(one_byte(fixed::<1>(bytes, ty)?[0]))),
        oid::NAME if bytes.len() > NAME_BYTES => return Err(SqlError::new("42622", "identifier too long")),
        oid::CITEXT => citext::scalar(Some(utf8(bytes)?)),
        oid::TEXT | oid::VARCHAR | oid::NAME | oid::UNKNOWN | oid::CSTRING => {
            ScalarValue::Utf8View(Some(utf8(bytes)?.to_owned()))
        }
        oid::BPCHAR => ScalarValue::Utf8View(Some(utf8(bytes)?.trim_end_matches(' ').to_owned())),
        oid::JSON => {
            let text = utf8(bytes)?;
            check_json(text)?;
            ScalarValue::Utf8View(Some(text.to_owned()))
        }
        oid::JSONPATH => match bytes {
            [1, rest @ ..] => ScalarValue::Utf8View(Some(crate::jsonpath::parse(utf8(rest)?)?.to_string())),
            [version, ..] => {
                return Err(SqlError::internal(format!("unsupported jsonpath version number: {version}")));
            }
            [] => return Err(SqlError::new("08P01", "insufficient data left in message")),
        },
        oid::JSONB => match bytes {
            [1, rest @ ..] => ScalarValue::Binary(Some(crate::jsonb::from_text(utf8(rest)?)?)),
            _ => return Err(SqlError::new("22P03", "unsupported jsonb version number")),
        },
        oid::UUID => ScalarValue::Utf8View(Some(uuid_text(&fixed(bytes, ty)?))),
        oid::BYTEA => ScalarValue::BinaryView(Some(bytes.to_vec())),
        ty if let Some(ty) = ordered::type_of_oid(ty) => ordered::scalar(ty, Some(&ordered::receive(ty, bytes)?))?,
        oid::DATE => ScalarValue::Date32(Some(received_date(i32::from_be_bytes(fixed(bytes, ty)?))?)),
        oid::TIME => {
            let us = i64::from_be_bytes(fixed(bytes, ty)?);
            if !(0..=DAY_US).contains(&us) {
                return Err(SqlError::new("22008", "time out of range"));
            }
            ScalarValue::Time64Microsecond(Some(us))
        }
        oid::TIMESTAMP => {
            ScalarValue::TimestampMicrosecond(Some(received_timestamp(i64::from_be_bytes(fixed(bytes, ty)?))?), None)
        }
        oid::TIMESTAMPTZ => ScalarValue::TimestampMicrosecond(
            Some(received_timestamp(i64::from_be_bytes(fixed(bytes, ty)?))?),
            Some(Arc::from(UTC)),
        ),
        oid::INTERVAL => {
            let raw: [u8; 16] = fixed(bytes, ty)?;
            let us = i64::from_be_bytes(fixed(&raw[..8], ty)?);
            let days = i32::from_be_bytes(fixed(&raw[8..12], ty)?);
            let months = i32::from_be_bytes(fixed(&raw[12..], ty)?);
            let nanos = us.checked_mul(1000).ok_or_else(|| SqlError::new("22008", "interval out of range"))?;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos)))
        }
        oid::OID | oid::XID | oid::CID | oid::REGCLASS | oid::REGTYPE | oid::REGNAMESPACE | oid::REGROLE => {
            ScalarValue::UInt32(Some(u32::from_be_bytes(fixed(bytes, ty)?)))
        }
        0 => ScalarValue::Utf8View(Some(utf8(bytes)?.to_owned())),
        _ => return array(ty, bytes),
    })
}

/// A one-dimensional array.
fn array(ty: u32, bytes: &[u8]) -> Result<ScalarValue, SqlError> {
    let wrong = || wrong_length(ty);
    let element = match type_by_oid(ty) {
        Some(row) if row.elem != 0 => row.elem,
        _ => return Err(SqlError::unsupported(format!("binary parameters of type {ty} are not supported"))),
    };
    let mut at = 0usize;
    let mut word = || -> Result<i32, SqlError> {
        let raw = bytes.get(at..at + 4).ok_or_else(wrong)?;
        at += 4;
        Ok(i32::from_be_bytes(fixed(raw, ty)?))
    };
    let dimensions = word()?;
    let _flags = word()?;
    let sent = word()? as u32;
    if sent != element {
        return Err(SqlError::new("42804", "binary data has array element type that is not the expected one"));
    }
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = word()?;
            let _lower = word()?;
            count
        }
        _ => return Err(SqlError::unsupported("multidimensional arrays are not supported")),
    };
    // every element takes at least its length word, which bounds the allocation
    if count < 0 || count as usize > bytes.len().saturating_sub(at) / 4 {
        return Err(wrong());
    }
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let raw = bytes.get(at..at + 4).ok_or_else(wrong)?;
        let length = i32::from_be_bytes(fixed(raw, ty)?);
        at += 4;
        if length < 0 {
            values.push(None);
            continue;
        }
        let body = bytes.get(at..at.saturating_add(length as usize)).ok_or_else(wrong)?;
        at += length as usize;
        values.push(Some(decode_binary(element, body)?));
    }
    if at != bytes.len() {
        return Err(wrong());
    }
    super::array::list_scalar(element, values)
}

/// The scalar null of a type.
pub(super) fn null_of(ty: u32) -> ScalarValue {
    field_of_oid("", ty, -1)
        .and_then(|field| ScalarValue::try_from(field.data_type()).ok())
        .unwrap_or(ScalarValue::Utf8View(None))
}

/// Most numbers of a vector, as arguments of a function are.
const VECTOR_MAX: usize = 100;

/// An array in text form.
pub(super) fn text_array(ty: u32, text: &str, zone: &crate::datetime::Zone) -> Result<ScalarValue, SqlError> {
    let element = match type_by_oid(ty) {
        Some(row) if row.elem != 0 => row.elem,
        _ => return Err(SqlError::unsupported(format!("parameters of type {ty} are not supported"))),
    };
    if matches!(ty, oid::INT2VECTOR | oid::OIDVECTOR) {
        return text_vector(ty, element, text, zone);
    }
    if let Some(list) = super::array::elements_at_once(element, text)? {
        return Ok(list);
    }
    let values = parse_array(text)?
        .into_iter()
        .map(|item| match item {
            None => Ok(None),
            Some(item) => super::param::decode_text(element, &item, zone).map(Some),
        })
        .collect::<Result<Vec<_>, SqlError>>()?;
    super::array::list_scalar(element, values)
}

/// An `int2vector` or `oidvector` in text form: numbers with blanks between them.
fn text_vector(ty: u32, element: u32, text: &str, zone: &crate::datetime::Zone) -> Result<ScalarValue, SqlError> {
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\x0b';
    // Behind a number of an `int2vector` no other white space is taken.
    let ends = |c: char| if ty == oid::INT2VECTOR { c == ' ' } else { is_space(c) };
    let mut values = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if values.len() == VECTOR_MAX {
            let name = format_type(ty, None);
            return Err(SqlError::new("22023", format!("{name} has too many elements")));
        }
        let item = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if item.ends_with(is_space) {
            let name = format_type(element, None);
            return Err(SqlError::new("22P02", format!("invalid input syntax for type {name}: \"{rest}\"")));
        }
        values.push(Some(super::param::decode_text(element, item, zone)?));
        rest = rest[item.len()..].trim_start_matches(is_space);
    }
    super::array::list_scalar(element, values)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::encode::put_numeric_binary;

    #[test]
    fn numerics_round_trip() {
        for (value, scale, shown) in
            [(0i128, 0, "0"), (150, 2, "1.50"), (-1, 0, "-1"), (123_456_789, 4, "12345.6789"), (1, 10, "0.0000000001")]
        {
            let mut out = BytesMut::new();
            put_numeric_binary(&mut out, value, scale, false);
            let ScalarValue::LargeBinary(Some(encoded)) = decode_binary(oid::NUMERIC, &out).expect("numeric") else {
                panic!("not dynamic")
            };
            assert_eq!(Numeric::decode(&encoded).expect("numeric").to_string(), shown);
        }
    }

    #[test]
    fn bad_lengths() {
        for ty in [oid::BOOL, oid::INT4, oid::NUMERIC, oid::UUID, oid::INTERVAL, oid::INT4_ARRAY] {
            assert_eq!(decode_binary(ty, &[1, 2, 3]).unwrap_err().sqlstate, "22P03", "{ty}");
        }
        // an array that claims two thousand million elements
        let bytes = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 255, 255, 255, 0, 0, 0, 1];
        assert_eq!(decode_binary(oid::INT4_ARRAY, &bytes).unwrap_err().sqlstate, "22P03");
    }

    /// What their text cannot say is none of them in binary either.
    #[test]
    fn ranges_of_dates_and_timestamps() {
        let date = |days: i32| decode_binary(oid::DATE, &days.to_be_bytes()).map_err(|error| error.sqlstate.clone());
        for days in [-2_451_545, 0, 2_145_031_948, i32::MAX, i32::MIN] {
            assert!(date(days).is_ok(), "{days}");
        }
        for days in [-2_451_546, 2_145_031_949, i32::MAX - 1, i32::MIN + 1] {
            assert_eq!(date(days).unwrap_err(), "22008", "{days}");
        }
        for ty in [oid::TIMESTAMP, oid::TIMESTAMPTZ] {
            let timestamp = |us: i64| decode_binary(ty, &us.to_be_bytes()).map_err(|error| error.sqlstate.clone());
            for us in [-211_813_488_000_000_000, 0, 9_000_000_000_000_000_000 / 2, i64::MAX, i64::MIN] {
                assert!(timestamp(us).is_ok(), "{us}");
            }
            for us in [-211_813_488_000_000_001, 9_223_371_331_200_000_000, i64::MAX - 1, i64::MIN + 1] {
                assert_eq!(timestamp(us).unwrap_err(), "22008", "{us}");
            }
        }
    }

    #[test]
    fn vectors() {
        let read = |ty, text: &str| text_array(ty, text, &crate::datetime::Zone::Utc);
        let length = |ty, text: &str| match read(ty, text).expect(text) {
            ScalarValue::List(list) => list.value(0).len(),
            other => panic!("{other:?}"),
        };
        for (text, wanted) in [("1 2", 2), ("", 0), ("  ", 0), (" 1   2 ", 2), ("-3", 1), ("\t7", 1)] {
            assert_eq!(length(oid::INT2VECTOR, text), wanted, "{text}");
            assert_eq!(length(oid::OIDVECTOR, text), wanted, "{text}");
        }
        assert_eq!(length(oid::OIDVECTOR, "1\t2"), 2);
        assert_eq!(length(oid::OIDVECTOR, &"1 ".repeat(VECTOR_MAX)), VECTOR_MAX);
        let many = "1 ".repeat(VECTOR_MAX + 1);
        for (ty, text, code) in [
            (oid::INT2VECTOR, "1,2", "22P02"),
            (oid::INT2VECTOR, "1 a", "22P02"),
            (oid::INT2VECTOR, "{1,2}", "22P02"),
            (oid::INT2VECTOR, "1\t2", "22P02"),
            (oid::INT2VECTOR, "1\t", "22P02"),
            (oid::INT2VECTOR, "99999", "22003"),
            (oid::INT2VECTOR, many.as_str(), "22023"),
            (oid::OIDVECTOR, "1 x", "22P02"),
            (oid::OIDVECTOR, "4294967296", "22003"),
            (oid::OIDVECTOR, many.as_str(), "22023"),
        ] {
            assert_eq!(read(ty, text).unwrap_err().sqlstate, code, "{text}");
        }
    }

    #[test]
    fn arrays() {
        let bytes =
            [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9, 255, 255, 255, 255];
        let ScalarValue::List(list) = decode_binary(oid::INT4_ARRAY, &bytes).expect("array") else { panic!("list") };
        assert_eq!(list.value(0).len(), 2);
    }
}
