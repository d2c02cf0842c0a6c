//! An operator that ends a statement whose plan never waits.
//!
//! A recursive query without an end gives rows for ever, and an aggregate above it takes them all in one
//! go: nobody would ask whether the statement was cancelled or is out of time. [`WatchExec`] stands
//! between them and asks at each batch. So it does above joins, which make many batches of one that they read: whoever reads
//! them, another join among them, would not come back to a table, which asks, for as long as they do.
//!
//! A join that finds pairs, and none with its other condition, gives no batch for as long as it compares: its condition
//! asks ([`Watched`]), each time that it is evaluated on some thousand pairs. Where pairs have no other condition and are no rows,
//! the join gets few rows at a time ([`paced`]).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::exec::bridge;
use crate::exec::context::StatementContext;
use crate::exec::lookup_join::LookupJoinExec;
use crate::exec::one_input::one_input;
use crate::exec::paced::paced;
use crate::pg::running;

/// Puts [`WatchExec`] above recursive queries and joins of any kind; the conditions of joins ask.
#[derive(Debug)]
pub(crate) struct Watches;

impl PhysicalOptimizerRule for Watches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let watched = plan.transform_up(|plan| {
            let plan = if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
                match join.filter() {
                    Some(filter) => Arc::new(with_watched(join, filter)?),
                    None => plan,
                }
            } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
                match join.filter() {
                    Some(filter) => {
                        Arc::new(HashJoinExecBuilder::from(join).with_filter(Some(watched(filter))).build()?)
                    }
                    None => paced(plan)?,
                }
            } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
                match join.filter() {
                    Some(filter) => Arc::new(SortMergeJoinExec::try_new(
                        Arc::clone(join.left()),
                        Arc::clone(join.right()),
                        join.on().to_vec(),
                        Some(watched(filter)),
                        join.join_type(),
                        join.sort_options().to_vec(),
                        join.null_equality(),
                    )?),
                    None => plan,
                }
            } else if plan.is::<RecursiveQueryExec>() || plan.is::<CrossJoinExec>() || plan.is::<LookupJoinExec>() {
                plan
            } else {
                return Ok(Transformed::no(plan));
            };
            Ok(Transformed::yes(Arc::new(WatchExec(plan)) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(watched.data)
    }
    fn name(&self) -> &str {
        "watches"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

fn watched(filter: &JoinFilter) -> JoinFilter {
    let expression = Arc::new(Watched(Arc::clone(filter.expression())));
    JoinFilter::new(expression, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

fn with_watched(join: &NestedLoopJoinExec, filter: &JoinFilter) -> Result<NestedLoopJoinExec> {
    let filter = watched(filter);
    let projection = join.projection().as_ref().map(|columns| columns.to_vec());
    NestedLoopJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        Some(filter),
        join.join_type(),
        projection,
    )
}

/// The condition of a join, which asks each time: one that finds no rows gives no batch to be counted.
#[derive(Debug, Eq)]
struct Watched(Arc<dyn PhysicalExpr>);

// Derived, it would move out of the pointer.
impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(schema)
    }
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        running::check().map_err(bridge::failure)?;
        self.0.evaluate(batch)
    }
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }
    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(child), true) => Ok(Arc::new(Self(child))),
            _ => internal_err!("a watched condition is one"),
        }
    }
    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}

/// What a watch stands above.
pub(crate) fn below_watch(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    plan.downcast_ref::<WatchExec>().map_or(plan, |watch| &watch.0)
}

/// See the module's head.
#[derive(Debug)]
struct WatchExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for WatchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("WatchExec")
    }
}

impl ExecutionPlan for WatchExec {
    fn name(&self) -> &str {
        "WatchExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    one_input!(0, |_, input| Self(input));
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let statement = StatementContext::of(&task)?;
        let input = self.0.execute(partition, task)?;
        let stream = input.then(move |batch| {
            let time = statement.stop.check_time().map_err(bridge::failure);
            async move {
                tokio::task::consume_budget().await;
                time.and(batch)
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }
}
