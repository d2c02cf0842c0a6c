//! Walking the leaves of a range, in key order or against it; and naming all leaves without reading them.
//!
//! The walk holds no latch between leaves; it remembers the fence at which to go on. A
//! leaf that is split or merged meanwhile is found again by key, so nothing is skipped
//! or seen twice.

use std::ops::{ControlFlow, Range};

use resurgam_base::{Error, PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, ReadGuard};
use resurgam_page::{PageBuf, inner, leaf};

use crate::Tree;
use crate::search::Target;

/// A position between leaves.
#[derive(Clone, Debug)]
pub struct LeafWalk {
    pub(crate) tree: Tree,
    /// Where the next leaf is: `None` = the walk is over.
    pub(crate) at: Option<At>,
    /// Where the leaf handed out last was entered.
    entered: Option<At>,
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
        Self { tree, at: Some(At::Key(key)), entered: None }
    }
    /// Leaves from the one that covers the keys just below `key`, descending.
    pub fn descending(tree: Tree, key: Option<Vec<u8>>) -> Self {
        Self { tree, at: Some(key.map_or(At::Last, At::Below)), entered: None }
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

    /// The next leaf, shared; after an error the walk is where it was. It moves on when it is asked again, so
    /// the caller sees each leaf once.
    pub fn next<'p>(&mut self, pool: &'p BufferPool) -> Result<Option<ReadGuard<'p>>> {
        let Some(at) = self.at.take() else { return Ok(None) };
        let (leaf, ascending) = match &at {
            At::Key(key) => (self.tree.read_leaf(pool, key, Access::Scan), true),
            At::Below(key) => (self.tree.read_target(pool, Target::Below(key), Access::Scan), false),
            At::Last => (self.tree.read_target(pool, Target::Last, Access::Scan), false),
        };
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
                if let ControlFlow::Break(why) = leaf(inner::InnerRecord::parse(node.record(SlotId(s))?)?.child) {
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
