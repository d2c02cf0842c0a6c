//! ALTER SEQUENCE.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::names::unsupported;
use crate::parse::own::Own;
use crate::parse::statement::sequence_options::{SequenceOption, read_option};
use crate::parse::words::Words;
use crate::wire::SqlError;

/// ALTER SEQUENCE as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterSequence {
    pub if_exists: bool,
    pub name: ObjectName,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Rename(String),
    Options(Vec<SequenceOption>),
}

/// Reads ALTER SEQUENCE, whose two words are taken already.
///
/// # Errors
/// `42601`, `0A000`, those of the options.
pub(crate) fn parse(mut words: Words<'_>) -> Result<Own, SqlError> {
    let if_exists = words.take_words(&["if", "exists"]);
    let mut parts = vec![Ident::with_quote('"', words.name()?)];
    while words.take(&Token::Period) {
        parts.push(Ident::with_quote('"', words.name()?));
    }
    let action = if words.take_words(&["rename", "to"]) {
        Action::Rename(words.name()?)
    } else if words.take_words(&["owner", "to"]) {
        return Err(unsupported("ALTER SEQUENCE … OWNER TO"));
    } else if words.take_word("set") {
        return Err(unsupported("ALTER SEQUENCE … SET"));
    } else {
        let mut options = vec![read_option(&mut words)?];
        while !words.is_at_end() {
            options.push(read_option(&mut words)?);
        }
        Action::Options(options)
    };
    words.expect_end()?;
    Ok(Own::AlterSequence(Box::new(AlterSequence { if_exists, name: ObjectName::from(parts), action })))
}
