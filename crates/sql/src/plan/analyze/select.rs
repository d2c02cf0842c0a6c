//! One SELECT, in the order in which PostgreSQL works: FROM, select list, WHERE, HAVING, ORDER BY,
//! GROUP BY, DISTINCT.

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::utils::{conjunction, find_window_exprs, split_conjunction_owned};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Distinct, OrderByExpr, Select, SelectItem, SelectItemQualifiedWildcardKind, Spanned,
};

use super::bound::{Bound, Column, Relation};
use super::expr::Clause;
use super::group::Rebase;
use super::scope::{Item, Scope, folded};
use super::sets::has_set;
use super::{Analyzer, Refusal, Result, unknown};
use resurgam_engine::is_hidden;

use crate::naming;
use crate::wire::SqlError;

/// An entry of the select list, or one that ORDER BY or DISTINCT ON added behind it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub name: String,
    pub bound: Bound,
    /// Not part of the result.
    pub is_hidden: bool,
}

/// Names for columns of a projection: each once.
pub(super) struct UniqueNames(std::collections::HashSet<String>);

impl UniqueNames {
    pub(super) fn new() -> Self {
        Self(std::collections::HashSet::new())
    }
    pub(super) fn name(&mut self, wanted: &str) -> String {
        let mut unique = wanted.to_owned();
        let mut n = 1;
        while !self.0.insert(unique.clone()) {
            n += 1;
            unique = format!("{wanted}{}{n}", naming::MARK);
        }
        unique
    }
}

/// `targets` over `plan`, as a relation.
pub(super) fn project(plan: LogicalPlan, targets: &[Target]) -> Result<Relation> {
    let mut names = UniqueNames::new();
    let exprs: Vec<Expr> = targets
        .iter()
        .map(|target| {
            let name = names.name(&target.name);
            match &target.bound.expr {
                Expr::Column(column) if column.name == name => target.bound.expr.clone(),
                expr => expr.clone().alias(name),
            }
        })
        .collect();
    let plan = LogicalPlanBuilder::from(plan).project(exprs)?.build()?;
    let columns = targets
        .iter()
        .enumerate()
        .map(|(at, target)| {
            let (qualifier, field) = plan.schema().qualified_field(at);
            let expr = Expr::Column(datafusion::common::Column::from((qualifier, field)));
            let origin = target.bound.as_it_is();
            Column { name: target.name.clone(), bound: Bound { expr, origin, ..target.bound.clone() } }
        })
        .collect();
    Ok(Relation { plan, columns })
}

/// Whether a group of all rows, which is there although there are no rows, is in it.
pub(super) fn has_whole_group(plan: &LogicalPlan) -> bool {
    let whole = |expr: &Expr| match expr {
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter().any(Vec::is_empty),
        Expr::GroupingSet(_) => true,
        _ => false,
    };
    let found = plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Aggregate(group) => group.group_expr.is_empty() || group.group_expr.iter().any(whole),
            _ => false,
        })
    });
    found.unwrap_or(true)
}

/// `plan` so that no condition gets below its groups: DataFusion takes those without columns for conditions of the
/// rows that are grouped.
pub(super) fn barrier(plan: LogicalPlan) -> Result<LogicalPlan> {
    match has_whole_group(&plan) {
        true => Ok(LogicalPlanBuilder::from(plan).limit(0, Some(i64::MAX as usize))?.build()?),
        false => Ok(plan),
    }
}

/// The rows of `plan` of which a condition is true.
fn filtered(plan: LogicalPlan, condition: Expr, having: bool) -> Result<LogicalPlan> {
    let filter = |plan: LogicalPlan, condition: Expr| {
        let builder = LogicalPlanBuilder::from(plan);
        if having { builder.having(condition)?.build() } else { builder.filter(condition)?.build() }
    };
    let parts = split_conjunction_owned(condition.clone());
    let (of_rows, others): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(Expr::any_column_refs);
    if others.is_empty() || !has_whole_group(&plan) {
        return Ok(filter(plan, condition)?);
    }
    let mut plan = plan;
    if let Some(condition) = conjunction(of_rows) {
        plan = filter(plan, condition)?;
    }
    plan = barrier(plan)?;
    match conjunction(others) {
        Some(condition) => Ok(filter(plan, condition)?),
        None => Ok(plan),
    }
}

fn refuse_foreign_syntax(select: &Select) -> Result<()> {
    if select.into.is_some() {
        return Err(SqlError::unsupported("SELECT ... INTO is not supported").with_hint("Use CREATE TABLE AS.").into());
    }
    let foreign = select.top.is_some()
        || select.exclude.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.qualify.is_some()
        || select.value_table_mode.is_some();
    match foreign {
        true => Err(SqlError::syntax("this form of SELECT is not PostgreSQL's").into()),
        false => Ok(()),
    }
}

/// Columns of a SELECT, hidden ones among them, as in PostgreSQL.
const TARGETS_MAX: usize = 1664;

fn not_too_wide(targets: &[Target]) -> Result<()> {
    if targets.len() <= TARGETS_MAX {
        return Ok(());
    }
    Err(too_wide())
}

fn too_wide() -> Refusal {
    SqlError::new("54011", format!("target lists can have at most {TARGETS_MAX} entries")).into()
}

/// Targets as columns that can be sorted by before they are one.
fn columns_of(targets: &[Target]) -> Vec<Column> {
    targets.iter().map(|target| Column { name: target.name.clone(), bound: target.bound.clone() }).collect()
}

impl Analyzer<'_> {
    /// A SELECT with the ORDER BY of the query that it is the whole of. `scope` has what is outside.
    pub(super) fn bind_select(
        &mut self,
        select: &Select,
        order: &[OrderByExpr],
        scope: &Scope<'_>,
    ) -> Result<Relation> {
        refuse_foreign_syntax(select)?;
        for (at, window) in select.named_window.iter().enumerate() {
            let name = folded(&window.0);
            if select.named_window[..at].iter().any(|other| folded(&other.0) == name) {
                let error = SqlError::new("42P20", format!("window \"{name}\" is already defined"));
                return Err(self.at(error, window.0.span));
            }
        }
        let from = self.bind_from(&select.from, scope)?;
        let here = Scope { items: from.items, outer: scope.outer, unseen: &[], ctes: scope.ctes.clone() };
        self.windows.push(select.named_window.clone());
        let bound = self.select_over(select, order, from.plan, &here);
        self.windows.pop();
        bound
    }

    fn select_over(
        &mut self,
        select: &Select,
        order: &[OrderByExpr],
        mut plan: LogicalPlan,
        scope: &Scope<'_>,
    ) -> Result<Relation> {
        let mut targets = Vec::with_capacity(select.projection.len());
        let listed_around = std::mem::take(&mut self.listed);
        for item in &select.projection {
            self.select_item(item, scope, Clause::SelectList, &mut targets)?;
            not_too_wide(&targets)?;
        }
        if let Some(condition) = &select.selection {
            let condition = self.condition(condition, scope, Clause::Where)?;
            let condition = self.by_stored(condition, scope)?;
            plan = filtered(plan, condition.expr, false)?;
        }
        let mut having = match &select.having {
            Some(condition) => Some(self.condition(condition, scope, Clause::Having)?),
            None => None,
        };
        let sorted = self.sort_clause(order, scope, &mut targets)?;
        not_too_wide(&targets)?;
        if let ast::GroupByExpr::Expressions(exprs, _) = &select.group_by
            && exprs.len() > TARGETS_MAX
        {
            return Err(too_wide());
        }
        let groups = self.group_clause(&select.group_by, scope, &mut targets)?;
        self.listed = listed_around;
        not_too_wide(&targets)?;
        let on = match &select.distinct {
            Some(Distinct::On(exprs)) => Some(self.distinct_on_clause(exprs, scope, &mut targets, &sorted)?),
            _ => None,
        };
        let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
        if is_distinct && targets.iter().any(|target| target.is_hidden) {
            let error = SqlError::new("42P10", "for SELECT DISTINCT, ORDER BY expressions must appear in select list");
            let span = order.iter().map(Spanned::span).next().unwrap_or_else(|| select.span());
            return Err(self.at(error, span));
        }

        // Groups and aggregates.
        let mut exprs: Vec<&mut Expr> = targets.iter_mut().map(|target| &mut target.bound.expr).collect();
        if let Some(having) = &mut having {
            exprs.push(&mut having.expr);
        }
        plan = self.aggregate(plan, groups, exprs, select.having.is_some(), scope)?;
        if let Some(having) = having {
            plan = filtered(plan, having.expr, true)?;
        }
        // Window functions, over what is left of the groups.
        let windows = find_window_exprs(targets.iter().map(|target| &target.bound.expr));
        if !windows.is_empty() {
            let before = plan.schema().fields().len();
            let input = plan;
            plan = LogicalPlanBuilder::window_plan(input, windows.clone())?;
            let _ = before;
            let rebase = Rebase::over(&windows, &plan)?;
            for target in &mut targets {
                rebase.apply(&mut target.bound.expr)?;
            }
        }
        // Sets last, but before what sorts or compares by them.
        let mut is_sorted = false;
        if targets.iter().any(|target| has_set(&target.bound.expr)) {
            let by_sets = sorted.iter().any(|key| has_set(&targets[key.target].bound.expr));
            if !sorted.is_empty() && !by_sets && on.is_some() {
                // PostgreSQL makes their rows after DISTINCT ON has chosen.
                let text = "DISTINCT ON and ORDER BY beside functions that return sets are not supported";
                return Err(SqlError::unsupported(text).into());
            }
            if !sorted.is_empty() && !by_sets && !is_distinct {
                plan = self.sort(plan, &columns_of(&targets), &sorted)?;
                is_sorted = true;
            }
            let mut exprs: Vec<&mut Expr> = targets.iter_mut().map(|target| &mut target.bound.expr).collect();
            plan = self.sets_of(plan, &mut exprs, false, false)?.0;
        }
        // The result, sorted.
        if let Some(on) = on {
            return self.distinct_on(plan, targets, &on, &sorted);
        }
        let visible = targets.iter().filter(|target| !target.is_hidden).count();
        let mut relation = project(plan, &targets)?;
        if is_distinct {
            relation.plan = self.distinct(&relation)?;
        }
        if !sorted.is_empty() && !is_sorted {
            relation.plan = self.sort(relation.plan, &relation.columns, &sorted)?;
        }
        if visible < relation.columns.len() {
            relation = self.first_columns(relation, visible)?;
        }
        Ok(relation)
    }

    /// The first columns of a relation.
    pub(super) fn first_columns(&mut self, relation: Relation, visible: usize) -> Result<Relation> {
        let columns: Vec<Column> = relation.columns.into_iter().take(visible).collect();
        let exprs: Vec<Expr> = columns.iter().map(|column| column.bound.expr.clone()).collect();
        let plan = LogicalPlanBuilder::from(relation.plan).project(exprs)?.build()?;
        Ok(Relation { plan, columns })
    }

    /// An entry of a select list or of RETURNING.
    pub(super) fn select_item(
        &mut self,
        item: &SelectItem,
        scope: &Scope<'_>,
        clause: Clause,
        targets: &mut Vec<Target>,
    ) -> Result<()> {
        let mut push = |name: String, bound: Bound| targets.push(Target { name, bound, is_hidden: false });
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let bound = self.expr(expr, scope, clause)?;
                let name = self.column_name(expr);
                push(name, bound);
            }
            SelectItem::ExprWithAlias { alias, .. } if alias.quote_style == Some('\'') => {
                let error = SqlError::syntax(format!("syntax error at or near \"'{}'\"", alias.value));
                return Err(self.at(error, alias.span));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let bound = self.expr(expr, scope, clause)?;
                push(folded(alias), bound);
            }
            SelectItem::Wildcard(options) => {
                if options.opt_ilike.is_some()
                    || options.opt_exclude.is_some()
                    || options.opt_except.is_some()
                    || options.opt_replace.is_some()
                    || options.opt_rename.is_some()
                {
                    return Err(SqlError::syntax("syntax error behind *").into());
                }
                if let Some(alias) = &options.opt_alias {
                    let error = SqlError::syntax(format!("syntax error at or near \"{alias}\""));
                    return Err(self.at(error, alias.span));
                }
                if scope.items.is_empty() {
                    let error = SqlError::syntax("SELECT * with no tables specified is not valid");
                    return Err(self.at(error, item.span()));
                }
                let seen = scope.items.iter().filter(|item| item.by_column);
                self.note_star(
                    item,
                    seen.flat_map(|item| {
                        let name = item.name.as_ref().filter(|_| item.by_name);
                        let shown = item.columns.iter().filter(|column| !is_hidden(&column.name));
                        shown.map(move |column| (name.cloned(), column.name.clone()))
                    }),
                );
                for column in scope.items.iter().filter(|item| item.by_column).flat_map(|item| &item.columns) {
                    if is_hidden(&column.name) {
                        continue;
                    }
                    self.mark(&column.bound.expr);
                    push(column.name.clone(), column.bound.clone());
                }
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let found = self.item_of(name, scope)?;
                let columns = found.columns.iter().filter(|column| !is_hidden(&column.name));
                self.note_star(item, columns.map(|column| (found.name.clone(), column.name.clone())));
                for column in found.columns.into_iter().filter(|column| !is_hidden(&column.name)) {
                    self.mark(&column.bound.expr);
                    push(column.name, column.bound);
                }
            }
            _ => return unknown("this kind of select list entry"),
        }
        Ok(())
    }

    /// The name of a column that has been given none.
    fn column_name(&self, expr: &ast::Expr) -> String {
        let named = naming::column_name_with(expr, &mut |query| {
            self.subqueries.get(&(std::ptr::from_ref(query) as usize)).cloned()
        });
        named.unwrap_or_else(|| "?column?".to_owned())
    }

    /// The FROM item that `t.*` names.
    pub(super) fn item_of(&self, name: &ast::ObjectName, scope: &Scope<'_>) -> Result<Item> {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        let (schema, relation) = match parts.as_slice() {
            [relation] => (None, relation),
            [schema, relation] => (Some(schema), relation),
            _ => return unknown("this kind of wildcard"),
        };
        let mut next = Some(scope);
        let mut level = 0;
        while let Some(scope) = next {
            let found = scope.items.iter().find(|item| {
                item.by_name
                    && item.name.as_ref() == Some(relation)
                    && schema.is_none_or(|schema| item.schema.as_ref() == Some(schema))
            });
            match found {
                Some(item) if level == 0 => return Ok(item.clone()),
                Some(_) => return unknown("a wildcard of an outer query's table"),
                None => {}
            }
            level += 1;
            next = scope.outer;
        }
        let error = SqlError::new("42P01", format!("missing FROM-clause entry for table \"{relation}\""));
        Err(self.at(error, name.span()))
    }
}
