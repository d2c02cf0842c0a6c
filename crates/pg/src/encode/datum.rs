//! Engine datums to the wire, without Arrow in between, for rows that are read directly.

use bytes::{BufMut, BytesMut};
use resurgam_engine::{ColumnType, DatumRef};

use super::binary::put_numeric_binary;
use super::cell::{
    Cell, Look, TextKind, put_dynamic, put_dynamic_binary, put_interval_binary, put_str, put_str_binary,
};
use super::text::*;
use crate::datetime::{Zone, days_from_engine, us_from_engine};
use crate::ordered;
use crate::types::{NUMERIC_PRECISION, NUMERIC_SCALE, column_oid};
use crate::user_types::labels_of;
use crate::wire::{Format, SqlError};

/// Appends a field: length (-1 for null) and bytes.
///
/// # Errors
/// `XX000` for a value kept elsewhere (`External`), which must be fetched first.
pub fn encode_datum(
    datum: DatumRef<'_>,
    ty: &ColumnType,
    format: Format,
    zone: &Zone,
    out: &mut BytesMut,
) -> Result<(), SqlError> {
    if matches!(datum, DatumRef::Null) {
        out.put_i32(-1);
        return Ok(());
    }
    let at = out.len();
    out.put_i32(0);
    match format {
        Format::Text => put_datum_text(datum, ty, zone, out)?,
        Format::Binary => put_datum_binary(datum, ty, out)?,
    }
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn numeric_look(ty: &ColumnType) -> (i32, bool) {
    match *ty {
        ColumnType::Numeric { precision, scale } => {
            let scale = i32::from(scale);
            (scale, precision == NUMERIC_PRECISION && scale == i32::from(NUMERIC_SCALE))
        }
        _ => (0, false),
    }
}

fn text_kind(ty: &ColumnType) -> TextKind {
    match *ty {
        ColumnType::Char(width) => TextKind::Padded(width as usize),
        _ => TextKind::Plain,
    }
}

/// Appends the text of a datum that is not null.
pub fn put_datum_text(datum: DatumRef<'_>, ty: &ColumnType, zone: &Zone, out: &mut BytesMut) -> Result<(), SqlError> {
    match datum {
        DatumRef::Null => {}
        DatumRef::Bool(value) => out.put_u8(if value { b't' } else { b'f' }),
        DatumRef::Int2(value) => put_int(out, value.into()),
        DatumRef::Int4(value) => put_int(out, value.into()),
        DatumRef::Int8(value) => match ty {
            ColumnType::Enum(id) => out.put_slice(labels_of(*id, None)?.text(value)?.as_bytes()),
            _ => put_int(out, value),
        },
        DatumRef::Float4(value) => put_float4(out, value),
        DatumRef::Float8(value) => put_float8(out, value),
        DatumRef::Numeric(value) => {
            let (scale, trim) = numeric_look(ty);
            put_numeric(out, value, scale, trim);
        }
        DatumRef::Text(value) => put_str(out, value, text_kind(ty)),
        DatumRef::Bytes(value) if matches!(ty, ColumnType::VarNumeric(_)) => {
            put_dynamic(out, value)?;
        }
        DatumRef::Bytes(value) if matches!(ty, ColumnType::Folded) => {
            out.put_slice(crate::citext::shown(value)?.as_bytes())
        }
        DatumRef::Bytes(value) if matches!(ty, ColumnType::Jsonb) => {
            out.put_slice(crate::jsonb::to_text(value)?.as_bytes());
        }
        DatumRef::Bytes(_) if matches!(ty, ColumnType::Array(_)) => put_array(datum, ty, Format::Text, zone, out)?,
        DatumRef::Bytes(value) if let ColumnType::Ordered(ty) = ty => {
            out.put_slice(ordered::to_text(*ty, value, zone)?.as_bytes());
        }
        DatumRef::Interval(value) => put_interval(out, value.months, value.days, value.micros),
        DatumRef::Bytes(value) => put_bytea(out, value),
        DatumRef::Date(value) => put_date(out, days_from_engine(value)),
        DatumRef::Time(value) => put_time(out, value),
        DatumRef::Timestamp(value) => put_timestamp(out, us_from_engine(value)),
        DatumRef::TimestampTz(value) => put_timestamptz(out, us_from_engine(value), zone),
        DatumRef::Uuid(value) => put_uuid(out, &value),
        DatumRef::External(_) => return Err(external()),
    }
    Ok(())
}

fn put_datum_binary(datum: DatumRef<'_>, ty: &ColumnType, out: &mut BytesMut) -> Result<(), SqlError> {
    match datum {
        DatumRef::Null => {}
        DatumRef::Bool(value) => out.put_u8(value.into()),
        DatumRef::Int2(value) => out.put_i16(value),
        DatumRef::Int4(value) => out.put_i32(value),
        DatumRef::Int8(value) => match ty {
            ColumnType::Enum(id) => out.put_slice(labels_of(*id, None)?.text(value)?.as_bytes()),
            _ => out.put_i64(value),
        },
        DatumRef::Float4(value) => out.put_f32(value),
        DatumRef::Float8(value) => out.put_f64(value),
        DatumRef::Numeric(value) => {
            let (scale, trim) = numeric_look(ty);
            put_numeric_binary(out, value, scale, trim);
        }
        DatumRef::Text(value) => put_str_binary(out, value, text_kind(ty))?,
        DatumRef::Bytes(value) if matches!(ty, ColumnType::VarNumeric(_)) => {
            put_dynamic_binary(out, value)?;
        }
        DatumRef::Bytes(value) if matches!(ty, ColumnType::Folded) => {
            out.put_slice(crate::citext::shown(value)?.as_bytes())
        }
        DatumRef::Bytes(value) if matches!(ty, ColumnType::Jsonb) => {
            out.put_u8(1);
            out.put_slice(crate::jsonb::to_text(value)?.as_bytes());
        }
        DatumRef::Bytes(_) if matches!(ty, ColumnType::Array(_)) => {
            put_array(datum, ty, Format::Binary, &Zone::Utc, out)?;
        }
        DatumRef::Bytes(value) if let ColumnType::Ordered(ty) = ty => out.put_slice(&ordered::send(*ty, value)?),
        DatumRef::Interval(value) => put_interval_binary(out, value.months, value.days, value.micros),
        DatumRef::Bytes(value) => out.put_slice(value),
        DatumRef::Date(value) => out.put_i32(value),
        DatumRef::Time(value) | DatumRef::Timestamp(value) | DatumRef::TimestampTz(value) => out.put_i64(value),
        DatumRef::Uuid(value) => out.put_slice(&value),
        DatumRef::External(_) => return Err(external()),
    }
    Ok(())
}

/// An array, by way of a column of one row.
fn put_array(
    datum: DatumRef<'_>,
    ty: &ColumnType,
    format: Format,
    zone: &Zone,
    out: &mut BytesMut,
) -> Result<(), SqlError> {
    let mut builder = crate::arrow::ColumnBuilder::new(ty, 1);
    builder.append(datum)?;
    let array = builder.finish();
    let look = Look { oid: column_oid(ty), typmod: -1, zone: *zone, names: None };
    let cell = Cell::new(array.as_ref(), &look)?;
    match format {
        Format::Text => cell.put_text(0, out),
        Format::Binary => cell.put_binary(0, out),
    }
}

fn external() -> SqlError {
    SqlError::internal("a large value was not fetched before it was sent")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(datum: DatumRef<'_>, ty: ColumnType) -> String {
        let mut out = BytesMut::new();
        encode_datum(datum, &ty, Format::Text, &Zone::Utc, &mut out).expect("encode");
        assert_eq!(out[..4], (out.len() as u32 - 4).to_be_bytes());
        String::from_utf8(out[4..].to_vec()).expect("utf-8")
    }

    #[test]
    fn datums() {
        assert_eq!(text(DatumRef::Int4(42), ColumnType::Int4), "42");
        assert_eq!(text(DatumRef::Numeric(1050), ColumnType::Numeric { precision: 10, scale: 2 }), "10.50");
        let encoded = "1.50".parse::<resurgam_numeric::Numeric>().expect("a numeric").encoded();
        assert_eq!(text(DatumRef::Bytes(&encoded), ColumnType::VarNumeric(None)), "1.50");
        assert_eq!(text(DatumRef::Text("ab"), ColumnType::Char(4)), "ab  ");
        assert_eq!(text(DatumRef::Date(0), ColumnType::Date), "2000-01-01");
        assert_eq!(text(DatumRef::TimestampTz(0), ColumnType::TimestampTz(None)), "2000-01-01 00:00:00+00");
        let mut out = BytesMut::new();
        encode_datum(DatumRef::Null, &ColumnType::Int4, Format::Binary, &Zone::Utc, &mut out).expect("encode");
        assert_eq!(&out[..], (-1i32).to_be_bytes());
    }
}
