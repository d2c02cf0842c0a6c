//! `power`: by repeated multiplication for whole exponents that fit an `i32`, else by exp(y·ln x).

use crate::coef::Coef;
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::transcendental::{LOG10_E, exp, ln, ln_weight, result_scale};
use crate::{DIGITS_BEFORE_POINT_MAX, DISPLAY_SCALE_MAX, Error, RESULT_SCALE_MAX, Result, SIG_DIGITS_MIN};

fn undefined(message: &'static str) -> Error {
    Error::new("2201F", message)
}

const ZERO_TO_NEGATIVE: &str = "zero raised to a negative power is undefined";
const COMPLEX: &str = "a negative number raised to a non-integer power yields a complex result";

/// The exponent as a whole number that fits.
fn whole(exponent: &Dec) -> Option<i32> {
    if !exponent.is_integral() {
        return None;
    }
    match exponent.trunc(0).coef {
        Coef::Small(small) => i32::try_from(small).ok(),
        Coef::Big(_) => None,
    }
}

fn is_odd(value: &Dec) -> bool {
    value.is_integral() && value.trunc(0).coef.is_odd()
}

/// Whole power, rounded to a scale.
fn power_whole(base: &Dec, exponent: i32, scale: i32) -> Result<Dec> {
    let one = Dec::from(1);
    match exponent {
        0 => return Ok(one.trunc(scale)),
        1 => return Ok(base.round(scale)),
        -1 => return one.div_to(base, scale),
        2 => return Ok(base.mul_to(base, scale)),
        _ => {}
    }
    if base.is_zero() {
        return if exponent < 0 { Err(Error::division_by_zero()) } else { Ok(Dec::zero(scale)) };
    }
    // The result's weight, from the first digits.
    let (first, count) = base.leading4(4);
    let lowest = (base.weight4() - (count as i32 - 1)) * 4;
    let estimate = f64::from(exponent) * ((first as f64).log10() + f64::from(lowest));
    if estimate > 3.0 * 32_767.0 * 4.0 {
        return Err(Error::overflow());
    }
    if estimate + 1.0 < f64::from(-scale) || estimate + 1.0 < f64::from(-DISPLAY_SCALE_MAX) {
        return Ok(Dec::zero(scale));
    }
    let digits = 1 + scale + estimate as i32 + f64::from(exponent).abs().ln() as i32 + 8;
    let negative = exponent < 0;
    let mut mask = exponent.unsigned_abs();
    let mut square = base.clone();
    let mut result = if mask & 1 == 1 { base.clone() } else { one.clone() };
    loop {
        mask >>= 1;
        if mask == 0 {
            break;
        }
        let local = (digits - 2 * square.weight4() * 4).min(2 * square.scale).max(0);
        square = square.mul_to(&square, local);
        if mask & 1 == 1 {
            let local = digits - (square.weight4() + result.weight4()) * 4;
            let local = local.min(square.scale + result.scale).max(0);
            result = square.mul_to(&result, local);
        }
        if square.weight() >= DIGITS_BEFORE_POINT_MAX || result.weight() >= DIGITS_BEFORE_POINT_MAX {
            return if negative { Ok(Dec::zero(scale)) } else { Err(Error::overflow()) };
        }
    }
    if negative { one.div_to(&result, scale) } else { Ok(result.round(scale)) }
}

/// Any power of finite numbers.
fn power(base: &Dec, exponent: &Dec) -> Result<Dec> {
    if let Some(exponent) = whole(exponent) {
        return power_whole(base, exponent, base.scale.max(SIG_DIGITS_MIN).clamp(0, DISPLAY_SCALE_MAX));
    }
    if base.is_zero() {
        return Ok(Dec::zero(SIG_DIGITS_MIN));
    }
    let negative = base.signum() < 0;
    if negative && !exponent.is_integral() {
        return Err(undefined(COMPLEX));
    }
    let base = base.clone().abs();
    let weight = ln_weight(&base);
    // Eight digits of exp·ln(base) say how large the result is.
    let local = (8 - weight).max(0);
    let mut estimate = ln(&base, local)?.mul_to(exponent, local).to_f64();
    if estimate.abs() > f64::from(RESULT_SCALE_MAX) * 3.01 {
        return if estimate > 0.0 { Err(Error::overflow()) } else { Ok(Dec::zero(DISPLAY_SCALE_MAX)) };
    }
    estimate *= LOG10_E;
    let scale = result_scale(estimate as i32, &[base.scale, exponent.scale]);
    let digits = (scale + estimate as i32).max(0);
    let local = (digits - weight + 8).max(0);
    let result = exp(&ln(&base, local)?.mul_to(exponent, local), scale)?;
    Ok(if negative && is_odd(exponent) { result.neg() } else { result })
}

impl Numeric {
    /// `self` to the power of `exponent`.
    ///
    /// # Errors
    /// 2201F for zero to a negative power and roots of negative numbers; 22003.
    pub fn power(&self, exponent: &Self) -> Result<Self> {
        let one = |value: &Self| *value == Self::ONE;
        match (self, exponent) {
            (Finite(a), Finite(b)) => {
                if a.is_zero() && b.signum() < 0 {
                    return Err(undefined(ZERO_TO_NEGATIVE));
                }
                return Self::finite(power(a, b)?);
            }
            (NaN, other) if other.signum() == Some(0) => return Ok(Self::ONE),
            (other, NaN) if one(other) => return Ok(Self::ONE),
            (NaN, _) | (_, NaN) => return Ok(NaN),
            _ => {}
        }
        let (sign, power_sign) = (self.signum().unwrap_or(0), exponent.signum().unwrap_or(0));
        if sign == 0 && power_sign < 0 {
            return Err(undefined(ZERO_TO_NEGATIVE));
        }
        // An infinite exponent counts as whole.
        if sign < 0 && exponent.as_dec().is_some_and(|exponent| !exponent.is_integral()) {
            return Err(undefined(COMPLEX));
        }
        if one(self) || power_sign == 0 {
            return Ok(Self::ONE);
        }
        if sign == 0 {
            return Ok(Self::ZERO);
        }
        if exponent.is_infinite() {
            let grows = match self {
                Finite(_) => {
                    if one(&self.neg()) {
                        return Ok(Self::ONE);
                    }
                    self.abs() > Self::ONE
                }
                _ => true,
            };
            return Ok(if grows == (power_sign > 0) { Infinity } else { Self::ZERO });
        }
        if power_sign < 0 {
            return Ok(Self::ZERO);
        }
        let odd = exponent.as_dec().is_some_and(is_odd);
        Ok(if matches!(self, NegInfinity) && odd { NegInfinity } else { Infinity })
    }
}
