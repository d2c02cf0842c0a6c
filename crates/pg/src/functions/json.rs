//! Values as JSON: what `to_json`, `row_to_json`, `json_build_object`, `json_build_array`, `json_agg` and
//! `json_object_agg` are computed by.
//!
//! Each function here takes one record, whose fields say the types of the values (analysis makes it), and comes in two
//! forms: the one named `…_zoned` writes `timestamptz` in the session's zone, and is bound to the session.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};

use super::define::{P, PgFunction, f, oid};
use crate::context::PgContext;
use crate::datetime::Zone;
use crate::encode::{RowEncoder, TextStyle};
use crate::styles::{self, DateStyle, Styles};
use crate::types::{element_oid, field_oid, oid as t, with_pg_type};
use crate::wire::{Format, SqlError};

/// Those that are bound to the session.
pub(super) const SESSION_NAMES: &[&str] = &[
    "pg_json_value_zoned",
    "pg_json_object_zoned",
    "pg_json_array_zoned",
    "pg_json_pair_zoned",
    "pg_json_lines_zoned",
];

/// Deepest nesting of arrays and records.
const DEPTH_MAX: usize = 64;

/// A column of values, ready to be written row by row.
enum Values {
    /// The text of each value, and how it is written.
    Plain(Vec<Option<String>>, Shape),
    /// Where each row's elements are.
    List(Vec<Option<(usize, usize)>>, Box<Values>),
    /// Names and values of the fields, and which rows are there.
    Record(Vec<(String, Values)>, Vec<bool>),
}

/// How the text of a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Bool,
    Number,
    /// It is JSON.
    Json,
    Timestamp,
    Timestamptz,
    Text,
}

fn shape(ty: u32) -> Shape {
    match ty {
        t::BOOL => Shape::Bool,
        t::INT2 | t::INT4 | t::INT8 | t::FLOAT4 | t::FLOAT8 | t::NUMERIC => Shape::Number,
        t::JSON | t::JSONB => Shape::Json,
        t::TIMESTAMP => Shape::Timestamp,
        t::TIMESTAMPTZ => Shape::Timestamptz,
        _ => Shape::Text,
    }
}

/// The field of the elements of a list, with the type that the list's own says of them, in all its dimensions.
fn elements_field(list: &FieldRef, item: &FieldRef) -> FieldRef {
    let ty = field_oid(list);
    let of = if item.data_type().is_list() { Some(ty) } else { element_oid(ty) };
    match of {
        Some(of) => Arc::new(with_pg_type(item.as_ref().clone(), of, -1)),
        None => Arc::clone(item),
    }
}

fn values(field: &FieldRef, array: &ArrayRef, zone: &Zone, depth: usize) -> Result<Values, SqlError> {
    if depth > DEPTH_MAX {
        return Err(SqlError::new("54001", "stack depth limit exceeded"));
    }
    match array.data_type() {
        // `int2vector` and `oidvector`, too, which are arrays here and print otherwise.
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let ranges = (0..list.len())
                .map(|row| list.is_valid(row).then(|| (offsets[row] as usize, offsets[row + 1] as usize)))
                .collect();
            let item = elements_field(field, item);
            Ok(Values::List(ranges, Box::new(values(&item, list.values(), zone, depth + 1)?)))
        }
        DataType::Struct(fields) => {
            let record = array.as_struct();
            let columns = fields.iter().zip(record.columns());
            let columns = columns
                .map(|(field, column)| Ok((field.name().clone(), values(field, column, zone, depth + 1)?)))
                .collect::<Result<_, SqlError>>()?;
            Ok(Values::Record(columns, (0..record.len()).map(|row| record.is_valid(row)).collect()))
        }
        _ => {
            let schema = Arc::new(Schema::new(vec![field.as_ref().clone().with_nullable(true)]));
            let style = TextStyle { zone: *zone, ..TextStyle::default() };
            let encoder = RowEncoder::new(schema.fields(), &[Format::Text], &style)?;
            let batch = RecordBatch::try_new(schema, vec![Arc::clone(array)])
                .map_err(|error| crate::errors::from_arrow(&error))?;
            let cells = encoder.cells(&batch)?;
            let Some(cell) = cells.first() else { return Err(SqlError::internal("a column without cells")) };
            let mut texts = Vec::with_capacity(array.len());
            let mut out = BytesMut::new();
            // Dates and times have one form there, but not within ranges.
            let set = styles::current();
            let is_time = array.data_type().is_temporal();
            let _styles = styles::set(if is_time { Styles { dates: DateStyle::Iso, ..set } } else { set });
            for row in 0..array.len() {
                if cell.is_null(row) {
                    texts.push(None);
                    continue;
                }
                out.clear();
                cell.put_text(row, &mut out)?;
                let text = std::str::from_utf8(&out).map_err(|_| SqlError::internal("text that is not UTF-8"))?;
                texts.push(Some(text.to_owned()));
            }
            Ok(Values::Plain(texts, shape(field_oid(field))))
        }
    }
}

/// Appends a text as a JSON string.
fn put_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether a number's text is one of JSON's.
fn is_number(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit())
}

fn put_plain(text: &str, shape: Shape, out: &mut String) {
    match shape {
        Shape::Bool => out.push_str(if text == "t" { "true" } else { "false" }),
        Shape::Number if is_number(text) => out.push_str(text),
        Shape::Json => out.push_str(text),
        Shape::Timestamp => put_string(&text.replacen(' ', "T", 1), out),
        Shape::Timestamptz => {
            let text = text.replacen(' ', "T", 1);
            // Zones have minutes, also where they are 0.
            let (time, era) = match text.strip_suffix(" BC") {
                Some(time) => (time, " BC"),
                None => (text.as_str(), ""),
            };
            let zone = time.rfind(['+', '-']).filter(|at| time[..*at].contains('T')).map(|at| &time[at + 1..]);
            let minutes = if zone.is_some_and(|zone| zone.len() == 2) { ":00" } else { "" };
            put_string(&format!("{time}{minutes}{era}"), out);
        }
        Shape::Number | Shape::Text => put_string(text, out),
    }
}

impl Values {
    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Plain(texts, _) => texts[row].is_none(),
            Self::List(ranges, _) => ranges[row].is_none(),
            Self::Record(_, present) => !present[row],
        }
    }

    /// Appends a value; NULL is `null`.
    fn put(&self, row: usize, out: &mut String) {
        self.put_separated(row, out, ",");
    }

    /// The same with something else than a comma between the elements or fields of the value itself; not of those within it.
    fn put_separated(&self, row: usize, out: &mut String, separator: &str) {
        match self {
            _ if self.is_null(row) => out.push_str("null"),
            Self::Plain(texts, shape) => put_plain(texts[row].as_deref().unwrap_or_default(), *shape, out),
            Self::List(ranges, elements) => {
                out.push('[');
                let (from, to) = ranges[row].unwrap_or_default();
                for at in from..to {
                    if at > from {
                        out.push_str(separator);
                    }
                    elements.put(at, out);
                }
                out.push(']');
            }
            Self::Record(fields, _) => {
                out.push('{');
                for (at, (name, values)) in fields.iter().enumerate() {
                    if at > 0 {
                        out.push_str(separator);
                    }
                    put_string(name, out);
                    out.push(':');
                    values.put(row, out);
                }
                out.push('}');
            }
        }
    }

    /// Appends a value as the name of a member.
    ///
    /// # Errors
    /// `22023` for arrays and records.
    fn put_name(&self, row: usize, out: &mut String) -> Result<(), SqlError> {
        if !matches!(self, Self::Plain(_, shape) if *shape != Shape::Json) {
            return Err(SqlError::new("22023", "key value must be scalar, not array, composite, or json"));
        }
        let before = out.len();
        self.put(row, out);
        if !out[before..].starts_with('"') {
            let name = out.split_off(before);
            put_string(&name, out);
        }
        Ok(())
    }
}

type Write = fn(&[(String, Values)], usize) -> Result<Option<String>, SqlError>;

/// Of a record of one field.
fn value(fields: &[(String, Values)], row: usize) -> Result<Option<String>, SqlError> {
    let Some((_, values)) = fields.first() else { return Ok(None) };
    if values.is_null(row) {
        return Ok(None);
    }
    let mut out = String::new();
    values.put(row, &mut out);
    Ok(Some(out))
}

/// The same of a record of two fields: the second says whether the elements or fields are on lines of their own.
fn lines(fields: &[(String, Values)], row: usize) -> Result<Option<String>, SqlError> {
    let [(_, values), (_, Values::Plain(flags, _))] = fields else {
        return Err(SqlError::internal("a value and a flag"));
    };
    let Some(flag) = flags[row].as_deref().filter(|_| !values.is_null(row)) else { return Ok(None) };
    let mut out = String::new();
    values.put_separated(row, &mut out, if flag == "t" { ",\n " } else { "," });
    Ok(Some(out))
}

/// `json_build_object`: names and values by turns.
fn object(fields: &[(String, Values)], row: usize) -> Result<Option<String>, SqlError> {
    let mut out = String::from("{");
    for (at, pair) in fields.chunks(2).enumerate() {
        let [(_, name), (_, values)] = pair else {
            return Err(odd());
        };
        if at > 0 {
            out.push_str(", ");
        }
        if name.is_null(row) {
            return Err(null_key(2 * at + 1));
        }
        name.put_name(row, &mut out)?;
        out.push_str(" : ");
        values.put(row, &mut out);
    }
    out.push('}');
    Ok(Some(out))
}

fn array(fields: &[(String, Values)], row: usize) -> Result<Option<String>, SqlError> {
    let mut out = String::from("[");
    for (at, (_, values)) in fields.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        values.put(row, &mut out);
    }
    out.push(']');
    Ok(Some(out))
}

/// The elements of an array, in all its dimensions: columns, and the rows of theirs.
fn leaves<'a>(values: &'a Values, row: usize, out: &mut Vec<(&'a Values, usize)>) {
    match values {
        Values::List(ranges, items) => {
            let Some((begin, end)) = ranges[row] else { return };
            for row in begin..end {
                match items.as_ref() {
                    Values::List(..) => leaves(items, row, out),
                    items => out.push((items, row)),
                }
            }
        }
        other => out.push((other, row)),
    }
}

/// The elements of the one field of a record, an array; none if that is NULL.
fn spread(fields: &[(String, Values)], row: usize) -> Option<Vec<(&Values, usize)>> {
    let (_, values) = fields.first()?;
    let mut out = Vec::new();
    (!values.is_null(row)).then(|| leaves(values, row, &mut out)).map(|()| out)
}

/// `json_build_array (VARIADIC …)`
fn array_of(fields: &[(String, Values)], row: usize) -> Result<Option<String>, SqlError> {
    let Some(elements) = spread(fields, row) else { return Ok(None) };
    let mut out = String::from("[");
    for (at, (values, row)) in elements.into_iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        values.put(row, &mut out);
    }
    out.push(']');
    Ok(Some(out))
}

/// `json_build_object (VARIADIC …)`
fn object_of(fields: &[(String, Values)], row: usize) -> Result<Option<String>, SqlError> {
    let Some(elements) = spread(fields, row) else { return Ok(None) };
    let mut out = String::from("{");
    for (at, pair) in elements.chunks(2).enumerate() {
        let [(names, name), (values, value)] = pair else { return Err(odd()) };
        if at > 0 {
            out.push_str(", ");
        }
        if names.is_null(*name) {
            return Err(null_key(2 * at + 1));
        }
        names.put_name(*name, &mut out)?;
        out.push_str(" : ");
        values.put(*value, &mut out);
    }
    out.push('}');
    Ok(Some(out))
}

fn odd() -> SqlError {
    SqlError::new("22023", "argument list must have even number of elements")
        .with_hint("The arguments of json_build_object() must consist of alternating keys and values.")
}

fn null_key(at: usize) -> SqlError {
    SqlError::new("22023", format!("argument {at} cannot be null")).with_hint("Object keys should be text.")
}

/// A member of an object, of a name and a value.
fn pair(fields: &[(String, Values)], row: usize) -> Result<Option<String>, SqlError> {
    let [(_, name), (_, values)] = fields else { return Err(SqlError::internal("a member of two")) };
    if name.is_null(row) {
        return Err(SqlError::new("22023", "field name must not be null"));
    }
    let mut out = String::new();
    name.put_name(row, &mut out)?;
    out.push_str(" : ");
    values.put(row, &mut out);
    Ok(Some(out))
}

fn function(name: &'static str, write: Write, cx: Option<Arc<dyn PgContext>>) -> PgFunction {
    let is_zoned = cx.is_some();
    let made = f(name, &[P::Any], oid(t::JSON), move |call| {
        let zone = cx.as_ref().map(|cx| cx.zone()).unwrap_or_default();
        let array = &call.arrays[0];
        let DataType::Struct(fields) = array.data_type() else {
            return Err(SqlError::internal("JSON of something that is no record"));
        };
        let columns = fields
            .iter()
            .zip(array.as_struct().columns())
            .map(|(field, column)| Ok((field.name().clone(), values(field, column, &zone, 0)?)))
            .collect::<Result<Vec<_>, SqlError>>()?;
        call.texts(|row| write(&columns, row))
    });
    if is_zoned { made.volatile() } else { made }
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let cx = || Some(Arc::clone(cx));
    vec![
        function("pg_json_value", value, None),
        function("pg_json_object", object, None),
        function("pg_json_array", array, None),
        function("pg_json_object_of", object_of, None),
        function("pg_json_array_of", array_of, None),
        function("pg_json_pair", pair, None),
        function("pg_json_value_zoned", value, cx()),
        function("pg_json_lines_zoned", lines, cx()),
        function("pg_json_object_zoned", object, cx()),
        function("pg_json_array_zoned", array, cx()),
        function("pg_json_object_of_zoned", object_of, cx()),
        function("pg_json_array_of_zoned", array_of, cx()),
        function("pg_json_pair_zoned", pair, cx()),
    ]
}
