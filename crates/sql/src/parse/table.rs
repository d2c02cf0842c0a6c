//! Clauses of CREATE TABLE and ALTER TABLE that the parser does not know, in words that it knows; what they stand for is done
//! when the statement is run.
//!
//! | written | read as |
//! |---|---|
//! | `CREATE TABLE t (a, b) AS query` | `CREATE TABLE t (a resurgam$column, b resurgam$column) AS query` |
//! | `CREATE TABLE t AS query WITH NO DATA` | `CREATE TABLE t (resurgam$no_data resurgam$column) AS query` |
//! | `CREATE TABLE t AS EXECUTE p (1)` | `CREATE TABLE t AS SELECT resurgam$execute('p', 1)` |
//! | `CREATE TABLE … USING heap`, `WITHOUT OIDS` | without it: it is what tables are |
//! | `ALTER COLUMN a SET STATISTICS 5`, `SET STORAGE`, `SET COMPRESSION`, `SET (…)`, `RESET (…)` | `ALTER COLUMN a SET DEFAULT resurgam$idle('SET STATISTICS 5')` |
//! | `ALTER TABLE t RESET (a)` | `ALTER TABLE t SET (resurgam$reset = 1, a = 1)` |
//! | `ALTER TABLE t SET WITHOUT OIDS`, `SET LOGGED`, `SET TABLESPACE pg_default` and their kin | `ALTER TABLE t SET (resurgam$reset = 1)` |

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::parse::words::is_word;
use crate::wire::SqlError;

/// The type of the columns of which CREATE TABLE AS gives names alone.
pub(crate) const COLUMN: &str = "resurgam$column";
/// The column that stands for WITH NO DATA.
pub(crate) const NO_DATA: &str = "resurgam$no_data";
/// The function that stands for EXECUTE.
pub(crate) const EXECUTE: &str = "resurgam$execute";
/// The default that stands for what is said of how a column is stored.
pub(crate) const IDLE: &str = "resurgam$idle";
/// The storage parameter that stands for RESET.
pub(crate) const RESET: &str = "resurgam$reset";

/// See the module's head. There is no white space among the tokens.
///
/// # Errors
/// `42704` for an access method of tables that does not exist.
pub(crate) fn known(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    let defines = |token: &TokenWithSpan| is_word(&token.token, "create") || is_word(&token.token, "alter");
    if !tokens.iter().any(defines) {
        return Ok(tokens);
    }
    let mut out = Vec::with_capacity(tokens.len() + 8);
    let mut statement = Vec::new();
    for token in tokens {
        match token.token {
            Token::SemiColon | Token::EOF => {
                out.append(&mut one(std::mem::take(&mut statement))?);
                out.push(token);
            }
            _ => statement.push(token),
        }
    }
    out.append(&mut one(statement)?);
    Ok(out)
}

fn is(tokens: &[TokenWithSpan], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(&token.token, word))
}

fn are(tokens: &[TokenWithSpan], at: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(i, word)| is(tokens, at + i, word))
}

fn has(tokens: &[TokenWithSpan], at: usize, wanted: &Token) -> bool {
    tokens.get(at).is_some_and(|token| token.token == *wanted)
}

fn of(token: Token, span: Span) -> TokenWithSpan {
    TokenWithSpan { token, span }
}

fn word(text: &str, span: Span) -> TokenWithSpan {
    of(Token::make_word(text, None), span)
}

/// How deep in parentheses and brackets each token is; one that opens or closes counts as outside.
fn depths(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mut depth = 0usize;
    let depth_of = |token: &TokenWithSpan| match token.token {
        Token::LParen | Token::LBracket => {
            depth += 1;
            depth - 1
        }
        Token::RParen | Token::RBracket => {
            depth = depth.saturating_sub(1);
            depth
        }
        _ => depth,
    };
    tokens.iter().map(depth_of).collect()
}

/// Where the name ends that begins there; `None`: there is none.
fn behind_name(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        if !matches!(tokens.get(at)?.token, Token::Word(_)) {
            return None;
        }
        at += 1;
        if !has(tokens, at, &Token::Period) {
            return Some(at);
        }
        at += 1;
    }
}

/// The tokens of one statement.
fn one(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    if are(&tokens, 0, &["alter", "table"]) {
        return Ok(altered(tokens));
    }
    if !is(&tokens, 0, "create") {
        return Ok(tokens);
    }
    const KINDS: [&str; 5] = ["global", "local", "temp", "temporary", "unlogged"];
    let mut at = 1;
    while KINDS.iter().any(|kind| is(&tokens, at, kind)) {
        at += 1;
    }
    if !is(&tokens, at, "table") {
        return Ok(tokens);
    }
    at += 1;
    if are(&tokens, at, &["if", "not", "exists"]) {
        at += 3;
    }
    match behind_name(&tokens, at) {
        Some(behind) => created(tokens, behind),
        None => Ok(tokens),
    }
}

/// CREATE TABLE, of which the name ends before `at`.
fn created(tokens: Vec<TokenWithSpan>, at: usize) -> Result<Vec<TokenWithSpan>, SqlError> {
    let depths = depths(&tokens);
    let outside = |i: &usize| depths.get(*i) == Some(&0);
    let list_end = match has(&tokens, at, &Token::LParen) {
        true => (at + 1..tokens.len()).find(outside).filter(|end| has(&tokens, *end, &Token::RParen)),
        false => None,
    };
    let clauses = list_end.map_or(at, |end| end + 1);
    let query = (clauses..tokens.len()).filter(outside).find(|i| is(&tokens, *i, "as"));
    let clauses_end = query.unwrap_or(tokens.len());
    let mut end = tokens.len();
    let no_data = query.is_some() && end > clauses_end + 4 && are(&tokens, end - 3, &["with", "no", "data"]);
    if no_data {
        end -= 3;
    }
    let mut out = Vec::with_capacity(tokens.len() + 8);
    out.extend_from_slice(&tokens[..at]);
    let span = tokens[at - 1].span;
    match list_end {
        Some(list_end) => {
            let list = &tokens[at + 1..list_end];
            // Names alone, with commas between them.
            let is_plain = query.is_some()
                && list.len() % 2 == 1
                && list.iter().enumerate().all(|(i, token)| match i % 2 {
                    0 => matches!(token.token, Token::Word(_)),
                    _ => token.token == Token::Comma,
                });
            out.push(tokens[at].clone());
            if no_data {
                out.extend([word(NO_DATA, span), word(COLUMN, span), of(Token::Comma, span)]);
            }
            for token in list {
                out.push(token.clone());
                if is_plain && token.token != Token::Comma {
                    out.push(word(COLUMN, token.span));
                }
            }
            out.push(tokens[list_end].clone());
        }
        None if no_data => {
            out.extend([of(Token::LParen, span), word(NO_DATA, span), word(COLUMN, span), of(Token::RParen, span)]);
        }
        None => {}
    }
    let mut next = clauses;
    while next < clauses_end {
        if outside(&next) && are(&tokens, next, &["without", "oids"]) {
            next += 2;
            continue;
        }
        if outside(&next)
            && is(&tokens, next, "using")
            && let Some(Token::Word(method)) = tokens.get(next + 1).map(|token| &token.token)
        {
            let name = if method.quote_style.is_some() { method.value.clone() } else { method.value.to_lowercase() };
            if name != "heap" {
                return Err(SqlError::new("42704", format!("access method \"{name}\" does not exist")));
            }
            next += 2;
            continue;
        }
        out.push(tokens[next].clone());
        next += 1;
    }
    if let Some(query) = query {
        out.push(tokens[query].clone());
        match executed(&tokens[query + 1..end]) {
            Some(mut select) => out.append(&mut select),
            None => out.extend_from_slice(&tokens[query + 1..end]),
        }
    }
    Ok(out)
}

/// The query that stands for `EXECUTE name [(values)]`; `None`: it is something else.
fn executed(query: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    if !is(query, 0, "execute") {
        return None;
    }
    let (span, Token::Word(name)) = (query.get(1)?.span, &query.get(1)?.token) else { return None };
    let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
    let text = Token::SingleQuotedString(name);
    let mut out = vec![word("SELECT", span), word(EXECUTE, span), of(Token::LParen, span), of(text, span)];
    match query.get(2..)? {
        [] => {}
        [open, values @ .., close] if open.token == Token::LParen && close.token == Token::RParen => {
            if !values.is_empty() {
                out.push(of(Token::Comma, span));
                out.extend_from_slice(values);
            }
        }
        _ => return None,
    }
    out.push(of(Token::RParen, span));
    Some(out)
}

/// ALTER TABLE.
fn altered(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut at = 2;
    if are(&tokens, at, &["if", "exists"]) {
        at += 2;
    }
    if is(&tokens, at, "only") {
        at += 1;
    }
    let Some(mut at) = behind_name(&tokens, at) else { return tokens };
    if has(&tokens, at, &Token::Mul) {
        at += 1;
    }
    let depths = depths(&tokens);
    let mut out = Vec::with_capacity(tokens.len() + 8);
    out.extend_from_slice(&tokens[..at]);
    while at < tokens.len() {
        let ends = |i: &usize| depths[*i] == 0 && tokens[*i].token == Token::Comma;
        let end = (at..tokens.len()).find(ends).unwrap_or(tokens.len());
        let action = &tokens[at..end];
        match column_action(action).or_else(|| table_action(action)) {
            Some(mut known) => out.append(&mut known),
            None => out.extend_from_slice(action),
        }
        out.extend(tokens.get(end).cloned());
        at = end + 1;
    }
    out
}

/// What is said of how a column is stored, as a default that stands for it.
fn column_action(action: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    if !is(action, 0, "alter") {
        return None;
    }
    let name = if is(action, 1, "column") && action.len() > 2 { 2 } else { 1 };
    let said = action.get(name + 1..)?;
    let is_idle = is(said, 0, "set")
        && (["statistics", "storage", "compression"].iter().any(|what| is(said, 1, what))
            || has(said, 1, &Token::LParen))
        || is(said, 0, "reset") && has(said, 1, &Token::LParen);
    if !is_idle {
        return None;
    }
    let span = said.first()?.span;
    let text: Vec<String> = said.iter().map(|token| token.token.to_string()).collect();
    let text = Token::SingleQuotedString(text.join(" "));
    let mut out = action.get(..=name)?.to_vec();
    out.extend([word("SET", span), word("DEFAULT", span), word(IDLE, span)]);
    out.extend([of(Token::LParen, span), of(text, span), of(Token::RParen, span)]);
    Some(out)
}

/// What is said of how a table is stored, as storage parameters.
fn table_action(action: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    // What every table is.
    const NOTHING: [&[&str]; 6] = [
        &["set", "without", "oids"],
        &["set", "without", "cluster"],
        &["set", "logged"],
        &["set", "unlogged"],
        &["set", "tablespace", "pg_default"],
        &["set", "access", "method", "heap"],
    ];
    let span = action.first()?.span;
    let mark = [word(RESET, span), of(Token::Eq, span), of(Token::Number("1".to_owned(), false), span)];
    let begin = [word("SET", span), of(Token::LParen, span)];
    if NOTHING.iter().any(|words| action.len() == words.len() && are(action, 0, words)) {
        return Some(begin.into_iter().chain(mark).chain([of(Token::RParen, span)]).collect());
    }
    let resets = is(action, 0, "reset");
    let begins = resets || is(action, 0, "set");
    if !begins || !has(action, 1, &Token::LParen) {
        return None;
    }
    let list = action.get(2..action.len().checked_sub(1)?)?;
    let mut out: Vec<TokenWithSpan> = begin.into_iter().collect();
    if resets {
        out.extend(mark);
    }
    for (i, parameter) in list.split(|token| token.token == Token::Comma).enumerate() {
        if resets || i > 0 {
            out.push(of(Token::Comma, span));
        }
        let equals = parameter.iter().position(|token| token.token == Token::Eq);
        let (name, value) = parameter.split_at(equals.unwrap_or(parameter.len()));
        // A parameter of a table's large values: toast.autovacuum_enabled.
        match name {
            [first, dot, second] if dot.token == Token::Period => {
                let name = format!("{}.{}", first.token, second.token);
                out.push(of(Token::make_word(&name, Some('"')), first.span));
            }
            other => out.extend_from_slice(other),
        }
        match value {
            [] => out.extend([of(Token::Eq, span), of(Token::Number("1".to_owned(), false), span)]),
            value => out.extend_from_slice(value),
        }
    }
    out.extend(action.last().cloned());
    Some(out)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn shown(text: &str) -> Result<String, SqlError> {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
        let tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let known = known(tokens.collect())?;
        Ok(known.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn clauses_are_put_into_words_that_are_known() {
        for (text, wanted) in [
            (
                "CREATE TABLE t (a, \"B\") AS SELECT 1, 2; SELECT (a, b) AS c",
                "CREATE TABLE t ( a resurgam$column , \"B\" resurgam$column ) AS SELECT 1 , 2 ; SELECT ( a , b ) AS c",
            ),
            ("CREATE TABLE t (a int, b text)", "CREATE TABLE t ( a int , b text )"),
            ("CREATE TABLE t AS SELECT (a) FROM u", "CREATE TABLE t AS SELECT ( a ) FROM u"),
            ("CREATE VIEW t (a) AS SELECT 1", "CREATE VIEW t ( a ) AS SELECT 1"),
            (
                "CREATE TEMP TABLE IF NOT EXISTS s.t AS SELECT 1 WITH NO DATA",
                "CREATE TEMP TABLE IF NOT EXISTS s . t ( resurgam$no_data resurgam$column ) AS SELECT 1",
            ),
            (
                "CREATE TABLE t (a) USING heap WITH (fillfactor = 70) AS EXECUTE p (1, 'x') WITH NO DATA",
                "CREATE TABLE t ( resurgam$no_data resurgam$column , a resurgam$column ) WITH ( fillfactor = 70 ) AS \
                 SELECT resurgam$execute ( 'p' , 1 , 'x' )",
            ),
            ("CREATE TABLE t (a int) WITHOUT OIDS; x", "CREATE TABLE t ( a int ) ; x"),
            (
                "CREATE TABLE t AS SELECT 1 FROM a JOIN b USING (c)",
                "CREATE TABLE t AS SELECT 1 FROM a JOIN b USING ( c )",
            ),
            (
                "ALTER TABLE ONLY t ALTER a SET STATISTICS -1, ALTER COLUMN b SET STORAGE MAIN, ADD c int",
                "ALTER TABLE ONLY t ALTER a SET DEFAULT resurgam$idle ( 'SET STATISTICS - 1' ) , ALTER COLUMN b SET DEFAULT \
                 resurgam$idle ( 'SET STORAGE MAIN' ) , ADD c int",
            ),
            ("ALTER TABLE t ALTER a SET DEFAULT 1", "ALTER TABLE t ALTER a SET DEFAULT 1"),
            (
                "ALTER TABLE t RESET (fillfactor, toast.autovacuum_enabled)",
                "ALTER TABLE t SET ( resurgam$reset = 1 , fillfactor = 1 , \"toast.autovacuum_enabled\" = 1 )",
            ),
            ("ALTER TABLE t SET (fillfactor = 70)", "ALTER TABLE t SET ( fillfactor = 70 )"),
            ("ALTER TABLE t SET WITHOUT OIDS", "ALTER TABLE t SET ( resurgam$reset = 1 )"),
        ] {
            assert_eq!(shown(text).expect(text), wanted);
        }
        assert_eq!(shown("CREATE TABLE t (a int) USING other").expect_err("no such method").sqlstate, "42704");
    }
}
