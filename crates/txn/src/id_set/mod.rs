//! A compressed set of transaction ids: what the aborted-transaction map consists of.
//!
//! | file | concept |
//! |---|---|
//! | `mod.rs` | the set: chunks by number, shared until they are changed |
//! | `chunk.rs` | 65,536 ids: runs while they are few, bits otherwise |
//! | `codec.rs` | the set as bytes, in bodies of bounded size |
//!
//! Ids are handed out one after another, so a set of them is dense in places: a run costs
//! 4 bytes however long it is, and a chunk never more than 8 KB, which is one bit an id.
//!
//! # Invariants
//! 1. No chunk is empty; `len` is the number of ids in all of them.
//! 2. A copy of a set shares its chunks: copying costs one pointer a chunk, and the first
//!    change of a shared chunk copies that chunk only (8 KB at most).

mod chunk;
mod codec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use resurgam_base::TxId;

use chunk::Chunk;
pub use codec::ID_SET_BODY_MAX;

/// Ids of a chunk, as a power of two.
const CHUNK_BITS: u32 = 16;

/// See the module.
#[derive(Clone, Default)]
pub struct TxIdSet {
    chunks: BTreeMap<u64, Arc<Chunk>>,
    len: u64,
}

/// Chunk and place in it.
const fn split(id: u64) -> (u64, u16) {
    (id >> CHUNK_BITS, id as u16)
}

impl TxIdSet {
    /// Whether `id` is in the set: a search of a tree of chunks, then of the runs of one.
    pub fn contains(&self, id: TxId) -> bool {
        let (number, low) = split(id.0);
        self.chunks.get(&number).is_some_and(|chunk| chunk.contains(low))
    }
    /// Whether any id of `first..=last` is in the set: two searches of the tree of chunks at most.
    pub fn intersects(&self, first: TxId, last: TxId) -> bool {
        if first > last {
            return false;
        }
        let ((from, low), (to, high)) = (split(first.0), split(last.0));
        // No chunk is empty, so one that lies within the range decides.
        self.chunks.range(from..=to).any(|(number, chunk)| {
            let low = if *number == from { low } else { 0 };
            let high = if *number == to { high } else { u16::MAX };
            chunk.intersects(low, high)
        })
    }
    /// Adds one id; whether it is new.
    pub fn insert(&mut self, id: TxId) -> bool {
        self.insert_range(id, id) == 1
    }
    /// Adds `first..=last` and returns how many of them are new. The work is by the chunk,
    /// not by the id. Does nothing when `first > last`.
    pub fn insert_range(&mut self, first: TxId, last: TxId) -> u64 {
        if first > last {
            return 0;
        }
        let mut added = 0;
        for (number, low, high) in pieces(first, last) {
            let chunk = self.chunks.entry(number).or_default();
            added += u64::from(Arc::make_mut(chunk).insert(low, high));
        }
        self.len += added;
        added
    }
    /// Takes `first..=last` out and returns how many were in.
    pub fn remove_range(&mut self, first: TxId, last: TxId) -> u64 {
        if first > last {
            return 0;
        }
        // By the chunks that are there: the range may be wider than anything in the set.
        let held: Vec<u64> = self.chunks.range(split(first.0).0..=split(last.0).0).map(|(n, _)| *n).collect();
        let mut removed = 0;
        for number in held {
            let low = if number == split(first.0).0 { split(first.0).1 } else { 0 };
            let high = if number == split(last.0).0 { split(last.0).1 } else { u16::MAX };
            removed += self.change(number, |chunk| chunk.remove(low, high));
        }
        removed
    }
    /// Adds all of `other`.
    pub fn insert_all(&mut self, other: &Self) {
        for (number, theirs) in &other.chunks {
            match self.chunks.get_mut(number) {
                None => {
                    self.len += u64::from(theirs.len());
                    self.chunks.insert(*number, Arc::clone(theirs));
                }
                Some(ours) if Arc::ptr_eq(ours, theirs) => {}
                Some(ours) => self.len += u64::from(Arc::make_mut(ours).insert_all(theirs)),
            }
        }
    }
    /// Takes all of `other` out.
    pub fn remove_all(&mut self, other: &Self) {
        for (number, theirs) in &other.chunks {
            match self.chunks.get(number) {
                None => {}
                Some(ours) if Arc::ptr_eq(ours, theirs) => {
                    self.len -= u64::from(theirs.len());
                    self.chunks.remove(number);
                }
                Some(_) => {
                    self.change(*number, |chunk| chunk.remove_all(theirs));
                }
            }
        }
    }
    /// Applies `remove`, which returns how many ids it took out, to a chunk.
    fn change(&mut self, number: u64, remove: impl FnOnce(&mut Chunk) -> u32) -> u64 {
        let Some(chunk) = self.chunks.get_mut(&number) else { return 0 };
        let chunk = Arc::make_mut(chunk);
        let removed = u64::from(remove(chunk));
        if chunk.is_empty() {
            self.chunks.remove(&number);
        }
        self.len -= removed;
        removed
    }

    /// How many ids.
    pub fn len(&self) -> u64 {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The lowest id.
    pub fn first(&self) -> Option<TxId> {
        let (number, chunk) = self.chunks.first_key_value()?;
        chunk.runs().next().map(|(low, _)| TxId(number << CHUNK_BITS | u64::from(low)))
    }
    /// The highest id.
    pub fn last(&self) -> Option<TxId> {
        let (number, chunk) = self.chunks.last_key_value()?;
        chunk.last().map(|high| TxId(number << CHUNK_BITS | u64::from(high)))
    }
    /// The ids as inclusive ranges, ascending; ranges that touch are one.
    pub fn ranges(&self) -> impl Iterator<Item = (TxId, TxId)> + '_ {
        let mut runs = self
            .chunks
            .iter()
            .flat_map(|(number, chunk)| {
                let base = number << CHUNK_BITS;
                chunk.runs().map(move |(low, high)| (TxId(base | u64::from(low)), TxId(base | u64::from(high))))
            })
            .peekable();
        std::iter::from_fn(move || {
            let (first, mut last) = runs.next()?;
            while let Some((_, end)) = runs.next_if(|(next, _)| next.0 - 1 == last.0) {
                last = end;
            }
            Some((first, last))
        })
    }
    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = TxId> + '_ {
        self.ranges().flat_map(|(first, last)| (first.0..=last.0).map(TxId))
    }
    /// Memory taken, about, in bytes; chunks shared with copies are counted in each.
    pub fn memory_bytes(&self) -> usize {
        // A node of the tree holds up to 11 entries and is two thirds full.
        self.chunks.values().map(|chunk| chunk.memory_bytes() + 24).sum()
    }
}

/// The parts by chunk of `first..=last`, which is not empty.
fn pieces(first: TxId, last: TxId) -> impl Iterator<Item = (u64, u16, u16)> {
    let ((from, low), (to, high)) = (split(first.0), split(last.0));
    (from..=to).map(move |n| (n, if n == from { low } else { 0 }, if n == to { high } else { u16::MAX }))
}

impl PartialEq for TxIdSet {
    fn eq(&self, other: &Self) -> bool {
        // Not by chunks: the same ids may be runs in one and bits in the other.
        self.len == other.len && self.ranges().eq(other.ranges())
    }
}
impl Eq for TxIdSet {}

impl fmt::Debug for TxIdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges().take(32).map(|(first, last)| first.0..=last.0)).finish()?;
        write!(f, " ({} ids)", self.len)
    }
}

impl FromIterator<TxId> for TxIdSet {
    fn from_iter<I: IntoIterator<Item = TxId>>(ids: I) -> Self {
        let mut set = Self::default();
        for id in ids {
            set.insert(id);
        }
        set
    }
}
