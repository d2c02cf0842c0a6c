//! Which page a frame holds, and who needs it to stay.
//!
//! A frame is found in two ways. *By the map of pages*: it is pinned while the map is locked, and a page is taken out while it is
//! locked exclusively. *By a hint*, without the map: it is pinned first, and seen to hold the page afterwards. Who takes a page out
//! says so beforehand in the number that counts the pins: either he finds a pin there, or who pins finds him.
//!
//! # Invariants
//! 1. While it is pinned a frame holds the page that it held when it was pinned, or none (its load has failed).
//! 2. Who has announced that a page leaves takes it out, or says that it stays; until then nobody gets a pin.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// In the number of pins: the page is being taken out.
const LEAVING: u32 = 1 << 31;

/// See the module.
#[derive(Default)]
pub(crate) struct Occupancy {
    /// The page held; 0: none.
    page: AtomicU64,
    pins: AtomicU32,
}

impl Occupancy {
    /// The page held; 0: none. For who has no pin a hint.
    #[inline]
    pub fn page(&self) -> u64 {
        self.page.load(Ordering::Relaxed)
    }

    /// Pins it; the map is locked, or the frame is the caller's.
    #[inline]
    pub fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Acquire);
    }

    /// Pins it if it holds `page`.
    #[inline]
    pub fn pin_if(&self, page: u64) -> bool {
        // Most hints that are wrong are found to be so without a write.
        if self.page.load(Ordering::Relaxed) != page {
            return false;
        }
        let before = self.pins.fetch_add(1, Ordering::Acquire);
        let is_held = before & LEAVING == 0 && self.page.load(Ordering::Acquire) == page;
        if !is_held {
            self.unpin();
        }
        is_held
    }

    #[inline]
    pub fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::Release);
        debug_assert!(before & !LEAVING > 0);
    }

    /// Whether somebody has it pinned, or takes its page out.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) != 0
    }

    /// Announces that the page leaves; the map is locked exclusively. False: somebody needs it.
    pub fn leave(&self) -> bool {
        self.pins.compare_exchange(0, LEAVING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The page stays all the same.
    pub fn stay(&self) {
        self.pins.fetch_sub(LEAVING, Ordering::Release);
    }

    /// The page that was announced to leave is out.
    pub fn left(&self) {
        self.page.store(0, Ordering::Relaxed);
        self.pins.fetch_sub(LEAVING, Ordering::Release);
    }

    /// Takes out a page that could not be loaded; the map is locked exclusively. Others may have it pinned, and find it invalid.
    pub fn give_up(&self) {
        self.page.store(0, Ordering::Relaxed);
    }

    /// Puts a page in; the caller has the frame, which holds none, pinned.
    pub fn enter(&self, page: u64) {
        self.page.store(page, Ordering::Release);
    }
}
