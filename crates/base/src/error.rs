//! The one error type of the storage crates.
//!
//! Three failures are kept apart: an operation that cannot be done (most kinds
//! here), bytes that are wrong ([`ErrorKind::Corrupt`], always with a location),
//! and our own bug ([`ErrorKind::Internal`]).

use std::fmt;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, at the grain at which a caller can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    UniqueViolation,
    NotNullViolation,
    SerializationFailure,
    /// A table is no longer as the caller's definition of it says: look it up again. Nothing was
    /// done to it.
    DefinitionChanged,
    DeadlockDetected,
    LockNotAvailable,
    UndefinedTable,
    DuplicateTable,
    UndefinedColumn,
    DuplicateColumn,
    UndefinedObject,
    DuplicateObject,
    DependentObjects,
    InvalidParameter,
    InvalidText,
    NumericOutOfRange,
    StringTooLong,
    /// A sequence is at its end.
    SequenceLimit,
    LimitExceeded,
    NotSupported,
    DiskFull,
    OutOfMemory,
    /// Reading or writing a file failed; the message names it.
    Io,
    /// Bytes on disk are not what they should be; the message says where.
    Corrupt,
    /// The data folder is in use by another process.
    InUse,
    /// The folder is not a data folder of this program.
    NotADatabase,
    /// The data folder was written by a newer version.
    NewerFormat,
    /// The engine stopped accepting work after an uncertain failure; reopen it.
    Stopped,
    Cancelled,
    InvalidTransactionState,
    /// What is asked for is not possible in the present state of an object or of the settings.
    NotInPrerequisiteState,
    /// A limit that a setting gives is reached.
    ConfigurationLimitExceeded,
    SnapshotTooOld,
    /// The row belongs to an unfinished transaction that is being undone after a restart;
    /// its earlier version is not there before that is done. Wait and read again.
    AwaitsUndo,
    /// A bug in Resurgam.
    Internal,
}

impl ErrorKind {
    /// The five-character SQLSTATE that PostgreSQL gives to this failure.
    pub const fn sqlstate(self) -> &'static str {
        use ErrorKind::*;
        match self {
            UniqueViolation => "23505",
            NotNullViolation => "23502",
            SerializationFailure | DefinitionChanged => "40001",
            DeadlockDetected => "40P01",
            LockNotAvailable => "55P03",
            UndefinedTable => "42P01",
            DuplicateTable => "42P07",
            UndefinedColumn => "42703",
            DuplicateColumn => "42701",
            UndefinedObject => "42704",
            DuplicateObject => "42710",
            DependentObjects => "2BP01",
            InvalidParameter => "22023",
            InvalidText => "22P02",
            NumericOutOfRange => "22003",
            StringTooLong => "22001",
            SequenceLimit => "2200H",
            LimitExceeded => "54000",
            NotSupported => "0A000",
            DiskFull => "53100",
            OutOfMemory => "53200",
            Io => "58030",
            Corrupt => "XX001",
            InUse => "55006",
            NotADatabase | NewerFormat => "58P01",
            Stopped => "57P01",
            Cancelled => "57014",
            InvalidTransactionState => "25000",
            NotInPrerequisiteState => "55000",
            ConfigurationLimitExceeded => "53400",
            SnapshotTooOld => "72000",
            AwaitsUndo => "55P03",
            Internal => "XX000",
        }
    }
}

/// What systems say of a device that does not work: EIO, ENXIO, ENODEV, ETIMEDOUT, ESTALE, EUCLEAN, EREMOTEIO (as Linux numbers them).
const DEVICE_CODES: [i32; 7] = [5, 6, 19, 110, 116, 117, 121];

/// An error of the engine: kind, plain-words message, and optionally detail and hint.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    constraint: Option<String>,
    of_device: bool,
    unanswered: bool,
}

impl Error {
    /// An error of `kind` with a message for a person.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (message, detail, hint, constraint) = (message.into(), None, None, None);
        Self(Box::new(Inner { kind, message, detail, hint, constraint, of_device: false, unanswered: false }))
    }
    /// Corrupt bytes: `what` must say where (file, page, offset) and what is wrong.
    #[cold]
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, what)
    }
    /// Our own bug.
    #[cold]
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, what)
    }
    /// A failed call on `path`; "no space" becomes [`ErrorKind::DiskFull`].
    #[cold]
    pub fn io(action: &str, path: impl fmt::Display, source: &std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::DiskFull,
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, format!("could not {action} \"{path}\": {source}"));
        error.0.of_device = source.raw_os_error().is_some_and(|code| DEVICE_CODES.contains(&code));
        error.0.unanswered = source.kind() == std::io::ErrorKind::TimedOut;
        error
    }
    /// The same, said of a device that does not work: for those that are simulated.
    pub fn of_device(mut self) -> Self {
        self.0.of_device = true;
        self
    }
    /// Whether the system has said that the device does not work, and not that a file is missing or not this user's. An error that was made of
    /// this one in other words does not say so any more.
    pub fn is_of_device(&self) -> bool {
        self.0.of_device
    }
    /// Whether the system has given up waiting for the device: what it was asked for may still be done, whenever that answers again.
    pub fn is_unanswered(&self) -> bool {
        self.0.unanswered
    }
    /// Adds a DETAIL line.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }
    /// Adds a HINT line.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }
    /// Notes the constraint, or the index, that was violated.
    pub fn with_constraint(mut self, name: impl Into<String>) -> Self {
        self.0.constraint = Some(name.into());
        self
    }
    /// Name of the constraint, or of the index, that was violated, for callers who must know which of a table's it was.
    pub fn constraint(&self) -> Option<&str> {
        self.0.constraint.as_deref()
    }
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    pub fn message(&self) -> &str {
        &self.0.message
    }
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
    pub fn sqlstate(&self) -> &'static str {
        self.0.kind.sqlstate()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} [{}]: {self}", self.0.kind, self.sqlstate())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is missing, or not this user's, is no fault of the device, whatever is done about a device that is dead.
    #[test]
    fn which_errors_are_the_devices() {
        let of = |code| Error::io("read", "a file", &std::io::Error::from_raw_os_error(code)).with_hint("none");
        for code in DEVICE_CODES {
            assert!(of(code).is_of_device() && of(code).kind() == ErrorKind::Io, "{code}");
        }
        const OTHERS: [i32; 5] = [1, 2, 13, 28, 30];
        assert!(OTHERS.iter().all(|code| !of(*code).is_of_device()));
        assert!(!Error::new(ErrorKind::Io, of(5).message()).is_of_device());
        assert!(Error::new(ErrorKind::Io, "simulated").of_device().is_of_device());
        assert!(of(110).is_unanswered() && !of(5).is_unanswered() && !Error::new(ErrorKind::Io, "").is_unanswered());
    }
}
