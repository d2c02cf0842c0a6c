//! Arithmetic of dates, times and intervals, by PostgreSQL's algorithms (`timestamp.c`, `date.c`).
//!
//! Functions have PostgreSQL's names (`pg_proc`); [`time_operator`] says which one an operator is.
//! Times count from 1970 here, from 2000 there; only rounding tells the difference.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};

use super::define::{Call, P, PgFunction, f, oid};
use crate::context::PgContext;
use crate::datetime::{
    DAY_US, SECOND_US, Zone, civil_from_days, clock_us, days_from_civil, month_days, timestamp_in_range,
};
use crate::decode::{Interval, interval_value};
use crate::types::{UTC, oid as t};
use crate::wire::SqlError;

/// The first day that there is, since 1970.
const FIRST_DAY: i64 = -2_440_588;
/// The last day of a date.
const LAST_DATE: i64 = 2_145_042_905;

/// The function of an operator between these types, and whether it takes the operands in turn.
pub fn time_operator(left: u32, operator: &str, right: u32) -> Option<(&'static str, bool)> {
    Some(match (left, operator, right) {
        (t::DATE, "+", t::INT4) => ("date_pli", false),
        (t::INT4, "+", t::DATE) => ("date_pli", true),
        (t::DATE, "-", t::INT4) => ("date_mii", false),
        (t::DATE, "-", t::DATE) => ("date_mi", false),
        (t::DATE, "+", t::INTERVAL) => ("date_pl_interval", false),
        (t::INTERVAL, "+", t::DATE) => ("date_pl_interval", true),
        (t::DATE, "-", t::INTERVAL) => ("date_mi_interval", false),
        (t::DATE, "+", t::TIME) => ("datetime_pl", false),
        (t::TIME, "+", t::DATE) => ("datetime_pl", true),
        (t::TIME, "+", t::INTERVAL) => ("time_pl_interval", false),
        (t::INTERVAL, "+", t::TIME) => ("time_pl_interval", true),
        (t::TIME, "-", t::INTERVAL) => ("time_mi_interval", false),
        (t::TIME, "-", t::TIME) => ("time_mi_time", false),
        (t::TIMETZ, "+", t::INTERVAL) => ("timetz_pl_interval", false),
        (t::INTERVAL, "+", t::TIMETZ) => ("timetz_pl_interval", true),
        (t::TIMETZ, "-", t::INTERVAL) => ("timetz_mi_interval", false),
        (t::DATE, "+", t::TIMETZ) => ("datetimetz_timestamptz", false),
        (t::TIMETZ, "+", t::DATE) => ("datetimetz_timestamptz", true),
        (t::TIMESTAMP, "+", t::INTERVAL) => ("timestamp_pl_interval", false),
        (t::INTERVAL, "+", t::TIMESTAMP) => ("timestamp_pl_interval", true),
        (t::TIMESTAMP, "-", t::INTERVAL) => ("timestamp_mi_interval", false),
        (t::TIMESTAMP, "-", t::TIMESTAMP) => ("timestamp_mi", false),
        (t::TIMESTAMPTZ, "+", t::INTERVAL) => ("timestamptz_pl_interval", false),
        (t::INTERVAL, "+", t::TIMESTAMPTZ) => ("timestamptz_pl_interval", true),
        (t::TIMESTAMPTZ, "-", t::INTERVAL) => ("timestamptz_mi_interval", false),
        (t::TIMESTAMPTZ, "-", t::TIMESTAMPTZ) => ("timestamptz_mi", false),
        (t::INTERVAL, "+", t::INTERVAL) => ("interval_pl", false),
        (t::INTERVAL, "-", t::INTERVAL) => ("interval_mi", false),
        (t::INTERVAL, "*", t::FLOAT8) => ("interval_mul", false),
        (t::FLOAT8, "*", t::INTERVAL) => ("interval_mul", true),
        (t::INTERVAL, "/", t::FLOAT8) => ("interval_div", false),
        _ => return None,
    })
}

fn range(what: &str) -> SqlError {
    SqlError::new("22008", format!("{what} out of range"))
}

fn interval_range() -> SqlError {
    range("interval")
}

fn is_infinite(us: i64) -> bool {
    us == i64::MAX || us == i64::MIN
}

/// A timestamp that there is.
fn timestamp(us: impl Into<i128>) -> Result<i64, SqlError> {
    timestamp_in_range(us.into(), || range("timestamp"))
}

/// A local time of a day since 1970, which need not be one of a timestamp.
fn on_day(days: i64, time: i64) -> i128 {
    i128::from(days) * i128::from(DAY_US) + i128::from(time)
}

/// A day, so many months later; the last of its month if there is none of its number.
fn months_later(days: i64, months: i32) -> Result<i64, SqlError> {
    let (year, month, day) = civil_from_days(days);
    let sum = i64::from(month) - 1 + i64::from(months);
    if i32::try_from(sum + 1).is_err() {
        return Err(range("timestamp"));
    }
    let (year, month) = (year + sum.div_euclid(12), sum.rem_euclid(12) as u32 + 1);
    Ok(days_from_civil(year, month, day.min(month_days(year, month))))
}

/// `timestamp + interval`; in a zone if the timestamp has one.
pub(super) fn plus_interval(us: i64, span: Interval, zone: Option<&Zone>) -> Result<i64, SqlError> {
    if is_infinite(us) {
        return Ok(us);
    }
    let mut us = us;
    // Months, then days, each in local time.
    let move_days = |us: &mut i64, to: &dyn Fn(i64) -> Result<i64, SqlError>| -> Result<(), SqlError> {
        let offset = zone.map_or(0, |zone| i64::from(zone.offset_at(*us)) * SECOND_US);
        // A timestamp leaves room for that.
        let local = us.checked_add(offset).ok_or_else(|| range("timestamp"))?;
        let moved = on_day(to(local.div_euclid(DAY_US))?, local.rem_euclid(DAY_US));
        *us = timestamp(zone.map_or(moved, |zone| zone.wide_local_to_utc(moved)))?;
        Ok(())
    };
    if span.months != 0 {
        move_days(&mut us, &|days| months_later(days, span.months))?;
    }
    if span.days != 0 {
        move_days(&mut us, &|days| Ok(days + i64::from(span.days)))?;
    }
    timestamp(i128::from(us) + i128::from(span.us))
}

fn negated(span: Interval) -> Result<Interval, SqlError> {
    let parts = || Some((span.months.checked_neg()?, span.days.checked_neg()?, span.us.checked_neg()?));
    parts().map(|(months, days, us)| Interval { months, days, us }).ok_or_else(interval_range)
}

/// `interval + interval`, or minus.
pub(super) fn add_intervals(a: Interval, b: Interval, minus: bool) -> Result<Interval, SqlError> {
    let sum = |a: i32, b: i32| if minus { a.checked_sub(b) } else { a.checked_add(b) };
    let us = if minus { a.us.checked_sub(b.us) } else { a.us.checked_add(b.us) };
    match (sum(a.months, b.months), sum(a.days, b.days), us) {
        (Some(months), Some(days), Some(us)) => Ok(Interval { months, days, us }),
        _ => Err(interval_range()),
    }
}

/// `interval * factor` (`by` multiplies) or `interval / factor`: what is left of months becomes days, of days time.
fn scale(span: Interval, by: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
    let int32 = |value: f64| {
        let fits = value >= f64::from(i32::MIN) && value < -f64::from(i32::MIN);
        fits.then_some(value as i32).ok_or_else(interval_range)
    };
    let round = |value: f64| (value * SECOND_US as f64).round_ties_even() / SECOND_US as f64;
    let (months, days) = (by(span.months.into()), by(span.days.into()));
    let (whole_months, mut whole_days) = (int32(months)?, int32(days)?);
    let left_days = round((months - f64::from(whole_months)) * 30.0);
    let mut seconds = round((days - f64::from(whole_days) + left_days - left_days.trunc()) * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        let more = (seconds / 86_400.0).trunc();
        whole_days = whole_days.checked_add(more as i32).ok_or_else(interval_range)?;
        seconds -= more * 86_400.0;
    }
    whole_days = whole_days.checked_add(left_days as i32).ok_or_else(interval_range)?;
    let us = (by(span.us as f64) + seconds * SECOND_US as f64).round_ties_even();
    let limit = -(i64::MIN as f64);
    if us.is_nan() || us < -limit || us >= limit {
        return Err(interval_range());
    }
    Ok(Interval { months: whole_months, days: whole_days, us: us as i64 })
}

/// Days and time of one sign.
fn one_sign_of_days(span: &mut Interval) {
    if span.days > 0 && span.us < 0 {
        span.us += DAY_US;
        span.days -= 1;
    } else if span.days < 0 && span.us > 0 {
        span.us -= DAY_US;
        span.days += 1;
    }
}

fn justify_hours(mut span: Interval) -> Result<Interval, SqlError> {
    let whole = span.us / DAY_US;
    span.us -= whole * DAY_US;
    span.days = span.days.checked_add(whole as i32).ok_or_else(interval_range)?;
    one_sign_of_days(&mut span);
    Ok(span)
}

fn days_to_months(span: &mut Interval) -> Result<(), SqlError> {
    let whole = span.days / 30;
    span.days -= whole * 30;
    span.months = span.months.checked_add(whole).ok_or_else(interval_range)?;
    Ok(())
}

fn justify_days(mut span: Interval) -> Result<Interval, SqlError> {
    days_to_months(&mut span)?;
    if span.months > 0 && span.days < 0 {
        span.days += 30;
        span.months -= 1;
    } else if span.months < 0 && span.days > 0 {
        span.days -= 30;
        span.months += 1;
    }
    Ok(span)
}

fn justify_interval(mut span: Interval) -> Result<Interval, SqlError> {
    if span.days > 0 && span.us > 0 || span.days < 0 && span.us < 0 {
        days_to_months(&mut span)?;
    }
    let whole = span.us / DAY_US;
    span.us -= whole * DAY_US;
    span.days = span.days.checked_add(whole as i32).ok_or_else(interval_range)?;
    days_to_months(&mut span)?;
    if span.months > 0 && (span.days < 0 || span.days == 0 && span.us < 0) {
        span.days += 30;
        span.months -= 1;
    } else if span.months < 0 && (span.days > 0 || span.days == 0 && span.us > 0) {
        span.days -= 30;
        span.months += 1;
    }
    one_sign_of_days(&mut span);
    Ok(span)
}

/// Months of 30 days and days of 24 hours, in microseconds: what intervals compare by.
pub(super) fn interval_key(span: Interval) -> i128 {
    (i128::from(span.months) * 30 + i128::from(span.days)) * i128::from(DAY_US) + i128::from(span.us)
}

/// The difference in years, months, days and time of two local times.
fn age(later: i64, earlier: i64) -> Result<Interval, SqlError> {
    if is_infinite(later) || is_infinite(earlier) {
        return Err(range("timestamp"));
    }
    let negative = later < earlier;
    let (later, earlier) = if negative { (earlier, later) } else { (later, earlier) };
    let split = |us: i64| (civil_from_days(us.div_euclid(DAY_US)), us.rem_euclid(DAY_US));
    let ((y2, m2, d2), t2) = split(later);
    let ((y1, m1, d1), t1) = split(earlier);
    let mut us = t2 - t1;
    let mut days = i64::from(d2) - i64::from(d1);
    let mut months = (y2 - y1) * 12 + i64::from(m2) - i64::from(m1);
    if us < 0 {
        us += DAY_US;
        days -= 1;
    }
    if days < 0 {
        days += i64::from(month_days(y1, m1));
        months -= 1;
    }
    let sign = if negative { -1 } else { 1 };
    Ok(Interval { months: (months * sign) as i32, days: (days * sign) as i32, us: us * sign })
}

/// The begin of the stride that a time is in.
fn bin(stride: Interval, us: i64, origin: i64) -> Result<i64, SqlError> {
    if is_infinite(us) {
        return Ok(us);
    }
    if is_infinite(origin) {
        return Err(range("origin"));
    }
    if stride.months != 0 {
        return Err(SqlError::unsupported("timestamps cannot be binned into intervals containing months or years"));
    }
    let stride = i64::from(stride.days).checked_mul(DAY_US).and_then(|days| days.checked_add(stride.us));
    let stride = stride.ok_or_else(interval_range)?;
    if stride <= 0 {
        return Err(SqlError::new("22008", "stride must be greater than zero"));
    }
    let distance = us.checked_sub(origin).ok_or_else(interval_range)?;
    timestamp(i128::from(origin) + i128::from(distance.div_euclid(stride)) * i128::from(stride))
}

/// An interval cut to a unit.
pub(super) fn truncate_interval(span: Interval, unit: &str) -> Result<Interval, SqlError> {
    let (years, months) = (span.months / 12, span.months % 12);
    let of = |months: i32| Interval { months, days: 0, us: 0 };
    let time = |size: i64| Interval { us: span.us / size * size, ..span };
    let name = crate::decode::token(unit);
    Ok(match name {
        "mil" | "millennia" | "millennium" | "mils" => of(years / 1000 * 12_000),
        "c" | "cent" | "centuries" | "century" => of(years / 100 * 1200),
        "dec" | "decade" | "decades" | "decs" => of(years / 10 * 120),
        "y" | "year" | "years" | "yr" | "yrs" => of(years * 12),
        "qtr" | "quarter" => of(years * 12 + months / 3 * 3),
        "mon" | "mons" | "month" | "months" => of(span.months),
        "d" | "day" | "days" => Interval { us: 0, ..span },
        "h" | "hour" | "hours" | "hr" | "hrs" => time(3600 * SECOND_US),
        "m" | "min" | "mins" | "minute" | "minutes" => time(60 * SECOND_US),
        "s" | "sec" | "second" | "seconds" | "secs" => time(SECOND_US),
        "ms" | "msec" | "msecond" | "mseconds" | "msecs" | "millisecon" => time(1000),
        "us" | "usec" | "usecond" | "useconds" | "usecs" | "microsecon" => span,
        "w" | "week" | "weeks" | "timezone" | "timezone_h" | "timezone_m" => {
            let error = SqlError::unsupported(format!("unit \"{unit}\" not supported for type interval"));
            return Err(match name.starts_with('w') {
                true => error.with_detail("Months usually have fractional weeks."),
                false => error,
            });
        }
        _ => return Err(SqlError::new("22023", format!("unit \"{unit}\" not recognized for type interval"))),
    })
}

/// Days since 1970 of a year (BC below zero), month and day.
fn make_date(year: i64, month: i64, day: i64) -> Result<i64, SqlError> {
    let wrong = |what: &str| SqlError::new("22008", format!("date {what} out of range: {year}-{month:02}-{day:02}"));
    let astronomical = if year < 0 { year + 1 } else { year };
    let (Ok(m), Ok(d)) = (u32::try_from(month), u32::try_from(day)) else { return Err(wrong("field value")) };
    if year == 0 || !(1..=12).contains(&m) || d < 1 || d > month_days(astronomical, m) {
        return Err(wrong("field value"));
    }
    let days = days_from_civil(astronomical, m, d);
    if !(FIRST_DAY..=LAST_DATE).contains(&days) {
        return Err(SqlError::new("22008", format!("date out of range: {year}-{month:02}-{day:02}")));
    }
    Ok(days)
}

/// Microseconds since midnight.
fn make_time(hour: i64, minute: i64, second: f64) -> Result<i64, SqlError> {
    let wrong = || SqlError::new("22008", format!("time field value out of range: {hour}:{minute:02}:{second:02}"));
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || second.is_nan() || !(0.0..=60.0).contains(&second) {
        return Err(wrong());
    }
    let us = (hour * 3600 + minute * 60) * SECOND_US + (second * SECOND_US as f64).round_ties_even() as i64;
    if us > DAY_US { Err(wrong()) } else { Ok(us) }
}

fn make_timestamp(parts: [i64; 5], second: f64) -> Result<i64, SqlError> {
    let days = make_date(parts[0], parts[1], parts[2])?;
    timestamp(on_day(days, make_time(parts[3], parts[4], second)?))
}

fn no_timestamp() -> SqlError {
    SqlError::new("22008", "date out of range for timestamp")
}

/// A `timestamp` of a `date`.
fn midnight(days: i64) -> Result<i64, SqlError> {
    match days {
        _ if days == i64::from(i32::MAX) => Ok(i64::MAX),
        _ if days == i64::from(i32::MIN) => Ok(i64::MIN),
        days => timestamp_in_range(on_day(days, 0), no_timestamp),
    }
}

/// The instant so far behind a day's begin in Greenwich.
pub(super) fn zoned_moment(days: i64, us: i64) -> Result<i64, SqlError> {
    match midnight(days)? {
        midnight if is_infinite(midnight) => Ok(midnight),
        midnight => timestamp_in_range(i128::from(midnight) + i128::from(us), no_timestamp),
    }
}

impl Call<'_> {
    pub(super) fn date(&self, at: usize, row: usize) -> Option<i64> {
        let array = self.arrays.get(at)?.as_primitive_opt::<Date32Type>()?;
        array.is_valid(row).then(|| array.value(row).into())
    }
    pub(super) fn time(&self, at: usize, row: usize) -> Option<i64> {
        let array = self.arrays.get(at)?.as_primitive_opt::<Time64MicrosecondType>()?;
        array.is_valid(row).then(|| array.value(row))
    }
    pub(super) fn moment(&self, at: usize, row: usize) -> Option<i64> {
        let array = self.arrays.get(at)?.as_primitive_opt::<TimestampMicrosecondType>()?;
        array.is_valid(row).then(|| array.value(row))
    }
    pub(super) fn float(&self, at: usize, row: usize) -> Option<f64> {
        let array = self.arrays.get(at)?.as_primitive_opt::<Float64Type>()?;
        array.is_valid(row).then(|| array.value(row))
    }
    pub(super) fn span(&self, at: usize, row: usize) -> Option<Interval> {
        let array = self.arrays.get(at)?.as_primitive_opt::<IntervalMonthDayNanoType>()?;
        let value = array.is_valid(row).then(|| array.value(row))?;
        Some(Interval { months: value.months, days: value.days, us: value.nanoseconds / 1000 })
    }

    /// An interval for each row.
    pub(super) fn spans(
        &self,
        value: impl Fn(usize) -> Result<Option<Interval>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let each = |row| value(row)?.map(interval_value).transpose();
        Ok(Arc::new((0..self.rows).map(each).collect::<Result<IntervalMonthDayNanoArray, SqlError>>()?))
    }
    /// A `timestamp` for each row, or one with a zone.
    pub(super) fn moments(&self, value: impl Fn(usize) -> Result<Option<i64>, SqlError>) -> Result<ArrayRef, SqlError> {
        let out = (0..self.rows).map(value).collect::<Result<TimestampMicrosecondArray, SqlError>>()?;
        Ok(match self.returns.data_type() {
            DataType::Timestamp(_, Some(_)) => Arc::new(out.with_timezone(UTC)),
            _ => Arc::new(out),
        })
    }
    fn dates(&self, value: impl Fn(usize) -> Result<Option<i64>, SqlError>) -> Result<ArrayRef, SqlError> {
        let each = |row| Ok(value(row)?.map(|days| days as i32));
        Ok(Arc::new((0..self.rows).map(each).collect::<Result<Date32Array, SqlError>>()?))
    }
    fn times(&self, value: impl Fn(usize) -> Result<Option<i64>, SqlError>) -> Result<ArrayRef, SqlError> {
        Ok(Arc::new((0..self.rows).map(value).collect::<Result<Time64MicrosecondArray, SqlError>>()?))
    }
}

/// A result of two arguments, null if one is.
pub(super) fn both<A, B, R>(
    a: Option<A>,
    b: Option<B>,
    value: impl Fn(A, B) -> Result<R, SqlError>,
) -> Result<Option<R>, SqlError> {
    match (a, b) {
        (Some(a), Some(b)) => value(a, b).map(Some),
        _ => Ok(None),
    }
}

fn date_plus(days: i64, more: i64) -> Result<i64, SqlError> {
    if days == i64::from(i32::MAX) || days == i64::from(i32::MIN) {
        return Ok(days);
    }
    Some(days + more).filter(|days| (FIRST_DAY..=LAST_DATE).contains(days)).ok_or_else(|| range("date"))
}

/// Operators.
fn operators(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = vec![
        f("date_pli", &[P::Date, P::Int], oid(t::DATE), |c| {
            c.dates(|row| both(c.date(0, row), c.int(1, row), date_plus))
        }),
        f("date_mii", &[P::Date, P::Int], oid(t::DATE), |c| {
            c.dates(|row| both(c.date(0, row), c.int(1, row), |days, less| date_plus(days, -less)))
        }),
        f("date_mi", &[P::Date, P::Date], oid(t::INT4), |c| {
            c.int4s(|row| {
                both(c.date(0, row), c.date(1, row), |a, b| {
                    let infinite = |days: i64| days == i64::from(i32::MAX) || days == i64::from(i32::MIN);
                    match infinite(a) || infinite(b) {
                        true => Err(SqlError::new("22008", "cannot subtract infinite dates")),
                        false => Ok((a - b) as i32),
                    }
                })
            })
        }),
        f("datetime_pl", &[P::Date, P::Time], oid(t::TIMESTAMP), |c| {
            c.moments(|row| {
                both(c.date(0, row), c.time(1, row), |days, time| match midnight(days)? {
                    us if is_infinite(us) => Ok(us),
                    us => timestamp(i128::from(us) + i128::from(time)),
                })
            })
        }),
        f("time_mi_time", &[P::Time, P::Time], oid(t::INTERVAL), |c| {
            c.spans(|row| {
                both(c.time(0, row), c.time(1, row), |a, b| Ok(Interval { us: a - b, ..Interval::default() }))
            })
        }),
        f("interval_pl", &[P::Interval, P::Interval], oid(t::INTERVAL), |c| {
            c.spans(|row| both(c.span(0, row), c.span(1, row), |a, b| add_intervals(a, b, false)))
        }),
        f("interval_mi", &[P::Interval, P::Interval], oid(t::INTERVAL), |c| {
            c.spans(|row| both(c.span(0, row), c.span(1, row), |a, b| add_intervals(a, b, true)))
        }),
        f("interval_um", &[P::Interval], oid(t::INTERVAL), |c| c.spans(|row| c.span(0, row).map(negated).transpose())),
        f("interval_mul", &[P::Interval, P::Float], oid(t::INTERVAL), |c| {
            c.spans(|row| both(c.span(0, row), c.float(1, row), |span, factor| scale(span, |value| value * factor)))
        }),
        f("interval_div", &[P::Interval, P::Float], oid(t::INTERVAL), |c| {
            c.spans(|row| {
                both(c.span(0, row), c.float(1, row), |span, factor| match factor == 0.0 {
                    true => Err(SqlError::new("22012", "division by zero")),
                    false => scale(span, |value| value / factor),
                })
            })
        }),
        interval_key_function(),
    ];
    for (name, minus) in [("date_pl_interval", false), ("date_mi_interval", true)] {
        out.push(f(name, &[P::Date, P::Interval], oid(t::TIMESTAMP), move |c| {
            c.moments(|row| {
                both(c.date(0, row), c.span(1, row), |days, span| {
                    plus_interval(midnight(days)?, if minus { negated(span)? } else { span }, None)
                })
            })
        }));
    }
    for (name, minus) in [("time_pl_interval", false), ("time_mi_interval", true)] {
        out.push(f(name, &[P::Time, P::Interval], oid(t::TIME), move |c| {
            c.times(|row| {
                both(c.time(0, row), c.span(1, row), |time, span| {
                    let more = if minus { span.us.wrapping_neg() } else { span.us };
                    Ok(time.wrapping_add(more).rem_euclid(DAY_US))
                })
            })
        }));
    }
    for (name, minus) in [("timestamp_pl_interval", false), ("timestamp_mi_interval", true)] {
        out.push(f(name, &[P::Timestamp, P::Interval], oid(t::TIMESTAMP), move |c| {
            c.moments(|row| {
                both(c.moment(0, row), c.span(1, row), |us, span| {
                    plus_interval(us, if minus { negated(span)? } else { span }, None)
                })
            })
        }));
    }
    for (name, minus) in [("timestamptz_pl_interval", false), ("timestamptz_mi_interval", true)] {
        let cx = cx.clone();
        out.push(
            f(name, &[P::Timestamptz, P::Interval], oid(t::TIMESTAMPTZ), move |c| {
                let zone = cx.zone();
                c.moments(|row| {
                    both(c.moment(0, row), c.span(1, row), |us, span| {
                        plus_interval(us, if minus { negated(span)? } else { span }, Some(&zone))
                    })
                })
            })
            .volatile(),
        );
    }
    for (name, parameters) in
        [("timestamp_mi", &[P::Timestamp, P::Timestamp]), ("timestamptz_mi", &[P::Timestamptz, P::Timestamptz])]
    {
        out.push(f(name, parameters, oid(t::INTERVAL), |c| {
            c.spans(|row| {
                both(c.moment(0, row), c.moment(1, row), |a, b| {
                    if is_infinite(a) || is_infinite(b) {
                        return Err(SqlError::new("22008", "cannot subtract infinite timestamps"));
                    }
                    let us = a.checked_sub(b).ok_or_else(interval_range)?;
                    justify_hours(Interval { us, ..Interval::default() })
                })
            })
        }));
    }
    out
}

/// `interval_key(interval)`: equal intervals have equal keys, in their order.
pub(super) fn interval_key_function() -> PgFunction {
    f("interval_key", &[P::Interval], super::define::Returns::Fixed(Arc::new(key_field())), |c| {
        let keys: Decimal128Array = (0..c.rows).map(|row| c.span(0, row).map(interval_key)).collect();
        Ok(Arc::new(keys.with_data_type(key_field().data_type().clone())))
    })
}

/// `greatest` and `least` of intervals, NULLs left out.
pub(super) fn extreme(greatest: bool) -> PgFunction {
    let name = if greatest { "interval_greatest" } else { "interval_least" };
    f(name, &[P::Interval], oid(t::INTERVAL), move |c| {
        c.spans(|row| {
            let spans = (0..c.arrays.len()).filter_map(|at| c.span(at, row));
            Ok(spans.reduce(|best, next| match interval_key(next).cmp(&interval_key(best)) {
                std::cmp::Ordering::Greater if greatest => next,
                std::cmp::Ordering::Less if !greatest => next,
                _ => best,
            }))
        })
    })
    .required(1)
    .variadic()
}

/// What keys of intervals are.
fn key_field() -> datafusion::arrow::datatypes::Field {
    datafusion::arrow::datatypes::Field::new("", DataType::Decimal128(38, 0), true)
}

/// Functions.
pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = operators(cx);
    type Justify = fn(Interval) -> Result<Interval, SqlError>;
    let justify: [(&str, Justify); 3] =
        [("justify_hours", justify_hours), ("justify_days", justify_days), ("justify_interval", justify_interval)];
    for (name, justify) in justify {
        out.push(f(name, &[P::Interval], oid(t::INTERVAL), move |c| {
            c.spans(|row| c.span(0, row).map(justify).transpose())
        }));
    }
    let (age_cx, make_cx) = (cx.clone(), cx.clone());
    out.extend([
        f("age", &[P::Any, P::Any], oid(t::INTERVAL), move |c| {
            // Times with a zone are taken as local ones.
            let zone = age_cx.zone();
            let wanted = DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None);
            let local = |at: usize| crate::arrow::cast_array(&c.arrays[at], &wanted, t::TIMESTAMP, &zone);
            let first = local(0)?;
            let first = first.as_primitive::<TimestampMicrosecondType>();
            let value = |array: &TimestampMicrosecondArray, row: usize| array.is_valid(row).then(|| array.value(row));
            if c.given(1) {
                let second = local(1)?;
                let second = second.as_primitive::<TimestampMicrosecondType>();
                return c.spans(|row| both(value(first, row), value(second, row), age));
            }
            let now = age_cx.transaction_start();
            let today = (now + i64::from(zone.offset_at(now)) * SECOND_US).div_euclid(DAY_US) * DAY_US;
            c.spans(|row| both(Some(today), value(first, row), age))
        })
        .required(1)
        .volatile(),
        f("make_date", &[P::Int, P::Int, P::Int], oid(t::DATE), |c| {
            c.dates(|row| match (c.int(0, row), c.int(1, row), c.int(2, row)) {
                (Some(year), Some(month), Some(day)) => make_date(year, month, day).map(Some),
                _ => Ok(None),
            })
        }),
        f("make_time", &[P::Int, P::Int, P::Float], oid(t::TIME), |c| {
            c.times(|row| match (c.int(0, row), c.int(1, row), c.float(2, row)) {
                (Some(hour), Some(minute), Some(second)) => make_time(hour, minute, second).map(Some),
                _ => Ok(None),
            })
        }),
        f("make_timestamp", &[P::Int, P::Int, P::Int, P::Int, P::Int, P::Float], oid(t::TIMESTAMP), |c| {
            c.moments(|row| both(five(c, row), c.float(5, row), make_timestamp))
        }),
        f("make_timestamptz", &[P::Int, P::Int, P::Int, P::Int, P::Int, P::Float, P::Text], oid(t::TIMESTAMPTZ), {
            move |c| {
                let session = make_cx.zone();
                c.moments(|row| {
                    if c.given(6) && c.text(6, row).is_none() {
                        return Ok(None);
                    }
                    both(five(c, row), c.float(5, row), |parts, second| {
                        let local = make_timestamp(parts, second)?;
                        let zone = match c.text(6, row) {
                            Some(name) => zone_argument(name, local)?,
                            None => session,
                        };
                        timestamp(zone.wide_local_to_utc(local.into()))
                    })
                })
            }
        })
        .required(6)
        .volatile(),
        f("make_interval", &[P::Int, P::Int, P::Int, P::Int, P::Int, P::Int, P::Float], oid(t::INTERVAL), |c| {
            c.spans(|row| {
                let mut parts = [0i64; 6];
                for (at, part) in parts.iter_mut().enumerate().filter(|(at, _)| c.given(*at)) {
                    let Some(value) = c.int(at, row) else { return Ok(None) };
                    *part = value;
                }
                let seconds = match c.given(6) {
                    true => c.float(6, row),
                    false => Some(0.0),
                };
                let Some(seconds) = seconds else { return Ok(None) };
                if !seconds.is_finite() {
                    return Err(interval_range());
                }
                let [years, months, weeks, days, hours, minutes] = parts;
                let fits = |value: i64| i32::try_from(value).map_err(|_| interval_range());
                let us = (seconds * SECOND_US as f64).round_ties_even() as i64;
                let us = (hours * 3600 + minutes * 60).checked_mul(SECOND_US).and_then(|sum| sum.checked_add(us));
                Ok(Some(Interval {
                    months: fits(years * 12 + months)?,
                    days: fits(weeks * 7 + days)?,
                    us: us.ok_or_else(interval_range)?,
                }))
            })
        })
        .required(0),
        f("date_bin", &[P::Interval, P::Any, P::Any], super::define::Returns::By(|fields| fields[1].clone()), |c| {
            c.moments(|row| match (c.span(0, row), c.moment(1, row), c.moment(2, row)) {
                (Some(stride), Some(us), Some(origin)) => bin(stride, us, origin).map(Some),
                _ => Ok(None),
            })
        }),
        f("clock_timestamp", &[], oid(t::TIMESTAMPTZ), |c| c.moments(|_| Ok(Some(clock_us())))).each_row(),
    ]);
    out
}

/// The zone that a function is given: a number with a sign counts to the east.
fn zone_argument(name: &str, local: i64) -> Result<Zone, SqlError> {
    let unknown = |what: String| SqlError::new("22023", what);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(unknown(format!("invalid input syntax for type numeric time zone: \"{name}\""))
            .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    match crate::decode::displacement(name) {
        Ok(Some(east)) => Ok(Zone::fixed(east)),
        Ok(None) => Zone::of_expression(name, local, true)
            .ok_or_else(|| unknown(format!("time zone \"{name}\" not recognized"))),
        Err(()) => Err(unknown(format!("numeric time zone \"{name}\" out of range"))),
    }
}

fn five(c: &Call<'_>, row: usize) -> Option<[i64; 5]> {
    Some([c.int(0, row)?, c.int(1, row)?, c.int(2, row)?, c.int(3, row)?, c.int(4, row)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(months: i32, days: i32, us: i64) -> Interval {
        Interval { months, days, us }
    }

    #[test]
    fn ages() {
        let at = |y, m, d| days_from_civil(y, m, d) * DAY_US;
        for (later, earlier, shown) in [
            (at(2001, 4, 10), at(1957, 6, 13), span(43 * 12 + 9, 27, 0)),
            (at(2024, 3, 1), at(2024, 1, 31), span(1, 1, 0)),
            (at(2024, 1, 1), at(2024, 1, 2), span(0, -1, 0)),
        ] {
            assert_eq!(age(later, earlier).expect("age"), shown);
        }
        assert_eq!(age(i64::MAX, 0).unwrap_err().sqlstate, "22008");
    }

    #[test]
    fn justified() {
        let hour = 3600 * SECOND_US;
        assert_eq!(justify_interval(span(1, 0, -hour)).expect("interval"), span(0, 29, 23 * hour));
        assert_eq!(justify_hours(span(0, 6, -10 * hour)).expect("interval"), span(0, 5, 14 * hour));
        assert_eq!(justify_days(span(6, 36, 5 * hour)).expect("interval"), span(7, 6, 5 * hour));
        assert!(justify_days(span(i32::MAX, 30, 0)).is_err());
    }

    #[test]
    fn scaled() {
        assert_eq!(scale(span(1, 0, 0), |v| v * 1.5).expect("interval"), span(1, 15, 0));
        assert_eq!(scale(span(0, 1, 0), |v| v / 3.0).expect("interval"), span(0, 0, 8 * 3600 * SECOND_US));
        assert!(scale(span(1, 0, 0), |v| v * f64::NAN).is_err());
        assert_eq!(interval_key(span(1, 0, 0)), interval_key(span(0, 30, 0)));
    }

    #[test]
    fn months_end() {
        let at = |y, m, d| days_from_civil(y, m, d) * DAY_US;
        assert_eq!(plus_interval(at(2024, 1, 31), span(1, 0, 0), None).expect("sum"), at(2024, 2, 29));
        assert_eq!(plus_interval(i64::MAX, span(1, 0, 0), None).expect("sum"), i64::MAX);
        let berlin = Zone::parse("Europe/Berlin").expect("zone");
        // The day on which clocks go forward has 23 hours.
        let noon = berlin.local_to_utc(at(2024, 3, 30) + 12 * 3600 * SECOND_US);
        let next = plus_interval(noon, span(0, 1, 0), Some(&berlin)).expect("sum");
        assert_eq!(next - noon, 23 * 3600 * SECOND_US);
        assert!(make_date(0, 3, 15).is_err() && make_date(2013, 2, 30).is_err());
        assert_eq!(make_date(-44, 3, 15).expect("date"), days_from_civil(-43, 3, 15));
    }
}
