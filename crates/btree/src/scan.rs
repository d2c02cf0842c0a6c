//! Walking the leaves of a range, in key order or against it; and naming all leaves without reading them.
//!
//! The walk holds no latch between leaves; it remembers the fence at which to go on. A
//! leaf that is split or merged meanwhile is found again by key, so nothing is skipped
//! or seen twice.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use resurgam_base::{Error, PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, Place, Planted, ReadGuard};
use resurgam_page::inner::InnerRecord;
use resurgam_page::{PageBuf, inner, leaf};

use crate::Tree;
use crate::search::Target;

/// Leaves that are passed over while the node above them is latched: a split has to wait for that.
const PASSED_AT_ONCE: u16 = 64;
/// Of them, those that are latched at a time.
const LATCHED_AHEAD: u16 = 8;

/// A position between leaves.
#[derive(Clone, Debug)]
pub struct LeafWalk {
    pub(crate) tree: Tree,
    /// Where the next leaf is: `None` = the walk is over.
    pub(crate) at: Option<At>,
    /// Where the leaf handed out last was entered.
    entered: Option<At>,
    /// The next leaf, as far as that is known without reading one: a guess.
    ahead: Option<Place>,
}

#[derive(Clone, Debug)]
pub(crate) enum At {
    Key(Vec<u8>),
    Below(Vec<u8>),
    Last,
}

impl LeafWalk {
    /// Leaves from the one that covers `key`, ascending. The empty key is below all keys.
    pub fn ascending(tree: Tree, key: Vec<u8>) -> Self {
        Self { tree, at: Some(At::Key(key)), entered: None, ahead: None }
    }
    /// Leaves from the one that covers the keys just below `key`, descending.
    pub fn descending(tree: Tree, key: Option<Vec<u8>>) -> Self {
        Self { tree, at: Some(key.map_or(At::Last, At::Below)), entered: None, ahead: None }
    }

    /// Whether a key of the leaf handed out last is new to this walk: see [`LeafWalk::new_slots`].
    pub fn is_new(&self, key: &[u8]) -> bool {
        match &self.entered {
            Some(At::Key(from)) => key >= from.as_slice(),
            Some(At::Below(below)) => key < below.as_slice(),
            Some(At::Last) | None => true,
        }
    }

    /// The slots of `leaf`, which was handed out last, that are new to this walk. A merge may have put rows that were
    /// handed out before onto it.
    pub fn new_slots(&self, leaf: &PageBuf) -> Range<u16> {
        let count = leaf.slot_count();
        let at = |key: &[u8]| leaf::search(leaf, key).unwrap_or_else(|slot| slot).0;
        match &self.entered {
            Some(At::Key(from)) if leaf.lower_fence() < from.as_slice() => at(from)..count,
            Some(At::Below(below)) if leaf.upper_fence().is_none_or(|upper| upper > below.as_slice()) => 0..at(below),
            _ => 0..count,
        }
    }

    /// Passes over what [`LeafWalk::next`] could not read on an ascending walk: a leaf, or all below an
    /// inner node. Returns the keys that are missed, from the first on and up to before the second (none: to
    /// the end); or nothing if it can be read by now.
    ///
    /// # Errors
    /// Those of reading the root: then there is nothing else to be read.
    pub fn pass_over(&mut self, pool: &BufferPool) -> Result<Option<(Vec<u8>, Option<Vec<u8>>)>> {
        let Some(At::Key(from)) = &self.at else { return Ok(None) };
        let from = from.clone();
        let upper = self.tree.unreadable_until(pool, &from)?;
        Ok(upper.map(|upper| {
            self.at = upper.clone().map(At::Key);
            (from, upper)
        }))
    }

    /// Passes over leaves that need not be handed out, on an ascending walk that has handed one out: asks `pass` of each, in
    /// order, and stops at the first that it does not take, that goes on beyond `until`, or that would have to be waited for.
    /// How many it took. Cheaper than a descent for each: their parent says which they are, and is latched for no more than
    /// [`PASSED_AT_ONCE`] of them.
    ///
    /// # Errors
    /// Those of reading the nodes above, and those of `pass`; the walk stands behind what was passed.
    pub fn pass_leaves(
        &mut self,
        pool: &BufferPool,
        until: Option<&[u8]>,
        mut pass: impl FnMut(&ReadGuard<'_>) -> Result<bool>,
    ) -> Result<usize> {
        let Some(At::Key(from)) = &mut self.at else { return Ok(0) };
        if self.entered.is_none() {
            return Ok(0);
        }
        let node = self.tree.read_level(pool, Target::Key(from), 1, Access::Point)?;
        if node.level() == 0 {
            return Ok(0);
        }
        pool.learn_way(&node);
        let children = pool.children(&node);
        let (first, count) = (inner::child_for(&node, from).0.0, node.slot_count());
        // A leaf of which a part was handed out before, since a merge has put it there.
        let is_begun = inner::key_of(node.rec(SlotId(first))) != from.as_slice();
        if is_begun && !Planted::PartPassed.is_planted() {
            return Ok(0);
        }
        let end_slot = count.min(first.saturating_add(PASSED_AT_ONCE));
        // Latched some ahead, so that the memory brings one while others are looked at. Nobody is waited for.
        let mut ahead: VecDeque<ReadGuard<'_>> = VecDeque::with_capacity(usize::from(LATCHED_AHEAD));
        let (mut next_ahead, mut all_had) = (first, true);
        let mut take = |slot: u16| -> Result<bool> {
            let upper =
                if slot + 1 < count { Some(inner::key_of(node.rec(SlotId(slot + 1)))) } else { node.upper_fence() };
            let within = match (upper, until) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(upper), Some(until)) => upper <= until,
            };
            if !within {
                return Ok(false);
            }
            while all_had && next_ahead < end_slot.min(slot + LATCHED_AHEAD) {
                let child = InnerRecord::parse(node.record(SlotId(next_ahead))?)?.child;
                match pool.try_read(&children.guess(next_ahead, child), Access::Scan) {
                    Some(leaf) => {
                        leaf.prefetch_header();
                        ahead.push_back(leaf);
                        next_ahead += 1;
                    }
                    None => all_had = false,
                }
            }
            let Some(leaf) = ahead.pop_front() else { return Ok(false) };
            self.tree.check(leaf.id(), &leaf, Some(0))?;
            pass(&leaf)
        };
        let (mut passed, mut end) = (0, Ok(()));
        for slot in first..end_slot {
            match take(slot) {
                Ok(true) => passed += 1,
                Ok(false) => break,
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        if passed > 0 {
            let next = first + passed;
            let at = if next < count { Some(inner::key_of(node.rec(SlotId(next)))) } else { node.upper_fence() };
            match at {
                Some(at) => {
                    from.clear();
                    from.extend_from_slice(at);
                }
                None => self.at = None,
            }
        }
        end.map(|()| usize::from(passed))
    }

    /// The next leaf, shared; after an error the walk is where it was. It moves on when it is asked again, so
    /// the caller sees each leaf once.
    pub fn next<'p>(&mut self, pool: &'p BufferPool) -> Result<Option<ReadGuard<'p>>> {
        let Some(at) = self.at.take() else { return Ok(None) };
        let ahead = self.ahead.take();
        let (leaf, ascending) = match &at {
            At::Key(key) => (self.tree.read_leaf_at(pool, key, ahead), true),
            At::Below(key) => (self.tree.read_target(pool, Target::Below(key), Access::Scan), false),
            At::Last => (self.tree.read_target(pool, Target::Last, Access::Scan), false),
        };
        let goes_on = self.entered.is_some();
        let mut next = match self.entered.take() {
            Some(At::Key(key) | At::Below(key)) => key,
            Some(At::Last) | None => Vec::new(),
        };
        next.clear();
        let leaf = match leaf {
            Ok(leaf) => leaf,
            Err(error) => {
                self.at = Some(at);
                return Err(error);
            }
        };
        if ascending {
            if let Some(upper) = leaf.upper_fence() {
                if let At::Key(key) = &at
                    && upper <= key.as_slice()
                {
                    return Err(Error::corrupt(format!("page {} does not cover the key that led to it", leaf.id())));
                }
                next.extend_from_slice(upper);
                // Most walks that have come to a second leaf go on.
                if goes_on {
                    self.ahead = self.tree.ahead(pool, &next);
                }
                self.at = Some(At::Key(next));
            }
        } else if !leaf.lower_fence().is_empty() {
            if let At::Below(key) = &at
                && leaf.lower_fence() >= key.as_slice()
            {
                return Err(Error::corrupt(format!("page {} does not cover the key that led to it", leaf.id())));
            }
            next.extend_from_slice(leaf.lower_fence());
            self.at = Some(At::Below(next));
        }
        self.entered = Some(at);
        Ok(Some(leaf))
    }
}

impl Tree {
    /// Names every leaf, by the nodes above them; no leaf is read unless it is the root. A leaf that the tree has all the time
    /// is named, whatever is split and merged meanwhile. Breaks off when `leaf` does.
    ///
    /// # Errors
    /// Those of reading a node above the leaves: then not all were named.
    pub fn name_leaves<B>(
        &self,
        pool: &BufferPool,
        mut leaf: impl FnMut(PageId) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        let mut from = Vec::new();
        loop {
            let node = self.read_level(pool, Target::Key(&from), 1, Access::Scan)?;
            if node.level() == 0 {
                return Ok(leaf(self.root));
            }
            for s in 0..node.slot_count() {
                if let ControlFlow::Break(why) = leaf(InnerRecord::parse(node.record(SlotId(s))?)?.child) {
                    return Ok(ControlFlow::Break(why));
                }
            }
            match node.upper_fence() {
                None => return Ok(ControlFlow::Continue(())),
                Some(upper) if upper > from.as_slice() => from = upper.to_vec(),
                Some(_) => {
                    return Err(Error::corrupt(format!("page {} does not cover the key that led to it", node.id())));
                }
            }
        }
    }
}
