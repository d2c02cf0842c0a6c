//! Reading the text of `json` values in place.
//!
//! A `json` value has been found well-formed when it was made, so that finding where a part ends takes counting
//! brackets outside of strings.

use crate::jsonb;
use crate::wire::SqlError;

pub(super) const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

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
pub(super) fn first(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(BLANKS);
    text.split_at_checked(value_end(text)).unwrap_or((text, ""))
}

/// The text that a JSON string is.
pub(super) fn unquoted(string: &str) -> Result<String, SqlError> {
    match jsonb::parse(string)? {
        jsonb::Value::Text(text) => Ok(text),
        _ => Err(SqlError::internal("a JSON string that is none")),
    }
}

/// Looks through all strings of a value for escapes of characters that there are not, which a `json` may have as long as
/// its strings are not read.
///
/// # Errors
/// `22P02` for half of a surrogate pair, `22P05` for `\u0000`.
pub(super) fn check_escapes(text: &str) -> Result<(), SqlError> {
    let Some(last) = text.rfind("\\u") else { return Ok(()) };
    let mut rest = text;
    // What is behind the last one needs no look.
    while text.len() - rest.len() <= last {
        let Some(begin) = rest.find('"') else { return Ok(()) };
        let (string, behind) = first(&rest[begin..]);
        if string.contains("\\u") {
            unquoted(string)?;
        }
        rest = behind;
    }
    Ok(())
}

/// What a value is, by how it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Map,
}

pub(super) fn kind(text: &str) -> Kind {
    match text.trim_start_matches(BLANKS).as_bytes().first() {
        Some(b'{') => Kind::Map,
        Some(b'[') => Kind::List,
        Some(b'"') => Kind::Text,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// The elements of a list, as they are written.
pub(super) struct Elements<'a>(Option<&'a str>);

/// The elements, if the value is a list.
pub(super) fn elements(text: &str) -> Option<Elements<'_>> {
    text.trim_start_matches(BLANKS).strip_prefix('[').map(|rest| Elements(Some(rest)))
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;
    fn next(&mut self) -> Option<&'a str> {
        let (value, behind) = first(self.0.take()?);
        if value.is_empty() {
            return None;
        }
        self.0 = behind.trim_start_matches(BLANKS).strip_prefix(',');
        Some(value)
    }
}

/// The members of an object, each with its name as a JSON string.
pub(super) struct Members<'a>(Option<&'a str>);

/// The members, if the value is an object.
pub(super) fn members(text: &str) -> Option<Members<'_>> {
    text.trim_start_matches(BLANKS).strip_prefix('{').map(|rest| Members(Some(rest)))
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a str);
    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let (name, behind) = first(self.0.take()?);
        if name.is_empty() {
            return None;
        }
        let (value, behind) = first(behind.trim_start_matches(BLANKS).strip_prefix(':')?);
        self.0 = behind.trim_start_matches(BLANKS).strip_prefix(',');
        Some((name, value))
    }
}

/// The value of a key, as it is written; of equal keys the last one counts.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Result<Option<&'a str>, SqlError> {
    let mut found = None;
    for (name, value) in members(text).into_iter().flatten() {
        if unquoted(name)? == key {
            found = Some(value);
        }
    }
    Ok(found)
}

/// Element `at`, from the end if negative.
pub(super) fn element(text: &str, at: i64) -> Option<&str> {
    let mut all = elements(text)?;
    match usize::try_from(at) {
        Ok(at) => all.nth(at),
        Err(_) => {
            let all: Vec<&str> = all.collect();
            usize::try_from(at + all.len() as i64).ok().and_then(|at| all.get(at).copied())
        }
    }
}

/// A value as `->>` shows it: a string's text, nothing for null, all else as it is written.
pub(super) fn shown(part: &str) -> Result<Option<String>, SqlError> {
    let bare = part.trim_matches(BLANKS);
    Ok(match bare {
        "null" => None,
        string if string.starts_with('"') => Some(unquoted(string)?),
        _ => Some(part.to_owned()),
    })
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
        for (text, state) in [
            (r#"{"a":"\u00e4\ud83d\ude04", "b\\u":[1,"x"]}"#, None),
            (r#"{"a":"x", "b":["\ud83d"]}"#, Some("22P02")),
            (r#"{"\ude04":1}"#, Some("22P02")),
            (r#""\u0000""#, Some("22P05")),
            (r#"{"a":"\\ud83d"}"#, None),
        ] {
            assert_eq!(check_escapes(text).err().map(|error| error.sqlstate.clone()).as_deref(), state, "{text}");
        }
        // Nothing of these is well-formed; nothing panics.
        for text in ["{", "{\"", "[\"\\", "{\"a\":", "[,]", "]", "é", "{\"é", "[1,é"] {
            let _ = (check_escapes(text), field(text, "a"), element(text, 2), element(text, -1), kind(text));
        }
    }
}
