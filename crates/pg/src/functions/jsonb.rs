//! Operators and functions of `jsonb`, under the names of what computes them in PostgreSQL (`pg_proc.prosrc`).
//!
//! They read the stored form in place; only what makes another document takes one apart ([`crate::jsonb`]).

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use resurgam_engine::document::{Node, read};

use super::define::{Call, P, PgFunction, f, oid};
use super::json_sets::list_of;
use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::jsonb::{self, Change, Value};
use crate::memory;
use crate::types::oid as t;
use crate::wire::SqlError;

impl Call<'_> {
    /// The document of a row.
    fn document(&self, at: usize, row: usize) -> Option<&[u8]> {
        let array = self.arrays.get(at)?.as_binary_opt::<i32>()?;
        (!array.is_null(row)).then(|| array.value(row))
    }
    fn node(&self, at: usize, row: usize) -> Result<Option<Node<'_>>, SqlError> {
        Ok(self.document(at, row).map(read).transpose()?)
    }
    fn value(&self, at: usize, row: usize) -> Result<Option<Value>, SqlError> {
        self.node(at, row)?.map(|node| Value::of(&node)).transpose()
    }
    /// The texts of a row's list, NULLs among them; `None` if it is null.
    pub(super) fn words(&self, at: usize, row: usize) -> Result<Option<Vec<Option<String>>>, SqlError> {
        let Some(list) = self.arrays.get(at).and_then(|array| array.as_list_opt::<i32>()) else { return Ok(None) };
        if list.is_null(row) {
            return Ok(None);
        }
        let values = list.value(row);
        if values.as_list_opt::<i32>().is_some() {
            return Err(SqlError::new("2202E", "wrong number of array subscripts"));
        }
        let texts = values.as_string_view_opt();
        let texts = texts.ok_or_else(|| SqlError::internal("a path that is no array of texts"))?;
        Ok(Some(texts.iter().map(|text| text.map(str::to_owned)).collect()))
    }
    /// Documents for each row.
    fn documents(&self, value: impl Fn(usize) -> Result<Option<Vec<u8>>, SqlError>) -> Result<ArrayRef, SqlError> {
        let mut out = BinaryBuilder::new();
        let mut bytes = 0usize;
        for row in 0..self.rows {
            crate::running::check()?;
            match value(row)? {
                Some(document) => {
                    memory::value(document.len())?;
                    bytes = bytes.saturating_add(document.len());
                    if bytes > i32::MAX as usize {
                        return Err(SqlError::new("53200", "out of memory")
                            .with_detail("The documents of one batch of rows are over 2 GB."));
                    }
                    memory::column(self.rows, bytes)?;
                    out.append_value(document);
                }
                None => out.append_null(),
            }
        }
        Ok(Arc::new(out.finish()))
    }
    /// How many parts each row has; `None` of a row that is null.
    pub(super) fn collected(
        &self,
        mut parts: impl FnMut(usize) -> Result<Option<usize>, SqlError>,
    ) -> Result<(Vec<usize>, Vec<bool>), SqlError> {
        let (mut lengths, mut valid) = (Vec::with_capacity(self.rows), Vec::with_capacity(self.rows));
        for row in 0..self.rows {
            crate::running::check()?;
            let count = parts(row)?;
            lengths.push(count.unwrap_or(0));
            valid.push(count.is_some());
        }
        Ok((lengths, valid))
    }
    /// Lists as the call returns them.
    pub(super) fn list_of(
        &self,
        lengths: Vec<usize>,
        valid: Vec<bool>,
        values: ArrayRef,
    ) -> Result<ArrayRef, SqlError> {
        let DataType::List(item) = self.returns.data_type() else {
            return Err(SqlError::internal("a function of lists that gives none"));
        };
        let list = ListArray::try_new(
            Arc::clone(item),
            OffsetBuffer::from_lengths(lengths),
            values,
            Some(NullBuffer::from(valid)),
        );
        Ok(Arc::new(list.map_err(|error| crate::errors::from_arrow(&error))?))
    }
    /// A document made of another.
    fn changed(&self, change: impl Fn(Value, usize) -> Result<Option<Value>, SqlError>) -> Result<ArrayRef, SqlError> {
        self.documents(|row| match self.value(0, row)? {
            Some(value) => change(value, row)?.map(|value| value.to_document()).transpose(),
            None => Ok(None),
        })
    }
}

/// The words that are not NULL; in a path (`position`) none may be.
fn refuse_nulls(words: &[Option<String>], position: bool) -> Result<Vec<&str>, SqlError> {
    match words.iter().position(Option::is_none) {
        Some(at) if position => Err(SqlError::new("22004", format!("path element at position {} is null", at + 1))),
        _ => Ok(words.iter().flatten().map(String::as_str).collect()),
    }
}

/// A part of a document, for `->` and `->>`.
fn field<'a>(node: &Node<'a>, key: &str) -> Result<Option<Node<'a>>, SqlError> {
    match node {
        Node::Map(map) => Ok(map.find(key)?),
        _ => Ok(None),
    }
}

fn item<'a>(node: &Node<'a>, at: i64) -> Result<Option<Node<'a>>, SqlError> {
    match node {
        Node::List(list) => jsonb::element(list, at),
        // A scalar is a list of one to PostgreSQL.
        Node::Map(_) => Ok(None),
        scalar => Ok(matches!(at, 0 | -1).then_some(*scalar)),
    }
}

/// What a path leads to; nothing if a step is NULL.
fn at_path<'a>(call: &'a Call<'_>, row: usize) -> Result<Option<Node<'a>>, SqlError> {
    let (Some(node), Some(words)) = (call.node(0, row)?, call.words(1, row)?) else { return Ok(None) };
    if words.iter().any(Option::is_none) {
        return Ok(None);
    }
    let steps: Vec<&str> = words.iter().flatten().map(String::as_str).collect();
    jsonb::path(node, &steps)
}

fn type_name(node: &Node<'_>) -> &'static str {
    match node {
        Node::Null => "null",
        Node::Bool(_) => "boolean",
        Node::Number(_) => "number",
        Node::Text(_) => "string",
        Node::List(_) => "array",
        Node::Map(_) => "object",
    }
}

fn part<'a>(call: &'a Call<'_>, row: usize, by_number: bool) -> Result<Option<Node<'a>>, SqlError> {
    let Some(node) = call.node(0, row)? else { return Ok(None) };
    if by_number {
        match call.int(1, row) {
            Some(at) => item(&node, at),
            None => Ok(None),
        }
    } else {
        match call.text(1, row) {
            Some(key) => field(&node, key),
            None => Ok(None),
        }
    }
}

fn parts() -> Vec<PgFunction> {
    let mut out = Vec::new();
    for (name, parameters, by_number) in
        [("jsonb_object_field", &[P::Any, P::Text][..], false), ("jsonb_array_element", &[P::Any, P::Int][..], true)]
    {
        out.push(f(name, parameters, oid(t::JSONB), move |c| {
            c.documents(|row| Ok(part(c, row, by_number)?.map(|node| node.to_document())))
        }));
    }
    for (name, parameters, by_number) in [
        ("jsonb_object_field_text", &[P::Any, P::Text][..], false),
        ("jsonb_array_element_text", &[P::Any, P::Int][..], true),
    ] {
        out.push(f(name, parameters, oid(t::TEXT), move |c| {
            c.texts(|row| match part(c, row, by_number)? {
                Some(node) => jsonb::plain_text(&node),
                None => Ok(None),
            })
        }));
    }
    out.push(f("jsonb_extract_path", &[P::Any, P::Any], oid(t::JSONB), |c| {
        c.documents(|row| Ok(at_path(c, row)?.map(|node| node.to_document())))
    }));
    out.push(f("jsonb_extract_path_text", &[P::Any, P::Any], oid(t::TEXT), |c| {
        c.texts(|row| match at_path(c, row)? {
            Some(node) => jsonb::plain_text(&node),
            None => Ok(None),
        })
    }));
    out
}

fn questions() -> Vec<PgFunction> {
    let mut out = Vec::new();
    for (name, whole, part) in [("jsonb_contains", 0, 1), ("jsonb_contained", 1, 0)] {
        out.push(f(name, &[P::Any, P::Any], oid(t::BOOL), move |c| {
            c.bools(|row| match (c.node(whole, row)?, c.node(part, row)?) {
                (Some(whole), Some(part)) => jsonb::contains(&whole, &part).map(Some),
                _ => Ok(None),
            })
        }));
    }
    out.push(f("jsonb_exists", &[P::Any, P::Text], oid(t::BOOL), |c| {
        c.bools(|row| match (c.node(0, row)?, c.text(1, row)) {
            (Some(node), Some(key)) => jsonb::exists(&node, key).map(Some),
            _ => Ok(None),
        })
    }));
    for (name, any) in [("jsonb_exists_any", true), ("jsonb_exists_all", false)] {
        out.push(f(name, &[P::Any, P::Any], oid(t::BOOL), move |c| {
            c.bools(|row| {
                let (Some(node), Some(keys)) = (c.node(0, row)?, c.words(1, row)?) else { return Ok(None) };
                for key in keys.iter().flatten() {
                    if jsonb::exists(&node, key)? == any {
                        return Ok(Some(any));
                    }
                }
                Ok(Some(!any))
            })
        }));
    }
    out.push(f("jsonb_typeof", &[P::Any], oid(t::TEXT), |c| {
        c.texts(|row| Ok(c.node(0, row)?.map(|node| type_name(&node).to_owned())))
    }));
    out.push(f("jsonb_array_length", &[P::Any], oid(t::INT4), |c| {
        c.int4s(|row| match c.node(0, row)? {
            None => Ok(None),
            Some(Node::List(list)) => Ok(Some(list.len() as i32)),
            Some(Node::Map(_)) => Err(SqlError::new("22023", "cannot get array length of a non-array")),
            Some(_) => Err(SqlError::new("22023", "cannot get array length of a scalar")),
        })
    }));
    out.push(f("jsonb_pretty", &[P::Any], oid(t::TEXT), |c| {
        c.texts(|row| c.document(0, row).map(jsonb::pretty).transpose())
    }));
    out
}

/// A document without the keys that an array lists.
fn without_keys(c: &Call<'_>) -> Result<ArrayRef, SqlError> {
    c.changed(|value, row| {
        let Some(keys) = c.words(1, row)? else { return Ok(None) };
        jsonb::delete_keys(value, &refuse_nulls(&keys, false)?).map(Some)
    })
}

fn changes() -> Vec<PgFunction> {
    let mut out = vec![
        f("jsonb_concat", &[P::Any, P::Any], oid(t::JSONB), |c| {
            c.changed(|value, row| Ok(c.value(1, row)?.map(|other| jsonb::concat(value, other))))
        }),
        f("jsonb_delete", &[P::Any, P::Any], oid(t::JSONB), |c| {
            let data = c.arrays[1].data_type();
            if data.is_list() {
                return without_keys(c);
            }
            if data.is_integer() {
                let at = cast_array(&c.arrays[1], &DataType::Int64, t::INT8, &Zone::Utc)?;
                let at = at.as_primitive::<Int64Type>();
                let at = |row: usize| at.is_valid(row).then(|| at.value(row));
                return c.changed(|value, row| at(row).map(|at| jsonb::delete_index(value, at)).transpose());
            }
            let keys = cast_array(&c.arrays[1], &DataType::Utf8View, t::TEXT, &Zone::Utc)?;
            let keys = keys.as_string_view();
            let key = |row: usize| keys.is_valid(row).then(|| keys.value(row));
            c.changed(|value, row| key(row).map(|key| jsonb::delete_keys(value, &[key])).transpose())
        }),
        f("jsonb_delete_array", &[P::Any, P::Any], oid(t::JSONB), without_keys),
        f("jsonb_delete_idx", &[P::Any, P::Int], oid(t::JSONB), |c| {
            c.changed(|value, row| c.int(1, row).map(|at| jsonb::delete_index(value, at)).transpose())
        }),
        f("jsonb_delete_path", &[P::Any, P::Any], oid(t::JSONB), |c| {
            c.changed(|value, row| {
                let Some(path) = c.words(1, row)? else { return Ok(None) };
                jsonb::delete_path(value, &refuse_nulls(&path, true)?).map(Some)
            })
        }),
        // A document with another part at the end of a path: what `SET d['k'] = x` makes of `d`. The last argument says
        // whether the first step is a number, so what there is nothing of becomes a list.
        f("pg_jsonb_assign", &[P::Any, P::Any, P::Any, P::Bool], oid(t::JSONB), |c| {
            c.documents(|row| {
                let path = c.words(1, row)?.unwrap_or_default();
                if path.iter().any(Option::is_none) {
                    return Err(SqlError::new("22004", "jsonb subscript in assignment must not be null"));
                }
                let empty = if c.bool(3, row) == Some(true) { Value::List(vec![]) } else { Value::Map(vec![]) };
                let document = c.value(0, row)?.unwrap_or(empty);
                let new = c.value(2, row)?.unwrap_or(Value::Null);
                let steps: Vec<&str> = path.iter().flatten().map(String::as_str).collect();
                jsonb::assign(document, &steps, new)?.to_document().map(Some)
            })
        }),
        f("jsonb_strip_nulls", &[P::Any], oid(t::JSONB), |c| c.changed(|value, _| Ok(Some(jsonb::strip_nulls(value))))),
    ];
    out.push(f("jsonb_set_lax", &[P::Any, P::Any, P::Any, P::Bool, P::Text], oid(t::JSONB), set_lax).required(3));
    for (name, insert) in [("jsonb_set", false), ("jsonb_insert", true)] {
        out.push(
            f(name, &[P::Any, P::Any, P::Any, P::Bool], oid(t::JSONB), move |c| {
                c.changed(|value, row| {
                    let (Some(path), Some(new)) = (c.words(1, row)?, c.value(2, row)?) else { return Ok(None) };
                    let flag = match c.given(3) {
                        true => match c.bool(3, row) {
                            Some(flag) => flag,
                            None => return Ok(None),
                        },
                        false => !insert,
                    };
                    let change = if insert { Change::Insert { after: flag } } else { Change::Set { create: flag } };
                    jsonb::set_path(value, &refuse_nulls(&path, true)?, &new, change).map(Some)
                })
            })
            .required(3),
        );
    }
    out
}

/// `jsonb_set` whose new part may be NULL; the last argument says what that means.
fn set_lax(c: &Call<'_>) -> Result<ArrayRef, SqlError> {
    c.changed(|value, row| {
        let create = if c.given(3) { c.bool(3, row) } else { Some(true) };
        let (Some(path), Some(create)) = (c.words(1, row)?, create) else { return Ok(None) };
        let treatment = if c.given(4) { c.text(4, row) } else { Some("use_json_null") };
        let new = match (c.value(2, row)?, treatment) {
            (Some(new), _) => new,
            (None, Some("use_json_null")) => Value::Null,
            (None, Some("delete_key")) => return jsonb::delete_path(value, &refuse_nulls(&path, true)?).map(Some),
            (None, Some("return_target")) => return Ok(Some(value)),
            (None, Some("raise_exception")) => {
                return Err(SqlError::new("22004", "JSON value must not be null")
                    .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
                    .with_hint(
                        "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
                    ));
            }
            (None, _) => {
                return Err(SqlError::new(
                    "22023",
                    "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
                ));
            }
        };
        jsonb::set_path(value, &refuse_nulls(&path, true)?, &new, Change::Set { create }).map(Some)
    })
}

/// A list of each row's parts, for functions that return sets of them.
fn lists() -> Vec<PgFunction> {
    let mut out = Vec::new();
    for (name, text) in [("pg_jsonb_array_elements", false), ("pg_jsonb_array_elements_text", true)] {
        out.push(f(name, &[P::Any], list_of(if text { t::TEXT } else { t::JSONB }), move |c| {
            let (mut documents, mut texts) = (BinaryBuilder::new(), StringViewBuilder::new());
            c.collected(|row| {
                let list = match c.node(0, row)? {
                    None => return Ok(None),
                    Some(Node::List(list)) => list,
                    Some(Node::Map(_)) => {
                        return Err(SqlError::new("22023", "cannot extract elements from an object"));
                    }
                    Some(_) => return Err(SqlError::new("22023", "cannot extract elements from a scalar")),
                };
                for item in list.iter() {
                    let item = item?;
                    match text {
                        true => texts.append_option(jsonb::plain_text(&item)?),
                        false => documents.append_value(item.to_document()),
                    }
                }
                Ok(Some(list.len()))
            })
            .and_then(|(lengths, nulls)| {
                let values: ArrayRef = if text { Arc::new(texts.finish()) } else { Arc::new(documents.finish()) };
                c.list_of(lengths, nulls, values)
            })
        }));
    }
    out.push(f("pg_jsonb_object_keys", &[P::Any], list_of(t::TEXT), |c| {
        let mut texts = StringViewBuilder::new();
        let (lengths, nulls) = c.collected(|row| {
            let map = match c.node(0, row)? {
                None => return Ok(None),
                Some(Node::Map(map)) => map,
                Some(Node::List(_)) => {
                    return Err(SqlError::new("22023", "cannot call jsonb_object_keys on an array"));
                }
                Some(_) => return Err(SqlError::new("22023", "cannot call jsonb_object_keys on a scalar")),
            };
            for at in 0..map.len() {
                texts.append_value(map.key(at)?);
            }
            Ok(Some(map.len()))
        })?;
        c.list_of(lengths, nulls, Arc::new(texts.finish()))
    }));
    out
}

pub(super) fn all() -> Vec<PgFunction> {
    let mut out = parts();
    out.extend(lists());
    out.extend(questions());
    out.extend(changes());
    out
}
