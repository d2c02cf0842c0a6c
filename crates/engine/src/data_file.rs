//! The data file: its boot page, and whether it is the one that was in use last.
//!
//! The boot page says, as every page does, under which epoch of the log it was written, and each open writes it anew under its own,
//! before the control file has that. So a data file of an earlier time beside a later log (one file alone was restored), or of a later time
//! beside an earlier folder, is told from the right one however far both have gone on since.
//!
//! What changes are four bytes and the checksum of the page, in one sector: it cannot tear.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_page::boot::Boot;
use resurgam_vfs::{OpenMode, Vfs};

use crate::kept_header;

/// A sector: all of the boot page that an open changes.
const SECTOR: usize = 512;

/// What the file's boot page says.
pub(crate) struct DataFile {
    pub boot: Boot,
    /// The epoch of the last open that used the file; 0: not known.
    epoch: u32,
}

impl DataFile {
    /// Reads the boot page.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, `NotADatabase`; those of reading.
    pub fn read(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Self> {
        let page = read_page(vfs, path)?;
        Ok(Self { boot: Boot::read(&page)?, epoch: page.written_by_epoch() })
    }

    /// That the file was in use when the control file's `epoch` was, or is in use by an open of `next_epoch` that did not get
    /// farther.
    ///
    /// # Errors
    /// `Corrupt`, saying which is older.
    pub fn check(&self, path: &Path, epoch: u32, next_epoch: u32) -> Result<()> {
        let what = match self.epoch {
            0 => return Ok(()),
            own if own < epoch => "it is an old copy: the database was opened with another one since",
            own if own > next_epoch => {
                "it is newer than the control file and the log, as after restoring these without it"
            }
            _ => return Ok(()),
        };
        Err(Error::corrupt(format!("the data file \"{}\" cannot be used: {what}", path.display()))
            .with_detail(format!("It was last opened under log epoch {}, the control file says {epoch}.", self.epoch))
            .with_hint(
                "Put the data file back that was there, or restore the whole data folder from a backup. With an archive of the log, \
                 move the file away: it is made again.",
            ))
    }
}

/// A boot page that says so of its file.
pub(crate) fn mark(page: &mut PageBuf, epoch: u32) {
    page.set_written_by_epoch(epoch);
    page.set_written_by_opening(0);
    page.seal();
}

/// Notes that the file is in use under `epoch`, durably.
///
/// # Errors
/// Those of reading and writing; `Io` when it does not say so then.
pub(crate) fn set_epoch(vfs: &Arc<dyn Vfs>, path: &Path, epoch: u32) -> Result<()> {
    let mut page = read_page(vfs, path)?;
    mark(&mut page, epoch);
    let file = vfs.open(path, OpenMode::ReadWrite)?;
    kept_header::write(&*file, &page.as_bytes()[..SECTOR])
}

fn read_page(vfs: &Arc<dyn Vfs>, data: &Path) -> Result<PageBuf> {
    const HINT: &str = "Restore the data folder from a backup; \"resurgam check\" shows what else is damaged.";
    let file = vfs.open(data, OpenMode::ReadOnly)?;
    let mut page = PageBuf::zeroed();
    file.read_exact_at(page.as_bytes_mut(), 0)
        .map_err(|e| if e.kind() == ErrorKind::Corrupt { e.with_hint(HINT) } else { e })?;
    page.verify(PageId(0)).map_err(|fault| {
        Error::corrupt(format!("the boot page of \"{}\" is damaged: {fault}", data.display())).with_hint(HINT)
    })?;
    Ok(page)
}
