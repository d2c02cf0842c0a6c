//! A subquery as a function of outer values.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::run::Ready;

/// Metadata of an outer column's field: how many queries further out it is.
pub(crate) const DEPTH: &str = "resurgam.depth";
/// Name of the functions.
const NAME: &str = "$subplan";

/// What the value of a subquery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The column of its only row, or NULL.
    Value,
    /// Whether it has rows.
    Exists,
    /// Whether the first argument compares so with the column of any row; with [`Operator::Eq`], IN.
    Any(Operator),
    /// The same of all rows.
    All(Operator),
    /// Its rows, of a LATERAL item. Such a call is not evaluated.
    Rows,
}

impl Kind {
    /// Whether the first argument is an operand, not an outer value.
    pub(super) fn has_operand(self) -> bool {
        matches!(self, Self::Any(_) | Self::All(_))
    }
}

/// A subquery that was taken out of a plan.
#[derive(Debug)]
pub(crate) struct SubPlan {
    /// Of all of this process.
    pub(super) id: usize,
    pub(super) kind: Kind,
    /// Its outer columns are placeholders; see [`super::outer`].
    pub(super) plan: LogicalPlan,
    /// Of the outer columns.
    pub(super) outers: Vec<FieldRef>,
    pub(super) returns: FieldRef,
    /// Its columns, under the names that they have for the query around it.
    pub(super) columns: DFSchemaRef,
    /// It is the body of a function of users.
    pub(super) body: Body,
    /// That of an executable plan.
    pub(super) ready: Option<Arc<Ready>>,
}

/// What is to be seen to when a function's body is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// NULL without a run, if an argument is NULL.
    pub strict: bool,
    /// It may have another value for each row, whatever its arguments are.
    pub each_row: bool,
}

impl SubPlan {
    pub(super) fn with_plan(&self, plan: LogicalPlan) -> Self {
        let (outers, returns, columns) = (self.outers.clone(), Arc::clone(&self.returns), Arc::clone(&self.columns));
        let (body, ready) = (self.body, self.ready.clone());
        Self { id: self.id, kind: self.kind, plan, outers, returns, columns, body, ready }
    }

    /// Whether it has one value for the whole statement.
    pub(super) fn is_constant(&self) -> bool {
        self.outers.is_empty() && !self.body.each_row && matches!(self.kind, Kind::Value | Kind::Exists)
    }

    pub(super) fn function(self) -> Arc<ScalarUDF> {
        // Volatile: nobody may evaluate it while planning, nor more than once for a row.
        let signature = Signature::variadic_any(Volatility::Volatile);
        let signature = match self.outers.is_empty() && !self.kind.has_operand() {
            true => Signature::nullary(Volatility::Volatile),
            false => signature,
        };
        Arc::new(ScalarUDF::new_from_impl(SubPlanFunction { of: Arc::new(self), signature }))
    }
}

/// Its function.
#[derive(Debug)]
pub(super) struct SubPlanFunction {
    pub(super) of: Arc<SubPlan>,
    signature: Signature,
}

impl PartialEq for SubPlanFunction {
    fn eq(&self, other: &Self) -> bool {
        self.of.id == other.of.id
    }
}
impl Eq for SubPlanFunction {}
impl Hash for SubPlanFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.id.hash(state);
    }
}

impl ScalarUDFImpl for SubPlanFunction {
    fn name(&self) -> &str {
        NAME
    }
    fn display_name(&self, _: &[Expr]) -> Result<String> {
        Ok(format!("(SubPlan {})", self.of.id))
    }
    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(format!("(SubPlan {})", self.of.id))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.of.returns.data_type().clone())
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.of.returns))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &self.of.ready {
            Some(ready) => ready.evaluate(&args.args, args.number_rows),
            None => internal_err!("a subquery without a physical plan"),
        }
    }
}

/// The id of the subquery whose function this is.
pub(crate) fn subplan_id(function: &ScalarUDF) -> Option<usize> {
    function.inner().downcast_ref::<SubPlanFunction>().map(|function| function.of.id)
}

/// The subquery that `expr` is a call of.
pub(super) fn called(expr: &Expr) -> Option<&Arc<SubPlan>> {
    let Expr::ScalarFunction(ScalarFunction { func, .. }) = expr else { return None };
    if func.name() != NAME {
        return None;
    }
    func.inner().downcast_ref::<SubPlanFunction>().map(|function| &function.of)
}

/// Whether `expr` is a call of a subquery that has one value for the whole statement.
pub(crate) fn is_constant_call(expr: &Expr) -> bool {
    called(expr).is_some_and(|sub| sub.is_constant())
}

/// The plan of the subquery that `expr` is a call of, and whether only that it has rows counts.
pub(crate) fn plan_of_call(expr: &Expr) -> Option<(&LogicalPlan, bool)> {
    called(expr).map(|sub| (&sub.plan, sub.kind == Kind::Exists))
}

/// Whether `expr` is a call of a subquery.
pub(crate) fn is_call(expr: &Expr) -> bool {
    called(expr).is_some()
}

/// Whether there is such a call in it.
pub(super) fn has_call(expr: &Expr) -> bool {
    expr.exists(|e| Ok(is_call(e))).unwrap_or(true)
}

/// Visits the nodes of a plan, of its subqueries, and of those that were taken out of it.
pub(crate) fn walk(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_with_subqueries(|node| {
        let next = visit(node)?;
        if next == TreeNodeRecursion::Continue {
            node.apply_expressions(|expr| {
                expr.apply(|expr| match called(expr) {
                    Some(sub) => walk(&sub.plan, visit),
                    None => Ok(TreeNodeRecursion::Continue),
                })
            })?;
        }
        Ok(next)
    })
}

/// `plan` with other functions for its calls (not for those within).
pub(super) fn map_calls(
    plan: LogicalPlan,
    replace: &mut dyn FnMut(&Arc<SubPlan>) -> Result<Arc<ScalarUDF>>,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            if !has_call(&expr) {
                return Ok(Transformed::no(expr));
            }
            expr.transform_up(|expr| match called(&expr) {
                Some(sub) => {
                    let func = replace(sub)?;
                    let Expr::ScalarFunction(ScalarFunction { args, .. }) = expr else {
                        return internal_err!("a call that is none");
                    };
                    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
                }
                None => Ok(Transformed::no(expr)),
            })
        })
    })
    .data()
}

/// Whether there is any call in the plan.
pub(super) fn has_calls(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closures return no error.
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= has_call(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
