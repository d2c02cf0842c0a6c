//! `corr`, `covar_…` and `regr_…` of pairs of `double precision`, to PostgreSQL's last digit
//! (`float8_regr_accum` in `src/backend/utils/adt/float.c`).
//!
//! The dependent value comes first: `regr_slope(y, x)`. A pair with a null does not count.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::errors::to_datafusion;
use crate::types::{arrow_oid, format_type};
use crate::wire::SqlError;

/// Names of all of them.
pub(super) const NAMES: [&str; 12] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_count",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "regr_avgx",
    "regr_avgy",
    "regr_r2",
    "regr_slope",
    "regr_intercept",
];

pub(super) fn all() -> impl Iterator<Item = (&'static str, AggregateUDF)> {
    NAMES.into_iter().map(|name| {
        let signature = Signature::user_defined(Volatility::Immutable);
        (name, AggregateUDF::new_from_impl(Regression { name, signature }))
    })
}

/// Sums over pairs (Youngs and Cramer's method).
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    n: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    fn add(&mut self, y: f64, x: f64) -> Result<(), SqlError> {
        let before = *self;
        self.n += 1.0;
        self.x += x;
        self.y += y;
        if before.n > 0.0 {
            let (dx, dy) = (x * self.n - self.x, y * self.n - self.y);
            let scale = 1.0 / (self.n * before.n);
            self.xx += dx * dx * scale;
            self.yy += dy * dy * scale;
            self.xy += dx * dy * scale;
            let (x_finite, y_finite) =
                (!before.x.is_infinite() && !x.is_infinite(), !before.y.is_infinite() && !y.is_infinite());
            let over = ((self.x.is_infinite() || self.xx.is_infinite()) && x_finite)
                || ((self.y.is_infinite() || self.yy.is_infinite()) && y_finite)
                || (self.xy.is_infinite() && x_finite && y_finite);
            if over {
                return Err(SqlError::new("22003", "value out of range: overflow"));
            }
            for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
                if sum.is_infinite() {
                    *sum = f64::NAN;
                }
            }
        } else {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: &Self) {
        if other.n == 0.0 {
            return;
        }
        if self.n == 0.0 {
            *self = *other;
            return;
        }
        let n = self.n + other.n;
        let (dx, dy) = (self.x / self.n - other.x / other.n, self.y / self.n - other.y / other.n);
        let weight = self.n * other.n;
        self.xx = self.xx + other.xx + weight * dx * dx / n;
        self.yy = self.yy + other.yy + weight * dy * dy / n;
        self.xy = self.xy + other.xy + weight * dx * dy / n;
        (self.n, self.x, self.y) = (n, self.x + other.x, self.y + other.y);
    }

    /// The result of the function of that name; `None` is null.
    fn result(&self, name: &str) -> Option<f64> {
        let Self { n, x, xx, y, yy, xy } = *self;
        if n < 1.0 {
            return None;
        }
        let value = match name {
            "regr_sxx" => xx,
            "regr_syy" => yy,
            "regr_sxy" => xy,
            "regr_avgx" => x / n,
            "regr_avgy" => y / n,
            "covar_pop" => xy / n,
            "covar_samp" if n < 2.0 => return None,
            "covar_samp" => xy / (n - 1.0),
            "corr" if xx == 0.0 || yy == 0.0 => return None,
            "corr" => xy / (xx * yy).sqrt(),
            "regr_r2" | "regr_slope" | "regr_intercept" if xx == 0.0 => return None,
            "regr_r2" if yy == 0.0 => 1.0,
            "regr_r2" => (xy * xy) / (xx * yy),
            "regr_slope" => xy / xx,
            _ => (y - x * xy / xx) / n,
        };
        Some(if value.is_nan() { f64::NAN } else { value })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Regression {
    name: &'static str,
    signature: Signature,
}

impl Regression {
    fn one(&self, args: &AccumulatorArgs<'_>, moving: bool) -> DfResult<Box<dyn Accumulator>> {
        if args.is_distinct {
            let message = format!("{}(DISTINCT …) is not supported", self.name);
            return Err(to_datafusion(SqlError::unsupported(message)));
        }
        Ok(Box::new(Pairs { name: self.name, sums: Sums::default(), frame: moving.then(VecDeque::new) }))
    }
}

impl AggregateUDFImpl for Regression {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        let number = |ty: &DataType| ty.is_numeric() || ty.is_null() || ty == &super::DYNAMIC;
        match types {
            [y, x] if number(y) && number(x) => Ok(types.to_vec()),
            _ => {
                let types: Vec<String> = types.iter().map(|ty| format_type(arrow_oid(ty), None)).collect();
                let message = format!("function {}({}) does not exist", self.name, types.join(", "));
                Err(to_datafusion(SqlError::new("42883", message)))
            }
        }
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(if self.name == "regr_count" { DataType::Int64 } else { DataType::Float64 })
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        self.one(&args, false)
    }
    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        self.one(&args, true)
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[state]", args.name), DataType::Binary, true))])
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct Pairs {
    name: &'static str,
    sums: Sums,
    /// In a moving frame: its pairs.
    frame: Option<VecDeque<(f64, f64)>>,
}

/// The pairs of two columns that are whole.
fn pairs(values: &[ArrayRef]) -> Result<Vec<(f64, f64)>, SqlError> {
    let float = |array: &ArrayRef| {
        crate::arrow::cast_array(array, &DataType::Float64, crate::types::oid::FLOAT8, &crate::datetime::Zone::Utc)
    };
    let (y, x) = (float(&values[0])?, float(&values[1])?);
    let (y, x) = (y.as_primitive::<Float64Type>(), x.as_primitive::<Float64Type>());
    Ok(y.iter().zip(x).filter_map(|(y, x)| Some((y?, x?))).collect())
}

impl Accumulator for Pairs {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for (y, x) in pairs(values).map_err(to_datafusion)? {
            match &mut self.frame {
                Some(frame) => frame.push_back((y, x)),
                None => self.sums.add(y, x).map_err(to_datafusion)?,
            }
        }
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let gone = pairs(values).map_err(to_datafusion)?.len();
        if let Some(frame) = &mut self.frame {
            frame.drain(..gone.min(frame.len()));
        }
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        self.frame.is_some()
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if let Some(frame) = &self.frame {
            self.sums = Sums::default();
            for (y, x) in frame {
                self.sums.add(*y, *x).map_err(to_datafusion)?;
            }
        }
        Ok(match self.name {
            "regr_count" => ScalarValue::Int64(Some(self.sums.n as i64)),
            name => ScalarValue::Float64(self.sums.result(name)),
        })
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.frame.as_ref().map_or(0, |frame| frame.capacity() * 16)
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let Sums { n, x, xx, y, yy, xy } = self.sums;
        let bytes = [n, x, xx, y, yy, xy].iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for bytes in states[0].as_binary::<i32>().iter().flatten() {
            let at = |at: usize| {
                f64::from_le_bytes(
                    bytes.get(at * 8..at * 8 + 8).and_then(|raw| raw.try_into().ok()).unwrap_or_default(),
                )
            };
            self.sums.merge(&Sums { n: at(0), x: at(1), xx: at(2), y: at(3), yy: at(4), xy: at(5) });
        }
        Ok(())
    }
}
