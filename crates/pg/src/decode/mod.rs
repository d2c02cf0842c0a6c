//! Text and binary values to engine datums and DataFusion scalars.
//!
//! Contract: input comes from a client and is never trusted; every error carries
//! PostgreSQL's SQLSTATE and wording: `22P02` bad syntax, `22007` bad date syntax,
//! `22008` date out of range, `22003` number out of range, `22001` text too long,
//! `22P03` bad binary, `22021` bad UTF-8.

mod array;
mod binary;
mod datetime;
mod interval;
mod numbers;
mod param;

pub use array::{parse_array, too_many_dimensions};
pub use binary::decode_binary;
pub(crate) use datetime::{LAST_DATE, displacement, received_date, received_timestamp, words::token};
pub use datetime::{parse_date, parse_time, parse_timestamp, parse_timestamptz, parse_timetz};
pub use interval::{Interval, cut as cut_interval, interval_value, parse_interval, parse_interval_of, range};
pub use numbers::{parse_bool, parse_float4, parse_float8, parse_int, parse_numeric, parse_oid, rescale};
pub use param::{decode_datum, decode_param, infer_param, parse_datum, scalar_text};

use crate::wire::SqlError;

/// `22P02`: invalid input syntax.
#[cold]
pub fn bad_text(ty: &str, text: &str) -> SqlError {
    SqlError::new("22P02", format!("invalid input syntax for type {ty}: \"{text}\""))
}

/// The text of a value, checked to be UTF-8 without zero bytes.
pub fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => Ok(text),
        Ok(_) => Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00")),
        Err(error) => Err(bad_utf8(&bytes[error.valid_up_to()..])),
    }
}

/// So many bytes a character has that begins with this one, as PostgreSQL counts them.
pub(crate) fn utf8_len(first: u8) -> usize {
    match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    }
}

/// The error of bytes that begin with no character, or with a zero.
#[cold]
pub(crate) fn bad_utf8(bytes: &[u8]) -> SqlError {
    let len = bytes.first().map_or(0, |first| utf8_len(*first));
    let shown: Vec<String> = bytes.iter().take(len).map(|byte| format!("0x{byte:02x}")).collect();
    SqlError::new("22021", format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")))
}

/// The 16 bytes of a uuid: hex digits, hyphens after any group of four, braces allowed.
pub fn parse_uuid(text: &str) -> Result<[u8; 16], SqlError> {
    let bad = || bad_text("uuid", text);
    let mut body = text.trim_ascii();
    if let Some(inner) = body.strip_prefix('{') {
        body = inner.strip_suffix('}').ok_or_else(bad)?;
    }
    let mut uuid = [0u8; 16];
    let mut digits = 0usize;
    for byte in body.bytes() {
        if byte == b'-' {
            if digits == 0 || !digits.is_multiple_of(4) || digits == 32 {
                return Err(bad());
            }
            continue;
        }
        let value = char::from(byte).to_digit(16).ok_or_else(bad)? as u8;
        let slot = uuid.get_mut(digits / 2).ok_or_else(bad)?;
        *slot = (*slot << 4) | value;
        digits += 1;
    }
    if digits == 32 { Ok(uuid) } else { Err(bad()) }
}

/// `bytea` text: `\x` and hex digits, or the escape format.
pub fn parse_bytea(text: &str, out: &mut Vec<u8>) -> Result<(), SqlError> {
    let bytes = text.as_bytes();
    if let Some(hex) = bytes.strip_prefix(b"\\x") {
        out.reserve(hex.len() / 2);
        let mut high: Option<u8> = None;
        for &byte in hex {
            if byte.is_ascii_whitespace() && high.is_none() {
                continue;
            }
            let Some(value) = char::from(byte).to_digit(16) else {
                return Err(SqlError::new("22023", format!("invalid hexadecimal digit: \"{}\"", char::from(byte))));
            };
            match high.take() {
                None => high = Some(value as u8),
                Some(first) => out.push((first << 4) | value as u8),
            }
        }
        return if high.is_some() {
            Err(SqlError::new("22023", "invalid hexadecimal data: odd number of digits"))
        } else {
            Ok(())
        };
    }
    let mut rest = bytes;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'\\' {
            out.push(byte);
            rest = tail;
            continue;
        }
        match tail {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return Err(SqlError::new("22P02", "invalid input syntax for type bytea")),
        }
    }
    Ok(())
}

/// Values within values that JSON may have.
const JSON_DEPTH_MAX: usize = 512;

/// Checks that a text is JSON (RFC 8259).
///
/// # Errors
/// `22P02`; `54001` if it is nested more than [`JSON_DEPTH_MAX`] deep.
pub fn check_json(text: &str) -> Result<(), SqlError> {
    let mut parser = Json { bytes: text.as_bytes(), at: 0, is_too_deep: false };
    parser
        .value(0)
        .and_then(|()| {
            parser.spaces();
            if parser.at == parser.bytes.len() { Ok(()) } else { Err(()) }
        })
        .map_err(|()| {
            if parser.is_too_deep {
                return SqlError::new("54001", "stack depth limit exceeded");
            }
            let mut at = parser.at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let rest = &text[at..];
            let token: String = rest.chars().take_while(|c| !c.is_whitespace()).take(40).collect();
            let error = SqlError::new("22P02", "invalid input syntax for type json");
            if token.is_empty() {
                error.with_detail("The input string ended unexpectedly.")
            } else {
                error.with_detail(format!("Token \"{token}\" is invalid."))
            }
        })
}

struct Json<'a> {
    bytes: &'a [u8],
    at: usize,
    is_too_deep: bool,
}

impl Json<'_> {
    fn spaces(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
    fn eat(&mut self, byte: u8) -> bool {
        self.spaces();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }
    fn value(&mut self, depth: usize) -> Result<(), ()> {
        if depth > JSON_DEPTH_MAX {
            self.is_too_deep = true;
            return Err(());
        }
        self.spaces();
        match self.bytes.get(self.at) {
            Some(b'{') => {
                self.at += 1;
                if self.eat(b'}') {
                    return Ok(());
                }
                loop {
                    self.spaces();
                    self.string()?;
                    if !self.eat(b':') {
                        return Err(());
                    }
                    self.value(depth + 1)?;
                    if self.eat(b'}') {
                        return Ok(());
                    }
                    if !self.eat(b',') {
                        return Err(());
                    }
                }
            }
            Some(b'[') => {
                self.at += 1;
                if self.eat(b']') {
                    return Ok(());
                }
                loop {
                    self.value(depth + 1)?;
                    if self.eat(b']') {
                        return Ok(());
                    }
                    if !self.eat(b',') {
                        return Err(());
                    }
                }
            }
            Some(b'"') => self.string(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(()),
        }
    }
    fn word(&mut self, word: &[u8]) -> Result<(), ()> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(())
        }
    }
    fn digits(&mut self) -> Result<(), ()> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(()) }
    }
    fn number(&mut self) -> Result<(), ()> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }
    fn string(&mut self) -> Result<(), ()> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(());
        }
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None | Some(0..=0x1f) => return Err(()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.bytes.get(self.at) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(b'u') => {
                            let hex = self.bytes.get(self.at + 1..self.at + 5).ok_or(())?;
                            if !hex.iter().all(u8::is_ascii_hexdigit) {
                                return Err(());
                            }
                            self.at += 5;
                        }
                        _ => return Err(()),
                    }
                }
                Some(_) => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        let text = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let uuid = parse_uuid(text).expect("uuid");
        for other in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(parse_uuid(other).expect(other), uuid);
        }
        for bad in ["", "x", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111", "{a"] {
            assert_eq!(parse_uuid(bad).unwrap_err().sqlstate, "22P02", "{bad}");
        }
    }

    #[test]
    fn byteas() {
        for (text, bytes) in [
            ("\\x00ff", &[0u8, 255][..]),
            ("\\x", &[]),
            ("abc", b"abc"),
            ("a\\\\b", b"a\\b"),
            ("\\001", &[1]),
            ("\\x0A 0b", &[10, 11]),
        ] {
            let mut out = Vec::new();
            parse_bytea(text, &mut out).expect(text);
            assert_eq!(out, bytes, "{text}");
        }
        for bad in ["\\x0", "\\xgg", "\\9", "\\"] {
            assert!(parse_bytea(bad, &mut Vec::new()).is_err(), "{bad}");
        }
    }

    #[test]
    fn json() {
        for good in ["1", " {\"a\": [1, -2.5e3, null, true]} ", "\"\\u00e4\"", "[]", "{}", "0"] {
            assert!(check_json(good).is_ok(), "{good}");
        }
        for bad in ["", "{", "{a:1}", "[1,]", "01", "\"a", "tru", "1 2", "nul", "\"\t\""] {
            assert_eq!(check_json(bad).unwrap_err().sqlstate, "22P02", "{bad}");
        }
        for (depth, sqlstate) in [(512, None), (513, None), (514, Some("54001")), (100_000, Some("54001"))] {
            let text = "[".repeat(depth) + &"]".repeat(depth);
            assert_eq!(check_json(&text).err().map(|error| error.sqlstate.clone()).as_deref(), sqlstate, "{depth}");
        }
    }

    #[test]
    fn utf8_errors() {
        assert_eq!(utf8(b"a\xff").unwrap_err().message, "invalid byte sequence for encoding \"UTF8\": 0xff");
        assert_eq!(utf8(b"a\0").unwrap_err().sqlstate, "22021");
    }
}
