//! Forms of CREATE VIEW that the parser does not know, in words that it knows.
//!
//! | written | read as |
//! |---|---|
//! | `CREATE VIEW v … AS query WITH [LOCAL, CASCADED] CHECK OPTION` | `CREATE VIEW v … WITH (check_option = local) AS query` |
//! | `CREATE RECURSIVE VIEW v (a, b) AS query` | `CREATE VIEW v (a, b) AS WITH RECURSIVE v (a, b) AS (query) SELECT a, b FROM v` |
//!
//! Both are what PostgreSQL makes of them, too.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

fn is_view(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == Keyword::VIEW && word.quote_style.is_none())
}

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(is_view) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 16);
    let mut statement = Vec::new();
    for token in tokens {
        match token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon | Token::EOF => {
                out.append(&mut one(std::mem::take(&mut statement)));
                out.push(token);
            }
            _ => statement.push(token),
        }
    }
    out.append(&mut one(statement));
    out
}

/// The tokens of one statement.
fn one(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |tokens: &[TokenWithSpan], at: usize, word: &str| {
        tokens.get(at).is_some_and(|token| is_word(&token.token, word))
    };
    if !is(&tokens, 0, "create") {
        return tokens;
    }
    let mut at = 1;
    if is(&tokens, at, "or") && is(&tokens, at + 1, "replace") {
        at += 2;
    }
    if is(&tokens, at, "temp") || is(&tokens, at, "temporary") {
        at += 1;
    }
    let recursive = is(&tokens, at, "recursive");
    if !tokens.get(at + usize::from(recursive)).is_some_and(is_view) {
        return tokens;
    }
    if recursive {
        tokens.remove(at);
    }
    // The AS before the query.
    let mut depth = 0usize;
    let as_at = tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(&token.token, "as")
    });
    let Some(mut as_at) = as_at else { return tokens };
    let len = tokens.len();
    if len > as_at + 3 && is(&tokens, len - 1, "option") && is(&tokens, len - 2, "check") {
        let named = ["local", "cascaded"].into_iter().find(|how| is(&tokens, len - 3, how));
        let from = len - 3 - usize::from(named.is_some());
        if is(&tokens, from, "with") {
            let span = tokens[from].span;
            tokens.truncate(from);
            let token = |token| TokenWithSpan { token, span };
            let word = |text: &str| token(Token::make_word(text, None));
            let option = [word("check_option"), token(Token::Eq), word(named.unwrap_or("cascaded"))];
            // Behind other options, if there are some.
            let has_options = tokens[..as_at].iter().any(|token| is_word(&token.token, "with"));
            let added: Vec<TokenWithSpan> = match has_options {
                true => {
                    as_at -= 1;
                    [token(Token::Comma)].into_iter().chain(option).collect()
                }
                false => {
                    let (open, close) = ([word("WITH"), token(Token::LParen)], [token(Token::RParen)]);
                    open.into_iter().chain(option).chain(close).collect()
                }
            };
            let count = added.len();
            tokens.splice(as_at..as_at, added);
            as_at += count + usize::from(has_options);
        }
    }
    if recursive {
        as_recursive(&mut tokens, at + 1, as_at);
    }
    tokens
}

/// Wraps the query behind `as_at`; the view's name is at `name`.
fn as_recursive(tokens: &mut Vec<TokenWithSpan>, name: usize, as_at: usize) {
    let Some(open) = tokens[..as_at].iter().position(|token| token.token == Token::LParen) else { return };
    let Some(close) = tokens[open..as_at].iter().position(|token| token.token == Token::RParen) else { return };
    let close = open + close;
    let Some(own) = tokens[name..open].last().cloned() else { return };
    let list = tokens[open..=close].to_vec();
    let names = tokens[open + 1..close].to_vec();
    let span = own.span;
    let token = |token| TokenWithSpan { token, span };
    let word = |text: &str| token(Token::make_word(text, None));
    let mut before = vec![word("WITH"), word("RECURSIVE"), own.clone()];
    before.extend(list);
    before.extend([word("AS"), token(Token::LParen)]);
    tokens.push(token(Token::RParen));
    tokens.push(word("SELECT"));
    tokens.extend(names);
    tokens.extend([word("FROM"), own]);
    tokens.splice(as_at + 1..as_at + 1, before);
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn forms() {
        for (text, wanted) in [
            ("SELECT 1 AS view", "SELECT 1 AS view"),
            ("CREATE VIEW v AS SELECT 1;", "CREATE VIEW v AS SELECT 1 ;"),
            (
                "CREATE VIEW v (a) AS SELECT 1 WITH CHECK OPTION; SELECT 2",
                "CREATE VIEW v ( a ) WITH ( check_option = cascaded ) AS SELECT 1 ; SELECT 2",
            ),
            (
                "CREATE OR REPLACE VIEW v WITH (security_barrier) AS SELECT 1 WITH LOCAL CHECK OPTION",
                "CREATE OR REPLACE VIEW v WITH ( security_barrier , check_option = local ) AS SELECT 1",
            ),
            (
                "CREATE RECURSIVE VIEW public.v (a, b) AS SELECT 1, 2",
                "CREATE VIEW public . v ( a , b ) AS WITH RECURSIVE v ( a , b ) AS ( SELECT 1 , 2 ) SELECT a , b FROM v",
            ),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let shown: Vec<String> = known(tokens)
                .iter()
                .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
                .map(|token| token.token.to_string())
                .collect();
            assert_eq!(shown.join(" "), wanted);
        }
    }
}
