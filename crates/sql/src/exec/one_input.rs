//! What operators with one input and no expressions of their own tell whoever changes plans.

/// Methods of an `ExecutionPlan`: `one_input!(input, |plan, input| …)` is of one whose input is in the field `input`; the
/// expression makes of such a plan the one over another input.
macro_rules! one_input {
    ($field:tt, |$plan:pat_param, $input:ident| $over:expr) => {
        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.$field]
        }
        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
        fn replace_children(
            self: std::sync::Arc<Self>,
            mut children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            let (Some($input), true) = (children.pop(), children.is_empty()) else {
                return datafusion::common::internal_err!("{} has one input", self.name());
            };
            let $plan = &*self;
            Ok(std::sync::Arc::new($over))
        }
        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            let mode = datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute;
            self.replace_children(children, datafusion::physical_plan::ReplaceChildrenOptions::new(mode))
        }
    };
}

pub(crate) use one_input;
