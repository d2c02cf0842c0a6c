//! Whole expressions, with all that PostgreSQL's errors say (`golden/expressions.txt`).
//!
//! A small analysis of parsed expressions stands for the real one: it asks this crate at each node.

use std::fmt::Write;
use std::path::PathBuf;

use resurgam_dialect::{Call, CastContext, Catalog, ResolveError, TypeId};
use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, UnaryOperator, Value,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// A node's type, and what the oracle says of it.
type Outcome = Result<(TypeId, String), ResolveError>;

fn c() -> &'static Catalog {
    Catalog::postgres()
}

fn typed(ty: TypeId) -> Outcome {
    Ok((ty, "cast".to_string()))
}

fn type_of(expr: &Expr) -> Result<TypeId, ResolveError> {
    Ok(analyse(expr)?.0)
}

fn types_of<'a>(all: impl IntoIterator<Item = &'a Expr>) -> Result<Vec<TypeId>, ResolveError> {
    all.into_iter().map(type_of).collect()
}

fn operator(name: &str, left: Option<TypeId>, right: TypeId) -> Outcome {
    let found = c().resolve_operator(name, left, right)?;
    Ok((found.result, format!("{} {}", found.operator.oid, found.result)))
}

fn array_operator(name: &str, left: TypeId, right: TypeId) -> Outcome {
    let found = c().resolve_array_operator(name, left, right)?;
    Ok((TypeId::BOOL, found.operator.operator.oid.to_string()))
}

fn common(context: &str, all: &[TypeId]) -> Result<TypeId, ResolveError> {
    let common = c().common_type(context, all)?;
    all.iter().try_for_each(|ty| c().check_common(context, *ty, common))?;
    Ok(common)
}

fn number(text: &str) -> TypeId {
    match text.parse::<i64>() {
        Ok(n) if i32::try_from(n).is_ok() => TypeId::INT4,
        Ok(_) => TypeId::INT8,
        Err(_) => TypeId::NUMERIC,
    }
}

fn binary_name(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::NotEq => "<>".to_string(),
        op => op.to_string(),
    }
}

fn analyse(expr: &Expr) -> Outcome {
    match expr {
        Expr::Nested(inner) => analyse(inner),
        Expr::Value(value) => typed(match &value.value {
            Value::Number(text, _) => number(text),
            Value::Boolean(_) => TypeId::BOOL,
            _ => TypeId::UNKNOWN,
        }),
        Expr::TypedString(string) => typed(c().parse_type(&string.data_type.to_string())?.0),
        Expr::Interval(_) => typed(TypeId::INTERVAL),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(**expr, Expr::Value(_)) && number_of(expr) => {
            analyse(expr)
        }
        Expr::UnaryOp { op, expr } => operator(&op.to_string(), None, type_of(expr)?),
        Expr::BinaryOp { left, op, right } => operator(&binary_name(op), Some(type_of(left)?), type_of(right)?),
        Expr::Like { expr, pattern, .. } => operator("~~", Some(type_of(expr)?), type_of(pattern)?),
        Expr::AnyOp { left, compare_op, right, .. } => {
            array_operator(&binary_name(compare_op), type_of(left)?, type_of(right)?)
        }
        Expr::AllOp { left, compare_op, right } => {
            array_operator(&binary_name(compare_op), type_of(left)?, type_of(right)?)
        }
        Expr::Cast { expr, data_type, .. } => {
            let (target, typmod) = c().parse_type(&data_type.to_string())?;
            c().cast(type_of(expr)?, -1, target, typmod, CastContext::Explicit)?;
            typed(target)
        }
        Expr::Array(Array { elem, .. }) => {
            let members = types_of(elem)?;
            let array = c().array_type_of(&members)?;
            members.iter().try_for_each(|ty| c().check_common("ARRAY", *ty, array.member))?;
            Ok((array.array, array.array.to_string()))
        }
        Expr::InList { expr, list, .. } => in_list(type_of(expr)?, &types_of(list)?),
        Expr::Between { expr, low, high, .. } => {
            let expr = type_of(expr)?;
            operator(">=", Some(expr), type_of(low)?)?;
            operator("<=", Some(expr), type_of(high)?)?;
            Ok((TypeId::BOOL, "or".to_string()))
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            for CaseWhen { condition, .. } in conditions {
                match operand {
                    Some(operand) => operator("=", Some(type_of(operand)?), type_of(condition)?).map(|_| ())?,
                    None => c().coerce_to_specific("CASE/WHEN", type_of(condition)?, TypeId::BOOL).map(|_| ())?,
                }
            }
            let results = types_of(conditions.iter().map(|when| &when.result))?;
            let otherwise = else_result.as_ref().map_or(Ok(TypeId::UNKNOWN), |e| type_of(e))?;
            let common = c().case_type(&results, otherwise)?;
            results.iter().chain([&otherwise]).try_for_each(|ty| c().check_common("CASE", *ty, common))?;
            Ok((common, common.to_string()))
        }
        Expr::Function(function) => call(function),
        Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
            let args = [Some(expr), substring_from.as_ref(), substring_for.as_ref()];
            plain(if *shorthand { "substr" } else { "substring" }, &types_of(args.into_iter().flatten().map(|e| &**e))?)
        }
        Expr::Ceil { expr, .. } => plain("ceil", &[type_of(expr)?]),
        Expr::Floor { expr, .. } => plain("floor", &[type_of(expr)?]),
        Expr::Overlay { expr, overlay_what, .. } => plain("overlay", &[type_of(expr)?, type_of(overlay_what)?]),
        other => panic!("not analysed here: {other:?}"),
    }
}

fn number_of(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

fn in_list(left: TypeId, items: &[TypeId]) -> Outcome {
    let together = if items.len() > 1 { c().in_list_type(left, items) } else { None };
    match together {
        Some(common) => array_operator("=", left, c().array_type(common).unwrap()),
        None => {
            let each = items.iter().map(|item| operator("=", Some(left), *item)).collect::<Result<Vec<_>, _>>()?;
            let one = each.into_iter().next().filter(|_| items.len() == 1);
            Ok(one.unwrap_or((TypeId::BOOL, "or".to_string())))
        }
    }
}

fn plain(name: &str, args: &[TypeId]) -> Outcome {
    resolve(&Call::new(name, args))
}

fn resolve(call: &Call<'_>) -> Outcome {
    let found = c().resolve_function(call)?;
    let said = match found.function() {
        Some(f) if !call.over => format!("{} {}", f.oid, found.result),
        _ => "cast".to_string(),
    };
    Ok((found.result, said))
}

fn call(function: &Function) -> Outcome {
    let parts: Vec<String> =
        function.name.0.iter().map(|part| part.as_ident().unwrap().value.to_ascii_lowercase()).collect();
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name.as_str()),
        [schema, name] => (Some(schema.as_str()), name.as_str()),
        _ => panic!("{function}"),
    };
    let mut call = Call { schema, ..Call::new(name, &[]) };
    let (mut args, mut names, mut text) = (Vec::new(), Vec::new(), Vec::new());
    if let FunctionArguments::List(list) = &function.args {
        call.distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        for arg in &list.args {
            let arg = match arg {
                FunctionArg::Unnamed(arg) => arg,
                FunctionArg::Named { name, arg, .. } => {
                    names.push(name.value.clone());
                    arg
                }
                FunctionArg::ExprNamed { name, arg, .. } => {
                    names.push(name.to_string());
                    arg
                }
            };
            match arg {
                FunctionArgExpr::Expr(arg) => {
                    args.push(type_of(arg)?);
                    text.push(arg);
                }
                _ => call.star = true,
            }
        }
        for clause in &list.clauses {
            if let FunctionArgumentClause::OrderBy(by) = clause {
                call.order_by = by.len();
            }
        }
    }
    match (schema, name) {
        (None, "row") => return typed(TypeId::RECORD),
        (None, "coalesce" | "greatest" | "least") => return typed(common(&name.to_uppercase(), &args)?),
        (None, "nullif") => {
            let found = c().resolve_operator("=", Some(args[0]), args[1])?;
            return typed(found.left.unwrap());
        }
        (None, "current_date") => return typed(TypeId::DATE),
        _ => {}
    }
    if !function.within_group.is_empty() {
        call.within_group = true;
        call.order_by = function.within_group.len();
        args.extend(types_of(function.within_group.iter().map(|by| &by.expr))?);
    }
    call.filter = function.filter.is_some();
    call.over = function.over.is_some();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    (call.args, call.arg_names) = (&args, &names);
    resolve(&call)
}

/// The parser does not know VARIADIC.
fn without_variadic(text: &str) -> (String, bool) {
    (text.replace("variadic ", ""), text.contains("variadic "))
}

/// `None`: the parser does not know the syntax.
fn outcome(text: &str) -> Option<String> {
    let (text, variadic) = without_variadic(text);
    let expr = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).and_then(|mut p| p.parse_expr());
    let Ok(expr) = expr else { return None };
    let found = match (&expr, variadic) {
        (Expr::Function(function), true) => {
            let FunctionArguments::List(list) = &function.args else { panic!("{text}") };
            let args = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => arg,
                other => panic!("{other}"),
            });
            types_of(args)
                .and_then(|args| resolve(&Call { variadic: true, ..Call::new(&function.name.to_string(), &args) }))
        }
        _ => analyse(&expr),
    };
    Some(match found {
        Ok((_, said)) => said,
        Err(e) => {
            let or_nothing = |text: Option<String>| text.unwrap_or_default();
            format!("{}\t{}\t{}\t{}", e.sqlstate, e.message, or_nothing(e.detail), or_nothing(e.hint))
        }
    })
}

#[test]
fn expressions() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/expressions.txt");
    let (mut seen, mut differences, mut unparsed) = (0, String::new(), Vec::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let (expr, theirs) = line.split_once('\t').unwrap();
        // Errors of a value or a relation, which analysis does not look at.
        if ["22P02", "42P01"].iter().any(|state| theirs.starts_with(state)) {
            continue;
        }
        let Some(ours) = outcome(expr) else {
            unparsed.push(expr.to_string());
            continue;
        };
        seen += 1;
        if ours != theirs {
            let _ = writeln!(differences, "{expr}\n  PostgreSQL {theirs}\n  ours       {ours}");
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(seen > 380 && unparsed.len() < 10, "{seen} without {unparsed:?}");
}
