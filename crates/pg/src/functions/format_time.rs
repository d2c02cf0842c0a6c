//! `to_char` of times and intervals: every template pattern of PostgreSQL 15
//! (`src/backend/utils/adt/formatting.c`), in locale C.

use super::format_number::ordinal;
use crate::datetime::{DAY_US, SECOND_US, civil_from_days, days_from_civil};
use crate::wire::SqlError;

/// A time in its parts; those of an interval go beyond a day and below zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub interval: bool,
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
    /// From 1.
    pub year_day: i64,
    /// Sunday is 0.
    pub weekday: usize,
    /// East of Greenwich, in seconds.
    pub offset: i32,
    /// Abbreviation of the zone, of a time with one.
    pub zone: Option<String>,
}

impl Parts {
    /// Of a local time, in microseconds since 1970.
    pub(super) fn of_local(us: i64) -> Self {
        let (days, time) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
        let (year, month, day) = civil_from_days(days);
        Self {
            year,
            month: month.into(),
            day: day.into(),
            hour: time / (3600 * SECOND_US),
            minute: time / (60 * SECOND_US) % 60,
            second: time / SECOND_US % 60,
            micros: time % SECOND_US,
            year_day: days - days_from_civil(year, 1, 1) + 1,
            weekday: (days + 4).rem_euclid(7) as usize,
            ..Self::default()
        }
    }

    /// Of an interval.
    pub(super) fn of_interval(months: i32, days: i32, us: i64) -> Self {
        let (year, month, day) = (i64::from(months / 12), i64::from(months % 12), i64::from(days));
        Self {
            interval: true,
            year,
            month,
            day,
            hour: us / (3600 * SECOND_US),
            minute: us / (60 * SECOND_US) % 60,
            second: us / SECOND_US % 60,
            micros: us % SECOND_US,
            year_day: (year * 12 + month) * 30 + day,
            ..Self::default()
        }
    }

    /// Julian day.
    fn julian(&self) -> i64 {
        julian(self.year, self.month, self.day)
    }

    /// ISO year, week, and day of that year.
    fn iso(&self) -> (i64, i64, i64) {
        let day = self.julian();
        let mut year = self.year;
        if day < iso_start(year) {
            year -= 1;
        } else if day >= iso_start(year + 1) {
            year += 1;
        }
        let start = iso_start(year);
        (year, (day - start) / 7 + 1, day - start + 1)
    }

    /// A year as it is shown: there is none of number 0.
    fn shown(&self, year: i64) -> i64 {
        if self.interval || year > 0 { year } else { 1 - year }
    }
}

/// Julian day of a date, whatever its parts: an interval has months and days of any number.
fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (month, year) = if month > 2 { (month + 1, year + 4800) } else { (month + 13, year + 4799) };
    let century = year / 100;
    year * 365 - 32_167 + year / 4 - century + century / 4 + 7834 * month / 256 + day
}

/// Julian day of the Monday with which an ISO year begins.
fn iso_start(year: i64) -> i64 {
    let fourth = julian(year, 1, 4);
    fourth - fourth.rem_euclid(7)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Patterns that are written in capitals or in small letters, longer ones before those that they begin with.
const EITHER: [&str; 44] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DDD", "DD", "D", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FX",
    "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM", "MS", "OF", "P.M.", "PM", "Q",
    "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW",
];
const MORE: [&str; 6] = ["W", "Y,YYY", "YYYY", "YYY", "YY", "Y"];
/// Patterns whose case is that of what they write.
const NAMES: [&str; 12] = ["DAY", "Day", "day", "DY", "Dy", "dy", "MONTH", "Month", "month", "MON", "Mon", "mon"];

/// The pattern that a template begins with, in capitals, and as it is written.
pub(super) fn pattern(rest: &str) -> Option<(&'static str, &str)> {
    if let Some(name) = NAMES.iter().find(|name| rest.starts_with(**name)) {
        return Some((name, &rest[..name.len()]));
    }
    EITHER.iter().chain(&MORE).find_map(|name| {
        let written = rest.get(..name.len())?;
        (written == *name || written.bytes().eq(name.bytes().map(|byte| byte.to_ascii_lowercase())))
            .then_some((*name, written))
    })
}

/// The characters of a text in double quotes; what is behind it.
pub(super) fn quoted(text: &str, mut each: impl FnMut(char)) -> &str {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return &text[at + 1..],
            '\\' => match chars.next() {
                Some((_, next)) => each(next),
                None => each('\\'),
            },
            c => each(c),
        }
    }
    ""
}

fn not_of_interval() -> SqlError {
    SqlError::new("22007", "invalid format specification for an interval value")
        .with_hint("Intervals are not tied to specific calendar dates.")
}

/// As a pattern writes a name.
fn cased(name: &str, pattern: &str) -> String {
    let mut letters = pattern.chars();
    match (letters.next().is_some_and(char::is_uppercase), letters.next().is_some_and(char::is_uppercase)) {
        (true, true) => name.to_uppercase(),
        (false, _) => name.to_lowercase(),
        _ => name.to_owned(),
    }
}

/// A time by a template.
///
/// # Errors
/// 22007 for patterns that an interval has no value for.
pub(super) fn format(parts: &Parts, template: &str) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut rest = template;
    while !rest.is_empty() {
        let mut fill = true;
        if let Some(prefix) = ["FM", "fm", "TM", "tm"].iter().find(|prefix| rest.starts_with(**prefix)) {
            fill = prefix.eq_ignore_ascii_case("TM");
            rest = &rest[2..];
            // Names are not translated, and not filled up either.
            if fill && pattern(rest).is_some_and(|(name, _)| NAMES.contains(&name)) {
                fill = false;
            }
        }
        if let Some((name, written)) = pattern(rest) {
            rest = &rest[written.len()..];
            let mut suffix = None;
            for (text, upper) in [("TH", Some(true)), ("th", Some(false)), ("SP", None)] {
                if let Some(behind) = rest.strip_prefix(text) {
                    (rest, suffix) = (behind, upper);
                    break;
                }
            }
            write(parts, name, written, fill, suffix, &mut out)?;
            continue;
        }
        if rest.starts_with('"') {
            rest = quoted(&rest[1..], |c| out.push(c));
            continue;
        }
        if rest.starts_with("\\\"") {
            rest = &rest[1..];
        }
        if let Some(c) = rest.chars().next() {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(out)
}

fn write(
    parts: &Parts,
    name: &str,
    written: &str,
    fill: bool,
    suffix: Option<bool>,
    out: &mut String,
) -> Result<(), SqlError> {
    let wide = |value: i64, width: usize| if value < 0 { width + 1 } else { width };
    let number = |value: i64, width: usize, out: &mut String| {
        let text = if fill { format!("{value:0width$}") } else { value.to_string() };
        out.push_str(&text);
        if let Some(upper) = suffix {
            out.push_str(ordinal(&text, upper));
        }
    };
    let fixed = |value: i64, width: usize, out: &mut String| {
        let text = format!("{value:0width$}");
        out.push_str(&text);
        if let Some(upper) = suffix {
            out.push_str(ordinal(&text, upper));
        }
    };
    let of_calendar = [
        "A.D.", "AD", "B.C.", "BC", "DAY", "Day", "day", "DY", "Dy", "dy", "MONTH", "Month", "month", "MON", "Mon",
        "mon", "D", "ID", "TZ", "TZH", "TZM", "OF",
    ];
    if parts.interval && of_calendar.contains(&name) {
        return Err(not_of_interval());
    }
    let lower = written.chars().next().is_some_and(char::is_lowercase);
    let case = |text: &str| if lower { text.to_lowercase() } else { text.to_owned() };
    let name_of = |names: &[&'static str], at: usize| names.get(at).copied().unwrap_or_default();
    let month = || name_of(&MONTHS, (parts.month - 1).max(0) as usize);
    let offset = parts.offset.unsigned_abs();
    match name {
        "A.M." | "P.M." => out.push_str(&case(if parts.hour % 24 >= 12 { "P.M." } else { "A.M." })),
        "AM" | "PM" => out.push_str(&case(if parts.hour % 24 >= 12 { "PM" } else { "AM" })),
        "A.D." | "B.C." => out.push_str(&case(if parts.year <= 0 { "B.C." } else { "A.D." })),
        "AD" | "BC" => out.push_str(&case(if parts.year <= 0 { "BC" } else { "AD" })),
        "HH" | "HH12" => {
            let hour = if parts.hour % 12 == 0 { 12 } else { parts.hour % 12 };
            number(hour, wide(parts.hour, 2), out);
        }
        "HH24" => number(parts.hour, wide(parts.hour, 2), out),
        "MI" => number(parts.minute, wide(parts.minute, 2), out),
        "SS" => number(parts.second, wide(parts.second, 2), out),
        "FF1" => fixed(parts.micros / 100_000, 1, out),
        "FF2" => fixed(parts.micros / 10_000, 2, out),
        "FF3" | "MS" => fixed(parts.micros / 1000, 3, out),
        "FF4" => fixed(parts.micros / 100, 4, out),
        "FF5" => fixed(parts.micros / 10, 5, out),
        "FF6" | "US" => fixed(parts.micros, 6, out),
        "SSSS" | "SSSSS" => fixed(parts.hour * 3600 + parts.minute * 60 + parts.second, 1, out),
        "TZ" => {
            if let Some(zone) = &parts.zone {
                out.push_str(&if lower { zone.to_lowercase() } else { zone.clone() });
            }
        }
        "TZH" => out.push_str(&format!("{}{:02}", if parts.offset >= 0 { '+' } else { '-' }, offset / 3600)),
        "TZM" => out.push_str(&format!("{:02}", offset % 3600 / 60)),
        "OF" => {
            let width = if fill { 2 } else { 0 };
            out.push_str(&format!("{}{:0width$}", if parts.offset >= 0 { '+' } else { '-' }, offset / 3600));
            if !offset.is_multiple_of(3600) {
                out.push_str(&format!(":{:02}", offset % 3600 / 60));
            }
        }
        "MONTH" | "Month" | "month" => {
            let text = cased(month(), name);
            out.push_str(&if fill { format!("{text:<9}") } else { text });
        }
        "DAY" | "Day" | "day" => {
            let text = cased(name_of(&DAYS, parts.weekday), name);
            out.push_str(&if fill { format!("{text:<9}") } else { text });
        }
        "MON" | "Mon" | "mon" => out.push_str(&cased(month().get(..3).unwrap_or_default(), name)),
        "DY" | "Dy" | "dy" => out.push_str(&cased(&name_of(&DAYS, parts.weekday)[..3], name)),
        "MM" => number(parts.month, wide(parts.month, 2), out),
        "DDD" => number(parts.year_day, 3, out),
        "IDDD" => number(parts.iso().2, 3, out),
        "DD" => number(parts.day, 2, out),
        "D" => fixed(parts.weekday as i64 + 1, 1, out),
        "ID" => fixed(if parts.weekday == 0 { 7 } else { parts.weekday as i64 }, 1, out),
        "WW" => number((parts.year_day - 1) / 7 + 1, 2, out),
        "IW" => number(parts.iso().1, 2, out),
        "Q" if parts.month != 0 => fixed((parts.month - 1) / 3 + 1, 1, out),
        "CC" => {
            let century = match parts.year {
                year if parts.interval => year / 100,
                year if year > 0 => (year - 1) / 100 + 1,
                year => year / 100 - 1,
            };
            if century.abs() <= 99 { number(century, wide(century, 2), out) } else { fixed(century, 1, out) }
        }
        "Y,YYY" => {
            let year = parts.shown(parts.year);
            let text = format!("{},{:03}", year / 1000, year - year / 1000 * 1000);
            out.push_str(&text);
            if let Some(upper) = suffix {
                out.push_str(ordinal(&text, upper));
            }
        }
        "YYYY" | "YYY" | "YY" | "Y" | "IYYY" | "IYY" | "IY" | "I" => {
            let own = parts.shown(parts.year);
            let year = if name.starts_with('I') { parts.shown(parts.iso().0) } else { own };
            match name.len() {
                4 => number(year, wide(own, 4), out),
                1 => fixed(year % 10, 1, out),
                width => number(year % 10i64.pow(width as u32), wide(own, width), out),
            }
        }
        "RM" if parts.month != 0 || parts.year != 0 => {
            let at = match parts.month {
                // Whole years of an interval.
                0 => {
                    if parts.year >= 0 {
                        11
                    } else {
                        0
                    }
                }
                month if month < 0 => 12 + month,
                month => month - 1,
            };
            let text = case(name_of(&ROMAN, at as usize));
            out.push_str(&if fill { format!("{text:<4}") } else { text });
        }
        "W" => fixed((parts.day - 1) / 7 + 1, 1, out),
        "J" => fixed(parts.julian(), 1, out),
        _ => {}
    }
    Ok(())
}
