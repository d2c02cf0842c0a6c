//! The one error of this crate: what was wrong, where, and what was expected.

use std::fmt;
use std::path::PathBuf;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was not done.
///
/// After an error of a call within a transaction that call did nothing, and the transaction may go on, except after
/// [`Error::Conflict`], or where the disk fails while a part is taken back: then nothing of it is kept, whatever the closure
/// returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A setting of [`Options`](crate::Options) that cannot be.
    Setting { name: &'static str, given: String, expected: String },
    /// Somebody has the folder open: this process, if `here`.
    InUse { path: PathBuf, here: bool, holder: Option<String> },
    /// There is no database in the folder, and none was to be made.
    NoDatabase { path: PathBuf },
    /// There is no such table (yet).
    NoTable { table: String },
    /// There is no such schema.
    NoSchema { schema: String },
    /// What a row or a table handle says of itself cannot be: a key of a column that there is not, two columns of a name; or the
    /// transaction has changed the table since it took the handle.
    Definition { table: String, what: String },
    /// The table is another one than the program's types say; both sides are shown.
    Mismatch { table: String, expected: String, found: String },
    /// The table has no such index.
    NoIndex { table: String, index: String, there_are: Vec<String> },
    /// What needs a unique index was asked of another one, or one whose order has no ranges.
    WrongIndex { table: String, index: String, what: &'static str },
    /// Another row has the key already: of the table, or of a unique index.
    Duplicate { table: String, index: String, key: String },
    /// There is no row with the key to be updated.
    NoRow { table: String, key: String },
    /// A value is not what the column, or the type that is read, can have.
    Value { table: String, column: String, expected: String, found: String },
    /// A key or a row is longer than can be stored.
    TooLong { table: String, what: String },
    /// The rows of the table are kept to rules that only SQL knows: it can be read here, and written there.
    ReadOnly { table: String, why: String },
    /// Others changed the same rows: nothing was done. After so many attempts it was given up.
    Conflict { table: Option<String>, attempts: u32, cause: String },
    /// Another transaction had the row, or the table, for longer than [`Options::lock_timeout`](crate::Options::lock_timeout).
    LockTimeout { table: String },
    /// `write` was called within a `write` of the same database on the same thread, which would wait for itself. (A transaction of
    /// [`Db::begin`](crate::Db::begin) is not noticed.)
    Nested,
    /// The closure's own error, by [`Error::custom`].
    Custom(Box<dyn std::error::Error + Send + Sync>),
    /// Any other failure of the engine: a disk that is full or fails, damaged files.
    Engine(resurgam_engine::Error),
}

impl Error {
    /// An error of the program's own, to be returned from a closure: the transaction is rolled back.
    pub fn custom(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Custom(error.into())
    }

    /// Whether the same transaction may succeed if it is tried again. With [`Error::Conflict`] [`Db::write`](crate::Db::write) has
    /// done that already; with [`Error::LockTimeout`] it has not: how long to wait was the program's word.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::LockTimeout { .. })
    }

    /// The five characters that SQL gives to this failure.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Setting { .. } => "22023",
            Self::InUse { .. } => "55006",
            Self::NoDatabase { .. } => "58P01",
            Self::NoTable { .. } => "42P01",
            Self::NoSchema { .. } => "3F000",
            Self::Definition { .. } => "42P16",
            Self::Mismatch { .. } => "42804",
            Self::NoIndex { .. } | Self::WrongIndex { .. } => "42704",
            Self::Duplicate { .. } => "23505",
            Self::NoRow { .. } => "P0002",
            Self::Value { .. } => "22000",
            Self::TooLong { .. } => "54000",
            Self::ReadOnly { .. } => "0A000",
            Self::Conflict { .. } => "40001",
            Self::LockTimeout { .. } => "55P03",
            Self::Nested => "25001",
            Self::Custom(_) => "P0001",
            Self::Engine(error) => error.sqlstate(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, given, expected } => {
                write!(f, "setting `{name}` cannot be {given}: expected {expected}")
            }
            Self::InUse { path, here: true, .. } => write!(
                f,
                "the database \"{}\" is open in this process already: clone its `Db` instead of opening it twice",
                path.display()
            ),
            Self::InUse { path, here: false, holder } => {
                write!(f, "the database \"{}\" is in use by another process, or by the engine in this one", path.display())?;
                holder.as_ref().map_or(Ok(()), |holder| write!(f, " ({holder})"))
            }
            Self::NoDatabase { path } => write!(f, "there is no database in \"{}\"", path.display()),
            Self::NoTable { table } => write!(
                f,
                "table {table} does not exist: the first write transaction that uses it makes it, or `Db::create`"
            ),
            Self::NoSchema { schema } => write!(f, "schema \"{schema}\" does not exist: SQL's CREATE SCHEMA makes it"),
            Self::Definition { table, what } => write!(f, "the definition of table {table} cannot be used: {what}"),
            Self::Mismatch { table, expected, found } => write!(
                f,
                "table {table} is not what this program expects\n  expected: {expected}\n  found:    {found}"
            ),
            Self::NoIndex { table, index, there_are } if there_are.is_empty() => {
                write!(f, "table {table} has no index \"{index}\": it has none")
            }
            Self::NoIndex { table, index, there_are } => {
                write!(f, "table {table} has no index \"{index}\": there are \"{}\"", there_are.join("\", \""))
            }
            Self::WrongIndex { table, index, what } => write!(f, "index \"{index}\" of table {table} {what}"),
            Self::Duplicate { table, index, key } => {
                write!(f, "table {table} has a row with {key} already, of which index \"{index}\" allows one")
            }
            Self::NoRow { table, key } => write!(f, "table {table} has no row with {key}"),
            Self::Value { table, column, expected, found } => {
                write!(f, "column \"{column}\" of table {table}: expected {expected}, found {found}")
            }
            Self::TooLong { table, what } => write!(f, "table {table}: {what}"),
            Self::ReadOnly { table, why } => write!(f, "table {table} can only be written by SQL: {why}"),
            Self::Conflict { table, attempts, cause } => {
                f.write_str("others changed the same rows")?;
                if let Some(table) = table {
                    write!(f, " of table {table}")?;
                }
                write!(f, " ({cause}); given up after {attempts} attempt{}", if *attempts == 1 { "" } else { "s" })
            }
            Self::LockTimeout { table } => {
                write!(f, "another transaction has a row of table {table}, and did not end in time")
            }
            Self::Nested => f.write_str(
                "`write` was called within `write` of the same database, on the same thread: pass the transaction on, or use \
                 `savepoint`",
            ),
            Self::Custom(error) => error.fmt(f),
            Self::Engine(error) => {
                error.fmt(f)?;
                error.hint().map_or(Ok(()), |hint| write!(f, ". {hint}"))
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Custom(error) => error.source(),
            _ => None,
        }
    }
}

impl From<resurgam_engine::Error> for Error {
    fn from(error: resurgam_engine::Error) -> Self {
        use resurgam_engine::ErrorKind::*;
        match error.kind() {
            SerializationFailure | DeadlockDetected | DefinitionChanged => {
                Self::Conflict { table: None, attempts: 1, cause: error.message().to_owned() }
            }
            _ => Self::Engine(error),
        }
    }
}
