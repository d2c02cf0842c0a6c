//! A disk that says before some calls what they are, to whoever wants to make them take long.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Error, Result};
use resurgam_vfs::{File, FileLock, OpenMode, Vfs, VfsStats};

/// A call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Write,
    Sync,
}

type Hook = Arc<dyn Fn(Call, &Path) + Send + Sync>;

#[derive(Clone)]
pub struct Hooked {
    disk: Arc<dyn Vfs>,
    hook: Hook,
    /// It and what is below it keeps its name.
    kept: Option<PathBuf>,
}

impl Hooked {
    /// `hook` is called before each such call.
    pub fn new(disk: impl Vfs + 'static, hook: impl Fn(Call, &Path) + Send + Sync + 'static) -> Self {
        Self { disk: Arc::new(disk), hook: Arc::new(hook), kept: None }
    }

    /// Nothing there can have another name.
    pub fn keeping(self, path: impl Into<PathBuf>) -> Self {
        Self { kept: Some(path.into()), ..self }
    }
}

struct HookedFile(Arc<dyn File>, Hook);

impl File for HookedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        (self.1)(Call::Read, self.0.path());
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        (self.1)(Call::Write, self.0.path());
        self.0.write_at(buf, offset)
    }
    fn sync(&self) -> Result<()> {
        (self.1)(Call::Sync, self.0.path());
        self.0.sync()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn preallocate(&self, len: u64) -> Result<()> {
        self.0.preallocate(len)
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Vfs for Hooked {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(HookedFile(self.disk.open(path, mode)?, Arc::clone(&self.hook))))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        if self.kept.as_ref().is_some_and(|kept| from.starts_with(kept)) {
            let failed = std::io::Error::other("simulated input/output error");
            return Err(Error::io("rename file", from.display(), &failed));
        }
        self.disk.rename_new(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.disk.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.disk.lock(path)
    }
    fn now(&self) -> Duration {
        self.disk.now()
    }
    fn wall_clock_us(&self) -> i64 {
        self.disk.wall_clock_us()
    }
    fn random_u64(&self) -> u64 {
        self.disk.random_u64()
    }
    fn stats(&self) -> VfsStats {
        self.disk.stats()
    }
}
