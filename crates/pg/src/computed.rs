//! Tables whose rows are computed when a plan over them runs, so that a kept plan shows the
//! present: system relations, locked rows, `resurgam_clean()`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;

/// Gives the rows, with all columns.
type Rows = dyn Fn(&TaskContext) -> Result<SendableRecordBatchStream> + Send + Sync;

/// See the module's head.
#[derive(Clone)]
pub struct ComputedTable {
    /// What EXPLAIN calls its scan.
    shown: String,
    kind: TableType,
    schema: SchemaRef,
    rows: Arc<Rows>,
}

impl ComputedTable {
    /// `rows` is called by each execution.
    pub fn new(
        shown: String,
        kind: TableType,
        schema: SchemaRef,
        rows: impl Fn(&TaskContext) -> Result<SendableRecordBatchStream> + Send + Sync + 'static,
    ) -> Self {
        Self { shown, kind, schema, rows: Arc::new(rows) }
    }
}

impl fmt::Debug for ComputedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[async_trait]
impl TableProvider for ComputedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
    fn table_type(&self) -> TableType {
        self.kind
    }
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (table, projection) = (self.clone(), projection.cloned());
        Ok(Arc::new(ComputedExec { table, projection, properties: Arc::new(properties) }))
    }
}

/// Computes a table's rows when executed.
#[derive(Debug)]
struct ComputedExec {
    table: ComputedTable,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for ComputedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table.shown)
    }
}

impl ExecutionPlan for ComputedExec {
    fn name(&self) -> &str {
        "ComputedExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }
    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }
    fn execute(&self, _: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = (self.table.rows)(&task)?;
        let Some(columns) = self.projection.clone() else { return Ok(rows) };
        let projected = rows.map(move |batch| -> Result<RecordBatch> { Ok(batch?.project(&columns)?) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), projected)))
    }
}
