//! Segments as of an LSN, from backup and archive.

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_archive::PageMaker;
use resurgam_base::{ErrorKind, PageId, Result};
use resurgam_buffer::SegmentMaker;
use resurgam_page::PageBuf;

/// The same maker, of the archive as it is now, where the one in use cannot be read any more; `None`: there is none now.
pub(crate) type Again = Box<dyn Fn() -> Result<Option<Arc<PageMaker>>> + Send + Sync>;

/// See the module.
pub(crate) struct FromArchive {
    /// None: nothing was archived yet, and no page is older than the log.
    maker: Mutex<Option<Arc<PageMaker>>>,
    again: Again,
}

impl FromArchive {
    /// Pages as `maker` makes them.
    pub fn new(maker: Option<Arc<PageMaker>>, again: Again) -> Self {
        Self { maker: Mutex::new(maker), again }
    }
}

impl SegmentMaker for FromArchive {
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<u64> {
        let Some(maker) = self.maker.lock().clone() else { return Ok(0) };
        let mut failed = Vec::new();
        let made = match maker.make_what_can_be(first, pages, &mut |page, error| failed.push((page, error.clone()))) {
            // Its files may have been merged into others meanwhile.
            Err(error) if error.kind() == ErrorKind::Io => {
                let Some(newer) = (self.again)().unwrap_or_default() else { return Err(error) };
                failed.clear();
                pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
                let made =
                    newer.make_what_can_be(first, pages, &mut |page, error| failed.push((page, error.clone())))?;
                *self.maker.lock() = Some(newer);
                made
            }
            made => made?,
        };
        for (page, error) in failed {
            tracing::error!("page {page} could not be restored, which keeps nobody from the others: {error}");
        }
        Ok(made.damaged)
    }
}

/// The same, opened when the first page is asked for.
pub(crate) struct Later {
    open: Arc<Again>,
    opened: Mutex<Option<Arc<FromArchive>>>,
}

impl Later {
    /// Pages of the maker that `open` gives.
    pub fn new(open: Again) -> Self {
        Self { open: Arc::new(open), opened: Mutex::default() }
    }
}

impl SegmentMaker for Later {
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<u64> {
        let known = self.opened.lock().clone();
        let maker = match known {
            Some(maker) => maker,
            None => {
                let (maker, again) = ((self.open)()?, Arc::clone(&self.open));
                let made = Arc::new(FromArchive::new(maker, Box::new(move || again())));
                Arc::clone(self.opened.lock().get_or_insert(made))
            }
        };
        maker.make(first, pages)
    }
}
