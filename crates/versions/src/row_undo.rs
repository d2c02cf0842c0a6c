//! Undo records of the traditional mode: how to take back one row change, found by its key.
//!
//! A row change of the traditional mode is a log group of the page's record, which is redone
//! and never undone, and of one undo record, which names tree and key: by the time it is
//! undone, splits may have moved the row (logical undo, as in ARIES/KVL). The undo is itself
//! a group of a page record and a *compensation* record, whose link skips what was undone, so
//! that repeated crashes never undo anything twice (Constant Time Recovery, section 2).
//!
//! ```text
//! body   0 action u8      1 = remove the row, 2 = patch it, 3 = insert it
//!        1 row's xid u64  the id that the change was made under
//!        9 root u64, object u32: the tree
//!       21 key length u16, key
//!          payload: 2 the diff from the changed record to the one before; 3 that record
//! ```

use resurgam_base::limits::{KEY_BYTES_MAX, RECORD_BYTES_MAX};
use resurgam_base::{Error, Lsn, ObjectId, PageId, Result, SlotId, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::{BufferPool, Mtr, WriteGuard};
use resurgam_log::{Log, RecordKind};
use resurgam_page::{LeafRecord, buf, diff, leaf, op, space};
use resurgam_txn::{ActiveTx, TxManager};

use crate::prune;

const REMOVE: u8 = 1;
const PATCH: u8 = 2;
const INSERT: u8 = 3;
const HEAD: usize = 23;

/// How a change is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoAction<'a> {
    /// The row was inserted.
    Remove,
    /// The row's record was changed: a diff leads back.
    Patch(&'a [u8]),
    /// The row's record was removed.
    Insert(&'a [u8]),
}

/// A decoded undo record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowUndo<'a> {
    /// The id that the changed version carries.
    pub xid: TxId,
    pub tree: Tree,
    pub key: &'a [u8],
    pub action: UndoAction<'a>,
}

impl<'a> RowUndo<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let (action, payload): (u8, &[u8]) = match self.action {
            UndoAction::Remove => (REMOVE, &[]),
            UndoAction::Patch(diff) => (PATCH, diff),
            UndoAction::Insert(record) => (INSERT, record),
        };
        let mut out = Vec::with_capacity(HEAD + self.key.len() + payload.len());
        out.push(action);
        out.extend_from_slice(&self.xid.0.to_le_bytes());
        out.extend_from_slice(&self.tree.root.0.to_le_bytes());
        out.extend_from_slice(&self.tree.object.0.to_le_bytes());
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(self.key);
        out.extend_from_slice(payload);
        out
    }

    /// Reads the body of an undo record.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(body: &'a [u8]) -> Result<Self> {
        Self::parse(body).ok_or_else(|| Error::corrupt("an undo record cannot be read"))
    }

    fn parse(body: &'a [u8]) -> Option<Self> {
        let (action, rest) = body.split_first()?;
        let (xid, rest) = rest.split_first_chunk::<8>()?;
        let (root, rest) = rest.split_first_chunk::<8>()?;
        let (object, rest) = rest.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (key, payload) = rest.split_at_checked(u16::from_le_bytes(*len) as usize)?;
        let action = match *action {
            REMOVE if payload.is_empty() => UndoAction::Remove,
            PATCH => UndoAction::Patch(payload),
            INSERT => UndoAction::Insert(payload),
            _ => return None,
        };
        let tree = Tree { root: PageId(u64::from_le_bytes(*root)), object: ObjectId(u32::from_le_bytes(*object)) };
        let xid = TxId(u64::from_le_bytes(*xid));
        (key.len() <= KEY_BYTES_MAX && xid.is_some() && tree.root.is_some()).then_some(Self { xid, tree, key, action })
    }
}

/// Undoes one record of `tx`, back from the end of its chain. False: nothing is left above
/// `until` (a savepoint's place in the chain, or none for everything).
///
/// # Errors
/// `DiskFull` when the log has no room: nothing was changed, and it may be called again;
/// `Corrupt` when the log or the row is not what it should be.
pub fn undo_one(pool: &BufferPool, log: &Log, txs: &TxManager, tx: &ActiveTx, until: Lsn) -> Result<bool> {
    let at = tx.undo.lock().last;
    if at.is_none() || at <= until {
        return Ok(false);
    }
    let record = log.read_record(at)?;
    let next = record.header.prev_tx;
    if next >= at {
        return Err(Error::corrupt(format!("the undo chain of transaction {} does not lead back at LSN {at}", tx.id)));
    }
    match record.header.kind {
        RecordKind::Compensation => tx.undo.lock().last = next,
        RecordKind::RowUndo => {
            let undo = RowUndo::decode(&record.body)?;
            take_back(pool, txs, tx, &undo, next)
                .map_err(|e| Error::new(e.kind(), format!("undo of log record {at}: {}", e.message())))?;
        }
        other => return Err(Error::corrupt(format!("log record {at} is in an undo chain, but is {other:?}"))),
    }
    Ok(true)
}

fn take_back(pool: &BufferPool, txs: &TxManager, tx: &ActiveTx, undo: &RowUndo<'_>, next: Lsn) -> Result<()> {
    loop {
        let page = undo.tree.write_leaf(pool, undo.key)?;
        let found = leaf::search(&page, undo.key);
        let not_there = || Error::corrupt(format!("a row of tree {} is not as the log says", undo.tree.object));
        let check = |slot: SlotId| -> Result<()> {
            let current = LeafRecord::parse(page.record(slot)?)?;
            if current.xid == undo.xid { Ok(()) } else { Err(not_there()) }
        };
        let mut old = Vec::new();
        let mut ops = Vec::new();
        let needed = match (undo.action, found) {
            (UndoAction::Remove, Ok(slot)) => {
                check(slot)?;
                op::remove(&mut ops, slot);
                None
            }
            (UndoAction::Patch(patch), Ok(slot)) => {
                check(slot)?;
                let current = page.record(slot)?;
                diff::apply(current, patch, RECORD_BYTES_MAX, &mut old)?;
                op::patch_or_replace(&mut ops, slot, current, &old);
                (!page.fits_replace(slot, old.len())).then_some(old.len())
            }
            (UndoAction::Insert(record), Err(slot)) => {
                old.extend_from_slice(record);
                op::insert(&mut ops, slot, record);
                (!page.fits(record.len())).then_some(record.len())
            }
            _ => return Err(not_there()),
        };
        if let Some(len) = needed {
            if !(page.has_versions() && prune::clean_leaf(pool, txs, page)?.changed()) {
                undo.tree.make_room(pool, undo.key, len)?;
            }
            continue;
        }
        if !old.is_empty() && LeafRecord::parse(&old)?.key != undo.key {
            return Err(not_there());
        }
        return compensate(pool, tx, page, &ops, &old, next);
    }
}

/// Applies `ops` with the compensation record in one group.
fn compensate(
    pool: &BufferPool,
    tx: &ActiveTx,
    page: WriteGuard<'_>,
    body: &[u8],
    restored: &[u8],
    next: Lsn,
) -> Result<()> {
    let (id, marked) = (page.id(), page.has_versions());
    let mut chain = tx.undo.lock();
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(page);
    mtr.ops(at).extend_from_slice(body);
    let tagged = !restored.is_empty() && (LeafRecord::parse(restored)?.is_tagged());
    if tagged && !marked {
        op::set_flags(mtr.ops(at), buf::HAS_VERSIONS, 0);
        pool.space().set_flags(&mut mtr, id, space::PFS_HAS_VERSIONS, 0)?;
    }
    mtr.record(RecordKind::Compensation, tx.id, next, Vec::new());
    mtr.commit()?;
    chain.last = next;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec() -> Result<()> {
        let tree = Tree { root: PageId(77), object: ObjectId(9) };
        for action in [UndoAction::Remove, UndoAction::Patch(b"\x01\x02"), UndoAction::Insert(b"record")] {
            let undo = RowUndo { xid: TxId(5), tree, key: b"a key", action };
            let bytes = undo.encode();
            assert_eq!(RowUndo::decode(&bytes)?, undo);
            for len in 0..HEAD + 5 {
                assert!(RowUndo::decode(&bytes[..len]).is_err(), "{len} bytes");
            }
        }
        assert!(RowUndo::decode(&[9; 40]).is_err());
        Ok(())
    }
}
