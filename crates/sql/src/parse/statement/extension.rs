//! CREATE, ALTER, DROP and COMMENT ON EXTENSION.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::words::{Words, is_word};
use crate::wire::SqlError;

/// A statement about extensions, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExtensionStatement {
    Create { name: String, if_not_exists: bool, schema: Option<String>, version: Option<String> },
    Update { name: String, version: Option<String> },
    SetSchema { name: String, schema: String },
    Drop { names: Vec<String>, if_exists: bool, cascade: bool },
    Comment { name: String, comment: Option<String> },
}

/// A version: a name or a text.
pub(crate) fn version(words: &mut Words<'_>) -> Result<String, SqlError> {
    match words.peek() {
        Some(Token::SingleQuotedString(text)) => {
            let text = text.clone();
            words.next();
            Ok(text)
        }
        _ => words.name(),
    }
}

/// Reads a statement whose first words up to EXTENSION are taken.
pub(crate) fn parse(first: &str, mut words: Words<'_>) -> Result<Own, SqlError> {
    let words = &mut words;
    let statement = match first {
        "create" => create(words)?,
        "drop" => {
            let if_exists = words.take_words(&["if", "exists"]);
            let mut names = vec![words.name()?];
            while words.take(&Token::Comma) {
                names.push(words.name()?);
            }
            let cascade = words.take_word("cascade");
            if !cascade {
                words.take_word("restrict");
            }
            ExtensionStatement::Drop { names, if_exists, cascade }
        }
        "comment" => {
            let name = words.name()?;
            if !words.take_word("is") {
                return Err(words.unexpected());
            }
            let comment = match words.peek() {
                Some(token) if is_word(token, "null") => None,
                Some(
                    Token::SingleQuotedString(text)
                    | Token::EscapedStringLiteral(text)
                    | Token::UnicodeStringLiteral(text),
                ) => Some(text.clone()),
                Some(Token::DollarQuotedString(text)) => Some(text.value.clone()),
                _ => return Err(words.unexpected()),
            };
            words.next();
            ExtensionStatement::Comment { name, comment }
        }
        _ => alter(words)?,
    };
    words.expect_end()?;
    Ok(Own::Extension(Box::new(statement)))
}

pub(crate) fn create(words: &mut Words<'_>) -> Result<ExtensionStatement, SqlError> {
    let if_not_exists = words.take_words(&["if", "not", "exists"]);
    let name = words.name()?;
    words.take_word("with");
    let (mut schema, mut wanted, mut cascade) = (None, None, false);
    loop {
        let position = words.position();
        let twice = || {
            let error = SqlError::syntax("conflicting or redundant options");
            position.map_or_else(|| error.clone(), |position| error.clone().with_position(position))
        };
        if words.take_word("schema") {
            if schema.replace(words.name()?).is_some() {
                return Err(twice());
            }
        } else if words.take_word("version") {
            if wanted.replace(version(words)?).is_some() {
                return Err(twice());
            }
        } else if words.take_word("cascade") {
            // None needs another.
            if std::mem::replace(&mut cascade, true) {
                return Err(twice());
            }
        } else if words.take_word("from") {
            return Err(SqlError::unsupported("CREATE EXTENSION ... FROM is no longer supported"));
        } else {
            return Ok(ExtensionStatement::Create { name, if_not_exists, schema, version: wanted });
        }
    }
}

pub(crate) fn alter(words: &mut Words<'_>) -> Result<ExtensionStatement, SqlError> {
    let name = words.name()?;
    if words.take_word("update") {
        let version = if words.take_word("to") { Some(version(words)?) } else { None };
        return Ok(ExtensionStatement::Update { name, version });
    }
    if words.take_words(&["set", "schema"]) {
        return Ok(ExtensionStatement::SetSchema { name, schema: words.name()? });
    }
    if ["add", "drop"].into_iter().any(|word| words.take_word(word)) {
        return Err(crate::parse::names::unsupported("ALTER EXTENSION ADD and DROP"));
    }
    Err(words.unexpected())
}
