//! Merges: an empty or underfull leaf is joined with its right neighbour under the
//! same parent. The left page stays, the right page is freed, so the parent loses the
//! right one's separator and no fence of another node changes.

use resurgam_base::{Error, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, Mtr};
use resurgam_page::{PageBuf, inner, op, space};

use crate::Tree;
use crate::search::Target;

/// A merged leaf may be this full, so that it is not split again at once.
const FILL_MAX: usize = 6 * 1024;

/// What [`Tree::merge_leaf`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    Merged,
    /// Too full, or no neighbour under the same parent.
    NotPossible,
    /// The root lost a level.
    Shrunk,
}

impl Tree {
    /// Joins the leaf that covers `key` with a neighbour if both fit one page.
    /// `on_move` is told of the page that receives rows, before it does.
    pub fn merge_leaf(
        &self,
        pool: &BufferPool,
        key: &[u8],
        mut on_move: impl FnMut(resurgam_base::PageId),
    ) -> Result<MergeOutcome> {
        let parent = self.write_level(pool, Target::Key(key), 1)?;
        if parent.level() == 0 {
            return Ok(MergeOutcome::NotPossible);
        }
        if parent.slot_count() == 0 {
            return Err(Error::corrupt(format!("page {} of tree {} has no children", parent.id(), self.object)));
        }
        if parent.slot_count() == 1 {
            return if parent.id() == self.root {
                self.shrink_root(pool, parent, on_move)
            } else {
                Ok(MergeOutcome::NotPossible)
            };
        }
        let (at, _) = inner::child_for(&parent, key);
        // Take the pair (left, right) with this leaf in it.
        let left_at = if at.0 + 1 < parent.slot_count() { at.0 } else { at.0.saturating_sub(1) };
        let left_id = inner::child_of(parent.rec(SlotId(left_at)));
        let right_id = inner::child_of(parent.rec(SlotId(left_at + 1)));
        if left_id == right_id || left_id == parent.id() || right_id == parent.id() {
            return Err(Error::corrupt(format!("page {} of tree {} has a pointer twice", parent.id(), self.object)));
        }
        let left = pool.write(left_id, Access::Point)?;
        self.check(left_id, &left, Some(0))?;
        let right = pool.write(right_id, Access::Point)?;
        self.check(right_id, &right, Some(0))?;
        if left.used() + right.used() > FILL_MAX {
            return Ok(MergeOutcome::NotPossible);
        }
        on_move(left_id);
        let versions = right.has_versions() && !left.has_versions();
        let mut mtr = Mtr::new(pool);
        let parent_at = mtr.add(parent);
        let left_ref = mtr.add(left);
        let right_ref = mtr.add(right);
        let records = records_of(mtr.page(right_ref));
        let upper = mtr.page(right_ref).upper_fence().map(<[u8]>::to_vec);
        let lower = mtr.page(left_ref).lower_fence().to_vec();
        let flags = mtr.page(right_ref).flags();
        let count = mtr.page(left_ref).slot_count();
        let ops = mtr.ops(left_ref);
        op::set_fences(ops, &lower, upper.as_deref());
        op::insert_many(ops, SlotId(count), records.iter().map(Vec::as_slice));
        op::set_flags(ops, flags, 0);
        op::remove(mtr.ops(parent_at), SlotId(left_at + 1));
        pool.space().free(&mut mtr, right_id, self.object, right_ref)?;
        if versions {
            pool.space().set_flags(&mut mtr, left_id, space::PFS_HAS_VERSIONS, 0)?;
        }
        mtr.commit()?;
        Ok(MergeOutcome::Merged)
    }

    /// The root takes over its only child's content.
    fn shrink_root(
        &self,
        pool: &BufferPool,
        root: resurgam_buffer::WriteGuard<'_>,
        mut on_move: impl FnMut(resurgam_base::PageId),
    ) -> Result<MergeOutcome> {
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
        Ok(MergeOutcome::Shrunk)
    }
}

fn records_of(page: &PageBuf) -> Vec<Vec<u8>> {
    (0..page.slot_count()).map(|s| page.rec(SlotId(s)).to_vec()).collect()
}
