//! Which ids pushed versions into which version pages: what the store frees pages by.
//!
//! One entry for each extent (8 pages): the lowest and the highest id that pushed into each of
//! its pages, or into any of them once they are all in use and nearly agree, as pages that were
//! filled at about the same time do. That is 1 to 1.5 MB of memory for each gigabyte of
//! version store, and 3 to 4 MB where pages of an extent do not agree (or were found after an
//! open, until they are looked at).
//!
//! # When a page may be freed
//! By the ids that pushed into it, without looking at it (Constant Time Recovery, section
//! 3.7.2, and section 5 for those that no aborted transaction needs):
//!
//! *Nobody is led to a version unless its pusher still matters to him.* The pointer in a version
//! that `x` wrote leads to a version that was pushed under `x`, and is followed only by who
//! does not see what `x` wrote. (It stays so: whatever takes a version along, as the earlier one
//! in the row, within an off-row image or as what a revert brings back, takes its own pointer
//! along with its own id.) So a version that `x` pushed over one of `q` can be needed only while
//! `x`, the pusher, is one of the following; who `q` was, and who else is active, does not matter:
//! - *active* (a prepared transaction is): for its rollback, for its own statements, which do not
//!   see what they wrote themselves, and for others, who do not see it at all;
//! - *committed, and not seen by a snapshot in use*;
//! - *aborted, with a row that still has a version of `x`*: what `x` pushed is the committed
//!   content of that row.
//!
//! A transaction `t` that is active and older than `x` needs nothing that `x` pushed once `x` is
//! committed and all snapshots see it, those of `t` included: its next statement's snapshot does,
//! too, and going back it comes to what was there before `t` wrote, which was pushed under `t`.
//!
//! # How that is known
//! The ids that had ended at a moment are noted ([`EndedIds`]), and pages are freed by them when
//! the horizon has reached the newest commit that was decided by then, and after the
//! aborted-transaction map was read. Take a page all of whose pushers are in the noted set, and
//! none of which is in the map. Each of them
//! - is not *active*: it had ended. Ids that were handed out after the moment are not in the set,
//!   nor are those of transactions that went on, with all ids that they had and had reserved
//!   for sub-transactions. (One that was aborted by going back to a savepoint counts as going
//!   on until its transaction ends.) What a restart finds prepared, or has to undo, is active
//!   before anybody looks;
//! - is seen by all if it is *committed*: its commit had been decided at the moment, so it is at
//!   or before the newest one then, which the horizon has reached: no snapshot in use, or to
//!   come, lacks it. A commit that is decided after the moment is of an id that is not in the
//!   set. Who finds `x` still active and follows its pointer while it commits holds a snapshot
//!   from before that, which holds the horizon;
//! - if it is *aborted* has no version in any row: it was in the map before it ended, and is not
//!   in it now, so it was forgotten, after every page with versions was visited. Or it was undone
//!   row by row, and no row leads anywhere. Both take the latch of each such leaf, which who
//!   follows a pointer from there holds.
//!
//! A range of ids stands for the page's pushers, so a page may stay for an id that never pushed
//! into it. Of an id that is idle for a day those are pages that were filled when it was handed
//! out, not those that are filled since.
//!
//! In the traditional mode the same holds of the versions in memory; what is undone there is
//! active until then.
//!
//! *A version that is found under an aborted one is pushed again* by a writer that goes over both
//! (`write.rs`), under the writer's own id: its life is then that of the new page, and the old
//! one's pusher is the aborted transaction still. An aborted transaction that is overwritten
//! everywhere, or far away, therefore pins its own pages at most, not those of others.
//!
//! Whoever walks versions without holding a snapshot or the leaf of an aborted row (who frees what is pending,
//! the checker) keeps pages from being freed meanwhile ([`crate::VersionStore::hold_pages`]).
//!
//! # After an open
//! Anybody can have pushed into a page that is found then. When that is what keeps it, it is
//! looked at, once: its records name who did.

use hashbrown::HashMap;
use resurgam_base::{PageId, TxId, limits::EXTENT_PAGES};
use resurgam_txn::{EndedIds, TxIdSet};

/// The lowest and the highest id that pushed; none at all where nobody did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    lowest: TxId,
    highest: TxId,
}

impl Range {
    fn widen(&mut self, by: Self) {
        if self.highest.is_none() {
            *self = by;
        } else if by.highest.is_some() {
            self.lowest = self.lowest.min(by.lowest);
            self.highest = self.highest.max(by.highest);
        }
    }
    fn span(self) -> u64 {
        self.highest.0 - self.lowest.0
    }
    /// Of a page that was found after an open, and not looked at.
    fn is_unknown(self) -> bool {
        self.lowest.is_none() && self.highest.is_some()
    }
}

/// Transactions that no snapshot needs any more, those without versions in rows; see the module.
pub(crate) struct Past<'a> {
    /// Those that had ended at a moment that the horizon has passed.
    pub ended: &'a EndedIds,
    /// The aborted-transaction map, read after that was known.
    pub aborted: &'a TxIdSet,
}

impl Past<'_> {
    /// Whether nobody needs what any id of `first..=last` pushed.
    pub fn holds_all(&self, first: TxId, last: TxId) -> bool {
        self.ended.holds_all(first, last) && !self.aborted.intersects(first, last)
    }
}

/// What is to be done about the pages of the store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unneeded {
    /// May be freed; in the order of the file, so that extents become free as a whole.
    pub free: Vec<PageId>,
    /// Kept though it is not known who pushed into them; as many as were asked for.
    pub unknown: Vec<PageId>,
    /// How many may not be freed for aborted transactions only.
    pub held: u64,
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
    preallocated: u8,
}

impl Default for Extent {
    fn default() -> Self {
        Self { ranges: Ranges::Each(Box::default()), used: 0, preallocated: 0 }
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
        self.preallocated &= !bit;
    }
    /// The range that stands for the page in place `at`.
    fn range(&self, at: usize) -> Range {
        match &self.ranges {
            Ranges::Common(common) => *common,
            Ranges::Each(each) => each.get(at).copied().unwrap_or_default(),
        }
    }
    /// Sets the range of the page in place `at`.
    fn set(&mut self, at: usize, range: Range) {
        if let Ranges::Common(common) = self.ranges {
            self.ranges = Ranges::Each(Box::new([common; EXTENT_PAGES as usize]));
        }
        if let Ranges::Each(each) = &mut self.ranges
            && let Some(own) = each.get_mut(at)
        {
            *own = range;
        }
    }
    /// Gives up the ranges of single pages when the common one says nearly the same.
    fn agree(&mut self) {
        let Ranges::Each(each) = &self.ranges else { return };
        // What is learned of one page says nothing of the others.
        if self.used != u8::MAX || each.iter().any(|range| range.is_unknown()) {
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
pub(crate) struct Pushers {
    extents: HashMap<u64, Extent>,
    used: u64,
    preallocated: u64,
}

impl Pushers {
    /// `pusher` pushes into `page`.
    pub fn note(&mut self, page: PageId, pusher: TxId) {
        let (first, bit) = split(page);
        let extent = self.extents.entry(first).or_default();
        self.used += u64::from(extent.used & bit == 0);
        self.preallocated -= u64::from(extent.preallocated & bit != 0);
        extent.add(bit, Range { lowest: pusher, highest: pusher });
    }
    /// A page made in advance; it is not freed before it is used.
    pub fn make_ready(&mut self, page: PageId) {
        self.remove(page); // noted by a push that was given up
        let (first, bit) = split(page);
        self.extents.entry(first).or_default().preallocated |= bit;
        self.preallocated += 1;
    }
    /// A page found after an open: anybody up to `highest` can have pushed into it.
    pub fn adopt(&mut self, page: PageId, highest: TxId) {
        let (first, bit) = split(page);
        let extent = self.extents.entry(first).or_default();
        if (extent.used | extent.preallocated) & bit == 0 {
            extent.add(bit, Range { lowest: TxId::NONE, highest });
            self.used += 1;
        }
    }
    /// The page is freed, or was never one.
    pub fn remove(&mut self, page: PageId) {
        let (first, bit) = split(page);
        let Some(extent) = self.extents.get_mut(&first) else { return };
        self.used -= u64::from(extent.used & bit != 0);
        self.preallocated -= u64::from(extent.preallocated & bit != 0);
        extent.used &= !bit;
        extent.preallocated &= !bit;
        if extent.used | extent.preallocated == 0 {
            self.extents.remove(&first);
        }
    }
    /// Pages in use, those made ready not counted.
    pub fn used(&self) -> u64 {
        self.used
    }
    /// How many pages there are, those made ready included.
    pub fn len(&self) -> u64 {
        self.used + self.preallocated
    }
    /// Every page, those made ready included.
    pub fn all(&self) -> impl Iterator<Item = PageId> + '_ {
        self.extents.iter().flat_map(|(first, extent)| pages(*first, extent.used | extent.preallocated))
    }
    /// Pages that nobody needs, and up to `most` of which it should be learned who pushed.
    pub fn unneeded(&mut self, past: &Past<'_>, most: usize) -> Unneeded {
        let mut out = Unneeded::default();
        for (first, extent) in &mut self.extents {
            extent.agree();
            for page in pages(*first, extent.used) {
                let range = extent.range((page.0 - first) as usize);
                if past.holds_all(range.lowest, range.highest) {
                    out.free.push(page);
                    continue;
                }
                out.held += u64::from(past.ended.holds_all(range.lowest, range.highest));
                if range.is_unknown() && out.unknown.len() < most {
                    out.unknown.push(page);
                }
            }
        }
        out.free.sort_unstable();
        out.unknown.sort_unstable();
        out
    }
    /// Whether this page may be freed.
    pub fn is_unneeded(&self, page: PageId, past: &Past<'_>) -> bool {
        let (first, bit) = split(page);
        self.extents.get(&first).is_some_and(|extent| {
            let range = extent.range(bit.trailing_zeros() as usize);
            extent.used & bit != 0 && past.holds_all(range.lowest, range.highest)
        })
    }
    /// The ids of all records of a page that was found after an open; without any, nobody pushed
    /// into it. The page is latched, so that no push is under way.
    pub fn learn(&mut self, page: PageId, pushers: impl Iterator<Item = TxId>) {
        let (first, bit) = split(page);
        let at = bit.trailing_zeros() as usize;
        let Some(extent) = self.extents.get_mut(&first).filter(|extent| extent.used & bit != 0) else { return };
        let before = extent.range(at);
        if !before.is_unknown() {
            return;
        }
        let mut range: Option<Range> = None;
        for pusher in pushers {
            // One that cannot be read may be anybody.
            let lowest = if pusher.is_none() || pusher > before.highest { TxId(1) } else { pusher };
            let highest = if pusher.is_none() { before.highest } else { pusher.max(lowest) };
            let one = Range { lowest, highest };
            range.get_or_insert(one).widen(one);
        }
        extent.set(at, range.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use resurgam_base::CommitTs;

    use super::*;

    fn set(ids: &[u64]) -> TxIdSet {
        ids.iter().map(|id| TxId(*id)).collect()
    }

    /// Who has ended when all have below `next`, but for those named.
    fn ended(next: u64, unfinished: &[u64]) -> EndedIds {
        EndedIds::new(TxId(next), unfinished.iter().map(|id| (TxId(*id), TxId(*id))).collect(), CommitTs::NONE)
    }

    fn beside(ids: &mut Pushers, next: u64, unfinished: &[u64], aborted: &[u64]) -> (Vec<u64>, u64) {
        let (ended, aborted) = (ended(next, unfinished), set(aborted));
        let past = Past { ended: &ended, aborted: &aborted };
        let Unneeded { free, held, .. } = ids.unneeded(&past, 0);
        for page in &free {
            assert!(ids.is_unneeded(*page, &past));
        }
        (free.iter().map(|page| page.0).collect(), held)
    }

    fn unneeded(ids: &mut Pushers, next: u64, aborted: &[u64]) -> (Vec<u64>, u64) {
        beside(ids, next, &[], aborted)
    }

    #[test]
    fn who_has_not_ended_pins_its_own_pages() {
        let mut ids = Pushers::default();
        for (page, pusher) in [(9, 10), (17, 20), (25, 30), (33, 40)] {
            ids.note(PageId(page), TxId(pusher));
        }
        ids.note(PageId(33), TxId(43));
        assert_eq!(beside(&mut ids, 50, &[10], &[]), (vec![17, 25, 33], 0));
        assert_eq!(beside(&mut ids, 50, &[5, 20, 49], &[]), (vec![9, 25, 33], 0));
        assert_eq!(beside(&mut ids, 50, &[20], &[30]), (vec![9, 33], 1));
        assert_eq!(beside(&mut ids, 50, &[41], &[]), (vec![9, 17, 25], 0), "it may have pushed, by the range");
        assert_eq!(beside(&mut ids, 43, &[], &[]), (vec![9, 17, 25], 0), "43 had not begun");
        assert_eq!(beside(&mut ids, 50, &[40], &[43]), (vec![9, 17, 25], 0));
    }

    #[test]
    fn who_pushed_before_an_open_is_learned_when_it_matters() {
        let mut ids = Pushers::default();
        (9..17).chain([25]).for_each(|page| ids.adopt(PageId(page), TxId(50)));
        ids.note(PageId(17), TxId(60));
        let (ended, none) = (ended(70, &[20, 60]), TxIdSet::default());
        let past = Past { ended: &ended, aborted: &none };
        let asked = ids.unneeded(&past, 100);
        assert_eq!(asked.unknown, (9..17).chain([25]).map(PageId).collect::<Vec<_>>());
        assert_eq!((asked.free, ids.unneeded(&past, 3).unknown.len()), (vec![], 3));
        ids.learn(PageId(9), [TxId(10), TxId(19), TxId(12)].into_iter());
        ids.learn(PageId(10), [TxId(20)].into_iter());
        ids.learn(PageId(11), std::iter::empty());
        ids.learn(PageId(13), [TxId(30), TxId(40)].into_iter());
        // Not what a record of such a page can name.
        ids.learn(PageId(25), [TxId(30), TxId::NONE].into_iter());
        ids.learn(PageId(17), [TxId(1)].into_iter());
        ids.learn(PageId(18), [TxId(1)].into_iter());
        let learned = ids.unneeded(&past, 100);
        assert_eq!(learned.free, [PageId(9), PageId(11), PageId(13)]);
        assert_eq!(learned.unknown, [PageId(12), PageId(14), PageId(15), PageId(16)]);
        for page in [12, 14, 15, 16] {
            ids.learn(PageId(page), [TxId(20)].into_iter());
        }
        assert_eq!(beside(&mut ids, 70, &[], &[]).0, [9, 10, 11, 12, 13, 14, 15, 16, 17, 25]);
        assert_eq!(beside(&mut ids, 70, &[19, 60], &[]).0, [10, 11, 12, 13, 14, 15, 16]);
        ids.note(PageId(11), TxId(60));
        assert!(!ids.unneeded(&past, 0).free.contains(&PageId(11)), "it is in use again");
    }

    #[test]
    fn pages_are_freed_by_the_ids_that_pushed() {
        let mut ids = Pushers::default();
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
        let mut ids = Pushers::default();
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
        let mut ids = Pushers::default();
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
