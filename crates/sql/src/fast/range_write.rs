//! UPDATE and DELETE of a few rows: those of one range of one tree that satisfy the rest of the
//! condition.
//!
//! All rows are read before the first is written, so it does not matter that a write may move a row
//! within the tree that is read. Like the reads of [`super::range`], it is given up when there turn out
//! to be many (before anything is written), and left to the general path where that happens often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use resurgam_engine::{Change, Direction, ReadView, RowBatch, RowBuf, Seen, StatementKind, Table, Transaction};

use super::expr::{FastExpr, Input, Row, Values};
use super::range::{FIRST_ROWS, LONG_MAX, Part, Parts, READ_MAX, ROWS_MAX, Tree};
use super::run::{Returned, Writer, stored};
use crate::context::StopFlag;
use crate::foreign::Enforcer;
use crate::range::trees;
use crate::wire::SqlError;

/// Bytes of rows that are held.
const BYTES_MAX: usize = 1 << 20;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct RangeWrite {
    table: Arc<Table>,
    tree: Tree,
    filter: FastExpr,
    /// New values of the columns that change; `None` deletes the rows.
    set: Option<Vec<(usize, FastExpr)>>,
    long: AtomicU32,
}

impl RangeWrite {
    /// `source` gives the rows of `table` that are written.
    pub(super) fn new(
        source: &LogicalPlan,
        table: &Table,
        set: impl FnOnce(&DFSchema) -> Option<Option<Vec<(usize, FastExpr)>>>,
    ) -> Option<Self> {
        let parts = Parts::of(source).filter(|parts| parts.table.id == table.id)?;
        if !parts.sort.is_empty() || parts.fetch.is_some() {
            return None;
        }
        let filter = FastExpr::new(parts.filter?, Some(&parts.table), &parts.schema)?;
        let mut best: Option<Tree> = None;
        for (index, columns, _) in trees(&parts.table) {
            let tree = Tree::new(index, columns, &parts)?;
            if best.as_ref().is_none_or(|known| tree.score() > known.score()) {
                best = Some(tree);
            }
        }
        let tree = best.filter(|tree| !tree.equal.is_empty())?;
        let set = set(&parts.schema)?;
        Some(Self { table: parts.table, tree, filter, set, long: AtomicU32::new(0) })
    }

    /// The rows that are to be written, and the view that they are of; `None` if the general path
    /// has to do it.
    pub(super) fn gather(
        &self,
        params: &[ScalarValue],
        txn: &Transaction,
        stop: &StopFlag,
    ) -> Result<Option<(ReadView, Vec<RowBuf>)>, SqlError> {
        if self.long.load(Ordering::Relaxed) >= LONG_MAX {
            return Ok(None);
        }
        let range = match self.tree.range(&self.table, params)? {
            Part::Range(range) => Some(range),
            Part::Empty => None,
            Part::Unknown => return Ok(None),
        };
        let view = txn.statement(StatementKind::BulkWrite)?;
        let Some(range) = range else { return Ok(Some((view, Vec::new()))) };
        let mut found = Vec::new();
        let mut cursor = self.tree.read(&view, &self.table, range, Direction::Forward);
        let (mut rows, mut read, mut bytes, mut want) = (RowBatch::default(), 0, 0, FIRST_ROWS);
        loop {
            rows.clear();
            if !cursor.next_batch(&mut rows, want)? {
                break;
            }
            stop.check()?;
            read += rows.len();
            want = (want * 2).min(ROWS_MAX);
            for at in 0..rows.len() {
                let raw = rows.row(at);
                let row = Row { table: &self.table, values: Values::Stored(raw), view: &view };
                if self.filter.holds(Input { params, row: Some(row) })? {
                    let mut row = RowBuf::default();
                    row.set(raw);
                    bytes += raw.key.len() + raw.value.len();
                    found.push(row);
                }
            }
            if found.len() > ROWS_MAX || read > READ_MAX || bytes > BYTES_MAX {
                self.long.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
        }
        if self.long.load(Ordering::Relaxed) > 0 {
            let _ = self.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |long| long.checked_sub(1));
        }
        Ok(Some((view, found)))
    }

    /// Writes `rows`, which `view` saw; a row that was changed since is written if its newest version
    /// qualifies. Returns how many were written.
    pub(super) async fn write(
        &self,
        rows: Vec<RowBuf>,
        by: &Writer<'_>,
        view: &ReadView,
        enforcer: &mut Option<Enforcer>,
        returned: &mut Returned<'_>,
    ) -> Result<u64, SqlError> {
        let mut written = 0;
        for mut row in rows {
            let mut seen = Seen::Snapshot;
            loop {
                match by.change(self.set.as_deref(), &row, seen, view, enforcer, returned).await? {
                    Change::Done => written += 1,
                    Change::Gone | Change::SelfModified => {}
                    Change::Changed => {
                        let key = row.raw().key.to_vec();
                        if let Some(newest) = by.txn.latest(by.table, &key, &mut row)? {
                            seen = newest;
                            let input = Input { params: by.params, row: Some(stored(by.table, &row, view)) };
                            if self.filter.holds(input)? {
                                continue;
                            }
                        }
                    }
                }
                break;
            }
        }
        Ok(written)
    }
}
