//! Columns that are fetched when it is known which rows are wanted.
//!
//! `SELECT * … ORDER BY x LIMIT 5` decodes, filters and sorts all columns of all rows, for five of them. Where a sort keeps a few rows of a scan, the scan reads
//! the columns that conditions and the sort's keys ask for, and the key of the row; [`FetchRowsExec`] above the sort reads the rows that are left by these keys, through the
//! same view, and gives the columns that there were.
//!
//! Contract: the rows and columns of the sort in whose place it stands, in its order. EXPLAIN shows the sort.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;
use resurgam_base::Error;
use resurgam_engine::{RowBatch, RowBuf};

use crate::exec::bridge::{self, RowColumns};
use crate::exec::context::StatementContext;
use crate::exec::scan::ScanExec;
use crate::exec::weight;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// Rows that are fetched one by one at most.
const ROWS_MAX: usize = 1000;
/// Of fewer rows for each that is wanted all columns are decoded at once.
const TIMES_MIN: f64 = 30.0;

/// Puts [`FetchRowsExec`] above sorts that keep few rows of a scan.
#[derive(Debug)]
pub(crate) struct LateRows;

impl PhysicalOptimizerRule for LateRows {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|plan| match plan.downcast_ref::<SortExec>() {
            Some(sort) => match fetched(sort)? {
                Some(late) => Ok(Transformed::new(late, true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(plan)),
            },
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }
    fn name(&self) -> &str {
        "late_rows"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// The sort with columns that come late; `None`: it is not worth that.
fn fetched(sort: &SortExec) -> Result<Option<Plan>> {
    let Some(wanted) = sort.fetch().filter(|rows| *rows <= ROWS_MAX) else { return Ok(None) };
    let filter = sort.input().downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none());
    let below = filter.map_or(sort.input(), FilterExec::input);
    let Some(scan) = below.downcast_ref::<ScanExec>().filter(|scan| scan.has_late_columns()) else { return Ok(None) };
    let is_long = scan.estimate().is_some_and(|of| scan.estimated_rows(of) >= wanted as f64 * TIMES_MIN);
    if !is_long {
        return Ok(None);
    }
    // Columns of the sort's input, as columns of the scan.
    let scanned: Vec<usize> = match filter.and_then(|filter| filter.projection().as_ref()) {
        Some(projection) => projection.to_vec(),
        None => (0..scan.schema().fields().len()).collect(),
    };
    let mut needed: Vec<usize> = Vec::new();
    for key in sort.expr().iter() {
        for column in collect_columns(&key.expr) {
            let Some(at) = scanned.get(column.index()) else { return Ok(None) };
            needed.push(*at);
        }
    }
    needed.extend(filter.iter().flat_map(|filter| collect_columns(filter.predicate())).map(|column| column.index()));
    needed.sort_unstable();
    needed.dedup();
    let late = scanned.iter().filter(|column| !needed.contains(column));
    let schema = scan.schema();
    let (long, short): (Vec<&usize>, Vec<&usize>) =
        late.partition(|column| weight::has_weight(schema.field(**column).data_type()));
    if long.is_empty() && short.len() < 2 {
        return Ok(None);
    }
    let narrow: Plan = Arc::new(scan.narrowed(&needed)?);
    let place = |column: usize| needed.binary_search(&column).ok();
    let input: Plan = match filter {
        Some(filter) => {
            let predicate = moved(filter.predicate(), &place)?;
            Arc::new(FilterExecBuilder::new(predicate, narrow).with_batch_size(filter.batch_size()).build()?)
        }
        None => narrow,
    };
    let keys = sort.expr().iter().map(|key| {
        let expr = moved(&key.expr, &|column| place(*scanned.get(column)?))?;
        Ok(PhysicalSortExpr { expr, options: key.options })
    });
    let Some(keys) = LexOrdering::new(keys.collect::<Result<Vec<_>>>()?) else { return Ok(None) };
    let columns = scanned.iter().map(|column| match place(*column) {
        Some(at) => From::Sorted(at),
        None => From::Row(*column),
    });
    let columns = columns.collect();
    let sorted: Plan = Arc::new(SortExec::new(keys, input).with_fetch(Some(wanted)));
    let properties = Arc::clone(sort.properties());
    Ok(Some(Arc::new(FetchRowsExec { sorted, scan: Arc::new(scan.clone()), columns, key: needed.len(), properties })))
}

/// An expression over other columns: `place` says where each one is.
///
/// # Errors
/// Internal, for a column that has no place.
pub(crate) fn moved(expr: &Expr, place: &dyn Fn(usize) -> Option<usize>) -> Result<Expr> {
    let moved = Arc::clone(expr).transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        match place(column.index()) {
            Some(at) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Expr)),
            None => internal_err!("a column that is needed is not read"),
        }
    });
    moved.data()
}

/// Where a column comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// A column of the sort.
    Sorted(usize),
    /// One of the scan that there was.
    Row(usize),
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct FetchRowsExec {
    sorted: Plan,
    /// The scan that there was: what its columns are.
    scan: Arc<ScanExec>,
    columns: Arc<[From]>,
    /// The column of the sort that has the rows' keys.
    key: usize,
    properties: Arc<PlanProperties>,
}

impl FetchRowsExec {
    /// The scan that there was.
    pub(crate) fn scan(&self) -> &ScanExec {
        &self.scan
    }
    pub(crate) fn columns(&self) -> &[From] {
        &self.columns
    }
}

impl DisplayAs for FetchRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FetchRowsExec: {}", self.scan.table.name)
    }
}

impl ExecutionPlan for FetchRowsExec {
    fn name(&self) -> &str {
        "FetchRowsExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Plan> {
        vec![&self.sorted]
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn apply_expressions(&self, _: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(self: Arc<Self>, mut children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        let (Some(sorted), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("rows are fetched for one plan");
        };
        let Self { scan, columns, key, properties, .. } = self.as_ref();
        let (scan, columns, properties) = (Arc::clone(scan), Arc::clone(columns), Arc::clone(properties));
        Ok(Arc::new(Self { sorted, scan, columns, key: *key, properties }))
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let statement = StatementContext::of(&task)?;
        let schema = self.schema();
        let fetching = Fetching {
            input: self.sorted.execute(partition, task)?,
            schema: Arc::clone(&schema),
            scan: Arc::clone(&self.scan),
            columns: Arc::clone(&self.columns),
            key: self.key,
            statement,
            batch: None,
        };
        let stream = futures::stream::try_unfold(fetching, |mut fetching| async move {
            Ok(fetching.next().await?.map(|batch| (batch, fetching)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.boxed())))
    }
}

struct Fetching {
    input: SendableRecordBatchStream,
    schema: datafusion::arrow::datatypes::SchemaRef,
    scan: Arc<ScanExec>,
    columns: Arc<[From]>,
    key: usize,
    statement: Arc<StatementContext>,
    /// Sorted rows, those of the table, and how many of them were handed out.
    batch: Option<(RecordBatch, RowBatch, usize)>,
}

impl Fetching {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((sorted, rows, given)) = &mut self.batch {
                if *given < rows.len() {
                    let left = *given..rows.len();
                    let mut decoded = RowColumns::new(&self.scan.table, &self.statement.view);
                    let late: Vec<usize> =
                        self.columns.iter().filter_map(|from| self.scan.late_column(*from)).collect();
                    // Long values are handed out a few rows at a time.
                    let fitting = decoded.fitting(&late, left.clone().map(|i| rows.row(i)))?;
                    let some = left.start..left.start + fitting;
                    let columns = self.columns.iter().map(|from| match (from, self.scan.late_column(*from)) {
                        (From::Sorted(at), _) => Ok(sorted.column(*at).slice(some.start, fitting)),
                        (_, Some(column)) => decoded.array(column, some.clone().map(|i| rows.row(i))),
                        _ => internal_err!("a column of no table"),
                    });
                    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
                    *given += fitting;
                    return Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?));
                }
                self.batch = None;
            }
            self.statement.stop.check().map_err(bridge::failure)?;
            let Some(sorted) = self.input.next().await.transpose()? else { return Ok(None) };
            let rows = self.rows(&sorted)?;
            self.batch = Some((sorted, rows, 0));
        }
    }

    /// The rows of the table with the keys of sorted ones.
    fn rows(&self, sorted: &RecordBatch) -> Result<RowBatch> {
        let Some(keys) = sorted.column(self.key).as_binary_view_opt() else {
            return internal_err!("keys that are no bytes");
        };
        let (mut rows, mut row) = (RowBatch::default(), RowBuf::default());
        for key in keys.iter().take(keys.len()) {
            let key = key.unwrap_or_default();
            if !self.statement.view.get(&self.scan.table, key, &mut row).map_err(bridge::storage)? {
                // The view has just seen it.
                let name = &self.scan.table.name;
                return Err(bridge::storage(Error::corrupt(format!("a row of table {name} is not found by its key"))));
            }
            rows.add(row.raw());
        }
        Ok(rows)
    }
}
