//! `round`, `trunc`, `ceil`, `floor`.

use crate::coef::Coef;
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite};
use crate::{DIGITS_BEFORE_POINT_MAX, Result, SCALE_MAX};

impl Numeric {
    /// Rounded half away from zero to `scale` digits after the point, or before it if that is negative.
    ///
    /// # Errors
    /// 22003 if there is a digit too many before the point then.
    pub fn round(&self, scale: i32) -> Result<Self> {
        let Finite(value) = self else { return Ok(self.clone()) };
        let scale = scale.clamp(-(DIGITS_BEFORE_POINT_MAX as i32) - 1, SCALE_MAX);
        Self::finite(value.round(scale))
    }

    /// Cut off behind `scale` digits after the point, or before it if that is negative.
    ///
    /// # Errors
    /// None of its own.
    pub fn trunc(&self, scale: i32) -> Result<Self> {
        let Finite(value) = self else { return Ok(self.clone()) };
        let scale = scale.clamp(-(DIGITS_BEFORE_POINT_MAX as i32), SCALE_MAX);
        Self::finite(value.trunc(scale))
    }

    fn towards(&self, sign: i32) -> Result<Self> {
        let Finite(value) = self else { return Ok(self.clone()) };
        let mut whole = value.trunc(0);
        if value.signum() == sign && !value.is_integral() {
            whole = Dec::new(whole.coef.add(&Coef::Small(i128::from(sign))), 0);
        }
        Self::finite(whole)
    }

    /// Smallest whole number that is not less.
    ///
    /// # Errors
    /// 22003.
    pub fn ceil(&self) -> Result<Self> {
        self.towards(1)
    }

    /// Largest whole number that is not greater.
    ///
    /// # Errors
    /// 22003.
    pub fn floor(&self) -> Result<Self> {
        self.towards(-1)
    }
}
