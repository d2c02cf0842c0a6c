//! Minus zero is zero wherever values are ordered or told apart.
//!
//! Of `real` and `double precision` -0 equals 0, as the operators say. Sorts, partitions and peers of windows, and aggregates of distinct values go
//! by the bits of a value (`f64::total_cmp`), by which -0 is another value below 0. So these get [`signless`] keys: a function that gives 0 for -0
//! and every other value as it is. What is shown is not a key, and keeps its sign; but for what aggregates of distinct values gather.
//!
//! It is done last, before a plan becomes a physical one. What trees are in order of are such keys as well ([`key`]): rows whose columns are equal, and are
//! of different signs, come in any order. And a column that equals something is the same in all rows but for its sign, so conditions compare
//! such keys too: otherwise what is made of it (`g::text`) would pass for a constant.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::same_value::SameValue;

/// `plan`, which is to be made a physical one, with such keys.
pub(crate) fn equal(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| match node {
        LogicalPlan::Sort(mut sort) => {
            let schema = sort.input.schema();
            let changed = keys(&mut sort.expr, schema)?;
            Ok(transformed(LogicalPlan::Sort(sort), changed))
        }
        LogicalPlan::Filter(mut filter) => {
            let schema = Arc::clone(filter.input.schema());
            let done = std::mem::take(&mut filter.predicate).transform_down(|expr| condition(expr, &schema))?;
            filter.predicate = done.data;
            Ok(transformed(LogicalPlan::Filter(filter), done.transformed))
        }
        LogicalPlan::Window(_) | LogicalPlan::Aggregate(_) => {
            let inputs = node.inputs();
            let [input] = inputs.as_slice() else { return internal_err!("one input") };
            let schema = Arc::clone(input.schema());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let done = expr.transform_up(|expr| of_call(expr, &schema))?;
                Ok(if done.transformed { done.update_data(|expr| name.restore(expr)) } else { done })
            })
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn transformed<T>(data: T, changed: bool) -> Transformed<T> {
    if changed { Transformed::yes(data) } else { Transformed::no(data) }
}

/// The equalities that all rows meet.
fn condition(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }))
        }
        Expr::BinaryExpr(mut equality) if equality.op == Operator::Eq => {
            let mut changed = value(&mut equality.left, schema)?;
            changed |= value(&mut equality.right, schema)?;
            for side in [&mut equality.left, &mut equality.right] {
                match side.as_mut() {
                    Expr::Literal(ScalarValue::Float64(Some(value)), _) if *value == 0.0 => *value = 0.0,
                    Expr::Literal(ScalarValue::Float32(Some(value)), _) if *value == 0.0 => *value = 0.0,
                    _ => {}
                }
            }
            Transformed::new(Expr::BinaryExpr(equality), changed, TreeNodeRecursion::Jump)
        }
        other => Transformed::new(other, false, TreeNodeRecursion::Jump),
    })
}

/// Whether a condition on these columns of floats may tell -0 from 0: it reads one otherwise than to compare it.
pub(crate) fn tells_signs(condition: &Expr, columns: &HashSet<&Column>) -> bool {
    let tells = |expr: &Expr| tells_signs(expr, columns);
    let operand = |expr: &Expr| operand_tells_signs(expr, columns);
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => tells(left) || tells(right),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            operand(left) || operand(right)
        }
        Expr::Not(inner) => tells(inner),
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => operand(inner),
        Expr::Between(between) => operand(&between.expr) || operand(&between.low) || operand(&between.high),
        Expr::InList(list) => operand(&list.expr) || list.list.iter().any(operand),
        other => other.column_refs().iter().any(|column| columns.contains(column)),
    }
}

/// The same of what is compared: a column, as another type of floats perhaps, is compared as it is.
fn operand_tells_signs(expr: &Expr, columns: &HashSet<&Column>) -> bool {
    match expr {
        Expr::Column(_) => false,
        Expr::Cast(cast) if is_float(cast.field.data_type()) => operand_tells_signs(&cast.expr, columns),
        other => tells_signs(other, columns),
    }
}

/// Whether groups are by a column of floats and by something that is made of it, which tells zeroes of both signs apart (`GROUP BY f, atan2(f, -1)`).
pub(crate) fn has_signed_keys(group: &Aggregate) -> bool {
    let schema = group.input.schema();
    let is_signed = |column: &Column| schema.field_from_column(column).is_ok_and(|field| is_float(field.data_type()));
    let columns = group.group_expr.iter().filter_map(Expr::try_as_col);
    let floats: HashSet<&Column> = columns.filter(|column| is_signed(column)).collect();
    let reads = |expr: &Expr| expr.column_refs().iter().any(|column| floats.contains(column));
    !floats.is_empty() && group.group_expr.iter().any(|expr| expr.try_as_col().is_none() && reads(expr))
}

/// The keys of a call of an aggregate or a window function.
fn of_call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed;
    let expr = match expr {
        Expr::WindowFunction(mut call) => {
            let WindowFunction { params, .. } = call.as_mut();
            changed = values(&mut params.partition_by, schema)? | keys(&mut params.order_by, schema)?;
            Expr::WindowFunction(call)
        }
        Expr::AggregateFunction(mut call) => {
            let AggregateFunction { params, .. } = &mut call;
            // An order of distinct values is one of the arguments, as they are written.
            changed = keys(&mut params.order_by, schema)? | (params.distinct && values(&mut params.args, schema)?);
            Expr::AggregateFunction(call)
        }
        other => return Ok(Transformed::no(other)),
    };
    Ok(transformed(expr, changed))
}

fn keys(keys: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    keys.iter_mut().try_fold(false, |changed, key| Ok(value(&mut key.expr, schema)? | changed))
}

fn values(exprs: &mut [Expr], schema: &DFSchema) -> Result<bool> {
    exprs.iter_mut().try_fold(false, |changed, expr| Ok(value(expr, schema)? | changed))
}

fn value(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    if matches!(expr, Expr::Literal(..)) || !is_float(&expr.get_type(schema)?) {
        return Ok(false);
    }
    *expr = signless(std::mem::take(expr));
    Ok(true)
}

fn is_float(data: &DataType) -> bool {
    matches!(data, DataType::Float32 | DataType::Float64)
}

/// Its argument, 0 for -0.
fn function() -> ScalarUDF {
    SameValue::function("signless", signless_array)
}

fn signless(expr: Expr) -> Expr {
    function().call(vec![expr])
}

/// The key of a column of floats, as plans have it.
pub(crate) fn key(
    value: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &Arc<ConfigOptions>,
) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(Arc::new(ScalarFunctionExpr::try_new(Arc::new(function()), vec![value], schema, Arc::clone(config))?))
}

/// The values of a column of floats, 0 for -0; `None`: there is no -0 among them, or they are something else.
pub(crate) fn signless_array(values: &ArrayRef) -> Option<ArrayRef> {
    match values.data_type() {
        DataType::Float64 => plain::<Float64Type>(values, |value| value == 0.0 && value.is_sign_negative()),
        DataType::Float32 => plain::<Float32Type>(values, |value| value == 0.0 && value.is_sign_negative()),
        _ => None,
    }
}

fn plain<T: ArrowPrimitiveType>(values: &ArrayRef, is_minus: impl Fn(T::Native) -> bool) -> Option<ArrayRef> {
    let values = values.as_primitive::<T>();
    if !values.values().iter().any(|value| is_minus(*value)) {
        return None;
    }
    let made: PrimitiveArray<T> = values.unary(|value| if is_minus(value) { T::Native::default() } else { value });
    Some(Arc::new(made))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Float64Array;

    use super::*;

    #[test]
    fn minus_zero_is_zero_and_the_rest_as_it_is() {
        let values: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::NAN), Some(-1.5), Some(0.0)]));
        let plain = signless_array(&values).expect("there is one");
        let bits = |at: usize| plain.as_primitive::<Float64Type>().value(at).to_bits();
        assert_eq!((bits(0), bits(2), bits(3)), (0, f64::NAN.to_bits(), (-1.5f64).to_bits()));
        assert!(plain.is_null(1) && plain.null_count() == 1);
        assert!(signless_array(&plain).is_none());
    }
}
