//! Dates, times and timestamps from text, as PostgreSQL reads them with the order of numbers of [`styles`](crate::styles).
//!
//! - `words`: words, and how a text is cut into fields
//! - `decode`: what the fields mean
//! - `plain`: what is mostly written, at once
//!
//! Results count from 1970 (Arrow's epoch); the caller moves them to the engine's.

mod decode;
mod plain;
pub(crate) mod words;

use decode::{Decoded, Meant, TextZone};
pub(super) use decode::{Wrong, clock};

use crate::datetime::{DAY_US, SECOND_US, Zone, days_from_civil, days_from_engine, timestamp_in_range};
use crate::timetz::TimeTz;
use crate::types::EPOCH_US;
use crate::user_types;
use crate::wire::SqlError;

/// The name of the type of times with a zone.
const TIMETZ: &str = "time with time zone";

/// Julian day 0, 4714-11-24 BC: what PostgreSQL's dates begin with.
const FIRST_DAY: i64 = -2_440_588;
/// The last day of a date: 5874897-12-31.
pub(crate) const LAST_DATE: i64 = 2_145_042_905;

/// Seconds to the east of `+hh[:mm[:ss]]` or `-hhmm`; `None` for what is not of that form, an error for what is out of
/// range.
pub(crate) fn displacement(text: &str) -> Result<Option<i32>, ()> {
    match decode::displacement(text) {
        Ok(east) => Ok(Some(east)),
        Err(Wrong::Displacement) => Err(()),
        Err(_) => Ok(None),
    }
}

/// The error of a text that is none of that type.
#[cold]
pub(super) fn wrong(why: Wrong, ty: &str, text: &str) -> SqlError {
    match why {
        Wrong::Format => SqlError::new("22007", format!("invalid input syntax for type {ty}: \"{text}\"")),
        Wrong::Field => SqlError::new("22008", format!("date/time field value out of range: \"{text}\"")),
        Wrong::Order => SqlError::new("22008", format!("date/time field value out of range: \"{text}\""))
            .with_hint("Perhaps you need a different \"datestyle\" setting."),
        Wrong::Displacement => SqlError::new("22009", format!("time zone displacement out of range: \"{text}\"")),
        Wrong::Zone(name) => SqlError::new("22023", format!("time zone \"{name}\" not recognized")),
    }
}

#[cold]
fn out_of_range(ty: &str, text: &str) -> SqlError {
    SqlError::new("22008", format!("{ty} out of range: \"{text}\""))
}

/// Bytes of a date's or time's fields, with an end for each; a timestamp has more.
const ROOM: usize = 128;
const TIMESTAMP_ROOM: usize = 152;

fn parts(text: &str, ty: &str, room: usize, zone: &Zone) -> Result<Decoded, SqlError> {
    match plain::read(text, matches!(ty, "time" | TIMETZ)) {
        Some(parts) => Ok(parts),
        None => parts_of_fields(text, ty, room, zone),
    }
}

fn parts_of_fields(text: &str, ty: &str, room: usize, zone: &Zone) -> Result<Decoded, SqlError> {
    let local_now = || {
        let now = user_types::transaction_start();
        let local = now + i64::from(zone.offset_at(now)) * SECOND_US;
        (local.div_euclid(DAY_US), local.rem_euclid(DAY_US))
    };
    words::fields(text, room)
        .ok_or(Wrong::Format)
        .and_then(|fields| decode::decode(&fields, matches!(ty, "time" | TIMETZ), local_now))
        .map_err(|why| wrong(why, ty, text))
}

/// Days since 1970 of a date in the range that a Julian day can be counted in.
fn days_of(parts: &Decoded) -> Option<i64> {
    let (month, day) = (u32::try_from(parts.month).ok()?, u32::try_from(parts.day).ok()?);
    if !(-4713..=5_874_898).contains(&parts.year) {
        return None;
    }
    Some(days_from_civil(parts.year, month, day)).filter(|days| *days >= FIRST_DAY)
}

/// Days since 1970; `i32::MAX`/`MIN` for the infinities.
///
/// # Errors
/// 22007, 22008, 22009, 22023 as PostgreSQL has them; so in the functions below.
pub fn parse_date(text: &str, zone: &Zone) -> Result<i32, SqlError> {
    let parts = parts(text, "date", ROOM, zone)?;
    match parts.meant {
        Meant::Late => Ok(i32::MAX),
        Meant::Early => Ok(i32::MIN),
        Meant::Epoch => Ok(0),
        Meant::DateTime => days_of(&parts)
            .filter(|days| *days <= LAST_DATE)
            .map(|days| days as i32)
            .ok_or_else(|| out_of_range("date", text)),
    }
}

/// Days since 1970 of a date that came in binary, as days since 2000; the ends stand for the infinities.
///
/// # Errors
/// 22008
pub fn received_date(days: i32) -> Result<i32, SqlError> {
    let here = days_from_engine(days);
    let is_valid = matches!(days, i32::MAX | i32::MIN) || (FIRST_DAY..=LAST_DATE).contains(&i64::from(here));
    is_valid.then_some(here).ok_or_else(|| SqlError::new("22008", "date out of range"))
}

/// Microseconds since 1970 of a timestamp that came in binary, as microseconds since 2000; the ends stand for the infinities.
///
/// # Errors
/// 22008, 0A000 for one that only PostgreSQL has.
pub fn received_timestamp(us: i64) -> Result<i64, SqlError> {
    if matches!(us, i64::MAX | i64::MIN) {
        return Ok(us);
    }
    let here = i128::from(us) + i128::from(EPOCH_US);
    timestamp_in_range(here, || SqlError::new("22008", "timestamp out of range"))
}

/// Microseconds since midnight.
pub fn parse_time(text: &str) -> Result<i64, SqlError> {
    Ok(parts(text, "time", ROOM, &Zone::Utc)?.time_us())
}

/// A time with its zone; one that names none is of today in `zone`.
pub fn parse_timetz(text: &str, zone: &Zone) -> Result<TimeTz, SqlError> {
    let parts = parts(text, TIMETZ, ROOM, zone)?;
    let us = parts.time_us();
    if let Some(TextZone::Offset(east)) = &parts.zone {
        return Ok(TimeTz { us, west: -east });
    }
    let day = match parts.month {
        0 => {
            let now = user_types::transaction_start();
            (now + i64::from(zone.offset_at(now)) * SECOND_US).div_euclid(DAY_US)
        }
        _ => days_of(&parts).ok_or_else(|| wrong(Wrong::Field, TIMETZ, text))?,
    };
    Ok(match &parts.zone {
        Some(TextZone::Named(named)) => TimeTz::of_day(day, us, named),
        Some(TextZone::Abbreviation(name, named)) => {
            let instant = named.local_to_utc(day.saturating_mul(DAY_US).saturating_add(us));
            TimeTz { us, west: -named.offset_of(name, instant) }
        }
        _ => TimeTz::of_day(day, us, zone),
    })
}

/// Microseconds since 1970 without regard to a zone; a zone in the text is ignored, as
/// PostgreSQL does. 0A000 for a time that only PostgreSQL has.
pub fn parse_timestamp(text: &str, zone: &Zone) -> Result<i64, SqlError> {
    let parts = parts(text, "timestamp", TIMESTAMP_ROOM, zone)?;
    match infinite(parts.meant) {
        Some(us) => Ok(us),
        None => {
            let wrong = || out_of_range("timestamp", text);
            timestamp_in_range(local(&parts).ok_or_else(wrong)?, wrong)
        }
    }
}

/// Microseconds since 1970 UTC; a text without zone is local to `zone`.
pub fn parse_timestamptz(text: &str, zone: &Zone) -> Result<i64, SqlError> {
    let parts = parts(text, "timestamp with time zone", TIMESTAMP_ROOM, zone)?;
    if let Some(us) = infinite(parts.meant) {
        return Ok(us);
    }
    let wrong = || out_of_range("timestamp", text);
    let local = local(&parts).ok_or_else(wrong)?;
    let at = |east: i32| local - i128::from(east) * i128::from(SECOND_US);
    let us = match &parts.zone {
        Some(TextZone::Offset(east)) => at(*east),
        Some(TextZone::Named(named)) => named.wide_local_to_utc(local),
        Some(TextZone::Abbreviation(name, named)) => {
            // What an abbreviation means changes no more that far ahead.
            let instant = named.wide_local_to_utc(local).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            at(named.offset_of(name, instant))
        }
        None => zone.wide_local_to_utc(local),
    };
    timestamp_in_range(us, wrong)
}

fn infinite(meant: Meant) -> Option<i64> {
    match meant {
        Meant::Late => Some(i64::MAX),
        Meant::Early => Some(i64::MIN),
        Meant::Epoch => Some(0),
        Meant::DateTime => None,
    }
}

/// The local time, which need not be one of a timestamp.
fn local(parts: &Decoded) -> Option<i128> {
    Some(i128::from(days_of(parts)?) * i128::from(DAY_US) + i128::from(parts.time_us()))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::encode::{put_date, put_time, put_timestamp, put_timestamptz};

    fn show(put: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        put(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn dates() {
        for (text, shown) in [
            ("2024-02-29", "2024-02-29"),
            ("20240229", "2024-02-29"),
            ("1/8/1999", "1999-01-08"),
            ("January 8, 1999", "1999-01-08"),
            ("8 Jan 1999", "1999-01-08"),
            ("1999-Jan-08", "1999-01-08"),
            ("2024-02-29 12:00:00", "2024-02-29"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("infinity", "infinity"),
            ("epoch", "1970-01-01"),
            ("12345-01-01", "12345-01-01"),
        ] {
            let days = parse_date(text, &Zone::Utc).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(show(|out| put_date(out, days)), shown);
        }
        for (bad, state) in [
            ("2023-02-29", "22008"),
            ("2024-13-01", "22008"),
            ("2024-00-01", "22008"),
            ("abc", "22007"),
            ("", "22007"),
            ("2024-1", "22007"),
            ("99999999-01-01", "22008"),
        ] {
            assert_eq!(parse_date(bad, &Zone::Utc).unwrap_err().sqlstate, state, "{bad}");
        }
    }

    #[test]
    fn times() {
        for (text, shown) in [
            ("04:05", "04:05:00"),
            ("04:05:06.789", "04:05:06.789"),
            ("04:05 PM", "16:05:00"),
            ("12:00am", "00:00:00"),
            ("24:00:00", "24:00:00"),
            ("23:59:60", "24:00:00"),
        ] {
            let us = parse_time(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(show(|out| put_time(out, us)), shown);
        }
        for bad in ["25:00", "12:60", "x", "12", "24:00:01"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn timestamps() {
        for (text, shown) in [
            ("2024-01-02 03:04:05", "2024-01-02 03:04:05"),
            ("2024-01-02T03:04:05.123456Z", "2024-01-02 03:04:05.123456"),
            ("2024-01-02", "2024-01-02 00:00:00"),
            ("2024-01-02 03:04:05+02", "2024-01-02 03:04:05"),
            ("Jan 2 2024 3:04 pm", "2024-01-02 15:04:00"),
            ("20240102T030405", "2024-01-02 03:04:05"),
            ("-infinity", "-infinity"),
        ] {
            let us = parse_timestamp(text, &Zone::Utc).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(show(|out| put_timestamp(out, us)), shown, "{text}");
        }
        let berlin = Zone::parse("Europe/Berlin").expect("zone");
        for (text, shown) in [
            ("2024-01-02 03:04:05+02", "2024-01-02 01:04:05+00"),
            ("2024-01-02 03:04:05", "2024-01-02 02:04:05+00"),
            ("2024-07-02 03:04:05 America/New_York", "2024-07-02 07:04:05+00"),
            ("2024-01-02 03:04:05 UTC", "2024-01-02 03:04:05+00"),
            ("2024-01-02 03:04:05-05:30", "2024-01-02 08:34:05+00"),
        ] {
            let us = parse_timestamptz(text, &berlin).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(show(|out| put_timestamptz(out, us, &Zone::Utc)), shown, "{text}");
        }
        for (bad, state) in [
            ("2024-01-02 25:00", "22008"),
            ("hello", "22007"),
            ("2024-01-02 03:04:05 Nowhere", "22007"),
            ("300000-01-01", "22008"),
            ("294276-12-31 23:59:59", "0A000"),
            ("294247-01-08", "0A000"),
            ("294277-01-01", "22008"),
            ("4714-11-23 23:59:59 BC", "22008"),
        ] {
            assert_eq!(parse_timestamp(bad, &Zone::Utc).unwrap_err().sqlstate, state, "{bad}");
        }
    }
}
