//! Records out of COPY data.
//!
//! States of the framing, kept between pieces: outside and inside quotes (CSV), after an escape.
//! A record ends at a newline outside quotes that no backslash (text) precedes. Lines may end in
//! `\n` or `\r\n`; the first line decides which.

use std::ops::Range;

use resurgam_engine::{ColumnType, DatumRef};

use super::options::{CopyFormat, CopyOptions};
use crate::datetime::Zone;
use crate::decode::{parse_datum, utf8};
use crate::wire::SqlError;

/// Longest record, in bytes.
const RECORD_BYTES_MAX: usize = 1 << 30;

/// Reads COPY data. Push bytes, then take records until there is none.
///
/// ```text
/// reader.push(&message);
/// while reader.next_record()? {
///     let datums = reader.datums(&types, &zone, &mut scratch)?;
/// }
/// …
/// reader.end();                         // CopyDone
/// while reader.next_record()? { … }
/// ```
#[derive(Debug)]
pub struct CopyReader {
    options: CopyOptions,
    table: String,
    columns: Vec<String>,
    force_not_null: Vec<bool>,
    force_null: Vec<bool>,
    buffer: Vec<u8>,
    /// Start of the record that is being looked for.
    start: usize,
    /// Up to where the framing has looked.
    scanned: usize,
    in_quotes: bool,
    escaped: bool,
    /// `\.` was read: the rest is ignored.
    finished: bool,
    ended: bool,
    crlf: Option<bool>,
    header_pending: bool,
    /// Line of the present record, from 1.
    line: u64,
    /// Lines that end within the present record.
    inner_lines: u64,
    record: Range<usize>,
    /// The fields' values, unescaped, one after the other.
    values: Vec<u8>,
    fields: Vec<Option<Range<usize>>>,
}

impl CopyReader {
    /// A reader of records for these columns of a table.
    pub fn new(options: CopyOptions, table: &str, columns: Vec<String>) -> Self {
        let has = |list: &[String]| columns.iter().map(|column| list.contains(column)).collect();
        Self {
            force_not_null: has(&options.force_not_null),
            force_null: has(&options.force_null),
            header_pending: options.header,
            options,
            table: table.to_owned(),
            columns,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            in_quotes: false,
            escaped: false,
            finished: false,
            ended: false,
            crlf: None,
            line: 0,
            inner_lines: 0,
            record: 0..0,
            values: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Adds data.
    pub fn push(&mut self, data: &[u8]) {
        if self.finished {
            return;
        }
        // what was taken makes room, once it is the larger part
        if self.start > 0 && (self.start == self.buffer.len() || self.start > 1 << 16) {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(data);
    }

    /// Says that no more data comes.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Line of the present record, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Goes to the next record; false if there is none yet (or at all, after [`Self::end`]).
    ///
    /// # Errors
    /// `22P04` for a malformed record, `54000` for one that is too long, `22021` for bad UTF-8.
    pub fn next_record(&mut self) -> Result<bool, SqlError> {
        while self.frame()? {
            let line = &self.buffer[self.record.clone()];
            if line == b"\\." {
                self.finished = true;
                self.start = self.buffer.len();
                self.scanned = self.start;
                return Ok(false);
            }
            if self.header_pending {
                self.header_pending = false;
                continue;
            }
            match self.options.format {
                CopyFormat::Csv => self.split_csv()?,
                CopyFormat::Text | CopyFormat::Binary => self.split_text()?,
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Finds the next record's bytes.
    fn frame(&mut self) -> Result<bool, SqlError> {
        if self.finished {
            return Ok(false);
        }
        let csv = self.options.format == CopyFormat::Csv;
        let (quote, escape) = (self.options.quote, self.options.escape);
        if self.scanned == self.start && !self.in_quotes {
            self.line += 1 + self.inner_lines;
            self.inner_lines = 0;
            // counted again when this call finds no end
        }
        let mut at = self.scanned;
        while at < self.buffer.len() {
            let byte = self.buffer[at];
            at += 1;
            if csv {
                if self.escaped {
                    // an escape that is not the quote: whatever follows it is not a quote
                    self.escaped = false;
                    if byte == quote || byte == escape {
                        continue;
                    }
                }
                if byte == quote {
                    self.in_quotes = !self.in_quotes;
                    continue;
                }
                if self.in_quotes {
                    if byte == escape {
                        self.escaped = true;
                    }
                    if byte == b'\n' {
                        self.inner_lines += 1;
                    }
                    continue;
                }
            } else {
                if self.escaped {
                    self.escaped = false;
                    if byte == b'\n' {
                        self.inner_lines += 1;
                    }
                    continue;
                }
                if byte == b'\\' {
                    self.escaped = true;
                    continue;
                }
            }
            if byte == b'\n' {
                let mut end = at - 1;
                let crlf = *self.crlf.get_or_insert(end > self.start && self.buffer[end - 1] == b'\r');
                if crlf && end > self.start && self.buffer[end - 1] == b'\r' {
                    end -= 1;
                }
                self.record = self.start..end;
                self.start = at;
                self.scanned = at;
                return Ok(true);
            }
        }
        self.scanned = at;
        if self.buffer.len() - self.start > RECORD_BYTES_MAX {
            return Err(self.fail(SqlError::new("54000", "COPY record is longer than 1 GB"), None));
        }
        if self.ended && self.start < self.buffer.len() {
            if self.in_quotes {
                self.record = self.start..self.buffer.len();
                self.start = self.buffer.len();
                return Err(self.fail(SqlError::new("22P04", "unterminated CSV quoted field"), None));
            }
            let mut end = self.buffer.len();
            if self.crlf == Some(true) && self.buffer[end - 1] == b'\r' {
                end -= 1;
            }
            self.record = self.start..end;
            self.start = self.buffer.len();
            self.scanned = self.start;
            self.escaped = false;
            return Ok(true);
        }
        if self.scanned == self.start && !self.in_quotes {
            self.line -= 1;
        }
        Ok(false)
    }

    fn split_text(&mut self) -> Result<(), SqlError> {
        self.values.clear();
        self.fields.clear();
        let delimiter = self.options.delimiter;
        let line = &self.buffer[self.record.clone()];
        let mut rest = line;
        loop {
            // raw field
            let mut end = 0;
            let mut plain = true;
            while end < rest.len() {
                match rest[end] {
                    b'\\' => {
                        plain = false;
                        end = (end + 2).min(rest.len());
                    }
                    byte if byte == delimiter => break,
                    _ => end += 1,
                }
            }
            let raw = &rest[..end];
            if raw == self.options.null.as_bytes() {
                self.fields.push(None);
            } else {
                let from = self.values.len();
                if plain {
                    self.values.extend_from_slice(raw);
                } else {
                    unescape(raw, &mut self.values);
                }
                self.fields.push(Some(from..self.values.len()));
            }
            if end >= rest.len() {
                break;
            }
            rest = &rest[end + 1..];
        }
        if self.columns.is_empty() && line.is_empty() {
            self.fields.clear();
        }
        self.check_count()
    }

    fn split_csv(&mut self) -> Result<(), SqlError> {
        self.values.clear();
        self.fields.clear();
        let (delimiter, quote, escape) = (self.options.delimiter, self.options.quote, self.options.escape);
        let line = &self.buffer[self.record.clone()];
        let mut at = 0;
        loop {
            let from = self.values.len();
            let mut quoted = false;
            let mut inside = false;
            while at < line.len() {
                let byte = line[at];
                if inside {
                    if byte == escape
                        && let Some(&next) = line.get(at + 1)
                        && (next == quote || next == escape)
                    {
                        self.values.push(next);
                        at += 2;
                        continue;
                    }
                    if byte == quote {
                        inside = false;
                    } else {
                        self.values.push(byte);
                    }
                } else if byte == delimiter {
                    break;
                } else if byte == quote {
                    inside = true;
                    quoted = true;
                } else {
                    self.values.push(byte);
                }
                at += 1;
            }
            let column = self.fields.len();
            let is_null_text = self.values[from..] == *self.options.null.as_bytes();
            let not_null = self.force_not_null.get(column).copied().unwrap_or(false);
            let null_in_quotes = self.force_null.get(column).copied().unwrap_or(false);
            if is_null_text && (!quoted || null_in_quotes) && !not_null {
                self.fields.push(None);
            } else {
                self.fields.push(Some(from..self.values.len()));
            }
            if at >= line.len() {
                break;
            }
            at += 1;
        }
        if self.columns.is_empty() && line.is_empty() {
            self.fields.clear();
        }
        self.check_count()
    }

    fn check_count(&self) -> Result<(), SqlError> {
        if self.fields.len() > self.columns.len() {
            return Err(self.fail(SqlError::new("22P04", "extra data after last expected column"), None));
        }
        if let Some(missing) = self.columns.get(self.fields.len()) {
            return Err(self.fail(SqlError::new("22P04", format!("missing data for column \"{missing}\"")), None));
        }
        Ok(())
    }

    /// The text of a field of the present record; `None` is null.
    ///
    /// # Errors
    /// `22021` for bad UTF-8.
    pub fn field(&self, at: usize) -> Result<Option<&str>, SqlError> {
        match self.fields.get(at) {
            Some(Some(range)) => {
                utf8(&self.values[range.clone()]).map(Some).map_err(|error| self.fail(error, Some(at)))
            }
            _ => Ok(None),
        }
    }

    /// The present record as datums of columns of these types. `scratch` has room for the
    /// bytes of a `bytea` a column.
    ///
    /// # Errors
    /// What the types' input functions give, with the place in the data as context.
    pub fn datums<'a>(
        &'a self,
        types: &[ColumnType],
        zone: &Zone,
        scratch: &'a mut Vec<Vec<u8>>,
    ) -> Result<Vec<DatumRef<'a>>, SqlError> {
        scratch.resize_with(types.len(), Vec::new);
        let mut out = Vec::with_capacity(types.len());
        for ((at, ty), scratch) in types.iter().enumerate().zip(scratch.iter_mut()) {
            out.push(match self.field(at)? {
                None => DatumRef::Null,
                Some(text) => parse_datum(ty, text, zone, scratch).map_err(|error| self.fail(error, Some(at)))?,
            });
        }
        Ok(out)
    }

    /// The CONTEXT line for an error about the present record, or one of its columns.
    pub fn context(&self, column: Option<usize>) -> String {
        let shown = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let mut out: String = text.chars().take(100).collect();
            if out.len() < text.len() {
                out.push_str("...");
            }
            out
        };
        match column.and_then(|at| Some((self.columns.get(at)?, self.fields.get(at)?))) {
            Some((name, Some(range))) => format!(
                "COPY {}, line {}, column {name}: \"{}\"",
                self.table,
                self.line,
                shown(&self.values[range.clone()])
            ),
            Some((name, None)) => {
                format!("COPY {}, line {}, column {name}: null input", self.table, self.line)
            }
            None => {
                let record = self.buffer.get(self.record.clone()).unwrap_or_default();
                format!("COPY {}, line {}: \"{}\"", self.table, self.line, shown(record))
            }
        }
    }

    #[cold]
    fn fail(&self, error: SqlError, column: Option<usize>) -> SqlError {
        error.with_context(self.context(column))
    }
}

/// Backslash sequences of the text format.
fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < raw.len() {
        let byte = raw[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&next) = raw.get(at) else {
            out.push(b'\\');
            return;
        };
        at += 1;
        match next {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let mut value = u32::from(next - b'0');
                for _ in 0..2 {
                    match raw.get(at) {
                        Some(&digit @ b'0'..=b'7') => {
                            value = value * 8 + u32::from(digit - b'0');
                            at += 1;
                        }
                        _ => break,
                    }
                }
                out.push(value as u8);
            }
            b'x' => {
                let mut value: Option<u32> = None;
                for _ in 0..2 {
                    match raw.get(at).and_then(|&digit| char::from(digit).to_digit(16)) {
                        Some(digit) => {
                            value = Some(value.unwrap_or(0) * 16 + digit);
                            at += 1;
                        }
                        None => break,
                    }
                }
                out.push(value.map_or(b'x', |value| value as u8));
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `data` in pieces of `size` bytes.
    fn read(
        options: &CopyOptions,
        columns: usize,
        data: &[u8],
        size: usize,
    ) -> Result<Vec<Vec<Option<String>>>, SqlError> {
        let names = (0..columns).map(|at| format!("c{at}")).collect();
        let mut reader = CopyReader::new(options.clone(), "t", names);
        let mut out = Vec::new();
        let mut take = |reader: &mut CopyReader| -> Result<(), SqlError> {
            while reader.next_record()? {
                let record = (0..columns)
                    .map(|at| reader.field(at).map(|field| field.map(str::to_owned)))
                    .collect::<Result<_, _>>()?;
                out.push(record);
            }
            Ok(())
        };
        for piece in data.chunks(size) {
            reader.push(piece);
            take(&mut reader)?;
        }
        reader.end();
        take(&mut reader)?;
        Ok(out)
    }

    fn same(options: &CopyOptions, columns: usize, data: &str, expected: &[&[Option<&str>]]) {
        for size in [1, 2, 3, 7, 1000] {
            let got = read(options, columns, data.as_bytes(), size).unwrap_or_else(|e| panic!("{data:?}: {e}"));
            let expected: Vec<Vec<Option<String>>> =
                expected.iter().map(|row| row.iter().map(|f| f.map(str::to_owned)).collect()).collect();
            assert_eq!(got, expected, "{data:?} by {size}");
        }
    }

    #[test]
    fn text() {
        let options = CopyOptions::new(CopyFormat::Text);
        same(&options, 2, "1\ta\n2\t\\N\n", &[&[Some("1"), Some("a")], &[Some("2"), None]]);
        same(&options, 2, "1\ta\\tb\\nc\\\\\n", &[&[Some("1"), Some("a\tb\nc\\")]]);
        same(&options, 1, "\\101\\x42\\q\n", &[&[Some("ABq")]]);
        same(&options, 1, "a\\\nb\n", &[&[Some("a\nb")]]);
        same(&options, 2, "1\ta\r\n2\tb\r\n", &[&[Some("1"), Some("a")], &[Some("2"), Some("b")]]);
        same(&options, 1, "a\n\\.\nignored\tx\n", &[&[Some("a")]]);
        same(&options, 1, "a\nb", &[&[Some("a")], &[Some("b")]]);
        same(&options, 1, "\n", &[&[Some("")]]);
        same(&options, 1, "ä€\n", &[&[Some("ä€")]]);
    }

    #[test]
    fn csv() {
        let options = CopyOptions::new(CopyFormat::Csv);
        same(&options, 2, "1,a\n2,\n", &[&[Some("1"), Some("a")], &[Some("2"), None]]);
        same(&options, 2, "\"a,b\",\"say \"\"hi\"\"\"\n", &[&[Some("a,b"), Some("say \"hi\"")]]);
        same(&options, 2, "\"line\nbreak\",x\n", &[&[Some("line\nbreak"), Some("x")]]);
        same(&options, 2, "\"\",x\n", &[&[Some(""), Some("x")]]);
        same(&options, 1, "a\n\\.\nb\n", &[&[Some("a")]]);
        let mut header = options.clone();
        header.header = true;
        same(&header, 1, "name\nv\n", &[&[Some("v")]]);
        let mut escape = options.clone();
        escape.escape = b'\\';
        same(&escape, 2, "\"a\\\"b\\\\\",c\n", &[&[Some("a\"b\\"), Some("c")]]);
        let mut forced = options;
        forced.force_not_null = vec!["c0".into()];
        forced.force_null = vec!["c1".into()];
        same(&forced, 2, ",\"\"\n", &[&[Some(""), None]]);
    }

    #[test]
    fn errors_say_where() {
        let options = CopyOptions::new(CopyFormat::Text);
        let error = read(&options, 2, b"1\ta\n2\n", 3).unwrap_err();
        assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("22P04", "missing data for column \"c1\""));
        assert_eq!(error.context.as_deref(), Some("COPY t, line 2: \"2\""));
        let error = read(&options, 1, b"1\ta\n", 100).unwrap_err();
        assert_eq!(error.message, "extra data after last expected column");
        let csv = CopyOptions::new(CopyFormat::Csv);
        assert_eq!(read(&csv, 1, b"\"abc\n", 2).unwrap_err().message, "unterminated CSV quoted field");
        assert_eq!(read(&options, 1, b"\xff\n", 2).unwrap_err().sqlstate, "22021");
        let mut reader = CopyReader::new(csv, "t", vec!["a".into()]);
        reader.push(b"1\n\"x\ny\"\nabc\n");
        assert!(reader.next_record().expect("1"));
        assert!(reader.next_record().expect("2"));
        assert_eq!(reader.line(), 2);
        assert!(reader.next_record().expect("3"));
        assert_eq!(reader.line(), 4);
        let error = reader.datums(&[ColumnType::Int4], &Zone::Utc, &mut Vec::new()).unwrap_err();
        assert_eq!(error.context.as_deref(), Some("COPY t, line 4, column a: \"abc\""));
    }

    #[test]
    fn memory_is_bounded() {
        let mut reader = CopyReader::new(CopyOptions::new(CopyFormat::Text), "t", vec!["a".into()]);
        let piece = "0123456789\n".repeat(1000);
        for _ in 0..1000 {
            reader.push(piece.as_bytes());
            while reader.next_record().expect("record") {}
        }
        assert!(reader.buffer.capacity() < 1 << 18, "{}", reader.buffer.capacity());
        assert_eq!(reader.line(), 1_000_000);
    }
}
