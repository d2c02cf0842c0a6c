//! What keeps off-row versions from being freed, in words: for whoever meets a version store
//! that is out of space.

use resurgam_base::{Error, ErrorKind};
use resurgam_txn::TxManager;

/// What holds versions back: long transactions and snapshots, and aborted transactions that
/// the cleaner has not finished.
pub fn version_holders(txs: &TxManager) -> String {
    let mut parts = Vec::new();
    let (active, _) = txs.active();
    if let Some(tx) = active.iter().min_by_key(|tx| tx.id) {
        parts.push(match tx.prepared_as.get() {
            Some(gid) => format!("transaction {}, which is prepared as \"{gid}\" and waits to be resolved", tx.id),
            None => {
                format!("transaction {}, which began to write {:.0} s ago", tx.id, tx.since.elapsed().as_secs_f64())
            }
        });
        // Each keeps what was pushed by itself only, so the oldest may hold least.
        if active.len() > 1 {
            parts.push(format!("{} younger transactions that have written and not ended", active.len() - 1));
        }
    }
    let behind = txs.snapshots().visible().0.saturating_sub(txs.horizon().0);
    if behind > 0 {
        parts.push(format!("the oldest of {} snapshots in use, {behind} commits behind", txs.snapshots().in_use()));
    }
    let aborted = txs.status_table().aborted();
    if let Some(oldest) = aborted.oldest() {
        parts.push(format!("{} aborted transactions that wait for the cleaner, the oldest {oldest}", aborted.len()));
    }
    if parts.is_empty() { "nobody: the next sweep of the cleaner frees them".into() } else { parts.join("; ") }
}

/// Adds to a full version store's error who holds its versions and what can be done.
pub(crate) fn explain(error: Error, txs: &TxManager) -> Error {
    if error.kind() != ErrorKind::DiskFull {
        return error;
    }
    error.with_detail(format!("earlier versions are held by {}", version_holders(txs))).with_hint(
        "Free space on the disk of the version store or raise version_store_bytes_max, end large transactions and \
         old snapshots, then VACUUM. Writes whose earlier version fits in the row go on.",
    )
}
