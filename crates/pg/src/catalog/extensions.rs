//! Extensions in `pg_extension`, `pg_available_extensions`, `pg_proc`, `pg_operator`, `pg_cast` and `pg_depend`.

use resurgam_dialect::{Cast, Catalog, FIRST_EXTENSION_OID, Operator};

use super::model::{CLASS_RELATION, relation_oid};
use super::namespaces::CLASS_SCHEMA;
use super::rows::{Rows, V};
use super::{Model, resolution};
use crate::extensions::{AVAILABLE, Installed};
use crate::roles::Rights;
use crate::search_path::PG_CATALOG;
use crate::types::oid;
use crate::user_types::{UserTypes, current};

/// Oid of `pg_extension`.
pub const CLASS_EXTENSION: u32 = 3079;
/// Oid of `pg_proc`.
pub const CLASS_FUNCTION: u32 = 1255;
/// Oids of `pg_operator` and `pg_cast`.
const CLASS_OPERATOR: u32 = 2617;
const CLASS_CAST: u32 = 2605;

/// The extension of those that the database has that brings operators and casts: `citext`.
fn with_operators(types: &UserTypes) -> Option<&Installed> {
    types.extensions().iter().find(|one| one.has_type(oid::CITEXT)).map(|one| &**one)
}

/// Whether there is one.
pub(super) fn brings_operators() -> bool {
    current().is_some_and(|types| with_operators(&types).is_some())
}

/// Its operators, and its casts.
fn operators(catalog: &Catalog) -> impl Iterator<Item = &Operator> {
    catalog.operators().iter().filter(|operator| operator.oid >= FIRST_EXTENSION_OID)
}
fn casts(catalog: &Catalog) -> impl Iterator<Item = &Cast> {
    catalog.casts().iter().filter(|cast| cast.oid >= FIRST_EXTENSION_OID)
}

/// Appends what a relation has of them; false if it has nothing to do with them.
pub(super) fn fill(name: &str, rows: &mut Rows<'_>, model: &Model, rights: &Rights) -> bool {
    let types = current();
    let installed = types.as_ref().map(|types| types.extensions()).unwrap_or_default();
    match name {
        "pg_extension" => {
            for one in installed {
                rows.add([
                    ("oid", relation_oid(one.id).into()),
                    ("extname", one.name.as_str().into()),
                    ("extowner", one.owner.into()),
                    ("extnamespace", model.schema_oid(&one.schema).into()),
                    ("extrelocatable", true.into()),
                    ("extversion", one.version.as_str().into()),
                ]);
            }
        }
        "pg_available_extensions" | "pg_available_extension_versions" => {
            for extension in &AVAILABLE {
                let own = installed.iter().find(|one| one.name == extension.name);
                rows.add([("name", extension.name.into()), ("comment", extension.comment.into())]);
                let more: Vec<(&'static str, V)> = match name {
                    "pg_available_extensions" => vec![
                        ("default_version", extension.version.into()),
                        ("installed_version", own.map(|one| one.version.as_str()).into()),
                    ],
                    _ => vec![
                        ("version", extension.version.into()),
                        ("installed", own.is_some_and(|one| one.version == extension.version).into()),
                        ("superuser", true.into()),
                        ("trusted", extension.is_trusted.into()),
                        ("relocatable", true.into()),
                    ],
                };
                more.into_iter().for_each(|(column, value)| rows.put(column, value));
            }
        }
        "pg_proc" => {
            if let Some(types) = types.as_ref().filter(|types| !types.is_builtin()) {
                functions(rows, types, rights, model);
            }
        }
        "pg_operator" | "pg_cast" => {
            let Some(types) = types.as_ref() else { return true };
            let Some(one) = with_operators(types) else { return true };
            let catalog = types.catalog(Catalog::postgres());
            if name == "pg_cast" {
                casts(&catalog).for_each(|cast| resolution::pg_cast(rows, cast));
                return true;
            }
            for operator in operators(&catalog) {
                resolution::pg_operator(&catalog, rows, operator);
                rows.put("oprnamespace", model.schema_oid(&one.schema).into());
                rows.put("oprowner", one.owner.into());
            }
        }
        "pg_depend" => installed.iter().for_each(|one| depend(rows, one, model)),
        _ => return false,
    }
    true
}

fn functions(rows: &mut Rows<'_>, types: &UserTypes, rights: &Rights, model: &Model) {
    let catalog = types.catalog(Catalog::postgres());
    for function in catalog.user_functions() {
        resolution::pg_proc(&catalog, rows, function);
        rows.put("pronamespace", model.schema_oid(function.schema.name()).into());
        super::functions::put_proc(rows, types, rights, function.oid);
    }
}

/// What an extension needs, and what is a part of it.
fn depend(rows: &mut Rows<'_>, one: &Installed, model: &Model) {
    let mut depends = |what: (u32, u32), on: (u32, u32), kind: char| {
        rows.add([
            ("classid", what.0.into()),
            ("objid", what.1.into()),
            ("objsubid", 0.into()),
            ("refclassid", on.0.into()),
            ("refobjid", on.1.into()),
            ("refobjsubid", 0.into()),
            ("deptype", kind.into()),
        ]);
    };
    let own = (CLASS_EXTENSION, relation_oid(one.id));
    // Those of the system have no rows.
    if one.schema != PG_CATALOG {
        depends(own, (CLASS_SCHEMA, model.schema_oid(&one.schema)), 'n');
    }
    for function in one.functions() {
        depends((CLASS_FUNCTION, function.oid), own, 'e');
    }
    if one.has_type(oid::CITEXT)
        && let Some(types) = current()
    {
        let catalog = types.catalog(Catalog::postgres());
        operators(&catalog).for_each(|operator| depends((CLASS_OPERATOR, operator.oid), own, 'e'));
        casts(&catalog).for_each(|cast| depends((CLASS_CAST, cast.oid), own, 'e'));
    }
    for view in model.views.iter().filter(|view| one.has_view(&view.schema, &view.name)) {
        depends((CLASS_RELATION, relation_oid(view.id)), own, 'e');
    }
}
