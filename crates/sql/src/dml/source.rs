//! Where the rows that a statement writes come from.
//!
//! A *tree* gives them directly: its values are evaluated on datums, without a plan. A *stream* is a plan's.
//! Both feed [`Modify`], and both say what becomes of a row whose newest version is not the one that they
//! gave ([`RowWork`]); they do nothing else.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, BinaryViewArray, RecordBatch};
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use futures::StreamExt;
use resurgam_engine::{Change, Datum, DatumRef, ReadView, RowBuf, Seen, StatementKind, Table};

use super::assign::{Assigned, assigned, assigned_batch};
use super::conflict::{Conflict, New, after};
use super::merge::MergePlan;
use super::modify::{How, Known, Modify};
use super::plan::WritePlan;
use super::recheck::{RowWork, settle_row};
use crate::dml::check::Broken;
use crate::exec::context::{Beside, StatementContext, StopFlag, TargetRow, task_context, task_of};
use crate::exec::direct::{Input, Located, Parts, ROWS_MAX, Row, RowExpr, Rows, Touched, Values};
use crate::exec::explain::node::{Estimate, On};
use crate::exec::explain::{Look, Node, Options, convert, cost};
use crate::exec::planning::Planning;
use crate::exec::table::KEY_COLUMN;
use crate::pg::errors;
use crate::plan::analyze::Op;
use crate::plan::planner::{QueryPlan, as_in_plan, simplified};
use crate::wire::SqlError;

/// Rows that are written before others get their turn.
pub(crate) const ROWS_PER_TURN: usize = 256;
/// Most rows of a VALUES list that is inserted directly.
const GIVEN_MAX: usize = 64;
/// Bytes of rows that are held before the first is written.
const BYTES_MAX: usize = 1 << 20;

/// Rows without a plan. There is one a planned statement: its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum Tree {
    /// For each row, each column's value.
    Given(Vec<Vec<RowExpr>>),
    /// Rows of the target.
    Found {
        rows: Rows,
        /// New values of the columns that change; `None` deletes the rows.
        set: Option<Vec<(usize, RowExpr)>>,
    },
}

/// Rows of a tree for one execution: which they are is known before any is written, so it does not matter
/// that a write may move a row within the tree that is read.
pub(super) enum Gathered {
    Given,
    One(Vec<u8>),
    Many(Vec<RowBuf>),
}

impl Tree {
    /// The direct source of a statement, if it has one; `rows`: those of an INSERT that are written out.
    pub(super) fn new(state: &SessionState, plan: &WritePlan, rows: Option<Vec<Vec<Expr>>>) -> Option<Self> {
        if !Planning::of(state.config()).direct {
            return None;
        }
        // Their plans are run by the stream.
        let by_plan = plan.returning.as_ref().is_some_and(|returning| returning.plan().is_some());
        if by_plan || plan.conflict.as_ref().is_some_and(Conflict::is_by_plan) {
            return None;
        }
        if plan.op == Op::Insert {
            return given(state, rows?);
        }
        if plan.stream.is_planned_each_time() {
            return None;
        }
        let parts = Parts::of(&plan.stream.logical).filter(|parts| parts.target && parts.table.id == plan.table.id)?;
        if !parts.sort.is_empty() || parts.group.is_some() || parts.fetch.is_some() || parts.skip > 0 {
            return None;
        }
        let set = match plan.op {
            Op::Update => {
                let mut set = Vec::new();
                for (column, expr) in parts.output.get(..plan.table.columns.len())?.iter().enumerate() {
                    let expr = RowExpr::new(expr, Some(&plan.table), &parts.schema)?;
                    if expr.column() != Some(column) {
                        set.push((column, expr));
                    }
                }
                Some(set)
            }
            _ => parts.output.last().is_some_and(is_key).then_some(None)?,
        };
        let paths = parts.paths();
        let path = paths.iter().filter(|path| !path.equal.is_empty()).max_by_key(|path| path.score())?;
        // A condition that calls a volatile function (`nextval`) would be asked again by the stream, where there are too many rows.
        if !path.is_one() && parts.filter.as_ref().is_some_and(|filter| filter.is_volatile()) {
            return None;
        }
        Some(Self::Found { rows: Rows::new(&parts, path)?, set })
    }

    /// As EXPLAIN shows the rows that are written.
    pub(crate) fn node(&self, look: &Look<'_>) -> Node {
        match self {
            Self::Found { rows, .. } => rows.node(look, None),
            Self::Given(rows) => {
                let count = rows.len() as f64;
                let mut node = match rows.len() {
                    1 => Node::new("Result"),
                    _ => {
                        let on = On { alias: "*VALUES*".to_owned(), ..On::default() };
                        Node { on: Some(on), ..Node::new("Values Scan") }
                    }
                };
                let width = rows.first().map_or(0, |row| row.len() as u64 * 8);
                node.estimate = Some(Estimate { startup: 0.0, total: count * cost::ROW, rows: count, width });
                node
            }
        }
    }

    /// Whether there may be too many rows.
    pub(crate) fn may_be_long(&self) -> bool {
        matches!(self, Self::Found { rows, .. } if !rows.path.is_one())
    }

    /// Which rows these values find, and what kind of statement that makes; `None`: left to the stream.
    pub(super) fn locate(&self, params: &[ScalarValue]) -> Result<Option<(Option<Located>, StatementKind)>, SqlError> {
        Ok(match self {
            Self::Given(rows) if rows.len() == 1 => Some((None, StatementKind::PointWrite)),
            Self::Given(_) => Some((None, StatementKind::BulkWrite)),
            Self::Found { rows, .. } => rows.locate(params)?.map(|located| match located {
                Located::One(_) => (Some(located), StatementKind::PointWrite),
                Located::Ranges(_) => (Some(located), StatementKind::BulkWrite),
            }),
        })
    }

    /// Reads the rows; `None`: there are too many, and the stream does it.
    pub(super) fn gather(
        &self,
        located: Option<Located>,
        view: &ReadView,
        params: &[ScalarValue],
        stop: &StopFlag,
    ) -> Result<Option<Gathered>, SqlError> {
        let (rows, ranges) = match (self, located) {
            (Self::Given(_), _) | (_, None) => return Ok(Some(Gathered::Given)),
            (Self::Found { .. }, Some(Located::One(key))) => return Ok(Some(Gathered::One(key))),
            (Self::Found { rows, .. }, Some(Located::Ranges(ranges))) => (rows, ranges),
        };
        let (mut found, mut bytes) = (Vec::new(), 0);
        let all = rows.each(view, ranges, params, stop, None, &mut Touched::default(), |raw| {
            let mut row = RowBuf::default();
            row.set(raw);
            bytes += raw.key.len() + raw.value.len();
            found.push(row);
            let many = found.len() > ROWS_MAX || bytes > BYTES_MAX;
            Ok(if many { ControlFlow::Break(false) } else { ControlFlow::Continue(()) })
        })?;
        Ok(all.then_some(Gathered::Many(found)))
    }

    /// How its rows come, if they are inserted.
    pub(super) fn how(&self) -> How {
        match self {
            Self::Given(given) if given.len() > 1 => How::Many,
            _ => How::Single,
        }
    }

    /// Writes the rows.
    pub(super) async fn feed(&self, gathered: Gathered, modify: &mut Modify<'_>) -> Result<(), SqlError> {
        let (rows, set) = match self {
            Self::Given(given) => {
                // As in PostgreSQL all values are there before the first row is written.
                let width = modify.table().columns.len();
                let mut datums = vec![Datum::Null; given.len() * width];
                // Constants first: PostgreSQL finds one that does not fit before it computes anything, so that no sequence goes on for it.
                for is_constant in [true, false] {
                    for (row, datums) in given.iter().zip(datums.chunks_mut(width.max(1))) {
                        let values = row.iter().zip(&modify.table().columns).zip(datums);
                        for ((expr, column), datum) in values.filter(|((expr, _), _)| expr.is_constant() == is_constant)
                        {
                            let value = expr.evaluate(Input { params: modify.params, row: None })?;
                            *datum = assigned(&value, column, &modify.zone)?;
                        }
                    }
                }
                for at in 0..given.len() {
                    let refs: Vec<DatumRef<'_>> =
                        datums[at * width..(at + 1) * width].iter().map(Datum::as_ref).collect();
                    modify.insert(&refs, Known::Not).await?;
                }
                return modify.flush().await;
            }
            Self::Found { rows, set } => (rows, set.as_deref()),
        };
        match gathered {
            Gathered::Given => {}
            Gathered::One(key) => {
                let mut row = RowBuf::default();
                if rows.one(modify.view(), &key, modify.params, &mut row)? {
                    change(modify, rows, set, row).await?;
                }
            }
            Gathered::Many(found) => {
                for row in found {
                    change(modify, rows, set, row).await?;
                }
            }
        }
        Ok(())
    }
}

/// Changes a row that qualifies.
async fn change(
    modify: &mut Modify<'_>,
    rows: &Rows,
    set: Option<&[(usize, RowExpr)]>,
    row: RowBuf,
) -> Result<(), SqlError> {
    let (txn, table) = (modify.txn(), modify.table());
    let mut work = TreeWork { modify, rows, set, newest: None, row: &row };
    settle_row(txn, table, row.raw().key, &mut work).await?;
    Ok(())
}

struct TreeWork<'m, 'a> {
    modify: &'m mut Modify<'a>,
    rows: &'m Rows,
    set: Option<&'m [(usize, RowExpr)]>,
    row: &'m RowBuf,
    /// Instead of `row`.
    newest: Option<RowBuf>,
}

impl RowWork for TreeWork<'_, '_> {
    async fn attempt(&mut self, key: &[u8], seen: Seen) -> Result<Option<Change>, SqlError> {
        let Some(set) = self.set else { return self.modify.delete(key, seen).await.map(Some) };
        let values = Values::Stored(self.newest.as_ref().unwrap_or(self.row).raw());
        let row = Row { table: self.modify.table(), values, view: self.modify.view() };
        let new = after(set, row, self.modify.params, &self.modify.zone)?;
        let refs: Vec<DatumRef<'_>> = new.iter().map(New::datum).collect();
        self.modify.update(key, seen, &refs, Known::Not).await.map(Some)
    }

    async fn judge(&mut self, newest: &RowBuf) -> Result<bool, SqlError> {
        self.newest.get_or_insert_default().set(newest.raw());
        self.rows.qualifies(newest.raw(), self.modify.params, self.modify.view())
    }
}

/// Rows of a plan.
pub(super) struct Stream<'a> {
    pub op: Op,
    pub plan: &'a QueryPlan,
    /// What is done with its rows, of a MERGE.
    pub merge: Option<&'a MergePlan>,
    pub state: &'a SessionState,
    pub values: &'a [ScalarValue],
    pub stop: &'a Arc<StopFlag>,
    /// Rows that were locked for it, and its WITH queries.
    pub beside: Beside,
    /// The statement's text, for the places of errors.
    pub text: &'a str,
    /// See [`WritePlan::is_given`].
    pub is_given: bool,
    /// See [`crate::plan::analyze::Write::sources`].
    pub sources: usize,
    /// The row that it writes, of WHERE CURRENT OF.
    pub current: Option<CurrentRow>,
}

/// The row of a table that a cursor is on.
pub(crate) struct CurrentRow {
    /// Its key, as the cursor's query has found it.
    pub key: Vec<u8>,
    /// What that was read by.
    pub before: ReadView,
    /// The table, as it was defined then.
    pub table: Arc<Table>,
}

impl CurrentRow {
    /// The row as the statement sees it, in place of all rows of the table.
    fn now(&self, modify: &Modify<'_>) -> Result<TargetRow, SqlError> {
        let table = modify.table();
        if !table.is_stored_as(&self.table) {
            let text = format!("cursor of table \"{}\", which has been written anew since", table.name);
            return Err(SqlError::new("55000", text));
        }
        let mut row = RowBuf::default();
        let found = modify.txn().followed(table, &self.key, (&self.before, modify.view()), &mut row)?;
        Ok(TargetRow::new(table.id, found.then_some(row)))
    }
}

impl Stream<'_> {
    pub(super) fn failed(&self, error: DataFusionError) -> SqlError {
        errors::from_datafusion(error, self.text)
    }

    /// A task that finds `more` in its configuration.
    pub(super) fn task_with<T: Send + Sync + 'static>(&self, view: &ReadView, more: Arc<T>) -> Arc<TaskContext> {
        let statement = self.context(view, None);
        task_of(self.state, self.state.config().clone().with_extension(more), Arc::new(statement))
    }

    fn task(&self, view: &ReadView, target: Option<TargetRow>) -> Arc<TaskContext> {
        task_context(self.state, Arc::new(self.context(view, target)))
    }

    fn context(&self, view: &ReadView, target: Option<TargetRow>) -> StatementContext {
        let (stop, locked, once) = (Arc::clone(self.stop), self.beside.locked.clone(), self.beside.once());
        StatementContext { view: view.clone(), stop, target, locked, once }
    }

    /// Runs the plan, and writes what it gives. Returns the plan, if it is to be shown.
    pub(super) async fn feed(&self, modify: &mut Modify<'_>, shown: Option<Options>) -> Result<Option<Node>, SqlError> {
        let mut instance = self.plan.instance(self.state, self.values).await.map_err(|error| self.failed(error))?;
        if let Some(shown) = shown {
            instance.measure(shown.timing).map_err(|error| self.failed(error))?;
        }
        let target = self.current.as_ref().map(|current| current.now(modify)).transpose()?;
        let mut stream = instance.start(self.task(modify.view(), target)).map_err(|error| self.failed(error))?;
        while let Some(batch) = stream.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Err(modify.behind(self.failed(error)).await),
            };
            match assigned_or_not(self.op, self.sources, modify, &batch) {
                Ok(batch) => self.write(modify, &batch).await?,
                // The rows before the one that fails are written first.
                Err(_) if batch.num_rows() > 1 && !self.is_given => {
                    for row in 0..batch.num_rows() {
                        match assigned_or_not(self.op, self.sources, modify, &batch.slice(row, 1)) {
                            Ok(row) => self.write(modify, &row).await?,
                            Err(error) => return Err(modify.behind(error).await),
                        }
                    }
                }
                Err(error) => return Err(modify.behind(error).await),
            }
            self.stop.check()?;
        }
        drop(stream);
        modify.flush().await?;
        match shown {
            Some(shown) => Ok(Some(convert::node(&instance, shown, &Look::new(self.state), &[]))),
            None => {
                self.plan.give_back(instance);
                Ok(None)
            }
        }
    }

    async fn write(&self, modify: &mut Modify<'_>, given: &Given) -> Result<(), SqlError> {
        let table = modify.table();
        if let Some(merge) = self.merge {
            return merge.write(self, modify, given).await;
        }
        let rows = match self.op {
            Op::Delete => None,
            _ => Some(Assigned::new(table, &given.batch)?),
        };
        let keys = match self.op {
            Op::Insert => None,
            _ => Some(given.keys()?),
        };
        for at in 0..given.batch.num_rows() {
            if at % ROWS_PER_TURN == ROWS_PER_TURN - 1 {
                self.stop.check()?;
                tokio::task::yield_now().await;
            }
            let row = match rows.as_ref().map(|rows| rows.row(at)).transpose() {
                Ok(row) => row,
                Err(error) => return Err(modify.behind(error).await),
            };
            let known = given.broken.as_ref().map_or(Known::Not, |broken| Known::Of(broken, at));
            match (keys, row) {
                (None, Some(row)) => modify.insert(&row, known).await?,
                (None, None) => return Err(SqlError::internal("an INSERT without rows")),
                (Some(keys), _) if keys.is_null(at) => {}
                (Some(keys), row) => {
                    let (txn, key) = (modify.txn(), keys.value(at));
                    let others = given.others.as_ref().map(|others| others.slice(at, 1));
                    let source = given.source.as_ref().map(|source| source.slice(at, 1));
                    let mut work = StreamWork { modify, stream: self, row, known, others, source, newest: None };
                    settle_row(txn, table, key, &mut work).await?;
                }
            }
        }
        Ok(())
    }

    /// What the plan makes of one version of a row of the target, joined with `source` if that is given: its answer, if there is one.
    async fn of_row(
        &self,
        modify: &Modify<'_>,
        row: &RowBuf,
        source: Option<&RecordBatch>,
    ) -> Result<Option<RecordBatch>, SqlError> {
        let mut given = RowBuf::default();
        given.set(row.raw());
        let target = TargetRow::new(modify.table().id, Some(given));
        let instance = self.plan.instance(self.state, self.values).await.map_err(|error| self.failed(error))?;
        let mut stream = instance.start(self.task(modify.view(), Some(target))).map_err(|error| self.failed(error))?;
        let mut found = None;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| self.failed(error))?;
            let is_it = |at: &usize| source.is_none_or(|source| is_of(&batch, *at, source));
            if let Some(at) = (0..batch.num_rows()).find(is_it) {
                found = Some(batch.slice(at, 1));
                break;
            }
        }
        drop(stream);
        self.plan.give_back(instance);
        Ok(found)
    }
}

/// A batch of a plan, as it is written.
pub(super) struct Given {
    pub batch: RecordBatch,
    keys: Option<Arc<dyn Array>>,
    /// What the rows were joined with, if RETURNING reads it; of a MERGE what [`MergePlan`] says.
    pub others: Option<RecordBatch>,
    /// What says which rows of FROM or USING they were joined with.
    source: Option<RecordBatch>,
    /// The constraints that its rows break, if that could be told of all of them together.
    pub broken: Option<Broken>,
    /// Of a MERGE: the numbers of the clauses.
    pub numbers: Option<Arc<dyn Array>>,
}

impl Given {
    pub(super) fn keys(&self) -> Result<&BinaryViewArray, SqlError> {
        let keys = self.keys.as_ref().and_then(|keys| keys.as_any().downcast_ref::<BinaryViewArray>());
        keys.ok_or_else(|| SqlError::internal("a write without keys"))
    }
}

fn assigned_or_not(op: Op, sources: usize, modify: &Modify<'_>, batch: &RecordBatch) -> Result<Given, SqlError> {
    let keys = if op == Op::Insert { None } else { batch.columns().last().cloned() };
    let others = others_of(op, modify.table().columns.len(), sources, batch)?;
    let source = (sources > 0).then(|| batch.project(&source_columns(batch, sources))).transpose();
    let source = source.map_err(|error| errors::from_arrow(&error))?;
    if op == Op::Delete {
        return Ok(Given { batch: batch.clone(), keys, others, source, broken: None, numbers: None });
    }
    let numbers = (op == Op::Merge).then(|| batch.columns().get(modify.table().columns.len()).cloned()).flatten();
    let batch = assigned_batch(modify.table(), batch, &modify.zone)?;
    // What is made of a row's columns is not in the batch.
    let broken = if modify.checks().has_generated() { None } else { modify.checks().broken(&batch).ok() };
    Ok(Given { batch, keys, others, source, broken, numbers })
}

/// Where the columns are that say which row of FROM or USING a row was joined with: before the key.
fn source_columns(batch: &RecordBatch, sources: usize) -> Vec<usize> {
    let key = batch.num_columns().saturating_sub(1);
    (key.saturating_sub(sources)..key).collect()
}

/// Whether the row at `at` was joined with that row of FROM or USING.
fn is_of(batch: &RecordBatch, at: usize, source: &RecordBatch) -> bool {
    let columns = source_columns(batch, source.num_columns());
    let same = |(column, wanted): (usize, &Arc<dyn Array>)| {
        batch.column(column).slice(at, 1).to_data() == wanted.slice(0, 1).to_data()
    };
    columns.into_iter().zip(source.columns()).all(same)
}

/// The columns between the new values and the key that RETURNING reads.
fn others_of(op: Op, width: usize, sources: usize, batch: &RecordBatch) -> Result<Option<RecordBatch>, SqlError> {
    let first = match op {
        Op::Insert => return Ok(None),
        Op::Update => width,
        Op::Delete => 0,
        Op::Merge => {
            return batch
                .project(&MergePlan::others(width, batch))
                .map(Some)
                .map_err(|error| errors::from_arrow(&error));
        }
    };
    let others: Vec<usize> = (first..batch.num_columns().saturating_sub(1 + sources)).collect();
    if others.is_empty() {
        return Ok(None);
    }
    batch.project(&others).map(Some).map_err(|error| errors::from_arrow(&error))
}

struct StreamWork<'m, 'a, 'b> {
    modify: &'m mut Modify<'a>,
    stream: &'m Stream<'m>,
    /// `None` deletes it.
    row: Option<Vec<DatumRef<'b>>>,
    known: Known<'b>,
    others: Option<RecordBatch>,
    /// Which row of FROM or USING it was joined with.
    source: Option<RecordBatch>,
    /// Instead of `row`: the answer for its newest version.
    newest: Option<RecordBatch>,
}

impl RowWork for StreamWork<'_, '_, '_> {
    async fn attempt(&mut self, key: &[u8], seen: Seen) -> Result<Option<Change>, SqlError> {
        self.modify.others = self.others.clone();
        let change = match (&self.row, &self.newest) {
            (None, _) => self.modify.delete(key, seen).await,
            (Some(row), None) => self.modify.update(key, seen, row, self.known).await,
            (Some(_), Some(newest)) => {
                let assigned = Assigned::new(self.modify.table(), newest)?;
                let row = assigned.row(0)?;
                self.modify.update(key, seen, &row, Known::Not).await
            }
        };
        change.map(Some)
    }

    async fn judge(&mut self, newest: &RowBuf) -> Result<bool, SqlError> {
        let answer = self.stream.of_row(self.modify, newest, self.source.as_ref()).await?;
        let Some(batch) = answer else { return Ok(false) };
        let op = if self.row.is_some() { Op::Update } else { Op::Delete };
        self.others = others_of(op, self.modify.table().columns.len(), self.stream.sources, &batch)?;
        if self.row.is_some() {
            self.newest = Some(assigned_batch(self.modify.table(), &batch, &self.modify.zone)?);
        }
        Ok(true)
    }
}

fn is_key(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_key(&alias.expr),
        Expr::Column(column) => column.name == KEY_COLUMN,
        _ => false,
    }
}

/// The rows of an INSERT that are written out.
fn given(state: &SessionState, rows: Vec<Vec<Expr>>) -> Option<Tree> {
    if rows.len() > GIVEN_MAX {
        return None;
    }
    let empty = DFSchema::empty();
    let row_of = |row: Vec<Expr>| {
        let value = |expr: Expr| {
            let expr = as_in_plan(state, expr, &empty).and_then(|expr| simplified(state, expr, &empty)).ok()?;
            RowExpr::new(&expr, None, &empty)
        };
        row.into_iter().map(value).collect::<Option<Vec<_>>>()
    };
    rows.into_iter().map(row_of).collect::<Option<Vec<_>>>().map(Tree::Given)
}
