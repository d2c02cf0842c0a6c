//! `pg_class`, `pg_attribute`, `pg_index` and what else describes relations.

use resurgam_engine::{Access, CheckOption, Deferral, Identity, Table};

use super::comments::comments;
use super::defs::{listed_relations, system_relations};
use super::depend;
use super::extensions;
use super::functions;
use super::model::{CLASS_RELATION, Model, RelationKind, last_shown, relation_oid, row_type_oid};
use super::namespaces::CLASS_SCHEMA;
use super::policies;
use super::rows::{Rows, V};
use super::user_types;
use super::{BTREE_AM_OID, HEAP_AM_OID, SUPERUSER_OID};
use super::{roles, sequences, statistics};
use crate::collation;
use crate::context::PgContext;
use crate::roles::{Rights, of_system_relation};
use crate::search_path::is_temporary;
use crate::types::{column_oid, column_typmod, oid, type_by_oid};
use crate::wire::SqlError;

/// Fills a relation; false if it is not one of these.
pub(super) fn fill(
    name: &str,
    rows: &mut Rows<'_>,
    cx: &dyn PgContext,
    model: &mut dyn FnMut() -> Result<Model, SqlError>,
) -> Result<bool, SqlError> {
    match name {
        "pg_namespace" => {
            let rights = cx.rights()?;
            for schema in &model()?.namespaces {
                let access = rights.schema(&schema.name);
                rows.add([
                    ("oid", schema.oid.into()),
                    ("nspname", schema.name.as_str().into()),
                    ("nspowner", access.owner.into()),
                    ("nspacl", roles::shown_schema(&access, &rights)),
                ]);
            }
        }
        "pg_init_privs" => {
            let (rights, model) = (cx.rights()?, model()?);
            let of_system = |relation: &&super::Relation| relation.id.is_none() && relation.kind != RelationKind::Index;
            for relation in model.relations.iter().filter(of_system) {
                let grants = of_system_relation(&relation.name).grants.unwrap_or_default();
                rows.add([
                    ("objoid", relation.oid.into()),
                    ("classoid", CLASS_RELATION.into()),
                    ("objsubid", 0.into()),
                    ("privtype", 'i'.into()),
                    ("initprivs", roles::shown(Some(&grants), &rights)),
                ]);
            }
            for schema in model.namespaces.iter().filter(|schema| schema.entry.is_none()) {
                let acl = roles::shown_schema(&rights.schema(&schema.name), &rights);
                if !matches!(acl, V::Null) {
                    rows.add([
                        ("objoid", schema.oid.into()),
                        ("classoid", CLASS_SCHEMA.into()),
                        ("objsubid", 0.into()),
                        ("privtype", 'i'.into()),
                        ("initprivs", acl),
                    ]);
                }
            }
        }
        "pg_class" => pg_class(rows, cx, &model()?, cx.rights()?.as_ref()),
        "pg_attribute" => pg_attribute(rows, &model()?, cx.rights()?.as_ref()),
        "pg_attrdef" => {
            let model = model()?;
            for (oid, table, column, default) in defaults(&model) {
                let default = model.expression(&default);
                rows.add([
                    ("oid", oid.into()),
                    ("adrelid", table.into()),
                    ("adnum", column.into()),
                    ("adbin", default.into()),
                ]);
            }
        }
        "pg_index" => pg_index(rows, &model()?),
        "pg_constraint" => {
            let model = model()?;
            pg_constraint(rows, &model);
            user_types::constraints(rows, &model);
        }
        "pg_enum" => user_types::pg_enum(rows),
        "pg_tables" => {
            let (model, rights) = (model()?, cx.rights()?);
            let accesses = roles::Accesses::of(&model);
            for relation in model.relations.iter().filter(|r| r.kind == RelationKind::Table) {
                rows.add([
                    ("schemaname", relation.schema.as_str().into()),
                    ("tablename", relation.name.as_str().into()),
                    ("tableowner", rights.name(accesses.get(relation).owner).into()),
                    ("hasindexes", relation.has_index.into()),
                    ("hasrules", false.into()),
                    ("hastriggers", false.into()),
                    ("rowsecurity", accesses.get(relation).row_security.into()),
                ]);
            }
        }
        "pg_policy" | "pg_policies" => policies::fill(name, rows, cx, &model()?)?,
        "pg_indexes" => {
            for index in &model()?.indexes {
                rows.add([
                    ("schemaname", index.table.schema.as_str().into()),
                    ("tablename", index.table.name.as_str().into()),
                    ("indexname", index.name.as_str().into()),
                    ("indexdef", index.definition(false, false).into()),
                ]);
            }
        }
        "pg_description" => {
            for comment in comments(cx, &model()?)? {
                rows.add([
                    ("objoid", comment.oid.into()),
                    ("classoid", comment.class.into()),
                    ("objsubid", comment.column.into()),
                    ("description", comment.text.into()),
                ]);
            }
        }
        "pg_rewrite" => {
            for view in &model()?.views {
                rows.add([
                    ("oid", rule_oid(view.id).into()),
                    ("rulename", "_RETURN".into()),
                    ("ev_class", relation_oid(view.id).into()),
                    ("ev_type", '1'.into()),
                    ("ev_enabled", 'O'.into()),
                    ("is_instead", true.into()),
                ]);
            }
        }
        // Beside those of the system: a table's rows have one.
        "pg_type" => {
            let model = model()?;
            user_types::pg_type(rows, &model);
            let accesses = roles::Accesses::of(&model);
            for relation in model.relations.iter().filter(|relation| has_row_type(relation)) {
                rows.add([
                    ("oid", row_type_oid(relation.oid).into()),
                    ("typname", relation.name.as_str().into()),
                    ("typnamespace", model.schema_oid(&relation.schema).into()),
                    ("typowner", accesses.get(relation).owner.into()),
                    ("typlen", (-1i16).into()),
                    ("typbyval", false.into()),
                    ("typtype", 'c'.into()),
                    ("typcategory", 'C'.into()),
                    ("typispreferred", false.into()),
                    ("typisdefined", true.into()),
                    ("typdelim", ','.into()),
                    ("typrelid", relation.oid.into()),
                    ("typelem", 0u32.into()),
                    ("typarray", 0u32.into()),
                    ("typinput", "record_in".into()),
                    ("typoutput", "record_out".into()),
                    ("typreceive", "record_recv".into()),
                    ("typsend", "record_send".into()),
                    ("typalign", 'd'.into()),
                    ("typstorage", 'x'.into()),
                    ("typnotnull", false.into()),
                    ("typbasetype", 0u32.into()),
                    ("typtypmod", (-1).into()),
                    ("typndims", 0.into()),
                    ("typcollation", 0u32.into()),
                ]);
            }
        }
        "pg_views" => {
            let (model, rights) = (model()?, cx.rights()?);
            for view in &model.views {
                rows.add([
                    ("schemaname", view.schema.as_str().into()),
                    ("viewname", view.name.as_str().into()),
                    ("viewowner", rights.name(roles::access_of(view).owner).into()),
                    ("definition", model.view_definition(view).into()),
                ]);
            }
            for system in listed_relations().filter(|system| system.kind == 'v') {
                rows.add([
                    ("schemaname", system.schema_name.into()),
                    ("viewname", system.name.into()),
                    ("viewowner", rights.name(SUPERUSER_OID).into()),
                    ("definition", "".into()),
                ]);
            }
        }
        "pg_stat_user_tables" | "pg_stat_all_tables" => {
            for table in &model()?.tables {
                rows.add(statistics::of_table(cx, table));
            }
        }
        "pg_statio_user_tables" | "pg_statio_all_tables" | "pg_stat_xact_user_tables" | "pg_stat_xact_all_tables" => {
            // Nobody counts by table.
            for table in &model()?.tables {
                rows.add([
                    ("relid", relation_oid(table.id).into()),
                    ("schemaname", table.schema.as_str().into()),
                    ("relname", table.name.as_str().into()),
                ]);
            }
        }
        "pg_statio_user_sequences" | "pg_statio_all_sequences" => {
            for sequence in &model()?.sequences {
                rows.add([
                    ("relid", relation_oid(sequence.id).into()),
                    ("schemaname", sequence.schema.as_str().into()),
                    ("relname", sequence.name.as_str().into()),
                ]);
            }
        }
        "pg_stats" => statistics::pg_stats(rows, cx, &model()?)?,
        "pg_stat_user_indexes" | "pg_stat_all_indexes" | "pg_statio_user_indexes" | "pg_statio_all_indexes" => {
            for index in &model()?.indexes {
                rows.add([
                    ("relid", relation_oid(index.table.id).into()),
                    ("indexrelid", index.oid.into()),
                    ("schemaname", index.table.schema.as_str().into()),
                    ("relname", index.table.name.as_str().into()),
                    ("indexrelname", index.name.as_str().into()),
                ]);
            }
        }
        "pg_depend" => {
            let model = model()?;
            depend::fill(rows, &model);
            extensions::fill(name, rows, &model, &*cx.rights()?);
            functions::depend(rows, &model);
        }
        "pg_extension" | "pg_available_extensions" | "pg_available_extension_versions" | "pg_proc" => {
            extensions::fill(name, rows, &model()?, &*cx.rights()?);
        }
        "pg_operator" | "pg_cast" if extensions::brings_operators() => {
            extensions::fill(name, rows, &model()?, &*cx.rights()?);
        }
        "pg_sequence" => sequences::pg_sequence(rows, &model()?),
        "pg_sequences" => sequences::pg_sequences(rows, cx, &model()?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Oid of the rule that a view is.
pub(super) fn rule_oid(view: u32) -> u32 {
    relation_oid(view) | RULE
}
/// Distance from a view's oid to that of its rule.
const RULE: u32 = 1 << 29;

/// Rows of `pg_attrdef`: oid, table oid, column number, text.
pub(super) fn defaults(model: &Model) -> Vec<(u32, u32, usize, String)> {
    let mut out = Vec::new();
    for table in &model.tables {
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden()) {
            let number = out.len() as u32;
            if let Some(generated) = table.generated(at) {
                let shown = crate::definition::parse_shown(&generated.sql)
                    .map_or_else(|_| generated.sql.clone(), |expr| crate::definition::shown(&expr));
                out.push((0x7000_0000 + number, relation_oid(table.id), at + 1, shown));
            } else if let Some(default) = &column.default_sql
                && table.identity(at) == Identity::No
            {
                let shown = shown_default(default, table, at);
                out.push((0x7000_0000 + number, relation_oid(table.id), at + 1, shown));
            }
        }
    }
    out
}

/// A default of a column, as PostgreSQL shows it: constants with the column's type.
pub(super) fn shown_default(sql: &str, table: &Table, at: usize) -> String {
    let ty = crate::types::column_oid(&table.columns[at].ty);
    use datafusion::sql::sqlparser::ast::{Expr, Value};
    let Ok(expr) = crate::definition::parse_shown(sql) else { return sql.to_owned() };
    match &expr {
        Expr::Value(value)
            if table.domain(at).is_none() && matches!(value.value, Value::SingleQuotedString(_) | Value::Null) =>
        {
            let name = crate::types::format_type(ty, Some(-1));
            match &value.value {
                // These are numbers to PostgreSQL.
                Value::SingleQuotedString(text) if matches!(ty, oid::INT2 | oid::INT4 | oid::INT8 | oid::BOOL) => {
                    text.trim().to_owned()
                }
                Value::Null => format!("NULL::{name}"),
                _ => format!("{value}::{name}"),
            }
        }
        expr => crate::definition::shown(expr),
    }
}

fn pg_class(rows: &mut Rows<'_>, cx: &dyn PgContext, model: &Model, rights: &Rights) {
    let accesses = roles::Accesses::of(model);
    let frozen = super::server::frozen_before(cx);
    for relation in &model.relations {
        let is_index = relation.kind == RelationKind::Index;
        let am = match relation.kind {
            RelationKind::Table => HEAP_AM_OID,
            RelationKind::Index => BTREE_AM_OID,
            RelationKind::View | RelationKind::Sequence => 0,
        };
        let table = model.tables.iter().find(|table| Some(table.id) == relation.id && !is_index);
        let known = table.and_then(|table| cx.statistics(table));
        let tuples = match &known {
            Some(known) => Some(known.rows),
            None => table.and_then(|table| cx.row_estimate(table)),
        };
        let tuples = tuples.map_or(-1, |rows| rows.min(i64::MAX as u64) as i64);
        let access = accesses.get(relation);
        // Everybody may read what the system shows, but for some.
        let of_system =
            (relation.id.is_none() && !is_index).then(|| of_system_relation(&relation.name).grants).flatten();
        let grants = of_system.as_deref().or(access.grants.as_deref().filter(|_| !is_index));
        rows.add([
            ("oid", relation.oid.into()),
            ("relacl", roles::shown(grants, rights)),
            ("relname", relation.name.as_str().into()),
            ("relnamespace", model.schema_oid(&relation.schema).into()),
            ("reltype", (if has_row_type(relation) { row_type_oid(relation.oid) } else { 0 }).into()),
            ("relowner", access.owner.into()),
            ("relam", am.into()),
            ("relfilenode", if relation.kind == RelationKind::View { V::from(0) } else { relation.oid.into() }),
            // Without statistics, as of a table that nobody has analysed: to count them takes reading the space maps.
            ("relpages", known.map_or(0, |known| known.pages).into()),
            ("reltuples", tuples.into()),
            ("relhasindex", relation.has_index.into()),
            ("relpersistence", (if is_temporary(&relation.schema) { 't' } else { 'p' }).into()),
            ("relkind", relation.kind.letter().into()),
            ("relnatts", relation.columns.into()),
            ("relchecks", checks_of(model, relation).into()),
            // Foreign keys are triggers there, and psql looks for them where there are some.
            ("relhastriggers", relation.id.is_some_and(|id| is_table(relation) && model.has_foreign_keys(id)).into()),
            ("relhasrules", (relation.kind == RelationKind::View).into()),
            ("relrowsecurity", (is_table(relation) && access.row_security).into()),
            ("relforcerowsecurity", (is_table(relation) && access.forced).into()),
            ("relispopulated", true.into()),
            ("relfrozenxid", (if relation.kind == RelationKind::Table { frozen } else { 0 }).into()),
            ("relminmxid", i64::from(relation.kind == RelationKind::Table).into()),
            ("relreplident", (if relation.kind == RelationKind::Table { 'd' } else { 'n' }).into()),
            ("reloptions", options_of(model, relation, access)),
        ]);
    }
}

/// `reloptions`: what a view was made with.
fn options_of(model: &Model, relation: &super::Relation, access: &Access) -> V {
    let view = model.views.iter().find(|view| Some(view.id) == relation.id).and_then(|view| view.view.as_ref());
    let check = match view.map(|view| view.check) {
        Some(CheckOption::Local) => Some("check_option=local"),
        Some(CheckOption::Cascaded) => Some("check_option=cascaded"),
        Some(CheckOption::None) | None => None,
    };
    let flags = [(access.invoker, "security_invoker=true"), (access.barrier, "security_barrier=true")];
    let options: Vec<&str> = flags.into_iter().filter(|(on, _)| *on).map(|(_, option)| option).chain(check).collect();
    if options.is_empty() { V::Null } else { options.into() }
}

/// Whether `pg_type` has the type of its rows: a user's table or view.
pub(super) fn has_row_type(relation: &super::Relation) -> bool {
    matches!(relation.kind, RelationKind::Table | RelationKind::View) && relation.id.is_some()
}

fn is_table(relation: &super::Relation) -> bool {
    relation.kind == RelationKind::Table
}

fn checks_of(model: &Model, relation: &super::Relation) -> usize {
    if relation.kind != RelationKind::Table {
        return 0;
    }
    model.tables.iter().find(|table| Some(table.id) == relation.id).map_or(0, |table| table.checks.len())
}

fn storage(ty: u32) -> char {
    match ty {
        oid::NUMERIC | oid::INET | oid::CIDR => 'm',
        oid::INT2VECTOR | oid::OIDVECTOR => 'p',
        _ => match type_by_oid(ty) {
            Some(row) if row.len == -1 => 'x',
            _ => 'p',
        },
    }
}

#[derive(Clone, Copy)]
struct Attribute<'a> {
    relation: u32,
    number: usize,
    name: &'a str,
    ty: u32,
    typmod: i32,
    not_null: bool,
    has_default: bool,
    is_generated: bool,
    /// `a` or `d`; nothing for a column that is none.
    identity: &'a str,
    /// Oid; 0: none.
    collation: u32,
}

fn attribute(rows: &mut Rows<'_>, at: Attribute<'_>) {
    let ty = type_by_oid(at.ty);
    rows.add([
        ("attrelid", at.relation.into()),
        ("attname", at.name.into()),
        ("atttypid", at.ty.into()),
        ("attstattarget", (-1).into()),
        ("attlen", ty.map_or(-1, |ty| ty.len).into()),
        ("attnum", at.number.into()),
        ("attndims", i64::from(ty.is_some_and(|ty| ty.elem != 0 && ty.category == 'A')).into()),
        ("attcacheoff", (-1).into()),
        ("atttypmod", at.typmod.into()),
        ("attbyval", ty.is_some_and(|ty| ty.by_value).into()),
        ("attalign", ty.map_or('i', |ty| ty.align).into()),
        ("attstorage", storage(at.ty).into()),
        ("attnotnull", at.not_null.into()),
        ("atthasdef", (at.has_default || at.is_generated).into()),
        ("attgenerated", (if at.is_generated { "s" } else { "" }).into()),
        ("attidentity", at.identity.into()),
        ("attislocal", true.into()),
        ("attcollation", at.collation.into()),
    ]);
}

/// What an index on an expression keeps beside the table's columns has one of their numbers. Programs that count these (pg_dump) pass over
/// it as over a column that was dropped, where others come behind it.
fn dropped(rows: &mut Rows<'_>, relation: u32, number: usize) {
    rows.add([
        ("attrelid", relation.into()),
        ("attname", format!("........pg.dropped.{number}........").into()),
        ("atttypid", 0.into()),
        ("attstattarget", 0.into()),
        ("attnum", number.into()),
        ("attcacheoff", (-1).into()),
        ("atttypmod", (-1).into()),
        ("attalign", 'i'.into()),
        ("attstorage", 'p'.into()),
        ("attisdropped", true.into()),
        ("attislocal", true.into()),
    ]);
}

fn pg_attribute(rows: &mut Rows<'_>, model: &Model, rights: &Rights) {
    for system in system_relations() {
        for (at, column) in system.columns.iter().enumerate() {
            attribute(
                rows,
                Attribute {
                    relation: system.oid,
                    number: at + 1,
                    name: column.name,
                    ty: column.oid,
                    typmod: -1,
                    not_null: column.not_null,
                    has_default: false,
                    is_generated: false,
                    identity: "",
                    collation: collation::of_type(column.oid),
                },
            );
        }
    }
    for table in &model.tables {
        for (at, column) in table.columns.iter().enumerate().take(last_shown(table)) {
            if column.is_hidden() {
                dropped(rows, relation_oid(table.id), at + 1);
                continue;
            }
            attribute(
                rows,
                Attribute {
                    relation: relation_oid(table.id),
                    number: at + 1,
                    name: &column.name,
                    ty: table.domain(at).unwrap_or_else(|| column_oid(&column.ty)),
                    typmod: if table.domain(at).is_some() { -1 } else { column_typmod(&column.ty) },
                    not_null: !column.nullable,
                    has_default: column.default_sql.is_some() && table.identity(at) == Identity::No,
                    is_generated: table.generated(at).is_some(),
                    identity: match table.identity(at) {
                        Identity::No => "",
                        Identity::Always => "a",
                        Identity::ByDefault => "d",
                    },
                    collation: collation::of_column(table, at),
                },
            );
            rows.put("attacl", roles::shown_column(roles::access_of(table), at, rights));
        }
    }
    for view in &model.views {
        for (at, column) in view.view.iter().flat_map(|view| &view.columns).enumerate() {
            attribute(
                rows,
                Attribute {
                    relation: relation_oid(view.id),
                    number: at + 1,
                    name: &column.name,
                    ty: column.oid,
                    typmod: column.typmod,
                    not_null: false,
                    has_default: column.default_sql.is_some(),
                    is_generated: false,
                    identity: "",
                    collation: collation::of_type(column.oid),
                },
            );
            rows.put("attacl", roles::shown_column(roles::access_of(view), at, rights));
        }
    }
    for sequence in &model.sequences {
        for (at, (name, ty)) in sequences::COLUMNS.iter().enumerate() {
            attribute(
                rows,
                Attribute {
                    relation: relation_oid(sequence.id),
                    number: at + 1,
                    name,
                    ty: *ty,
                    typmod: -1,
                    not_null: true,
                    has_default: false,
                    is_generated: false,
                    identity: "",
                    collation: 0,
                },
            );
        }
    }
    for index in &model.indexes {
        let (names, collations) = (index.attribute_names(), index.collations());
        for (at, (position, name)) in index.attributes().zip(&names).enumerate() {
            if let Some(column) = index.table.columns.get(position) {
                attribute(
                    rows,
                    Attribute {
                        relation: index.oid,
                        number: at + 1,
                        name,
                        ty: column_oid(&column.ty),
                        typmod: column_typmod(&column.ty),
                        not_null: false,
                        has_default: false,
                        is_generated: false,
                        identity: "",
                        collation: collations.get(at).copied().unwrap_or(0),
                    },
                );
            }
        }
    }
}

/// Numbers of columns as `indkey` has them: 0 for expressions.
fn numbers(table: &Table, keys: &[usize]) -> Vec<usize> {
    let number = |at: &usize| if table.columns.get(*at).is_some_and(|column| column.is_hidden()) { 0 } else { at + 1 };
    keys.iter().map(number).collect()
}

fn pg_index(rows: &mut Rows<'_>, model: &Model) {
    for index in &model.indexes {
        let keys = index.keys().count();
        let all: Vec<usize> = index.attributes().collect();
        rows.add([
            ("indexrelid", index.oid.into()),
            ("indrelid", relation_oid(index.table.id).into()),
            ("indnatts", all.len().into()),
            ("indnkeyatts", keys.into()),
            ("indisunique", index.unique.into()),
            ("indnullsnotdistinct", index.nulls_alike.into()),
            ("indisprimary", index.primary.into()),
            ("indimmediate", (index.deferral == Deferral::Never).into()),
            ("indisvalid", index.valid.into()),
            ("indisready", true.into()),
            ("indislive", true.into()),
            ("indkey", numbers(&index.table, &all).into()),
            ("indcollation", index.collations().into()),
            ("indclass", index.classes().into()),
            ("indoption", index.options().into()),
            ("indexprs", index.expressions().into()),
            ("indpred", index.predicate(false).into()),
        ]);
    }
}

fn pg_constraint(rows: &mut Rows<'_>, model: &Model) {
    for constraint in model.constraints() {
        let index = &constraint.index;
        rows.add([
            ("oid", constraint.oid.into()),
            ("conname", index.name.as_str().into()),
            ("connamespace", model.schema_oid(&index.table.schema).into()),
            ("contype", constraint.kind().into()),
            ("condeferrable", (index.deferral != Deferral::Never).into()),
            ("condeferred", (index.deferral == Deferral::Transaction).into()),
            ("convalidated", true.into()),
            ("conrelid", relation_oid(index.table.id).into()),
            ("conindid", index.oid.into()),
            ("confupdtype", ' '.into()),
            ("confdeltype", ' '.into()),
            ("confmatchtype", ' '.into()),
            ("conislocal", true.into()),
            ("connoinherit", true.into()),
            ("conkey", index.columns.iter().map(|at| at + 1).collect::<Vec<_>>().into()),
        ]);
    }
    for info in model.checks() {
        let check = info.check();
        rows.add([
            ("oid", info.oid.into()),
            ("conname", check.name.as_str().into()),
            ("connamespace", model.schema_oid(&info.table.schema).into()),
            ("contype", 'c'.into()),
            ("convalidated", check.validated.into()),
            ("conrelid", relation_oid(info.table.id).into()),
            ("confupdtype", ' '.into()),
            ("confdeltype", ' '.into()),
            ("confmatchtype", ' '.into()),
            ("conislocal", true.into()),
            ("connoinherit", false.into()),
            ("conkey", check.columns.iter().map(|at| at + 1).collect::<Vec<_>>().into()),
            ("conbin", info.condition().into()),
        ]);
    }
    for info in model.foreign_keys() {
        let foreign = &info.foreign;
        rows.add([
            ("oid", info.oid.into()),
            ("conname", foreign.name.as_str().into()),
            ("connamespace", model.schema_oid(&info.table.schema).into()),
            ("contype", 'f'.into()),
            ("condeferrable", foreign.deferrable.into()),
            ("condeferred", foreign.deferred.into()),
            ("convalidated", foreign.validated.into()),
            ("conrelid", relation_oid(info.table.id).into()),
            ("conindid", info.index_oid().into()),
            ("confrelid", relation_oid(info.parent.id).into()),
            ("confupdtype", info.on_update().0.into()),
            ("confdeltype", info.on_delete().0.into()),
            ("confmatchtype", (if foreign.match_full { 'f' } else { 's' }).into()),
            ("conislocal", true.into()),
            ("connoinherit", true.into()),
            ("conkey", foreign.columns.iter().map(|at| at + 1).collect::<Vec<_>>().into()),
            ("confkey", info.referenced.iter().map(|at| at + 1).collect::<Vec<_>>().into()),
        ]);
    }
}
