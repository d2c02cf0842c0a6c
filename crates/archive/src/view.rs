//! The archive as of one manifest: what readers use. A view does not change, and the files that it names stay while it is
//! in use in this process.
//!
//! # What a reader is given
//! All records of a page in a range of LSNs, across runs, in order, or an error: every record names the one before it of its
//! page, and that chain is followed here. Where a record is missing the reader learns it, whatever lost it.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_log::{BlockMark, OwnedRecord, RecordRef};
use resurgam_xstore::Store;

use crate::item::{self, StreamEntry};
use crate::manifest::{Manifest, RunMeta};
use crate::run::{AHEAD_LOOKUP, AHEAD_SCAN, PageCursor, Run, StreamCursor, TableCursor};
use crate::table::PageEntry;

/// A run of a view; opened when it is first needed, so that one damaged run keeps nobody from the others.
pub(crate) struct RunHandle {
    pub meta: RunMeta,
    store: Arc<dyn Store>,
    run: Mutex<Option<Arc<Run>>>,
}

impl RunHandle {
    pub fn new(store: Arc<dyn Store>, meta: RunMeta) -> Arc<Self> {
        Arc::new(Self { meta, store, run: Mutex::default() })
    }

    pub fn open(&self) -> Result<Arc<Run>> {
        let mut run = self.run.lock();
        if let Some(run) = &*run {
            return Ok(Arc::clone(run));
        }
        let opened = Arc::new(Run::open(Arc::clone(&self.store), self.meta)?);
        *run = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

/// See the module.
pub struct View {
    pub(crate) manifest: Manifest,
    pub(crate) handles: Vec<Arc<RunHandle>>,
}

/// Which of a page's records a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// What is needed to make the page: from the newest record that makes it anew, if there is one in the range.
    SinceAnew,
    /// All of the log's, as far as merges have not left them out. Of the images that merges have put in, those only whose
    /// record was left out.
    All,
}

impl View {
    /// Where the archive begins; none: it is empty.
    pub fn start(&self) -> Lsn {
        self.manifest.start
    }

    /// Everything from [`View::start`] to here is in it: where the block behind the last one begins.
    pub fn end(&self) -> Lsn {
        self.manifest.end()
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The last block of the log that is in it. Of what an earlier version has archived only position and epoch are known: the other two
    /// numbers are 0. None: there is no run.
    ///
    /// # Errors
    /// Those of [`View::run`].
    pub fn last_block(self: &Arc<Self>) -> Result<Option<BlockMark>> {
        let Some(last) = self.handles.last() else { return Ok(None) };
        let run = last.open()?;
        let mark = run.summary().last_block;
        if mark.lsn.is_some() { Ok(Some(mark)) } else { last_in_stream(&run).map(Some) }
    }

    /// Opens run `index` of the manifest.
    ///
    /// # Errors
    /// `Corrupt`, naming the file; those of reading.
    pub fn run(&self, index: usize) -> Result<Arc<Run>> {
        self.handles.get(index).ok_or_else(|| Error::internal("there is no such run"))?.open()
    }

    /// Goes through the pages of `pages` that have records in (`from`, `to`], in order of their ids, each with its records
    /// in order of LSN. The caller has every page as all records up to `from` have left it (none: it has nothing, and
    /// every page must be made anew by a record: of use where the archive reaches back to the database's beginning).
    ///
    /// This is how pages are restored in stretches: all runs are merged on the way, and memory is two frames of each run
    /// (a quarter of a megabyte, about, and [`AHEAD_SCAN`] bytes read ahead), however many pages and records there are.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when the archive does not reach from `from` to `to`; those of [`View::run`].
    pub fn scan(self: &Arc<Self>, pages: Range<PageId>, from: Lsn, to: Lsn, history: History) -> Result<PageScan> {
        let single = pages.end.0.saturating_sub(pages.start.0) <= 1;
        self.scan_reading(pages, from, to, history, if single { AHEAD_LOOKUP } else { AHEAD_SCAN })
    }

    fn scan_reading(
        self: &Arc<Self>,
        pages: Range<PageId>,
        from: Lsn,
        to: Lsn,
        history: History,
        ahead: usize,
    ) -> Result<PageScan> {
        let (start, end) = (self.start(), self.end());
        let refused = |what: String| Err(Error::new(ErrorKind::NotInPrerequisiteState, what));
        if to >= end {
            return refused(format!("the archive ends at LSN {end}; records up to LSN {to} are not all in it"));
        }
        if from.is_some() && from.0.saturating_add(1) < start.0 {
            return refused(format!("the archive begins at LSN {start}; records after LSN {from} are not all in it"));
        }
        let mut parts = Vec::new();
        for handle in &self.handles {
            if handle.meta.id.end > from && handle.meta.id.start <= to {
                let run = handle.open()?;
                let table = TableCursor::at(Arc::clone(&run), pages.start)?;
                parts.push(Part { start: run.meta().id.start, pages: PageCursor::new(&run, ahead), table });
            }
        }
        Ok(PageScan {
            view: Arc::clone(self),
            parts,
            end: pages.end,
            from,
            to,
            history,
            page: PageId::NONE,
            entries: Vec::new(),
            next: 0,
            part: None,
            since: Lsn::NONE,
            last: Lsn::NONE,
        })
    }

    /// Gives the records of one page in (`from`, `to`] to `each`, in order, one at a time, until it breaks off. One lookup
    /// in each run; memory is that of a frame of each run, however many records there are.
    ///
    /// # Errors
    /// As [`View::scan`] and [`PageScan::next_record`]; those of `each`.
    pub fn fold_page(
        self: &Arc<Self>,
        page: PageId,
        from: Lsn,
        to: Lsn,
        history: History,
        each: &mut dyn FnMut(RecordRef<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut scan = self.scan(page..PageId(page.0.saturating_add(1)), from, to, history)?;
        while scan.next_page()?.is_some() {
            while let Some(record) = scan.next_record()? {
                if each(record)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The records of one page in (`from`, `to`], gathered: all of them are in memory. Who cannot tell how many there are
    /// uses [`View::fold_page`].
    ///
    /// # Errors
    /// As [`View::fold_page`].
    pub fn records_of(
        self: &Arc<Self>,
        page: PageId,
        from: Lsn,
        to: Lsn,
        history: History,
    ) -> Result<Vec<OwnedRecord>> {
        let mut records = Vec::new();
        self.fold_page(page, from, to, history, &mut |record| {
            records.push(record.to_owned());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(records)
    }

    /// The last record of a page that is in the archive, or none: what a page that was read must not be older than.
    ///
    /// # Errors
    /// Those of [`View::run`].
    pub fn last_lsn(&self, page: PageId) -> Result<Lsn> {
        for handle in self.handles.iter().rev() {
            if let Some(entry) = handle.open()?.entry(page)? {
                return Ok(entry.last);
            }
        }
        Ok(Lsn::NONE)
    }

    /// The record at exactly `lsn`, if it is one that the transaction stream has or names: a record without a page, or a
    /// page record that says how it is undone. For the links of a transaction's chain; one lookup in one run.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when the archive does not have that LSN; `Corrupt` when no such record is there.
    pub fn record_at(self: &Arc<Self>, lsn: Lsn) -> Result<OwnedRecord> {
        let missing = || Error::corrupt(format!("the archive has no record at LSN {lsn} that leads to others"));
        if lsn >= self.end() {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!("the archive ends at LSN {}; the record at LSN {lsn} is not in it", self.end()),
            ));
        }
        let mut stream = self.stream_reading(lsn, AHEAD_LOOKUP)?;
        let page = loop {
            match stream.next_entry()?.filter(|entry| entry.lsn() == lsn).ok_or_else(missing)? {
                StreamEntry::Record(record) => return Ok(record.to_owned()),
                StreamEntry::Undo { page, .. } => break page,
                // Of the same record.
                StreamEntry::FirstOf { .. } | StreamEntry::Block { .. } => {}
            }
        };
        let mut records = self.records_of(page, Lsn(lsn.0 - 1), lsn, History::All)?;
        records.pop().filter(|record| record.lsn == lsn).ok_or_else(missing)
    }

    /// The transaction stream from `from` on, across runs.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when the archive begins later.
    pub fn stream(self: &Arc<Self>, from: Lsn) -> Result<TxStream> {
        self.stream_reading(from, AHEAD_SCAN)
    }

    fn stream_reading(self: &Arc<Self>, from: Lsn, ahead: usize) -> Result<TxStream> {
        if from < self.start() {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!("the archive begins at LSN {}; the records from LSN {from} are not all in it", self.start()),
            ));
        }
        let next = self.handles.partition_point(|handle| handle.meta.id.end <= from);
        Ok(TxStream { view: Arc::clone(self), from, ahead, next, cursor: None })
    }
}

/// The last block of a run that says so in its stream only: position and epoch.
pub(crate) fn last_in_stream(run: &Arc<Run>) -> Result<BlockMark> {
    let id = run.meta().id;
    // Where the last frame has none, records of the last block fill it.
    for from in [Lsn(id.end.0.saturating_sub(1)), id.start] {
        let mut stream = StreamCursor::at(run, from, AHEAD_SCAN);
        let mut found = None;
        while stream.advance()? {
            let entry = item::entry(&stream.item()).map_err(|e| stream.located(e))?;
            if let StreamEntry::Block { lsn, next, epoch, .. } = entry {
                found = Some((BlockMark { lsn, epoch, ..BlockMark::default() }, next));
            }
        }
        if let Some((mark, next)) = found
            && next == id.end
        {
            return Ok(mark);
        }
    }
    Err(Error::corrupt(format!("the blocks of \"{}\" do not fill its range", run.name())))
}

struct Part {
    start: Lsn,
    table: TableCursor,
    pages: PageCursor,
}

/// Records of pages, by page and then by LSN, of all runs of a view; see [`View::scan`].
///
/// [`PageScan::next_page`] goes on to the next page whether or not all records of this one were asked for, and
/// [`PageScan::next_record`] gives one at a time, which stays until the next call.
pub struct PageScan {
    view: Arc<View>,
    parts: Vec<Part>,
    end: PageId,
    from: Lsn,
    to: Lsn,
    history: History,
    page: PageId,
    /// Where the page's records are: number of the part, and what it has.
    entries: Vec<(usize, PageEntry)>,
    next: usize,
    part: Option<usize>,
    /// Records before this one are passed over: it makes the page anew.
    since: Lsn,
    /// The last record that was given out of the page, or `from`.
    last: Lsn,
}

impl PageScan {
    /// On to the next page. It may have no records in the range after all.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when merges have left out records that are needed; those of [`View::run`].
    pub fn next_page(&mut self) -> Result<Option<PageId>> {
        loop {
            let pages = self.parts.iter().filter_map(|part| part.table.entry.map(|entry| entry.page));
            let Some(page) = pages.min().filter(|page| *page < self.end) else {
                self.entries.clear();
                return Ok(None);
            };
            self.entries.clear();
            (self.page, self.next, self.part, self.since, self.last) = (page, 0, None, Lsn::NONE, self.from);
            for (i, part) in self.parts.iter_mut().enumerate() {
                let Some(entry) = part.table.entry.filter(|entry| entry.page == page) else { continue };
                let pieces = part.table.pieces.iter().filter(|piece| piece.last > self.from && piece.first <= self.to);
                self.entries.extend(pieces.map(|piece| (i, *piece)));
                part.table.advance()?;
                if entry.cut && self.to >= part.start && self.to < entry.first {
                    return Err(Error::new(
                        ErrorKind::NotInPrerequisiteState,
                        format!(
                            "records of page {page} before LSN {} were left out of the archive; its state at LSN {} \
                             can no longer be made",
                            entry.first, self.to
                        ),
                    ));
                }
            }
            if self.history == History::SinceAnew {
                let found = self.entries.iter().rposition(|(_, e)| e.anew > self.from && e.anew <= self.to);
                if let Some(found) = found {
                    self.since = self.entries[found].1.anew;
                    self.entries.drain(..found);
                }
            }
            if !self.entries.is_empty() {
                return Ok(Some(page));
            }
        }
    }

    /// The next record of the page. One whose [`RecordHeader::prev_page`](resurgam_log::RecordHeader::prev_page) is none
    /// and whose body is an image may be one that a merge has put in: the page as the record of that LSN left it.
    ///
    /// # Errors
    /// `Corrupt`, naming page, LSN and file, when a record is missing before it or is damaged; those of reading.
    pub fn next_record(&mut self) -> Result<Option<RecordRef<'_>>> {
        let Some(part) = self.find_next()? else { return Ok(None) };
        let cursor = &self.parts[part].pages;
        let item = cursor.item();
        let record = item::record(self.page, item.lsn, item.rest).map_err(|e| cursor.located(e))?;
        let linked = || {
            let prev = record.header.prev_page;
            if self.last == self.from { prev <= self.from } else { prev == self.last }
        };
        if !item::makes_anew(record.body) && !linked() {
            let start = self.view.start();
            if record.header.prev_page < start {
                return Err(Error::new(
                    ErrorKind::NotInPrerequisiteState,
                    format!(
                        "page {} has records before LSN {start}, where the archive begins; only from a backup of that LSN or \
                         later can it be made",
                        self.page
                    ),
                ));
            }
            return Err(cursor.located(Error::corrupt(format!(
                "the record of page {} at LSN {} follows one at LSN {}, which is not there (the last one that is: {})",
                self.page, record.lsn, record.header.prev_page, self.last
            ))));
        }
        self.last = item.lsn;
        Ok(Some(record))
    }

    /// The part that stands at the next record of the page.
    fn find_next(&mut self) -> Result<Option<usize>> {
        loop {
            let part = match self.part {
                Some(part) => part,
                None => {
                    let Some((part, entry)) = self.entries.get(self.next).copied() else { return Ok(None) };
                    let pages = &mut self.parts[part].pages;
                    if self.next == 0 && self.since.is_some() && entry.anew == self.since {
                        pages.seek_anew(&entry)?;
                    } else {
                        pages.seek(&entry)?;
                    }
                    self.next += 1;
                    self.part = Some(part);
                    part
                }
            };
            if !self.parts[part].pages.advance()? {
                self.part = None;
                continue;
            }
            let item = self.parts[part].pages.item();
            if item.lsn > self.to {
                // So is all behind it.
                (self.part, self.next) = (None, self.entries.len());
                return Ok(None);
            }
            let wanted = match self.history {
                History::All => !item::is_made(item.rest) || item.lsn != self.last,
                History::SinceAnew if item.lsn == self.since => {
                    let record = item::record(self.page, item.lsn, item.rest);
                    item::makes_anew(record.map_err(|e| self.parts[part].pages.located(e))?.body)
                }
                History::SinceAnew => item.lsn > self.since,
            };
            if wanted && item.lsn > self.from {
                return Ok(Some(part));
            }
        }
    }
}

/// Entries of the transaction stream; see [`View::stream`].
pub struct TxStream {
    view: Arc<View>,
    from: Lsn,
    /// Bytes that are read at a time.
    ahead: usize,
    next: usize,
    cursor: Option<StreamCursor>,
}

impl TxStream {
    /// The next entry, or none at the end of the archive.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset; those of reading.
    pub fn next_entry(&mut self) -> Result<Option<StreamEntry<'_>>> {
        if !self.find_next()? {
            return Ok(None);
        }
        let Some(cursor) = &self.cursor else { return Ok(None) };
        item::entry(&cursor.item()).map(Some).map_err(|e| cursor.located(e))
    }

    fn find_next(&mut self) -> Result<bool> {
        loop {
            if let Some(cursor) = &mut self.cursor {
                while cursor.advance()? {
                    if cursor.item().lsn >= self.from {
                        return Ok(true);
                    }
                }
            }
            if self.next >= self.view.handles.len() {
                self.cursor = None;
                return Ok(false);
            }
            let run = self.view.run(self.next)?;
            self.next += 1;
            self.cursor = Some(StreamCursor::at(&run, self.from, self.ahead));
        }
    }
}
