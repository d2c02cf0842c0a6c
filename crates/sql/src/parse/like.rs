//! Clauses of definitions that the parser does not know, in words that it knows; what they stand for is put in when the
//! statement is run.
//!
//! | written | read as |
//! |---|---|
//! | `CREATE TABLE … (…, LIKE t INCLUDING ALL, …)` | `"resurgam$like" int DEFAULT resurgam$like('t', ' including all')` |
//! | `ALTER COLUMN a DROP EXPRESSION [IF EXISTS]` | `ALTER COLUMN a SET DEFAULT resurgam$drop_expression([1])` |
//! | `ALTER COLUMN a TYPE text COLLATE "C" [USING b]` | `ALTER COLUMN a TYPE text USING resurgam$collate(NULL COLLATE "C" [, (b)])` |
//! | `CREATE VIEW v WITH (security_barrier) AS …` | `WITH (security_barrier = true)` |

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// Name of the column, and of the function, in which the clause is read.
pub(crate) const LIKE: &str = "resurgam$like";

/// The function in whose call ALTER COLUMN … DROP EXPRESSION is read.
pub(crate) const DROP_EXPRESSION: &str = "resurgam$drop_expression";

/// The function that stands for COLLATE behind a type.
pub(crate) const COLLATE: &str = "resurgam$collate";

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const WORDS: [&str; 4] = ["like", "expression", "security_barrier", "collate"];
    let concerns = |token: &TokenWithSpan| {
        WORDS.iter().any(|word| is_word(&token.token, word)) || is_word(&token.token, "security_invoker")
    };
    let defines = |token: &TokenWithSpan| is_word(&token.token, "create") || is_word(&token.token, "alter");
    if !tokens.iter().any(defines) || !tokens.iter().any(concerns) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 8);
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

fn is(tokens: &[TokenWithSpan], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(&token.token, word))
}

/// The tokens of one statement.
fn one(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if is(&tokens, 0, "alter") && is(&tokens, 1, "table") {
        return collated_types(drop_expression(tokens));
    }
    if !is(&tokens, 0, "create") {
        return tokens;
    }
    // The word that says what is created; tables in queries of views are none.
    let kind = tokens
        .iter()
        .take(5)
        .find_map(|token| ["table", "view", "index"].into_iter().find(|kind| is_word(&token.token, kind)));
    match kind {
        Some("table") => like(tokens),
        Some("view") => options(tokens),
        _ => tokens,
    }
}

fn drop_expression(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out = Vec::with_capacity(tokens.len() + 4);
    let mut at = 0;
    while at < tokens.len() {
        if is(&tokens, at, "drop") && is(&tokens, at + 1, "expression") {
            let span = tokens[at].span;
            let of = |token| TokenWithSpan { token, span };
            let word = |text: &str| of(Token::make_word(text, None));
            let if_exists = is(&tokens, at + 2, "if") && is(&tokens, at + 3, "exists");
            out.extend([word("SET"), word("DEFAULT"), word(DROP_EXPRESSION), of(Token::LParen)]);
            out.extend(if_exists.then(|| of(Token::Number("1".to_owned(), false))));
            out.push(of(Token::RParen));
            at += if if_exists { 4 } else { 2 };
            continue;
        }
        out.push(tokens[at].clone());
        at += 1;
    }
    out
}

/// Where what begins at `from` ends: at a comma, at the end, or at one of `words`, outside of parentheses.
fn end_of(tokens: &[TokenWithSpan], from: usize, words: &[&str]) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => return at,
            word if depth == 0 && words.iter().any(|wanted| is_word(word, wanted)) => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// Collations of columns that get another type.
fn collated_types(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out = Vec::with_capacity(tokens.len() + 8);
    let mut at = 0;
    while at < tokens.len() {
        out.push(tokens[at].clone());
        at += 1;
        if !is(&tokens, at - 1, "type") {
            continue;
        }
        let collate = end_of(&tokens, at, &["collate", "using"]);
        if !is(&tokens, collate, "collate") {
            continue;
        }
        let span = tokens[collate].span;
        let of = |token| TokenWithSpan { token, span };
        let word = |text: &str| of(Token::make_word(text, None));
        out.extend_from_slice(&tokens[at..collate]);
        let using = end_of(&tokens, collate, &["using"]);
        out.extend([word("USING"), word(COLLATE), of(Token::LParen), word("NULL")]);
        out.extend_from_slice(&tokens[collate..using]);
        at = using;
        if is(&tokens, using, "using") {
            at = end_of(&tokens, using, &[]);
            out.extend([of(Token::Comma), of(Token::LParen)]);
            out.extend_from_slice(&tokens[using + 1..at]);
            out.push(of(Token::RParen));
        }
        out.push(of(Token::RParen));
    }
    out
}

/// Options of a view that are there without a value.
fn options(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let end = tokens.iter().position(|token| is_word(&token.token, "as")).unwrap_or(0);
    let mut out = Vec::with_capacity(tokens.len() + 4);
    for (at, token) in tokens.iter().enumerate() {
        out.push(token.clone());
        let is_option = at < end
            && ["security_barrier", "security_invoker"].iter().any(|option| is_word(&token.token, option))
            && matches!(tokens.get(at + 1).map(|next| &next.token), Some(Token::Comma | Token::RParen));
        if is_option {
            let span = token.span;
            out.push(TokenWithSpan { token: Token::Eq, span });
            out.push(TokenWithSpan { token: Token::make_word("true", None), span });
        }
    }
    out
}

fn like(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let (mut depth, mut at) = (0usize, 0);
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let begins = matches!(out.last().map(|token| &token.token), Some(Token::LParen | Token::Comma));
        if depth != 1 || !begins || !is(&tokens, at, "like") {
            // A query has no elements.
            if depth == 0 && is(&tokens, at, "as") {
                out.extend_from_slice(&tokens[at..]);
                return out;
            }
            out.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let span = tokens[at].span;
        let of = |token| TokenWithSpan { token, span };
        let word = |text: &str| of(Token::make_word(text, None));
        let mut next = at + 1;
        let mut name = String::new();
        while let Some(token) = tokens.get(next) {
            match &token.token {
                Token::Word(_) if name.is_empty() || name.ends_with('.') => name.push_str(&token.token.to_string()),
                Token::Period => name.push('.'),
                _ => break,
            }
            next += 1;
        }
        let mut options = String::new();
        while is(&tokens, next, "including") || is(&tokens, next, "excluding") {
            for token in tokens.iter().skip(next).take(2) {
                options.push(' ');
                options.push_str(&token.token.to_string().to_ascii_lowercase());
            }
            next += 2;
        }
        out.extend([
            of(Token::make_word(LIKE, Some('"'))),
            word("int"),
            word("DEFAULT"),
            word(LIKE),
            of(Token::LParen),
        ]);
        out.extend([of(Token::SingleQuotedString(name)), of(Token::Comma), of(Token::SingleQuotedString(options))]);
        out.push(of(Token::RParen));
        at = next;
    }
    out
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn forms() {
        for (text, wanted) in [
            ("SELECT a LIKE 'b'", "SELECT a LIKE 'b'"),
            (
                "CREATE TABLE t (a text CHECK (a LIKE 'x'), LIKE public.\"U\" INCLUDING all EXCLUDING indexes, b int)",
                "CREATE TABLE t ( a text CHECK ( a LIKE 'x' ) , \"resurgam$like\" int DEFAULT resurgam$like ( \
                 'public.\"U\"' , ' including all excluding indexes' ) , b int )",
            ),
            ("CREATE TABLE t AS SELECT f(a, b LIKE 'x')", "CREATE TABLE t AS SELECT f ( a , b LIKE 'x' )"),
            (
                "ALTER TABLE t ALTER a DROP EXPRESSION IF EXISTS, ALTER b DROP EXPRESSION",
                "ALTER TABLE t ALTER a SET DEFAULT resurgam$drop_expression ( 1 ) , ALTER b SET DEFAULT \
                 resurgam$drop_expression ( )",
            ),
            (
                "ALTER TABLE t ALTER a TYPE varchar(3) COLLATE \"C\", ALTER COLUMN b SET DATA TYPE text COLLATE x.\"D\" USING f(a, b)",
                "ALTER TABLE t ALTER a TYPE varchar ( 3 ) USING resurgam$collate ( NULL COLLATE \"C\" ) , ALTER COLUMN b SET \
                 DATA TYPE text USING resurgam$collate ( NULL COLLATE x . \"D\" , ( f ( a , b ) ) )",
            ),
            (
                "ALTER TABLE t ALTER a TYPE text USING a COLLATE \"C\"",
                "ALTER TABLE t ALTER a TYPE text USING a COLLATE \"C\"",
            ),
            (
                "CREATE VIEW v WITH (security_barrier, check_option = local) AS SELECT security_barrier FROM t",
                "CREATE VIEW v WITH ( security_barrier = true , check_option = local ) AS SELECT security_barrier FROM t",
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
