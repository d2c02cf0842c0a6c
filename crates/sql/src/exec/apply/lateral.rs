//! FROM items that read columns of the items before them, as a node of the plan.
//!
//! [`Lateral`] has the rows of its input beside those that the item's plan gives for each. In a
//! LEFT JOIN the join's condition is part of the item's plan; in an inner one it is a filter above.
//! The call among its expressions is never evaluated: it carries the plan, and its arguments are
//! the outer values.
//!
//! Items without a table of their own need no plan for each row: functions that return sets become a
//! [`ProjectSet`] of the rows ([`of_sets`]), one row of values columns beside them ([`of_one_row`]).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema, JoinType, Result, ScalarValue, internal_err};
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, Extension, Filter, Join, LogicalPlan, Projection, Subquery, SubqueryAlias, UserDefinedLogicalNodeCore,
};

use super::function::{DEPTH, Kind, called};
use super::{extract, joins};
use crate::exec::dependencies;
use crate::exec::sets::ProjectSet;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lateral {
    pub(super) input: LogicalPlan,
    pub(super) call: Expr,
    /// Rows without any of the item's stay, with NULLs.
    pub(super) left: bool,
    pub(super) schema: DFSchemaRef,
}

/// Whether an extension of a plan is one.
pub(crate) fn is_lateral(extension: &Extension) -> bool {
    extension.node.as_any().is::<Lateral>()
}

impl Hash for Lateral {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.input, &self.call, self.left).hash(state);
    }
}

impl PartialOrd for Lateral {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for Lateral {
    fn name(&self) -> &str {
        "Lateral"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }
    fn expressions(&self) -> Vec<Expr> {
        vec![self.call.clone()]
    }
    /// What is said of a column of the input is said of each row that it gets.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let own = self.schema.fields().iter().skip(self.input.schema().fields().len());
        own.map(|field| field.name().clone()).collect()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let kind = if self.left { "Left" } else { "Inner" };
        write!(f, "{kind} Lateral: {}", self.call)
    }
    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(mut call), Some(input)) = (exprs.pop(), inputs.pop()) else {
            return internal_err!("a lateral item without its input");
        };
        if let Expr::Alias(alias) = call {
            call = *alias.expr;
        }
        // What is known of the input's columns may have changed, and columns that nobody reads are gone.
        let Some(sub) = called(&call) else { return internal_err!("a lateral item without its plan") };
        let schema = schema(&input, &sub.columns, self.left)?;
        Ok(Self { input, call, left: self.left, schema })
    }
}

fn schema(input: &LogicalPlan, columns: &DFSchema, left: bool) -> Result<DFSchemaRef> {
    let kind = if left { JoinType::Left } else { JoinType::Inner };
    dependencies::without(&Arc::new(build_join_schema(input.schema(), columns, &kind)?))
}

/// The plan of a lateral item, if the side of a join is one.
fn item(plan: &LogicalPlan) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Some(subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let inner = Arc::new(item(input)?);
            Some(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(inner, alias.clone()).ok()?))
        }
        _ => None,
    }
}

/// A join with such a node in its place, if its right side is a lateral item.
pub(super) fn join(join: Join, depth: usize) -> Result<Transformed<LogicalPlan>> {
    let Some(mut plan) = item(&join.right) else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let left = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        // It reads no column of the left side (42P10 before), but of what is around the join: it is run with that.
        _ => return Ok(Transformed::yes(LogicalPlan::Join(Join { right: Arc::new(plan), ..join }))),
    };
    // Within another subquery its columns would be taken for those of the query around that.
    if depth == 0 && joins::is_simple(&plan, join.left.schema()) && join.filter.iter().all(joins::is_plain) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let join = match of_sets(join, &plan, left)? {
        done if done.transformed => return Ok(done),
        Transformed { data: LogicalPlan::Join(join), .. } => join,
        _ => return internal_err!("a join that is none"),
    };
    let join = match of_one_row(join, &plan, left)? {
        done if done.transformed => return Ok(done),
        Transformed { data: LogicalPlan::Join(join), .. } => join,
        _ => return internal_err!("a join that is none"),
    };
    let pairs = join.on.into_iter().map(|(left, right)| left.eq(right));
    let condition = conjunction(pairs.chain(join.filter));
    let input = Arc::unwrap_or_clone(join.left);
    let mut above = None;
    match condition {
        Some(condition) if left => {
            let within = outer_of(condition, input.schema(), plan.schema())?;
            plan = LogicalPlan::Filter(Filter::try_new(within, Arc::new(plan))?);
        }
        condition => above = condition,
    }
    let call = extract::call(Kind::Rows, plan, None, input.schema(), depth)?;
    let Some(sub) = called(&call) else { return internal_err!("a call that is none") };
    let schema = schema(&input, &sub.columns, left)?;
    let node = LogicalPlan::Extension(Extension { node: Arc::new(Lateral { input, call, left, schema }) });
    Ok(Transformed::yes(match above {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(node))?),
        None => node,
    }))
}

/// A join with a function that returns a set: its values for each row, without a plan of their own.
fn of_sets(join: Join, item: &LogicalPlan, left: bool) -> Result<Transformed<LogicalPlan>> {
    let no = |join| Ok(Transformed::no(LogicalPlan::Join(join)));
    let mut aliases = None;
    let mut plan = item;
    while let LogicalPlan::SubqueryAlias(alias) = plan {
        // The outermost name is the one that is seen.
        aliases.get_or_insert_with(|| alias.alias.clone());
        plan = &alias.input;
    }
    let (Some(alias), LogicalPlan::Projection(projection)) = (aliases, plan) else { return no(join) };
    let Some(sets) = ProjectSet::of_one_row(&projection.input) else { return no(join) };
    let columns = |expr: &Expr| match expr {
        Expr::Alias(inner) => is_column(&inner.expr),
        expr => is_column(expr),
    };
    let is_true = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    // What is computed of nothing would be there for the rows that LEFT JOIN keeps.
    let fits = match left {
        true => join.on.is_empty() && join.filter.iter().all(is_true) && projection.expr.iter().all(columns),
        false => true,
    };
    let plain = |expr: &Expr| !joins::has_subquery(expr);
    if !fits || !sets.sets().iter().chain(&projection.expr).all(plain) {
        return no(join);
    }
    let schema = Arc::clone(join.left.schema());
    let of_row = |expr: Expr| {
        expr.transform_up(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) if schema.has_column(&column) => {
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    };
    let rows = sets.over(Arc::unwrap_or_clone(join.left), left, of_row)?;
    let mut shown: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    for (expr, field) in projection.expr.iter().zip(item.schema().fields()) {
        shown.push(of_row(expr.clone().unalias())?.alias_qualified(Some(alias.clone()), field.name()));
    }
    let node = LogicalPlan::Projection(Projection::try_new(shown, Arc::new(rows))?);
    let pairs = join.on.into_iter().map(|(left, right)| left.eq(right));
    let condition = if left { None } else { conjunction(pairs.chain(join.filter)) };
    Ok(Transformed::yes(match condition {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(node))?),
        None => node,
    }))
}

/// A join with one row of values, as `LATERAL (VALUES (a.x + 1)) v` is: columns beside those of the other side.
fn of_one_row(join: Join, item: &LogicalPlan, left: bool) -> Result<Transformed<LogicalPlan>> {
    let no = |join| Ok(Transformed::no(LogicalPlan::Join(join)));
    let mut alias = None;
    // From the outermost projection inwards: all but the innermost only choose columns, so nothing is computed twice.
    let mut layers: Vec<&Projection> = Vec::new();
    let mut plan = item;
    let row = loop {
        plan = match plan {
            LogicalPlan::SubqueryAlias(named) => {
                if layers.is_empty() {
                    alias.get_or_insert_with(|| named.alias.clone());
                }
                &named.input
            }
            LogicalPlan::Projection(layer) => {
                layers.push(layer);
                &layer.input
            }
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => break layers.pop(),
            _ => return no(join),
        };
    };
    let (Some(alias), Some(row)) = (alias, row) else { return no(join) };
    let is_true = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    // A row that LEFT JOIN keeps without a partner would have what is computed of it.
    let fits = !left || join.on.is_empty() && join.filter.iter().all(is_true);
    let schema = Arc::clone(join.left.schema());
    if !fits || !row.expr.iter().all(|expr| is_of_row(expr, &schema)) {
        return no(join);
    }
    let of_row = |expr: Expr| {
        expr.transform_up(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) if schema.has_column(&column) => {
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    };
    let mut values = row.expr.iter().map(|expr| of_row(expr.clone().unalias())).collect::<Result<Vec<_>>>()?;
    for layer in layers.into_iter().rev() {
        let mut chosen = Vec::with_capacity(layer.expr.len());
        for expr in &layer.expr {
            let Expr::Column(column) = expr.clone().unalias() else { return no(join) };
            let Some(value) = layer.input.schema().maybe_index_of_column(&column).and_then(|at| values.get(at)) else {
                return no(join);
            };
            chosen.push(value.clone());
        }
        values = chosen;
    }
    let mut shown: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    for (value, field) in values.into_iter().zip(item.schema().fields()) {
        shown.push(value.alias_qualified(Some(alias.clone()), field.name()));
    }
    let node = LogicalPlan::Projection(Projection::try_new(shown, join.left)?);
    let pairs = join.on.into_iter().map(|(left, right)| left.eq(right));
    let condition = if left { None } else { conjunction(pairs.chain(join.filter)) };
    Ok(Transformed::yes(match condition {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(node))?),
        None => node,
    }))
}

/// Whether a value is one of a row of `schema`, whenever it is computed.
fn is_of_row(expr: &Expr, schema: &DFSchema) -> bool {
    let mut near = !joins::has_subquery(expr) && !expr.is_volatile();
    let walked = expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(field, column) = expr
            && schema.has_column(column)
        {
            near &= field.metadata().get(DEPTH).is_none_or(|depth| depth == "1");
        }
        Ok(if near { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    near && walked.is_ok()
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

/// A condition of the join as one of the item's rows.
fn outer_of(condition: Expr, input: &DFSchema, item: &DFSchema) -> Result<Expr> {
    condition
        .transform_up(|expr| match expr {
            Expr::Column(column) if !item.has_column(&column) && input.has_column(&column) => {
                let field = Arc::clone(input.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, Column { spans: Default::default(), ..column })))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
}
