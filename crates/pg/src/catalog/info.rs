//! `information_schema`.

use resurgam_engine::{CheckOption, ColumnType, Deferral, Identity, OrderedType, Sequence, Table};

use super::defs::listed_relations;
use super::functions;
use super::model::{Model, RelationKind};
use super::relations::shown_default;
use super::rows::{Rows, V};
use super::seen::Seen;
use super::user_types;
use crate::collation;
use crate::context::PgContext;
use crate::types::{column_oid, format_type, type_by_oid};
use crate::wire::SqlError;

/// Fills a view; false if it is not one of these.
pub(super) fn fill(
    name: &str,
    rows: &mut Rows<'_>,
    cx: &dyn PgContext,
    model: &mut dyn FnMut() -> Result<Model, SqlError>,
) -> Result<bool, SqlError> {
    let database = cx.database();
    match name {
        "information_schema_catalog_name" => rows.add([("catalog_name", database.into())]),
        "schemata" => {
            let (rights, seen) = (cx.rights()?, Seen::by(cx)?);
            for schema in model()?.namespaces.iter().filter(|schema| seen.schema(&schema.name)) {
                let owner = rights.name(rights.schema(&schema.name).owner);
                rows.add([
                    ("catalog_name", database.as_str().into()),
                    ("schema_name", schema.name.as_str().into()),
                    ("schema_owner", owner.into()),
                ]);
            }
        }
        "tables" => {
            let model = model()?;
            for relation in Seen::by(cx)?.relations(&model) {
                let view = relation.kind == RelationKind::View;
                let own = model.views.iter().find(|view| Some(view.id) == relation.id);
                let insertable = match own.filter(|_| view) {
                    Some(own) => model.view_updatable(own).1,
                    None => relation.id.is_some(),
                };
                rows.add([
                    ("table_catalog", database.as_str().into()),
                    ("table_schema", relation.schema.as_str().into()),
                    ("table_name", relation.name.as_str().into()),
                    (
                        "table_type",
                        match () {
                            () if view => "VIEW",
                            () if crate::search_path::is_temporary(&relation.schema) => "LOCAL TEMPORARY",
                            () => "BASE TABLE",
                        }
                        .into(),
                    ),
                    ("is_insertable_into", yes_no(insertable)),
                    ("is_typed", "NO".into()),
                ]);
            }
        }
        "routines" => functions::routines(rows, &database, &Seen::by(cx)?),
        "parameters" => functions::parameters(rows, &database, &Seen::by(cx)?),
        "views" => {
            let model = model()?;
            let seen = Seen::by(cx)?;
            for view in model.views.iter().filter(|view| seen.entry(view)) {
                let Some(definition) = &view.view else { continue };
                let check = match definition.check {
                    CheckOption::None => "NONE",
                    CheckOption::Local => "LOCAL",
                    CheckOption::Cascaded => "CASCADED",
                };
                let updatable = model.view_updatable(view).1;
                rows.add([
                    ("table_catalog", database.as_str().into()),
                    ("table_schema", view.schema.as_str().into()),
                    ("table_name", view.name.as_str().into()),
                    ("view_definition", seen.owns(view).then(|| model.view_definition(view)).into()),
                    ("check_option", check.into()),
                    ("is_updatable", yes_no(updatable)),
                    ("is_insertable_into", yes_no(updatable)),
                    ("is_trigger_updatable", "NO".into()),
                    ("is_trigger_deletable", "NO".into()),
                    ("is_trigger_insertable_into", "NO".into()),
                ]);
            }
            let is_seen = |name: &str| seen.system(name);
            for system in listed_relations().filter(|system| system.kind == 'v' && is_seen(system.name)) {
                rows.add([
                    ("table_catalog", database.as_str().into()),
                    ("table_schema", system.schema_name.into()),
                    ("table_name", system.name.into()),
                    ("check_option", "NONE".into()),
                    ("is_updatable", "NO".into()),
                    ("is_insertable_into", "NO".into()),
                    ("is_trigger_updatable", "NO".into()),
                    ("is_trigger_deletable", "NO".into()),
                    ("is_trigger_insertable_into", "NO".into()),
                ]);
            }
        }
        "columns" => columns(rows, &database, &model()?, &Seen::by(cx)?),
        "sequences" => super::sequences::information(rows, &database, &model()?, &Seen::by(cx)?),
        "table_constraints" => {
            let (model, seen) = (model()?, Seen::by(cx)?);
            for constraint in model.constraints() {
                let index = &constraint.index;
                if !seen.constraints_of(&index.table) {
                    continue;
                }
                let kind = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
                let deferring = (index.deferral != Deferral::Never, index.deferral == Deferral::Transaction);
                let table = &index.table;
                constraint_row(rows, &database, &table.schema, &table.name, &index.name, kind, deferring);
            }
            for check in model.checks().filter(|check| seen.constraints_of(&check.table)) {
                table_constraint(rows, &database, &check.table.schema, &check.table.name, &check.check().name, "CHECK");
            }
            for info in model.foreign_keys().filter(|info| seen.constraints_of(&info.table)) {
                let (table, foreign) = (&info.table, &info.foreign);
                let kind = "FOREIGN KEY";
                let deferring = (foreign.deferrable, foreign.deferred);
                constraint_row(rows, &database, &table.schema, &table.name, &foreign.name, kind, deferring);
            }
            for table in model.tables.iter().filter(|table| seen.constraints_of(table)) {
                for (name, _) in not_nulls(&model, table) {
                    table_constraint(rows, &database, &table.schema, &table.name, &name, "CHECK");
                }
            }
        }
        "constraint_table_usage" | "view_table_usage" | "view_column_usage" | "column_udt_usage" | "element_types" => {
            super::usage::fill(name, rows, &database, &model()?, &Seen::by(cx)?);
        }
        "domains" | "domain_constraints" | "column_domain_usage" => {
            user_types::information_schema(name, rows, &database, &model()?);
        }
        "check_constraints" => {
            user_types::information_schema(name, rows, &database, &model()?);
            let seen = Seen::by(cx)?;
            for check in model()?.checks().filter(|check| seen.owns(&check.table)) {
                rows.add([
                    ("constraint_catalog", V::from(database.as_str())),
                    ("constraint_schema", check.table.schema.as_str().into()),
                    ("constraint_name", check.check().name.as_str().into()),
                    ("check_clause", check.condition().into()),
                ]);
            }
            let model = model()?;
            for table in model.tables.iter().filter(|table| seen.owns(table)) {
                for (name, condition) in not_nulls(&model, table) {
                    rows.add([
                        ("constraint_catalog", V::from(database.as_str())),
                        ("constraint_schema", table.schema.as_str().into()),
                        ("constraint_name", name.into()),
                        ("check_clause", condition.into()),
                    ]);
                }
            }
        }
        "key_column_usage" | "constraint_column_usage" => {
            let keys = name == "key_column_usage";
            let (model, seen) = (model()?, Seen::by(cx)?);
            // What a key has to do with is its owner's to know; of which columns it is, whoever may use these.
            let is_seen = |table: &Table, at: usize| if keys { seen.column(table, at) } else { seen.owns(table) };
            for check in model.checks().filter(|check| !keys && seen.owns(&check.table)) {
                for column in check.check().columns.iter().filter_map(|at| check.table.columns.get(*at)) {
                    rows.add(constraint_part(&database, &check.table.schema, &check.check().name).into_iter().chain([
                        ("table_catalog", V::from(database.as_str())),
                        ("table_schema", check.table.schema.as_str().into()),
                        ("table_name", check.table.name.as_str().into()),
                        ("column_name", column.name.as_str().into()),
                    ]));
                }
            }
            for info in model.foreign_keys() {
                let (table, columns) =
                    if keys { (&info.table, &info.foreign.columns) } else { (&info.parent, &info.referenced) };
                for (at, column) in columns.iter().enumerate().filter(|(_, column)| is_seen(table, **column)) {
                    let mut row = vec![
                        ("constraint_catalog", V::from(database.as_str())),
                        ("constraint_schema", info.table.schema.as_str().into()),
                        ("constraint_name", info.foreign.name.as_str().into()),
                        ("table_catalog", database.as_str().into()),
                        ("table_schema", table.schema.as_str().into()),
                        ("table_name", table.name.as_str().into()),
                        ("column_name", table.columns[*column].name.as_str().into()),
                    ];
                    if keys {
                        row.push(("ordinal_position", (at + 1).into()));
                        row.push(("position_in_unique_constraint", (info.foreign.key[at] + 1).into()));
                    }
                    rows.add(row);
                }
            }
            for constraint in model.constraints() {
                let index = &constraint.index;
                for (at, &column) in index.columns.iter().enumerate().filter(|(_, at)| is_seen(&index.table, **at)) {
                    let Some(column) = index.table.columns.get(column) else { continue };
                    let mut row = vec![
                        ("constraint_catalog", V::from(database.as_str())),
                        ("constraint_schema", index.table.schema.as_str().into()),
                        ("constraint_name", index.name.as_str().into()),
                        ("table_catalog", database.as_str().into()),
                        ("table_schema", index.table.schema.as_str().into()),
                        ("table_name", index.table.name.as_str().into()),
                        ("column_name", column.name.as_str().into()),
                    ];
                    if keys {
                        row.push(("ordinal_position", (at + 1).into()));
                    }
                    rows.add(row);
                }
            }
        }
        "referential_constraints" => {
            let seen = Seen::by(cx)?;
            for info in model()?.foreign_keys().filter(|info| seen.constraints_of(&info.table)) {
                rows.add([
                    ("constraint_catalog", V::from(database.as_str())),
                    ("constraint_schema", info.table.schema.as_str().into()),
                    ("constraint_name", info.foreign.name.as_str().into()),
                    ("unique_constraint_catalog", database.as_str().into()),
                    ("unique_constraint_schema", info.parent.schema.as_str().into()),
                    ("unique_constraint_name", info.index_name().into()),
                    ("match_option", (if info.foreign.match_full { "FULL" } else { "NONE" }).into()),
                    ("update_rule", info.on_update().1.into()),
                    ("delete_rule", info.on_delete().1.into()),
                ]);
            }
        }
        "character_sets" => rows.add([
            ("character_set_name", "UTF8".into()),
            ("character_repertoire", "UCS".into()),
            ("form_of_use", "UTF8".into()),
            ("default_collate_catalog", database.as_str().into()),
            ("default_collate_schema", "pg_catalog".into()),
            ("default_collate_name", "C".into()),
        ]),
        "collations" | "collation_character_set_applicability" => {
            let second =
                if name == "collations" { ("pad_attribute", "NO PAD") } else { ("character_set_name", "UTF8") };
            for collation in crate::collation::all() {
                rows.add([
                    ("collation_catalog", V::from(database.as_str())),
                    ("collation_schema", "pg_catalog".into()),
                    ("collation_name", collation.name.into()),
                    (second.0, second.1.into()),
                ]);
            }
        }
        _ => return super::roles::information(name, cx, rows, model),
    }
    Ok(true)
}

/// The columns that name a constraint.
pub(super) fn constraint_part(database: &str, schema: &str, name: &str) -> [(&'static str, V); 3] {
    [("constraint_catalog", database.into()), ("constraint_schema", schema.into()), ("constraint_name", name.into())]
}

/// The columns that name a collation, if it is not that of the database.
pub(super) fn collation_of(database: &str, oid: u32) -> [(&'static str, V); 3] {
    let name = Some(oid).filter(|oid| *oid != collation::DEFAULT).and_then(collation::name_of);
    [
        ("collation_catalog", name.map(|_| database).into()),
        ("collation_schema", name.map(|_| "pg_catalog").into()),
        ("collation_name", name.into()),
    ]
}

fn yes_no(yes: bool) -> V {
    (if yes { "YES" } else { "NO" }).into()
}

fn table_constraint(rows: &mut Rows<'_>, database: &str, schema: &str, table: &str, name: &str, kind: &str) {
    constraint_row(rows, database, schema, table, name, kind, (false, false));
}

fn constraint_row(
    rows: &mut Rows<'_>,
    database: &str,
    schema: &str,
    table: &str,
    name: &str,
    kind: &str,
    (deferrable, deferred): (bool, bool),
) {
    rows.add([
        ("constraint_catalog", database.into()),
        ("constraint_schema", schema.into()),
        ("constraint_name", name.into()),
        ("table_catalog", database.into()),
        ("table_schema", schema.into()),
        ("table_name", table.into()),
        ("constraint_type", kind.into()),
        ("is_deferrable", yes_no(deferrable)),
        ("initially_deferred", yes_no(deferred)),
        ("enforced", "YES".into()),
    ]);
}

/// Precision, its radix, scale; and the precision of date/time types.
pub(super) fn precision(ty: &ColumnType) -> (Option<i64>, Option<i64>, Option<i64>, Option<i64>) {
    match *ty {
        ColumnType::Int2 => (Some(16), Some(2), Some(0), None),
        ColumnType::Int4 => (Some(32), Some(2), Some(0), None),
        ColumnType::Int8 => (Some(64), Some(2), Some(0), None),
        ColumnType::Float4 => (Some(24), Some(2), None, None),
        ColumnType::Float8 => (Some(53), Some(2), None, None),
        ColumnType::Numeric { precision, scale } if crate::types::column_typmod(ty) >= 0 => {
            (Some(precision.into()), Some(10), Some(scale.into()), None)
        }
        ColumnType::VarNumeric(Some(limit)) => {
            // As PostgreSQL 15 has a negative one: the eleven bits of the modifier.
            (Some(limit.precision.into()), Some(10), Some((i32::from(limit.scale) & 0x7ff).into()), None)
        }
        ColumnType::Numeric { .. } | ColumnType::VarNumeric(None) => (None, Some(10), None, None),
        ColumnType::Date => (None, None, None, Some(0)),
        ColumnType::Time(digits) | ColumnType::Timestamp(digits) | ColumnType::TimestampTz(digits) => {
            (None, None, None, Some(digits.unwrap_or(6).into()))
        }
        ColumnType::Ordered(OrderedType::TimeTz(digits)) => (None, None, None, Some(digits.unwrap_or(6).into())),
        ColumnType::Interval(limit) => {
            let digits = limit.map_or(6, |limit| limit & 0xffff);
            (None, None, None, Some(if digits > 6 { 6 } else { digits.into() }))
        }
        _ => (None, None, None, None),
    }
}

/// NOT NULL of a table's columns as the standard has it: names and conditions of constraints.
fn not_nulls(model: &Model, table: &Table) -> impl Iterator<Item = (String, String)> {
    let of = format!("{}_{}", model.schema_oid(&table.schema), super::relation_oid(table.id));
    let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.nullable);
    columns.map(move |(at, column)| (format!("{of}_{}_not_null", at + 1), format!("{} IS NOT NULL", column.name)))
}

/// Most characters or bits of a type's values, and most bytes of its texts.
pub(super) fn lengths(ty: &ColumnType) -> (Option<i64>, Option<i64>) {
    match *ty {
        ColumnType::Text | ColumnType::VARCHAR => (None, Some(1_073_741_824)),
        ColumnType::Varchar(n) | ColumnType::Char(n) => (Some(n.into()), Some(i64::from(n) * 4)),
        ColumnType::Ordered(OrderedType::Bit(Some(n)) | OrderedType::VarBit(Some(n))) => (Some(n.into()), None),
        _ => (None, None),
    }
}

fn columns(rows: &mut Rows<'_>, database: &str, model: &Model, seen: &Seen) {
    for system in listed_relations().filter(|system| seen.system(system.name)) {
        for (at, column) in system.columns.iter().enumerate() {
            let ty = type_by_oid(column.oid);
            let data_type = match ty {
                Some(ty) if ty.category == 'A' && ty.name.starts_with('_') => "ARRAY".to_owned(),
                _ => format_type(column.oid, None),
            };
            rows.add([
                ("table_catalog", database.into()),
                ("table_schema", system.schema_name.into()),
                ("table_name", system.name.into()),
                ("column_name", column.name.into()),
                ("ordinal_position", (at + 1).into()),
                ("is_nullable", yes_no(!column.not_null)),
                ("data_type", data_type.into()),
                ("udt_catalog", database.into()),
                ("udt_schema", "pg_catalog".into()),
                ("udt_name", ty.map_or("text", |ty| ty.name).into()),
                ("dtd_identifier", (at + 1).to_string().into()),
                ("is_self_referencing", "NO".into()),
                ("is_identity", "NO".into()),
                ("identity_cycle", "NO".into()),
                ("is_generated", "NEVER".into()),
                ("is_updatable", yes_no(system.kind == 'r')),
            ]);
        }
    }
    for view in &model.views {
        let (updatable, _) = model.view_updatable(view);
        for (at, column) in view.view.iter().flat_map(|view| &view.columns).enumerate() {
            if !seen.column(view, at) {
                continue;
            }
            let ty = type_by_oid(column.oid);
            let data_type = match ty {
                Some(ty) if ty.category == 'A' && ty.name.starts_with('_') => "ARRAY".to_owned(),
                Some(ty) if ty.category == 'E' => "USER-DEFINED".to_owned(),
                _ => format_type(column.oid, None),
            };
            let (udt_schema, udt_name, _) = user_types::udt(column.oid);
            let stored = crate::types::column_type_of_oid(column.oid, column.typmod);
            let (precision, radix, scale, time) = stored.as_ref().map_or((None, None, None, None), precision);
            let (characters, octets) = stored.as_ref().map_or((None, None), lengths);
            rows.add([
                ("table_catalog", database.into()),
                ("table_schema", view.schema.as_str().into()),
                ("table_name", view.name.as_str().into()),
                ("column_name", column.name.as_str().into()),
                ("ordinal_position", (at + 1).into()),
                ("column_default", column.default_sql.as_deref().into()),
                ("is_nullable", "YES".into()),
                ("data_type", data_type.into()),
                ("character_maximum_length", characters.into()),
                ("character_octet_length", octets.into()),
                ("numeric_precision", precision.into()),
                ("numeric_precision_radix", radix.into()),
                ("numeric_scale", scale.into()),
                ("datetime_precision", time.into()),
                ("udt_catalog", database.into()),
                ("udt_schema", udt_schema.into()),
                ("udt_name", udt_name.into()),
                ("dtd_identifier", (at + 1).to_string().into()),
                ("is_self_referencing", "NO".into()),
                ("is_identity", "NO".into()),
                ("identity_cycle", "NO".into()),
                ("is_generated", "NEVER".into()),
                ("is_updatable", yes_no(updatable.get(at).copied().unwrap_or(false))),
            ]);
        }
    }
    for table in &model.tables {
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden()) {
            if !seen.column(table, at) {
                continue;
            }
            let ty = column_oid(&column.ty);
            let generated = table.generated(at).map(|generated| {
                crate::definition::parse_shown(&generated.sql)
                    .map_or_else(|_| generated.sql.clone(), |expr| crate::definition::shown(&expr))
            });
            let identity = table.identity(at);
            let sequence = model.identity_sequence(table, at);
            let value = |of: fn(&Sequence) -> i64| sequence.map(|sequence| of(sequence).to_string());
            let (precision, radix, scale, time) = precision(&column.ty);
            let (characters, octets) = lengths(&column.ty);
            let data_type = match column.ty {
                ColumnType::Array(_) => "ARRAY".to_owned(),
                ColumnType::Enum(_) | ColumnType::Folded => "USER-DEFINED".to_owned(),
                _ => format_type(ty, None),
            };
            // One of a domain shows what that is of.
            let of_domain = user_types::own_base(table.domain(at));
            let data_type = if of_domain.is_some() { "USER-DEFINED".to_owned() } else { data_type };
            let (udt_schema, udt_name, _) = user_types::udt(of_domain.unwrap_or(ty));
            let domain = user_types::domain(table.domain(at));
            let (domain_schema, domain_name) = domain.unzip();
            let interval_fields = match column.ty {
                ColumnType::Interval(Some(limit)) => {
                    Some(crate::types::interval_fields(limit as i32).trim_start().to_ascii_uppercase())
                        .filter(|f| !f.is_empty())
                }
                _ => None,
            };
            let collation = Some(collation::of_column(table, at)).filter(|oid| *oid != collation::DEFAULT);
            let collation = collation.and_then(collation::name_of);
            let default = column.default_sql.as_deref().filter(|_| generated.is_none() && identity == Identity::No);
            rows.add([
                ("table_catalog", database.into()),
                ("table_schema", table.schema.as_str().into()),
                ("table_name", table.name.as_str().into()),
                ("column_name", column.name.as_str().into()),
                ("ordinal_position", (at + 1).into()),
                ("column_default", default.map(|sql| model.expression(&shown_default(sql, table, at))).into()),
                ("is_nullable", yes_no(column.nullable && !user_types::is_not_null(table.domain(at)))),
                ("data_type", data_type.into()),
                ("interval_type", interval_fields.into()),
                ("collation_catalog", collation.map(|_| database).into()),
                ("collation_schema", collation.map(|_| "pg_catalog").into()),
                ("collation_name", collation.into()),
                ("character_maximum_length", characters.into()),
                ("character_octet_length", octets.into()),
                ("numeric_precision", precision.into()),
                ("numeric_precision_radix", radix.into()),
                ("numeric_scale", scale.into()),
                ("datetime_precision", time.into()),
                ("udt_catalog", database.into()),
                ("udt_schema", udt_schema.into()),
                ("udt_name", udt_name.into()),
                ("domain_catalog", domain_schema.as_ref().map(|_| database).into()),
                ("domain_schema", domain_schema.as_deref().into()),
                ("domain_name", domain_name.as_deref().into()),
                ("dtd_identifier", (at + 1).to_string().into()),
                ("is_self_referencing", "NO".into()),
                ("is_identity", yes_no(identity != Identity::No)),
                (
                    "identity_generation",
                    match identity {
                        Identity::No => None,
                        Identity::Always => Some("ALWAYS"),
                        Identity::ByDefault => Some("BY DEFAULT"),
                    }
                    .into(),
                ),
                ("identity_start", value(|sequence| sequence.start).into()),
                ("identity_increment", value(|sequence| sequence.increment).into()),
                ("identity_maximum", value(|sequence| sequence.max).into()),
                ("identity_minimum", value(|sequence| sequence.min).into()),
                ("identity_cycle", yes_no(sequence.is_some_and(|sequence| sequence.cycle))),
                ("is_generated", (if generated.is_some() { "ALWAYS" } else { "NEVER" }).into()),
                ("generation_expression", generated.as_deref().into()),
                ("is_updatable", "YES".into()),
            ]);
        }
    }
}
