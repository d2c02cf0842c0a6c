//! The operator of [`ProjectSet`].

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF, UserDefinedLogicalNode};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;

use super::ProjectSet;
use crate::exec::bridge;
use crate::exec::context::StatementContext;
use crate::pg::functions::{SeriesRows, series_function};
use crate::pg::running;

/// Rows of a batch, about.
const BATCH_ROWS: usize = 8192;
/// Values of a set that are made at a time.
const VALUES: usize = 1024;

/// Makes the operator.
pub(crate) struct SetsPlanner;

#[async_trait]
impl ExtensionPlanner for SetsPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<ProjectSet>() else { return Ok(None) };
        let [input] = physical else { return internal_err!("sets without an input") };
        let over = node.input.schema();
        let physical = |expr: &Expr| create_physical_expr(expr, over, &ExecutionProps::new(), context);
        let mut sets = Vec::with_capacity(node.sets.len());
        for (expr, field) in node.sets.iter().zip(&node.schema.fields()[over.fields().len()..]) {
            let kind = match expr {
                Expr::ScalarFunction(ScalarFunction { func, args }) if series_function(func).is_some() => {
                    Kind::Series(Arc::clone(func), args.iter().map(physical).collect::<Result<_>>()?)
                }
                list => Kind::Elements(physical(list)?),
            };
            sets.push(Set { kind, ty: field.data_type().clone() });
        }
        let schema = Arc::new(node.schema.as_arrow().clone());
        let exec = ProjectSetExec::new(Arc::clone(input), sets, node.ordinality.is_some(), node.outer, schema);
        Ok(Some(Arc::new(ProjectSetExec { whole: node.whole, ..exec })))
    }
}

#[derive(Clone, Debug)]
struct Set {
    kind: Kind,
    /// Of its values.
    ty: DataType,
}

#[derive(Clone, Debug)]
enum Kind {
    Series(Arc<ScalarUDF>, Vec<Arc<dyn PhysicalExpr>>),
    Elements(Arc<dyn PhysicalExpr>),
}

impl Kind {
    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        match self {
            Self::Series(_, args) => args,
            Self::Elements(list) => std::slice::from_ref(list),
        }
    }
}

/// See [`ProjectSet`].
#[derive(Clone, Debug)]
struct ProjectSetExec {
    input: Arc<dyn ExecutionPlan>,
    sets: Vec<Set>,
    counts: bool,
    outer: bool,
    whole: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl ProjectSetExec {
    fn new(input: Arc<dyn ExecutionPlan>, sets: Vec<Set>, counts: bool, outer: bool, schema: SchemaRef) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, sets, counts, outer, whole: false, schema, properties }
    }
}

impl DisplayAs for ProjectSetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let shown: Vec<String> = self
            .sets
            .iter()
            .map(|set| match &set.kind {
                Kind::Series(_, args) => {
                    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
                    format!("generate_series({})", args.join(", "))
                }
                Kind::Elements(list) => format!("unnest({list})"),
            })
            .collect();
        write!(f, "ProjectSetExec: {}", shown.join(", "))
    }
}

impl ExecutionPlan for ProjectSetExec {
    fn name(&self) -> &str {
        "ProjectSetExec"
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
    /// A sort below stays one: it is what makes the order of the values of sets determined.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.sets.iter().flat_map(|set| set.kind.exprs()) {
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
            return internal_err!("sets have one input");
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
            input: self.input.execute(partition, task)?,
            batch: None,
            row: 0,
            sets: Vec::new(),
            given: 0,
        };
        let stream =
            futures::stream::try_unfold(
                rows,
                |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) },
            );
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream.boxed())))
    }
}

/// The values that a set has still to give, for one row of the input.
enum Left {
    Series(SeriesRows),
    Elements(ArrayRef),
    None,
}

impl Left {
    fn next(&mut self, most: usize) -> Result<Option<ArrayRef>> {
        match self {
            Self::Series(series) => series.next(most).map_err(bridge::failure),
            Self::Elements(all) if all.is_empty() => Ok(None),
            Self::Elements(all) => {
                let count = most.min(all.len());
                let values = all.slice(0, count);
                *all = all.slice(count, all.len() - count);
                Ok(Some(values))
            }
            Self::None => Ok(None),
        }
    }
}

struct Rows {
    exec: ProjectSetExec,
    statement: Arc<StatementContext>,
    input: SendableRecordBatchStream,
    /// Rows of the input with the arguments of their sets.
    batch: Option<(RecordBatch, Vec<Vec<ArrayRef>>)>,
    /// The row of that batch that is at its turn.
    row: usize,
    /// Of that row; empty before it has begun.
    sets: Vec<Left>,
    /// Rows that it has given.
    given: i64,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.batch.is_none() {
                let Some(batch) = self.input.next().await.transpose()? else { return Ok(None) };
                let value = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(batch.num_rows());
                let of_set = |set: &Set| set.kind.exprs().iter().map(value).collect::<Result<Vec<_>>>();
                let args = self.exec.sets.iter().map(of_set).collect::<Result<Vec<_>>>()?;
                (self.batch, self.row) = (Some((batch, args)), 0);
            }
            // A series that has no end would never let go of the thread.
            tokio::task::consume_budget().await;
            self.statement.stop.check_time().map_err(bridge::failure)?;
            running::check().map_err(bridge::failure)?;
            if let Some(out) = self.of_batch()? {
                return Ok(Some(out));
            }
        }
    }

    /// Some rows for the present batch of the input; without any if that is at its end.
    fn of_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some((batch, args)) = &self.batch else { return Ok(None) };
        let mut indices: Vec<u32> = Vec::new();
        let mut numbers: Vec<Option<i64>> = Vec::new();
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.exec.sets.len()];
        while indices.len() < BATCH_ROWS && self.row < batch.num_rows() {
            if self.sets.is_empty() {
                self.sets = started(&self.exec.sets, args, self.row, self.exec.whole)?;
                self.given = 0;
            }
            let mut next = Vec::with_capacity(self.sets.len());
            for set in &mut self.sets {
                next.push(set.next(VALUES)?);
            }
            let most = next.iter().flatten().map(|values| values.len()).max().unwrap_or(0);
            if most == 0 {
                if self.exec.outer && self.given == 0 {
                    indices.push(self.row as u32);
                    numbers.push(None);
                    for (pieces, set) in pieces.iter_mut().zip(&self.exec.sets) {
                        pieces.push(new_null_array(&set.ty, 1));
                    }
                }
                self.sets.clear();
                self.row += 1;
                continue;
            }
            for ((values, set), pieces) in next.into_iter().zip(&self.exec.sets).zip(&mut pieces) {
                let count = values.as_ref().map_or(0, |values| values.len());
                pieces.extend(values);
                if count < most {
                    pieces.push(new_null_array(&set.ty, most - count));
                }
            }
            indices.extend(std::iter::repeat_n(self.row as u32, most));
            numbers.extend((self.given + 1..=self.given + most as i64).map(Some));
            self.given += most as i64;
        }
        let at_end = self.row >= batch.num_rows();
        let out = match indices.is_empty() {
            true => None,
            false => Some(together(&self.exec, batch, indices, numbers, &pieces)?),
        };
        if at_end {
            self.batch = None;
        }
        Ok(out)
    }
}

/// The sets of a row, at their begin.
fn started(sets: &[Set], args: &[Vec<ArrayRef>], row: usize, whole: bool) -> Result<Vec<Left>> {
    let mut out = Vec::with_capacity(sets.len());
    for (set, args) in sets.iter().zip(args) {
        out.push(match &set.kind {
            Kind::Series(function, _) => {
                let values =
                    args.iter().map(|arg| ScalarValue::try_from_array(arg, row)).collect::<Result<Vec<_>>>()?;
                match series_function(function) {
                    Some(series) => Left::Series(series.start(&values, whole).map_err(bridge::failure)?),
                    None => return internal_err!("a series that is none"),
                }
            }
            Kind::Elements(_) => match args.first().and_then(|list| list.as_list_opt::<i32>()) {
                Some(lists) if lists.is_valid(row) => Left::Elements(lists.value(row)),
                _ => Left::None,
            },
        });
    }
    Ok(out)
}

fn together(
    exec: &ProjectSetExec,
    batch: &RecordBatch,
    indices: Vec<u32>,
    numbers: Vec<Option<i64>>,
    pieces: &[Vec<ArrayRef>],
) -> Result<RecordBatch> {
    let rows = indices.len();
    let indices = UInt32Array::from(indices);
    let mut columns: Vec<ArrayRef> =
        batch.columns().iter().map(|column| take(column, &indices, None)).collect::<std::result::Result<_, _>>()?;
    for pieces in pieces {
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        columns.push(concat(&pieces)?);
    }
    if exec.counts {
        columns.push(Arc::new(Int64Array::from(numbers)));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&exec.schema), columns, &options)?)
}
