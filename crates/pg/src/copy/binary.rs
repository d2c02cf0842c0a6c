//! Records out of COPY data in the binary format (PostgreSQL's documentation of COPY, "Binary Format").
//!
//! A signature, flags, a header that may be longer; then each record as a number of fields, and each field as its length
//! (-1 is null) and its bytes, which are those of the type's binary form; at the end -1 instead of the number of fields.
//! The place where a record that has not come whole ends so far is kept between pieces.

use std::ops::Range;

use resurgam_engine::{ColumnType, Datum, DatumRef};

use crate::datetime::Zone;
use crate::decode::decode_datum;
use crate::types::column_oid;
use crate::wire::{Format, SqlError};

/// What the data begins with.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Flags that must be understood.
const CRITICAL: u32 = 0xffff_0000;
/// Records with oids, of servers before version 12.
const WITH_OIDS: u32 = 1 << 16;
/// Bytes up to the header's extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// Longest field, in bytes.
const FIELD_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    /// So many bytes of the header's extension are still to come.
    Extension(usize),
    Records,
    Done,
}

/// Reads COPY data; used as [`super::CopyReader`].
#[derive(Debug)]
pub struct BinaryReader {
    table: String,
    columns: Vec<String>,
    buffer: Vec<u8>,
    /// Begin of what has not been taken.
    start: usize,
    /// Up to where the record at hand has been looked at.
    scanned: usize,
    state: State,
    /// The number of fields of the record at hand was read.
    in_record: bool,
    ended: bool,
    /// Number of the record, from 1.
    line: u64,
    fields: Vec<Option<Range<usize>>>,
    decoded: Vec<Datum>,
}

fn malformed(message: impl Into<String>) -> SqlError {
    SqlError::new("22P04", message)
}

impl BinaryReader {
    /// A reader of records for these columns of a table.
    pub fn new(table: &str, columns: Vec<String>) -> Self {
        Self {
            table: table.to_owned(),
            columns,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            state: State::Header,
            in_record: false,
            ended: false,
            line: 0,
            fields: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// Adds data.
    pub fn push(&mut self, data: &[u8]) {
        // Fields of the record that was taken last are not asked for any more.
        if self.start > 0 && !self.in_record && (self.start == self.buffer.len() || self.start > 1 << 16) {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
            self.fields.clear();
        }
        self.buffer.extend_from_slice(data);
    }

    /// Says that no more data comes.
    pub fn end(&mut self) {
        self.ended = true;
    }

    fn left(&self) -> &[u8] {
        &self.buffer[self.scanned..]
    }

    fn word(&self) -> Option<u32> {
        self.left().first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Goes to the next record; false if there is none yet (or at all, after [`Self::end`]).
    ///
    /// # Errors
    /// `22P04` for malformed data, `54000` for a field that is too long.
    pub fn next_record(&mut self) -> Result<bool, SqlError> {
        self.record().map_err(|error| error.with_context(self.context(None)))
    }

    fn record(&mut self) -> Result<bool, SqlError> {
        loop {
            match self.state {
                State::Header => {
                    let begun = self.left().len().min(SIGNATURE.len());
                    let bad = self.left()[..begun] != SIGNATURE[..begun] || self.ended && begun < SIGNATURE.len();
                    if bad {
                        return Err(malformed("COPY file signature not recognized"));
                    }
                    let Some(header) = self.left().first_chunk::<HEADER_BYTES>() else {
                        return match self.ended {
                            true => Err(malformed("invalid COPY file header (missing flags)")),
                            false => Ok(false),
                        };
                    };
                    let [.., f0, f1, f2, f3, l0, l1, l2, l3] = *header;
                    let flags = u32::from_be_bytes([f0, f1, f2, f3]);
                    if flags & WITH_OIDS != 0 {
                        return Err(malformed("invalid COPY file header (WITH OIDS)"));
                    }
                    if flags & CRITICAL != 0 {
                        return Err(malformed("unrecognized critical flags in COPY file header"));
                    }
                    let extension = i32::from_be_bytes([l0, l1, l2, l3]);
                    let extension = usize::try_from(extension)
                        .map_err(|_| malformed("invalid COPY file header (missing length)"))?;
                    self.take(HEADER_BYTES);
                    self.state = State::Extension(extension);
                }
                State::Extension(bytes) => {
                    let here = bytes.min(self.left().len());
                    self.take(here);
                    self.state = if here == bytes { State::Records } else { State::Extension(bytes - here) };
                    if here < bytes {
                        return match self.ended {
                            true => Err(malformed("invalid COPY file header (wrong length)")),
                            false => Ok(false),
                        };
                    }
                }
                State::Records => return self.next_of_records(),
                State::Done if self.left().is_empty() => return Ok(false),
                State::Done => return Err(malformed("received copy data after EOF marker")),
            }
        }
    }

    /// Leaves bytes behind that belong to no record.
    fn take(&mut self, bytes: usize) {
        self.scanned += bytes;
        self.start = self.scanned;
    }

    fn next_of_records(&mut self) -> Result<bool, SqlError> {
        if !self.in_record {
            self.start = self.scanned;
            let Some(count) = self.left().first_chunk().map(|bytes| i16::from_be_bytes(*bytes)) else {
                // Data may end without saying so.
                return Ok(false);
            };
            self.scanned += 2;
            self.line += 1;
            self.fields.clear();
            if count == -1 {
                self.start = self.scanned;
                self.state = State::Done;
                return self.record();
            }
            if usize::try_from(count) != Ok(self.columns.len()) {
                return Err(malformed(format!("row field count is {count}, expected {}", self.columns.len())));
            }
            self.in_record = true;
        }
        while self.fields.len() < self.columns.len() {
            let Some(length) = self.word() else { return self.cut() };
            let length = length as i32;
            if length == -1 {
                self.scanned += 4;
                self.fields.push(None);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| malformed("invalid field size"))?;
            if length > FIELD_BYTES_MAX {
                return Err(SqlError::new("54000", "COPY field is longer than 1 GB"));
            }
            if self.left().len() - 4 < length {
                return self.cut();
            }
            let from = self.scanned + 4;
            self.fields.push(Some(from..from + length));
            self.scanned = from + length;
        }
        self.in_record = false;
        self.start = self.scanned;
        Ok(true)
    }

    /// The record has not come whole.
    fn cut(&self) -> Result<bool, SqlError> {
        if self.ended { Err(malformed("unexpected EOF in COPY data")) } else { Ok(false) }
    }

    /// The present record as datums of columns of these types.
    ///
    /// # Errors
    /// What the types' binary input gives, with the place in the data as context.
    pub fn datums(&mut self, types: &[ColumnType], zone: &Zone) -> Result<Vec<DatumRef<'_>>, SqlError> {
        self.decoded.clear();
        for (at, (ty, field)) in types.iter().zip(&self.fields).enumerate() {
            let bytes = field.clone().and_then(|range| self.buffer.get(range));
            let datum = decode_datum(ty, column_oid(ty), Format::Binary, bytes, zone);
            self.decoded.push(datum.map_err(|error| error.with_context(self.context(Some(at))))?);
        }
        Ok(self.decoded.iter().map(Datum::as_ref).collect())
    }

    /// The number of the present record.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The CONTEXT line for an error about the present record, or one of its columns.
    pub fn context(&self, column: Option<usize>) -> String {
        match column.and_then(|at| self.columns.get(at)) {
            Some(name) => format!("COPY {}, line {}, column {name}", self.table, self.line),
            None => format!("COPY {}, line {}", self.table, self.line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [ColumnType; 2] = [ColumnType::Int4, ColumnType::Text];

    fn data(records: &[&[Option<&[u8]>]], trailer: bool) -> Vec<u8> {
        let mut out = SIGNATURE.to_vec();
        // An extension of three bytes is passed over.
        out.extend([0, 0, 0, 0, 0, 0, 0, 3, 9, 9, 9]);
        for record in records {
            out.extend((record.len() as i16).to_be_bytes());
            for field in *record {
                out.extend(field.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
                out.extend(field.unwrap_or_default());
            }
        }
        if trailer {
            out.extend((-1i16).to_be_bytes());
        }
        out
    }

    /// Reads in pieces of `size` bytes.
    fn read(data: &[u8], size: usize) -> Result<Vec<Vec<Datum>>, SqlError> {
        let mut reader = BinaryReader::new("t", vec!["a".into(), "b".into()]);
        let mut out = Vec::new();
        let mut take = |reader: &mut BinaryReader| -> Result<(), SqlError> {
            while reader.next_record()? {
                reader.datums(&TYPES, &Zone::default())?;
                out.push(reader.decoded.clone());
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

    #[test]
    fn records_in_pieces_of_any_size() {
        let long = vec![b'x'; 200_000];
        let records: [&[Option<&[u8]>]; 4] = [
            &[Some(&[0, 0, 0, 7]), Some(b"seven")],
            &[None, Some(b"")],
            &[Some(&[255, 255, 255, 255]), None],
            &[Some(&[0, 0, 0, 1]), Some(&long)],
        ];
        let expected = vec![
            vec![Datum::Int4(7), Datum::Text("seven".into())],
            vec![Datum::Null, Datum::Text(String::new())],
            vec![Datum::Int4(-1), Datum::Null],
            vec![Datum::Int4(1), Datum::Text("x".repeat(200_000))],
        ];
        for trailer in [true, false] {
            let data = data(&records, trailer);
            for size in [1, 2, 3, 7, 64, 4096, 1 << 20] {
                assert_eq!(read(&data, size).expect("well-formed"), expected, "{size}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = data(&[&[Some(&[0, 0, 0, 7]), Some(b"seven")]], true);
        let error = |data: &[u8]| read(data, 5).expect_err("it is malformed");
        assert_eq!(error(b"7\tseven\n").message, "COPY file signature not recognized");
        assert_eq!(error(&SIGNATURE[..5]).message, "COPY file signature not recognized");
        assert_eq!(error(&[]).message, "COPY file signature not recognized");
        assert_eq!(error(&good[..13]).message, "invalid COPY file header (missing flags)");
        assert_eq!(error(&good[..21]).message, "invalid COPY file header (wrong length)");
        for cut in 25..good.len() - 3 {
            assert_eq!(error(&good[..cut]).message, "unexpected EOF in COPY data", "{cut}");
        }
        let mut more = good.clone();
        more.push(0);
        assert_eq!(error(&more).message, "received copy data after EOF marker");
        let mut oids = good.clone();
        oids[12] = 1;
        assert_eq!(error(&oids).message, "invalid COPY file header (WITH OIDS)");
        oids[12] = 2;
        assert_eq!(error(&oids).message, "unrecognized critical flags in COPY file header");
        assert_eq!(error(&data(&[&[None]], true)).message, "row field count is 1, expected 2");
        let short = error(&data(&[&[Some(&[0, 7]), None]], true));
        assert_eq!((short.sqlstate.as_str(), short.context.as_deref()), ("22P03", Some("COPY t, line 1, column a")));
        assert_eq!(error(&data(&[&[None, Some(&[0xff])]], true)).sqlstate, "22021");
        let mut size = data(&[&[None, None]], true);
        let at = size.len() - 6;
        size[at..at + 4].copy_from_slice(&(-2i32).to_be_bytes());
        assert_eq!(error(&size).message, "invalid field size");
    }

    /// No bytes make it panic or hold more than they are.
    #[test]
    fn any_bytes() {
        let mut seed = 7u64;
        for round in 0..20_000 {
            let mut bytes = data(&[&[Some(&[0, 0, 0, 7]), Some(b"seven")], &[None, None]], true);
            for _ in 0..1 + round % 4 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (seed >> 33) as usize % bytes.len();
                bytes[at] = (seed >> 20) as u8;
            }
            let _ = read(&bytes, 1 + (seed >> 40) as usize % 9);
        }
    }
}
