//! Functions over the system catalogs.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use resurgam_numeric::Numeric;

use super::define::{Call, P, PgFunction, f, oid};
use super::numeric::column::{Numbers, numeric_error};
use super::quote_ident;
use crate::catalog::{CLASS_RELATION, Model, class_named, comments, relation_oid};
use crate::context::{PgContext, Sizes};
use crate::policies::apply_to;
use crate::roles::acl::{Object, privilege};
use crate::roles::{PG_READ_ALL_STATS, ServerDatabase};
use crate::types::{self, oid as t};
use crate::user_functions::UserFunction;
use crate::wire::SqlError;

/// Every function here.
pub(super) const NAMES: &[&str] = &[
    "pg_table_is_visible",
    "pg_type_is_visible",
    "pg_function_is_visible",
    "pg_opclass_is_visible",
    "pg_get_userbyid",
    "format_type",
    "pg_get_expr",
    "pg_get_indexdef",
    "pg_get_constraintdef",
    "pg_get_viewdef",
    "pg_get_functiondef",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_sqlbody",
    "pg_get_ruledef",
    "pg_get_statisticsobjdef_columns",
    "pg_get_serial_sequence",
    "obj_description",
    "col_description",
    "shobj_description",
    "pg_size_pretty",
    "pg_relation_size",
    "pg_database_size",
    "to_regclass",
    "pg_table_size",
    "pg_total_relation_size",
    "pg_indexes_size",
    "to_regtype",
    "to_regnamespace",
    "pg_relation_is_publishable",
    "pg_relation_is_updatable",
    "pg_tablespace_location",
    "pg_tablespace_size",
    "row_security_active",
    "pg_relation_filenode",
    "pg_get_partkeydef",
    "pg_partition_ancestors",
];

/// Oids of the tablespaces that there are.
const PG_DEFAULT: u32 = 1663;
const PG_GLOBAL: u32 = 1664;

/// Units that sizes are shown in, and below what.
const UNITS: [(&str, i64); 6] =
    [("bytes", 10 * 1024), ("kB", 20_479), ("MB", 20_479), ("GB", 20_479), ("TB", 20_479), ("PB", i64::MAX)];

/// `pg_size_pretty` of a `numeric`, whose bytes may be parts of one.
fn numeric_size_pretty(bytes: Numeric) -> Result<String, SqlError> {
    let whole = |number: i64| Numeric::from_scaled(number.into(), 0).map_err(numeric_error);
    let mut size = bytes;
    for (at, (unit, limit)) in UNITS.iter().enumerate() {
        if at + 1 == UNITS.len() || size.abs() < whole(*limit)? {
            if at > 0 {
                let sign = if size < whole(0)? { -1 } else { 1 };
                let twice = size.add(&whole(sign)?).map_err(numeric_error)?;
                size = twice.div_trunc(&whole(2)?).map_err(numeric_error)?;
            }
            return Ok(format!("{size} {unit}"));
        }
        let bits = if at == 0 { 9 } else { 10 };
        size = size.div_trunc(&whole(1 << bits)?).map_err(numeric_error)?;
    }
    Ok(format!("{size} PB"))
}

/// `pg_size_pretty`.
fn size_pretty(bytes: i64) -> String {
    // as PostgreSQL: shift with one bit more, and round when printing
    let mut size = bytes;
    let mut halves = false;
    for (at, (unit, limit)) in UNITS.iter().enumerate() {
        let last = at + 1 == UNITS.len();
        if last || size.unsigned_abs() < *limit as u64 {
            let shown = if halves { (size + if size < 0 { -1 } else { 1 }) / 2 } else { size };
            return format!("{shown} {unit}");
        }
        // the first step keeps one bit for rounding; the next ones drop ten
        let bits = if at == 0 { 9 } else { 10 };
        halves = true;
        size /= 1i64 << bits;
    }
    format!("{size} PB")
}

/// Functions that show a part of the definition of a function of users.
type FunctionPart = (&'static str, fn(&UserFunction) -> Option<String>);
const FUNCTION_PARTS: [FunctionPart; 5] = [
    ("pg_get_functiondef", |function| Some(crate::catalog::shown_definition(function))),
    ("pg_get_function_arguments", |function| {
        Some(function.definition.arguments(false, &crate::catalog::shown_expression))
    }),
    ("pg_get_function_identity_arguments", |function| {
        Some(function.definition.arguments(true, &crate::catalog::shown_expression))
    }),
    ("pg_get_function_sqlbody", |function| crate::catalog::standard_body(&function.definition)),
    ("pg_get_function_result", |function| Some(function.definition.returns())),
];

/// Whether a type is found by its name alone.
fn type_is_visible(oid: u32) -> bool {
    match crate::user_types::current() {
        Some(types) if oid >= crate::user_types::FIRST_USER_OID => {
            let found = types.by_oid(oid).or_else(|| types.by_array(oid));
            found.is_some_and(|ty| types.is_visible(ty))
        }
        _ => types::type_by_oid(oid).is_some(),
    }
}

/// What a size is asked of.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// A table's rows, or an index's entries.
    Itself,
    /// A table's indexes. Its primary key is none: the rows are kept in it.
    Indexes,
    All,
}

/// Bytes of a relation; `None` if there is none of that oid.
fn relation_bytes(sizes: &Sizes, model: &Model, relation: u32, part: Part) -> Option<i64> {
    model.relation(relation)?;
    let of = |object: u32| sizes.by_object.get(&object).copied().unwrap_or(0);
    let table = model.tables.iter().find(|table| crate::catalog::relation_oid(table.id) == relation);
    let bytes = match table {
        Some(table) => {
            let indexes = || (0..table.indexes.len()).filter_map(|at| table.index_object(at)).map(|o| of(o.0)).sum();
            match part {
                Part::Itself => of(table.rows_object().0),
                Part::Indexes => indexes(),
                Part::All => of(table.rows_object().0) + indexes(),
            }
        }
        None if part == Part::Indexes => 0,
        None => model.indexes.iter().find(|index| index.oid == relation).map_or(0, |index| {
            let at = index.table.indexes.iter().position(|other| !index.primary && other.name == index.name);
            let object = at.and_then(|at| index.table.index_object(at));
            of(object.unwrap_or(index.table.rows_object()).0)
        }),
    };
    Some(bytes.min(i64::MAX as u64) as i64)
}

/// The relation that an argument names by oid or by text.
fn relation_argument(call: &Call<'_>, model: &Model, row: usize) -> Result<Option<u32>, SqlError> {
    let array = &call.arrays[0];
    if array.is_null(row) {
        return Ok(None);
    }
    let value = ScalarValue::try_from_array(array, row).map_err(|e| crate::errors::from_datafusion(e, ""))?;
    Ok(match value {
        ScalarValue::UInt32(v) => v,
        ScalarValue::Int64(v) => v.and_then(|v| u32::try_from(v).ok()),
        ScalarValue::Int32(v) => v.and_then(|v| u32::try_from(v).ok()),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => match text.parse() {
            Ok(oid) => Some(oid),
            Err(_) => match model.find(&text) {
                Some(relation) => Some(relation.oid),
                None => return Err(model.undefined(&text)),
            },
        },
        _ => None,
    })
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = Vec::new();
    macro_rules! add {
        ($name:literal, $parameters:expr, $returns:expr, |$cx:ident, $call:ident| $body:expr) => {{
            let captured = cx.clone();
            f($name, $parameters, oid($returns), move |$call| -> Result<ArrayRef, SqlError> {
                let $cx = captured.as_ref();
                $body
            })
            .volatile()
        }};
    }
    out.push(add!("pg_table_is_visible", &[P::Oid], t::BOOL, |cx, call| {
        let model = Model::load(cx)?;
        let visible: std::collections::HashMap<u32, bool> =
            model.relations.iter().map(|relation| (relation.oid, relation.visible)).collect();
        call.bools(|row| Ok(call.oid(0, row).and_then(|oid| visible.get(&oid).copied())))
    }));
    out.push(add!("pg_type_is_visible", &[P::Oid], t::BOOL, |_cx, call| {
        call.bools(|row| Ok(call.oid(0, row).map(type_is_visible)))
    }));
    out.push(add!("pg_function_is_visible", &[P::Oid], t::BOOL, |_cx, call| {
        let types = crate::user_types::current();
        call.bools(|row| {
            Ok(call.oid(0, row).map(|oid| match types.as_ref().and_then(|types| types.function(oid)) {
                Some(function) => types.as_ref().is_some_and(|types| types.is_function_visible(function)),
                None => true,
            }))
        })
    }));
    let mut visible = add!("pg_opclass_is_visible", &[P::Oid], t::BOOL, |_cx, call| {
        call.bools(|row| Ok(call.oid(0, row).map(|_| true)))
    });
    for alias in [
        "pg_operator_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
        "pg_opfamily_is_visible",
    ] {
        visible = visible.alias(alias);
    }
    out.push(visible);
    out.push(add!("pg_get_userbyid", &[P::Oid], t::NAME, |cx, call| {
        let rights = cx.rights()?;
        call.texts(|row| Ok(call.oid(0, row).map(|oid| rights.name(oid))))
    }));
    out.push(add!("format_type", &[P::Oid, P::Int], t::TEXT, |_cx, call| call.texts(|row| {
        let typmod = call.int(1, row).map(|typmod| typmod.clamp(-1, i32::MAX.into()) as i32);
        Ok(call.oid(0, row).map(|oid| types::format_type(oid, typmod)))
    })));
    // the catalogs keep expressions as their text
    out.push(
        add!("pg_get_expr", &[P::Text, P::Oid, P::Bool], t::TEXT, |_cx, call| call.texts(|row| {
            let Some(text) = call.text(0, row) else { return Ok(None) };
            let pretty = call.given(2) && call.bool(2, row).unwrap_or(false);
            let text = if pretty { crate::definition::without_parentheses(text) } else { text };
            Ok(Some(text.to_owned()))
        }))
        .required(2),
    );
    out.push(
        add!("pg_get_indexdef", &[P::Oid, P::Int, P::Bool], t::TEXT, |cx, call| {
            let model = Model::load(cx)?;
            call.texts(|row| {
                let Some(index) = call.oid(0, row).and_then(|oid| model.indexes.iter().find(|i| i.oid == oid)) else {
                    return Ok(None);
                };
                let pretty = call.given(2) && call.bool(2, row).unwrap_or(false);
                // Pretty: without its schema where it needs none.
                let short = pretty && model.is_visible(&index.table.schema, &index.table.name);
                match call.int(1, row).unwrap_or(0) {
                    0 => Ok(Some(index.definition(pretty, short))),
                    column => {
                        let found = usize::try_from(column - 1).ok().and_then(|at| index.attributes().nth(at));
                        Ok(Some(found.and_then(|at| index.key_text(at, pretty)).unwrap_or_default()))
                    }
                }
            })
        })
        .required(1),
    );
    out.push(
        add!("pg_get_constraintdef", &[P::Oid, P::Bool], t::TEXT, |cx, call| {
            let model = Model::load(cx)?;
            let definitions: std::collections::HashMap<u32, String> =
                model.constraints().map(|constraint| (constraint.oid, constraint.definition())).collect();
            let checks: std::collections::HashMap<u32, _> = model.checks().map(|check| (check.oid, check)).collect();
            let foreign: std::collections::HashMap<u32, String> =
                model.foreign_keys().map(|info| (info.oid, info.definition())).collect();
            call.texts(|row| {
                let Some(oid) = call.oid(0, row) else { return Ok(None) };
                if let Some(definition) = foreign.get(&oid) {
                    return Ok(Some(definition.clone()));
                }
                let check = checks.get(&oid).map(|check| check.definition(call.bool(1, row).unwrap_or(false)));
                let check = check.or_else(|| definitions.get(&oid).cloned());
                let pretty = call.bool(1, row).unwrap_or(false);
                Ok(check.or_else(|| crate::catalog::domain_constraint(oid, pretty)))
            })
        })
        .required(1),
    );
    out.push(
        add!("pg_get_viewdef", &[P::Any, P::Any], t::TEXT, |cx, call| {
            let model = Model::load(cx)?;
            call.texts(|row| {
                let oid = match call.oid(0, row) {
                    Some(oid) => Some(oid),
                    None => call.text(0, row).and_then(|name| model.find(name)).map(|relation| relation.oid),
                };
                let view =
                    oid.and_then(|oid| model.views.iter().find(|view| crate::catalog::relation_oid(view.id) == oid));
                Ok(view.and_then(|view| model.view_definition(view)))
            })
        })
        .required(1),
    );
    for (name, shown) in FUNCTION_PARTS {
        out.push(
            f(name, &[P::Any, P::Any], oid(t::TEXT), move |call| -> Result<ArrayRef, SqlError> {
                call.texts(|row| {
                    // An oid, or a name as `regproc` and `regprocedure` are kept.
                    let function = match call.oid(0, row) {
                        Some(oid) => crate::catalog::function_named(&oid.to_string()),
                        None => call.text(0, row).and_then(crate::catalog::function_named),
                    };
                    if function.is_some() {
                        return Ok(function.and_then(|function| shown(&function)));
                    }
                    Ok(call.oid(0, row).and_then(|oid| crate::catalog::builtin_part(name, oid)))
                })
            })
            .volatile()
            .required(1),
        );
    }
    let mut unknown = add!("pg_get_ruledef", &[P::Any, P::Any], t::TEXT, |_cx, call| call.null()).required(1);
    for alias in [
        "pg_get_triggerdef",
        "pg_get_statisticsobjdef",
        "pg_get_statisticsobjdef_expressions",
        "pg_get_partition_constraintdef",
    ] {
        unknown = unknown.alias(alias);
    }
    out.push(unknown);
    out.push(add!("pg_get_statisticsobjdef_columns", &[P::Any], t::TEXT, |_cx, call| call.null()));
    // No rows there for what is no partition; psql asks for them beside the table itself.
    out.push(add!("pg_partition_ancestors", &[P::Any], t::REGCLASS, |_cx, call| call.null()));
    out.push(add!("pg_get_partkeydef", &[P::Any], t::TEXT, |_cx, call| call.null()));
    out.push(add!("pg_get_serial_sequence", &[P::Text, P::Text], t::TEXT, |cx, call| {
        let model = Model::load(cx)?;
        call.texts(|row| {
            let (Some(name), Some(column)) = (call.text(0, row), call.text(1, row)) else { return Ok(None) };
            let unknown = || model.undefined(name);
            let relation = model.find(name).ok_or_else(unknown)?;
            let mut with_columns = model.tables.iter().chain(&model.views);
            let Some(table) = with_columns.find(|table| Some(table.id) == relation.id) else {
                // A catalog's columns, or a sequence's, have no sequences.
                return Ok(None);
            };
            let unknown = || {
                let text = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                SqlError::new("42703", text)
            };
            // A view's have none either.
            if let Some(view) = &table.view {
                let is_there = view.columns.iter().any(|known| known.name == column);
                return if is_there { Ok(None) } else { Err(unknown()) };
            }
            let at = table.columns.iter().position(|known| known.name == column).ok_or_else(unknown)?;
            let owned = table.owned.iter().filter(|owned| owned.column == at);
            let mut sequences = owned.filter_map(|owned| model.sequences.iter().find(|s| s.id == owned.sequence));
            Ok(sequences.next().map(|s| format!("{}.{}", quote_ident(&s.schema), quote_ident(&s.name))))
        })
    }));
    out.push(
        add!("obj_description", &[P::Oid, P::Text], t::TEXT, |cx, call| {
            let model = Model::load(cx)?;
            let mut all: std::collections::HashMap<u32, Vec<(u32, String)>> = std::collections::HashMap::new();
            for comment in comments(cx, &model)?.into_iter().filter(|comment| comment.column == 0) {
                all.entry(comment.oid).or_default().push((comment.class, comment.text));
            }
            call.texts(|row| {
                // Without the catalog's name: what any has under that oid.
                let class = if call.given(1) { call.text(1, row).map(class_named) } else { None };
                let found = call
                    .oid(0, row)
                    .and_then(|oid| all.get(&oid))
                    .and_then(|found| found.iter().find(|(of, _)| !call.given(1) || class.flatten() == Some(*of)));
                Ok(found.map(|(_, text)| text.clone()))
            })
        })
        .required(1),
    );
    out.push(add!("col_description", &[P::Oid, P::Int], t::TEXT, |cx, call| {
        let model = Model::load(cx)?;
        let all: std::collections::HashMap<(u32, i64), String> = comments(cx, &model)?
            .into_iter()
            .filter(|comment| comment.class == CLASS_RELATION)
            .map(|comment| ((comment.oid, comment.column as i64), comment.text))
            .collect();
        call.texts(|row| {
            let found = call.oid(0, row).zip(call.int(1, row)).and_then(|on| all.get(&on));
            Ok(found.cloned())
        })
    }));
    out.push(add!("shobj_description", &[P::Oid, P::Text], t::TEXT, |cx, call| {
        let rights = cx.rights()?;
        call.texts(|row| {
            let Some(oid) = call.oid(0, row) else { return Ok(None) };
            Ok(match call.text(1, row) {
                Some("pg_database") => rights.database_by_oid(oid).and_then(|database| database.comment.clone()),
                Some("pg_authid") => rights.get(oid).and_then(|role| role.comment.clone()),
                _ => None,
            })
        })
    }));
    out.push(add!("pg_size_pretty", &[P::Any], t::TEXT, |_cx, call| {
        let numbers = Numbers::of(call.arrays[0].as_ref())?;
        let is_whole = call.arrays[0].data_type().is_integer();
        call.texts(|row| match numbers.get(row)? {
            Some(size) if is_whole => Ok(Some(size_pretty(size.to_i64().map_err(numeric_error)?))),
            Some(size) => numeric_size_pretty(size).map(Some),
            None => Ok(None),
        })
    }));
    for (name, part) in [
        ("pg_relation_size", Part::Itself),
        ("pg_table_size", Part::Itself),
        ("pg_total_relation_size", Part::All),
        ("pg_indexes_size", Part::Indexes),
    ] {
        let captured = cx.clone();
        let parameters: &[P] = if name == "pg_relation_size" { &[P::Any, P::Text] } else { &[P::Any] };
        out.push(
            f(name, parameters, oid(t::INT8), move |call| {
                let model = Model::load(captured.as_ref())?;
                let sizes = captured.sizes()?;
                call.ints(|row| {
                    let Some(relation) = relation_argument(call, &model, row)? else { return Ok(None) };
                    match call.arrays.get(1).map(|_| call.text(1, row)) {
                        None | Some(Some("main")) => Ok(relation_bytes(&sizes, &model, relation, part)),
                        Some(None) => Ok(None),
                        // There are no such forks.
                        Some(Some("fsm" | "vm" | "init")) => Ok(model.relation(relation).map(|_| 0)),
                        Some(Some(_)) => Err(SqlError::new("22023", "invalid fork name")
                            .with_hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")),
                    }
                })
            })
            .required(1)
            .volatile(),
        );
    }
    let captured = cx.clone();
    out.push(
        f("pg_database_size", &[P::Any], oid(t::INT8), move |call| {
            let (sizes, rights) = (captured.sizes()?, captured.rights()?);
            let size = |database: &ServerDatabase| -> Result<Option<i64>, SqlError> {
                let role = captured.role();
                let may = rights.allowed(role, &database.access, Object::Database, privilege::CONNECT) != 0;
                if !may && !rights.has_rights_of(role, PG_READ_ALL_STATS) {
                    let name = &database.name;
                    return Err(SqlError::new("42501", format!("permission denied for database {name}")));
                }
                let bytes = sizes.by_database.get(&database.oid).copied().unwrap_or(0);
                Ok(Some(i64::try_from(bytes).unwrap_or(i64::MAX)))
            };
            call.ints(|row| {
                let value = ScalarValue::try_from_array(&call.arrays[0], row);
                let value = value.map_err(|e| crate::errors::from_datafusion(e, ""))?;
                if value.is_null() {
                    return Ok(None);
                }
                if let ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name)) = &value {
                    match rights.database_named(name) {
                        Ok(database) => return size(database),
                        Err(error) if name.parse::<u32>().is_err() => return Err(error),
                        Err(_) => {}
                    }
                }
                let oid = value.to_string().parse::<u32>().unwrap_or(0);
                rights.database_by_oid(oid).map_or(Ok(None), size)
            })
        })
        .volatile(),
    );
    out.push(add!("to_regclass", &[P::Text], t::REGCLASS, |cx, call| {
        let model = Model::load(cx)?;
        call.oids(|row| {
            let Some(name) = call.text(0, row) else { return Ok(None) };
            if let Some(relation) = model.find(name) {
                return Ok(Some(relation.oid));
            }
            // What is no name is an error; what names nothing is none.
            match model.undefined(name) {
                error if matches!(error.sqlstate.as_str(), "42P01" | "3F000") => Ok(None),
                error => Err(error),
            }
        })
    }));
    out.push(add!("to_regtype", &[P::Text], t::REGTYPE, |_cx, call| call
        .oids(|row| call.text(0, row).map_or(Ok(None), types::oid_of_text))));
    out.push(add!("to_regnamespace", &[P::Text], t::REGNAMESPACE, |cx, call| {
        let all = crate::catalog::namespaces(cx)?;
        let named = |name: &str| match crate::catalog::split_name(name).as_deref() {
            Some([name]) => Ok(all.iter().find(|schema| schema.name == *name).map(|schema| schema.oid)),
            _ => Err(SqlError::new("42602", "invalid name syntax")),
        };
        call.oids(|row| call.text(0, row).map_or(Ok(None), named))
    }));
    out.push(add!("pg_relation_is_publishable", &[P::Any], t::BOOL, |_cx, call| call.bools(|_| Ok(Some(true)))));
    out.push(
        add!("pg_relation_is_updatable", &[P::Any, P::Bool], t::INT4, |_cx, call| call
            .same(ScalarValue::Int32(Some(28))))
        .required(1),
    );
    // All databases are in the one that there is; what they share is in them.
    out.push(add!("pg_tablespace_size", &[P::Any], t::INT8, |cx, call| {
        let all = cx.sizes()?.by_database.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        call.ints(|row| {
            let by_oid = match (call.oid(0, row), call.text(0, row)) {
                (Some(oid), _) => Some(oid),
                (None, Some("pg_default")) => Some(PG_DEFAULT),
                (None, Some("pg_global")) => Some(PG_GLOBAL),
                (None, Some(name)) => {
                    return Err(SqlError::new("42704", format!("tablespace \"{name}\" does not exist")));
                }
                (None, None) => None,
            };
            Ok(match by_oid {
                Some(PG_DEFAULT) => Some(i64::try_from(all).unwrap_or(i64::MAX)),
                Some(PG_GLOBAL) => Some(0),
                _ => None,
            })
        })
    }));
    out.push(add!("pg_tablespace_location", &[P::Any], t::TEXT, |_cx, call| {
        call.texts(|row| Ok(call.oid(0, row).map(|_| String::new())))
    }));
    out.push(add!("row_security_active", &[P::Any], t::BOOL, |cx, call| {
        let (model, rights, role) = (Model::load(cx)?, cx.rights()?, cx.role());
        call.bools(|row| {
            let Some(oid) = relation_argument(call, &model, row)? else { return Ok(None) };
            // What is no table, or one of the system, has no rules.
            match model.tables.iter().find(|table| relation_oid(table.id) == oid) {
                Some(table) => apply_to(table, &rights, role, None).map(Some),
                None => Ok(Some(false)),
            }
        })
    }));
    out.push(add!("pg_relation_filenode", &[P::Any], t::OID, |cx, call| {
        let model = Model::load(cx)?;
        call.oids(|row| relation_argument(call, &model, row))
    }));
    out
}

#[cfg(test)]
mod tests {
    use super::size_pretty;

    #[test]
    fn sizes() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (8192, "8192 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (1_048_576, "1024 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (1_099_511_627_776, "1024 GB"),
        ] {
            assert_eq!(size_pretty(bytes), shown);
        }
    }
}
