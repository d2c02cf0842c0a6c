//! `pg_column_size`: bytes that PostgreSQL's rows have for a value, if it is not compressed.

use datafusion::arrow::array::{Array, AsArray};

use super::define::{P, PgFunction, f, oid};
use super::numeric::column::Numbers;
use super::strings::bytes_of;
use crate::types::{field_oid, format_type, oid as t};
use crate::wire::SqlError;

/// Bytes of a value without a length of its own, if its type is one of these.
fn fixed(ty: u32) -> Option<i32> {
    Some(match ty {
        t::BOOL | t::CHAR => 1,
        t::INT2 => 2,
        t::INT4 | t::FLOAT4 | t::DATE | t::OID | t::REGCLASS | t::REGTYPE | t::REGNAMESPACE | t::REGROLE => 4,
        t::REGPROC | t::REGPROCEDURE => 4,
        t::INT8 | t::FLOAT8 | t::TIME | t::TIMESTAMP | t::TIMESTAMPTZ => 8,
        t::TIMETZ => 12,
        t::INTERVAL | t::UUID => 16,
        t::NAME => 64,
        _ => return None,
    })
}

/// With the length before it, which is one byte where that is enough.
fn with_length(bytes: usize) -> i32 {
    let header = if bytes <= 126 { 1 } else { 4 };
    i32::try_from(bytes.saturating_add(header)).unwrap_or(i32::MAX)
}

/// Bytes of a number's text as PostgreSQL keeps it: two for each group of four digits that is not left out at an end, and a
/// head that says where they are.
fn of_number(text: &str) -> usize {
    let text = text.trim_start_matches('-');
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return 2;
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = fraction.len();
    let padded = |missing: usize| "0".repeat((4 - missing % 4) % 4);
    let whole = padded(whole.len()) + whole;
    let groups_before = whole.len() / 4;
    let all = whole + fraction + &padded(fraction.len());
    let groups: Vec<&[u8]> = all.as_bytes().chunks(4).collect();
    let Some(first) = groups.iter().position(|group| *group != b"0000") else { return 2 };
    let last = groups.iter().rposition(|group| *group != b"0000").unwrap_or(first);
    let weight = groups_before as i64 - 1 - first as i64;
    let head = if scale <= 63 && (-64..=63).contains(&weight) { 2 } else { 4 };
    head + 2 * (last - first + 1)
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![f("pg_column_size", &[P::Any], oid(t::INT4), |call| {
        let array = &call.arrays[0];
        let ty = call.fields.first().map_or(t::UNKNOWN, |field| field_oid(field));
        let is_null = |row: usize| array.data_type().is_null() || array.is_null(row);
        if let Some(bytes) = fixed(ty) {
            return call.int4s(|row| Ok((!is_null(row)).then_some(bytes)));
        }
        match ty {
            t::NUMERIC => {
                let numbers = Numbers::of(array.as_ref())?;
                call.int4s(|row| Ok(numbers.get(row)?.map(|number| with_length(of_number(&number.to_string())))))
            }
            t::BYTEA => {
                let bytes = bytes_of(array)?;
                call.int4s(|row| Ok(bytes.is_valid(row).then(|| with_length(bytes.value(row).len()))))
            }
            t::TEXT | t::VARCHAR | t::JSON if let Some(texts) = array.as_string_view_opt() => {
                call.int4s(|row| Ok(texts.is_valid(row).then(|| with_length(texts.value(row).len()))))
            }
            ty => {
                let name = format_type(ty, None);
                Err(SqlError::unsupported(format!("pg_column_size of a value of type {name} is not supported")))
            }
        }
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, bytes) in [
            ("0", 2),
            ("0.000", 2),
            ("1", 4),
            ("-1", 4),
            ("10000", 4),
            ("10001", 6),
            ("1.5", 6),
            ("0.0001", 4),
            ("0.00001", 4),
            ("NaN", 2),
            ("123456789.123456789", 14),
        ] {
            assert_eq!(of_number(text), bytes, "{text}");
        }
    }
}
