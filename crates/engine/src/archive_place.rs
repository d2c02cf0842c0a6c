//! What writes runs to the place that the options name.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_log::Log;
use resurgam_page::boot::Boot;
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use crate::archiver::Archiver;
use crate::log_zone::LogZoneHandle;
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
    if options.archive_elsewhere {
        let Some(LogZoneHandle(zone)) = &options.log_zone else {
            let what = "log services write the archive of a log in a landing zone only";
            return Err(Error::new(ErrorKind::InvalidParameter, what));
        };
        if lineage.is_some() {
            // Its archive has to name what it was made of, before the first run.
            let what = "log services do not write the archive of a database that was made of another one";
            return Err(Error::new(ErrorKind::NotSupported, what).with_hint(
                "Let the primary archive (log_service_archives off), and give the log services no archive.",
            ));
        }
        let place = format!("{place}, which log services write");
        return Ok(Some(Archiver::beside(boot.database_id, place, open, options.archive_cpu_percent, zone)));
    }
    Archiver::start(log, boot.database_id, place, open, lineage.cloned(), options.archive_cpu_percent).map(Some)
}
