//! The files of a data folder, opened for reading only.
//!
//! ```text
//! DIR/lock           held while a process has the database open
//! DIR/control        where the last checkpoint is
//! DIR/data           pages; page 0 is the boot page
//! DIR/doublewrite    torn-write protection
//! DIR/log/           log segments, if they have no folder of their own
//! DIR/log-place      where that is, if they have
//! DIR/version-store  where the version-store file is, if there is one
//! DIR/creating       present while the folder is being made
//! DIR/restoring      present while a restore makes it
//! DIR/restore        present while not all of its pages are there
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_recovery::read_log_place;
use resurgam_vfs::{File, OpenMode, RealVfs, Vfs};

/// A data folder to look at.
#[derive(Clone)]
pub struct Folder {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
    log: PathBuf,
    in_use: bool,
}

impl Folder {
    /// The folder at `dir` of the real file system.
    ///
    /// # Errors
    /// `Io` when it cannot be listed; `NotADatabase` when nothing in it is a data folder's.
    pub fn open(dir: &Path) -> Result<Self> {
        let mut folder = Self::with_vfs(Arc::new(RealVfs::new()), dir)?;
        folder.in_use = is_locked(&folder.lock());
        Ok(folder)
    }

    /// As [`Folder::open`], on any file system; whether it is in use is not known then.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn with_vfs(vfs: Arc<dyn Vfs>, dir: &Path) -> Result<Self> {
        let names = vfs.list(dir)?;
        // A note that cannot be read: what is in the data folder is looked at, and the note is what is damaged.
        let place = read_log_place(&vfs, dir).ok().flatten();
        let log = dir.join(place.as_deref().unwrap_or(Path::new("log")));
        let folder = Self { vfs, dir: dir.to_path_buf(), log, in_use: false };
        if !names
            .iter()
            .any(|name| ["control", "data", "log", "creating", "restore", "restoring"].contains(&name.as_str()))
        {
            return Err(Error::new(
                ErrorKind::NotADatabase,
                format!(
                    "\"{}\" is not a Resurgam data folder: it has neither a control file nor data nor a log",
                    dir.display()
                ),
            ));
        }
        Ok(folder)
    }

    /// Whether another process had the database open when this was made.
    pub fn in_use(&self) -> bool {
        self.in_use
    }

    /// What to say first when it is in use.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.in_use.then_some("WARNING: a server has this folder open; what it changes meanwhile can look like damage")
    }

    fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }
    pub(crate) fn control(&self) -> PathBuf {
        self.dir.join("control")
    }
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }
    pub(crate) fn double_write(&self) -> PathBuf {
        self.dir.join("doublewrite")
    }
    pub(crate) fn log(&self) -> PathBuf {
        self.log.clone()
    }
    pub(crate) fn creating(&self) -> PathBuf {
        self.dir.join("creating")
    }

    /// Opens a file for reading; `None` when it is not there.
    pub(crate) fn file(&self, path: &Path) -> Result<Option<Arc<dyn File>>> {
        if !self.vfs.exists(path)? {
            return Ok(None);
        }
        self.vfs.open(path, OpenMode::ReadOnly).map(Some)
    }
}

/// Whether another process holds the lock file exclusively. Asked by a shared lock on a
/// read-only handle, given back at once; any failure counts as no.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock))
}
