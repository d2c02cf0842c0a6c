//! What a subscript may stand behind. The parser takes one behind any expression; PostgreSQL does behind a column, a parameter
//! and what is in parentheses: `(array[1, 2])[1]`, not `array[1, 2][1]`.
//!
//! Only clients' statements are asked: what definitions keep has been taken when it was made.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Statement, Value, Visitor};
use resurgam_ast::AstWalk;

use crate::wire::SqlError;

/// # Errors
/// `42601`
pub(crate) fn refuse(statements: &[Statement], text: &str) -> Result<(), SqlError> {
    struct Walk;
    impl Visitor for Walk {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::CompoundFieldAccess { root, access_chain }
                    if matches!(access_chain.first(), Some(AccessExpr::Subscript(_))) && !may_be_subscripted(root) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    if !text.contains('[') || statements.iter().all(|statement| statement.walk(&mut Walk).is_continue()) {
        return Ok(());
    }
    Err(SqlError::syntax("syntax error at or near \"[\""))
}

fn may_be_subscripted(root: &Expr) -> bool {
    match root {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Nested(_) | Expr::Subquery(_) => true,
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::read::parse;

    /// As PostgreSQL 15 has them.
    #[test]
    fn subscripts_stand_behind_some() {
        for text in [
            "SELECT a[1], t.a[1], (array[1, 2])[1], $1[1], (SELECT a)[1], (f())[1][2], a[1:2], x::int[], (x::int[])[1]",
            "UPDATE t SET a[1] = a[2]",
            "SELECT array[1, 2], array[array[1]], array[[1], [2]]",
        ] {
            parse(text).expect(text);
        }
        for text in [
            "SELECT array[1, 2][1]",
            "SELECT 1 FROM t WHERE array[1, 2][1:2] = a",
            "SELECT f(1)[1]",
            "SELECT now()[1]",
            "SELECT array(SELECT 1)[1]",
            "SELECT CASE WHEN true THEN a END[1]",
            "INSERT INTO t SELECT string_to_array('a', ',')[1]",
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("42601", "syntax error at or near \"[\""));
        }
    }
}
