//! Analysis: one pass over the log from the last checkpoint's begin to the end.
//!
//! A transaction is aborted unless its COMMIT is found: ids that were active at the
//! checkpoint, and ids that any later record carries, minus those that a COMMIT names.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, Lsn, PageId, Result, TxId};
use resurgam_buffer::{DirtyPage, PendingRedo};
use resurgam_log::{LogEnd, LogReader, RecordKind};
use resurgam_txn::AbortedTx;
use resurgam_versions::decode_forget;
use resurgam_vfs::Vfs;

use crate::checkpoint::CheckpointState;
use crate::control::Control;
use crate::tx_record::TxRecord;

/// How far analysis is, for people.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub records: u64,
    pub bytes: u64,
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
    pub aborted: Vec<AbortedTx>,
    /// How many of them the crash cut off.
    pub cut_off: usize,
    pub records: u64,
    pub bytes: u64,
    /// In words, what stands at the end of the log.
    pub end_reason: String,
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
    let mut seen: HashSet<TxId> = HashSet::new();
    let mut committed: Vec<(TxId, TxId)> = Vec::new();
    let mut committed_tops: HashSet<TxId> = HashSet::new();
    let mut aborted: Vec<AbortedTx> = Vec::new();
    let mut forgotten: HashSet<TxId> = HashSet::new();
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
            RecordKind::Commit => {
                committed_tops.insert(header.tx);
                let body = TxRecord::decode(record.body).map_err(damaged)?;
                top_id = body.subs.iter().map(|(_, last)| last.0).max().unwrap_or(0).max(top_id);
                committed.extend(body.subs);
            }
            RecordKind::Abort => {
                let body = TxRecord::decode(record.body).map_err(damaged)?;
                let mut add = |id: TxId| aborted.push(AbortedTx { id, lsn, aborted_us: body.time_us });
                add(header.tx);
                for (first, last) in &body.subs {
                    top_id = top_id.max(last.0);
                    (first.0..=last.0).for_each(|id| add(TxId(id)));
                }
            }
            RecordKind::Forget => forgotten.extend(decode_forget(record.body).map_err(damaged)?),
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
            "the checkpoint at log position {} is not whole; the log in \"{}\" is damaged or incomplete",
            control.checkpoint,
            dir.display()
        ))
        .with_hint("Restore the data folder from a backup; \"resurgam inspect log\" shows what is there."));
    }
    for DirtyPage { page, rec_lsn, last_lsn } in &state.dirty {
        pending.note(*page, *rec_lsn, *last_lsn);
    }
    committed.sort_unstable();
    let is_committed = |id: TxId| {
        let after = committed.partition_point(|(first, _)| *first <= id);
        committed_tops.contains(&id) || (after > 0 && id <= committed[after - 1].1)
    };
    let known: HashSet<TxId> = aborted.iter().map(|t| t.id).collect();
    let mut cut_off: Vec<TxId> = state
        .active
        .iter()
        .flat_map(|(first, last)| (first.0..=last.0).map(TxId))
        .chain(seen.iter().copied())
        .filter(|id| !known.contains(id) && !is_committed(*id))
        .collect();
    cut_off.sort_unstable();
    cut_off.dedup();
    let in_checkpoint: HashSet<TxId> = state.aborted.iter().map(|t| t.id).collect();
    cut_off.retain(|id| !in_checkpoint.contains(id) && !forgotten.contains(id));
    let count = cut_off.len();
    let mut all = state.aborted;
    all.extend(aborted);
    all.extend(cut_off.into_iter().map(|id| AbortedTx { id, lsn: end.lsn, aborted_us: 0 }));
    all.retain(|t| !forgotten.contains(&t.id));
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
        cut_off: count,
        records,
        bytes: end.lsn.0.saturating_sub(control.checkpoint.0),
        end_reason: reader.why_stopped().map_or_else(String::new, |why| format!("{why:?}")),
    })
}
