//! Snapshots in use. A snapshot is a commit timestamp; holding one keeps the versions
//! that it needs.
//!
//! Taking one is two stores and a load: the timestamp is published in a slot and then
//! checked to be still the newest. Whoever computes the horizon reads the newest
//! timestamp *first* and the slots afterwards. If its look at a slot missed the
//! publication, its reading of the newest timestamp came before the check, so the
//! horizon it computes is at most that snapshot. A writer's snapshot may be above what is visible: it needs
//! fewer versions than others, and the horizon never passes what is visible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use resurgam_base::CommitTs;

/// A slot holds `ts + 1`; 0 = free.
struct Slot {
    ts: AtomicU64,
    /// Since when its snapshot is held, if `dated`.
    since: Mutex<Option<Instant>>,
    dated: AtomicBool,
}

impl Slot {
    /// Dates the snapshot `ts` if it has no date and is still held.
    fn date(&self, ts: u64) -> Option<Instant> {
        let mut since = self.since.lock();
        // Announced before the look: whoever gives the slot up looks in the other order, so
        // that no date is left behind for the next snapshot.
        self.dated.store(true, Ordering::SeqCst);
        if self.ts.load(Ordering::SeqCst) != ts + 1 {
            if since.is_none() {
                self.dated.store(false, Ordering::SeqCst);
            }
            return None;
        }
        Some(*since.get_or_insert_with(Instant::now))
    }
}

/// The oldest snapshot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestSnapshot {
    /// It sees commits up to here.
    pub ts: CommitTs,
    /// Since when it is held; a statement's snapshot is dated by the first look at it.
    pub since: Instant,
    /// Snapshots in use.
    pub in_use: usize,
}

/// The register.
#[derive(Default)]
pub struct Snapshots {
    /// Newest commit that snapshots may see.
    visible: AtomicU64,
    /// Newest commit that snapshots of writers may see, if it is newer.
    ahead: AtomicU64,
    /// The highest horizon that was told.
    told: AtomicU64,
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
        if self.slot.dated.load(Ordering::SeqCst) {
            let mut since = self.slot.since.lock();
            *since = None;
            self.slot.dated.store(false, Ordering::SeqCst);
        }
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

    /// Lets snapshots of writers see commits up to `ts`, visible or not. Never goes back.
    pub fn publish_to_writers(&self, ts: CommitTs) {
        self.ahead.fetch_max(ts.0, Ordering::SeqCst);
    }

    /// Takes a snapshot of now.
    pub fn take(self: &Arc<Self>) -> SnapshotHold {
        self.take_newest(|| self.visible.load(Ordering::SeqCst))
    }

    /// Takes a snapshot of now for a transaction that has written, or has tried to: of what was decided, durable or not, since such a
    /// transaction may have met any of it.
    pub fn take_for_writer(self: &Arc<Self>) -> SnapshotHold {
        self.take_newest(|| self.visible.load(Ordering::SeqCst).max(self.ahead.load(Ordering::SeqCst)))
    }

    /// `newest` is never below what is visible.
    fn take_newest(self: &Arc<Self>, newest: impl Fn() -> u64) -> SnapshotHold {
        let slot = self.free.lock().pop().unwrap_or_else(|| {
            let slot = Arc::new(Slot { ts: AtomicU64::new(0), since: Mutex::new(None), dated: AtomicBool::new(false) });
            self.slots.write().push(Arc::clone(&slot));
            slot
        });
        let mut ts = newest();
        loop {
            slot.ts.store(ts + 1, Ordering::SeqCst);
            let again = newest();
            if again == ts {
                break;
            }
            ts = again;
        }
        SnapshotHold { ts: CommitTs(ts), slot, owner: Arc::clone(self) }
    }

    /// Notes that a snapshot will live long (a transaction's, not a statement's).
    pub fn mark_since(hold: &SnapshotHold) {
        hold.slot.date(hold.ts.0);
    }

    /// The oldest snapshot in use, if commits have happened since. Dates it, so that whoever
    /// looks now and then learns how long a statement's snapshot is held.
    pub fn oldest(&self) -> Option<OldestSnapshot> {
        let slots = self.slots.read();
        let held = |slot: &Arc<Slot>| slot.ts.load(Ordering::SeqCst).checked_sub(1);
        let oldest = slots.iter().filter_map(|slot| Some((held(slot)?, slot))).min_by_key(|(ts, _)| *ts);
        let (ts, slot) = oldest.filter(|(ts, _)| *ts < self.visible.load(Ordering::SeqCst))?;
        let since = slot.date(ts)?;
        Some(OldestSnapshot { ts: CommitTs(ts), since, in_use: slots.iter().filter_map(held).count() })
    }

    /// Every commit at or before this is seen by all snapshots, present and future. It never goes
    /// back: what held for all future snapshots holds for those of now, also while one that is
    /// being taken shows a time in its slot that it will not keep.
    pub fn horizon(&self) -> CommitTs {
        let newest = self.visible.load(Ordering::SeqCst);
        let oldest = self.slots.read().iter().map(|s| s.ts.load(Ordering::SeqCst)).filter(|ts| *ts != 0).min();
        let horizon = oldest.map_or(newest, |ts| newest.min(ts - 1));
        let told = self.told.load(Ordering::SeqCst);
        if horizon > told {
            self.told.fetch_max(horizon, Ordering::SeqCst);
        }
        CommitTs(horizon.max(told))
    }

    /// The newest commit that a new snapshot sees, and the commits up to which snapshots in use
    /// see, ascending. A snapshot that is missing sees at least the former (for the same reason
    /// as with [`Snapshots::horizon`]).
    pub fn held(&self) -> (CommitTs, Vec<CommitTs>) {
        let visible = self.visible();
        let held = |slot: &Arc<Slot>| slot.ts.load(Ordering::SeqCst).checked_sub(1).map(CommitTs);
        let mut held: Vec<CommitTs> = self.slots.read().iter().filter_map(held).collect();
        held.sort_unstable();
        held.dedup();
        (visible, held)
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
    fn a_writer_sees_more_than_is_visible() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(CommitTs(5));
        assert_eq!(snapshots.take_for_writer().ts(), CommitTs(5));
        snapshots.publish_to_writers(CommitTs(8));
        let ahead = snapshots.take_for_writer();
        assert_eq!((ahead.ts(), snapshots.take().ts()), (CommitTs(8), CommitTs(5)));
        assert_eq!((snapshots.horizon(), snapshots.visible()), (CommitTs(5), CommitTs(5)), "others do not");
        snapshots.publish(CommitTs(20));
        assert_eq!((snapshots.horizon(), snapshots.take_for_writer().ts()), (CommitTs(8), CommitTs(20)));
    }

    #[test]
    fn the_oldest_snapshot_has_its_own_date() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(CommitTs(5));
        let first = snapshots.take();
        assert_eq!(snapshots.oldest(), None, "nothing has been committed since");
        snapshots.publish(CommitTs(6));
        let noticed = snapshots.oldest().expect("it is behind");
        assert_eq!((noticed.ts, noticed.in_use), (CommitTs(5), 1));
        assert_eq!(snapshots.oldest(), Some(noticed), "dated once");
        drop(first);
        assert_eq!(snapshots.oldest(), None);
        // The same slot: its date is not the one before.
        let second = snapshots.take();
        let taken = Instant::now();
        snapshots.publish(CommitTs(7));
        let noticed = snapshots.oldest().expect("it is behind");
        assert!(noticed.since >= taken && noticed.ts == CommitTs(6), "{noticed:?}");
        drop(second);
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
            let (s, stopped) = (Arc::clone(&snapshots), Arc::clone(&stop));
            scope.spawn(move || {
                let mut last = CommitTs::NONE;
                while !stopped.load(Ordering::Relaxed) {
                    let horizon = s.horizon();
                    assert!(horizon >= last, "{horizon:?} after {last:?}");
                    last = horizon;
                }
            });
            for ts in 1..20_000 {
                snapshots.publish(CommitTs(ts));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
