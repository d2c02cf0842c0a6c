//! A join that looks up the rows of one side by the keys of the other.
//!
//! Estimates (which say which side has fewer rows) may be far off, so it decides when it runs. The *outer* side is read first. Has it ended
//! after a few thousand rows, the *inner* table is read only where its tree has their keys: sorted,
//! each once, through the statement's snapshot. Otherwise the inner side is read as planned. Either
//! way the rows go through the hash join that DataFusion planned, which stands in the plan as the
//! child of this operator.
//!
//! Invariants:
//! 1. What is looked up holds every inner row that an outer row can match, and may hold more: the
//!    hash join decides, on the same values as ever (casts, NULLs, duplicates, residual filters). A key
//!    that cannot be put in the inner column's encoding without loss ends the attempt.
//! 2. Inner rows without a match are of no consequence: the join's type does not preserve them.
//! 3. The order that it declares holds. It is the hash join's: if that is the inner side's, the lookups go
//!    through the tree, and in the direction, that the scan has in the plan. Where nobody goes by it
//!    (`plan/order_readers.rs`) they may go through another tree, and then there is none.
//! 4. Where a subquery is only asked whether it has a row (EXISTS, IN), the first row of each key is read, if all of its rows match or none does.
//! 5. Keys of so many outer rows are looked up at most as [`Planning::lookups_in`] says of the inner table.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, ScalarValue, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use resurgam_engine::{ColumnType, Datum, DatumRef, KeyRange, Table};

use crate::exec::access_path::{AccessPath, KeyValues, cast_keeps, encode_key, evaluate_constant, trees};
use crate::exec::bridge::{self, KeyValue};
use crate::exec::compact::compact;
use crate::exec::context::StatementContext;
use crate::exec::estimate::physical;
use crate::exec::outer_side;
use crate::exec::paced::PacedExec;
use crate::exec::planning::Planning;
use crate::exec::scan::ScanExec;
use crate::exec::scan_chain::{input_in_order, scan_below, with_scan};
use crate::exec::watch::below_watch;
use crate::pg::functions::{ORDER_KEY, numeric};
use crate::pg::running;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// Inner rows that may be read for each outer row that may be looked up, when a key can have many.
const ROWS_PER_KEY: usize = 4;

/// By what factor one side's rows have to be fewer than the other's for it to be the one that is read first.
const MANY_FEWER: f64 = 2.0;

/// Bytes of rows that are held before the join begins, which counts what it holds itself.
const BYTES_MAX: usize = 16 << 20;

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct LookupJoinExec {
    /// The [`HashJoinExec`].
    join: Plan,
    lookup: Arc<Lookup>,
    planning: Planning,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What EXPLAIN tells of such a join.
pub(crate) struct ShownLookup<'a> {
    /// The [`HashJoinExec`].
    pub join: &'a Plan,
    pub inner: JoinSide,
    /// What is looked up in, what the statement calls it, and by which of its trees.
    pub table: &'a Table,
    pub alias: &'a str,
    pub tree: &'a str,
    /// Columns of its key, and what each equals, over the outer side.
    pub key: Vec<(usize, &'a Expr)>,
    /// Outer rows up to which it looks up.
    pub rows_max: usize,
}

/// How inner rows are found.
#[derive(Debug)]
struct Lookup {
    inner: JoinSide,
    table: Arc<Table>,
    path: AccessPath<Part>,
    /// How far predicates of its own bound the planned read of the inner side; see [`boundedness`].
    bounded: u8,
    /// Whether the rows come out in the order that the hash join declares, and whether somebody may go by that.
    keeps_order: bool,
    is_in_order: bool,
    /// Outer rows up to which it looks up.
    rows_max: usize,
    /// One row of each key is as good as all of them.
    first_of_each: bool,
}

/// The value of a key column.
#[derive(Debug)]
enum Part {
    /// An expression over the outer side.
    Outer(Expr),
    /// The same for the whole statement.
    Constant(Expr),
}

impl LookupJoinExec {
    /// The join with lookups, if it is one for them; `is_in_order` says whether somebody may go by the order of its rows.
    pub(crate) fn in_place_of(join: &Plan, planning: Planning, is_in_order: bool) -> Result<Option<Plan>> {
        if planning.lookup_rows == 0 {
            return Ok(None);
        }
        let bare = outer_side::bare(join)?;
        let join = bare.as_ref().unwrap_or(join);
        let Some(hash) = join.downcast_ref::<HashJoinExec>() else { return Ok(None) };
        if !is_for_lookups(hash) {
            return Ok(None);
        }
        let sides: &[JoinSide] = match hash.join_type() {
            JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => &[JoinSide::Right, JoinSide::Left],
            JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => &[JoinSide::Right],
            JoinType::Right | JoinType::RightAnti | JoinType::RightMark => &[JoinSide::Left],
            JoinType::Full => &[],
        };
        // A subquery's rows are looked up rather than those of the query around it.
        let subquery = match hash.join_type() {
            JoinType::LeftSemi => Some(JoinSide::Right),
            JoinType::RightSemi => Some(JoinSide::Left),
            _ => None,
        };
        let mut lookups = Vec::with_capacity(sides.len());
        for &side in sides {
            if let Some(lookup) = Lookup::new(hash, side, planning, is_in_order)? {
                let rows = boundedness(if side == JoinSide::Right { hash.left() } else { hash.right() });
                // Rows that are found more directly anyway are not looked up.
                if lookup.bounded == 3 || (lookup.bounded == 2 && rows == 0) {
                    continue;
                }
                lookups.push((rows, lookup));
            }
        }
        // Estimates of both sides: each is a table with conditions then, and costs little to look at.
        let fewer = if lookups.len() > 1 { side_of_fewer(hash) } else { None };
        let best = lookups.into_iter().rev().max_by_key(|(rows, lookup)| {
            let outer = if lookup.inner == JoinSide::Right { JoinSide::Left } else { JoinSide::Right };
            let of_subquery = subquery == Some(lookup.inner);
            (fewer == Some(outer), *rows > 0, of_subquery, *rows, lookup.path.is_one())
        });
        best.map(|(_, lookup)| Self::over(Arc::clone(join), lookup, planning)).transpose()
    }

    fn over(join: Plan, lookup: Lookup, planning: Planning) -> Result<Plan> {
        let mut properties = outer_side::properties(&join)?;
        if !lookup.keeps_order {
            let mut equivalences = properties.eq_properties.clone();
            equivalences.clear_orderings();
            properties = Arc::new(PlanProperties::clone(&properties).with_eq_properties(equivalences));
        }
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(Self { join, lookup: Arc::new(lookup), planning, properties, metrics }))
    }

    /// What it is made of, for EXPLAIN.
    pub(crate) fn shown(&self) -> ShownLookup<'_> {
        let table = &self.lookup.table;
        let tree = self.lookup.path.index.map_or(&table.primary_key_name, |at| &table.indexes[at].name);
        let key = self.lookup.key().map(|(column, part)| {
            let (Part::Outer(value) | Part::Constant(value)) = part;
            (column, value)
        });
        let inner = self.sides().ok().and_then(|(_, inner)| scan_below(inner));
        ShownLookup {
            join: &self.join,
            inner: self.lookup.inner,
            table,
            alias: inner.map_or(&table.name, |scan| scan.alias()),
            tree,
            key: key.collect(),
            rows_max: self.lookup.rows_max,
        }
    }

    fn sides(&self) -> Result<(&Plan, &Plan)> {
        let Some(hash) = self.join.downcast_ref::<HashJoinExec>() else {
            return internal_err!("a lookup join over something else than a hash join");
        };
        Ok(match self.lookup.inner {
            JoinSide::Right => (hash.left(), hash.right()),
            _ => (hash.right(), hash.left()),
        })
    }

    async fn run(self, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, 0);
        let statement = StatementContext::of(&task)?;
        let (outer, inner) = self.sides()?;
        let mut rest = outer.execute(0, Arc::clone(&task))?;
        let Gathered { batches, rows, ended } = gather(&mut rest, self.lookup.rows_max).await?;
        counter("outer_rows").add(rows);
        let found = if ended { self.inner_rows(inner, &batches, &statement, &task).await? } else { None };
        counter("fell_back").add(usize::from(found.is_none()));
        let found = match found {
            Some((found, lookups)) => {
                counter("lookups").add(lookups);
                found
            }
            None => Arc::clone(inner),
        };
        let outer = GivenExec::plan(outer, batches, (!ended).then_some(rest));
        let children = match self.lookup.inner {
            JoinSide::Right => vec![outer, found],
            _ => vec![found, outer],
        };
        let join = Arc::clone(&self.join).replace_children(children, keep())?;
        join.reset_state()?.execute(0, task)
    }

    /// The inner side, reading only what the keys of these outer rows find; and their number.
    async fn inner_rows(
        &self,
        inner: &Plan,
        outer: &[RecordBatch],
        statement: &Arc<StatementContext>,
        task: &Arc<TaskContext>,
    ) -> Result<Option<(Plan, usize)>> {
        // The one row in place of the target's is given to the first read.
        if statement.target.is_some() {
            return Ok(None);
        }
        let Some(ranges) = self.lookup.ranges(outer)? else { return Ok(None) };
        let lookups = ranges.len();
        if self.planning.read_small_tables && self.lookup.bounded == 0 {
            let rows = statement.view.row_count_estimate(&self.lookup.table);
            if lookups as u64 * 4 > rows.max(64) {
                return Ok(None);
            }
        }
        let Some(scan) = scan_below(inner) else { return internal_err!("the inner side of a lookup join has no scan") };
        let mut scan = scan.with_ranges(self.lookup.path.index, ranges);
        if self.lookup.first_of_each {
            scan = scan.first_of_each();
        }
        if self.lookup.path.is_one() || self.lookup.path.index.is_none() {
            return Ok(Some((with_scan(inner, Arc::new(scan), ChildrenPropertiesMode::Keep)?, lookups)));
        }
        // Rows are fetched one by one from the clustered tree: not the whole table that way.
        let most = self.planning.lookup_rows.saturating_mul(ROWS_PER_KEY).max(self.lookup.rows_max);
        let read = Arc::new(AtomicUsize::new(0));
        let scan = scan.counted(most.saturating_add(1), Arc::clone(&read));
        let found = with_scan(inner, Arc::new(scan), ChildrenPropertiesMode::Keep)?;
        let mut rows = found.execute(0, Arc::clone(task))?;
        let Gathered { batches, ended, .. } = gather(&mut rows, usize::MAX).await?;
        if !ended || read.load(Ordering::Relaxed) > most {
            return Ok(None);
        }
        Ok(Some((GivenExec::plan(inner, batches, None), lookups)))
    }
}

/// Whether rows that are looked up may come in place of a side of the join.
fn is_for_lookups(hash: &HashJoinExec) -> bool {
    let plain = hash.null_equality() == NullEquality::NullEqualsNothing && !hash.null_aware;
    // One partition is read: the inputs of a union are several.
    let alone = |partitioning: &Partitioning| partitioning.partition_count() == 1;
    let alone = alone(hash.properties().output_partitioning())
        && alone(hash.left().output_partitioning())
        && alone(hash.right().output_partitioning());
    plain && alone && *hash.partition_mode() == PartitionMode::CollectLeft
}

/// The side that has many fewer rows than the other, as far as can be told.
fn side_of_fewer(hash: &HashJoinExec) -> Option<JoinSide> {
    let (left, right) = (physical::of(hash.left())?.rows, physical::of(hash.right())?.rows);
    if left * MANY_FEWER < right {
        return Some(JoinSide::Left);
    }
    (right * MANY_FEWER < left).then_some(JoinSide::Right)
}

/// The first rows of a stream.
struct Gathered {
    batches: Vec<RecordBatch>,
    rows: usize,
    /// These are all.
    ended: bool,
}

/// Reads until there are more than `most` rows, or [`BYTES_MAX`] bytes.
async fn gather(stream: &mut SendableRecordBatchStream, most: usize) -> Result<Gathered> {
    let mut gathered = Gathered { batches: Vec::new(), rows: 0, ended: false };
    let mut bytes = 0;
    while gathered.rows <= most && bytes <= BYTES_MAX {
        let Some(batch) = stream.next().await else {
            gathered.ended = true;
            break;
        };
        let batch = compact(batch?)?;
        gathered.rows += batch.num_rows();
        bytes += batch.get_array_memory_size();
        gathered.batches.push(batch);
    }
    Ok(gathered)
}

impl Lookup {
    fn new(hash: &HashJoinExec, side: JoinSide, planning: Planning, is_in_order: bool) -> Result<Option<Self>> {
        let inner = if side == JoinSide::Right { hash.right() } else { hash.left() };
        let Some(scan) = scan_below(inner) else { return Ok(None) };
        let table = &scan.table;
        let has_order = side == JoinSide::Right && hash.properties().output_ordering().is_some();
        let rows_max = planning.lookups_in(scan.estimate().map(|of| of.rows()));
        // Outer expressions by the inner table's column that they equal.
        let mut outer: Vec<(usize, &Expr)> = Vec::new();
        for (left, right) in hash.on() {
            let (theirs, ours) = if side == JoinSide::Right { (left, right) } else { (right, left) };
            if let Some(column) = key_column(inner, ours) {
                outer.push((column, theirs));
            }
        }
        let mut best: Option<((bool, usize, bool), Self)> = None;
        for (index, columns, is_unique) in trees(table) {
            let keeps_order = !has_order || index == scan.access().index;
            if is_in_order && !keeps_order {
                continue;
            }
            let path = AccessPath::leading((index, columns, is_unique), |column| -> Result<Option<Part>> {
                Ok(match outer.iter().find(|(known, _)| *known == column) {
                    Some((_, expr)) => Some(Part::Outer(Arc::clone(expr))),
                    None => scan.pinned_value(column)?.map(Part::Constant),
                })
            })?;
            // Constants behind the last outer column serve, too; without any there is nothing to look up.
            if !path.values().any(|part| matches!(part, Part::Outer(_))) {
                continue;
            }
            let score = (path.is_one(), path.equal.len(), index.is_none());
            if best.as_ref().is_none_or(|(known, _)| score > *known) {
                let bounded = boundedness_of_scan(scan);
                let table = Arc::clone(table);
                let first_of_each = false;
                let lookup =
                    Self { inner: side, table, path, bounded, keeps_order, is_in_order, rows_max, first_of_each };
                best = Some((score, lookup));
            }
        }
        let mut best = best.map(|(_, lookup)| lookup);
        if let Some(lookup) = &mut best {
            lookup.first_of_each = is_first_enough(hash, side, lookup);
        }
        Ok(best)
    }

    /// The ranges of the inner tree that the keys of these rows are in; `None` if one cannot be told.
    fn ranges(&self, outer: &[RecordBatch]) -> Result<Option<Vec<KeyRange>>> {
        let mut constants: Vec<Datum> = Vec::with_capacity(self.path.equal.len());
        for (column, part) in self.key() {
            constants.push(match part {
                Part::Outer(_) => Datum::Null,
                Part::Constant(expr) => match self.key_value(&evaluate_constant(expr)?, column)? {
                    KeyValue::Exact(datum) => datum,
                    KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => return Ok(Some(Vec::new())),
                    KeyValue::Unknown => return Ok(None),
                },
            });
        }
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for batch in outer {
            running::check().map_err(bridge::failure)?;
            let mut arrays = Vec::with_capacity(self.path.equal.len());
            for (column, part) in self.key() {
                arrays.push(match part {
                    Part::Outer(expr) => Some((column, expr.evaluate(batch)?.into_array(batch.num_rows())?)),
                    Part::Constant(_) => None,
                });
            }
            let mut datums = constants.clone();
            'rows: for row in 0..batch.num_rows() {
                for (slot, array) in datums.iter_mut().zip(&arrays) {
                    let Some((column, array)) = array else { continue };
                    if array.is_null(row) {
                        continue 'rows;
                    }
                    match self.key_value(&ScalarValue::try_from_array(array, row)?, *column)? {
                        KeyValue::Exact(datum) => *slot = datum,
                        KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => continue 'rows,
                        KeyValue::Unknown => return Ok(None),
                    }
                }
                let refs: Vec<DatumRef<'_>> = datums.iter().map(Datum::as_ref).collect();
                keys.extend(encode_key(&self.table, self.path.index, &refs)?);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(keys.iter().map(|key| KeyRange::prefix(key)).collect()))
    }

    /// The leading columns of the tree's key, and what each equals.
    fn key(&self) -> impl Iterator<Item = (usize, &Part)> {
        self.path.key_columns(&self.table).iter().copied().zip(self.path.equal.iter().filter_map(KeyValues::single))
    }

    fn key_value(&self, value: &ScalarValue, column: usize) -> Result<KeyValue> {
        bridge::key_value(value, &self.table.columns[column].ty)
    }
}

/// Whether one row of each key that is looked up does for all of them: only whether there is one is asked (semi-joins and their kin), and each of them
/// is a match or none is, since all that the join compares is in the key, and nothing between the scan and the join drops rows.
fn is_first_enough(hash: &HashJoinExec, inner: JoinSide, lookup: &Lookup) -> bool {
    let asks_for_one = match hash.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => inner == JoinSide::Right,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => inner == JoinSide::Left,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => false,
    };
    let plan = if inner == JoinSide::Right { hash.right() } else { hash.left() };
    let key: Vec<usize> = lookup.key().map(|(column, _)| column).collect();
    let is_in_key = |(left, right): &(Expr, Expr)| {
        let column = key_column(plan, if inner == JoinSide::Right { right } else { left });
        // Zeroes are one key, and two values where bits are compared.
        column.is_some_and(|column| {
            let is_float = matches!(lookup.table.columns[column].ty, ColumnType::Float4 | ColumnType::Float8);
            key.contains(&column) && !is_float
        })
    };
    asks_for_one && hash.filter().is_none() && has_all_rows(plan) && hash.on().iter().all(is_in_key)
}

/// Whether a chain has all rows of the scan below it.
fn has_all_rows(plan: &Plan) -> bool {
    match input_in_order(plan) {
        Some(input) => !plan.is::<FilterExec>() && has_all_rows(input),
        None => plan.is::<ScanExec>(),
    }
}

/// The column of the table at the end of a chain of filters and projections that `expr` over that
/// chain is, seen through casts that keep equality.
pub(crate) fn key_column(plan: &Plan, expr: &Expr) -> Option<usize> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let column = key_column(plan, cast.expr())?;
        let ty = &scan_below(plan)?.table.columns[column].ty;
        return cast_keeps(ty, cast.cast_type()).then_some(column);
    }
    // Numerics that show digits of their own are joined by their keys.
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == numeric::KEY) {
        let column = key_column(plan, call.args().first()?)?;
        let ty = scan_below(plan)?.table.columns[column].ty;
        return matches!(ty, ColumnType::VarNumeric(_)).then_some(column);
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == ORDER_KEY) {
        let column = key_column(plan, call.args().first()?)?;
        let ty = scan_below(plan)?.table.columns[column].ty;
        return matches!(ty, ColumnType::Folded).then_some(column);
    }
    let column = expr.downcast_ref::<Column>()?;
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let column = scan.table_column(column.index())?;
        // Blanks at the end of a char are not part of the value, but may be of the key.
        return (!matches!(scan.table.columns[column].ty, ColumnType::Char(_))).then_some(column);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let at = match filter.projection() {
            Some(projection) => *projection.get(column.index())?,
            None => column.index(),
        };
        let below: Expr = Arc::new(Column::new(column.name(), at));
        return key_column(filter.input(), &below);
    }
    if let Some(paced) = plan.downcast_ref::<PacedExec>() {
        return key_column(paced.input(), expr);
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    key_column(projection.input(), &projection.expr().get(column.index())?.expr)
}

/// How much is known to keep a plan's rows few: 3 a row limit or a whole key, 2 the beginning of a
/// key, 1 a range or another filter, 0 nothing.
fn boundedness(plan: &Plan) -> u8 {
    if plan.fetch().is_some() {
        return 3;
    }
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return boundedness_of_scan(scan);
    }
    if let Some(join) = plan.downcast_ref::<LookupJoinExec>() {
        return join.sides().map_or(0, |(outer, _)| boundedness(outer));
    }
    let children = plan.children();
    let below = match children.as_slice() {
        [one] => boundedness(one),
        many if plan.is::<HashJoinExec>() => many.iter().map(|child| boundedness(child)).max().unwrap_or(0),
        _ => 0,
    };
    below.max(u8::from(plan.is::<FilterExec>()))
}

fn boundedness_of_scan(scan: &ScanExec) -> u8 {
    let access = scan.access();
    match access.equal.len() {
        0 => u8::from(access.is_bounded_behind()),
        n if n == access.key_columns(&scan.table).len() => 3,
        _ => 2,
    }
}

fn keep() -> ReplaceChildrenOptions {
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep)
}

impl DisplayAs for LookupJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let table = &self.lookup.table;
        let tree = match self.lookup.path.index {
            None => &table.primary_key_name,
            Some(i) => &table.indexes[i].name,
        };
        write!(f, "LookupJoinExec: in {} by {tree} (", table.name)?;
        for (i, (column, part)) in self.lookup.key().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let (Part::Outer(value) | Part::Constant(value)) = part;
            write!(f, "{comma}{} {} {value}", bridge::key_name(table, column), Operator::Eq)?;
        }
        let first = if self.lookup.first_of_each { ", the first row of each" } else { "" };
        write!(f, "){first}, up to {} rows, or else:", self.lookup.rows_max)
    }
}

impl ExecutionPlan for LookupJoinExec {
    fn name(&self) -> &str {
        "LookupJoinExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn children(&self) -> Vec<&Plan> {
        vec![&self.join]
    }
    fn apply_expressions(&self, _: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(self: Arc<Self>, mut children: Vec<Plan>, options: ReplaceChildrenOptions) -> Result<Plan> {
        let (Some(join), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a lookup join has one child");
        };
        // The watch that the join got stands above this one instead.
        let join = Arc::clone(below_watch(&join));
        match options.children_properties {
            ChildrenPropertiesMode::Keep => {
                Ok(Arc::new(Self { join, metrics: ExecutionPlanMetricsSet::new(), ..Self::clone(&self) }))
            }
            // The side that is looked up stays the one that it is.
            ChildrenPropertiesMode::Recompute => {
                let lookup = match join.downcast_ref::<HashJoinExec>().filter(|hash| is_for_lookups(hash)) {
                    Some(hash) => Lookup::new(hash, self.lookup.inner, self.planning, self.lookup.is_in_order)?,
                    None => None,
                };
                Ok(match lookup {
                    Some(lookup) => Self::over(join, lookup, self.planning)?,
                    None => outer_side::covered(&join)?.unwrap_or(join),
                })
            }
        }
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a lookup join has one partition, not {partition}");
        }
        let stream = futures::stream::once(self.clone().run(task)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }
}

/// Rows that were read already, and the rest of them, in place of the plan that they come from. It
/// runs once.
struct GivenExec {
    properties: Arc<PlanProperties>,
    rows: Mutex<Option<(Vec<RecordBatch>, Option<SendableRecordBatchStream>)>>,
}

impl GivenExec {
    fn plan(of: &Plan, batches: Vec<RecordBatch>, rest: Option<SendableRecordBatchStream>) -> Plan {
        Arc::new(Self { properties: Arc::clone(of.properties()), rows: Mutex::new(Some((batches, rest))) })
    }
}

impl fmt::Debug for GivenExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenExec")
    }
}

impl DisplayAs for GivenExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("GivenExec")
    }
}

impl ExecutionPlan for GivenExec {
    fn name(&self) -> &str {
        "GivenExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Plan> {
        vec![]
    }
    fn apply_expressions(&self, _: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(self: Arc<Self>, _: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        Ok(self)
    }
    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> Result<Plan> {
        Ok(self)
    }
    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some((batches, rest)) = self.rows.lock().take() else { return internal_err!("rows were given already") };
        let first = futures::stream::iter(batches.into_iter().map(Ok));
        let stream = match rest {
            Some(rest) => first.chain(rest).boxed(),
            None => first.boxed(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}
