//! What type modifiers say, for who reads columns as `information_schema` does: `_pg_char_max_length` and its kin.

use super::define::{Call, P, PgFunction, f, oid};
use crate::types::oid as t;
use crate::wire::SqlError;

type Read = fn(u32, i32) -> Result<Option<i32>, SqlError>;

const ALL: [(&str, Read); 6] = [
    ("_pg_char_max_length", char_max_length),
    ("_pg_char_octet_length", char_octet_length),
    ("_pg_numeric_precision", numeric_precision),
    ("_pg_numeric_precision_radix", numeric_precision_radix),
    ("_pg_numeric_scale", numeric_scale),
    ("_pg_datetime_precision", datetime_precision),
];

fn too_large() -> SqlError {
    SqlError::new("22003", "integer out of range")
}

/// A modifier of a type whose modifiers have the length of a header added.
fn without_header(typmod: i32) -> Result<i32, SqlError> {
    typmod.checked_sub(4).ok_or_else(too_large)
}

fn char_max_length(ty: u32, typmod: i32) -> Result<Option<i32>, SqlError> {
    Ok(match ty {
        _ if typmod == -1 => None,
        t::BPCHAR | t::VARCHAR => Some(without_header(typmod)?),
        t::BIT | t::VARBIT => Some(typmod),
        _ => None,
    })
}

fn char_octet_length(ty: u32, typmod: i32) -> Result<Option<i32>, SqlError> {
    match ty {
        t::TEXT | t::BPCHAR | t::VARCHAR if typmod == -1 => Ok(Some(1 << 30)),
        // A character of UTF-8 has at most four.
        t::TEXT | t::BPCHAR | t::VARCHAR => {
            char_max_length(ty, typmod)?.map(|characters| characters.checked_mul(4).ok_or_else(too_large)).transpose()
        }
        _ => Ok(None),
    }
}

fn numeric_precision(ty: u32, typmod: i32) -> Result<Option<i32>, SqlError> {
    Ok(match ty {
        t::INT2 => Some(16),
        t::INT4 => Some(32),
        t::INT8 => Some(64),
        t::NUMERIC if typmod != -1 => Some((without_header(typmod)? >> 16) & 65535),
        t::FLOAT4 => Some(24),
        t::FLOAT8 => Some(53),
        _ => None,
    })
}

fn numeric_precision_radix(ty: u32, _typmod: i32) -> Result<Option<i32>, SqlError> {
    Ok(match ty {
        t::INT2 | t::INT4 | t::INT8 | t::FLOAT4 | t::FLOAT8 => Some(2),
        t::NUMERIC => Some(10),
        _ => None,
    })
}

fn numeric_scale(ty: u32, typmod: i32) -> Result<Option<i32>, SqlError> {
    Ok(match ty {
        t::INT2 | t::INT4 | t::INT8 => Some(0),
        t::NUMERIC if typmod != -1 => Some(without_header(typmod)? & 65535),
        _ => None,
    })
}

fn datetime_precision(ty: u32, typmod: i32) -> Result<Option<i32>, SqlError> {
    let given = |digits: i32| if digits < 0 { 6 } else { digits };
    Ok(match ty {
        t::DATE => Some(0),
        t::TIME | t::TIMESTAMP | t::TIMESTAMPTZ | t::TIMETZ => Some(given(typmod)),
        // Its fields are above the digits; all bits set: as many as there are.
        t::INTERVAL if typmod < 0 || typmod & 65535 == 65535 => Some(6),
        t::INTERVAL => Some(typmod & 65535),
        _ => None,
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    let made = |(name, read): (&'static str, Read)| {
        f(name, &[P::Oid, P::Int], oid(t::INT4), move |call: &Call<'_>| {
            call.int4s(|row| {
                let (Some(ty), Some(typmod)) = (call.oid(0, row), call.int(1, row)) else { return Ok(None) };
                read(ty, i32::try_from(typmod).map_err(|_| too_large())?)
            })
        })
    };
    ALL.into_iter().map(made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_read_as_postgresql_reads_them() {
        let read = |name: &str, ty, typmod| {
            let (_, read) = ALL.iter().find(|(known, _)| *known == name).expect(name);
            read(ty, typmod).map_err(|error| error.sqlstate.clone())
        };
        assert_eq!(read("_pg_char_max_length", t::VARCHAR, 84), Ok(Some(80)));
        assert_eq!(read("_pg_char_max_length", t::VARCHAR, -1), Ok(None));
        assert_eq!(read("_pg_char_max_length", t::BIT, 4), Ok(Some(4)));
        assert_eq!(read("_pg_char_max_length", t::BPCHAR, i32::MIN), Err("22003".to_owned()));
        assert_eq!(read("_pg_char_octet_length", t::BPCHAR, 7), Ok(Some(12)));
        assert_eq!(read("_pg_char_octet_length", t::TEXT, -1), Ok(Some(1_073_741_824)));
        assert_eq!(read("_pg_numeric_precision", t::NUMERIC, (12 << 16) + 2 + 4), Ok(Some(12)));
        assert_eq!(read("_pg_numeric_scale", t::NUMERIC, (12 << 16) + 2 + 4), Ok(Some(2)));
        assert_eq!(read("_pg_numeric_scale", t::NUMERIC, -1), Ok(None));
        assert_eq!(read("_pg_numeric_precision_radix", t::FLOAT8, -1), Ok(Some(2)));
        assert_eq!(read("_pg_datetime_precision", t::TIMESTAMPTZ, 3), Ok(Some(3)));
        assert_eq!(read("_pg_datetime_precision", t::INTERVAL, (0x7fff << 16) | 65535), Ok(Some(6)));
        assert_eq!(read("_pg_datetime_precision", t::TEXT, -1), Ok(None));
    }
}
