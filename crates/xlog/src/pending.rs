//! Blocks that are not known to be hardened: by epoch and LSN, for two lives of a primary can give the same LSN to other bytes.
//!
//! Bounded: what does not fit is let go, and comes from the landing zone.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_base::Lsn;

use crate::piece::Piece;

#[derive(Default)]
pub(crate) struct Pending {
    all: BTreeMap<(u32, Lsn), Arc<Piece>>,
    bytes: usize,
}

impl Pending {
    /// False: there is no room for it, or it is there.
    pub fn insert(&mut self, piece: Piece, bytes_max: usize) -> bool {
        let key = (piece.epoch, piece.lsn);
        if self.bytes + piece.bytes.len() > bytes_max || self.all.contains_key(&key) {
            return false;
        }
        self.bytes += piece.bytes.len();
        self.all.insert(key, Arc::new(piece));
        true
    }

    /// The block of an epoch.
    pub fn get(&self, epoch: u32, lsn: Lsn) -> Option<&Arc<Piece>> {
        self.all.get(&(epoch, lsn))
    }

    /// A block of whichever epoch: what a planted mistake does.
    pub fn of_any_epoch(&self, lsn: Lsn) -> Option<&Arc<Piece>> {
        self.all.values().find(|piece| piece.lsn == lsn)
    }

    /// Forgets what is below `lsn`, of all epochs.
    pub fn forget_below(&mut self, lsn: Lsn) {
        // Of the epochs that are there only the first blocks are looked at.
        let mut epoch = 0;
        while let Some(((of, at), _)) = self.all.range((epoch, Lsn::NONE)..).next() {
            let (of, at) = (*of, *at);
            if at < lsn {
                if let Some(piece) = self.all.remove(&(of, at)) {
                    self.bytes -= piece.bytes.len();
                }
                epoch = of;
            } else if let Some(next) = of.checked_add(1) {
                epoch = next;
            } else {
                return;
            }
        }
    }

    /// Forgets all of the epochs below `epoch`.
    pub fn forget_epochs_below(&mut self, epoch: u32) {
        let rest = self.all.split_off(&(epoch, Lsn::NONE));
        self.bytes -= self.all.values().map(|piece| piece.bytes.len()).sum::<usize>();
        self.all = rest;
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
