//! Texts: padding, joining, digits, parts.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use super::define::{Call, P, PgFunction, f, oid};
use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::encode::TextStyle;
use crate::memory;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Bytes that a text may have.
const TEXT_MAX: usize = 1 << 30;

fn too_long() -> SqlError {
    SqlError::new("54000", "requested length too large")
}

/// Brings a text to a length in characters.
fn pad(text: &str, length: i64, with: &str, left: bool) -> Result<String, SqlError> {
    let length = usize::try_from(length).unwrap_or(0);
    let count = text.chars().count();
    if count >= length || with.is_empty() {
        return Ok(text.chars().take(length).collect());
    }
    if length.saturating_mul(4) > TEXT_MAX {
        return Err(too_long());
    }
    // Of the characters of `with` some may be longer than its first.
    let longest = with.chars().map(char::len_utf8).max().unwrap_or(1);
    memory::column(1, text.len().saturating_add((length - count).saturating_mul(longest)))?;
    let padding: String = with.chars().cycle().take(length - count).collect();
    Ok(if left { padding + text } else { text.to_owned() + &padding })
}

/// A text of so many bytes gets more.
///
/// # Errors
/// `54000` as PostgreSQL's `enlargeStringInfo` has it.
pub(super) fn grows(bytes: usize, more: usize) -> Result<(), SqlError> {
    if bytes.saturating_add(more) <= TEXT_MAX - 2 {
        return Ok(());
    }
    let detail = format!("Cannot enlarge string buffer containing {bytes} bytes by {more} more bytes.");
    Err(SqlError::new("54000", "out of memory").with_detail(detail))
}

/// Values as `concat` shows them: as a result would.
fn shown(call: &Call<'_>, at: usize, row: usize) -> Result<Option<String>, SqlError> {
    let array = &call.arrays[at];
    if array.data_type().is_null() || array.is_null(row) {
        return Ok(None);
    }
    if let Some(texts) = array.as_string_view_opt() {
        return Ok(Some(texts.value(row).to_owned()));
    }
    if let Some(bools) = array.as_boolean_opt() {
        return Ok(Some(if bools.value(row) { "t" } else { "f" }.to_owned()));
    }
    let value = ScalarValue::try_from_array(array, row).map_err(|error| crate::errors::from_datafusion(error, ""))?;
    crate::decode::scalar_text(&value, &TextStyle::default())
}

/// As the sum of the arguments from one on.
fn joined(call: &Call<'_>, row: usize, from: usize, separator: &str) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut first = true;
    for at in from..call.arrays.len() {
        if let Some(text) = shown(call, at, row)? {
            grows(out.len(), text.len() + separator.len())?;
            if !first {
                out.push_str(separator);
            }
            first = false;
            out.push_str(&text);
        }
    }
    Ok(out)
}

pub(super) fn bytes_of(array: &ArrayRef) -> Result<BinaryViewArray, SqlError> {
    let bytes = cast_array(array, &DataType::BinaryView, t::BYTEA, &Zone::Utc)?;
    Ok(bytes.as_binary_view().clone())
}

/// The greatest common divisor, in the range of 64 bits without a sign.
fn gcd(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A function of two integers whose result has their type.
fn of_integers(name: &'static str, of: fn(i64, i64) -> Option<i64>) -> PgFunction {
    let wide = |fields: &[datafusion::arrow::datatypes::FieldRef]| {
        let small = fields.iter().all(|field| matches!(field.data_type(), DataType::Int16 | DataType::Int32));
        let ty = if small { DataType::Int32 } else { DataType::Int64 };
        Arc::new(datafusion::arrow::datatypes::Field::new("", ty, true))
    };
    f(name, &[P::Any, P::Any], super::define::Returns::By(wide), move |call| {
        let small = call.returns.data_type() == &DataType::Int32;
        let read = |at: usize| cast_array(&call.arrays[at], &DataType::Int64, t::INT8, &Zone::Utc);
        let (a, b) = (read(0)?, read(1)?);
        let (a, b) = (
            a.as_primitive::<datafusion::arrow::datatypes::Int64Type>(),
            b.as_primitive::<datafusion::arrow::datatypes::Int64Type>(),
        );
        let value = |row: usize| {
            if a.is_null(row) || b.is_null(row) {
                return Ok(None);
            }
            let fits = |value: &i64| !small || i32::try_from(*value).is_ok();
            let range = || SqlError::new("22003", format!("{} out of range", if small { "integer" } else { "bigint" }));
            of(a.value(row), b.value(row)).filter(fits).map(Some).ok_or_else(range)
        };
        match small {
            true => call.int4s(|row| Ok(value(row)?.map(|value| value as i32))),
            false => call.ints(value),
        }
    })
}

/// What `string_agg` gathers where each row has a separator of its own: [`piece`], and what makes the result of them.
pub const PIECE: &str = "pg_joined_piece";
pub const PIECES: &str = "pg_joined_pieces";

/// A value behind its separator, with the lengths of both in bytes: which row comes first is not known yet.
fn piece(separator: &str, value: &str) -> String {
    format!("{:x}:{:x}:{separator}{value}", separator.len(), value.len())
}

/// Pieces as one text, without the separator of the first.
///
/// # Errors
/// `XX000` for a text that is not of pieces.
fn together(pieces: &str) -> Result<String, SqlError> {
    let broken = || SqlError::internal("pieces of a text that are none");
    memory::column(1, pieces.len())?;
    let (mut out, mut rest, mut first) = (String::new(), pieces, true);
    while !rest.is_empty() {
        let (separator, behind) = rest.split_once(':').ok_or_else(broken)?;
        let (value, behind) = behind.split_once(':').ok_or_else(broken)?;
        let length = |digits: &str| usize::from_str_radix(digits, 16).map_err(|_| broken());
        let (separator, value) = (length(separator)?, length(value)?);
        let end = separator.checked_add(value).ok_or_else(broken)?;
        let from = if first { separator } else { 0 };
        out.push_str(behind.get(from..end).ok_or_else(broken)?);
        rest = behind.get(end..).ok_or_else(broken)?;
        first = false;
    }
    Ok(out)
}

pub(super) fn all() -> Vec<PgFunction> {
    let mut out = vec![
        f("concat", &[P::Any], oid(t::TEXT), |call| call.texts(|row| joined(call, row, 0, "").map(Some)))
            .required(1)
            .variadic(),
        f("concat_ws", &[P::Text, P::Any], oid(t::TEXT), |call| {
            call.texts(|row| match call.text(0, row) {
                Some(separator) => joined(call, row, 1, separator).map(Some),
                None => Ok(None),
            })
        })
        .required(1)
        .variadic(),
        f(PIECE, &[P::Text, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| Ok(call.text(1, row).map(|value| piece(call.text(0, row).unwrap_or_default(), value))))
        }),
        f(PIECES, &[P::Text], oid(t::TEXT), |call| call.texts(|row| call.text(0, row).map(together).transpose())),
        f("chr", &[P::Int], oid(t::TEXT), |call| {
            call.texts(|row| {
                let Some(code) = call.int(0, row) else { return Ok(None) };
                if code < 0 {
                    return Err(SqlError::new("22023", "character number must be positive"));
                }
                if code == 0 {
                    return Err(SqlError::new("54000", "null character not permitted"));
                }
                let c = u32::try_from(code).ok().and_then(char::from_u32);
                let wrong = match code > 0x10_ffff {
                    true => "requested character too large for encoding: ",
                    false => "requested character not valid for encoding: ",
                };
                c.map(|c| Some(c.to_string())).ok_or_else(|| SqlError::new("54000", format!("{wrong}{code}")))
            })
        }),
        f("to_hex", &[P::Any], oid(t::TEXT), |call| {
            let small = matches!(call.arrays[0].data_type(), DataType::Int16 | DataType::Int32);
            let values = cast_array(&call.arrays[0], &DataType::Int64, t::INT8, &Zone::Utc)?;
            let values = values.as_primitive::<datafusion::arrow::datatypes::Int64Type>();
            call.texts(|row| {
                let value = values.is_valid(row).then(|| values.value(row));
                Ok(value.map(|value| if small { format!("{:x}", value as i32) } else { format!("{value:x}") }))
            })
        }),
        of_integers("gcd", |a, b| i64::try_from(gcd(a, b)).ok()),
        of_integers("lcm", |a, b| match gcd(a, b) {
            0 => Some(0),
            divisor => i64::try_from(a.unsigned_abs() / divisor).ok()?.checked_mul(b)?.checked_abs(),
        }),
        f("num_nulls", &[P::Any], oid(t::INT4), |call| {
            call.int4s(|row| Ok(Some(call.arrays.iter().filter(|array| is_null(array, row)).count() as i32)))
        })
        .required(1)
        .variadic(),
        f("num_nonnulls", &[P::Any], oid(t::INT4), |call| {
            call.int4s(|row| Ok(Some(call.arrays.iter().filter(|array| !is_null(array, row)).count() as i32)))
        })
        .required(1)
        .variadic(),
    ];
    out.extend(parts());
    for (name, left) in [("lpad", true), ("rpad", false)] {
        out.push(
            f(name, &[P::Text, P::Int, P::Text], oid(t::TEXT), move |call| {
                call.texts(|row| {
                    let with = if call.given(2) { call.text(2, row) } else { Some(" ") };
                    match (call.text(0, row), call.int(1, row), with) {
                        (Some(text), Some(length), Some(with)) => pad(text, length, with, left).map(Some),
                        _ => Ok(None),
                    }
                })
            })
            .required(2),
        );
    }
    out
}

/// A part of `count` things from `start` on, counted from 1, as a range from 0; of what is before the begin nothing.
///
/// # Errors
/// 22011 for a negative length.
pub(super) fn part(count: usize, start: i64, length: Option<i64>) -> Result<std::ops::Range<usize>, SqlError> {
    let end = match length {
        None => i64::MAX,
        Some(length) => {
            // A sum that overflows is an end behind everything.
            let end = start.checked_add(length).unwrap_or(i64::MAX);
            if end < start {
                return Err(SqlError::new("22011", "negative substring length not allowed"));
            }
            end
        }
    };
    let place = |at: i64| usize::try_from(at.saturating_sub(1)).unwrap_or(0).min(count);
    let (begin, end) = (place(start), place(end));
    Ok(begin..end.max(begin))
}

fn text_part(text: &str, start: i64, length: Option<i64>) -> Result<&str, SqlError> {
    if text.is_ascii() {
        return Ok(&text[part(text.len(), start, length)?]);
    }
    let range = part(text.chars().count(), start, length)?;
    let mut begins = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let from = begins.clone().nth(range.start).unwrap_or(text.len());
    let to = begins.nth(range.end).unwrap_or(text.len());
    Ok(&text[from..to])
}

/// Parts of texts and of bytes.
fn parts() -> Vec<PgFunction> {
    let same = |fields: &[datafusion::arrow::datatypes::FieldRef]| {
        let binary = fields.first().is_some_and(|field| field.data_type().is_binary());
        let ty = if binary { DataType::BinaryView } else { DataType::Utf8View };
        Arc::new(datafusion::arrow::datatypes::Field::new("", ty, true))
    };
    let mut out = vec![
        f("overlay", &[P::Any, P::Any, P::Int, P::Int], super::define::Returns::By(same), |call| {
            if call.arrays[0].data_type().is_binary() {
                return Err(SqlError::unsupported("overlay of bytea is not supported"));
            }
            let read = |at: usize| cast_array(&call.arrays[at], &DataType::Utf8View, t::TEXT, &Zone::Utc);
            let (texts, news) = (read(0)?, read(1)?);
            let (texts, news) = (texts.as_string_view(), news.as_string_view());
            call.texts(|row| {
                let Some(start) = call.int(2, row).filter(|_| texts.is_valid(row) && news.is_valid(row)) else {
                    return Ok(None);
                };
                let (text, new) = (texts.value(row), news.value(row));
                let length = match call.given(3) {
                    true => call.int(3, row),
                    false => Some(new.chars().count() as i64),
                };
                let Some(length) = length else { return Ok(None) };
                if start <= 0 {
                    return Err(SqlError::new("22011", "negative substring length not allowed"));
                }
                let behind = start.checked_add(length).filter(|at| i32::try_from(*at).is_ok());
                let behind = behind.ok_or_else(|| SqlError::new("22003", "integer out of range"))?;
                let mut out = text_part(text, 1, Some(start - 1))?.to_owned();
                out.push_str(new);
                out.push_str(text_part(text, behind, None)?);
                Ok(Some(out))
            })
        })
        .required(3),
        f("split_part", &[P::Text, P::Text, P::Int], oid(t::TEXT), |call| {
            call.texts(|row| {
                let (Some(text), Some(separator), Some(n)) = (call.text(0, row), call.text(1, row), call.int(2, row))
                else {
                    return Ok(None);
                };
                if n == 0 {
                    return Err(SqlError::new("22023", "field position must not be zero"));
                }
                let at = usize::try_from(n.unsigned_abs() - 1).unwrap_or(usize::MAX);
                let found = match separator {
                    _ if text.is_empty() => None,
                    "" => (at == 0).then_some(text),
                    separator if n > 0 => text.split(separator).nth(at),
                    separator => text.split(separator).collect::<Vec<_>>().into_iter().rev().nth(at),
                };
                Ok(Some(found.unwrap_or_default().to_owned()))
            })
        }),
    ];
    for name in ["substr", "substring"] {
        out.push(
            f(name, &[P::Any, P::Int, P::Int], super::define::Returns::By(same), |call| {
                let length = |row: usize| match call.given(2) {
                    true => call.int(2, row).map(Some),
                    false => Some(None),
                };
                let range = |row: usize, valid: bool| match (call.int(1, row), length(row)) {
                    (Some(start), Some(length)) if valid => Some((start, length)),
                    _ => None,
                };
                if call.arrays[0].data_type().is_binary() {
                    let bytes = bytes_of(&call.arrays[0])?;
                    let value = |row: usize| match range(row, bytes.is_valid(row)) {
                        Some((start, length)) => {
                            let bytes = bytes.value(row);
                            Ok(Some(bytes[part(bytes.len(), start, length)?].to_vec()))
                        }
                        None => Ok(None),
                    };
                    return Ok(Arc::new((0..call.rows).map(value).collect::<Result<BinaryViewArray, SqlError>>()?));
                }
                let texts = cast_array(&call.arrays[0], &DataType::Utf8View, t::TEXT, &Zone::Utc)?;
                let texts = texts.as_string_view();
                call.slices(|row| match range(row, texts.is_valid(row)) {
                    Some((start, length)) => text_part(texts.value(row), start, length).map(Some),
                    None => Ok(None),
                })
            })
            .required(2),
        );
    }
    out
}

fn is_null(array: &ArrayRef, row: usize) -> bool {
    array.data_type().is_null() || array.is_null(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_with_their_separators() {
        let all = [("first", "a"), (", ", "b:1"), ("", ""), ("é", "ü"), ("; ", "z")];
        let pieces: String = all.iter().map(|(separator, value)| piece(separator, value)).collect();
        assert_eq!(together(&pieces).expect("pieces"), "a, b:1éü; z");
        assert_eq!(together(&piece("x", "")).expect("pieces"), "");
        for broken in ["1", "1:", "1:1:a", "1:ffffffffffffffff:ab", "x:1:ab", "1:1:é"] {
            assert_eq!(together(broken).unwrap_err().sqlstate, "XX000", "{broken}");
        }
    }

    #[test]
    fn padding() {
        assert_eq!(pad("hi", 5, "xy", true).expect("text"), "xyxhi");
        assert_eq!(pad("hi", 5, "xy", false).expect("text"), "hixyx");
        assert_eq!(pad("hello", -1, " ", true).expect("text"), "");
        assert_eq!(pad("äöü", 2, "x", true).expect("text"), "äö");
        assert_eq!(pad("a", 5, "", true).expect("text"), "a");
    }

    #[test]
    fn parts_of_texts() {
        for (start, length, out) in
            [(2, Some(2), "bc"), (-1, Some(3), "a"), (0, None, "abc"), (4, Some(1), ""), (2, Some(i64::MAX), "bc")]
        {
            assert_eq!(text_part("abc", start, length).expect("text"), out, "{start} {length:?}");
        }
        assert_eq!(text_part("abc", 2, Some(-1)).unwrap_err().sqlstate, "22011");
        // Characters, not bytes.
        for (text, start, length) in ["aäß", "€", "", "x€y€z"]
            .into_iter()
            .flat_map(|text| (-2..7).flat_map(move |start| (0..7).map(move |length| (text, start, length))))
        {
            let chars = (1..).zip(text.chars());
            let out: String =
                chars.filter(|(at, _)| (start..start + length).contains(at)).map(|(_, char)| char).collect();
            assert_eq!(text_part(text, start, Some(length)).expect("text"), out, "{text} {start} {length}");
        }
    }

    #[test]
    fn divisors() {
        assert_eq!(gcd(i64::MIN, 0), 1 << 63);
        assert_eq!(gcd(12, -18), 6);
    }
}
