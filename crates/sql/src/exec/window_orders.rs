//! Windows whose input does not say any more that it comes partition by partition.
//!
//! A window learns where its partitions end from the order that its input declares, at the moment when it is made. An input that is
//! exchanged afterwards for one with the same rows in the same order may declare less: a join that looks rows up knows nothing of
//! columns that a condition makes constant, and an order by such a column and another one is then none by the other one alone. DataFusion
//! makes such a window, which ends in an internal error when it is run. Sorting the rows by what the window wants changes no answer, so
//! that is done where its partitions are not to be found.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode, ReplaceChildrenOptions};

use super::missing_sorts::sorted;

type Plan = Arc<dyn ExecutionPlan>;

/// See the module's head. It comes behind the rules that exchange inputs.
#[derive(Debug)]
pub(crate) struct WindowOrders;

impl PhysicalOptimizerRule for WindowOrders {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(with_partitions).data()
    }
    fn name(&self) -> &str {
        "window orders"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// What a window that goes by the order of its input partitions by.
fn partitions(plan: &Plan) -> Option<&[Arc<dyn PhysicalExpr>]> {
    let all = match plan.downcast_ref::<WindowAggExec>() {
        Some(window) => window.window_expr(),
        None => plan
            .downcast_ref::<BoundedWindowAggExec>()
            .filter(|window| window.input_order_mode == InputOrderMode::Sorted)?
            .window_expr(),
    };
    Some(all.first()?.partition_by())
}

/// A window that finds its partitions.
fn with_partitions(plan: Plan) -> Result<Transformed<Plan>> {
    let Some(by) = partitions(&plan) else { return Ok(Transformed::no(plan)) };
    let [input] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
    let (_, found) = input.equivalence_properties().find_longest_permutation(by)?;
    let Some(wanted) = plan.required_input_ordering().into_iter().next().flatten() else {
        return Ok(Transformed::no(plan));
    };
    if found.len() == by.len() {
        return Ok(Transformed::no(plan));
    }
    let rows = sorted(input, wanted.into_single());
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(vec![rows], anew).map(Transformed::yes)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::functions_window::cume_dist::cume_dist_udwf;
    use datafusion::logical_expr::{WindowFrame, WindowFunctionDefinition};
    use datafusion::physical_expr::PhysicalSortExpr;
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::sorts::sort::SortExec;
    use datafusion::physical_plan::windows::create_window_expr;

    use super::*;

    #[test]
    fn rows_are_sorted_where_partitions_are_not_to_be_found_and_nowhere_else() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let rows: Plan = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let a = col("a", &schema).expect("a column");
        let function = WindowFunctionDefinition::WindowUDF(cume_dist_udwf());
        let (by, frame) = (PhysicalSortExpr::new_default(Arc::clone(&a)), Arc::new(WindowFrame::new(Some(false))));
        let (args, partition, order) = (&[][..], &[a][..], &[by][..]);
        let window = create_window_expr(
            &function,
            "x".to_owned(),
            args,
            partition,
            order,
            frame,
            Arc::clone(&schema),
            false,
            false,
            None,
        );
        let window = WindowAggExec::try_new(vec![window.expect("a window")], rows, false).expect("a plan");
        let mended = WindowOrders.optimize(Arc::new(window), &ConfigOptions::default()).expect("a plan");
        assert!(mended.is::<WindowAggExec>() && mended.children()[0].is::<SortExec>());
        let again = WindowOrders.optimize(Arc::clone(&mended), &ConfigOptions::default()).expect("a plan");
        assert!(again.children()[0].is::<SortExec>() && !again.children()[0].children()[0].is::<SortExec>());
    }
}
