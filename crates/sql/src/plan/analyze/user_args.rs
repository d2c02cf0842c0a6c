//! Arguments of calls of functions that users made, as their bodies see them: constants and the statement's parameters as they
//! are, everything else as a column of an outer query that has a qualifier of its own.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as PlanColumn, ScalarValue, TableReference};
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_dialect::CastContext;

use super::bound::{Bound, Relation, Type};
use super::expr::Clause;
use super::from::lateral;
use super::scope::Scope;
use super::{Analyzer, Result};
use crate::pg::definition::parse_expression;
use crate::pg::user_functions::UserFunction;
use crate::wire::SqlError;

/// Whether an argument may stand in a body as it is: it is one value for the whole run.
pub(super) fn is_given(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_given(&cast.expr),
        _ => false,
    }
}

/// Whether it costs nothing to read it again.
pub(super) fn is_cheap(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) | Expr::Column(_) | Expr::OuterReferenceColumn(..) => true,
        Expr::Cast(cast) => is_cheap(&cast.expr),
        _ => false,
    }
}

pub(super) fn has_volatile_call(expr: &Expr) -> bool {
    expr.is_volatile() || expr.exists(|e| Ok(matches!(e, Expr::ScalarSubquery(_)))).unwrap_or(true)
}

/// Arguments as a body sees them.
pub(super) struct Passed {
    /// Qualifier of the columns that stand for arguments.
    pub(super) qualifier: TableReference,
    /// What each parameter means.
    pub(super) params: Vec<Bound>,
    /// The arguments that have columns, by parameter.
    pub(super) args: Vec<(usize, Bound)>,
}

impl Passed {
    pub(super) fn column(&self, param: usize) -> PlanColumn {
        PlanColumn::new(Some(self.qualifier.clone()), format!("p{param}"))
    }

    /// The parameter that an expression is the column of.
    pub(super) fn param_of(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::OuterReferenceColumn(_, column) if column.relation.as_ref() == Some(&self.qualifier) => {
                column.name.strip_prefix('p')?.parse().ok()
            }
            _ => None,
        }
    }
}

impl Analyzer<'_> {
    /// The arguments of a call with defaults in the places of those that are not written.
    pub(super) fn with_defaults(
        &mut self,
        function: &UserFunction,
        typed: Vec<Bound>,
        positions: Option<&[usize]>,
    ) -> Result<Vec<Bound>> {
        let inputs: Vec<_> = function.definition.inputs().collect();
        let mut placed: Vec<Option<Bound>> = vec![None; inputs.len()];
        for (at, bound) in typed.into_iter().enumerate() {
            let at = positions.and_then(|positions| positions.get(at)).copied().unwrap_or(at);
            if let Some(place) = placed.get_mut(at) {
                *place = Some(bound);
            }
        }
        let mut all = Vec::with_capacity(inputs.len());
        for (param, given) in inputs.into_iter().zip(placed) {
            all.push(match (given, &param.default_sql) {
                (Some(bound), _) => bound,
                (None, Some(sql)) => {
                    let expr = parse_expression(sql)?;
                    let text = std::mem::take(&mut self.text);
                    let bound = self.as_stored(|this| this.expr(&expr, &Scope::empty(), Clause::Values));
                    self.text = text;
                    self.cast_as(bound?, Type::of(param.ty), CastContext::Assignment)?
                }
                (None, None) => return Err(SqlError::internal("a call without an argument").into()),
            });
        }
        Ok(all)
    }

    pub(super) fn passed(
        &mut self,
        function: &UserFunction,
        args: Vec<Bound>,
        as_columns: &dyn Fn(&Expr) -> bool,
    ) -> Passed {
        let qualifier = TableReference::bare(self.qualifier(&format!("{}{}", crate::naming::MARK, function.name())));
        let mut passed = Passed { qualifier, params: Vec::with_capacity(args.len()), args: Vec::new() };
        for (at, (arg, param)) in args.into_iter().zip(function.definition.inputs()).enumerate() {
            let ty = Type::of(param.ty);
            if !as_columns(&arg.expr) {
                passed.params.push(Bound { ty, span: Span::empty(), ..arg });
                continue;
            }
            let column = passed.column(at);
            let field: FieldRef = Arc::new(ty.field(&column.name, &arg.data));
            let expr = Expr::OuterReferenceColumn(field, column);
            passed.params.push(Bound { span: Span::empty(), ..Bound::with_data(expr, ty, arg.data.clone()) });
            passed.args.push((at, arg));
        }
        passed
    }

    pub(super) fn call_args(&self, passed: &Passed) -> Vec<(PlanColumn, Expr)> {
        passed.args.iter().map(|(param, arg)| (passed.column(*param), arg.expr.clone())).collect()
    }
}

/// How often each parameter's column is read.
pub(super) fn uses(expr: &Expr, passed: &Passed) -> Result<HashMap<usize, usize>> {
    let mut uses = HashMap::new();
    expr.apply(|expr| {
        if let Some(param) = passed.param_of(expr) {
            *uses.entry(param).or_insert(0) += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(uses)
}

pub(super) fn nodes(expr: &Expr) -> usize {
    let mut nodes = 0;
    // The closure returns no error.
    let _ = expr.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    nodes
}

/// Whether one of the arguments that stand in a body as they are is NULL; `None` if none of them can be.
pub(super) fn given_nulls(passed: &Passed) -> Option<Expr> {
    let can_be = |param: &&Bound| !matches!(param.expr, Expr::Literal(..) | Expr::OuterReferenceColumn(..));
    passed.params.iter().filter(can_be).map(|param| Expr::IsNull(Box::new(param.expr.clone()))).reduce(Expr::or)
}

/// A value that is NULL where that holds.
pub(super) fn if_no_nulls(nulls: Option<Expr>, value: Expr, data: &DataType) -> Result<Expr> {
    let Some(nulls) = nulls else { return Ok(value) };
    let null = Expr::Literal(ScalarValue::try_from(data)?, None);
    Ok(Expr::Case(Case::new(None, vec![(Box::new(nulls), Box::new(null))], Some(Box::new(value)))))
}

/// The rows of a body for one row of arguments.
pub(super) fn beside_args(relation: Relation, passed: &Passed, strict: bool) -> Result<Relation> {
    let exprs: Vec<Expr> =
        passed.args.iter().map(|(param, arg)| arg.expr.clone().alias(passed.column(*param).name)).collect();
    let mut row = LogicalPlanBuilder::empty(true).project(exprs)?.alias(passed.qualifier.clone())?;
    if strict {
        for (param, _) in &passed.args {
            row = row.filter(Expr::IsNotNull(Box::new(Expr::Column(passed.column(*param)))))?;
        }
    }
    let names: Vec<(String, Type)> = relation.columns.iter().map(|c| (c.name.clone(), c.bound.ty)).collect();
    let reads = relation.plan.all_out_ref_exprs().iter().any(|expr| passed.param_of(expr).is_some());
    let shown: Vec<Expr> = relation.columns.iter().map(|column| column.bound.expr.clone()).collect();
    let right = if reads { lateral(relation.plan) } else { relation.plan };
    let plan: LogicalPlan = row.cross_join(right)?.project(shown)?.build()?;
    Ok(Relation::of_plan(plan, names))
}
