//! The side of an outer join whose rows may be missing.
//!
//! DataFusion takes what is constant on one side of a join for constant in its result. Of a side whose rows may be
//! missing that is wrong: `b LEFT JOIN a ON a.x = b.x AND a.x = 'c'` has NULL in `a.x`, too, and an order by it is an
//! order. [`OuterSideExec`] stands above such a side and says nothing of what it knows. (So it does above merges, which say what is not so: `plan/merge_join.rs`.)
//!
//! And it takes a hash join for ordered by its probe side and, where that is equal, by its build side, which is so only if no two rows of the probe side are
//! equal in what that is ordered by: `x` of a table with the key `(x, id)` is not enough. Sorts were left out by it, and groups came twice. So the build
//! side says nothing of its order either ([`BuildSides`]), whether it has one by then or gets it later. A lookup join, which looks at what its sides are, has it as it is ([`bare`]).
//!
//! And it takes the columns of GROUPING SETS together for a key of their rows: a group of one set may have the same values, and NULL in place of the rest, as one
//! of another set. It takes the groups for ordered as the rows are, too, where all sets have a column, and they come set by set.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
};

use super::one_input::one_input;
use super::scan_chain::{Plan, input_in_order, scan_below};
use crate::planted::Planted;

/// Puts [`OuterSideExec`] where it belongs; before any rule that looks at what plans know.
#[derive(Debug)]
pub(crate) struct OuterSides;

impl PhysicalOptimizerRule for OuterSides {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let out = plan.transform_up(|plan| {
            if plan.downcast_ref::<AggregateExec>().is_some_and(has_several_sets) {
                return Ok(Transformed::yes(Arc::new(OuterSideExec::new(plan))));
            }
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

/// Whether it makes groups of several sets: the first of its phases, whose claims the others would hand on.
fn has_several_sets(aggregate: &AggregateExec) -> bool {
    !aggregate.group_expr().is_single() && !Planted::OrderOfSets.is_planted()
}

/// Hides the order of the build sides of hash joins; behind the rules that choose the sides.
#[derive(Debug)]
pub(crate) struct BuildSides;

impl PhysicalOptimizerRule for BuildSides {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let out = plan.transform_up(|plan| match covered(&plan)? {
            Some(covered) => Ok(Transformed::yes(covered)),
            None => Ok(Transformed::no(plan)),
        })?;
        Ok(out.data)
    }
    fn name(&self) -> &str {
        "resurgam_build_sides"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// A hash join that says nothing of the order of its build side; `None`: it is none, or there is nothing to be said.
pub(super) fn covered(plan: &Plan) -> Result<Option<Plan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let claims = matches!(join.join_type(), JoinType::Inner | JoinType::Right);
    // (Of a table it is known for good whether it is read in an order.)
    let build = join.left();
    if !claims
        || Planted::OrderOfBothSides.is_planted()
        || hides(build)
        || scan_below(build).is_some() && build.output_ordering().is_none()
    {
        return Ok(None);
    }
    let build = Arc::new(OuterSideExec::without_order(Arc::clone(build)));
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![build, Arc::clone(join.right())], anew).map(Some)
}

/// Whether a side hides its order.
fn hides(plan: &Plan) -> bool {
    plan.is::<OuterSideExec>() || input_in_order(plan).is_some_and(hides)
}

/// What is so of a hash join.
pub(super) fn properties(join: &Plan) -> Result<Arc<PlanProperties>> {
    Ok(Arc::clone(covered(join)?.as_ref().unwrap_or(join).properties()))
}

/// A hash join with its build side as it is, for who looks at that. What the join says of itself is not to be believed then ([`properties`]).
pub(super) fn bare(plan: &Plan) -> Result<Option<Plan>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let Some(build) = uncovered(join.left())? else { return Ok(None) };
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![build, Arc::clone(join.right())], anew).map(Some)
}

/// What a side is that may hide its order.
pub(super) fn beneath(plan: &Plan) -> &Plan {
    match plan.downcast_ref::<OuterSideExec>() {
        Some(side) => &side.input,
        None if hides(plan) => input_in_order(plan).map_or(plan, beneath),
        None => plan,
    }
}

/// What is below the node that hides its order, under what may have come above that.
fn uncovered(plan: &Plan) -> Result<Option<Plan>> {
    if let Some(side) = plan.downcast_ref::<OuterSideExec>() {
        // What is missing on a side stays missing.
        return Ok(side.order_alone.then(|| Arc::clone(&side.input)));
    }
    let Some(below) = input_in_order(plan) else { return Ok(None) };
    let Some(below) = uncovered(below)? else { return Ok(None) };
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![below], anew).map(Some)
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct OuterSideExec {
    input: Arc<dyn ExecutionPlan>,
    /// Its order is all that it hides.
    order_alone: bool,
    properties: Arc<PlanProperties>,
}

impl OuterSideExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = EquivalenceProperties::new(input.schema());
        Self::knowing(input, known, false)
    }

    fn without_order(input: Arc<dyn ExecutionPlan>) -> Self {
        let mut known = input.equivalence_properties().clone();
        known.clear_orderings();
        Self::knowing(input, known, true)
    }

    fn knowing(input: Arc<dyn ExecutionPlan>, equivalences: EquivalenceProperties, order_alone: bool) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            equivalences,
            known.output_partitioning().clone(),
            known.emission_type,
            known.boundedness,
        );
        Self { input, order_alone, properties: Arc::new(properties) }
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
    one_input!(input, |this, input| if this.order_alone { Self::without_order(input) } else { Self::new(input) });
    /// A narrower one goes below, into what it is of.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Plan>> {
        if !self.order_alone || projection.expr().len() >= self.schema().fields().len() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self::without_order(make_with_child(projection, &self.input)?))))
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }
}
