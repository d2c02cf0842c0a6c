//! Parser errors, worded as PostgreSQL words them.

use datafusion::sql::sqlparser::parser::ParserError;

use super::character_position;
use crate::wire::SqlError;

/// The error for one of the parser's; `sql` is what was parsed.
pub fn from_parser(error: &ParserError, sql: &str) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return SqlError::new("54001", "stack depth limit exceeded");
        }
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    let (text, place) = split_place(message);
    let position = place.and_then(|(line, column)| character_position(sql, line, column));
    let mut out = classify(text, sql, position);
    out.position = position;
    out
}

fn classify(text: &str, sql: &str, position: Option<u32>) -> SqlError {
    let lower = text.to_ascii_lowercase();
    let near = || match position {
        Some(at) => near(sql, at),
        None => String::new(),
    };
    if lower.contains("unterminated string literal") || lower.contains("unterminated encoded string") {
        return SqlError::syntax(format!("unterminated quoted string at or near \"{}\"", rest(sql, position)));
    }
    if lower.contains("unterminated dollar") {
        return SqlError::syntax(format!("unterminated dollar-quoted string at or near \"{}\"", rest(sql, position)));
    }
    if lower.contains("multi-line comment") || lower.contains("unexpected eof while in") {
        return SqlError::syntax(format!("unterminated /* comment at or near \"{}\"", rest(sql, position)));
    }
    if lower.contains("expected close delimiter '\"'") {
        return SqlError::syntax(format!("unterminated quoted identifier at or near \"{}\"", rest(sql, position)));
    }
    if let Some(found) = text.rsplit_once("found: ").map(|(_, found)| found.trim()) {
        if found == "EOF" {
            return SqlError::syntax("syntax error at end of input");
        }
        let token = near();
        if found == "[" && position.is_some_and(|at| assigns_element(sql, at)) {
            return SqlError::unsupported("assigning to elements of arrays and documents is not supported");
        }
        let token = if token.is_empty() { found.to_owned() } else { token };
        return SqlError::syntax(format!("syntax error at or near \"{token}\""));
    }
    let token = near();
    if token.is_empty() {
        SqlError::syntax(format!("syntax error: {text}"))
    } else {
        SqlError::syntax(format!("syntax error at or near \"{token}\""))
    }
}

/// Whether the bracket at a place follows the name of a column that is assigned to, which the parser does not know.
fn assigns_element(sql: &str, position: u32) -> bool {
    let before: String = sql.chars().take((position as usize).saturating_sub(1)).collect();
    let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    matches!(word.to_ascii_lowercase().as_str(), "update" | "insert")
        && before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '"'))
}

/// Takes ` at Line: 1, Column: 8` off the end of a message.
fn split_place(message: &str) -> (&str, Option<(u64, u64)>) {
    let Some(at) = message.rfind(" at Line: ") else { return (message, None) };
    let tail = &message[at + " at Line: ".len()..];
    let mut numbers = tail.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(line)), Some(Ok(column))) => (&message[..at], Some((line, column))),
        _ => (&message[..at], None),
    }
}

/// The token at a position: a word, a quoted string, a number or one operator.
fn near(sql: &str, position: u32) -> String {
    let mut rest = sql.chars().skip(position as usize - 1).peekable();
    let Some(&first) = rest.peek() else { return String::new() };
    if first == '\'' || first == '"' {
        let mut out = String::from(first);
        rest.next();
        for c in rest {
            out.push(c);
            if c == first {
                break;
            }
        }
        return out;
    }
    if first.is_alphanumeric() || first == '_' {
        return rest.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '.')).collect();
    }
    first.to_string()
}

fn rest(sql: &str, position: Option<u32>) -> String {
    match position {
        Some(at) => sql.chars().skip(at as usize - 1).take(200).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn error(sql: &str) -> SqlError {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql);
        from_parser(&parsed.expect_err(sql), sql)
    }

    #[test]
    fn worded_as_postgresql() {
        for (sql, message, position) in [
            ("selec 1", "syntax error at or near \"selec\"", Some(1)),
            ("select 1 from", "syntax error at end of input", None),
            ("select * from t where 'abc", "unterminated quoted string at or near \"'abc\"", Some(23)),
            ("create table t (a int,,b int)", "syntax error at or near \",\"", Some(23)),
            ("select 'ä' form t x", "syntax error at or near \"t\"", Some(17)),
        ] {
            let out = error(sql);
            assert_eq!(out.sqlstate, "42601");
            assert_eq!(out.message, message, "{sql}");
            if position.is_some() {
                assert_eq!(out.position, position, "{sql}");
            }
        }
    }
}
