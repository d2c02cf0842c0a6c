//! Clauses of identity columns that the parser does not know, in words that it knows.
//!
//! | written | read as |
//! |---|---|
//! | `ALTER COLUMN a SET GENERATED ALWAYS SET INCREMENT BY 2 RESTART` | `ALTER COLUMN a SET DEFAULT resurgam$identity('SET GENERATED …')` |
//! | `ALTER COLUMN a DROP IDENTITY [IF EXISTS]` | the same |
//! | `ALTER COLUMN a ADD GENERATED … AS IDENTITY (SEQUENCE NAME s …)` | the same |
//! | `INSERT INTO t (a) OVERRIDING SYSTEM VALUE …` | `INSERT INTO t (a, resurgam$overriding_system) …` |
//! | `INSERT INTO t OVERRIDING USER VALUE …` | `INSERT INTO t (resurgam$overriding_user) …` |

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// The function in whose call these clauses are read.
pub(crate) const IDENTITY: &str = "resurgam$identity";

/// The column in an INSERT's list that stands for OVERRIDING SYSTEM VALUE.
pub(crate) const OVERRIDING_SYSTEM: &str = "resurgam$overriding_system";
/// The same for OVERRIDING USER VALUE.
pub(crate) const OVERRIDING_USER: &str = "resurgam$overriding_user";

/// The words behind SET that begin an option of a sequence.
const OPTIONS: [&str; 10] =
    ["generated", "increment", "minvalue", "maxvalue", "no", "start", "restart", "cache", "cycle", "owned"];

fn is(tokens: &[TokenWithSpan], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(&token.token, word))
}

/// See the module's head.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |words: &[&str]| words.iter().any(|word| tokens.iter().any(|token| is_word(&token.token, word)));
    let alters = has(&["alter"]) && (has(&OPTIONS) || has(&["identity"]));
    let overrides = has(&["overriding"]);
    if !alters && !overrides {
        return tokens;
    }
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let (mut at, mut first) = (0, 0);
    while at < tokens.len() {
        let begins_alter = is(&tokens, first, "alter") && is(&tokens, first + 1, "table");
        if tokens[at].token == Token::SemiColon {
            first = at + 1;
        } else if begins_alter && at > first + 2 && is(&tokens, at, "alter") {
            // The column's name, then what is done to it.
            let name = if is(&tokens, at + 1, "column") { at + 2 } else { at + 1 };
            if concerns(&tokens, name + 1) {
                let end = end_of(&tokens, name + 1);
                out.extend_from_slice(&tokens[at..=name]);
                out.extend(marked(&tokens[name + 1..end]));
                at = end;
                continue;
            }
        } else if is(&tokens, at, "overriding") && is(&tokens, at + 2, "value") {
            let column = match () {
                () if is(&tokens, at + 1, "system") => Some(OVERRIDING_SYSTEM),
                () if is(&tokens, at + 1, "user") => Some(OVERRIDING_USER),
                () => None,
            };
            let begins_insert = tokens[first..at].iter().any(|token| is_word(&token.token, "insert"));
            if let Some(column) = column.filter(|_| begins_insert) {
                let span = tokens[at].span;
                let of = |token| TokenWithSpan { token, span };
                // Into the list of columns, or a list of its own.
                match out.pop() {
                    Some(TokenWithSpan { token: Token::RParen, .. }) => out.push(of(Token::Comma)),
                    before => {
                        out.extend(before);
                        out.push(of(Token::LParen));
                    }
                }
                out.extend([of(Token::make_word(column, None)), of(Token::RParen)]);
                at += 3;
                continue;
            }
        }
        out.push(tokens[at].clone());
        at += 1;
    }
    out
}

/// Whether clauses of identity begin there.
fn concerns(tokens: &[TokenWithSpan], at: usize) -> bool {
    let names_sequence = || {
        let clauses = &tokens[at..end_of(tokens, at)];
        (0..clauses.len()).any(|at| is(clauses, at, "sequence") && is(clauses, at + 1, "name"))
    };
    is(tokens, at, "restart")
        || is(tokens, at, "add") && is(tokens, at + 1, "generated") && names_sequence()
        || is(tokens, at, "drop") && is(tokens, at + 1, "identity")
        || is(tokens, at, "set") && OPTIONS.iter().any(|word| is(tokens, at + 1, word))
}

/// Where the clauses end that begin there.
fn end_of(tokens: &[TokenWithSpan], at: usize) -> usize {
    let ends = |token: &TokenWithSpan| matches!(token.token, Token::Comma | Token::SemiColon | Token::EOF);
    tokens[at..].iter().position(ends).map_or(tokens.len(), |end| at + end)
}

/// The DEFAULT that stands for clauses.
fn marked(clauses: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let Some(first) = clauses.first() else { return Vec::new() };
    let of = |token| TokenWithSpan { token, span: first.span };
    let word = |text: &str| of(Token::make_word(text, None));
    let text: Vec<String> = clauses.iter().map(|token| token.token.to_string()).collect();
    vec![
        word("SET"),
        word("DEFAULT"),
        word(IDENTITY),
        of(Token::LParen),
        of(Token::SingleQuotedString(text.join(" "))),
        of(Token::RParen),
    ]
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn clauses_are_put_into_words_that_are_known() {
        for (text, wanted) in [
            (
                "ALTER TABLE t ALTER a SET GENERATED ALWAYS RESTART WITH -5, ALTER COLUMN b DROP IDENTITY IF EXISTS; x",
                "ALTER TABLE t ALTER a SET DEFAULT resurgam$identity ( 'SET GENERATED ALWAYS RESTART WITH - 5' ) , \
                 ALTER COLUMN b SET DEFAULT resurgam$identity ( 'DROP IDENTITY IF EXISTS' ) ; x",
            ),
            ("ALTER TABLE t ALTER a RESTART", "ALTER TABLE t ALTER a SET DEFAULT resurgam$identity ( 'RESTART' )"),
            ("ALTER TABLE t ALTER a SET DEFAULT 1, ADD no int", "ALTER TABLE t ALTER a SET DEFAULT 1 , ADD no int"),
            (
                "INSERT INTO t (a, b) OVERRIDING SYSTEM VALUE VALUES (1, 2)",
                "INSERT INTO t ( a , b , resurgam$overriding_system ) VALUES ( 1 , 2 )",
            ),
            (
                "INSERT INTO t AS u OVERRIDING USER VALUE SELECT 1",
                "INSERT INTO t AS u ( resurgam$overriding_user ) SELECT 1",
            ),
            ("SELECT overriding, user, value FROM t", "SELECT overriding , user , value FROM t"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
            let tokens = known(tokens);
            let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
            let shown: Vec<String> = tokens.map(|token| token.token.to_string()).collect();
            assert_eq!(shown.join(" "), wanted);
        }
    }
}
