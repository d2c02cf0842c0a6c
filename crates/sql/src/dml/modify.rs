//! INSERT, UPDATE and DELETE: a planned source feeding the engine's row operators.
//!
//! READ COMMITTED: when the newest committed version of a row is not the one that the
//! statement saw, the source runs again with that version alone in place of the target, and
//! its answer (new values, or none if the row no longer qualifies) is applied instead.
//! (A row that has another primary key now counts as gone: it cannot be told from one that was deleted,
//! and a search of everything anew would also find rows that are new altogether.)

use std::sync::Arc;

use datafusion::arrow::array::{Array, BinaryArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::datatypes::{Field as ArrowField, Schema};
use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use futures::StreamExt;
use resurgam_engine::{
    Attempt, Change, DatumRef, ErrorKind, ReadView, RowBuf, Seen, StatementKind, Table, Transaction,
};

use super::plan::{Conflict, ConflictUpdate, Op, Returning, WritePlan};
use crate::bridge;
use crate::context::{StatementContext, StopFlag, TargetRow};
use crate::foreign::{Deferred, Enforcer, Help};
use crate::locking::Locked;
use crate::pg::arrow::{DatumColumn, assignment_cast};
use crate::pg::context::PgContext;
use crate::pg::datetime::Zone;
use crate::pg::types;
use crate::planner::{Names, task_context};
use crate::wait::{Waiting, settle};
use crate::wire::SqlError;

/// Rows that are written before others get their turn.
pub(crate) const ROWS_PER_TURN: usize = 256;

/// What a write did.
pub(crate) struct Written {
    pub rows: u64,
    /// Batches for RETURNING, already evaluated.
    pub returned: Vec<RecordBatch>,
    /// Looks after foreign keys, if any.
    foreign: Option<Enforcer>,
}

impl Written {
    fn inserted(&mut self, row: &[DatumRef<'_>]) -> DfResult<()> {
        match &mut self.foreign {
            Some(foreign) => foreign.inserted(row).map_err(bridge::failure),
            None => Ok(()),
        }
    }

    /// Room for a row as it was, if anybody asks for it.
    fn note<'r>(&self, old: &'r mut RowBuf) -> Option<&'r mut RowBuf> {
        self.foreign.is_some().then_some(old)
    }
}

/// One execution of a write.
pub(crate) struct WriteRun<'a> {
    pub plan: &'a WritePlan,
    pub state: &'a SessionState,
    pub txn: &'a Transaction,
    pub values: &'a [ScalarValue],
    pub waiting: Waiting<'a>,
    pub stop: &'a Arc<StopFlag>,
    pub zone: Zone,
    pub locked: Option<Arc<Locked>>,
    pub cx: &'a Arc<dyn PgContext>,
    pub deferred: &'a Arc<parking_lot::Mutex<Deferred>>,
}

type DfResult<T> = datafusion::common::Result<T>;

/// The table's columns of a source batch, brought to their types by the rules of assignment.
fn typed(table: &Table, batch: &RecordBatch, zone: &Zone) -> DfResult<RecordBatch> {
    let mut fields = Vec::with_capacity(table.columns.len());
    let mut arrays = Vec::with_capacity(table.columns.len());
    for (column, array) in table.columns.iter().zip(batch.columns()) {
        arrays.push(assignment_cast(array, &column.ty, zone).map_err(|mut error| {
            if error.column.is_none() {
                error.column = Some(column.name.clone());
            }
            bridge::failure(error)
        })?);
        fields.push(types::arrow_field(&column.name, &column.ty, true));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

fn readers<'a>(table: &Table, batch: &'a RecordBatch) -> DfResult<Vec<DatumColumn<'a>>> {
    table
        .columns
        .iter()
        .zip(batch.columns())
        .map(|(column, array)| DatumColumn::new(array.as_ref(), &column.ty).map_err(bridge::failure))
        .collect()
}

fn datums<'a>(readers: &[DatumColumn<'a>], row: usize) -> DfResult<Vec<DatumRef<'a>>> {
    readers.iter().map(|reader| reader.get(row).map_err(bridge::failure)).collect()
}

impl WriteRun<'_> {
    /// Runs the statement to its end.
    pub(crate) async fn run(&self) -> DfResult<Written> {
        let view = self.txn.statement(StatementKind::BulkWrite).map_err(bridge::storage)?;
        if let Some(returning) = &self.plan.returning {
            returning.cell.set(self.values.to_vec());
        }
        if let Some(update) = self.plan.conflict.as_ref().and_then(|c| c.update.as_ref()) {
            update.cell.set(self.values.to_vec());
        }
        let mut out = Written { rows: 0, returned: Vec::new(), foreign: None };
        if !self.plan.references.is_empty() {
            let begun = Enforcer::begin(self.txn, &self.plan.references, self.deferred, &self.waiting).await;
            out.foreign = Some(begun.map_err(bridge::failure)?);
        }
        let instance = self.plan.source.instance(self.state, self.values).await?;
        let mut stream = instance.start(self.task(&view, None))?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            match self.plan.op {
                Op::Insert => self.insert(&batch, &mut out).await?,
                Op::Update | Op::Delete => self.change(&batch, &view, &mut out).await?,
            }
            self.stop.check().map_err(bridge::failure)?;
        }
        drop(stream);
        self.plan.source.give_back(instance);
        if let Some(foreign) = out.foreign.as_mut().filter(|foreign| !foreign.is_done()) {
            let names = Names { state: self.state, txn: self.txn, cx: self.cx };
            let help = Help { names, waiting: self.waiting, zone: self.zone };
            foreign.finish(&help).await.map_err(bridge::failure)?;
        }
        Ok(out)
    }

    fn task(&self, view: &ReadView, target: Option<TargetRow>) -> Arc<datafusion::execution::TaskContext> {
        let (stop, locked) = (Arc::clone(self.stop), self.locked.clone());
        let context = StatementContext { view: view.clone(), stop, target, locked };
        task_context(self.state, Arc::new(context))
    }

    /// Now and then between two rows: others get their turn, a timeout and a cancel are noticed.
    async fn breathe(&self, row: usize) -> DfResult<()> {
        if row % ROWS_PER_TURN == ROWS_PER_TURN - 1 {
            self.stop.check().map_err(bridge::failure)?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn settle<T>(&self, attempt: impl FnMut() -> resurgam_base::Result<Attempt<T>>) -> DfResult<T> {
        settle(&self.waiting, attempt).await.map_err(bridge::failure)
    }

    async fn insert(&self, batch: &RecordBatch, out: &mut Written) -> DfResult<()> {
        let table = &self.plan.table;
        let batch = &typed(table, batch, &self.zone)?;
        let readers = readers(table, batch)?;
        let broken = self.plan.checks.broken(batch)?;
        let mut kept: Vec<u32> = Vec::new();
        let mut bulk = self.txn.bulk_insert(table);
        for row in 0..batch.num_rows() {
            self.breathe(row).await?;
            let datums = datums(&readers, row)?;
            self.plan.checks.refuse(&broken, row, table, &datums)?;
            match &self.plan.conflict {
                None => {
                    let result = match bulk.push(&datums) {
                        Ok(Attempt::Done(())) => Ok(()),
                        Ok(Attempt::Wait(wait)) => {
                            self.waiting.wait(wait).await.map_err(bridge::failure)?;
                            self.settle(|| bulk.push(&datums)).await
                        }
                        Err(error) => Err(bridge::row_error(error, table, &datums)),
                    };
                    result?;
                    out.inserted(&datums)?;
                    out.rows += 1;
                    if self.plan.returning.is_some() {
                        kept.push(row as u32);
                    }
                }
                Some(conflict) => {
                    if let Some(changed) = self.upsert(conflict, batch, row, &datums, out).await? {
                        out.rows += 1;
                        match changed {
                            None => kept.push(row as u32),
                            Some(updated) => {
                                if let Some(returning) = &self.plan.returning {
                                    self.flush_returning(returning, batch, &mut kept, out)?;
                                    out.returned.push(returning.evaluate(&updated)?);
                                }
                            }
                        }
                    }
                }
            }
        }
        bulk.finish();
        if let Some(returning) = &self.plan.returning {
            self.flush_returning(returning, batch, &mut kept, out)?;
        }
        Ok(())
    }

    fn flush_returning(
        &self,
        returning: &Returning,
        batch: &RecordBatch,
        kept: &mut Vec<u32>,
        out: &mut Written,
    ) -> DfResult<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let rows = datafusion::arrow::compute::take_record_batch(batch, &UInt32Array::from(std::mem::take(kept)))?;
        out.returned.push(returning.evaluate(&rows)?);
        Ok(())
    }

    /// Inserts a row or handles its conflict. `None`: nothing done; `Some(None)`: inserted;
    /// `Some(Some(row))`: updated to that row.
    async fn upsert(
        &self,
        conflict: &Conflict,
        batch: &RecordBatch,
        row: usize,
        datums: &[DatumRef<'_>],
        out: &mut Written,
    ) -> DfResult<Option<Option<RecordBatch>>> {
        let table = &self.plan.table;
        // The newest rows are of the newest definition.
        self.settle(|| self.txn.lock_rows(table)).await?;
        loop {
            if let Some((key, existing, seen)) = conflicting(self.txn, table, conflict, datums)? {
                let Some(update) = &conflict.update else { return Ok(None) };
                // Not a statement of its own: rows that this one wrote must stay known as such.
                let view = self.txn.view().map_err(bridge::storage)?;
                let Some(updated) = update.evaluate(table, &view, &existing, batch, row)? else { return Ok(None) };
                let updated = typed(table, &updated, &self.zone)?;
                let readers = readers(table, &updated)?;
                let new = self::datums(&readers, 0)?;
                let broken = self.plan.checks.broken(&updated)?;
                self.plan.checks.refuse(&broken, 0, table, &new)?;
                let mut old = RowBuf::default();
                match self.settle(|| self.txn.update_noting(table, &key, seen, &new, out.note(&mut old))).await? {
                    Change::Done => {
                        self.updated(out, &old, &new).await?;
                        return Ok(Some(Some(updated)));
                    }
                    Change::SelfModified => {
                        return Err(bridge::failure(
                            SqlError::new("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time")
                                .with_hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."),
                        ));
                    }
                    Change::Changed | Change::Gone => continue,
                }
            }
            match self.settle_insert(datums).await {
                Ok(()) => {
                    out.inserted(datums)?;
                    return Ok(Some(None));
                }
                Err(error) if error.kind() == ErrorKind::UniqueViolation => {
                    // Someone was faster, or another constraint is in the way.
                    if conflicting(self.txn, table, conflict, datums)?.is_none() {
                        return Err(bridge::row_error(error, table, datums));
                    }
                }
                Err(error) => return Err(bridge::row_error(error, table, datums)),
            }
        }
    }

    async fn settle_insert(&self, datums: &[DatumRef<'_>]) -> resurgam_base::Result<()> {
        loop {
            match self.txn.insert(&self.plan.table, datums)? {
                Attempt::Done(()) => return Ok(()),
                Attempt::Wait(wait) => self
                    .waiting
                    .wait(wait)
                    .await
                    .map_err(|error| resurgam_base::Error::new(ErrorKind::Cancelled, error.message))?,
            }
        }
    }

    async fn change(&self, batch: &RecordBatch, view: &ReadView, out: &mut Written) -> DfResult<()> {
        let table = &self.plan.table;
        let keys = Arc::clone(batch.columns().last().ok_or_else(|| bridge::failure(SqlError::internal("no columns")))?);
        let keys = Some(&keys)
            .and_then(|array| array.as_any().downcast_ref::<BinaryArray>())
            .ok_or_else(|| bridge::failure(SqlError::internal("a write without keys")))?;
        let update = self.plan.op == Op::Update;
        let typed_batch = if update { typed(table, batch, &self.zone)? } else { batch.clone() };
        let readers = if update { readers(table, &typed_batch)? } else { Vec::new() };
        let batch = &typed_batch;
        let broken = if update { self.plan.checks.broken(batch)? } else { Default::default() };
        let mut kept: Vec<u32> = Vec::new();
        for row in 0..batch.num_rows() {
            self.breathe(row).await?;
            if keys.is_null(row) {
                continue;
            }
            let key = keys.value(row);
            let change = match self.plan.op {
                Op::Update => {
                    let datums = datums(&readers, row)?;
                    self.plan.checks.refuse(&broken, row, table, &datums)?;
                    self.update(key, Seen::Snapshot, &datums, out).await?
                }
                _ => self.delete(key, Seen::Snapshot, out).await?,
            };
            match change {
                Change::Done => {
                    out.rows += 1;
                    if self.plan.returning.is_some() {
                        kept.push(row as u32);
                    }
                }
                Change::Changed => {
                    if let Some(rechecked) = self.recheck(key, view, out).await? {
                        out.rows += 1;
                        if let Some(returning) = &self.plan.returning {
                            self.flush_returning(returning, batch, &mut kept, out)?;
                            out.returned.push(returning.evaluate(&rechecked)?);
                        }
                    }
                }
                Change::Gone | Change::SelfModified => {}
            }
        }
        if let Some(returning) = &self.plan.returning {
            self.flush_returning(returning, batch, &mut kept, out)?;
        }
        Ok(())
    }

    async fn update(&self, key: &[u8], seen: Seen, new: &[DatumRef<'_>], out: &mut Written) -> DfResult<Change> {
        let table = &self.plan.table;
        let mut old = RowBuf::default();
        let change = settle(&self.waiting, || self.txn.update_noting(table, key, seen, new, out.note(&mut old)))
            .await
            .map_err(|error| bridge::row_failure(error, table, new))?;
        if change == Change::Done {
            self.updated(out, &old, new).await?;
        }
        Ok(change)
    }

    async fn updated(&self, out: &mut Written, old: &RowBuf, new: &[DatumRef<'_>]) -> DfResult<()> {
        match &mut out.foreign {
            Some(foreign) => foreign.updated(old, new, &self.waiting).await.map_err(bridge::failure),
            None => Ok(()),
        }
    }

    async fn delete(&self, key: &[u8], seen: Seen, out: &mut Written) -> DfResult<Change> {
        let mut old = RowBuf::default();
        let change = self.settle(|| self.txn.delete_noting(&self.plan.table, key, seen, out.note(&mut old))).await?;
        if change == Change::Done
            && let Some(foreign) = &mut out.foreign
        {
            foreign.deleted(&old, &self.waiting).await.map_err(bridge::failure)?;
        }
        Ok(change)
    }

    /// Applies the statement to the newest version of one row; the source's batch if it qualified.
    async fn recheck(&self, key: &[u8], view: &ReadView, out: &mut Written) -> DfResult<Option<RecordBatch>> {
        let table = &self.plan.table;
        loop {
            let mut row = RowBuf::default();
            let Some(seen) = self.txn.latest(table, key, &mut row).map_err(bridge::storage)? else { return Ok(None) };
            let target = TargetRow::new(table.id, Some(row));
            let instance = self.plan.source.instance(self.state, self.values).await?;
            let mut stream = instance.start(self.task(view, Some(target)))?;
            let mut found = None;
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                if batch.num_rows() > 0 {
                    found = Some(batch.slice(0, 1));
                    break;
                }
            }
            drop(stream);
            self.plan.source.give_back(instance);
            let Some(batch) = found else { return Ok(None) };
            let batch = if self.plan.op == Op::Update { typed(table, &batch, &self.zone)? } else { batch };
            let change = match self.plan.op {
                Op::Update => {
                    let readers = readers(table, &batch)?;
                    let datums = datums(&readers, 0)?;
                    self.plan.checks.refuse(&self.plan.checks.broken(&batch)?, 0, table, &datums)?;
                    self.update(key, seen, &datums, out).await?
                }
                _ => self.delete(key, seen, out).await?,
            };
            match change {
                Change::Done => return Ok(Some(batch)),
                Change::Changed => {}
                Change::Gone | Change::SelfModified => return Ok(None),
            }
        }
    }
}

/// The newest row that has one of the handled keys in common with `datums`.
pub(crate) fn conflicting(
    txn: &Transaction,
    table: &Arc<Table>,
    conflict: &Conflict,
    datums: &[DatumRef<'_>],
) -> DfResult<Option<(Vec<u8>, RowBuf, Seen)>> {
    let mut row = RowBuf::default();
    for key in &conflict.keys {
        let columns = key.map_or(&table.primary_key, |i| &table.indexes[i].columns);
        let values: Vec<DatumRef<'_>> = columns.iter().map(|&c| datums[c]).collect();
        if values.iter().any(|v| matches!(v, DatumRef::Null)) {
            continue;
        }
        let mut clustered = Vec::new();
        match key {
            None => table.encode_key(&values, &mut clustered).map_err(bridge::storage)?,
            Some(i) => {
                let mut encoded = Vec::new();
                table.encode_index_key(*i, &values, &mut encoded).map_err(bridge::storage)?;
                // What stands in the way is met as writers meet it, durable or not, and their own.
                let view = txn.view().map_err(bridge::storage)?.newest().with_own_writes();
                if !view.get_by_index(table, &table.indexes[*i], &encoded, &mut row).map_err(bridge::storage)? {
                    continue;
                }
                clustered.extend_from_slice(row.raw().key);
            }
        }
        if let Some(seen) = txn.latest(table, &clustered, &mut row).map_err(bridge::storage)? {
            return Ok(Some((clustered, row, seen)));
        }
    }
    Ok(None)
}

impl Returning {
    fn evaluate(&self, rows: &RecordBatch) -> DfResult<RecordBatch> {
        let columns = rows.columns()[..self.input.fields().len()].to_vec();
        let fields: Vec<_> = self.input.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let input = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        let arrays = self
            .exprs
            .iter()
            .map(|expr| expr.evaluate(&input)?.into_array(input.num_rows()))
            .collect::<DfResult<Vec<_>>>()?;
        let fields: Vec<_> = self
            .schema
            .fields()
            .iter()
            .zip(&arrays)
            .map(|(f, array)| f.as_ref().clone().with_nullable(true).with_data_type(array.data_type().clone()))
            .collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

impl ConflictUpdate {
    /// The row after the update; `None` if the condition does not hold.
    fn evaluate(
        &self,
        table: &Arc<Table>,
        view: &ReadView,
        existing: &RowBuf,
        batch: &RecordBatch,
        row: usize,
    ) -> DfResult<Option<RecordBatch>> {
        let mut columns = bridge::RowColumns::new(table, view);
        let mut arrays = Vec::with_capacity(table.columns.len() * 2);
        for column in 0..table.columns.len() {
            arrays.push(columns.array(column, std::iter::once(existing.raw()))?);
        }
        let mut result = arrays.clone();
        let proposed = batch.slice(row, 1);
        arrays.extend(proposed.columns().iter().cloned());
        let fields: Vec<_> = self.input.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let input = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        if let Some(condition) = &self.condition {
            let holds = condition.evaluate(&input)?.into_array(1)?;
            if ScalarValue::try_from_array(&holds, 0)? != ScalarValue::Boolean(Some(true)) {
                return Ok(None);
            }
        }
        for (column, expr) in &self.set {
            result[*column] = expr.evaluate(&input)?.into_array(1)?;
        }
        let fields: Vec<_> = table
            .columns
            .iter()
            .zip(&result)
            .map(|(column, array)| ArrowField::new(&column.name, array.data_type().clone(), true))
            .collect();
        Ok(Some(RecordBatch::try_new(Arc::new(Schema::new(fields)), result)?))
    }
}
