//! What the pages of a database are made of at the end of its archive, and how many there are, for who has no more than its archive and its backups.

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, Backup, PageBase, PageMaker, View, pages_of};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use super::{RestorePoint, base_of, cut, stream};
use crate::restore::{base_by_parents, parent_record};

/// See the module.
pub struct ArchivedPages {
    vfs: Arc<dyn Vfs>,
    store: Arc<dyn Store>,
    view: Arc<View>,
    base: PageBase,
    /// Pages of the data file, and number and pages of the version-store file. There may be fewer.
    pub data_pages: u64,
    pub version_pages: Option<(u32, u64)>,
}

impl ArchivedPages {
    /// Of the archive at the URL `archive`, as `view` has it, with the newest backup in `backups` that it goes on from. Without one, the archive alone where it
    /// begins at `first`, as the database did; else the pages of the database that this one was made of, which the archive names.
    ///
    /// # Errors
    /// `NotInPrerequisiteState`, with what to do, when none of these reaches back to where the pages were made; those of opening archives and backups.
    pub fn find(
        vfs: &Arc<dyn Vfs>,
        archive: &str,
        view: &Arc<View>,
        backups: Option<&Arc<dyn Store>>,
        first: Lsn,
    ) -> Result<Self> {
        let store = Place::of(Path::new(""), archive)?.open(vfs, Access::Existing)?;
        let of = |base: PageBase, data_pages, version_pages| Self {
            vfs: Arc::clone(vfs),
            store: Arc::clone(&store),
            view: Arc::clone(view),
            base,
            data_pages,
            version_pages,
        };
        let newest = match backups {
            // One that needs log from before the archive is of no use.
            Some(store) => Backup::newest(store, view.manifest().database, view.start(), view.end())?,
            None => None,
        };
        let (data, version) = pages_of(newest.as_deref(), view)?;
        if newest.is_some() || view.start() <= first {
            return Ok(of(PageBase::new(newest, view, first)?, data, version));
        }
        // How many pages it had at the cut, its own records do not say.
        let end = cut::find(view, RestorePoint::Latest)?;
        let analysis = stream::analyse(view, &end)?;
        let record = parent_record(&*store, view)?;
        let base = base_of(vfs, &store, view, &analysis, None, record.as_ref())?;
        let in_use = analysis.version_high_water;
        let version = match u32::try_from(in_use.file()) {
            Ok(number) if number > 0 => {
                let known = version.filter(|(of, _)| *of == number).map_or(0, |(_, pages)| pages);
                Some((number, known.max(in_use.in_file())))
            }
            _ => version,
        };
        Ok(of(base, data.max(analysis.high_water), version))
    }

    /// The backup that pages are made of; none: there is none.
    pub fn backup(&self) -> Option<&Arc<Backup>> {
        self.base.backup()
    }

    /// Whether they begin as those of the database that this one was made of.
    pub fn is_of_parent(&self) -> bool {
        self.base.parent().is_some()
    }

    /// Makes them as of the end of the archive.
    ///
    /// # Errors
    /// Those of [`PageMaker::new`].
    pub fn maker(&self) -> Result<PageMaker> {
        PageMaker::new(self.base.clone(), Arc::clone(&self.view), Lsn(self.view.end().0.saturating_sub(1)))
    }

    /// The same once more, with the archives as they are now: servers may have replaced runs by merged ones. `None`: pages of no other database are read.
    ///
    /// # Errors
    /// Those of opening archives and backups.
    pub fn maker_again(&self) -> Result<Option<PageMaker>> {
        if !self.is_of_parent() {
            return Ok(None);
        }
        let database = self.view.manifest().database;
        let view = Archive::open_view(Arc::clone(&self.store), Some(database))?
            .ok_or_else(|| Error::new(ErrorKind::Io, "there is no archive any more"))?;
        let base = base_by_parents(&self.vfs, &*self.store, &view)?
            .ok_or_else(|| Error::new(ErrorKind::NotInPrerequisiteState, "the archive has given up its beginning"))?;
        PageMaker::new(base, view, Lsn(self.view.end().0.saturating_sub(1))).map(Some)
    }
}
