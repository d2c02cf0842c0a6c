//! `has_table_privilege` and its kin.
//!
//! There is one role, a superuser, beside the pseudo-role `public`; so the answer is mostly true. But the role, the
//! object and the privileges that are asked for are looked up as PostgreSQL does, and are errors where they are there:
//! 42704 role, 42P01 table, 3F000 schema, 3D000 database, 42703 column, 22023 privilege. An oid that is nothing's gives
//! null.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, UInt32Type};

use super::define::{Call, P, PgFunction, f, oid};
use crate::catalog::{Model, RelationKind, SUPERUSER_OID};
use crate::context::PgContext;
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

/// What everybody may do, from the start.
fn of_public(object: Object, name: &str, privilege: &str) -> bool {
    match object {
        Object::Schema => privilege == "usage" && matches!(name, "public" | "pg_catalog" | "information_schema"),
        Object::Database => matches!(privilege, "temporary" | "temp" | "connect"),
        Object::Function | Object::Type | Object::Language => true,
        Object::Table | Object::Column | Object::AnyColumn => {
            let hidden = ["pg_authid", "pg_statistic", "pg_subscription", "pg_user_mapping", "pg_largeobject"];
            privilege == "select" && !hidden.contains(&name)
        }
        _ => false,
    }
}

/// Catalogs as a statement sees them.
struct Lookup<'a> {
    cx: &'a dyn PgContext,
    model: Model,
}

/// An object that was found: its name, whether it belongs to the system.
struct Found {
    name: String,
    system: bool,
}

impl Lookup<'_> {
    /// Whether a role is `public`; an error if there is none of that name.
    fn role(&self, role: &Named<'_>, public: bool) -> Result<bool, SqlError> {
        match role {
            Named::Name("public") if public => Ok(true),
            Named::Name(name) if *name == self.cx.user() => Ok(false),
            Named::Name(name) => Err(SqlError::new("42704", format!("role \"{name}\" does not exist"))),
            Named::Oid(0) if public => Ok(true),
            // PostgreSQL does not look whether there is such a role; nobody has anything then but public.
            Named::Oid(oid) => Ok(*oid != SUPERUSER_OID),
        }
    }

    fn relation(&self, object: &Named<'_>) -> Result<Option<Found>, SqlError> {
        let found = match object {
            Named::Name(name) => Some(
                self.model
                    .find(name)
                    .ok_or_else(|| SqlError::new("42P01", format!("relation \"{name}\" does not exist")))?,
            ),
            Named::Oid(oid) => self.model.relation(*oid),
        };
        Ok(found.map(|relation| Found {
            name: relation.name.clone(),
            system: matches!(relation.schema.as_str(), "pg_catalog" | "information_schema" | "sys"),
        }))
    }

    fn column(&self, table: &Named<'_>, column: &Named<'_>) -> Result<bool, SqlError> {
        let relation = match table {
            Named::Name(name) => self.model.find(name),
            Named::Oid(oid) => self.model.relation(*oid),
        };
        let Some(relation) = relation else { return Ok(false) };
        match column {
            Named::Oid(at) => Ok((1..=relation.columns).contains(&(*at as usize))),
            Named::Name(name) => {
                let table = relation.id.and_then(|id| self.model.tables.iter().find(|table| table.id == id));
                let Some(table) = table else {
                    return Err(SqlError::unsupported("privileges on columns of system catalogs are not supported"));
                };
                match table.columns.iter().any(|column| column.name == *name) {
                    true => Ok(true),
                    false => Err(SqlError::new(
                        "42703",
                        format!("column \"{name}\" of relation \"{}\" does not exist", relation.name),
                    )),
                }
            }
        }
    }

    fn object(&self, object: Object, named: &Named<'_>) -> Result<Option<Found>, SqlError> {
        let missing =
            |code: &str, what: &str, name: &str| SqlError::new(code, format!("{what} \"{name}\" does not exist"));
        let known = |name: &str| Some(Found { name: name.to_owned(), system: true });
        match (object, named) {
            (Object::Table | Object::AnyColumn | Object::Column, named) => self.relation(named),
            (Object::Schema, Named::Name(name)) => match self.model.has_schema(name) {
                true => Ok(known(name)),
                false => Err(missing("3F000", "schema", name)),
            },
            (Object::Schema, Named::Oid(oid)) => {
                Ok(self.model.namespaces.iter().find(|known| known.oid == *oid).and_then(|found| known(&found.name)))
            }
            (Object::Database, Named::Name(name)) if *name == self.cx.database() => Ok(known(name)),
            (Object::Database, Named::Name(name)) => Err(missing("3D000", "database", name)),
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
            (Object::Function, Named::Name(_)) => {
                Err(SqlError::unsupported("has_function_privilege by a function's name is not supported"))
            }
            (_, Named::Oid(_)) => Ok(known("")),
            (Object::Role, named) => self.role(named, false).map(|_| known("")),
        }
    }
}

fn has(call: &Call<'_>, cx: &dyn PgContext, object: Object) -> Result<ArrayRef, SqlError> {
    let lookup = Lookup { cx, model: Model::load(cx)? };
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
        let public = match (with_role, object) {
            // The role that may be a member of another is no public one.
            (true, Object::Role) => match arguments.next() {
                Some(role) => lookup.role(&role, false)?,
                None => return Ok(None),
            },
            (true, _) => match arguments.next() {
                Some(role) => lookup.role(&role, true)?,
                None => return Ok(None),
            },
            _ => false,
        };
        let Some(named) = arguments.next() else { return Ok(None) };
        let by_oid = matches!(named, Named::Oid(_));
        if by_oid || object == Object::Sequence {
            // Looked at before the object is.
            privileges(object, list)?;
        }
        let found = lookup.object(object, &named)?;
        if let Some(column) = arguments.next()
            && found.is_some()
            && !lookup.column(&named, &column)?
        {
            return Ok(None);
        }
        let wanted = privileges(object, list)?;
        Ok(found.map(|found| {
            wanted.iter().any(|(privilege, option)| match public {
                true => {
                    let tables = matches!(object, Object::Table | Object::Column | Object::AnyColumn);
                    !option && (found.system || !tables) && of_public(object, &found.name, privilege)
                }
                false => *privilege != "rule",
            })
        }))
    })
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
