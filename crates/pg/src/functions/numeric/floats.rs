//! `sum`, `avg`, variance and deviation of `real` and `double precision`, to PostgreSQL's last digit
//! (`float8_accum` and its kin in `src/backend/utils/adt/float.c`).

use datafusion::common::ScalarValue;

use crate::wire::SqlError;

/// What an aggregate of floats gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FloatResult {
    /// In the width of the argument.
    Sum,
    Avg,
    Variance {
        sample: bool,
        root: bool,
    },
}

fn overflow() -> SqlError {
    SqlError::new("22003", "value out of range: overflow")
}

/// Running values of one group (Youngs and Cramer's method).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloatState {
    pub n: f64,
    pub sum: f64,
    pub squares: f64,
    /// Sum in single precision.
    pub single: f32,
}

impl FloatState {
    /// Adds a value of type `double precision`.
    pub(super) fn add(&mut self, value: f64, what: FloatResult) -> Result<(), SqlError> {
        let before = *self;
        self.n += 1.0;
        self.sum = if what == FloatResult::Sum && before.n == 0.0 { value } else { before.sum + value };
        if what == FloatResult::Sum {
            return match self.sum.is_infinite() && !before.sum.is_infinite() && !value.is_infinite() {
                true => Err(overflow()),
                false => Ok(()),
            };
        }
        if before.n > 0.0 {
            let difference = value * self.n - self.sum;
            self.squares += difference * difference / (self.n * before.n);
            if self.sum.is_infinite() || self.squares.is_infinite() {
                if !before.sum.is_infinite() && !value.is_infinite() {
                    return Err(overflow());
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    /// Adds a value of type `real`.
    pub(super) fn add_single(&mut self, value: f32, what: FloatResult) -> Result<(), SqlError> {
        if what != FloatResult::Sum {
            return self.add(value.into(), what);
        }
        let before = self.single;
        self.single = if self.n == 0.0 { value } else { before + value };
        self.n += 1.0;
        match self.single.is_infinite() && !before.is_infinite() && !value.is_infinite() {
            true => Err(overflow()),
            false => Ok(()),
        }
    }

    /// Adds what another state has (`float8_combine`).
    pub(super) fn merge(&mut self, other: &Self, what: FloatResult) -> Result<(), SqlError> {
        if other.n == 0.0 {
            return Ok(());
        }
        if self.n == 0.0 {
            *self = *other;
            return Ok(());
        }
        let n = self.n + other.n;
        let sum = self.sum + other.sum;
        let single = self.single + other.single;
        if (sum.is_infinite() && self.sum.is_finite() && other.sum.is_finite())
            || (single.is_infinite() && self.single.is_finite() && other.single.is_finite())
        {
            return Err(overflow());
        }
        if what != FloatResult::Sum {
            let difference = self.sum / self.n - other.sum / other.n;
            self.squares = self.squares + other.squares + self.n * other.n * difference * difference / n;
        }
        (self.n, self.sum, self.single) = (n, sum, single);
        Ok(())
    }

    /// The result; `None` is null.
    pub(super) fn result(&self, what: FloatResult) -> Option<f64> {
        let nan = |value: f64| if value.is_nan() { f64::NAN } else { value };
        match what {
            _ if self.n == 0.0 => None,
            FloatResult::Sum => Some(nan(self.sum)),
            FloatResult::Avg => Some(nan(self.sum / self.n)),
            FloatResult::Variance { sample: true, .. } if self.n <= 1.0 => None,
            FloatResult::Variance { sample, root } => {
                let variance = self.squares / if sample { self.n - 1.0 } else { self.n };
                Some(nan(if root { variance.sqrt() } else { variance }))
            }
        }
    }

    /// The sum in single precision; `None` is null.
    pub(super) fn single_result(&self) -> Option<f32> {
        (self.n > 0.0).then_some(if self.single.is_nan() { f32::NAN } else { self.single })
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        [self.n, self.sum, self.squares, f64::from(self.single)].iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let at = |at: usize| {
            let raw = bytes.get(at * 8..at * 8 + 8).and_then(|raw| raw.try_into().ok()).unwrap_or_default();
            f64::from_le_bytes(raw)
        };
        Self { n: at(0), sum: at(1), squares: at(2), single: at(3) as f32 }
    }

    pub(super) fn scalar(&self, what: FloatResult, single: bool) -> ScalarValue {
        match single && what == FloatResult::Sum {
            true => ScalarValue::Float32(self.single_result()),
            false => ScalarValue::Float64(self.result(what)),
        }
    }
}
