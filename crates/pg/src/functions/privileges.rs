//! `has_table_privilege` and its kin.
//!
//! The role, the object and the privileges that are asked for are looked up as PostgreSQL does, and are errors where they
//! are there: 42704 role, 42P01 table, 3F000 schema, 3D000 database, 42703 column, 22023 privilege. An oid that is
//! nothing's gives null.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, UInt32Type};

use resurgam_engine::{Access, FIRST_ROLE, Grant};

use super::define::{Call, P, PgFunction, f, oid};
use crate::catalog::{Model, RelationKind};
use crate::context::PgContext;
use crate::roles::acl::privilege;
use crate::roles::{PG_MONITOR, PG_READ_ALL_STATS, Rights, ServerDatabase, acl, of_system_relation};
use crate::types::{oid as t, type_by_name, type_by_oid};
use crate::wire::SqlError;

/// All of them: each is bound to its session.
pub(super) const NAMES: &[&str] = &[
    "has_table_privilege",
    "has_any_column_privilege",
    "has_column_privilege",
    "has_schema_privilege",
    "has_database_privilege",
    "has_function_privilege",
    "has_sequence_privilege",
    "has_tablespace_privilege",
    "has_type_privilege",
    "has_language_privilege",
    "pg_has_role",
];

/// What kind of object is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    Table,
    AnyColumn,
    Column,
    Schema,
    Database,
    Function,
    Sequence,
    Tablespace,
    Type,
    Language,
    Role,
}

impl Object {
    fn privileges(self) -> &'static [&'static str] {
        match self {
            Self::Table => &["select", "insert", "update", "delete", "truncate", "references", "trigger", "rule"],
            Self::AnyColumn | Self::Column => &["select", "insert", "update", "references"],
            Self::Schema => &["create", "usage"],
            Self::Database => &["create", "temporary", "temp", "connect"],
            Self::Function => &["execute"],
            Self::Sequence => &["usage", "select", "update"],
            Self::Tablespace => &["create"],
            Self::Type | Self::Language => &["usage"],
            Self::Role => &["usage", "member"],
        }
    }
}

/// Functions of the system that not everybody may execute, by their oids (`system_functions.sql`): superusers alone, and
/// members of two roles.
const OF_SUPERUSERS: &[u32] = &[
    764, 765, 767, 2172, 2274, 2307, 2621, 2622, 2623, 2624, 2625, 2739, 2848, 3071, 3072, 3098, 3293, 3295, 3297,
    3307, 3329, 3400, 3401, 3436, 3775, 3776, 3777, 3800, 3801, 3826, 3827, 3828, 4543, 6003, 6004, 6005, 6006, 6007,
    6008, 6009, 6010, 6011, 6012, 6013, 6014, 6170, 6230, 6232, 6250,
];
const OF_MONITORS: &[u32] = &[3353, 3354, 5029, 5030, 5031, 6270, 6271, 6272];
const OF_STATISTICS: &[u32] = &[2282, 5052];

/// Oids of the tablespaces that there are (`pg_default`, `pg_global`), and of the languages (`internal`, `c`, `sql`).
const TABLESPACES: [u32; 2] = [1663, 1664];
const LANGUAGES: [u32; 3] = [12, 13, 14];

/// Who may execute a function of the system.
fn access_of_builtin(oid: u32) -> Access {
    let to = match oid {
        oid if OF_MONITORS.contains(&oid) => Some(PG_MONITOR),
        oid if OF_STATISTICS.contains(&oid) => Some(PG_READ_ALL_STATS),
        oid if OF_SUPERUSERS.contains(&oid) => None,
        _ => return Access::FIRST,
    };
    let grant = |grantee| Grant { grantee, grantor: FIRST_ROLE, privileges: privilege::EXECUTE, options: 0 };
    let grants = std::iter::once(FIRST_ROLE).chain(to).map(grant).collect();
    Access { grants: Some(grants), ..Access::FIRST }
}

/// A name or an oid.
enum Named<'a> {
    Name(&'a str),
    Oid(u32),
}

fn argument(array: &ArrayRef, row: usize) -> Option<Named<'_>> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Utf8View => Named::Name(array.as_string_view().value(row)),
        DataType::Utf8 => Named::Name(array.as_string::<i32>().value(row)),
        DataType::UInt32 => Named::Oid(array.as_primitive::<UInt32Type>().value(row)),
        DataType::Int16 => Named::Oid(array.as_primitive::<Int16Type>().value(row) as u32),
        DataType::Int32 => Named::Oid(array.as_primitive::<Int32Type>().value(row) as u32),
        DataType::Int64 => Named::Oid(array.as_primitive::<Int64Type>().value(row) as u32),
        _ => return None,
    })
}

/// Privileges of a list such as `SELECT, INSERT WITH GRANT OPTION`: the words, and whether with that option.
fn privileges(object: Object, list: &str) -> Result<Vec<(&'static str, bool)>, SqlError> {
    let one = |part: &str| {
        let part = part.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
        let lower = part.to_ascii_lowercase();
        let options: &[&str] = match object {
            Object::Role => &[" with grant option", " with admin option"],
            _ => &[" with grant option"],
        };
        let (word, option) = match options.iter().find_map(|option| lower.strip_suffix(option)) {
            Some(word) => (word, true),
            None => (lower.as_str(), false),
        };
        let known = object.privileges().iter().find(|known| **known == word);
        known
            .map(|known| (*known, option))
            .ok_or_else(|| SqlError::new("22023", format!("unrecognized privilege type: \"{part}\"")))
    };
    list.split(',').map(one).collect()
}

/// Catalogs as a statement sees them.
struct Lookup {
    model: Model,
    rights: Arc<Rights>,
}

/// An object that was found: its name, who may do what with it, and how many columns it has.
struct Found {
    name: String,
    access: Access,
    object: acl::Object,
    columns: usize,
    /// It is a role.
    role: u32,
}

impl Found {
    fn new(name: &str, access: Access, object: acl::Object) -> Self {
        Self { name: name.to_owned(), access, object, columns: 0, role: 0 }
    }
}

/// A column that privileges are asked of.
#[derive(Clone, Copy)]
enum At {
    Column(usize),
    /// One of [`SYSTEM_COLUMNS`]: nobody has a right to it but with the whole table.
    System,
}

/// Columns that every table has; their numbers are negative.
const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"];

impl Lookup {
    /// A role's oid, 0 for `public`; an error if there is none of that name.
    fn role(&self, role: &Named<'_>, public: bool) -> Result<u32, SqlError> {
        match role {
            Named::Name("public") if public => Ok(0),
            Named::Name(name) => self.rights.named(name).map(|role| role.oid),
            // PostgreSQL does not look whether there is such a role; nobody has anything then but public.
            Named::Oid(oid) => Ok(*oid),
        }
    }

    fn relation(&self, object: &Named<'_>) -> Result<Option<Found>, SqlError> {
        let found = match object {
            Named::Name(name) => Some(self.model.find(name).ok_or_else(|| self.model.undefined(name))?),
            Named::Oid(oid) => self.model.relation(*oid),
        };
        let Some(relation) = found else { return Ok(None) };
        let object = match relation.kind {
            RelationKind::Sequence => acl::Object::Sequence,
            _ => acl::Object::Table,
        };
        let access = match relation.id {
            None => of_system_relation(&relation.name),
            Some(_) => self.model.access(relation),
        };
        Ok(Some(Found { columns: relation.columns, ..Found::new(&relation.name, access, object) }))
    }

    /// A column; `None`: a number that is none's.
    fn column(&self, table: &Named<'_>, column: &Named<'_>) -> Result<Option<At>, SqlError> {
        let relation = match table {
            Named::Name(name) => self.model.find(name),
            Named::Oid(oid) => self.model.relation(*oid),
        };
        let Some(relation) = relation else { return Ok(None) };
        let mut entries = self.model.tables.iter().chain(&self.model.views);
        let entry = relation.id.and_then(|id| entries.find(|entry| entry.id == id));
        // Views have none.
        let has_system_columns = relation.kind != RelationKind::View;
        match column {
            Named::Oid(number) => {
                // A number is an `int2`, and negative ones are those of the system.
                let number = *number as i32;
                if number < 0 {
                    let is_there = has_system_columns && number >= -(SYSTEM_COLUMNS.len() as i32);
                    return Ok(is_there.then_some(At::System));
                }
                // What only indexes read is no column.
                let is_hidden = |at: usize| {
                    entry.is_some_and(|entry| entry.columns.get(at).is_some_and(|column| column.is_hidden()))
                };
                let at = (number as usize).checked_sub(1).filter(|at| *at < relation.columns && !is_hidden(*at));
                Ok(at.map(At::Column))
            }
            Named::Name(name) => {
                let found = match entry {
                    Some(entry) => match &entry.view {
                        Some(view) => view.columns.iter().position(|column| column.name == *name),
                        None => entry.columns.iter().position(|column| column.name == *name),
                    },
                    None if relation.kind == RelationKind::Sequence => {
                        crate::catalog::sequence_columns().position(|column| column == *name)
                    }
                    None => crate::catalog::system_relation(&relation.schema, &relation.name)
                        .and_then(|system| system.columns.iter().position(|column| column.name == *name)),
                };
                let of_system = || has_system_columns && SYSTEM_COLUMNS.contains(name);
                let missing = || {
                    let text = format!("column \"{name}\" of relation \"{}\" does not exist", relation.name);
                    SqlError::new("42703", text)
                };
                let found = found.map(At::Column).or_else(|| of_system().then_some(At::System));
                found.map(Some).ok_or_else(missing)
            }
        }
    }

    fn object(&self, object: Object, named: &Named<'_>) -> Result<Option<Found>, SqlError> {
        let missing =
            |code: &str, what: &str, name: &str| SqlError::new(code, format!("{what} \"{name}\" does not exist"));
        let first = |name: &str, object| Some(Found::new(name, Access::FIRST, object));
        let schema = |name: &str| Some(Found::new(name, self.rights.schema(name), acl::Object::Schema));
        let database = |found: &ServerDatabase| Found::new(&found.name, found.access.clone(), acl::Object::Database);
        let of_kind = match object {
            Object::Function => acl::Object::Function,
            Object::Language => acl::Object::Language,
            Object::Tablespace => acl::Object::Tablespace,
            _ => acl::Object::Type,
        };
        let known = |name: &str| first(name, of_kind);
        match (object, named) {
            (Object::Table | Object::AnyColumn | Object::Column, named) => self.relation(named),
            (Object::Schema, Named::Name(name)) => match self.model.has_schema(name) {
                true => Ok(schema(name)),
                false => Err(missing("3F000", "schema", name)),
            },
            (Object::Schema, Named::Oid(oid)) => {
                Ok(self.model.namespaces.iter().find(|known| known.oid == *oid).and_then(|found| schema(&found.name)))
            }
            (Object::Database, Named::Name(name)) => {
                self.rights.database_named(name).map(|found| Some(database(found)))
            }
            (Object::Database, Named::Oid(oid)) => Ok(self.rights.database_by_oid(*oid).map(database)),
            (Object::Sequence, named) => {
                let Some(found) = self.relation(named)? else { return Ok(None) };
                // By name the error shows the text that was given.
                let (relation, shown) = match named {
                    Named::Name(name) => (self.model.find(name), (*name).to_owned()),
                    Named::Oid(oid) => (self.model.relation(*oid), found.name.clone()),
                };
                match relation.is_some_and(|relation| relation.kind == RelationKind::Sequence) {
                    true => Ok(Some(found)),
                    false => Err(SqlError::new("42809", format!("\"{shown}\" is not a sequence"))),
                }
            }
            (Object::Tablespace, Named::Name(name)) => match *name {
                "pg_default" | "pg_global" => Ok(known(name)),
                _ => Err(missing("42704", "tablespace", name)),
            },
            (Object::Type, Named::Name(name)) => match type_by_name(name) {
                Some(_) => Ok(known(name)),
                None => Err(missing("42704", "type", name)),
            },
            (Object::Type, Named::Oid(oid)) => Ok(type_by_oid(*oid).and_then(|ty| known(ty.name))),
            (Object::Language, Named::Name(name)) => match *name {
                "internal" | "c" | "sql" => Ok(known(name)),
                _ => Err(missing("42704", "language", name)),
            },
            (Object::Function, Named::Name(name)) => {
                // `regprocedurein` wants the arguments.
                if !name.contains('(') && !name.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(SqlError::new("22P02", "expected a left parenthesis"));
                }
                if let Some(function) = crate::catalog::function_named(name) {
                    return Ok(Some(Found::new(function.name(), function.access.clone(), acl::Object::Function)));
                }
                match crate::catalog::builtin_function(name) {
                    Some(function) => {
                        Ok(Some(Found::new(function.name, access_of_builtin(function.oid), acl::Object::Function)))
                    }
                    None => Err(SqlError::new("42883", format!("function \"{name}\" does not exist"))),
                }
            }
            (Object::Function, Named::Oid(oid)) => Ok(match crate::catalog::function_named(&oid.to_string()) {
                Some(function) => Some(Found::new(function.name(), function.access.clone(), acl::Object::Function)),
                None => resurgam_dialect::Catalog::postgres()
                    .function(*oid)
                    .map(|function| Found::new(function.name, access_of_builtin(*oid), acl::Object::Function)),
            }),
            (Object::Role, named) => {
                let role = self.role(named, false)?;
                Ok(known("").map(|found| Found { role, ..found }))
            }
            (Object::Tablespace, Named::Oid(oid)) => Ok(known("").filter(|_| TABLESPACES.contains(oid))),
            (Object::Language, Named::Oid(oid)) => Ok(known("").filter(|_| LANGUAGES.contains(oid))),
        }
    }
}

fn has(call: &Call<'_>, cx: &dyn PgContext, object: Object) -> Result<ArrayRef, SqlError> {
    let lookup = Lookup { model: Model::load(cx)?, rights: cx.rights()? };
    let own = if object == Object::Column { 3 } else { 2 };
    let with_role = call.arrays.len() > own;
    call.bools(|row| {
        let mut arguments = Vec::with_capacity(call.arrays.len());
        for array in &call.arrays {
            match argument(array, row) {
                Some(argument) => arguments.push(argument),
                None => return Ok(None),
            }
        }
        let Some(Named::Name(list)) = arguments.pop() else { return Ok(None) };
        let mut arguments = arguments.into_iter();
        let role = match (with_role, object) {
            // The role that may be a member of another is no public one.
            (true, Object::Role) => match arguments.next() {
                Some(role) => lookup.role(&role, false)?,
                None => return Ok(None),
            },
            (true, _) => match arguments.next() {
                Some(role) => lookup.role(&role, true)?,
                None => return Ok(None),
            },
            _ => cx.role(),
        };
        let Some(named) = arguments.next() else { return Ok(None) };
        let by_oid = matches!(named, Named::Oid(_));
        if by_oid || object == Object::Sequence {
            // Looked at before the object is.
            privileges(object, list)?;
        }
        let found = lookup.object(object, &named)?;
        let mut at = None;
        if let Some(column) = arguments.next()
            && found.is_some()
        {
            at = lookup.column(&named, &column)?;
            if at.is_none() {
                return Ok(None);
            }
        }
        let wanted = privileges(object, list)?;
        Ok(found.map(|found| {
            let has =
                |(privilege, option): &(&'static str, bool)| lookup.has(role, &found, object, at, privilege, *option);
            wanted.iter().any(has)
        }))
    })
}

impl Lookup {
    /// Whether a role may do that, or give it on.
    fn has(&self, role: u32, found: &Found, object: Object, at: Option<At>, word: &str, option: bool) -> bool {
        let rights = &self.rights;
        if object == Object::Role {
            return match (word, option) {
                (_, true) => rights.is_admin_of(role, found.role),
                ("member", _) => rights.is_member_of(role, found.role),
                _ => rights.has_rights_of(role, found.role),
            };
        }
        // RULE is a word without a meaning.
        let Some(bit) = acl::privilege_named(word) else { return false };
        let whole = match option {
            true => rights.options(role, &found.access, found.object) & bit,
            false => rights.allowed(role, &found.access, found.object, bit),
        };
        let of_column = |at: usize| {
            let (privileges, options) = acl::held(found.access.column(at), found.access.owner, rights, role);
            (if option { options } else { privileges }) & bit != 0
        };
        whole != 0
            || match object {
                Object::Column => matches!(at, Some(At::Column(at)) if of_column(at)),
                Object::AnyColumn => (0..found.columns).any(of_column),
                _ => false,
            }
    }
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let objects = [
        Object::Table,
        Object::AnyColumn,
        Object::Column,
        Object::Schema,
        Object::Database,
        Object::Function,
        Object::Sequence,
        Object::Tablespace,
        Object::Type,
        Object::Language,
        Object::Role,
    ];
    NAMES
        .iter()
        .zip(objects)
        .map(|(name, object)| {
            let cx = cx.clone();
            let required = if object == Object::Column { 3 } else { 2 };
            f(name, &[P::Any, P::Any, P::Any, P::Any], oid(t::BOOL), move |call| has(call, cx.as_ref(), object))
                .required(required)
                .volatile()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_privileges() {
        let of = |list: &str| privileges(Object::Table, list).map(|found| found.len());
        assert_eq!(of(" select , INSERT with grant option").expect("list"), 2);
        for (list, shown) in [("frob", "frob"), ("select,", ""), ("", ""), (" Foo bar ", "Foo bar")] {
            let error = of(list).unwrap_err();
            assert_eq!(
                (error.sqlstate.as_str(), error.message.clone()),
                ("22023", format!("unrecognized privilege type: \"{shown}\""))
            );
        }
        assert!(privileges(Object::Column, "delete").is_err());
        assert!(privileges(Object::Role, "member with admin option").is_ok());
    }
}
