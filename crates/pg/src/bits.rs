//! `bit` and `bit varying`: strings of bits.
//!
//! In plans they are texts of zeros and ones, which order as they do: bit by bit, and what ends first is the smaller one (PostgreSQL's
//! `bit_cmp`). Stored, each byte has seven bits: its number is the place that these have among all strings of up to seven bits in that
//! order. Seven bits go on with the next byte; fewer are the end. So the bytes order as the bits do, no value begins another's, and one of
//! up to six bits takes a byte.

use std::borrow::Cow;

use resurgam_engine::OrderedType;

use crate::wire::SqlError;

/// Most bits that there can be, as in PostgreSQL.
pub const MAX: usize = i32::MAX as usize - 7;

/// Bits of a stored byte.
const GROUP: usize = 7;

/// The length that a modifier says; `None`: any.
pub fn limit_of(typmod: i32) -> Option<u32> {
    u32::try_from(typmod).ok().filter(|limit| *limit > 0)
}

/// Whether so many bits are a value of a type.
///
/// # Errors
/// `22026`, `22001`
pub fn check_length(length: usize, ty: OrderedType) -> Result<(), SqlError> {
    match ty {
        OrderedType::Bit(Some(limit)) if length != limit as usize => {
            Err(SqlError::new("22026", format!("bit string length {length} does not match type bit({limit})")))
        }
        OrderedType::VarBit(Some(limit)) if length > limit as usize => {
            Err(SqlError::new("22001", format!("bit string too long for type bit varying({limit})")))
        }
        _ => Ok(()),
    }
}

/// A text as a type reads it: zeros and ones, behind `b` or not, or hexadecimal digits behind `x`.
///
/// # Errors
/// `22P02`, `22026`, `22001`, `54000`
pub fn parse<'a>(text: &'a str, ty: OrderedType) -> Result<Cow<'a, str>, SqlError> {
    let (is_hex, digits) = match text.as_bytes().first() {
        Some(b'b' | b'B') => (false, &text[1..]),
        Some(b'x' | b'X') => (true, &text[1..]),
        _ => (false, text),
    };
    if !is_hex {
        check_length(digits.len(), ty)?;
        return match digits.chars().find(|digit| !matches!(digit, '0' | '1')) {
            Some(other) => Err(SqlError::new("22P02", format!("\"{other}\" is not a valid binary digit"))),
            None => Ok(Cow::Borrowed(digits)),
        };
    }
    if digits.len() > MAX / 4 {
        return Err(too_long());
    }
    check_length(digits.len() * 4, ty)?;
    let mut out = String::with_capacity(digits.len() * 4);
    for digit in digits.chars() {
        let Some(value) = digit.to_digit(16) else {
            return Err(SqlError::new("22P02", format!("\"{digit}\" is not a valid hexadecimal digit")));
        };
        (0..4).rev().for_each(|at| out.push(if value >> at & 1 == 1 { '1' } else { '0' }));
    }
    Ok(Cow::Owned(out))
}

/// The first bits, so many at most; with zeros behind them up to that if it `is_padded`. That is what a cast to a type with a length gives.
pub fn with_length(bits: &str, length: usize, is_padded: bool) -> Cow<'_, str> {
    match bits.get(..length) {
        Some(first) => Cow::Borrowed(first),
        None if is_padded => {
            let mut out = String::with_capacity(length);
            out.push_str(bits);
            out.extend(std::iter::repeat_n('0', length - bits.len()));
            Cow::Owned(out)
        }
        None => Cow::Borrowed(bits),
    }
}

/// `54000`
pub fn too_long() -> SqlError {
    SqlError::new("54000", format!("bit string length exceeds the maximum allowed ({MAX})"))
}

/// The stored form of a text of zeros and ones.
///
/// # Errors
/// `XX001` for other texts.
pub fn to_stored(text: &str) -> Result<Vec<u8>, SqlError> {
    let bits = text.as_bytes();
    if bits.iter().any(|bit| !matches!(bit, b'0' | b'1')) {
        return Err(damaged());
    }
    let mut out = Vec::with_capacity(bits.len() / GROUP + 1);
    let mut groups = bits.chunks_exact(GROUP);
    out.extend(groups.by_ref().map(place_of));
    out.push(place_of(groups.remainder()));
    Ok(out)
}

/// The place of up to seven bits among all such strings: each zero goes to the next one, each one past all that have a zero there.
fn place_of(bits: &[u8]) -> u8 {
    let weights = (1..=GROUP as u32).rev().map(|power| 1u8 << power);
    bits.iter().zip(weights).map(|(bit, weight)| if *bit == b'1' { weight } else { 1 }).sum()
}

/// The text of stored bytes.
///
/// # Errors
/// `XX001` if they are none.
pub fn from_stored(stored: &[u8]) -> Result<String, SqlError> {
    let (last, groups) = stored.split_last().ok_or_else(damaged)?;
    let mut out = String::with_capacity(stored.len() * GROUP);
    for group in groups {
        if put_group(*group, &mut out) != Some(GROUP) {
            return Err(damaged());
        }
    }
    match put_group(*last, &mut out) {
        Some(length) if length < GROUP => Ok(out),
        _ => Err(damaged()),
    }
}

/// Appends the bits at a place; how many these are.
fn put_group(place: u8, out: &mut String) -> Option<usize> {
    let mut rest = place;
    for at in 0..GROUP {
        let weight = 1u8 << (GROUP - at);
        match rest {
            0 => return Some(at),
            _ if rest >= weight => {
                out.push('1');
                rest -= weight;
            }
            _ => {
                out.push('0');
                rest -= 1;
            }
        }
    }
    (rest == 0).then_some(GROUP)
}

fn damaged() -> SqlError {
    SqlError::new("XX001", "bits are in a form that is none")
}

/// The bits in bytes, zeros behind the last.
pub fn packed(text: &str) -> Vec<u8> {
    let byte = |bits: &[u8]| {
        bits.iter().enumerate().fold(0u8, |byte, (at, bit)| if *bit == b'1' { byte | 0x80 >> at } else { byte })
    };
    text.as_bytes().chunks(8).map(byte).collect()
}

/// The binary form: how many there are, and the bits in bytes.
pub fn send(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&packed(text));
    out
}

/// A binary form as a type reads it. What is behind the last bit does not count.
///
/// # Errors
/// `08P01`, `22P03`, `22026`, `22001`
pub fn receive(bytes: &[u8], ty: OrderedType) -> Result<String, SqlError> {
    let short = || SqlError::new("08P01", "insufficient data left in message");
    let (length, bytes) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok().filter(|length| *length <= MAX);
    let length = length.ok_or_else(|| SqlError::new("22P03", "invalid length in external bit string"))?;
    check_length(length, ty)?;
    let (bytes, rest) = bytes.split_at_checked(length.div_ceil(8)).ok_or_else(short)?;
    if !rest.is_empty() {
        return Err(SqlError::new("22P03", "incorrect binary data format"));
    }
    let mut out = String::with_capacity(bytes.len() * 8);
    for byte in bytes {
        (0..8).for_each(|at| out.push(if byte & (0x80 >> at) != 0 { '1' } else { '0' }));
    }
    out.truncate(length);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let any = OrderedType::Bit(None);
        for (text, bits) in [("", ""), ("b01", "01"), ("X1f", "00011111"), ("101", "101"), ("b", "")] {
            assert_eq!(parse(text, any).expect(text), bits);
        }
        for (text, ty, state) in [
            ("102", any, "22P02"),
            ("xg", any, "22P02"),
            (" 1", any, "22P02"),
            ("10", OrderedType::Bit(Some(3)), "22026"),
            ("1010", OrderedType::VarBit(Some(3)), "22001"),
        ] {
            assert_eq!(parse(text, ty).unwrap_err().sqlstate, state, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for stored in [&[] as &[u8], &[255], &[254], &[0, 0], &[1, 254, 0], &[254, 255]] {
            assert_eq!(from_stored(stored).unwrap_err().sqlstate, "XX001", "{stored:?}");
        }
        assert_eq!(receive(&[0, 0, 0, 9, 1], OrderedType::Bit(None)).unwrap_err().sqlstate, "08P01");
        assert_eq!(receive(&[0xff, 0, 0, 9, 1, 1], OrderedType::Bit(None)).unwrap_err().sqlstate, "22P03");
        assert_eq!(receive(&[0, 0, 0, 8, 1, 1], OrderedType::Bit(None)).unwrap_err().sqlstate, "22P03");
        assert_eq!(receive(&[0, 0, 0, 3, 0xff], OrderedType::VarBit(None)).expect("three"), "111");
    }

    #[test]
    fn stored_bytes_order_as_bits_do() {
        let ends = (0..=8usize).flat_map(|length| (0..1u32 << length).map(move |bits| (length, bits)));
        let ends = ends.map(|(length, bits)| if length == 0 { String::new() } else { format!("{bits:0length$b}") });
        // The ends of several bytes, too.
        let all = ends.flat_map(|end| ["", "1111111", "0110100"].map(|begin| format!("{begin}{end}")));
        let mut all: Vec<String> = all.collect();
        all.sort();
        all.dedup();
        let mut before: Option<Vec<u8>> = None;
        for text in all {
            let stored = to_stored(&text).expect("bits");
            assert!(before.is_none_or(|before| before < stored), "{text}");
            assert_eq!(from_stored(&stored).expect("stored"), text);
            assert_eq!(receive(&send(&text), OrderedType::Bit(None)).expect("sent"), text);
            before = Some(stored);
        }
    }
}
