//! Places where a test lets other threads go on for a moment: between two steps that others may come in between of.
//!
//! What is wrong there shows only when somebody does, which chance alone makes rare: a window of a microsecond. A test with threads opens
//! some of the windows ([`Pauses::plant`]), and threads that come to one then yield or sleep a little, by chance. Otherwise a
//! place costs a look at a word that nobody writes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// A place, between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pause {
    /// A row's newest version is known, and is about to be judged (under its leaf's latch).
    VersionFound,
    /// A version of somebody active was passed over, and the one before it is about to be looked at.
    VersionPassed,
    /// The row of a table is written, its index entries are not.
    RowWritten,
    /// One index entry is written, the next is not.
    EntryWritten,
    /// A change could not be made, and is about to be taken back.
    TakenBack,
    /// One row of a transaction that rolls back is reverted, the next is not.
    RowReverted,
    /// All of it is undone, or its commit is decided, and nobody was told.
    BeforeEnd,
    /// One of its ids is marked as aborted, the next is not.
    IdAborted,
    /// An index has led to a row, which is about to be read.
    EntryRead,
    /// A row's newest version is read, and is about to be written.
    RowRead,
}

/// All places.
pub const ALL: [Pause; 10] = [
    Pause::VersionFound,
    Pause::VersionPassed,
    Pause::RowWritten,
    Pause::EntryWritten,
    Pause::TakenBack,
    Pause::RowReverted,
    Pause::BeforeEnd,
    Pause::IdAborted,
    Pause::EntryRead,
    Pause::RowRead,
];

/// A bit for each place; 0 = none.
static PLACES: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CHANCE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Which places are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pauses(Vec<Pause>);

impl Pauses {
    /// These.
    pub fn at(places: &[Pause]) -> Self {
        Self(places.to_vec())
    }
    /// For the whole process, from now on; what threads do there goes by `seed`.
    pub fn plant(&self, seed: u64) {
        SEED.store(seed, Ordering::SeqCst);
        PLACES.store(self.0.iter().fold(0, |bits, place| bits | 1 << *place as u8), Ordering::SeqCst);
    }
    /// None any more.
    pub fn end() {
        PLACES.store(0, Ordering::SeqCst);
    }
}

impl Pause {
    /// Lets others go on, if a test wants that here.
    #[inline]
    pub fn here(self) {
        let places = PLACES.load(Ordering::Relaxed);
        if places != 0 && places & 1 << self as u8 != 0 {
            linger();
        }
    }
}

#[cold]
fn linger() {
    let seed = SEED.load(Ordering::Relaxed);
    let (of, mut at) = CHANCE.get();
    if of != seed || at == 0 {
        // Each thread has its own: where this lies differs by thread.
        let own = CHANCE.with(|chance| std::ptr::from_ref(chance).addr() as u64);
        at = (seed ^ own).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    }
    at ^= at << 13;
    at ^= at >> 7;
    at ^= at << 17;
    CHANCE.set((seed, at));
    match (at >> 32) % 8 {
        0 => std::thread::sleep(Duration::from_micros((at >> 40) % 300)),
        1..4 => std::thread::yield_now(),
        _ => {}
    }
}

/// Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mistake {
    None,
    /// Rows are reverted each at its last write.
    LastWriteFirst,
    /// The state of a version's writer is asked for twice.
    AskedTwice,
    /// What an update deletes of its transaction's own goes at once, though it may have to come back.
    KeyFreed,
    /// Going back to a savepoint aborts the oldest of the ids first.
    OldestIdFirst,
    /// The newest committed version is one that its transaction has replaced itself.
    Intermediate,
}

static MISTAKE: AtomicU8 = AtomicU8::new(0);

impl Mistake {
    /// For the whole process, from now on.
    pub fn plant(self) {
        MISTAKE.store(self as u8, Ordering::SeqCst);
    }
    /// Whether it is this one.
    #[inline]
    pub fn is_planted(self) -> bool {
        MISTAKE.load(Ordering::Relaxed) == self as u8
    }
}
