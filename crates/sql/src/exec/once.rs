//! WITH queries that are computed once for a statement (PostgreSQL's CTE Scan).
//!
//! Each has a *slot* of the statement's [`Once`]: the rows that it gave so far, and the plan that gives the next ones, which is
//! begun when somebody first reads. Whoever names the query has a scan of the slot ([`once_rows`]) in its place, and as many
//! may read as like, each at its own pace: who is at the end of what is there lets the plan go on. One that writes is run by
//! the statement itself, which puts the rows of its RETURNING here.
//!
//! Invariants:
//! 1. A plan is begun at most once in an execution of the statement; all who read see the same rows in the same order.
//! 2. It reads through the view of the statement, whoever asks first: never in place of a row that is judged anew.
//! 3. What is kept is reserved; beyond `work_mem` it goes to temporary files, one after another, and is read from there.
//! 4. An [`Once`] is held by what executes the statement; what runs in plans refers to it weakly, since it has such plans itself.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableSource, TableType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::{ExecutionPlan, SpillManager};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

use crate::computed::ComputedTable;
use crate::dml::WritePlan;
use crate::exec::compact::owned;
use crate::exec::context::{StatementContext, task_with};
use crate::exec::{bridge, weight};
use crate::plan::planner::{Instance, QueryPlan};
use crate::wire::SqlError;

/// The WITH queries of one statement that are computed once, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct OncePlans {
    pub plans: Vec<OncePlan>,
    /// Those that the statement itself names.
    pub read: BTreeSet<usize>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct OncePlan {
    pub name: String,
    pub does: OnceDoes,
    /// Its columns, `c0` and so on; none of one that writes and has no RETURNING.
    pub schema: SchemaRef,
    /// Those that it names, all of which are before it.
    pub reads: BTreeSet<usize>,
}

/// What it does.
#[derive(Debug)]
pub(crate) enum OnceDoes {
    Read(Box<QueryPlan>),
    Write(Box<WritePlan>),
}

impl OncePlan {
    /// How it writes, if it does.
    pub(crate) fn write(&self) -> Option<&WritePlan> {
        match &self.does {
            OnceDoes::Read(_) => None,
            OnceDoes::Write(write) => Some(write),
        }
    }
}

impl OncePlans {
    /// Whether any of them writes.
    pub(crate) fn any_writes(&self) -> bool {
        self.plans.iter().any(|plan| plan.write().is_some())
    }

    /// The numbers of those that write, in the order in which they are run: those before the statement that it asks for, by
    /// whatever way, and those after it. Each comes behind those that it asks for itself, the others in PostgreSQL's order.
    pub(crate) fn order(&self) -> (Vec<usize>, Vec<usize>) {
        let mut done = BTreeSet::new();
        let mut before = Vec::new();
        for number in &self.read {
            self.ask(*number, &mut done, &mut before);
        }
        let mut after = Vec::new();
        for number in (0..self.plans.len()).rev().filter(|number| self.plans[*number].write().is_some()) {
            self.ask(number, &mut done, &mut after);
        }
        (before, after)
    }

    fn ask(&self, number: usize, done: &mut BTreeSet<usize>, order: &mut Vec<usize>) {
        let Some(plan) = self.plans.get(number).filter(|_| done.insert(number)) else { return };
        for other in &plan.reads {
            self.ask(*other, done, order);
        }
        if plan.write().is_some() {
            order.push(number);
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Once {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    schema: SchemaRef,
    bell: Arc<Bell>,
    state: Mutex<State>,
}

/// What wakes whoever waits for rows.
#[derive(Debug, Default)]
struct Bell {
    waiting: Mutex<Vec<Waker>>,
    /// Somebody came while another one let the plan go on, and was told to wait.
    turned_away: AtomicBool,
}

impl Bell {
    fn add(&self, waker: &Waker) {
        let mut all = self.waiting.lock();
        if !all.iter().any(|known| known.will_wake(waker)) {
            all.push(waker.clone());
        }
    }
    fn ring(&self) {
        let all = std::mem::take(&mut *self.waiting.lock());
        all.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

struct State {
    source: Source,
    kept: Kept,
    instance: Option<Instance>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("State")
    }
}

/// Where the next rows come from.
enum Source {
    /// From one that writes, and was not run.
    Unwritten,
    /// From `instance`, when it is begun.
    Waiting,
    Running(SendableRecordBatchStream),
    Done,
    Failed(Arc<DataFusionError>),
}

/// The rows that there are.
#[derive(Default)]
struct Kept {
    /// Of the first ones, how many batches each has.
    files: Vec<(Arc<dyn SpillFile>, usize)>,
    spilled: usize,
    batches: Vec<RecordBatch>,
    memory: Option<MemoryReservation>,
    spills: Option<SpillManager>,
}

impl Kept {
    fn push(&mut self, batch: RecordBatch, task: &TaskContext) -> Result<()> {
        let memory = self
            .memory
            .get_or_insert_with(|| MemoryConsumer::new("WITH query").with_can_spill(true).register(task.memory_pool()));
        let bytes = weight::kept(&batch);
        if memory.try_grow(bytes).is_err() {
            self.spill(&batch, task)?;
            if let Some(memory) = &self.memory {
                memory.try_grow(bytes)?;
            }
        }
        self.batches.push(batch);
        Ok(())
    }

    /// Writes what is in memory to a file.
    fn spill(&mut self, like: &RecordBatch, task: &TaskContext) -> Result<()> {
        let spills = self.spills.get_or_insert_with(|| {
            let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
            SpillManager::new(task.runtime_env(), metrics, like.schema())
        });
        let batches = std::mem::take(&mut self.batches);
        if let Some(file) = spills.spill_record_batch_and_finish(&batches, "WITH query")? {
            self.files.push((file, batches.len()));
            self.spilled += batches.len();
        }
        if let Some(memory) = &self.memory {
            memory.free();
        }
        Ok(())
    }

    /// The file that has the batch of that number, and how many of its batches come before that.
    fn file_of(&self, at: usize) -> Option<(Arc<dyn SpillFile>, usize)> {
        let mut first = 0;
        for (file, count) in &self.files {
            if at < first + count {
                return Some((Arc::clone(file), at - first));
            }
            first += count;
        }
        None
    }
}

/// A batch that somebody asks for.
enum Found {
    Batch(RecordBatch),
    /// It is in a file, behind so many others.
    Spilled(SendableRecordBatchStream, usize),
}

impl State {
    fn poll(
        &mut self,
        at: usize,
        schema: &SchemaRef,
        task: &TaskContext,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Found>>> {
        loop {
            if at < self.kept.spilled {
                let (Some((file, skip)), Some(spills)) = (self.kept.file_of(at), &self.kept.spills) else {
                    return Poll::Ready(Some(Err(bridge::failure(SqlError::internal(
                        "rows of WITH that are in no file",
                    )))));
                };
                return Poll::Ready(Some(
                    spills.read_spill_as_stream(file, None).map(|rows| Found::Spilled(rows, skip)),
                ));
            }
            if let Some(batch) = self.kept.batches.get(at - self.kept.spilled) {
                return Poll::Ready(Some(Ok(Found::Batch(batch.clone()))));
            }
            match self.next(schema, task, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(None),
                Poll::Ready(Err(error)) => {
                    let error = Arc::new(error);
                    self.source = Source::Failed(Arc::clone(&error));
                    return Poll::Ready(Some(Err(DataFusionError::Shared(error))));
                }
            }
        }
    }

    /// Lets the plan give one more batch; false at its end.
    fn next(&mut self, schema: &SchemaRef, task: &TaskContext, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        match &mut self.source {
            Source::Unwritten => {
                let text = "a WITH query that writes cannot be read here";
                Poll::Ready(Err(bridge::failure(SqlError::unsupported(text))))
            }
            Source::Done => Poll::Ready(Ok(false)),
            Source::Failed(error) => Poll::Ready(Err(DataFusionError::Shared(Arc::clone(error)))),
            Source::Waiting => {
                let Some(instance) = &self.instance else {
                    return Poll::Ready(Err(bridge::failure(SqlError::internal("a WITH query without a plan"))));
                };
                self.source = Source::Running(instance.start(apart(task)?)?);
                Poll::Ready(Ok(true))
            }
            Source::Running(stream) => match ready!(stream.poll_next_unpin(cx)) {
                Some(batch) => {
                    let batch = batch?;
                    if batch.num_rows() > 0 {
                        let batch = RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec())?;
                        self.kept.push(batch, task)?;
                    }
                    Poll::Ready(Ok(true))
                }
                None => {
                    self.source = Source::Done;
                    Poll::Ready(Ok(false))
                }
            },
        }
    }
}

/// The task of a plan of WITH: as that of who asks, without what is only for that.
fn apart(task: &TaskContext) -> Result<Arc<TaskContext>> {
    let around = StatementContext::of(task)?;
    let statement = StatementContext {
        view: around.view.clone(),
        stop: Arc::clone(&around.stop),
        target: None,
        locked: around.locked.clone(),
        once: around.once.clone(),
    };
    Ok(task_with(task.session_config().clone(), Arc::new(statement), task.runtime_env()))
}

impl Once {
    /// For one execution with these values; `None` if there is nothing that is computed once.
    ///
    /// # Errors
    /// Those of making physical plans.
    pub(crate) async fn new(
        plans: &OncePlans,
        state: &SessionState,
        values: &[ScalarValue],
    ) -> Result<Option<Arc<Self>>> {
        if plans.plans.is_empty() {
            return Ok(None);
        }
        let mut slots = Vec::with_capacity(plans.plans.len());
        for plan in &plans.plans {
            let (source, instance) = match &plan.does {
                OnceDoes::Read(query) => (Source::Waiting, Some(query.instance(state, values).await?)),
                OnceDoes::Write(_) => (Source::Unwritten, None),
            };
            let state = Mutex::new(State { source, instance, kept: Kept::default() });
            slots.push(Slot { schema: Arc::clone(&plan.schema), bell: Arc::default(), state });
        }
        Ok(Some(Arc::new(Self { slots })))
    }

    /// The one of that number has written: these are the rows of its RETURNING.
    ///
    /// # Errors
    /// `53200`; an internal one for rows of other types than analysed.
    pub(crate) fn put(&self, number: usize, batches: Vec<RecordBatch>, task: &TaskContext) -> Result<()> {
        let Some(slot) = self.slots.get(number) else { return Err(no_slot()) };
        let mut state = slot.state.lock();
        for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
            let batch = RecordBatch::try_new(Arc::clone(&slot.schema), batch.columns().to_vec())?;
            state.kept.push(batch, task)?;
        }
        state.source = Source::Done;
        Ok(())
    }

    /// The statement has ended well: its plans may serve again.
    pub(crate) fn end(&self, plans: &OncePlans) {
        for (slot, plan) in self.slots.iter().zip(&plans.plans) {
            let mut state = slot.state.lock();
            state.source = Source::Done;
            state.kept = Kept::default();
            if let (OnceDoes::Read(query), Some(instance)) = (&plan.does, state.instance.take()) {
                query.give_back(instance);
            }
        }
    }

    fn poll(&self, number: usize, at: usize, task: &TaskContext, cx: &mut Context<'_>) -> Poll<Option<Result<Found>>> {
        let Some(slot) = self.slots.get(number) else { return Poll::Ready(Some(Err(no_slot()))) };
        slot.bell.add(cx.waker());
        let mut state = slot.state.try_lock();
        if state.is_none() {
            // Who has it rings as he leaves, unless he has looked by now.
            slot.bell.turned_away.store(true, Ordering::SeqCst);
            state = slot.state.try_lock();
        }
        let Some(mut state) = state else { return Poll::Pending };
        let waker = Waker::from(Arc::clone(&slot.bell));
        let polled = state.poll(at, &slot.schema, task, &mut Context::from_waker(&waker));
        drop(state);
        // Also where there is nothing yet: who was turned away has not asked the plan himself, and this one may never come back.
        let turned_away = slot.bell.turned_away.swap(false, Ordering::SeqCst);
        if polled.is_ready() || turned_away {
            slot.bell.ring();
        }
        polled
    }
}

fn no_slot() -> DataFusionError {
    bridge::failure(SqlError::internal("a WITH query that is not there"))
}

/// The rows of the WITH query of that number as a table.
#[derive(Debug)]
pub(crate) struct OnceTable {
    number: usize,
    /// What EXPLAIN shows.
    shown: String,
    schema: SchemaRef,
}

/// The same with these columns; `name` is what EXPLAIN shows.
pub(crate) fn once_rows(number: usize, name: &str, schema: SchemaRef) -> Arc<dyn TableProvider> {
    Arc::new(OnceTable { number, shown: format!("CTE Scan on {name}"), schema })
}

impl OnceTable {
    /// Whether a plan's source is one.
    pub(crate) fn is_it(source: &Arc<dyn TableSource>) -> bool {
        source_as_provider(source).is_ok_and(|provider| provider.downcast_ref::<Self>().is_some())
    }
}

#[async_trait]
impl TableProvider for OnceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
    fn table_type(&self) -> TableType {
        TableType::Temporary
    }
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Of what comes from a file only the columns that are asked for are kept.
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let (number, all) = (self.number, Arc::clone(&schema));
        let table = ComputedTable::new(self.shown.clone(), TableType::Temporary, schema, move |task| {
            let once = StatementContext::of(task)?.once.clone();
            let (task, columns, schema) = (apart(task)?, columns.clone(), Arc::clone(&all));
            Ok(Box::pin(Reader { once, number, task, at: 0, file: None, columns, schema }))
        });
        table.scan(session, None, filters, limit).await
    }
}

/// Somebody who reads.
struct Reader {
    once: Weak<Once>,
    number: usize,
    task: Arc<TaskContext>,
    /// Batches that it has.
    at: usize,
    /// What it reads of a file, and how many batches it passes over there.
    file: Option<(SendableRecordBatchStream, usize)>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl Stream for Reader {
    type Item = Result<RecordBatch>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some((rows, skip)) = &mut this.file {
                match ready!(rows.poll_next_unpin(cx)) {
                    Some(Ok(_)) if *skip > 0 => *skip -= 1,
                    Some(batch) => {
                        this.at += 1;
                        // A column holds on to all that was read with it.
                        let own = batch.and_then(|batch| owned(&batch.project(&this.columns)?));
                        return Poll::Ready(Some(own));
                    }
                    None => this.file = None,
                }
                continue;
            }
            let Some(once) = this.once.upgrade() else {
                let text = "a WITH query that is computed once is not supported in this statement";
                return Poll::Ready(Some(Err(bridge::failure(SqlError::unsupported(text)))));
            };
            match ready!(once.poll(this.number, this.at, &this.task, cx)) {
                Some(Ok(Found::Batch(batch))) => {
                    this.at += 1;
                    return Poll::Ready(Some(Ok(batch.project(&this.columns)?)));
                }
                Some(Ok(Found::Spilled(rows, skip))) => this.file = Some((rows, skip)),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl RecordBatchStream for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
