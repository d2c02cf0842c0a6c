//! Records out of COPY data.
//!
//! States of the framing, kept between pieces: outside and inside quotes, after an escape (CSV).
//! A record ends at an end of a line outside quotes that no backslash (text) precedes. Lines end in
//! `\n`, `\r` or `\r\n`; the first end of a line decides which, and others are refused. (PostgreSQL's
//! `CopyReadLineText`.) What hangs on the bytes behind waits until they are there. Bytes that mean nothing in any state are passed over
//! many at a time ([`first_of`]).
//!
//! A field is where it is in the data; only one that has escapes or quotes in it is made anew.

use std::ops::Range;

use resurgam_engine::{ColumnType, DatumRef};

use super::options::{CopyFormat, CopyHeader, CopyOptions};
use crate::datetime::Zone;
use crate::decode::{bad_utf8, parse_datum, utf8, utf8_len};
use crate::wire::SqlError;

/// Longest record, in bytes.
const RECORD_BYTES_MAX: usize = 1 << 30;

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    Newline,
    Return,
    Both,
}

/// What a byte is.
enum Byte {
    /// It and so many behind it are data.
    Data(usize),
    /// It and so many behind it end the line.
    End(usize),
    /// It begins the mark that ends the data.
    Last,
    /// Hangs on what has not come yet.
    Unknown,
}

/// Where the value of a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Null,
    /// In the record, as it came, from its begin on.
    Plain(Range<usize>),
    /// Among the values that were made.
    Made(Range<usize>),
}

/// Reads COPY data. Push bytes, then take records until there is none.
///
/// ```text
/// reader.push(&message);
/// while reader.next_record()? {
///     reader.put_datums(&types, &zone, &mut scratch, |at, datum| row[at] = datum)?;
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
    /// How lines end, once one has.
    line_end: Option<LineEnd>,
    header_pending: bool,
    /// The record that is being looked for has a number.
    begun: bool,
    /// Line of the present record, from 1.
    line: u64,
    /// Lines that end within the present record.
    inner_lines: u64,
    record: Range<usize>,
    /// The values of fields that are not in the data as they are, one after the other.
    values: Vec<u8>,
    fields: Vec<Field>,
}

impl CopyReader {
    /// A reader of records for these columns of a table.
    pub fn new(options: CopyOptions, table: &str, columns: Vec<String>) -> Self {
        let has = |list: &[String]| columns.iter().map(|column| list.contains(column)).collect();
        Self {
            force_not_null: has(&options.force_not_null),
            force_null: has(&options.force_null),
            header_pending: options.header != CopyHeader::None,
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
            line_end: None,
            begun: false,
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

    /// Bytes of the present record.
    pub fn record_len(&self) -> usize {
        self.record.len()
    }

    /// Goes to the next record; false if there is none yet (or at all, after [`Self::end`]).
    ///
    /// # Errors
    /// `22P04` for a malformed record, `54000` for one that is too long, `22021` for bad UTF-8.
    pub fn next_record(&mut self) -> Result<bool, SqlError> {
        while self.frame()? {
            let is_header = std::mem::take(&mut self.header_pending);
            if is_header && self.options.header != CopyHeader::Match {
                continue;
            }
            self.split()?;
            if is_header {
                self.check_header()?;
                continue;
            }
            if self.fields.len() > self.columns.len() {
                return Err(self.fail(SqlError::new("22P04", "extra data after last expected column"), None));
            }
            return Ok(true);
        }
        if self.ended && self.header_pending && self.options.header == CopyHeader::Match {
            // No line at all is one without names.
            self.header_pending = false;
            (self.record, self.line) = (0..0, 1);
            self.split()?;
            self.check_header()?;
        }
        Ok(false)
    }

    /// Finds the next record's bytes.
    fn frame(&mut self) -> Result<bool, SqlError> {
        if self.finished || self.start >= self.buffer.len() {
            return Ok(false);
        }
        if !self.begun {
            self.begun = true;
            self.line += 1 + self.inner_lines;
            self.inner_lines = 0;
        }
        let mut at = self.scanned;
        let special = match self.options.format {
            CopyFormat::Csv => [b'\n', b'\r', b'\\', self.options.quote, self.options.escape],
            CopyFormat::Text | CopyFormat::Binary => [b'\n', b'\r', b'\\', b'\n', b'\n'],
        };
        loop {
            let data = first_of(&self.buffer[at..], special);
            if data > 0 {
                self.escaped = false;
                at += data;
            }
            if at >= self.buffer.len() {
                break;
            }
            let byte = self.byte(at);
            match byte {
                Ok(Byte::Data(more)) => {
                    at = (at + 1 + more).min(self.buffer.len());
                    continue;
                }
                Ok(Byte::Unknown) => break,
                _ => {}
            }
            // Bytes that are no characters are told before what is behind them.
            if !self.is_text(at)? {
                self.scanned = at;
                return Ok(false);
            }
            if let Byte::End(more) = byte? {
                self.take(at, at + 1 + more);
                return Ok(true);
            }
            self.finished = true;
            self.take(at, self.buffer.len());
            return Ok(!self.record.is_empty());
        }
        self.scanned = at;
        if self.buffer.len() - self.start > RECORD_BYTES_MAX {
            return Err(self.fail(SqlError::new("54000", "COPY record is longer than 1 GB"), None));
        }
        if !self.ended {
            return Ok(false);
        }
        self.is_text(self.buffer.len())?;
        self.take(self.buffer.len(), self.buffer.len());
        if self.in_quotes {
            return Err(self.fail(SqlError::new("22P04", "unterminated CSV quoted field"), None));
        }
        Ok(true)
    }

    /// Whether the record that is being looked for is UTF-8 without zeros up to `end`. False: what is not may become a character with bytes
    /// that have not come.
    ///
    /// # Errors
    /// `22021`
    #[inline]
    fn is_text(&self, end: usize) -> Result<bool, SqlError> {
        let bytes = &self.buffer[self.start..end];
        if bytes.is_ascii() && !bytes.contains(&0) { Ok(true) } else { self.is_wide_text(bytes) }
    }

    fn is_wide_text(&self, bytes: &[u8]) -> Result<bool, SqlError> {
        let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
        let valid = bytes[..valid].iter().position(|byte| *byte == 0).unwrap_or(valid);
        let Some(first) = bytes.get(valid) else { return Ok(true) };
        let rest = &self.buffer[self.start + valid..];
        if rest.len() < utf8_len(*first) && !self.ended {
            return Ok(false);
        }
        // The line that it is on, of a record of several.
        let counted = if self.line_end == Some(LineEnd::Newline) { b'\n' } else { b'\r' };
        let lines = match self.options.format {
            CopyFormat::Csv => bytes[..valid].iter().filter(|byte| **byte == counted).count() as u64,
            CopyFormat::Text | CopyFormat::Binary => 0,
        };
        let context = format!("COPY {}, line {}", self.table, self.line + lines);
        Err(bad_utf8(rest).with_context(context))
    }

    /// The record ends at `end`, and the next one may begin at `next`.
    fn take(&mut self, end: usize, next: usize) {
        self.record = self.start..end;
        self.start = next;
        self.scanned = next;
        self.begun = false;
        self.escaped = false;
    }

    /// The byte at a place: `None` behind what there is, if that is all.
    fn peek(&self, at: usize) -> Option<Option<u8>> {
        match self.buffer.get(at) {
            Some(byte) => Some(Some(*byte)),
            None if self.ended => Some(None),
            None => None,
        }
    }

    /// What the byte at a place is; a state that it changes is changed unless it is not known.
    fn byte(&mut self, at: usize) -> Result<Byte, SqlError> {
        let csv = self.options.format == CopyFormat::Csv;
        let byte = self.buffer[at];
        let mut next = None;
        if matches!(byte, b'\\' | b'\r') {
            match self.peek(at + 1) {
                Some(known) => next = known,
                None => return Ok(Byte::Unknown),
            }
        }
        if byte == b'\\' && next == Some(b'.') && (!csv || at == self.start) {
            match self.is_mark(at + 2, csv)? {
                None => return Ok(Byte::Unknown),
                Some(true) => return Ok(Byte::Last),
                Some(false) => {}
            }
        }
        if csv {
            let (quote, escape) = (self.options.quote, self.options.escape);
            let own_escape = (escape != quote).then_some(escape);
            if self.in_quotes && Some(byte) == own_escape {
                self.escaped = !self.escaped;
            }
            if byte == quote && !self.escaped {
                self.in_quotes = !self.in_quotes;
            }
            if Some(byte) != own_escape {
                self.escaped = false;
            }
            if self.in_quotes {
                let counted = if self.line_end == Some(LineEnd::Newline) { b'\n' } else { b'\r' };
                self.inner_lines += u64::from(byte == counted);
                return Ok(Byte::Data(0));
            }
        }
        match (byte, self.line_end) {
            (b'\r', None | Some(LineEnd::Both)) if next == Some(b'\n') => {
                self.line_end = Some(LineEnd::Both);
                Ok(Byte::End(1))
            }
            (b'\r', None | Some(LineEnd::Return)) => {
                self.line_end = Some(LineEnd::Return);
                Ok(Byte::End(0))
            }
            (b'\r', _) => Err(self.stray("carriage return", "\\r", csv)),
            (b'\n', None | Some(LineEnd::Newline)) => {
                self.line_end = Some(LineEnd::Newline);
                Ok(Byte::End(0))
            }
            (b'\n', _) => Err(self.stray("newline", "\\n", csv)),
            // Whatever a backslash precedes is data.
            (b'\\', _) if !csv => Ok(Byte::Data(1)),
            _ => Ok(Byte::Data(0)),
        }
    }

    /// Whether `\.`, which is before `at`, ends the data; `None`: that is not known yet.
    fn is_mark(&self, mut at: usize, csv: bool) -> Result<Option<bool>, SqlError> {
        let corrupt = |why: &str| match csv {
            true => Ok(Some(false)),
            false => Err(self.misplaced(why)),
        };
        let other_style = "end-of-copy marker does not match previous newline style";
        if self.line_end == Some(LineEnd::Both) {
            match self.peek(at) {
                None => return Ok(None),
                Some(Some(b'\r')) => at += 1,
                Some(Some(b'\n')) => return corrupt(other_style),
                Some(_) => return corrupt("end-of-copy marker corrupt"),
            }
        }
        let Some(last) = self.peek(at) else { return Ok(None) };
        match (last, self.line_end) {
            (Some(b'\r'), None | Some(LineEnd::Return)) => Ok(Some(true)),
            (Some(b'\n'), None | Some(LineEnd::Newline | LineEnd::Both)) => Ok(Some(true)),
            (Some(b'\r' | b'\n'), _) => Err(self.misplaced(other_style)),
            _ => corrupt("end-of-copy marker corrupt"),
        }
    }

    /// An end of a line that is none, as the first one shows.
    #[cold]
    fn stray(&self, what: &str, escape: &str, csv: bool) -> SqlError {
        match csv {
            false => self
                .misplaced(&format!("literal {what} found in data"))
                .with_hint(format!("Use \"{escape}\" to represent {what}.")),
            true => self
                .misplaced(&format!("unquoted {what} found in data"))
                .with_hint(format!("Use quoted CSV field to represent {what}.")),
        }
    }

    /// An error of a line whose end has not been found.
    #[cold]
    fn misplaced(&self, message: &str) -> SqlError {
        SqlError::new("22P04", message).with_context(format!("COPY {}, line {}", self.table, self.line))
    }

    fn split(&mut self) -> Result<(), SqlError> {
        self.values.clear();
        self.fields.clear();
        match self.options.format {
            CopyFormat::Csv => self.split_csv(),
            CopyFormat::Text | CopyFormat::Binary => self.split_text()?,
        }
        if self.columns.is_empty() && self.record.is_empty() {
            self.fields.clear();
        }
        Ok(())
    }

    /// # Errors
    /// `22021` for what escapes have made.
    fn split_text(&mut self) -> Result<(), SqlError> {
        let (delimiter, null) = (self.options.delimiter, self.options.null.as_bytes());
        let line = &self.buffer[self.record.clone()];
        let mut from = 0;
        loop {
            let rest = &line[from..];
            let mut end = rest.iter().position(|byte| *byte == delimiter || *byte == b'\\').unwrap_or(rest.len());
            let plain = rest.get(end) != Some(&b'\\');
            while let Some(byte) = rest.get(end).filter(|byte| **byte != delimiter) {
                end = (end + if *byte == b'\\' { 2 } else { 1 }).min(rest.len());
            }
            let raw = &rest[..end];
            self.fields.push(if raw == null {
                Field::Null
            } else if plain {
                Field::Plain(from..from + end)
            } else {
                let made = self.values.len();
                unescape(raw, &mut self.values);
                if let Err(error) = utf8(&self.values[made..]) {
                    return Err(self.fail(error, None));
                }
                Field::Made(made..self.values.len())
            });
            if end >= rest.len() {
                break;
            }
            from += end + 1;
        }
        Ok(())
    }

    fn split_csv(&mut self) {
        let (delimiter, quote, escape) = (self.options.delimiter, self.options.quote, self.options.escape);
        let line = &self.buffer[self.record.clone()];
        let mut at = 0;
        loop {
            let (begin, made) = (at, self.values.len());
            let (mut quoted, mut inside) = (false, false);
            let plain = plain_csv(&line[begin..], delimiter, quote, escape);
            if let Some((_, is_quoted, bytes)) = &plain {
                quoted = *is_quoted;
                at += bytes;
            }
            while plain.is_none() && at < line.len() {
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
            let (value, bytes) = match plain {
                Some((range, ..)) => {
                    let range = begin + range.start..begin + range.end;
                    (Field::Plain(range.clone()), &line[range])
                }
                None => (Field::Made(made..self.values.len()), &self.values[made..]),
            };
            let is_null_text = bytes == self.options.null.as_bytes();
            let not_null = self.force_not_null.get(column).copied().unwrap_or(false);
            let null_in_quotes = self.force_null.get(column).copied().unwrap_or(false);
            let is_null = is_null_text && (!quoted || null_in_quotes) && !not_null;
            self.fields.push(if is_null { Field::Null } else { value });
            if at >= line.len() {
                break;
            }
            at += 1;
        }
    }

    /// Whether the header line, which has been split, names the columns.
    ///
    /// # Errors
    /// `22P04`
    fn check_header(&self) -> Result<(), SqlError> {
        let bad = |message: String| Err(self.fail(SqlError::new("22P04", message), None));
        let (got, expected) = (self.fields.len(), self.columns.len());
        if got != expected {
            return bad(format!("wrong number of fields in header line: got {got}, expected {expected}"));
        }
        for (at, (field, column)) in self.fields.iter().zip(&self.columns).enumerate() {
            let found = match self.bytes_of(field) {
                Some(bytes) => bytes,
                None => {
                    let null = &self.options.null;
                    let message = format!("got null value (\"{null}\"), expected \"{column}\"");
                    return bad(format!("column name mismatch in header line field {}: {message}", at + 1));
                }
            };
            if found != column.as_bytes() {
                let found = String::from_utf8_lossy(found);
                let message = format!("got \"{found}\", expected \"{column}\"");
                return bad(format!("column name mismatch in header line field {}: {message}", at + 1));
            }
        }
        Ok(())
    }

    /// The bytes of a field; `None` is null.
    fn bytes_of(&self, field: &Field) -> Option<&[u8]> {
        match field {
            Field::Null => None,
            Field::Plain(range) => self.buffer.get(self.record.clone())?.get(range.clone()),
            Field::Made(range) => self.values.get(range.clone()),
        }
    }

    /// The text of a field of the present record; `None` is null.
    ///
    /// # Errors
    /// `22P04` where the record has fewer fields: what is wrong with those before it is told first, as in PostgreSQL.
    pub fn field(&self, at: usize) -> Result<Option<&str>, SqlError> {
        let Some(field) = self.fields.get(at) else {
            let name = self.columns.get(at).map_or("?", String::as_str);
            return Err(self.fail(SqlError::new("22P04", format!("missing data for column \"{name}\"")), None));
        };
        match self.bytes_of(field) {
            Some(bytes) => utf8(bytes).map(Some).map_err(|error| self.fail(error, Some(at))),
            None => Ok(None),
        }
    }

    /// Puts each field of the present record as a datum of a column of its type. `scratch` has room for the
    /// bytes of a `bytea` a column.
    ///
    /// # Errors
    /// What the types' input functions give, with the place in the data as context.
    pub fn put_datums<'a>(
        &'a self,
        types: &[ColumnType],
        zone: &Zone,
        scratch: &'a mut Vec<Vec<u8>>,
        mut put: impl FnMut(usize, DatumRef<'a>),
    ) -> Result<(), SqlError> {
        scratch.resize_with(types.len(), Vec::new);
        // Mostly all of it is text: then so is each field, whose ends are whole characters.
        let line = utf8(self.buffer.get(self.record.clone()).unwrap_or_default()).unwrap_or_default();
        for ((at, ty), scratch) in types.iter().enumerate().zip(scratch.iter_mut()) {
            let text = match self.fields.get(at) {
                Some(Field::Plain(range)) => match line.get(range.clone()) {
                    Some(text) => Some(text),
                    None => self.field(at)?,
                },
                _ => self.field(at)?,
            };
            let datum = match text {
                None => DatumRef::Null,
                Some(text) => parse_datum(ty, text, zone, scratch).map_err(|error| self.fail(error, Some(at)))?,
            };
            put(at, datum);
        }
        Ok(())
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
        match column.and_then(|at| Some((self.columns.get(at)?, self.bytes_of(self.fields.get(at)?)))) {
            Some((name, Some(bytes))) => {
                format!("COPY {}, line {}, column {name}: \"{}\"", self.table, self.line, shown(bytes))
            }
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

/// How many bytes come before the first that is one of `wanted`.
#[inline]
fn first_of<const N: usize>(bytes: &[u8], wanted: [u8; N]) -> usize {
    // So many are compared at once.
    const STEP: usize = 32;
    let is_wanted = |byte: u8| wanted.iter().fold(false, |found, wanted| found | (byte == *wanted));
    let (steps, _) = bytes.as_chunks::<STEP>();
    let passed = steps.iter().take_while(|step| !step.iter().fold(false, |found, byte| found | is_wanted(*byte)));
    let from = passed.count() * STEP;
    let rest = &bytes[from..];
    from + rest.iter().position(|byte| is_wanted(*byte)).unwrap_or(rest.len())
}

/// The first field of a line of CSV, if it has neither quotes nor escapes in it: where its value is, whether quotes are around it, and how many
/// bytes it takes with them.
#[inline]
fn plain_csv(line: &[u8], delimiter: u8, quote: u8, escape: u8) -> Option<(Range<usize>, bool, usize)> {
    if line.first() != Some(&quote) {
        let end = line.iter().position(|byte| *byte == delimiter || *byte == quote).unwrap_or(line.len());
        return line.get(end).is_none_or(|byte| *byte == delimiter).then_some((0..end, false, end));
    }
    let end = 1 + line[1..].iter().position(|byte| *byte == quote || *byte == escape)?;
    let is_last = line[end] == quote && line.get(end + 1).is_none_or(|byte| *byte == delimiter);
    is_last.then_some((1..end, true, end + 1))
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
        same(&options, 1, "a\nb\\.\nignored\tx\n", &[&[Some("a")], &[Some("b")]]);
        same(&options, 1, "a\nb", &[&[Some("a")], &[Some("b")]]);
        same(&options, 1, "\n", &[&[Some("")]]);
        same(&options, 1, "ä€\n", &[&[Some("ä€")]]);
    }

    #[test]
    fn a_header_that_has_to_be_right() {
        let mut header = CopyOptions::new(CopyFormat::Text);
        header.header = CopyHeader::Match;
        same(&header, 2, "c0\tc1\nv\tw\n", &[&[Some("v"), Some("w")]]);
        for (data, message) in [
            ("c0\tx\nv\tw\n", "column name mismatch in header line field 2: got \"x\", expected \"c1\""),
            ("\\N\tc1\n", "column name mismatch in header line field 1: got null value (\"\\N\"), expected \"c0\""),
            ("c0\n", "wrong number of fields in header line: got 1, expected 2"),
            ("", "wrong number of fields in header line: got 1, expected 2"),
        ] {
            let mut reader = CopyReader::new(header.clone(), "t", vec!["c0".into(), "c1".into()]);
            reader.push(data.as_bytes());
            reader.end();
            let error = reader.next_record().expect_err(data);
            assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("22P04", message), "{data:?}");
            assert_eq!(reader.line(), 1);
        }
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
        header.header = CopyHeader::Line;
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
    fn the_first_end_of_a_line_decides() {
        let text = CopyOptions::new(CopyFormat::Text);
        let csv = CopyOptions::new(CopyFormat::Csv);
        for options in [&text, &csv] {
            same(options, 1, "a\rb\r", &[&[Some("a")], &[Some("b")]]);
            same(options, 1, "a\rb", &[&[Some("a")], &[Some("b")]]);
            same(options, 1, "a\r", &[&[Some("a")]]);
            same(options, 1, "\r\r", &[&[options_empty(options)], &[options_empty(options)]]);
            same(options, 1, "a\r\nb\r\n\\.\r\nc", &[&[Some("a")], &[Some("b")]]);
            same(options, 1, "a\rb\r\\.\rc", &[&[Some("a")], &[Some("b")]]);
            same(options, 1, "\\.\nc", &[]);
        }
        let mut header = csv.clone();
        header.header = CopyHeader::Line;
        same(&header, 1, "b\rx\ry\r", &[&[Some("x")], &[Some("y")]]);
        same(&csv, 1, "\"a\rb\nc\"\nd\n", &[&[Some("a\rb\nc")], &[Some("d")]]);
        same(&csv, 1, "a\n\\.", &[&[Some("a")], &[Some("\\.")]]);
        same(&csv, 1, "a\n\\.b\n", &[&[Some("a")], &[Some("\\.b")]]);
        same(&csv, 1, "a\nb\\.\n", &[&[Some("a")], &[Some("b\\.")]]);
        same(&csv, 1, "a\r\n\\.", &[&[Some("a")], &[Some("\\.")]]);
        same(&text, 1, "a\\\rb\nc\n", &[&[Some("a\rb")], &[Some("c")]]);
        same(&text, 1, "a\\\\.\nc\n", &[&[Some("a\\.")], &[Some("c")]]);
        let (corrupt, style) =
            ("end-of-copy marker corrupt", "end-of-copy marker does not match previous newline style");
        for (options, data, message) in [
            (&text, "a\nb\r\n", "literal carriage return found in data"),
            (&text, "a\r\nb\rc\r\n", "literal carriage return found in data"),
            (&text, "a\r\nb\n", "literal newline found in data"),
            (&text, "a\rb\n", "literal newline found in data"),
            (&text, "a\r\nb\r", "literal carriage return found in data"),
            (&csv, "a\nb\r\n", "unquoted carriage return found in data"),
            (&csv, "a\r\nb\n", "unquoted newline found in data"),
            (&csv, "a\rb\n", "unquoted newline found in data"),
            (&text, "a\\.b\n", corrupt),
            (&text, "a\n\\.", corrupt),
            (&text, "a\n\\.b\n", corrupt),
            (&text, "a\r\n\\.", corrupt),
            (&text, "a\r\n\\.\n", style),
            (&text, "a\n\\.\r\n", style),
            (&csv, "a\n\\.\r\n", style),
            (&csv, "a\r\n\\.\r\r", style),
            (&text, "a\r\\.\n", style),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                let error = read(options, 1, data.as_bytes(), size).expect_err(data);
                assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("22P04", message), "{data:?} by {size}");
            }
        }
        let error = read(&text, 1, b"a\nb\rc\n", 3).unwrap_err();
        assert_eq!(error.context.as_deref(), Some("COPY t, line 2"));
        assert_eq!(error.hint.as_deref(), Some("Use \"\\r\" to represent carriage return."));
    }

    /// What an empty line is.
    fn options_empty(options: &CopyOptions) -> Option<&'static str> {
        (options.format == CopyFormat::Text).then_some("")
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
        for (data, bytes, line) in [
            (&b"a\n\xff\n"[..], "0xff", "line 2"),
            (b"\xc3\n", "0xc3 0x0a", "line 1"),
            (b"\xe2\x82\nab", "0xe2 0x82 0x0a", "line 1"),
            (b"\xe2\x82", "0xe2 0x82", "line 1"),
            (b"a\0b\n", "0x00", "line 1"),
            // Before what is wrong behind it.
            (b"\xff\\.\\..\n", "0xff", "line 1"),
            (b"a\nb\xff\r\n", "0xff", "line 2"),
            (b"\\xff\n", "0xff", "line 1: \"\\xff\""),
            (b"\\0\n", "0x00", "line 1: \"\\0\""),
        ] {
            for size in [1, 2, 100] {
                let error = read(&options, 1, data, size).unwrap_err();
                let message = format!("invalid byte sequence for encoding \"UTF8\": {bytes}");
                assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("22021", message.as_str()));
                assert_eq!(error.context, Some(format!("COPY t, {line}")));
            }
        }
        let error = read(&csv, 1, b"a\n\"x\ny\xff\"\n", 3).unwrap_err();
        assert_eq!((error.sqlstate.as_str(), error.context.as_deref()), ("22021", Some("COPY t, line 3")));
        let mut reader = CopyReader::new(csv, "t", vec!["a".into()]);
        reader.push(b"1\n\"x\ny\"\nabc\n");
        assert!(reader.next_record().expect("1"));
        assert!(reader.next_record().expect("2"));
        assert_eq!(reader.line(), 2);
        assert!(reader.next_record().expect("3"));
        assert_eq!(reader.line(), 4);
        let error = reader.put_datums(&[ColumnType::Int4], &Zone::Utc, &mut Vec::new(), |_, _| {}).unwrap_err();
        assert_eq!(error.context.as_deref(), Some("COPY t, line 4, column a: \"abc\""));
    }

    /// A line cut into its fields a byte at a time, each made anew.
    fn split_plainly(options: &CopyOptions, line: &[u8], forced: (&[bool], &[bool])) -> Vec<Option<Vec<u8>>> {
        let (delimiter, quote, escape, null) =
            (options.delimiter, options.quote, options.escape, options.null.as_bytes());
        let mut fields = Vec::new();
        let mut at = 0;
        loop {
            let (mut value, mut quoted, mut inside) = (Vec::new(), false, false);
            let from = at;
            while at < line.len() && (inside || line[at] != delimiter) {
                let (byte, next) = (line[at], line.get(at + 1).copied());
                at += 1;
                if options.format == CopyFormat::Text {
                    at += usize::from(byte == b'\\' && next.is_some());
                } else if inside && byte == escape && next.is_some_and(|next| next == quote || next == escape) {
                    value.extend(next);
                    at += 1;
                } else if byte == quote {
                    (inside, quoted) = (!inside, true);
                } else {
                    value.push(byte);
                }
            }
            let is_null = if options.format == CopyFormat::Text {
                unescape(&line[from..at], &mut value);
                line[from..at] == *null
            } else {
                let column = fields.len();
                let of = |list: &[bool]| list.get(column).copied().unwrap_or(false);
                value == null && (!quoted || of(forced.1)) && !of(forced.0)
            };
            fields.push((!is_null).then_some(value));
            if at >= line.len() {
                return fields;
            }
            at += 1;
        }
    }

    /// Records and fields of data of all kinds, well-formed and not, are those of a reader that looks at one byte after the other; and so
    /// are errors.
    #[test]
    fn records_are_those_of_a_plain_reader() {
        let mut seed = 77u64;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        let words: [&[u8]; 24] = [
            b"a",
            b"plain",
            b"0123456789012345678901234567890123456789",
            b"\t",
            b"\t",
            b",",
            b",",
            b"\"",
            b"\"",
            b"\"\"",
            b"\\",
            b"\\N",
            b"\\.",
            b"\\x41",
            b"\\t",
            b"\n",
            b"\n",
            b"\r",
            b"\r\n",
            b"'",
            b"|",
            "\u{e4}".as_bytes(),
            b"\xc3",
            b"\0",
        ];
        let said = |error: SqlError| {
            let fields = error.into_fields();
            (fields.sqlstate, fields.message, fields.context, fields.hint)
        };
        let (mut records, mut errors) = (0, 0);
        for round in 0..30_000 {
            let mut options = CopyOptions::new([CopyFormat::Text, CopyFormat::Csv][below(2)]);
            options.delimiter = [b'\t', b',', b'|', b'a'][below(4)];
            if options.format == CopyFormat::Csv {
                options.quote = [b'"', b'"', b'\''][below(3)];
                options.escape = [options.quote, options.quote, b'\\', b'|'][below(4)];
                if options.escape == options.delimiter {
                    options.escape = options.quote;
                }
                options.null = ["", "plain", "\\N"][below(3)].to_owned();
            } else {
                options.null = ["\\N", "", "plain"][below(3)].to_owned();
            }
            options.force_null = (0..4).filter(|_| below(5) == 0).map(|at| format!("c{at}")).collect();
            options.force_not_null = (0..4).filter(|_| below(5) == 0).map(|at| format!("c{at}")).collect();
            let mut data = Vec::new();
            for _ in 0..below(30) {
                // Ends of lines are mostly of one kind.
                let word = words[below(words.len())];
                data.extend_from_slice(if word.contains(&b'\r') && below(8) > 0 { b"\n" } else { word });
            }
            let columns = 1 + below(3);
            let names: Vec<String> = (0..columns).map(|at| format!("c{at}")).collect();
            let read = |size: usize| {
                let mut reader = CopyReader::new(options.clone(), "t", names.clone());
                let mut out = Vec::new();
                let (types, mut scratch) = (vec![ColumnType::Text; columns], Vec::new());
                let mut take = |reader: &mut CopyReader| -> Result<(), SqlError> {
                    while reader.next_record()? {
                        let line = &reader.buffer[reader.record.clone()];
                        let forced = (&reader.force_not_null[..], &reader.force_null[..]);
                        let wanted = split_plainly(&reader.options, line, forced);
                        let found: Vec<_> =
                            reader.fields.iter().map(|field| reader.bytes_of(field).map(<[u8]>::to_vec)).collect();
                        assert_eq!(found, wanted, "{:?} of {:?}", String::from_utf8_lossy(line), reader.options);
                        let mut datums = Vec::new();
                        let put =
                            reader.put_datums(&types, &Zone::Utc, &mut scratch, |at, datum| datums.push((at, datum)));
                        let wanted: Result<Vec<_>, _> = (0..columns).map(|at| reader.field(at)).collect();
                        match (put, wanted) {
                            (Ok(()), Ok(wanted)) => {
                                let wanted = wanted.into_iter().map(|text| text.map_or(DatumRef::Null, DatumRef::Text));
                                assert_eq!(datums, wanted.enumerate().collect::<Vec<_>>());
                            }
                            (put, wanted) => {
                                let (put, wanted) = (put.map_err(said).err(), wanted.map_err(said).err());
                                assert!(put.is_some() && put == wanted, "round {round}: {put:?} for {wanted:?}");
                            }
                        }
                        out.push((reader.line(), reader.record_len(), found));
                    }
                    Ok(())
                };
                for piece in data.chunks(size) {
                    reader.push(piece);
                    if let Err(error) = take(&mut reader) {
                        return (out, Some(said(error)));
                    }
                }
                reader.end();
                let error = take(&mut reader).map_err(said).err();
                (out, error)
            };
            // By single bytes nothing is passed over.
            let wanted = read(1);
            for size in [2, 7, 1000] {
                assert_eq!(read(size), wanted, "{:?} by {size}, {options:?}", String::from_utf8_lossy(&data));
            }
            records += wanted.0.len();
            errors += usize::from(wanted.1.is_some());
        }
        assert!(records > 20_000 && errors > 5_000, "{records} records, {errors} errors");
    }

    #[test]
    fn bytes_that_are_looked_for() {
        for len in 0..100 {
            let mut bytes = vec![b'.'; len];
            assert_eq!(first_of(&bytes, [b'a', b'b']), len);
            for at in (0..len).rev() {
                bytes[at] = if at % 2 == 0 { b'a' } else { b'b' };
                assert_eq!(first_of(&bytes, [b'a', b'b']), at);
            }
        }
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
