//! Subqueries that become joins.
//!
//! A join reads the inner rows once for all outer rows. Only these shapes become one; each has the
//! answers of PostgreSQL whatever is NULL and whichever group is empty:
//!
//! | shape | where | join | made by |
//! |---|---|---|---|
//! | `x IN (SELECT …)` without outer columns | a condition of WHERE, HAVING by itself | semi join | [`semi_join`] |
//! | `[NOT] EXISTS (SELECT … WHERE inner = outer AND …)` | the same | semi join, anti join | DataFusion |
//! | `x IN (SELECT … WHERE inner = outer AND …)` | the same | semi join | DataFusion |
//! | `(SELECT count/sum/avg/min/max(column) … WHERE inner = outer AND …)` | a value that every row computes, of tables without a key that begins with the inner column | left join to groups | DataFusion |
//!
//! The inner plan of the last three has only selections, projections and inner joins of tables, and
//! outer columns of the next query in conditions alone. Not among them, although DataFusion would
//! take them: NOT IN (its NULLs), any of them within a larger condition (its mark join has no
//! NULL), aggregates with HAVING or in expressions, LIMIT, DISTINCT and set operations inside, and
//! what calls volatile functions.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery};

use super::function::{DEPTH, has_call};
use super::outer::is_outer;
use crate::exec::access_path::trees;
use crate::exec::table::engine_table;

/// Whether DataFusion makes the right join of a condition.
pub(super) fn is_join(condition: &Expr, schema: &DFSchema) -> bool {
    match condition {
        Expr::Exists(Exists { subquery, .. }) => is_simple(&subquery.subquery, schema),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::Exists(Exists { subquery, .. }) => is_simple(&subquery.subquery, schema),
            _ => false,
        },
        Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => {
            !subquery.subquery.schema().field(0).data_type().is_nested()
                && is_plain(expr)
                && matches!(subquery.subquery.as_ref(), LogicalPlan::Projection(_))
                && is_simple(&subquery.subquery, schema)
        }
        _ => false,
    }
}

/// `input` without the rows that are not in a subquery that reads no outer column; nothing, if the
/// condition is another.
pub(super) fn semi_join(input: &LogicalPlan, condition: &Expr) -> Result<Option<LogicalPlan>> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let Expr::InSubquery(InSubquery { expr, subquery, negated: false }) = condition else { return Ok(None) };
    // Rows of several columns compare by each of them.
    if subquery.subquery.schema().field(0).data_type().is_nested() {
        return Ok(None);
    }
    if !is_plain(expr) || has_outer(&subquery.subquery) || is_volatile(&subquery.subquery) {
        return Ok(None);
    }
    let name = format!("$in{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .project([column.alias("value")])?
        .alias(name.as_str())?
        .build()?;
    let equal = expr.as_ref().clone().eq(Expr::Column(Column::new(Some(name), "value")));
    let join = LogicalPlanBuilder::from(input.clone()).join_on(rows, JoinType::LeftSemi, [equal])?;
    Ok(Some(join.build()?))
}

/// An expression over the row alone.
pub(super) fn is_plain(expr: &Expr) -> bool {
    !expr.is_volatile() && !has_call(expr) && !is_outer(expr) && !expr.exists(|e| Ok(is_sub(e))).unwrap_or(true)
}

/// Whether there is a subquery in it, or one that was taken out.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    has_call(expr) || expr.exists(|e| Ok(is_sub(e))).unwrap_or(true)
}

fn is_sub(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

fn any(plan: &LogicalPlan, test: &dyn Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    // The closures return no error.
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|e| Ok(test(e))).unwrap_or(true);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}

fn has_outer(plan: &LogicalPlan) -> bool {
    any(plan, &|expr| matches!(expr, Expr::OuterReferenceColumn(..)))
}

fn is_volatile(plan: &LogicalPlan) -> bool {
    any(plan, &|expr| expr.is_volatile_node())
}

/// See the module's head; `schema` is that of the query around it. At least one condition has to
/// be an equality of an inner and an outer value.
pub(super) fn is_simple(plan: &LogicalPlan, schema: &DFSchema) -> bool {
    let mut equal = Vec::new();
    simple(plan, schema, &mut equal) && !equal.is_empty()
}

/// Collects the inner sides of equalities.
fn simple<'p>(plan: &'p LogicalPlan, schema: &DFSchema, equal: &mut Vec<&'p Expr>) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(is_plain) && simple(&projection.input, schema, equal)
        }
        // What is compared within a relation that has a name of its own is no column of it.
        LogicalPlan::SubqueryAlias(alias) => !has_outer(&alias.input) && simple(&alias.input, schema, equal),
        LogicalPlan::Filter(filter) => {
            split_conjunction(&filter.predicate).into_iter().all(|part| condition(part, schema, equal))
                && simple(&filter.input, schema, equal)
        }
        LogicalPlan::Join(join) => {
            join.join_type == JoinType::Inner
                && join.on.iter().all(|(left, right)| is_plain(left) && is_plain(right))
                && join.filter.iter().all(is_plain)
                && simple(&join.left, schema, equal)
                && simple(&join.right, schema, equal)
        }
        LogicalPlan::TableScan(scan) => scan.filters.iter().all(is_plain) && scan.fetch.is_none(),
        _ => false,
    }
}

fn condition<'p>(part: &'p Expr, schema: &DFSchema, equal: &mut Vec<&'p Expr>) -> bool {
    if is_plain(part) {
        return true;
    }
    // Of outer columns, those of the next query.
    let mut near = true;
    let known = part.apply(|expr| {
        if let Expr::OuterReferenceColumn(field, column) = expr {
            near &= schema.has_column(column) && field.metadata().get(DEPTH).is_none_or(|depth| depth == "1");
        }
        near &= !is_sub(expr) && !super::is_call(expr) && !expr.is_volatile_node();
        Ok(TreeNodeRecursion::Continue)
    });
    if known.is_err() || !near {
        return false;
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = part {
        for (inner, outer) in [(left, right), (right, left)] {
            if is_plain(inner) && inner.any_column_refs() && is_outer(outer) && !outer.any_column_refs() {
                equal.push(inner.as_ref());
            }
        }
    }
    true
}

/// The subqueries of `expr` that DataFusion makes the right join of, as values.
pub(super) fn values<'e>(expr: &'e Expr, schema: &DFSchema, found: &mut Vec<&'e Subquery>) {
    match expr {
        Expr::ScalarSubquery(sub) if is_aggregate(&sub.subquery, schema) => found.push(sub),
        Expr::Alias(alias) => values(&alias.expr, schema, found),
        Expr::Cast(cast) => values(&cast.expr, schema, found),
        Expr::Not(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) | Expr::Negative(inner) => {
            values(inner, schema, found)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if !matches!(op, Operator::And | Operator::Or) => {
            values(left, schema, found);
            values(right, schema, found);
        }
        _ => {}
    }
}

fn is_aggregate(plan: &LogicalPlan, schema: &DFSchema) -> bool {
    let LogicalPlan::Projection(projection) = plan else { return false };
    let [shown] = projection.expr.as_slice() else { return false };
    let shown = if let Expr::Alias(alias) = shown { alias.expr.as_ref() } else { shown };
    let (Expr::Column(_), LogicalPlan::Aggregate(aggregate)) = (shown, projection.input.as_ref()) else { return false };
    let [Expr::AggregateFunction(AggregateFunction { func, params })] = aggregate.aggr_expr.as_slice() else {
        return false;
    };
    let column = |expr: &Expr| matches!(expr, Expr::Column(_) | Expr::Literal(..));
    let mut equal = Vec::new();
    aggregate.group_expr.is_empty()
        && matches!(func.name(), "count" | "sum" | "avg" | "min" | "max")
        && params.filter.is_none()
        && params.order_by.is_empty()
        && params.args.iter().all(column)
        && simple(&aggregate.input, schema, &mut equal)
        && equalities_alone(&aggregate.input)
        && !equal.is_empty()
        && !has_key(&aggregate.input, &equal)
}

/// Whether all conditions with outer columns are equalities of a column with one.
fn equalities_alone(plan: &LogicalPlan) -> bool {
    let mut alone = true;
    // The closure returns no error.
    let _ = plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            alone &= split_conjunction(&filter.predicate).into_iter().all(|part| match part {
                part if !is_outer(part) => true,
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => matches!(
                    (left.as_ref(), right.as_ref()),
                    (Expr::Column(_), Expr::OuterReferenceColumn(..))
                        | (Expr::OuterReferenceColumn(..), Expr::Column(_))
                ),
                _ => false,
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    alone
}

/// Whether a table has a tree whose first column is one of these.
fn has_key(plan: &LogicalPlan, columns: &[&Expr]) -> bool {
    let mut found = false;
    // The closure returns no error.
    let _ = plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some((table, _)) = engine_table(&scan.source)
        {
            found |= trees(&table).any(|(_, key, _)| {
                key.first().and_then(|first| table.columns.get(*first)).is_some_and(|first| {
                    columns.iter().any(|expr| matches!(expr, Expr::Column(column) if column.name == first.name))
                })
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
