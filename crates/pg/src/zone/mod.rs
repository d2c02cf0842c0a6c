//! Time zones: IANA's, and fixed offsets as POSIX writes them.
//!
//! Signs: an *offset* is counted to the east. POSIX counts to the west, and PostgreSQL reads every zone that is not
//! an IANA name so: `SET TIME ZONE '-02:30'` and `AT TIME ZONE '-02:30'` are east of Greenwich. A *number* of hours
//! in `SET TIME ZONE` counts to the east.

mod abbreviations;

use std::str::FromStr;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::TimestampMicrosecondType;
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;

pub use abbreviations::Meaning;

use crate::datetime::{DAY_US, END_US, FIRST_US, SECOND_US, civil_from_days, days_from_civil, month_days};

/// A session's time zone.
#[derive(Clone, Copy, Debug, Default)]
pub enum Zone {
    #[default]
    Utc,
    /// An IANA zone.
    Named(Tz),
    /// Seconds east of Greenwich, and what the zone is called.
    Fixed(i32, Name),
}

/// The name of a fixed zone: up to fifteen bytes, the rest is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; 15],
    length: u8,
}

impl Name {
    fn new(text: &str) -> Self {
        let mut out = Self::default();
        for (to, from) in out.bytes.iter_mut().zip(text.bytes().filter(u8::is_ascii)) {
            *to = from;
            out.length += 1;
        }
        out
    }
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..usize::from(self.length)]).into_owned()
    }
}

impl Zone {
    /// A zone by its IANA name in any case, or a POSIX one without summer time such as `EST5` or `<-03:30>+03:30`;
    /// `None` if there is no such zone. (PostgreSQL's `pg_tzset`.)
    pub fn parse(name: &str) -> Option<Self> {
        if ["UTC", "GMT", "Z", "Etc/UTC", "ZULU", "UCT", "GMT0"].iter().any(|utc| utc.eq_ignore_ascii_case(name)) {
            return Some(Self::Utc);
        }
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Self::posix(name);
        }
        if let Ok(tz) = Tz::from_str(name) {
            return Some(Self::Named(tz));
        }
        let upper = name.to_ascii_uppercase();
        if let Ok(tz) = Tz::from_str(&upper) {
            return Some(Self::Named(tz));
        }
        let mut title = String::with_capacity(name.len());
        let mut start = true;
        for c in name.chars() {
            title.push(if start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
            start = matches!(c, '/' | '_' | '-');
        }
        // Small words within names: Port_of_Spain, Isle_of_Man.
        let title = title.replace("_Of_", "_of_").replace("-Au-", "-au-").replace("_Es_", "_es_");
        match Tz::from_str(&title) {
            Ok(tz) => Some(Self::Named(tz)),
            Err(_) => Self::posix(&upper),
        }
    }

    /// A zone as `SET TimeZone` takes it, and what `SHOW` says then: a number of hours to the east, or a name.
    pub fn of_setting(text: &str) -> Option<(Self, String)> {
        let text = text.trim();
        match text.parse::<f64>() {
            Ok(hours) if hours.is_finite() => {
                if hours.abs() > 167.0 {
                    return None;
                }
                let east = (hours * 3600.0) as i32;
                let size = east.unsigned_abs();
                let mut shown = format!("{:02}", size / 3600);
                if !size.is_multiple_of(3600) {
                    shown.push_str(&format!(":{:02}", size / 60 % 60));
                    if !size.is_multiple_of(60) {
                        shown.push_str(&format!(":{:02}", size % 60));
                    }
                }
                let (own, posix) = if east < 0 { ('-', '+') } else { ('+', '-') };
                let zone = Self::Fixed(east, Name::new(&format!("{own}{shown}")));
                Some((zone, format!("<{own}{shown}>{posix}{shown}")))
            }
            _ => Some((Self::parse(text)?, text.to_owned())),
        }
    }

    /// A zone of so many seconds to the east, without a name.
    pub fn fixed(east: i32) -> Self {
        Self::Fixed(east, Name::default())
    }

    /// `EST5`, `<-03:30>+03:30`, `-02:30`: a name or none, and an offset to the west.
    fn posix(text: &str) -> Option<Self> {
        let (name, offset) = match text.strip_prefix('<') {
            Some(rest) => rest.split_once('>')?,
            None => {
                let end = text.find(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | ',')).unwrap_or(text.len());
                text.split_at(end)
            }
        };
        let (sign, digits) = match offset.as_bytes().first()? {
            b'-' => (1, &offset[1..]),
            b'+' => (-1, &offset[1..]),
            _ => (-1, offset),
        };
        let mut seconds = 0i32;
        let mut fields = digits.split(':');
        for (unit, most) in [(3600, 167), (60, 59), (1, 60)] {
            let Some(field) = fields.next() else { break };
            if field.is_empty() || field.len() > 3 || !field.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let value: i32 = field.parse().ok().filter(|value| *value <= most)?;
            seconds += value * unit;
        }
        fields.next().is_none().then(|| Self::Fixed(sign * seconds, Name::new(&name.to_ascii_uppercase())))
    }

    /// The zone of `AT TIME ZONE` at an instant, or at a local time if `is_local`: an abbreviation if it is one, else a
    /// zone.
    pub fn of_expression(name: &str, us: i64, is_local: bool) -> Option<Self> {
        match abbreviations::meaning(&name.to_ascii_lowercase()) {
            Some(Meaning::Fixed(east) | Meaning::Summer(east)) => Some(Self::Fixed(east, Name::new(name))),
            Some(Meaning::Zone(zone)) => {
                let zone = Self::parse(zone)?;
                let instant = if is_local { zone.local_to_utc(us) } else { us };
                Some(Self::Fixed(zone.offset_of(name, instant), Name::new(name)))
            }
            None => Self::parse(name),
        }
    }

    /// The meaning of an abbreviation in small letters.
    pub fn abbreviation_meaning(abbreviation: &str) -> Option<Meaning> {
        abbreviations::meaning(abbreviation)
    }

    /// Seconds east of Greenwich that an abbreviation meant in this zone when it was last used at or before an instant,
    /// or else first after it; the zone's own offset if it was never used.
    pub fn offset_of(&self, abbreviation: &str, us: i64) -> i32 {
        self.offset_at(self.used_at(abbreviation, us))
    }

    /// Whether it is of summer time then.
    fn is_summer_as(&self, abbreviation: &str, us: i64) -> bool {
        let at = DateTime::from_timestamp_micros(in_tables(self.used_at(abbreviation, us)));
        let (Self::Named(tz), Some(at)) = (self, at) else { return false };
        let tz = chrono_tz::Tz::from_str(&tz.to_string());
        tz.is_ok_and(|tz| !tz.offset_from_utc_datetime(&at.naive_utc()).dst_offset().is_zero())
    }

    /// When an abbreviation was last used in this zone at or before an instant, or else first after it; if never, the instant.
    fn used_at(&self, abbreviation: &str, us: i64) -> i64 {
        let step = 14 * DAY_US;
        let means = |us: &i64| self.abbreviation(*us).eq_ignore_ascii_case(abbreviation);
        // Zones began to be in the 19th century; what there is ahead is announced a few years before.
        let earliest = days_from_civil(1850, 1, 1) * DAY_US;
        let latest = days_from_civil(2040, 1, 1) * DAY_US;
        let before = std::iter::successors(Some(us.min(latest)), |at| Some(at - step).filter(|at| *at > earliest));
        let after = std::iter::successors(Some(us.max(earliest)), |at| Some(at + step).filter(|at| *at < latest));
        before.chain(after).find(means).unwrap_or(us)
    }

    /// Seconds east of Greenwich at an instant (microseconds since 1970, UTC).
    pub fn offset_at(&self, us: i64) -> i32 {
        match self {
            Self::Utc => 0,
            Self::Fixed(east, _) => *east,
            Self::Named(tz) => {
                let us = in_tables(us);
                match as_datetime_with_timezone::<TimestampMicrosecondType>(us, *tz) {
                    Some(at) => {
                        let local = at.naive_local().and_utc().timestamp();
                        (local - us.div_euclid(SECOND_US)) as i32
                    }
                    None => 0,
                }
            }
        }
    }

    /// What the zone is called at an instant, for instance `CET`.
    pub fn abbreviation(&self, us: i64) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Fixed(_, name) => name.text(),
            Self::Named(tz) => abbreviation(*tz, in_tables(us)).unwrap_or_default(),
        }
    }

    /// As [`local_to_utc`](Self::local_to_utc), of a local time that may be none of a timestamp.
    pub fn wide_local_to_utc(&self, local_us: i128) -> i128 {
        // Far from the present a zone's rules are those of the nearest time that is counted.
        let near = local_us.clamp(i128::from(FIRST_US - DAY_US), i128::from(END_US)) as i64;
        local_us + i128::from(self.local_to_utc(near)) - i128::from(near)
    }

    /// The instant that a local time names: in a gap, counted by the offset before it; where clocks were set back, the
    /// later of the two (both are the smaller offset), as PostgreSQL does.
    pub fn local_to_utc(&self, local_us: i64) -> i64 {
        let at = |offset: i32| local_us.saturating_sub(i64::from(offset) * SECOND_US);
        match self {
            Self::Utc => return local_us,
            Self::Fixed(east, _) => return at(*east),
            Self::Named(_) => {}
        }
        let before = self.offset_at(local_us.saturating_sub(DAY_US));
        let after = self.offset_at(local_us.saturating_add(DAY_US));
        let valid = |offset: i32| Some(at(offset)).filter(|utc| self.offset_at(*utc) == offset);
        if before == after {
            return valid(before).unwrap_or_else(|| at(before));
        }
        let (smaller, larger) = (before.min(after), before.max(after));
        valid(smaller).or_else(|| valid(larger)).unwrap_or_else(|| at(before))
    }
}

/// A zone as it is at an instant.
pub struct Known {
    pub name: &'static str,
    pub abbreviation: String,
    /// Seconds east of Greenwich.
    pub offset: i32,
    pub is_summer: bool,
}

/// All IANA zones as they are at an instant, by name.
pub fn known_at(us: i64) -> Vec<Known> {
    let Some(at) = DateTime::from_timestamp_micros(in_tables(us)) else { return Vec::new() };
    let known = |zone: &chrono_tz::Tz| {
        let offset = zone.offset_from_utc_datetime(&at.naive_utc());
        Known {
            name: zone.name(),
            abbreviation: offset.abbreviation().map_or_else(|| offset.to_string(), str::to_owned),
            offset: offset.fix().local_minus_utc(),
            is_summer: !offset.dst_offset().is_zero(),
        }
    };
    let mut all: Vec<Known> = chrono_tz::TZ_VARIANTS.iter().map(known).collect();
    all.sort_by_key(|zone| zone.name);
    all
}

/// What abbreviations in dates mean at an instant: name, seconds east of Greenwich, whether it is of summer time.
pub fn abbreviations_at(us: i64) -> impl Iterator<Item = (String, i32, bool)> {
    abbreviations::all().iter().map(move |(name, meaning)| {
        let (offset, is_summer) = match *meaning {
            Meaning::Fixed(east) => (east, false),
            Meaning::Summer(east) => (east, true),
            Meaning::Zone(zone) => match Zone::parse(zone) {
                // As PostgreSQL: what it means now, or meant last.
                Some(parsed) => (parsed.offset_of(name, us), parsed.is_summer_as(name, us)),
                None => (0, false),
            },
        };
        (name.to_ascii_uppercase(), offset, is_summer)
    })
}

/// The last year that the tables of zones go to.
const TABLE_YEAR: i64 = 2099;

/// What an IANA zone is called at an instant: an abbreviation, or its offset if it has none.
fn abbreviation(tz: Tz, us: i64) -> Option<String> {
    let Ok(tz) = chrono_tz::Tz::from_str(&tz.to_string()) else {
        // Of a mere offset.
        return as_datetime_with_timezone::<TimestampMicrosecondType>(us, tz).map(|at| at.format("%Z").to_string());
    };
    let at = DateTime::from_timestamp_micros(us)?;
    let offset = tz.offset_from_utc_datetime(&at.naive_utc());
    Some(offset.abbreviation().map_or_else(|| offset.to_string(), str::to_owned))
}

/// An instant of whose offset the tables know: one beyond them is put into a year before their end that has the same
/// calendar, as summer time goes by weekdays.
fn in_tables(us: i64) -> i64 {
    let days = us.div_euclid(DAY_US);
    let (year, month, day) = civil_from_days(days);
    if year <= TABLE_YEAR {
        return us;
    }
    let alike = |other: i64| {
        let first = |year| (days_from_civil(year, 1, 1)).rem_euclid(7);
        first(other) == first(year) && month_days(other, 2) == month_days(year, 2)
    };
    let other = (TABLE_YEAR - 28..TABLE_YEAR).find(|other| alike(*other)).unwrap_or(TABLE_YEAR);
    days_from_civil(other, month, day) * DAY_US + us.rem_euclid(DAY_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones() {
        let berlin = Zone::parse("europe/berlin").expect("zone");
        let summer = days_from_civil(2024, 7, 1) * DAY_US;
        let winter = days_from_civil(2024, 1, 1) * DAY_US;
        assert_eq!((berlin.offset_at(summer), berlin.offset_at(winter)), (7200, 3600));
        assert_eq!(berlin.local_to_utc(summer), summer - 7200 * SECOND_US);
        // 2024-03-31 02:30 does not exist; PostgreSQL reads it with standard time: 01:30 UTC
        let gap = days_from_civil(2024, 3, 31) * DAY_US + 9000 * SECOND_US;
        assert_eq!(berlin.local_to_utc(gap), gap - 3600 * SECOND_US);
        // 2024-10-27 02:30 exists twice; the later (standard) one
        let overlap = days_from_civil(2024, 10, 27) * DAY_US + 9000 * SECOND_US;
        assert_eq!(berlin.local_to_utc(overlap), overlap - 3600 * SECOND_US);
        assert!(Zone::parse("Nowhere/Nothing").is_none());
        // Beyond the tables as before their end.
        let far = days_from_civil(250_000, 7, 1) * DAY_US;
        assert_eq!(berlin.offset_at(far), 7200);
    }

    #[test]
    fn fixed_zones_count_to_the_west() {
        for (text, east) in [("-02:30", 9000), ("EST5", -18_000), ("<-01:30>+01:30", -5400), ("+05:30:15", -19_815)] {
            assert_eq!(Zone::parse(text).map(|zone| zone.offset_at(0)), Some(east), "{text}");
        }
        for text in ["", "FOO", "FOO+", "FOO1:60", "1.5x", "-168", "<FOO5"] {
            assert!(Zone::parse(text).is_none(), "{text}");
        }
        for (text, east, shown) in
            [("-7", -25_200, "<-07>+07"), ("3.5", 12_600, "<+03:30>-03:30"), ("-02:30", 9000, "-02:30")]
        {
            let (zone, name) = Zone::of_setting(text).expect(text);
            assert_eq!((zone.offset_at(0), name.as_str()), (east, shown));
        }
    }

    #[test]
    fn abbreviations_mean_what_they_meant() {
        let moscow =
            |y, m| Zone::of_expression("MSK", days_from_civil(y, m, 1) * DAY_US, false).expect("msk").offset_at(0);
        assert_eq!((moscow(2010, 1), moscow(2012, 1), moscow(2016, 1)), (10_800, 14_400, 10_800));
        assert_eq!(Zone::of_expression("pdt", 0, true).map(|zone| zone.offset_at(0)), Some(-25_200));
    }
}
