//! Records: `(1,"a b",)` in text; the number of columns, then type and value of each in binary.

use bytes::{BufMut, BytesMut};

use super::cell::Cell;
use crate::wire::SqlError;

/// Columns with their types.
type Columns<'a> = [(u32, Cell<'a>)];

fn needs_quotes(text: &[u8]) -> bool {
    text.is_empty()
        || text.iter().any(|b| matches!(b, b'"' | b'\\' | b'(' | b')' | b',' | 0x0b) || b.is_ascii_whitespace())
}

pub(super) fn put_record_text(columns: &Columns<'_>, row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
    out.put_u8(b'(');
    for (at, (_, cell)) in columns.iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        if cell.is_null(row) {
            continue;
        }
        let before = out.len();
        cell.put_text(row, out)?;
        if needs_quotes(&out[before..]) {
            let text = out.split_off(before);
            out.put_u8(b'"');
            for &byte in text.iter() {
                if byte == b'"' || byte == b'\\' {
                    out.put_u8(byte);
                }
                out.put_u8(byte);
            }
            out.put_u8(b'"');
        }
    }
    out.put_u8(b')');
    Ok(())
}

pub(super) fn put_record_binary(columns: &Columns<'_>, row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
    out.put_i32(columns.len() as i32);
    for (ty, cell) in columns {
        out.put_u32(*ty);
        if cell.is_null(row) {
            out.put_i32(-1);
            continue;
        }
        let length_at = out.len();
        out.put_i32(0);
        cell.put_binary(row, out)?;
        let length = (out.len() - length_at - 4) as i32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}
