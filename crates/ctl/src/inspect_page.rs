//! Printer of pages.

use std::io::Write;

use resurgam_base::{PageId, Result, limits::PAGE_SIZE};
use resurgam_page::print;

use crate::folder::Folder;
use crate::image::{Image, Source};
use crate::out::{indented, say};

/// How pages are printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions {
    /// The page as opening the database would make it (redo applied in memory) instead of
    /// the bytes in the data file.
    pub current: bool,
}

/// Prints `count` pages from `first` on.
///
/// # Errors
/// When the files cannot be opened or `out` not written.
pub fn inspect_page(
    folder: &Folder,
    first: PageId,
    count: u64,
    options: PageOptions,
    out: &mut dyn Write,
) -> Result<()> {
    if let Some(warning) = folder.warning() {
        say!(out, "{warning}")?;
    }
    let image = Image::open(folder)?;
    for id in (first.0..first.0.saturating_add(count)).map(PageId) {
        if id.file() != 0 && !image.version_file.has(id) {
            return say!(out, "page {id}: version-store file number {} is not in use", id.file());
        }
        if !image.reaches(id) && image.pending(id).is_none() {
            let pages = if id.file() == 0 { image.file_pages } else { image.version_file.pages };
            return say!(out, "page {id}: the {} file has {pages} whole pages", Image::file_name(id));
        }
        if options.current { current(&image, id, out)? } else { stored(&image, id, out)? }
    }
    Ok(())
}

/// The bytes in the data file.
fn stored(image: &Image, id: PageId, out: &mut dyn Write) -> Result<()> {
    let (page, read) = match image.raw(id) {
        Ok(found) => found,
        Err(what) => return say!(out, "page {id}: UNREADABLE: {what}"),
    };
    let at = id.in_file().saturating_mul(PAGE_SIZE as u64);
    say!(out, "{} file, page {id} at byte {at}", Image::file_name(id))?;
    if read < PAGE_SIZE {
        say!(out, "  only {read} bytes are there; the rest is shown as zeros")?;
    }
    indented(out, "  ", &print::page(&page))?;
    if !page.is_all_zero() && page.page_id() != id {
        say!(out, "  PROBLEM: the page says that it is page {}", page.page_id())?;
    }
    if let Some(last) = image.pending(id)
        && (page.verify(id).is_err() || page.lsn() < last)
    {
        say!(
            out,
            "  the log has newer changes of it, the last at LSN {last}; they are applied when the page is first used"
        )?;
    }
    Ok(())
}

/// The page as an open would make it.
fn current(image: &Image, id: PageId, out: &mut dyn Write) -> Result<()> {
    match image.page(id) {
        Ok(mut loaded) => {
            let source = match loaded.source {
                Source::DataFile => "as in the data file".to_owned(),
                Source::DoubleWrite => "from the double-write area".to_owned(),
                Source::Redone(count) => {
                    // Redo leaves the checksum to whoever writes the page.
                    loaded.page.seal();
                    format!("after redo of {count} log records")
                }
            };
            say!(out, "page {id}, {source}")?;
            indented(out, "  ", &print::page(&loaded.page))
        }
        Err(what) => say!(out, "page {id}: UNREADABLE: {what}"),
    }
}
