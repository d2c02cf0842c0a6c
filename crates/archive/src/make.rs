//! Making pages as of an LSN: from a backup's images and the records of the archive, in order of pages.
//!
//! `page = redo(base, records)`: the base is the image of the backup, which has every record below the LSN of its segment and
//! perhaps later ones; the records are those behind the image. Without a backup, or where the backup has nothing, a record
//! must make the page anew.
//!
//! # Invariants
//! 1. Records are applied along the page's own chain: each names the one before it, the first one makes the page anew or
//!    follows the image. A gap is an error, never a page.
//! 2. What comes out is sealed, or all zero (the page does not exist then), or bytes that pass for no page: it was damaged when
//!    the backup was made, and no record makes it anew. The boot page (page 0) has no records: it comes from the backup as
//!    it is, and is all zero without one.

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
            self.make_in_segment(at, now, &mut made)?;
            at = PageId(at.0 + now.len() as u64);
            rest = later;
        }
        Ok(made)
    }

    fn make_in_segment(&self, first: PageId, pages: &mut [PageBuf], made: &mut MadePages) -> Result<()> {
        let from = match self.base.backup() {
            Some(backup) => {
                let (lsn, bytes) = backup.read_segment(first, pages)?;
                made.bytes_read += bytes;
                Lsn(lsn.0.saturating_sub(1))
            }
            None => {
                pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
                Lsn::NONE
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
