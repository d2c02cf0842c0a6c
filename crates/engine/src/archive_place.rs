//! What writes runs to the place that the options name.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::Result;
use resurgam_log::Log;
use resurgam_page::boot::Boot;
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use crate::archiver::Archiver;
use crate::options::{Options, StoreHandle};
use crate::restore::Lineage;

/// The archiver that the options ask for; `lineage`: the database was made of another one.
///
/// # Errors
/// Those of the URL; that the archive is not this log's.
pub(crate) fn open_archiver(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
    boot: &Boot,
    log: &Arc<Log>,
    lineage: Option<&Arc<Lineage>>,
) -> Result<Option<Archiver>> {
    let Some(url) = &options.archive else { return Ok(None) };
    let archive = Place::of(dir, url)?;
    let place = format!("the archive \"{archive}\"");
    let (vfs, given) = (Arc::clone(vfs), options.archive_store.clone());
    let open = Box::new(move || {
        let store: Arc<dyn Store> = match &given {
            Some(StoreHandle(store)) => Arc::clone(store),
            None => archive.open(&vfs, Access::Write)?,
        };
        Ok((store, vfs.random_u64().max(1)))
    });
    Archiver::start(log, boot.database_id, place, open, lineage.cloned(), options.archive_cpu_percent).map(Some)
}
