//! PostgreSQL syntax to syntax that DataFusion plans, on the parsed statement.
//!
//! Contract: [`rewrite_statement`] changes how a statement is written, never what it
//! means. It knows no tables and no types; what needs them happens in the helper
//! functions that it calls into the statement (see [`crate::functions`]), whose
//! names begin with `pg_cast_` and the like. Result columns are named before, so that
//! helpers never show in a column's name. Rewriting a rewritten statement changes nothing.
//!
//! | written | becomes |
//! |---|---|
//! | `x::type`, `CAST`, `type 'text'` | `pg_cast_type(x)`: PostgreSQL's rounding, parsing, lengths |
//! | `OPERATOR(pg_catalog.~)`, `pg_catalog.f(x)` | without the schema |
//! | `COLLATE …` | dropped |
//! | `x = ANY ('{…}')`, `= ANY (ARRAY[…])` | `x IN (…)` |
//! | `ARRAY(SELECT …)` | a subquery with `array_agg` |
//! | `(SELECT x FROM …, pg_partition_ancestors(…))` as a value | NULL: there are no partitions |
//! | `t.tableoid` of a system table | its oid |
//! | `(a, b) < (c, d)` | the comparisons it stands for |
//! | `generate_series(…)` in a select list | `unnest(generate_series(…))` |
//! | `FETCH FIRST n ROWS` | `LIMIT n` |
//! | `SIMILAR TO`, `substring(x from 'regex')`, `AT TIME ZONE` | functions |

mod cast;
mod expr;
mod query;
mod rows;
mod subquery;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, Select, Statement, TableFactor, Value, VisitorMut,
};
use resurgam_ast::AstWalkMut;

use crate::wire::SqlError;

pub use cast::{cast_function_oid, cast_to};

/// Rewrites a statement in place.
///
/// # Errors
/// `0A000` for forms that cannot be kept to their meaning.
pub fn rewrite_statement(statement: &mut Statement) -> Result<(), SqlError> {
    if let Statement::Query(query) = statement {
        crate::naming::name_columns(query);
    }
    match statement.walk_mut(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Rewrites a lone expression, for instance a column's default.
pub fn rewrite_expr(expr: &mut Expr) -> Result<(), SqlError> {
    match expr.walk_mut(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        wrap(query::before(query))
    }
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        query::select(select);
        ControlFlow::Continue(())
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        query::factor(factor);
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        subquery::of_partitions(expr);
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        wrap(expr::after(expr))
    }
}

fn wrap(result: Result<(), SqlError>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// A call of an unqualified function.
fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(call_function(name, args))
}

fn call_function(name: &str, args: Vec<Expr>) -> Function {
    Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect(),
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    }
}

/// The lower-case (unless quoted) last part of a name.
fn last_name(name: &ObjectName) -> String {
    match name.0.last().and_then(|part| part.as_ident()) {
        Some(ident) if ident.quote_style.is_none() => ident.value.to_ascii_lowercase(),
        Some(ident) => ident.value.clone(),
        None => String::new(),
    }
}

fn string(text: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.into()).into())
}

fn number(value: i64) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}

/// The text of a string literal, also in parentheses.
fn literal_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            Value::DollarQuotedString(text) => Some(&text.value),
            _ => None,
        },
        Expr::Nested(inner) => literal_text(inner),
        _ => None,
    }
}

/// What an unevaluated expression is without its parentheses.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// Texts are ordered by their bytes; other orders are refused.
///
/// # Errors
/// `0A000`.
pub fn by_bytes(collation: &ObjectName) -> Result<(), SqlError> {
    let parts: Vec<&str> =
        collation.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str()).collect();
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema.eq_ignore_ascii_case("pg_catalog") => name,
        _ => "",
    };
    match name {
        "C" | "POSIX" | "default" | "DEFAULT" | "ucs_basic" | "C.UTF-8" | "C.utf8" => Ok(()),
        _ => Err(SqlError::unsupported(format!("the collation {collation} is not supported"))
            .with_hint("Texts are ordered by their bytes, which is the collation \"C\".")),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    pub(super) fn rewritten(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).expect(sql);
        rewrite_statement(&mut statements[0]).expect(sql);
        let once = statements[0].to_string();
        rewrite_statement(&mut statements[0]).expect(sql);
        assert_eq!(statements[0].to_string(), once, "rewriting twice");
        once
    }

    #[test]
    fn expressions() {
        for (sql, expected) in [
            ("SELECT a::int AS a FROM t", "SELECT pg_cast_int4(a) AS a FROM t"),
            ("SELECT '7'::pg_catalog.int8 AS a", "SELECT pg_cast_int8('7') AS a"),
            ("SELECT a::varchar(3) AS a", "SELECT pg_cast_varchar(a, 7) AS a"),
            ("SELECT $1::int AS a", "SELECT $1::INT AS a"),
            ("SELECT c.oid::pg_catalog.regclass AS a FROM c", "SELECT pg_cast_regclass(c.oid) AS a FROM c"),
            ("SELECT date '2024-01-01' AS d", "SELECT pg_cast_date('2024-01-01') AS d"),
            (
                "SELECT a FROM t WHERE a OPERATOR(pg_catalog.~) '^(x)$' COLLATE pg_catalog.default",
                "SELECT a FROM t WHERE a ~ '^(x)$'",
            ),
            ("SELECT pg_catalog.upper(a) AS u FROM t", "SELECT upper(a) AS u FROM t"),
            ("SELECT a FROM t WHERE a = ANY ('{1,2}')", "SELECT a FROM t WHERE a IN ('1', '2')"),
            ("SELECT a FROM t WHERE a <> ALL (ARRAY[1, 2])", "SELECT a FROM t WHERE a NOT IN (1, 2)"),
            ("SELECT a FROM t WHERE a = ANY ('{}')", "SELECT a FROM t WHERE false"),
            ("SELECT a FROM t WHERE (a, b) = (1, 2)", "SELECT a FROM t WHERE (a = 1 AND b = 2)"),
            ("SELECT a FROM t WHERE (a, b) > (1, 2)", "SELECT a FROM t WHERE (a > 1 OR (a = 1 AND b > 2))"),
            (
                "SELECT a FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
                "SELECT a FROM t WHERE ((a = 1 AND b = 2) OR (a = 3 AND b = 4))",
            ),
            ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
            ("SELECT generate_series(1, 3) AS g", "SELECT unnest(generate_series(1, 3)) AS g"),
            ("SELECT a FROM t WHERE a SIMILAR TO 'x%'", "SELECT a FROM t WHERE a ~ similar_to_escape('x%')"),
            ("SELECT a AT TIME ZONE 'UTC' AS a FROM t", "SELECT timezone('UTC', a) AS a FROM t"),
            ("SELECT current_schema AS s", "SELECT current_schema() AS s"),
            ("SELECT (SELECT count(*) FROM u) AS b FROM t", "SELECT (SELECT count(*) AS \"count\" FROM u) AS b FROM t"),
            ("SELECT (SELECT b FROM u LIMIT 1) AS b FROM t", "SELECT (SELECT b FROM u LIMIT 1) AS b FROM t"),
        ] {
            assert_eq!(rewritten(sql), expected, "{sql}");
        }
    }

    #[test]
    fn array_subquery() {
        assert_eq!(
            rewritten("SELECT ARRAY(SELECT a FROM t ORDER BY 1) AS x"),
            "SELECT pg_array_or_empty((SELECT array_agg(a ORDER BY a) AS a FROM t)) AS x"
        );
    }

    #[test]
    fn names_are_kept() {
        assert_eq!(rewritten("SELECT a::int FROM t"), "SELECT pg_cast_int4(a) AS \"a\" FROM t");
        assert_eq!(rewritten("SELECT '1'::int"), "SELECT pg_cast_int4('1') AS \"int4\"");
    }
}
