//! Limits of sorts that are taken away.
//!
//! A sort may carry a limit (`fetch`), and it is the only place where that stands. DataFusion's rule of requirements takes away a sort whose order is there anyway, and hands
//! its limit down to whoever can take one; where that is nobody (`SELECT id FROM (SELECT id, c FROM t ORDER BY c) s ORDER BY id LIMIT 2`: the inner sort goes
//! as well, and what is below is a scan) the limit was gone, and all rows came. So each such sort gets a limit above it while that rule works, which goes again
//! where the sort has stayed.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// The name of the rule that this is about.
pub(crate) const REPLACED: &str = "EnsureRequirements";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct KeptLimits(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for KeptLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let limited = plan.transform_up(|plan| Ok(with_limit(plan))).data()?;
        let out = self.0.optimize(limited, config)?;
        out.transform_up(|plan| Ok(without_limit(plan))).data()
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// How many rows a sort gives at most.
fn fetch_of(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if plan.is::<SortExec>() || plan.is::<SortPreservingMergeExec>() { plan.fetch() } else { None }
}

fn with_limit(plan: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    let Some(fetch) = fetch_of(&plan) else { return Transformed::no(plan) };
    Transformed::yes(match plan.output_partitioning().partition_count() {
        1 => Arc::new(GlobalLimitExec::new(plan, 0, Some(fetch))),
        // Of each partition: what brings these together has a limit of its own.
        _ => Arc::new(LocalLimitExec::new(plan, fetch)),
    })
}

/// The sort itself, where it has the limit.
fn without_limit(plan: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    let (input, fetch) = if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        match (limit.skip(), limit.fetch()) {
            (0, Some(fetch)) => (limit.input(), fetch),
            _ => return Transformed::no(plan),
        }
    } else if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        (limit.input(), limit.fetch())
    } else {
        return Transformed::no(plan);
    };
    match fetch_of(input) {
        Some(kept) if kept <= fetch => Transformed::yes(Arc::clone(input)),
        _ => Transformed::no(plan),
    }
}
