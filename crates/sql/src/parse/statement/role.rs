//! Statements about roles, from their words: CREATE, ALTER, DROP ROLE and its kin, memberships, SET ROLE.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::words::{Words, is_word};
use crate::wire::SqlError;

/// Who is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec {
    Name(String),
    CurrentUser,
    SessionUser,
    Public,
}

/// The options of CREATE and ALTER ROLE; `None`: not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoleOptions {
    pub superuser: Option<bool>,
    pub create_db: Option<bool>,
    pub create_role: Option<bool>,
    pub inherit: Option<bool>,
    pub login: Option<bool>,
    pub replication: Option<bool>,
    pub bypass_rls: Option<bool>,
    pub limit: Option<i64>,
    /// NULL takes it away.
    pub password: Option<Option<String>>,
    pub valid_until: Option<String>,
    pub in_roles: Option<Vec<Spec>>,
    pub members: Option<Vec<Spec>>,
    pub admins: Option<Vec<Spec>>,
    pub sysid: bool,
}

/// A change of a setting that sessions begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingChange {
    /// `None`: DEFAULT.
    Set(String, Option<String>),
    FromCurrent(String),
    ResetAll,
}

/// A statement about roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoleCommand {
    Create {
        tag: &'static str,
        name: Spec,
        options: RoleOptions,
    },
    Alter {
        tag: &'static str,
        role: Spec,
        options: RoleOptions,
    },
    /// Of a role (`None`: of all), in a database or all.
    AlterSetting {
        role: Option<Spec>,
        database: Option<String>,
        change: SettingChange,
    },
    AlterDatabaseSetting {
        database: String,
        change: SettingChange,
    },
    Rename {
        role: Spec,
        to: String,
    },
    /// COMMENT ON ROLE.
    Comment {
        role: Spec,
        comment: Option<String>,
    },
    Drop {
        tag: &'static str,
        if_exists: bool,
        roles: Vec<Spec>,
    },
    /// GRANT and REVOKE of roles.
    Membership {
        tag: &'static str,
        is_grant: bool,
        roles: Vec<Spec>,
        members: Vec<Spec>,
        /// WITH ADMIN OPTION, or ADMIN OPTION FOR.
        admin: bool,
        granted_by: Option<Spec>,
    },
    /// `None`: NONE.
    SetRole {
        role: Option<String>,
        local: bool,
        tag: &'static str,
    },
    /// `None`: DEFAULT.
    SetSession {
        user: Option<String>,
        local: bool,
        tag: &'static str,
    },
    Reassign {
        from: Vec<Spec>,
        to: Spec,
    },
    DropOwned {
        roles: Vec<Spec>,
        cascade: bool,
    },
}

fn reserved(name: &str) -> SqlError {
    SqlError::new("42939", format!("role name \"{name}\" is reserved"))
}

/// A name, or a word for one.
pub(crate) fn spec(words: &mut Words<'_>) -> Result<Spec, SqlError> {
    for (word, spec) in
        [("current_user", Spec::CurrentUser), ("current_role", Spec::CurrentUser), ("session_user", Spec::SessionUser)]
    {
        if words.take_word(word) {
            return Ok(spec);
        }
    }
    match words.name()?.as_str() {
        "public" => Ok(Spec::Public),
        "none" => Err(reserved("none")),
        name => Ok(Spec::Name(name.to_owned())),
    }
}

/// Several of them.
pub(crate) fn specs(words: &mut Words<'_>) -> Result<Vec<Spec>, SqlError> {
    let mut all = vec![spec(words)?];
    while words.take(&Token::Comma) {
        all.push(spec(words)?);
    }
    Ok(all)
}

/// A constant text.
pub(crate) fn literal(words: &mut Words<'_>) -> Result<String, SqlError> {
    let text = match words.peek() {
        Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
        Some(Token::DollarQuotedString(text)) => text.value.clone(),
        _ => return Err(words.unexpected()),
    };
    words.next();
    Ok(text)
}

fn number(words: &mut Words<'_>) -> Result<i64, SqlError> {
    let negative = words.take(&Token::Minus);
    match words.peek() {
        Some(Token::Number(digits, _)) => {
            let value = digits.parse::<i64>().map_err(|_| words.unexpected())?;
            words.next();
            Ok(if negative { -value } else { value })
        }
        _ => Err(words.unexpected()),
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), SqlError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::syntax("conflicting or redundant options")),
    }
}

fn options(words: &mut Words<'_>, is_create: bool) -> Result<RoleOptions, SqlError> {
    let mut out = RoleOptions::default();
    words.take_word("with");
    type Flag = (&'static str, bool, fn(&mut RoleOptions) -> &mut Option<bool>);
    while !words.is_at_end() {
        let flags: [Flag; 14] = [
            ("superuser", true, |o| &mut o.superuser),
            ("nosuperuser", false, |o| &mut o.superuser),
            ("createdb", true, |o| &mut o.create_db),
            ("nocreatedb", false, |o| &mut o.create_db),
            ("createrole", true, |o| &mut o.create_role),
            ("nocreaterole", false, |o| &mut o.create_role),
            ("inherit", true, |o| &mut o.inherit),
            ("noinherit", false, |o| &mut o.inherit),
            ("login", true, |o| &mut o.login),
            ("nologin", false, |o| &mut o.login),
            ("replication", true, |o| &mut o.replication),
            ("noreplication", false, |o| &mut o.replication),
            ("bypassrls", true, |o| &mut o.bypass_rls),
            ("nobypassrls", false, |o| &mut o.bypass_rls),
        ];
        if let Some((_, on, slot)) = flags.iter().find(|(word, ..)| words.take_word(word)) {
            once(slot(&mut out), *on)?;
        } else if words.take_words(&["connection", "limit"]) {
            let limit = number(words)?;
            once(&mut out.limit, limit)?;
        } else if words.take_words(&["unencrypted", "password"]) {
            return Err(SqlError::unsupported("UNENCRYPTED PASSWORD is no longer supported")
                .with_hint("Remove UNENCRYPTED to store the password in encrypted form instead."));
        } else if words.take_words(&["encrypted", "password"]) {
            let password = literal(words)?;
            once(&mut out.password, Some(password))?;
        } else if words.take_word("password") {
            let password = if words.take_word("null") { None } else { Some(literal(words)?) };
            once(&mut out.password, password)?;
        } else if words.take_words(&["valid", "until"]) {
            let until = literal(words)?;
            once(&mut out.valid_until, until)?;
        } else if is_create && words.take_word("sysid") {
            number(words)?;
            out.sysid = true;
        } else if is_create && (words.take_words(&["in", "role"]) || words.take_words(&["in", "group"])) {
            let roles = specs(words)?;
            once(&mut out.in_roles, roles)?;
        } else if is_create && words.take_word("admin") {
            let roles = specs(words)?;
            once(&mut out.admins, roles)?;
        } else if words.take_word("role") || words.take_word("user") {
            let roles = specs(words)?;
            once(&mut out.members, roles)?;
        } else if matches!(words.peek(), Some(Token::Word(word)) if word.quote_style.is_none()) {
            let error = words.unexpected();
            let shown = words.peek().map(ToString::to_string).unwrap_or_default().to_lowercase();
            let is_keyword = ["with", "in", "admin", "valid", "connection", "sysid"].contains(&shown.as_str());
            if is_keyword {
                return Err(error);
            }
            let unknown = SqlError::syntax(format!("unrecognized role option \"{shown}\""));
            return Err(match error.position {
                Some(position) => unknown.with_position(position),
                None => unknown,
            });
        } else {
            return Err(words.unexpected());
        }
    }
    Ok(out)
}

/// Which of the words for a role is next.
fn role_word(words: &mut Words<'_>) -> Option<&'static str> {
    ["ROLE", "USER", "GROUP"].into_iter().find(|word| words.take_word(word))
}

/// CREATE ROLE, USER, GROUP; the first word is taken.
/// COMMENT ON ROLE, whose first word is taken.
pub(crate) fn parse_comment(words: &mut Words<'_>) -> Option<Result<RoleCommand, SqlError>> {
    if !words.take_words(&["on", "role"]) {
        return None;
    }
    Some((|| {
        let role = spec(words)?;
        if !words.take_word("is") {
            return Err(words.unexpected());
        }
        let comment = if words.take_word("null") { None } else { Some(literal(words)?) };
        Ok(RoleCommand::Comment { role, comment })
    })())
}

pub(crate) fn parse_create(words: &mut Words<'_>) -> Option<Result<RoleCommand, SqlError>> {
    let word = role_word(words)?;
    if word == "USER" && words.take_word("mapping") {
        return Some(Err(SqlError::unsupported("user mappings are not supported")));
    }
    Some((|| {
        let name = spec(words)?;
        let mut options = options(words, true)?;
        if word == "USER" {
            options.login.get_or_insert(true);
        }
        Ok(RoleCommand::Create { tag: "CREATE ROLE", name, options })
    })())
}

/// What follows SET of a setting: `name = value`, `name TO value`, `name FROM CURRENT`, `TIME ZONE value`.
fn set_change(words: &mut Words<'_>) -> Result<SettingChange, SqlError> {
    let name = if words.take_words(&["time", "zone"]) {
        "timezone".to_owned()
    } else {
        let mut name = words.name()?;
        while words.take(&Token::Period) {
            name = format!("{name}.{}", words.name()?);
        }
        if words.take_words(&["from", "current"]) {
            return Ok(SettingChange::FromCurrent(name));
        }
        if !words.take(&Token::Eq) && !words.take_word("to") {
            return Err(words.unexpected());
        }
        name
    };
    if words.take_word("default") {
        return Ok(SettingChange::Set(name, None));
    }
    let mut values = Vec::new();
    loop {
        let negative = words.take(&Token::Minus);
        let value = match words.peek() {
            Some(Token::Number(digits, _)) => digits.clone(),
            Some(Token::Word(word)) => word.value.clone(),
            _ => {
                values.push(literal(words)?);
                if words.take(&Token::Comma) {
                    continue;
                }
                break;
            }
        };
        words.next();
        values.push(if negative { format!("-{value}") } else { value });
        if !words.take(&Token::Comma) {
            break;
        }
    }
    Ok(SettingChange::Set(name, Some(values.join(", "))))
}

/// SET or RESET of a setting.
pub(crate) fn setting_change(words: &mut Words<'_>) -> Option<Result<SettingChange, SqlError>> {
    if words.take_word("set") {
        return Some(set_change(words));
    }
    if !words.take_word("reset") {
        return None;
    }
    Some((|| {
        if words.take_word("all") {
            return Ok(SettingChange::ResetAll);
        }
        if words.take_words(&["time", "zone"]) {
            return Ok(SettingChange::Set("timezone".to_owned(), None));
        }
        let mut name = words.name()?;
        while words.take(&Token::Period) {
            name = format!("{name}.{}", words.name()?);
        }
        Ok(SettingChange::Set(name, None))
    })())
}

/// ALTER ROLE, USER, GROUP; the first word is taken.
pub(crate) fn parse_alter(words: &mut Words<'_>) -> Option<Result<RoleCommand, SqlError>> {
    let word = role_word(words)?;
    if word == "USER" && words.take_word("mapping") {
        return Some(Err(SqlError::unsupported("user mappings are not supported")));
    }
    Some((|| {
        let is_all = word != "GROUP" && words.peek().is_some_and(|token| is_word(token, "all"));
        let role = if is_all {
            words.next();
            None
        } else {
            Some(spec(words)?)
        };
        if word == "GROUP" {
            let Some(role) = role else { return Err(words.unexpected()) };
            if words.take_words(&["rename", "to"]) {
                return Ok(RoleCommand::Rename { role, to: words.name()? });
            }
            let is_grant = words.take_word("add");
            if !is_grant && !words.take_word("drop") || !words.take_word("user") {
                return Err(words.unexpected());
            }
            let members = specs(words)?;
            let roles = vec![role];
            return Ok(RoleCommand::Membership {
                tag: "ALTER ROLE",
                is_grant,
                roles,
                members,
                admin: false,
                granted_by: None,
            });
        }
        let database = if words.take_words(&["in", "database"]) { Some(words.name()?) } else { None };
        if let Some(change) = setting_change(words) {
            return Ok(RoleCommand::AlterSetting { role, database, change: change? });
        }
        let Some(role) = role.filter(|_| database.is_none()) else { return Err(words.unexpected()) };
        if words.take_words(&["rename", "to"]) {
            return Ok(RoleCommand::Rename { role, to: words.name()? });
        }
        let options = options(words, false)?;
        Ok(RoleCommand::Alter { tag: "ALTER ROLE", role, options })
    })())
}

/// DROP ROLE, USER, GROUP, and DROP OWNED; the first word is taken.
pub(crate) fn parse_drop(words: &mut Words<'_>) -> Option<Result<RoleCommand, SqlError>> {
    if words.take_words(&["owned", "by"]) {
        return Some((|| {
            let roles = specs(words)?;
            let cascade = words.take_word("cascade");
            if !cascade {
                words.take_word("restrict");
            }
            Ok(RoleCommand::DropOwned { roles, cascade })
        })());
    }
    role_word(words)?;
    Some((|| {
        let if_exists = words.take_words(&["if", "exists"]);
        Ok(RoleCommand::Drop { tag: "DROP ROLE", if_exists, roles: specs(words)? })
    })())
}

/// REASSIGN OWNED BY … TO …; the first word is taken.
pub(crate) fn parse_reassign(words: &mut Words<'_>) -> Result<RoleCommand, SqlError> {
    if !words.take_words(&["owned", "by"]) {
        return Err(words.unexpected());
    }
    let from = specs(words)?;
    if !words.take_word("to") {
        return Err(words.unexpected());
    }
    Ok(RoleCommand::Reassign { from, to: spec(words)? })
}

/// A role's name in SET: a word or a text.
fn set_name(words: &mut Words<'_>) -> Result<String, SqlError> {
    match words.peek() {
        Some(Token::Word(_)) => words.name(),
        _ => literal(words),
    }
}

/// SET [SESSION | LOCAL] ROLE, and SESSION AUTHORIZATION; the first word is taken. `None`: it is something else.
pub(crate) fn parse_set(words: &mut Words<'_>) -> Option<Result<RoleCommand, SqlError>> {
    const TAG: &str = "SET";
    let has = |word: &str| words.rest().take(3).any(|token| is_word(token, word));
    if !has("role") && !has("authorization") {
        return None;
    }
    let local = words.take_word("local");
    let to_session = !local && words.take_words(&["session", "session", "authorization"])
        || words.take_words(&["session", "authorization"]);
    if to_session {
        return Some((|| {
            let user = if words.take_word("default") { None } else { Some(set_name(words)?) };
            Ok(RoleCommand::SetSession { user, local, tag: TAG })
        })());
    }
    if !local {
        words.take_word("session");
    }
    if !words.take_word("role") {
        return None;
    }
    // `SET role = x` is the setting of that name.
    if !words.take(&Token::Eq) {
        words.take_word("to");
    }
    Some((|| {
        let role = if words.take_word("none") || words.take_word("default") { None } else { Some(set_name(words)?) };
        let role = role.filter(|role| role != "none");
        Ok(RoleCommand::SetRole { role, local, tag: TAG })
    })())
}

/// RESET ROLE, RESET SESSION AUTHORIZATION; the first word is taken.
pub(crate) fn parse_reset(words: &mut Words<'_>) -> Option<RoleCommand> {
    const TAG: &str = "RESET";
    if words.take_word("role") {
        return Some(RoleCommand::SetRole { role: None, local: false, tag: TAG });
    }
    words.take_words(&["session", "authorization"]).then_some(RoleCommand::SetSession {
        user: None,
        local: false,
        tag: TAG,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(text: &str) -> Result<RoleOptions, SqlError> {
        let mut words = Words::of(text).expect("one statement");
        words.next();
        match parse_create(&mut words).expect("about roles")? {
            RoleCommand::Create { options, .. } => words.expect_end().map(|()| options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_roles() {
        let given = create("CREATE USER a WITH NOSUPERUSER PASSWORD 'x' CONNECTION LIMIT -1 IN ROLE b, c").unwrap();
        assert_eq!((given.superuser, given.login, given.limit), (Some(false), Some(true), Some(-1)));
        assert_eq!(given.password, Some(Some("x".into())));
        assert_eq!(given.in_roles.map(|roles| roles.len()), Some(2));
        assert_eq!(create("CREATE ROLE a NOLOGIN").unwrap().login, Some(false));
        for (text, message) in [
            ("CREATE ROLE a LOGIN NOLOGIN", "conflicting or redundant options"),
            ("CREATE ROLE a NOSUCH", "unrecognized role option \"nosuch\""),
            ("CREATE ROLE none", "role name \"none\" is reserved"),
            ("CREATE ROLE a PASSWORD x", "syntax error at or near \"x\""),
        ] {
            assert_eq!(create(text).unwrap_err().message, message, "{text}");
        }
    }

    #[test]
    fn setting_the_role() {
        let set = |text: &str| {
            let mut words = Words::of(text).expect("one statement");
            words.next();
            parse_set(&mut words).map(|found| found.unwrap())
        };
        let role =
            |role: Option<&str>, local| Some(RoleCommand::SetRole { role: role.map(str::to_owned), local, tag: "SET" });
        assert_eq!(set("SET ROLE a"), role(Some("a"), false));
        assert_eq!(set("SET SESSION ROLE 'A'"), role(Some("A"), false));
        assert_eq!(set("SET LOCAL ROLE NONE"), role(None, true));
        assert_eq!(set("SET role TO \"B\""), role(Some("B"), false));
        let user = |user: Option<&str>| {
            Some(RoleCommand::SetSession { user: user.map(str::to_owned), local: false, tag: "SET" })
        };
        assert_eq!(set("SET SESSION AUTHORIZATION a"), user(Some("a")));
        assert_eq!(set("SET SESSION SESSION AUTHORIZATION DEFAULT"), user(None));
        assert_eq!(set("SET work_mem = 1"), None);
        assert_eq!(set("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"), None);
    }
}
