//! `time with time zone`: a time of day and its distance to the west of Greenwich.
//!
//! Two of them compare by the instants that they are on one day, then by their zones, the eastern one first (PostgreSQL's
//! `timetz_cmp_internal`). The stored bytes are these two as big-endian numbers with their sign bits flipped.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Time64MicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::ScalarValue;
use resurgam_engine::OrderedType;

use crate::datetime::{DAY_US, SECOND_US, Zone, round_seconds};
use crate::encode::{put_time, put_zone};
use crate::ordered;
use crate::user_types;
use crate::wire::SqlError;

/// Seconds that a zone is less far away than.
const ZONE_LIMIT: i32 = 16 * 3600;

/// Bytes of a stored value.
pub const WIDTH: usize = 12;

/// A value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeTz {
    /// Microseconds since midnight, those of a whole day included.
    pub us: i64,
    /// Seconds to the west of Greenwich, as PostgreSQL has it.
    pub west: i32,
}

impl TimeTz {
    /// What a clock in a zone shows at an instant: microseconds since 1970, UTC.
    pub fn at(us: i64, zone: &Zone) -> Self {
        let east = zone.offset_at(us);
        let local = us.saturating_add(i64::from(east) * SECOND_US);
        Self { us: local.rem_euclid(DAY_US), west: -east }
    }

    /// A time of today in a zone: in summer it has the zone's offset of summer.
    pub fn of_today(us: i64, zone: &Zone) -> Self {
        let now = user_types::transaction_start();
        let today = (now + i64::from(zone.offset_at(now)) * SECOND_US).div_euclid(DAY_US);
        Self::of_day(today, us, zone)
    }

    /// A time of a day since 1970 in a zone.
    pub fn of_day(day: i64, us: i64, zone: &Zone) -> Self {
        let instant = zone.local_to_utc(day.saturating_mul(DAY_US).saturating_add(us));
        Self { us, west: -zone.offset_at(instant) }
    }

    /// Microseconds since midnight in Greenwich; below zero, or a day and more, where it is another day there.
    pub const fn utc_us(self) -> i64 {
        self.us + self.west as i64 * SECOND_US
    }

    /// The same instant in another zone. Of zones that are farther apart than 68 years PostgreSQL takes the difference's lower bits.
    #[must_use]
    pub const fn moved_to(self, west: i32) -> Self {
        let us = self.us + self.west.wrapping_sub(west) as i64 * SECOND_US;
        Self { us: us.rem_euclid(DAY_US), west }
    }

    /// The time so many microseconds later, in the same zone.
    #[must_use]
    pub const fn plus(self, us: i64) -> Self {
        Self { us: self.us.wrapping_add(us).rem_euclid(DAY_US), west: self.west }
    }

    /// With so many digits of seconds.
    #[must_use]
    pub fn rounded(self, digits: Option<u8>) -> Self {
        Self { us: round_seconds(self.us, digits), west: self.west }
    }

    pub fn to_stored(self) -> [u8; WIDTH] {
        let mut out = [0; WIDTH];
        out[..8].copy_from_slice(&((self.utc_us() as u64) ^ (1 << 63)).to_be_bytes());
        out[8..].copy_from_slice(&((self.west as u32) ^ (1 << 31)).to_be_bytes());
        out
    }

    /// # Errors
    /// `XX001`
    pub fn of_stored(stored: &[u8]) -> Result<Self, SqlError> {
        let damaged = || SqlError::new("XX001", "a time with time zone is stored in a form that is none");
        let stored = <[u8; WIDTH]>::try_from(stored).map_err(|_| damaged())?;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = stored;
        let utc = (u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ (1 << 63)) as i64;
        let west = (u32::from_be_bytes([i, j, k, l]) ^ (1 << 31)) as i32;
        let us = utc.checked_sub(i64::from(west) * SECOND_US).filter(|us| (0..=DAY_US).contains(us));
        us.map(|us| Self { us, west }).ok_or_else(damaged)
    }

    pub fn to_text(self) -> String {
        let mut out = BytesMut::with_capacity(24);
        put_time(&mut out, self.us);
        put_zone(&mut out, self.west.saturating_neg());
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The binary form.
    pub fn send(self) -> [u8; WIDTH] {
        let mut out = [0; WIDTH];
        out[..8].copy_from_slice(&self.us.to_be_bytes());
        out[8..].copy_from_slice(&self.west.to_be_bytes());
        out
    }

    /// # Errors
    /// `08P01`, `22P03`, `22008`, `22009`
    pub fn receive(bytes: &[u8]) -> Result<Self, SqlError> {
        let [a, b, c, d, e, f, g, h, i, j, k, l, rest @ ..] = bytes else {
            return Err(SqlError::new("08P01", "insufficient data left in message"));
        };
        if !rest.is_empty() {
            return Err(SqlError::new("22P03", "incorrect binary data format"));
        }
        let us = i64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        let west = i32::from_be_bytes([*i, *j, *k, *l]);
        if !(0..=DAY_US).contains(&us) {
            return Err(SqlError::new("22008", "time out of range"));
        }
        if !(1 - ZONE_LIMIT..ZONE_LIMIT).contains(&west) {
            return Err(SqlError::new("22009", "time zone displacement out of range"));
        }
        Ok(Self { us, west })
    }

    /// As a constant of a plan.
    pub fn scalar(self) -> ScalarValue {
        ScalarValue::FixedSizeBinary(WIDTH as i32, Some(self.to_stored().to_vec()))
    }
}

fn column(rows: impl ExactSizeIterator<Item = Option<TimeTz>>) -> Result<ArrayRef, SqlError> {
    ordered::column(OrderedType::TimeTz(None), rows.map(|value| Ok(value.map(|value| value.to_stored().to_vec()))))
}

/// Times of today, and those of instants, in the session's zone; `None`: other types have no such cast. Infinite instants have no time.
pub fn of_times(array: &ArrayRef, zone: &Zone) -> Option<Result<ArrayRef, SqlError>> {
    match array.data_type() {
        DataType::Time64(TimeUnit::Microsecond) => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            Some(column(times.iter().map(|us| us.map(|us| TimeTz::of_today(us, zone)))))
        }
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            let instants = array.as_primitive::<TimestampMicrosecondType>();
            let is_finite = |us: &i64| !matches!(*us, i64::MAX | i64::MIN);
            Some(column(instants.iter().map(|us| us.filter(is_finite).map(|us| TimeTz::at(us, zone)))))
        }
        _ => None,
    }
}

/// Values as times without their zones; `None`: there is no cast to other types.
pub fn to_times(array: &ArrayRef, to: &DataType) -> Option<Result<ArrayRef, SqlError>> {
    if to != &DataType::Time64(TimeUnit::Microsecond) {
        return None;
    }
    let held = array.as_fixed_size_binary_opt()?;
    let times = held.iter().map(|bytes| bytes.map(|bytes| TimeTz::of_stored(bytes).map(|value| value.us)).transpose());
    Some(times.collect::<Result<Time64MicrosecondArray, _>>().map(|array| Arc::new(array) as ArrayRef))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(us: i64, east: i32) -> TimeTz {
        TimeTz { us: us * 3600 * SECOND_US, west: -east * 3600 }
    }

    #[test]
    fn stored_bytes_order_as_values_do() {
        // The same instant, and the eastern zone is the smaller one.
        let ordered = [hour(0, 15), hour(14, 2), hour(12, 0), hour(10, -2), hour(13, 0), hour(24, -15)];
        for pair in ordered.windows(2) {
            assert!(pair[0].to_stored() < pair[1].to_stored(), "{pair:?}");
        }
        for value in ordered {
            assert_eq!(TimeTz::of_stored(&value.to_stored()).expect("stored"), value);
            assert_eq!(TimeTz::receive(&value.send()).expect("sent"), value);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(TimeTz::of_stored(&[0; 12]).unwrap_err().sqlstate, "XX001");
        assert_eq!(TimeTz::of_stored(&[0; 11]).unwrap_err().sqlstate, "XX001");
        assert_eq!(TimeTz::receive(&[0; 11]).unwrap_err().sqlstate, "08P01");
        assert_eq!(TimeTz::receive(&[0; 13]).unwrap_err().sqlstate, "22P03");
        assert_eq!(TimeTz::receive(&[0xff; 12]).unwrap_err().sqlstate, "22008");
        assert_eq!(TimeTz::receive(&hour(1, 16).send()).unwrap_err().sqlstate, "22009");
    }

    #[test]
    fn texts() {
        assert_eq!(hour(12, 2).to_text(), "12:00:00+02");
        assert_eq!(TimeTz { us: DAY_US, west: 5400 }.to_text(), "24:00:00-01:30");
        assert_eq!(hour(23, 0).moved_to(-7200).to_text(), "01:00:00+02");
        assert_eq!(hour(23, 1).plus(2 * 3600 * SECOND_US).to_text(), "01:00:00+01");
        assert_eq!(hour(12, 0).moved_to(-2_000_000_000).to_text(), "15:33:20+555555:33:20");
    }
}
