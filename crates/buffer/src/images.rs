//! Copies of pages on their way to the disk, one behind the other in one buffer.

use resurgam_base::{Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::PageBuf;

use crate::files::Files;

/// Sealed copies of pages, behind a head of so many bytes.
#[derive(Default)]
pub(crate) struct Images {
    head: usize,
    pub bytes: Vec<u8>,
    pub ids: Vec<PageId>,
    /// Of each, as of when it was copied.
    pub lsns: Vec<Lsn>,
}

impl Images {
    pub fn behind(head: usize) -> Self {
        Self { head, ..Self::default() }
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(self.head, 0);
        self.ids.clear();
        self.lsns.clear();
    }
    pub fn len(&self) -> usize {
        self.ids.len()
    }
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
    /// Adds a copy of `page`, sealed.
    pub fn push(&mut self, id: PageId, page: &PageBuf) {
        let mut copy = page.clone();
        copy.seal();
        self.bytes.extend_from_slice(copy.as_bytes());
        self.ids.push(id);
        self.lsns.push(page.lsn());
    }
    /// Writes each to its place; neighbours in one write.
    pub fn write_in_place(&self, files: &Files) -> Result<()> {
        let mut from = 0;
        while from < self.ids.len() {
            let mut to = from + 1;
            // The next id is the next page of the same file: the file's number is in the id.
            while to < self.ids.len() && self.ids[to].0 == self.ids[to - 1].0 + 1 {
                to += 1;
            }
            let (file, offset) = files.locate(self.ids[from])?;
            file.write_at(&self.bytes[self.head + from * PAGE_SIZE..self.head + to * PAGE_SIZE], offset)?;
            from = to;
        }
        Ok(())
    }
}
