//! ORDER BY, DISTINCT and DISTINCT ON.

use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::sql::sqlparser::ast::{self, OrderByExpr, OrderByOptions, Spanned};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bound::{Bound, Column, Relation, Type};
use super::expr::Clause;
use super::scope::{Scope, folded};
use super::select::{Target, UniqueNames};
use super::{Analyzer, Result};
use crate::wire::SqlError;

/// One key of ORDER BY.
#[derive(Clone, Copy, Debug)]
pub(super) struct SortKey {
    /// Which of the targets.
    pub target: usize,
    pub ascending: bool,
    pub nulls_first: bool,
}

/// Direction and place of nulls: by default nulls are above all values.
pub(super) fn direction(options: &OrderByOptions) -> (bool, bool) {
    let ascending = options.asc.unwrap_or(true);
    (ascending, options.nulls_first.unwrap_or(!ascending))
}

/// Arrays are compared as their elements are.
fn of_elements(ty: u32) -> u32 {
    crate::pg::types::element_oid(ty).unwrap_or(ty)
}

impl Analyzer<'_> {
    /// The target that a bare name means; ambiguous if there are several different ones.
    pub(super) fn target_named(
        &self,
        name: &str,
        targets: &[Target],
        clause: &str,
        expr: &ast::Expr,
    ) -> Result<Option<usize>> {
        let mut found: Option<usize> = None;
        for (at, target) in targets.iter().enumerate() {
            if target.is_hidden || target.name != name {
                continue;
            }
            match found {
                None => found = Some(at),
                Some(before) if targets[before].bound.expr == target.bound.expr => {}
                Some(_) => {
                    let error = SqlError::new("42702", format!("{clause} \"{name}\" is ambiguous"));
                    return Err(self.at(error, expr.span()));
                }
            }
        }
        Ok(found)
    }

    /// The target that a number means.
    pub(super) fn target_numbered(&self, expr: &ast::Expr, targets: &[Target], clause: &str) -> Result<Option<usize>> {
        let ast::Expr::Value(value) = expr else { return Ok(None) };
        match &value.value {
            ast::Value::Number(text, _) => {
                let Ok(number) = text.parse::<usize>() else {
                    let error = SqlError::syntax(format!("non-integer constant in {clause}"));
                    return Err(self.at(error, expr.span()));
                };
                let visible = targets.iter().filter(|target| !target.is_hidden).count();
                if number == 0 || number > visible {
                    let error = SqlError::new("42P10", format!("{clause} position {number} is not in select list"));
                    return Err(self.at(error, expr.span()));
                }
                Ok(Some(number - 1))
            }
            ast::Value::Placeholder(_) => Ok(None),
            _ => {
                let error = SqlError::syntax(format!("non-integer constant in {clause}"));
                Err(self.at(error, expr.span()))
            }
        }
    }

    /// ORDER BY of a SELECT: an output column by name or number, or any expression over the input, which
    /// becomes a hidden target.
    pub(super) fn sort_clause(
        &mut self,
        order: &[OrderByExpr],
        scope: &Scope<'_>,
        targets: &mut Vec<Target>,
    ) -> Result<Vec<SortKey>> {
        let mut keys: Vec<SortKey> = Vec::with_capacity(order.len());
        for by in order {
            if by.with_fill.is_some() {
                return Err(SqlError::syntax("WITH FILL is not PostgreSQL's").into());
            }
            let target = self.sort_target(&by.expr, scope, targets, "ORDER BY")?;
            let (ascending, nulls_first) = direction(&by.options);
            if !keys.iter().any(|key| key.target == target) {
                keys.push(SortKey { target, ascending, nulls_first });
            }
        }
        Ok(keys)
    }

    fn sort_target(
        &mut self,
        expr: &ast::Expr,
        scope: &Scope<'_>,
        targets: &mut Vec<Target>,
        clause: &str,
    ) -> Result<usize> {
        if let ast::Expr::Identifier(ident) = expr
            && let Some(at) = self.target_named(&folded(ident), targets, clause, expr)?
        {
            return self.sorted_target(at, targets);
        }
        if let Some(at) = self.target_numbered(expr, targets, clause)? {
            return self.sorted_target(at, targets);
        }
        let bound = self.expr(expr, scope, Clause::OrderBy)?;
        let bound = self.or_text(bound)?;
        self.check_sortable(&bound)?;
        match targets.iter().position(|target| target.bound.expr == bound.expr) {
            Some(at) => Ok(at),
            None => {
                let name = format!("{}sort{}", crate::naming::MARK, targets.len());
                targets.push(Target { name, bound, is_hidden: true });
                Ok(targets.len() - 1)
            }
        }
    }

    /// A target that is named, once it has a type, which has to have an order.
    fn sorted_target(&mut self, at: usize, targets: &mut [Target]) -> Result<usize> {
        targets[at].bound = self.or_text(targets[at].bound.clone())?;
        self.check_sortable(&targets[at].bound)?;
        Ok(at)
    }

    /// `42883` for a type that has no order.
    pub(super) fn check_sortable(&self, bound: &Bound) -> Result<()> {
        use crate::pg::types::oid;
        super::record::refuse_record(bound, "the order")?;
        if matches!(of_elements(bound.ty.oid), oid::JSON | oid::JSONPATH | oid::XID | oid::ACLITEM) {
            let message = format!("could not identify an ordering operator for type {}", bound.ty.name());
            let error =
                SqlError::new("42883", message).with_hint("Use an explicit ordering operator or modify the query.");
            return Err(self.at(error, bound.span));
        }
        Ok(())
    }

    /// `plan` sorted by columns of it.
    pub(super) fn sort(&mut self, plan: LogicalPlan, columns: &[Column], keys: &[SortKey]) -> Result<LogicalPlan> {
        let mut sorts = Vec::with_capacity(keys.len());
        for key in keys {
            let bound = &columns[key.target].bound;
            sorts.push(SortExpr::new(self.order_key(bound)?, key.ascending, key.nulls_first));
        }
        Ok(LogicalPlanBuilder::from(plan).sort(sorts)?.build()?)
    }

    /// What a value is sorted by.
    pub(super) fn order_key(&self, bound: &Bound) -> Result<Expr> {
        Ok(bound.expr.clone())
    }

    /// Each row once.
    pub(super) fn distinct(&mut self, relation: &Relation) -> Result<LogicalPlan> {
        for column in &relation.columns {
            self.check_equality(&column.bound)?;
        }
        Ok(LogicalPlanBuilder::from(relation.plan.clone()).distinct()?.build()?)
    }

    /// `42883` for a type that has no equality.
    pub(super) fn check_equality(&self, bound: &Bound) -> Result<()> {
        use crate::pg::types::oid;
        super::record::refuse_record(bound, "equality")?;
        if matches!(of_elements(bound.ty.oid), oid::JSON | oid::JSONPATH) {
            let message = format!("could not identify an equality operator for type {}", bound.ty.name());
            return Err(self.at(SqlError::new("42883", message), bound.span));
        }
        Ok(())
    }

    /// `42883` for what compares arrays whose elements have no equality, or no order. PostgreSQL notices it at the first row.
    pub(super) fn check_elements(&self, ty: Type, ordered: bool, span: Span) -> Result<()> {
        use crate::pg::types::{element_oid, oid};
        let what = match element_oid(ty.oid) {
            Some(oid::JSON | oid::JSONPATH | oid::XID | oid::ACLITEM) if ordered => "a comparison function",
            Some(oid::JSON | oid::JSONPATH) => "an equality operator",
            _ => return Ok(()),
        };
        let element = Type::of(of_elements(ty.oid)).name();
        let message = format!("could not identify {what} for type {element}");
        Err(self.at(SqlError::new("42883", message), span))
    }

    /// The expressions of DISTINCT ON, as targets.
    pub(super) fn distinct_on_clause(
        &mut self,
        exprs: &[ast::Expr],
        scope: &Scope<'_>,
        targets: &mut Vec<Target>,
        sorted: &[SortKey],
    ) -> Result<Vec<usize>> {
        let mut on = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let at = self.sort_target(expr, scope, targets, "DISTINCT ON")?;
            if !on.contains(&at) {
                on.push(at);
            }
        }
        // The keys of ORDER BY begin with them, in any order.
        let leading = sorted.iter().take_while(|key| on.contains(&key.target)).count();
        let others = sorted[leading..].iter().any(|key| on.contains(&key.target));
        if !sorted.is_empty() && (others || leading < on.len() && leading < sorted.len()) {
            let error =
                SqlError::new("42P10", "SELECT DISTINCT ON expressions must match initial ORDER BY expressions");
            return Err(self.at(
                error,
                exprs.first().map_or_else(datafusion::sql::sqlparser::tokenizer::Span::empty, Spanned::span),
            ));
        }
        Ok(on)
    }

    /// The first row of each group of rows that are alike in the targets `on`.
    pub(super) fn distinct_on(
        &mut self,
        plan: LogicalPlan,
        targets: Vec<Target>,
        on: &[usize],
        sorted: &[SortKey],
    ) -> Result<Relation> {
        let mut names = UniqueNames::new();
        let all = targets.iter().map(|target| target.bound.expr.clone().alias(names.name(&target.name)));
        // The plan has an aggregate for each column, and only one for alike ones: so they are columns, which stay apart.
        let plan = LogicalPlanBuilder::from(plan).project(all.collect::<Vec<_>>())?.build()?;
        let places: Vec<Expr> = (0..targets.len())
            .map(|at| Expr::Column(datafusion::common::Column::from(plan.schema().qualified_field(at))))
            .collect();
        let on_exprs: Vec<Expr> = on.iter().map(|at| places[*at].clone()).collect();
        let in_order = sorted.iter().zip(on).all(|(key, at)| key.target == *at);
        let shown = targets.iter().filter(|target| !target.is_hidden).count();
        // What is not selected is kept where the rows are sorted once more.
        let visible: Vec<usize> = (0..targets.len()).filter(|at| !targets[*at].is_hidden || !in_order).collect();
        let mut names = UniqueNames::new();
        let select: Vec<Expr> =
            visible.iter().map(|at| places[*at].clone().alias(names.name(&targets[*at].name))).collect();
        // All of ON first: the plan wants its sort to begin with them.
        let key = |at: usize| {
            let found = sorted.iter().find(|key| key.target == at);
            found.map_or((true, false), |key| (key.ascending, key.nulls_first))
        };
        let mut sorts: Vec<SortExpr> = Vec::new();
        for at in on {
            let (ascending, nulls_first) = key(*at);
            sorts.push(SortExpr::new(places[*at].clone(), ascending, nulls_first));
        }
        for key in sorted.iter().filter(|key| !on.contains(&key.target)) {
            sorts.push(SortExpr::new(places[key.target].clone(), key.ascending, key.nulls_first));
        }
        let mut known = Vec::with_capacity(sorts.len());
        sorts.retain(|sort| {
            let first = !known.contains(&sort.expr);
            if first {
                known.push(sort.expr.clone());
            }
            first
        });
        let plan = LogicalPlanBuilder::from(plan).distinct_on(on_exprs, select, Some(sorts))?.build()?;
        let columns: Vec<Column> = visible
            .iter()
            .enumerate()
            .map(|(at, target)| {
                let target = &targets[*target];
                let (qualifier, field) = plan.schema().qualified_field(at);
                let expr = Expr::Column(datafusion::common::Column::from((qualifier, field)));
                let origin = target.bound.as_it_is();
                Column { name: target.name.clone(), bound: Bound { expr, origin, ..target.bound.clone() } }
            })
            .collect();
        let mut relation = Relation { plan, columns };
        if !in_order {
            let keys: Vec<SortKey> = sorted.iter().copied().take_while(|key| on.contains(&key.target)).collect();
            relation.plan = self.sort(relation.plan, &relation.columns, &keys)?;
            relation = self.first_columns(relation, shown)?;
        }
        Ok(relation)
    }
}
