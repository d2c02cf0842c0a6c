//! Packing: rows of leaves that are partly free are put together on fewer leaves.
//!
//! Merges (`merge.rs`) take leaves out that are nearly empty, as they are met. Where every second row of a table was deleted
//! there is none: each leaf is half full. So who asks for it (VACUUM) has the leaves of each node looked at in order, and wherever
//! one can go, it goes:
//!
//! - *Joined*: two neighbours fit one page: the left one takes over all of the right one (as in a merge).
//! - *Divided*: three neighbours fit two pages: the rows of the one in the middle go to both sides, the first ones to the left,
//!   which becomes full; the right one's range begins earlier by the others. One page is logged for one that is freed.
//!
//! A page that is filled like this keeps a tenth free ([`PACKED_MAX`]), so that the next row does not split it again; where rows are
//! longer than that, so that none would have room there, it keeps what their versions take ([`VERSION_ROOM`]). Leaves of
//! which three have more than two such pages together stay as they are. Only leaves under one parent are put together.
//!
//! What is worth it is guessed from what leaves have, one by one and without their parent; then the parent and the leaves are
//! latched as for a merge, left to right, and asked again. Each time it is one mini-transaction, and in between nothing is latched.
//! Of a node whose leaves are not in memory some are read, and all only if these have room: a database that is packed is not
//! read as a whole each time.

use resurgam_base::{Error, ErrorKind, PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, Mtr, PlantedInGiveBack, WriteGuard};
use resurgam_page::slotted::{SLOT_SIZE, SPACE};
use resurgam_page::{PageBuf, PageType, inner, leaf, op, space};

use crate::Tree;
use crate::merge::records_of;
use crate::search::Target;
use crate::split::shortest_between;

/// A leaf that rows are put on becomes so full at most, in bytes of all that is on it.
const PACKED_MAX: usize = SPACE / 10 * 9;
/// What a page of long rows keeps free for each of them: its tags, and the version before in the row or where it is.
const VERSION_ROOM: usize = 32;
/// Leaves of a node that are read to know whether the others are worth it.
const SAMPLES: usize = 8;
/// So full leaves are at most, on average, where packing gives anything: two of three pages.
const LOOSE_MAX: usize = PACKED_MAX / 3 * 2;

/// What [`Tree::pack_node`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Leaves that went: their rows are on others.
    pub leaves: u64,
    /// Where the next node above leaves begins; none: it was the last one, or the tree is a leaf.
    pub next: Option<Vec<u8>>,
}

/// What is on a leaf, or on some together.
#[derive(Clone, Copy, Default)]
struct Load {
    /// Bytes of all that is on it.
    bytes: usize,
    rows: usize,
}

impl Load {
    fn of(page: &PageBuf) -> Self {
        Self { bytes: page.used(), rows: usize::from(page.slot_count()) }
    }
    fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, rows: self.rows + other.rows }
    }
    /// Whether it may be on so many pages together.
    fn fits(self, pages: usize) -> bool {
        let is_of_long_rows = self.bytes > self.rows * (SPACE / 10);
        let most = if is_of_long_rows { SPACE * pages - VERSION_ROOM * self.rows } else { PACKED_MAX * pages };
        self.bytes <= most.max(PACKED_MAX * pages)
    }
}

/// What became of neighbours.
enum Step {
    /// They stay as they are.
    Stayed,
    /// The second one is on the first one, which has so much now.
    Joined(Load),
    /// The second one is on the first one and the third one, which begins at this key and has so much now.
    Divided(Vec<u8>, Load),
}

/// How the records of a leaf go to its neighbours.
struct Division {
    /// So many go to the left.
    count: u16,
    /// Where the right one begins.
    separator: Vec<u8>,
    /// What is on the right one afterwards.
    right: Load,
}

impl Tree {
    /// Packs the leaves under the node that covers `from`; the empty key begins at the first. `on_move` is told of each page that receives
    /// rows, while it is latched exclusively and before it does. `stop` is asked between two steps.
    ///
    /// # Errors
    /// Those of reading and of the log. What was packed stays so.
    pub fn pack_node(
        &self,
        pool: &BufferPool,
        from: &[u8],
        stop: &dyn Fn() -> bool,
        mut on_move: impl FnMut(PageId),
    ) -> Result<Packed> {
        let mut children: Vec<(Vec<u8>, PageId)> = Vec::new();
        let next = {
            let node = self.read_level(pool, Target::Key(from), 1, Access::Scan)?;
            if node.level() == 0 {
                return Ok(Packed::default());
            }
            for slot in 0..node.slot_count() {
                let record = inner::InnerRecord::parse(node.record(SlotId(slot))?)?;
                children.push((record.key.to_vec(), record.child));
            }
            node.upper_fence().map(<[u8]>::to_vec)
        };
        if next.as_deref().is_some_and(|next| next <= from) {
            return Err(Error::corrupt(format!(
                "a node of tree {} does not cover the key that led to it",
                self.object
            )));
        }
        let mut packed = Packed { leaves: 0, next };
        let Some((first, _)) = children.first() else { return Ok(packed) };
        let first = first.clone();
        let used = self.used_of(pool, &children)?;
        let (mut at, mut current, mut key) = (0, used[0], first.clone());
        while at + 1 < children.len() && !stop() {
            let third = used.get(at + 2).copied().flatten();
            let worth = current.zip(used[at + 1]).is_some_and(|(left, middle)| {
                let both = left.and(middle);
                both.fits(1) || third.is_some_and(|right| both.and(right).fits(2))
            });
            let step = match worth.then(|| self.pack_at(pool, &key, &mut on_move)) {
                None => Step::Stayed,
                Some(Ok(step)) => step,
                Some(Err(error)) => {
                    pool.note_packed(packed.leaves);
                    return Err(error);
                }
            };
            match step {
                Step::Stayed => {
                    at += 1;
                    (current, key) = (used[at], children[at].0.clone());
                }
                Step::Joined(load) => {
                    packed.leaves += 1;
                    at += 1;
                    current = Some(load);
                }
                Step::Divided(begin, load) => {
                    packed.leaves += 1;
                    at += 2;
                    (current, key) = (Some(load), begin);
                }
            }
        }
        pool.note_packed(packed.leaves);
        if packed.leaves > 0 && !stop() {
            // The node above may be one of few children by now, or the root one of a single one.
            self.merge_leaf(pool, &first, |page| page.slot_count() == 0, on_move)?;
        }
        Ok(packed)
    }

    /// What is on each of these leaves, where it is known and they still are leaves of the tree.
    fn used_of(&self, pool: &BufferPool, children: &[(Vec<u8>, PageId)]) -> Result<Vec<Option<Load>>> {
        let look = |id: PageId| -> Result<Option<Load>> {
            let page = match pool.read(id, Access::Scan) {
                Ok(page) => page,
                // It stays as it is, and so do its neighbours beside it.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => return Ok(None),
                Err(error) => return Err(error),
            };
            // Another one's by now, perhaps: nothing was latched in between.
            let is_leaf = page.is(PageType::Leaf) && page.object() == self.object;
            Ok(is_leaf.then(|| Load::of(&page)))
        };
        let count = children.len();
        let samples = count.min(SAMPLES);
        let (mut known, mut sum) = (vec![None; count], 0);
        for sample in 0..samples {
            let at = (2 * sample + 1) * count / (2 * samples);
            known[at] = look(children[at].1)?;
            sum += known[at].unwrap_or_default().bytes;
        }
        let is_loose = sum <= LOOSE_MAX * samples;
        for (at, (_, id)) in children.iter().enumerate() {
            if known[at].is_none() && (is_loose || pool.is_resident(*id)) {
                known[at] = look(*id)?;
            }
        }
        Ok(known)
    }

    /// One step at the leaf that begins with `key`.
    fn pack_at(&self, pool: &BufferPool, key: &[u8], on_move: &mut dyn FnMut(PageId)) -> Result<Step> {
        let parent = self.write_level(pool, Target::Key(key), 1)?;
        if parent.level() != 1 || parent.slot_count() < 2 {
            return Ok(Step::Stayed);
        }
        let (count, at) = (parent.slot_count(), inner::child_for(&parent, key).0.0);
        // It may have been split or merged meanwhile.
        if at + 1 >= count || inner::key_of(parent.rec(SlotId(at))) != key {
            return Ok(Step::Stayed);
        }
        let left = self.latch_child(pool, &parent, at)?;
        let middle = self.latch_child(pool, &parent, at + 1)?;
        let mut both = Load::of(&left).and(Load::of(&middle));
        if both.fits(1) {
            let fences = left.upper_fence().map_or(0, <[u8]>::len) + middle.lower_fence().len();
            both.bytes = both.bytes.saturating_sub(fences);
            on_move(left.id());
            self.join(pool, parent, at + 1, left, middle)?;
            return Ok(Step::Joined(both));
        }
        if at + 2 >= count {
            return Ok(Step::Stayed);
        }
        let right = self.latch_child(pool, &parent, at + 2)?;
        let Some(division) = division(&left, &middle, &right) else { return Ok(Step::Stayed) };
        // The right one's entry gets a key of another length, in the room of the middle one's.
        let entry = inner::encode(&division.separator, right.id());
        let room = parent.free_total() + parent.rec(SlotId(at + 1)).len() + SLOT_SIZE;
        if entry.len() > room + parent.rec(SlotId(at + 2)).len() {
            return Ok(Step::Stayed);
        }
        on_move(left.id());
        on_move(right.id());
        let done = Step::Divided(division.separator.clone(), division.right);
        self.divide(pool, parent, at + 1, [left, middle, right], &division, &entry)?;
        Ok(done)
    }

    /// The records of the leaf in slot `at` go to its neighbours, and it is freed. `entry`: the right one's, in the parent.
    fn divide(
        &self,
        pool: &BufferPool,
        parent: WriteGuard<'_>,
        at: u16,
        [left, middle, right]: [WriteGuard<'_>; 3],
        division: &Division,
        entry: &[u8],
    ) -> Result<()> {
        let (left_id, middle_id, right_id) = (left.id(), middle.id(), right.id());
        let is_marked = !PlantedInGiveBack::MarkForgotten.is_planted();
        let marked = [&left, &right].map(|page| middle.has_versions() && !page.has_versions() && is_marked);
        let mut mtr = Mtr::new(pool);
        let parent_at = mtr.add(parent);
        let left_at = mtr.add(left);
        let middle_at = mtr.add(middle);
        let right_at = mtr.add(right);
        let Division { count, separator, .. } = division;
        let records = records_of(mtr.page(middle_at));
        let flags = mtr.page(middle_at).flags();
        let (to_left, to_right) = records.split_at(usize::from(*count).min(records.len()));
        let forgotten = usize::from(PlantedInGiveBack::RowForgotten.is_planted());
        let to_right = &to_right[forgotten.min(to_right.len())..];

        let page = mtr.page(left_at);
        let (lower, slot) = (page.lower_fence().to_vec(), SlotId(page.slot_count()));
        let ops = mtr.ops(left_at);
        op::set_fences(ops, &lower, Some(separator));
        op::insert_many(ops, slot, to_left.iter().map(Vec::as_slice));
        op::set_flags(ops, flags, 0);

        let upper = mtr.page(right_at).upper_fence().map(<[u8]>::to_vec);
        let ops = mtr.ops(right_at);
        op::set_fences(ops, separator, upper.as_deref());
        op::insert_many(ops, SlotId(0), to_right.iter().map(Vec::as_slice));
        op::set_flags(ops, flags, 0);

        let ops = mtr.ops(parent_at);
        op::remove(ops, SlotId(at));
        op::replace(ops, SlotId(at), entry);
        pool.space().free(&mut mtr, middle_id, self.object, middle_at)?;
        for (id, _) in [left_id, right_id].into_iter().zip(marked).filter(|(_, marked)| *marked) {
            pool.space().set_flags(&mut mtr, id, space::PFS_HAS_VERSIONS, 0)?;
        }
        mtr.commit()?;
        Ok(())
    }
}

/// How the records of `middle` fit both neighbours, as many as may be on the left; none: they do not, or the left one has no room for any.
fn division(left: &PageBuf, middle: &PageBuf, right: &PageBuf) -> Option<Division> {
    let count = middle.slot_count();
    let bytes = |slot: u16| middle.rec(SlotId(slot)).len() + SLOT_SIZE;
    let (mut to_left, mut to_right) = (Load::of(left), Load::of(right));
    to_left.bytes = to_left.bytes.saturating_sub(left.upper_fence().map_or(0, <[u8]>::len));
    to_right.bytes = to_right.bytes.saturating_sub(right.lower_fence().len());
    to_left = to_left.and(Load { bytes: (0..count).map(bytes).sum(), rows: usize::from(count) });
    for slot in (1..count).rev() {
        to_left = Load { bytes: to_left.bytes - bytes(slot), rows: to_left.rows - 1 };
        to_right = to_right.and(Load { bytes: bytes(slot), rows: 1 });
        if !to_right.fits(1) {
            return None;
        }
        if !to_left.fits(1) {
            continue;
        }
        let before = leaf::key_of(middle.rec(SlotId(slot - 1)));
        let separator = shortest_between(before, leaf::key_of(middle.rec(SlotId(slot))));
        let fence = Load { bytes: separator.len(), rows: 0 };
        let right = to_right.and(fence);
        if to_left.and(fence).fits(1) && right.fits(1) {
            return Some(Division { count: slot, separator, right });
        }
    }
    None
}
