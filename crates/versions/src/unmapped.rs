//! Intervals whose space map cannot be read: which of their pages have versions only the pages say.
//!
//! While a map is like that, nothing is given out of its interval and nothing taken back into it. A page that has
//! its mark already takes more versions all the time, so the sweep looks at every page of the interval each time, by
//! its header: whose it is, and whether it has versions. What it does there changes no map: rows are reverted, marks
//! stay, pages are not merged, large values of aborted writers stay, and with them those writers' ids.
//!
//! # Pages that read as never written
//! Some pages of an interval were never given out, and nothing was ever written to their place. What the device has lost may
//! look the same. A leaf that was given out is named by the nodes above it; so where all trees could be asked, and
//! none names such a page, it is no leaf. That is remembered as long as the map is unreadable without a break. (A page of a large value is
//! named by rows only, and not looked for: one of an aborted writer that was lost and comes back is in use by nobody for
//! ever.) Where a tree could not be asked, all of them count as pages that cannot be read.
//!
//! There may be five thousand of these in an interval, and to read one is to try to rebuild it, from the archive and the log. So after each was tried it is
//! left alone for [`TRY_AGAIN_US`], and counts as what it was found to be: that keeps who was kept, since whoever loads it meanwhile ends what it counts by
//! ([`BufferPool::failing_since`]).

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{PageId, Result};
use resurgam_btree::Tree;
use resurgam_buffer::BufferPool;
use resurgam_page::space;

/// Leaves between two looks whether to stop.
const LOOK_LEAVES: u64 = 1024;
/// For how long a page that may be lost is not tried again, in microseconds.
pub(crate) const TRY_AGAIN_US: i64 = 600 * 1_000_000;

/// A set of pages of one interval.
#[derive(Clone)]
struct Pages(Box<[u64]>);

impl Pages {
    fn none() -> Self {
        Self(vec![0; (space::INTERVAL_PAGES as usize).div_ceil(64)].into_boxed_slice())
    }
    fn place(page: PageId) -> (usize, u64) {
        let at = page.0.saturating_sub(space::map_page_of(page).0) as usize;
        (at / 64, 1 << (at % 64))
    }
    fn has(&self, page: PageId) -> bool {
        let (word, bit) = Self::place(page);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }
    fn add(&mut self, page: PageId) {
        let (word, bit) = Self::place(page);
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= bit;
        }
    }
    fn remove(&mut self, page: PageId) {
        let (word, bit) = Self::place(page);
        if let Some(bits) = self.0.get_mut(word) {
            *bits &= !bit;
        }
    }
    fn of(&self, map: PageId) -> impl Iterator<Item = PageId> + '_ {
        (map.0..map.0 + space::INTERVAL_PAGES).map(PageId).filter(|page| self.has(*page))
    }
}

/// Pages that may be lost, and could not be read.
struct Tried {
    /// When the first of them was tried, in microseconds since 2000-01-01 UTC.
    since_us: i64,
    damaged: Pages,
    /// The device says so.
    unreadable: Pages,
}

/// How a page was found that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Damaged,
    Unreadable,
}

struct Interval {
    /// Since when its map cannot be read ([`BufferPool::failing_since`]); none: that is not known.
    since: Option<u64>,
    /// Pages that were never given out.
    unused: Pages,
    /// Pages that read as never written, of which that is not known yet.
    open: Pages,
    /// None: nothing was tried, or that is long ago.
    tried: Option<Tried>,
}

impl Interval {
    fn new(since: Option<u64>) -> Self {
        Self { since, unused: Pages::none(), open: Pages::none(), tried: None }
    }
}

/// The intervals that a sweep found without a map: 2.6 KB for each of 40 MB.
#[derive(Default)]
pub(crate) struct Unmapped {
    intervals: Mutex<HashMap<PageId, Interval>>,
    /// The trees were asked for what this sweep has noted.
    is_resolved: AtomicBool,
}

impl Unmapped {
    /// A sweep begins: only `maps` cannot be read.
    pub fn begin(&self, pool: &BufferPool, maps: &[PageId]) {
        self.is_resolved.store(false, Ordering::Relaxed);
        let mut intervals = self.intervals.lock();
        intervals.retain(|map, _| maps.contains(map));
        for map in maps {
            let since = pool.failing_since(*map);
            match intervals.get_mut(map) {
                Some(known) if since.is_some() && known.since == since => known.open = Pages::none(),
                _ => drop(intervals.insert(*map, Interval::new(since))),
            }
        }
    }

    /// Nor can this one, as it has turned out since. (Several threads may find that, one of them more than once: what they have
    /// noted stays.)
    pub fn add(&self, pool: &BufferPool, map: PageId) {
        self.intervals.lock().entry(map).or_insert_with(|| Interval::new(pool.failing_since(map)));
    }

    /// Whether the map of the page could not be read in this sweep.
    pub fn lacks_map_of(&self, page: PageId) -> bool {
        self.intervals.lock().contains_key(&space::map_page_of(page))
    }

    /// How a page that may be lost was found a short while ago, as of `now_us`; `None`: it is to be tried.
    pub fn found(&self, page: PageId, now_us: i64) -> Option<Found> {
        let mut intervals = self.intervals.lock();
        let interval = intervals.get_mut(&space::map_page_of(page))?;
        // A clock that goes back says nothing.
        interval.tried.take_if(|tried| !(0..TRY_AGAIN_US).contains(&now_us.saturating_sub(tried.since_us)));
        let tried = interval.tried.as_ref()?;
        if tried.unreadable.has(page) {
            return Some(Found::Unreadable);
        }
        tried.damaged.has(page).then_some(Found::Damaged)
    }

    /// A page that may be lost was tried in vain.
    pub fn note_found(&self, page: PageId, found: Found, now_us: i64) {
        if let Some(interval) = self.intervals.lock().get_mut(&space::map_page_of(page)) {
            let new = || Tried { since_us: now_us, damaged: Pages::none(), unreadable: Pages::none() };
            let tried = interval.tried.get_or_insert_with(new);
            match found {
                Found::Damaged => tried.damaged.add(page),
                Found::Unreadable => tried.unreadable.add(page),
            }
        }
    }

    /// Whether the page was never given out.
    pub fn is_unused(&self, page: PageId) -> bool {
        self.intervals.lock().get(&space::map_page_of(page)).is_some_and(|of| of.unused.has(page))
    }

    /// The page reads as never written. False: the trees are not asked any more.
    pub fn note_unwritten(&self, page: PageId) -> bool {
        if self.is_resolved.load(Ordering::Relaxed) {
            return false;
        }
        match self.intervals.lock().get_mut(&space::map_page_of(page)) {
            Some(interval) => interval.open.add(page),
            None => return false,
        }
        true
    }

    /// Whether pages were noted since the begin.
    pub fn has_open(&self) -> bool {
        self.intervals.lock().values().any(|of| of.open.0.iter().any(|bits| *bits != 0))
    }

    /// Asks the trees for what was noted. `None`: not all of them are known. Returns the pages that may be leaves:
    /// those that a tree names, or all if one could not be asked, and whether they were. Nothing is resolved when `stop` ended it.
    pub fn resolve(&self, pool: &BufferPool, trees: Option<&[Tree]>, stop: &dyn Fn() -> bool) -> (Vec<PageId>, bool) {
        self.is_resolved.store(true, Ordering::Relaxed);
        let mut named = HashMap::<PageId, Vec<PageId>>::new();
        let asked = trees.is_some_and(|trees| {
            let all = trees.iter().try_for_each(|tree| -> Result<(), ()> {
                match self.named_by(pool, *tree, &mut named, stop) {
                    Ok(ControlFlow::Continue(())) => Ok(()),
                    Ok(ControlFlow::Break(())) | Err(_) => Err(()),
                }
            });
            all.is_ok()
        });
        if stop() {
            return (Vec::new(), asked);
        }
        let mut lost = Vec::new();
        for (map, interval) in self.intervals.lock().iter_mut() {
            if !asked {
                lost.extend(interval.open.of(*map));
                continue;
            }
            for page in named.remove(map).unwrap_or_default() {
                interval.open.remove(page);
                lost.push(page);
            }
            interval.unused.0.iter_mut().zip(&interval.open.0).for_each(|(unused, open)| *unused |= open);
        }
        lost.sort_unstable();
        (lost, asked)
    }

    /// Adds the pages of interest that a tree names, by their map.
    fn named_by(
        &self,
        pool: &BufferPool,
        tree: Tree,
        named: &mut HashMap<PageId, Vec<PageId>>,
        stop: &dyn Fn() -> bool,
    ) -> Result<ControlFlow<()>> {
        let mut count = 0u64;
        let mut name = |page: PageId| {
            count += 1;
            if count.is_multiple_of(LOOK_LEAVES) && stop() {
                return ControlFlow::Break(());
            }
            let map = space::map_page_of(page);
            if self.intervals.lock().get(&map).is_some_and(|of| of.open.has(page)) {
                named.entry(map).or_default().push(page);
            }
            ControlFlow::Continue(())
        };
        tree.name_leaves(pool, &mut name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_an_interval() {
        let map = PageId(space::INTERVAL_PAGES + 1);
        let mut pages = Pages::none();
        let (first, last) = (PageId(map.0 + 1), PageId(map.0 + space::INTERVAL_PAGES - 1));
        pages.add(first);
        pages.add(last);
        assert!(pages.has(first) && pages.has(last) && !pages.has(PageId(map.0 + 2)) && !pages.has(map));
        assert_eq!(pages.of(map).collect::<Vec<_>>(), [first, last]);
        pages.remove(first);
        assert_eq!(pages.of(map).collect::<Vec<_>>(), [last]);
    }

    #[test]
    fn what_was_tried_is_remembered_for_a_while() {
        let map = PageId(space::INTERVAL_PAGES + 1);
        let (one, other, elsewhere) = (PageId(map.0 + 1), PageId(map.0 + 2), PageId(map.0 - 1));
        let unmapped = Unmapped::default();
        unmapped.note_found(one, Found::Damaged, 5);
        assert_eq!(unmapped.found(one, 5), None, "its map can be read");
        unmapped.intervals.lock().insert(map, Interval::new(None));
        assert!(unmapped.lacks_map_of(one) && !unmapped.lacks_map_of(elsewhere));
        unmapped.note_found(one, Found::Damaged, 5);
        unmapped.note_found(other, Found::Unreadable, 90);
        unmapped.note_found(elsewhere, Found::Damaged, 90);
        let found = |now_us| [one, other, elsewhere].map(|page| unmapped.found(page, now_us));
        let both = [Some(Found::Damaged), Some(Found::Unreadable), None];
        assert_eq!((found(90), found(TRY_AGAIN_US + 4)), (both, both));
        assert_eq!(found(TRY_AGAIN_US + 5), [None; 3], "all of them after that time");
        unmapped.note_found(other, Found::Damaged, TRY_AGAIN_US + 6);
        assert_eq!(found(TRY_AGAIN_US + 6), [None, Some(Found::Damaged), None]);
        assert_eq!(found(4), [None; 3], "the clock went back");
    }
}
