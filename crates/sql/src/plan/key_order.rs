//! A physical rule that knows the order of trees (and calls the one about joins).
//!
//! DataFusion leaves a sort out where its input is ordered already. Here is the rest: a sort that a
//! backward read answers, or a read of another tree of the same table; and `min` and `max`, which
//! are the first row in an order (`extremes.rs`).
//!
//! The rules run last. Each replaces an operator by one with the same rows, in an order that is at
//! least as good; and none looks below an operator with a row limit, whose rows another order changes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, replace_children_if_necessary};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlanProperties, ReplaceChildrenOptions};

use crate::exec::compact;
use crate::exec::lookup_join::LookupJoinExec;
use crate::exec::planning::Planning;
use crate::exec::scan_chain::{Plan, input_in_order, scan_below, with_scan};
use crate::plan::extremes;
use crate::plan::order_readers::inputs_in_order;

/// Most rows that are fetched one by one through an index to save a sort.
const FETCHED_MAX: usize = 1000;

/// Bytes of stack below which a level of a plan gets more, and how many.
const STACK_LEFT: usize = 256 << 10;
const STACK_MORE: usize = 4 << 20;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct KeyOrder(pub Planning);

impl PhysicalOptimizerRule for KeyOrder {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        // An ORDER BY may have been left out because the rows are in order.
        self.plan(plan, true)
    }
    fn name(&self) -> &str {
        "resurgam_key_order"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

impl KeyOrder {
    /// `plan` from its inputs up; `is_in_order` says whether somebody may go by the order that its rows are declared to have.
    fn plan(&self, plan: Plan, is_in_order: bool) -> Result<Plan> {
        // Which rows are the first ones follows from their order.
        let is_in_order = is_in_order || plan.fetch().is_some();
        let inputs = plan.children().into_iter().zip(inputs_in_order(&plan, is_in_order));
        // A plan may be as deep as a statement is long.
        let done = |input: &Plan, is_in_order| {
            stacker::maybe_grow(STACK_LEFT, STACK_MORE, || self.plan(Arc::clone(input), is_in_order))
        };
        let inputs = inputs.map(|(input, is_in_order)| done(input, is_in_order));
        let inputs = inputs.collect::<Result<Vec<Plan>>>()?;
        self.operator(replace_children_if_necessary(plan, inputs)?, is_in_order)
    }

    /// One whose inputs are done.
    fn operator(&self, node: Plan, is_in_order: bool) -> Result<Plan> {
        if let Some(join) = LookupJoinExec::in_place_of(&node, self.0, is_in_order)? {
            return Ok(join);
        }
        if let Some(join) = compact::held(&node)? {
            return Ok(join);
        }
        if !self.0.key_order {
            return Ok(node);
        }
        if let Some(sort) = node.downcast_ref::<SortExec>()
            && sort.input().output_partitioning().partition_count() == 1
            && let Some(sorted) = ordered(sort.input(), sort.expr(), sort.fetch())?
        {
            return first_rows(sorted, sort.fetch());
        }
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>()
            && let Some(ends) = extremes::by_order(aggregate)?
        {
            return Ok(ends);
        }
        if let Some(fetch) = node.fetch()
            && let Some(small) = small_batches(&node, fetch)?
        {
            return Ok(small);
        }
        Ok(node)
    }
}

fn options() -> ReplaceChildrenOptions {
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)
}

/// `plan` in the wanted order, if reading its table in some other way gives that.
pub(super) fn ordered(plan: &Plan, wanted: &[PhysicalSortExpr], fetch: Option<usize>) -> Result<Option<Plan>> {
    let satisfies = |plan: &Plan, wanted: &[PhysicalSortExpr]| {
        plan.equivalence_properties().ordering_satisfy(wanted.iter().cloned())
    };
    if satisfies(plan, wanted)? {
        return Ok(Some(Arc::clone(plan)));
    }
    let Some(scan) = scan_below(plan) else { return Ok(None) };
    let mut ways = vec![scan.reversed()?];
    let (few, filtered) = (fetch.is_some_and(|rows| rows <= FETCHED_MAX), has_filter(plan));
    if few || !filtered {
        for other in scan.by_other_trees()? {
            // Rows that a filter drops are not worth fetching one by one, unless a key bounds them; nor are many, unless the
            // index has all of them itself.
            let is_worth = if few { !filtered || !other.access().equal.is_empty() } else { false };
            if is_worth || !filtered && other.covering().is_some() {
                ways.push(other.reversed()?);
                ways.push(other);
            }
        }
    }
    for way in ways {
        let plan = with_scan(plan, Arc::new(way), ChildrenPropertiesMode::Recompute)?;
        if satisfies(&plan, wanted)? {
            return Ok(Some(plan));
        }
    }
    Ok(None)
}

fn has_filter(plan: &Plan) -> bool {
    plan.is::<FilterExec>() || input_in_order(plan).is_some_and(has_filter)
}

/// The first rows of `plan`.
pub(super) fn first_rows(plan: Plan, fetch: Option<usize>) -> Result<Plan> {
    let Some(fetch) = fetch else { return Ok(plan) };
    let limited = match plan.with_fetch(Some(fetch)) {
        Some(limited) => limited,
        None => Arc::new(GlobalLimitExec::new(plan, 0, Some(fetch))),
    };
    Ok(small_batches(&limited, fetch)?.unwrap_or(limited))
}

/// Has the scan below a limit begin with as few rows as are wanted.
fn small_batches(limited: &Plan, fetch: usize) -> Result<Option<Plan>> {
    let children = limited.children();
    let [child] = children.as_slice() else { return Ok(None) };
    let passes = limited.is::<FilterExec>() || limited.is::<GlobalLimitExec>();
    match scan_below(child) {
        Some(scan) if passes => {
            let child = with_scan(child, Arc::new(scan.with_first(fetch)), ChildrenPropertiesMode::Keep)?;
            Ok(Some(Arc::clone(limited).replace_children(vec![child], options())?))
        }
        _ => Ok(None),
    }
}
