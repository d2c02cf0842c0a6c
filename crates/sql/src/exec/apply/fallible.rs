//! What may fail when it is evaluated, and what it costs by PostgreSQL's count.
//!
//! An expression that cannot fail may be evaluated for rows that another condition excludes; nobody sees it.
//! Whatever is not known to be harmless counts as what may fail: it costs time, and no answer.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Cast, Like, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// Functions that a cast to a date becomes where the session's zone matters (`plan/analyze/days.rs`); they end in no error.
pub(crate) const DAY_OF: &str = "day_of_timestamp";
pub(crate) const DAY_FROM: &str = "day_from_timestamp";

/// Functions of any arguments without an error.
const HARMLESS: [&str; 26] = [
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
    "order_key",
    "collation_key",
    "isfinite",
    DAY_OF,
    DAY_FROM,
];

/// Of physical expressions, that scans evaluate early ([`crate::exec::early`]): functions of parameters, and of values whose bytes
/// are not their order.
const HARMLESS_IN_SCANS: [&str; 3] = ["$", "numeric_key", "signless"];

/// Whether an operator has an answer for any two values of its types.
pub(crate) fn is_harmless_operator(op: &Operator) -> bool {
    matches!(
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
    )
}

/// Whether a function of that name has an answer for any arguments that a condition of a scan gives it.
pub(crate) fn is_harmless_in_scans(name: &str) -> bool {
    HARMLESS_IN_SCANS.contains(&name) || name.starts_with("any_of")
}

/// Whether evaluating it can end in an error for some row.
pub(crate) fn may_fail(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(fails(expr))).unwrap_or(true)
}

/// Whether the node itself can.
fn fails(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => !is_harmless_operator(op),
        // A pattern that is computed may be malformed.
        Expr::Like(Like { pattern, .. }) => !matches!(**pattern, Expr::Literal(..)),
        Expr::Cast(Cast { expr, field }) => match (expr.as_ref(), field.data_type()) {
            (Expr::Literal(..), _) => false,
            (Expr::Column(_), to) => narrows(to),
            // A constant that became a parameter.
            (Expr::ScalarFunction(call), to) if call.name() == "$" => {
                !expr.get_type(&DFSchema::empty()).is_ok_and(|from| holds_integers(&from, to))
            }
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

/// Whether a decimal type holds every integer of another type.
pub(crate) fn holds_integers(of: &DataType, decimal: &DataType) -> bool {
    let digits = match of {
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        _ => return false,
    };
    matches!(decimal, DataType::Decimal128(precision, scale) if *scale >= 0 && i32::from(*precision) - i32::from(*scale) >= digits)
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
