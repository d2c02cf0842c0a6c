//! Few rows in no more memory than they need.
//!
//! A join of DataFusion's gives batches with room for 8192 rows, 128 KB for each column of texts, however
//! few rows there are. The next join holds such a batch until it ends, counts it against the memory that
//! queries may have, and so do all joins above it: a hundred of them, of one row each, were a gigabyte.
//!
//! Contract: the same rows in the same batches.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{StreamExt, TryStreamExt};

use super::lookup_join::LookupJoinExec;

type Plan = Arc<dyn ExecutionPlan>;

/// Batches of more rows are left as they are.
const ROWS_MAX: usize = 1024;
/// So are those that have no more memory than this.
const BYTES_MIN: usize = 64 << 10;

/// The batch in arrays of its own size, if it is much smaller than its memory.
pub(crate) fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    if rows > ROWS_MAX || batch.get_array_memory_size() <= BYTES_MIN {
        return Ok(batch);
    }
    let all = UInt32Array::from_iter_values(0..rows as u32);
    let columns = batch.columns().iter().map(|column| {
        let column = take(column, &all, None)?;
        Ok(match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => column,
        })
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// The join with a [`CompactExec`] below it, if it holds the rows of another join.
pub(crate) fn held(join: &Plan) -> Result<Option<Plan>> {
    let holds = join.is::<HashJoinExec>() || join.is::<CrossJoinExec>() || join.is::<NestedLoopJoinExec>();
    let children = join.children();
    let [left, right] = children.as_slice() else { return Ok(None) };
    if !holds || !is_join(left) {
        return Ok(None);
    }
    let children = vec![Arc::new(CompactExec { input: Arc::clone(left) }) as Plan, Arc::clone(right)];
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(join).replace_children(children, options).map(Some)
}

fn is_join(plan: &Plan) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<LookupJoinExec>()
}

/// Its input's batches, compacted.
#[derive(Debug)]
struct CompactExec {
    input: Plan,
}

impl DisplayAs for CompactExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("CompactExec")
    }
}

impl ExecutionPlan for CompactExec {
    fn name(&self) -> &str {
        "CompactExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn replace_children(self: Arc<Self>, mut children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self { input })),
            _ => internal_err!("CompactExec has one child"),
        }
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let stream = self.input.execute(partition, task)?.and_then(|batch| async move { compact(batch) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewBuilder};

    use super::*;

    #[test]
    fn few_rows_take_little_and_stay_the_same() {
        let mut texts = StringViewBuilder::with_capacity(8192);
        texts.append_value("longer than what is kept in a view");
        texts.append_null();
        texts.append_value("short");
        let columns: [(&str, ArrayRef); 2] =
            [("t", Arc::new(texts.finish())), ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])))];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).expect("a batch");
        assert!(batch.get_array_memory_size() > BYTES_MIN);
        let small = compact(batch.clone()).expect("the same");
        assert_eq!(small, batch);
        assert!(small.get_array_memory_size() < 4096, "{}", small.get_array_memory_size());
        let none = compact(batch.slice(0, 0)).expect("nothing");
        assert_eq!((none.num_rows(), none.schema()), (0, batch.schema()));
    }
}
