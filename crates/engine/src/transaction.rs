//! Transactions: begin, statements, commit, rollback.
//!
//! A transaction gets an id at its first write. A statement that writes many rows runs
//! under a sub-transaction id of its own when the transaction has written before, so that
//! it never meets its own rows.
//!
//! Nothing here waits. A lock or a commit hands out a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use resurgam_base::pauses::Pause;
use resurgam_base::{CommitTs, Error, ErrorKind, Lsn, ObjectId, Result, TxId};
use resurgam_buffer::Patience;
use resurgam_log::{FlushTicket, Group, RecordKind};
use resurgam_recovery::TxRecord;
use resurgam_txn::{ActiveTx, Commit, Lock, LockMode, LockWait, SnapshotHold, Snapshots, Visible};

use crate::catalog_overlay::CatalogOverlay;
use crate::database::Database;
use crate::gate::{Gate, Operation};
use crate::near::Near;
use crate::sort_files::SortFiles;
use crate::table::Table;
use crate::undo::Unfinished;
use crate::view::{Known, ReadView};

/// Isolation levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    ReadCommitted,
    /// All statements see what was committed when the first began.
    RepeatableRead,
}

/// What a statement will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Read,
    /// Reads that go on while later statements of the transaction write: what those write it does
    /// not see.
    Cursor,
    /// Writes at most one row of a table, after all its reads.
    PointWrite,
    /// Any other writer.
    BulkWrite,
}

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    Sync,
    /// Acknowledge as soon as others see it, which is at once unless a commit before it still
    /// waits for the disk; durable within [`Options::wal_writer_delay`](crate::Options::wal_writer_delay)
    /// or so. A crash before that loses the transaction, whole.
    Async,
}

/// An operation that may have to wait for another transaction first.
#[must_use]
pub enum Attempt<T> {
    Done(T),
    /// Wait for this, then call again.
    Wait(LockWait),
}

/// Unwraps an attempt or returns its wait.
macro_rules! attempt {
    ($e:expr) => {
        match $e? {
            $crate::transaction::Attempt::Done(value) => value,
            $crate::transaction::Attempt::Wait(wait) => return Ok($crate::transaction::Attempt::Wait(wait)),
        }
    };
}
pub(crate) use attempt;

impl<T> Attempt<T> {
    /// The result, if nothing is in the way; an error otherwise.
    pub fn done(self) -> Result<T> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Wait(_) => Err(Error::new(ErrorKind::LockNotAvailable, "another transaction is in the way")),
        }
    }
    /// The result, blocking and calling `again` as long as something is in the way.
    pub fn wait(self, mut again: impl FnMut() -> Result<Attempt<T>>) -> Result<T> {
        let mut attempt = self;
        loop {
            match attempt {
                Self::Done(value) => return Ok(value),
                Self::Wait(wait) => {
                    wait.wait()?;
                    attempt = again()?;
                }
            }
        }
    }
}

/// What became of an update or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Done,
    /// The newest committed version is not the one that was seen (READ COMMITTED only).
    Changed,
    /// The row is deleted.
    Gone,
    /// This statement changed it already.
    SelfModified,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Committed,
    RolledBack,
    /// It waits for [`Database::commit_prepared`] or [`Database::rollback_prepared`].
    Prepared,
}

pub(crate) struct TxState {
    pub phase: Phase,
    pub active: Option<Arc<ActiveTx>>,
    /// Id under which rows are written now.
    pub xid: TxId,
    /// A savepoint was set, or gone back to, since the last write: the next one needs an id
    /// of its own.
    fresh_id: bool,
    /// The record of a sub-transaction's abort could not be logged: it must not commit.
    unlogged: bool,
    /// How far back an undo has to go that failed on its way to a savepoint (traditional mode):
    /// once one has come this far, the transaction may go on.
    undo_due: Option<Lsn>,
    /// It is counted as one that writes; see [`Transaction::enter`].
    pub entered: bool,
    /// A write under this id failed between its steps.
    pub broken_off: Option<TxId>,
    /// The current statement writes many rows.
    pub bulk: bool,
    pub snapshot: Option<Arc<SnapshotHold>>,
    /// Version of the catalog that goes with the snapshot.
    pub catalog_version: u64,
    /// Tables that it has locked because of what it does.
    pub locked: HashSet<ObjectId>,
    /// Tables that it has locked by name, in the order in which it did.
    pub locked_by_name: Vec<(ObjectId, LockMode)>,
    /// Locked tables and the generations of their definitions that were found to be the newest.
    current: HashMap<u32, u64>,
    /// Tables that it asked for and has not got: the requests keep others out.
    pub requested: Vec<ObjectId>,
    /// Rows (tree and key) that the current statement changed and took back.
    pub taken_back: Vec<(ObjectId, Vec<u8>)>,
    pub catalog: CatalogOverlay,
    /// The log that must be durable before it is told that it has committed: of values of sequences.
    pub needs: Lsn,
    /// It is rolled back, and had met commits that its snapshots did not see.
    pub had_met: bool,
    /// Asked now and then by work on many rows.
    pub interrupt: Option<Interrupt>,
    /// Who makes the files of its sorts, if the engine does not.
    pub sort_files: Option<Arc<dyn SortFiles>>,
}

impl TxState {
    /// The transaction stored a definition of a table, or removed it (`None`).
    pub fn changed_definition(&mut self, table: u32, now: Option<Arc<Table>>) {
        self.catalog.note(self.xid, table, now);
        self.current.remove(&table);
    }

    /// Version of the catalog that goes with the snapshot.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// What the next statement sees. Who has an id may have met commits that are not visible yet.
    fn take_snapshot(&self, db: &Database) -> (SnapshotHold, u64) {
        let Some(active) = &self.active else { return db.snapshot() };
        let (hold, version) = db.snapshot_for_writer();
        if hold.ts() > db.inner().txs.snapshots().visible() {
            // What it reads and is told from here on may be of those.
            active.has_met();
        }
        (hold, version)
    }
}

/// An error ends the work that asks; see [`Transaction::set_interrupt`].
pub type Interrupt = Arc<dyn Fn() -> Result<()> + Send + Sync>;

pub(crate) struct TxInner {
    pub isolation: Isolation,
    /// Of the reads of its statements, where they may wait for pages for long.
    pub patience: Mutex<Option<Arc<Patience>>>,
    pub state: Mutex<TxState>,
    pub operations: Gate,
    /// Statements that have begun.
    pub statements: AtomicU64,
    /// Where it wrote last.
    pub near: Near,
    /// Let go last: it may be the last handle, and closes the database then.
    pub db: Database,
}

/// A transaction. Dropping the last clone of an unfinished one rolls it back.
///
/// Clones may be used on several threads. Who ends it (or prepares it, or goes back to a savepoint)
/// waits for calls that write and are under way on other threads; they are part of it. Those that come later fail
/// with `InvalidTransactionState`.
#[derive(Clone)]
pub struct Transaction(pub(crate) Arc<TxInner>);

/// Most ranges of ids in one ABORT record of sub-transactions.
const RANGES_MAX: usize = 1024;

/// A moment in a transaction that one can go back to; see [`Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    /// The transaction's newest id at that moment; none if it had not written.
    mark: TxId,
    /// Rows that it had written then, if it was short.
    rows: usize,
    /// Its newest undo record then (traditional mode).
    undo: Lsn,
    /// Tables that it had locked by name.
    locks: usize,
}

/// What a row operation needs of its transaction, which is not ended while this is held.
pub(crate) struct WriteContext<'tx> {
    _operation: Operation<'tx>,
    pub active: Arc<ActiveTx>,
    pub xid: TxId,
    pub bulk: bool,
    pub snapshot: Arc<SnapshotHold>,
}

impl Transaction {
    pub(crate) fn begin(db: &Database, isolation: Isolation) -> Self {
        Self(Arc::new(TxInner {
            isolation,
            statements: AtomicU64::new(0),
            near: Near::default(),
            operations: Gate::default(),
            state: Mutex::new(TxState {
                phase: Phase::Open,
                active: None,
                xid: TxId::NONE,
                fresh_id: false,
                unlogged: false,
                undo_due: None,
                entered: false,
                broken_off: None,
                bulk: false,
                snapshot: None,
                catalog_version: 0,
                locked: HashSet::new(),
                locked_by_name: Vec::new(),
                current: HashMap::new(),
                requested: Vec::new(),
                taken_back: Vec::new(),
                catalog: CatalogOverlay::default(),
                needs: Lsn::NONE,
                had_met: false,
                interrupt: None,
                sort_files: None,
            }),
            patience: Mutex::default(),
            db: db.clone(),
        }))
    }

    pub fn isolation(&self) -> Isolation {
        self.0.isolation
    }
    /// Its id; none before the first write.
    pub fn id(&self) -> Option<TxId> {
        self.0.state.lock().active.as_ref().map(|a| a.id)
    }
    /// What its snapshot sees, if it holds one, as an observer may ask for it.
    pub fn snapshot_if_free(&self) -> Option<CommitTs> {
        let state = self.0.state.try_lock_for(std::time::Duration::from_millis(100))?;
        state.snapshot.as_ref().map(|snapshot| snapshot.ts())
    }
    /// Its id as an observer may ask for it: none also while it is being ended or taken back to
    /// a savepoint, which may take long.
    pub fn id_if_free(&self) -> Option<TxId> {
        let state = self.0.state.try_lock_for(std::time::Duration::from_millis(100))?;
        state.active.as_ref().map(|a| a.id)
    }
    /// Whether it has written anything.
    pub fn has_written(&self) -> bool {
        self.0.state.lock().active.is_some()
    }
    /// Whether it has changed definitions.
    pub fn has_catalog_changes(&self) -> bool {
        self.0.state.lock().catalog.changed
    }

    /// How often it has changed definitions, or taken such a change back: what was planned at
    /// another number may name tables that are no more as they were.
    pub fn catalog_changes(&self) -> u64 {
        self.0.state.lock().catalog.changes
    }

    /// Has work on many rows inside one call (filling an index, rewriting a table) ask
    /// `interrupt` every thousand rows or so; its error ends the work, and the transaction (or
    /// the savepoint it is under) must be rolled back. `None`: nothing interrupts it.
    ///
    /// Where pages come from page servers, statements that begin from here on ask it while their reads wait for a page, several times a
    /// second. Its error ends the read.
    pub fn set_interrupt(&self, interrupt: Option<Interrupt>) {
        *self.0.patience.lock() = self.0.db.patience(interrupt.as_ref());
        self.0.state.lock().interrupt = interrupt;
    }

    /// Whether a read of one of its statements waits for a page just now.
    pub fn waits_for_page(&self) -> bool {
        self.0.patience.lock().as_ref().is_some_and(|patience| patience.waiting() > 0)
    }

    /// As [`Database::reading`], for a statement, which may be told to stop.
    pub(crate) fn reading<R>(&self, mut read: impl FnMut() -> Result<R>) -> Result<R> {
        let patience = self.0.patience.lock().clone();
        self.0.db.reading(|| match &patience {
            Some(patience) => patience.during(&mut read),
            None => read(),
        })
    }

    pub(crate) fn interrupt(&self) -> Option<Interrupt> {
        self.0.state.lock().interrupt.clone()
    }
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        self.interrupt().map_or(Ok(()), |interrupt| interrupt())
    }

    /// Starts a statement.
    ///
    /// # Errors
    /// `InvalidTransactionState` when the transaction has ended.
    pub fn statement(&self, kind: StatementKind) -> Result<ReadView> {
        let inner = self.0.db.inner();
        let mut state = self.0.state.lock();
        check_open(&state)?;
        if state.snapshot.is_none() || self.0.isolation == Isolation::ReadCommitted {
            state.snapshot = None; // give the slot back before taking the next
            let (hold, version) = state.take_snapshot(&self.0.db);
            state.catalog_version = version;
            if self.0.isolation == Isolation::RepeatableRead {
                Snapshots::mark_since(&hold);
            }
            state.snapshot = Some(Arc::new(hold));
        }
        state.bulk = kind == StatementKind::BulkWrite;
        self.0.statements.fetch_add(1, Ordering::Relaxed);
        state.taken_back.clear();
        let mut hidden_from = TxId(u64::MAX);
        let mut own = TxId::NONE;
        if let Some(active) = state.active.clone() {
            own = active.id;
            if state.bulk {
                state.xid = inner.txs.begin_sub(&active);
                state.fresh_id = false;
                hidden_from = state.xid;
            } else if kind == StatementKind::Cursor {
                // The next write takes an id above all that there are.
                state.fresh_id = true;
                hidden_from = TxId(active.last_id().0 + 1);
            }
        }
        let Some(snapshot) = state.snapshot.clone() else { return Err(Error::internal("no snapshot")) };
        Ok(ReadView {
            db: self.0.db.clone(),
            snapshot,
            own,
            hidden_from,
            catalog_version: state.catalog_version,
            own_changes: state.catalog.so_far(),
            unchecked: false,
            newest: false,
            statement: self.0.statements.load(Ordering::Relaxed),
            known: Known::default(),
            patience: self.0.patience.lock().clone(),
        })
    }

    /// A statement has ended. A READ COMMITTED transaction then gives up the statement's snapshot,
    /// which would keep row versions for as long as the transaction is idle: the next statement
    /// takes one of its own. It does not while a view or a cursor still reads with it (a portal
    /// that has given a part of its rows): those keep it anyway, and whatever belongs to their
    /// statement goes on with it. A REPEATABLE READ transaction has one snapshot until it ends.
    ///
    /// Nobody has to call this: the next statement and the end of the transaction do the same. It
    /// must not be called between the steps of a statement that holds no view meanwhile: the next
    /// step would look at the database as of a later moment.
    pub fn end_statement(&self) {
        let mut state = self.0.state.lock();
        if self.0.isolation == Isolation::ReadCommitted
            && state.snapshot.as_ref().is_some_and(|snapshot| Arc::strong_count(snapshot) == 1)
        {
            state.snapshot = None;
        }
    }

    /// As [`Transaction::end_statement`], where the caller knows that nothing of the statement goes on: views that are
    /// still there are being let go by others, and keep the snapshot only for themselves.
    pub fn leave_statement(&self) {
        if self.0.isolation == Isolation::ReadCommitted {
            self.0.state.lock().snapshot = None;
        }
    }

    /// The current statement's view; starts a reading statement if none was started.
    pub fn view(&self) -> Result<ReadView> {
        let state = self.0.state.lock();
        check_open(&state)?;
        let Some(snapshot) = state.snapshot.clone() else {
            drop(state);
            return self.statement(StatementKind::Read);
        };
        Ok(ReadView {
            db: self.0.db.clone(),
            snapshot,
            own: state.active.as_ref().map_or(TxId::NONE, |a| a.id),
            hidden_from: if state.bulk && state.xid.is_some() { state.xid } else { TxId(u64::MAX) },
            catalog_version: state.catalog_version,
            own_changes: state.catalog.so_far(),
            unchecked: false,
            newest: false,
            statement: self.0.statements.load(Ordering::Relaxed),
            known: Known::default(),
            patience: self.0.patience.lock().clone(),
        })
    }

    /// Version of the catalog whose definitions [`Transaction::table`] gives; with definitions of
    /// its own, that of the others.
    pub fn catalog_version(&self) -> u64 {
        let state = self.0.state.lock();
        let frozen = self.0.isolation == Isolation::RepeatableRead && state.snapshot.is_some();
        if frozen { state.catalog_version } else { self.0.db.inner().catalog.version() }
    }

    /// What a write needs; gives the transaction its id.
    pub(crate) fn write_context(&self) -> Result<WriteContext<'_>> {
        let inner = self.0.db.inner();
        let mut state = self.0.state.lock();
        check_open(&state)?;
        if state.snapshot.is_none() {
            let (hold, version) = state.take_snapshot(&self.0.db);
            state.catalog_version = version;
            state.snapshot = Some(Arc::new(hold));
        }
        let active = match &state.active {
            Some(active) => Arc::clone(active),
            None => {
                let active = inner.txs.begin();
                state.xid = active.id;
                state.active = Some(Arc::clone(&active));
                active
            }
        };
        if state.fresh_id {
            state.xid = inner.txs.begin_sub(&active);
            state.fresh_id = false;
        }
        let Some(snapshot) = state.snapshot.clone() else { return Err(Error::internal("no snapshot")) };
        let _operation = self.0.operations.begin(&*state);
        Ok(WriteContext { _operation, active, xid: state.xid, bulk: state.bulk, snapshot })
    }

    /// What the next row of `table` needs: the table locked for writing rows and [`Transaction::write_context`], and between these
    /// `check`. Mostly all is there already, and one look at the state says so.
    pub(crate) fn row_context(
        &self,
        table: &Table,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<Attempt<WriteContext<'_>>> {
        if let Some(context) = self.context_at_hand(table) {
            check()?;
            return Ok(Attempt::Done(context));
        }
        if let Some(wait) = self.lock_for_rows(table)? {
            return Ok(Attempt::Wait(wait));
        }
        check()?;
        Ok(Attempt::Done(self.write_context()?))
    }

    fn context_at_hand(&self, table: &Table) -> Option<WriteContext<'_>> {
        let state = self.0.state.lock();
        if state.current.get(&table.id) != Some(&table.generation) || state.phase != Phase::Open || state.fresh_id {
            return None;
        }
        let (active, snapshot) = (state.active.clone()?, state.snapshot.clone()?);
        let _operation = self.0.operations.begin(&*state);
        Some(WriteContext { _operation, active, xid: state.xid, bulk: state.bulk, snapshot })
    }

    /// Locks a table for this transaction. `None` = locked; otherwise wait and ask again.
    pub(crate) fn lock_table(&self, object: ObjectId, lock: Lock) -> Result<Option<LockWait>> {
        let inner = self.0.db.inner();
        if lock == Lock::ROWS && self.0.state.lock().locked.contains(&object) {
            return Ok(None);
        }
        // What it takes is given back at the end.
        let _operation = self.operation()?;
        if let Some(wait) = self.enter()? {
            return Ok(Some(wait));
        }
        let id = if lock.by_name { self.id_to_wait()? } else { self.write_context()?.active.id };
        // A transaction that is undone after a restart holds all its tables: nobody knows which.
        if lock.mode.conflicts_with(LockMode::RowExclusive)
            && let Some(unfinished) = inner.mode.undo.first().filter(|unfinished| *unfinished != id)
        {
            return Ok(Some(inner.txs.wait_for(id, unfinished)?));
        }
        match inner.locks.try_lock(object, id, lock) {
            Ok(()) => {
                if !lock.by_name {
                    self.0.state.lock().locked.insert(object);
                }
                Ok(None)
            }
            Err(holder) => {
                // Remember it even so: a pending request must be taken back at the end.
                let mut state = self.0.state.lock();
                if !state.requested.contains(&object) {
                    state.requested.push(object);
                }
                drop(state);
                Ok(Some(inner.txs.wait_for_lock(id, holder, || inner.locks.is_in_the_way(object, id, lock, holder))?))
            }
        }
    }

    /// Locks a table for writing rows, and makes sure that `table` still describes it.
    pub(crate) fn lock_for_rows(&self, table: &Table) -> Result<Option<LockWait>> {
        let object = ObjectId(table.id);
        let (held, _operation) = {
            let state = self.0.state.lock();
            if state.current.get(&table.id) == Some(&table.generation) {
                return Ok(None);
            }
            check_open(&state)?;
            (state.locked.contains(&object), self.0.operations.begin(&*state))
        };
        if let Some(wait) = self.lock_table(object, Lock::ROWS)? {
            return Ok(Some(wait));
        }
        if !self.is_newest(table)? {
            let mut state = self.0.state.lock();
            // What was locked before may have been written to.
            if !held {
                state.locked.remove(&object);
                if let Some(active) = &state.active {
                    self.0.db.inner().locks.release_one(object, active.id, Lock::ROWS);
                    // Whoever wanted the table meanwhile waits for this transaction: he looks again.
                    self.0.db.inner().txs.ended(active.id);
                }
            }
            drop(state);
            return Err(Error::new(
                ErrorKind::DefinitionChanged,
                format!(
                    "could not write to table \"{}\" because its definition was changed at the same time",
                    table.name
                ),
            )
            .with_hint("Retry the transaction."));
        }
        self.0.state.lock().current.insert(table.id, table.generation);
        Ok(None)
    }

    /// Whether `table`, which is locked, is the newest definition: its own where the
    /// transaction made or changed it, the committed one otherwise (whatever its snapshot
    /// still sees).
    pub(crate) fn is_newest(&self, table: &Table) -> Result<bool> {
        let own = self.0.state.lock().catalog.generation(table.id);
        let newest = match own {
            Some(generation) => generation,
            None => {
                let committed = self.0.db.inner().catalog.committed(&self.0.db)?;
                committed.by_id.get(&table.id).map_or(0, |newest| newest.generation)
            }
        };
        Ok(newest == table.generation)
    }

    /// [`Database::throttle`] before a part of a definition is written. Where other parts may be written by now, who is told to stop
    /// must not commit them.
    pub(crate) fn throttle_definition(&self) -> Result<()> {
        self.0.db.throttle(self).inspect_err(|_| {
            let mut state = self.0.state.lock();
            let xid = state.xid;
            // Since a savepoint that was set just now nothing was.
            if state.catalog.changed && !state.fresh_id {
                state.broken_off.get_or_insert(xid);
            }
        })
    }

    /// A write failed between its steps: the transaction, or the savepoint that it is under,
    /// can only be rolled back.
    pub(crate) fn broken_off(&self, xid: TxId) {
        self.0.state.lock().broken_off.get_or_insert(xid);
    }

    /// Commits. The outcome is fixed when this returns; the ticket completes when it is
    /// durable.
    ///
    /// # Errors
    /// `InvalidTransactionState` when it has ended; `Stopped` when the log cannot be
    /// written, in which case the outcome is known only after a restart.
    pub fn commit(&self, durability: Durability) -> Result<CommitTicket> {
        let inner = self.0.db.inner();
        let mut state = self.quiet();
        check_open(&state)?;
        check_whole(&state)?;
        if state.catalog.changed {
            // The cache must know each version, to tell what changed in which. First of all:
            // should it fail, the transaction is still open.
            inner.catalog.committed(&self.0.db)?;
        }
        state.phase = Phase::Committed;
        state.snapshot = None;
        let Some(active) = state.active.take() else {
            state.leave(&inner.mode);
            return self.0.taken_values(&state, durability);
        };
        if active.first_lsn.load(Ordering::Relaxed) == 0 {
            inner.txs.end_unwritten(&active);
            self.0.release(&mut state, active.id);
            if active.has_met_any()
                && let Some(seen_from) = inner.txs.seen_from()
            {
                // Whoever is told that it has ended sees what it has met, however little it cares for its own.
                let needs = if durability == Durability::Sync { state.needs } else { Lsn::NONE };
                return self.0.db.durable(seen_from.max(needs));
            }
            return self.0.taken_values(&state, durability);
        }
        let ddl = state.catalog.changed;
        let tables = ddl.then(|| state.catalog.changed_tables());
        state.catalog.clear();
        let visible = match durability {
            _ if ddl => Visible::WhenRevealed,
            Durability::Sync => Visible::WhenDurable,
            Durability::Async => Visible::AtOnce,
        };
        let commit = inner.txs.commit(&active, visible, || {
            let body = TxRecord { time_us: inner.vfs.wall_clock_us(), subs: active.subs() }.encode();
            let mut group = Group::default();
            group.record(RecordKind::Commit, active.id, active.last_lsn(), &body);
            Ok(inner.log.append(&group)?.end)
        });
        let commit = match commit {
            Ok(decided) => decided,
            Err(error) => {
                // Not in the log, so it can never be committed; others must not wait for it
                // for ever (the log may be well again once there is room on the disk).
                state.active = Some(active);
                let _ = self.0.roll_back(&mut state);
                return Err(error);
            }
        };
        self.0.db.publish_commit(commit, ddl, tables, || self.0.release(&mut state, active.id))
    }

    /// Sets a savepoint: what is written from here on is written under an id of its own
    /// (Constant Time Recovery, section 3.3: savepoints by nested transaction ids).
    /// Savepoints nest; to release one is to forget it.
    pub fn savepoint(&self) -> Result<Savepoint> {
        let mut state = self.0.state.lock();
        check_open(&state)?;
        state.fresh_id = true;
        let locks = state.locked_by_name.len();
        Ok(match &state.active {
            None => Savepoint { mark: TxId::NONE, rows: 0, undo: Lsn::NONE, locks },
            Some(active) => Savepoint {
                mark: active.last_id(),
                rows: active.write_set.lock().mark(),
                undo: active.undo.lock().last,
                locks,
            },
        })
    }

    /// Takes back everything that was written since the savepoint, by marking the ids that
    /// wrote it as aborted: no row is visited. The savepoint stays. Statements that are still
    /// writing must not be used any more; views may, and see what they saw before it.
    ///
    /// # Errors
    /// `InvalidTransactionState` when it has ended; those of writing the log, after which it
    /// can only be rolled back.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        let inner = self.0.db.inner();
        let mut state = self.quiet();
        check_open(&state)?;
        state.fresh_id = true;
        state.bulk = false;
        state.taken_back.clear();
        let Some(active) = state.active.clone() else { return Ok(()) };
        // Rows come back that it has deleted: what was noted before does not hold, nor what a read notes that goes on meanwhile.
        inner.empty_spans.forget_own(active.id);
        let _once_more = ForgetOwn { db: &self.0.db, id: active.id };
        let mark = savepoint.mark.max(active.id);
        let taken_back = state.catalog.back_to(mark, |parts| inner.catalog.build(parts, 0));
        if taken_back.is_err() {
            // What it knows of its tables is not what it has made of them.
            state.broken_off = Some(active.id);
        }
        taken_back?;
        // Locks stay, and what they were found to protect may have been taken back.
        state.current.clear();
        // Those that it has not got it does not wait for any more, and those that it has locked by name since are free.
        let requested = std::mem::take(&mut state.requested);
        let withdrawn = requested.into_iter().filter(|object| inner.locks.withdraw(*object, active.id)).count();
        let before = savepoint.locks.min(state.locked_by_name.len());
        let by_name = state.locked_by_name.split_off(before);
        for (object, mode) in &by_name {
            inner.locks.release_one(*object, active.id, Lock::by_name(*mode));
        }
        if withdrawn + by_name.len() > 0 {
            inner.txs.ended(active.id);
        }
        let undone = if inner.mode.is_traditional() {
            // Until this has succeeded it can only be rolled back as a whole.
            let before = std::mem::replace(&mut state.unlogged, true);
            state.undo_due = match state.undo_due {
                Some(due) => Some(due.min(savepoint.undo)),
                None => (!before).then_some(savepoint.undo),
            };
            self.0.db.undo_logged(&active, savepoint.undo)?;
            // One that failed before is made good by one that goes as far back.
            state.unlogged = before && state.undo_due.is_none_or(|due| savepoint.undo > due);
            if !state.unlogged {
                state.undo_due = None;
            }
            true
        } else {
            // What could not be reverted is passed over by being in the map, as after a long one.
            self.0.db.revert_short(&active, savepoint.rows, mark).unwrap_or_else(|_| {
                active.write_set.lock().give_up();
                false
            })
        };
        state.broken_off = state.broken_off.filter(|xid| *xid <= mark);
        Pause::BeforeEnd.here();
        if undone && active.is_rows_only() {
            inner.txs.end_undone_subs(&active, mark);
            return Ok(());
        }
        let now = inner.vfs.wall_clock_us();
        let ids = inner.txs.abort_subs(&active, mark, now);
        for ids in ids.chunks(RANGES_MAX) {
            // Named by one of them: it is not the end of the whole transaction.
            let first = ids[0].0;
            let body = TxRecord { time_us: now, subs: ids.to_vec() }.encode();
            let mut group = Group::default();
            group.record(RecordKind::Abort, first, active.last_lsn(), &body);
            match inner.log.append(&group) {
                Ok(appended) => active.logged(appended.base),
                Err(error) => {
                    state.unlogged = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Rolls back: constant time, whatever the transaction did (but for the traditional mode,
    /// which undoes it from the log).
    ///
    /// It may have been told of commits that new snapshots do not see yet: [`Transaction::had_met`].
    pub fn rollback(&self) -> Result<()> {
        let mut state = self.quiet();
        check_open(&state)?;
        self.0.roll_back(&mut state)
    }

    /// Whether it is rolled back and had met commits of others that snapshots may not see yet (a duplicate of a row that nobody finds). Who goes
    /// on because of it waits for [`Database::until_visible`] first.
    pub fn had_met(&self) -> bool {
        self.0.state.lock().had_met
    }
}

/// What is noted of a transaction's deletions is forgotten when this goes.
struct ForgetOwn<'d> {
    db: &'d Database,
    id: TxId,
}

impl Drop for ForgetOwn<'_> {
    fn drop(&mut self) {
        self.db.inner().empty_spans.forget_own(self.id);
    }
}

/// Refuses a transaction that can only be rolled back.
pub(crate) fn check_whole(state: &TxState) -> Result<()> {
    let refused = |what: &str| Err(Error::new(ErrorKind::InvalidTransactionState, what));
    if state.unlogged {
        return refused("the transaction could not log that it went back to a savepoint, and can only be rolled back");
    }
    if state.broken_off.is_some() {
        return refused("a write of the transaction failed half-way, and it can only be rolled back");
    }
    Ok(())
}

pub(crate) fn check_open(state: &TxState) -> Result<()> {
    match state.phase {
        Phase::Open => Ok(()),
        Phase::Committed => Err(Error::new(ErrorKind::InvalidTransactionState, "the transaction is committed already")),
        Phase::RolledBack => {
            Err(Error::new(ErrorKind::InvalidTransactionState, "the transaction is rolled back already"))
        }
        Phase::Prepared => Err(Error::new(ErrorKind::InvalidTransactionState, "the transaction is prepared already")),
    }
}

impl Database {
    /// What follows a commit that is decided: `release` gives up its locks. `definitions`: it changed some,
    /// those of `tables` if that is known.
    pub(crate) fn publish_commit(
        &self,
        commit: Commit,
        definitions: bool,
        tables: Option<Vec<u32>>,
        release: impl FnOnce(),
    ) -> Result<CommitTicket> {
        let inner = self.inner();
        let end = commit.end;
        if definitions {
            // New definitions are handed out in the moment in which they become visible, and
            // tables stay locked until then.
            let flushed = inner.log.flush(end);
            if flushed.is_ok() {
                let _loading = inner.txs.reveal(end, |publish| inner.catalog.change(tables, publish));
                // The commit stands; who needs the definitions reads them if this fails.
                let _ = inner.catalog.committed(self);
            }
            release();
            flushed?;
            return Ok(CommitTicket { flush: None });
        }
        release();
        match commit.seen_from {
            None => Ok(CommitTicket { flush: None }),
            // Whoever is told of it sees it.
            Some(upto) => self.durable(upto),
        }
    }

    /// Has everything durable that is committed by now, asynchronously or not.
    ///
    /// # Errors
    /// Those of writing the log.
    pub fn sync_log(&self) -> Result<()> {
        self.durable(self.inner().log.end_lsn())?.wait()
    }

    /// Completes when the log is durable up to `end`, and commits up to there are visible.
    pub(crate) fn durable(&self, end: Lsn) -> Result<CommitTicket> {
        let inner = self.inner();
        if !inner.options.background {
            inner.log.flush(end)?;
            inner.txs.on_durable(end);
            return Ok(CommitTicket { flush: None });
        }
        Ok(CommitTicket { flush: Some((inner.log.flushed(end), self.clone(), end)) })
    }
}

impl TxInner {
    /// It took values of sequences, which are durable with the log up to `end`.
    pub(crate) fn needs_durable(&self, end: Lsn) {
        let mut state = self.state.lock();
        state.needs = state.needs.max(end);
    }

    /// What a commit waits for that wrote nothing: values that it took.
    fn taken_values(&self, state: &TxState, durability: Durability) -> Result<CommitTicket> {
        match durability {
            Durability::Sync if state.needs > self.db.inner().log.flushed_lsn() => self.db.durable(state.needs),
            _ => Ok(CommitTicket { flush: None }),
        }
    }

    /// Gives up the locks of an ended transaction, then wakes those who wait for it: in this
    /// order, or they would find the locks still taken and ask again at once.
    fn release(&self, state: &mut TxState, id: TxId) {
        self.db.inner().empty_spans.end_own(id);
        Pause::BeforeEnd.here();
        let requested = std::mem::take(&mut state.requested);
        let by_name = state.locked_by_name.drain(..).map(|(object, _)| object);
        for object in state.locked.drain().chain(requested).chain(by_name) {
            self.db.inner().locks.release(object, id);
        }
        state.leave(&self.db.inner().mode);
        self.db.inner().txs.ended(id);
    }

    pub(crate) fn roll_back(&self, state: &mut TxState) -> Result<()> {
        let inner = self.db.inner();
        state.phase = Phase::RolledBack;
        state.snapshot = None;
        state.catalog.clear();
        let Some(active) = state.active.take() else {
            state.leave(&inner.mode);
            return Ok(());
        };
        state.had_met = active.has_met_any();
        if active.first_lsn.load(Ordering::Relaxed) == 0 {
            inner.txs.end_unwritten(&active);
            self.release(state, active.id);
            return Ok(());
        }
        let undone = match self.undo(&active) {
            Ok(undone) => undone,
            // What is not reverted is passed over by being in the map.
            Err(_) if !inner.mode.is_traditional() => false,
            Err(error) => {
                tracing::warn!("the rollback of transaction {} goes on in the background: {error}", active.id);
                let mut locked: Vec<_> = state.locked.drain().collect();
                locked.append(&mut state.requested);
                locked.extend(state.locked_by_name.drain(..).map(|(object, _)| object));
                let entered = std::mem::take(&mut state.entered);
                inner.mode.undo.push(Unfinished { tx: active, locked, entered });
                return Ok(());
            }
        };
        Pause::BeforeEnd.here();
        let result = if undone && active.is_rows_only() {
            let logged = self.db.log_undone(&active);
            inner.txs.end_undone(&active);
            logged
        } else {
            self.db.abort_logged(&active)
        };
        self.release(state, active.id);
        result
    }

    /// Undoes the rows of a transaction that is short, or of the traditional mode. False:
    /// nothing was done.
    fn undo(&self, active: &ActiveTx) -> Result<bool> {
        if self.db.inner().mode.is_traditional() {
            self.db.undo_logged(active, Lsn::NONE)?;
            return Ok(true);
        }
        self.db.revert_short(active, 0, TxId::NONE)
    }
}

impl Drop for TxInner {
    fn drop(&mut self) {
        // Most have ended; one that is prepared is its register's.
        if self.state.get_mut().phase != Phase::Open {
            return;
        }
        let db = self.db.clone();
        let mut taken = TxState {
            phase: Phase::RolledBack,
            active: None,
            xid: TxId::NONE,
            fresh_id: false,
            unlogged: false,
            undo_due: None,
            entered: false,
            broken_off: None,
            bulk: false,
            snapshot: None,
            catalog_version: 0,
            locked: HashSet::new(),
            locked_by_name: Vec::new(),
            current: HashMap::new(),
            requested: Vec::new(),
            taken_back: Vec::new(),
            catalog: CatalogOverlay::default(),
            needs: Lsn::NONE,
            had_met: false,
            interrupt: None,
            sort_files: None,
        };
        std::mem::swap(&mut taken, self.state.get_mut());
        let _ = self.roll_back(&mut taken);
        drop(db);
    }
}

/// Completes when a commit, or whatever else ends or prepares a transaction, is durable.
#[must_use = "the commit is acknowledged only when the ticket completes"]
pub struct CommitTicket {
    flush: Option<(FlushTicket, Database, Lsn)>,
}

impl CommitTicket {
    /// Blocks until the commit is durable.
    pub fn wait(self) -> Result<()> {
        match self.flush {
            None => Ok(()),
            Some((ticket, db, end)) => {
                ticket.wait()?;
                db.inner().txs.on_durable(end);
                Ok(())
            }
        }
    }
    /// Whether there is nothing to wait for.
    pub fn is_done(&self) -> bool {
        self.flush.is_none()
    }
}

impl Future for CommitTicket {
    type Output = Result<()>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.flush {
            None => Poll::Ready(Ok(())),
            Some((ticket, db, end)) => {
                let result = std::task::ready!(Pin::new(ticket).poll(context));
                if result.is_ok() {
                    // The session's next snapshot sees what it committed.
                    db.inner().txs.on_durable(*end);
                }
                self.flush = None;
                Poll::Ready(result)
            }
        }
    }
}
