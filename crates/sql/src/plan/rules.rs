//! DataFusion's analyzer rules, with what has to be done before them.
//!
//! Analysis has written out every cast, so DataFusion's coercion of types finds nothing to do: it checks. But it knows
//! no RANGE over numerics that show different digits, which are bytes: their windows go by their keys before it comes.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use crate::exec::bridge;
use crate::pg::functions::numeric::keys::NumericKeys;
use crate::pg::running;

/// DataFusion's rule of coercion.
const COERCION: &str = "type_coercion";

/// The rules of a session, to which its functions add theirs.
pub(crate) fn rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    if let Some(keys) = NumericKeys::new() {
        let at = rules.iter().position(|rule| rule.name() == COERCION).unwrap_or(0);
        rules.insert(at, Arc::new(WindowKeys(keys)));
    }
    rules
}

/// These rules of the optimizer, with a question before each whether the statement was told to stop.
pub(crate) fn stoppable(rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ask = Arc::new(Ask) as Arc<dyn OptimizerRule + Send + Sync>;
    rules.into_iter().flat_map(|rule| [Arc::clone(&ask), rule]).collect()
}

/// See [`stoppable`].
#[derive(Debug)]
struct Ask;

impl OptimizerRule for Ask {
    fn name(&self) -> &str {
        "ask"
    }
    fn supports_rewrite(&self) -> bool {
        true
    }
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        running::check().map_err(bridge::failure)?;
        Ok(Transformed::no(plan))
    }
}

/// An expression over `schema` that is in no plan, as DataFusion's coercion leaves it.
pub(crate) fn coerced(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.rewrite(&mut TypeCoercionRewriter::new(schema)).data()
}

/// See the module's head.
#[derive(Debug)]
struct WindowKeys(NumericKeys);

impl WindowKeys {
    fn node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Window(_)) {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let keyed = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let keyed = expr.transform_up(|expr| match expr {
                Expr::WindowFunction(mut window) => {
                    let changed = self.0.window(&mut window, &schema)?;
                    Ok(Transformed::new_transformed(Expr::WindowFunction(window), changed))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(if keyed.transformed { keyed.update_data(|expr| name.restore(expr)) } else { keyed })
        })?;
        if keyed.transformed { keyed.map_data(LogicalPlan::recompute_schema) } else { Ok(keyed) }
    }
}

impl AnalyzerRule for WindowKeys {
    fn name(&self) -> &str {
        "window_keys"
    }
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| self.node(plan)).data()
    }
}
