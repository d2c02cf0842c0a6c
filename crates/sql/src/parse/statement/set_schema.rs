//! ALTER … SET SCHEMA.

use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Token;

/// ALTER … SET SCHEMA as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetSchema {
    pub kind: Kind,
    pub if_exists: bool,
    pub name: ObjectName,
    pub to: String,
}

/// What the statement says that it moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Table,
    View,
    Sequence,
}

/// Reads the statement, whose first word is taken already; `None`: it is another one.
pub(crate) fn parse(words: &Words<'_>) -> Option<Result<Own, SqlError>> {
    let mut words = words.clone();
    let kind = match () {
        () if words.take_word("table") => Kind::Table,
        () if words.take_word("view") => Kind::View,
        () if words.take_word("sequence") => Kind::Sequence,
        () => return None,
    };
    let if_exists = words.take_words(&["if", "exists"]);
    if kind == Kind::Table {
        words.take_word("only");
    }
    let mut parts = vec![Ident::with_quote('"', words.name().ok()?)];
    while words.take(&Token::Period) {
        parts.push(Ident::with_quote('"', words.name().ok()?));
    }
    words.take(&Token::Mul);
    if !words.take_words(&["set", "schema"]) {
        return None;
    }
    let rest = |words: &mut Words<'_>| {
        let to = words.name()?;
        words.expect_end()?;
        Ok(Own::SetSchema(Box::new(SetSchema { kind, if_exists, name: ObjectName::from(parts), to })))
    };
    Some(rest(&mut words))
}
