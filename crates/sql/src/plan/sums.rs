//! DataFusion's rewriting of `sum(a), count(DISTINCT b)` into two aggregates, the sum as a sum of sums, kept from sums
//! that have another type than what is summed: `sum(integer)` is `bigint`, and a sum of those is `numeric`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The name of DataFusion's rule.
const DISTINCT: &str = "single_distinct_aggregation_to_group_by";

/// The rules with that one held back where it must be.
pub(crate) fn kept(rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let held = |rule: Arc<dyn OptimizerRule + Send + Sync>| match rule.name() {
        DISTINCT => Arc::new(KeptSums(rule)) as Arc<dyn OptimizerRule + Send + Sync>,
        _ => rule,
    };
    rules.into_iter().map(held).collect()
}

/// See the module's head.
#[derive(Debug)]
struct KeptSums(Arc<dyn OptimizerRule + Send + Sync>);

/// Whether a sum of sums would be of another type than the sum.
fn changes(aggregate: &Aggregate) -> Result<bool> {
    let schema = aggregate.input.schema();
    for expr in &aggregate.aggr_expr {
        let Expr::AggregateFunction(call) = expr.clone().unalias() else { continue };
        if call.func.name() == "sum" && !call.params.distinct {
            let summed = call.params.args.first().map(|arg| arg.get_type(schema)).transpose()?;
            if summed != Some(expr.get_type(schema)?) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

impl OptimizerRule for KeptSums {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Aggregate(aggregate) if changes(aggregate)? => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}
