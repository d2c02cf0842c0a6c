//! Locked rows as a table that the rest of the statement reads.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::memory::MemoryStream;

use super::LockedSchemas;
use crate::computed::ComputedTable;
use crate::exec::bridge;
use crate::exec::context::StatementContext;
use crate::plan::planner::Names;
use crate::wire::SqlError;

/// The table of the locked rows of that number, while its statement is planned.
pub(crate) fn relation(names: &Names<'_>, number: &str) -> Option<Arc<dyn TableProvider>> {
    let schemas = names.state.config().get_extension::<LockedSchemas>()?;
    let number: usize = number.parse().ok()?;
    let schema = Arc::clone(schemas.0.get(number)?);
    let all = Arc::clone(&schema);
    let shown = format!("Locked Rows {}", number + 1);
    Some(Arc::new(ComputedTable::new(shown, TableType::Temporary, schema, move |task| {
        let statement = StatementContext::of(task)?;
        // Whoever runs a statement without locking its rows first must not get an answer.
        let Some(rows) = statement.locked.as_ref().and_then(|locked| locked.get(number)) else {
            return Err(bridge::failure(SqlError::unsupported("FOR UPDATE/SHARE is not supported in this statement")));
        };
        Ok(Box::pin(MemoryStream::try_new(rows.to_vec(), Arc::clone(&all), None)?))
    })))
}
