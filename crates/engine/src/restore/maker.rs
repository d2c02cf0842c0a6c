//! Segments from the archive alone: of use where it was begun with the database, so that every page is made anew by a
//! record in it.

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_archive::{History, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_buffer::{SegmentMaker, replaces_whole_page};
use resurgam_page::{PageBuf, op};

/// What gives the archive as it is now, where the one in use cannot be read any more.
pub(super) type Again = Box<dyn Fn() -> Option<Arc<View>> + Send + Sync>;

/// Pages as of an LSN.
pub(super) struct FromArchive {
    /// None: nothing was archived yet, no page is older than the log.
    view: Mutex<Option<Arc<View>>>,
    as_of: Lsn,
    again: Again,
}

impl FromArchive {
    /// Pages with all records of `view` up to `as_of` applied.
    pub fn new(view: Option<Arc<View>>, as_of: Lsn, again: Again) -> Self {
        Self { view: Mutex::new(view), as_of, again }
    }

    fn make_from(&self, view: &Arc<View>, first: PageId, pages: &mut [PageBuf]) -> Result<()> {
        let end = PageId(first.0 + pages.len() as u64);
        let mut scan = view.scan(first..end, Lsn::NONE, self.as_of, History::SinceAnew)?;
        while let Some(id) = scan.next_page()? {
            let page = &mut pages[(id.0 - first.0) as usize];
            let mut made = false;
            while let Some(record) = scan.next_record()? {
                if !made && !replaces_whole_page(record.body) {
                    return Err(Error::corrupt(format!(
                        "the archive has page {id} from LSN {} on only, where nothing makes it anew",
                        record.lsn
                    )));
                }
                made = true;
                op::apply(page, id, record.body, record.lsn)?;
            }
            if made {
                page.seal();
            }
        }
        Ok(())
    }
}

impl SegmentMaker for FromArchive {
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<()> {
        let Some(view) = self.view.lock().clone() else { return Ok(()) };
        match self.make_from(&view, first, pages) {
            Err(error) if error.kind() == ErrorKind::Io => {
                // Its files may have been merged into others meanwhile.
                let newer = (self.again)().filter(|newer| newer.end() > self.as_of && !Arc::ptr_eq(newer, &view));
                let Some(newer) = newer else { return Err(error) };
                pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
                self.make_from(&newer, first, pages)?;
                *self.view.lock() = Some(newer);
                Ok(())
            }
            made => made,
        }
    }
}
