//! Undoing a short transaction: the rows that it wrote get their earlier version back, one by
//! one, each in a system transaction, so that it leaves nothing behind (Constant Time
//! Recovery, section 3.3.3).
//!
//! The transaction is active until all its rows are reverted. A crash in between leaves what
//! any crash leaves of an unfinished transaction: the rest is in the aborted-transaction map.

use resurgam_base::{Result, SlotId, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::{BufferPool, Mtr};
use resurgam_page::{LeafBuilder, LeafRecord, leaf, op};
use resurgam_txn::TxManager;

use crate::prune;
use crate::read;

/// Takes what the ids of which `is_undone` is true have written to a row away. A row that was
/// written several times is reverted once; later calls find nothing to do.
pub fn revert_row(
    pool: &BufferPool,
    txs: &TxManager,
    tree: Tree,
    key: &[u8],
    is_undone: &dyn Fn(TxId) -> bool,
) -> Result<()> {
    loop {
        let page = tree.write_leaf(pool, key)?;
        let Ok(slot) = leaf::search(&page, key) else { return Ok(()) };
        let record = LeafRecord::parse(page.record(slot)?)?;
        if record.xid.is_none() || !is_undone(record.xid) {
            return Ok(());
        }
        let Some(bytes) = without(pool, txs, &record, is_undone)? else {
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            op::remove(mtr.ops(at), slot);
            mtr.commit()?;
            return Ok(());
        };
        if !page.fits_replace(slot, bytes.len()) {
            if !(page.has_versions() && prune::clean_leaf(pool, txs, page)?.changed()) {
                tree.make_room(pool, key, bytes.len())?;
            }
            continue;
        }
        put_back(pool, page, slot, &bytes)?;
        return Ok(());
    }
}

fn put_back(pool: &BufferPool, page: resurgam_buffer::WriteGuard<'_>, slot: SlotId, bytes: &[u8]) -> Result<()> {
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(page);
    let (page, ops) = mtr.page_and_ops(at);
    op::change_row(ops, slot, page.record(slot)?, bytes);
    mtr.commit()?;
    Ok(())
}

/// The record of the row without the undone versions; none when nothing is left of it.
fn without(
    pool: &BufferPool,
    txs: &TxManager,
    record: &LeafRecord<'_>,
    is_undone: &dyn Fn(TxId) -> bool,
) -> Result<Option<Vec<u8>>> {
    let Some(version) = read::newest_but(pool, txs, record, is_undone)? else { return Ok(None) };
    let for_all = prune::is_for_all(txs, version.xid);
    if for_all && version.ghost {
        return Ok(None);
    }
    if for_all {
        return LeafBuilder::plain(record.key, &version.value).encode().map(Some);
    }
    let builder = LeafBuilder {
        ghost: version.ghost,
        xid: version.xid,
        key: record.key,
        value: &version.value,
        earlier: version.earlier.borrow(),
    };
    builder.encode().map(Some)
}
