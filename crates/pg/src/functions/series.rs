//! `generate_series`: of `integer`, `bigint`, `numeric`, `timestamp` or `timestamptz`, as its arguments are.
//!
//! Rows are made as they are asked for, so a series without an end can be cut by LIMIT or a cancel. A `date` is taken
//! for a `timestamptz`, as PostgreSQL prefers. A null argument gives no rows.
//!
//! In plans a series is a call of [`SeriesFunction`], which is never evaluated: the operator that gives the rows of
//! sets finds it by [`series_function`] and starts the series with the arguments of each row.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use resurgam_numeric::Numeric;

use super::numeric::column::{Numbers, NumericBuilder, numeric_error};
use crate::context::PgContext;
use crate::datetime::{DAY_US, SECOND_US, Zone, civil_from_days, days_from_civil, month_days, timestamp_in_range};
use crate::errors::{from_datafusion, to_datafusion};
use crate::types::{UTC, arrow_oid, format_type, timestamptz};
use crate::wire::SqlError;

fn invalid(message: &str) -> SqlError {
    SqlError::new("22023", message)
}

fn out_of_range() -> SqlError {
    SqlError::new("22008", "timestamp out of range")
}

/// What is counted: the next value, the last one that may come, and the step.
#[derive(Clone, Debug)]
enum Series {
    Empty,
    Int {
        next: Option<i64>,
        stop: i64,
        step: i64,
        wide: bool,
    },
    Numeric {
        next: Numeric,
        stop: Numeric,
        step: Numeric,
    },
    Time {
        next: i64,
        stop: i64,
        step: IntervalMonthDayNano,
        forward: bool,
        /// Of `timestamptz`.
        zone: Option<Zone>,
    },
}

/// A time and an interval: months in the calendar, then days, then the rest; `zone` of a `timestamptz`.
///
/// # Errors
/// `22008`; `0A000` for a time that only PostgreSQL has.
fn plus(us: i64, step: IntervalMonthDayNano, zone: Option<Zone>) -> Result<i64, SqlError> {
    if us == i64::MAX || us == i64::MIN {
        return Ok(us);
    }
    let mut moved = i128::from(us);
    if step.months != 0 || step.days != 0 {
        let day_us = i128::from(DAY_US);
        let mut local = moved + zone.map_or(0, |zone| i128::from(zone.offset_at(us)) * i128::from(SECOND_US));
        if step.months != 0 {
            let (year, month, day) = civil_from_days(us_of(local)?.div_euclid(DAY_US));
            let months = year * 12 + i64::from(month) - 1 + i64::from(step.months);
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
            let days = days_from_civil(year, month, day.min(month_days(year, month)));
            local = i128::from(days) * day_us + local.rem_euclid(day_us);
        }
        local += i128::from(step.days) * day_us;
        moved = zone.map_or(local, |zone| zone.wide_local_to_utc(local));
    }
    timestamp_in_range(moved + i128::from(step.nanoseconds / 1000), out_of_range)
}

/// A local time of a timestamp, which has room for it.
fn us_of(local: i128) -> Result<i64, SqlError> {
    i64::try_from(local).map_err(|_| out_of_range())
}

impl Series {
    fn ints(args: &[i64], wide: bool) -> Result<Self, SqlError> {
        let step = args.get(2).copied().unwrap_or(1);
        if step == 0 {
            return Err(invalid("step size cannot equal zero"));
        }
        Ok(Self::Int { next: Some(args[0]), stop: args[1], step, wide })
    }

    fn numerics(mut args: Vec<Numeric>) -> Result<Self, SqlError> {
        for (value, what) in args.iter().zip(["start value", "stop value", "step size"]) {
            if value.is_nan() {
                return Err(invalid(&format!("{what} cannot be NaN")));
            }
            if value.is_infinite() {
                return Err(invalid(&format!("{what} cannot be infinity")));
            }
        }
        let step = if args.len() > 2 { args.remove(2) } else { Numeric::ONE };
        if step.signum() == Some(0) {
            return Err(invalid("step size cannot equal zero"));
        }
        let stop = args.remove(1);
        Ok(Self::Numeric { next: args.remove(0), stop, step })
    }

    fn times(next: i64, stop: i64, step: IntervalMonthDayNano, zone: Option<Zone>) -> Result<Self, SqlError> {
        // As intervals compare: a month has 30 days there.
        let days = i128::from(step.months) * 30 + i128::from(step.days);
        let sign = (days * i128::from(DAY_US) + i128::from(step.nanoseconds / 1000)).signum();
        if sign == 0 {
            return Err(invalid("step size cannot equal zero"));
        }
        Ok(Self::Time { next, stop, step, forward: sign > 0, zone })
    }

    /// Some more rows, at most so many; `None` at the end.
    fn batch(&mut self, most: usize) -> Result<Option<ArrayRef>, SqlError> {
        match self {
            Self::Empty => Ok(None),
            Self::Int { next, stop, step, wide } => {
                let mut values = Vec::new();
                while values.len() < most
                    && let Some(value) = *next
                    && (if *step > 0 { value <= *stop } else { value >= *stop })
                {
                    values.push(value);
                    // A series that would leave the type's range ends.
                    *next = value.checked_add(*step).filter(|next| *wide || i32::try_from(*next).is_ok());
                }
                Ok(match (values.is_empty(), *wide) {
                    (true, _) => None,
                    (_, true) => Some(Arc::new(Int64Array::from(values))),
                    (_, false) => {
                        Some(Arc::new(values.iter().map(|value| Some(*value as i32)).collect::<Int32Array>()))
                    }
                })
            }
            Self::Numeric { next, stop, step } => {
                let mut builder = NumericBuilder::new(most.min(64));
                let mut rows = 0;
                while rows < most && (if step.signum() > Some(0) { *next <= *stop } else { *next >= *stop }) {
                    builder.push(Some(next));
                    *next = next.add(step).map_err(numeric_error)?;
                    rows += 1;
                }
                Ok((rows > 0).then(|| builder.finish()))
            }
            Self::Time { next, stop, step, forward, zone } => {
                let is_zoned = zone.is_some();
                let mut values = Vec::new();
                while values.len() < most && (if *forward { *next <= *stop } else { *next >= *stop }) {
                    values.push(*next);
                    match plus(*next, *step, *zone) {
                        Ok(more) => *next = more,
                        // A time that only PostgreSQL has is behind every end that there is here.
                        Err(error) if error.sqlstate == "0A000" && *forward && *stop != i64::MAX => {
                            *self = Self::Empty;
                            break;
                        }
                        // The rows before the error are not seen: the statement fails.
                        Err(_) => return Err(out_of_range()),
                    }
                }
                let array = TimestampMicrosecondArray::from(values);
                Ok((!array.is_empty()).then(|| match is_zoned {
                    true => Arc::new(array.with_timezone(UTC)) as ArrayRef,
                    false => Arc::new(array),
                }))
            }
        }
    }
}

/// Makes series of values, by the time zone of the session if there is one.
struct PgGenerateSeries(Option<Arc<dyn PgContext>>);

impl fmt::Debug for PgGenerateSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("generate_series")
    }
}

fn no_function(values: &[&ScalarValue]) -> SqlError {
    let types: Vec<String> = values.iter().map(|value| format_type(arrow_oid(&value.data_type()), None)).collect();
    SqlError::new("42883", format!("function generate_series({}) does not exist", types.join(", ")))
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

impl PgGenerateSeries {
    /// The series from these arguments.
    fn series(&self, values: &[&ScalarValue]) -> Result<Series, SqlError> {
        if !(2..=3).contains(&values.len()) {
            return Err(no_function(values));
        }
        let types: Vec<DataType> = values.iter().map(|value| value.data_type()).collect();
        let bounds = &types[..2];
        if bounds.iter().any(|ty| matches!(ty, DataType::Timestamp(..) | DataType::Date32)) {
            return self.times(values, bounds);
        }
        let exact = |ty: &DataType| {
            ty.is_null() || ty.is_string() || matches!(ty, DataType::UInt32) || super::numeric::is_exact_number(ty)
        };
        if !types.iter().all(exact) {
            return Err(no_function(values));
        }
        let numeric = types.iter().any(|ty| matches!(ty, DataType::Decimal128(..) | DataType::LargeBinary));
        let wide = types.iter().any(|ty| matches!(ty, DataType::Int64 | DataType::UInt64 | DataType::UInt32));
        let mut numbers = Vec::new();
        for value in values {
            let array = value.to_array().map_err(|error| from_datafusion(error, ""))?;
            let array = match array.data_type().is_string() {
                true => datafusion::arrow::compute::cast(&array, &DataType::Utf8View)
                    .map_err(|error| crate::errors::from_arrow(&error))?,
                false => array,
            };
            match Numbers::of(array.as_ref())?.get(0)? {
                Some(number) => numbers.push(number),
                None => {
                    return Ok(Series::Empty);
                }
            }
        }
        if numeric {
            return Series::numerics(numbers);
        }
        let integers: Result<Vec<i64>, SqlError> = numbers
            .iter()
            .map(|number| if wide { number.to_i64() } else { number.to_i32().map(i64::from) }.map_err(numeric_error))
            .collect();
        Series::ints(&integers?, wide)
    }

    fn times(&self, values: &[&ScalarValue], bounds: &[DataType]) -> Result<Series, SqlError> {
        let session = self.0.as_ref().map(|cx| cx.zone()).unwrap_or_default();
        let zoned = bounds.iter().any(|ty| matches!(ty, DataType::Timestamp(_, Some(_))))
            || !bounds.iter().any(|ty| matches!(ty, DataType::Timestamp(_, None)));
        let (wanted, oid) = match zoned {
            true => (timestamptz(), crate::types::oid::TIMESTAMPTZ),
            false => (DataType::Timestamp(TimeUnit::Microsecond, None), crate::types::oid::TIMESTAMP),
        };
        if values.len() != 3 {
            return Err(no_function(values));
        }
        let time = |value: &ScalarValue| -> Result<Option<i64>, SqlError> {
            let array = value.to_array().map_err(|error| from_datafusion(error, ""))?;
            let array = crate::arrow::cast_array(&array, &wanted, oid, &session)?;
            let array = array.as_primitive::<datafusion::arrow::datatypes::TimestampMicrosecondType>();
            Ok(array.is_valid(0).then(|| array.value(0)))
        };
        let step = match values[2] {
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
                Some(crate::decode::interval_value(crate::decode::parse_interval(text)?)?)
            }
            ScalarValue::IntervalMonthDayNano(step) => *step,
            value if value.is_null() => None,
            _ => return Err(no_function(values)),
        };
        match (time(values[0])?, time(values[1])?, step) {
            (Some(start), Some(stop), Some(step)) => Series::times(start, stop, step, zoned.then_some(session)),
            _ => Ok(Series::Empty),
        }
    }
}

/// A series that has begun.
#[derive(Debug)]
pub struct SeriesRows(Series);

impl SeriesRows {
    /// The next values, at most so many; `None` at the end.
    ///
    /// # Errors
    /// `22003`, `22008`: the series leaves the range of its type.
    pub fn next(&mut self, most: usize) -> Result<Option<ArrayRef>, SqlError> {
        self.0.batch(most)
    }
}

/// Names of the calls; the second one goes by the session's time zone.
const CALLS: [&str; 2] = ["pg_series", "pg_series_by_zone"];

/// Whether a function of that name is one whose values depend on the session.
pub(super) fn is_of_session(name: &str) -> bool {
    name == CALLS[1]
}

/// A call of `generate_series` in a plan; see the module's head.
pub struct SeriesFunction {
    of: PgGenerateSeries,
    by_zone: bool,
    signature: Signature,
}

/// The functions that are calls of series in plans.
pub(super) fn functions(cx: &Arc<dyn PgContext>) -> [ScalarUDF; 2] {
    [false, true].map(|by_zone| {
        // Volatile: nobody may evaluate it while planning.
        let signature = Signature::variadic_any(Volatility::Volatile);
        // A plan that does not go by the session is kept for all, and must not hold on to it.
        let of = PgGenerateSeries(by_zone.then(|| Arc::clone(cx)));
        ScalarUDF::new_from_impl(SeriesFunction { of, by_zone, signature })
    })
}

/// The name of the function that is a series of values of that type.
pub fn series_call_name(ty: &DataType) -> &'static str {
    CALLS[usize::from(matches!(ty, DataType::Timestamp(_, Some(_))))]
}

/// What `function` is, if it is a series.
pub fn series_function(function: &ScalarUDF) -> Option<&SeriesFunction> {
    CALLS.contains(&function.name()).then(|| function.inner().downcast_ref::<SeriesFunction>()).flatten()
}

impl SeriesFunction {
    /// Begins a series, of which `whole` says that PostgreSQL makes all of it before it gives the first value.
    ///
    /// # Errors
    /// `22023`: a step of zero, NaN or infinity. `22008`: the whole of one that has no end.
    pub fn start(&self, args: &[ScalarValue], whole: bool) -> Result<SeriesRows, SqlError> {
        use ScalarValue as V;
        let plain = match args {
            [V::Int32(Some(start)), V::Int32(Some(stop))] => Some((vec![i64::from(*start), i64::from(*stop)], false)),
            [V::Int32(Some(start)), V::Int32(Some(stop)), V::Int32(Some(step))] => {
                Some((vec![i64::from(*start), i64::from(*stop), i64::from(*step)], false))
            }
            [V::Int64(Some(start)), V::Int64(Some(stop))] => Some((vec![*start, *stop], true)),
            [V::Int64(Some(start)), V::Int64(Some(stop)), V::Int64(Some(step))] => {
                Some((vec![*start, *stop, *step], true))
            }
            _ => None,
        };
        let series = match plain {
            Some((args, wide)) => Series::ints(&args, wide)?,
            None => self.of.series(&args.iter().collect::<Vec<_>>())?,
        };
        match series {
            // It leaves the range in the end; one that begins there as well never gets away from it.
            Series::Time { stop, forward, .. } if whole && stop == if forward { i64::MAX } else { i64::MIN } => {
                Err(out_of_range())
            }
            series => Ok(SeriesRows(series)),
        }
    }
}

impl fmt::Debug for SeriesFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl PartialEq for SeriesFunction {
    fn eq(&self, other: &Self) -> bool {
        let alike = match (&self.of.0, &other.of.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        self.by_zone == other.by_zone && alike
    }
}
impl Eq for SeriesFunction {}
impl Hash for SeriesFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.by_zone.hash(state);
    }
}

impl ScalarUDFImpl for SeriesFunction {
    fn name(&self) -> &str {
        CALLS[usize::from(self.by_zone)]
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        let item = match types.first() {
            Some(DataType::Decimal128(..)) => super::numeric::DYNAMIC,
            Some(ty) => ty.clone(),
            None => DataType::Null,
        };
        Ok(DataType::new_list(item, true))
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Err(to_datafusion(SqlError::internal("a series in a place where it has no rows")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a batch.
    const ROWS: usize = 1024;

    fn rows(mut series: Series, most: usize) -> usize {
        let mut rows = 0;
        while rows < most
            && let Some(batch) = series.batch(ROWS).expect("batch")
        {
            rows += batch.len();
        }
        rows
    }

    #[test]
    fn series_end_where_postgresqls_do() {
        assert_eq!(rows(Series::ints(&[1, 3], false).expect("series"), 10), 3);
        assert_eq!(rows(Series::ints(&[3, 1], false).expect("series"), 10), 0);
        assert_eq!(rows(Series::ints(&[3, 1, -1], false).expect("series"), 10), 3);
        assert_eq!(rows(Series::ints(&[2_147_483_646, 2_147_483_647], false).expect("series"), 10), 2);
        assert_eq!(rows(Series::ints(&[i64::MAX - 1, i64::MAX], true).expect("series"), 10), 2);
        assert!(Series::ints(&[1, 2, 0], false).is_err());
        let day = IntervalMonthDayNano::new(0, 1, 0);
        assert!(rows(Series::times(0, i64::MAX, day, None).expect("series"), 5000) >= 5000);
        assert!(Series::times(0, 1, IntervalMonthDayNano::new(1, -30, 0), None).is_err());
    }

    #[test]
    fn months_keep_to_the_calendar() {
        let jan31 = days_from_civil(2024, 1, 31) * DAY_US;
        let month = IntervalMonthDayNano::new(1, 0, 0);
        assert_eq!(plus(jan31, month, None).ok(), Some(days_from_civil(2024, 2, 29) * DAY_US));
        // A day over the change to summer time has 23 hours.
        let berlin = Zone::parse("Europe/Berlin").expect("zone");
        let before = berlin.local_to_utc(days_from_civil(2024, 3, 31) * DAY_US);
        let day = IntervalMonthDayNano::new(0, 1, 0);
        assert_eq!(plus(before, day, Some(berlin)).ok(), Some(before + 23 * 3600 * SECOND_US));
        let last = days_from_civil(294_247, 1, 7) * DAY_US;
        assert_eq!(plus(last, day, None).unwrap_err().sqlstate, "0A000");
        assert_eq!(plus(last, IntervalMonthDayNano::new(12 * 30, 0, 0), None).unwrap_err().sqlstate, "22008");
        // A series to the last day ends there.
        let series = Series::times(last - 2 * DAY_US, last, day, None).expect("series");
        assert_eq!(rows(series, 10), 3);
    }
}
