//! The double-write area as a stand-in for pages: after a crash an intact image of the batch that
//! was made durable last counts for a page that is torn, missing or older in the data file. Here
//! this happens in memory only.

use std::collections::HashMap;
use std::sync::Arc;

use resurgam_base::{PageId, Result};
use resurgam_buffer::DoubleWriteBatch;
use resurgam_page::PageBuf;
use resurgam_vfs::File;

use crate::folder::Folder;

/// What stands in the area.
#[derive(Default)]
pub(crate) struct DoubleWriteArea {
    file: Option<Arc<dyn File>>,
    /// Place in the batch of each intact image.
    images: HashMap<PageId, usize>,
    /// In words, what is there.
    pub summary: String,
    /// The header was torn: as far as recovery goes the batch was never written.
    pub unusable: bool,
}

impl DoubleWriteArea {
    pub fn open(folder: &Folder) -> Result<Self> {
        let mut area = Self::default();
        let Some(file) = folder.file(&folder.double_write())? else {
            area.summary = "there is none".into();
            return Ok(area);
        };
        let (number, ids) = match DoubleWriteBatch::read(file.as_ref())? {
            DoubleWriteBatch::Whole { number, ids } => (number, ids),
            DoubleWriteBatch::Empty => {
                area.summary = "empty".into();
                return Ok(area);
            }
            DoubleWriteBatch::Newer(version) => {
                let known = DoubleWriteBatch::VERSION;
                area.summary =
                    format!("no usable batch: its format version {version} is newer than the {known} known here");
                area.unusable = true;
                return Ok(area);
            }
            DoubleWriteBatch::Unusable(why) => {
                area.summary = format!("no usable batch: {why}");
                area.unusable = true;
                return Ok(area);
            }
        };
        let mut image = PageBuf::zeroed();
        for (at, id) in ids.iter().enumerate() {
            if DoubleWriteBatch::read_image(file.as_ref(), at, *id, &mut image)? {
                area.images.insert(*id, at);
            }
        }
        area.summary = format!("batch {number} of {} pages, {} images intact", ids.len(), area.images.len());
        area.file = Some(file);
        Ok(area)
    }

    /// The intact image of `page`, if there is one.
    pub fn image(&self, page: PageId) -> Option<PageBuf> {
        let at = *self.images.get(&page)?;
        let mut image = PageBuf::zeroed();
        DoubleWriteBatch::read_image(self.file.as_ref()?.as_ref(), at, page, &mut image).ok()?.then_some(image)
    }
}
