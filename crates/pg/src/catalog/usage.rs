//! The parts of `information_schema` that say what uses what: constraints and views of tables and columns, columns of types;
//! and the types of arrays' elements.

use super::info::{collation_of, constraint_part};
use super::model::Model;
use super::rows::{Rows, V};
use super::seen::Seen;
use super::{SUPERUSER_OID, system_relations, user_types};
use crate::collation;
use crate::types::{column_oid, element_oid, format_type, type_by_oid};

/// Fills a view; false if it is not one of these.
pub(super) fn fill(name: &str, rows: &mut Rows<'_>, database: &str, model: &Model, seen: &Seen) -> bool {
    match name {
        "constraint_table_usage" => constraint_tables(rows, database, model, seen),
        "view_table_usage" | "view_column_usage" => views(rows, database, model, seen, name == "view_column_usage"),
        "column_udt_usage" => column_types(rows, database, model, seen),
        "element_types" => elements(rows, database, model, seen),
        _ => return false,
    }
    true
}

fn constraint_tables(rows: &mut Rows<'_>, database: &str, model: &Model, seen: &Seen) {
    let keys =
        model.constraints().map(|one| (one.index.table.clone(), one.index.name.clone(), one.index.table.clone()));
    // A foreign key uses the table that it refers to.
    let foreign = model.foreign_keys().map(|info| (info.table.clone(), info.foreign.name.clone(), info.parent.clone()));
    for (of, name, table) in keys.chain(foreign).filter(|(.., table)| seen.owns(table)) {
        rows.add(constraint_part(database, &of.schema, &name).into_iter().chain([
            ("table_catalog", database.into()),
            ("table_schema", table.schema.as_str().into()),
            ("table_name", table.name.as_str().into()),
        ]));
    }
}

/// The tables that views read, or their columns, of those whose owner asks.
fn views(rows: &mut Rows<'_>, database: &str, model: &Model, seen: &Seen, by_column: bool) {
    for view in &model.views {
        let mut known = Vec::new();
        for relation in view.view.iter().flat_map(|view| &view.relations) {
            let mut entries = model.tables.iter().chain(&model.views);
            let Some(entry) = entries.find(|entry| entry.id == relation.id).filter(|entry| seen.owns(entry)) else {
                continue;
            };
            let used: Vec<Option<usize>> = match by_column {
                true => relation.columns.iter().filter(|column| column.used).map(|column| Some(column.at)).collect(),
                false => vec![None],
            };
            for at in used {
                // A relation that is named twice is one.
                if known.contains(&(relation.id, at)) {
                    continue;
                }
                known.push((relation.id, at));
                rows.add([
                    ("view_catalog", V::from(database)),
                    ("view_schema", view.schema.as_str().into()),
                    ("view_name", view.name.as_str().into()),
                    ("table_catalog", database.into()),
                    ("table_schema", entry.schema.as_str().into()),
                    ("table_name", entry.name.as_str().into()),
                ]);
                if let Some(at) = at {
                    let of_view = || entry.view.as_ref()?.columns.get(at).map(|column| column.name.as_str());
                    let name = entry.columns.get(at).map(|column| column.name.as_str()).or_else(of_view);
                    rows.put("column_name", name.into());
                }
            }
        }
    }
}

/// A column of a relation: schema, name, number and name of the column, type (a domain or not), collation.
type Column<'m> = (&'m str, &'m str, usize, &'m str, u32, u32);

/// The columns of what users made.
fn columns(model: &Model) -> Vec<Column<'_>> {
    let mut out = Vec::new();
    for table in &model.tables {
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden()) {
            let ty = table.domain(at).unwrap_or_else(|| column_oid(&column.ty));
            let collation = collation::of_column(table, at);
            out.push((table.schema.as_str(), table.name.as_str(), at + 1, column.name.as_str(), ty, collation));
        }
    }
    for view in &model.views {
        for (at, column) in view.view.iter().flat_map(|view| &view.columns).enumerate() {
            let collation = collation::of_type(column.oid);
            out.push((view.schema.as_str(), view.name.as_str(), at + 1, column.name.as_str(), column.oid, collation));
        }
    }
    out
}

/// What columns are of whose types the role owns: those of the system are the first role's.
fn column_types(rows: &mut Rows<'_>, database: &str, model: &Model, seen: &Seen) {
    let of_system = system_relations().iter().filter(|system| system.schema_name != "sys").flat_map(|system| {
        let column = move |(at, column): (usize, &super::defs::SystemColumn)| {
            (system.schema_name, system.name, at + 1, column.name, column.oid, 0)
        };
        system.columns.iter().enumerate().map(column).collect::<Vec<Column<'_>>>()
    });
    for (schema, table, _, column, ty, _) in of_system.chain(columns(model)) {
        let ty = user_types::base_of(ty);
        let owner = crate::user_types::by_oid(ty).map_or(SUPERUSER_OID, |ty| ty.owner);
        if !seen.has_rights_of(owner) {
            continue;
        }
        let (udt_schema, udt_name, _) = user_types::udt(ty);
        rows.add([
            ("udt_catalog", database.into()),
            ("udt_schema", udt_schema.into()),
            ("udt_name", udt_name.into()),
            ("table_catalog", database.into()),
            ("table_schema", schema.into()),
            ("table_name", table.into()),
            ("column_name", column.into()),
        ]);
    }
}

/// The types of the elements of columns that are arrays, and of domains of arrays.
fn elements(rows: &mut Rows<'_>, database: &str, model: &Model, seen: &Seen) {
    let of_columns = columns(model).into_iter().filter(|(schema, table, number, ..)| {
        let mut entries = model.tables.iter().chain(&model.views);
        let entry = entries.find(|entry| entry.schema == *schema && entry.name == *table);
        entry.is_some_and(|entry| seen.column(entry, number - 1))
    });
    let of_columns = of_columns.map(|(schema, table, number, _, ty, collation)| {
        (schema.to_owned(), table.to_owned(), "TABLE", number.to_string(), ty, collation)
    });
    let types = crate::user_types::current();
    let domains = types.iter().flat_map(|types| types.iter()).filter_map(|ty| Some((ty, ty.as_domain()?)));
    let of_domains = domains.map(|(ty, domain)| {
        let collation = collation::of_type(domain.base);
        (ty.schema.clone(), ty.name.clone(), "DOMAIN", "1".to_owned(), domain.base, collation)
    });
    for (schema, object, kind, number, ty, collation) in of_columns.chain(of_domains) {
        let Some(element) = element_oid(ty).filter(|_| type_by_oid(ty).is_some_and(|row| row.category == 'A')) else {
            continue;
        };
        let (udt_schema, udt_name, own) = user_types::udt(element);
        let data_type = if own { "USER-DEFINED".to_owned() } else { format_type(element, None) };
        let row: [(&'static str, V); 10] = [
            ("object_catalog", database.into()),
            ("object_schema", schema.into()),
            ("object_name", object.into()),
            ("object_type", kind.into()),
            ("collection_type_identifier", number.as_str().into()),
            ("data_type", data_type.into()),
            ("udt_catalog", database.into()),
            ("udt_schema", udt_schema.into()),
            ("udt_name", udt_name.into()),
            ("dtd_identifier", format!("a{number}").into()),
        ];
        rows.add(row.into_iter().chain(collation_of(database, collation)));
    }
}
