//! Single-page repair: where a damaged page's records come from, and what was repaired.
//!
//! A page that cannot be used is rebuilt while it is being read ([`resurgam_buffer::PageHistory`]), from the archive,
//! where there is one, and the log behind it: one lookup in each run, and a pass over the log that is not archived
//! yet, which is made once for all pages. An archive that was begun with the database has every page.
//!
//! Without an archive it is rebuilt from the log as far as that is kept: that covers pages that were made since, and
//! writes that the device lost and whose records are still there. Whoever reads the page waits for a pass over the log
//! (its bound is `log_bytes_max`; a gigabyte takes about a second); nobody else does.
//!
//! Where the archive was begun later than the page, its image in the newest backup is what the records are applied to.
//!
//! A page that could not be rebuilt, for whatever reason, is not tried again for a while, so that a statement that
//! meets it a thousand times is told the same a thousand times, and reads nothing.
//!
//! | file | concept |
//! |---|---|
//! | `repair.rs` | where a page's records come from, what was repaired, and what could not be |
//! | `repair/first_reads.rs` | how new a page must be that this process has not written |
//! | `repair/lag.rs` | what the archive lacks for that |
//! | `repair/in_log.rs` | a page's records in the log: one pass over it for all pages |

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_archive::{BackupSummary, History, View};
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result};
use resurgam_buffer::{Newest, PageHistory, Rebuild, Repair, SegmentMaker};
use resurgam_log::{Log, LogHold};
use resurgam_page::PageBuf;
use resurgam_vfs::Vfs;

use crate::archiver::Archiver;
use crate::backup_places::Backups;
use crate::database::Database;
use crate::options::Options;
use first_reads::FirstReads;
use in_log::InLog;
use lag::Lag;

mod first_reads;
mod in_log;
mod lag;

/// Repairs that are listed.
const LISTED_MAX: usize = 100;
/// Pages that could not be rebuilt, and for how long that is remembered; less where something could not be read, which
/// may be well again.
const IN_VAIN_MAX: usize = 1000;
const IN_VAIN: Duration = Duration::from_secs(10);
const UNREAD: Duration = Duration::from_secs(1);

/// What page tables of the archive may take of the memory for pages: one part in so many.
const TABLES_SHARE: usize = 64;
const TABLES_MIN: usize = 256 << 10;

/// A page that was found damaged and rebuilt, see [`Database::repairs`].
#[derive(Clone, Debug)]
pub struct RepairedPage {
    /// What was wrong, and from what it was rebuilt.
    pub repair: Repair,
    /// When, in microseconds since 2000-01-01 UTC.
    pub at_us: i64,
    /// Whose it is, if the space map can be read.
    pub object: Option<ObjectId>,
}

/// That a page could not be rebuilt.
struct InVain {
    written: u32,
    until: Instant,
    why: Error,
}

/// Archive and log as the history of pages.
pub(crate) struct Repairs {
    log: Arc<Log>,
    archiver: Option<Arc<Archiver>>,
    backups: Option<Arc<Backups>>,
    /// Pages of the database that this one was made of, as of the cut, and where this one's own log begins.
    parent: Mutex<Option<(Lsn, Arc<dyn SegmentMaker>)>>,
    vfs: Arc<dyn Vfs>,
    in_log: InLog,
    /// None: first reads are not compared.
    first_reads: Option<FirstReads>,
    /// The newest last.
    listed: Mutex<VecDeque<RepairedPage>>,
    /// Pages that could not be rebuilt as they were written: until when they are not tried again, and why.
    in_vain: Mutex<HashMap<PageId, InVain>>,
}

impl Repairs {
    pub fn of(
        log: &Arc<Log>,
        vfs: &Arc<dyn Vfs>,
        archiver: Option<Arc<Archiver>>,
        backups: Option<Arc<Backups>>,
        options: &Options,
        checkpoint: Lsn,
    ) -> Arc<Self> {
        let first_reads = (options.compare_first_reads && archiver.is_some()).then(|| {
            let bytes = (options.buffer_bytes / TABLES_SHARE).max(TABLES_MIN);
            FirstReads::new(bytes, Lag::of(log, checkpoint), !options.background)
        });
        Arc::new(Self {
            log: Arc::clone(log),
            archiver,
            backups,
            parent: Mutex::default(),
            vfs: Arc::clone(vfs),
            in_log: InLog::of(log),
            first_reads,
            listed: Mutex::default(),
            in_vain: Mutex::default(),
        })
    }

    /// The page's image in the newest backup, and from where on all records must be known; `None`: there is none.
    fn in_backup(&self, page: PageId, buf: &mut PageBuf) -> Result<Option<Lsn>> {
        let Some(backups) = &self.backups else { return Ok(None) };
        // Without all records since, a page that has none in what is left would come back as it was then. And what ends
        // behind the log is of another history.
        let Some(archive) = self.archiver.as_ref().and_then(|archiver| archiver.view()) else { return Ok(None) };
        let end = self.log.end_lsn();
        let fits = |backup: &BackupSummary| {
            archive.start().is_some() && archive.start() <= backup.begin && backup.end <= archive.end().min(end)
        };
        // What the archive and the log have may do without it.
        backups.image_of(page, fits, buf).or_else(|error| {
            tracing::warn!("page {page} is rebuilt without the newest backup: {error}");
            buf.as_bytes_mut().fill(0);
            Ok(None)
        })
    }

    /// Damaged pages are rebuilt from there as well, as long as all records of this database's own are kept, from that position on.
    pub fn set_parent(&self, parent: Option<(Lsn, Arc<dyn SegmentMaker>)>) {
        *self.parent.lock() = parent;
    }

    /// The page as the database had it that this one was made of, and from where on all records must be known; `None`: there is none.
    fn of_parent(&self, page: PageId, buf: &mut PageBuf) -> Option<Lsn> {
        let (first, parent) = self.parent.lock().clone()?;
        // A page that was changed since, and of which no record is kept, would come back as it was at the cut. (To make it takes long: what is known then
        // counts, see `records`.)
        let archive = self.archiver.as_ref().and_then(|archiver| archiver.view());
        let archived = archive.is_some_and(|view| view.start().is_some() && view.start() <= first);
        if !archived && self.log.oldest_lsn() > first {
            return None;
        }
        buf.as_bytes_mut().fill(0);
        match parent.make(page, std::slice::from_mut(buf)) {
            Ok(0) if !buf.is_all_zero() => return Some(first),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("page {page} is rebuilt without the database that this one was made of: {error}")
            }
        }
        buf.as_bytes_mut().fill(0);
        None
    }

    /// Gives back what is kept for repairs where there was none for a while.
    pub fn forget_idle(&self) {
        self.in_log.forget_idle();
        if let (Some(first_reads), Some(view)) = (&self.first_reads, self.archiver.as_ref().and_then(|of| of.view())) {
            first_reads.forget(view.end());
        }
    }

    /// Holds all of the log that is kept. What is older is in the archive, for that holds the log from its end on.
    fn hold(&self) -> Result<LogHold> {
        loop {
            match self.log.hold("the repair of pages", self.log.oldest_lsn()) {
                // It was truncated just now.
                Err(error) if error.kind() == ErrorKind::NotInPrerequisiteState => continue,
                other => return other,
            }
        }
    }
}

/// Gives `onto` the page's records behind `after` that are in the archive.
fn in_archive(view: &Arc<View>, page: PageId, after: Lsn, onto: &mut Rebuild<'_>) -> Result<()> {
    // Where it begins later than the page did, the chain of what is found says so.
    let from = after.max(Lsn(view.start().0.saturating_sub(1)));
    let to = Lsn(view.end().0 - 1);
    if from >= to {
        return Ok(());
    }
    view.fold_page(page, from, to, History::SinceAnew, &mut |record| {
        onto.apply(record.lsn, record.header.prev_page, record.body);
        Ok(ControlFlow::Continue(()))
    })
}

impl PageHistory for Repairs {
    fn base(&self, page: PageId, buf: &mut PageBuf) -> Result<Option<Lsn>> {
        Ok(self.in_backup(page, buf)?.or_else(|| self.of_parent(page, buf)))
    }

    fn records(&self, page: PageId, after: Lsn, onto: &mut Rebuild<'_>) -> Result<Option<LogHold>> {
        // Held before it is looked what the archive has: what is archived meanwhile is not in that view, and must not
        // go from the log.
        let hold = self.hold()?;
        let view = self.archiver.as_ref().and_then(|archiver| archiver.view());
        let mut refused = None;
        if view.is_none() && self.archiver.is_some() {
            refused = Some(Error::new(ErrorKind::Io, "the archive cannot be read now"));
        }
        let view = view.filter(|view| view.end() > view.start());
        let archived = view.as_ref().map_or(Lsn::NONE, |view| view.end());
        let known = view.as_ref().map_or(hold.lsn(), |view| view.start().min(hold.lsn()));
        let mut chain = self.in_log.chain(page, after, archived.max(hold.lsn()))?;
        if let Some(view) = view
            && !chain.is_complete()
            && let Err(error) = in_archive(&view, page, after, onto)
        {
            // It cannot be read, is damaged, or does not reach back far enough. The log may have it all.
            onto.start_over();
            chain = self.in_log.chain(page, after, hold.lsn())?;
            refused = Some(error);
        }
        self.in_log.give(page, &chain, onto)?;
        match refused {
            Some(error) if !onto.is_whole() => return Err(error),
            _ => {}
        }
        // The log was truncated, or the archive gave its beginning up, while the image was made.
        match onto.needs().filter(|needs| *needs < known) {
            Some(needs) => Err(Error::corrupt(format!(
                "its records are known from LSN {known} on, there is none among them, and the image of it that was kept needs all from LSN {needs} on"
            ))),
            None => Ok(Some(hold)),
        }
    }

    fn newest(&self, page: PageId, found: Lsn) -> Newest {
        let (Some(first_reads), Some(archiver)) = (&self.first_reads, &self.archiver) else { return Newest::NoSource };
        // What ends behind the log is of another history.
        let view = archiver.view().filter(|view| view.end() <= self.log.end_lsn());
        first_reads.newest(view.as_ref(), page, found)
    }

    fn given_up(&self, page: PageId, written: u32) -> Option<Error> {
        let in_vain = self.in_vain.lock();
        let known = in_vain.get(&page).filter(|known| known.written == written && Instant::now() < known.until);
        known.map(|known| known.why.clone())
    }

    fn failed(&self, page: PageId, written: u32, why: &Error) {
        let now = Instant::now();
        let mut in_vain = self.in_vain.lock();
        if in_vain.len() >= IN_VAIN_MAX {
            in_vain.retain(|_, known| now < known.until);
        }
        // A thousand in ten seconds: those on top are looked for each time.
        if in_vain.len() < IN_VAIN_MAX {
            let length = if why.kind() == ErrorKind::Io { UNREAD } else { IN_VAIN };
            in_vain.insert(page, InVain { written, until: now + length, why: why.clone() });
        }
    }

    fn repaired(&self, repair: &Repair) {
        tracing::error!(
            "page {} of \"{}\" was damaged and is rebuilt from {} log records in {:.1?}: {}",
            repair.page,
            repair.path.display(),
            repair.records,
            repair.took,
            repair.fault
        );
        let mut listed = self.listed.lock();
        if listed.len() >= LISTED_MAX {
            listed.pop_front();
        }
        listed.push_back(RepairedPage { repair: repair.clone(), at_us: self.vfs.wall_clock_us(), object: None });
    }
}

impl Database {
    /// The last hundred pages that were found damaged and rebuilt since the open, the newest last.
    pub fn repairs(&self) -> Vec<RepairedPage> {
        let inner = self.inner();
        let mut listed: Vec<RepairedPage> = inner.repairs.listed.lock().iter().cloned().collect();
        for of in &mut listed {
            let owner = inner.pool.space().owner(&inner.pool, of.repair.page);
            of.object = owner.ok().filter(|owner| owner.is_some());
        }
        listed
    }
}
