//! System relations as DataFusion tables. Rows are computed when the scan executes, so a
//! kept plan shows the present.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::memory::MemoryStream;

use super::defs::SystemRelation;
use super::model::Model;
use super::rows::Rows;
use super::{again, info, operator, relations, resolution, roles, server, sys, types};
use crate::computed::ComputedTable;
use crate::context::PgContext;
use crate::errors::to_datafusion;
use crate::wire::SqlError;

/// All rows of a system relation.
pub(super) fn build(relation: &SystemRelation, cx: &dyn PgContext) -> Result<RecordBatch, SqlError> {
    let mut rows = Rows::new(relation);
    let done = match relation.schema_name {
        "pg_catalog" => {
            types::fill(relation.name, &mut rows)
                // Tables add types of their own, extensions functions, operators and casts.
                || resolution::fill(relation.name, &mut rows)
                    && !matches!(relation.name, "pg_type" | "pg_proc" | "pg_operator" | "pg_cast")
                || roles::fill(relation.name, cx, &mut rows)?
                || server::fill(relation.name, cx, &mut rows)
                || operator::fill(relation.name, cx, &mut rows)
                || server::host_rules(relation.name, cx, &mut rows)?
                || relations::fill(relation.name, &mut rows, cx, &mut || Model::load(cx))?
        }
        "sys" => sys::fill(relation.name, cx, &mut rows),
        _ => info::fill(relation.name, &mut rows, cx, &mut || Model::load(cx))?,
    };
    // what nothing fills has no rows
    let _ = done;
    rows.finish()
}

/// A system relation bound to a session.
pub(super) fn table(relation: &'static SystemRelation, cx: Arc<dyn PgContext>) -> ComputedTable {
    let kind = if relation.kind == 'v' { TableType::View } else { TableType::Base };
    let shown = format!("SystemScan: {}.{}", relation.schema_name, relation.name);
    ComputedTable::new(shown, kind, relation.schema.clone(), move |task| {
        let batch = again::rows(relation, task, || build(relation, cx.as_ref())).map_err(to_datafusion)?;
        let schema = batch.schema();
        Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
    })
}
