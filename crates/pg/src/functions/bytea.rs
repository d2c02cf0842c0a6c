//! Functions of `bytea` that texts and bits have under the same names, under the names of what computes them in PostgreSQL
//! (`pg_proc.prosrc`).

use std::cell::Cell;

use datafusion::arrow::array::{Array, ArrayRef, BinaryViewArray};

use super::arrays::utf8_only;
use super::define::{Call, P, PgFunction, f, oid};
use super::moments::both;
use super::strings::{bytes_of, part};
use crate::memory;
use crate::types::oid as t;
use crate::wire::SqlError;

/// What these functions are called.
pub(super) const NAMES: &[&str] = &[
    "byteaGetBit",
    "byteaGetByte",
    "byteaSetBit",
    "byteaSetByte",
    "bytea_bit_count",
    "bytealtrim",
    "byteaoverlay",
    "byteaoverlay_no_len",
    "byteapos",
    "byteartrim",
    "byteatrim",
    "length_in_encoding",
    "pg_convert",
];

/// The bytes of a row; `None` if it is null.
fn at(array: &BinaryViewArray, row: usize) -> Option<&[u8]> {
    array.is_valid(row).then(|| array.value(row))
}

/// Bytes for each row, as many together as there may be.
fn bounded(call: &Call<'_>, value: impl Fn(usize) -> Result<Option<Vec<u8>>, SqlError>) -> Result<ArrayRef, SqlError> {
    let sum = Cell::new(0usize);
    call.byteas(|row| {
        let bytes = value(row)?;
        if let Some(bytes) = &bytes {
            memory::value(bytes.len())?;
            sum.set(sum.get().saturating_add(bytes.len()));
            memory::column(call.rows, sum.get())?;
        }
        Ok(bytes)
    })
}

/// A place that counts from 0, of `count`.
fn place(at: i64, count: usize) -> Result<usize, SqlError> {
    let place = usize::try_from(at).ok().filter(|place| *place < count);
    let last = count as i64 - 1;
    place.ok_or_else(|| SqlError::new("2202E", format!("index {at} out of valid range, 0..{last}")))
}

/// Bytes without those of a set at their ends.
fn trimmed<'b>(bytes: &'b [u8], set: &[u8], left: bool, right: bool) -> &'b [u8] {
    let begin = match left {
        true => bytes.iter().position(|byte| !set.contains(byte)).unwrap_or(bytes.len()),
        false => 0,
    };
    let end = match right {
        true => bytes.iter().rposition(|byte| !set.contains(byte)).map_or(begin, |last| last + 1),
        false => bytes.len(),
    };
    &bytes[begin..end.max(begin)]
}

/// Where bytes are found among others, from 1; 0 where they are not.
fn position(bytes: &[u8], wanted: &[u8]) -> i32 {
    if wanted.is_empty() {
        return 1;
    }
    bytes.windows(wanted.len()).position(|here| here == wanted).map_or(0, |at| at as i32 + 1)
}

/// Other bytes in place of `length` from `start` on.
fn overlaid(bytes: &[u8], new: &[u8], start: i64, length: i64) -> Result<Vec<u8>, SqlError> {
    if start <= 0 {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let behind = start.checked_add(length).filter(|at| i32::try_from(*at).is_ok());
    let behind = behind.ok_or_else(|| SqlError::new("22003", "integer out of range"))?;
    let head = &bytes[part(bytes.len(), 1, Some(start - 1))?];
    let tail = &bytes[part(bytes.len(), behind, None)?];
    memory::value(head.len().saturating_add(new.len()).saturating_add(tail.len()))?;
    Ok([head, new, tail].concat())
}

fn with_bit(bytes: &[u8], at: i64, bit: i64) -> Result<Vec<u8>, SqlError> {
    let place = place(at, bytes.len().saturating_mul(8))?;
    let mask = 1u8 << (place % 8);
    let mut out = bytes.to_vec();
    match bit {
        0 => out[place / 8] &= !mask,
        1 => out[place / 8] |= mask,
        _ => return Err(SqlError::new("22023", "new bit must be 0 or 1")),
    }
    Ok(out)
}

pub(super) fn all() -> Vec<PgFunction> {
    let mut out = vec![
        f("byteapos", &[P::Any, P::Any], oid(t::INT4), |call| {
            let (bytes, wanted) = (bytes_of(&call.arrays[0])?, bytes_of(&call.arrays[1])?);
            call.int4s(|row| both(at(&bytes, row), at(&wanted, row), |bytes, wanted| Ok(position(bytes, wanted))))
        }),
        f("bytea_bit_count", &[P::Any], oid(t::INT8), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            let count = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
            call.ints(|row| Ok(at(&bytes, row).map(count)))
        }),
        f("byteaGetBit", &[P::Any, P::Int], oid(t::INT4), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            call.int4s(|row| {
                both(at(&bytes, row), call.int(1, row), |bytes, number| {
                    let place = place(number, bytes.len().saturating_mul(8))?;
                    Ok(i32::from(bytes[place / 8] >> (place % 8) & 1))
                })
            })
        }),
        f("byteaGetByte", &[P::Any, P::Int], oid(t::INT4), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            call.int4s(|row| {
                both(at(&bytes, row), call.int(1, row), |bytes, number| {
                    Ok(i32::from(bytes[place(number, bytes.len())?]))
                })
            })
        }),
        f("byteaSetBit", &[P::Any, P::Int, P::Int], oid(t::BYTEA), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            bounded(call, |row| {
                let numbers = call.int(1, row).zip(call.int(2, row));
                both(at(&bytes, row), numbers, |bytes, (number, bit)| with_bit(bytes, number, bit))
            })
        }),
        f("byteaSetByte", &[P::Any, P::Int, P::Int], oid(t::BYTEA), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            bounded(call, |row| {
                let numbers = call.int(1, row).zip(call.int(2, row));
                both(at(&bytes, row), numbers, |bytes, (number, new)| {
                    let place = place(number, bytes.len())?;
                    let mut out = bytes.to_vec();
                    // Of a number that is none of a byte the lowest bits count.
                    out[place] = new as u8;
                    Ok(out)
                })
            })
        }),
        f("byteaoverlay", &[P::Any, P::Any, P::Int, P::Int], oid(t::BYTEA), |call| {
            let (bytes, new) = (bytes_of(&call.arrays[0])?, bytes_of(&call.arrays[1])?);
            bounded(call, |row| {
                let numbers = call.int(2, row).zip(call.int(3, row));
                both(at(&bytes, row).zip(at(&new, row)), numbers, |(bytes, new), (start, length)| {
                    overlaid(bytes, new, start, length)
                })
            })
        }),
        f("byteaoverlay_no_len", &[P::Any, P::Any, P::Int], oid(t::BYTEA), |call| {
            let (bytes, new) = (bytes_of(&call.arrays[0])?, bytes_of(&call.arrays[1])?);
            bounded(call, |row| {
                both(at(&bytes, row).zip(at(&new, row)), call.int(2, row), |(bytes, new), start| {
                    overlaid(bytes, new, start, new.len() as i64)
                })
            })
        }),
        // Characters of bytes that are a text in an encoding.
        f("length_in_encoding", &[P::Any, P::Text], oid(t::INT4), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            call.int4s(|row| {
                both(at(&bytes, row), call.text(1, row), |bytes, name| {
                    utf8_only("source", name)?;
                    Ok(crate::decode::utf8(bytes)?.chars().count() as i32)
                })
            })
        }),
        f("pg_convert", &[P::Any, P::Text, P::Text], oid(t::BYTEA), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            bounded(call, |row| {
                let names = call.text(1, row).zip(call.text(2, row));
                both(at(&bytes, row), names, |bytes, (from, to)| {
                    utf8_only("source", from)?;
                    utf8_only("destination", to)?;
                    Ok(crate::decode::utf8(bytes)?.as_bytes().to_vec())
                })
            })
        }),
    ];
    for (name, left, right) in [("byteatrim", true, true), ("bytealtrim", true, false), ("byteartrim", false, true)] {
        out.push(f(name, &[P::Any, P::Any], oid(t::BYTEA), move |call| {
            let (bytes, set) = (bytes_of(&call.arrays[0])?, bytes_of(&call.arrays[1])?);
            bounded(call, |row| {
                both(at(&bytes, row), at(&set, row), |bytes, set| Ok(trimmed(bytes, set, left, right).to_vec()))
            })
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_known_by_their_names() {
        let mut names: Vec<&str> = all().iter().map(PgFunction::name).collect();
        names.sort_unstable();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn parts() {
        assert_eq!(trimmed(b"aabaa", b"a", true, true), b"b");
        assert_eq!(trimmed(b"aaa", b"a", true, true), b"");
        assert_eq!(trimmed(b"aaa", b"a", false, true), b"");
        assert_eq!(trimmed(b"aba", b"", true, true), b"aba");
        assert_eq!((position(b"abc", b"bc"), position(b"abc", b""), position(b"", b"a")), (2, 1, 0));
        assert_eq!(overlaid(b"abcdef", b"X", 2, 3).expect("bytes"), b"aXef");
        assert_eq!(overlaid(b"abc", b"X", 0, 1).unwrap_err().sqlstate, "22011");
        assert_eq!(with_bit(&[0, 0], 9, 1).expect("bytes"), [0, 2]);
        assert_eq!(with_bit(&[0], 8, 1).unwrap_err().sqlstate, "2202E");
    }
}
