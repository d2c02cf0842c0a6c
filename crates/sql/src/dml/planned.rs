//! Expressions over written rows that a plan evaluates, because they need more than the row: subqueries in RETURNING
//! and ON CONFLICT, columns of FROM and USING items in RETURNING, the clauses of MERGE for a row that changed.
//!
//! The rows are a relation of the plan ([`written_rows`]); they reach it through the task's configuration, so that a
//! kept plan serves any execution. Subqueries read through the view of the statement, which does not see what the
//! statement itself has written, as in PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::memory::MemoryStream;
use futures::StreamExt;
use resurgam_engine::{DatumRef, ReadView};

use super::source::Stream;
use crate::computed::ComputedTable;
use crate::exec::direct::Row;
use crate::exec::table::KEY_COLUMN;
use crate::exec::{bridge, weight};
use crate::pg::arrow::ColumnBuilder;
use crate::plan::analyze::{Analyzed, OutputColumn};
use crate::plan::planner::{Names, QueryPlan};
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

type DfResult<T> = datafusion::common::Result<T>;

/// A column of a joined relation, with what qualifies it.
pub(crate) type Qualified = (Option<TableReference>, FieldRef);

/// Bytes of a value of fixed width, about, and of what stands for another.
const FIXED_BYTES: usize = 16;

/// Number of a row among those that were written: RETURNING gives them in this order.
const ORDINAL: &str = "resurgam$ordinal";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct RowsPlan {
    pub plan: QueryPlan,
    /// Of the rows that it is given.
    schema: SchemaRef,
}

/// The rows of one execution.
#[derive(Debug)]
struct Written(Vec<RecordBatch>);

/// The columns of a schema without the rows' keys.
pub(super) fn without_key(schema: &DFSchema) -> Vec<Qualified> {
    let all = schema.iter().filter(|(_, field)| field.name() != KEY_COLUMN);
    all.map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect()
}

/// A relation of given rows with these columns, and the number of each row.
fn written_rows(columns: &[Qualified]) -> DfResult<(LogicalPlan, SchemaRef)> {
    let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len() + 1);
    for (at, (_, field)) in columns.iter().enumerate() {
        fields.push(Arc::new(field.as_ref().clone().with_name(format!("w{at}")).with_nullable(true)));
    }
    fields.push(Arc::new(Field::new(ORDINAL, DataType::Int64, false)));
    let schema = Arc::new(Schema::new(fields));
    let all = Arc::clone(&schema);
    let table = ComputedTable::new("Written Rows".to_owned(), TableType::Temporary, Arc::clone(&schema), move |task| {
        let Some(rows) = task.session_config().get_extension::<Written>() else {
            return Err(bridge::failure(SqlError::internal("written rows outside of a statement that writes")));
        };
        Ok(Box::pin(MemoryStream::try_new(rows.0.clone(), Arc::clone(&all), None)?))
    });
    let name = TableReference::bare("resurgam$written");
    let scan = LogicalPlanBuilder::scan(name.clone(), provider_as_source(Arc::new(table)), None)?;
    let given = |name_of: String| Expr::Column(Column::new(Some(name.clone()), name_of));
    let mut exprs: Vec<Expr> = Vec::with_capacity(columns.len() + 1);
    for (at, (qualifier, field)) in columns.iter().enumerate() {
        exprs.push(given(format!("w{at}")).alias_qualified(qualifier.clone(), field.name()));
    }
    exprs.push(given(ORDINAL.to_owned()).alias(ORDINAL));
    Ok((scan.project(exprs)?.build()?, schema))
}

impl RowsPlan {
    /// Of a list over rows with these columns, in the order of the rows.
    pub(super) fn list(
        names: &Names<'_>,
        columns: &[Qualified],
        list: Vec<(OutputColumn, Expr)>,
        params: &ParamTypes,
    ) -> DfResult<Self> {
        let (rows, schema) = written_rows(columns)?;
        let named = |at: usize| format!("r{at}");
        let ordinal = || Expr::Column(Column::from_name(ORDINAL));
        let mut output = Vec::with_capacity(list.len());
        let mut exprs = Vec::with_capacity(list.len() + 1);
        for (at, (column, expr)) in list.into_iter().enumerate() {
            exprs.push(expr.alias(named(at)));
            output.push(column);
        }
        exprs.push(ordinal());
        let kept: Vec<Expr> = (0..output.len()).map(|at| Expr::Column(Column::from_name(named(at)))).collect();
        let plan = LogicalPlanBuilder::from(rows)
            .project(exprs)?
            .sort(vec![Sort::new(ordinal(), true, false)])?
            .project(kept)?
            .build()?;
        let query = Analyzed {
            plan,
            columns: output,
            locks: Vec::new(),
            once: Default::default(),
            needs: Default::default(),
            keys: Vec::new(),
        };
        Ok(Self { plan: QueryPlan::analyzed(names.state, query, params.data_types())?, schema })
    }

    /// Of values over one row with these columns, if it satisfies the condition.
    pub(super) fn values(
        names: &Names<'_>,
        columns: &[Qualified],
        values: Vec<Expr>,
        condition: Option<Expr>,
        params: &ParamTypes,
    ) -> DfResult<Self> {
        let (mut plan, schema) = written_rows(columns)?;
        if let Some(condition) = condition {
            plan = LogicalPlanBuilder::from(plan).filter(condition)?.build()?;
        }
        let values = values.into_iter().enumerate().map(|(at, value)| value.alias(format!("v{at}")));
        let plan = LogicalPlanBuilder::from(plan).project(values)?.build()?;
        Ok(Self { plan: QueryPlan::new(names.state, plan, params.data_types())?, schema })
    }

    /// Of what `over` makes of rows with these columns.
    pub(super) fn over(
        names: &Names<'_>,
        columns: &[Qualified],
        over: impl FnOnce(LogicalPlan) -> DfResult<LogicalPlan>,
        params: &ParamTypes,
    ) -> DfResult<Self> {
        let (rows, schema) = written_rows(columns)?;
        Ok(Self { plan: QueryPlan::new(names.state, over(rows)?, params.data_types())?, schema })
    }

    /// What the plan makes of these rows, for the statement that `stream` is the source of.
    pub(super) async fn run(
        &self,
        stream: &Stream<'_>,
        view: &ReadView,
        rows: RecordBatch,
    ) -> Result<Vec<RecordBatch>, SqlError> {
        let failed = |error| stream.failed(error);
        let instance = self.plan.instance(stream.state, stream.values).await.map_err(failed)?;
        let task = stream.task_with(view, Arc::new(Written(vec![rows])));
        let mut answer = instance.start(task).map_err(failed)?;
        let mut batches = Vec::new();
        while let Some(batch) = answer.next().await {
            batches.push(batch.map_err(failed)?);
            stream.stop.check()?;
        }
        drop(answer);
        self.plan.give_back(instance);
        Ok(batches)
    }

    /// No rows yet, for tables with so many columns.
    pub(super) fn rows(&self) -> WrittenRows {
        WrittenRows { schema: Arc::clone(&self.schema), columns: Vec::new(), others: Vec::new(), rows: 0, bytes: 0 }
    }
}

/// Rows while they gather: columns of the target, then those of the rows that it was joined with.
pub(super) struct WrittenRows {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    others: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl WrittenRows {
    /// A row, whose columns are those of one table or of both of ON CONFLICT; `others`: one row of other columns.
    pub(super) fn push(&mut self, row: Row<'_>, width: usize, others: Option<RecordBatch>) -> Result<(), SqlError> {
        let table = row.table;
        if self.columns.is_empty() {
            let types = (0..width).map(|at| &table.columns[at % table.columns.len()].ty);
            self.columns = types.map(|ty| ColumnBuilder::new(ty, 1)).collect();
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            let whole;
            let datum = match row.column(at)? {
                DatumRef::External(reference) => {
                    whole = bridge::external(row.view, reference)
                        .map_err(|error| crate::pg::errors::from_datafusion(error, ""))?;
                    whole.as_ref()
                }
                datum => datum,
            };
            self.bytes += match datum {
                DatumRef::Text(text) => text.len() + FIXED_BYTES,
                DatumRef::Bytes(bytes) => bytes.len() + FIXED_BYTES,
                _ => FIXED_BYTES,
            };
            match datum {
                DatumRef::Null => column.append_null(),
                datum => column.append(datum)?,
            }
        }
        self.bytes += others.as_ref().map_or(0, weight::kept);
        self.others.extend(others);
        self.rows += 1;
        Ok(())
    }

    /// About how many bytes they have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them; `None` if there are none.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if self.rows == 0 {
            return Ok(None);
        }
        let failed = |error| crate::pg::errors::from_arrow(&error);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for mut column in std::mem::take(&mut self.columns) {
            arrays.push(column.finish());
        }
        if let Some(first) = self.others.first() {
            let all = datafusion::arrow::compute::concat_batches(&first.schema(), &self.others).map_err(failed)?;
            arrays.extend(all.columns().iter().cloned());
        }
        let numbers = 0..i64::try_from(self.rows).unwrap_or(i64::MAX);
        arrays.push(Arc::new(datafusion::arrow::array::Int64Array::from_iter_values(numbers)));
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map(Some).map_err(failed)
    }
}
