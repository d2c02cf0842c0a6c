//! PostgreSQL's syntax that neither the parser nor anything here knows: it is no syntax error.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::wire::SqlError;

/// Words in a row (the last may be a parenthesis), and what they are.
const PHRASES: [(&[&str], &str); 33] = [
    (&["rows", "from", "("], "ROWS FROM"),
    (&["using", ""], "ORDER BY ... USING"),
    (&["variadic"], "VARIADIC in calls"),
    (&["exclude", "current"], "EXCLUDE in the frame of a window"),
    (&["exclude", "group"], "EXCLUDE in the frame of a window"),
    (&["exclude", "ties"], "EXCLUDE in the frame of a window"),
    (&["exclude", "no"], "EXCLUDE in the frame of a window"),
    (&["tablesample"], "TABLESAMPLE"),
    (&["search", "depth"], "SEARCH"),
    (&["search", "breadth"], "SEARCH"),
    (&["is", "document"], "XML"),
    (&["xmlelement", "("], "XML"),
    (&["xmlforest", "("], "XML"),
    (&["xmltable", "("], "XML"),
    (&["is", "normalized"], "IS NORMALIZED"),
    (&["is", "not", "normalized"], "IS NORMALIZED"),
    (&["current", "of"], "WHERE CURRENT OF"),
    (&["unlogged", "table"], "an unlogged table"),
    (&["with", "no", "data"], "WITH NO DATA"),
    (&["no", "inherit"], "NO INHERIT"),
    (&["include", "(", "("], "an expression in INCLUDE"),
    (&["drop", "index", "concurrently"], "DROP INDEX CONCURRENTLY"),
    (&["using", "index", "tablespace"], "USING INDEX TABLESPACE"),
    (&["set", "tablespace"], "SET TABLESPACE"),
    (&["set", "logged"], "SET LOGGED"),
    (&["set", "unlogged"], "SET UNLOGGED"),
    (&["set", "schema"], "SET SCHEMA"),
    (&["cluster", "on"], "CLUSTER ON"),
    (&["xml", "option"], "XML"),
    (&["reindex"], "REINDEX"),
    (&["do", ""], "DO"),
    (&["cycle"], "CYCLE"),
    (&["similar", ""], "SIMILAR in substring"),
];

/// What a text that could not be parsed has of such syntax.
pub(crate) fn found(text: &str) -> Option<SqlError> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let words: Vec<String> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Whitespace(_) => None,
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_lowercase()),
            Token::LParen => Some("(".to_owned()),
            _ => Some(String::new()),
        })
        .collect();
    let is_there = |phrase: &&[&str]| words.windows(phrase.len()).any(|part| part.iter().eq(phrase.iter()));
    let (_, what) = PHRASES.iter().find(|(phrase, _)| is_there(phrase))?;
    Some(SqlError::unsupported(format!("{what} is not supported")))
}
