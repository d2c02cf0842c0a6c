//! Arrays, by the rules of PostgreSQL's `array_userfuncs.c` and `arrayfuncs.c`: searches and changes of elements treat
//! NULLs as equal to each other, comparisons (`= ANY`, `@>`, `&&`) do not.
//!
//! What searches or changes elements takes arrays of one dimension; others are `0A000`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use super::define::{Call, P, PgFunction, Returns, f, oid};
use super::strings::bytes_of;
use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::errors::{from_arrow, from_datafusion, to_datafusion};
use crate::types::{field_oid, oid as t};
use crate::wire::SqlError;

/// PostgreSQL's `MaxArraySize`.
pub(super) const ELEMENTS_MAX: usize = 134_217_727;

/// The elements of a row's list; `None` if it is null.
pub(super) fn elements(array: &ArrayRef, row: usize) -> Result<Option<Vec<ScalarValue>>, SqlError> {
    if array.data_type().is_null() || array.is_null(row) {
        return Ok(None);
    }
    let Some(list) = array.as_list_opt::<i32>() else {
        return Err(SqlError::internal(format!("an array as {}", array.data_type())));
    };
    let values = list.value(row);
    let read = |at| ScalarValue::try_from_array(&values, at).map_err(|error| from_datafusion(error, ""));
    (0..values.len()).map(read).collect::<Result<_, _>>().map(Some)
}

/// Lengths by dimension of a row's array; none if it is empty.
fn dimensions(array: &ArrayRef, row: usize) -> Option<Vec<usize>> {
    if array.data_type().is_null() || array.is_null(row) {
        return None;
    }
    let mut values = array.as_list_opt::<i32>()?.value(row);
    let mut out = Vec::new();
    loop {
        if values.is_empty() {
            return Some(Vec::new());
        }
        out.push(values.len());
        let Some(list) = values.as_list_opt::<i32>().filter(|list| list.is_valid(0)) else { return Some(out) };
        values = list.value(0);
    }
}

/// Whether elements are equal; NULLs are.
fn same(a: &ScalarValue, b: &ScalarValue) -> bool {
    match (a, b) {
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => a == b || a.is_nan() && b.is_nan(),
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => a == b || a.is_nan() && b.is_nan(),
        (a, b) if a.is_null() || b.is_null() => a.is_null() && b.is_null(),
        (a, b) => a == b,
    }
}

/// Refuses arrays of arrays.
fn one_dimension(field: &FieldRef) -> Result<(), SqlError> {
    match field.data_type() {
        DataType::List(item) if matches!(item.data_type(), DataType::List(_)) => {
            Err(SqlError::unsupported("searching for elements in multidimensional arrays is not supported"))
        }
        _ => Ok(()),
    }
}

/// Lists from rows of elements, as the call returns them.
fn lists(call: &Call<'_>, rows: Vec<Option<Vec<ScalarValue>>>) -> Result<ArrayRef, SqlError> {
    let DataType::List(field) = call.returns.data_type() else {
        return Err(SqlError::internal("a function of arrays that gives none"));
    };
    let lengths: Vec<usize> = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)).collect();
    let nulls = NullBuffer::from(rows.iter().map(Option::is_some).collect::<Vec<_>>());
    let mut values = Vec::with_capacity(lengths.iter().sum());
    for value in rows.into_iter().flatten().flatten() {
        let value = match value.data_type() == *field.data_type() {
            true => value,
            false => value.cast_to(field.data_type()).map_err(|error| from_datafusion(error, ""))?,
        };
        values.push(value);
    }
    let values = match values.is_empty() {
        true => new_empty_array(field.data_type()),
        false => ScalarValue::iter_to_array(values).map_err(|error| from_datafusion(error, ""))?,
    };
    let field = Arc::new(field.as_ref().clone().with_nullable(true));
    let out = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, Some(nulls));
    Ok(Arc::new(out.map_err(|error| from_arrow(&error))?))
}

/// An argument's value in the type of the elements.
fn element(call: &Call<'_>, at: usize, row: usize, of: usize) -> Result<ScalarValue, SqlError> {
    let array = &call.arrays[at];
    let (array, row) = match call.arrays[of].data_type() {
        DataType::List(field) if field.data_type() != array.data_type() => {
            (cast_array(&array.slice(row, 1), field.data_type(), field_oid(field), &Zone::Utc)?, 0)
        }
        _ => (Arc::clone(array), row),
    };
    ScalarValue::try_from_array(&array, row).map_err(|error| from_datafusion(error, ""))
}

/// The type of the first argument that is an array, or an array of the other one.
fn array_of(fields: &[FieldRef]) -> FieldRef {
    let list = fields.iter().find(|field| matches!(field.data_type(), DataType::List(_)));
    let element = fields.iter().find(|field| !field.data_type().is_null());
    let ty = match (list, element) {
        (Some(list), _) => list.data_type().clone(),
        (None, Some(element)) => DataType::new_list(element.data_type().clone(), true),
        (None, None) => DataType::new_list(DataType::Utf8View, true),
    };
    let ty = match ty {
        DataType::List(item) => DataType::List(Arc::new(item.as_ref().clone().with_nullable(true))),
        other => other,
    };
    Arc::new(Field::new("", ty, true))
}

/// The type of an array's elements.
fn element_of(fields: &[FieldRef]) -> FieldRef {
    match fields.first().map(|field| field.data_type()) {
        Some(DataType::List(item)) => Arc::new(item.as_ref().clone().with_nullable(true)),
        _ => Arc::new(Field::new("", DataType::Utf8View, true)),
    }
}

fn int4_list() -> Returns {
    Returns::By(|_| Arc::new(Field::new("", DataType::new_list(DataType::Int32, true), true)))
}

/// Positions at which an element is, from 1.
fn found(call: &Call<'_>, row: usize) -> Result<Option<Vec<i32>>, SqlError> {
    one_dimension(&call.fields[0])?;
    let Some(elements) = elements(&call.arrays[0], row)? else { return Ok(None) };
    let wanted = element(call, 1, row, 0)?;
    let at = elements.iter().enumerate().filter(|(_, value)| same(value, &wanted));
    Ok(Some(at.map(|(at, _)| at as i32 + 1).collect()))
}

/// Functions that search and change elements.
fn searches() -> Vec<PgFunction> {
    vec![
        f("array_remove", &[P::Any, P::Any], Returns::By(array_of), |call| {
            one_dimension(&call.fields[0])?;
            let row = |row| {
                let Some(mut values) = elements(&call.arrays[0], row)? else { return Ok(None) };
                let gone = element(call, 1, row, 0)?;
                values.retain(|value| !same(value, &gone));
                Ok(Some(values))
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        }),
        f("array_replace", &[P::Any, P::Any, P::Any], Returns::By(array_of), |call| {
            one_dimension(&call.fields[0])?;
            let row = |row| {
                let Some(mut values) = elements(&call.arrays[0], row)? else { return Ok(None) };
                let (old, new) = (element(call, 1, row, 0)?, element(call, 2, row, 0)?);
                for value in values.iter_mut().filter(|value| same(value, &old)) {
                    *value = new.clone();
                }
                Ok(Some(values))
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        }),
        // An array with another element at a subscript: what `SET a[2] = x` makes of `a`.
        f("pg_array_assign", &[P::Any, P::Int, P::Any], Returns::By(array_of), |call| {
            one_dimension(&call.fields[0])?;
            let mut bytes = 0usize;
            let row = |row| {
                crate::running::check()?;
                let mut values = elements(&call.arrays[0], row)?.unwrap_or_default();
                let Some(index) = call.int(1, row) else {
                    return Err(SqlError::new("22004", "array subscript in assignment must not be null"));
                };
                let new = element(call, 2, row, 0)?;
                let at = match usize::try_from(index) {
                    Ok(at @ 1..) if at == 1 || !values.is_empty() => at - 1,
                    // PostgreSQL's begins at that subscript then.
                    _ => return Err(SqlError::unsupported("an array that does not begin at 1 is not supported")),
                };
                if at >= ELEMENTS_MAX {
                    let text = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
                    return Err(SqlError::new("54000", text));
                }
                if at >= values.len() {
                    // A subscript says how many elements there will be, whatever was there.
                    let all = (at + 1).saturating_mul(size_of::<ScalarValue>());
                    crate::memory::value(all)?;
                    bytes = bytes.saturating_add(all);
                    crate::memory::column(call.rows, bytes)?;
                    let null = ScalarValue::try_from(&new.data_type()).map_err(|error| from_datafusion(error, ""))?;
                    values.resize(at + 1, null);
                }
                values[at] = new;
                Ok(Some(values))
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        }),
        f("array_position", &[P::Any, P::Any, P::Int], oid(t::INT4), |call| {
            call.int4s(|row| {
                let Some(found) = found(call, row)? else { return Ok(None) };
                let first = match call.given(2) {
                    true => {
                        call.int(2, row).ok_or_else(|| SqlError::new("22004", "initial position must not be null"))?
                    }
                    false => 1,
                };
                Ok(found.into_iter().find(|at| i64::from(*at) >= first))
            })
        })
        .required(2),
        f("array_positions", &[P::Any, P::Any], int4_list(), |call| {
            let row = |row| {
                let found = found(call, row)?;
                Ok(found.map(|found| found.into_iter().map(|at| ScalarValue::Int32(Some(at))).collect()))
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        }),
        f("array_append", &[P::Any, P::Any], Returns::By(array_of), |call| {
            one_dimension(&call.fields[0])?;
            let row = |row| {
                let mut values = elements(&call.arrays[0], row)?.unwrap_or_default();
                values.push(element(call, 1, row, 0)?);
                Ok(Some(values))
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        }),
        f("array_prepend", &[P::Any, P::Any], Returns::By(array_of), |call| {
            one_dimension(&call.fields[1])?;
            let row = |row| {
                let mut values = elements(&call.arrays[1], row)?.unwrap_or_default();
                values.insert(0, element(call, 0, row, 1)?);
                Ok(Some(values))
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        }),
        f("array_cat", &[P::Any, P::Any], Returns::By(array_of), |call| {
            let same_depth = call.fields.iter().all(|field| {
                field.data_type().is_null() || field.data_type() == call.returns.data_type() || {
                    let depth = |ty: &DataType| match ty {
                        DataType::List(item) => matches!(item.data_type(), DataType::List(_)),
                        _ => false,
                    };
                    !depth(field.data_type()) && !depth(call.returns.data_type())
                }
            });
            if !same_depth {
                return Err(SqlError::unsupported(
                    "joining arrays of different numbers of dimensions is not supported",
                ));
            }
            let row = |row| {
                Ok(match (elements(&call.arrays[0], row)?, elements(&call.arrays[1], row)?) {
                    (Some(mut a), Some(b)) => {
                        a.extend(b);
                        Some(a)
                    }
                    (a, b) => a.or(b),
                })
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        })
        .alias("array_concat"),
        f("array_has_all", &[P::Any, P::Any], oid(t::BOOL), |call| {
            call.bools(|row| {
                let (Some(all), Some(part)) = (elements(&call.arrays[0], row)?, elements(&call.arrays[1], row)?) else {
                    return Ok(None);
                };
                Ok(Some(part.iter().all(|part| !part.is_null() && all.iter().any(|value| same(value, part)))))
            })
        }),
        f("array_has_any", &[P::Any, P::Any], oid(t::BOOL), |call| {
            call.bools(|row| {
                let (Some(a), Some(b)) = (elements(&call.arrays[0], row)?, elements(&call.arrays[1], row)?) else {
                    return Ok(None);
                };
                Ok(Some(a.iter().any(|a| !a.is_null() && b.iter().any(|b| same(a, b)))))
            })
        }),
        f("array_element", &[P::Any, P::Int], Returns::By(element_of), |call| {
            let item = call.returns.data_type();
            let value = |row| {
                let at = call.int(1, row).and_then(|at| usize::try_from(at.checked_sub(1)?).ok());
                let value = match (elements(&call.arrays[0], row)?, at) {
                    (Some(values), Some(at)) => values.into_iter().nth(at),
                    _ => None,
                };
                match value {
                    Some(value) => Ok(value),
                    None => ScalarValue::try_from(item).map_err(|error| from_datafusion(error, "")),
                }
            };
            let values = (0..call.rows).map(value).collect::<Result<Vec<_>, SqlError>>()?;
            match values.is_empty() {
                true => Ok(new_empty_array(item)),
                false => ScalarValue::iter_to_array(values).map_err(|error| from_datafusion(error, "")),
            }
        }),
        f("trim_array", &[P::Any, P::Int], Returns::By(array_of), |call| {
            let row = |row| {
                let (Some(mut values), Some(n)) = (elements(&call.arrays[0], row)?, call.int(1, row)) else {
                    return Ok(None);
                };
                let kept = usize::try_from(n).ok().and_then(|n| values.len().checked_sub(n)).ok_or_else(|| {
                    SqlError::new("2202E", format!("number of elements to trim must be between 0 and {}", values.len()))
                })?;
                values.truncate(kept);
                Ok(Some(values))
            };
            lists(call, (0..call.rows).map(row).collect::<Result<_, SqlError>>()?)
        }),
    ]
}

/// Lengths, and arrays from and to texts.
fn measures() -> Vec<PgFunction> {
    let length = |call: &Call<'_>, row: usize| {
        let dimension = usize::try_from(call.int(1, row)?.checked_sub(1)?).ok()?;
        dimensions(&call.arrays[0], row)?.get(dimension).map(|length| *length as i32)
    };
    vec![
        f("array_length", &[P::Any, P::Int], oid(t::INT4), move |call| call.int4s(|row| Ok(length(call, row)))),
        f("array_upper", &[P::Any, P::Int], oid(t::INT4), move |call| call.int4s(|row| Ok(length(call, row)))),
        f("array_lower", &[P::Any, P::Int], oid(t::INT4), move |call| {
            call.int4s(|row| Ok(length(call, row).map(|_| 1)))
        }),
        f("array_ndims", &[P::Any], oid(t::INT4), |call| {
            call.int4s(|row| {
                Ok(dimensions(&call.arrays[0], row).filter(|all| !all.is_empty()).map(|all| all.len() as i32))
            })
        }),
        f("array_dims", &[P::Any], oid(t::TEXT), |call| {
            call.texts(|row| {
                let all = dimensions(&call.arrays[0], row).filter(|all| !all.is_empty());
                Ok(all.map(|all| all.iter().map(|length| format!("[1:{length}]")).collect()))
            })
        }),
        f("cardinality", &[P::Any], oid(t::INT4), |call| {
            call.int4s(|row| {
                Ok(dimensions(&call.arrays[0], row)
                    .map(|all| if all.is_empty() { 0 } else { all.iter().product::<usize>() as i32 }))
            })
        }),
        f("array_to_string", &[P::Any, P::Text, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| {
                let Some(separator) = call.text(1, row) else { return Ok(None) };
                let null = if call.given(2) { call.text(2, row) } else { None };
                let Some(values) = elements(&call.arrays[0], row)? else { return Ok(None) };
                let mut texts = Vec::new();
                leaves(values, null, &mut texts)?;
                Ok(Some(texts.join(separator)))
            })
        })
        .required(2),
        split("string_to_array"),
        // The array whose elements are the rows of `string_to_table`.
        split("pg_string_to_table"),
    ]
}

/// The pieces of a text between separators; its characters if the separator is NULL.
fn split(name: &'static str) -> PgFunction {
    f(name, &[P::Text, P::Text, P::Text], text_list(), |call| {
        // Measured: what an element takes on its way into the array.
        const ELEMENT_BYTES: usize = 128;
        let mut bytes = 0usize;
        for row in 0..call.rows {
            let Some(text) = call.text(0, row) else { continue };
            let elements = match call.text(1, row) {
                None => text.len(),
                Some("") => 1,
                Some(separator) => text.matches(separator).count() + 1,
            };
            bytes = bytes.saturating_add(text.len()).saturating_add(elements.saturating_mul(ELEMENT_BYTES));
        }
        crate::memory::column(call.rows, bytes)?;
        let row = |row| {
            let text = call.text(0, row)?;
            let null = if call.given(2) { call.text(2, row) } else { None };
            let pieces: Vec<String> = match call.text(1, row) {
                _ if text.is_empty() => Vec::new(),
                None => text.chars().map(String::from).collect(),
                Some("") => vec![text.to_owned()],
                Some(separator) => text.split(separator).map(str::to_owned).collect(),
            };
            let value = |piece: String| ScalarValue::Utf8View((null != Some(piece.as_str())).then_some(piece));
            Some(pieces.into_iter().map(value).collect())
        };
        lists(call, (0..call.rows).map(row).collect())
    })
    .required(2)
}

/// How two elements compare; `None` if one is null or the type has no order.
pub(super) fn ordering(a: &ScalarValue, b: &ScalarValue) -> Option<std::cmp::Ordering> {
    use std::cmp::Ordering;
    match (a, b) {
        (a, b) if a.is_null() || b.is_null() => None,
        (a, b) if same(a, b) => Some(Ordering::Equal),
        // NaN is above all.
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => Some(a.total_cmp(b)),
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => Some(a.total_cmp(b)),
        (a, b) => a.partial_cmp(b),
    }
}

/// Which of two arrays comes first: -1, 0, 1. NULLs are equal to each other and above all else.
fn array_order() -> PgFunction {
    f("btarraycmp", &[P::Any, P::Any], oid(t::INT4), |call| {
        call.int4s(|row| {
            let (Some(a), Some(b)) = (elements(&call.arrays[0], row)?, elements(&call.arrays[1], row)?) else {
                return Ok(None);
            };
            for (a, b) in a.iter().zip(&b) {
                let order = match (a.is_null(), b.is_null()) {
                    (false, false) => ordering(a, b).ok_or_else(|| {
                        SqlError::unsupported("comparisons of arrays of such elements are not supported")
                    })?,
                    (a, b) => a.cmp(&b),
                };
                if order.is_ne() {
                    return Ok(Some(order as i32));
                }
            }
            Ok(Some(a.len().cmp(&b.len()) as i32))
        })
    })
}

fn text_list() -> Returns {
    Returns::By(|_| Arc::new(Field::new("", DataType::new_list(DataType::Utf8View, true), true)))
}

/// The texts of an array's elements, in order, however deep they are.
fn leaves(values: Vec<ScalarValue>, null: Option<&str>, out: &mut Vec<String>) -> Result<(), SqlError> {
    for value in values {
        if let ScalarValue::List(list) = &value
            && list.is_valid(0)
        {
            let list: ArrayRef = Arc::clone(list) as ArrayRef;
            leaves(elements(&list, 0)?.unwrap_or_default(), null, out)?;
            continue;
        }
        match crate::decode::scalar_text(&value, &crate::encode::TextStyle::default())? {
            // As `array_out` shows them.
            Some(text) => out.push(text),
            None => out.extend(null.map(str::to_owned)),
        }
    }
    Ok(())
}

/// `array_has(array, value)`, which `value = ANY (array)` is: NULL where a NULL might have been it. As DataFusion's
/// in all else, so that constant arrays become lists.
#[derive(Debug)]
struct ArrayHas(Arc<ScalarUDF>);

impl PartialEq for ArrayHas {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for ArrayHas {}
impl Hash for ArrayHas {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

impl ScalarUDFImpl for ArrayHas {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }
    fn signature(&self) -> &Signature {
        self.0.signature()
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.0.coerce_types(types)
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        self.0.simplify(args, info)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [lists, values] = arrays.as_slice() else { return self.0.invoke_with_args(args) };
        let (lists, values) = (Arc::clone(lists), Arc::clone(values));
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let found = self.0.invoke_with_args(args)?.to_array(lists.len())?;
        let found = found.as_boolean();
        let out: BooleanArray = (0..lists.len())
            .map(|row| {
                let list = lists.as_list_opt::<i32>().filter(|list| list.is_valid(row))?.value(row);
                match (found.is_valid(row) && found.value(row), list.is_empty()) {
                    (true, _) if values.is_valid(row) => Some(true),
                    (_, true) => Some(false),
                    _ => (values.is_valid(row) && list.null_count() == 0).then_some(false),
                }
            })
            .collect();
        let out: ArrayRef = Arc::new(out);
        match constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?)),
            false => Ok(ColumnarValue::Array(out)),
        }
    }
}

/// DataFusion's `generate_series` of a select list, which makes no row of one without an end: that is refused.
#[derive(Debug)]
struct FiniteSeries(Arc<ScalarUDF>);

impl PartialEq for FiniteSeries {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for FiniteSeries {}
impl Hash for FiniteSeries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

impl ScalarUDFImpl for FiniteSeries {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }
    fn signature(&self) -> &Signature {
        self.0.signature()
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.0.coerce_types(types)
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.0.return_type(types)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        for array in ColumnarValue::values_to_arrays(&args.args)? {
            let times = array.as_primitive_opt::<datafusion::arrow::datatypes::TimestampMicrosecondType>();
            if times.is_some_and(|times| times.iter().flatten().any(|us| us == i64::MAX || us == i64::MIN)) {
                return Err(to_datafusion(SqlError::unsupported("series to infinity are not supported here")));
            }
        }
        self.0.invoke_with_args(args)
    }
}

/// `generate_series` of a select list, without infinite ones.
pub(super) fn finite_series(of: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(FiniteSeries(of))
}

/// DataFusion's `array_has` with SQL's NULLs.
pub(super) fn array_has(of: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(ArrayHas(of))
}

pub(super) fn all() -> Vec<PgFunction> {
    let mut out = searches();
    out.extend(measures());
    out.extend([array_order()]);
    out.extend(sets());
    out
}

/// Texts are in UTF-8, and no other encoding is known.
pub(super) fn utf8_only(which: &str, name: &str) -> Result<(), SqlError> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(()),
        "sqlascii" | "win1252" | "eucjp" | "sjis" | "big5" | "gbk" | "koi8r" => {
            Err(SqlError::unsupported(format!("the encoding {name} is not supported")))
        }
        latin if latin.starts_with("latin") || latin.starts_with("iso8859") || latin.starts_with("win") => {
            Err(SqlError::unsupported(format!("the encoding {name} is not supported")))
        }
        _ => Err(SqlError::new("22023", format!("invalid {which} encoding name \"{name}\""))),
    }
}

fn sets() -> Vec<PgFunction> {
    vec![
        f("convert_to", &[P::Text, P::Text], oid(t::BYTEA), |call| {
            let texts = call.arrays[0].as_string_view();
            let bytes = (0..call.rows).map(|row| match call.text(1, row) {
                Some(name) if texts.is_valid(row) => utf8_only("destination", name).map(|()| Some(texts.value(row))),
                _ => Ok(None),
            });
            let bytes = bytes.collect::<Result<Vec<_>, SqlError>>()?;
            Ok(Arc::new(bytes.into_iter().map(|text| text.map(str::as_bytes)).collect::<BinaryViewArray>()) as ArrayRef)
        }),
        f("convert_from", &[P::Any, P::Text], oid(t::TEXT), |call| {
            let bytes = bytes_of(&call.arrays[0])?;
            let texts = (0..call.rows).map(|row| match call.text(1, row) {
                Some(name) if bytes.is_valid(row) => {
                    utf8_only("source", name)?;
                    crate::decode::utf8(bytes.value(row)).map(Some)
                }
                _ => Ok(None),
            });
            let texts = texts.collect::<Result<Vec<_>, SqlError>>()?;
            Ok(Arc::new(texts.into_iter().collect::<StringViewArray>()) as ArrayRef)
        }),
        // bytea || bytea. (An optimizer asks what comes of a NULL that has no type.)
        f("pg_byteacat", &[P::Any, P::Any], oid(t::BYTEA), |call| {
            let (left, right) = (bytes_of(&call.arrays[0])?, bytes_of(&call.arrays[1])?);
            let joined = left.iter().zip(right.iter()).map(|pair| match pair {
                (Some(left), Some(right)) => Some([left, right].concat()),
                _ => None,
            });
            Ok(Arc::new(joined.collect::<BinaryViewArray>()) as ArrayRef)
        }),
        // ARRAY(subquery) is never null
        f(
            "pg_array_or_empty",
            &[P::Any],
            Returns::By(|fields| match fields.first() {
                Some(field) if matches!(field.data_type(), DataType::List(_)) => {
                    Arc::new(field.as_ref().clone().with_nullable(true))
                }
                _ => Arc::new(Field::new("", DataType::new_list(DataType::Utf8View, true), true)),
            }),
            |call| {
                let array = &call.arrays[0];
                let DataType::List(field) = array.data_type() else {
                    let empty = new_empty_array(&DataType::Utf8View);
                    let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
                    let lists = ListArray::try_new(field, OffsetBuffer::from_lengths(vec![0; call.rows]), empty, None);
                    return Ok(Arc::new(lists.map_err(|error| from_arrow(&error))?) as ArrayRef);
                };
                let list = array.as_list::<i32>();
                // a null row's range may cover elements, so lengths are rebuilt
                let lengths =
                    (0..list.len()).map(|row| if list.is_null(row) { 0 } else { list.value_length(row) as usize });
                let needs_copy = (0..list.len()).any(|row| list.is_null(row) && list.value_length(row) > 0)
                    || list.value_offsets().first() != Some(&0);
                let values = if needs_copy {
                    let rows: Vec<ArrayRef> =
                        (0..list.len()).filter(|&row| !list.is_null(row)).map(|row| list.value(row)).collect();
                    let parts: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
                    if parts.is_empty() {
                        new_empty_array(field.data_type())
                    } else {
                        datafusion::arrow::compute::concat(&parts).map_err(|error| from_arrow(&error))?
                    }
                } else {
                    list.values().clone()
                };
                let out = ListArray::try_new(field.clone(), OffsetBuffer::from_lengths(lengths), values, None);
                Ok(Arc::new(out.map_err(|error| from_arrow(&error))?) as ArrayRef)
            },
        ),
        subscripts("generate_subscripts", 1),
        subscripts("generate_vector_subscripts", 0),
    ]
}

/// The subscripts of a dimension, which begin at `first`; from the last to the first if the third argument says so.
fn subscripts(name: &'static str, first: usize) -> PgFunction {
    f(
        name,
        &[P::Any, P::Int, P::Bool],
        Returns::By(|_| Arc::new(Field::new("", DataType::new_list(DataType::Int64, true), true))),
        move |call| {
            let mut builder = ListBuilder::new(Int64Builder::new());
            for row in 0..call.rows {
                let reversed = if call.given(2) { call.bool(2, row) } else { Some(false) };
                let dimension = call.int(1, row).and_then(|at| usize::try_from(at.checked_sub(1)?).ok());
                let lengths = dimensions(&call.arrays[0], row).unwrap_or_default();
                let wanted = dimension.and_then(|at| lengths.get(at).copied()).filter(|_| reversed.is_some());
                let wanted = wanted.unwrap_or(0);
                for at in first..first + wanted {
                    let shown = if reversed == Some(true) { 2 * first + wanted - 1 - at } else { at };
                    builder.values().append_value(shown as i64);
                }
                builder.append(true);
            }
            Ok::<_, SqlError>(Arc::new(builder.finish()) as ArrayRef)
        },
    )
    .required(2)
}
