//! Which statement about roles or rights a text is.

use crate::parse::own::Own;
use crate::parse::statement::{grant, owner, role};
use crate::parse::words::{Words, is_word};
use crate::wire::SqlError;

/// Reads a statement about roles or rights, by its first word; `None`: it is something else.
pub(crate) fn parse(first: &str, text: &str) -> Option<Result<Own, SqlError>> {
    let words = || {
        let mut words = Words::of(text)?;
        words.next();
        Some(words)
    };
    let mut words_of = words()?;
    let of_role = |found: Result<role::RoleCommand, SqlError>, words: &Words<'_>| {
        found.and_then(|command| words.expect_end().map(|()| Own::Role(Box::new(command))))
    };
    let found = match first {
        "create" => role::parse_create(&mut words_of),
        "drop" => role::parse_drop(&mut words_of),
        "reassign" => Some(role::parse_reassign(&mut words_of)),
        "set" => role::parse_set(&mut words_of),
        "comment" => role::parse_comment(&mut words_of),
        "reset" => role::parse_reset(&mut words_of).map(Ok),
        "grant" | "revoke" => {
            let granted = grant::parse(&mut words_of, first == "grant");
            return Some(granted.map(|granted| match granted {
                grant::Granted::Roles(command) => Own::Role(Box::new(command)),
                grant::Granted::Rights(command) => Own::Grant(Box::new(command)),
            }));
        }
        "alter" => {
            if words_of.take_words(&["default", "privileges"]) {
                let defaults = grant::parse_defaults(&mut words_of);
                return Some(defaults.map(|command| Own::Defaults(Box::new(command))));
            }
            if let Some(owner) = owner::parse(&mut words()?) {
                return Some(owner.map(|command| Own::Owner(Box::new(command))));
            }
            if words_of.take_word("database") {
                return database_setting(&mut words_of);
            }
            role::parse_alter(&mut words_of)
        }
        _ => None,
    };
    found.map(|found| of_role(found, &words_of))
}

/// ALTER DATABASE name SET or RESET, but for what `alter_database.rs` knows.
pub(crate) fn database_setting(words: &mut Words<'_>) -> Option<Result<Own, SqlError>> {
    let database = words.name().ok()?;
    if words.rest().any(|token| is_word(token, crate::parse::statement::recovery::SETTING)) {
        return None;
    }
    let change = role::setting_change(words)?;
    Some(change.and_then(|change| {
        words.expect_end()?;
        Ok(Own::Role(Box::new(role::RoleCommand::AlterDatabaseSetting { database, change })))
    }))
}
