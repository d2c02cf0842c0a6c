//! Single-page repair: a page whose base in the file is of no use is rebuilt from what is kept of it elsewhere, while
//! it is being read (Graefe & Kuno, "Definition, detection, and recovery of single-page failures"; *Instant
//! restore*, section 2.3).
//!
//! # Invariants
//! 1. Nobody has the page: the caller holds the latch of the frame that it is read into. So no record of it is
//!    added meanwhile, and every one that there is is durable (the page was written after it).
//! 2. Records are applied along the page's own chain: each names the one before it, the first one makes the page
//!    anew or follows the base. A gap is an error, never a page.
//! 3. The log that the page was rebuilt from is held until the page is safe in its file ([`Unsaved`]): no checkpoint that
//!    knows nothing of the page yet lets it go, and a crash before then finds it once more.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{Error, Lsn, PageId, Result};
use resurgam_log::LogHold;
use resurgam_page::{PageBuf, op};

use super::replaces_whole_page;

/// A log record of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRecord {
    pub lsn: Lsn,
    /// The record before it of the same page; none: it is the first.
    pub prev_page: Lsn,
    pub body: Vec<u8>,
}

/// What a page's history has of it.
#[derive(Default)]
pub struct PageRecords {
    /// In order, to the last one.
    pub records: Vec<PageRecord>,
    /// Keeps the log, at least from the first of these records that is still in it: it is given up only once
    /// the page that was rebuilt from them is safe in its file.
    pub hold: Option<LogHold>,
}

impl From<Vec<PageRecord>> for PageRecords {
    fn from(records: Vec<PageRecord>) -> Self {
        Self { records, hold: None }
    }
}

/// What is kept of pages besides their place in the files.
pub trait PageHistory: Send + Sync {
    /// Puts an older image of the page into `buf`; false: there is none. What is put there is verified.
    ///
    /// # Errors
    /// Those of reading it.
    fn base(&self, page: PageId, buf: &mut PageBuf) -> Result<bool>;

    /// The page's records behind `after`, in order, to the last one. Those before the last record that makes the
    /// page anew may be missing.
    ///
    /// # Errors
    /// Those of reading them; also when it cannot be told that there are no further ones.
    fn records(&self, page: PageId, after: Lsn) -> Result<PageRecords>;

    /// A page was rebuilt.
    fn repaired(&self, _repair: &Repair) {}
}

/// A page that was rebuilt.
#[derive(Clone, Debug)]
pub struct Repair {
    pub page: PageId,
    /// The file that it is of.
    pub path: PathBuf,
    /// What was wrong with it there.
    pub fault: String,
    /// The LSN of the image that it was rebuilt from; none: it was made from records alone.
    pub base: Lsn,
    /// Records that were applied.
    pub records: u64,
    /// Its LSN now.
    pub lsn: Lsn,
    pub took: Duration,
}

pub(super) struct Rebuilt {
    pub base: Lsn,
    pub records: u64,
    pub took: Duration,
    /// The first record that was applied.
    pub first: Lsn,
    pub hold: Option<LogHold>,
}

/// Makes the page anew in `buf`. `stale`: what is in it is sound, but old.
pub(super) fn rebuild(history: &dyn PageHistory, page: PageId, stale: bool, buf: &mut PageBuf) -> Result<Rebuilt> {
    let begun = Instant::now();
    let based = stale || history.base(page, buf)?;
    if based {
        buf.verify(page)
            .map_err(|fault| Error::corrupt(format!("the image of it that was kept is damaged as well: {fault}")))?;
    }
    let mut base = if based { buf.lsn() } else { Lsn::NONE };
    let PageRecords { records, hold } = history.records(page, base)?;
    if stale && records.is_empty() {
        return Err(Error::corrupt(format!("no record of it behind LSN {base} is kept")));
    }
    let made_anew = records.iter().rposition(|record| replaces_whole_page(&record.body));
    let mut before = match made_anew {
        Some(_) => {
            base = Lsn::NONE;
            buf.as_bytes_mut().fill(0);
            None
        }
        None if based => Some(base),
        None => {
            return Err(Error::corrupt(match records.first() {
                Some(first) => format!(
                    "its records are known from LSN {} on, which follows one at LSN {}, and there is no image of it",
                    first.lsn, first.prev_page
                ),
                None => "no record and no image of it is kept".to_owned(),
            }));
        }
    };
    let records = &records[made_anew.unwrap_or(0)..];
    for record in records {
        if before.is_some_and(|before| record.prev_page != before) || record.lsn <= record.prev_page {
            return Err(Error::corrupt(format!(
                "its record at LSN {} follows one at LSN {}, and not the one that is known, at LSN {}",
                record.lsn,
                record.prev_page,
                before.unwrap_or(Lsn::NONE)
            )));
        }
        op::apply(buf, page, &record.body, record.lsn)?;
        before = Some(record.lsn);
    }
    let first = records.first().map_or(Lsn::NONE, |record| record.lsn);
    Ok(Rebuilt { base, records: records.len() as u64, took: begun.elapsed(), first, hold })
}

/// Pages that were rebuilt and are only in memory, and the log that they were rebuilt from.
#[derive(Default)]
pub(crate) struct Unsaved {
    count: AtomicUsize,
    state: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Each with the lowest position that it needs.
    pages: HashMap<PageId, Lsn>,
    /// One for all of them.
    hold: Option<LogHold>,
}

impl Unsaved {
    /// `page` needs the log from where `hold` begins.
    pub fn add(&self, page: PageId, hold: Option<LogHold>) {
        let mut state = self.state.lock();
        let from = hold.as_ref().map_or(Lsn(u64::MAX), LogHold::lsn);
        state.pages.insert(page, from);
        if state.hold.as_ref().is_none_or(|known| from < known.lsn()) {
            state.hold = hold;
        }
        self.count.store(state.pages.len(), Ordering::Release);
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub fn contains(&self, page: PageId) -> bool {
        !self.is_empty() && self.state.lock().pages.contains_key(&page)
    }

    /// These are safe: the double-write area has them, or their file.
    pub fn saved(&self, written: &[PageId]) {
        if self.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for page in written {
            state.pages.remove(page);
        }
        self.count.store(state.pages.len(), Ordering::Release);
        match (state.pages.values().min(), &state.hold) {
            (Some(from), Some(hold)) if from.0 != u64::MAX => hold.advance(*from),
            _ => state.hold = None,
        }
    }
}
