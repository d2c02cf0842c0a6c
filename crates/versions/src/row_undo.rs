//! Undo records of the traditional mode: how to take back one row change, found by its key.
//!
//! A row change of the traditional mode is one record of the log, of its page: what it does to the page
//! is redone and never undone, and what undoes it names tree and key: by the time it is
//! undone, splits may have moved the row (logical undo, as in ARIES/KVL). The undo is itself
//! a group of a page record and a *compensation* record, whose link skips what was undone, so
//! that repeated crashes never undo anything twice (Constant Time Recovery, section 2).
//!
//! ```text
//! in the page's record (PageUndo, operation Undo; the tree's object is the record's):
//!        action u8        2 = patch the row, 4 = change it, 5 = remove the row that this very record inserts
//!        row's xid varint the id that the change was made under
//!        root varint
//!        [2, 4] key counted, then from the changed record to the one before: 2 a diff, 4 a change
//!               (`page/src/row_change.rs`)
//! a record of its own (RowUndo; written for each change until format version 3, and in a log that goes on where another
//! one was cut off, for what was unfinished there):
//!      0 action u8        1 = remove the row, 2 = patch it, 3 = insert it, 4 = change it
//!      1 row's xid u64
//!      9 root u64, object u32: the tree
//!     21 key length u16, key
//!        payload: 2, 4 what leads from the changed record to the one before; 3 that record
//! ```

use resurgam_base::limits::{KEY_BYTES_MAX, RECORD_BYTES_MAX};
use resurgam_base::{Error, Lsn, ObjectId, PageId, Result, SlotId, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::{BufferPool, Mtr, WriteGuard};
use resurgam_log::{Log, RecordHeader, RecordKind};
use resurgam_page::codec::{Reader, put_counted, put_varint64};
use resurgam_page::{LeafRecord, PageOp, buf, diff, leaf, op, row_change, space};
use resurgam_txn::{ActiveTx, TxManager};

use crate::prune;

const REMOVE: u8 = 1;
const PATCH: u8 = 2;
const INSERT: u8 = 3;
const CHANGE: u8 = 4;
const REMOVE_INSERTED: u8 = 5;
#[cfg(test)]
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
    /// The row's record was changed: a change leads back ([`row_change`]).
    Change(&'a [u8]),
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
    /// What a record of the log says about undoing it; none where it says nothing.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of_record(header: &RecordHeader, body: &'a [u8]) -> Result<Option<Self>> {
        let undo = match header.kind {
            RecordKind::RowUndo => Self::parse(body),
            RecordKind::PageUndo => Self::parse_in_page(op::undo_of(body)?, header.object, body)?,
            _ => return Ok(None),
        };
        undo.map(Some).ok_or_else(|| Error::corrupt("an undo record cannot be read"))
    }

    fn parse_in_page(bytes: &'a [u8], object: ObjectId, body: &'a [u8]) -> Result<Option<Self>> {
        let mut r = Reader::new(bytes, "undo of a row");
        let (action, xid, root) = (r.u8()?, TxId(r.varint64()?), PageId(r.varint64()?));
        let (key, action) = match action {
            REMOVE_INSERTED => {
                let inserted = op::decode(body).find_map(|op| match op {
                    Ok(PageOp::Insert { bytes, .. }) => Some(bytes),
                    _ => None,
                });
                let Some(inserted) = inserted else { return Err(r.bad("nothing is inserted that is to be removed")) };
                (LeafRecord::parse(inserted)?.key, UndoAction::Remove)
            }
            CHANGE => (r.counted()?, UndoAction::Change(r.rest())),
            PATCH => (r.counted()?, UndoAction::Patch(r.rest())),
            _ => return Ok(None),
        };
        let whole = r.is_empty() && key.len() <= KEY_BYTES_MAX && xid.is_some() && root.is_some();
        Ok(whole.then_some(Self { xid, tree: Tree { root, object }, key, action }))
    }

    /// The record before the change, of the one after it.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn record_before(&self, after: &[u8]) -> Result<Vec<u8>> {
        let mut before = Vec::with_capacity(after.len());
        match self.action {
            UndoAction::Patch(patch) => diff::apply(after, patch, RECORD_BYTES_MAX, &mut before)?,
            UndoAction::Change(change) => row_change::apply(after, change, &mut before)?,
            UndoAction::Remove | UndoAction::Insert(_) => {}
        }
        Ok(before)
    }

    /// The body of a record of its own that says the same.
    pub fn encode_alone(&self) -> Vec<u8> {
        let (action, payload): (u8, &[u8]) = match self.action {
            UndoAction::Remove => (REMOVE, &[]),
            UndoAction::Patch(patch) => (PATCH, patch),
            UndoAction::Insert(record) => (INSERT, record),
            UndoAction::Change(change) => (CHANGE, change),
        };
        let mut out = vec![action];
        out.extend_from_slice(&self.xid.0.to_le_bytes());
        out.extend_from_slice(&self.tree.root.0.to_le_bytes());
        out.extend_from_slice(&self.tree.object.0.to_le_bytes());
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(self.key);
        out.extend_from_slice(payload);
        out
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
            CHANGE => UndoAction::Change(payload),
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
        RecordKind::RowUndo | RecordKind::PageUndo => {
            let undo = RowUndo::of_record(&record.header, &record.body)?;
            let undo = undo.ok_or_else(|| Error::corrupt(format!("log record {at} does not say how to undo it")))?;
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
            (UndoAction::Patch(_) | UndoAction::Change(_), Ok(slot)) => {
                check(slot)?;
                let current = page.record(slot)?;
                old = undo.record_before(current)?;
                op::change_row(&mut ops, slot, current, &old);
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
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(page);
    mtr.ops(at).extend_from_slice(body);
    let tagged = !restored.is_empty() && (LeafRecord::parse(restored)?.is_tagged());
    if tagged && !marked {
        op::set_flags(mtr.ops(at), buf::HAS_VERSIONS, 0);
        pool.space().set_flags(&mut mtr, id, space::PFS_HAS_VERSIONS, 0)?;
    }
    // No page may be waited for under it: a checkpoint asks for it.
    let mut chain = tx.undo.lock();
    mtr.record(RecordKind::Compensation, tx.id, next, Vec::new());
    mtr.commit()?;
    chain.last = next;
    Ok(())
}

/// What an insert logs to be undone (the module's head).
pub(crate) fn of_insert(xid: TxId, tree: Tree) -> Vec<u8> {
    begin(REMOVE_INSERTED, xid, tree)
}

/// What the change of the record `old` of `key` to `new` logs to be undone.
pub(crate) fn of_change(xid: TxId, tree: Tree, key: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = begin(CHANGE, xid, tree);
    put_counted(&mut out, key);
    if !row_change::encode(new, old, &mut out) {
        out[0] = PATCH;
        diff::diff(new, old, &mut out);
    }
    out
}

fn begin(action: u8, xid: TxId, tree: Tree) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.push(action);
    put_varint64(&mut out, xid.0);
    put_varint64(&mut out, tree.root.0);
    out
}

#[cfg(test)]
mod tests {
    use resurgam_base::PageId;
    use resurgam_page::{Earlier, EarlierTag, LeafBuilder, VersionPtr};

    use super::*;

    fn header(kind: RecordKind) -> RecordHeader {
        RecordHeader {
            len: 0,
            offset_in_block: 0,
            kind,
            first_of_group: true,
            last_of_group: true,
            object: ObjectId(9),
            tx: TxId(4),
            prev_tx: Lsn::NONE,
            page: PageId(50),
            prev_page: Lsn::NONE,
        }
    }

    const TREE: Tree = Tree { root: PageId(77), object: ObjectId(9) };

    #[test]
    fn in_the_record_of_its_page() -> Result<()> {
        let header = header(RecordKind::PageUndo);
        let record = LeafBuilder::inserted(TxId(5), b"a key", b"value").encode()?;
        let mut body = Vec::new();
        op::insert(&mut body, SlotId(3), &record);
        let inserted_only = body.len();
        op::undo(&mut body, &of_insert(TxId(5), TREE));
        let undo = RowUndo { xid: TxId(5), tree: TREE, key: b"a key", action: UndoAction::Remove };
        assert_eq!(RowUndo::of_record(&header, &body)?, Some(undo));
        assert!(RowUndo::of_record(&header, &body[..inserted_only]).is_err());
        assert!(RowUndo::of_record(&header, &body[inserted_only..]).is_err());
        // A record with a version in the row that the new one has no part of: a patch.
        let tag = EarlierTag { ghost: false, xid: TxId::NONE, offrow: None };
        let builder = LeafBuilder::inserted(TxId(6), b"a key", b"value");
        let deep = LeafBuilder { earlier: Earlier::InRow(tag, b"\x00\x00\x01V"), ..builder }.encode()?;
        let pushed = VersionPtr { page: PageId(9), slot: SlotId(2) };
        let above = LeafBuilder { earlier: Earlier::OffRow(pushed), ..builder }.encode()?;
        for (old, new, patched) in [(&record, &above, false), (&deep, &above, true), (&record, &deep, false)] {
            let mut body = Vec::new();
            op::change_row(&mut body, SlotId(3), old, new);
            op::undo(&mut body, &of_change(TxId(1 << 40), TREE, b"a key", old, new));
            let undo = RowUndo::of_record(&header, &body)?.expect("it is a record with an undo");
            assert_eq!((undo.xid, undo.tree, undo.key), (TxId(1 << 40), TREE, &b"a key"[..]));
            assert_eq!(matches!(undo.action, UndoAction::Patch(_)), patched);
            assert_eq!(&undo.record_before(new)?, old);
        }
        for bytes in [&b""[..], b"\x04", b"\x04\x05", b"\x04\x00\x07\x01k", b"\x09\x05\x07"] {
            let mut body = Vec::new();
            op::undo(&mut body, bytes);
            assert!(RowUndo::of_record(&header, &body).is_err(), "{bytes:?}");
        }
        Ok(())
    }

    /// As programs until format version 3 wrote it.
    #[test]
    fn records_of_their_own_are_read() -> Result<()> {
        let header = header(RecordKind::RowUndo);
        let body = |action: u8, payload: &[u8]| {
            let mut out = vec![action];
            out.extend_from_slice(&5u64.to_le_bytes());
            out.extend_from_slice(&77u64.to_le_bytes());
            out.extend_from_slice(&9u32.to_le_bytes());
            out.extend_from_slice(&5u16.to_le_bytes());
            out.extend_from_slice(b"a key");
            out.extend_from_slice(payload);
            out
        };
        let cases = [
            (body(REMOVE, b""), UndoAction::Remove),
            (body(PATCH, b"\x01\x02"), UndoAction::Patch(b"\x01\x02")),
            (body(INSERT, b"record"), UndoAction::Insert(b"record")),
            (body(CHANGE, b"\x01\x02"), UndoAction::Change(b"\x01\x02")),
        ];
        for (bytes, action) in &cases {
            let undo = RowUndo { xid: TxId(5), tree: TREE, key: b"a key", action: *action };
            assert_eq!(RowUndo::of_record(&header, bytes)?, Some(undo));
            assert_eq!(&undo.encode_alone(), bytes);
            for len in 0..HEAD + 5 {
                assert!(RowUndo::of_record(&header, &bytes[..len]).is_err(), "{len} bytes");
            }
        }
        assert!(RowUndo::of_record(&header, &[9; 40]).is_err());
        Ok(())
    }
}
