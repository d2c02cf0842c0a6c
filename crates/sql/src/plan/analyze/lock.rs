//! Queries with a locking clause.
//!
//! Such a query is planned by itself, with the keys of its tables' rows behind its columns, and run before
//! the statement that it stands in, which reads the rows that it locked ([`crate::plan::locking`]).

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Ident, JoinConstraint, JoinOperator, LimitClause, LockClause, ObjectName, Query, SelectItem, SetExpr,
    TableAlias, TableFactor, TableWithJoins,
};
use resurgam_engine::Table;

use super::bound::Relation;
use super::scope::{Scope, folded};
use super::{Analyzer, Refusal, Result, unknown};
use crate::exec::cell::placeholder_index;
use crate::exec::locked_rows::locked_rows;
use crate::exec::table::KEY_COLUMN;
use crate::pg::catalog::is_system_schema;
use crate::plan::locking::{self, Count, Locked, Taking};
use crate::plan::planner::{Names, TARGET};
use crate::plan::statement::template;
use crate::wire::SqlError;

/// An analysed query with a locking clause.
#[derive(Debug)]
pub(crate) struct Locking {
    /// Without LIMIT: its columns, `c0` and so on, then the key of each of `tables`.
    pub plan: LogicalPlan,
    pub schema: SchemaRef,
    pub tables: Vec<Locked>,
    pub limit: Option<Count>,
    pub offset: Option<Count>,
    /// The keys are kept beside the rows, and `schema` has them.
    pub keyed: bool,
}

impl Analyzer<'_> {
    /// A query with a locking clause: the rows that it will have locked.
    ///
    /// # Errors
    /// `0A000` for queries that cannot be locked, worded as PostgreSQL's; those of the query.
    pub(super) fn locking_query(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Relation> {
        let before = self.locks.len();
        let keyed = std::mem::take(&mut self.keeps_keys);
        // It runs before the rows around it are there.
        let alone = Scope { items: Vec::new(), outer: None, unseen: &[], ctes: scope.ctes.clone() };
        match self.locking_query_alone(query, &alone, keyed) {
            Err(Refusal::Error(error)) if matches!(error.sqlstate.as_str(), "42703" | "42P01") => {
                self.locks.truncate(before);
                match self.locking_query_alone(query, scope, false) {
                    Ok(_) => unknown("FOR UPDATE/SHARE of a query that depends on the query around it"),
                    Err(_) => Err(Refusal::Error(error)),
                }
            }
            done => done,
        }
    }

    fn locking_query_alone(&mut self, query: &Query, scope: &Scope<'_>, keyed: bool) -> Result<Relation> {
        let mut query = query.clone();
        let clauses = std::mem::take(&mut query.locks);
        let Some(first) = clauses.first() else { return unknown("a query without a locking clause") };
        let (limit, offset) = match query.limit_clause.take() {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit, offset.map(|offset| offset.value))
            }
            Some(_) => return Err(SqlError::syntax("this form of LIMIT is not supported").into()),
        };
        let one = ast::Expr::Value(ast::Value::Number("1".to_owned(), false).into());
        let limit = match query.fetch.take() {
            None => limit,
            Some(fetch) if fetch.with_ties || fetch.percent => {
                return Err(SqlError::unsupported("FETCH FIRST … WITH TIES is not supported").into());
            }
            Some(_) if limit.is_some() => return Err(SqlError::syntax("multiple LIMIT clauses not allowed").into()),
            Some(fetch) => Some(fetch.quantity.unwrap_or(one)),
        };
        let own: HashSet<String> = query
            .with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .map(|cte| folded(&cte.alias.name))
            .chain(scope.ctes.iter().map(|cte| cte.name.clone()))
            .collect();
        let select = locking::select_of(self.names, &mut query, first)?;
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
                let text = format!("{} of a table that is joined with itself is not supported", locking::shown(first));
                return Err(SqlError::unsupported(text).into());
            }
            let key = vec![Ident::with_quote('"', &found.alias), Ident::with_quote('"', KEY_COLUMN)];
            select.projection.push(SelectItem::ExprWithAlias {
                expr: ast::Expr::CompoundIdentifier(key),
                alias: Ident::with_quote('"', format!("{KEY_COLUMN}{at}")),
            });
        }
        let limit = self.lock_count(limit.as_ref(), "LIMIT", scope)?;
        let offset = self.lock_count(offset.as_ref(), "OFFSET", scope)?;
        let since = self.sought_so_far();
        let relation = self.bind_query(&query, scope, None)?;
        for found in tables.iter().filter(|found| found.lock.is_some()) {
            self.seek_lock(since, found.table.id);
        }
        let width = relation.columns.len();
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        let (mut fields, mut kept): (Vec<FieldRef>, Vec<FieldRef>) = (Vec::new(), Vec::new());
        for (i, column) in relation.columns.into_iter().enumerate() {
            if i + tables.len() >= width {
                let name = format!("k{}", i + tables.len() - width);
                kept.push(Arc::new(Field::new(&name, column.bound.data.clone(), true)));
                exprs.push(column.bound.expr.alias(name));
            } else if column.name != KEY_COLUMN {
                // The others are the keys that `*` stands for, too.
                let name = format!("c{}", columns.len());
                fields.push(Arc::new(column.bound.ty.field(&name, &column.bound.data)));
                exprs.push(column.bound.expr.alias(name));
                columns.push((column.name, column.bound.ty));
            }
        }
        if columns.is_empty() {
            return Err(SqlError::unsupported("a query without columns cannot be locked").into());
        }
        let plan = LogicalPlanBuilder::from(relation.plan).project(exprs)?.build()?;
        if keyed {
            fields.extend(kept);
        }
        let schema = Arc::new(Schema::new(fields));
        let number = self.locks.len();
        let tables = tables.into_iter().map(|found| Locked { table: found.table, lock: found.lock }).collect();
        self.locks.push(Locking { plan, schema: Arc::clone(&schema), tables, limit, offset, keyed });
        // In the place of the query stand its rows.
        let name = self.qualifier("locked");
        self.collations.locked.insert(name.clone(), number);
        let name = TableReference::bare(name);
        let source = provider_as_source(locked_rows(number, schema));
        let rows = LogicalPlanBuilder::scan(name, source, None)?.build()?;
        Ok(Relation::of_plan(rows, columns))
    }

    fn lock_count(&mut self, expr: Option<&ast::Expr>, clause: &str, scope: &Scope<'_>) -> Result<Option<Count>> {
        Ok(match self.limit_count(expr, clause, scope)? {
            None => None,
            Some(Expr::Literal(ScalarValue::Int64(count), _)) => Some(Count::Given(count)),
            Some(Expr::Placeholder(placeholder)) => match placeholder_index(&placeholder.id) {
                Some(index) => Some(Count::Param(index)),
                None => return unknown("this parameter in LIMIT"),
            },
            Some(_) => return unknown(format!("an expression with parameters in {clause} of a locking query")),
        })
    }
}

/// A table in FROM.
struct Found {
    table: Arc<Table>,
    alias: String,
    /// On the nullable side of an outer join.
    nullable: bool,
    lock: Option<Taking>,
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
                    locking::shown(self.clause)
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
            [only] => self.names.lookup().schema_of(only)?.is_some_and(|schema| is_system_schema(&schema)),
            [.., schema, _] => is_system_schema(schema),
            [] => false,
        };
        if system {
            return Ok(Some((shown, "a system catalog", true)));
        }
        let (schema, wanted) = self.names.lookup().place(name)?;
        if self.names.txn.view_named(&schema, &wanted)?.is_some() {
            return Ok(Some((shown, "a view", true)));
        }
        let table = self.names.target(name)?;
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(SqlError::unsupported(format!(
                "{} of a table with other names for its columns is not supported",
                locking::shown(self.clause)
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
    let kind = locking::shown(clause);
    let taking = Taking::of(clause);
    let lock = |found: &mut Found| {
        if found.nullable {
            return Err(SqlError::unsupported(format!(
                "{kind} cannot be applied to the nullable side of an outer join"
            )));
        }
        found.lock = Some(found.lock.map_or(taking, |before| before.and(taking)));
        Ok(())
    };
    let Some(name) = locking::of(clause)? else {
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
