//! Space maps, each allocated page on its own, and what is left over when every owner has
//! named its pages.
//!
//! Memory: [`Interval`], some 13 KB, for every 40 MB of the data file and of the version-store
//! file. An interval is known by the id of its map page.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_base::{ObjectId, PageId, limits::EXTENT_PAGES};
use resurgam_page::{PageBuf, PageType, overflow, space as map, validate};
use resurgam_versions::{OVERFLOW_OBJECT, VERSION_OBJECT};

use super::report::Reporter;
use crate::image::{Image, Source};

/// The page was reached from its owner.
pub(super) const REACHED: u8 = 1;
/// Something leads to the page that need not count: an old version, a pending free.
pub(super) const MENTIONED: u8 = 2;
/// The page could not be read, which was said already.
const UNREADABLE: u8 = 4;

const INTERVAL: usize = map::INTERVAL_PAGES as usize;
const PROGRESS_PAGES: u64 = 4096;

/// What is known of the pages of one space map.
struct Interval {
    /// `None`: the map cannot be read.
    map: Option<Box<(Vec<ObjectId>, Vec<u8>)>>,
    marks: Vec<u8>,
}

/// Which of the marks and map entries belong to a page.
fn position(page: PageId) -> Option<(u64, usize)> {
    let map = map::map_page_of(page);
    map.is_some().then(|| (map.0, (page.0 - map.0) as usize))
}

/// The pages of all files.
#[derive(Default)]
pub(super) struct Space {
    intervals: BTreeMap<u64, Interval>,
}

impl Space {
    /// Sets marks; returns those from before. `None`: the page is in no known interval.
    pub fn mark(&mut self, page: PageId, bits: u8) -> Option<u8> {
        let (interval, at) = position(page)?;
        let mark = self.intervals.get_mut(&interval)?.marks.get_mut(at)?;
        let before = *mark;
        *mark |= bits;
        Some(before)
    }

    /// PFS byte and owner of a page, if its map can be read.
    pub fn entry(&self, page: PageId) -> Option<(u8, ObjectId)> {
        let (interval, at) = position(page)?;
        let (owners, pfs) = &**self.intervals.get(&interval)?.map.as_ref()?;
        Some((*pfs.get(at)?, *owners.get(at / EXTENT_PAGES as usize)?))
    }

    /// Whether something was already said about the page being unreadable.
    pub fn is_unreadable(&self, page: PageId) -> bool {
        position(page)
            .and_then(|(interval, at)| self.intervals.get(&interval)?.marks.get(at).copied())
            .is_some_and(|marks| marks & UNREADABLE != 0)
    }

    /// Pages of `object`'s extents that are allocated.
    pub fn pages_of(&self, object: ObjectId) -> Vec<PageId> {
        let mut found = Vec::new();
        for (k, interval) in &self.intervals {
            let Some((owners, pfs)) = interval.map.as_deref() else { continue };
            for (at, byte) in pfs.iter().enumerate().skip(1) {
                if byte & map::PFS_ALLOCATED != 0 && owners.get(at / EXTENT_PAGES as usize) == Some(&object) {
                    found.push(page_at(*k, at));
                }
            }
        }
        found
    }

    /// Reads all space maps, and checks every allocated page on its own.
    pub fn check(&mut self, image: &Image, r: &mut Reporter<'_>) {
        let in_use = image.analysis.as_ref().map_or(image.file_pages, |a| a.high_water);
        // The log may know of pages that the file has not.
        let known = |page: &PageId| page.file() == 0 || image.version_file.has(*page);
        let mut wanted: BTreeSet<u64> =
            image.pending_pages().filter(known).filter_map(position).map(|(k, _)| k).collect();
        let mut intervals = |file: u64, limit: u64| {
            let maps = (0..).map(|i| i * map::INTERVAL_PAGES + 1).take_while(|number| *number < limit);
            wanted.extend(maps.map(|number| PageId::of_file(file, number).0));
        };
        intervals(0, in_use.min(image.file_pages));
        let high_water = image.analysis.as_ref().map_or(PageId::NONE, |a| a.version_high_water);
        if image.version_file.has(high_water) {
            intervals(high_water.file(), high_water.in_file().min(image.version_file.pages));
        }
        let mut done = 0;
        for k in wanted {
            self.interval(k, image, r, &mut done);
        }
    }

    fn interval(&mut self, k: u64, image: &Image, r: &mut Reporter<'_>, done: &mut u64) {
        let id = page_at(k, 0);
        let mut interval = Interval { map: None, marks: vec![0; INTERVAL] };
        match image.page(id) {
            Ok(loaded) if loaded.page.is(PageType::SpaceMap) => {
                validate::validate(&loaded.page).into_iter().for_each(|what| r.page(id, None, what));
                let owners = (0..map::EXTENTS).map(|extent| map::owner(&loaded.page, extent)).collect();
                interval.map = Some(Box::new((owners, map::pfs_bytes(&loaded.page).to_vec())));
            }
            Ok(loaded) => r.page(id, None, format!("should be a space map and is of kind {}", kind(&loaded.page))),
            Err(what) => r.page(id, None, format!("space map: {what}")),
        }
        if interval.map.is_none() {
            r.note(format!(
                "pages {id} to {}: which are in use is not known; each was checked on its own",
                page_at(k, INTERVAL - 1)
            ));
        }
        for at in 0..INTERVAL {
            let page = page_at(k, at);
            let entry = interval.map.as_deref().map(|(owners, pfs)| (pfs[at], owners[at / EXTENT_PAGES as usize]));
            let known = match entry {
                Some((pfs, owner)) if pfs & map::PFS_ALLOCATED != 0 => {
                    r.report.counts.pages += 1;
                    *done += 1;
                    if done.is_multiple_of(PROGRESS_PAGES) {
                        r.progress("pages", *done, image.file_pages);
                    }
                    at == 0 || one(image, page, Some((pfs, owner)), r)
                }
                Some(_) => true,
                None if !image.reaches(page) || at == 0 => true,
                None => image.raw(page).is_ok_and(|(raw, _)| raw.is_all_zero()) || one(image, page, None, r),
            };
            if !known {
                interval.marks[at] |= UNREADABLE;
            }
        }
        self.intervals.insert(k, interval);
    }

    /// Allocated pages that nothing leads to.
    pub fn leaks(&self, image: &Image, r: &mut Reporter<'_>) {
        for (k, interval) in &self.intervals {
            let Some((owners, pfs)) = interval.map.as_deref() else { continue };
            for at in 1..INTERVAL {
                let owner = owners[at / EXTENT_PAGES as usize];
                let allocated = pfs[at] & map::PFS_ALLOCATED != 0;
                // Version pages are owned by the store as a whole.
                if !allocated || owner.is_none() || owner == VERSION_OBJECT {
                    continue;
                }
                match interval.marks[at] {
                    0 => unclaimed_page(image, page_at(*k, at), owner, r),
                    MENTIONED => r.report.counts.awaiting_cleaner += 1,
                    _ => {}
                }
            }
        }
    }
}

fn page_at(interval: u64, at: usize) -> PageId {
    PageId(interval.saturating_add(at as u64))
}

fn kind(page: &PageBuf) -> String {
    page.page_type().map_or_else(|| format!("{}?", page.type_byte()), |ty| format!("{ty:?}"))
}

/// A page on its own, and against its entry in the space map. False: it cannot be read.
fn one(image: &Image, id: PageId, entry: Option<(u8, ObjectId)>, r: &mut Reporter<'_>) -> bool {
    let loaded = match image.page(id) {
        Ok(loaded) => loaded,
        Err(what) => {
            r.page(id, None, what);
            return false;
        }
    };
    let page = &loaded.page;
    if loaded.source == Source::DoubleWrite
        && let Ok((raw, _)) = image.raw(id)
        && let Err(fault) = raw.verify(id)
    {
        r.note(format!(
            "page {id} is damaged in the data file ({fault}); the next open restores it from the double-write area"
        ));
    }
    for what in validate::validate(page) {
        let from = match loaded.source {
            Source::DataFile => "",
            Source::DoubleWrite => " (in the double-write area)",
            Source::Redone(_) => " (after redo)",
        };
        r.page(id, None, format!("{what}{from}"));
    }
    let Some((pfs, owner)) = entry else { return true };
    if owner.is_none() {
        r.page(id, None, "it is allocated in an extent that has no owner".into());
    } else if page.object() != owner {
        r.page(id, None, format!("it is of object {}, its extent belongs to object {owner}", page.object()));
    }
    let ty = page.page_type();
    let fits = match owner {
        VERSION_OBJECT => ty == Some(PageType::Version),
        OVERFLOW_OBJECT => ty == Some(PageType::Overflow),
        _ => matches!(ty, Some(PageType::Leaf | PageType::Inner)),
    };
    if owner.is_some() && !fits {
        r.page(id, None, format!("a page of kind {} has no place in object {owner}", kind(page)));
    }
    if ty == Some(PageType::Leaf) && page.has_versions() && pfs & map::PFS_HAS_VERSIONS == 0 {
        r.page(
            id,
            None,
            "it has row versions and its space map does not say so: the cleaner would never visit it".into(),
        );
    }
    true
}

fn unclaimed_page(image: &Image, id: PageId, owner: ObjectId, r: &mut Reporter<'_>) {
    if owner == OVERFLOW_OBJECT {
        let writer = image.page(id).ok().and_then(|loaded| overflow::writer(&loaded.page).ok());
        return match writer {
            Some(writer) if image.is_aborted(writer) => r.report.counts.awaiting_cleaner += 1,
            Some(writer) => r.leak(id, format!("part of a large value of transaction {writer} that no row refers to")),
            None => {} // said already
        };
    }
    r.leak(id, format!("allocated to object {owner}, which does not lead to it"));
}
