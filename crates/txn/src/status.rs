//! The state of transaction ids, for readers who ask it of every tagged row.
//!
//! Ids are grouped into segments. A segment is kept while any of its transactions is
//! unfinished or was committed after the horizon; of all other ids that were given out it is known without
//! a table that they are committed and visible to everyone, unless the
//! aborted-transaction map names them.
//!
//! State word: `payload << 3 | tag`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use hashbrown::HashMap;
use parking_lot::RwLock;
use resurgam_base::pauses::{Mistake, Pause};
use resurgam_base::{CommitTs, TxId};

use crate::atm::AbortedMap;

const SEGMENT_BITS: u32 = 12;
const SEGMENT_LEN: usize = 1 << SEGMENT_BITS;

const UNUSED: u64 = 0;
const ACTIVE: u64 = 1;
const SUB: u64 = 2;
const COMMITTED: u64 = 3;
const ABORTED: u64 = 4;
const TAG_MASK: u64 = 7;

/// What a transaction id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Unfinished; the id is that of the top-level transaction.
    Active(TxId),
    /// Committed at this time; 0 = before every snapshot in use.
    Committed(CommitTs),
    Aborted,
    /// It was never given out: what names it is damaged, or from another history. [`TxManager::status`](crate::TxManager::status)
    /// tells; the table does not know which ids there are.
    Unknown,
}

struct Segment {
    words: Box<[AtomicU64]>,
}

/// See the module.
#[derive(Default)]
pub struct StatusTable {
    segments: RwLock<HashMap<u64, Arc<Segment>>>,
    aborted: AbortedMap,
}

impl StatusTable {
    /// The aborted-transaction map.
    pub fn aborted(&self) -> &AbortedMap {
        &self.aborted
    }

    fn with_word<R>(&self, id: TxId, f: impl FnOnce(&AtomicU64) -> R) -> Option<R> {
        let segments = self.segments.read();
        let segment = segments.get(&(id.0 >> SEGMENT_BITS))?;
        Some(f(&segment.words[id.0 as usize & (SEGMENT_LEN - 1)]))
    }

    fn set(&self, id: TxId, word: u64) {
        if self.with_word(id, |w| w.store(word, Ordering::SeqCst)).is_some() {
            return;
        }
        let mut segments = self.segments.write();
        let segment = segments.entry(id.0 >> SEGMENT_BITS).or_insert_with(|| {
            let mut words = Vec::new();
            words.resize_with(SEGMENT_LEN, || AtomicU64::new(UNUSED));
            Arc::new(Segment { words: words.into_boxed_slice() })
        });
        segment.words[id.0 as usize & (SEGMENT_LEN - 1)].store(word, Ordering::SeqCst);
    }

    pub(crate) fn set_active(&self, id: TxId) {
        self.set(id, ACTIVE);
    }
    pub(crate) fn set_sub(&self, id: TxId, top: TxId) {
        self.set(id, top.0 << 3 | SUB);
    }
    pub(crate) fn set_committed(&self, id: TxId, ts: CommitTs) {
        self.set(id, ts.0 << 3 | COMMITTED);
    }
    /// Marks `first..=last`, which all have a state and must be in the map before. One look
    /// for the segment for thousands of ids: a transaction with a million sub-transactions
    /// aborts in about a millisecond.
    pub(crate) fn set_aborted(&self, first: TxId, last: TxId) {
        self.set_range(first, last, ABORTED);
    }
    /// As [`StatusTable::set_aborted`] of sub-transactions whose top goes on, and which become aborted one by one: the newest first, so
    /// that whoever looks in between finds what going back to a savepoint within them would leave.
    pub(crate) fn set_aborted_newest_first(&self, first: TxId, last: TxId) {
        if Mistake::OldestIdFirst.is_planted() {
            return self.set_range(first, last, ABORTED);
        }
        let mut at = last.0;
        while at >= first.0 {
            let begin = first.0.max(at & !(SEGMENT_LEN as u64 - 1));
            self.set(TxId(at), ABORTED);
            Pause::IdAborted.here();
            let segment = self.segments.read().get(&(at >> SEGMENT_BITS)).cloned();
            let in_segment = |id: u64| id as usize & (SEGMENT_LEN - 1);
            for one in segment.iter().flat_map(|s| s.words[in_segment(begin)..=in_segment(at)].iter().rev()) {
                one.store(ABORTED, Ordering::Release);
            }
            let Some(next) = begin.checked_sub(1) else { break };
            at = next;
        }
        fence(Ordering::SeqCst);
    }
    /// As [`StatusTable::set_aborted`]: they are sub-transactions of `top`.
    pub(crate) fn set_subs(&self, first: TxId, last: TxId, top: TxId) {
        self.set_range(first, last, top.0 << 3 | SUB);
    }

    fn set_range(&self, first: TxId, last: TxId, word: u64) {
        let mut at = first.0;
        while at <= last.0 {
            let segment_end = at | (SEGMENT_LEN as u64 - 1);
            self.set(TxId(at), word);
            Pause::IdAborted.here();
            let segment = self.segments.read().get(&(at >> SEGMENT_BITS)).cloned();
            let (from, to) = (at as usize, last.0.min(segment_end) as usize);
            let in_segment = |id: usize| id & (SEGMENT_LEN - 1);
            for one in segment.iter().flat_map(|s| &s.words[in_segment(from)..=in_segment(to)]) {
                // A reader that sees a later state of the top sees this as well.
                one.store(word, Ordering::Release);
            }
            let Some(next) = segment_end.checked_add(1) else { break };
            at = next;
        }
        fence(Ordering::SeqCst);
    }

    /// The state of `id`.
    pub fn status(&self, id: TxId) -> Status {
        let word = self.with_word(id, |w| w.load(Ordering::SeqCst)).unwrap_or(UNUSED);
        match word & TAG_MASK {
            ACTIVE => Status::Active(id),
            SUB => match self.status_of_top(TxId(word >> 3)) {
                // The top may have ended between the two looks; then this id's own word is final.
                Status::Active(top) => Status::Active(top),
                ended => self.final_status(id).unwrap_or(ended),
            },
            COMMITTED => Status::Committed(CommitTs(word >> 3)),
            ABORTED => Status::Aborted,
            _ => self.untracked(id),
        }
    }

    fn status_of_top(&self, top: TxId) -> Status {
        let word = self.with_word(top, |w| w.load(Ordering::SeqCst)).unwrap_or(UNUSED);
        match word & TAG_MASK {
            ACTIVE => Status::Active(top),
            COMMITTED => Status::Committed(CommitTs(word >> 3)),
            ABORTED => Status::Aborted,
            _ => self.untracked(top),
        }
    }

    fn final_status(&self, id: TxId) -> Option<Status> {
        let word = self.with_word(id, |w| w.load(Ordering::SeqCst))?;
        match word & TAG_MASK {
            COMMITTED => Some(Status::Committed(CommitTs(word >> 3))),
            ABORTED => Some(Status::Aborted),
            _ => None,
        }
    }

    fn untracked(&self, id: TxId) -> Status {
        if self.aborted.contains(id) { Status::Aborted } else { Status::Committed(CommitTs::NONE) }
    }

    /// Drops segments in which every id below `next` is finished and, if committed, at or
    /// before `horizon`. Returns how many remain.
    pub fn retire(&self, next: TxId, horizon: CommitTs) -> usize {
        let is_done = |segment: &Segment| {
            segment.words.iter().all(|w| {
                let word = w.load(Ordering::SeqCst);
                match word & TAG_MASK {
                    COMMITTED => word >> 3 <= horizon.0,
                    ABORTED | UNUSED => true,
                    _ => false,
                }
            })
        };
        let done: Vec<u64> = {
            let segments = self.segments.read();
            segments
                .iter()
                // The segment that still hands out ids stays.
                .filter(|(number, segment)| (**number + 1) << SEGMENT_BITS <= next.0 && is_done(segment))
                .map(|(number, _)| *number)
                .collect()
        };
        for number in done {
            // Looked at again with writers kept out: ids are reserved for sub-transactions in
            // blocks and get their state later.
            let mut segments = self.segments.write();
            if segments.get(&number).is_some_and(|segment| is_done(segment)) {
                segments.remove(&number);
            }
        }
        self.segments.read().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever looks while they become aborted finds those above some id aborted, and the others active.
    #[test]
    fn the_newest_of_several_is_aborted_first() {
        let (first, last) = (4000, 9000);
        for _ in 0..20 {
            let table = StatusTable::default();
            table.set_active(TxId(7));
            table.set_subs(TxId(first), TxId(last), TxId(7));
            let is_active = |id: u64| table.status(TxId(id)) == Status::Active(TxId(7));
            std::thread::scope(|scope| {
                scope.spawn(|| table.set_aborted_newest_first(TxId(first), TxId(last)));
                while is_active(first) {
                    if let Some(low) = (first..=last).find(|id| !is_active(*id)) {
                        let active = (low..=last).filter(|id| is_active(*id)).count();
                        assert_eq!(active, 0, "above {low}, which is aborted");
                    }
                }
            });
            assert!((first..=last).all(|id| table.status(TxId(id)) == Status::Aborted));
            assert!(is_active(7) && !is_active(first), "and none beside them");
        }
    }

    #[test]
    fn ranges_up_to_the_last_id_end() {
        let table = StatusTable::default();
        table.set_subs(TxId(u64::MAX - 5000), TxId(u64::MAX), TxId(7));
        table.set_aborted(TxId(u64::MAX - 10), TxId(u64::MAX));
        assert_eq!(table.status(TxId(u64::MAX)), Status::Aborted);
    }
}
