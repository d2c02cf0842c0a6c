//! Comparisons of numerics of any form, and the keys that grouping, sorting and joining go by.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field};
use resurgam_numeric::key;

use super::column::Numbers;
use crate::functions::define::{Call, P, PgFunction, Returns, f, oid};
use crate::types::oid as t;
use crate::wire::SqlError;

fn compare(call: &Call<'_>, mut push: impl FnMut(Option<Ordering>)) -> Result<(), SqlError> {
    let (left, right) = (Numbers::of(call.arrays[0].as_ref())?, Numbers::of(call.arrays[1].as_ref())?);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for row in 0..call.rows {
        push(match (left.key(row, &mut first)?, right.key(row, &mut second)?) {
            (Some(left), Some(right)) => Some(left.cmp(right)),
            _ => None,
        });
    }
    Ok(())
}

fn holds(name: &'static str, test: fn(Ordering) -> bool) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::BOOL), move |call| {
        let mut builder = BooleanBuilder::with_capacity(call.rows);
        compare(call, |order| builder.append_option(order.map(test)))?;
        Ok(Arc::new(builder.finish()))
    })
}

/// The order as -1, 0 or 1.
fn cmp() -> PgFunction {
    f("numeric_cmp", &[P::Any, P::Any], oid(t::INT4), |call| {
        let mut builder = Int32Builder::with_capacity(call.rows);
        compare(call, |order| builder.append_option(order.map(|order| order as i32)))?;
        Ok(Arc::new(builder.finish()))
    })
}

/// A value without the digits that it shows: equal numbers have equal keys, and keys order as numbers do.
fn numeric_key() -> PgFunction {
    let returns = Returns::Fixed(Arc::new(Field::new("", DataType::BinaryView, true)));
    f(KEY, &[P::Any], returns, |call| {
        if let Some(encoded) = call.arrays[0].as_binary_opt::<i64>()
            && let Some(views) = shared_keys(encoded)
        {
            return Ok(Arc::new(views));
        }
        let numbers = Numbers::of(call.arrays[0].as_ref())?;
        let mut builder = BinaryViewBuilder::with_capacity(call.rows);
        let mut scratch = Vec::new();
        for row in 0..call.rows {
            builder.append_option(numbers.key(row, &mut scratch)?);
        }
        Ok(Arc::new(builder.finish()))
    })
}

/// An array's elements as [`KEY`] has them, to look for one among them.
fn array_keys() -> PgFunction {
    let item = Arc::new(Field::new("item", DataType::BinaryView, true));
    let returns = Returns::Fixed(Arc::new(Field::new("", DataType::List(Arc::clone(&item)), true)));
    f(ARRAY_KEYS, &[P::Any], returns, move |call| {
        if call.arrays[0].data_type().is_null() {
            return Ok(new_null_array(&DataType::List(Arc::clone(&item)), call.rows));
        }
        let Some(lists) = call.arrays[0].as_list_opt::<i32>() else {
            return Err(SqlError::internal("keys of what is no array"));
        };
        let numbers = Numbers::of(lists.values().as_ref())?;
        let mut builder = BinaryViewBuilder::with_capacity(lists.values().len());
        let mut scratch = Vec::new();
        for element in 0..lists.values().len() {
            builder.append_option(numbers.key(element, &mut scratch)?);
        }
        let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
        let keys = ListArray::try_new(Arc::clone(&item), offsets, Arc::new(builder.finish()), nulls);
        Ok(Arc::new(keys.map_err(|error| crate::errors::from_arrow(&error))?))
    })
}

/// Views into the bytes that are there; `None` if they are beyond what views reach.
fn shared_keys(encoded: &LargeBinaryArray) -> Option<BinaryViewArray> {
    let offsets = encoded.value_offsets();
    let end = u32::try_from(*offsets.last()?).ok()?;
    u32::try_from(encoded.values().len()).ok()?;
    let mut views = Vec::with_capacity(encoded.len());
    for (row, offset) in offsets.iter().take(encoded.len()).enumerate() {
        let bytes = if encoded.is_null(row) { &[] } else { key::key_of(encoded.value(row)) };
        views.push(datafusion::arrow::array::make_view(bytes, 0, (*offset as u32).min(end)));
    }
    BinaryViewArray::try_new(views.into(), vec![encoded.values().clone()], encoded.nulls().cloned()).ok()
}

/// Name of the function that makes keys of an array's elements.
pub const ARRAY_KEYS: &str = "numeric_array_keys";
/// Name of the function that makes keys.
pub const KEY: &str = "numeric_key";

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        holds("numeric_eq", Ordering::is_eq),
        holds("numeric_ne", Ordering::is_ne),
        holds("numeric_lt", Ordering::is_lt),
        holds("numeric_le", Ordering::is_le),
        holds("numeric_gt", Ordering::is_gt),
        holds("numeric_ge", Ordering::is_ge),
        cmp(),
        numeric_key(),
        array_keys(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::numeric::column::{NumericBuilder, to_dynamic};
    use resurgam_numeric::Numeric;

    #[test]
    fn keys_share_the_bytes_and_hide_the_scale() {
        let mut builder = NumericBuilder::new(4);
        for text in ["1.0", "1.00", "-3", "123456789012345678901234567890.5"] {
            builder.push(text.parse::<Numeric>().ok().as_ref());
        }
        builder.push(None);
        let array = builder.finish();
        let sliced = array.slice(1, 4);
        let keys = shared_keys(sliced.as_binary::<i64>()).expect("views");
        assert_eq!(keys.len(), 4);
        let all = shared_keys(array.as_binary::<i64>()).expect("views");
        assert_eq!(all.value(0), all.value(1));
        assert_eq!(keys.value(0), all.value(1));
        assert!(all.value(2) < all.value(0) && all.value(0) < all.value(3));
        assert!(keys.is_null(3));
        assert_eq!(to_dynamic(&array).expect("same").as_ref(), array.as_ref());
    }
}
