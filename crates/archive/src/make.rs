//! Making pages as of an LSN: from a backup's images and the records of the archive, in order of pages.
//!
//! `page = redo(base, records)`: the base is the image of the backup, which has every record below the LSN of its segment and
//! perhaps later ones; the records are those behind the image. Without a backup, or where the backup has nothing, a record
//! must make the page anew. The base of a database that was made of another one may be that one's page as of the cut, from another
//! maker: so pages are made in layers.
//!
//! # Invariants
//! 1. Records are applied along the page's own chain: each names the one before it, the first one makes the page anew or
//!    follows the image. A gap is an error, never a page.
//! 2. What comes out is sealed, or all zero (the page does not exist then), or bytes that pass for no page: it was damaged when
//!    the backup was made, and no record makes it anew. The boot page (page 0) has no records: it comes from the backup as
//!    it is, and is all zero without one.
//! 3. [`PageMaker::make`] fails where one page cannot be made. [`PageMaker::make_what_can_be`] leaves that one as bytes that pass for
//!    no page, says so, and makes the others: damage in archive or backup costs the pages that need what is damaged.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::{PageBuf, op};

use crate::backup::{SEGMENT_PAGES, segment_key, segment_page};
use crate::base::PageBase;
use crate::format::DatabaseId;
use crate::item;
use crate::view::{History, View};

/// What [`PageMaker::make`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadePages {
    /// Pages that exist.
    pub made: u64,
    /// Of those, pages that are damaged in the backup and that no record makes anew: they are left unreadable.
    pub damaged: u64,
    /// Records that were applied.
    pub records: u64,
    /// Bytes that were read: of the backup as they are stored, and the records'.
    pub bytes_read: u64,
}

/// What a page that could not be made begins with, again and again: it is neither sealed nor all zero.
const NO_PAGE: [u8; 16] = *b"cannot be made! ";

/// See the module.
pub struct PageMaker {
    base: PageBase,
    view: Arc<View>,
    as_of: Lsn,
}

impl PageMaker {
    /// Makes pages with all records up to `as_of`.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when archive or backup do not allow that point; `NotADatabase` when they are not of one database.
    pub fn new(base: PageBase, view: Arc<View>, as_of: Lsn) -> Result<Self> {
        let refused = |what: String| Err(Error::new(ErrorKind::NotInPrerequisiteState, what));
        if as_of >= view.end() {
            return refused(format!(
                "the archive ends at LSN {}; the state at LSN {as_of} cannot be made from it",
                view.end()
            ));
        }
        if let Some(backup) = base.backup() {
            let summary = backup.summary();
            let database: DatabaseId = view.manifest().database;
            if summary.database != database {
                return Err(Error::new(
                    ErrorKind::NotADatabase,
                    format!("backup \"{}\" and the archive are of different databases", summary.name),
                ));
            }
            if summary.end.0 > as_of.0.saturating_add(1) {
                return refused(format!(
                    "backup \"{}\" ends at LSN {}; an earlier state, at LSN {as_of}, cannot be made from it",
                    summary.name, summary.end
                ));
            }
            if summary.begin < view.start() {
                return refused(format!(
                    "backup \"{}\" needs log from LSN {} on, the archive begins at LSN {}",
                    summary.name,
                    summary.begin,
                    view.start()
                ));
            }
        }
        if let Some(parent) = base.parent()
            && parent.as_of() > as_of
        {
            return refused(format!(
                "the database was made of another one as of LSN {}; its state at LSN {as_of} is that one's",
                parent.as_of()
            ));
        }
        Ok(Self { base, view, as_of })
    }

    /// The LSN as of which pages are made.
    pub fn as_of(&self) -> Lsn {
        self.as_of
    }

    /// Fills `pages` with the pages from `first` on, all of one file.
    ///
    /// # Errors
    /// `Corrupt`, naming object, place and page; `NotInPrerequisiteState` when what is there does not reach back to where a
    /// page was made; those of the store.
    pub fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<MadePages> {
        let mut made = MadePages::default();
        let mut at = first;
        let mut rest = pages;
        while !rest.is_empty() {
            let of_segment = SEGMENT_PAGES - (at.0 - segment_page(segment_key(at)).0) as usize;
            let (now, later) = rest.split_at_mut(of_segment.min(rest.len()));
            self.make_in_segment(at, now, &mut made, None)?;
            at = PageId(at.0 + now.len() as u64);
            rest = later;
        }
        Ok(made)
    }

    /// As [`PageMaker::make`], but a page that cannot be made keeps nobody from the others: it is filled with bytes that pass for no
    /// page, `failed` is told why, and it counts as damaged. So does each page of a segment of the backup that cannot be used, unless
    /// a record makes it anew.
    ///
    /// # Errors
    /// Those that do not concern single pages.
    pub fn make_what_can_be(
        &self,
        first: PageId,
        pages: &mut [PageBuf],
        failed: &mut dyn FnMut(PageId, &Error),
    ) -> Result<MadePages> {
        let concerns_pages = |error: &Error| error.kind() == ErrorKind::Corrupt;
        match self.make(first, pages) {
            Err(error) if concerns_pages(&error) => {}
            made => return made,
        }
        let mut made = MadePages::default();
        for (i, page) in pages.iter_mut().enumerate() {
            let id = PageId(first.0 + i as u64);
            let mut alone = MadePages::default();
            let one = std::slice::from_mut(page);
            one.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
            let error = match self.make_in_segment(id, one, &mut alone, None) {
                Err(error) if concerns_pages(&error) => {
                    alone = MadePages::default();
                    match self.make_in_segment(id, one, &mut alone, Some(&error)) {
                        Ok(()) if alone.damaged == 0 => None,
                        Err(other) if !concerns_pages(&other) => return Err(other),
                        _ => Some(error),
                    }
                }
                other => {
                    other?;
                    None
                }
            };
            if let Some(error) = error {
                failed(id, &error);
                alone = MadePages { made: 1, damaged: 1, ..MadePages::default() };
                one.iter_mut().for_each(|page| {
                    page.as_bytes_mut()
                        .chunks_exact_mut(NO_PAGE.len())
                        .for_each(|bytes| bytes.copy_from_slice(&NO_PAGE));
                });
            }
            made.made += alone.made;
            made.damaged += alone.damaged;
            made.records += alone.records;
            made.bytes_read += alone.bytes_read;
        }
        Ok(made)
    }

    /// What there is of the pages without the records of `view`, and up to which LSN they have all of theirs.
    fn base_of(&self, first: PageId, pages: &mut [PageBuf], made: &mut MadePages) -> Result<Lsn> {
        if let Some(backup) = self.base.backup() {
            let (lsn, bytes) = backup.read_segment(first, pages)?;
            made.bytes_read += bytes;
            return Ok(Lsn(lsn.0.saturating_sub(1)));
        }
        if let Some(parent) = self.base.parent() {
            let of_parent = parent.make(first, pages)?;
            made.records += of_parent.records;
            made.bytes_read += of_parent.bytes_read;
            return Ok(self.behind_parent(parent));
        }
        pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
        Ok(Lsn::NONE)
    }

    /// Between the cut and where the log begins there is nothing.
    fn behind_parent(&self, parent: &PageMaker) -> Lsn {
        parent.as_of().max(Lsn(self.view.start().0.saturating_sub(1)))
    }

    /// `no_base`: why what there is of them without records is of no use.
    fn make_in_segment(
        &self,
        first: PageId,
        pages: &mut [PageBuf],
        made: &mut MadePages,
        no_base: Option<&Error>,
    ) -> Result<()> {
        let from = match no_base {
            None => self.base_of(first, pages, made)?,
            Some(_) => {
                pages.iter_mut().flat_map(|page| page.as_bytes_mut().chunks_exact_mut(NO_PAGE.len())).for_each(
                    |bytes| {
                        bytes.copy_from_slice(&NO_PAGE);
                    },
                );
                let begin = self.base.backup().map(|backup| Lsn(backup.summary().begin.0.saturating_sub(1)));
                begin.or(self.base.parent().map(|parent| self.behind_parent(parent))).unwrap_or_default()
            }
        };
        // Which ones have an image; the others need a record that makes them anew.
        let mut states: Vec<State> = Vec::with_capacity(pages.len());
        for (i, page) in pages.iter().enumerate() {
            let id = PageId(first.0 + i as u64);
            states.push(match page.verify(id) {
                Ok(()) if page.lsn() > self.as_of => {
                    return Err(Error::corrupt(format!(
                        "the image of page {id} in the backup is as of LSN {}, behind the LSN {} that is asked for",
                        page.lsn(),
                        self.as_of
                    )));
                }
                Ok(()) => State::Sound,
                Err(_) if page.is_all_zero() => State::None,
                Err(_) => State::Damaged,
            });
        }
        let end = PageId(first.0 + pages.len() as u64);
        if from < self.as_of {
            let mut scan = self.view.scan(first..end, from, self.as_of, History::SinceAnew)?;
            while let Some(id) = scan.next_page()? {
                let at = (id.0 - first.0) as usize;
                let (Some(page), Some(state)) = (pages.get_mut(at), states.get_mut(at)) else {
                    return Err(Error::internal("a page that was not asked for"));
                };
                while let Some(record) = scan.next_record()? {
                    let anew = item::makes_anew(record.body);
                    match *state {
                        // In the image already.
                        State::Sound | State::Changed if record.lsn <= page.lsn() => continue,
                        _ if anew => page.as_bytes_mut().fill(0),
                        State::Sound | State::Changed if record.header.prev_page == page.lsn() => {}
                        State::Damaged => continue,
                        _ => return Err(broken_chain(id, page, &record)),
                    }
                    op::apply(page, id, record.body, record.lsn)?;
                    *state = State::Changed;
                    made.records += 1;
                    made.bytes_read += record.body.len() as u64;
                }
            }
        }
        for (page, state) in pages.iter_mut().zip(&states) {
            made.made += u64::from(*state != State::None);
            made.damaged += u64::from(*state == State::Damaged);
            if *state == State::Changed {
                page.seal();
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    Sound,
    /// Has records that its checksum does not cover yet.
    Changed,
    Damaged,
}

#[cold]
fn broken_chain(id: PageId, page: &PageBuf, record: &resurgam_log::RecordRef<'_>) -> Error {
    Error::corrupt(format!(
        "the record of page {id} at LSN {} follows one at LSN {}, but what there is of the page before is as of LSN {}",
        record.lsn,
        record.header.prev_page,
        page.lsn()
    ))
}
