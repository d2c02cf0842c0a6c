//! REINDEX.

use crate::parse::names::object_name;
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::Token;

/// A REINDEX.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reindex {
    pub what: What,
    pub concurrently: bool,
    pub verbose: bool,
    pub tablespace: Option<String>,
}

/// What it names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Table(ObjectName),
    Index(ObjectName),
    Schema(String),
    Database(String),
    /// The catalogs of a database.
    System(String),
}

/// REINDEX, whose first word is taken already.
///
/// # Errors
/// `42601`
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    let (mut concurrently, mut verbose, mut tablespace) = (false, false, None);
    if words.take(&Token::LParen) {
        loop {
            let at = words.position();
            let name = words.name()?;
            let is_end = matches!(words.peek(), Some(Token::Comma | Token::RParen) | None);
            let value = if is_end { None } else { words.next().map(value_of) };
            match name.as_str() {
                "verbose" => verbose = boolean(&name, value)?,
                "concurrently" => concurrently = boolean(&name, value)?,
                "tablespace" => {
                    tablespace = Some(value.ok_or_else(|| SqlError::syntax("tablespace requires a parameter"))?);
                }
                _ => {
                    let error = SqlError::syntax(format!("unrecognized REINDEX option \"{name}\""));
                    return Err(match at {
                        Some(at) => error.with_position(at),
                        None => error,
                    });
                }
            }
            if words.take(&Token::RParen) {
                break;
            }
            if !words.take(&Token::Comma) {
                return Err(words.unexpected());
            }
        }
    }
    let kind = ["table", "index", "schema", "database", "system"].into_iter().find(|kind| words.take_word(kind));
    let Some(kind) = kind else { return Err(words.unexpected()) };
    concurrently |= words.take_word("concurrently");
    let what = match kind {
        "table" => What::Table(object_name(&mut words)?),
        "index" => What::Index(object_name(&mut words)?),
        "schema" => What::Schema(words.name()?),
        "database" => What::Database(words.name()?),
        _ => What::System(words.name()?),
    };
    words.expect_end()?;
    Ok(Own::Reindex(Reindex { what, concurrently, verbose, tablespace }))
}

/// What a token says as the value of an option.
pub(crate) fn value_of(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) => text.clone(),
        Token::Word(word) if word.quote_style.is_some() => word.value.clone(),
        other => other.to_string().to_ascii_lowercase(),
    }
}

/// # Errors
/// `42601`
pub(crate) fn boolean(name: &str, value: Option<String>) -> Result<bool, SqlError> {
    match value.map(|value| value.to_ascii_lowercase()).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => Err(SqlError::syntax(format!("{name} requires a Boolean value"))),
    }
}
