//! What sessions keep between statements: named prepared statements and portals, bounded by their bytes.
//!
//! ```text
//! Room of the database   half of query_memory_bytes, at least 64 MB: each statement once, however many sessions keep it
//!   └ Room of a session  half of that: all that it keeps
//! ```
//! Beyond it Parse, PREPARE and Bind end with `53200`, and whoever asks can deallocate. It is a budget of its own: what is kept
//! takes nothing from what statements may have while they run. The statement and portal without a name, one of each in a
//! session and as long as a message may be, are not counted, so nobody who uses only these is refused for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::ScalarValue;

use crate::pg::memory;
use crate::wire::SqlError;

/// Least that a database keeps.
const LEAST_BYTES: usize = 64 << 20;
/// Counted for each, beside what it says of itself.
const EACH_BYTES: usize = 512;

/// How much may be kept.
#[derive(Debug)]
pub(crate) struct Room {
    bytes_max: usize,
    bytes: AtomicUsize,
}

/// A part of a [`Room`] that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Room {
    /// That of a database.
    pub(crate) fn of_database(query_memory_bytes: u64) -> Arc<Self> {
        let bytes = usize::try_from(query_memory_bytes).unwrap_or(usize::MAX) / 2;
        Self::new(bytes.max(LEAST_BYTES))
    }

    /// That of one of its sessions.
    pub(crate) fn of_session(&self) -> Arc<Self> {
        Self::new(self.bytes_max / 2)
    }

    fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: AtomicUsize::new(0) })
    }

    /// # Errors
    /// `53200`
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Result<Kept, SqlError> {
        let bytes = bytes.saturating_add(EACH_BYTES);
        let fits = |had: usize| had.checked_add(bytes).filter(|has| *has <= self.bytes_max);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Kept { room: Arc::clone(self), bytes }),
            Err(had) => Err(refused(had, bytes, self.bytes_max)),
        }
    }
}

#[cold]
fn refused(had: usize, more: usize, most: usize) -> SqlError {
    memory::exhausted(format!(
        "Prepared statements and portals have {} kB, {} kB more were asked for; they may have {} kB.",
        had >> 10,
        more.div_ceil(1024),
        most >> 10
    ))
}

/// What the values of a portal's parameters take.
pub(crate) fn bytes_of(values: &[ScalarValue]) -> usize {
    values.iter().map(ScalarValue::size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_go_can_be_taken_again() {
        let room = Room::of_database(0).of_session();
        let first = room.take(20 << 20).expect("within it");
        assert_eq!(room.take(20 << 20).expect_err("more than half of all").sqlstate, "53200");
        assert_eq!(room.take(usize::MAX).expect_err("more than anything").sqlstate, "53200");
        drop(first);
        drop(room.take(20 << 20).expect("free again"));
        assert_eq!(room.bytes.load(Ordering::Relaxed), 0);
    }
}
