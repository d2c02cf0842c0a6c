//! New trees, and giving back the pages of dropped ones.

use resurgam_base::{Error, ObjectId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, Mtr};
use resurgam_page::{PageBuf, PageType, inner, op};

use crate::Tree;

/// Allocates an empty tree owned by `object`, as part of `mtr`.
pub fn create(mtr: &mut Mtr<'_>, object: ObjectId) -> Result<Tree> {
    let pool = mtr.pool();
    let (root, at) = pool.space().allocate(mtr, object, 0)?;
    op::format(mtr.ops(at), PageType::Leaf, 0, object, &[], None);
    Ok(Tree { root, object })
}

/// Whether the tree is there, as far as its root says, which goes last. Who has been told of it by what was written before its root was
/// freed finds another's page there, a free one, or, after a restart, a hole of the file, of which only the space map knows that it is free.
///
/// # Errors
/// Those of reading the root.
pub fn is_there(pool: &BufferPool, tree: Tree) -> Result<bool> {
    // Where the map cannot be read the root decides.
    if pool.is_free(tree.root).unwrap_or(false) {
        return Ok(false);
    }
    let root = pool.read(tree.root, Access::Scan)?;
    Ok(is_root_of(&root, tree))
}

fn is_root_of(page: &PageBuf, tree: Tree) -> bool {
    page.object() == tree.object && matches!(page.page_type(), Some(PageType::Leaf | PageType::Inner))
}

/// Frees some pages of a tree that nobody can reach any more: the last node under its
/// rightmost path. Call until it returns false; every call leaves a smaller valid tree,
/// so a crash in between costs nothing.
pub fn free_tree_step(pool: &BufferPool, tree: Tree) -> Result<bool> {
    // Descend along the last children to the last node that has no children left.
    if !is_there(pool, tree)? {
        return Ok(false); // the root is gone already
    }
    let mut parent = pool.write(tree.root, Access::Scan)?;
    if !is_root_of(&parent, tree) {
        return Ok(false);
    }
    loop {
        if parent.level() == 0 || parent.slot_count() == 0 {
            // Only the root comes here as a parent without children.
            let id = parent.id();
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(parent);
            pool.space().free(&mut mtr, id, tree.object, at)?;
            mtr.commit()?;
            return Ok(false);
        }
        let last = SlotId(parent.slot_count() - 1);
        let child_id = inner::child_of(parent.rec(last));
        if child_id.is_none() || child_id == parent.id() {
            return Err(Error::corrupt(format!(
                "page {} of dropped tree {} points to page {child_id}",
                parent.id(),
                tree.object
            )));
        }
        let child = pool.write(child_id, Access::Scan)?;
        tree.check(child_id, &child, Some(parent.level() - 1))?;
        if child.level() > 0 && child.slot_count() > 0 {
            parent = child;
            continue;
        }
        let mut mtr = Mtr::new(pool);
        let parent_at = mtr.add(parent);
        let child_at = mtr.add(child);
        op::remove(mtr.ops(parent_at), last);
        pool.space().free(&mut mtr, child_id, tree.object, child_at)?;
        mtr.commit()?;
        return Ok(true);
    }
}
