//! Copies of pages on their way to the disk, one behind the other in one buffer.

use std::ops::Range;

use resurgam_base::{Error, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::PageBuf;

use crate::files::Files;
use crate::openings::Openings;

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
    /// Adds a copy of `page`, marked as written under the log's opening that is under way, and sealed.
    pub fn push(&mut self, id: PageId, page: &PageBuf, openings: &Openings) {
        let mut copy = page.clone();
        openings.mark(&mut copy);
        copy.seal();
        self.bytes.extend_from_slice(copy.as_bytes());
        self.ids.push(id);
        self.lsns.push(page.lsn());
    }
    /// Leaves out the pages that are not `wanted`.
    pub fn retain(&mut self, wanted: impl Fn(PageId) -> bool) {
        let old = std::mem::take(self);
        self.head = old.head;
        self.clear();
        for (i, (id, lsn)) in old.ids.iter().zip(&old.lsns).enumerate().filter(|(_, (id, _))| wanted(**id)) {
            self.bytes.extend_from_slice(&old.bytes[old.head + i * PAGE_SIZE..old.head + (i + 1) * PAGE_SIZE]);
            self.ids.push(*id);
            self.lsns.push(*lsn);
        }
    }
    /// Writes each to its place; neighbours in one write, and what goes to one file in one call.
    ///
    /// # Errors
    /// Those of writing, with the number of the file.
    pub fn write_in_place(&self, files: &Files) -> Result<(), (u64, Error)> {
        let mut from = 0;
        let mut parts: Vec<(u64, Range<usize>)> = Vec::new();
        while from < self.ids.len() {
            let number = self.ids[from].file();
            let of = |error| (number, error);
            let (file, _) = files.locate(self.ids[from]).map_err(of)?;
            parts.clear();
            while from < self.ids.len() && self.ids[from].file() == number {
                let mut to = from + 1;
                // The next id is the next page of the same file: the file's number is in the id.
                while to < self.ids.len() && self.ids[to].0 == self.ids[to - 1].0 + 1 {
                    to += 1;
                }
                let offset = self.ids[from].in_file() * PAGE_SIZE as u64;
                parts.push((offset, self.head + from * PAGE_SIZE..self.head + to * PAGE_SIZE));
                from = to;
            }
            file.write_parts(&self.bytes, &parts).map_err(of)?;
        }
        Ok(())
    }
}
