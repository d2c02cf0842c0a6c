//! What the checkpoint holds and what was gathered behind it, as one.
//!
//! | an id is | if |
//! |---|---|
//! | in doubt | prepared, in the log or in the checkpoint, and neither ended nor taken back |
//! | a loser | it has a chain of undo records, has not ended and is not in doubt |
//! | in the aborted map | the checkpoint or an ABORT says so, or it was cut off, and it was not forgotten and is no loser's |
//! | cut off | active at the checkpoint or seen behind it, and none of: committed, in the map, forgotten, a loser's, in doubt |

use std::collections::{BTreeMap, HashSet};

use resurgam_base::{Error, PageId, Result, TxId};
use resurgam_buffer::{DirtyPage, PendingRedo, RedoEntry};
use resurgam_log::LogEnd;
use resurgam_txn::{AbortedDetails, AbortedTx, TxIdSet};

use super::gather::Gathered;
use super::named::{LOSER_IDS_MAX, Named, check_id};
use super::{Analysis, Loser};
use crate::checkpoint::CheckpointState;
use crate::prepared::{PREPARED_SUBS_MAX, PrepareRecord, PreparedTx};

/// Transactions cut off by the crash that operators are told of, each by itself.
const CUT_OFF_NAMED: usize = 10_000;

impl Gathered {
    /// What the whole of it says of transactions and pages at `end`.
    ///
    /// # Errors
    /// `Corrupt` for ids that cannot be, or too many of them.
    pub fn conclude(mut self, end: LogEnd, end_reason: String, pending: &PendingRedo) -> Result<Analysis> {
        for DirtyPage { page, rec_lsn, last_lsn, aside } in self.state.dirty.iter().copied() {
            if aside {
                pending.add(page, RedoEntry { rec_lsn, last_lsn, aside });
            } else {
                pending.note(page, rec_lsn, last_lsn);
            }
        }
        self.add_losers_of_checkpoint();
        let over = |id: &TxId| self.ended.contains(id) || self.withdrawn.contains(id);
        let prepared = in_doubt(&self.state, std::mem::take(&mut self.prepares), over, &mut self.losers)?;
        let of_prepared = ids_in_doubt(&prepared, &mut self.named)?;
        // They are active until they are undone, whatever the map says of their savepoints.
        let of_losers = ids_of_losers(&mut self.losers, &mut self.named)?;
        let highest = self.highest_id(&of_prepared);
        check_id(TxId(highest.max(self.state.next_id.0)))?;

        let mut cut_off = self.seen;
        for (first, last) in &self.state.active {
            self.named.insert(&mut cut_off, *first, *last)?;
        }
        for (first, last) in self.committed {
            cut_off.remove_range(first, last);
        }
        let mut aborted = self.state.aborted;
        aborted.insert_all(&self.aborted);
        for of_others in [&aborted, &self.forgotten, &of_losers, &of_prepared] {
            cut_off.remove_all(of_others);
        }
        aborted.insert_all(&cut_off);
        aborted.remove_all(&self.forgotten);
        aborted.remove_all(&of_losers);

        let mut details = AbortedDetails::default();
        self.state.aborted_details.iter().chain(self.details.iter()).for_each(|tx| details.note(*tx));
        for id in cut_off.iter().take(CUT_OFF_NAMED) {
            details.note(AbortedTx { id, lsn: end.lsn, aborted_us: 0, began_us: 0 });
        }
        details.keep_only(&aborted);
        Ok(Analysis {
            end,
            next_id: TxId(self.state.next_id.0.max(highest + 1)),
            high_water: self.state.high_water.max(self.highest.page + 1),
            version_high_water: match self.highest.version_page {
                PageId::NONE => self.state.version_high_water,
                top => self.state.version_high_water.max(PageId(top.0 + 1)),
            },
            next_object: self.state.next_object.max(self.highest.object + 1),
            aborted,
            aborted_details: details,
            cut_off: cut_off.len() + self.losers.len() as u64,
            losers: self.losers,
            prepared,
            identity: self.state.identity,
            version_store: self.state.version_store,
            openings: self.state.openings,
            records: self.records,
            bytes: end.lsn.0.saturating_sub(self.checkpoint.0),
            end_reason,
        })
    }

    /// Chains that begin before the checkpoint.
    fn add_losers_of_checkpoint(&mut self) {
        for (id, chain) in &self.state.undo {
            if !self.ended.contains(id) {
                let loser = self.losers.entry(*id).or_default();
                loser.chain.first = chain.first;
                loser.chain.last = loser.chain.last.max(chain.last);
            }
        }
        for (id, first, last) in &self.state.undo_subs {
            if let Some(loser) = self.losers.get_mut(id) {
                loser.subs.push((*first, *last));
            }
        }
    }

    /// The highest id that anything names.
    fn highest_id(&self, of_prepared: &TxIdSet) -> u64 {
        let state = &self.state;
        let listed = state.active.iter().map(|(_, last)| *last).chain(state.undo_subs.iter().map(|(_, _, last)| *last));
        listed.chain(state.aborted.last()).chain(of_prepared.last()).map(|id| id.0).fold(self.highest.tx, u64::max)
    }
}

/// All ids of the transactions in doubt.
fn ids_in_doubt(prepared: &[PreparedTx], named: &mut Named) -> Result<TxIdSet> {
    let mut ids = TxIdSet::default();
    for tx in prepared {
        ids.insert(tx.id);
        for (first, last) in &tx.subs {
            named.insert(&mut ids, *first, *last)?;
        }
    }
    Ok(ids)
}

/// All ids of the losers, whose ranges are joined.
fn ids_of_losers(losers: &mut BTreeMap<TxId, Loser>, named: &mut Named) -> Result<TxIdSet> {
    let mut ids = TxIdSet::default();
    let mut subs = 0u64;
    for (id, loser) in losers {
        check_id(*id)?;
        loser.subs = merged(std::mem::take(&mut loser.subs));
        ids.insert(*id);
        for (first, last) in &loser.subs {
            named.insert(&mut ids, *first, *last)?;
            subs += last.0 - first.0 + 1;
        }
    }
    if subs > LOSER_IDS_MAX {
        return Err(Error::corrupt("the transactions to be undone have more sub-transactions than there can be"));
    }
    Ok(ids)
}

/// The transactions in doubt: those of the checkpoint and those of the log behind it that have
/// not ended. Their undo records are theirs: they are no losers.
fn in_doubt(
    state: &CheckpointState,
    mut found: BTreeMap<TxId, PreparedTx>,
    is_over: impl Fn(&TxId) -> bool,
    losers: &mut BTreeMap<TxId, Loser>,
) -> Result<Vec<PreparedTx>> {
    // Parts alone are no PREPARE.
    found.retain(|_, tx| !tx.head.gid.is_empty());
    for (id, lsn, head) in &state.prepared {
        let tx = found.entry(*id).or_default();
        (tx.id, tx.lsn) = (*id, *lsn);
        tx.add(PrepareRecord::InDoubt(head.clone()));
    }
    found.retain(|id, _| !is_over(id));
    for (id, first, last) in &state.prepared_subs {
        if let Some(tx) = found.get_mut(id) {
            tx.add(PrepareRecord::Subs(vec![(*first, *last)]));
        }
    }
    for (id, object, mode) in &state.prepared_objects {
        if let Some(tx) = found.get_mut(id) {
            tx.add(PrepareRecord::Objects(vec![(*object, *mode)]));
        }
    }
    let mut gids = HashSet::new();
    let mut all = Vec::new();
    let mut sub_ids = 0u64;
    for (id, mut tx) in found {
        tx.finish()?;
        sub_ids = sub_ids.saturating_add(tx.sub_ids());
        if sub_ids > PREPARED_SUBS_MAX {
            return Err(Error::corrupt("the prepared transactions have more sub-transactions than there can be"));
        }
        if !gids.insert(tx.head.gid.clone()) {
            return Err(Error::corrupt(format!("two transactions are prepared as \"{}\"", tx.head.gid)));
        }
        if let Some(loser) = losers.remove(&id) {
            tx.chain = loser.chain;
        }
        all.push(tx);
    }
    Ok(all)
}

/// Inclusive ranges in order, overlapping and adjacent ones joined.
fn merged(mut ranges: Vec<(TxId, TxId)>) -> Vec<(TxId, TxId)> {
    ranges.sort_unstable();
    let mut out: Vec<(TxId, TxId)> = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some((_, end)) if end.0.saturating_add(1) >= first.0 => *end = (*end).max(last),
            _ => out.push((first, last)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined() {
        let ids = |pairs: &[(u64, u64)]| pairs.iter().map(|(a, b)| (TxId(*a), TxId(*b))).collect::<Vec<_>>();
        assert_eq!(merged(ids(&[(7, 9), (1, 2), (3, 3), (8, 8), (12, 12)])), ids(&[(1, 3), (7, 9), (12, 12)]));
    }

    #[test]
    fn prepared_transactions_have_a_bound_together() {
        let all = |ids: u64| {
            let one = |n: u64| {
                let (first, last) = (TxId(n + 1), TxId(n + ids));
                let head = crate::PreparedHead { gid: format!("g{n}"), subs: 1, ..Default::default() };
                (TxId(n), PreparedTx { id: TxId(n), head, subs: vec![(first, last)], ..PreparedTx::default() })
            };
            let found = [one(1), one(1 << 40), one(1 << 50)].into();
            in_doubt(&CheckpointState::default(), found, |_| false, &mut BTreeMap::new())
        };
        assert_eq!(all(PREPARED_SUBS_MAX / 3).map(|all| all.len()).ok(), Some(3));
        assert!(all(PREPARED_SUBS_MAX / 2).is_err_and(|e| e.kind() == resurgam_base::ErrorKind::Corrupt));
    }
}
