//! The clock, time zones, ages.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::define::{P, PgFunction, f, oid};
use crate::arrow::cast_array;
use crate::context::PgContext;
use crate::datetime::{DAY_US, SECOND_US, Zone, clock_us, timestamp_in_range};
use crate::errors::to_datafusion;
use crate::timetz::TimeTz;
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
    "timetz_zone",
    "age",
    "timestamptz_pl_interval",
    "timestamptz_mi_interval",
    "make_timestamptz",
    "overlaps",
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

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = super::fields::all(cx);
    out.extend(super::moments::all(cx));
    out.extend(super::overlaps::all(cx));
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
    out.push(add!("localtimestamp", t::TIMESTAMP, |cx| ScalarValue::TimestampMicrosecond(
        Some(local(cx, cx.transaction_start())),
        None
    )));
    out.push(add!("current_date", t::DATE, |cx| ScalarValue::Date32(Some(
        local(cx, cx.transaction_start()).div_euclid(DAY_US) as i32
    ))));
    out.push(add!("localtime", t::TIME, |cx| ScalarValue::Time64Microsecond(Some(
        local(cx, cx.transaction_start()).rem_euclid(DAY_US)
    ))));
    out.push(add!("current_time", t::TIMETZ, |cx| TimeTz::at(cx.transaction_start(), &cx.zone()).scalar()));
    out.push(
        f("timeofday", &[], oid(t::TEXT), |call| {
            call.texts(|_| {
                let mut text = bytes::BytesMut::new();
                crate::encode::put_iso_timestamptz(&mut text, clock_us(), &Zone::Utc);
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
            let us = times.value(row);
            if us == i64::MAX || us == i64::MIN {
                out.append_value(us);
                continue;
            }
            let zone = match &last {
                Some((known, zone)) if known == name => *zone,
                _ => {
                    let zone = Zone::of_expression(name, us, to_utc).ok_or_else(|| {
                        to_datafusion(SqlError::new("22023", format!("time zone \"{name}\" not recognized")))
                    })?;
                    // What an abbreviation means may hang on the time.
                    last = name.contains('/').then(|| (name.to_owned(), zone));
                    zone
                }
            };
            let moved = if to_utc {
                zone.wide_local_to_utc(us.into())
            } else {
                i128::from(us) + i128::from(zone.offset_at(us)) * i128::from(SECOND_US)
            };
            let moved = timestamp_in_range(moved, || SqlError::new("22008", "timestamp out of range"));
            out.append_value(moved.map_err(to_datafusion)?);
        }
        let array = out.finish();
        let array: ArrayRef = if to_utc { Arc::new(array.with_timezone(UTC)) } else { Arc::new(array) };
        if args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}
