//! Which file a page is in: the data file, or the version-store file where there is one.
//!
//! The page id says it (`PageId::file`); everything above (log, redo, dirty pages, double
//! writes) knows ids only.
//!
//! A file whose device died is replaced by another one under the running pool. Who reads or writes a page takes the one
//! that is in use at that moment; pages in memory have nothing to do with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use resurgam_base::{Error, ErrorKind, PageId, Result, limits::PAGE_SIZE};
use resurgam_vfs::File;

/// The version-store file grows by this much at a time.
const GROW_PAGES: u64 = 1024;

/// The version-store file in use.
pub struct VersionFile {
    number: u64,
    file: RwLock<Arc<dyn File>>,
    /// Most bytes that it may grow to; 0 = as the disk allows.
    bytes_max: u64,
    /// Pages below this (numbers in the file) have space on the disk.
    reserved: AtomicU64,
}

impl VersionFile {
    /// `number` is that of its header; it is at least 1.
    pub fn new(number: u32, file: Arc<dyn File>, bytes_max: u64) -> Self {
        Self { number: u64::from(number), file: RwLock::new(file), bytes_max, reserved: AtomicU64::new(0) }
    }
    /// Its number: the upper bits of the ids of its pages.
    pub fn number(&self) -> u64 {
        self.number
    }
    pub fn path(&self) -> PathBuf {
        self.file().path().to_path_buf()
    }
    /// The file in use.
    pub(crate) fn file(&self) -> Arc<dyn File> {
        Arc::clone(&self.file.read())
    }
    /// Another one takes its place. Of that nothing is known to have space.
    pub(crate) fn replace(&self, file: Arc<dyn File>) {
        *self.file.write() = file;
        self.reserved.store(0, Ordering::Release);
    }
    /// Its size now, in bytes; 0 when the system does not say.
    pub fn bytes(&self) -> u64 {
        self.file().len().unwrap_or(0)
    }

    /// Pages (whole ids) below this are known to have space on the disk.
    pub(crate) fn reserved_to(&self) -> u64 {
        PageId::of_file(self.number, self.reserved.load(Ordering::Acquire)).0
    }

    /// Makes sure that page `number` of the file has space on the disk, and room for more
    /// with it. For pages that are given out.
    ///
    /// # Errors
    /// `DiskFull`, naming the file, when the disk or the bound does not allow it.
    pub(crate) fn grow(&self, number: u64) -> Result<()> {
        if number < self.reserved.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut target = (number + 1).div_ceil(GROW_PAGES) * GROW_PAGES;
        if self.bytes_max > 0 {
            // A file that is larger already (the bound was lowered) is used as it is.
            let most = (self.bytes_max / PAGE_SIZE as u64).max(self.file().len()? / PAGE_SIZE as u64);
            if number >= most {
                return Err(self.full(&format!("it may hold {} bytes (version_store_bytes_max)", self.bytes_max)));
            }
            target = target.min(most);
        }
        match self.preallocate(target) {
            // The last bit of the disk counts as well.
            Err(error) if error.kind() == ErrorKind::DiskFull => self.reserve(number),
            other => other,
        }
    }

    /// As [`VersionFile::grow`], for a page that was given out: no bound, and no more than
    /// that page. A crash can have taken space back that was not synced.
    pub(crate) fn reserve(&self, number: u64) -> Result<()> {
        if number < self.reserved.load(Ordering::Acquire) {
            return Ok(());
        }
        self.preallocate(number + 1).map_err(|error| match error.kind() {
            ErrorKind::DiskFull => self.full("no space left on device"),
            _ => error,
        })
    }

    /// It was cut: pages from that number on have no space.
    pub(crate) fn was_cut(&self, pages: u64) {
        self.reserved.fetch_min(pages, Ordering::AcqRel);
    }

    fn preallocate(&self, pages: u64) -> Result<()> {
        self.file().preallocate(pages * PAGE_SIZE as u64)?;
        self.reserved.fetch_max(pages, Ordering::AcqRel);
        Ok(())
    }

    fn full(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::DiskFull,
            format!("could not extend the version store \"{}\": {why}", self.file().path().display()),
        )
    }
}

/// The files that hold pages.
pub(crate) struct Files {
    data: RwLock<Arc<dyn File>>,
    pub version: Option<VersionFile>,
}

impl Files {
    pub fn new(data: Arc<dyn File>) -> Self {
        Self { data: RwLock::new(data), version: None }
    }
    /// The data file in use.
    pub fn data(&self) -> Arc<dyn File> {
        Arc::clone(&self.data.read())
    }
    /// Another one takes the place of the file with that number.
    pub fn replace(&self, number: u64, file: Arc<dyn File>) {
        match &self.version {
            Some(version) if version.number == number => version.replace(file),
            _ if number == 0 => *self.data.write() = file,
            _ => {}
        }
    }

    /// The version-store file, if `page` is in it.
    pub fn version_of(&self, page: PageId) -> Option<&VersionFile> {
        self.version.as_ref().filter(|version| version.number == page.file())
    }

    /// The file of `page` and its byte offset there.
    ///
    /// # Errors
    /// `Corrupt` for a page of a version-store file that is not in use.
    pub fn locate(&self, page: PageId) -> Result<(Arc<dyn File>, u64)> {
        let offset = page.in_file() * PAGE_SIZE as u64;
        if page.file() == 0 {
            return Ok((self.data(), offset));
        }
        match self.version_of(page) {
            Some(version) => Ok((version.file(), offset)),
            None => Err(Error::corrupt(format!(
                "page {page} is page {} of version-store file number {}, which was given up as lost",
                page.in_file(),
                page.file()
            ))
            .with_hint(
                "Earlier versions of rows under aborted transactions were in it; restore a backup to have them.",
            )),
        }
    }

    /// Makes what was written to any of them durable.
    ///
    /// # Errors
    /// Those of syncing, with the number of the file.
    pub fn sync(&self) -> Result<(), (u64, Error)> {
        self.data().sync().map_err(|error| (0, error))?;
        match &self.version {
            Some(version) => version.file().sync().map_err(|error| (version.number, error)),
            None => Ok(()),
        }
    }
}
