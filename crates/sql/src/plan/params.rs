//! Placeholders in logical plans, and what takes their place.
//!
//! A statement is optimised with its parameters as placeholders. When a physical plan
//! is made to be kept, each placeholder becomes a call of a function without arguments that reads
//! the plan's own [`ParamCell`]; running the plan again means filling the cell. See
//! [`cell`](crate::exec::cell) for what keeps values out of such plans.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{FieldMetadata, InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarUDF, WindowFunctionDefinition,
};

use crate::exec::any_of;
use crate::exec::cell::{ParamCell, ParamFunction, placeholder_index};
use crate::exec::zeroes::has_signed_keys;

/// `plan` with each placeholder replaced by a reader of `cell`.
pub(crate) fn bind_to_cell(plan: LogicalPlan, cell: &Arc<ParamCell>, types: &[DataType]) -> Result<LogicalPlan> {
    map_expressions(plan, &mut |expr| bind_expr_to_cell(expr, cell, types))
}

/// `plan` with each placeholder replaced by its value.
pub(crate) fn bind_to_values(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    map_expressions(plan, &mut |expr| bind_expr_to_values(expr, values))
}

/// Maps the expressions of a plan that have placeholders; columns keep their names.
fn map_expressions(plan: LogicalPlan, bind: &mut dyn FnMut(Expr) -> Result<Expr>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            if !contains_placeholder(&expr) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            Ok(Transformed::yes(name.restore(bind(expr)?)))
        })?
        .map_data(|node| node.recompute_schema())
    })
    .data()
}

/// Whether a placeholder occurs in `expr`.
pub(crate) fn contains_placeholder(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::Placeholder(_)))).unwrap_or(true)
}

/// Whether a kept physical plan cannot serve `plan`, because planning itself reads the values or the
/// plan cannot be started twice (recursion). What this does not know of comes out when the plan is
/// made ([`made_without_values`](crate::exec::cell::made_without_values)).
pub(crate) fn must_plan_each_time(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = crate::exec::apply::walk(plan, &mut |node| {
        found |= match node {
            LogicalPlan::Limit(limit) => limit.skip.iter().chain(limit.fetch.iter()).any(|e| contains_placeholder(e)),
            LogicalPlan::Values(values) => values.values.iter().flatten().any(contains_placeholder),
            LogicalPlan::RecursiveQuery(_) => true,
            LogicalPlan::Extension(extension) => {
                !crate::exec::apply::is_lateral(extension)
                    && !crate::exec::sets::is_project_set(extension)
                    && !crate::exec::computed_limit::is_computed_limit(extension)
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
                node.expressions().iter().any(|expr| expr.exists(|e| Ok(wants_constant(e))).unwrap_or(true))
            }
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// Whether a call has a parameter where aggregates and window functions want a literal: they look
/// for one when they begin, and take something else or fail if there is none.
fn wants_constant(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => call.params.args.iter().skip(1).any(contains_placeholder),
        Expr::WindowFunction(call) => {
            let computed = usize::from(matches!(call.fun, WindowFunctionDefinition::AggregateUDF(_)));
            call.params.args.iter().skip(computed).any(contains_placeholder)
        }
        _ => false,
    }
}

/// Whether the type of a call in `plan` would be another one were its parameters literals (the digits that
/// `trunc(n, 2)` keeps): then literals in their places are not to be lifted.
pub(crate) fn is_typed_by_literals(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = plan.apply_with_subqueries(|node| {
        // An expression of the select list is the key of a group by its text, constants and all; not by the other keys that it is made of.
        found |= matches!(node, LogicalPlan::Aggregate(group) if has_signed_keys(group));
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            found |= contains_placeholder(expr) && is_typed_by_literal(expr, &schema);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found
}

/// The same of an expression over `schema`.
pub(crate) fn is_typed_by_literal(expr: &Expr, schema: &DFSchema) -> bool {
    expr.exists(|expr| {
        let Expr::ScalarFunction(call) = expr else { return Ok(false) };
        if !call.args.iter().any(is_parameter) {
            return Ok(false);
        }
        let Ok(fields) = call.args.iter().map(|arg| Ok(arg.to_field(schema)?.1)).collect::<Result<Vec<_>>>() else {
            return Ok(false);
        };
        let gives = |probe: Option<usize>| {
            let values: Vec<Option<ScalarValue>> = call
                .args
                .iter()
                .zip(&fields)
                .map(|(arg, field)| match (arg, probe) {
                    (Expr::Literal(value, _), _) => Some(value.clone()),
                    (arg, Some(probe)) if is_parameter(arg) => a_value(field.data_type(), probe),
                    _ => None,
                })
                .collect();
            let values: Vec<Option<&ScalarValue>> = values.iter().map(Option::as_ref).collect();
            let args = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &values };
            call.func.return_field_from_args(args).map(|field| field.data_type().clone()).ok()
        };
        let without = gives(None);
        Ok((0..PROBES).any(|probe| gives(Some(probe)) != without))
    })
    .unwrap_or(true)
}

/// Values that a function is tried with.
const PROBES: usize = 3;

fn a_value(ty: &DataType, probe: usize) -> Option<ScalarValue> {
    let text = ["year", "epoch", "2"][probe % PROBES];
    match ty {
        ty if ty.is_integer() => ScalarValue::Int64(Some([0, 1, 7][probe % PROBES])).cast_to(ty).ok(),
        ty if ty.is_string() => ScalarValue::Utf8(Some(text.to_owned())).cast_to(ty).ok(),
        _ => None,
    }
}

/// A placeholder, maybe brought to another type.
fn is_parameter(expr: &Expr) -> bool {
    match expr {
        Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_parameter(&cast.expr),
        _ => false,
    }
}

/// `expr` with each placeholder replaced by a reader of `cell`, and lists of them by what builds its set in
/// each run.
pub(crate) fn bind_expr_to_cell(expr: Expr, cell: &Arc<ParamCell>, types: &[DataType]) -> Result<Expr> {
    expr.transform_up(|expr| match &expr {
        Expr::Placeholder(placeholder) => Ok(Transformed::yes(param_call(placeholder, cell, types)?)),
        Expr::InList(_) | Expr::ScalarFunction(_) => Ok(match any_of::in_place_of(&expr, cell)? {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
}

/// `expr` with each placeholder replaced by its value.
pub(crate) fn bind_expr_to_values(expr: Expr, values: &[ScalarValue]) -> Result<Expr> {
    expr.transform_up(|expr| {
        let expr = match expr {
            Expr::InList(list) => {
                let items = list.list.into_iter().flat_map(any_of::items).collect();
                return Ok(Transformed::yes(Expr::InList(InList { list: items, ..list })));
            }
            expr => expr,
        };
        let Expr::Placeholder(placeholder) = &expr else { return Ok(Transformed::no(expr)) };
        match placeholder_index(&placeholder.id).and_then(|index| values.get(index)) {
            // What plans say of the parameter stays true of the value.
            Some(value) => {
                let metadata = placeholder.field.as_ref().filter(|field| !field.metadata().is_empty());
                let metadata = metadata.map(|field| FieldMetadata::new_from_field(field));
                Ok(Transformed::yes(Expr::Literal(value.clone(), metadata)))
            }
            None => internal_err!("no value for parameter {}", placeholder.id),
        }
    })
    .data()
}

fn param_call(placeholder: &Placeholder, cell: &Arc<ParamCell>, types: &[DataType]) -> Result<Expr> {
    let Some(index) = placeholder_index(&placeholder.id) else {
        return internal_err!("unknown parameter {}", placeholder.id);
    };
    let Some(ty) = types.get(index) else { return internal_err!("no type for parameter {}", placeholder.id) };
    let metadata = placeholder.field.as_ref().map(|field| field.metadata().clone()).unwrap_or_default();
    let field = Arc::new(Field::new(&placeholder.id, ty.clone(), true).with_metadata(metadata));
    let function = ScalarUDF::new_from_impl(ParamFunction::new(index, field, Arc::clone(cell)));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![])))
}
