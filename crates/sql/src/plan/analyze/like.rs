//! Patterns of LIKE, which may end with their escape character (`pg::functions`' `like`).

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;

use super::bound::Bound;
use super::{Analyzer, Result, unknown};
use crate::pg::functions::{ends_with_escape, like_pattern_name};
use crate::wire::SqlError;

/// Whether an expression has another value, or costs much, where it is written a second time.
fn is_alone(expr: &Expr) -> bool {
    let mut alone = expr.is_volatile();
    let _ = expr.apply(|expr| {
        alone |= matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) | Expr::Unnest(_)
        );
        Ok(if alone { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    alone
}

impl Analyzer<'_> {
    /// The pattern that `text` is compared with: itself where it cannot end with its escape character, else the function
    /// that looks whether that is an error.
    ///
    /// # Errors
    /// `0A000` for such a pattern beside a text that cannot be written twice.
    pub(super) fn like_pattern(&mut self, text: &Bound, pattern: Bound, insensitive: bool) -> Result<Expr> {
        let constant = match &pattern.expr {
            Expr::Literal(value, _) => Some(value.try_as_str().flatten().is_some_and(ends_with_escape)),
            _ => None,
        };
        if constant == Some(false) {
            return Ok(pattern.expr);
        }
        if is_alone(&text.expr) {
            return match constant {
                Some(_) => {
                    Err(SqlError::unsupported("a LIKE pattern that ends with its escape character, beside such a text")
                        .into())
                }
                None => Ok(pattern.expr),
            };
        }
        self.copied(text)?;
        let Some(function) = self.names.state.scalar_functions().get(like_pattern_name(insensitive)).cloned() else {
            return unknown("LIKE");
        };
        Ok(self.call_udf(&function, vec![pattern, text.clone()])?.0)
    }
}
