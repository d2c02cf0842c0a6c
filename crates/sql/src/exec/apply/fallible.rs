//! What may fail when it is evaluated, and what it costs by PostgreSQL's count.
//!
//! An expression that cannot fail may be evaluated for rows that another condition excludes; nobody sees it.
//! Whatever is not known to be harmless counts as what may fail: it costs time, and no answer.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Cast, Like, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::plan::analyze::{DAY_FROM, DAY_OF};

/// Functions of any arguments without an error.
const HARMLESS: [&str; 25] = [
    "$",
    "together",
    "coalesce",
    "nullif",
    "greatest",
    "least",
    "lower",
    "upper",
    "length",
    "char_length",
    "octet_length",
    "bit_length",
    "btrim",
    "ltrim",
    "rtrim",
    "starts_with",
    "strpos",
    "reverse",
    "md5",
    "pg_nan",
    "numeric_key",
    "collation_key",
    "isfinite",
    DAY_OF,
    DAY_FROM,
];

/// Whether evaluating it can end in an error for some row.
pub(crate) fn may_fail(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(fails(expr))).unwrap_or(true)
}

/// Whether the node itself can.
fn fails(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => !matches!(
            op,
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::And
                | Operator::Or
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
        ),
        // A pattern that is computed may be malformed.
        Expr::Like(Like { pattern, .. }) => !matches!(**pattern, Expr::Literal(..)),
        Expr::Cast(Cast { expr, field }) => match (expr.as_ref(), field.data_type()) {
            (Expr::Literal(..), _) => false,
            (Expr::Column(_), to) => narrows(to),
            _ => true,
        },
        Expr::ScalarFunction(ScalarFunction { func, .. }) => !HARMLESS.contains(&func.name()),
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Placeholder(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::InList(_) => false,
        _ => true,
    }
}

/// Whether a cast to the type can leave its range: all but those to texts and to the widest numbers can.
fn narrows(to: &DataType) -> bool {
    !matches!(to, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Float64)
}

/// What a condition costs for one row, in operators, about as `cost_qual_eval` of PostgreSQL counts: an operator, a
/// function and a cast are one, a list of IN half of its values, AND, OR, NOT, CASE and IS NULL nothing.
pub(crate) fn cost(expr: &Expr) -> usize {
    let mut cost = 0usize;
    // The closure returns no error.
    let _ = expr.apply(|expr| {
        cost += match expr {
            Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => 0,
            Expr::BinaryExpr(_) | Expr::Like(_) | Expr::SimilarTo(_) | Expr::Cast(_) | Expr::Negative(_) => 2,
            Expr::ScalarFunction(call) if matches!(call.name(), "$" | "together" | "coalesce" | "pg_nan") => 0,
            Expr::ScalarFunction(_) => 2,
            Expr::Between(_) => 4,
            Expr::InList(list) => list.list.len(),
            _ => 0,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn comparisons_do_not_fail_and_quotients_do() {
        assert!(!may_fail(&col("b").not_eq(lit(0)).and(col("a").is_null())));
        assert!(may_fail(&(lit(6) / col("b")).gt(lit(1))));
        assert!(may_fail(&col("a").like(col("b"))));
        assert!(cost(&col("b").not_eq(lit(0))) < cost(&(lit(6) / col("b")).gt(lit(1))));
    }
}
