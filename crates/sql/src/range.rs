//! From predicates to key ranges: which tree to read, and between which keys.
//!
//! A [`Probe`] is one usable conjunct: a column compared with something that does not
//! depend on the row. [`Access::choose`] picks the tree whose leading columns the probes
//! pin down best; [`Access::ranges`] evaluates the values when the statement runs.
//!
//! Invariant: the ranges hold at least every row that satisfies the probes. Whoever
//! pushes a predicate down here applies it again, so a range may hold more.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext as PlanningContext;
use datafusion::logical_expr::{BinaryExpr, ColumnarValue, Expr, Operator};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use resurgam_engine::{ColumnType, Datum, DatumRef, KeyRange, Table};

use crate::bridge::{self, KeyValue};

/// Most ranges that an IN list may become.
const RANGES_MAX: usize = 1000;

/// `column op value` with `value` independent of the row.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub column: usize,
    pub kind: ProbeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ProbeKind {
    /// Equal to one of these.
    In(Vec<Expr>),
    Above {
        value: Expr,
        inclusive: bool,
    },
    Below {
        value: Expr,
        inclusive: bool,
    },
}

/// The probes that a conjunct gives; BETWEEN gives two.
pub(crate) fn probes(table: &Table, expr: &Expr) -> Vec<Probe> {
    let mut out = Vec::new();
    collect(table, expr, &mut out);
    out
}

fn collect(table: &Table, expr: &Expr, out: &mut Vec<Probe>) {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            collect(table, left, out);
            collect(table, right, out);
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let mut column = None;
            let mut values = Vec::new();
            if alternatives(table, expr, &mut column, &mut values)
                && let Some(column) = column
            {
                out.push(Probe { column, kind: ProbeKind::In(values) });
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if let Some(column) = probe_column(table, left)
                && is_constant(right)
            {
                push(out, column, *op, right);
            } else if let Some(column) = probe_column(table, right)
                && is_constant(left)
                && let Some(op) = op.swap()
            {
                push(out, column, op, left);
            }
        }
        Expr::Between(between) if !between.negated => {
            if let Some(column) = probe_column(table, &between.expr) {
                if is_constant(&between.low) {
                    push(out, column, Operator::GtEq, &between.low);
                }
                if is_constant(&between.high) {
                    push(out, column, Operator::LtEq, &between.high);
                }
            }
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            if let Some(column) = probe_column(table, expr)
                && list.iter().all(is_constant)
            {
                out.push(Probe { column, kind: ProbeKind::In(list.clone()) });
            }
        }
        _ => {}
    }
}

/// `a = 1 OR a = 2 …` on one column.
fn alternatives(table: &Table, expr: &Expr, column: &mut Option<usize>, values: &mut Vec<Expr>) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            alternatives(table, left, column, values) && alternatives(table, right, column, values)
        }
        _ => {
            let mut one = Vec::new();
            collect(table, expr, &mut one);
            match one.pop() {
                Some(Probe { column: c, kind: ProbeKind::In(list) }) if one.is_empty() => {
                    let same = column.is_none_or(|known| known == c);
                    *column = Some(c);
                    values.extend(list);
                    same && values.len() <= RANGES_MAX && covers(table, expr)
                }
                _ => false,
            }
        }
    }
}

/// Whether the whole of `expr` is the equality that `collect` found in it.
fn covers(_: &Table, expr: &Expr) -> bool {
    matches!(expr, Expr::InList(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }))
}

fn push(out: &mut Vec<Probe>, column: usize, op: Operator, value: &Expr) {
    let value = value.clone();
    let kind = match op {
        Operator::Eq => ProbeKind::In(vec![value]),
        Operator::Gt => ProbeKind::Above { value, inclusive: false },
        Operator::GtEq => ProbeKind::Above { value, inclusive: true },
        Operator::Lt => ProbeKind::Below { value, inclusive: false },
        Operator::LtEq => ProbeKind::Below { value, inclusive: true },
        _ => return,
    };
    out.push(Probe { column, kind });
}

/// The table column that `expr` is, seen through casts that keep order and equality.
pub(crate) fn probe_column(table: &Table, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => table.columns.iter().position(|c| c.name == column.name),
        Expr::Cast(cast) => {
            let column = probe_column(table, &cast.expr)?;
            let ty = &table.columns[column].ty;
            let to = cast.field.data_type();
            cast_keeps(ty, to).then_some(column)
        }
        _ => None,
    }
}

/// Whether a cast of a column keeps order and equality of its values.
pub(crate) fn cast_keeps(ty: &ColumnType, to: &DataType) -> bool {
    match ty {
        ColumnType::Int2 => matches!(to, DataType::Int16 | DataType::Int32 | DataType::Int64),
        ColumnType::Int4 => matches!(to, DataType::Int32 | DataType::Int64),
        ColumnType::Int8 => matches!(to, DataType::Int64),
        // More digits behind the point, not fewer.
        ColumnType::Numeric { scale, .. } => {
            matches!(to, DataType::Decimal128(_, wider) if i32::from(*wider) >= *scale as i32)
        }
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
            matches!(to, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
        }
        _ => false,
    }
}

/// Whether `expr` has one value for the whole statement.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    !expr
        .exists(|e| {
            Ok(match e {
                Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_) => true,
                Expr::ScalarFunction(f) => {
                    f.name() != "$"
                        && !crate::apply::is_constant_call(e)
                        && f.func.signature().volatility == datafusion::logical_expr::Volatility::Volatile
                }
                _ => false,
            })
        })
        .unwrap_or(true)
}

use datafusion::common::tree_node::TreeNode;

/// Whether `expr` can be computed from one row alone.
pub(crate) fn is_row_wise(expr: &Expr) -> bool {
    !expr
        .exists(|e| {
            Ok(matches!(
                e,
                Expr::OuterReferenceColumn(..)
                    | Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
                    | Expr::AggregateFunction(_)
                    | Expr::WindowFunction(_)
            ) || crate::apply::is_call(e))
        })
        .unwrap_or(true)
}

/// The trees of a table, the clustered one first: position, columns, whether they are unique.
pub(crate) fn trees(table: &Table) -> impl Iterator<Item = (Option<usize>, &[usize], bool)> {
    let clustered = std::iter::once((None, table.primary_key.as_slice(), true));
    let others = table.indexes.iter().enumerate();
    clustered.chain(others.map(|(i, index)| (Some(i), index.columns.as_slice(), index.unique)))
}

/// Which tree is read and what bounds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Position in the table's indexes; `None` is the clustered tree.
    pub index: Option<usize>,
    /// For each leading key column the values that it may equal.
    pub equal: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    /// Bounds of the key column after those.
    pub low: Option<(Arc<dyn PhysicalExpr>, bool)>,
    pub high: Option<(Arc<dyn PhysicalExpr>, bool)>,
}

/// A physical expression for something that reads no column.
pub(crate) fn constant(expr: &Expr) -> Result<Arc<dyn PhysicalExpr>> {
    create_physical_expr(expr, &DFSchema::empty(), &ExecutionProps::new(), &PlanningContext::default())
}

/// Its value.
pub(crate) fn evaluate_constant(expr: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
    thread_local! {
        static ONE_ROW: RecordBatch = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            vec![],
            &datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(1)),
        ).expect("an empty batch");
    }
    match ONE_ROW.with(|batch| expr.evaluate(batch))? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}

impl Access {
    /// The best tree for these probes.
    pub(crate) fn choose(table: &Table, probes: &[Probe]) -> Result<Self> {
        let mut best = (0usize, Self::default());
        for (index, columns, unique) in trees(table) {
            let (score, access) = Self::with(index, columns, unique, probes)?;
            if score > best.0 {
                best = (score, access);
            }
        }
        Ok(best.1)
    }

    /// How each tree can be read with these probes.
    pub(crate) fn all(table: &Table, probes: &[Probe]) -> Result<Vec<Self>> {
        trees(table).map(|(index, columns, unique)| Ok(Self::with(index, columns, unique, probes)?.1)).collect()
    }

    /// Columns that have one value in all rows that satisfy the probes.
    pub(crate) fn pinned<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = usize> + 'a {
        let key = self.key_columns(table).iter();
        key.zip(&self.equal).filter(|(_, values)| values.len() == 1).map(|(&column, _)| column)
    }

    fn with(index: Option<usize>, columns: &[usize], unique: bool, probes: &[Probe]) -> Result<(usize, Self)> {
        let mut access = Self { index, ..Self::default() };
        let mut product = 1usize;
        let mut score = 0;
        for &column in columns {
            let mut list = None;
            for probe in probes.iter().filter(|p| p.column == column) {
                if let ProbeKind::In(values) = &probe.kind
                    && list.is_none_or(|known: &Vec<Expr>| known.len() > values.len())
                {
                    list = Some(values);
                }
            }
            if let Some(values) = list
                && product.saturating_mul(values.len()) <= RANGES_MAX
            {
                product *= values.len();
                access.equal.push(values.iter().map(constant).collect::<Result<_>>()?);
                score += 4;
                continue;
            }
            for probe in probes.iter().filter(|p| p.column == column) {
                match &probe.kind {
                    ProbeKind::Above { value, inclusive } if access.low.is_none() => {
                        access.low = Some((constant(value)?, *inclusive));
                        score += 1;
                    }
                    ProbeKind::Below { value, inclusive } if access.high.is_none() => {
                        access.high = Some((constant(value)?, *inclusive));
                        score += 1;
                    }
                    _ => {}
                }
            }
            break;
        }
        if score > 0 && unique && access.equal.len() == columns.len() {
            score += 100;
        }
        // On a tie the clustered tree wins: it holds the rows themselves.
        score = score * 2 + usize::from(index.is_none() && score > 0);
        Ok((score, access))
    }

    /// Columns of the chosen tree's key, without the primary key behind an index's own.
    pub(crate) fn key_columns<'a>(&self, table: &'a Table) -> &'a [usize] {
        match self.index {
            None => &table.primary_key,
            Some(i) => &table.indexes[i].columns,
        }
    }

    /// The ranges to read, disjoint and ascending; empty if nothing can match.
    pub(crate) fn ranges(&self, table: &Table) -> Result<Vec<KeyRange>> {
        let columns = self.key_columns(table);
        let mut prefixes: Vec<Vec<Datum>> = vec![Vec::new()];
        let mut complete = true;
        for (values, &column) in self.equal.iter().zip(columns) {
            let mut known = Vec::with_capacity(values.len());
            for value in values {
                match bridge::key_value(&evaluate_constant(value)?, &table.columns[column].ty)? {
                    KeyValue::Exact(datum) => known.push(datum),
                    KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => {}
                    KeyValue::Unknown => {
                        complete = false;
                        break;
                    }
                }
            }
            if !complete {
                break;
            }
            prefixes = prefixes
                .into_iter()
                .flat_map(|prefix| {
                    known.iter().map(move |datum| {
                        let mut longer = prefix.clone();
                        longer.push(datum.clone());
                        longer
                    })
                })
                .collect();
        }
        let bounded = complete && (self.low.is_some() || self.high.is_some());
        let mut low = None;
        let mut high = None;
        if bounded {
            let ty = &table.columns[columns[self.equal.len()]].ty;
            if let Some((value, inclusive)) = &self.low {
                match bridge::key_value(&evaluate_constant(value)?, ty)? {
                    KeyValue::Exact(datum) => low = Some((datum, *inclusive)),
                    KeyValue::Null | KeyValue::AboveAll => return Ok(vec![]),
                    KeyValue::BelowAll | KeyValue::Unknown => {}
                }
            }
            if let Some((value, inclusive)) = &self.high {
                match bridge::key_value(&evaluate_constant(value)?, ty)? {
                    KeyValue::Exact(datum) => high = Some((datum, *inclusive)),
                    KeyValue::Null | KeyValue::BelowAll => return Ok(vec![]),
                    KeyValue::AboveAll | KeyValue::Unknown => {}
                }
            }
        }
        let mut encoded = Vec::with_capacity(prefixes.len());
        for prefix in &prefixes {
            encoded.push(self.encode(table, prefix, None)?);
        }
        let mut order: Vec<usize> = (0..prefixes.len()).collect();
        order.sort_by(|&a, &b| encoded[a].cmp(&encoded[b]));
        order.dedup_by(|a, b| encoded[*a] == encoded[*b]);
        let mut out = Vec::with_capacity(order.len());
        for i in order {
            let within = KeyRange::prefix(&encoded[i]);
            let mut range = if encoded[i].is_empty() { KeyRange::all() } else { within };
            if let Some((datum, inclusive)) = &low {
                let key = self.encode(table, &prefixes[i], Some(datum))?;
                range.low = if *inclusive {
                    Bound::Included(key)
                } else {
                    match prefix_end(&key) {
                        Some(end) => Bound::Included(end),
                        None => continue,
                    }
                };
            }
            if let Some((datum, inclusive)) = &high {
                let key = self.encode(table, &prefixes[i], Some(datum))?;
                range.high = if *inclusive {
                    match prefix_end(&key) {
                        Some(end) => Bound::Excluded(end),
                        None => Bound::Unbounded,
                    }
                } else {
                    Bound::Excluded(key)
                };
            }
            if let (Bound::Included(l), Bound::Excluded(h)) = (&range.low, &range.high)
                && l >= h
            {
                continue;
            }
            out.push(range);
        }
        Ok(out)
    }

    fn encode(&self, table: &Table, prefix: &[Datum], last: Option<&Datum>) -> Result<Vec<u8>> {
        let values: Vec<DatumRef<'_>> = prefix.iter().chain(last).map(Datum::as_ref).collect();
        let mut key = Vec::new();
        match self.index {
            None => table.encode_key(&values, &mut key),
            Some(i) => table.encode_index_key(i, &values, &mut key),
        }
        .map_err(bridge::storage)?;
        Ok(key)
    }
}

/// The smallest byte string above every string that starts with `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}
