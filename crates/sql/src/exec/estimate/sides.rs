//! Which side of a join is held in memory: the smaller one.
//!
//! DataFusion's joins read their left side into memory and then the right one as it comes, and its own rule (`JoinSelection`)
//! swaps sides by statistics that operators have. Here are estimates of our own, from which rows of filters and joins follow.
//!
//! Contract: the same rows with the same columns. Their order is another one, which is why this comes before the rule that
//! looks after orders. Joins for NOT IN stay: of these the sides are not alike.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::physical::{self, Estimate, above};
use crate::exec::scan::ScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// DataFusion's rule, behind which this one comes.
const BEHIND: &str = "join_selection";
/// This one's name.
pub(crate) const NAME: &str = "resurgam_join_sides";
/// Bytes of a value of variable length, and what a row takes beside its values.
const LONG_BYTES: f64 = 32.0;
const ROW_BYTES: f64 = 16.0;

/// Sides that are more alike than that stay as they are.
const LARGER: f64 = 1.5;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct JoinSides;

/// Puts the rule among DataFusion's.
pub(crate) fn add(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>) {
    let at = rules.iter().position(|rule| rule.name() == BEHIND).map_or(0, |at| at + 1);
    rules.insert(at, Arc::new(JoinSides));
}

impl PhysicalOptimizerRule for JoinSides {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        Ok(swapped(plan)?.0)
    }
    fn name(&self) -> &str {
        NAME
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with its joins' sides as they should be, and its rows where they are known.
fn swapped(plan: Plan) -> Result<(Plan, Option<Estimate>)> {
    if plan.is::<ScanExec>() {
        let estimate = physical::of(&plan);
        return Ok((plan, estimate));
    }
    let (mut children, mut estimates, mut changed) = (Vec::new(), Vec::new(), false);
    for child in plan.children() {
        let (new, estimate) = swapped(Arc::clone(child))?;
        changed |= !Arc::ptr_eq(&new, child);
        children.push(new);
        estimates.push(estimate);
    }
    let plan = match changed {
        true => plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?,
        false => plan,
    };
    let Some(estimates) = estimates.into_iter().collect::<Option<Vec<Estimate>>>() else { return Ok((plan, None)) };
    let estimate = above(&plan, estimates.clone());
    if let [left, right] = estimates.as_slice()
        && let [held, read] = plan.children().as_slice()
        && left.rows * row_bytes(&held.schema()) > LARGER * right.rows * row_bytes(&read.schema())
        && let Some(swapped) = with_sides_swapped(&plan)?
    {
        return Ok((swapped, Some(estimate)));
    }
    Ok((plan, Some(estimate)))
}

fn with_sides_swapped(plan: &Plan) -> Result<Option<Plan>> {
    let is_swapped = |join_type: &JoinType| !matches!(join_type, JoinType::LeftMark | JoinType::RightMark);
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let may = is_swapped(join.join_type()) && !join.null_aware && join.fetch().is_none();
        let is_alone = *join.partition_mode() == PartitionMode::CollectLeft;
        return match may && is_alone {
            true => join.swap_inputs(PartitionMode::CollectLeft).map(Some),
            false => Ok(None),
        };
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return match is_swapped(join.join_type()) {
            true => join.swap_inputs().map(Some),
            false => Ok(None),
        };
    }
    match plan.downcast_ref::<CrossJoinExec>() {
        Some(join) => join.swap_inputs().map(Some),
        None => Ok(None),
    }
}

/// About how many bytes a row has.
fn row_bytes(schema: &SchemaRef) -> f64 {
    let of = |ty: &DataType| ty.primitive_width().map_or(LONG_BYTES, |bytes| bytes as f64);
    ROW_BYTES + schema.fields().iter().map(|field| of(field.data_type())).sum::<f64>()
}
