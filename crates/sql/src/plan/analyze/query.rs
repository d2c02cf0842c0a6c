//! Queries: WITH, set operations, VALUES, ORDER BY of a set operation, LIMIT.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as PlanColumn, DFSchema, DFSchemaRef, NullEquality, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Union, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    self, Cte as AstCte, LimitClause, OrderByExpr, OrderByKind, Query, SetExpr, SetOperator, SetQuantifier, Spanned,
    Statement,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::blanks::{BPCHAR, has_length};
use super::bound::{Bound, Column, Relation, Type};
use super::condition::bare;
use super::domains::under_domain;
use super::expr::Clause;
use super::once::Uses;
use super::scope::{Cte, Scope, folded};
use super::select::{Target, project};
use super::sort::{SortKey, direction};
use super::{Analyzer, Result, unknown};
use crate::exec::access_path;
use crate::exec::computed_limit::ComputedLimit;
use crate::parse::depth::{SETS_MAX, set_terms, too_deep};
use crate::parse::with_write::write_of;
use crate::pg::functions::numeric;
use crate::pg::types::oid;
use crate::wire::SqlError;

/// Operators of the plan of a WITH query, with those that it reads.
const CTE_NODES_MAX: usize = 10_000;
/// LIMIT and OFFSET beyond it are it: no relation has so many rows, and the two are added up.
const COUNT_MAX: i64 = i64::MAX / 4;
/// Terms of UNION that are an operator each.
const UNION_FEW: usize = 16;

fn is_all(quantifier: SetQuantifier) -> Result<bool> {
    match quantifier {
        SetQuantifier::All => Ok(true),
        SetQuantifier::Distinct | SetQuantifier::None => Ok(false),
        _ => Err(SqlError::syntax("BY NAME is not PostgreSQL's").into()),
    }
}

/// A side of a set operation with one name for each column of either.
fn side(relation: Relation, names: &[(String, Type)]) -> Result<LogicalPlan> {
    let exprs: Vec<Expr> = relation
        .columns
        .into_iter()
        .zip(names)
        .enumerate()
        .map(|(at, (column, (name, _)))| column.bound.expr.alias(set_column(name, at)))
        .collect();
    Ok(LogicalPlanBuilder::from(relation.plan).project(exprs)?.build()?)
}

fn union_of(plans: Vec<Arc<LogicalPlan>>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(plans)?))
}

impl Analyzer<'_> {
    /// A query. `targets` are the types that columns without one take (those of INSERT's columns, say);
    /// without them they become texts.
    pub(super) fn bind_query(
        &mut self,
        query: &Query,
        scope: &Scope<'_>,
        targets: Option<&[Option<Type>]>,
    ) -> Result<Relation> {
        let relation = self.nested(|this| this.bind_query_untyped(query, scope))?;
        self.type_columns(relation, targets)
    }

    /// A query whose untyped columns stay so.
    pub(super) fn bind_query_untyped(&mut self, query: &Query, scope: &Scope<'_>) -> Result<Relation> {
        if !query.locks.is_empty() {
            return self.locking_query(query, scope);
        }
        if query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return Err(SqlError::syntax("this form of query is not PostgreSQL's").into());
        }
        let mut here = scope.clone();
        let at_top = std::mem::take(&mut self.once.at_top);
        if let Some(with) = &query.with {
            self.with_clause(with, &Uses::of_query(query), at_top, &mut here)?;
        } else {
            // Parentheses are nothing.
            self.once.at_top = at_top && matches!(query.body.as_ref(), SetExpr::Query(_));
        }
        let no_order: [OrderByExpr; 0] = [];
        let order: &[OrderByExpr] = match &query.order_by {
            None => &no_order,
            Some(order) => match (&order.kind, &order.interpolate) {
                (OrderByKind::Expressions(list), None) => list,
                _ => return Err(SqlError::syntax("this form of ORDER BY is not PostgreSQL's").into()),
            },
        };
        let mut relation = match query.body.as_ref() {
            SetExpr::Select(select) => self.bind_select(select, order, &here)?,
            body => {
                let relation = self.body(body, &here)?;
                self.sort_result(relation, order)?
            }
        };
        relation.plan = self.limit(relation.plan, query, &here)?;
        Ok(relation)
    }

    /// The queries of WITH, which those behind them and what follows see.
    pub(super) fn with_clause(
        &mut self,
        with: &ast::With,
        uses: &Uses,
        at_top: bool,
        here: &mut Scope<'_>,
    ) -> Result<()> {
        let mut names = HashSet::new();
        for cte in &with.cte_tables {
            let name = folded(&cte.alias.name);
            if !names.insert(name.clone()) {
                let error = SqlError::new("42712", format!("WITH query name \"{name}\" specified more than once"));
                return Err(self.at(error, cte.alias.name.span));
            }
        }
        for cte in &with.cte_tables {
            let bound = self.with_query(cte, with.recursive, uses, at_top, here)?;
            here.ctes.push(Arc::new(bound));
        }
        Ok(())
    }

    /// A query of WITH.
    fn with_query(
        &mut self,
        cte: &AstCte,
        recursive: bool,
        uses: &Uses,
        at_top: bool,
        scope: &Scope<'_>,
    ) -> Result<Cte> {
        let name = folded(&cte.alias.name);
        let mut bound = match write_of(&cte.query) {
            Some(Statement::Merge(_)) => {
                return Err(self.at(SqlError::unsupported("MERGE not supported in WITH query"), cte.alias.name.span));
            }
            Some(write) => {
                let (write, reads) = self.reading(|this| {
                    let mut inner = scope.clone();
                    if let Some(with) = &cte.query.with {
                        this.with_clause(with, &Uses::of(with, write), false, &mut inner)?;
                    }
                    this.nested(|this| this.one_write(write, &inner))
                })?;
                if !at_top {
                    let text = "WITH clause containing a data-modifying statement must be at the top level";
                    return Err(self.at(SqlError::unsupported(text), cte.alias.name.span));
                }
                self.writing(cte, write, reads)?
            }
            None => {
                let locks = self.locks.len();
                let (relation, reads) = self.reading(|this| match recursive && mentions(&cte.query, &name) {
                    true => this.recursive(cte, &name, scope),
                    false => this.bind_query(&cte.query, scope, None),
                })?;
                if uses.is_unused(&name) {
                    // It is not run.
                    self.locks.truncate(locks);
                }
                self.kept_or_not(cte, relation, uses, at_top, scope, reads)?
            }
        };
        let relation = &mut bound.relation;
        // It is put wherever it is read: what reads each other twice grows with a power of their number.
        let mut nodes = 0;
        relation.plan.apply(|_| {
            nodes += 1;
            Ok(if nodes > CTE_NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if nodes > CTE_NODES_MAX {
            return Err(too_deep().into());
        }
        if cte.alias.columns.len() > relation.columns.len() {
            let message = format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                relation.columns.len(),
                cte.alias.columns.len()
            );
            return Err(self.at(SqlError::new("42P10", message), cte.alias.name.span));
        }
        for (column, new) in relation.columns.iter_mut().zip(&cte.alias.columns) {
            column.name = folded(&new.name);
        }
        Ok(bound)
    }

    /// `WITH RECURSIVE name AS (start UNION [ALL] step)`.
    fn recursive(&mut self, cte: &AstCte, name: &str, scope: &Scope<'_>) -> Result<Relation> {
        let query = &cte.query;
        let refuse = || {
            let message = format!(
                "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
            );
            SqlError::new("42P19", message)
        };
        let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } = query.body.as_ref() else {
            return Err(self.at(refuse(), cte.alias.name.span));
        };
        if query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
            return unknown("WITH, ORDER BY or LIMIT in a recursive query");
        }
        let distinct = !matches!(set_quantifier, SetQuantifier::All);
        let start = self.body(left, scope)?;
        let mut start = self.type_columns(start, None)?;
        // The columns have the names of the WITH query, in both terms.
        let names: Vec<String> = start
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| cte.alias.columns.get(at).map_or_else(|| column.name.clone(), |c| folded(&c.name)))
            .collect();
        let spans: Vec<Span> = start.columns.iter().map(|column| column.bound.span).collect();
        // The digits of a numeric without limits are those of its value in each round.
        let rename = |this: &mut Self, relation: Relation, nullable: bool| -> Result<Relation> {
            let mut targets = Vec::with_capacity(names.len());
            for (column, name) in relation.columns.into_iter().zip(&names) {
                let ty = column.bound.ty;
                let mut bound = column.bound;
                if ty.oid == oid::NUMERIC && ty.typmod < 0 {
                    bound = this.in_form(bound, &numeric::DYNAMIC)?;
                }
                if nullable {
                    bound = this.call_named("pg_nullable", vec![bound], ty)?;
                }
                targets.push(Target { name: name.clone(), bound, is_hidden: false });
            }
            project(relation.plan, &targets)
        };
        start = rename(self, start, true)?;
        let work_name = self.qualifier(name);
        let schema = Arc::new(start.plan.schema().as_arrow().clone());
        let source = provider_as_source(Arc::new(CteWorkTable::new(&work_name, schema)));
        let plan = LogicalPlanBuilder::scan(TableReference::bare(work_name.clone()), source, None)?.build()?;
        let types = start.columns.iter().map(|column| (column.name.clone(), column.bound.ty));
        let work = Relation::of_plan(plan, types.collect::<Vec<_>>());
        let mut inner = scope.clone();
        inner.ctes.push(Arc::new(Cte {
            name: name.to_owned(),
            relation: work,
            reads: BTreeSet::new(),
            is_silent: false,
        }));
        self.once.recursive_terms += 1;
        let step = self.body(right, &inner);
        self.once.recursive_terms -= 1;
        let step = step?;
        if step.columns.len() != start.columns.len() {
            let error = SqlError::syntax("each UNION query must have the same number of columns");
            return Err(self.at(error, right.span()));
        }
        let wanted: Vec<Option<Type>> = start.columns.iter().map(|column| Some(column.bound.ty)).collect();
        let step = self.type_columns(step, Some(&wanted))?;
        for (at, (first, second)) in start.columns.iter().zip(&step.columns).enumerate() {
            let common = self.common_type(&[&first.bound, &second.bound], "UNION")?;
            let (own, other) = (first.bound.ty.typmod, second.bound.ty.typmod);
            if common.oid != first.bound.ty.oid || (own >= 0 && own != other) {
                let common = if common.oid == first.bound.ty.oid { Type::of(common.oid) } else { common };
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                    at + 1,
                    first.bound.ty.name(),
                    common.name()
                );
                let error = SqlError::new("42804", message)
                    .with_hint("Cast the output of the non-recursive term to the correct type.");
                return Err(self.at(error, left.span()));
            }
        }
        if distinct {
            for (column, span) in start.columns.iter().zip(spans) {
                self.check_equality(&column.bound.clone().at(span))?;
            }
        }
        let step = self.coerce_columns(step, &start.columns.iter().map(|c| c.bound.ty).collect::<Vec<_>>())?;
        let step = rename(self, step, false)?;
        let columns: Vec<(String, Type)> =
            start.columns.iter().map(|column| (column.name.clone(), column.bound.ty)).collect();
        let plan = LogicalPlanBuilder::from(start.plan).to_recursive_query(work_name, step.plan, distinct)?.build()?;
        Ok(Relation::of_plan(plan, columns))
    }

    fn body(&mut self, body: &SetExpr, scope: &Scope<'_>) -> Result<Relation> {
        match body {
            SetExpr::Select(select) => self.bind_select(select, &[], scope),
            SetExpr::Query(query) => self.nested(|this| this.bind_query_untyped(query, scope)),
            SetExpr::Values(values) => self.values(values, scope),
            SetExpr::SetOperation { left, op, set_quantifier, right } => self.nested(|this| {
                let terms = set_terms(body, *op, *set_quantifier);
                match *op == SetOperator::Union && terms.len() > UNION_FEW {
                    true => this.union(&terms, *set_quantifier, scope),
                    false => this.set_operation(left, *op, *set_quantifier, right, scope),
                }
            }),
            SetExpr::Table(table) => {
                let Some(name) = &table.table_name else { return unknown("TABLE without a name") };
                let text = match &table.schema_name {
                    Some(schema) => format!("SELECT * FROM {schema}.{name}"),
                    None => format!("SELECT * FROM {name}"),
                };
                let query = crate::plan::statement::template(&text)?;
                self.bind_query_untyped(&query, scope)
            }
            _ => unknown("this kind of query"),
        }
    }

    fn set_operation(
        &mut self,
        left: &SetExpr,
        op: SetOperator,
        quantifier: SetQuantifier,
        right: &SetExpr,
        scope: &Scope<'_>,
    ) -> Result<Relation> {
        let all = is_all(quantifier)?;
        let word = match op {
            SetOperator::Union => "UNION",
            SetOperator::Intersect => "INTERSECT",
            SetOperator::Except => "EXCEPT",
            SetOperator::Minus => return Err(SqlError::syntax("MINUS is not PostgreSQL's; use EXCEPT").into()),
        };
        let (l, r) = (self.body(left, scope)?, self.body(right, scope)?);
        let (l, r, names) = self.sides(l, r, word, right.span())?;
        if !all {
            for column in &l.columns {
                self.check_equality(&column.bound)?;
            }
        }
        let (l, r) = (side(l, &names)?, side(r, &names)?);
        let plan = match (op, all) {
            (SetOperator::Union, true) => LogicalPlanBuilder::from(l).union(r)?.build()?,
            (SetOperator::Union, false) => LogicalPlanBuilder::from(l).union(r)?.distinct()?.build()?,
            (SetOperator::Intersect, all) => self.kept(l, r, JoinType::LeftSemi, all)?,
            (_, all) => self.kept(l, r, JoinType::LeftAnti, all)?,
        };
        Ok(Relation::of_plan(plan, names))
    }

    /// Many terms of UNION: one operator as long as the columns keep their types.
    fn union(&mut self, terms: &[&SetExpr], quantifier: SetQuantifier, scope: &Scope<'_>) -> Result<Relation> {
        let all = is_all(quantifier)?;
        let Some((first, rest)) = terms.split_first() else { return unknown("an empty UNION") };
        let mut left = self.body(first, scope)?;
        let mut plans: Vec<Arc<LogicalPlan>> = Vec::new();
        let mut names = Vec::new();
        let mut levels = 0;
        for term in rest {
            let right = self.body(term, scope)?;
            let before: Vec<Expr> = left.columns.iter().map(|column| column.bound.expr.clone()).collect();
            // Of a union under way `left` has the columns, as those of its first term.
            let (l, r, now) = self.sides(left, right, "UNION", term.span())?;
            let same = l.columns.iter().map(|column| &column.bound.expr).eq(before.iter()) && !plans.is_empty();
            if !all && !same {
                for column in &l.columns {
                    self.check_equality(&column.bound)?;
                }
            }
            if same {
                left = l;
            } else {
                levels += 1;
                if levels > SETS_MAX {
                    return Err(too_deep().into());
                }
                if plans.len() > 1 {
                    // The types of what is there change: it is a union of its own.
                    let whole = Relation::of_plan(union_of(std::mem::take(&mut plans))?, names);
                    let l = self.coerce_columns(whole, &now.iter().map(|(_, ty)| *ty).collect::<Vec<_>>())?;
                    let (l, _) = self.one_form_columns(l, r.clone())?;
                    plans.push(Arc::new(side(l, &now)?));
                } else {
                    plans.push(Arc::new(side(l, &now)?));
                }
                names = now;
                left = match plans.first() {
                    Some(plan) => Relation::of_plan(plan.as_ref().clone(), names.clone()),
                    None => return unknown("an empty UNION"),
                };
            }
            plans.push(Arc::new(side(r, &names)?));
        }
        let plan = union_of(plans)?;
        let plan = if all { plan } else { LogicalPlanBuilder::from(plan).distinct()?.build()? };
        Ok(Relation::of_plan(plan, names))
    }

    /// Both sides of a set operation with columns of the same types, and their names.
    fn sides(
        &mut self,
        l: Relation,
        r: Relation,
        word: &str,
        right: Span,
    ) -> Result<(Relation, Relation, Vec<(String, Type)>)> {
        if l.columns.len() != r.columns.len() {
            let error = SqlError::syntax(format!("each {word} query must have the same number of columns"));
            return Err(self.at(error, right));
        }
        let mut types = Vec::with_capacity(l.columns.len());
        for (a, b) in l.columns.iter().zip(&r.columns) {
            super::record::refuse_record(&a.bound, "a set operation")?;
            types.push(self.common_type(&[&a.bound, &b.bound], word)?);
        }
        // Both sides untyped: the whole stays so, as text at last.
        let wanted: Vec<Option<Type>> = types.iter().map(|ty| Some(*ty)).collect();
        let l = self.type_columns(l, Some(&wanted))?;
        let r = self.type_columns(r, Some(&wanted))?;
        let l = self.coerce_columns(l, &types)?;
        let r = self.coerce_columns(r, &types)?;
        let (l, r) = self.one_form_columns(l, r)?;
        let names: Vec<(String, Type)> =
            l.columns.iter().zip(&types).map(|(column, ty)| (column.name.clone(), *ty)).collect();
        Ok((l, r, names))
    }

    /// Rows of `left` that are, or are not, among those of `right`. With ALL each row counts as often as
    /// it occurs: the n-th of its kind is met by the n-th of the other side.
    fn kept(&mut self, left: LogicalPlan, right: LogicalPlan, kind: JoinType, all: bool) -> Result<LogicalPlan> {
        let width = left.schema().fields().len();
        let (a, b) = (self.qualifier("left"), self.qualifier("right"));
        let side = |plan: LogicalPlan, qualifier: &str| -> Result<LogicalPlan> {
            // Constants tell no rows apart, and the window does not find its way with them.
            let varies = |at| access_path::column_of(&plan, at).is_none_or(|expr| !access_path::is_constant(expr));
            let varying: Vec<bool> = (0..plan.schema().fields().len()).map(varies).collect();
            let plan = LogicalPlanBuilder::from(plan).alias(TableReference::bare(qualifier))?;
            let plan = match all {
                false => plan.distinct()?.build()?,
                true => {
                    let plan = plan.build()?;
                    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
                    let kinds = columns.iter().zip(varying).filter(|(_, varies)| *varies).map(|(column, _)| column);
                    let nth = row_number().partition_by(kinds.cloned().collect()).build()?.alias("nth");
                    let windowed = LogicalPlanBuilder::window_plan(plan, vec![unaliased(nth)])?;
                    let last = windowed.schema().columns().last().cloned();
                    let nth = last.map(|column| Expr::Column(column).alias("nth"));
                    LogicalPlanBuilder::from(windowed)
                        .project(columns.into_iter().chain(nth).collect::<Vec<_>>())?
                        .alias(TableReference::bare(qualifier))?
                        .build()?
                }
            };
            Ok(plan)
        };
        let (left, right) = (side(left, &a)?, side(right, &b)?);
        let keys = (left.schema().columns(), right.schema().columns());
        let plan = LogicalPlanBuilder::from(left)
            .join_detailed(right, kind, keys, None, NullEquality::NullEqualsNull)?
            .build()?;
        let columns: Vec<PlanColumn> = plan.schema().columns().into_iter().take(width).collect();
        let exprs: Vec<Expr> = columns
            .into_iter()
            .map(|column| {
                let name = column.name.clone();
                Expr::Column(column).alias(name)
            })
            .collect();
        Ok(LogicalPlanBuilder::from(plan).project(exprs)?.build()?)
    }

    /// ORDER BY of a set operation or of VALUES: output columns only.
    fn sort_result(&mut self, relation: Relation, order: &[OrderByExpr]) -> Result<Relation> {
        if order.is_empty() {
            return Ok(relation);
        }
        let relation = self.type_columns(relation, None)?;
        let targets: Vec<Target> = relation
            .columns
            .iter()
            .map(|column| Target { name: column.name.clone(), bound: column.bound.clone(), is_hidden: false })
            .collect();
        let mut keys: Vec<SortKey> = Vec::new();
        for by in order {
            let found = match &by.expr {
                ast::Expr::Identifier(ident) => self.target_named(&folded(ident), &targets, "ORDER BY", &by.expr)?,
                expr => self.target_numbered(expr, &targets, "ORDER BY")?,
            };
            let Some(target) = found else {
                if let ast::Expr::Identifier(ident) = &by.expr {
                    let message = format!("column \"{}\" does not exist", folded(ident));
                    return Err(self.at(SqlError::new("42703", message), ident.span));
                }
                let error = SqlError::unsupported("invalid UNION/INTERSECT/EXCEPT ORDER BY clause")
                    .with_detail("Only result column names can be used, not expressions or functions.")
                    .with_hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.");
                return Err(self.at(error, by.expr.span()));
            };
            let (ascending, nulls_first) = direction(&by.options);
            self.check_sortable(&relation.columns[target].bound)?;
            keys.push(SortKey { target, ascending, nulls_first });
        }
        let plan = self.sort(relation.plan, &relation.columns, &keys)?;
        Ok(Relation { plan, columns: relation.columns })
    }

    fn limit(&mut self, plan: LogicalPlan, query: &Query, scope: &Scope<'_>) -> Result<LogicalPlan> {
        let (mut limit, mut offset) = (None, None);
        match &query.limit_clause {
            None => {}
            Some(LimitClause::LimitOffset { limit: l, offset: o, limit_by }) if limit_by.is_empty() => {
                limit = l.as_ref();
                offset = o.as_ref().map(|offset| &offset.value);
            }
            Some(_) => {
                let error = SqlError::syntax("LIMIT #,# syntax is not supported")
                    .with_hint("Use separate LIMIT and OFFSET clauses.");
                return Err(error.into());
            }
        }
        let one = ast::Expr::Value(ast::Value::Number("1".to_owned(), false).into());
        if let Some(fetch) = &query.fetch {
            if fetch.percent {
                return Err(SqlError::syntax("syntax error at or near \"PERCENT\"").into());
            }
            if limit.is_some() {
                return Err(SqlError::syntax("multiple LIMIT clauses not allowed").into());
            }
            limit = Some(fetch.quantity.as_ref().unwrap_or(&one));
        }
        let fetch = self.limit_count(limit, "LIMIT", scope)?;
        let skip = self.limit_count(offset, "OFFSET", scope)?;
        if query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties) {
            if query.order_by.is_none() {
                return Err(SqlError::syntax("WITH TIES cannot be specified without ORDER BY clause").into());
            }
            return super::ties::with_ties(plan, fetch, skip);
        }
        if fetch.is_none() && skip.is_none() {
            return Ok(plan);
        }
        if [&skip, &fetch].into_iter().flatten().any(is_computed_late) {
            if !query.locks.is_empty() {
                return unknown("LIMIT and OFFSET of a locking query that are no constants");
            }
            return Ok(ComputedLimit::plan(plan, skip, fetch));
        }
        Ok(LogicalPlanBuilder::from(plan).limit_by_expr(skip, fetch)?.build()?)
    }

    pub(super) fn limit_count(
        &mut self,
        expr: Option<&ast::Expr>,
        clause: &str,
        scope: &Scope<'_>,
    ) -> Result<Option<Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        if matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("all"))
        {
            return Ok(None);
        }
        let empty = scope.without_items();
        let bound = match self.expr(expr, &empty, Clause::Limit) {
            Err(super::Refusal::Error(error))
                if error.sqlstate == "42703" && !matches!(bare(expr), ast::Expr::Subquery(_)) =>
            {
                let error = SqlError::new("42P10", format!("argument of {clause} must not contain variables"));
                return Err(self.at(error, expr.span()));
            }
            other => other?,
        };
        if bound.is_null() {
            return Ok(None);
        }
        let bound = self.assigned_to(bound, Type::INT8, &format!("argument of {clause} must be type bigint"))?;
        if super::collate::says_any(&bound.expr) {
            // What is known now would be by the order of bytes.
            return unknown(format!("COLLATE in {clause}"));
        }
        // A constant is known now.
        let mut value =
            crate::plan::planner::simplified(self.names.state, bound.expr, &datafusion::common::DFSchema::empty())?;
        if let Expr::Literal(datafusion::common::ScalarValue::Int64(Some(count)), _) = &mut value {
            *count = (*count).min(COUNT_MAX);
        }
        if let Expr::Literal(datafusion::common::ScalarValue::Int64(Some(count)), _) = &value
            && *count < 0
        {
            let (code, what) = if clause == "LIMIT" { ("2201W", "LIMIT") } else { ("2201X", "OFFSET") };
            return Err(SqlError::new(code, format!("{what} must not be negative")).into());
        }
        if matches!(&value, Expr::Literal(value, _) if value.is_null()) {
            return Ok(None);
        }
        Ok(Some(value))
    }

    /// A VALUES list.
    fn values(&mut self, values: &ast::Values, scope: &Scope<'_>) -> Result<Relation> {
        let rows = self.values_rows(values, scope)?;
        let width = rows.first().map_or(0, Vec::len);
        let mut types = Vec::with_capacity(width);
        for at in 0..width {
            let column: Vec<&Bound> = rows.iter().map(|row| &row[at]).collect();
            types.push(self.common_type_or_unknown(&column, "VALUES")?);
        }
        if rows.len() == 1 {
            // One row stays a SELECT, so that untyped values can take a type later.
            let targets: Vec<Target> = rows
                .into_iter()
                .flatten()
                .enumerate()
                .map(|(at, bound)| Target { name: format!("column{}", at + 1), bound, is_hidden: false })
                .collect();
            return project(LogicalPlanBuilder::empty(true).build()?, &targets);
        }
        let rows = rows
            .into_iter()
            .map(|row| {
                row.into_iter()
                    .zip(&types)
                    .map(|(bound, ty)| if ty.is_unknown() { Ok(bound) } else { self.implicit(bound, *ty) })
                    .collect::<Result<Vec<_>>>()
            })
            .collect::<Result<Vec<_>>>()?;
        self.values_relation(rows, &types)
    }

    pub(super) fn values_rows(&mut self, values: &ast::Values, scope: &Scope<'_>) -> Result<Vec<Vec<Bound>>> {
        refuse_row_word(values)?;
        let mut rows: Vec<Vec<Bound>> = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if rows.first().is_some_and(|first| first.len() != row.content.len()) {
                let error = SqlError::syntax("VALUES lists must all be the same length");
                let span = row.content.first().map_or_else(|| values.span(), Spanned::span);
                return Err(self.at(error, span));
            }
            let empty = scope.without_items();
            rows.push(row.content.iter().map(|e| self.expr(e, &empty, Clause::Values)).collect::<Result<_>>()?);
        }
        Ok(rows)
    }

    /// Rows of values, each column of one type.
    pub(super) fn values_relation(&mut self, rows: Vec<Vec<Bound>>, types: &[Type]) -> Result<Relation> {
        // Numerics of several forms become one.
        let width = types.len();
        let mut exprs: Vec<Vec<Expr>> = rows.iter().map(|_| Vec::with_capacity(width)).collect();
        for (at, ty) in types.iter().enumerate() {
            let column: Vec<Bound> = rows.iter().map(|row| row[at].clone()).collect();
            let column = self.one_form(column, *ty)?;
            for (row, bound) in exprs.iter_mut().zip(column) {
                row.push(bound.expr);
            }
        }
        // Some values say their type and others of that type do not (NULL, say).
        let forms = rows_fields(&exprs)?;
        let plan = LogicalPlanBuilder::values_with_schema(exprs, &forms)?.build()?;
        let names: Vec<(String, Type)> =
            types.iter().enumerate().map(|(at, ty)| (format!("column{}", at + 1), *ty)).collect();
        Ok(Relation::of_plan(plan, names))
    }

    /// A relation whose untyped columns take the types that are wanted, or become texts.
    pub(super) fn type_columns(&mut self, relation: Relation, wanted: Option<&[Option<Type>]>) -> Result<Relation> {
        if !relation.columns.iter().any(|column| column.bound.ty.is_unknown()) {
            return Ok(relation);
        }
        let mut plan = relation.plan;
        let mut columns = relation.columns;
        for (at, column) in columns.iter_mut().enumerate() {
            if !column.bound.ty.is_unknown() {
                continue;
            }
            let ty = wanted.and_then(|wanted| wanted.get(at).copied().flatten()).unwrap_or(Type::TEXT);
            let ty = if ty.is_unknown() { Type::TEXT } else { ty };
            let (domain, ty) = under_domain(ty);
            plan = self.of_domain(domain, |this| this.retype(plan, at, ty))?;
            let field = plan.schema().field(at);
            let bound = &mut column.bound;
            (bound.ty, bound.data) = (ty, field.data_type().clone());
            let (qualifier, field) = plan.schema().qualified_field(at);
            bound.expr = Expr::Column(PlanColumn::from((qualifier, field)));
        }
        Ok(Relation { plan, columns })
    }

    /// Gives a type to a column that is an untyped constant or parameter wherever its rows come from.
    fn retype(&mut self, plan: LogicalPlan, at: usize, ty: Type) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let mut exprs = projection.expr;
                let Some(expr) = exprs.get_mut(at) else { return unknown("an untyped column") };
                match expr {
                    Expr::Column(column) => {
                        let inner = projection.input.schema().index_of_column(column)?;
                        let input = self.retype(projection.input.as_ref().clone(), inner, ty)?;
                        return Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?));
                    }
                    Expr::Alias(alias) if matches!(alias.expr.as_ref(), Expr::Column(_)) => {
                        if let Expr::Column(column) = alias.expr.as_ref() {
                            let inner = projection.input.schema().index_of_column(column)?;
                            let input = self.retype(projection.input.as_ref().clone(), inner, ty)?;
                            return Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?));
                        }
                    }
                    Expr::Alias(alias) => {
                        let bound = self.untyped(alias.expr.as_ref().clone())?;
                        *alias.expr = self.implicit(bound, ty)?.expr;
                    }
                    _ => return unknown("an untyped column"),
                }
                Ok(LogicalPlan::Projection(Projection::try_new(exprs, projection.input)?))
            }
            LogicalPlan::Values(values) => {
                let mut rows = values.values;
                let mut column = Vec::with_capacity(rows.len());
                for row in &mut rows {
                    let Some(expr) = row.get_mut(at) else { return unknown("an untyped column") };
                    let bound = self.untyped(std::mem::take(expr))?;
                    column.push(self.implicit(bound, ty)?);
                }
                for (row, bound) in rows.iter_mut().zip(self.one_form(column, ty)?) {
                    if let Some(expr) = row.get_mut(at) {
                        *expr = bound.expr;
                    }
                }
                Ok(LogicalPlanBuilder::values(rows)?.build()?)
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Join(_) => {
                unknown("an untyped column of this kind of query")
            }
            other => {
                let inputs: Vec<LogicalPlan> = other.inputs().into_iter().cloned().collect();
                if inputs.is_empty() || other.schema().fields().len() != inputs[0].schema().fields().len() {
                    return unknown("an untyped column of this kind of query");
                }
                let exprs = other.expressions();
                let inputs = inputs.into_iter().map(|input| self.retype(input, at, ty)).collect::<Result<Vec<_>>>()?;
                Ok(other.with_new_exprs(exprs, inputs)?.recompute_schema()?)
            }
        }
    }

    /// The untyped constant or parameter that an expression is.
    fn untyped(&self, expr: Expr) -> Result<Bound> {
        match &expr {
            Expr::Literal(..) | Expr::Placeholder(_) => {
                Ok(Bound::with_data(expr, Type::UNKNOWN, crate::pg::types::TEXT))
            }
            _ => unknown("an untyped expression"),
        }
    }

    /// A relation with its columns brought to types, each of which it can be brought to implicitly.
    pub(super) fn coerce_columns(&mut self, relation: Relation, types: &[Type]) -> Result<Relation> {
        let same = |column: &Column, ty: &Type| {
            column.bound.ty.oid == ty.oid && (*ty != BPCHAR || !has_length(column.bound.ty))
        };
        if relation.columns.iter().zip(types).all(|(column, ty)| same(column, ty)) {
            return Ok(relation);
        }
        let mut targets = Vec::with_capacity(types.len());
        for (column, ty) in relation.columns.into_iter().zip(types) {
            let bound = self.implicit(column.bound, *ty)?;
            targets.push(Target { name: column.name, bound, is_hidden: false });
        }
        project(relation.plan, &targets)
    }
}

/// Whether a count is known only when the query runs, whatever its parameters are.
fn is_computed_late(count: &Expr) -> bool {
    let is_late = |expr: &Expr| match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => false,
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        expr => matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        ),
    };
    count.exists(|expr| Ok(is_late(expr))).unwrap_or(true)
}

/// Fields of the columns of rows that are of one form each.
fn rows_fields(rows: &[Vec<Expr>]) -> Result<DFSchemaRef> {
    let empty = DFSchema::empty();
    let first = rows.first().map(Vec::as_slice).unwrap_or_default();
    let fields = first.iter().enumerate().map(|(at, value)| {
        let data = value.get_type(&empty)?;
        Ok(Field::new(format!("column{}", at + 1), data, true))
    });
    let fields = fields.collect::<datafusion::common::Result<Vec<_>>>()?;
    Ok(Arc::new(DFSchema::try_from(Schema::new(fields))?))
}

/// Name of a set operation's column within the plan.
fn set_column(name: &str, at: usize) -> String {
    format!("{name}{}{at}", crate::naming::MARK)
}

fn unaliased(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(alias) => *alias.expr,
        other => other,
    }
}

/// `VALUES ROW(1)` and `VALUE (1)` are MySQL's.
pub(super) fn refuse_row_word(values: &ast::Values) -> Result<()> {
    match (values.explicit_row, values.value_keyword) {
        (true, _) => Err(SqlError::syntax("syntax error at or near \"ROW\"").into()),
        (_, true) => Err(SqlError::syntax("syntax error at or near \"VALUE\"").into()),
        _ => Ok(()),
    }
}

/// Whether a query names a relation without a schema.
fn mentions(query: &Query, name: &str) -> bool {
    use std::ops::ControlFlow;

    use resurgam_ast::AstWalk;
    struct Find<'n>(&'n str);
    impl ast::Visitor for Find<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
            if let ast::TableFactor::Table { name, args: None, .. } = factor
                && let [part] = name.0.as_slice()
                && part.as_ident().map(folded).as_deref() == Some(self.0)
            {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    query.walk(&mut Find(name)).is_break()
}
