//! Rolling back what is to be undone: the rows of a short transaction from their own earlier
//! versions, those of the traditional mode from the log; and the queue of transactions whose
//! undo goes on in the background, after a crash or for want of room on the disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use resurgam_base::pauses::Pause;
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, Result, TxId};
use resurgam_btree::Tree;
use resurgam_log::{Group, RecordKind};
use resurgam_recovery::TxRecord;
use resurgam_txn::ActiveTx;
use resurgam_versions::{revert_row, undo_one};

use crate::database::Database;

/// A transaction that is yet to be undone. Until then it is active, and its rows are its own.
pub(crate) struct Unfinished {
    pub tx: Arc<ActiveTx>,
    /// The tables that it has locked, or asked for.
    pub locked: Vec<ObjectId>,
    /// It is counted as a writer.
    pub entered: bool,
}

/// Transactions whose undo goes on in the background.
#[derive(Default)]
pub(crate) struct UndoQueue {
    waiting: Mutex<VecDeque<Unfinished>>,
    /// Held by the one who undoes.
    one: Mutex<()>,
    wanted: Condvar,
    /// Records undone since open.
    records: AtomicU64,
    /// How long it took to undo what the last crash cut off.
    finished: Mutex<Option<Duration>>,
}

impl UndoQueue {
    pub fn push(&self, unfinished: Unfinished) {
        self.waiting.lock().push_back(unfinished);
        self.wanted.notify_all();
    }
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }
    /// One that has not been undone yet.
    pub fn first(&self) -> Option<TxId> {
        self.waiting.lock().front().map(|unfinished| unfinished.tx.id)
    }
    pub fn len(&self) -> u64 {
        self.waiting.lock().len() as u64
    }
    /// Records undone since open.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
    /// How long the undo after the last crash took; none while it runs.
    pub fn finished(&self) -> Option<Duration> {
        *self.finished.lock()
    }
    /// Waits a moment for something to undo.
    pub fn wait(&self, timeout: Duration) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            self.wanted.wait_for(&mut waiting, timeout);
        }
    }
}

impl Database {
    /// Reverts the rows that a short transaction wrote since `mark` under ids above `after`.
    /// False: it is not short, and nothing was done.
    pub(crate) fn revert_short(&self, tx: &ActiveTx, mark: usize, after: TxId) -> Result<bool> {
        let inner = self.inner();
        let mut write_set = tx.write_set.lock();
        let Some(rows) = write_set.since(mark) else { return Ok(false) };
        let subs = tx.subs();
        let is_undone = |xid: TxId| {
            xid > after
                && (xid == tx.id || {
                    let behind = subs.partition_point(|(first, _)| *first <= xid);
                    behind > 0 && xid <= subs[behind - 1].1
                })
        };
        for row in rows {
            let tree = Tree { root: row.root, object: row.object };
            revert_row(&inner.pool, &inner.txs, tree, row.key, &is_undone)?;
            Pause::RowReverted.here();
        }
        write_set.back_to(mark);
        Ok(true)
    }

    /// Undoes the records of `tx` in the log, back to `until`.
    pub(crate) fn undo_logged(&self, tx: &ActiveTx, until: Lsn) -> Result<()> {
        let inner = self.inner();
        let mut result = Ok(());
        (inner.options.blocking)(&mut || result = self.undo_logged_here(tx, until));
        result
    }

    fn undo_logged_here(&self, tx: &ActiveTx, until: Lsn) -> Result<()> {
        let inner = self.inner();
        while undo_one(&inner.pool, &inner.log, &inner.txs, tx, until)? {
            inner.mode.undo.records.fetch_add(1, Ordering::Relaxed);
            Pause::RowReverted.here();
        }
        Ok(())
    }

    /// The transaction with the oldest undo record, and where that is.
    pub(crate) fn oldest_undo(&self) -> Option<(TxId, Lsn)> {
        let (active, _) = self.inner().txs.active();
        let first = |tx: &Arc<ActiveTx>| (tx.id, tx.undo.lock().first);
        active.iter().map(first).filter(|(_, lsn)| lsn.is_some()).min_by_key(|(_, lsn)| *lsn)
    }

    /// Logs that nothing is left of a transaction that rolled back.
    pub(crate) fn log_undone(&self, tx: &ActiveTx) -> Result<()> {
        let inner = self.inner();
        let body = TxRecord { time_us: inner.vfs.wall_clock_us(), subs: tx.subs() }.encode();
        let mut group = Group::default();
        group.record(RecordKind::Undone, tx.id, tx.last_lsn(), &body);
        unless_full(inner.log.append(&group).map(|_| ()))
    }

    /// Logs that a transaction has aborted, and marks it so.
    pub(crate) fn abort_logged(&self, tx: &ActiveTx) -> Result<()> {
        let inner = self.inner();
        let now = inner.vfs.wall_clock_us();
        let body = TxRecord { time_us: now, subs: tx.subs() }.encode();
        let mut group = Group::default();
        group.record(RecordKind::Abort, tx.id, tx.last_lsn(), &body);
        // A log that cannot be written does not keep a transaction from aborting.
        let appended = inner.log.append(&group);
        let lsn = appended.as_ref().map_or(Lsn::NONE, |a| a.base);
        inner.txs.abort(tx, lsn, now);
        unless_full(appended.map(|_| ()))
    }

    /// Undoes what is queued, one transaction after the other. One that meets an error becomes
    /// the last of the queue.
    pub(crate) fn undo_queued(&self) -> Result<()> {
        let _one = self.inner().mode.undo.one.lock();
        self.undo_in_turn().inspect_err(|_| {
            let mut waiting = self.inner().mode.undo.waiting.lock();
            if !waiting.is_empty() {
                waiting.rotate_left(1);
            }
        })
    }

    fn undo_in_turn(&self) -> Result<()> {
        let inner = self.inner();
        let queue = &inner.mode.undo;
        loop {
            let Some(tx) = queue.waiting.lock().front().map(|unfinished| Arc::clone(&unfinished.tx)) else {
                return Ok(());
            };
            let mut said = Instant::now();
            let began = queue.records();
            while undo_one(&inner.pool, &inner.log, &inner.txs, &tx, Lsn::NONE)? {
                let records = queue.records.fetch_add(1, Ordering::Relaxed) + 1;
                if records.is_multiple_of(1024) {
                    if inner.stopping.load(Ordering::Relaxed) {
                        return Err(Error::new(ErrorKind::Stopped, "the database is being closed"));
                    }
                    if said.elapsed() > Duration::from_secs(2) {
                        said = Instant::now();
                        let log_left = tx.undo.lock().bytes_left();
                        tracing::info!(
                            "undoing transaction {} that did not end before the restart: {} changes undone, {} MB of log to go; the database is open",
                            tx.id,
                            records - began,
                            log_left >> 20
                        );
                    }
                }
            }
            // What it wrote beside its rows is freed by its being in the map.
            let _ = self.abort_logged(&tx);
            let Some(done) = queue.waiting.lock().pop_front() else { return Ok(()) };
            for object in done.locked {
                inner.locks.release(object, tx.id);
            }
            if done.entered {
                inner.mode.leave();
            }
            inner.txs.ended(tx.id);
        }
    }

    /// Queues what recovery has found unfinished.
    pub(crate) fn queue_losers(&self, losers: Vec<Arc<ActiveTx>>) {
        for tx in losers {
            self.inner().mode.undo.push(Unfinished { tx, locked: Vec::new(), entered: false });
        }
    }

    /// The undo that a crash has left is done.
    pub(crate) fn note_undo_finished(&self, took: Duration) {
        let mut finished = self.inner().mode.undo.finished.lock();
        finished.get_or_insert(took);
    }

    /// Reads again for as long as `read` meets rows that await an undo.
    pub(crate) fn reading<R>(&self, mut read: impl FnMut() -> Result<R>) -> Result<R> {
        let mut result = read();
        let inner = self.inner();
        if result.is_err() && !inner.options.background && !inner.prepared.lost.is_empty() {
            // What could not be read may be readable by now, and nobody else tries.
            self.rebuild_lost();
            result = read();
        }
        if !matches!(&result, Err(error) if error.kind() == ErrorKind::AwaitsUndo) {
            return result;
        }
        (inner.options.blocking)(&mut || {
            let mut pause = Duration::from_millis(1);
            while let Err(error) = &result
                && error.kind() == ErrorKind::AwaitsUndo
                && !inner.stopping.load(Ordering::Relaxed)
            {
                // One whose log cannot be written undoes nothing any more.
                if let Err(stopped) = self.check_running() {
                    result = Err(stopped);
                    break;
                }
                // In this order: one that is rolled back goes from the former to the latter.
                let waits = inner.prepared.lost.is_waiting() || !inner.mode.undo.is_empty();
                if !inner.options.background {
                    self.rebuild_lost();
                    let _ = self.undo_queued();
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
                result = read();
                if !waits {
                    break;
                }
            }
        });
        result
    }
}

/// For the record of a rollback a full disk is no failure: without it, the transaction counts
/// as aborted after a crash as well.
fn unless_full(logged: Result<()>) -> Result<()> {
    match logged {
        Err(error) if error.kind() == ErrorKind::DiskFull => Ok(()),
        other => other,
    }
}
