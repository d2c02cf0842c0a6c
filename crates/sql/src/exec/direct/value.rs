//! What a subquery gives: its value, or whether it has a row. It is run once for each row of the query around it, and to begin
//! a plan takes longer than to read a few rows.
//!
//! Outer columns and parameters are functions that read a cell by then (`exec/apply/outer.rs`, `exec/cell.rs`): there are none to be given here.

use std::ops::ControlFlow;

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use resurgam_engine::{ReadView, RowBuf};

use super::expr::{Input, Row, Values};
use super::rows::{Located, Touched};
use super::select::DirectSelect;
use crate::exec::context::StopFlag;
use crate::exec::planning::Planning;
use crate::wire::SqlError;

/// Ranges of a tree that are read for one value.
const RANGES_MAX: usize = 64;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct DirectValue(DirectSelect);

impl DirectValue {
    /// The subquery of an optimised plan; `None` if it is not one about few rows of one table.
    pub(crate) fn new(state: &SessionState, plan: &LogicalPlan) -> Option<Self> {
        let is_alone = Planning::of(state.config()).direct && plan.schema().fields().len() == 1;
        if !is_alone || has_placeholders(plan) {
            return None;
        }
        DirectSelect::over(plan, plan.schema().inner().fields()).map(Self)
    }

    /// Whether the first row that qualifies says that there is one.
    pub(crate) fn is_of_rows(&self) -> bool {
        !self.0.has_groups() && self.0.skip == 0 && self.0.fetch.is_none_or(|rows| rows > 0)
    }

    /// The values of its first rows, two at most; `None`: left to planned operators. What it looks at is counted.
    ///
    /// # Errors
    /// Those of its expressions, and of reading.
    pub(crate) fn values(
        &self,
        view: &ReadView,
        stop: &StopFlag,
        touched: &mut Touched,
    ) -> Result<Option<Vec<ScalarValue>>, SqlError> {
        let select = &self.0;
        let Some(located) = self.located()? else { return Ok(None) };
        let mut found = Vec::new();
        if select.is_gathered() {
            let Some(rows) = select.gather(located, view, &[], stop, touched)? else { return Ok(None) };
            let is_whole = select.each_folded(&rows, view, &[], |input| {
                if found.len() < 2 {
                    found.push(select.output.first(input)?);
                }
                Ok(())
            })?;
            if !is_whole {
                select.rows.note(false);
            }
            return Ok(is_whole.then_some(found));
        }
        let (mut skip, wanted) = (select.skip, select.fetch.unwrap_or(usize::MAX).min(2));
        if wanted == 0 {
            return Ok(Some(found));
        }
        let all = self.each(located, view, stop, skip.saturating_add(wanted), touched, |row| {
            if skip > 0 {
                skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            found.push(select.output.first(Input { params: &[], row: Some(row) })?);
            Ok(if found.len() < wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(true) })
        })?;
        Ok(all.then_some(found))
    }

    /// Whether there is a row, of one that [is told by the first](Self::is_of_rows); `None`: left to planned operators.
    ///
    /// # Errors
    /// Those of its condition, and of reading.
    pub(crate) fn has_row(
        &self,
        view: &ReadView,
        stop: &StopFlag,
        touched: &mut Touched,
    ) -> Result<Option<bool>, SqlError> {
        let Some(located) = self.located()? else { return Ok(None) };
        let mut some = false;
        let all = self.each(located, view, stop, 1, touched, |_| {
            some = true;
            Ok(ControlFlow::Break(true))
        })?;
        Ok(all.then_some(some))
    }

    /// Which rows; `None`: left to planned operators, as more ranges than a few are (a small table is read as a whole rather).
    fn located(&self) -> Result<Option<Located>, SqlError> {
        let located = self.0.rows.locate(&[])?;
        Ok(located.filter(|located| match located {
            Located::One(_) => true,
            Located::Ranges(ranges) => ranges.len() <= RANGES_MAX,
        }))
    }

    /// As [`Rows::each`](super::rows::Rows::each), whatever was located.
    fn each(
        &self,
        located: Located,
        view: &ReadView,
        stop: &StopFlag,
        want: usize,
        touched: &mut Touched,
        mut each: impl FnMut(Row<'_>) -> Result<ControlFlow<bool>, SqlError>,
    ) -> Result<bool, SqlError> {
        let rows = &self.0.rows;
        match located {
            Located::One(key) => {
                let mut row = RowBuf::default();
                if rows.one(view, &key, &[], &mut row)? {
                    *touched = Touched { read: touched.read + 1, kept: touched.kept + 1 };
                    let _ = each(Row { table: &rows.table, values: Values::Stored(row.raw()), view })?;
                }
                Ok(true)
            }
            Located::Ranges(ranges) => rows.each(view, ranges, &[], stop, Some(want), touched, |raw| {
                each(Row { table: &rows.table, values: Values::Stored(raw), view })
            }),
        }
    }
}

fn has_placeholders(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closures return no error.
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|node| Ok(matches!(node, Expr::Placeholder(_)))).unwrap_or(true);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}
