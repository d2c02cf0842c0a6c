//! Single-page repair: where a damaged page's records come from, and what was repaired.
//!
//! A page that cannot be used is rebuilt while it is being read ([`resurgam_buffer::PageHistory`]), from the archive,
//! where there is one, and the log behind it: one lookup in each run, and a pass over the log that is not archived
//! yet. An archive that was begun with the database has every page.
//!
//! Without an archive it is rebuilt from the log as far as that is kept: that covers pages that were made since, and
//! writes that the device lost and whose records are still there. Whoever reads the page waits for a pass over the log
//! (its bound is `log_bytes_max`; a gigabyte takes about a second); nobody else does.
//!
//! A page that could not be rebuilt is not tried again for a while, so that a statement that meets it a
//! thousand times reads the log once.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::History;
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result};
use resurgam_buffer::{PageHistory, PageRecord, PageRecords, Repair};
use resurgam_log::{Log, LogHold, RecordRef};
use resurgam_page::PageBuf;
use resurgam_vfs::Vfs;

use crate::archiver::Archiver;
use crate::database::Database;

/// Repairs that are listed.
const LISTED_MAX: usize = 100;
/// Bytes of one page's records that are taken into memory, at most.
const BYTES_MAX: usize = 64 << 20;
/// Pages whose records were looked for in vain, and for how long that is remembered.
const IN_VAIN_MAX: usize = 1000;
const IN_VAIN: Duration = Duration::from_secs(10);

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

/// Archive and log as the history of pages.
pub(crate) struct Repairs {
    log: Arc<Log>,
    archiver: Option<Arc<Archiver>>,
    vfs: Arc<dyn Vfs>,
    /// The newest last.
    listed: Mutex<VecDeque<RepairedPage>>,
    /// Pages of which the log had nothing of use, and when.
    in_vain: Mutex<VecDeque<(PageId, Instant)>>,
}

impl Repairs {
    pub fn of(log: &Arc<Log>, vfs: &Arc<dyn Vfs>, archiver: Option<Arc<Archiver>>) -> Arc<Self> {
        Arc::new(Self {
            log: Arc::clone(log),
            archiver,
            vfs: Arc::clone(vfs),
            listed: Mutex::default(),
            in_vain: Mutex::default(),
        })
    }

    fn was_in_vain(&self, page: PageId) -> bool {
        let mut in_vain = self.in_vain.lock();
        while in_vain.front().is_some_and(|(_, at)| at.elapsed() > IN_VAIN) || in_vain.len() > IN_VAIN_MAX {
            in_vain.pop_front();
        }
        in_vain.iter().any(|(of, _)| *of == page)
    }

    /// The page's records behind `after`: those of the archive, and those of the log from its end on.
    fn find(&self, page: PageId, after: Lsn) -> Result<PageRecords> {
        // Held before it is looked what the archive has: what is archived meanwhile is not in that view, and must not
        // go from the log.
        let hold = self.hold()?;
        let (mut found, mut archived, mut refused) = (Found { page, ..Found::default() }, Lsn::NONE, None);
        let view = self.archiver.as_ref().and_then(|archiver| archiver.view());
        if view.is_none() && self.archiver.is_some() {
            refused = Some(Error::new(ErrorKind::Io, "the archive cannot be read now"));
        }
        if let Some(view) = view
            && view.end() > view.start()
        {
            archived = view.end();
            // Where it begins later than the page did, the chain of what is found says so.
            let from = after.max(Lsn(view.start().0.saturating_sub(1)));
            if from.0 < archived.0 - 1 {
                let mut take = |record: RecordRef<'_>| found.add(&record).map(|()| ControlFlow::Continue(()));
                match view.fold_page(page, from, Lsn(archived.0 - 1), History::SinceAnew, &mut take) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                    // Damaged, or it does not reach back far enough. The log may have it all.
                    Err(error) => {
                        archived = Lsn::NONE;
                        found.clear();
                        refused = Some(error);
                    }
                }
            }
        }
        self.in_log(page, after, archived.max(hold.lsn()), &mut found)?;
        let records = found.records;
        match refused {
            Some(error) if !is_of_use(&records, after) => Err(error),
            _ => Ok(PageRecords { records, hold: Some(hold) }),
        }
    }

    /// Holds all of the log that is kept. What is older is in the archive, for that holds the log from its end on.
    fn hold(&self) -> Result<LogHold> {
        loop {
            match self.log.hold("the repair of a page", self.log.oldest_lsn()) {
                // It was truncated just now.
                Err(error) if error.kind() == ErrorKind::NotInPrerequisiteState => continue,
                other => return other,
            }
        }
    }

    /// Adds the page's records in the log from `from` on, which is held.
    fn in_log(&self, page: PageId, after: Lsn, from: Lsn, found: &mut Found) -> Result<()> {
        // Everything of a page that is not in memory is durable.
        let end = self.log.flushed_lsn();
        if from >= end {
            return Ok(());
        }
        let mut follower = self.log.follow(from)?;
        while follower.position() < end {
            let Some(block) = follower.next(Duration::ZERO)? else { break };
            for record in block.records() {
                let record = record?;
                if record.header.page == page && record.header.kind.is_of_page() && record.lsn > after {
                    found.add(&record)?;
                }
            }
        }
        Ok(())
    }
}

/// Records of a page, as they are found.
#[derive(Default)]
struct Found {
    page: PageId,
    records: Vec<PageRecord>,
    bytes: usize,
}

impl Found {
    fn clear(&mut self) {
        self.records.clear();
        self.bytes = 0;
    }

    /// Takes the next record; one that makes the page anew in the place of all before it.
    fn add(&mut self, record: &RecordRef<'_>) -> Result<()> {
        if resurgam_buffer::replaces_whole_page(record.body) {
            self.clear();
        }
        self.bytes += record.body.len() + size_of::<PageRecord>();
        if self.bytes > BYTES_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("there are more than {} MB of records of page {}", BYTES_MAX >> 20, self.page),
            ));
        }
        self.records.push(PageRecord {
            lsn: record.lsn,
            prev_page: record.header.prev_page,
            body: record.body.to_vec(),
        });
        Ok(())
    }
}

/// Whether they begin where the page is made anew, or follow what there is of it.
fn is_of_use(records: &[PageRecord], after: Lsn) -> bool {
    records.first().is_some_and(|first| {
        resurgam_buffer::replaces_whole_page(&first.body) || after.is_some() && first.prev_page == after
    })
}

impl PageHistory for Repairs {
    fn base(&self, _: PageId, _: &mut PageBuf) -> Result<bool> {
        Ok(false)
    }

    fn records(&self, page: PageId, after: Lsn) -> Result<PageRecords> {
        if self.was_in_vain(page) {
            return Ok(PageRecords::default());
        }
        let found = self.find(page, after)?;
        if !is_of_use(&found.records, after) {
            self.in_vain.lock().push_back((page, Instant::now()));
        }
        Ok(found)
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
