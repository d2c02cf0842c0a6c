//! Whether what runs on this thread was told to stop.
//!
//! Functions and operators compute for long without returning to whoever waits for them, and have no way of
//! being told which statement they are of. Whoever runs a plan says so for its thread ([`with`]); what takes long asks
//! ([`check`]), for each value rather than for each batch where a value may take long. The same question bounds its
//! memory: what the thread has allocated for the statement since it was begun ([`memory::net`]).

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::memory;
use crate::styles::{self, Styles};
use crate::user_types::UserTypes;
use crate::wire::SqlError;

/// A statement that may be told to stop.
pub trait Stop: Send + Sync {
    /// # Errors
    /// What it ends with: `57014`.
    fn check(&self) -> Result<(), SqlError>;
    /// `bytes` have been allocated (or freed) for it on the thread that ran it, which does so no longer.
    fn allocated(&self, _bytes: isize) {}
    /// Whether it may have allocated `bytes` more than it was told of.
    ///
    /// # Errors
    /// `53200`
    fn check_memory(&self, _bytes: isize) -> Result<(), SqlError> {
        Ok(())
    }
    /// The name of the database that it is in.
    fn database(&self) -> Option<String> {
        None
    }
    /// The types of users that are meant in it.
    fn types(&self) -> Option<Arc<UserTypes>> {
        None
    }
    /// In which form its session shows and reads dates and intervals; `None`: as whoever began it.
    fn styles(&self) -> Option<Styles> {
        None
    }
    /// When the transaction began that it is in, in microseconds since 1970.
    fn transaction_start(&self) -> Option<i64> {
        None
    }
    /// Whether a value of so many bytes may be made now, when it has allocated `had` more than it was told of.
    ///
    /// # Errors
    /// `53200`
    fn check_value(&self, had: isize, bytes: usize) -> Result<(), SqlError> {
        self.check_memory(had.saturating_add(isize::try_from(bytes).unwrap_or(isize::MAX)))
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Stop>>> = const { RefCell::new(None) };
    /// What the thread had allocated when it began with it.
    static FROM: Cell<isize> = const { Cell::new(0) };
}

/// Puts back what this thread ran before.
struct Before(Option<Arc<dyn Stop>>, isize);

impl Drop for Before {
    fn drop(&mut self) {
        let ended = CURRENT.replace(self.0.take());
        let from = FROM.replace(self.1);
        if let Some(ended) = ended {
            ended.allocated(memory::net().wrapping_sub(from));
        }
    }
}

/// Does `work`, which belongs to that statement.
pub fn with<T>(stop: &Arc<dyn Stop>, work: impl FnOnce() -> T) -> T {
    let _styles = styles::set(stop.styles().unwrap_or_else(styles::current));
    let _before = Before(CURRENT.replace(Some(Arc::clone(stop))), FROM.replace(memory::net()));
    work()
}

/// The statement that this thread runs, for another thread that does a part of its work ([`with`]).
pub fn current() -> Option<Arc<dyn Stop>> {
    CURRENT.with_borrow(Clone::clone)
}

/// The types of users that the statement which this thread runs means; `None` if it runs none.
pub fn types() -> Option<Arc<UserTypes>> {
    // Not while it is borrowed: who is asked may ask himself.
    let stop = CURRENT.with_borrow(Clone::clone)?;
    stop.types()
}

/// The name of the database of the statement which this thread runs; `None` if it runs none.
pub fn database() -> Option<String> {
    CURRENT.with_borrow(Clone::clone)?.database()
}

/// When the transaction began of the statement which this thread runs, in microseconds since 1970; `None` if it runs none.
pub fn transaction_start() -> Option<i64> {
    let stop = CURRENT.with_borrow(Clone::clone)?;
    stop.transaction_start()
}

/// Whether this thread runs a statement that may be told to stop.
pub fn is_known() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// # Errors
/// `57014` if the statement that this thread runs has to stop, `53200` if it has taken too much memory.
pub fn check() -> Result<(), SqlError> {
    CURRENT.with_borrow(|current| match current {
        Some(stop) => {
            stop.check()?;
            stop.check_memory(memory::net().wrapping_sub(FROM.get()))
        }
        None => Ok(()),
    })
}

/// Whether the statement that this thread runs may allocate `bytes` more now: asked before what makes a long value.
///
/// # Errors
/// As [`check`].
pub fn may_allocate(bytes: usize) -> Result<(), SqlError> {
    CURRENT.with_borrow(|current| match current {
        Some(stop) => {
            stop.check()?;
            stop.check_value(memory::net().wrapping_sub(FROM.get()), bytes)
        }
        None => Ok(()),
    })
}
