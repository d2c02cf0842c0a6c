//! `to_char`, `to_date`, `to_timestamp` with PostgreSQL's template patterns.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, TimeUnit, TimestampMicrosecondType};

use super::define::{P, PgFunction, f, oid};
use crate::pg::arrow::cast_array;
use crate::pg::context::PgContext;
use crate::pg::datetime::{DAY_US, SECOND_US, Zone, civil_from_days, days_from_civil, month_days};
use crate::pg::types::oid as t;
use crate::wire::SqlError;

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

/// Patterns, longer ones before their prefixes.
const PATTERNS: &[&str] = &[
    "HH24", "HH12", "YYYY", "IYYY", "MONTH", "Month", "month", "Y,YYY", "SSSSS", "SSSS", "A.M.", "P.M.", "a.m.",
    "p.m.", "B.C.", "A.D.", "YYY", "IYY", "DAY", "Day", "day", "MON", "Mon", "mon", "DDD", "TZH", "TZM", "OF", "HH",
    "MI", "SS", "MS", "US", "YY", "IY", "MM", "DD", "DY", "Dy", "dy", "ID", "WW", "IW", "CC", "AM", "PM", "am", "pm",
    "BC", "AD", "TZ", "tz", "FM", "TH", "th", "RM", "Y", "D", "W", "Q", "J",
];

enum Token<'a> {
    Pattern(&'static str),
    Literal(&'a str),
}

fn tokens(template: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.push(Token::Literal(&quoted[..end]));
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        let pattern = PATTERNS.iter().find(|pattern| {
            rest.starts_with(**pattern)
                || (!pattern.bytes().any(|b| b.is_ascii_lowercase())
                    && !matches!(**pattern, "MONTH" | "DAY" | "MON" | "DY" | "AM" | "PM" | "TH" | "TZ")
                    && rest.get(..pattern.len()).is_some_and(|head| head.eq_ignore_ascii_case(pattern)))
        });
        match pattern {
            Some(pattern) => {
                out.push(Token::Pattern(pattern));
                rest = &rest[pattern.len()..];
            }
            None => {
                let end = rest.char_indices().nth(1).map_or(rest.len(), |(at, _)| at);
                out.push(Token::Literal(&rest[..end]));
                rest = &rest[end..];
            }
        }
    }
    out
}

/// ISO week-numbering year and week of a day number.
fn iso_week(days: i64) -> (i64, i64) {
    let weekday = (days + 3).rem_euclid(7); // Monday = 0
    let thursday = days - weekday + 3;
    let (year, _, _) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// A local time by a template; `offset` is the zone's, in seconds, for instants.
fn format_time(us: i64, offset: Option<i32>, template: &str) -> String {
    let days = us.div_euclid(DAY_US);
    let time = us.rem_euclid(DAY_US);
    let (year, month, day) = civil_from_days(days);
    let shown_year = if year <= 0 { 1 - year } else { year };
    let (hour, minute, second) = (time / (3600 * SECOND_US), time / (60 * SECOND_US) % 60, time / SECOND_US % 60);
    let micros = time % SECOND_US;
    let weekday = (days + 4).rem_euclid(7) as usize; // Sunday = 0
    let day_of_year = days - days_from_civil(year, 1, 1) + 1;
    let mut out = String::new();
    let mut fill = true;
    let mut last_number = 0i64;
    for token in tokens(template) {
        let pattern = match token {
            Token::Literal(text) => {
                out.push_str(text);
                continue;
            }
            Token::Pattern(pattern) => pattern,
        };
        let mut number = |out: &mut String, value: i64, width: usize| {
            last_number = value;
            if fill {
                out.push_str(&format!("{value:0width$}"))
            } else {
                out.push_str(&value.to_string())
            }
            fill = true;
        };
        let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
        match pattern {
            "FM" => {
                fill = false;
                continue;
            }
            "HH24" => number(&mut out, hour, 2),
            "HH" | "HH12" => number(&mut out, hour12, 2),
            "MI" => number(&mut out, minute, 2),
            "SS" => number(&mut out, second, 2),
            "MS" => number(&mut out, micros / 1000, 3),
            "US" => number(&mut out, micros, 6),
            "SSSS" | "SSSSS" => number(&mut out, time / SECOND_US, 1),
            "YYYY" => number(&mut out, shown_year, 4),
            "Y,YYY" => out.push_str(&format!("{},{:03}", shown_year / 1000, shown_year % 1000)),
            "YYY" => number(&mut out, shown_year % 1000, 3),
            "YY" => number(&mut out, shown_year % 100, 2),
            "Y" => number(&mut out, shown_year % 10, 1),
            "IYYY" => number(&mut out, iso_week(days).0, 4),
            "IYY" => number(&mut out, iso_week(days).0 % 1000, 3),
            "IY" => number(&mut out, iso_week(days).0 % 100, 2),
            "IW" => number(&mut out, iso_week(days).1, 2),
            "WW" => number(&mut out, (day_of_year - 1) / 7 + 1, 2),
            "W" => number(&mut out, (i64::from(day) - 1) / 7 + 1, 1),
            "CC" => number(&mut out, (shown_year + 99) / 100, 2),
            "Q" => number(&mut out, (i64::from(month) - 1) / 3 + 1, 1),
            "MM" => number(&mut out, month.into(), 2),
            "DD" => number(&mut out, day.into(), 2),
            "DDD" => number(&mut out, day_of_year, 3),
            "D" => number(&mut out, weekday as i64 + 1, 1),
            "ID" => number(&mut out, if weekday == 0 { 7 } else { weekday as i64 }, 1),
            "J" => number(&mut out, days + 2_440_588, 1),
            "MONTH" | "Month" | "month" | "DAY" | "Day" | "day" => {
                let name =
                    if pattern.eq_ignore_ascii_case("month") { MONTHS[month as usize - 1] } else { DAYS[weekday] };
                let name = cased(name, pattern);
                if fill {
                    out.push_str(&format!("{name:<9}"))
                } else {
                    out.push_str(&name)
                }
                fill = true;
            }
            "MON" | "Mon" | "mon" => out.push_str(&cased(&MONTHS[month as usize - 1][..3], pattern)),
            "DY" | "Dy" | "dy" => out.push_str(&cased(&DAYS[weekday][..3], pattern)),
            "RM" => out.push_str(
                ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"][month as usize - 1],
            ),
            "AM" | "PM" => out.push_str(if hour >= 12 { "PM" } else { "AM" }),
            "am" | "pm" => out.push_str(if hour >= 12 { "pm" } else { "am" }),
            "A.M." | "P.M." => out.push_str(if hour >= 12 { "P.M." } else { "A.M." }),
            "a.m." | "p.m." => out.push_str(if hour >= 12 { "p.m." } else { "a.m." }),
            "BC" | "AD" => out.push_str(if year <= 0 { "BC" } else { "AD" }),
            "B.C." | "A.D." => out.push_str(if year <= 0 { "B.C." } else { "A.D." }),
            "TH" | "th" => {
                let suffix = match (last_number % 100, last_number % 10) {
                    (11..=13, _) => "th",
                    (_, 1) => "st",
                    (_, 2) => "nd",
                    (_, 3) => "rd",
                    _ => "th",
                };
                out.push_str(&if pattern == "TH" { suffix.to_uppercase() } else { suffix.to_owned() });
            }
            "TZ" | "tz" | "OF" | "TZH" | "TZM" => {
                if let Some(offset) = offset {
                    let sign = if offset < 0 { '-' } else { '+' };
                    let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
                    match pattern {
                        "TZH" => out.push_str(&format!("{sign}{hours:02}")),
                        "TZM" => out.push_str(&format!("{minutes:02}")),
                        _ if offset == 0 && pattern != "OF" => {
                            out.push_str(if pattern == "TZ" { "UTC" } else { "utc" });
                        }
                        _ if minutes == 0 => out.push_str(&format!("{sign}{hours:02}")),
                        _ => out.push_str(&format!("{sign}{hours:02}:{minutes:02}")),
                    }
                }
            }
            _ => {}
        }
    }
    out
}

fn cased(name: &str, pattern: &str) -> String {
    let mut chars = pattern.chars();
    match (chars.next(), chars.next()) {
        (Some(first), _) if first.is_lowercase() => name.to_lowercase(),
        (_, Some(second)) if second.is_uppercase() => name.to_uppercase(),
        _ => name.to_owned(),
    }
}

/// A text by a template, as a local time.
fn parse_time(text: &str, template: &str) -> Result<i64, SqlError> {
    let (mut year, mut month, mut day): (i64, i64, i64) = (1, 1, 1);
    let (mut hour, mut minute, mut second, mut micros) = (0i64, 0i64, 0i64, 0i64);
    let mut pm: Option<bool> = None;
    let mut day_of_year: Option<i64> = None;
    let mut rest = text.trim_start();
    let bad = |pattern: &str, rest: &str| {
        let shown: String = rest.chars().take(pattern.len().max(1)).collect();
        SqlError::new("22007", format!("invalid value \"{shown}\" for \"{pattern}\""))
    };
    for token in tokens(template) {
        let pattern = match token {
            Token::Literal(_) => {
                // any separator in the text stands for any in the template
                if let Some(c) = rest.chars().next()
                    && !c.is_alphanumeric()
                {
                    rest = &rest[c.len_utf8()..];
                }
                continue;
            }
            Token::Pattern(pattern) => pattern,
        };
        rest = rest.trim_start();
        let number = |rest: &mut &str, width: usize| -> Result<i64, SqlError> {
            let end = rest.bytes().take(width).take_while(u8::is_ascii_digit).count();
            let value = rest[..end].parse().map_err(|_| bad(pattern, rest))?;
            *rest = &rest[end..];
            Ok(value)
        };
        match pattern {
            "YYYY" | "IYYY" => {
                let end = rest
                    .bytes()
                    .take_while(u8::is_ascii_digit)
                    .count()
                    .min(if template.contains('-') || template.contains('/') { 6 } else { 4 });
                year = rest[..end].parse().map_err(|_| bad(pattern, rest))?;
                rest = &rest[end..];
            }
            "YYY" => year = 2000 + number(&mut rest, 3)?,
            "YY" => {
                let value = number(&mut rest, 2)?;
                year = if value < 70 { 2000 + value } else { 1900 + value };
            }
            "MM" => month = number(&mut rest, 2)?,
            "DD" => day = number(&mut rest, 2)?,
            "DDD" => day_of_year = Some(number(&mut rest, 3)?),
            "HH24" => hour = number(&mut rest, 2)?,
            "HH" | "HH12" => {
                hour = number(&mut rest, 2)?;
                pm = pm
                    .or(Some(false))
                    .filter(|_| template.to_ascii_lowercase().contains('m') && template.contains(['A', 'P', 'a', 'p']));
            }
            "MI" => minute = number(&mut rest, 2)?,
            "SS" => second = number(&mut rest, 2)?,
            "MS" | "US" => {
                let width = if pattern == "MS" { 3 } else { 6 };
                let end = rest.bytes().take(width).take_while(u8::is_ascii_digit).count();
                let value: i64 = rest[..end].parse().map_err(|_| bad(pattern, rest))?;
                micros = value * 10i64.pow((6 - end) as u32);
                rest = &rest[end..];
            }
            "MON" | "Mon" | "mon" | "MONTH" | "Month" | "month" => {
                let lower = rest.to_ascii_lowercase();
                let full = pattern.len() > 3;
                let found = MONTHS.iter().position(|name| {
                    let name = name.to_ascii_lowercase();
                    lower.starts_with(if full { name.as_str() } else { &name[..3] })
                });
                let at = found.ok_or_else(|| bad(pattern, rest))?;
                month = at as i64 + 1;
                rest = rest.get(if full { MONTHS[at].len() } else { 3 }..).unwrap_or("");
            }
            "DAY" | "Day" | "day" | "DY" | "Dy" | "dy" => {
                let end = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
                rest = &rest[end..];
            }
            "AM" | "PM" | "am" | "pm" | "A.M." | "P.M." | "a.m." | "p.m." => {
                let lower = rest.to_ascii_lowercase();
                pm = Some(if lower.starts_with('p') {
                    true
                } else if lower.starts_with('a') {
                    false
                } else {
                    return Err(bad(pattern, rest));
                });
                rest = rest.get(pattern.len()..).unwrap_or("");
            }
            "FM" => {}
            other => {
                return Err(SqlError::unsupported(format!("template pattern \"{other}\" is not supported for input")));
            }
        }
    }
    if let Some(pm) = pm {
        if !(1..=12).contains(&hour) {
            return Err(SqlError::new("22007", format!("hour \"{hour}\" is invalid for the 12-hour clock")));
        }
        hour = hour % 12 + if pm { 12 } else { 0 };
    }
    let wrong = || SqlError::new("22008", format!("date/time field value out of range: \"{text}\""));
    if !(1..=12).contains(&month) || !(1..=294_276).contains(&year) {
        return Err(wrong());
    }
    if day < 1 || day > i64::from(month_days(year, month as u32)) || hour > 24 || minute > 59 || second > 59 {
        return Err(wrong());
    }
    let days = match day_of_year {
        Some(n) if (1..=366).contains(&n) => days_from_civil(year, 1, 1) + n - 1,
        Some(_) => return Err(wrong()),
        None => days_from_civil(year, month as u32, day as u32),
    };
    Ok(days * DAY_US + (hour * 3600 + minute * 60 + second) * SECOND_US + micros)
}

/// A number by a template of `9`, `0`, `.`, `,`, `D`, `G`, `S`, `MI`, `PR`, `L`, `FM`, `%` literals.
fn format_number(value: i128, scale: i32, template: &str) -> Result<String, SqlError> {
    let upper = template.to_ascii_uppercase();
    let fill = !upper.contains("FM");
    let body: String = upper.replace("FM", "");
    let (sign_mode, body) = if let Some(rest) = body.strip_suffix("MI") {
        ("MI", rest.to_owned())
    } else if let Some(rest) = body.strip_suffix("PR") {
        ("PR", rest.to_owned())
    } else if let Some(rest) = body.strip_suffix('S') {
        ("S>", rest.to_owned())
    } else if let Some(rest) = body.strip_prefix('S') {
        ("S<", rest.to_owned())
    } else {
        ("", body)
    };
    if body.contains("EEEE") || body.contains("RN") || body.contains('V') {
        return Err(SqlError::unsupported(format!("number template \"{template}\" is not supported")));
    }
    let (whole, fraction) = match body.find(['.', 'D']) {
        Some(at) => (&body[..at], Some(&body[at + 1..])),
        None => (body.as_str(), None),
    };
    let places = fraction.map_or(0, |f| f.bytes().filter(|b| matches!(b, b'9' | b'0')).count());
    let rounded = crate::pg::decode::rescale(value, scale, 38, places as i8)?;
    let negative = rounded < 0;
    let digits = format!("{:0width$}", rounded.unsigned_abs(), width = places + 1);
    let (int_digits, fraction_digits) = digits.split_at(digits.len() - places);
    let int_digits = int_digits.trim_start_matches('0');
    let slots = whole.bytes().filter(|b| matches!(b, b'9' | b'0')).count();
    let overflow = int_digits.len() > slots;
    // from the first 0 on, digits are written even when they lead
    let first_zero = whole.bytes().filter(|b| matches!(b, b'9' | b'0')).position(|b| b == b'0');
    let mut out = String::new();
    let mut slot = 0;
    let mut started = false;
    for c in whole.chars() {
        match c {
            '9' | '0' => {
                let from_right = slots - slot;
                let digit = if overflow {
                    Some('#')
                } else if from_right <= int_digits.len() {
                    int_digits.as_bytes().get(int_digits.len() - from_right).map(|&b| char::from(b))
                } else if first_zero.is_some_and(|zero| slot >= zero) {
                    Some('0')
                } else {
                    None
                };
                match digit {
                    Some(digit) => {
                        started = true;
                        out.push(digit);
                    }
                    None if fill => out.push(' '),
                    None => {}
                }
                slot += 1;
            }
            ',' | 'G' => {
                if started {
                    out.push(',');
                } else if fill {
                    out.push(' ');
                }
            }
            'L' => out.push('$'),
            other => out.push(other),
        }
    }
    // zero before the point is written as 0 when there is a fraction of 9s only if a 0 asks for it
    if let Some(fraction) = fraction {
        out.push('.');
        let mut kept = fraction_digits.to_owned();
        if !fill {
            let slots: Vec<u8> = fraction.bytes().filter(|b| matches!(b, b'9' | b'0')).collect();
            let least = slots.iter().rposition(|&b| b == b'0').map_or(0, |at| at + 1);
            while kept.len() > least && kept.ends_with('0') {
                kept.pop();
            }
        }
        out.push_str(&if overflow { "#".repeat(places) } else { kept });
    }
    let sign_at = out.find(|c: char| c != ' ').unwrap_or(out.len());
    let out = match sign_mode {
        "MI" => format!(
            "{out}{}",
            if negative {
                "-"
            } else if fill {
                " "
            } else {
                ""
            }
        ),
        "PR" if negative => format!("{}<{}>", &out[..sign_at], &out[sign_at..]),
        "PR" => {
            if fill {
                format!(" {out} ")
            } else {
                out
            }
        }
        "S>" => format!("{out}{}", if negative { '-' } else { '+' }),
        "S<" => format!("{}{}{}", &out[..sign_at], if negative { '-' } else { '+' }, &out[sign_at..]),
        _ if negative => format!("{}-{}", &out[..sign_at], &out[sign_at..]),
        _ if fill => format!(" {out}"),
        _ => out,
    };
    Ok(out)
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let (first, second, third) = (cx.clone(), cx.clone(), cx.clone());
    vec![
        f("to_char", &[P::Any, P::Text], oid(t::TEXT), move |call| {
            let zone = first.zone();
            let array = &call.arrays[0];
            if array.data_type().is_numeric() {
                let scale: i8 = match array.data_type() {
                    DataType::Decimal128(_, scale) => *scale,
                    ty if ty.is_integer() => 0,
                    _ => 10,
                };
                let numbers = cast_array(array, &DataType::Decimal128(38, scale), t::NUMERIC, &zone)?;
                let numbers = numbers.as_primitive::<Decimal128Type>();
                return call.texts(|row| match call.text(1, row) {
                    Some(template) if !numbers.is_null(row) => {
                        format_number(numbers.value(row), scale.into(), template).map(Some)
                    }
                    _ => Ok(None),
                });
            }
            let instant = matches!(array.data_type(), DataType::Timestamp(_, Some(_)));
            if matches!(array.data_type(), DataType::Interval(_)) {
                return Err(SqlError::unsupported("to_char of an interval is not supported"));
            }
            let local = cast_array(array, &DataType::Timestamp(TimeUnit::Microsecond, None), t::TIMESTAMP, &zone)?;
            let local = local.as_primitive::<TimestampMicrosecondType>();
            call.texts(|row| match call.text(1, row) {
                Some(template) if !local.is_null(row) => {
                    let us = local.value(row);
                    let offset = instant.then(|| zone.offset_at(zone.local_to_utc(us)));
                    Ok(Some(format_time(us, offset, template)))
                }
                _ => Ok(None),
            })
        })
        .volatile(),
        f("to_date", &[P::Text, P::Text], oid(t::DATE), move |call| {
            let _ = &second;
            let out: Date32Array = (0..call.rows)
                .map(|row| match (call.text(0, row), call.text(1, row)) {
                    (Some(text), Some(template)) => {
                        parse_time(text, template).map(|us| Some(us.div_euclid(DAY_US) as i32))
                    }
                    _ => Ok(None),
                })
                .collect::<Result<_, SqlError>>()?;
            Ok(Arc::new(out) as ArrayRef)
        }),
        f("to_timestamp", &[P::Any, P::Text], oid(t::TIMESTAMPTZ), move |call| {
            let zone: Zone = third.zone();
            let array = &call.arrays[0];
            let out: TimestampMicrosecondArray = if call.given(1) {
                let texts = cast_array(array, &DataType::Utf8View, t::TEXT, &zone)?;
                let texts = texts.as_string_view();
                (0..call.rows)
                    .map(|row| match call.text(1, row) {
                        Some(template) if !texts.is_null(row) => {
                            parse_time(texts.value(row), template).map(|us| Some(zone.local_to_utc(us)))
                        }
                        _ => Ok(None),
                    })
                    .collect::<Result<_, SqlError>>()?
            } else {
                let seconds = cast_array(array, &DataType::Float64, t::FLOAT8, &zone)?;
                let seconds = seconds.as_primitive::<datafusion::arrow::datatypes::Float64Type>();
                seconds
                    .iter()
                    .map(|value| match value {
                        None => Ok(None),
                        Some(value) if value.abs() < 9.2e12 => Ok(Some((value * SECOND_US as f64).round() as i64)),
                        Some(value) => Err(SqlError::new("22008", format!("timestamp out of range: \"{value}\""))),
                    })
                    .collect::<Result<_, SqlError>>()?
            };
            Ok(Arc::new(out.with_timezone(crate::pg::types::UTC)) as ArrayRef)
        })
        .required(1)
        .volatile(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let us = days_from_civil(2024, 2, 9) * DAY_US + (15 * 3600 + 4 * 60 + 5) * SECOND_US + 123_456;
        for (template, shown) in [
            ("YYYY-MM-DD HH24:MI:SS", "2024-02-09 15:04:05"),
            ("yyyy-mm-dd", "2024-02-09"),
            ("HH12:MI AM", "03:04 PM"),
            ("Dy, DD Mon YYYY", "Fri, 09 Feb 2024"),
            ("FMMonth FMDDth", "February 9th"),
            ("Month", "February "),
            ("DDD Q WW IW", "040 1 06 06"),
            ("MS US", "123 123456"),
            ("\"year\" YY", "year 24"),
        ] {
            assert_eq!(format_time(us, None, template), shown, "{template}");
        }
    }

    #[test]
    fn parsing() {
        let at = days_from_civil(2024, 2, 9) * DAY_US;
        assert_eq!(parse_time("2024-02-09", "YYYY-MM-DD").expect("date"), at);
        assert_eq!(parse_time("09 Feb 2024", "DD Mon YYYY").expect("date"), at);
        assert_eq!(parse_time("20240209", "YYYYMMDD").expect("date"), at);
        assert_eq!(
            parse_time("2024/02/09 03:04 PM", "YYYY/MM/DD HH12:MI AM").expect("time"),
            at + (15 * 3600 + 240) * SECOND_US
        );
        assert_eq!(parse_time("x", "YYYY").unwrap_err().sqlstate, "22007");
        assert_eq!(parse_time("2024-13-01", "YYYY-MM-DD").unwrap_err().sqlstate, "22008");
    }

    #[test]
    fn numbers() {
        for (value, scale, template, shown) in [
            (1234, 0, "9999", " 1234"),
            (-1234, 0, "9999", "-1234"),
            (12, 0, "9999", "   12"),
            (12, 0, "0000", " 0012"),
            (123_456, 2, "9,999.99", " 1,234.56"),
            (123_456, 2, "FM9,999.99", "1,234.56"),
            (12345, 0, "999", " ###"),
            (15, 1, "FM990.0", "1.5"),
            (-5, 0, "999MI", "  5-"),
        ] {
            assert_eq!(format_number(value, scale, template).expect(template), shown, "{template}");
        }
    }
}
