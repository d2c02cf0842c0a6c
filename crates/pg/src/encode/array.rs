//! Arrays: `{1,NULL,"a b"}` in text; dimensions, flags and elements in binary.

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::DataType;

use super::cell::{Cell, Look};
use crate::types::{arrow_oid, compatible, field_oid, oid, type_by_oid};
use crate::wire::SqlError;

/// A list column: where each row's elements are, and the elements.
pub(crate) struct ListCells<'a> {
    ranges: Vec<(usize, usize)>,
    elements: Box<Cell<'a>>,
    element_oid: u32,
    nested: bool,
    /// `int2vector` and `oidvector` print without braces.
    vector: bool,
}

impl<'a> ListCells<'a> {
    pub(super) fn new(array: &'a dyn Array, look: &Look) -> Result<Self, SqlError> {
        let (ranges, values, field) = match array.data_type() {
            DataType::List(field) => {
                let list = array.as_list::<i32>();
                let offsets = list.value_offsets();
                let ranges = offsets.windows(2).map(|w| (w[0] as usize, w[1] as usize)).collect();
                (ranges, list.values(), field)
            }
            DataType::LargeList(field) => {
                let list = array.as_list::<i64>();
                let offsets = list.value_offsets();
                let ranges = offsets.windows(2).map(|w| (w[0] as usize, w[1] as usize)).collect();
                (ranges, list.values(), field)
            }
            DataType::FixedSizeList(field, width) => {
                let list = array.as_fixed_size_list();
                let width = (*width).max(0) as usize;
                let ranges = (0..list.len()).map(|row| (row * width, (row + 1) * width)).collect::<Vec<_>>();
                (ranges, list.values(), field)
            }
            other => return Err(SqlError::internal(format!("{other} is not a list"))),
        };
        let nested =
            matches!(values.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
        // The array's type says what its elements are, in all its dimensions; they do not say it themselves.
        let implied = arrow_oid(values.data_type());
        let element_oid = match type_by_oid(look.oid).filter(|ty| ty.elem != 0) {
            Some(ty) if nested && compatible(ty.oid, implied) => ty.oid,
            Some(ty) if !nested && compatible(ty.elem, implied) => ty.elem,
            _ => field_oid(field),
        };
        let inner = Look { oid: element_oid, typmod: -1, zone: look.zone, names: look.names.clone() };
        Ok(Self {
            ranges,
            elements: Box::new(Cell::new(values.as_ref(), &inner)?),
            element_oid,
            nested,
            vector: matches!(look.oid, oid::INT2VECTOR | oid::OIDVECTOR),
        })
    }
}

pub(super) fn put_list_text(list: &ListCells<'_>, row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
    let (start, end) = list.ranges[row];
    refuse_ragged(list, start, end)?;
    if !list.vector {
        out.put_u8(b'{');
    }
    for at in start..end {
        if at > start {
            out.put_u8(if list.vector { b' ' } else { b',' });
        }
        if list.elements.is_null(at) {
            out.put_slice(b"NULL");
            continue;
        }
        let before = out.len();
        list.elements.put_text(at, out)?;
        if !list.nested && needs_quotes(&out[before..]) {
            let text = out.split_off(before);
            put_element(&text, out);
        }
    }
    if !list.vector {
        out.put_u8(b'}');
    }
    Ok(())
}

/// An element's text in that of an array.
pub(crate) fn put_element(text: &[u8], out: &mut BytesMut) {
    if !needs_quotes(text) {
        out.put_slice(text);
        return;
    }
    out.put_u8(b'"');
    for &byte in text {
        if byte == b'"' || byte == b'\\' {
            out.put_u8(b'\\');
        }
        out.put_u8(byte);
    }
    out.put_u8(b'"');
}

/// An array of arrays has a length for each dimension, and none within is null or empty.
fn refuse_ragged(list: &ListCells<'_>, start: usize, end: usize) -> Result<(), SqlError> {
    let Some(inner) = list.elements.list().filter(|_| list.nested) else { return Ok(()) };
    if (start..end).any(|at| list.elements.is_null(at)) {
        return Err(SqlError::new("22004", "cannot accumulate null arrays"));
    }
    let mut lengths = (start..end).filter_map(|at| inner.ranges.get(at)).map(|(from, to)| to - from);
    let Some(first) = lengths.next() else { return Ok(()) };
    if first == 0 {
        return Err(SqlError::new("2202E", "cannot accumulate empty arrays"));
    }
    match lengths.all(|length| length == first) {
        true => Ok(()),
        false => {
            Err(SqlError::new("2202E", "multidimensional arrays must have array expressions with matching dimensions"))
        }
    }
}

fn needs_quotes(text: &[u8]) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case(b"null")
        || text.iter().any(|b| matches!(b, b'{' | b'}' | b',' | b'"' | b'\\') || b.is_ascii_whitespace() || *b == 0x0b)
}

/// One dimension (nested lists are sent as text elements would be: not supported).
pub(super) fn put_list_binary(list: &ListCells<'_>, row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
    if list.nested {
        return Err(SqlError::unsupported("multidimensional arrays in binary format are not supported"));
    }
    let (start, end) = list.ranges[row];
    let nulls = (start..end).any(|at| list.elements.is_null(at));
    out.put_i32(i32::from(end > start));
    out.put_i32(i32::from(nulls));
    out.put_u32(list.element_oid);
    if end == start {
        return Ok(());
    }
    out.put_i32((end - start) as i32);
    out.put_i32(1);
    for at in start..end {
        if list.elements.is_null(at) {
            out.put_i32(-1);
            continue;
        }
        let length_at = out.len();
        out.put_i32(0);
        list.elements.put_binary(at, out)?;
        let length = (out.len() - length_at - 4) as i32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}
