//! WITH before INSERT, UPDATE, DELETE and MERGE, and statements that write within WITH.
//!
//! The parser gives a query whose body is the statement. It stays so: analysis takes the WITH queries and the statement apart.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement, Visitor, With};
use resurgam_ast::AstWalk;

use crate::wire::SqlError;

/// The statement that writes which the body of a query is, if it is one.
pub(crate) fn write_of(query: &Query) -> Option<&Statement> {
    match query.body.as_ref() {
        SetExpr::Insert(write) | SetExpr::Update(write) | SetExpr::Delete(write) | SetExpr::Merge(write) => Some(write),
        _ => None,
    }
}

/// A statement that writes, and the WITH before it; `None` for any other.
pub(crate) fn parts(statement: &Statement) -> Option<(Option<&With>, &Statement)> {
    match statement {
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            Some((None, statement))
        }
        Statement::Query(query) => write_of(query).map(|write| (query.with.as_ref(), write)),
        _ => None,
    }
}

/// Refuses what no statement that writes has around it.
///
/// # Errors
/// `42601`
pub(crate) fn check(statement: &Statement) -> Result<(), SqlError> {
    struct Find;
    impl Visitor for Find {
        type Break = SqlError;
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
            match write_of(query).map_or(Ok(()), |write| around(query, write)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }
    match statement.walk(&mut Find) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn around(query: &Query, write: &Statement) -> Result<(), SqlError> {
    if query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() || !query.locks.is_empty() {
        return Err(SqlError::syntax("a statement that writes has no ORDER BY, LIMIT or FOR"));
    }
    if query.with.as_ref().is_some_and(|with| with.recursive) && matches!(write, Statement::Merge(_)) {
        return Err(SqlError::syntax("WITH RECURSIVE is not supported for MERGE statement"));
    }
    Ok(())
}

/// Whether a query has statements that write in a WITH of its own.
pub(crate) fn writes_within(query: &Query) -> bool {
    let of_with = |with: &With| with.cte_tables.iter().any(|cte| write_of(&cte.query).is_some());
    query.with.as_ref().is_some_and(of_with)
        || matches!(query.body.as_ref(), SetExpr::Query(inner) if writes_within(inner))
}
