//! Values that a statement assigns to columns whatever its rows are: PostgreSQL brings them to the columns' types when
//! it plans, so that a value which does not fit is an error although no row is written. Here they are not known in a
//! plan that is kept, and are looked at when the statement begins.

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, Volatility};
use resurgam_engine::{ColumnType, Table};

use super::assign::assigned;
use crate::exec::direct::{Input, RowExpr};
use crate::pg::datetime::Zone;
use crate::plan::access::is_constant;
use crate::plan::planner::{as_in_plan, simplified};
use crate::wire::SqlError;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Constants(Vec<(usize, RowExpr)>);

impl Constants {
    /// Adds a column's value, if it is a constant that its type may refuse.
    pub(super) fn add(&mut self, state: &SessionState, table: &Table, column: usize, expr: &Expr) {
        let refuses = match table.columns.get(column).map(|column| &column.ty) {
            Some(ColumnType::Text | ColumnType::Bytes | ColumnType::Bool) | None => false,
            Some(_) => true,
        };
        if !refuses || !is_constant(expr) || is_of_its_time(expr) {
            return;
        }
        let empty = DFSchema::empty();
        let ready = as_in_plan(state, expr.clone(), &empty).and_then(|expr| simplified(state, expr, &empty));
        if let Ok(ready) = ready
            && let Some(value) = RowExpr::new(&ready, None, &empty)
        {
            self.0.push((column, value));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses values that do not fit.
    ///
    /// # Errors
    /// Those of the casts of assignment, and of evaluating the values.
    pub(super) fn check(&self, table: &Table, params: &[ScalarValue], zone: &Zone) -> Result<(), SqlError> {
        for (column, expr) in &self.0 {
            assigned(&expr.evaluate(Input { params, row: None })?, &table.columns[*column], zone)?;
        }
        Ok(())
    }
}

/// Functions that are stable in PostgreSQL, and immutable here.
const STABLE: [&str; 4] = ["concat", "concat_ws", "format", "array_to_string"];

/// Whether it calls what is no function of its arguments alone: PostgreSQL leaves that to the rows.
fn is_of_its_time(expr: &Expr) -> bool {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::ScalarFunction(call) => {
                let casts = call.func.name().starts_with("pg_cast_");
                let stable = STABLE.contains(&call.func.name());
                stable || !casts && call.func.signature().volatility != Volatility::Immutable
            }
            _ => false,
        })
    })
    .unwrap_or(true)
}
