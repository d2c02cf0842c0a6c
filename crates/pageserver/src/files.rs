//! The files of the covering cache: one with all pages at their numbers where the server has all of them; else one for each of its
//! partitions, so that a partition is given up by removing its file.
//!
//! | file | what it has |
//! |---|---|
//! | `pages` | page n at n times the page's size |
//! | `pages-P` | of partition P, the page n behind its first one at n times the page's size |
//!
//! A file that is not there has no page.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use resurgam_base::{PageId, Result, limits::PAGE_SIZE};
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::partition::Partitions;

const NAME: &str = "pages";

struct Open {
    file: Arc<dyn File>,
    /// Written since the last sync.
    written: AtomicBool,
}

/// See the module.
pub(crate) struct PageFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    partitions: Partitions,
    open: RwLock<HashMap<u64, Arc<Open>>>,
    /// Held while a file is made.
    making: Mutex<()>,
    /// One was made since the folder was synced.
    made: AtomicBool,
}

impl PageFiles {
    /// # Errors
    /// Those of the file of all pages, where that is the one.
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path, partitions: Partitions) -> Result<Self> {
        let this = Self {
            vfs,
            dir: dir.to_path_buf(),
            partitions,
            open: RwLock::default(),
            making: Mutex::default(),
            // What a process before this one has made it may not have synced.
            made: AtomicBool::new(true),
        };
        if this.partitions.is_all() {
            this.file(0, true)?;
        }
        Ok(this)
    }

    /// The file's number, and where the page is in it.
    fn place(&self, page: PageId) -> (u64, u64) {
        if self.partitions.is_all() {
            return (0, page.0 * PAGE_SIZE as u64);
        }
        let number = self.partitions.partition_of(page);
        (number, (page.0 - number * self.partitions.pages()) * PAGE_SIZE as u64)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(if self.partitions.is_all() { NAME.to_owned() } else { format!("{NAME}-{number}") })
    }

    /// None: it is not there, and is not to be made.
    fn file(&self, number: u64, make: bool) -> Result<Option<Arc<Open>>> {
        if let Some(open) = self.open.read().get(&number) {
            return Ok(Some(Arc::clone(open)));
        }
        let _making = self.making.lock();
        if let Some(open) = self.open.read().get(&number) {
            return Ok(Some(Arc::clone(open)));
        }
        let path = self.path(number);
        let is_there = self.vfs.exists(&path)?;
        if !is_there && !make {
            return Ok(None);
        }
        let file = self.vfs.open(&path, OpenMode::Create)?;
        if !is_there {
            self.made.store(true, Ordering::SeqCst);
        }
        // A process before this one may have written what it has not synced; what is read of that is taken for durable by the next mark.
        let open = Arc::new(Open { file, written: AtomicBool::new(true) });
        self.open.write().insert(number, Arc::clone(&open));
        Ok(Some(open))
    }

    /// As [`File::read_at`].
    ///
    /// # Errors
    /// Those of the file.
    pub fn read(&self, page: PageId, buf: &mut [u8]) -> Result<usize> {
        let (number, at) = self.place(page);
        match self.file(number, false)? {
            Some(open) => open.file.read_at(buf, at),
            None => Ok(0),
        }
    }

    /// Writes pages of one segment, from this one on.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&self, first: PageId, bytes: &[u8]) -> Result<()> {
        let (number, at) = self.place(first);
        let Some(open) = self.file(number, true)? else { return Ok(()) };
        open.written.store(true, Ordering::SeqCst);
        open.file.write_at(bytes, at)
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// Those of the files and the folder; nothing that was written before counts then.
    pub fn sync(&self) -> Result<()> {
        let all: Vec<_> = self.open.read().values().map(Arc::clone).collect();
        for open in all {
            if open.written.swap(false, Ordering::SeqCst) {
                open.file.sync()?;
            }
        }
        if self.made.swap(false, Ordering::SeqCst) {
            self.vfs.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Removes files of pages that are not `kept`, by whether a partition is; the file of all pages goes with all others.
    ///
    /// # Errors
    /// Those of the folder.
    pub fn remove(vfs: &Arc<dyn Vfs>, dir: &Path, kept: impl Fn(Option<u64>) -> bool) -> Result<u64> {
        let mut removed = 0;
        for name in vfs.list(dir)? {
            let Some(rest) = name.strip_prefix(NAME) else { continue };
            let partition = match rest.strip_prefix('-') {
                Some(number) => match number.parse() {
                    Ok(number) => Some(number),
                    Err(_) => continue,
                },
                None if rest.is_empty() => None,
                None => continue,
            };
            if !kept(partition) {
                vfs.remove(&dir.join(name))?;
                removed += 1;
            }
        }
        if removed > 0 {
            vfs.sync_dir(dir)?;
        }
        Ok(removed)
    }
}
