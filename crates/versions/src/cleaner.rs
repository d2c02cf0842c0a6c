//! The sweep (Constant Time Recovery, section 3.7): visits every page that is marked as
//! having versions, reverts aborted rows, strips what nobody needs, then forgets the
//! aborted transactions that it started with.
//!
//! It takes page latches only, one page at a time, so nothing it does can be starved by a
//! lock and a sweep always completes.
//!
//! Rows can move while it runs: a split takes rows to a page that the sweep may have
//! passed. Pages that received versioned rows by allocation during the sweep are visited
//! before anything is forgotten ([`resurgam_buffer::Space::watch`]).

use std::sync::atomic::{AtomicU64, Ordering};

use std::time::Instant;

use parking_lot::Mutex;
use resurgam_base::{CommitTs, Error, ErrorKind, Lsn, ObjectId, PageId, Result, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::{Access, BufferPool, Mtr};
use resurgam_log::RecordKind;
use resurgam_page::{PageType, overflow, space};
use resurgam_txn::{Status, TxIdSet, TxManager};

use crate::ledger::Ledger;
use crate::overflow::OVERFLOW_OBJECT;
use crate::prune::clean_leaf;
use crate::store::VersionStore;

/// Leaves this empty are offered for merging.
const MERGE_BELOW_BYTES: usize = 2048;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    pub pages: u64,
    pub reverted: u64,
    pub stripped: u64,
    pub removed: u64,
    pub merged: u64,
    pub forgotten: u64,
    pub version_pages_freed: u64,
    pub value_pages_freed: u64,
    /// Pages that could not be cleaned: damaged, or of an object that is not known (yet); a
    /// damaged space map counts as one.
    /// While there are any, no aborted transaction is forgotten.
    pub pages_skipped: u64,
    pub ledger_settled: u64,
}

/// The cleaner's memory between sweeps.
#[derive(Default)]
pub struct Cleaner {
    running: Mutex<()>,
    /// (lowest active id, newest decided commit) pairs; see [`Cleaner::floor`].
    samples: Mutex<Vec<(TxId, CommitTs)>>,
    /// The last sweep that came to its end, and when.
    last: Mutex<Option<(SweepReport, Instant)>>,
    pub sweeps: AtomicU64,
    pub reverted: AtomicU64,
    pub stripped: AtomicU64,
    pub removed: AtomicU64,
}

impl Cleaner {
    /// The lowest id that may matter to anyone: everything below is committed and seen by
    /// all. Ids are not handed out in commit order, so this rests on samples: at a moment
    /// when no id below `a` was active, all of them had ended; once the horizon has
    /// reached what was visible then plus what was decided then, all see their outcome.
    fn floor(&self, txs: &TxManager) -> TxId {
        let horizon = txs.horizon();
        let mut samples = self.samples.lock();
        let reached = samples.iter().rposition(|(_, ts)| *ts <= horizon);
        let mut floor = TxId::NONE;
        if let Some(at) = reached {
            floor = samples[at].0;
            samples.drain(..at);
        }
        if samples.len() < 1024 {
            let oldest = txs.oldest_active();
            let decided = txs.decided();
            if samples.last() != Some(&(oldest, decided)) {
                samples.push((oldest, decided));
            }
        }
        match txs.status_table().aborted().oldest() {
            Some(aborted) => floor.min(aborted),
            None => floor,
        }
    }

    /// What the last finished sweep did, and when it finished.
    pub fn last(&self) -> Option<(SweepReport, Instant)> {
        *self.last.lock()
    }

    /// One sweep. `tree_of` finds the tree of an object (`None`: it is being dropped).
    pub fn sweep(
        &self,
        pool: &BufferPool,
        txs: &TxManager,
        store: &VersionStore,
        ledger: &Ledger,
        tree_of: &dyn Fn(ObjectId) -> Option<Tree>,
        stop: &dyn Fn() -> bool,
    ) -> Result<SweepReport> {
        let _one = self.running.lock();
        let mut report = SweepReport::default();
        let aborted = txs.status_table().aborted().ids();
        pool.space().watch(true);
        let swept = self.visit_all(pool, txs, tree_of, stop, &mut report);
        pool.space().watch(false);
        let complete = swept? && report.pages_skipped == 0;
        let (settled, skipped) = ledger.settle(pool, txs)?;
        report.ledger_settled = settled;
        report.pages_skipped += skipped;
        if complete && !aborted.is_empty() {
            self.forget(pool, txs, &aborted)?;
            report.forgotten = aborted.len();
        }
        let floor = self.floor(txs);
        report.version_pages_freed = store.free_below(pool, floor)?;
        txs.temporary().free_below(floor);
        txs.status_table().retire(txs.settled_next_id(), txs.horizon());
        *self.last.lock() = Some((report, Instant::now()));
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        self.reverted.fetch_add(report.reverted, Ordering::Relaxed);
        self.stripped.fetch_add(report.stripped, Ordering::Relaxed);
        self.removed.fetch_add(report.removed, Ordering::Relaxed);
        Ok(report)
    }

    fn visit_all(
        &self,
        pool: &BufferPool,
        txs: &TxManager,
        tree_of: &dyn Fn(ObjectId) -> Option<Tree>,
        stop: &dyn Fn() -> bool,
        report: &mut SweepReport,
    ) -> Result<bool> {
        let wanted = space::PFS_HAS_VERSIONS | space::PFS_POTENTIALLY_UNUSED;
        for map in pool.space().map_pages() {
            let listed = match pool.space().flagged(pool, map, wanted) {
                Ok(listed) => listed,
                // Which pages of the interval have versions is not known: nobody is forgotten.
                Err(error) => {
                    pass_over(Err(error), report)?;
                    continue;
                }
            };
            for (page, owner, byte) in listed {
                if stop() {
                    return Ok(false);
                }
                let visited = if owner == OVERFLOW_OBJECT {
                    self.visit_overflow(pool, txs, page, report)
                } else if byte & space::PFS_HAS_VERSIONS != 0 {
                    self.visit(pool, txs, page, owner, tree_of, report)
                } else {
                    Ok(())
                };
                pass_over(visited, report)?;
            }
        }
        // Pages that received versioned rows meanwhile.
        loop {
            let moved = pool.space().take_watched();
            if moved.is_empty() {
                return Ok(true);
            }
            for (page, owner) in moved {
                let visited = self.visit(pool, txs, page, owner, tree_of, report);
                pass_over(visited, report)?;
            }
        }
    }

    fn visit(
        &self,
        pool: &BufferPool,
        txs: &TxManager,
        id: PageId,
        owner: ObjectId,
        tree_of: &dyn Fn(ObjectId) -> Option<Tree>,
        report: &mut SweepReport,
    ) -> Result<()> {
        loop {
            let page = pool.write(id, Access::Scan)?;
            if !page.is(PageType::Leaf) || page.object() != owner || !page.has_versions() {
                return Ok(());
            }
            let lower = page.lower_fence().to_vec();
            let done = clean_leaf(pool, txs, page)?;
            report.pages += 1;
            report.reverted += u64::from(done.reverted);
            report.stripped += u64::from(done.stripped);
            report.removed += u64::from(done.removed);
            if let Some((key, len)) = done.needs_room {
                let Some(tree) = tree_of(owner) else {
                    report.pages_skipped += 1;
                    return Ok(());
                };
                tree.make_room(pool, &key, len)?;
                continue;
            }
            if done.used_left < MERGE_BELOW_BYTES
                && done.reverted + done.removed > 0
                && let Some(tree) = tree_of(owner)
            {
                let outcome = tree.merge_leaf(pool, &lower, |receiver| pool.space().watch_page(receiver, owner))?;
                if outcome == resurgam_btree::MergeOutcome::Merged {
                    report.merged += 1;
                }
            }
            return Ok(());
        }
    }

    /// A page of a large value: freed if its writer aborted, no longer suspect once its
    /// writer is committed for all.
    fn visit_overflow(&self, pool: &BufferPool, txs: &TxManager, id: PageId, report: &mut SweepReport) -> Result<()> {
        let page = pool.write(id, Access::Scan)?;
        if !page.is(PageType::Overflow) {
            return Ok(());
        }
        let writer = overflow::writer(&page)?;
        match txs.status(writer) {
            Status::Aborted => {
                let mut mtr = Mtr::new(pool);
                let at = mtr.add(page);
                pool.space().free(&mut mtr, id, OVERFLOW_OBJECT, at)?;
                mtr.commit()?;
                report.value_pages_freed += 1;
            }
            Status::Committed(ts) if ts <= txs.horizon() => {
                let mut mtr = Mtr::new(pool);
                mtr.add(page);
                pool.space().set_flags(&mut mtr, id, 0, space::PFS_POTENTIALLY_UNUSED)?;
                mtr.commit()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Logs and applies FORGET for transactions of which no version is left.
    fn forget(&self, pool: &BufferPool, txs: &TxManager, ids: &TxIdSet) -> Result<()> {
        for body in ids.encode() {
            let part = decode_forget(&body)?;
            let mut mtr = Mtr::new(pool);
            mtr.record(RecordKind::Forget, TxId::NONE, Lsn::NONE, body);
            mtr.commit()?;
            txs.status_table().aborted().forget(&part);
        }
        Ok(())
    }
}

/// A damaged page does not stop the sweep.
fn pass_over(visited: Result<()>, report: &mut SweepReport) -> Result<()> {
    match visited {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            report.pages_skipped += 1;
            Ok(())
        }
        other => other,
    }
}

/// Reads the body of a FORGET record: a set of ids (`resurgam_txn`, `id_set/codec.rs`).
///
/// # Errors
/// `Corrupt` when it is not one.
pub fn decode_forget(body: &[u8]) -> Result<TxIdSet> {
    TxIdSet::decode(body).map_err(|e| Error::corrupt(format!("a FORGET record cannot be read: {}", e.message())))
}
