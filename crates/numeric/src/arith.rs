//! Operators: `+ - * / %`, `div`, sign and absolute value.

use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::{DISPLAY_SCALE_MAX, Error, Result, SCALE_MAX, SIG_DIGITS_MIN};

/// Digits after the point of a quotient (`select_div_scale`): at least 16 significant ones as judged by the
/// operands' first digits in base 10,000, and no fewer than either operand shows.
pub fn div_scale(dividend: &Dec, divisor: &Dec) -> i32 {
    let ((first, _), (second, _)) = (dividend.leading4(1), divisor.leading4(1));
    let weight = |value: &Dec| if value.is_zero() { 0 } else { value.weight4() };
    let quotient_weight = weight(dividend) - weight(divisor) - i32::from(first <= second);
    (SIG_DIGITS_MIN - quotient_weight * 4).max(dividend.scale).max(divisor.scale).clamp(0, DISPLAY_SCALE_MAX)
}

fn infinity(sign: i32) -> Numeric {
    match sign {
        0 => NaN,
        1 => Infinity,
        _ => NegInfinity,
    }
}

impl Numeric {
    /// Its negative.
    pub fn neg(&self) -> Self {
        match self {
            NegInfinity => Infinity,
            Infinity => NegInfinity,
            NaN => NaN,
            Finite(value) => Finite(value.clone().neg()),
        }
    }

    /// Its absolute value.
    pub fn abs(&self) -> Self {
        match self {
            NegInfinity => Infinity,
            Finite(value) => Finite(value.clone().abs()),
            other => other.clone(),
        }
    }

    /// -1, 0 or 1 as a numeric; NaN of NaN.
    pub fn sign(&self) -> Self {
        self.signum().map_or(NaN, |sign| Finite(Dec::from(i128::from(sign))))
    }

    /// `self + other`.
    ///
    /// # Errors
    /// 22003.
    pub fn add(&self, other: &Self) -> Result<Self> {
        Ok(match (self, other) {
            (Finite(a), Finite(b)) => return Self::finite(a.add(b)),
            (NaN, _) | (_, NaN) | (Infinity, NegInfinity) | (NegInfinity, Infinity) => NaN,
            (Infinity, _) | (_, Infinity) => Infinity,
            (NegInfinity, _) | (_, NegInfinity) => NegInfinity,
        })
    }

    /// `self - other`.
    ///
    /// # Errors
    /// 22003.
    pub fn sub(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Finite(a), Finite(b)) => Self::finite(a.sub(b)),
            _ => self.add(&other.neg()),
        }
    }

    /// `self * other`, all digits up to the 16,383 that fit.
    ///
    /// # Errors
    /// 22003.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Finite(a), Finite(b)) => {
                let product = a.mul(b);
                Self::finite(if product.scale > SCALE_MAX { product.round(SCALE_MAX) } else { product })
            }
            _ => Ok(match (self.signum(), other.signum()) {
                (Some(a), Some(b)) => infinity(a * b),
                _ => NaN,
            }),
        }
    }

    /// Where not both are finite: the quotient, if it is not NaN or an error.
    fn div_special(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (NaN, _) | (_, NaN) | (Infinity | NegInfinity, Infinity | NegInfinity) => Ok(NaN),
            (Finite(_), _) => Ok(Self::ZERO),
            (infinite, finite) => match infinite.signum().unwrap_or(0) * finite.signum().unwrap_or(0) {
                0 => Err(Error::division_by_zero()),
                sign => Ok(infinity(sign)),
            },
        }
    }

    /// `self / other`.
    ///
    /// # Errors
    /// 22012, 22003.
    pub fn div(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Finite(a), Finite(b)) => Self::finite(a.div_to(b, div_scale(a, b))?),
            _ => self.div_special(other),
        }
    }

    /// Whole quotient towards zero: SQL's `div`.
    ///
    /// # Errors
    /// 22012, 22003.
    pub fn div_trunc(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Finite(a), Finite(b)) => Self::finite(a.div_trunc(b)?),
            _ => self.div_special(other),
        }
    }

    /// `self % other`, with the sign of `self`.
    ///
    /// # Errors
    /// 22012.
    pub fn rem(&self, other: &Self) -> Result<Self> {
        match (self, other) {
            (Finite(a), Finite(b)) => Self::finite(a.rem(b)?),
            (NaN, _) | (_, NaN) => Ok(NaN),
            (Finite(_), _) => Ok(self.clone()),
            (_, other) if other.signum() == Some(0) => Err(Error::division_by_zero()),
            _ => Ok(NaN),
        }
    }
}
