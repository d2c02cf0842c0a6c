//! CREATE INDEX CONCURRENTLY: the index is made in transactions of its own, one after the other, while others write to the table
//! (`resurgam_engine::IndexBuild` says why that is right).
//!
//! Twice the definition is changed, which needs the table's lock. While it is asked for, others who begin to write wait as well; so
//! it is asked for only when those who have it are through, and not for long. Whatever goes wrong after the first
//! change leaves an index that is not valid, as in PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Attempt, Durability, IndexBuild, Isolation, StatementKind, Table, Transaction};

use crate::session::Session;
use crate::wire::SqlError;

/// So long others wait at first behind a lock that is not free yet. It is doubled each time, up to [`QUEUED_MAX`]; after [`TRIES`] without a
/// bound, since whoever is new each time, and takes long, must not keep it for ever.
const QUEUED: Duration = Duration::from_millis(50);
const QUEUED_MAX: Duration = Duration::from_millis(500);
const TRIES: usize = 30;

impl Session {
    /// Locks a table to change its definition, as soon as nobody has it: who writes to it meanwhile is kept out for moments only. The
    /// newest definition may be another one than `table`.
    ///
    /// # Errors
    /// Those of waiting.
    pub(super) async fn lock_in_passing(&mut self, txn: &Transaction, table: &Arc<Table>) -> Result<(), SqlError> {
        let (mut queued, mut tries) = (QUEUED, 0);
        loop {
            for holder in txn.in_the_way_of_change(table) {
                let mut has_waited = false;
                let wait = || match std::mem::replace(&mut has_waited, true) {
                    true => Ok(Attempt::Done(())),
                    false => txn.wait_for_writer(holder).map(Attempt::Wait),
                };
                self.settle_ddl(wait).await?;
            }
            match tokio::time::timeout(queued, self.settle_ddl(|| txn.lock_for_change(table))).await {
                Ok(Ok(())) => return Ok(()),
                // It is locked all the same.
                Ok(Err(error)) if error.definition_changed => return Ok(()),
                // Somebody who has it waits for one who waits behind this.
                Ok(Err(error)) if error.sqlstate == "40P01" => {
                    txn.withdraw_lock(table);
                    tokio::time::sleep(QUEUED).await;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => txn.withdraw_lock(table),
            }
            tries += 1;
            queued = if tries < TRIES { (queued * 2).min(QUEUED_MAX) } else { queued * 2 };
        }
    }

    /// Commits what has added an index without entries to `table`, fills it, and makes it valid.
    ///
    /// # Errors
    /// `23505`; `42704` where the index, or the table, was dropped meanwhile; those of writing, waiting and being cancelled.
    pub(super) async fn fill_concurrently(&mut self, table: &Arc<Table>, index: &str) -> Result<(), SqlError> {
        let added = table.indexes.iter().find(|added| added.name == index);
        let index = added.ok_or_else(|| SqlError::internal("an index that was added is not there"))?.id;
        self.commit().await?;
        let mut build = IndexBuild::begin(&self.db.engine, table, index);
        loop {
            let txn = self.engine_transaction(Isolation::ReadCommitted);
            *self.shared.txn.lock() = Some(txn.clone());
            let filled = self.settle_ddl(|| tokio::task::block_in_place(|| txn.fill_some(&mut build))).await;
            *self.shared.txn.lock() = None;
            let done = filled?;
            // It is durable when the index is valid: that is behind it in the log.
            drop(txn.commit(Durability::Async)?);
            if done {
                break;
            }
        }
        self.begin(Isolation::ReadCommitted, false, false);
        let txn = self.ddl_transaction("CREATE INDEX")?;
        let gone = || SqlError::new("42704", "the index was dropped while it was made");
        let find = |_: &mut Self| txn.table_by_id(table.id)?.ok_or_else(gone);
        let newest = find(self)?;
        self.lock_in_passing(&txn, &newest).await?;
        txn.statement(StatementKind::PointWrite)?;
        let newest = self.locked_newest(&txn, find).await?;
        self.settle_ddl(|| txn.finish_index(&newest, &build)).await?;
        drop(txn);
        self.commit().await
    }
}
