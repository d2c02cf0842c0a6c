//! LISTEN, UNLISTEN and NOTIFY.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::own::Own;
use crate::parse::statement::user_type::quoted;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// The statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NotifyCommand {
    Listen(String),
    /// Of all channels, if it names none.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
}

/// Reads one by its first word, which is taken already.
///
/// # Errors
/// `42601`
pub(crate) fn parse(first: &str, mut words: Words<'_>) -> Result<Own, SqlError> {
    let command = match first {
        "listen" => NotifyCommand::Listen(words.name()?),
        "unlisten" if words.take(&Token::Mul) => NotifyCommand::Unlisten(None),
        "unlisten" => NotifyCommand::Unlisten(Some(words.name()?)),
        _ => {
            let channel = words.name()?;
            let payload = if words.take(&Token::Comma) { quoted(&mut words)? } else { String::new() };
            NotifyCommand::Notify { channel, payload }
        }
    };
    words.expect_end()?;
    Ok(Own::Notify(command))
}
