//! Analysis: one pass over the log from the last checkpoint's begin to the end.
//!
//! A transaction is aborted unless its COMMIT is found: ids that were active at the
//! checkpoint, and ids that any later record carries, minus those that a COMMIT names.
//! Those that have undo records (traditional mode) are found with the ends of their chains.
//! A transaction whose PREPARE is found, in the log or in the checkpoint, and no end of it, is
//! in doubt: it is neither aborted nor undone.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, Lsn, PageId, Result, TxId};
use resurgam_buffer::{DirtyPage, PendingRedo};
use resurgam_log::{LogEnd, LogReader, RecordKind, segment_file_name};
use resurgam_txn::{AbortedDetails, AbortedTx, TxIdSet, UndoChain};
use resurgam_versions::{RowUndo, decode_forget};
use resurgam_vfs::Vfs;

use crate::checkpoint::CheckpointState;
use crate::control::Control;
use crate::prepared::{PREPARED_SUBS_MAX, PrepareRecord, PreparedTx};
use crate::tx_record::{TX_ID_MAX, TxRecord};

/// How far analysis is, for people.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub records: u64,
    pub bytes: u64,
}

/// A transaction that the crash cut off and that is undone from the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loser {
    pub chain: UndoChain,
    /// Its sub-transactions, as inclusive ranges, ascending.
    pub subs: Vec<(TxId, TxId)>,
}

impl Loser {
    fn add_sub(&mut self, first: TxId, last: TxId) {
        match self.subs.last_mut() {
            Some((_, end)) if *end >= first && *end <= last => *end = last,
            Some((_, end)) if end.0 + 1 == first.0 => *end = last,
            _ => self.subs.push((first, last)),
        }
    }
}

/// What analysis found.
pub struct Analysis {
    pub end: LogEnd,
    pub next_id: TxId,
    pub high_water: u64,
    /// The same of the version-store file, its number in the upper bits; none if there never
    /// was one.
    pub version_high_water: PageId,
    pub next_object: u32,
    /// The aborted-transaction map, transactions cut off by the crash included.
    pub aborted: TxIdSet,
    /// What is known of the newest of them.
    pub aborted_details: AbortedDetails,
    /// How many of them the crash cut off.
    pub cut_off: u64,
    /// Transactions to be undone from the log, by id; they are in no map.
    pub losers: BTreeMap<TxId, Loser>,
    /// Transactions in doubt, by id; they are in no map, but for their aborted sub-transactions.
    pub prepared: Vec<PreparedTx>,
    pub records: u64,
    pub bytes: u64,
    /// In words, what stands at the end of the log.
    pub end_reason: String,
}

/// Transactions cut off by the crash that operators are told of, each by itself.
const CUT_OFF_NAMED: usize = 10_000;

/// Guards against ranges of ids that would fill the memory: no log names as many.
#[derive(Default)]
struct Named(u64);

const NAMED_MAX: u64 = 1 << 36;
/// The same for transactions that are undone: each id takes a word of memory.
const LOSER_IDS_MAX: u64 = 1 << 30;

impl Named {
    fn insert(&mut self, into: &mut TxIdSet, first: TxId, last: TxId) -> Result<()> {
        self.0 = self.0.saturating_add(last.0.saturating_sub(first.0)).saturating_add(1);
        if first > last || self.0 > NAMED_MAX || last > TX_ID_MAX {
            return Err(Error::corrupt(format!("a range of transaction ids from {first} to {last} is impossible")));
        }
        into.insert_range(first, last);
        Ok(())
    }
}

/// Refuses an id that no transaction has: those after it could not be counted any more.
fn check_id(id: TxId) -> Result<()> {
    if id > TX_ID_MAX {
        return Err(Error::corrupt(format!("the transaction id {id} is impossible")));
    }
    Ok(())
}

/// Reads the log from `control.checkpoint`; pages go into `pending`.
pub fn analyse(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    control: &Control,
    pending: &PendingRedo,
    mut progress: impl FnMut(Progress),
) -> Result<Analysis> {
    let mut reader = LogReader::open(Arc::clone(vfs), dir, control.segment_bytes, control.checkpoint, 0)?;
    let mut state = CheckpointState::default();
    let mut finished = false;
    let mut seen = TxIdSet::default();
    let mut committed: Vec<(TxId, TxId)> = Vec::new();
    let mut aborted = TxIdSet::default();
    let mut details = AbortedDetails::default();
    let mut forgotten = TxIdSet::default();
    let mut named = Named::default();
    let mut losers: BTreeMap<TxId, Loser> = BTreeMap::new();
    let mut ended: HashSet<TxId> = HashSet::new();
    let mut prepares: BTreeMap<TxId, PreparedTx> = BTreeMap::new();
    let mut withdrawn: HashSet<TxId> = HashSet::new();
    let mut top_id = 0u64;
    let mut top_page = 0u64;
    // The file with the highest number is the one in use, and its ids are the highest.
    let mut top_version_page = PageId::NONE;
    let mut top_object = 0u32;
    let mut records = 0u64;
    let mut last_tx = TxId::NONE;
    while let Some(record) = reader.next()? {
        records += 1;
        let header = &record.header;
        let lsn = record.lsn;
        if header.tx.is_some() && header.tx != last_tx {
            check_id(header.tx).map_err(|e| Error::corrupt(format!("log record at {lsn}: {}", e.message())))?;
            seen.insert(header.tx);
            top_id = top_id.max(header.tx.0);
            last_tx = header.tx;
        }
        let damaged = |e: Error| Error::corrupt(format!("log record at {lsn}: {}", e.message()));
        match header.kind {
            RecordKind::Page => {
                pending.note(header.page, lsn, lsn);
                if header.page.file() == 0 {
                    top_page = top_page.max(header.page.0);
                } else {
                    top_version_page = top_version_page.max(header.page);
                }
                top_object = top_object.max(header.object.0);
            }
            RecordKind::RowUndo => {
                let loser = losers.entry(header.tx).or_default();
                loser.chain.push(lsn);
                let xid = RowUndo::decode(record.body).map_err(damaged)?.xid;
                top_id = top_id.max(xid.0);
                if xid != header.tx {
                    loser.add_sub(xid, xid);
                }
            }
            RecordKind::Compensation => losers.entry(header.tx).or_default().chain.push(lsn),
            RecordKind::Commit => {
                losers.remove(&header.tx);
                ended.insert(header.tx);
                committed.push((header.tx, header.tx));
                let body = TxRecord::decode(record.body).map_err(damaged)?;
                top_id = body.subs.iter().map(|(_, last)| last.0).max().unwrap_or(0).max(top_id);
                committed.extend(body.subs);
            }
            RecordKind::Abort => {
                losers.remove(&header.tx);
                ended.insert(header.tx);
                let body = TxRecord::decode(record.body).map_err(damaged)?;
                details.note(AbortedTx { id: header.tx, lsn, aborted_us: body.time_us, began_us: 0 });
                aborted.insert(header.tx);
                for (first, last) in &body.subs {
                    top_id = top_id.max(last.0);
                    named.insert(&mut aborted, *first, *last).map_err(damaged)?;
                }
            }
            RecordKind::Undone => {
                losers.remove(&header.tx);
                ended.insert(header.tx);
                forgotten.insert(header.tx);
                let body = TxRecord::decode(record.body).map_err(damaged)?;
                for (first, last) in &body.subs {
                    top_id = top_id.max(last.0);
                    named.insert(&mut forgotten, *first, *last).map_err(damaged)?;
                }
            }
            RecordKind::Prepare => match PrepareRecord::decode(record.body).map_err(damaged)? {
                PrepareRecord::Withdrawn => {
                    prepares.remove(&header.tx);
                    withdrawn.insert(header.tx);
                }
                part => {
                    let tx = prepares.entry(header.tx).or_default();
                    (tx.id, tx.lsn) = (header.tx, lsn);
                    tx.add(part);
                }
            },
            RecordKind::Forget => forgotten.insert_all(&decode_forget(record.body).map_err(damaged)?),
            RecordKind::CheckpointData if !finished => state.decode_into(record.body).map_err(damaged)?,
            RecordKind::CheckpointEnd if !finished => {
                let begins_here = record.body.first_chunk::<8>().map(|b| Lsn(u64::from_le_bytes(*b)));
                finished = begins_here == Some(control.checkpoint);
            }
            _ => {}
        }
        if records.is_multiple_of(65_536) {
            progress(Progress { records, bytes: lsn.0 - control.checkpoint.0 });
        }
    }
    // A hole in what had been durable is not the end of the log.
    reader.check_end()?;
    let end = reader.end();
    if !finished {
        return Err(Error::corrupt(format!(
            "the checkpoint at LSN {} is not whole: the log segment \"{}\" is damaged or missing at LSN {} ({:?})",
            control.checkpoint,
            dir.join(segment_file_name(end.lsn.0 / control.segment_bytes.max(1))).display(),
            end.lsn,
            reader.why_stopped(),
        ))
        .with_hint("Restore the data folder from a backup; \"resurgam inspect log\" shows what is there."));
    }
    for DirtyPage { page, rec_lsn, last_lsn } in &state.dirty {
        pending.note(*page, *rec_lsn, *last_lsn);
    }
    for (id, chain) in &state.undo {
        if !ended.contains(id) {
            let loser = losers.entry(*id).or_default();
            loser.chain.first = chain.first;
            loser.chain.last = loser.chain.last.max(chain.last);
        }
    }
    for (id, first, last) in &state.undo_subs {
        if let Some(loser) = losers.get_mut(id) {
            loser.subs.push((*first, *last));
        }
    }
    let prepared = in_doubt(&state, prepares, |id| ended.contains(id) || withdrawn.contains(id), &mut losers)?;
    let mut of_prepared = TxIdSet::default();
    for tx in &prepared {
        of_prepared.insert(tx.id);
        top_id = top_id.max(tx.id.0);
        for (first, last) in &tx.subs {
            top_id = top_id.max(last.0);
            named.insert(&mut of_prepared, *first, *last)?;
        }
    }
    // They are active until they are undone, whatever the map says of their savepoints.
    let mut of_losers = TxIdSet::default();
    let mut loser_ids = 0u64;
    for (id, loser) in &mut losers {
        check_id(*id)?;
        loser.subs = merged(std::mem::take(&mut loser.subs));
        of_losers.insert(*id);
        for (first, last) in &loser.subs {
            named.insert(&mut of_losers, *first, *last)?;
            loser_ids += last.0 - first.0 + 1;
        }
    }
    if loser_ids > LOSER_IDS_MAX {
        return Err(Error::corrupt("the transactions to be undone have more sub-transactions than there can be"));
    }
    let listed = state.active.iter().map(|(_, last)| *last).chain(state.undo_subs.iter().map(|(_, _, last)| *last));
    top_id = listed.chain(state.aborted.last()).map(|id| id.0).max().unwrap_or(0).max(top_id);
    check_id(TxId(top_id.max(state.next_id.0)))?;
    let mut cut_off = seen;
    for (first, last) in &state.active {
        named.insert(&mut cut_off, *first, *last)?;
    }
    for (first, last) in committed {
        cut_off.remove_range(first, last);
    }
    let mut all = state.aborted;
    all.insert_all(&aborted);
    cut_off.remove_all(&all);
    cut_off.remove_all(&forgotten);
    cut_off.remove_all(&of_losers);
    cut_off.remove_all(&of_prepared);
    all.insert_all(&cut_off);
    all.remove_all(&forgotten);
    all.remove_all(&of_losers);
    let known = details;
    let mut details = AbortedDetails::default();
    state.aborted_details.iter().chain(known.iter()).for_each(|tx| details.note(*tx));
    for id in cut_off.iter().take(CUT_OFF_NAMED) {
        details.note(AbortedTx { id, lsn: end.lsn, aborted_us: 0, began_us: 0 });
    }
    details.keep_only(&all);
    Ok(Analysis {
        end,
        next_id: TxId(state.next_id.0.max(top_id + 1)),
        high_water: state.high_water.max(top_page + 1),
        version_high_water: match top_version_page {
            PageId::NONE => state.version_high_water,
            top => state.version_high_water.max(PageId(top.0 + 1)),
        },
        next_object: state.next_object.max(top_object + 1),
        aborted: all,
        aborted_details: details,
        cut_off: cut_off.len() + losers.len() as u64,
        losers,
        prepared,
        records,
        bytes: end.lsn.0.saturating_sub(control.checkpoint.0),
        end_reason: reader.why_stopped().map_or_else(String::new, |why| format!("{why:?}")),
    })
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

    #[test]
    fn impossible_ranges_are_refused() {
        let (mut named, mut set) = (Named::default(), TxIdSet::default());
        let far = TX_ID_MAX.0 + 1;
        for (first, last) in
            [(9, 8), (1, u64::MAX), (0, u64::MAX), (5, 5 + NAMED_MAX), (u64::MAX, u64::MAX), (far, far)]
        {
            let refused = Named::default().insert(&mut set, TxId(first), TxId(last));
            assert!(refused.is_err_and(|e| e.kind() == resurgam_base::ErrorKind::Corrupt), "{first} {last}");
        }
        assert!(set.is_empty());
        assert!(check_id(TxId(far)).is_err() && check_id(TX_ID_MAX).is_ok());
        assert!(named.insert(&mut set, TxId(3), TxId(1_000_000)).is_ok());
        assert!(named.insert(&mut set, TxId(1), TxId(NAMED_MAX)).is_err(), "all of them together");
        assert_eq!(set.len(), 999_998);
    }
}
