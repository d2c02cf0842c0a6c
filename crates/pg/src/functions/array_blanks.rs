//! Blanks at the end of elements of `character(n)[]`: an array that is made of such values has them as they are shown
//! ([`PADDED`](crate::types::PADDED)); what compares elements takes them off first. Arrays of one dimension.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};

use super::define::{P, PgFunction, Returns, f};
use crate::errors::from_arrow;
use crate::types::{PADDED, TEXT};
use crate::wire::SqlError;

/// An array's elements without blanks at their ends.
pub const TRIM: &str = "pg_array_rtrim";
/// An array's elements with blanks up to a length.
pub const PAD: &str = "pg_array_rpad";

/// The type of arrays whose elements carry their blanks.
#[must_use]
pub fn padded_list() -> DataType {
    DataType::new_list(PADDED, true)
}

/// The same lists, of other elements.
fn with_elements(
    array: &ArrayRef,
    ty: &DataType,
    of: impl Fn(&StringViewArray) -> Result<ArrayRef, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let Some(list) = array.as_list_opt::<i32>() else {
        // Nothing but NULLs.
        return Ok(new_null_array(&DataType::new_list(ty.clone(), true), array.len()));
    };
    let texts = cast(list.values(), &TEXT).map_err(|error| from_arrow(&error))?;
    let values = of(texts.as_string_view())?;
    let field = Arc::new(Field::new_list_field(ty.clone(), true));
    let out = ListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(out.map_err(|error| from_arrow(&error))?))
}

/// Lists of texts without the blanks at the ends of their elements.
pub(super) fn trimmed(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    with_elements(array, &TEXT, |texts| {
        let trimmed = texts.iter().map(|text| text.map(|text| text.trim_end_matches(' ')));
        Ok(Arc::new(trimmed.collect::<StringViewArray>()))
    })
}

fn texts(_: &[FieldRef]) -> FieldRef {
    Arc::new(Field::new("", DataType::new_list(TEXT, true), true))
}

fn padded(_: &[FieldRef]) -> FieldRef {
    Arc::new(Field::new("", padded_list(), true))
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f(TRIM, &[P::Any], Returns::By(texts), |call| trimmed(&call.arrays[0])),
        f(PAD, &[P::Any, P::Int], Returns::By(padded), |call| {
            let length = call.int(1, 0).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
            with_elements(&call.arrays[0], &PADDED, |texts| {
                crate::memory::column(texts.len(), texts.len().saturating_mul(length))?;
                let mut out = LargeStringBuilder::new();
                for text in texts {
                    let Some(text) = text else {
                        out.append_null();
                        continue;
                    };
                    let missing = length.saturating_sub(text.chars().count());
                    out.append_value([text, &" ".repeat(missing)].concat());
                }
                Ok(Arc::new(out.finish()))
            })
        }),
    ]
}
