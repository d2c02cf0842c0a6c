//! Extensions in `pg_extension`, `pg_available_extensions`, `pg_proc` and `pg_depend`.

use resurgam_dialect::{Catalog, Function};

use super::model::{CLASS_RELATION, relation_oid};
use super::namespaces::CLASS_SCHEMA;
use super::rows::{Rows, V};
use super::{Model, resolution};
use crate::extensions::{AVAILABLE, Installed};
use crate::roles::Rights;
use crate::search_path::PG_CATALOG;
use crate::user_types::{UserTypes, current};

/// Oid of `pg_extension`.
pub const CLASS_EXTENSION: u32 = 3079;
/// Oid of `pg_proc`.
pub const CLASS_FUNCTION: u32 = 1255;

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
    for Function { oid, .. } in one.functions() {
        depends((CLASS_FUNCTION, *oid), own, 'e');
    }
    for view in model.views.iter().filter(|view| one.has_view(&view.schema, &view.name)) {
        depends((CLASS_RELATION, relation_oid(view.id)), own, 'e');
    }
}
