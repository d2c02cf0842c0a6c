//! When and where transactions of the aborted-transaction map aborted: for operators only.
//! Nothing depends on it, so it is bounded: of [`DETAILS_MAX`] entries the oldest give
//! way, but for the very oldest, which is what holds the cleaning of versions back.

use std::collections::BTreeMap;

use resurgam_base::{Lsn, TxId};

use crate::id_set::TxIdSet;

/// Entries kept at most; about 5 MB.
pub const DETAILS_MAX: usize = 100_000;

/// What is kept of an aborted transaction, or of a stretch of sub-transactions that aborted
/// together (it goes by the name of its first id).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTx {
    pub id: TxId,
    /// Where its ABORT record is, or where recovery declared it aborted.
    pub lsn: Lsn,
    /// Microseconds since 2000-01-01 UTC; 0 = unknown (aborted by a crash).
    pub aborted_us: i64,
    /// When it began, in the same terms; 0 = unknown.
    pub began_us: i64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct AbortedDetails {
    entries: BTreeMap<TxId, AbortedTx>,
    given_up: TxId,
}

impl AbortedDetails {
    /// Keeps `tx`; that with the lowest id but one is given up when there are too many.
    pub fn note(&mut self, tx: AbortedTx) {
        self.entries.insert(tx.id, tx);
        if self.entries.len() > DETAILS_MAX
            && let Some(second) = self.entries.keys().nth(1).copied()
        {
            self.entries.remove(&second);
            self.given_up = self.given_up.max(second);
        }
    }
    /// What is known of `id`.
    pub fn get(&self, id: TxId) -> Option<&AbortedTx> {
        self.entries.get(&id)
    }
    /// Drops those of `ids`.
    pub fn forget(&mut self, ids: &TxIdSet) {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return };
        let gone: Vec<TxId> =
            self.entries.range(first..=last).map(|(id, _)| *id).filter(|id| ids.contains(*id)).collect();
        for id in gone {
            self.entries.remove(&id);
        }
    }
    /// Drops all but those of `ids`.
    pub fn keep_only(&mut self, ids: &TxIdSet) {
        self.entries.retain(|id, _| ids.contains(*id));
    }
    /// All entries, by id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &AbortedTx> + '_ {
        self.entries.values()
    }
    /// The newest `most` entries, by id.
    pub fn newest(&self, most: usize) -> Vec<AbortedTx> {
        let mut newest: Vec<AbortedTx> = self.entries.values().rev().take(most).copied().collect();
        newest.reverse();
        newest
    }
    /// The highest id that was given up, or none: whatever is newer is here.
    pub fn given_up(&self) -> TxId {
        self.given_up
    }
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
