//! The guide of one inner page: a copy of what it leads by, that is read and made anew side by side. What guides are is in `guide.rs`.
//!
//! # Invariants
//! 1. One at a time makes it. Who finds somebody about that leaves it to him.
//! 2. While nobody makes it, and it says of which page and LSN it is, it leads where that page does.
//! 3. While it is made anew it may lead anywhere, or nowhere: to a child that it has had, of whichever page.

use resurgam_base::{PageId, SlotId};
use resurgam_page::{PageBuf, PageType, inner};

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Most children of a page that is guided; there is room for more records only if keys have less than eight bytes.
const CHILDREN_MAX: usize = 400;
/// Keys of a block: a search finds the block first, by the first key of each, then the key in it. So it waits for two or three places of
/// memory that are asked for side by side, where halving would wait for as many as it halves.
const BLOCK: usize = 16;
/// Most bytes that the keys of a page may have in common and that are left out.
pub(crate) const SKIPPED_MAX: usize = 24;
/// As a guide's shape: it is of no use, too many of its keys look alike.
const USELESS: u32 = 0;

/// A child of the page.
struct Child {
    page: AtomicU64,
    /// The frame that it was in.
    frame: AtomicU32,
}

/// See the module. In the order in which a search looks at it, so that it waits for few lines of memory, and those beside each other.
#[repr(C, align(64))]
pub(crate) struct Guide {
    /// The page; 0 while it is made.
    of: AtomicU64,
    lsn: AtomicU64,
    /// Children, the page's level << 16, the bytes skipped << 24.
    shape: AtomicU32,
    /// Children whose frames are known, also of a guide that is of no use for finding one.
    known: AtomicU32,
    /// The frame that the page was in.
    pub frame: AtomicU32,
    making: AtomicBool,
    /// What all keys but the first begin with.
    prefix: [AtomicU64; SKIPPED_MAX / 8],
    /// Of the first key of each block what `heads` has.
    tops: [AtomicU64; CHILDREN_MAX.div_ceil(BLOCK)],
    /// What follows, of each key but the first, which is the lower fence.
    heads: [AtomicU64; CHILDREN_MAX],
    children: [Child; CHILDREN_MAX],
}

/// A page that guides lead to.
pub struct Guess<'g> {
    pub(crate) page: PageId,
    /// The frame it was in last; whoever finds it elsewhere says so there.
    pub(crate) frame: &'g AtomicU32,
}

/// As [`Guess`], for who keeps it for a while.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub(crate) page: PageId,
    pub(crate) frame: u32,
}

/// Up to eight bytes of `key` from `at` on as a number; keys that end are followed by zeros.
#[inline]
fn head(key: &[u8], at: usize) -> u64 {
    let Some(rest) = key.get(at..) else { return 0 };
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Where the children of a page were that its guide knew, before it is made anew: a split moves those behind it by a slot.
struct Frames {
    known: [(u64, u32); CHILDREN_MAX],
    count: usize,
    at: usize,
}

impl Frames {
    /// Children that may be gone between two that are still there.
    const GONE_MAX: usize = 2;

    fn of(guide: &Guide, page: &PageBuf) -> Self {
        let mut frames = Self { known: [(0, 0); CHILDREN_MAX], count: 0, at: 0 };
        if guide.of.load(Ordering::Relaxed) == page.page_id().0 {
            frames.count = (guide.known.load(Ordering::Relaxed) as usize).min(CHILDREN_MAX);
            for (slot, known) in frames.known.iter_mut().enumerate().take(frames.count) {
                let Child { page, frame } = &guide.children[slot];
                *known = (page.load(Ordering::Relaxed), frame.load(Ordering::Relaxed));
            }
        }
        frames
    }

    /// Where `child`, which is behind those asked for before, was; `u32::MAX`: that is not known.
    fn next(&mut self, child: u64) -> u32 {
        let near = self.at..self.count.min(self.at + 1 + Self::GONE_MAX);
        let found = near.clone().find(|at| self.known[*at].0 == child);
        found.map_or(u32::MAX, |at| {
            self.at = at + 1;
            self.known[at].1
        })
    }
}

impl Guide {
    pub fn new() -> Self {
        Self {
            of: AtomicU64::new(0),
            lsn: AtomicU64::new(0),
            shape: AtomicU32::new(USELESS),
            known: AtomicU32::new(0),
            making: AtomicBool::new(false),
            frame: AtomicU32::new(0),
            prefix: [const { AtomicU64::new(0) }; SKIPPED_MAX / 8],
            heads: [const { AtomicU64::new(0) }; CHILDREN_MAX],
            tops: [const { AtomicU64::new(0) }; CHILDREN_MAX.div_ceil(BLOCK)],
            children: [const { Child { page: AtomicU64::new(0), frame: AtomicU32::new(u32::MAX) } }; CHILDREN_MAX],
        }
    }

    pub fn is_of(&self, page: &PageBuf) -> bool {
        self.of.load(Ordering::Acquire) == page.page_id().0 && self.lsn.load(Ordering::Relaxed) == page.lsn().0
    }

    /// Makes it the guide of a latched inner page, unless somebody is about that.
    pub fn make(&self, page: &PageBuf) {
        if self.making.swap(true, Ordering::Acquire) {
            return;
        }
        let mut known = Frames::of(self, page);
        self.of.store(0, Ordering::Release);
        self.shape.store(self.copy(page, &mut known), Ordering::Relaxed);
        self.lsn.store(page.lsn().0, Ordering::Relaxed);
        self.of.store(page.page_id().0, Ordering::Release);
        self.making.store(false, Ordering::Release);
    }

    /// The shape.
    fn copy(&self, page: &PageBuf, known: &mut Frames) -> u32 {
        let count = usize::from(page.slot_count());
        if count == 0 || count > CHILDREN_MAX || !page.is(PageType::Inner) {
            self.known.store(0, Ordering::Relaxed);
            return USELESS;
        }
        self.known.store(count as u32, Ordering::Relaxed);
        let key = |slot: usize| inner::key_of(page.rec(SlotId(slot as u16)));
        let (first, last) = (key(1.min(count - 1)), key(count - 1));
        let common = if count == 1 { 0 } else { first.iter().zip(last).take_while(|(a, b)| a == b).count() };
        let skipped = common.min(SKIPPED_MAX);
        for (at, word) in self.prefix.iter().enumerate() {
            let from = (at * 8).min(skipped);
            word.store(head(&first[from..(from + 8).min(skipped)], 0), Ordering::Relaxed);
        }
        let (mut alike, mut before) = (0, None);
        for slot in 0..count {
            let record = page.rec(SlotId(slot as u16));
            let head = if slot == 0 { 0 } else { head(inner::key_of(record), skipped) };
            alike += usize::from(before == Some(head) && slot > 1);
            before = Some(head);
            let child = inner::child_of(record).0;
            self.heads[slot].store(head, Ordering::Relaxed);
            if slot % BLOCK == 0 {
                self.tops[slot / BLOCK].store(head, Ordering::Relaxed);
            }
            self.children[slot].page.store(child, Ordering::Relaxed);
            self.children[slot].frame.store(known.next(child), Ordering::Relaxed);
        }
        if alike > count / 8 {
            return USELESS;
        }
        count as u32 | u32::from(page.level()) << 16 | (skipped as u32) << 24
    }

    /// The child of page `of` that has `key`, as far as is known, and the page's level.
    #[inline]
    pub fn find(&self, of: PageId, key: &[u8]) -> Option<(Guess<'_>, u8)> {
        if self.of.load(Ordering::Acquire) != of.0 {
            return None;
        }
        let shape = self.shape.load(Ordering::Relaxed);
        let (count, level, skipped) = ((shape & 0xffff) as usize, (shape >> 16) as u8, (shape >> 24) as usize);
        if count == 0 || count > CHILDREN_MAX || skipped > SKIPPED_MAX {
            return None;
        }
        let slot = match self.beside_prefix(key, skipped) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => count - 1,
            std::cmp::Ordering::Equal => self.last_not_above(head(key, skipped), count),
        };
        let Child { page, frame } = &self.children[slot];
        let page = PageId(page.load(Ordering::Relaxed));
        page.is_some().then_some((Guess { page, frame }, level))
    }

    /// The frame that the child in that slot was in.
    #[inline]
    pub fn frame_of(&self, slot: usize) -> Option<&AtomicU32> {
        self.children.get(slot).map(|child| &child.frame)
    }

    /// How the begin of `key` compares with what the keys have in common.
    #[inline]
    fn beside_prefix(&self, key: &[u8], skipped: usize) -> std::cmp::Ordering {
        let mut at = 0;
        while at < skipped {
            let end = (at + 8).min(skipped);
            let own = key.get(at..end.min(key.len())).map_or(0, |part| head(part, 0));
            match own.cmp(&self.prefix[at / 8].load(Ordering::Relaxed)) {
                std::cmp::Ordering::Equal => at = end,
                other => return other,
            }
        }
        std::cmp::Ordering::Equal
    }

    /// The last slot whose key is at or below; the first counts as that.
    #[inline]
    fn last_not_above(&self, head: u64, count: usize) -> usize {
        // They ascend, so how many are at or below says which is the last: counted without a branch that the processor would have to guess.
        let at_or_below = |keys: &[AtomicU64]| keys.iter().filter(|key| key.load(Ordering::Relaxed) <= head).count();
        let first = BLOCK * at_or_below(&self.tops[1..count.div_ceil(BLOCK)]);
        first + at_or_below(&self.heads[first + 1..count.min(first + BLOCK)])
    }
}
