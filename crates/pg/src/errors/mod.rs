//! Errors of every layer to SQLSTATE, PostgreSQL's wording, and a position.
//!
//! An error that starts here as a [`SqlError`] keeps its identity through
//! DataFusion: [`to_datafusion`] boxes it, [`from_datafusion`] finds it again however
//! deep it is wrapped. What DataFusion and Arrow say themselves is recognised by
//! kind first and by message where the kind is too coarse; an unrecognised message
//! passes unchanged under the SQLSTATE of its kind.

mod messages;
mod position;
mod syntax;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};

pub use position::{character_position, find_identifier};
pub use syntax::from_parser;

use crate::wire::SqlError;

/// Wraps an error so that [`from_datafusion`] gives it back unchanged.
#[cold]
pub fn to_datafusion(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Wraps a storage error so that [`from_datafusion`] finds kind, detail and hint.
#[cold]
pub fn storage(error: resurgam_base::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error that the client sees. `sql` is the statement's text, for the position.
#[cold]
pub fn from_datafusion(error: DataFusionError, sql: &str) -> SqlError {
    let mut out = convert(&error, sql);
    if out.message.len() > 4000 {
        let mut end = 4000;
        while !out.message.is_char_boundary(end) {
            end -= 1;
        }
        out.message.truncate(end);
    }
    out
}

fn convert(error: &DataFusionError, sql: &str) -> SqlError {
    match error {
        DataFusionError::External(inner) => external(inner.as_ref(), sql),
        DataFusionError::Context(_, inner) => convert(inner, sql),
        DataFusionError::Shared(inner) => convert(inner, sql),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => convert(first, sql),
            None => SqlError::internal("unknown error"),
        },
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let mut out = convert(inner, sql);
            if out.position.is_none()
                && let Some(span) = diagnostic.span
            {
                out.position = character_position(sql, span.start.line, span.start.column);
            }
            out
        }
        DataFusionError::SQL(parser, _) => from_parser(parser, sql),
        DataFusionError::SchemaError(schema, _) => schema_error(schema, sql),
        DataFusionError::ArrowError(arrow, _) => arrow_error(arrow, sql),
        DataFusionError::Plan(message) => messages::plan(message, sql),
        DataFusionError::NotImplemented(message) => messages::not_implemented(message, sql),
        DataFusionError::Execution(message) => messages::execution(message, sql),
        DataFusionError::Configuration(message) => SqlError::new("22023", message.clone()),
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new("53200", "out of memory").with_detail(message.clone())
        }
        DataFusionError::IoError(io) => io_error(io),
        DataFusionError::ExecutionJoin(join) if join.is_cancelled() => {
            SqlError::new("57014", "canceling statement due to user request")
        }
        DataFusionError::ExecutionJoin(join) => SqlError::internal(join.to_string()),
        DataFusionError::Internal(message) => messages::internal(message, sql),
        other => SqlError::internal(other.strip_backtrace()),
    }
}

/// An error of a file: one of ours on its way, a disk that is full, or any other.
fn io_error(error: &std::io::Error) -> SqlError {
    if let Some(found) = error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>()) {
        return found.clone();
    }
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            SqlError::new("53100", error.to_string())
        }
        _ => SqlError::new("58030", error.to_string()),
    }
}

fn external(error: &(dyn std::error::Error + Send + Sync + 'static), sql: &str) -> SqlError {
    if let Some(found) = error.downcast_ref::<SqlError>() {
        return found.clone();
    }
    if let Some(found) = error.downcast_ref::<resurgam_base::Error>() {
        return SqlError::from(found.clone());
    }
    if let Some(found) = error.downcast_ref::<DataFusionError>() {
        return convert(found, sql);
    }
    if let Some(found) = error.downcast_ref::<ArrowError>() {
        return arrow_error(found, sql);
    }
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(found) = inner.downcast_ref::<SqlError>() {
            return found.clone();
        }
        if let Some(found) = inner.downcast_ref::<resurgam_base::Error>() {
            return SqlError::from(found.clone());
        }
        source = inner.source();
    }
    let message = error.to_string();
    if message.contains("regex parse error") {
        return messages::regex(&message);
    }
    SqlError::internal(message)
}

/// The error for one of Arrow's.
pub fn from_arrow(error: &ArrowError) -> SqlError {
    arrow_error(error, "")
}

fn arrow_error(error: &ArrowError, sql: &str) -> SqlError {
    match error {
        ArrowError::ExternalError(inner) => external(inner.as_ref(), sql),
        ArrowError::DivideByZero => SqlError::new("22012", "division by zero"),
        ArrowError::ArithmeticOverflow(message) => messages::overflow(message),
        ArrowError::CastError(message) => messages::cast(message),
        ArrowError::ParseError(message) => messages::cast(message),
        ArrowError::ComputeError(message) | ArrowError::InvalidArgumentError(message) => {
            messages::execution(message, sql)
        }
        ArrowError::NotYetImplemented(message) => SqlError::unsupported(message.clone()),
        ArrowError::MemoryError(message) => SqlError::new("53200", "out of memory").with_detail(message.clone()),
        ArrowError::IoError(_, io) => io_error(io),
        ArrowError::OffsetOverflowError(_) => SqlError::new("54000", "result is too large for one batch"),
        other => SqlError::internal(other.to_string()),
    }
}

fn schema_error(error: &SchemaError, sql: &str) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let mut out = match &field.relation {
                Some(relation) => {
                    let table = relation.table();
                    let known =
                        valid_fields.iter().any(|valid| valid.relation.as_ref().is_some_and(|r| r.table() == table));
                    if known || valid_fields.is_empty() {
                        SqlError::new("42703", format!("column {}.{} does not exist", table, field.name))
                    } else {
                        SqlError::new("42P01", format!("missing FROM-clause entry for table \"{table}\""))
                    }
                }
                None => SqlError::new("42703", format!("column \"{}\" does not exist", field.name)),
            };
            out.position = match &field.spans.first() {
                Some(span) => character_position(sql, span.start.line, span.start.column),
                None => match &field.relation {
                    Some(relation) => find_identifier(sql, relation.table()),
                    None => find_identifier(sql, &field.name),
                },
            };
            out
        }
        SchemaError::AmbiguousReference { field } => {
            let mut out = SqlError::new("42702", format!("column reference \"{}\" is ambiguous", field.name));
            out.position = match &field.spans.first() {
                Some(span) => character_position(sql, span.start.line, span.start.column),
                None => find_identifier(sql, &field.name),
            };
            out
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => {
            // two tables under one name in FROM, or one column twice in a derived table
            let mut out =
                SqlError::new("42712", format!("table name \"{}\" specified more than once", qualifier.table()));
            out.detail = Some(format!("Column \"{name}\" would exist twice."));
            out
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new("42701", format!("column \"{name}\" specified more than once"))
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::Column;

    use super::*;

    #[test]
    fn own_errors_come_back_unchanged() {
        let inner = SqlError::new("22P02", "invalid input syntax for type integer: \"abc\"").with_detail("d");
        let wrapped = DataFusionError::Context(
            "outer".into(),
            Box::new(DataFusionError::ArrowError(
                Box::new(ArrowError::ExternalError(Box::new(to_datafusion(inner)))),
                None,
            )),
        );
        let out = from_datafusion(wrapped, "");
        assert_eq!((out.sqlstate.as_str(), out.detail.as_deref()), ("22P02", Some("d")));
    }

    #[test]
    fn storage_errors_keep_their_state() {
        let error = resurgam_base::Error::new(resurgam_base::ErrorKind::DeadlockDetected, "deadlock detected");
        assert_eq!(from_datafusion(storage(error), "").sqlstate, "40P01");
    }

    #[test]
    fn missing_column() {
        let error = DataFusionError::SchemaError(
            Box::new(SchemaError::FieldNotFound { field: Box::new(Column::from_name("nope")), valid_fields: vec![] }),
            Box::new(None),
        );
        let out = from_datafusion(error, "SELECT 'nope', nope FROM t");
        assert_eq!(out.sqlstate, "42703");
        assert_eq!(out.message, "column \"nope\" does not exist");
        assert_eq!(out.position, Some(16));
    }

    #[test]
    fn division_by_zero() {
        let error = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        assert_eq!(from_datafusion(error, "").sqlstate, "22012");
    }
}
