//! Writing a run: page records in order of (page, LSN), then the stream in order of LSN.
//!
//! What is written is counted here, and not where it comes from: [`RunWriter::finish`] compares the bytes that were written
//! with those that the blocks of the range hold, and refuses a run that misses a record.

use std::sync::Arc;

use resurgam_base::{Error, Lsn, PageId, Result};
use resurgam_page::codec::put_varint64;
use resurgam_xstore::{Store, StoreError};

use crate::format::{RunId, RunSummary, Trailer};
use crate::frame::{Effort, FrameKind, FrameWriter};
use crate::item::{self, Item, ItemWriter, StreamEntry};
use crate::manifest::RunMeta;
use crate::table::{PageEntry, TableWriter};

/// What a part of the index leads to.
pub(crate) const INDEX_STREAM: u64 = 1;
pub(crate) const INDEX_TABLE: u64 = 2;

/// Why a run was not made.
pub(crate) enum NotMade {
    /// By the store.
    Store(StoreError),
    Other(Error),
}

impl From<Error> for NotMade {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<NotMade> for Error {
    fn from(why: NotMade) -> Self {
        match why {
            NotMade::Store(error) => error.into(),
            NotMade::Other(error) => error,
        }
    }
}

/// Content of a frame before it is compressed, in bytes: what a lookup of one page has to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSizes {
    pub pages: usize,
    pub other: usize,
}

/// See the module.
pub(crate) struct RunWriter {
    id: RunId,
    seed: u32,
    out: FrameWriter,
    sizes: FrameSizes,
    items: ItemWriter,
    /// The page that is being written.
    page: Option<PageEntry>,
    table: TableWriter,
    /// Entries with a place in the frame that is being filled: its offset is known once it is written.
    waiting: Vec<PageEntry>,
    index: Vec<u8>,
    index_items: u32,
    stream_at: Option<u64>,
    stream_first: Lsn,
    last_stream: Lsn,
    page_bytes: u64,
    pub summary: RunSummary,
}

impl RunWriter {
    /// Begins a run; `summary` has what is not counted here.
    pub fn new(store: &Arc<dyn Store>, id: RunId, sizes: FrameSizes, summary: RunSummary) -> Result<Self, NotMade> {
        let header = id.encode();
        let (_, seed) = RunId::decode(&header)?;
        let upload = store.create(&id.name()).map_err(NotMade::Store)?;
        let effort = if id.level == 0 { Effort::Least } else { Effort::Little };
        Ok(Self {
            id,
            seed,
            out: FrameWriter::new(upload, &header, seed, effort)?,
            sizes,
            items: ItemWriter::default(),
            page: None,
            table: TableWriter::default(),
            waiting: Vec::new(),
            index: Vec::new(),
            index_items: 0,
            stream_at: None,
            stream_first: Lsn::NONE,
            last_stream: Lsn::NONE,
            page_bytes: 0,
            summary,
        })
    }

    /// Adds a record of a page; they come in order of (page, LSN). `log_bytes` is what it took in the log; `anew`: it
    /// makes the page anew.
    pub fn put_page(&mut self, item: &Item<'_>, log_bytes: u64, anew: bool) -> Result<()> {
        let page = PageId(item.key);
        let ascends = self.page.is_none_or(|before| (before.page, before.last) <= (page, item.lsn));
        if !ascends || self.stream_at.is_some() {
            return Err(Error::internal(format!("records of the archive are out of order at page {page}")));
        }
        if self.items.bytes.len() >= self.sizes.pages {
            self.end_frame()?;
        }
        let at = self.items.put_page(item) as u64;
        let known = self.page.as_ref().is_some_and(|entry| entry.page == page);
        // With each record that makes it anew there is a new entry, so that it is found, as of whichever LSN.
        let continues = known && anew;
        match &mut self.page {
            Some(entry) if known && !continues => {
                entry.count += 1;
                entry.last = item.lsn;
            }
            _ => {
                self.end_page()?;
                self.page = Some(PageEntry {
                    page,
                    frame: 0,
                    at,
                    count: 1,
                    first: item.lsn,
                    last: item.lsn,
                    continues,
                    ..PageEntry::default()
                });
                if !continues {
                    self.summary.pages += 1;
                    self.summary.note_page(page);
                }
            }
        }
        if anew && let Some(entry) = &mut self.page {
            entry.anew = item.lsn;
            (entry.anew_index, entry.anew_frame, entry.anew_at) = (entry.count - 1, 0, at);
        }
        self.summary.page_records += 1;
        self.summary.images += u64::from(item::is_made(item.rest));
        self.page_bytes += log_bytes;
        Ok(())
    }

    /// Says of the page that was added last that earlier records of it were left out.
    pub fn cut_page(&mut self) {
        if let Some(entry) = &mut self.page {
            entry.cut = true;
        }
    }

    /// The page is complete; the frame that it begins in, or is made anew in, may not be.
    fn end_page(&mut self) -> Result<()> {
        match self.page.take() {
            Some(entry) if awaits_frame(&entry) => self.waiting.push(entry),
            Some(entry) => self.put_entry(&entry)?,
            None => {}
        }
        Ok(())
    }

    fn put_entry(&mut self, entry: &PageEntry) -> Result<()> {
        self.table.put(entry);
        if self.table.bytes.len() >= self.sizes.other {
            self.end_table_frame()?;
        }
        Ok(())
    }

    /// Frames of the table stand between those of the records, so that none has to be remembered.
    fn end_table_frame(&mut self) -> Result<()> {
        if self.table.count > 0 {
            let offset = self.out.put(FrameKind::Table, self.table.count, &self.table.bytes)?;
            self.put_index(INDEX_TABLE, self.table.first_page.0, offset);
            self.table.clear();
        }
        Ok(())
    }

    /// Writes the frame of page records, and gives the pages that begin in it their place.
    fn end_frame(&mut self) -> Result<()> {
        if self.items.count == 0 {
            return Ok(());
        }
        let offset = self.out.put(FrameKind::Pages, self.items.count, &self.items.bytes)?;
        self.items.clear();
        for mut entry in std::mem::take(&mut self.waiting) {
            is_in_frame(&mut entry, offset);
            self.put_entry(&entry)?;
        }
        if let Some(entry) = &mut self.page {
            is_in_frame(entry, offset);
        }
        Ok(())
    }

    fn put_index(&mut self, kind: u64, key: u64, offset: u64) {
        put_varint64(&mut self.index, kind);
        put_varint64(&mut self.index, key);
        put_varint64(&mut self.index, offset);
        self.index_items += 1;
    }

    /// No more page records.
    fn end_pages(&mut self) -> Result<()> {
        if self.stream_at.is_none() {
            self.end_frame()?;
            self.end_page()?;
            self.end_table_frame()?;
            self.stream_at = Some(self.out.offset);
        }
        Ok(())
    }

    /// Adds an entry of the stream, after the last page record; they come in order of LSN.
    pub fn put_stream(&mut self, item: &Item<'_>) -> Result<()> {
        self.end_pages()?;
        if item.lsn < self.last_stream {
            return Err(Error::internal(format!("the transaction stream is out of order at LSN {}", item.lsn)));
        }
        match item::entry(item)? {
            StreamEntry::Block { payload_bytes, epoch, .. } => {
                self.summary.blocks += 1;
                self.summary.payload_bytes += u64::from(payload_bytes);
                if self.summary.first_epoch == 0 {
                    self.summary.first_epoch = epoch;
                }
                self.summary.last_epoch = epoch;
            }
            StreamEntry::Record(record) => self.summary.stream_bytes += u64::from(record.header.len),
            StreamEntry::FirstOf { .. } | StreamEntry::Undo { .. } => {}
        }
        if self.items.count == 0 {
            self.stream_first = item.lsn;
        }
        self.items.put_stream(item);
        self.summary.stream_entries += 1;
        self.last_stream = item.lsn;
        if self.items.bytes.len() >= self.sizes.other {
            self.end_stream_frame()?;
        }
        Ok(())
    }

    fn end_stream_frame(&mut self) -> Result<()> {
        if self.items.count > 0 {
            let offset = self.out.put(FrameKind::Stream, self.items.count, &self.items.bytes)?;
            self.items.clear();
            self.put_index(INDEX_STREAM, self.stream_first.0, offset);
        }
        Ok(())
    }

    /// Writes what is left and publishes the run.
    ///
    /// # Errors
    /// `Internal` when records are missing: nothing was published.
    pub fn finish(mut self) -> Result<RunMeta, NotMade> {
        self.end_pages()?;
        self.end_stream_frame()?;
        let kept = self.page_bytes + self.summary.stream_bytes;
        if kept + self.summary.dropped_bytes != self.summary.payload_bytes {
            return Err(NotMade::Other(Error::internal(format!(
                "the archive's run of LSN {} to {} would miss records: its blocks hold {} bytes, {kept} were kept and {} left out",
                self.id.start, self.id.end, self.summary.payload_bytes, self.summary.dropped_bytes
            ))));
        }
        let mut trailer =
            Trailer { stream_at: self.stream_at.unwrap_or_default(), seed: self.seed, ..Trailer::default() };
        trailer.index_at = self.out.offset;
        self.out.put(FrameKind::Index, self.index_items, &self.index)?;
        trailer.summary_at = self.out.offset;
        self.out.put(FrameKind::Summary, 1, &self.summary.encode())?;
        trailer.at = self.out.offset;
        let bytes = trailer.encode();
        let len = trailer.at + bytes.len() as u64;
        let (_, trailer_crc) = Trailer::decode(&bytes, len)?;
        let summary = self.summary;
        self.out.publish(&bytes).map_err(NotMade::Store)?;
        Ok(RunMeta {
            id: self.id,
            len,
            trailer_crc,
            complete_from: summary.complete_from,
            page_records: summary.page_records,
            last_epoch: summary.last_epoch,
        })
    }
}

/// Whether a place of the page is in a frame that is not written yet.
fn awaits_frame(entry: &PageEntry) -> bool {
    entry.frame == 0 || (entry.anew.is_some() && entry.anew_frame == 0)
}

/// The frame that was awaited is at `offset`.
fn is_in_frame(entry: &mut PageEntry, offset: u64) {
    if entry.frame == 0 {
        entry.frame = offset;
    }
    if entry.anew.is_some() && entry.anew_frame == 0 {
        entry.anew_frame = offset;
    }
}
