//! `date_trunc`.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, FieldRef, TimestampMicrosecondType};

use super::define::{P, PgFunction, Returns, f};
use super::extract::Field;
use super::moments::truncate_interval;
use crate::arrow::cast_array;
use crate::context::PgContext;
use crate::datetime::{DAY_US, SECOND_US, Zone, civil_from_days, days_from_civil, timestamp_in_range};
use crate::types::{UTC, oid as t, timestamptz};
use crate::wire::SqlError;

/// A local time cut to a unit.
fn truncate(us: i64, unit: &str) -> Option<i64> {
    let days = us.div_euclid(DAY_US);
    let (year, month, _) = civil_from_days(days);
    let first_of = |year: i64, month: u32| days_from_civil(year, month, 1) * DAY_US;
    let grid = |size: i64| us - us.rem_euclid(size);
    Some(match super::extract::field(unit)? {
        Field::Microsecond => us,
        Field::Millisecond => grid(1000),
        Field::Second => grid(SECOND_US),
        Field::Minute => grid(60 * SECOND_US),
        Field::Hour => grid(3600 * SECOND_US),
        Field::Day => days * DAY_US,
        Field::Week => (days - (days + 3).rem_euclid(7)) * DAY_US,
        Field::Month => first_of(year, month),
        Field::Quarter => first_of(year, (month - 1) / 3 * 3 + 1),
        Field::Year => first_of(year, 1),
        Field::Decade => first_of(year - year.rem_euclid(10), 1),
        Field::Century => first_of(year - (year - 1).rem_euclid(100), 1),
        Field::Millennium => first_of(year - (year - 1).rem_euclid(1000), 1),
        _ => return None,
    })
}

/// Whether a unit is of days, which begin when a zone says so.
fn is_of_days(unit: &str) -> bool {
    use Field::{Hour, Microsecond, Millisecond, Minute, Second};
    !matches!(super::extract::field(unit), Some(Microsecond | Millisecond | Second | Minute | Hour))
}

/// `timestamptz` stays, what else is a time is `timestamp`, an interval stays.
fn truncated(fields: &[FieldRef]) -> FieldRef {
    let ty = match fields.get(1).map(|field| field.data_type()) {
        Some(ty @ DataType::Interval(_)) => ty.clone(),
        // a date is taken for an instant, as PostgreSQL does
        Some(DataType::Timestamp(_, Some(_)) | DataType::Date32) => timestamptz(),
        _ => local_type(),
    };
    Arc::new(datafusion::arrow::datatypes::Field::new("", ty, true))
}

fn local_type() -> DataType {
    DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None)
}

fn no_unit(unit: &str, instant: bool) -> SqlError {
    let ty = if instant { "timestamp with time zone" } else { "timestamp without time zone" };
    match super::extract::field(unit) {
        None
        | Some(Field::Word | Field::Epoch | Field::Dow | Field::IsoDow | Field::Doy | Field::IsoYear | Field::Julian) => {
            SqlError::new("22023", format!("unit \"{unit}\" not recognized for type {ty}"))
        }
        Some(_) => SqlError::unsupported(format!("unit \"{unit}\" not supported for type {ty}")),
    }
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let second = cx.clone();
    vec![
        f("date_trunc", &[P::Text, P::Any, P::Text], Returns::By(truncated), move |call| {
            let array = &call.arrays[1];
            let unit = |row: usize| call.text(0, row).map(str::to_ascii_lowercase);
            if let DataType::Interval(_) = array.data_type() {
                return call.spans(|row| match (unit(row), call.span(1, row)) {
                    (Some(unit), Some(span)) => truncate_interval(span, &unit).map(Some),
                    _ => Ok(None),
                });
            }
            let instant = matches!(call.returns.data_type(), DataType::Timestamp(_, Some(_)));
            let out_of_range = || SqlError::new("22008", "timestamp out of range");
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
                        let cut = truncate(us, &unit).ok_or_else(|| no_unit(&unit, false))?;
                        return timestamp_in_range(cut.into(), out_of_range).map(Some);
                    }
                    let zone = match call.text(2, row) {
                        None if call.given(2) => return Ok(None),
                        Some(name) => Zone::of_expression(name, us, false)
                            .ok_or_else(|| SqlError::new("22023", format!("time zone \"{name}\" not recognized")))?,
                        None => session,
                    };
                    let local = us.saturating_add(i64::from(zone.offset_at(us)) * SECOND_US);
                    let cut = truncate(local, &unit).ok_or_else(|| no_unit(&unit, true))?;
                    // Within a day its distance from Greenwich stays, which an hour that comes twice has two of
                    // (timestamptz_trunc_internal in PostgreSQL).
                    let cut = match is_of_days(&unit) {
                        true => zone.wide_local_to_utc(cut.into()),
                        false => i128::from(cut) - i128::from(local - us),
                    };
                    timestamp_in_range(cut, out_of_range).map(Some)
                })
                .collect::<Result<_, SqlError>>()?;
            Ok(if instant { Arc::new(out.with_timezone(UTC)) as ArrayRef } else { Arc::new(out) })
        })
        .required(2),
    ]
}
