//! Parameters of kept plans.
//!
//! A statement is optimised with its parameters as placeholders. When a physical plan
//! is made, each placeholder becomes a call of a function without arguments that reads
//! the plan's own [`ParamCell`]; running the plan again means filling the cell.
//!
//! Invariants:
//! 1. A cell belongs to one physical plan, and a physical plan runs for one statement at a time.
//! 2. The function is volatile in DataFusion's sense, so no pass after this folds it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use parking_lot::RwLock;

use crate::pg::types::{NUMERIC_PRECISION, NUMERIC_SCALE};

/// The values of the present execution.
#[derive(Debug, Default)]
pub(crate) struct ParamCell(RwLock<Vec<ScalarValue>>);

impl ParamCell {
    pub(crate) fn set(&self, values: Vec<ScalarValue>) {
        *self.0.write() = values;
    }
    pub(crate) fn get(&self, index: usize) -> Result<ScalarValue> {
        self.0
            .read()
            .get(index)
            .cloned()
            .ok_or_else(|| DataFusionError::Internal(format!("no value for parameter ${}", index + 1)))
    }
}

/// Reads parameter `index` of `cell`.
#[derive(Debug)]
pub(crate) struct ParamFunction {
    pub(crate) index: usize,
    field: FieldRef,
    cell: Arc<ParamCell>,
    signature: Signature,
}

impl PartialEq for ParamFunction {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && Arc::ptr_eq(&self.cell, &other.cell)
    }
}
impl Eq for ParamFunction {}
impl Hash for ParamFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl ScalarUDFImpl for ParamFunction {
    fn name(&self) -> &str {
        "$"
    }
    fn display_name(&self, _: &[Expr]) -> Result<String> {
        Ok(format!("${}", self.index + 1))
    }
    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(format!("${}", self.index + 1))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.cell.get(self.index)?))
    }
}

/// Index of a placeholder such as `$3` (then 2).
pub(crate) fn placeholder_index(id: &str) -> Option<usize> {
    id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// Types that planning has found for the parameters of `plan`, from what each is compared or
/// computed with. A parameter may stand in several places: of two integer types it takes the
/// wider, and any other type before an integer; the first place decides between the rest.
/// A numeric one has no scale of its own, whatever the column's is.
pub(crate) fn inferred_types(plan: &LogicalPlan, count: usize) -> Vec<Option<FieldRef>> {
    let mut found: Vec<Option<FieldRef>> = vec![None; count];
    let mut note = |placeholder: &Placeholder| {
        if let Some(field) = &placeholder.field
            && !field.data_type().is_null()
            && let Some(slot) = placeholder_index(&placeholder.id).and_then(|index| found.get_mut(index))
        {
            let field = without_scale(field);
            match slot {
                Some(before) if !is_better(field.data_type(), before.data_type()) => {}
                _ => *slot = Some(field),
            }
        }
    };
    // Where nothing was found by comparing: `$1::int` is told to be what it is cast to, and the
    // number of a LIMIT is a bigint.
    let mut others: Vec<(usize, DataType)> = Vec::new();
    let untyped = |expr: &Expr| match expr {
        Expr::Placeholder(placeholder) if placeholder.field.as_ref().is_none_or(|f| f.data_type().is_null()) => {
            placeholder_index(&placeholder.id)
        }
        _ => None,
    };
    // The closures below return no error.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expr in [&limit.skip, &limit.fetch].into_iter().flatten() {
                others.extend(untyped(expr).map(|index| (index, DataType::Int64)));
            }
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                match expr {
                    Expr::Placeholder(placeholder) => note(placeholder),
                    Expr::Cast(cast) => {
                        others.extend(untyped(&cast.expr).map(|index| (index, cast.field.data_type().clone())));
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    for (index, ty) in others {
        if let Some(slot @ None) = found.get_mut(index) {
            *slot = Some(without_scale(&Arc::new(Field::new(format!("${}", index + 1), ty, true))));
        }
    }
    found
}

fn without_scale(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Decimal128(..) => {
            let numeric = DataType::Decimal128(NUMERIC_PRECISION, NUMERIC_SCALE as i8);
            Arc::new(field.as_ref().clone().with_data_type(numeric))
        }
        _ => Arc::clone(field),
    }
}

fn is_better(new: &DataType, before: &DataType) -> bool {
    let width = |ty: &DataType| if ty.is_integer() { ty.primitive_width() } else { None };
    match (width(new), width(before)) {
        (Some(new), Some(before)) => new > before,
        (None, Some(_)) => new.is_numeric(),
        _ => false,
    }
}

/// `plan` with each placeholder replaced by a reader of `cell`.
pub(crate) fn bind_to_cell(plan: LogicalPlan, cell: &Arc<ParamCell>, types: &[DataType]) -> Result<LogicalPlan> {
    map_placeholders(plan, &mut |placeholder| param_call(placeholder, cell, types))
}

/// `plan` with each placeholder replaced by its value.
pub(crate) fn bind_to_values(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    map_placeholders(plan, &mut |placeholder| match placeholder_index(&placeholder.id)
        .and_then(|index| values.get(index))
    {
        Some(value) => Ok(Expr::Literal(value.clone(), None)),
        None => internal_err!("no value for parameter {}", placeholder.id),
    })
}

fn map_placeholders(plan: LogicalPlan, replace: &mut dyn FnMut(&Placeholder) -> Result<Expr>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            if !contains_placeholder(&expr) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let expr = expr
                .transform_up(|expr| match &expr {
                    Expr::Placeholder(placeholder) => Ok(Transformed::yes(replace(placeholder)?)),
                    _ => Ok(Transformed::no(expr)),
                })
                .data()?;
            Ok(Transformed::yes(name.restore(expr)))
        })?
        .map_data(|node| node.recompute_schema())
    })
    .data()
}

/// Whether a placeholder occurs in `expr`.
pub(crate) fn contains_placeholder(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::Placeholder(_)))).unwrap_or(true)
}

/// Whether a kept physical plan cannot serve `plan`, because planning itself reads the values
/// (LIMIT, VALUES) or the plan cannot be started twice (recursion).
pub(crate) fn must_plan_each_time(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = plan.apply_with_subqueries(|node| {
        found |= match node {
            LogicalPlan::Limit(limit) => limit.skip.iter().chain(limit.fetch.iter()).any(|e| contains_placeholder(e)),
            LogicalPlan::Values(values) => values.values.iter().flatten().any(contains_placeholder),
            LogicalPlan::RecursiveQuery(_) | LogicalPlan::Extension(_) => true,
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// `expr` with each placeholder replaced by a reader of `cell`.
pub(crate) fn bind_expr_to_cell(expr: Expr, cell: &Arc<ParamCell>, types: &[DataType]) -> Result<Expr> {
    expr.transform_up(|expr| match &expr {
        Expr::Placeholder(placeholder) => Ok(Transformed::yes(param_call(placeholder, cell, types)?)),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
}

fn param_call(placeholder: &Placeholder, cell: &Arc<ParamCell>, types: &[DataType]) -> Result<Expr> {
    let Some(index) = placeholder_index(&placeholder.id) else {
        return internal_err!("unknown parameter {}", placeholder.id);
    };
    let Some(ty) = types.get(index) else { return internal_err!("no type for parameter {}", placeholder.id) };
    let function = ParamFunction {
        index,
        field: Arc::new(Field::new(&placeholder.id, ty.clone(), true)),
        cell: Arc::clone(cell),
        signature: Signature::nullary(Volatility::Volatile),
    };
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), vec![])))
}
