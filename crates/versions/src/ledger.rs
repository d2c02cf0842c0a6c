//! The ledger: storage that is to be freed once a transaction's outcome is past changing.
//!
//! A dropped table's pages must stay until its dropper is committed and no snapshot needs
//! them; a created table's pages must go if its creator aborts; a large value that no
//! committed row refers to any more must go. None of this may happen inside the user
//! transaction (it could not be taken back), so the transaction notes it here, in a small
//! tree of its own, and the cleaner acts (deferred deallocation, Constant Time Recovery,
//! section 3.4.2). An entry survives crashes and is removed with the last step it asks for.
//!
//! ```text
//! key    transaction id u64 BE | sequence u64 BE
//! value  kind u8 | page u64 LE | object u32 LE
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use resurgam_base::{Error, Lsn, ObjectId, PageId, Result, SlotId, TxId};
use resurgam_btree::{LeafWalk, Tree, free_tree_step};
use resurgam_buffer::{BufferPool, Mtr};
use resurgam_page::{LeafBuilder, LeafRecord, leaf, op};
use resurgam_txn::{Status, TxManager};

use crate::overflow::free_external;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerAction {
    /// Free a whole tree if the transaction commits.
    TreeIfCommitted(Tree),
    /// Free a whole tree if the transaction aborts.
    TreeIfAborted(Tree),
    /// Free a large value if the transaction commits.
    ValueIfCommitted(PageId),
}

impl LedgerAction {
    fn encode(self) -> Vec<u8> {
        let (kind, page, object) = match self {
            Self::TreeIfCommitted(t) => (1u8, t.root, t.object),
            Self::TreeIfAborted(t) => (2, t.root, t.object),
            Self::ValueIfCommitted(page) => (3, page, ObjectId::NONE),
        };
        let mut out = vec![kind];
        out.extend_from_slice(&page.0.to_le_bytes());
        out.extend_from_slice(&object.0.to_le_bytes());
        out
    }
    fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = || Error::corrupt("a ledger entry cannot be read");
        let bytes: &[u8; 13] = bytes.try_into().map_err(|_| bad())?;
        let [kind, a, b, c, d, e, f, g, h, o @ ..] = *bytes;
        let page = PageId(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        let object = ObjectId(u32::from_le_bytes(o));
        match kind {
            1 => Ok(Self::TreeIfCommitted(Tree { root: page, object })),
            2 => Ok(Self::TreeIfAborted(Tree { root: page, object })),
            3 => Ok(Self::ValueIfCommitted(page)),
            _ => Err(bad()),
        }
    }
}

/// See the module.
pub struct Ledger {
    tree: Tree,
    sequence: AtomicU64,
}

impl Ledger {
    /// The ledger kept in `tree`; `start` is above every sequence number used so far
    /// (the log's end at open will do).
    pub fn new(tree: Tree, start: u64) -> Self {
        Self { tree, sequence: AtomicU64::new(start) }
    }

    /// Notes an action for `tx`. Must follow the change that it belongs to.
    /// Returns the record's LSN: the transaction has written, and must not end as one that
    /// has not.
    pub fn add(&self, pool: &BufferPool, tx: TxId, action: LedgerAction) -> Result<Lsn> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let mut key = tx.0.to_be_bytes().to_vec();
        key.extend_from_slice(&sequence.to_be_bytes());
        let bytes = LeafBuilder::plain(&key, &action.encode()).encode()?;
        loop {
            let page = self.tree.write_leaf(pool, &key)?;
            if !page.fits(bytes.len()) {
                drop(page);
                self.tree.make_room(pool, &key, bytes.len())?;
                continue;
            }
            let Err(slot) = leaf::search(&page, &key) else {
                return Err(Error::internal("a ledger key is taken"));
            };
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            // The entry may be the transaction's first record: it must name it, or analysis
            // would not know of the transaction and take it for committed.
            mtr.attribute(at, tx, Lsn::NONE);
            op::insert(mtr.ops(at), slot, &bytes);
            return Ok(mtr.commit()?.0);
        }
    }

    /// The tree that it is kept in.
    pub fn tree(&self) -> Tree {
        self.tree
    }

    /// Every entry: whose outcome it waits for, and what is to be done.
    pub fn entries(&self, pool: &BufferPool) -> Result<Vec<(TxId, LedgerAction)>> {
        let mut entries = Vec::new();
        let mut walk = LeafWalk::ascending(self.tree, Vec::new());
        while let Some(page) = walk.next(pool)? {
            for s in 0..page.slot_count() {
                let record = LeafRecord::parse(page.record(SlotId(s))?)?;
                let Some(id) = record.key.first_chunk::<8>() else { continue };
                entries.push((TxId(u64::from_be_bytes(*id)), LedgerAction::decode(record.value)?));
            }
        }
        Ok(entries)
    }

    /// Acts on every entry whose transaction's outcome is known to all. Returns how many
    /// entries were settled.
    pub fn settle(&self, pool: &BufferPool, txs: &TxManager) -> Result<u64> {
        let horizon = txs.horizon();
        let mut due = Vec::new();
        let mut walk = LeafWalk::ascending(self.tree, Vec::new());
        while let Some(page) = walk.next(pool)? {
            for s in 0..page.slot_count() {
                let record = LeafRecord::parse(page.record(SlotId(s))?)?;
                let Some(id) = record.key.first_chunk::<8>() else { continue };
                let outcome = match txs.status(TxId(u64::from_be_bytes(*id))) {
                    Status::Committed(ts) if ts <= horizon => true,
                    Status::Aborted => false,
                    _ => continue,
                };
                due.push((record.key.to_vec(), LedgerAction::decode(record.value)?, outcome));
            }
        }
        let settled = due.len() as u64;
        for (key, action, committed) in due {
            match (action, committed) {
                (LedgerAction::TreeIfCommitted(tree), true) | (LedgerAction::TreeIfAborted(tree), false) => {
                    while free_tree_step(pool, tree, |_| Ok(()))? {}
                    self.remove(pool, &key)?;
                }
                (LedgerAction::ValueIfCommitted(first), true) => self.free_value(pool, &key, first)?,
                _ => self.remove(pool, &key)?,
            }
        }
        Ok(settled)
    }

    /// Frees a chain page by page; the entry moves on with each page in one group, so a
    /// crash leaves neither a leak nor a page freed twice.
    fn free_value(&self, pool: &BufferPool, key: &[u8], first: PageId) -> Result<()> {
        let mut at = first;
        loop {
            let leaf_page = self.tree.write_leaf(pool, key)?;
            let Ok(slot) = leaf::search(&leaf_page, key) else { return Ok(()) };
            let mut mtr = Mtr::new(pool);
            let entry = mtr.add(leaf_page);
            let rest = free_external(&mut mtr, at)?;
            match rest {
                Some(next) if next.is_some() => {
                    let bytes = LeafBuilder::plain(key, &LedgerAction::ValueIfCommitted(next).encode()).encode()?;
                    op::replace(mtr.ops(entry), slot, &bytes);
                    mtr.commit()?;
                    at = next;
                }
                _ => {
                    op::remove(mtr.ops(entry), slot);
                    mtr.commit()?;
                    return Ok(());
                }
            }
        }
    }

    fn remove(&self, pool: &BufferPool, key: &[u8]) -> Result<()> {
        let page = self.tree.write_leaf(pool, key)?;
        if let Ok(slot) = leaf::search(&page, key) {
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            op::remove(mtr.ops(at), slot);
            mtr.commit()?;
        }
        Ok(())
    }
}
