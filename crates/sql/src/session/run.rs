//! Running a prepared statement: by its kind, counted, stopped by its time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement;
use resurgam_engine::StatementKind;
use tokio::time::Instant;

use crate::dml::{Around, WritePlan};
use crate::exec::context::{Beside, StatementContext, task_context};
use crate::exec::direct::Touched;
use crate::exec::panics;
use crate::parse::own::Own;

use crate::pg::errors;

use crate::plan::analyze::Op;
use crate::plan::plans::RunBy;
use crate::plan::statement::{Kind, Prepared, Query};
use crate::plan::tally::Tally;
use crate::session::Session;

use crate::session::shared::now;
use crate::session::stream::{ActiveRows, RowStream};
use crate::wire::{Execution, Field, Format, RowChunk, SqlError, Tag};

impl Session {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeout = self.hot().statement_timeout;
        if timeout.is_zero() {
            return None;
        }
        let run_since = || if self.is_run_again() { self.began } else { Instant::now() };
        Some(self.read_since.unwrap_or_else(run_since) + timeout)
    }

    /// From now on the time of the statement runs, unless it does already.
    pub(super) fn time_runs(&mut self) {
        if self.read_since.is_none() && !self.hot().statement_timeout.is_zero() {
            self.read_since = Some(Instant::now());
        }
    }

    /// Runs a statement, and counts how long it takes until its first rows are there.
    pub(crate) async fn run(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let begun = std::time::Instant::now();
        if !self.is_run_again() {
            self.began = Instant::from_std(begun);
        }
        let mut result = self.run_uncounted(prepared, values, formats, max_rows, portal, autocommit).await;
        if let Some(counts) = &prepared.counts {
            let time = begun.elapsed();
            counts.ran(time);
            match &mut result {
                Ok(Execution::Rows { rows: Some(rows), .. }) => rows.counted(self.tally(prepared), time),
                Ok(Execution::Rows { tag, .. } | Execution::Command { tag }) => self.count_call(prepared, time, tag),
                _ => {}
            }
        }
        result
    }

    /// A statement was run to its end.
    pub(crate) fn count_call(&self, prepared: &Prepared, time: Duration, tag: &Tag) {
        match prepared.tally.first(self.db.oid(), self.hot().role) {
            Some(tally) => tally.called(time, tag.rows()),
            None => self.tally(prepared).called(time, tag.rows()),
        }
    }

    /// The counters of the calls of a statement by the session's role.
    pub(super) fn tally(&self, prepared: &Prepared) -> Arc<Tally> {
        let (database, role) = (self.db.oid(), self.hot().role);
        prepared.tally.of(database, role, || self.db.tallies.of(database, role, &prepared.text))
    }

    /// What others see of the session says from here on that this statement runs, and it can be stopped.
    pub(super) fn statement_begins(&mut self, prepared: &Prepared) {
        if !self.is_run_again() {
            self.shared.stop.begin();
        }
        // For what does not return to whoever waits for it.
        if let Some(deadline) = self.deadline() {
            self.shared.stop.set_deadline(deadline);
        }
        self.shared.statement_start.store(now(), Ordering::Relaxed);
        {
            let mut query = self.shared.query.lock();
            if !Arc::ptr_eq(&query, &prepared.text) {
                *query = Arc::clone(&prepared.text);
            }
        }
        panics::planted("running", &prepared.text);
    }

    pub(crate) async fn run_uncounted(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        self.refuse_if_failed(&prepared.kind)?;
        self.statement_begins(prepared);
        self.check_allowed(prepared)?;
        if let Kind::Declare { inner, .. } = &prepared.kind {
            self.check_allowed(inner)?;
        }
        if self.met && !is_about_transactions(&prepared.kind) {
            Box::pin(self.until_met_is_seen()).await?;
        }
        if self.db.engine.is_any_table_closed() {
            Box::pin(self.until_readable(prepared)).await?;
        }
        match &prepared.kind {
            Kind::Empty => Ok(Execution::Empty),
            // What runs often is in this future, which is moved about with all that is in it; what is larger or
            // rarer is boxed, and made only when it is its turn.
            Kind::Query(query) => {
                let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
                self.note_undo(false)?;
                if let Some(lock) = &query.direct_lock
                    && let Some(chunk) = Box::pin(self.lock_directly(lock, values, formats)).await?
                {
                    query.plan.counts.run(RunBy::Direct);
                    return self.whole(fields, chunk, autocommit).await;
                }
                if prepared.once.any_writes() {
                    let chunk = Box::pin(self.query_and_modify(prepared, query, values, formats)).await?;
                    return self.whole(fields, chunk, autocommit).await;
                }
                let beside = match prepared.locks.is_empty() && prepared.once.plans.is_empty() {
                    true => Beside::default(),
                    false => Box::pin(self.beside(Around::of(prepared), values, &prepared.text)).await?,
                };
                if let Some(select) = &query.direct
                    && !query.plan.leaves_out(values)
                    && let Some((chunk, view)) =
                        self.select_directly(select, values, formats, max_rows, &mut Touched::default())?
                {
                    query.plan.counts.run(RunBy::Direct);
                    if self.db.settings.planning.canary {
                        let is_plain = select.is_plain();
                        self.compare_with_plan((prepared, query, is_plain), values, formats, view, &chunk)?;
                    } else {
                        drop(view);
                    }
                    return self.whole(fields, chunk, autocommit).await;
                }
                if let Some(list) = &query.list
                    && !query.plan.leaves_out(values)
                    && let Some((chunk, view)) = self.list_directly(prepared, list, values, formats, max_rows)?
                {
                    query.plan.counts.run(RunBy::Direct);
                    if self.db.settings.planning.canary {
                        self.compare_with_plan((prepared, query, true), values, formats, view, &chunk)?;
                    } else {
                        drop(view);
                    }
                    return self.whole(fields, chunk, autocommit).await;
                }
                Box::pin(self.run_plan(prepared, query, beside, values, formats, max_rows, portal, autocommit)).await
            }
            Kind::Write(plan) => Box::pin(self.write(prepared, plan, values, formats, autocommit)).await,
            Kind::Call(call) => self.run_call(call, values, formats, autocommit).await,
            Kind::Explain { how, planned, inner } => {
                self.note_undo(how.analyze)?;
                let lines = Box::pin(self.explain(inner, values, *how, *planned)).await?;
                let chunk = text_rows(&lines);
                self.statement_done(autocommit).await?;
                let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
                Ok(Execution::Rows { fields, first: Some(chunk), rows: None, tag: Tag::Fixed("EXPLAIN") })
            }
            Kind::Declare { cursor, inner } => {
                Box::pin(self.declare(cursor, inner, values, &prepared.text)).await?;
                self.statement_done(autocommit).await?;
                Ok(Execution::Command { tag: Tag::Fixed("DECLARE CURSOR") })
            }
            Kind::Own(own) => {
                if let Own::Fetch(fetch) = &**own {
                    if let (1.., Some(portal), false) = (max_rows, portal, fetch.is_move) {
                        return Box::pin(self.fetch_in_parts(fetch, formats, max_rows, portal)).await;
                    }
                    return Box::pin(self.fetch(fetch, formats, autocommit)).await;
                }
                if let Own::Copy(copy) = &**own {
                    // It goes by definitions, and is at its end when the data is.
                    self.note_undo(true)?;
                    return Box::pin(self.copy(copy, autocommit)).await;
                }
                let execution = Box::pin(self.run_own(own)).await?;
                self.statement_done(autocommit).await?;
                Ok(execution)
            }
            Kind::Utility(statement) => {
                if crate::command::utility::may_run_again(statement) {
                    self.note_undo(true)?;
                }
                let execution = self.utility(statement, &prepared.text, formats, autocommit).await?;
                if !matches!(execution, Execution::Rows { rows: Some(_), .. }) {
                    self.statement_done(autocommit).await?;
                }
                Ok(execution)
            }
        }
    }

    /// Runs a query by its plan.
    #[allow(clippy::too_many_arguments)] // of `run_uncounted`, and what that has found
    pub(super) async fn run_plan(
        &mut self,
        prepared: &Arc<Prepared>,
        query: &Query,
        beside: Beside,
        values: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
        // A portal reads on while the transaction may write.
        let kind = if max_rows > 0 { StatementKind::Cursor } else { StatementKind::Read };
        let active = self.start_plan(prepared, query, beside, values, formats, kind).await?;
        self.rows(active, fields, max_rows, portal, autocommit).await
    }

    /// Begins to run a query by its plan, as of now.
    pub(crate) async fn start_plan(
        &mut self,
        prepared: &Arc<Prepared>,
        query: &Query,
        beside: Beside,
        values: &[ScalarValue],
        formats: &[Format],
        kind: StatementKind,
    ) -> Result<ActiveRows, SqlError> {
        let state = self.state()?;
        let deadline = self.deadline();
        let style = self.style();
        let stop = Arc::clone(&self.shared.stop);
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(kind)?;
        self.refuse_older_plan(prepared, &view)?;
        let failed = |error| errors::from_datafusion(error, &prepared.text);
        let instance = query.plan.instance(&state, values).await.map_err(failed)?;
        let once = beside.once();
        let keyed = (!query.keys.is_empty()).then(|| view.clone());
        let context = StatementContext { view, stop: Arc::clone(&stop), target: None, locked: beside.locked, once };
        let stream = instance.start(task_context(&state, Arc::new(context))).map_err(failed)?;
        let (once, prepared) = (beside.once, Arc::clone(prepared));
        let active = ActiveRows::new(stream, instance, once, prepared, &query.schema, formats, &style, stop, deadline)?;
        Ok(match keyed {
            Some(view) => active.keyed(view),
            None => active,
        })
    }

    /// The answer of a query whose rows are all there.
    pub(super) async fn whole(
        &mut self,
        fields: Arc<[Field]>,
        chunk: RowChunk,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        self.statement_done(autocommit).await?;
        let tag = Tag::Count("SELECT", chunk.len() as u64);
        Ok(Execution::Rows { fields, first: Some(chunk), rows: None, tag })
    }

    /// The first rows of a running query, and the rest as a stream.
    pub(crate) async fn rows(
        &mut self,
        mut active: ActiveRows,
        fields: Arc<[Field]>,
        max_rows: usize,
        portal: Option<String>,
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let limit = if max_rows == 0 { usize::MAX } else { max_rows };
        let mut first = RowChunk { fields: fields.len() as i16, ..RowChunk::default() };
        let more = active.fill(&self.db, &mut first, limit).await?;
        let count = first.len() as u64;
        if !more {
            active.finish();
            self.statement_done(autocommit).await?;
            return Ok(Execution::Rows { fields, first: Some(first), rows: None, tag: Tag::Count("SELECT", count) });
        }
        let rows = RowStream {
            active: Some(active),
            portal,
            left: limit - first.len(),
            count,
            suspended: false,
            autocommit,
            verb: "SELECT",
            of_fetch: false,
            call: None,
        };
        let (rows, tag) = (Some(Box::new(rows)), Tag::Count("SELECT", count));
        Ok(Execution::Rows { fields, first: Some(first), rows, tag })
    }

    pub(super) async fn write(
        &mut self,
        prepared: &Arc<Prepared>,
        plan: &WritePlan,
        values: &[ScalarValue],
        formats: &[Format],
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        let modified = self.modify(prepared, plan, values, formats, None).await?;
        // What was deferred until here.
        self.statement_done(autocommit).await.map_err(|error| self.discreet(error, prepared.needs.written()))?;
        let tag = write_tag(plan.op, modified.rows);
        Ok(match &plan.returning {
            Some(returning) => {
                let fields = Arc::clone(&returning.fields);
                Execution::Rows { fields, first: Some(modified.returned), rows: None, tag }
            }
            None => Execution::Command { tag },
        })
    }
}

pub(crate) fn write_tag(op: Op, rows: u64) -> Tag {
    match op {
        Op::Insert => Tag::Insert(rows),
        Op::Update => Tag::Count("UPDATE", rows),
        Op::Delete => Tag::Count("DELETE", rows),
        Op::Merge => Tag::Count("MERGE", rows),
    }
}

/// One-column rows of text.
pub(crate) fn text_rows(lines: &[String]) -> RowChunk {
    use bytes::BufMut;
    let mut chunk = RowChunk { fields: 1, ..RowChunk::default() };
    for line in lines {
        chunk.bytes.put_i32(line.len() as i32);
        chunk.bytes.put_slice(line.as_bytes());
        chunk.ends.push(chunk.bytes.len() as u32);
    }
    chunk
}

/// Whether a statement begins or ends a transaction, and reads nothing.
fn is_about_transactions(kind: &Kind) -> bool {
    let Kind::Utility(statement) = kind else { return false };
    matches!(**statement, Statement::StartTransaction { .. } | Statement::Commit { .. } | Statement::Rollback { .. })
}
