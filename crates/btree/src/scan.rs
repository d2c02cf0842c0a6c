//! Walking the leaves of a range, in key order or against it.
//!
//! The walk holds no latch between leaves; it remembers the fence at which to go on. A
//! leaf that is split or merged meanwhile is found again by key, so nothing is skipped
//! or seen twice.

use resurgam_base::{Error, Result};
use resurgam_buffer::{Access, BufferPool, ReadGuard};

use crate::Tree;
use crate::search::Target;

/// A position between leaves.
#[derive(Clone, Debug)]
pub struct LeafWalk {
    tree: Tree,
    /// Where the next leaf is: `None` = the walk is over.
    at: Option<At>,
    /// Where the leaf handed out last was entered.
    entered: Option<At>,
}

#[derive(Clone, Debug)]
enum At {
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

    /// Whether a key of the leaf handed out last is new to this walk. A merge may have put rows
    /// that were handed out before onto it.
    pub fn is_new(&self, key: &[u8]) -> bool {
        match &self.entered {
            Some(At::Key(from)) => key >= from.as_slice(),
            Some(At::Below(below)) => key < below.as_slice(),
            Some(At::Last) | None => true,
        }
    }

    /// The next leaf, shared. The walk moves on when it is asked again, so the caller
    /// sees each leaf once.
    pub fn next<'p>(&mut self, pool: &'p BufferPool) -> Result<Option<ReadGuard<'p>>> {
        let Some(at) = self.at.take() else { return Ok(None) };
        let (leaf, ascending) = match &at {
            At::Key(key) => (self.tree.read_target(pool, Target::Key(key), Access::Scan)?, true),
            At::Below(key) => (self.tree.read_target(pool, Target::Below(key), Access::Scan)?, false),
            At::Last => (self.tree.read_target(pool, Target::Last, Access::Scan)?, false),
        };
        if ascending {
            if let Some(upper) = leaf.upper_fence() {
                if let At::Key(key) = &at
                    && upper <= key.as_slice()
                {
                    return Err(Error::corrupt(format!("page {} does not cover the key that led to it", leaf.id())));
                }
                self.at = Some(At::Key(upper.to_vec()));
            }
        } else if !leaf.lower_fence().is_empty() {
            if let At::Below(key) = &at
                && leaf.lower_fence() >= key.as_slice()
            {
                return Err(Error::corrupt(format!("page {} does not cover the key that led to it", leaf.id())));
            }
            self.at = Some(At::Below(leaf.lower_fence().to_vec()));
        }
        self.entered = Some(at);
        Ok(Some(leaf))
    }
}
