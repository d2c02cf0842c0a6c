//! What EXPLAIN ANALYZE measures: an operator around each operator of a plan, which counts its rows, its runs and the time
//! that its work takes, that of its inputs included.
//!
//! It says to be what it stands around ([`ExecutionPlan::downcast_delegate`]), so that whoever looks for an operator while a plan
//! runs finds it. A plan that was not asked for by EXPLAIN ANALYZE has none, and one that has is not kept.
//!
//! Invariants:
//! 1. What is measured of an operator goes on being counted in one place when it is reset, or put over other inputs: runs of a
//!    subquery, rounds of a recursive query.
//! 2. Time is that of calls: while an operator waits for others to call it again, none goes by.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};

type Plan = Arc<dyn ExecutionPlan>;

/// What one operator did, in all of its runs.
#[derive(Debug, Default)]
struct Done {
    runs: AtomicU64,
    rows: AtomicU64,
    /// Until the first rows, and until the end, in nanoseconds.
    first: AtomicU64,
    all: AtomicU64,
}

/// The same, as it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    pub runs: u64,
    /// Of all runs.
    pub rows: u64,
    /// Of all runs, in milliseconds; `None`: no clock was read.
    pub time: Option<(f64, f64)>,
}

impl Measured {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let time = self.time.zip(other.time).map(|(a, b)| (a.0 + b.0, a.1 + b.1));
        Self { runs: self.runs + other.runs, rows: self.rows + other.rows, time: time.or(self.time) }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct MeasuredExec {
    of: Plan,
    done: Arc<Done>,
    /// Whether clocks are read.
    timed: bool,
}

/// The plan with all of its operators measured.
///
/// # Errors
/// Those of operators that are put over other inputs.
pub(crate) fn measure(plan: &Plan, timed: bool) -> Result<Plan> {
    let inputs: Vec<Plan> = plan.children().into_iter().map(|input| measure(input, timed)).collect::<Result<_>>()?;
    let of = match inputs.is_empty() {
        true => Arc::clone(plan),
        false => {
            Arc::clone(plan).replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))?
        }
    };
    Ok(Arc::new(MeasuredExec { of, done: Arc::default(), timed }))
}

fn found(plan: &Plan) -> Option<&MeasuredExec> {
    (plan.as_ref() as &dyn Any).downcast_ref()
}

/// What was measured of an operator, if it is one that is.
pub(crate) fn of(plan: &Plan) -> Option<Measured> {
    let MeasuredExec { done, timed, .. } = found(plan)?;
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let milliseconds = |count: &AtomicU64| get(count) as f64 / 1e6;
    let time = timed.then(|| (milliseconds(&done.first), milliseconds(&done.all)));
    Some(Measured { runs: get(&done.runs), rows: get(&done.rows), time })
}

/// `new`, which takes the place of `old`, and is measured if that was.
pub(crate) fn in_place_of(old: &Plan, new: Plan) -> Plan {
    match found(old) {
        Some(measured) => measured.over(new),
        None => new,
    }
}

impl MeasuredExec {
    fn over(&self, of: Plan) -> Plan {
        Arc::new(Self { of, done: Arc::clone(&self.done), timed: self.timed })
    }
}

impl DisplayAs for MeasuredExec {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.fmt_as(how, f)
    }
}

impl ExecutionPlan for MeasuredExec {
    fn name(&self) -> &str {
        self.of.name()
    }
    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.of.as_ref())
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.of.properties()
    }
    fn children(&self) -> Vec<&Plan> {
        self.of.children()
    }
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.of.input_distribution_requirements()
    }
    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.of.required_input_ordering()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        self.of.maintains_input_order()
    }
    fn fetch(&self) -> Option<usize> {
        self.of.fetch()
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.of.apply_expressions(f)
    }
    fn replace_children(self: Arc<Self>, children: Vec<Plan>, options: ReplaceChildrenOptions) -> Result<Plan> {
        Ok(self.over(Arc::clone(&self.of).replace_children(children, options)?))
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    fn reset_state(self: Arc<Self>) -> Result<Plan> {
        Ok(self.over(Arc::clone(&self.of).reset_state()?))
    }
    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Plan> {
        self.of.with_new_state(state).map(|of| self.over(of))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        self.of.metrics()
    }
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let begun = self.timed.then(Instant::now);
        let of = self.of.execute(partition, task)?;
        // A run is one of all partitions.
        if partition == 0 {
            self.done.runs.fetch_add(1, Ordering::Relaxed);
        }
        let mut stream =
            MeasuredStream { of, done: Arc::clone(&self.done), timed: self.timed, spent: 0, has_rows: false };
        stream.spend(begun);
        Ok(Box::pin(stream))
    }
}

struct MeasuredStream {
    of: SendableRecordBatchStream,
    done: Arc<Done>,
    timed: bool,
    /// Nanoseconds.
    spent: u64,
    has_rows: bool,
}

impl MeasuredStream {
    fn spend(&mut self, begun: Option<Instant>) {
        let Some(begun) = begun else { return };
        let spent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.spent = self.spent.saturating_add(spent);
        self.done.all.fetch_add(spent, Ordering::Relaxed);
    }
}

impl Stream for MeasuredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let begun = self.timed.then(Instant::now);
        let polled = self.of.poll_next_unpin(cx);
        self.spend(begun);
        let rows = match &polled {
            Poll::Ready(Some(Ok(batch))) => batch.num_rows(),
            _ => 0,
        };
        self.done.rows.fetch_add(rows as u64, Ordering::Relaxed);
        // Where none come, the end is what comes first.
        if !self.has_rows && (rows > 0 || matches!(polled, Poll::Ready(None))) {
            self.has_rows = true;
            self.done.first.fetch_add(self.spent, Ordering::Relaxed);
        }
        polled
    }
}

impl RecordBatchStream for MeasuredStream {
    fn schema(&self) -> SchemaRef {
        self.of.schema()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::limit::GlobalLimitExec;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;

    use super::*;

    fn one_row() -> Plan {
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::empty());
        Arc::new(GlobalLimitExec::new(Arc::new(PlaceholderRowExec::new(schema)), 0, Some(5)))
    }

    async fn run(plan: &Plan) -> usize {
        let mut stream = plan.execute(0, Arc::new(TaskContext::default())).expect("a stream");
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            rows += batch.expect("a batch").num_rows();
        }
        rows
    }

    /// It is found as what it stands around, and counts across resets; time is there if it was asked for.
    #[tokio::test]
    async fn runs_and_rows_are_counted_across_resets() {
        for timed in [false, true] {
            let plan = measure(&one_row(), timed).expect("measured");
            assert!(plan.is::<GlobalLimitExec>() && !plan.is::<EmptyExec>());
            assert_eq!(run(&plan).await, 1);
            let again = datafusion::physical_plan::execution_plan::reset_plan_states(Arc::clone(&plan)).expect("reset");
            assert_eq!(run(&again).await, 1);
            for operator in [&plan, plan.children()[0]] {
                let measured = of(operator).expect("measured");
                assert_eq!((measured.runs, measured.rows, measured.time.is_some()), (2, 2, timed));
                assert!(measured.time.is_none_or(|(first, all)| first <= all && all > 0.0));
            }
        }
    }

    /// What is not measured says so, and what takes the place of something is as that was.
    #[tokio::test]
    async fn another_in_its_place_counts_with_it() {
        let plain = one_row();
        assert!(of(&plain).is_none() && of(&in_place_of(&plain, one_row())).is_none());
        let measured = measure(&plain, false).expect("measured");
        assert_eq!(run(&in_place_of(&measured, one_row())).await, 1);
        assert_eq!(of(&measured).map(|measured| measured.rows), Some(1));
    }
}
