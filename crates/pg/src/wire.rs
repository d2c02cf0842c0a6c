//! What the SQL layer hands to a protocol server: errors, result fields, encoded
//! rows and command tags.
//!
//! Contract: nothing here does I/O. Rows arrive already encoded in the format
//! that the portal asked for, so that a server only frames and copies them.
//!
//! A row body is the part of a PostgreSQL `DataRow` message after the field
//! count: for each field an `i32` big-endian length (-1 for null) and the bytes.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytes::BytesMut;
use resurgam_base::{Error, ErrorKind};

/// An error or notice. One pointer wide, so that whoever passes a result on moves no more than its value: errors
/// are rare, results are not.
#[derive(Clone, Debug)]
pub struct SqlError(Box<ErrorFields>);

impl Deref for SqlError {
    type Target = ErrorFields;
    fn deref(&self) -> &ErrorFields {
        &self.0
    }
}

impl DerefMut for SqlError {
    fn deref_mut(&mut self) -> &mut ErrorFields {
        &mut self.0
    }
}

/// Every field that PostgreSQL's `ErrorResponse` has.
#[derive(Clone, Debug)]
pub struct ErrorFields {
    /// Five characters, as listed in PostgreSQL's appendix A.
    pub sqlstate: String,
    /// `ERROR`, `FATAL`, `WARNING`, `NOTICE`…
    pub severity: &'static str,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// 1-based character (not byte) in the statement text.
    pub position: Option<u32>,
    /// The CONTEXT line, for instance `COPY t, line 3`.
    pub context: Option<String>,
    pub constraint: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub schema: Option<String>,
    /// The type whose constraint was violated.
    pub datatype: Option<String>,
    /// PostgreSQL's function that reports such an error, where drivers tell errors apart by it.
    pub routine: Option<&'static str>,
    /// A definition that the statement was planned with is no longer the newest.
    pub definition_changed: bool,
}

impl SqlError {
    /// An error of severity `ERROR`.
    #[cold]
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorFields {
            sqlstate: sqlstate.to_owned(),
            severity: "ERROR",
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            constraint: None,
            table: None,
            column: None,
            schema: None,
            datatype: None,
            routine: None,
            definition_changed: false,
        }))
    }
    /// A message of another severity (`WARNING`, `NOTICE`).
    #[cold]
    pub fn notice(severity: &'static str, sqlstate: &str, message: impl Into<String>) -> Self {
        Self::new(sqlstate, message).with_severity(severity)
    }
    /// The same with another severity.
    #[must_use]
    pub fn with_severity(mut self, severity: &'static str) -> Self {
        self.severity = severity;
        self
    }
    /// Its fields, to be taken apart.
    #[must_use]
    pub fn into_fields(self) -> ErrorFields {
        *self.0
    }
    /// `0A000`: valid SQL that is not supported.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }
    /// `42601`.
    #[cold]
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new("42601", message)
    }
    /// `XX000`: a bug in Resurgam.
    #[cold]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new("XX000", message)
    }
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    pub fn with_position(mut self, position: u32) -> Self {
        self.position = Some(position);
        self
    }
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.severity, self.message, self.sqlstate)
    }
}

impl std::error::Error for SqlError {}

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        let mut out = Self::new(error.sqlstate(), error.message());
        out.detail = error.detail().map(str::to_owned);
        out.hint = error.hint().map(str::to_owned);
        out.definition_changed = error.kind() == ErrorKind::DefinitionChanged;
        out
    }
}

/// One column of a result, as `RowDescription` wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub type_oid: u32,
    /// Bytes of the type, -1 for variable length.
    pub type_len: i16,
    /// Type modifier, -1 for none.
    pub typmod: i32,
    /// Table that the column comes from, 0 for none.
    pub table_oid: u32,
    /// 1-based column in that table, 0 for none.
    pub column: i16,
}

/// How values travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Binary,
}

/// Some encoded rows; see the module's head for the layout of a row body.
#[derive(Debug, Default)]
pub struct RowChunk {
    pub bytes: BytesMut,
    /// End of each row's body in `bytes`; the first begins at 0.
    pub ends: Vec<u32>,
    /// Fields of every row.
    pub fields: i16,
}

impl RowChunk {
    /// The bodies, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0usize;
        self.ends.iter().map(move |&end| {
            let body = &self.bytes[start..end as usize];
            start = end as usize;
            body
        })
    }
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// The text of `CommandComplete`, built without allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// For instance `BEGIN`.
    Fixed(&'static str),
    /// For instance `UPDATE 3`, `SELECT 10`.
    Count(&'static str, u64),
    /// `INSERT 0 n`.
    Insert(u64),
}

impl Tag {
    /// The rows that it tells of.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Fixed(_) => 0,
            Self::Count(_, rows) | Self::Insert(rows) => *rows,
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(name) => f.write_str(name),
            Self::Count(name, rows) => write!(f, "{name} {rows}"),
            Self::Insert(rows) => write!(f, "INSERT 0 {rows}"),
        }
    }
}

/// The byte of `ReadyForQuery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

impl TransactionStatus {
    /// `I`, `T` or `E`.
    pub fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InTransaction => b'T',
            Self::Failed => b'E',
        }
    }
}
