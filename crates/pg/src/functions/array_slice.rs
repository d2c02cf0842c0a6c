//! `pg_array_slice(array, from, to)`: what `array[from:to]` is, of an array of one dimension that begins at 1.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, FieldRef};

use super::define::{P, PgFunction, Returns, f};
use crate::errors::from_arrow;
use crate::wire::SqlError;

fn as_given(fields: &[FieldRef]) -> FieldRef {
    fields.first().cloned().unwrap_or_else(|| Arc::new(crate::types::parameter_field("", 0).as_ref().clone()))
}

/// Bounds that are left out are those of the array; a NULL bound makes the result NULL; what lies outside is left out.
pub(super) fn function() -> PgFunction {
    f("pg_array_slice", &[P::Any, P::Int, P::Int], Returns::By(as_given), |c| {
        let Some(array) = c.arrays.first() else { return c.null() };
        let Some(lists) = array.as_list_opt::<i32>() else {
            return Err(SqlError::internal("a slice of what is no array"));
        };
        let DataType::List(item) = array.data_type() else { return c.null() };
        if item.data_type().is_nested() {
            return Err(SqlError::unsupported("slices of multidimensional arrays are not supported"));
        }
        let offsets = lists.value_offsets();
        let (mut lengths, mut valid, mut taken) = (Vec::new(), Vec::new(), Vec::<u32>::new());
        for row in 0..c.rows {
            crate::running::check()?;
            let (start, length) = (i64::from(offsets[row]), i64::from(offsets[row + 1] - offsets[row]));
            match (lists.is_valid(row), c.int(1, row), c.int(2, row)) {
                (true, Some(from), Some(to)) => {
                    let (from, to) = (from.max(1), to.min(length));
                    let count = (to - from + 1).max(0);
                    taken.extend((0..count).map(|at| (start + from - 1 + at) as u32));
                    lengths.push(count as usize);
                    valid.push(true);
                }
                _ => {
                    lengths.push(0);
                    valid.push(false);
                }
            }
        }
        let values = take(lists.values(), &UInt32Array::from(taken), None).map_err(|error| from_arrow(&error))?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let out = ListArray::try_new(Arc::clone(item), offsets, values, Some(NullBuffer::from(valid)));
        Ok(Arc::new(out.map_err(|error| from_arrow(&error))?))
    })
}
