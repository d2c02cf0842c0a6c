//! Integer `+`, `-`, `*` that fail when the result does not fit, as PostgreSQL's do.
//!
//! DataFusion wraps around silently. [`CheckedArithmetic`] runs last among the analyzer's
//! rules, when types are settled, and puts functions in place of these operators on integers.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Datum};
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use super::define::{P, PgFunction, Returns, f};
use crate::pg::types::{arrow_oid, format_type};
use crate::wire::SqlError;

type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>;

fn checked(name: &'static str, kernel: Kernel) -> PgFunction {
    f(name, &[P::Any, P::Any], Returns::By(|fields| fields[0].clone()), move |call| {
        kernel(&call.arrays[0], &call.arrays[1]).map_err(|error| match error {
            ArrowError::ArithmeticOverflow(_) => SqlError::new(
                "22003",
                format!("{} out of range", format_type(arrow_oid(call.returns.data_type()), None)),
            ),
            other => crate::pg::errors::from_arrow(&other),
        })
    })
}

/// The rule.
#[derive(Debug)]
pub(super) struct CheckedArithmetic {
    plus: Arc<ScalarUDF>,
    minus: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
}

impl CheckedArithmetic {
    pub(super) fn new() -> Self {
        Self {
            plus: Arc::new(checked("pg_plus", add).into_udf()),
            minus: Arc::new(checked("pg_minus", sub).into_udf()),
            multiply: Arc::new(checked("pg_multiply", mul).into_udf()),
        }
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
        expr.transform_up(|expr| {
            let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let function = match op {
                Operator::Plus => &self.plus,
                Operator::Minus => &self.minus,
                Operator::Multiply => &self.multiply,
                _ => return Ok(Transformed::no(expr)),
            };
            let (Ok(l), Ok(r)) = (left.get_type(schema), right.get_type(schema)) else {
                return Ok(Transformed::no(expr));
            };
            if l != r || !matches!(l, DataType::Int16 | DataType::Int32 | DataType::Int64) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(function.call(vec![left.as_ref().clone(), right.as_ref().clone()])))
        })
    }
}

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
            }
            let names = NamePreserver::new(&plan);
            let rewritten = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(self.rewrite(expr, &schema)?.update_data(|expr| name.restore(expr)))
            })?;
            if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
        })
        .map(|done| done.data)
    }
}
