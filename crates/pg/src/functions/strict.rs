//! Strict operators and functions with a NULL that is written out.
//!
//! PostgreSQL's planner puts NULL in their place (`eval_const_expressions`), whatever the other operands are: these are
//! not computed, so they cannot fail. Where the NULL comes from a column, or from the value of a parameter, they are.

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

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
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
    let gives_null = match expr {
        Expr::BinaryExpr(binary) => is_strict(binary.op) && (is_null(&binary.left) || is_null(&binary.right)),
        Expr::ScalarFunction(call) => {
            call.args.iter().any(is_null) && (STRICT.contains(call.name()) || call.name() == INT_XOR)
        }
        Expr::Negative(value) => is_null(value),
        _ => false,
    };
    if !gives_null {
        return None;
    }
    let (_, field) = expr.to_field(schema).ok()?;
    let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::from(field.as_ref()));
    Some(Expr::Literal(ScalarValue::try_from(field.data_type()).ok()?, metadata))
}

#[cfg(test)]
mod tests {
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
}
