//! Expressions of indexes in conditions: what is stored for the index is read in their place, so that the planner finds
//! the index by that column as by any other.
//!
//! Only in WHERE over one table: beyond an outer join the stored value is NULL where the expression need not be. Not
//! within views, whose conditions are also evaluated on rows that are not stored yet, nor for the row that ON CONFLICT
//! proposes.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, cast};
use resurgam_engine::ColumnType;

use super::bound::Bound;
use super::expr::Clause;
use super::scope::Scope;
use super::{Analyzer, Result};
use crate::pg::definition::parse_expression;

impl Analyzer<'_> {
    /// The condition with columns in place of what is stored for indexes.
    pub(super) fn by_stored(&mut self, condition: Bound, scope: &Scope<'_>) -> Result<Bound> {
        let [item] = scope.items.as_slice() else { return Ok(condition) };
        let Some(table) = item.table.clone() else { return Ok(condition) };
        let is_stored = |at: &usize| {
            let column = &table.columns[*at];
            // Blanks at the end of a character(n) may be others than the expression's.
            column.is_hidden() && !column.is_predicate() && !matches!(column.ty, ColumnType::Char(_))
        };
        let stored: Vec<usize> = (0..table.columns.len()).filter(is_stored).collect();
        // What such a column is made of may be ordered by more than bytes.
        let collated = self.collations.on && crate::pg::collation::has_icu(&table);
        if stored.is_empty() || collated || self.is_within_view() || self.views.seen.is_some() {
            return Ok(condition);
        }
        if item.columns.len() != table.columns.len() {
            return Ok(condition);
        }
        // Under the table's own names, whatever FROM gives to its columns.
        let mut own = item.clone();
        own.name = Some(table.name.clone());
        for (column, named) in own.columns.iter_mut().zip(&table.columns) {
            column.name.clone_from(&named.name);
        }
        let alone = Scope { items: vec![own], ..Scope::empty() };
        let mut known: Vec<(Expr, Expr)> = Vec::with_capacity(stored.len());
        for at in stored {
            let (Some(generated), Some(column)) = (table.generated(at), item.columns.get(at)) else { continue };
            let bound = self.expr(&parse_expression(&generated.sql)?, &alone, Clause::Index)?;
            let value = column.bound.expr.clone();
            let value = match bound.data == column.bound.data {
                true => value,
                // Text has several forms; what is more than another form of the same is left alone.
                false if bound.data.is_string() && column.bound.data.is_string() => cast(value, bound.data),
                false => continue,
            };
            known.push((bound.expr, value));
        }
        let Bound { expr, ty, data, span, .. } = condition;
        let expr = expr.transform_down(|node| {
            Ok(match known.iter().find(|(of_index, _)| *of_index == node) {
                Some((_, value)) => Transformed::yes(value.clone()),
                None => Transformed::no(node),
            })
        })?;
        Ok(Bound::with_data(expr.data, ty, data).at(span))
    }
}
