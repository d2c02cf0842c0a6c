//! What an object of the catalogs is called: `pg_describe_object` and `pg_identify_object`.

use super::depend::{CLASS_DEFAULT, CLASS_RULE};
use super::extensions::{CLASS_EXTENSION, CLASS_FUNCTION};
use super::model::{CLASS_CONSTRAINT, CLASS_RELATION, Model, Relation, RelationKind, relation_oid, row_type_oid};
use super::namespaces::CLASS_SCHEMA;
use super::policies::CLASS_POLICY;
use super::relations::{defaults, has_row_type, rule_oid};
use super::server::{CLASS_DATABASE, CLASS_ROLE};
use super::system_relations;
use super::user_types::{CLASS_TYPE, udt};
use crate::context::PgContext;
use crate::functions::quote_ident;
use crate::policies::Policy;
use crate::types::{format_type, type_by_oid};
use crate::wire::SqlError;

/// Oid of `pg_language`.
const CLASS_LANGUAGE: u32 = 2612;
/// Oid of `pg_tablespace`.
const CLASS_TABLESPACE: u32 = 1213;

/// An object in words.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// As `pg_describe_object` has it.
    pub text: String,
    /// As `pg_identify_object` has it; nothing: it is not told of objects of this kind.
    pub identity: Option<Identity>,
}

/// A row of `pg_identify_object`.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub kind: String,
    pub schema: Option<String>,
    pub name: Option<String>,
    pub identity: String,
}

fn word(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::Table => "table",
        RelationKind::Index => "index",
        RelationKind::View => "view",
        RelationKind::Sequence => "sequence",
    }
}

/// A schema and a name that need no path.
fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_ident(schema), quote_ident(name))
}

/// The object of that class (oid of its catalog), oid and number of a column; `None`: there is none.
///
/// # Errors
/// `XX000` for a class that is none, `0A000` for one whose objects are not told of; those of reading the catalog.
pub fn describe(
    cx: &dyn PgContext,
    model: &Model,
    class: u32,
    oid: u32,
    column: i64,
) -> Result<Option<Described>, SqlError> {
    let named = |kind: &str, name: &str| Described {
        text: format!("{kind} {}", quote_ident(name)),
        identity: Some(Identity {
            kind: kind.to_owned(),
            schema: None,
            name: Some(quote_ident(name)),
            identity: quote_ident(name),
        }),
    };
    Ok(match class {
        0 => None,
        CLASS_RELATION => model.relation(oid).and_then(|relation| of_relation(model, relation, column)),
        CLASS_CONSTRAINT => of_constraint(model, oid),
        CLASS_TYPE => of_type(model, oid),
        CLASS_SCHEMA => model.namespaces.iter().find(|schema| schema.oid == oid).map(|it| named("schema", &it.name)),
        CLASS_ROLE => cx.rights()?.get(oid).map(|role| named("role", &role.name)),
        CLASS_DATABASE => cx.rights()?.database_by_oid(oid).map(|database| named("database", &database.name)),
        CLASS_TABLESPACE => match oid {
            1663 => Some(named("tablespace", "pg_default")),
            1664 => Some(named("tablespace", "pg_global")),
            _ => None,
        },
        CLASS_LANGUAGE => match oid {
            12 => Some(named("language", "internal")),
            13 => Some(named("language", "c")),
            14 => Some(named("language", "sql")),
            _ => None,
        },
        CLASS_EXTENSION => {
            let types = crate::user_types::current();
            let found = types.iter().flat_map(|types| types.extensions()).find(|one| relation_oid(one.id) == oid);
            found.map(|one| named("extension", &one.name))
        }
        CLASS_FUNCTION => {
            let shown = crate::functions::function_of_oid(oid).or_else(|| of_extension(model, oid));
            shown.map(|name| Described { text: format!("function {name}"), identity: None })
        }
        CLASS_DEFAULT => {
            let found = defaults(model).into_iter().find(|(default, ..)| *default == oid);
            let column = found.and_then(|(_, table, column, _)| {
                of_relation(model, model.relation(table)?, i64::try_from(column).ok()?)
            });
            column.map(|of| Described { text: format!("default value for {}", of.text), identity: None })
        }
        CLASS_RULE => {
            let view = model.views.iter().find(|view| rule_oid(view.id) == oid);
            let view = view.and_then(|view| of_relation(model, model.relation(relation_oid(view.id))?, 0));
            view.map(|of| Described { text: format!("rule _RETURN on {}", of.text), identity: None })
        }
        CLASS_POLICY => {
            let Some(entry) = cx.policies()?.into_iter().find(|entry| entry.id == oid) else { return Ok(None) };
            let policy = Policy::of_entry(&entry)?;
            let table = model.relation(relation_oid(policy.table)).and_then(|table| of_relation(model, table, 0));
            let name = quote_ident(policy.name());
            table.map(|of| Described { text: format!("policy {name} on {}", of.text), identity: None })
        }
        class if system_relations().iter().any(|system| system.oid == class && system.kind == 'r') => {
            let name = system_relations().iter().find(|system| system.oid == class).map_or("", |system| system.name);
            return Err(SqlError::unsupported(format!("to describe objects of {name} is not supported")));
        }
        class => return Err(SqlError::new("XX000", format!("unrecognized object class: {class}"))),
    })
}

/// A function of an extension, with the types of its arguments.
fn of_extension(model: &Model, oid: u32) -> Option<String> {
    let types = crate::user_types::current()?;
    types.extensions().iter().find_map(|one| {
        let function = one.functions().find(|function| function.oid == oid)?;
        let args: Vec<String> = function.args.iter().map(|ty| format_type(ty.0, None)).collect();
        let name = match model.path.place(&one.schema) {
            Some(_) => quote_ident(function.name),
            None => qualified(&one.schema, function.name),
        };
        Some(format!("{name}({})", args.join(",")))
    })
}

fn of_relation(model: &Model, relation: &Relation, column: i64) -> Option<Described> {
    let (kind, shown) = (word(relation.kind), relation.visible_name());
    let identity = |kind: String, identity: String| {
        let (schema, name) = (Some(quote_ident(&relation.schema)), Some(quote_ident(&relation.name)));
        Some(Identity { kind, schema, name, identity })
    };
    let whole = qualified(&relation.schema, &relation.name);
    if column == 0 {
        return Some(Described { text: format!("{kind} {shown}"), identity: identity(kind.to_owned(), whole) });
    }
    let name = quote_ident(&column_name(model, relation, usize::try_from(column).ok()?.checked_sub(1)?)?);
    Some(Described {
        text: format!("column {name} of {kind} {shown}"),
        identity: identity(format!("{kind} column"), format!("{whole}.{name}")),
    })
}

/// The name of a relation's column, by its position.
fn column_name(model: &Model, relation: &Relation, at: usize) -> Option<String> {
    if relation.id.is_none() {
        let system = system_relations().iter().find(|system| system.oid == relation.oid)?;
        return system.columns.get(at).map(|column| column.name.to_owned());
    }
    match relation.kind {
        RelationKind::Table => {
            let table = model.tables.iter().find(|table| Some(table.id) == relation.id)?;
            table.columns.get(at).filter(|column| !column.is_hidden()).map(|column| column.name.clone())
        }
        RelationKind::View => {
            let view = model.views.iter().find(|view| Some(view.id) == relation.id)?;
            view.view.as_ref()?.columns.get(at).map(|column| column.name.clone())
        }
        RelationKind::Index => {
            let index = model.indexes.iter().find(|index| index.oid == relation.oid)?;
            index.attribute_names().get(at).cloned()
        }
        RelationKind::Sequence => super::sequences::COLUMNS.get(at).map(|(name, _)| (*name).to_owned()),
    }
}

fn of_constraint(model: &Model, oid: u32) -> Option<Described> {
    let keys = model.constraints().find(|one| one.oid == oid).map(|one| (one.index.name.clone(), one.index.table.id));
    let check = || model.checks().find(|one| one.oid == oid).map(|one| (one.check().name.clone(), one.table.id));
    let foreign =
        || model.foreign_keys().find(|one| one.oid == oid).map(|one| (one.foreign.name.clone(), one.table.id));
    if let Some((name, table)) = keys.or_else(check).or_else(foreign) {
        let relation = model.relation(relation_oid(table))?;
        let name = quote_ident(&name);
        return Some(Described {
            text: format!("constraint {name} on table {}", relation.visible_name()),
            identity: Some(Identity {
                kind: "table constraint".to_owned(),
                schema: Some(quote_ident(&relation.schema)),
                name: None,
                identity: format!("{name} on {}", qualified(&relation.schema, &relation.name)),
            }),
        });
    }
    let types = crate::user_types::current()?;
    let mut checks = types.iter().filter_map(|ty| ty.as_domain()).flat_map(|domain| &domain.checks);
    let found = checks.find(|check| check.id == oid)?;
    Some(Described { text: format!("constraint {}", quote_ident(&found.name)), identity: None })
}

fn of_type(model: &Model, oid: u32) -> Option<Described> {
    let of_rows = model.relations.iter().find(|it| has_row_type(it) && row_type_oid(it.oid) == oid);
    let (shown, schema, name, whole) = match of_rows {
        Some(it) => (it.visible_name(), it.schema.clone(), it.name.clone(), qualified(&it.schema, &it.name)),
        None => {
            type_by_oid(oid)?;
            let (schema, name, own) = udt(oid);
            let shown = format_type(oid, None);
            let whole = if own { qualified(&schema, &name) } else { shown.clone() };
            (shown, schema, name, whole)
        }
    };
    let identity = Identity {
        kind: "type".to_owned(),
        schema: Some(quote_ident(&schema)),
        name: Some(quote_ident(&name)),
        identity: whole,
    };
    Some(Described { text: format!("type {shown}"), identity: Some(identity) })
}
