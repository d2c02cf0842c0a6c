//! `sqrt`, `exp`, `ln`, `log`.
//!
//! Each chooses the digits of its result as PostgreSQL does: 16 significant ones by an estimate of the result's
//! weight, and no fewer than the arguments show. The series are PostgreSQL's too, with its guard digits, so that
//! the last digit comes out alike.

use crate::coef::Coef;
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::{DISPLAY_SCALE_MAX, Error, RESULT_SCALE_MAX, Result, SIG_DIGITS_MIN};

// As many digits as PostgreSQL writes: a result's scale is estimated with them.
#[allow(clippy::approx_constant)]
pub(crate) const LOG10_E: f64 = 0.434_294_481_903_252;
#[allow(clippy::approx_constant)]
const LOG10_2: f64 = 0.301_029_995_663_981;
#[allow(clippy::approx_constant)]
const LN_10: f64 = 2.302_585_092_994_046;

/// At least 16 significant digits of a result of that weight, and at least as many after the point as given.
pub(crate) fn result_scale(weight: i32, scales: &[i32]) -> i32 {
    let wanted = scales.iter().fold(SIG_DIGITS_MIN - weight, |most, scale| most.max(*scale));
    wanted.clamp(0, DISPLAY_SCALE_MAX)
}

fn ten_minus_one(tenths: i128) -> Dec {
    Dec::new(tenths, 1)
}

/// Square root.
///
/// # Errors
/// 2201F of a negative number.
pub(crate) fn sqrt(value: &Dec, scale: i32) -> Result<Dec> {
    if value.signum() < 0 {
        return Err(Error::new("2201F", "cannot take square root of a negative number"));
    }
    Ok(value.sqrt_to(scale))
}

/// e to the power of `value`.
///
/// # Errors
/// 22003.
pub(crate) fn exp(value: &Dec, scale: i32) -> Result<Dec> {
    let mut estimate = value.to_f64();
    if estimate.abs() >= f64::from(RESULT_SCALE_MAX * 3) {
        return if estimate > 0.0 { Err(Error::overflow()) } else { Ok(Dec::zero(scale)) };
    }
    let weight = (estimate * LOG10_E) as i32;
    // Halved until the series converges quickly; the result is squared as often.
    let mut halvings = 0i32;
    while estimate.abs() > 0.01 {
        halvings += 1;
        estimate /= 2.0;
    }
    let x = match halvings {
        0 => value.clone(),
        _ => value.div_to(&Dec::from(1i128 << halvings), value.scale + halvings)?,
    };
    let digits = (1 + weight + scale + (f64::from(halvings) * LOG10_2) as i32).max(0) + 8;
    let local = digits - 1;
    let mut result = Dec::from(1).add(&x);
    let mut n = 2i128;
    let mut term = x.mul_to(&x, local).div_to(&Dec::from(n), local)?;
    while !term.is_zero() {
        result = result.add(&term);
        n += 1;
        term = term.mul_to(&x, local).div_to(&Dec::from(n), local)?;
    }
    for _ in 0..halvings {
        let local = (digits - result.weight4() * 8).max(0);
        result = result.mul_to(&result, local);
    }
    Ok(result.round(scale))
}

/// Weight of the first digit of the natural logarithm, roughly; 0 for what has none.
pub(crate) fn ln_weight(value: &Dec) -> i32 {
    if value.signum() <= 0 {
        return 0;
    }
    if *value >= ten_minus_one(9) && *value <= ten_minus_one(11) {
        // ln(1 + x) is about x.
        let x = value.sub(&Dec::from(1));
        if x.is_zero() {
            return 0;
        }
        let (first, _) = x.leading4(1);
        return x.weight4() * 4 + (first as f64).log10() as i32;
    }
    let (digits, count) = value.leading4(2);
    let weight = (value.weight4() - (count as i32 - 1)) * 4;
    let ln = (digits as f64).ln() + f64::from(weight) * LN_10;
    ln.abs().log10() as i32
}

/// Natural logarithm.
///
/// # Errors
/// 2201E of zero and of a negative number.
pub(crate) fn ln(value: &Dec, scale: i32) -> Result<Dec> {
    match value.signum() {
        0 => return Err(Error::new("2201E", "cannot take logarithm of zero")),
        -1 => return Err(Error::new("2201E", "cannot take logarithm of a negative number")),
        _ => {}
    }
    // Roots until it is near 1.
    let mut x = value.clone();
    let (low, high) = (ten_minus_one(9), ten_minus_one(11));
    let mut roots = 0u32;
    while x <= low || x >= high {
        x = x.sqrt_to(scale - x.weight4() * 2 + 8);
        roots += 1;
    }
    // 0.5 * ln((1+z)/(1-z)) = z + z^3/3 + z^5/5 + …, with z = (x-1)/(x+1)
    let local = scale + (f64::from(roots + 1) * LOG10_2) as i32 + 8;
    let one = Dec::from(1);
    let mut result = x.sub(&one).div_to(&x.add(&one), local)?;
    let mut power = result.clone();
    let square = result.mul_to(&result, local);
    let mut n = 1i128;
    loop {
        n += 2;
        power = power.mul_to(&square, local);
        let term = power.div_to(&Dec::from(n), local)?;
        if term.is_zero() {
            break;
        }
        result = result.add(&term);
        if term.weight4() < result.weight4() - local * 2 / 4 {
            break;
        }
    }
    let factor = Dec::from(Coef::Small(1i128 << (roots + 1)));
    Ok(result.mul_to(&factor, scale))
}

impl From<Coef> for Dec {
    fn from(coef: Coef) -> Self {
        Self { coef, scale: 0 }
    }
}

/// Logarithm to a base, with the digits that PostgreSQL gives it.
///
/// # Errors
/// 2201E; 22012 for base 1.
fn log(base: &Dec, value: &Dec) -> Result<Dec> {
    let (base_weight, value_weight) = (ln_weight(base), ln_weight(value));
    let weight = value_weight - base_weight;
    let scale = result_scale(weight, &[base.scale, value.scale]);
    let part = |own: i32| (scale + weight - own + 8).max(0);
    let ln_base = ln(base, part(base_weight))?;
    let ln_value = ln(value, part(value_weight))?;
    ln_value.div_to(&ln_base, scale)
}

impl Numeric {
    /// Square root.
    ///
    /// # Errors
    /// 2201F of a negative number.
    pub fn sqrt(&self) -> Result<Self> {
        match self {
            Finite(value) => {
                // Of base 10,000, as PostgreSQL's; `/` is towards zero there, too.
                let weight = (value.weight4() + 1) * 4 / 2 - 1;
                Self::finite(sqrt(value, result_scale(weight, &[value.scale]))?)
            }
            NegInfinity => Err(Error::new("2201F", "cannot take square root of a negative number")),
            other => Ok(other.clone()),
        }
    }

    /// e to this power.
    ///
    /// # Errors
    /// 22003.
    pub fn exp(&self) -> Result<Self> {
        match self {
            Finite(value) => {
                let limit = f64::from(RESULT_SCALE_MAX);
                let weight = (value.to_f64() * LOG10_E).clamp(-limit, limit) as i32;
                Self::finite(exp(value, result_scale(weight, &[value.scale]))?)
            }
            NegInfinity => Ok(Self::ZERO),
            other => Ok(other.clone()),
        }
    }

    /// Natural logarithm.
    ///
    /// # Errors
    /// 2201E of zero and of negative numbers.
    pub fn ln(&self) -> Result<Self> {
        match self {
            Finite(value) => Self::finite(ln(value, result_scale(ln_weight(value), &[value.scale]))?),
            NegInfinity => Err(Error::new("2201E", "cannot take logarithm of a negative number")),
            other => Ok(other.clone()),
        }
    }

    /// Logarithm of `self` to `base`.
    ///
    /// # Errors
    /// 2201E; 22012 for base 1.
    pub fn log(&self, base: &Self) -> Result<Self> {
        let (base, value) = match (base, self) {
            (Finite(base), Finite(value)) => (base, value),
            (NaN, _) | (_, NaN) => return Ok(NaN),
            (base, value) => {
                let signs = [base.signum().unwrap_or(0), value.signum().unwrap_or(0)];
                if signs.contains(&-1) {
                    return Err(Error::new("2201E", "cannot take logarithm of a negative number"));
                }
                if signs.contains(&0) {
                    return Err(Error::new("2201E", "cannot take logarithm of zero"));
                }
                return Ok(match (base, value) {
                    (Infinity, Infinity) => NaN,
                    (Infinity, _) => Self::ZERO,
                    _ => Infinity,
                });
            }
        };
        Self::finite(log(base, value)?)
    }

    /// Logarithm to base 10.
    ///
    /// # Errors
    /// 2201E.
    pub fn log10(&self) -> Result<Self> {
        self.log(&Finite(Dec::from(10)))
    }
}
