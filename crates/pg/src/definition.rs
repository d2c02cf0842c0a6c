//! Expressions that definitions hold as text (defaults, CHECK conditions): how they are read,
//! kept, and shown by the catalogs.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, VisitorMut};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_ast::AstWalkMut;

use crate::bounded::{Bounded, PARSER_LEVELS_MAX};
use crate::datetime::Zone;
use crate::decode::parse_datum;
use crate::encode::put_datum_text;
use crate::errors;
use crate::styles::{self, Styles};
use crate::types;
use crate::wire::SqlError;

/// Functions that are written without parentheses, and only so.
const BARE: [&str; 4] = ["current_catalog", "current_user", "session_user", "user"];

/// Calls of such functions as they are written (`bare`) or as they are planned.
fn set_bare(expr: &mut ast::Expr, bare: bool) {
    struct Walk(bool);
    impl VisitorMut for Walk {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            use ast::FunctionArguments as A;
            if let ast::Expr::Function(call) = expr
                && BARE.contains(&call.name.to_string().to_ascii_lowercase().as_str())
            {
                match &call.args {
                    A::List(list) if list.args.is_empty() && self.0 => call.args = A::None,
                    A::None if !self.0 => {
                        let list =
                            ast::FunctionArgumentList { duplicate_treatment: None, args: vec![], clauses: vec![] };
                        call.args = A::List(list);
                    }
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Walk(bare));
}

/// An expression parsed from text, for instance a column's default.
pub fn parse_expression(text: &str) -> Result<ast::Expr, SqlError> {
    let mut expr = parse_whole(text, |parser| parser.parse_expr())?;
    set_bare(&mut expr, false);
    Ok(expr)
}

/// A type as SQL writes it, with its modifiers: `numeric(8,2)`.
///
/// # Errors
/// `42601`
pub fn parse_type(text: &str) -> Result<ast::DataType, SqlError> {
    parse_whole(text, |parser| parser.parse_data_type())
}

/// A kept expression with its constants as the session shows values of their types: bits with the type behind them, dates and intervals
/// in the styles that are set. `None` where all is as it is kept.
pub fn in_style(sql: &str) -> Option<String> {
    if let Some(bits) = sql.strip_prefix(['B', 'b']).filter(|rest| rest.starts_with('\'') && rest.ends_with('\''))
        && bits.len() >= 2
        && bits[1..bits.len() - 1].bytes().all(|bit| matches!(bit, b'0' | b'1'))
    {
        return Some(format!("{bits}::\"bit\""));
    }
    let set = styles::current();
    if set == Styles::default() || !sql.contains('\'') {
        return None;
    }
    struct Walk(Styles, bool);
    impl VisitorMut for Walk {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Cast { expr, data_type, .. } = expr
                && let ast::Expr::Value(value) = expr.as_mut()
                && let ast::Value::SingleQuotedString(text) = &mut value.value
                && let Some(shown) = restyled(text, data_type, self.0)
            {
                *text = shown;
                self.1 = true;
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = parse_expression(sql).ok()?;
    let mut walk = Walk(set, false);
    let _ = expr.walk_mut(&mut walk);
    walk.1.then(|| kept_text(&expr))
}

/// The text of a date, a timestamp or an interval as it is shown in these styles.
fn restyled(text: &str, ty: &ast::DataType, styles: Styles) -> Option<String> {
    let (oid, typmod) = types::type_from_sql(ty).ok()?;
    if !matches!(oid, types::oid::DATE | types::oid::TIMESTAMP | types::oid::INTERVAL) {
        return None;
    }
    let column = types::column_type_of_oid(oid, typmod)?;
    let (mut scratch, mut out) = (Vec::new(), bytes::BytesMut::new());
    let zone = Zone::Utc;
    let datum = styles::with(Styles::default(), || parse_datum(&column, text, &zone, &mut scratch)).ok()?;
    styles::with(styles, || put_datum_text(datum, &column, &zone, &mut out)).ok()?;
    String::from_utf8(out.to_vec()).ok()
}

/// What `read` reads, which has to be all of the text.
fn parse_whole<T>(text: &str, read: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>) -> Result<T, SqlError> {
    let tokens = crate::lexer::tokens(text).map_err(|error| errors::from_parser(&error.into(), text))?;
    let tokens = crate::keywords::as_postgresql(tokens);
    let dialect = Bounded::new(&tokens);
    let mut parser = Parser::new(&dialect).with_recursion_limit(PARSER_LEVELS_MAX).with_tokens_with_locations(tokens);
    read(&mut parser)
        .and_then(|found| parser.expect_token(&Token::EOF).map(|_| found))
        .map_err(|error| dialect.refused().unwrap_or_else(|| errors::from_parser(&error, text)))
}

/// What a definition keeps, with the names of functions and types that a statement here has to write.
///
/// # Errors
/// `42601` for what is no expression.
pub fn parse_shown(text: &str) -> Result<ast::Expr, SqlError> {
    let mut expr = parse_expression(text)?;
    crate::extensions::show_names(&mut expr);
    Ok(expr)
}

/// An expression as definitions keep it: [`parse_expression`] reads it again.
pub fn kept_text(expr: &ast::Expr) -> String {
    let mut expr = expr.clone();
    set_bare(&mut expr, true);
    expr.to_string()
}

/// The oid that `pg_cast_NAME` casts to; `None` for other functions. Definitions of earlier versions keep casts so.
pub fn cast_function_oid(function: &str) -> Option<u32> {
    let name = function.strip_prefix("pg_cast_")?;
    types::TYPES.iter().find(|row| row.name == name).map(|row| row.oid)
}

/// A cast as the catalogs show it.
fn shown_cast(value: &ast::Expr, oid: u32, typmod: Option<i32>) -> String {
    let ty = types::format_type(oid, typmod);
    match value {
        ast::Expr::Value(value) if !matches!(value.value, ast::Value::Number(..)) => format!("{value}::{ty}"),
        value => format!("({})::{ty}", shown(value)),
    }
}

/// What looks like a call and is none in PostgreSQL, which shows it in capitals.
const SYNTAX: [&str; 8] =
    ["coalesce", "greatest", "least", "nullif", "current_time", "current_timestamp", "localtime", "localtimestamp"];

/// A function's name, which is the same in capitals unless it is quoted.
fn folded_name(name: &ast::ObjectName) -> String {
    let part = |part: &ast::ObjectNamePart| match part.as_ident() {
        Some(ident) if ident.quote_style.is_none() => ident.value.to_lowercase(),
        _ => part.to_string(),
    };
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

/// An expression as PostgreSQL's catalogs show it: operators in parentheses, casts as `::`.
pub fn shown(expr: &ast::Expr) -> String {
    use ast::Expr as E;
    match expr {
        E::Nested(inner) => shown(inner),
        E::Cast { expr: inner, data_type, .. } => match types::arrow_field_from_sql(data_type) {
            Ok(_) if let Some(domain) = types::domain_from_sql(data_type) => shown_cast(inner, domain, None),
            Ok(field) => shown_cast(inner, types::field_oid(&field), Some(types::field_typmod(&field))),
            // Those that plans have no values of their own for: `regclass`.
            Err(_) => match types::type_from_sql(data_type) {
                Ok((oid, _)) => shown_cast(inner, oid, None),
                Err(_) => expr.to_string(),
            },
        },
        E::TypedString(typed) => match types::arrow_field_from_sql(&typed.data_type) {
            Ok(field) => {
                let ty = types::format_type(types::field_oid(&field), Some(types::field_typmod(&field)));
                format!("{}::{ty}", typed.value)
            }
            Err(_) => expr.to_string(),
        },
        E::BinaryOp { left, op, right } => format!("({} {op} {})", shown(left), shown(right)),
        E::UnaryOp { op: ast::UnaryOperator::Not, expr } => format!("(NOT {})", shown(expr)),
        E::IsNull(inner) => format!("({} IS NULL)", shown(inner)),
        E::IsNotNull(inner) => format!("({} IS NOT NULL)", shown(inner)),
        E::IsTrue(inner) => format!("({} IS TRUE)", shown(inner)),
        E::IsFalse(inner) => format!("({} IS FALSE)", shown(inner)),
        E::Between { expr, negated: false, low, high } => {
            format!("(({e} >= {}) AND ({e} <= {}))", shown(low), shown(high), e = shown(expr))
        }
        E::InList { expr, list, negated } => {
            let list: Vec<String> = list.iter().map(shown).collect();
            let (op, any) = if *negated { ("<>", "ALL") } else { ("=", "ANY") };
            format!("({} {op} {any} (ARRAY[{}]))", shown(expr), list.join(", "))
        }
        E::Function(function) => {
            let shown_name = crate::extensions::shown_name(&function.name);
            let name = folded_name(shown_name.as_ref().unwrap_or(&function.name));
            let args: Option<Vec<String>> = match &function.args {
                ast::FunctionArguments::List(list) => list
                    .args
                    .iter()
                    .map(|arg| match arg {
                        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(shown(expr)),
                        _ => None,
                    })
                    .collect(),
                _ => None,
            };
            // Words that are calls: CURRENT_USER.
            if matches!(function.args, ast::FunctionArguments::None) {
                return name.to_ascii_uppercase();
            }
            match (args, cast_function_oid(&name)) {
                (Some(args), Some(oid)) if !args.is_empty() => {
                    let typmod = args.get(1).and_then(|typmod| typmod.parse().ok());
                    format!("({})::{}", args[0], types::format_type(oid, typmod))
                }
                (Some(args), None) if args.is_empty() && BARE.contains(&name.as_str()) => name.to_ascii_uppercase(),
                (Some(args), None) if SYNTAX.contains(&name.as_str()) => {
                    format!("{}({})", name.to_ascii_uppercase(), args.join(", "))
                }
                (Some(args), None) => format!("{name}({})", args.join(", ")),
                _ => expr.to_string(),
            }
        }
        other => other.to_string(),
    }
}

/// What [`shown`] gave, without the parentheses around it.
pub fn without_parentheses(text: &str) -> &str {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.filter(|inner| is_balanced(inner)).unwrap_or(text)
}

/// As [`shown`], with no more parentheses than PostgreSQL finds necessary for a reader.
pub fn shown_pretty(expr: &ast::Expr) -> String {
    use ast::BinaryOperator as B;
    let bare = |expr: &ast::Expr| -> ast::Expr {
        let mut expr = expr;
        while let ast::Expr::Nested(inner) = expr {
            expr = inner;
        }
        expr.clone()
    };
    match bare(expr) {
        ast::Expr::BinaryOp { left, op: op @ (B::And | B::Or), right } => {
            let part = |side: &ast::Expr| match bare(side) {
                ast::Expr::BinaryOp { op: B::Or, .. } if op == B::And => format!("({})", shown_pretty(side)),
                _ => shown_pretty(side),
            };
            format!("{} {op} {}", part(&left), part(&right))
        }
        other => without_parentheses(&shown(&other)).to_owned(),
    }
}

/// Whether no parenthesis closes one that is not opened in it.
fn is_balanced(text: &str) -> bool {
    let (mut depth, mut quote) = (0i32, None);
    for c in text.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_postgresql_shows_it() {
        for (sql, expected) in [
            ("a > 0", "(a > 0)"),
            ("a > 0 AND b IS NOT NULL", "((a > 0) AND (b IS NOT NULL))"),
            ("(a + 1) * 2 = b", "(((a + 1) * 2) = b)"),
            ("length(b) < 10", "(length(b) < 10)"),
            ("LENGTH(b) < 10 AND \"F\"(b) < NOW()", "((length(b) < 10) AND (\"F\"(b) < now()))"),
            ("coalesce(a, 1) > LOCALTIME(0)", "(COALESCE(a, 1) > LOCALTIME(0))"),
            ("pg_cast_int4(b) > 3", "((b)::integer > 3)"),
            ("b::int > 3", "((b)::integer > 3)"),
            ("b > 'x'::varchar(3)", "(b > 'x'::character varying(3))"),
            ("b > DATE '2024-01-01'", "(b > '2024-01-01'::date)"),
            ("a BETWEEN 1 AND 5", "((a >= 1) AND (a <= 5))"),
            ("a IN (1, 2)", "(a = ANY (ARRAY[1, 2]))"),
            ("NOT a", "(NOT a)"),
            ("a = session_user", "(a = SESSION_USER)"),
        ] {
            assert_eq!(shown(&parse_expression(sql).expect(sql)), expected, "{sql}");
        }
    }

    #[test]
    fn shown_for_readers() {
        for (sql, expected) in [
            ("a > 0", "a > 0"),
            ("a < b * 2 AND (b IS NULL OR c = ')')", "a < (b * 2) AND (b IS NULL OR c = ')')"),
            ("(a > 1 AND b > 2) OR f(c)", "a > 1 AND b > 2 OR f(c)"),
        ] {
            assert_eq!(shown_pretty(&parse_expression(sql).expect(sql)), expected, "{sql}");
        }
    }

    #[test]
    fn kept_and_read_again() {
        for sql in ["a = session_user OR a IS NULL", "lower(current_user) <> b", "a > now()", "f(a) = current_date()"] {
            let expr = parse_expression(sql).expect(sql);
            assert_eq!(kept_text(&expr), sql);
            assert_eq!(parse_expression(&kept_text(&expr)).expect(sql), expr);
        }
        let called = parse_expression("a = session_user").expect("expression").to_string();
        assert_eq!(called, "a = session_user()");
        // What cannot be read to its end is not read half.
        for sql in [called.as_str(), "a > 0 b", "a = 1, 2", "a > 0;"] {
            assert!(parse_expression(sql).is_err(), "{sql}");
        }
    }
}
