//! Fields of times and intervals: `date_part` (which `extract` is), `date_trunc`.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano, TimestampMicrosecondType};

use super::define::{P, PgFunction, Returns, f, oid};
use crate::pg::arrow::cast_array;
use crate::pg::context::PgContext;
use crate::pg::datetime::{DAY_US, SECOND_US, Zone, civil_from_days, days_from_civil};
use crate::pg::types::{UTC, oid as t, timestamptz};
use crate::wire::SqlError;

/// The value of a field of a local time.
fn time_part(us: i64, offset: Option<i32>, field: &str) -> Option<f64> {
    let days = us.div_euclid(DAY_US);
    let time = us.rem_euclid(DAY_US);
    let (year, month, day) = civil_from_days(days);
    let monday = (days + 3).rem_euclid(7);
    let thursday = days - monday + 3;
    let iso_year = civil_from_days(thursday).0;
    let shown = if year <= 0 { year - 1 } else { year };
    Some(match field {
        "microsecond" | "microseconds" => (time % (60 * SECOND_US)) as f64,
        "millisecond" | "milliseconds" => (time % (60 * SECOND_US)) as f64 / 1000.0,
        "second" | "seconds" => (time % (60 * SECOND_US)) as f64 / SECOND_US as f64,
        "minute" | "minutes" => (time / (60 * SECOND_US) % 60) as f64,
        "hour" | "hours" => (time / (3600 * SECOND_US)) as f64,
        "day" | "days" => f64::from(day),
        "month" | "months" => f64::from(month),
        "quarter" => f64::from((month - 1) / 3 + 1),
        "year" | "years" => shown as f64,
        "decade" => year.div_euclid(10) as f64,
        "century" => (if shown > 0 { (shown + 99) / 100 } else { (shown - 99) / 100 }) as f64,
        "millennium" => (if shown > 0 { (shown + 999) / 1000 } else { (shown - 999) / 1000 }) as f64,
        "week" => ((thursday - days_from_civil(iso_year, 1, 1)) / 7 + 1) as f64,
        "isoyear" => iso_year as f64,
        "dow" => (days + 4).rem_euclid(7) as f64,
        "isodow" => (monday + 1) as f64,
        "doy" => (days - days_from_civil(year, 1, 1) + 1) as f64,
        "epoch" => (us - i64::from(offset.unwrap_or(0)) * SECOND_US) as f64 / SECOND_US as f64,
        "julian" => (days + 2_440_588) as f64 + time as f64 / DAY_US as f64,
        "timezone" => f64::from(offset?),
        "timezone_hour" => f64::from(offset? / 3600),
        "timezone_minute" => f64::from(offset? / 60 % 60),
        _ => return None,
    })
}

fn interval_part(value: IntervalMonthDayNano, field: &str) -> Option<f64> {
    let us = value.nanoseconds / 1000;
    let (years, months) = (value.months / 12, value.months % 12);
    Some(match field {
        "microsecond" | "microseconds" => (us % (60 * SECOND_US)) as f64,
        "millisecond" | "milliseconds" => (us % (60 * SECOND_US)) as f64 / 1000.0,
        "second" | "seconds" => (us % (60 * SECOND_US)) as f64 / SECOND_US as f64,
        "minute" | "minutes" => (us / (60 * SECOND_US) % 60) as f64,
        "hour" | "hours" => (us / (3600 * SECOND_US)) as f64,
        "day" | "days" => f64::from(value.days),
        "month" | "months" => f64::from(months),
        "quarter" => f64::from(months / 3 + 1),
        "year" | "years" => f64::from(years),
        "decade" => f64::from(years / 10),
        "century" => f64::from(years / 100),
        "millennium" => f64::from(years / 1000),
        // a year has 365.25 days there, a month 30
        "epoch" => {
            f64::from(years) * 31_557_600.0
                + f64::from(months) * 2_592_000.0
                + f64::from(value.days) * 86_400.0
                + us as f64 / SECOND_US as f64
        }
        _ => return None,
    })
}

/// A local time cut to a unit.
fn truncate(us: i64, unit: &str) -> Option<i64> {
    let days = us.div_euclid(DAY_US);
    let (year, month, _) = civil_from_days(days);
    let first_of = |year: i64, month: u32| days_from_civil(year, month, 1) * DAY_US;
    let grid = |size: i64| us - us.rem_euclid(size);
    Some(match unit {
        "microsecond" | "microseconds" => us,
        "millisecond" | "milliseconds" => grid(1000),
        "second" | "seconds" => grid(SECOND_US),
        "minute" | "minutes" => grid(60 * SECOND_US),
        "hour" | "hours" => grid(3600 * SECOND_US),
        "day" | "days" => days * DAY_US,
        "week" | "weeks" => (days - (days + 3).rem_euclid(7)) * DAY_US,
        "month" | "months" => first_of(year, month),
        "quarter" => first_of(year, (month - 1) / 3 * 3 + 1),
        "year" | "years" => first_of(year, 1),
        "decade" | "decades" => first_of(year - year.rem_euclid(10), 1),
        "century" | "centuries" => first_of(year - (year - 1).rem_euclid(100), 1),
        "millennium" | "millenniums" => first_of(year - (year - 1).rem_euclid(1000), 1),
        _ => return None,
    })
}

/// `timestamptz` stays, what else is a time is `timestamp`, an interval stays.
fn truncated(fields: &[FieldRef]) -> FieldRef {
    let ty = match fields.get(1).map(|field| field.data_type()) {
        Some(ty @ DataType::Interval(_)) => ty.clone(),
        // a date is taken for an instant, as PostgreSQL does
        Some(DataType::Timestamp(_, Some(_)) | DataType::Date32) => timestamptz(),
        _ => local_type(),
    };
    Arc::new(Field::new("", ty, true))
}

fn local_type() -> DataType {
    DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None)
}

fn no_unit(unit: &str) -> SqlError {
    SqlError::new("22023", format!("unit \"{unit}\" not recognized"))
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let (first, second) = (cx.clone(), cx.clone());
    vec![
        f("date_part", &[P::Text, P::Any], oid(t::FLOAT8), move |call| {
            let zone = first.zone();
            let array = &call.arrays[1];
            let unit = |row: usize| call.text(0, row).map(str::to_ascii_lowercase);
            let out: Float64Array = if let DataType::Interval(_) | DataType::Duration(_) = array.data_type() {
                let values = cast_array(
                    array,
                    &DataType::Interval(datafusion::arrow::datatypes::IntervalUnit::MonthDayNano),
                    t::INTERVAL,
                    &zone,
                )?;
                let values = values.as_primitive::<datafusion::arrow::datatypes::IntervalMonthDayNanoType>();
                (0..call.rows)
                    .map(|row| match unit(row) {
                        Some(unit) if !values.is_null(row) => {
                            interval_part(values.value(row), &unit).map(Some).ok_or_else(|| no_unit(&unit))
                        }
                        _ => Ok(None),
                    })
                    .collect::<Result<_, _>>()?
            } else if let DataType::Time64(_) | DataType::Time32(_) = array.data_type() {
                let values = cast_array(
                    array,
                    &DataType::Time64(datafusion::arrow::datatypes::TimeUnit::Microsecond),
                    t::TIME,
                    &zone,
                )?;
                let values = values.as_primitive::<datafusion::arrow::datatypes::Time64MicrosecondType>();
                (0..call.rows)
                    .map(|row| match unit(row) {
                        Some(unit) if !values.is_null(row) => {
                            time_part(values.value(row), None, &unit).map(Some).ok_or_else(|| no_unit(&unit))
                        }
                        _ => Ok(None),
                    })
                    .collect::<Result<_, _>>()?
            } else {
                let instant = matches!(array.data_type(), DataType::Timestamp(_, Some(_)));
                let wanted = if instant { timestamptz() } else { local_type() };
                let values = cast_array(array, &wanted, t::TIMESTAMP, &zone)?;
                let values = values.as_primitive::<TimestampMicrosecondType>();
                (0..call.rows)
                    .map(|row| match unit(row) {
                        Some(unit) if !values.is_null(row) => {
                            let us = values.value(row);
                            let offset = instant.then(|| zone.offset_at(us));
                            let local = us.saturating_add(i64::from(offset.unwrap_or(0)) * SECOND_US);
                            time_part(local, offset, &unit).map(Some).ok_or_else(|| no_unit(&unit))
                        }
                        _ => Ok(None),
                    })
                    .collect::<Result<_, _>>()?
            };
            Ok(Arc::new(out) as ArrayRef)
        })
        .alias("datepart"),
        f("date_trunc", &[P::Text, P::Any, P::Text], Returns::By(truncated), move |call| {
            let array = &call.arrays[1];
            let unit = |row: usize| call.text(0, row).map(str::to_ascii_lowercase);
            if let DataType::Interval(_) = array.data_type() {
                return Err(SqlError::unsupported("date_trunc of an interval is not supported"));
            }
            let instant = matches!(call.returns.data_type(), DataType::Timestamp(_, Some(_)));
            let session = second.zone();
            let wanted = if instant { timestamptz() } else { local_type() };
            let values = cast_array(array, &wanted, t::TIMESTAMP, &session)?;
            let values = values.as_primitive::<TimestampMicrosecondType>();
            let out: TimestampMicrosecondArray = (0..call.rows)
                .map(|row| {
                    let (Some(unit), false) = (unit(row), values.is_null(row)) else { return Ok(None) };
                    let us = values.value(row);
                    if us == i64::MAX || us == i64::MIN {
                        return Ok(Some(us));
                    }
                    if !instant {
                        return truncate(us, &unit).map(Some).ok_or_else(|| no_unit(&unit));
                    }
                    let zone = match call.text(2, row) {
                        Some(name) => Zone::parse(name)
                            .ok_or_else(|| SqlError::new("22023", format!("time zone \"{name}\" not recognized")))?,
                        None => session,
                    };
                    let local = us.saturating_add(i64::from(zone.offset_at(us)) * SECOND_US);
                    let cut = truncate(local, &unit).ok_or_else(|| no_unit(&unit))?;
                    Ok(Some(zone.local_to_utc(cut)))
                })
                .collect::<Result<_, SqlError>>()?;
            Ok(if instant { Arc::new(out.with_timezone(UTC)) as ArrayRef } else { Arc::new(out) })
        })
        .required(2),
    ]
}
