//! Whether what runs on this thread was told to stop.
//!
//! Functions and operators compute for long without returning to whoever waits for them, and have no way of
//! being told which statement they are of. Whoever runs a plan says so for its thread ([`with`]); what takes long asks
//! ([`check`]), for each value rather than for each batch where a value may take long.

use std::cell::RefCell;
use std::sync::Arc;

use crate::wire::SqlError;

/// A statement that may be told to stop.
pub trait Stop: Send + Sync {
    /// # Errors
    /// What it ends with: `57014`.
    fn check(&self) -> Result<(), SqlError>;
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Stop>>> = const { RefCell::new(None) };
}

/// Puts back what this thread ran before.
struct Before(Option<Arc<dyn Stop>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = self.0.take());
    }
}

/// Does `work`, which belongs to that statement.
pub fn with<T>(stop: &Arc<dyn Stop>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(Some(Arc::clone(stop))));
    work()
}

/// Whether this thread runs a statement that may be told to stop.
pub fn is_known() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// # Errors
/// `57014` if the statement that this thread runs has to stop.
pub fn check() -> Result<(), SqlError> {
    CURRENT.with_borrow(|current| current.as_ref().map_or(Ok(()), |stop| stop.check()))
}
