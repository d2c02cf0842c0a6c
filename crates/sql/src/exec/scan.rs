//! The operator that reads a table: ranges of one of its trees, as Arrow batches.
//!
//! It keeps no state of an execution, so a kept plan can run it again and again. The view
//! comes from the statement ([`StatementContext`]). Batches start small and grow, so that
//! whoever wants a few rows does not pay for thousands. Only projected columns are decoded.
//!
//! Invariants:
//! 1. There is one partition, and its rows come in the order of the tree's keys, or in the reverse.
//!    Columns that the ranges pin to one value count as constants in that order. What is declared
//!    holds for the rows that satisfy the predicates: they are applied again right above, and a
//!    part of an ordered sequence is ordered.
//! 2. Ranges that were given ([`ScanExec::with_ranges`]) are ascending and disjoint, too.
//! 3. Rows that several trees name together ([`ScanExec::by_alternatives`]) come in the order of the table's own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, BinaryViewBuilder, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr,
};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use resurgam_engine::{ColumnType, Covering, Cursor, KeyRange, ReadView, RowBatch, Table};

use crate::exec::access_path::{self, AccessPath, FETCH, Probe, ProbeKind, alternatives, constant, evaluate_constant};
use crate::exec::bridge::{self, RowColumns};
use crate::exec::context::StatementContext;
use crate::exec::early::{Early, EarlyRun, Left};
use crate::exec::estimate::TableEstimate;
use crate::exec::found_keys::{AnyOfWays, Finding, FoundKeys, Read};
use crate::exec::gather::{Gather, Worth};
use crate::exec::planning::Planning;
use crate::exec::table::KEY_COLUMN;
use crate::exec::{late, zeroes};
use crate::pg::functions::{numeric, order_key};
use crate::pg::running;

/// Rows of the first batch, unless fewer are wanted.
const FIRST_ROWS: usize = 64;
const BATCH_ROWS: usize = 8192;

/// Values are read when the scan begins: they may be those of parameters.
pub(crate) type Access = AccessPath<Arc<dyn PhysicalExpr>>;

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct ScanExec {
    pub(crate) table: Arc<Table>,
    target: bool,
    /// Positions in the provider's schema.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Also which way it is read.
    access: Access,
    /// The ways by which rows of the table's tree, which `access` then is, are found.
    any: Option<AnyOfWays>,
    /// What the access was chosen by.
    probes: Arc<[Probe]>,
    /// Conditions that read no row: where one is not true there is no row, whatever the access's values are, and though they cannot be computed.
    guards: Arc<[Arc<dyn PhysicalExpr>]>,
    limit: Option<usize>,
    /// Rows of the first batch.
    first: usize,
    /// Read instead of the ranges of `access`.
    given: Option<Arc<[KeyRange]>>,
    /// Of each range only the first row is read.
    first_of_each: bool,
    /// Where the rows read are counted.
    read: Option<Arc<AtomicUsize>>,
    /// What the plan is made with: expressions say it.
    config: Arc<ConfigOptions>,
    /// What is known of the table's rows.
    estimate: Option<Arc<TableEstimate>>,
    /// What the statement calls the table, if that is another name.
    alias: Option<Arc<str>>,
    /// What the filter above it asks, looked at before all columns are decoded.
    early: Option<Early>,
    /// Threads that have read for it beside that of the plan, in all runs; for EXPLAIN ANALYZE.
    helped: Arc<AtomicUsize>,
    properties: Arc<PlanProperties>,
}

impl ScanExec {
    pub(crate) fn new(
        table: Arc<Table>,
        target: bool,
        columns: Vec<usize>,
        full: &SchemaRef,
        probes: Vec<Probe>,
        limit: Option<usize>,
        config: Arc<ConfigOptions>,
        estimate: Option<Arc<TableEstimate>>,
        alias: Option<Arc<str>>,
    ) -> Result<Self> {
        let schema = Arc::new(full.project(&columns)?);
        let alone = |index| !target && access_path::covering(&table, Some(index), &columns).is_some();
        let access = AccessPath::choose_by(&table, &probes, estimate.as_deref(), alone).try_map(constant)?;
        let properties = Self::properties_of(&table, &columns, &schema, &access, &config)?;
        let probes = probes.into();
        let (first, given, read, early, helped) = (FIRST_ROWS, None, None, None, Arc::default());
        Ok(Self {
            table,
            target,
            columns,
            schema,
            access,
            any: None,
            probes,
            guards: Arc::default(),
            limit,
            first,
            given,
            first_of_each: false,
            read,
            config,
            estimate,
            alias,
            early,
            helped,
            properties,
        })
    }

    /// The same where these conditions, which read no row, hold as well.
    pub(crate) fn guarded<'e>(self, guards: impl Iterator<Item = &'e Expr>) -> Result<Self> {
        let guards = guards.map(constant).collect::<Result<Vec<_>>>()?;
        Ok(Self { guards: guards.into(), ..self })
    }

    /// What is read, or why it cannot be said: no guard keeps that from mattering.
    fn unless_shut(&self, ranges: Result<Vec<KeyRange>>) -> Result<Vec<KeyRange>> {
        ranges.or_else(|error| {
            for guard in self.guards.iter() {
                if evaluate_constant(guard).is_ok_and(|held| held != ScalarValue::Boolean(Some(true))) {
                    return Ok(Vec::new());
                }
            }
            Err(error)
        })
    }

    /// The same by several ways, those of the alternatives of a condition with OR among these, if that is less work.
    pub(crate) fn by_alternatives(self, filters: &[Expr]) -> Result<Self> {
        let Some(of) = self.estimate.as_deref().filter(|_| !self.access.whole) else { return Ok(self) };
        let fetches = self.access.index.is_some() && self.covering().is_none();
        let now = self.access.cost(of, fetches).min(of.rows());
        let Some(ways) = alternatives::choose(&self.table, filters, of, now) else { return Ok(self) };
        let ways = ways.iter().map(|way| way.try_map(constant)).collect::<Result<Vec<Access>>>()?;
        let access = Access::default();
        let properties = Self::properties_of(&self.table, &self.columns, &self.schema, &access, &self.config)?;
        Ok(Self { access, any: Some(AnyOfWays::new(ways)), properties, ..self })
    }

    /// The ways of [`ScanExec::by_alternatives`].
    pub(crate) fn alternatives(&self) -> Option<&AnyOfWays> {
        self.any.as_ref()
    }

    /// The same, whose rows may be dropped by these conditions of the filter above it.
    pub(crate) fn with_early(&self, early: Early) -> Self {
        Self { early: Some(early), ..self.clone() }
    }

    /// Whether columns may be left out and fetched later by the rows' keys: those of the table's own rows, all that there are.
    pub(crate) fn has_late_columns(&self) -> bool {
        let has_key = self.columns.contains(&self.table.columns.len());
        !self.target && !has_key && self.limit.is_none() && self.given.is_none() && self.covering().is_none()
    }

    /// The table's column that is fetched later.
    pub(crate) fn late_column(&self, from: late::From) -> Option<usize> {
        match from {
            late::From::Sorted(_) => None,
            late::From::Row(at) => self.table_column(at),
        }
    }

    /// The same with these columns only (by their places here), and the key of each row behind them.
    pub(crate) fn narrowed(&self, columns: &[usize]) -> Result<Self> {
        let mut fields = self.schema.project(columns)?.fields().to_vec();
        fields.push(Arc::new(Field::new(KEY_COLUMN, DataType::BinaryView, false)));
        let schema = Arc::new(Schema::new(fields));
        let mut columns: Vec<usize> = columns.iter().map(|at| self.columns[*at]).collect();
        columns.push(self.table.columns.len());
        let properties = Self::properties_of(&self.table, &columns, &schema, &self.access, &self.config)?;
        Ok(Self { columns, schema, properties, ..self.clone() })
    }

    /// Rows that were dropped by what [`ScanExec::with_early`] was told.
    pub(crate) fn dropped_early(&self) -> u64 {
        self.early.as_ref().map_or(0, Early::dropped)
    }

    /// See the field.
    pub(crate) fn helped(&self) -> usize {
        self.helped.load(Ordering::Relaxed)
    }

    /// What is known of the table's rows.
    pub(crate) fn estimate(&self) -> Option<&Arc<TableEstimate>> {
        self.estimate.as_ref()
    }

    /// What the statement calls the table.
    pub(crate) fn alias(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.table.name)
    }

    /// About how many rows it reads, which the predicates bound as far as its tree's key goes.
    pub(crate) fn estimated_rows(&self, of: &TableEstimate) -> f64 {
        let part = match &self.any {
            Some(any) => alternatives::part(&any.ways, of),
            None => self.access.part(of),
        };
        of.rows() * part
    }

    /// What the plan is made with.
    pub(crate) fn config(&self) -> &Arc<ConfigOptions> {
        &self.config
    }

    /// How its index gives all that is read by itself, if it does. Rows to be written or locked are those of the table.
    pub(crate) fn covering(&self) -> Option<Arc<Covering>> {
        let is_read_only = !self.target && !self.columns.contains(&self.table.columns.len());
        if is_read_only { access_path::covering(&self.table, self.access.index, &self.columns) } else { None }
    }

    /// What pins or bounds the rows read.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The table's column that is column `at` of the output.
    pub(crate) fn table_column(&self, at: usize) -> Option<usize> {
        self.columns.get(at).copied().filter(|&column| column < self.table.columns.len())
    }

    /// The same rows in the reverse order.
    pub(crate) fn reversed(&self) -> Result<Self> {
        let access = Access { backward: !self.access.backward, ..self.access.clone() };
        let properties = Self::properties_of(&self.table, &self.columns, &self.schema, &access, &self.config)?;
        Ok(Self { access, properties, ..self.clone() })
    }

    /// The same rows (after the predicates above) by other trees whose leading columns are pinned
    /// by at least the same predicates; none if something bounds the rows read now beyond that.
    pub(crate) fn by_other_trees(&self) -> Result<Vec<Self>> {
        if self.access.is_bounded_behind() || self.given.is_some() {
            return Ok(Vec::new());
        }
        let pinned = |access: &Access| access.key_columns(&self.table)[..access.equal.len()].to_vec();
        let now = pinned(&self.access);
        let mut out = Vec::new();
        for access in AccessPath::all(&self.table, &self.probes) {
            let access = access.try_map(constant)?;
            let then = pinned(&access);
            if access.index != self.access.index && now.iter().all(|column| then.contains(column)) {
                let properties = Self::properties_of(&self.table, &self.columns, &self.schema, &access, &self.config)?;
                out.push(Self { access, any: None, properties, ..self.clone() });
            }
        }
        Ok(out)
    }

    /// The same without the rows in which a column is NULL, as far as keys tell.
    pub(crate) fn without_nulls(&self, column: usize) -> Self {
        Self { access: self.access.clone().without_nulls(&self.table, column), ..self.clone() }
    }

    /// The same with a first batch of at most so many rows.
    pub(crate) fn with_first(&self, rows: usize) -> Self {
        Self { first: rows.clamp(1, FIRST_ROWS), ..self.clone() }
    }

    /// Reads these ranges, ascending and disjoint, of a tree (`None`: the clustered one). What it
    /// declares stays: its order is true if the tree is the same.
    pub(crate) fn with_ranges(&self, index: Option<usize>, ranges: Vec<KeyRange>) -> Self {
        let access = Access { index, backward: self.access.backward, ..Access::default() };
        Self { access, any: None, given: Some(ranges.into()), ..self.clone() }
    }

    /// Reads the first row of each range only.
    pub(crate) fn first_of_each(&self) -> Self {
        Self { first_of_each: true, ..self.clone() }
    }

    /// Reads so many rows at most, and counts them.
    pub(crate) fn counted(&self, limit: usize, read: Arc<AtomicUsize>) -> Self {
        Self { limit: Some(limit), read: Some(read), ..self.clone() }
    }

    /// The one value that a column has in all rows that satisfy the predicates, if they say so.
    pub(crate) fn pinned_value(&self, column: usize) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let value = self.probes.iter().filter(|probe| probe.column == column).find_map(|probe| match &probe.kind {
            ProbeKind::In(values) => match values.as_slice() {
                [value] => Some(value),
                _ => None,
            },
            _ => None,
        });
        value.map(constant).transpose()
    }

    /// Whether an index is read by how texts begin, and too many begin so for fetching the rows one by one: all do with a pattern that begins
    /// with a wildcard; otherwise as far as is known of the column's values.
    fn reads_too_much(&self) -> Result<bool> {
        let (Some(index), Some(_), None) = (self.access.index, &self.access.prefix, self.covering()) else {
            return Ok(false);
        };
        let Some((low, high)) = self.access.prefix_bounds(evaluate_constant)? else { return Ok(false) };
        if !self.access.equal.is_empty() {
            return Ok(false);
        }
        let (Some(low), Some(column)) = (low, self.table.indexes[index].columns.first()) else { return Ok(true) };
        let Some(of) = &self.estimate else { return Ok(false) };
        let (Some(less), Some(below)) =
            (of.below(*column, &low), high.map_or(Some(1.0), |high| of.below(*column, &high)))
        else {
            return Ok(false);
        };
        Ok((below - less) * FETCH > 1.0)
    }

    fn properties_of(
        table: &Table,
        columns: &[usize],
        schema: &SchemaRef,
        access: &Access,
        config: &Arc<ConfigOptions>,
    ) -> Result<Arc<PlanProperties>> {
        let ordering = Self::ordering(table, columns, schema, access, config)?;
        let mut equivalences = if ordering.is_empty() {
            EquivalenceProperties::new(Arc::clone(schema))
        } else {
            EquivalenceProperties::new_with_orderings(Arc::clone(schema), [ordering])
        };
        let pinned = access.pinned(table).filter_map(|column| {
            let at = columns.iter().position(|&c| c == column)?;
            let value: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(at).name(), at));
            Some(tree_key(table, column, value, schema, config))
        });
        // Which one is not said: two that were "some value, everywhere the same" would be taken for equal.
        let pinned = pinned.map(|value| Ok(ConstExpr::new(value?, AcrossPartitions::Heterogeneous)));
        equivalences.add_constants(pinned.collect::<Result<Vec<_>>>()?)?;
        Ok(Arc::new(
            PlanProperties::new(
                equivalences,
                Partitioning::UnknownPartitioning(1),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )
            .with_scheduling_type(SchedulingType::Cooperative),
        ))
    }

    /// The order in which rows come out, as far as projected columns can say it.
    fn ordering(
        table: &Table,
        columns: &[usize],
        schema: &SchemaRef,
        access: &Access,
        config: &Arc<ConfigOptions>,
    ) -> Result<Vec<PhysicalSortExpr>> {
        let mut out = Vec::new();
        // Which tree is read is decided when the scan begins.
        if access.prefix.is_some() && access.index.is_some() {
            return Ok(out);
        }
        for (column, order) in access.order(table) {
            let Some(at) = columns.iter().position(|&c| c == column) else {
                if access.pinned(table).any(|c| c == column) {
                    continue;
                }
                break;
            };
            let value: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(at).name(), at));
            let value = tree_key(table, column, value, schema, config)?;
            let options = SortOptions { descending: order.descending, nulls_first: order.nulls_first };
            out.push(PhysicalSortExpr::new(value, options));
        }
        Ok(out)
    }
}

/// The key of a numeric that shows digits of its own, as plans have it.
pub(crate) fn numeric_key(
    value: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &Arc<ConfigOptions>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let Some(function) = numeric::by_proc_name(numeric::KEY) else { return internal_err!("no function numeric_key") };
    Ok(Arc::new(ScalarFunctionExpr::try_new(function, vec![value], schema, Arc::clone(config))?))
}

/// What a tree is in order of where it is in order of a column: values that are equal may be of different bytes.
fn tree_key(
    table: &Table,
    column: usize,
    value: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &Arc<ConfigOptions>,
) -> Result<Arc<dyn PhysicalExpr>> {
    match table.columns.get(column).map(|column| column.ty) {
        Some(ColumnType::VarNumeric(_)) => numeric_key(value, schema, config),
        Some(ColumnType::Float4 | ColumnType::Float8) => zeroes::key(value, schema, config),
        Some(ColumnType::Folded) => {
            let function = Arc::new(order_key());
            Ok(Arc::new(ScalarFunctionExpr::try_new(function, vec![value], schema, Arc::clone(config))?))
        }
        _ => Ok(value),
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        // EXPLAIN has its own words.
        write!(f, "ScanExec: {}", self.table.name)
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ScanExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let of_ways = self.any.iter().flat_map(|any| any.ways.iter()).flat_map(Access::values);
        for expr in self.access.values().chain(of_ways) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn fetch(&self) -> Option<usize> {
        self.limit
    }
    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self { limit, ..self.clone() }))
    }
    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        // Of the first rows in one direction, the last are not the first in the other.
        if self.limit.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let reversed = self.reversed()?;
        if !reversed.properties.eq_properties.ordering_satisfy(order.iter().cloned())? {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        Ok(SortOrderPushdownResult::Exact { inner: Arc::new(reversed) })
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a scan has one partition, not {partition}");
        }
        let statement = StatementContext::of(&task)?;
        let mut scan = self.clone();
        if self.given.is_none() && self.reads_too_much()? {
            scan.access = Access { backward: self.access.backward, ..Access::default() };
        }
        let reads_small_tables = Planning::of(task.session_config()).read_small_tables;
        let rows = || statement.view.row_count_estimate(&self.table);
        let mut finding = None;
        let mut ranges = match (&self.given, &self.any) {
            (Some(given), _) => given.to_vec(),
            (None, Some(any)) => {
                let memory = || MemoryConsumer::new("keys of rows").register(task.memory_pool());
                let how = (self.first < FIRST_ROWS, !reads_small_tables);
                match any.begin(&self.table, how, memory) {
                    Read::Ranges(ranges) => ranges,
                    Read::Keys(keys) => {
                        finding = Some(keys);
                        vec![KeyRange::all()]
                    }
                }
            }
            (None, None) if reads_small_tables => {
                self.unless_shut(scan.access.ranges_worth(&self.table, evaluate_constant, rows))?
            }
            (None, None) => self.unless_shut(scan.access.ranges(&self.table, evaluate_constant))?,
        };
        if !self.access.backward {
            ranges.reverse(); // taken from the end
        }
        // Of a range that is read to its end in the order of the table's tree a part may be read by others.
        let is_whole = self.limit.is_none() && !self.target && scan.access.index.is_none() && !self.access.backward;
        let worth = match ranges.as_slice() {
            [_] if is_whole => Worth::of(statement.stop.limits.scan_workers(), Planning::of(task.session_config())),
            _ => Worth::NEVER,
        };
        let reader = Reader {
            covering: scan.covering(),
            early: scan.early.as_ref().map(|early| early.begin(&scan.table, &scan.columns)),
            scan,
            view: statement.view.clone(),
            statement,
            finding,
            keys: None,
            ranges,
            cursor: None,
            rows: RowBatch::default(),
            seen: 0,
            passed: None,
            given: 0,
            large: false,
            want: self.first,
            left: self.limit.unwrap_or(usize::MAX),
        };
        let stream = futures::stream::try_unfold(Reading::Alone(Box::new(reader), worth), Reading::next);
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream.boxed()))))
    }
}

/// A scan under way.
enum Reading {
    /// By itself, as long as it has not turned out to be long.
    Alone(Box<Reader>, Worth),
    Together(Gather),
}

impl Reading {
    async fn next(self) -> Result<Option<(RecordBatch, Self)>> {
        match self {
            Self::Alone(mut reader, mut worth) => loop {
                if worth.may_be_long(reader.seen) && reader.given == reader.count() {
                    if let Some(gather) = reader.divide(worth)? {
                        return Self::gathered(gather).await;
                    }
                    worth = Worth::NEVER;
                }
                match reader.next()? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    batch => return Ok(batch.map(|batch| (batch, Self::Alone(reader, worth)))),
                }
            },
            Self::Together(gather) => Self::gathered(gather).await,
        }
    }

    async fn gathered(mut gather: Gather) -> Result<Option<(RecordBatch, Self)>> {
        Ok(gather.next().await?.map(|batch| (batch, Self::Together(gather))))
    }
}

/// Reads ranges, one after the other.
pub(super) struct Reader {
    scan: ScanExec,
    /// Rows are made of the index's entries.
    covering: Option<Arc<Covering>>,
    early: Option<EarlyRun>,
    view: ReadView,
    statement: Arc<StatementContext>,
    /// The rows of these keys are read, once they are found, instead of the ranges.
    finding: Option<Finding>,
    keys: Option<FoundKeys>,
    ranges: Vec<KeyRange>,
    cursor: Option<Box<Cursor>>,
    rows: RowBatch,
    /// How many were read by now.
    seen: usize,
    /// Those of `rows` that are to be handed out, and what was decoded of them; `None`: all, and nothing.
    passed: Option<Left>,
    /// How many of these were handed out.
    given: usize,
    /// They have large values in the columns read, which are handed out a few rows at a time.
    large: bool,
    want: usize,
    left: usize,
}

impl Reader {
    /// The rest of a long range in parts, which threads read beside each other; `None`: it is not worth that, or all threads are taken.
    fn divide(&mut self, worth: Worth) -> Result<Option<Gather>> {
        let cursor = self.cursor.as_ref().filter(|_| self.ranges.is_empty());
        let Some(rest) = cursor.and_then(|cursor| cursor.rest().cloned()) else { return Ok(None) };
        let rows = self.view.row_count_estimate(&self.scan.table);
        let Some(parts) = worth.parts(rows) else { return Ok(None) };
        let parts = self.view.divide(&self.scan.table, &rest, parts).map_err(bridge::storage)?;
        // What is left may be little.
        if parts.len() < 4 {
            return Ok(None);
        }
        Ok(Gather::begin(self, parts, worth.workers, &self.scan.helped))
    }

    /// One that reads another range, in large batches from the beginning.
    pub(super) fn over(&self, range: KeyRange) -> Self {
        Self {
            scan: self.scan.clone(),
            covering: self.covering.clone(),
            early: self.early.clone(),
            view: self.view.clone(),
            statement: Arc::clone(&self.statement),
            finding: None,
            keys: None,
            ranges: vec![range],
            cursor: None,
            rows: RowBatch::default(),
            seen: 0,
            passed: None,
            given: 0,
            large: false,
            want: BATCH_ROWS,
            left: usize::MAX,
        }
    }

    /// A batch without rows.
    pub(super) fn nothing(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(&self.scan.schema))
    }

    /// Rows to be handed out of those that were read.
    fn count(&self) -> usize {
        match &self.passed {
            Some(Left { rows: Some(rows), .. }) => rows.len(),
            _ => self.rows.len(),
        }
    }

    /// The number, among those that were read, of a row to be handed out.
    fn number(&self, at: usize) -> usize {
        match &self.passed {
            Some(Left { rows: Some(rows), .. }) => rows[at] as usize,
            _ => at,
        }
    }

    /// The next rows; a batch without any where none of those that were looked at passed.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            self.statement.stop.check().map_err(bridge::failure)?;
            running::check().map_err(bridge::failure)?;
            if self.scan.target
                && let Some(target) = self.statement.target.as_ref().and_then(|target| target.of(self.scan.table.id))
            {
                return match target.row.lock().take() {
                    Some(row) => self.batch(std::iter::once(row.raw()), true),
                    None => Ok(None),
                };
            }
            if self.given < self.count() {
                return self.hand_out();
            }
            if self.left == 0 || !self.read()? {
                return Ok(None);
            }
            self.ask()?;
            if self.count() == 0 {
                // Of so many rows none passed: whoever asks may want to have the rest read otherwise.
                return Ok(Some(self.nothing()));
            }
        }
    }

    /// Reads more rows; false: there are none.
    fn read(&mut self) -> Result<bool> {
        self.rows.clear();
        (self.given, self.large, self.passed) = (0, false, None);
        let want = self.want.min(self.left);
        if let Some(finding) = self.finding.take() {
            let check = || {
                self.statement.stop.check().map_err(bridge::failure)?;
                running::check().map_err(bridge::failure)
            };
            self.keys = finding.find(&self.view, &self.scan.table, check)?;
            if self.keys.is_some() {
                self.ranges.clear();
            }
        }
        if let Some(keys) = &mut self.keys {
            let (backward, most) = (self.scan.access.backward, (want, bridge::BATCH_BYTES));
            keys.fetch(&self.view, &self.scan.table, backward, most, &mut self.rows)?;
        }
        // Short ranges share a batch.
        while self.rows.len() < want {
            let Some(cursor) = &mut self.cursor else {
                let Some(range) = self.ranges.pop() else { break };
                let Access { index, .. } = self.scan.access;
                let direction = self.scan.access.direction();
                let covering = self.covering.as_ref();
                let mut cursor = access_path::cursor(&self.view, &self.scan.table, index, range, direction, covering);
                // Rows that are counted are those of the table.
                if self.scan.limit.is_none() && self.scan.read.is_none() {
                    cursor.set_test(self.early.as_ref().and_then(EarlyRun::test).cloned());
                }
                self.cursor = Some(Box::new(cursor));
                continue;
            };
            let before = self.rows.len();
            let missing = if self.scan.first_of_each { 1 } else { want - before };
            let more = cursor.next_batch(&mut self.rows, missing).map_err(bridge::storage)?;
            let more = more && !(self.scan.first_of_each && self.rows.len() > before);
            let tested = cursor.take_tested();
            self.seen += usize::try_from(tested.rejected).unwrap_or(usize::MAX);
            if !more {
                self.cursor = None;
                self.statement.stop.check().map_err(bridge::failure)?;
            }
            if tested.rows > 0
                && let Some(early) = &mut self.early
                && !early.note(tested)
                && let Some(cursor) = &mut self.cursor
            {
                cursor.set_test(None);
            }
            // Of many rows that were looked at few passed: whoever waits for them has to be asked whether to stop.
            if more && tested.rows > 0 && self.rows.len() - before < missing {
                break;
            }
        }
        if self.rows.is_empty() && self.cursor.is_none() {
            return Ok(false);
        }
        // Rows may be as long as a page.
        let fitting = match self.rows.bytes() {
            0 => BATCH_ROWS,
            bytes => bridge::BATCH_BYTES * self.rows.len() / bytes,
        };
        self.want = (self.want * 4).min(BATCH_ROWS).min(fitting.max(1));
        self.left -= self.rows.len().min(self.left);
        self.seen += self.rows.len();
        if let Some(read) = &self.scan.read {
            read.fetch_add(self.rows.len(), Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Drops rows by what is asked early.
    fn ask(&mut self) -> Result<()> {
        let Some(early) = &mut self.early else { return Ok(()) };
        let mut columns = RowColumns::new(&self.scan.table, &self.view);
        let (rows, scan) = (&self.rows, &self.scan);
        let key = scan.table.columns.len();
        self.passed = early.left(rows.len(), scan.columns.len(), |at, wanted| match (scan.columns[at], wanted) {
            (column, _) if column == key => Ok(None),
            (column, None) => columns.array_in_rows(column, (0..rows.len()).map(|i| rows.row(i))),
            (column, Some(wanted)) => columns.array_in_rows(column, wanted.iter().map(|i| rows.row(*i as usize))),
        })?;
        Ok(())
    }

    /// A batch of the rows that are to be handed out: all of them, or as many as have [`bridge::BATCH_BYTES`] of
    /// large values.
    fn hand_out(&mut self) -> Result<Option<RecordBatch>> {
        let count = self.count();
        if !self.large {
            let all = self.batch((0..count).map(|i| self.rows.row(self.number(i))), false)?;
            if all.is_some() {
                self.given = count;
                return Ok(all);
            }
            self.large = true;
            if let Some(passed) = &mut self.passed {
                passed.columns.clear();
            }
        }
        let left = self.given..count;
        let columns = RowColumns::new(&self.scan.table, &self.view);
        let rows = left.clone().map(|i| self.rows.row(self.number(i)));
        let fitting = columns.fitting(&self.scan.columns, rows)?;
        let batch = self.batch(left.take(fitting).map(|i| self.rows.row(self.number(i))), true)?;
        self.given += fitting;
        Ok(batch)
    }

    /// A batch of rows; `None` if it would have large values and is not to have any.
    fn batch<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = resurgam_engine::RawRow<'a>> + Clone,
        large: bool,
    ) -> Result<Option<RecordBatch>> {
        let count = rows.len();
        let table = &self.scan.table;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.scan.columns.len());
        let mut columns = RowColumns::new(table, &self.view);
        for (at, &column) in self.scan.columns.iter().enumerate() {
            let decoded = self.passed.as_ref().and_then(|passed| passed.columns.get(at)?.as_ref());
            if let (Some(decoded), false) = (decoded, large) {
                arrays.push(Arc::clone(decoded));
            } else if column == table.columns.len() {
                let mut keys = BinaryViewBuilder::with_capacity(count);
                rows.clone().for_each(|row| keys.append_value(row.key));
                arrays.push(Arc::new(keys.finish()));
            } else {
                let array = if large {
                    Some(columns.array(column, rows.clone())?)
                } else {
                    columns.array_in_rows(column, rows.clone())?
                };
                let Some(array) = array else { return Ok(None) };
                arrays.push(array);
            }
        }
        debug_assert!(self.scan.schema.fields().iter().all(|f| f.data_type() != &DataType::Null));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.scan.schema), arrays, &options)?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::common::ScalarValue;
    use futures::StreamExt;
    use resurgam_engine::{Database, Options, StatementKind};

    use super::*;
    use crate::SqlSettings;
    use crate::exec::context::task_context;
    use crate::exec::weight;
    use crate::plan::statement::Kind;
    use crate::session::Session;
    use crate::session::database::{SessionOptions, SqlDatabase};
    use crate::wire::Execution;

    const MB: usize = 1 << 20;

    /// Rows and megabytes of each batch that a query gives.
    async fn batches(session: &mut Session, text: &str) -> Vec<(usize, usize)> {
        let prepared = session.prepare_text(text, &[]).expect("a plan");
        let source = match &prepared.kind {
            Kind::Query(query) => &query.plan,
            Kind::Write(write) => &write.stream,
            _ => panic!("no query: {text}"),
        };
        let state = session.state().expect("a state");
        let view = session.transaction().txn.statement(StatementKind::Read).expect("a view");
        let context =
            StatementContext { view, stop: Default::default(), target: None, locked: None, once: Default::default() };
        let values: &[ScalarValue] = &[];
        let instance = source.instance(&state, values).await.expect("an instance");
        let mut stream = instance.start(task_context(&state, Arc::new(context))).expect("a stream");
        let mut found = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch.expect("a batch");
            found.push((batch.num_rows(), weight::of(&batch) / MB));
        }
        session.roll_back();
        found
    }

    /// Rows of large values are gathered by their bytes, wherever they are gathered.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_rows_come_in_small_batches() {
        let dir = tempfile::tempdir().expect("folder");
        let engine = Database::open(dir.path().join("db"), Options::default()).expect("open");
        let db = SqlDatabase::new(engine, SqlSettings::default());
        let mut session = db.session(SessionOptions::default()).expect("session");
        for text in [
            "CREATE TABLE t (a int PRIMARY KEY, b text, c text, n int)".to_owned(),
            format!("INSERT INTO t SELECT i, repeat('x', {MB}), 'c', i FROM generate_series(1, 40) AS s(i)"),
            "INSERT INTO t SELECT i, 'small', 'c', i FROM generate_series(41, 100) AS s(i)".to_owned(),
            format!("INSERT INTO t VALUES (101, repeat('y', {}), repeat('z', {MB}), 101)", 20 * MB),
        ] {
            session.query(&text).await.expect("filled");
        }
        for (text, rows) in [
            ("SELECT a, b, c FROM t", 101),
            ("SELECT b FROM t WHERE n % 2 = 0", 50),
            ("SELECT b FROM t WHERE c = 'c' AND n > 1", 99),
            ("UPDATE t SET c = 'd' WHERE n + a > 0", 101),
            ("DELETE FROM t WHERE n + a > 0 RETURNING b", 101),
        ] {
            let found = batches(&mut session, text).await;
            assert_eq!(found.iter().map(|(rows, _)| rows).sum::<usize>(), rows, "{text}");
            // Two bounds meet in a filter: what it had, and what came with the last batch.
            let most = if text.contains("WHERE") { 32 } else { 16 };
            for (rows, bytes) in &found {
                assert!(*bytes <= most || *rows == 1, "{text}: {found:?}");
            }
        }
        // What is not read has no weight.
        assert_eq!(batches(&mut session, "SELECT a, c FROM t WHERE a < 60").await.len(), 1);
        // Chunks of a result, and of COPY.
        let mut chunks = Vec::new();
        for text in ["SELECT b FROM t WHERE n > 0", "COPY (SELECT b FROM t WHERE n > 0) TO STDOUT"] {
            let statement = session.split(text).expect("a statement").pop().expect("one");
            match session.execute_simple(statement, true).await.expect("an answer") {
                Execution::Rows { first, rows: Some(mut rows), .. } => {
                    chunks.extend(first.map(|chunk| chunk.bytes.len()));
                    while let Some(chunk) = rows.next(&mut session).await.expect("rows") {
                        chunks.push(chunk.bytes.len());
                    }
                }
                Execution::CopyOut(mut copy) => {
                    while let Some(data) = copy.next(&mut session).await.expect("data") {
                        chunks.push(data.len());
                    }
                }
                _ => panic!("neither rows nor COPY: {text}"),
            }
        }
        let large = chunks.iter().filter(|bytes| **bytes > 2 * MB + 4096).count();
        assert_eq!(large, 2, "{chunks:?}");
        assert!(chunks.iter().sum::<usize>() >= 120 * MB, "{chunks:?}");
    }
}
