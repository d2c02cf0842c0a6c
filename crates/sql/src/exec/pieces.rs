//! Columns that are computed are split by their bytes before they grow.
//!
//! 8192 rows of `repeat(t, 1000000)` are eight gigabytes in one column. [`PiecesExec`] stands in the place of a projection
//! that makes texts, bytes or lists: it evaluates as many rows at a time as give [`PIECE_BYTES`], about. It learns how many that
//! are from the rows before, and from functions that refuse to make more ([`memory::column`]); it then asks with half as many.
//! A single row is bounded by what a function may make at all.
//!
//! Contract: the same rows in the same order, in batches of any size. EXPLAIN shows the projection.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::array::{StringViewArray, StringViewBuilder};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;

use crate::exec::bridge;
use crate::exec::lookup_join::LookupJoinExec;
use crate::exec::weight;
use crate::pg::memory::{self, PIECE_BYTES};

/// Puts [`PiecesExec`] in the places of projections that make values of any length.
#[derive(Debug)]
pub(crate) struct Pieces;

impl PhysicalOptimizerRule for Pieces {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_down(|plan| {
            // It knows what is below it.
            if plan.is::<LookupJoinExec>() {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(plan)) };
            match projection.expr().iter().any(|expr| may_grow(&expr.expr)) {
                true => Ok(Transformed::yes(Arc::new(PiecesExec::new(projection.clone())?) as Arc<dyn ExecutionPlan>)),
                false => Ok(Transformed::no(plan)),
            }
        })?;
        Ok(changed.data)
    }
    fn name(&self) -> &str {
        "pieces"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an expression makes, on its way, values that are longer than those it is given.
pub(crate) fn may_grow(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let ty = call.return_type();
        if weight::has_weight(ty) || ty.is_nested() {
            return true;
        }
    }
    if expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| *binary.op() == Operator::StringConcat) {
        return true;
    }
    expr.children().into_iter().any(may_grow)
}

/// The same with `||` that asks before it makes its column.
pub(crate) fn bounded(expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform_up(|expr| {
            let Some(binary) = expr.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(expr)) };
            if *binary.op() != Operator::StringConcat {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(Arc::new(Joined(Arc::clone(&expr))) as Arc<dyn PhysicalExpr>))
        })
        .data()
}

/// `||` of texts, whose operands are those of the expression that it stands for.
#[derive(Debug, Eq)]
struct Joined(Arc<dyn PhysicalExpr>);

// Derived, it would move out of the pointer.
impl PartialEq for Joined {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for Joined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for Joined {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(schema)
    }
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let children = self.0.children();
        let [left, right] = children.as_slice() else { return self.0.evaluate(batch) };
        let rows = batch.num_rows();
        let (left, right) = (left.evaluate(batch)?, right.evaluate(batch)?);
        let constant = matches!((&left, &right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { rows };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let (Some(left), Some(right)) = (left.as_string_view_opt(), right.as_string_view_opt()) else {
            return self.0.evaluate(batch);
        };
        let joined = Arc::new(joined(left, right)?) as ArrayRef;
        Ok(match constant {
            true => ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.0.children()
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self(Arc::clone(&self.0).with_new_children(children)?)))
    }
    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}

fn joined(left: &StringViewArray, right: &StringViewArray) -> Result<StringViewArray> {
    let rows = left.len();
    let mut bytes = 0usize;
    for row in 0..rows {
        if left.is_valid(row) && right.is_valid(row) {
            let length = left.value(row).len() + right.value(row).len();
            memory::value(length).map_err(bridge::failure)?;
            bytes = bytes.saturating_add(length);
        }
    }
    memory::column(rows, bytes).map_err(bridge::failure)?;
    let mut out = StringViewBuilder::with_capacity(rows);
    let mut text = String::new();
    for row in 0..rows {
        if left.is_null(row) || right.is_null(row) {
            out.append_null();
            continue;
        }
        text.clear();
        text.push_str(left.value(row));
        text.push_str(right.value(row));
        out.append_value(&text);
    }
    Ok(out.finish())
}

/// What a condition says of the rows of a batch, which is evaluated in pieces where it has to.
///
/// # Errors
/// Those of the condition.
pub(crate) fn truth(condition: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    let rows = batch.num_rows();
    let whole = memory::in_pieces(|| condition.evaluate(batch));
    match whole {
        Err(error) if rows > 1 && memory::is_too_many(&error) => {
            let (first, second) = (batch.slice(0, rows / 2), batch.slice(rows / 2, rows - rows / 2));
            let (first, second) = (truth(condition, &first)?, truth(condition, &second)?);
            let both = concat(&[&first, &second])?;
            Ok(both.as_boolean().clone())
        }
        other => match other?.into_array(rows)?.as_boolean_opt() {
            Some(truth) => Ok(truth.clone()),
            None => internal_err!("a predicate that is not boolean"),
        },
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct PiecesExec {
    projection: ProjectionExec,
    exprs: Arc<[Arc<dyn PhysicalExpr>]>,
    metrics: ExecutionPlanMetricsSet,
}

impl PiecesExec {
    fn new(projection: ProjectionExec) -> Result<Self> {
        let exprs = projection.expr().iter().map(|ProjectionExpr { expr, .. }| bounded(expr)).collect::<Result<_>>()?;
        Ok(Self { projection, exprs, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for PiecesExec {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.projection.fmt_as(how, f)
    }
}

impl ExecutionPlan for PiecesExec {
    fn name(&self) -> &str {
        self.projection.name()
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        self.projection.maintains_input_order()
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(f)
    }
    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = Arc::new(self.projection.clone()).replace_children(children, options)?;
        match projection.downcast_ref::<ProjectionExec>() {
            Some(projection) => Ok(Arc::new(Self::new(projection.clone())?)),
            None => internal_err!("a projection became something else"),
        }
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let under_way = UnderWay {
            input: self.projection.input().execute(partition, task)?,
            exprs: Arc::clone(&self.exprs),
            schema: self.schema(),
            left: None,
            piece: usize::MAX,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let stream = futures::stream::try_unfold(under_way, |mut under_way| async move {
            Ok(under_way.next().await?.map(|batch| (batch, under_way)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }
}

/// A projection under way.
struct UnderWay {
    input: SendableRecordBatchStream,
    exprs: Arc<[Arc<dyn PhysicalExpr>]>,
    schema: Arc<Schema>,
    /// Rows of the input that are not evaluated yet.
    left: Option<RecordBatch>,
    /// Rows that are evaluated at a time.
    piece: usize,
    metrics: BaselineMetrics,
}

impl UnderWay {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.left.take() {
            Some(batch) => batch,
            None => match self.input.next().await.transpose()? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        let rows = batch.num_rows();
        loop {
            crate::pg::running::check().map_err(bridge::failure)?;
            let take = self.piece.clamp(1, rows.max(1)).min(rows);
            let piece = batch.slice(0, take);
            let made = {
                let _timer = self.metrics.elapsed_compute().timer();
                memory::in_pieces(|| self.made(&piece))
            };
            let out = match made {
                Err(error) if take > 1 && memory::is_too_many(&error) => {
                    self.piece = take / 2;
                    continue;
                }
                made => made?,
            };
            // Columns that are handed through are there already.
            let computed = (0..self.exprs.len()).filter(|at| !self.exprs[*at].is::<Column>()).collect::<Vec<_>>();
            let bytes = weight::of(&out.project(&computed)?);
            // As many as give half of what a piece has, and no more than twice as many as before.
            let fit = (PIECE_BYTES / 2).saturating_mul(take.max(1)) / bytes.max(1);
            self.piece = fit.clamp(1, take.saturating_mul(2).max(2));
            if bytes < PIECE_BYTES / 4 && take == rows {
                self.piece = usize::MAX;
            }
            if take < rows {
                self.left = Some(batch.slice(take, rows - take));
            }
            self.metrics.record_output(take);
            return Ok(Some(out));
        }
    }

    fn made(&self, piece: &RecordBatch) -> Result<RecordBatch> {
        let rows = piece.num_rows();
        let column = |expr: &Arc<dyn PhysicalExpr>| match expr.downcast_ref::<Column>() {
            Some(column) => Ok(Arc::clone(piece.column(column.index()))),
            None => {
                let value = expr.evaluate(piece)?;
                if let ColumnarValue::Scalar(scalar) = &value
                    && matches!(scalar.data_type(), DataType::Utf8View | DataType::BinaryView)
                {
                    // Each row has a copy of it.
                    memory::column(rows, scalar.size().saturating_mul(rows)).map_err(bridge::failure)?;
                }
                value.into_array(rows)
            }
        };
        let columns = self.exprs.iter().map(column).collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_and_bounded() {
        let left: StringViewArray = [Some("a"), None, Some("a text that is longer than a view")].into_iter().collect();
        let right: StringViewArray = [Some("b"), Some("c"), Some("")].into_iter().collect();
        let wanted: StringViewArray =
            [Some("ab"), None, Some("a text that is longer than a view")].into_iter().collect();
        assert_eq!(joined(&left, &right).expect("texts"), wanted);
        let long = "x".repeat(PIECE_BYTES / 2);
        let long: StringViewArray = [Some(&long), Some(&long)].into_iter().collect();
        assert!(joined(&long, &long).is_ok());
        assert!(memory::is_too_many(&memory::in_pieces(|| joined(&long, &long)).unwrap_err()));
    }
}
