//! `resurgam_clean()` in FROM: a complete sweep of the cleaner now, and what it did, as a row.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use resurgam_engine::Database;

use crate::apart::Dropped;
use crate::pg::context::PgContext;
use crate::pg::errors::{from_arrow, to_datafusion};
use crate::pg::types::{field_of_oid, oid};
use crate::wire::SqlError;

/// Columns that are counts, in order.
const COUNTS: [&str; 16] = [
    "pages",
    "rows_reverted",
    "rows_stripped",
    "rows_removed",
    "pages_merged",
    "transactions_forgotten",
    "version_pages_freed",
    "value_pages_freed",
    "pages_skipped",
    "skipped_damaged",
    "skipped_object_unknown",
    "skipped_damaged_maps",
    "skipped_ledger",
    "skipped_unreadable",
    "skipped_no_room",
    "aborted_left",
];

fn schema() -> SchemaRef {
    let counts = COUNTS.iter().filter_map(|name| field_of_oid(name, oid::INT8, -1));
    let seconds = field_of_oid("seconds", oid::FLOAT8, -1);
    let held_by = field_of_oid("held_by", oid::TEXT, -1);
    Arc::new(Schema::new(counts.chain(seconds).chain(held_by).collect::<Vec<_>>()))
}

/// Cleans up; blocks until that is done, or `cancelled`.
fn clean(
    database: &Database,
    schema: &SchemaRef,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<RecordBatch, SqlError> {
    let begun = std::time::Instant::now();
    let report = database.clean_unless(cancelled)?;
    let seconds = begun.elapsed().as_secs_f64();
    let skipped = &report.skipped;
    let counts = [
        report.pages,
        report.reverted,
        report.stripped,
        report.removed,
        report.merged,
        report.forgotten,
        report.version_pages_freed,
        report.value_pages_freed,
        report.pages_skipped,
        skipped.damaged.count,
        skipped.object_unknown.count,
        skipped.damaged_maps.count,
        skipped.ledger.count,
        skipped.unreadable.count,
        skipped.no_room.count,
        database.aborted_count(),
    ];
    let mut columns: Vec<ArrayRef> =
        counts.iter().map(|&count| Arc::new(Int64Array::from(vec![count as i64])) as ArrayRef).collect();
    columns.push(Arc::new(Float64Array::from(vec![seconds])));
    columns.push(Arc::new(StringViewArray::from(vec![database.stats().versions_held_by])));
    RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(1)))
        .map_err(|error| from_arrow(&error))
}

/// The function.
#[derive(Debug)]
pub(super) struct PgClean(pub Arc<dyn PgContext>);

impl TableFunctionImpl for PgClean {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DfResult<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            let error = SqlError::new("42883", "function resurgam_clean has no arguments");
            return Err(to_datafusion(error));
        }
        Ok(Arc::new(CleanTable { cx: self.0.clone(), schema: schema() }))
    }
}

#[derive(Debug)]
struct CleanTable {
    cx: Arc<dyn PgContext>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for CleanTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    fn table_type(&self) -> TableType {
        TableType::Temporary
    }
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => self.schema.clone(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Arc::new(CleanScan {
            cx: self.cx.clone(),
            schema: self.schema.clone(),
            projection: projection.cloned(),
            properties: Arc::new(properties),
        }))
    }
}

/// Cleans up when executed.
#[derive(Debug)]
struct CleanScan {
    cx: Arc<dyn PgContext>,
    /// All columns.
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for CleanScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CleanUp")
    }
}

impl ExecutionPlan for CleanScan {
    fn name(&self) -> &str {
        "CleanScan"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }
    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }
    fn execute(&self, _: usize, _: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        if !self.cx.is_superuser() {
            return Err(to_datafusion(crate::cleaning::denied()));
        }
        let Some(database) = self.cx.engine() else {
            return Err(to_datafusion(SqlError::internal("resurgam_clean() without a database")));
        };
        let (schema, projection) = (self.schema.clone(), self.projection.clone());
        let work = async move {
            // Dropped with this future when the statement is cancelled.
            let told = Dropped::default();
            let cancelled = told.question();
            let done = tokio::task::spawn_blocking(move || clean(&database, &schema, &cancelled)).await;
            let batch = match done {
                Ok(batch) => batch.map_err(to_datafusion)?,
                Err(error) => {
                    let error = SqlError::internal(format!("the clean-up did not finish: {error}"));
                    return Err(to_datafusion(error));
                }
            };
            match projection {
                Some(columns) => batch.project(&columns).map_err(|error| to_datafusion(from_arrow(&error))),
                None => Ok(batch),
            }
        };
        let schema = self.properties.equivalence_properties().schema().clone();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(work))))
    }
}
