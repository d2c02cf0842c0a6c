//! Where a page that is not in memory comes from: `page = redo(base, records)`.
//!
//! | file | concept |
//! |---|---|
//! | `pending_redo.rs` | after a crash: the pages whose base in the file lacks records of the log |
//! | `last_written.rs` | what this process wrote last, so that a write which was lost is noticed |
//! | `newer.rs` | pages that are newer than the log was at the open |
//! | `copy.rs` | copies of pages as they are in their files, for a backup |
//! | `repair.rs` | a page whose base in the file is of no use, from what is kept of it elsewhere |
//! | `unread.rs` | pages that the device cannot read, which may be too many |
//! | `remote.rs` | pages that are in no file of this process, and how new they must be |
//! | `cached.rs` | copies of those on a local disk, and when they count |
//! | `restore.rs` | files that are made anew, in segments, as their pages are asked for |
//!
//! The base is the page in the data file. After a crash, pages named in
//! [`PendingRedo`] have log records that the data file may lack; they are found by
//! walking the page's own chain of log records backwards from its last one (each
//! record names the previous record of the same page) and applied in order. One entry
//! a page is all the memory this needs, and analysis never keeps records.
//!
//! A base that is missing or damaged does no harm when the chain reaches back to a
//! record that formats the whole page. Where it does not, or there is no chain, the page is rebuilt from
//! its history ([`PageHistory`]), if one is given.

mod cached;
mod copy;
mod last_written;
mod newer;
mod pending_redo;
mod remote;
mod repair;
mod restore;
#[cfg(test)]
mod tests;
mod unread;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::RwLock;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_log::{Log, LogHold};
use resurgam_page::{PageBuf, PageFault, PageOp, op};
use resurgam_vfs::File;

use crate::files::Files;
use crate::images::Images;
use crate::openings::{OTHER_FILES, Openings};
use crate::patience;
use crate::planted::Planted;
use crate::stats::{Counters, bump};
use last_written::{LastWritten, Written};
use newer::Newer;
use unread::Unread;

pub use cached::{Copied, PageCache, PageCacheState, PageCacheStatus};
pub use copy::FilePage;
pub use pending_redo::{PendingRedo, RedoEntry, StuckPage};
pub(crate) use remote::{Came, Remote};
pub use remote::{Had, RemotePages};
pub(crate) use repair::Unsaved;
pub use repair::{Newest, PageHistory, Rebuild, Repair};
pub use restore::{RestoreProgress, Restoring, SEGMENT_PAGES, Segment, SegmentMaker};
pub(crate) use unread::UNREADABLE_MAX;

/// What is wrong with the page in the file.
enum Fault {
    /// It cannot be used at all.
    Page(PageFault),
    /// It is sound, and older than what this process wrote there last.
    LostWrite { page: PageId, found: Lsn },
    /// What the log has for it cannot be applied.
    Redo(Error),
    /// It cannot be read.
    Unread(Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page(fault) => fault.fmt(f),
            Self::Redo(error) | Self::Unread(error) => f.write_str(error.message()),
            Self::LostWrite { page, found } => write!(
                f,
                "page {page} is there as of LSN {found}, which is not what was written last: the device lost a write"
            ),
        }
    }
}

/// Outcome of [`Sources::load`].
pub(crate) struct Loaded {
    /// Records applied; 0 = the base was current.
    pub redone: usize,
    /// From where the log is needed until the page is written; none = the page is clean.
    pub needs_log_from: Lsn,
    /// It was rebuilt; what is in the file is of no use.
    pub repaired: Option<Repaired>,
}

/// Of a page that was rebuilt.
pub(crate) struct Repaired {
    /// What is in the file looks sound, so that nothing but this process's memory tells that it is not: the page
    /// is to be written at once.
    pub stale: bool,
    /// Keeps the log that it was rebuilt from.
    pub hold: Option<LogHold>,
}

impl Loaded {
    /// Of a page that is in no file, and clean.
    pub fn nothing() -> Self {
        Self::from_file(0, Lsn::NONE)
    }
    fn from_file(redone: usize, needs_log_from: Lsn) -> Self {
        Self { redone, needs_log_from, repaired: None }
    }
}

/// What a page that is not in memory is made from.
pub(crate) struct Sources {
    pub files: Files,
    log: Arc<Log>,
    pub pending: PendingRedo,
    newer: Newer,
    pub openings: Openings,
    last_written: LastWritten,
    pub unsaved: Unsaved,
    pub unread: Unread,
    history: OnceLock<Arc<dyn PageHistory>>,
    /// Pages are there, and in no file.
    remote: OnceLock<Remote>,
    /// A device that is dead can be replaced.
    pub replaceable: AtomicBool,
    is_restoring: AtomicBool,
    restoring: RwLock<Option<Arc<Restoring>>>,
    /// Held shared while a segment is written: which restore counts, and which file is in use, stay.
    pub restores: RwLock<()>,
}

impl Sources {
    /// `memory_bytes` is what the pool takes for pages: what is remembered of writes goes by it.
    pub fn new(files: Files, log: Arc<Log>, memory_bytes: usize) -> Self {
        Self {
            files,
            newer: Newer::than(log.end_lsn()),
            openings: Openings::default().and(log.opening()),
            log,
            pending: PendingRedo::default(),
            last_written: LastWritten::of(memory_bytes),
            unsaved: Unsaved::default(),
            unread: Unread::default(),
            history: OnceLock::new(),
            remote: OnceLock::new(),
            replaceable: AtomicBool::new(false),
            is_restoring: AtomicBool::new(false),
            restoring: RwLock::default(),
            restores: RwLock::default(),
        }
    }

    /// Pages are rebuilt from there from now on; the first one given stays.
    pub fn set_history(&self, history: Arc<dyn PageHistory>) {
        let _ = self.history.set(history);
    }

    /// Pages come from there from now on, before the first one is read.
    pub fn set_remote(&self, remote: Remote) {
        let _ = self.remote.set(remote);
    }

    /// Where pages are, if they are in no file.
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.get()
    }

    /// Whether the file of a page that cannot be read cannot be read elsewhere either.
    pub fn is_whole_file_unread(&self, page: PageId) -> bool {
        let elsewhere = PageId::of_file(page.file(), if page.in_file() <= 1 { 2 } else { 1 });
        let Ok((file, offset)) = self.files.locate(elsewhere) else { return false };
        file.read_at(&mut [0; 512], 0).is_err() && file.read_at(&mut [0; 512], offset).is_err()
    }

    /// Whether the page's place in its file is as if nothing was ever written there, and this process wrote nothing, as
    /// far as it remembers.
    pub fn is_unwritten(&self, page: PageId) -> Result<bool> {
        if !self.last_written.of_page(page).is_unknown() {
            return Ok(false);
        }
        let (file, offset) = self.files.locate(page)?;
        let mut buf = PageBuf::zeroed();
        file.read_at(buf.as_bytes_mut(), offset)?;
        Ok(buf.is_all_zero())
    }

    /// Nothing of the page's place in its file counts any more.
    pub fn forget_page(&self, page: PageId) {
        self.pending.done(page);
        self.last_written.forget_page(page);
        self.unsaved.saved(&[page]);
    }

    /// Nothing of the file from `first` on counts any more.
    pub fn forget_from(&self, first: PageId) {
        self.last_written.forget_from(first);
        for (page, _) in self.pending.snapshot() {
            if page.file() == first.file() && page >= first {
                self.pending.done(page);
            }
        }
    }

    pub fn set_restoring(&self, restoring: Option<Arc<Restoring>>) {
        let mut slot = self.restoring.write();
        self.is_restoring.store(restoring.is_some(), Ordering::SeqCst);
        *slot = restoring;
    }

    pub fn restoring(&self) -> Option<Arc<Restoring>> {
        if !self.is_restoring.load(Ordering::SeqCst) {
            return None;
        }
        self.restoring.read().clone()
    }

    /// The page is about to be written as a part of its segment.
    fn note_restored(&self, page: PageId, lsn: Lsn) {
        self.newer.note_written(&[page]);
        self.last_written.note(page, lsn);
    }

    /// These are about to be written in place.
    pub fn note_written(&self, images: &Images) {
        self.newer.note_written(&images.ids);
        for (page, lsn) in images.ids.iter().zip(&images.lsns) {
            self.last_written.note(*page, *lsn);
        }
    }

    /// Brings `page` into `buf`. Its segment is restored, if its file is being.
    ///
    /// # Errors
    /// `Io` when it cannot be read now; `Corrupt`, naming file, page and reason, when what is there cannot be
    /// used and the page could not be rebuilt.
    pub fn load(&self, page: PageId, buf: &mut PageBuf, counters: &Counters) -> Result<Loaded> {
        if let Some(remote) = self.remote() {
            let (wait, begun) = (patience::Wait::begin(), Instant::now());
            let outcome = remote.load(page, buf, self.log.end_lsn(), &|| wait.check());
            // Those that ended with an error are the longest.
            if !matches!(outcome, Ok(Came::FromCache)) {
                counters.remote_waits.note(begun.elapsed());
            }
            match &outcome {
                Ok(Came::FromAfar) => bump(&counters.remote_pages, 1),
                Ok(Came::Confirmed) => bump(&counters.confirmed_pages, 1),
                Ok(Came::FromCache) => bump(&counters.cached_pages, 1),
                Err(_) => {}
            }
            return outcome.map(|_| Loaded::from_file(0, Lsn::NONE));
        }
        let (file, offset) = self.files.locate(page)?;
        let file = &*file;
        let mut fault = match read_base(file, offset, page, buf) {
            Ok(fault) => fault.map(Fault::Page),
            // One page that cannot be read is repaired. A device on which nothing can be read is dead, and replaced.
            Err(error)
                if error.kind() == ErrorKind::Io
                    && self.history.get().is_some()
                    && !(self.replaceable.load(Ordering::SeqCst) && self.is_whole_file_unread(page)) =>
            {
                bump(&counters.unreadable_pages, 1);
                self.unread.note(page, Instant::now());
                buf.as_bytes_mut().fill(0);
                Some(Fault::Unread(error))
            }
            Err(error) => return Err(error),
        };
        let (pending, written) = (self.pending.get(page), self.last_written.of_page(page));
        if fault.is_none() {
            if let Some(end) = self.newer.is_beyond(page, buf.lsn()) {
                let what = format!("page {page} of \"{}\"", file.path().display());
                return Err(newer_than_log(&what, buf.lsn(), end));
            }
            if let Some(misfit) = self.openings.misfit(buf) {
                return Err(misfit.error(&format!("page {page} of \"{}\"", file.path().display())));
            }
            buf.forget_writer();
            let older = || written.is_unknown() && self.is_older_than_known(page, buf.lsn(), counters);
            if pending.is_none() && (written.is_other(buf.lsn()) || older()) {
                bump(&counters.lost_writes, 1);
                fault = Some(Fault::LostWrite { page, found: buf.lsn() });
            }
        }
        match (pending, fault) {
            (None, None) => Ok(Loaded::from_file(0, Lsn::NONE)),
            (None, Some(fault)) => self.repair(file, page, buf, &fault, counters, None, written),
            (Some(entry), fault) => match self.redo(file, page, buf, fault.is_none(), entry) {
                Ok(Some(loaded)) => Ok(loaded),
                // Its chain does not reach back to where the page was made.
                Ok(None) => {
                    let fault = fault.unwrap_or(Fault::Page(PageFault::Zero { expected: page }));
                    self.repair(file, page, buf, &fault, counters, Some(entry), written)
                }
                Err(error) if error.kind() == ErrorKind::Corrupt && self.history.get().is_some() => {
                    let fault = match fault {
                        // That the log does not make up for what cannot be read is no fault of the page.
                        Some(Fault::Unread(unread)) => Fault::Unread(unread),
                        _ => Fault::Redo(error),
                    };
                    self.repair(file, page, buf, &fault, counters, Some(entry), written)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Whether the history knows later records of a page than the one that it was found as of. It does not await redo, so all of them
    /// should be in the file.
    fn is_older_than_known(&self, page: PageId, found: Lsn, counters: &Counters) -> bool {
        let Some(history) = self.history.get() else { return false };
        if Planted::NotCompared.is_planted() {
            return false;
        }
        match history.newest(page, found) {
            Newest::NoSource => return false,
            Newest::Known { last, .. } if last > found => return true,
            Newest::Known { complete: true, .. } => {
                bump(&counters.first_reads_compared, 1);
                // So it is not asked again.
                self.last_written.note_read(page, found);
            }
            Newest::Known { .. } | Newest::Skipped => bump(&counters.first_reads_not_compared, 1),
        }
        false
    }

    /// Applies what the log has for the page. `None`: the base is needed, and of no use.
    fn redo(
        &self,
        file: &dyn File,
        page: PageId,
        buf: &mut PageBuf,
        usable: bool,
        entry: RedoEntry,
    ) -> Result<Option<Loaded>> {
        let base_lsn = if usable { buf.lsn() } else { Lsn::NONE };
        if usable && base_lsn >= entry.last_lsn {
            // Current as far as one can read, but perhaps in the system's cache only, and there as
            // written (after a failed sync). It counts as dirty, so that it is written again
            // before the log that could redo it may go.
            return Ok(Some(Loaded::from_file(0, entry.rec_lsn)));
        }
        let mut chain = Vec::new();
        let mut lsn = entry.last_lsn;
        let mut whole = false;
        let mut before = Lsn::NONE;
        while lsn > base_lsn {
            let record = self.log.read_record(lsn).map_err(|e| {
                let aside = if entry.aside { "; it is set aside" } else { "" };
                let what = format!(
                    "page {page} of \"{}\" (as of {base_lsn}, to be redone from {} to {}) needs the log record at {lsn}, \
                     which cannot be read: {e}{aside}",
                    file.path().display(),
                    entry.rec_lsn,
                    entry.last_lsn
                );
                // A file that cannot be read now is not a damaged one.
                Error::new(if e.kind() == ErrorKind::Io { ErrorKind::Io } else { ErrorKind::Corrupt }, what)
            })?;
            if record.header.page != page || record.header.prev_page >= lsn {
                return Err(Error::corrupt(format!(
                    "the log record at {lsn} does not belong to the chain of page {page}"
                )));
            }
            let previous = record.header.prev_page;
            before = previous;
            whole = replaces_whole_page(&record.body);
            chain.push((lsn, record.body));
            if whole || previous.is_none() {
                break;
            }
            lsn = previous;
        }
        if !usable && !whole {
            return Ok(None);
        }
        if !whole && before != base_lsn {
            // Each record is made for the page as the one before it has left it.
            let first = chain.last().map_or(lsn, |(first, _)| *first);
            return Err(Error::corrupt(format!(
                "page {page} of \"{}\" is there as of LSN {base_lsn}, and its log record at LSN {first} follows one at \
                 LSN {before}: the page in the file is not of this log",
                file.path().display()
            )));
        }
        if whole {
            buf.as_bytes_mut().fill(0);
        }
        let redone = chain.len();
        for (lsn, body) in chain.iter().rev() {
            if Planted::LastOfRunForgotten.is_planted()
                && let Some(short) = without_last(body)
            {
                op::apply(buf, page, &short, *lsn)?;
                continue;
            }
            op::apply(buf, page, body, *lsn)?;
        }
        // Not only from the first record applied: the base, too, may not be on the disk yet.
        Ok(Some(Loaded::from_file(redone, entry.rec_lsn)))
    }

    /// Rebuilds a page from its history, which must lead to what was `written` last. It counts as dirty: what is in the file is of no use.
    fn repair(
        &self,
        file: &dyn File,
        page: PageId,
        buf: &mut PageBuf,
        fault: &Fault,
        counters: &Counters,
        pending: Option<RedoEntry>,
        written: Written,
    ) -> Result<Loaded> {
        let damaged = damaged(file, page, fault);
        let Some(history) = self.history.get() else { return Err(damaged) };
        let in_vain = |why: &Error| {
            // A source that cannot be read now may be well again; then the page is.
            let may_pass = why.kind() == ErrorKind::Io || matches!(fault, Fault::Unread(_));
            let kind = if may_pass { ErrorKind::Io } else { ErrorKind::Corrupt };
            Error::new(kind, format!("{damaged}; it could not be rebuilt: {}", why.message())).with_hint(HINT)
        };
        if let Some(why) = history.given_up(page, written.mark()) {
            return Err(in_vain(&why));
        }
        let stale = matches!(fault, Fault::LostWrite { .. });
        let why = match repair::rebuild(&**history, page, stale, buf) {
            Ok(_) if written.is_other(buf.lsn()) => Error::corrupt(format!(
                "what is known of it ends at LSN {}, and it was written with another one",
                buf.lsn()
            )),
            Ok(_) if pending.is_some_and(|entry| entry.last_lsn != buf.lsn()) => Error::corrupt(format!(
                "what is known of it ends at LSN {}, its last record is at LSN {}",
                buf.lsn(),
                pending.map_or(Lsn::NONE, |entry| entry.last_lsn)
            )),
            Ok(rebuilt) => {
                bump(&counters.repaired_pages, 1);
                history.repaired(&Repair {
                    page,
                    path: file.path().to_path_buf(),
                    fault: fault.to_string(),
                    base: rebuilt.base,
                    records: rebuilt.records,
                    lsn: buf.lsn(),
                    took: rebuilt.took,
                });
                // It is in no file: all the log that there is of what it was made from is needed.
                let kept = rebuilt.hold.as_ref().map_or_else(|| self.log.oldest_lsn(), LogHold::lsn);
                let from = rebuilt.first.max(kept);
                if let Some(hold) = &rebuilt.hold {
                    hold.advance(from);
                }
                let from = pending.filter(|entry| !entry.aside).map_or(from, |entry| entry.rec_lsn.min(from));
                let repaired = Some(Repaired { stale, hold: rebuilt.hold });
                return Ok(Loaded { redone: 0, needs_log_from: from, repaired });
            }
            Err(why) => why,
        };
        history.failed(page, written.mark(), &why);
        Err(in_vain(&why))
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

/// Whether the record makes the page anew, so that nothing before it matters.
pub fn replaces_whole_page(body: &[u8]) -> bool {
    matches!(op::decode(body).next(), Some(Ok(PageOp::Format { .. } | PageOp::Image { .. })))
}

/// Something that was written at `lsn` is newer than the log, which ended at `end`.
/// A mistake, made on purpose: the body of a record that begins by inserting several rows, without the last of them. `None`: it is none.
#[cold]
fn without_last(body: &[u8]) -> Option<Vec<u8>> {
    let mut ops = op::decode(body);
    let Some(Ok(PageOp::InsertMany { slot, records })) = ops.next() else { return None };
    let mut short = Vec::new();
    op::insert_many(&mut short, slot, records.iter().take(records.len().saturating_sub(1)));
    for rest in ops {
        if let Ok(PageOp::SetFlags { set, clear }) = rest {
            op::set_flags(&mut short, set, clear);
        }
    }
    Some(short)
}

pub(crate) fn newer_than_log(what: &str, lsn: Lsn, end: Lsn) -> Error {
    Error::corrupt(format!("{what} was changed at LSN {lsn}, but the log that was found ends at LSN {end}"))
        .with_hint(OTHER_FILES)
}

const HINT: &str = "Run \"resurgam check\" on the data folder to see what else is affected.";

fn damaged(file: &dyn File, page: PageId, fault: &Fault) -> Error {
    let what = match fault {
        Fault::Redo(error) => error.message().to_owned(),
        Fault::Unread(error) => format!("page {page} cannot be read: {}", error.message()),
        _ => format!("page {page} of \"{}\" is damaged: {fault}", file.path().display()),
    };
    Error::new(ErrorKind::Corrupt, what).with_hint(HINT)
}
