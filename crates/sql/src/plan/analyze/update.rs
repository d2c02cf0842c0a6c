//! UPDATE and DELETE: queries over the target, with its rows' keys.

use std::collections::HashSet;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Delete, FromTable, ObjectName, TableFactor, TableWithJoins, Update, UpdateTableFromKind,
};

use super::expr::Clause;
use super::scope::{Scope, folded};
use super::write::{Target, Write, has_volatile, named_columns, named_key, named_others};
use super::{Analyzer, Result};
use crate::parse::current_of::cursor_of;
use crate::pg::policies::Command;
use crate::pg::roles::acl::privilege as p;
use crate::plan::analyze::Op;
use crate::plan::expression::has_subquery;
use crate::wire::SqlError;

fn single_relation(table: &TableWithJoins) -> Result<(&ObjectName, Option<String>)> {
    match &table.relation {
        TableFactor::Table { name, alias, args: None, .. } if table.joins.is_empty() => {
            Ok((name, alias.as_ref().map(|alias| folded(&alias.name))))
        }
        _ => Err(SqlError::syntax("the target of UPDATE or DELETE must be one table").into()),
    }
}

/// The cursor of WHERE CURRENT OF.
fn current_of(condition: Option<&ast::Expr>, is_view: bool) -> Result<Option<String>> {
    match condition.and_then(cursor_of) {
        Some(_) if is_view => Err(SqlError::unsupported("WHERE CURRENT OF on a view is not implemented").into()),
        found => Ok(found.map(str::to_owned)),
    }
}

impl Analyzer<'_> {
    /// Analyses an UPDATE.
    ///
    /// # Errors
    /// Those of its parts, in the order of PostgreSQL's `transformUpdateStmt`.
    pub(super) fn update(&mut self, update: &Update, outer: &Scope<'_>) -> Result<Write> {
        if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() || update.output.is_some() {
            return Err(SqlError::syntax("UPDATE with ORDER BY, LIMIT or OR is not supported").into());
        }
        let (name, alias) = single_relation(&update.table)?;
        let written = self.written(name, Op::Update)?;
        let (target, through) = self.target_of(&written, alias, true, Op::Update)?;
        let table = written.table;
        let from = match &update.from {
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from.as_slice(),
            None => &[],
        };
        let current_of = current_of(update.selection.as_ref(), through.is_some())?;
        let condition = update.selection.as_ref().filter(|_| current_of.is_none());
        let Rows { plan, scope, source, condition } = self.written_rows(&target, from, condition, outer)?;
        let returning = self.returning(update.returning.as_ref(), &target, &scope, &plan)?;
        let mut set = self.set_clause(&table, through.as_ref(), Op::Update, &update.assignments, &scope)?;
        let assigned: Vec<usize> = set.iter().map(|(at, _)| *at).collect();
        self.seek_write(target.sought, p::UPDATE, &assigned);
        let policies = self.policies_of_target(&table, &target)?;
        let plan = self.rows_changed(&table, policies.as_ref(), &target, plan, Command::Update)?;
        let read = set.iter().map(|(_, value)| &value.expr).chain(&condition);
        let source = named_sources(&source, read);
        let values = target.base.iter().enumerate().map(|(at, column)| {
            match set.iter().position(|(changed, _)| *changed == at) {
                Some(nth) => set.swap_remove(nth).1.expr,
                None => column.bound.expr.clone(),
            }
        });
        let mut exprs = named_columns(&table, values);
        exprs.extend(named_others(returning.as_ref()));
        let sources = source.len();
        exprs.extend(source);
        exprs.extend(target.key.clone().map(named_key));
        let plan = LogicalPlanBuilder::from(plan).project(exprs)?.build()?;
        let (asked, rules) = self.rows_written(&table, policies.as_ref(), &target, Command::Update, &plan)?;
        let plan = asked.unwrap_or(plan);
        let checks = through.map(|through| through.checks).unwrap_or_default();
        Ok(Write { assigned, returning, checks, rules, current_of, sources, ..Write::of_rows(Op::Update, table, plan) })
    }

    /// Analyses a DELETE.
    ///
    /// # Errors
    /// Those of its parts, in the order of PostgreSQL's `transformDeleteStmt`.
    pub(super) fn delete(&mut self, delete: &Delete, outer: &Scope<'_>) -> Result<Write> {
        if !delete.order_by.is_empty() || delete.limit.is_some() || !delete.tables.is_empty() || delete.output.is_some()
        {
            return Err(SqlError::syntax("this form of DELETE is not supported").into());
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [relation] = from.as_slice() else {
            return Err(SqlError::syntax("the target of DELETE must be one table").into());
        };
        let (name, alias) = single_relation(relation)?;
        let written = self.written(name, Op::Delete)?;
        let (target, through) = self.target_of(&written, alias, true, Op::Delete)?;
        self.seek_write(target.sought, p::DELETE, &[]);
        let table = written.table;
        let using = delete.using.as_deref().unwrap_or_default();
        let current_of = current_of(delete.selection.as_ref(), through.is_some())?;
        let condition = delete.selection.as_ref().filter(|_| current_of.is_none());
        let Rows { plan, scope, source, condition } = self.written_rows(&target, using, condition, outer)?;
        let returning = self.returning(delete.returning.as_ref(), &target, &scope, &plan)?;
        let policies = self.policies_of_target(&table, &target)?;
        let plan = self.rows_changed(&table, policies.as_ref(), &target, plan, Command::Delete)?;
        // The row as it was is the engine's to tell.
        let mut exprs = named_others(returning.as_ref());
        let source = named_sources(&source, condition.iter());
        let sources = source.len();
        exprs.extend(source);
        exprs.extend(target.key.map(named_key));
        let plan = LogicalPlanBuilder::from(plan).project(exprs)?.build()?;
        Ok(Write { returning, current_of, sources, ..Write::of_rows(Op::Delete, table, plan) })
    }

    /// The rows of the target, joined with what FROM or USING has, that satisfy the condition.
    fn written_rows<'s>(
        &mut self,
        target: &Target,
        from: &[TableWithJoins],
        condition: Option<&ast::Expr>,
        outer: &'s Scope<'s>,
    ) -> Result<Rows<'s>> {
        let mut source = Vec::new();
        let mut items = vec![target.item.clone()];
        let mut plan = target.plan.clone();
        if !from.is_empty() {
            let others = self.bind_from(from, outer)?;
            self.check_names(&items, &others.items)?;
            // What is computed anew may be another row.
            if !has_volatile(&others.plan) {
                source.extend(others.plan.schema().iter().map(|(of, field)| Column::new(of.cloned(), field.name())));
            }
            plan = LogicalPlanBuilder::from(plan).cross_join(others.plan)?.build()?;
            items.extend(others.items);
        }
        let scope = Scope { items, outer: None, unseen: &[], ctes: outer.ctes.clone() };
        let mut filter = None;
        if let Some(condition) = condition {
            let condition = self.condition(condition, &scope, Clause::Where)?;
            let condition = self.by_stored(condition, &scope)?;
            plan = LogicalPlanBuilder::from(plan).filter(condition.expr.clone())?.build()?;
            filter = Some(condition.expr);
        }
        Ok(Rows { plan, scope, source, condition: filter })
    }
}

/// The rows of a target that a statement writes.
struct Rows<'s> {
    plan: LogicalPlan,
    scope: Scope<'s>,
    /// The columns of FROM or USING, if its rows are the same whenever they are asked for.
    source: Vec<Column>,
    condition: Option<Expr>,
}

/// Those of the columns of FROM or USING that tell whether one row of it does to a row of the target what another one does: that are read
/// by `exprs`. A row of the target that others have changed meanwhile is judged with the row that it was joined with.
fn named_sources<'e>(source: &[Column], exprs: impl Iterator<Item = &'e Expr> + Clone) -> Vec<Expr> {
    // A subquery may read any of them.
    let all = exprs.clone().any(has_subquery);
    let read: HashSet<Column> = exprs.flat_map(|expr| expr.column_refs().into_iter().cloned()).collect();
    let kept = source.iter().filter(|column| all || read.contains(*column));
    let named = kept.enumerate().map(|(at, column)| Expr::Column(column.clone()).alias(format!("resurgam$source{at}")));
    named.collect()
}
