//! Backups in a folder: which there are, whether one is sound, what it has of a page; and making one from the archive.

use std::io::Write;
use std::sync::{Arc, Mutex};

use resurgam_archive::{
    Backup, BackupPlan, BackupReport, BackupWriter, Remaking, StreamEntry, View, list_backups, remake, verify_backup,
};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_log::RecordKind;
use resurgam_page::{PageBuf, boot, print};
use resurgam_recovery::Identity;
use resurgam_vfs::{RealVfs, Vfs};
use resurgam_xstore::{Access, Store};

use crate::archive::{ArchiveFolder, archived_from, store_of};
use crate::out::{indented, say};

/// Pages that cannot be made and are named.
const NAMED_MAX: usize = 20;
/// Threads that make pages.
const THREADS_MAX: usize = 8;

/// Backups in a folder, opened for reading.
pub struct BackupFolder {
    store: Arc<dyn Store>,
}

impl BackupFolder {
    /// The backups in `place`: a folder, plain or as a `file://` URL, or an object store.
    ///
    /// # Errors
    /// When there is no such place, or none of that kind.
    pub fn open(place: &str) -> Result<Self> {
        Ok(Self { store: store_of(place, Access::Existing)? })
    }

    /// Prints which backups there are, the oldest first.
    ///
    /// # Errors
    /// When the folder cannot be read, or `out` not be written.
    pub fn list(&self, out: &mut dyn Write) -> Result<()> {
        let entries = list_backups(&self.store)?;
        for entry in &entries {
            match &entry.summary {
                Err(error) => say!(out, "{}  DAMAGED: {error}", entry.name)?,
                Ok(summary) => {
                    let database: String = summary.database.iter().map(|byte| format!("{byte:02x}")).collect();
                    if !entry.complete {
                        say!(out, "{}  not complete: under way or interrupted; database {database}", entry.name)?;
                        continue;
                    }
                    say!(
                        out,
                        "{}  LSN {} to {}: {} pages, {} bytes in {} parts{}{}; database {database}",
                        entry.name,
                        summary.begin,
                        summary.end,
                        summary.images(),
                        summary.bytes(),
                        summary.parts.len(),
                        if summary.from_archive { ", made from the archive" } else { "" },
                        match summary.damaged {
                            0 => String::new(),
                            pages => format!(", {pages} DAMAGED pages when it was made"),
                        }
                    )?;
                }
            }
        }
        let complete = entries.iter().filter(|entry| entry.complete).count();
        say!(out, "{complete} backups")
    }

    /// Reads every byte of the backup of that name, or of all, and prints what is wrong.
    ///
    /// # Errors
    /// When there is no backup, or `out` cannot be written.
    pub fn verify(&self, name: Option<&str>, out: &mut dyn Write) -> Result<bool> {
        let names: Vec<String> = match name {
            Some(name) => vec![name.to_owned()],
            None => {
                let entries = list_backups(&self.store)?;
                entries.into_iter().filter(|entry| entry.complete).map(|entry| entry.name).collect()
            }
        };
        if names.is_empty() {
            let what = format!("there is no backup in {}", self.store.place());
            return Err(Error::new(ErrorKind::NotADatabase, what));
        }
        let mut sound = true;
        for name in &names {
            let report = match verify_backup(&self.store, name) {
                Ok(report) => report,
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NewerFormat | ErrorKind::Io) => {
                    BackupReport { name: name.clone(), problems: vec![error.to_string()], ..BackupReport::default() }
                }
                Err(error) => return Err(error),
            };
            indented(out, "", &report.to_string())?;
            for page in report.damaged.iter().take(20) {
                say!(out, "page {page} was damaged when the backup was made")?;
            }
            sound &= report.problems.is_empty();
            say!(out, "the backup is {}", if report.problems.is_empty() { "sound" } else { "DAMAGED" })?;
        }
        Ok(sound)
    }

    /// Prints what a backup is made of; with `page`, what it has of that page.
    ///
    /// # Errors
    /// When there is no such backup, what is asked for is damaged, or `out` cannot be written.
    pub fn inspect(&self, name: &str, page: Option<PageId>, out: &mut dyn Write) -> Result<()> {
        let backup = Backup::open(&self.store, name)?;
        let summary = backup.summary();
        if let Some(page) = page {
            let mut image = [PageBuf::zeroed()];
            let lsn = backup.segment(page, &mut image)?;
            say!(out, "page {page}: its records from LSN {lsn} on may be needed")?;
            let [image] = image;
            return match image.verify(page) {
                Ok(()) => indented(out, "  ", &print::page(&image)),
                Err(_) if image.is_all_zero() => say!(out, "  it was all zero, or is none of the backup's"),
                Err(_) => say!(out, "  it was damaged when the backup was made"),
            };
        }
        say!(out, "backup {} of {}", summary.name, self.store.place())?;
        say!(out, "log from LSN {} on is needed; points from LSN {} on can be made", summary.begin, summary.end)?;
        say!(out, "begun {} us, finished {} us since 2000-01-01 UTC", summary.started_us, summary.finished_us)?;
        say!(out, "data file: {} pages", summary.data_pages)?;
        if let Some((number, pages)) = summary.version_pages {
            say!(out, "version-store file {number}: {pages} pages")?;
        }
        match Identity::from_body(&summary.identity) {
            Ok(identity) => {
                let mode = if identity.traditional { "traditional" } else { "accelerated" };
                say!(
                    out,
                    "log epoch {}, log segments of {} bytes, {mode} recovery",
                    identity.epoch,
                    identity.segment_bytes
                )?;
            }
            Err(error) => say!(out, "its identity cannot be read: {error}")?,
        }
        for part in &summary.parts {
            say!(
                out,
                "  part {}: segments {} to {}, {} with {} pages, {} bytes, log from LSN {} on",
                part.number,
                part.from,
                part.to,
                part.segments,
                part.images,
                part.len,
                part.least
            )?;
        }
        Ok(())
    }
}

/// Makes a backup as of the end of an archive, from the newest backup of its database and the archive alone, and prints
/// its name. No server is needed, and none is disturbed. False: it lacks pages, which are named.
///
/// # Errors
/// `NotInPrerequisiteState` when what is there does not reach back far enough; those of reading and writing.
pub fn make_backup(archive: &str, backups: &str, out: &mut dyn Write) -> Result<bool> {
    let archive = ArchiveFolder::open(archive)?;
    let view = archive.view()?;
    let vfs = Arc::new(RealVfs::new());
    let store = store_of(backups, Access::Write)?;
    let end = view.end();
    if end <= view.start() {
        return Err(Error::new(ErrorKind::NotInPrerequisiteState, "the archive is empty"));
    }
    let database = view.manifest().database;
    let newest = Backup::newest(&store, database, view.start(), end)?;
    let kept = newest.as_ref().and_then(|base| Identity::from_body(&base.summary().identity).ok());
    let identity = match last_identity(&view)? {
        Some(identity) => identity,
        None => kept.ok_or_else(|| {
            Error::new(
                ErrorKind::NotInPrerequisiteState,
                "no checkpoint of the archive, and no backup, says what the boot page is",
            )
        })?,
    };
    let pages = archive.pages(&view, Some(&store), Lsn(identity.segment_bytes)).map_err(|error| {
        let hint = "Or make the first backup of the running database: SELECT resurgam_backup().";
        let hint = error.hint().map_or_else(|| hint.to_owned(), |before| format!("{before} {hint}"));
        error.with_hint(hint)
    })?;
    let (data_pages, version_pages) = (pages.data_pages, pages.version_pages);
    say!(out, "from {} up to LSN {end}", archived_from(&pages))?;
    let plan = BackupPlan {
        database,
        number: vfs.random_u64(),
        from_archive: true,
        now_us: vfs.wall_clock_us(),
        resume_since_us: i64::MAX,
        log_from: Lsn::NONE,
        data_pages,
        version_pages,
        // Another process may have the database's folder.
        identity: Vec::new(),
    };
    let mut writer = BackupWriter::begin(store, &plan)?;
    let boot = boot::page(&identity.boot, Lsn(1))?;
    let named: Mutex<Vec<String>> = Mutex::default();
    let making = Remaking {
        maker: Arc::new(pages.maker()?),
        again: &|| pages.maker_again(),
        boot: &boot,
        failed: &|page, error| {
            let mut named = named.lock().unwrap_or_else(|e| e.into_inner());
            if named.len() < NAMED_MAX {
                named.push(format!("page {page} cannot be made and is not in the backup: {error}"));
            }
        },
        threads: std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    };
    let remade = remake(making, &mut writer, &mut |_, _, _| Ok(()));
    // Also where it ends early: they may be why.
    for line in named.into_inner().unwrap_or_else(|e| e.into_inner()) {
        say!(out, "{line}")?;
    }
    remade?;
    let summary = writer.finish(end, vfs.wall_clock_us(), identity.encode())?;
    say!(out, "backup {}: {} pages, {} bytes", summary.name, summary.images(), summary.bytes())?;
    if summary.damaged > 0 {
        say!(out, "it lacks {} pages: older backups are kept for them", summary.damaged)?;
    }
    Ok(summary.damaged == 0)
}

/// What the last checkpoint of the archive that has one says.
fn last_identity(view: &Arc<View>) -> Result<Option<Identity>> {
    for run in view.manifest().runs.iter().rev() {
        let mut stream = view.stream(run.id.start)?;
        let mut found = None;
        while let Some(entry) = stream.next_entry()? {
            if entry.lsn() >= run.id.end {
                break;
            }
            if let StreamEntry::Record(record) = entry
                && record.header.kind == RecordKind::CheckpointData
                && record.body.first() == Some(&13)
            {
                found = Some(Identity::from_body(record.body)?);
            }
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
