//! `(a, b) OVERLAPS (c, d)`: whether two spans of time have a moment in common.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;

use super::define::{Call, P, PgFunction, f, oid};
use super::moments::{both, plus_interval};
use crate::context::PgContext;
use crate::datetime::{DAY_US, Zone};
use crate::timetz::TimeTz;
use crate::types::oid as t;
use crate::wire::SqlError;

/// The earlier of two ends, and the later one; one alone is the earlier one. `None` if neither is known.
fn ordered<T: Ord>(a: Option<T>, b: Option<T>) -> Option<(T, Option<T>)> {
    match (a, b) {
        (Some(a), Some(b)) if a > b => Some((b, Some(a))),
        (Some(a), b) => Some((a, b)),
        (None, Some(b)) => Some((b, None)),
        (None, None) => None,
    }
}

/// Whether two spans overlap; `None` where that hangs on an end that is not known.
fn overlap<T: Ord>(first: (Option<T>, Option<T>), second: (Option<T>, Option<T>)) -> Option<bool> {
    let (first, second) = (ordered(first.0, first.1)?, ordered(second.0, second.1)?);
    if first.0 == second.0 {
        // They have the begin in common, if each has an end.
        return (first.1.is_some() && second.1.is_some()).then_some(true);
    }
    let (earlier, later) = if first.0 < second.0 { (first, second) } else { (second, first) };
    match (earlier.1, later.1) {
        (None, _) => None,
        (Some(end), _) if later.0 < end => Some(true),
        (_, None) => None,
        (_, Some(_)) => Some(false),
    }
}

/// An end that is a time, or an interval behind the time before it.
fn end(call: &Call<'_>, at: usize, row: usize, zone: &Zone) -> Result<Option<i64>, SqlError> {
    let time = |at: usize| call.moment(at, row).or_else(|| call.time(at, row));
    if !matches!(call.arrays[at].data_type(), DataType::Interval(_)) {
        return Ok(time(at));
    }
    both(time(at - 1), call.span(at, row), |begin, span| match call.arrays[at - 1].data_type() {
        DataType::Timestamp(_, Some(_)) => plus_interval(begin, span, Some(zone)),
        DataType::Timestamp(_, None) => plus_interval(begin, span, None),
        _ => Ok(begin.wrapping_add(span.us).rem_euclid(DAY_US)),
    })
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let cx = Arc::clone(cx);
    vec![
        f("overlaps", &[P::Any, P::Any, P::Any, P::Any], oid(t::BOOL), move |call| {
            let zone = cx.zone();
            let is_zoned = matches!(call.arrays[0].data_type(), DataType::FixedSizeBinary(_));
            call.bools(|row| {
                if is_zoned {
                    let time = |at: usize| Ok::<_, SqlError>(call.zoned(at, row)?.map(TimeTz::to_stored));
                    return Ok(overlap((time(0)?, time(1)?), (time(2)?, time(3)?)));
                }
                let end = |at: usize| end(call, at, row, &zone);
                Ok(overlap((end(0)?, end(1)?), (end(2)?, end(3)?)))
            })
        })
        .volatile(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let of = |a: [Option<i32>; 2], b: [Option<i32>; 2]| overlap((a[0], a[1]), (b[0], b[1]));
        let some = |a, b| [Some(a), Some(b)];
        assert_eq!(of(some(1, 3), some(2, 4)), Some(true));
        assert_eq!(of(some(3, 1), some(4, 2)), Some(true));
        assert_eq!(of(some(1, 2), some(2, 3)), Some(false));
        assert_eq!(of(some(2, 2), some(2, 3)), Some(true));
        assert_eq!(of([Some(1), None], some(2, 3)), None);
        assert_eq!(of(some(1, 3), [Some(2), None]), Some(true));
        assert_eq!(of(some(1, 2), [Some(3), None]), None);
        assert_eq!(of([None, None], some(2, 3)), None);
        assert_eq!(of([Some(2), None], some(2, 3)), None);
    }
}
