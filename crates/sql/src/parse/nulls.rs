//! What UNIQUE of a column says of NULLs, which the parser knows of a table's UNIQUE only.
//!
//! | written | read as |
//! |---|---|
//! | `a int UNIQUE NULLS NOT DISTINCT` | `a int UNIQUE COMMENT 'resurgam$nulls_not_distinct'` |
//! | `a int UNIQUE NULLS DISTINCT` | `a int UNIQUE` |

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// The comment that stands for NULLS NOT DISTINCT.
pub(crate) const NOT_DISTINCT: &str = "resurgam$nulls_not_distinct";

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|token| is_word(&token.token, word));
    if !has("nulls") || !has("unique") {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let before = out.iter().rev().find(|token| !is_blank(token));
        if is_word(&tokens[at].token, "nulls")
            && before.is_some_and(|token| is_word(&token.token, "unique"))
            && let Some((end, not)) = clause(&tokens, at)
        {
            let of = |token| TokenWithSpan { token, span: tokens[at].span };
            // What is said of DEFERRABLE belongs to UNIQUE.
            let behind = characteristics(&tokens, end);
            out.extend_from_slice(&tokens[end..behind]);
            let end = behind;
            if not {
                out.push(of(Token::make_word("COMMENT", None)));
                out.push(of(Token::SingleQuotedString(NOT_DISTINCT.to_owned())));
            }
            at = end;
            continue;
        }
        out.push(tokens[at].clone());
        at += 1;
    }
    out
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Where the clause that begins at `at` ends, and whether it says NOT; `None` where columns follow: it is a table's.
fn clause(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, bool)> {
    let mut words = (at + 1..tokens.len()).filter(|at| !is_blank(&tokens[*at]));
    let mut word = words.next()?;
    let not = is_word(&tokens[word].token, "not");
    if not {
        word = words.next()?;
    }
    if !is_word(&tokens[word].token, "distinct") {
        return None;
    }
    match words.next() {
        Some(next) if tokens[next].token == Token::LParen => None,
        _ => Some((word + 1, not)),
    }
}

/// Where what is said of DEFERRABLE ends, which may begin at `at`.
fn characteristics(tokens: &[TokenWithSpan], at: usize) -> usize {
    let mut end = at;
    loop {
        let mut words = (end..tokens.len()).filter(|at| !is_blank(&tokens[*at]));
        let [first, second] = [words.next(), words.next()];
        let is = |at: Option<usize>, word: &str| at.is_some_and(|at| is_word(&tokens[at].token, word));
        let last = match () {
            () if is(first, "deferrable") => first,
            () if is(first, "not") && is(second, "deferrable") => second,
            () if is(first, "initially") && (is(second, "deferred") || is(second, "immediate")) => second,
            () => None,
        };
        match last {
            Some(last) => end = last + 1,
            None => return end,
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
                "CREATE TABLE t (a int UNIQUE NULLS NOT DISTINCT, b int UNIQUE nulls distinct NOT NULL)",
                "CREATE TABLE t (a int UNIQUE COMMENT'resurgam$nulls_not_distinct', b int UNIQUE  NOT NULL)",
            ),
            (
                "CREATE TABLE t (a int UNIQUE NULLS NOT DISTINCT DEFERRABLE INITIALLY DEFERRED NOT NULL)",
                "CREATE TABLE t (a int UNIQUE  DEFERRABLE INITIALLY DEFERREDCOMMENT'resurgam$nulls_not_distinct' NOT NULL)",
            ),
            (
                "CREATE TABLE t (a int, UNIQUE NULLS NOT DISTINCT (a))",
                "CREATE TABLE t (a int, UNIQUE NULLS NOT DISTINCT (a))",
            ),
            ("SELECT nulls FROM t ORDER BY a NULLS FIRST", "SELECT nulls FROM t ORDER BY a NULLS FIRST"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let shown: String =
                known(tokens).iter().filter(|t| t.token != Token::EOF).map(|t| t.token.to_string()).collect();
            assert_eq!(shown, wanted);
        }
    }
}
