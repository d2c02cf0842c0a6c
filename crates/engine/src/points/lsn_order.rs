//! All pages of a new folder in the order of ARIES: the backup's images as they are, then the log since the backup's begin, in order of
//! LSN, through a pool of a given size.
//!
//! It is what the single pass (`pages.rs`) is measured against (`lab restore`), and what tests compare it with: the archive's runs and their
//! order take no part in it, only in finding the point. It wants the log as it was written, from the backup's begin on, which nobody keeps:
//! copies of the segments.
//!
//! # Invariants
//! 1. A page has every record of its own below the cut, along its chain, and no other; what `PageMaker` says of pages that are damaged in
//!    the backup holds here as well.
//! 2. Memory is the pool, one segment of the backup, and what the log is read by.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use resurgam_archive::{Backup, PageBase, SEGMENT_PAGES};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_buffer::replaces_whole_page;
use resurgam_log::{LogReader, RecordRef};
use resurgam_page::{PageBuf, op};
use resurgam_vfs::{File, Vfs};

use super::pages::Written;

/// Pages of the pool at least: with fewer there is nothing to choose from.
const POOL_MIN: usize = 8;
/// Records between two calls of `tell`.
const TELL_EVERY: u64 = 1 << 16;

/// What the pages are made with.
#[derive(Clone, Debug)]
pub struct LsnOrder {
    /// The folder with the log's segments as they were written, from the backup's begin to the point.
    pub log: PathBuf,
    /// Memory for pages.
    pub buffer_bytes: usize,
}

/// A file whose pages are made: its number, how many it has, and itself.
pub(crate) type Target = (u64, u64, Arc<dyn File>);

/// Where the log is, and what of it counts.
pub(crate) struct Log {
    pub segment_bytes: u64,
    /// Where the archive begins, and with it the log that is needed where there is no backup.
    pub begin: Lsn,
    pub cut: Lsn,
}

/// Writes all pages of `files` but their first ones, which are there. `tell` is called now and then with the pages that were loaded since.
///
/// # Errors
/// `InvalidParameter` where the pages begin as those of another database; `NotInPrerequisiteState` where the log has a gap or ends early;
/// `Corrupt`, naming the page; those of reading and writing.
pub(crate) fn write_all(
    vfs: &Arc<dyn Vfs>,
    order: &LsnOrder,
    log: &Log,
    base: &PageBase,
    files: &[Target],
    tell: &mut dyn FnMut(u64),
) -> Result<Written> {
    if base.parent().is_some() {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            "the log of one database is replayed in order, and this one was made of another and has no backup since",
        ));
    }
    let mut written = Written::default();
    for (number, count, file) in files {
        file.preallocate((*count).max(1) * PAGE_SIZE as u64)?;
        match base.backup() {
            Some(backup) => load(backup, *number, *count, &**file, &mut written, tell)?,
            None => tell(count.saturating_sub(1)),
        }
    }
    let from = base.backup().map_or(log.begin, |backup| backup.summary().begin);
    let mut pool = Pool::new(files, order.buffer_bytes);
    replay(vfs, order, log, from, &mut pool, &mut written, tell)?;
    pool.write_out()?;
    files.iter().try_for_each(|(_, _, file)| file.sync())?;
    Ok(written)
}

/// The images of the backup, in the order in which it has them.
fn load(
    backup: &Backup,
    number: u64,
    count: u64,
    file: &dyn File,
    written: &mut Written,
    tell: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut pages: Vec<PageBuf> = Vec::new();
    pages.resize_with(SEGMENT_PAGES, PageBuf::zeroed);
    let mut out = Vec::new();
    let mut first = 1;
    while first < count {
        // Up to where a segment ends.
        let end = ((first / SEGMENT_PAGES as u64 + 1) * SEGMENT_PAGES as u64).min(count);
        let some = pages.get_mut(..(end - first) as usize).unwrap_or_default();
        backup.segment(PageId::of_file(number, first), some)?;
        out.clear();
        let mut there = 0;
        for (id, page) in (first..).zip(some.iter()) {
            match State::of(page, PageId::of_file(number, id)) {
                State::Missing => {}
                State::Sound => there += 1,
                State::Damaged => {
                    there += 1;
                    written.damaged += 1;
                }
            }
            out.extend_from_slice(page.as_bytes());
        }
        if there > 0 {
            file.write_at(&out, first * PAGE_SIZE as u64)?;
            written.pages += there;
        }
        tell(end - first);
        first = end;
    }
    Ok(())
}

/// Applies the records of the log from `from` to the cut, each as it comes.
fn replay(
    vfs: &Arc<dyn Vfs>,
    order: &LsnOrder,
    log: &Log,
    from: Lsn,
    pool: &mut Pool<'_>,
    written: &mut Written,
    tell: &mut dyn FnMut(u64),
) -> Result<()> {
    // A segment begins with a block; the backup's begin may be within one.
    let segment_bytes = log.segment_bytes.max(1);
    let first = Lsn(from.0 / segment_bytes * segment_bytes);
    let mut reader = LogReader::open(Arc::clone(vfs), &order.log, segment_bytes, first, 0)?;
    let mut records: u64 = 0;
    while let Some(record) = reader.next()? {
        if record.lsn >= log.cut {
            return Ok(());
        }
        records += 1;
        if records.is_multiple_of(TELL_EVERY) {
            tell(0);
        }
        let id = record.header.page;
        if record.lsn < from || !record.header.kind.is_of_page() || !id.is_some() {
            continue;
        }
        if let Some(frame) = pool.frame(id)? {
            frame.apply(&record, written)?;
        }
    }
    if reader.end().lsn >= log.cut {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotInPrerequisiteState,
        format!(
            "the log in \"{}\" was read from LSN {first} to LSN {}, and the point is LSN {}",
            order.log.display(),
            reader.end().lsn,
            log.cut
        ),
    )
    .with_hint("It must have all of the log since the backup was begun."))
}

/// What there is of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    Sound,
    /// It was damaged when the backup was made, and nothing has made it anew.
    Damaged,
}

impl State {
    fn of(page: &PageBuf, id: PageId) -> Self {
        match page.verify(id) {
            Ok(()) => Self::Sound,
            Err(_) if page.is_all_zero() => Self::Missing,
            Err(_) => Self::Damaged,
        }
    }
}

/// A page in memory.
struct Frame {
    id: PageId,
    page: PageBuf,
    state: State,
    /// It has records that the file does not have, and that its checksum does not cover.
    dirty: bool,
    /// Since the hand was here.
    used: bool,
}

impl Frame {
    fn apply(&mut self, record: &RecordRef<'_>, written: &mut Written) -> Result<()> {
        let Self { id, page, state, .. } = self;
        let anew = replaces_whole_page(record.body);
        match *state {
            // In the image already.
            State::Sound if record.lsn <= page.lsn() => return Ok(()),
            _ if anew => page.as_bytes_mut().fill(0),
            State::Sound if record.header.prev_page == page.lsn() => {}
            State::Damaged => return Ok(()),
            State::Sound | State::Missing => {
                return Err(Error::corrupt(format!(
                    "the record of page {id} at LSN {} follows one at LSN {}, but the page is as of LSN {}",
                    record.lsn,
                    record.header.prev_page,
                    page.lsn()
                )));
            }
        }
        op::apply(page, *id, record.body, record.lsn)?;
        match state {
            State::Missing => written.pages += 1,
            State::Damaged => written.damaged = written.damaged.saturating_sub(1),
            State::Sound => {}
        }
        (*state, self.dirty) = (State::Sound, true);
        Ok(())
    }
}

/// Pages of the files in bounded memory; the clock says which one goes.
struct Pool<'a> {
    files: &'a [Target],
    frames: Vec<Frame>,
    most: usize,
    places: HashMap<PageId, usize>,
    hand: usize,
}

impl<'a> Pool<'a> {
    fn new(files: &'a [Target], bytes: usize) -> Self {
        let most = (bytes / PAGE_SIZE).max(POOL_MIN);
        Self { files, frames: Vec::new(), most, places: HashMap::new(), hand: 0 }
    }

    /// The page, read if it is not here; none: it is none of the files' (they end before it, or it is of one that is no more).
    fn frame(&mut self, id: PageId) -> Result<Option<&mut Frame>> {
        if let Some(at) = self.places.get(&id).copied() {
            let frame = self.at(at)?;
            frame.used = true;
            return Ok(Some(frame));
        }
        let Some(file) = file_of(self.files, id) else { return Ok(None) };
        let at = self.free_place()?;
        let frame = self.at(at)?;
        let bytes = frame.page.as_bytes_mut();
        let read = file.read_at(bytes, id.in_file() * PAGE_SIZE as u64)?;
        // The file may end before: what was never written is zeros.
        bytes.get_mut(read..).unwrap_or_default().fill(0);
        frame.state = State::of(&frame.page, id);
        (frame.id, frame.dirty, frame.used) = (id, false, true);
        self.places.insert(id, at);
        self.at(at).map(Some)
    }

    fn at(&mut self, at: usize) -> Result<&mut Frame> {
        self.frames.get_mut(at).ok_or_else(|| Error::internal("a pool without that frame"))
    }

    /// A frame that is nobody's.
    fn free_place(&mut self) -> Result<usize> {
        if self.frames.len() < self.most {
            let (id, page, state) = (PageId::default(), PageBuf::zeroed(), State::Missing);
            self.frames.push(Frame { id, page, state, dirty: false, used: false });
            return Ok(self.frames.len() - 1);
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.frames.len();
            let frame = self.at(at)?;
            if std::mem::take(&mut frame.used) {
                continue;
            }
            let id = frame.id;
            self.write(at)?;
            self.places.remove(&id);
            return Ok(at);
        }
    }

    fn write(&mut self, at: usize) -> Result<()> {
        let files = self.files;
        let frame = self.at(at)?;
        if !frame.dirty {
            return Ok(());
        }
        frame.page.seal();
        frame.dirty = false;
        let file = file_of(files, frame.id).ok_or_else(|| Error::internal("a page without a file"))?;
        file.write_at(frame.page.as_bytes(), frame.id.in_file() * PAGE_SIZE as u64)
    }

    /// Writes what is left, in the order of the files.
    fn write_out(&mut self) -> Result<()> {
        let mut left: Vec<(PageId, usize)> =
            self.frames.iter().enumerate().filter(|(_, frame)| frame.dirty).map(|(at, frame)| (frame.id, at)).collect();
        left.sort_unstable();
        left.into_iter().try_for_each(|(_, at)| self.write(at))
    }
}

/// The file that has the page.
fn file_of(files: &[Target], id: PageId) -> Option<&dyn File> {
    let has = |(number, count, _): &&Target| *number == id.file() && (1..*count).contains(&id.in_file());
    files.iter().find(has).map(|(_, _, file)| &**file)
}
