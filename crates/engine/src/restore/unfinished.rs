//! What a data folder says of a restore that is not finished, for those who look at a folder that nobody has open.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Lsn, Result};
use resurgam_vfs::Vfs;

use super::marks::Marks;
use super::origin::{Origin, OriginKind};
use super::run::files_of;
use crate::points::RESTORING;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnfinishedRestore {
    /// `resurgam restore` or `resurgam clone` did not come to its end: the folder is no database.
    NotMade,
    /// It is a database, and not all of its pages are in its files.
    Segments {
        kind: OriginKind,
        /// Where the rest is made from.
        archive: String,
        backups: Option<String>,
        /// As of which position; `None`: the archive's end at the next open.
        as_of: Option<Lsn>,
        /// Segments of 1 MB that are known to be in the files, of so many. `None`: the marks are damaged, and the next open begins anew.
        restored: Option<u64>,
        segments: u64,
    },
}

/// What is unfinished in the data folder `dir`; `None`: nothing is.
///
/// # Errors
/// `Corrupt`, `NewerFormat`: that it is being restored, but the file that says from where cannot be used; those of reading.
pub fn unfinished_restore(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<UnfinishedRestore>> {
    if vfs.exists(&dir.join(RESTORING))? {
        return Ok(Some(UnfinishedRestore::NotMade));
    }
    let Some(origin) = Origin::read(vfs, dir)? else { return Ok(None) };
    let files = files_of(&origin);
    let segment_pages = resurgam_archive::SEGMENT_PAGES as u64;
    let marks = Marks::read(vfs, dir, origin.database_id).ok();
    let is_restored = |file: u64| files.iter().any(|(of, _)| *of == file);
    Ok(Some(UnfinishedRestore::Segments {
        kind: origin.kind,
        restored: marks.map(|marks| marks.segments.iter().filter(|segment| is_restored(segment.file)).count() as u64),
        segments: files.iter().map(|(_, pages)| pages.div_ceil(segment_pages)).sum(),
        archive: origin.archive,
        backups: origin.backups,
        as_of: origin.as_of,
    }))
}

impl fmt::Display for UnfinishedRestore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Segments { kind, archive, backups, as_of, restored, segments } = self else {
            return f.write_str(
                "this folder is no database yet: a restore into it was begun and did not come to its end. Run the same command again, \
                 which begins anew, or delete the folder",
            );
        };
        let as_of = as_of.map_or_else(|| "the archive's end".to_owned(), |lsn| format!("LSN {lsn}"));
        let known = match restored {
            Some(restored) => format!("{restored} of {segments} segments are known to be in its files"),
            None => format!("which of its {segments} segments are in its files is not known (the marks are damaged)"),
        };
        let what = match kind {
            OriginKind::Media => "files of this folder were lost and are being restored",
            OriginKind::Point => "this folder is being restored to a point in time",
            OriginKind::Clone => "this folder is a clone, whose pages come as they are asked for",
        };
        write!(f, "{what}: {known}, the rest is made, as of {as_of}, from the archive \"{archive}\"")?;
        if let Some(backups) = backups {
            write!(f, " and backups in \"{backups}\"")?;
        }
        match kind {
            OriginKind::Clone => Ok(()),
            _ => f.write_str(". Start the server: it goes on, and says when it is finished"),
        }
    }
}
