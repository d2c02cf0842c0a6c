//! `encode` and `decode`: bytes as texts, by PostgreSQL's rules for what is malformed (`encode.c`); escapes of LIKE.

use std::fmt::Write as _;

use datafusion::arrow::array::Array;

use super::define::{P, PgFunction, f, oid};
use super::strings::bytes_of;
use crate::types::oid as t;
use crate::wire::SqlError;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Hex,
    Escape,
    Base64,
}

impl Format {
    /// # Errors
    /// 22023
    fn of(name: &str) -> Result<Self, SqlError> {
        match name.to_ascii_lowercase().as_str() {
            "hex" => Ok(Self::Hex),
            "escape" => Ok(Self::Escape),
            "base64" => Ok(Self::Base64),
            _ => Err(SqlError::new("22023", format!("unrecognized encoding: \"{name}\""))),
        }
    }
}

fn encode(bytes: &[u8], format: Format) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    match format {
        Format::Hex => {
            for byte in bytes {
                let _ = write!(out, "{byte:02x}");
            }
        }
        Format::Escape => {
            for byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0 | 0x80.. => {
                        let _ = write!(out, "\\{byte:03o}");
                    }
                    byte => out.push(char::from(*byte)),
                }
            }
        }
        Format::Base64 => {
            let mut line = 0;
            for chunk in bytes.chunks(3) {
                let at = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
                let bits = at(0) << 16 | at(1) << 8 | at(2);
                for digit in 0..4 {
                    match digit <= chunk.len() {
                        true => out.push(char::from(BASE64[(bits >> (18 - 6 * digit) & 63) as usize])),
                        false => out.push('='),
                    }
                }
                line += 4;
                // Lines of 76 characters; none is begun that stays empty but for a full last one.
                if line >= 76 && chunk.len() == 3 {
                    out.push('\n');
                    line = 0;
                }
            }
        }
    }
    out
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\t' | '\r')
}

/// # Errors
/// 22023; 22P02 for what `escape` does not read.
fn decode(text: &str, format: Format) -> Result<Vec<u8>, SqlError> {
    match format {
        Format::Hex => decode_hex(text),
        Format::Escape => decode_escape(text.as_bytes()),
        Format::Base64 => decode_base64(text),
    }
}

fn decode_hex(text: &str) -> Result<Vec<u8>, SqlError> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut chars = text.chars();
    let digit = |c: char| {
        let message = || SqlError::new("22023", format!("invalid hexadecimal digit: \"{c}\""));
        c.to_digit(16).map(|digit| digit as u8).ok_or_else(message)
    };
    // Blanks may stand between bytes, not within one.
    while let Some(c) = chars.by_ref().find(|c| !is_blank(*c)) {
        let high = digit(c)?;
        let Some(c) = chars.next() else {
            return Err(SqlError::new("22023", "invalid hexadecimal data: odd number of digits"));
        };
        out.push(high << 4 | digit(c)?);
    }
    Ok(out)
}

fn decode_escape(text: &[u8]) -> Result<Vec<u8>, SqlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Ok(out),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', b'\\', rest @ ..] => {
                out.push(b'\\');
                rest
            }
            [b'\\', ..] => return Err(SqlError::new("22P02", "invalid input syntax for type bytea")),
            [byte, rest @ ..] => {
                out.push(*byte);
                rest
            }
        };
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>, SqlError> {
    let wrong = |message: String| SqlError::new("22023", message);
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut digits) = (0u32, 0);
    // How many bytes the groups from the first sign of padding on have; PostgreSQL never goes back.
    let mut bytes = None;
    for c in text.chars().filter(|c| !is_blank(*c)) {
        let value = if c == '=' {
            if bytes.is_none() {
                bytes = match digits {
                    2 => Some(1),
                    3 => Some(2),
                    _ => return Err(wrong("unexpected \"=\" while decoding base64 sequence".to_owned())),
                };
            }
            0
        } else {
            let place = BASE64.iter().position(|digit| char::from(*digit) == c);
            let Some(place) = place else {
                return Err(wrong(format!("invalid symbol \"{c}\" found while decoding base64 sequence")));
            };
            place as u32
        };
        bits = bits << 6 | value;
        digits += 1;
        if digits == 4 {
            let group = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
            out.extend_from_slice(&group[..bytes.unwrap_or(3)]);
            (bits, digits) = (0, 0);
        }
    }
    match digits {
        0 => Ok(out),
        _ => Err(wrong("invalid base64 end sequence".to_owned())
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted.")),
    }
}

/// A pattern of LIKE with a backslash in place of its escape character (`like_match.c`).
///
/// # Errors
/// 22025
fn like_escape(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let mut chars = escape.chars();
    let escape = match (chars.next(), chars.next()) {
        (_, Some(_)) => {
            let hint = "Escape string must be empty or one character.";
            return Err(SqlError::new("22025", "invalid escape string").with_hint(hint));
        }
        (Some('\\'), None) => return Ok(pattern.to_owned()),
        (escape, None) => escape,
    };
    let mut out = String::with_capacity(pattern.len() + 4);
    let mut escaped = false;
    for c in pattern.chars() {
        let escapes = Some(c) == escape && !escaped;
        match c {
            _ if escapes => out.push('\\'),
            '\\' if !escaped => out.push_str("\\\\"),
            c => out.push(c),
        }
        escaped = escapes;
    }
    Ok(out)
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("encode", &[P::Any, P::Text], oid(t::TEXT), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            call.texts(|row| match call.text(1, row) {
                Some(format) if bytes.is_valid(row) => Ok(Some(encode(bytes.value(row), Format::of(format)?))),
                _ => Ok(None),
            })
        }),
        f("like_escape", &[P::Text, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| match (call.text(0, row), call.text(1, row)) {
                (Some(pattern), Some(escape)) => like_escape(pattern, escape).map(Some),
                _ => Ok(None),
            })
        }),
        f("decode", &[P::Text, P::Text], oid(t::BYTEA), |call| {
            call.byteas(|row| match (call.text(0, row), call.text(1, row)) {
                (Some(text), Some(format)) => decode(text, Format::of(format)?).map(Some),
                _ => Ok(None),
            })
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        assert_eq!(encode(b"\xde\xad\xbe\xef", Format::Base64), "3q2+7w==");
        assert_eq!(encode(&[b'a'; 57], Format::Base64), format!("{}\n", "YWFh".repeat(19)));
        assert_eq!(encode(&[b'a'; 58], Format::Base64), format!("{}\nYQ==", "YWFh".repeat(19)));
        assert_eq!(encode(b"a\\\0\xff", Format::Escape), "a\\\\\\000\\377");
        assert_eq!(Format::of("foo").err().map(|error| error.sqlstate.clone()), Some("22023".into()));
    }

    #[test]
    fn decoded_is_what_was_encoded() {
        let bytes: Vec<u8> = (0..=255).collect();
        for format in [Format::Hex, Format::Escape, Format::Base64] {
            for end in [0, 1, 2, 3, 57, 58, 256] {
                assert_eq!(decode(&encode(&bytes[..end], format), format).expect("bytes"), bytes[..end]);
            }
        }
    }
}
