//! Where the archive is, by its URL, and what writes runs there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_log::Log;
use resurgam_page::boot::Boot;
use resurgam_vfs::Vfs;
use resurgam_xstore::{FolderStore, Store};

use crate::archiver::Archiver;
use crate::options::{Options, StoreHandle};

/// The folder that a URL names: a plain path, relative to the data folder unless absolute, or `file://` and an absolute one.
///
/// # Errors
/// `NotSupported` for any other kind of place; `InvalidParameter`.
pub(crate) fn folder_of(dir: &Path, url: &str) -> Result<PathBuf> {
    let path = match url.split_once("://") {
        None => url,
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => {
            if !path.starts_with('/') {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    format!("\"{url}\" names no folder: file:// is followed by an absolute path"),
                ));
            }
            path
        }
        Some((scheme, _)) => {
            return Err(Error::new(
                ErrorKind::NotSupported,
                format!("the place \"{url}\" cannot be used: places of kind \"{scheme}\" are not supported"),
            )
            .with_hint("Name a folder, or file:// and a folder."));
        }
    };
    if path.is_empty() {
        return Err(Error::new(ErrorKind::InvalidParameter, "a place for the archive or for backups is empty"));
    }
    Ok(dir.join(path))
}

/// The archiver that the options ask for.
///
/// # Errors
/// Those of the URL; that the archive is not this log's.
pub(crate) fn open_archiver(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
    boot: &Boot,
    log: &Arc<Log>,
) -> Result<Option<Archiver>> {
    let Some(url) = &options.archive else { return Ok(None) };
    let folder = folder_of(dir, url)?;
    let place = format!("the archive \"{}\"", folder.display());
    let (vfs, given) = (Arc::clone(vfs), options.archive_store.clone());
    let open = Box::new(move || {
        let store: Arc<dyn Store> = match &given {
            Some(StoreHandle(store)) => Arc::clone(store),
            None => Arc::new(FolderStore::open(Arc::clone(&vfs), &folder).map_err(Error::from)?),
        };
        Ok((store, vfs.random_u64().max(1)))
    });
    Archiver::start(log, boot.database_id, place, open).map(Some)
}
