//! Fewer rows at a time for operators that compute long values themselves.
//!
//! [`pieces`](super::pieces) bounds the columns of projections and filters. An aggregate, a sort or a join evaluates
//! its expressions over whole batches: `array_agg(repeat('x', 100000) || i)` makes 800 MB of 8192 rows before anybody counts
//! them. [`SplitExec`] below such an operator hands on batches of so many rows that the constants in its expressions, once for each
//! row, are [`PIECE_BYTES`]; where a function multiplies the lengths of what it is given, of [`MULTIPLIED_ROWS`].
//!
//! It also asks at each batch whether the statement has to stop, or has allocated too much, below aggregates that gather
//! what they are given (`array_agg`, `string_agg`).
//!
//! Contract: the same rows in the same order, in smaller batches.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;

use crate::exec::bridge;
use crate::exec::filter::ByteFilterExec;
use crate::exec::lookup_join::LookupJoinExec;
use crate::exec::one_input::one_input;
use crate::exec::pieces::{PiecesExec, may_grow};
use crate::pg::memory::PIECE_BYTES;
use crate::pg::running;

type Plan = Arc<dyn ExecutionPlan>;

/// Functions whose results are long however short their arguments are.
const MULTIPLY: [&str; 7] = ["repeat", "replace", "lpad", "rpad", "regexp_replace", "array_repeat", "array_fill"];
/// Rows of a batch for these.
const MULTIPLIED_ROWS: usize = 8;

/// Puts [`SplitExec`] below operators that compute long values, all but projections and filters.
#[derive(Debug)]
pub(crate) struct Splits;

impl PhysicalOptimizerRule for Splits {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|plan| {
            // It knows what is below it.
            if plan.is::<LookupJoinExec>() {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            if plan.is::<PiecesExec>() || plan.is::<ByteFilterExec>() || plan.children().is_empty() {
                return Ok(Transformed::no(plan));
            }
            let mut found = Growth::default();
            plan.apply_expressions(&mut |expr| {
                if may_grow(expr) {
                    found.look(expr);
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            // What it gathers is not counted by all of these.
            let gathers = plan
                .downcast_ref::<AggregateExec>()
                .is_some_and(|aggregate| aggregate.aggr_expr().iter().any(|call| call.fun().name().ends_with("_agg")));
            if !found.multiplies && found.constants.is_empty() && !gathers {
                return Ok(Transformed::no(plan));
            }
            let growth = Arc::new(found);
            let children = plan.children().into_iter().cloned();
            let children = children.map(|input| Arc::new(SplitExec { input, growth: Arc::clone(&growth) }) as Plan);
            let children = children.collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            plan.replace_children(children, options).map(Transformed::yes)
        })
        .data()
    }
    fn name(&self) -> &str {
        "splits"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

/// What makes values of an operator's expressions longer than those of its rows.
#[derive(Debug, Default)]
struct Growth {
    /// Constants, and parameters: how long they are is known when the plan runs.
    constants: Vec<Arc<dyn PhysicalExpr>>,
    multiplies: bool,
}

impl Growth {
    fn look(&mut self, expr: &Arc<dyn PhysicalExpr>) {
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            self.multiplies |= MULTIPLY.contains(&call.name());
        }
        let children = expr.children();
        if children.is_empty() && !expr.is::<Column>() {
            self.constants.push(Arc::clone(expr));
        }
        for child in children {
            self.look(child);
        }
    }

    /// How many rows a batch may have, seen at one row.
    fn rows(&self, row: &RecordBatch) -> usize {
        let size = |expr: &Arc<dyn PhysicalExpr>| match expr.evaluate(row) {
            Ok(ColumnarValue::Scalar(value)) => value.size(),
            Ok(ColumnarValue::Array(values)) => values.get_array_memory_size(),
            // It is said when the operator meets it.
            Err(_) => 0,
        };
        let bytes: usize = self.constants.iter().map(size).sum();
        let rows = (PIECE_BYTES / bytes.max(1)).max(1);
        if self.multiplies { rows.min(MULTIPLIED_ROWS) } else { rows }
    }
}

/// See the module's head.
#[derive(Debug)]
struct SplitExec {
    input: Plan,
    growth: Arc<Growth>,
}

impl DisplayAs for SplitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("SplitExec")
    }
}

impl ExecutionPlan for SplitExec {
    fn name(&self) -> &str {
        "SplitExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    one_input!(input, |plan, input| Self { input, growth: Arc::clone(&plan.growth) });
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, task)?;
        let growth = Arc::clone(&self.growth);
        let mut most = None;
        let stream = input.flat_map(move |batch| {
            let batches: Vec<Result<RecordBatch>> = match batch {
                Ok(batch) if batch.num_rows() > 1 => {
                    let most = *most.get_or_insert_with(|| growth.rows(&batch.slice(0, 1)));
                    let rows = batch.num_rows();
                    (0..rows).step_by(most).map(|at| Ok(batch.slice(at, most.min(rows - at)))).collect()
                }
                batch => vec![batch],
            };
            futures::stream::iter(batches).map(|batch| running::check().map_err(bridge::failure).and(batch))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }
}
