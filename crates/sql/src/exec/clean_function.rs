//! `resurgam_clean()` in FROM: a complete sweep of the cleaner now, free space given back, and what that did, as a row.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use resurgam_dialect::{NewFunction, TypeId, Volatility};
use resurgam_engine::Database;

use crate::computed::ComputedTable;
use crate::exec::context::Dropped;
use crate::pg::context::PgContext;
use crate::pg::errors::{from_arrow, to_datafusion};
use crate::pg::types::field_of_oid;
use crate::wire::SqlError;

/// Its columns: counts, then the time that it took and who holds versions, and what was given back to the file system.
const COLUMNS: [(&str, TypeId); 21] = [
    ("pages", TypeId::INT8),
    ("rows_reverted", TypeId::INT8),
    ("rows_stripped", TypeId::INT8),
    ("rows_removed", TypeId::INT8),
    ("pages_merged", TypeId::INT8),
    ("transactions_forgotten", TypeId::INT8),
    ("version_pages_freed", TypeId::INT8),
    ("value_pages_freed", TypeId::INT8),
    ("pages_skipped", TypeId::INT8),
    ("skipped_damaged", TypeId::INT8),
    ("skipped_object_unknown", TypeId::INT8),
    ("skipped_damaged_maps", TypeId::INT8),
    ("skipped_pending_frees", TypeId::INT8),
    ("skipped_unreadable", TypeId::INT8),
    ("skipped_no_room", TypeId::INT8),
    ("aborted_left", TypeId::INT8),
    ("seconds", TypeId::FLOAT8),
    ("held_by", TypeId::TEXT),
    ("pages_moved", TypeId::INT8),
    ("bytes_cut", TypeId::INT8),
    ("bytes_punched", TypeId::INT8),
];

/// The function as the dialect's tables have it.
pub(crate) const CLEAN: NewFunction = NewFunction {
    columns: &COLUMNS,
    returns_set: true,
    volatility: Volatility::Volatile,
    ..NewFunction::scalar("resurgam_clean", &[], TypeId::RECORD)
};

fn schema() -> SchemaRef {
    let fields = COLUMNS.iter().filter_map(|(name, ty)| field_of_oid(name, ty.0, -1));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Cleans up; blocks until that is done, or `cancelled`.
fn clean(
    database: &Database,
    schema: &SchemaRef,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<RecordBatch, SqlError> {
    let begun = std::time::Instant::now();
    let report = database.vacuum_unless(cancelled)?;
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
        skipped.pending_frees.count,
        skipped.unreadable.count,
        skipped.no_room.count,
        database.aborted_count(),
    ];
    let number = |count: u64| Arc::new(Int64Array::from(vec![count as i64])) as ArrayRef;
    let mut columns: Vec<ArrayRef> = counts.iter().map(|&count| number(count)).collect();
    columns.push(Arc::new(Float64Array::from(vec![seconds])));
    columns.push(Arc::new(StringViewArray::from(vec![database.stats().versions_held_by])));
    columns.extend([report.pages_moved, report.bytes_cut, report.bytes_punched].map(number));
    RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(1)))
        .map_err(|error| from_arrow(&error))
}

/// The function.
#[derive(Debug)]
pub(crate) struct PgClean(pub Arc<dyn PgContext>);

impl TableFunctionImpl for PgClean {
    fn call_with_args(&self, _: TableFunctionArgs<'_, '_>) -> DfResult<Arc<dyn TableProvider>> {
        let (schema, cx) = (schema(), self.0.clone());
        let all = schema.clone();
        Ok(Arc::new(ComputedTable::new("CleanUp".to_owned(), TableType::Temporary, schema, move |_| {
            cleaned(cx.as_ref(), all.clone())
        })))
    }
}

/// Who may not clean up.
pub(crate) fn denied() -> SqlError {
    SqlError::new("42501", "permission denied to clean up row versions").with_hint("Must be superuser.")
}

/// Cleans up when it is read.
fn cleaned(cx: &dyn PgContext, schema: SchemaRef) -> DfResult<SendableRecordBatchStream> {
    if !cx.is_superuser() {
        return Err(to_datafusion(denied()));
    }
    let Some(database) = cx.engine() else {
        return Err(to_datafusion(SqlError::internal("resurgam_clean() without a database")));
    };
    let columns = schema.clone();
    let work = async move {
        // Dropped with this future when the statement is cancelled.
        let told = Dropped::default();
        let cancelled = told.question();
        match tokio::task::spawn_blocking(move || clean(&database, &columns, &cancelled)).await {
            Ok(batch) => batch.map_err(to_datafusion),
            Err(error) => Err(to_datafusion(SqlError::internal(format!("the clean-up did not finish: {error}")))),
        }
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(work))))
}
