//! Aggregates, GROUP BY, DISTINCT and sorts over the few rows that were read directly.
//!
//! Aggregates are the plan's: the same accumulators, fed with one batch. Sorts are by the kernel that planned
//! sorts use. What is here is only the way from rows to columns and back.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::compute::{SortColumn, SortOptions, lexsort_to_indices};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use resurgam_engine::DatumRef;

use super::expr::{Input, Row, RowExpr};
use super::parts::{Grouping, Parts, unaliased};
use crate::pg::errors;
use crate::wire::SqlError;

/// Groups of rows, and what is aggregated of each.
#[derive(Debug, Default)]
pub(super) struct Groups {
    keys: Vec<RowExpr>,
    aggregates: Vec<Aggregate>,
    /// `min` or `max` of a column in whose order the rows are read: the first that is not NULL decides.
    pub first: bool,
}

#[derive(Debug)]
struct Aggregate {
    function: AggregateFunctionExpr,
    args: Vec<(RowExpr, DataType)>,
}

/// ORDER BY.
#[derive(Debug)]
pub(super) struct Sort(Vec<(RowExpr, DataType, SortOptions)>);

fn failed(error: datafusion::common::DataFusionError) -> SqlError {
    errors::from_datafusion(error, "")
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
        Some(Self { keys, aggregates, first: false })
    }

    /// What EXPLAIN shows.
    pub(super) fn describe(&self) -> String {
        let names: Vec<&str> = self.aggregates.iter().map(|aggregate| aggregate.function.fun().name()).collect();
        match (names.is_empty(), self.keys.len()) {
            (true, _) => "Direct Distinct".to_owned(),
            (false, 0) => format!("Direct Aggregate: {}", names.join(", ")),
            (false, keys) => format!("Direct Aggregate: {} by {keys} keys", names.join(", ")),
        }
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

    /// Keys and results of each group of `rows`, in the order in which groups first occur.
    pub(super) fn of(&self, rows: &[Row<'_>], params: &[ScalarValue]) -> Result<Vec<Vec<ScalarValue>>, SqlError> {
        let mut groups: Vec<(Vec<ScalarValue>, Vec<usize>)> = Vec::new();
        if self.keys.is_empty() {
            groups.push((Vec::new(), (0..rows.len()).collect()));
        } else {
            let mut known: HashMap<Vec<ScalarValue>, usize> = HashMap::new();
            for (at, row) in rows.iter().enumerate() {
                let input = Input { params, row: Some(*row) };
                let key = self.keys.iter().map(|key| key.evaluate(input)).collect::<Result<Vec<_>, _>>()?;
                let group = match known.get(&key) {
                    Some(group) => *group,
                    None => {
                        groups.push((key.clone(), Vec::new()));
                        known.insert(key, groups.len() - 1);
                        groups.len() - 1
                    }
                };
                groups[group].1.push(at);
            }
        }
        let mut out = Vec::with_capacity(groups.len());
        for (mut values, members) in groups {
            for aggregate in &self.aggregates {
                values.push(aggregate.of(members.iter().map(|at| rows[*at]), params)?);
            }
            out.push(values);
        }
        Ok(out)
    }
}

impl Aggregate {
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
    ) -> Result<ScalarValue, SqlError> {
        let mut accumulator = self.function.create_accumulator().map_err(failed)?;
        let mut arrays = Vec::with_capacity(self.args.len());
        for (arg, ty) in &self.args {
            let mut values = Vec::with_capacity(rows.len());
            for row in rows.clone() {
                values.push(arg.evaluate(Input { params, row: Some(row) })?);
            }
            arrays.push(array_of(values, ty)?);
        }
        if rows.len() > 0 {
            accumulator.update_batch(&arrays).map_err(failed)?;
        }
        accumulator.evaluate().map_err(failed)
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
        Some(Self(keys))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of rows in their order.
    pub(super) fn order(&self, rows: &[Row<'_>], params: &[ScalarValue]) -> Result<Vec<usize>, SqlError> {
        if self.0.is_empty() || rows.len() < 2 {
            return Ok((0..rows.len()).collect());
        }
        let mut columns = Vec::with_capacity(self.0.len());
        for (expr, ty, options) in &self.0 {
            let mut values = Vec::with_capacity(rows.len());
            for row in rows {
                values.push(expr.evaluate(Input { params, row: Some(*row) })?);
            }
            columns.push(SortColumn { values: array_of(values, ty)?, options: Some(*options) });
        }
        let order: UInt32Array = lexsort_to_indices(&columns, None).map_err(|error| errors::from_arrow(&error))?;
        Ok(order.values().iter().map(|at| *at as usize).collect())
    }
}

/// An expression over what a group gives.
fn over_group(expr: &Expr, schema: &DFSchema) -> Option<RowExpr> {
    RowExpr::over(expr, &|column| schema.maybe_index_of_column(column), schema)
}
