//! What DataFusion holds for determined by other columns is not believed.
//!
//! Schemas of its logical plans say which columns determine which (`FunctionalDependencies`), and four rules of the optimizer go by that: they
//! leave out keys of sorts and of groups, DISTINCTs, and joins. But an aggregate whose input has such a dependency is said to be
//! determined by it as a whole: of `GROUP BY c, a`, where `c` came from a GROUP BY of its own below a join, that `c` alone
//! determines all, and occurs once. And one that may be NULL counts as well, though there may be many such rows. Tables here declare none to
//! DataFusion, so little is lost with them: all come from aggregates.
//!
//! Not to be left out: rules that go by dependencies are those in [`READERS`]; when DataFusion is upgraded, look for others.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rules that go by dependencies.
const READERS: [&str; 4] =
    ["replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

/// Keeps the rules of the optimizer from going by dependencies.
pub(crate) fn mend(rules: &mut [Arc<dyn OptimizerRule + Send + Sync>]) {
    for rule in rules.iter_mut().filter(|rule| READERS.contains(&rule.name())) {
        *rule = Arc::new(WithoutDependencies(Arc::clone(rule)));
    }
}

/// `schema` without dependencies.
pub(crate) fn without(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    if schema.functional_dependencies().is_empty() {
        return Ok(Arc::clone(schema));
    }
    schema.as_ref().clone().with_functional_dependencies(FunctionalDependencies::empty()).map(Arc::new)
}

/// A rule that is shown plans without dependencies.
#[derive(Debug)]
struct WithoutDependencies(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for WithoutDependencies {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn supports_rewrite(&self) -> bool {
        true
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = match self.0.apply_order() {
            // It looks at the node that it is given, and at that one's inputs.
            Some(_) if plan.inputs().iter().any(|input| has_any(input)) => plan.map_children(top)?.data,
            Some(_) => plan,
            // It goes through the plan itself, from the top down.
            None => plan.transform_down_with_subqueries(own)?.data,
        };
        self.0.rewrite(plan, config)
    }
}

fn has_any(plan: &LogicalPlan) -> bool {
    !plan.schema().functional_dependencies().is_empty()
}

/// The schema that a node has for itself. None: it has that of its input, or one that cannot be changed.
fn own_schema(plan: &mut LogicalPlan) -> Option<&mut DFSchemaRef> {
    match plan {
        LogicalPlan::Projection(node) => Some(&mut node.schema),
        LogicalPlan::SubqueryAlias(node) => Some(&mut node.schema),
        LogicalPlan::Aggregate(node) => Some(&mut node.schema),
        LogicalPlan::Window(node) => Some(&mut node.schema),
        LogicalPlan::Join(node) => Some(&mut node.schema),
        LogicalPlan::Union(node) => Some(&mut node.schema),
        LogicalPlan::Unnest(node) => Some(&mut node.schema),
        LogicalPlan::TableScan(node) => Some(&mut node.projected_schema),
        LogicalPlan::Distinct(Distinct::On(node)) => Some(&mut node.schema),
        _ => None,
    }
}

/// Without dependencies of its own.
fn own(mut plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match own_schema(&mut plan) {
        Some(schema) if !schema.functional_dependencies().is_empty() => {
            *schema = without(schema)?;
            Ok(Transformed::yes(plan))
        }
        _ => Ok(Transformed::no(plan)),
    }
}

/// Without dependencies in what is seen of it from above: down to the nodes that have schemas of their own.
fn top(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down(|mut plan| {
        let below = if own_schema(&mut plan).is_some() { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
        Ok(Transformed { tnr: below, ..own(plan)? })
    })
}

#[cfg(test)]
mod tests {
    use datafusion::optimizer::optimizer::Optimizer;

    use super::*;

    /// A rule that is named otherwise after an upgrade would be believed again.
    #[test]
    fn all_readers_are_there() {
        let mut rules = Optimizer::new().rules;
        for reader in READERS {
            assert!(rules.iter().any(|rule| rule.name() == reader), "no rule is called {reader}");
        }
        mend(&mut rules);
        let shown = rules.iter().filter(|rule| format!("{rule:?}").starts_with("WithoutDependencies")).count();
        assert_eq!(shown, READERS.len());
    }
}
