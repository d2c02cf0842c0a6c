//! Splits: making room for a record under a key.
//!
//! A split latches one parent and one child exclusively. When the parent has no room
//! for another separator it is split first, from its own parent: the descent starts
//! again one level higher. So however high a split must go, only two levels are ever
//! latched exclusively at a time, and the root only when the split reaches it.

use resurgam_base::{Error, PageId, Result, SlotId, limits::KEY_BYTES_MAX};
use resurgam_buffer::{Access, BufferPool, Mtr, WriteGuard};
use resurgam_page::{PageBuf, PageType, inner, leaf, op, space};

use crate::search::Target;
use crate::{DEPTH_MAX, Tree};

/// Room that an inner node keeps for the longest separator and its slot.
const SEPARATOR_ROOM: usize = KEY_BYTES_MAX + 2 + 8 + 4;

impl Tree {
    /// Splits until the leaf that covers `key` could take `len` more bytes (a record
    /// and its slot), or until someone else has made the room. The caller looks for it
    /// again afterwards; it was this page ([`Tree::find_to_write`] takes that as a hint).
    pub fn make_room(&self, pool: &BufferPool, key: &[u8], len: usize) -> Result<PageId> {
        for _ in 0..1000 {
            if let Some(leaf) = self.split_at(pool, key, 0, len)? {
                return Ok(leaf);
            }
        }
        Err(Error::internal(format!("tree {}: no room after many splits", self.object)))
    }

    /// One step towards room in the node at `level`; the node when it has it.
    fn split_at(&self, pool: &BufferPool, key: &[u8], level: u8, need: usize) -> Result<Option<PageId>> {
        if usize::from(level) > DEPTH_MAX {
            return Err(Error::corrupt(format!("tree {} is deeper than any tree can be", self.object)));
        }
        let parent = self.write_level(pool, Target::Key(key), level + 1)?;
        if parent.level() <= level {
            // The root itself is the node to split: grow the tree by a level first.
            if parent.fits(need) {
                return Ok(Some(parent.id()));
            }
            self.grow_root(pool, parent)?;
            return Ok(None);
        }
        if !parent.fits(SEPARATOR_ROOM) {
            drop(parent);
            return self.split_at(pool, key, level + 1, SEPARATOR_ROOM).map(|_| None);
        }
        let (at, child_id) = inner::child_for(&parent, key);
        if child_id == parent.id() {
            return Err(Error::corrupt(format!("page {child_id} of tree {} points to itself", self.object)));
        }
        let child = pool.write(child_id, Access::Point)?;
        self.check(child_id, &child, Some(level))?;
        if child.fits(need) {
            return Ok(Some(child_id));
        }
        self.split(pool, parent, at, child, key)?;
        Ok(None)
    }

    /// The root's content moves into one new child; the root becomes an inner node
    /// with that one child.
    fn grow_root(&self, pool: &BufferPool, root: WriteGuard<'_>) -> Result<()> {
        let mut mtr = Mtr::new(pool);
        let level = root.level();
        let flags = root.flags();
        let root_at = mtr.add(root);
        let pfs = if mtr.page(root_at).has_versions() { space::PFS_HAS_VERSIONS } else { 0 };
        let (child_id, child_at) = pool.space().allocate(&mut mtr, self.object, pfs)?;
        let records: Vec<Vec<u8>> = all_records(mtr.page(root_at));
        let ty = if level == 0 { PageType::Leaf } else { PageType::Inner };
        let ops = mtr.ops(child_at);
        op::format(ops, ty, level, self.object, &[], None);
        op::set_flags(ops, flags, 0);
        op::insert_many(ops, SlotId(0), records.iter().map(Vec::as_slice));
        let ops = mtr.ops(root_at);
        op::format(ops, PageType::Inner, level + 1, self.object, &[], None);
        op::insert(ops, SlotId(0), &inner::encode(&[], child_id));
        mtr.commit()?;
        Ok(())
    }

    fn split(
        &self,
        pool: &BufferPool,
        parent: WriteGuard<'_>,
        at: SlotId,
        child: WriteGuard<'_>,
        key: &[u8],
    ) -> Result<()> {
        let plan = plan(&child, key)?;
        let mut mtr = Mtr::new(pool);
        let level = child.level();
        let flags = child.flags();
        let parent_at = mtr.add(parent);
        let child_at = mtr.add(child);
        let pfs = if mtr.page(child_at).has_versions() { space::PFS_HAS_VERSIONS } else { 0 };
        let (right_id, right_at) = pool.space().allocate(&mut mtr, self.object, pfs)?;

        let left = mtr.page(child_at);
        let upper = left.upper_fence().map(<[u8]>::to_vec);
        let mut moved: Vec<Vec<u8>> = (plan.from.0..left.slot_count()).map(|s| left.rec(SlotId(s)).to_vec()).collect();
        let ty = if level == 0 { PageType::Leaf } else { PageType::Inner };
        if level > 0 {
            // Slot 0 of an inner node is keyed by the lower fence.
            if let Some(first) = moved.first_mut() {
                let child = inner::child_of(first);
                *first = inner::encode(&plan.separator, child);
            }
        }
        let ops = mtr.ops(right_at);
        op::format(ops, ty, level, self.object, &plan.separator, upper.as_deref());
        op::set_flags(ops, flags, 0);
        op::insert_many(ops, SlotId(0), moved.iter().map(Vec::as_slice));
        op::truncate(mtr.ops(child_at), plan.from, Some(&plan.separator));
        op::insert(mtr.ops(parent_at), SlotId(at.0 + 1), &inner::encode(&plan.separator, right_id));
        mtr.commit()?;
        Ok(())
    }
}

fn all_records(page: &PageBuf) -> Vec<Vec<u8>> {
    (0..page.slot_count()).map(|s| page.rec(SlotId(s)).to_vec()).collect()
}

struct Plan {
    /// First record that moves right.
    from: SlotId,
    /// Lower fence of the right node: above every key that stays, at most every key that moves.
    separator: Vec<u8>,
}

/// Where to split so that `key` finds room. Keys that arrive in ascending order leave
/// full nodes behind.
fn plan(page: &PageBuf, key: &[u8]) -> Result<Plan> {
    let count = page.slot_count();
    let is_leaf = page.level() == 0;
    let key_at = |s: u16| -> &[u8] {
        let rec = page.rec(SlotId(s));
        if is_leaf { leaf::key_of(rec) } else { inner::key_of(rec) }
    };
    if count == 0 {
        return Err(Error::internal("an empty node cannot be split"));
    }
    let last = key_at(count - 1);
    if is_leaf && key > last {
        let separator = shortest_between(last, key);
        // The left node needs room for its new upper fence.
        if page.free_total() >= separator.len() {
            return Ok(Plan { from: SlotId(count), separator });
        }
        if count > 1 {
            let before = key_at(count - 2);
            let separator = shortest_between(before, last);
            if page.free_total() + page.rec(SlotId(count - 1)).len() >= separator.len() {
                return Ok(Plan { from: SlotId(count - 1), separator });
            }
        }
    }
    if count == 1 {
        if is_leaf && key > last {
            return Ok(Plan { from: SlotId(1), separator: shortest_between(last, key) });
        }
        // One record, and the new one goes before it.
        if is_leaf && key < last {
            return Ok(Plan { from: SlotId(0), separator: shortest_between(key, last) });
        }
        return Err(Error::internal("a node with one record cannot be split"));
    }
    if !is_leaf && key >= last && page.upper_fence().is_none() {
        return Ok(Plan { from: SlotId(count - 1), separator: last.to_vec() });
    }
    let total: usize = (0..count).map(|s| page.rec(SlotId(s)).len() + 4).sum();
    let mut left = 0;
    let mut from = 1;
    for s in 0..count - 1 {
        left += page.rec(SlotId(s)).len() + 4;
        from = s + 1;
        if left * 2 >= total {
            break;
        }
    }
    let separator = if is_leaf { shortest_between(key_at(from - 1), key_at(from)) } else { key_at(from).to_vec() };
    Ok(Plan { from: SlotId(from), separator })
}

/// The shortest prefix of `high` that is greater than `low` (`low < high`).
pub(crate) fn shortest_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    high[..(common + 1).min(high.len())].to_vec()
}

#[cfg(test)]
mod tests {
    use super::shortest_between;

    #[test]
    fn separators_divide() {
        for (low, high) in [(&b"abc"[..], &b"abd"[..]), (b"a", b"ab"), (b"", b"q"), (b"az", b"b")] {
            let s = shortest_between(low, high);
            assert!(low < &s[..] && &s[..] <= high, "{low:?} {s:?} {high:?}");
        }
        assert_eq!(shortest_between(b"abc", b"abzzz"), b"abz");
    }
}
