//! Casts from and to `numeric`, by PostgreSQL's names, and between its two forms here.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use resurgam_numeric::{Numeric, Typmod};

use super::column::{DYNAMIC, Numbers, collect, numeric_error, to_dynamic};
use super::scalar::{dynamic, int4, one};
use crate::functions::define::{P, PgFunction, Returns, f, oid};
use crate::types::{numeric_of_typmod, oid as t, with_pg_type};
use crate::wire::SqlError;

/// Limits that an argument says; none where it is -1 or not given.
fn typmod(value: Option<i32>) -> Option<Typmod> {
    value.and_then(Typmod::from_pg)
}

/// A column of numbers as `Decimal128`, by the rules of `numeric(p,s)`.
///
/// # Errors
/// 22003; 0A000 for NaN.
pub fn to_fixed(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef, SqlError> {
    let limits = Typmod::new(precision.into(), scale.into()).map_err(numeric_error)?;
    let numbers = Numbers::of(array.as_ref())?;
    let mut builder = Decimal128Builder::with_capacity(array.len());
    for row in 0..array.len() {
        match numbers.get(row)? {
            Some(value) => builder.append_value(value.to_scaled(limits).map_err(numeric_error)?),
            None => builder.append_null(),
        }
    }
    let out = builder.finish().with_precision_and_scale(precision, scale);
    Ok(Arc::new(out.map_err(|error| crate::errors::from_arrow(&error))?))
}

/// What `numeric_fixed(value, typmod)` gives: a `Decimal128` where the modifier is a constant that one can hold.
fn fixed_field(_: &[FieldRef], scalars: &[Option<&ScalarValue>]) -> FieldRef {
    let modifier = match scalars.get(1).copied().flatten() {
        Some(ScalarValue::Int32(Some(modifier))) => *modifier,
        Some(ScalarValue::Int64(Some(modifier))) => *modifier as i32,
        _ => -1,
    };
    let field = match Typmod::from_pg(modifier) {
        Some(limits) if limits.precision() <= 38 && (0..=limits.precision() as i16).contains(&limits.scale()) => {
            let (precision, scale) = numeric_of_typmod(modifier);
            Field::new("", DataType::Decimal128(precision, scale), true)
        }
        _ => Field::new("", DYNAMIC, true),
    };
    Arc::new(if modifier >= 4 { with_pg_type(field, t::NUMERIC, modifier) } else { field })
}

fn to_int<T: datafusion::arrow::datatypes::ArrowPrimitiveType>(
    name: &'static str,
    ty: u32,
    convert: fn(&Numeric) -> resurgam_numeric::Result<T::Native>,
) -> PgFunction {
    f(name, &[P::Any], oid(ty), move |call| {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(call.rows);
        one(call, convert, |value| builder.append_option(value))?;
        Ok(Arc::new(builder.finish()))
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    use datafusion::arrow::datatypes::{Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
    let mut all = vec![
        to_int::<Int16Type>("numeric_int2", t::INT2, Numeric::to_i16),
        to_int::<Int32Type>("numeric_int4", t::INT4, Numeric::to_i32),
        to_int::<Int64Type>("numeric_int8", t::INT8, Numeric::to_i64),
        to_int::<Float32Type>("numeric_float4", t::FLOAT4, Numeric::to_f32),
        to_int::<Float64Type>("numeric_float8", t::FLOAT8, Numeric::to_f64),
        f("numeric_out", &[P::Any], oid(t::TEXT), |call| {
            let numbers = Numbers::of(call.arrays[0].as_ref())?;
            call.texts(|row| Ok(numbers.get(row)?.map(|value| value.to_string())))
        }),
        f("numeric_in", &[P::Text, P::Any], dynamic(), |call| {
            collect(call.rows, |row| match call.text(0, row) {
                Some(text) => Numeric::parse(text, typmod(int4(call, 1, row))).map(Some).map_err(numeric_error),
                None => Ok(None),
            })
        })
        .required(1),
        // The cast that applies a modifier; the result stays dynamic.
        f("numeric", &[P::Any, P::Any], dynamic(), |call| {
            let numbers = Numbers::of(call.arrays[0].as_ref())?;
            collect(call.rows, |row| match (numbers.get(row)?, typmod(int4(call, 1, row))) {
                (Some(value), Some(limits)) => value.with_typmod(limits).map(Some).map_err(numeric_error),
                (value, _) => Ok(value),
            })
        }),
        f("numeric_fixed", &[P::Any, P::Any], Returns::Args(fixed_field), |call| match call.returns.data_type() {
            DataType::Decimal128(precision, scale) => to_fixed(&call.arrays[0], *precision, *scale),
            _ => {
                let numbers = Numbers::of(call.arrays[0].as_ref())?;
                collect(call.rows, |row| match (numbers.get(row)?, typmod(int4(call, 1, row))) {
                    (Some(value), Some(limits)) => value.with_typmod(limits).map(Some).map_err(numeric_error),
                    (value, _) => Ok(value),
                })
            }
        }),
    ];
    for name in ["numeric_dynamic", "int2_numeric", "int4_numeric", "int8_numeric", "float4_numeric", "float8_numeric"]
    {
        all.push(f(name, &[P::Any], dynamic(), |call| to_dynamic(&call.arrays[0])));
    }
    all
}
