//! Merging: several consecutive runs become one of the next level.
//!
//! Pages come in order, each with its records in order. Two things change what is in the archive, both only where the caller
//! allows it:
//! - records of a page are left out when a later one, below the retention LSN, makes the page anew;
//! - images are put in, so that making a page never takes more than so many records.
//!
//! Memory: of each input a frame, one of its page table, and what is read ahead ([`AHEAD_BYTES`] of all of them; half a megabyte of each
//! table at most); of one page at most [`HELD_BYTES`] of records that may yet be left out. A page with more keeps them.

use std::sync::Arc;

use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::{PageBuf, op};

use crate::archive::{Archive, make_run};
use crate::archiver::ArchiveConfig;
use crate::format::{RunId, RunSummary};
use crate::item::{self, Item, StreamEntry};
use crate::manifest::RunMeta;
use crate::run::{AHEAD_LOOKUP, AHEAD_SCAN, PageCursor, Run, StreamCursor, TableCursor};
use crate::table::PageEntry;
use crate::verify;
use crate::view::RunHandle;
use crate::writer::{NotMade, RunWriter};

/// Records of one page that are held back because they may be left out.
const HELD_BYTES: usize = 4 << 20;
/// Read ahead of all inputs together.
const AHEAD_BYTES: usize = 8 << 20;

/// Bugs that tests plant, to see that they are caught.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// An image lacks the record that it stands for.
    EarlyImage,
    /// Records are left out whatever is promised.
    LeavesOutTooMuch,
    /// What is before a hole stays.
    HoleInTheMiddle,
}

#[cfg(test)]
thread_local! {
    pub(crate) static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Whether that bug is planted: in tests only.
fn planted(bug: Planted) -> bool {
    #[cfg(test)]
    return PLANTED.get() == Some(bug);
    #[cfg(not(test))]
    {
        let _ = bug;
        false
    }
}

/// What a merge may do.
pub struct MergePolicy<'a> {
    /// The oldest LSN at which the state of a page, or of a transaction, may still be asked for. Promised points in time,
    /// backups and clones bound it, and so does the first record of every transaction that was unfinished at the oldest of
    /// them: its undo is in page records. None: nothing is left out.
    pub retention: Lsn,
    /// After so many records of a page its image is put in; 0: never. Those of earlier runs count, for a page that has an
    /// eighth of it at least in these: for one with fewer it is not worth a look at them.
    pub records_per_page_max: u64,
    /// The page as its record of that LSN (none: nothing) has left it, from a backup and earlier runs; `None` when it cannot
    /// be had. It is asked for pages that no record of these runs makes anew, before they get an image.
    pub base: Option<&'a mut dyn FnMut(PageId, Lsn) -> Result<Option<PageBuf>>>,
    /// Called between any two pieces of the work, each of a few milliseconds at most: it may take its time, so that others have the
    /// processors meanwhile.
    pub rest: Option<&'a dyn Fn()>,
}

impl MergePolicy<'_> {
    /// Changes nothing: all records are kept, no images.
    pub fn keep_all() -> Self {
        Self { retention: Lsn::NONE, records_per_page_max: 0, base: None, rest: None }
    }
}

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    pub inputs: usize,
    pub run: RunMeta,
    pub summary: RunSummary,
}

impl Archive {
    /// Merges the oldest runs of the lowest level that has enough of them (see [`ArchiveConfig::fan_in`]); `None`: there is nothing to merge, or merges were
    /// stopped ([`Archive::stop_merges`]). To be called again until then; any thread may, one at a time.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset, when an input is damaged: nothing was changed. Those of the store.
    pub fn merge(&self, config: &ArchiveConfig, policy: &mut MergePolicy<'_>) -> Result<Option<Merged>> {
        let handles = {
            let view = self.view();
            let Some(picked) = pick(&view.handles, config) else { return Ok(None) };
            view.handles[picked].to_vec()
        };
        let merged = match self.merge_runs(&handles, config, policy) {
            Err(error) if error.kind() == ErrorKind::Cancelled && self.check_merges().is_err() => return Ok(None),
            outcome => outcome?,
        };
        drop(handles);
        // What cannot be deleted now is at the next call.
        let _ = self.delete_replaced();
        Ok(merged)
    }

    /// Whether [`Archive::merge`] would find something to merge.
    pub fn wants_merge(&self, config: &ArchiveConfig) -> bool {
        pick(&self.view().handles, config).is_some()
    }

    /// How many runs wait to be merged.
    pub fn runs_waiting(&self, config: &ArchiveConfig) -> usize {
        enough(&self.view().handles, config).map(|(_, all)| all.len()).sum()
    }

    /// Merges consecutive runs.
    pub(crate) fn merge_runs(
        &self,
        handles: &[Arc<RunHandle>],
        config: &ArchiveConfig,
        policy: &mut MergePolicy<'_>,
    ) -> Result<Option<Merged>> {
        let inputs: Vec<RunMeta> = handles.iter().map(|handle| handle.meta).collect();
        let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else { return Ok(None) };
        let rest = policy.rest;
        let runs = handles.iter().map(|handle| handle.open()).collect::<Result<Vec<_>>>()?;
        let _under_way = self.merging.begin(runs.iter().map(|run| run.summary().page_records).sum());
        let level = inputs.iter().map(|run| run.id.level).max().unwrap_or(0).saturating_add(1);
        let view = self.view();
        let earlier = view.handles.partition_point(|handle| handle.meta.id.end <= first.id.start);
        let earlier = view.handles.get(..earlier).unwrap_or_default();
        let run = make_run(self, level, first.id.start, last.id.end, |id| {
            Merge { archive: self, runs: &runs, earlier, policy: &mut *policy, config }.write(id)
        })?;
        drop(view);
        let opened = Arc::new(Run::open(Arc::clone(&self.store), run)?);
        if config.verify_merges
            && let Err(error) = verify::run_while(&opened, &|| self.next_piece(rest))
        {
            self.discard(&run.id);
            return Err(error);
        }
        if !self.replace(&inputs, run)? {
            self.discard(&run.id);
            return Ok(None);
        }
        Ok(Some(Merged { inputs: inputs.len(), run, summary: *opened.summary() }))
    }
}

/// Runs of one level next to each other, below the highest level, of which there are enough to be merged; the oldest first.
fn enough<'h>(
    handles: &'h [Arc<RunHandle>],
    config: &ArchiveConfig,
) -> impl Iterator<Item = (u16, std::ops::Range<usize>)> + use<'h> {
    let (fan_in, levels_max) = (config.fan_in.max(2), config.levels_max);
    let mut end = 0;
    handles.chunk_by(|a, b| a.meta.id.level == b.meta.id.level).filter_map(move |same| {
        let start = end;
        end += same.len();
        let level = same.first()?.meta.id.level;
        (level < levels_max && same.len() >= fan_in).then_some((level, start..end))
    })
}

/// The oldest runs of the lowest level of which there are enough: those of a fan-in, or as many as wait.
fn pick(handles: &[Arc<RunHandle>], config: &ArchiveConfig) -> Option<std::ops::Range<usize>> {
    let (_, all) = enough(handles, config).min_by_key(|(level, all)| (*level, all.start))?;
    let most = config.fan_in_max.max(config.fan_in).max(2);
    Some(all.start..all.end.min(all.start + most))
}

/// Items between two looks whether to go on.
const LOOK_EVERY: u64 = 4096;

struct Merge<'m, 'p> {
    archive: &'m Archive,
    runs: &'m [Arc<Run>],
    /// Those before them.
    earlier: &'m [Arc<RunHandle>],
    policy: &'m mut MergePolicy<'p>,
    config: &'m ArchiveConfig,
}

struct Input {
    table: TableCursor,
    pages: PageCursor,
}

impl Merge<'_, '_> {
    fn write(&mut self, id: RunId) -> Result<RunMeta, NotMade> {
        let mut summary = RunSummary::default();
        self.runs.iter().for_each(|run| summary.inherit(run.summary()));
        let mut writer = RunWriter::new(&self.archive.store, id, self.config.sizes(), summary)?;
        let mut inputs = Vec::new();
        let ahead = (AHEAD_BYTES / self.runs.len().max(1)).clamp(AHEAD_LOOKUP, AHEAD_SCAN);
        for run in self.runs {
            let table = TableCursor::whole(Arc::clone(run))?;
            inputs.push(Input { table, pages: PageCursor::new(run, ahead) });
        }
        let mut entries: Vec<(usize, PageEntry)> = Vec::new();
        let mut pieces: Vec<PageEntry> = Vec::new();
        while let Some(page) = inputs.iter().filter_map(|input| Some(input.table.entry?.page)).min() {
            self.archive.next_piece(self.policy.rest)?;
            entries.clear();
            pieces.clear();
            for (i, input) in inputs.iter_mut().enumerate() {
                if let Some(entry) = input.table.entry.filter(|entry| entry.page == page) {
                    entries.push((i, entry));
                    pieces.extend(&input.table.pieces);
                    input.table.advance()?;
                }
            }
            self.page(page, &entries, &pieces, &mut inputs, &mut writer)?;
            self.archive.merging.through(entries.iter().map(|(_, entry)| entry.count).sum());
        }
        for run in self.runs {
            let mut stream = StreamCursor::at(run, run.meta().id.start, AHEAD_SCAN);
            let mut items = 0;
            while stream.advance()? {
                items += 1;
                if items % LOOK_EVERY == 0 {
                    self.archive.next_piece(self.policy.rest)?;
                }
                let item = stream.item();
                if let StreamEntry::Block { lsn, .. } = item::entry(&item).map_err(|e| stream.located(e))?
                    && (lsn < run.meta().id.start || lsn >= run.meta().id.end)
                {
                    return Err(NotMade::Other(stream.located(Error::corrupt("a block that is not of this run"))));
                }
                writer.put_stream(&item)?;
            }
        }
        writer.finish()
    }

    /// Writes the records of one page. `pieces`: what the tables have of it, in order.
    fn page(
        &mut self,
        page: PageId,
        entries: &[(usize, PageEntry)],
        pieces: &[PageEntry],
        inputs: &mut [Input],
        writer: &mut RunWriter,
    ) -> Result<()> {
        // Of what is before a hole that an earlier merge has left, nothing can be asked for any more: it goes as well, or the
        // hole would be in the middle, where no reader expects one.
        let hole = entries.iter().rposition(|(_, entry)| entry.cut);
        let kept = hole.filter(|_| !planted(Planted::HoleInTheMiddle)).unwrap_or(0);
        for (i, entry) in &entries[..kept] {
            let cursor = &mut inputs[*i].pages;
            cursor.seek(entry)?;
            while cursor.advance()? {
                let item = cursor.item();
                let record = item::record(page, item.lsn, item.rest).map_err(|e| cursor.located(e))?;
                writer.summary.dropped_records += u64::from(!item::is_made(item.rest));
                writer.summary.dropped_bytes += item::log_bytes(&record, item.rest);
            }
        }
        let entries = &entries[kept..];
        let hole = pieces.iter().rposition(|piece| piece.cut).filter(|_| kept > 0).unwrap_or(0);
        let pieces = &pieces[hole..];
        let count: u64 = entries.iter().map(|(_, entry)| entry.count).sum();
        let max = self.policy.records_per_page_max;
        let mut out = PageOut {
            page,
            retention: self.policy.retention,
            held: Vec::new(),
            held_bytes: 0,
            written: false,
            cut: entries.first().is_some_and(|(_, entry)| entry.cut),
            writer,
        };
        let begins_anew = pieces.first().is_some_and(|piece| piece.anew == piece.first);
        let mut since_anew =
            if max > 0 && count > max / 8 && !begins_anew { self.records_before(page, max) } else { 0 };
        // Where images were logged there is nothing to do, and the page need not be made.
        let mut images = if max > 0 && longest_chain(since_anew, pieces) > max { Images::Wanted } else { Images::No };
        let mut items = 0;
        let mut body = Vec::new();
        for (i, entry) in entries {
            let cursor = &mut inputs[*i].pages;
            cursor.seek(entry)?;
            while cursor.advance()? {
                items += 1;
                if items % LOOK_EVERY == 0 {
                    self.archive.next_piece(self.policy.rest)?;
                }
                let item = cursor.item();
                let record = item::record(page, item.lsn, item.rest).map_err(|e| cursor.located(e))?;
                let anew = item::makes_anew(record.body);
                if let Images::Wanted = images {
                    images = self.begin_images(page, record.header.prev_page, anew)?;
                }
                out.put(item.lsn, item.rest, item::log_bytes(&record, item.rest), anew)?;
                since_anew = if anew { 0 } else { since_anew + 1 };
                let Images::Of(buf) = &mut images else { continue };
                // Where a record is missing, or cannot be redone, there is no image: it would hide that from who needs the page.
                let follows = anew || record.header.prev_page == buf.lsn();
                if planted(Planted::EarlyImage) && since_anew >= max {
                    buf.set_lsn(item.lsn);
                } else if !follows || op::apply(buf, page, record.body, item.lsn).is_err() {
                    images = Images::No;
                    continue;
                }
                if since_anew >= max {
                    since_anew = 0;
                    let (object, lsn) = (record.header.object, item.lsn);
                    body.clear();
                    op::image(&mut body, buf);
                    let mut rest = Vec::with_capacity(body.len() + 16);
                    item::put_image(&mut rest, page, object, lsn, &body);
                    out.put(lsn, &rest, 0, true)?;
                }
            }
        }
        out.finish()
    }

    /// How many records follow the newest one before these runs that makes the page anew; `enough` if there are more.
    fn records_before(&self, page: PageId, enough: u64) -> u64 {
        let mut records = 0;
        for handle in self.earlier.iter().rev() {
            // A damaged run is of no concern to this merge.
            match handle.open().and_then(|run| run.entry(page)) {
                Ok(Some(entry)) if entry.anew.is_some() => {
                    records += entry.count.saturating_sub(entry.anew_index + 1);
                    break;
                }
                Ok(Some(entry)) => records += entry.count,
                Ok(None) => {}
                Err(_) => break,
            }
            if records >= enough {
                break;
            }
        }
        records.min(enough)
    }

    /// The page before its first record of these runs.
    fn begin_images(&mut self, page: PageId, before: Lsn, anew: bool) -> Result<Images> {
        if anew {
            return Ok(Images::Of(Box::new(PageBuf::zeroed())));
        }
        let Some(base) = &mut self.policy.base else { return Ok(Images::No) };
        Ok(match base(page, before)? {
            Some(buf) if buf.lsn() == before => Images::Of(Box::new(buf)),
            _ => Images::No,
        })
    }
}

/// Most records that follow each other in `pieces` of a page and do not make it anew, where `before` of them are before these; perhaps
/// fewer, where a table names only the newest of those that make it anew.
fn longest_chain(before: u64, pieces: &[PageEntry]) -> u64 {
    let (mut since, mut longest) = (before, before);
    for piece in pieces {
        if piece.anew.is_some() {
            longest = longest.max(since + piece.anew_index);
            since = piece.count.saturating_sub(piece.anew_index + 1);
        } else {
            since += piece.count;
        }
        longest = longest.max(since);
    }
    longest
}

enum Images {
    No,
    /// The page's first record decides.
    Wanted,
    /// The page as the records so far have left it.
    Of(Box<PageBuf>),
}

struct Held {
    lsn: Lsn,
    rest: Vec<u8>,
    log_bytes: u64,
    anew: bool,
}

/// The records of a page on their way out: held back until it is known that no later one makes them superfluous.
struct PageOut<'w> {
    page: PageId,
    retention: Lsn,
    held: Vec<Held>,
    held_bytes: usize,
    /// Some were written: from now on none is left out, or there would be a hole.
    written: bool,
    cut: bool,
    writer: &'w mut RunWriter,
}

impl PageOut<'_> {
    fn put(&mut self, lsn: Lsn, rest: &[u8], log_bytes: u64, anew: bool) -> Result<()> {
        let promised = lsn >= self.retention && !planted(Planted::LeavesOutTooMuch);
        if anew && !self.written && !promised && !self.held.is_empty() {
            // An image stands for the record of its LSN as well, which is held too.
            let summary = &mut self.writer.summary;
            for held in self.held.drain(..) {
                summary.dropped_records += u64::from(!item::is_made(&held.rest));
                summary.dropped_bytes += held.log_bytes;
            }
            summary.complete_from = summary.complete_from.max(lsn);
            self.held_bytes = 0;
            self.cut = true;
        }
        if self.written || promised || self.held_bytes > HELD_BYTES {
            self.write_held()?;
            self.written = true;
            return self.write(lsn, rest, log_bytes, anew);
        }
        self.held_bytes += rest.len() + PAGE_SIZE / 64;
        self.held.push(Held { lsn, rest: rest.to_vec(), log_bytes, anew });
        Ok(())
    }

    fn write(&mut self, lsn: Lsn, rest: &[u8], log_bytes: u64, anew: bool) -> Result<()> {
        let item = Item { key: self.page.0, lsn, rest };
        self.writer.put_page(&item, log_bytes, anew)?;
        if self.cut {
            self.writer.cut_page();
        }
        Ok(())
    }

    fn write_held(&mut self) -> Result<()> {
        for held in std::mem::take(&mut self.held) {
            self.write(held.lsn, &held.rest, held.log_bytes, held.anew)?;
        }
        self.held_bytes = 0;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.write_held()
    }
}
