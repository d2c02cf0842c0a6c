//! Locking rows without changing them: SELECT … FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE, FOR KEY SHARE.
//!
//! The stronger two leave a version of the same content, written by the transaction; the weaker two are noted in memory
//! ([`resurgam_txn::RowLocks`]), since a version has one writer. What a lock waits for follows PostgreSQL's table of row-level locks, and so
//! does what it is content with: FOR KEY SHARE takes a row that somebody changes, or has changed since the statement's snapshot, as the
//! snapshot has it, as long as the columns of its keys stay (those of the primary key and of UNIQUE indexes without a predicate or expressions).
//!
//! Who locks a row to share it looks at its versions and notes the lock under its leaf's latch; who writes one asks for locks under
//! the same latch. So one finds the other.
//!
//! # Invariants
//! 1. A version of the same content, of somebody else who is active, is taken for a lock that excludes all others, unless it was noted
//!    that it leaves the keys alone; and so is any version of one who has locked a row FOR UPDATE, changed a column of a key, or put a row in where
//!    it had deleted one ([`resurgam_txn::ActiveTx::locks_keys`]): a version shows what all changes of one id come to. Who locks FOR KEY SHARE waits
//!    rather than be wrong.
//! 2. A prepared transaction shares nothing: its locks became versions before ([`Transaction::locks_to_versions`]), which a
//!    restart finds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_base::pauses::Pause;
use resurgam_base::{Error, ErrorKind, Result, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::Access;
use resurgam_page::LeafRecord;
use resurgam_page::types::DatumRef;
use resurgam_txn::{RowLockMode, Status, TreeId};
use resurgam_versions::{Outcome, Seen, View, Visible, possible, visible};

use crate::definition::Column;
use crate::table::{RawRow, RowBuf, Table};
use crate::transaction::{Attempt, Change, Transaction, WriteContext, attempt};

/// A row that a transaction shares: its tree and its key.
pub(crate) type SharedRow = (TreeId, Arc<[u8]>);

/// The newest state of a row, as one who wants to share it finds it.
pub(crate) enum Looked {
    /// It is shared now.
    Taken,
    /// There was no room for one lock more.
    Full,
    /// Wait for this one first.
    Wait(TxId),
    Not(Change),
}

impl Transaction {
    /// Checks that the row may be written by this transaction, and leaves it locked (SELECT … FOR UPDATE).
    pub fn lock_row(&self, table: &Arc<Table>, key: &[u8], seen: Seen) -> Result<Attempt<Change>> {
        self.lock_row_as(table, key, seen, RowLockMode::Update)
    }

    /// Locks a row that is going to be changed, by the same transaction, before anybody asks which of its columns.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn lock_row_to_update(&self, table: &Arc<Table>, key: &[u8], seen: Seen) -> Result<Attempt<Change>> {
        self.0.db.throttle(self)?;
        let context = attempt!(self.row_context(table, || Ok(())));
        self.lock_by_version(table, &context, key, seen, RowLockMode::NoKeyUpdate)
    }

    /// Locks a row. After [`Change::Done`] of [`RowLockMode::KeyShare`] its newest version may be another than the one that was seen, with the
    /// same keys.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn lock_row_as(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        seen: Seen,
        mode: RowLockMode,
    ) -> Result<Attempt<Change>> {
        self.0.db.throttle(self)?;
        let context = attempt!(self.row_context(table, || Ok(())));
        if !mode.is_shared() {
            if mode == RowLockMode::Update {
                // Before others see the version.
                context.active.locks_keys.store(true, Ordering::Release);
            }
            let changed = attempt!(self.lock_by_version(table, &context, key, seen, mode));
            if mode == RowLockMode::NoKeyUpdate && changed == Change::Done {
                let inner = self.0.db.inner();
                let (tree, most) = ((table.tree.object, table.tree.root), inner.options.shared_row_locks_max);
                // Without room for it others wait more than they must.
                inner.txs.row_locks().take(tree, key, context.xid, context.active.id, mode, most);
            }
            return Ok(Attempt::Done(changed));
        }
        match self.reading(|| self.share(table, &context, key, seen, mode))? {
            Looked::Taken => Ok(Attempt::Done(Change::Done)),
            Looked::Wait(holder) => Ok(Attempt::Wait(self.wait_for(&context, holder)?)),
            Looked::Not(change) => self.change(change),
            Looked::Full => self.lock_by_version(table, &context, key, seen, RowLockMode::NoKeyUpdate),
        }
    }

    fn lock_by_version(
        &self,
        table: &Arc<Table>,
        context: &WriteContext<'_>,
        key: &[u8],
        seen: Seen,
        mode: RowLockMode,
    ) -> Result<Attempt<Change>> {
        let mut row = RowBuf::default();
        if self.newest_row(table, key, context, &mut row)?.is_none() {
            let outcome = self.writer(context, false).delete_check(table.tree, key, seen)?;
            return self.changed(context, outcome);
        }
        Pause::RowRead.here();
        let (outcome, _) =
            self.over_own(table, context, key, mode, false, |writer| writer.update(table.tree, key, &row.value, seen))?;
        self.changed(context, outcome)
    }

    /// Takes a row to share it, if that can be done now.
    pub(crate) fn share(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        key: &[u8],
        seen: Seen,
        mode: RowLockMode,
    ) -> Result<Looked> {
        let inner = self.0.db.inner();
        let (tree, own) = ((table.tree.object, table.tree.root), context.active.id);
        // The guard is held until the lock is noted.
        let (page, Ok(slot)) = table.tree.find(&inner.pool, key, Access::Point)? else {
            return Ok(Looked::Not(Change::Gone));
        };
        let record = LeafRecord::parse(page.record(slot)?)?;
        // What others are making of it, and what is there besides.
        let mut pending: Vec<(TxId, Option<Vec<u8>>)> = Vec::new();
        let mut there: Option<(TxId, Vec<u8>)> = None;
        let any = View { txs: &inner.txs, ts: context.snapshot.ts(), own, hidden_from: TxId(u64::MAX) };
        let holder = possible(&inner.pool, &record, &any, &mut |version| {
            match (version.pending, version.value) {
                (true, value) => pending.push((version.xid, value.map(<[u8]>::to_vec))),
                (false, value) => {
                    self.note_met(context, version.xid);
                    there = value.map(|value| (version.xid, value.to_vec()));
                }
            }
            Ok(())
        })?;
        if let Some(holder) = holder {
            // What is one version may be several changes of one id, of which it shows what they come to.
            let top = match inner.txs.status(holder) {
                Status::Active(top) => top,
                _ => holder,
            };
            let is_weak = |(xid, value): &(TxId, Option<Vec<u8>>)| match (value, &there) {
                (Some(value), Some((_, before))) if value == before => {
                    Ok(inner.txs.row_locks().keeps_keys(tree, key, *xid))
                }
                (Some(value), Some((_, before))) => same_keys(table, key, value, before),
                _ => Ok::<bool, Error>(false),
            };
            if mode != RowLockMode::KeyShare
                || inner.txs.locks_keys(top)
                || !pending.iter().map(is_weak).collect::<Result<Vec<_>>>()?.iter().all(|weak| *weak)
            {
                return Ok(Looked::Wait(holder));
            }
        }
        let Some((version, value)) = there else { return Ok(Looked::Not(Change::Gone)) };
        let view = self.writer(context, false).view;
        let expected = match seen {
            Seen::Snapshot => view.sees(version),
            Seen::Version(xid) => xid == version,
        };
        if !expected {
            let mut before = Vec::new();
            let is_same = mode == RowLockMode::KeyShare && seen == Seen::Snapshot && {
                match visible(&inner.pool, &record, &view, &mut before)? {
                    Visible::No => false,
                    Visible::Rebuilt => same_keys(table, key, &before, &value)?,
                    Visible::Current => same_keys(table, key, record.value, &value)?,
                }
            };
            if !is_same {
                return Ok(Looked::Not(Change::Changed));
            }
        }
        if let Some(holder) = inner.txs.row_lock_conflict(tree, key, own, mode) {
            return Ok(Looked::Wait(holder));
        }
        let most = inner.options.shared_row_locks_max;
        let taken = inner.txs.row_locks().take(tree, key, context.xid, own, mode, most);
        drop(page);
        Ok(if taken { Looked::Taken } else { Looked::Full })
    }

    /// How an update of the row under `key` to `new_row` locks it.
    pub(crate) fn mode_of_update(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        key: &[u8],
        seen: Seen,
        new_row: &[DatumRef<'_>],
    ) -> Result<RowLockMode> {
        // Nobody is kept from anything while nobody shares a row; one who comes meanwhile is waited for more often than he must be.
        if self.0.db.inner().txs.row_locks().is_empty() {
            return Ok(RowLockMode::Update);
        }
        let before = self.value_before(table, context, key, seen)?;
        if before.is_empty() && !table.columns.is_empty() {
            return Ok(RowLockMode::Update);
        }
        let old_row = table.all_columns(RawRow { key, value: &before })?;
        let stays = key_columns(table).all(|at| old_row.get(at) == new_row.get(at));
        Ok(if stays { RowLockMode::NoKeyUpdate } else { RowLockMode::Update })
    }

    /// Turns the rows that the transaction shares into rows that it has for itself, which a restart finds.
    ///
    /// # Errors
    /// `NotSupported` where somebody else shares one of them, or is changing it.
    pub(crate) fn locks_to_versions(&self) -> Result<Vec<SharedRow>> {
        let locks = self.0.db.inner().txs.row_locks();
        let Some(own) = self.0.state.lock().active.as_ref().map(|active| active.id) else { return Ok(Vec::new()) };
        let shared = locks.of(own);
        for ((object, root), key) in shared.clone() {
            let tree = Tree { root, object };
            let context = self.write_context()?;
            let mut row = RowBuf::default();
            let Some(version) = self.newest_row_in(tree, &key, &context, &mut row)? else { continue };
            let mut writer = self.writer(&context, false);
            writer.update_locks = RowLockMode::NoKeyUpdate;
            match writer.update(tree, &key, &row.value, Seen::Version(version))? {
                Outcome::Done | Outcome::SelfModified => {}
                _ => {
                    return Err(Error::new(
                        ErrorKind::NotSupported,
                        "a transaction that shares locked rows with others cannot be prepared",
                    )
                    .with_hint("Lock the rows FOR UPDATE."));
                }
            }
        }
        Ok(shared)
    }
}

/// The columns that foreign keys could refer to, but for those of the primary key: rows with another one are other rows.
fn key_columns(table: &Table) -> impl Iterator<Item = usize> + '_ {
    let unique = table.indexes.iter().filter(|index| {
        index.unique && !index.columns.iter().any(|at| table.columns.get(*at).is_some_and(Column::is_hidden))
    });
    unique.flat_map(|index| index.columns.iter().copied())
}

/// Whether two contents of the row under `key` have the same keys.
fn same_keys(table: &Table, key: &[u8], a: &[u8], b: &[u8]) -> Result<bool> {
    if key_columns(table).next().is_none() {
        return Ok(true);
    }
    let (a, b) = (table.all_columns(RawRow { key, value: a })?, table.all_columns(RawRow { key, value: b })?);
    Ok(key_columns(table).all(|at| a.get(at) == b.get(at)))
}
