//! Earlier row versions that a restart has lost (traditional mode), rebuilt from the log.
//!
//! In the traditional mode earlier versions are in memory, which is enough while no snapshot is
//! older than a restart: only rows of transactions that had not ended then need any. Those that
//! are undone get their earlier version back in their place. Those that are *in doubt* keep
//! their rows for as long as they are not resolved, and readers must see what was there before:
//! the undo records say it, one change after the other.
//!
//! # Invariants
//! 1. A version gets the name that the row has for it, so that readers need to know nothing.
//! 2. The chain of undo records is read and not changed; nobody else changes the rows of a
//!    transaction that has not ended.

use std::collections::HashMap;

use resurgam_base::{Error, Lsn, ObjectId, Result, TxId};
use resurgam_buffer::{Access, BufferPool};
use resurgam_log::{Log, RecordKind};
use resurgam_page::{Earlier, LeafRecord, leaf, version};
use resurgam_txn::{ActiveTx, TxManager};

use crate::row_undo::{RowUndo, UndoAction};

/// What a walk along the chain has come to.
#[derive(Default)]
struct Walk {
    /// Sub-transactions, as inclusive ranges, ascending.
    subs: Vec<(TxId, TxId)>,
    /// Records by tree and key, as they were at the place in the chain that has been reached: of
    /// rows that the transaction had changed before that place as well, so that those it changed
    /// once take no memory. None: the row cannot be read.
    records: HashMap<(ObjectId, Vec<u8>), Option<Vec<u8>>>,
    report: LostReport,
}

/// What [`rebuild_lost`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostReport {
    /// Versions put back.
    pub versions: u64,
    /// Most rows that it had to remember at a time.
    pub rows_remembered: usize,
}

impl Walk {
    fn is_own(&self, tx: &ActiveTx, xid: TxId) -> bool {
        let behind = self.subs.partition_point(|(first, _)| *first <= xid);
        xid == tx.id || (behind > 0 && xid <= self.subs[behind - 1].1)
    }

    fn remember(&mut self, name: (ObjectId, Vec<u8>), record: Option<Vec<u8>>) {
        self.records.insert(name, record);
        self.report.rows_remembered = self.report.rows_remembered.max(self.records.len());
    }
}

/// Puts what was there before the changes of `tx` back into the temporary version store. Takes
/// time in proportion to what `tx` has written, as its undo would. Rows that cannot be read are
/// passed over.
///
/// # Errors
/// `Corrupt` when the log or a row is not what it should be; those of reading; in the case of
/// rows, the first one, after all others. `Stopped` when `stop` says so.
pub fn rebuild_lost(
    pool: &BufferPool,
    log: &Log,
    txs: &TxManager,
    tx: &ActiveTx,
    stop: &dyn Fn() -> bool,
) -> Result<LostReport> {
    let mut walk = Walk { subs: tx.subs(), ..Walk::default() };
    let mut failed = None;
    let mut at: Lsn = tx.undo.lock().last;
    while at.is_some() {
        if stop() {
            return Err(Error::new(resurgam_base::ErrorKind::Stopped, "the database is being closed"));
        }
        let record = log.read_record(at)?;
        let next = record.header.prev_tx;
        if next >= at {
            return Err(Error::corrupt(format!(
                "the undo chain of transaction {} does not lead back at LSN {at}",
                tx.id
            )));
        }
        match record.header.kind {
            RecordKind::Compensation => {}
            RecordKind::RowUndo | RecordKind::PageUndo => {
                let undo = RowUndo::of_record(&record.header, &record.body)?;
                let undo =
                    undo.ok_or_else(|| Error::corrupt(format!("log record {at} does not say how to undo it")))?;
                if let Err(error) = step_back(pool, txs, tx, &undo, &mut walk) {
                    // Nor can what it was still earlier be told.
                    walk.remember((undo.tree.object, undo.key.to_vec()), None);
                    let what = || Error::new(error.kind(), format!("log record {at}: {}", error.message()));
                    failed.get_or_insert_with(what);
                }
            }
            other => return Err(Error::corrupt(format!("log record {at} is in an undo chain, but is {other:?}"))),
        }
        at = next;
    }
    failed.map_or(Ok(walk.report), Err)
}

/// Goes back by one change of a row.
fn step_back(pool: &BufferPool, txs: &TxManager, tx: &ActiveTx, undo: &RowUndo<'_>, walk: &mut Walk) -> Result<()> {
    let not_there = || Error::corrupt(format!("a row of tree {} is not as the log says", undo.tree.object));
    let name = (undo.tree.object, undo.key.to_vec());
    if let UndoAction::Insert(record) = undo.action {
        if walk.is_own(tx, LeafRecord::parse(record)?.xid) {
            walk.remember(name, Some(record.to_vec()));
        }
        return Ok(());
    }
    let after = match walk.records.remove(&name) {
        Some(Some(record)) => record,
        Some(None) => {
            walk.remember(name, None);
            return Ok(());
        }
        None => {
            let page = undo.tree.read_leaf(pool, undo.key, Access::Scan)?;
            let slot = leaf::search(&page, undo.key).map_err(|_| not_there())?;
            page.record(slot)?.to_vec()
        }
    };
    let after_it = LeafRecord::parse(&after)?;
    if after_it.xid != undo.xid {
        return Err(not_there());
    }
    if undo.action == UndoAction::Remove {
        return Ok(());
    }
    let before = undo.record_before(&after)?;
    let before_it = LeafRecord::parse(&before)?;
    if before_it.key != undo.key {
        return Err(not_there());
    }
    if let Earlier::OffRow(pointer) = after_it.earlier()
        && pointer.page.is_temporary()
        // A change under the same id keeps the version before.
        && before_it.xid != after_it.xid
    {
        let mut bytes = Vec::with_capacity(before.len() + version::OVERHEAD);
        version::encode_into(undo.tree.object, after_it.xid, &before, &mut bytes);
        txs.temporary().restore(tx.id, (pointer.page, pointer.slot), bytes);
        walk.report.versions += 1;
    }
    if walk.is_own(tx, before_it.xid) {
        walk.remember(name, Some(before));
    }
    Ok(())
}
