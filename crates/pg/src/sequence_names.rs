//! The sequences that a DEFAULT names: it is kept as text, so they are found, and renamed, in it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value, VisitorMut};
use resurgam_ast::AstWalkMut;

use crate::catalog::split_name;
use crate::definition::{kept_text, parse_expression};
use crate::functions::quote_ident;

/// The functions whose first argument is a sequence.
const FUNCTIONS: [&str; 3] = ["nextval", "currval", "setval"];

/// The constant that an argument names a sequence with: `'s'`, `'s'::regclass`.
fn constant(expr: &mut Expr) -> Option<&mut String> {
    match expr {
        Expr::Cast { expr, data_type, .. } if data_type.to_string().eq_ignore_ascii_case("regclass") => constant(expr),
        Expr::Nested(expr) => constant(expr),
        Expr::Value(value) => match &mut value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn is_call_of_sequence(call: &ast::Function) -> bool {
    let name = call.name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| FUNCTIONS.iter().any(|known| name.value.eq_ignore_ascii_case(known)))
}

/// A DEFAULT that is no more than the next value of a sequence, as PostgreSQL shows it.
pub fn next_value(expr: &Expr) -> Option<String> {
    next_value_of(expr, true)
}

/// The same; `short`: without the schema where it is `public`, as definitions keep it.
fn next_value_of(expr: &Expr, short: bool) -> Option<String> {
    let Expr::Function(call) = expr else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(first))] = list.args.as_slice() else { return None };
    if !call.name.to_string().eq_ignore_ascii_case("nextval") {
        return None;
    }
    let parts = split_name(constant(&mut first.clone())?)?;
    let name = match parts.as_slice() {
        [name] => quote_ident(name),
        [schema, name] if short && schema == "public" => quote_ident(name),
        [schema, name] => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        _ => return None,
    };
    Some(format!("nextval('{}'::regclass)", name.replace('\'', "''")))
}

/// The constant by which an expression names a relation: as `regclass`, or as what a function of sequences is called with.
pub fn relation_constant(expr: &mut Expr) -> Option<&mut String> {
    let is_regclass = |ty: &ast::DataType| ty.to_string().eq_ignore_ascii_case("regclass");
    match expr {
        Expr::Function(call) if is_call_of_sequence(call) => match &mut call.args {
            FunctionArguments::List(list) => match list.args.first_mut()? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(first)) => constant(first),
                _ => None,
            },
            _ => None,
        },
        Expr::Cast { expr, data_type, .. } if is_regclass(data_type) => constant(expr),
        Expr::TypedString(typed) if is_regclass(&typed.data_type) => match &mut typed.value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Calls `visit` with each constant that names a sequence.
fn walk(expr: &mut Expr, visit: &mut dyn FnMut(&mut String)) {
    struct Walk<'a>(&'a mut dyn FnMut(&mut String));
    impl VisitorMut for Walk<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(call) = expr
                && is_call_of_sequence(call)
                && let FunctionArguments::List(list) = &mut call.args
                && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
                && let Some(text) = constant(first)
            {
                (self.0)(text);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Walk(visit));
}

/// The names of sequences in an expression, as they are written there: `s`, `public."S"`.
pub fn named(sql: &str) -> Vec<String> {
    let mut names = Vec::new();
    if sql.to_ascii_lowercase().contains("val")
        && let Ok(mut expr) = parse_expression(sql)
    {
        walk(&mut expr, &mut |text| names.push(text.clone()));
    }
    names
}

/// An expression with other names of sequences; `None` if it has none of those that `new` knows.
pub fn renamed(sql: &str, new: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut expr = parse_expression(sql).ok()?;
    let mut changed = false;
    walk(&mut expr, &mut |text| {
        if let Some(name) = new(text) {
            (*text, changed) = (name, true);
        }
    });
    changed.then(|| next_value_of(&expr, false).unwrap_or_else(|| kept_text(&expr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_changed() {
        assert_eq!(named("nextval('s'::regclass)"), ["s"]);
        assert_eq!(named("1 + nextval('a.\"S\"') + coalesce(lastval(), currval('t'))"), ["a.\"S\"", "t"]);
        assert!(named("'nextval(''s'')'").is_empty());
        assert!(named("interval '1 day'").is_empty());
        let new = |name: &str| (name == "s").then(|| "\"it's\"".to_owned());
        assert_eq!(renamed("nextval('s'::regclass) * 2", &new).as_deref(), Some("nextval('\"it''s\"'::REGCLASS) * 2"));
        assert_eq!(renamed("nextval('t'::regclass)", &new), None);
        let next = |sql: &str| next_value(&parse_expression(sql).expect("an expression"));
        assert_eq!(next("NEXTVAL('public.s'::regclass)").as_deref(), Some("nextval('s'::regclass)"));
        assert_eq!(next("nextval('\"S\"')").as_deref(), Some("nextval('\"S\"'::regclass)"));
        assert_eq!(next("nextval('X.\"S\"')").as_deref(), Some("nextval('x.\"S\"'::regclass)"));
        assert_eq!(next("nextval('s') + 1"), None);
    }
}
