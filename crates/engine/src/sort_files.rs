//! Temporary files of sorts: who makes them, and what is asked of one.
//!
//! By itself the engine makes them in the folder of the data file. A layer above that has a place of its own for temporary files, bounds
//! what its statements may have of it, and counts it, makes those of its transactions ([`Transaction::set_sort_files`]).
//!
//! # Invariants
//! 1. A file has no name once it is open: nobody else finds it, and it goes with its last handle. What a power loss has brought back of
//!    a name in the data folder is removed by the next open ([`is_left`]); elsewhere that is up to who makes them.
//! 2. Each byte of it is written once, behind those that were written before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::Result;
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::transaction::Transaction;

/// A temporary file of a sort.
pub trait SortFile: Send + Sync {
    /// Writes all of `bytes` at `at`, the file's end.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `ConfigurationLimitExceeded` where such files may not take more. The statement fails with it.
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<()>;

    /// Fills `bytes` from `at`.
    ///
    /// # Errors
    /// `Io`; `Corrupt` when the file ends before.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> Result<()>;

    /// The path it was made under, for messages.
    fn path(&self) -> &Path;
}

/// Who makes temporary files for the sorts of a transaction.
pub trait SortFiles: Send + Sync {
    /// A new one, which is empty.
    ///
    /// # Errors
    /// Those of making it.
    fn create(&self) -> Result<Arc<dyn SortFile>>;
}

impl Transaction {
    /// Has `files` make the temporary files of sorts that begin from here on: of indexes and of tables that are written anew. `None`: they
    /// are in the folder of the data file.
    pub fn set_sort_files(&self, files: Option<Arc<dyn SortFiles>>) {
        self.0.state.lock().sort_files = files;
    }

    pub(crate) fn sort_files(&self) -> Option<Arc<dyn SortFiles>> {
        self.0.state.lock().sort_files.clone()
    }
}

/// Whether a file of the data folder is one of a sort, which nobody reads again.
pub(crate) fn is_left(name: &str) -> bool {
    name.strip_prefix("sort.").is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// One in the data folder.
struct InDataFolder {
    file: Arc<dyn File>,
    path: PathBuf,
}

impl SortFile for InDataFolder {
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_at(bytes, at)
    }
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.file.read_exact_at(bytes, at)
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

/// A new one in `folder`, in which it has a name for a moment; each has another number.
///
/// # Errors
/// Those of making the file.
pub(crate) fn in_data_folder(vfs: &dyn Vfs, folder: &Path, number: u64) -> Result<Arc<dyn SortFile>> {
    let path = folder.join(format!("sort.{number}"));
    if vfs.exists(&path)? {
        // A process died in that moment.
        vfs.remove(&path)?;
    }
    let file = vfs.open(&path, OpenMode::CreateNew)?;
    vfs.remove(&path)?;
    Ok(Arc::new(InDataFolder { file, path }))
}
