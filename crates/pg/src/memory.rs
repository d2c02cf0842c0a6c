//! Memory that no reservation knows of: values of functions, and what an allocator sees.
//!
//! Operators reserve what they keep. What is allocated between two reservations (the column that a function makes, a
//! parse tree, a plan) is bounded here, in three ways:
//!
//! - a value is no longer than [`VALUE_MAX`] bytes, as in PostgreSQL ([`value`]);
//! - a function that makes texts out of little (`repeat`, `lpad`) tells beforehand how many bytes all of them will
//!   have ([`column`]). Within [`in_pieces`] more than [`PIECE_BYTES`] for several rows is [`is_too_many`], and the
//!   operator asks again with fewer rows; elsewhere, and for one row, the bound is [`room`];
//! - [`Metered`] counts what the thread has allocated and not freed. Whoever runs statements compares it with a bound
//!   between two values ([`running`](crate::running)).

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::DataFusionError;
use resurgam_base::memory::count;

use crate::errors::to_datafusion;
use crate::running;
use crate::wire::SqlError;

/// Longest value in bytes (`MaxAllocSize` in PostgreSQL), less its header of four.
pub const VALUE_MAX: usize = 0x3fff_ffff - 4;
/// Bytes that a column of several rows has at most where rows can be evaluated in pieces.
pub const PIECE_BYTES: usize = 2 << 20;

/// Bytes that the column of one function may have; set by whoever knows the server's memory.
static ROOM: AtomicUsize = AtomicUsize::new(1 << 30);

/// What one function may make of a batch that cannot be split, in bytes.
pub fn room() -> usize {
    ROOM.load(Ordering::Relaxed)
}

/// See [`room`]. Of several databases in a process the one with least has its say.
pub fn set_room(bytes: usize) {
    ROOM.fetch_min(bytes, Ordering::Relaxed);
}

thread_local! {
    static IN_PIECES: Cell<bool> = const { Cell::new(false) };
}

/// An allocator that counts, for each thread, what it allocated and has not freed. What others free, or free for it, counts
/// for them.
pub struct Metered<A>(pub A);

// SAFETY: every call goes to the allocator below with what it was given, and gives back what that gave; counting
// allocates nothing and does not unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Metered<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

/// Bytes that this thread has allocated and not freed since it began; always 0 without [`Metered`]. Frames of the buffer pool,
/// which are made when they are first needed, are not among them.
pub use resurgam_base::memory::net;

/// Whether [`Metered`] counts.
pub fn is_metered() -> bool {
    static METERED: OnceLock<bool> = OnceLock::new();
    // What nobody looks at is not allocated at all in an optimised build.
    *METERED.get_or_init(|| measured(|| std::hint::black_box(Box::new([0u8; 64]))).1 > 0)
}

/// Has the allocator give freed memory of this thread back to the system; see [`collect`].
static COLLECT: OnceLock<fn()> = OnceLock::new();

/// How memory is given back, said by who chose the allocator.
pub fn set_collect(collect: fn()) {
    let _ = COLLECT.set(collect);
}

/// Gives freed memory of this thread back to the system, if the allocator can.
pub fn collect() {
    if let Some(collect) = COLLECT.get() {
        collect();
    }
}

/// What `work` leaves allocated, in bytes; 0 without [`Metered`].
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = net();
    let out = work();
    (out, usize::try_from(net().wrapping_sub(before)).unwrap_or(0))
}

/// `53200` as PostgreSQL says it.
#[cold]
pub fn exhausted(detail: impl Into<String>) -> SqlError {
    SqlError::new("53200", "out of memory").with_detail(detail)
}

/// # Errors
/// `54000` for a value that is longer than [`VALUE_MAX`].
pub fn value(bytes: usize) -> Result<(), SqlError> {
    if bytes <= VALUE_MAX { Ok(()) } else { Err(too_long(bytes)) }
}

#[cold]
fn too_long(bytes: usize) -> SqlError {
    SqlError::new("54000", format!("invalid memory alloc request size {bytes}"))
}

/// The message by which an operator knows that it has to ask with fewer rows.
const TOO_MANY: &str = "too many rows in one piece";

/// Whether that is the answer of a function that wants fewer rows; see [`in_pieces`].
pub fn is_too_many(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::External(inner) => {
            inner.downcast_ref::<SqlError>().is_some_and(|error| error.sqlstate == "53200" && error.message == TOO_MANY)
        }
        _ => false,
    }
}

/// A column of `rows` values with `bytes` together is about to be made.
///
/// # Errors
/// `53200` when that is more than may be.
pub fn column(rows: usize, bytes: usize) -> Result<(), SqlError> {
    if bytes <= PIECE_BYTES {
        return Ok(());
    }
    if rows > 1 && IN_PIECES.get() {
        return Err(SqlError::new("53200", TOO_MANY));
    }
    let room = room();
    if bytes <= room {
        // Beside what the statement has already: the values that it is computed from, and others of the row.
        return running::may_allocate(bytes);
    }
    Err(exhausted(format!("A function's result of {bytes} bytes is more than the {room} bytes that it may have."))
        .with_hint("The setting query_memory_bytes of the server says what all statements may have; a value may have an eighth of it, and 32 MB in any case."))
}

/// Does `work`, which evaluates expressions over rows that may be fewer.
pub fn in_pieces<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IN_PIECES.set(self.0);
        }
    }
    let _before = Before(IN_PIECES.replace(true));
    work()
}

/// [`column`] for DataFusion's functions.
///
/// # Errors
/// As [`column`].
pub fn column_of_many(rows: usize, bytes: usize) -> datafusion::common::Result<()> {
    column(rows, bytes).map_err(to_datafusion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_bounded_by_the_rows_that_can_be_fewer() {
        assert!(column(100, PIECE_BYTES).is_ok());
        assert!(column(100, PIECE_BYTES + 1).is_ok(), "it cannot be split");
        let error = in_pieces(|| column_of_many(2, PIECE_BYTES + 1)).unwrap_err();
        assert!(is_too_many(&error));
        assert!(in_pieces(|| column(1, PIECE_BYTES + 1)).is_ok());
        let error = column_of_many(1, room() + 1).unwrap_err();
        assert!(!is_too_many(&error));
        assert_eq!(value(VALUE_MAX + 1).unwrap_err().sqlstate, "54000");
        assert!(value(VALUE_MAX).is_ok());
    }

    #[test]
    fn an_allocator_counts_by_thread() {
        let allocator = Metered(std::alloc::System);
        let layout = Layout::from_size_align(1000, 8).unwrap();
        let before = net();
        // SAFETY: the layout has a size, and what is freed is what was allocated.
        let after = unsafe {
            let at = allocator.alloc(layout);
            let at = allocator.realloc(at, layout, 3000);
            let after = net();
            allocator.dealloc(at, Layout::from_size_align(3000, 8).unwrap());
            after
        };
        assert_eq!((after - before, net() - before), (3000, 0));
    }
}
