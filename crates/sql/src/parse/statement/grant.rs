//! GRANT, REVOKE and ALTER DEFAULT PRIVILEGES, from their words.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::function::{Target as FunctionNamed, target as function_named};
use super::role::{RoleCommand, Spec, spec, specs};
use crate::parse::names::object_name;
use crate::parse::words::{Words, is_word};
use crate::pg::roles::acl::Object;
use crate::wire::SqlError;

/// What rights are about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    /// Tables, views, sequences by name; `true`: after the word SEQUENCE.
    Relations(Vec<ObjectName>, bool),
    /// All of the kind in these schemas.
    AllIn(Object, Vec<String>),
    Functions(Vec<FunctionNamed>),
    Schemas(Vec<String>),
    Databases(Vec<String>),
    /// Of ALTER DEFAULT PRIVILEGES.
    Defaults(Object),
}

/// A privilege as it was written, and the columns that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// `None`: ALL.
    pub word: Option<String>,
    pub columns: Vec<String>,
}

/// A GRANT or REVOKE of rights.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GrantCommand {
    pub is_grant: bool,
    pub privileges: Vec<Written>,
    pub target: Target,
    pub grantees: Vec<Spec>,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub option: bool,
    pub granted_by: Option<Spec>,
    pub cascade: bool,
}

/// ALTER DEFAULT PRIVILEGES.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DefaultsCommand {
    pub roles: Option<Vec<Spec>>,
    pub schemas: Option<Vec<String>>,
    pub grant: GrantCommand,
}

/// What GRANT or REVOKE turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Granted {
    Roles(RoleCommand),
    Rights(GrantCommand),
}

fn names(words: &mut Words<'_>) -> Result<Vec<String>, SqlError> {
    let mut all = vec![words.name()?];
    while words.take(&Token::Comma) {
        all.push(words.name()?);
    }
    Ok(all)
}

fn privileges(words: &mut Words<'_>) -> Result<Vec<Written>, SqlError> {
    let mut all = Vec::new();
    loop {
        let word = if words.take_word("all") {
            words.take_word("privileges");
            None
        } else {
            Some(words.name()?)
        };
        let mut columns = Vec::new();
        if words.take(&Token::LParen) {
            columns = names(words)?;
            if !words.take(&Token::RParen) {
                return Err(words.unexpected());
            }
        }
        all.push(Written { word, columns });
        if !words.take(&Token::Comma) {
            return Ok(all);
        }
    }
}

fn target(words: &mut Words<'_>) -> Result<Target, SqlError> {
    if words.take_word("all") {
        for (many, object) in [
            ("tables", Object::Table),
            ("sequences", Object::Sequence),
            ("functions", Object::Function),
            ("routines", Object::Function),
        ] {
            if words.take_words(&[many, "in", "schema"]) {
                return Ok(Target::AllIn(object, names(words)?));
            }
        }
        return Err(words.unexpected());
    }
    let follows = name_follows(words);
    if follows && (words.take_word("function") || words.take_word("routine")) {
        let mut all = vec![function_named(words)?];
        while words.take(&Token::Comma) {
            all.push(function_named(words)?);
        }
        return Ok(Target::Functions(all));
    }
    for (word, what) in [
        ("procedure", "procedures"),
        ("language", "languages"),
        ("type", "types"),
        ("domain", "domains"),
        ("tablespace", "tablespaces"),
        ("parameter", "parameters"),
    ] {
        let follows = name_follows(words);
        if follows && words.take_word(word) {
            return Err(SqlError::unsupported(format!("privileges on {what} are not supported")));
        }
    }
    if words.take_words(&["foreign", "data", "wrapper"]) || words.take_words(&["foreign", "server"]) {
        return Err(SqlError::unsupported("privileges on foreign servers are not supported"));
    }
    if words.take_words(&["large", "object"]) {
        return Err(SqlError::unsupported("privileges on large objects are not supported"));
    }
    let follows = name_follows(words);
    if follows && words.take_word("schema") {
        return Ok(Target::Schemas(names(words)?));
    }
    if follows && words.take_word("database") {
        return Ok(Target::Databases(names(words)?));
    }
    let is_sequence = follows && words.take_word("sequence");
    if follows && !is_sequence {
        words.take_word("table");
    }
    let mut all = vec![object_name(words)?];
    while words.take(&Token::Comma) {
        all.push(object_name(words)?);
    }
    Ok(Target::Relations(all, is_sequence))
}

/// What stands behind the grantees.
struct Ending {
    option: bool,
    granted_by: Option<Spec>,
    cascade: bool,
}

fn ending(words: &mut Words<'_>, is_grant: bool, of_roles: bool) -> Result<Ending, SqlError> {
    let mut out = Ending { option: false, granted_by: None, cascade: false };
    if is_grant {
        let option = if of_roles { ["with", "admin", "option"] } else { ["with", "grant", "option"] };
        out.option = words.take_words(&option);
    }
    if words.take_words(&["granted", "by"]) {
        out.granted_by = Some(spec(words)?);
    }
    if !is_grant {
        out.cascade = words.take_word("cascade");
        if !out.cascade {
            words.take_word("restrict");
        }
    }
    words.expect_end()?;
    Ok(out)
}

/// GRANT and REVOKE; the first word is taken.
pub(crate) fn parse(words: &mut Words<'_>, is_grant: bool) -> Result<Granted, SqlError> {
    let (mut option, mut admin) = (false, false);
    if !is_grant {
        option = words.take_words(&["grant", "option", "for"]);
        admin = words.take_words(&["admin", "option", "for"]);
    }
    let privileges = privileges(words)?;
    if !words.take_word("on") {
        if option || !words.take_word(if is_grant { "to" } else { "from" }) {
            return Err(words.unexpected());
        }
        let mut roles = Vec::with_capacity(privileges.len());
        for Written { word, columns } in privileges {
            if !columns.is_empty() {
                return Err(SqlError::new("0LP01", "column names cannot be included in GRANT/REVOKE ROLE"));
            }
            let Some(word) = word else { return Err(words.unexpected()) };
            roles.push(Spec::Name(word));
        }
        let members = specs(words)?;
        let ending = ending(words, is_grant, true)?;
        return Ok(Granted::Roles(RoleCommand::Membership {
            tag: if is_grant { "GRANT ROLE" } else { "REVOKE ROLE" },
            is_grant,
            roles,
            members,
            admin: admin || ending.option,
            granted_by: ending.granted_by,
        }));
    }
    if admin {
        return Err(words.unexpected());
    }
    let target = target(words)?;
    let (grantees, ending) = behind(words, is_grant)?;
    Ok(Granted::Rights(GrantCommand {
        is_grant,
        privileges,
        target,
        grantees,
        option: option || ending.option,
        granted_by: ending.granted_by,
        cascade: ending.cascade,
    }))
}

fn behind(words: &mut Words<'_>, is_grant: bool) -> Result<(Vec<Spec>, Ending), SqlError> {
    if !words.take_word(if is_grant { "to" } else { "from" }) {
        return Err(words.unexpected());
    }
    let mut grantees = Vec::new();
    loop {
        // GROUP is a noise word here.
        let is_noise = words.rest().nth(1).is_some_and(|next| matches!(next, Token::Word(_)));
        if is_noise && words.peek().is_some_and(|token| is_word(token, "group")) {
            words.next();
        }
        grantees.push(spec(words)?);
        if !words.take(&Token::Comma) {
            break;
        }
    }
    let ending = ending(words, is_grant, false)?;
    Ok((grantees, ending))
}

/// ALTER DEFAULT PRIVILEGES; its words are taken.
pub(crate) fn parse_defaults(words: &mut Words<'_>) -> Result<DefaultsCommand, SqlError> {
    let (mut roles, mut schemas) = (None, None);
    loop {
        if words.take_words(&["for", "role"]) || words.take_words(&["for", "user"]) {
            roles = Some(specs(words)?);
        } else if words.take_words(&["in", "schema"]) {
            schemas = Some(names(words)?);
        } else {
            break;
        }
    }
    let is_grant = words.take_word("grant");
    if !is_grant && !words.take_word("revoke") {
        return Err(words.unexpected());
    }
    let option = !is_grant && words.take_words(&["grant", "option", "for"]);
    let privileges = privileges(words)?;
    if privileges.iter().any(|written| !written.columns.is_empty()) {
        return Err(SqlError::new("0LP01", "default privileges cannot be set for columns"));
    }
    if !words.take_word("on") {
        return Err(words.unexpected());
    }
    let object = match () {
        () if words.take_word("tables") => Object::Table,
        () if words.take_word("sequences") => Object::Sequence,
        () if words.take_word("schemas") => Object::Schema,
        () if words.take_word("functions") || words.take_word("routines") => Object::Function,
        () if words.take_word("types") => Object::Type,
        () => return Err(words.unexpected()),
    };
    let (grantees, ending) = behind(words, is_grant)?;
    let grant = GrantCommand {
        is_grant,
        privileges,
        target: Target::Defaults(object),
        grantees,
        option: option || ending.option,
        granted_by: ending.granted_by,
        cascade: ending.cascade,
    };
    Ok(DefaultsCommand { roles, schemas, grant })
}

/// Whether the next word has a name behind it, and is none itself: in `ON schema TO …` it is a table's.
fn name_follows(words: &Words<'_>) -> bool {
    let is_end = |next: &Token| is_word(next, "to") || is_word(next, "from");
    words.rest().nth(1).is_some_and(|next| matches!(next, Token::Word(_)) && !is_end(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Granted, SqlError> {
        let mut words = Words::of(text).expect("one statement");
        let is_grant = words.take_word("grant") || !words.take_word("revoke");
        parse(&mut words, is_grant)
    }

    #[test]
    fn rights_and_roles() {
        let Granted::Rights(grant) =
            read("GRANT SELECT (a, \"B\"), UPDATE, ALL (c) ON TABLE x, public.y TO GROUP g, PUBLIC WITH GRANT OPTION")
                .unwrap()
        else {
            panic!("rights")
        };
        assert_eq!(grant.privileges.len(), 3);
        assert_eq!(grant.privileges[0].columns, ["a", "B"]);
        assert_eq!(grant.grantees, [Spec::Name("g".into()), Spec::Public]);
        assert!(grant.option && grant.is_grant);
        let Granted::Roles(RoleCommand::Membership { roles, admin, .. }) =
            read("REVOKE ADMIN OPTION FOR a, b FROM c CASCADE").unwrap()
        else {
            panic!("roles")
        };
        assert_eq!((roles.len(), admin), (2, true));
        let target = |text: &str| match read(text).unwrap() {
            Granted::Rights(grant) => grant.target,
            Granted::Roles(_) => panic!("{text}"),
        };
        assert_eq!(target("GRANT ALL ON SCHEMA a, b TO c"), Target::Schemas(vec!["a".into(), "b".into()]));
        assert_eq!(
            target("REVOKE ALL PRIVILEGES ON ALL SEQUENCES IN SCHEMA public FROM c"),
            Target::AllIn(Object::Sequence, vec!["public".into()])
        );
        assert!(matches!(target("GRANT SELECT ON schema TO c"), Target::Relations(_, false)));
        assert!(
            matches!(target("GRANT EXECUTE ON FUNCTION f(), s.g(a int, text) TO c"), Target::Functions(all) if all.len() == 2)
        );
        assert!(matches!(target("GRANT SELECT ON function TO c"), Target::Relations(_, false)));
        assert_eq!(read("GRANT EXECUTE ON PROCEDURE f() TO c").unwrap_err().sqlstate, "0A000");
        assert_eq!(read("GRANT a (x) TO b").unwrap_err().sqlstate, "0LP01");
        assert_eq!(read("GRANT SELECT ON t").unwrap_err().sqlstate, "42601");
    }
}
