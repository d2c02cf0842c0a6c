//! A backup made from an earlier one and the archive, without the files of the database: every page as of one LSN. Where the database was made of another one,
//! and has no backup of its own, that one's pages are what the archive's records are applied to.
//!
//! Segments are made by several threads, a few for each, and put in order. One that was interrupted goes on behind its last durable
//! part: its segments are then as of different LSNs, and each says its own, as in a backup of a running database.

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::{PageBuf, boot};

use super::format::{PageKind, SEGMENT_PAGES, segment_key};
use super::{Backup, BackupWriter};
use crate::make::{MadePages, PageMaker};
use crate::view::View;

/// Pages of the data file, and number and pages of the version-store file, as backup and archive know them.
///
/// # Errors
/// Those of opening the runs.
pub fn pages_of(backup: Option<&Backup>, view: &Arc<View>) -> Result<(u64, Option<(u32, u64)>)> {
    let mut data = backup.map_or(0, |backup| backup.summary().data_pages);
    let mut version = backup.and_then(|backup| backup.summary().version_pages);
    for at in 0..view.manifest().runs.len() {
        let run = view.run(at)?;
        let summary = run.summary();
        if summary.highest_page.is_some() {
            data = data.max(summary.highest_page.0 + 1);
        }
        let page = summary.highest_version_page;
        if page.is_some() {
            let number = u32::try_from(page.file()).unwrap_or(u32::MAX);
            let known = version.filter(|(known, _)| *known == number).map_or(0, |(_, pages)| pages);
            // A later file has a higher number: the one before was given up.
            if version.is_none_or(|(known, _)| known <= number) {
                version = Some((number, known.max(page.in_file() + 1)));
            }
        }
    }
    Ok((data, version))
}

/// What makes the pages of a backup.
pub struct Remaking<'a> {
    pub maker: Arc<PageMaker>,
    /// Makes another one of the same state, where an object that the first one reads is gone: a server of a database that this one was made of has
    /// replaced it. `None`: there is no such database.
    pub again: &'a (dyn Fn() -> Result<Option<PageMaker>> + Sync),
    /// The boot page of the database. What the pages are made of may have none, or that of another database.
    pub boot: &'a PageBuf,
    /// Told of each page that cannot be made, and why: the backup lacks it, and says so.
    pub failed: &'a (dyn Fn(PageId, &Error) + Sync),
    /// Threads that make pages.
    pub threads: usize,
}

/// How often pages are tried again whose runs a merge has replaced meanwhile.
const TRIES: u32 = 5;
/// Segments for each thread that are made before they are put, in order: so much memory, in megabytes.
const SEGMENTS_EACH: usize = 4;

/// A segment of the backup that is being made.
struct Making {
    first: PageId,
    pages: Vec<PageBuf>,
    kinds: Vec<PageKind>,
    made: MadePages,
}

/// What threads share.
struct Shared<'a> {
    making: &'a Remaking<'a>,
    maker: Mutex<Arc<PageMaker>>,
}

impl Shared<'_> {
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<MadePages> {
        let mut tries = 0;
        loop {
            let maker = Arc::clone(&self.maker.lock());
            match maker.make_what_can_be(first, pages, &mut |page, error| (self.making.failed)(page, error)) {
                Err(error) if error.kind() == ErrorKind::Io && tries < TRIES => {
                    tries += 1;
                    let mut now = self.maker.lock();
                    // Unless another thread has.
                    if Arc::ptr_eq(&now, &maker) {
                        *now = Arc::new((self.making.again)()?.ok_or(error)?);
                    }
                }
                made => return made,
            }
        }
    }

    fn segment(&self, segment: &mut Making) -> Result<()> {
        let first = segment.first;
        segment.made = self.make(first, &mut segment.pages)?;
        if first == PageId(0)
            && let Some(page) = segment.pages.first_mut()
            && !self.is_own_boot_page(page)
        {
            page.copy_from(self.making.boot);
        }
        let kind = |(i, page): (usize, &PageBuf)| match page.verify(PageId(first.0 + i as u64)) {
            Ok(()) => PageKind::Image,
            Err(_) if page.is_all_zero() => PageKind::Zero,
            Err(_) => PageKind::Damaged,
        };
        segment.kinds.clear();
        segment.kinds.extend(segment.pages.iter().enumerate().map(kind));
        Ok(())
    }

    fn is_own_boot_page(&self, page: &PageBuf) -> bool {
        let part = boot::OFFSET..boot::OFFSET + boot::SIZE;
        page.verify(PageId(0)).is_ok() && page.as_bytes().get(part.clone()) == self.making.boot.as_bytes().get(part)
    }

    /// Makes all of them, on several threads: each takes the next one.
    fn all(&self, segments: &mut [Making]) -> Result<()> {
        let threads = self.making.threads.clamp(1, segments.len().max(1));
        if threads == 1 {
            return segments.iter_mut().try_for_each(|segment| self.segment(segment));
        }
        let next = Mutex::new(segments.iter_mut());
        let some = || -> Result<()> {
            loop {
                let Some(segment) = next.lock().next() else { return Ok(()) };
                self.segment(segment)?;
            }
        };
        std::thread::scope(|scope| {
            // This thread is one of them; a machine that gives no others goes on with fewer.
            let others: Vec<_> = (1..threads)
                .filter_map(|_| std::thread::Builder::new().name("backup".into()).spawn_scoped(scope, some).ok())
                .collect();
            let own = some();
            let failed = |_| Err(Error::internal("a thread that makes pages for a backup panicked"));
            others.into_iter().fold(own, |all, other| all.and(other.join().unwrap_or_else(failed)))
        })
    }
}

/// Puts every page, as it is made, into `writer`, behind what is in it already. `step` is told of each segment: what was made and how many
/// pages there are. A page that cannot be made is left out, and counted as damaged.
///
/// # Errors
/// Those of making that do not concern single pages, and of putting; those of `step`.
pub fn remake(
    making: Remaking<'_>,
    writer: &mut BackupWriter,
    step: &mut dyn FnMut(&BackupWriter, &MadePages, u64) -> Result<()>,
) -> Result<()> {
    let complete = Lsn(making.maker.as_of().0 + 1);
    let (data_pages, version_pages) = (writer.summary().data_pages, writer.summary().version_pages);
    let files = [Some((0, data_pages)), version_pages.map(|(number, pages)| (u64::from(number), pages))];
    let mut left = files.into_iter().flatten().flat_map(|(file, count)| {
        (0..count.div_ceil(SEGMENT_PAGES as u64)).map(move |number| {
            let at = number * SEGMENT_PAGES as u64;
            (PageId::of_file(file, at), (count - at).min(SEGMENT_PAGES as u64) as usize)
        })
    });
    let batch = SEGMENTS_EACH * making.threads.max(1);
    let shared = Shared { maker: Mutex::new(Arc::clone(&making.maker)), making: &making };
    let mut segments: Vec<Making> = Vec::new();
    let mut spare: Vec<Vec<PageBuf>> = Vec::new();
    loop {
        while segments.len() < batch
            && let Some((first, here)) = left.next()
        {
            if segment_key(first) < writer.next() {
                step(writer, &MadePages::default(), here as u64)?;
                continue;
            }
            let mut pages = spare.pop().unwrap_or_default();
            pages.resize_with(here, PageBuf::zeroed);
            segments.push(Making { first, pages, kinds: Vec::new(), made: MadePages::default() });
        }
        if segments.is_empty() {
            return Ok(());
        }
        shared.all(&mut segments)?;
        for segment in segments.drain(..) {
            writer.put(segment_key(segment.first), complete, &segment.pages, &segment.kinds)?;
            step(writer, &segment.made, segment.pages.len() as u64)?;
            spare.push(segment.pages);
        }
    }
}
