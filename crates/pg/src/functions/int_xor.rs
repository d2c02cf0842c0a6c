//! `#` of integers. DataFusion's own operator is simplified as if nothing were NULL: `x # x` to 0.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::bitwise::bitwise_xor;
use datafusion::arrow::datatypes::{DataType, Field, Int16Type, Int32Type, Int64Type};

use super::define::{P, PgFunction, Returns, f};
use crate::wire::SqlError;

/// The function that it is.
pub const INT_XOR: &str = "pg_int_xor";

pub(super) fn all() -> Vec<PgFunction> {
    let same = Returns::By(|fields| {
        let ty = fields.first().map_or(DataType::Int32, |field| field.data_type().clone());
        Arc::new(Field::new("", ty, true))
    });
    vec![f(INT_XOR, &[P::Any, P::Any], same, |call| {
        let [left, right] = call.arrays.as_slice() else { return Err(SqlError::internal("# of two integers")) };
        let done = match left.data_type() {
            DataType::Int16 => bitwise_xor::<Int16Type>(left.as_primitive(), right.as_primitive()).map(array),
            DataType::Int32 => bitwise_xor::<Int32Type>(left.as_primitive(), right.as_primitive()).map(array),
            _ => bitwise_xor::<Int64Type>(left.as_primitive(), right.as_primitive()).map(array),
        };
        done.map_err(|error| SqlError::internal(error.to_string()))
    })]
}

fn array(values: impl datafusion::arrow::array::Array + 'static) -> ArrayRef {
    Arc::new(values)
}
