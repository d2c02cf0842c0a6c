//! Fewer rows at a time for joins that compare many pairs before they give any.
//!
//! A semi-join, an anti-join and a join for a mark go through all pairs with equal keys of a batch of their second side, and
//! give at most one row for each of its rows: with some thousand rows of one key on both sides that are seconds, in which
//! nobody is asked whether the statement has to stop. [`PacedExec`] asks before it hands on rows, and hands on as many as the
//! join above is done with in [`SLOW`]: fewer when it took longer, twice as many when it took much less.
//!
//! Contract: the same rows in the same order, in smaller batches.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;

use crate::exec::bridge;
use crate::exec::context::StatementContext;
use crate::exec::one_input::one_input;

type Plan = Arc<dyn ExecutionPlan>;

/// What one batch may take.
const SLOW: Duration = Duration::from_millis(20);
/// Rows of the first batch.
const FIRST_ROWS: usize = 512;
/// There are not more rows in any batch.
const ROWS_MAX: usize = 1 << 20;

/// A hash join with a [`PacedExec`] below it, if it may compare many pairs for few rows without asking anybody.
pub(crate) fn paced(plan: Plan) -> Result<Plan> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(plan) };
    let gives_few = match join.join_type() {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => false,
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => true,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => true,
    };
    // Other conditions ask, each time that they are evaluated.
    if !gives_few || join.filter().is_some() || join.right().is::<PacedExec>() {
        return Ok(plan);
    }
    let right: Plan = Arc::new(PacedExec { input: Arc::clone(join.right()) });
    let children = vec![Arc::clone(join.left()), right];
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct PacedExec {
    input: Plan,
}

impl PacedExec {
    pub(crate) fn input(&self) -> &Plan {
        &self.input
    }
}

/// Batches on their way.
struct Pace {
    input: SendableRecordBatchStream,
    statement: Arc<StatementContext>,
    /// What is left of a batch.
    rest: Option<RecordBatch>,
    rows: usize,
    /// When the last rows were handed on.
    given: Option<Instant>,
}

impl Pace {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        if let Some(given) = self.given.take() {
            self.rows = rows_after(self.rows, given.elapsed());
        }
        tokio::task::consume_budget().await;
        self.statement.stop.check_time().map_err(bridge::failure)?;
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.input.next().await {
                Some(batch) => batch?,
                None => return Ok(None),
            },
        };
        let first = batch.slice(0, self.rows.min(batch.num_rows()));
        let left = batch.num_rows() - first.num_rows();
        self.rest = (left > 0).then(|| batch.slice(first.num_rows(), left));
        self.given = Some(Instant::now());
        Ok(Some((first, self)))
    }
}

/// How many rows come next, when so many took that long.
fn rows_after(rows: usize, took: Duration) -> usize {
    if took > SLOW {
        return (rows as f64 * SLOW.as_secs_f64() / took.as_secs_f64()).max(1.0) as usize;
    }
    if took < SLOW / 4 { (rows * 2).min(ROWS_MAX) } else { rows }
}

impl DisplayAs for PacedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("PacedExec")
    }
}

impl ExecutionPlan for PacedExec {
    fn name(&self) -> &str {
        "PacedExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    one_input!(input, |_, input| Self { input });
    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let statement = StatementContext::of(&task)?;
        let input = self.input.execute(partition, task)?;
        let pace = Pace { input, statement, rest: None, rows: FIRST_ROWS, given: None };
        let stream = futures::stream::try_unfold(pace, Pace::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_what_they_take() {
        assert_eq!(rows_after(512, Duration::ZERO), 1024);
        assert_eq!(rows_after(512, SLOW / 2), 512);
        assert_eq!(rows_after(512, SLOW * 8), 64);
        assert_eq!(rows_after(8, Duration::from_secs(1000)), 1);
        assert_eq!(rows_after(ROWS_MAX, Duration::ZERO), ROWS_MAX);
    }
}
