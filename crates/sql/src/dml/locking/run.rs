//! Running queries with locking clauses: their rows, locked.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use datafusion::arrow::array::{Array, BinaryViewArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionState;
use futures::StreamExt;
use resurgam_engine::{Attempt, Change, ErrorKind, ReadView, RowBuf, Seen, StatementKind, Table, Transaction};

use crate::dml::locking::plan::{LockPlan, count_of};
use crate::dml::{Fate, RowWork, settle_row};
use crate::exec::bridge;
use crate::exec::context::{Locked, StatementContext, StopFlag, TargetRow, task_context};
use crate::exec::once::Once;
use crate::exec::wait::{Waiting, guarded, settle};
use crate::pg::errors;
use crate::plan::locking::{Count, Policy, Taking};
use crate::session::Session;
use crate::wire::SqlError;

type DfResult<T> = datafusion::common::Result<T>;

impl Session {
    /// Locks the rows of a statement's locking queries, in the open transaction.
    ///
    /// # Errors
    /// `25006`, `40001`, `40P01`, `55P03`, `57014`; those of the queries.
    pub(crate) async fn lock_rows(
        &mut self,
        plans: &[LockPlan],
        once: Option<&Arc<Once>>,
        values: &[ScalarValue],
        text: &str,
    ) -> Result<Option<Arc<Locked>>, SqlError> {
        if plans.is_empty() {
            return Ok(None);
        }
        self.refuse_if_read_only("SELECT FOR UPDATE")?;
        let (deadline, stop) = (self.deadline(), Arc::clone(&self.shared.stop));
        let lock_timeout = self.shared.variables.lock().lock_timeout;
        let state = self.state()?;
        let few = self.state_for_few()?;
        let open = self.transaction();
        open.used = true;
        let txn = open.txn.clone();
        let work = async {
            let mut locked: Option<Arc<Locked>> = None;
            for plan in plans {
                let state = if plan.limit.is_some() { &few } else { &state };
                let memory = MemoryConsumer::new("locked rows").register(&state.runtime_env().memory_pool);
                let mut run = LockRun {
                    plan,
                    state,
                    txn: &txn,
                    values,
                    waiting: Waiting { stop: &stop, lock_timeout },
                    stop: &stop,
                    before: locked.clone(),
                    once: once.map(Arc::downgrade).unwrap_or_default(),
                    changed: HashMap::new(),
                    memory,
                };
                let found = run.run().await.map_err(|error| errors::from_datafusion(error, text))?;
                let mut next = Locked { rows: Vec::new(), memory: vec![run.memory] };
                if let Some(before) = locked.take().and_then(Arc::into_inner) {
                    next.rows = before.rows;
                    next.memory.extend(before.memory);
                }
                next.rows.push(found);
                locked = Some(Arc::new(next));
            }
            Ok(locked)
        };
        guarded(&stop, deadline, work).await
    }
}

/// One run of a locking query.
struct LockRun<'a> {
    plan: &'a LockPlan,
    state: &'a Arc<SessionState>,
    txn: &'a Transaction,
    values: &'a [ScalarValue],
    waiting: Waiting<'a>,
    stop: &'a Arc<StopFlag>,
    /// Of the queries within this one.
    before: Option<Arc<Locked>>,
    /// Of the statement around.
    once: Weak<Once>,
    /// Rows that this run has locked and whose newest version is not the one that it saw: a table's
    /// number and the key that it saw, and where that row is now.
    changed: HashMap<(usize, Vec<u8>), Vec<u8>>,
    memory: MemoryReservation,
}

/// What came of locking a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Locked, as the query saw it.
    Seen,
    /// Locked, and newer than that.
    Newer,
    /// Passed over.
    None,
}

impl LockRun<'_> {
    async fn run(&mut self) -> DfResult<Vec<RecordBatch>> {
        let offset = self.count(self.plan.offset, "2201X", "OFFSET must not be negative")?.unwrap_or(0);
        let limit = self.count(self.plan.limit, "2201W", "LIMIT must not be negative")?;
        let mut left = limit.map_or(usize::MAX, |limit| limit.saturating_add(offset));
        if limit == Some(0) {
            return Ok(Vec::new());
        }
        let view = self.txn.statement(StatementKind::BulkWrite).map_err(bridge::storage)?;
        for locked in self.plan.tables.iter().filter(|locked| locked.lock.is_some()) {
            settle(&self.waiting, || self.txn.lock_rows(&locked.table)).await.map_err(bridge::failure)?;
        }
        let mut out = Vec::new();
        let instance = self.plan.source.instance(self.state, self.values).await?;
        let mut stream = instance.start(self.task(&view, None))?;
        while left > 0
            && let Some(batch) = stream.next().await
        {
            let batch = batch?;
            let keys = self.keys(&batch)?;
            let mut kept: Vec<u32> = Vec::new();
            for row in 0..batch.num_rows() {
                self.stop.check().map_err(bridge::failure)?;
                let mut keys: Vec<Option<Vec<u8>>> =
                    keys.iter().map(|keys| (!keys.is_null(row)).then(|| keys.value(row).to_vec())).collect();
                match self.lock(&mut keys).await? {
                    Outcome::None => continue,
                    Outcome::Seen => kept.push(row as u32),
                    Outcome::Newer => match self.again(&keys, &view).await? {
                        None => continue,
                        Some(newer) => {
                            self.keep(&batch, &mut kept, &mut out)?;
                            self.keep(&newer, &mut vec![0], &mut out)?;
                        }
                    },
                }
                left -= 1;
                if left == 0 {
                    break;
                }
            }
            self.keep(&batch, &mut kept, &mut out)?;
        }
        drop(stream);
        self.plan.source.give_back(instance);
        Ok(skipped(out, offset))
    }

    fn count(&self, count: Option<Count>, code: &str, negative: &str) -> DfResult<Option<usize>> {
        let count = match count {
            None => None,
            Some(Count::Given(count)) => count,
            Some(Count::Param(index)) => match self.values.get(index) {
                Some(value) => count_of(value).map_err(bridge::failure)?,
                None => return Err(bridge::failure(SqlError::internal("no value for LIMIT"))),
            },
        };
        match count.map(usize::try_from) {
            None => Ok(None),
            Some(Ok(count)) => Ok(Some(count)),
            Some(Err(_)) => Err(bridge::failure(SqlError::new(code, negative))),
        }
    }

    fn task(&self, view: &ReadView, target: Option<TargetRow>) -> Arc<datafusion::execution::TaskContext> {
        let (view, stop, locked, once) = (view.clone(), Arc::clone(self.stop), self.before.clone(), self.once.clone());
        task_context(self.state, Arc::new(StatementContext { view, stop, target, locked, once }))
    }

    /// The key columns of a batch.
    fn keys<'b>(&self, batch: &'b RecordBatch) -> DfResult<Vec<&'b BinaryViewArray>> {
        let kept = if self.plan.keyed { self.plan.tables.len() } else { 0 };
        let from = self.plan.schema.fields().len() - kept;
        let columns = batch.columns().get(from..).unwrap_or_default();
        let keys: Vec<&BinaryViewArray> =
            columns.iter().filter_map(|array| array.as_any().downcast_ref::<BinaryViewArray>()).collect();
        if keys.len() != self.plan.tables.len() {
            return Err(bridge::failure(SqlError::internal("rows to be locked without their keys")));
        }
        Ok(keys)
    }

    /// Appends rows of a batch, without their keys.
    fn keep(&mut self, batch: &RecordBatch, rows: &mut Vec<u32>, out: &mut Vec<RecordBatch>) -> DfResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let rows = UInt32Array::from(std::mem::take(rows));
        let columns = batch.columns()[..self.plan.schema.fields().len()].to_vec();
        let batch = RecordBatch::try_new(Arc::clone(&self.plan.schema), columns)?;
        let batch = take_record_batch(&batch, &rows)?;
        self.memory.try_grow(batch.get_array_memory_size())?;
        out.push(batch);
        Ok(())
    }

    /// Locks the rows that a row of the result is made of; a row that has another key now gets that.
    async fn lock(&mut self, keys: &mut [Option<Vec<u8>>]) -> DfResult<Outcome> {
        let mut outcome = Outcome::Seen;
        for (at, key) in keys.iter_mut().enumerate() {
            let (Some(key), Some(taking)) = (key, self.plan.tables[at].lock) else { continue };
            match self.lock_one(at, key, taking).await? {
                Outcome::None => return Ok(Outcome::None),
                Outcome::Newer => outcome = Outcome::Newer,
                Outcome::Seen => {}
            }
        }
        Ok(outcome)
    }

    async fn lock_one(&mut self, at: usize, key: &mut Vec<u8>, taking: Taking) -> DfResult<Outcome> {
        let table = &self.plan.tables[at].table;
        let lock = RowLock { txn: self.txn, table, waiting: &self.waiting, taking };
        let mut work = Locking { lock, key: key.clone() };
        let fate = settle_row(self.txn, table, key, &mut work).await.map_err(bridge::failure)?;
        let seen = std::mem::replace(key, work.key);
        Ok(match fate {
            Fate::Done => Outcome::Seen,
            Fate::DoneNewer => {
                self.changed.insert((at, seen), key.clone());
                Outcome::Newer
            }
            Fate::Left => Outcome::None,
            // Locked already, with another row of a join.
            Fate::Own => match self.changed.get(&(at, seen)) {
                Some(now) => {
                    key.clone_from(now);
                    Outcome::Newer
                }
                None => Outcome::Seen,
            },
        })
    }

    /// The query's row of the newest versions of locked rows, if it has one.
    async fn again(&self, keys: &[Option<Vec<u8>>], view: &ReadView) -> DfResult<Option<RecordBatch>> {
        let mut targets = Vec::with_capacity(keys.len());
        for (locked, key) in self.plan.tables.iter().zip(keys) {
            let table = &locked.table;
            let mut row = RowBuf::default();
            let found = match key {
                None => false,
                Some(key) if locked.lock.is_some() => {
                    self.txn.latest(table, key, &mut row).map_err(bridge::storage)?.is_some()
                }
                Some(key) => view.get(table, key, &mut row).map_err(bridge::storage)?,
            };
            if key.is_some() && !found {
                return Ok(None);
            }
            targets.push(TargetRow::new(table.id, found.then_some(row)));
        }
        let target = targets.pop().map(|last| TargetRow { others: targets, ..last });
        let instance = self.plan.source.instance(self.state, self.values).await?;
        let mut stream = instance.start(self.task(view, target))?;
        let mut rows: Option<RecordBatch> = None;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            if rows.is_some() || batch.num_rows() > 1 {
                // Something else in FROM gives several rows for these; which of them this one
                // was is not known.
                return Err(bridge::failure(
                    SqlError::new("40001", "could not serialize access due to concurrent update")
                        .with_hint("Retry the transaction."),
                ));
            }
            rows = Some(batch);
        }
        drop(stream);
        self.plan.source.give_back(instance);
        Ok(rows)
    }
}

/// Who locks rows of a table.
#[derive(Clone, Copy)]
pub(super) struct RowLock<'a> {
    pub txn: &'a Transaction,
    pub table: &'a Arc<Table>,
    pub waiting: &'a Waiting<'a>,
    pub taking: Taking,
}

impl RowLock<'_> {
    /// Locks a row, or finds out why it cannot be locked; `None`: somebody else has it, and is not to
    /// be waited for.
    pub(super) async fn attempt(&self, key: &[u8], seen: Seen) -> Result<Option<Change>, SqlError> {
        let Taking { mode, policy } = self.taking;
        loop {
            match self.txn.lock_row_as(self.table, key, seen, mode) {
                Ok(Attempt::Done(change)) => return Ok(Some(change)),
                Ok(Attempt::Wait(wait)) if policy == Policy::Wait => self.waiting.wait(wait).await?,
                Ok(Attempt::Wait(_)) => return taken(policy, self.table),
                // Whose holder waits for this transaction: only who would wait is in a deadlock.
                Err(error) if error.kind() == ErrorKind::DeadlockDetected && policy != Policy::Wait => {
                    return taken(policy, self.table);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A row of a result that is judged with the others that it is made of, once all are locked.
struct Locking<'a> {
    lock: RowLock<'a>,
    /// Where its newest version is.
    key: Vec<u8>,
}

impl RowWork for Locking<'_> {
    async fn attempt(&mut self, key: &[u8], seen: Seen) -> Result<Option<Change>, SqlError> {
        self.lock.attempt(key, seen).await
    }
    async fn judge(&mut self, newest: &RowBuf) -> Result<bool, SqlError> {
        self.key.clear();
        self.key.extend_from_slice(newest.raw().key);
        Ok(true)
    }
}

fn taken(policy: Policy, table: &Table) -> Result<Option<Change>, SqlError> {
    match policy {
        Policy::Nowait => {
            Err(SqlError::new("55P03", format!("could not obtain lock on row in relation \"{}\"", table.name)))
        }
        _ => Ok(None),
    }
}

/// All but the first `offset` rows.
fn skipped(batches: Vec<RecordBatch>, mut offset: usize) -> Vec<RecordBatch> {
    let mut out = Vec::with_capacity(batches.len());
    for batch in batches {
        let skip = offset.min(batch.num_rows());
        offset -= skip;
        if skip < batch.num_rows() {
            out.push(batch.slice(skip, batch.num_rows() - skip));
        }
    }
    out
}
