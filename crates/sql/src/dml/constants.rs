//! Values that a statement assigns to columns whatever its rows are: PostgreSQL brings them to the columns' types when
//! it plans, so that a value which does not fit is an error although no row is written. Here they are not known in a
//! plan that is kept, and are looked at when the statement begins.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility};
use resurgam_dialect::{Catalog, Schema};
use resurgam_engine::{ColumnType, OrderedType, Table};

use super::assign::assigned;
use super::folded::Folded;
use crate::exec::access_path::is_constant;
use crate::exec::direct::RowExpr;
use crate::pg::datetime::Zone;
use crate::pg::ordered::type_of_data;
use crate::plan::planner::{as_in_plan, simplified};
use crate::wire::SqlError;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Constants(Vec<(usize, Folded)>);

impl Constants {
    /// Adds a column's value, if it is a constant that its type may refuse.
    pub(super) fn add(&mut self, state: &SessionState, table: &Table, column: usize, expr: &Expr) {
        let refuses = match table.columns.get(column).map(|column| &column.ty) {
            Some(ColumnType::Text | ColumnType::Bytes | ColumnType::Bool) | None => false,
            Some(_) => true,
        };
        if !refuses {
            return;
        }
        let value = Folded::new(expr, &|expr| constant(state, expr));
        if !value.is_unknown() {
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
        for (column, value) in &self.0 {
            if let Some(value) = value.value(params)?.filter(|value| !value.is_null()) {
                assigned(&value, &table.columns[*column], zone)?;
            }
        }
        Ok(())
    }
}

/// What computes an expression that is a constant to PostgreSQL.
fn constant(state: &SessionState, expr: &Expr) -> Option<RowExpr> {
    if !is_constant(expr) || is_of_its_time(expr) {
        return None;
    }
    let empty = DFSchema::empty();
    let ready = as_in_plan(state, expr.clone(), &empty).and_then(|expr| simplified(state, expr, &empty)).ok()?;
    RowExpr::new(&ready, None, &empty)
}

/// What `to_jsonb`, `json_build_object`, `jsonb_build_array` and their kin are computed by.
const OF_JSON: [&str; 3] = ["pg_json_value", "pg_json_object", "pg_json_array"];

/// Whether PostgreSQL has functions of that name, and none of them is immutable. Some are here (`concat`).
fn is_stable(name: &str) -> bool {
    if OF_JSON.iter().any(|made| name.starts_with(made)) {
        return true;
    }
    let mut named = Catalog::postgres().functions_named(Schema::PgCatalog, name).peekable();
    named.peek().is_some() && named.all(|function| function.volatility != resurgam_dialect::Volatility::Immutable)
}

/// Whether it calls what is no function of its arguments alone: PostgreSQL leaves that to the rows.
fn is_of_its_time(expr: &Expr) -> bool {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::ScalarFunction(call) => match call.func.name().strip_prefix("pg_cast_") {
                Some(to) => is_by_settings(call.args.first(), to),
                None => is_stable(call.func.name()) || call.func.signature().volatility != Volatility::Immutable,
            },
            Expr::Cast(cast) => is_by_settings(Some(&cast.expr), name_of(cast.field.data_type())),
            _ => false,
        })
    })
    .unwrap_or(true)
}

/// Whether PostgreSQL's cast of that value to the type `to` is stable: it reads or writes by the session's settings.
fn is_by_settings(value: Option<&Expr>, to: &str) -> bool {
    const TIMES: [&str; 6] = ["date", "time", "timetz", "timestamp", "timestamptz", "interval"];
    let Some(from) = value.and_then(|value| value.get_type(&DFSchema::empty()).ok()) else { return false };
    let is_text = |name: &str| matches!(name, "text" | "varchar" | "bpchar" | "name");
    let written = match &from {
        DataType::Date32 | DataType::Timestamp(..) | DataType::Interval(_) => true,
        // Of whatever: `array_out` and `range_out` are stable.
        other => other.is_list() || is_range(other),
    };
    let zoned = |to: &str| matches!(&from, DataType::Timestamp(_, Some(_))) != (to == "timestamptz");
    match is_text(to) {
        true => written,
        false if from.is_string() => TIMES.contains(&to),
        false => {
            written && !matches!(from, DataType::Interval(_)) && !is_range(&from) && TIMES.contains(&to) && zoned(to)
        }
    }
}

fn is_range(ty: &DataType) -> bool {
    use OrderedType as O;
    let ranges = [O::Int4Range, O::Int8Range, O::DateRange, O::TsRange, O::TstzRange];
    type_of_data(ty).is_some_and(|ty| ranges.contains(&ty))
}

/// The name of a type that a plain cast is to, as far as [`is_by_settings`] asks.
fn name_of(ty: &DataType) -> &'static str {
    match ty {
        DataType::Date32 => "date",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Time64(_) => "time",
        DataType::Interval(_) => "interval",
        ty if ty.is_string() => "text",
        _ => "",
    }
}
