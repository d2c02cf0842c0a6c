//! The pages that still await redo after a crash: the recovered dirty page table.
//!
//! # Pages that cannot be brought up to date
//! Such a page is *stuck*: whoever asks for it gets the error, and it no longer holds up the rest. Its log
//! is kept, with which it may be mended once it can be read again, or its base was put back. When the log gets
//! too long for that the page is *set aside*: the log goes, but that the page lacks records is said by
//! every checkpoint from then on. So what the file holds of it is never taken for current, unless it is:
//! an image from elsewhere that is as new as the page was mends it. So does formatting it anew.
//!
//! A device that fails is not the page's fault: while nothing else of the file can be read either no page is tried in vain, and none is
//! set aside; and one that could not be read is tried once more before it is ([`BufferPool::set_aside`](crate::BufferPool::set_aside)).

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use resurgam_base::{Error, Lsn, PageId};

/// What analysis found of one page: its last log record, and from where the data file
/// may lack records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoEntry {
    pub rec_lsn: Lsn,
    pub last_lsn: Lsn,
    /// It is set aside: the log is not kept for it.
    pub aside: bool,
}

/// A page that cannot be brought up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckPage {
    pub page: PageId,
    pub entry: RedoEntry,
    /// Why.
    pub error: String,
}

/// Pages that still await redo (the recovered dirty page table).
#[derive(Default)]
pub struct PendingRedo {
    count: AtomicU64,
    pages: Mutex<HashMap<PageId, RedoEntry>>,
    /// Pages that could not be brought up to date. They stay pending (the log that they need
    /// is kept, and whoever asks for them gets the error), but no longer hold up the rest.
    stuck: Mutex<HashMap<PageId, String>>,
    /// What the background pass goes through, from the end.
    order: Mutex<Vec<PageId>>,
    /// Pages that could not be read, and how often that was tried.
    unread: Mutex<HashMap<PageId, u32>>,
}

/// How often a page that cannot be read is tried before it counts as one that cannot be brought up to
/// date.
const TRIES: u32 = 3;

impl PendingRedo {
    /// Pages still to be redone.
    pub fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Adds or extends a page's entry.
    pub fn note(&self, page: PageId, rec_lsn: Lsn, last_lsn: Lsn) {
        let mut pages = self.pages.lock();
        pages
            .entry(page)
            .and_modify(|e| {
                e.last_lsn = e.last_lsn.max(last_lsn);
                e.rec_lsn = e.rec_lsn.min(rec_lsn);
            })
            .or_insert(RedoEntry { rec_lsn, last_lsn, aside: false });
        self.count.store(pages.len() as u64, Ordering::Release);
    }
    /// Adds a page unless it has an entry: of one that is set aside, what came later counts (it was
    /// mended, or formatted anew).
    pub fn add(&self, page: PageId, entry: RedoEntry) {
        let mut pages = self.pages.lock();
        pages.entry(page).or_insert(entry);
        self.count.store(pages.len() as u64, Ordering::Release);
    }
    pub(crate) fn get(&self, page: PageId) -> Option<RedoEntry> {
        if self.is_empty() {
            return None;
        }
        self.pages.lock().get(&page).copied()
    }
    /// Forgets a page: its frame now carries the dirty mark, or it was formatted anew.
    pub(crate) fn done(&self, page: PageId) {
        if self.is_empty() {
            return;
        }
        let mut pages = self.pages.lock();
        if pages.remove(&page).is_some() {
            self.stuck.lock().remove(&page);
            self.unread.lock().remove(&page);
        }
        self.count.store(pages.len() as u64, Ordering::Release);
    }
    /// The pages to be tried next by the background pass; none = all were tried. Those that
    /// changed last come first: neighbours in the log share the blocks that are read for them,
    /// and an undo that runs meanwhile goes the same way.
    pub(crate) fn next(&self, limit: usize) -> Vec<PageId> {
        let pages = self.pages.lock();
        let stuck = self.stuck.lock();
        let mut order = self.order.lock();
        let wanted = |page: &PageId| pages.contains_key(page) && !stuck.contains_key(page);
        if order.is_empty() {
            let mut left: Vec<(Lsn, PageId)> =
                pages.iter().filter(|(page, _)| wanted(page)).map(|(page, entry)| (entry.last_lsn, *page)).collect();
            left.sort_unstable();
            order.extend(left.into_iter().map(|(_, page)| page));
        }
        let mut next = Vec::with_capacity(limit);
        while next.len() < limit
            && let Some(page) = order.pop()
        {
            if wanted(&page) {
                next.push(page);
            }
        }
        next
    }
    pub(crate) fn give_up(&self, page: PageId, error: &Error) {
        let pages = self.pages.lock();
        if pages.contains_key(&page) {
            self.stuck.lock().insert(page, error.to_string());
        }
    }
    /// The stuck pages that need log from before `lsn` and could not be read when they were tried last.
    pub(crate) fn unread_before(&self, lsn: Lsn) -> Vec<PageId> {
        let pages = self.pages.lock();
        let stuck = self.stuck.lock();
        let unread = self.unread.lock();
        let is_due = |page: &PageId| pages.get(page).is_some_and(|entry| entry.rec_lsn < lsn && !entry.aside);
        unread.keys().filter(|page| stuck.contains_key(*page) && is_due(page)).copied().collect()
    }
    /// Sets aside the stuck pages that need log from before `lsn`, but for those that are `spared`, and returns them.
    pub(crate) fn set_aside(&self, lsn: Lsn, spared: &HashSet<PageId>) -> Vec<StuckPage> {
        let mut pages = self.pages.lock();
        let stuck = self.stuck.lock();
        let mut set = Vec::new();
        for (page, error) in &*stuck {
            if let Some(entry) = pages.get_mut(page)
                && entry.rec_lsn < lsn
                && !entry.aside
                && !spared.contains(page)
            {
                entry.aside = true;
                set.push(StuckPage { page: *page, entry: *entry, error: error.clone() });
            }
        }
        set
    }
    /// The pages that cannot be brought up to date, and those that are set aside and were not tried since
    /// the open.
    pub fn stuck_pages(&self) -> Vec<StuckPage> {
        let pages = self.pages.lock();
        let stuck = self.stuck.lock();
        let of = |(page, entry): (&PageId, &RedoEntry)| {
            let error = match stuck.get(page) {
                Some(error) => error.clone(),
                None if entry.aside => "it was set aside before a restart".to_owned(),
                None => return None,
            };
            Some(StuckPage { page: *page, entry: *entry, error })
        };
        let mut all: Vec<_> = pages.iter().filter_map(of).collect();
        all.sort_unstable_by_key(|stuck| stuck.page);
        all
    }
    /// A page could not be read. It is tried again a few times, then it no longer holds up the rest.
    pub(crate) fn failed(&self, page: PageId, error: &Error) {
        let tries = {
            let pages = self.pages.lock();
            if !pages.contains_key(&page) {
                return;
            }
            let mut unread = self.unread.lock();
            let tries = unread.entry(page).or_default();
            *tries += 1;
            *tries
        };
        if tries >= TRIES {
            self.give_up(page, error);
        }
    }
    /// Has the background pass try once more the pages that could not be read: a device may be well
    /// again.
    pub fn try_unread(&self) {
        let unread: HashSet<PageId> = self.unread.lock().keys().copied().collect();
        let mut stuck = self.stuck.lock();
        stuck.retain(|page, _| !unread.contains(page));
    }
    /// Pages that could not be read when they were last tried.
    pub fn unread(&self) -> u64 {
        self.unread.lock().len() as u64
    }
    /// Pages that could not be brought up to date.
    pub fn stuck(&self) -> u64 {
        self.stuck.lock().len() as u64
    }
    /// Whether nothing is left to be tried.
    pub fn is_caught_up(&self) -> bool {
        self.is_empty() || {
            let pages = self.pages.lock();
            pages.len() == self.stuck.lock().len()
        }
    }
    /// Every entry: a checkpoint taken before redo is finished must carry them, and those that are set aside
    /// for ever.
    pub fn snapshot(&self) -> Vec<(PageId, RedoEntry)> {
        self.pages.lock().iter().map(|(p, e)| (*p, *e)).collect()
    }
}
