//! Functions about whole numbers and multiples: gcd, lcm, factorial, width_bucket.

use num_bigint::BigUint;

use crate::arith::div_scale;
use crate::coef::Coef;
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, NaN};
use crate::{Error, Result};

/// Both at one scale.
fn aligned(a: &Dec, b: &Dec) -> (Coef, Coef, i32) {
    let scale = a.scale.max(b.scale);
    (a.trunc(scale).coef, b.trunc(scale).coef, scale)
}

impl Numeric {
    /// Greatest number of which both are multiples; NaN where one is not finite.
    ///
    /// # Errors
    /// None of its own.
    pub fn gcd(&self, other: &Self) -> Result<Self> {
        let (Finite(a), Finite(b)) = (self, other) else { return Ok(NaN) };
        let (a, b, scale) = aligned(a, b);
        Self::new(a.gcd(&b), scale)
    }

    /// Smallest multiple of both, not negative; NaN where one is not finite.
    ///
    /// # Errors
    /// 22003.
    pub fn lcm(&self, other: &Self) -> Result<Self> {
        let (Finite(a), Finite(b)) = (self, other) else { return Ok(NaN) };
        let (a, b, scale) = aligned(a, b);
        if a.is_zero() || b.is_zero() {
            return Self::new(Coef::ZERO, scale);
        }
        let factor = a.div_rem(&a.gcd(&b)).map_or(Coef::ZERO, |(quotient, _)| quotient);
        Self::new(factor.mul(&b).abs(), scale)
    }

    /// `n!`.
    ///
    /// # Errors
    /// 22003 for negative ones and results of too many digits.
    pub fn factorial(n: i64) -> Result<Self> {
        if n < 0 {
            return Err(Error::new("22003", "factorial of a negative number is undefined"));
        }
        if n > 32_177 {
            return Err(Error::overflow());
        }
        Self::new(Coef::from(num_bigint::BigInt::from(product(1, n.max(1) as u64))), 0)
    }

    /// Which of `count` equal buckets between two bounds the value is in: 0 before the first, `count + 1` behind
    /// the last. The bounds may be in either order.
    ///
    /// # Errors
    /// 2201G, 22003.
    pub fn width_bucket(&self, low: &Self, high: &Self, count: i32) -> Result<i32> {
        let invalid = |message| Err(Error::new("2201G", message));
        if count <= 0 {
            return invalid("count must be greater than zero");
        }
        if self.is_nan() || low.is_nan() || high.is_nan() {
            return invalid("operand, lower bound, and upper bound cannot be NaN");
        }
        let (Finite(from), Finite(to)) = (low, high) else { return invalid("lower and upper bounds must be finite") };
        if low == high {
            return invalid("lower bound cannot equal upper bound");
        }
        let rising = low < high;
        let (before, behind) = if rising { (self < low, self >= high) } else { (self > low, self <= high) };
        let out_of_range = || Error::new("22003", "integer out of range");
        let value = match self {
            _ if before => return Ok(0),
            Finite(value) if !behind => value,
            _ => return count.checked_add(1).ok_or_else(out_of_range),
        };
        let (offset, width) = if rising { (value.sub(from), to.sub(from)) } else { (from.sub(value), from.sub(to)) };
        let scaled = offset.mul(&Dec::from(i128::from(count)));
        let bucket = scaled.div_to(&width, div_scale(&scaled, &width))?.add(&Dec::from(1)).trunc(0);
        match bucket.coef {
            Coef::Small(bucket) => i32::try_from(bucket).map_err(|_| out_of_range()),
            Coef::Big(_) => Err(out_of_range()),
        }
    }
}

/// Product of `from` to `to`; halves are multiplied, so that factors are of equal size.
fn product(from: u64, to: u64) -> BigUint {
    if to - from < 8 {
        return (from..=to).map(BigUint::from).product();
    }
    let middle = from + (to - from) / 2;
    product(from, middle) * product(middle + 1, to)
}
