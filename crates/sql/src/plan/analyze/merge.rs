//! MERGE: the rows of a source, each with the row of the target that it matches, and what is done with them.
//!
//! It is one query. Its source is joined with the target, the rows' keys among its columns: by an outer join if
//! anything is inserted, so that a row of the source which matches nothing has no key. Over the join there are, for
//! each row, the number of the clause that takes it ([`ACTION`]), and then the values of the target's columns that
//! this clause gives: cases by that number, so that no other clause's values are computed.
//!
//! The same is made of one row of the source and one of the target ([`Merged::anew`]), for rows that others change
//! while the statement runs.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{
    self, Merge, MergeAction, MergeClauseKind, MergeInsertExpr, MergeInsertKind, Spanned, TableFactor,
};
use resurgam_engine::Table;

use super::bound::{Bound, Type};
use super::expr::Clause;
use super::from::joined;
use super::identity::Overriding;
use super::scope::{Item, Scope, folded};
use super::write::{Target, Write, column_type, named_columns, named_key};
use super::{Analyzer, Result};
use crate::exec::table::KEY_COLUMN;
use crate::parse::merge::{DEFAULT_VALUES, NOTHING};
use crate::pg::roles::acl::privilege as p;
use crate::plan::analyze::Op;
use crate::wire::SqlError;

/// The column with the number of the clause that takes a row, from 1; [`UNTAKEN`] or [`UNTAKEN_UNMATCHED`].
pub(crate) const ACTION: &str = "resurgam$action";
/// No clause takes a row that matches.
const UNTAKEN: i32 = 0;
/// No clause takes a row that does not match.
const UNTAKEN_UNMATCHED: i32 = -1;

/// What a clause does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Nothing,
    Insert,
    Update,
    Delete,
}

/// A WHEN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub is_matched: bool,
    pub does: Does,
}

/// What there is more of a MERGE than its plan.
#[derive(Debug)]
pub(crate) struct Merged {
    pub clauses: Vec<When>,
    /// Values that clauses give to columns.
    pub given: Vec<(usize, Expr)>,
    /// Whether a row of the source and one of the target match.
    condition: Expr,
    key: Expr,
    steps: Steps,
    /// Columns of the target, then of the source, as far as they are read, then the key.
    columns: Vec<(Option<TableReference>, FieldRef)>,
}

/// What is computed for rows of the join.
#[derive(Debug)]
struct Steps {
    /// The number of the clause that takes a row that matches, and one that does not.
    matched: Expr,
    unmatched: Expr,
    /// The columns' values, by the number.
    values: Vec<Expr>,
}

impl Steps {
    /// The values and the number for each row, and then `more`.
    fn over(&self, rows: LogicalPlan, is_matched: Expr, more: Vec<Expr>) -> datafusion::common::Result<LogicalPlan> {
        let mut first: Vec<Expr> = rows.schema().iter().map(|column| Expr::Column(Column::from(column))).collect();
        first.push(either(is_matched, self.matched.clone(), self.unmatched.clone()).alias(ACTION));
        let mut second = self.values.clone();
        second.push(action());
        second.extend(more);
        LogicalPlanBuilder::from(rows).project(first)?.project(second)?.build()
    }
}

impl Merged {
    /// Columns of the rows that [`Merged::anew`] is over.
    pub(crate) fn columns(&self) -> &[(Option<TableReference>, FieldRef)] {
        &self.columns
    }

    /// The values and the number for a row of the source and a row of the target, or none, whose key is NULL.
    pub(crate) fn anew(&self, rows: LogicalPlan) -> datafusion::common::Result<LogicalPlan> {
        let is_matched = either(self.key.clone().is_not_null(), self.condition.clone(), lit(false));
        self.steps.over(rows, is_matched, Vec::new())
    }
}

fn action() -> Expr {
    Expr::Column(Column::from_name(ACTION))
}

/// A case, of which only the branch that is taken is computed.
fn either(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(then))], Some(Box::new(otherwise))))
}

/// A clause as it is analysed.
struct Analysed {
    when: When,
    condition: Option<Expr>,
    /// For INSERT and UPDATE, of all columns.
    values: Option<Vec<Bound>>,
}

/// The number of the first clause of this kind whose condition holds.
fn number(clauses: &[Analysed], is_matched: bool) -> Expr {
    let mut otherwise = lit(if is_matched { UNTAKEN } else { UNTAKEN_UNMATCHED });
    let mut whens = Vec::new();
    for (at, clause) in clauses.iter().enumerate().filter(|(_, clause)| clause.when.is_matched == is_matched) {
        let number = lit(i32::try_from(at + 1).unwrap_or(i32::MAX));
        match &clause.condition {
            Some(condition) => whens.push((Box::new(condition.clone()), Box::new(number))),
            None => {
                otherwise = number;
                break;
            }
        }
    }
    match whens.is_empty() {
        true => otherwise,
        false => Expr::Case(Case::new(None, whens, Some(Box::new(otherwise)))),
    }
}

/// The name of the one column in a list that stands for other words.
fn stands_for(columns: &[ast::ObjectName], word: &str) -> bool {
    matches!(columns, [only] if matches!(only.0.as_slice(), [part] if part.as_ident().is_some_and(|i| i.value == word && i.quote_style.is_none())))
}

/// What a clause does, by its syntax.
fn does(action: &MergeAction) -> Result<Does> {
    Ok(match action {
        MergeAction::Insert(insert) if stands_for(&insert.columns, NOTHING) => Does::Nothing,
        MergeAction::Insert(insert) => {
            if insert.insert_predicate.is_some() {
                return Err(SqlError::syntax("syntax error at or near \"WHERE\"").into());
            }
            Does::Insert
        }
        MergeAction::Update(update) => {
            if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                return Err(SqlError::syntax("syntax error at or near \"WHERE\"").into());
            }
            let nothing = update.assignments.iter().any(|assignment| match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => stands_for(std::slice::from_ref(name), NOTHING),
                ast::AssignmentTarget::Tuple(_) => false,
            });
            if nothing { Does::Nothing } else { Does::Update }
        }
        MergeAction::Delete { .. } => Does::Delete,
    })
}

/// The clauses in short.
///
/// # Errors
/// `42601` for what no MERGE has, and for a clause that is never reached.
fn whens(merge: &Merge) -> Result<Vec<When>> {
    if !merge.into {
        return Err(SqlError::syntax("syntax error: MERGE needs INTO").into());
    }
    if merge.output.is_some() {
        return Err(SqlError::syntax("syntax error: MERGE has no RETURNING").into());
    }
    if merge.clauses.is_empty() {
        return Err(SqlError::syntax("syntax error: MERGE needs WHEN").into());
    }
    let mut whens = Vec::with_capacity(merge.clauses.len());
    let mut is_last = [false; 2];
    for clause in &merge.clauses {
        let is_matched = match clause.clause_kind {
            MergeClauseKind::Matched => true,
            MergeClauseKind::NotMatched => false,
            MergeClauseKind::NotMatchedByTarget | MergeClauseKind::NotMatchedBySource => {
                return Err(SqlError::syntax("syntax error at or near \"BY\"").into());
            }
        };
        let last = &mut is_last[usize::from(is_matched)];
        if *last {
            let text = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::syntax(text).into());
        }
        *last = clause.predicate.is_none();
        whens.push(When { is_matched, does: does(&clause.action)? });
    }
    Ok(whens)
}

impl Analyzer<'_> {
    /// Analyses a MERGE.
    ///
    /// # Errors
    /// Those of its parts, in the order of PostgreSQL's `transformMergeStmt`.
    pub(super) fn merge(&mut self, merge: &Merge, outer: &Scope<'_>) -> Result<Write> {
        let whens = whens(merge)?;
        let TableFactor::Table { name, alias, args: None, sample, .. } = &merge.table else {
            return Err(SqlError::syntax("the target of MERGE must be one table").into());
        };
        if sample.is_some() || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(SqlError::syntax(
                "syntax error: the target of MERGE has neither a sample nor names of columns",
            )
            .into());
        }
        let written = self.written(name, Op::Merge)?;
        let alias = alias.as_ref().map(|alias| folded(&alias.name));
        let (target, _) = self.target_of(&written, alias, true, Op::Merge)?;
        self.refuse_policies(&written.table, &target, "MERGE")?;
        let table = written.table;
        let Some(key) = target.key.clone() else { return Err(SqlError::internal("a target without keys").into()) };
        for when in &whens {
            let privilege = match when.does {
                Does::Insert => p::INSERT,
                Does::Update => p::UPDATE,
                Does::Delete => p::DELETE,
                // Whether a row matches tells of the table.
                Does::Nothing => p::SELECT,
            };
            self.seek_write(target.sought, privilege, &[]);
        }
        let from = ast::TableWithJoins { relation: merge.source.clone(), joins: Vec::new() };
        let source = self.bind_from(std::slice::from_ref(&from), outer)?;
        let is_target = |item: &&Item| item.by_name && item.name == target.item.name;
        if let Some(Some(name)) = source.items.iter().find(is_target).map(|item| &item.name) {
            let error = SqlError::new("42712", format!("name \"{name}\" specified more than once"));
            return Err(error.with_detail("The name is used both as MERGE target table and data source.").into());
        }
        // What a clause for rows that match sees, and one for others: the target is there, but it has no row.
        let mut items = vec![target.item.clone()];
        items.extend(source.items.iter().cloned());
        let both = Scope { items, ..outer.clone() };
        let mut alone = both.clone();
        for item in alone.items.iter_mut().take(1) {
            (item.by_name, item.by_column) = (false, false);
        }
        let condition = self.condition(&merge.on, &both, Clause::JoinOn)?.expr;
        let mut clauses = Vec::with_capacity(whens.len());
        let (mut assigned, mut given) = (Vec::new(), Vec::new());
        for (when, clause) in whens.into_iter().zip(&merge.clauses) {
            let scope = if when.is_matched { &both } else { &alone };
            let condition = match &clause.predicate {
                Some(condition) => Some(self.condition(condition, scope, Clause::MergeWhen)?.expr),
                None => None,
            };
            let values = match &clause.action {
                MergeAction::Update(update) if when.does == Does::Update => {
                    let mut set = self.set_clause(&table, None, Op::Update, &update.assignments, scope)?;
                    let columns: Vec<usize> = set.iter().map(|(at, _)| *at).collect();
                    self.seek_write(target.sought, p::UPDATE, &columns);
                    assigned.extend(columns);
                    given.extend(set.iter().map(|(at, value)| (*at, value.expr.clone())));
                    let value = |(at, column): (usize, &super::bound::Column)| match set
                        .iter()
                        .position(|(changed, _)| *changed == at)
                    {
                        Some(nth) => set.swap_remove(nth).1,
                        None => column.bound.clone(),
                    };
                    Some(target.item.columns.iter().enumerate().map(value).collect())
                }
                MergeAction::Insert(insert) if when.does == Does::Insert => {
                    let row = self.inserted_row(&table, insert, scope)?;
                    self.seek_write(target.sought, p::INSERT, &self.fitted());
                    given.extend(row.iter().map(|value| value.expr.clone()).enumerate());
                    Some(row)
                }
                _ => None,
            };
            clauses.push(Analysed { when, condition, values });
        }
        let values = self.values_by_number(&table, &clauses)?;
        let steps = Steps { matched: number(&clauses, true), unmatched: number(&clauses, false), values };
        let others = others(&source.plan, &condition, &steps, &target);
        let inserts = clauses.iter().any(|clause| clause.when.does == Does::Insert);
        let kind = if inserts { JoinType::Left } else { JoinType::Inner };
        let target_columns: Vec<_> = columns_of(&target.plan).collect();
        let rows = joined(source.plan, target.plan, kind, condition.clone())?;
        let named = |(at, (qualifier, field)): (usize, &(Option<TableReference>, FieldRef))| {
            Expr::Column(Column::new(qualifier.clone(), field.name())).alias(format!("resurgam$other{at}"))
        };
        let mut more: Vec<Expr> = others.iter().enumerate().map(named).collect();
        more.push(named_key(key.clone()));
        let plan = steps.over(rows, key.clone().is_not_null(), more)?;
        let (keys, mut columns): (Vec<_>, Vec<_>) =
            target_columns.into_iter().partition(|(_, field)| field.name() == KEY_COLUMN);
        columns.extend(others);
        columns.extend(keys);
        let clauses = clauses.into_iter().map(|clause| clause.when).collect();
        let merge = Some(Merged { clauses, given, condition, key, steps, columns });
        Ok(Write { assigned, merge, ..Write::of_rows(Op::Merge, table, plan) })
    }

    /// The row of an INSERT.
    fn inserted_row(&mut self, table: &Table, insert: &MergeInsertExpr, scope: &Scope<'_>) -> Result<Vec<Bound>> {
        let (overriding, listed) = Overriding::of(&insert.columns);
        if stands_for(listed, DEFAULT_VALUES) {
            drop(self.fitted());
            return one(self.whole_rows(table, &[], vec![Vec::new()])?);
        }
        let values = match &insert.kind {
            MergeInsertKind::Values(values) if values.rows.len() == 1 => values,
            MergeInsertKind::Values(values) => {
                let span = values.rows.get(1).and_then(|row| row.content.first()).map(Spanned::span);
                let error = SqlError::syntax("syntax error: INSERT of MERGE has one row");
                return Err(self.at(error, span.unwrap_or_else(|| values.span())));
            }
            MergeInsertKind::Row => return Err(SqlError::syntax("syntax error at or near \"ROW\"").into()),
        };
        let columns = self.listed_columns(table, None, listed)?;
        let seen = self.sets;
        let (columns, rows) = self.value_list(table, columns, values, overriding, scope)?;
        self.no_sets_since(seen, "set-valued function called in context that cannot accept a set")?;
        one(self.whole_rows(table, &columns, rows)?)
    }

    /// The columns' values by the number of the clause.
    fn values_by_number(&mut self, table: &Table, clauses: &[Analysed]) -> Result<Vec<Expr>> {
        let mut all = Vec::with_capacity(table.columns.len());
        for (at, column) in table.columns.iter().enumerate() {
            let ty = Type::of(column_type(&column.ty).oid);
            let (mut numbers, mut values) = (Vec::new(), Vec::new());
            for (nth, clause) in clauses.iter().enumerate() {
                if let Some(value) = clause.values.as_ref().and_then(|values| values.get(at)) {
                    numbers.push(lit(i32::try_from(nth + 1).unwrap_or(i32::MAX)));
                    values.push(value.clone());
                }
            }
            values.push(self.null(ty)?);
            let mut values = self.one_form(values, ty)?;
            let none = values.pop().map(|none| Box::new(none.expr));
            let whens = numbers.into_iter().zip(values);
            let whens: Vec<_> = whens.map(|(number, value)| (Box::new(number), Box::new(value.expr))).collect();
            all.push(match (whens.is_empty(), none) {
                (false, none) => Expr::Case(Case::new(Some(Box::new(action())), whens, none)),
                (true, Some(none)) => *none,
                (true, None) => return Err(SqlError::internal("a column without a value").into()),
            });
        }
        Ok(named_columns(table, all))
    }
}

fn one(mut rows: Vec<Vec<Bound>>) -> Result<Vec<Bound>> {
    rows.pop().ok_or_else(|| SqlError::internal("an INSERT without a row").into())
}

fn columns_of(plan: &LogicalPlan) -> impl Iterator<Item = (Option<TableReference>, FieldRef)> {
    plan.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)))
}

/// The columns of the source that are read by what is computed for a row.
fn others(
    source: &LogicalPlan,
    condition: &Expr,
    steps: &Steps,
    target: &Target,
) -> Vec<(Option<TableReference>, FieldRef)> {
    let exprs = || [condition, &steps.matched, &steps.unmatched].into_iter().chain(&steps.values);
    // A subquery may read any of them.
    let all = exprs().any(crate::plan::expression::has_subquery);
    let mut read = std::collections::HashSet::new();
    for expr in exprs() {
        read.extend(expr.column_refs());
    }
    let is_read = |(qualifier, field): &(Option<TableReference>, FieldRef)| {
        qualifier.as_ref() != Some(&target.qualifier)
            && (all || read.contains(&Column::new(qualifier.clone(), field.name())))
    };
    columns_of(source).filter(is_read).collect()
}
