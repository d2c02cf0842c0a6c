//! Running the short path.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use resurgam_engine::{Attempt, Change, Datum, DatumRef, ReadView, RowBuf, Seen, StatementKind, Table};

use super::expr::{FastExpr, Input};
use super::shape::{Fast, FastWrite, Lookup};
use crate::bridge::{self, KeyValue};
use crate::pg::arrow::datum_of_scalar;
use crate::pg::datetime::Zone;
use crate::pg::encode::encode_datum;
use crate::pg::errors;
use crate::session::Session;
use crate::stream::guarded;
use crate::wait::{Waiting, settle};
use crate::wire::{Format, RowChunk, SqlError};
use crate::write::WritePlan;

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

    pub(crate) fn qualifies(&self, params: &[ScalarValue], row: &RowBuf, view: &ReadView) -> Result<bool, SqlError> {
        match &self.residual {
            None => Ok(true),
            Some(residual) => residual.holds(Input { params, row: Some((&self.table, row.raw(), view)) }),
        }
    }
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
    /// Appends a row's output to `chunk`. There are as many formats as columns, or one, or none.
    pub(crate) fn encode(
        &self,
        params: &[ScalarValue],
        row: &RowBuf,
        view: &ReadView,
        formats: &[Format],
        zone: &Zone,
        chunk: &mut RowChunk,
    ) -> Result<(), SqlError> {
        chunk.bytes.reserve(64);
        let table: &Table = &self.lookup.table;
        for (at, (expr, ty)) in self.output.iter().enumerate() {
            let format = match formats {
                [] => Format::Text,
                [one] => *one,
                many => many[at],
            };
            match expr.column().map(|column| table.column(row.raw(), column)) {
                Some(Ok(DatumRef::External(reference))) => {
                    let datum =
                        bridge::external(view, reference).map_err(|error| errors::from_datafusion(error, ""))?;
                    encode_datum(datum.as_ref(), ty, format, zone, &mut chunk.bytes)?;
                }
                Some(datum) => encode_datum(datum?, ty, format, zone, &mut chunk.bytes)?,
                None => {
                    let value = expr.evaluate(Input { params, row: Some((table, row.raw(), view)) })?;
                    let datum = datum_of_scalar(&value, ty, zone)?;
                    encode_datum(datum.as_ref(), ty, format, zone, &mut chunk.bytes)?;
                }
            }
        }
        chunk.ends.push(chunk.bytes.len() as u32);
        Ok(())
    }
}

/// A new value of a column.
enum New<'a> {
    Kept(DatumRef<'a>),
    Given(Datum),
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
        if formats.len() > 1 && formats.len() != fast.output.len() {
            return Ok(None); // told by the general path
        }
        let mut chunk = RowChunk { fields: fast.output.len() as i16, ..RowChunk::default() };
        let zone = self.shared.variables.lock().zone;
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        let Some(key) = key else { return Ok(Some(chunk)) };
        let mut row = RowBuf::default();
        if !fast.lookup.read(&view, &key, &mut row)? || !fast.lookup.qualifies(params, &row, &view)? {
            return Ok(Some(chunk));
        }
        fast.encode(params, &row, &view, formats, &zone, &mut chunk)?;
        Ok(Some(chunk))
    }

    /// Rows written; `None` if the general path has to do it.
    pub(crate) async fn fast_write(
        &mut self,
        fast: &FastWrite,
        plan: &WritePlan,
        params: &[ScalarValue],
    ) -> Result<Option<u64>, SqlError> {
        let deadline = self.deadline();
        let stop = Arc::clone(&self.shared.stop);
        let (zone, lock_timeout) = {
            let variables = self.shared.variables.lock();
            (variables.zone, variables.lock_timeout)
        };
        let waiting = Waiting { stop: &stop, lock_timeout };
        let open = self.transaction();
        open.used = true;
        let work = run(fast, plan, params, &open.txn, &waiting, &zone);
        if deadline.is_some() { guarded(&stop, deadline, work).await } else { work.await }
    }
}

async fn run(
    fast: &FastWrite,
    plan: &WritePlan,
    params: &[ScalarValue],
    txn: &resurgam_engine::Transaction,
    waiting: &Waiting<'_>,
    zone: &Zone,
) -> Result<Option<u64>, SqlError> {
    let table = &plan.table;
    match fast {
        FastWrite::Insert(rows) => {
            let kind = if rows.len() == 1 { StatementKind::PointWrite } else { StatementKind::BulkWrite };
            txn.statement(kind)?;
            let mut datums: Vec<Datum> = Vec::with_capacity(table.columns.len());
            for row in rows {
                datums.clear();
                for (expr, column) in row.iter().zip(&table.columns) {
                    datums.push(assigned(expr, Input { params, row: None }, column, zone)?);
                }
                let refs: Vec<DatumRef<'_>> = datums.iter().map(Datum::as_ref).collect();
                settle(waiting, || txn.insert(table, &refs)).await.map_err(|error| named(error, table, &refs))?;
            }
            Ok(Some(rows.len() as u64))
        }
        FastWrite::Update { lookup, .. } | FastWrite::Delete(lookup) => {
            let key = match lookup.key(params)? {
                Key::Bytes(key) => key,
                Key::None => return Ok(Some(0)),
                Key::Unknown => return Ok(None),
            };
            let view = txn.statement(StatementKind::PointWrite)?;
            let mut row = RowBuf::default();
            if !lookup.read(&view, &key, &mut row)? {
                return Ok(Some(0));
            }
            let mut seen = Seen::Snapshot;
            let mut newer = RowBuf::default();
            loop {
                if !lookup.qualifies(params, &row, &view)? {
                    return Ok(Some(0));
                }
                let change = match fast {
                    FastWrite::Update { set, .. } => {
                        let input = Input { params, row: Some((table, row.raw(), &view)) };
                        let mut new = Vec::with_capacity(table.columns.len());
                        for column in 0..table.columns.len() {
                            new.push(New::Kept(table.column(row.raw(), column)?));
                        }
                        for (column, expr) in set {
                            new[*column] = New::Given(assigned(expr, input, &table.columns[*column], zone)?);
                        }
                        let refs: Vec<DatumRef<'_>> = new
                            .iter()
                            .map(|value| match value {
                                New::Kept(datum) => *datum,
                                New::Given(datum) => datum.as_ref(),
                            })
                            .collect();
                        match txn.update(table, row.raw().key, seen, &refs) {
                            Ok(Attempt::Done(change)) => change,
                            Ok(Attempt::Wait(wait)) => {
                                waiting.wait(wait).await?;
                                settle(waiting, || txn.update(table, row.raw().key, seen, &refs))
                                    .await
                                    .map_err(|error| named(error, table, &refs))?
                            }
                            Err(error) => return Err(named(error.into(), table, &refs)),
                        }
                    }
                    _ => settle(waiting, || txn.delete(table, row.raw().key, seen)).await?,
                };
                match change {
                    Change::Done => return Ok(Some(1)),
                    Change::Gone | Change::SelfModified => return Ok(Some(0)),
                    Change::Changed => {
                        match txn.latest(table, row.raw().key, &mut newer)? {
                            Some(version) => seen = version,
                            None => return Ok(Some(0)),
                        }
                        std::mem::swap(&mut row, &mut newer);
                        if !has_index_key(lookup, &key, &row)? {
                            return Ok(Some(0));
                        }
                    }
                }
            }
        }
    }
}

fn assigned(
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
fn named(error: SqlError, table: &Table, row: &[DatumRef<'_>]) -> SqlError {
    errors::from_datafusion(bridge::row_failure(error, table, row), "")
}
