//! Segments as of an LSN, from backup and archive.

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_archive::{PageBase, PageMaker, View};
use resurgam_base::{ErrorKind, Lsn, PageId, Result};
use resurgam_buffer::SegmentMaker;
use resurgam_page::PageBuf;

/// What gives the archive as it is now, where the one in use cannot be read any more.
pub(super) type Again = Box<dyn Fn() -> Option<Arc<View>> + Send + Sync>;

/// See the module.
pub(super) struct FromArchive {
    /// None: nothing was archived yet, and no page is older than the log.
    maker: Mutex<Option<Arc<PageMaker>>>,
    base: PageBase,
    as_of: Lsn,
    again: Again,
}

impl FromArchive {
    /// Pages with all records of `view` up to `as_of` applied.
    ///
    /// # Errors
    /// That backup and archive do not allow it.
    pub fn new(base: PageBase, view: Option<Arc<View>>, as_of: Lsn, again: Again) -> Result<Self> {
        let maker = match view {
            Some(view) => Some(Arc::new(PageMaker::new(base.clone(), view, as_of)?)),
            None => None,
        };
        Ok(Self { maker: Mutex::new(maker), base, as_of, again })
    }
}

impl SegmentMaker for FromArchive {
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<()> {
        let Some(maker) = self.maker.lock().clone() else { return Ok(()) };
        match maker.make(first, pages) {
            // Its files may have been merged into others meanwhile.
            Err(error) if error.kind() == ErrorKind::Io => {
                let Some(view) = (self.again)().filter(|view| view.end() > self.as_of) else { return Err(error) };
                let newer = Arc::new(PageMaker::new(self.base.clone(), view, self.as_of)?);
                pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
                newer.make(first, pages)?;
                *self.maker.lock() = Some(newer);
                Ok(())
            }
            made => made.map(|_| ()),
        }
    }
}
