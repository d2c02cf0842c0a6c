//! System relations as DataFusion tables. Rows are computed when the scan executes, so a
//! kept plan shows the present.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};

use super::defs::SystemRelation;
use super::model::Model;
use super::rows::Rows;
use super::{info, operator, relations, server, sys, types};
use crate::pg::context::PgContext;
use crate::pg::errors::{from_arrow, to_datafusion};
use crate::wire::SqlError;

/// All rows of a system relation.
pub(super) fn build(relation: &SystemRelation, cx: &dyn PgContext) -> Result<RecordBatch, SqlError> {
    let mut rows = Rows::new(relation);
    let done = match relation.schema_name {
        "pg_catalog" => {
            types::fill(relation.name, &mut rows)
                || server::fill(relation.name, cx, &mut rows)
                || operator::fill(relation.name, cx, &mut rows)
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
#[derive(Debug)]
pub(super) struct SystemTable {
    relation: &'static SystemRelation,
    cx: Arc<dyn PgContext>,
}

impl SystemTable {
    pub(super) fn new(relation: &'static SystemRelation, cx: Arc<dyn PgContext>) -> Self {
        Self { relation, cx }
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        self.relation.schema.clone()
    }
    fn table_type(&self) -> TableType {
        if self.relation.kind == 'v' { TableType::View } else { TableType::Base }
    }
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.relation.schema.project(columns)?),
            None => self.relation.schema.clone(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Arc::new(SystemScan {
            relation: self.relation,
            cx: self.cx.clone(),
            projection: projection.cloned(),
            properties: Arc::new(properties),
        }))
    }
}

/// Computes a system relation when executed.
#[derive(Debug)]
struct SystemScan {
    relation: &'static SystemRelation,
    cx: Arc<dyn PgContext>,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for SystemScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemScan: {}.{}", self.relation.schema_name, self.relation.name)
    }
}

impl ExecutionPlan for SystemScan {
    fn name(&self) -> &str {
        "SystemScan"
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
        let batch = build(self.relation, self.cx.as_ref()).map_err(to_datafusion)?;
        let batch = match &self.projection {
            Some(columns) => batch.project(columns).map_err(|error| to_datafusion(from_arrow(&error)))?,
            None => batch,
        };
        let schema = batch.schema();
        Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
    }
}

const _: fn() = || {
    fn assert_any<T: Any + Send + Sync>() {}
    assert_any::<SystemTable>();
};
