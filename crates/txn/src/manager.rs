//! Begin, commit order, abort. See the crate's page for the two moments of a commit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use resurgam_base::{CommitTs, Error, Lsn, Result, TxId};

use crate::atm_details::{AbortedDetails, AbortedTx};
use crate::ended::EndedIds;
use crate::id_set::TxIdSet;
use crate::publication::{Commit, Publication, Visible};
use crate::row_locks::{RowLockMode, RowLocks, TreeId};
use crate::snapshot::{SnapshotHold, Snapshots};
use crate::status::{Status, StatusTable};
use crate::temporary::TemporaryVersions;
use crate::wait::{LockWait, WaitGraph};
use crate::write_set::{UndoChain, WriteSet};

/// A transaction that has written: its ids.
pub struct ActiveTx {
    /// The top-level id.
    pub id: TxId,
    pub since: Instant,
    subs: Mutex<Subs>,
    /// LSN of the transaction's last log record.
    pub last_lsn: AtomicU64,
    /// LSN of its first one.
    pub first_lsn: AtomicU64,
    /// The rows that it wrote, while it is short (persistent versions).
    pub write_set: Mutex<WriteSet>,
    /// Its undo records (traditional mode). Held while one is appended, so that who holds it
    /// knows all of them that are in the log.
    pub undo: Mutex<UndoChain>,
    /// It wrote what is not undone row by row: large values, pending frees. They are
    /// freed by its being in the aborted-transaction map.
    pub wrote_aside: AtomicBool,
    /// It has locked rows in a way that their newest versions do not show: FOR UPDATE, or by a change of a key over a version of its own. Whoever
    /// shares keys waits for it.
    pub locks_keys: AtomicBool,
    /// It has met a commit that its snapshot does not see, or has waited for somebody; see [`ActiveTx::has_met`].
    met: AtomicBool,
    /// The identifier under which it is prepared.
    pub prepared_as: OnceLock<String>,
}

/// Sub-transaction ids of one transaction. They are taken from the common counter in blocks
/// that double, so that even a transaction with millions of them beside others has few
/// ranges: its COMMIT record names them all.
#[derive(Default)]
struct Subs {
    /// Inclusive ranges, ascending: what a COMMIT names. Aborted ones stay in it, to keep the
    /// ranges few; their own ABORT records tell them apart.
    ranges: Vec<(TxId, TxId)>,
    /// Those that are not aborted.
    live: Vec<(TxId, TxId)>,
    /// The rest of the newest block: next id, and the id after its last.
    reserved: (u64, u64),
    block: u64,
}

const SUB_BLOCK_MAX: u64 = 1 << 16;

impl ActiveTx {
    /// Sub-transaction ids as inclusive ranges.
    pub fn subs(&self) -> Vec<(TxId, TxId)> {
        self.subs.lock().ranges.clone()
    }
    /// The highest id handed out so far.
    pub fn last_id(&self) -> TxId {
        self.subs.lock().ranges.last().map_or(self.id, |(_, last)| *last)
    }
    /// Takes the ids above `after` out of those that share the transaction's outcome.
    fn take_after(&self, after: TxId) -> Vec<(TxId, TxId)> {
        let mut subs = self.subs.lock();
        let mut taken = Vec::new();
        while let Some((first, last)) = subs.live.pop_if(|(_, last)| *last > after) {
            if first <= after {
                subs.live.push((first, after));
            }
            taken.push((first.max(TxId(after.0 + 1)), last));
        }
        taken.reverse();
        taken
    }
    /// Every id that shares the transaction's outcome, the top-level one included.
    pub fn all_ids(&self) -> Vec<TxId> {
        let subs = self.subs.lock();
        let mut ids = vec![self.id];
        ids.extend(subs.live.iter().flat_map(|(a, b)| (a.0..=b.0).map(TxId)));
        ids
    }
    /// As [`ActiveTx::all_ids`], as inclusive ranges, the top-level one first.
    fn all_ranges(&self) -> Vec<(TxId, TxId)> {
        let subs = self.subs.lock();
        std::iter::once((self.id, self.id)).chain(subs.live.iter().copied()).collect()
    }
    /// Adds, as inclusive ranges, every id that it ever had to `ids`: that of the transaction, of all
    /// sub-transactions (also aborted ones), and those that are reserved for later ones. Whoever
    /// has read the next id before misses none below that: a block is taken from the counter and
    /// noted under the same lock.
    fn note_all(&self, ids: &mut Vec<(TxId, TxId)>) {
        ids.push((self.id, self.id));
        let subs = self.subs.lock();
        ids.extend(&subs.ranges);
        if let (first, Some(last)) = (subs.reserved.0, subs.reserved.1.checked_sub(1)) {
            ids.push((TxId(first), TxId(last)));
        }
    }
    /// Notes a log record of this transaction.
    pub fn logged(&self, lsn: Lsn) {
        self.last_lsn.store(lsn.0, Ordering::Relaxed);
        if self.first_lsn.load(Ordering::Relaxed) == 0 {
            self.first_lsn.store(lsn.0, Ordering::Relaxed);
        }
    }
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.last_lsn.load(Ordering::Relaxed))
    }
    /// When it began, given the time now; both in microseconds since 2000-01-01 UTC.
    fn began_us(&self, now_us: i64) -> i64 {
        now_us.saturating_sub(i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
    /// Notes a record of something that is not undone row by row.
    pub fn logged_aside(&self, lsn: Lsn) {
        self.wrote_aside.store(true, Ordering::Relaxed);
        self.logged(lsn);
    }
    /// It has met a commit that its snapshot does not see: it builds upon it, or was told that it cannot because of it. Should nothing of its own
    /// become durable after that commit, whoever is told that it has ended has to wait for it.
    #[inline]
    pub fn has_met(&self) {
        if !self.met.load(Ordering::Relaxed) {
            self.met.store(true, Ordering::Relaxed);
        }
    }
    /// Whether [`ActiveTx::has_met`] was called.
    pub fn has_met_any(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }
    /// Whether undoing its rows undoes all of it.
    pub fn is_rows_only(&self) -> bool {
        !self.wrote_aside.load(Ordering::Relaxed)
    }
}

/// A reading of the manager's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxStats {
    pub commits: u64,
    /// Marked as aborted.
    pub aborts: u64,
    /// Rolled back by being undone, so that nothing is left of them.
    pub undone: u64,
    pub active: u64,
    pub aborted_in_map: u64,
    pub snapshots: u64,
    pub lock_waits: u64,
    pub deadlocks: u64,
    /// Row locks that transactions share now.
    pub shared_row_locks: u64,
    /// Rows that were locked for one transaction alone, since there were as many shared locks as there may be.
    pub row_locks_refused: u64,
}

/// All transactions of a database.
pub struct TxManager {
    next: AtomicU64,
    status: StatusTable,
    snapshots: Arc<Snapshots>,
    publication: Publication,
    active: Mutex<BTreeMap<TxId, Arc<ActiveTx>>>,
    waits: Arc<WaitGraph>,
    row_locks: RowLocks,
    temporary: TemporaryVersions,
    /// Most rows, and bytes of log, of a transaction that is undone at once when it rolls back.
    short: (AtomicU64, AtomicU64),
    committed: AtomicU64,
    /// Held shared from the entry into the aborted map until the states say so too; see
    /// [`TxManager::consistent_aborted`].
    aborting: RwLock<()>,
    aborted: AtomicU64,
    undone: AtomicU64,
}

impl TxManager {
    /// A manager whose first id is `next`.
    pub fn new(next: TxId) -> Self {
        Self::with_epoch(next, 1)
    }

    /// A manager of a process that writes the log under `epoch`.
    pub fn with_epoch(next: TxId, epoch: u32) -> Self {
        let snapshots = Arc::new(Snapshots::default());
        // Time 0 means "before every snapshot", so the clock starts at 1.
        snapshots.publish(CommitTs(1));
        Self {
            next: AtomicU64::new(next.0.max(1)),
            status: StatusTable::default(),
            publication: Publication::new(Arc::clone(&snapshots), CommitTs(1)),
            snapshots,
            active: Mutex::new(BTreeMap::new()),
            waits: Arc::default(),
            row_locks: RowLocks::default(),
            temporary: TemporaryVersions::new(epoch),
            short: (AtomicU64::new(0), AtomicU64::new(0)),
            committed: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            aborting: RwLock::new(()),
            undone: AtomicU64::new(0),
        }
    }

    /// Sets how many rows, and bytes of log, a transaction may have written to be undone at
    /// once when it rolls back; 0 = none is.
    pub fn set_short(&self, rows: u64, log_bytes: u64) {
        self.short.0.store(rows, Ordering::Relaxed);
        self.short.1.store(log_bytes, Ordering::Relaxed);
    }

    /// The temporary version store (traditional mode).
    pub fn temporary(&self) -> &TemporaryVersions {
        &self.temporary
    }

    /// The next id, read so that every id below it has its state set.
    pub fn consistent_next_id(&self) -> TxId {
        let _begins = self.active.lock();
        self.next_id()
    }

    /// The id that will be handed out next.
    pub fn next_id(&self) -> TxId {
        TxId(self.next.load(Ordering::SeqCst))
    }
    pub fn status_table(&self) -> &StatusTable {
        &self.status
    }
    pub fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }
    pub fn waits(&self) -> &Arc<WaitGraph> {
        &self.waits
    }
    /// A snapshot of now.
    pub fn snapshot(&self) -> SnapshotHold {
        self.snapshots.take()
    }
    /// See [`Snapshots::take_for_writer`].
    pub fn snapshot_for_writer(&self) -> SnapshotHold {
        self.snapshots.take_for_writer()
    }
    /// See [`Snapshots::horizon`].
    pub fn horizon(&self) -> CommitTs {
        self.snapshots.horizon()
    }

    /// Gives a transaction its id; done at its first write.
    pub fn begin(&self) -> Arc<ActiveTx> {
        // Under the lock, so that the list of active transactions is never missing an
        // id below `next`.
        let mut active = self.active.lock();
        let id = TxId(self.next.fetch_add(1, Ordering::SeqCst));
        self.status.set_active(id);
        let tx = Arc::new(self.active_tx(id, Subs::default(), UndoChain::default()));
        active.insert(id, Arc::clone(&tx));
        tx
    }

    fn active_tx(&self, id: TxId, subs: Subs, undo: UndoChain) -> ActiveTx {
        let (rows, log_bytes) = (self.short.0.load(Ordering::Relaxed), self.short.1.load(Ordering::Relaxed));
        ActiveTx {
            id,
            since: Instant::now(),
            subs: Mutex::new(subs),
            last_lsn: AtomicU64::new(undo.last.0),
            first_lsn: AtomicU64::new(undo.first.0),
            write_set: Mutex::new(WriteSet::new(rows, log_bytes)),
            undo: Mutex::new(undo),
            wrote_aside: AtomicBool::new(false),
            locks_keys: AtomicBool::new(false),
            met: AtomicBool::new(false),
            prepared_as: OnceLock::new(),
        }
    }

    /// Adds a transaction that a crash cut off and that is to be undone from the log: it is
    /// active until then, and its rows are its own. `subs` are inclusive ranges.
    pub fn restore_active(&self, id: TxId, subs: Vec<(TxId, TxId)>, undo: UndoChain) -> Arc<ActiveTx> {
        self.restore(id, Subs { ranges: subs.clone(), live: subs, reserved: (0, 0), block: 0 }, undo)
    }

    /// Adds a transaction that is in doubt: active until it is decided. What recovery found
    /// aborted must have been restored before: of `subs`, these stay aborted.
    pub fn restore_prepared(&self, id: TxId, subs: Vec<(TxId, TxId)>, undo: UndoChain) -> Arc<ActiveTx> {
        let mut live = TxIdSet::default();
        for (first, last) in &subs {
            live.insert_range(*first, *last);
        }
        live.remove_all(&self.status.aborted().ids());
        let live = live.ranges().collect();
        self.restore(id, Subs { ranges: subs, live, reserved: (0, 0), block: 0 }, undo)
    }

    fn restore(&self, id: TxId, subs: Subs, undo: UndoChain) -> Arc<ActiveTx> {
        let mut active = self.active.lock();
        self.status.set_active(id);
        for (first, last) in &subs.live {
            self.status.set_subs(*first, *last, id);
        }
        let tx = Arc::new(self.active_tx(id, subs, undo));
        tx.wrote_aside.store(true, Ordering::Relaxed);
        tx.write_set.lock().give_up();
        active.insert(id, Arc::clone(&tx));
        tx
    }

    /// A sub-transaction id of `tx`.
    pub fn begin_sub(&self, tx: &ActiveTx) -> TxId {
        let mut subs = tx.subs.lock();
        if subs.reserved.0 == subs.reserved.1 {
            let block = (subs.block * 2).clamp(1, SUB_BLOCK_MAX);
            let first = self.next.fetch_add(block, Ordering::SeqCst);
            subs.block = block;
            subs.reserved = (first, first + block);
        }
        let id = TxId(subs.reserved.0);
        subs.reserved.0 += 1;
        // Ids of a block that are not in use yet have no state: nothing carries them.
        self.status.set_sub(id, tx.id);
        let Subs { ranges, live, .. } = &mut *subs;
        for list in [ranges, live] {
            match list.last_mut() {
                Some((_, end)) if end.0 + 1 == id.0 => *end = id,
                _ => list.push((id, id)),
            }
        }
        id
    }

    /// Decides a commit: `append` puts the commit record into the log and returns the end
    /// of its group. Those who wait for the transaction are not woken yet: see
    /// [`TxManager::ended`].
    pub fn commit(&self, tx: &ActiveTx, visible: Visible, append: impl FnOnce() -> Result<Lsn>) -> Result<Commit> {
        let ids = tx.all_ids();
        let commit = self.publication.decide(visible, append, |ts| {
            // The top first: a reader that finds a sub-transaction still linked to it
            // gets the same answer.
            for id in &ids {
                self.status.set_committed(*id, ts);
            }
        })?;
        self.active.lock().remove(&tx.id);
        self.committed.fetch_add(1, Ordering::Relaxed);
        Ok(commit)
    }

    /// See [`Publication::reveal`].
    pub fn reveal<R>(&self, end: Lsn, change: impl FnOnce(&dyn Fn()) -> R) -> R {
        self.publication.reveal(end, change)
    }

    /// Wakes those who wait for `tx`, which has committed or aborted and holds no object
    /// lock any more.
    pub fn ended(&self, tx: TxId) {
        if !matches!(self.status(tx), Status::Active(_)) {
            self.row_locks.release(tx, TxId::NONE);
        }
        self.waits.ended(tx);
    }

    /// Whether `top` is a transaction of which [`ActiveTx::locks_keys`] is true.
    pub fn locks_keys(&self, top: TxId) -> bool {
        self.active.lock().get(&top).is_some_and(|tx| tx.locks_keys.load(Ordering::Acquire))
    }

    /// The row locks that several transactions hold.
    pub fn row_locks(&self) -> &RowLocks {
        &self.row_locks
    }

    /// Another transaction than `top` that must end before a row can be locked in this way, as far as shared locks go.
    #[inline]
    pub fn row_lock_conflict(&self, tree: TreeId, key: &[u8], top: TxId, mode: RowLockMode) -> Option<TxId> {
        self.row_locks.conflict(tree, key, top, mode, |xid| matches!(self.status(xid), Status::Active(_)))
    }

    /// See [`Publication::seen_from`].
    pub fn seen_from(&self) -> Option<Lsn> {
        self.publication.seen_from()
    }

    /// See [`Publication::note_durable`].
    pub fn note_durable(&self, lsn: Lsn) {
        self.publication.note_durable(lsn);
    }

    /// See [`Publication::on_durable`].
    pub fn on_durable(&self, lsn: Lsn) {
        self.publication.on_durable(lsn);
    }

    /// Ends `tx` as aborted: constant time whatever it did (a word in memory for each id of its own). The ABORT record must be in
    /// the log (its durability need not be waited for: no COMMIT is ever found). Those who
    /// wait for it are not woken yet: see [`TxManager::ended`].
    pub fn abort(&self, tx: &ActiveTx, lsn: Lsn, now_us: i64) {
        let ids = tx.all_ranges();
        let _aborting = self.aborting.read();
        self.status
            .aborted()
            .insert(&ids, AbortedTx { id: tx.id, lsn, aborted_us: now_us, began_us: tx.began_us(now_us) });
        // The top first, see `commit`.
        for (first, last) in ids {
            self.status.set_aborted(first, last);
        }
        self.active.lock().remove(&tx.id);
        self.aborted.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends `tx`, of which nothing is left: its rows are undone. As with
    /// [`TxManager::abort`], those who wait are not woken yet.
    pub fn end_undone(&self, tx: &ActiveTx) {
        for (first, last) in tx.all_ranges() {
            // Not in the map: nobody will ever ask for an id that no row carries.
            self.status.set_aborted(first, last);
        }
        self.active.lock().remove(&tx.id);
        self.undone.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the sub-transactions of `tx` with ids above `after`, of which nothing is left, and
    /// wakes those who wait for `tx`, to look again.
    pub fn end_undone_subs(&self, tx: &ActiveTx, after: TxId) {
        for (first, last) in tx.take_after(after) {
            self.status.set_aborted(first, last);
        }
        self.row_locks.release(tx.id, after);
        self.waits.ended(tx.id);
    }

    /// Aborts the sub-transactions of `tx` with ids above `after`, and returns them as
    /// inclusive ranges; `tx` goes on. Their ABORT record must be
    /// appended *afterwards*: a checkpoint that begins behind the record must find them in the
    /// map, or recovery would take them for committed with `tx`, whose COMMIT names all its
    /// ids. Those who wait for `tx` are woken, to look again at what they wait for.
    pub fn abort_subs(&self, tx: &ActiveTx, after: TxId, now_us: i64) -> Vec<(TxId, TxId)> {
        let ids = tx.take_after(after);
        let aborting = self.aborting.read();
        if let Some((first, _)) = ids.first() {
            self.status.aborted().insert(
                &ids,
                AbortedTx { id: *first, lsn: Lsn::NONE, aborted_us: now_us, began_us: tx.began_us(now_us) },
            );
        }
        // What a later one has changed must not be changed still when what it built upon counts for nothing: an index entry that is a
        // later one's by now would belong to a row that is anybody's.
        for (first, last) in ids.iter().rev() {
            self.status.set_aborted_newest_first(*first, *last);
        }
        drop(aborting);
        self.row_locks.release(tx.id, after);
        self.waits.ended(tx.id);
        ids
    }

    /// Ends a transaction that wrote no row: nothing needs to be remembered of it.
    pub fn end_unwritten(&self, tx: &ActiveTx) {
        for id in tx.all_ids() {
            self.status.set_committed(id, CommitTs::NONE);
        }
        self.active.lock().remove(&tx.id);
    }

    /// The ids in the aborted map, each of which [`TxManager::status`] tells to be aborted. (An id
    /// comes into the map before its state is set; who takes it for aborted in between, while
    /// another look at it finds it active, would forget it with rows left.)
    pub fn consistent_aborted(&self) -> TxIdSet {
        let _entered = self.aborting.write();
        self.status.aborted().ids()
    }

    /// The newest decided commit.
    pub fn decided(&self) -> CommitTs {
        self.publication.decided()
    }

    /// Adds what recovery found aborted.
    pub fn restore_aborted(&self, ids: &TxIdSet, details: &AbortedDetails) {
        self.status.aborted().restore(ids, details);
    }

    /// The state of `id`.
    #[inline]
    pub fn status(&self, id: TxId) -> Status {
        match self.status.status(id) {
            // Of which the table knows nothing. (An id is given out before anything is written under it, and a restart gives out
            // ids above all that the log and the checkpoint name.)
            Status::Committed(CommitTs::NONE) if id >= self.next_id() => Status::Unknown,
            status => status,
        }
    }

    /// Refuses an id that was never given out.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn check_known(&self, id: TxId) -> Result<()> {
        if id < self.next_id() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "a row version is said to be of transaction {id}, and the next transaction will be {}: the files are not of the same \
             history, or damaged",
            self.next_id()
        )))
    }

    /// Active transactions and the next id, consistent with each other, for a checkpoint.
    pub fn active(&self) -> (Vec<Arc<ActiveTx>>, TxId) {
        let active = self.active.lock();
        (active.values().cloned().collect(), self.next_id())
    }

    /// Who has ended by now.
    ///
    /// The order makes it true: whoever is not in the list of active transactions and has an id
    /// below the next one (ids are handed out under the list's lock) has been taken out of it,
    /// after its commit was decided, or its id had come into the aborted-transaction map, or all of
    /// it was undone. So the newest decided commit, read afterwards, is at or after its own.
    pub fn ended_by_now(&self) -> EndedIds {
        let mut unfinished = Vec::new();
        let next = {
            let active = self.active.lock();
            // Before the ids of sub-transactions, which are taken from the counter without this
            // lock: see `ActiveTx::note_all`.
            let next = self.next_id();
            active.values().for_each(|tx| tx.note_all(&mut unfinished));
            next
        };
        EndedIds::new(next, unfinished, self.decided())
    }

    /// Makes `waiter` wait for the end of the transaction `holder` (any id of it).
    pub fn wait_for(&self, waiter: TxId, holder: TxId) -> Result<LockWait> {
        // Whoever ends wakes those that wait for its top-level id.
        let top = match self.status(holder) {
            Status::Active(top) => top,
            _ => holder,
        };
        self.waits.wait_for(waiter, top, || matches!(self.status(holder), Status::Active(_)))
    }

    /// Makes `waiter` wait until `holder` gives up an object lock; `still_held` tells whether
    /// it has it.
    pub fn wait_for_lock(&self, waiter: TxId, holder: TxId, still_held: impl FnOnce() -> bool) -> Result<LockWait> {
        self.waits.wait_for(waiter, holder, still_held)
    }

    pub fn stats(&self) -> TxStats {
        let (lock_waits, deadlocks) = self.waits.counts();
        let (shared_row_locks, row_locks_refused) = self.row_locks.counts();
        TxStats {
            commits: self.committed.load(Ordering::Relaxed),
            aborts: self.aborted.load(Ordering::Relaxed),
            undone: self.undone.load(Ordering::Relaxed),
            active: self.active.lock().len() as u64,
            aborted_in_map: self.status.aborted().len(),
            snapshots: self.snapshots.in_use() as u64,
            lock_waits,
            deadlocks,
            shared_row_locks: shared_row_locks as u64,
            row_locks_refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_base::ErrorKind;

    use super::*;

    /// Nothing is committed that was never given out, whatever a page says.
    #[test]
    fn ids_that_were_never_given_out() {
        let txs = TxManager::new(TxId(50));
        assert_eq!(txs.status(TxId(49)), Status::Committed(CommitTs::NONE), "before a restart");
        assert!(txs.check_known(TxId(49)).is_ok());
        for id in [50, 51, 5000, u64::MAX] {
            assert_eq!(txs.status(TxId(id)), Status::Unknown, "{id}");
            assert_eq!(txs.check_known(TxId(id)).err().map(|error| error.kind()), Some(ErrorKind::Corrupt), "{id}");
        }
        let tx = txs.begin();
        assert_eq!((tx.id, txs.status(tx.id)), (TxId(50), Status::Active(tx.id)));
        assert!(txs.check_known(tx.id).is_ok());
    }

    #[test]
    fn decided_is_not_visible_until_durable() {
        let txs = TxManager::new(TxId(1));
        let tx = txs.begin();
        let before = txs.snapshot().ts();
        let end = txs.commit(&tx, Visible::WhenDurable, || Ok(Lsn(100)));
        assert_eq!(end.ok(), Some(Commit { end: Lsn(100), seen_from: Some(Lsn(100)) }));
        let Status::Committed(ts) = txs.status(tx.id) else { panic!("decided") };
        assert_eq!(txs.snapshot().ts(), before, "no snapshot sees it yet");
        txs.on_durable(Lsn(99));
        assert_eq!(txs.snapshot().ts(), before);
        txs.on_durable(Lsn(100));
        assert!(txs.snapshot().ts() >= ts);
    }

    #[test]
    fn what_waits_to_be_revealed_holds_back_what_comes_after() -> Result<()> {
        let txs = TxManager::new(TxId(1));
        let (first, second, third) = (txs.begin(), txs.begin(), txs.begin());
        let before = txs.snapshot().ts();
        txs.commit(&first, Visible::WhenRevealed, || Ok(Lsn(10)))?;
        txs.commit(&second, Visible::WhenDurable, || Ok(Lsn(20)))?;
        let commit = txs.commit(&third, Visible::AtOnce, || Ok(Lsn(30)))?;
        assert_eq!(commit.seen_from, Some(Lsn(20)), "behind what has to be durable before it");
        txs.note_durable(Lsn(20));
        assert_eq!(txs.snapshot().ts(), before);
        let mut changed = false;
        txs.reveal(Lsn(10), |publish| {
            changed = true;
            publish();
        });
        assert!(changed);
        assert_eq!(txs.snapshot().ts().0, before.0 + 3, "both that are durable, and the one that need not be");
        Ok(())
    }

    #[test]
    fn an_asynchronous_commit_shows_nothing_that_is_not_durable() -> Result<()> {
        let txs = TxManager::new(TxId(1));
        let before = txs.snapshot().ts();
        let [first, sync, second, third, last] = std::array::from_fn(|_| txs.begin());
        let commit = txs.commit(&first, Visible::AtOnce, || Ok(Lsn(10)))?;
        assert_eq!((commit.seen_from, txs.snapshot().ts().0), (None, before.0 + 1));
        txs.commit(&sync, Visible::WhenDurable, || Ok(Lsn(20)))?;
        for (tx, end) in [(&second, 30), (&third, 40)] {
            let commit = txs.commit(tx, Visible::AtOnce, || Ok(Lsn(end)))?;
            assert_eq!((commit.end, commit.seen_from), (Lsn(end), Some(Lsn(20))));
            assert_eq!(txs.snapshot().ts().0, before.0 + 1, "the synchronous one is not durable");
        }
        txs.note_durable(Lsn(20));
        assert_eq!(txs.snapshot().ts().0, before.0 + 4, "nobody needs the others to be");
        let commit = txs.commit(&last, Visible::AtOnce, || Ok(Lsn(50)))?;
        assert_eq!((commit.seen_from, txs.snapshot().ts().0), (None, before.0 + 5));
        Ok(())
    }

    #[test]
    fn going_back_aborts_what_came_after() -> Result<()> {
        let txs = TxManager::new(TxId(1));
        let tx = txs.begin();
        let kept = txs.begin_sub(&tx);
        let mark = tx.last_id();
        let inner: Vec<TxId> = (0..5).map(|_| txs.begin_sub(&tx)).collect();
        let deeper = tx.last_id();
        let lost = txs.begin_sub(&tx);
        assert_eq!(txs.abort_subs(&tx, deeper, 0), [(lost, lost)]);
        let again = txs.begin_sub(&tx);
        let gone = txs.abort_subs(&tx, mark, 0);
        let ids: Vec<TxId> = gone.iter().flat_map(|(a, b)| (a.0..=b.0).map(TxId)).collect();
        assert_eq!(ids, [inner.as_slice(), &[again]].concat(), "each id once");
        let last = txs.begin_sub(&tx);
        txs.commit(&tx, Visible::AtOnce, || Ok(Lsn(9)))?;
        for id in [tx.id, kept, last] {
            assert!(matches!(txs.status(id), Status::Committed(_)), "{id}");
        }
        for id in ids.into_iter().chain([lost]) {
            assert_eq!(txs.status(id), Status::Aborted, "{id}");
        }
        Ok(())
    }

    /// The cleaner copies the ids that it will forget, then asks for the state of every row's: an id
    /// in the copy must never be told to be active.
    #[test]
    fn ids_of_the_consistent_map_are_aborted() {
        const SUBS: u64 = 20_000;
        let txs = TxManager::new(TxId(1));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100 {
                    let tx = txs.begin();
                    (0..SUBS).for_each(|_| assert!(txs.begin_sub(&tx).is_some()));
                    txs.abort(&tx, Lsn(1), 0);
                }
                done.store(true, Ordering::SeqCst);
            });
            while !done.load(Ordering::SeqCst) {
                let ids = txs.consistent_aborted();
                let Some(last) = ids.last() else { continue };
                // The one whose state is set last.
                assert_eq!(txs.status(last), Status::Aborted, "{last}");
            }
        });
    }

    /// Ranges of sub-transactions over many segments, with ids of another one in between.
    #[test]
    fn thousands_of_sub_transactions_abort_and_nobody_else() -> Result<()> {
        let txs = TxManager::new(TxId(4000));
        let (tx, other) = (txs.begin(), txs.begin());
        let (mut mine, mut theirs) = (vec![tx.id], vec![other.id]);
        for i in 0..30_000 {
            mine.push(txs.begin_sub(&tx));
            if i % 7 == 0 {
                theirs.push(txs.begin_sub(&other));
            }
            if i == 10_000 {
                let gone: u64 = txs.abort_subs(&tx, mine[5_000], 0).iter().map(|(a, b)| b.0 - a.0 + 1).sum();
                assert_eq!(gone, 5_001);
                assert!(mine[1..=5_000].iter().all(|id| txs.status(*id) == Status::Active(tx.id)));
                assert!(mine[5_001..].iter().all(|id| txs.status(*id) == Status::Aborted));
            }
        }
        txs.abort(&tx, Lsn(7), 0);
        assert!(mine.iter().all(|id| txs.status(*id) == Status::Aborted));
        assert!(theirs.iter().all(|id| txs.status(*id) == Status::Active(other.id)));
        assert_eq!(txs.stats().aborted_in_map, mine.len() as u64);
        assert_eq!(txs.status_table().aborted().snapshot().transactions.len(), 2, "one entry for what aborts at once");
        txs.commit(&other, Visible::AtOnce, || Ok(Lsn(9)))?;
        let segments = txs.status_table().retire(txs.consistent_next_id(), txs.horizon());
        assert_eq!(segments, 1, "aborted ones hold no segment");
        assert!(mine.iter().all(|id| txs.status(*id) == Status::Aborted), "the map has them");
        assert!(theirs.iter().all(|id| matches!(txs.status(*id), Status::Committed(_))));
        Ok(())
    }

    #[test]
    fn subs_follow_their_top() {
        let txs = TxManager::new(TxId(1));
        let tx = txs.begin();
        let sub = txs.begin_sub(&tx);
        let other = txs.begin();
        let sub2 = txs.begin_sub(&tx);
        assert_eq!(txs.status(sub), Status::Active(tx.id));
        assert_eq!(tx.subs().len(), 2, "ranges are broken by other ids");
        assert!(txs.commit(&tx, Visible::WhenDurable, || Ok(Lsn(5))).is_ok());
        assert!(matches!(txs.status(sub), Status::Committed(_)));
        assert_eq!(txs.status(sub), txs.status(sub2));
        txs.abort(&other, Lsn(7), 0);
        assert_eq!(txs.status(other.id), Status::Aborted);
    }

    #[test]
    fn a_wait_for_a_sub_transaction_ends_with_its_top() -> Result<()> {
        let txs = TxManager::new(TxId(1));
        let (holder, waiter) = (txs.begin(), txs.begin());
        let sub = txs.begin_sub(&holder);
        let wait = txs.wait_for(waiter.id, sub)?;
        assert_eq!(wait.holder(), holder.id);
        txs.commit(&holder, Visible::AtOnce, || Ok(Lsn(1)))?;
        txs.ended(holder.id);
        assert!(wait.wait_timeout(std::time::Duration::from_secs(5)), "woken");
        Ok(())
    }

    #[test]
    fn retired_ids_are_committed_or_in_the_map() {
        let txs = TxManager::new(TxId(1));
        let first = txs.begin();
        let second = txs.begin();
        for _ in 0..5000 {
            let tx = txs.begin();
            assert!(txs.commit(&tx, Visible::AtOnce, || Ok(Lsn(1))).is_ok());
        }
        assert!(txs.commit(&first, Visible::AtOnce, || Ok(Lsn(1))).is_ok());
        txs.abort(&second, Lsn(1), 0);
        txs.status_table().retire(txs.next_id(), txs.horizon());
        assert_eq!(txs.status(first.id), Status::Committed(CommitTs::NONE));
        assert_eq!(txs.status(second.id), Status::Aborted);
        txs.status_table().aborted().forget(&TxIdSet::from_iter([second.id]));
        assert_eq!(txs.status(second.id), Status::Committed(CommitTs::NONE));
    }

    #[test]
    fn who_has_ended_is_known_beside_those_who_have_not() -> Result<()> {
        let txs = TxManager::new(TxId(5));
        let (idle, other, aborted) = (txs.begin(), txs.begin(), txs.begin());
        // Blocks of 1, 2 and 4 ids, of which the last has three left.
        let subs: Vec<TxId> = (0..4).map(|_| txs.begin_sub(&idle)).collect();
        let late = txs.begin();
        for tx in [&other, &late] {
            txs.commit(tx, Visible::WhenDurable, || Ok(Lsn(10)))?;
        }
        txs.abort_subs(&idle, subs[1], 0);
        txs.abort(&aborted, Lsn(11), 0);
        let ended = txs.ended_by_now();
        assert!([&other, &late, &aborted].iter().all(|tx| ended.holds_all(tx.id, tx.id)));
        let mine = [idle.id].into_iter().chain(subs.iter().copied()).chain((1..=3).map(|i| TxId(subs[3].0 + i)));
        for id in mine {
            assert!(!ended.holds_all(id, id), "{id} is of one that goes on, or reserved for it");
        }
        assert!(ended.holds_all(other.id, aborted.id) && !ended.holds_all(other.id, late.id));
        assert_eq!((ended.next(), ended.decided()), (TxId(late.id.0 + 1), CommitTs(3)));
        assert!(ended.decided() > txs.horizon(), "decided and not seen by all yet");
        let begun = txs.begin();
        assert!(!ended.holds_all(begun.id, begun.id));
        // As a restart finds one in doubt.
        let txs = TxManager::new(TxId(50));
        let prepared = txs.restore_prepared(TxId(20), vec![(TxId(22), TxId(23))], UndoChain::default());
        let ended = txs.ended_by_now();
        assert!(ended.holds_all(TxId(0), TxId(19)) && ended.holds_all(TxId(24), TxId(49)));
        assert!([20, 22, 23].iter().all(|id| !ended.holds_all(TxId(*id), TxId(*id))));
        txs.commit(&prepared, Visible::AtOnce, || Ok(Lsn(1)))?;
        assert!(txs.ended_by_now().holds_all(TxId(0), TxId(49)));
        Ok(())
    }

    /// Blocks of ids are reserved without the lock of the active transactions: none of them may be
    /// taken for ended, whenever one looks.
    #[test]
    fn ids_that_are_being_reserved_have_not_ended() {
        let txs = TxManager::new(TxId(1));
        let tx = txs.begin();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Beside it ids of others, so that blocks lie apart.
                for _ in 0..20_000 {
                    let other = txs.begin();
                    txs.begin_sub(&other);
                    txs.end_undone(&other);
                    txs.begin_sub(&tx);
                }
                done.store(true, Ordering::SeqCst);
            });
            let mut samples = Vec::new();
            while !done.load(Ordering::SeqCst) {
                samples.push(txs.ended_by_now());
                std::thread::yield_now();
                if samples.len() > 2000 {
                    samples.drain(..1000);
                }
            }
            let subs = tx.subs();
            for ended in samples {
                for (first, last) in &subs {
                    for id in [*first, *last] {
                        assert!(!ended.holds_all(id, id), "{id}");
                    }
                }
            }
        });
    }

    /// An id of a reserved block gets its state while its segment is being retired.
    #[test]
    fn retiring_never_loses_a_sub_transaction() -> Result<()> {
        for round in 0..300u64 {
            // The block of two straddles the boundary of segments.
            let txs = TxManager::new(TxId(4096 - 3));
            let top = txs.begin();
            let _ = txs.begin_sub(&top);
            assert_eq!(txs.begin_sub(&top), TxId(4095));
            for i in 0..4200u64 {
                let other = txs.begin();
                txs.commit(&other, Visible::AtOnce, || Ok(Lsn(10 + i)))?;
            }
            let sub = std::thread::scope(|scope| {
                scope.spawn(|| txs.status_table().retire(txs.consistent_next_id(), txs.horizon()));
                for _ in 0..round * 130 {
                    std::hint::spin_loop();
                }
                txs.begin_sub(&top)
            });
            assert_eq!((sub, txs.status(sub)), (TxId(4096), Status::Active(top.id)), "round {round}");
        }
        Ok(())
    }
}
