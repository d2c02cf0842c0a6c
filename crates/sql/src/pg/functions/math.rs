//! Arithmetic that DataFusion has no function for.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};

use super::define::{Call, P, PgFunction, Returns, f, oid};
use crate::pg::arrow::cast_array;
use crate::pg::datetime::Zone;
use crate::pg::types::{NUMERIC_PRECISION, NUMERIC_SCALE, oid as t};
use crate::wire::SqlError;

fn division_by_zero() -> SqlError {
    SqlError::new("22012", "division by zero")
}

/// `bigint` if both arguments are integers, else `numeric`.
fn integer_or_numeric(fields: &[FieldRef]) -> FieldRef {
    let integers = fields.iter().all(|field| field.data_type().is_integer() || field.data_type().is_null());
    let ty = if integers {
        DataType::Int64
    } else {
        DataType::Decimal128(NUMERIC_PRECISION, NUMERIC_SCALE as i8)
    };
    Arc::new(Field::new("", ty, true))
}

fn both(call: &Call<'_>, integers: fn(i64, i64) -> Option<i64>, numerics: fn(i128, i128) -> i128) -> Result<ArrayRef, SqlError> {
    let target = call.returns.data_type();
    let oid = if target.is_integer() { t::INT8 } else { t::NUMERIC };
    let left = cast_array(&call.arrays[0], target, oid, &Zone::Utc)?;
    let right = cast_array(&call.arrays[1], target, oid, &Zone::Utc)?;
    if target.is_integer() {
        let (left, right) = (
            left.as_primitive::<datafusion::arrow::datatypes::Int64Type>(),
            right.as_primitive::<datafusion::arrow::datatypes::Int64Type>(),
        );
        return call.ints(|row| {
            if left.is_null(row) || right.is_null(row) {
                return Ok(None);
            }
            if right.value(row) == 0 {
                return Err(division_by_zero());
            }
            integers(left.value(row), right.value(row))
                .map(Some)
                .ok_or_else(|| SqlError::new("22003", "bigint out of range"))
        });
    }
    let (left, right) = (
        left.as_primitive::<datafusion::arrow::datatypes::Decimal128Type>(),
        right.as_primitive::<datafusion::arrow::datatypes::Decimal128Type>(),
    );
    let out: Decimal128Array = (0..call.rows)
        .map(|row| {
            if left.is_null(row) || right.is_null(row) {
                return Ok(None);
            }
            if right.value(row) == 0 {
                return Err(division_by_zero());
            }
            Ok(Some(numerics(left.value(row), right.value(row))))
        })
        .collect::<Result<_, SqlError>>()?;
    Ok(Arc::new(
        out.with_precision_and_scale(NUMERIC_PRECISION, NUMERIC_SCALE as i8)
            .map_err(|error| crate::pg::errors::from_arrow(&error))?,
    ))
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("mod", &[P::Any, P::Any], Returns::By(integer_or_numeric), |call| {
            both(call, |a, b| Some(a.wrapping_rem(b)), |a, b| a % b)
        }),
        f("div", &[P::Any, P::Any], Returns::By(integer_or_numeric), |call| {
            both(call, i64::checked_div, |a, b| (a / b) * 10i128.pow(NUMERIC_SCALE.into()))
        }),
        f("gen_random_uuid", &[], oid(t::UUID), |call| call.texts(|_| Ok(Some(random_uuid())))).volatile(),
        f("width_bucket", &[P::Float, P::Float, P::Float, P::Int], oid(t::INT4), |call| {
            let value = |at: usize, row: usize| {
                let array = call.arrays[at].as_primitive::<datafusion::arrow::datatypes::Float64Type>();
                (!array.is_null(row)).then(|| array.value(row))
            };
            call.int4s(|row| {
                let (Some(x), Some(low), Some(high), Some(count)) =
                    (value(0, row), value(1, row), value(2, row), call.int(3, row))
                else {
                    return Ok(None);
                };
                if count <= 0 {
                    return Err(SqlError::new("2201G", "count must be greater than zero"));
                }
                if low == high || !low.is_finite() || !high.is_finite() || x.is_nan() {
                    return Err(SqlError::new("2201G", "lower bound cannot equal upper bound"));
                }
                let part = (x - low) / (high - low);
                let bucket = if part < 0.0 {
                    0.0
                } else if part >= 1.0 {
                    count as f64 + 1.0
                } else {
                    (part * count as f64).floor() + 1.0
                };
                Ok(Some(bucket as i32))
            })
        }),
    ]
}

/// A random (version 4) uuid, from the standard library's randomly keyed hasher: unpredictable
/// enough to be unique, not for secrets.
fn random_uuid() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static KEYS: std::sync::OnceLock<(RandomState, RandomState)> = std::sync::OnceLock::new();
    let (high, low) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let half = |keys: &RandomState| {
        let mut hasher = keys.build_hasher();
        hasher.write_u64(count);
        hasher.write_i64(crate::pg::datetime::clock_us());
        hasher.finish()
    };
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&half(high).to_be_bytes());
    bytes[8..].copy_from_slice(&half(low).to_be_bytes());
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    crate::pg::encode::uuid_text(&bytes)
}

#[cfg(test)]
mod tests {
    use super::random_uuid;

    #[test]
    fn uuids_differ() {
        let (a, b) = (random_uuid(), random_uuid());
        assert_ne!(a, b);
        assert_eq!(a.as_bytes()[14], b'4');
        assert!(crate::pg::decode::parse_uuid(&a).is_ok());
    }
}
