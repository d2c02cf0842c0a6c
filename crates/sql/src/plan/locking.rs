//! What a query may be that has a locking clause, and which of its tables it locks.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, LockClause, LockType, NonBlock, ObjectName, ObjectNamePart, Query, Select, SetExpr,
    Visitor,
};
use resurgam_ast::AstWalk;
use resurgam_engine::{RowLockMode, Table};

use crate::parse::locking::WEAKER;
use crate::plan::planner::Names;
use crate::wire::SqlError;

/// What happens when a row is locked by somebody else. Of several the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Policy {
    Wait,
    Skip,
    Nowait,
}

/// How rows of a table are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taking {
    pub mode: RowLockMode,
    pub policy: Policy,
}

impl Taking {
    pub fn of(clause: &LockClause) -> Self {
        Self { mode: mode(clause), policy: policy(clause) }
    }

    /// Of two clauses the stronger counts, in each respect.
    pub fn and(self, other: Self) -> Self {
        Self { mode: self.mode.max(other.mode), policy: self.policy.max(other.policy) }
    }
}

/// The clause's words, for errors.
pub(crate) fn shown(clause: &LockClause) -> &'static str {
    match mode(clause) {
        RowLockMode::Update => "FOR UPDATE",
        RowLockMode::NoKeyUpdate => "FOR NO KEY UPDATE",
        RowLockMode::Share => "FOR SHARE",
        RowLockMode::KeyShare => "FOR KEY SHARE",
    }
}

fn mode(clause: &LockClause) -> RowLockMode {
    let first = clause.of.as_ref().and_then(|of| of.0.first()).and_then(|part| part.as_ident());
    match (&clause.lock_type, first.is_some_and(|ident| ident.value == WEAKER)) {
        (LockType::Update, false) => RowLockMode::Update,
        (LockType::Update, true) => RowLockMode::NoKeyUpdate,
        (LockType::Share, false) => RowLockMode::Share,
        (LockType::Share, true) => RowLockMode::KeyShare,
    }
}

fn policy(clause: &LockClause) -> Policy {
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
    let is_mark = |part: &ObjectNamePart| part.as_ident().is_some_and(|ident| ident.value == WEAKER);
    let parts = match parts.as_slice() {
        [mark, named @ ..] if is_mark(mark) => named,
        all => all,
    };
    match parts {
        [] => Ok(None),
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

/// A table of the query.
#[derive(Debug)]
pub(crate) struct Locked {
    pub table: Arc<Table>,
    /// `None`: its rows are not to be locked.
    pub lock: Option<Taking>,
}

/// A number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Given(Option<i64>),
    Param(usize),
}

/// Whether a statement has a locking clause anywhere.
pub(crate) fn is_locking<T: AstWalk>(statement: &T) -> bool {
    struct Find;
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if query.locks.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    statement.walk(&mut Find).is_break()
}
