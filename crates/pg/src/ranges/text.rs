//! Ranges as texts (`range_in`, `range_out`).

use bytes::BytesMut;

use super::{Bound, Kind, Range};
use crate::datetime::Zone;
use crate::decode::{parse_date, parse_int, parse_timestamp, parse_timestamptz};
use crate::encode::{put_date, put_int, put_timestamp, put_timestamptz};
use crate::wire::SqlError;

fn value(kind: Kind, text: &str, zone: &Zone) -> Result<i64, SqlError> {
    match kind {
        Kind::Int4 => parse_int(text, i32::MIN.into(), i32::MAX.into(), "integer"),
        Kind::Int8 => parse_int(text, i64::MIN, i64::MAX, "bigint"),
        Kind::Date => parse_date(text, zone).map(i64::from),
        Kind::Timestamp => parse_timestamp(text, zone),
        Kind::Timestamptz => parse_timestamptz(text, zone),
    }
}

/// The parts of a range's text.
struct Parts<'a> {
    all: &'a str,
    rest: std::str::Chars<'a>,
}

impl Parts<'_> {
    fn malformed(&self, detail: &str) -> SqlError {
        SqlError::new("22P02", format!("malformed range literal: \"{}\"", self.all)).with_detail(detail.to_owned())
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest.next();
        }
        found
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.rest.next();
        }
    }

    /// A bound's text, without its quotes; what ends it stays.
    fn bound(&mut self) -> Result<String, SqlError> {
        let (mut out, mut in_quotes) = (String::new(), false);
        loop {
            let Some(next) = self.peek() else { return Err(self.malformed("Unexpected end of input.")) };
            if !in_quotes && matches!(next, ',' | ')' | ']') {
                return Ok(out);
            }
            self.rest.next();
            match next {
                '\\' => match self.rest.next() {
                    Some(escaped) => out.push(escaped),
                    None => return Err(self.malformed("Unexpected end of input.")),
                },
                '"' if in_quotes && self.take('"') => out.push('"'),
                '"' => in_quotes = !in_quotes,
                other => out.push(other),
            }
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// The range of a text; `zone` is that of times that name none.
///
/// # Errors
/// `22P02`, those of the bounds' texts, and of [`Range::new`].
pub fn parse(kind: Kind, text: &str, zone: &Zone) -> Result<Range, SqlError> {
    let mut parts = Parts { all: text, rest: text.chars() };
    parts.skip_blanks();
    let word = parts.rest.as_str();
    if word.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("empty")) {
        parts.rest = word[5..].chars();
        parts.skip_blanks();
        return match parts.peek() {
            None => Ok(Range::EMPTY),
            Some(_) => Err(parts.malformed("Junk after \"empty\" key word.")),
        };
    }
    let from = parts.take('[');
    if !from && !parts.take('(') {
        return Err(parts.malformed("Missing left parenthesis or bracket."));
    }
    let lower = if parts.peek() == Some(',') { None } else { Some(parts.bound()?) };
    if !parts.take(',') {
        return Err(parts.malformed("Missing comma after lower bound."));
    }
    let upper = if matches!(parts.peek(), Some(')' | ']')) { None } else { Some(parts.bound()?) };
    let to = parts.take(']');
    if !to && !parts.take(')') {
        return Err(parts.malformed("Too many commas."));
    }
    parts.skip_blanks();
    if parts.peek().is_some() {
        return Err(parts.malformed("Junk after right parenthesis or bracket."));
    }
    let bound = |text: Option<String>, inclusive: bool| {
        text.map(|text| Ok::<_, SqlError>(Bound { value: value(kind, &text, zone)?, inclusive })).transpose()
    };
    Range::new(kind, bound(lower, from)?, bound(upper, to)?)
}

/// A bound's text, in quotes where it needs them.
fn put_bound(kind: Kind, bound: Bound, zone: &Zone, out: &mut BytesMut) {
    let mut text = BytesMut::new();
    match kind {
        Kind::Int4 | Kind::Int8 => return put_int(out, bound.value),
        Kind::Date => put_date(&mut text, bound.value as i32),
        Kind::Timestamp => put_timestamp(&mut text, bound.value),
        Kind::Timestamptz => put_timestamptz(&mut text, bound.value, zone),
    }
    // No date or time has quotes or backslashes.
    let needs_quotes = text.iter().any(|byte| is_blank(char::from(*byte)) || b"()[],".contains(byte));
    let quote: &[u8] = if needs_quotes { b"\"" } else { b"" };
    for part in [quote, &text, quote] {
        out.extend_from_slice(part);
    }
}

/// Its text; `zone` is that in which times with a zone are shown.
pub fn to_text(kind: Kind, range: Range, zone: &Zone) -> String {
    let Some((lower, upper)) = range.bounds() else { return "empty".to_owned() };
    let is_in = |bound: Option<Bound>| bound.is_some_and(|bound| bound.inclusive);
    let mut out = BytesMut::with_capacity(16);
    out.extend_from_slice(if is_in(lower) { b"[" } else { b"(" });
    if let Some(bound) = lower {
        put_bound(kind, bound, zone, &mut out);
    }
    out.extend_from_slice(b",");
    if let Some(bound) = upper {
        put_bound(kind, bound, zone, &mut out);
    }
    out.extend_from_slice(if is_in(upper) { b"]" } else { b")" });
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: Kind, text: &str) -> Result<String, String> {
        parse(kind, text, &Zone::Utc)
            .map(|range| to_text(kind, range, &Zone::Utc))
            .map_err(|error| error.sqlstate.clone())
    }

    #[test]
    fn texts() {
        for (kind, text, wanted) in [
            (Kind::Int4, "[1,5]", "[1,6)"),
            (Kind::Int4, " ( 1 , 5 ) ", "[2,5)"),
            (Kind::Int4, "(1,2)", "empty"),
            (Kind::Int4, "[1,1]", "[1,2)"),
            (Kind::Int4, " Empty ", "empty"),
            (Kind::Int8, "[,]", "(,)"),
            (Kind::Int8, "[\"1\",\\5)", "[1,5)"),
            (Kind::Date, "[2020-01-01,infinity]", "[2020-01-01,infinity]"),
            (Kind::Date, "(2020-01-01,2020-02-01]", "[2020-01-02,2020-02-02)"),
            (Kind::Timestamp, "[2020-01-01 10:00, 2020-01-02)", "[\"2020-01-01 10:00:00\",\"2020-01-02 00:00:00\")"),
            (Kind::Timestamp, "(,infinity)", "(,infinity)"),
        ] {
            assert_eq!(shown(kind, text), Ok(wanted.to_owned()), "{text}");
        }
        for (text, wanted) in [
            ("", "22P02"),
            ("emptyx", "22P02"),
            ("1,2", "22P02"),
            ("[(1,2)", "22P02"),
            ("[1 2]", "22P02"),
            ("[1,2,3]", "22P02"),
            ("[1,2", "22P02"),
            ("[1,2] x", "22P02"),
            ("[a,2]", "22P02"),
            ("[2,1]", "22000"),
            ("[1,2147483647]", "22003"),
            ("[1,2147483648)", "22003"),
            ("[1,\"2", "22P02"),
            ("[1,\\", "22P02"),
        ] {
            assert_eq!(shown(Kind::Int4, text), Err(wanted.to_owned()), "{text}");
        }
    }
}
