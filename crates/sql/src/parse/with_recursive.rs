//! What WITH RECURSIVE may say: PostgreSQL's rules (`parse_cte.c`), on the syntax.
//!
//! A query of WITH RECURSIVE that names itself has to be `term UNION [ALL] recursive term`, and names
//! itself exactly once, in a FROM of the recursive term that gives each of its rows to the result:
//!
//! | where it names itself | error 42P19 |
//! |---|---|
//! | in the first term | `must not appear within its non-recursive term` |
//! | in a subquery of an expression, in a WITH beside the terms | `… within a subquery` |
//! | on the side of an outer join that can be NULL | `… within an outer join` |
//! | below EXCEPT on the right, EXCEPT ALL, INTERSECT ALL | `… within EXCEPT`, `… INTERSECT` |
//! | twice | `… more than once` |
//!
//! and there are no aggregates beside it (42P19), no ORDER BY, LIMIT, OFFSET, FOR UPDATE around the UNION
//! and no queries that name each other (0A000).

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, FunctionArguments, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, ObjectName, OnConflictAction,
    OnInsert, OrderByKind, Query, Select, SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, TableWithJoins,
    UpdateTableFromKind, Visitor, With,
};
use resurgam_ast::AstWalk;

use crate::wire::SqlError;

/// Whether a function of that name is an aggregate.
type IsAggregate<'a> = &'a dyn Fn(&str) -> bool;

/// Checks every WITH RECURSIVE in a statement or a query.
///
/// # Errors
/// See the module's head.
pub(crate) fn check(node: &impl AstWalk, is_aggregate: IsAggregate<'_>) -> Result<(), SqlError> {
    struct Find<'a>(IsAggregate<'a>);
    impl Visitor for Find<'_> {
        type Break = SqlError;
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
            match &query.with {
                Some(with) if with.recursive => match of_with(with, self.0) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(error),
                },
                _ => ControlFlow::Continue(()),
            }
        }
    }
    match node.walk(&mut Find(is_aggregate)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn invalid(text: String) -> SqlError {
    SqlError::new("42P19", text)
}

/// How a name is written in the catalog.
fn name_of(cte: &Cte) -> String {
    let ident = &cte.alias.name;
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

fn bare_name(name: &ObjectName) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    let ident = part.as_ident()?;
    Some(if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() })
}

fn of_with(with: &With, is_aggregate: IsAggregate<'_>) -> Result<(), SqlError> {
    let names: Vec<String> = with.cte_tables.iter().map(name_of).collect();
    let mut named = Vec::with_capacity(names.len());
    for cte in &with.cte_tables {
        let mut found = HashSet::new();
        for name in &names {
            let mut walk = Walk::new(name, None);
            walk.collect = true;
            walk.query(&cte.query, Place::Good)?;
            if walk.count > 0 {
                found.insert(name.clone());
            }
        }
        named.push(found);
    }
    refuse_circles(&names, &named)?;
    for ((cte, name), named) in with.cte_tables.iter().zip(&names).zip(&named) {
        if named.contains(name) {
            of_recursive(&cte.query, name, is_aggregate)?;
        }
    }
    Ok(())
}

/// Queries are put in an order in which each names only those before it, and itself.
fn refuse_circles(names: &[String], named: &[HashSet<String>]) -> Result<(), SqlError> {
    let mut done: HashSet<&str> = HashSet::new();
    while done.len() < names.len() {
        let next = names.iter().zip(named).find(|(name, named)| {
            !done.contains(name.as_str()) && named.iter().all(|other| other == *name || done.contains(other.as_str()))
        });
        match next {
            Some((name, _)) => done.insert(name),
            None => return Err(SqlError::unsupported("mutual recursion between WITH items is not implemented")),
        };
    }
    Ok(())
}

fn of_recursive(query: &Query, name: &str, is_aggregate: IsAggregate<'_>) -> Result<(), SqlError> {
    // Parentheses around the whole are nothing.
    let mut whole = query;
    while let SetExpr::Query(inner) = whole.body.as_ref()
        && is_plain(whole)
    {
        whole = inner;
    }
    let SetExpr::SetOperation { left, op: SetOperator::Union, right, .. } = whole.body.as_ref() else {
        if matches!(
            whole.body.as_ref(),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
        ) {
            return Err(invalid(format!("recursive query \"{name}\" must not contain data-modifying statements")));
        }
        return Err(invalid(format!(
            "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
        )));
    };
    let mut walk = Walk::new(name, Some(is_aggregate));
    walk.set(left, Place::FirstTerm)?;
    walk.set(right, Place::Good)?;
    if let Some(with) = &whole.with {
        for cte in &with.cte_tables {
            walk.query(&cte.query, Place::Subquery)?;
        }
    }
    let refused = |what: &str| Err(SqlError::unsupported(format!("{what} in a recursive query is not implemented")));
    if whole.order_by.is_some() {
        return refused("ORDER BY");
    }
    match &whole.limit_clause {
        Some(LimitClause::LimitOffset { offset: Some(_), .. }) => return refused("OFFSET"),
        Some(_) => return refused("LIMIT"),
        None => {}
    }
    if whole.fetch.is_some() {
        return refused("LIMIT");
    }
    if !whole.locks.is_empty() {
        return refused("FOR UPDATE/SHARE");
    }
    match walk.aggregates {
        true => Err(invalid("aggregate functions are not allowed in a recursive query's recursive term".to_owned())),
        false => Ok(()),
    }
}

fn is_plain(query: &Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Good,
    FirstTerm,
    Subquery,
    OuterJoin,
    Intersect,
    Except,
}

impl Place {
    fn shown(self) -> &'static str {
        match self {
            Self::Good => "here",
            Self::FirstTerm => "its non-recursive term",
            Self::Subquery => "a subquery",
            Self::OuterJoin => "an outer join",
            Self::Intersect => "INTERSECT",
            Self::Except => "EXCEPT",
        }
    }
}

/// Follows the places where a query may be named.
struct Walk<'a> {
    name: &'a str,
    /// Names of inner WITHs, which hide it.
    hidden: Vec<Vec<String>>,
    count: usize,
    /// Only counts.
    collect: bool,
    is_aggregate: Option<IsAggregate<'a>>,
    /// A SELECT that names it has aggregates.
    aggregates: bool,
}

impl<'a> Walk<'a> {
    fn new(name: &'a str, is_aggregate: Option<IsAggregate<'a>>) -> Self {
        Self { name, hidden: Vec::new(), count: 0, collect: false, is_aggregate, aggregates: false }
    }

    fn found(&mut self, name: &ObjectName, place: Place) -> Result<(), SqlError> {
        let Some(name) = bare_name(name) else { return Ok(()) };
        if name != self.name || self.hidden.iter().flatten().any(|hidden| *hidden == name) {
            return Ok(());
        }
        self.count += 1;
        if self.collect {
            return Ok(());
        }
        if place != Place::Good {
            let shown = place.shown();
            return Err(invalid(format!("recursive reference to query \"{name}\" must not appear within {shown}")));
        }
        if self.count > 1 {
            return Err(invalid(format!("recursive reference to query \"{name}\" must not appear more than once")));
        }
        Ok(())
    }

    fn query(&mut self, query: &Query, place: Place) -> Result<(), SqlError> {
        let depth = self.hidden.len();
        if let Some(with) = &query.with {
            let all: Vec<String> = with.cte_tables.iter().map(name_of).collect();
            self.hidden.push(if with.recursive { all } else { Vec::new() });
            for cte in &with.cte_tables {
                self.query(&cte.query, place)?;
                if !with.recursive {
                    self.hidden.push(vec![name_of(cte)]);
                }
            }
        }
        self.set(&query.body, place)?;
        if let Some(OrderByKind::Expressions(list)) = query.order_by.as_ref().map(|order| &order.kind) {
            for by in list {
                self.within(&by.expr, place)?;
            }
        }
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            self.within(limit, place)?;
            if let Some(offset) = offset {
                self.within(&offset.value, place)?;
            }
        }
        self.hidden.truncate(depth);
        Ok(())
    }

    fn set(&mut self, set: &SetExpr, place: Place) -> Result<(), SqlError> {
        match set {
            SetExpr::Select(select) => self.select(select, place),
            SetExpr::Query(query) => self.query(query, place),
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let all = *set_quantifier == SetQuantifier::All;
                let (on_left, on_right) = match (place, op) {
                    (Place::Good, SetOperator::Intersect) if all => (Place::Intersect, Place::Intersect),
                    (Place::Good, SetOperator::Except | SetOperator::Minus) => {
                        (if all { Place::Except } else { place }, Place::Except)
                    }
                    _ => (place, place),
                };
                self.set(left, on_left)?;
                self.set(right, on_right)
            }
            SetExpr::Values(values) => {
                for value in values.rows.iter().flat_map(|row| row.iter()) {
                    self.within(value, place)?;
                }
                Ok(())
            }
            SetExpr::Table(table) => match (&table.table_name, &table.schema_name) {
                (Some(table), None) => self.found(&ObjectName::from(vec![table.as_str().into()]), place),
                _ => Ok(()),
            },
            SetExpr::Insert(write) | SetExpr::Update(write) | SetExpr::Delete(write) => self.write(write, place),
            _ => Ok(()),
        }
    }

    /// What a statement that writes names beside its target.
    fn write(&mut self, write: &Statement, place: Place) -> Result<(), SqlError> {
        match write {
            Statement::Insert(insert) => {
                if let Some(source) = &insert.source {
                    self.query(source, place)?;
                }
                if let Some(OnInsert::OnConflict(on)) = &insert.on
                    && let OnConflictAction::DoUpdate(update) = &on.action
                {
                    self.within(&update.assignments, place)?;
                    self.within(&update.selection, place)?;
                }
                self.within(&insert.returning, place)
            }
            Statement::Update(update) => {
                if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = &update.from {
                    from.iter().try_for_each(|from| self.table(from, place))?;
                }
                self.within(&update.assignments, place)?;
                self.within(&update.selection, place)?;
                self.within(&update.returning, place)
            }
            Statement::Delete(delete) => {
                delete.using.iter().flatten().try_for_each(|from| self.table(from, place))?;
                self.within(&delete.selection, place)?;
                self.within(&delete.returning, place)
            }
            _ => Ok(()),
        }
    }

    fn select(&mut self, select: &Select, place: Place) -> Result<(), SqlError> {
        let before = self.count;
        self.within(&select.projection, place)?;
        for from in &select.from {
            self.table(from, place)?;
        }
        if let Some(is_aggregate) = self.is_aggregate
            && self.count > before
            && names_itself(select, self.name)
        {
            self.aggregates |= has_aggregates(select, is_aggregate);
        }
        self.within(&select.selection, place)?;
        if let GroupByExpr::Expressions(list, _) = &select.group_by {
            self.within(list, place)?;
        }
        self.within(&select.having, place)
    }

    fn table(&mut self, from: &TableWithJoins, place: Place) -> Result<(), SqlError> {
        // Joins lean to the left: what comes before one is its left side.
        let nullable = if place == Place::Good { Place::OuterJoin } else { place };
        let mut left = Vec::with_capacity(from.joins.len());
        let mut on_left = place;
        for join in from.joins.iter().rev() {
            let (of_left, of_right) = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (on_left, worse(on_left, nullable)),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (worse(on_left, nullable), on_left),
                JoinOperator::FullOuter(_) => (worse(on_left, nullable), worse(on_left, nullable)),
                _ => (on_left, on_left),
            };
            left.push(of_right);
            on_left = of_left;
        }
        self.factor(&from.relation, on_left)?;
        for (join, place_of) in from.joins.iter().zip(left.into_iter().rev()) {
            self.factor(&join.relation, place_of)?;
            if let Some(JoinConstraint::On(condition)) = constraint(&join.join_operator) {
                self.within(condition, place)?;
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, place: Place) -> Result<(), SqlError> {
        match factor {
            TableFactor::Table { name, args: None, .. } => self.found(name, place),
            TableFactor::Derived { subquery, .. } => self.query(subquery, place),
            TableFactor::NestedJoin { table_with_joins, .. } => self.table(table_with_joins, place),
            TableFactor::UNNEST { array_exprs, .. } => self.within(array_exprs, place),
            _ => Ok(()),
        }
    }

    /// Subqueries of expressions.
    fn within(&mut self, node: &impl AstWalk, place: Place) -> Result<(), SqlError> {
        struct Find<'w, 'a> {
            walk: &'w mut Walk<'a>,
            place: Place,
            depth: usize,
        }
        impl Visitor for Find<'_, '_> {
            type Break = SqlError;
            fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
                self.depth += 1;
                if self.depth == 1
                    && let Err(error) = self.walk.query(query, self.place)
                {
                    return ControlFlow::Break(error);
                }
                ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
                self.depth -= 1;
                ControlFlow::Continue(())
            }
        }
        // One that is refused anyway keeps its reason.
        let place = if place == Place::Good { Place::Subquery } else { place };
        match node.walk(&mut Find { walk: self, place, depth: 0 }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

fn worse(place: Place, nullable: Place) -> Place {
    if place == Place::Good { nullable } else { place }
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::CrossJoin(on) => Some(on),
        _ => None,
    }
}

/// Whether the query is an item of this very FROM.
fn names_itself(select: &Select, name: &str) -> bool {
    fn of(factor: &TableFactor, name: &str) -> bool {
        match factor {
            TableFactor::Table { name: table, args: None, .. } => bare_name(table).is_some_and(|table| table == name),
            TableFactor::NestedJoin { table_with_joins, .. } => table(table_with_joins, name),
            _ => false,
        }
    }
    fn table(from: &TableWithJoins, name: &str) -> bool {
        of(&from.relation, name) || from.joins.iter().any(|join| of(&join.relation, name))
    }
    select.from.iter().any(|from| table(from, name))
}

/// Whether a SELECT calls aggregates itself, not in its subqueries.
fn has_aggregates(select: &Select, is_aggregate: IsAggregate<'_>) -> bool {
    struct Find<'a> {
        is_aggregate: IsAggregate<'a>,
        depth: usize,
    }
    impl Visitor for Find<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if self.depth == 0
                && let Expr::Function(call) = expr
                && call.over.is_none()
                && !matches!(call.args, FunctionArguments::Subquery(_))
                && bare_name(&call.name).is_some_and(|name| (self.is_aggregate)(&name))
            {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    let mut find = Find { is_aggregate, depth: 0 };
    select.projection.walk(&mut find).is_break() || select.having.walk(&mut find).is_break()
}
