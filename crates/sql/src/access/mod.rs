//! Roles and privileges: who a session is, what it may do, and the statements about both. See docs/roles.md.
//!
//! | file | concept |
//! |---|---|
//! | `needs.rs` | what a planned statement needs, and whether a role is allowed it |
//! | `identity.rs` | who a session is: SET ROLE, SET SESSION AUTHORIZATION; checks of statements that have no plan |
//! | `syntax.rs`, `grant_syntax.rs` | the statements, from their words |
//! | `roles.rs` | CREATE, ALTER, DROP ROLE; memberships; settings of roles and databases |
//! | `password.rs` | what is kept of a password |
//! | `grants.rs` | GRANT and REVOKE |
//! | `defaults.rs` | ALTER DEFAULT PRIVILEGES, and the owner and rights of what is made |
//! | `owned.rs` | owners: OWNER TO, REASSIGN OWNED, DROP OWNED, what keeps a role from being dropped |
//! | `login.rs` | who may log in |
//!
//! What rights mean, and how they are stored, is in [`crate::pg::roles`]; analysis notes what a statement needs
//! (`plan/analyze/access.rs`).

mod defaults;
pub(crate) mod grant_syntax;
mod grants;
mod identity;
mod login;
pub(crate) mod needs;
mod owned;
mod password;
mod roles;
pub(crate) mod syntax;

pub(crate) use identity::not_owner;
pub use login::{Login, LoginRefused};
pub(crate) use owned::OwnerCommand;

use crate::parse::own::Own;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// Reads a statement about roles or rights, by its first word; `None`: it is something else.
pub(crate) fn parse(first: &str, text: &str) -> Option<Result<Own, SqlError>> {
    let words = || {
        let mut words = Words::of(text)?;
        words.next();
        Some(words)
    };
    let mut words_of = words()?;
    let role = |found: Result<syntax::RoleCommand, SqlError>, words: &Words<'_>| {
        found.and_then(|command| words.expect_end().map(|()| Own::Role(Box::new(command))))
    };
    let found = match first {
        "create" => syntax::parse_create(&mut words_of),
        "drop" => syntax::parse_drop(&mut words_of),
        "reassign" => Some(syntax::parse_reassign(&mut words_of)),
        "set" => syntax::parse_set(&mut words_of),
        "reset" => syntax::parse_reset(&mut words_of).map(Ok),
        "grant" | "revoke" => {
            let granted = grant_syntax::parse(&mut words_of, first == "grant");
            return Some(granted.map(|granted| match granted {
                grant_syntax::Granted::Roles(command) => Own::Role(Box::new(command)),
                grant_syntax::Granted::Rights(command) => Own::Grant(Box::new(command)),
            }));
        }
        "alter" => {
            if words_of.take_words(&["default", "privileges"]) {
                let defaults = grant_syntax::parse_defaults(&mut words_of);
                return Some(defaults.map(|command| Own::Defaults(Box::new(command))));
            }
            if let Some(owner) = owned::parse(&mut words()?) {
                return Some(owner.map(|command| Own::Owner(Box::new(command))));
            }
            if words_of.take_word("database") {
                return database_setting(&mut words_of);
            }
            syntax::parse_alter(&mut words_of)
        }
        _ => None,
    };
    found.map(|found| role(found, &words_of))
}

/// ALTER DATABASE name SET or RESET, but for what `alter_database.rs` knows.
fn database_setting(words: &mut Words<'_>) -> Option<Result<Own, SqlError>> {
    let database = words.name().ok()?;
    if words.rest().any(|token| crate::parse::words::is_word(token, crate::command::alter_database::SETTING)) {
        return None;
    }
    let change = syntax::setting_change(words)?;
    Some(change.and_then(|change| {
        words.expect_end()?;
        Ok(Own::Role(Box::new(syntax::RoleCommand::AlterDatabaseSetting { database, change })))
    }))
}
