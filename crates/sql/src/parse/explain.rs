//! EXPLAIN of a query in parentheses, which the parser takes for a list of options.
//!
//! | written | read as |
//! |---|---|
//! | `EXPLAIN (SELECT …)`, `EXPLAIN ((SELECT …) UNION …)` | `EXPLAIN (costs) (SELECT …)`, which says nothing that is not so anyway |

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// Words that begin a query.
const BEGINS: [&str; 4] = ["select", "with", "values", "table"];

/// See the module's head.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut at = 0;
    while let Some(found) = tokens[at..].iter().position(|token| is_word(&token.token, "explain")) {
        at += found;
        let begins = tokens[..at].iter().rev().find(|token| !matches!(token.token, Token::Whitespace(_)));
        if begins.is_none_or(|token| token.token == Token::SemiColon)
            && let Some(open) = next(&tokens, at + 1).filter(|open| tokens[*open].token == Token::LParen)
            && let Some(first) = next(&tokens, open + 1)
            && is_query(&tokens[first].token)
        {
            let span = tokens[open].span;
            let options = [Token::LParen, Token::make_word("costs", None), Token::RParen];
            tokens.splice(open..open, options.map(|token| TokenWithSpan::new(token, span)));
        }
        at += 1;
    }
    tokens
}

fn is_query(token: &Token) -> bool {
    *token == Token::LParen || BEGINS.iter().any(|word| is_word(token, word))
}

/// Position of the next token that is no blank, from `at` on.
fn next(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (at..tokens.len()).find(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let tokens = known(crate::pg::lexer::tokens(text).expect("tokens"));
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn options_and_queries_are_told_apart() {
        assert_eq!(read("EXPLAIN (SELECT 1)"), "EXPLAIN (costs)(SELECT 1)");
        assert_eq!(read("select 1; explain ( (select 1) union (select 2))").matches("(costs)").count(), 1);
        for same in ["EXPLAIN (ANALYZE) (SELECT 1)", "EXPLAIN ANALYZE (SELECT 1)", "SELECT explain (1)", "EXPLAIN"] {
            assert_eq!(read(same), same);
        }
    }
}
