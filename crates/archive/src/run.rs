//! A run that is read: its fixed parts and its index, in memory; lookups in its page table.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::codec::Reader;
use resurgam_xstore::Store;

use crate::format::{HEADER_BYTES, RunId, RunSummary, TRAILER_BYTES, Trailer};
use crate::frame::{Frame, FrameKind, FrameReader, damaged};
use crate::item::{Item, ItemPlace};
use crate::manifest::RunMeta;
use crate::table::{Marks, PageEntry, TablePlace};
use crate::writer::{INDEX_STREAM, INDEX_TABLE};

/// Bytes read at a time where one page is looked up, and where much is read in order.
pub(crate) const AHEAD_LOOKUP: usize = 24 << 10;
pub(crate) const AHEAD_SCAN: usize = 512 << 10;
/// At first, and after a jump, where it is not known how many of a page's neighbours are wanted.
const WINDOW_FIRST: usize = 128 << 10;
/// Frames of its page table that an opened run keeps: a megabyte, and half as much for their marks.
const TABLES_KEPT: usize = 64;

/// A frame of the page table that is kept.
#[derive(Default)]
struct TableFrame {
    frame: Frame,
    /// Made when a page is looked up in it for the second time.
    marks: OnceLock<Marks>,
}

/// An opened run: immutable, shared.
pub struct Run {
    pub(crate) store: Arc<dyn Store>,
    meta: RunMeta,
    name: String,
    pub(crate) trailer: Trailer,
    summary: RunSummary,
    /// First page and offset of each frame of the table.
    table: Vec<(u64, u64)>,
    /// Frames of the table that were read last, by their numbers: neighbouring pages, and those of a small run, are looked up in them again
    /// and again.
    kept: Mutex<VecDeque<(usize, Arc<TableFrame>)>>,
    /// First LSN and offset of each frame of the stream.
    stream: Vec<(u64, u64)>,
}

impl Run {
    /// Opens the run that a manifest names.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset, when it is damaged or another one; those of reading.
    pub fn open(store: Arc<dyn Store>, meta: RunMeta) -> Result<Self> {
        let name = meta.id.name();
        let len = store.len(&name)?;
        let bad = |offset: u64, what: &str| damaged(&*store, &name, offset, what);
        let located = |offset: u64, e: Error| if e.kind() == ErrorKind::Corrupt { bad(offset, e.message()) } else { e };
        if len != meta.len || len < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(bad(len, &format!("it has {len} bytes where the manifest says {}", meta.len)));
        }
        let header = store.read(&name, 0, HEADER_BYTES)?;
        let header = header.first_chunk().ok_or_else(|| bad(0, "it is too short"))?;
        let (id, seed) = RunId::decode(header).map_err(|e| located(0, e))?;
        if id != meta.id {
            return Err(bad(0, &format!("it is the run of LSN {} to {} of another name", id.start, id.end)));
        }
        let trailer_at = len - TRAILER_BYTES as u64;
        let trailer = store.read(&name, trailer_at, TRAILER_BYTES)?;
        let trailer = trailer.first_chunk().ok_or_else(|| bad(trailer_at, "it is too short"))?;
        let (trailer, crc) = Trailer::decode(trailer, len).map_err(|e| located(trailer_at, e))?;
        if crc != meta.trailer_crc || trailer.seed != seed {
            return Err(bad(trailer_at, "its trailer is not the one that the manifest or its header knows"));
        }
        let ahead = usize::try_from(trailer.at - trailer.index_at).unwrap_or(0);
        let mut reader = FrameReader::new(Arc::clone(&store), &name, seed, trailer.at, ahead);
        let mut frame = Frame::default();
        reader.read(trailer.index_at, FrameKind::Index, &mut frame)?;
        if frame.next != trailer.summary_at {
            return Err(bad(trailer.index_at, "the index does not end where the summary begins"));
        }
        let (table, stream) = parse_index(&frame, &trailer).map_err(|e| located(trailer.index_at, e))?;
        reader.read(trailer.summary_at, FrameKind::Summary, &mut frame)?;
        if frame.next != trailer.at {
            return Err(bad(trailer.summary_at, "the summary does not end where the trailer begins"));
        }
        let summary = RunSummary::decode(&frame.content).map_err(|e| located(trailer.summary_at, e))?;
        Ok(Self { store, meta, name, trailer, summary, table, kept: Mutex::default(), stream })
    }

    /// What the manifest says of it.
    pub fn meta(&self) -> &RunMeta {
        &self.meta
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is in it, in numbers.
    pub fn summary(&self) -> &RunSummary {
        &self.summary
    }

    /// Memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let marks = |of: &TableFrame| of.marks.get().map_or(0, Marks::bytes);
        let kept: usize = self.kept.lock().iter().map(|(_, of)| of.frame.content.capacity() + marks(of)).sum();
        kept + size_of::<Self>() + (self.table.capacity() + self.stream.capacity()) * size_of::<(u64, u64)>()
    }

    /// Offsets of the frames that the index knows: of the table, of the stream.
    pub(crate) fn indexed(&self) -> (Vec<u64>, Vec<u64>) {
        let offsets = |list: &[(u64, u64)]| list.iter().map(|(_, offset)| *offset).collect();
        (offsets(&self.table), offsets(&self.stream))
    }

    pub(crate) fn frames(&self, end: u64, ahead: usize) -> FrameReader {
        FrameReader::new(Arc::clone(&self.store), &self.name, self.trailer.seed, end, ahead)
    }

    /// What the run has of one page: one lookup.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset; those of reading.
    pub fn entry(self: &Arc<Self>, page: PageId) -> Result<Option<PageEntry>> {
        let mut cursor = TableCursor::at(Arc::clone(self), page)?;
        Ok(cursor.entry.take().filter(|entry| entry.page == page))
    }

    /// The frame of the table with that number, which is at `offset`, and a place in it before the first entry of `page`.
    fn table_frame(
        &self,
        number: usize,
        offset: u64,
        page: PageId,
        reader: &mut FrameReader,
    ) -> Result<(Arc<TableFrame>, TablePlace)> {
        let found = {
            let mut kept = self.kept.lock();
            let at = kept.iter().position(|(of, _)| *of == number);
            // Those that were used last are kept.
            at.and_then(|at| kept.remove(at)).map(|used| {
                let frame = Arc::clone(&used.1);
                kept.push_front(used);
                frame
            })
        };
        if let Some(of) = found {
            let place = of.marks.get_or_init(|| Marks::of(&of.frame.content)).before(page);
            return Ok((of, place));
        }
        let mut of = TableFrame::default();
        reader.read(offset, FrameKind::Table, &mut of.frame)?;
        let of = Arc::new(of);
        let mut kept = self.kept.lock();
        if !kept.iter().any(|(of, _)| *of == number) {
            kept.truncate(TABLES_KEPT - 1);
            kept.push_front((number, Arc::clone(&of)));
        }
        Ok((of, TablePlace::default()))
    }

    /// The first page of each frame of the table.
    pub(crate) fn table_firsts(&self) -> Arc<[u64]> {
        self.table.iter().map(|(first, _)| *first).collect()
    }

    /// Of each page in a frame of the table its last LSN there. (A page may go on in the next frame.)
    pub(crate) fn last_lsns(self: &Arc<Self>, frame_number: usize) -> Result<Box<[(u64, u64)]>> {
        let Some((_, offset)) = self.table.get(frame_number).copied() else {
            return Err(Error::internal("there is no such frame of the page table"));
        };
        let mut reader = self.frames(self.trailer.stream_at, AHEAD_LOOKUP);
        let (mut frame, mut place) = (Frame::default(), TablePlace::default());
        reader.read(offset, FrameKind::Table, &mut frame)?;
        let mut pages: Vec<(u64, u64)> = Vec::new();
        while let Some(entry) = place.next(&frame.content).map_err(|e| reader.located(offset, e))? {
            match pages.last_mut() {
                Some((page, last)) if *page == entry.page.0 => *last = entry.last.0,
                Some((page, _)) if *page > entry.page.0 => {
                    return Err(reader.bad(offset, "the page table is out of order"));
                }
                _ => pages.push((entry.page.0, entry.last.0)),
            }
        }
        Ok(pages.into_boxed_slice())
    }

    /// Offsets of the stream's frames from the one that may hold `from` on.
    pub(crate) fn stream_from(&self, from: Lsn) -> &[(u64, u64)] {
        let after = self.stream.partition_point(|(first, _)| *first < from.0);
        &self.stream[after.saturating_sub(1)..]
    }
}

type IndexEntries = Vec<(u64, u64)>;

fn parse_index(frame: &Frame, trailer: &Trailer) -> Result<(IndexEntries, IndexEntries)> {
    let mut r = Reader::new(&frame.content, "index");
    let (mut table, mut stream): (IndexEntries, IndexEntries) = Default::default();
    while !r.is_empty() {
        let (kind, key, offset) = (r.varint64()?, r.varint64()?, r.varint64()?);
        let (list, from, to) = match kind {
            INDEX_TABLE => (&mut table, HEADER_BYTES as u64, trailer.stream_at),
            INDEX_STREAM => (&mut stream, trailer.stream_at, trailer.index_at),
            _ => return Err(r.bad("unknown kind of entry")),
        };
        let ascends = list.last().is_none_or(|(before, at)| *before <= key && *at < offset);
        if !ascends || offset < from || offset >= to {
            return Err(r.bad("an entry that cannot be"));
        }
        list.push((key, offset));
    }
    Ok((table, stream))
}

/// Goes through the page table.
pub(crate) struct TableCursor {
    run: Arc<Run>,
    reader: FrameReader,
    /// The page that it begins at, where frames that were read before will do.
    from: Option<PageId>,
    of: Arc<TableFrame>,
    place: TablePlace,
    /// Number of the next frame.
    next: usize,
    /// The first entry of the next page.
    ahead: Option<PageEntry>,
    /// The page that it stands at, all its entries together; none at the end.
    pub entry: Option<PageEntry>,
    /// Its entries one by one; see `table.rs`.
    pub pieces: Vec<PageEntry>,
}

impl TableCursor {
    /// At the first entry of `page` or a higher one.
    pub fn at(run: Arc<Run>, page: PageId) -> Result<Self> {
        // Its frames lie far from each other, between those of the records.
        let mut cursor = Self::new(run, page, AHEAD_LOOKUP, true);
        cursor.advance()?;
        while cursor.entry.is_some_and(|entry| entry.page < page) {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    /// At the first entry of all. Everything is read anew: whoever goes through all of a run wants to know what is in the file.
    pub fn whole(run: Arc<Run>) -> Result<Self> {
        let mut cursor = Self::new(run, PageId::NONE, AHEAD_SCAN, false);
        cursor.advance()?;
        Ok(cursor)
    }

    fn new(run: Arc<Run>, page: PageId, ahead: usize, kept: bool) -> Self {
        // A frame that begins with the page may begin in the middle of its entries.
        let after = run.table.partition_point(|(first, _)| *first < page.0);
        // Its frames lie far from each other, where pages have many records.
        let reader = run.frames(run.trailer.stream_at, ahead).growing_from(AHEAD_LOOKUP);
        let next = after.saturating_sub(1);
        let (of, place, from) = (Arc::default(), TablePlace::default(), kept.then_some(page));
        Self { run, reader, from, of, place, next, ahead: None, entry: None, pieces: Vec::new() }
    }

    /// On to the next page.
    pub fn advance(&mut self) -> Result<()> {
        let first = match self.ahead.take() {
            Some(first) => Some(first),
            None => self.next_entry()?,
        };
        let ascends = match (&self.entry, &first) {
            (Some(before), Some(first)) => before.page < first.page,
            _ => true,
        };
        self.pieces.clear();
        self.entry = first;
        let Some(entry) = &mut self.entry else { return Ok(()) };
        if !ascends {
            return Err(self.reader.bad(self.of.frame.offset, "the page table is out of order"));
        }
        self.pieces.push(*entry);
        let mut whole = *entry;
        while let Some(next) = self.next_entry()? {
            if next.page != whole.page || !next.continues {
                self.ahead = Some(next);
                break;
            }
            if next.first < whole.last || next.anew.is_none() {
                return Err(self.reader.bad(self.of.frame.offset, "the page table is out of order"));
            }
            whole.add(&next);
            self.pieces.push(next);
        }
        self.entry = Some(whole);
        Ok(())
    }

    fn next_entry(&mut self) -> Result<Option<PageEntry>> {
        loop {
            let found =
                self.place.next(&self.of.frame.content).map_err(|e| self.reader.located(self.of.frame.offset, e))?;
            if found.is_some() {
                return Ok(found);
            }
            let Some((_, offset)) = self.run.table.get(self.next).copied() else { return Ok(None) };
            (self.of, self.place) = match self.from {
                Some(page) => self.run.table_frame(self.next, offset, page, &mut self.reader)?,
                None => {
                    let mut of = TableFrame::default();
                    self.reader.read(offset, FrameKind::Table, &mut of.frame)?;
                    (Arc::new(of), TablePlace::default())
                }
            };
            self.next += 1;
        }
    }
}

/// Reads records of pages from their places on; the frame that it read last is kept, so that pages in order cost a frame
/// once.
pub(crate) struct PageCursor {
    reader: FrameReader,
    frame: Frame,
    place: ItemPlace,
    /// Records of the page that are left.
    left: u64,
    page: PageId,
    last: Lsn,
    rest_len: usize,
    range: (Lsn, Lsn),
}

impl PageCursor {
    pub fn new(run: &Run, ahead: usize) -> Self {
        let reader = run.frames(run.trailer.stream_at, ahead).growing_from(WINDOW_FIRST);
        let range = (run.meta.id.start, run.meta.id.end);
        let (frame, place) = (Frame::default(), ItemPlace::default());
        Self { reader, frame, place, left: 0, page: PageId::NONE, last: Lsn::NONE, rest_len: 0, range }
    }

    /// Goes to the records of a page.
    pub fn seek(&mut self, entry: &PageEntry) -> Result<()> {
        let at = self.load(entry.frame, entry.at)?;
        self.place = match entry.continues {
            true => ItemPlace::at_known(at, entry.page.0, entry.first),
            false => ItemPlace::inside(at, entry.page.0),
        };
        (self.left, self.page, self.last) = (entry.count, entry.page, Lsn::NONE);
        Ok(())
    }

    /// Goes to the newest record that makes the page anew: the next one is that.
    pub fn seek_anew(&mut self, entry: &PageEntry) -> Result<()> {
        let at = self.load(entry.anew_frame, entry.anew_at)?;
        self.place = ItemPlace::at_known(at, entry.page.0, entry.anew);
        (self.left, self.page, self.last) = (entry.count - entry.anew_index, entry.page, Lsn::NONE);
        Ok(())
    }

    /// Reads a frame if it is not there, and checks an offset in it.
    fn load(&mut self, frame: u64, at: u64) -> Result<usize> {
        if self.frame.offset != frame || self.frame.next == 0 {
            // Not to be taken for read if that fails.
            self.frame.next = 0;
            self.reader.read(frame, FrameKind::Pages, &mut self.frame)?;
        }
        match usize::try_from(at) {
            Ok(at) if at < self.frame.content.len() => Ok(at),
            _ => Err(self.reader.bad(frame, "the page table leads past the end of a frame")),
        }
    }

    /// On to the next record of that page; false when there is none.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset; those of reading.
    pub fn advance(&mut self) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        if self.place.at >= self.frame.content.len() {
            let next = self.frame.next;
            self.frame.next = 0;
            if !self.reader.read_next(next, FrameKind::Pages, &mut self.frame)? {
                return Err(self.reader.bad(next, "records of a page are missing"));
            }
            self.place = ItemPlace::default();
        }
        let offset = self.frame.offset;
        let item = match self.place.next_page(&self.frame.content) {
            Ok(Some(item)) => item,
            Ok(None) => return Err(self.reader.bad(offset, "records of a page are missing")),
            Err(e) => return Err(self.reader.located(offset, e)),
        };
        let inside = item.lsn >= self.range.0 && item.lsn < self.range.1;
        if item.key != self.page.0 || item.lsn < self.last || !inside {
            return Err(self.reader.bad(offset, &format!("a record that is not one of page {}", self.page)));
        }
        self.last = item.lsn;
        self.rest_len = item.rest.len();
        self.left -= 1;
        Ok(true)
    }

    /// The record that it stands at.
    pub fn item(&self) -> Item<'_> {
        let rest = self.frame.content.get(self.place.at.saturating_sub(self.rest_len)..self.place.at);
        Item { key: self.page.0, lsn: self.last, rest: rest.unwrap_or_default() }
    }

    pub fn located(&self, error: Error) -> Error {
        self.reader.located(self.frame.offset, error)
    }
}

/// Goes through the transaction stream of one run.
pub(crate) struct StreamCursor {
    reader: FrameReader,
    frames: Vec<(u64, u64)>,
    frame: Frame,
    place: ItemPlace,
    next: usize,
    key: u64,
    last: Lsn,
    rest_len: usize,
}

impl StreamCursor {
    /// At the frame that may hold `from`.
    pub fn at(run: &Run, from: Lsn, ahead: usize) -> Self {
        Self {
            reader: run.frames(run.trailer.index_at, ahead),
            frames: run.stream_from(from).to_vec(),
            frame: Frame::default(),
            place: ItemPlace::default(),
            next: 0,
            key: 0,
            last: Lsn::NONE,
            rest_len: 0,
        }
    }

    /// On to the next entry; false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        while self.place.at >= self.frame.content.len() {
            let Some((_, offset)) = self.frames.get(self.next).copied() else { return Ok(false) };
            self.next += 1;
            self.reader.read(offset, FrameKind::Stream, &mut self.frame)?;
            self.place = ItemPlace::default();
        }
        let offset = self.frame.offset;
        match self.place.next_stream(&self.frame.content) {
            Ok(Some(item)) if item.lsn >= self.last => {
                (self.key, self.last, self.rest_len) = (item.key, item.lsn, item.rest.len());
                Ok(true)
            }
            Ok(_) => Err(self.reader.bad(offset, "the transaction stream is out of order")),
            Err(e) => Err(self.reader.located(offset, e)),
        }
    }

    /// The entry that it stands at.
    pub fn item(&self) -> Item<'_> {
        let rest = self.frame.content.get(self.place.at.saturating_sub(self.rest_len)..self.place.at);
        Item { key: self.key, lsn: self.last, rest: rest.unwrap_or_default() }
    }

    pub fn located(&self, error: Error) -> Error {
        self.reader.located(self.frame.offset, error)
    }
}
