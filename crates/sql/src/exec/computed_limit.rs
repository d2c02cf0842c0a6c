//! LIMIT and OFFSET that are known only when they run: subqueries, columns of a query around, volatile functions.
//!
//! [`ComputedLimit`] computes its counts before it asks for a row, the offset first, as PostgreSQL does: a negative one is an
//! error also where there are no rows. NULL is no limit. What is below is not told how many rows are wanted, so a sort below
//! sorts all of them.
//!
//! The order of the rows below counts, which no operator's schema says: [`super::kept_limits`] keeps the sort that makes it.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Int64Type, Schema};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, Partitioning, PhysicalExpr, create_physical_expr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;

use super::bridge;
use crate::wire::SqlError;

/// See the module's head. The expressions read no columns of the input, and are of type `bigint`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ComputedLimit {
    input: LogicalPlan,
    skip: Option<Expr>,
    fetch: Option<Expr>,
}

impl ComputedLimit {
    pub(crate) fn plan(input: LogicalPlan, skip: Option<Expr>, fetch: Option<Expr>) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(Self { input, skip, fetch }) })
    }
}

/// Whether an extension of a plan is one.
pub(crate) fn is_computed_limit(extension: &Extension) -> bool {
    extension.node.as_any().is::<ComputedLimit>()
}

impl PartialOrd for ComputedLimit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for ComputedLimit {
    fn name(&self) -> &str {
        "ComputedLimit"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }
    fn expressions(&self) -> Vec<Expr> {
        self.skip.iter().chain(&self.fetch).cloned().collect()
    }
    /// A condition above is one of the rows that are left.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.input.schema().fields().iter().map(|field| field.name().clone()).collect()
    }
    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output.to_vec()])
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let shown = |expr: &Option<Expr>| expr.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
        write!(f, "ComputedLimit: skip={}, fetch={}", shown(&self.skip), shown(&self.fetch))
    }
    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return internal_err!("a limit without an input");
        };
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let (skip, fetch) =
            (self.skip.as_ref().and_then(|_| exprs.next()), self.fetch.as_ref().and_then(|_| exprs.next()));
        Ok(Self { input, skip, fetch })
    }
}

/// Makes the operator.
pub(crate) struct LimitPlanner;

#[async_trait]
impl ExtensionPlanner for LimitPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<ComputedLimit>() else { return Ok(None) };
        let [input] = physical else { return internal_err!("a limit without an input") };
        let nothing = DFSchema::empty();
        let made = |expr: &Option<Expr>| {
            expr.as_ref().map(|expr| create_physical_expr(expr, &nothing, &ExecutionProps::new(), context)).transpose()
        };
        let (skip, fetch) = (made(&node.skip)?, made(&node.fetch)?);
        Ok(Some(Arc::new(ComputedLimitExec::new(Arc::clone(input), skip, fetch))))
    }
}

type Count = Option<Arc<dyn PhysicalExpr>>;

/// See [`ComputedLimit`].
#[derive(Clone, Debug)]
pub(super) struct ComputedLimitExec {
    pub(super) input: Arc<dyn ExecutionPlan>,
    skip: Count,
    fetch: Count,
    properties: Arc<PlanProperties>,
}

impl ComputedLimitExec {
    fn new(input: Arc<dyn ExecutionPlan>, skip: Count, fetch: Count) -> Self {
        // Nothing is said of the order: whoever wants one above sorts.
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, skip, fetch, properties }
    }

    /// The same over another input.
    pub(super) fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input, self.skip.clone(), self.fetch.clone())
    }
}

impl DisplayAs for ComputedLimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let shown = |count: &Count| count.as_ref().map_or_else(|| "None".to_owned(), ToString::to_string);
        write!(f, "ComputedLimitExec: skip={}, fetch={}", shown(&self.skip), shown(&self.fetch))
    }
}

impl ExecutionPlan for ComputedLimitExec {
    fn name(&self) -> &str {
        "ComputedLimitExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }
    /// It does, but a sort above must not be put below: other rows would be the first ones.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.skip.iter().chain(&self.fetch) {
            if f(expr)? == TreeNodeRecursion::Stop {
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
            return internal_err!("a limit has one input");
        };
        Ok(Arc::new(self.over(input)))
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (exec, schema) = (self.clone(), self.input.schema());
        let stream =
            futures::stream::try_unfold(
                Limited::Not(exec, partition, task),
                |limited| async move { limited.next().await },
            );
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.boxed())))
    }
}

/// A limit as it runs.
enum Limited {
    /// Nothing is computed yet.
    Not(ComputedLimitExec, usize, Arc<TaskContext>),
    /// Rows to pass over, and rows that may still come.
    Rows { input: SendableRecordBatchStream, skip: usize, left: usize },
}

impl Limited {
    async fn next(self) -> Result<Option<(RecordBatch, Self)>> {
        let (mut input, mut skip, mut left) = match self {
            Self::Not(exec, partition, task) => {
                let skip = computed(exec.skip.as_ref(), "OFFSET", "2201X")?.unwrap_or(0);
                let left = computed(exec.fetch.as_ref(), "LIMIT", "2201W")?.unwrap_or(usize::MAX);
                if left == 0 {
                    return Ok(None);
                }
                (exec.input.execute(partition, task)?, skip, left)
            }
            Self::Rows { input, skip, left } => (input, skip, left),
        };
        while left > 0 {
            let Some(batch) = input.next().await.transpose()? else { return Ok(None) };
            let rows = batch.num_rows();
            if rows <= skip {
                skip -= rows;
                continue;
            }
            let batch = batch.slice(skip, (rows - skip).min(left));
            (skip, left) = (0, left - batch.num_rows());
            return Ok(Some((batch, Self::Rows { input, skip, left })));
        }
        Ok(None)
    }
}

/// A count, over no columns; `None`: there is none, or it is NULL.
fn computed(expr: Option<&Arc<dyn PhysicalExpr>>, clause: &str, code: &str) -> Result<Option<usize>> {
    let Some(expr) = expr else { return Ok(None) };
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let value = expr.evaluate(&one)?.into_array(1)?;
    let Some(value) = value.as_primitive_opt::<Int64Type>() else { return internal_err!("{clause} is no bigint") };
    match value.iter().next().flatten() {
        None => Ok(None),
        Some(count) => match usize::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(bridge::failure(SqlError::new(code, format!("{clause} must not be negative")))),
        },
    }
}
