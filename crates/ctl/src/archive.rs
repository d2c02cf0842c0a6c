//! Printers and the checker of a log archive in a folder: which runs it is made of, whether all is well, and what a run has.
//!
//! A server may be writing to it: a run that is replaced by a merge while it is read is reported as missing; try again.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, History, Lease, ParentBase, ParentRecord, Report, StreamEntry, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_engine::ArchivedPages;
use resurgam_log::RecordRef;
use resurgam_page::print;
use resurgam_vfs::{RealVfs, Vfs};
use resurgam_xstore::{Access, Place, Store};

use crate::out::{indented, say};

const HOUR_US: i64 = 3600 * 1_000_000;

/// What to print of an archive.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchiveOptions {
    /// Records of this page; without it, the transaction stream.
    pub page: Option<PageId>,
    /// First position; the oldest if not given.
    pub from: Option<Lsn>,
    /// Stop before this position; the end if not given.
    pub to: Option<Lsn>,
}

/// An archive in a folder, opened for reading: nothing is made, nothing is written.
pub struct ArchiveFolder {
    place: String,
    store: Arc<dyn Store>,
}

/// What pages are made of, in words.
pub(crate) fn archived_from(pages: &ArchivedPages) -> String {
    match pages.backup() {
        Some(backup) => format!("backup {} and the archive", backup.summary().name),
        None if pages.is_of_parent() => "the database that it was made of and the archive".to_owned(),
        None => "the archive alone".to_owned(),
    }
}

/// The store of a place: a folder, plain or as a `file://` URL, or another kind that this process knows.
pub(crate) fn store_of(place: &str, access: Access) -> Result<Arc<dyn Store>> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    Ok(Place::of(Path::new(""), place)?.open(&vfs, access)?)
}

impl ArchiveFolder {
    /// The archive in `place`: a folder, plain or as a `file://` URL, or an object store.
    ///
    /// # Errors
    /// When there is no such place, or none of that kind.
    pub fn open(place: &str) -> Result<Self> {
        Ok(Self { place: place.to_owned(), store: store_of(place, Access::Existing)? })
    }

    /// What pages are made of at its end, as `view` has it; `first`: where the log of a database begins that was made of nothing.
    ///
    /// # Errors
    /// As [`ArchivedPages::find`].
    pub(crate) fn pages(
        &self,
        view: &Arc<View>,
        backups: Option<&Arc<dyn Store>>,
        first: Lsn,
    ) -> Result<ArchivedPages> {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        ArchivedPages::find(&vfs, &self.place, view, backups, first)
    }

    pub(crate) fn view(&self) -> Result<Arc<View>> {
        Archive::open_view(Arc::clone(&self.store), None)?.ok_or_else(|| {
            let what = format!("there is no archive in {}: no manifest was found", self.store.place());
            Error::new(ErrorKind::NotADatabase, what)
        })
    }

    /// Prints which runs the archive is made of.
    ///
    /// # Errors
    /// When there is no archive, its newest manifest is damaged, or `out` cannot be written.
    pub fn list(&self, out: &mut dyn Write) -> Result<()> {
        let view = self.view()?;
        let manifest = view.manifest();
        let database: String = manifest.database.iter().map(|byte| format!("{byte:02x}")).collect();
        say!(out, "archive of database {database}, manifest {}", manifest.number)?;
        say!(out, "LSN {} to {}: {} runs", view.start(), view.end(), manifest.runs.len())?;
        match ParentRecord::read(&*self.store) {
            Ok(Some(record)) => {
                let id: String = record.parent.iter().map(|byte| format!("{byte:02x}")).collect();
                let base = match &record.base {
                    ParentBase::Archive => "its archive alone".to_owned(),
                    ParentBase::Backup { url, name } => format!("backup {name} in \"{url}\""),
                    ParentBase::Parent => "the database that it was made of in turn".to_owned(),
                };
                let needed = if view.start() <= record.first { "needed" } else { "needed no more" };
                say!(
                    out,
                    "made of database {id} at LSN {}, which is {needed}: archive \"{}\" from LSN {} on, from {base}",
                    record.cut,
                    record.archive,
                    record.archive_from
                )?;
            }
            Ok(None) => {}
            Err(error) => say!(out, "{error}")?,
        }
        for run in &manifest.runs {
            let from = if run.complete_from.is_some() {
                format!("; all states from LSN {} on", run.complete_from)
            } else {
                String::new()
            };
            say!(
                out,
                "  level {} LSN {} to {} ({} bytes of log): {} bytes, {} page records{from}; {}",
                run.id.level,
                run.id.start,
                run.id.end,
                run.id.end.0 - run.id.start.0,
                run.len,
                run.page_records,
                run.id.name()
            )?;
        }
        let named: Vec<String> = manifest.runs.iter().map(|run| run.id.name()).collect();
        for name in self.store.list("runs/")?.iter().filter(|name| !named.contains(name)) {
            say!(out, "  not in use: {name}")?;
        }
        self.leases(out)
    }

    /// What others need of it, and how that is given back.
    fn leases(&self, out: &mut dyn Write) -> Result<()> {
        let leases = match Lease::list(&*self.store) {
            Ok(leases) => leases,
            Err(error) => return say!(out, "{error}"),
        };
        let now_us = RealVfs::new().wall_clock_us();
        for lease in leases {
            say!(
                out,
                "  lease {}: {}, {} hours old, needs {} up to LSN {}; \"resurgam clone --archive {} --forget {}\" gives it back",
                lease.name,
                lease.kind.name(),
                now_us.saturating_sub(lease.created_us) / HOUR_US,
                lease
                    .backup
                    .as_ref()
                    .map_or("everything".to_owned(), |backup| format!("backup {backup} and what follows it")),
                lease.cut,
                self.place,
                lease.name
            )?;
        }
        Ok(())
    }

    /// Reads everything and prints what is wrong.
    ///
    /// # Errors
    /// When there is nothing to verify, or `out` cannot be written.
    pub fn verify(&self, out: &mut dyn Write) -> Result<Report> {
        let report = resurgam_archive::verify(Arc::clone(&self.store), None)?;
        indented(out, "", &report.to_string())?;
        say!(out, "{}", if report.problems.is_empty() { "the archive is sound" } else { "the archive is DAMAGED" })?;
        Ok(report)
    }

    /// Prints records of a page, or the transaction stream.
    ///
    /// # Errors
    /// When there is no archive, what is asked for is damaged, or `out` cannot be written.
    pub fn inspect(&self, options: ArchiveOptions, out: &mut dyn Write) -> Result<()> {
        let view = self.view()?;
        match options.page {
            Some(page) => Self::page(&view, page, options, out),
            None => Self::stream(&view, options, out),
        }
    }

    fn page(view: &Arc<View>, page: PageId, options: ArchiveOptions, out: &mut dyn Write) -> Result<()> {
        let before = |lsn: Lsn| Lsn(lsn.0.saturating_sub(1));
        let to = before(options.to.map_or(view.end(), |to| to.min(view.end())));
        // All there are, as the chain that is not in the archive is of no concern here.
        let from = before(options.from.unwrap_or(view.start()).max(view.start()));
        let mut scan = view.scan(page..PageId(page.0.saturating_add(1)), from, to, History::All)?;
        let mut count = 0;
        while scan.next_page()?.is_some() {
            while let Some(record) = scan.next_record()? {
                record_line(&record, out)?;
                indented(out, "      ", &print::ops(record.body))?;
                count += 1;
            }
        }
        say!(out, "{count} records of page {page}")
    }

    fn stream(view: &Arc<View>, options: ArchiveOptions, out: &mut dyn Write) -> Result<()> {
        let from = options.from.unwrap_or(view.start()).max(view.start());
        let mut stream = view.stream(from)?;
        while let Some(entry) = stream.next_entry()? {
            if options.to.is_some_and(|to| entry.lsn() >= to) {
                break;
            }
            match entry {
                StreamEntry::Block { lsn, next, payload_bytes, epoch } => {
                    say!(out, "{lsn} block to {next}, {payload_bytes} bytes of records, epoch {epoch}")?;
                }
                StreamEntry::Record(record) => record_line(&record, out)?,
                StreamEntry::FirstOf { tx, lsn } => say!(out, "  {lsn} first of transaction {tx} in its run")?,
                StreamEntry::Undo { tx, lsn, page, writer } if writer == tx => {
                    say!(out, "  {lsn} undo of transaction {tx}, on page {page}")?;
                }
                StreamEntry::Undo { tx, lsn, page, writer } => {
                    say!(out, "  {lsn} undo of transaction {tx} (its savepoint {writer}), on page {page}")?;
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn record_line(record: &RecordRef<'_>, out: &mut dyn Write) -> Result<()> {
    let header = &record.header;
    say!(
        out,
        "  {} {:?} tx {} (before: {}) page {} (before: {}) object {}, {} bytes",
        record.lsn,
        header.kind,
        header.tx,
        header.prev_tx,
        header.page,
        header.prev_page,
        header.object,
        record.body.len()
    )
}
