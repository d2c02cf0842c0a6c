//! Casts by PostgreSQL's rules where Arrow's differ: rounding, text parsing, lengths.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::*;
use resurgam_engine::{ColumnType, SECOND_DIGITS_MAX};

use crate::citext;
use crate::datetime::{DAY_US, SECOND_US, Zone, timestamp_in_range};
use crate::decode;
use crate::encode::uuid_text;
use crate::errors::from_arrow;
use crate::functions::cast::at_precision;
use crate::functions::numeric;
use crate::types::{arrow_oid, arrow_type, column_oid, column_typmod, element_oid, format_type, numeric_limits, oid};
use crate::user_types::{enum_of_data, labels_of};
use crate::wire::SqlError;

/// An expression's result brought to the Arrow type of the column that it is assigned to.
///
/// # Errors
/// `22003` out of range, `22001` too long, `22P02`/`22007`/`22008` for text that does not
/// read as the column's type, `42804` for types that have no assignment cast.
pub fn assignment_cast(array: &ArrayRef, ty: &ColumnType, zone: &Zone) -> Result<ArrayRef, SqlError> {
    let target = arrow_type(ty);
    let cast = cast_array(array, &target, column_oid(ty), zone).map_err(|error| {
        if error.sqlstate == "42846" {
            SqlError::new(
                "42804",
                format!(
                    "column is of type {} but expression is of type {}",
                    format_type(column_oid(ty), Some(column_typmod(ty))),
                    format_type(arrow_oid(array.data_type()), None)
                ),
            )
            .with_hint("You will need to rewrite or cast the expression.")
        } else {
            error
        }
    })?;
    match ty {
        ColumnType::Varchar(_) | ColumnType::Char(_) => fit_array(&cast, ty, false),
        ColumnType::VarNumeric(Some(_)) => limited(&cast, ty),
        ColumnType::Interval(Some(limit)) => Ok(at_precision(&cast, *limit as i32)),
        ColumnType::Ordered(ty) => crate::ordered::fitted(&cast, *ty),
        // Each element by the rules of its own type.
        ColumnType::Array(element) if column_typmod(ty) != -1 => {
            let lists = cast.as_list::<i32>();
            let DataType::List(item) = &target else { return Ok(cast) };
            let values = assignment_cast(lists.values(), &element.column_type(), zone)?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            let out = ListArray::try_new(Arc::clone(item), offsets, values, nulls);
            Ok(Arc::new(out.map_err(|error| from_arrow(&error))?))
        }
        ColumnType::Time(Some(digits))
        | ColumnType::Timestamp(Some(digits))
        | ColumnType::TimestampTz(Some(digits))
            if *digits < SECOND_DIGITS_MAX =>
        {
            Ok(at_precision(&cast, i32::from(*digits)))
        }
        _ => Ok(cast),
    }
}

/// A moment as a clock in that zone shows it, in microseconds since 1970.
fn shown_us(us: i64, zone: &Zone) -> i64 {
    match us {
        // Infinite ones have no zone.
        i64::MAX | i64::MIN => us,
        us => us.saturating_add(i64::from(zone.offset_at(us)) * SECOND_US),
    }
}

/// The `timestamp` of a moment in that zone.
///
/// # Errors
/// `22008`, `0A000`
pub(crate) fn local_us(us: i64, zone: &Zone) -> Result<i64, SqlError> {
    match us {
        i64::MAX | i64::MIN => Ok(us),
        us => timestamp_in_range(shown_us(us, zone).into(), || SqlError::new("22008", "timestamp out of range")),
    }
}

/// Dynamic numerics in the limits of their column.
fn limited(array: &ArrayRef, ty: &ColumnType) -> Result<ArrayRef, SqlError> {
    let Some(limits) = numeric_limits(ty) else { return Ok(Arc::clone(array)) };
    let numbers = numeric::column::Numbers::of(array.as_ref())?;
    numeric::column::collect(array.len(), |row| match numbers.get(row)? {
        Some(value) => value.with_typmod(limits).map(Some).map_err(numeric::column::numeric_error),
        None => Ok(None),
    })
}

/// Checks every text against `varchar(n)` or `char(n)`; copies only if something changes.
fn fit_array(array: &ArrayRef, ty: &ColumnType, explicit: bool) -> Result<ArrayRef, SqlError> {
    let texts = array.as_string_view();
    let mut changed = false;
    for text in texts.iter().flatten() {
        changed |= fit_text(text, ty, explicit)?.len() != text.len();
    }
    if !changed {
        return Ok(array.clone());
    }
    let fitted: StringViewArray =
        texts.iter().map(|text| text.map(|text| fit_text(text, ty, explicit)).transpose()).collect::<Result<_, _>>()?;
    Ok(Arc::new(fitted))
}

/// A text cut or refused by the length of its type. Blanks beyond the length are cut
/// silently; other characters are an error unless the cast is explicit. `char(n)` loses
/// its blanks at the end, see [`crate::types`].
///
/// # Errors
/// `22001`: value too long.
pub fn fit_text<'a>(text: &'a str, ty: &ColumnType, explicit: bool) -> Result<&'a str, SqlError> {
    let limit = match *ty {
        ColumnType::Varchar(n) | ColumnType::Char(n) => n as usize,
        _ => return Ok(text),
    };
    let mut fitted = text;
    // fewer bytes than characters allowed cannot be too long
    if text.len() > limit
        && let Some((at, _)) = text.char_indices().nth(limit)
    {
        if !explicit && !text[at..].bytes().all(|byte| byte == b' ') {
            return Err(SqlError::new(
                "22001",
                format!("value too long for type {}", format_type(column_oid(ty), Some(column_typmod(ty)))),
            ));
        }
        fitted = &text[..at];
    }
    Ok(if matches!(ty, ColumnType::Char(_)) { fitted.trim_end_matches(' ') } else { fitted })
}

/// An array cast to another type by PostgreSQL's rules. `oid` refines the target where
/// Arrow's type does not say enough (`uuid`, `json`, `char(n)`).
///
/// # Errors
/// As [`assignment_cast`]; `42846` where there is no cast.
pub fn cast_array(array: &ArrayRef, target: &DataType, oid: u32, zone: &Zone) -> Result<ArrayRef, SqlError> {
    if let Some(done) = crate::ordered::cast(array, target, zone) {
        return done;
    }
    let source = array.data_type();
    if citext::is_citext(source) && source != target {
        let texts: ArrayRef = Arc::new(citext::Column::of(array.as_ref()).to_texts());
        return cast_array(&texts, target, oid, zone);
    }
    if citext::is_citext(target) && source != target && !source.is_null() {
        let texts = cast_array(array, &crate::types::TEXT, oid::TEXT, zone)?;
        return Ok(citext::of_texts(texts.as_string_view()));
    }
    match (source, oid) {
        (DataType::Null, _) => return Ok(new_null_array(target, array.len())),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..), _) if !matches!(source, DataType::Dictionary(_, value) if !value.is_string()) =>
        {
            return from_text(array, target, oid, zone);
        }
        _ => {}
    }
    // Arrays of texts may hold what are no bits, no documents.
    if source == target && !element_oid(oid).is_some_and(must_be_read) {
        return Ok(array.clone());
    }
    if let Some(done) = cast_dynamic(array, target)? {
        return Ok(done);
    }
    // An integer and an oid are the same bits to each other.
    match (source, target) {
        (DataType::Int16, DataType::UInt32) => {
            return Ok(Arc::new(
                array.as_primitive::<Int16Type>().unary::<_, UInt32Type>(|value| i32::from(value) as u32),
            ));
        }
        (DataType::Int32, DataType::UInt32) => {
            return Ok(Arc::new(array.as_primitive::<Int32Type>().unary::<_, UInt32Type>(|value| value as u32)));
        }
        (DataType::UInt32, DataType::Int32) => {
            return Ok(Arc::new(array.as_primitive::<UInt32Type>().unary::<_, Int32Type>(|value| value as i32)));
        }
        _ => {}
    }
    // Labels are no times: there is their text, and nothing else.
    let is_enum = |ty: &DataType| enum_of_data(ty).is_some();
    if is_enum(target) || is_enum(source) && !target.is_string() {
        return Err(SqlError::new("42846", format!("cannot cast type {} to {}", shown(source), shown(target))));
    }
    match (source, target) {
        (DataType::Float16 | DataType::Float32 | DataType::Float64, t) if t.is_integer() => {
            let wide = plain_cast(array, &DataType::Float64)?;
            let rounded: Float64Array = wide.as_primitive::<Float64Type>().unary(|value| value.round_ties_even());
            for value in rounded.iter().flatten() {
                if !in_range(value, t) {
                    return Err(out_of_range(t));
                }
            }
            plain_cast(&(Arc::new(rounded) as ArrayRef), t)
        }
        (DataType::Decimal128(_, scale), t) if t.is_integer() => {
            let scale = i32::from(*scale);
            let rounded: Int64Array = array
                .as_primitive::<Decimal128Type>()
                .iter()
                .map(|value| {
                    value
                        .map(|value| {
                            decode::rescale(value, scale, 38, 0)
                                .ok()
                                .and_then(|value| i64::try_from(value).ok())
                                .ok_or_else(|| out_of_range(t))
                        })
                        .transpose()
                })
                .collect::<Result<_, _>>()?;
            plain_cast(&(Arc::new(rounded) as ArrayRef), t)
        }
        (DataType::Decimal128(_, from), DataType::Decimal128(precision, scale)) => {
            let (from, precision, scale) = (i32::from(*from), *precision, *scale);
            let out: Decimal128Array = array
                .as_primitive::<Decimal128Type>()
                .iter()
                .map(|value| value.map(|value| decode::rescale(value, from, precision, scale)).transpose())
                .collect::<Result<_, _>>()?;
            Ok(Arc::new(out.with_precision_and_scale(precision, scale).map_err(|error| from_arrow(&error))?))
        }
        (DataType::Float32 | DataType::Float64, DataType::Decimal128(precision, scale)) => {
            let (precision, scale) = (*precision, *scale);
            let single = matches!(source, DataType::Float32);
            let wide = plain_cast(array, &DataType::Float64)?;
            let out: Decimal128Array = wide
                .as_primitive::<Float64Type>()
                .iter()
                .map(|value| value.map(|value| float_to_numeric(value, single, precision, scale)).transpose())
                .collect::<Result<_, _>>()?;
            Ok(Arc::new(out.with_precision_and_scale(precision, scale).map_err(|error| from_arrow(&error))?))
        }
        // Each element by the same rules.
        (DataType::List(_), DataType::List(item)) => {
            let lists = array.as_list::<i32>();
            if lists.values().data_type().is_list() && !item.data_type().is_list() {
                let message = "columns do not hold multidimensional arrays yet";
                return Err(SqlError::unsupported(message));
            }
            // Arrays of several dimensions are of one type.
            let is_nested = lists.values().data_type().is_list();
            let element = if is_nested { oid } else { element_oid(oid).unwrap_or(0) };
            each_element(lists, item, |values| cast_array(values, item.data_type(), element, zone))
        }
        (DataType::Float64, DataType::Float32) => {
            let narrow = |value: f64| {
                let out = value as f32;
                if out.is_infinite() && !value.is_infinite() {
                    return Err(SqlError::new("22003", "value out of range: overflow"));
                }
                if out == 0.0 && value != 0.0 {
                    return Err(SqlError::new("22003", "value out of range: underflow"));
                }
                Ok(if out.is_nan() { f32::NAN } else { out })
            };
            let values = array.as_primitive::<Float64Type>().iter();
            Ok(Arc::new(values.map(|value| value.map(narrow).transpose()).collect::<Result<Float32Array, SqlError>>()?))
        }
        (DataType::Interval(IntervalUnit::MonthDayNano), DataType::Time64(TimeUnit::Microsecond)) => {
            let out: Time64MicrosecondArray = array
                .as_primitive::<IntervalMonthDayNanoType>()
                .unary(|value| (value.nanoseconds / 1000).rem_euclid(DAY_US));
            Ok(Arc::new(out))
        }
        (DataType::Time64(TimeUnit::Microsecond), DataType::Interval(IntervalUnit::MonthDayNano)) => {
            let out: IntervalMonthDayNanoArray =
                array.as_primitive::<Time64MicrosecondType>().unary(|us| IntervalMonthDayNano::new(0, 0, us * 1000));
            Ok(Arc::new(out))
        }
        (DataType::Decimal128(precision, scale), DataType::Float64) => {
            let (precision, scale) = (*precision, *scale);
            let out: Float64Array =
                array.as_primitive::<Decimal128Type>().unary(|value| decimal_to_float(value, precision, scale));
            Ok(Arc::new(out))
        }
        (DataType::Decimal128(precision, scale), DataType::Float32) => {
            let (precision, scale) = (*precision, *scale);
            let out: Float32Array = array
                .as_primitive::<Decimal128Type>()
                .unary(|value| Decimal128Type::format_decimal(value, precision, scale).parse().unwrap_or(f32::NAN));
            Ok(Arc::new(out))
        }
        (from, DataType::Decimal128(precision, scale)) if from.is_integer() => {
            let (precision, scale) = (*precision, *scale);
            let wide = plain_cast(array, &DataType::Int64)?;
            let out: Decimal128Array = wide
                .as_primitive::<Int64Type>()
                .iter()
                .map(|value| value.map(|value| decode::rescale(value.into(), 0, precision, scale)).transpose())
                .collect::<Result<_, _>>()?;
            Ok(Arc::new(out.with_precision_and_scale(precision, scale).map_err(|error| from_arrow(&error))?))
        }
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) => {
            let wide = plain_cast(array, &crate::types::timestamptz())?;
            let local: TimestampMicrosecondArray =
                wide.as_primitive::<TimestampMicrosecondType>().try_unary(|us| local_us(us, zone))?;
            plain_cast(&(Arc::new(local) as ArrayRef), target)
        }
        (DataType::Date32, DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            let out: TimestampMicrosecondArray = array
                .as_primitive::<Date32Type>()
                .try_unary::<_, TimestampMicrosecondType, SqlError>(|days| match days {
                    i32::MAX => Ok(i64::MAX),
                    i32::MIN => Ok(i64::MIN),
                    days => timestamp_in_range(i128::from(days) * i128::from(DAY_US), || {
                        SqlError::new("22008", "date out of range for timestamp")
                    }),
                })?;
            Ok(Arc::new(out))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Date32) => {
            let out: Date32Array = array.as_primitive::<TimestampMicrosecondType>().unary(|us| match us {
                i64::MAX => i32::MAX,
                i64::MIN => i32::MIN,
                us => us.div_euclid(DAY_US) as i32,
            });
            Ok(Arc::new(out))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Time64(TimeUnit::Microsecond)) => {
            // Infinite times are no time of a day.
            let time = |us: i64| (!matches!(us, i64::MAX | i64::MIN)).then(|| us.rem_euclid(DAY_US));
            let out: Time64MicrosecondArray = array.as_primitive::<TimestampMicrosecondType>().unary_opt(time);
            Ok(Arc::new(out))
        }
        (DataType::Timestamp(_, None) | DataType::Date32, DataType::Timestamp(_, Some(_))) => {
            let wide =
                cast_array(array, &DataType::Timestamp(TimeUnit::Microsecond, None), oid::TIMESTAMP, &Zone::Utc)?;
            let what = if array.data_type() == &DataType::Date32 {
                "date out of range for timestamp"
            } else {
                "timestamp out of range"
            };
            let utc: TimestampMicrosecondArray =
                wide.as_primitive::<TimestampMicrosecondType>().try_unary(|us| match us {
                    i64::MAX | i64::MIN => Ok(us),
                    us => timestamp_in_range(zone.wide_local_to_utc(us.into()), || SqlError::new("22008", what)),
                })?;
            plain_cast(&(Arc::new(utc.with_timezone(crate::types::UTC)) as ArrayRef), target)
        }
        (DataType::Timestamp(_, Some(_)), DataType::Date32 | DataType::Time64(_)) => {
            let wide = plain_cast(array, &crate::types::timestamptz())?;
            // Of its first and last days an instant may have a date where it has no timestamp.
            let local: TimestampMicrosecondArray =
                wide.as_primitive::<TimestampMicrosecondType>().unary(|us| shown_us(us, zone));
            cast_array(&(Arc::new(local) as ArrayRef), target, oid, zone)
        }
        (DataType::Binary, to) if matches!(to, DataType::Boolean) || to.is_numeric() || to == &numeric::DYNAMIC => {
            from_document(array.as_binary::<i32>(), to, oid, zone)
        }
        (_, DataType::Utf8View | DataType::Utf8) => to_text(array, target, zone),
        (from, to) if !castable(from, to) => {
            Err(SqlError::new("42846", format!("cannot cast type {} to {}", shown(from), shown(to))))
        }
        _ => plain_cast(array, target),
    }
}

/// Types that are kept as texts, and that not every text is a value of.
pub(crate) fn must_be_read(ty: u32) -> bool {
    matches!(ty, oid::UUID | oid::JSON | oid::JSONPATH | oid::BIT | oid::VARBIT)
}

/// Lists with each element made another by `cast`, which sees the elements of the rows only: an array may hold more, of
/// rows that were cut off or are NULL, and these need not be values that can be cast.
///
/// # Errors
/// Those of `cast`.
pub(crate) fn each_element(
    lists: &ListArray,
    item: &FieldRef,
    cast: impl FnOnce(&ArrayRef) -> Result<ArrayRef, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let offsets = lists.value_offsets();
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let lengths = || (0..lists.len()).map(|row| if lists.is_null(row) { 0 } else { lists.value_length(row) as usize });
    let hidden = lists.null_count() > 0 && lengths().sum::<usize>() != (last - first) as usize;
    let (offsets, values) = if hidden {
        let present = (0..lists.len()).filter(|row| lists.is_valid(*row));
        let at = present.flat_map(|row| offsets[row]..offsets[row + 1]).collect::<Int32Array>();
        let values = datafusion::arrow::compute::take(lists.values(), &at, None).map_err(|error| from_arrow(&error))?;
        (OffsetBuffer::from_lengths(lengths()), values)
    } else if first > 0 || last as usize != lists.values().len() {
        let shifted = offsets.iter().map(|offset| offset - first).collect::<Vec<_>>();
        let values = lists.values().slice(first as usize, (last - first) as usize);
        (OffsetBuffer::new(shifted.into()), values)
    } else {
        (lists.offsets().clone(), Arc::clone(lists.values()))
    };
    let out = ListArray::try_new(Arc::clone(item), offsets, cast(&values)?, lists.nulls().cloned());
    Ok(Arc::new(out.map_err(|error| from_arrow(&error))?))
}

/// The name of the type that values of that Arrow type are of.
fn shown(ty: &DataType) -> String {
    format_type(arrow_oid(ty), None)
}

/// What documents that are a number or a boolean are as such.
fn from_document(documents: &BinaryArray, target: &DataType, oid: u32, zone: &Zone) -> Result<ArrayRef, SqlError> {
    use resurgam_engine::document::{Node, read};
    let cannot = |node: &Node<'_>| {
        let what = match node {
            Node::Null => "null",
            Node::Bool(_) => "boolean",
            Node::Number(_) => "numeric",
            Node::Text(_) => "string",
            Node::List(_) => "array",
            Node::Map(_) => "object",
        };
        let to = format_type(oid, None);
        SqlError::new("22023", format!("cannot cast jsonb {what} to type {to}"))
    };
    if target == &DataType::Boolean {
        let values = documents.iter().map(|document| match document.map(read).transpose()? {
            None => Ok(None),
            Some(Node::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(cannot(&other)),
        });
        return Ok(Arc::new(values.collect::<Result<BooleanArray, SqlError>>()?));
    }
    let numbers = documents.iter().map(|document| match document.map(read).transpose()? {
        None => Ok(None),
        Some(Node::Number(value)) => Ok(Some(value)),
        Some(other) => Err(cannot(&other)),
    });
    let numbers: ArrayRef = Arc::new(numbers.collect::<Result<LargeBinaryArray, SqlError>>()?);
    cast_array(&numbers, target, oid, zone)
}

/// Casts from and to numerics of the dynamic form; `None` for others, and to text.
fn cast_dynamic(array: &ArrayRef, target: &DataType) -> Result<Option<ArrayRef>, SqlError> {
    let (source, dynamic) = (array.data_type(), &numeric::DYNAMIC);
    let is_number = |ty: &DataType| ty.is_numeric() || ty == dynamic;
    if (source != dynamic && target != dynamic) || !is_number(source) || !is_number(target) {
        return Ok(None);
    }
    let function = match target {
        DataType::LargeBinary => return numeric::to_dynamic(array).map(Some),
        DataType::Decimal128(precision, scale) => return numeric::to_fixed(array, *precision, *scale).map(Some),
        DataType::Int16 => "numeric_int2",
        DataType::Int32 => "numeric_int4",
        DataType::Int64 => "numeric_int8",
        DataType::Float32 => "numeric_float4",
        DataType::Float64 => "numeric_float8",
        _ => return Ok(None),
    };
    numeric::apply(function, std::slice::from_ref(array)).map(Some)
}

fn castable(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    let number = |t: &DataType| t.is_numeric();
    match (from, to) {
        (D::Boolean, D::Int32 | D::Int64) | (D::Int32 | D::Int64, D::Boolean) => true,
        (D::Boolean, _) | (_, D::Boolean) | (D::Binary, _) | (_, D::Binary) => false,
        (a, b) if number(a) && number(b) => true,
        (a, b) if number(a) != number(b) => false,
        (D::Date32, D::Time64(_)) | (D::Time64(_), D::Date32 | D::Timestamp(..)) => false,
        _ => datafusion::arrow::compute::can_cast_types(from, to),
    }
}

fn plain_cast(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, SqlError> {
    if array.data_type() == target {
        return Ok(array.clone());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, target, &options).map_err(|error| {
        let out = from_arrow(&error);
        if target.is_integer() && out.sqlstate == "22003" { out_of_range(target) } else { out }
    })
}

fn out_of_range(target: &DataType) -> SqlError {
    let shown = match target {
        DataType::UInt32 => "OID".to_owned(),
        _ => format_type(arrow_oid(target), None),
    };
    SqlError::new("22003", format!("{shown} out of range"))
}

fn in_range(value: f64, target: &DataType) -> bool {
    let (min, max) = match target {
        DataType::Int8 => (-128.0, 128.0),
        DataType::Int16 => (-32_768.0, 32_768.0),
        DataType::Int32 => (-2_147_483_648.0, 2_147_483_648.0),
        DataType::UInt32 => (0.0, 4_294_967_296.0),
        DataType::UInt64 => (0.0, 18_446_744_073_709_551_616.0),
        _ => (-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0),
    };
    value >= min && value < max
}

/// The nearest double, as if its digits were read.
fn decimal_to_float(value: i128, precision: u8, scale: i8) -> f64 {
    // Up to here both are exact, so dividing them rounds once.
    const EXACT: u128 = 1 << f64::MANTISSA_DIGITS;
    const POWERS: i8 = 22;
    if value.unsigned_abs() <= EXACT && (0..=POWERS).contains(&scale) {
        return value as f64 / 10f64.powi(i32::from(scale));
    }
    Decimal128Type::format_decimal(value, precision, scale).parse().unwrap_or(f64::NAN)
}

/// PostgreSQL goes through the shortest decimal digits of 15 (6 for `real`) at most.
fn float_to_numeric(value: f64, single: bool, precision: u8, scale: i8) -> Result<i128, SqlError> {
    if !value.is_finite() {
        return Err(SqlError::unsupported("numeric values NaN and Infinity are not supported"));
    }
    let text = if single { format!("{value:.5e}") } else { format!("{value:.14e}") };
    decode::parse_numeric(&text, precision, scale)
}

macro_rules! parse_each {
    ($array:expr, $collect:ty, $parse:expr) => {{
        let parse = $parse;
        let out: $collect = $array.iter().map(|text| text.map(&parse).transpose()).collect::<Result<_, SqlError>>()?;
        Arc::new(out) as ArrayRef
    }};
}

fn from_text(array: &ArrayRef, target: &DataType, ty: u32, zone: &Zone) -> Result<ArrayRef, SqlError> {
    let views = plain_cast(array, &DataType::Utf8View)?;
    let texts = views.as_string_view();
    Ok(match target {
        DataType::Utf8View => match ty {
            oid::UUID => {
                parse_each!(texts, StringViewArray, |text: &str| decode::parse_uuid(text).map(|u| uuid_text(&u)))
            }
            oid::JSONPATH => {
                parse_each!(texts, StringViewArray, |text: &str| crate::jsonpath::parse(text)
                    .map(|path| path.to_string()))
            }
            oid::JSON => {
                for text in texts.iter().flatten() {
                    decode::check_json(text)?;
                }
                views.clone()
            }
            oid if let Some(ty) = crate::ordered::type_of_oid(oid) => {
                let read = texts.iter().map(|text| text.map(|text| crate::bits::parse(text, ty)).transpose());
                Arc::new(read.collect::<Result<StringViewArray, SqlError>>()?)
            }
            _ => views.clone(),
        },
        DataType::Utf8 | DataType::LargeUtf8 => plain_cast(&views, target)?,
        DataType::Boolean => parse_each!(texts, BooleanArray, decode::parse_bool),
        DataType::Int16 => parse_each!(texts, Int16Array, |text: &str| decode::parse_int(
            text,
            i16::MIN.into(),
            i16::MAX.into(),
            "smallint"
        )
        .map(|v| v as i16)),
        DataType::Int32 => parse_each!(texts, Int32Array, |text: &str| decode::parse_int(
            text,
            i32::MIN.into(),
            i32::MAX.into(),
            "integer"
        )
        .map(|v| v as i32)),
        DataType::Int64 => {
            parse_each!(texts, Int64Array, |text: &str| decode::parse_int(text, i64::MIN, i64::MAX, "bigint"))
        }
        DataType::UInt32 => parse_each!(texts, UInt32Array, decode::parse_oid),
        DataType::Float32 => parse_each!(texts, Float32Array, decode::parse_float4),
        DataType::Float64 => parse_each!(texts, Float64Array, decode::parse_float8),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            let out: Decimal128Array = texts
                .iter()
                .map(|text| text.map(|text| decode::parse_numeric(text, precision, scale)).transpose())
                .collect::<Result<_, SqlError>>()?;
            Arc::new(out.with_precision_and_scale(precision, scale).map_err(|error| from_arrow(&error))?)
        }
        DataType::LargeBinary if ty == oid::NUMERIC => numeric::to_dynamic(&views)?,
        DataType::Date32 => parse_each!(texts, Date32Array, |text: &str| decode::parse_date(text, zone)),
        DataType::Time64(TimeUnit::Microsecond) => {
            parse_each!(texts, Time64MicrosecondArray, decode::parse_time)
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            parse_each!(texts, TimestampMicrosecondArray, |text: &str| decode::parse_timestamp(text, zone))
        }
        DataType::Timestamp(TimeUnit::Second, Some(name)) if let Some(ty) = enum_of_data(target) => {
            let labels = labels_of(ty, None)?;
            let read = |text: &str| labels.number(text);
            let out: TimestampSecondArray =
                texts.iter().map(|text| text.map(read).transpose()).collect::<Result<_, SqlError>>()?;
            Arc::new(out.with_timezone(name.clone()))
        }
        DataType::Timestamp(TimeUnit::Microsecond, Some(name)) => {
            let out: TimestampMicrosecondArray = texts
                .iter()
                .map(|text| text.map(|text| decode::parse_timestamptz(text, zone)).transpose())
                .collect::<Result<_, SqlError>>()?;
            Arc::new(out.with_timezone(name.clone()))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            parse_each!(texts, IntervalMonthDayNanoArray, |text: &str| {
                decode::interval_value(decode::parse_interval(text)?)
            })
        }
        DataType::Binary => parse_each!(texts, BinaryArray, crate::jsonb::from_text),
        DataType::BinaryView => parse_each!(texts, BinaryViewArray, |text: &str| {
            let mut bytes = Vec::new();
            decode::parse_bytea(text, &mut bytes).map(|()| bytes)
        }),
        DataType::List(_) => {
            let mut lists = Vec::with_capacity(texts.len());
            let list_oid = if ty == oid::TEXT || ty == 0 { arrow_oid(target) } else { ty };
            for text in texts {
                let scalar = decode::decode_param(list_oid, crate::wire::Format::Text, text.map(str::as_bytes), zone)?;
                lists.push(scalar);
            }
            if lists.is_empty() {
                return Ok(new_empty_array(target));
            }
            datafusion::common::ScalarValue::iter_to_array(lists)
                .map_err(|error| crate::errors::from_datafusion(error, ""))?
        }
        other => plain_cast(&views, other)?,
    })
}

/// Anything to text, as a result would show it.
fn to_text(array: &ArrayRef, target: &DataType, zone: &Zone) -> Result<ArrayRef, SqlError> {
    let field = Field::new("", array.data_type().clone(), true);
    let fields = Fields::from(vec![field]);
    let style = crate::encode::TextStyle { zone: *zone, names: None };
    let encoder = crate::encode::RowEncoder::new(&fields, &[], &style)?;
    let batch =
        RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![array.clone()]).map_err(|error| from_arrow(&error))?;
    let cells = encoder.cells(&batch)?;
    let cell = &cells[0];
    let boolean = array.data_type() == &DataType::Boolean;
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut buffer = bytes::BytesMut::new();
    for row in 0..array.len() {
        if cell.is_null(row) {
            builder.append_null();
            continue;
        }
        buffer.clear();
        cell.put_text(row, &mut buffer)?;
        // a cast says true and false, a result t and f
        let text = match (boolean, &buffer[..]) {
            (true, b"t") => "true",
            (true, _) => "false",
            (false, bytes) => decode::utf8(bytes)?,
        };
        builder.append_value(text);
    }
    plain_cast(&(Arc::new(builder.finish()) as ArrayRef), target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(array: impl Array + 'static, ty: ColumnType) -> Result<ArrayRef, SqlError> {
        assignment_cast(&(Arc::new(array) as ArrayRef), &ty, &Zone::Utc)
    }

    #[test]
    fn numbers_are_rounded() {
        let out = assign(Float64Array::from(vec![1.5, 2.5, -1.7]), ColumnType::Int4).expect("cast");
        assert_eq!(out.as_primitive::<Int32Type>().values(), &[2, 2, -2]);
        let decimals = Decimal128Array::from(vec![150, 250, -170]).with_precision_and_scale(5, 2).expect("type");
        let out = assign(decimals, ColumnType::Int2).expect("cast");
        assert_eq!(out.as_primitive::<Int16Type>().values(), &[2, 3, -2]);
        assert_eq!(
            assign(Float64Array::from(vec![3e9]), ColumnType::Int4).unwrap_err().message,
            "integer out of range"
        );
        assert_eq!(
            assign(Int64Array::from(vec![40_000]), ColumnType::Int2).unwrap_err().message,
            "smallint out of range"
        );
        let numeric = ColumnType::Numeric { precision: 5, scale: 2 };
        let out = assign(Float64Array::from(vec![1.005, 0.1]), numeric).expect("cast");
        assert_eq!(out.as_primitive::<Decimal128Type>().values(), &[101, 10]);
        assert_eq!(assign(Int64Array::from(vec![1000]), numeric).unwrap_err().sqlstate, "22003");
    }

    #[test]
    fn numerics_become_the_nearest_doubles() {
        for text in ["0.1", "-12.50", "0.12345678901234567", "9007199254740993", "0.3333333333333333333333333333"] {
            let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i8);
            let value: i128 = text.replace('.', "").parse().expect("digits");
            let decimals = Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).expect("type");
            let out = assign(decimals.clone(), ColumnType::Float8).expect("cast");
            assert_eq!(out.as_primitive::<Float64Type>().value(0), text.parse::<f64>().expect("float"));
            let out = assign(decimals, ColumnType::Float4).expect("cast");
            assert_eq!(out.as_primitive::<Float32Type>().value(0), text.parse::<f32>().expect("float"));
        }
    }

    #[test]
    fn text_is_read_as_postgresql_reads_it() {
        let out = assign(StringArray::from(vec![Some(" 12 "), None]), ColumnType::Int4).expect("cast");
        assert_eq!(out.as_primitive::<Int32Type>().value(0), 12);
        assert!(out.is_null(1));
        let out =
            assign(StringArray::from(vec!["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]), ColumnType::Uuid).expect("cast");
        assert_eq!(out.as_string_view().value(0), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        assert_eq!(assign(StringArray::from(vec!["x"]), ColumnType::Json).unwrap_err().sqlstate, "22P02");
    }

    /// Elements of rows that are NULL, or that a slice leaves out, are nobody's.
    #[test]
    fn hidden_elements_are_not_read() {
        let id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["x", "y", id, "z", "w"]));
        let item = Arc::new(Field::new("item", crate::types::TEXT, true));
        let offsets = OffsetBuffer::from_lengths([1, 1, 1, 1, 1]);
        let nulls = Some(vec![true, false, true, false, true].into());
        let lists: ArrayRef = Arc::new(ListArray::new(Arc::clone(&item), offsets, texts, nulls));
        let uuids = DataType::List(item);
        let cast = |lists: &ArrayRef| cast_array(lists, &uuids, oid::UUID_ARRAY, &Zone::Utc);
        assert_eq!(cast(&lists).unwrap_err().sqlstate, "22P02");
        for (from, rows, valid) in [(1, 3, vec![false, true, false]), (2, 1, vec![true]), (2, 2, vec![true, false])] {
            let out = cast(&lists.slice(from, rows)).expect("uuids");
            assert_eq!((0..rows).map(|row| out.is_valid(row)).collect::<Vec<_>>(), valid);
            let at = valid.iter().position(|valid| *valid).expect("one");
            assert_eq!(out.as_list::<i32>().value(at).as_string_view().value(0), id);
        }
        assert_eq!(cast(&lists.slice(3, 1)).expect("none").null_count(), 1);
    }

    #[test]
    fn lengths() {
        assert_eq!(fit_text("abc   ", &ColumnType::Varchar(3), false).expect("blanks"), "abc");
        assert_eq!(fit_text("ab ", &ColumnType::Varchar(3), false).expect("fits"), "ab ");
        assert_eq!(fit_text("ab ", &ColumnType::Char(3), false).expect("fits"), "ab");
        assert_eq!(fit_text("äöü", &ColumnType::Varchar(3), false).expect("characters"), "äöü");
        assert_eq!(fit_text("abcd", &ColumnType::Varchar(3), true).expect("cut"), "abc");
        let error = assign(StringArray::from(vec!["abcd"]), ColumnType::Varchar(3)).unwrap_err();
        assert_eq!(error.message, "value too long for type character varying(3)");
    }

    #[test]
    fn zones() {
        let berlin = Zone::parse("Europe/Berlin").expect("zone");
        let noon: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0]));
        let out = assignment_cast(&noon, &ColumnType::TimestampTz(None), &berlin).expect("cast");
        assert_eq!(out.as_primitive::<TimestampMicrosecondType>().value(0), -3_600_000_000);
        let back = assignment_cast(&out, &ColumnType::Timestamp(None), &berlin).expect("cast");
        assert_eq!(back.as_primitive::<TimestampMicrosecondType>().value(0), 0);
    }

    #[test]
    fn to_text() {
        let out = assign(BooleanArray::from(vec![true]), ColumnType::Text).expect("cast");
        assert_eq!(out.as_string_view().value(0), "true");
        assert_eq!(assign(BooleanArray::from(vec![true]), ColumnType::Date).unwrap_err().sqlstate, "42804");
    }
}
