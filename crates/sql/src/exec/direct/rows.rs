//! Rows read directly: from the cursor of a path, judged on their datums.
//!
//! What is read is the part of a tree that an [`AccessPath`] says. Conditions are evaluated on each row.
//! Many rows are the business of planned operators, which work on columns: a read that turns out long is
//! given up, and a statement with which that happens often is left to them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::arrow::datatypes::Fields;
use datafusion::common::{Result as DfResult, ScalarValue};
use resurgam_engine::{Covering, KeyRange, RawRow, ReadView, RowBatch, RowBuf, Table};

use super::expr::{Input, Row, RowExpr, Values};
use super::parts::Parts;
use crate::exec::access_path::{self, AccessPath, PointKey};
use crate::exec::bridge;
use crate::exec::context::StopFlag;
use crate::exec::estimate::PART_UNKNOWN;
use crate::exec::explain::convert::{all_of, scan_node};
use crate::exec::explain::{Look, Node, cost};
use crate::pg::functions::quote_ident;
use crate::pg::{errors, types};
use crate::wire::SqlError;

/// Rows of a result, and rows read for it, beyond which planned operators do it.
pub(crate) const ROWS_MAX: usize = 400;
const READ_MAX: usize = 2000;
/// Long reads before a statement is left to planned operators; each short one takes one back.
const LONG_MAX: u32 = 16;
/// Rows of the first batch if nobody says how many are wanted.
const FIRST_ROWS: usize = 32;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Rows {
    pub table: Arc<Table>,
    pub path: AccessPath<RowExpr>,
    /// The whole condition.
    filter: Option<RowExpr>,
    /// What is left of it for a row that has the key of a path of one row.
    residual: Option<RowExpr>,
    /// What is left of it for rows in exact ranges.
    in_ranges: Option<RowExpr>,
    /// What the statement calls the table, if that is another name.
    alias: Option<Arc<str>>,
    /// All that is asked of rows is in the index, which is read by itself.
    covering: Option<Arc<Covering>>,
    long: AtomicU32,
}

/// What a run has looked at, for EXPLAIN ANALYZE.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Touched {
    pub read: usize,
    /// Of these, the rows that satisfy the condition.
    pub kept: usize,
}

/// Which rows, for one execution.
pub(crate) enum Located {
    /// At most one, by its whole key.
    One(Vec<u8>),
    Ranges(Ranges),
}

/// Parts of a tree to be read.
#[derive(Default)]
pub(crate) struct Ranges {
    all: Vec<KeyRange>,
    /// What they say of rows need not be asked of these.
    are_exact: bool,
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

fn value(expr: &RowExpr, params: &[ScalarValue]) -> DfResult<ScalarValue> {
    expr.evaluate(Input { params, row: None }).map_err(bridge::failure)
}

fn failed(error: datafusion::common::DataFusionError) -> SqlError {
    errors::from_datafusion(error, "")
}

impl Rows {
    /// The rows of `parts` by one of its paths (`backward`: from the end).
    pub(crate) fn new(parts: &Parts<'_>, path: &AccessPath<datafusion::logical_expr::Expr>) -> Option<Self> {
        Some(Self {
            table: Arc::clone(&parts.table),
            path: parts.direct(path)?,
            filter: parts.whole_filter()?,
            residual: if path.is_one() { parts.residual(path)? } else { None },
            in_ranges: parts.residual_in_ranges(path)?,
            alias: parts.alias.clone(),
            covering: None,
            long: AtomicU32::new(0),
        })
    }

    /// The same where nothing but these columns is read of rows, whatever becomes of them.
    pub(super) fn of_columns(mut self, columns: Option<&[usize]>) -> Self {
        self.covering = columns.and_then(|columns| access_path::covering(&self.table, self.path.index, columns));
        self
    }

    /// Whether it is one row whose key says all that is asked of it, and is given as it is.
    pub(super) fn is_by_key_alone(&self) -> bool {
        self.path.is_one()
            && self.residual.is_none()
            && self.path.equal.iter().all(|values| values.single().is_some_and(RowExpr::is_given))
    }

    /// What a column is called.
    pub(crate) fn column(&self, at: usize) -> String {
        match self.table.columns.get(at) {
            Some(column) if column.is_hidden() => bridge::key_name(&self.table, at),
            Some(column) => quote_ident(&column.name),
            None => format!("#{at}"),
        }
    }

    /// As EXPLAIN shows them, with what was counted of a run.
    pub(crate) fn node(&self, look: &Look<'_>, touched: Option<Touched>) -> Node {
        let column = |at: usize| self.column(at);
        let table = &self.table;
        let conditions = self.path.conditions(table, "", |value| value.words(&column));
        let mut node =
            scan_node(table, self.alias.as_deref().unwrap_or(&table.name), &self.path, self.covering.is_some());
        node.condition("Index Cond", all_of(&conditions));
        let filter = if self.path.is_one() { &self.residual } else { &self.filter };
        let mut terms = filter.as_ref().map(|filter| filter.conjuncts(&column)).unwrap_or_default();
        terms.retain(|term| !conditions.contains(term));
        let known = look.estimate(table);
        node.estimate = known.map(|known| {
            let fields = table.columns.iter().map(|column| types::arrow_field(&column.name, &column.ty, true));
            let width = cost::width(&fields.collect::<Fields>());
            let read = if self.path.is_one() { 1.0 } else { known.rows() * self.path.part(&known) };
            let scan = cost::scan(read, self.path.index.is_some() && self.covering.is_none(), width);
            if terms.is_empty() { scan } else { cost::passed(scan, read * PART_UNKNOWN, width) }
        });
        let is_filtered = !terms.is_empty();
        node.condition("Filter", all_of(&terms));
        if let (Some(touched), true) = (touched, is_filtered) {
            node.removed("Rows Removed by Filter", touched.read.saturating_sub(touched.kept) as f64);
        }
        node
    }

    /// Which rows these values find; `None`: left to planned operators.
    pub(crate) fn locate(&self, params: &[ScalarValue]) -> Result<Option<Located>, SqlError> {
        if self.path.is_one() {
            match self.path.point(&self.table, |expr| value(expr, params)) {
                Ok(PointKey::Key(key)) => return Ok(Some(Located::One(key))),
                Ok(PointKey::None) => return Ok(Some(Located::Ranges(Ranges::default()))),
                Ok(PointKey::Unknown) => {}
                Err(error) => return self.nothing_or(error, params),
            }
        }
        if self.long.load(Ordering::Relaxed) >= LONG_MAX {
            return Ok(None);
        }
        let (all, are_exact) = match self.path.ranges_told(&self.table, |expr| value(expr, params)) {
            Ok(ranges) => ranges,
            Err(error) => return self.nothing_or(error, params),
        };
        Ok(Some(Located::Ranges(Ranges { all, are_exact })))
    }

    /// The error of a value of the path; but where a condition that reads no row is not true, there is nothing to be found, and no value is asked for.
    #[cold]
    fn nothing_or(
        &self,
        error: datafusion::common::DataFusionError,
        params: &[ScalarValue],
    ) -> Result<Option<Located>, SqlError> {
        match self.filter.as_ref().is_some_and(|filter| filter.is_shut(params)) {
            true => Ok(Some(Located::Ranges(Ranges::default()))),
            false => Err(failed(error)),
        }
    }

    /// The row under a whole key, if the view sees it and it satisfies the condition.
    pub(crate) fn one(
        &self,
        view: &ReadView,
        key: &[u8],
        params: &[ScalarValue],
        row: &mut RowBuf,
    ) -> Result<bool, SqlError> {
        let found = match (self.path.index, &self.covering) {
            (None, _) => view.get(&self.table, key, row)?,
            (_, Some(covering)) => view.get_covered(&self.table, covering, key, row)?,
            (Some(index), None) => view.get_by_index(&self.table, &self.table.indexes[index], key, row)?,
        };
        Ok(found && self.holds(&self.residual, row.raw(), params, view)?)
    }

    /// Whether a row, whatever its key, satisfies the condition.
    pub(crate) fn qualifies(&self, row: RawRow<'_>, params: &[ScalarValue], view: &ReadView) -> Result<bool, SqlError> {
        self.holds(&self.filter, row, params, view)
    }

    fn holds(
        &self,
        filter: &Option<RowExpr>,
        row: RawRow<'_>,
        params: &[ScalarValue],
        view: &ReadView,
    ) -> Result<bool, SqlError> {
        match filter {
            None => Ok(true),
            Some(filter) => {
                let row = Row { table: &self.table, values: Values::Stored(row), view };
                filter.holds(Input { params, row: Some(row) })
            }
        }
    }

    /// Calls `each` with the rows of `ranges` that satisfy the condition, until it breaks off (with
    /// false: there are too many). Whether that was all of them that are wanted; if not, planned
    /// operators have to begin anew. `want`: about how many are. What it looks at is added to `touched`.
    pub(crate) fn each(
        &self,
        view: &ReadView,
        ranges: Ranges,
        params: &[ScalarValue],
        stop: &StopFlag,
        want: Option<usize>,
        touched: &mut Touched,
        mut each: impl FnMut(RawRow<'_>) -> Result<ControlFlow<bool>, SqlError>,
    ) -> Result<bool, SqlError> {
        let filter = if ranges.are_exact { &self.in_ranges } else { &self.filter };
        let mut ranges = ranges.all;
        if !self.path.backward {
            ranges.reverse(); // taken from the end
        }
        let mut want = want.map_or(FIRST_ROWS, |rows| rows.clamp(1, ROWS_MAX));
        let (mut rows, mut read) = (RowBatch::default(), 0);
        while let Some(range) = ranges.pop() {
            let (index, direction, covering) = (self.path.index, self.path.direction(), self.covering.as_ref());
            let mut cursor = access_path::cursor(view, &self.table, index, range, direction, covering);
            loop {
                rows.clear();
                if !cursor.next_batch(&mut rows, want)? {
                    break;
                }
                stop.check()?;
                read += rows.len();
                want = (want * 2).min(ROWS_MAX);
                for at in 0..rows.len() {
                    let row = rows.row(at);
                    touched.read += 1;
                    if !self.holds(filter, row, params, view)? {
                        continue;
                    }
                    touched.kept += 1;
                    if let ControlFlow::Break(enough) = each(row)? {
                        self.note(enough);
                        return Ok(enough);
                    }
                }
                if read > READ_MAX {
                    self.note(false);
                    return Ok(false);
                }
            }
        }
        self.note(true);
        Ok(true)
    }

    pub(super) fn note(&self, short: bool) {
        if !short {
            self.long.fetch_add(1, Ordering::Relaxed);
        } else if self.long.load(Ordering::Relaxed) > 0 {
            let _ = self.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |long| long.checked_sub(1));
        }
    }
}
