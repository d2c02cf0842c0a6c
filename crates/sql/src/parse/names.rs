//! Names as statements write them.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::words::Words;
use crate::pg::user_types;
use crate::wire::SqlError;

/// The schema that a name has, if any, and the name.
///
/// # Errors
/// `42601`, and `0A000` for a name in another database.
pub(crate) fn parts_of(name: &ObjectName) -> Result<(Option<String>, String), SqlError> {
    let improper = || SqlError::syntax(format!("improper name: {name}"));
    let mut parts = Vec::with_capacity(name.0.len());
    for part in &name.0 {
        parts.push(part.as_ident().map(name_of).ok_or_else(improper)?);
    }
    let (last, before) = match parts.split_last() {
        Some((last, before)) => (last.clone(), before),
        None => return Err(improper()),
    };
    match before {
        [] => Ok((None, last)),
        [schema] => Ok((Some(schema.clone()), last)),
        [database, schema] if user_types::database().as_ref() == Some(database) => Ok((Some(schema.clone()), last)),
        [_, _] => Err(cross_database(&parts)),
        _ => Err(SqlError::syntax(format!("improper qualified name (too many dotted names): {name}"))),
    }
}

/// `0A000`: a name with that of another database before it.
pub(crate) fn cross_database(parts: &[String]) -> SqlError {
    SqlError::unsupported(format!("cross-database references are not implemented: \"{}\"", parts.join(".")))
}

/// The name without its schema.
///
/// # Errors
/// Those of [`parts_of`].
pub(crate) fn last_name(name: &ObjectName) -> Result<String, SqlError> {
    parts_of(name).map(|(_, name)| name)
}

/// `3F000`
pub(crate) fn no_schema(schema: &str) -> SqlError {
    SqlError::new("3F000", format!("schema \"{schema}\" does not exist"))
}

pub(crate) fn name_of(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

pub(crate) fn unsupported(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} is not supported"))
}

/// A name with its schema, if it has one, of the next tokens.
///
/// # Errors
/// `42601`
pub(crate) fn object_name(words: &mut Words<'_>) -> Result<ObjectName, SqlError> {
    let mut parts = vec![Ident::with_quote('"', words.name()?)];
    while words.take(&Token::Period) {
        parts.push(Ident::with_quote('"', words.name()?));
    }
    Ok(ObjectName::from(parts))
}
