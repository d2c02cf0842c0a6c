//! The operator of [`Lateral`].

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;

use super::function::called;

use super::lateral::Lateral;
use super::lazy;
use super::run::Ready;
use crate::exec::computed_limit::LimitPlanner;
use crate::exec::context::StatementContext;
use crate::exec::sets::SetsPlanner;
use crate::exec::{bridge, order_claims, zeroes};

/// Rows of a batch, about.
const BATCH_ROWS: usize = 8192;

/// DataFusion's planner, and the nodes of this crate.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(LateralPlanner),
            Arc::new(SetsPlanner),
            Arc::new(LimitPlanner),
        ]);
        let plan = zeroes::equal(order_claims::without(lazy::conditions(plan.clone())?)?)?;
        planner.create_physical_plan(&plan, session).await
    }
}

struct LateralPlanner;

#[async_trait]
impl ExtensionPlanner for LateralPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<Lateral>() else { return Ok(None) };
        let (Some(sub), Expr::ScalarFunction(ScalarFunction { args, .. }), [input]) =
            (called(&node.call), &node.call, physical)
        else {
            return internal_err!("a lateral item without its plan");
        };
        let Some(ready) = &sub.ready else { return internal_err!("a lateral item without a physical plan") };
        let over = node.input.schema();
        let args = args
            .iter()
            .map(|arg| create_physical_expr(arg, over, &ExecutionProps::new(), context))
            .collect::<Result<_>>()?;
        let schema = Arc::new(node.schema.as_arrow().clone());
        Ok(Some(Arc::new(LateralExec::new(Arc::clone(input), Arc::clone(ready), args, node.left, schema))))
    }
}

/// For each row of the input, its columns beside each row of a subquery.
#[derive(Clone, Debug)]
struct LateralExec {
    input: Arc<dyn ExecutionPlan>,
    ready: Arc<Ready>,
    /// Outer values, over the input.
    args: Vec<Arc<dyn PhysicalExpr>>,
    left: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl LateralExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        ready: Arc<Ready>,
        args: Vec<Arc<dyn PhysicalExpr>>,
        left: bool,
        schema: SchemaRef,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, ready, args, left, schema, properties }
    }
}

/// The id of the subquery that is run for each row of an operator's input, if it is one that does so, and whether rows without any are kept.
pub(crate) fn lateral_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(usize, bool)> {
    plan.downcast_ref::<LateralExec>().map(|lateral| (lateral.ready.id(), lateral.left))
}

impl DisplayAs for LateralExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let kind = if self.left { "Left" } else { "Inner" };
        write!(f, "LateralExec: {kind}, SubPlan {}", self.ready.id())
    }
}

impl ExecutionPlan for LateralExec {
    fn name(&self) -> &str {
        "LateralExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn required_input_distribution(&self) -> Vec<datafusion::physical_plan::Distribution> {
        vec![datafusion::physical_plan::Distribution::SinglePartition]
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for arg in &self.args {
            if f(arg)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a lateral item has one input");
        };
        Ok(Arc::new(Self { input, ..Self::clone(&self) }))
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = Rows {
            exec: self.clone(),
            statement: StatementContext::of(&task)?,
            input: self.input.execute(partition, Arc::clone(&task))?,
            task,
            batch: None,
            row: 0,
            inner: None,
            matched: false,
        };
        let stream =
            futures::stream::try_unfold(
                rows,
                |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) },
            );
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream.boxed())))
    }
}

struct Rows {
    exec: LateralExec,
    statement: Arc<StatementContext>,
    task: Arc<TaskContext>,
    input: SendableRecordBatchStream,
    /// Rows of the input with their outer values.
    batch: Option<(RecordBatch, Vec<ArrayRef>)>,
    /// The row of that batch that is at its turn.
    row: usize,
    inner: Option<SendableRecordBatchStream>,
    /// It has given rows.
    matched: bool,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.batch.is_none() {
                let Some(batch) = self.input.next().await.transpose()? else { return Ok(None) };
                let value = |arg: &Arc<dyn PhysicalExpr>| arg.evaluate(&batch)?.into_array(batch.num_rows());
                let args = self.exec.args.iter().map(value).collect::<Result<Vec<_>>>()?;
                (self.batch, self.row) = (Some((batch, args)), 0);
            }
            let (mut indices, mut pieces) = (Vec::new(), Vec::new());
            while indices.len() < BATCH_ROWS
                && let Some((batch, args)) = &self.batch
            {
                if self.row >= batch.num_rows() {
                    break;
                }
                let at = self.row as u32;
                if self.inner.is_none() {
                    // A plan that always has rows at hand would never let go of the thread.
                    tokio::task::consume_budget().await;
                    self.statement.stop.check_time().map_err(bridge::failure)?;
                    let outer = args.iter().map(|arg| ScalarValue::try_from_array(arg, self.row));
                    self.inner = Some(self.exec.ready.start_alone(outer.collect::<Result<_>>()?, &self.task)?);
                    self.matched = false;
                }
                let next = match &mut self.inner {
                    Some(inner) => inner.next().await.transpose()?,
                    None => None,
                };
                match next {
                    Some(rows) => {
                        self.matched |= rows.num_rows() > 0;
                        indices.extend(std::iter::repeat_n(at, rows.num_rows()));
                        pieces.push(rows);
                    }
                    None => {
                        if self.exec.left && !self.matched {
                            indices.push(at);
                            pieces.push(self.nulls()?);
                        }
                        self.inner = None;
                        self.row += 1;
                    }
                }
            }
            let out = self.together(indices, &pieces)?;
            if self.batch.as_ref().is_some_and(|(batch, _)| self.row >= batch.num_rows()) {
                self.batch = None;
            }
            if out.is_some() {
                return Ok(out);
            }
        }
    }

    fn nulls(&self) -> Result<RecordBatch> {
        let schema = self.exec.ready.plan().schema();
        let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let columns = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    fn together(&self, indices: Vec<u32>, pieces: &[RecordBatch]) -> Result<Option<RecordBatch>> {
        let (Some((batch, _)), Some(first)) = (&self.batch, pieces.first()) else { return Ok(None) };
        if indices.is_empty() {
            return Ok(None);
        }
        let rows = indices.len();
        let indices = UInt32Array::from(indices);
        let left = batch.columns().iter().map(|column| take(column, &indices, None));
        let mut columns: Vec<ArrayRef> = left.collect::<std::result::Result<_, _>>()?;
        // Of some the schema says that there are no NULLs.
        let fields: Vec<_> =
            first.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
        let pieces = pieces.iter().map(|piece| piece.clone().with_schema(Arc::clone(&schema)));
        let pieces = pieces.collect::<std::result::Result<Vec<_>, _>>()?;
        columns.extend(concat_batches(&schema, &pieces)?.columns().iter().cloned());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.exec.schema), columns, &options)?))
    }
}
