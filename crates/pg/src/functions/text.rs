//! Quoting, patterns, `format`, `pg_typeof`.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::DataType;

use super::are;
use super::arrays::elements;
use super::define::{Call, P, PgFunction, f, oid};
use super::strings::bytes_of;
use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::memory;
use crate::running;
use crate::types::{field_oid, format_type, oid as t};
use crate::wire::SqlError;

/// Bytes of a text before whose copying it is asked whether there is memory for it.
const LONG: usize = 1 << 20;

/// Words that PostgreSQL reserves, so that identifiers spelled like them need quotes.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// An identifier, in quotes if it needs them.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !RESERVED.contains(&name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A string literal.
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// A `SIMILAR TO` pattern as a regular expression that must match the whole text.
///
/// (PostgreSQL's `similar_escape_internal`: what is escaped is so in the regular expression, `\w` too.)
///
/// # Errors
/// `22025` for an escape that is not one character, `2200C` for more than two escaped quotes.
pub fn similar_to_regex(pattern: &str, escape: Option<&str>) -> Result<String, SqlError> {
    let parts = similar_parts(pattern, escape)?;
    let mut out = String::from("^(?:");
    for (at, part) in parts.iter().enumerate() {
        out.push_str(["", "){1,1}?(", "){1,1}(?:"].get(at).copied().unwrap_or_default());
        out.push_str(part);
    }
    out.push_str(")$");
    Ok(out)
}

/// The regular expressions between the escaped quotes of a pattern of SIMILAR TO: one to three.
fn similar_parts(pattern: &str, escape: Option<&str>) -> Result<Vec<String>, SqlError> {
    let escape = match escape {
        None => Some('\\'),
        Some("") => None,
        Some(text) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) => Some(c),
                _ => {
                    return Err(SqlError::new("22025", "invalid escape string")
                        .with_hint("Escape string must be empty or one character."));
                }
            }
        }
    };
    let (mut parts, mut out) = (Vec::new(), String::new());
    let mut escaped = false;
    // Brackets that are open, and how far within the outermost: 1 behind it, 2 behind its `^`, 3 further on.
    let (mut depth, mut place) = (0usize, 0usize);
    for c in pattern.chars() {
        if escaped {
            escaped = false;
            if c == '"' && depth == 0 {
                parts.push(std::mem::take(&mut out));
                if parts.len() > 2 {
                    let text = "SQL regular expression may not contain more than two escape-double-quote separators";
                    return Err(SqlError::new("2200C", text));
                }
                continue;
            }
            out.push('\\');
            out.push(c);
            place = 3;
        } else if Some(c) == escape {
            escaped = true;
        } else if depth > 0 {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            match c {
                ']' if place > 2 => depth -= 1,
                '[' => (depth, place) = (depth + 1, 3),
                '^' => place += 1,
                _ => place = 3,
            }
        } else {
            match c {
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '[' => {
                    (depth, place) = (1, 1);
                    out.push('[');
                }
                '(' => out.push_str("(?:"),
                '.' | '^' | '$' | '\\' => {
                    out.push('\\');
                    out.push(c);
                }
                other => out.push(other),
            }
        }
    }
    parts.push(out);
    Ok(parts)
}

/// `substring(text SIMILAR pattern ESCAPE escape)`: what the part between the escaped quotes matches, if there are any; NULL
/// where the pattern does not match. What is before matches as little as it can, then the part as much (`similar_escape` in
/// `regexp.c`).
fn substring_similar(text: &str, pattern: &str, escape: &str) -> Result<Option<String>, SqlError> {
    let compiled = similar_parts(pattern, Some(escape))?
        .iter()
        .map(|part| are::compiled(&format!("^(?:{part})$"), are::Options::default()))
        .collect::<Result<Vec<_>, _>>()?;
    let (before, part, behind) = match compiled.as_slice() {
        [whole] => return Ok(whole.is_match(text).then(|| text.to_owned())),
        [before, part] => (before, part, None),
        [before, part, behind, ..] => (before, part, Some(behind)),
        [] => return Ok(None),
    };
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut ends = Vec::new();
    for &at in places.iter().rev() {
        running::check()?;
        if behind.map_or(at == text.len(), |behind| behind.is_match(&text[at..])) {
            ends.push(at);
        }
    }
    for &begin in &places {
        if !before.is_match(&text[..begin]) {
            continue;
        }
        for &end in ends.iter().filter(|end| **end >= begin) {
            running::check()?;
            if part.is_match(&text[begin..end]) {
                return Ok(Some(text[begin..end].to_owned()));
            }
        }
    }
    Ok(None)
}

/// What stands between `%` and the type of a value in a pattern of `format`.
#[derive(Default)]
struct Specifier {
    /// Number of the argument, counted from 1.
    at: Option<usize>,
    left: bool,
    width: Width,
}

#[derive(Default)]
enum Width {
    #[default]
    None,
    Fixed(i32),
    /// What the next argument says.
    Next,
    /// What the argument of that number says.
    Of(usize),
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

impl Specifier {
    /// Reads one, up to its type.
    fn read(chars: &mut Letters<'_>) -> Result<Self, SqlError> {
        let digits = |chars: &mut Letters<'_>| -> Result<Option<i32>, SqlError> {
            let mut value: Option<i32> = None;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                let more = value.unwrap_or(0).checked_mul(10).and_then(|value| value.checked_add(digit as i32));
                value = Some(more.ok_or_else(|| SqlError::new("22003", "number is out of range"))?);
                chars.next();
            }
            Ok(value)
        };
        let argument = |number: i32| match usize::try_from(number) {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(SqlError::new("22023", "format specifies argument 0, but arguments are numbered from 1")),
        };
        let mut out = Self::default();
        if let Some(number) = digits(chars)? {
            if chars.peek() != Some(&'$') {
                return Ok(Self { width: Width::Fixed(number), ..out });
            }
            out.at = Some(argument(number)?);
            chars.next();
        }
        while chars.next_if_eq(&'-').is_some() {
            out.left = true;
        }
        out.width = match chars.next_if_eq(&'*') {
            None => digits(chars)?.map_or(Width::None, Width::Fixed),
            Some(_) => match digits(chars)? {
                None => Width::Next,
                Some(number) if chars.next_if_eq(&'$').is_some() => Width::Of(argument(number)?),
                Some(_) if chars.peek().is_none() => return Err(unterminated()),
                Some(_) => return Err(SqlError::new("22023", "width argument position must be ended by \"$\"")),
            },
        };
        Ok(out)
    }
}

fn unterminated() -> SqlError {
    SqlError::new("22023", "unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".")
}

/// `format(text, …)`: `%s`, `%I`, `%L`, `%%`, positions `%2$s`, widths `%-10s` and `%*s`. `value` gives the text of an
/// argument, which are counted from 1; none behind the last one (`text_format` in `varlena.c`).
fn format(
    pattern: &str,
    count: usize,
    value: &dyn Fn(usize) -> Result<Option<String>, SqlError>,
) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut next = 1;
    let given = |at: usize| match at <= count {
        true => Ok(at),
        false => Err(SqlError::new("22023", "too few arguments for format()")),
    };
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.peek() {
            None => return Err(unterminated()),
            Some('%') => {
                chars.next();
                out.push('%');
                continue;
            }
            Some(_) => {}
        }
        let specifier = Specifier::read(&mut chars)?;
        let kind = chars.next().ok_or_else(unterminated)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            let text = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(SqlError::new("22023", text).with_hint("For a single \"%\" use \"%%\"."));
        }
        let width = match specifier.width {
            Width::None => 0,
            Width::Fixed(width) => width,
            Width::Next | Width::Of(_) => {
                let at = given(if let Width::Of(at) = specifier.width { at } else { next })?;
                next = at + 1;
                match value(at)? {
                    // As 0 does, it means none.
                    None => 0,
                    Some(text) => {
                        let width = crate::decode::parse_int(&text, i32::MIN.into(), i32::MAX.into(), "integer")?;
                        i32::try_from(width).unwrap_or_default()
                    }
                }
            }
        };
        let at = given(specifier.at.unwrap_or(next))?;
        next = at + 1;
        let text = match (kind, value(at)?) {
            ('I', Some(value)) => quote_ident(&value),
            ('I', None) => return Err(SqlError::new("22004", "null values cannot be formatted as an SQL identifier")),
            ('L', Some(value)) => quote_literal(&value),
            ('L', None) => "NULL".to_owned(),
            (_, value) => value.unwrap_or_default(),
        };
        let left = specifier.left || width < 0;
        if width == i32::MIN {
            return Err(SqlError::new("22003", "number is out of range"));
        }
        let pad = (width.unsigned_abs() as usize).saturating_sub(text.chars().count());
        let length = text.len().saturating_add(pad);
        if length > LONG {
            memory::value(out.len() + length)?;
            // The result may double where it grows.
            running::may_allocate(out.len() + 2 * length)?;
        }
        if left {
            out.push_str(&text);
        }
        out.extend(std::iter::repeat_n(' ', pad));
        if !left {
            out.push_str(&text);
        }
    }
    Ok(out)
}

/// `format(text, VARIADIC array)`; no arguments of NULL.
fn format_elements(call: &Call<'_>, row: usize) -> Result<Option<String>, SqlError> {
    let Some(pattern) = call.text(0, row) else { return Ok(None) };
    let mut values = Vec::new();
    let mut lists = vec![elements(&call.arrays[1], row)?.unwrap_or_default().into_iter()];
    // The elements in all dimensions.
    while let Some(list) = lists.last_mut() {
        match list.next() {
            Some(datafusion::common::ScalarValue::List(inner)) => {
                let inner: datafusion::arrow::array::ArrayRef = inner;
                lists.push(elements(&inner, 0)?.unwrap_or_default().into_iter());
            }
            Some(value) => values.push(value),
            None => drop(lists.pop()),
        }
    }
    let text = |at: usize| match &values[at - 1] {
        value if value.is_null() => Ok(None),
        value => crate::decode::scalar_text(value, &crate::encode::TextStyle::default()),
    };
    format(pattern, values.len(), &text).map(Some)
}

fn any_text(call: &Call<'_>, at: usize, row: usize) -> Result<Option<String>, SqlError> {
    let array = &call.arrays[at];
    if array.is_null(row) {
        return Ok(None);
    }
    let value = datafusion::common::ScalarValue::try_from_array(array, row)
        .map_err(|error| crate::errors::from_datafusion(error, ""))?;
    crate::decode::scalar_text(&value, &crate::encode::TextStyle::default())
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("quote_ident", &[P::Text], oid(t::TEXT), |call| call.texts(|row| Ok(call.text(0, row).map(quote_ident)))),
        f("quote_literal", &[P::Any], oid(t::TEXT), |call| {
            call.texts(|row| Ok(any_text(call, 0, row)?.as_deref().map(quote_literal)))
        }),
        f("quote_nullable", &[P::Any], oid(t::TEXT), |call| {
            call.texts(|row| {
                Ok(Some(any_text(call, 0, row)?.as_deref().map_or_else(|| "NULL".to_owned(), quote_literal)))
            })
        }),
        f("similar_to_escape", &[P::Text, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| match (call.text(0, row), call.text(1, row)) {
                (_, None) if call.given(1) => Ok(None),
                (Some(pattern), escape) => similar_to_regex(pattern, escape).map(Some),
                (None, _) => Ok(None),
            })
        })
        .required(1),
        // The second is the type where the value's form does not tell it.
        f("pg_typeof", &[P::Any, P::Oid], oid(t::REGTYPE), |call| {
            let ty = call.fields.first().map_or(t::UNKNOWN, |field| field_oid(field));
            call.oids(|row| Ok(call.oid(1, row).or(Some(ty))))
        })
        .required(1),
        f("format", &[P::Text, P::Any], oid(t::TEXT), |call| {
            let count = call.arrays.len() - 1;
            call.texts(|row| match call.text(0, row) {
                Some(pattern) => format(pattern, count, &|at| any_text(call, at, row)).map(Some),
                None => Ok(None),
            })
        })
        .required(1)
        .variadic(),
        f("pg_substring_similar", &[P::Text, P::Text, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| match (call.text(0, row), call.text(1, row), call.text(2, row)) {
                (Some(text), Some(pattern), Some(escape)) => substring_similar(text, pattern, escape),
                _ => Ok(None),
            })
        }),
        f("pg_format_elements", &[P::Text, P::Any], oid(t::TEXT), |call| call.texts(|row| format_elements(call, row))),
        // of bytea the number of bytes, of text that of characters
        f("length", &[P::Any], oid(t::INT4), |call| {
            let array = &call.arrays[0];
            if array.data_type().is_binary() {
                let bytes = datafusion::arrow::compute::cast(array, &DataType::BinaryView)
                    .map_err(|error| crate::errors::from_arrow(&error))?;
                let bytes = bytes.as_binary_view();
                return call.int4s(|row| Ok((!bytes.is_null(row)).then(|| bytes.value(row).len() as i32)));
            }
            let texts = cast_array(array, &DataType::Utf8View, t::TEXT, &Zone::Utc)?;
            let texts = texts.as_string_view();
            call.int4s(|row| Ok((!texts.is_null(row)).then(|| texts.value(row).chars().count() as i32)))
        }),
        f("octet_length", &[P::Any], oid(t::INT4), |call| {
            let array = &call.arrays[0];
            let target = if array.data_type().is_binary() { DataType::BinaryView } else { DataType::Utf8View };
            let values = cast_array(
                array,
                &target,
                if target == DataType::BinaryView { t::BYTEA } else { t::TEXT },
                &Zone::Utc,
            )?;
            call.int4s(|row| {
                if values.is_null(row) {
                    return Ok(None);
                }
                Ok(Some(match values.as_binary_view_opt() {
                    Some(bytes) => bytes.value(row).len(),
                    None => values.as_string_view().value(row).len(),
                } as i32))
            })
        }),
        f("bit_length", &[P::Any], oid(t::INT4), |call| {
            let array = &call.arrays[0];
            let bits = |bytes: usize| {
                let bits = i32::try_from(bytes.saturating_mul(8));
                bits.map(Some).map_err(|_| SqlError::new("22003", "integer out of range"))
            };
            if array.data_type().is_binary() {
                let bytes = bytes_of(array)?;
                return call.int4s(|row| if bytes.is_null(row) { Ok(None) } else { bits(bytes.value(row).len()) });
            }
            let texts = cast_array(array, &DataType::Utf8View, t::TEXT, &Zone::Utc)?;
            let texts = texts.as_string_view();
            call.int4s(|row| if texts.is_null(row) { Ok(None) } else { bits(texts.value(row).len()) })
        }),
        f("pg_format_type_name", &[P::Oid], oid(t::TEXT), |call| {
            call.texts(|row| Ok(call.oid(0, row).map(|ty| format_type(ty, None))))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        assert_eq!(quote_ident("abc_1"), "abc_1");
        assert_eq!(quote_ident("Abc"), "\"Abc\"");
        assert_eq!(quote_ident("select"), "\"select\"");
        assert_eq!(quote_ident("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\b"), "E'a\\\\b'");
    }

    #[test]
    fn similar() {
        assert_eq!(similar_to_regex("a%b_", None).expect("regex"), "^(?:a.*b.)$");
        assert_eq!(similar_to_regex("a.b|c", None).expect("regex"), "^(?:a\\.b|c)$");
        assert_eq!(similar_to_regex("a\\%", None).expect("regex"), "^(?:a\\%)$");
        assert_eq!(similar_to_regex("a\\", None).expect("regex"), "^(?:a)$");
        assert_eq!(similar_to_regex("(\\w|[\\d^])", None).expect("regex"), "^(?:(?:\\w|[\\d^]))$");
        assert_eq!(similar_to_regex("[]%]%", None).expect("regex"), "^(?:[]%].*)$");
        assert_eq!(similar_to_regex("[^]_]_", None).expect("regex"), "^(?:[^]_].)$");
        assert_eq!(similar_to_regex("a#\"b#\"c", Some("#")).expect("regex"), "^(?:a){1,1}?(b){1,1}(?:c)$");
        assert_eq!(similar_to_regex("a#\"#\"#\"", Some("#")).expect_err("three").sqlstate, "2200C");
        assert!(similar_to_regex("a", Some("ab")).is_err());
    }
}
