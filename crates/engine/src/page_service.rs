//! A database whose pages are in no file of its own: page servers have them ([`Options::pages`](crate::Options::pages)).
//!
//! What is different then: pages come from [`RemotePages`], a changed page leaves memory when the log is durable past it,
//! nothing is redone after a crash (the page servers do that all the time), and there is no double write, no restore, and no
//! backup of the data file: those are made from the archive. The data folder has the control file, the boot page, and no
//! other page (*Socrates*, sections 4.4 and 4.5).

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_buffer::{BufferPool, Had, PageCache, PageCacheStatus, PendingRedo, RemotePages};
use resurgam_log::Log;
use resurgam_page::PageBuf;
use resurgam_page::boot::{self, Boot};
use resurgam_recovery::Control;
use resurgam_vfs::{OpenMode, Vfs};

use crate::database::Database;
use crate::log_zone::{LogZone, LogZoneHandle};
use crate::options::Options;

/// What an open asks for the pages of its database.
pub trait PageService: Send + Sync {
    /// The pages of this database. `log` is the database's own: it is open, nothing was appended since the open, and what is
    /// held of it now is kept. `first` is where the log of a new database of this kind begins.
    ///
    /// # Errors
    /// `NotADatabase` when they are another one's; `Io` when they cannot be reached.
    fn open(&self, database: [u8; 16], log: &Arc<Log>, first: Lsn) -> Result<Arc<dyn RemotePages>>;

    /// Copies of pages below memory, of this database, which has just been opened; none: there are none.
    fn cache(&self, database: [u8; 16]) -> Option<Arc<dyn PageCache>> {
        let _ = database;
        None
    }

    /// The page servers as they are seen from here, for operators.
    fn status(&self) -> Vec<PageServerStatus> {
        Vec::new()
    }
}

/// A page server, as the database sees it: as who is asked for pages, as who asks for log, or both.
#[derive(Clone, Debug, Default)]
pub struct PageServerStatus {
    /// Where it is asked for pages; none: it only asks for log.
    pub address: Option<String>,
    /// Under which it asks for log; none: it has not.
    pub name: Option<String>,
    /// Pages that it has given since the open, and requests that have failed.
    pub pages: u64,
    pub failures: u64,
    /// A moving mean of what an answer took; none: it has given none.
    pub latency: Option<Duration>,
    /// Requests that it works on, as it has said last, or from here; none: it is not asked for pages.
    pub load: Option<u64>,
    /// Times that it was asked though it was not the best, to see whether it is now; and that it was not asked, though it answers fastest, because
    /// it lagged.
    pub tried_again: u64,
    pub passed_over: u64,
    /// It has applied all log below.
    pub applied: Option<Lsn>,
    /// It has all log below for good: what is behind is held in the log for it.
    pub durable: Option<Lsn>,
    /// How long ago it has asked for log.
    pub silent: Option<Duration>,
    /// Why it is not asked now.
    pub error: Option<String>,
    /// Which partitions it has (`all`, or numbers and what they are modulo), pages of one, and ranges of pages of them; none: it has not said so.
    pub partitions: Option<String>,
    pub partition_pages: Option<u64>,
    pub page_ranges: Option<String>,
    /// Pages that it has to fetch yet.
    pub missing_pages: Option<u64>,
    /// Requests for pages of other partitions: that it has refused, and that were made from here.
    pub refused: u64,
    pub elsewhere: u64,
    /// Times that it met a record before which one had been left out of the log that it was given.
    pub gaps: u64,
}

impl Database {
    /// The page servers that have its pages; none where its pages are in its own file.
    pub fn page_servers(&self) -> Vec<PageServerStatus> {
        self.inner().options.pages.as_ref().map(|PageServiceHandle(pages)| pages.status()).unwrap_or_default()
    }

    /// Copies of its pages on a local disk; none: there are none.
    pub fn page_cache(&self) -> Option<PageCacheStatus> {
        self.inner().pool.page_cache()
    }
}

/// A page service, as an option.
#[derive(Clone)]
pub struct PageServiceHandle(pub Arc<dyn PageService>);

impl fmt::Debug for PageServiceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("page servers")
    }
}

/// Says, in the data folder, that its pages are elsewhere: nobody may take the data file for the database then.
const ELSEWHERE: &str = "pages-elsewhere";

/// Refuses what does not go together with page servers, and to do without them once they have the pages.
///
/// # Errors
/// `NotSupported`, naming it; `NotInPrerequisiteState`.
pub(crate) fn check(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
    control: &Control,
    restores: bool,
) -> Result<()> {
    if options.pages.is_none() {
        if vfs.exists(&dir.join(ELSEWHERE))? {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                "the pages of this database are with page servers, and not in its folder",
            )
            .with_hint(
                "Name them (page_servers); or make a folder with all pages from the archive: resurgam restore.",
            ));
        }
        return Ok(());
    }
    let refused = |what: &str, hint: &str| {
        Err(Error::new(ErrorKind::NotSupported, format!("a database with page servers cannot have {what}"))
            .with_hint(hint))
    };
    if control.traditional {
        return refused(
            "the traditional recovery mode",
            "Its rows point into the memory of one process. Turn accelerated recovery on first, without page servers.",
        );
    }
    if options.version_store_path.is_some() {
        return refused("a version-store file", "Version pages are pages like all others there.");
    }
    if options.spare_data.is_some() {
        return refused("a spare data folder", "There is no data file that could be lost.");
    }
    if restores {
        return refused("an unfinished restore", "Open it without page servers until the restore is finished.");
    }
    Ok(())
}

/// Makes the data file with nothing but its boot page, if it is missing: the database was last open elsewhere. From here on the data
/// file counts for nothing.
///
/// # Errors
/// Those of writing.
pub(crate) fn make_boot_page(vfs: &Arc<dyn Vfs>, dir: &Path, data: &Path, boot: &Boot) -> Result<()> {
    let elsewhere = dir.join(ELSEWHERE);
    if !vfs.exists(&elsewhere)? {
        let file = vfs.open(&elsewhere, OpenMode::Create)?;
        file.write_at(b"The pages of this database are with page servers (docs/page-servers.md).\n", 0)?;
        file.sync()?;
        vfs.sync_dir(dir)?;
    }
    if vfs.exists(data)? {
        return Ok(());
    }
    let file = vfs.open(data, OpenMode::Create)?;
    file.write_at(boot::page(boot, Lsn::NONE)?.as_bytes(), 0)?;
    file.sync()?;
    vfs.sync_dir(data.parent().unwrap_or(Path::new("")))
}

/// Pages that come to a process whose log another one may take: page servers go on with that one's log, and a page as it is there can have any LSN
/// that this process has given to records of its own, which nobody will ever see. So who has lost the log gets no page.
struct Fenced {
    pages: Arc<dyn RemotePages>,
    zone: Weak<dyn LogZone>,
}

impl Fenced {
    /// To be asked when a page has come.
    fn check(&self) -> Result<()> {
        match self.zone.upgrade() {
            Some(zone) => zone.check(),
            None => Err(Error::new(ErrorKind::Stopped, "the database is closed")),
        }
    }
}

impl RemotePages for Fenced {
    fn get_page(&self, page: PageId, at_least: Lsn, stop: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()> {
        self.pages.get_page(page, at_least, stop, buf)?;
        self.check()
    }

    fn get_page_unless(
        &self,
        page: PageId,
        at_least: Lsn,
        have: Lsn,
        stop: &dyn Fn() -> Result<()>,
        buf: &mut PageBuf,
    ) -> Result<Had> {
        let had = self.pages.get_page_unless(page, at_least, have, stop, buf)?;
        self.check().map(|()| had)
    }

    fn most_at_once(&self) -> usize {
        self.pages.most_at_once()
    }

    fn get_pages(&self, wanted: &[(PageId, Lsn)], stop: &dyn Fn() -> Result<()>, got: &mut dyn FnMut(usize, &[u8])) {
        self.pages.get_pages(wanted, stop, &mut |at, bytes| {
            if self.check().is_ok() {
                got(at, bytes);
            }
        });
    }
}

/// Pages come from the page servers from now on. `pending`: what analysis has found to be behind the last checkpoint.
///
/// # Errors
/// Those of [`PageService::open`].
pub(crate) fn attach(
    options: &Options,
    pool: &BufferPool,
    log: &Arc<Log>,
    database: [u8; 16],
    checkpoint: Lsn,
    pending: &PendingRedo,
) -> Result<bool> {
    let Some(PageServiceHandle(service)) = &options.pages else { return Ok(false) };
    let mut pages = service.open(database, log, log.config().first_lsn())?;
    if let Some(LogZoneHandle(zone)) = &options.log_zone {
        pages = Arc::new(Fenced { pages, zone: Arc::downgrade(zone) });
    }
    let analysed: Vec<_> = pending.snapshot().into_iter().map(|(page, entry)| (page, entry.last_lsn)).collect();
    pool.set_remote(pages, options.blocking, checkpoint, &analysed);
    if let Some(cache) = service.cache(database) {
        pool.set_page_cache(cache);
    }
    pool.set_read_ahead(options.read_ahead_pages);
    Ok(true)
}
