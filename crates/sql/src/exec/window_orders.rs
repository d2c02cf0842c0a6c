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
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode, ReplaceChildrenOptions};

use super::missing_sorts::sorted;
use super::outer_side::OuterSideExec;

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

/// Whether a window finds its partitions in the order that its input declares; `None`: it is none, or does not go by that. It asks twice, for the
/// columns of the partitions as they are and for those that it has found in their order, and may be told less the second time where several orders are known.
fn finds_partitions(plan: &Plan) -> Result<Option<bool>> {
    let finds_all = |window: &[Arc<dyn WindowExpr>], input: &Plan| -> Result<bool> {
        let Some(by) = window.first().map(|expr| expr.partition_by()) else { return Ok(true) };
        Ok(input.equivalence_properties().find_longest_permutation(by)?.1.len() == by.len())
    };
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        let finds = finds_all(window.window_expr(), window.input())? && window.partition_by_sort_keys().is_ok();
        return Ok(Some(finds));
    }
    let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() else { return Ok(None) };
    Ok(match window.input_order_mode {
        InputOrderMode::Sorted => {
            Some(finds_all(window.window_expr(), window.input())? && window.partition_by_sort_keys().is_ok())
        }
        InputOrderMode::PartiallySorted(_) => Some(window.partition_by_sort_keys().is_ok()),
        InputOrderMode::Linear => None,
    })
}

/// A window that finds its partitions.
fn with_partitions(plan: Plan) -> Result<Transformed<Plan>> {
    let ([input], Some(false)) = (&plan.children()[..], finds_partitions(&plan)?) else {
        return Ok(Transformed::no(plan));
    };
    let Some(wanted) = plan.required_input_ordering().into_iter().next().flatten() else {
        return Ok(Transformed::no(plan));
    };
    let wanted = wanted.into_single();
    let anew = || ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let over = |rows: Plan| Arc::clone(&plan).replace_children(vec![rows], anew());
    let mended = over(sorted(input, wanted.clone()))?;
    if finds_partitions(&mended)? != Some(false) {
        return Ok(Transformed::yes(mended));
    }
    // Nothing is known of the rows but this order.
    let alone: Plan = Arc::new(OuterSideExec::new(Arc::clone(input)));
    over(sorted(&alone, wanted)).map(Transformed::yes)
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
