//! FROM: tables, subqueries, functions, joins.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as PlanColumn, NullEquality, ScalarValue, Spans, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery};
use datafusion::sql::sqlparser::ast::{
    self, Ident, JoinConstraint, JoinOperator, Spanned, TableAlias, TableFactor, TableSampleKind, TableWithJoins,
};
use resurgam_engine::is_hidden;

use super::bound::{Bound, Column, Relation, Type};
use super::chain::connected;
use super::expr::Clause;
use super::scope::{Item, Scope, folded};
use super::select::barrier;
use super::{Analyzer, Result, spliced, unknown};
use crate::exec::table::{KEY_COLUMN, engine_table};
use crate::parse::depth::too_deep;
use crate::parse::spelling::ALIAS;
use crate::pg::catalog::relation_oid;
use crate::pg::policies::Command;
use crate::pg::{running, types};
use crate::plan::planner::TARGET;
use crate::wire::SqlError;

/// What a FROM item, or several joined, bring.
pub(super) struct From {
    pub plan: LogicalPlan,
    pub items: Vec<Item>,
}

pub(super) fn builder(plan: LogicalPlan) -> LogicalPlanBuilder {
    LogicalPlanBuilder::from(plan)
}

/// Whether a plan reads columns of these items, also within its subqueries.
pub(super) fn refers_to(plan: &LogicalPlan, items: &[Item]) -> Result<bool> {
    if items.is_empty() {
        return Ok(false);
    }
    let mut known: HashSet<PlanColumn> = HashSet::new();
    for column in items.iter().flat_map(|item| &item.columns) {
        known.extend(column.bound.expr.column_refs().into_iter().cloned());
    }
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= matches!(expr, Expr::OuterReferenceColumn(_, column) if known.contains(column));
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

/// Whether a plan is run for each row of the items before it.
pub(super) fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        _ => false,
    }
}

/// A plan that is run for each row of the items before it.
pub(super) fn lateral(plan: LogicalPlan) -> LogicalPlan {
    let outer_ref_columns = plan.all_out_ref_exprs();
    LogicalPlan::Subquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() })
}

/// Whether it is one of the words that stand for calls, reserved as they are.
fn is_function_word(name: &ast::ObjectName) -> bool {
    const WORDS: [&str; 10] = [
        "current_catalog",
        "current_date",
        "current_role",
        "current_time",
        "current_timestamp",
        "current_user",
        "localtime",
        "localtimestamp",
        "session_user",
        "user",
    ];
    let [part] = name.0.as_slice() else { return false };
    let plain = part.as_ident().filter(|ident| ident.quote_style.is_none());
    plain.is_some_and(|ident| WORDS.iter().any(|word| ident.value.eq_ignore_ascii_case(word)))
}

/// `0A000`
fn only_tables_sampled() -> SqlError {
    SqlError::unsupported("TABLESAMPLE clause can only be applied to tables and materialized views")
}

/// Two sides joined where a condition over both holds.
pub(super) fn joined(left: LogicalPlan, right: LogicalPlan, kind: JoinType, condition: Expr) -> Result<LogicalPlan> {
    let is_true = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let of_rows = |expr: &Expr| split_conjunction(expr).into_iter().all(|part| part.any_column_refs() || is_true(part));
    // What is run for each row has its condition within.
    let (left, right) = match of_rows(&condition) || is_lateral(&right) {
        true => (left, right),
        false => (barrier(left)?, barrier(right)?),
    };
    Ok(builder(left).join_on(right, kind, Some(condition))?.build()?)
}

/// Items of one FROM: a join of them is a tree as deep as there are items. (PostgreSQL gives up at some thousands.)
const ITEMS_MAX: usize = 2000;

impl Analyzer<'_> {
    /// The whole FROM clause; one row without columns if it is empty.
    pub(super) fn bind_from(&mut self, from: &[TableWithJoins], scope: &Scope<'_>) -> Result<From> {
        let mut all: Option<From> = None;
        for table in from {
            let left: &[Item] = all.as_ref().map_or(&[], |from| &from.items);
            if left.len() >= ITEMS_MAX {
                return Err(too_deep().into());
            }
            let next = self.table_with_joins(table, scope, left)?;
            all = Some(match all {
                None => next,
                Some(mut before) => {
                    self.check_names(&before.items, &next.items)?;
                    // A join within which something refers to the items before it.
                    let plan = match !is_lateral(&next.plan) && refers_to(&next.plan, &before.items)? {
                        true => spliced::spliced(before.plan, next.plan, &before.items)?,
                        false => builder(before.plan).cross_join(next.plan)?.build()?,
                    };
                    before.items.extend(next.items);
                    From { plan, items: before.items }
                }
            });
        }
        match all {
            Some(from) => Ok(from),
            None => Ok(From { plan: LogicalPlanBuilder::empty(true).build()?, items: Vec::new() }),
        }
    }

    /// `42712` for a name that FROM has twice.
    pub(super) fn check_names(&self, left: &[Item], right: &[Item]) -> Result<()> {
        for item in right.iter().filter(|item| item.by_name) {
            let same = |other: &&Item| {
                other.by_name
                    && other.name.is_some()
                    && other.name == item.name
                    && (other.schema == item.schema || other.oid == 0 || item.oid == 0)
            };
            if let (Some(name), Some(_)) = (&item.name, left.iter().find(same)) {
                let error = SqlError::new("42712", format!("table name \"{name}\" specified more than once"));
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn table_with_joins(&mut self, table: &TableWithJoins, scope: &Scope<'_>, before: &[Item]) -> Result<From> {
        let mut left = self.factor(&table.relation, scope, before)?;
        for join in &table.joins {
            if before.len() + left.items.len() >= ITEMS_MAX {
                return Err(too_deep().into());
            }
            let mut visible = before.to_vec();
            visible.extend(left.items.iter().cloned());
            let mut right = self.factor(&join.relation, scope, &visible)?;
            // A join in parentheses, within which something refers to the left side.
            if matches!(right.plan, LogicalPlan::Join(_)) && refers_to(&right.plan, &left.items)? {
                right.plan = lateral(right.plan);
            }
            let is_outer = matches!(
                join.join_operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            );
            if is_outer && refers_to(&right.plan, &left.items)? {
                let error = SqlError::new("42P10", "invalid reference to FROM-clause entry")
                    .with_detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference.");
                return Err(self.at(error, join.relation.span()));
            }
            self.check_names(&left.items, &right.items)?;
            left = self.join(left, right, &join.join_operator, scope, before)?;
        }
        Ok(left)
    }

    fn join(
        &mut self,
        left: From,
        right: From,
        operator: &JoinOperator,
        scope: &Scope<'_>,
        before: &[Item],
    ) -> Result<From> {
        use JoinOperator as J;
        let (kind, constraint) = match operator {
            J::Join(constraint) | J::Inner(constraint) => (JoinType::Inner, constraint),
            J::Left(constraint) | J::LeftOuter(constraint) => (JoinType::Left, constraint),
            J::Right(constraint) | J::RightOuter(constraint) => (JoinType::Right, constraint),
            J::FullOuter(constraint) => (JoinType::Full, constraint),
            J::CrossJoin(JoinConstraint::None) => {
                let plan = builder(left.plan).cross_join(right.plan)?.build()?;
                let items = left.items.into_iter().chain(right.items).collect();
                return Ok(From { plan, items });
            }
            _ => return Err(SqlError::syntax("this kind of join is not PostgreSQL's").into()),
        };
        match constraint {
            JoinConstraint::On(condition) => {
                let items: Vec<Item> = left.items.iter().chain(&right.items).cloned().collect();
                let mut inner = scope.inner();
                inner.outer = scope.outer;
                inner.items = items.clone();
                inner.unseen = before;
                let condition = self.condition(condition, &inner, Clause::JoinOn)?;
                Ok(From { plan: joined(left.plan, right.plan, kind, condition.expr)?, items })
            }
            JoinConstraint::Using(names) => {
                let (mut columns, mut alias) = (Vec::with_capacity(names.len()), None);
                for name in names {
                    match name.0.as_slice() {
                        [part] if part.as_ident().is_some() => columns.extend(part.as_ident().cloned()),
                        [mark, part] if mark.as_ident().is_some_and(|mark| mark.value == ALIAS) => {
                            alias = part.as_ident().map(folded);
                        }
                        _ => return Err(SqlError::syntax("bad column name in USING").into()),
                    }
                }
                self.using(left, right, kind, &columns, alias)
            }
            JoinConstraint::Natural => {
                let names = |items: &[Item]| -> Vec<String> {
                    let seen = items.iter().filter(|item| item.by_column);
                    seen.flat_map(|item| item.columns.iter().map(|c| c.name.clone()))
                        .filter(|name| !is_hidden(name))
                        .collect()
                };
                let right_names = names(&right.items);
                let common: Vec<Ident> = names(&left.items)
                    .into_iter()
                    .filter(|name| right_names.contains(name))
                    .map(|name| Ident::with_quote('"', name))
                    .collect();
                self.using(left, right, kind, &common, None)
            }
            JoinConstraint::None if kind == JoinType::Inner => {
                Err(SqlError::syntax("syntax error: a join needs ON or USING").into())
            }
            JoinConstraint::None => Err(SqlError::syntax("syntax error: a join needs ON or USING").into()),
        }
    }

    /// A join whose columns of one name become one; `alias` is what these are called together, beside the names of the sides.
    fn using(
        &mut self,
        left: From,
        right: From,
        kind: JoinType,
        names: &[Ident],
        alias: Option<String>,
    ) -> Result<From> {
        let mut conditions = Vec::with_capacity(names.len());
        let mut merged: Vec<Column> = Vec::with_capacity(names.len());
        let mut seen: HashSet<String> = HashSet::with_capacity(names.len());
        for ident in names {
            running::check()?;
            let name = folded(ident);
            if seen.contains(&name) {
                let error =
                    SqlError::new("42701", format!("column name \"{name}\" appears more than once in USING clause"));
                return Err(self.at(error, ident.span));
            }
            let side = |items: &[Item], which: &str| -> Result<Bound> {
                let mut found = items
                    .iter()
                    .filter(|item| item.by_column)
                    .flat_map(|item| &item.columns)
                    .filter(|column| column.name == name);
                match (found.next(), found.next()) {
                    (Some(column), None) => Ok(column.bound.clone()),
                    (Some(_), Some(_)) => {
                        let message = format!("common column name \"{name}\" appears more than once in {which} table");
                        Err(self.at(SqlError::new("42702", message), ident.span))
                    }
                    (None, _) => {
                        let message =
                            format!("column \"{name}\" specified in USING clause does not exist in {which} table");
                        Err(self.at(SqlError::new("42703", message), ident.span))
                    }
                }
            };
            let (l, r) = (side(&left.items, "left")?, side(&right.items, "right")?);
            self.mark(&l.expr);
            self.mark(&r.expr);
            let equal = self.binary("=", l.clone(), r.clone(), ident.span)?;
            conditions.push(equal.expr);
            let common = self.common_type(&[&l, &r], "JOIN/USING")?;
            let (l, r) = (self.implicit(l, common)?, self.implicit(r, common)?);
            let bound = match kind {
                JoinType::Right => r,
                JoinType::Full => self.coalesce(vec![l, r], common)?,
                _ => l,
            };
            merged.push(Column { name: name.clone(), bound });
            seen.insert(name);
        }
        // A tree: what walks down it, and asks for types at each step, would go through the square of a chain.
        let condition = (!conditions.is_empty()).then(|| connected(conditions, Operator::And));
        let plan = match condition {
            Some(condition) => builder(left.plan).join_on(right.plan, kind, Some(condition))?.build()?,
            None => {
                let none = (Vec::<PlanColumn>::new(), Vec::<PlanColumn>::new());
                match kind {
                    JoinType::Inner => builder(left.plan).cross_join(right.plan)?.build()?,
                    _ => builder(left.plan)
                        .join_detailed(
                            right.plan,
                            kind,
                            none,
                            Some(datafusion::logical_expr::lit(true)),
                            NullEquality::NullEqualsNothing,
                        )?
                        .build()?,
                }
            }
        };
        let aliased = alias.map(|name| Item {
            name: Some(name),
            schema: None,
            columns: merged.clone(),
            by_name: true,
            by_column: false,
            table: None,
            oid: 0,
            of_join: true,
        });
        if let Some(aliased) = &aliased {
            self.check_names(&left.items, std::slice::from_ref(aliased))?;
            self.check_names(&right.items, std::slice::from_ref(aliased))?;
        }
        // What is seen without a qualifier: the common columns, then the others of each side.
        let mut columns = merged;
        for item in left.items.iter().chain(&right.items).filter(|item| item.by_column) {
            columns.extend(item.columns.iter().filter(|column| !seen.contains(&column.name)).cloned());
        }
        let mut items: Vec<Item> =
            left.items.into_iter().chain(right.items).map(|item| Item { by_column: false, ..item }).collect();
        items.push(Item {
            name: None,
            schema: None,
            columns,
            by_name: false,
            by_column: true,
            table: None,
            oid: 0,
            of_join: true,
        });
        items.extend(aliased);
        Ok(From { plan, items })
    }

    fn factor(&mut self, factor: &TableFactor, scope: &Scope<'_>, before: &[Item]) -> Result<From> {
        match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality, sample: None, .. }
                if is_function_word(name) && !self.is_within_view() =>
            {
                self.function_item(name, &[], *with_ordinality, alias.as_ref(), scope, before)
            }
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                self.named(name, alias.as_ref(), scope)
            }
            TableFactor::Table { sample: Some(kind), name, alias, args: None, .. } => {
                let whole = self.named(name, alias.as_ref(), scope)?;
                for item in &whole.items {
                    if item.table.is_none()
                        && self
                            .names
                            .txn
                            .view_by_id(item.oid.wrapping_sub(relation_oid(0)))
                            .map_err(SqlError::from)?
                            .is_some()
                    {
                        return Err(self.at(only_tables_sampled(), name.span()));
                    }
                }
                let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = kind;
                self.sample(whole, sample)
            }
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                Err(only_tables_sampled().into())
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, sample: None, .. } => {
                self.function_item(name, &args.args, *with_ordinality, alias.as_ref(), scope, before)
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                self.function_item(name, args, *with_ordinality, alias.as_ref(), scope, before)
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
                let args: Vec<ast::FunctionArg> = array_exprs
                    .iter()
                    .map(|array| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array.clone())))
                    .collect();
                let name = ast::ObjectName::from(vec![Ident::with_quote('"', "unnest")]);
                self.function_item(&name, &args, *with_ordinality, alias.as_ref(), scope, before)
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let relation = if *lateral {
                    let mut around = scope.inner();
                    around.outer = scope.outer;
                    around.items = before.to_vec();
                    self.inside(Clause::From, |this| this.bind_query(subquery, &around.inner(), None))?
                } else {
                    // The outer query's columns are seen, its FROM is not.
                    let mut around = scope.without_items();
                    around.unseen = before;
                    self.inside(Clause::From, |this| this.bind_query(subquery, &around.inner(), None))?
                };
                let Some(alias) = alias else {
                    let error = SqlError::syntax("subquery in FROM must have an alias")
                        .with_hint("For example, FROM (SELECT ...) [AS] foo.");
                    return Err(self.at(error, subquery.span()));
                };
                self.derived(relation, alias, if *lateral { before } else { &[] })
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let inner = self.table_with_joins(table_with_joins, scope, before)?;
                match alias {
                    None => Ok(inner),
                    Some(alias) => self.join_alias(inner, alias),
                }
            }
            _ => unknown("this kind of FROM item"),
        }
    }

    /// A table, a view of the system, or a query of WITH.
    fn named(&mut self, name: &ast::ObjectName, alias: Option<&TableAlias>, scope: &Scope<'_>) -> Result<From> {
        let mut parts = Vec::with_capacity(name.0.len());
        for part in &name.0 {
            match part.as_ident() {
                Some(ident) => parts.push(folded(ident)),
                None => return unknown("this kind of name"),
            }
        }
        if let [only] = parts.as_slice()
            && let Some(cte) = scope.cte(only).cloned()
        {
            self.refuse_silent(&cte, name)?;
            return self.cte_item(&cte, alias);
        }
        let qualified = parts.len() > 1 && parts[0] != TARGET;
        // Within a view it is known what names mean.
        if let [only] = parts.as_slice()
            && !self.is_within_view()
            && let Some(schema) = self.lookup().schema_of(only)?
        {
            self.note_schema(name, &schema);
            parts.insert(0, schema);
        }
        if let [database, _, _] = parts.as_slice()
            && database != TARGET
        {
            if crate::pg::user_types::database().as_ref() != Some(database) {
                return Err(self.at(crate::parse::names::cross_database(&parts), name.span()));
            }
            parts.remove(0);
        }
        if let [schema, _] = parts.as_mut_slice()
            && !self.is_within_view()
        {
            *schema = self.lookup().reachable(schema)?;
        }
        let reference = match parts.as_slice() {
            [table] => TableReference::bare(table.clone()),
            [schema, table] => TableReference::partial(schema.clone(), table.clone()),
            [target, schema, table] => TableReference::full(target.clone(), schema.clone(), table.clone()),
            _ => {
                let error = SqlError::syntax(format!("improper relation name (too many dotted names): {name}"));
                return Err(self.at(error, name.span()));
            }
        };
        if self.is_within_view()
            && let Some(found) = self.user_relation(&parts, alias)?
        {
            return Ok(found);
        }
        let source = match self.names.get_table_source(reference.clone()) {
            Ok(source) => source,
            Err(error) => {
                if let Some(found) = self.user_relation(&parts, alias)? {
                    return Ok(found);
                }
                let error = crate::pg::errors::from_datafusion(error, "");
                return Err(self.at(error, name.span()));
            }
        };
        let table = engine_table(&source).map(|(table, _)| table);
        table.iter().for_each(|table| self.see_table(table));
        if self.is_within_view() && table.is_some() {
            return Err(SqlError::internal(format!("a view reads relation \"{name}\", which it does not know")).into());
        }
        // Neither a table nor one of the system's.
        let is_sequence = table.is_none()
            && match parts.as_slice() {
                [name] => crate::pg::catalog::system_relation("pg_catalog", name).is_none(),
                [schema, name] => crate::pg::catalog::system_relation(schema, name).is_none(),
                _ => false,
            };
        if is_sequence && self.is_making_view() {
            return Err(SqlError::unsupported("a view over a sequence is not supported").into());
        }
        let schema = match (&table, parts.as_slice()) {
            (Some(table), _) => Some(table.schema.clone()),
            (None, [.., schema, _]) => Some(schema.clone()),
            _ if is_sequence => Some("public".to_owned()),
            _ => Some("pg_catalog".to_owned()),
        };
        let own = parts.last().cloned().unwrap_or_default();
        let (shown, schema) = match alias {
            // Tables of locking queries have their own names for aliases.
            Some(alias) if parts[0] == TARGET && folded(&alias.name) == own => (own.clone(), schema),
            Some(alias) => (folded(&alias.name), None),
            None => (own.clone(), schema),
        };
        let qualifier = self.qualifier(&shown);
        if let Some(table) = &table {
            self.note_relation(table, &qualifier);
            let columns = table.columns.iter().map(|column| column.name.clone()).collect();
            self.seek(table, &qualifier, columns, qualified);
        } else {
            self.seek_other(&parts, &qualifier, is_sequence, qualified)?;
        }
        let oid = match &table {
            Some(table) => relation_oid(table.id),
            None => crate::pg::catalog::system_relation("pg_catalog", &own).map_or(0, |system| system.oid),
        };
        let mut fields: Vec<(String, Type)> = Vec::with_capacity(source.schema().fields().len());
        for field in source.schema().fields() {
            fields.push((
                field.name().clone(),
                Type { oid: types::field_oid(field), typmod: types::field_typmod(field) },
            ));
        }
        let is_computed = table.is_none() && source_as_provider(&source).is_err();
        if is_computed {
            return unknown("this kind of relation");
        }
        // The name that the plan shows is the table's own where it can be.
        let scan = LogicalPlanBuilder::scan(TableReference::bare(own.clone()), source, None)?;
        let plan =
            if qualifier == own { scan.build()? } else { scan.alias(TableReference::bare(qualifier))?.build()? };
        let mut relation = Relation::of_plan(plan, fields);
        relation.note_origin(oid);
        let is_locked = parts.len() == 3;
        if let Some(table) = &table {
            let (reader, columns) = (self.reader(), relation.columns.as_slice());
            let commands: &[Command] = if is_locked { &[Command::Select, Command::Update] } else { &[Command::Select] };
            relation.plan = self.rows_seen(table, relation.plan, reader, columns, commands)?;
        }
        relation.columns.retain(|column| column.name != KEY_COLUMN || is_locked);
        if let Some(alias) = alias {
            self.rename(&mut relation.columns, alias)?;
        }
        let item = Item {
            name: Some(shown),
            schema,
            columns: relation.columns,
            by_name: true,
            by_column: true,
            table,
            oid,
            of_join: false,
        };
        Ok(From { plan: relation.plan, items: vec![item] })
    }

    fn cte_item(&mut self, cte: &super::scope::Cte, alias: Option<&TableAlias>) -> Result<From> {
        self.once.note(cte);
        let own = TableAlias { explicit: false, name: Ident::with_quote('"', &cte.name), columns: vec![], at: None };
        self.derived(cte.relation.clone(), alias.unwrap_or(&own), &[])
    }

    /// `(a JOIN b …) AS alias`: its columns are seen under that name alone.
    fn join_alias(&mut self, join: From, alias: &TableAlias) -> Result<From> {
        let mut columns: Vec<Column> =
            join.items.iter().filter(|item| item.by_column).flat_map(|item| item.columns.iter().cloned()).collect();
        self.rename(&mut columns, alias)?;
        let mut items: Vec<Item> =
            join.items.into_iter().map(|item| Item { by_name: false, by_column: false, ..item }).collect();
        items.push(Item {
            name: Some(folded(&alias.name)),
            schema: None,
            columns,
            by_name: true,
            by_column: true,
            table: None,
            oid: 0,
            of_join: true,
        });
        Ok(From { plan: join.plan, items })
    }

    /// New names for columns, as `t (a, b)` gives them.
    pub(super) fn rename(&self, columns: &mut [Column], alias: &TableAlias) -> Result<()> {
        let visible = columns.iter().filter(|column| !is_hidden(&column.name)).count();
        if alias.columns.len() > visible {
            let error = SqlError::new(
                "42P10",
                format!(
                    "table \"{}\" has {} columns available but {} columns specified",
                    folded(&alias.name),
                    visible,
                    alias.columns.len()
                ),
            );
            return Err(self.at(error, alias.name.span));
        }
        for (column, new) in columns.iter_mut().filter(|column| !is_hidden(&column.name)).zip(&alias.columns) {
            column.name = folded(&new.name);
        }
        Ok(())
    }

    /// A relation as a FROM item of that name. It may refer to the items `before` it.
    pub(super) fn derived(&mut self, relation: Relation, alias: &TableAlias, before: &[Item]) -> Result<From> {
        let shown = folded(&alias.name);
        let qualifier = TableReference::bare(self.qualifier(&shown));
        let names: Vec<(String, Type)> =
            relation.columns.iter().map(|column| (column.name.clone(), column.bound.ty)).collect();
        let plan = match refers_to(&relation.plan, before)? {
            true => builder(lateral(relation.plan)).alias(qualifier)?.build()?,
            false => builder(relation.plan).alias(qualifier)?.build()?,
        };
        let origins: Vec<_> = relation.columns.iter().map(|column| column.bound.as_it_is()).collect();
        let mut relation = Relation::of_plan(plan, names);
        for (column, origin) in relation.columns.iter_mut().zip(origins) {
            column.bound.origin = origin;
        }
        self.rename(&mut relation.columns, alias)?;
        let item = Item {
            name: Some(shown),
            schema: None,
            columns: relation.columns,
            by_name: true,
            by_column: true,
            table: None,
            oid: 0,
            of_join: false,
        };
        Ok(From { plan: relation.plan, items: vec![item] })
    }
}
