//! The database that a folder was made of, for as long as one of its pages is nowhere else: where that one's pages come from.
//!
//! A clone, or a database as of a point in time, whose pages are not all in its files, is made in layers: the parent's pages as of the
//! cut, from the parent's backup and runs, and behind them the records of its own archive. So its devices can be replaced, and its
//! damaged pages rebuilt, before all of it is there. The lease on the parent's archive lasts until then.

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, Backup, PageBase, PageMaker, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;

use super::begin::store_at;
use super::origin::{Origin, OriginKind};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentSource {
    /// What the folder was made as: whose lease it is.
    pub kind: OriginKind,
    pub database_id: [u8; 16],
    /// URL of its archive.
    pub archive: String,
    /// URL of its backups, and the name of the one that is used.
    pub backups: Option<String>,
    pub backup: Option<String>,
    /// The last LSN of its log that counts.
    pub as_of: Lsn,
}

impl ParentSource {
    /// That of a folder with this origin; `None`: no page comes from another database.
    pub fn of(origin: &Origin) -> Option<Self> {
        match (origin.kind, origin.as_of) {
            (OriginKind::Media, _) => origin.parent.clone(),
            (_, None) => None,
            (kind, Some(as_of)) => Some(Self {
                kind,
                database_id: origin.database_id,
                archive: origin.archive.clone(),
                backups: origin.backups.clone(),
                backup: origin.backup.clone(),
                as_of,
            }),
        }
    }

    /// Where the log of the database begins that was made of it.
    pub fn log_begins(&self, segment_bytes: u64) -> Lsn {
        let segment_bytes = segment_bytes.max(1);
        Lsn((self.as_of.0 + 1).div_ceil(segment_bytes).max(1) * segment_bytes)
    }

    /// Opens its archive as it is now.
    ///
    /// # Errors
    /// `Io` when there is none any more; those of opening.
    pub fn view(&self, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Arc<View>> {
        let view = Archive::open_view(store_at(vfs, dir, &self.archive, None)?, Some(self.database_id))?;
        view.ok_or_else(|| {
            Error::new(
                ErrorKind::Io,
                format!("there is no archive in {}, of which this database was made", self.archive),
            )
        })
    }

    /// What makes its pages as of the cut.
    ///
    /// # Errors
    /// Those of opening archive and backup; that they do not have that point any more.
    pub fn maker(&self, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Arc<PageMaker>> {
        let backup = match (&self.backup, &self.backups) {
            (Some(name), Some(url)) => Some(Backup::open(&store_at(vfs, dir, url, None)?, name)?),
            _ => None,
        };
        // Asked when the folder was made, and leased since.
        let base = PageBase::unchecked(backup);
        PageMaker::new(base, self.view(vfs, dir)?, self.as_of).map(Arc::new)
    }
}
