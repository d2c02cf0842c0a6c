//! Records to COPY data.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use datafusion::arrow::array::RecordBatch;

use super::binary::SIGNATURE;
use super::options::{CopyFormat, CopyHeader, CopyOptions};
use crate::encode::{Cell, RowEncoder};
use crate::wire::{Format, SqlError};

/// COPY data in messages: each has one row, since there are clients that take a message for a row.
#[derive(Debug, Default)]
pub struct CopyChunk {
    data: BytesMut,
    /// Where each message ends.
    ends: Vec<usize>,
}

impl CopyChunk {
    /// Bytes of all messages.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
    fn end_message(&mut self) {
        self.ends.push(self.data.len());
    }
    /// The messages.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(from, to)| &self.data[from..*to])
    }
    /// All of them, one after the other.
    pub fn into_data(self) -> Bytes {
        self.data.freeze()
    }
}

/// Writes COPY data: what [`super::Records`] reads back.
#[derive(Debug)]
pub struct CopyWriter {
    options: CopyOptions,
    columns: Vec<String>,
    force_quote: Vec<bool>,
    scratch: BytesMut,
}

impl CopyWriter {
    /// A writer of these columns.
    pub fn new(options: CopyOptions, columns: Vec<String>) -> Self {
        let force_quote = columns.iter().map(|c| options.force_quote_all || options.force_quote.contains(c)).collect();
        Self { options, columns, force_quote, scratch: BytesMut::new() }
    }

    /// In which format values have to be encoded.
    pub fn format(&self) -> Format {
        self.options.format.of_data()
    }

    /// Appends what data begins with: the header line, if there is to be one; the binary format's header, which is in
    /// the first row's message as in PostgreSQL.
    pub fn header(&mut self, chunk: &mut CopyChunk) {
        if self.options.format == CopyFormat::Binary {
            chunk.data.put_slice(SIGNATURE);
            chunk.data.put_u64(0); // no flags, no extension
            return;
        }
        if self.options.header == CopyHeader::None {
            return;
        }
        let out = &mut chunk.data;
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                out.put_u8(self.options.delimiter);
            }
            match self.options.format {
                CopyFormat::Csv => put_csv(column.as_bytes(), &self.options, false, self.columns.len() == 1, out),
                CopyFormat::Text | CopyFormat::Binary => put_text(column.as_bytes(), self.options.delimiter, out),
            }
        }
        out.put_u8(b'\n');
        chunk.end_message();
    }

    /// Appends what data ends with.
    pub fn trailer(&mut self, chunk: &mut CopyChunk) {
        if self.options.format == CopyFormat::Binary {
            chunk.data.put_i16(-1);
            chunk.end_message();
        }
    }

    /// Appends rows of a batch; `encoder` was made for its fields, in [`Self::format`].
    ///
    /// # Errors
    /// As [`crate::encode::Cell::put_text`].
    pub fn rows(
        &mut self,
        encoder: &RowEncoder,
        batch: &RecordBatch,
        rows: Range<usize>,
        chunk: &mut CopyChunk,
    ) -> Result<(), SqlError> {
        let cells = encoder.cells(batch)?;
        for row in rows {
            match self.options.format {
                CopyFormat::Binary => put_binary(&cells, row, &mut chunk.data)?,
                CopyFormat::Text | CopyFormat::Csv => self.line(&cells, row, &mut chunk.data)?,
            }
            chunk.end_message();
        }
        Ok(())
    }

    fn line(&mut self, cells: &[Cell<'_>], row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                out.put_u8(self.options.delimiter);
            }
            if cell.is_null(row) {
                out.put_slice(self.options.null.as_bytes());
                continue;
            }
            self.scratch.clear();
            cell.put_text(row, &mut self.scratch)?;
            if self.options.format == CopyFormat::Csv {
                let force = self.force_quote.get(at).copied().unwrap_or(false);
                put_csv(&self.scratch, &self.options, force, cells.len() == 1, out);
            } else {
                put_text(&self.scratch, self.options.delimiter, out);
            }
        }
        out.put_u8(b'\n');
        Ok(())
    }
}

fn put_binary(cells: &[Cell<'_>], row: usize, out: &mut BytesMut) -> Result<(), SqlError> {
    out.put_i16(cells.len() as i16);
    for cell in cells {
        if cell.is_null(row) {
            out.put_i32(-1);
            continue;
        }
        let at = out.len();
        out.put_i32(0);
        cell.put_binary(row, out)?;
        let length = (out.len() - at - 4) as i32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

fn put_text(value: &[u8], delimiter: u8, out: &mut BytesMut) {
    let special = |byte: u8| matches!(byte, 8..=13 | b'\\') || byte == delimiter;
    let mut from = 0;
    for (at, &byte) in value.iter().enumerate() {
        if !special(byte) {
            continue;
        }
        out.put_slice(&value[from..at]);
        from = at + 1;
        out.put_u8(b'\\');
        out.put_u8(match byte {
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            11 => b'v',
            12 => b'f',
            b'\r' => b'r',
            other => other,
        });
    }
    out.put_slice(&value[from..]);
}

fn put_csv(value: &[u8], options: &CopyOptions, force: bool, single: bool, out: &mut BytesMut) {
    let quote = force
        || value == options.null.as_bytes()
        // alone on its line it would end the data
        || (single && value == b"\\.")
        || value.iter().any(|&b| b == options.delimiter || b == options.quote || matches!(b, b'\n' | b'\r'));
    if !quote {
        out.put_slice(value);
        return;
    }
    out.put_u8(options.quote);
    for &byte in value {
        if byte == options.quote || byte == options.escape {
            out.put_u8(options.escape);
        }
        out.put_u8(byte);
    }
    out.put_u8(options.quote);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, StringArray};

    use super::super::CopyReader;
    use super::*;
    use crate::encode::TextStyle;

    fn written(options: &CopyOptions, values: &[Option<&str>]) -> String {
        let array: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let batch = RecordBatch::try_from_iter([("a", array.clone()), ("b", array)]).expect("batch");
        let encoder = RowEncoder::new(batch.schema().fields(), &[], &TextStyle::default()).expect("encoder");
        let mut writer = CopyWriter::new(options.clone(), vec!["a".into(), "b".into()]);
        let mut out = CopyChunk::default();
        writer.header(&mut out);
        writer.rows(&encoder, &batch, 0..values.len(), &mut out).expect("rows");
        writer.trailer(&mut out);
        // A message has a line, and all have everything.
        assert_eq!(out.messages().count(), values.len() + usize::from(options.header != CopyHeader::None));
        assert_eq!(out.messages().map(<[u8]>::len).sum::<usize>(), out.len());
        String::from_utf8(out.into_data().to_vec()).expect("utf-8")
    }

    #[test]
    fn what_is_written_is_read_back() {
        let values =
            [Some("plain"), None, Some(""), Some("a\tb\\c\nd\re"), Some("q\"x,y"), Some("\\N"), Some("\\."), Some("ä")];
        for format in [CopyFormat::Text, CopyFormat::Csv] {
            let options = CopyOptions::new(format);
            let text = written(&options, &values);
            let mut reader = CopyReader::new(options, "t", vec!["a".into(), "b".into()]);
            reader.push(text.as_bytes());
            reader.end();
            for value in values {
                assert!(reader.next_record().expect("record"), "{text:?}");
                assert_eq!(reader.field(0).expect("field"), value, "{text:?}");
                assert_eq!(reader.field(1).expect("field"), value);
            }
            assert!(!reader.next_record().expect("end"));
        }
    }

    #[test]
    fn as_postgresql_writes() {
        assert_eq!(written(&CopyOptions::new(CopyFormat::Text), &[Some("a\tb"), None]), "a\\tb\ta\\tb\n\\N\t\\N\n");
        let mut csv = CopyOptions::new(CopyFormat::Csv);
        csv.header = CopyHeader::Line;
        csv.force_quote = vec!["b".into()];
        assert_eq!(written(&csv, &[Some("x,y"), Some("")]), "a,b\n\"x,y\",\"x,y\"\n\"\",\"\"\n");
    }
}
