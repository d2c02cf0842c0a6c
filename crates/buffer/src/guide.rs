//! Where inner pages lead, for descents that latch nothing but the leaf.
//!
//! An inner page in memory has a *guide* beside it (`page_guide.rs`): of each record the child, and of its key eight bytes as one number, without
//! what the keys of the page have in common. A search touches a few lines of one array, and writes nothing that others read: a descent
//! with latches writes each page's latch, pin and place in the pool, and those of the upper pages are everybody's.
//!
//! # Invariants
//! 1. *A guide is a guess.* It may be of an earlier state of its page, of a page that is not in the frame any more, or be read while
//!    it is made anew. Whoever is led to a page latches it and sees from the page itself whether it is the leaf: of the tree, with
//!    fences that hold the key. If it is not, the way down is by latches, and the guides on it are made anew.
//! 2. *Nobody waits for a page that was guessed*: it is latched if that can be had at once. So guides add nothing to the
//!    order in which latches are taken.
//! 3. A guide is of a page's state at one LSN. It is made by who has the page latched.
//! 4. The frame that a guide says a page is in is a guess as well, and is asked (`occupancy.rs`).
//! 5. There are so many guides at most, one for [`FRAMES_PER_GUIDE`] frames: less than a fiftieth of the pool's memory. Which pages
//!    have one is decided as in a cache.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use resurgam_base::{PageId, memory};
use resurgam_page::PageBuf;

use crate::frame::ReadGuard;
use crate::page_guide::{Guess, Guide, Place};
use crate::pool::{Access, BufferPool};

/// Deeper than any tree.
const LEVELS_MAX: usize = 24;
/// One page of a hundred or more is an inner one where keys are short.
const FRAMES_PER_GUIDE: usize = 64;
/// Guides beside each other that are for pages of one hash.
const WAYS: usize = 4;
/// A guide takes the place of another page's each so many times that a page without one is passed: where there are more inner pages
/// than guides, to make one costs more than it gives.
const PASSES_PER_TAKING: u32 = 8;

/// The children of an inner page that its reader has latched, and where they were last.
pub struct Children<'g> {
    guide: Option<&'g Guide>,
    /// For those of which that is not known.
    nowhere: AtomicU32,
}

impl Children<'_> {
    /// The child `page`, which the page has in `slot`.
    #[inline]
    pub fn guess(&self, slot: u16, page: PageId) -> Guess<'_> {
        let frame = self.guide.and_then(|guide| guide.frame_of(usize::from(slot)));
        Guess { page, frame: frame.unwrap_or(&self.nowhere) }
    }
}

/// The guides of a pool, by page.
pub(crate) struct Guides {
    /// Whose guide is in the place of the same number, as far as is known: the guide says it as well. [`WAYS`] places beside each
    /// other are for pages of one hash.
    pages: Box<[AtomicU64]>,
    /// Made when first needed.
    guides: Box<[OnceLock<Box<Guide>>]>,
    /// Pages without a guide that were passed.
    passes: AtomicU32,
}

impl Guides {
    /// For a pool of so many frames.
    pub fn new(frames: usize) -> Self {
        let places = (frames / FRAMES_PER_GUIDE).next_power_of_two().max(4 * WAYS);
        Self {
            pages: (0..places).map(|_| AtomicU64::new(0)).collect(),
            guides: (0..places).map(|_| OnceLock::new()).collect(),
            passes: AtomicU32::new(0),
        }
    }

    /// The first of the places for a page.
    #[inline]
    fn bucket(&self, page: PageId) -> usize {
        let buckets = self.pages.len() / WAYS;
        let hash = (page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (buckets - 1);
        hash * WAYS
    }

    #[inline]
    fn place_of(&self, page: PageId) -> Option<usize> {
        let first = self.bucket(page);
        (first..first + WAYS).find(|at| self.pages[*at].load(Ordering::Relaxed) == page.0)
    }

    /// The guide of `page`, or what was that.
    #[inline]
    fn of(&self, page: PageId) -> Option<&Guide> {
        self.guides[self.place_of(page)?].get().map(|guide| &**guide)
    }

    /// A place for a page that has none, sometimes.
    fn take_place(&self, page: PageId) -> Option<usize> {
        let first = self.bucket(page);
        let free = (first..first + WAYS).find(|at| self.pages[*at].load(Ordering::Relaxed) == 0);
        let at = free.or_else(|| {
            let passes = self.passes.fetch_add(1, Ordering::Relaxed);
            let takes = passes.is_multiple_of(PASSES_PER_TAKING);
            takes.then_some(first + (passes / PASSES_PER_TAKING) as usize % WAYS)
        })?;
        self.pages[at].store(page.0, Ordering::Relaxed);
        Some(at)
    }

    /// Makes the guide of a latched page, unless it is there or somebody else's is in its place.
    fn learn(&self, page: &PageBuf, frame: u32) {
        let id = page.page_id();
        let Some(at) = self.place_of(id).or_else(|| self.take_place(id)) else { return };
        let guide = self.guides[at].get_or_init(|| memory::aside(|| Box::new(Guide::new())));
        if !guide.is_of(page) {
            guide.make(page);
        }
        if guide.frame.load(Ordering::Relaxed) != frame {
            guide.frame.store(frame, Ordering::Relaxed);
        }
    }
}

impl BufferPool {
    /// The page that has `key` among the leaves of the tree with this root, as far as guides know.
    #[inline]
    pub fn guided_leaf(&self, root: PageId, key: &[u8]) -> Option<Guess<'_>> {
        let mut page = root;
        for _ in 0..LEVELS_MAX {
            let guide = self.guides.of(page)?;
            let (child, level) = guide.find(page, key)?;
            // Nobody pins the page for a descent, and it is of the working set nevertheless.
            if let Some(frame) = self.allocated_frame(guide.frame.load(Ordering::Relaxed)) {
                frame.touch();
            }
            if level <= 1 {
                return Some(child);
            }
            page = child.page;
        }
        None
    }

    /// As [`BufferPool::guided_leaf`], for a leaf that is read a little later; the processor is asked to fetch what is looked at of it first.
    #[inline]
    pub fn guided_ahead(&self, root: PageId, key: &[u8]) -> Option<Place> {
        let guess = self.guided_leaf(root, key)?;
        let frame = guess.frame.load(Ordering::Relaxed);
        self.frames.prefetch(frame);
        self.frames.prefetch_rest(frame);
        Some(Place { page: guess.page, frame })
    }

    /// As [`BufferPool::try_read`], of what [`BufferPool::guided_ahead`] has named and is still there.
    #[inline]
    pub fn try_read_at(&self, place: Place, access: Access) -> Option<ReadGuard<'_>> {
        self.try_read_there(place.page, place.frame, access)
    }

    /// The children of a latched inner page.
    pub fn children(&self, node: &ReadGuard<'_>) -> Children<'_> {
        Children { guide: self.guides.of(node.page_id()), nowhere: AtomicU32::new(u32::MAX) }
    }

    /// Makes guides of a page that a descent has latched on its way.
    #[inline]
    pub fn learn_way(&self, node: &ReadGuard<'_>) {
        self.guides.learn(node, node.pin.0.index);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use resurgam_base::{Lsn, ObjectId, SlotId};
    use resurgam_page::{PageType, inner};

    use super::*;
    use crate::page_guide::SKIPPED_MAX;

    fn page(keys: &[Vec<u8>]) -> PageBuf {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Inner, PageId(7), 1, ObjectId(1));
        page.insert(SlotId(0), &inner::encode(&[], PageId(100))).unwrap();
        for (at, key) in keys.iter().enumerate() {
            page.insert(SlotId(at as u16 + 1), &inner::encode(key, PageId(101 + at as u64))).unwrap();
        }
        page.set_lsn(Lsn(5));
        page
    }

    fn frame(guide: &Guide, slot: usize) -> &AtomicU32 {
        guide.frame_of(slot).unwrap()
    }

    fn found(guide: &Guide, of: u64, key: &[u8]) -> Option<(PageId, u8)> {
        guide.find(PageId(of), key).map(|(guess, level)| (guess.page, level))
    }

    proptest! {
        /// Short keys are told apart by what the guide has of them.
        #[test]
        fn guides_lead_where_the_page_does(
            prefix in proptest::collection::vec(any::<u8>(), 0..30),
            keys in proptest::collection::btree_set(proptest::collection::vec(1..4u8, 1..7), 0..40),
            probes in proptest::collection::vec(proptest::collection::vec(1..5u8, 0..9), 20),
        ) {
            let prefix = &prefix[..prefix.len().min(SKIPPED_MAX)];
            let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| [prefix, &key].concat()).collect();
            let page = page(&keys);
            let guide = Guide::new();
            guide.make(&page);
            prop_assert!(guide.is_of(&page));
            let bare = probes.iter().cloned();
            let probes: Vec<Vec<u8>> = probes.iter().map(|probe| [prefix, probe].concat()).chain(bare).collect();
            for probe in keys.iter().chain(&probes) {
                prop_assert_eq!(found(&guide, 7, probe), Some((inner::child_for(&page, probe).1, 1)));
            }
            prop_assert_eq!(found(&guide, 8, &probes[0]), None);
        }
    }

    #[test]
    fn keys_that_look_alike_have_no_guide() {
        let keys: Vec<Vec<u8>> = (0..20u8).map(|n| [&[9; 40][..], &[n]].concat()).collect();
        let guide = Guide::new();
        let page = page(&keys);
        guide.make(&page);
        assert!(guide.is_of(&page), "it is not made again and again");
        assert_eq!(found(&guide, 7, &keys[3]), None);
    }

    #[test]
    fn where_their_children_are_is_known_nevertheless() {
        let keys: Vec<Vec<u8>> = (0..20u8).map(|n| [&[9; 40][..], &[n]].concat()).collect();
        let (guide, mut page) = (Guide::new(), page(&keys));
        guide.make(&page);
        for slot in 0..21 {
            frame(&guide, slot).store(40 + slot as u32, Ordering::Relaxed);
        }
        page.set_lsn(Lsn(6));
        guide.make(&page);
        assert_eq!(found(&guide, 7, &keys[3]), None);
        let frames: Vec<u32> = (0..21).map(|slot| frame(&guide, slot).load(Ordering::Relaxed)).collect();
        assert_eq!(frames, (40..61).collect::<Vec<_>>());
    }

    #[test]
    fn more_pages_than_guides() {
        let guides = Guides::new(1);
        let keys = [vec![5], vec![7]];
        let mut learned = 0;
        for n in 1..=2_000u64 {
            let mut page = page(&keys);
            page.format(PageType::Inner, PageId(n), 1, ObjectId(1));
            page.insert(SlotId(0), &inner::encode(&[], PageId(100 + n))).unwrap();
            guides.learn(&page, n as u32);
            let Some(guide) = guides.of(PageId(n)) else { continue };
            assert_eq!(found(guide, n, &[6]), Some((PageId(100 + n), 1)));
            learned += 1;
        }
        assert!((16..=400).contains(&learned), "{learned}");
        assert!(guides.of(PageId(1 << 20)).is_none());
    }

    #[test]
    fn a_guide_follows_its_page() {
        let guides = Guides::new(1);
        let mut page = page(&[vec![5], vec![7]]);
        guides.learn(&page, 3);
        let find = || guides.of(PageId(7)).and_then(|guide| found(guide, 7, &[6]));
        assert_eq!(find(), Some((PageId(101), 1)));
        page.insert(SlotId(2), &inner::encode(&[6], PageId(200))).unwrap();
        page.set_lsn(Lsn(6));
        assert_eq!(find(), Some((PageId(101), 1)), "until it is learned again");
        guides.learn(&page, 4);
        assert_eq!(find(), Some((PageId(200), 1)));
        assert_eq!(guides.of(PageId(7)).map(|guide| guide.frame.load(Ordering::Relaxed)), Some(4));
    }

    #[test]
    fn where_children_are_is_known_after_a_split_as_well() {
        let guide = Guide::new();
        let mut page = page(&[vec![5], vec![7], vec![9], vec![11]]);
        guide.make(&page);
        for slot in 0..5 {
            frame(&guide, slot).store(40 + slot as u32, Ordering::Relaxed);
        }
        let make = |page: &mut PageBuf| {
            page.set_lsn(Lsn(page.lsn().0 + 1));
            guide.make(page);
            (0..page.slot_count()).map(|slot| frame(&guide, slot.into()).load(Ordering::Relaxed)).collect::<Vec<_>>()
        };
        page.insert(SlotId(2), &inner::encode(&[6], PageId(200))).unwrap();
        assert_eq!(make(&mut page), [40, 41, u32::MAX, 42, 43, 44]);
        page.remove_many(SlotId(1), 2).unwrap();
        assert_eq!(make(&mut page), [40, 42, 43, 44]);
        page.remove_many(SlotId(0), 3).unwrap();
        assert_eq!(make(&mut page), [u32::MAX], "more are gone than are passed over");
    }
}
