//! Merges: a leaf of which nothing, or little, is left goes out of its tree.
//!
//! *Joined*: the left one of two neighbours under the same parent takes over the right one's
//! records and range; the right page is freed. *Unlinked*: a leaf without records that matter
//! leaves its range to its left neighbour, or, if it is its parent's first child, to its right
//! one; no record moves. No fence changes but those of the neighbour that takes over.
//!
//! When its parent has become sparse the parent is joined with a neighbour in the same way, level
//! by level, so that a tree from which everything was deleted shrinks to a handful of pages.
//!
//! Only one parent and two or three neighbouring children are latched at a time, left to right. Leaves that are fuller are packed when
//! somebody asks for it (`pack.rs`).

use resurgam_base::{Error, PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, Mtr, PlantedInGiveBack, WriteGuard};
use resurgam_page::{PageBuf, inner, op, space};

use crate::search::Target;
use crate::{DEPTH_MAX, Tree};

/// A merged page may be this full, so that it is not split again at once.
const FILL_MAX: usize = 6 * 1024;
/// Inner nodes with less than this are offered for merging.
const SPARSE_BELOW: usize = 2 * 1024;

/// What [`Tree::merge_leaf`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    Merged,
    /// The leaf held nothing that matters, and is freed; no record was moved.
    Unlinked,
    /// Too full, or no neighbour under the same parent.
    NotPossible,
    /// The root lost a level.
    Shrunk,
}

/// What one level gave.
struct Step {
    outcome: MergeOutcome,
    /// The parent is worth a look.
    parent_sparse: bool,
    /// The root has one child left.
    last_of_root: bool,
}

impl Tree {
    /// Takes the leaf that covers `key` out of the tree: unlinked if `is_empty` says that
    /// nothing on it matters (it is asked while the leaf is latched exclusively), else joined
    /// with a neighbour if both fit one page. `on_move` is told of the page that receives rows,
    /// while it is latched exclusively and before it does.
    pub fn merge_leaf(
        &self,
        pool: &BufferPool,
        key: &[u8],
        is_empty: impl Fn(&PageBuf) -> bool,
        mut on_move: impl FnMut(PageId),
    ) -> Result<MergeOutcome> {
        let mut reached = MergeOutcome::NotPossible;
        loop {
            let mut seam = false;
            for level in 0..DEPTH_MAX as u8 {
                let step = self.merge_at(pool, key, level, &is_empty, &mut on_move)?;
                if reached == MergeOutcome::NotPossible {
                    reached = step.outcome;
                }
                let done = step.outcome != MergeOutcome::NotPossible;
                // Children that were under two parents may be joined now.
                seam |= done && level > 0;
                if step.last_of_root {
                    self.merge_at(pool, key, level, &is_empty, &mut on_move)?; // shrinks it
                }
                if !step.parent_sparse || step.outcome == MergeOutcome::Shrunk {
                    break;
                }
            }
            if !seam {
                return Ok(reached);
            }
        }
    }

    fn merge_at(
        &self,
        pool: &BufferPool,
        key: &[u8],
        level: u8,
        is_empty: &dyn Fn(&PageBuf) -> bool,
        on_move: &mut dyn FnMut(PageId),
    ) -> Result<Step> {
        let nothing =
            |parent_sparse| Ok(Step { outcome: MergeOutcome::NotPossible, parent_sparse, last_of_root: false });
        let parent = self.write_level(pool, Target::Key(key), level + 1)?;
        if parent.level() <= level {
            return nothing(false);
        }
        let count = parent.slot_count();
        let is_root = parent.id() == self.root;
        if count == 0 {
            return Err(Error::corrupt(format!("page {} of tree {} has no children", parent.id(), self.object)));
        }
        if count == 1 {
            if is_root {
                self.shrink_root(pool, parent, on_move)?;
                return Ok(Step { outcome: MergeOutcome::Shrunk, parent_sparse: false, last_of_root: false });
            }
            return nothing(true);
        }
        let parent_sparse = !is_root && parent.used() < SPARSE_BELOW;
        let last_of_root = is_root && count == 2;
        let at = inner::child_for(&parent, key).0.0;
        let left = if at > 0 { Some(self.latch_child(pool, &parent, at - 1)?) } else { None };
        let this = self.latch_child(pool, &parent, at)?;
        let empty = level == 0 && is_empty(&this);
        let outcome = if empty { MergeOutcome::Unlinked } else { MergeOutcome::Merged };
        if let Some(left) = left {
            if empty && fences_fit(&left, left.lower_fence(), this.upper_fence()) {
                self.unlink(pool, parent, at, this, left, Side::Left)?;
                return Ok(Step { outcome, parent_sparse, last_of_root });
            }
            if !empty && left.used() + this.used() <= FILL_MAX {
                on_move(left.id());
                self.join(pool, parent, at, left, this)?;
                return Ok(Step { outcome, parent_sparse, last_of_root });
            }
        }
        if at + 1 < count {
            let right = self.latch_child(pool, &parent, at + 1)?;
            if empty && fences_fit(&right, this.lower_fence(), right.upper_fence()) {
                self.unlink(pool, parent, at, this, right, Side::Right)?;
                return Ok(Step { outcome, parent_sparse, last_of_root });
            }
            if !empty && this.used() + right.used() <= FILL_MAX {
                on_move(this.id());
                self.join(pool, parent, at + 1, this, right)?;
                return Ok(Step { outcome, parent_sparse, last_of_root });
            }
        }
        nothing(parent_sparse)
    }

    /// The child in a slot, latched exclusively.
    pub(crate) fn latch_child<'p>(
        &self,
        pool: &'p BufferPool,
        parent: &WriteGuard<'p>,
        slot: u16,
    ) -> Result<WriteGuard<'p>> {
        let id = inner::child_of(parent.rec(SlotId(slot)));
        let twice = slot > 0 && id == inner::child_of(parent.rec(SlotId(slot - 1)));
        if id.is_none() || id == parent.id() || twice {
            return Err(Error::corrupt(format!(
                "page {} of tree {} has a wrong pointer in slot {slot}",
                parent.id(),
                self.object
            )));
        }
        let page = pool.write(id, Access::Scan)?;
        self.check(id, &page, Some(parent.level() - 1))?;
        Ok(page)
    }

    /// `left` takes over the records and the range of `right`, which is in slot `at`.
    pub(crate) fn join(
        &self,
        pool: &BufferPool,
        parent: WriteGuard<'_>,
        at: u16,
        left: WriteGuard<'_>,
        right: WriteGuard<'_>,
    ) -> Result<()> {
        let (left_id, right_id) = (left.id(), right.id());
        let is_marked = !PlantedInGiveBack::MarkForgotten.is_planted();
        let versions = right.has_versions() && !left.has_versions() && is_marked;
        let mut mtr = Mtr::new(pool);
        let parent_at = mtr.add(parent);
        let left_ref = mtr.add(left);
        let right_ref = mtr.add(right);
        // Slot 0 of an inner node is keyed by its lower fence, so records follow each other as
        // they are.
        let records = records_of(mtr.page(right_ref));
        let upper = mtr.page(right_ref).upper_fence().map(<[u8]>::to_vec);
        let lower = mtr.page(left_ref).lower_fence().to_vec();
        let flags = mtr.page(right_ref).flags();
        let count = mtr.page(left_ref).slot_count();
        let ops = mtr.ops(left_ref);
        op::set_fences(ops, &lower, upper.as_deref());
        op::insert_many(ops, SlotId(count), records.iter().map(Vec::as_slice));
        op::set_flags(ops, flags, 0);
        op::remove(mtr.ops(parent_at), SlotId(at));
        pool.space().free(&mut mtr, right_id, self.object, right_ref)?;
        if versions {
            pool.space().set_flags(&mut mtr, left_id, space::PFS_HAS_VERSIONS, 0)?;
        }
        mtr.commit()?;
        Ok(())
    }

    /// Frees the leaf in slot `at`; its range goes to its neighbour on `side`.
    fn unlink(
        &self,
        pool: &BufferPool,
        parent: WriteGuard<'_>,
        at: u16,
        leaf: WriteGuard<'_>,
        neighbour: WriteGuard<'_>,
        side: Side,
    ) -> Result<()> {
        let (leaf_id, neighbour_id) = (leaf.id(), neighbour.id());
        let mut mtr = Mtr::new(pool);
        let parent_at = mtr.add(parent);
        let (leaf_at, neighbour_at) = match side {
            Side::Left => {
                let neighbour = mtr.add(neighbour);
                (mtr.add(leaf), neighbour)
            }
            Side::Right => (mtr.add(leaf), mtr.add(neighbour)),
        };
        let mut fences = Vec::with_capacity(64);
        let (leaf, neighbour) = (mtr.page(leaf_at), mtr.page(neighbour_at));
        match side {
            Side::Left => op::set_fences(&mut fences, neighbour.lower_fence(), leaf.upper_fence()),
            Side::Right => op::set_fences(&mut fences, leaf.lower_fence(), neighbour.upper_fence()),
        }
        mtr.ops(neighbour_at).extend_from_slice(&fences);
        let (page, ops) = mtr.page_and_ops(parent_at);
        op::remove(ops, SlotId(at));
        if side == Side::Right {
            // The neighbour moves into this slot; it keeps the slot's key, its new lower fence.
            op::replace(ops, SlotId(at), &inner::encode(inner::key_of(page.rec(SlotId(at))), neighbour_id));
        }
        pool.space().free(&mut mtr, leaf_id, self.object, leaf_at)?;
        mtr.commit()?;
        Ok(())
    }

    /// The root takes over its only child's content.
    fn shrink_root(&self, pool: &BufferPool, root: WriteGuard<'_>, on_move: &mut dyn FnMut(PageId)) -> Result<()> {
        let child_id = inner::child_of(root.rec(SlotId(0)));
        let child = pool.write(child_id, Access::Point)?;
        self.check(child_id, &child, Some(root.level() - 1))?;
        on_move(self.root);
        let versions = child.has_versions();
        let mut mtr = Mtr::new(pool);
        let root_ref = mtr.add(root);
        let child_ref = mtr.add(child);
        let source = mtr.page(child_ref);
        let (ty, level, flags) = (source.page_type(), source.level(), source.flags());
        let Some(ty) = ty else { return Err(Error::corrupt(format!("page {child_id} has no type"))) };
        let records = records_of(source);
        let ops = mtr.ops(root_ref);
        op::format(ops, ty, level, self.object, &[], None);
        op::set_flags(ops, flags, 0);
        op::insert_many(ops, SlotId(0), records.iter().map(Vec::as_slice));
        pool.space().free(&mut mtr, child_id, self.object, child_ref)?;
        if versions {
            pool.space().set_flags(&mut mtr, self.root, space::PFS_HAS_VERSIONS, 0)?;
        }
        mtr.commit()?;
        Ok(())
    }
}

/// Where a leaf's range goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Whether the page has room for these fences in place of its own.
fn fences_fit(page: &PageBuf, lower: &[u8], upper: Option<&[u8]>) -> bool {
    let len = |upper: Option<&[u8]>| upper.map_or(0, <[u8]>::len);
    lower.len() + len(upper) <= page.free_total() + page.lower_fence().len() + len(page.upper_fence())
}

pub(crate) fn records_of(page: &PageBuf) -> Vec<Vec<u8>> {
    (0..page.slot_count()).map(|s| page.rec(SlotId(s)).to_vec()).collect()
}
