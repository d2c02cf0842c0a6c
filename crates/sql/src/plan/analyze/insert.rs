//! INSERT, and ON CONFLICT.

use std::sync::Arc;

use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Insert, OnConflictAction, OnInsert, Query, SetExpr, Spanned, TableObject};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_engine::Table;

use super::bound::{Bound, Type};
use super::expr::Clause;
use super::identity::Overriding;
use super::once::Uses;
use super::scope::{Scope, folded};
use super::through_view::{Place, Through, Written, is_computed};
use super::write::{OnConflict, OnConflictUpdate, Target, Write, constant_type, is_default, named_columns};
use super::{Analyzer, Result};
use crate::pg::policies::Command;
use crate::pg::roles::acl::privilege as p;
use crate::plan::analyze::Op;
use crate::wire::SqlError;

/// The columns that are given, in the order of the values.
pub(super) struct Columns {
    at: Vec<usize>,
    /// They are not listed: the first ones may be all.
    implicit: bool,
    span: Span,
    /// Those (by number) of a view that cannot be written to, and the errors of doing so.
    refused: Vec<(usize, SqlError)>,
}

impl Analyzer<'_> {
    /// Analyses an INSERT.
    ///
    /// # Errors
    /// Those of its parts, in the order of PostgreSQL's `transformInsertStmt`.
    pub(super) fn insert(&mut self, insert: &Insert, outer: &Scope<'_>) -> Result<Write> {
        let (overriding, listed) = Overriding::of(&insert.columns);
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into this kind of target is not supported").into());
        };
        if insert.overwrite
            || insert.replace_into
            || insert.or.is_some()
            || insert.ignore
            || insert.has_table_keyword
            || !insert.into
            || !insert.assignments.is_empty()
            || insert.output.is_some()
        {
            return Err(SqlError::syntax("this form of INSERT is not supported").into());
        }
        let mut scope = outer.clone();
        let source = insert.source.as_deref();
        let rows = source.and_then(value_list);
        if let (Some(_), Some(with)) = (rows, source.and_then(|source| source.with.as_ref())) {
            let uses = source.map(Uses::of_query).unwrap_or_default();
            self.with_clause(with, &uses, false, &mut scope)?;
        }
        let written = self.written(name, Op::Insert)?;
        let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
        // What the columns of a view are is known by its target.
        let mut known = match written.views.is_empty() {
            true => None,
            false => Some(self.target_of(&written, alias.clone(), false, Op::Insert)?),
        };
        let through = known.as_mut().and_then(|(_, through)| through.take());
        let table = Arc::clone(&written.table);
        let columns = self.listed_columns(&table, through.as_ref(), listed)?;
        // It is looked at before what is read.
        let sought = match &known {
            Some((target, _)) => target.sought,
            None => self.seek_target(&written, None),
        };
        drop(self.fitted());
        let unseen = written.views.is_empty().then(|| (Arc::clone(&table), alias.clone()));
        let around = std::mem::replace(&mut self.unseen_target, unseen);
        let (plan, rows) = match (source, rows) {
            (None, _) => self.given_rows(&table, &[], vec![Vec::new()])?,
            (Some(_), Some(values)) => {
                let (columns, rows) = self.value_list(&table, columns, values, overriding, &scope)?;
                self.given_rows(&table, &columns, rows)?
            }
            (Some(source), None) => (self.selected_rows(&table, columns, source, overriding, &scope)?, None),
        };
        self.unseen_target = around;
        let mut target = match known {
            Some((target, _)) => target,
            None => self.target(&table, alias, false)?,
        };
        target.sought = sought;
        self.seek_under(sought, &target.qualifier);
        self.seek_write(sought, p::INSERT, &self.fitted());
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(on)) => {
                Some(self.on_conflict(&written, &target, through.as_ref(), on, &scope)?)
            }
            Some(_) => return Err(SqlError::syntax("ON DUPLICATE KEY is not supported; use ON CONFLICT").into()),
        };
        let seen = Scope { items: vec![target.item.clone()], ..scope.clone() };
        let around = self.returned.replace(target.qualifier.clone());
        let returning = self.returning(insert.returning.as_ref(), &target, &seen, &target.plan);
        self.returned = around;
        let returning = returning?;
        let policies = self.policies_of_target(&table, &target)?;
        let mut conflict = conflict;
        if let Some(update) = conflict.as_mut().and_then(|conflict| conflict.update.as_mut()) {
            update.rules = self.rows_upserted(&table, policies.as_ref(), &target)?;
        }
        let (asked, rules) = self.rows_written(&table, policies.as_ref(), &target, Command::Insert, &plan)?;
        let (plan, rows) = match asked {
            // Rows that are written out would not be asked.
            Some(asked) => (asked, None),
            None => (plan, rows),
        };
        let checks = through.map(|through| through.checks).unwrap_or_default();
        Ok(Write { rows, returning, conflict, checks, rules, ..Write::of_rows(Op::Insert, table, plan) })
    }

    /// The columns that a list names, or those that there are without one.
    pub(super) fn listed_columns(
        &self,
        table: &Table,
        through: Option<&Through>,
        listed: &[ast::ObjectName],
    ) -> Result<Columns> {
        let span = listed.first().map_or_else(Span::empty, Spanned::span);
        if listed.is_empty() {
            let Some(through) = through else {
                let at = table.shown_columns().collect();
                return Ok(Columns { at, implicit: true, span, refused: Vec::new() });
            };
            let (mut at, mut refused) = (Vec::new(), Vec::new());
            for (number, (_, place)) in through.columns.iter().enumerate() {
                match place {
                    Place::Column(place) => at.push(*place),
                    Place::Computed(view, column) => {
                        refused.push((number, is_computed(view, column, Op::Insert)));
                        at.push(0);
                    }
                }
            }
            return Ok(Columns { at, implicit: true, span, refused });
        }
        let mut at: Vec<usize> = Vec::with_capacity(listed.len());
        for name in listed {
            let column = self.written_column(table, through, name, Op::Insert)?;
            if at.contains(&column) {
                // Two columns of a view that are one of the table.
                if through.is_some() && !listed[..at.len()].iter().any(|before| same_name(before, name)) {
                    let name = &table.columns[column].name;
                    return Err(SqlError::syntax(format!("multiple assignments to same column \"{name}\"")).into());
                }
                let message = format!("column \"{}\" specified more than once", table.columns[column].name);
                return Err(self.at(SqlError::new("42701", message), name.span()));
            }
            at.push(column);
        }
        Ok(Columns { at, implicit: false, span, refused: Vec::new() })
    }

    /// As many columns as there are values.
    fn fitting(
        &self,
        table: &Table,
        mut columns: Columns,
        width: usize,
        extra: impl FnOnce() -> Span,
    ) -> Result<Vec<usize>> {
        if width > columns.at.len() {
            let error = SqlError::syntax("INSERT has more expressions than target columns");
            return Err(self.at(error, extra()));
        }
        if width < columns.at.len() && !columns.implicit {
            let error = SqlError::syntax("INSERT has more target columns than expressions");
            return Err(self.at(error, columns.span));
        }
        columns.at.truncate(width);
        if let Some((_, error)) = columns.refused.into_iter().find(|(number, _)| *number < width) {
            return Err(error.into());
        }
        for (nth, at) in columns.at.iter().enumerate() {
            // Two columns of a view that are one of the table.
            if columns.implicit && columns.at[..nth].contains(at) {
                let name = &table.columns[*at].name;
                return Err(SqlError::syntax(format!("multiple assignments to same column \"{name}\"")).into());
            }
        }
        self.note_fitted(&columns.at);
        Ok(columns.at)
    }

    /// Rows that are written out, each value brought to its column by itself.
    pub(super) fn value_list(
        &mut self,
        table: &Table,
        columns: Columns,
        values: &ast::Values,
        overriding: Overriding,
        scope: &Scope<'_>,
    ) -> Result<(Vec<usize>, Vec<Vec<Bound>>)> {
        super::query::refuse_row_word(values)?;
        let width = values.rows.first().map_or(0, |row| row.content.len());
        // All values first: what types a parameter has in them counts before the columns'.
        let mut rows: Vec<Vec<Option<Bound>>> = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                let span = row.content.first().map_or_else(Span::empty, Spanned::span);
                return Err(self.at(SqlError::syntax("VALUES lists must all be the same length"), span));
            }
            let bound = row.content.iter().map(|value| match is_default(value) {
                true => Ok(None),
                false => self.expr(value, scope, Clause::Values).map(Some),
            });
            rows.push(bound.collect::<Result<_>>()?);
        }
        let known = columns.at.len();
        let extra =
            || values.rows.first().and_then(|row| row.content.get(known)).map_or_else(Span::empty, Spanned::span);
        let columns = self.fitting(table, columns, width, extra)?;
        let mut assigned = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(columns.len());
            for (value, &at) in row.into_iter().zip(&columns) {
                let value = value.filter(|_| !overriding.takes_default(table, at));
                if value.is_some() {
                    overriding.refuse_value(table, at)?;
                }
                values.push(match value {
                    Some(value) => self.assigned(value, table, at)?,
                    None => self.default_of(table, at)?,
                });
            }
            assigned.push(values);
        }
        Ok((columns, assigned))
    }

    /// Rows of values for `columns`, with the defaults of the others.
    pub(super) fn whole_rows(
        &mut self,
        table: &Table,
        columns: &[usize],
        rows: Vec<Vec<Bound>>,
    ) -> Result<Vec<Vec<Bound>>> {
        let mut whole: Vec<Vec<Option<Bound>>> = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = vec![None; table.columns.len()];
            for (value, &at) in row.into_iter().zip(columns) {
                values[at] = Some(value);
            }
            whole.push(values);
        }
        for at in (0..table.columns.len()).filter(|at| !columns.contains(at)) {
            let default = self.default_of(table, at)?;
            for row in &mut whole {
                row[at] = Some(default.clone());
            }
        }
        Ok(whole.into_iter().map(|row| row.into_iter().flatten().collect()).collect())
    }

    /// The same as a plan, and as they are.
    #[allow(clippy::type_complexity)]
    fn given_rows(
        &mut self,
        table: &Table,
        columns: &[usize],
        rows: Vec<Vec<Bound>>,
    ) -> Result<(LogicalPlan, Option<Vec<Vec<Expr>>>)> {
        let whole = self.whole_rows(table, columns, rows)?;
        let exprs: Vec<Vec<Expr>> =
            whole.iter().map(|row| row.iter().map(|bound| bound.expr.clone()).collect()).collect();
        let plan = match exprs.as_slice() {
            [row] => {
                let one = LogicalPlanBuilder::empty(true);
                one.project(named_columns(table, row.iter().cloned()))?.build()?
            }
            _ => {
                let types: Vec<Type> = table.columns.iter().map(|c| constant_type(&c.ty)).collect();
                let relation = self.values_relation(whole, &types)?;
                let columns: Vec<Expr> = relation.columns.into_iter().map(|column| column.bound.expr).collect();
                LogicalPlanBuilder::from(relation.plan).project(named_columns(table, columns))?.build()?
            }
        };
        Ok((plan, Some(exprs)))
    }

    /// Rows of a query.
    fn selected_rows(
        &mut self,
        table: &Table,
        columns: Columns,
        source: &Query,
        overriding: Overriding,
        scope: &Scope<'_>,
    ) -> Result<LogicalPlan> {
        // What has no type in its select list takes that of the column.
        let wanted = |&at: &usize| table.domain(at).map_or_else(|| constant_type(&table.columns[at].ty), Type::of);
        let wanted: Vec<Option<Type>> = columns.at.iter().map(|at| Some(wanted(at))).collect();
        let relation = self.bind_query(source, scope, Some(&wanted))?;
        let columns = self.fitting(table, columns, relation.columns.len(), || source.span())?;
        let mut values: Vec<Option<Expr>> = vec![None; table.columns.len()];
        for (column, &at) in relation.columns.into_iter().zip(&columns) {
            if overriding.takes_default(table, at) {
                continue;
            }
            overriding.refuse_value(table, at)?;
            let bound = column.bound.at(source.span());
            values[at] = Some(self.assigned(bound, table, at)?.expr);
        }
        for (at, value) in values.iter_mut().enumerate() {
            if value.is_none() {
                *value = Some(self.default_of(table, at)?.expr);
            }
        }
        let values = named_columns(table, values.into_iter().flatten());
        Ok(LogicalPlanBuilder::from(relation.plan).project(values)?.build()?)
    }

    fn on_conflict(
        &mut self,
        written: &Written,
        target: &Target,
        through: Option<&Through>,
        on: &ast::OnConflict,
        scope: &Scope<'_>,
    ) -> Result<OnConflict> {
        let table = &written.table;
        let conflict_target = columns_of_table(table, through, on.conflict_target.as_ref())?;
        if let Some(ast::ConflictTarget::Columns(columns)) = &conflict_target {
            // What is inferred by is read.
            let at = |name: String| table.columns.iter().position(|column| column.name == name);
            let named: Vec<usize> = columns.iter().filter_map(|ident| at(folded(ident))).collect();
            self.seek_write(target.sought, p::SELECT, &named);
        } else if conflict_target.is_some() {
            // So are the columns of a constraint that is named.
            let keys = crate::plan::infer::arbiters(self.names, table, conflict_target.as_ref())?;
            let of_key = |key: &Option<usize>| match key {
                None => table.primary_key.clone(),
                Some(at) => table.indexes[*at].columns.clone(),
            };
            let named: Vec<usize> = keys.iter().flat_map(of_key).collect();
            self.seek_write(target.sought, p::SELECT, &named);
        }
        let update = match &on.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(action) => {
                if on.conflict_target.is_none() {
                    let text = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                    return Err(SqlError::syntax(text).with_hint("For example, ON CONFLICT (column_name).").into());
                }
                crate::plan::infer::arbiters(self.names, table, conflict_target.as_ref())?;
                let excluded = Some("excluded".to_owned());
                let (proposed, _) = self.target_of(written, excluded, false, Op::Insert)?;
                // Who reads the proposed row has to be allowed to read the table's columns of these names.
                self.seek_under(target.sought, &proposed.qualifier);
                // A plain name is a column of both.
                let items = vec![proposed.item.clone(), target.item.clone()];
                let scope = Scope { items, ..scope.clone() };
                let set = self.set_clause(table, through, Op::Insert, &action.assignments, &scope)?;
                let condition = match &action.selection {
                    Some(condition) => Some(self.condition(condition, &scope, Clause::Where)?.expr),
                    None => None,
                };
                let changed: Vec<usize> = set.iter().map(|(at, _)| *at).collect();
                self.seek_write(target.sought, p::UPDATE, &changed);
                let joined = Arc::new(target.plan.schema().join(proposed.plan.schema())?);
                let set = set.into_iter().map(|(at, bound)| (at, bound.expr)).collect();
                let shown = through.map(|through| through.shown.clone()).unwrap_or_default();
                Some(OnConflictUpdate { set, condition, joined, rules: None, shown })
            }
        };
        Ok(OnConflict { target: conflict_target, update })
    }
}

/// Whether two names of columns are the same.
fn same_name(a: &ast::ObjectName, b: &ast::ObjectName) -> bool {
    let first = |name: &ast::ObjectName| name.0.first().and_then(|part| part.as_ident()).map(folded);
    first(a) == first(b)
}

/// The target of ON CONFLICT with the table's names for a view's columns.
fn columns_of_table(
    table: &Table,
    through: Option<&Through>,
    target: Option<&ast::ConflictTarget>,
) -> Result<Option<ast::ConflictTarget>> {
    let (through, columns) = match (through, target) {
        (Some(through), Some(ast::ConflictTarget::Columns(columns))) => (through, columns),
        // A view has no constraints.
        (Some(through), Some(ast::ConflictTarget::OnConstraint(name))) => {
            let name = name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
            let text = format!("constraint \"{name}\" for table \"{}\" does not exist", through.name);
            return Err(SqlError::new("42704", text).into());
        }
        _ => return Ok(target.cloned()),
    };
    let mut named = Vec::with_capacity(columns.len());
    for ident in columns {
        if !matches!(crate::parse::conflict::element(ident)?, crate::parse::conflict::Element::Column) {
            let text = "ON CONFLICT with an expression or a predicate is not supported of a view";
            return Err(SqlError::unsupported(text).into());
        }
        let name = folded(ident);
        match through.place(&name) {
            Some(Place::Column(at)) => named.push(ast::Ident::with_quote('"', table.columns[*at].name.as_str())),
            Some(Place::Computed(..)) => {
                let text = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                return Err(SqlError::new("42P10", text).into());
            }
            None => return Err(SqlError::new("42703", format!("column \"{name}\" does not exist")).into()),
        }
    }
    Ok(Some(ast::ConflictTarget::Columns(named)))
}

/// The VALUES list that a source is, if it is no more than that.
fn value_list(source: &Query) -> Option<&ast::Values> {
    let plain = source.order_by.is_none()
        && source.limit_clause.is_none()
        && source.fetch.is_none()
        && source.locks.is_empty()
        && source.for_clause.is_none();
    match source.body.as_ref() {
        SetExpr::Values(values) if plain => Some(values),
        _ => None,
    }
}
