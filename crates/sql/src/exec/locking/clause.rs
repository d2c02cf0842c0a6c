//! What a query may be that has a locking clause, and which of its tables it locks.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, LockClause, LockType, NonBlock, ObjectName, Query, Select, SetExpr, Visitor,
};
use resurgam_ast::AstWalk;

use crate::plan::planner::Names;
use crate::wire::SqlError;

/// What happens when a row is locked by somebody else. Of several the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Policy {
    Wait,
    Skip,
    Nowait,
}

/// `FOR UPDATE` or `FOR SHARE`, for errors.
pub(crate) fn shown(clause: &LockClause) -> &'static str {
    match clause.lock_type {
        LockType::Update => "FOR UPDATE",
        LockType::Share => "FOR SHARE",
    }
}

pub(crate) fn policy(clause: &LockClause) -> Policy {
    match clause.nonblock {
        None => Policy::Wait,
        Some(NonBlock::SkipLocked) => Policy::Skip,
        Some(NonBlock::Nowait) => Policy::Nowait,
    }
}

pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// The relation that a clause names behind OF.
pub(crate) fn of(clause: &LockClause) -> Result<Option<String>, SqlError> {
    let Some(ObjectName(parts)) = &clause.of else { return Ok(None) };
    match parts.as_slice() {
        [part] => Ok(part.as_ident().map(folded)),
        _ => Err(SqlError::syntax(format!("{} must specify unqualified relation names", shown(clause)))),
    }
}

/// The SELECT of a query whose rows are rows of its tables; PostgreSQL's errors for any other.
pub(crate) fn select_of<'q>(
    names: &Names<'_>,
    query: &'q mut Query,
    clause: &LockClause,
) -> Result<&'q mut Select, SqlError> {
    let refused = |what: &str| Err(SqlError::unsupported(format!("{} is not allowed with {what}", shown(clause))));
    let select = match query.body.as_mut() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return refused("UNION/INTERSECT/EXCEPT"),
        SetExpr::Values(_) => {
            return Err(SqlError::unsupported(format!("{} cannot be applied to VALUES", shown(clause))));
        }
        _ => return Err(SqlError::unsupported(format!("{} of this kind of query is not supported", shown(clause)))),
    };
    if select.distinct.is_some() {
        return refused("DISTINCT clause");
    }
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(list, modifiers) => !list.is_empty() || !modifiers.is_empty(),
    };
    if grouped {
        return refused("GROUP BY clause");
    }
    if select.having.is_some() {
        return refused("HAVING clause");
    }
    match select.projection.walk(&mut Calls { names, depth: 0 }) {
        ControlFlow::Break(what) => refused(what),
        ControlFlow::Continue(()) => Ok(select),
    }
}

/// Calls in the select list, outside of subqueries, that make one row of several.
struct Calls<'a> {
    names: &'a Names<'a>,
    depth: usize,
}

impl Visitor for Calls<'_> {
    type Break = &'static str;
    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<&'static str> {
        self.depth += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<&'static str> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<&'static str> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
        if function.over.is_some() {
            return ControlFlow::Break("window functions");
        }
        if self.names.state.aggregate_functions().contains_key(&name) {
            return ControlFlow::Break("aggregate functions");
        }
        if name == "unnest" {
            return ControlFlow::Break("set-returning functions in the target list");
        }
        ControlFlow::Continue(())
    }
}
