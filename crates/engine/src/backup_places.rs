//! Where backups are, which there are, and what is known of the one that is being made.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{Backup, BackupSummary, DatabaseId, list_backups};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use crate::database::Database;
use crate::options::{Options, StoreHandle};

/// Backups that failed and are listed.
const FAILED_MAX: usize = 20;
/// The newest backup is looked for again after so long if there was none, or it could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A backup as an operator sees it.
#[derive(Clone, Debug, Default)]
pub struct BackupRow {
    pub name: Option<String>,
    /// In a word: `complete`, `running`, `interrupted` (it may be gone on with), `failed`, `damaged` (its summary cannot be read),
    /// `unreachable` (the place cannot be read; no name).
    pub state: &'static str,
    /// Log from here on is needed with it.
    pub begin: Option<Lsn>,
    /// Points in time from here on can be made with it.
    pub end: Option<Lsn>,
    /// Microseconds since 2000-01-01 UTC.
    pub started_us: Option<i64>,
    pub finished_us: Option<i64>,
    /// Bytes in the place, and pages in it.
    pub bytes: Option<u64>,
    pub pages: Option<u64>,
    /// Pages that were damaged and could not be rebuilt when it was made.
    pub damaged: Option<u64>,
    /// Made from an earlier one and the archive.
    pub from_archive: Option<bool>,
    /// Share of the pages that were looked at, 0 to 1.
    pub progress: Option<f64>,
    pub error: Option<String>,
}

/// What backups have done since the open.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupTotals {
    pub made: u64,
    pub failed: u64,
    /// Pages that were read, and bytes written.
    pub pages_read: u64,
    pub bytes_written: u64,
    /// One is being made; how far it is, 0 to 1.
    pub running: Option<f64>,
    /// End of the newest one that this process knows.
    pub newest_end: Option<Lsn>,
    /// How long ago the newest one was finished that this process knows, made by it or found in the place.
    pub newest_age: Option<Duration>,
}

/// The one that is being made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    pub name: String,
    pub started_us: i64,
    pub least: Option<Lsn>,
    pub bytes: u64,
    pub pages: u64,
    pub damaged: u64,
    pub from_archive: bool,
    /// Nobody has asked for it.
    pub by_itself: bool,
    pub done: u64,
    pub total: u64,
}

impl Running {
    fn progress(&self) -> f64 {
        self.done as f64 / self.total.max(1) as f64
    }
}

#[derive(Default)]
struct Seen {
    running: Option<Running>,
    /// The newest last.
    failed: Vec<BackupRow>,
    totals: BackupTotals,
    newest: Option<Arc<Backup>>,
    /// When it was last looked for.
    looked: Option<Instant>,
    /// One that was asked for waits for the one that is made by itself to end.
    is_awaited: bool,
}

/// See the module.
pub(crate) struct Backups {
    place: String,
    database: DatabaseId,
    open: Box<dyn Fn() -> Result<Arc<dyn Store>> + Send + Sync>,
    store: Mutex<Option<Arc<dyn Store>>>,
    seen: Mutex<Seen>,
}

impl Backups {
    /// The place that the options name. It is opened when it is first needed.
    ///
    /// # Errors
    /// Those of the URL.
    pub fn of(vfs: &Arc<dyn Vfs>, dir: &Path, options: &Options, database: DatabaseId) -> Result<Option<Self>> {
        let Some(url) = &options.backups else { return Ok(None) };
        let backups = Place::of(dir, url)?;
        let place = format!("\"{backups}\"");
        let (vfs, given) = (Arc::clone(vfs), options.backups_store.clone());
        let open = Box::new(move || {
            Ok(match &given {
                Some(StoreHandle(store)) => Arc::clone(store),
                None => backups.open(&vfs, Access::Write)?,
            })
        });
        Ok(Some(Self { place, database, open, store: Mutex::default(), seen: Mutex::default() }))
    }

    /// The place, opened.
    ///
    /// # Errors
    /// Those of the store.
    pub fn store(&self) -> Result<Arc<dyn Store>> {
        let mut store = self.store.lock();
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let opened = (self.open)()?;
        *store = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// One at a time: this one runs from now on.
    ///
    /// # Errors
    /// `InUse`.
    pub fn claim(&self, running: Running) -> Result<Claim<'_>> {
        let mut seen = self.seen.lock();
        if let Some(other) = &seen.running {
            let makes_way = other.by_itself && !running.by_itself;
            let error = Err(Error::new(ErrorKind::InUse, "a backup is being made already")
                .with_detail(format!("It is {:.0} % done.", other.progress() * 100.0))
                .with_hint("The view resurgam_backups shows it."));
            // See `Database::backup_of`.
            seen.is_awaited |= makes_way;
            return error;
        }
        // Whoever waited has it now, or has given up.
        seen.is_awaited = false;
        seen.running = Some(running);
        Ok(Claim(self))
    }

    /// Log from here on is needed by the backup that is being made.
    pub fn needed_from(&self) -> Option<Lsn> {
        self.seen.lock().running.as_ref().and_then(|running| running.least)
    }

    /// Name of the backup that is being made, once it has one.
    pub fn running_name(&self) -> Option<String> {
        let seen = self.seen.lock();
        seen.running.as_ref().map(|running| running.name.clone()).filter(|name| !name.is_empty())
    }

    /// The newest backup that can be read.
    ///
    /// # Errors
    /// Those of the store.
    pub fn newest(&self) -> Result<Option<Arc<Backup>>> {
        {
            let seen = self.seen.lock();
            if seen.newest.is_some() || seen.looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
                return Ok(seen.newest.clone());
            }
        }
        let newest = self.store().and_then(|store| Backup::newest(&store, self.database, Lsn::NONE, Lsn(u64::MAX)));
        let mut seen = self.seen.lock();
        seen.looked = Some(Instant::now());
        if seen.newest.is_none() {
            seen.newest = newest?;
        }
        Ok(seen.newest.clone())
    }

    /// When the last complete backup of this database was finished, but for those after `until_us` (a clock was wrong), in microseconds, and
    /// whether there is one that lacks no page. Reads the place, so others' backups are among them.
    ///
    /// # Errors
    /// Those of the store.
    pub fn last_finished(&self, until_us: i64) -> Result<(Option<i64>, bool)> {
        let (mut last, mut has_whole) = (None, false);
        for entry in list_backups(&self.store()?)? {
            let Some(summary) = entry.summary.ok().filter(|_| entry.complete) else { continue };
            if summary.database == self.database {
                last = last.max(Some(summary.finished_us).filter(|finished| *finished <= until_us));
                has_whole |= summary.damaged == 0;
            }
        }
        Ok((last, has_whole))
    }

    /// Whether the backup that is being made by itself is to end, for one that was asked for.
    pub fn must_make_way(&self) -> bool {
        self.seen.lock().is_awaited
    }

    /// The newest backup, if it is known: nothing is read.
    pub fn known(&self) -> Option<Arc<Backup>> {
        self.seen.lock().newest.clone()
    }

    /// The page's image in the newest backup, if `fits` says that what is behind it is all known; and where that begins. `None`: there is none.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn image_of(
        &self,
        page: PageId,
        fits: impl Fn(&BackupSummary) -> bool,
        buf: &mut PageBuf,
    ) -> Result<Option<Lsn>> {
        let Some(backup) = self.newest()?.filter(|backup| fits(backup.summary())) else { return Ok(None) };
        let read = backup.segment(page, std::slice::from_mut(buf));
        if read.is_err() {
            // It may have been deleted in favour of another one.
            let mut seen = self.seen.lock();
            (seen.newest, seen.looked) = (None, None);
        }
        read?;
        Ok(buf.verify(page).is_ok().then_some(backup.summary().begin))
    }

    fn rows(&self) -> Vec<BackupRow> {
        let (running, failed) = {
            let seen = self.seen.lock();
            (seen.running.clone(), seen.failed.clone())
        };
        let mut rows = Vec::new();
        match self.store().and_then(|store| list_backups(&store)) {
            Ok(entries) => {
                for entry in entries {
                    if running.as_ref().is_some_and(|running| running.name == entry.name) {
                        continue;
                    }
                    let row = BackupRow { name: Some(entry.name), ..BackupRow::default() };
                    rows.push(match entry.summary {
                        Err(error) => BackupRow { state: "damaged", error: Some(error.to_string()), ..row },
                        Ok(summary) if !entry.complete => {
                            BackupRow { state: "interrupted", started_us: Some(summary.started_us), ..row }
                        }
                        Ok(summary) => BackupRow {
                            state: "complete",
                            begin: Some(summary.begin),
                            end: Some(summary.end),
                            started_us: Some(summary.started_us),
                            finished_us: Some(summary.finished_us),
                            bytes: Some(summary.bytes()),
                            pages: Some(summary.images()),
                            damaged: Some(summary.damaged),
                            from_archive: Some(summary.from_archive),
                            progress: Some(1.0),
                            ..row
                        },
                    });
                }
            }
            Err(error) => {
                rows.push(BackupRow { state: "unreachable", error: Some(error.to_string()), ..BackupRow::default() });
            }
        }
        rows.extend(failed);
        if let Some(running) = running {
            rows.push(BackupRow {
                progress: Some(running.progress()),
                name: Some(running.name).filter(|name| !name.is_empty()),
                state: "running",
                begin: running.least,
                started_us: Some(running.started_us),
                bytes: Some(running.bytes),
                pages: Some(running.pages),
                damaged: Some(running.damaged),
                from_archive: Some(running.from_archive),
                ..BackupRow::default()
            });
        }
        rows
    }
}

/// The right to make a backup.
pub(crate) struct Claim<'b>(&'b Backups);

impl Claim<'_> {
    /// Notes how far it is.
    pub fn note(&self, change: impl FnOnce(&mut Running)) {
        if let Some(running) = &mut self.0.seen.lock().running {
            change(running);
        }
    }

    /// It ended, with `made` as what there is now.
    pub fn ended(&self, outcome: &Result<Option<Arc<Backup>>>, now_us: i64) {
        let mut seen = self.0.seen.lock();
        let running = seen.running.clone().unwrap_or_default();
        seen.totals.pages_read += running.done;
        seen.totals.bytes_written += running.bytes;
        match outcome {
            Ok(made) => {
                seen.totals.made += 1;
                seen.totals.newest_end = made.as_ref().map(|backup| backup.summary().end);
                // One that lacks pages takes no other's place: which one is best is looked up where none is known.
                if made.as_ref().is_none_or(|made| made.summary().damaged == 0) {
                    seen.newest.clone_from(made);
                }
                seen.looked = None;
                seen.failed.clear();
            }
            Err(error) => {
                seen.totals.failed += 1;
                if seen.failed.len() >= FAILED_MAX {
                    seen.failed.remove(0);
                }
                seen.failed.push(BackupRow {
                    name: Some(running.name.clone()).filter(|name| !name.is_empty()),
                    state: "failed",
                    begin: running.least,
                    started_us: Some(running.started_us),
                    finished_us: Some(now_us),
                    bytes: Some(running.bytes),
                    pages: Some(running.pages),
                    damaged: Some(running.damaged),
                    from_archive: Some(running.from_archive),
                    progress: Some(running.progress()),
                    error: Some(error.to_string()),
                    ..BackupRow::default()
                });
            }
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.seen.lock().running = None;
    }
}

impl Database {
    /// The backups in the place of this database, those that failed since the open, and the one that is being made. Empty
    /// without such a place. Reads the place.
    pub fn backups(&self) -> Vec<BackupRow> {
        self.inner().backups.as_ref().map_or_else(Vec::new, |backups| backups.rows())
    }

    /// What backups have done since the open; `None` without a place for them.
    pub fn backup_totals(&self) -> Option<BackupTotals> {
        let backups = self.inner().backups.as_ref()?;
        let seen = backups.seen.lock();
        let age = |backup: &Arc<Backup>| {
            let us = self.inner().vfs.wall_clock_us().saturating_sub(backup.summary().finished_us);
            Duration::from_micros(u64::try_from(us).unwrap_or(0))
        };
        let newest_age = seen.newest.as_ref().map(age);
        Some(BackupTotals { running: seen.running.as_ref().map(Running::progress), newest_age, ..seen.totals })
    }

    /// Log and archive from here on are needed by the backup that is being made; none: none is, or it has read nothing yet.
    pub fn backup_needs_log_from(&self) -> Option<Lsn> {
        self.inner().backups.as_ref().and_then(|backups| backups.needed_from())
    }

    /// Where backups are, in words.
    pub fn backups_place(&self) -> Option<&str> {
        self.inner().backups.as_ref().map(|backups| backups.place.as_str())
    }
}

#[cfg(test)]
mod tests {
    use resurgam_vfs::SimVfs;

    use super::*;

    /// One that is made by itself makes way for one that was asked for, and none for one that has given up waiting.
    #[test]
    fn who_gives_up_waiting_stops_no_later_one() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let options = Options { backups: Some("/backups".into()), ..Options::default() };
        let backups = Backups::of(&vfs, Path::new("/db"), &options, DatabaseId::default()).unwrap().unwrap();
        let claim = |by_itself| backups.claim(Running { by_itself, ..Running::default() });
        let first = claim(true).unwrap();
        assert!(!backups.must_make_way());
        assert_eq!(claim(false).err().unwrap().kind(), ErrorKind::InUse);
        assert!(backups.must_make_way());
        drop(first);
        let _second = claim(true).unwrap();
        assert!(!backups.must_make_way());
    }
}
