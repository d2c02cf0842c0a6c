//! Functions that users made in `pg_proc`, `pg_depend`, `information_schema.routines` and `parameters`, and
//! as `pg_get_functiondef` shows them.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr};
use resurgam_dialect::{ArgMode, Catalog, Parallel, TypeId, Volatility};

use super::extensions::CLASS_FUNCTION;
use super::model::Model;
use super::namespaces::CLASS_SCHEMA;
use super::rows::{Rows, V};
use crate::definition;
use crate::functions::quote_ident;
use crate::types::format_type;
use crate::user_functions::{Definition, Source, UserFunction};
use crate::user_types::{UserTypes, current};

/// Those that the session sees, by age.
pub fn user_functions() -> Vec<Arc<UserFunction>> {
    current().map(|types| types.functions().to_vec()).unwrap_or_default()
}

/// The default of a parameter of that type, as it is shown.
pub fn shown_expression(sql: &str, ty: u32) -> String {
    use datafusion::sql::sqlparser::ast::{Expr, Value};
    match definition::parse_expression(sql) {
        Ok(Expr::Value(value)) if matches!(value.value, Value::SingleQuotedString(_)) => {
            format!("{value}::{}", format_type(ty, None))
        }
        Ok(Expr::Value(value)) if matches!(value.value, Value::Null) => format!("NULL::{}", format_type(ty, None)),
        Ok(expr) => definition::shown(&expr),
        Err(_) => sql.to_owned(),
    }
}

/// `pg_get_function_sqlbody`; `None`: the body is a text.
pub fn standard_body(of: &Definition) -> Option<String> {
    let view = match &of.source {
        Source::Text(_) => return None,
        Source::Return(view) | Source::Atomic(view) => view,
    };
    if let (Source::Return(_), Some(query)) = (&of.source, crate::view::parsed(&view.sql))
        && let SetExpr::Select(select) = query.body.as_ref()
        && let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice()
    {
        return Some(format!("RETURN {}", definition::shown(expr)));
    }
    let shown = crate::view::shown(view, &|_, _| true, &|_| None);
    Some(format!("BEGIN ATOMIC\n {}\nEND", shown.trim()))
}

/// `pg_get_functiondef`
pub fn shown_definition(function: &UserFunction) -> String {
    let of = &function.definition;
    let arguments = of.arguments(false, &shown_expression);
    let name = format!("{}.{}", quote_ident(&function.schema), quote_ident(&of.name));
    let mut out = format!("CREATE OR REPLACE FUNCTION {name}({arguments})\n RETURNS {}\n LANGUAGE sql\n", of.returns());
    let mut options = String::new();
    options.push_str(match of.volatility {
        Volatility::Immutable => " IMMUTABLE",
        Volatility::Stable => " STABLE",
        Volatility::Volatile => "",
    });
    options.push_str(match of.parallel {
        Parallel::Safe => " PARALLEL SAFE",
        Parallel::Restricted => " PARALLEL RESTRICTED",
        Parallel::Unsafe => "",
    });
    options.push_str(if of.strict { " STRICT" } else { "" });
    options.push_str(if of.leakproof { " LEAKPROOF" } else { "" });
    if of.cost != 100.0 {
        let _ = write!(options, " COST {}", of.cost);
    }
    if of.rows > 0.0 && of.rows != 1000.0 {
        let _ = write!(options, " ROWS {}", of.rows);
    }
    if !options.is_empty() {
        out.push_str(&options);
        out.push('\n');
    }
    match (&of.source, standard_body(of)) {
        (Source::Text(text), _) => {
            let mut tag = "function".to_owned();
            while text.contains(&format!("${tag}$")) || text.ends_with(&format!("${tag}")) {
                tag.push('x');
            }
            let _ = write!(out, "AS ${tag}${text}${tag}$");
        }
        (_, body) => out.push_str(&body.unwrap_or_default()),
    }
    out.push('\n');
    out
}

/// What `pg_proc` has of a function of users beside what the dialect knows.
pub(super) fn put_proc(rows: &mut Rows<'_>, types: &UserTypes, oid: u32) {
    let Some(function) = types.function(oid) else { return };
    let of = &function.definition;
    let text = match &of.source {
        Source::Text(text) => text.as_str(),
        _ => "",
    };
    let defaults: Vec<String> =
        of.inputs().filter_map(|param| Some(shown_expression(param.default_sql.as_deref()?, param.ty))).collect();
    rows.put("proowner", function.owner.into());
    rows.put("prosrc", text.into());
    rows.put("prosqlbody", standard_body(of).into());
    rows.put("proargdefaults", (!defaults.is_empty()).then(|| defaults.join(", ")).into());
}

/// Appends what `pg_depend` has of them.
pub(super) fn depend(rows: &mut Rows<'_>, model: &Model) {
    for function in user_functions() {
        rows.add([
            ("classid", CLASS_FUNCTION.into()),
            ("objid", function.oid().into()),
            ("objsubid", 0.into()),
            ("refclassid", CLASS_SCHEMA.into()),
            ("refobjid", model.schema_oid(&function.schema).into()),
            ("refobjsubid", 0.into()),
            ("deptype", 'n'.into()),
        ]);
    }
}

fn yes_no(yes: bool) -> V {
    if yes { "YES" } else { "NO" }.into()
}

fn specific_name(function: &UserFunction) -> String {
    format!("{}_{}", function.name(), function.oid())
}

/// The schema and the name that the catalog has for a type.
fn type_names(ty: u32) -> (String, String) {
    let types = current();
    let catalog = match &types {
        Some(types) => types.catalog(Catalog::postgres()),
        None => Arc::new(Catalog::postgres().clone()),
    };
    match catalog.type_of(TypeId(ty)) {
        Some(entry) => (entry.schema.name().to_owned(), entry.name.to_owned()),
        None => (String::new(), String::new()),
    }
}

/// As `information_schema` calls a type.
fn data_type(ty: u32) -> String {
    match ty {
        ty if ty >= crate::user_types::FIRST_USER_OID => "USER-DEFINED".to_owned(),
        ty if crate::types::type_by_oid(ty).is_some_and(|row| row.elem != 0 && row.category == 'A') => {
            "ARRAY".to_owned()
        }
        ty => format_type(ty, None),
    }
}

/// `information_schema.routines`
pub(super) fn routines(rows: &mut Rows<'_>, database: &str) {
    for function in user_functions() {
        let of = &function.definition;
        let (schema, name) = type_names(of.result);
        let text = match &of.source {
            Source::Text(text) => Some(text.as_str()),
            _ => None,
        };
        rows.add([
            ("specific_catalog", database.into()),
            ("specific_schema", function.schema.as_str().into()),
            ("specific_name", specific_name(&function).into()),
            ("routine_catalog", database.into()),
            ("routine_schema", function.schema.as_str().into()),
            ("routine_name", function.name().into()),
            ("routine_type", "FUNCTION".into()),
            ("data_type", data_type(of.result).into()),
            ("type_udt_catalog", database.into()),
            ("type_udt_schema", schema.into()),
            ("type_udt_name", name.into()),
            ("dtd_identifier", "0".into()),
            ("routine_body", "SQL".into()),
            ("routine_definition", text.into()),
            ("external_language", "SQL".into()),
            ("parameter_style", "GENERAL".into()),
            ("is_deterministic", yes_no(of.volatility == Volatility::Immutable)),
            ("sql_data_access", "MODIFIES".into()),
            ("is_null_call", yes_no(of.strict)),
            ("schema_level_routine", "YES".into()),
            ("max_dynamic_result_sets", 0.into()),
            ("security_type", "INVOKER".into()),
            ("as_locator", "NO".into()),
            ("is_udt_dependent", "NO".into()),
        ]);
    }
}

/// `information_schema.parameters`
pub(super) fn parameters(rows: &mut Rows<'_>, database: &str) {
    for function in user_functions() {
        for (number, param) in (1i64..).zip(&function.definition.params) {
            let (schema, name) = type_names(param.ty);
            rows.add([
                ("specific_catalog", database.into()),
                ("specific_schema", function.schema.as_str().into()),
                ("specific_name", specific_name(&function).into()),
                ("ordinal_position", number.into()),
                ("parameter_mode", if param.mode == ArgMode::In { "IN" } else { "OUT" }.into()),
                ("is_result", "NO".into()),
                ("as_locator", "NO".into()),
                ("parameter_name", Some(param.name.as_str()).filter(|name| !name.is_empty()).into()),
                ("data_type", data_type(param.ty).into()),
                ("udt_catalog", database.into()),
                ("udt_schema", schema.into()),
                ("udt_name", name.into()),
                ("dtd_identifier", number.to_string().into()),
                ("parameter_default", param.default_sql.as_deref().map(|sql| shown_expression(sql, param.ty)).into()),
            ]);
        }
    }
}

/// The function of users that a name means: a number, `f`, `f(integer)`, with a schema or without.
pub fn named(name: &str) -> Option<Arc<UserFunction>> {
    let types = current()?;
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return types.function(name.parse().ok()?).cloned();
    }
    let (name, args) = match name.split_once('(') {
        Some((name, args)) => (name, Some(args.strip_suffix(')')?)),
        None => (name, None),
    };
    let parts = super::split_name(name)?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name.as_str()),
        [schema, name] => (Some(schema.as_str()), name.as_str()),
        _ => return None,
    };
    let wanted: Option<Vec<u32>> = match args.map(str::trim) {
        None => None,
        Some("") => Some(Vec::new()),
        Some(args) => {
            let types = args.split(',').map(|ty| crate::types::type_by_name(ty.trim()).map(|row| row.oid));
            Some(types.collect::<Option<_>>()?)
        }
    };
    let fits = |function: &&Arc<UserFunction>| {
        wanted.as_ref().is_none_or(|wanted| function.definition.input_types() == *wanted)
    };
    let mut found = types.functions_named(schema, name).filter(fits);
    let first = found.next()?;
    // A name alone has to be of one.
    (wanted.is_some() || found.next().is_none()).then(|| Arc::clone(first))
}

/// As `regproc` and, with the types of its arguments, `regprocedure` print it.
pub fn shown_name(function: &UserFunction, with_types: bool) -> String {
    let Some(types) = current() else { return function.name().to_owned() };
    let name = types.shown_function(function);
    match with_types {
        true => {
            let args: Vec<String> = function.definition.inputs().map(|param| format_type(param.ty, None)).collect();
            format!("{name}({})", args.join(","))
        }
        false => name,
    }
}
