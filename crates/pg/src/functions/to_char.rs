//! `to_char`, `to_date`, `to_timestamp` with PostgreSQL's template patterns.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};

use super::define::{P, PgFunction, f, oid};
use super::format_number::{self, Number};
use super::format_time::{self, Parts};
use super::numeric::column::{Numbers, numeric_error};
use crate::arrow::cast_array;
use crate::context::PgContext;
use crate::datetime::{DAY_US, SECOND_US, Zone, days_from_civil, month_days};
use crate::types::{oid as t, timestamptz};
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
/// Patterns, longer ones before their prefixes.
const PATTERNS: &[&str] = &[
    "HH24", "HH12", "YYYY", "IYYY", "MONTH", "Month", "month", "Y,YYY", "SSSSS", "SSSS", "A.M.", "P.M.", "a.m.",
    "p.m.", "B.C.", "A.D.", "YYY", "IYY", "DAY", "Day", "day", "MON", "Mon", "mon", "DDD", "TZH", "TZM", "OF", "HH",
    "MI", "SS", "MS", "US", "YY", "IY", "MM", "DD", "DY", "Dy", "dy", "ID", "WW", "IW", "CC", "AM", "PM", "am", "pm",
    "BC", "AD", "TZ", "tz", "FM", "TH", "th", "RM", "Y", "D", "W", "Q", "J",
];

enum Token {
    Pattern(&'static str),
    Literal,
}

fn tokens(template: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.push(Token::Literal);
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
                out.push(Token::Literal);
                rest = &rest[end..];
            }
        }
    }
    out
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
            Token::Literal => {
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

/// A column of numbers, value by value; `None` for other types.
fn numbers(array: &ArrayRef) -> Result<Option<impl Fn(usize) -> Result<Option<Number>, SqlError>>, SqlError> {
    let ty = array.data_type().clone();
    if !ty.is_numeric() && ty != super::numeric::DYNAMIC {
        return Ok(None);
    }
    let numbers = Numbers::of(array.as_ref())?;
    Ok(Some(move |row: usize| {
        let float = match &numbers {
            Numbers::Float64(values) if values.is_valid(row) => Some(Number::Float(values.value(row), false)),
            Numbers::Float32(values) if values.is_valid(row) => Some(Number::Float(values.value(row).into(), true)),
            _ => None,
        };
        if float.is_some() {
            return Ok(float);
        }
        let Some(value) = numbers.get(row)? else { return Ok(None) };
        Ok(Some(match ty.is_integer() {
            true => Number::Int(value.to_i64().map_err(numeric_error)?),
            false => Number::Numeric(value),
        }))
    }))
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let (first, second, third) = (cx.clone(), cx.clone(), cx.clone());
    vec![
        f("to_char", &[P::Any, P::Text], oid(t::TEXT), move |call| {
            let zone = first.zone();
            let array = &call.arrays[0];
            if let Some(number) = numbers(array)? {
                return call.texts(|row| match (number(row)?, call.text(1, row)) {
                    (Some(number), Some(template)) => format_number::format(&number, template).map(Some),
                    _ => Ok(None),
                });
            }
            if let DataType::Interval(_) | DataType::Duration(_) = array.data_type() {
                let values = cast_array(array, &DataType::Interval(IntervalUnit::MonthDayNano), t::INTERVAL, &zone)?;
                let values = values.as_primitive::<IntervalMonthDayNanoType>();
                return call.texts(|row| match call.text(1, row) {
                    Some(template) if values.is_valid(row) && !template.is_empty() => {
                        let value = values.value(row);
                        let parts = Parts::of_interval(value.months, value.days, value.nanoseconds / 1000);
                        format_time::format(&parts, template).map(Some)
                    }
                    _ => Ok(None),
                });
            }
            // A date is taken for an instant, as PostgreSQL prefers.
            let instant = matches!(array.data_type(), DataType::Timestamp(_, Some(_)) | DataType::Date32);
            let wanted = if instant { timestamptz() } else { DataType::Timestamp(TimeUnit::Microsecond, None) };
            let values = cast_array(array, &wanted, t::TIMESTAMP, &zone)?;
            let values = values.as_primitive::<TimestampMicrosecondType>();
            call.texts(|row| match call.text(1, row) {
                Some(template) if values.is_valid(row) && !template.is_empty() => {
                    let us = values.value(row);
                    // Infinite times have no fields.
                    if us == i64::MAX || us == i64::MIN {
                        return Ok(None);
                    }
                    let offset = if instant { zone.offset_at(us) } else { 0 };
                    let mut parts = Parts::of_local(us.saturating_add(i64::from(offset) * SECOND_US));
                    parts.offset = offset;
                    parts.zone = instant.then(|| zone.abbreviation(us));
                    format_time::format(&parts, template).map(Some)
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
            Ok(Arc::new(out.with_timezone(crate::types::UTC)) as ArrayRef)
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
            ("MS US FF1", "123 123456 1"),
            ("\"year\" YY", "year 24"),
            ("\"a\\\"b\" \\\"Q", "a\"b \"1"),
        ] {
            assert_eq!(format_time::format(&Parts::of_local(us), template).expect(template), shown, "{template}");
        }
        assert!(format_time::format(&Parts::of_interval(1, 0, 0), "Day").is_err());
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
            let value = Number::Numeric(resurgam_numeric::Numeric::from_scaled(value, scale).expect("number"));
            assert_eq!(format_number::format(&value, template).expect(template), shown, "{template}");
        }
    }
}
