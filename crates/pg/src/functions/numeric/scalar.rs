//! Functions and operators of `numeric`, by the names that PostgreSQL's `pg_proc.prosrc` has for them.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field};
use resurgam_numeric::{Numeric, Result as NumericResult};

use super::column::{DYNAMIC, Numbers, NumericBuilder, collect, numeric_error};
use crate::functions::define::{Call, P, PgFunction, Returns, f, oid};
use crate::types::oid as t;
use crate::wire::SqlError;

type Unary = fn(&Numeric) -> NumericResult<Numeric>;
type Binary = fn(&Numeric, &Numeric) -> NumericResult<Numeric>;

/// A result in the dynamic form.
pub(super) fn dynamic() -> Returns {
    Returns::Fixed(Arc::new(Field::new("", DYNAMIC, true)))
}

/// An integer argument, of any width.
pub(super) fn int4(call: &Call<'_>, at: usize, row: usize) -> Option<i32> {
    let array = call.arrays.get(at)?;
    if array.is_null(row) {
        return None;
    }
    use datafusion::arrow::datatypes::{Int16Type, Int32Type, Int64Type};
    Some(match array.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).clamp(i32::MIN.into(), i32::MAX.into()) as i32,
        _ => return None,
    })
}

/// The answer for a row, or null where an argument is.
pub(super) fn one<R>(
    call: &Call<'_>,
    apply: impl Fn(&Numeric) -> NumericResult<R>,
    mut push: impl FnMut(Option<R>),
) -> Result<(), SqlError> {
    let numbers = Numbers::of(call.arrays[0].as_ref())?;
    for row in 0..call.rows {
        let answer = match numbers.get(row)? {
            Some(value) => Some(apply(&value).map_err(numeric_error)?),
            None => None,
        };
        push(answer);
    }
    Ok(())
}

fn unary(name: &'static str, apply: Unary) -> PgFunction {
    f(name, &[P::Any], dynamic(), move |call| {
        let mut builder = NumericBuilder::new(call.rows);
        one(call, apply, |value| builder.push(value.as_ref()))?;
        Ok(builder.finish())
    })
}

fn binary(name: &'static str, apply: Binary) -> PgFunction {
    f(name, &[P::Any, P::Any], dynamic(), move |call| {
        let (left, right) = (Numbers::of(call.arrays[0].as_ref())?, Numbers::of(call.arrays[1].as_ref())?);
        collect(call.rows, |row| match (left.get(row)?, right.get(row)?) {
            (Some(left), Some(right)) => apply(&left, &right).map(Some).map_err(numeric_error),
            _ => Ok(None),
        })
    })
}

/// One number and maybe digits to keep.
fn scaled(name: &'static str, apply: fn(&Numeric, i32) -> NumericResult<Numeric>) -> PgFunction {
    f(name, &[P::Any, P::Any], dynamic(), move |call| {
        let numbers = Numbers::of(call.arrays[0].as_ref())?;
        collect(call.rows, |row| {
            let scale = if call.given(1) { int4(call, 1, row) } else { Some(0) };
            match (numbers.get(row)?, scale) {
                (Some(value), Some(scale)) => apply(&value, scale).map(Some).map_err(numeric_error),
                _ => Ok(None),
            }
        })
    })
    .required(1)
}

/// The larger or the smaller; of equal ones the second, as PostgreSQL has it.
fn extreme(name: &'static str, wanted: std::cmp::Ordering) -> PgFunction {
    f(name, &[P::Any, P::Any], dynamic(), move |call| {
        let (left, right) = (Numbers::of(call.arrays[0].as_ref())?, Numbers::of(call.arrays[1].as_ref())?);
        collect(call.rows, |row| {
            Ok(match (left.get(row)?, right.get(row)?) {
                (Some(left), Some(right)) => Some(if left.cmp(&right) == wanted { left } else { right }),
                _ => None,
            })
        })
    })
}

/// The largest or the least of any number of values, nulls not counted.
fn extreme_of(name: &'static str, wanted: std::cmp::Ordering) -> PgFunction {
    f(name, &[P::Any], dynamic(), move |call| {
        let columns = call.arrays.iter().map(|array| Numbers::of(array.as_ref())).collect::<Result<Vec<_>, _>>()?;
        collect(call.rows, |row| {
            let mut best: Option<Numeric> = None;
            for column in &columns {
                let Some(value) = column.get(row)? else { continue };
                if best.as_ref().is_none_or(|best| value.cmp(best) == wanted) {
                    best = Some(value);
                }
            }
            Ok(best)
        })
    })
    .variadic()
}

/// The first value that is not null.
fn coalesce() -> PgFunction {
    f("numeric_coalesce", &[P::Any], dynamic(), |call| {
        let columns = call.arrays.iter().map(|array| Numbers::of(array.as_ref())).collect::<Result<Vec<_>, _>>()?;
        collect(call.rows, |row| {
            for column in &columns {
                if let Some(value) = column.get(row)? {
                    return Ok(Some(value));
                }
            }
            Ok(None)
        })
    })
    .variadic()
}

fn nullif() -> PgFunction {
    f("numeric_nullif", &[P::Any, P::Any], dynamic(), |call| {
        let (left, right) = (Numbers::of(call.arrays[0].as_ref())?, Numbers::of(call.arrays[1].as_ref())?);
        collect(call.rows, |row| {
            Ok(left.get(row)?.filter(|value| !matches!(right.get(row), Ok(Some(other)) if other == *value)))
        })
    })
}

/// `scale` and its kin: null where the value is not finite.
fn digits(name: &'static str, apply: fn(&Numeric) -> Option<i32>) -> PgFunction {
    f(name, &[P::Any], oid(t::INT4), move |call| {
        let numbers = Numbers::of(call.arrays[0].as_ref())?;
        call.int4s(|row| Ok(numbers.get(row)?.as_ref().and_then(apply)))
    })
}

fn logarithm() -> PgFunction {
    f("numeric_log", &[P::Any, P::Any], dynamic(), |call| {
        let first = Numbers::of(call.arrays[0].as_ref())?;
        let second = if call.given(1) { Some(Numbers::of(call.arrays[1].as_ref())?) } else { None };
        collect(call.rows, |row| {
            let answer = match (&second, first.get(row)?) {
                (None, Some(value)) => value.log10(),
                (Some(second), Some(base)) => match second.get(row)? {
                    Some(value) => value.log(&base),
                    None => return Ok(None),
                },
                _ => return Ok(None),
            };
            answer.map(Some).map_err(numeric_error)
        })
    })
    .required(1)
}

fn factorial() -> PgFunction {
    f("numeric_fac", &[P::Int], dynamic(), |call| {
        collect(call.rows, |row| match call.int(0, row) {
            Some(n) => Numeric::factorial(n).map(Some).map_err(numeric_error),
            None => Ok(None),
        })
    })
}

fn width_bucket() -> PgFunction {
    f("width_bucket_numeric", &[P::Any, P::Any, P::Any, P::Any], oid(t::INT4), |call| {
        let numbers = (0..3).map(|at| Numbers::of(call.arrays[at].as_ref())).collect::<Result<Vec<_>, _>>()?;
        call.int4s(|row| {
            let values = (numbers[0].get(row)?, numbers[1].get(row)?, numbers[2].get(row)?, int4(call, 3, row));
            match values {
                (Some(value), Some(low), Some(high), Some(count)) => {
                    value.width_bucket(&low, &high, count).map(Some).map_err(numeric_error)
                }
                _ => Ok(None),
            }
        })
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    use std::cmp::Ordering;
    vec![
        binary("numeric_add", Numeric::add),
        binary("numeric_sub", Numeric::sub),
        binary("numeric_mul", Numeric::mul),
        binary("numeric_div", Numeric::div),
        binary("numeric_mod", Numeric::rem),
        binary("numeric_div_trunc", Numeric::div_trunc),
        binary("numeric_power", Numeric::power),
        binary("numeric_gcd", Numeric::gcd),
        binary("numeric_lcm", Numeric::lcm),
        unary("numeric_uminus", |value| Ok(value.neg())),
        unary("numeric_uplus", |value| Ok(value.clone())),
        unary("numeric_abs", |value| Ok(value.abs())),
        unary("numeric_sign", |value| Ok(value.sign())),
        unary("numeric_ceil", Numeric::ceil),
        unary("numeric_floor", Numeric::floor),
        unary("numeric_sqrt", Numeric::sqrt),
        unary("numeric_exp", Numeric::exp),
        unary("numeric_ln", Numeric::ln),
        unary("numeric_trim_scale", |value| Ok(value.trim_scale())),
        unary("numeric_inc", |value| value.add(&Numeric::ONE)),
        scaled("numeric_round", Numeric::round),
        scaled("numeric_trunc", Numeric::trunc),
        extreme("numeric_larger", Ordering::Greater),
        extreme("numeric_smaller", Ordering::Less),
        extreme_of("numeric_greatest", Ordering::Greater),
        extreme_of("numeric_least", Ordering::Less),
        coalesce(),
        nullif(),
        digits("numeric_scale", Numeric::scale),
        digits("numeric_min_scale", Numeric::min_scale),
        logarithm(),
        factorial(),
        width_bucket(),
    ]
}
