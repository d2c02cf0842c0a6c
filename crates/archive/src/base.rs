//! What pages are made of besides their records: the images of a backup, or nothing where the archive begins with its database.
//!
//! Whoever makes pages has to have one of these, and there is no way to one but through the question whether archive and backup reach
//! back to where every page was made: an archive that was begun later, without a backup, makes pages that look empty.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_xstore::Store;

use crate::backup::Backup;
use crate::view::View;

/// See the module.
#[derive(Clone)]
pub struct PageBase(Option<Arc<Backup>>);

impl PageBase {
    /// Of a backup, or of the archive alone. `first` is where the log of a new database of this kind begins (the end of
    /// segment 0); that of a database that was made of another one begins later.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when there is no backup and the archive begins later.
    pub fn new(backup: Option<Arc<Backup>>, view: &View, first: Lsn) -> Result<Self> {
        if backup.is_some() || view.start() <= first {
            return Ok(Self(backup));
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

    /// The same with the newest backup in `backups` that ends at or before `end` and that the archive goes on from.
    ///
    /// # Errors
    /// Those of [`PageBase::new`] and of the store.
    pub fn newest(backups: Option<&Arc<dyn Store>>, view: &View, end: Lsn, first: Lsn) -> Result<Self> {
        let newest = backups.map(|store| Backup::newest(store, view.manifest().database, end)).transpose()?.flatten();
        // One that needs log from before the archive is of no use.
        Self::new(newest.filter(|backup| backup.summary().begin >= view.start()), view, first)
    }

    /// Of a backup, or nothing: where it was asked before, or where a page that is not made matters to nobody.
    pub fn unchecked(backup: Option<Arc<Backup>>) -> Self {
        Self(backup)
    }

    /// The backup.
    pub fn backup(&self) -> Option<&Arc<Backup>> {
        self.0.as_ref()
    }
}
