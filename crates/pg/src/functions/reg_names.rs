//! `to_regproc`, `to_regprocedure`, `to_regrole`: what a name means, NULL if it means nothing. (`to_regclass` and its like
//! are in `catalog`.)

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use resurgam_dialect::{Catalog, Schema, quote_identifier};

use super::define::{P, PgFunction, f, oid};
use crate::arrow::cast_array;
use crate::catalog::{function_named, shown_function, split_name};
use crate::context::PgContext;
use crate::datetime::Zone;
use crate::types::{self, format_type, oid as t};
use crate::wire::SqlError;

/// Those that are bound to a session.
pub(super) const NAMES: &[&str] = &["to_regproc", "to_regprocedure", "to_regrole"];

/// The schema, if one is written, and the name.
fn qualified(name: &str) -> Result<(Option<String>, String), SqlError> {
    let parts = split_name(name).ok_or_else(|| SqlError::new("42602", "invalid name syntax"))?;
    match parts.as_slice() {
        [name] => Ok((None, name.clone())),
        [schema, name] => Ok((Some(schema.clone()), name.clone())),
        [_, _, _] => Err(SqlError::unsupported(format!("cross-database references are not implemented: {name}"))),
        _ => Err(SqlError::syntax(format!("improper qualified name (too many dotted names): {name}"))),
    }
}

/// The schemas of the system that a name may be in.
fn of_system(schema: Option<&str>) -> &'static [Schema] {
    match schema {
        None | Some("pg_catalog") => &[Schema::PgCatalog],
        Some("information_schema") => &[Schema::InformationSchema],
        Some(_) => &[],
    }
}

/// A function of the system as it is shown where its name alone is enough.
fn shown(schema: Schema, name: &str) -> String {
    match schema {
        Schema::PgCatalog => quote_identifier(name).into_owned(),
        schema => format!("{}.{}", schema.name(), quote_identifier(name)),
    }
}

/// What a name alone means.
enum Named {
    None,
    One(String),
    Many,
}

/// The only function of a name.
fn function(text: &str) -> Result<Named, SqlError> {
    let (schema, name) = qualified(text)?;
    let catalog = Catalog::postgres();
    let mut found = of_system(schema.as_deref())
        .iter()
        .flat_map(|schema| catalog.functions_named(*schema, &name).map(move |function| (*schema, function.name)));
    let first = found.next();
    let is_only = found.next().is_none();
    let types = crate::user_types::current();
    let of_users = types.as_ref().map_or(0, |types| types.functions_named(schema.as_deref(), &name).count());
    Ok(match (first, of_users) {
        (Some((schema, name)), 0) if is_only => Named::One(shown(schema, name)),
        (None, 0) => Named::None,
        (None, 1) => function_named(text).map_or(Named::None, |function| Named::One(shown_function(&function, false))),
        _ => Named::Many,
    })
}

/// A function of that number as it is shown; a number that none has, and the name of one that shares it, stay numbers.
fn numbered(oid: u32, with_types: bool) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let number = oid.to_string();
    if let Some(function) = function_named(&number) {
        return shown_function(&function, with_types);
    }
    let catalog = Catalog::postgres();
    let Some(function) = catalog.function(oid) else { return number };
    if with_types {
        let args: Vec<String> = function.args.iter().map(|ty| format_type(ty.0, None)).collect();
        return format!("{}({})", shown(function.schema, function.name), args.join(","));
    }
    match self::function(&shown(function.schema, function.name)) {
        Ok(Named::One(name)) => name,
        _ => number,
    }
}

/// The function of that oid, with the types of its arguments; `None`: there is none.
pub(crate) fn function_of_oid(oid: u32) -> Option<String> {
    let shown = numbered(oid, true);
    shown.ends_with(')').then_some(shown)
}

/// Functions by their numbers.
///
/// # Errors
/// None but for what are no numbers.
pub(super) fn of_oids(oids: &ArrayRef, with_types: bool) -> Result<ArrayRef, SqlError> {
    let oids = oids.as_primitive_opt::<UInt32Type>().ok_or_else(|| SqlError::internal("functions without numbers"))?;
    let out: StringViewArray = oids.iter().map(|oid| oid.map(|oid| numbered(oid, with_types))).collect();
    Ok(Arc::new(out))
}

/// One of the two types of functions as the other: by their numbers, which names that several share have not got.
///
/// # Errors
/// `42725`
pub(super) fn converted(oids: &ArrayRef, names: &ArrayRef, with_types: bool) -> Result<ArrayRef, SqlError> {
    let wrong = || SqlError::internal("functions without numbers");
    let oids = oids.as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
    let names = names.as_string_view_opt().ok_or_else(wrong)?;
    let of = |(oid, name): (Option<u32>, Option<&str>)| {
        let (Some(oid), Some(name)) = (oid, name) else { return Ok(None) };
        if with_types {
            read(name, false)?;
        }
        Ok(Some(numbered(oid, with_types)))
    };
    let out: Result<StringViewArray, SqlError> = oids.iter().zip(names).map(of).collect();
    Ok(Arc::new(out?))
}

/// A text as `regproc`, or as `regprocedure` (`regprocin`, `regprocedurein`).
///
/// # Errors
/// `42883`, `42725`, and those of the names in it.
pub(super) fn read(text: &str, with_types: bool) -> Result<String, SqlError> {
    if text == "-" {
        return Ok(text.to_owned());
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(numbered(crate::decode::parse_oid(text)?, with_types));
    }
    let missing = || SqlError::new("42883", format!("function \"{text}\" does not exist"));
    if with_types {
        return procedure(text)?.ok_or_else(missing);
    }
    match function(text)? {
        Named::One(name) => Ok(name),
        Named::None => Err(missing()),
        Named::Many => Err(SqlError::new("42725", format!("more than one function named \"{text}\""))),
    }
}

/// The function of a name and of the types of its arguments.
fn procedure(text: &str) -> Result<Option<String>, SqlError> {
    let malformed = |what: &str| SqlError::new("22P02", what);
    let (name, rest) = text.split_once('(').ok_or_else(|| malformed("expected a left parenthesis"))?;
    let args = rest.trim_end().strip_suffix(')').ok_or_else(|| malformed("expected a right parenthesis"))?;
    let (schema, name) = qualified(name)?;
    // What is in parentheses or quotes is no separator of types.
    let (mut depth, mut is_quoted) = (0i32, false);
    let pieces = args.split(|c: char| {
        match c {
            '"' => is_quoted = !is_quoted,
            '(' | '[' if !is_quoted => depth += 1,
            ')' | ']' if !is_quoted => depth -= 1,
            _ => {}
        }
        c == ',' && !is_quoted && depth == 0
    });
    let mut wanted = Vec::new();
    if !args.trim().is_empty() {
        for ty in pieces {
            let ty = ty.trim();
            let found = types::oid_of_text(ty)?;
            wanted.push(found.ok_or_else(|| SqlError::new("42704", format!("type \"{ty}\" does not exist")))?);
        }
    }
    let catalog = Catalog::postgres();
    for schema in of_system(schema.as_deref()) {
        let fits = |args: &[resurgam_dialect::TypeId]| args.iter().map(|ty| ty.0).eq(wanted.iter().copied());
        if let Some(function) = catalog.functions_named(*schema, &name).find(|function| fits(&function.args)) {
            let args: Vec<String> = function.args.iter().map(|ty| format_type(ty.0, None)).collect();
            return Ok(Some(format!("{}({})", shown(*schema, function.name), args.join(","))));
        }
    }
    let types = crate::user_types::current();
    let of_users = types.as_ref().and_then(|types| {
        let mut named = types.functions_named(schema.as_deref(), &name);
        named.find(|function| function.definition.input_types() == wanted)
    });
    Ok(of_users.map(|function| shown_function(function, true)))
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let cx = Arc::clone(cx);
    vec![
        f("to_regproc", &[P::Text], oid(t::REGPROC), |call| {
            call.texts(|row| match call.text(0, row).map(function).transpose()? {
                Some(Named::One(name)) => Ok(Some(name)),
                _ => Ok(None),
            })
        })
        .volatile(),
        f("to_regprocedure", &[P::Text], oid(t::REGPROCEDURE), |call| {
            call.texts(|row| call.text(0, row).map_or(Ok(None), procedure))
        })
        .volatile(),
        f("to_regrole", &[P::Text], oid(t::REGROLE), move |call| {
            let rights = cx.rights()?;
            call.oids(|row| match call.text(0, row).map(split_name) {
                None => Ok(None),
                Some(Some(parts)) if parts.len() == 1 => Ok(rights.find(&parts[0]).map(|role| role.oid)),
                Some(_) => Err(SqlError::new("42602", "invalid name syntax")),
            })
        })
        .volatile(),
        // The names of types whose oids a vector has.
        f("oidvectortypes", &[P::Any], oid(t::TEXT), |call| {
            let Some(list) = call.arrays[0].as_list_opt::<i32>() else { return call.null() };
            let values = cast_array(list.values(), &DataType::UInt32, t::OID, &Zone::Utc)?;
            let values =
                values.as_primitive_opt::<UInt32Type>().ok_or_else(|| SqlError::internal("a vector of oids"))?;
            let offsets = list.value_offsets();
            call.texts(|row| {
                if list.is_null(row) {
                    return Ok(None);
                }
                let all = offsets[row] as usize..offsets[row + 1] as usize;
                let names: Vec<String> = all.map(|at| format_type(values.value(at), None)).collect();
                Ok(Some(names.join(", ")))
            })
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(matches!(function("pg_catalog.now"), Ok(Named::One(name)) if name == "now"));
        assert!(matches!(function("abs"), Ok(Named::Many)));
        assert!(matches!(function("no_such_function"), Ok(Named::None)));
        for (text, with_types, is) in [
            ("-", false, Ok("-")),
            ("0", true, Ok("-")),
            ("1299", false, Ok("now")),
            ("1299", true, Ok("now()")),
            ("4294967295", false, Ok("4294967295")),
            ("pg_catalog.abs(int)", true, Ok("abs(integer)")),
            ("nosuch", false, Err("42883")),
            ("nosuch(int)", true, Err("42883")),
            ("abs(nosuch)", true, Err("42704")),
            ("abs", false, Err("42725")),
            ("", false, Err("42602")),
        ] {
            let found = read(text, with_types).map_err(|error| error.sqlstate.clone());
            assert_eq!(found.as_deref().map_err(|state| state.as_str()), is, "{text}");
        }
        assert_eq!(procedure("abs(numeric)").expect("name").as_deref(), Some("abs(numeric)"));
        assert_eq!(procedure("abs()").expect("name"), None);
        assert_eq!(procedure("abs").unwrap_err().sqlstate, "22P02");
    }
}
