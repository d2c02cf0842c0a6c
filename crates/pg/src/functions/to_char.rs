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
use super::parse_time::{self, Parsed};
use crate::arrow::cast_array;
use crate::context::PgContext;
use crate::datetime::{DAY_US, SECOND_US, Zone, days_from_civil, timestamp_in_range, us_from_engine, us_to_engine};
use crate::types::{oid as t, timestamptz};
use crate::wire::SqlError;

/// Days since 1970 of a date that there is.
fn local_day(parsed: &Parsed) -> Option<i64> {
    let days = days_from_civil(parsed.year, u32::try_from(parsed.month).ok()?, u32::try_from(parsed.day).ok()?);
    Some(days).filter(|days| (-2_440_588..=2_145_042_905).contains(days))
}

/// The instant that a text names, with as many digits of seconds as its template has.
fn timestamp(parsed: &Parsed, zone: &Zone) -> Result<i64, SqlError> {
    let out_of_range = || SqlError::new("22008", "timestamp out of range");
    let days = local_day(parsed).ok_or_else(out_of_range)?;
    let local = i128::from(days) * i128::from(DAY_US) + i128::from(parsed.time_us);
    let us = match parsed.offset {
        Some(east) => local - i128::from(east) * i128::from(SECOND_US),
        None => zone.wide_local_to_utc(local),
    };
    let us = timestamp_in_range(us, out_of_range)?;
    let unit = 10i64.pow(6 - parsed.digits.unwrap_or(6).min(6));
    let since_2000 = us_to_engine(us);
    Ok(us_from_engine(since_2000.saturating_add(unit / 2 * since_2000.signum()) / unit * unit))
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
                        let parsed = parse_time::parse(text, template)?;
                        local_day(&parsed)
                            .and_then(|days| i32::try_from(days).ok())
                            .map(Some)
                            .ok_or_else(|| SqlError::new("22008", format!("date out of range: \"{text}\"")))
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
                            timestamp(&parse_time::parse(texts.value(row), template)?, &zone).map(Some)
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
                        Some(value) if value.is_infinite() => Ok(Some(if value > 0.0 { i64::MAX } else { i64::MIN })),
                        Some(value) if value.is_nan() => Err(SqlError::new("22008", "timestamp cannot be NaN")),
                        Some(value) => {
                            let us = (value * SECOND_US as f64).round_ties_even() as i128;
                            let wrong = || SqlError::new("22008", format!("timestamp out of range: \"{value}\""));
                            timestamp_in_range(us, wrong).map(Some)
                        }
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
