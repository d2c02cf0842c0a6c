//! Locked rows as a table that the rest of the statement reads.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};

use super::LockedSchemas;
use crate::bridge;
use crate::context::StatementContext;
use crate::planner::Names;
use crate::wire::SqlError;

/// The table of the locked rows of that number, while its statement is planned.
pub(crate) fn relation(names: &Names<'_>, number: &str) -> Option<Arc<dyn TableProvider>> {
    let schemas = names.state.config().get_extension::<LockedSchemas>()?;
    let number: usize = number.parse().ok()?;
    let schema = Arc::clone(schemas.0.get(number)?);
    Some(Arc::new(LockedTable { number, schema }))
}

#[derive(Debug)]
struct LockedTable {
    number: usize,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for LockedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
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
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(LockedScan {
            number: self.number,
            schema,
            projection: projection.cloned(),
            properties: Arc::new(properties),
        }))
    }
}

/// Hands out what was locked.
#[derive(Debug)]
struct LockedScan {
    number: usize,
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for LockedScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Locked Rows {}", self.number + 1)
    }
}

impl ExecutionPlan for LockedScan {
    fn name(&self) -> &str {
        "LockedScan"
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
        let statement = StatementContext::of(&task)?;
        // Whoever runs a statement without locking its rows first must not get an answer.
        let Some(rows) = statement.locked.as_ref().and_then(|locked| locked.get(self.number)) else {
            return Err(bridge::failure(SqlError::unsupported("FOR UPDATE/SHARE is not supported in this statement")));
        };
        let stream = MemoryStream::try_new(rows.to_vec(), Arc::clone(&self.schema), self.projection.clone())?;
        Ok(Box::pin(stream))
    }
}
