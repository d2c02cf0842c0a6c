//! Which transactions had ended at a moment: what tells whose earlier versions nobody needs.
//!
//! It is what a PostgreSQL snapshot holds (the next id, and the ids in progress below it), taken
//! to learn who is past instead of who is seen. A lowest active id would not do: one transaction
//! that is idle for a day, or prepared, would stand for everybody who came after it.
//!
//! # Invariants
//! 1. *An id that [`EndedIds`] holds is of a transaction that had ended*: its commit has a timestamp
//!    of at most `decided`; or it is in the aborted-transaction map, unless that has forgotten it
//!    since; or all it wrote was undone. It never begins again.
//! 2. So it says nothing of ids that were handed out later, nor of those that a transaction had
//!    reserved for its sub-transactions, nor of those of its sub-transactions that had been aborted
//!    while it went on: they share the fate of its id, for the purpose of this.

use resurgam_base::{CommitTs, TxId};

/// Most ranges that are kept of the unfinished ones.
const RANGES_MAX: usize = 1024;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedIds {
    /// Ids from here on had not been handed out.
    next: TxId,
    /// Those of transactions that had not ended: inclusive ranges, ascending, disjoint.
    unfinished: Vec<(TxId, TxId)>,
    /// The newest commit that had been decided, looked at after the above.
    decided: CommitTs,
}

impl EndedIds {
    /// `unfinished` are inclusive ranges, in any order; see the fields.
    pub fn new(next: TxId, mut unfinished: Vec<(TxId, TxId)>, decided: CommitTs) -> Self {
        unfinished.retain(|(first, last)| first <= last && *first < next);
        unfinished.sort_unstable();
        // Touching ones become one; then also those with gaps, as far as needed: what lies between
        // then counts as unfinished, which is never wrong.
        let mut gap = 1;
        loop {
            let mut merged: Vec<(TxId, TxId)> = Vec::with_capacity(unfinished.len());
            for (first, last) in unfinished {
                match merged.last_mut() {
                    Some((_, end)) if first.0 <= end.0.saturating_add(gap) => *end = last.max(*end),
                    _ => merged.push((first, last)),
                }
            }
            unfinished = merged;
            if unfinished.len() <= RANGES_MAX {
                break;
            }
            gap = gap.saturating_mul(2);
        }
        unfinished.shrink_to_fit();
        Self { next, unfinished, decided }
    }

    /// Every snapshot that sees this commit sees all commits of the ids that it holds.
    pub fn decided(&self) -> CommitTs {
        self.decided
    }

    /// Whether all of `first..=last` had ended.
    pub fn holds_all(&self, first: TxId, last: TxId) -> bool {
        if last >= self.next {
            return false;
        }
        // The first range that does not end before `first`.
        let at = self.unfinished.partition_point(|(_, end)| *end < first);
        self.unfinished.get(at).is_none_or(|(begin, _)| *begin > last)
    }

    /// The id that was to be handed out next.
    pub fn next(&self) -> TxId {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(next: u64, unfinished: &[(u64, u64)]) -> EndedIds {
        let ranges = unfinished.iter().map(|(a, b)| (TxId(*a), TxId(*b))).collect();
        EndedIds::new(TxId(next), ranges, CommitTs(1))
    }

    fn holds(ended: &EndedIds, first: u64, last: u64) -> bool {
        ended.holds_all(TxId(first), TxId(last))
    }

    #[test]
    fn those_between_unfinished_ones_have_ended() {
        let ended = of(100, &[(40, 49), (10, 10), (50, 50), (70, 80), (75, 76), (200, 300)]);
        assert_eq!(ended.unfinished, [(TxId(10), TxId(10)), (TxId(40), TxId(50)), (TxId(70), TxId(80))]);
        assert!(holds(&ended, 0, 9) && holds(&ended, 11, 39) && holds(&ended, 51, 69) && holds(&ended, 81, 99));
        for (first, last) in [(10, 10), (0, 10), (10, 11), (30, 40), (45, 45), (50, 55), (0, 99), (80, 81)] {
            assert!(!holds(&ended, first, last), "{first}..={last}");
        }
        assert!(!holds(&ended, 99, 100) && !holds(&ended, 100, 100) && !holds(&ended, 500, 600), "not handed out");
        assert!(holds(&of(5, &[]), 0, 4) && !holds(&EndedIds::default(), 0, 0));
    }

    #[test]
    fn many_ranges_become_few_and_never_hold_more() {
        let many: Vec<(u64, u64)> = (0..10_000).map(|i| (10 + i * 7, 10 + i * 7 + i % 3)).collect();
        let ended = of(1_000_000, &many);
        assert!(ended.unfinished.len() <= RANGES_MAX, "{}", ended.unfinished.len());
        assert!(many.iter().all(|(first, last)| !holds(&ended, *first, *first) && !holds(&ended, *last, *last)));
        assert!(holds(&ended, 0, 9) && holds(&ended, 80_000, 999_999));
    }
}
