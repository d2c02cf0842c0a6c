//! `x IN ($1, $2, …)`, `x NOT IN (…)` and `x = ANY ($1)` of a kept plan.
//!
//! DataFusion's own expression evaluates its list when it is made, and compares with one element
//! after the other if it cannot. This function takes its place when parameters are bound to a
//! [`ParamCell`]: it has the tested value as its only argument, so that nobody looks into the list;
//! it evaluates the list once in a run, builds DataFusion's set of it, and asks that.
//!
//! Invariants:
//! 1. The list depends on no row. Elements that do stay in an expression beside it.
//! 2. The answers are PostgreSQL's: NULL if the value is, or if it is not in the list and a NULL
//!    is; but a list without elements (an empty array) has nobody in it, not even NULL; and of an array
//!    that is NULL the answer is NULL.

use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, InListExpr};
use parking_lot::Mutex;

use crate::exec::access_path::{constant, evaluate_constant, is_constant};
use crate::exec::apply::is_call;
use crate::exec::cell::{ParamCell, ParamFunction};

/// Name of the function that `x = ANY (array)` is planned as.
const ARRAY_HAS: &str = "array_has";
/// Elements that a plan shows.
const SHOWN: usize = 3;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct AnyOf {
    list: List,
    negated: bool,
    cell: Arc<ParamCell>,
    signature: Signature,
    /// The list's elements in a run, and the number of that run.
    set: Mutex<Option<(u64, Set)>>,
}

impl AnyOf {
    /// How many elements it has, as far as is known before it runs.
    pub(crate) fn count(&self) -> Option<usize> {
        match &self.list {
            List::Elements(items) => Some(items.len()),
            List::Array(_) => None,
        }
    }
    pub(crate) fn is_negated(&self) -> bool {
        self.negated
    }
}

/// What the value is looked for in.
#[derive(Debug)]
enum List {
    Elements(Vec<Item>),
    /// An expression that is an array.
    Array(Item),
}

#[derive(Debug)]
struct Item {
    expr: Expr,
    made: Arc<dyn PhysicalExpr>,
}

/// The list with the values of one run.
#[derive(Clone, Debug)]
enum Set {
    /// An array that is NULL.
    Unknown,
    Empty,
    Some(Arc<InListExpr>),
}

impl Item {
    fn new(expr: Expr) -> Result<Self> {
        let made = constant(&expr)?;
        Ok(Self { expr, made })
    }

    fn value(&self, cell: &ParamCell) -> Result<ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Ok(value.clone()),
            expr => match parameter(expr) {
                Some(parameter) => cell.get(parameter.index),
                None => evaluate_constant(&self.made),
            },
        }
    }
}

fn parameter(expr: &Expr) -> Option<&ParamFunction> {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref::<ParamFunction>(),
        _ => None,
    }
}

fn has_parameter(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(parameter(expr).is_some())).unwrap_or(true)
}

/// Whether it has one value in all of a run. A column of a query around it is read as a parameter is, but it
/// changes with the rows of that query. And a subquery gets its plan when the whole statement does, which is later.
fn is_fixed(expr: &Expr) -> bool {
    let is_outer =
        |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if call.name() == "$") && parameter(expr).is_none();
    is_constant(expr) && !expr.exists(|expr| Ok(is_outer(expr) || is_call(expr))).unwrap_or(true)
}

/// What an item of a list of constants becomes: a set of floats goes by their bits, so that zero is in it with
/// either sign, and there is one NaN.
pub(crate) fn items(item: Expr) -> Vec<Expr> {
    let literal = |value: ScalarValue| Expr::Literal(value, None);
    match &item {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) if *value == 0.0 => {
            [0.0, -0.0].map(|zero| literal(ScalarValue::Float64(Some(zero)))).into()
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), _) if *value == 0.0 => {
            [0.0, -0.0].map(|zero| literal(ScalarValue::Float32(Some(zero)))).into()
        }
        Expr::Literal(ScalarValue::Float64(Some(value)), _) if value.is_nan() => {
            vec![literal(ScalarValue::Float64(Some(f64::NAN)))]
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), _) if value.is_nan() => {
            vec![literal(ScalarValue::Float32(Some(f32::NAN)))]
        }
        _ => vec![item],
    }
}

/// What stands for `expr`, whose parameters read `cell` already, if it is one for this module.
pub(crate) fn in_place_of(expr: &Expr, cell: &Arc<ParamCell>) -> Result<Option<Expr>> {
    match expr {
        Expr::InList(list) => in_place_of_list(list, cell),
        Expr::ScalarFunction(call) if call.name() == ARRAY_HAS => match call.args.as_slice() {
            [array, value] if is_fixed(array) && has_parameter(array) => {
                let list = List::Array(Item::new(array.clone())?);
                Ok(Some(AnyOf::call(list, false, value, cell)))
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

fn in_place_of_list(list: &InList, cell: &Arc<ParamCell>) -> Result<Option<Expr>> {
    let InList { expr, list, negated } = list;
    let (fixed, others): (Vec<&Expr>, Vec<&Expr>) = list.iter().partition(|element| is_fixed(element));
    // Were the value to be computed twice, both would have to be the same.
    if !fixed.iter().any(|element| has_parameter(element)) || (!others.is_empty() && expr.is_volatile()) {
        return Ok(None);
    }
    let items = fixed.into_iter().cloned().map(Item::new).collect::<Result<_>>()?;
    let found = AnyOf::call(List::Elements(items), *negated, expr, cell);
    if others.is_empty() {
        return Ok(Some(found));
    }
    let others = others.into_iter().cloned().collect();
    let beside = Expr::InList(InList { expr: expr.clone(), list: others, negated: *negated });
    Ok(Some(if *negated { found.and(beside) } else { found.or(beside) }))
}

/// What the list of a call of this function says about a key.
pub(crate) enum Values<'e> {
    Elements(Vec<&'e Expr>),
    Array(&'e Expr),
}

/// The value tested and what it is one of, if `expr` says that it is.
pub(crate) fn membership(expr: &Expr) -> Option<(&Expr, Values<'_>)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [value] = call.args.as_slice() else {
        return match call.args.as_slice() {
            [array, value] if call.name() == ARRAY_HAS => Some((value, Values::Array(array))),
            _ => None,
        };
    };
    let found = call.func.inner().downcast_ref::<AnyOf>().filter(|found| !found.negated)?;
    Some((
        value,
        match &found.list {
            List::Elements(items) => Values::Elements(items.iter().map(|item| &item.expr).collect()),
            List::Array(item) => Values::Array(&item.expr),
        },
    ))
}

impl AnyOf {
    fn call(list: List, negated: bool, value: &Expr, cell: &Arc<ParamCell>) -> Expr {
        let signature = Signature::any(1, Volatility::Volatile);
        let function = Self { list, negated, cell: Arc::clone(cell), signature, set: Mutex::default() };
        let function = Arc::new(ScalarUDF::new_from_impl(function));
        Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![value.clone()]))
    }

    fn items(&self) -> &[Item] {
        match &self.list {
            List::Elements(items) => items,
            List::Array(item) => std::slice::from_ref(item),
        }
    }

    /// The list with the values of this run, for values of type `ty`.
    fn set(&self, ty: &DataType) -> Result<Set> {
        let run = self.cell.run();
        if let Some((of, set)) = self.set.lock().as_ref()
            && *of == run
        {
            return Ok(set.clone());
        }
        let values = match &self.list {
            List::Elements(items) => {
                let values = items.iter().map(|item| of_type(item.value(&self.cell)?, ty));
                Some(ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)?)
            }
            List::Array(item) => elements(item.value(&self.cell)?, ty)?,
        };
        let set = match values {
            None => Set::Unknown,
            Some(values) if values.is_empty() => Set::Empty,
            Some(values) => {
                let schema = Schema::new(vec![Field::new("value", ty.clone(), true)]);
                let (value, values) = (Arc::new(Column::new("value", 0)), normal(values));
                Set::Some(Arc::new(InListExpr::try_new_from_array(value, values, self.negated, &schema)?))
            }
        };
        *self.set.lock() = Some((run, set.clone()));
        Ok(set)
    }
}

/// A value of the type that it is compared with. Planning has brought them together already, but
/// for what one type has several forms of (digits of a numeric, views of texts).
fn of_type(value: ScalarValue, ty: &DataType) -> Result<ScalarValue> {
    let from = value.data_type();
    if &from == ty {
        return Ok(value);
    }
    let alike = from.is_null()
        || (from.is_string() && ty.is_string())
        || (from.is_decimal() && ty.is_decimal())
        || matches!((&from, ty), (DataType::Timestamp(..), DataType::Timestamp(..)))
        || (from.is_binary() && ty.is_binary());
    match alike {
        true => value.cast_to(ty),
        false => internal_err!("an element of type {from} among values of type {ty}"),
    }
}

/// Values as the set compares them, by their bits: zero has no sign, and all NaNs are one.
fn normal(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        ),
        _ => values,
    }
}

/// The elements of an array; `None` if it is NULL.
fn elements(array: ScalarValue, ty: &DataType) -> Result<Option<ArrayRef>> {
    let Some(elements) = array_elements(&array)? else { return Ok(None) };
    if elements.is_empty() {
        return Ok(Some(new_empty_array(ty)));
    }
    if elements.data_type() == ty {
        return Ok(Some(elements));
    }
    let values = (0..elements.len()).map(|at| of_type(ScalarValue::try_from_array(&elements, at)?, ty));
    Ok(Some(ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)?))
}

/// The elements of an array as they are; `None` if it is NULL.
pub(crate) fn array_elements(array: &ScalarValue) -> Result<Option<ArrayRef>> {
    if array.is_null() {
        return Ok(None);
    }
    match array {
        ScalarValue::List(list) => Ok(Some(list.value(0))),
        ScalarValue::LargeList(list) => Ok(Some(list.value(0))),
        ScalarValue::FixedSizeList(list) => Ok(Some(list.value(0))),
        other => internal_err!("{} is no array", other.data_type()),
    }
}

impl PartialEq for AnyOf {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.list) == std::mem::discriminant(&other.list)
            && self.negated == other.negated
            && Arc::ptr_eq(&self.cell, &other.cell)
            && self.items().iter().map(|item| &item.expr).eq(other.items().iter().map(|item| &item.expr))
    }
}
impl Eq for AnyOf {}
impl Hash for AnyOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.negated.hash(state);
        self.items().iter().for_each(|item| item.expr.hash(state));
    }
}

impl ScalarUDFImpl for AnyOf {
    fn name(&self) -> &str {
        match (self.negated, &self.list) {
            (_, List::Array(_)) => "any_of_array",
            (false, _) => "any_of",
            (true, _) => "none_of",
        }
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut shown = String::new();
        for (at, item) in self.items().iter().take(SHOWN).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let _ = write!(shown, "{comma}{}", item.expr);
        }
        if self.items().len() > SHOWN {
            let _ = write!(shown, ", … {} in all", self.items().len());
        }
        let value = args.first().map(ToString::to_string).unwrap_or_default();
        Ok(format!("{value} {} [{shown}]", self.name()))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(value), Some(field)) = (args.args.first(), args.arg_fields.first()) else {
            return internal_err!("a list that nothing is looked for in");
        };
        let set = match self.set(field.data_type())? {
            Set::Unknown => return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None))),
            Set::Empty => return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(self.negated)))),
            Set::Some(set) => set,
        };
        let (array, rows) = match value {
            ColumnarValue::Array(array) => (normal(Arc::clone(array)), array.len()),
            ColumnarValue::Scalar(value) => (normal(value.to_array()?), 1),
        };
        let schema = Schema::new(vec![Field::new("value", array.data_type().clone(), true)]);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(schema), vec![array], &options)?;
        let found = set.evaluate(&batch)?;
        match value {
            ColumnarValue::Array(_) => Ok(found),
            ColumnarValue::Scalar(_) => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found.into_array(1)?, 0)?))
            }
        }
    }
}
