//! The analyzer rule that takes subqueries out of a plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, ScalarFunction, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Sort, Subquery, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::function::{Kind, SubPlan};
use super::{body, joins, lateral, outer};
use crate::exec::bridge;
use crate::wire::SqlError;

/// Most subqueries within each other: each runs on the stack of the one around it.
const NESTING_MAX: usize = 32;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Extract;

impl AnalyzerRule for Extract {
    fn name(&self) -> &str {
        "apply"
    }
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = extract(plan, 0)?;
        outer::refuse_outer(&plan)?;
        Ok(plan)
    }
}

fn extract(plan: LogicalPlan, depth: usize) -> Result<LogicalPlan> {
    if depth > NESTING_MAX {
        return Err(bridge::failure(SqlError::new("54001", "stack depth limit exceeded")));
    }
    plan.transform_up(|node| of_node(node, depth)).data()
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|e| Ok(is_subquery(e))).unwrap_or(true)
}

fn of_node(node: LogicalPlan, depth: usize) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Join(join) => match lateral::join(join, depth)? {
            // Its condition may have subqueries.
            done if done.transformed => {
                return done.transform_data(|node| {
                    if matches!(node, LogicalPlan::Filter(_)) {
                        of_node(node, depth)
                    } else {
                        Ok(Transformed::yes(node))
                    }
                });
            }
            join => join.data,
        },
        node => node,
    };
    if !node.expressions().iter().any(has_subquery) {
        return Ok(Transformed::no(node));
    }
    if let LogicalPlan::Limit(_) = node {
        let text = "LIMIT and OFFSET with a subquery are not supported";
        return Err(bridge::failure(SqlError::unsupported(text)));
    }
    if let LogicalPlan::Filter(filter) = node {
        return Ok(Transformed::yes(of_filter(filter, depth)?));
    }
    if let LogicalPlan::Sort(sort) = node {
        return Ok(Transformed::yes(of_sort(sort, depth)?));
    }
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&node);
    let eager = matches!(node, LogicalPlan::Projection(_));
    let mut node = node.map_expressions(|expr| {
        if !has_subquery(&expr) {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(of_expression(expr, &schema, depth, eager)?)))
    })?;
    if let LogicalPlan::Values(values) = node.data {
        // Their rows are made while the plan is.
        node.data = outer::rows(values)?;
        return Ok(node);
    }
    node.map_data(LogicalPlan::recompute_schema)
}

/// Conditions that make joins do; the others are above.
fn of_filter(filter: Filter, depth: usize) -> Result<LogicalPlan> {
    let Filter { predicate, input, .. } = filter;
    let schema = Arc::clone(input.schema());
    let mut input = Arc::unwrap_or_clone(input);
    let mut rest = Vec::new();
    for part in split_conjunction_owned(predicate) {
        let part = inner_first(part, depth)?;
        match joins::semi_join(&input, &part)? {
            Some(join) => input = join,
            None if joins::is_join(&part, &schema) => rest.push(part),
            None => rest.push(of_expression(part, &schema, depth, true)?),
        }
    }
    match conjunction(rest) {
        Some(rest) => Ok(LogicalPlan::Filter(Filter::try_new(rest, Arc::new(input))?)),
        None => Ok(input),
    }
}

/// A condition whose own subquery has none within any more.
fn inner_first(part: Expr, depth: usize) -> Result<Expr> {
    let within = |mut sub: Subquery| {
        let plan = extract(Arc::unwrap_or_clone(sub.subquery), depth + 1)?;
        sub.subquery = Arc::new(plan);
        Ok::<_, DataFusionError>(sub)
    };
    Ok(match part {
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            Expr::InSubquery(InSubquery::new(expr, within(subquery)?, negated))
        }
        Expr::Exists(Exists { subquery, negated }) => Expr::Exists(Exists { subquery: within(subquery)?, negated }),
        other => other,
    })
}

/// A sort by a subquery may read columns that are not selected.
fn of_sort(sort: Sort, depth: usize) -> Result<LogicalPlan> {
    let Sort { mut expr, input, fetch } = sort;
    let of = |expr: &mut Vec<datafusion::logical_expr::SortExpr>, schema: &DFSchema| {
        for by in expr.iter_mut() {
            by.expr = of_expression(std::mem::take(&mut by.expr), schema, depth, false)?;
        }
        Ok::<_, DataFusionError>(())
    };
    let given = expr.clone();
    of(&mut expr, input.schema())?;
    let missing = expr.iter().any(|by| outer::is_outer(&by.expr));
    let LogicalPlan::Projection(projection) = input.as_ref() else {
        return Ok(LogicalPlan::Sort(Sort { expr, input, fetch }));
    };
    if !missing {
        return Ok(LogicalPlan::Sort(Sort { expr, input, fetch }));
    }
    // Below the select list; what it computes goes before columns of the same name.
    let mut both = input.schema().as_ref().clone();
    both.merge(projection.input.schema());
    expr = given;
    of(&mut expr, &both)?;
    let mut wanted = projection.expr.clone();
    for by in &expr {
        for column in by.expr.column_refs() {
            if !input.schema().has_column(column) {
                let column = Expr::Column(column.clone());
                if !wanted.contains(&column) {
                    wanted.push(column);
                }
            }
        }
    }
    let shown: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let wide = LogicalPlan::Projection(Projection::try_new(wanted, Arc::clone(&projection.input))?);
    let sorted = LogicalPlan::Sort(Sort { expr, input: Arc::new(wide), fetch });
    Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(sorted))?))
}

/// `eager`: the node is one whose values may be joined to its input.
fn of_expression(expr: Expr, schema: &DFSchema, depth: usize, eager: bool) -> Result<Expr> {
    let mut joined = Vec::new();
    if eager {
        joins::values(&expr, schema, &mut joined);
    }
    let joined: Vec<Arc<LogicalPlan>> = joined.into_iter().map(|sub| Arc::clone(&sub.subquery)).collect();
    expr.transform_up(|expr| {
        Ok(Transformed::yes(match expr {
            Expr::ScalarSubquery(sub) if joined.iter().any(|plan| Arc::ptr_eq(plan, &sub.subquery)) => {
                return Ok(Transformed::no(Expr::ScalarSubquery(sub)));
            }
            Expr::ScalarSubquery(sub) => call(Kind::Value, owned(sub), None, schema, depth)?,
            Expr::Exists(Exists { subquery, negated }) => {
                negated_if(negated, call(Kind::Exists, owned(subquery), None, schema, depth)?)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                negated_if(negated, call(Kind::Any(Operator::Eq), owned(subquery), Some(*expr), schema, depth)?)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let kind = match quantifier {
                    SetQuantifier::Any => Kind::Any(op),
                    SetQuantifier::All => Kind::All(op),
                };
                call(kind, owned(subquery), Some(*expr), schema, depth)?
            }
            // Its first argument was seen to.
            call if body::is_body(&call) => body::with_arguments(call)?,
            other => return Ok(Transformed::no(other)),
        }))
    })
    .data()
}

fn owned(subquery: Subquery) -> LogicalPlan {
    Arc::unwrap_or_clone(subquery.subquery)
}

fn negated_if(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::Not(Box::new(expr)) } else { expr }
}

pub(super) fn call(
    kind: Kind,
    plan: LogicalPlan,
    operand: Option<Expr>,
    schema: &DFSchema,
    depth: usize,
) -> Result<Expr> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    if !matches!(kind, Kind::Exists | Kind::Rows) && plan.schema().fields().len() != 1 {
        let text = match kind {
            Kind::Value => "subquery must return only one column",
            _ => "subquery has too many columns",
        };
        return Err(bridge::failure(SqlError::syntax(text)));
    }
    let plan = if kind == Kind::Exists { some_row(plan)? } else { plan };
    let returns: FieldRef = match kind {
        Kind::Value => Arc::new(plan.schema().field(0).as_ref().clone().with_nullable(true)),
        _ => Arc::new(Field::new("", DataType::Boolean, true)),
    };
    let shown = Arc::clone(plan.schema());
    let (plan, columns) = outer::to_placeholders(extract(plan, depth + 1)?, id)?;
    let mut args: Vec<Expr> = operand.into_iter().collect();
    let mut outers = Vec::with_capacity(columns.len());
    for (field, column) in columns {
        outers.push(Arc::clone(&field));
        args.push(outer::argument(field, column, schema));
    }
    let body = Default::default();
    let func = SubPlan { id, kind, plan, outers, returns, columns: shown, body, ready: None }.function();
    Ok(Expr::ScalarFunction(ScalarFunction { func, args }))
}

/// A plan that has a row if that one has: what it selects is not computed.
fn some_row(mut plan: LogicalPlan) -> Result<LogicalPlan> {
    loop {
        plan = match plan {
            LogicalPlan::Projection(projection) => Arc::unwrap_or_clone(projection.input),
            LogicalPlan::SubqueryAlias(alias) => Arc::unwrap_or_clone(alias.input),
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => Arc::unwrap_or_clone(input),
            LogicalPlan::Distinct(Distinct::All(input)) => Arc::unwrap_or_clone(input),
            other => {
                return LogicalPlanBuilder::from(other).limit(0, Some(1))?.project([lit(1).alias("some")])?.build();
            }
        };
    }
}
