//! Views as the catalogs show them: their query as text, and whether rows can be written through them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Ident, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use resurgam_ast::{AstWalk, AstWalkMut};
use resurgam_dialect::{Catalog, Schema};
use resurgam_engine::{Table, View};

use crate::bounded::{Bounded, PARSER_LEVELS_MAX};
use crate::functions::quote_ident;

/// A name as an identifier, in quotes if it must be.
fn ident(name: &str) -> Ident {
    if quote_ident(name) == name { Ident::new(name) } else { Ident::with_quote('"', name) }
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

pub(crate) fn parsed(sql: &str) -> Option<Box<Query>> {
    let tokens = crate::lexer::tokens(sql).ok()?;
    let tokens = crate::keywords::as_postgresql(tokens);
    let dialect = Bounded::new(&tokens);
    let parser = Parser::new(&dialect).with_recursion_limit(PARSER_LEVELS_MAX);
    match parser.with_tokens_with_locations(tokens).parse_statements().ok()?.pop()? {
        ast::Statement::Query(query) => Some(query),
        _ => None,
    }
}

/// What a name in a view's query stands for by now.
struct Renamed {
    /// As the query has it.
    schema: String,
    name: String,
    /// As it is now.
    now: (String, String),
    /// Its name needs its schema.
    qualified: bool,
    /// Names of its columns as the query has them, if one of them is another by now.
    columns: Option<Vec<String>>,
}

/// Puts present names into a query.
struct Reword {
    renamed: Vec<Renamed>,
    /// Names of its WITH queries.
    own: HashSet<String>,
}

impl VisitorMut for Reword {
    type Break = ();
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        let (schema, table) = match parts.as_slice() {
            [table] if self.own.contains(table) => return ControlFlow::Continue(()),
            [table] => ("public", table.as_str()),
            [.., schema, table] => (schema.as_str(), table.as_str()),
            [] => return ControlFlow::Continue(()),
        };
        let found = self.renamed.iter().find(|renamed| renamed.schema == schema && renamed.name == table);
        let Some(found) = found else { return ControlFlow::Continue(()) };
        if found.columns.is_some() || found.name != found.now.1 {
            let own = TableAlias { explicit: true, name: ident(table), columns: Vec::new(), at: None };
            alias.get_or_insert(own);
        }
        if let (Some(columns), Some(alias)) = (&found.columns, alias) {
            // Those that the alias names already keep its names.
            for column in columns.iter().skip(alias.columns.len()) {
                alias.columns.push(TableAliasColumnDef { name: ident(column), data_type: None });
            }
        }
        let (schema, now) = &found.now;
        let parts = if found.qualified { vec![ident(schema), ident(now)] } else { vec![ident(now)] };
        *name = ast::ObjectName::from(parts);
        ControlFlow::Continue(())
    }
    /// A column of a table that is named with its schema: the schema is another one by now, perhaps.
    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && let [schema, table, _] = parts.as_slice()
            && self.renamed.iter().any(|known| known.schema == folded(schema) && known.name == folded(table))
            && self.renamed.iter().filter(|known| known.name == folded(table)).count() == 1
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}

/// Names of the WITH queries of a query, at any depth.
fn with_names(query: &Query) -> HashSet<String> {
    struct Names(HashSet<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(tables.map(|table| folded(&table.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(HashSet::new());
    let _ = query.walk(&mut names);
    names.0
}

/// Whether the name of a relation of a schema alone finds it.
pub(crate) type IsVisible<'a> = &'a dyn Fn(&str, &str) -> bool;

/// A view's query with the names that its relations have now; `relation` knows them by id.
pub(crate) fn present(
    view: &View,
    query: &mut Query,
    is_visible: IsVisible<'_>,
    relation: &dyn Fn(u32) -> Option<std::sync::Arc<Table>>,
) {
    let mut renamed = Vec::new();
    let own = with_names(query);
    for seen in &view.relations {
        let Some(now) = relation(seen.id) else { continue };
        let name_at = |at: usize| match &now.view {
            Some(of) => of.columns.get(at).map(|column| column.name.as_str()),
            None => now.columns.get(at).map(|column| column.name.as_str()),
        };
        let same_columns = seen.columns.iter().all(|column| name_at(column.at) == Some(&column.name));
        renamed.push(Renamed {
            schema: seen.schema.clone(),
            name: seen.name.clone(),
            now: (now.schema.clone(), now.name.clone()),
            qualified: own.contains(&now.name) || !is_visible(&now.schema, &now.name),
            columns: (!same_columns).then(|| seen.columns.iter().map(|column| column.name.clone()).collect()),
        });
    }
    if !renamed.is_empty() {
        let _ = query.walk_mut(&mut Reword { renamed, own });
    }
}

/// `pg_get_viewdef`: text that makes the view anew.
pub fn shown(
    view: &View,
    is_visible: IsVisible<'_>,
    relation: &dyn Fn(u32) -> Option<std::sync::Arc<Table>>,
) -> String {
    let Some(mut query) = parsed(&view.sql) else { return format!(" {};", view.sql) };
    name_columns(view, &mut query);
    present(view, &mut query, is_visible, relation);
    crate::extensions::show_names(&mut query);
    // What the parser has other words for.
    let text = laid_out(&query).replace("resurgam$rows(", "ROWS FROM(").replace("resurgam$variadic(", "VARIADIC (");
    format!(" {text};")
}

/// Gives the view's names to the columns of its query.
fn name_columns(view: &View, query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if select.projection.len() != view.columns.len() {
        return;
    }
    for (item, column) in select.projection.iter_mut().zip(&view.columns) {
        let (expr, named) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = match &*expr {
                    ast::Expr::Identifier(name) => Some(folded(name)),
                    ast::Expr::CompoundIdentifier(names) => names.last().map(folded),
                    _ => None,
                };
                (expr.clone(), name)
            }
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(folded(alias))),
            _ => continue,
        };
        if named.as_ref() != Some(&column.name) {
            *item = SelectItem::ExprWithAlias { expr, alias: ident(&column.name) };
        }
    }
}

/// A query in lines, as PostgreSQL lays out simple ones.
fn laid_out(query: &Query) -> String {
    let SetExpr::Select(select) = query.body.as_ref() else { return query.to_string() };
    let plain = query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && select.distinct.is_none()
        && select.named_window.is_empty()
        && select.having.is_none()
        && matches!(&select.group_by, ast::GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty());
    if !plain {
        return query.to_string();
    }
    let list: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let mut out = format!("SELECT {}", list.join(",\n    "));
    if !select.from.is_empty() {
        let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
        out.push_str(&format!("\n   FROM {}", from.join(",\n    ")));
    }
    if let Some(condition) = &select.selection {
        out.push_str(&format!("\n  WHERE {}", crate::definition::shown(condition)));
    }
    if let Some(order) = &query.order_by {
        out.push_str(&format!("\n  {order}"));
    }
    out
}

/// Why rows cannot be written through a view of that query, as PostgreSQL says it; `None`: they can, as far as the
/// query's form goes.
pub fn why_read_only(query: &Query) -> Option<&'static str> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Some(match query.body.as_ref() {
            SetExpr::SetOperation { .. } => {
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable."
            }
            _ => "Views that do not select from a single table or view are not automatically updatable.",
        });
    };
    if select.distinct.is_some() {
        return Some("Views containing DISTINCT are not automatically updatable.");
    }
    if !matches!(&select.group_by, ast::GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty())
    {
        return Some("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Some("Views containing HAVING are not automatically updatable.");
    }
    if query.with.is_some() {
        return Some("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Some("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let calls = calls_of(&select.projection);
    if calls.aggregate {
        return Some("Views that return aggregate functions are not automatically updatable.");
    }
    if calls.window {
        return Some("Views that return window functions are not automatically updatable.");
    }
    if calls.set {
        return Some("Views that return set-returning functions are not automatically updatable.");
    }
    match base_of(query) {
        Some((_, _, true)) => Some("Views containing TABLESAMPLE are not automatically updatable."),
        Some(_) => None,
        None => Some("Views that do not select from a single table or view are not automatically updatable."),
    }
}

/// The one relation that a query reads, with its alias, and whether it is a sample of it.
pub fn base_of(query: &Query) -> Option<(&ast::ObjectName, Option<&TableAlias>, bool)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    match &from.relation {
        TableFactor::Table { name, alias, args: None, with_ordinality: false, sample, .. } if from.joins.is_empty() => {
            Some((name, alias.as_ref(), sample.is_some()))
        }
        _ => None,
    }
}

#[derive(Default)]
struct Calls {
    aggregate: bool,
    window: bool,
    set: bool,
    /// Subqueries around, whose calls are their own.
    depth: usize,
}

impl Visitor for Calls {
    type Break = ();
    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        if let (ast::Expr::Function(call), 0) = (expr, self.depth)
            && let Some(name) = call.name.0.last().and_then(|part| part.as_ident())
        {
            let name = folded(name);
            let mut known = Catalog::postgres().functions_named(Schema::PgCatalog, &name).peekable();
            if call.over.is_some() {
                self.window = true;
            } else if known.peek().is_some_and(|function| function.kind.letter() == 'a') {
                self.aggregate = true;
            } else if known.any(|function| function.returns_set) {
                self.set = true;
            }
        }
        ControlFlow::Continue(())
    }
}

fn calls_of(list: &[SelectItem]) -> Calls {
    let mut calls = Calls::default();
    for item in list {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.walk(&mut calls);
        }
    }
    calls
}

/// Which columns of a view can be written, as far as its own query goes, and whether rows can be: `(columns, rows)`.
/// What it reads, if it is a view, may say otherwise.
pub fn updatable(view: &View) -> (Vec<bool>, bool) {
    let none = || (vec![false; view.columns.len()], false);
    let Some(query) = parsed(&view.sql) else { return none() };
    if why_read_only(&query).is_some() || view.relations.len() != 1 {
        return none();
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return none() };
    let is_column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            let name = match expr {
                ast::Expr::Identifier(name) => Some(folded(name)),
                ast::Expr::CompoundIdentifier(names) => names.last().map(folded),
                _ => None,
            };
            let seen = view.relations.iter().flat_map(|relation| &relation.columns);
            name.is_some_and(|name| seen.into_iter().any(|column| column.name == name))
        }
        _ => false,
    };
    let columns: Vec<bool> = select.projection.iter().map(is_column).collect();
    if columns.len() == view.columns.len() { (columns, true) } else { none() }
}
