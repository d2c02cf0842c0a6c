//! `parse_ident`, `unistr` and `pg_size_bytes`: texts that are read by rules of their own.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use resurgam_numeric::Numeric;

use super::define::{P, PgFunction, f, oid};
use super::numeric::column::numeric_error;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Most bytes of a name.
const NAME_BYTES: usize = 63;

/// What the lexer takes for blanks.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

fn begins_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()
}

fn goes_on(byte: u8) -> bool {
    begins_identifier(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// The parts of a qualified name; behind them there may be something else if that is not `strict`.
fn parse_ident(text: &str, strict: bool) -> Result<Vec<String>, SqlError> {
    let wrong = |detail: Option<&str>| {
        let error = SqlError::new("22023", format!("string is not a valid identifier: \"{text}\""));
        match detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        }
    };
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied();
    let blanks = |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| is_space(**byte)).count();
    let mut out = Vec::new();
    let mut at = blanks(0);
    let mut behind_dot = false;
    loop {
        match byte(at) {
            Some(b'"') => {
                let mut name = String::new();
                let mut from = at + 1;
                loop {
                    let Some(length) = text[from..].find('"') else {
                        return Err(wrong(Some("String has unclosed double quotes.")));
                    };
                    name.push_str(&text[from..from + length]);
                    from += length + 1;
                    if byte(from) != Some(b'"') {
                        break;
                    }
                    name.push('"');
                    from += 1;
                }
                if name.is_empty() {
                    return Err(wrong(Some("Quoted identifier must not be empty.")));
                }
                out.push(name);
                at = from;
            }
            Some(first) if begins_identifier(first) => {
                let length = bytes[at..].iter().take_while(|byte| goes_on(**byte)).count();
                out.push(text[at..at + length].to_ascii_lowercase());
                at += length;
            }
            Some(b'.') => return Err(wrong(Some("No valid identifier before \".\"."))),
            _ if behind_dot => return Err(wrong(Some("No valid identifier after \".\"."))),
            _ => return Err(wrong(None)),
        }
        at += blanks(at);
        match byte(at) {
            Some(b'.') => {
                behind_dot = true;
                at += 1;
                at += blanks(at);
            }
            Some(_) if strict => return Err(wrong(None)),
            _ => return Ok(out),
        }
    }
}

/// A text with the characters that escapes stand for.
fn unistr(text: &str) -> Result<String, SqlError> {
    let wrong_pair = || SqlError::syntax("invalid Unicode surrogate pair");
    let mut out = String::with_capacity(text.len());
    // The first half of a character that is written as two.
    let mut half: Option<u32> = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        if c != '\\' || behind.starts_with('\\') {
            if half.is_some() {
                return Err(wrong_pair());
            }
            out.push(c);
            rest = if c == '\\' { &behind[1..] } else { behind };
            continue;
        }
        let (from, digits) = match behind.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let written = behind.get(from..from + digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = written.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Err(SqlError::syntax("invalid Unicode escape")
                .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX."));
        };
        if code == 0 || code > 0x10_ffff {
            return Err(SqlError::new("22023", format!("invalid Unicode code point: {code:04X}")));
        }
        let is_second = (0xdc00..0xe000).contains(&code);
        let code = match half.take() {
            Some(first) if is_second => 0x1_0000 + ((first & 0x3ff) << 10) + (code & 0x3ff),
            Some(_) => return Err(wrong_pair()),
            None if is_second => return Err(wrong_pair()),
            None => code,
        };
        match char::from_u32(code) {
            Some(c) => out.push(c),
            None => half = Some(code),
        }
        rest = &behind[from + digits..];
    }
    match half {
        Some(_) => Err(wrong_pair()),
        None => Ok(out),
    }
}

/// Units of sizes, and how many bytes they are.
const UNITS: [(&str, i64); 6] =
    [("bytes", 1), ("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40), ("PB", 1 << 50)];

/// The bytes that a size is, as `pg_size_pretty` writes it.
fn size_bytes(text: &str) -> Result<i64, SqlError> {
    let wrong = || SqlError::new("22023", format!("invalid size: \"{text}\""));
    let is_blank = |byte: u8| is_space(byte) || byte == 0x0b;
    let bytes = text.as_bytes();
    let count = |from: usize, is: &dyn Fn(u8) -> bool| bytes[from..].iter().take_while(|byte| is(**byte)).count();
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let is_sign = |at: usize| matches!(bytes.get(at), Some(b'+' | b'-'));
    let start = count(0, &is_blank);
    let mut end = start + usize::from(is_sign(start));
    let whole = count(end, &is_digit);
    end += whole;
    let mut has_digits = whole > 0;
    if bytes.get(end) == Some(&b'.') {
        let fraction = count(end + 1, &is_digit);
        has_digits |= fraction > 0;
        end += 1 + fraction;
    }
    if !has_digits {
        return Err(wrong());
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        // Without a number behind it, it is a unit.
        let mut at = end + 1;
        at += count(at, &is_blank);
        at += usize::from(is_sign(at));
        let digits = count(at, &is_digit);
        if digits > 0 {
            end = at + digits;
        }
    }
    let number = Numeric::parse(&text[start..end], None).map_err(numeric_error)?;
    let unit = text[end..].trim_matches(|c: char| c.is_ascii() && is_blank(c as u8));
    if unit.is_empty() {
        return number.to_i64().map_err(numeric_error);
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        return Err(wrong()
            .with_detail(format!("Invalid size unit: \"{unit}\"."))
            .with_hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
    };
    let product = number.mul(&Numeric::from(*factor)).map_err(numeric_error)?;
    product.to_i64().map_err(numeric_error)
}

/// A name with an oid behind it, in the length of names.
fn name_with_oid(name: &str, oid: u32) -> String {
    let suffix = format!("_{oid}");
    let end = name.floor_char_boundary(NAME_BYTES - suffix.len());
    format!("{}{suffix}", &name[..end])
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("parse_ident", &[P::Text, P::Bool], oid(t::TEXT_ARRAY), |call| {
            let mut builder = ListBuilder::new(StringViewBuilder::new());
            if let DataType::List(field) = call.returns.data_type() {
                builder = builder.with_field(Arc::clone(field));
            }
            for row in 0..call.rows {
                crate::running::check()?;
                let strict = if call.given(1) { call.bool(1, row) } else { Some(true) };
                let (Some(text), Some(strict)) = (call.text(0, row), strict) else {
                    builder.append(false);
                    continue;
                };
                parse_ident(text, strict)?.iter().for_each(|name| builder.values().append_value(name));
                builder.append(true);
            }
            Ok(Arc::new(builder.finish()) as ArrayRef)
        })
        .required(1),
        // `information_schema`'s `specific_name`.
        f("nameconcatoid", &[P::Text, P::Oid], oid(t::NAME), |call| {
            call.texts(|row| Ok(call.text(0, row).zip(call.oid(1, row)).map(|(name, oid)| name_with_oid(name, oid))))
        }),
        f("unistr", &[P::Text], oid(t::TEXT), |call| call.texts(|row| call.text(0, row).map(unistr).transpose())),
        f("pg_size_bytes", &[P::Text], oid(t::INT8), |call| {
            call.ints(|row| call.text(0, row).map(size_bytes).transpose())
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_oids() {
        assert_eq!(name_with_oid("f", 16384), "f_16384");
        let long = "ü".repeat(31);
        assert_eq!(name_with_oid(&long, 16384), format!("{}_16384", "ü".repeat(28)));
    }

    #[test]
    fn names() {
        assert_eq!(parse_ident(" Foo . \"B\"\"a r\" ", true).expect("names"), ["foo", "B\"a r"]);
        assert_eq!(parse_ident("a.b(c)", false).expect("names"), ["a", "b"]);
        for wrong in ["", "1", ".a", "a.", "a..b", "\"a", "\"\"", "a b", "a(b)"] {
            assert_eq!(parse_ident(wrong, true).unwrap_err().sqlstate, "22023", "{wrong}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(unistr("d\\0061t\\+000061 \\u0061\\U00000061 \\\\ \\d83d\\de00").expect("text"), "data aa \\ 😀");
        for (wrong, state) in
            [("\\d83d", "42601"), ("\\de00", "42601"), ("\\d83dx", "42601"), ("\\zz", "42601"), ("\\0000", "22023")]
        {
            assert_eq!(unistr(wrong).unwrap_err().sqlstate, state, "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("1", 1), (" 1.5 kB ", 1536), (".5 gb", 1 << 29), ("1.", 1), ("1e3 kb", 1_024_000)] {
            assert_eq!(size_bytes(text).expect(text), bytes);
        }
        for wrong in ["", "1 EB", "1e", "- 1", "1 kBx"] {
            assert_eq!(size_bytes(wrong).unwrap_err().sqlstate, "22023", "{wrong}");
        }
        assert_eq!(size_bytes("100000 PB").unwrap_err().sqlstate, "22003");
    }
}
