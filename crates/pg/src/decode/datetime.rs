//! Dates, times and timestamps from text.
//!
//! Read: ISO 8601 and what PostgreSQL prints, `Month D, YYYY`, `M/D/YYYY`,
//! `YYYYMMDD`, am/pm, zone offsets and names, BC, and the words `now`, `today`,
//! `tomorrow`, `yesterday`, `epoch`, `infinity`. Results count from 1970 (Arrow's
//! epoch); the caller moves them to the engine's.

use crate::pg::datetime::{DAY_US, SECOND_US, Zone, clock_us, days_from_civil, month_days};
use crate::wire::SqlError;

/// Earliest and latest day PostgreSQL keeps in a timestamp: 4713 BC, 294276.
const YEAR_MIN: i64 = -4713;
const TIMESTAMP_YEAR_MAX: i64 = 294_276;
const DATE_YEAR_MAX: i64 = 5_874_897;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

#[cold]
pub(super) fn bad(ty: &str, text: &str) -> SqlError {
    SqlError::new("22007", format!("invalid input syntax for type {ty}: \"{text}\""))
}

#[cold]
fn out_of_range(text: &str) -> SqlError {
    SqlError::new("22008", format!("date/time field value out of range: \"{text}\""))
}

/// What was found in a text.
#[derive(Default)]
struct Parts {
    date: Option<(i64, u32, u32)>,
    /// Microseconds since midnight, up to and including 24:00:00.
    time: Option<i64>,
    zone: Option<ZonePart>,
    special: Option<Special>,
}

#[derive(Clone, Copy)]
enum ZonePart {
    Offset(i32),
    Named(Zone),
}

#[derive(Clone, Copy, PartialEq)]
enum Special {
    Infinity,
    MinusInfinity,
    Epoch,
    Now,
    Day(i64),
}

/// Days since 1970; `i32::MAX`/`MIN` for the infinities.
pub fn parse_date(text: &str, zone: &Zone) -> Result<i32, SqlError> {
    let parts = parts(text, "date")?;
    match parts.special {
        Some(Special::Infinity) => return Ok(i32::MAX),
        Some(Special::MinusInfinity) => return Ok(i32::MIN),
        Some(Special::Epoch) => return Ok(0),
        Some(Special::Now) => return Ok(today(zone) as i32),
        Some(Special::Day(offset)) => return Ok((today(zone) + offset) as i32),
        None => {}
    }
    let (year, month, day) = parts.date.ok_or_else(|| bad("date", text))?;
    if !(YEAR_MIN..=DATE_YEAR_MAX).contains(&year) {
        return Err(SqlError::new("22008", format!("date out of range: \"{text}\"")));
    }
    Ok(days_from_civil(year, month, day) as i32)
}

/// Microseconds since midnight.
pub fn parse_time(text: &str) -> Result<i64, SqlError> {
    let parts = parts(text, "time")?;
    match (parts.time, parts.special) {
        (Some(us), None) => Ok(us),
        (None, Some(Special::Now)) => Ok(clock_us().rem_euclid(DAY_US)),
        _ => Err(bad("time", text)),
    }
}

/// Microseconds since 1970 without regard to a zone; a zone in the text is ignored, as
/// PostgreSQL does.
pub fn parse_timestamp(text: &str, zone: &Zone) -> Result<i64, SqlError> {
    let parts = parts(text, "timestamp")?;
    if let Some(special) = parts.special {
        let now = clock_us();
        let local = now + i64::from(zone.offset_at(now)) * SECOND_US;
        return Ok(match special {
            Special::Infinity => i64::MAX,
            Special::MinusInfinity => i64::MIN,
            Special::Epoch => 0,
            Special::Now => local,
            Special::Day(offset) => (today(zone) + offset) * DAY_US + parts.time.unwrap_or(0),
        });
    }
    local(&parts, text, "timestamp")
}

/// Microseconds since 1970 UTC; a text without zone is local to `zone`.
pub fn parse_timestamptz(text: &str, zone: &Zone) -> Result<i64, SqlError> {
    let parts = parts(text, "timestamp with time zone")?;
    match parts.special {
        Some(Special::Infinity) => return Ok(i64::MAX),
        Some(Special::MinusInfinity) => return Ok(i64::MIN),
        Some(Special::Epoch) => return Ok(0),
        Some(Special::Now) => return Ok(clock_us()),
        Some(Special::Day(offset)) => {
            return Ok(zone.local_to_utc((today(zone) + offset) * DAY_US + parts.time.unwrap_or(0)));
        }
        None => {}
    }
    let local = local(&parts, text, "timestamp with time zone")?;
    Ok(match parts.zone {
        Some(ZonePart::Offset(seconds)) => local - i64::from(seconds) * SECOND_US,
        Some(ZonePart::Named(named)) => named.local_to_utc(local),
        None => zone.local_to_utc(local),
    })
}

fn local(parts: &Parts, text: &str, ty: &str) -> Result<i64, SqlError> {
    let (year, month, day) = parts.date.ok_or_else(|| bad(ty, text))?;
    if !(YEAR_MIN..=TIMESTAMP_YEAR_MAX).contains(&year) {
        return Err(SqlError::new("22008", format!("timestamp out of range: \"{text}\"")));
    }
    Ok(days_from_civil(year, month, day) * DAY_US + parts.time.unwrap_or(0))
}

fn today(zone: &Zone) -> i64 {
    let now = clock_us();
    (now + i64::from(zone.offset_at(now)) * SECOND_US).div_euclid(DAY_US)
}

fn parts(text: &str, ty: &str) -> Result<Parts, SqlError> {
    let body = text.trim_ascii();
    if body.is_empty() || body.len() > 128 {
        return Err(bad(ty, text));
    }
    let mut out = Parts::default();
    let mut before_christ = false;
    let mut numbers: Vec<(i64, usize)> = Vec::new();
    let mut month_name: Option<u32> = None;
    // split at spaces, at the T between date and time, and at commas
    for word in body.split(|c: char| c.is_ascii_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "infinity" | "+infinity" => out.special = Some(Special::Infinity),
            "-infinity" => out.special = Some(Special::MinusInfinity),
            "epoch" => out.special = Some(Special::Epoch),
            "now" => out.special = Some(Special::Now),
            "today" => out.special = Some(Special::Day(0)),
            "tomorrow" => out.special = Some(Special::Day(1)),
            "yesterday" => out.special = Some(Special::Day(-1)),
            "allballs" => {
                out.time = Some(0);
                out.zone = Some(ZonePart::Offset(0));
            }
            "bc" => before_christ = true,
            "ad" => {}
            "am" | "pm" => {
                let us = out.time.ok_or_else(|| bad(ty, text))?;
                let hour = us / (3600 * SECOND_US);
                if !(1..=12).contains(&hour) {
                    return Err(out_of_range(text));
                }
                let base = us - hour * 3600 * SECOND_US;
                let hour = hour % 12 + if lower == "pm" { 12 } else { 0 };
                out.time = Some(base + hour * 3600 * SECOND_US);
            }
            "z" | "utc" | "gmt" | "zulu" => out.zone = Some(ZonePart::Offset(0)),
            _ if lower.starts_with(|c: char| c.is_ascii_digit()) => {
                let (date, time) = match lower.split_once('t') {
                    Some((date, time)) => (Some(date), Some(time)),
                    None if lower.contains(':') => match split_date_time(&lower) {
                        Some((date, time)) => (Some(date), Some(time)),
                        None => (None, Some(lower.as_str())),
                    },
                    None => (Some(lower.as_str()), None),
                };
                if let Some(date) = date {
                    if date.contains(['-', '/', '.']) && out.date.is_none() {
                        out.date = Some(date_fields(date, text, ty)?);
                    } else if date.bytes().all(|b| b.is_ascii_digit()) {
                        if date.len() == 8 && out.date.is_none() && month_name.is_none() {
                            out.date =
                                Some(checked_date(number(&date[..4]), number(&date[4..6]), number(&date[6..]), text)?);
                        } else if date.len() == 6 && out.date.is_some() && out.time.is_none() {
                            out.time =
                                Some(clock(number(&date[..2]), number(&date[2..4]), number(&date[4..]), 0, text)?);
                        } else if date.len() <= 9 {
                            numbers.push((number(date), date.len()));
                        } else {
                            return Err(bad(ty, text));
                        }
                    } else {
                        return Err(bad(ty, text));
                    }
                }
                if let Some(time) = time {
                    if out.time.is_some() {
                        return Err(bad(ty, text));
                    }
                    let (us, zone) = time_fields(time, text, ty)?;
                    out.time = Some(us);
                    if zone.is_some() {
                        out.zone = zone;
                    }
                }
            }
            _ if lower.starts_with(['+', '-']) && out.time.is_some() => {
                out.zone = Some(ZonePart::Offset(offset(&lower).ok_or_else(|| bad(ty, text))?));
            }
            _ if lower.len() >= 3 && MONTHS.iter().any(|m| m.starts_with(&lower)) => {
                month_name = MONTHS.iter().position(|m| m.starts_with(&lower)).map(|at| at as u32 + 1);
            }
            _ if lower.len() >= 3 && DAYS.iter().any(|d| d.starts_with(&lower)) => {}
            _ => match Zone::parse(word) {
                Some(zone) if out.time.is_some() || out.date.is_some() => out.zone = Some(ZonePart::Named(zone)),
                _ => return Err(bad(ty, text)),
            },
        }
    }
    if let Some(month) = month_name {
        if out.date.is_some() || numbers.len() != 2 {
            return Err(bad(ty, text));
        }
        let (first, second) = (numbers[0], numbers[1]);
        let (year, day) = if first.1 > 2 { (first.0, second.0) } else { (second.0, first.0) };
        out.date = Some(checked_date(year, i64::from(month), day, text)?);
    } else if !numbers.is_empty() {
        return Err(bad(ty, text));
    }
    if before_christ {
        let (year, month, day) = out.date.ok_or_else(|| bad(ty, text))?;
        if year <= 0 {
            return Err(out_of_range(text));
        }
        let year = 1 - year;
        if day > month_days(year, month) {
            return Err(out_of_range(text));
        }
        out.date = Some((year, month, day));
    }
    Ok(out)
}

/// `2024-01-02 03:04` written without the space is not a thing; but `2024-01-02T…` handled
/// above and `20240102T…` too, so a colon means a time, unless a date comes first by `-`.
fn split_date_time(word: &str) -> Option<(&str, &str)> {
    let colon = word.find(':')?;
    let date_end = word[..colon].rfind(['-', '/'])?;
    // a zone offset's minus stands after the first colon, so this one is the date's: but then
    // there is no separator between date and time, which is an error anyway
    Some((&word[..date_end], &word[date_end..]))
}

fn number(digits: &str) -> i64 {
    digits.parse().unwrap_or(i64::MAX)
}

/// `2024-01-02`, `2024-Jan-02`, `1/2/2024`, `2024/1/2`, `2024.002` (not read).
fn date_fields(word: &str, text: &str, ty: &str) -> Result<(i64, u32, u32), SqlError> {
    let mut fields = word.split(['-', '/', '.']);
    let (Some(a), Some(b), Some(c), None) = (fields.next(), fields.next(), fields.next(), fields.next()) else {
        return Err(bad(ty, text));
    };
    let digits = |field: &str| !field.is_empty() && field.len() <= 9 && field.bytes().all(|d| d.is_ascii_digit());
    if !digits(a) || !digits(c) {
        return Err(bad(ty, text));
    }
    if !digits(b) {
        let month = MONTHS.iter().position(|m| b.len() >= 3 && m.starts_with(b)).ok_or_else(|| bad(ty, text))?;
        let (year, day) = if a.len() > 2 { (a, c) } else { (c, a) };
        return checked_date(number(year), month as i64 + 1, number(day), text);
    }
    if a.len() > 2 {
        checked_date(number(a), number(b), number(c), text)
    } else {
        // DateStyle MDY
        let year = number(c);
        let year = match (c.len(), year) {
            (1 | 2, 0..=69) => year + 2000,
            (1 | 2, _) => year + 1900,
            _ => year,
        };
        checked_date(year, number(a), number(b), text)
    }
}

fn checked_date(year: i64, month: i64, day: i64, text: &str) -> Result<(i64, u32, u32), SqlError> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year == 0 {
        return Err(out_of_range(text));
    }
    let (month, day) = (month as u32, day as u32);
    if day > month_days(year, month) && !(month == 2 && day == 29) || day > 31 {
        return Err(out_of_range(text));
    }
    if month == 2 && day == 29 && month_days(year, 2) < 29 && !text.to_ascii_uppercase().contains("BC") {
        return Err(out_of_range(text));
    }
    Ok((year, month, day))
}

/// `03:04`, `03:04:05.678`, with a zone directly behind, am/pm too.
fn time_fields(word: &str, text: &str, ty: &str) -> Result<(i64, Option<ZonePart>), SqlError> {
    let end = word.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(word.len());
    let (clock_text, rest) = word.split_at(end);
    let (whole, fraction) = match clock_text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (clock_text, ""),
    };
    let fields: Vec<&str> = whole.split(':').collect();
    if fields.iter().any(|f| f.is_empty() || f.len() > 2) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        // hhmmss behind a T
        if fields.len() == 1 && fields[0].len() == 6 {
            let all = fields[0];
            let us = clock(number(&all[..2]), number(&all[2..4]), number(&all[4..]), fraction_us(fraction), text)?;
            return Ok((us, zone_suffix(rest, text, ty)?));
        }
        return Err(bad(ty, text));
    }
    let us = match fields.as_slice() {
        [h, m] if fraction.is_empty() => clock(number(h), number(m), 0, 0, text)?,
        [h, m, s] => clock(number(h), number(m), number(s), fraction_us(fraction), text)?,
        _ => return Err(bad(ty, text)),
    };
    match rest {
        "am" | "pm" => {
            let hour = us / (3600 * SECOND_US);
            if !(1..=12).contains(&hour) {
                return Err(out_of_range(text));
            }
            let base = us - hour * 3600 * SECOND_US;
            Ok((base + (hour % 12 + if rest == "pm" { 12 } else { 0 }) * 3600 * SECOND_US, None))
        }
        _ => Ok((us, zone_suffix(rest, text, ty)?)),
    }
}

fn zone_suffix(rest: &str, text: &str, ty: &str) -> Result<Option<ZonePart>, SqlError> {
    match rest {
        "" => Ok(None),
        "z" | "utc" | "gmt" => Ok(Some(ZonePart::Offset(0))),
        _ if rest.starts_with(['+', '-']) => Ok(Some(ZonePart::Offset(offset(rest).ok_or_else(|| bad(ty, text))?))),
        _ => match Zone::parse(rest) {
            Some(zone) => Ok(Some(ZonePart::Named(zone))),
            None => Err(bad(ty, text)),
        },
    }
}

/// `+02`, `-0530`, `+05:30`, `+05:30:15` as seconds east.
fn offset(text: &str) -> Option<i32> {
    let (sign, body) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let mut fields = body.split(':');
    let first = fields.next()?;
    if first.is_empty() || !first.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (hours, mut minutes) = match first.len() {
        1 | 2 => (first.parse::<i32>().ok()?, 0),
        3 => (first[..1].parse().ok()?, first[1..].parse().ok()?),
        4 => (first[..2].parse().ok()?, first[2..].parse().ok()?),
        _ => return None,
    };
    if let Some(second) = fields.next() {
        minutes = second.parse().ok().filter(|m| (0..60).contains(m))?;
    }
    let seconds = match fields.next() {
        Some(third) => third.parse().ok().filter(|s| (0..60).contains(s))?,
        None => 0,
    };
    if hours > 15 || minutes > 59 || fields.next().is_some() {
        return None;
    }
    Some(sign * (hours * 3600 + minutes * 60 + seconds))
}

pub(super) fn fraction_us(digits: &str) -> i64 {
    let mut us = 0i64;
    for at in 0..6 {
        us = us * 10 + digits.as_bytes().get(at).map_or(0, |d| i64::from(d - b'0'));
    }
    us + i64::from(digits.as_bytes().get(6).is_some_and(|&d| d >= b'5'))
}

fn clock(hour: i64, minute: i64, second: i64, us: i64, text: &str) -> Result<i64, SqlError> {
    let total = (hour * 3600 + minute * 60 + second) * SECOND_US + us;
    // second 60 is read as the next minute
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) || total > DAY_US {
        return Err(out_of_range(text));
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::pg::encode::{put_date, put_time, put_timestamp, put_timestamptz};

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
        ] {
            assert_eq!(parse_timestamp(bad, &Zone::Utc).unwrap_err().sqlstate, state, "{bad}");
        }
    }
}
