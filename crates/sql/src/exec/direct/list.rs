//! SELECT without FROM: `SELECT nextval('s')`, `SELECT now()`, `SELECT $1 + 1`.
//!
//! Its list is computed once in each execution, from the first item to the last, with the parameters as they are given: nothing of it
//! is computed when it is planned that was not so before. Only what takes no time to speak of is taken (constants, parameters,
//! casts, arithmetic, comparisons, logic, CASE, and calls of a few functions): whoever computes for long has to let others go on.

use datafusion::arrow::datatypes::Fields;
use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use super::expr::Input;
use super::output::Output;
use crate::exec::planning::Planning;
use crate::pg::encode::TextStyle;
use crate::wire::{Format, RowChunk, SqlError};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct DirectList(Output);

/// Functions that are done at once.
const LIGHT: [&str; 19] = [
    "nextval",
    "currval",
    "lastval",
    "setval",
    "now",
    "transaction_timestamp",
    "statement_timestamp",
    "clock_timestamp",
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "localtime",
    "version",
    "current_database",
    "current_user",
    "session_user",
    "current_role",
    "pg_backend_pid",
];

/// Whether a function of the plan is one of these, or a cast.
pub(super) fn is_light(name: &str) -> bool {
    LIGHT.contains(&name) || name.starts_with("pg_cast_")
}

impl DirectList {
    /// A planned query as a list, whose columns are `fields`; `None` if it is none, or takes its time.
    pub(crate) fn new(state: &SessionState, plan: &LogicalPlan, fields: &Fields) -> Option<Self> {
        if !Planning::of(state.config()).direct {
            return None;
        }
        let LogicalPlan::Projection(list) = plan else { return None };
        let LogicalPlan::EmptyRelation(nothing) = list.input.as_ref() else { return None };
        if !nothing.produce_one_row {
            return None;
        }
        Output::of_nothing(&list.expr, fields, &nothing.schema).filter(Output::is_light).map(Self)
    }

    /// Whether that many formats can be for its columns.
    pub(crate) fn accepts(&self, formats: &[Format]) -> bool {
        self.0.accepts(formats)
    }

    /// The row.
    ///
    /// # Errors
    /// Those of the expressions.
    pub(crate) fn row(
        &self,
        params: &[ScalarValue],
        formats: &[Format],
        style: &TextStyle,
    ) -> Result<RowChunk, SqlError> {
        let mut chunk = self.0.chunk();
        self.0.append(Input { params, row: None }, formats, style, &mut chunk)?;
        Ok(chunk)
    }
}
