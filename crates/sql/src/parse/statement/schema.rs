//! CREATE and ALTER SCHEMA.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::read::parse_known;
use crate::parse::words::{Words, is_word};
use crate::wire::SqlError;

/// CREATE or ALTER SCHEMA as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SchemaStatement {
    Create {
        if_not_exists: bool,
        /// None: that of the owner.
        name: Option<String>,
        owner: Option<String>,
        /// What is made in it.
        elements: Vec<Statement>,
    },
    Rename {
        name: String,
        to: String,
    },
}

/// Reads CREATE SCHEMA, whose first two words are taken already.
pub(crate) fn parse_create(mut words: Words<'_>) -> Result<Own, SqlError> {
    let if_not_exists = words.take_words(&["if", "not", "exists"]);
    let name =
        if words.peek().is_some_and(|token| is_word(token, "authorization")) { None } else { Some(words.name()?) };
    let owner = if words.take_word("authorization") { Some(words.name()?) } else { None };
    let mut elements: Vec<Vec<String>> = Vec::new();
    let mut depth = 0usize;
    while let Some(token) = words.peek() {
        let begins = depth == 0 && (is_word(token, "create") || is_word(token, "grant"));
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let text = token.to_string();
        if begins {
            elements.push(Vec::new());
        }
        match elements.last_mut() {
            Some(element) => element.push(text),
            None => return Err(words.unexpected()),
        }
        words.next();
    }
    if if_not_exists && !elements.is_empty() {
        return Err(SqlError::unsupported("CREATE SCHEMA IF NOT EXISTS cannot include schema elements"));
    }
    let elements = elements.iter().map(|element| element_of(&element.join(" "))).collect::<Result<_, _>>()?;
    Ok(Own::Schema(Box::new(SchemaStatement::Create { if_not_exists, name, owner, elements })))
}

pub(crate) fn element_of(text: &str) -> Result<Statement, SqlError> {
    let mut statements = parse_known(text).map_err(|mut error| {
        // In other words than the client's.
        error.position = None;
        error
    })?;
    match (statements.pop(), statements.is_empty()) {
        (
            Some(
                statement @ (Statement::CreateTable(_)
                | Statement::CreateView(_)
                | Statement::CreateIndex(_)
                | Statement::CreateSequence { .. }),
            ),
            true,
        ) => Ok(statement),
        _ => Err(SqlError::unsupported("this element of CREATE SCHEMA is not supported")),
    }
}

/// Reads ALTER SCHEMA, whose first two words are taken already.
pub(crate) fn parse_alter(mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = words.name()?;
    let statement = if words.take_words(&["rename", "to"]) {
        SchemaStatement::Rename { name, to: words.name()? }
    } else {
        return Err(words.unexpected());
    };
    words.expect_end()?;
    Ok(Own::Schema(Box::new(statement)))
}
