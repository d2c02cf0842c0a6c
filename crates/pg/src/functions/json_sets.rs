//! Sets of the parts of documents: what `json_each`, `json_array_elements`, `json_object_keys` and their kin of
//! `jsonb` are computed by.
//!
//! Each gives a list for each row. A set of records is several lists side by side, one for each column.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field};
use resurgam_engine::document::{Node, read};

use super::define::{Call, P, PgFunction, Returns, f};
use super::json_scan::{Kind, check_escapes, elements, kind, members, shown, unquoted};
use crate::jsonb;
use crate::types::oid as t;
use crate::wire::SqlError;

/// A list of values of that type.
pub(super) fn list_of(ty: u32) -> Returns {
    let item = crate::types::element_field(ty).unwrap_or_else(|| Field::new("item", DataType::Utf8View, true));
    Returns::Fixed(Arc::new(Field::new("", DataType::List(Arc::new(item)), true)))
}

fn refused(message: String) -> SqlError {
    SqlError::new("22023", message)
}

/// Lists of texts; `parts` appends a row's and says how many there are, `None` of a row that is NULL.
fn texts(
    call: &Call<'_>,
    mut parts: impl FnMut(usize, &mut StringViewBuilder) -> Result<Option<usize>, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let mut out = StringViewBuilder::new();
    let (lengths, valid) = call.collected(|row| parts(row, &mut out))?;
    call.list_of(lengths, valid, Arc::new(out.finish()))
}

/// What is asked of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Name,
    Value,
    /// As `->>` shows it.
    Text,
}

/// The parts of an object's members, of `json`. `keys`: the function is `json_object_keys`, which refuses by its name.
fn json_members(name: &'static str, of: Of, keys: bool) -> PgFunction {
    let returns = list_of(if of == Of::Value { t::JSON } else { t::TEXT });
    f(name, &[P::Text], returns, move |c| {
        texts(c, |row, out| {
            let Some(text) = c.text(0, row) else { return Ok(None) };
            let Some(members) = members(text) else {
                return Err(refused(match (kind(text), keys) {
                    (Kind::List, true) => "cannot call json_object_keys on an array".into(),
                    (_, true) => "cannot call json_object_keys on a scalar".into(),
                    (Kind::List, false) => "cannot deconstruct an array as an object".into(),
                    (_, false) => "cannot deconstruct a scalar".into(),
                }));
            };
            check_escapes(text)?;
            let mut count = 0;
            for (name, value) in members {
                match of {
                    Of::Name => out.append_value(unquoted(name)?),
                    Of::Value => out.append_value(value),
                    Of::Text => out.append_option(shown(value)?),
                }
                count += 1;
            }
            Ok(Some(count))
        })
    })
}

fn json_elements(name: &'static str, called: &'static str, as_text: bool) -> PgFunction {
    f(name, &[P::Text], list_of(if as_text { t::TEXT } else { t::JSON }), move |c| {
        texts(c, |row, out| {
            let Some(text) = c.text(0, row) else { return Ok(None) };
            let Some(elements) = elements(text) else {
                let what = if kind(text) == Kind::Map { "a non-array" } else { "a scalar" };
                return Err(refused(format!("cannot call {called} on {what}")));
            };
            if as_text {
                check_escapes(text)?;
            }
            let mut count = 0;
            for element in elements {
                match as_text {
                    true => out.append_option(shown(element)?),
                    false => out.append_value(element),
                }
                count += 1;
            }
            Ok(Some(count))
        })
    })
}

/// The parts of an object's members, of `jsonb`.
fn jsonb_members(name: &'static str, called: &'static str, of: Of) -> PgFunction {
    f(name, &[P::Any], list_of(if of == Of::Value { t::JSONB } else { t::TEXT }), move |c| {
        let (mut documents, mut texts) = (BinaryBuilder::new(), StringViewBuilder::new());
        let array = c.arrays.first().and_then(|array| array.as_binary_opt::<i32>());
        let array = array.ok_or_else(|| SqlError::internal("a document that is none"))?;
        let (lengths, valid) = c.collected(|row| {
            if array.is_null(row) {
                return Ok(None);
            }
            let Node::Map(map) = read(array.value(row))? else {
                return Err(refused(format!("cannot call {called} on a non-object")));
            };
            for at in 0..map.len() {
                match of {
                    Of::Name => texts.append_value(map.key(at)?),
                    Of::Value => documents.append_value(map.value(at)?.to_document()),
                    Of::Text => texts.append_option(jsonb::plain_text(&map.value(at)?)?),
                }
            }
            Ok(Some(map.len()))
        })?;
        let values: ArrayRef = if of == Of::Value { Arc::new(documents.finish()) } else { Arc::new(texts.finish()) };
        c.list_of(lengths, valid, values)
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        json_members("pg_json_object_keys", Of::Name, true),
        json_members("pg_json_each_key", Of::Name, false),
        json_members("pg_json_each_value", Of::Value, false),
        json_members("pg_json_each_text_value", Of::Text, false),
        json_elements("pg_json_array_elements", "json_array_elements", false),
        json_elements("pg_json_array_elements_text", "json_array_elements_text", true),
        jsonb_members("pg_jsonb_each_key", "jsonb_each", Of::Name),
        jsonb_members("pg_jsonb_each_text_key", "jsonb_each_text", Of::Name),
        jsonb_members("pg_jsonb_each_value", "jsonb_each", Of::Value),
        jsonb_members("pg_jsonb_each_text_value", "jsonb_each_text", Of::Text),
    ]
}
