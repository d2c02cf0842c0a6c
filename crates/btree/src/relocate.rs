//! Moving a page of a tree to a free place below it in its file, so that the file's end becomes free.
//!
//! A node is known to its parent only (there are no sibling pointers), so a move is one mini-transaction: the new page with all that the
//! old one has, the parent's pointer, the old page freed. Its latches are those of a split. Who has guessed the old page finds a free one,
//! or one of other fences. The root stays where it is: definitions name it.

use resurgam_base::{PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, Mtr};
use resurgam_page::{PageType, inner, op, space};

use crate::Tree;
use crate::search::Target;

/// What [`Tree::move_down`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Moved,
    /// It is the tree's root.
    Root,
    /// There is no free place below.
    NoPlace,
    /// It is no page of the tree, or is none any more.
    Gone,
}

impl Tree {
    /// Moves the node on `page` to the lowest free place below its extent.
    ///
    /// # Errors
    /// Those of reading and of the log.
    pub fn move_down(&self, pool: &BufferPool, page: PageId) -> Result<Move> {
        if page == self.root {
            return Ok(Move::Root);
        }
        let (level, key) = {
            let node = pool.read(page, Access::Scan)?;
            if !(node.is(PageType::Leaf) || node.is(PageType::Inner)) || node.object() != self.object {
                return Ok(Move::Gone);
            }
            (node.level(), node.lower_fence().to_vec())
        };
        let parent = self.write_level(pool, Target::Key(&key), level + 1)?;
        if parent.level() != level + 1 {
            return Ok(Move::Gone);
        }
        let (at, child) = inner::child_for(&parent, &key);
        if child != page {
            return Ok(Move::Gone);
        }
        let node = pool.write(page, Access::Scan)?;
        self.check(page, &node, Some(level))?;
        let mut mtr = Mtr::new(pool);
        let parent_at = mtr.add(parent);
        let old_at = mtr.add(node);
        let pfs = if mtr.page(old_at).has_versions() { space::PFS_HAS_VERSIONS } else { 0 };
        let Some((new_id, new_at)) = pool.space().allocate_below(&mut mtr, self.object, pfs, page)? else {
            return Ok(Move::NoPlace);
        };
        let old = mtr.page(old_at);
        let (lower, upper) = (old.lower_fence().to_vec(), old.upper_fence().map(<[u8]>::to_vec));
        let flags = old.flags();
        let records: Vec<Vec<u8>> = (0..old.slot_count()).map(|slot| old.rec(SlotId(slot)).to_vec()).collect();
        let ty = if level == 0 { PageType::Leaf } else { PageType::Inner };
        let ops = mtr.ops(new_at);
        op::format(ops, ty, level, self.object, &lower, upper.as_deref());
        op::set_flags(ops, flags, 0);
        op::insert_many(ops, SlotId(0), records.iter().map(Vec::as_slice));
        let (page_of_parent, ops) = mtr.page_and_ops(parent_at);
        op::replace(ops, at, &inner::encode(inner::key_of(page_of_parent.rec(at)), new_id));
        pool.space().free(&mut mtr, page, self.object, old_at)?;
        mtr.commit()?;
        pool.note_moved();
        Ok(Move::Moved)
    }
}
