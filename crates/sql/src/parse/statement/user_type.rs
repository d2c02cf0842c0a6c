//! ALTER TYPE.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::names::{object_name, unsupported};
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// ALTER TYPE as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterType {
    pub name: ObjectName,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    AddValue { label: String, if_not_exists: bool, place: Place },
    RenameValue { from: String, to: String },
    Rename(String),
    SetSchema(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Last,
    Before(String),
    After(String),
}

/// The next token as a text in quotes.
pub(crate) fn quoted(words: &mut Words<'_>) -> Result<String, SqlError> {
    let text = match words.peek() {
        Some(Token::SingleQuotedString(text)) => text.clone(),
        Some(Token::EscapedStringLiteral(text)) => text.clone(),
        Some(Token::DollarQuotedString(text)) => text.value.clone(),
        _ => return Err(words.unexpected()),
    };
    words.next();
    Ok(text)
}

/// Reads ALTER TYPE, whose two words are taken already.
///
/// # Errors
/// `42601`, `0A000`.
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    let name = object_name(&mut words)?;
    let action = if words.take_words(&["add", "value"]) {
        let if_not_exists = words.take_words(&["if", "not", "exists"]);
        let label = quoted(&mut words)?;
        let place = if words.take_word("before") {
            Place::Before(quoted(&mut words)?)
        } else if words.take_word("after") {
            Place::After(quoted(&mut words)?)
        } else {
            Place::Last
        };
        Action::AddValue { label, if_not_exists, place }
    } else if words.take_words(&["rename", "value"]) {
        let from = quoted(&mut words)?;
        if !words.take_word("to") {
            return Err(words.unexpected());
        }
        Action::RenameValue { from, to: quoted(&mut words)? }
    } else if words.take_words(&["rename", "to"]) {
        Action::Rename(words.name()?)
    } else if words.take_words(&["rename", "attribute"]) || words.take_words(&["add", "attribute"]) {
        return Err(unsupported("ALTER TYPE of a composite type"));
    } else if words.take_words(&["owner", "to"]) {
        return Err(unsupported("ALTER TYPE … OWNER TO"));
    } else if words.take_words(&["set", "schema"]) {
        Action::SetSchema(words.name()?)
    } else if words.take_word("set") {
        return Err(unsupported("ALTER TYPE … SET"));
    } else {
        return Err(words.unexpected());
    };
    words.expect_end()?;
    Ok(Own::AlterType(Box::new(AlterType { name, action })))
}
