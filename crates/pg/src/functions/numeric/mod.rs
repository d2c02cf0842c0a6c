//! `numeric` in plans.
//!
//! A `numeric` has one of two Arrow forms, and both are one type to SQL:
//! - *fixed*: `Decimal128(p,s)`: columns of type `numeric(p,s)` with p ≤ 38 and 0 ≤ s ≤ p, literals, and results of
//!   `+ - *` that provably fit; every value shows `s` digits after the point.
//! - *dynamic*: [`DYNAMIC`], which nothing else uses: the value's order-preserving key and two bytes of display scale
//!   (`resurgam_numeric::key`). Everything whose digits depend on the values is dynamic, all other columns of
//!   `numeric` and elements of arrays among them; tables keep these bytes as they are
//!   ([`resurgam_engine::ColumnType::VarNumeric`]).
//!
//! Equal dynamic values may have different bytes, for they may show different digits. So whatever compares bytes
//! (GROUP BY, DISTINCT, ORDER BY, joins, IN) has to go by `numeric_key(value)`; [`keys`] sees to that in any plan.
//!
//! Functions take either form, and integers, and give the dynamic one. They have the names that PostgreSQL's
//! `pg_proc.prosrc` has, and a few of their own: `numeric_dynamic(x)`, `numeric_fixed(x, typmod)`, `numeric_key(x)`;
//! see [`by_proc_name`]. Aggregates are in [`aggregate_by_name`].
//!
//! - `column`: reading and making columns
//! - `scalar`, `compare`, `casts`: functions
//! - `aggregate`, `groups`, `floats`, `regression`: aggregates of numbers
//! - `keys`: the rule about what goes by keys
//! - `overload`: which form of a function a call means, for planning by DataFusion's names

mod aggregate;
mod casts;
pub mod column;
mod compare;
mod floats;
mod groups;
pub mod keys;
mod overload;
mod regression;
mod scalar;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::logical_expr::{AggregateUDF, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF};

use crate::wire::SqlError;
pub use casts::to_fixed;
pub use column::{DYNAMIC, is_exact_number, to_dynamic};
pub use compare::{ARRAY_KEYS, KEY};
pub use overload::{is_dynamic_result, overloads};

/// All functions by name; they are the same for all sessions.
static FUNCTIONS: LazyLock<HashMap<&'static str, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let all = scalar::all().into_iter().chain(compare::all()).chain(casts::all());
    all.map(|function| (function.proc_name(), Arc::new(function.into_udf()))).collect()
});

/// All aggregates by name.
static AGGREGATES: LazyLock<HashMap<&'static str, Arc<AggregateUDF>>> = LazyLock::new(|| {
    aggregate::all().into_iter().chain(regression::all()).map(|(name, udaf)| (name, Arc::new(udaf))).collect()
});

/// The function that PostgreSQL's `pg_proc.prosrc` calls so.
pub fn by_proc_name(name: &str) -> Option<Arc<ScalarUDF>> {
    FUNCTIONS.get(name).cloned()
}

/// `corr`, `covar_…`, `regr_…`; and `sum`, `avg`, `min`, `max`, `var_pop`, `var_samp`, `variance`, `stddev_pop`, `stddev_samp`, `stddev`: with
/// PostgreSQL's types and digits for arguments that are integers, floats or numerics in either form. `min` and
/// `max` take dynamic numerics only.
pub fn aggregate_by_name(name: &str) -> Option<Arc<AggregateUDF>> {
    AGGREGATES.get(name).cloned()
}

/// What a function gives for columns.
///
/// # Errors
/// The function's; XX000 if there is none of that name.
pub fn apply(name: &str, arrays: &[ArrayRef]) -> Result<ArrayRef, SqlError> {
    let internal = || SqlError::internal(format!("no function {name}"));
    let function = by_proc_name(name).ok_or_else(internal)?;
    let rows = arrays.first().map_or(0, |array| array.len());
    let arg_fields: Vec<FieldRef> =
        arrays.iter().map(|array| Arc::new(Field::new("", array.data_type().clone(), true))).collect();
    let scalar_arguments = vec![None; arrays.len()];
    let failed = |error| crate::errors::from_datafusion(error, "");
    let return_field = function
        .return_field_from_args(ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalar_arguments })
        .map_err(failed)?;
    let args = ScalarFunctionArgs {
        args: arrays.iter().map(|array| ColumnarValue::Array(Arc::clone(array))).collect(),
        arg_fields,
        number_rows: rows,
        return_field,
        config_options: Arc::default(),
    };
    function.invoke_with_args(args).and_then(|value| value.into_array(rows)).map_err(failed)
}

/// Aggregates that take the place of DataFusion's of that name, for all types of arguments.
pub(super) fn aggregates() -> impl Iterator<Item = Arc<AggregateUDF>> {
    AGGREGATES.iter().filter(|(name, _)| !matches!(**name, "min" | "max")).map(|(_, udaf)| Arc::clone(udaf))
}

/// All functions, to be registered.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    FUNCTIONS.values().cloned()
}
