//! Ranges: `int4range`, `int8range`, `daterange`, `tsrange`, `tstzrange`.
//!
//! A range is what is between two bounds, each of which is a part of it or not, or is not there; or it is empty. Those of
//! whole numbers and of days are kept with the lower bound in them and the upper one not (PostgreSQL's canonical form), so
//! that ranges of the same values are the same.
//!
//! Bounds are numbers as plans have them: days since 1970, microseconds since 1970. The stored bytes order as
//! PostgreSQL's `range_cmp` does, empty ranges first, then by lower and then by upper bounds:
//! ```text
//! empty: a zero      else: 1
//!     lower bound: 0 and zeros for none; else 1, the number big-endian with its sign bit flipped, 1 if it is not in the range
//!     upper bound: the number likewise after a 0, 1 if it is in the range; else 1 and zeros for none
//! ```
//! `numrange`, whose equal values may show other digits, and multiranges are not there.

mod compare;
mod text;

use resurgam_engine::OrderedType;

use crate::datetime::{days_to_engine, us_to_engine};
use crate::decode::{LAST_DATE, received_date, received_timestamp};
use crate::types::oid;
use crate::wire::SqlError;

pub use text::{parse, to_text};

/// Of what a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int4,
    Int8,
    Date,
    Timestamp,
    Timestamptz,
}

impl Kind {
    /// The kind of a type's values; `None` of what is no range.
    pub const fn of(ty: OrderedType) -> Option<Self> {
        Some(match ty {
            OrderedType::Int4Range => Self::Int4,
            OrderedType::Int8Range => Self::Int8,
            OrderedType::DateRange => Self::Date,
            OrderedType::TsRange => Self::Timestamp,
            OrderedType::TstzRange => Self::Timestamptz,
            _ => return None,
        })
    }

    /// The type of the bounds.
    pub const fn element(self) -> u32 {
        match self {
            Self::Int4 => oid::INT4,
            Self::Int8 => oid::INT8,
            Self::Date => oid::DATE,
            Self::Timestamp => oid::TIMESTAMP,
            Self::Timestamptz => oid::TIMESTAMPTZ,
        }
    }

    /// Bytes of a bound's number.
    const fn width(self) -> usize {
        match self {
            Self::Int4 | Self::Date => 4,
            Self::Int8 | Self::Timestamp | Self::Timestamptz => 8,
        }
    }

    /// Bytes of a stored range.
    pub const fn stored_width(self) -> usize {
        1 + 2 * (self.width() + 2)
    }

    /// Whether each number has one that comes next.
    const fn is_discrete(self) -> bool {
        matches!(self, Self::Int4 | Self::Int8 | Self::Date)
    }

    /// Whether it is a day that never comes, or one before all others: these are no neighbours of any.
    fn is_infinite(self, value: i64) -> bool {
        self == Self::Date && (value == i64::from(i32::MAX) || value == i64::from(i32::MIN))
    }

    /// The number that comes next.
    fn next(self, value: i64) -> Result<i64, SqlError> {
        let (most, error) = match self {
            Self::Int4 => (i32::MAX.into(), SqlError::new("22003", "integer out of range")),
            Self::Int8 => (i64::MAX, SqlError::new("22003", "bigint out of range")),
            _ => (LAST_DATE, SqlError::new("22008", "date out of range")),
        };
        match value < most {
            true => Ok(value + 1),
            false => Err(error),
        }
    }
}

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub value: i64,
    /// Whether it is in the range.
    pub inclusive: bool,
}

/// What is between two bounds; a bound that is not there goes on for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    bounds: Option<(Option<Bound>, Option<Bound>)>,
}

fn damaged() -> SqlError {
    SqlError::new("XX001", "a range is stored in a form that is none")
}

impl Range {
    pub const EMPTY: Self = Self { bounds: None };

    /// The range between two bounds (`make_range`).
    ///
    /// # Errors
    /// `22000` for a lower bound above the upper one; `22003` and `22008` where the canonical form has no such bound.
    pub fn new(kind: Kind, lower: Option<Bound>, upper: Option<Bound>) -> Result<Self, SqlError> {
        let made = Self::checked(lower, upper)?;
        let Some((lower, upper)) = made.bounds.filter(|_| kind.is_discrete()) else { return Ok(made) };
        let lower = match lower {
            Some(bound) if !bound.inclusive && !kind.is_infinite(bound.value) => {
                Some(Bound { value: kind.next(bound.value)?, inclusive: true })
            }
            bound => bound,
        };
        let upper = match upper {
            Some(bound) if bound.inclusive && !kind.is_infinite(bound.value) => {
                Some(Bound { value: kind.next(bound.value)?, inclusive: false })
            }
            bound => bound,
        };
        Self::checked(lower, upper)
    }

    fn checked(lower: Option<Bound>, upper: Option<Bound>) -> Result<Self, SqlError> {
        if let (Some(a), Some(b)) = (lower, upper) {
            if a.value > b.value {
                let text = "range lower bound must be less than or equal to range upper bound";
                return Err(SqlError::new("22000", text));
            }
            if a.value == b.value && !(a.inclusive && b.inclusive) {
                return Ok(Self::EMPTY);
            }
        }
        Ok(Self { bounds: Some((lower, upper)) })
    }

    pub fn is_empty(&self) -> bool {
        self.bounds.is_none()
    }

    /// Its lower and upper bound; `None`: it is empty.
    pub fn bounds(&self) -> Option<(Option<Bound>, Option<Bound>)> {
        self.bounds
    }

    pub fn to_stored(self, kind: Kind) -> Vec<u8> {
        let width = kind.width();
        let mut out = Vec::with_capacity(kind.stored_width());
        let Some((lower, upper)) = self.bounds else {
            out.resize(kind.stored_width(), 0);
            return out;
        };
        let put = |out: &mut Vec<u8>, value: i64| match width {
            4 => out.extend_from_slice(&((value as i32 as u32) ^ (1 << 31)).to_be_bytes()),
            _ => out.extend_from_slice(&((value as u64) ^ (1 << 63)).to_be_bytes()),
        };
        out.push(1);
        match lower {
            Some(bound) => {
                out.push(1);
                put(&mut out, bound.value);
                out.push(u8::from(!bound.inclusive));
            }
            None => out.resize(1 + width + 2, 0),
        }
        match upper {
            Some(bound) => {
                out.push(0);
                put(&mut out, bound.value);
                out.push(u8::from(bound.inclusive));
            }
            None => {
                out.push(1);
                out.resize(kind.stored_width(), 0);
            }
        }
        out
    }

    /// The range of stored bytes, or of what a plan holds, which is longer.
    ///
    /// # Errors
    /// `XX001`
    pub fn of_stored(kind: Kind, stored: &[u8]) -> Result<Self, SqlError> {
        let width = kind.width();
        let stored = stored.get(..kind.stored_width()).ok_or_else(damaged)?;
        let (lower, upper) = stored[1..].split_at(width + 2);
        let bound = |bytes: &[u8], is_there: bool, when_set: bool| -> Result<Option<Bound>, SqlError> {
            if !is_there {
                return match bytes[1..].iter().all(|byte| *byte == 0) {
                    true => Ok(None),
                    false => Err(damaged()),
                };
            }
            let number = &bytes[1..=width];
            let value = match <[u8; 8]>::try_from(number) {
                Ok(number) => (u64::from_be_bytes(number) ^ (1 << 63)) as i64,
                Err(_) => {
                    let number = <[u8; 4]>::try_from(number).map_err(|_| damaged())?;
                    ((u32::from_be_bytes(number) ^ (1 << 31)) as i32).into()
                }
            };
            let inclusive = match bytes[width + 1] {
                0 => !when_set,
                1 => when_set,
                _ => return Err(damaged()),
            };
            Ok(Some(Bound { value, inclusive }))
        };
        match (stored[0], lower[0], upper[0]) {
            (0, ..) if stored.iter().all(|byte| *byte == 0) => Ok(Self::EMPTY),
            (1, a @ (0 | 1), b @ (0 | 1)) => {
                Ok(Self { bounds: Some((bound(lower, a == 1, false)?, bound(upper, b == 0, true)?)) })
            }
            _ => Err(damaged()),
        }
    }

    /// The binary form (`range_send`).
    pub fn send(self, kind: Kind) -> Vec<u8> {
        let Some((lower, upper)) = self.bounds else { return vec![flag::EMPTY] };
        let mut flags = 0;
        for (bound, inclusive, infinite) in
            [(lower, flag::LOWER_INCLUSIVE, flag::LOWER_INFINITE), (upper, flag::UPPER_INCLUSIVE, flag::UPPER_INFINITE)]
        {
            match bound {
                Some(bound) if bound.inclusive => flags |= inclusive,
                Some(_) => {}
                None => flags |= infinite,
            }
        }
        let mut out = vec![flags];
        for bound in [lower, upper].into_iter().flatten() {
            out.extend_from_slice(&(kind.width() as u32).to_be_bytes());
            match kind {
                Kind::Int4 => out.extend_from_slice(&(bound.value as i32).to_be_bytes()),
                Kind::Date => out.extend_from_slice(&days_to_engine(bound.value as i32).to_be_bytes()),
                Kind::Int8 => out.extend_from_slice(&bound.value.to_be_bytes()),
                Kind::Timestamp | Kind::Timestamptz => {
                    out.extend_from_slice(&us_to_engine(bound.value).to_be_bytes());
                }
            }
        }
        out
    }

    /// Of a binary form (`range_recv`).
    ///
    /// # Errors
    /// `08P01`; `22000`, `22003`, `22008` for bounds that are none.
    pub fn receive(kind: Kind, bytes: &[u8]) -> Result<Self, SqlError> {
        let short = || SqlError::new("08P01", "insufficient data left in message");
        let wrong = || SqlError::new("08P01", "invalid message format");
        let (&flags, mut rest) = bytes.split_first().ok_or_else(short)?;
        let mut bound = |inclusive: u8, infinite: u8| -> Result<Option<Bound>, SqlError> {
            if flags & (flag::EMPTY | infinite) != 0 {
                return Ok(None);
            }
            let (length, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            let length = u32::from_be_bytes(*length) as usize;
            let (value, after) = after.split_at_checked(length).ok_or_else(short)?;
            rest = after;
            let value = match kind {
                Kind::Int4 => i32::from_be_bytes(value.try_into().map_err(|_| wrong())?).into(),
                Kind::Date => received_date(i32::from_be_bytes(value.try_into().map_err(|_| wrong())?))?.into(),
                Kind::Int8 => i64::from_be_bytes(value.try_into().map_err(|_| wrong())?),
                Kind::Timestamp | Kind::Timestamptz => {
                    received_timestamp(i64::from_be_bytes(value.try_into().map_err(|_| wrong())?))?
                }
            };
            Ok(Some(Bound { value, inclusive: flags & inclusive != 0 }))
        };
        let lower = bound(flag::LOWER_INCLUSIVE, flag::LOWER_INFINITE)?;
        let upper = bound(flag::UPPER_INCLUSIVE, flag::UPPER_INFINITE)?;
        if !rest.is_empty() {
            return Err(wrong());
        }
        match flags & flag::EMPTY != 0 {
            true => Ok(Self::EMPTY),
            false => Self::new(kind, lower, upper),
        }
    }
}

/// What the first byte of the binary form says.
mod flag {
    pub(super) const EMPTY: u8 = 0x01;
    pub(super) const LOWER_INCLUSIVE: u8 = 0x02;
    pub(super) const UPPER_INCLUSIVE: u8 = 0x04;
    pub(super) const LOWER_INFINITE: u8 = 0x08;
    pub(super) const UPPER_INFINITE: u8 = 0x10;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 5] = [Kind::Int4, Kind::Int8, Kind::Date, Kind::Timestamp, Kind::Timestamptz];

    fn bound() -> impl Strategy<Value = Option<Bound>> {
        let value = prop_oneof![-3i64..4, Just(i64::from(i32::MAX)), Just(i64::from(i32::MIN))];
        proptest::option::of((value, any::<bool>()).prop_map(|(value, inclusive)| Bound { value, inclusive }))
    }

    fn range() -> impl Strategy<Value = (Kind, Range, Range)> {
        (proptest::sample::select(&KINDS[..]), bound(), bound(), bound(), bound())
            .prop_filter_map("no range", |(kind, a, b, c, d)| {
                Some((kind, Range::new(kind, a, b).ok()?, Range::new(kind, c, d).ok()?))
            })
    }

    proptest! {
        #[test]
        fn they_come_back_and_order_as_their_bytes((kind, a, b) in range()) {
            let (x, y) = (a.to_stored(kind), b.to_stored(kind));
            prop_assert_eq!(x.len(), kind.stored_width());
            prop_assert_eq!(Range::of_stored(kind, &x).expect("a range"), a);
            prop_assert_eq!(x.cmp(&y), a.compare(&b));
            prop_assert_eq!(Range::receive(kind, &a.send(kind)).expect("a range"), a);
        }

        #[test]
        fn any_bytes_are_a_range_or_an_error(kind in proptest::sample::select(&KINDS[..]), bytes in proptest::collection::vec(0u8..3, 0..24)) {
            if let Ok(range) = Range::of_stored(kind, &bytes) {
                prop_assert_eq!(range.to_stored(kind), bytes[..kind.stored_width()].to_vec());
            }
            let _ = Range::receive(kind, &bytes);
        }

        /// What operators say of two ranges, by asking each number.
        #[test]
        fn operators_say_what_their_elements_say((kind, a, b) in range()) {
            let all: Vec<i64> = (-8..9).chain([i64::from(i32::MAX) - 1, i64::from(i32::MAX), i64::from(i32::MIN)]).collect();
            let within = |range: &Range| -> Vec<bool> { all.iter().map(|at| range.contains_value(*at)).collect() };
            let (x, y) = (within(&a), within(&b));
            let both = a.intersection(kind, &b).expect("a range");
            prop_assert_eq!(within(&both), x.iter().zip(&y).map(|(x, y)| *x && *y).collect::<Vec<_>>());
            prop_assert_eq!(both.is_empty(), !a.overlaps(&b));
            if let Ok(union) = a.union(kind, &b) {
                prop_assert_eq!(within(&union), x.iter().zip(&y).map(|(x, y)| *x || *y).collect::<Vec<_>>());
            }
            if let Ok(less) = a.minus(kind, &b) {
                prop_assert_eq!(within(&less), x.iter().zip(&y).map(|(x, y)| *x && !*y).collect::<Vec<_>>());
            }
            if a.contains(&b) {
                prop_assert!(x.iter().zip(&y).all(|(x, y)| *x || !*y));
            }
            let merged = a.merge(kind, &b).expect("a range");
            prop_assert!(merged.contains(&a) && merged.contains(&b));
            if a.is_before(&b) {
                prop_assert!(!a.overlaps(&b) && b.is_after(&a) && a.does_not_extend_right_of(&b));
            }
            prop_assert_eq!(a.is_adjacent(kind, &b), b.is_adjacent(kind, &a));
        }
    }
}
