//! Torn-write protection: every batch of pages is written to a side file and synced
//! there before any of its pages is written in place. (Pages that the log, or the archive and the log, can make anew
//! need none: see `writeback.rs`.)
//!
//! ```text
//! 0     magic "RSDW" u32 | version u16 | reserved u16 | batch u64 | count u32 | header crc u32 (field zeroed)
//! 32    count x { page id u64 }
//! 4096  count x page image (sealed)
//! ```
//!
//! After a crash each intact image replaces its page in the data file where that is
//! torn, missing or older. A batch whose header or images are themselves torn was not
//! synced, so none of its pages had been written in place.

use std::path::Path;
use std::sync::Arc;

use hashbrown::HashSet;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, checksum, limits::PAGE_SIZE};
use resurgam_page::PageBuf;
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::images::Images;
use crate::openings::Openings;
use crate::source::newer_than_log;

const MAGIC: u32 = u32::from_le_bytes(*b"RSDW");
const VERSION: u16 = 1;
const HEADER: usize = 4096;
const IDS_AT: usize = 32;
/// Most pages of a batch: their ids must fit the header.
pub(crate) const BATCH_PAGES_MAX: usize = (HEADER - IDS_AT) / 8;
/// So many times more pages that need no protection fit a batch.
const FRESH_SHARE: usize = 2;

pub(crate) struct DoubleWrite {
    file: Arc<dyn File>,
    batch: u64,
    /// Header and images of the batch under construction.
    pub images: Images,
    /// Pages that are written in the same batch without protection: new ones, and all where double writes are off.
    pub fresh: Images,
    /// The data file holds in-place writes of earlier batches that were not synced.
    pub data_unsynced: bool,
    /// So many of these were unprotected: a checkpoint must not leave them out before a sync.
    pub fresh_unsynced: usize,
    /// Writing the last batch in place failed: its images must be written again first.
    pub in_place_unfinished: bool,
    /// This area does not have them: they come from the one that it replaced.
    pub must_write_again: bool,
    /// The pages that the file has images of; none: not known.
    in_file: Option<HashSet<PageId>>,
    limit: usize,
}

impl DoubleWrite {
    pub fn open(vfs: &Arc<dyn Vfs>, path: &Path, batch_pages: usize) -> Result<Self> {
        let is_new = !vfs.exists(path)?;
        let file = vfs.open(path, OpenMode::Create)?;
        if is_new && let Some(folder) = path.parent() {
            // Images that are durable in a file that is not there after a power loss protect nothing.
            vfs.sync_dir(folder)?;
        }
        let limit = batch_pages.clamp(1, BATCH_PAGES_MAX);
        // Pages can then be written back, and others read in their place, on a full disk. If it
        // is full already, a batch tries again.
        match file.preallocate((HEADER + limit * PAGE_SIZE) as u64) {
            Err(error) if error.kind() != ErrorKind::DiskFull => return Err(error),
            _ => {}
        }
        Ok(Self {
            file,
            batch: 0,
            images: Images::behind(HEADER),
            fresh: Images::default(),
            // Whatever an earlier process wrote in place may be unsynced.
            data_unsynced: true,
            fresh_unsynced: 0,
            in_place_unfinished: false,
            must_write_again: false,
            in_file: None,
            limit,
        })
    }
    pub fn begin(&mut self) {
        self.images.clear();
        self.fresh.clear();
    }
    /// The file with that number is given up: nothing of the batch belongs there any more.
    pub fn forget(&mut self, file: u64) {
        self.images.retain(|page| page.file() != file);
        self.fresh.retain(|page| page.file() != file);
        self.in_place_unfinished &= !self.images.is_empty() || !self.fresh.is_empty();
        // Of the other file, it may be.
        self.data_unsynced = true;
        self.in_file = None;
    }
    /// No room for another page of this kind.
    pub fn is_full(&self, fresh: bool) -> bool {
        if fresh { self.fresh.len() >= self.limit * FRESH_SHARE } else { self.images.len() >= self.limit }
    }
    /// Whether the file has an older image of a page of the batch that is written without protection. Where such a page
    /// is damaged later, the next open would put the old image in its place.
    pub fn has_old_images(&self) -> bool {
        let old = |in_file: &HashSet<PageId>| self.fresh.ids.iter().any(|page| in_file.contains(page));
        self.images.is_empty() && !self.fresh.is_empty() && self.in_file.as_ref().is_none_or(old)
    }
    /// Makes the file one without images, durably. What it protected must be synced.
    ///
    /// # Errors
    /// Those of writing; the file may then have images or not.
    pub fn forget_images(&mut self) -> Result<()> {
        self.in_file = None;
        self.file.write_at(&[0; HEADER], 0)?;
        self.file.sync()?;
        self.in_file = Some(HashSet::new());
        Ok(())
    }
    /// Writes the batch to the side file and makes it durable.
    pub fn write(&mut self) -> Result<()> {
        if self.images.is_empty() {
            return Ok(());
        }
        self.batch += 1;
        self.in_file = None;
        let Images { bytes, ids, .. } = &mut self.images;
        let h = &mut bytes[..HEADER];
        h[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        h[4..6].copy_from_slice(&VERSION.to_le_bytes());
        h[8..16].copy_from_slice(&self.batch.to_le_bytes());
        h[16..20].copy_from_slice(&(ids.len() as u32).to_le_bytes());
        for (i, id) in ids.iter().enumerate() {
            h[IDS_AT + i * 8..][..8].copy_from_slice(&id.0.to_le_bytes());
        }
        let crc = checksum(h);
        h[20..24].copy_from_slice(&crc.to_le_bytes());
        self.file.write_at(&self.images.bytes, 0)?;
        self.file.sync()?;
        self.in_file = Some(self.images.ids.iter().copied().collect());
        Ok(())
    }
}

/// What stands in a double-write area: the batch that was made durable last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoubleWriteBatch {
    /// Nothing was ever written there.
    Empty,
    /// The header was torn, in words: as far as recovery goes the batch was never written.
    Unusable(String),
    /// The header is whole, and of a format version that is not known here.
    Newer(u16),
    /// Of these pages there are images, in this order; each may be torn.
    Whole { number: u64, ids: Vec<PageId> },
}

impl DoubleWriteBatch {
    /// Newest format version that is known.
    pub const VERSION: u16 = VERSION;

    /// Reads the header.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(file: &dyn File) -> Result<Self> {
        let mut header = vec![0u8; HEADER];
        let read = file.read_at(&mut header, 0)?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(Self::Empty);
        }
        if read < HEADER {
            return Ok(Self::Unusable(format!("only {read} bytes of its header are there")));
        }
        let u32_at = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u32_at(0) != MAGIC {
            return Ok(Self::Unusable(format!("it starts with {:02x?} instead of \"RSDW\"", &header[..4])));
        }
        let (count, stored) = (u32_at(16) as usize, u32_at(20));
        let mut zeroed = header.clone();
        zeroed[20..24].fill(0);
        let computed = checksum(&zeroed);
        if stored != computed {
            let what = format!("its header has checksum {stored:#010x}, its bytes give {computed:#010x}");
            return Ok(Self::Unusable(what));
        }
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Ok(Self::Newer(version));
        }
        if count > BATCH_PAGES_MAX {
            return Ok(Self::Unusable(format!("it claims {count} pages, the most is {BATCH_PAGES_MAX}")));
        }
        let ids = (0..count).map(|i| PageId(u64_at(IDS_AT + i * 8))).collect();
        Ok(Self::Whole { number: u64_at(8), ids })
    }

    /// Reads the image of the page that is `i`th in the batch; false if it is torn.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_image(file: &dyn File, i: usize, id: PageId, image: &mut PageBuf) -> Result<bool> {
        let at = (HEADER + i * PAGE_SIZE) as u64;
        Ok(file.read_at(image.as_bytes_mut(), at)? == PAGE_SIZE && image.verify(id).is_ok())
    }
}

/// What [`restore_double_writes`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoubleWriteReport {
    /// Intact images found.
    pub images: usize,
    /// Pages of the data file replaced.
    pub restored: usize,
}

/// Repairs the data file and the version-store file (its number and path) from the
/// double-write area; the first step of every open. After
/// anything but a clean close (`unclean`) pages that look current are written as well: what is
/// read may be in the system's cache only, and after a failed sync there as written. The log
/// ends at `log_end`, and `openings` have written it.
///
/// # Errors
/// `Corrupt` when the area is newer than the log, or of another one: nothing is changed then. Those of reading and writing.
pub fn restore_double_writes(
    vfs: &Arc<dyn Vfs>,
    data: &Path,
    version: Option<(u64, &Path)>,
    double_write: &Path,
    unclean: bool,
    log_end: Lsn,
    openings: &Openings,
) -> Result<DoubleWriteReport> {
    if !vfs.exists(data)? {
        return Ok(DoubleWriteReport::default());
    }
    restore_from_area(vfs, Some(data), version, double_write, unclean, log_end, openings)
}

/// As [`restore_double_writes`], where the data file is another one than that whose pages the area has: it has images of the version-store file's
/// as well, and nothing else may have them.
///
/// # Errors
/// Those of [`restore_double_writes`].
pub fn restore_version_double_writes(
    vfs: &Arc<dyn Vfs>,
    version: (u64, &Path),
    double_write: &Path,
    unclean: bool,
    log_end: Lsn,
    openings: &Openings,
) -> Result<DoubleWriteReport> {
    restore_from_area(vfs, None, Some(version), double_write, unclean, log_end, openings)
}

fn restore_from_area(
    vfs: &Arc<dyn Vfs>,
    data: Option<&Path>,
    version: Option<(u64, &Path)>,
    double_write: &Path,
    unclean: bool,
    log_end: Lsn,
    openings: &Openings,
) -> Result<DoubleWriteReport> {
    let mut report = DoubleWriteReport::default();
    if !vfs.exists(double_write)? {
        return Ok(report);
    }
    let is_of_use = |id: PageId| id.file() != 0 || data.is_some();
    let side = vfs.open(double_write, OpenMode::ReadWrite)?;
    let ids = match DoubleWriteBatch::read(side.as_ref())? {
        DoubleWriteBatch::Whole { ids, .. } => ids,
        DoubleWriteBatch::Empty | DoubleWriteBatch::Unusable(_) => return Ok(report),
        DoubleWriteBatch::Newer(_) => {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("\"{}\" was written by a newer version", double_write.display()),
            ));
        }
    };
    let mut image = PageBuf::zeroed();
    for (i, id) in ids.iter().enumerate() {
        if is_of_use(*id) && DoubleWriteBatch::read_image(side.as_ref(), i, *id, &mut image)? {
            let what = || format!("the image of page {id} in \"{}\"", double_write.display());
            if image.lsn() >= log_end {
                return Err(newer_than_log(&what(), image.lsn(), log_end));
            }
            if let Some(misfit) = openings.misfit(&image) {
                return Err(misfit.error(&what()));
            }
        }
    }
    if unclean {
        // The batch itself may be in the system's cache only: before any page is written in
        // place from it, it must be on the disk.
        let mut all = vec![0; HEADER + ids.len() * PAGE_SIZE];
        let read = side.read_at(&mut all, 0)?;
        side.write_at(&all[..read], 0)?;
        side.sync()?;
    }
    let data = data.map(|data| vfs.open(data, OpenMode::ReadWrite)).transpose()?;
    let version = match version {
        Some((number, path)) => Some((number, vfs.open(path, OpenMode::ReadWrite)?)),
        None => None,
    };
    let mut written = 0;
    let mut current = PageBuf::zeroed();
    for (i, id) in ids.into_iter().enumerate() {
        if !is_of_use(id) || !DoubleWriteBatch::read_image(side.as_ref(), i, id, &mut image)? {
            continue;
        }
        report.images += 1;
        let file = match (&data, &version) {
            (Some(data), _) if id.file() == 0 => data,
            (_, Some((number, file))) if id.file() == *number => file,
            _ => continue, // of a version-store file that was given up
        };
        let offset = id.in_file() * PAGE_SIZE as u64;
        let read = match file.read_at(current.as_bytes_mut(), offset) {
            // What cannot be read is no better than what is torn.
            Err(error) if error.kind() == ErrorKind::Io => 0,
            read => read?,
        };
        let older = read < PAGE_SIZE || current.verify(id).is_err() || current.lsn() < image.lsn();
        if older || (unclean && current.lsn() == image.lsn()) {
            file.write_at(image.as_bytes(), offset)?;
            report.restored += usize::from(older);
            written += 1;
        }
    }
    if written > 0 {
        if let Some(data) = &data {
            data.sync()?;
        }
        if let Some((_, file)) = &version {
            file.sync()?;
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use resurgam_vfs::SimVfs;

    use super::*;

    /// A new area is there after a power loss: what it has protected may be torn then.
    #[test]
    fn a_new_area_survives() -> Result<()> {
        let sim = SimVfs::new(1);
        let (folder, area) = (Path::new("/spare"), Path::new("/spare/doublewrite"));
        sim.make_folder(folder)?;
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        let mut of = DoubleWrite::open(&vfs, area, 4)?;
        of.begin();
        of.images.push(PageId(7), &PageBuf::zeroed(), &Openings::default());
        of.write()?;
        for seed in 0..50 {
            let after = sim.crash_clone(seed);
            assert!(after.exists(area)?, "seed {seed}");
            let side = after.open(area, OpenMode::ReadWrite)?;
            let batch = DoubleWriteBatch::read(&*side)?;
            assert_eq!(batch, DoubleWriteBatch::Whole { number: 1, ids: vec![PageId(7)] }, "seed {seed}");
        }
        Ok(())
    }
}
