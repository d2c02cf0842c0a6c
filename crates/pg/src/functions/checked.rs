//! Integer `+`, `-`, `*` that fail when the result does not fit, as PostgreSQL's do, and one NaN.
//!
//! DataFusion wraps around silently. [`CheckedArithmetic`] runs last among the analyzer's
//! rules, when types are settled, and puts functions in place of these operators on integers.
//!
//! Floats have functions for their operators as well, which tell of overflow, underflow and division by zero.
//!
//! Where an operand is NULL as it stands there is nothing to compute ([`strict`]).
//!
//! To PostgreSQL all NaNs are equal. Here they are compared by their bits, and what arithmetic
//! makes (`Infinity - Infinity`) has others than what is read. So functions of floats give the usual ones, as does
//! `pg_nan` around a minus sign; values from tables and clients get them where they come in.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Datum, PrimitiveArray};
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use super::define::{P, PgFunction, Returns, f};
use super::floats::{Operator as Float, operator};
use super::numeric::keys::NumericKeys;
use super::strict;
use crate::types::{arrow_oid, format_type};
use crate::wire::SqlError;

type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>;

fn checked(name: &'static str, kernel: Kernel) -> PgFunction {
    f(name, &[P::Any, P::Any], Returns::By(|fields| fields[0].clone()), move |call| {
        kernel(&call.arrays[0], &call.arrays[1]).map_err(|error| match error {
            ArrowError::ArithmeticOverflow(_) => SqlError::new(
                "22003",
                format!("{} out of range", format_type(arrow_oid(call.returns.data_type()), None)),
            ),
            other => crate::errors::from_arrow(&other),
        })
    })
}

/// Floats with one kind of NaN.
fn one_nan<T: ArrowPrimitiveType>(array: &ArrayRef, nan: T::Native, is_nan: fn(T::Native) -> bool) -> ArrayRef {
    let values: &PrimitiveArray<T> = array.as_primitive();
    match values.values().iter().any(|value| is_nan(*value)) {
        true => Arc::new(values.unary::<_, T>(|value| if is_nan(value) { nan } else { value })),
        false => Arc::clone(array),
    }
}

fn nan() -> PgFunction {
    f(NAN, &[P::Any], Returns::By(|fields| fields[0].clone()), |call| {
        let array = &call.arrays[0];
        Ok(match array.data_type() {
            DataType::Float64 => one_nan::<Float64Type>(array, f64::NAN, f64::is_nan),
            DataType::Float32 => one_nan::<Float32Type>(array, f32::NAN, f32::is_nan),
            _ => Arc::clone(array),
        })
    })
}

const NAN: &str = "pg_nan";

/// What is in a call of `pg_nan`; any other expression as it is.
fn inside(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut call) if call.name() == NAN && call.args.len() == 1 => call.args.remove(0),
        other => other,
    }
}

/// What the rule, and that about keys of numerics, make of an expression over `schema`.
///
/// # Errors
/// None of its own.
pub fn checked_arithmetic(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    static RULE: LazyLock<CheckedArithmetic> = LazyLock::new(CheckedArithmetic::new);
    static KEYS: LazyLock<Option<NumericKeys>> = LazyLock::new(NumericKeys::new);
    let expr = RULE.rewrite(expr, schema)?.data;
    match KEYS.as_ref() {
        Some(keys) => keys.keyed(expr, schema),
        None => Ok(expr),
    }
}

/// The rule.
#[derive(Debug)]
pub(super) struct CheckedArithmetic {
    plus: Arc<ScalarUDF>,
    minus: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
    nan: Arc<ScalarUDF>,
    float_plus: Arc<ScalarUDF>,
    float_minus: Arc<ScalarUDF>,
    float_multiply: Arc<ScalarUDF>,
    float_divide: Arc<ScalarUDF>,
}

impl CheckedArithmetic {
    pub(super) fn new() -> Self {
        Self {
            plus: Arc::new(checked("pg_plus", add).into_udf()),
            minus: Arc::new(checked("pg_minus", sub).into_udf()),
            multiply: Arc::new(checked("pg_multiply", mul).into_udf()),
            nan: Arc::new(nan().into_udf()),
            float_plus: Arc::new(operator("pg_float_plus", Float::Plus).into_udf()),
            float_minus: Arc::new(operator("pg_float_minus", Float::Minus).into_udf()),
            float_multiply: Arc::new(operator("pg_float_multiply", Float::Multiply).into_udf()),
            float_divide: Arc::new(operator("pg_float_divide", Float::Divide).into_udf()),
        }
    }

    /// What has the type of `expr` and is cheaper to ask: its functions give the type that they take, and
    /// whoever asks each level of a chain for its type would go down the whole of it each time.
    fn own_operand<'a>(&self, expr: &'a Expr) -> &'a Expr {
        let own = [
            &self.plus,
            &self.minus,
            &self.multiply,
            &self.nan,
            &self.float_plus,
            &self.float_minus,
            &self.float_multiply,
            &self.float_divide,
        ];
        let mut expr = expr;
        while let Expr::ScalarFunction(call) = expr
            && own.iter().any(|function| Arc::ptr_eq(function, &call.func))
            && let Some(operand) = call.args.first()
        {
            expr = operand;
        }
        expr
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
        let type_of = |expr: &Expr| self.own_operand(expr).get_type(schema);
        let floats = |expr: &Expr| matches!(type_of(expr), Ok(DataType::Float32 | DataType::Float64));
        expr.transform_up(|expr| {
            if let Some(null) = strict::null_in_place(&expr, schema) {
                return Ok(Transformed::yes(null));
            }
            let BinaryExpr { left, op, right } = match expr {
                Expr::BinaryExpr(binary) => binary,
                Expr::Negative(value) if floats(value.as_ref()) => {
                    let value = Expr::Negative(Box::new(inside(*value)));
                    return Ok(Transformed::yes(self.nan.call(vec![value])));
                }
                // What an earlier pass has put there stays the only one.
                Expr::ScalarFunction(mut call) if call.name() == NAN && call.args.len() == 1 => {
                    call.args = vec![inside(call.args.remove(0))];
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                }
                other => return Ok(Transformed::no(other)),
            };
            let (function, of_floats) = match op {
                Operator::Plus => (Some(&self.plus), &self.float_plus),
                Operator::Minus => (Some(&self.minus), &self.float_minus),
                Operator::Multiply => (Some(&self.multiply), &self.float_multiply),
                Operator::Divide => (None, &self.float_divide),
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            };
            if floats(left.as_ref()) && floats(right.as_ref()) {
                return Ok(Transformed::yes(of_floats.call(vec![inside(*left), inside(*right)])));
            }
            match (type_of(&left), type_of(&right), function) {
                (Ok(l), Ok(r), Some(function))
                    if l == r && matches!(l, DataType::Int16 | DataType::Int32 | DataType::Int64) =>
                {
                    Ok(Transformed::yes(function.call(vec![*left, *right])))
                }
                _ => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            }
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
