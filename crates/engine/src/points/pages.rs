//! All pages of a new folder, made as of the cut and written in order: the single pass.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::PageBuf;
use resurgam_vfs::File;

/// Pages that are made and written at a time: eight segments.
const STEP: u64 = 1024;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub pages: u64,
    /// Pages that are damaged in the backup.
    pub damaged: u64,
}

/// Writes pages 1 to `count` (its first page is there) of file number `number`, made by `make` (which fills them, and says how
/// many exist and how many of those are damaged).
///
/// # Errors
/// `DiskFull` before anything is written where there is no room for them; those of `make` and of writing.
pub(crate) fn write_all(
    file: &Arc<dyn File>,
    number: u64,
    count: u64,
    make: &mut dyn FnMut(PageId, &mut [PageBuf]) -> Result<(u64, u64)>,
    progress: &mut dyn FnMut(u64),
) -> Result<Written> {
    let bytes = count.max(1) * PAGE_SIZE as u64;
    file.preallocate(bytes).map_err(|error| match error.kind() {
        ErrorKind::DiskFull => Error::new(
            ErrorKind::DiskFull,
            format!("there is no room for the {bytes} bytes of \"{}\": {}", file.path().display(), error.message()),
        )
        .with_hint("Give a target on a larger device."),
        _ => error,
    })?;
    let mut written = Written::default();
    let mut pages: Vec<PageBuf> = Vec::new();
    pages.resize_with(STEP as usize, PageBuf::zeroed);
    let mut out = Vec::new();
    let mut first = 1;
    while first < count {
        // Up to where a segment ends.
        let end = ((first / STEP + 1) * STEP).min(count);
        let some = pages.get_mut(..(end - first) as usize).unwrap_or_default();
        some.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
        let (made, damaged) = make(PageId::of_file(number, first), some)?;
        written.pages += made;
        written.damaged += damaged;
        if made > 0 {
            out.clear();
            some.iter().for_each(|page| out.extend_from_slice(page.as_bytes()));
            file.write_at(&out, first * PAGE_SIZE as u64)?;
        }
        progress(end - first);
        first = end;
    }
    file.sync()?;
    Ok(written)
}
