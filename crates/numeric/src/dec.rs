//! Integer times a power of ten, without limits: what PostgreSQL's `NumericVar` is to its `Numeric`.
//!
//! `scale` may be negative here: a root of a large number is rounded before its point. The functions that end
//! in a scale round half away from zero to it, as PostgreSQL's do.

use std::cmp::Ordering;

use crate::coef::Coef;
use crate::{Error, Result};

/// `coef` / 10^`scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dec {
    /// Digits with sign.
    pub coef: Coef,
    /// Digits after the point.
    pub scale: i32,
}

impl From<i128> for Dec {
    fn from(value: i128) -> Self {
        Self { coef: Coef::Small(value), scale: 0 }
    }
}

impl Dec {
    /// Of digits and scale.
    pub fn new(coef: impl Into<Coef>, scale: i32) -> Self {
        Self { coef: coef.into(), scale }
    }
    /// Zero with that many digits after the point.
    pub fn zero(scale: i32) -> Self {
        Self { coef: Coef::ZERO, scale }
    }
    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.coef.is_zero()
    }
    /// -1, 0 or 1.
    pub fn signum(&self) -> i32 {
        self.coef.signum()
    }
    /// Its negative.
    #[allow(clippy::should_implement_trait)]
    pub fn neg(self) -> Self {
        Self { coef: self.coef.neg(), scale: self.scale }
    }
    /// Its absolute value.
    pub fn abs(self) -> Self {
        Self { coef: self.coef.abs(), scale: self.scale }
    }

    /// Exponent of the first digit: 0 for 1 to 9, -1 for 0.1; zero has 0.
    pub fn weight(&self) -> i64 {
        if self.is_zero() { 0 } else { i64::from(self.coef.digits()) - 1 - i64::from(self.scale) }
    }

    /// Exponent of the first digit in base 10,000, which PostgreSQL's rules for scales go by.
    pub fn weight4(&self) -> i32 {
        self.weight().div_euclid(4) as i32
    }

    /// The first `count` digits in base 10,000 as one number, and how many there are: fewer where the value
    /// ends before. `count` is at most 4.
    pub fn leading4(&self, count: u32) -> (u64, u32) {
        if self.is_zero() {
            return (0, 0);
        }
        let lowest = i64::from(self.weight4() - (count as i32 - 1)) * 4; // exponent of the last digit's unit
        let shift = i64::from(self.scale) + lowest;
        let coef =
            if shift >= 0 { self.coef.scale_down_trunc(shift as u32) } else { self.coef.scale_up((-shift) as u32) };
        let Coef::Small(mut leading) = coef.abs() else { return (0, 0) };
        // Trailing zeros are digits only if something follows them.
        let mut have = count;
        while have > 1 && leading % 10_000 == 0 && self.weight4() - (have as i32 - 1) < self.lowest_digit4() {
            leading /= 10_000;
            have -= 1;
        }
        (leading as u64, have)
    }

    /// Exponent, in base 10,000, of the last digit that is not zero.
    fn lowest_digit4(&self) -> i32 {
        let limit = self.coef.digits();
        let exponent = i64::from(self.coef.trailing_zeros(limit)) - i64::from(self.scale);
        exponent.div_euclid(4) as i32
    }

    /// Whether there are only zeros after the point.
    pub fn is_integral(&self) -> bool {
        self.scale <= 0 || self.coef.trailing_zeros(self.scale as u32) == self.scale as u32
    }

    /// The digits at another scale; those that get lost are cut off.
    pub fn trunc(&self, scale: i32) -> Self {
        let coef = match scale >= self.scale {
            true => self.coef.scale_up((scale - self.scale) as u32),
            false => self.coef.scale_down_trunc((self.scale - scale) as u32),
        };
        Self { coef, scale }
    }

    /// The digits at another scale, rounded half away from zero.
    pub fn round(&self, scale: i32) -> Self {
        let coef = match scale >= self.scale {
            true => self.coef.scale_up((scale - self.scale) as u32),
            false => self.coef.scale_down_round((self.scale - scale) as u32),
        };
        Self { coef, scale }
    }

    /// Both as integers at the larger of their scales.
    fn aligned(&self, other: &Self) -> (Coef, Coef, i32) {
        let scale = self.scale.max(other.scale);
        let up = |value: &Self| value.coef.scale_up((scale - value.scale) as u32);
        (up(self), up(other), scale)
    }

    /// Exact sum.
    pub fn add(&self, other: &Self) -> Self {
        if self.scale == other.scale {
            return Self { coef: self.coef.add(&other.coef), scale: self.scale };
        }
        let (a, b, scale) = self.aligned(other);
        Self { coef: a.add(&b), scale }
    }

    /// Exact difference.
    pub fn sub(&self, other: &Self) -> Self {
        let (a, b, scale) = self.aligned(other);
        Self { coef: a.sub(&b), scale }
    }

    /// Exact product.
    pub fn mul(&self, other: &Self) -> Self {
        Self { coef: self.coef.mul(&other.coef), scale: self.scale + other.scale }
    }

    /// Product rounded to a scale.
    pub fn mul_to(&self, other: &Self, scale: i32) -> Self {
        self.mul(other).round(scale)
    }

    /// Numerator and denominator whose quotient has that scale.
    fn fraction(&self, other: &Self, scale: i32) -> (Coef, Coef) {
        let shift = scale + other.scale - self.scale;
        match shift >= 0 {
            true => (self.coef.scale_up(shift as u32), other.coef.clone()),
            false => (self.coef.clone(), other.coef.scale_up((-shift) as u32)),
        }
    }

    /// Quotient rounded to a scale.
    ///
    /// # Errors
    /// 22012.
    pub fn div_to(&self, other: &Self, scale: i32) -> Result<Self> {
        let (a, b) = self.fraction(other, scale);
        Ok(Self { coef: a.div_round(&b).ok_or_else(Error::division_by_zero)?, scale })
    }

    /// Whole quotient, towards zero.
    ///
    /// # Errors
    /// 22012.
    pub fn div_trunc(&self, other: &Self) -> Result<Self> {
        let (a, b) = self.fraction(other, 0);
        Ok(Self { coef: a.div_rem(&b).ok_or_else(Error::division_by_zero)?.0, scale: 0 })
    }

    /// What the whole quotient leaves, with the sign of `self`.
    ///
    /// # Errors
    /// 22012.
    pub fn rem(&self, other: &Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(other);
        Ok(Self { coef: a.div_rem(&b).ok_or_else(Error::division_by_zero)?.1, scale })
    }

    /// Square root rounded to a scale; zero for what is negative.
    pub fn sqrt_to(&self, scale: i32) -> Self {
        // One digit more than wanted decides the rounding: roots are exact or irrational.
        let shift = 2 * (scale + 1) - self.scale;
        let square = match shift >= 0 {
            true => self.coef.scale_up(shift as u32),
            false => self.coef.scale_down_trunc((-shift) as u32),
        };
        Self { coef: square.sqrt().scale_down_round(1), scale }
    }

    /// The value as a double, infinite where it is too large.
    pub fn to_f64(&self) -> f64 {
        if let Coef::Small(small) = self.coef
            && small.unsigned_abs() < 1 << 53
            && (0..=22).contains(&self.scale)
        {
            // Both are exact, so the quotient is rounded once.
            return small as f64 / 10f64.powi(self.scale);
        }
        let sign = if self.signum() < 0 { "-" } else { "" };
        format!("{sign}{}e{}", self.coef.digits_text(), -i64::from(self.scale)).parse().unwrap_or(f64::NAN)
    }
}

impl PartialOrd for Dec {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.compare(other))
    }
}

impl Dec {
    /// Order of the values, whatever their scales.
    pub fn compare(&self, other: &Self) -> Ordering {
        if self.scale == other.scale {
            return self.coef.cmp(&other.coef);
        }
        let (a, b) = (self.signum(), other.signum());
        if a != b || a == 0 {
            return a.cmp(&b);
        }
        match self.weight().cmp(&other.weight()) {
            Ordering::Equal => {
                let (a, b, _) = self.aligned(other);
                a.cmp(&b)
            }
            larger => {
                if a > 0 {
                    larger
                } else {
                    larger.reverse()
                }
            }
        }
    }
}
