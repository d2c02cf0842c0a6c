//! Few rows in no more memory than they need.
//!
//! A join of DataFusion's gives batches with room for 8192 rows, 128 KB for each column of texts, however
//! few rows there are. The next join holds such a batch until it ends, counts it against the memory that
//! queries may have, and so do all joins above it: a hundred of them, of one row each, were a gigabyte.
//!
//! A sort that is to take little cuts what it has sorted into batches of few rows ([`small`]), each of which holds on to all
//! texts of the batch that it was cut from, and counts them: fifty times 1 MB for 6400 rows of it. It gets batches that need
//! no cutting.
//!
//! Contract: the same rows in the same order, in the same batches, or for a sort in smaller ones.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{StreamExt, TryStreamExt};

use super::lookup_join::LookupJoinExec;
use super::one_input::one_input;
use super::outer_side;

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
    owned(&batch)
}

/// The batch in arrays of its own size, which share nothing with others.
pub(crate) fn owned(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = batch.num_rows();
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
    if !holds || !is_join(outer_side::beneath(left)) {
        return Ok(None);
    }
    let children = vec![CompactExec::of(left, false), Arc::clone(right)];
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(join).replace_children(children, options).map(Some)
}

fn is_join(plan: &Plan) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<LookupJoinExec>()
}

/// The sort with a [`CompactExec`] below it that gives it batches of as many rows as it gives itself.
pub(crate) fn small(sort: &SortExec) -> Result<Plan> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    (Arc::new(sort.clone()) as Plan).replace_children(vec![CompactExec::of(sort.input(), true)], options)
}

/// Its input's batches, compacted.
#[derive(Debug)]
struct CompactExec {
    input: Plan,
    /// Batches of more rows than the statement's operators give are cut.
    cuts: bool,
}

impl CompactExec {
    fn of(input: &Plan, cuts: bool) -> Plan {
        Arc::new(Self { input: Arc::clone(input), cuts })
    }
}

/// A batch in batches of at most so many rows.
fn cut(batch: RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> + Send {
    let rows = rows.max(1);
    (0..batch.num_rows()).step_by(rows).map(move |at| batch.slice(at, rows.min(batch.num_rows() - at)))
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
    one_input!(input, |plan, input| Self { input, cuts: plan.cuts });
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = if self.cuts { task.session_config().batch_size() } else { usize::MAX };
        let input = self.input.execute(partition, task)?;
        let stream = match self.cuts {
            false => input.and_then(|batch| async move { compact(batch) }).boxed(),
            true => {
                let batches = input.map_ok(move |batch| futures::stream::iter(cut(batch, rows).map(compact)));
                batches.try_flatten().boxed()
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
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
        let parts: Vec<RecordBatch> = cut(batch.clone(), 2).collect();
        assert_eq!(parts, [batch.slice(0, 2), batch.slice(2, 1)]);
        assert_eq!(cut(batch.slice(0, 0), 2).count(), 0);
        let none = compact(batch.slice(0, 0)).expect("nothing");
        assert_eq!((none.num_rows(), none.schema()), (0, batch.schema()));
    }
}
