//! Errors of stores.

use std::fmt;

use resurgam_base::{Error, ErrorKind};

/// Result with [`StoreError`].
pub type StoreResult<T> = Result<T, StoreError>;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The name is taken; the object there is durable.
    Exists,
    /// There is no such object.
    Missing,
    /// The object ends before the bytes that were asked for: it was damaged, or is another one.
    Short,
    /// The store has no room.
    Full,
    /// The store does not do what it is asked to; later it may. Nothing was published.
    Unavailable,
    /// It is not known whether the object was published.
    Uncertain,
    /// What is asked for can never be: a name that is none, an object that is too long.
    Invalid,
}

/// An error of a store: its kind, and what to tell people.
#[derive(Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    error: Error,
}

impl StoreError {
    /// An error with a message that names object and place.
    #[cold]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        let base = match kind {
            StoreErrorKind::Full => ErrorKind::DiskFull,
            StoreErrorKind::Short => ErrorKind::Corrupt,
            StoreErrorKind::Invalid => ErrorKind::InvalidParameter,
            _ => ErrorKind::Io,
        };
        Self { kind, error: Error::new(base, message) }
    }

    /// An error of the file system, as one of this kind; a full disk is `Full` unless the outcome is uncertain.
    #[cold]
    pub(crate) fn of(kind: StoreErrorKind, error: Error) -> Self {
        let kind = match (kind, error.kind()) {
            (StoreErrorKind::Unavailable, ErrorKind::DiskFull) => StoreErrorKind::Full,
            (StoreErrorKind::Unavailable, ErrorKind::Corrupt) => StoreErrorKind::Short,
            (kind, _) => kind,
        };
        Self { kind, error }
    }

    /// What went wrong.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        error.error
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.error)
    }
}

impl std::error::Error for StoreError {}
