//! From and to other types of numbers.

use crate::coef::Coef;
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::{Error, Result, Typmod};

macro_rules! from_integers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Numeric {
            fn from(value: $ty) -> Self {
                Finite(Dec::from(i128::from(value)))
            }
        }
    )*};
}
from_integers!(i16, i32, i64, u16, u32, u64);

/// A float by its shortest-first significant digits, as `%.*g` prints them.
fn from_printed(scientific: &str) -> Option<Dec> {
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Some(Dec::zero(0));
    }
    let coef = Coef::from_digits(digits);
    let value = Dec { coef: if negative { coef.neg() } else { coef }, scale: digits.len() as i32 - 1 - exponent };
    Some(if value.scale < 0 { value.trunc(0) } else { value })
}

impl Numeric {
    /// Of a Decimal128's integer and scale.
    ///
    /// # Errors
    /// 22003 if the scale is out of range.
    pub fn from_scaled(value: i128, scale: i32) -> Result<Self> {
        Self::new(Coef::Small(value), scale)
    }

    /// Of a wider decimal's integer, as signed little-endian bytes, and scale.
    ///
    /// # Errors
    /// 22003 if the scale is out of range.
    pub fn from_scaled_bytes(value: &[u8], scale: i32) -> Result<Self> {
        Self::new(Coef::from(num_bigint::BigInt::from_signed_bytes_le(value)), scale)
    }

    /// Of 15 significant digits, as PostgreSQL casts them.
    pub fn from_f64(value: f64) -> Self {
        match value {
            value if value.is_nan() => NaN,
            f64::INFINITY => Infinity,
            f64::NEG_INFINITY => NegInfinity,
            value => from_printed(&format!("{value:.14e}")).map_or(NaN, Finite),
        }
    }

    /// Of 6 significant digits, as PostgreSQL casts them.
    pub fn from_f32(value: f32) -> Self {
        match value {
            value if value.is_nan() => NaN,
            f32::INFINITY => Infinity,
            f32::NEG_INFINITY => NegInfinity,
            value => from_printed(&format!("{value:.5e}")).map_or(NaN, Finite),
        }
    }

    fn out_of_float_range(&self, ty: &str) -> Error {
        Error::new("22003", format!("\"{self}\" is out of range for type {ty}"))
    }

    /// The nearest double.
    ///
    /// # Errors
    /// 22003 where that is an infinity or a zero that the value is not.
    pub fn to_f64(&self) -> Result<f64> {
        match self {
            NegInfinity => Ok(f64::NEG_INFINITY),
            Infinity => Ok(f64::INFINITY),
            NaN => Ok(f64::NAN),
            Finite(value) => {
                let double = value.to_f64();
                match double.is_infinite() || (double == 0.0 && !value.is_zero()) {
                    true => Err(self.out_of_float_range("double precision")),
                    false => Ok(double),
                }
            }
        }
    }

    /// The nearest `real`.
    ///
    /// # Errors
    /// As [`Numeric::to_f64`].
    pub fn to_f32(&self) -> Result<f32> {
        match self {
            NegInfinity => Ok(f32::NEG_INFINITY),
            Infinity => Ok(f32::INFINITY),
            NaN => Ok(f32::NAN),
            Finite(value) => {
                // By its digits: through a double it would be rounded twice.
                let single: f32 = self.to_string().parse().unwrap_or(f32::NAN);
                match single.is_infinite() || (single == 0.0 && !value.is_zero()) {
                    true => Err(self.out_of_float_range("real")),
                    false => Ok(single),
                }
            }
        }
    }

    /// Rounded half away from zero to a whole number.
    fn to_whole(&self, ty: &'static str) -> Result<i128> {
        let special = |what: &str| Err(Error::new("0A000", format!("cannot convert {what} to {ty}")));
        match self {
            NaN => special("NaN"),
            Infinity | NegInfinity => special("infinity"),
            Finite(value) => match value.round(0).coef {
                Coef::Small(small) => Ok(small),
                Coef::Big(_) => Err(Error::new("22003", format!("{ty} out of range"))),
            },
        }
    }

    /// As `smallint`.
    ///
    /// # Errors
    /// 22003; 0A000 of NaN and infinities.
    pub fn to_i16(&self) -> Result<i16> {
        i16::try_from(self.to_whole("smallint")?).map_err(|_| Error::new("22003", "smallint out of range"))
    }

    /// As `integer`.
    ///
    /// # Errors
    /// 22003; 0A000 of NaN and infinities.
    pub fn to_i32(&self) -> Result<i32> {
        i32::try_from(self.to_whole("integer")?).map_err(|_| Error::new("22003", "integer out of range"))
    }

    /// As `bigint`.
    ///
    /// # Errors
    /// 22003; 0A000 of NaN and infinities.
    pub fn to_i64(&self) -> Result<i64> {
        i64::try_from(self.to_whole("bigint")?).map_err(|_| Error::new("22003", "bigint out of range"))
    }

    /// The integer that a `Decimal128(precision, scale)` holds for it, by the rules of `numeric(p,s)`.
    ///
    /// # Errors
    /// 22003; 0A000 for NaN, which has no such integer.
    pub fn to_scaled(&self, typmod: Typmod) -> Result<i128> {
        match self.with_typmod(typmod)? {
            Finite(value) => match value.trunc(i32::from(typmod.scale())).coef {
                Coef::Small(small) => Ok(small),
                Coef::Big(_) => Err(Error::overflow()),
            },
            _ => Err(Error::new("0A000", "NaN in a numeric with a precision is not supported")),
        }
    }
}
