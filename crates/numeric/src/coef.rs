//! Signed integers of any size: an `i128` where it fits, else a `BigInt`.
//!
//! Invariant: [`Coef::Big`] holds only what no `i128` can, so the derived equality is numeric equality.

use std::cmp::Ordering;
use std::sync::LazyLock;

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

/// An integer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Coef {
    /// One that fits.
    Small(i128),
    /// One that does not.
    Big(BigInt),
}

/// Powers of ten that fit.
const POW10: [i128; 39] = {
    let mut table = [1i128; 39];
    let mut at = 1;
    while at < 39 {
        table[at] = table[at - 1] * 10;
        at += 1;
    }
    table
};

/// Larger ones that are asked for often.
static POW10_BIG: LazyLock<Vec<BigInt>> = LazyLock::new(|| {
    let mut power = BigInt::from(1);
    (0..160)
        .map(|_| {
            let this = power.clone();
            power *= 10;
            this
        })
        .collect()
});

/// Ten to the power `n`, if that fits.
pub fn pow10_small(n: u32) -> Option<i128> {
    POW10.get(n as usize).copied()
}

/// Ten to the power `n`.
pub fn pow10_big(n: u32) -> BigInt {
    match POW10_BIG.get(n as usize) {
        Some(power) => power.clone(),
        None => BigInt::from(10).pow(n),
    }
}

impl From<BigInt> for Coef {
    fn from(value: BigInt) -> Self {
        match value.to_i128() {
            Some(small) => Self::Small(small),
            None => Self::Big(value),
        }
    }
}

impl From<i128> for Coef {
    fn from(value: i128) -> Self {
        Self::Small(value)
    }
}

impl Coef {
    /// Zero.
    pub const ZERO: Self = Self::Small(0);

    /// A copy as a large integer.
    pub fn to_big(&self) -> BigInt {
        match self {
            Self::Small(small) => BigInt::from(*small),
            Self::Big(big) => big.clone(),
        }
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Small(0))
    }

    /// -1, 0 or 1.
    pub fn signum(&self) -> i32 {
        match self {
            Self::Small(small) => small.signum() as i32,
            Self::Big(big) => match big.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// Whether it is odd.
    pub fn is_odd(&self) -> bool {
        match self {
            Self::Small(small) => small & 1 == 1,
            Self::Big(big) => big.is_odd(),
        }
    }

    /// Decimal digits; none for zero.
    pub fn digits(&self) -> u32 {
        match self {
            Self::Small(0) => 0,
            Self::Small(small) => small.unsigned_abs().ilog10() + 1,
            Self::Big(big) => {
                // 2^(bits-1) <= |big| < 2^bits, so the estimate is right or one too small.
                let bits = big.bits() - 1;
                let estimate = (bits as f64 * std::f64::consts::LOG10_2) as u32;
                let estimate = estimate.saturating_sub(1);
                let mut power = pow10_big(estimate);
                let mut digits = estimate;
                while big.magnitude() >= power.magnitude() {
                    power *= 10;
                    digits += 1;
                }
                digits
            }
        }
    }

    /// Its negative.
    #[allow(clippy::should_implement_trait)]
    pub fn neg(self) -> Self {
        match self {
            Self::Small(small) => match small.checked_neg() {
                Some(negated) => Self::Small(negated),
                None => Self::Big(-BigInt::from(small)),
            },
            Self::Big(big) => Self::from(-big),
        }
    }

    /// Its absolute value.
    pub fn abs(self) -> Self {
        if self.signum() < 0 { self.neg() } else { self }
    }

    /// Sum.
    pub fn add(&self, other: &Self) -> Self {
        if let (Self::Small(a), Self::Small(b)) = (self, other)
            && let Some(sum) = a.checked_add(*b)
        {
            return Self::Small(sum);
        }
        Self::from(self.to_big() + other.to_big())
    }

    /// Difference.
    pub fn sub(&self, other: &Self) -> Self {
        if let (Self::Small(a), Self::Small(b)) = (self, other)
            && let Some(difference) = a.checked_sub(*b)
        {
            return Self::Small(difference);
        }
        Self::from(self.to_big() - other.to_big())
    }

    /// Product.
    pub fn mul(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Small(a), Self::Small(b)) => match a.checked_mul(*b) {
                Some(product) => Self::Small(product),
                None => Self::from(BigInt::from(*a) * BigInt::from(*b)),
            },
            (Self::Big(a), Self::Big(b)) => Self::from(a * b),
            (Self::Big(a), Self::Small(b)) | (Self::Small(b), Self::Big(a)) => Self::from(a * b),
        }
    }

    /// Quotient towards zero and remainder with the sign of `self`; `None` for a zero divisor.
    pub fn div_rem(&self, other: &Self) -> Option<(Self, Self)> {
        match (self, other) {
            (_, Self::Small(0)) => None,
            (Self::Small(a), Self::Small(b)) => match (a.checked_div(*b), a.checked_rem(*b)) {
                (Some(quotient), Some(remainder)) => Some((Self::Small(quotient), Self::Small(remainder))),
                _ => Some((Self::from(-BigInt::from(*a)), Self::ZERO)), // i128::MIN / -1
            },
            (Self::Small(_), Self::Big(_)) if self.cmp_abs(other) == Ordering::Less => Some((Self::ZERO, self.clone())),
            _ => {
                let (quotient, remainder) = self.to_big().div_rem(&other.to_big());
                Some((Self::from(quotient), Self::from(remainder)))
            }
        }
    }

    /// Quotient rounded half away from zero; `None` for a zero divisor.
    pub fn div_round(&self, other: &Self) -> Option<Self> {
        let (quotient, remainder) = self.div_rem(other)?;
        // |remainder| >= |divisor| - |remainder|
        let round_up = match (&remainder, other) {
            (Self::Small(0), _) => return Some(quotient),
            (Self::Small(r), Self::Small(d)) => {
                let (r, d) = (r.unsigned_abs(), d.unsigned_abs());
                r >= d - r
            }
            (r, d) => {
                let (r, d) = (r.to_big().abs(), d.to_big().abs());
                r.clone() >= d - r
            }
        };
        if !round_up {
            return Some(quotient);
        }
        let away = Self::Small(i128::from(self.signum() * other.signum()));
        Some(quotient.add(&away))
    }

    /// Times ten to the power `n`.
    pub fn scale_up(&self, n: u32) -> Self {
        if n == 0 || self.is_zero() {
            return self.clone();
        }
        if let (Self::Small(a), Some(power)) = (self, pow10_small(n))
            && let Some(product) = a.checked_mul(power)
        {
            return Self::Small(product);
        }
        Self::from(self.to_big() * pow10_big(n))
    }

    /// Divided by ten to the power `n`, towards zero.
    pub fn scale_down_trunc(&self, n: u32) -> Self {
        if n == 0 || self.is_zero() {
            return self.clone();
        }
        if n > self.digits() {
            return Self::ZERO;
        }
        match (self, pow10_small(n)) {
            (Self::Small(a), Some(power)) => Self::Small(a / power),
            _ => Self::from(self.to_big() / pow10_big(n)),
        }
    }

    /// Divided by ten to the power `n`, rounded half away from zero.
    pub fn scale_down_round(&self, n: u32) -> Self {
        if n == 0 || self.is_zero() {
            return self.clone();
        }
        if n > self.digits() {
            return Self::ZERO; // less than a tenth
        }
        let power = pow10_small(n).map_or_else(|| Self::from(pow10_big(n)), Self::Small);
        self.div_round(&power).unwrap_or(Self::ZERO)
    }

    /// Largest integer whose square is not greater; zero for negative ones.
    pub fn sqrt(&self) -> Self {
        match self {
            Self::Small(small) if *small <= 0 => Self::ZERO,
            Self::Small(small) => Self::Small(small.isqrt()),
            Self::Big(big) if big.is_negative() => Self::ZERO,
            Self::Big(big) => Self::from(big.sqrt()),
        }
    }

    /// Greatest common divisor, not negative.
    pub fn gcd(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Small(a), Self::Small(b)) if *a != i128::MIN && *b != i128::MIN => Self::Small(a.gcd(b)),
            _ => Self::from(self.to_big().gcd(&other.to_big())),
        }
    }

    /// Order of the absolute values.
    pub fn cmp_abs(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small(a), Self::Small(b)) => a.unsigned_abs().cmp(&b.unsigned_abs()),
            _ => self.to_big().magnitude().cmp(other.to_big().magnitude()),
        }
    }

    /// Trailing decimal zeros, at most `limit`; `limit` for zero.
    pub fn trailing_zeros(&self, limit: u32) -> u32 {
        if self.is_zero() {
            return limit;
        }
        let mut found = 0;
        if let Self::Small(small) = self {
            let mut rest = *small;
            while found < limit && rest % 10 == 0 {
                rest /= 10;
                found += 1;
            }
            return found;
        }
        // Halving steps: as many divisions as the count has bits.
        let mut rest = self.to_big();
        let mut step = 1u32;
        while step <= limit {
            step = step.saturating_mul(2);
        }
        while step > 0 {
            if found + step <= limit {
                let (quotient, remainder) = rest.div_rem(&pow10_big(step));
                if remainder.is_zero() {
                    rest = quotient;
                    found += step;
                }
            }
            step /= 2;
        }
        found
    }

    /// Decimal digits without a sign.
    pub fn digits_text(&self) -> String {
        match self {
            Self::Small(small) => small.unsigned_abs().to_string(),
            Self::Big(big) => big.magnitude().to_str_radix(10),
        }
    }

    /// Integer of decimal digits; the caller has checked that there is nothing else.
    pub fn from_digits(digits: &str) -> Self {
        if digits.is_empty() {
            return Self::ZERO;
        }
        match digits.parse::<i128>() {
            Ok(small) => Self::Small(small),
            Err(_) => digits.parse::<BigInt>().map_or(Self::ZERO, Self::from),
        }
    }
}

impl PartialOrd for Coef {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coef {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small(a), Self::Small(b)) => a.cmp(b),
            (Self::Big(a), Self::Big(b)) => a.cmp(b),
            (Self::Small(_), Self::Big(b)) => {
                if b.is_negative() {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (Self::Big(a), Self::Small(_)) => {
                if a.is_negative() {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_exact_at_powers_of_ten() {
        for n in [0u32, 1, 17, 18, 37, 38, 39, 40, 77, 154, 160, 161, 999, 5000] {
            let power = Coef::from(pow10_big(n));
            assert_eq!(power.digits(), n + 1, "10^{n}");
            assert_eq!(power.sub(&Coef::Small(1)).digits(), n, "10^{n}-1");
            assert_eq!(power.clone().neg().digits(), n + 1);
            assert_eq!(power.trailing_zeros(10_000), n);
            assert_eq!(power.trailing_zeros(7), n.min(7));
        }
    }

    #[test]
    fn extremes_of_the_small_form() {
        let min = Coef::Small(i128::MIN);
        assert_eq!(min.clone().neg(), Coef::from(-BigInt::from(i128::MIN)));
        assert_eq!(min.div_rem(&Coef::Small(-1)).unwrap().0, min.clone().neg());
        assert_eq!(min.clone().neg().neg(), min);
        assert_eq!(min.sub(&Coef::Small(1)).add(&Coef::Small(1)), min);
        assert_eq!(min.gcd(&min), min.clone().neg());
        let max = Coef::Small(i128::MAX);
        assert!(max < max.add(&Coef::Small(1)) && min > min.sub(&Coef::Small(1)));
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        for (value, n, rounded) in
            [(15, 1, 2), (-15, 1, -2), (14, 1, 1), (-14, 1, -1), (5, 1, 1), (4, 1, 0), (5, 2, 0), (50, 2, 1)]
        {
            assert_eq!(Coef::Small(value).scale_down_round(n), Coef::Small(rounded), "{value} {n}");
        }
        assert_eq!(Coef::Small(7).div_round(&Coef::Small(-2)), Some(Coef::Small(-4)));
        assert_eq!(Coef::Small(7).div_round(&Coef::ZERO), None);
    }
}
