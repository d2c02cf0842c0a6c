//! Functions that users made in `pg_proc`, `pg_depend`, `information_schema.routines` and `parameters`, and
//! as `pg_get_functiondef` shows them.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr};
use resurgam_dialect::{AggregateKind, ArgMode, Catalog, Function, Parallel, TypeId, Volatility};

use super::extensions::CLASS_FUNCTION;
use super::model::Model;
use super::namespaces::CLASS_SCHEMA;
use super::rows::{Rows, V};
use super::seen::Seen;
use crate::definition;
use crate::functions::quote_ident;
use crate::roles::Rights;
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
    match definition::parse_shown(sql) {
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
        let mut expr = expr.clone();
        crate::extensions::show_names(&mut expr);
        return Some(format!("RETURN {}", definition::shown(&expr)));
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
pub(super) fn put_proc(rows: &mut Rows<'_>, types: &UserTypes, rights: &Rights, oid: u32) {
    let Some(function) = types.function(oid) else { return };
    let of = &function.definition;
    let text = match &of.source {
        Source::Text(text) => text.as_str(),
        _ => "",
    };
    let defaults: Vec<String> =
        of.inputs().filter_map(|param| Some(shown_expression(param.default_sql.as_deref()?, param.ty))).collect();
    rows.put("proowner", function.access.owner.into());
    rows.put("proacl", super::roles::shown(function.access.grants.as_deref(), rights));
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

pub(super) fn specific_name(function: &UserFunction) -> String {
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
pub(super) fn routines(rows: &mut Rows<'_>, database: &str, seen: &Seen) {
    for function in user_functions().into_iter().filter(|function| seen.function(function)) {
        let of = &function.definition;
        let (schema, name) = type_names(of.result);
        let text = match &of.source {
            Source::Text(text) if seen.owns_function(&function) => Some(text.as_str()),
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

fn parameter_mode(mode: ArgMode) -> &'static str {
    match mode {
        ArgMode::In | ArgMode::Variadic => "IN",
        ArgMode::InOut => "INOUT",
        ArgMode::Out | ArgMode::Table => "OUT",
    }
}

/// `information_schema.parameters`
pub(super) fn parameters(rows: &mut Rows<'_>, database: &str, seen: &Seen) {
    for function in user_functions().into_iter().filter(|function| seen.function(function)) {
        for (number, param) in (1i64..).zip(&function.definition.params) {
            let (schema, name) = type_names(param.ty);
            rows.add([
                ("specific_catalog", database.into()),
                ("specific_schema", function.schema.as_str().into()),
                ("specific_name", specific_name(&function).into()),
                ("ordinal_position", number.into()),
                ("parameter_mode", parameter_mode(param.mode).into()),
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
    let (name, wanted) = signature(name)?;
    let parts = super::split_name(name)?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name.as_str()),
        [schema, name] => (Some(schema.as_str()), name.as_str()),
        _ => return None,
    };
    let fits = |function: &&Arc<UserFunction>| {
        wanted.as_ref().is_none_or(|wanted| function.definition.input_types() == *wanted)
    };
    let mut found = types.functions_named(schema, name).filter(fits);
    let first = found.next()?;
    // A name alone has to be of one.
    (wanted.is_some() || found.next().is_none()).then(|| Arc::clone(first))
}

/// What one of `pg_get_function_arguments` and its kin gives for a function of the system.
pub fn builtin_part(part: &str, oid: u32) -> Option<String> {
    let function = Catalog::postgres().function(oid)?;
    match part {
        "pg_get_function_arguments" => Some(builtin_arguments(function, false)),
        "pg_get_function_identity_arguments" => Some(builtin_arguments(function, true)),
        "pg_get_function_result" => {
            let columns: Vec<String> =
                parameters_of(function).filter(|(mode, _)| *mode == ArgMode::Table).map(|(_, shown)| shown).collect();
            let result = format_type(function.result.0, None);
            Some(match (columns.is_empty(), function.returns_set) {
                (false, _) => format!("TABLE({})", columns.join(", ")),
                (true, true) => format!("SETOF {result}"),
                (true, false) => result,
            })
        }
        _ => None,
    }
}

/// Each parameter: its mode, and its name and type as they are written.
fn parameters_of(function: &Function) -> impl Iterator<Item = (ArgMode, String)> {
    let types = if function.all_args.is_empty() { &function.args } else { &function.all_args };
    types.iter().enumerate().map(|(at, ty)| {
        let name = function.names.get(at).filter(|name| !name.is_empty());
        let name = name.map_or_else(String::new, |name| format!("{} ", quote_ident(name)));
        (function.mode(at), format!("{name}{}", format_type(ty.0, None)))
    })
}

fn builtin_arguments(function: &Function, identity: bool) -> String {
    let direct =
        Catalog::postgres().aggregate(function.oid).filter(|aggregate| aggregate.kind != AggregateKind::Normal);
    let first_default = function.args.len() - function.defaults.len().min(function.args.len());
    let mut out = String::new();
    let mut inputs = 0;
    for (mode, shown) in parameters_of(function) {
        if mode == ArgMode::Table {
            continue;
        }
        if direct.is_some_and(|aggregate| aggregate.direct_args == inputs) {
            out.push_str(if inputs == 0 { "ORDER BY " } else { " ORDER BY " });
        } else if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(match mode {
            ArgMode::Out => "OUT ",
            ArgMode::InOut => "INOUT ",
            ArgMode::Variadic => "VARIADIC ",
            ArgMode::In | ArgMode::Table => "",
        });
        out.push_str(&shown);
        if mode != ArgMode::Out {
            let default = inputs.checked_sub(first_default).and_then(|at| function.defaults.get(at));
            if let (Some(default), false) = (default, identity) {
                let _ = write!(out, " DEFAULT {}", default.sql);
            }
            inputs += 1;
        }
    }
    out
}

/// The function of the system that a name means, with the types of its arguments if these are given, as of [`named`].
pub fn builtin_named(name: &str) -> Option<&'static Function> {
    let (name, args) = signature(name)?;
    let parts = super::split_name(name)?;
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    let args: Vec<TypeId> = args?.into_iter().map(TypeId).collect();
    Catalog::postgres().function_exact(name, &args)
}

/// A name and, if they are written, the types behind it; `None`: it is neither.
fn signature(text: &str) -> Option<(&str, Option<Vec<u32>>)> {
    let Some((name, args)) = text.split_once('(') else { return Some((text, None)) };
    let args = args.trim_end().strip_suffix(')')?.trim();
    if args.is_empty() {
        return Some((name, Some(Vec::new())));
    }
    let types = args.split(',').map(|ty| crate::types::type_by_name(ty.trim()).map(|row| row.oid));
    Some((name, Some(types.collect::<Option<_>>()?)))
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
