//! ALTER … OWNER TO.

use crate::parse::names::object_name;
use crate::parse::statement::role::{Spec, spec};
use crate::parse::words::Words;
use crate::wire::SqlError;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::Token;

/// ALTER … OWNER TO.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnerCommand {
    pub what: What,
    /// By the statement.
    pub tag: &'static str,
    pub if_exists: bool,
    pub name: ObjectName,
    pub to: Spec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Table,
    View,
    Sequence,
    Index,
    Schema,
    Database,
    Type,
    Domain,
}

/// Reads `ALTER <what> name OWNER TO role`; the first word is taken. `None`: it is something else.
pub(crate) fn parse(words: &mut Words<'_>) -> Option<Result<OwnerCommand, SqlError>> {
    let kinds = [
        ("table", What::Table, "ALTER TABLE"),
        ("view", What::View, "ALTER VIEW"),
        ("sequence", What::Sequence, "ALTER SEQUENCE"),
        ("index", What::Index, "ALTER INDEX"),
        ("schema", What::Schema, "ALTER SCHEMA"),
        ("database", What::Database, "ALTER DATABASE"),
        ("type", What::Type, "ALTER TYPE"),
        ("domain", What::Domain, "ALTER DOMAIN"),
    ];
    let (_, what, tag) = kinds.into_iter().find(|(word, ..)| words.take_word(word))?;
    let if_exists = words.take_words(&["if", "exists"]);
    if what == What::Table {
        words.take_word("only");
    }
    let name = object_name(words).ok()?;
    words.take(&Token::Mul);
    if !words.take_words(&["owner", "to"]) {
        return None;
    }
    // What follows may be another action of ALTER TABLE.
    let to = match spec(words) {
        Ok(to) => to,
        Err(error) => return Some(Err(error)),
    };
    Some(words.expect_end().map(|()| OwnerCommand { what, tag, if_exists, name, to }))
}
