//! Running the short path.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use resurgam_engine::{Attempt, Change, Datum, DatumRef, ReadView, RowBuf, Seen, StatementKind, Table};

use super::expr::{FastExpr, Input, Row, Values};
use super::output::Output;
use super::shape::{Fast, FastWrite, Lookup};
use super::upsert::{Upserted, upsert};
use crate::bridge::{self, KeyValue};
use crate::dml::WritePlan;
use crate::foreign::{Deferred, Enforcer, Help, References};
use crate::pg::arrow::datum_of_scalar;
use crate::pg::datetime::Zone;
use crate::pg::errors;
use crate::planner::Names;
use crate::session::Session;
use crate::stream::guarded;
use crate::wait::{Waiting, settle};
use crate::wire::{Format, RowChunk, SqlError};

/// How often a row is looked for that moves while it is looked for.
const LOOKS_MAX: usize = 100;

/// What a lookup's key came to.
pub(crate) enum Key {
    Bytes(Vec<u8>),
    /// No row can match.
    None,
    /// The short path cannot tell.
    Unknown,
}

impl Lookup {
    pub(crate) fn key(&self, params: &[ScalarValue]) -> Result<Key, SqlError> {
        let input = Input { params, row: None };
        let mut datums: [Datum; 4] = [Datum::Null, Datum::Null, Datum::Null, Datum::Null];
        let mut more;
        let datums: &mut [Datum] = if self.key.len() <= 4 {
            &mut datums[..self.key.len()]
        } else {
            more = vec![Datum::Null; self.key.len()];
            &mut more
        };
        for ((column, expr), slot) in self.key.iter().zip(datums.iter_mut()) {
            let value = expr.evaluate(input)?;
            match bridge::key_value(&value, &self.table.columns[*column].ty)
                .map_err(|error| errors::from_datafusion(error, ""))?
            {
                KeyValue::Exact(datum) => *slot = datum,
                KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => return Ok(Key::None),
                KeyValue::Unknown => return Ok(Key::Unknown),
            }
        }
        let mut bytes = Vec::with_capacity(16);
        let mut one = [DatumRef::Null];
        let many: Vec<DatumRef<'_>>;
        let refs: &[DatumRef<'_>] = match &*datums {
            [only] => {
                one[0] = only.as_ref();
                &one
            }
            all => {
                many = all.iter().map(Datum::as_ref).collect();
                &many
            }
        };
        let encoded = match self.index {
            None => self.table.encode_key(refs, &mut bytes),
            Some(index) => self.table.encode_index_key(index, refs, &mut bytes),
        };
        match encoded {
            Ok(()) => Ok(Key::Bytes(bytes)),
            // A value too long for a key is in no row.
            Err(error) if error.kind() == resurgam_engine::ErrorKind::LimitExceeded => Ok(Key::None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn read(&self, view: &ReadView, key: &[u8], row: &mut RowBuf) -> Result<bool, SqlError> {
        Ok(match self.index {
            None => view.get(&self.table, key, row)?,
            Some(index) => view.get_by_index(&self.table, &self.table.indexes[index], key, row)?,
        })
    }

    /// The row of a unique key in the newest committed state, after the one that the statement saw
    /// is gone or has another key: whoever was waited for may have given it another primary key.
    /// False: there is none, or rows are looked up by that very key.
    pub(crate) fn read_newest(&self, view: &ReadView, key: &[u8], row: &mut RowBuf) -> Result<bool, SqlError> {
        if self.index.is_none() {
            return Ok(false);
        }
        let newest = view.newest();
        for _ in 0..LOOKS_MAX {
            if !self.read(&newest, key, row)? {
                return Ok(false);
            }
            // Another row may have come to its place between the looks at the index and at the row.
            if has_index_key(self, key, row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn qualifies(&self, params: &[ScalarValue], row: &RowBuf, view: &ReadView) -> Result<bool, SqlError> {
        match &self.residual {
            None => Ok(true),
            Some(residual) => residual.holds(Input { params, row: Some(stored(&self.table, row, view)) }),
        }
    }
}

pub(super) fn stored<'a>(table: &'a Table, row: &'a RowBuf, view: &'a ReadView) -> Row<'a> {
    Row { table, values: Values::Stored(row.raw()), view }
}

/// Whether the row still has the key that a lookup through an index asked for.
pub(crate) fn has_index_key(lookup: &Lookup, key: &[u8], row: &RowBuf) -> Result<bool, SqlError> {
    let Some(index) = lookup.index else { return Ok(true) };
    let mut datums = Vec::new();
    for &column in &lookup.table.indexes[index].columns {
        match lookup.table.column(row.raw(), column)? {
            DatumRef::External(_) => return Ok(false),
            datum => datums.push(datum),
        }
    }
    let mut bytes = Vec::new();
    lookup.table.encode_index_key(index, &datums, &mut bytes)?;
    Ok(bytes == key)
}

impl Fast {
    /// Appends what is sent of a row to `chunk`.
    pub(crate) fn append(
        &self,
        params: &[ScalarValue],
        row: &RowBuf,
        view: &ReadView,
        formats: &[Format],
        zone: &Zone,
        chunk: &mut RowChunk,
    ) -> Result<(), SqlError> {
        let input = Input { params, row: Some(stored(&self.lookup.table, row, view)) };
        self.output.append(input, formats, zone, chunk)
    }
}

/// A new value of a column.
pub(super) enum New<'a> {
    Kept(DatumRef<'a>),
    Given(Datum),
}

impl New<'_> {
    pub(super) fn datum(&self) -> DatumRef<'_> {
        match self {
            New::Kept(datum) => *datum,
            New::Given(datum) => datum.as_ref(),
        }
    }
}

/// What a write by the short path did.
pub(crate) struct FastWritten {
    pub rows: u64,
    /// RETURNING's rows.
    pub returned: Option<RowChunk>,
}

/// RETURNING's rows while they gather.
pub(super) struct Returned<'a> {
    output: Option<&'a Output>,
    formats: &'a [Format],
    params: &'a [ScalarValue],
    zone: &'a Zone,
    chunk: Option<RowChunk>,
}

impl Returned<'_> {
    fn note(&mut self, table: &Table, values: Values<'_>, view: &ReadView) -> Result<(), SqlError> {
        if let (Some(output), Some(chunk)) = (self.output, &mut self.chunk) {
            let input = Input { params: self.params, row: Some(Row { table, values, view }) };
            output.append(input, self.formats, self.zone, chunk)?;
        }
        Ok(())
    }
    fn done(self, rows: u64) -> Result<Option<FastWritten>, SqlError> {
        Ok(Some(FastWritten { rows, returned: self.chunk }))
    }
}

impl Session {
    /// The row of a SELECT by key; `None` if the general path has to do it.
    pub(crate) fn fast_select(
        &mut self,
        fast: &Fast,
        params: &[ScalarValue],
        formats: &[Format],
    ) -> Result<Option<RowChunk>, SqlError> {
        let key = match fast.lookup.key(params)? {
            Key::Bytes(key) => Some(key),
            Key::None => None,
            Key::Unknown => return Ok(None),
        };
        if !fast.output.accepts(formats) {
            return Ok(None); // told by the general path
        }
        let mut chunk = fast.output.chunk();
        let zone = self.shared.variables.lock().zone;
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        let Some(key) = key else { return Ok(Some(chunk)) };
        let mut row = RowBuf::default();
        if !fast.lookup.read(&view, &key, &mut row)? || !fast.lookup.qualifies(params, &row, &view)? {
            return Ok(Some(chunk));
        }
        fast.append(params, &row, &view, formats, &zone, &mut chunk)?;
        Ok(Some(chunk))
    }

    /// What was written; `None` if the general path has to do it.
    pub(crate) async fn fast_write(
        &mut self,
        fast: &FastWrite,
        plan: &WritePlan,
        params: &[ScalarValue],
        formats: &[Format],
    ) -> Result<Option<FastWritten>, SqlError> {
        let output = plan.returning.as_ref().and_then(|returning| returning.short.as_ref());
        if output.is_some_and(|output| !output.accepts(formats)) {
            return Ok(None); // told by the general path
        }
        let deadline = self.deadline();
        let stop = Arc::clone(&self.shared.stop);
        let (zone, lock_timeout) = {
            let variables = self.shared.variables.lock();
            (variables.zone, variables.lock_timeout)
        };
        let waiting = Waiting { stop: &stop, lock_timeout };
        let state = if plan.references.is_empty() { None } else { Some((self.state()?, Arc::clone(&self.cx))) };
        let open = self.transaction();
        open.used = true;
        let chunk = output.map(Output::chunk);
        let returned = Returned { output, formats, params, zone: &zone, chunk };
        let (txn, deferred) = (&open.txn, &open.deferred);
        let foreign = state.as_ref().map(|(state, cx)| Foreign {
            references: &plan.references,
            deferred,
            help: Help { names: Names { state, txn, cx }, waiting, zone },
        });
        let work = run(fast, plan, params, txn, &waiting, &zone, returned, foreign.as_ref());
        if deadline.is_some() { guarded(&stop, deadline, work).await } else { work.await }
    }
}

/// What looking after foreign keys needs, if the statement concerns any.
struct Foreign<'a> {
    references: &'a Arc<References>,
    deferred: &'a Arc<parking_lot::Mutex<Deferred>>,
    help: Help<'a>,
}

impl Foreign<'_> {
    async fn begin(&self, txn: &resurgam_engine::Transaction) -> Result<Enforcer, SqlError> {
        Enforcer::begin(txn, self.references, self.deferred, &self.help.waiting).await
    }

    async fn finish(&self, mut enforcer: Enforcer) -> Result<(), SqlError> {
        if enforcer.is_done() { Ok(()) } else { enforcer.finish(&self.help).await }
    }
}

async fn run(
    fast: &FastWrite,
    plan: &WritePlan,
    params: &[ScalarValue],
    txn: &resurgam_engine::Transaction,
    waiting: &Waiting<'_>,
    zone: &Zone,
    mut returned: Returned<'_>,
    foreign: Option<&Foreign<'_>>,
) -> Result<Option<FastWritten>, SqlError> {
    let table = &plan.table;
    match fast {
        FastWrite::Insert(rows) => {
            let kind = if rows.len() == 1 { StatementKind::PointWrite } else { StatementKind::BulkWrite };
            if foreign.is_some() && plan.conflict.is_some() {
                return Ok(None);
            }
            let view = txn.statement(kind)?;
            let mut written = 0;
            let mut enforcer = match foreign {
                Some(foreign) => Some(foreign.begin(txn).await?),
                None => None,
            };
            let mut datums: Vec<Datum> = Vec::with_capacity(table.columns.len());
            for row in rows {
                datums.clear();
                for (expr, column) in row.iter().zip(&table.columns) {
                    datums.push(assigned(expr, Input { params, row: None }, column, zone)?);
                }
                let refs: Vec<DatumRef<'_>> = datums.iter().map(Datum::as_ref).collect();
                match &plan.conflict {
                    None => {
                        settle(waiting, || txn.insert(table, &refs))
                            .await
                            .map_err(|error| named(error, table, &refs))?;
                        if let Some(enforcer) = &mut enforcer {
                            enforcer.inserted(&refs)?;
                        }
                        returned.note(table, Values::Given(&refs), &view)?;
                    }
                    Some(conflict) => {
                        let Some(resolution) = &conflict.short else { return Ok(None) };
                        match upsert(table, conflict, resolution, &refs, params, txn, waiting, zone).await? {
                            Upserted::Nothing => continue,
                            Upserted::Inserted => returned.note(table, Values::Given(&refs), &view)?,
                            Upserted::Updated(row) => {
                                let row: Vec<DatumRef<'_>> = row.iter().map(Datum::as_ref).collect();
                                returned.note(table, Values::Given(&row), &view)?;
                            }
                        }
                    }
                }
                written += 1;
            }
            if let (Some(foreign), Some(enforcer)) = (foreign, enforcer) {
                foreign.finish(enforcer).await?;
            }
            returned.done(written)
        }
        FastWrite::Range(range) => {
            let Some((view, rows)) = range.gather(params, txn, waiting.stop)? else { return Ok(None) };
            let mut enforcer = match foreign {
                Some(foreign) => Some(foreign.begin(txn).await?),
                None => None,
            };
            let by = Writer { table, params, txn, waiting, zone };
            let rows = range.write(rows, &by, &view, &mut enforcer, &mut returned).await?;
            if let (Some(foreign), Some(enforcer)) = (foreign, enforcer) {
                foreign.finish(enforcer).await?;
            }
            returned.done(rows)
        }
        FastWrite::Update { lookup, .. } | FastWrite::Delete(lookup) => {
            let key = match lookup.key(params)? {
                Key::Bytes(key) => key,
                Key::None => return returned.done(0),
                Key::Unknown => return Ok(None),
            };
            let view = txn.statement(StatementKind::PointWrite)?;
            let mut row = RowBuf::default();
            if !lookup.read(&view, &key, &mut row)? {
                return returned.done(0);
            }
            let set = match fast {
                FastWrite::Update { set, .. } => Some(set.as_slice()),
                _ => None,
            };
            let by = Writer { table, params, txn, waiting, zone };
            let mut seen = Seen::Snapshot;
            let mut newer = RowBuf::default();
            let mut enforcer = match foreign {
                Some(foreign) => Some(foreign.begin(txn).await?),
                None => None,
            };
            loop {
                if !lookup.qualifies(params, &row, &view)? {
                    return returned.done(0);
                }
                let change = by.change(set, &row, seen, &view, &mut enforcer, &mut returned).await?;
                match change {
                    Change::Done => {
                        if let (Some(foreign), Some(enforcer)) = (foreign, enforcer) {
                            foreign.finish(enforcer).await?;
                        }
                        return returned.done(1);
                    }
                    Change::SelfModified => return returned.done(0),
                    Change::Changed | Change::Gone => {
                        let changed = change == Change::Changed;
                        let newest = if changed { txn.latest(table, row.raw().key, &mut newer)? } else { None };
                        match newest {
                            Some(version) if has_index_key(lookup, &key, &newer)? => {
                                seen = version;
                                std::mem::swap(&mut row, &mut newer);
                            }
                            // Not seen by the snapshot: it will be said to have changed.
                            _ if lookup.read_newest(&view, &key, &mut row)? => seen = Seen::Snapshot,
                            _ => return returned.done(0),
                        }
                    }
                }
            }
        }
    }
}

/// Who changes rows of a table that have been read.
pub(super) struct Writer<'a> {
    pub table: &'a Arc<Table>,
    pub params: &'a [ScalarValue],
    pub txn: &'a resurgam_engine::Transaction,
    pub waiting: &'a Waiting<'a>,
    pub zone: &'a Zone,
}

impl Writer<'_> {
    /// Gives `row` the new values of `set`, or deletes it. Only if it is what it was when it was
    /// `seen` is that done.
    pub(super) async fn change(
        &self,
        set: Option<&[(usize, FastExpr)]>,
        row: &RowBuf,
        seen: Seen,
        view: &ReadView,
        enforcer: &mut Option<Enforcer>,
        returned: &mut Returned<'_>,
    ) -> Result<Change, SqlError> {
        let Self { table, params, txn, waiting, zone } = *self;
        let Some(set) = set else {
            let change = settle(waiting, || txn.delete(table, row.raw().key, seen)).await?;
            if change == Change::Done {
                if let Some(enforcer) = enforcer {
                    enforcer.deleted(row, waiting).await?;
                }
                returned.note(table, Values::Stored(row.raw()), view)?;
            }
            return Ok(change);
        };
        let input = Input { params, row: Some(stored(table, row, view)) };
        let mut new = Vec::with_capacity(table.columns.len());
        for column in 0..table.columns.len() {
            new.push(New::Kept(table.column(row.raw(), column)?));
        }
        for (column, expr) in set {
            new[*column] = New::Given(assigned(expr, input, &table.columns[*column], zone)?);
        }
        let refs: Vec<DatumRef<'_>> = new.iter().map(New::datum).collect();
        let change = match txn.update(table, row.raw().key, seen, &refs) {
            Ok(Attempt::Done(change)) => change,
            Ok(Attempt::Wait(wait)) => {
                waiting.wait(wait).await?;
                settle(waiting, || txn.update(table, row.raw().key, seen, &refs))
                    .await
                    .map_err(|error| named(error, table, &refs))?
            }
            Err(error) => return Err(named(error.into(), table, &refs)),
        };
        if change == Change::Done {
            // What was read is what it was, when this is done.
            if let Some(enforcer) = enforcer {
                enforcer.updated(row, &refs, waiting).await?;
            }
            returned.note(table, Values::Given(&refs), view)?;
        }
        Ok(change)
    }
}

pub(super) fn assigned(
    expr: &FastExpr,
    input: Input<'_>,
    column: &resurgam_engine::Column,
    zone: &Zone,
) -> Result<Datum, SqlError> {
    datum_of_scalar(&expr.evaluate(input)?, &column.ty, zone).map_err(|mut error| {
        if error.column.is_none() {
            error.column = Some(column.name.clone());
        }
        error
    })
}

#[cold]
pub(super) fn named(error: SqlError, table: &Table, row: &[DatumRef<'_>]) -> SqlError {
    errors::from_datafusion(bridge::row_failure(error, table, row), "")
}
