//! ALTER VIEW, which is ALTER TABLE in all but its first words.

use datafusion::sql::sqlparser::ast;

use crate::parse::own::Own;
use crate::parse::read::parse_known;
use crate::parse::words::Words;
use crate::wire::SqlError;

/// Reads ALTER VIEW, whose first two words are taken already: it is ALTER TABLE in all but its first words.
pub(crate) fn parse_alter(words: Words<'_>) -> Result<Own, SqlError> {
    let rest: Vec<String> = words.rest().map(ToString::to_string).collect();
    let mut statements = parse_known(&format!("ALTER TABLE {}", rest.join(" "))).map_err(|mut error| {
        // In other words than the client's.
        error.position = None;
        error
    })?;
    match (statements.pop(), statements.is_empty()) {
        (Some(ast::Statement::AlterTable(alter)), true) => Ok(Own::AlterView(Box::new(alter))),
        _ => Err(SqlError::unsupported("this form of ALTER VIEW is not supported")),
    }
}
