//! What pages are made of besides their records: the images of a backup, the pages of the database that this one was made of as they
//! were at the cut, or nothing where the archive begins with its database.
//!
//! Whoever makes pages has to have one of these, and there is no way to one but through the question whether archive and backup reach
//! back to where every page was made: an archive that was begun later, without a backup, makes pages that look empty.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_xstore::Store;

use crate::backup::Backup;
use crate::make::PageMaker;
use crate::view::View;

/// See the module.
#[derive(Clone)]
pub struct PageBase(Base);

#[derive(Clone)]
enum Base {
    Nothing,
    Backup(Arc<Backup>),
    Parent(Arc<PageMaker>),
}

impl From<Option<Arc<Backup>>> for Base {
    fn from(backup: Option<Arc<Backup>>) -> Self {
        backup.map_or(Self::Nothing, Self::Backup)
    }
}

impl PageBase {
    /// Of a backup, or of the archive alone. `first` is where the log of a new database of this kind begins (the end of
    /// segment 0); that of a database that was made of another one begins later.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when there is no backup and the archive begins later.
    pub fn new(backup: Option<Arc<Backup>>, view: &View, first: Lsn) -> Result<Self> {
        if backup.is_some() || view.start() <= first {
            return Ok(Self(backup.into()));
        }
        Err(Error::new(
            ErrorKind::NotInPrerequisiteState,
            format!(
                "the archive begins at LSN {}, after the database was made (or the database was made of another one), and there is no \
                 backup to go on from: pages cannot be made",
                view.start()
            ),
        ))
    }

    /// The same with the newest backup in `backups` that ends at or before `end` and that the archive goes on from; one that lacks
    /// pages only where there is no other.
    ///
    /// # Errors
    /// Those of [`PageBase::new`] and of the store.
    pub fn newest(backups: Option<&Arc<dyn Store>>, view: &View, end: Lsn, first: Lsn) -> Result<Self> {
        let newest = |store| Backup::newest(store, view.manifest().database, view.start(), end);
        Self::new(backups.map(newest).transpose()?.flatten(), view, first)
    }

    /// Of a backup, or nothing: where it was asked before, or where a page that is not made matters to nobody.
    pub fn unchecked(backup: Option<Arc<Backup>>) -> Self {
        Self(backup.into())
    }

    /// Of a database that was made of another one: its pages as `parent` makes them, as of the cut. The log of the new one begins at
    /// `first`, above the cut; `view` is its archive, if it has one.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when the archive begins later than the log did.
    pub fn of_parent(parent: Arc<PageMaker>, view: Option<&View>, first: Lsn) -> Result<Self> {
        match view {
            Some(view) if view.start() > first => Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!(
                    "the archive begins at LSN {}, the log of the database, which was made of another one, at LSN {first}: pages cannot \
                     be made",
                    view.start()
                ),
            )),
            _ => Ok(Self(Base::Parent(parent))),
        }
    }

    /// The backup.
    pub fn backup(&self) -> Option<&Arc<Backup>> {
        match &self.0 {
            Base::Backup(backup) => Some(backup),
            Base::Nothing | Base::Parent(_) => None,
        }
    }

    /// What makes pages as of the cut at which the database was made of another one.
    pub fn parent(&self) -> Option<&Arc<PageMaker>> {
        match &self.0 {
            Base::Parent(parent) => Some(parent),
            Base::Nothing | Base::Backup(_) => None,
        }
    }
}
