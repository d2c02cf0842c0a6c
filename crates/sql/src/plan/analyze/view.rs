//! Views in queries: a view's name stands for its query, whose names mean what they meant when the view was made.
//!
//! What they mean is kept in the view's definition ([`resurgam_engine::View`]): while the query of a view is analysed, names of
//! relations are looked for there and nowhere else, but for those of the system. So a new name of a table or of a column,
//! or a column that was added later, changes nothing, and no `search_path` has a say in it.
//!
//! For a view that is being made, analysis notes what its names mean ([`Seen`]).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Ident, Statement, TableAlias};
use resurgam_engine::{SeenColumn, Table, ViewRelation, is_hidden};

use super::bound::{Relation, Type};
use super::expr::Clause;
use super::from::From;
use super::scope::{Item, Scope};
use super::{Analyzed, Analyzer, OutputColumn, Result};
use crate::exec::row_rule::barrier_mark;
use crate::exec::table::EngineTable;
use crate::parse::depth::too_deep;
use crate::parse::read::parse_known;
use crate::pg::catalog::relation_oid;
use crate::pg::policies::Command;
use crate::pg::search_path::PUBLIC;
use crate::pg::types;
use crate::plan::needs::access_of;
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// Views within each other, as many as subqueries: plans are as deep. (PostgreSQL ends where its stack does.)
const LEVELS_MAX: usize = 32;
/// Views that one statement may stand for, as often as it names them: two of two of two and so on are many.
const EXPANDED_MAX: usize = 2000;

/// What analysis knows of views.
#[derive(Default)]
pub(super) struct Views {
    /// Those whose queries are being analysed, innermost last.
    within: Vec<Arc<Table>>,
    /// Constants mean the same in all sessions, or are refused.
    pub(super) fixed: bool,
    /// Tables whose policies are being analysed.
    policies: Vec<u32>,
    /// Views and bodies of functions around, beside those.
    levels: usize,
    /// How many were.
    expanded: usize,
    /// The query is that of a view to be made.
    pub(super) seen: Option<Seen>,
}

/// What is around the body of a function.
pub(super) struct Outside {
    within: Vec<Arc<Table>>,
    seen: Option<Seen>,
}

/// What the names of a view's query mean.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub relations: Vec<ViewRelation>,
    /// Which of them qualifies columns by that name in the plan.
    qualifiers: HashMap<TableReference, usize>,
    /// What `*` stands for, by the entry's place in memory.
    pub stars: HashMap<usize, Vec<ast::Expr>>,
    /// Schemas that names without one were found in, by the name's place in memory.
    pub schemas: HashMap<usize, String>,
    /// Functions of users that calls mean, by the place in memory of their names.
    pub functions: HashMap<usize, u32>,
}

/// The query of a view.
///
/// # Errors
/// `XX000` for what no view can have.
pub(crate) fn view_query(sql: &str) -> std::result::Result<Box<ast::Query>, SqlError> {
    let mut statements = parse_known(sql)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => Ok(query),
        _ => Err(SqlError::internal("a view without a query")),
    }
}

/// Analyses the query of a view that is being made; `stored`: as it is kept; `fixed`: no constant of it may mean something
/// else in another session or at another time.
///
/// # Errors
/// As [`super::query`].
pub(crate) fn query_of_view(
    names: &Names<'_>,
    query: &ast::Query,
    text: &str,
    stored: bool,
    fixed: bool,
) -> std::result::Result<(Analyzed, Seen), SqlError> {
    let mut params = ParamTypes::new(0, &[]);
    let (analyzed, mut seen) = super::collate::analysed(names, text, &mut params, |analyzer| {
        analyzer.views.seen = Some(Seen::default());
        analyzer.stored = stored;
        analyzer.views.fixed = fixed;
        let analyzed = analyzer.query(query)?;
        let mut seen = analyzer.views.seen.take().unwrap_or_default();
        seen.functions = std::mem::take(&mut analyzer.calls.resolved);
        Ok((analyzed, seen))
    })?;
    seen.note_used(&analyzed.plan).map_err(|error| crate::pg::errors::from_datafusion(error, ""))?;
    Ok((analyzed, seen))
}

impl Seen {
    fn note(&mut self, entry: &Table, schema: &str, name: &str, qualifier: TableReference) {
        let known = self.relations.iter().position(|relation| relation.schema == schema && relation.name == name);
        let at = known.unwrap_or_else(|| {
            let columns = match &entry.view {
                Some(view) => view.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>(),
                None => entry.columns.iter().map(|column| column.name.clone()).collect(),
            };
            let columns = columns.into_iter().enumerate().filter(|(_, name)| !is_hidden(name));
            let columns = columns.map(|(at, name)| SeenColumn { name, at, used: false });
            let (schema, name) = (schema.to_owned(), name.to_owned());
            self.relations.push(ViewRelation { id: entry.id, schema, name, columns: columns.collect() });
            self.relations.len() - 1
        });
        self.qualifiers.insert(qualifier, at);
    }

    /// Marks the columns that the plan reads.
    fn note_used(&mut self, plan: &LogicalPlan) -> datafusion::common::Result<()> {
        let Self { relations, qualifiers, .. } = self;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr
                        && let Some(at) = column.relation.as_ref().and_then(|relation| qualifiers.get(relation))
                        && let Some(seen) = relations[*at].columns.iter_mut().find(|seen| seen.name == column.name)
                    {
                        seen.used = true;
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(())
    }
}

impl Analyzer<'_> {
    /// A relation of the user's under a name; `None` if there is none here. `parts` are the name's.
    pub(super) fn user_relation(&mut self, parts: &[String], alias: Option<&TableAlias>) -> Result<Option<From>> {
        let (schema, name) = match parts {
            // Of a name that was found the schema is known, and what views keep has it unless it is this one.
            [name] => (PUBLIC, name.as_str()),
            [schema, name] => (schema.as_str(), name.as_str()),
            _ => return Ok(None),
        };
        if let Some(within) = self.views.within.last().cloned() {
            let relations = within.view.iter().flat_map(|view| &view.relations);
            let Some(relation) = relations.into_iter().find(|known| known.schema == schema && known.name == name)
            else {
                return Ok(None);
            };
            if let Some(table) = self.names.txn.table_by_id(relation.id).map_err(SqlError::from)? {
                return self.table_of_view(&table, relation, alias).map(Some);
            }
            return match self.names.txn.view_by_id(relation.id).map_err(SqlError::from)? {
                Some(view) => self.view_item(&view, name, Some(relation), alias).map(Some),
                None => {
                    let message = format!("view \"{}\" reads relation \"{name}\", which is gone", within.name);
                    Err(SqlError::internal(message).into())
                }
            };
        }
        if parts.len() == 1 {
            return Ok(None);
        }
        match self.names.txn.view_named(schema, name).map_err(SqlError::from)? {
            Some(view) => self.view_item(&view, name, None, alias).map(Some),
            None if self.names.txn.sequence_named(schema, name).map_err(SqlError::from)?.is_some() => {
                Err(SqlError::unsupported("a sequence in FROM is not supported").into())
            }
            None => Ok(None),
        }
    }

    /// From here on names of relations are those of a view's query.
    pub(super) fn enter_view(&mut self, view: &Arc<Table>) {
        self.views.within.push(Arc::clone(view));
    }
    pub(super) fn leave_view(&mut self) {
        self.views.within.pop();
    }

    /// From here on names of relations are those of a policy's conditions.
    pub(super) fn enter_policy(&mut self, table: u32, policy: &Arc<Table>) {
        self.views.policies.push(table);
        self.views.within.push(Arc::clone(policy));
    }
    pub(super) fn leave_policy(&mut self) {
        self.views.policies.pop();
        self.views.within.pop();
    }
    pub(super) fn is_within_policy_of(&self, table: u32) -> bool {
        self.views.policies.contains(&table)
    }

    /// From here on names are those of something that is in no view, or in what `instead` stands for: the body of a function.
    pub(super) fn leave_views(&mut self, instead: Option<Arc<Table>>) -> Outside {
        let seen = self.views.seen.take();
        let within = std::mem::replace(&mut self.views.within, instead.into_iter().collect());
        self.views.levels += within.len() + 1;
        Outside { within, seen }
    }
    pub(super) fn enter_views(&mut self, outside: Outside) {
        self.views.levels -= outside.within.len() + 1;
        (self.views.within, self.views.seen) = (outside.within, outside.seen);
    }

    /// How many views and bodies of functions are around.
    pub(super) fn levels(&self) -> usize {
        self.views.levels + self.views.within.len()
    }

    /// The view whose query is being analysed.
    pub(super) fn innermost_view(&self) -> Option<&Arc<Table>> {
        self.views.within.last()
    }

    /// Whether names of relations are those of a view's query.
    pub(super) fn is_within_view(&self) -> bool {
        !self.views.within.is_empty()
    }

    /// Whether what is analysed is the query of a view that is being made.
    pub(super) fn is_making_view(&self) -> bool {
        self.views.seen.is_some()
    }

    /// A relation was met in the query of a view that is being made, outside of other views.
    pub(super) fn note_relation(&mut self, entry: &Table, qualifier: &str) {
        if self.views.within.is_empty()
            && let Some(seen) = &mut self.views.seen
        {
            seen.note(entry, &entry.schema, &entry.name, TableReference::bare(qualifier));
        }
    }

    /// A name without a schema was met, which is that of a relation in `schema`.
    pub(super) fn note_schema(&mut self, name: &ast::ObjectName, schema: &str) {
        if let Some(seen) = &mut self.views.seen {
            seen.schemas.insert(std::ptr::from_ref(name) as usize, schema.to_owned());
        }
    }

    /// `*` was met; `columns` are what it stands for.
    pub(super) fn note_star(
        &mut self,
        item: &ast::SelectItem,
        columns: impl Iterator<Item = (Option<String>, String)>,
    ) {
        if !self.views.within.is_empty() {
            return;
        }
        if let Some(seen) = &mut self.views.seen {
            let quoted = |name: String| quoted_ident(&name);
            let exprs = columns.map(|(qualifier, name)| match qualifier {
                Some(qualifier) => ast::Expr::CompoundIdentifier(vec![quoted(qualifier), quoted(name)]),
                None => ast::Expr::Identifier(quoted(name)),
            });
            seen.stars.insert(std::ptr::from_ref(item) as usize, exprs.collect());
        }
    }

    /// A table that the query of a view names, with the columns and names that it had then.
    fn table_of_view(
        &mut self,
        table: &Arc<Table>,
        relation: &ViewRelation,
        alias: Option<&TableAlias>,
    ) -> Result<From> {
        let shown = alias.map_or_else(|| relation.name.clone(), |alias| super::scope::folded(&alias.name));
        self.see_table(table);
        let source = provider_as_source(Arc::new(EngineTable::new(Arc::clone(table), false)));
        let fields: Vec<(String, Type)> = source
            .schema()
            .fields()
            .iter()
            .map(|f| (f.name().clone(), Type { oid: types::field_oid(f), typmod: types::field_typmod(f) }))
            .collect();
        let qualifier = self.qualifier(&shown);
        let columns = table.columns.iter().map(|column| column.name.clone()).collect();
        self.seek(table, &qualifier, columns, false);
        // The name that the plan shows is the table's own where it can be.
        let scan = LogicalPlanBuilder::scan(TableReference::bare(table.name.clone()), source, None)?;
        let plan = match qualifier == table.name {
            true => scan.build()?,
            false => scan.alias(TableReference::bare(qualifier))?.build()?,
        };
        let mut all = Relation::of_plan(plan, fields);
        all.plan = self.rows_seen(table, all.plan, self.reader(), &all.columns, &[Command::Select])?;
        let mut columns = Vec::with_capacity(relation.columns.len());
        for seen in &relation.columns {
            let Some(column) = all.columns.get(seen.at) else {
                return Err(SqlError::internal(format!("a view reads a column of {} that is gone", table.name)).into());
            };
            columns.push(super::bound::Column { name: seen.name.clone(), bound: column.bound.clone() });
        }
        // Positions in the table's definition are positions here, or it is not known as that table.
        let alike = relation.columns.iter().enumerate().all(|(at, seen)| at == seen.at);
        if let Some(alias) = alias {
            self.rename(&mut columns, alias)?;
        }
        let item = Item {
            name: Some(shown),
            schema: alias.is_none().then(|| relation.schema.clone()),
            columns,
            by_name: true,
            by_column: true,
            table: alike.then(|| Arc::clone(table)),
            oid: relation_oid(table.id),
            of_join: false,
        };
        Ok(From { plan: all.plan, items: vec![item] })
    }

    /// A view as a FROM item, under `name` unless there is an alias. `seen`: as the query of another view sees it.
    fn view_item(
        &mut self,
        view: &Arc<Table>,
        name: &str,
        seen: Option<&ViewRelation>,
        alias: Option<&TableAlias>,
    ) -> Result<From> {
        let place = self.sought_so_far();
        let mut relation = self.view_rows(view)?;
        if let Some(seen) = seen {
            let mut columns = Vec::with_capacity(seen.columns.len());
            for column in &seen.columns {
                let Some(found) = relation.columns.get(column.at) else {
                    return Err(
                        SqlError::internal(format!("a view reads a column of {} that is gone", view.name)).into()
                    );
                };
                columns.push(super::bound::Column { name: column.name.clone(), bound: found.bound.clone() });
            }
            // The first ones, all of them in general: views get columns at their ends only.
            let exprs: Vec<Expr> = columns.iter().map(|column| column.bound.expr.clone()).collect();
            if columns.len() < relation.columns.len() {
                relation.plan = LogicalPlanBuilder::from(relation.plan).project(exprs)?.build()?;
            }
            relation.columns = columns;
        }
        let own = TableAlias { explicit: false, name: Ident::with_quote('"', name), columns: vec![], at: None };
        let mut from = self.derived(relation, alias.unwrap_or(&own), &[])?;
        let qualifier = match &from.plan {
            LogicalPlan::SubqueryAlias(alias) => alias.alias.table().to_owned(),
            _ => return Err(SqlError::internal("a view without a name in the plan").into()),
        };
        self.note_relation(view, &qualifier);
        let columns = from.plan.schema().fields().iter().map(|field| field.name().clone()).collect();
        self.seek_view(view, &qualifier, columns, place);
        if let Some(item) = from.items.first_mut() {
            item.oid = relation_oid(view.id);
            super::bound::note_origin(&mut item.columns, item.oid);
            item.schema = alias.is_none().then(|| seen.map_or_else(|| view.schema.clone(), |seen| seen.schema.clone()));
        }
        Ok(from)
    }

    /// The rows of a view, with its columns.
    fn view_rows(&mut self, view: &Arc<Table>) -> Result<Relation> {
        let Some(definition) = &view.view else { return Err(SqlError::internal("not a view").into()) };
        if self.views.within.iter().any(|outer| outer.id == view.id) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
            return Err(SqlError::new("42P17", message).into());
        }
        self.views.expanded += 1;
        if self.levels() >= LEVELS_MAX || self.views.expanded > EXPANDED_MAX {
            return Err(too_deep().into());
        }
        let query = view_query(&definition.sql)?;
        // Its places are in another text.
        let text = std::mem::take(&mut self.text);
        let windows = std::mem::take(&mut self.windows);
        self.views.within.push(Arc::clone(view));
        let scope = Scope::empty();
        let bound = self.nested(|this| this.inside(Clause::From, |this| this.bind_query(&query, &scope.inner(), None)));
        self.views.within.pop();
        (self.text, self.windows) = (text, windows);
        let mut relation = bound?;
        if relation.columns.len() != definition.columns.len() {
            return Err(SqlError::internal(format!("view \"{}\" has other columns than its query", view.name)).into());
        }
        for (column, named) in relation.columns.iter_mut().zip(&definition.columns) {
            let ty = Type { oid: named.oid, typmod: named.typmod };
            if column.bound.ty.oid != ty.oid {
                let message = format!(
                    "column \"{}\" of view \"{}\" is of type {} but its query gives type {}",
                    named.name,
                    view.name,
                    ty.name(),
                    column.bound.ty.name()
                );
                return Err(SqlError::internal(message).into());
            }
            column.name.clone_from(&named.name);
            column.bound.ty = ty;
        }
        if let (true, Some(first)) = (access_of(view).barrier, relation.columns.first()) {
            let mark = barrier_mark(first.bound.expr.clone());
            relation.plan = LogicalPlanBuilder::from(relation.plan).filter(mark)?.build()?;
        }
        Ok(relation)
    }
}

/// A name as an identifier, in quotes if it must be.
pub(super) fn quoted_ident(name: &str) -> Ident {
    match crate::pg::functions::quote_ident(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
}

/// The columns that a view of an analysed query has.
pub(crate) fn output_types(columns: &[OutputColumn]) -> impl Iterator<Item = (&str, u32, i32)> {
    columns.iter().map(|column| (column.name.as_str(), column.ty.oid, column.ty.typmod))
}
