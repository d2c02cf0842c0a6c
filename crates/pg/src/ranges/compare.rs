//! What two ranges are to each other, and what is made of two (`rangetypes.c`).

use std::cmp::Ordering;

use super::{Bound, Kind, Range};
use crate::wire::SqlError;

/// An end of a range with its side: bounds of both sides have one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    bound: Option<Bound>,
    is_lower: bool,
}

impl End {
    /// `range_cmp_bounds`
    fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = match (self.bound, other.bound) {
            (None, None) => return other.is_lower.cmp(&self.is_lower),
            (None, Some(_)) => return if self.is_lower { Ordering::Less } else { Ordering::Greater },
            (Some(_), None) => return if other.is_lower { Ordering::Greater } else { Ordering::Less },
            (Some(a), Some(b)) => (a, b),
        };
        // Behind the number by a hair (a lower bound that is not in the range), before it, or at it.
        let place = |bound: Bound, is_lower: bool| match (bound.inclusive, is_lower) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => -1,
        };
        a.value.cmp(&b.value).then_with(|| place(a, self.is_lower).cmp(&place(b, other.is_lower)))
    }

    /// `range_cmp_bound_values`
    fn compare_values(&self, other: &Self) -> Ordering {
        match (self.bound, other.bound) {
            (Some(a), Some(b)) => a.value.cmp(&b.value),
            _ => self.compare(other),
        }
    }
}

impl Range {
    fn ends(&self) -> Option<(End, End)> {
        let (lower, upper) = self.bounds()?;
        Some((End { bound: lower, is_lower: true }, End { bound: upper, is_lower: false }))
    }

    /// The ends of two ranges, neither of which is empty.
    fn both(&self, other: &Self) -> Option<((End, End), (End, End))> {
        self.ends().zip(other.ends())
    }

    /// The order of ranges: empty ones first.
    pub fn compare(&self, other: &Self) -> Ordering {
        match self.both(other) {
            Some(((a, b), (c, d))) => a.compare(&c).then_with(|| b.compare(&d)),
            None => other.is_empty().cmp(&self.is_empty()),
        }
    }

    /// `range @> value`
    pub fn contains_value(&self, value: i64) -> bool {
        let Some((lower, upper)) = self.bounds() else { return false };
        lower.is_none_or(|bound| bound.value < value || bound.inclusive && bound.value == value)
            && upper.is_none_or(|bound| bound.value > value || bound.inclusive && bound.value == value)
    }

    /// `@>`
    pub fn contains(&self, other: &Self) -> bool {
        match self.both(other) {
            Some(((a, b), (c, d))) => a.compare(&c).is_le() && b.compare(&d).is_ge(),
            None => other.is_empty(),
        }
    }

    /// `&&`
    pub fn overlaps(&self, other: &Self) -> bool {
        self.both(other).is_some_and(|((a, b), (c, d))| {
            a.compare(&c).is_ge() && a.compare(&d).is_le() || c.compare(&a).is_ge() && c.compare(&b).is_le()
        })
    }

    /// `<<`
    pub fn is_before(&self, other: &Self) -> bool {
        self.both(other).is_some_and(|((_, b), (c, _))| b.compare(&c).is_lt())
    }

    /// `>>`
    pub fn is_after(&self, other: &Self) -> bool {
        other.is_before(self)
    }

    /// `&<`
    pub fn does_not_extend_right_of(&self, other: &Self) -> bool {
        self.both(other).is_some_and(|((_, b), (_, d))| b.compare(&d).is_le())
    }

    /// `&>`
    pub fn does_not_extend_left_of(&self, other: &Self) -> bool {
        self.both(other).is_some_and(|((a, _), (c, _))| a.compare(&c).is_ge())
    }

    /// `-|-`
    pub fn is_adjacent(&self, kind: Kind, other: &Self) -> bool {
        self.both(other).is_some_and(|((a, b), (c, d))| is_next(kind, &b, &c) || is_next(kind, &d, &a))
    }

    /// `+`
    ///
    /// # Errors
    /// `22000` where there is something between them.
    pub fn union(&self, kind: Kind, other: &Self) -> Result<Self, SqlError> {
        if !self.is_empty() && !other.is_empty() && !self.overlaps(other) && !self.is_adjacent(kind, other) {
            return Err(SqlError::new("22000", "result of range union would not be contiguous"));
        }
        self.merge(kind, other)
    }

    /// The least range in which both are.
    ///
    /// # Errors
    /// None: both have such bounds.
    pub fn merge(&self, kind: Kind, other: &Self) -> Result<Self, SqlError> {
        let Some(((a, b), (c, d))) = self.both(other) else {
            return Ok(if self.is_empty() { *other } else { *self });
        };
        let lower = if a.compare(&c).is_lt() { a } else { c };
        let upper = if b.compare(&d).is_gt() { b } else { d };
        Self::new(kind, lower.bound, upper.bound)
    }

    /// `*`
    ///
    /// # Errors
    /// None: both have such bounds.
    pub fn intersection(&self, kind: Kind, other: &Self) -> Result<Self, SqlError> {
        let Some(((a, b), (c, d))) = self.both(other).filter(|_| self.overlaps(other)) else {
            return Ok(Self::EMPTY);
        };
        let lower = if a.compare(&c).is_ge() { a } else { c };
        let upper = if b.compare(&d).is_le() { b } else { d };
        Self::new(kind, lower.bound, upper.bound)
    }

    /// `-`
    ///
    /// # Errors
    /// `22000` where two ranges would be left.
    pub fn minus(&self, kind: Kind, other: &Self) -> Result<Self, SqlError> {
        let Some(((a, b), (c, d))) = self.both(other) else { return Ok(*self) };
        let (starts_before, ends_behind) = (a.compare(&c).is_lt(), b.compare(&d).is_gt());
        let turned = |end: End| end.bound.map(|bound| Bound { inclusive: !bound.inclusive, ..bound });
        match (starts_before, ends_behind) {
            (true, true) => Err(SqlError::new("22000", "result of range difference would not be contiguous")),
            _ if a.compare(&d).is_gt() || b.compare(&c).is_lt() => Ok(*self),
            (false, false) => Ok(Self::EMPTY),
            (true, false) => Self::new(kind, a.bound, turned(c)),
            (false, true) => Self::new(kind, turned(d), b.bound),
        }
    }
}

/// Whether nothing is between an upper bound and a lower one, and no number is in both (`bounds_adjacent`).
fn is_next(kind: Kind, upper: &End, lower: &End) -> bool {
    let (Some(a), Some(b)) = (upper.bound, lower.bound) else { return false };
    match upper.compare_values(lower) {
        Ordering::Equal => a.inclusive != b.inclusive,
        Ordering::Greater => false,
        Ordering::Less if !kind.is_discrete() => false,
        // What is between them, of whole numbers.
        Ordering::Less => {
            let (from, to) =
                (Bound { value: a.value, inclusive: !a.inclusive }, Bound { value: b.value, inclusive: !b.inclusive });
            Range::new(kind, Some(from), Some(to)).is_ok_and(|between| between.is_empty())
        }
    }
}
