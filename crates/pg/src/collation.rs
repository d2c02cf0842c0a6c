//! Collations: there is one, the order of bytes.

use datafusion::sql::sqlparser::ast::ObjectName;

use crate::wire::SqlError;

/// Texts are ordered by their bytes; other orders are refused.
///
/// # Errors
/// `0A000`.
pub fn by_bytes(collation: &ObjectName) -> Result<(), SqlError> {
    let parts: Vec<&str> =
        collation.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str()).collect();
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema.eq_ignore_ascii_case("pg_catalog") => name,
        _ => "",
    };
    match name {
        "C" | "POSIX" | "default" | "DEFAULT" | "ucs_basic" | "C.UTF-8" | "C.utf8" => Ok(()),
        _ => Err(SqlError::unsupported(format!("the collation {collation} is not supported"))
            .with_hint("Texts are ordered by their bytes, which is the collation \"C\".")),
    }
}
