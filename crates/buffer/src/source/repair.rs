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

/// What is kept of pages besides their place in the files.
pub trait PageHistory: Send + Sync {
    /// Puts an older image of the page into `buf`, and says from where on all of the page's records must be known for it to be of use
    /// ([`Rebuild::needs`]); `None`: there is none. What is put there is verified.
    ///
    /// # Errors
    /// Those of reading it.
    fn base(&self, page: PageId, buf: &mut PageBuf) -> Result<Option<Lsn>>;

    /// Gives `onto` the page's records behind `after`, in order, to the last one. Those before the last record that makes
    /// the page anew may be missing. What is returned keeps the log, at least from the first of these records that is
    /// still in it: it is given up only once the page is safe in its file.
    ///
    /// # Errors
    /// Those of reading them; also when it cannot be told that there are no further ones, or that there are none at all ([`Rebuild::needs`]).
    fn records(&self, page: PageId, after: Lsn, onto: &mut Rebuild<'_>) -> Result<Option<LogHold>>;

    /// What is known of how new the page must be that was found as of `found` in its file. It is asked of pages of which this process
    /// does not know what was written last, under the latch of the frame that the page is read into: whoever may have to
    /// wait for long gives up.
    fn newest(&self, _page: PageId, _found: Lsn) -> Newest {
        Newest::NoSource
    }

    /// Why the page could not be rebuilt a short while ago; it is not tried again now. `written` is a mark of what was written to it last, 0 of
    /// what is not known: what has failed before a page was made or changed says nothing of the page as it is now.
    fn given_up(&self, _page: PageId, _written: u32) -> Option<Error> {
        None
    }

    /// A page was rebuilt.
    fn repaired(&self, _repair: &Repair) {}

    /// A page could not be rebuilt. `written` as for [`PageHistory::given_up`].
    fn failed(&self, _page: PageId, _written: u32, _why: &Error) {}
}

/// How new a page must be; see [`PageHistory::newest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// Nothing says it.
    NoSource,
    /// It could not be told now.
    Skipped,
    /// It has a record at this LSN (none: none is known that is later than the page). `complete`: and no later one, as far as it is not
    /// for this process to know.
    Known { last: Lsn, complete: bool },
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

/// A page on its way: its records are applied as they are found, so that their number does not matter.
pub struct Rebuild<'b> {
    page: PageId,
    buf: &'b mut PageBuf,
    /// What it began with.
    base: Option<Box<PageBuf>>,
    /// See [`Rebuild::needs`].
    needs: Option<Lsn>,
    /// The page is right as of here; none: there is nothing of it yet.
    as_of: Option<Lsn>,
    /// Its records do not follow each other. One that makes it anew may follow.
    broken: Option<Error>,
    made_anew: bool,
    records: u64,
    first: Lsn,
}

impl<'b> Rebuild<'b> {
    fn new(page: PageId, buf: &'b mut PageBuf, based: bool, needs: Option<Lsn>) -> Self {
        let base = based.then(|| Box::new(buf.clone()));
        let as_of = base.as_ref().map(|base| base.lsn());
        Self { page, buf, base, needs, as_of, broken: None, made_anew: false, records: 0, first: Lsn::NONE }
    }

    /// Forgets the records that were applied: they are given once more.
    pub fn start_over(&mut self) {
        match &self.base {
            Some(base) => self.buf.as_bytes_mut().copy_from_slice(base.as_bytes()),
            None => self.buf.as_bytes_mut().fill(0),
        }
        self.as_of = self.base.as_ref().map(|base| base.lsn());
        (self.broken, self.made_anew, self.records, self.first) = (None, false, 0, Lsn::NONE);
    }

    /// Takes the next record: where it is, the one before it of the same page (none: it is the first), its body.
    pub fn apply(&mut self, lsn: Lsn, prev_page: Lsn, body: &[u8]) {
        if replaces_whole_page(body) {
            self.buf.as_bytes_mut().fill(0);
            (self.broken, self.made_anew, self.records, self.first) = (None, true, 0, lsn);
        } else if self.broken.is_some() {
            return;
        } else if let Err(what) = self.follows(lsn, prev_page) {
            self.broken = Some(Error::corrupt(what));
            return;
        }
        if self.records == 0 {
            self.first = lsn;
        }
        match op::apply(self.buf, self.page, body, lsn) {
            Ok(()) => {
                self.as_of = Some(lsn);
                self.records += 1;
            }
            Err(error) => self.broken = Some(error),
        }
    }

    /// Whether a record that does not make it anew comes next.
    fn follows(&self, lsn: Lsn, prev_page: Lsn) -> Result<(), String> {
        match self.as_of {
            Some(as_of) if prev_page == as_of && lsn > as_of => Ok(()),
            Some(as_of) => Err(format!(
                "its record at LSN {lsn} follows one at LSN {prev_page}, and not the one that is known, at LSN {as_of}"
            )),
            None => Err(format!(
                "its records are known from LSN {lsn} on, which follows one at LSN {prev_page}, and there is no image of it"
            )),
        }
    }

    /// Whether records were given, and lead from what there was of the page, or from one that makes it anew, to the last
    /// of them.
    pub fn is_whole(&self) -> bool {
        self.records > 0 && self.broken.is_none()
    }

    /// Of an image from elsewhere, while no record was given that says that it is the one before: what must be known for there to be none, all records
    /// from here on. What was known as the image was looked for may have been given up since, so who gives the records asks.
    pub fn needs(&self) -> Option<Lsn> {
        self.needs.filter(|_| self.records == 0 && self.broken.is_none())
    }
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
    let needs = if stale { None } else { history.base(page, buf)? };
    let based = stale || needs.is_some();
    if based {
        buf.verify(page)
            .map_err(|fault| Error::corrupt(format!("the image of it that was kept is damaged as well: {fault}")))?;
    }
    let base = if based { buf.lsn() } else { Lsn::NONE };
    let mut onto = Rebuild::new(page, buf, based, needs);
    let hold = history.records(page, base, &mut onto)?;
    if let Some(broken) = onto.broken {
        return Err(broken);
    }
    if onto.as_of.is_none() {
        return Err(Error::corrupt("no record and no image of it is kept"));
    }
    if stale && onto.records == 0 {
        return Err(Error::corrupt(format!("no record of it behind LSN {base} is kept")));
    }
    let base = if onto.made_anew { Lsn::NONE } else { base };
    Ok(Rebuilt { base, records: onto.records, took: begun.elapsed(), first: onto.first, hold })
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
