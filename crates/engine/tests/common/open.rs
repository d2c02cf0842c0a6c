//! Opening databases in tests: on a simulated disk, small ones.

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

/// Whether this run of the tests is about the traditional mode of recovery.
pub fn is_traditional() -> bool {
    std::env::var("RESURGAM_MODE").as_deref() == Ok("traditional")
}

/// Little memory, and nothing in the background.
pub fn small(traditional: bool) -> Options {
    Options {
        buffer_bytes: 1 << 20,
        background: false,
        accelerated_database_recovery: !traditional,
        ..Options::default()
    }
}

/// The same with a log of small segments.
pub fn small_log(traditional: bool) -> Options {
    Options { log_segment_bytes: 1 << 20, ..small(traditional) }
}

/// Opens the database of that disk, in `/db`.
pub fn open_as(vfs: &SimVfs, options: Options) -> Result<Database> {
    Database::open_with(Arc::new(vfs.clone()), Path::new("/db"), options, |_| {})
}

/// The same, with all of its log redone.
pub fn open_recovered(vfs: &SimVfs, options: Options) -> Result<Database> {
    let db = open_as(vfs, options)?;
    db.finish_recovery()?;
    Ok(db)
}

/// The same, a small one.
pub fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    open_as(vfs, small(traditional))
}
