//! DataFusion's and Arrow's own messages, recognised and reworded.

use super::find_identifier;
use crate::wire::SqlError;

/// A planning error.
pub(super) fn plan(message: &str, sql: &str) -> SqlError {
    if let Some(name) = between(message, "table '", "' not found") {
        return undefined_table(name, sql);
    }
    if let Some(name) = between(message, "Table function '", "' not found")
        .or_else(|| between(message, "table function '", "' not found"))
    {
        return undefined_function(name, sql);
    }
    if let Some(name) = between(message, "Invalid function '", "'") {
        return undefined_function(name, sql);
    }
    if let Some(name) = between(message, "failed to resolve schema: ", "") {
        return SqlError::new("3F000", format!("schema \"{}\" does not exist", name.trim()));
    }
    if let Some(name) = between(message, "failed to resolve catalog: ", "") {
        return SqlError::unsupported(format!("cross-database references are not implemented: \"{}\"", name.trim()));
    }
    if let Some(name) = between(message, "There is no window function named ", "") {
        return undefined_function(name.trim(), sql);
    }
    if message.contains("subquery should only return one column")
        || message.contains("subquery must return exactly one column")
        || message.contains("should only return one column, but found")
    {
        return SqlError::syntax("subquery must return only one column");
    }
    if message.contains("could not be resolved from available columns")
        || message.contains("must appear in the GROUP BY clause")
    {
        let mut out =
            SqlError::new("42803", "column must appear in the GROUP BY clause or be used in an aggregate function");
        if let Some(column) = between(
            message,
            "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \"",
            "\"",
        )
        .or_else(|| between(message, "column \"", "\""))
        .or_else(|| between(message, "Expression ", " could not be resolved"))
        {
            let column = column.trim_matches('"');
            out.message =
                format!("column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function");
            out.position = find_identifier(sql, column.rsplit('.').next().unwrap_or(column));
        }
        return out;
    }
    if message.contains("queries have different number of columns")
        || message.contains("query must have the same number of columns")
    {
        let operator = message.split_whitespace().next().unwrap_or("UNION").to_ascii_uppercase();
        return SqlError::syntax(format!("each {operator} query must have the same number of columns"));
    }
    if message.contains("Inconsistent data length across values list") {
        return SqlError::syntax("VALUES lists must all be the same length");
    }
    if let Some(position) = between(message, "Order by column out of bounds, specified: ", ",") {
        return SqlError::new("42P10", format!("ORDER BY position {position} is not in select list"));
    }
    if message.contains("Order by index starts at 1") {
        return SqlError::new("42P10", "ORDER BY position 0 is not in select list");
    }
    if let Some(name) = between(message, "WITH query name ", " specified more than once") {
        let name = name.trim_matches('"');
        return SqlError::new("42712", format!("WITH query name \"{name}\" specified more than once"));
    }
    if message.contains("Unknown placeholder") || message.contains("Placeholder") && message.contains("not") {
        return SqlError::new("42P02", message.to_owned());
    }
    if message.contains("SELECT * with no tables specified") {
        return SqlError::syntax("SELECT * with no tables specified is not valid");
    }
    if message.contains("Schema contains qualified field name")
        || message.contains("Schema contains duplicate")
        || message.contains("Projections require unique expression names")
    {
        return SqlError::new("42701", message.to_owned());
    }
    if message.contains("Cannot infer common argument type")
        || message.contains("Cannot coerce arithmetic expression")
        || message.contains("Unsupported binary operation")
        || message.contains("Cannot get result type")
        || message.contains("cannot be evaluated because there isn't a common type")
        || message.contains("There isn't a common type to coerce")
    {
        return operator_missing(message);
    }
    if message.contains("Cannot create filter with non-boolean predicate") {
        let ty = message.rsplit(" returning ").next().unwrap_or("").trim();
        return SqlError::new("42804", format!("argument of WHERE must be type boolean, not type {}", pg_name(ty)));
    }
    if message.contains("LIMIT must be >= 0") {
        return SqlError::new("2201W", "LIMIT must not be negative");
    }
    if message.contains("OFFSET must be >=") {
        return SqlError::new("2201X", "OFFSET must not be negative");
    }
    if let Some(name) = between(message, "Function '", "' failed to match any signature") {
        let ty = between(message, "but received ", " ").map(|ty| match ty.trim_end_matches(['.', ',']) {
            "String" => "text",
            other => pg_name(other),
        });
        let mut out = undefined_function(name, sql);
        out.message = format!("function {name}({}) does not exist", ty.unwrap_or("unknown"));
        return out;
    }
    if message.contains("Failed to coerce arguments")
        || message.contains("No function matches the given name and argument types")
        || message.contains("does not support zero arguments")
        || message.contains("expected") && message.contains("argument")
    {
        let name = between(message, "function '", "'")
            .or_else(|| between(message, "for a call to '", "'"))
            .or_else(|| between(message, "types '", "'"));
        let mut out = SqlError::new("42883", first_line(message)).with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        );
        if let Some(name) = name {
            let name = name.split('(').next().unwrap_or(name);
            out.position = find_identifier(sql, name);
        }
        return out;
    }
    if message.contains("not supported") || message.contains("Unsupported") || message.contains("not implemented") {
        return SqlError::unsupported(first_line(message));
    }
    if let Some(out) = value_error(message) {
        return out;
    }
    SqlError::syntax(first_line(message))
}

/// Something DataFusion does not do.
pub(super) fn not_implemented(message: &str, sql: &str) -> SqlError {
    if let Some(name) = between(message, "Unsupported SQL type ", "") {
        return SqlError::new("42704", format!("type \"{}\" does not exist", name.to_ascii_lowercase()));
    }
    let mut out = SqlError::unsupported(first_line(message));
    if message.contains("correlated")
        || message.contains("OuterReferenceColumn")
        || message.contains("does not support logical expression ScalarSubquery")
        || message.contains("does not support logical expression Exists")
        || message.contains("does not support logical expression InSubquery")
    {
        out.message = "this kind of correlated subquery is not supported".to_owned();
        out.detail = Some(first_line(message));
    }
    let _ = sql;
    out
}

/// An error while running.
pub(super) fn execution(message: &str, sql: &str) -> SqlError {
    if let Some(out) = value_error(message) {
        return out;
    }
    let lower = message.to_ascii_lowercase();
    if lower.contains("division by zero") || lower.contains("divide by zero") {
        return SqlError::new("22012", "division by zero");
    }
    if lower.contains("overflow") {
        return overflow(message);
    }
    if lower.contains("more than one row") {
        return cardinality();
    }
    if lower.contains("regular expression") || lower.contains("regex parse error") {
        return regex(message);
    }
    if lower.contains("square root of a negative number") {
        return SqlError::new("2201F", "cannot take square root of a negative number");
    }
    if lower.contains("logarithm of") {
        let zero = lower.contains("zero");
        return SqlError::new(
            "2201E",
            format!("cannot take logarithm of {}", if zero { "zero" } else { "a negative number" }),
        );
    }
    if lower.contains("cancel") {
        return SqlError::new("57014", "canceling statement due to user request");
    }
    if lower.contains("not found") || lower.contains("no placeholder") || lower.contains("placeholder") {
        return plan(message, sql);
    }
    if lower.contains("not supported") || lower.contains("unsupported") || lower.contains("not implemented") {
        return SqlError::unsupported(first_line(message));
    }
    SqlError::new("22000", first_line(message))
}

/// DataFusion's internal errors: some of them are really limits.
pub(super) fn internal(message: &str, _sql: &str) -> SqlError {
    if message.contains("Unsupported") || message.contains("not supported") {
        return SqlError::unsupported(first_line(message));
    }
    if let Some(out) = value_error(message) {
        return out;
    }
    SqlError::internal(first_line(message))
}

/// `21000`: a scalar subquery gave more than one row.
pub fn cardinality() -> SqlError {
    SqlError::new("21000", "more than one row returned by a subquery used as an expression")
}

/// `2201B`: what the regular expression parser said last.
pub(super) fn regex(message: &str) -> SqlError {
    let why = message.rsplit("error: ").next().unwrap_or(message).lines().next().unwrap_or(message);
    SqlError::new("2201B", format!("invalid regular expression: {}", why.trim()))
}

/// Failed casts.
pub(super) fn cast(message: &str) -> SqlError {
    value_error(message).unwrap_or_else(|| {
        if message.contains("not supported") || message.contains("Unsupported") {
            SqlError::new("42846", first_line(message))
        } else if message.to_ascii_lowercase().contains("overflow") {
            overflow(message)
        } else {
            SqlError::new("22P02", first_line(message))
        }
    })
}

/// Arithmetic overflow, named after the operands' type as far as their size tells.
pub(super) fn overflow(message: &str) -> SqlError {
    // Of texts: more bytes in one array than it can have.
    if message.contains("offset overflow") || message.contains("string size overflow") {
        return SqlError::new("54000", "result is too large for one batch").with_detail(message.to_owned());
    }
    let mut widest = 0u128;
    let mut number = false;
    for part in message.split(|c: char| !c.is_ascii_digit()) {
        if let Ok(value) = part.parse::<u128>() {
            number = true;
            widest = widest.max(value);
        }
    }
    let what = if message.contains("Decimal") || message.contains("decimal") || message.contains("precision") {
        return SqlError::new("22003", "numeric field overflow");
    } else if number && widest <= 1 << 15 && !message.contains('*') {
        "smallint"
    } else if number && widest <= 1 << 31 {
        "integer"
    } else {
        "bigint"
    };
    SqlError::new("22003", format!("{what} out of range"))
}

/// Values that are not what their type wants.
fn value_error(message: &str) -> Option<SqlError> {
    if let Some(value) = between(message, "Cannot cast string '", "' to value of ") {
        let ty = between(message, "' to value of ", " type").unwrap_or("");
        return Some(bad_text(pg_name(ty), value));
    }
    if let Some(value) = between(message, "Cannot cast value '", "' to value of Boolean type") {
        return Some(bad_text("boolean", value));
    }
    if let Some(value) = between(message, "can't parse the string value ", " to decimal") {
        return Some(bad_text("numeric", value));
    }
    if let Some(value) = between(message, "Error parsing timestamp from '", "': ") {
        return Some(SqlError::new(
            if message.contains("out of range") || message.contains("invalid") { "22008" } else { "22007" },
            format!("invalid input syntax for type timestamp: \"{value}\""),
        ));
    }
    if let Some(value) = between(message, "Failed to parse '", "' as time") {
        return Some(SqlError::new("22007", format!("invalid input syntax for type time: \"{value}\"")));
    }
    if let Some(value) = between(message, "Invalid input syntax for type interval: \"", "\"") {
        return Some(SqlError::new("22007", format!("invalid input syntax for type interval: \"{value}\"")));
    }
    if message.contains("Can't cast value ") || message.contains("Cannot cast value ") {
        let ty = message.rsplit(" to type ").next().unwrap_or("").trim();
        return Some(SqlError::new("22003", format!("{} out of range", pg_name(ty))));
    }
    if message.contains("Cannot cast to Decimal")
        || message.contains("is too large to store in a Decimal")
        || message.contains("parse decimal overflow")
    {
        return Some(SqlError::new("22003", "numeric field overflow"));
    }
    if let Some(rest) = between(message, "Casting from ", " not supported")
        && let Some((from, to)) = rest.split_once(" to ")
    {
        return Some(SqlError::new(
            "42846",
            format!("cannot cast type {} to {}", pg_name(from.trim()), pg_name(to.trim())),
        ));
    }
    if let Some(rest) = between(message, "Unsupported CAST from ", "")
        && let Some((from, to)) = rest.split_once(" to ")
    {
        return Some(SqlError::new(
            "42846",
            format!("cannot cast type {} to {}", pg_name(from.trim()), pg_name(to.trim())),
        ));
    }
    None
}

fn bad_text(ty: &str, value: &str) -> SqlError {
    let state = if ty == "date" || ty.starts_with("time") { "22007" } else { "22P02" };
    SqlError::new(state, format!("invalid input syntax for type {ty}: \"{value}\""))
}

/// SQL name of an Arrow type that a message spells out.
fn pg_name(arrow: &str) -> &str {
    let arrow = arrow.trim_matches(|c: char| matches!(c, '"' | '\'' | '.'));
    match arrow {
        "Int8" | "Int16" | "UInt8" => "smallint",
        "Int32" | "UInt16" => "integer",
        "Int64" | "UInt64" => "bigint",
        "UInt32" => "oid",
        "Float16" | "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Utf8" | "LargeUtf8" | "Utf8View" => "text",
        "Binary" | "LargeBinary" | "BinaryView" => "bytea",
        "Date32" | "Date64" => "date",
        _ if arrow.starts_with("Decimal") => "numeric",
        _ if arrow.starts_with("Timestamp") && arrow.contains("UTC") => "timestamp with time zone",
        _ if arrow.starts_with("Timestamp") => "timestamp without time zone",
        _ if arrow.starts_with("Time") => "time without time zone",
        _ if arrow.starts_with("Interval") => "interval",
        _ => arrow,
    }
}

fn undefined_table(full: &str, sql: &str) -> SqlError {
    // DataFusion names it catalog.schema.table; the catalog is ours to add, so it is dropped,
    // and so is the schema unless the statement wrote it
    let mut parts: Vec<&str> = full.split('.').collect();
    if parts.len() == 3 {
        parts.remove(0);
    }
    let table = parts.last().copied().unwrap_or(full).trim_matches('"');
    let written = parts.len() == 2 && find_identifier(sql, parts[0].trim_matches('"')).is_some();
    let name = if written { format!("{}.{table}", parts[0].trim_matches('"')) } else { table.to_owned() };
    let mut out = SqlError::new("42P01", format!("relation \"{name}\" does not exist"));
    out.position = find_identifier(sql, if written { parts[0].trim_matches('"') } else { table });
    out
}

fn undefined_function(name: &str, sql: &str) -> SqlError {
    let name = name.trim_matches(|c: char| matches!(c, '"' | '\''));
    let mut out = SqlError::new("42883", format!("function {name} does not exist"))
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.");
    out.position = find_identifier(sql, name);
    out
}

fn operator_missing(message: &str) -> SqlError {
    let mut out = SqlError::new("42883", first_line(message))
        .with_hint("No operator matches the given name and argument types. You might need to add explicit type casts.");
    // Cannot coerce arithmetic expression Utf8 + Int64 to valid types
    let body = between(message, "Cannot coerce arithmetic expression ", " to valid types")
        .or_else(|| between(message, "Cannot infer common argument type for comparison operation ", ""))
        .or_else(|| between(message, "Cannot infer common argument type for ", ""));
    if let Some(body) = body {
        let words: Vec<&str> = body.split_whitespace().collect();
        if let [left, operator, right] = words.as_slice() {
            out.message = format!("operator does not exist: {} {operator} {}", pg_name(left), pg_name(right));
        }
    }
    out
}

/// The text between two markers; to the end for an empty second one.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = text.find(from)? + from.len();
    let rest = &text[start..];
    if to.is_empty() {
        return Some(rest.lines().next().unwrap_or(rest));
    }
    Some(&rest[..rest.find(to)?])
}

/// A message's first line, with a small initial as PostgreSQL's have.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or(message).trim();
    let mut chars = line.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(line.chars().skip(1)).collect()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_functions() {
        let out = plan("table 'postgres.public.nosuch' not found", "SELECT * FROM nosuch");
        assert_eq!((out.sqlstate.as_str(), out.message.as_str()), ("42P01", "relation \"nosuch\" does not exist"));
        assert_eq!(out.position, Some(15));
        let out = plan("table 'postgres.s.t' not found", "SELECT * FROM s.t");
        assert_eq!(out.message, "relation \"s.t\" does not exist");
        let out = plan("Invalid function 'foo'.\nDid you mean 'floor'?", "SELECT foo(1)");
        assert_eq!((out.sqlstate.as_str(), out.position), ("42883", Some(8)));
    }

    #[test]
    fn values() {
        let out = cast("Cannot cast string 'abc' to value of Int32 type");
        assert_eq!(
            (out.sqlstate.as_str(), out.message.as_str()),
            ("22P02", "invalid input syntax for type integer: \"abc\"")
        );
        let out = cast("Can't cast value 99999 to type Int16");
        assert_eq!((out.sqlstate.as_str(), out.message.as_str()), ("22003", "smallint out of range"));
        assert_eq!(overflow("Overflow happened on: 2147483647 + 1").message, "integer out of range");
        assert_eq!(overflow("Overflow happened on: 9223372036854775807 + 1").message, "bigint out of range");
        let out = plan("Cannot coerce arithmetic expression Utf8 + Boolean to valid types", "");
        assert_eq!(out.message, "operator does not exist: text + boolean");
    }
}
