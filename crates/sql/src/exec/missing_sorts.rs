//! Sorts that a plan needs and does not have.
//!
//! DataFusion's rule of requirements judges some sorts to be unneeded by what it knows of the nodes as they are while it works; another form of a node (a
//! limit that is given back, an input without what was known of it) may not say the same. A plan that misses one is refused by the
//! last check, with the whole plan as the message of the error. Sorting an input by what its reader wants changes no answer,
//! so that is done where it is missing.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};

type Plan = Arc<dyn ExecutionPlan>;

/// The rule that refuses such plans: this one comes before it.
pub(crate) const CHECK: &str = "SanityCheckPlan";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct MissingSorts;

impl PhysicalOptimizerRule for MissingSorts {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(with_sorts).data()
    }
    fn name(&self) -> &str {
        "missing sorts"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// A node whose inputs are in the order that it wants.
fn with_sorts(plan: Plan) -> Result<Transformed<Plan>> {
    let wanted = plan.required_input_ordering();
    let mut children: Vec<Plan> = plan.children().into_iter().cloned().collect();
    let mut changed = false;
    for (child, wanted) in children.iter_mut().zip(wanted) {
        let Some(wanted) = wanted else { continue };
        let wanted = wanted.into_single();
        if child.equivalence_properties().ordering_satisfy_requirement(wanted.clone())? {
            continue;
        }
        *child = sorted(child, wanted);
        changed = true;
    }
    if !changed {
        return Ok(Transformed::no(plan));
    }
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(children, anew).map(Transformed::yes)
}

/// The rows of `input` in that order, in each of several partitions by itself: that is what a merge of them wants.
pub(super) fn sorted(input: &Plan, wanted: LexRequirement) -> Plan {
    let several = input.output_partitioning().partition_count() > 1;
    Arc::new(SortExec::new(LexOrdering::from(wanted), Arc::clone(input)).with_preserve_partitioning(several))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::compute::SortOptions;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::PhysicalSortExpr;
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

    use super::*;

    #[test]
    fn a_sort_is_put_where_one_is_missing_and_nowhere_else() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let rows: Plan = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let by = PhysicalSortExpr::new(col("a", &schema).expect("a column"), SortOptions::default());
        let order = LexOrdering::new([by]).expect("an order");
        let merge: Plan = Arc::new(SortPreservingMergeExec::new(order.clone(), rows));
        let mended = MissingSorts.optimize(merge, &ConfigOptions::default()).expect("a plan");
        assert!(mended.children()[0].is::<SortExec>());
        let again = MissingSorts.optimize(Arc::clone(&mended), &ConfigOptions::default()).expect("a plan");
        assert!(again.children()[0].is::<SortExec>() && !again.children()[0].children()[0].is::<SortExec>());
    }
}
