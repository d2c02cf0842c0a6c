//! A join within FROM that reads columns of the items before it: `a, b JOIN LATERAL (VALUES (a.x)) v ON b.y = v.x`.
//!
//! What the whole of it would be for each row of `a`, a product with `a` is as well: `(a, b) JOIN v ON …`. What reads
//! none of the join's own items goes first, `(a, v), b WHERE …`, so that the other items are joined to it by the
//! condition.
//!
//! Holds for any row of the items before: INNER and LEFT joins of a product with a row are products of their rows with it,
//! and an inner join is a condition of a product, at its own place behind the joins before it.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};

use super::Result;
use super::from::{builder, is_lateral, lateral, refers_to};
use super::scope::Item;

/// A join of the left spine of a plan, without its left side.
struct Joined {
    right: LogicalPlan,
    kind: JoinType,
    condition: Option<Expr>,
}

/// The rows of `before`, whose columns `items` are, with those of the joins in `next` for each.
pub(super) fn spliced(before: LogicalPlan, next: LogicalPlan, items: &[Item]) -> Result<LogicalPlan> {
    let mut joins = Vec::new();
    let mut first = next.clone();
    while let LogicalPlan::Join(join) = first {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            // Rows of the other side that have no partner are there for each row of `before`.
            return Ok(builder(before).cross_join(lateral(next))?.build()?);
        }
        let pairs = join.on.into_iter().map(|(left, right)| left.eq(right));
        let condition = conjunction(pairs.chain(join.filter));
        joins.push(Joined { right: Arc::unwrap_or_clone(join.right), kind: join.join_type, condition });
        first = Arc::unwrap_or_clone(join.left);
    }
    // A product that is read for each row is run for each: what reads no more than `before` is beside that alone.
    let mut rows = before;
    let mut early = vec![false; joins.len()];
    let own: Vec<&LogicalPlan> = std::iter::once(&first).chain(joins.iter().map(|join| &join.right)).collect();
    for (join, early) in joins.iter().zip(&mut early).rev() {
        let mut reads_own = false;
        for plan in &own {
            reads_own |= reads_columns(&join.right, plan)?;
        }
        if join.kind == JoinType::Inner && refers_to(&join.right, items)? && !reads_own {
            rows = builder(rows).cross_join(for_each(join.right.clone(), items)?)?.build()?;
            *early = true;
        }
    }
    let mut rows = builder(rows).cross_join(for_each(first, items)?)?.build()?;
    for (mut join, early) in joins.into_iter().zip(early).rev() {
        join.right = for_each(join.right, items)?;
        rows = match (early, join.condition) {
            (true, None) => rows,
            (true, Some(condition)) => builder(rows).filter(condition)?.build()?,
            (false, None) if join.kind == JoinType::Inner => builder(rows).cross_join(join.right)?.build()?,
            (false, condition) => builder(rows).join_on(join.right, join.kind, condition)?.build()?,
        };
    }
    Ok(rows)
}

/// A side of a join, which is run for each row if it reads these items (a join in parentheses may, within).
fn for_each(plan: LogicalPlan, items: &[Item]) -> Result<LogicalPlan> {
    let wraps = !is_lateral(&plan) && refers_to(&plan, items)?;
    Ok(if wraps { lateral(plan) } else { plan })
}

/// Whether a plan reads columns of another as outer ones, also within its subqueries.
fn reads_columns(plan: &LogicalPlan, of: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= matches!(expr, Expr::OuterReferenceColumn(_, column) if of.schema().has_column(column));
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}
