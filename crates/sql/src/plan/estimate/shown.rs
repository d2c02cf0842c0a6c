//! Estimates as EXPLAIN shows them.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;

use super::physical::{Estimate, above, of};

/// What EXPLAIN shows of plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub verbose: bool,
    /// The rows that each operator is expected to give.
    pub costs: bool,
}

impl Shown {
    /// The lines of a plan, one for each operator; of one that has run with what was measured.
    pub(crate) fn lines(self, plan: &Arc<dyn ExecutionPlan>, is_measured: bool) -> Vec<String> {
        let shown = match is_measured {
            true => DisplayableExecutionPlan::with_metrics(plan.as_ref()),
            false => DisplayableExecutionPlan::new(plan.as_ref()),
        };
        let lines: Vec<String> = shown.indent(self.verbose).to_string().lines().map(str::to_owned).collect();
        let mut rows = Vec::new();
        if self.costs {
            gather(plan, &mut rows);
        }
        // A line that a value breaks belongs to no operator that can be told.
        if rows.len() != lines.len() {
            return lines;
        }
        let with_rows = lines.into_iter().zip(rows).map(|(line, rows)| match rows {
            Some(rows) => format!("{line} (rows={})", rows.round().max(1.0)),
            None => line,
        });
        with_rows.collect()
    }
}

/// Rows of each operator, from the top.
fn gather(plan: &Arc<dyn ExecutionPlan>, out: &mut Vec<Option<f64>>) -> Option<Estimate> {
    let at = out.len();
    out.push(None);
    let inputs: Vec<Option<Estimate>> = plan.children().into_iter().map(|child| gather(child, out)).collect();
    let estimate = match inputs.is_empty() {
        true => of(plan),
        false => inputs.into_iter().collect::<Option<Vec<Estimate>>>().map(|inputs| above(plan, inputs)),
    };
    out[at] = estimate.as_ref().map(|estimate| estimate.rows);
    estimate
}
