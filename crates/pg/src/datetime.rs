//! Calendar arithmetic (proleptic Gregorian).
//!
//! Unit: microseconds or days, since 1970-01-01. `i64::MIN` and `i64::MAX`
//! (`i32::MIN`, `i32::MAX` for dates) are `-infinity` and `infinity`, in every epoch.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::types::{EPOCH_DAYS, EPOCH_US};
use crate::wire::SqlError;
pub use crate::zone::Zone;

/// Microseconds of a second.
pub const SECOND_US: i64 = 1_000_000;
/// Microseconds of a day.
pub const DAY_US: i64 = 86_400 * SECOND_US;

/// What timestamps begin with, 4714-11-24 BC, here as in PostgreSQL.
pub const FIRST_US: i64 = -2_440_588 * DAY_US;
/// Timestamps are before this, 294247-01-08: 64 bits that count from 1970 reach two days further, which the local times
/// of the last instants need.
pub const END_US: i64 = (i64::MAX / DAY_US - 2) * DAY_US;
/// What PostgreSQL's timestamps, whose 64 bits count from 2000, are before: 294277-01-01.
const POSTGRES_END_US: i128 = days_from_civil(294_277, 1, 1) as i128 * DAY_US as i128;

/// A finite timestamp that was computed, or read, if there is such a one.
///
/// # Errors
/// `0A000` for one that only PostgreSQL has, `out_of_range` for one that it has not got either.
pub fn timestamp_in_range(us: i128, out_of_range: impl FnOnce() -> SqlError) -> Result<i64, SqlError> {
    match i64::try_from(us) {
        Ok(us) if (FIRST_US..END_US).contains(&us) => Ok(us),
        _ if us >= i128::from(END_US) && us < POSTGRES_END_US => {
            Err(SqlError::unsupported("timestamps after 294247-01-07 are not supported"))
        }
        _ => Err(out_of_range()),
    }
}

/// The present.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}

/// Day number of a civil date (Howard Hinnant's `days_from_civil`).
pub const fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let mp = (month as i64 + 9) % 12;
    let doy = (153 * mp + 2) / 5 + day as i64 - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

/// Civil date (astronomical year, month, day) of a day number.
pub const fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    let year = yoe + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Days of a month.
pub const fn month_days(year: i64, month: u32) -> u32 {
    match month {
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A time, or a timestamp in the engine's count, with so many digits of seconds (`None`: all), rounded as PostgreSQL
/// does: half away from zero, which is midnight or the begin of 2000. Infinities stay.
pub const fn round_seconds(us: i64, digits: Option<u8>) -> i64 {
    let unit = match digits {
        Some(digits @ 0..6) => 10i64.pow(6 - digits as u32),
        _ => return us,
    };
    match us {
        i64::MAX | i64::MIN => us,
        us => us.saturating_add(unit / 2 * us.signum()) / unit * unit,
    }
}

/// Engine timestamp (since 2000) from an Arrow one (since 1970); infinities stay,
/// and what does not fit saturates to them.
pub const fn us_to_engine(us: i64) -> i64 {
    match us {
        i64::MAX | i64::MIN => us,
        _ => us.saturating_sub(EPOCH_US),
    }
}

/// Arrow timestamp from an engine one.
pub const fn us_from_engine(us: i64) -> i64 {
    match us {
        i64::MAX | i64::MIN => us,
        _ => us.saturating_add(EPOCH_US),
    }
}

/// Engine date (since 2000) from an Arrow one (since 1970).
pub const fn days_to_engine(days: i32) -> i32 {
    match days {
        i32::MAX | i32::MIN => days,
        _ => days.saturating_sub(EPOCH_DAYS),
    }
}

/// Arrow date from an engine one.
pub const fn days_from_engine(days: i32) -> i32 {
    match days {
        i32::MAX | i32::MIN => days,
        _ => days.saturating_add(EPOCH_DAYS),
    }
}

/// Microseconds since 1970 now, by the system clock.
pub fn clock_us() -> i64 {
    match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_round_trip() {
        for days in (-800_000..800_000).step_by(37) {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), days);
            assert!(d >= 1 && d <= month_days(y, m));
        }
        assert_eq!(days_from_civil(2000, 1, 1), i64::from(EPOCH_DAYS));
        assert_eq!(civil_from_days(0), (1970, 1, 1));
        assert_eq!(civil_from_days(-1), (1969, 12, 31));
    }

    #[test]
    fn range_of_timestamps() {
        assert_eq!(civil_from_days(END_US / DAY_US), (294_247, 1, 8));
        assert_eq!(POSTGRES_END_US, 9_223_371_331_200_000_000 + i128::from(EPOCH_US));
        let state =
            |us: i128| timestamp_in_range(us, || SqlError::new("22008", "")).map_err(|error| error.sqlstate.clone());
        assert_eq!(state(i128::from(FIRST_US)), Ok(FIRST_US));
        assert_eq!(state(i128::from(END_US - 1)), Ok(END_US - 1));
        for beyond in [i128::from(END_US), i128::from(i64::MAX), i128::from(i64::MAX) + 1, POSTGRES_END_US - 1] {
            assert!(state(beyond).is_err_and(|state| state == "0A000"), "{beyond}");
        }
        for beyond in [i128::from(FIRST_US) - 1, i128::from(i64::MIN), POSTGRES_END_US, i128::MAX] {
            assert!(state(beyond).is_err_and(|state| state == "22008"), "{beyond}");
        }
    }
}
