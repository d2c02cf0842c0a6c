//! What statements are, by their form alone.

use datafusion::sql::sqlparser::ast::{GroupByExpr, Query, Select, SetExpr, Statement};

/// Whether it is planned: PostgreSQL's "optimizable statements", which alone may be prepared, explained, declared as
/// cursors or stand in the body of a function.
pub(crate) fn is_optimizable(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_)
    )
}

/// The SELECT that a query is, where it has a list and a FROM at most: nothing that sorts, groups, filters, limits,
/// locks or names other queries.
pub(crate) fn bare_select(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && select.distinct.is_none()
        && select.into.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && select.named_window.is_empty()
        && matches!(&select.group_by, GroupByExpr::Expressions(list, more) if list.is_empty() && more.is_empty());
    bare.then_some(select)
}
