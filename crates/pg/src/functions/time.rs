//! The clock, time zones, ages.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNano, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::define::{P, PgFunction, f, oid};
use crate::arrow::cast_array;
use crate::context::PgContext;
use crate::datetime::{DAY_US, SECOND_US, Zone, civil_from_days, clock_us, days_from_civil, month_days};
use crate::errors::to_datafusion;
use crate::types::{UTC, oid as t, timestamptz};
use crate::wire::SqlError;

/// Functions here that are bound to a session.
pub(super) const SESSION_NAMES: &[&str] = &[
    "now",
    "current_timestamp",
    "transaction_timestamp",
    "statement_timestamp",
    "localtimestamp",
    "localtime",
    "current_date",
    "current_time",
    "timezone",
    "age",
    "date_part",
    "extract",
    "pg_extract",
    "date_trunc",
];

/// A `timestamptz` constant.
pub(super) fn timestamptz_scalar(us: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(us), Some(Arc::from(UTC)))
}

fn local(cx: &dyn PgContext, us: i64) -> i64 {
    us + i64::from(cx.zone().offset_at(us)) * SECOND_US
}

/// The symbolic difference of two local times: years, months, days and the rest.
fn age(later: i64, earlier: i64) -> IntervalMonthDayNano {
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
        // days of the month of the earlier time
        days += i64::from(month_days(y1, m1));
        months -= 1;
    }
    let sign = if negative { -1 } else { 1 };
    IntervalMonthDayNano::new((months * sign) as i32, (days * sign) as i32, us * sign * 1000)
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = super::fields::all(cx);
    macro_rules! add {
        ($name:literal, $returns:expr, |$cx:ident| $value:expr) => {{
            let captured = cx.clone();
            f($name, &[], oid($returns), move |call| {
                let $cx = captured.as_ref();
                call.same($value)
            })
            .volatile()
        }};
    }
    out.push(
        add!("now", t::TIMESTAMPTZ, |cx| timestamptz_scalar(cx.transaction_start()))
            .alias("current_timestamp")
            .alias("transaction_timestamp"),
    );
    out.push(add!("statement_timestamp", t::TIMESTAMPTZ, |cx| timestamptz_scalar(cx.statement_start())));
    out.push(
        f("clock_timestamp", &[], oid(t::TIMESTAMPTZ), |call| {
            let times = TimestampMicrosecondArray::from_iter_values((0..call.rows).map(|_| clock_us()));
            Ok(Arc::new(times.with_timezone(UTC)) as ArrayRef)
        })
        .each_row(),
    );
    out.push(add!("localtimestamp", t::TIMESTAMP, |cx| ScalarValue::TimestampMicrosecond(
        Some(local(cx, cx.transaction_start())),
        None
    )));
    out.push(add!("current_date", t::DATE, |cx| ScalarValue::Date32(Some(
        local(cx, cx.transaction_start()).div_euclid(DAY_US) as i32
    ))));
    out.push(
        add!("localtime", t::TIME, |cx| ScalarValue::Time64Microsecond(Some(
            local(cx, cx.transaction_start()).rem_euclid(DAY_US)
        )))
        .alias("current_time"),
    );
    out.push(
        f("timeofday", &[], oid(t::TEXT), |call| {
            call.texts(|_| {
                let mut text = bytes::BytesMut::new();
                crate::encode::put_timestamptz(&mut text, clock_us(), &Zone::Utc);
                Ok(Some(String::from_utf8_lossy(&text).into_owned()))
            })
        })
        .each_row(),
    );
    out.push(f("isfinite", &[P::Any], oid(t::BOOL), |call| {
        let array = &call.arrays[0];
        call.bools(|row| {
            if array.is_null(row) {
                return Ok(None);
            }
            Ok(Some(match array.data_type() {
                DataType::Date32 => {
                    let value = array.as_primitive::<datafusion::arrow::datatypes::Date32Type>().value(row);
                    value != i32::MAX && value != i32::MIN
                }
                DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, _) => {
                    let value = array.as_primitive::<TimestampMicrosecondType>().value(row);
                    value != i64::MAX && value != i64::MIN
                }
                _ => true,
            }))
        })
    }));
    let captured = cx.clone();
    out.push(
        f("age", &[P::Any, P::Any], oid(t::INTERVAL), move |call| {
            let zone = captured.zone();
            let to_local = |at: usize| {
                cast_array(
                    &call.arrays[at],
                    &DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None),
                    t::TIMESTAMP,
                    &zone,
                )
            };
            let first = to_local(0)?;
            let first = first.as_primitive::<TimestampMicrosecondType>();
            let today = local(captured.as_ref(), captured.transaction_start()).div_euclid(DAY_US) * DAY_US;
            let second = if call.given(1) { Some(to_local(1)?) } else { None };
            let out: IntervalMonthDayNanoArray = (0..call.rows)
                .map(|row| match &second {
                    Some(second) => {
                        let second = second.as_primitive::<TimestampMicrosecondType>();
                        (!first.is_null(row) && !second.is_null(row)).then(|| age(first.value(row), second.value(row)))
                    }
                    None => (!first.is_null(row)).then(|| age(today, first.value(row))),
                })
                .collect();
            Ok(Arc::new(out) as ArrayRef)
        })
        .required(1)
        .volatile(),
    );
    for (name, hours, months) in
        [("justify_hours", true, false), ("justify_days", false, true), ("justify_interval", true, true)]
    {
        out.push(f(name, &[P::Any], oid(t::INTERVAL), move |call| {
            let array = cast_array(
                &call.arrays[0],
                &DataType::Interval(datafusion::arrow::datatypes::IntervalUnit::MonthDayNano),
                t::INTERVAL,
                &Zone::Utc,
            )?;
            let array = array.as_primitive::<datafusion::arrow::datatypes::IntervalMonthDayNanoType>();
            let out: IntervalMonthDayNanoArray = array
                .iter()
                .map(|value| {
                    value.map(|value| {
                        let (mut m, mut d, mut ns) =
                            (i64::from(value.months), i64::from(value.days), value.nanoseconds);
                        if hours {
                            d += ns / (DAY_US * 1000);
                            ns %= DAY_US * 1000;
                        }
                        if months {
                            m += d / 30;
                            d %= 30;
                        }
                        IntervalMonthDayNano::new(m as i32, d as i32, ns)
                    })
                })
                .collect();
            Ok(Arc::new(out) as ArrayRef)
        }));
    }
    out.push(f("make_timestamp", &[P::Int, P::Int, P::Int, P::Int, P::Int, P::Float], oid(t::TIMESTAMP), |call| {
        let seconds = call.arrays[5].as_primitive::<datafusion::arrow::datatypes::Float64Type>();
        let out: TimestampMicrosecondArray = (0..call.rows)
            .map(|row| {
                let part = |at: usize| call.int(at, row);
                let (Some(y), Some(mo), Some(d), Some(h), Some(mi)) = (part(0), part(1), part(2), part(3), part(4))
                else {
                    return Ok(None);
                };
                if seconds.is_null(row) {
                    return Ok(None);
                }
                let wrong = || SqlError::new("22008", "date/time field value out of range");
                let month = u32::try_from(mo).ok().filter(|m| (1..=12).contains(m)).ok_or_else(wrong)?;
                if !(-4713..=294_276).contains(&y) || y == 0 {
                    return Err(wrong());
                }
                let year = if y < 0 { y + 1 } else { y };
                let day =
                    u32::try_from(d).ok().filter(|d| *d >= 1 && *d <= month_days(year, month)).ok_or_else(wrong)?;
                let s = seconds.value(row);
                if !(0..=24).contains(&h) || !(0..60).contains(&mi) || !(0.0..=60.0).contains(&s) {
                    return Err(wrong());
                }
                let us = (h * 3600 + mi * 60) * SECOND_US + (s * SECOND_US as f64).round() as i64;
                Ok(Some(days_from_civil(year, month, day) * DAY_US + us))
            })
            .collect::<Result<_, SqlError>>()?;
        Ok(Arc::new(out) as ArrayRef)
    }));
    out
}

/// A `date` as a `timestamp`; unlike Arrow's cast it knows the infinite ones.
pub fn timestamp_of_date() -> ScalarUDF {
    f("pg_timestamp_of_date", &[P::Any], oid(t::TIMESTAMP), |call| {
        cast_array(&call.arrays[0], &DataType::Timestamp(TimeUnit::Microsecond, None), t::TIMESTAMP, &Zone::Utc)
    })
    .into_udf()
}

/// The day of a `timestamp`, likewise.
pub(super) fn date_of_timestamp() -> ScalarUDF {
    f("pg_date_of_timestamp", &[P::Any], oid(t::DATE), |call| {
        cast_array(&call.arrays[0], &DataType::Date32, t::DATE, &Zone::Utc)
    })
    .into_udf()
}

/// Functions whose result type hangs on their arguments' types.
pub(super) fn special(cx: &Arc<dyn PgContext>) -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(TimeZone { signature: Signature::user_defined(Volatility::Stable), cx: cx.clone() })]
}

/// `timezone(zone, t)`, which `t AT TIME ZONE zone` is: a `timestamptz` becomes the local
/// `timestamp` there, a `timestamp` the instant that it names there.
#[derive(Debug)]
struct TimeZone {
    signature: Signature,
    cx: Arc<dyn PgContext>,
}

impl PartialEq for TimeZone {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for TimeZone {}
impl Hash for TimeZone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        "timezone".hash(state);
    }
}

impl ScalarUDFImpl for TimeZone {
    fn name(&self) -> &str {
        "timezone"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        let [_, time] = types else {
            return Err(to_datafusion(SqlError::new("42883", "function timezone does not exist")));
        };
        let time = match time {
            DataType::Timestamp(_, None) => {
                DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None)
            }
            // a date is local midnight; text an instant
            _ => timestamptz(),
        };
        Ok(vec![DataType::Utf8View, time])
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(match types.get(1) {
            Some(DataType::Timestamp(_, None)) => timestamptz(),
            _ => DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None),
        })
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new("timezone", self.return_type(&types)?, true)))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let rows = args.number_rows;
        let _ = &self.cx;
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let zones = arrays[0].as_string_view();
        let times = arrays[1].as_primitive::<TimestampMicrosecondType>();
        let to_utc = matches!(times.data_type(), DataType::Timestamp(_, None));
        let mut last: Option<(String, Zone)> = None;
        let mut out = TimestampMicrosecondBuilder::with_capacity(rows);
        for row in 0..times.len() {
            if zones.is_null(row) || times.is_null(row) {
                out.append_null();
                continue;
            }
            let name = zones.value(row);
            let zone = match &last {
                Some((known, zone)) if known == name => *zone,
                _ => {
                    let zone = Zone::parse(name).ok_or_else(|| {
                        to_datafusion(SqlError::new("22023", format!("time zone \"{name}\" not recognized")))
                    })?;
                    last = Some((name.to_owned(), zone));
                    zone
                }
            };
            let us = times.value(row);
            out.append_value(if to_utc {
                zone.local_to_utc(us)
            } else {
                us.saturating_add(i64::from(zone.offset_at(us)) * SECOND_US)
            });
        }
        let array = out.finish();
        let array: ArrayRef = if to_utc { Arc::new(array.with_timezone(UTC)) } else { Arc::new(array) };
        if args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let at = |y, m, d| days_from_civil(y, m, d) * DAY_US;
        // select age('2001-04-10', '1957-06-13') in PostgreSQL: 43 years 9 mons 27 days
        assert_eq!(age(at(2001, 4, 10), at(1957, 6, 13)), IntervalMonthDayNano::new(43 * 12 + 9, 27, 0));
        assert_eq!(age(at(2024, 3, 1), at(2024, 1, 31)), IntervalMonthDayNano::new(1, 1, 0));
        assert_eq!(age(at(2024, 1, 1), at(2024, 1, 2)), IntervalMonthDayNano::new(0, -1, 0));
    }
}
