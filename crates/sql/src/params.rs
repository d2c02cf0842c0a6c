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
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use parking_lot::RwLock;

use crate::coercion::{takes_one_type, text};
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
    let mut found = Inference::new(count);
    // The closures below return no error.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expr in [&limit.skip, &limit.fetch].into_iter().flatten() {
                found.other(expr, &DataType::Int64);
            }
        }
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            found.look(expr, &schema);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found.finish()
}

/// The same for an expression over `schema`.
pub(crate) fn inferred_in(expr: &Expr, schema: &DFSchema, count: usize) -> Vec<Option<FieldRef>> {
    let mut found = Inference::new(count);
    found.look(expr, schema);
    found.finish()
}

struct Inference {
    /// By what parameters are compared and computed with.
    found: Vec<Option<FieldRef>>,
    /// Where nothing was found so: what `$1::int` is cast to, the bigint of a LIMIT, the type of the
    /// values that may come instead of it in CASE and coalesce.
    others: Vec<(usize, FieldRef)>,
}

/// The parameter that an expression is, if it has no type yet.
fn untyped(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Placeholder(placeholder) if placeholder.field.as_ref().is_none_or(|f| f.data_type().is_null()) => {
            placeholder_index(&placeholder.id)
        }
        _ => None,
    }
}

impl Inference {
    fn new(count: usize) -> Self {
        Self { found: vec![None; count], others: Vec::new() }
    }

    fn note(&mut self, placeholder: &Placeholder) {
        if let Some(field) = &placeholder.field
            && !field.data_type().is_null()
            && let Some(slot) = placeholder_index(&placeholder.id).and_then(|index| self.found.get_mut(index))
        {
            let field = without_scale(field);
            match slot {
                Some(before) if !is_better(field.data_type(), before.data_type()) => {}
                _ => *slot = Some(field),
            }
        }
    }

    fn other(&mut self, expr: &Expr, ty: &DataType) {
        if let Some(index) = untyped(expr) {
            self.others.push((index, Arc::new(Field::new("", ty.clone(), true))));
        }
    }

    /// Untyped parameters among `exprs` get the type that PostgreSQL would choose for the rest.
    fn alike<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr> + Clone, schema: &DFSchema) {
        if !exprs.clone().any(|expr| untyped(expr).is_some()) {
            return;
        }
        let mut chosen: Option<FieldRef> = None;
        for expr in exprs.clone() {
            // A text that has no type of its own does not count.
            if untyped(expr).is_some() || text(expr).is_some() {
                continue;
            }
            let field = match expr {
                // An integer that is written is an `integer` if it fits.
                Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok() => {
                    Arc::new(Field::new("", DataType::Int32, true))
                }
                expr => match expr.to_field(schema) {
                    Ok((_, field)) => field,
                    Err(_) => continue,
                },
            };
            let better = |before: &FieldRef| is_preferred(field.data_type(), before.data_type());
            if !field.data_type().is_null() && chosen.as_ref().is_none_or(better) {
                chosen = Some(field);
            }
        }
        if let Some(chosen) = chosen {
            self.others.extend(exprs.filter_map(untyped).map(|index| (index, Arc::clone(&chosen))));
        }
    }

    fn look(&mut self, expr: &Expr, schema: &DFSchema) {
        // The closure returns no error.
        let _ = expr.apply(|expr| {
            match expr {
                Expr::Placeholder(placeholder) => self.note(placeholder),
                Expr::Cast(cast) => self.other(&cast.expr, cast.field.data_type()),
                Expr::Case(case) => {
                    let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
                    match &case.expr {
                        Some(operand) => self.alike(std::iter::once(operand.as_ref()).chain(whens), schema),
                        None => whens.for_each(|when| self.other(when, &DataType::Boolean)),
                    }
                    let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
                    self.alike(thens.chain(case.else_expr.as_deref()), schema);
                }
                Expr::ScalarFunction(call) if takes_one_type(call.name()) => self.alike(call.args.iter(), schema),
                Expr::InList(list) => self.alike(std::iter::once(list.expr.as_ref()).chain(&list.list), schema),
                Expr::Between(between) => {
                    self.alike(
                        [&between.expr, &between.low, &between.high].into_iter().map(|part| part.as_ref()),
                        schema,
                    );
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }

    fn finish(self) -> Vec<Option<FieldRef>> {
        let Self { mut found, others } = self;
        for (index, field) in others {
            if let Some(slot @ None) = found.get_mut(index) {
                let field = field.as_ref().clone().with_name(format!("${}", index + 1)).with_nullable(true);
                *slot = Some(without_scale(&Arc::new(field)));
            }
        }
        found
    }
}

/// Whether values of type `before` are cast to `new` rather than the other way round.
fn is_preferred(new: &DataType, before: &DataType) -> bool {
    let rank = |ty: &DataType| match ty {
        DataType::Int16 => Some((0, 0)),
        DataType::Int32 => Some((0, 1)),
        DataType::Int64 => Some((0, 2)),
        DataType::Decimal128(..) => Some((0, 3)),
        DataType::Float32 => Some((0, 4)),
        DataType::Float64 => Some((0, 5)),
        DataType::Date32 => Some((1, 0)),
        DataType::Timestamp(_, None) => Some((1, 1)),
        DataType::Timestamp(_, Some(_)) => Some((1, 2)),
        _ => None,
    };
    match (rank(new), rank(before)) {
        (Some((kind, new)), Some((same, before))) => kind == same && new > before,
        _ => false,
    }
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
