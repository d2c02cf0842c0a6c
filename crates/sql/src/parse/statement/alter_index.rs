//! ALTER INDEX of how entries are stored.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::names::object_name;
use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// Such a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterIndex {
    pub if_exists: bool,
    pub name: ObjectName,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Names of storage parameters that get another value than their default.
    Set(Vec<String>),
    Reset,
    Tablespace(String),
    /// Of a column, by its number.
    Statistics(i64, bool),
}

/// Reads one whose first word is taken already; `None`: it is something else.
pub(crate) fn parse(words: &Words<'_>) -> Option<Result<Own, SqlError>> {
    let mut words = words.clone();
    if !words.take_word("index") {
        return None;
    }
    let if_exists = words.take_words(&["if", "exists"]);
    let name = object_name(&mut words).ok()?;
    let resets = words.take_word("reset");
    let change = if resets || words.take_word("set") {
        if words.take_word("tablespace") {
            words.name().map(Change::Tablespace)
        } else if words.take(&Token::LParen) {
            parameters(&mut words, resets).map(|names| if resets { Change::Reset } else { Change::Set(names) })
        } else {
            return None;
        }
    } else if words.take_word("alter") {
        words.take_word("column");
        statistics(&mut words)
    } else {
        return None;
    };
    Some(change.and_then(|change| {
        words.expect_end()?;
        Ok(Own::AlterIndex(Box::new(AlterIndex { if_exists, name, change })))
    }))
}

/// `n SET STATISTICS m`: the column, and whether it is the default.
pub(crate) fn statistics(words: &mut Words<'_>) -> Result<Change, SqlError> {
    let number = |words: &mut Words<'_>| match words.peek() {
        Some(Token::Number(digits, _)) => {
            let number = digits.parse::<i64>().map_err(|_| words.unexpected())?;
            words.next();
            Ok(number)
        }
        _ => Err(words.unexpected()),
    };
    let column = number(words)?;
    if !words.take_words(&["set", "statistics"]) {
        return Err(words.unexpected());
    }
    let is_default = words.take(&Token::Minus);
    number(words)?;
    Ok(Change::Statistics(column, is_default))
}

/// `name = value, …)`, or `name, …)` of RESET.
pub(crate) fn parameters(words: &mut Words<'_>, resets: bool) -> Result<Vec<String>, SqlError> {
    let mut names = Vec::new();
    loop {
        let name = words.name()?;
        if !matches!(name.as_str(), "fillfactor" | "deduplicate_items") {
            return Err(SqlError::new("22023", format!("unrecognized parameter \"{name}\"")));
        }
        let mut value = String::new();
        if !resets && words.take(&Token::Eq) {
            match words.next() {
                Some(Token::Number(text, _) | Token::SingleQuotedString(text)) => value.clone_from(text),
                Some(Token::Word(word)) => value.clone_from(&word.value),
                _ => return Err(SqlError::syntax(format!("invalid value for option \"{name}\""))),
            }
        }
        if !resets {
            in_bounds_of(&name, &value)?;
        }
        names.push(name);
        if !words.take(&Token::Comma) {
            break;
        }
    }
    match words.take(&Token::RParen) {
        true => Ok(names),
        false => Err(words.unexpected()),
    }
}

pub(crate) fn in_bounds_of(name: &str, shown: &str) -> Result<(), SqlError> {
    match shown.trim_matches('\'').parse::<i64>() {
        Ok(number) if name == "fillfactor" && !(10..=100).contains(&number) => {
            let text = format!("value {number} out of bounds for option \"fillfactor\"");
            Err(SqlError::new("22023", text).with_detail("Valid values are between \"10\" and \"100\"."))
        }
        _ => Ok(()),
    }
}
