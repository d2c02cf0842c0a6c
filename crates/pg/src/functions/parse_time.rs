//! `to_timestamp`, `to_date` and `.datetime()` of `jsonpath`: texts by a template (PostgreSQL's `DCH_from_char`, `do_to_timestamp`
//! and `parse_datetime` in `src/backend/utils/adt/formatting.c`), in locale C.

use super::format_time::{pattern, quoted};
use crate::datetime::{SECOND_US, civil_from_days, days_from_civil, month_days};
use crate::wire::SqlError;

/// One piece of a template.
#[derive(Clone, Copy, Debug)]
enum Node {
    Pattern { name: &'static str, fill: bool, ordinal: bool },
    Separator(char),
    Char(char),
}

/// What a text says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parsed {
    /// Astronomical: 0 is 1 BC.
    pub year: i64,
    pub month: i64,
    pub day: i64,
    /// Microseconds since midnight.
    pub time_us: i64,
    /// Seconds east of Greenwich, if the text says so.
    pub offset: Option<i32>,
    /// Digits of seconds that the template has.
    pub digits: Option<u32>,
}

/// The calendar that a pattern belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Gregorian,
    IsoWeek,
}

#[derive(Default)]
struct Fields {
    mode: Option<Mode>,
    hour: i64,
    pm: i64,
    minute: i64,
    second: i64,
    seconds_of_day: i64,
    day_of_week: i64,
    day: i64,
    day_of_year: i64,
    month: i64,
    milliseconds: i64,
    microseconds: i64,
    year: i64,
    bc: i64,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    digits: Option<u32>,
    year_digits: usize,
    twelve_hours: bool,
    zone_sign: i64,
    zone_hour: i64,
    zone_minute: i64,
}

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
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
const ROMAN: [&str; 12] = ["xii", "xi", "x", "ix", "viii", "vii", "vi", "v", "iv", "iii", "ii", "i"];

fn wrong_format(message: String) -> SqlError {
    SqlError::new("22007", message)
}

fn out_of_range(text: &str) -> SqlError {
    SqlError::new("22008", format!("date/time field value out of range: \"{text}\""))
}

fn is_separator(c: char) -> bool {
    c.is_ascii_punctuation()
}

/// Separators of the SQL standard's templates.
const STANDARD_SEPARATORS: &str = "-./,':; ";

/// `strict`: as the SQL standard has templates.
fn nodes(template: &str, strict: bool) -> Result<Vec<Node>, SqlError> {
    let mut out = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let mut fill = false;
        for prefix in ["FM", "fm", "TM", "tm"] {
            if let Some(behind) = rest.strip_prefix(prefix) {
                fill = prefix.eq_ignore_ascii_case("fm");
                rest = behind;
                break;
            }
        }
        if let Some((name, written)) = pattern(rest) {
            rest = &rest[written.len()..];
            let mut ordinal = false;
            for suffix in ["TH", "th", "SP"] {
                if let Some(behind) = rest.strip_prefix(suffix) {
                    ordinal = suffix != "SP";
                    rest = behind;
                    break;
                }
            }
            out.push(Node::Pattern { name, fill, ordinal });
        } else if let Some(behind) = rest.strip_prefix('"') {
            rest = quoted(behind, |c| out.push(Node::Char(c)));
        } else if strict {
            let Some(c) = rest.chars().next() else { break };
            if !STANDARD_SEPARATORS.contains(c) {
                return Err(wrong_format(format!("invalid datetime format separator: \"{c}\"")));
            }
            out.push(Node::Separator(c));
            rest = &rest[c.len_utf8()..];
        } else {
            if rest.starts_with("\\\"") {
                rest = &rest[1..];
            }
            if let Some(c) = rest.chars().next() {
                out.push(if is_separator(c) || c.is_ascii_whitespace() { Node::Separator(c) } else { Node::Char(c) });
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Ok(out)
}

/// Whether a pattern's text begins with a digit.
fn is_digit(name: &str) -> bool {
    !matches!(name, "A.D." | "AD" | "A.M." | "AM" | "B.C." | "BC" | "P.M." | "PM" | "FX" | "OF" | "RM" | "TZH" | "TZ")
        && !name.starts_with("FF")
        && !matches!(name.to_ascii_uppercase().as_str(), "DAY" | "DY" | "MONTH" | "MON")
}

fn mode_of(name: &str) -> Option<Mode> {
    match name {
        "IDDD" | "ID" | "IW" | "IYYY" | "IYY" | "IY" | "I" => Some(Mode::IsoWeek),
        "DDD" | "DD" | "D" | "MM" | "RM" | "WW" | "W" | "Y,YYY" | "YYYY" | "YYY" | "YY" | "Y" => Some(Mode::Gregorian),
        name if matches!(name.to_ascii_uppercase().as_str(), "MONTH" | "MON") => Some(Mode::Gregorian),
        _ => None,
    }
}

/// What is said where a field is shorter than its pattern.
const NOT_FIXED: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// The text that is read.
struct Source<'t> {
    rest: &'t str,
    /// Characters that were skipped beyond those of the template.
    extra: i64,
    /// The last character that was skipped.
    last: Option<char>,
}

impl Source<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.last = Some(c);
        Some(c)
    }

    fn skip_blanks(&mut self) {
        while self.rest.starts_with(|c: char| c.is_ascii_whitespace()) {
            self.next();
            self.extra += 1;
        }
    }

    /// A whole number; its value and how many bytes it took, blanks before it included.
    fn number(&mut self, name: &str, length: usize, greedy: bool) -> Result<(i64, usize), SqlError> {
        let begin = self.rest;
        let text = begin.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let digits = |text: &str| {
            let signed = usize::from(text.starts_with(['+', '-']));
            let count = text[signed..].bytes().take_while(u8::is_ascii_digit).count();
            if count == 0 { 0 } else { signed + count }
        };
        let shown: String = text.chars().take(length).collect();
        let used = match greedy {
            true => digits(text),
            false => {
                if text.len() < length {
                    let left = text.len();
                    return Err(wrong_format(format!("source string too short for \"{name}\" formatting field"))
                        .with_detail(format!("Field requires {length} characters, but only {left} remain."))
                        .with_hint(NOT_FIXED));
                }
                let used = digits(text).min(digits(&shown));
                if used > 0 && used < length {
                    return Err(wrong_format(format!("invalid value \"{shown}\" for \"{name}\""))
                        .with_detail(format!("Field requires {length} characters, but only {used} could be parsed."))
                        .with_hint(NOT_FIXED));
                }
                used
            }
        };
        self.rest = match used == 0 && greedy {
            true => begin,
            false => &text[used..],
        };
        let taken = begin.len() - self.rest.len();
        if taken == 0 {
            return Err(wrong_format(format!("invalid value \"{shown}\" for \"{name}\""))
                .with_detail("Value must be an integer."));
        }
        let value = match &text[..used] {
            "" => Some(0),
            digits => digits.trim_start_matches('+').parse::<i64>().ok(),
        };
        let value = value
            .filter(|value| i32::try_from(*value).is_ok())
            .ok_or_else(|| SqlError::new("22008", format!("value for \"{name}\" in source string is out of range")))?;
        Ok((value, taken))
    }

    /// Which of some words comes next.
    fn word(&mut self, name: &str, words: impl Iterator<Item = &'static str>) -> Result<i64, SqlError> {
        for (at, word) in words.enumerate() {
            if self.rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)) {
                self.rest = &self.rest[word.len()..];
                return Ok(at as i64);
            }
        }
        let shown = self.rest.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
        Err(wrong_format(format!("invalid value \"{shown}\" for \"{name}\"")))
    }
}

/// Sets a field that may be said only once, or twice alike.
fn set(field: &mut i64, value: i64, name: &str) -> Result<(), SqlError> {
    if *field != 0 && *field != value {
        return Err(wrong_format(format!("conflicting values for \"{name}\" field in formatting string")));
    }
    *field = value;
    Ok(())
}

/// A year of one to three digits: that which is nearest to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

fn read(text: &str, nodes: &[Node], strict: bool) -> Result<Fields, SqlError> {
    let mut out = Fields::default();
    let mut source = Source { rest: text, extra: 0, last: None };
    let mut fixed = strict;
    let mut matched = 0;
    for (at, node) in nodes.iter().enumerate() {
        if source.rest.is_empty() {
            break;
        }
        matched = at + 1;
        let action = matches!(node, Node::Pattern { .. });
        if !fixed && !matches!(node, Node::Pattern { name: "FX", .. }) && (action || at == 0) {
            source.skip_blanks();
        }
        let (name, fill, ordinal) = match *node {
            Node::Separator(c) if strict => {
                if source.next() != Some(c) {
                    return Err(wrong_format(format!("unmatched format separator \"{c}\"")));
                }
                continue;
            }
            Node::Separator(_) if fixed => {
                source.next();
                continue;
            }
            Node::Separator(_) => {
                source.extra -= 1;
                if source.rest.starts_with(|c: char| c.is_ascii_whitespace() || is_separator(c)) {
                    source.next();
                    source.extra += 1;
                }
                continue;
            }
            Node::Char(c) if strict => {
                if source.next() != Some(c) {
                    return Err(wrong_format(format!("unmatched format character \"{c}\"")));
                }
                continue;
            }
            Node::Char(_) => {
                if !fixed && source.extra > 0 {
                    source.extra -= 1;
                } else {
                    source.next();
                }
                continue;
            }
            Node::Pattern { name, fill, ordinal } => (name, fill, ordinal),
        };
        if let Some(mode) = mode_of(name) {
            match out.mode {
                None => out.mode = Some(mode),
                Some(known) if known != mode => {
                    return Err(wrong_format("invalid combination of date conventions".to_owned())
                        .with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
                }
                Some(_) => {}
            }
        }
        // As many digits as there are, if nothing with digits follows.
        let greedy = fill
            || ordinal
            || match nodes.get(at + 1) {
                None => true,
                Some(Node::Pattern { name, .. }) => !is_digit(name),
                Some(Node::Char(c)) => !c.is_ascii_digit(),
                Some(Node::Separator(_)) => true,
            };
        let mut numbered = true;
        let upper = name.to_ascii_uppercase();
        match upper.as_str() {
            "FX" => {
                fixed = true;
                numbered = false;
            }
            "A.M." | "P.M." | "AM" | "PM" => {
                let words: [&str; 2] = if name.contains('.') { ["a.m.", "p.m."] } else { ["am", "pm"] };
                let value = source.word(name, words.into_iter())?;
                set(&mut out.pm, value, name)?;
                out.twelve_hours = true;
                numbered = false;
            }
            "A.D." | "B.C." | "AD" | "BC" => {
                let words: [&str; 2] = if name.contains('.') { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                let value = source.word(name, words.into_iter())?;
                set(&mut out.bc, value, name)?;
                numbered = false;
            }
            "MONTH" => {
                let value = source.word(name, MONTHS.into_iter())?;
                set(&mut out.month, value + 1, name)?;
                numbered = false;
            }
            "MON" => {
                let value = source.word(name, MONTHS.iter().map(|month| &month[..3]))?;
                set(&mut out.month, value + 1, name)?;
                numbered = false;
            }
            "DAY" => {
                let value = source.word(name, DAYS.into_iter())?;
                set(&mut out.day_of_week, value, name)?;
                out.day_of_week += 1;
                numbered = false;
            }
            "DY" => {
                let value = source.word(name, DAYS.iter().map(|day| &day[..3]))?;
                set(&mut out.day_of_week, value, name)?;
                out.day_of_week += 1;
                numbered = false;
            }
            "RM" => {
                let value = source.word(name, ROMAN.into_iter())?;
                set(&mut out.month, 12 - value, name)?;
                numbered = false;
            }
            "TZ" | "OF" => {
                return Err(SqlError::unsupported(format!("formatting field \"{name}\" is only supported in to_char")));
            }
            "TZH" => {
                out.zone_sign = match source.rest.chars().next() {
                    Some(sign @ ('+' | '-' | ' ')) => {
                        source.next();
                        if sign == '-' { -1 } else { 1 }
                    }
                    _ if source.extra > 0 && source.last == Some('-') => -1,
                    _ => 1,
                };
                let (value, _) = source.number(name, 2, greedy)?;
                set(&mut out.zone_hour, value, name)?;
                numbered = false;
            }
            "TZM" => {
                if out.zone_sign == 0 {
                    out.zone_sign = 1;
                }
                let (value, _) = source.number(name, 2, greedy)?;
                set(&mut out.zone_minute, value, name)?;
                numbered = false;
            }
            "MS" => {
                let (value, length) = source.number(name, 3, greedy)?;
                set(&mut out.milliseconds, value, name)?;
                out.milliseconds *= [1, 100, 10].get(length).copied().unwrap_or(1);
            }
            "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let width = name.strip_prefix("FF").and_then(|digits| digits.parse::<u32>().ok());
                out.digits = width.or(out.digits);
                let (value, length) = source.number(name, width.unwrap_or(6) as usize, greedy)?;
                set(&mut out.microseconds, value, name)?;
                let power = [1, 100_000, 10_000, 1000, 100, 10].get(length).copied().unwrap_or(1);
                out.microseconds = out.microseconds.saturating_mul(power);
            }
            "Y,YYY" => {
                let error = || wrong_format("invalid input string for \"Y,YYY\"".to_owned());
                let (thousands, rest) = source.rest.split_once(',').ok_or_else(error)?;
                let digits = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
                let thousands: i64 = thousands.trim().parse().map_err(|_| error())?;
                let years: i64 = rest[..digits].parse().map_err(|_| error())?;
                source.rest = &rest[digits..];
                let year = thousands.checked_mul(1000).and_then(|year| year.checked_add(years)).ok_or_else(error)?;
                set(&mut out.year, year, name)?;
                out.year_digits = 4;
            }
            "YYYY" | "IYYY" | "YYY" | "IYY" | "YY" | "IY" | "Y" | "I" => {
                let (value, length) = source.number(name, name.len(), greedy)?;
                set(&mut out.year, value, name)?;
                if name.len() < 4 && length < 4 {
                    out.year = near_2020(out.year);
                }
                out.year_digits = name.len();
            }
            upper => {
                let length = match upper {
                    "HH24" | "HH12" | "HH" => 2,
                    upper => upper.len(),
                };
                let (value, _) = source.number(name, length, greedy)?;
                let field = match upper {
                    "HH12" | "HH" => {
                        out.twelve_hours = true;
                        &mut out.hour
                    }
                    "HH24" => &mut out.hour,
                    "MI" => &mut out.minute,
                    "SS" => &mut out.second,
                    "SSSS" | "SSSSS" => &mut out.seconds_of_day,
                    "MM" => &mut out.month,
                    "DDD" | "IDDD" => &mut out.day_of_year,
                    "DD" => &mut out.day,
                    "D" | "ID" => &mut out.day_of_week,
                    "WW" | "IW" => &mut out.week,
                    "W" => &mut out.week_of_month,
                    "CC" => &mut out.century,
                    "J" => &mut out.julian,
                    // A quarter says nothing.
                    "Q" => &mut 0,
                    _ => return Err(SqlError::unsupported(format!("formatting field \"{name}\" is not supported"))),
                };
                set(field, value, name)?;
                if upper == "ID" {
                    out.day_of_week = if value + 1 > 7 { 1 } else { value + 1 };
                }
            }
        }
        if numbered && ordinal {
            source.next();
            source.next();
        }
        if !fixed {
            source.extra = 0;
            source.skip_blanks();
        }
    }
    if strict {
        if matched < nodes.len() {
            return Err(wrong_format("input string is too short for datetime format".to_owned()));
        }
        source.skip_blanks();
        if !source.rest.is_empty() {
            let message = "trailing characters remain in input string after datetime format";
            return Err(wrong_format(message.to_owned()));
        }
    }
    Ok(out)
}

/// Days since 1970 of the Monday of an ISO week.
fn iso_week(year: i64, week: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7) + (week - 1) * 7
}

/// A text by a template.
///
/// # Errors
/// 22007, 22008, 22009 as PostgreSQL has them.
pub(super) fn parse(text: &str, template: &str) -> Result<Parsed, SqlError> {
    parsed(text, read(text, &nodes(template, false)?, false)?)
}

/// What kinds of fields a template has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds {
    pub dated: bool,
    pub timed: bool,
    pub zoned: bool,
}

/// A text by a template as the SQL standard has them: separators are those of the template, and nothing is left out or over.
///
/// # Errors
/// 22007, 22008, 22009, 0A000 as PostgreSQL has them.
pub(crate) fn parse_strict(text: &str, template: &str) -> Result<(Parsed, Kinds), SqlError> {
    let nodes = nodes(template, true)?;
    let fields = read(text, &nodes, true)?;
    let mut kinds = Kinds::default();
    for node in &nodes {
        let Node::Pattern { name, .. } = node else { continue };
        match name.to_ascii_uppercase().as_str() {
            "FX" => {}
            "TZ" | "OF" => {
                return Err(SqlError::unsupported(format!("formatting field \"{name}\" is only supported in to_char")));
            }
            "TZH" | "TZM" => kinds.zoned = true,
            "A.M." | "P.M." | "AM" | "PM" | "HH" | "HH12" | "HH24" | "MI" | "SS" | "MS" | "US" | "SSSS" | "SSSSS" => {
                kinds.timed = true;
            }
            name if name.starts_with("FF") => kinds.timed = true,
            // PostgreSQL takes it for neither.
            "IW" => {}
            _ => kinds.dated = true,
        }
    }
    Ok((parsed(text, fields)?, kinds))
}

fn parsed(text: &str, mut f: Fields) -> Result<Parsed, SqlError> {
    let mut out = Parsed { month: 1, day: 1, digits: f.digits, ..Parsed::default() };
    let (mut hour, mut minute, mut second) = (0, 0, 0);
    if f.seconds_of_day != 0 {
        (hour, minute) = (f.seconds_of_day / 3600, f.seconds_of_day / 60 % 60);
        second = f.seconds_of_day % 60;
    }
    for (to, from) in [(&mut second, f.second), (&mut minute, f.minute), (&mut hour, f.hour)] {
        if from != 0 {
            *to = from;
        }
    }
    if f.twelve_hours {
        if !(1..=12).contains(&hour) {
            return Err(wrong_format(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        hour = hour % 12 + if f.pm != 0 { 12 } else { 0 };
    }
    let (mut has_year, mut has_month, mut has_day) = (false, false, false);
    if f.year != 0 {
        if f.century != 0 && f.year_digits <= 2 {
            if f.bc != 0 {
                f.century = -f.century;
            }
            out.year = match (f.year % 100, f.century >= 0) {
                (0, true) => f.century * 100,
                (0, false) => f.century * 100 + 1,
                (year, true) => year + (f.century - 1) * 100,
                (year, false) => (f.century + 1) * 100 - year + 1,
            };
        } else {
            out.year = if f.bc != 0 { -f.year } else { f.year };
            if out.year < 0 {
                out.year += 1;
            }
        }
        has_year = true;
    } else if f.century != 0 {
        if f.bc != 0 {
            f.century = -f.century;
        }
        out.year = if f.century >= 0 { (f.century - 1) * 100 + 1 } else { f.century * 100 + 1 };
        has_year = true;
    }
    let set_days = |out: &mut Parsed, days: i64| {
        let (year, month, day) = civil_from_days(days);
        (out.year, out.month, out.day) = (year, month.into(), day.into());
    };
    if f.julian != 0 {
        set_days(&mut out, f.julian - 2_440_588);
        (has_year, has_month, has_day) = (true, true, true);
    }
    if f.week != 0 {
        if f.mode == Some(Mode::IsoWeek) {
            // Days of the week count from Sunday as 1 here.
            let day = match f.day_of_week {
                0 => 0,
                1 => 6,
                day => day - 2,
            };
            let monday = iso_week(out.year, f.week);
            set_days(&mut out, monday + day);
            (has_year, has_month, has_day) = (true, true, true);
        } else {
            f.day_of_year = (f.week - 1) * 7 + 1;
        }
    }
    if f.week_of_month != 0 {
        f.day = (f.week_of_month - 1) * 7 + 1;
    }
    if f.day != 0 {
        (out.day, has_day) = (f.day, true);
    }
    if f.month != 0 {
        (out.month, has_month) = (f.month, true);
    }
    if f.day_of_year != 0 && (out.month <= 1 || out.day <= 1) {
        if out.year == 0 && f.bc == 0 {
            return Err(wrong_format("cannot calculate day of year without year information".to_owned()));
        }
        if f.mode == Some(Mode::IsoWeek) {
            let zeroth = iso_week(out.year, 1) - 1;
            set_days(&mut out, zeroth + f.day_of_year);
            has_year = true;
        } else {
            let (mut month, mut before) = (1, 0);
            while month <= 12 {
                let length = i64::from(month_days(out.year, month as u32));
                if f.day_of_year <= before + length {
                    break;
                }
                before += length;
                month += 1;
            }
            // Beyond the last month the day is counted from its end.
            if out.month <= 1 {
                out.month = month;
            }
            if out.day <= 1 {
                out.day = f.day_of_year - before;
            }
        }
        (has_month, has_day) = (true, true);
    }
    let _ = has_year;
    if has_month && !(1..=12).contains(&out.month) || has_day && !(1..=31).contains(&out.day) {
        return Err(out_of_range(text));
    }
    if has_year && has_month && has_day && out.day > month_days(out.year, out.month as u32).into() {
        return Err(out_of_range(text));
    }
    let micros = f.milliseconds.saturating_mul(1000).saturating_add(f.microseconds);
    if !(0..24).contains(&hour)
        || !(0..60).contains(&minute)
        || !(0..60).contains(&second)
        || !(0..SECOND_US).contains(&micros)
    {
        return Err(out_of_range(text));
    }
    out.time_us = (hour * 3600 + minute * 60 + second) * SECOND_US + micros;
    if f.zone_sign != 0 {
        if !(0..=15).contains(&f.zone_hour) || !(0..60).contains(&f.zone_minute) {
            return Err(SqlError::new("22009", format!("time zone displacement out of range: \"{text}\"")));
        }
        out.offset = Some((f.zone_sign * (f.zone_hour * 3600 + f.zone_minute * 60)) as i32);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, template: &str) -> Result<String, String> {
        let p = parse(text, template).map_err(|error| error.into_fields().sqlstate)?;
        let s = p.time_us / SECOND_US;
        let us = p.time_us % SECOND_US;
        Ok(format!("{}-{}-{} {}:{}:{}.{us:06}", p.year, p.month, p.day, s / 3600, s / 60 % 60, s % 60))
    }

    #[test]
    fn texts_by_templates() {
        for (text, template, out) in [
            ("2024-02-09", "YYYY-MM-DD", "2024-2-9 0:0:0.000000"),
            ("09 Feb 2024", "DD Mon YYYY", "2024-2-9 0:0:0.000000"),
            ("20240229131415", "YYYYMMDDHH24MISS", "2024-2-29 13:14:15.000000"),
            ("13:14:15.678", "HH24:MI:SS.MS", "0-1-1 13:14:15.678000"),
            ("995-1116", "YYY-MMDD", "1995-11-16 0:0:0.000000"),
            ("2005-52-7", "IYYY-IW-ID", "2006-1-1 0:0:0.000000"),
            ("2024 60", "YYYY DDD", "2024-2-29 0:0:0.000000"),
            ("2000January09Sunday", "YYYYFMMonthDDFMDay", "2000-1-9 0:0:0.000000"),
            ("44-02-01 BC", "YYYY-MM-DD BC", "-43-2-1 0:0:0.000000"),
            ("01:02 PM", "HH12:MI PM", "0-1-1 13:2:0.000000"),
            ("VIII 2020", "RM YYYY", "2020-8-1 0:0:0.000000"),
        ] {
            assert_eq!(shown(text, template).as_deref(), Ok(out), "{text}");
        }
        for (text, template, state) in [
            ("x", "YYYY", "22007"),
            ("2024-13-01", "YYYY-MM-DD", "22008"),
            ("2015 366", "YYYY DDD", "22008"),
            ("15:02", "HH:MI", "22007"),
            ("10000000000", "FMYYYY", "22008"),
            ("1997-11-Jan-16", "YYYY-MM-Mon-DD", "22007"),
            ("2024 5", "YYYY IW", "22007"),
            ("2024", "TZ", "0A000"),
        ] {
            assert_eq!(shown(text, template), Err(state.to_owned()), "{text}");
        }
        assert_eq!(parse("2011-12-18 11:38 -05", "YYYY-MM-DD HH24:MI TZH").expect("time").offset, Some(-18_000));
    }
}
