//! `WHERE CURRENT OF cursor`, which the parser does not know.
//!
//! | written | read as |
//! |---|---|
//! | `UPDATE … WHERE CURRENT OF c` | `UPDATE … WHERE "␁current_of"('c')` |
//!
//! Only the condition of an UPDATE or DELETE is that; anywhere else `OF` is where the text goes wrong, as in PostgreSQL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, Statement, Value, Visitor,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use resurgam_ast::AstWalk;

use crate::parse::words::is_word;
use crate::pg::errors;
use crate::wire::SqlError;

/// No client's name begins like this.
const NAME: &str = "\u{1}current_of";

/// See the module's head; and whether there was one.
///
/// # Errors
/// `42601` where an UPDATE or DELETE names no cursor.
pub(crate) fn known(tokens: Vec<TokenWithSpan>, text: &str) -> Result<(Vec<TokenWithSpan>, bool), SqlError> {
    if !tokens.iter().any(|token| is_word(&token.token, "current")) {
        return Ok((tokens, false));
    }
    let mut tokens = tokens;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let (mut at, mut any) = (0, false);
    // The last word that began something with a condition.
    let mut writes = false;
    while at + 2 < tokens.len() {
        let is = |word: &str| is_word(&tokens[at].token, word);
        if is("update") || is("delete") || is("select") {
            writes = !is("select");
        }
        if is("where") && is_word(&tokens[at + 1].token, "current") && is_word(&tokens[at + 2].token, "of") {
            let name = match tokens.get(at + 3).map(|token| &token.token) {
                Some(Token::Word(name)) if !name.value.eq_ignore_ascii_case("returning") => Some(name),
                Some(Token::Word(name)) if name.quote_style.is_some() => Some(name),
                _ => None,
            };
            let Some(name) = name else {
                if writes {
                    return Err(unexpected(tokens.get(at + 3), text));
                }
                at += 1;
                continue;
            };
            let cursor = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
            // A text that is not what this is for goes wrong at OF.
            let span = tokens[at + 2].span;
            let word = Word { value: NAME.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
            let call = [Token::Word(word), Token::LParen, Token::SingleQuotedString(cursor), Token::RParen];
            tokens.splice(at + 1..at + 4, call.map(|token| TokenWithSpan { token, span }));
            any = true;
        }
        at += 1;
    }
    Ok((tokens, any))
}

/// `42601` at what stands where the cursor's name has to.
fn unexpected(token: Option<&TokenWithSpan>, text: &str) -> SqlError {
    let Some(found) = token.filter(|token| token.token != Token::EOF) else {
        return SqlError::syntax("syntax error at end of input");
    };
    let mut error = SqlError::syntax(format!("syntax error at or near \"{}\"", found.token));
    error.position = errors::character_position(text, found.span.start.line, found.span.start.column);
    error
}

/// The cursor whose row a condition means, if it is `CURRENT OF`.
pub(crate) fn cursor_of(condition: &Expr) -> Option<&str> {
    let Expr::Function(call) = condition else { return None };
    let is_it = matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == NAME));
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] if is_it => match &value.value {
            Value::SingleQuotedString(cursor) => Some(cursor),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses it where it is not the condition of an UPDATE or DELETE.
///
/// # Errors
/// `42601`
pub(crate) fn check(statement: &Statement, text: &str) -> Result<(), SqlError> {
    #[derive(Default)]
    struct Find {
        /// Conditions that may be it, and were not met yet.
        allowed: usize,
    }
    impl Visitor for Find {
        type Break = Expr;
        fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<Expr> {
            let condition = match statement {
                Statement::Update(update) => update.selection.as_ref(),
                Statement::Delete(delete) => delete.selection.as_ref(),
                _ => None,
            };
            self.allowed += usize::from(condition.is_some_and(|condition| cursor_of(condition).is_some()));
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Expr> {
            if cursor_of(expr).is_none() {
                return ControlFlow::Continue(());
            }
            match self.allowed.checked_sub(1) {
                Some(left) => self.allowed = left,
                None => return ControlFlow::Break(expr.clone()),
            }
            ControlFlow::Continue(())
        }
    }
    match statement.walk(&mut Find::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(found) => {
            let start = found.span().start;
            let mut error = SqlError::syntax("syntax error at or near \"of\"");
            error.position = errors::character_position(text, start.line, start.column);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::read::parse_known;

    #[test]
    fn where_it_may_stand() {
        for good in [
            "UPDATE t SET a = 1 WHERE CURRENT OF c",
            "delete from t where current\n of \"C d\" returning *",
            "UPDATE t SET a = u.a FROM u WHERE CURRENT OF c",
            "WITH x AS (DELETE FROM t WHERE CURRENT OF c RETURNING *) SELECT * FROM x",
            "SELECT current FROM t WHERE current = 1",
        ] {
            assert!(parse_known(good).is_ok(), "{good}");
        }
        for bad in [
            "SELECT * FROM t WHERE CURRENT OF c",
            "UPDATE t SET a = (SELECT 1 WHERE CURRENT OF c)",
            "DELETE FROM t WHERE CURRENT OF c AND a = 1",
        ] {
            let error = parse_known(bad).expect_err(bad);
            assert_eq!(error.sqlstate.as_str(), "42601", "{bad}");
        }
        let error = parse_known("SELECT 1 WHERE CURRENT OF c").expect_err("not an UPDATE");
        assert_eq!(error.position, Some(24));
        for (nameless, position) in [
            ("DELETE FROM t WHERE CURRENT OF", None),
            ("DELETE FROM t WHERE CURRENT OF;", Some(31)),
            ("DELETE FROM t WHERE CURRENT OF 1", Some(32)),
            ("UPDATE t SET a = 1 WHERE CURRENT OF 'c'", Some(37)),
            ("DELETE FROM t WHERE CURRENT OF RETURNING a", Some(32)),
            ("SELECT 1 WHERE CURRENT OF", Some(24)),
        ] {
            let error = parse_known(nameless).expect_err(nameless);
            assert_eq!((error.sqlstate.as_str(), error.position), ("42601", position), "{nameless}");
        }
        assert!(parse_known("DELETE FROM t WHERE CURRENT OF \"returning\"").is_ok());
    }
}
