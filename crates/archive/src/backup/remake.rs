//! A backup made from an earlier one and the archive, without the files of the database: every page as of one LSN. Where the database was made of another one,
//! and has no backup of its own, that one's pages are what the archive's records are applied to.

use std::sync::Arc;

use resurgam_base::{ErrorKind, Lsn, PageId, Result};
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
    pub again: &'a dyn Fn() -> Result<Option<PageMaker>>,
    /// The boot page of the database. What the pages are made of may have none, or that of another database.
    pub boot: &'a PageBuf,
}

/// How often pages are tried again whose runs a merge has replaced meanwhile.
const TRIES: u32 = 5;

impl Remaking<'_> {
    fn make(&mut self, first: PageId, pages: &mut [PageBuf]) -> Result<MadePages> {
        let mut tries = 0;
        loop {
            match self.maker.make(first, pages) {
                Err(error) if error.kind() == ErrorKind::Io && tries < TRIES => {
                    tries += 1;
                    self.maker = Arc::new((self.again)()?.ok_or(error)?);
                }
                made => return made,
            }
        }
    }

    fn is_own_boot_page(&self, page: &PageBuf) -> bool {
        let part = boot::OFFSET..boot::OFFSET + boot::SIZE;
        page.verify(PageId(0)).is_ok() && page.as_bytes().get(part.clone()) == self.boot.as_bytes().get(part)
    }
}

/// Puts every page, as it is made, into `writer`. `step` is told of each segment: what was made and how many pages there are.
///
/// # Errors
/// Those of making and of putting; those of `step`.
pub fn remake(
    mut making: Remaking<'_>,
    writer: &mut BackupWriter,
    step: &mut dyn FnMut(&BackupWriter, &MadePages, u64) -> Result<()>,
) -> Result<()> {
    let complete = Lsn(making.maker.as_of().0 + 1);
    let mut pages: Vec<PageBuf> = (0..SEGMENT_PAGES).map(|_| PageBuf::zeroed()).collect();
    let (data_pages, version_pages) = (writer.summary().data_pages, writer.summary().version_pages);
    let files = [Some((0, data_pages)), version_pages.map(|(number, pages)| (u64::from(number), pages))];
    for (file, count) in files.into_iter().flatten() {
        for number in 0..count.div_ceil(SEGMENT_PAGES as u64) {
            let first = PageId::of_file(file, number * SEGMENT_PAGES as u64);
            let here = (count - number * SEGMENT_PAGES as u64).min(SEGMENT_PAGES as u64) as usize;
            let pages = &mut pages[..here];
            let made = making.make(first, pages)?;
            if first == PageId(0)
                && let Some(page) = pages.first_mut()
                && !making.is_own_boot_page(page)
            {
                page.copy_from(making.boot);
            }
            let kind = |(i, page): (usize, &PageBuf)| match page.verify(PageId(first.0 + i as u64)) {
                Ok(()) => PageKind::Image,
                Err(_) if page.is_all_zero() => PageKind::Zero,
                Err(_) => PageKind::Damaged,
            };
            let kinds: Vec<PageKind> = pages.iter().enumerate().map(kind).collect();
            writer.put(segment_key(first), complete, pages, &kinds)?;
            step(writer, &made, here as u64)?;
        }
    }
    Ok(())
}
