//! Running a subquery's plan for outer values.
//!
//! Invariants:
//! 1. A plan runs for one combination of outer values at a time, and its cell has those values
//!    from before it is started until its stream is dropped.
//! 2. What is about few rows of one table is read without the plan ([`DirectValue`]), which takes longer to begin than that does; the answer
//!    is the same.
//! 3. Nothing is kept from one execution of the statement to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use datafusion::arrow::array::{Array, ArrayRef, new_empty_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use parking_lot::Mutex;

use super::block;
use super::compare::{Answer, KeptRows};
use super::function::{Body, Kind, SubPlan};
use super::memo::Memo;
use super::outer::OuterCell;
use crate::exec::bridge;
use crate::exec::context::StatementContext;
use crate::exec::direct::{DirectValue, Touched};
use crate::exec::measured::{self, Measured};
use crate::exec::wait::out_of_time;
use crate::wire::SqlError;

/// What the plan around runs in.
#[derive(Debug, Default)]
pub(super) struct Current {
    task: Mutex<Option<(u64, Arc<TaskContext>)>>,
    /// Nothing is found without a plan: what that is to be is compared with it.
    by_plans: AtomicBool,
}

impl Current {
    pub(super) fn begin(&self, task: &Arc<TaskContext>) {
        static EXECUTIONS: AtomicU64 = AtomicU64::new(1);
        *self.task.lock() = Some((EXECUTIONS.fetch_add(1, Ordering::Relaxed), Arc::clone(task)));
    }
    pub(super) fn end(&self) {
        *self.task.lock() = None;
    }
    /// See the field.
    pub(super) fn by_plans(&self) {
        self.by_plans.store(true, Ordering::Relaxed);
    }
    fn get(&self) -> Result<(u64, Arc<TaskContext>)> {
        self.task.lock().clone().ok_or_else(|| exec_datafusion_err!("a subquery outside of a statement"))
    }
}

fn several_rows() -> DataFusionError {
    bridge::failure(SqlError::new("21000", "more than one row returned by a subquery used as an expression"))
}

/// A subquery with its physical plan.
#[derive(Debug)]
pub(super) struct Ready {
    id: usize,
    kind: Kind,
    returns: DataType,
    volatile: bool,
    body: Body,
    cell: Arc<OuterCell>,
    current: Arc<Current>,
    /// Rows are read without the plan, unless they are many.
    direct: Option<DirectValue>,
    ran: Ran,
    state: Mutex<State>,
}

/// What was run without the plan.
#[derive(Debug, Default)]
struct Ran {
    runs: AtomicU64,
    rows: AtomicU64,
    nanos: AtomicU64,
    /// Somebody wants to know how long it took.
    timed: AtomicBool,
}

#[derive(Debug)]
struct State {
    plan: Arc<dyn ExecutionPlan>,
    /// It was started since it was reset.
    used: bool,
    kept: Kept,
}

/// What is known in an execution of the statement.
#[derive(Debug, Default)]
struct Kept {
    execution: u64,
    memory: Option<MemoryReservation>,
    memo: Memo,
    /// The value of a subquery without arguments.
    value: Option<ScalarValue>,
    /// Its rows, if it has an operand and no other argument.
    rows: Option<KeptRows>,
}

impl Ready {
    pub(super) fn new(
        sub: &SubPlan,
        plan: Arc<dyn ExecutionPlan>,
        cell: Arc<OuterCell>,
        current: Arc<Current>,
        volatile: bool,
        direct: Option<DirectValue>,
    ) -> Result<Self> {
        if plan.schema().fields().is_empty() && sub.kind != Kind::Rows {
            return internal_err!("a subquery without columns");
        }
        let returns = sub.returns.data_type().clone();
        let state = Mutex::new(State { plan, used: false, kept: Kept::default() });
        let direct = match sub.kind {
            Kind::Value => direct,
            Kind::Exists => direct.filter(DirectValue::is_of_rows),
            Kind::Any(_) | Kind::All(_) | Kind::Rows => None,
        };
        let (kind, body, ran) = (sub.kind, sub.body, Ran::default());
        Ok(Self { id: sub.id, kind, returns, volatile, body, cell, current, direct, ran, state })
    }

    pub(super) fn id(&self) -> usize {
        self.id
    }
    pub(super) fn plan(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.state.lock().plan)
    }

    /// What was run without the plan, if that may be.
    pub(super) fn directly(&self) -> Option<Measured> {
        self.direct.as_ref()?;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let time = self.ran.timed.load(Ordering::Relaxed).then(|| of(&self.ran.nanos) as f64 / 1e6);
        Some(Measured { runs: of(&self.ran.runs), rows: of(&self.ran.rows), time: time.map(|all| (all, all)) })
    }

    /// Measures its plan from here on.
    pub(super) fn measure(&self, timed: bool) -> Result<()> {
        self.ran.timed.store(timed, Ordering::Relaxed);
        for count in [&self.ran.runs, &self.ran.rows, &self.ran.nanos] {
            count.store(0, Ordering::Relaxed);
        }
        let mut state = self.state.lock();
        state.plan = measured::measure(&state.plan, timed)?;
        Ok(())
    }

    /// Forgets all of an execution.
    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.kept = Kept::default();
        if state.used
            && let Ok(plan) = reset_plan_states(Arc::clone(&state.plan))
        {
            (state.plan, state.used) = (plan, false);
        }
        self.cell.set(Vec::new());
    }

    /// The values for `rows` rows of arguments.
    pub(super) fn evaluate(&self, args: &[ColumnarValue], rows: usize) -> Result<ColumnarValue> {
        if rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.returns)));
        }
        let (execution, task) = self.current.get()?;
        let state = &mut *self.state.lock();
        if state.kept.execution != execution {
            let memory = MemoryConsumer::new(format!("SubPlan {}", self.id)).register(task.memory_pool());
            state.kept = Kept { execution, memory: Some(memory), ..Kept::default() };
        }
        if args.is_empty()
            && let Some(value) = &state.kept.value
        {
            return Ok(ColumnarValue::Scalar(value.clone()));
        }
        // Of constants only one value is wanted.
        let constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) && !self.volatile;
        let one = constant || args.is_empty() && !self.body.each_row;
        let rows = if one { 1 } else { rows };
        let args: Vec<ArrayRef> = args.iter().map(|arg| arg.to_array(rows)).collect::<Result<_>>()?;
        let values = self.values(state, &args, rows, &task)?;
        match (values.len(), one) {
            (1, true) => Ok(ColumnarValue::Scalar(values.into_iter().next().unwrap_or(ScalarValue::Null))),
            _ => Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?)),
        }
    }

    fn values(
        &self,
        state: &mut State,
        args: &[ArrayRef],
        rows: usize,
        task: &Arc<TaskContext>,
    ) -> Result<Vec<ScalarValue>> {
        let memoized = !args.is_empty() && !self.volatile;
        let keys = if memoized { state.kept.memo.keys(args)? } else { None };
        let statement = StatementContext::of(task)?;
        let deadline = statement.stop.deadline();
        let work = async {
            let mut values = Vec::with_capacity(rows);
            for row in 0..rows {
                let key = keys.as_ref().map(|keys| keys.row(row));
                if let Some(key) = &key
                    && let Some(value) = state.kept.memo.get(key.as_ref())
                {
                    values.push(value.clone());
                    continue;
                }
                statement.stop.check_time().map_err(bridge::failure)?;
                let scalars =
                    args.iter().map(|arg| ScalarValue::try_from_array(arg, row)).collect::<Result<Vec<_>>>()?;
                let value = match self.body.strict && scalars.iter().any(ScalarValue::is_null) {
                    true => ScalarValue::try_from(&self.returns)?,
                    false => self.value(state, scalars, task).await?,
                };
                if let Some(key) = &key {
                    let Kept { memo, memory, .. } = &mut state.kept;
                    memo.put(key.as_ref(), &value, memory.as_ref());
                }
                values.push(value);
            }
            Ok(values)
        };
        let limit = async {
            match deadline {
                Some(deadline) => tokio::task::unconstrained(tokio::time::sleep_until(deadline)).await,
                None => std::future::pending().await,
            }
        };
        block::wait(async {
            tokio::select! {
                biased;
                done = work => done,
                error = statement.stop.stopped() => Err(bridge::failure(error)),
                () = limit => Err(bridge::failure(out_of_time())),
            }
        })
    }

    async fn value(
        &self,
        state: &mut State,
        mut args: Vec<ScalarValue>,
        task: &Arc<TaskContext>,
    ) -> Result<ScalarValue> {
        let operand = if self.kind.has_operand() { Some(args.remove(0)) } else { None };
        let uncorrelated = args.is_empty();
        self.cell.set(args);
        let value = match self.directly_found(task)? {
            Some(value) => value,
            None => self.planned_value(state, operand, uncorrelated, task).await?,
        };
        if uncorrelated && !self.kind.has_operand() && !self.body.each_row {
            state.kept.value = Some(value.clone());
        }
        Ok(value)
    }

    /// What the plan gives with the outer values that the cell has.
    async fn planned_value(
        &self,
        state: &mut State,
        operand: Option<ScalarValue>,
        uncorrelated: bool,
        task: &Arc<TaskContext>,
    ) -> Result<ScalarValue> {
        Ok(match (self.kind, operand) {
            (Kind::Any(_) | Kind::All(_), Some(operand)) if uncorrelated => {
                if state.kept.rows.is_none() {
                    self.keep_rows(state, task).await?;
                }
                match &state.kept.rows {
                    Some(rows) => rows.answer(self.kind, &operand)?,
                    None => return internal_err!("rows that are not there"),
                }
            }
            (Kind::Any(op) | Kind::All(op), Some(operand)) => {
                let mut rows = self.begin(state, task)?;
                let mut answer = Answer::new(self.kind);
                while !answer.is_decided()
                    && let Some(batch) = rows.next().await.transpose()?
                {
                    answer.add(&operand, op, batch.column(0))?;
                }
                answer.value()
            }
            (Kind::Exists, _) => {
                let mut rows = self.begin(state, task)?;
                let mut some = false;
                while !some && let Some(batch) = rows.next().await.transpose()? {
                    some = batch.num_rows() > 0;
                }
                ScalarValue::Boolean(Some(some))
            }
            (Kind::Value, _) => {
                let mut rows = self.begin(state, task)?;
                let mut value: Option<ScalarValue> = None;
                while let Some(batch) = rows.next().await.transpose()? {
                    if batch.num_rows() == 0 {
                        continue;
                    }
                    if value.is_some() || batch.num_rows() > 1 {
                        return Err(several_rows());
                    }
                    value = Some(ScalarValue::try_from_array(batch.column(0), 0)?);
                }
                match value {
                    Some(value) if value.data_type() == self.returns => value,
                    Some(value) => value.cast_to(&self.returns)?,
                    None => ScalarValue::try_from(&self.returns)?,
                }
            }
            (Kind::Any(_) | Kind::All(_), None) => return internal_err!("a comparison without an operand"),
            (Kind::Rows, _) => return internal_err!("rows as a value"),
        })
    }

    /// Starts the plan with outer values.
    fn start(
        &self,
        state: &mut State,
        outer: Vec<ScalarValue>,
        task: &Arc<TaskContext>,
    ) -> Result<datafusion::execution::SendableRecordBatchStream> {
        self.cell.set(outer);
        self.begin(state, task)
    }

    /// The same with the values that the cell has.
    fn begin(
        &self,
        state: &mut State,
        task: &Arc<TaskContext>,
    ) -> Result<datafusion::execution::SendableRecordBatchStream> {
        if state.used {
            state.plan = reset_plan_states(Arc::clone(&state.plan))?;
        }
        state.used = true;
        execute_stream(Arc::clone(&state.plan), Arc::clone(task))
    }

    /// What is found without the plan, with the outer values that the cell has; `None`: that is the plan's to find.
    fn directly_found(&self, task: &Arc<TaskContext>) -> Result<Option<ScalarValue>> {
        let Some(direct) = self.direct.as_ref().filter(|_| !self.current.by_plans.load(Ordering::Relaxed)) else {
            return Ok(None);
        };
        let begun = self.ran.timed.load(Ordering::Relaxed).then(Instant::now);
        let statement = StatementContext::of(task)?;
        let (view, stop, mut touched) = (&statement.view, &statement.stop, Touched::default());
        let (value, rows) = if self.kind == Kind::Exists {
            let Some(some) = direct.has_row(view, stop, &mut touched).map_err(bridge::failure)? else {
                return Ok(None);
            };
            (ScalarValue::Boolean(Some(some)), usize::from(some))
        } else {
            let Some(mut values) = direct.values(view, stop, &mut touched).map_err(bridge::failure)? else {
                return Ok(None);
            };
            let (value, rows) = (values.pop(), values.len());
            match value {
                Some(_) if rows > 0 => return Err(several_rows()),
                Some(value) if value.data_type() != self.returns => (value.cast_to(&self.returns)?, 1),
                Some(value) => (value, 1),
                None => (ScalarValue::try_from(&self.returns)?, 0),
            }
        };
        self.ran.runs.fetch_add(1, Ordering::Relaxed);
        self.ran.rows.fetch_add(rows as u64, Ordering::Relaxed);
        if let Some(begun) = begun {
            let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.ran.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
        Ok(Some(value))
    }

    /// Starts the plan with outer values, for the only one who does: a LATERAL item.
    pub(super) fn start_alone(
        &self,
        outer: Vec<ScalarValue>,
        task: &Arc<TaskContext>,
    ) -> Result<datafusion::execution::SendableRecordBatchStream> {
        self.start(&mut self.state.lock(), outer, task)
    }

    async fn keep_rows(&self, state: &mut State, task: &Arc<TaskContext>) -> Result<()> {
        let mut stream = self.start(state, Vec::new(), task)?;
        let mut parts: Vec<ArrayRef> = Vec::new();
        let grow = |state: &State, bytes: usize| match &state.kept.memory {
            Some(memory) => memory.try_grow(bytes),
            None => Ok(()),
        };
        let mut bytes = 0;
        while let Some(batch) = stream.next().await.transpose()? {
            let column = batch.column(0);
            // Twice: until they are together.
            grow(state, 2 * column.get_array_memory_size())?;
            bytes += 2 * column.get_array_memory_size();
            parts.push(Arc::clone(column));
        }
        drop(stream);
        let rows = match parts.as_slice() {
            [] => new_empty_array(state.plan.schema().field(0).data_type()),
            [one] => Arc::clone(one),
            many => concat(&many.iter().map(|part| part.as_ref() as &dyn Array).collect::<Vec<_>>())?,
        };
        drop(parts);
        let rows = KeptRows::new(self.kind, rows)?;
        grow(state, rows.bytes())?;
        if let Some(memory) = &state.kept.memory {
            memory.shrink(bytes);
        }
        state.kept.rows = Some(rows);
        Ok(())
    }
}
