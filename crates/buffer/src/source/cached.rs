//! Copies of pages on a local disk, between memory and the page servers (*Socrates*, section 4.4: RBPEX): the seam, and the rule by which
//! a copy counts. Who keeps the copies is a crate above (`resurgam-rbpex`); a database with a data file has none, and asks nobody.
//!
//! # When a copy counts
//! The cache is told of every page that leaves memory, before the page can be missed there, and forgets its copy if it does not take the new
//! one. So a copy that this life has made, or has found to be right, is the page. One of an earlier life is a statement:
//! *this page had no record between the LSN of the copy and `as_of`, which was durable*. That stays true for ever, whatever becomes
//! of the cache's files; whether the copy is current goes by what recovery knows:
//!
//! - analysis has met the page: it is current if its LSN is that of the page's last record;
//! - it has not, so there is no record of the page behind the last checkpoint: it is current if `as_of` is not before that checkpoint,
//!   and nothing newer has left memory in this life;
//! - otherwise a page server is asked, who says "not modified" or sends the page.

use std::time::Duration;

use resurgam_base::{Lsn, PageId};
use resurgam_page::PageBuf;

/// Of a copy that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The page's LSN in the copy.
    pub lsn: Lsn,
    /// Of a copy that is from before the open, and was not confirmed since: the page had no later record below this LSN.
    pub as_of: Option<Lsn>,
}

/// Whether a cache of pages is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCacheState {
    /// It reads what it had; what has been read is served.
    Reading,
    On,
    Off,
}

impl PageCacheState {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// What an operator can see of a cache of pages.
#[derive(Clone, Debug)]
pub struct PageCacheStatus {
    pub state: PageCacheState,
    /// Why it is off.
    pub error: Option<String>,
    pub bytes_max: u64,
    /// Pages in its file, and those of them that were used again, or came back.
    pub pages: u64,
    pub pages_used_again: u64,
    /// Pages that wait to be written.
    pub waiting: u64,
    /// Lookups that found a copy, and those that did not.
    pub hits: u64,
    pub misses: u64,
    /// Pages that left memory: those that were written, those that were there already, those that were not kept.
    pub admitted: u64,
    pub known: u64,
    pub rejected: u64,
    /// Copies that were found at the open; of those of whichever life, that turned out to be out of date, and that were not what they should be.
    pub recovered: u64,
    pub out_of_date: u64,
    pub damaged: u64,
    /// A moving mean of what a read takes.
    pub read_latency: Duration,
}

/// Keeps copies of pages. No call waits for long, or fails: what cannot be kept is not, what cannot be read is not there.
pub trait PageCache: Send + Sync {
    /// Fills `buf` with the copy of the page, which is whole, of this page, and of the LSN that is said. Nobody else asks for this page, or
    /// gives it, meanwhile. `None`: there is none, and anything may be in `buf`.
    fn find(&self, page: PageId, buf: &mut PageBuf) -> Option<Copied>;

    /// The page, clean, is about to leave memory like this (its checksum is not computed); it has all its records below `as_of`, which is
    /// durable. Any other copy of it is forgotten. `used`: somebody has asked for it since it came.
    fn evicted(&self, page: PageId, content: &PageBuf, as_of: Lsn, used: bool);

    /// The copy that was found is the page as it is now.
    fn confirmed(&self, page: PageId, lsn: Lsn);

    /// It is not.
    fn refuted(&self, page: PageId);

    /// Those copies of which `is_current` says so (by page, LSN, and [`Copied::as_of`]) have all records of their pages below `as_of`, which
    /// is durable: notes it, so that they count after a restart. Takes a bounded time.
    fn note_current(&self, as_of: Lsn, is_current: &dyn Fn(PageId, Lsn, Option<Lsn>) -> bool);

    /// What can be seen of it.
    fn status(&self) -> PageCacheStatus;

    /// The database is closed: what waits to be written is.
    fn close(&self);
}
