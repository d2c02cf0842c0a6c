//! The double-write area: the batch of page images that was made durable last. After a
//! crash an intact image stands in for a page that is torn, missing or older in the data
//! file; here this happens in memory only.
//!
//! ```text
//! 0     magic "RSDW" u32 | version u16 | reserved u16 | batch u64 | count u32 | header crc u32 (field zeroed)
//! 32    count x { page id u64 }
//! 4096  count x page image (sealed)
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use resurgam_base::{PageId, Result, checksum, limits::PAGE_SIZE};
use resurgam_page::PageBuf;
use resurgam_vfs::File;

use crate::folder::Folder;

const HEADER: usize = 4096;
const IDS_AT: usize = 32;
const BATCH_PAGES_MAX: usize = (HEADER - IDS_AT) / 8;
const VERSION_KNOWN: u16 = 1;

/// What stands in the area.
#[derive(Default)]
pub(crate) struct DoubleWriteArea {
    file: Option<Arc<dyn File>>,
    /// Where the intact image of a page is.
    images: HashMap<PageId, u64>,
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
        let mut header = [0; HEADER];
        let read = file.read_at(&mut header, 0)?;
        if header.iter().all(|byte| *byte == 0) {
            area.summary = "empty".into();
            return Ok(area);
        }
        let u32_at = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (count, stored) = (u32_at(16) as usize, u32_at(20));
        let computed = {
            let mut zeroed = header;
            zeroed[20..24].fill(0);
            checksum(&zeroed)
        };
        let version = u16::from_le_bytes([header[4], header[5]]);
        let unusable = if read < HEADER {
            Some(format!("only {read} bytes of its header are there"))
        } else if header[..4] != *b"RSDW" {
            Some(format!("it starts with {:02x?} instead of \"RSDW\"", &header[..4]))
        } else if stored != computed {
            Some(format!("its header has checksum {stored:#010x}, its bytes give {computed:#010x}"))
        } else if count > BATCH_PAGES_MAX {
            Some(format!("it claims {count} pages, the most is {BATCH_PAGES_MAX}"))
        } else if version > VERSION_KNOWN {
            Some(format!("its format version {version} is newer than the {VERSION_KNOWN} known here"))
        } else {
            None
        };
        if let Some(why) = unusable {
            area.summary = format!("no usable batch: {why}");
            area.unusable = true;
            return Ok(area);
        }
        let mut image = PageBuf::zeroed();
        for i in 0..count {
            let id_at = IDS_AT + i * 8;
            let id = PageId(u64::from(u32_at(id_at)) | u64::from(u32_at(id_at + 4)) << 32);
            let at = (HEADER + i * PAGE_SIZE) as u64;
            if file.read_at(image.as_bytes_mut(), at)? == PAGE_SIZE && image.verify(id).is_ok() {
                area.images.insert(id, at);
            }
        }
        let batch = u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32;
        area.summary = format!("batch {batch} of {count} pages, {} images intact", area.images.len());
        area.file = Some(file);
        Ok(area)
    }

    /// The intact image of `page`, if there is one.
    pub fn image(&self, page: PageId) -> Option<PageBuf> {
        let at = *self.images.get(&page)?;
        let mut image = PageBuf::zeroed();
        let read = self.file.as_ref()?.read_at(image.as_bytes_mut(), at).ok()?;
        (read == PAGE_SIZE && image.verify(page).is_ok()).then_some(image)
    }
}
