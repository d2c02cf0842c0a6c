//! Documents (`jsonb`): from text, to text, and as values to be changed.
//!
//! In plans and rows a document is its stored form ([`resurgam_engine::document`]), which is read in place; in plans it
//! is Arrow's `Binary`, which nothing else is. Only what makes a new document out of an old one takes it apart into a
//! [`Value`].

mod change;
mod parse;
mod search;

use resurgam_engine::document::{self, Node};
use resurgam_numeric::Numeric;

pub use change::{Change, assign, concat, delete_index, delete_keys, delete_path, set_path, strip_nulls};
pub use parse::parse;
pub(crate) use search::index_of;
pub use search::{contains, element, exists, path};

use crate::functions::numeric::column::numeric_error;
use crate::wire::SqlError;

/// A document that is being made.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// A numeric's key and display scale.
    Number(Vec<u8>),
    Text(String),
    List(Vec<Value>),
    /// Sorted by length and bytes of the keys, each once: see [`Value::map`].
    Map(Vec<(String, Value)>),
}

#[cold]
fn too_deep() -> SqlError {
    SqlError::new("54001", "stack depth limit exceeded")
}

impl Value {
    /// A map of entries in any order; of equal keys the last stays.
    pub fn map(mut entries: Vec<(String, Value)>) -> Self {
        // Stable.
        entries.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        let mut unique: Vec<(String, Value)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match unique.last_mut() {
                Some(last) if last.0 == entry.0 => *last = entry,
                _ => unique.push(entry),
            }
        }
        Self::Map(unique)
    }

    /// What a part of a document is.
    ///
    /// # Errors
    /// `XX001` for damaged bytes.
    pub fn of(node: &Node<'_>) -> Result<Self, SqlError> {
        fn go(node: &Node<'_>, depth: usize) -> Result<Value, SqlError> {
            if depth > document::DEPTH_MAX {
                return Err(too_deep());
            }
            Ok(match node {
                Node::Null => Value::Null,
                Node::Bool(v) => Value::Bool(*v),
                Node::Number(v) => Value::Number(v.to_vec()),
                Node::Text(v) => Value::Text((*v).to_owned()),
                Node::List(list) => {
                    Value::List(list.iter().map(|item| go(&item?, depth + 1)).collect::<Result<_, _>>()?)
                }
                Node::Map(map) => {
                    let entries = map.iter().map(|entry| {
                        let (key, value) = entry?;
                        Ok::<_, SqlError>((key.to_owned(), go(&value, depth + 1)?))
                    });
                    Value::Map(entries.collect::<Result<_, _>>()?)
                }
            })
        }
        go(node, 0)
    }

    /// The document.
    ///
    /// # Errors
    /// 54001: it is nested too deeply.
    pub fn to_document(&self) -> Result<Vec<u8>, SqlError> {
        fn put(value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), SqlError> {
            if depth > document::DEPTH_MAX {
                return Err(too_deep());
            }
            match value {
                Value::Null => document::put_null(out),
                Value::Bool(v) => document::put_bool(*v, out),
                Value::Number(v) => document::put_number(v, out),
                Value::Text(v) => document::put_text(v, out),
                Value::List(list) => {
                    let mut open = document::put_list(list.len(), out);
                    for item in list {
                        put(item, depth + 1, out)?;
                        open.end(out);
                    }
                }
                Value::Map(map) => {
                    let mut open = document::put_map(map.len(), out);
                    for (key, _) in map {
                        out.extend_from_slice(key.as_bytes());
                        open.end(out);
                    }
                    for (_, item) in map {
                        put(item, depth + 1, out)?;
                        open.end(out);
                    }
                }
            }
            Ok(())
        }
        let mut out = document::begin();
        put(self, 0, &mut out)?;
        // Offsets within are of 32 bits; a value of a row is at most 1 GB, as in PostgreSQL.
        if out.len() > 1 << 30 {
            return Err(SqlError::new("54000", "document is too large: at most 1 GB can be kept"));
        }
        Ok(out)
    }
}

/// A document from its text.
///
/// # Errors
/// As [`parse`].
pub fn from_text(text: &str) -> Result<Vec<u8>, SqlError> {
    parse(text)?.to_document()
}

/// The text of a document, as PostgreSQL prints it.
///
/// # Errors
/// `XX001` for damaged bytes.
pub fn to_text(bytes: &[u8]) -> Result<String, SqlError> {
    let mut out = String::with_capacity(bytes.len());
    put_node(&document::read(bytes)?, 0, &mut out)?;
    Ok(out)
}

/// The text of what `->>` finds: a text without its quotes, nothing for `null`.
pub(crate) fn plain_text(node: &Node<'_>) -> Result<Option<String>, SqlError> {
    Ok(match node {
        Node::Null => None,
        Node::Text(text) => Some((*text).to_owned()),
        other => {
            let mut out = String::new();
            put_node(other, 0, &mut out)?;
            Some(out)
        }
    })
}

/// Appends a JSON string.
pub(crate) fn put_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends what is no list or map.
fn put_scalar(node: &Node<'_>, out: &mut String) -> Result<(), SqlError> {
    match node {
        Node::Null => out.push_str("null"),
        Node::Bool(true) => out.push_str("true"),
        Node::Bool(false) => out.push_str("false"),
        Node::Number(number) => Numeric::decode(number).map_err(numeric_error)?.write_text(out),
        Node::Text(text) => put_string(text, out),
        Node::List(_) | Node::Map(_) => return Err(SqlError::internal("a list or map as a scalar")),
    }
    Ok(())
}

fn put_node(node: &Node<'_>, depth: usize, out: &mut String) -> Result<(), SqlError> {
    if depth > document::DEPTH_MAX {
        return Err(too_deep());
    }
    match node {
        Node::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                put_node(&item?, depth + 1, out)?;
            }
            out.push(']');
        }
        Node::Map(map) => {
            out.push('{');
            for (at, entry) in map.iter().enumerate() {
                let (key, item) = entry?;
                if at > 0 {
                    out.push_str(", ");
                }
                put_string(key, out);
                out.push_str(": ");
                put_node(&item, depth + 1, out)?;
            }
            out.push('}');
        }
        scalar => put_scalar(scalar, out)?,
    }
    Ok(())
}

/// The text with each part on a line of its own: `jsonb_pretty`.
///
/// # Errors
/// `XX001` for damaged bytes.
pub fn pretty(bytes: &[u8]) -> Result<String, SqlError> {
    fn line(depth: usize, out: &mut String) {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str("    "));
    }
    fn go(node: &Node<'_>, depth: usize, out: &mut String) -> Result<(), SqlError> {
        if depth > document::DEPTH_MAX {
            return Err(too_deep());
        }
        match node {
            Node::List(list) => {
                out.push('[');
                for (at, item) in list.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    line(depth + 1, out);
                    go(&item?, depth + 1, out)?;
                }
                line(depth, out);
                out.push(']');
            }
            Node::Map(map) => {
                out.push('{');
                for (at, entry) in map.iter().enumerate() {
                    let (key, item) = entry?;
                    if at > 0 {
                        out.push(',');
                    }
                    line(depth + 1, out);
                    put_string(key, out);
                    out.push_str(": ");
                    go(&item, depth + 1, out)?;
                }
                line(depth, out);
                out.push('}');
            }
            scalar => put_scalar(scalar, out)?,
        }
        Ok(())
    }
    let mut out = String::new();
    go(&document::read(bytes)?, 0, &mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents() {
        for (text, shown) in [
            ("[1,2]", "[1, 2]"),
            (" {\"bb\":1,\"a\":{\"x\":null},\"bb\":[]} ", "{\"a\": {\"x\": null}, \"bb\": []}"),
            ("  1.50 ", "1.50"),
            ("1e3", "1000"),
            ("-0", "0"),
            ("\"\\u0041\\n\\u00e9\\ud83d\\ude00\"", "\"A\\né😀\""),
            ("{}", "{}"),
        ] {
            let document = from_text(text).expect(text);
            document::check(&document).expect(text);
            assert_eq!(to_text(&document).expect(text), shown);
            assert_eq!(
                Value::of(&document::read(&document).expect(text)).expect(text).to_document().expect(text),
                document
            );
        }
        for (text, state) in [("\"\\u0000\"", "22P05"), ("tru", "22P02"), ("\"\\ud800\"", "22P02"), ("[1,]", "22P02")] {
            assert_eq!(from_text(text).unwrap_err().sqlstate, state, "{text}");
        }
    }

    /// As a PostgreSQL 15 sorts them.
    #[test]
    fn order_is_postgresqls() {
        let key = |text: &str| {
            let mut out = Vec::new();
            document::order_key(&from_text(text).expect(text), &mut out).expect(text);
            out
        };
        for pair in
            ["[]", "null", "\"\"", "\"a\"", "\"ab\"", "\"b\"", "-1", "0", "1", "1.5", "10", "false", "true"].windows(2)
        {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
        for pair in ["[null]", "[\"a\"]", "[1]", "[[]]", "[{}]", "[1, 2]", "{}", "{\"z\": 1}", "{\"a\": 1, \"bb\": 2}"]
            .windows(2)
        {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
        assert_eq!(key("1.0"), key("1"));
        assert_eq!(key("{\"a\": 2, \"b\": 1.10}"), key("{\"b\": 1.1, \"a\": 2.0}"));
    }
}
