//! Intervals from text: PostgreSQL's `DecodeInterval` and `DecodeISO8601Interval`
//! (`src/backend/utils/adt/datetime.c`), with the signs of [`styles`](crate::styles).

use datafusion::arrow::datatypes::IntervalMonthDayNano;

use super::datetime::words::{Field, Kind, fields, fraction, integer, integer32, token};
use super::datetime::{Wrong, clock, wrong};
use crate::datetime::{DAY_US, SECOND_US};
use crate::styles::{self, IntervalStyle};
use crate::wire::SqlError;

/// An interval: months, days and microseconds, kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

/// An interval as Arrow has it.
///
/// # Errors
/// 0A000 for a time of more than 292 years: it is kept in nanoseconds there.
pub fn interval_value(value: Interval) -> Result<IntervalMonthDayNano, SqlError> {
    let nanos = value
        .us
        .checked_mul(1000)
        .ok_or_else(|| SqlError::unsupported("intervals of more than 2562047 hours are not supported"))?;
    Ok(IntervalMonthDayNano::new(value.months, value.days, nanos))
}

/// Which fields an interval type has (`INTERVAL DAY TO SECOND`), and how many digits of seconds.
pub mod range {
    pub const MONTH: i32 = 1 << 1;
    pub const YEAR: i32 = 1 << 2;
    pub const DAY: i32 = 1 << 3;
    pub const HOUR: i32 = 1 << 10;
    pub const MINUTE: i32 = 1 << 11;
    pub const SECOND: i32 = 1 << 12;
    /// Any.
    pub const FULL: i32 = 0x7fff;
}

const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 3600 * SECOND_US;

/// An interval without limits of its fields.
///
/// # Errors
/// As of [`parse_interval_of`].
pub fn parse_interval(text: &str) -> Result<Interval, SqlError> {
    parse_interval_of(text, -1)
}

/// An interval of a type with that modifier (-1: none), cut and rounded to it.
///
/// # Errors
/// 22007 for what is no interval, 22015 for a field that does not fit, 22008 for a sum that does not.
pub fn parse_interval_of(text: &str, typmod: i32) -> Result<Interval, SqlError> {
    let fields_of_type = if typmod < 0 { range::FULL } else { typmod >> 16 & range::FULL };
    let sum = fields(text, 255)
        .ok_or(Wrong::Format)
        .and_then(|fields| by_fields(&fields, fields_of_type))
        .or_else(|why| if why == Wrong::Format { iso(text).ok_or(Wrong::Format)? } else { Err(why) })
        .map_err(|why| match why {
            Wrong::Field => SqlError::new("22015", format!("interval field value out of range: \"{text}\"")),
            why => wrong(why, "interval", text),
        })?;
    let months = i64::from(sum.years) * 12 + i64::from(sum.months);
    let months = i32::try_from(months).map_err(|_| SqlError::new("22008", "interval out of range"))?;
    Ok(cut(Interval { months, days: sum.days, us: sum.us }, typmod))
}

/// An interval as a type with that modifier keeps it (`AdjustIntervalForTypmod`).
pub fn cut(mut value: Interval, typmod: i32) -> Interval {
    if typmod < 0 {
        return value;
    }
    let (kept, precision) = (typmod >> 16 & range::FULL, typmod & 0xffff);
    if kept != range::FULL {
        let time = range::HOUR | range::MINUTE | range::SECOND;
        if kept == range::YEAR {
            value.months = value.months / 12 * 12;
        }
        if kept & (range::DAY | time) == 0 {
            value.days = 0;
        }
        value.us = match kept & time {
            0 => 0,
            kept if kept & range::SECOND != 0 => value.us,
            kept if kept & range::MINUTE != 0 => value.us / MINUTE_US * MINUTE_US,
            _ => value.us / HOUR_US * HOUR_US,
        };
    }
    if (0..6).contains(&precision) {
        let unit = 10i64.pow(6 - precision as u32);
        value.us = value.us.saturating_add(unit / 2 * value.us.signum()) / unit * unit;
    }
    value
}

/// Fields while they are summed.
#[derive(Default)]
struct Sum {
    years: i32,
    months: i32,
    days: i32,
    us: i64,
}

/// A unit; seconds and below by their microseconds, years and above by their years.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Time(i64),
    Day,
    Week,
    Month,
    Years(i32),
    /// A word that is a unit of something else.
    Other,
    Ago,
}

fn unit(word: &str) -> Option<Unit> {
    Some(match token(word) {
        "us" | "usec" | "usecond" | "useconds" | "usecs" | "microsecon" => Unit::Time(1),
        "ms" | "msec" | "msecond" | "mseconds" | "msecs" | "millisecon" => Unit::Time(1000),
        "s" | "sec" | "second" | "seconds" | "secs" => Unit::Time(SECOND_US),
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Time(MINUTE_US),
        "h" | "hour" | "hours" | "hr" | "hrs" => Unit::Time(HOUR_US),
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "year" | "years" | "yr" | "yrs" => Unit::Years(1),
        "dec" | "decade" | "decades" | "decs" => Unit::Years(10),
        "c" | "cent" | "centuries" | "century" => Unit::Years(100),
        "mil" | "millennia" | "millennium" | "mils" => Unit::Years(1000),
        "qtr" | "quarter" | "timezone" | "timezone_h" | "timezone_m" => Unit::Other,
        "ago" => Unit::Ago,
        _ => return None,
    })
}

/// Which kinds of fields there were, as bits: none may come twice.
fn bit(unit: Unit, whole: bool) -> u32 {
    match unit {
        Unit::Time(1) => 1,
        Unit::Time(1000) => 1 << 1,
        Unit::Time(SECOND_US) if whole => 1 << 2,
        Unit::Time(SECOND_US) => 0b111,
        Unit::Time(MINUTE_US) => 1 << 3,
        Unit::Time(_) => 1 << 4,
        Unit::Day => 1 << 5,
        Unit::Week => 1 << 6,
        Unit::Month => 1 << 7,
        Unit::Years(1) => 1 << 8,
        Unit::Years(10) => 1 << 9,
        Unit::Years(100) => 1 << 10,
        Unit::Years(_) => 1 << 11,
        Unit::Other | Unit::Ago => 0,
    }
}
/// Bits of a time with colons.
const CLOCK: u32 = 0b11111;

impl Sum {
    fn add_years(&mut self, value: i64, scale: i32) -> Option<()> {
        let years = i32::try_from(value).ok()?.checked_mul(scale)?;
        self.years = self.years.checked_add(years)?;
        Some(())
    }
    fn add_year_part(&mut self, part: f64, scale: i32) -> Option<()> {
        let months = (part * f64::from(scale) * 12.0).round_ties_even() as i32;
        self.months = self.months.checked_add(months)?;
        Some(())
    }
    fn add_months(&mut self, value: i64) -> Option<()> {
        self.months = self.months.checked_add(i32::try_from(value).ok()?)?;
        Some(())
    }
    fn add_days(&mut self, value: i64, scale: i32) -> Option<()> {
        self.days = self.days.checked_add(i32::try_from(value).ok()?.checked_mul(scale)?)?;
        Some(())
    }
    fn add_day_part(&mut self, part: f64, scale: i32) -> Option<()> {
        let part = part * f64::from(scale);
        let whole = part as i32;
        self.days = self.days.checked_add(whole)?;
        self.add_time_part(part - f64::from(whole), DAY_US)
    }
    fn add_time(&mut self, value: i64, unit: i64) -> Option<()> {
        self.us = self.us.checked_add(value.checked_mul(unit)?)?;
        Some(())
    }
    fn add_time_part(&mut self, part: f64, unit: i64) -> Option<()> {
        if part == 0.0 {
            return Some(());
        }
        let us = part * unit as f64;
        let mut whole = us as i64;
        let rest = us - whole as f64;
        if rest > 0.5 {
            whole += 1;
        } else if rest < -0.5 {
            whole -= 1;
        }
        self.us = self.us.checked_add(whole)?;
        Some(())
    }

    /// A whole number and a fraction of a unit.
    fn add(&mut self, value: i64, part: f64, unit: Unit) -> Result<(), Wrong> {
        match unit {
            Unit::Time(us) => self.add_time(value, us).and_then(|()| self.add_time_part(part, us)),
            Unit::Day => self.add_days(value, 1).and_then(|()| self.add_time_part(part, DAY_US)),
            Unit::Week => self.add_days(value, 7).and_then(|()| self.add_day_part(part, 7)),
            Unit::Month => self.add_months(value).and_then(|()| self.add_day_part(part, 30)),
            Unit::Years(scale) => self.add_years(value, scale).and_then(|()| self.add_year_part(part, scale)),
            Unit::Other | Unit::Ago => return Err(Wrong::Format),
        }
        .ok_or(Wrong::Field)
    }

    fn set_clock(&mut self, text: &str, kept: i32) -> Result<(), Wrong> {
        let clock = clock(text, kept == range::MINUTE | range::SECOND)?;
        self.us = clock.micros;
        self.add_time(clock.hour, HOUR_US)
            .and_then(|()| self.add_time(clock.minute, MINUTE_US))
            .and_then(|()| self.add_time(clock.second, SECOND_US))
            .ok_or(Wrong::Field)
    }
}

/// What a number without a unit is, by the fields of the type.
fn last_unit(kept: i32) -> Unit {
    if kept == range::FULL || kept & range::SECOND != 0 {
        Unit::Time(SECOND_US)
    } else if kept & range::MINUTE != 0 {
        Unit::Time(MINUTE_US)
    } else if kept & range::HOUR != 0 {
        Unit::Time(HOUR_US)
    } else if kept & range::DAY != 0 {
        Unit::Day
    } else if kept & range::MONTH != 0 {
        Unit::Month
    } else {
        Unit::Years(1)
    }
}

/// Backwards, as units come behind their numbers.
fn by_fields(fields: &[Field], kept: i32) -> Result<Sum, Wrong> {
    let mut sum = Sum::default();
    let mut pending: Option<Unit> = None;
    let (mut ago, mut mask) = (false, 0);
    let signed = |field: &Field| field.text.starts_with(['-', '+']);
    // In the standard's style a sign before the first field is that of all, if no other has one.
    let all_negative = styles::current().intervals == IntervalStyle::SqlStandard
        && fields.first().is_some_and(|field| field.text.starts_with('-'))
        && !fields.iter().skip(1).any(signed);
    for field in fields.iter().rev() {
        let text = field.text.as_str();
        let found = match field.kind {
            Kind::Time => {
                sum.set_clock(text, kept)?;
                if all_negative && sum.us > 0 {
                    sum.us = -sum.us;
                }
                pending = Some(Unit::Day);
                CLOCK
            }
            Kind::Signed if text[1..].contains(':') && sum.set_clock(&text[1..], kept).is_ok() => {
                if text.starts_with('-') {
                    sum.us = sum.us.checked_neg().ok_or(Wrong::Field)?;
                }
                pending = Some(Unit::Day);
                CLOCK
            }
            Kind::Signed | Kind::Date | Kind::Number => {
                let mut unit = *pending.get_or_insert_with(|| last_unit(kept));
                let negative = text.starts_with('-');
                let (value, rest) = integer(text);
                let mut value = value.ok_or(Wrong::Field)?;
                let mut part = 0.0;
                if let Some(rest) = rest.strip_prefix('-') {
                    // Years and months.
                    let (months, rest) = integer32(rest);
                    let months = months.filter(|months| (0..12).contains(months)).ok_or(Wrong::Field)?;
                    if !rest.is_empty() {
                        return Err(Wrong::Format);
                    }
                    unit = Unit::Month;
                    let months = if negative { -months } else { months };
                    value = value.checked_mul(12).and_then(|value| value.checked_add(months)).ok_or(Wrong::Field)?;
                } else if rest.starts_with('.') {
                    part = fraction(rest).ok_or(Wrong::Format)?;
                    if negative {
                        part = -part;
                    }
                } else if !rest.is_empty() {
                    return Err(Wrong::Format);
                }
                if all_negative {
                    (value, part) = (if value > 0 { -value } else { value }, -part.abs());
                }
                sum.add(value, part, unit)?;
                // What stands before hours are days.
                pending = Some(if unit == Unit::Time(HOUR_US) { Unit::Day } else { unit });
                bit(unit, part == 0.0)
            }
            Kind::Text | Kind::Special => match unit(text).ok_or(Wrong::Format)? {
                Unit::Ago => {
                    ago = true;
                    // A number just before it has no unit.
                    pending = Some(Unit::Ago);
                    0
                }
                unit => {
                    pending = Some(unit);
                    0
                }
            },
        };
        if found & mask != 0 {
            return Err(Wrong::Format);
        }
        mask |= found;
    }
    if mask == 0 {
        return Err(Wrong::Format);
    }
    if ago {
        let negated = || {
            Some(Sum {
                years: sum.years.checked_neg()?,
                months: sum.months.checked_neg()?,
                days: sum.days.checked_neg()?,
                us: sum.us.checked_neg()?,
            })
        };
        sum = negated().ok_or(Wrong::Field)?;
    }
    Ok(sum)
}

/// The number that an ISO 8601 duration goes on with: whole part, fraction, the rest, and how many digits the whole
/// part is written with.
fn iso_number(text: &str) -> Result<(i64, f64, &str, usize), Wrong> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
        return Err(Wrong::Format);
    }
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = usize::from(bytes[0] == b'-');
    let width = digits(sign);
    let mut end = sign + width;
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + signed).min(bytes.len()));
        if exponent > 0 {
            end += 1 + signed + exponent;
        }
    }
    let value: f64 = text[..end].parse().map_err(|_| Wrong::Format)?;
    if !value.is_finite() {
        return Err(Wrong::Format);
    }
    if value.abs() > 1e15 {
        return Err(Wrong::Field);
    }
    Ok((value.trunc() as i64, value - value.trunc(), &text[end..], width))
}

/// `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`, `P00010203T040506`; `None` for what does not begin so.
fn iso(text: &str) -> Option<Result<Sum, Wrong>> {
    let body = text.strip_prefix('P').filter(|body| !body.is_empty())?;
    Some(iso_body(body))
}

fn iso_body(body: &str) -> Result<Sum, Wrong> {
    let mut sum = Sum::default();
    let mut rest = body;
    let (mut date, mut some) = (true, false);
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('T') {
            (date, some, rest) = (false, false, behind);
            continue;
        }
        let (value, part, behind, width) = iso_number(rest)?;
        let unit = behind.bytes().next();
        rest = behind.get(1..).unwrap_or("");
        match (date, unit) {
            (true, Some(b'Y')) => sum.add(value, part, Unit::Years(1))?,
            (true, Some(b'M')) => sum.add(value, part, Unit::Month)?,
            (true, Some(b'W')) => sum.add(value, part, Unit::Week)?,
            (true, Some(b'D')) => sum.add(value, part, Unit::Day)?,
            (true, None | Some(b'T')) if width == 8 && !some => {
                sum.add(value / 10_000, 0.0, Unit::Years(1))?;
                sum.add(value / 100 % 100, 0.0, Unit::Month)?;
                sum.add(value % 100, part, Unit::Day)?;
                if unit.is_none() {
                    return Ok(sum);
                }
                (date, some) = (false, false);
                continue;
            }
            (true, None | Some(b'T' | b'-')) => {
                if some {
                    return Err(Wrong::Format);
                }
                sum.add(value, part, Unit::Years(1))?;
                let mut at_end = unit;
                for unit in [Unit::Month, Unit::Day] {
                    if at_end != Some(b'-') {
                        break;
                    }
                    let (value, part, behind, _) = iso_number(rest)?;
                    sum.add(value, part, unit)?;
                    at_end = behind.bytes().next();
                    rest = behind.get(1..).unwrap_or("");
                }
                match at_end {
                    None => return Ok(sum),
                    Some(b'T') => (date, some) = (false, false),
                    Some(_) => return Err(Wrong::Format),
                }
                continue;
            }
            (false, Some(b'H')) => sum.add(value, part, Unit::Time(HOUR_US))?,
            (false, Some(b'M')) => sum.add(value, part, Unit::Time(MINUTE_US))?,
            (false, Some(b'S')) => sum.add(value, part, Unit::Time(SECOND_US))?,
            (false, None) if width == 6 && !some => {
                sum.add(value / 10_000, 0.0, Unit::Time(HOUR_US))?;
                sum.add(value / 100 % 100, 0.0, Unit::Time(MINUTE_US))?;
                sum.add(value % 100, 0.0, Unit::Time(SECOND_US))?;
                sum.add_time_part(part, 1).ok_or(Wrong::Field)?;
                return Ok(sum);
            }
            (false, None | Some(b':')) => {
                if some {
                    return Err(Wrong::Format);
                }
                sum.add(value, part, Unit::Time(HOUR_US))?;
                let mut at_end = unit;
                for unit in [MINUTE_US, SECOND_US] {
                    if at_end != Some(b':') {
                        break;
                    }
                    let (value, part, behind, _) = iso_number(rest)?;
                    sum.add(value, part, Unit::Time(unit))?;
                    at_end = behind.bytes().next();
                    rest = behind.get(1..).unwrap_or("");
                }
                return if at_end.is_none() { Ok(sum) } else { Err(Wrong::Format) };
            }
            _ => return Err(Wrong::Format),
        }
        some = true;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::encode::put_interval;

    fn show(text: &str, typmod: i32) -> Result<String, String> {
        let value = parse_interval_of(text, typmod).map_err(|error| error.into_fields().sqlstate)?;
        let mut out = BytesMut::new();
        put_interval(&mut out, value.months, value.days, value.us);
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn intervals() {
        for (text, shown) in [
            ("1 year 2 mons 3 days 04:05:06.5", "1 year 2 mons 3 days 04:05:06.5"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("P0002-06-07T01:30:00", "2 years 6 mons 7 days 01:30:00"),
            ("P00021015T103020", "2 years 10 mons 15 days 10:30:20"),
            ("P1.5D", "1 day 12:00:00"),
            ("1.5 days", "1 day 12:00:00"),
            ("90 minutes", "01:30:00"),
            ("1 day ago", "-1 days"),
            ("-1 days +02:00", "-1 days +02:00:00"),
            ("1-2", "1 year 2 mons"),
            ("3 4:05", "3 days 04:05:00"),
            ("10", "00:00:10"),
            ("2 weeks", "14 days"),
            ("1h 30m", "01:30:00"),
            ("@ 14 seconds ago", "-00:00:14"),
            ("1.2 years", "1 year 2 mons"),
            ("1.5 months", "1 mon 15 days"),
            ("-1.5 weeks", "-10 days -12:00:00"),
            (
                "100000000y 10mon -1000000000d -100000h -10min -10.000001s ago",
                "-100000000 years -10 mons +1000000000 days 100000:10:10.000001",
            ),
        ] {
            assert_eq!(show(text, -1).as_deref(), Ok(shown), "{text}");
        }
        for (bad, state) in [
            ("", "22007"),
            ("abc", "22007"),
            ("1 lightyear", "22007"),
            ("P", "22007"),
            ("1 day 1 day", "22007"),
            ("1:20:05 5 microseconds", "22007"),
            ("123 2:03 -2:04", "22007"),
            ("1e999 days", "22007"),
            ("2147483648 days", "22015"),
            ("P1W2147483647D", "22015"),
            ("2147483647 years", "22008"),
        ] {
            assert_eq!(show(bad, -1), Err(state.to_owned()), "{bad}");
        }
    }

    #[test]
    fn limited_fields() {
        let of = |fields: i32, precision: i32| fields << 16 | precision;
        for (text, typmod, shown) in [
            ("1 day 01:23:45.6789", of(range::FULL, 0), "1 day 01:23:46"),
            ("-01:23:45.6789", of(range::FULL, 2), "-01:23:45.68"),
            ("1 2:03", of(range::MINUTE | range::SECOND, 0xffff), "1 day 00:02:03"),
            ("1 2:03:04", of(range::DAY | range::HOUR, 0xffff), "1 day 02:00:00"),
            ("1-2", of(range::YEAR, 0xffff), "1 year"),
            ("5", of(range::MONTH, 0xffff), "5 mons"),
            ("1.5", of(range::HOUR, 0xffff), "01:00:00"),
        ] {
            assert_eq!(show(text, typmod).as_deref(), Ok(shown), "{text}");
        }
    }
}
