//! One expression, after its parts.

use datafusion::sql::sqlparser::ast::{Array, BinaryOperator, CastKind, Expr, FunctionArguments, UnaryOperator, Value};

use super::cast::rewrite_cast;
use super::{bare, call, last_name, literal_text, rows, string, subquery, take};
use crate::decode::parse_array;
use crate::wire::SqlError;

pub(super) fn after(expr: &mut Expr) -> Result<(), SqlError> {
    match expr {
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: inner,
            data_type,
            array: false,
            format: None,
        } => {
            if let Some(new) = rewrite_cast(inner, data_type)? {
                *expr = new;
            }
        }
        Expr::TypedString(typed) => {
            if let Some(text) = typed.value.clone().into_string() {
                let mut inner = string(text);
                if let Some(new) = rewrite_cast(&mut inner, &typed.data_type)? {
                    *expr = new;
                }
            }
        }
        Expr::Interval(interval)
            if interval.leading_field.is_none()
                && interval.leading_precision.is_none()
                && interval.last_field.is_none()
                && literal_text(&interval.value).is_some() =>
        {
            *expr = call("pg_cast_interval", vec![take(&mut interval.value)]);
        }
        Expr::Collate { expr: inner, collation } => {
            super::by_bytes(collation)?;
            *expr = take(inner);
        }
        Expr::BinaryOp { left, op, right } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
                *op = operator(parts)?;
            }
            if let Some(new) = rows::comparison(left, op, right)? {
                *expr = new;
            } else if let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = expr
                && subquery::is_option_array(right)
            {
                // psql's \d+ appends the options of a table's toast table; there are none
                *expr = take(left);
            }
        }
        Expr::Value(value) => {
            // With an exponent, or of more digits than DataFusion reads exactly: a numeric all the same.
            let written = match &value.value {
                Value::Number(text, _) if text.contains(['e', 'E']) || text.len() > 76 => Some(text.clone()),
                _ => None,
            };
            if let Some(written) = written {
                let plain = resurgam_numeric::Numeric::parse(&written, None).ok().map(|value| value.to_string());
                *expr = match plain.filter(|plain| plain.len() <= 38) {
                    Some(plain) => {
                        let text = if plain.contains('.') { plain } else { format!("{plain}.") };
                        Expr::Value(Value::Number(text, false).into())
                    }
                    // Until its minus sign can be told from a float's.
                    None if written.contains(['e', 'E']) => call("pg_cast_float8", vec![string(written)]),
                    None => call("numeric_in", vec![string(written)]),
                };
            }
        }
        Expr::InList { expr: inner, list, negated } => {
            if let Some(new) = rows::in_list(inner, list, *negated)? {
                *expr = new;
            }
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            normalize(compare_op)?;
            if *compare_op == BinaryOperator::Eq
                && let Some(list) = elements(right)?
            {
                *expr = in_list(take(left), list, false);
            }
        }
        Expr::AllOp { left, compare_op, right } => {
            normalize(compare_op)?;
            if *compare_op == BinaryOperator::NotEq
                && let Some(list) = elements(right)?
            {
                *expr = in_list(take(left), list, true);
            }
        }
        Expr::SimilarTo { negated, expr: inner, pattern, escape_char } => {
            let mut args = vec![take(pattern)];
            if let Some(escape) = escape_char {
                args.push(Expr::Value(escape.clone()));
            }
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            *expr =
                Expr::BinaryOp { left: Box::new(take(inner)), op, right: Box::new(call("similar_to_escape", args)) };
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            *expr = call("timezone", vec![take(time_zone), take(timestamp)]);
        }
        Expr::Substring { expr: inner, substring_from: Some(from), substring_for, .. }
            if literal_text(from).is_some() =>
        {
            if substring_for.is_some() {
                return Err(SqlError::unsupported("substring(… from … for …) with a pattern is not supported"));
            }
            let matched = call("regexp_match", vec![take(inner), take(from)]);
            *expr = call("array_element", vec![matched, super::number(1)]);
        }
        Expr::Extract { field, expr: inner, .. } => {
            let name = field.to_string().to_ascii_lowercase();
            *expr = call("pg_extract", vec![string(name.trim_matches('\'')), take(inner)]);
        }
        Expr::Identifier(ident) if ident.quote_style.is_none() => {
            let lower = ident.value.to_ascii_lowercase();
            if matches!(
                lower.as_str(),
                "current_schema"
                    | "current_catalog"
                    | "current_role"
                    | "current_user"
                    | "session_user"
                    | "localtimestamp"
                    | "localtime"
                    | "current_time"
            ) {
                *expr = call(&lower, vec![]);
            }
        }
        Expr::Function(function) => {
            let name = last_name(&function.name);
            if name == "array"
                && let FunctionArguments::Subquery(query) = &mut function.args
            {
                if let Some(new) = subquery::array_agg(query)? {
                    *expr = new;
                }
                return Ok(());
            }
            if function.name.0.len() == 2 {
                let schema = function.name.0[0].as_ident().map(|ident| ident.value.to_ascii_lowercase());
                if matches!(schema.as_deref(), Some("pg_catalog" | "information_schema")) {
                    function.name.0.remove(0);
                }
            }
            if matches!(function.args, FunctionArguments::None)
                && matches!(
                    name.as_str(),
                    "current_user"
                        | "session_user"
                        | "user"
                        | "current_role"
                        | "current_catalog"
                        | "current_schema"
                        | "localtimestamp"
                        | "localtime"
                )
            {
                *expr = call(if name == "user" { "current_user" } else { &name }, vec![]);
            }
        }
        Expr::UnaryOp { op, expr: inner } => {
            let name = match op {
                UnaryOperator::PGAbs => "abs",
                UnaryOperator::PGSquareRoot => "sqrt",
                UnaryOperator::PGCubeRoot => "cbrt",
                _ => return Ok(()),
            };
            // Roots by an operator are those of `double precision`.
            let arg = if name == "sqrt" { call("pg_cast_float8", vec![take(inner)]) } else { take(inner) };
            *expr = call(name, vec![arg]);
        }
        Expr::Case { operand: None, conditions, .. }
            if matches!(conditions.as_slice(), [when]
                if matches!(&when.condition, Expr::IsNotNull(column) if column.to_string().ends_with("prattrs"))) =>
        {
            // psql's \d: the columns that a publication names. There are no publications, and
            // the subquery is of a kind that has no join.
            *expr = call("pg_cast_text", vec![Expr::Value(Value::Null.into())]);
        }
        _ => {}
    }
    Ok(())
}

fn normalize(op: &mut BinaryOperator) -> Result<(), SqlError> {
    if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
        *op = operator(parts)?;
    }
    Ok(())
}

/// `OPERATOR(pg_catalog.x)` as the operator itself.
fn operator(parts: &[String]) -> Result<BinaryOperator, SqlError> {
    use BinaryOperator as B;
    let name = parts.last().map(String::as_str).unwrap_or_default();
    Ok(match name {
        "~" => B::PGRegexMatch,
        "~*" => B::PGRegexIMatch,
        "!~" => B::PGRegexNotMatch,
        "!~*" => B::PGRegexNotIMatch,
        "~~" => B::PGLikeMatch,
        "~~*" => B::PGILikeMatch,
        "!~~" => B::PGNotLikeMatch,
        "!~~*" => B::PGNotILikeMatch,
        "=" => B::Eq,
        "<>" | "!=" => B::NotEq,
        "<" => B::Lt,
        "<=" => B::LtEq,
        ">" => B::Gt,
        ">=" => B::GtEq,
        "+" => B::Plus,
        "-" => B::Minus,
        "*" => B::Multiply,
        "/" => B::Divide,
        "%" => B::Modulo,
        "||" => B::StringConcat,
        _ => {
            return Err(SqlError::new("42883", format!("operator does not exist: {}", parts.join("."))));
        }
    })
}

/// The elements of an array that is written out; `None` for anything else.
fn elements(array: &mut Expr) -> Result<Option<Vec<Expr>>, SqlError> {
    if let Some(text) = literal_text(array) {
        let items = parse_array(text)?
            .into_iter()
            .map(|item| match item {
                Some(item) => string(item),
                None => Expr::Value(Value::Null.into()),
            })
            .collect();
        return Ok(Some(items));
    }
    match array {
        Expr::Nested(inner) => elements(inner),
        Expr::Array(Array { elem, .. }) if !elem.iter().any(|e| matches!(bare(e), Expr::Array(_))) => {
            Ok(Some(std::mem::take(elem)))
        }
        _ => Ok(None),
    }
}

fn in_list(expr: Expr, list: Vec<Expr>, negated: bool) -> Expr {
    if list.is_empty() {
        return Expr::Value(Value::Boolean(negated).into());
    }
    Expr::InList { expr: Box::new(expr), list, negated }
}
