//! INCLUDE of keys, which the parser knows of CREATE INDEX only: the columns become names among the key's, with a mark
//! before them.
//!
//! | written | read as |
//! |---|---|
//! | `UNIQUE (a, b) INCLUDE (c)`, `PRIMARY KEY (a) INCLUDE (c)` | `UNIQUE (a, b, "␁ic")`, `PRIMARY KEY (a, "␁ic")` |

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::parse::words::is_word;

/// Begins no name that anybody wants.
const MARK: &str = "\u{1}i";

/// The included column that a name in a key stands for.
pub(crate) fn included(ident: &Ident) -> Option<Ident> {
    ident.value.strip_prefix(MARK).map(|name| Ident::with_quote('"', name))
}

/// See the module's head.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut at = 0;
    while let Some(found) = tokens[at..].iter().position(|token| is_word(&token.token, "include")) {
        at += found;
        if let Some((close, end, names)) = clause(&tokens, at) {
            tokens.splice(close..end, names);
        }
        at += 1;
    }
    tokens
}

/// Position of the next token that is no blank, from `at` on.
fn next(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (at..tokens.len()).find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
}

/// Position of the last token before `at` that is no blank.
fn before(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (0..at).rev().find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
}

/// Of the word at `at`, if it is of a key: where the key's parenthesis closes, where the clause's does, and what takes the
/// place of what is from the former to the latter.
fn clause(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, usize, Vec<TokenWithSpan>)> {
    let close = before(tokens, at).filter(|at| tokens[*at].token == Token::RParen)?;
    // A key's columns are names.
    let open = (0..close).rev().find(|at| matches!(tokens[*at].token, Token::LParen | Token::RParen))?;
    let word = before(tokens, open)?;
    let is = |at: usize, word: &str| is_word(&tokens[at].token, word);
    let before_word = || before(tokens, word);
    let of_key = tokens[open].token == Token::LParen
        && (is(word, "unique")
            || is(word, "key") && before_word().is_some_and(|at| is(at, "primary"))
            || is(word, "distinct") && before_word().is_some_and(|at| is(at, "nulls") || is(at, "not")));
    if !of_key {
        return None;
    }
    let begin = next(tokens, at + 1).filter(|at| tokens[*at].token == Token::LParen)?;
    let mut out = Vec::new();
    let mut next_at = begin + 1;
    loop {
        let name = next(tokens, next_at)?;
        let Token::Word(word) = &tokens[name].token else { return None };
        let of = |token| TokenWithSpan { token, span: tokens[name].span };
        let value = if word.quote_style.is_some() { word.value.clone() } else { word.value.to_ascii_lowercase() };
        let value = format!("{MARK}{value}");
        out.push(of(Token::Comma));
        out.push(of(Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword })));
        let end = next(tokens, name + 1)?;
        match tokens[end].token {
            Token::Comma => next_at = end + 1,
            Token::RParen => return Some((close, end, out)),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn forms() {
        for (text, wanted) in [
            (
                "CREATE TABLE t (a int, UNIQUE (a) INCLUDE (B, \"C\"), PRIMARY KEY(a)include(b))",
                "CREATE TABLE t (a int, UNIQUE (a,\"\u{1}ib\",\"\u{1}iC\"), PRIMARY KEY(a,\"\u{1}ib\"))",
            ),
            (
                "ALTER TABLE t ADD UNIQUE NULLS NOT DISTINCT (a) INCLUDE (b) DEFERRABLE",
                "ALTER TABLE t ADD UNIQUE NULLS NOT DISTINCT (a,\"\u{1}ib\") DEFERRABLE",
            ),
            ("CREATE INDEX ON key (a) INCLUDE (b)", "CREATE INDEX ON key (a) INCLUDE (b)"),
            ("SELECT DISTINCT (a) include FROM t", "SELECT DISTINCT (a) include FROM t"),
            ("ALTER TABLE t ADD UNIQUE (a) INCLUDE (a + 1)", "ALTER TABLE t ADD UNIQUE (a) INCLUDE (a + 1)"),
            ("ALTER TABLE t ADD UNIQUE (a) INCLUDE (a", "ALTER TABLE t ADD UNIQUE (a) INCLUDE (a"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let shown: String =
                known(tokens).iter().filter(|t| t.token != Token::EOF).map(|t| t.token.to_string()).collect();
            assert_eq!(shown, wanted);
        }
    }
}
