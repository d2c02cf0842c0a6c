//! Projections stay above filters.
//!
//! DataFusion moves a projection below a filter where the columns of the predicate outlive it. What the filter keeps from
//! being evaluated (`SELECT a / b, b FROM t WHERE b <> 0`) would be evaluated for all rows then. While its rule runs,
//! filters stand behind a fence, below which nothing goes but a choice of columns.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::filter;

/// DataFusion's rule.
const PUSHDOWN: &str = "ProjectionPushdown";

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// These physical rules, with that one changed.
pub(crate) fn fenced(rules: Vec<Rule>) -> Vec<Rule> {
    let fenced = |rule: Rule| -> Rule { if rule.name() == PUSHDOWN { Arc::new(Fenced(rule)) } else { rule } };
    rules.into_iter().map(fenced).collect()
}

/// See the module's head.
#[derive(Debug)]
struct Fenced(Rule);

impl PhysicalOptimizerRule for Fenced {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        filter::unfenced(self.0.optimize(filter::fenced(plan)?, config)?)
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
