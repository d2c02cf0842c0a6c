//! `numeric(precision, scale)`.

use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, NaN};
use crate::{Error, Result};

/// Limits of a column or cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Typmod {
    precision: u16,
    scale: i16,
}

impl Typmod {
    /// `numeric(precision, scale)`.
    ///
    /// # Errors
    /// 22023 unless the precision is in 1 to 1000 and the scale in -1000 to 1000.
    pub fn new(precision: i32, scale: i32) -> Result<Self> {
        if !(1..=1000).contains(&precision) {
            let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
            return Err(Error::new("22023", message));
        }
        if !(-1000..=1000).contains(&scale) {
            let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
            return Err(Error::new("22023", message));
        }
        Ok(Self { precision: precision as u16, scale: scale as i16 })
    }

    /// Of PostgreSQL's `atttypmod`; `None` for -1 and whatever says no limits.
    pub fn from_pg(typmod: i32) -> Option<Self> {
        if typmod < 4 {
            return None;
        }
        let bits = typmod - 4;
        // 11 bits, two's complement.
        let scale = ((bits & 0x7ff) ^ 1024) - 1024;
        Some(Self { precision: ((bits >> 16) & 0xffff) as u16, scale: scale as i16 })
    }

    /// PostgreSQL's `atttypmod`.
    pub fn to_pg(self) -> i32 {
        ((i32::from(self.precision) << 16) | (i32::from(self.scale) & 0x7ff)) + 4
    }

    /// Digits in all.
    pub fn precision(self) -> u16 {
        self.precision
    }

    /// Digits after the point; negative for zeros before it.
    pub fn scale(self) -> i16 {
        self.scale
    }

    /// A finite value rounded to these limits.
    ///
    /// # Errors
    /// 22003.
    pub(crate) fn apply(self, value: &Dec) -> Result<Dec> {
        let (precision, scale) = (i32::from(self.precision), i32::from(self.scale));
        let rounded = value.round(scale);
        let most = precision - scale;
        if !rounded.is_zero() && rounded.weight() + 1 > i64::from(most) {
            let limit = if most == 0 { "1".to_owned() } else { format!("10^{most}") };
            return Err(Error::field_overflow(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
            )));
        }
        Ok(if scale < 0 { rounded.trunc(0) } else { rounded })
    }
}

impl Numeric {
    /// The value as one of `numeric(p,s)`.
    ///
    /// # Errors
    /// 22003 with PostgreSQL's DETAIL if it does not fit.
    pub fn with_typmod(&self, typmod: Typmod) -> Result<Self> {
        match self {
            Finite(value) => Self::finite(typmod.apply(value)?),
            NaN => Ok(NaN),
            _ => Err(Error::field_overflow(format!(
                "A field with precision {}, scale {} cannot hold an infinite value.",
                typmod.precision, typmod.scale
            ))),
        }
    }
}
