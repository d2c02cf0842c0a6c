//! Intervals from text: PostgreSQL's own form, ISO 8601 durations, and the SQL standard's.

use super::datetime::{bad, fraction_us};
use crate::datetime::{DAY_US, SECOND_US};
use crate::wire::SqlError;

/// An interval: months, days and microseconds, kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

/// An interval: `1 year 2 mons 3 days 04:05:06`, `P1Y2M3DT4H5M6S`, `1-2`, `3 4:05`, `… ago`.
pub fn parse_interval(text: &str) -> Result<Interval, SqlError> {
    let wrong = || bad("interval", text);
    let body = text.trim_ascii().to_ascii_lowercase();
    let body = body.strip_prefix('@').unwrap_or(&body).trim_ascii();
    if body.is_empty() || body.len() > 256 {
        return Err(wrong());
    }
    let mut sum = Sum::default();
    if let Some(iso) = body.strip_prefix('p') {
        iso_interval(iso, &mut sum).ok_or_else(wrong)?;
        return sum.finish(text);
    }
    let mut ago = false;
    let mut pending: Option<f64> = None;
    let mut rest = body;
    let mut any = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (mut word, tail) = rest.split_at(end);
        rest = tail.trim_ascii_start();
        if word == "ago" {
            ago = true;
            continue;
        }
        if word.contains(':') {
            if let Some(days) = pending.take() {
                sum.add(days, "day").ok_or_else(wrong)?;
            }
            sum.us += clock_interval(word).ok_or_else(wrong)? as f64;
            any = true;
            continue;
        }
        if let Some((years, months)) = year_month(word) {
            sum.months += (years * 12 + months) as f64;
            any = true;
            continue;
        }
        // number and unit may stand together: 3days
        let split = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        if split > 0 {
            if pending.is_some() {
                return Err(wrong());
            }
            pending = Some(word[..split].parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(wrong)?);
            word = &word[split..];
        }
        if !word.is_empty() {
            let value = pending.take().ok_or_else(wrong)?;
            sum.add(value, word).ok_or_else(wrong)?;
            any = true;
        }
    }
    if let Some(seconds) = pending {
        sum.us += seconds * SECOND_US as f64;
        any = true;
    }
    if !any {
        return Err(wrong());
    }
    if ago {
        sum = Sum { months: -sum.months, days: -sum.days, us: -sum.us };
    }
    sum.finish(text)
}

/// Interval fields while they are summed; fractions of months are 30 days, of days 24 hours.
#[derive(Default)]
struct Sum {
    months: f64,
    days: f64,
    us: f64,
}

impl Sum {
    fn add(&mut self, value: f64, unit: &str) -> Option<()> {
        let unit = if unit.len() > 2 { unit.strip_suffix('s').unwrap_or(unit) } else { unit };
        match unit {
            "microsecond" | "us" | "usec" | "microsec" => self.us += value,
            "millisecond" | "ms" | "msec" | "millisec" => self.us += value * 1000.0,
            "second" | "sec" | "s" => self.us += value * SECOND_US as f64,
            "minute" | "min" | "m" => self.us += value * 60.0 * SECOND_US as f64,
            "hour" | "hr" | "h" => self.us += value * 3600.0 * SECOND_US as f64,
            "day" | "d" => self.whole_days(value),
            "week" | "w" => self.whole_days(value * 7.0),
            "month" | "mon" => self.whole_months(value),
            "year" | "yr" | "y" => self.months += (value * 12.0).round(),
            "decade" | "dec" => self.months += (value * 120.0).round(),
            "century" | "centurie" | "cent" | "c" => self.months += (value * 1200.0).round(),
            "millennium" | "millennia" | "mil" => self.months += (value * 12_000.0).round(),
            _ => return None,
        }
        Some(())
    }
    fn whole_days(&mut self, value: f64) {
        self.days += value.trunc();
        self.us += value.fract() * DAY_US as f64;
    }
    fn whole_months(&mut self, value: f64) {
        self.months += value.trunc();
        self.whole_days(value.fract() * 30.0);
    }
    fn finish(self, text: &str) -> Result<Interval, SqlError> {
        let fits = |value: f64, limit: f64| value.is_finite() && value.abs() <= limit;
        if !fits(self.months, f64::from(i32::MAX)) || !fits(self.days, f64::from(i32::MAX)) || !fits(self.us, 9.2e18) {
            return Err(SqlError::new("22008", format!("interval field value out of range: \"{text}\"")));
        }
        Ok(Interval { months: self.months as i32, days: self.days as i32, us: self.us.round() as i64 })
    }
}

fn iso_interval(text: &str, sum: &mut Sum) -> Option<()> {
    let mut time = false;
    let mut rest = text;
    let mut any = false;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('t') {
            time = true;
            rest = tail;
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let value: f64 = rest[..end].parse().ok().filter(|v: &f64| v.is_finite())?;
        let unit = match (&rest[end..=end], time) {
            ("y", false) => "year",
            ("m", false) => "month",
            ("w", false) => "week",
            ("d", false) => "day",
            ("h", true) => "hour",
            ("m", true) => "minute",
            ("s", true) => "second",
            _ => return None,
        };
        sum.add(value, unit)?;
        any = true;
        rest = &rest[end + 1..];
    }
    any.then_some(())
}

/// `1-2`: years and months.
fn year_month(word: &str) -> Option<(i64, i64)> {
    let (negative, body) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let (years, months) = body.split_once('-')?;
    let (years, months): (i64, i64) = (years.parse().ok()?, months.parse().ok()?);
    if !(0..12).contains(&months) || !(0..=178_000_000).contains(&years) {
        return None;
    }
    Some(if negative { (-years, -months) } else { (years, months) })
}

/// `[-]hh:mm[:ss[.f]]` with any number of hours.
fn clock_interval(word: &str) -> Option<i64> {
    let (negative, body) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let fields: Vec<i64> = whole.split(':').map(|f| f.parse().ok()).collect::<Option<_>>()?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) || fields.iter().any(|&f| f < 0) {
        return None;
    }
    let seconds = match fields.as_slice() {
        [h, m] if *m < 60 => h.checked_mul(3600)?.checked_add(m * 60)?,
        [h, m, s] if *m < 60 && *s <= 60 => h.checked_mul(3600)?.checked_add(m * 60 + s)?,
        _ => return None,
    };
    let us = seconds.checked_mul(SECOND_US)?.checked_add(fraction_us(fraction))?;
    Some(if negative { -us } else { us })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::encode::put_interval;

    fn show(put: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        put(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn intervals() {
        for (text, shown) in [
            ("1 year 2 mons 3 days 04:05:06.5", "1 year 2 mons 3 days 04:05:06.5"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("1.5 days", "1 day 12:00:00"),
            ("90 minutes", "01:30:00"),
            ("1 day ago", "-1 days"),
            ("-1 days +02:00", "-1 days +02:00:00"),
            ("1-2", "1 year 2 mons"),
            ("3 4:05", "3 days 04:05:00"),
            ("10", "00:00:10"),
            ("2 weeks", "14 days"),
            ("1h 30m", "01:30:00"),
        ] {
            let interval = parse_interval(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(show(|out| put_interval(out, interval.months, interval.days, interval.us)), shown, "{text}");
        }
        for bad in ["", "abc", "1 lightyear", "P", "1 2 days", "1e999 days"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }
}
