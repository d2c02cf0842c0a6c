//! `->`, `->>`, `#>` and `#>>` of `json`, whose parts are shown as they were written (`jsonfuncs.c`).
//!
//! A `json` value has been found well-formed when it was made, so that finding where a part ends takes counting
//! brackets outside of strings. Of keys that are equal the last one counts.

use super::define::{Call, P, PgFunction, f, oid};
use crate::jsonb;
use crate::types::oid as t;
use crate::wire::SqlError;

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Where the value at the begin of `text` ends.
fn value_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(&byte) = bytes.get(at) {
                    match byte {
                        b'\\' => at += 1,
                        b'"' => break,
                        _ => {}
                    }
                    at += 1;
                }
                if depth == 0 {
                    return (at + 1).min(bytes.len());
                }
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth <= 1 => return if depth == 0 { at } else { at + 1 },
            b']' | b'}' => depth -= 1,
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at.min(bytes.len())
}

/// The first value of `text`, and what is behind it.
fn first(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(BLANKS);
    text.split_at_checked(value_end(text)).unwrap_or((text, ""))
}

/// The text that a JSON string is.
fn unquoted(string: &str) -> Result<String, SqlError> {
    match jsonb::parse(string)? {
        jsonb::Value::Text(text) => Ok(text),
        _ => Err(SqlError::internal("a JSON string that is none")),
    }
}

/// The value of a key, as it is written.
fn field<'a>(text: &'a str, key: &str) -> Result<Option<&'a str>, SqlError> {
    let Some(mut rest) = text.trim_start_matches(BLANKS).strip_prefix('{') else { return Ok(None) };
    let mut found = None;
    loop {
        let (name, behind) = first(rest);
        if name.is_empty() {
            return Ok(found);
        }
        let Some(behind) = behind.trim_start_matches(BLANKS).strip_prefix(':') else { return Ok(found) };
        let (value, behind) = first(behind);
        if unquoted(name)? == key {
            found = Some(value);
        }
        match behind.trim_start_matches(BLANKS).strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok(found),
        }
    }
}

/// Element `at`, from the end if negative.
fn element(text: &str, at: i64) -> Option<&str> {
    let mut rest = text.trim_start_matches(BLANKS).strip_prefix('[')?;
    let mut all = Vec::new();
    loop {
        let (value, behind) = first(rest);
        if value.is_empty() {
            break;
        }
        if usize::try_from(at) == Ok(all.len()) {
            return Some(value);
        }
        all.push(value);
        match behind.trim_start_matches(BLANKS).strip_prefix(',') {
            Some(next) => rest = next,
            None => break,
        }
    }
    if at >= 0 {
        return None;
    }
    usize::try_from(at + all.len() as i64).ok().and_then(|at| all.get(at).copied())
}

/// What a path leads to.
fn path<'a>(text: &'a str, steps: &[Option<String>]) -> Result<Option<&'a str>, SqlError> {
    // Of no steps it is the whole, with the blanks before it.
    let mut here = text.trim_end_matches(BLANKS);
    for step in steps {
        let Some(step) = step else { return Ok(None) };
        let next = if here.trim_start_matches(BLANKS).starts_with('{') {
            field(here, step)?
        } else {
            jsonb::index_of(step).and_then(|at| element(here, at))
        };
        match next {
            Some(next) => here = next,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

/// As `->>` shows it.
fn shown(part: &str) -> Result<Option<String>, SqlError> {
    let bare = part.trim_matches(BLANKS);
    Ok(match bare {
        "null" => None,
        string if string.starts_with('"') => Some(unquoted(string)?),
        _ => Some(part.to_owned()),
    })
}

fn part<'a>(call: &'a Call<'_>, row: usize, by: By) -> Result<Option<&'a str>, SqlError> {
    let Some(text) = call.text(0, row) else { return Ok(None) };
    match by {
        By::Key => call.text(1, row).map_or(Ok(None), |key| field(text, key)),
        By::Number => Ok(call.int(1, row).and_then(|at| element(text, at))),
        By::Path => match call.words(1, row)? {
            Some(steps) => path(text, &steps),
            None => Ok(None),
        },
    }
}

#[derive(Clone, Copy)]
enum By {
    Key,
    Number,
    Path,
}

pub(super) fn all() -> Vec<PgFunction> {
    let mut out = Vec::new();
    for (name, text, by) in [
        ("json_object_field", false, By::Key),
        ("json_object_field_text", true, By::Key),
        ("json_array_element", false, By::Number),
        ("json_array_element_text", true, By::Number),
        ("json_extract_path", false, By::Path),
        ("json_extract_path_text", true, By::Path),
    ] {
        let parameters: &'static [P] = match by {
            By::Key => &[P::Text, P::Text],
            By::Number => &[P::Text, P::Int],
            By::Path => &[P::Text, P::Any],
        };
        let result = if text { t::TEXT } else { t::JSON };
        out.push(f(name, parameters, oid(result), move |c| {
            c.texts(|row| match part(c, row, by)? {
                Some(part) if text => shown(part),
                part => Ok(part.map(str::to_owned)),
            })
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_written() {
        let text = r#" {"a" : [1, {"b":"x\"]"} , null ], "c":{ } , "a\u0062":2 , "c" : 3.0} "#;
        assert_eq!(field(text, "a").expect("a"), Some(r#"[1, {"b":"x\"]"} , null ]"#));
        assert_eq!(field(text, "ab").expect("ab"), Some("2"));
        assert_eq!(field(text, "c").expect("c"), Some("3.0"));
        let list = field(text, "a").expect("a").expect("a");
        assert_eq!(element(list, 1), Some(r#"{"b":"x\"]"}"#));
        assert_eq!(element(list, -1), Some("null"));
        assert_eq!((element(list, 3), element(list, -4), element("[]", 0), element("5", 0)), (None, None, None, None));
        // Nothing of these is well-formed; nothing panics.
        for text in ["{", "{\"", "[\"\\", "{\"a\":", "[,]", "]", "é", "{\"é", "[1,é"] {
            let _ = (field(text, "a"), element(text, 2), element(text, -1));
        }
    }
}
