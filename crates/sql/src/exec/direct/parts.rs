//! A planned query about one table, taken apart from the top: what comes out, sorted and limited how, of
//! which rows.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, FetchType, LogicalPlan, Operator, SkipType, SortExpr};
use resurgam_engine::{ColumnType, Table};

use super::expr::{LIST_MAX, RowExpr};
use crate::exec::access_path::{AccessPath, KeyValues, Probe, ProbeKind, probe_column, probes};
use crate::exec::apply;
use crate::exec::estimate::TableEstimate;
use crate::exec::table::{alias_of, engine_table, estimate_of};
use crate::pg::functions::{ORDER_KEY, numeric};

/// See the module's head. Expressions are over the table's columns.
pub(crate) struct Parts<'p> {
    pub output: Vec<Expr>,
    /// Over the groups, if there are any, as the output is.
    pub sort: Vec<SortExpr>,
    pub group: Option<Grouping>,
    pub skip: usize,
    pub fetch: Option<usize>,
    pub filter: Option<Cow<'p, Expr>>,
    pub table: Arc<Table>,
    /// What the statement calls it, if that is another name.
    pub alias: Option<Arc<str>>,
    estimate: Option<Arc<TableEstimate>>,
    pub schema: DFSchema,
    /// The scan is that of the rows to be written.
    pub target: bool,
}

/// GROUP BY, aggregates, DISTINCT.
pub(crate) struct Grouping {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Expr>,
    /// Of the keys and then the aggregates.
    pub schema: DFSchemaRef,
}

impl Grouping {
    /// An expression over the groups, over what is grouped; `None` if it needs an aggregate.
    pub(super) fn below(&self, expr: &Expr) -> Option<Expr> {
        through(expr.clone(), &self.keys, &self.schema)
    }
}

pub(super) fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// `expr` over the input of a projection, instead of over its output. What is volatile must be
/// evaluated once, so it stays there.
fn through(expr: Expr, exprs: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let mut found = true;
    let expr = expr.transform_up(|node| {
        let Expr::Column(column) = &node else { return Ok(Transformed::no(node)) };
        let mut named = schema.fields().iter().zip(exprs).filter(|(field, _)| field.name() == &column.name);
        match (named.next(), named.next()) {
            (Some((_, expr)), None) if !expr.is_volatile() => Ok(Transformed::yes(unaliased(expr).clone())),
            _ => {
                found = false;
                Ok(Transformed::no(node))
            }
        }
    });
    expr.data().ok().filter(|_| found)
}

impl<'p> Parts<'p> {
    pub(crate) fn of(plan: &'p LogicalPlan) -> Option<Self> {
        // Those of the first projection stand as they are: each comes out once.
        let mut output: Option<Vec<Expr>> = None;
        let (mut sort, mut filter): (Vec<SortExpr>, Option<Cow<'p, Expr>>) = (Vec::new(), None);
        let mut limit: Option<(usize, Option<usize>)> = None;
        let mut group: Option<Grouping> = None;
        let mut node = plan;
        let mut is_aliased = false;
        // Of what comes after what, from the top: limit, sort, filter, scan.
        let mut depth = 0;
        loop {
            match node {
                LogicalPlan::SubqueryAlias(alias) => {
                    is_aliased = true;
                    node = &alias.input;
                }
                LogicalPlan::Limit(found) if depth == 0 => {
                    depth = 1;
                    limit = Some(match (found.get_skip_type().ok()?, found.get_fetch_type().ok()?) {
                        (SkipType::Literal(skip), FetchType::Literal(fetch)) => (skip, fetch),
                        _ => return None,
                    });
                    node = &found.input;
                }
                LogicalPlan::Sort(found) if depth < 2 => {
                    depth = 2;
                    if found.fetch.is_some() && limit.is_none() {
                        limit = Some((0, found.fetch));
                    }
                    sort.clone_from(&found.expr);
                    node = &found.input;
                }
                LogicalPlan::Aggregate(found) if depth < 3 && group.is_none() => {
                    depth = 2;
                    let (keys, aggregates) = (found.group_expr.clone(), found.aggr_expr.clone());
                    group = Some(Grouping { keys, aggregates, schema: Arc::clone(&found.schema) });
                    node = &found.input;
                }
                LogicalPlan::Projection(projection) => {
                    let below = |expr| through(expr, &projection.expr, &projection.schema);
                    // What a condition has several times is computed below it.
                    if let Some(found) = filter.take() {
                        filter = Some(Cow::Owned(below(found.into_owned())?));
                    }
                    if let Some(group) = &mut group {
                        for expr in group.keys.iter_mut().chain(&mut group.aggregates) {
                            *expr = below(expr.clone())?;
                        }
                        node = &projection.input;
                        continue;
                    }
                    output = Some(match output {
                        None => projection.expr.clone(),
                        Some(output) => output.into_iter().map(below).collect::<Option<_>>()?,
                    });
                    for by in &mut sort {
                        by.expr = below(by.expr.clone())?;
                    }
                    node = &projection.input;
                }
                LogicalPlan::Filter(found) if depth < 3 => {
                    depth = 3;
                    filter = Some(Cow::Borrowed(&found.predicate));
                    node = &found.input;
                }
                LogicalPlan::TableScan(scan) => {
                    // What a scan is told of predicates and limits is said again above it.
                    if (filter.is_none() && !scan.filters.is_empty()) || (limit.is_none() && scan.fetch.is_some()) {
                        return None;
                    }
                    let (table, target) = engine_table(&scan.source)?;
                    let (estimate, alias) = (estimate_of(&scan.source), alias_of(&scan.source));
                    let schema = scan.source.schema();
                    let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), schema.as_ref()).ok()?;
                    let (skip, fetch) = limit.unwrap_or((0, None));
                    let output =
                        output.unwrap_or_else(|| plan.schema().columns().into_iter().map(Expr::Column).collect());
                    let mut parts =
                        Self { output, sort, group, skip, fetch, filter, table, alias, estimate, schema, target };
                    if is_aliased {
                        parts.unqualify()?;
                    }
                    return Some(parts);
                }
                _ => return None,
            }
        }
    }

    /// Takes the qualifiers off columns: there is one table, which has another name above an alias than below.
    fn unqualify(&mut self) -> Option<()> {
        let bare = |expr: Expr| {
            let done = expr.transform_up(|node| {
                Ok(match node {
                    Expr::Column(column) if column.relation.is_some() => {
                        Transformed::yes(Expr::Column(Column { relation: None, ..column }))
                    }
                    other => Transformed::no(other),
                })
            });
            done.data().ok()
        };
        let all = |exprs: &mut Vec<Expr>| {
            *exprs = std::mem::take(exprs).into_iter().map(bare).collect::<Option<_>>()?;
            Some(())
        };
        self.filter = match self.filter.take() {
            Some(filter) => Some(Cow::Owned(bare(filter.into_owned())?)),
            None => None,
        };
        // What is over groups has the names of these.
        match &mut self.group {
            Some(group) => {
                all(&mut group.keys)?;
                all(&mut group.aggregates)
            }
            None => {
                for by in &mut self.sort {
                    by.expr = bare(by.expr.clone())?;
                }
                all(&mut self.output)
            }
        }
    }

    /// In the order in which they are evaluated: as in a plan, what costs less goes first.
    fn conjuncts(&self) -> Vec<&Expr> {
        let mut all = self.filter.as_deref().map(split_conjunction).unwrap_or_default();
        all.sort_by_cached_key(|conjunct| apply::cost(conjunct));
        all
    }

    /// The columns of the table that anything reads; `None` if something reads more than columns.
    pub(super) fn columns(&self) -> Option<Vec<usize>> {
        let sort = self.sort.iter().map(|by| &by.expr);
        // What comes out, and in which order, is over the groups, if there are any.
        let over_rows: Vec<&Expr> = match &self.group {
            None => self.output.iter().chain(sort).collect(),
            Some(group) => group.keys.iter().chain(&group.aggregates).collect(),
        };
        let mut columns = Vec::new();
        for expr in over_rows.into_iter().chain(self.filter.as_deref()) {
            // What these read of a row is not among the references to columns.
            let reads_more = |node: &Expr| {
                use Expr::{Exists, InSubquery, OuterReferenceColumn, ScalarSubquery, SetComparison};
                Ok(matches!(
                    node,
                    Exists(_) | InSubquery(_) | OuterReferenceColumn(..) | ScalarSubquery(_) | SetComparison(_)
                ))
            };
            if expr.exists(reads_more).unwrap_or(true) {
                return None;
            }
            for column in expr.column_refs() {
                let at = self.table.columns.iter().position(|c| c.name == column.name)?;
                if !columns.contains(&at) {
                    columns.push(at);
                }
            }
        }
        Some(columns)
    }

    /// How each tree can be read, as far as it is worth it, the clustered one first.
    pub(crate) fn paths(&self) -> Vec<AccessPath<Expr>> {
        let probes: Vec<Probe> = self.conjuncts().iter().flat_map(|conjunct| probes(&self.table, conjunct)).collect();
        AccessPath::worth_a_look(AccessPath::all(&self.table, &probes).collect(), self.estimate.as_deref())
    }

    /// An expression over a row of the table; `None` if it needs more than that.
    pub(super) fn over_row(&self, expr: &Expr) -> Option<RowExpr> {
        RowExpr::new(expr, Some(&self.table), &self.schema)
    }

    /// A path whose values are evaluated without a row; not one by an array or a long list, which planned
    /// operators look through faster than one row after the other.
    pub(super) fn direct(&self, path: &AccessPath<Expr>) -> Option<AccessPath<RowExpr>> {
        let is_short = |values: &KeyValues<Expr>| matches!(values, KeyValues::Each(list) if list.len() <= LIST_MAX);
        if !path.equal.iter().all(is_short) {
            return None;
        }
        path.try_map(|value| RowExpr::new(value, None, &self.schema).ok_or(())).ok()
    }

    /// The condition that rows must satisfy.
    pub(super) fn whole_filter(&self) -> Option<Option<RowExpr>> {
        self.filter.as_deref().map(|filter| self.over_row(filter)).map_or(Some(None), |filter| filter.map(Some))
    }

    /// What a row must satisfy beside having the values of `path`, whose key it has.
    pub(super) fn residual(&self, path: &AccessPath<Expr>) -> Option<Option<RowExpr>> {
        let key = path.key_columns(&self.table);
        let is_in_key = |conjunct: &Expr| match probes(&self.table, conjunct).as_slice() {
            [Probe { column, kind: ProbeKind::In(values) }] => match values.as_slice() {
                [value] => {
                    let given = key.iter().zip(&path.equal).find(|(at, _)| *at == column);
                    given.is_some_and(|(_, known)| known.single() == Some(value))
                }
                _ => false,
            },
            _ => false,
        };
        let mut residual: Option<RowExpr> = None;
        for conjunct in self.conjuncts() {
            if is_in_key(conjunct) {
                continue;
            }
            let next = self.over_row(conjunct)?;
            residual = Some(match residual {
                Some(before) => RowExpr::Both(Box::new(before), Box::new(next)),
                None => next,
            });
        }
        Some(residual)
    }

    /// What a row must satisfy beside being in the ranges of `path`, if these are exact.
    pub(super) fn residual_in_ranges(&self, path: &AccessPath<Expr>) -> Option<Option<RowExpr>> {
        let mut residual: Option<RowExpr> = None;
        for conjunct in self.conjuncts() {
            if self.is_said_by_ranges(conjunct, path) {
                continue;
            }
            let next = self.over_row(conjunct)?;
            residual = Some(match residual {
                Some(before) => RowExpr::Both(Box::new(before), Box::new(next)),
                None => next,
            });
        }
        Some(residual)
    }

    /// Whether a condition is a comparison of columns of the clustered key that is one of the path's values or
    /// bounds, of a type whose keys are its values.
    fn is_said_by_ranges(&self, conjunct: &Expr, path: &AccessPath<Expr>) -> bool {
        // Of the types below, one cast of a column keeps its values: that to a wider integer.
        let is_column = |expr: &Expr| probe_column(&self.table, expr).is_some();
        let wanted = match conjunct {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq,
                right,
            }) if is_column(left) || is_column(right) => 1,
            Expr::Between(between) if !between.negated && is_column(&between.expr) => 2,
            _ => return false,
        };
        let found = probes(&self.table, conjunct);
        let key = path.key_columns(&self.table);
        let is_said = |probe: &Probe| {
            let ty = self.table.columns.get(probe.column).map(|column| column.ty);
            let is_plain = matches!(
                ty,
                Some(
                    ColumnType::Int2
                        | ColumnType::Int4
                        | ColumnType::Int8
                        | ColumnType::Enum(_)
                        | ColumnType::Date
                        | ColumnType::Timestamp(_)
                        | ColumnType::TimestampTz(_)
                )
            );
            let is_next = key.get(path.equal.len()) == Some(&probe.column);
            let is = |bound: &Option<(Expr, bool)>, value: &Expr, inclusive: bool| {
                is_next && bound.as_ref().is_some_and(|(known, known_so)| known == value && *known_so == inclusive)
            };
            is_plain
                && match &probe.kind {
                    ProbeKind::In(values) => match values.as_slice() {
                        [value] => {
                            let mut known = key.iter().zip(&path.equal).filter(|(at, _)| **at == probe.column);
                            known.any(|(_, known)| known.single() == Some(value))
                        }
                        _ => false,
                    },
                    ProbeKind::InArray(_) | ProbeKind::Prefix { .. } => false,
                    ProbeKind::Above { value, inclusive } => is(&path.low, value, *inclusive),
                    ProbeKind::Below { value, inclusive } => is(&path.high, value, *inclusive),
                }
        };
        path.index.is_none() && found.len() == wanted && found.iter().all(is_said)
    }

    /// Whether a path's rows come in the order of a column, and then: whether the greatest value comes first
    /// forward (false) or backward (true); the least one if not `greatest`.
    pub(super) fn extreme_first(&self, path: &AccessPath<Expr>, column: usize, greatest: bool) -> Option<bool> {
        let pinned: Vec<usize> = path.pinned(&self.table).collect();
        let keys = path.key_columns(&self.table).len();
        let (next, order) = path.order(&self.table).take(keys).find(|(at, _)| !pinned.contains(at))?;
        (next == column).then_some(order.descending != greatest)
    }

    /// Whether rows come in the wanted order from a tree: forward (false), backward (true), or not.
    pub(super) fn direction(&self, path: &AccessPath<Expr>) -> Option<bool> {
        let pinned: Vec<usize> = path.pinned(&self.table).collect();
        let mut order = path.order(&self.table).filter(|(column, _)| !pinned.contains(column));
        let mut direction = None;
        for by in &self.sort {
            let column = match unaliased(&by.expr) {
                Expr::Column(column) => column,
                // Numerics that show digits of their own are sorted by what they are in the tree by.
                Expr::ScalarFunction(call) if [numeric::KEY, ORDER_KEY].contains(&call.name()) => {
                    match call.args.first().map(unaliased) {
                        Some(Expr::Column(column)) => column,
                        _ => return None,
                    }
                }
                _ => return None,
            };
            let column = self.table.columns.iter().position(|c| c.name == column.name)?;
            // Trees have keys of all types, but of these alone that is what plans sort by.
            let is_sorted_so = match unaliased(&by.expr) {
                Expr::ScalarFunction(call) if call.name() == ORDER_KEY => {
                    self.table.columns[column].ty == ColumnType::Folded
                }
                _ => true,
            };
            if !is_sorted_so {
                return None;
            }
            if pinned.contains(&column) {
                continue;
            }
            let (next, own) = order.next()?;
            let backward = own.descending == by.asc;
            let nulls = (own.nulls_first != backward) == by.nulls_first || !self.table.columns[column].nullable;
            if next != column || !nulls || direction.is_some_and(|known| known != backward) {
                return None;
            }
            direction = Some(backward);
        }
        Some(direction.unwrap_or(false))
    }
}
