//! Plans that the short path can take.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use resurgam_engine::Table;

use super::expr::FastExpr;
use super::output::Output;
use super::range::through;
use super::range_write::RangeWrite;
use crate::dml::{Op, WritePlan};
use crate::planner::{QueryPlan, engine_table, settled, simplified};
use crate::planning::Planning;
use crate::range::{ProbeKind, probes};
use crate::table::KEY_COLUMN;

/// Most rows of a VALUES list that is inserted by the short path.
const ROWS_MAX: usize = 64;

/// One row of a table by the full key of one of its trees.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub table: Arc<Table>,
    /// `None` is the clustered tree.
    pub index: Option<usize>,
    /// Key column and its value, in key order.
    pub key: Vec<(usize, FastExpr)>,
    /// What else the row has to satisfy.
    pub residual: Option<FastExpr>,
}

/// A SELECT of one row by its key.
#[derive(Debug)]
pub(crate) struct Fast {
    pub lookup: Lookup,
    pub output: Output,
}

/// A write of one row by its key, or of a few given rows.
#[derive(Debug)]
pub(crate) enum FastWrite {
    /// For each row, each column's value.
    Insert(Vec<Vec<FastExpr>>),
    /// New values of the columns that change.
    Update {
        lookup: Lookup,
        set: Vec<(usize, FastExpr)>,
    },
    Delete(Lookup),
    /// An update or a deletion of a few rows.
    Range(RangeWrite),
}

/// Looks through nodes that only rename.
fn through_aliases(mut plan: &LogicalPlan) -> &LogicalPlan {
    while let LogicalPlan::SubqueryAlias(alias) = plan {
        plan = &alias.input;
    }
    plan
}

/// `exprs` over what is below the projections of `input`: the optimizer puts one there for what occurs
/// several times in them.
fn inlined<'p>(exprs: &[Expr], mut input: &'p LogicalPlan) -> Option<(Vec<Expr>, &'p LogicalPlan)> {
    let mut exprs = exprs.to_vec();
    while let LogicalPlan::Projection(below) = through_aliases(input) {
        exprs = exprs.into_iter().map(|expr| through(expr, &below.expr, &below.schema)).collect::<Option<_>>()?;
        input = &below.input;
    }
    Some((exprs, input))
}

fn lookup(plan: &LogicalPlan) -> Option<(Lookup, DFSchemaRef)> {
    let LogicalPlan::Filter(filter) = through_aliases(plan) else { return None };
    let LogicalPlan::TableScan(scan) = through_aliases(&filter.input) else { return None };
    if scan.fetch.is_some() {
        return None;
    }
    let (table, _) = engine_table(&scan.source)?;
    let full: DFSchemaRef =
        Arc::new(DFSchema::try_from_qualified_schema(scan.table_name.clone(), scan.source.schema().as_ref()).ok()?);
    let conjuncts = split_conjunction(&filter.predicate);
    let keys = std::iter::once((None, &table.primary_key))
        .chain(table.indexes.iter().enumerate().filter(|(_, i)| i.unique).map(|(i, index)| (Some(i), &index.columns)));
    for (index, columns) in keys {
        if columns.is_empty() {
            continue;
        }
        if let Some((key, used)) = pinned(&table, columns, &conjuncts, &full) {
            let mut residual: Option<FastExpr> = None;
            for (at, conjunct) in conjuncts.iter().enumerate() {
                if used.contains(&at) {
                    continue;
                }
                let next = FastExpr::new(conjunct, Some(&table), &full)?;
                residual = Some(match residual {
                    Some(before) => FastExpr::And(Box::new(before), Box::new(next)),
                    None => next,
                });
            }
            return Some((Lookup { table: Arc::clone(&table), index, key, residual }, full));
        }
    }
    None
}

/// For each key column the value it must equal, and which conjuncts say so.
fn pinned(
    table: &Table,
    columns: &[usize],
    conjuncts: &[&Expr],
    schema: &DFSchema,
) -> Option<(Vec<(usize, FastExpr)>, Vec<usize>)> {
    let mut key = Vec::with_capacity(columns.len());
    let mut used = Vec::with_capacity(columns.len());
    for &column in columns {
        let (at, value) = conjuncts.iter().enumerate().find_map(|(at, conjunct)| {
            let mut found = probes(table, conjunct);
            match (found.pop(), found.is_empty()) {
                (Some(probe), true) if probe.column == column => match probe.kind {
                    ProbeKind::In(mut values) if values.len() == 1 => {
                        Some((at, FastExpr::new(&values.pop()?, None, schema)?))
                    }
                    _ => None,
                },
                _ => None,
            }
        })?;
        key.push((column, value));
        used.push(at);
    }
    Some((key, used))
}

impl Fast {
    pub(crate) fn select(state: &SessionState, plan: &QueryPlan) -> Option<Self> {
        if !Planning::of(state.config()).short_path {
            return None;
        }
        let mut node = through_aliases(&plan.logical);
        if let LogicalPlan::Limit(limit) = node {
            // One row at most comes anyway.
            let fetch = limit.get_fetch_type().ok()?;
            let skip = limit.get_skip_type().ok()?;
            use datafusion::logical_expr::{FetchType, SkipType};
            match (skip, fetch) {
                (SkipType::Literal(0), FetchType::Literal(n)) if n != Some(0) => node = through_aliases(&limit.input),
                _ => return None,
            }
        }
        let (exprs, input) = match node {
            LogicalPlan::Projection(projection) => inlined(&projection.expr, &projection.input)?,
            all => (all.schema().columns().into_iter().map(Expr::Column).collect(), all),
        };
        let (lookup, full) = lookup(input)?;
        let output = Output::new(&exprs, plan.logical.schema().fields(), &lookup.table, &full)?;
        Some(Self { lookup, output })
    }
}

impl FastWrite {
    pub(crate) fn new(state: &SessionState, plan: &WritePlan) -> Option<Self> {
        if !Planning::of(state.config()).short_path {
            return None;
        }
        if plan.returning.as_ref().is_some_and(|returning| returning.short.is_none()) {
            return None;
        }
        match plan.op {
            Op::Insert => insert(state, plan),
            Op::Update => {
                let LogicalPlan::Projection(projection) = through_aliases(&plan.source.logical) else { return None };
                let (exprs, input) = inlined(projection.expr.get(..plan.table.columns.len())?, &projection.input)?;
                let set = |full: &DFSchema| -> Option<Vec<(usize, FastExpr)>> {
                    let mut set = Vec::new();
                    for (column, expr) in exprs.iter().enumerate() {
                        let expr = FastExpr::new(expr, Some(&plan.table), full)?;
                        if expr.column() != Some(column) {
                            set.push((column, expr));
                        }
                    }
                    Some(set)
                };
                match lookup(input) {
                    Some((lookup, full)) => {
                        let set = set(&full)?;
                        (lookup.table.id == plan.table.id).then_some(Self::Update { lookup, set })
                    }
                    None => RangeWrite::new(input, &plan.table, |full| Some(Some(set(full)?))).map(Self::Range),
                }
            }
            Op::Delete => {
                // With RETURNING the old row comes before the key; that is all that the scan gives.
                let (plain, input) = match through_aliases(&plan.source.logical) {
                    LogicalPlan::Projection(projection) => {
                        let (key, old) = projection.expr.split_last()?;
                        let plain = old.iter().all(|expr| matches!(unaliased(expr), Expr::Column(_)));
                        (plain && is_key(key), projection.input.as_ref())
                    }
                    all => (true, all),
                };
                if !plain {
                    return None;
                }
                match lookup(input) {
                    Some((lookup, _)) => (lookup.table.id == plan.table.id).then_some(Self::Delete(lookup)),
                    None => RangeWrite::new(input, &plan.table, |_| Some(None)).map(Self::Range),
                }
            }
        }
    }
}

fn is_key(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_key(&alias.expr),
        Expr::Column(column) => column.name == KEY_COLUMN,
        _ => false,
    }
}

fn insert(state: &SessionState, plan: &WritePlan) -> Option<FastWrite> {
    let LogicalPlan::Projection(projection) = &plan.source.logical else { return None };
    let mut node = through_aliases(&projection.input);
    // Names of the VALUES columns that a projection in between gives other names.
    let mut renamed: HashMap<String, Expr> = HashMap::new();
    if let LogicalPlan::Projection(inner) = node {
        for (expr, field) in inner.expr.iter().zip(inner.schema.fields()) {
            renamed.insert(field.name().clone(), unaliased(expr).clone());
        }
        node = through_aliases(&inner.input);
    }
    let LogicalPlan::Values(values) = node else { return None };
    if values.values.len() > ROWS_MAX {
        return None;
    }
    if let Some(conflict) = &plan.conflict
        && (values.values.len() > 1 || conflict.short.is_none())
    {
        return None;
    }
    let empty = DFSchema::empty();
    let mut rows = Vec::with_capacity(values.values.len());
    for row in &values.values {
        let mut columns = Vec::with_capacity(plan.table.columns.len());
        for expr in &projection.expr {
            let mut expr = unaliased(expr);
            if let Expr::Column(column) = expr
                && let Some(inner) = renamed.get(&column.name)
            {
                expr = inner;
            }
            let expr = match expr {
                Expr::Column(column) => {
                    let at = values.schema.fields().iter().position(|field| field.name() == &column.name)?;
                    row.get(at)?
                }
                other => other,
            };
            let expr = settled(state, expr.clone(), &empty).and_then(|expr| simplified(state, expr, &empty)).ok()?;
            columns.push(FastExpr::new(&expr, None, &empty)?);
        }
        rows.push(columns);
    }
    Some(FastWrite::Insert(rows))
}

pub(super) fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}
