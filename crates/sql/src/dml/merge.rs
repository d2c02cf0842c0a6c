//! What MERGE does with the rows of its plan (`plan/analyze/merge.rs`).
//!
//! Each row is the values of the target's columns, the number of the clause that takes it, what the clauses read of
//! the source, and the key of the row of the target that it matches. A row is inserted, updated, deleted or left alone.
//!
//! Of a row of the target that others changed or deleted meanwhile, in READ COMMITTED, the clauses are judged anew for
//! the same row of the source and the newest version, or none, as PostgreSQL does ([`MergePlan::anew`]): it may be
//! another clause's then, also one for rows that do not match. One that the statement itself has written already is an
//! error.

use std::sync::Arc;

use datafusion::arrow::array::{Array, Int32Array, RecordBatch, new_null_array};
use datafusion::execution::session_state::SessionState;
use resurgam_engine::{Change, DatumRef, RowBuf, Seen};

use super::assign::{Assigned, assigned_batch};
use super::modify::{Known, Modify};
use super::planned::RowsPlan;
use super::recheck::{Fate, RowWork, settle_row};
use super::source::{Given, ROWS_PER_TURN, Stream};
use crate::exec::direct::{Row, Values};
use crate::pg::errors;
use crate::plan::analyze::{Does, Merged, When};
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct MergePlan {
    clauses: Vec<When>,
    /// The values and the number for one row of the target, one of the source, and a key.
    anew: RowsPlan,
}

/// `21000`
fn second_time() -> SqlError {
    SqlError::new("21000", "MERGE command cannot affect row a second time")
        .with_hint("Ensure that not more than one source row matches any one target row.")
}

impl MergePlan {
    pub(super) fn new(names: &Names<'_>, merge: Merged, params: &ParamTypes) -> datafusion::common::Result<Self> {
        let anew = RowsPlan::over(names, merge.columns(), |rows| merge.anew(rows), params)?;
        Ok(Self { clauses: merge.clauses, anew })
    }

    /// Whether other sessions may use it.
    pub(crate) fn is_shareable(&self, state: &SessionState) -> bool {
        self.anew.plan.is_shareable(state)
    }

    /// Of the plan's columns, with `width` of the target: those of the source, and the key.
    pub(super) fn others(width: usize, batch: &RecordBatch) -> Vec<usize> {
        (width + 1..batch.num_columns()).collect()
    }

    /// What is done with a row that has this number; and whether it matches.
    fn does(&self, number: i32) -> (Does, bool) {
        let clause = number.checked_sub(1).and_then(|at| usize::try_from(at).ok()).and_then(|at| self.clauses.get(at));
        match clause {
            Some(when) => (when.does, when.is_matched),
            None => (Does::Nothing, number >= 0),
        }
    }

    /// Writes the rows of a batch.
    pub(super) async fn write(
        &self,
        stream: &Stream<'_>,
        modify: &mut Modify<'_>,
        given: &Given,
    ) -> Result<(), SqlError> {
        let table = modify.table();
        let rows = Assigned::new(table, &given.batch)?;
        let (numbers, keys) = (numbers(given.numbers.as_ref())?, given.keys()?);
        let Some(others) = &given.others else { return Err(SqlError::internal("a MERGE without its source")) };
        for at in 0..given.batch.num_rows() {
            if at % ROWS_PER_TURN == ROWS_PER_TURN - 1 {
                stream.stop.check()?;
                tokio::task::yield_now().await;
            }
            let known = given.broken.as_ref().map_or(Known::Not, |broken| Known::Of(broken, at));
            let (does, _) = self.does(numbers.value(at));
            match does {
                Does::Nothing => {}
                Does::Insert => modify.insert(&rows.row(at)?, known).await?,
                Does::Update | Does::Delete if keys.is_null(at) => {
                    return Err(SqlError::internal("a row that matches has no key"));
                }
                Does::Update | Does::Delete => {
                    let row = if does == Does::Update { Some(rows.row(at)?) } else { None };
                    let (txn, key, others) = (modify.txn(), keys.value(at), others.slice(at, 1));
                    let mut work = MergeWork { merge: self, stream, modify, others, row, known, now: Now::AsPlanned };
                    if settle_row(txn, table, key, &mut work).await? == Fate::Left {
                        work.unmatched().await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The clauses for the row of the source and this one of the target, or none.
    async fn anew(
        &self,
        stream: &Stream<'_>,
        modify: &Modify<'_>,
        others: &RecordBatch,
        newest: Option<&RowBuf>,
    ) -> Result<Anew, SqlError> {
        let table = modify.table();
        let nulls;
        let (values, others) = match newest {
            Some(newest) => (Values::Stored(newest.raw()), others.clone()),
            None => {
                nulls = vec![DatumRef::Null; table.columns.len()];
                (Values::Given(&nulls), without_key(others)?)
            }
        };
        let mut rows = self.anew.rows();
        rows.push(Row { table, values, view: modify.view() }, table.columns.len(), Some(others))?;
        let Some(rows) = rows.finish()? else { return Err(SqlError::internal("no row to judge")) };
        let answer = self.anew.run(stream, modify.view(), rows).await?;
        let Some(batch) = answer.into_iter().find(|batch| batch.num_rows() > 0) else {
            return Err(SqlError::internal("a row that no clause was asked about"));
        };
        let number = numbers(batch.columns().get(table.columns.len()))?.value(0);
        let (does, is_matched) = self.does(number);
        Ok(Anew { does, is_matched, batch: assigned_batch(table, &batch, &modify.zone)? })
    }
}

/// The numbers of a batch's clauses.
fn numbers(column: Option<&Arc<dyn Array>>) -> Result<&Int32Array, SqlError> {
    let numbers = column.and_then(|column| column.as_any().downcast_ref::<Int32Array>());
    numbers.ok_or_else(|| SqlError::internal("a MERGE without its numbers"))
}

/// The row of the source, with no row of the target.
fn without_key(others: &RecordBatch) -> Result<RecordBatch, SqlError> {
    let mut columns = others.columns().to_vec();
    let Some(key) = columns.pop() else { return Err(SqlError::internal("a MERGE without keys")) };
    columns.push(new_null_array(key.data_type(), others.num_rows()));
    let fields =
        others.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new(schema, columns).map_err(|error| errors::from_arrow(&error))
}

/// What is to be done with a row that was judged anew.
struct Anew {
    does: Does,
    is_matched: bool,
    /// One row: the columns' values.
    batch: RecordBatch,
}

enum Now {
    /// As the plan says.
    AsPlanned,
    Judged(Anew),
}

/// A row that matches, until it is done.
struct MergeWork<'m, 'a, 'b> {
    merge: &'m MergePlan,
    stream: &'m Stream<'m>,
    modify: &'m mut Modify<'a>,
    others: RecordBatch,
    /// `None` deletes it.
    row: Option<Vec<DatumRef<'b>>>,
    known: Known<'b>,
    now: Now,
}

impl RowWork for MergeWork<'_, '_, '_> {
    async fn attempt(&mut self, key: &[u8], seen: Seen) -> Result<Option<Change>, SqlError> {
        let change = match (&self.now, &self.row) {
            (Now::AsPlanned, None) | (Now::Judged(Anew { does: Does::Delete, .. }), _) => {
                self.modify.delete(key, seen).await?
            }
            (Now::AsPlanned, Some(row)) => self.modify.update(key, seen, row, self.known).await?,
            (Now::Judged(anew), _) => {
                let assigned = Assigned::new(self.modify.table(), &anew.batch)?;
                self.modify.update(key, seen, &assigned.row(0)?, Known::Not).await?
            }
        };
        match change {
            Change::SelfModified => Err(second_time()),
            change => {
                if change != Change::Done {
                    // It has to be judged before anything else is done with it.
                    self.now = Now::AsPlanned;
                }
                Ok(Some(change))
            }
        }
    }

    async fn judge(&mut self, newest: &RowBuf) -> Result<bool, SqlError> {
        let anew = self.merge.anew(self.stream, self.modify, &self.others, Some(newest)).await?;
        let is_written = anew.is_matched && anew.does != Does::Nothing;
        self.now = Now::Judged(anew);
        Ok(is_written)
    }
}

impl MergeWork<'_, '_, '_> {
    /// The row is gone, or was judged and is not written: what is done with the row of the source alone.
    async fn unmatched(self) -> Result<(), SqlError> {
        let anew = match self.now {
            Now::Judged(anew) => anew,
            Now::AsPlanned => self.merge.anew(self.stream, self.modify, &self.others, None).await?,
        };
        match (anew.is_matched, anew.does) {
            (_, Does::Nothing) => Ok(()),
            (false, Does::Insert) => {
                let assigned = Assigned::new(self.modify.table(), &anew.batch)?;
                self.modify.insert(&assigned.row(0)?, Known::Not).await
            }
            _ => Err(SqlError::internal("a row that is gone cannot be written")),
        }
    }
}
