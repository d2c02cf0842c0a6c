//! Types of users in `pg_type`, `pg_enum`, `pg_constraint` and `information_schema`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, VisitorMut};
use resurgam_ast::AstWalkMut;
use resurgam_dialect::{Catalog, TypeId};

use super::functions::shown_expression;
use super::rows::{Rows, V};
use super::{Model, resolution};
use crate::types::{column_type_of_oid, format_type, type_by_oid};
use crate::user_types::definition::Kind;
use crate::user_types::{UserType, current};

/// Oid of `pg_type`.
pub const CLASS_TYPE: u32 = 1247;

/// Their rows of `pg_type`.
pub(super) fn pg_type(rows: &mut Rows<'_>, model: &Model) {
    let Some(types) = current().filter(|types| !types.is_empty()) else { return };
    let catalog = Catalog::postgres().with_types(&types.of_dialect());
    for ty in types.iter() {
        for oid in [ty.oid, ty.body.array] {
            let Some(row) = catalog.type_of(TypeId(oid)) else { continue };
            let domain = ty.as_domain().filter(|_| oid == ty.oid);
            let default = domain.and_then(|domain| Some(shown_expression(domain.default_sql.as_deref()?, domain.base)));
            resolution::pg_type(&catalog, rows, row, default.as_deref());
            rows.put("typowner", ty.owner.into());
            rows.put("typnamespace", model.schema_oid(&ty.schema).into());
        }
    }
}

/// Rows of `pg_enum`.
pub(super) fn pg_enum(rows: &mut Rows<'_>) {
    let Some(types) = current() else { return };
    for ty in types.iter() {
        for label in ty.as_enum().map(|labels| labels.labels()).unwrap_or_default() {
            rows.add([
                ("oid", label.oid.into()),
                ("enumtypid", ty.oid.into()),
                ("enumsortorder", f64::from(label.sort_order).into()),
                ("enumlabel", label.name.as_str().into()),
            ]);
        }
    }
}

/// The conditions of domains in `pg_constraint`.
pub(super) fn constraints(rows: &mut Rows<'_>, model: &Model) {
    let Some(types) = current() else { return };
    for ty in types.iter() {
        for check in ty.as_domain().map(|domain| domain.checks.as_slice()).unwrap_or_default() {
            rows.add([
                ("oid", check.id.into()),
                ("conname", check.name.as_str().into()),
                ("connamespace", model.schema_oid(&ty.schema).into()),
                ("contype", 'c'.into()),
                ("condeferrable", false.into()),
                ("condeferred", false.into()),
                ("convalidated", check.validated.into()),
                ("conrelid", 0u32.into()),
                ("contypid", ty.oid.into()),
                ("conindid", 0u32.into()),
                ("conparentid", 0u32.into()),
                ("confrelid", 0u32.into()),
                ("confupdtype", ' '.into()),
                ("confdeltype", ' '.into()),
                ("confmatchtype", ' '.into()),
                ("conislocal", true.into()),
                ("coninhcount", 0.into()),
                ("connoinherit", false.into()),
                ("conbin", shown(&check.sql, false).into()),
            ]);
        }
    }
}

/// A domain's condition as PostgreSQL shows it; `pretty`: with no more parentheses than a reader needs.
pub(super) fn shown(sql: &str, pretty: bool) -> String {
    struct Value;
    impl VisitorMut for Value {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("value") => {
                    ident.value = "VALUE".to_owned();
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let Ok(mut expr) = crate::definition::parse_shown(sql) else { return sql.to_owned() };
    let _ = expr.walk_mut(&mut Value);
    if pretty { crate::definition::shown_pretty(&expr) } else { crate::definition::shown(&expr) }
}

/// What `pg_get_constraintdef` gives for a domain's constraint.
pub fn domain_constraint(oid: u32, pretty: bool) -> Option<String> {
    let types = current()?;
    let checks = types.iter().filter_map(|ty| ty.as_domain()).flat_map(|domain| &domain.checks);
    let found = checks.into_iter().find(|check| check.id == oid)?;
    let not_valid = if found.validated { "" } else { " NOT VALID" };
    Some(format!("CHECK ({}){not_valid}", shown(&found.sql, pretty)))
}

/// Schema and name of a type as `udt_schema` and `udt_name` have them, and whether it is one of users.
pub(super) fn udt(oid: u32) -> (String, String, bool) {
    let name = type_by_oid(oid).map_or("text", |ty| ty.name).to_owned();
    let types = current();
    let own = types.as_ref().and_then(|types| types.by_oid(oid).or_else(|| types.by_array(oid)));
    match own {
        Some(ty) => (ty.schema.clone(), name, true),
        None => ("pg_catalog".to_owned(), name, false),
    }
}

/// The domain that a column is of: schema and name.
pub(super) fn domain(oid: Option<u32>) -> Option<(String, String)> {
    let ty = crate::user_types::by_oid(oid?)?;
    Some((ty.schema.clone(), ty.name.clone()))
}

/// Whether a domain has no NULL.
pub(super) fn is_not_null(oid: Option<u32>) -> bool {
    let ty = oid.and_then(crate::user_types::by_oid);
    ty.is_some_and(|ty| ty.as_domain().is_some_and(|domain| domain.not_null))
}

/// The type that a domain is of; any other type itself.
pub(super) fn base_of(oid: u32) -> u32 {
    crate::user_types::by_oid(oid).and_then(|ty| Some(ty.as_domain()?.base)).unwrap_or(oid)
}

/// The type that a domain is of, if that is one of users itself.
pub(super) fn own_base(oid: Option<u32>) -> Option<u32> {
    let base = crate::user_types::by_oid(oid?)?.as_domain()?.base;
    (base >= crate::user_types::FIRST_USER_OID).then_some(base)
}

/// Fills a relation of `information_schema`; false if it is none of these.
pub(super) fn information_schema(name: &str, rows: &mut Rows<'_>, database: &str, model: &Model) -> bool {
    let Some(types) = current() else { return false };
    let domains = types.iter().filter(|ty| ty.as_domain().is_some());
    match name {
        "domains" => {
            for ty in domains {
                domain_row(rows, database, ty);
            }
        }
        "domain_constraints" => {
            for ty in domains {
                for check in ty.as_domain().map(|domain| domain.checks.as_slice()).unwrap_or_default() {
                    rows.add([
                        ("constraint_catalog", database.into()),
                        ("constraint_schema", ty.schema.as_str().into()),
                        ("constraint_name", check.name.as_str().into()),
                        ("domain_catalog", database.into()),
                        ("domain_schema", ty.schema.as_str().into()),
                        ("domain_name", ty.name.as_str().into()),
                        ("is_deferrable", "NO".into()),
                        ("initially_deferred", "NO".into()),
                    ]);
                }
            }
        }
        "column_domain_usage" => {
            for table in &model.tables {
                for (at, id) in &table.domains {
                    let (Some((schema, name)), Some(column)) = (domain(Some(*id)), table.columns.get(*at)) else {
                        continue;
                    };
                    rows.add([
                        ("domain_catalog", database.into()),
                        ("domain_schema", schema.into()),
                        ("domain_name", name.into()),
                        ("table_catalog", database.into()),
                        ("table_schema", table.schema.as_str().into()),
                        ("table_name", table.name.as_str().into()),
                        ("column_name", column.name.as_str().into()),
                    ]);
                }
            }
        }
        // Beside those of tables.
        "check_constraints" => {
            for ty in domains {
                for check in ty.as_domain().map(|domain| domain.checks.as_slice()).unwrap_or_default() {
                    rows.add([
                        ("constraint_catalog", database.into()),
                        ("constraint_schema", ty.schema.as_str().into()),
                        ("constraint_name", check.name.as_str().into()),
                        ("check_clause", shown(&check.sql, false).into()),
                    ]);
                }
            }
            return false;
        }
        _ => return false,
    }
    true
}

fn domain_row(rows: &mut Rows<'_>, database: &str, ty: &UserType) {
    let Kind::Domain(domain) = &ty.body.kind else { return };
    let (udt_schema, udt_name, own) = udt(domain.base);
    let is_array = type_by_oid(domain.base).is_some_and(|row| row.category == 'A');
    let data_type = match (is_array, own) {
        (true, _) => "ARRAY".to_owned(),
        (_, true) => "USER-DEFINED".to_owned(),
        _ => format_type(domain.base, None),
    };
    let stored = column_type_of_oid(domain.base, domain.typmod).filter(|_| !own);
    let (characters, octets) = stored.as_ref().map_or((None, None), super::info::lengths);
    let (precision, radix, scale, time) = stored.as_ref().map_or((None, None, None, None), super::info::precision);
    let row: [(&str, V); 16] = [
        ("domain_catalog", database.into()),
        ("domain_schema", ty.schema.as_str().into()),
        ("domain_name", ty.name.as_str().into()),
        ("data_type", data_type.into()),
        ("character_maximum_length", characters.into()),
        ("character_octet_length", octets.into()),
        ("numeric_precision", precision.into()),
        ("numeric_precision_radix", radix.into()),
        ("numeric_scale", scale.into()),
        ("datetime_precision", time.into()),
        ("domain_default", domain.default_sql.as_deref().map(|sql| shown_expression(sql, domain.base)).into()),
        ("udt_catalog", database.into()),
        ("udt_schema", udt_schema.into()),
        ("udt_name", udt_name.into()),
        ("dtd_identifier", "1".into()),
        ("interval_type", V::Null),
    ];
    rows.add(row);
}
