//! Exact states of `sum`, `avg`, `var_*` and `stddev_*`, from which values can be taken away again.
//!
//! The sum has the largest scale of the values that are in it, so a state that lets values go counts them by
//! scale. Sums and sums of squares are exact, in any order, whatever is added and removed.

use std::collections::BTreeMap;

use crate::arith::div_scale;
use crate::coef::Coef;
use crate::dec::Dec;
use crate::number::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::transcendental::sqrt;
use crate::{Error, Result};

/// What is kept of a group's values.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    /// Finite values.
    count: u64,
    nans: u64,
    infinities: u64,
    neg_infinities: u64,
    /// Of `sum`; that of `squares` is twice as large.
    scale: i32,
    sum: Coef,
    squares: Option<Coef>,
    /// How many finite values have each scale, if values can go. Boxed: most states have none, and there is one a group.
    #[allow(clippy::box_collection)]
    scales: Option<Box<BTreeMap<i32, u64>>>,
}

impl Default for Coef {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Moments {
    /// For sums and averages; `squares` for variances, too, and `removable` for window frames.
    pub fn new(squares: bool, removable: bool) -> Self {
        Self { squares: squares.then_some(Coef::ZERO), scales: removable.then(Box::default), ..Self::default() }
    }

    /// Heap and stack memory, in bytes.
    pub fn size(&self) -> usize {
        let heap = |coef: &Coef| match coef {
            Coef::Small(_) => 0,
            Coef::Big(big) => (big.bits() / 8) as usize + 8,
        };
        let scales = self.scales.as_ref().map_or(0, |scales| 48 + scales.len() * 16);
        size_of::<Self>() + heap(&self.sum) + self.squares.as_ref().map_or(0, heap) + scales
    }

    /// Values of any kind.
    fn total(&self) -> u64 {
        self.count + self.nans + self.infinities + self.neg_infinities
    }

    fn rescale(&mut self, scale: i32) {
        let up = (scale - self.scale).max(0) as u32;
        self.sum = self.sum.scale_up(up);
        self.squares = self.squares.take().map(|squares| squares.scale_up(2 * up));
        self.scale = scale;
    }

    fn change(&mut self, coef: &Coef, scale: i32, sign: i32) {
        if scale > self.scale {
            self.rescale(scale);
        }
        let scaled;
        let coef = if scale == self.scale {
            coef
        } else {
            scaled = coef.scale_up((self.scale - scale) as u32);
            &scaled
        };
        let apply = |to: &Coef, change: &Coef| if sign > 0 { to.add(change) } else { to.sub(change) };
        self.sum = apply(&self.sum, coef);
        if let Some(squares) = &mut self.squares {
            *squares = apply(squares, &coef.mul(coef));
        }
        self.count = self.count.wrapping_add_signed(i64::from(sign));
        if let Some(scales) = &mut self.scales {
            let of_scale = scales.entry(scale).or_default();
            *of_scale = of_scale.wrapping_add_signed(i64::from(sign));
            if *of_scale == 0 {
                scales.remove(&scale);
            }
        }
    }

    fn count_special(&mut self, value: &Numeric, sign: i64) {
        let counter = match value {
            NaN => &mut self.nans,
            Infinity => &mut self.infinities,
            NegInfinity => &mut self.neg_infinities,
            Finite(_) => return,
        };
        *counter = counter.wrapping_add_signed(sign);
    }

    /// Adds a value.
    pub fn add(&mut self, value: &Numeric) {
        match value {
            Finite(value) => self.change(&value.coef, value.scale, 1),
            special => self.count_special(special, 1),
        }
    }

    /// Adds `value` / 10^`scale`.
    pub fn add_scaled(&mut self, value: i128, scale: i32) {
        self.change(&Coef::Small(value), scale, 1);
    }

    /// Adds `count` values, none of which has to be known, with the sum `sum` / 10^`scale`: not for variances,
    /// and not where values can go.
    pub fn add_sum(&mut self, sum: i128, scale: i32, count: u64) {
        self.change(&Coef::Small(sum), scale, 1);
        self.count = self.count - 1 + count;
    }

    /// Takes a value away that was added.
    pub fn remove(&mut self, value: &Numeric) {
        match value {
            Finite(value) => self.change(&value.coef, value.scale, -1),
            special => self.count_special(special, -1),
        }
    }

    /// Takes `value` / 10^`scale` away.
    pub fn remove_scaled(&mut self, value: i128, scale: i32) {
        self.change(&Coef::Small(value), scale, -1);
    }

    /// Adds all that another state has, which was made with the same arguments.
    pub fn merge(&mut self, other: &Self) {
        self.nans += other.nans;
        self.infinities += other.infinities;
        self.neg_infinities += other.neg_infinities;
        self.count += other.count;
        let mut other_sums = other.clone();
        let scale = self.scale.max(other.scale);
        self.rescale(scale);
        other_sums.rescale(scale);
        self.sum = self.sum.add(&other_sums.sum);
        if let (Some(squares), Some(more)) = (&mut self.squares, &other_sums.squares) {
            *squares = squares.add(more);
        }
        if let (Some(scales), Some(more)) = (&mut self.scales, &other.scales) {
            for (scale, count) in more.iter() {
                *scales.entry(*scale).or_default() += count;
            }
        }
    }

    /// Scale of the sum: the largest of those that are in.
    fn shown_scale(&self) -> i32 {
        match &self.scales {
            Some(scales) => scales.last_key_value().map_or(0, |(scale, _)| *scale),
            None => self.scale,
        }
    }

    fn sum_dec(&self) -> Dec {
        Dec { coef: self.sum.clone(), scale: self.scale }.trunc(self.shown_scale())
    }

    /// What infinities and NaNs make of a sum.
    fn special_sum(&self) -> Option<Numeric> {
        match (self.nans, self.infinities, self.neg_infinities) {
            (0, 0, 0) => None,
            (0, 1.., 0) => Some(Infinity),
            (0, 0, 1..) => Some(NegInfinity),
            _ => Some(NaN),
        }
    }

    /// `sum`; `None` of no values.
    ///
    /// # Errors
    /// 22003.
    pub fn sum(&self) -> Result<Option<Numeric>> {
        if self.total() == 0 {
            return Ok(None);
        }
        self.special_sum().map_or_else(|| Numeric::finite(self.sum_dec()), Ok).map(Some)
    }

    /// `avg`; `None` of no values.
    ///
    /// # Errors
    /// 22003.
    pub fn avg(&self) -> Result<Option<Numeric>> {
        if self.total() == 0 {
            return Ok(None);
        }
        if let Some(special) = self.special_sum() {
            return Ok(Some(special));
        }
        Finite(self.sum_dec()).div(&Finite(Dec::from(i128::from(self.count)))).map(Some)
    }

    /// Variance of the population, or of a sample, or the root of it; `None` where that is not defined.
    ///
    /// # Errors
    /// 22003.
    pub fn variance(&self, sample: bool, root: bool) -> Result<Option<Numeric>> {
        if self.total() == 0 || (sample && self.total() == 1) {
            return Ok(None);
        }
        if self.nans + self.infinities + self.neg_infinities > 0 {
            return Ok(Some(NaN));
        }
        let count = Dec::from(i128::from(self.count));
        let sum = self.sum_dec();
        let scale = sum.scale * 2;
        let squares = Dec { coef: self.squares.clone().unwrap_or_default(), scale: self.scale * 2 };
        let numerator = count.mul_to(&squares, scale).sub(&sum.mul(&sum));
        if numerator.signum() <= 0 {
            return Ok(Some(Numeric::ZERO));
        }
        let others = if sample { count.sub(&Dec::from(1)) } else { count.clone() };
        let denominator = count.mul(&others);
        let scale = div_scale(&numerator, &denominator);
        let variance = numerator.div_to(&denominator, scale)?;
        Numeric::finite(if root { sqrt(&variance, scale)? } else { variance }).map(Some)
    }

    /// The state as bytes, for an exchange between the steps of an aggregation.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(80);
        for count in [self.count, self.nans, self.infinities, self.neg_infinities] {
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.extend_from_slice(&self.scale.to_le_bytes());
        let push = |out: &mut Vec<u8>, coef: &Coef| {
            let bytes = match coef {
                Coef::Small(small) => small.to_le_bytes().to_vec(),
                Coef::Big(big) => big.to_signed_bytes_le(),
            };
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(&bytes);
        };
        push(&mut out, &self.sum);
        out.push(u8::from(self.squares.is_some()) | (u8::from(self.scales.is_some()) << 1));
        if let Some(squares) = &self.squares {
            push(&mut out, squares);
        }
        if let Some(scales) = &self.scales {
            out.extend_from_slice(&(scales.len() as u32).to_le_bytes());
            for (scale, count) in scales.iter() {
                out.extend_from_slice(&scale.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
        out
    }

    /// A state of [`Moments::to_bytes`].
    ///
    /// # Errors
    /// XX001 if that is not one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let count = reader.u64()?;
        let (nans, infinities, neg_infinities) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let scale = reader.u32()? as i32;
        let sum = reader.coef()?;
        let flags = reader.take(1)?[0];
        let squares = if flags & 1 != 0 { Some(reader.coef()?) } else { None };
        let scales = match flags & 2 != 0 {
            true => {
                let mut scales = BTreeMap::new();
                for _ in 0..reader.u32()? {
                    let scale = reader.u32()? as i32;
                    scales.insert(scale, reader.u64()?);
                }
                Some(Box::new(scales))
            }
            false => None,
        };
        Ok(Self { count, nans, infinities, neg_infinities, scale, sum, squares, scales })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, rest) =
            self.0.split_at_checked(count).ok_or_else(|| Error::new("XX001", "an aggregate's state is damaged"))?;
        self.0 = rest;
        Ok(head)
    }
    fn u32(&mut self) -> Result<u32> {
        Ok(self.take(4)?.iter().rev().fold(0, |value, byte| (value << 8) | u32::from(*byte)))
    }
    fn u64(&mut self) -> Result<u64> {
        Ok(self.take(8)?.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }
    fn coef(&mut self) -> Result<Coef> {
        let length = self.u32()? as usize;
        Ok(Coef::from(num_bigint::BigInt::from_signed_bytes_le(self.take(length)?)))
    }
}
