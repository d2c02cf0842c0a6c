//! Naming the leaves that a walk comes to next, so that the pool can ask for them before (`buffer/src/ahead.rs`).
//!
//! The parent of a leaf names its neighbours. A walk that has come to a second leaf has those behind it asked for, few at first
//! and twice as many each time: most walks are short. When it comes to the first leaf of the last request the next one is made, so that
//! one is on its way while the leaves of the one before are read.
//!
//! What is named is a guess: leaves may be split, merged and freed before the walk comes there, which finds its way by keys. No latch
//! is held while it is named, nor when the walk goes on.

use resurgam_base::{PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool};
use resurgam_page::inner;

use crate::Tree;
use crate::scan::{At, LeafWalk};
use crate::search::Target;

/// Leaves of the first request.
const FIRST: usize = 4;
/// Nodes above the leaves that are looked at for one request.
const NODES_MAX: usize = 2;

/// What a walk has asked for. It may be used for one walk after the other, where each goes on from where the one before was.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    /// Leaves of the last request; 0: there was none.
    count: usize,
    /// The key at which its first leaf begins, in the direction of the walk.
    begin: Vec<u8>,
    /// Where the leaves that were asked for end: a key, or `None`, where the walk ends.
    end: Option<Vec<u8>>,
}

/// Leaves that were named, and where the next ones are.
struct Named {
    leaves: Vec<PageId>,
    begin: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl Ahead {
    /// The walk is about to go on to its next leaf, and nobody has a page latched on this thread. It will not go on behind `end`, if that
    /// is known. Nothing is asked for where pages are not long in coming.
    pub fn look(&mut self, pool: &BufferPool, walk: &LeafWalk, end: Option<&[u8]>) {
        let most = pool.reads_ahead();
        if most == 0 {
            return;
        }
        let Some(at) = &walk.at else { return };
        let next = match (self.count, at) {
            (0, _) => None,
            (_, At::Key(key)) if *key < self.begin => return,
            (_, At::Below(key)) if *key > self.begin => return,
            // It came to the last request's leaves, or passed them over.
            (_, at) => match (&self.end, at) {
                (None, _) => return,
                (Some(asked), At::Key(key)) => (asked > key).then_some(asked),
                (Some(asked), At::Below(key)) => (asked < key).then_some(asked),
                (Some(_), At::Last) => return,
            },
        };
        let count = if next.is_none() { FIRST } else { self.count * 2 }.min(most);
        let named = match at {
            At::Key(key) => walk.tree.name_behind(pool, next.unwrap_or(key), next.is_none(), count, end),
            At::Below(key) => walk.tree.name_before(pool, Some(next.unwrap_or(key)), next.is_none(), count, end),
            At::Last => walk.tree.name_before(pool, None, true, count, end),
        };
        // What cannot be read the walk comes to itself.
        let Ok(named) = named else { return };
        *self = Self { count, begin: named.begin, end: named.end };
        pool.ask_ahead(named.leaves);
    }
}

impl Tree {
    /// Has the leaves asked for at which [`Tree::spot`] will look for these places. Nothing is asked for where pages are not long in coming.
    pub fn ask_spots_ahead(&self, pool: &BufferPool, places: &[f64]) {
        // What cannot be read `spot` comes to itself.
        let named = places.iter().filter_map(|place| self.leaf_at(pool, *place).ok().flatten());
        let mut leaves: Vec<PageId> = named.collect();
        leaves.dedup();
        pool.ask_ahead(leaves);
    }

    /// Leaves from the one on that covers `from`, or from the next one on.
    fn name_behind(
        &self,
        pool: &BufferPool,
        from: &[u8],
        skips: bool,
        count: usize,
        end: Option<&[u8]>,
    ) -> Result<Named> {
        let mut named = Named { leaves: Vec::with_capacity(count), begin: from.to_vec(), end: None };
        let (mut from, mut skips) = (from.to_vec(), skips);
        for _ in 0..NODES_MAX {
            let node = self.read_level(pool, Target::Key(&from), 1, Access::Point)?;
            if node.level() != 1 {
                return Ok(named);
            }
            for slot in inner::child_for(&node, &from).0.0..node.slot_count() {
                let record = inner::InnerRecord::parse(node.record(SlotId(slot))?)?;
                let key = if slot == 0 { node.lower_fence() } else { record.key };
                if std::mem::take(&mut skips) {
                    continue;
                }
                if end.is_some_and(|end| key > end) {
                    return Ok(named);
                }
                if named.leaves.len() == count {
                    named.end = Some(key.to_vec());
                    return Ok(named);
                }
                if named.leaves.is_empty() {
                    named.begin = key.to_vec();
                }
                named.leaves.push(record.child);
            }
            match node.upper_fence() {
                Some(upper) if upper > from.as_slice() => from = upper.to_vec(),
                _ => return Ok(named),
            }
        }
        named.end = Some(from);
        Ok(named)
    }

    /// Leaves from the one on that covers the keys just below `from` (none: the last ones), or from the one before it on, backwards.
    fn name_before(
        &self,
        pool: &BufferPool,
        from: Option<&[u8]>,
        skips: bool,
        count: usize,
        end: Option<&[u8]>,
    ) -> Result<Named> {
        let mut named =
            Named { leaves: Vec::with_capacity(count), begin: from.unwrap_or_default().to_vec(), end: None };
        let (mut from, mut skips) = (from.map(<[u8]>::to_vec), skips);
        for _ in 0..NODES_MAX {
            let target = from.as_deref().map_or(Target::Last, Target::Below);
            let node = self.read_level(pool, target, 1, Access::Point)?;
            if node.level() != 1 {
                return Ok(named);
            }
            let last = match &from {
                None => node.slot_count().saturating_sub(1),
                Some(key) => match inner::search(&node, key) {
                    Ok(slot) | Err(slot) => slot.0.saturating_sub(1),
                },
            };
            for slot in (0..=last).rev() {
                let record = inner::InnerRecord::parse(node.record(SlotId(slot))?)?;
                if std::mem::take(&mut skips) {
                    continue;
                }
                // Its keys are below those of the one behind it.
                let upper = match slot + 1 {
                    behind if behind < node.slot_count() => inner::key_of(node.rec(SlotId(behind))),
                    _ => node.upper_fence().unwrap_or_default(),
                };
                if end.is_some_and(|end| upper <= end) {
                    return Ok(named);
                }
                if named.leaves.len() == count {
                    named.end = Some(upper.to_vec());
                    return Ok(named);
                }
                if named.leaves.is_empty() {
                    named.begin = upper.to_vec();
                }
                named.leaves.push(record.child);
            }
            let lower = node.lower_fence();
            if lower.is_empty() || from.as_deref().is_some_and(|from| lower >= from) {
                return Ok(named);
            }
            from = Some(lower.to_vec());
        }
        named.end = from;
        Ok(named)
    }
}
