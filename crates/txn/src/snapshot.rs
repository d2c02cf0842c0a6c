//! Snapshots in use. A snapshot is a commit timestamp; holding one keeps the versions
//! that it needs.
//!
//! Taking one is two stores and a load: the timestamp is published in a slot and then
//! checked to be still the newest. Whoever computes the horizon reads the newest
//! timestamp *first* and the slots afterwards. If its look at a slot missed the
//! publication, its reading of the newest timestamp came before the check, so the
//! horizon it computes is at most that snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use resurgam_base::CommitTs;

/// A slot holds `ts + 1`; 0 = free.
struct Slot {
    ts: AtomicU64,
    since: Mutex<Option<Instant>>,
}

/// The register.
#[derive(Default)]
pub struct Snapshots {
    /// Newest commit that snapshots may see.
    visible: AtomicU64,
    slots: RwLock<Vec<Arc<Slot>>>,
    free: Mutex<Vec<Arc<Slot>>>,
}

/// A snapshot in use; dropping the last clone's owner releases it.
pub struct SnapshotHold {
    ts: CommitTs,
    slot: Arc<Slot>,
    owner: Arc<Snapshots>,
}

impl SnapshotHold {
    /// Commits at or before this time are seen.
    pub fn ts(&self) -> CommitTs {
        self.ts
    }
}

impl Drop for SnapshotHold {
    fn drop(&mut self) {
        self.slot.ts.store(0, Ordering::SeqCst);
        self.owner.free.lock().push(Arc::clone(&self.slot));
    }
}

impl Snapshots {
    /// The newest commit that a new snapshot sees.
    pub fn visible(&self) -> CommitTs {
        CommitTs(self.visible.load(Ordering::SeqCst))
    }
    /// Lets snapshots see commits up to `ts`. Never goes back.
    pub fn publish(&self, ts: CommitTs) {
        self.visible.fetch_max(ts.0, Ordering::SeqCst);
    }

    /// Takes a snapshot of now.
    pub fn take(self: &Arc<Self>) -> SnapshotHold {
        let slot = self.free.lock().pop().unwrap_or_else(|| {
            let slot = Arc::new(Slot { ts: AtomicU64::new(0), since: Mutex::new(None) });
            self.slots.write().push(Arc::clone(&slot));
            slot
        });
        let mut ts = self.visible.load(Ordering::SeqCst);
        loop {
            slot.ts.store(ts + 1, Ordering::SeqCst);
            let again = self.visible.load(Ordering::SeqCst);
            if again == ts {
                break;
            }
            ts = again;
        }
        SnapshotHold { ts: CommitTs(ts), slot, owner: Arc::clone(self) }
    }

    /// Notes that a snapshot will live long (a transaction's, not a statement's).
    pub fn mark_since(hold: &SnapshotHold) {
        *hold.slot.since.lock() = Some(Instant::now());
    }

    /// Every commit at or before this is seen by all snapshots, present and future.
    pub fn horizon(&self) -> CommitTs {
        let newest = self.visible.load(Ordering::SeqCst);
        let oldest = self.slots.read().iter().map(|s| s.ts.load(Ordering::SeqCst)).filter(|ts| *ts != 0).min();
        CommitTs(oldest.map_or(newest, |ts| newest.min(ts - 1)))
    }

    /// Snapshots in use.
    pub fn in_use(&self) -> usize {
        self.slots.read().iter().filter(|s| s.ts.load(Ordering::SeqCst) != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn horizon_is_held_by_the_oldest_snapshot() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(CommitTs(5));
        let old = snapshots.take();
        snapshots.publish(CommitTs(9));
        let new = snapshots.take();
        assert_eq!((old.ts(), new.ts()), (CommitTs(5), CommitTs(9)));
        assert_eq!(snapshots.horizon(), CommitTs(5));
        drop(old);
        assert_eq!(snapshots.horizon(), CommitTs(9));
        drop(new);
        assert_eq!(snapshots.in_use(), 0);
        snapshots.publish(CommitTs(3));
        assert_eq!(snapshots.visible(), CommitTs(9), "visibility never goes back");
    }

    #[test]
    fn a_snapshot_is_never_above_the_horizon_race() {
        let snapshots = Arc::new(Snapshots::default());
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (s, stop) = (Arc::clone(&snapshots), Arc::clone(&stop));
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let hold = s.take();
                        assert!(s.horizon() <= hold.ts());
                    }
                });
            }
            for ts in 1..20_000 {
                snapshots.publish(CommitTs(ts));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
