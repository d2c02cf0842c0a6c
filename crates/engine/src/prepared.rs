//! Prepared transactions: those that have done their work and wait to be told, by whoever
//! decides for several databases, whether they commit (two-phase commit).
//!
//! A transaction in doubt stays active: its rows are locked by carrying its id, at no cost per
//! row, and its table locks are its own. A restart makes it active again, before anyone is let
//! in, from its PREPARE record or the last checkpoint (Constant Time Recovery, section 3.5;
//! `recovery/src/prepared.rs`). Others are kept waiting by its rows and tables only.
//!
//! Committing it is an ordinary commit, rolling it back an ordinary abort. In the traditional
//! mode the latter first takes the PREPARE back, in the log, and then undoes it: a crash in
//! between goes on with the undo.
//!
//! # Invariants
//! 1. The mutex of the list is held from the first PREPARE record of a transaction until it is
//!    in the list, and while the record is appended that takes it out of doubt other than by a
//!    commit (which checkpoints tell by its state). So what a checkpoint finds here was in doubt
//!    at its begin, or has its end behind that.
//! 2. Whoever resolves one has claimed it: two never do at the same time.
//! 3. A transaction in doubt counts as a writer of the mode (`mode.rs`).
//! 4. Nobody is told that an identifier is gone before that is durable: whoever decides for
//!    several databases forgets the transaction then, and could not answer for one that is in
//!    doubt again after a power loss. Until then it is *leaving*: over for this process and for
//!    checkpoints, but listed, busy to others, and not to be taken again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, Result, TxId};
use resurgam_log::{Group, RecordKind};
use resurgam_recovery::{PREPARED_ID_BYTES_MAX, PREPARED_SUBS_MAX, PrepareRecord, PreparedHead, PreparedTx, TxRecord};
use resurgam_txn::{ActiveTx, ObjectLocks, TxManager, Visible};

use crate::database::Database;
use crate::lost::Lost;
use crate::transaction::{CommitTicket, Phase, Transaction, check_open, check_whole};
use crate::undo::Unfinished;

/// Longest name of an owner or a database, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A transaction that is prepared and not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTransaction {
    pub id: TxId,
    /// The identifier that its client gave it.
    pub gid: String,
    /// Who prepared it, and in which database, as [`Transaction::prepare`] was told.
    pub owner: String,
    pub database: String,
    /// When, in microseconds since 2000-01-01 UTC.
    pub prepared_us: i64,
    /// LSN of its PREPARE record.
    pub lsn: Lsn,
}

/// One of the list.
struct InDoubt {
    tx: Arc<PreparedTx>,
    active: Arc<ActiveTx>,
    /// Its tables: [`crate::transaction::TxState::locked`].
    locked: Vec<ObjectId>,
    /// It is counted as a writer.
    entered: bool,
    /// End of its PREPARE in the log; none if it was found by recovery.
    end: Lsn,
    /// Someone is resolving it.
    claimed: bool,
}

impl PreparedTransaction {
    fn of(tx: &PreparedTx) -> Self {
        Self {
            id: tx.id,
            gid: tx.head.gid.clone(),
            owner: tx.head.owner.clone(),
            database: tx.head.database.clone(),
            prepared_us: tx.head.time_us,
            lsn: tx.lsn,
        }
    }
}

/// One that is resolved; a power loss could bring it back still.
struct Leaving {
    tx: Arc<PreparedTx>,
    /// End of its PREPARE in the log, and of the record that resolved it.
    prepared: Lsn,
    end: Lsn,
}

/// By identifier; none is in both.
#[derive(Default)]
struct List {
    in_doubt: BTreeMap<String, InDoubt>,
    leaving: BTreeMap<String, Leaving>,
}

impl List {
    /// Forgets those whose end is durable.
    fn forget_durable(&mut self, durable: Lsn) {
        self.leaving.retain(|_, one| one.end > durable);
    }

    /// Takes one out that is resolved by a record that ends at `end`.
    fn leave(&mut self, gid: &str, end: Lsn) -> Option<InDoubt> {
        let one = self.in_doubt.remove(gid)?;
        self.leaving.insert(gid.to_owned(), Leaving { tx: Arc::clone(&one.tx), prepared: one.end, end });
        Some(one)
    }
}

/// The transactions in doubt.
#[derive(Default)]
pub(crate) struct Prepared {
    list: Mutex<List>,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    /// Those of the traditional mode whose rows' earlier versions a restart has lost, until they
    /// are rebuilt.
    pub lost: Lost,
}

impl Prepared {
    /// Adds what recovery found: active again, with its table locks. What recovery found aborted
    /// must have been restored before. To be called before anyone else locks anything.
    pub fn restore(&self, found: Vec<PreparedTx>, txs: &TxManager, locks: &ObjectLocks) -> Result<()> {
        let mut list = self.list.lock();
        for tx in found {
            let active = txs.restore_prepared(tx.id, tx.subs.clone(), tx.chain);
            active.logged(tx.lsn);
            let _ = active.prepared_as.set(tx.head.gid.clone());
            if tx.chain.last.is_some() {
                self.lost.push(Arc::clone(&active));
            }
            for (object, lock) in &tx.objects {
                locks.try_lock(*object, tx.id, *lock).map_err(|holder| {
                    Error::corrupt(format!(
                        "the prepared transactions {} and {holder} both hold table {object} for themselves",
                        tx.id
                    ))
                })?;
            }
            let locked = tx.objects.iter().map(|(object, _)| *object).collect();
            let gid = tx.head.gid.clone();
            let one = InDoubt { tx: Arc::new(tx), active, locked, entered: true, end: Lsn::NONE, claimed: false };
            list.in_doubt.insert(gid, one);
        }
        Ok(())
    }

    /// For a checkpoint; see the invariants.
    pub fn all(&self) -> Vec<Arc<PreparedTx>> {
        self.list.lock().in_doubt.values().map(|one| Arc::clone(&one.tx)).collect()
    }

    pub fn len(&self) -> usize {
        self.list.lock().in_doubt.len()
    }

    /// Those that have changed definitions.
    pub fn with_definitions(&self) -> Vec<TxId> {
        self.list.lock().in_doubt.values().filter(|one| one.tx.head.definitions).map(|one| one.tx.id).collect()
    }

    /// Committed and rolled back since open.
    pub fn resolved(&self) -> (u64, u64) {
        (self.committed.load(Ordering::Relaxed), self.rolled_back.load(Ordering::Relaxed))
    }
}

/// The right to resolve one of them; given back when dropped.
struct Claim<'a> {
    list: &'a Prepared,
    tx: Arc<PreparedTx>,
    active: Arc<ActiveTx>,
}

impl Claim<'_> {
    fn gid(&self) -> &str {
        &self.tx.head.gid
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(one) = self.list.list.lock().in_doubt.get_mut(self.gid())
            && one.tx.id == self.tx.id
        {
            one.claimed = false;
        }
    }
}

impl Transaction {
    /// Prepares the transaction to be committed by [`Database::commit_prepared`], perhaps after
    /// a restart. `gid` names it; `owner` and `database` are kept for whoever asks. This handle
    /// is finished with it, and the transaction goes on to hold its rows and tables. It is in
    /// doubt when the ticket completes; before, a crash rolls it back.
    ///
    /// # Errors
    /// `InvalidParameter` for an identifier that is empty or too long; `DuplicateObject` when it
    /// is in use; `NotInPrerequisiteState` when prepared transactions are turned off;
    /// `ConfigurationLimitExceeded` when there are as many as there may be; `LimitExceeded` for
    /// too many savepoints; `NotSupported` for rows that are shared with others; those of [`Transaction::commit`]. After an error of writing the log
    /// the transaction is rolled back; after any other it is as before, but that rows which it shared it may have for itself.
    pub fn prepare(&self, gid: &str, owner: &str, database: &str) -> Result<CommitTicket> {
        let inner = self.0.db.inner();
        check_names(gid, owner, database)?;
        // What a restart would not find.
        let turned = self.locks_to_versions()?;
        let mut state = self.quiet();
        check_open(&state)?;
        check_whole(&state)?;
        let shared = state.active.as_ref().map(|active| inner.txs.row_locks().of(active.id)).unwrap_or_default();
        if shared.iter().any(|row| !turned.contains(row)) {
            return Err(Error::new(
                ErrorKind::InvalidTransactionState,
                "a row was locked while the transaction was prepared",
            ));
        }
        let mut list = inner.prepared.list.lock();
        let most = inner.options.max_prepared_transactions;
        if most == 0 {
            return Err(Error::new(ErrorKind::NotInPrerequisiteState, "prepared transactions are disabled")
                .with_hint("Set max_prepared_transactions to a nonzero value."));
        }
        list.forget_durable(inner.log.flushed_lsn());
        if list.in_doubt.contains_key(gid) || list.leaving.contains_key(gid) {
            return Err(Error::new(
                ErrorKind::DuplicateObject,
                format!("transaction identifier \"{gid}\" is already in use"),
            ));
        }
        if list.in_doubt.len() >= most {
            return Err(Error::new(
                ErrorKind::ConfigurationLimitExceeded,
                "maximum number of prepared transactions reached",
            )
            .with_hint(format!(
                "Commit or roll back some of them, or increase max_prepared_transactions (currently {most})."
            )));
        }
        let active = match &state.active {
            Some(active) => Arc::clone(active),
            // It has written nothing, and is to be known all the same.
            None => Arc::clone(state.active.insert(inner.txs.begin())),
        };
        let subs = active.subs();
        let ids: u64 = subs.iter().map(|(first, last)| last.0 - first.0 + 1).sum();
        let others: u64 = list.in_doubt.values().map(|one| one.tx.sub_ids()).sum();
        if ids.saturating_add(others) > PREPARED_SUBS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("prepared transactions cannot have more than {PREPARED_SUBS_MAX} savepoints together"),
            )
            .with_detail(format!("This one has {ids}, those that are prepared have {others}.")));
        }
        let by_name = state.locked_by_name.iter().map(|(object, _)| object);
        let mut objects: Vec<_> = state.locked.iter().chain(by_name).copied().collect();
        objects.sort_unstable();
        objects.dedup();
        let objects: Vec<_> = objects
            .into_iter()
            .flat_map(|object| inner.locks.held(object, active.id).into_iter().map(move |lock| (object, lock)))
            .collect();
        let head = PreparedHead {
            time_us: inner.vfs.wall_clock_us(),
            definitions: state.catalog.changed,
            subs: subs.len() as u32,
            objects: objects.len() as u32,
            gid: gid.to_owned(),
            owner: owner.to_owned(),
            database: database.to_owned(),
            next_object: if state.catalog.changed { inner.object_ids_below() } else { 0 },
        };
        let mut tx = PreparedTx { id: active.id, head, subs, objects, ..PreparedTx::default() };
        let mut end = Lsn::NONE;
        let mut group = Group::default();
        for body in tx.encode() {
            group.clear();
            group.record(RecordKind::Prepare, active.id, active.last_lsn(), &body);
            match inner.log.append(&group) {
                Ok(appended) => {
                    active.logged(appended.base);
                    (tx.lsn, end) = (appended.base, appended.end);
                }
                Err(error) => {
                    // Without its last part it is not in doubt, and never will be.
                    drop(list);
                    let _ = self.0.roll_back(&mut state);
                    return Err(error);
                }
            }
        }
        // Rolling it back later goes by its id: its rows need not be known.
        active.write_set.lock().give_up();
        let _ = active.prepared_as.set(gid.to_owned());
        state.phase = Phase::Prepared;
        state.snapshot = None;
        state.catalog.clear();
        state.active = None;
        let requested = std::mem::take(&mut state.requested);
        let one = InDoubt {
            locked: tx.objects.iter().map(|(object, _)| *object).collect(),
            entered: std::mem::take(&mut state.entered),
            tx: Arc::new(tx),
            active: Arc::clone(&active),
            end,
            claimed: false,
        };
        list.in_doubt.insert(gid.to_owned(), one);
        drop(list);
        if !requested.is_empty() {
            for object in &requested {
                inner.locks.withdraw(*object, active.id);
            }
            // Those that its requests have kept out look again.
            inner.txs.ended(active.id);
        }
        drop(state);
        self.0.db.durable(end)
    }
}

impl Database {
    /// Transactions that are prepared and not yet resolved, by identifier. One is listed from the
    /// moment in which its PREPARE is durable until its commit or rollback is.
    pub fn prepared(&self) -> Vec<PreparedTransaction> {
        let inner = self.inner();
        let mut list = inner.prepared.list.lock();
        let durable = inner.log.flushed_lsn();
        list.forget_durable(durable);
        let in_doubt = list.in_doubt.values().map(|one| (&one.tx, one.end));
        let all = in_doubt.chain(list.leaving.values().map(|one| (&one.tx, one.prepared)));
        let mut all: Vec<_> =
            all.filter(|(_, end)| *end <= durable).map(|(tx, _)| PreparedTransaction::of(tx)).collect();
        all.sort_unstable_by(|a, b| a.gid.cmp(&b.gid));
        all
    }

    /// Commits a prepared transaction. The outcome is fixed when this returns; the ticket
    /// completes when it is durable.
    ///
    /// # Errors
    /// `UndefinedObject` when there is none of that identifier, and a restart will find none;
    /// `NotInPrerequisiteState` when it is being resolved by someone else at this moment; those of writing the log, after
    /// which it is in doubt as before (or, when the log has stopped, what it is is known after a
    /// restart).
    pub fn commit_prepared(&self, gid: &str) -> Result<CommitTicket> {
        let inner = self.inner();
        let claim = self.claim(gid)?;
        let (active, definitions) = (Arc::clone(&claim.active), claim.tx.head.definitions);
        let lost = inner.prepared.lost.of(active.id);
        let mut still = None;
        if let Some(lost) = &lost {
            // Who reads its rows through an older snapshot finds what was there before. (If that
            // cannot be had, such readers get an error.) Others' rows are not waited for.
            (inner.options.blocking)(&mut || {
                let mut rebuilt = lost.rebuilt.lock();
                self.rebuild_one(lost, &mut rebuilt);
                still = Some(rebuilt);
            });
        }
        if definitions {
            // The cache must know each version, to tell what changed in which.
            inner.catalog.committed(self)?;
        }
        let visible = if definitions { Visible::WhenRevealed } else { Visible::WhenDurable };
        let commit = inner.txs.commit(&active, visible, || {
            let body = TxRecord { time_us: inner.vfs.wall_clock_us(), subs: active.subs() }.encode();
            let mut group = Group::default();
            group.record(RecordKind::Commit, active.id, active.last_lsn(), &body);
            Ok(inner.log.append(&group)?.end)
        })?;
        let one = inner.prepared.list.lock().leave(claim.gid(), commit.end);
        if let Some(lost) = &lost {
            // Its rows are others' to change from here on.
            lost.resolve();
            inner.prepared.lost.remove(active.id);
        }
        drop(still);
        inner.prepared.committed.fetch_add(1, Ordering::Relaxed);
        self.publish_commit(commit, definitions, None, || {
            if let Some(one) = one {
                self.release_resolved(&one.active, &one.locked, one.entered);
            }
        })
    }

    /// Rolls a prepared transaction back: in constant time, but for the traditional mode, which
    /// undoes it from the log. When the ticket completes no restart can bring it back into doubt.
    ///
    /// # Errors
    /// As [`Database::commit_prepared`].
    pub fn rollback_prepared(&self, gid: &str) -> Result<CommitTicket> {
        let inner = self.inner();
        let claim = self.claim(gid)?;
        let active = Arc::clone(&claim.active);
        let now = inner.vfs.wall_clock_us();
        let traditional = inner.mode.is_traditional();
        let (kind, body) = if traditional {
            (RecordKind::Prepare, PrepareRecord::Withdrawn.encode())
        } else {
            (RecordKind::Abort, TxRecord { time_us: now, subs: active.subs() }.encode())
        };
        let mut group = Group::default();
        group.record(kind, active.id, active.last_lsn(), &body);
        let (appended, one) = {
            let mut list = inner.prepared.list.lock();
            let appended = inner.log.append(&group);
            let one = appended.as_ref().ok().and_then(|appended| list.leave(claim.gid(), appended.end));
            (appended, one)
        };
        let appended = appended?;
        let Some(one) = one else { return Err(Error::internal("a claimed transaction is gone")) };
        inner.prepared.rolled_back.fetch_add(1, Ordering::Relaxed);
        active.logged(appended.base);
        // Asked for before the undo, which may take long.
        let ticket = self.durable(appended.end);
        if traditional {
            // Nobody walks along its undo records any more while they are undone.
            if let Some(lost) = inner.prepared.lost.of(active.id) {
                lost.resolve();
                (inner.options.blocking)(&mut || drop(lost.rebuilt.lock()));
            }
            let id = active.id;
            // From here on it is one of those that are undone, by whoever gets to it first.
            inner.mode.undo.push(Unfinished { tx: active, locked: one.locked, entered: one.entered });
            inner.prepared.lost.remove(id);
            let mut undone = Ok(());
            (inner.options.blocking)(&mut || undone = self.undo_queued());
            if let Err(error) = undone {
                tracing::warn!("the rollback of \"{gid}\" goes on in the background: {error}");
            }
        } else {
            inner.txs.abort(&active, appended.base, now);
            self.release_resolved(&active, &one.locked, one.entered);
        }
        ticket
    }

    fn release_resolved(&self, active: &ActiveTx, locked: &[ObjectId], entered: bool) {
        let inner = self.inner();
        locked.iter().for_each(|object| inner.locks.release(*object, active.id));
        if entered {
            inner.mode.leave();
        }
        inner.txs.ended(active.id);
    }

    fn claim(&self, gid: &str) -> Result<Claim<'_>> {
        let inner = self.inner();
        let prepared = &inner.prepared;
        let mut list = prepared.list.lock();
        list.forget_durable(inner.log.flushed_lsn());
        let busy = || {
            Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!("prepared transaction with identifier \"{gid}\" is busy"),
            )
        };
        if list.leaving.contains_key(gid) {
            return Err(
                busy().with_detail("It has just been committed or rolled back, and that is not on the disk yet.")
            );
        }
        let Some(one) = list.in_doubt.get_mut(gid) else {
            return Err(Error::new(
                ErrorKind::UndefinedObject,
                format!("prepared transaction with identifier \"{gid}\" does not exist"),
            ));
        };
        if std::mem::replace(&mut one.claimed, true) {
            return Err(busy().with_detail("Another session is committing or rolling it back at this moment."));
        }
        Ok(Claim { list: prepared, tx: Arc::clone(&one.tx), active: Arc::clone(&one.active) })
    }
}

fn check_names(gid: &str, owner: &str, database: &str) -> Result<()> {
    if gid.is_empty() || gid.len() > PREPARED_ID_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            if gid.is_empty() {
                "a transaction identifier cannot be empty".to_owned()
            } else {
                format!("transaction identifier \"{gid}\" is too long")
            },
        )
        .with_hint(format!("It has 1 to {PREPARED_ID_BYTES_MAX} bytes.")));
    }
    if owner.len() > NAME_BYTES_MAX || database.len() > NAME_BYTES_MAX {
        return Err(Error::new(ErrorKind::InvalidParameter, "the name of an owner or database is too long"));
    }
    Ok(())
}
