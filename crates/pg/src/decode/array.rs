//! Arrays in text: `{a,"b c",NULL}`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::common::ScalarValue;

use crate::types::element_field;
use crate::wire::SqlError;
use crate::{memory, running};

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
    let body = text.trim_ascii();
    let mut chars = body.chars().peekable();
    // Its dimensions are written: `[2:3]={…}`.
    if body.starts_with('[') && body.contains('{') {
        return Err(SqlError::unsupported("arrays with written dimensions are not supported"));
    }
    if chars.next() != Some('{') {
        return Err(malformed(text).with_detail("Array value must start with \"{\" or dimension information."));
    }
    let mut out = Vec::new();
    let skip = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        while chars.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            chars.next();
        }
    };
    skip(&mut chars);
    if chars.peek() == Some(&'}') {
        chars.next();
        skip(&mut chars);
        return if chars.next().is_none() { Ok(out) } else { Err(malformed(text)) };
    }
    loop {
        // Elements take more than their text.
        if out.len() % ELEMENTS_TOGETHER == ELEMENTS_TOGETHER - 1 {
            running::check()?;
        }
        skip(&mut chars);
        match chars.peek() {
            None | Some(',' | '}') => return Err(malformed(text)),
            Some('{') => return Err(SqlError::unsupported("multidimensional arrays are not supported")),
            Some('"') => {
                chars.next();
                let mut item = String::new();
                loop {
                    match chars.next() {
                        None => return Err(malformed(text)),
                        Some('"') => break,
                        Some('\\') => item.push(chars.next().ok_or_else(|| malformed(text))?),
                        Some(c) => item.push(c),
                    }
                }
                out.push(Some(item));
            }
            Some(_) => {
                let mut item = String::new();
                let mut escaped = false;
                while let Some(&c) = chars.peek() {
                    match c {
                        ',' | '}' => break,
                        '{' | '"' => return Err(malformed(text)),
                        '\\' => {
                            chars.next();
                            escaped = true;
                            item.push(chars.next().ok_or_else(|| malformed(text))?);
                        }
                        c => {
                            chars.next();
                            item.push(c);
                        }
                    }
                }
                let item = item.trim_end().to_owned();
                out.push(if !escaped && item.eq_ignore_ascii_case("null") { None } else { Some(item) });
            }
        }
        skip(&mut chars);
        match chars.next() {
            Some(',') => {}
            Some('}') => break,
            _ => return Err(malformed(text)),
        }
    }
    skip(&mut chars);
    if chars.next().is_some() {
        return Err(malformed(text).with_detail("Junk after closing right brace."));
    }
    Ok(out)
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
    let list = ListArray::try_new(Arc::new(field), OffsetBuffer::from_lengths([length]), array, None)
        .map_err(|error| crate::errors::from_arrow(&error))?;
    Ok(ScalarValue::List(Arc::new(list)))
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
        for bad in ["", "a", "{", "{a", "{a,}", "{a}x", "{\"a}", "{a\\"] {
            assert_eq!(parse_array(bad).unwrap_err().sqlstate, "22P02", "{bad}");
        }
    }
}
