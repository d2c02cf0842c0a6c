//! Addresses of network interfaces: `macaddr` (EUI-48) and `macaddr8` (EUI-64). They are stored as their bytes, which order as they do.

use std::fmt::Write;

use crate::decode::bad_text;
use crate::wire::SqlError;

/// Between the third and the fourth byte of an address of six bytes that is written with eight.
const INSERTED: [u8; 2] = [0xff, 0xfe];
/// The seventh bit: the address is unique by itself.
pub const UNIVERSAL: u8 = 0x02;

/// Appends bytes with colons between.
pub fn put(out: &mut String, bytes: &[u8]) {
    for (at, byte) in bytes.iter().enumerate() {
        // Writing to a text cannot fail.
        let _ = write!(out, "{}{byte:02x}", if at == 0 { "" } else { ":" });
    }
}

/// A number in hexadecimal, as `%x` of C reads it: white space before it, a sign, `0x`; at most `width` characters. And the rest.
fn hexadecimal(text: &[u8], width: usize) -> Option<(i64, &[u8])> {
    let text = text.trim_ascii_start();
    let (mut negative, mut at) = (false, 0);
    if let Some(sign @ (b'+' | b'-')) = text.first()
        && width > 1
    {
        (negative, at) = (*sign == b'-', 1);
    }
    let (mut value, mut digits) = (0i64, 0);
    // A number by itself, too: zero.
    if let Some([b'0', b'x' | b'X', ..]) = text.get(at..)
        && width >= at + 2
    {
        (at, digits) = (at + 2, 1);
    }
    while let Some(digit) = text.get(at).filter(|_| at < width).and_then(|byte| char::from(*byte).to_digit(16)) {
        value = value.saturating_mul(16).saturating_add(digit.into());
        (at, digits) = (at + 1, digits + 1);
    }
    (digits > 0).then(|| (if negative { -value } else { value }, &text[at..]))
}

/// Six numbers, each of at most `width` characters, with `between` between them where it is not `None`.
fn six(text: &[u8], width: usize, between: [Option<u8>; 5]) -> Option<[i64; 6]> {
    let mut rest = text;
    let mut out = [0; 6];
    for (at, value) in out.iter_mut().enumerate() {
        if let Some(Some(separator)) = at.checked_sub(1).map(|before| between[before]) {
            rest = rest.strip_prefix(&[separator])?;
        }
        (*value, rest) = hexadecimal(rest, width)?;
    }
    rest.trim_ascii().is_empty().then_some(out)
}

/// Reads a `macaddr` in any of the seven ways that PostgreSQL knows.
///
/// # Errors
/// `22P02`; `22003` for a number that is no byte.
pub fn parse(text: &str) -> Result<[u8; 6], SqlError> {
    let (colon, hyphen, dot, none) = (Some(b':'), Some(b'-'), Some(b'.'), None);
    let ways = [
        (usize::MAX, [colon; 5]),
        (usize::MAX, [hyphen; 5]),
        (2, [none, none, colon, none, none]),
        (2, [none, none, hyphen, none, none]),
        (2, [none, dot, none, dot, none]),
        (2, [none, hyphen, none, hyphen, none]),
        (2, [none; 5]),
    ];
    let found = ways.into_iter().find_map(|(width, between)| six(text.as_bytes(), width, between));
    let values = found.ok_or_else(|| bad_text("macaddr", text))?;
    let mut out = [0; 6];
    for (byte, value) in out.iter_mut().zip(values) {
        *byte = u8::try_from(value)
            .map_err(|_| SqlError::new("22003", format!("invalid octet value in \"macaddr\" value: \"{text}\"")))?;
    }
    Ok(out)
}

/// Reads a `macaddr8`: six or eight pairs of digits, with one separator throughout, or none, between some of them.
///
/// # Errors
/// `22P02`
pub fn parse8(text: &str) -> Result<[u8; 8], SqlError> {
    let bad = || bad_text("macaddr8", text);
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
    let mut rest = text.as_bytes();
    while let Some((_, after)) = rest.split_first().filter(|(byte, _)| is_space(byte)) {
        rest = after;
    }
    let (mut bytes, mut separator) = (Vec::with_capacity(8), None);
    while let [high, low, after @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or_else(bad);
        let value = digit(high)? << 4 | digit(low)?;
        if bytes.len() == 8 {
            return Err(bad());
        }
        bytes.push(value as u8);
        rest = after;
        if let [found @ (b':' | b'-' | b'.'), after @ ..] = rest {
            if *separator.get_or_insert(*found) != *found {
                return Err(bad());
            }
            rest = after;
        }
        if matches!(bytes.len(), 6 | 8) && rest.first().is_some_and(is_space) {
            if !rest.iter().all(is_space) {
                return Err(bad());
            }
            rest = &[];
        }
    }
    match bytes.as_slice() {
        [a, b, c, d, e, f] => Ok(widened([*a, *b, *c, *d, *e, *f])),
        bytes => bytes.try_into().map_err(|_| bad()),
    }
}

/// An address of six bytes as one of eight.
pub fn widened([a, b, c, d, e, f]: [u8; 6]) -> [u8; 8] {
    [a, b, c, INSERTED[0], INSERTED[1], d, e, f]
}

/// An address of eight bytes as one of six.
///
/// # Errors
/// `22003` if it is not one that was widened.
pub fn narrowed([a, b, c, x, y, d, e, f]: [u8; 8]) -> Result<[u8; 6], SqlError> {
    if [x, y] == INSERTED {
        return Ok([a, b, c, d, e, f]);
    }
    Err(SqlError::new("22003", "macaddr8 data out of range to convert to macaddr").with_hint(
        "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example \
         xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
    ))
}
