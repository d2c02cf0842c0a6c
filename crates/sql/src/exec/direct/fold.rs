//! Aggregates, GROUP BY, DISTINCT and sorts over the few rows that were read directly.
//!
//! Aggregates are the plan's: the same accumulators, fed with one batch. Sorts and groups by columns compare
//! the stored values; others are by the kernel that planned sorts use, and by scalars. What is here is only
//! the way from rows to columns and back.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::compute::{SortColumn, SortOptions, cast, lexsort_to_indices};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use resurgam_engine::{DatumRef, Table};

use super::compare::{self, is_comparable};
use super::expr::{Input, Row, RowExpr, Values};
use super::parts::{Grouping, Parts, unaliased};
use crate::exec::explain::words::{function_name, ordered};
use crate::exec::zeroes;
use crate::pg::arrow::ColumnBuilder;
use crate::pg::{errors, running};
use crate::wire::SqlError;

/// Groups of rows, and what is aggregated of each.
#[derive(Debug, Default)]
pub(super) struct Groups {
    keys: Vec<RowExpr>,
    /// The keys, if all are columns whose stored values are compared.
    columns: Option<Vec<usize>>,
    aggregates: Vec<Aggregate>,
    /// `min` or `max` of a column in whose order the rows are read: the first that is not NULL decides.
    pub first: bool,
}

#[derive(Debug)]
struct Aggregate {
    function: AggregateFunctionExpr,
    args: Vec<(RowExpr, DataType)>,
}

/// DISTINCT: of rows that are alike in these columns, one.
#[derive(Debug)]
pub(super) struct Distinct(Vec<usize>);

/// ORDER BY.
#[derive(Debug)]
pub(super) struct Sort {
    keys: Vec<(RowExpr, DataType, SortOptions)>,
    /// The keys, if all are columns whose stored values are compared.
    columns: Option<Vec<usize>>,
}

fn failed(error: datafusion::common::DataFusionError) -> SqlError {
    errors::from_datafusion(error, "")
}

/// The columns that these expressions are, if their stored values can be compared.
fn compared<'e>(table: &Table, exprs: impl Iterator<Item = &'e RowExpr>) -> Option<Vec<usize>> {
    let of = |expr: &RowExpr| expr.column().filter(|at| table.columns.get(*at).is_some_and(|c| is_comparable(&c.ty)));
    exprs.map(of).collect()
}

/// Values of one type as an array.
fn array_of(values: Vec<ScalarValue>, ty: &DataType) -> Result<ArrayRef, SqlError> {
    if values.is_empty() {
        return Ok(datafusion::arrow::array::new_empty_array(ty));
    }
    let values = values.into_iter().map(|value| match &value.data_type() == ty {
        true => Ok(value),
        false => value.cast_to(ty),
    });
    ScalarValue::iter_to_array(values.collect::<Result<Vec<_>, _>>().map_err(failed)?).map_err(failed)
}

/// Bytes of a column of large values beyond which planned operators do it, which read a part at a time.
const LARGE_MAX: usize = 2 << 20;

/// What an expression gives for each row, as an array of type `ty`; `None`: it would be too large.
fn array_over<'r>(
    expr: &RowExpr,
    ty: &DataType,
    rows: impl ExactSizeIterator<Item = Row<'r>> + Clone,
    params: &[ScalarValue],
) -> Result<Option<ArrayRef>, SqlError> {
    let array = match expr {
        RowExpr::Column(column) => column_over(*column, rows.clone())?,
        // No value of the one is missing in the other.
        RowExpr::Cast(inner, to @ (DataType::Int32 | DataType::Int64)) => {
            let inner = inner.column().map(|column| column_over(column, rows.clone())).transpose()?.flatten();
            let is_wider = |from: &DataType| match from {
                DataType::Int16 => true,
                DataType::Int32 => to == &DataType::Int64,
                _ => false,
            };
            let inner = inner.filter(|array| is_wider(array.data_type()));
            inner.map(|array| cast(&array, to)).transpose().map_err(|error| errors::from_arrow(&error))?
        }
        RowExpr::Literal(value) => Some(value.to_array_of_size(rows.len()).map_err(failed)?),
        _ => None,
    };
    if let Some(array) = array.filter(|array| array.data_type() == ty) {
        return Ok(Some(array));
    }
    let (mut values, mut bytes) = (Vec::with_capacity(rows.len()), 0);
    for row in rows {
        running::check()?;
        let value = expr.evaluate(Input { params, row: Some(row) })?;
        bytes += value.size();
        if bytes > LARGE_MAX {
            return Ok(None);
        }
        values.push(value);
    }
    array_of(values, ty).map(Some)
}

/// A column of stored rows; `None` if there is a large value, or a row that is not stored.
fn column_over<'r>(column: usize, rows: impl ExactSizeIterator<Item = Row<'r>>) -> Result<Option<ArrayRef>, SqlError> {
    let mut builder: Option<ColumnBuilder> = None;
    let count = rows.len();
    for row in rows {
        if !matches!(row.values, Values::Stored(_)) {
            return Ok(None);
        }
        let builder = builder.get_or_insert_with(|| ColumnBuilder::new(&row.table.columns[column].ty, count));
        match row.column(column)? {
            DatumRef::Null => builder.append_null(),
            DatumRef::External(_) => return Ok(None),
            datum => builder.append(datum)?,
        }
    }
    Ok(builder.map(|mut builder| builder.finish()))
}

impl Groups {
    /// Those of `parts`, if all is over single rows.
    pub(super) fn new(parts: &Parts<'_>, grouping: &Grouping) -> Option<Self> {
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for key in &grouping.keys {
            // Keys whose equality is that of their values.
            let ty = key.get_type(&parts.schema).ok()?;
            let plain = ty.is_integer()
                || matches!(
                    ty,
                    DataType::Utf8View
                        | DataType::Utf8
                        | DataType::Boolean
                        | DataType::Date32
                        | DataType::Timestamp(..)
                        | DataType::Decimal128(..)
                );
            keys.push(parts.over_row(key).filter(|_| plain)?);
        }
        let mut aggregates = Vec::with_capacity(grouping.aggregates.len());
        for aggregate in &grouping.aggregates {
            aggregates.push(Aggregate::new(parts, aggregate)?);
        }
        let columns = compared(&parts.table, keys.iter());
        Some(Self { keys, columns, aggregates, first: false })
    }

    /// What each column of the groups is, for EXPLAIN: keys, then aggregates.
    pub(super) fn words(&self, column: &dyn Fn(usize) -> String) -> (Vec<String>, Vec<String>) {
        let keys = self.keys.iter().map(|key| key.words(column)).collect();
        (keys, self.aggregates.iter().map(|aggregate| aggregate.words(column)).collect())
    }

    /// Whether a row decides nothing where the first decides.
    pub(super) fn passes_over(&self, row: Row<'_>) -> bool {
        self.extreme().is_some_and(|(column, _)| matches!(row.column(column), Ok(DatumRef::Null)))
    }

    /// The column of which this is the `min` (false) or `max` (true), and nothing else.
    pub(super) fn extreme(&self) -> Option<(usize, bool)> {
        let [aggregate] = self.aggregates.as_slice() else { return None };
        let [(arg, _)] = aggregate.args.as_slice() else { return None };
        let backward = match aggregate.function.fun().name() {
            "min" => false,
            "max" => true,
            _ => return None,
        };
        Some((arg.column().filter(|_| self.keys.is_empty())?, backward))
    }

    /// Keys and results of each group of `rows`, in the order in which groups first occur; `None`: there are values too large for this.
    pub(super) fn of(
        &self,
        rows: &[Row<'_>],
        params: &[ScalarValue],
    ) -> Result<Option<Vec<Vec<ScalarValue>>>, SqlError> {
        let mut out = Vec::new();
        for members in self.members(rows, params)? {
            let mut values = Vec::with_capacity(self.keys.len() + self.aggregates.len());
            for key in &self.keys {
                let row = members.first().map(|at| rows[*at]);
                values.push(key.evaluate(Input { params, row })?);
            }
            for aggregate in &self.aggregates {
                let Some(value) = aggregate.of(members.iter().map(|at| rows[*at]), params)? else { return Ok(None) };
                values.push(value);
            }
            out.push(values);
        }
        Ok(Some(out))
    }

    /// The numbers of the rows of each group.
    fn members(&self, rows: &[Row<'_>], params: &[ScalarValue]) -> Result<Vec<Vec<usize>>, SqlError> {
        if self.keys.is_empty() {
            return Ok(vec![(0..rows.len()).collect()]);
        }
        if let (Some(columns), Some(first)) = (&self.columns, rows.first())
            && let Some(values) = compare::values(first.table, rows, columns.iter().copied())?
        {
            return Ok(alike(values.chunks_exact(columns.len())));
        }
        let mut keys = Vec::with_capacity(rows.len());
        for row in rows {
            let input = Input { params, row: Some(*row) };
            keys.push(self.keys.iter().map(|key| key.evaluate(input)).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(alike(keys.iter()))
    }
}

/// The places of equal keys, in the order in which they first occur.
fn alike<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> Vec<Vec<usize>> {
    let mut known: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, key) in keys.enumerate() {
        let group = *known.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(at);
    }
    groups
}

impl Aggregate {
    fn words(&self, column: &dyn Fn(usize) -> String) -> String {
        let name = function_name(self.function.fun().name());
        let args: Vec<String> = self.args.iter().map(|(arg, _)| arg.words(column)).collect();
        let is_star = name == "count" && self.args.iter().all(|(arg, _)| matches!(arg, RowExpr::Literal(_)));
        let distinct = if self.function.is_distinct() { "DISTINCT " } else { "" };
        if is_star { format!("{name}(*)") } else { format!("{name}({distinct}{})", args.join(", ")) }
    }

    fn new(parts: &Parts<'_>, expr: &Expr) -> Option<Self> {
        let Expr::AggregateFunction(call) = unaliased(expr) else { return None };
        let params = &call.params;
        if params.filter.is_some() || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return None;
        }
        let (mut args, mut fields, mut columns) = (Vec::new(), Vec::new(), Vec::<Arc<dyn PhysicalExpr>>::new());
        for (at, arg) in params.args.iter().enumerate() {
            let (_, field) = arg.to_field(&parts.schema).ok()?;
            let name = format!("a{at}");
            fields.push(Field::new(&name, field.data_type().clone(), true).with_metadata(field.metadata().clone()));
            columns.push(Arc::new(Column::new(&name, at)));
            args.push((parts.over_row(arg)?, field.data_type().clone()));
        }
        let function = AggregateExprBuilder::new(Arc::clone(&call.func), columns)
            .schema(Arc::new(Schema::new(fields)))
            .alias("aggregate")
            .with_distinct(params.distinct)
            .build()
            .ok()?;
        // One that wants constants does without rows being read.
        function.create_accumulator().ok()?;
        Some(Self { function, args })
    }

    fn of<'r>(
        &self,
        rows: impl ExactSizeIterator<Item = Row<'r>> + Clone,
        params: &[ScalarValue],
    ) -> Result<Option<ScalarValue>, SqlError> {
        let mut accumulator = self.function.create_accumulator().map_err(failed)?;
        if rows.len() > 0 {
            let mut arrays = Vec::with_capacity(self.args.len());
            for (arg, ty) in &self.args {
                let Some(array) = array_over(arg, ty, rows.clone(), params)? else { return Ok(None) };
                // Zeroes are one value, whatever their sign.
                let signless = if self.function.is_distinct() { zeroes::signless_array(&array) } else { None };
                arrays.push(signless.unwrap_or(array));
            }
            accumulator.update_batch(&arrays).map_err(failed)?;
        }
        accumulator.evaluate().map(Some).map_err(failed)
    }
}

impl Distinct {
    /// What rows are told apart by, for EXPLAIN.
    pub(super) fn words(&self, column: &dyn Fn(usize) -> String) -> Vec<String> {
        self.0.iter().map(|at| column(*at)).collect()
    }

    /// That of `parts`, if it is by columns, and by nothing else: then each row of the result is a row of the
    /// table. What is over the groups, `parts` has over these rows afterwards.
    pub(super) fn take(parts: &mut Parts<'_>) -> Option<Self> {
        let group = parts.group.as_ref().filter(|group| group.aggregates.is_empty() && !group.keys.is_empty())?;
        let keys: Option<Vec<RowExpr>> = group.keys.iter().map(|key| parts.over_row(key)).collect();
        let columns = compared(&parts.table, keys?.iter())?;
        let output: Option<Vec<Expr>> = parts.output.iter().map(|expr| group.below(expr)).collect();
        let mut sort = parts.sort.clone();
        for by in &mut sort {
            by.expr = group.below(&by.expr)?;
        }
        (parts.output, parts.sort, parts.group) = (output?, sort, None);
        Some(Self(columns))
    }

    /// Leaves one row of each kind; false: there is a large value, which is not compared here.
    pub(super) fn keep(&self, rows: &mut Vec<Row<'_>>) -> Result<bool, SqlError> {
        let Some(first) = rows.first() else { return Ok(true) };
        let Some(values) = compare::values(first.table, rows, self.0.iter().copied())? else { return Ok(false) };
        let mut known = HashSet::with_capacity(rows.len());
        let mut keys = values.chunks_exact(self.0.len());
        rows.retain(|_| keys.next().is_some_and(|key| known.insert(key)));
        Ok(true)
    }
}

impl Sort {
    /// The order of `parts`, over rows of the table or over groups.
    pub(super) fn new(parts: &Parts<'_>) -> Option<Self> {
        let mut keys = Vec::with_capacity(parts.sort.len());
        for by in &parts.sort {
            let (expr, ty) = match &parts.group {
                None => (parts.over_row(&by.expr)?, by.expr.get_type(&parts.schema).ok()?),
                Some(group) => (over_group(&by.expr, &group.schema)?, by.expr.get_type(&group.schema).ok()?),
            };
            keys.push((expr, ty, SortOptions { descending: !by.asc, nulls_first: by.nulls_first }));
        }
        let columns = match parts.group {
            None => compared(&parts.table, keys.iter().map(|(expr, ..)| expr)),
            Some(_) => None,
        };
        Some(Self { keys, columns })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Its keys, for EXPLAIN.
    pub(super) fn words(&self, column: &dyn Fn(usize) -> String) -> Vec<String> {
        self.keys.iter().map(|(key, _, options)| ordered(key.words(column), *options)).collect()
    }

    /// The numbers of rows in their order; `None`: there are values too large for this.
    pub(super) fn order(&self, rows: &[Row<'_>], params: &[ScalarValue]) -> Result<Option<Vec<usize>>, SqlError> {
        let (Some(first), false, true) = (rows.first(), self.is_empty(), rows.len() > 1) else {
            return Ok(Some((0..rows.len()).collect()));
        };
        if let Some(columns) = &self.columns
            && let Some(values) = compare::values(first.table, rows, columns.iter().copied())?
        {
            let key = |row: usize| &values[row * columns.len()..][..columns.len()];
            let mut order: Vec<usize> = (0..rows.len()).collect();
            order.sort_by(|a, b| {
                let pairs = key(*a).iter().zip(key(*b)).zip(&self.keys);
                pairs.fold(Ordering::Equal, |order, ((a, b), (.., options))| {
                    order.then_with(|| compare::order(*a, *b, *options))
                })
            });
            return Ok(Some(order));
        }
        let mut columns = Vec::with_capacity(self.keys.len());
        for (expr, ty, options) in &self.keys {
            let Some(values) = array_over(expr, ty, rows.iter().copied(), params)? else { return Ok(None) };
            let values = zeroes::signless_array(&values).unwrap_or(values);
            columns.push(SortColumn { values, options: Some(*options) });
        }
        let order: UInt32Array = lexsort_to_indices(&columns, None).map_err(|error| errors::from_arrow(&error))?;
        Ok(Some(order.values().iter().map(|at| *at as usize).collect()))
    }
}

/// An expression over what a group gives.
fn over_group(expr: &Expr, schema: &DFSchema) -> Option<RowExpr> {
    RowExpr::over(expr, &|column| schema.maybe_index_of_column(column), schema)
}
