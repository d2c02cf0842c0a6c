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
//! Where the archive was begun later than the page, its image in the newest backup is what the records are applied to.
//!
//! A page that could not be rebuilt is not tried again for a while, so that a statement that meets it a
//! thousand times reads the log once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{BackupSummary, History};
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result};
use resurgam_buffer::{PageHistory, PageRecord, Repair};
use resurgam_log::{Log, OwnedRecord};
use resurgam_page::PageBuf;
use resurgam_vfs::Vfs;

use crate::archiver::Archiver;
use crate::backup_places::Backups;
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
    backups: Option<Arc<Backups>>,
    vfs: Arc<dyn Vfs>,
    /// The newest last.
    listed: Mutex<VecDeque<RepairedPage>>,
    /// Pages of which the log had nothing of use, and when.
    in_vain: Mutex<VecDeque<(PageId, Instant)>>,
}

impl Repairs {
    pub fn of(
        log: &Arc<Log>,
        vfs: &Arc<dyn Vfs>,
        archiver: Option<Arc<Archiver>>,
        backups: Option<Arc<Backups>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            log: Arc::clone(log),
            archiver,
            backups,
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
    fn find(&self, page: PageId, after: Lsn) -> Result<Vec<PageRecord>> {
        let (mut records, mut archived, mut refused) = (Vec::new(), Lsn::NONE, None);
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
                let of = |record: OwnedRecord| PageRecord {
                    lsn: record.lsn,
                    prev_page: record.header.prev_page,
                    body: record.body,
                };
                match view.records_of(page, from, Lsn(archived.0 - 1), History::SinceAnew) {
                    Ok(found) => records.extend(found.into_iter().map(of)),
                    Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                    // Damaged, or it does not reach back far enough. The log may have it all.
                    Err(error) => {
                        archived = Lsn::NONE;
                        refused = Some(error);
                    }
                }
            }
        }
        let records = self.in_log(page, after, archived, records)?;
        match refused {
            Some(error) if !is_of_use(&records, after) => Err(error),
            _ => Ok(records),
        }
    }

    /// Adds the page's records in the log, from `archived` on.
    fn in_log(&self, page: PageId, after: Lsn, archived: Lsn, mut records: Vec<PageRecord>) -> Result<Vec<PageRecord>> {
        // Everything of a page that is not in memory is durable.
        let end = self.log.flushed_lsn();
        if archived >= end {
            return Ok(records);
        }
        let (_hold, from) = loop {
            // What the archive has not is held for it.
            let from = self.log.oldest_lsn().max(archived);
            match self.log.hold("the repair of a page", from) {
                Ok(hold) => break (hold, from),
                // It was truncated just now.
                Err(error) if error.kind() == ErrorKind::NotInPrerequisiteState => continue,
                Err(error) => return Err(error),
            }
        };
        let mut follower = self.log.follow(from)?;
        let mut bytes: usize = records.iter().map(|record| record.body.len()).sum();
        while follower.position() < end {
            let Some(block) = follower.next(Duration::ZERO)? else { break };
            for record in block.records() {
                let record = record?;
                if record.header.page != page || !record.header.kind.is_of_page() || record.lsn <= after {
                    continue;
                }
                if resurgam_buffer::replaces_whole_page(record.body) {
                    records.clear();
                    bytes = 0;
                }
                bytes += record.body.len();
                if bytes > BYTES_MAX {
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!("there are more than {} MB of records of page {page}", BYTES_MAX >> 20),
                    ));
                }
                records.push(PageRecord {
                    lsn: record.lsn,
                    prev_page: record.header.prev_page,
                    body: record.body.to_vec(),
                });
            }
        }
        Ok(records)
    }
}

/// Whether they begin where the page is made anew, or follow what there is of it.
fn is_of_use(records: &[PageRecord], after: Lsn) -> bool {
    records.first().is_some_and(|first| {
        resurgam_buffer::replaces_whole_page(&first.body) || after.is_some() && first.prev_page == after
    })
}

impl PageHistory for Repairs {
    fn base(&self, page: PageId, buf: &mut PageBuf) -> Result<bool> {
        let Some(backups) = &self.backups else { return Ok(false) };
        // Without all records since, a page that has none in what is left would come back as it was then. And what ends
        // behind the log is of another history.
        let Some(archive) = self.archiver.as_ref().and_then(|archiver| archiver.view()) else { return Ok(false) };
        let end = self.log.end_lsn();
        let fits = |backup: &BackupSummary| {
            archive.start().is_some() && archive.start() <= backup.begin && backup.end <= archive.end().min(end)
        };
        // What the archive and the log have may do without it.
        backups.image_of(page, fits, buf).or_else(|error| {
            tracing::warn!("page {page} is rebuilt without the newest backup: {error}");
            buf.as_bytes_mut().fill(0);
            Ok(false)
        })
    }

    fn records(&self, page: PageId, after: Lsn) -> Result<Vec<PageRecord>> {
        if self.was_in_vain(page) {
            return Ok(Vec::new());
        }
        let records = self.find(page, after)?;
        if !is_of_use(&records, after) {
            self.in_vain.lock().push_back((page, Instant::now()));
        }
        Ok(records)
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
