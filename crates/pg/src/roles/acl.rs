//! Lists of rights, by PostgreSQL's rules (acl.c, aclchk.c): what they allow, what GRANT and REVOKE make of them, and their
//! text.

use std::borrow::Cow;

use resurgam_engine::{Access, Grant};

use super::{FIRST_ROLE, PG_DATABASE_OWNER, PG_READ_ALL_STATS, Rights};
use crate::wire::SqlError;

/// Bits of privileges, as PostgreSQL numbers them.
pub mod privilege {
    pub const INSERT: u32 = 1;
    pub const SELECT: u32 = 1 << 1;
    pub const UPDATE: u32 = 1 << 2;
    pub const DELETE: u32 = 1 << 3;
    pub const TRUNCATE: u32 = 1 << 4;
    pub const REFERENCES: u32 = 1 << 5;
    pub const TRIGGER: u32 = 1 << 6;
    pub const EXECUTE: u32 = 1 << 7;
    pub const USAGE: u32 = 1 << 8;
    pub const CREATE: u32 = 1 << 9;
    pub const TEMPORARY: u32 = 1 << 10;
    pub const CONNECT: u32 = 1 << 11;
}
use privilege as p;

/// Letters and words of the bits, in their order.
const WORDS: [(char, &str); 12] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
];

/// The privilege of that word, in any case.
pub fn privilege_named(word: &str) -> Option<u32> {
    let word = if word.eq_ignore_ascii_case("temp") { "TEMPORARY" } else { word };
    WORDS.iter().position(|(_, known)| known.eq_ignore_ascii_case(word)).map(|at| 1 << at)
}

/// The words of some privileges.
pub fn words(privileges: u32) -> impl Iterator<Item = (u32, &'static str)> {
    WORDS.iter().enumerate().map(|(at, (_, word))| (1 << at, *word)).filter(move |(bit, _)| privileges & bit != 0)
}

/// What rights are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Views, too.
    Table,
    Column,
    Sequence,
    Schema,
    Database,
    Function,
    Type,
    Language,
    Tablespace,
}

impl Object {
    /// Every privilege that there is for it.
    pub fn all(self) -> u32 {
        match self {
            Self::Table => p::INSERT | p::SELECT | p::UPDATE | p::DELETE | p::TRUNCATE | p::REFERENCES | p::TRIGGER,
            Self::Column => p::INSERT | p::SELECT | p::UPDATE | p::REFERENCES,
            Self::Sequence => p::SELECT | p::UPDATE | p::USAGE,
            Self::Schema => p::USAGE | p::CREATE,
            Self::Database => p::CREATE | p::TEMPORARY | p::CONNECT,
            Self::Function => p::EXECUTE,
            Self::Type | Self::Language => p::USAGE,
            Self::Tablespace => p::CREATE,
        }
    }
    /// What everybody has while nobody has said anything.
    pub fn of_everybody(self) -> u32 {
        match self {
            Self::Database => p::TEMPORARY | p::CONNECT,
            Self::Function => p::EXECUTE,
            Self::Type | Self::Language => p::USAGE,
            _ => 0,
        }
    }
    /// As messages call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Column => "column",
            Self::Sequence => "sequence",
            Self::Schema => "schema",
            Self::Database => "database",
            Self::Function => "function",
            Self::Type => "type",
            Self::Language => "language",
            Self::Tablespace => "tablespace",
        }
    }
    /// As `acldefault` and `pg_default_acl` call it.
    pub fn letter(self) -> char {
        match self {
            Self::Table => 'r',
            Self::Column => 'c',
            Self::Sequence => 's',
            Self::Schema => 'n',
            Self::Database => 'd',
            Self::Function => 'f',
            Self::Type => 'T',
            Self::Language => 'l',
            Self::Tablespace => 't',
        }
    }
    /// That of a letter.
    pub fn of_letter(letter: &str) -> Option<Self> {
        let all = [
            Self::Table,
            Self::Column,
            Self::Sequence,
            Self::Schema,
            Self::Database,
            Self::Function,
            Self::Type,
            Self::Language,
            Self::Tablespace,
        ];
        all.into_iter().find(|one| letter.chars().eq([one.letter()]))
    }
}

/// The rights that an object has while nobody has said anything (`acldefault`).
pub fn default_grants(object: Object, owner: u32) -> Vec<Grant> {
    let mut grants = Vec::new();
    if object == Object::Column {
        return grants;
    }
    if object.of_everybody() != 0 {
        grants.push(Grant { grantee: 0, grantor: owner, privileges: object.of_everybody(), options: 0 });
    }
    grants.push(Grant { grantee: owner, grantor: owner, privileges: object.all(), options: 0 });
    grants
}

/// The access of schema `public` as it is made.
pub fn of_public_schema() -> Access {
    let by = |grantee, privileges| Grant { grantee, grantor: PG_DATABASE_OWNER, privileges, options: 0 };
    let grants = vec![by(PG_DATABASE_OWNER, p::USAGE | p::CREATE), by(0, p::USAGE)];
    Access { grants: Some(grants), ..Access::of(PG_DATABASE_OWNER) }
}

/// Relations of the system that are not for everybody, each with what messages call it.
const HIDDEN: [(&str, &str); 21] = [
    ("_pg_foreign_data_wrappers", "view"),
    ("_pg_foreign_servers", "view"),
    ("_pg_foreign_table_columns", "view"),
    ("_pg_foreign_tables", "view"),
    ("_pg_user_mappings", "view"),
    ("pg_backend_memory_contexts", "view"),
    ("pg_config", "view"),
    ("pg_file_settings", "view"),
    ("pg_hba_file_rules", "view"),
    ("pg_ident_file_mappings", "view"),
    ("pg_replication_origin_status", "view"),
    ("pg_shadow", "view"),
    ("pg_shmem_allocations", "view"),
    ("transforms", "view"),
    ("pg_authid", "table"),
    ("pg_largeobject", "table"),
    ("pg_statistic", "table"),
    ("pg_statistic_ext_data", "table"),
    ("pg_subscription", "table"),
    ("pg_user_mapping", "table"),
    ("sql_parts", "table"),
];

/// The same of a name, if it is one of them.
pub fn hidden_relation(name: &str) -> Option<(&'static str, &'static str)> {
    HIDDEN.into_iter().find(|(hidden, _)| *hidden == name)
}

/// The rights to a relation of the system.
pub fn of_system_relation(name: &str) -> Access {
    let mut grants = default_grants(Object::Table, FIRST_ROLE);
    let reader = match name {
        "pg_backend_memory_contexts" | "pg_shmem_allocations" => Some(PG_READ_ALL_STATS),
        name if hidden_relation(name).is_some() => None,
        _ => Some(0),
    };
    let first = grants.first().copied();
    grants.extend(reader.zip(first).map(|(grantee, owner)| Grant { grantee, privileges: p::SELECT, ..owner }));
    Access { grants: Some(grants), ..Access::FIRST }
}

/// The rights to an object.
pub fn grants_of(access: &Access, object: Object) -> Cow<'_, [Grant]> {
    match &access.grants {
        Some(grants) => Cow::Borrowed(grants),
        None => Cow::Owned(default_grants(object, access.owner)),
    }
}

/// What a role may do by a list, and give on: its own, that of everybody and of the roles whose rights it has. Whether it
/// is a superuser is not looked at.
pub fn held(grants: &[Grant], owner: u32, rights: &Rights, role: u32) -> (u32, u32) {
    let (mut privileges, mut options) = (0, 0);
    let roles = rights.with_rights_of(role);
    // An owner can give everything that there is.
    if roles.contains(&owner) {
        options = u32::MAX;
    }
    for grant in grants.iter().filter(|grant| grant.grantee == 0 || roles.contains(&grant.grantee)) {
        privileges |= grant.privileges;
        options |= grant.options;
    }
    (privileges, options)
}

/// Who gives rights when a role says GRANT, and what of `privileges` it can give (`select_best_grantor`).
pub fn best_grantor(grants: &[Grant], owner: u32, rights: &Rights, role: u32, privileges: u32) -> (u32, u32) {
    if rights.has_rights_of(role, owner) {
        return (owner, privileges);
    }
    let direct = |role: u32| {
        let of = grants.iter().filter(|grant| grant.grantee == role || grant.grantee == 0);
        of.fold(0, |all, grant| all | grant.options) & privileges
    };
    let (mut best, mut most) = (role, 0u32);
    for candidate in rights.with_rights_of(role) {
        let options = direct(candidate);
        if options == privileges {
            return (candidate, options);
        }
        if options.count_ones() > most.count_ones() {
            (best, most) = (candidate, options);
        }
    }
    (best, most)
}

fn circular() -> SqlError {
    SqlError::new("0LP01", "grant options cannot be granted back to your own grantor")
}

/// Gives rights (`aclupdate`).
///
/// # Errors
/// `0LP01`: the grantor would have its own from the grantee.
pub fn grant(grants: &mut Vec<Grant>, owner: u32, rights: &Rights, given: Grant) -> Result<(), SqlError> {
    if given.options != 0 && given.grantor != owner {
        let mut without = grants.clone();
        while let Some(other) = without.iter().find(|other| other.grantee == given.grantee && other.options != 0) {
            let taken = Grant { privileges: 0, ..*other };
            revoke(&mut without, owner, rights, taken, true)?;
        }
        let left = held(&without, owner, rights, given.grantor).1;
        if given.options & !left != 0 {
            return Err(circular());
        }
    }
    let same = |known: &&mut Grant| (known.grantee, known.grantor) == (given.grantee, given.grantor);
    match grants.iter_mut().find(same) {
        Some(known) => {
            known.privileges |= given.privileges;
            known.options |= given.options;
        }
        None if given.privileges | given.options != 0 => grants.push(given),
        None => {}
    }
    Ok(())
}

/// Takes rights back: those of `taken`, and with them what its grantee has given on.
///
/// # Errors
/// `2BP01` without `cascade`.
pub fn revoke(
    grants: &mut Vec<Grant>,
    owner: u32,
    rights: &Rights,
    taken: Grant,
    cascade: bool,
) -> Result<(), SqlError> {
    let same = |known: &Grant| (known.grantee, known.grantor) == (taken.grantee, taken.grantor);
    let Some(at) = grants.iter().position(same) else { return Ok(()) };
    let before = grants[at].options;
    grants[at].privileges &= !taken.privileges;
    grants[at].options &= !taken.options;
    let lost = before & !grants[at].options;
    if grants[at].privileges | grants[at].options == 0 {
        grants.remove(at);
    }
    if lost == 0 || taken.grantee == owner {
        return Ok(());
    }
    let lost = lost & !held(grants, owner, rights, taken.grantee).1;
    while let Some(next) = grants.iter().find(|next| next.grantor == taken.grantee && next.privileges & lost != 0) {
        if !cascade {
            return Err(
                SqlError::new("2BP01", "dependent privileges exist").with_hint("Use CASCADE to revoke them too.")
            );
        }
        let next = Grant { privileges: lost, options: lost, ..*next };
        revoke(grants, owner, rights, next, cascade)?;
    }
    Ok(())
}

/// Rights when the object gets another owner (`aclnewowner`).
pub fn change_owner(grants: &mut Vec<Grant>, from: u32, to: u32) {
    let mut merged: Vec<Grant> = Vec::with_capacity(grants.len());
    for mut grant in std::mem::take(grants) {
        for role in [&mut grant.grantee, &mut grant.grantor] {
            if *role == from {
                *role = to;
            }
        }
        match merged.iter_mut().find(|known| (known.grantee, known.grantor) == (grant.grantee, grant.grantor)) {
            Some(known) => {
                known.privileges |= grant.privileges;
                known.options |= grant.options;
            }
            None => merged.push(grant),
        }
    }
    *grants = merged;
}

fn put_name(out: &mut String, name: &str) {
    if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty() {
        out.push_str(name);
    } else {
        out.push('"');
        out.push_str(&name.replace('"', "\"\""));
        out.push('"');
    }
}

/// `grantee=privileges/grantor`
pub fn text(grant: &Grant, rights: &Rights) -> String {
    let mut out = String::new();
    let name = |oid: u32| rights.get(oid).map_or_else(|| oid.to_string(), |role| role.name.clone());
    if grant.grantee != 0 {
        put_name(&mut out, &name(grant.grantee));
    }
    out.push('=');
    for (at, (letter, _)) in WORDS.iter().enumerate() {
        if grant.privileges & 1 << at != 0 {
            out.push(*letter);
            if grant.options & 1 << at != 0 {
                out.push('*');
            }
        }
    }
    out.push('/');
    put_name(&mut out, &name(grant.grantor));
    out
}

/// The texts of a list.
pub fn texts(grants: &[Grant], rights: &Rights) -> Vec<String> {
    grants.iter().map(|grant| text(grant, rights)).collect()
}

/// Reads one text.
///
/// # Errors
/// `22P02`, `42704`
pub fn parse(item: &str, rights: &Rights) -> Result<Grant, SqlError> {
    let bad = |what: &str| SqlError::new("22P02", format!("invalid aclitem: {what}: \"{item}\""));
    let role = |name: &str| -> Result<u32, SqlError> {
        let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_owned(),
        };
        rights.named(&name).map(|role| role.oid)
    };
    let (left, grantor) = item.rsplit_once('/').ok_or_else(|| bad("no grantor"))?;
    let (grantee, letters) = left.rsplit_once('=').ok_or_else(|| bad("missing \"=\" sign"))?;
    let mut grant = Grant {
        grantee: if grantee.is_empty() { 0 } else { role(grantee)? },
        grantor: role(grantor)?,
        privileges: 0,
        options: 0,
    };
    let mut last = 0;
    for letter in letters.chars() {
        if letter == '*' {
            grant.options |= last;
            continue;
        }
        let at = WORDS.iter().position(|(known, _)| *known == letter).ok_or_else(|| bad("unknown mode"))?;
        last = 1 << at;
        grant.privileges |= last;
    }
    Ok(grant)
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    fn rights() -> Rights {
        let mut rights = Rights::first();
        for (oid, name) in [(100, "a"), (101, "b"), (102, "c d")] {
            rights.add(Role::new(oid, name));
        }
        rights
    }
    fn given(grantee: u32, grantor: u32, privileges: u32, options: u32) -> Grant {
        Grant { grantee, grantor, privileges, options }
    }

    #[test]
    fn what_was_given_on_goes_with_what_it_came_from() {
        let rights = rights();
        let mut grants = default_grants(Object::Table, 10);
        grant(&mut grants, 10, &rights, given(100, 10, p::SELECT | p::INSERT, p::SELECT)).unwrap();
        grant(&mut grants, 10, &rights, given(101, 100, p::SELECT, p::SELECT)).unwrap();
        grant(&mut grants, 10, &rights, given(102, 101, p::SELECT, 0)).unwrap();
        assert_eq!(texts(&grants, &rights), ["postgres=arwdDxt/postgres", "a=ar*/postgres", "b=r*/a", "\"c d\"=r/b"]);
        // b must not give back what it has of a.
        let back = grant(&mut grants.clone(), 10, &rights, given(100, 101, p::SELECT, p::SELECT));
        assert_eq!(back.unwrap_err().sqlstate, "0LP01");
        let taken = given(100, 10, p::SELECT, p::SELECT);
        assert_eq!(revoke(&mut grants.clone(), 10, &rights, taken, false).unwrap_err().sqlstate, "2BP01");
        revoke(&mut grants, 10, &rights, taken, true).unwrap();
        assert_eq!(texts(&grants, &rights), ["postgres=arwdDxt/postgres", "a=a/postgres"]);
        change_owner(&mut grants, 10, 100);
        assert_eq!(texts(&grants, &rights), ["a=arwdDxt/a"]);
    }

    #[test]
    fn texts_come_back() {
        let rights = rights();
        for text in ["=r/postgres", "\"c d\"=r*w/a", "a=arwdDxt/postgres"] {
            assert_eq!(super::text(&parse(text, &rights).unwrap(), &rights), text);
        }
        assert!(parse("a=q/a", &rights).is_err() && parse("a=r", &rights).is_err() && parse("x=r/a", &rights).is_err());
    }
}
