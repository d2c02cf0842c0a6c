//! `double precision` and `real`: arithmetic that tells of overflow and division by zero, and PostgreSQL's mathematical
//! functions with their errors (`src/include/utils/float.h`, `src/backend/utils/adt/float.c`).
//!
//! Digits are those of the C library, which PostgreSQL calls as well. NaN is of one kind here, see `checked`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, PrimitiveArray};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};

use super::define::{Call, P, PgFunction, Returns, f, oid};
use crate::types::oid as t;
use crate::wire::SqlError;

// Rust's own of these have other last digits.
unsafe extern "C" {
    safe fn asinh(x: f64) -> f64;
    safe fn acosh(x: f64) -> f64;
    safe fn atanh(x: f64) -> f64;
    safe fn cbrt(x: f64) -> f64;
}

fn overflow() -> SqlError {
    SqlError::new("22003", "value out of range: overflow")
}

fn underflow() -> SqlError {
    SqlError::new("22003", "value out of range: underflow")
}

fn out_of_range() -> SqlError {
    SqlError::new("22003", "input is out of range")
}

/// `+`, `-`, `*`, `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Multiply,
    Divide,
}

/// What the two widths have in common.
trait Float: Copy + PartialEq {
    const ZERO: Self;
    const NAN: Self;
    fn nan(self) -> bool;
    fn infinite(self) -> bool;
    fn apply(self, op: Operator, other: Self) -> Self;
}

macro_rules! float {
    ($ty:ty) => {
        impl Float for $ty {
            const ZERO: Self = 0.0;
            const NAN: Self = <$ty>::NAN;
            fn nan(self) -> bool {
                self.is_nan()
            }
            fn infinite(self) -> bool {
                self.is_infinite()
            }
            fn apply(self, op: Operator, other: Self) -> Self {
                match op {
                    Operator::Plus => self + other,
                    Operator::Minus => self - other,
                    Operator::Multiply => self * other,
                    Operator::Divide => self / other,
                }
            }
        }
    };
}
float!(f32);
float!(f64);

fn operate<F: Float>(a: F, op: Operator, b: F) -> Result<F, SqlError> {
    if op == Operator::Divide && b == F::ZERO && !a.nan() {
        return Err(SqlError::new("22012", "division by zero"));
    }
    let out = a.apply(op, b);
    if out.nan() {
        return Ok(F::NAN);
    }
    if out.infinite() && !a.infinite() && (op == Operator::Divide || !b.infinite()) {
        return Err(overflow());
    }
    let vanished = match op {
        Operator::Multiply => b != F::ZERO,
        Operator::Divide => !b.infinite(),
        Operator::Plus | Operator::Minus => false,
    };
    if vanished && out == F::ZERO && a != F::ZERO {
        return Err(underflow());
    }
    Ok(out)
}

fn operate_columns<T: ArrowPrimitiveType>(left: &ArrayRef, op: Operator, right: &ArrayRef) -> Result<ArrayRef, SqlError>
where
    T::Native: Float,
{
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    let out: PrimitiveArray<T> = (0..left.len())
        .map(|row| match left.is_null(row) || right.is_null(row) {
            true => Ok(None),
            false => operate(left.value(row), op, right.value(row)).map(Some),
        })
        .collect::<Result<_, SqlError>>()?;
    Ok(Arc::new(out))
}

/// The function of an operator between floats of one width.
pub(super) fn operator(name: &'static str, op: Operator) -> PgFunction {
    f(name, &[P::Any, P::Any], Returns::By(|fields| fields[0].clone()), move |call| match call.arrays[0].data_type() {
        DataType::Float32 => operate_columns::<Float32Type>(&call.arrays[0], op, &call.arrays[1]),
        DataType::Float64 => operate_columns::<Float64Type>(&call.arrays[0], op, &call.arrays[1]),
        other => Err(SqlError::internal(format!("arithmetic of floats over {other}"))),
    })
}

/// Checks a result that has to be finite and not zero where the argument is so.
fn checked(out: f64, may_be_zero: bool) -> Result<f64, SqlError> {
    if out.is_infinite() {
        return Err(overflow());
    }
    if out == 0.0 && !may_be_zero {
        return Err(underflow());
    }
    Ok(out)
}

fn exp(x: f64) -> Result<f64, SqlError> {
    match x {
        x if x.is_infinite() => Ok(if x > 0.0 { x } else { 0.0 }),
        x => checked(x.exp(), false),
    }
}

fn logarithm(x: f64, of: fn(f64) -> f64) -> Result<f64, SqlError> {
    if x == 0.0 {
        return Err(SqlError::new("2201E", "cannot take logarithm of zero"));
    }
    if x < 0.0 {
        return Err(SqlError::new("2201E", "cannot take logarithm of a negative number"));
    }
    let out = of(x);
    if x.is_infinite() { Ok(out) } else { checked(out, x == 1.0) }
}

fn sqrt(x: f64) -> Result<f64, SqlError> {
    if x < 0.0 {
        return Err(SqlError::new("2201F", "cannot take square root of a negative number"));
    }
    Ok(x.sqrt())
}

fn power(x: f64, y: f64) -> Result<f64, SqlError> {
    if x.is_nan() {
        return Ok(if y == 0.0 { 1.0 } else { f64::NAN });
    }
    if y.is_nan() {
        return Ok(if x == 1.0 { 1.0 } else { f64::NAN });
    }
    if x == 0.0 && y < 0.0 {
        return Err(SqlError::new("2201F", "zero raised to a negative power is undefined"));
    }
    if x < 0.0 && y.floor() != y {
        return Err(SqlError::new("2201F", "a negative number raised to a non-integer power yields a complex result"));
    }
    if y.is_infinite() {
        let size = x.abs();
        return Ok(match (size == 1.0, (size > 1.0) == (y > 0.0)) {
            (true, _) => 1.0,
            (_, true) => f64::INFINITY,
            _ => 0.0,
        });
    }
    if x.is_infinite() {
        let odd = (y / 2.0).floor() != y / 2.0;
        return Ok(match (y == 0.0, x > 0.0, y > 0.0) {
            (true, ..) => 1.0,
            (_, true, true) => x,
            (_, true, false) => 0.0,
            (_, false, true) => {
                if odd {
                    x
                } else {
                    -x
                }
            }
            (_, false, false) => {
                if odd {
                    -0.0
                } else {
                    0.0
                }
            }
        });
    }
    checked(x.powf(y), x == 0.0)
}

/// Of an argument within -1 and 1.
fn of_ratio(x: f64, of: fn(f64) -> f64) -> Result<f64, SqlError> {
    if !(-1.0..=1.0).contains(&x) { Err(out_of_range()) } else { Ok(of(x)) }
}

/// Of a finite argument.
fn of_angle(x: f64, of: fn(f64) -> f64) -> Result<f64, SqlError> {
    if x.is_infinite() { Err(out_of_range()) } else { Ok(of(x)) }
}

/// Constants by which functions of degrees are exact where they can be.
struct Degrees {
    sin_30: f64,
    one_minus_cos_60: f64,
    asin_half: f64,
    acos_half: f64,
    atan_one: f64,
}

const RADIANS_PER_DEGREE: f64 = 0.017_453_292_519_943_295;

static DEGREES: LazyLock<Degrees> = LazyLock::new(|| {
    // Not folded by the compiler, whose digits might be others than the C library's.
    let at = std::hint::black_box::<f64>;
    Degrees {
        sin_30: (at(30.0) * RADIANS_PER_DEGREE).sin(),
        one_minus_cos_60: 1.0 - (at(60.0) * RADIANS_PER_DEGREE).cos(),
        asin_half: at(0.5).asin(),
        acos_half: at(0.5).acos(),
        atan_one: at(1.0).atan(),
    }
});

fn sine_to_30(x: f64) -> f64 {
    (x * RADIANS_PER_DEGREE).sin() / DEGREES.sin_30 / 2.0
}
fn cosine_to_60(x: f64) -> f64 {
    1.0 - (1.0 - (x * RADIANS_PER_DEGREE).cos()) / DEGREES.one_minus_cos_60 / 2.0
}
/// Of 0 to 90 degrees; so the next three.
fn sine(x: f64) -> f64 {
    if x <= 30.0 { sine_to_30(x) } else { cosine_to_60(90.0 - x) }
}
fn cosine(x: f64) -> f64 {
    if x <= 60.0 { cosine_to_60(x) } else { sine_to_30(90.0 - x) }
}
fn arc_sine(x: f64) -> f64 {
    match x <= 0.5 {
        true => x.asin() / DEGREES.asin_half * 30.0,
        false => 90.0 - x.acos() / DEGREES.acos_half * 60.0,
    }
}
fn arc_cosine(x: f64) -> f64 {
    match x <= 0.5 {
        true => 90.0 - x.asin() / DEGREES.asin_half * 30.0,
        false => x.acos() / DEGREES.acos_half * 60.0,
    }
}

/// An angle brought to 0 to 90 degrees, and the signs that its sine, cosine and tangent have then.
fn quadrant(x: f64) -> (f64, f64, f64, f64) {
    let mut x = x % 360.0;
    let (mut sin, mut cos, mut tan) = (1.0, 1.0, 1.0);
    if x < 0.0 {
        (x, sin, tan) = (-x, -sin, -tan);
    }
    if x > 180.0 {
        (x, sin, tan) = (360.0 - x, -sin, -tan);
    }
    if x > 90.0 {
        (x, cos, tan) = (180.0 - x, -cos, -tan);
    }
    (x, sin, cos, tan)
}

fn unary(name: &'static str, of: impl Fn(f64) -> Result<f64, SqlError> + Send + Sync + 'static) -> PgFunction {
    f(name, &[P::Float], oid(t::FLOAT8), move |call| {
        column(call, |row| call.float(0, row).map(|x| if x.is_nan() { Ok(f64::NAN) } else { of(x) }).transpose())
    })
}

fn column(call: &Call<'_>, value: impl Fn(usize) -> Result<Option<f64>, SqlError>) -> Result<ArrayRef, SqlError> {
    let one_nan = |value: f64| if value.is_nan() { f64::NAN } else { value };
    let out = (0..call.rows).map(|row| Ok(value(row)?.map(one_nan))).collect::<Result<Float64Array, SqlError>>()?;
    Ok(Arc::new(out))
}

fn binary(name: &'static str, of: impl Fn(f64, f64) -> Result<f64, SqlError> + Send + Sync + 'static) -> PgFunction {
    f(name, &[P::Float, P::Float], oid(t::FLOAT8), move |call| {
        column(call, |row| match (call.float(0, row), call.float(1, row)) {
            (Some(x), Some(y)) => of(x, y).map(Some),
            _ => Ok(None),
        })
    })
}

/// Plain zero for minus zero.
fn plain_zero(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x }
}

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        unary("exp", exp),
        unary("ln", |x| logarithm(x, f64::ln)),
        unary("log", |x| logarithm(x, f64::log10)).alias("log10"),
        unary("sqrt", sqrt),
        unary("cbrt", |x| Ok(cbrt(x))),
        f("sign", &[P::Float], oid(t::FLOAT8), |call| {
            column(call, |row| {
                Ok(call.float(0, row).map(|x| {
                    if x > 0.0 {
                        1.0
                    } else if x < 0.0 {
                        -1.0
                    } else {
                        0.0
                    }
                }))
            })
        }),
        binary("power", power).alias("pow"),
        unary("acos", |x| of_ratio(x, f64::acos)),
        unary("asin", |x| of_ratio(x, f64::asin)),
        unary("atan", |x| Ok(x.atan())),
        binary("atan2", |y, x| Ok(y.atan2(x))),
        unary("cos", |x| of_angle(x, f64::cos)),
        unary("sin", |x| of_angle(x, f64::sin)),
        unary("tan", |x| of_angle(x, f64::tan)),
        unary("cot", |x| of_angle(x, |x| 1.0 / x.tan())),
        unary("sinh", |x| Ok(x.sinh())),
        unary("cosh", |x| Ok(x.cosh())),
        unary("tanh", |x| Ok(x.tanh())),
        unary("asinh", |x| Ok(asinh(x))),
        unary("acosh", |x| if x < 1.0 { Err(out_of_range()) } else { Ok(acosh(x)) }),
        unary("atanh", |x| of_ratio(x, |x| atanh(x))),
        unary("degrees", |x| operate(x, Operator::Divide, RADIANS_PER_DEGREE)),
        unary("radians", |x| operate(x, Operator::Multiply, RADIANS_PER_DEGREE)),
        unary("sind", |x| {
            of_angle(x, |x| {
                let (x, sign, ..) = quadrant(x);
                sign * sine(x)
            })
        }),
        unary("cosd", |x| {
            of_angle(x, |x| {
                let (x, _, sign, _) = quadrant(x);
                sign * cosine(x)
            })
        }),
        unary("tand", |x| {
            of_angle(x, |x| {
                let (x, _, _, sign) = quadrant(x);
                plain_zero(sign * (sine(x) / cosine(x) / (sine(45.0) / cosine(45.0))))
            })
        }),
        unary("cotd", |x| {
            of_angle(x, |x| {
                let (x, _, _, sign) = quadrant(x);
                plain_zero(sign * (cosine(x) / sine(x) / (cosine(45.0) / sine(45.0))))
            })
        }),
        unary("asind", |x| of_ratio(x, |x| if x >= 0.0 { arc_sine(x) } else { -arc_sine(-x) })),
        unary("acosd", |x| of_ratio(x, |x| if x >= 0.0 { arc_cosine(x) } else { 90.0 + arc_sine(-x) })),
        unary("atand", |x| Ok(x.atan() / DEGREES.atan_one * 45.0)),
        binary("atan2d", |y, x| match y.is_nan() || x.is_nan() {
            true => Ok(f64::NAN),
            false => Ok(y.atan2(x) / DEGREES.atan_one * 45.0),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_tells_of_overflow() {
        let code = |a: f64, op, b: f64| operate(a, op, b).map_err(|error| error.into_fields().message);
        assert_eq!(code(1e300, Operator::Multiply, 1e300), Err(overflow().into_fields().message));
        assert_eq!(code(1e-300, Operator::Multiply, 1e-300), Err(underflow().into_fields().message));
        assert_eq!(code(f64::INFINITY, Operator::Multiply, 2.0), Ok(f64::INFINITY));
        assert_eq!(code(0.0, Operator::Divide, 0.0), Err("division by zero".to_owned()));
        assert_eq!(code(1.0, Operator::Divide, f64::INFINITY), Ok(0.0));
        assert!(code(f64::NAN, Operator::Divide, 0.0).is_ok_and(f64::is_nan));
        assert_eq!(operate(3e38f32, Operator::Plus, 3e38f32).unwrap_err().sqlstate, "22003");
    }

    #[test]
    fn powers() {
        for (x, y, out) in [
            (f64::NAN, 0.0, 1.0),
            (1.0, f64::NAN, 1.0),
            (f64::NEG_INFINITY, 3.0, f64::NEG_INFINITY),
            (f64::NEG_INFINITY, 2.0, f64::INFINITY),
            (-1.0, f64::INFINITY, 1.0),
            (0.5, f64::NEG_INFINITY, f64::INFINITY),
            (2.0, 10.0, 1024.0),
        ] {
            assert_eq!(power(x, y).expect("power"), out, "{x} ^ {y}");
        }
        for (x, y, state) in
            [(0.0, -1.0, "2201F"), (-8.0, 0.5, "2201F"), (10.0, 400.0, "22003"), (10.0, -400.0, "22003")]
        {
            assert_eq!(power(x, y).unwrap_err().sqlstate, state, "{x} ^ {y}");
        }
    }

    #[test]
    fn degrees_are_exact() {
        assert_eq!(quadrant(-30.0).0, 30.0);
        assert_eq!((sine(30.0), cosine(60.0), arc_sine(0.5), arc_cosine(0.5)), (0.5, 0.5, 30.0, 60.0));
        assert_eq!(logarithm(0.0, f64::ln).unwrap_err().sqlstate, "2201E");
        assert_eq!(exp(-1000.0).unwrap_err().sqlstate, "22003");
    }
}
