//! Dates and times within paths: what `.datetime()` makes of a text, and how such values compare.

use std::cmp::Ordering;
use std::fmt;

use bytes::BytesMut;

use crate::datetime::{DAY_US, SECOND_US, Zone, days_from_civil, round_seconds};
use crate::encode::{put_iso_date, put_iso_timestamp, put_time};
use crate::functions::parse_time::parse_strict;
use crate::timetz::TimeTz;
use crate::wire::SqlError;

/// The forms that are tried where the path has no template: of dates, times, and both, with a zone first.
const FORMS: [&str; 19] = [
    "yyyy-mm-dd",
    "HH24:MI:SS.USTZH:TZM",
    "HH24:MI:SS.USTZH",
    "HH24:MI:SSTZH:TZM",
    "HH24:MI:SSTZH",
    "HH24:MI:SS.US",
    "HH24:MI:SS",
    "yyyy-mm-dd HH24:MI:SS.USTZH:TZM",
    "yyyy-mm-dd HH24:MI:SS.USTZH",
    "yyyy-mm-dd HH24:MI:SSTZH:TZM",
    "yyyy-mm-dd HH24:MI:SSTZH",
    "yyyy-mm-dd\"T\"HH24:MI:SS.USTZH:TZM",
    "yyyy-mm-dd\"T\"HH24:MI:SS.USTZH",
    "yyyy-mm-dd\"T\"HH24:MI:SSTZH:TZM",
    "yyyy-mm-dd\"T\"HH24:MI:SSTZH",
    "yyyy-mm-dd HH24:MI:SS.US",
    "yyyy-mm-dd HH24:MI:SS",
    "yyyy-mm-dd\"T\"HH24:MI:SS.US",
    "yyyy-mm-dd\"T\"HH24:MI:SS",
];

/// A value; days and microseconds count from 1970.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    Date(i64),
    Time(i64),
    TimeTz(TimeTz),
    Timestamp(i64),
    /// In UTC, and the seconds to the east that its text says.
    Timestamptz(i64, i32),
}

fn format_error(message: &str) -> SqlError {
    SqlError::new("22007", message)
}

/// The beginning of a day; of days that are too far away, a moment behind all timestamps.
fn midnight(day: i64) -> i64 {
    day.saturating_mul(DAY_US)
}

impl Moment {
    /// That of a text, by a template or by the first form that fits.
    ///
    /// # Errors
    /// 22007, 22008, 22009 and 0A000 of templates; 22031: no form fits.
    pub(super) fn read(text: &str, template: Option<&str>) -> Result<Self, SqlError> {
        if let Some(template) = template {
            return Self::by(text, template);
        }
        FORMS.iter().find_map(|form| Self::by(text, form).ok()).ok_or_else(|| {
            SqlError::new("22031", format!("datetime format is not recognized: \"{text}\""))
                .with_hint("Use a datetime template argument to specify the input data format.")
        })
    }

    fn by(text: &str, template: &str) -> Result<Self, SqlError> {
        let (parsed, kinds) = parse_strict(text, template)?;
        let time_us = round_seconds(parsed.time_us, parsed.digits.map(|digits| digits as u8));
        let out_of_range = |what: &str| SqlError::new("22008", format!("{what} out of range"));
        // The Julian calendar of astronomers begins in November of 4714 BC.
        let last_year = if kinds.timed { 294_276 } else { 5_874_897 };
        let day = || {
            let valid = (-4712..=last_year).contains(&parsed.year) || parsed.year == -4713 && parsed.month >= 11;
            valid.then(|| days_from_civil(parsed.year, parsed.month as u32, parsed.day as u32))
        };
        let east = parsed.offset.unwrap_or(0);
        match (kinds.dated, kinds.timed, kinds.zoned) {
            (true, false, true) => Err(format_error("datetime format is zoned but not timed")),
            (false, false, _) => Err(format_error("datetime format is not dated and not timed")),
            (true, false, false) => {
                day().map(Self::Date).ok_or_else(|| SqlError::new("22008", format!("date out of range: \"{text}\"")))
            }
            (false, true, false) => Ok(Self::Time(time_us)),
            (false, true, true) => Ok(Self::TimeTz(TimeTz { us: time_us, west: -east })),
            (true, true, false) => {
                day().map(|day| Self::Timestamp(day * DAY_US + time_us)).ok_or_else(|| out_of_range("timestamp"))
            }
            (true, true, true) => day()
                .map(|day| Self::Timestamptz(day * DAY_US + time_us - i64::from(east) * SECOND_US, east))
                .ok_or_else(|| out_of_range("timestamptz")),
        }
    }

    /// As `.type()` calls it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Date(_) => "date",
            Self::Time(_) => "time without time zone",
            Self::TimeTz(_) => "time with time zone",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::Timestamptz(..) => "timestamp with time zone",
        }
    }

    /// How two compare; `None`: they do not. `zone`: the session's, if the function may go by it.
    ///
    /// # Errors
    /// `0A000` for two that only a zone makes comparable, where there is none.
    pub(super) fn compared(&self, other: &Self, zone: Option<&Zone>) -> Result<Option<Ordering>, SqlError> {
        use Moment::{Date, Time, TimeTz as Zoned, Timestamp, Timestamptz};
        let needs_zone = |from: &str, to: &str| {
            zone.ok_or_else(|| {
                let text = format!("cannot convert value from {from} to {to} without time zone usage");
                SqlError::unsupported(text).with_hint("Use *_tz() function for time zone support.")
            })
        };
        let zoned = |us: i64| Ok::<_, SqlError>(TimeTz::of_today(us, needs_zone("time", "timetz")?));
        Ok(Some(match (self, other) {
            (Date(a), Date(b)) => a.cmp(b),
            (Date(a), Timestamp(b)) => midnight(*a).cmp(b),
            (Timestamp(a), Date(b)) => a.cmp(&midnight(*b)),
            (Date(a), Timestamptz(b, _)) => needs_zone("date", "timestamptz")?.local_to_utc(midnight(*a)).cmp(b),
            (Timestamptz(a, _), Date(b)) => a.cmp(&needs_zone("date", "timestamptz")?.local_to_utc(midnight(*b))),
            (Timestamp(a), Timestamp(b)) => a.cmp(b),
            (Timestamp(a), Timestamptz(b, _)) => needs_zone("timestamp", "timestamptz")?.local_to_utc(*a).cmp(b),
            (Timestamptz(a, _), Timestamp(b)) => a.cmp(&needs_zone("timestamp", "timestamptz")?.local_to_utc(*b)),
            (Timestamptz(a, _), Timestamptz(b, _)) => a.cmp(b),
            (Time(a), Time(b)) => a.cmp(b),
            (Time(a), Zoned(b)) => zoned(*a)?.to_stored().cmp(&b.to_stored()),
            (Zoned(a), Time(b)) => a.to_stored().cmp(&zoned(*b)?.to_stored()),
            (Zoned(a), Zoned(b)) => a.to_stored().cmp(&b.to_stored()),
            _ => return Ok(None),
        }))
    }
}

/// A zone with its minutes, as XML Schema has it.
fn put_offset(east: i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let seconds = east.unsigned_abs();
    write!(f, "{}{:02}:{:02}", if east < 0 { '-' } else { '+' }, seconds / 3600, seconds / 60 % 60)?;
    if seconds.is_multiple_of(60) { Ok(()) } else { write!(f, ":{:02}", seconds % 60) }
}

impl fmt::Display for Moment {
    /// As `to_json` shows it (`JsonEncodeDateTime`); of an instant in the zone that its text had.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = BytesMut::new();
        match self {
            Self::Date(day) => put_iso_date(&mut out, i32::try_from(*day).unwrap_or(i32::MAX)),
            Self::Time(us) => put_time(&mut out, *us),
            Self::TimeTz(time) => put_time(&mut out, time.us),
            Self::Timestamp(us) => put_iso_timestamp(&mut out, *us),
            Self::Timestamptz(us, east) => put_iso_timestamp(&mut out, us + i64::from(*east) * SECOND_US),
        }
        let text = String::from_utf8_lossy(&out);
        let (text, era) = match text.strip_suffix(" BC") {
            Some(text) => (text, " BC"),
            None => (text.as_ref(), ""),
        };
        f.write_str(&text.replacen(' ', "T", 1))?;
        match self {
            Self::TimeTz(time) => put_offset(-time.west, f)?,
            Self::Timestamptz(_, east) => put_offset(*east, f)?,
            _ => {}
        }
        f.write_str(era)
    }
}
