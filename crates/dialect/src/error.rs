//! The one error of resolution: SQLSTATE, PostgreSQL's message, and its detail and hint.

use std::fmt;

/// Result with [`ResolveError`].
pub type Result<T, E = ResolveError> = std::result::Result<T, E>;

/// Why a name or a type could not be resolved, in PostgreSQL's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveError {
    /// Five characters, such as `42883`.
    pub sqlstate: &'static str,
    /// PostgreSQL's primary message.
    pub message: String,
    /// PostgreSQL's DETAIL line.
    pub detail: Option<String>,
    /// PostgreSQL's HINT line.
    pub hint: Option<String>,
}

impl ResolveError {
    /// An error without detail and hint.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> ResolveError {
        ResolveError { sqlstate, message: message.into(), detail: None, hint: None }
    }

    /// The same with a DETAIL line.
    pub fn with_detail(mut self, detail: impl Into<String>) -> ResolveError {
        self.detail = Some(detail.into());
        self
    }

    /// The same with a HINT line.
    pub fn with_hint(mut self, hint: impl Into<String>) -> ResolveError {
        self.hint = Some(hint.into());
        self
    }

    /// 42804, `datatype_mismatch`.
    pub(crate) fn mismatch(message: impl Into<String>) -> ResolveError {
        ResolveError::new("42804", message)
    }

    /// 42883, `undefined_function`.
    pub(crate) fn undefined_function(message: impl Into<String>) -> ResolveError {
        ResolveError::new("42883", message)
    }

    /// 42809, `wrong_object_type`.
    pub(crate) fn wrong_object(message: impl Into<String>) -> ResolveError {
        ResolveError::new("42809", message)
    }

    /// 22023, `invalid_parameter_value`.
    pub(crate) fn invalid_parameter(message: impl Into<String>) -> ResolveError {
        ResolveError::new("22023", message)
    }

    /// 0A000, `feature_not_supported`.
    pub(crate) fn not_supported(message: impl Into<String>) -> ResolveError {
        ResolveError::new("0A000", message)
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ResolveError {}
