//! One open transaction and what it should see.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use resurgam_engine::*;

use super::Found;
use super::model::*;
use super::rng::Rng;
use super::rows::Op;
use crate::broken;

/// A statement that writes many rows and is not finished.
pub struct Bulk {
    pub view: ReadView,
    /// What it reads: the snapshot and the transaction's earlier writes.
    pub base: State,
    pub own: Overlay,
    /// Rows it has written.
    pub written: BTreeSet<(String, i64)>,
    pub left: u64,
}

pub struct Client {
    pub tx: Transaction,
    pub isolation: Isolation,
    /// The snapshot of a REPEATABLE READ transaction.
    pub snapshot: Option<State>,
    pub own: Overlay,
    pub bulk: Option<Bulk>,
    /// Rows and unique values that it tried to write: others may have to wait for them.
    pub touched: BTreeSet<(String, i64)>,
    pub touched_values: BTreeSet<(String, String)>,
    /// Rows that were not there before it.
    pub inserted: BTreeSet<(String, i64)>,
    /// Tables that it writes to, or tried to change.
    pub locked: BTreeSet<String>,
    pub wanted: BTreeSet<String>,
    /// Savepoints, with what it had changed by then.
    pub savepoints: Vec<(Savepoint, Overlay, BTreeSet<(String, i64)>)>,
    /// Waits for another transaction, to try this again.
    pub parked: Option<LockWait>,
    pub retry: Option<Op>,
    /// An error has left it good for nothing but rolling back.
    pub failed: bool,
    pub statements: u64,
    pub changed_definitions: bool,
    /// It is prepared: its identifier. Only whoever resolves it has to do with it.
    pub gid: Option<(String, TxId)>,
}

impl Client {
    pub fn begin(db: &Database, isolation: Isolation) -> Self {
        Self {
            tx: db.begin(isolation),
            isolation,
            snapshot: None,
            own: Overlay::default(),
            bulk: None,
            touched: BTreeSet::new(),
            touched_values: BTreeSet::new(),
            inserted: BTreeSet::new(),
            locked: BTreeSet::new(),
            wanted: BTreeSet::new(),
            savepoints: Vec::new(),
            parked: None,
            retry: None,
            failed: false,
            statements: 0,
            changed_definitions: false,
            gid: None,
        }
    }

    /// Stands for a transaction in doubt.
    pub fn of_prepared(db: &Database, gid: &str, tx: &InDoubt) -> Self {
        Self {
            own: tx.own.clone(),
            touched: tx.touched.clone(),
            touched_values: tx.touched_values.clone(),
            locked: tx.locked.clone(),
            wanted: tx.wanted.clone(),
            changed_definitions: tx.changed_definitions,
            gid: Some((gid.to_owned(), tx.id)),
            ..Self::begin(db, Isolation::ReadCommitted)
        }
    }

    /// What is to be known of it when it is prepared. `taken_back`: the rows that anybody changed and took back.
    pub fn in_doubt(&self, id: TxId, taken_back: &BTreeSet<(String, i64)>) -> InDoubt {
        InDoubt {
            id,
            own: self.own.clone(),
            touched: self.touched.clone(),
            touched_values: self.touched_values.clone(),
            taken_back: self.touched.intersection(taken_back).cloned().collect(),
            locked: self.locked.clone(),
            wanted: self.wanted.clone(),
            changed_definitions: self.changed_definitions,
        }
    }

    /// The id under which it holds what it holds.
    pub fn id(&self) -> Option<TxId> {
        self.gid.as_ref().map(|(_, id)| *id).or_else(|| self.tx.id())
    }

    /// Whether it still waits.
    pub fn is_parked(&mut self) -> Found<bool> {
        let Some(wait) = self.parked.as_mut() else { return Ok(false) };
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(wait).poll(&mut context) {
            Poll::Pending => Ok(true),
            Poll::Ready(result) => {
                self.parked = None;
                // Of a database that has stopped: the next step says whether it had a reason.
                if let Err(error) = result
                    && error.kind() != ErrorKind::Stopped
                {
                    broken!("a wait ended with {error:?}");
                }
                Ok(false)
            }
        }
    }

    /// Starts a statement, or goes on with one that writes many rows. Returns its view and
    /// what it must see.
    pub fn statement(
        &mut self,
        kind: StatementKind,
        model: &Model,
        rng: &mut Rng,
    ) -> Result<(ReadView, State, Overlay)> {
        if let Some(bulk) = &mut self.bulk {
            if bulk.left > 0 {
                bulk.left -= 1;
                return Ok((bulk.view.clone(), bulk.base.clone(), bulk.own.clone()));
            }
            self.bulk = None;
        }
        let view = self.tx.statement(kind)?;
        self.statements += 1;
        let base = match self.isolation {
            Isolation::ReadCommitted => model.committed.clone(),
            Isolation::RepeatableRead => self.snapshot.get_or_insert_with(|| model.committed.clone()).clone(),
        };
        if kind == StatementKind::BulkWrite {
            self.bulk = Some(Bulk {
                view: view.clone(),
                base: base.clone(),
                own: self.own.clone(),
                written: BTreeSet::new(),
                left: rng.below(8),
            });
        }
        Ok((view, base, self.own.clone()))
    }

    /// Whether the running statement has written this row.
    pub fn written_by_statement(&self, table: &str, number: i64) -> bool {
        self.bulk.as_ref().is_some_and(|b| b.written.contains(&(table.to_owned(), number)))
    }

    /// Notes a row that it inserted.
    pub fn inserted(&mut self, table: &str, number: i64, row: Row) {
        let key = (table.to_owned(), number);
        if !self.own.rows.contains_key(&key) {
            self.inserted.insert(key);
        }
        self.wrote(table, number, Some(row));
    }

    /// Notes a write.
    pub fn wrote(&mut self, table: &str, number: i64, row: Option<Row>) {
        let row = row.map(Arc::new);
        // What it made and takes away again was never there.
        let undone = row.is_none() && self.inserted.remove(&(table.to_owned(), number));
        if let Some(Some(own)) = self.own.tables.get_mut(table) {
            let own = Arc::make_mut(own);
            match row {
                Some(row) => own.rows.insert(number, row),
                None => own.rows.remove(&number),
            };
        } else if undone {
            self.own.rows.remove(&(table.to_owned(), number));
        } else {
            self.own.rows.insert((table.to_owned(), number), row);
        }
        if let Some(bulk) = &mut self.bulk {
            bulk.written.insert((table.to_owned(), number));
        }
    }

    pub fn touch_value(&mut self, table: &str, value: &Datum) {
        if let Datum::Text(text) = value {
            self.touched_values.insert((table.to_owned(), text.clone()));
        }
    }
}
