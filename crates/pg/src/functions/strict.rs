//! Strict operators and functions with a NULL that is written out.
//!
//! PostgreSQL's planner puts NULL in their place (`eval_const_expressions`), whatever the other operands are: these are
//! not computed, so they cannot fail. Where the NULL comes from a column, they are. The value of a parameter is as good as
//! written out: PostgreSQL plans a statement with it, at least the first times.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::FieldMetadata;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use resurgam_dialect::{Catalog, FunctionKind};

use super::int_xor::INT_XOR;

/// The names under which all functions of PostgreSQL are strict and give one value.
static STRICT: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let mut names: HashMap<&'static str, bool> = HashMap::new();
    for function in Catalog::postgres().functions() {
        let is = function.strict && !function.returns_set && function.kind == FunctionKind::Function;
        *names.entry(function.name).or_insert(true) &= is;
    }
    names.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
});

/// Of its own those that checked arithmetic is.
const OWN: [&str; 8] = [
    INT_XOR,
    "pg_plus",
    "pg_minus",
    "pg_multiply",
    "pg_float_plus",
    "pg_float_minus",
    "pg_float_multiply",
    "pg_float_divide",
];

/// Whether a function of that name is NULL where an argument is.
pub(super) fn is_strict_function(name: &str) -> bool {
    STRICT.contains(name) || OWN.contains(&name)
}

/// Of its own more that give NULL where an argument is NULL.
const NULL_OF_NULL: [&str; 5] = [
    "pg_array_slice",
    "pg_jsonb_each_key",
    "pg_jsonb_each_text_key",
    "pg_jsonb_each_value",
    "pg_jsonb_each_text_value",
];

/// Whether a function gives NULL where an argument is NULL, whether or not PostgreSQL's planner says so.
pub(super) fn gives_null_of_null(name: &str) -> bool {
    is_strict_function(name) || NULL_OF_NULL.contains(&name)
}

/// What a cast is of.
fn uncast(expr: &Expr) -> &Expr {
    let mut expr = expr;
    loop {
        expr = match expr {
            Expr::Cast(cast) => &cast.expr,
            Expr::ScalarFunction(call) if call.name().starts_with("pg_cast_") => match call.args.first() {
                Some(value) => value,
                None => return expr,
            },
            _ => return expr,
        }
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(uncast(expr), Expr::Literal(value, _) if value.is_null())
}

/// The operands of a node that is NULL where one of them is.
fn operands(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::BinaryExpr(binary) if is_strict(binary.op) => vec![&binary.left, &binary.right],
        Expr::ScalarFunction(call) if is_strict_function(call.name()) => call.args.iter().collect(),
        Expr::Negative(value) => vec![value],
        _ => Vec::new(),
    }
}

/// Also those of a comparison, which the query engine itself makes NULL where one of them is written out as NULL.
fn compared(expr: &Expr) -> Vec<&Expr> {
    use Operator as O;
    match expr {
        Expr::BinaryExpr(binary) if matches!(binary.op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq) => {
            vec![&binary.left, &binary.right]
        }
        other => operands(other),
    }
}

/// The parameters, by their names, beside which a node has operands of which `may_fail` is true: where such a parameter is
/// NULL they are not to be computed.
pub fn parameters_that_leave_out<'a>(expr: &'a Expr, may_fail: &dyn Fn(&Expr) -> bool) -> Vec<&'a str> {
    let operands = compared(expr);
    let beside = |at: usize| operands.iter().enumerate().any(|(other, operand)| other != at && may_fail(operand));
    let parameter = |(at, operand): (usize, &&'a Expr)| match uncast(operand) {
        Expr::Placeholder(placeholder) if beside(at) => Some(placeholder.id.as_str()),
        _ => None,
    };
    operands.iter().enumerate().filter_map(parameter).collect()
}

fn is_strict(operator: Operator) -> bool {
    use Operator as O;
    matches!(
        operator,
        O::Plus
            | O::Minus
            | O::Multiply
            | O::Divide
            | O::Modulo
            | O::BitwiseAnd
            | O::BitwiseOr
            | O::BitwiseXor
            | O::BitwiseShiftLeft
            | O::BitwiseShiftRight
            | O::StringConcat
    )
}

/// NULL, if the planner of PostgreSQL puts it in the place of `expr`, a node whose operands it has been through.
pub(super) fn null_in_place(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let gives_null = operands(expr).into_iter().any(is_null);
    if !gives_null {
        return None;
    }
    let (_, field) = expr.to_field(schema).ok()?;
    let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::from(field.as_ref()));
    Some(Expr::Literal(ScalarValue::try_from(field.data_type()).ok()?, metadata))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;
    use datafusion::logical_expr::expr::Placeholder;
    use datafusion::logical_expr::{BinaryExpr, cast, col, lit};

    use super::*;

    #[test]
    fn names() {
        for name in ["repeat", "date_pli", "numeric_add", "numeric_div", "length", "upper", "interval_pl"] {
            assert!(STRICT.contains(name), "{name}");
        }
        // Not strict, not all of them, sets, aggregates, and what is no function of PostgreSQL.
        for name in ["concat", "array_append", "array_to_string", "generate_series", "unnest", "sum", "coalesce"] {
            assert!(!STRICT.contains(name), "{name}");
        }
    }
    #[test]
    fn parameters() {
        let parameter = |id: &str| Expr::Placeholder(Placeholder::new_with_field(id.to_owned(), None));
        let fails = |expr: &Expr| matches!(expr, Expr::BinaryExpr(_));
        let product = || col("a") * lit(12);
        assert_eq!(parameters_that_leave_out(&(product() - parameter("$1")), &fails), ["$1"]);
        assert_eq!(parameters_that_leave_out(&(cast(parameter("$2"), DataType::Int32) + product()), &fails), ["$2"]);
        assert_eq!(parameters_that_leave_out(&product().eq(parameter("$1")), &fails), ["$1"]);
        assert_eq!(parameters_that_leave_out(&parameter("$3").lt(product()), &fails), ["$3"]);
        // Nothing beside them can fail.
        assert!(parameters_that_leave_out(&(col("a") - parameter("$1")), &fails).is_empty());
        assert!(parameters_that_leave_out(&col("a").eq(parameter("$1")), &fails).is_empty());
        // It is not NULL for that.
        let same = Expr::BinaryExpr(BinaryExpr::new(
            Box::new(product()),
            Operator::IsNotDistinctFrom,
            Box::new(parameter("$1")),
        ));
        assert!(parameters_that_leave_out(&same, &fails).is_empty());
    }
}
