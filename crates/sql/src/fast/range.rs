//! SELECT of a few rows of one table, in the order of one of its keys: from the cursor to the
//! wire, row by row.
//!
//! What is read is one range of one tree: a beginning of its key equals given values, and the column
//! after it may be bounded. All conditions are evaluated on each row again. A sort is taken if the
//! tree is in that order, or in the reverse.
//!
//! Many rows are the business of the general path, which works on columns: a read that turns out long
//! is given up and done again there, and a statement with which that happens often is left to it.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType, SortExpr};
use resurgam_engine::{
    Cursor, Datum, DatumRef, Direction, ErrorKind, KeyRange, ReadView, RowBatch, StatementKind, Table,
};

use super::expr::{FastExpr, Input, Row, Values};
use super::output::Output;
use crate::bridge::{self, KeyValue};
use crate::pg::errors;
use crate::planner::{QueryPlan, engine_table};
use crate::planning::Planning;
use crate::range::{ProbeKind, prefix_end, probes, trees};
use crate::session::Session;
use crate::wire::{Format, RowChunk, SqlError};

/// Rows and bytes of a result, and rows read for it, beyond which the general path does it.
pub(super) const ROWS_MAX: usize = 400;
const BYTES_MAX: usize = 48 << 10;
pub(super) const READ_MAX: usize = 2000;
/// Long results before a statement is left to the general path; each short one takes one back.
pub(super) const LONG_MAX: u32 = 16;
/// Rows of the first batch if nobody says how many are wanted.
pub(super) const FIRST_ROWS: usize = 32;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct FastRange {
    table: Arc<Table>,
    tree: Tree,
    backward: bool,
    filter: Option<FastExpr>,
    skip: usize,
    fetch: Option<usize>,
    output: Output,
    long: AtomicU32,
}

/// The part of a tree that is read.
#[derive(Debug)]
pub(super) struct Tree {
    /// `None` is the clustered one.
    pub index: Option<usize>,
    /// Leading key columns and their values.
    pub equal: Vec<(usize, FastExpr)>,
    /// Bounds of the column after these, and whether they are inclusive.
    low: Option<(usize, FastExpr, bool)>,
    high: Option<(usize, FastExpr, bool)>,
}

pub(super) enum Part {
    Range(KeyRange),
    /// No row can match.
    Empty,
    /// The short path cannot tell.
    Unknown,
}

/// A query taken apart, from the top.
pub(super) struct Parts<'p> {
    output: Vec<Expr>,
    pub sort: Vec<SortExpr>,
    skip: usize,
    pub fetch: Option<usize>,
    pub filter: Option<&'p Expr>,
    pub table: Arc<Table>,
    pub schema: DFSchema,
    /// The scan is that of the rows to be written.
    pub target: bool,
}

/// `expr` over the input of a projection, instead of over its output. What is volatile must be
/// evaluated once, so it stays there.
pub(super) fn through(expr: Expr, exprs: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let mut found = true;
    let expr = expr.transform_up(|node| {
        let Expr::Column(column) = &node else { return Ok(Transformed::no(node)) };
        let mut named = schema.fields().iter().zip(exprs).filter(|(field, _)| field.name() == &column.name);
        match (named.next(), named.next()) {
            (Some((_, expr)), None) if !expr.is_volatile() => {
                Ok(Transformed::yes(super::shape::unaliased(expr).clone()))
            }
            _ => {
                found = false;
                Ok(Transformed::no(node))
            }
        }
    });
    expr.data().ok().filter(|_| found)
}

impl<'p> Parts<'p> {
    pub fn of(plan: &'p LogicalPlan) -> Option<Self> {
        let mut output: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let (mut sort, mut filter): (Vec<SortExpr>, Option<&Expr>) = (Vec::new(), None);
        let mut limit: Option<(usize, Option<usize>)> = None;
        let mut node = plan;
        // Of what comes after what, from the top: limit, sort, filter, scan.
        let mut depth = 0;
        loop {
            match node {
                LogicalPlan::SubqueryAlias(alias) => node = &alias.input,
                LogicalPlan::Limit(found) if depth == 0 => {
                    depth = 1;
                    limit = Some(match (found.get_skip_type().ok()?, found.get_fetch_type().ok()?) {
                        (SkipType::Literal(skip), FetchType::Literal(fetch)) => (skip, fetch),
                        _ => return None,
                    });
                    node = &found.input;
                }
                LogicalPlan::Sort(found) if depth < 2 => {
                    depth = 2;
                    if found.fetch.is_some() && limit.is_none() {
                        limit = Some((0, found.fetch));
                    }
                    sort.clone_from(&found.expr);
                    node = &found.input;
                }
                LogicalPlan::Projection(projection) if depth < 3 => {
                    let below = |expr| through(expr, &projection.expr, &projection.schema);
                    output = output.into_iter().map(below).collect::<Option<_>>()?;
                    for by in &mut sort {
                        by.expr = below(by.expr.clone())?;
                    }
                    node = &projection.input;
                }
                LogicalPlan::Filter(found) if depth < 3 => {
                    depth = 3;
                    filter = Some(&found.predicate);
                    node = &found.input;
                }
                LogicalPlan::TableScan(scan) => {
                    // What a scan is told of predicates and limits is said again above it.
                    if (filter.is_none() && !scan.filters.is_empty()) || (limit.is_none() && scan.fetch.is_some()) {
                        return None;
                    }
                    let (table, target) = engine_table(&scan.source)?;
                    let schema = scan.source.schema();
                    let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), schema.as_ref()).ok()?;
                    let (skip, fetch) = limit.unwrap_or((0, None));
                    return Some(Self { output, sort, skip, fetch, filter, table, schema, target });
                }
                _ => return None,
            }
        }
    }

    /// Whether rows come in the wanted order from a tree: forward (false), backward (true), or not.
    fn direction(&self, tree: &Tree, columns: &[usize]) -> Option<bool> {
        let behind: &[usize] = if tree.index.is_some() { &self.table.primary_key } else { &[] };
        let pinned = |column: usize| tree.equal.iter().any(|(known, _)| *known == column);
        let mut order = columns.iter().chain(behind).copied().filter(|&column| !pinned(column));
        let mut direction = None;
        for by in &self.sort {
            let Expr::Column(column) = super::shape::unaliased(&by.expr) else { return None };
            let column = self.table.columns.iter().position(|c| c.name == column.name)?;
            if pinned(column) {
                continue;
            }
            let backward = !by.asc;
            let nulls = by.nulls_first == backward || !self.table.columns[column].nullable;
            if order.next() != Some(column) || !nulls || direction.is_some_and(|known| known != backward) {
                return None;
            }
            direction = Some(backward);
        }
        Some(direction.unwrap_or(false))
    }
}

impl Tree {
    /// What the conditions say about a tree with these key columns.
    pub fn new(index: Option<usize>, columns: &[usize], parts: &Parts<'_>) -> Option<Self> {
        let conjuncts = parts.filter.map(split_conjunction).unwrap_or_default();
        let found: Vec<_> = conjuncts.iter().flat_map(|conjunct| probes(&parts.table, conjunct)).collect();
        let value = |expr: &Expr| FastExpr::new(expr, None, &parts.schema);
        let mut tree = Self { index, equal: Vec::new(), low: None, high: None };
        for &column in columns {
            let of_column = || found.iter().filter(|probe| probe.column == column);
            let equal = of_column().find_map(|probe| match &probe.kind {
                ProbeKind::In(values) => match values.as_slice() {
                    [one] => value(one),
                    _ => None,
                },
                _ => None,
            });
            if let Some(equal) = equal {
                tree.equal.push((column, equal));
                continue;
            }
            for probe in of_column() {
                match &probe.kind {
                    ProbeKind::Above { value: bound, inclusive } if tree.low.is_none() => {
                        tree.low = Some((column, value(bound)?, *inclusive));
                    }
                    ProbeKind::Below { value: bound, inclusive } if tree.high.is_none() => {
                        tree.high = Some((column, value(bound)?, *inclusive));
                    }
                    _ => {}
                }
            }
            break;
        }
        Some(tree)
    }

    /// Reads a range of it.
    pub fn read(&self, view: &ReadView, table: &Arc<Table>, range: KeyRange, direction: Direction) -> Cursor {
        match self.index {
            None => view.scan(table, range, direction),
            Some(index) => view.scan_index(table, index, range, direction),
        }
    }

    pub fn score(&self) -> usize {
        let bounds = usize::from(self.low.is_some()) + usize::from(self.high.is_some());
        (self.equal.len() * 4 + bounds) * 2 + usize::from(self.index.is_none())
    }

    fn encode(&self, table: &Table, values: &[Datum]) -> Result<Option<Vec<u8>>, SqlError> {
        let values: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
        let mut key = Vec::new();
        let encoded = match self.index {
            None => table.encode_key(&values, &mut key),
            Some(index) => table.encode_index_key(index, &values, &mut key),
        };
        match encoded {
            Ok(()) => Ok(Some(key)),
            Err(error) if error.kind() == ErrorKind::LimitExceeded => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn range(&self, table: &Table, params: &[ScalarValue]) -> Result<Part, SqlError> {
        let input = Input { params, row: None };
        let value = |column: usize, expr: &FastExpr| -> Result<KeyValue, SqlError> {
            bridge::key_value(&expr.evaluate(input)?, &table.columns[column].ty)
                .map_err(|error| errors::from_datafusion(error, ""))
        };
        let mut values = Vec::with_capacity(self.equal.len() + 1);
        for (column, expr) in &self.equal {
            match value(*column, expr)? {
                KeyValue::Exact(datum) => values.push(datum),
                KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => return Ok(Part::Empty),
                KeyValue::Unknown => return Ok(Part::Unknown),
            }
        }
        // A value too long for a key is in no row.
        let Some(prefix) = self.encode(table, &values)? else { return Ok(Part::Empty) };
        let mut range = if prefix.is_empty() { KeyRange::all() } else { KeyRange::prefix(&prefix) };
        let mut bound =
            |bound: &Option<(usize, FastExpr, bool)>| -> Result<Result<Option<Vec<u8>>, KeyValue>, SqlError> {
                let Some((column, expr, _)) = bound else { return Ok(Ok(None)) };
                match value(*column, expr)? {
                    KeyValue::Exact(datum) => {
                        values.push(datum);
                        let key = self.encode(table, &values);
                        values.pop();
                        Ok(key?.map(Some).ok_or(KeyValue::Unknown))
                    }
                    other => Ok(Err(other)),
                }
            };
        match (bound(&self.low)?, &self.low) {
            (Ok(Some(key)), Some((_, _, true))) => range.low = Bound::Included(key),
            (Ok(Some(key)), _) => match prefix_end(&key) {
                Some(end) => range.low = Bound::Included(end),
                None => return Ok(Part::Empty),
            },
            (Err(KeyValue::Null | KeyValue::AboveAll), _) => return Ok(Part::Empty),
            (Err(KeyValue::Unknown), _) => return Ok(Part::Unknown),
            _ => {}
        }
        match (bound(&self.high)?, &self.high) {
            (Ok(Some(key)), Some((_, _, false))) => range.high = Bound::Excluded(key),
            (Ok(Some(key)), _) => range.high = prefix_end(&key).map_or(Bound::Unbounded, Bound::Excluded),
            (Err(KeyValue::Null | KeyValue::BelowAll), _) => return Ok(Part::Empty),
            (Err(KeyValue::Unknown), _) => return Ok(Part::Unknown),
            _ => {}
        }
        match (&range.low, &range.high) {
            (Bound::Included(low), Bound::Excluded(high)) if low >= high => Ok(Part::Empty),
            _ => Ok(Part::Range(range)),
        }
    }
}

impl FastRange {
    pub(crate) fn select(state: &SessionState, plan: &QueryPlan) -> Option<Self> {
        if !Planning::of(state.config()).short_path {
            return None;
        }
        let parts = Parts::of(&plan.logical).filter(|parts| !parts.target)?;
        let mut most_equal = 0;
        let mut best: Option<(Tree, bool)> = None;
        for (index, columns, _) in trees(&parts.table) {
            let tree = Tree::new(index, columns, &parts)?;
            most_equal = most_equal.max(tree.equal.len());
            if let Some(backward) = parts.direction(&tree, columns)
                && best.as_ref().is_none_or(|(known, _)| tree.score() > known.score())
            {
                best = Some((tree, backward));
            }
        }
        let (tree, backward) = best?;
        // Whole tables are read by the general path, but for their first rows.
        let bounded = !tree.equal.is_empty() || tree.low.is_some() || tree.high.is_some();
        let first = parts.filter.is_none() && parts.fetch.is_some_and(|rows| rows + parts.skip <= ROWS_MAX);
        if tree.equal.len() < most_equal || !(bounded || first) {
            return None;
        }
        let filter = match parts.filter {
            Some(filter) => Some(FastExpr::new(filter, Some(&parts.table), &parts.schema)?),
            None => None,
        };
        let fields = plan.logical.schema().fields();
        let output = Output::new(&parts.output, fields, &parts.table, &parts.schema)?;
        let (table, skip, fetch) = (parts.table, parts.skip, parts.fetch);
        Some(Self { table, tree, backward, filter, skip, fetch, output, long: AtomicU32::new(0) })
    }
}

impl Session {
    /// The rows of a SELECT of a range; `None` if the general path has to do it.
    pub(crate) fn fast_range(
        &mut self,
        fast: &FastRange,
        params: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
    ) -> Result<Option<RowChunk>, SqlError> {
        if fast.long.load(Ordering::Relaxed) >= LONG_MAX || !fast.output.accepts(formats) {
            return Ok(None);
        }
        let range = match fast.tree.range(&fast.table, params)? {
            Part::Range(range) => Some(range),
            Part::Empty => None,
            Part::Unknown => return Ok(None),
        };
        let zone = self.shared.variables.lock().zone;
        let stop = Arc::clone(&self.shared.stop);
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        let mut chunk = fast.output.chunk();
        let (Some(range), true) = (range, fast.fetch != Some(0)) else { return Ok(Some(chunk)) };
        let direction = if fast.backward { Direction::Backward } else { Direction::Forward };
        let mut cursor = fast.tree.read(&view, &fast.table, range, direction);
        let wanted = fast.fetch.unwrap_or(usize::MAX);
        let mut want = fast.fetch.map_or(FIRST_ROWS, |rows| rows.saturating_add(fast.skip).min(ROWS_MAX));
        let (mut rows, mut read, mut skip) = (RowBatch::default(), 0, fast.skip);
        loop {
            rows.clear();
            if !cursor.next_batch(&mut rows, want)? {
                break;
            }
            stop.check()?;
            read += rows.len();
            want = (want * 2).min(ROWS_MAX);
            for at in 0..rows.len() {
                let row = Row { table: &fast.table, values: Values::Stored(rows.row(at)), view: &view };
                let input = Input { params, row: Some(row) };
                if let Some(filter) = &fast.filter
                    && !filter.holds(input)?
                {
                    continue;
                }
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                fast.output.append(input, formats, &zone, &mut chunk)?;
                if chunk.len() >= wanted || chunk.bytes.len() > BYTES_MAX {
                    break;
                }
            }
            if chunk.len() >= wanted {
                break;
            }
            if chunk.len() > ROWS_MAX || chunk.bytes.len() > BYTES_MAX || read > READ_MAX {
                fast.long.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
        }
        // A portal is read on from where its rows ended: by the general path.
        if max_rows > 0 && chunk.len() >= max_rows {
            return Ok(None);
        }
        if fast.long.load(Ordering::Relaxed) > 0 {
            let _ = fast.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |long| long.checked_sub(1));
        }
        Ok(Some(chunk))
    }
}
