//! Functions of whole `json` values, and documents made of arrays of texts: `json_typeof`, `json_array_length`,
//! `json_strip_nulls`, `json_object` and `jsonb_object` (`jsonfuncs.c`, `json.c`, `jsonb.c`).

use std::sync::Arc;

use datafusion::arrow::array::*;

use super::define::{Call, P, PgFunction, f, oid};
use super::json_scan::{Kind, elements, kind, members, unquoted};
use crate::jsonb::{self, put_string};
use crate::types::oid as t;
use crate::wire::SqlError;

/// Deepest nesting that is gone into.
const DEPTH_MAX: usize = 512;

fn type_name(text: &str) -> &'static str {
    match kind(text) {
        Kind::Null => "null",
        Kind::Bool => "boolean",
        Kind::Number => "number",
        Kind::Text => "string",
        Kind::List => "array",
        Kind::Map => "object",
    }
}

fn array_length(text: &str) -> Result<i32, SqlError> {
    match (elements(text), kind(text)) {
        (Some(elements), _) => i32::try_from(elements.count()).map_err(|_| SqlError::internal("a list without an end")),
        (None, Kind::Map) => Err(SqlError::new("22023", "cannot get array length of a non-array")),
        (None, _) => Err(SqlError::new("22023", "cannot get array length of a scalar")),
    }
}

/// Without blanks, and without members that are null.
fn strip_nulls(text: &str, depth: usize, out: &mut String) -> Result<(), SqlError> {
    if depth > DEPTH_MAX {
        return Err(SqlError::new("54001", "stack depth limit exceeded"));
    }
    if let Some(members) = members(text) {
        out.push('{');
        let mut begun = false;
        for (name, value) in members.filter(|(_, value)| kind(value) != Kind::Null) {
            if std::mem::replace(&mut begun, true) {
                out.push(',');
            }
            put_string(&unquoted(name)?, out);
            out.push(':');
            strip_nulls(value, depth + 1, out)?;
        }
        out.push('}');
    } else if let Some(elements) = elements(text) {
        out.push('[');
        for (at, element) in elements.enumerate() {
            if at > 0 {
                out.push(',');
            }
            strip_nulls(element, depth + 1, out)?;
        }
        out.push(']');
    } else {
        match kind(text) {
            Kind::Text => put_string(&unquoted(text.trim())?, out),
            _ => out.push_str(text.trim()),
        }
    }
    Ok(())
}

type Pair = (String, Option<String>);

fn wrong_dimensions() -> SqlError {
    SqlError::new("2202E", "wrong number of array subscripts")
}

fn named(name: Option<String>, value: Option<String>) -> Result<Pair, SqlError> {
    let name = name.ok_or_else(|| SqlError::new("22004", "null value not allowed for object key"))?;
    Ok((name, value))
}

/// Names and values by turns, or in pairs; none for NULL.
fn pairs_of_one(call: &Call<'_>, row: usize) -> Result<Option<Vec<Pair>>, SqlError> {
    let Some(list) = call.arrays.first().and_then(|array| array.as_list_opt::<i32>()) else { return Ok(None) };
    if list.is_null(row) {
        return Ok(None);
    }
    let values = list.value(row);
    let Some(inner) = values.as_list_opt::<i32>() else {
        let words = call.words(0, row)?.unwrap_or_default();
        if words.len() % 2 != 0 {
            return Err(SqlError::new("2202E", "array must have even number of elements"));
        }
        let mut words = words.into_iter();
        let mut pairs = Vec::with_capacity(words.len() / 2);
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            pairs.push(named(name, value)?);
        }
        return Ok(Some(pairs));
    };
    let mut pairs = Vec::with_capacity(inner.len());
    for pair in inner.iter().flatten() {
        let Some(texts) = pair.as_string_view_opt() else { return Err(wrong_dimensions()) };
        if texts.len() != 2 {
            return Err(SqlError::new("2202E", "array must have two columns"));
        }
        let mut texts = texts.iter().map(|text| text.map(str::to_owned));
        pairs.push(named(texts.next().flatten(), texts.next().flatten())?);
    }
    Ok(Some(pairs))
}

/// Names and values of two arrays; none if one is NULL.
fn pairs_of_two(call: &Call<'_>, row: usize) -> Result<Option<Vec<Pair>>, SqlError> {
    let (Some(names), Some(values)) = (call.words(0, row)?, call.words(1, row)?) else { return Ok(None) };
    if names.len() != values.len() {
        return Err(SqlError::new("2202E", "mismatched array dimensions"));
    }
    names.into_iter().zip(values).map(|(name, value)| named(name, value)).collect::<Result<_, _>>().map(Some)
}

fn pairs(call: &Call<'_>, row: usize) -> Result<Option<Vec<Pair>>, SqlError> {
    if call.given(1) { pairs_of_two(call, row) } else { pairs_of_one(call, row) }
}

fn json_object(pairs: &[Pair]) -> String {
    let mut out = String::from("{");
    for (at, (name, value)) in pairs.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        put_string(name, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => put_string(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    out
}

fn jsonb_object(pairs: Vec<Pair>) -> Result<Vec<u8>, SqlError> {
    let value = |text: Option<String>| text.map_or(jsonb::Value::Null, jsonb::Value::Text);
    jsonb::Value::map(pairs.into_iter().map(|(name, text)| (name, value(text))).collect()).to_document()
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("json_typeof", &[P::Text], oid(t::TEXT), |c| {
            c.texts(|row| Ok(c.text(0, row).map(|text| type_name(text).to_owned())))
        }),
        f("json_array_length", &[P::Text], oid(t::INT4), |c| {
            c.int4s(|row| c.text(0, row).map(array_length).transpose())
        }),
        f("json_strip_nulls", &[P::Text], oid(t::JSON), |c| {
            c.texts(|row| {
                let Some(text) = c.text(0, row) else { return Ok(None) };
                let mut out = String::with_capacity(text.len());
                strip_nulls(text, 0, &mut out)?;
                Ok(Some(out))
            })
        }),
        f("json_object", &[P::Any, P::Any], oid(t::JSON), |c| {
            c.texts(|row| Ok(pairs(c, row)?.map(|pairs| json_object(&pairs))))
        })
        .required(1),
        f("jsonb_object", &[P::Any, P::Any], oid(t::JSONB), |c| {
            let mut out = BinaryBuilder::new();
            for row in 0..c.rows {
                crate::running::check()?;
                out.append_option(pairs(c, row)?.map(jsonb_object).transpose()?);
            }
            Ok(Arc::new(out.finish()) as ArrayRef)
        })
        .required(1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_and_blanks_go() {
        let stripped = |text: &str| {
            let mut out = String::new();
            strip_nulls(text, 0, &mut out).expect("well-formed");
            out
        };
        assert_eq!(
            stripped(r#" {"a" : null, "b" : [1, null , {"c":null}], "d":"x\u0041"} "#),
            r#"{"b":[1,null,{}],"d":"xA"}"#
        );
        assert_eq!(stripped(" null "), "null");
        assert_eq!(stripped(r#"{ "a" : [ ] }"#), r#"{"a":[]}"#);
    }

    #[test]
    fn nesting_has_an_end() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(strip_nulls(&deep, 0, &mut String::new()).expect_err("too deep").sqlstate, "54001");
    }
}
