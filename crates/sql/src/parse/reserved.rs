//! Reserved words as names of relations and as operands, and where columns have to be.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Statement, Visitor};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use resurgam_ast::AstWalk;

use super::words::is_word;

use crate::wire::SqlError;

/// PostgreSQL's reserved words, and those that are functions or types only; without those that are functions in FROM.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "cross",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "similar",
    "some",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// Reserved words that begin no operand and follow no SELECT, where PostgreSQL complains of the next word (as it does behind `unique`: its place is
/// another one).
const NO_OPERANDS: [&str; 26] = [
    "and",
    "as",
    "asc",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "desc",
    "do",
    "else",
    "end",
    "foreign",
    "grant",
    "in",
    "or",
    "primary",
    "references",
    "returning",
    "select",
    "table",
    "then",
    "to",
    "unique",
    "using",
    "when",
];

/// The error of a name that is one of these words.
fn refused(name: &Ident, words: &[&str], text: &str) -> Option<SqlError> {
    if name.quote_style.is_some() || !words.iter().any(|word| name.value.eq_ignore_ascii_case(word)) {
        return None;
    }
    let error = SqlError::syntax(format!("syntax error at or near \"{}\"", name.value));
    let start = name.span.start;
    Some(match crate::pg::errors::character_position(text, start.line, start.column) {
        Some(position) => error.with_position(position),
        None => error,
    })
}

/// Refuses relations, columns of new tables and operands whose names are reserved words without quotes, which the parser takes for names.
///
/// # Errors
/// 42601, with the place.
pub(crate) fn refuse(statement: &Statement, text: &str) -> Result<(), SqlError> {
    struct Names<'t>(&'t str);
    impl Names<'_> {
        fn look(&self, first: Option<&Ident>, words: &[&str]) -> ControlFlow<SqlError> {
            match first.and_then(|first| refused(first, words, self.0)) {
                Some(error) => ControlFlow::Break(error),
                None => ControlFlow::Continue(()),
            }
        }
    }
    impl Visitor for Names<'_> {
        type Break = SqlError;
        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<SqlError> {
            self.look(name.0.first().and_then(|part| part.as_ident()), RESERVED)
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
            match expr {
                Expr::Identifier(name) => self.look(Some(name), &NO_OPERANDS),
                Expr::CompoundIdentifier(names) => self.look(names.first(), &NO_OPERANDS),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    if let Statement::CreateTable(create) = statement {
        let name = create.name.0.iter().filter_map(|part| part.as_ident());
        let columns = create.columns.iter().map(|column| &column.name);
        if let Some(error) = name.chain(columns).find_map(|name| refused(name, RESERVED, text)) {
            return Err(error);
        }
    }
    match statement.walk(&mut Names(text)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Refuses SELECT DISTINCT with nothing to select, which the parser takes as it takes SELECT FROM.
///
/// # Errors
/// 42601, with the place.
pub(crate) fn refuse_empty_distinct(tokens: &[TokenWithSpan], text: &str) -> Result<(), SqlError> {
    // Whether each parenthesis that is open is the one of DISTINCT ON.
    let mut open: Vec<bool> = Vec::new();
    let mut before: [Option<&Token>; 2] = [None, None];
    let mut wants_columns = false;
    for token in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        let is_behind = |words: [&str; 2]| {
            before.iter().zip(words).all(|(token, word)| token.is_some_and(|token| is_word(token, word)))
        };
        if wants_columns && is_word(&token.token, "from") {
            let start = token.span.start;
            let mut error = SqlError::syntax(format!("syntax error at or near \"{}\"", token.token));
            error.position = crate::pg::errors::character_position(text, start.line, start.column);
            return Err(error);
        }
        wants_columns = match &token.token {
            Token::LParen => {
                open.push(is_behind(["distinct", "on"]));
                false
            }
            Token::RParen => open.pop().unwrap_or(false),
            word => is_word(word, "distinct") && before[1].is_some_and(|token| is_word(token, "select")),
        };
        before = [before[1], Some(&token.token)];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use crate::parse::read::parse_known;

    #[test]
    fn distinct_wants_columns() {
        for (sql, position) in
            [("SELECT DISTINCT FROM t", 17), ("SELECT 1 WHERE EXISTS (SELECT distinct on ((a), b) /* x */ from t)", 60)]
        {
            let error = parse_known(sql).unwrap_err();
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", Some(position)), "{sql}");
        }
        for sql in ["SELECT FROM t", "SELECT a IS DISTINCT FROM b", "SELECT DISTINCT ON (a) (b) FROM t"] {
            assert!(parse_known(sql).is_ok(), "{sql}");
        }
    }

    #[test]
    fn no_operands() {
        for (sql, position) in [
            ("SELECT end", 8),
            ("SELECT 1 + then", 12),
            ("SELECT a FROM t WHERE a IN (end, 2)", 29),
            ("SELECT end.a FROM t", 8),
            ("SELECT 'é', end::int", 13),
            ("SELECT a FROM t ORDER BY end", 26),
            ("INSERT INTO t VALUES (end)", 23),
            ("UPDATE t SET a = end", 18),
        ] {
            let error = parse_known(sql).expect_err(sql);
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", Some(position)), "{sql}");
        }
        for sql in ["SELECT \"end\", t.end, 1 AS end FROM t", "UPDATE t SET a = DEFAULT", "SET enable_sort = on"] {
            assert!(parse_known(sql).is_ok(), "{sql}");
        }
    }

    /// As PostgreSQL 15 reads them.
    #[test]
    fn what_ends_an_operand() {
        for (sql, wanted) in [
            ("SELECT a IS DISTINCT FROM b AND c", "SELECT (a IS DISTINCT FROM b) AND c"),
            ("SELECT a IS NOT DISTINCT FROM b + 1 = c OR d", "SELECT (a IS NOT DISTINCT FROM ((b + 1) = c)) OR d"),
            ("SELECT NOT a IS DISTINCT FROM b AND c", "SELECT (NOT (a IS DISTINCT FROM b)) AND c"),
            ("SELECT a = b IS DISTINCT FROM c", "SELECT (a = b) IS DISTINCT FROM c"),
        ] {
            let bare = |sql: &str| {
                let mut shown = parse_known(sql).expect(sql).pop().expect(sql).to_string();
                shown.retain(|c| !matches!(c, '(' | ')'));
                shown
            };
            let parsed = |sql: &str| format!("{:?}", strip(parse_known(sql).expect(sql)));
            assert_eq!(bare(sql), bare(wanted));
            assert_eq!(parsed(sql), parsed(wanted), "{sql}");
        }
    }

    /// Without parentheses and places.
    fn strip(statements: Vec<datafusion::sql::sqlparser::ast::Statement>) -> Vec<String> {
        use datafusion::sql::sqlparser::ast::{Expr, VisitorMut};
        use resurgam_ast::AstWalkMut;
        struct Shape(Vec<String>);
        impl VisitorMut for Shape {
            type Break = ();
            fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                if let Expr::Nested(inner) = expr {
                    *expr = inner.as_ref().clone();
                } else {
                    self.0.push(expr.to_string());
                }
                ControlFlow::Continue(())
            }
        }
        let mut shape = Shape(Vec::new());
        for mut statement in statements {
            let _ = statement.walk_mut(&mut shape);
        }
        shape.0
    }

    #[test]
    fn what_does_not_associate() {
        for sql in [
            "SELECT a = b = c",
            "SELECT a < b >= c",
            "SELECT a LIKE b LIKE c",
            "SELECT a NOT LIKE b NOT BETWEEN c AND d",
            "SELECT a BETWEEN b AND c IN (d)",
            "SELECT a IS DISTINCT FROM b IS DISTINCT FROM c",
            "SELECT 1 FROM where",
            "SELECT FROM WHERE",
        ] {
            assert_eq!(parse_known(sql).expect_err(sql).sqlstate, "42601", "{sql}");
        }
        for sql in [
            "SELECT (a = b) = c, a = (b < c)",
            "SELECT a = ANY (b) = c",
            "SELECT a IN (b) IN (c)",
            "SELECT a IS NULL IS NULL",
            "SELECT a LIKE b IS NULL = c",
            "SELECT a = 1 AND b = 2 OR c LIKE 'd' AND NOT e NOT LIKE 'f'",
            "SELECT 1 FROM \"where\" AS x",
            "SELECT 1 FROM current_date",
        ] {
            assert!(parse_known(sql).is_ok(), "{sql}");
        }
    }
}
