//! An operator that ends a statement whose plan never waits.
//!
//! A recursive query without an end gives rows for ever, and an aggregate above it takes them all in one
//! go: nobody would ask whether the statement was cancelled or is out of time. [`WatchExec`] stands
//! between them and asks at each batch.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;

use crate::exec::bridge;
use crate::exec::context::StatementContext;

/// Puts [`WatchExec`] above recursive queries.
#[derive(Debug)]
pub(crate) struct Watches;

impl PhysicalOptimizerRule for Watches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let watched = plan.transform_up(|plan| {
            Ok(match plan.is::<RecursiveQueryExec>() {
                true => Transformed::yes(Arc::new(WatchExec(plan)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(plan),
            })
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
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self(input))),
            _ => internal_err!("a watch has one input"),
        }
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
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
