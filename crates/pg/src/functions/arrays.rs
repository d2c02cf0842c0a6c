//! Arrays.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field};

use super::define::{Call, P, PgFunction, Returns, f, oid};
use crate::errors::from_arrow;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Number of elements of each row's list; `None` where null or not a list.
fn lengths(call: &Call<'_>) -> Vec<Option<usize>> {
    let array = &call.arrays[0];
    (0..call.rows)
        .map(|row| {
            if array.is_null(row) {
                return None;
            }
            match array.data_type() {
                DataType::List(_) => Some(array.as_list::<i32>().value_length(row) as usize),
                DataType::LargeList(_) => Some(array.as_list::<i64>().value_length(row) as usize),
                DataType::FixedSizeList(_, size) => Some(*size as usize),
                _ => None,
            }
        })
        .collect()
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("array_upper", &[P::Any, P::Int], oid(t::INT4), |call| {
            let lengths = lengths(call);
            call.int4s(|row| Ok(lengths[row].filter(|&n| n > 0 && call.int(1, row) == Some(1)).map(|n| n as i32)))
        }),
        f("array_lower", &[P::Any, P::Int], oid(t::INT4), |call| {
            let lengths = lengths(call);
            call.int4s(|row| Ok(lengths[row].filter(|&n| n > 0 && call.int(1, row) == Some(1)).map(|_| 1)))
        }),
        // bytea || bytea
        f("pg_byteacat", &[P::Any, P::Any], oid(t::BYTEA), |call| {
            let (left, right) = (call.arrays[0].as_binary_view(), call.arrays[1].as_binary_view());
            let joined = left.iter().zip(right).map(|pair| match pair {
                (Some(left), Some(right)) => Some([left, right].concat()),
                _ => None,
            });
            Ok(Arc::new(joined.collect::<BinaryViewArray>()) as ArrayRef)
        }),
        // ARRAY(subquery) is never null
        f(
            "pg_array_or_empty",
            &[P::Any],
            Returns::By(|fields| match fields.first() {
                Some(field) if matches!(field.data_type(), DataType::List(_)) => {
                    Arc::new(field.as_ref().clone().with_nullable(true))
                }
                _ => Arc::new(Field::new("", DataType::new_list(DataType::Utf8View, true), true)),
            }),
            |call| {
                let array = &call.arrays[0];
                let DataType::List(field) = array.data_type() else {
                    let empty = new_empty_array(&DataType::Utf8View);
                    let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
                    let lists = ListArray::try_new(field, OffsetBuffer::from_lengths(vec![0; call.rows]), empty, None);
                    return Ok(Arc::new(lists.map_err(|error| from_arrow(&error))?) as ArrayRef);
                };
                let list = array.as_list::<i32>();
                // a null row's range may cover elements, so lengths are rebuilt
                let lengths =
                    (0..list.len()).map(|row| if list.is_null(row) { 0 } else { list.value_length(row) as usize });
                let needs_copy = (0..list.len()).any(|row| list.is_null(row) && list.value_length(row) > 0)
                    || list.value_offsets().first() != Some(&0);
                let values = if needs_copy {
                    let rows: Vec<ArrayRef> =
                        (0..list.len()).filter(|&row| !list.is_null(row)).map(|row| list.value(row)).collect();
                    let parts: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
                    if parts.is_empty() {
                        new_empty_array(field.data_type())
                    } else {
                        datafusion::arrow::compute::concat(&parts).map_err(|error| from_arrow(&error))?
                    }
                } else {
                    list.values().clone()
                };
                let out = ListArray::try_new(field.clone(), OffsetBuffer::from_lengths(lengths), values, None);
                Ok(Arc::new(out.map_err(|error| from_arrow(&error))?) as ArrayRef)
            },
        ),
        f(
            "generate_subscripts",
            &[P::Any, P::Int],
            Returns::By(|_| Arc::new(Field::new("", DataType::new_list(DataType::Int64, true), true))),
            |call| {
                let lengths = lengths(call);
                let mut builder = ListBuilder::new(Int64Builder::new());
                for (row, length) in lengths.iter().enumerate() {
                    let wanted = if call.int(1, row) == Some(1) { length.unwrap_or(0) } else { 0 };
                    for at in 1..=wanted {
                        builder.values().append_value(at as i64);
                    }
                    builder.append(true);
                }
                Ok::<_, SqlError>(Arc::new(builder.finish()) as ArrayRef)
            },
        ),
    ]
}
