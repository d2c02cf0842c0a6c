//! Restores everything into nothing and compares it with a data folder that nobody has open, page by page and byte by byte.
//!
//! Redo is deterministic: archive (and backup) make every page exactly as it is in the data file. A page that differs was changed by
//! nothing that the log knows: a medium that lost or moved a write and kept a checksum, memory that flipped a bit before a page was sealed, or a
//! bug. Each is invisible to checksums.
//!
//! A page of the folder is taken as an open would make it (`image.rs`); what the log has behind the archive's end is applied to the
//! archive's page too. Of a page that is free in the folder's space map its place may hold nothing (a hole, or the end of the file was
//! given back), something older, or a part of it: who gets it begins anew. Memory: 8 MB of pages, and a frame of each run.

use std::io::Write;
use std::sync::Arc;

use resurgam_archive::{History, PageMaker, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_engine::unfinished_restore;
use resurgam_page::{PageBuf, PageType, boot, space};
use resurgam_xstore::Access;

use crate::archive::{ArchiveFolder, archived_from, record_line, store_of};
use crate::folder::Folder;
use crate::image::{Image, Source};
use crate::out::say;

/// Pages that are made at a time.
const STEP: u64 = 1024;
/// Pages that are named; more are counted.
const NAMED_MAX: u64 = 20;
/// Records of the first of them that are printed, the newest.
const RECORDS_MAX: usize = 50;

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Pages that are the same.
    pub same: u64,
    /// Pages that differ, or that one of both does not give.
    pub different: u64,
    /// Free pages whose place in the folder does not hold what they were when they were freed.
    pub given_back: u64,
    /// The first of these.
    pub first: Option<PageId>,
    /// Files of the folder that cannot be used.
    pub troubles: u64,
}

impl Comparison {
    /// Whether all of it is the same.
    pub fn is_same(&self) -> bool {
        self.different == 0 && self.troubles == 0
    }
}

/// Compares what the archive makes, with the newest backup in `backups` if that is given, with the pages of `folder`. Prints the pages that
/// differ, the first with its records. A database that was made of another one, and has no backup, begins with the pages of that one, which its archive names.
///
/// # Errors
/// `InUse` when a server has the folder open; `NotADatabase` for one that is no database's, or another's; `NotInPrerequisiteState` when its
/// restore is not finished, or archive and backups do not reach back to where its pages were made; those of reading and writing.
pub fn compare(
    archive: &ArchiveFolder,
    backups: Option<&str>,
    folder: &Folder,
    out: &mut dyn Write,
) -> Result<Comparison> {
    if folder.in_use() {
        return Err(Error::new(ErrorKind::InUse, format!("a server has \"{}\" open", folder.dir.display()))
            .with_hint("Stop it: what it changes meanwhile would look like a difference."));
    }
    if let Some(unfinished) = unfinished_restore(&folder.vfs, &folder.dir)? {
        return Err(Error::new(ErrorKind::NotInPrerequisiteState, unfinished.to_string()));
    }
    let image = Image::open(folder)?;
    let (Some(boot), Some(control)) = (&image.boot, &image.control) else {
        let what = format!("\"{}\" has no boot page or control file that can be read", folder.dir.display());
        return Err(Error::new(ErrorKind::NotADatabase, what).with_hint("See what is wrong with it: resurgam check."));
    };
    let view = archive.view()?;
    if view.manifest().database != boot.database_id {
        let what = format!("the archive is that of another database than the one in \"{}\"", folder.dir.display());
        return Err(Error::new(ErrorKind::NotADatabase, what));
    }
    let end = view.end();
    if end <= view.start() {
        return Err(Error::new(ErrorKind::NotInPrerequisiteState, "the archive is empty"));
    }
    let backups = match backups {
        Some(place) => Some(store_of(place, Access::Existing)?),
        None => None,
    };
    let archived = archive.pages(&view, backups.as_ref(), Lsn(control.segment_bytes))?;
    let from = archived_from(&archived);
    say!(out, "pages of \"{}\" against {from}, as of LSN {end}", folder.dir.display())?;
    let mut found = Comparison::default();
    for trouble in &image.troubles {
        say!(out, "{}: {}", trouble.file, trouble.what)?;
        found.troubles += 1;
    }
    let (data, versions) = (archived.data_pages, archived.version_pages);
    let maker = archived.maker()?;
    let mut compared = Compared {
        image: &image,
        view: &view,
        maker: &maker,
        has_boot: archived.backup().is_some(),
        map: None,
        found,
        out: &mut *out,
    };
    compared.file(0, data.max(image.file_pages))?;
    let number = u64::from(image.version_file.record.number);
    if number > 0 && image.version_file.record.path.is_some() {
        let known = versions.filter(|(of, _)| u64::from(*of) == number).map_or(0, |(_, pages)| pages);
        compared.file(number, known.max(image.version_file.pages))?;
    }
    let found = compared.found;
    let given_back = match found.given_back {
        0 => String::new(),
        pages => format!(", {pages} free ones were given back"),
    };
    say!(out, "{} pages are the same, {} differ{given_back}", found.same, found.different)?;
    say!(
        out,
        "{}",
        if found.is_same() { "archive and data folder are the same" } else { "archive and data folder DIFFER" }
    )?;
    Ok(found)
}

struct Compared<'a> {
    image: &'a Image,
    view: &'a Arc<View>,
    maker: &'a PageMaker,
    /// The boot page has no records: only a backup has it.
    has_boot: bool,
    /// The last space map that was asked for; its PFS bytes, if the folder has it.
    map: Option<(PageId, Option<Vec<u8>>)>,
    found: Comparison,
    out: &'a mut dyn Write,
}

impl Compared<'_> {
    fn file(&mut self, file: u64, count: u64) -> Result<()> {
        let mut pages: Vec<PageBuf> = (0..STEP.min(count)).map(|_| PageBuf::zeroed()).collect();
        for start in (0..count).step_by(STEP as usize) {
            let here = STEP.min(count - start);
            let first = PageId::of_file(file, start);
            let some = pages.get_mut(..here as usize).unwrap_or_default();
            some.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
            if self.maker.make(first, some).is_ok() {
                for (page, number) in some.iter_mut().zip(start..) {
                    self.page(PageId::of_file(file, number), page)?;
                }
                continue;
            }
            // One by one: which of them it is.
            for (page, number) in some.iter_mut().zip(start..) {
                let id = PageId::of_file(file, number);
                page.as_bytes_mut().fill(0);
                match self.maker.make(id, std::slice::from_mut(page)) {
                    Ok(_) => self.page(id, page)?,
                    Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotInPrerequisiteState) => {
                        self.differs(id, &format!("cannot be made: {error}"))?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn page(&mut self, id: PageId, made: &mut PageBuf) -> Result<()> {
        // The header of a version-store file is none of its pages.
        if id.in_file() == 0 && id.file() > 0 {
            return Ok(());
        }
        let there = match self.image.page(id) {
            Ok(mut loaded) => {
                if let Source::Redone(_) = loaded.source {
                    loaded.page.seal();
                }
                Ok(loaded.page)
            }
            // Never written, or not even there.
            Err(_) if self.image.raw(id).is_ok_and(|(page, _)| page.is_all_zero()) => Ok(PageBuf::zeroed()),
            Err(what) => Err(what),
        };
        let there = match there {
            Ok(there) => there,
            Err(_) if self.is_free(id) => {
                self.found.given_back += 1;
                return Ok(());
            }
            Err(what) => return self.differs(id, &format!("cannot be read from the folder: {what}")),
        };
        if id == PageId(0) {
            // What else is on it says when it was made, and no record does.
            let part = boot::OFFSET..boot::OFFSET + boot::SIZE;
            let same = there.as_bytes().get(part.clone()) == made.as_bytes().get(part);
            if same || !self.has_boot {
                self.found.same += u64::from(same);
                return Ok(());
            }
            return self.differs(id, "the boot page is another one");
        }
        // What the log has behind the archive's end.
        if !there.is_all_zero() && there.lsn() >= self.view.end() {
            let fault = made.is_all_zero().then(|| "it is not in the archive".to_owned());
            let mut base = PageBuf::zeroed();
            base.copy_from(made);
            match self.image.redone(id, base, fault, there.lsn()) {
                Ok(mut loaded) => {
                    loaded.page.seal();
                    made.copy_from(&loaded.page);
                }
                Err(what) => return self.differs(id, &format!("cannot be made: {what}")),
            }
        }
        // Programs before the count of records left it at 0 in the file: what is made counts all of them. More than is made is a difference.
        let counts_less = there.records_since_anew() < made.records_since_anew();
        if counts_less && !made.is_all_zero() && !there.is_all_zero() {
            made.set_records_since_anew(there.records_since_anew());
        }
        if made.same_content(&there) {
            self.found.same += u64::from(!made.is_all_zero());
            return Ok(());
        }
        if (there.is_all_zero() || there.lsn() < made.lsn()) && self.is_free(id) {
            self.found.given_back += 1;
            return Ok(());
        }
        let what = match (made.is_all_zero(), there.is_all_zero()) {
            (true, _) => format!("no record makes it; the folder has it as of LSN {}", there.lsn()),
            (_, true) => format!("the folder has nothing there; it is made as of LSN {}", made.lsn()),
            _ => {
                let differ = |(_, (a, b)): &(usize, (&u8, &u8))| a != b;
                let bytes = || made.as_bytes().iter().zip(there.as_bytes()).enumerate().filter(differ);
                let at = bytes().next().map_or(0, |(at, _)| at);
                format!(
                    "{} bytes differ, the first at offset {at}; made as of LSN {}, in the folder as of LSN {}; object {:?}",
                    bytes().count(),
                    made.lsn(),
                    there.lsn(),
                    made.object()
                )
            }
        };
        self.differs(id, &what)
    }

    /// Whether the folder's space map says that nobody has the page. A map that is not there is behind the end of what is used, as its pages are.
    fn is_free(&mut self, page: PageId) -> bool {
        let map = space::map_page_of(page);
        if map.is_none() {
            return false;
        }
        if self.map.as_ref().is_none_or(|(of, _)| *of != map) {
            let there = self.image.page(map).ok().filter(|loaded| loaded.page.is(PageType::SpaceMap));
            self.map = Some((map, there.map(|loaded| space::pfs_bytes(&loaded.page).to_vec())));
        }
        match self.map.as_ref().and_then(|(_, pfs)| pfs.as_ref()) {
            Some(pfs) => pfs.get((page.0 - map.0) as usize).is_some_and(|byte| byte & space::PFS_ALLOCATED == 0),
            None => !self.image.reaches(map) || self.image.raw(map).is_ok_and(|(page, _)| page.is_all_zero()),
        }
    }

    fn differs(&mut self, id: PageId, what: &str) -> Result<()> {
        self.found.different += 1;
        if self.found.different <= NAMED_MAX {
            say!(self.out, "{}, page {id}: {what}", Image::file_name(id))?;
        }
        if self.found.first.is_none() {
            self.found.first = Some(id);
            self.records(id)?;
        }
        Ok(())
    }

    /// Its newest records in the archive.
    fn records(&mut self, id: PageId) -> Result<()> {
        let (from, to) = (Lsn(self.view.start().0.saturating_sub(1)), Lsn(self.view.end().0 - 1));
        let mut lines: std::collections::VecDeque<Vec<u8>> = std::collections::VecDeque::new();
        let mut count = 0_u64;
        let mut each = |record: resurgam_log::RecordRef<'_>| {
            let mut line = Vec::new();
            record_line(&record, &mut line)?;
            lines.push_back(line);
            if lines.len() > RECORDS_MAX {
                lines.pop_front();
            }
            count += 1;
            Ok(std::ops::ControlFlow::Continue(()))
        };
        let read = self.view.fold_page(id, from, to, History::All, &mut each);
        say!(self.out, "its records in the archive: {count}, the newest:")?;
        let failed = |error: std::io::Error| Error::new(ErrorKind::Io, error.to_string());
        lines.iter().try_for_each(|line| self.out.write_all(line).map_err(failed))?;
        if let Err(error) = read {
            say!(self.out, "  {error}")?;
        }
        Ok(())
    }
}
