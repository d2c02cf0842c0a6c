//! The type itself: finite values in PostgreSQL's limits, NaN and the infinities.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::coef::Coef;
use crate::dec::Dec;
use crate::{DIGITS_BEFORE_POINT_MAX, Error, Result, SCALE_MAX};

/// A value of type `numeric`.
///
/// `==` and the order are PostgreSQL's: by value, whatever the scales; NaN equals itself and is above all.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// Below all finite values.
    NegInfinity,
    /// A number and the digits that it shows; see [`Numeric::new`] for the limits.
    Finite(Dec),
    /// Above all finite values.
    Infinity,
    /// Above all others, and equal to itself.
    NaN,
}

impl Numeric {
    /// `coef` / 10^`scale`, showing `scale` digits after the point.
    ///
    /// # Errors
    /// 22003 if `scale` is not in 0 to [`SCALE_MAX`], or with more than [`DIGITS_BEFORE_POINT_MAX`] digits
    /// before the point.
    pub fn new(coef: impl Into<Coef>, scale: i32) -> Result<Self> {
        Self::finite(Dec::new(coef, scale))
    }

    /// The same of both in one; a negative scale becomes zero.
    pub(crate) fn finite(value: Dec) -> Result<Self> {
        let value = if value.scale < 0 { value.trunc(0) } else { value };
        let too_long = match &value.coef {
            // At most 39 digits.
            Coef::Small(_) => false,
            Coef::Big(_) => value.weight() >= DIGITS_BEFORE_POINT_MAX,
        };
        match too_long || value.scale > SCALE_MAX {
            true => Err(Error::overflow()),
            false => Ok(Self::Finite(value)),
        }
    }

    /// Zero that shows no digits after the point.
    pub const ZERO: Self = Self::Finite(Dec { coef: Coef::ZERO, scale: 0 });
    /// One.
    pub const ONE: Self = Self::Finite(Dec { coef: Coef::Small(1), scale: 0 });

    /// The finite value.
    pub fn as_dec(&self) -> Option<&Dec> {
        match self {
            Self::Finite(value) => Some(value),
            _ => None,
        }
    }

    /// Whether it is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Self::NaN)
    }

    /// Whether it is an infinity.
    pub fn is_infinite(&self) -> bool {
        matches!(self, Self::Infinity | Self::NegInfinity)
    }

    /// -1, 0 or 1; `None` for NaN.
    pub fn signum(&self) -> Option<i32> {
        match self {
            Self::NegInfinity => Some(-1),
            Self::Finite(value) => Some(value.signum()),
            Self::Infinity => Some(1),
            Self::NaN => None,
        }
    }

    /// Digits that it shows after the point; `None` if it is not finite (SQL's `scale`).
    pub fn scale(&self) -> Option<i32> {
        self.as_dec().map(|value| value.scale)
    }

    /// Digits after the point that it needs; `None` if it is not finite.
    pub fn min_scale(&self) -> Option<i32> {
        let value = self.as_dec()?;
        let scale = value.scale.max(0) as u32;
        Some((scale - value.coef.trailing_zeros(scale)) as i32)
    }

    /// The value without zeros at the end of its digits after the point.
    pub fn trim_scale(&self) -> Self {
        match (self, self.min_scale()) {
            (Self::Finite(value), Some(scale)) => Self::Finite(value.trunc(scale)),
            _ => self.clone(),
        }
    }

    /// Memory that the value has on the heap, in bytes.
    pub fn heap_size(&self) -> usize {
        match self {
            Self::Finite(Dec { coef: Coef::Big(big), .. }) => (big.bits() / 8) as usize + 8,
            _ => 0,
        }
    }

    fn class(&self) -> u8 {
        match self {
            Self::NegInfinity => 0,
            Self::Finite(_) => 1,
            Self::Infinity => 2,
            Self::NaN => 3,
        }
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => a.compare(b),
            _ => self.class().cmp(&other.class()),
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal values hash alike whatever their scales.
        self.class().hash(state);
        if let Self::Finite(value) = self {
            let trimmed = self.trim_scale();
            if let Self::Finite(trimmed) = &trimmed {
                let zeros = trimmed.coef.trailing_zeros(trimmed.coef.digits());
                trimmed.coef.scale_down_trunc(zeros).hash(state);
            }
            value.weight().hash(state);
        }
    }
}
