//! Pages from archive and backup: those of a server that has none yet, and those that a crash has torn.

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_archive::{Archive, DatabaseId, PageBase, PageMaker, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_xstore::Store;

/// Where a page server gets pages that it does not have.
pub trait Seed: Send + Sync {
    /// Up to where it has the log: pages can be made with all records below. It only grows. 0: it has nothing yet.
    ///
    /// # Errors
    /// `Io` when it cannot be asked now.
    fn end(&self) -> Result<Lsn>;

    /// Pages of the data file that may exist below that: those from this number on do not.
    ///
    /// # Errors
    /// As [`Seed::end`].
    fn pages(&self) -> Result<u64>;

    /// Fills `pages` with the pages from `first` on, sealed, with all records below [`Seed::end`] as it is now or was after the call
    /// began; one that does not exist is all zero.
    ///
    /// # Errors
    /// `Corrupt`, naming object and page; `NotInPrerequisiteState` when it does not reach back to where a page was made; `Io`.
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<()>;
}

/// The archive of a database, and its backups.
pub struct ArchiveSeed {
    archive: Arc<dyn Store>,
    backups: Option<Arc<dyn Store>>,
    database: DatabaseId,
    /// Where the log of a new database begins.
    first: Lsn,
    /// What was opened last.
    opened: Mutex<Option<Arc<Opened>>>,
}

struct Opened {
    view: Arc<View>,
    base: PageBase,
}

impl ArchiveSeed {
    /// `first` is where the log of a new database of this kind begins.
    pub fn new(archive: Arc<dyn Store>, backups: Option<Arc<dyn Store>>, database: DatabaseId, first: Lsn) -> Self {
        Self { archive, backups, database, first, opened: Mutex::default() }
    }

    /// The archive as it is now; none when there is nothing in it.
    fn look(&self) -> Result<Option<Arc<View>>> {
        let view = Archive::open_view(Arc::clone(&self.archive), Some(self.database))?;
        Ok(view.filter(|view| view.end() > view.start()))
    }

    /// What was opened since it was asked for the end last, or as it is now; none when there is nothing in it.
    fn opened(&self) -> Result<Option<Arc<Opened>>> {
        let mut opened = self.opened.lock();
        if opened.is_none() {
            let Some(view) = self.look()? else { return Ok(None) };
            let base = PageBase::newest(self.backups.as_ref(), &view, view.end(), self.first)?;
            *opened = Some(Arc::new(Opened { view, base }));
        }
        Ok(opened.clone())
    }

    fn forget(&self) {
        *self.opened.lock() = None;
    }
}

impl Seed for ArchiveSeed {
    fn end(&self) -> Result<Lsn> {
        let end = self.look()?.map_or(Lsn::NONE, |view| view.end());
        // Behind that: what is opened from here on reaches so far at least.
        self.forget();
        Ok(end)
    }

    fn pages(&self) -> Result<u64> {
        // The runs that are opened for it stay open: the first pages are made from them.
        let Some(opened) = self.opened()? else { return Ok(0) };
        let Opened { view, base } = &*opened;
        let mut pages = 0;
        for index in 0..view.manifest().runs.len() {
            pages = pages.max(view.run(index)?.summary().highest_page.0 + 1);
        }
        Ok(base.backup().map_or(pages, |backup| backup.summary().data_pages.max(pages)))
    }

    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<()> {
        let mut again = true;
        loop {
            let Some(opened) = self.opened()? else {
                return Err(Error::new(
                    ErrorKind::NotInPrerequisiteState,
                    format!("the archive in {} has nothing yet", self.archive.place()),
                ));
            };
            let maker = PageMaker::new(opened.base.clone(), Arc::clone(&opened.view), Lsn(opened.view.end().0 - 1));
            match maker.and_then(|maker| maker.make(first, pages)) {
                // Merges replace runs; whoever meets one that is gone looks again.
                Err(_) if again => {
                    again = false;
                    self.forget();
                    pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
                }
                outcome => return outcome.map(drop),
            }
        }
    }
}
