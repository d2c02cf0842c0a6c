//! Locked rows as a table that the rest of the statement reads.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::memory::MemoryStream;

use crate::computed::ComputedTable;
use crate::exec::bridge;
use crate::exec::context::StatementContext;
use crate::wire::SqlError;

/// The table of the locked rows of that number, of that schema.
pub(crate) fn locked_rows(number: usize, schema: SchemaRef) -> Arc<dyn TableProvider> {
    let all = Arc::clone(&schema);
    let shown = format!("Locked Rows {}", number + 1);
    Arc::new(ComputedTable::new(shown, TableType::Temporary, schema, move |task| {
        let statement = StatementContext::of(task)?;
        // Whoever runs a statement without locking its rows first must not get an answer.
        let Some(rows) = statement.locked.as_ref().and_then(|locked| locked.get(number)) else {
            return Err(bridge::failure(SqlError::unsupported("FOR UPDATE/SHARE is not supported in this statement")));
        };
        Ok(Box::pin(MemoryStream::try_new(rows.to_vec(), Arc::clone(&all), None)?))
    }))
}
