//! Outer columns of a subquery: as DataFusion has them, as placeholders, and as values.
//!
//! While a plan is optimised they are placeholders, about which nothing is known but their type.
//! In an executable plan they are calls of a function that reads an [`OuterCell`], which is empty
//! while the plan is made: a value that is wanted then is an error, never a guess.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, exec_datafusion_err, internal_err};
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::{
    ColumnarValue, EmptyRelation, Expr, ExprSchemable, LogicalPlan, Projection, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Union, Volatility,
};
use parking_lot::RwLock;

use super::function::DEPTH;
use crate::exec::bridge;
use crate::wire::SqlError;

/// The outer values of the present run of a subquery.
#[derive(Debug, Default)]
pub(super) struct OuterCell(RwLock<Vec<ScalarValue>>);

impl OuterCell {
    pub(super) fn set(&self, values: Vec<ScalarValue>) {
        *self.0.write() = values;
    }
}

/// Reads one of them. It has the name of the function that reads parameters: what is true of a
/// parameter (one value for the whole run, none before) is true of it.
#[derive(Debug)]
struct OuterValue {
    index: usize,
    field: FieldRef,
    cell: Arc<OuterCell>,
    signature: Signature,
}

impl PartialEq for OuterValue {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && Arc::ptr_eq(&self.cell, &other.cell)
    }
}
impl Eq for OuterValue {}
impl Hash for OuterValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl ScalarUDFImpl for OuterValue {
    fn name(&self) -> &str {
        "$"
    }
    fn display_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.field.name().clone())
    }
    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.field.name().clone())
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
        let cell = self.cell.0.read();
        match cell.get(self.index) {
            Some(value) => Ok(ColumnarValue::Scalar(value.clone())),
            None => Err(exec_datafusion_err!("no value yet for {}", self.field.name())),
        }
    }
}

/// The name of the outer column that a function reads.
pub(crate) fn outer_name(function: &ScalarUDF) -> Option<&str> {
    function.inner().downcast_ref::<OuterValue>().map(|value| value.field.name().as_str())
}

fn placeholder(id: usize, index: usize, field: FieldRef) -> Expr {
    Expr::Placeholder(Placeholder::new_with_field(format!("$outer{id}.{index}"), Some(field)))
}

/// Which outer column of subquery `id` a placeholder is.
fn index(placeholder: &Placeholder, id: usize) -> Option<usize> {
    let (of, index) = placeholder.id.strip_prefix("$outer")?.split_once('.')?;
    if of.parse::<usize>().ok()? == id { index.parse().ok() } else { None }
}

/// Whether an outer column occurs in `expr`.
pub(super) fn is_outer(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::OuterReferenceColumn(..)))).unwrap_or(true)
}

/// The plan of subquery `id` with placeholders for its outer columns, and those columns.
pub(super) fn to_placeholders(plan: LogicalPlan, id: usize) -> Result<(LogicalPlan, Vec<(FieldRef, Column)>)> {
    let mut found: Vec<(FieldRef, Column)> = Vec::new();
    let plan = map(plan, &mut |expr| match expr {
        Expr::OuterReferenceColumn(field, column) => {
            let depth = |field: &FieldRef| field.metadata().get(DEPTH).cloned();
            let known = found.iter().position(|(f, c)| c == column && depth(f) == depth(field));
            let at = known.unwrap_or_else(|| {
                found.push((Arc::clone(field), column.clone()));
                found.len() - 1
            });
            Ok(Some(placeholder(id, at, plain(field, column))))
        }
        _ => Ok(None),
    })?;
    Ok((plan, found))
}

/// The plan with readers of `cell` in the place of those placeholders.
pub(super) fn to_readers(plan: LogicalPlan, id: usize, cell: &Arc<OuterCell>) -> Result<LogicalPlan> {
    map(plan, &mut |expr| {
        let Expr::Placeholder(found) = expr else { return Ok(None) };
        let Some(index) = index(found, id) else { return Ok(None) };
        let Some(field) = &found.field else { return internal_err!("an outer column without a type") };
        let function = OuterValue {
            index,
            field: Arc::clone(field),
            cell: Arc::clone(cell),
            signature: Signature::nullary(Volatility::Volatile),
        };
        let func = Arc::new(ScalarUDF::new_from_impl(function));
        Ok(Some(Expr::ScalarFunction(ScalarFunction { func, args: vec![] })))
    })
}

/// The field of an outer column within the subquery: NULL if nothing else is known.
fn plain(field: &FieldRef, column: &Column) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.remove(DEPTH);
    let field = Field::new(column.flat_name(), field.data_type().clone(), true);
    Arc::new(field.with_metadata(metadata))
}

/// An outer column of a subquery as the subquery's expression sees it, over `schema`: a column, or
/// again an outer one.
pub(super) fn argument(field: FieldRef, column: Column, schema: &DFSchema) -> Expr {
    match field.metadata().get(DEPTH).and_then(|depth| depth.parse::<usize>().ok()) {
        Some(depth) if depth > 1 => {
            let mut metadata = field.metadata().clone();
            metadata.insert(DEPTH.to_owned(), (depth - 1).to_string());
            Expr::OuterReferenceColumn(Arc::new(field.as_ref().clone().with_metadata(metadata)), column)
        }
        Some(_) => Expr::Column(column),
        None if schema.has_column(&column) => Expr::Column(column),
        None => Expr::OuterReferenceColumn(field, column),
    }
}

fn map(plan: LogicalPlan, replace: &mut dyn FnMut(&Expr) -> Result<Option<Expr>>) -> Result<LogicalPlan> {
    let plan = plan.transform_up(|node| match node {
        LogicalPlan::Values(values) if values.values.iter().flatten().any(is_outer) => {
            Ok(Transformed::yes(rows(values)?))
        }
        // A FROM item that reads outer columns; what it stands beside was seen to by now.
        LogicalPlan::Subquery(item) => Ok(Transformed::yes(Arc::unwrap_or_clone(item.subquery))),
        other => Ok(Transformed::no(other)),
    })?;
    plan.data
        .transform_up(|node| {
            let node = match node {
                LogicalPlan::Limit(limit) if limit.skip.iter().chain(&limit.fetch).any(|expr| is_outer(expr)) => {
                    return Err(unsupported("LIMIT and OFFSET that depend on an outer query are not supported"));
                }
                other => other,
            };
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let new = expr.transform_up(|expr| {
                    Ok(match replace(&expr)? {
                        Some(new) => Transformed::yes(new),
                        None => Transformed::no(expr),
                    })
                })?;
                Ok(if new.transformed { Transformed::yes(name.restore(new.data)) } else { new })
            })
        })
        .data()
}

/// Rows of VALUES that read outer columns or have subqueries: DataFusion would evaluate them while it plans.
pub(super) fn rows(values: Values) -> Result<LogicalPlan> {
    let mut inputs = Vec::with_capacity(values.values.len());
    for row in values.values {
        let one =
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) });
        let exprs = row
            .into_iter()
            .zip(values.schema.fields())
            .map(|(expr, field)| Ok(expr.cast_to(field.data_type(), &DFSchema::empty())?.alias(field.name())));
        inputs.push(Arc::new(LogicalPlan::Projection(Projection::try_new(
            exprs.collect::<Result<Vec<_>>>()?,
            Arc::new(one),
        )?)));
    }
    match inputs.pop() {
        Some(one) if inputs.is_empty() => Ok(Arc::unwrap_or_clone(one)),
        Some(last) => {
            inputs.push(last);
            Ok(LogicalPlan::Union(Union { inputs, schema: values.schema }))
        }
        None => internal_err!("VALUES without rows"),
    }
}

/// An error if outer columns are left that no query around has.
pub(super) fn refuse_outer(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        // DataFusion makes a join of such a FROM item.
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| match expr {
                Expr::OuterReferenceColumn(_, column) => {
                    let text = format!("subquery uses ungrouped column \"{}\" from outer query", shown(column));
                    Err(bridge::failure(SqlError::new("42803", text)))
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(())
}

fn shown(column: &Column) -> String {
    match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), column.name),
        None => column.name.clone(),
    }
}

fn unsupported(text: &str) -> datafusion::common::DataFusionError {
    bridge::failure(SqlError::unsupported(text))
}
