//! Planning of queries with locking clauses, apart from the statement that they stand in.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Column, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Ident, JoinConstraint, JoinOperator, LimitClause, LockClause, ObjectName, Query, SelectItem, SetExpr,
    Statement, TableAlias, TableFactor, TableWithJoins, Value, Visitor, VisitorMut,
};
use resurgam_ast::{AstWalk, AstWalkMut};
use resurgam_engine::Table;

use super::clause::{self, Policy, folded};
use super::{LOCKED, LockedSchemas};
use crate::dml::{find_table, requalify};
use crate::exec::bridge;
use crate::exec::table::KEY_COLUMN;
use crate::naming;
use crate::pg::errors;
use crate::plan::params::placeholder_index;
use crate::plan::planner::{Names, QueryPlan, TARGET};
use crate::plan::statement::{ParamTypes, mentioned, template};
use crate::wire::SqlError;

/// A query that locks rows.
#[derive(Debug)]
pub(crate) struct LockPlan {
    /// The query without LIMIT: its columns, then the key of each of `tables`.
    pub(super) source: QueryPlan,
    /// Its columns, `c0` and so on.
    pub(super) schema: SchemaRef,
    pub(super) tables: Vec<Locked>,
    pub(super) limit: Option<Count>,
    pub(super) offset: Option<Count>,
}

/// A table of the query.
#[derive(Debug)]
pub(super) struct Locked {
    pub table: Arc<Table>,
    /// `None`: its rows are not to be locked.
    pub lock: Option<Policy>,
}

/// A number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Given(Option<i64>),
    Param(usize),
}

impl LockPlan {
    /// The plan of the query without its locks, for EXPLAIN.
    pub(crate) fn source(&self) -> &QueryPlan {
        &self.source
    }
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

/// The state that a statement is planned with that has these queries in it.
pub(crate) fn planning_state(state: &SessionState, plans: &[LockPlan]) -> SessionState {
    let mut state = state.clone();
    let schemas = plans.iter().map(|plan| Arc::clone(&plan.schema)).collect();
    state.config_mut().set_extension(Arc::new(LockedSchemas(schemas)));
    state
}

/// Plans the queries of a statement that have a locking clause, innermost first, and puts the
/// tables of their rows in their places.
///
/// # Errors
/// `0A000` for queries that cannot be locked, worded as PostgreSQL's; those of planning them.
pub(crate) fn extract(
    names: &Names<'_>,
    statement: &mut Statement,
    params: &mut ParamTypes,
    text: &str,
) -> Result<Vec<LockPlan>, SqlError> {
    struct With(HashSet<String>);
    impl Visitor for With {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.0.extend(ctes(query));
            ControlFlow::Continue(())
        }
    }
    let mut with = With(HashSet::new());
    let _ = statement.walk(&mut with);
    let mut walk = Extract { names, params, text, with: with.0, plans: Vec::new() };
    match statement.walk_mut(&mut walk) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(walk.plans),
    }
}

fn ctes(query: &Query) -> impl Iterator<Item = String> {
    query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name))
}

struct Extract<'a> {
    names: &'a Names<'a>,
    params: &'a mut ParamTypes,
    text: &'a str,
    /// Names of all WITH queries of the statement.
    with: HashSet<String>,
    plans: Vec<LockPlan>,
}

impl VisitorMut for Extract<'_> {
    type Break = SqlError;
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if query.locks.is_empty() {
            return ControlFlow::Continue(());
        }
        match self.plan(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<SqlError> {
        // As a value it must not give a second row.
        if let ast::Expr::Subquery(query) = expr
            && let SetExpr::Select(select) = query.body.as_mut()
            && let [TableWithJoins { relation: TableFactor::Table { name, .. }, .. }] = select.from.as_slice()
            && name.0.first().and_then(|part| part.as_ident()).is_some_and(|schema| schema.value == LOCKED)
            && let [SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_mut_slice()
            && let ast::Expr::Identifier(_) = expr
        {
            match template(&format!("SELECT pg_single({expr})")).map(|query| *query.body) {
                Ok(SetExpr::Select(single)) => {
                    if let [SelectItem::UnnamedExpr(call)] = single.projection.as_slice() {
                        *expr = call.clone();
                    }
                }
                Ok(_) => {}
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

impl Extract<'_> {
    fn plan(&mut self, place: &mut Query) -> Result<(), SqlError> {
        let failed = |error| errors::from_datafusion(error, self.text);
        let mut query = Box::new(place.clone());
        let clauses = std::mem::take(&mut query.locks);
        let Some(first) = clauses.first() else { return Ok(()) };
        self.refuse_outer(&query, first)?;
        let (limit, offset) = match query.limit_clause.take() {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit, offset.map(|offset| offset.value))
            }
            Some(_) => return Err(SqlError::syntax("this form of LIMIT is not supported")),
        };
        let limit = limit.map(|limit| self.count(&limit)).transpose()?;
        let offset = offset.map(|offset| self.count(&offset)).transpose()?;
        if query.fetch.is_some() || query.for_clause.is_some() {
            return Err(SqlError::unsupported("this query cannot be locked"));
        }
        naming::name_columns(&mut query);
        let own: HashSet<String> = ctes(&query).collect();
        let select = clause::select_of(self.names, &mut query, first)?;
        let mut from = From { names: self.names, own, clause: first, tables: Vec::new(), others: Vec::new() };
        for item in &mut select.from {
            from.item(item, false)?;
        }
        let (mut tables, others) = (from.tables, from.others);
        for clause in &clauses {
            apply(clause, &mut tables, &others)?;
        }
        for (at, found) in tables.iter().enumerate() {
            if tables[..at].iter().any(|before| before.table.id == found.table.id) {
                return Err(SqlError::unsupported(format!(
                    "{} of a table that is joined with itself is not supported",
                    clause::shown(first)
                )));
            }
            select.projection.push(SelectItem::ExprWithAlias {
                expr: ast::Expr::CompoundIdentifier(vec![
                    Ident::with_quote('"', &found.alias),
                    Ident::with_quote('"', KEY_COLUMN),
                ]),
                alias: Ident::with_quote('"', format!("{KEY_COLUMN}{at}")),
            });
        }
        for found in &tables {
            requalify(&mut *query, &found.table, &found.alias);
        }
        let state = planning_state(self.names.state, &self.plans);
        let names = Names { state: &state, txn: self.names.txn, cx: self.names.cx };
        let mentioned = mentioned(&query);
        let logical = self
            .params
            .resolve_mentioned(&mentioned, |known| names.query((*query).clone(), known, None))
            .map_err(failed)?;
        let width = logical.schema().fields().len();
        let (mut exprs, mut shown, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..width {
            let field = logical.schema().field(i);
            let column = Expr::Column(Column::from(logical.schema().qualified_field(i)));
            if i + tables.len() >= width {
                exprs.push(column.alias(format!("k{}", i + tables.len() - width)));
            } else if field.name() != KEY_COLUMN {
                // The others are the keys that `*` stands for, too.
                let name = format!("c{}", shown.len());
                shown.push(field.name().clone());
                fields.push(field.as_ref().clone().with_name(&name).with_nullable(true));
                exprs.push(column.alias(name));
            }
        }
        if shown.is_empty() {
            return Err(SqlError::unsupported("a query without columns cannot be locked"));
        }
        let logical = LogicalPlanBuilder::from(logical).project(exprs).and_then(|b| b.build()).map_err(failed)?;
        let source = QueryPlan::new(&state, logical, self.params.data_types()).map_err(failed)?;
        for (field, settled) in fields.iter_mut().zip(source.schema.fields()) {
            if field.data_type() != settled.data_type() {
                *field = Field::new(field.name(), settled.data_type().clone(), true);
            }
        }
        *place = *rows_of(self.plans.len(), &shown)?;
        self.plans.push(LockPlan {
            source,
            schema: Arc::new(Schema::new(fields)),
            tables: tables.into_iter().map(|found| Locked { table: found.table, lock: found.lock }).collect(),
            limit,
            offset,
        });
        Ok(())
    }

    /// Planned by itself, a query does not see the WITH queries around it; and must not take
    /// tables of the same names for them.
    fn refuse_outer(&self, query: &Query, clause: &LockClause) -> Result<(), SqlError> {
        struct Find<'a> {
            with: &'a HashSet<String>,
            own: HashSet<String>,
        }
        impl Visitor for Find<'_> {
            type Break = String;
            fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
                self.own.extend(ctes(query));
                ControlFlow::Continue(())
            }
            fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<String> {
                match relation.0.as_slice() {
                    [part] => {
                        let name = part.as_ident().map(folded).unwrap_or_default();
                        if self.with.contains(&name) && !self.own.contains(&name) {
                            return ControlFlow::Break(name);
                        }
                        ControlFlow::Continue(())
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        match query.walk(&mut Find { with: &self.with, own: HashSet::new() }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(name) => Err(SqlError::unsupported(format!(
                "{} of a query that uses the WITH query \"{name}\" around it is not supported",
                clause::shown(clause)
            ))),
        }
    }

    fn count(&mut self, expr: &ast::Expr) -> Result<Count, SqlError> {
        if let ast::Expr::Value(value) = expr
            && let Value::Placeholder(id) = &value.value
            && let Some(index) = placeholder_index(id)
        {
            self.params.hint(expr, &Field::new("limit", DataType::Int64, true));
            return Ok(Count::Param(index));
        }
        let value = self.names.constant(expr.clone()).map_err(|error| errors::from_datafusion(error, self.text))?;
        count_of(&value).map(Count::Given)
    }
}

/// A value as a number of rows; NULL is none.
pub(super) fn count_of(value: &ScalarValue) -> Result<Option<i64>, SqlError> {
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(count)) => Ok(count),
        _ => Err(SqlError::new("42804", "argument of LIMIT must be type bigint")),
    }
}

/// `SELECT … FROM` the table of locked rows of that number.
fn rows_of(number: usize, shown: &[String]) -> Result<Box<Query>, SqlError> {
    let columns: Vec<String> =
        shown.iter().enumerate().map(|(i, name)| format!("c{i} AS \"{}\"", name.replace('"', "\"\""))).collect();
    let mut query = template(&format!("SELECT {} FROM \"{LOCKED}\".\"{number}\"", columns.join(", ")))?;
    naming::name_columns(&mut query);
    Ok(query)
}

/// A table in FROM.
struct Found {
    table: Arc<Table>,
    alias: String,
    /// On the nullable side of an outer join.
    nullable: bool,
    lock: Option<Policy>,
}

/// Something else in FROM.
struct Other {
    name: String,
    /// What PostgreSQL calls it.
    what: &'static str,
    /// It has rows of tables, which a clause without OF would have to lock.
    has_rows: bool,
}

/// Walks through FROM, and gives each table's scan the column with its key.
struct From<'a> {
    names: &'a Names<'a>,
    own: HashSet<String>,
    clause: &'a LockClause,
    tables: Vec<Found>,
    others: Vec<Other>,
}

impl From<'_> {
    fn item(&mut self, item: &mut TableWithJoins, nullable: bool) -> Result<(), SqlError> {
        let first = self.tables.len();
        self.factor(&mut item.relation, nullable)?;
        for join in &mut item.joins {
            use JoinOperator as J;
            let (left, right, on) = match &join.join_operator {
                J::Join(on) | J::Inner(on) | J::CrossJoin(on) => (false, false, on),
                J::Left(on) | J::LeftOuter(on) => (false, true, on),
                J::Right(on) | J::RightOuter(on) => (true, false, on),
                J::FullOuter(on) => (true, true, on),
                _ => return Err(SqlError::syntax("this kind of join is not supported")),
            };
            if matches!(on, JoinConstraint::Natural) {
                // The keys would be joined, too.
                return Err(SqlError::unsupported(format!(
                    "{} with NATURAL JOIN is not supported",
                    clause::shown(self.clause)
                )));
            }
            let before = self.tables.len();
            self.factor(&mut join.relation, nullable || right)?;
            if left {
                self.tables[first..before].iter_mut().for_each(|table| table.nullable = true);
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor, nullable: bool) -> Result<(), SqlError> {
        let named = |alias: &Option<TableAlias>| alias.as_ref().map(|alias| folded(&alias.name));
        let (name, what, has_rows) = match factor {
            TableFactor::NestedJoin { table_with_joins, alias } => {
                if alias.is_some() {
                    return Err(SqlError::unsupported("a join with an alias cannot be locked"));
                }
                return self.item(table_with_joins, nullable);
            }
            TableFactor::Table { name, alias, args: None, .. } => match self.table(name, alias, nullable)? {
                None => return Ok(()),
                Some(other) => other,
            },
            TableFactor::Derived { alias, .. } => (named(alias).unwrap_or_default(), "a subquery", true),
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. } => (named(alias).unwrap_or_default(), "a function", false),
            _ => return Err(SqlError::unsupported("this item of FROM cannot be locked")),
        };
        self.others.push(Other { name, what, has_rows });
        Ok(())
    }

    /// A table by name; what it is if it is none.
    fn table(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        nullable: bool,
    ) -> Result<Option<(String, &'static str, bool)>, SqlError> {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(folded)).collect();
        let plain = parts.last().cloned().unwrap_or_default();
        let shown = alias.as_ref().map_or_else(|| plain.clone(), |alias| folded(&alias.name));
        if parts.len() == 1 && self.own.contains(&plain) {
            return Ok(Some((shown, "a WITH query", false)));
        }
        let system = match parts.as_slice() {
            [first, _] if first == LOCKED => return Ok(Some((shown, "a subquery", false))),
            [only] => bridge::catalog_table(self.names.cx, "pg_catalog", only)
                .map_err(|error| errors::from_datafusion(error, ""))?
                .is_some(),
            [.., schema, _] => matches!(schema.as_str(), "pg_catalog" | "information_schema" | "sys"),
            [] => false,
        };
        if system {
            return Ok(Some((shown, "a system catalog", true)));
        }
        let table = find_table(self.names.txn, name)?;
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(SqlError::unsupported(format!(
                "{} of a table with other names for its columns is not supported",
                clause::shown(self.clause)
            )));
        }
        let target = template(&format!(
            "SELECT 1 FROM \"{TARGET}\".\"{}\".\"{}\" AS \"{}\"",
            table.schema.replace('"', "\"\""),
            table.name.replace('"', "\"\""),
            shown.replace('"', "\"\""),
        ))?;
        if let SetExpr::Select(mut select) = *target.body
            && let Some(TableWithJoins { relation: TableFactor::Table { name: new, alias: as_new, .. }, .. }) =
                select.from.pop()
        {
            *name = new;
            *alias = as_new;
        }
        self.tables.push(Found { table, alias: shown, nullable, lock: None });
        Ok(None)
    }
}

/// Marks the tables that a clause locks.
fn apply(clause: &LockClause, tables: &mut [Found], others: &[Other]) -> Result<(), SqlError> {
    let kind = clause::shown(clause);
    let policy = clause::policy(clause);
    let lock = |found: &mut Found| {
        if found.nullable {
            return Err(SqlError::unsupported(format!(
                "{kind} cannot be applied to the nullable side of an outer join"
            )));
        }
        found.lock = found.lock.max(Some(policy));
        Ok(())
    };
    let Some(name) = clause::of(clause)? else {
        if let Some(other) = others.iter().find(|other| other.has_rows) {
            return Err(SqlError::unsupported(format!("{kind} of {} in FROM is not supported", other.what))
                .with_hint("Name the tables to be locked: FOR UPDATE OF."));
        }
        return tables.iter_mut().try_for_each(lock);
    };
    if let Some(found) = tables.iter_mut().find(|found| found.alias == name) {
        return lock(found);
    }
    Err(match others.iter().find(|other| other.name == name) {
        Some(other) => SqlError::unsupported(format!("{kind} cannot be applied to {}", other.what)),
        None => SqlError::new("42P01", format!("relation \"{name}\" in {kind} clause not found in FROM clause")),
    })
}
