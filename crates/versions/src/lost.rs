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

use resurgam_base::{Error, Lsn, ObjectId, Result, limits::RECORD_BYTES_MAX};
use resurgam_buffer::{Access, BufferPool};
use resurgam_log::{Log, RecordKind};
use resurgam_page::{Earlier, LeafRecord, diff, leaf, version};
use resurgam_txn::{ActiveTx, TxManager};

use crate::row_undo::{RowUndo, UndoAction};

/// Records by tree and key, as they were at the place in the chain that has been reached.
type Records = HashMap<(ObjectId, Vec<u8>), Vec<u8>>;

/// Puts what was there before the changes of `tx` back into the temporary version store, for
/// rows of the trees that are `wanted`. Takes time in proportion to what `tx` has written, as
/// its undo would. Returns the number of versions.
///
/// # Errors
/// `Corrupt` when the log or a row is not what it should be; those of reading; `Stopped` when
/// `stop` says so.
pub fn rebuild_lost(
    pool: &BufferPool,
    log: &Log,
    txs: &TxManager,
    tx: &ActiveTx,
    wanted: &dyn Fn(ObjectId) -> bool,
    stop: &dyn Fn() -> bool,
) -> Result<u64> {
    let mut records = Records::new();
    let mut count = 0;
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
            RecordKind::RowUndo => {
                let undo = RowUndo::decode(&record.body)?;
                if wanted(undo.tree.object) {
                    count += u64::from(
                        step_back(pool, txs, tx, &undo, &mut records)
                            .map_err(|e| Error::new(e.kind(), format!("log record {at}: {}", e.message())))?,
                    );
                }
            }
            other => return Err(Error::corrupt(format!("log record {at} is in an undo chain, but is {other:?}"))),
        }
        at = next;
    }
    Ok(count)
}

/// Goes back by one change of a row. True: a version was put into the store.
fn step_back(
    pool: &BufferPool,
    txs: &TxManager,
    tx: &ActiveTx,
    undo: &RowUndo<'_>,
    records: &mut Records,
) -> Result<bool> {
    let not_there = || Error::corrupt(format!("a row of tree {} is not as the log says", undo.tree.object));
    let name = (undo.tree.object, undo.key.to_vec());
    if let UndoAction::Insert(record) = undo.action {
        records.insert(name, record.to_vec());
        return Ok(false);
    }
    let after = match records.remove(&name) {
        Some(record) => record,
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
    let UndoAction::Patch(patch) = undo.action else { return Ok(false) };
    let mut before = Vec::new();
    diff::apply(&after, patch, RECORD_BYTES_MAX, &mut before)?;
    let before_it = LeafRecord::parse(&before)?;
    if before_it.key != undo.key {
        return Err(not_there());
    }
    let mut kept = false;
    if let Earlier::OffRow(pointer) = after_it.earlier()
        && pointer.page.is_temporary()
        // A change under the same id keeps the version before.
        && before_it.xid != after_it.xid
    {
        let mut bytes = Vec::with_capacity(before.len() + version::OVERHEAD);
        version::encode_into(undo.tree.object, after_it.xid, &before, &mut bytes);
        txs.temporary().restore(tx.id, (pointer.page, pointer.slot), bytes);
        kept = true;
    }
    records.insert(name, before);
    Ok(kept)
}
