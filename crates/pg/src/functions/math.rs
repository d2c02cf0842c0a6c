//! Arithmetic that DataFusion has no function for.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};

use super::define::{Call, P, PgFunction, Returns, f, oid};
use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::types::{NUMERIC_PRECISION, NUMERIC_SCALE, oid as t};
use crate::wire::SqlError;

fn division_by_zero() -> SqlError {
    SqlError::new("22012", "division by zero")
}

/// `bigint` if both arguments are integers, else `numeric`.
fn integer_or_numeric(fields: &[FieldRef]) -> FieldRef {
    let integers = fields.iter().all(|field| field.data_type().is_integer() || field.data_type().is_null());
    let ty = if integers { DataType::Int64 } else { DataType::Decimal128(NUMERIC_PRECISION, NUMERIC_SCALE as i8) };
    Arc::new(Field::new("", ty, true))
}

fn both(
    call: &Call<'_>,
    integers: fn(i64, i64) -> Option<i64>,
    numerics: fn(i128, i128) -> Option<i128>,
) -> Result<ArrayRef, SqlError> {
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
            numerics(left.value(row), right.value(row))
                .map(Some)
                .ok_or_else(|| SqlError::new("22003", "numeric field overflow"))
        })
        .collect::<Result<_, SqlError>>()?;
    Ok(Arc::new(
        out.with_precision_and_scale(NUMERIC_PRECISION, NUMERIC_SCALE as i8)
            .map_err(|error| crate::errors::from_arrow(&error))?,
    ))
}

/// How digits behind the kept ones are taken away.
#[derive(Clone, Copy)]
enum Mode {
    Round,
    Truncate,
    Ceil,
    Floor,
}

/// Result of rounding: `numeric` with the places asked for, or `double precision`.
fn rounded(fields: &[FieldRef], scalars: &[Option<&datafusion::common::ScalarValue>]) -> FieldRef {
    use datafusion::common::ScalarValue;
    let places = match scalars.get(1) {
        None => Some(0),
        Some(Some(ScalarValue::Int64(Some(places)))) => Some(*places),
        Some(_) => None,
    };
    let two = fields.len() > 1;
    let ty = match fields.first().map(|field| field.data_type()) {
        Some(DataType::Decimal128(precision, scale)) => {
            let places =
                places.filter(|_| two || !scalars.is_empty() || fields.len() == 1).unwrap_or(i64::from(*scale));
            let places = if two { places } else { 0 };
            // rounding up may take one digit more
            DataType::Decimal128((*precision + 1).min(38), places.clamp(0, i64::from(*scale)) as i8)
        }
        // round(5, 2) is numeric
        Some(ty) if two && ty.is_integer() => DataType::Decimal128(38, places.unwrap_or(10).clamp(0, 18) as i8),
        Some(_) if two => DataType::Decimal128(38, places.unwrap_or(10).clamp(0, 18) as i8),
        _ => DataType::Float64,
    };
    Arc::new(Field::new("", ty, true))
}

fn round_decimal(value: i128, scale: i32, places: i32, mode: Mode) -> Option<i128> {
    let drop = scale - places;
    if drop <= 0 {
        return Some(value);
    }
    if drop > 38 {
        return Some(0);
    }
    let unit = 10i128.pow(drop as u32);
    let (quotient, rest) = (value / unit, value % unit);
    let kept = match mode {
        Mode::Truncate => quotient,
        Mode::Round => quotient + if rest.abs() >= unit - rest.abs() { rest.signum() } else { 0 },
        Mode::Ceil => quotient + i128::from(rest > 0),
        Mode::Floor => quotient - i128::from(rest < 0),
    };
    kept.checked_mul(unit)
}

fn rounding(name: &'static str, mode: Mode) -> PgFunction {
    f(name, &[P::Any, P::Int], Returns::Args(rounded), move |call| {
        let target = call.returns.data_type();
        let DataType::Decimal128(precision, target_scale) = target else {
            let values = cast_array(&call.arrays[0], &DataType::Float64, t::FLOAT8, &Zone::Utc)?;
            let out: Float64Array =
                values.as_primitive::<datafusion::arrow::datatypes::Float64Type>().unary(|value| match mode {
                    Mode::Round => value.round_ties_even(),
                    Mode::Truncate => value.trunc(),
                    Mode::Ceil => value.ceil(),
                    Mode::Floor => value.floor(),
                });
            return Ok(Arc::new(out));
        };
        // floats are taken with as many digits as they have
        let scale = match call.arrays[0].data_type() {
            DataType::Decimal128(_, scale) => *scale,
            ty if ty.is_integer() => 0,
            _ => 18,
        };
        let values = cast_array(&call.arrays[0], &DataType::Decimal128(38, scale), t::NUMERIC, &Zone::Utc)?;
        let values = values.as_primitive::<datafusion::arrow::datatypes::Decimal128Type>();
        let out: Decimal128Array = (0..call.rows)
            .map(|row| {
                let places = if call.given(1) { call.int(1, row) } else { Some(0) };
                let (Some(places), false) = (places, values.is_null(row)) else { return Ok(None) };
                let places = places.clamp(-38, 38) as i32;
                let kept = round_decimal(values.value(row), scale.into(), places, mode)
                    .ok_or_else(|| SqlError::new("22003", "numeric field overflow"))?;
                crate::decode::rescale(kept, scale.into(), *precision, *target_scale).map(Some)
            })
            .collect::<Result<_, SqlError>>()?;
        Ok(Arc::new(
            out.with_precision_and_scale(*precision, *target_scale)
                .map_err(|error| crate::errors::from_arrow(&error))?,
        ))
    })
    .required(1)
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        rounding("round", Mode::Round),
        rounding("trunc", Mode::Truncate),
        rounding("ceil", Mode::Ceil).alias("ceiling"),
        rounding("floor", Mode::Floor),
        f("mod", &[P::Any, P::Any], Returns::By(integer_or_numeric), |call| {
            both(call, |a, b| Some(a.wrapping_rem(b)), |a, b| a.checked_rem(b))
        }),
        f("div", &[P::Any, P::Any], Returns::By(integer_or_numeric), |call| {
            both(call, i64::checked_div, |a, b| (a / b).checked_mul(10i128.pow(NUMERIC_SCALE.into())))
        }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_numbers() {
        for (value, places, mode, expected) in [
            (1235, 2, Mode::Round, 1240),
            (-1235, 2, Mode::Round, -1240),
            (1239, 2, Mode::Truncate, 1230),
            (1001, 0, Mode::Ceil, 2000),
            (-1001, 0, Mode::Ceil, -1000),
            (-1001, 0, Mode::Floor, -2000),
            (15_000, -1, Mode::Round, 20_000),
        ] {
            assert_eq!(round_decimal(value, 3, places, mode), Some(expected), "{value} {places}");
        }
    }
}
