//! Which ids pushed versions into which version pages: what the store frees pages by.
//!
//! One entry for each extent (8 pages): the lowest and the highest id that pushed into each of
//! its pages, or into any of them once they are all in use and nearly agree, as pages that were
//! filled at about the same time do. That is 1 to 1.5 MB of memory for each gigabyte of
//! version store, and 3 to 4 MB where pages of an extent do not agree.
//!
//! # When a page may be freed
//! By the ids that pushed into it, without looking at it (Constant Time Recovery, section
//! 3.7.2, and section 5 for those that no aborted transaction needs):
//!
//! *Nobody is led to a version unless its pusher still matters to him.* The pointer in a version
//! that `x` wrote leads to a version that was pushed under `x`, and is followed only by who
//! does not see what `x` wrote. So a pushed version can be needed only while its pusher `x` is
//! one of:
//! - *active* (a prepared transaction is), for others and for its own rollback;
//! - *committed, and not seen by a snapshot in use*;
//! - *aborted, with a row that still has a version of `x`*: what `x` pushed is the committed
//!   content of that row.
//!
//! The first two are ruled out for every id below the floor (`Cleaner::floor`). The third is
//! ruled out when no id between the page's lowest and highest is in the aborted-transaction map:
//! an id stays there until every page with versions was visited. The map is read after the
//! floor was sampled: whoever is below the floor had ended by then, and is in the map if it
//! aborted. Ids of savepoints are handed out above that of their transaction, which keeps the
//! floor below all of them while it is active; those that went back to a savepoint are in the
//! map as well. Of a transaction that was undone row by row, no row leads anywhere.
//!
//! *A version that is found under an aborted one is pushed again* by a writer that goes over both
//! (`write.rs`), under the writer's own id: its life is then that of the new page, and the old
//! one's pusher is the aborted transaction still. An aborted transaction that is overwritten
//! everywhere, or far away, therefore pins its own pages at most, not those of others.
//!
//! Whoever walks versions without holding a snapshot or the leaf of an aborted row (the ledger,
//! the checker) keeps pages from being freed meanwhile ([`crate::VersionStore::hold_pages`]).

use hashbrown::HashMap;
use resurgam_base::{PageId, TxId, limits::EXTENT_PAGES};
use resurgam_txn::TxIdSet;

/// The lowest and the highest id that pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    lowest: TxId,
    highest: TxId,
}

impl Range {
    fn widen(&mut self, by: Self) {
        self.lowest = self.lowest.min(by.lowest);
        self.highest = self.highest.max(by.highest);
    }
    fn span(self) -> u64 {
        self.highest.0 - self.lowest.0
    }
    fn is_unneeded(self, floor: TxId, aborted: &TxIdSet) -> bool {
        self.highest < floor && !aborted.intersects(self.lowest, self.highest)
    }
}

#[derive(Debug)]
enum Ranges {
    /// Of all pages together.
    Common(Range),
    /// Of each page; meaningless for those that are not in use.
    Each(Box<[Range; EXTENT_PAGES as usize]>),
}

#[derive(Debug)]
struct Extent {
    ranges: Ranges,
    /// Pages in use, and pages made ready in advance, a bit each.
    used: u8,
    ready: u8,
}

impl Default for Extent {
    fn default() -> Self {
        Self { ranges: Ranges::Each(Box::default()), used: 0, ready: 0 }
    }
}

impl Extent {
    fn add(&mut self, bit: u8, range: Range) {
        let is_new = self.used & bit == 0;
        match &mut self.ranges {
            Ranges::Common(common) => common.widen(range),
            Ranges::Each(each) => {
                let own = &mut each[bit.trailing_zeros() as usize];
                if is_new { *own = range } else { own.widen(range) }
            }
        }
        self.used |= bit;
        self.ready &= !bit;
    }
    /// The range that stands for the page in place `at`.
    fn range(&self, at: usize) -> Range {
        match &self.ranges {
            Ranges::Common(common) => *common,
            Ranges::Each(each) => each.get(at).copied().unwrap_or_default(),
        }
    }
    /// Gives up the ranges of single pages when the common one says nearly the same.
    fn agree(&mut self) {
        let Ranges::Each(each) = &self.ranges else { return };
        if self.used != u8::MAX {
            return;
        }
        let mut common = each[0];
        each.iter().for_each(|range| common.widen(*range));
        let widest = each.iter().map(|range| range.span()).max().unwrap_or_default();
        if common.span() <= widest.saturating_mul(2) {
            self.ranges = Ranges::Common(common);
        }
    }
}

/// The first page of a page's extent, and the page's bit. The file's bits stay as they are.
fn split(page: PageId) -> (u64, u8) {
    let at = (page.0 - 1) % EXTENT_PAGES;
    (page.0 - at, 1 << at)
}

fn pages(first: u64, bits: u8) -> impl Iterator<Item = PageId> {
    (0..EXTENT_PAGES).filter(move |at| bits >> at & 1 == 1).map(move |at| PageId(first + at))
}

/// See the module.
#[derive(Default)]
pub(crate) struct PageIds {
    extents: HashMap<u64, Extent>,
    used: u64,
    ready: u64,
}

impl PageIds {
    /// `pusher` pushes into `page`.
    pub fn note(&mut self, page: PageId, pusher: TxId) {
        let (first, bit) = split(page);
        let extent = self.extents.entry(first).or_default();
        self.used += u64::from(extent.used & bit == 0);
        self.ready -= u64::from(extent.ready & bit != 0);
        extent.add(bit, Range { lowest: pusher, highest: pusher });
    }
    /// A page made in advance; it is not freed before it is used.
    pub fn make_ready(&mut self, page: PageId) {
        self.remove(page); // noted by a push that was given up
        let (first, bit) = split(page);
        self.extents.entry(first).or_default().ready |= bit;
        self.ready += 1;
    }
    /// A page found after an open: anybody up to `highest` can have pushed into it.
    pub fn adopt(&mut self, page: PageId, highest: TxId) {
        let (first, bit) = split(page);
        let extent = self.extents.entry(first).or_default();
        if (extent.used | extent.ready) & bit == 0 {
            extent.add(bit, Range { lowest: TxId::NONE, highest });
            self.used += 1;
        }
    }
    /// The page is freed, or was never one.
    pub fn remove(&mut self, page: PageId) {
        let (first, bit) = split(page);
        let Some(extent) = self.extents.get_mut(&first) else { return };
        self.used -= u64::from(extent.used & bit != 0);
        self.ready -= u64::from(extent.ready & bit != 0);
        extent.used &= !bit;
        extent.ready &= !bit;
        if extent.used | extent.ready == 0 {
            self.extents.remove(&first);
        }
    }
    /// Pages in use, those made ready not counted.
    pub fn used(&self) -> u64 {
        self.used
    }
    /// How many pages there are, those made ready included.
    pub fn len(&self) -> u64 {
        self.used + self.ready
    }
    /// Every page, those made ready included.
    pub fn all(&self) -> impl Iterator<Item = PageId> + '_ {
        self.extents.iter().flat_map(|(first, extent)| pages(*first, extent.used | extent.ready))
    }
    /// Pages that may be freed, and how many may not for aborted transactions only.
    pub fn unneeded(&mut self, floor: TxId, aborted: &TxIdSet) -> (Vec<PageId>, u64) {
        let (mut free, mut held) = (Vec::new(), 0);
        for (first, extent) in &mut self.extents {
            extent.agree();
            for page in pages(*first, extent.used) {
                let range = extent.range((page.0 - first) as usize);
                if range.is_unneeded(floor, aborted) {
                    free.push(page);
                } else {
                    held += u64::from(range.highest < floor);
                }
            }
        }
        // In the order of the file, so that extents become free as a whole.
        free.sort_unstable();
        (free, held)
    }
    /// Whether this page may be freed.
    pub fn is_unneeded(&self, page: PageId, floor: TxId, aborted: &TxIdSet) -> bool {
        let (first, bit) = split(page);
        self.extents.get(&first).is_some_and(|extent| {
            extent.used & bit != 0 && extent.range(bit.trailing_zeros() as usize).is_unneeded(floor, aborted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u64]) -> TxIdSet {
        ids.iter().map(|id| TxId(*id)).collect()
    }

    fn unneeded(ids: &mut PageIds, floor: u64, aborted: &[u64]) -> (Vec<u64>, u64) {
        let (free, held) = ids.unneeded(TxId(floor), &set(aborted));
        for page in &free {
            assert!(ids.is_unneeded(*page, TxId(floor), &set(aborted)));
        }
        (free.iter().map(|page| page.0).collect(), held)
    }

    #[test]
    fn pages_are_freed_by_the_ids_that_pushed() {
        let mut ids = PageIds::default();
        // Extents begin at 1, 9, 17, ...
        ids.note(PageId(9), TxId(10));
        ids.note(PageId(10), TxId(14));
        ids.note(PageId(17), TxId(20));
        ids.note(PageId(17), TxId(30));
        assert_eq!(unneeded(&mut ids, 14, &[]), (vec![9], 0), "14 may matter");
        assert_eq!(unneeded(&mut ids, 15, &[]), (vec![9, 10], 0));
        assert_eq!(unneeded(&mut ids, 31, &[12]), (vec![9, 10, 17], 0), "it pushed into neither page");
        assert_eq!(unneeded(&mut ids, 31, &[5, 40]), (vec![9, 10, 17], 0), "aborted ones outside pin nothing");
        assert_eq!(unneeded(&mut ids, 31, &[30]), (vec![9, 10], 1));
        assert_eq!(unneeded(&mut ids, 31, &[20]), (vec![9, 10], 1));
        ids.remove(PageId(9));
        ids.remove(PageId(10));
        ids.note(PageId(9), TxId(25));
        assert_eq!(unneeded(&mut ids, 31, &[12]), (vec![9, 17], 0), "a new life begins anew");
        assert_eq!(ids.used(), 2);
    }

    #[test]
    fn an_extent_whose_pages_agree_has_one_range() {
        let mut ids = PageIds::default();
        // Filled one after another by the same few transactions; 25 in the last one only.
        (9..17).for_each(|page| (10..=20).for_each(|id| ids.note(PageId(page), TxId(id))));
        ids.note(PageId(16), TxId(25));
        let all: Vec<u64> = (9..17).collect();
        assert_eq!(unneeded(&mut ids, 25, &[]), (vec![], 0), "one of them may be needed: all stay");
        assert!(ids.extents.values().all(|extent| matches!(extent.ranges, Ranges::Common(_))));
        assert_eq!(unneeded(&mut ids, 26, &[]), (all.clone(), 0));
        assert_eq!(unneeded(&mut ids, 26, &[23]), (vec![], 8));
        ids.note(PageId(10), TxId(40));
        assert_eq!(unneeded(&mut ids, 40, &[]), (vec![], 0));
        assert_eq!(unneeded(&mut ids, 41, &[]), (all, 0));
        // Those that do not agree keep their own.
        (17..25).for_each(|page| ids.note(PageId(page), TxId(page * 100)));
        assert_eq!(unneeded(&mut ids, 1801, &[]).0, [9, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
    }

    #[test]
    fn ready_and_adopted_pages() {
        let mut ids = PageIds::default();
        ids.make_ready(PageId(9));
        ids.adopt(PageId(9), TxId(50));
        assert_eq!((unneeded(&mut ids, 99, &[]), ids.used()), ((vec![], 0), 0), "ready pages stay");
        ids.adopt(PageId(10), TxId(50));
        ids.note(PageId(9), TxId(60));
        assert_eq!(unneeded(&mut ids, 60, &[]), (vec![10], 0));
        assert_eq!(unneeded(&mut ids, 61, &[]), (vec![9, 10], 0));
        assert_eq!(unneeded(&mut ids, 61, &[1]), (vec![9], 1), "anybody may have pushed before the open");
        assert_eq!(unneeded(&mut ids, 61, &[61]), (vec![9, 10], 0));
        let version_file = PageId::of_file(3, 17);
        ids.note(version_file, TxId(1));
        assert_eq!(ids.all().count(), 3);
        assert_eq!(unneeded(&mut ids, 2, &[]), (vec![version_file.0], 0));
        for page in [version_file, PageId(9), PageId(10), PageId(10)] {
            ids.remove(page);
        }
        assert_eq!((ids.len(), ids.all().count(), ids.extents.len()), (0, 0, 0));
    }
}
