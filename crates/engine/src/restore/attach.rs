//! What an open goes on with: the restore that a folder's origin says, put under the pool.

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{PageBase, PageMaker, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_buffer::{BufferPool, PendingRedo, Restoring};
use resurgam_log::Log;
use resurgam_vfs::Vfs;

use super::begin::{Material, material};
use super::maker::{Again, FromArchive};
use super::origin::{Origin, OriginKind};
use super::parent::ParentSource;
use super::run::{Restore, files_of};
use crate::archiver::Archiver;
use crate::options::Options;

/// What an open knows then.
pub(crate) struct Attach<'a> {
    pub vfs: &'a Arc<dyn Vfs>,
    pub dir: &'a Path,
    pub database_id: [u8; 16],
    pub options: &'a Options,
    pub log: &'a Arc<Log>,
    pub pool: &'a BufferPool,
    pub archiver: Option<&'a Arc<Archiver>>,
    /// What analysis found.
    pub pending: &'a PendingRedo,
}

/// Puts the restore under the pool: from then on its pages are restored when they are asked for. Gives the pool the
/// pages that analysis found, and what the log has behind the archive.
///
/// # Errors
/// That archive, backups and log do not give what it takes; those of reading.
pub(crate) fn attach(at: &Attach<'_>, origin: Origin) -> Result<Arc<Restore>> {
    let parent = ParentSource::of(&origin);
    let of_parent = origin.kind != OriginKind::Media;
    let (view, of_parents): (Option<Arc<View>>, _) = match (&parent, of_parent) {
        (Some(parent), true) => {
            let (view, base) = parent.material(at.vfs, at.dir, at.database_id)?;
            (Some(view), Some(base))
        }
        _ => {
            let Some(archiver) = at.archiver else { return Err(unreachable_archive(at.dir, &origin.archive)) };
            // One that lags is not waited for: its store may be slow, and the log has what it lacks.
            (Some(archiver.view().ok_or_else(|| unreachable_archive(at.dir, &origin.archive))?), None)
        }
    };
    let log_begins = at.log.oldest_lsn() <= log_first(at.log, parent.as_ref());
    let segment_bytes = at.log.config().segment_bytes;
    let found = match of_parents {
        Some(base) => Material { view, base },
        None => {
            let backups = origin.backups.clone().or(at.options.backups.clone());
            let options = Options { backups, ..at.options.clone() };
            let (vfs, dir, id) = (at.vfs, at.dir, origin.database_id);
            material(vfs, dir, &options, id, view, segment_bytes, log_begins, parent.as_ref())?
        }
    };
    let end = found.view.as_ref().map_or_else(|| at.log.oldest_lsn(), |view| view.end());
    let as_of = origin.as_of.unwrap_or(Lsn(end.0.saturating_sub(1)));
    let again = match (&parent, of_parent) {
        (Some(parent), true) => again_of_parent(at.vfs, at.dir, parent, at.database_id),
        _ => again(at.vfs, at.dir, at.archiver, &found, as_of, segment_bytes, parent.as_ref(), origin.database_id),
    };
    let maker = FromArchive::new(found.maker(as_of)?, again);
    let restoring = Restoring::new(&files_of(&origin), Arc::new(maker));
    let media = origin.kind == OriginKind::Media;
    // Until a checkpoint has what the pass finds.
    let hold = if media { Some(at.log.hold("the restore", end)?) } else { None };
    let percent = at.options.restore_cpu_percent;
    let restore = Restore::new(at.vfs, at.dir.to_path_buf(), origin, restoring, as_of, hold, percent)?;
    let version_file = at.pool.version_file().map(|file| file.number());
    for (page, entry) in at.pending.snapshot() {
        let in_use = page.file() == 0 || Some(page.file()) == version_file;
        // What a page that is made again lacks, the pass below says.
        if in_use && (!media || restore.restoring.is_there(page)) {
            at.pool.pending_redo().add(page, entry);
        }
    }
    if media {
        restore.pass(at.log, at.pool, end)?;
    }
    at.pool.set_restoring(Some(Arc::clone(&restore.restoring)));
    restore.restoring.begin();
    let progress = restore.restoring.progress();
    tracing::warn!(
        "{} of {} segments are to be restored, as of LSN {as_of}; the database is open meanwhile",
        progress.segments - progress.restored,
        progress.segments
    );
    Ok(restore)
}

/// Where the log of a database begins.
pub(super) fn log_first(log: &Log, parent: Option<&ParentSource>) -> Lsn {
    parent.map_or(log.config().first_lsn(), |parent| parent.log_begins(log.config().segment_bytes))
}

/// Makers of the archive of database `id`, as it is then.
#[allow(clippy::too_many_arguments)]
pub(super) fn again(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    archiver: Option<&Arc<Archiver>>,
    found: &Material,
    as_of: Lsn,
    segment_bytes: u64,
    parent: Option<&ParentSource>,
    id: [u8; 16],
) -> Again {
    let (vfs, dir, archiver, base) = (Arc::clone(vfs), dir.to_path_buf(), archiver.cloned(), found.base.clone());
    let parent = parent.filter(|_| base.parent().is_some()).cloned();
    Box::new(move || {
        let Some(view) = archiver.as_ref().and_then(|archiver| archiver.view()) else { return Ok(None) };
        let base = match &parent {
            Some(parent) => {
                let first = parent.log_begins(segment_bytes);
                PageBase::of_parent(parent.maker(&vfs, &dir, id)?, Some(&view), first)?
            }
            None => base.clone(),
        };
        if view.end() <= as_of {
            // Nothing of it was archived then.
            return Ok(base.parent().cloned());
        }
        PageMaker::new(base, view, as_of).map(Arc::new).map(Some)
    })
}

/// Makers of the pages of the database that database `id` was made of.
pub(crate) fn again_of_parent(vfs: &Arc<dyn Vfs>, dir: &Path, parent: &ParentSource, id: [u8; 16]) -> Again {
    let (vfs, dir, parent) = (Arc::clone(vfs), dir.to_path_buf(), parent.clone());
    Box::new(move || parent.maker(&vfs, &dir, id).map(Some))
}

fn unreachable_archive(dir: &Path, archive: &str) -> Error {
    Error::new(
        ErrorKind::Io,
        format!(
            "files of \"{}\" are being restored, and the archive, \"{archive}\", from which they are made, cannot be read",
            dir.display()
        ),
    )
    .with_hint("Make the archive reachable, and start again. What is in the log and in the archive is safe.")
}
