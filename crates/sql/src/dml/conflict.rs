//! ON CONFLICT: the newest row that stands in the way of a new one, whatever the statement's snapshot sees,
//! is left alone or updated if it is still the newest then; otherwise everything begins again. Others go on meanwhile: the row to which an
//! index has led may have another key by the time at which it is read, and the row that kept a new one out may be gone when it is looked for.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use resurgam_base::pauses::Pause;
use resurgam_engine::{Change, Datum, DatumRef, Isolation, LockWait, Presence, RowBuf, Seen, Table, Transaction};

use super::assign::assigned;
use super::planned::RowsPlan;
use super::row::Writer;
use super::source::Stream;
use crate::dml::check::Part;
use crate::dml::foreign::whole;
use crate::exec::access_path::encode_key;
use crate::exec::direct::{Input, Row, RowExpr, Values};
use crate::pg::datetime::Zone;
use crate::pg::errors;
use crate::wire::SqlError;

/// So often a row is inserted again that a row kept out which is gone when it is looked for.
const TRIES_MAX: usize = 10_000;

/// What is done about conflicts.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The unique keys whose conflicts are handled: `None` is the primary key.
    pub keys: Vec<Option<usize>>,
    /// `None` is DO NOTHING.
    pub update: Option<ConflictUpdate>,
    /// What DO UPDATE assigns to which columns.
    pub assigned: Vec<(usize, Expr)>,
    /// Its values depend on the session.
    pub of_session: bool,
}

/// DO UPDATE: expressions over the existing row followed by the proposed one.
#[derive(Debug)]
pub(crate) enum ConflictUpdate {
    Row {
        /// Column and value.
        set: Vec<(usize, RowExpr)>,
        condition: Option<RowExpr>,
    },
    /// The columns that are set, and what gives their values, if the row is to be updated.
    Plan(Vec<usize>, Box<RowsPlan>),
}

impl ConflictUpdate {
    /// Of expressions over `joined`: the table's columns, and then the proposed row's. `None` if one needs
    /// more than the two rows.
    pub(super) fn new(set: &[(usize, Expr)], condition: Option<&Expr>, joined: &DFSchema) -> Option<Self> {
        let position = |column: &Column| joined.maybe_index_of_column(column);
        let expr = |expr: &Expr| RowExpr::over(expr, &position, joined);
        let set = set.iter().map(|(column, value)| Some((*column, expr(value)?))).collect::<Option<_>>()?;
        let condition = match condition {
            Some(condition) => Some(expr(condition)?),
            None => None,
        };
        Some(Self::Row { set, condition })
    }

    /// The columns that are set.
    pub(super) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Row { set, .. } => set.iter().map(|(column, _)| *column).collect(),
            Self::Plan(columns, _) => columns.clone(),
        }
    }

    /// The new values of the existing row's columns; `None`: the condition does not hold. If it does, `allowed` says whether the
    /// row may be updated, before values are made of what it has.
    async fn values<'r>(
        &self,
        both: Row<'r>,
        params: &[ScalarValue],
        zone: &Zone,
        stream: Option<&Stream<'_>>,
        allowed: impl Fn() -> Result<(), SqlError>,
    ) -> Result<Option<Vec<New<'r>>>, SqlError> {
        let (columns, plan) = match self {
            Self::Row { set, condition } => {
                if let Some(condition) = condition
                    && !condition.holds(Input { params, row: Some(both) })?
                {
                    return Ok(None);
                }
                allowed()?;
                return after(set, both, params, zone).map(Some);
            }
            Self::Plan(columns, plan) => (columns, plan),
        };
        let Some(stream) = stream else { return Err(SqlError::internal("ON CONFLICT without its plan")) };
        let table: &'r Table = both.table;
        let mut rows = plan.rows();
        rows.push(both, table.columns.len() * 2, None)?;
        let Some(rows) = rows.finish()? else { return Ok(None) };
        let answer = match plan.run(stream, both.view, rows).await {
            Ok(answer) => answer,
            // The condition and the values are one plan: its error must not tell of a row that may not be updated.
            Err(error) => return Err(allowed().err().unwrap_or(error)),
        };
        let Some(batch) = answer.into_iter().find(|batch| batch.num_rows() > 0) else { return Ok(None) };
        allowed()?;
        let mut new =
            (0..table.columns.len()).map(|at| both.column(at).map(New::Kept)).collect::<Result<Vec<_>, _>>()?;
        for (&column, array) in columns.iter().zip(batch.columns()) {
            let value = ScalarValue::try_from_array(array, 0).map_err(|error| errors::from_datafusion(error, ""))?;
            new[column] = New::Given(assigned(&value, &table.columns[column], zone)?);
        }
        Ok(Some(new))
    }
}

/// What became of a row.
pub(super) enum Resolved {
    Inserted,
    /// The row that there was, and what it is now.
    Updated(RowBuf, Vec<Datum>),
    Nothing,
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

/// The columns of `row`'s table after `set`; expressions are over `row`, which may have another row behind it.
pub(super) fn after<'r>(
    set: &[(usize, RowExpr)],
    row: Row<'r>,
    params: &[ScalarValue],
    zone: &Zone,
) -> Result<Vec<New<'r>>, SqlError> {
    let table: &'r Table = row.table;
    let mut new = Vec::with_capacity(table.columns.len());
    for column in 0..table.columns.len() {
        new.push(New::Kept(row.column(column)?));
    }
    for (column, expr) in set {
        let value = expr.evaluate(Input { params, row: Some(row) })?;
        new[*column] = New::Given(assigned(&value, &table.columns[*column], zone)?);
    }
    Ok(new)
}

impl Conflict {
    /// Whether it needs a plan.
    pub(super) fn is_by_plan(&self) -> bool {
        matches!(self.update, Some(ConflictUpdate::Plan(..)))
    }

    /// Inserts `row`, which is not refused, or does what there is to do about the row in its way.
    pub(super) async fn resolve(
        &self,
        writer: &Writer<'_>,
        row: &[DatumRef<'_>],
        params: &[ScalarValue],
        zone: &Zone,
        stream: Option<&Stream<'_>>,
    ) -> Result<Resolved, SqlError> {
        let (txn, table) = (writer.txn(), writer.table);
        self.refuse_deferrable(table)?;
        // Also what the engine finds out only when it inserts.
        table.check_row(row).map_err(|error| crate::exec::bridge::named(error.into(), table, row))?;
        writer.lock_table().await?;
        let mut tries = 0;
        loop {
            if let Some(found) = self.in_the_way(txn, table, row)? {
                let Found { key, existing, .. } = &found;
                let Some(update) = &self.update else {
                    if let Some(wait) = undecided(txn, table, &found)? {
                        writer.waiting.wait(wait).await?;
                        continue;
                    }
                    frozen(writer, &found)?;
                    return Ok(Resolved::Nothing);
                };
                let seen = frozen(writer, &found)?;
                if writer.statement.is_own_work(table, key, found.seen) {
                    return Err(second_time());
                }
                let both = Row { table, values: Values::Both(existing.raw(), row), view: writer.view() };
                let there = Row { table, values: Values::Stored(existing.raw()), view: writer.view() };
                writer.checks.refuse(Part::Shown, there)?;
                let allowed = || writer.checks.refuse(Part::Existing, there);
                let Some(new) = update.values(both, params, zone, stream, allowed).await? else {
                    // It stays as it is, and locked: whoever is changing it is waited for.
                    match writer.lock_row(key, seen).await? {
                        Change::Changed | Change::Gone => continue,
                        Change::Done => {
                            writer.statement.locked_only(table, key);
                            return Ok(Resolved::Nothing);
                        }
                        Change::SelfModified => return Ok(Resolved::Nothing),
                    }
                };
                let mut refs: Vec<DatumRef<'_>> = new.iter().map(New::datum).collect();
                let made = writer.checks.generated(table, &refs, writer.view())?;
                if let Some(made) = &made {
                    refs = made.iter().map(Datum::as_ref).collect();
                }
                writer.refuse_updated(&refs)?;
                match writer.update(key, seen, &refs, None).await? {
                    Change::Done => {
                        writer.refuse_unseen(&refs)?;
                        let new = refs.iter().map(DatumRef::to_owned).collect();
                        return Ok(Resolved::Updated(found.existing, new));
                    }
                    Change::SelfModified => return Err(second_time()),
                    Change::Changed | Change::Gone => continue,
                }
            }
            match writer.insert(row).await {
                Ok(()) => return Ok(Resolved::Inserted),
                // Someone was faster, and may be gone by now, or another constraint is in the way.
                Err(error) if error.sqlstate == "23505" => {
                    Pause::RowRead.here();
                    tries += 1;
                    let again = self.is_about(table, &error) && tries < TRIES_MAX;
                    if !again && self.in_the_way(txn, table, row)?.is_none() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// `55000`: of a key that may be there several times for a while, no row is the one in the way.
    fn refuse_deferrable(&self, table: &Table) -> Result<(), SqlError> {
        let mut indexes = self.keys.iter().filter_map(|key| table.indexes.get((*key)?));
        let Some(index) = indexes.find(|index| index.is_deferrable()) else { return Ok(()) };
        let text = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
        let mut error = SqlError::new("55000", text);
        error.schema = Some(table.schema.clone());
        error.table = Some(table.name.clone());
        error.constraint = Some(index.name.clone());
        Err(error)
    }

    /// Whether one of the keys whose conflicts are handled kept the row out.
    fn is_about(&self, table: &Table, error: &SqlError) -> bool {
        let name = |key: &Option<usize>| match key {
            None => Some(&table.primary_key_name),
            Some(at) => table.indexes.get(*at).map(|index| &index.name),
        };
        self.keys.iter().filter_map(name).any(|name| error.constraint.as_ref() == Some(name))
    }

    /// The newest row that has one of the keys in common with `row`.
    fn in_the_way(
        &self,
        txn: &Transaction,
        table: &Arc<Table>,
        row: &[DatumRef<'_>],
    ) -> Result<Option<Found>, SqlError> {
        let mut existing = RowBuf::default();
        for key in &self.keys {
            let columns = key.map_or(&table.primary_key, |i| &table.indexes[i].columns);
            let values: Vec<DatumRef<'_>> = columns.iter().map(|&c| row[c]).collect();
            if !table.keeps_out(*key, &values) {
                continue;
            }
            let encoded = encode_key(table, *key, &values).map_err(|error| errors::from_datafusion(error, ""))?;
            let Some(encoded) = encoded else { continue };
            loop {
                let clustered = match key {
                    None => encoded.clone(),
                    Some(i) => {
                        // What stands in the way is met as writers meet it, durable or not, and their own.
                        let view = txn.view()?.newest().with_own_writes();
                        if !view.get_by_index(table, &table.indexes[*i], &encoded, &mut existing)? {
                            break;
                        }
                        existing.raw().key.to_vec()
                    }
                };
                let Some(seen) = txn.latest(table, &clustered, &mut existing)? else { break };
                // Else it was given another key since the index led to it.
                let still = match key {
                    None => true,
                    Some(at) => has_key(txn, table, *at, &existing, &encoded)?,
                };
                if still {
                    return Ok(Some(Found { index: *key, encoded, key: clustered, existing, seen }));
                }
            }
        }
        Ok(None)
    }
}

/// Whether a row has this key of an index.
fn has_key(txn: &Transaction, table: &Table, index: usize, row: &RowBuf, key: &[u8]) -> Result<bool, SqlError> {
    let columns = table.indexes[index].columns.iter();
    let values = columns.map(|at| whole(txn, table.column(row.raw(), *at)?)).collect::<Result<Vec<_>, _>>()?;
    let refs: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
    let own = encode_key(table, Some(index), &refs).map_err(|error| errors::from_datafusion(error, ""))?;
    Ok(own.as_deref() == Some(key))
}

fn second_time() -> SqlError {
    SqlError::new("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time").with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}

/// A row that stands in the way.
struct Found {
    /// By which of the keys (`None`: the primary key), and which one that is.
    index: Option<usize>,
    encoded: Vec<u8>,
    /// Its primary key, itself, its version.
    key: Vec<u8>,
    existing: RowBuf,
    seen: Seen,
}

/// The wait for whoever decides whether the row stays in the way; in REPEATABLE READ, for whoever changes it.
fn undecided(txn: &Transaction, table: &Arc<Table>, found: &Found) -> Result<Option<LockWait>, SqlError> {
    if txn.isolation() == Isolation::RepeatableRead {
        return Ok(txn.wait_for_row(table, &found.key)?);
    }
    Ok(match txn.key_presence(table, found.index, &found.encoded)? {
        Presence::Undecided(holder) => Some(txn.wait_for_writer(holder)?),
        Presence::Yes | Presence::No => None,
    })
}

/// How the row in the way is known; in REPEATABLE READ it must be one that the snapshot sees, or an own one.
fn frozen(writer: &Writer<'_>, found: &Found) -> Result<Seen, SqlError> {
    if writer.txn().isolation() != Isolation::RepeatableRead {
        return Ok(found.seen);
    }
    let mut known = RowBuf::default();
    let is_seen = writer.txn().view()?.with_own_writes().get(writer.table, &found.key, &mut known)?;
    if !is_seen || known.raw().value != found.existing.raw().value {
        return Err(SqlError::new("40001", "could not serialize access due to concurrent update")
            .with_hint("Retry the transaction."));
    }
    Ok(Seen::Snapshot)
}
