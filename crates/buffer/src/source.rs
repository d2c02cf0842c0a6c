//! Where a page that is not in memory comes from: `page = redo(base, records)`.
//!
//! The base is the page in the data file. After a crash, pages named in
//! [`PendingRedo`] have log records that the data file may lack; they are found by
//! walking the page's own chain of log records backwards from its last one (each
//! record names the previous record of the same page) and applied in order. One entry
//! a page is all the memory this needs, and analysis never keeps records.
//!
//! A base that is missing or damaged does no harm when the chain reaches back to a
//! record that formats the whole page.
//!
//! # Pages that cannot be brought up to date
//! Such a page is *stuck*: whoever asks for it gets the error, and it no longer holds up the rest. Its log
//! is kept, with which it may be mended once it can be read again, or its base was put back. When the log gets
//! too long for that the page is *set aside*: the log goes, but that the page lacks records is said by
//! every checkpoint from then on. So what the file holds of it is never taken for current, unless it is:
//! an image from elsewhere that is as new as the page was mends it. So does formatting it anew.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_log::Log;
use resurgam_page::{PageBuf, PageFault, PageOp, op};
use resurgam_vfs::File;

use crate::files::Files;
use crate::newer::Newer;

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
    /// Sets aside the stuck pages that need log from before `lsn`, and returns them.
    pub fn set_aside(&self, lsn: Lsn) -> Vec<StuckPage> {
        let mut pages = self.pages.lock();
        let stuck = self.stuck.lock();
        let mut set = Vec::new();
        for (page, error) in &*stuck {
            if let Some(entry) = pages.get_mut(page)
                && entry.rec_lsn < lsn
                && !entry.aside
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

/// Reads the base image of `page` into `buf`. `Ok(Some(fault))` = readable but not usable.
fn read_base(file: &dyn File, offset: u64, page: PageId, buf: &mut PageBuf) -> Result<Option<PageFault>> {
    let read = file.read_at(buf.as_bytes_mut(), offset)?;
    if read < PAGE_SIZE {
        buf.as_bytes_mut()[read..].fill(0);
    }
    Ok(buf.verify(page).err())
}

/// Outcome of [`load`].
pub(crate) struct Loaded {
    /// Records applied; 0 = the base was current.
    pub redone: usize,
    /// From where the log is needed until the page is written; none = the page is clean.
    pub needs_log_from: Lsn,
}

/// Brings `page` into `buf`: base image, then pending redo.
pub(crate) fn load(
    files: &Files,
    log: &Log,
    pending: &PendingRedo,
    newer: &Newer,
    page: PageId,
    buf: &mut PageBuf,
) -> Result<Loaded> {
    let (file, offset) = files.locate(page)?;
    let fault = read_base(file, offset, page, buf)?;
    if fault.is_none()
        && let Some(end) = newer.is_beyond(page, buf.lsn())
    {
        return Err(newer_than_log(&format!("page {page} of \"{}\"", file.path().display()), buf.lsn(), end));
    }
    let Some(entry) = pending.get(page) else {
        return match fault {
            None => Ok(Loaded { redone: 0, needs_log_from: Lsn::NONE }),
            Some(fault) => Err(damaged(file, page, &fault)),
        };
    };
    let base_lsn = if fault.is_none() { buf.lsn() } else { Lsn::NONE };
    if fault.is_none() && base_lsn >= entry.last_lsn {
        // Current as far as one can read, but perhaps in the system's cache only, and there as
        // written (after a failed sync). It counts as dirty, so that it is written again
        // before the log that could redo it may go.
        return Ok(Loaded { redone: 0, needs_log_from: entry.rec_lsn });
    }
    let mut chain = Vec::new();
    let mut lsn = entry.last_lsn;
    let mut whole = false;
    while lsn > base_lsn {
        let record = log.read_record(lsn).map_err(|e| {
            let aside = if entry.aside { "; it is set aside" } else { "" };
            let what = format!(
                "page {page} of \"{}\" (as of {base_lsn}, to be redone from {} to {}) needs the log record at {lsn}, which \
                 cannot be read: {e}{aside}",
                file.path().display(),
                entry.rec_lsn,
                entry.last_lsn
            );
            // A file that cannot be read now is not a damaged one.
            Error::new(if e.kind() == ErrorKind::Io { ErrorKind::Io } else { ErrorKind::Corrupt }, what)
        })?;
        if record.header.page != page || record.header.prev_page >= lsn {
            return Err(Error::corrupt(format!("the log record at {lsn} does not belong to the chain of page {page}")));
        }
        let previous = record.header.prev_page;
        whole = replaces_whole_page(&record.body);
        chain.push((lsn, record.body));
        if whole || previous.is_none() {
            break;
        }
        lsn = previous;
    }
    if let Some(fault) = fault
        && !whole
    {
        return Err(damaged(file, page, &fault));
    }
    if whole {
        buf.as_bytes_mut().fill(0);
    }
    let redone = chain.len();
    for (lsn, body) in chain.iter().rev() {
        op::apply(buf, page, body, *lsn)?;
    }
    // Not only from the first record applied: the base, too, may not be on the disk yet.
    Ok(Loaded { redone, needs_log_from: entry.rec_lsn })
}

/// Whether the record makes the page anew, so that nothing before it matters.
pub(crate) fn replaces_whole_page(body: &[u8]) -> bool {
    matches!(op::decode(body).next(), Some(Ok(PageOp::Format { .. } | PageOp::Image { .. })))
}

/// Something that was written at `lsn` is newer than the log, which ended at `end`.
pub(crate) fn newer_than_log(what: &str, lsn: Lsn, end: Lsn) -> Error {
    Error::corrupt(format!("{what} was changed at LSN {lsn}, but the log that was found ends at LSN {end}")).with_hint(
        "The end of the log is missing, or the files are not of the same database and time. Put the right ones together, \
         or restore the data folder from a backup.",
    )
}

fn damaged(file: &dyn File, page: PageId, fault: &PageFault) -> Error {
    Error::new(ErrorKind::Corrupt, format!("page {page} of \"{}\" is damaged: {fault}", file.path().display()))
        .with_hint("Run \"resurgam check\" on the data folder to see what else is affected.")
}
