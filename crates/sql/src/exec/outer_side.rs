//! The side of an outer join whose rows may be missing.
//!
//! DataFusion takes what is constant on one side of a join for constant in its result. Of a side whose rows may be
//! missing that is wrong: `b LEFT JOIN a ON a.x = b.x AND a.x = 'c'` has NULL in `a.x`, too, and an order by it is an
//! order. [`OuterSideExec`] stands above such a side and says nothing of what it knows.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
};

use super::one_input::one_input;

/// Puts [`OuterSideExec`] where it belongs; before any rule that looks at what plans know.
#[derive(Debug)]
pub(crate) struct OuterSides;

impl PhysicalOptimizerRule for OuterSides {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let out = plan.transform_up(|plan| {
            let join = plan.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
            let join = join.or_else(|| plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()));
            let join = join.or_else(|| plan.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type()));
            let missing = match join {
                Some(JoinType::Left) => [false, true],
                Some(JoinType::Right) => [true, false],
                Some(JoinType::Full) => [true, true],
                _ => return Ok(Transformed::no(plan)),
            };
            let mut changed = false;
            let children: Vec<Arc<dyn ExecutionPlan>> = plan
                .children()
                .into_iter()
                .zip(missing)
                .map(|(child, missing)| {
                    let knows = missing && !child.equivalence_properties().constants().is_empty();
                    changed |= knows;
                    if knows { Arc::new(OuterSideExec::new(Arc::clone(child))) as _ } else { Arc::clone(child) }
                })
                .collect();
            if !changed {
                return Ok(Transformed::no(plan));
            }
            let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(plan.replace_children(children, anew)?))
        })?;
        Ok(out.data)
    }
    fn name(&self) -> &str {
        "outer_sides"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct OuterSideExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OuterSideExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            known.output_partitioning().clone(),
            known.emission_type,
            known.boundedness,
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for OuterSideExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("OuterSideExec")
    }
}

impl ExecutionPlan for OuterSideExec {
    fn name(&self) -> &str {
        "OuterSideExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    one_input!(input, |_, input| Self::new(input));
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }
}
