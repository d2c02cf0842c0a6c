//! Verification: reads everything, and believes nothing that can be counted.

use std::fmt;
use std::sync::Arc;

use resurgam_base::{Error, Lsn, PageId, Result, checksum};
use resurgam_xstore::Store;

use crate::archive::Archive;
use crate::format::{DatabaseId, HEADER_BYTES, RunSummary};
use crate::frame::FrameKind;
use crate::item::{self, StreamEntry};
use crate::lease::Lease;
use crate::parent::ParentRecord;
use crate::run::{AHEAD_LOOKUP, AHEAD_SCAN, PageCursor, Run, StreamCursor, TableCursor};
use crate::view::{History, View};

/// What verification has found.
#[derive(Debug, Default)]
pub struct Report {
    /// The range that is archived.
    pub start: Lsn,
    pub end: Lsn,
    pub runs: usize,
    pub bytes: u64,
    pub page_records: u64,
    pub stream_entries: u64,
    /// What is wrong, each naming its file.
    pub problems: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "LSN {} to {}: {} runs, {} bytes, {} page records, {} entries of the transaction stream",
            self.start, self.end, self.runs, self.bytes, self.page_records, self.stream_entries
        )?;
        self.problems.iter().try_for_each(|problem| writeln!(f, "problem: {problem}"))
    }
}

/// Reads the whole archive of `database` (none: whosever it is): every file, then every page's chain of records across
/// files.
///
/// # Errors
/// Those of listing and of the newest manifest; what is wrong with runs is in the report.
pub fn verify(store: Arc<dyn Store>, database: Option<DatabaseId>) -> Result<Report> {
    let mut report = Report::default();
    let Some(view) = Archive::open_view(Arc::clone(&store), database)? else {
        report.problems.push("there is no archive: no manifest was found".to_owned());
        return Ok(report);
    };
    match ParentRecord::read(&*store) {
        Ok(Some(record)) if record.database != view.manifest().database => {
            report.problems.push("the record of the parent is of another database".to_owned());
        }
        Ok(_) => {}
        Err(error) => report.problems.push(error.to_string()),
    }
    // Whoever would give something up must know all of them.
    if let Err(error) = Lease::list(&*store) {
        report.problems.push(error.to_string());
    }
    (report.start, report.end) = (view.start(), view.end());
    report.runs = view.handles.len();
    for handle in &view.handles {
        report.bytes += handle.meta.len;
        match handle.open().and_then(|opened| run(&opened).map(|()| opened)) {
            Ok(opened) => {
                let summary = opened.summary();
                report.page_records += summary.page_records;
                report.stream_entries += summary.stream_entries;
                let meta = &handle.meta;
                if (meta.page_records, meta.complete_from, meta.last_epoch)
                    != (summary.page_records, summary.complete_from, summary.last_epoch)
                {
                    report.problems.push(format!("file \"{}\" is not what its manifest says", opened.name()));
                }
            }
            Err(error) => report.problems.push(error.to_string()),
        }
    }
    if report.problems.is_empty()
        && let Err(error) = chains(&view)
    {
        report.problems.push(error.to_string());
    }
    Ok(report)
}

/// Follows every page's chain through all runs.
fn chains(view: &Arc<View>) -> Result<()> {
    if view.handles.is_empty() {
        return Ok(());
    }
    let (from, to) = (Lsn(view.start().0.saturating_sub(1)), Lsn(view.end().0.saturating_sub(1)));
    let mut scan = view.scan(PageId::NONE..PageId(u64::MAX), from, to, History::All)?;
    while scan.next_page()?.is_some() {
        while scan.next_record()?.is_some() {}
    }
    Ok(())
}

/// Reads a run whole.
///
/// # Errors
/// `Corrupt`, naming file and offset; those of reading.
pub(crate) fn run(run: &Arc<Run>) -> Result<()> {
    run_while(run, &|| Ok(()))
}

/// The same, as long as `go_on` has no error: it is asked at every frame and every page.
///
/// # Errors
/// Those of [`run`] and of `go_on`.
pub(crate) fn run_while(run: &Arc<Run>, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
    let mut counted = RunSummary::default();
    let items = frames(run, go_on)?;
    let page_bytes = pages(run, &mut counted, go_on)?;
    stream(run, &mut counted, go_on)?;
    let bad = |what: String| crate::frame::damaged(&*run.store, run.name(), run.trailer.summary_at, &what);
    if items != counted.page_records + counted.stream_entries {
        return Err(bad(format!("{items} items are in its frames, and fewer can be reached")));
    }
    let said = run.summary();
    let (blocks, payload) = (counted.blocks, counted.payload_bytes);
    for (what, counted, said) in [
        ("blocks", blocks, said.blocks),
        ("bytes of the log", payload, said.payload_bytes),
        ("bytes kept or left out", page_bytes + counted.stream_bytes + said.dropped_bytes, payload),
        ("page records", counted.page_records, said.page_records),
        ("pages", counted.pages, said.pages),
        ("entries of the stream", counted.stream_entries, said.stream_entries),
        ("bytes of the stream", counted.stream_bytes, said.stream_bytes),
        ("images", counted.images, said.images),
    ] {
        if counted != said {
            return Err(bad(format!("{counted} {what} are there, and it should have {said}")));
        }
    }
    Ok(())
}

/// Every frame as it is stored, back to back, and that the index knows those it should. Returns the number of items. (What is in them is
/// looked at by who goes through tables, pages and stream: once.)
fn frames(run: &Run, go_on: &dyn Fn() -> Result<()>) -> Result<u64> {
    let mut items = 0;
    let (mut table, mut stream) = (Vec::new(), Vec::new());
    let mut offset = HEADER_BYTES as u64;
    for (end, kinds) in [
        (run.trailer.stream_at, &[FrameKind::Pages, FrameKind::Table][..]),
        (run.trailer.index_at, &[FrameKind::Stream][..]),
    ] {
        let mut reader = run.frames(end, AHEAD_SCAN);
        while offset < end {
            go_on()?;
            let kind = reader.kind_at(offset)?;
            let frame = reader.check(offset, kind)?;
            if !kinds.contains(&kind) {
                return Err(reader.bad(offset, &format!("a frame of kind {kind:?} in this part of the file")));
            }
            match kind {
                FrameKind::Table => table.push(offset),
                FrameKind::Stream => stream.push(offset),
                _ => {}
            }
            if kind != FrameKind::Table {
                items += u64::from(frame.items);
            }
            offset = frame.next;
        }
    }
    let (known_table, known_stream) = run.indexed();
    if known_table != table || known_stream != stream {
        return Err(crate::frame::damaged(&*run.store, run.name(), run.trailer.index_at, "the index misses frames"));
    }
    Ok(items)
}

/// Every page record by the table. Returns their bytes in the log.
fn pages(run: &Arc<Run>, counted: &mut RunSummary, go_on: &dyn Fn() -> Result<()>) -> Result<u64> {
    let mut table = TableCursor::whole(Arc::clone(run))?;
    let mut pages = PageCursor::new(run, AHEAD_SCAN);
    let mut middle = PageCursor::new(run, AHEAD_LOOKUP);
    let mut bytes = 0;
    while let Some(entry) = table.entry {
        go_on()?;
        counted.pages += 1;
        pages.seek(&entry)?;
        let (mut count, mut anew_index, mut anew_sum) = (0, 0, 0);
        let (mut first, mut last, mut anew) = (Lsn::NONE, Lsn::NONE, Lsn::NONE);
        while pages.advance()? {
            let item = pages.item();
            let record = item::record(entry.page, item.lsn, item.rest).map_err(|e| pages.located(e))?;
            let bad = |what: &str| {
                let (page, lsn) = (entry.page, record.lsn);
                Err(pages.located(Error::corrupt(format!("the record of page {page} at LSN {lsn} {what}"))))
            };
            let makes_anew = item::makes_anew(record.body);
            if !item::is_by_page(&record.header) {
                return bad("is of no page");
            }
            if count == 0 && entry.cut && !makes_anew {
                return bad("does not make the page anew, and what was before it was left out");
            }
            if count > 0 && !makes_anew && record.header.prev_page != last {
                return bad(&format!("follows one at LSN {}, which is not there", record.header.prev_page));
            }
            if count == 0 {
                first = record.lsn;
            }
            if makes_anew {
                (anew, anew_index, anew_sum) = (record.lsn, count, checksum(item.rest));
            }
            bytes += item::log_bytes(&record, item.rest);
            counted.images += u64::from(item::is_made(item.rest));
            (count, last) = (count + 1, record.lsn);
        }
        counted.page_records += count;
        let mut right = (count, first, last) == (entry.count, entry.first, entry.last)
            && (anew, anew_index) == (entry.anew, entry.anew_index);
        if right && anew.is_some() {
            // That its place leads to it.
            middle.seek_anew(&entry)?;
            right = middle.advance()? && checksum(middle.item().rest) == anew_sum;
        }
        for piece in table.pieces.iter().skip(1) {
            middle.seek(piece)?;
            right = right && middle.advance()? && middle.item().lsn == piece.first;
            right = right && item::makes_anew(item::record(entry.page, piece.first, middle.item().rest)?.body);
        }
        if !right {
            let what = format!("the page table is wrong about page {}", entry.page);
            return Err(pages.located(Error::corrupt(what)));
        }
        table.advance()?;
    }
    Ok(bytes)
}

/// Every entry of the stream; that the blocks fill the range.
fn stream(run: &Run, counted: &mut RunSummary, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
    let id = run.meta().id;
    let mut stream = StreamCursor::at(run, id.start, AHEAD_SCAN);
    let mut block_end = id.start;
    while stream.advance()? {
        counted.stream_entries += 1;
        let item = stream.item();
        let bad = |what: String| Err(stream.located(Error::corrupt(what)));
        if counted.stream_entries.is_multiple_of(4096) {
            go_on()?;
        }
        match item::entry(&item).map_err(|e| stream.located(e))? {
            StreamEntry::Block { lsn, next, payload_bytes, .. } => {
                if lsn != block_end {
                    return bad(format!("the log block at LSN {lsn} stands where the one at {block_end} is expected"));
                }
                block_end = next;
                counted.blocks += 1;
                counted.payload_bytes += u64::from(payload_bytes);
            }
            StreamEntry::Record(record) => counted.stream_bytes += u64::from(record.header.len),
            StreamEntry::FirstOf { .. } | StreamEntry::Undo { .. } => {}
        }
        if item.lsn >= block_end {
            return bad(format!("the entry at LSN {} is in no block", item.lsn));
        }
    }
    if block_end != id.end {
        return Err(stream
            .located(Error::corrupt(format!("its blocks end at LSN {block_end}, and it should reach to {}", id.end))));
    }
    Ok(())
}
