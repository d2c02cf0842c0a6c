//! The executor of INSERT, UPDATE, DELETE and MERGE, and of COPY.
//!
//! Rows come from a source ([`super::source`]), directly from a tree or from a plan; what is done with them is
//! here, once: constraints, conflicts, the engine's operators and waiting ([`super::row`]), foreign keys,
//! RETURNING. Of a row that others changed meanwhile the newest version is judged anew ([`super::recheck`]).

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use resurgam_engine::{Change, Datum, DatumRef, Load, ReadView, RowBuf, Seen, Table, Transaction};

use super::conflict::{Conflict, Resolved};
use super::plan::WritePlan;
use super::returning::{Returned, xmax_of};
use super::row::Writer;
use super::source::Stream;
use super::within::Around;
use crate::dml::check::{Broken, Checks};
use crate::dml::foreign::{Deferred, Enforcer, Help, References};
use crate::exec::bridge;
use crate::exec::direct::{Row, Values};
use crate::exec::explain::{Node, Options};
use crate::exec::wait::{Waiting, guarded};
use crate::pg::datetime::Zone;
use crate::pg::encode::TextStyle;
use crate::plan::planner::Names;
use crate::plan::plans::RunBy;
use crate::plan::statement::Prepared;
use crate::session::Session;
use crate::session::settings::Hot;
use crate::wire::{Format, RowChunk, SqlError};

/// Bytes of rows, and of what they take besides, that are inserted together, at first …
const LOADED_MIN: usize = 128 << 10;
/// … where there are indexes, in whose order they hardly come …
const LOADED_INDEXED: usize = 512 << 10;
/// … and at most, where they come in no order.
const LOADED_MAX: usize = 4 << 20;
/// So many are not counted against the memory of queries.
const UNCOUNTED: usize = 128 << 10;

/// How rows that are inserted come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// One, or in between others that are changed: each is in when [`Modify::insert`] is done.
    Single,
    /// Many: they are in with [`Modify::flush`]. What is wrong with one is told when those before it are in.
    Many,
    /// Those of COPY: they are in with [`Modify::flush`], which COPY calls. What is wrong with one is told at once.
    Copied,
}

/// What is known already of the constraints that a row breaks.
#[derive(Clone, Copy)]
pub(super) enum Known<'b> {
    Not,
    /// The row of that number is one of a batch that was looked at.
    Of(&'b Broken, usize),
}

/// One execution of a statement that writes.
pub(crate) struct Modify<'a> {
    writer: Writer<'a>,
    pub(super) params: &'a [ScalarValue],
    pub(super) zone: Zone,
    pub(super) conflict: Option<&'a Conflict>,
    pub(super) returned: Option<Returned<'a>>,
    /// What the row that is written was joined with, as one row, if RETURNING reads it.
    pub(super) others: Option<RecordBatch>,
    /// What runs the plans of RETURNING and ON CONFLICT.
    pub(super) stream: Option<&'a Stream<'a>>,
    foreign: Option<Enforcer>,
    load: Option<Load>,
    how: How,
    /// Of rows that are not in yet.
    counted: Counted,
    /// One could not be inserted.
    failed: bool,
    rows: u64,
}

/// Memory that rows take until they are in.
#[derive(Default)]
pub(crate) struct Counted {
    pub pool: Option<Arc<dyn MemoryPool>>,
    memory: Option<MemoryReservation>,
}

impl Counted {
    /// Counts so many bytes. False: there is no room for them.
    fn has_room(&mut self, bytes: usize) -> bool {
        let Some(pool) = &self.pool else { return true };
        if bytes <= UNCOUNTED + self.memory.as_ref().map_or(0, MemoryReservation::size) {
            return true;
        }
        let memory = self.memory.get_or_insert_with(|| MemoryConsumer::new("rows to insert").register(pool));
        memory.try_resize(bytes).is_ok()
    }
}

/// What is left of a [`Modify`] between two pieces of its rows.
pub(crate) struct Paused {
    foreign: Option<Enforcer>,
    load: Option<Load>,
    how: How,
    counted: Counted,
    pub rows: u64,
}

/// The constraints that are looked after beyond a row, and where they wait if they are deferred.
pub(crate) struct Constraints<'a> {
    pub references: &'a Arc<References>,
    pub deferred: &'a Arc<parking_lot::Mutex<Deferred>>,
}

impl<'a> Modify<'a> {
    /// Begins, before the first row.
    pub(crate) async fn begin(
        writer: Writer<'a>,
        constraints: &Constraints<'_>,
        zone: Zone,
        how: How,
    ) -> Result<Self, SqlError> {
        let foreign = if constraints.references.is_empty() {
            None
        } else {
            let Constraints { references, deferred } = constraints;
            Some(Enforcer::begin(writer.txn(), references, deferred, writer.waiting).await?)
        };
        let load = (how != How::Single).then(|| {
            let least = if writer.table.indexes.is_empty() { LOADED_MIN } else { LOADED_INDEXED };
            writer.statement.load(writer.table).keeping(least, LOADED_MAX).by_hand()
        });
        Ok(Self::resume(writer, zone, Paused { foreign, load, how, counted: Counted::default(), rows: 0 }))
    }

    /// Counts rows that are not in yet against that memory.
    pub(crate) fn counted(mut self, pool: &Arc<dyn MemoryPool>) -> Self {
        self.counted.pool = Some(Arc::clone(pool));
        self
    }

    /// Goes on where [`Modify::pause`] was called.
    pub(crate) fn resume(writer: Writer<'a>, zone: Zone, paused: Paused) -> Self {
        let Paused { foreign, load, how, counted, rows } = paused;
        Self {
            writer,
            params: &[],
            zone,
            conflict: None,
            returned: None,
            others: None,
            stream: None,
            foreign,
            load,
            how,
            counted,
            failed: false,
            rows,
        }
    }

    pub(crate) fn pause(self) -> Paused {
        Paused { foreign: self.foreign, load: self.load, how: self.how, counted: self.counted, rows: self.rows }
    }

    pub(super) fn table(&self) -> &'a Arc<Table> {
        self.writer.table
    }
    pub(super) fn txn(&self) -> &'a Transaction {
        self.writer.txn()
    }
    pub(super) fn view(&self) -> &'a ReadView {
        self.writer.view()
    }
    pub(super) fn checks(&self) -> &'a Checks {
        self.writer.checks
    }

    fn refuse(&self, row: &[DatumRef<'_>], known: Known<'_>) -> Result<(), SqlError> {
        match known {
            Known::Not => self.writer.refuse(row),
            Known::Of(broken, at) => self.checks().refuse_known(false, broken, at, self.table(), row),
        }
    }

    /// Refuses what views WITH CHECK OPTION would not show of what was written.
    fn refuse_unseen(&self, row: &[DatumRef<'_>], known: Known<'_>) -> Result<(), SqlError> {
        match known {
            Known::Not => self.writer.refuse_unseen(row),
            Known::Of(broken, at) => self.checks().refuse_known(true, broken, at, self.table(), row),
        }
    }

    fn note(&mut self, values: Values<'_>) -> Result<(), SqlError> {
        self.rows += 1;
        match &mut self.returned {
            Some(returned) => {
                let row = Row { table: self.writer.table, values, view: self.writer.view() };
                returned.note(row, self.others.take())
            }
            None => Ok(()),
        }
    }

    /// Inserts a row of the columns' types. (Many: [`Modify::flush`] does, at the latest.)
    ///
    /// # Errors
    /// `23502`, `23514`, `23505`, `23503`; those of waiting.
    pub(super) async fn insert(&mut self, row: &[DatumRef<'_>], known: Known<'_>) -> Result<(), SqlError> {
        match self.checks().generated(self.table(), row, self.view()) {
            Ok(None) => self.insert_made(row, known).await,
            Ok(Some(made)) => {
                let made: Vec<DatumRef<'_>> = made.iter().map(Datum::as_ref).collect();
                self.insert_made(&made, Known::Not).await
            }
            Err(error) => Err(self.behind(error).await),
        }
    }

    async fn insert_made(&mut self, row: &[DatumRef<'_>], known: Known<'_>) -> Result<(), SqlError> {
        if let Err(error) = self.refuse(row, known) {
            return Err(self.behind(error).await);
        }
        let Some(conflict) = self.conflict else {
            if self.loads() {
                return self.load(row, known).await;
            }
            self.writer.insert(row).await?;
            self.refuse_unseen(row, known)?;
            return self.inserted(row).await;
        };
        match conflict.resolve(&self.writer, row, self.params, &self.zone, self.stream).await? {
            Resolved::Nothing => Ok(()),
            Resolved::Inserted => {
                self.refuse_unseen(row, known)?;
                self.inserted(row).await
            }
            Resolved::Updated(old, new) => {
                let new: Vec<DatumRef<'_>> = new.iter().map(resurgam_engine::Datum::as_ref).collect();
                self.note_xmax(true)?;
                self.updated(&old, &new).await
            }
        }
    }

    /// Whether rows are inserted several at a time.
    pub(super) fn loads(&self) -> bool {
        self.load.is_some()
    }

    /// Takes a row that is to be inserted with others.
    async fn load(&mut self, row: &[DatumRef<'_>], known: Known<'_>) -> Result<(), SqlError> {
        if self.how == How::Copied {
            self.table().check_row(row).map_err(|error| bridge::named(error.into(), self.table(), row))?;
        } else if self.is_full() {
            self.flush().await?;
        }
        let Some(load) = &mut self.load else { return Err(SqlError::internal("rows that nobody takes")) };
        if let Err(error) = self.writer.load(load, row).await {
            self.failed = true;
            return Err(error);
        }
        if let Err(error) = self.taken(row, known) {
            return Err(self.behind(error).await);
        }
        // It did not wait for others.
        if self.kept() == 0 {
            self.settle().await?;
        }
        Ok(())
    }

    /// What follows once a row is inserted, of one that will be.
    fn taken(&mut self, row: &[DatumRef<'_>], known: Known<'_>) -> Result<(), SqlError> {
        self.refuse_unseen(row, known)?;
        if let Some(foreign) = &mut self.foreign {
            foreign.taken(row)?;
        }
        self.note_xmax(false)?;
        self.note(Values::Given(row))
    }

    /// What foreign keys ask of the rows that are in now.
    async fn settle(&mut self) -> Result<(), SqlError> {
        match &mut self.foreign {
            Some(foreign) => foreign.settle_taken(self.writer.waiting).await,
            None => Ok(()),
        }
    }

    /// The error of a row or of what follows, if there is none of the rows before it.
    #[cold]
    pub(super) async fn behind(&mut self, error: SqlError) -> SqlError {
        // Who is stopped does no more. COPY knows which rows come before it.
        if self.how == How::Copied || self.failed || error.sqlstate.starts_with("57") {
            return error;
        }
        self.flush().await.err().unwrap_or(error)
    }

    /// Inserts the rows that are not in yet.
    ///
    /// # Errors
    /// As [`Modify::insert`].
    pub(crate) async fn flush(&mut self) -> Result<(), SqlError> {
        let Some(load) = self.load.as_mut().filter(|_| !self.failed) else { return Ok(()) };
        if let Err(error) = self.writer.flush(load).await {
            self.failed = true;
            return Err(error);
        }
        self.settle().await
    }

    /// Rows that are not in yet.
    pub(crate) fn kept(&self) -> usize {
        self.load.as_ref().map_or(0, Load::len)
    }

    /// Whether it is time to [`Modify::flush`].
    pub(crate) fn is_full(&mut self) -> bool {
        let Some(load) = &self.load else { return false };
        load.is_full() || !self.counted.has_room(load.bytes())
    }

    /// Forgets rows that are not in yet, behind the first `rows`: the statement fails.
    pub(crate) fn forget_behind(&mut self, rows: usize) {
        if let Some(load) = &mut self.load {
            load.forget_behind(rows);
        }
    }

    /// After an error, which of the rows that are not in yet it is of, if it is of one of those.
    pub(crate) fn refused_at(&self) -> Option<usize> {
        self.load.as_ref().and_then(Load::refused_at)
    }

    /// As [`Modify::insert`], of a row about which nothing is known.
    pub(crate) async fn insert_row(&mut self, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        self.insert(row, Known::Not).await
    }

    /// Whether nothing is asked of a row but that it goes in, with others.
    pub(crate) fn is_plain(&self) -> bool {
        let checks = self.checks();
        let has_rules = !checks.is_empty() || checks.has_generated() || self.foreign.is_some();
        self.how == How::Copied && !has_rules && self.conflict.is_none() && self.returned.is_none()
    }

    /// Where it [`Modify::is_plain`]: takes a row that nobody is to be waited for of. False: it was not taken, which is
    /// [`Modify::insert_row`]'s to do.
    pub(crate) fn keep_plain(&mut self, row: &[DatumRef<'_>]) -> bool {
        let is_kept = self.load.as_mut().is_some_and(|load| load.keep_more(row));
        self.rows += u64::from(is_kept);
        is_kept
    }

    async fn inserted(&mut self, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        if let Some(foreign) = &mut self.foreign {
            foreign.inserted(row, self.writer.waiting).await?;
        }
        self.note_xmax(false)?;
        self.note(Values::Given(row))
    }

    /// Before an INSERT notes a row: whether it was updated instead, for a RETURNING that asks.
    fn note_xmax(&mut self, updated: bool) -> Result<(), SqlError> {
        if self.returned.as_ref().is_some_and(Returned::reads_xmax) {
            self.others = Some(xmax_of(self.txn().id().filter(|_| updated))?);
        }
        Ok(())
    }

    async fn updated(&mut self, old: &RowBuf, new: &[DatumRef<'_>]) -> Result<(), SqlError> {
        if let Some(foreign) = &mut self.foreign {
            foreign.updated(old, new, self.writer.waiting).await?;
        }
        self.note(Values::Given(new))
    }

    /// Gives the row under `key`, known by `seen`, new values of the columns' types.
    ///
    /// # Errors
    /// As [`Modify::insert`]; `40001` in REPEATABLE READ.
    pub(super) async fn update(
        &mut self,
        key: &[u8],
        seen: Seen,
        row: &[DatumRef<'_>],
        known: Known<'_>,
    ) -> Result<Change, SqlError> {
        match self.checks().generated(self.table(), row, self.view())? {
            None => self.update_made(key, seen, row, known).await,
            Some(made) => {
                let made: Vec<DatumRef<'_>> = made.iter().map(Datum::as_ref).collect();
                self.update_made(key, seen, &made, Known::Not).await
            }
        }
    }

    async fn update_made(
        &mut self,
        key: &[u8],
        seen: Seen,
        row: &[DatumRef<'_>],
        known: Known<'_>,
    ) -> Result<Change, SqlError> {
        self.refuse(row, known)?;
        let mut old = RowBuf::default();
        let noted = self.foreign.is_some().then_some(&mut old);
        let change = self.writer.update(key, seen, row, noted).await?;
        if change == Change::Done {
            self.refuse_unseen(row, known)?;
            self.updated(&old, row).await?;
        }
        Ok(change)
    }

    /// Deletes the row under `key`, known by `seen`.
    ///
    /// # Errors
    /// `23503`; those of waiting; `40001` in REPEATABLE READ.
    pub(super) async fn delete(&mut self, key: &[u8], seen: Seen) -> Result<Change, SqlError> {
        let mut old = RowBuf::default();
        let asked = self.foreign.is_some() || self.returned.as_ref().is_some_and(Returned::is_asked);
        let change = self.writer.delete(key, seen, asked.then_some(&mut old)).await?;
        if change == Change::Done {
            if let Some(foreign) = &mut self.foreign {
                foreign.deleted(&old, self.writer.waiting).await?;
            }
            self.note(Values::Stored(old.raw()))?;
        }
        Ok(change)
    }

    /// Whether foreign keys leave anything to the end of the statement.
    pub(crate) fn is_done(&self) -> bool {
        self.foreign.as_ref().is_none_or(Enforcer::is_done)
    }

    /// What foreign keys leave to the end of the statement.
    ///
    /// # Errors
    /// `23503`; whatever their actions meet.
    pub(crate) async fn finish(&mut self, help: &Help<'_>) -> Result<(), SqlError> {
        match self.foreign.as_mut().filter(|foreign| !foreign.is_done()) {
            Some(foreign) => foreign.finish(help).await,
            None => Ok(()),
        }
    }

    /// The first half of [`Modify::finish`]: what the actions of foreign keys do.
    pub(super) async fn act(&mut self, help: &Help<'_>) -> Result<(), SqlError> {
        match self.foreign.as_mut().filter(|foreign| !foreign.is_done()) {
            Some(foreign) => foreign.act_all(help).await,
            None => Ok(()),
        }
    }
}

/// What a statement that writes has done.
pub(crate) struct Modified {
    pub rows: u64,
    /// RETURNING's rows; none of them without it.
    pub returned: RowChunk,
    /// The plan that was run, if it was to be shown.
    pub plan: Option<Node>,
}

impl Session {
    /// Runs a statement that writes: directly, or else by its plan. `shown`: a plan that is run is wanted as
    /// EXPLAIN shows it, with more of it or less.
    ///
    /// # Errors
    /// The statement's.
    pub(crate) async fn modify(
        &mut self,
        prepared: &Prepared,
        plan: &WritePlan,
        values: &[ScalarValue],
        formats: &[Format],
        shown: Option<Options>,
    ) -> Result<Modified, SqlError> {
        // Temporary tables are the session's own.
        if !crate::pg::search_path::is_temporary(&plan.table.schema) || prepared.once.any_writes() {
            self.refuse_if_read_only(plan.op.name())?;
        }
        if !plan.constants.is_empty() {
            let zone = self.shared.variables.lock().zone;
            plan.constants.check(&plan.table, values, &zone)?;
        }
        if plan.tree.is_some() && !prepared.once.any_writes() && !plan.stream.leaves_out(values) {
            // Its first row shows whether the definition is the newest; what cascades shows later.
            self.note_undo(plan.references.are_acting())?;
            let modified = self.modify_directly(plan, values, formats).await;
            if let Some(modified) = modified.map_err(|error| self.discreet(error, prepared.needs.written()))? {
                plan.stream.counts.run(RunBy::Direct);
                return Ok(modified);
            }
        }
        self.note_undo(true)?;
        let around = Around::of(prepared);
        let modified = Box::pin(self.modify_by_plan(plan, around, values, formats, &prepared.text, shown)).await;
        modified.map_err(|error| self.discreet(error, prepared.needs.written()))
    }

    /// `None`: that is left to the plan, and nothing was written.
    async fn modify_directly(
        &mut self,
        plan: &WritePlan,
        params: &[ScalarValue],
        formats: &[Format],
    ) -> Result<Option<Modified>, SqlError> {
        let Some(tree) = &plan.tree else { return Ok(None) };
        let Some((located, kind)) = tree.locate(params)? else { return Ok(None) };
        let deadline = self.deadline();
        let stop = Arc::clone(&self.shared.stop);
        let style = if plan.returning.is_some() { self.style() } else { TextStyle::default() };
        let Hot { lock_timeout, zone, .. } = self.hot();
        let pool = Arc::clone(&self.db.runtime.memory_pool);
        let returned = Returned::new(plan.returning.as_ref(), formats, params, style, &pool)?;
        let help = if plan.references.is_empty() { None } else { Some((self.state()?, Arc::clone(&self.cx))) };
        let open = self.transaction();
        open.used = true;
        let (txn, deferred) = (&open.txn, &open.deferred);
        let waiting = Waiting { stop: &stop, lock_timeout };
        let work = async {
            let statement = txn.begin_statement(kind)?;
            let Some(gathered) = tree.gather(located, statement.view(), params, &stop)? else { return Ok(None) };
            let writer = Writer { statement: &statement, table: &plan.table, checks: &plan.checks, waiting: &waiting };
            let constraints = Constraints { references: &plan.references, deferred };
            let how = if plan.conflict.is_some() { How::Single } else { tree.how() };
            let mut modify = Modify::begin(writer, &constraints, zone, how).await?;
            modify.params = params;
            modify.conflict = plan.conflict.as_ref();
            modify.returned = Some(returned);
            tree.feed(gathered, &mut modify).await?;
            if let (false, Some((state, cx))) = (modify.is_done(), &help) {
                Box::pin(modify.finish(&Help { names: Names { state, txn, cx }, waiting, zone })).await?;
            }
            Ok(Some(modify.modified()))
        };
        // One place for both: the future has room for it once.
        match deadline.is_some() {
            true => Box::pin(guarded(&stop, deadline, work)).await,
            false => work.await,
        }
    }
}

impl Modify<'_> {
    pub(super) fn modified(self) -> Modified {
        let returned = self.returned.map(|returned| returned.chunk).unwrap_or_default();
        Modified { rows: self.rows, returned, plan: None }
    }
}
