//! Limits beside sorts, and sorts that somebody goes by, where they would be taken away.
//!
//! DataFusion's rule of requirements takes away a sort whose order is there anyway, or replaces it by a stricter one, and hands limits (`fetch`) down on the way without looking at what is between:
//! - the limit of a sort came to nobody where the sorts below it went as well: `SELECT id FROM (SELECT id, c FROM t ORDER BY c) s ORDER BY id LIMIT 2` gave all rows;
//! - a limit with an OFFSET lost rows to a stricter sort put below it that knew of the limit only, and the sort below an OFFSET without a limit went
//!   altogether, since nobody said that the order counts there.
//!
//! - what gathers rows in the order in which they come (`array_agg`, `string_agg` and their kin without an ORDER BY of their own, windows without one) asks for no order, so that of a subquery went
//!   from below them: `SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY x) s`, which PostgreSQL's documentation tells people to write.
//!
//! So while that rule works a [`HeldLimit`] stands for each limit: it says which order its rows have to have, hides that it is a limit, and lets nothing through. Sorts
//! have none meanwhile, and what they were handed meanwhile (a plan's root knows the limit of the sort below it) is taken from them. Afterwards it is a limit again, or the
//! sort's where it stands above one.
//!
//! Where rows are known to be in several orders the rule takes one of these for that of a sort above them: such a sort stands above an
//! [`OuterSideExec`], which says nothing of what it knows.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::utils::combine_limit;
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, Partitioning};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};

use super::computed_limit::ComputedLimitExec;
use super::one_input::one_input;
use super::outer_side::OuterSideExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The name of the rule that this is about.
pub(crate) const REPLACED: &str = "EnsureRequirements";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct KeptLimits(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for KeptLimits {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let plain = plan.transform_up(|plan| Ok(alone_in_order(plan))).data()?;
        let held = plain.transform_up(|plan| Ok(hold(plan))).data()?;
        let out = self.0.optimize(held, config)?;
        // A limit that a sort has by now was handed down to it, past others.
        let out = out.transform_up(|plan| Ok(without_fetch(plan))).data()?;
        out.transform_up(|plan| Ok(give_back(plan))).data()
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// A sort of rows that are known to be in other orders as well, over rows of which nothing is known: the rule takes one of the other orders for the sort's.
fn alone_in_order(plan: Plan) -> Transformed<Plan> {
    let Some(sort) = plan.downcast_ref::<SortExec>() else { return Transformed::no(plan) };
    if plan.output_ordering() == Some(sort.expr()) {
        return Transformed::no(plan);
    }
    let input = Arc::new(OuterSideExec::new(Arc::clone(sort.input())));
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    match Arc::clone(&plan).replace_children(vec![input], anew) {
        Ok(plan) => Transformed::yes(plan),
        Err(_) => Transformed::no(plan),
    }
}

/// Whether an operator's result shows in which order its rows come, though it asks for none.
fn shows_order(plan: &Plan) -> bool {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let reads_rows = matches!(
            aggregate.mode(),
            AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
        );
        return reads_rows
            && aggregate
                .aggr_expr()
                .iter()
                .any(|call| call.order_bys().is_empty() && call.fun().name().ends_with("_agg"));
    }
    let calls = if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        window.window_expr()
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        window.window_expr()
    } else {
        return false;
    };
    calls.iter().any(|call| call.partition_by().is_empty() && call.order_by().is_empty())
}

/// A limit, or a sort that is one, as a [`HeldLimit`]; and the sorts of rows whose order shows.
fn hold(plan: Plan) -> Transformed<Plan> {
    if shows_order(&plan) {
        let inputs = plan.children().into_iter().map(|input| in_order(Arc::clone(input))).collect();
        let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return match Arc::clone(&plan).replace_children(inputs, anew) {
            Ok(plan) => Transformed::yes(plan),
            Err(_) => Transformed::no(plan),
        };
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        let input = in_order(Arc::clone(limit.input()));
        let order = order_of(&input);
        return Transformed::yes(Arc::new(HeldLimit::new(input, limit.skip(), limit.fetch(), order)));
    }
    if let Some(limit) = plan.downcast_ref::<ComputedLimitExec>() {
        // How many rows it lets through nobody knows, so it is not to be hidden; that their order counts is to be said.
        return Transformed::yes(Arc::new(limit.over(in_order(Arc::clone(&limit.input)))));
    }
    let Some(fetch) = plan.fetch().filter(|_| sorts(&plan)) else { return Transformed::no(plan) };
    let sort = without_fetch(plan);
    if !sort.transformed {
        return sort;
    }
    let sort = sort.data;
    Transformed::yes(match sort.output_partitioning().partition_count() {
        1 => {
            let order = order_of(&sort);
            Arc::new(HeldLimit::new(sort, 0, Some(fetch), order))
        }
        // Of each partition: what brings them together has a limit of its own.
        _ => Arc::new(LocalLimitExec::new(sort, fetch)),
    })
}

/// In what order a plan gives its rows: a sort as it says, since what is known of its input may be another order besides.
fn order_of(plan: &Plan) -> Option<LexOrdering> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return Some(sort.expr().clone());
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        return Some(merge.expr().clone());
    }
    match plan.downcast_ref::<HeldLimit>() {
        Some(held) => held.order.clone(),
        None => plan.output_ordering().cloned(),
    }
}

fn sorts(plan: &Plan) -> bool {
    plan.is::<SortExec>() || plan.is::<SortPreservingMergeExec>()
}

/// A sort that gives all rows.
fn without_fetch(plan: Plan) -> Transformed<Plan> {
    let all = if sorts(&plan) && plan.fetch().is_some() { plan.with_fetch(None) } else { None };
    all.map_or_else(|| Transformed::no(plan), Transformed::yes)
}

/// A plan whose order counts although its columns may not show it: the sort below what takes columns or rows away is held, as one that leaves all rows.
fn in_order(plan: Plan) -> Plan {
    if plan.is::<SortExec>() {
        let order = order_of(&plan);
        return Arc::new(HeldLimit::new(plan, 0, None, order));
    }
    let keeps_order = plan.is::<ProjectionExec>() || plan.is::<FilterExec>();
    let inputs = plan.children();
    let [input] = inputs.as_slice() else { return plan };
    if !keeps_order {
        return plan;
    }
    let input = in_order(Arc::clone(input));
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(&plan).replace_children(vec![input], anew).unwrap_or(plan)
}

/// The limit that one stands for.
fn give_back(plan: Plan) -> Transformed<Plan> {
    let Some(held) = plan.downcast_ref::<HeldLimit>() else { return Transformed::no(plan) };
    if held.skip == 0 && held.fetch.is_none() {
        return Transformed::yes(Arc::clone(&held.input));
    }
    let limited = held.fetch.map(|fetch| fetch.saturating_add(held.skip)).map(|rows| first(&held.input, rows));
    let input = limited.clone().flatten().unwrap_or_else(|| Arc::clone(&held.input));
    Transformed::yes(match limited {
        Some(Some(sort)) if held.skip == 0 => sort,
        _ => limited_by(input, held.skip, held.fetch),
    })
}

/// These rows of a plan; of one that is a limit, as one limit.
fn limited_by(input: Plan, skip: usize, fetch: Option<usize>) -> Plan {
    let Some(inner) = input.downcast_ref::<GlobalLimitExec>() else {
        return Arc::new(GlobalLimitExec::new(input, skip, fetch));
    };
    let (skip, fetch) = combine_limit(skip, fetch, inner.skip(), inner.fetch());
    limited_by(Arc::clone(inner.input()), skip, fetch)
}

/// A sort, or columns of one, that gives its first rows only; none of another plan.
fn first(sort: &Plan, rows: usize) -> Option<Plan> {
    if let Some(projection) = sort.downcast_ref::<ProjectionExec>() {
        let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return Arc::clone(sort).replace_children(vec![first(projection.input(), rows)?], anew).ok();
    }
    if let Some(merge) = sort.downcast_ref::<SortPreservingMergeExec>() {
        let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let merge = match merge.input().is::<SortExec>().then(|| first(merge.input(), rows)).flatten() {
            Some(each) => Arc::clone(sort).replace_children(vec![each], anew).ok()?,
            None => Arc::clone(sort),
        };
        return merge.with_fetch(Some(rows));
    }
    let fetch = sort.fetch().map_or(rows, |fetch| fetch.min(rows));
    sort.is::<SortExec>().then(|| sort.with_fetch(Some(fetch))).flatten()
}

/// See the module's head. It is in no plan that runs.
#[derive(Debug)]
struct HeldLimit {
    input: Plan,
    skip: usize,
    fetch: Option<usize>,
    /// What order its rows have to have.
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
}

impl HeldLimit {
    fn new(input: Plan, skip: usize, fetch: Option<usize>, order: Option<LexOrdering>) -> Self {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            Boundedness::Bounded,
        );
        Self { input, skip, fetch, order, properties: Arc::new(properties) }
    }
}

/// What an operator passes over and how many rows it gives then, if it is such a limit.
pub(crate) fn held_limit(plan: &Arc<dyn ExecutionPlan>) -> Option<(usize, Option<usize>)> {
    plan.downcast_ref::<HeldLimit>().map(|limit| (limit.skip, limit.fetch))
}

impl DisplayAs for HeldLimit {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "HeldLimit: skip={}, fetch={:?}", self.skip, self.fetch)
    }
}

impl ExecutionPlan for HeldLimit {
    fn name(&self) -> &str {
        "HeldLimit"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    one_input!(input, |plan, input| Self::new(input, plan.skip, plan.fetch, plan.order.clone()));
    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }
    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }
    /// Said so that no requirement is handed on to what is below.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }
    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a limit that is held does not run")
    }
}
