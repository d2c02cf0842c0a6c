//! LOCK TABLE.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_engine::LockMode;

use crate::parse::names::object_name;
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// The statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockTables {
    pub names: Vec<ObjectName>,
    pub mode: LockMode,
    pub nowait: bool,
}

/// Reads it; its first word is taken already.
///
/// # Errors
/// `42601`
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    words.take_word("table");
    let mut names = Vec::new();
    loop {
        let only = words.take_word("only");
        let in_parentheses = only && words.take(&Token::LParen);
        names.push(object_name(&mut words)?);
        if in_parentheses && !words.take(&Token::RParen) {
            return Err(words.unexpected());
        }
        // Tables that inherit there are none.
        if !only {
            words.take(&Token::Mul);
        }
        if !words.take(&Token::Comma) {
            break;
        }
    }
    let mode = match words.take_word("in") {
        true => parse_mode(&mut words)?,
        false => LockMode::AccessExclusive,
    };
    let nowait = words.take_word("nowait");
    words.expect_end()?;
    Ok(Own::Lock(LockTables { names, mode, nowait }))
}

pub(crate) fn parse_mode(words: &mut Words<'_>) -> Result<LockMode, SqlError> {
    // Longer ones before those that they begin with.
    const MODES: [(&[&str], LockMode); 8] = [
        (&["access", "share"], LockMode::AccessShare),
        (&["access", "exclusive"], LockMode::AccessExclusive),
        (&["row", "share"], LockMode::RowShare),
        (&["row", "exclusive"], LockMode::RowExclusive),
        (&["share", "update", "exclusive"], LockMode::ShareUpdateExclusive),
        (&["share", "row", "exclusive"], LockMode::ShareRowExclusive),
        (&["share"], LockMode::Share),
        (&["exclusive"], LockMode::Exclusive),
    ];
    for (name, mode) in MODES {
        if words.take_words(name) {
            return if words.take_word("mode") { Ok(mode) } else { Err(words.unexpected()) };
        }
    }
    Err(words.unexpected())
}
