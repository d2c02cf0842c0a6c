//! A filter that bounds what it gathers by bytes.
//!
//! DataFusion's filter gathers the rows that it lets through until they are a batch, by their
//! number alone, and counts them against no limit of memory: of large values these can be
//! gigabytes. This one hands on what it has when it has [`BATCH_BYTES`], too. Rows, their order
//! and EXPLAIN are those of the filter in whose place it stands.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{BatchCoalescer, filter_record_batch};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, all_columns, try_embed_projection};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;

use crate::exec::bridge::BATCH_BYTES;
use crate::exec::lookup_join::LookupJoinExec;
use crate::exec::pieces;
use crate::exec::weight;

/// Puts [`ByteFilterExec`] in the places of filters that let texts or bytes through, or make long ones. It has to be
/// the last rule: others look for filters. Those of a lookup join stay, which knows them.
#[derive(Debug)]
pub(crate) struct ByteFilters;

impl PhysicalOptimizerRule for ByteFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_down(|plan| {
            if plan.is::<LookupJoinExec>() {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
            let has_weight = filter.schema().fields().iter().any(|field| weight::has_weight(field.data_type()));
            if !has_weight && !pieces::may_grow(filter.predicate()) {
                return Ok(Transformed::no(plan));
            }
            Ok(Transformed::yes(Arc::new(ByteFilterExec::new(filter.clone())?) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(changed.data)
    }
    fn name(&self) -> &str {
        "byte_filters"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with [`ByteFilterExec`] in the places of all filters: projections that compute something do not go below it.
pub(crate) fn fenced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_down(|plan| match plan.downcast_ref::<FilterExec>() {
        Some(filter) => {
            let fence: Arc<dyn ExecutionPlan> = Arc::new(ByteFilterExec::new(filter.clone())?);
            Ok(Transformed::yes(fence))
        }
        None => Ok(Transformed::no(plan)),
    })?;
    Ok(changed.data)
}

/// The plan with filters again where [`fenced`] has put others.
pub(crate) fn unfenced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_down(|plan| match plan.downcast_ref::<ByteFilterExec>() {
        Some(fence) => {
            let filter: Arc<dyn ExecutionPlan> = Arc::new(fence.filter.clone());
            Ok(Transformed::yes(filter))
        }
        None => Ok(Transformed::no(plan)),
    })?;
    Ok(changed.data)
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct ByteFilterExec {
    filter: FilterExec,
    /// Its predicate, which makes no column that is too large.
    condition: Arc<dyn PhysicalExpr>,
    metrics: ExecutionPlanMetricsSet,
}

impl ByteFilterExec {
    /// What it filters by.
    pub(crate) fn filter(&self) -> &FilterExec {
        &self.filter
    }

    fn new(filter: FilterExec) -> Result<Self> {
        let condition = pieces::bounded(filter.predicate())?;
        Ok(Self { filter, condition, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for ByteFilterExec {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt_as(how, f)
    }
}

impl ExecutionPlan for ByteFilterExec {
    fn name(&self) -> &str {
        self.filter.name()
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.filter.properties()
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.filter.children()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        self.filter.maintains_input_order()
    }
    fn fetch(&self) -> Option<usize> {
        self.filter.fetch()
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.filter.apply_expressions(f)
    }
    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = Arc::new(self.filter.clone()).replace_children(children, options)?;
        match filter.downcast_ref::<FilterExec>() {
            Some(filter) => Ok(Arc::new(Self::new(filter.clone())?)),
            None => internal_err!("a filter became something else"),
        }
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match all_columns(projection.expr()) {
            true => self.filter.try_swapping_with_projection(projection),
            // It takes the columns that it reads, and no more.
            false => try_embed_projection(projection, &self.filter),
        }
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.filter.batch_size();
        let gathering = Gathering {
            input: self.filter.input().execute(partition, task)?,
            filter: self.filter.clone(),
            condition: Arc::clone(&self.condition),
            gathered: BatchCoalescer::new(self.schema(), rows).with_biggest_coalesce_batch_size(Some(rows / 2)),
            bytes: 0,
            left: self.filter.fetch().unwrap_or(usize::MAX),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let stream = futures::stream::try_unfold(gathering, |mut gathering| async move {
            Ok(gathering.next().await?.map(|batch| (batch, gathering)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }
}

/// A filter under way.
struct Gathering {
    input: SendableRecordBatchStream,
    filter: FilterExec,
    condition: Arc<dyn PhysicalExpr>,
    gathered: BatchCoalescer,
    /// What was gathered since the last batch that was handed on, in bytes.
    bytes: usize,
    /// Rows that may still be let through.
    left: usize,
    metrics: BaselineMetrics,
}

impl Gathering {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.gathered.next_completed_batch() {
                self.bytes = 0;
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            let batch = if self.left > 0 { self.input.next().await.transpose()? } else { None };
            let Some(batch) = batch else {
                if self.gathered.is_empty() {
                    return Ok(None);
                }
                self.gathered.finish_buffered_batch()?;
                continue;
            };
            let batch = self.passing(batch)?;
            self.left -= batch.num_rows();
            self.bytes = self.bytes.saturating_add(weight::of(&batch));
            self.gathered.push_batch(batch)?;
            if self.bytes >= BATCH_BYTES {
                self.gathered.finish_buffered_batch()?;
            }
        }
    }

    /// The rows of a batch that the filter lets through, up to the limit.
    fn passing(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let truth = pieces::truth(&self.condition, &batch)?;
        let batch = match self.filter.projection() {
            Some(projection) => batch.project(projection)?,
            None => batch,
        };
        let passing = filter_record_batch(&batch, &truth)?;
        Ok(passing.slice(0, passing.num_rows().min(self.left)))
    }
}
