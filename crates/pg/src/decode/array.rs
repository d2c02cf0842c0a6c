//! Arrays in text: `{a,"b c",NULL}`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ListArray, PrimitiveBuilder, StringViewBuilder, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{ArrowPrimitiveType, Field, Float64Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::ScalarValue;

use super::{parse_float8, parse_int};
use crate::types::{element_field, oid};
use crate::wire::SqlError;
use crate::{memory, running};

/// Dimensions that PostgreSQL's arrays have at most.
const DIMENSIONS_MAX: usize = 6;

/// Elements after which it is asked whether to go on.
const ELEMENTS_TOGETHER: usize = 4096;

#[cold]
fn malformed(text: &str) -> SqlError {
    SqlError::new("22P02", format!("malformed array literal: \"{text}\""))
}

/// The elements of a one-dimensional array literal; `None` is null.
///
/// # Errors
/// `22P02` for a malformed literal, `0A000` for more than one dimension.
pub fn parse_array(text: &str) -> Result<Vec<Option<String>>, SqlError> {
    let mut out = Vec::new();
    each_element(text, |item| {
        out.push(item.map(ToOwned::to_owned));
        Ok(())
    })?;
    Ok(out)
}

/// Gives the elements of a one-dimensional array literal one after the other, as parts of it where nothing is escaped.
///
/// # Errors
/// As [`parse_array`], and those of `each`.
fn each_element(text: &str, mut each: impl FnMut(Option<&str>) -> Result<(), SqlError>) -> Result<(), SqlError> {
    let body = text.trim_ascii();
    // Its dimensions are written: `[2:3]={…}`.
    if body.starts_with('[') && body.contains('{') {
        return Err(SqlError::unsupported("arrays with written dimensions are not supported"));
    }
    let Some(rest) = body.strip_prefix('{') else {
        return Err(malformed(text).with_detail("Array value must start with \"{\" or dimension information."));
    };
    let mut rest = rest.trim_ascii_start();
    if let Some(rest) = rest.strip_prefix('}') {
        return if rest.is_empty() { Ok(()) } else { Err(malformed(text)) };
    }
    // An element that is not a part of the text as it stands.
    let mut item = String::new();
    let mut count = 0usize;
    loop {
        // Elements take more than their text.
        if count % ELEMENTS_TOGETHER == ELEMENTS_TOGETHER - 1 {
            running::check()?;
        }
        count += 1;
        rest = rest.trim_ascii_start();
        rest = match rest.as_bytes().first() {
            None | Some(b',' | b'}') => return Err(malformed(text)),
            Some(b'{') if count > 1 => return Err(malformed(text).with_detail("Unexpected \"{\" character.")),
            Some(b'{') if braces(body) > DIMENSIONS_MAX => return Err(too_many_dimensions()),
            Some(b'{') => return Err(SqlError::unsupported("multidimensional arrays are not supported")),
            Some(b'"') => {
                let behind = quoted(&rest[1..], &mut item).ok_or_else(|| malformed(text))?;
                each(Some(&item))?;
                behind
            }
            Some(_) => {
                let end = rest.bytes().position(|byte| matches!(byte, b',' | b'}' | b'{' | b'"' | b'\\'));
                let end = end.unwrap_or(rest.len());
                if rest.as_bytes().get(end) == Some(&b'\\') {
                    let behind = escaped(rest, &mut item).ok_or_else(|| malformed(text))?;
                    each(Some(item.trim_end()))?;
                    behind
                } else {
                    let plain = rest[..end].trim_end();
                    if matches!(rest.as_bytes().get(end), Some(b'{' | b'"')) {
                        return Err(malformed(text));
                    }
                    each(if plain.eq_ignore_ascii_case("null") { None } else { Some(plain) })?;
                    &rest[end..]
                }
            }
        };
        rest = rest.trim_ascii_start();
        match rest.as_bytes().first() {
            Some(b',') => rest = &rest[1..],
            Some(b'}') => break,
            _ => return Err(malformed(text)),
        }
    }
    if rest.len() > 1 {
        return Err(malformed(text).with_detail("Junk after closing right brace."));
    }
    Ok(())
}

/// `54000`: PostgreSQL's limit of what an array may be of.
#[cold]
pub fn too_many_dimensions() -> SqlError {
    let message =
        format!("number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})", DIMENSIONS_MAX + 1);
    SqlError::new("54000", message)
}

/// How many braces are open at most, quotes apart.
fn braces(text: &str) -> usize {
    let (mut open, mut most, mut quoted) = (0usize, 0, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => quoted = !quoted,
            b'{' if !quoted => open += 1,
            b'}' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Reads an element to its second quote into `item`; what is behind that, `None` if there is none.
fn quoted<'a>(text: &'a str, item: &mut String) -> Option<&'a str> {
    item.clear();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(chars.as_str()),
            '\\' => item.push(chars.next()?),
            c => item.push(c),
        }
    }
}

/// Reads an element without quotes into `item`; what is behind it, `None` if it is malformed.
fn escaped<'a>(text: &'a str, item: &mut String) -> Option<&'a str> {
    item.clear();
    let mut rest = text;
    loop {
        let mut chars = rest.chars();
        match chars.next() {
            None | Some(',' | '}') => return Some(rest),
            Some('{' | '"') => return None,
            Some('\\') => item.push(chars.next()?),
            Some(c) => item.push(c),
        }
        rest = chars.as_str();
    }
}

/// The column of the elements of an array literal, for types of which there may be very many in one: a value at a time
/// would take twenty times the room.
///
/// # Errors
/// As [`parse_array`], and those of the elements.
pub(super) fn elements_at_once(element: u32, text: &str) -> Result<Option<ScalarValue>, SqlError> {
    fn of<T: ArrowPrimitiveType>(
        text: &str,
        value: impl Fn(&str) -> Result<T::Native, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let mut out = PrimitiveBuilder::<T>::new();
        each_element(text, |item| {
            out.append_option(item.map(&value).transpose()?);
            Ok(())
        })?;
        Ok(Arc::new(out.finish()))
    }
    let array = match element {
        oid::INT2 => of::<Int16Type>(text, |item| {
            parse_int(item, i16::MIN.into(), i16::MAX.into(), "smallint").map(|value| value as i16)
        })?,
        oid::INT4 => of::<Int32Type>(text, |item| {
            parse_int(item, i32::MIN.into(), i32::MAX.into(), "integer").map(|value| value as i32)
        })?,
        oid::INT8 => of::<Int64Type>(text, |item| parse_int(item, i64::MIN, i64::MAX, "bigint"))?,
        oid::FLOAT8 => of::<Float64Type>(text, parse_float8)?,
        oid::TEXT | oid::VARCHAR => {
            let mut out = StringViewBuilder::new();
            each_element(text, |item| {
                out.append_option(item);
                Ok(())
            })?;
            Arc::new(out.finish())
        }
        _ => return Ok(None),
    };
    let Some(field) = element_field(element).filter(|field| field.data_type() == array.data_type()) else {
        return Ok(None);
    };
    list_of(field, array).map(Some)
}

fn list_of(field: Field, array: ArrayRef) -> Result<ScalarValue, SqlError> {
    let list = ListArray::try_new(Arc::new(field), OffsetBuffer::from_lengths([array.len()]), array, None)
        .map_err(|error| crate::errors::from_arrow(&error))?;
    Ok(ScalarValue::List(Arc::new(list)))
}

/// A list scalar of elements that were decoded one by one.
pub(super) fn list_scalar(element: u32, values: Vec<Option<ScalarValue>>) -> Result<ScalarValue, SqlError> {
    let field = element_field(element)
        .ok_or_else(|| SqlError::unsupported(format!("arrays of type {element} are not supported")))?;
    let null = ScalarValue::try_from(field.data_type()).map_err(|error| crate::errors::from_datafusion(error, ""))?;
    let length = values.len();
    // Once more as values, once as a column.
    memory::column(1, length.saturating_mul(2 * size_of::<ScalarValue>()))?;
    let array: ArrayRef = if values.is_empty() {
        new_empty_array(field.data_type())
    } else {
        ScalarValue::iter_to_array(values.into_iter().map(|value| value.unwrap_or_else(|| null.clone())))
            .map_err(|error| crate::errors::from_datafusion(error, ""))?
    };
    list_of(field, array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        let some = |items: &[&str]| items.iter().map(|s| Some((*s).to_owned())).collect::<Vec<_>>();
        assert_eq!(parse_array("{}").expect("empty"), some(&[]));
        assert_eq!(parse_array(" { a , b } ").expect("two"), some(&["a", "b"]));
        assert_eq!(parse_array(r#"{"a b","c\"d",e\,f}"#).expect("quoted"), some(&["a b", "c\"d", "e,f"]));
        assert_eq!(parse_array("{NULL,\"NULL\"}").expect("null"), vec![None, Some("NULL".into())]);
        assert_eq!(parse_array(r"{ \NULL , a\ ,äö\,ü }").expect("escaped"), some(&["NULL", "a", "äö,ü"]));
        for bad in ["", "a", "{", "{a", "{a,}", "{a}x", "{\"a}", "{a\\", "{a\"b}", "{a\\b{c}", "{}x", "{a b\"c\"}"] {
            assert_eq!(parse_array(bad).unwrap_err().sqlstate, "22P02", "{bad}");
            assert!(elements_at_once(oid::TEXT, bad).is_err_and(|error| error.sqlstate == "22P02"), "{bad}");
        }
    }

    #[test]
    fn at_once_as_one_by_one() {
        for (element, text) in [
            (oid::INT2, "{1, -2,NULL, \"3\"}"),
            (oid::INT4, "{}"),
            (oid::INT8, "{9223372036854775807,0}"),
            (oid::FLOAT8, "{1.5,NaN,null}"),
            (oid::TEXT, "{a,\"NULL\",NULL,\"b c\",d\\,e}"),
        ] {
            let one = |item: &str| crate::decode::param::decode_text(element, item, &crate::datetime::Zone::Utc);
            let values: Result<Vec<_>, _> = parse_array(text)
                .expect("elements")
                .into_iter()
                .map(|item| item.as_deref().map(one).transpose())
                .collect();
            let list = list_scalar(element, values.expect("values")).expect("list");
            assert_eq!(elements_at_once(element, text).expect("list"), Some(list), "{text}");
        }
        assert_eq!(elements_at_once(oid::INT4, "{2147483648}").unwrap_err().sqlstate, "22003");
        assert_eq!(elements_at_once(oid::INT4, "{a}").unwrap_err().sqlstate, "22P02");
    }
}
