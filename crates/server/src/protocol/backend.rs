//! Appending the server's messages to an output buffer.
//!
//! Contract: every function appends whole messages (tag, length, body) and does
//! no I/O. Field counts above `i16::MAX` cannot occur: a table has at most 1600
//! columns.

use bytes::{BufMut, BytesMut};
use resurgam_sql::wire::{Field, Format, RowChunk, SqlError, Tag, TransactionStatus};

/// Appends one message whose body `fill` writes; the length is put in afterwards.
#[inline]
pub fn message(out: &mut BytesMut, tag: u8, fill: impl FnOnce(&mut BytesMut)) {
    out.put_u8(tag);
    let at = out.len();
    out.put_u32(0);
    fill(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Text with its terminator; a NUL inside would end it early and is dropped.
fn put_text(out: &mut BytesMut, text: &str) {
    if text.as_bytes().contains(&0) {
        out.put_slice(text.replace('\0', "").as_bytes());
    } else {
        out.put_slice(text.as_bytes());
    }
    out.put_u8(0);
}

/// `ReadyForQuery`.
#[inline]
pub fn ready(out: &mut BytesMut, status: TransactionStatus) {
    out.put_slice(&[b'Z', 0, 0, 0, 5, status.byte()]);
}

/// `ParseComplete`.
#[inline]
pub fn parse_complete(out: &mut BytesMut) {
    out.put_slice(b"1\0\0\0\x04");
}

/// `BindComplete`.
#[inline]
pub fn bind_complete(out: &mut BytesMut) {
    out.put_slice(b"2\0\0\0\x04");
}

/// `CloseComplete`.
#[inline]
pub fn close_complete(out: &mut BytesMut) {
    out.put_slice(b"3\0\0\0\x04");
}

/// `NoData`.
#[inline]
pub fn no_data(out: &mut BytesMut) {
    out.put_slice(b"n\0\0\0\x04");
}

/// `EmptyQueryResponse`.
#[inline]
pub fn empty_query(out: &mut BytesMut) {
    out.put_slice(b"I\0\0\0\x04");
}

/// `PortalSuspended`.
#[inline]
pub fn portal_suspended(out: &mut BytesMut) {
    out.put_slice(b"s\0\0\0\x04");
}

/// `CopyDone`.
#[inline]
pub fn copy_done(out: &mut BytesMut) {
    out.put_slice(b"c\0\0\0\x04");
}

/// `CommandComplete`.
#[inline]
pub fn command_complete(out: &mut BytesMut, tag: &Tag) {
    message(out, b'C', |out| {
        let (name, rows) = match tag {
            Tag::Fixed(name) => (*name, None),
            Tag::Count(name, rows) => (*name, Some(*rows)),
            Tag::Insert(rows) => ("INSERT 0", Some(*rows)),
        };
        out.put_slice(name.as_bytes());
        if let Some(rows) = rows {
            put_number(out, rows);
        }
        out.put_u8(0);
    });
}

/// A blank and a number in digits.
fn put_number(out: &mut BytesMut, mut number: u64) {
    // Twenty digits are the most.
    let mut text = [b' '; 21];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(&text[at - 1..]);
}

/// The rows of a chunk as `DataRow` messages.
pub fn data_rows(out: &mut BytesMut, chunk: &RowChunk) {
    out.reserve(chunk.bytes.len() + chunk.len() * 7);
    let fields = chunk.fields.to_be_bytes();
    for body in chunk.rows() {
        let length = (body.len() as u32 + 6).to_be_bytes();
        out.put_slice(&[b'D', length[0], length[1], length[2], length[3], fields[0], fields[1]]);
        out.put_slice(body);
    }
}

/// `RowDescription`; `formats` is empty (all text), one for all, or one each.
pub fn row_description(out: &mut BytesMut, fields: &[Field], formats: &[Format]) {
    message(out, b'T', |out| {
        out.put_u16(fields.len() as u16);
        for (i, field) in fields.iter().enumerate() {
            put_text(out, &field.name);
            let format = match formats {
                [] => Format::Text,
                [one] => *one,
                each => each.get(i).copied().unwrap_or(Format::Text),
            };
            let mut about = [0; 18];
            about[0..4].copy_from_slice(&field.table_oid.to_be_bytes());
            about[4..6].copy_from_slice(&field.column.to_be_bytes());
            about[6..10].copy_from_slice(&field.type_oid.to_be_bytes());
            about[10..12].copy_from_slice(&field.type_len.to_be_bytes());
            about[12..16].copy_from_slice(&field.typmod.to_be_bytes());
            about[16..18].copy_from_slice(&format_code(format).to_be_bytes());
            out.put_slice(&about);
        }
    });
}

/// 0 for text, 1 for binary.
pub fn format_code(format: Format) -> u16 {
    match format {
        Format::Text => 0,
        Format::Binary => 1,
    }
}

/// `ParameterDescription`.
pub fn parameter_description(out: &mut BytesMut, types: &[u32]) {
    message(out, b't', |out| {
        out.put_u16(types.len() as u16);
        for oid in types {
            out.put_u32(*oid);
        }
    });
}

/// `ParameterStatus`.
pub fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    message(out, b'S', |out| {
        put_text(out, name);
        put_text(out, value);
    });
}

/// `NotificationResponse`.
pub fn notification(out: &mut BytesMut, pid: i32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        out.put_i32(pid);
        put_text(out, channel);
        put_text(out, payload);
    });
}

/// `CopyInResponse` (`G`) or `CopyOutResponse` (`H`) with `columns` columns of one format.
pub fn copy_response(out: &mut BytesMut, tag: u8, format: Format, columns: u16) {
    message(out, tag, |out| {
        out.put_u8(format_code(format) as u8);
        out.put_u16(columns);
        for _ in 0..columns {
            out.put_u16(format_code(format));
        }
    });
}

/// `CopyData`.
pub fn copy_data(out: &mut BytesMut, data: &[u8]) {
    message(out, b'd', |out| out.put_slice(data));
}

/// `ErrorResponse`, or `NoticeResponse` for severities below `ERROR`.
#[cold]
pub fn error(out: &mut BytesMut, error: &SqlError) {
    let tag = if matches!(error.severity, "ERROR" | "FATAL" | "PANIC") { b'E' } else { b'N' };
    message(out, tag, |out| {
        let mut field = |code: u8, text: &str| {
            out.put_u8(code);
            put_text(out, text);
        };
        field(b'S', error.severity);
        field(b'V', error.severity);
        field(b'C', &error.sqlstate);
        field(b'M', &error.message);
        let optional = [
            (b'D', &error.detail),
            (b'H', &error.hint),
            (b'W', &error.context),
            (b's', &error.schema),
            (b't', &error.table),
            (b'c', &error.column),
            (b'd', &error.datatype),
            (b'n', &error.constraint),
        ];
        for (code, text) in optional {
            if let Some(text) = text {
                field(code, text);
            }
        }
        if let Some(position) = error.position {
            field(b'P', &position.to_string());
        }
        if let Some(routine) = error.routine {
            field(b'R', routine);
        }
        out.put_u8(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_framed() {
        let chunk =
            RowChunk { bytes: BytesMut::from(&b"\0\0\0\x01a\xff\xff\xff\xff"[..]), ends: vec![5, 9], fields: 1 };
        let mut out = BytesMut::new();
        data_rows(&mut out, &chunk);
        assert_eq!(&out[..], b"D\0\0\0\x0b\0\x01\0\0\0\x01aD\0\0\0\x0a\0\x01\xff\xff\xff\xff");
    }

    #[test]
    fn tags_are_text() {
        let mut out = BytesMut::new();
        command_complete(&mut out, &Tag::Insert(3));
        assert_eq!(&out[..], b"C\0\0\0\x0fINSERT 0 3\0");
        for tag in
            [Tag::Count("SELECT", 0), Tag::Count("UPDATE", 1_234_567), Tag::Insert(u64::MAX), Tag::Fixed("BEGIN")]
        {
            out.clear();
            command_complete(&mut out, &tag);
            assert_eq!(out[5..], *format!("{tag}\0").as_bytes());
        }
    }

    #[test]
    fn an_error_has_its_fields_and_no_inner_nul() {
        let mut out = BytesMut::new();
        error(&mut out, &SqlError::new("42601", "bad\0 thing").with_position(7));
        let text = String::from_utf8_lossy(&out[5..]).into_owned();
        assert_eq!(text, "SERROR\0VERROR\0C42601\0Mbad thing\0P7\0\0");
        out.clear();
        let mut named = SqlError::unsupported("x");
        named.routine = Some("RevalidateCachedQuery");
        error(&mut out, &named);
        assert!(out.ends_with(b"Mx\0RRevalidateCachedQuery\0\0"));
    }
}
