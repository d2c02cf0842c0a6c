//! Documents as records of given columns: what `json_to_record`, `json_to_recordset` and their kin of `jsonb` are
//! computed by (`populate_record` in `jsonfuncs.c`).
//!
//! All read the text of a document (of `jsonb` its text); what is found becomes a column's value by the input of the
//! column's type.

use datafusion::arrow::array::*;
use std::sync::Arc;

use super::define::{P, PgFunction, f, oid};
use super::json_scan::{Kind, check_escapes, elements, field, kind, shown, unquoted};
use super::json_sets::list_of;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Most dimensions of an array.
const DIMENSIONS_MAX: usize = 6;

/// The value of a column, if it is there and not null.
fn column<'a>(record: &'a str, name: &str) -> Result<Option<&'a str>, SqlError> {
    match kind(record) {
        Kind::Map => {
            check_escapes(record)?;
            Ok(field(record, name)?.filter(|value| kind(value) != Kind::Null))
        }
        Kind::List => Err(SqlError::new("22023", "cannot call populate_composite on an array")),
        _ => Err(SqlError::new("22023", "cannot call populate_composite on a scalar")),
    }
}

/// The objects of a list.
fn records(text: &str, function: &str) -> Result<Vec<String>, SqlError> {
    let Some(elements) = elements(text) else {
        let what = match (function.starts_with("jsonb"), kind(text)) {
            (true, _) => "a non-array",
            (false, Kind::Map) => "an object",
            (false, _) => "a scalar",
        };
        return Err(SqlError::new("22023", format!("cannot call {function} on {what}")));
    };
    elements
        .map(|element| match kind(element) {
            Kind::Map => Ok(element.to_owned()),
            _ => Err(SqlError::new("22023", format!("argument of {function} must be an array of objects"))),
        })
        .collect()
}

/// The text of an array (`{1,2}`) that a list is.
struct ArrayText<'a> {
    column: &'a str,
    /// Elements are JSON, not texts.
    of_json: bool,
    /// How many dimensions there are: known with the first element that is no list.
    dimensions: Option<usize>,
    /// How many elements the lists of each dimension have.
    lengths: Vec<Option<usize>>,
    /// Where the list is that is being read.
    place: Vec<usize>,
    out: String,
}

impl ArrayText<'_> {
    fn of(value: &str, column: &str, of_json: bool) -> Result<String, SqlError> {
        // A string is the array's text.
        if kind(value) == Kind::Text {
            return unquoted(value);
        }
        let out = String::with_capacity(value.len());
        let mut text = ArrayText { column, of_json, dimensions: None, lengths: vec![], place: vec![], out };
        text.list(value)?;
        // Lists of nothing are an array of nothing.
        Ok(if text.dimensions.is_none() { "{}".into() } else { text.out })
    }

    fn no_list(&self) -> SqlError {
        let place: String = self.place.iter().map(|at| format!("[{at}]")).collect();
        let hint = match place.as_str() {
            "" => format!("See the value of key \"{}\".", self.column),
            place => format!("See the array element {place} of key \"{}\".", self.column),
        };
        SqlError::new("22P02", "expected JSON array").with_hint(hint)
    }

    fn list(&mut self, value: &str) -> Result<(), SqlError> {
        let Some(elements) = elements(value) else { return Err(self.no_list()) };
        let depth = self.place.len() + 1;
        if depth > DIMENSIONS_MAX {
            let message =
                format!("number of array dimensions ({depth}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(SqlError::new("54000", message));
        }
        self.out.push('{');
        let mut count = 0;
        for element in elements {
            if count > 0 {
                self.out.push(',');
            }
            let is_list = kind(element) == Kind::List;
            if !is_list && self.dimensions.is_none() {
                self.dimensions = Some(depth);
            }
            self.place.push(count);
            if self.dimensions == Some(depth) {
                self.element(element)?;
            } else {
                self.list(element)?;
            }
            self.place.pop();
            count += 1;
        }
        self.out.push('}');
        if self.lengths.len() < depth {
            self.lengths.resize(depth, None);
        }
        if *self.lengths[depth - 1].get_or_insert(count) != count {
            return Err(SqlError::new("22P02", "malformed JSON array")
                .with_detail("Multidimensional arrays must have sub-arrays with matching dimensions."));
        }
        Ok(())
    }

    fn element(&mut self, element: &str) -> Result<(), SqlError> {
        let text = match self.of_json {
            true if kind(element) != Kind::Null => Some(element.to_owned()),
            _ => shown(element)?,
        };
        let Some(text) = text else {
            self.out.push_str("NULL");
            return Ok(());
        };
        self.out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                self.out.push('\\');
            }
            self.out.push(c);
        }
        self.out.push('"');
        Ok(())
    }
}

/// A text as `varchar(n)` and `char(n)` take it in: blanks beyond their length are cut off.
///
/// # Errors
/// `22001`
fn fitting(text: String, most: Option<i64>, ty: Option<&str>) -> Result<String, SqlError> {
    let (Some(most), Some(ty)) = (most.and_then(|most| usize::try_from(most).ok()), ty) else { return Ok(text) };
    match text.char_indices().nth(most) {
        None => Ok(text),
        Some((end, _)) if text[end..].chars().all(|c| c == ' ') => Ok(text[..end].to_owned()),
        Some(_) => Err(SqlError::new("22001", format!("value too long for type {ty}"))),
    }
}

/// How a column's value is given.
#[derive(Clone, Copy)]
enum As {
    Text,
    Json,
    Array,
    ArrayOfJson,
}

pub(super) fn all() -> Vec<PgFunction> {
    let mut out = vec![f("pg_json_records", &[P::Text, P::Text], list_of(t::JSON), |c| {
        let mut texts = StringViewBuilder::new();
        let (lengths, valid) = c.collected(|row| {
            let (Some(text), Some(function)) = (c.text(0, row), c.text(1, row)) else { return Ok(None) };
            let records = records(text, function)?;
            records.iter().for_each(|record| texts.append_value(record));
            Ok(Some(records.len()))
        })?;
        c.list_of(lengths, valid, Arc::new(texts.finish()))
    })];
    for (name, how) in [
        ("pg_json_record_text", As::Text),
        ("pg_json_record_json", As::Json),
        ("pg_json_record_array", As::Array),
        ("pg_json_record_json_array", As::ArrayOfJson),
    ] {
        let returns = if matches!(how, As::Json) { t::JSON } else { t::TEXT };
        let function = f(name, &[P::Text, P::Text, P::Int, P::Text], oid(returns), move |c| {
            c.texts(|row| {
                let (Some(record), Some(name)) = (c.text(0, row), c.text(1, row)) else { return Ok(None) };
                let Some(value) = column(record, name)? else { return Ok(None) };
                match how {
                    As::Text if c.given(3) => {
                        shown(value)?.map(|text| fitting(text, c.int(2, row), c.text(3, row))).transpose()
                    }
                    As::Text => shown(value),
                    As::Json => Ok(Some(value.to_owned())),
                    As::Array => ArrayText::of(value, name, false).map(Some),
                    As::ArrayOfJson => ArrayText::of(value, name, true).map(Some),
                }
            })
        });
        out.push(function.required(2));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_arrays() {
        let array = |text: &str| ArrayText::of(text, "a", false);
        assert_eq!(
            array(r#"[1, null, "x\"y", {"a" : 1}]"#).expect("one dimension"),
            r#"{"1",NULL,"x\"y","{\"a\" : 1}"}"#
        );
        assert_eq!(array("[[1,2],[3,4]]").expect("two"), r#"{{"1","2"},{"3","4"}}"#);
        assert_eq!(array("[[1,2],[3,4],[5,6]]").expect("three of two"), r#"{{"1","2"},{"3","4"},{"5","6"}}"#);
        assert_eq!(array("[[],[]]").expect("none"), "{}");
        assert_eq!(array("[1,[2]]").expect("texts"), r#"{"1","[2]"}"#);
        assert_eq!(array("[[1],[2,3]]").expect_err("of two lengths").sqlstate, "22P02");
        assert_eq!(
            array("[[1],2]").expect_err("of two depths").hint.as_deref(),
            Some("See the array element [1] of key \"a\".")
        );
        assert_eq!(array("5").expect_err("no list").hint.as_deref(), Some("See the value of key \"a\"."));
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(array(&deep).expect_err("too deep").sqlstate, "54000");
    }
}
