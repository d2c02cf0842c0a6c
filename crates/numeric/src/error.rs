//! Errors with PostgreSQL's SQLSTATE and words.

use std::borrow::Cow;
use std::fmt;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// SQLSTATE.
    pub code: &'static str,
    /// PostgreSQL's message.
    pub message: Cow<'static, str>,
    /// PostgreSQL's DETAIL.
    pub detail: Option<String>,
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), detail: None }
    }
    /// The value has more digits than the type can hold.
    pub(crate) fn overflow() -> Self {
        Self::new("22003", "value overflows numeric format")
    }
    pub(crate) fn division_by_zero() -> Self {
        Self::new("22012", "division by zero")
    }
    pub(crate) fn syntax(text: &str) -> Self {
        Self::new("22P02", format!("invalid input syntax for type numeric: \"{text}\""))
    }
    pub(crate) fn field_overflow(detail: String) -> Self {
        Self { code: "22003", message: Cow::Borrowed("numeric field overflow"), detail: Some(detail) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
