//! A statement and the statements that write in its WITH, run as one.
//!
//! All of them are one statement of the engine: one snapshot, so that none sees what another has written, and one id to write
//! under, so that each row is written once. Those whose rows the statement reads are run before it, to their ends, the others
//! after it, in PostgreSQL's order ([`OncePlans::order`]). What foreign keys leave to the end of a statement is done when all have
//! written.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionState;
use futures::StreamExt;
use resurgam_engine::{Statement, StatementKind};

use super::modify::{Constraints, How, Modified, Modify};
use super::plan::WritePlan;
use super::returning::Returned;
use super::row::Writer;
use super::source::{CurrentRow, Stream};
use crate::dml::foreign::Help;
use crate::dml::locking::LockPlan;
use crate::exec::context::{Beside, StatementContext, StopFlag, task_context};
use crate::exec::explain::{Look, Node, Options, convert};
use crate::exec::once::{Once, OncePlans};
use crate::exec::wait::{Waiting, guarded};
use crate::exec::weight;
use crate::pg::encode::{RowEncoder, TextStyle};
use crate::pg::errors;
use crate::plan::analyze::Op;
use crate::plan::planner::Names;
use crate::plan::plans::RunBy;
use crate::plan::statement::{Prepared, Query};
use crate::session::Session;
use crate::session::settings::Hot;
use crate::wire::{Format, RowChunk, SqlError};

/// What stands beside a statement's own plan.
#[derive(Clone, Copy, Default)]
pub(crate) struct Around<'p> {
    pub locks: &'p [LockPlan],
    /// `None`: there are none.
    pub once: Option<&'p OncePlans>,
}

impl<'p> Around<'p> {
    pub(crate) fn of(prepared: &'p Prepared) -> Self {
        Self { locks: &prepared.locks, once: Some(&prepared.once) }
    }
}

/// All rows of a query.
pub(crate) struct Gathered {
    pub batches: Vec<RecordBatch>,
    /// Counts them against the memory of queries.
    pub memory: MemoryReservation,
    /// The plan that was run, if it was to be shown.
    pub plan: Option<Node>,
}

/// The statement itself.
enum Main<'p> {
    Write(&'p WritePlan),
    Read(&'p Query),
}

/// What it gave.
enum Done {
    Modified(Modified),
    Gathered(Gathered),
}

/// What one run needs wherever it is.
struct Run<'a> {
    state: &'a SessionState,
    beside: &'a Beside,
    values: &'a [ScalarValue],
    stop: &'a Arc<StopFlag>,
    text: &'a str,
}

impl<'a> Run<'a> {
    fn stream(&self, plan: &'a WritePlan, current: Option<CurrentRow>) -> Stream<'a> {
        Stream {
            op: plan.op,
            plan: &plan.stream,
            merge: plan.merge.as_ref(),
            state: self.state,
            values: self.values,
            stop: self.stop,
            beside: self.beside.clone(),
            text: self.text,
            is_given: plan.is_given,
            sources: plan.sources,
            current,
        }
    }

    fn failed(&self, error: datafusion::common::DataFusionError) -> SqlError {
        errors::from_datafusion(error, self.text)
    }

    async fn gather(
        &self,
        query: &Query,
        statement: &Statement<'_>,
        shown: Option<Options>,
    ) -> Result<Gathered, SqlError> {
        let failed = |error| self.failed(error);
        let mut instance = query.plan.instance(self.state, self.values).await.map_err(failed)?;
        if let Some(shown) = shown {
            instance.measure(shown.timing).map_err(failed)?;
        }
        let context = StatementContext {
            view: statement.view().clone(),
            stop: Arc::clone(self.stop),
            target: None,
            locked: self.beside.locked.clone(),
            once: self.beside.once(),
        };
        let memory =
            MemoryConsumer::new("rows of a statement that writes").register(&self.state.runtime_env().memory_pool);
        let mut stream = instance.start(task_context(self.state, Arc::new(context))).map_err(failed)?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(failed)?;
            memory.try_grow(weight::kept(&batch)).map_err(failed)?;
            batches.push(batch);
            self.stop.check()?;
        }
        drop(stream);
        let plan = match shown {
            Some(shown) => Some(convert::node(&instance, shown, &Look::new(self.state), &[])),
            None => {
                query.plan.give_back(instance);
                None
            }
        };
        Ok(Gathered { batches, memory, plan })
    }
}

impl Session {
    /// Makes ready what stands beside a statement's own plan: locks the rows of its locking queries.
    ///
    /// # Errors
    /// Those of these queries; `25006`.
    pub(crate) async fn beside(
        &mut self,
        around: Around<'_>,
        values: &[ScalarValue],
        text: &str,
    ) -> Result<Beside, SqlError> {
        let once = match around.once.filter(|once| !once.plans.is_empty()) {
            Some(plans) => {
                let state = self.state()?;
                Once::new(plans, &state, values).await.map_err(|error| errors::from_datafusion(error, text))?
            }
            None => None,
        };
        let locked = match around.locks.is_empty() {
            true => None,
            false => self.lock_rows(around.locks, once.as_ref(), values, text).await?,
        };
        Ok(Beside { locked, once })
    }

    /// Runs a statement that writes by its plan, with what stands beside it.
    ///
    /// # Errors
    /// The statement's.
    pub(crate) async fn modify_by_plan(
        &mut self,
        plan: &WritePlan,
        around: Around<'_>,
        params: &[ScalarValue],
        formats: &[Format],
        text: &str,
        shown: Option<Options>,
    ) -> Result<Modified, SqlError> {
        match self.run_together(Main::Write(plan), around, params, formats, text, shown).await? {
            Done::Modified(modified) => Ok(modified),
            Done::Gathered(_) => Err(SqlError::internal("rows of a statement that writes")),
        }
    }

    /// Runs a query in whose WITH statements write, to its end.
    ///
    /// # Errors
    /// The statement's; `25006`.
    pub(crate) async fn gather_and_modify(
        &mut self,
        prepared: &Prepared,
        query: &Query,
        values: &[ScalarValue],
        shown: Option<Options>,
    ) -> Result<Gathered, SqlError> {
        self.refuse_if_read_only("SELECT")?;
        self.note_undo(true)?;
        let around = Around::of(prepared);
        let done = self.run_together(Main::Read(query), around, values, &[], &prepared.text, shown).await;
        match done.map_err(|error| self.discreet(error, prepared.needs.written()))? {
            Done::Gathered(gathered) => Ok(gathered),
            Done::Modified(_) => Err(SqlError::internal("a query without rows")),
        }
    }

    /// The same for a client.
    pub(crate) async fn query_and_modify(
        &mut self,
        prepared: &Prepared,
        query: &Query,
        values: &[ScalarValue],
        formats: &[Format],
    ) -> Result<RowChunk, SqlError> {
        let encoder = RowEncoder::new(query.schema.fields(), formats, &self.style())?;
        let gathered = self.gather_and_modify(prepared, query, values, None).await?;
        let mut chunk = RowChunk { fields: query.schema.fields().len() as i16, ..RowChunk::default() };
        for batch in gathered.batches {
            encoder.encode(&batch, 0..batch.num_rows(), &mut chunk)?;
            gathered.memory.try_resize(chunk.bytes.capacity()).map_err(|error| errors::from_datafusion(error, ""))?;
        }
        Ok(chunk)
    }

    /// The row that a statement with WHERE CURRENT OF writes.
    async fn current_row(&mut self, plan: &WritePlan) -> Result<Option<CurrentRow>, SqlError> {
        match &plan.current_of {
            Some(cursor) => self.place_of(cursor, &plan.table).await.map(Some),
            None => Ok(None),
        }
    }

    async fn run_together(
        &mut self,
        main: Main<'_>,
        around: Around<'_>,
        params: &[ScalarValue],
        formats: &[Format],
        text: &str,
        shown: Option<Options>,
    ) -> Result<Done, SqlError> {
        let Hot { lock_timeout, zone, .. } = self.hot();
        let writes =
            |number: &usize| around.once.and_then(|once| once.plans.get(*number)).and_then(|plan| plan.write());
        let (before, after) = around.once.map(OncePlans::order).unwrap_or_default();
        for write in before.iter().chain(&after).filter_map(writes) {
            write.constants.check(&write.table, params, &zone)?;
        }
        let beside = self.beside(around, params, text).await?;
        let mut currents = Vec::new();
        for write in before.iter().chain(&after).filter_map(writes) {
            currents.push(self.current_row(write).await?);
        }
        let current = match &main {
            Main::Write(plan) => self.current_row(plan).await?,
            Main::Read(_) => None,
        };
        let state = self.state()?;
        let deadline = self.deadline();
        let stop = Arc::clone(&self.shared.stop);
        let pool = Arc::clone(&self.db.runtime.memory_pool);
        let returned = match &main {
            Main::Write(plan) => {
                let style = if plan.returning.is_some() { self.style() } else { TextStyle::default() };
                Some(Returned::new(plan.returning.as_ref(), formats, params, style, &pool)?)
            }
            Main::Read(_) => None,
        };
        let cx = Arc::clone(&self.cx);
        let open = self.transaction();
        open.used = true;
        let (txn, deferred) = (&open.txn, &open.deferred);
        let waiting = Waiting { stop: &stop, lock_timeout };
        let run = Run { state: &state, beside: &beside, values: params, stop: &stop, text };
        let streams: Vec<Stream<'_>> = before
            .iter()
            .chain(&after)
            .filter_map(writes)
            .zip(currents)
            .map(|(write, row)| run.stream(write, row))
            .collect();
        let own = match &main {
            Main::Write(plan) => Some(run.stream(plan, current)),
            Main::Read(_) => None,
        };
        let work = async {
            let statement = txn.begin_statement(StatementKind::BulkWrite)?;
            let begin = async |plan, returned, stream| {
                let plan: &WritePlan = plan;
                let writer =
                    Writer { statement: &statement, table: &plan.table, checks: &plan.checks, waiting: &waiting };
                let constraints = Constraints { references: &plan.references, deferred };
                let many = plan.op == Op::Insert && plan.conflict.is_none();
                let how = if many { How::Many } else { How::Single };
                let mut modify = Modify::begin(writer, &constraints, zone, how).await?.counted(&pool);
                modify.params = params;
                modify.conflict = plan.conflict.as_ref();
                modify.returned = Some(returned);
                modify.stream = Some(stream);
                Ok::<_, SqlError>(modify)
            };
            // One of WITH, to its end.
            let one = async |number: &usize, stream| {
                let stream: &Stream<'_> = stream;
                let Some(plan) = writes(number) else { return Ok(None) };
                let returned = Returned::new(plan.returning.as_ref(), &[], params, TextStyle::default(), &pool)?;
                let mut modify = begin(plan, returned, stream).await?;
                stream.feed(&mut modify, None).await?;
                put(&run, *number, &mut modify, stream, &statement).await?;
                Ok::<_, SqlError>(Some(modify))
            };
            let mut written: Vec<Modify<'_>> = Vec::with_capacity(streams.len());
            let mut rest = before.iter().chain(&after).zip(&streams);
            for (number, stream) in rest.by_ref().take(before.len()) {
                written.extend(one(number, stream).await?);
            }
            let mut done = match (&main, &own, returned) {
                (Main::Write(plan), Some(stream), Some(returned)) => {
                    let mut modify = begin(plan, returned, stream).await?;
                    let plan = stream.feed(&mut modify, shown).await?;
                    Ok((modify, plan))
                }
                (Main::Read(query), ..) => Err(run.gather(query, &statement, shown).await?),
                _ => return Err(SqlError::internal("a statement without its stream")),
            };
            for (number, stream) in rest {
                written.extend(one(number, stream).await?);
            }
            let help = || Help { names: Names { state: &state, txn, cx: &cx }, waiting, zone };
            if let Ok((modify, _)) = &mut done {
                modify.act(&help()).await?;
            }
            for modify in &mut written {
                modify.act(&help()).await?;
            }
            for modify in &mut written {
                modify.finish(&help()).await?;
            }
            if let Ok((modify, _)) = &mut done {
                modify.finish(&help()).await?;
                if let (Some(returned), Some(stream)) = (&mut modify.returned, &own) {
                    returned.finish(stream, statement.view()).await?;
                }
            }
            Ok(match done {
                Ok((modify, plan)) => Done::Modified(Modified { plan, ..modify.modified() }),
                Err(gathered) => Done::Gathered(gathered),
            })
        };
        let done = guarded(&stop, deadline, work).await?;
        if let Main::Read(query) = &main {
            query.plan.counts.run(RunBy::Hit);
        }
        if let (Some(once), Some(plans)) = (&beside.once, around.once) {
            once.end(plans);
        }
        Ok(done)
    }
}

/// Puts the rows of RETURNING where those who name the statement read them.
async fn put(
    run: &Run<'_>,
    number: usize,
    modify: &mut Modify<'_>,
    stream: &Stream<'_>,
    statement: &Statement<'_>,
) -> Result<(), SqlError> {
    let (Some(once), Some(returned)) = (&run.beside.once, &mut modify.returned) else { return Ok(()) };
    let batches = returned.take_rows(stream, statement.view()).await?;
    let task = stream.task_with(statement.view(), Arc::new(()));
    once.put(number, batches, &task).map_err(|error| run.failed(error))
}
