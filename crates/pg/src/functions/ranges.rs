//! Functions and operators of ranges, under the names of what computes them in PostgreSQL (`pg_proc.prosrc`): one for ranges
//! of all types.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};

use super::define::{Call, P, PgFunction, Returns, f, oid};
use crate::ordered;
use crate::ranges::{Bound, Kind, Range};
use crate::types::{field_of_oid, oid as t, timestamptz};
use crate::wire::SqlError;

/// Whether a function of this source is one of ranges.
pub(super) fn is_of_ranges(source: &str) -> bool {
    static SOURCES: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| all().iter().map(PgFunction::proc_name).collect());
    SOURCES.contains(source)
}

/// Of what a column of ranges is.
fn kind_of(data: &DataType) -> Option<Kind> {
    Kind::of(ordered::type_of_data(data)?)
}

/// The type of ranges of such values.
fn range_of(element: &DataType) -> Option<u32> {
    Some(match element {
        DataType::Int32 => t::INT4RANGE,
        DataType::Int64 => t::INT8RANGE,
        DataType::Date32 => t::DATERANGE,
        DataType::Timestamp(TimeUnit::Microsecond, None) => t::TSRANGE,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => t::TSTZRANGE,
        _ => return None,
    })
}

/// A field of that type; of NULLs where there is none, which is found out when the function is called.
fn field(oid: Option<u32>) -> FieldRef {
    let field = oid.and_then(|oid| field_of_oid("", oid, -1));
    Arc::new(field.unwrap_or_else(|| Field::new("", DataType::Null, true)))
}

/// The type of the first argument.
fn as_given(fields: &[FieldRef]) -> FieldRef {
    field(fields.first().and_then(|given| ordered::type_of_data(given.data_type())).map(ordered::oid_of))
}

fn as_elements(fields: &[FieldRef]) -> FieldRef {
    field(fields.first().and_then(|given| kind_of(given.data_type())).map(Kind::element))
}

fn as_ranges_of_given(fields: &[FieldRef]) -> FieldRef {
    field(fields.first().and_then(|given| range_of(given.data_type())))
}

fn no_range() -> SqlError {
    SqlError::unsupported("a range of this type")
}

impl Call<'_> {
    fn kind(&self, at: usize) -> Result<Kind, SqlError> {
        self.arrays.get(at).and_then(|array| kind_of(array.data_type())).ok_or_else(no_range)
    }

    fn range(&self, kind: Kind, at: usize, row: usize) -> Result<Option<Range>, SqlError> {
        let array = self.arrays.get(at).and_then(|array| array.as_fixed_size_binary_opt()).ok_or_else(no_range)?;
        (!array.is_null(row)).then(|| Range::of_stored(kind, array.value(row))).transpose()
    }

    fn two_ranges(&self, kind: Kind, row: usize) -> Result<Option<(Range, Range)>, SqlError> {
        Ok(self.range(kind, 0, row)?.zip(self.range(kind, 1, row)?))
    }

    /// A value that ranges are of, as the number that it is.
    fn element(&self, at: usize, row: usize) -> Result<Option<i64>, SqlError> {
        use datafusion::arrow::datatypes as a;
        let array = self.arrays.get(at).ok_or_else(no_range)?;
        if array.is_null(row) {
            return Ok(None);
        }
        Ok(Some(match array.data_type() {
            DataType::Int32 => array.as_primitive::<a::Int32Type>().value(row).into(),
            DataType::Int64 => array.as_primitive::<a::Int64Type>().value(row),
            DataType::Date32 => array.as_primitive::<a::Date32Type>().value(row).into(),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                array.as_primitive::<a::TimestampMicrosecondType>().value(row)
            }
            _ => return Err(no_range()),
        }))
    }

    fn ranges(
        &self,
        kind: Kind,
        value: impl Fn(usize) -> Result<Option<Range>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let ty = ordered::type_of_data(self.returns.data_type()).ok_or_else(no_range)?;
        ordered::column(ty, (0..self.rows).map(|row| Ok(value(row)?.map(|range| range.to_stored(kind)))))
    }

    fn elements(
        &self,
        kind: Kind,
        value: impl Fn(usize) -> Result<Option<i64>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let values = (0..self.rows).map(value).collect::<Result<Vec<_>, _>>()?;
        let narrow = || values.iter().map(|value| value.map(|value| value as i32));
        Ok(match kind {
            Kind::Int4 => Arc::new(narrow().collect::<Int32Array>()),
            Kind::Date => Arc::new(narrow().collect::<Date32Array>()),
            Kind::Int8 => Arc::new(Int64Array::from(values)),
            Kind::Timestamp => Arc::new(TimestampMicrosecondArray::from(values)),
            Kind::Timestamptz => Arc::new(TimestampMicrosecondArray::from(values).with_data_type(timestamptz())),
        })
    }
}

/// A question about a range.
fn asked_of_one(name: &'static str, is: fn(&Range) -> bool) -> PgFunction {
    f(name, &[P::Any], oid(t::BOOL), move |call| {
        let kind = call.kind(0)?;
        call.bools(|row| Ok(call.range(kind, 0, row)?.map(|range| is(&range))))
    })
}

/// A question about two ranges.
fn asked(name: &'static str, is: fn(Kind, &Range, &Range) -> bool) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::BOOL), move |call| {
        let kind = call.kind(0)?;
        call.bools(|row| Ok(call.two_ranges(kind, row)?.map(|(a, b)| is(kind, &a, &b))))
    })
}

/// A range of two.
fn made(name: &'static str, make: fn(&Range, Kind, &Range) -> Result<Range, SqlError>) -> PgFunction {
    f(name, &[P::Any, P::Any], Returns::By(as_given), move |call| {
        let kind = call.kind(0)?;
        call.ranges(kind, |row| call.two_ranges(kind, row)?.map(|(a, b)| make(&a, kind, &b)).transpose())
    })
}

/// A bound of a range.
fn bound_of(name: &'static str, of: fn(&Range) -> Option<Bound>) -> PgFunction {
    f(name, &[P::Any], Returns::By(as_elements), move |call| {
        let kind = call.kind(0)?;
        call.elements(kind, |row| Ok(call.range(kind, 0, row)?.and_then(|range| of(&range)).map(|bound| bound.value)))
    })
}

fn lower(range: &Range) -> Option<Bound> {
    range.bounds()?.0
}

fn upper(range: &Range) -> Option<Bound> {
    range.bounds()?.1
}

/// Which bounds are in a range, by the text of its brackets (`range_parse_flags`).
fn flags(text: &str) -> Result<(bool, bool), SqlError> {
    match text {
        "[]" => Ok((true, true)),
        "[)" => Ok((true, false)),
        "(]" => Ok((false, true)),
        "()" => Ok((false, false)),
        _ => Err(SqlError::syntax("invalid range bound flags")
            .with_hint("Valid values are \"[]\", \"[)\", \"(]\", and \"()\".")),
    }
}

/// A range from its bounds; NULL is a bound that is not there.
fn constructor(name: &'static str, parameters: &'static [P]) -> PgFunction {
    f(name, parameters, Returns::By(as_ranges_of_given), move |call| {
        let ty = ordered::type_of_data(call.returns.data_type()).and_then(Kind::of);
        let kind = ty.ok_or_else(no_range)?;
        call.ranges(kind, |row| {
            let (from, to) = match parameters.len() {
                2 => (true, false),
                _ => match call.text(2, row) {
                    Some(text) => flags(text)?,
                    None => {
                        let text = "range constructor flags argument must not be null";
                        return Err(SqlError::new("22000", text));
                    }
                },
            };
            let bound = |value: Option<i64>, inclusive| value.map(|value| Bound { value, inclusive });
            Range::new(kind, bound(call.element(0, row)?, from), bound(call.element(1, row)?, to)).map(Some)
        })
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    const TWO: &[P] = &[P::Any, P::Any];
    vec![
        constructor("range_constructor2", TWO),
        constructor("range_constructor3", &[P::Any, P::Any, P::Text]),
        bound_of("range_lower", lower),
        bound_of("range_upper", upper),
        asked_of_one("range_empty", Range::is_empty),
        asked_of_one("range_lower_inc", |range| lower(range).is_some_and(|bound| bound.inclusive)),
        asked_of_one("range_upper_inc", |range| upper(range).is_some_and(|bound| bound.inclusive)),
        asked_of_one("range_lower_inf", |range| !range.is_empty() && lower(range).is_none()),
        asked_of_one("range_upper_inf", |range| !range.is_empty() && upper(range).is_none()),
        f("range_cmp", TWO, oid(t::INT4), |call| {
            let kind = call.kind(0)?;
            call.int4s(|row| Ok(call.two_ranges(kind, row)?.map(|(a, b)| a.compare(&b) as i32)))
        }),
        asked("range_eq", |_, a, b| a == b),
        asked("range_ne", |_, a, b| a != b),
        asked("range_lt", |_, a, b| a.compare(b).is_lt()),
        asked("range_le", |_, a, b| a.compare(b).is_le()),
        asked("range_gt", |_, a, b| a.compare(b).is_gt()),
        asked("range_ge", |_, a, b| a.compare(b).is_ge()),
        asked("range_contains", |_, a, b| a.contains(b)),
        asked("range_contained_by", |_, a, b| b.contains(a)),
        asked("range_overlaps", |_, a, b| a.overlaps(b)),
        asked("range_before", |_, a, b| a.is_before(b)),
        asked("range_after", |_, a, b| a.is_after(b)),
        asked("range_adjacent", |kind, a, b| a.is_adjacent(kind, b)),
        asked("range_overleft", |_, a, b| a.does_not_extend_right_of(b)),
        asked("range_overright", |_, a, b| a.does_not_extend_left_of(b)),
        f("range_contains_elem", TWO, oid(t::BOOL), |call| {
            let kind = call.kind(0)?;
            call.bools(|row| {
                let both = call.range(kind, 0, row)?.zip(call.element(1, row)?);
                Ok(both.map(|(range, value)| range.contains_value(value)))
            })
        }),
        f("elem_contained_by_range", TWO, oid(t::BOOL), |call| {
            let kind = call.kind(1)?;
            call.bools(|row| {
                let both = call.range(kind, 1, row)?.zip(call.element(0, row)?);
                Ok(both.map(|(range, value)| range.contains_value(value)))
            })
        }),
        made("range_union", Range::union),
        made("range_merge", Range::merge),
        made("range_intersect", Range::intersection),
        made("range_minus", Range::minus),
    ]
}
