//! A store in a folder.
//!
//! An object is written to a file with a name of its own that begins with a dot, synced, renamed to a name that must not
//! exist, and the folder is synced: in this order, so that whatever can be seen under an object's name is whole and
//! durable content. (A rename before the sync is how archives have been lost: after a power loss the name is there and
//! leads to zeros.)
//!
//! A name that is seen although its folder could not be synced may go again with the power. So whoever is told that a
//! name is taken is told so after a sync of the folder (promise 4 of the trait).

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::Result;
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::error::{StoreError, StoreErrorKind, StoreResult};
use crate::name::check_name;
use crate::{Store, Upload};

/// Objects that are kept open for reading.
const OPEN_MAX: usize = 64;
/// Appended bytes that are gathered to one write.
const WRITE_BYTES: usize = 1 << 20;
/// Folders that are remembered to be durable.
const MADE_MAX: usize = 1024;
/// What the names of unfinished files begin with.
const UNFINISHED: &str = ".unfinished-";

/// A folder of a [`Vfs`]. See the module.
pub struct FolderStore {
    vfs: Arc<dyn Vfs>,
    root: PathBuf,
    open: Mutex<VecDeque<(String, Arc<dyn File>)>>,
    /// Folders that are known to be durable.
    made: Mutex<BTreeSet<PathBuf>>,
    /// A planted bug for crash tests: see [`FolderStore::rename_before_sync`].
    rename_before_sync: bool,
}

impl FolderStore {
    /// The store in the folder `root`, which is made if it is missing.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn open(vfs: Arc<dyn Vfs>, root: &Path) -> StoreResult<Self> {
        let root = root.to_path_buf();
        vfs.make_folder(&root).map_err(unavailable)?;
        Ok(Self { vfs, root, open: Mutex::default(), made: Mutex::default(), rename_before_sync: false })
    }

    /// The store in the folder `root`, which must be there: for who only reads.
    ///
    /// # Errors
    /// `Missing`, `Unavailable`.
    pub fn existing(vfs: Arc<dyn Vfs>, root: &Path) -> StoreResult<Self> {
        if !vfs.exists(root).map_err(unavailable)? {
            let what = format!("there is no folder \"{}\"", root.display());
            return Err(StoreError::new(StoreErrorKind::Missing, what));
        }
        Ok(Self {
            vfs,
            root: root.to_path_buf(),
            open: Mutex::default(),
            made: Mutex::default(),
            rename_before_sync: false,
        })
    }

    /// For tests: a store that publishes an object before its content is durable. A crash test that passes with it
    /// tests nothing.
    #[doc(hidden)]
    pub fn rename_before_sync(mut self) -> Self {
        self.rename_before_sync = true;
        self
    }

    fn path(&self, name: &str) -> StoreResult<PathBuf> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    /// Once for each folder: of one that was there already nobody knows whether it was synced.
    fn make_folder(&self, dir: &Path) -> Result<()> {
        if self.made.lock().contains(dir) {
            return Ok(());
        }
        self.vfs.make_folder(dir)?;
        let mut made = self.made.lock();
        if made.len() >= MADE_MAX {
            made.clear();
        }
        made.insert(dir.to_path_buf());
        Ok(())
    }

    fn file(&self, name: &str) -> StoreResult<Arc<dyn File>> {
        let path = self.path(name)?;
        let mut open = self.open.lock();
        if let Some(at) = open.iter().position(|(known, _)| known == name)
            && let Some(found) = open.remove(at)
        {
            let file = Arc::clone(&found.1);
            open.push_front(found);
            return Ok(file);
        }
        let missing =
            || StoreError::new(StoreErrorKind::Missing, format!("there is no object \"{name}\" in {}", self.place()));
        if !self.vfs.exists(&path).map_err(unavailable)? {
            return Err(missing());
        }
        let file = match self.vfs.open(&path, OpenMode::ReadOnly) {
            Ok(file) => file,
            // Another process may have deleted it since.
            Err(error) => {
                return Err(if self.vfs.exists(&path).map_err(unavailable)? { unavailable(error) } else { missing() });
            }
        };
        open.push_front((name.to_owned(), Arc::clone(&file)));
        open.truncate(OPEN_MAX);
        Ok(file)
    }
}

fn unavailable(error: resurgam_base::Error) -> StoreError {
    StoreError::of(StoreErrorKind::Unavailable, error)
}

fn uncertain(error: resurgam_base::Error) -> StoreError {
    StoreError::of(StoreErrorKind::Uncertain, error)
}

fn exists(path: &Path) -> StoreError {
    StoreError::new(StoreErrorKind::Exists, format!("\"{}\" is there already", path.display()))
}

/// The folder of a path below the store's root.
fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl FolderStore {
    /// The file of an object that has so many bytes from `offset` on. Asked before there is memory for them: a length out of a damaged
    /// object must not become memory.
    fn file_of_at_least(&self, name: &str, offset: u64, len: usize) -> StoreResult<Arc<dyn File>> {
        let file = self.file(name)?;
        let there = file.len().map_err(unavailable)?;
        if offset.checked_add(len as u64).is_none_or(|end| end > there) {
            return Err(StoreError::new(
                StoreErrorKind::Short,
                format!(
                    "object \"{name}\" in {} ends too early: {len} bytes wanted at offset {offset}, it has {there}",
                    self.place()
                ),
            ));
        }
        Ok(file)
    }
}

impl Store for FolderStore {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        let path = self.path(name)?;
        let dir = folder(&path).to_path_buf();
        self.make_folder(&dir).map_err(unavailable)?;
        if self.vfs.exists(&path).map_err(unavailable)? {
            self.vfs.sync_dir(&dir).map_err(uncertain)?;
            return Err(exists(&path));
        }
        let temporary = dir.join(format!("{UNFINISHED}{:016x}", self.vfs.random_u64()));
        let file = self.vfs.open(&temporary, OpenMode::CreateNew).map_err(unavailable)?;
        Ok(Box::new(FolderUpload {
            vfs: Arc::clone(&self.vfs),
            file,
            temporary,
            path,
            gathered: Vec::new(),
            written: 0,
            gone: false,
            rename_before_sync: self.rename_before_sync,
        }))
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        let file = self.file_of_at_least(name, offset, len)?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset).map_err(unavailable)?;
        Ok(bytes)
    }

    fn read_into(&self, name: &str, offset: u64, len: usize, into: &mut Vec<u8>) -> StoreResult<()> {
        let file = self.file_of_at_least(name, offset, len)?;
        into.resize(len, 0);
        file.read_exact_at(into, offset).map_err(unavailable)
    }

    fn len(&self, name: &str) -> StoreResult<u64> {
        self.file(name)?.len().map_err(unavailable)
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        let (dir, start) = prefix.rsplit_once('/').map_or(("", prefix), |(dir, start)| (dir, start));
        let path = if dir.is_empty() { self.root.clone() } else { self.path(dir)? };
        if !self.vfs.exists(&path).map_err(unavailable)? {
            return Ok(Vec::new());
        }
        let mut names = self.vfs.list(&path).map_err(unavailable)?;
        names.retain(|name| name.starts_with(start) && !name.starts_with('.'));
        if !dir.is_empty() {
            names.iter_mut().for_each(|name| name.insert_str(0, &format!("{dir}/")));
        }
        Ok(names)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        let path = self.path(name)?;
        self.open.lock().retain(|(known, _)| known != name);
        if self.vfs.exists(&path).map_err(unavailable)? {
            let removed = self.vfs.remove(&path);
            // Gone is gone, whoever has done it.
            if removed.is_err() && self.vfs.exists(&path).map_err(unavailable)? {
                removed.map_err(unavailable)?;
            }
        }
        Ok(())
    }

    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        let path = self.path(folder)?;
        if !self.vfs.exists(&path).map_err(unavailable)? {
            return Ok(());
        }
        self.vfs.sync_dir(&path).map_err(unavailable)
    }

    fn tidy(&self, folder: &str) -> StoreResult<()> {
        let path = self.path(folder)?;
        if !self.vfs.exists(&path).map_err(unavailable)? {
            return Ok(());
        }
        for name in self.vfs.list(&path).map_err(unavailable)? {
            if name.starts_with(UNFINISHED) {
                self.vfs.remove(&path.join(name)).map_err(unavailable)?;
            }
        }
        Ok(())
    }

    fn place(&self) -> String {
        format!("folder \"{}\"", self.root.display())
    }
}

/// An unfinished file.
struct FolderUpload {
    vfs: Arc<dyn Vfs>,
    file: Arc<dyn File>,
    temporary: PathBuf,
    path: PathBuf,
    gathered: Vec<u8>,
    written: u64,
    /// It has its name, or is not to be touched.
    gone: bool,
    rename_before_sync: bool,
}

impl FolderUpload {
    fn write_gathered(&mut self) -> StoreResult<()> {
        self.file.write_at(&self.gathered, self.written).map_err(unavailable)?;
        self.written += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }
}

impl Upload for FolderUpload {
    fn append(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITE_BYTES {
            self.write_gathered()?;
        }
        Ok(())
    }

    fn publish(mut self: Box<Self>) -> StoreResult<()> {
        self.write_gathered()?;
        if !self.rename_before_sync {
            self.file.sync().map_err(unavailable)?;
        }
        // A rename that reports an error may have been made.
        let renamed = self.vfs.rename_new(&self.temporary, &self.path).map_err(uncertain)?;
        self.gone = renamed;
        self.vfs.sync_dir(folder(&self.path)).map_err(uncertain)?;
        if !renamed {
            return Err(exists(&self.path));
        }
        if self.rename_before_sync {
            let _ = self.file.sync();
        }
        Ok(())
    }
}

impl Drop for FolderUpload {
    fn drop(&mut self) {
        if !self.gone {
            // What is left is tidied up later.
            let _ = self.vfs.remove(&self.temporary);
        }
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
