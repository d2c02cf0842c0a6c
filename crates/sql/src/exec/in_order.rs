//! Inputs of a union, one after another.
//!
//! DataFusion reads the inputs of a union side by side and takes the rows as they come: another order at each run, and
//! with a LIMIT, an aggregate that gathers values or the first of equal values that look different (1.0 and 1.00)
//! another answer. PostgreSQL appends the inputs, and everybody who writes UNION ALL has seen that. Plans have one
//! partition but for unions, so nothing else is read one after another that was read side by side; and what a LIMIT
//! does not reach is not begun.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::one_input::one_input;

/// Puts [`InOrderExec`] where it belongs; behind the rule that brings partitions together.
#[derive(Debug)]
pub(crate) struct InOrder;

impl PhysicalOptimizerRule for InOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let Some(together) = plan.downcast_ref::<CoalescePartitionsExec>() else {
                return Ok(Transformed::no(plan));
            };
            let rows = InOrderExec::new(Arc::clone(together.input()));
            Ok(Transformed::yes(match together.fetch() {
                None => Arc::new(rows) as _,
                fetch => Arc::new(GlobalLimitExec::new(Arc::new(rows), 0, fetch)) as _,
            }))
        });
        // Who runs a plan would bring its partitions together, the other way.
        let plan = plan.data()?;
        let one = plan.output_partitioning().partition_count() == 1;
        Ok(if one { plan } else { Arc::new(InOrderExec::new(plan)) })
    }
    fn name(&self) -> &str {
        "in_order"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// The partitions of its input as one: all rows of the first, then those of the second.
#[derive(Debug)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            known.emission_type,
            known.boundedness,
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("InOrderExec")
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &str {
        "InOrderExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    one_input!(input, |_, input| Self::new(input));
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("there is one partition");
        }
        let input = Arc::clone(&self.input);
        let count = input.output_partitioning().partition_count();
        // Each is started when those before it have ended.
        let parts = futures::stream::iter(0..count).map(move |at| input.execute(at, Arc::clone(&task))).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), parts)))
    }
}
