//! A table of the engine as DataFusion sees it.

use std::sync::{Arc, LazyLock, OnceLock};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use resurgam_engine::Table;

use crate::exec::access_path::{Probe, has_alternatives, is_constant, probes};
use crate::exec::apply::may_fail;
use crate::exec::estimate::TableEstimate;
use crate::exec::planning::Planning;
use crate::exec::scan::ScanExec;
use crate::naming;
use crate::pg::types;

/// Name of the column that holds a row's encoded clustered key, present only in the
/// target of UPDATE and DELETE.
pub(crate) const KEY_COLUMN: &str = "resurgam$key";

/// See the module's head.
#[derive(Debug)]
pub(crate) struct EngineTable {
    pub(crate) table: Arc<Table>,
    /// The target of an UPDATE or DELETE: has [`KEY_COLUMN`] as its last column.
    pub(crate) target: bool,
    schema: SchemaRef,
    /// How large it is, once somebody who plans has asked.
    estimate: OnceLock<Arc<TableEstimate>>,
    /// What the statement calls it, if that is another name.
    alias: OnceLock<Arc<str>>,
}

/// What expressions are made with where a session says nothing else.
static PLANNED_WITH: LazyLock<Arc<ConfigOptions>> = LazyLock::new(Arc::default);

/// Arrow schema of a table's rows.
pub(crate) fn table_schema(table: &Table) -> Schema {
    Schema::new(table.columns.iter().map(|c| types::arrow_field(&c.name, &c.ty, c.nullable)).collect::<Vec<_>>())
}

impl EngineTable {
    pub(crate) fn new(table: Arc<Table>, target: bool) -> Self {
        let mut fields: Vec<Field> =
            table.columns.iter().map(|c| types::arrow_field(&c.name, &c.ty, c.nullable)).collect();
        if target {
            fields.push(Field::new(KEY_COLUMN, DataType::BinaryView, false));
        }
        Self { table, target, schema: Arc::new(Schema::new(fields)), estimate: OnceLock::new(), alias: OnceLock::new() }
    }

    /// The statement calls it so.
    pub(crate) fn called(&self, name: &str) {
        let mut name = name.to_owned();
        naming::shown(&mut name);
        if name != self.table.name && !name.is_empty() {
            // The first name is that of where it stands; others are of queries around it.
            let _ = self.alias.set(name.into());
        }
    }

    /// What the statement calls it, if that is another name.
    pub(crate) fn alias(&self) -> Option<&Arc<str>> {
        self.alias.get()
    }

    /// What is known of its rows.
    pub(crate) fn estimate(&self) -> Option<&Arc<TableEstimate>> {
        self.estimate.get()
    }

    /// The same, found out in that way if it is not known yet.
    pub(crate) fn estimate_by(
        &self,
        look: impl FnOnce(&Arc<Table>) -> Option<Arc<TableEstimate>>,
    ) -> Option<Arc<TableEstimate>> {
        if self.estimate.get().is_none() {
            let _ = self.estimate.set(look(&self.table)?);
        }
        self.estimate.get().cloned()
    }

    fn all_probes(&self, filters: &[Expr]) -> Vec<Probe> {
        filters.iter().flat_map(|filter| probes(&self.table, filter)).collect()
    }
}

/// Whether it may guard what others compute keys of: it is the same for all rows (`$1 <> 0 AND a = 10 / $1`).
fn is_guard(filter: &Expr) -> bool {
    is_constant(filter) && filter.as_literal().is_none()
}

#[async_trait]
impl TableProvider for EngineTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let probes = self.all_probes(filters);
        let limit = if filters.is_empty() { limit } else { None };
        // What the planner makes expressions with: those of the scan's order are to equal them.
        let config = session.execution_props().config_options().unwrap_or(&PLANNED_WITH);
        let config = Arc::clone(config);
        let table = Arc::clone(&self.table);
        let (estimate, alias) = (self.estimate.get().cloned(), self.alias.get().cloned());
        let scan = ScanExec::new(table, self.target, columns, &self.schema, probes, limit, config, estimate, alias)?;
        let by_alternatives = Planning::of(session.config()).alternatives;
        let scan = scan.guarded(filters.iter().filter(|filter| is_guard(filter)))?;
        Ok(Arc::new(if by_alternatives { scan.by_alternatives(filters)? } else { scan }))
    }
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let has_probes = |filter: &Expr| !probes(&self.table, filter).is_empty();
        let is_guarded = filters.iter().any(|filter| has_probes(filter) && may_fail(filter));
        Ok(filters
            .iter()
            .map(|filter| {
                if has_probes(filter) || has_alternatives(&self.table, filter) || (is_guarded && is_guard(filter)) {
                    TableProviderFilterPushDown::Inexact
                } else {
                    TableProviderFilterPushDown::Unsupported
                }
            })
            .collect())
    }
}

/// What the statement calls the engine's table behind a source.
pub(crate) fn alias_of(source: &Arc<dyn TableSource>) -> Option<Arc<str>> {
    let provider = datafusion::datasource::source_as_provider(source).ok()?;
    provider.downcast_ref::<EngineTable>()?.alias().cloned()
}

/// What is known of the rows of the engine's table behind a source.
pub(crate) fn estimate_of(source: &Arc<dyn TableSource>) -> Option<Arc<TableEstimate>> {
    let provider = datafusion::datasource::source_as_provider(source).ok()?;
    provider.downcast_ref::<EngineTable>()?.estimate().cloned()
}

/// The engine table behind a source, if it is one, and whether it is a DML target.
pub(crate) fn engine_table(source: &Arc<dyn TableSource>) -> Option<(Arc<Table>, bool)> {
    let provider = datafusion::datasource::source_as_provider(source).ok()?;
    provider.downcast_ref::<EngineTable>().map(|found| (Arc::clone(&found.table), found.target))
}
