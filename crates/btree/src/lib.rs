//! B+trees over the buffer pool. A tree knows keys and pages; what a leaf record's
//! value and versions mean is the business of the layer above.
//!
//! | file | concept |
//! |---|---|
//! | `search.rs` | descent, by guides or with latch coupling |
//! | `split.rs` | making room: leaf, inner and root splits |
//! | `merge.rs` | taking empty and underfull leaves out |
//! | `pack.rs` | putting rows together on fewer leaves |
//! | `relocate.rs` | moving pages down in their file |
//! | `scan.rs` | walking leaves in key order, either way |
//! | `ahead.rs` | naming the leaves that a walk comes to next |
//! | `create.rs` | new trees; freeing whole trees |
//! | `verify.rs` | proof that a tree is a tree |
//!
//! # Invariants
//! 1. Every node carries its fence keys: all its keys are `>= lower` and `< upper`.
//!    A child's fences are exactly the separators around its entry in the parent.
//! 2. The root page never moves.
//! 3. Latches are taken from the root down and a parent is released only when the child
//!    is latched, so a node that was reached covers the key that was looked for. A leaf that was
//!    guessed is latched alone, without waiting, and used only if its fences hold the key.
//! 4. Descents latch shared; only the leaf that changes, or the two levels that a split
//!    or merge changes, are latched exclusively.
//! 5. There are no sibling pointers: a scan finds the next leaf by its upper fence. So
//!    a split or merge touches a parent and its children and nothing else.
//! 6. Every split, merge, packing and move is one mini-transaction, never undone.

mod ahead;
mod create;
mod merge;
mod pack;
mod relocate;
mod scan;
mod search;
mod split;
mod verify;

pub use ahead::Ahead;
pub use create::{create, free_tree_step, is_there};
pub use merge::MergeOutcome;
pub use pack::Packed;
pub use relocate::Move;
pub use scan::LeafWalk;
pub use search::{Found, Size, Spot};
pub use verify::{TreeReport, verify};

use resurgam_base::{ObjectId, PageId};

/// A tree: its root page, and the object that owns its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    pub root: PageId,
    pub object: ObjectId,
}

/// Depth that no real tree reaches; a longer descent means damaged pointers.
pub(crate) const DEPTH_MAX: usize = 24;
