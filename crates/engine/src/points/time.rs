//! Points as people write them: `latest`, a log position, a time.

use resurgam_base::{Error, ErrorKind, Lsn, Result};

use super::RestorePoint;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;

impl RestorePoint {
    /// `latest`, an LSN (decimal, or two hexadecimal halves with `/` between them) or a time: `YYYY-MM-DD` and `HH:MM[:SS[.F]]`
    /// with a `T` or a blank between them, then `Z`, `+HH[:MM]`, `-HH[:MM]` or nothing for UTC.
    ///
    /// # Errors
    /// `InvalidParameter`.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("latest") {
            return Ok(Self::Latest);
        }
        if let Ok(lsn) = text.parse::<u64>() {
            return Ok(Self::Lsn(Lsn(lsn)));
        }
        let halves = text.split_once('/').and_then(|(high, low)| {
            let half = |part: &str| u32::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+'));
            Some(Lsn(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
        });
        if let Some(lsn) = halves {
            return Ok(Self::Lsn(lsn));
        }
        parse_time(text).map(Self::Time).ok_or_else(|| {
            Error::new(ErrorKind::InvalidParameter, format!("\"{text}\" is no point in time")).with_hint(
                "Say \"latest\", a log position (decimal, or X/Y), or a time as 2026-11-23T02:10:00.5Z or 2026-11-23 03:10+01.",
            )
        })
    }
}

/// Microseconds since 2000-01-01 UTC.
fn parse_time(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let digits = |part: &str, len: usize| -> Option<i64> {
        (part.len() == len && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse().ok()).flatten()
    };
    let mut parts = date.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return None;
    }
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = (rest.get(..zone_at)?.trim_end(), rest.get(zone_at..)?);
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let (second, fraction) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            let known = !fraction.is_empty() && fraction.len() <= 6 && fraction.bytes().all(|b| b.is_ascii_digit());
            let micros = known.then(|| format!("{fraction:0<6}").parse::<i64>().ok()).flatten()?;
            (digits(whole, 2)?, micros)
        }
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset = match zone.split_at_checked(1) {
        None | Some(("Z" | "z", "")) => 0,
        Some((sign @ ("+" | "-"), at)) => {
            let (hours, minutes) = match at.len() {
                2 => (digits(at, 2)?, 0),
                4 => (digits(at.get(..2)?, 2)?, digits(at.get(2..)?, 2)?),
                _ => at.split_once(':').and_then(|(h, m)| Some((digits(h, 2)?, digits(m, 2)?)))?,
            };
            if hours > 15 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if sign == "+" { 1 } else { -1 }
        }
        Some(_) => return None,
    };
    let days = days_from_civil(year, month, day) - EPOCH_DAYS;
    Some(days * DAY + (hour * 3600 + minute * 60 + second - offset) * SECOND + fraction)
}

/// A time in microseconds since 2000-01-01, in UTC.
pub(crate) fn show_time(us: i64) -> String {
    let (days, of_day) = (us.div_euclid(DAY), us.rem_euclid(DAY));
    let (year, month, day) = civil_from_days(days + EPOCH_DAYS);
    let (seconds, micros) = (of_day / SECOND, of_day % SECOND);
    let clock = format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{clock}Z")
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next_year, next, 1) - days_from_civil(year, month, 1)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. (Howard Hinnant, "chrono-compatible low-level date algorithms".)
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (years + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points() -> Result<()> {
        let time = |text: &str| match RestorePoint::parse(text) {
            Ok(RestorePoint::Time(us)) => Some(us),
            _ => None,
        };
        assert_eq!(RestorePoint::parse("latest")?, RestorePoint::Latest);
        assert_eq!(RestorePoint::parse("16777264")?, RestorePoint::Lsn(Lsn(16_777_264)));
        assert_eq!(RestorePoint::parse("1/A0")?, RestorePoint::Lsn(Lsn((1 << 32) + 160)));
        assert_eq!(time("2000-01-01T00:00:00Z"), Some(0));
        assert_eq!(time("2000-01-01 00:00"), Some(0));
        assert_eq!(time("2000-01-01 01:30:00.25+01:30"), Some(250_000));
        assert_eq!(time("1999-12-31T23:00:00-0100"), Some(0));
        assert_eq!(time("2000-03-01 00:00:00+00"), Some(60 * DAY));
        let at = time("2026-11-23T02:10:00.5Z").unwrap_or(0);
        assert_eq!(show_time(at), "2026-11-23T02:10:00.500000Z");
        for day in (-800_000..800_000).step_by(97) {
            let (y, m, d) = civil_from_days(day);
            assert_eq!(days_from_civil(y, m, d), day);
        }
        for bad in [
            "",
            "now",
            "2026-11-23",
            "2026-13-01 00:00",
            "2026-02-29 00:00",
            "2026-11-23 24:00",
            "2026-11-23 02:10:00.",
            "2026-11-23 02:10:00 CET",
            "2026-11-23 02:10:00+1",
            "2026-11-23 02:10:00.1234567",
            "-5",
            "1/2/3",
            "1/+2",
            "x/1",
        ] {
            assert!(RestorePoint::parse(bad).is_err(), "{bad}");
        }
        Ok(())
    }
}
