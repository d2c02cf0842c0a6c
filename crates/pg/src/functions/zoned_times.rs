//! Functions and operators of `time with time zone`, under the names of what computes them in PostgreSQL (`pg_proc.prosrc`).

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::*;

use super::define::{Call, P, PgFunction, f, oid};
use super::moments::{both, zoned_moment};
use crate::context::PgContext;
use crate::datetime::{SECOND_US, Zone, timestamp_in_range};
use crate::decode::Interval;
use crate::encode::put_interval;
use crate::ordered;
use crate::timetz::TimeTz;
use crate::types::oid as t;
use crate::wire::SqlError;

/// What these functions are called.
pub(super) const NAMES: &[&str] = &[
    "timestamp_izone",
    "timestamptz_izone",
    "timetz_cmp",
    "timetz_eq",
    "timetz_ge",
    "timetz_gt",
    "timetz_izone",
    "timetz_larger",
    "timetz_le",
    "timetz_lt",
    "timetz_mi_interval",
    "timetz_ne",
    "timetz_pl_interval",
    "timetz_smaller",
    "timetz_zone",
    "datetimetz_timestamptz",
];

impl Call<'_> {
    /// The bytes of an argument that order as its values do.
    fn bytes_of_time(&self, at: usize, row: usize) -> Option<&[u8]> {
        let array = self.arrays.get(at)?.as_fixed_size_binary_opt()?;
        (!array.is_null(row)).then(|| array.value(row))
    }
    fn two_times(&self, row: usize) -> Option<(&[u8], &[u8])> {
        self.bytes_of_time(0, row).zip(self.bytes_of_time(1, row))
    }
    pub(super) fn zoned(&self, at: usize, row: usize) -> Result<Option<TimeTz>, SqlError> {
        self.bytes_of_time(at, row).map(TimeTz::of_stored).transpose()
    }
    fn zoned_times(&self, value: impl Fn(usize) -> Result<Option<TimeTz>, SqlError>) -> Result<ArrayRef, SqlError> {
        let stored = |row| Ok(value(row)?.map(|value| value.to_stored().to_vec()));
        ordered::column(resurgam_engine::OrderedType::TimeTz(None), (0..self.rows).map(stored))
    }
}

/// A comparison.
fn compared(name: &'static str, is: fn(&[u8], &[u8]) -> bool) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::BOOL), move |call| {
        call.bools(|row| Ok(call.two_times(row).map(|(a, b)| is(a, b))))
    })
}

/// The later or the earlier of two.
fn chosen(name: &'static str, later: bool) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::TIMETZ), move |call| {
        call.zoned_times(|row| {
            let Some((a, b)) = call.two_times(row) else { return Ok(None) };
            TimeTz::of_stored(if (a > b) == later { a } else { b }).map(Some)
        })
    })
}

/// A time so much later, or earlier, on the clock: only the interval's time counts.
fn moved(name: &'static str, earlier: bool) -> PgFunction {
    f(name, &[P::Any, P::Interval], oid(t::TIMETZ), move |call| {
        call.zoned_times(|row| {
            both(call.zoned(0, row)?, call.span(1, row), |time, span| {
                Ok(time.plus(if earlier { span.us.wrapping_neg() } else { span.us }))
            })
        })
    })
}

/// Seconds to the west that an interval says as a zone.
fn zone_of_interval(span: Interval) -> Result<i32, SqlError> {
    if span.months != 0 || span.days != 0 {
        let mut shown = BytesMut::new();
        put_interval(&mut shown, span.months, span.days, span.us);
        let shown = String::from_utf8_lossy(&shown);
        let message = format!("interval time zone \"{shown}\" must not include months or days");
        return Err(SqlError::new("22023", message));
    }
    // Beyond that PostgreSQL takes the lower bits, and shows numbers that are none.
    let west = i32::try_from(-(span.us / SECOND_US)).ok().filter(|west| *west > i32::MIN);
    west.ok_or_else(|| SqlError::unsupported("an interval of more than 68 years as a time zone"))
}

/// A moment moved to (1) or from (-1) Greenwich, whose zone is an interval; infinite ones have no zone.
fn in_zone(us: i64, zone: Interval, sign: i128) -> Result<i64, SqlError> {
    if matches!(us, i64::MAX | i64::MIN) {
        return Ok(us);
    }
    let west = i128::from(zone_of_interval(zone)?) * i128::from(SECOND_US);
    timestamp_in_range(i128::from(us) + sign * west, || SqlError::new("22008", "timestamp out of range"))
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let now = Arc::clone(cx);
    vec![
        f("timetz_cmp", &[P::Any, P::Any], oid(t::INT4), |call| {
            call.int4s(|row| Ok(call.two_times(row).map(|(a, b)| a.cmp(b) as i32)))
        }),
        compared("timetz_eq", |a, b| a == b),
        compared("timetz_ne", |a, b| a != b),
        compared("timetz_lt", |a, b| a < b),
        compared("timetz_le", |a, b| a <= b),
        compared("timetz_gt", |a, b| a > b),
        compared("timetz_ge", |a, b| a >= b),
        chosen("timetz_larger", true),
        chosen("timetz_smaller", false),
        moved("timetz_pl_interval", false),
        moved("timetz_mi_interval", true),
        f("datetimetz_timestamptz", &[P::Date, P::Any], oid(t::TIMESTAMPTZ), |call| {
            call.moments(|row| {
                both(call.date(0, row), call.zoned(1, row)?, |days, time| zoned_moment(days, time.utc_us()))
            })
        }),
        // What a zone is now: a time has no day.
        f("timetz_zone", &[P::Text, P::Any], oid(t::TIMETZ), move |call| {
            let now = now.transaction_start();
            call.zoned_times(|row| {
                both(call.text(0, row), call.zoned(1, row)?, |name, time| {
                    let zone = Zone::of_expression(name, now, false);
                    let zone =
                        zone.ok_or_else(|| SqlError::new("22023", format!("time zone \"{name}\" not recognized")))?;
                    Ok(time.moved_to(-zone.offset_at(now)))
                })
            })
        })
        .volatile(),
        f("timetz_izone", &[P::Interval, P::Any], oid(t::TIMETZ), |call| {
            call.zoned_times(|row| {
                both(call.span(0, row), call.zoned(1, row)?, |span, time| Ok(time.moved_to(zone_of_interval(span)?)))
            })
        }),
        f("timestamp_izone", &[P::Interval, P::Timestamp], oid(t::TIMESTAMPTZ), |call| {
            call.moments(|row| both(call.span(0, row), call.moment(1, row), |span, us| in_zone(us, span, 1)))
        }),
        f("timestamptz_izone", &[P::Interval, P::Timestamptz], oid(t::TIMESTAMP), |call| {
            call.moments(|row| both(call.span(0, row), call.moment(1, row), |span, us| in_zone(us, span, -1)))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::TestContext;

    #[test]
    fn all_are_known_by_their_names() {
        let cx: Arc<dyn PgContext> = Arc::new(TestContext::default());
        let mut names: Vec<&str> = all(&cx).iter().map(PgFunction::name).collect();
        let mut known = NAMES.to_vec();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}
