//! `COPY` in text, CSV and binary format.
//!
//! Reading: [`Records`] takes bytes in pieces of any size and gives records. It holds at most
//! one record beyond what was pushed; a record may have 1 GB. Writing: [`CopyWriter`].
//!
//! Format errors are `22P04` with a context such as `COPY t, line 3: "text"`.

mod binary;
mod options;
mod reader;
mod writer;

use resurgam_engine::{ColumnType, DatumRef};

pub use binary::BinaryReader;
pub use options::{CopyFormat, CopyHeader, CopyOptions, GivenOption, GivenValue};
pub use reader::CopyReader;
pub use writer::{CopyChunk, CopyWriter};

use crate::datetime::Zone;
use crate::wire::{Format, SqlError};

impl CopyFormat {
    /// In which of the protocol's formats the data is.
    pub fn of_data(self) -> Format {
        match self {
            Self::Text | Self::Csv => Format::Text,
            Self::Binary => Format::Binary,
        }
    }
}

/// Records out of COPY data in any format; see [`CopyReader`] for how it is used.
#[derive(Debug)]
pub enum Records {
    Lines(CopyReader),
    Binary(BinaryReader),
}

impl Records {
    /// A reader of records for these columns of a table.
    pub fn new(options: CopyOptions, table: &str, columns: Vec<String>) -> Self {
        match options.format {
            CopyFormat::Binary => Self::Binary(BinaryReader::new(table, columns)),
            CopyFormat::Text | CopyFormat::Csv => Self::Lines(CopyReader::new(options, table, columns)),
        }
    }

    /// In which format the data is.
    pub fn format(&self) -> Format {
        if matches!(self, Self::Binary(_)) { Format::Binary } else { Format::Text }
    }

    /// Adds data.
    pub fn push(&mut self, data: &[u8]) {
        match self {
            Self::Lines(reader) => reader.push(data),
            Self::Binary(reader) => reader.push(data),
        }
    }

    /// Says that no more data comes.
    pub fn end(&mut self) {
        match self {
            Self::Lines(reader) => reader.end(),
            Self::Binary(reader) => reader.end(),
        }
    }

    /// Goes to the next record; false if there is none yet (or at all, after [`Self::end`]).
    ///
    /// # Errors
    /// `22P04` for a malformed record, `54000` for one that is too long, `22021` for bad UTF-8.
    pub fn next_record(&mut self) -> Result<bool, SqlError> {
        match self {
            Self::Lines(reader) => reader.next_record(),
            Self::Binary(reader) => reader.next_record(),
        }
    }

    /// Puts each field of the present record as a datum of a column of its type. `scratch` has room for the
    /// bytes of a `bytea` a column.
    ///
    /// # Errors
    /// What the types' input functions give, with the place in the data as context.
    pub fn put_datums<'a>(
        &'a mut self,
        types: &[ColumnType],
        zone: &Zone,
        scratch: &'a mut Vec<Vec<u8>>,
        mut put: impl FnMut(usize, DatumRef<'a>),
    ) -> Result<(), SqlError> {
        match self {
            Self::Lines(reader) => reader.put_datums(types, zone, scratch, put),
            Self::Binary(reader) => {
                reader.datums(types, zone)?.into_iter().enumerate().for_each(|(at, datum)| put(at, datum));
                Ok(())
            }
        }
    }

    /// The number of the line at which the present record ends, and its bytes (none of a binary one).
    pub fn line(&self) -> (u64, usize) {
        match self {
            Self::Lines(reader) => (reader.line(), reader.record_len()),
            Self::Binary(reader) => (reader.line(), 0),
        }
    }

    /// The CONTEXT line for an error about the present record.
    pub fn context(&self) -> String {
        match self {
            Self::Lines(reader) => reader.context(None),
            Self::Binary(reader) => reader.context(None),
        }
    }
}
