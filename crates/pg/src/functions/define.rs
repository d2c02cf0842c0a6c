//! How a function is written down: parameters, result, body.
//!
//! ```text
//! f("quote_ident", &[Text], TEXT, |call| call.map_text(0, |text| Ok(quote_ident(text))))
//! ```
//! Arguments are brought to the parameters' types before the body sees them. When all
//! arguments are constants the body runs for one row, and constant folding works; but one that
//! gives [each row a value of its own](PgFunction::each_row) runs for all.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, IntervalUnit, TimeUnit, UInt32Type};
use datafusion::common::{DataFusionError, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_name::call_name;
use super::strict::gives_null_of_null;
use crate::errors::{from_datafusion, to_datafusion};
use crate::memory;
use crate::running;
use crate::types::{field_of_oid, format_type, timestamptz};
use crate::wire::SqlError;

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum P {
    Text,
    Bool,
    /// `bigint`
    Int,
    Oid,
    Float,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    /// The argument as it is.
    Any,
}

impl P {
    fn arrow(self, given: &DataType) -> DataType {
        match self {
            Self::Text => DataType::Utf8View,
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Oid => DataType::UInt32,
            Self::Float => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamptz => timestamptz(),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Any => given.clone(),
        }
    }
}

/// Result type.
#[derive(Clone)]
pub(super) enum Returns {
    Fixed(FieldRef),
    /// By the arguments' types.
    By(fn(&[FieldRef]) -> FieldRef),
    /// By the arguments' types and the values of those that are constants.
    Args(fn(&[FieldRef], &[Option<&ScalarValue>]) -> FieldRef),
}

/// A result of that PostgreSQL type.
pub(super) fn oid(oid: u32) -> Returns {
    let field = field_of_oid("", oid, -1).unwrap_or_else(|| Field::new("", DataType::Utf8View, true));
    Returns::Fixed(Arc::new(field))
}

type Body = Arc<dyn Fn(&Call<'_>) -> Result<ArrayRef, SqlError> + Send + Sync>;

/// A scalar function.
#[derive(Clone)]
pub(super) struct PgFunction {
    name: &'static str,
    aliases: Vec<String>,
    parameters: &'static [P],
    /// Parameters that must be given.
    required: usize,
    /// The last parameter may be repeated.
    variadic: bool,
    returns: Returns,
    signature: Signature,
    /// Constant arguments give another value for each row.
    each_row: bool,
    /// A null argument makes the result null without calling the body. Row by row that is
    /// up to the body; here it is only what the body is told.
    body: Body,
}

/// A function of exactly these parameters, immutable.
pub(super) fn f(
    name: &'static str,
    parameters: &'static [P],
    returns: Returns,
    body: impl Fn(&Call<'_>) -> Result<ArrayRef, SqlError> + Send + Sync + 'static,
) -> PgFunction {
    PgFunction {
        name,
        aliases: vec![],
        parameters,
        required: parameters.len(),
        variadic: false,
        returns,
        signature: Signature::user_defined(Volatility::Immutable),
        each_row: false,
        body: Arc::new(body),
    }
}

impl PgFunction {
    #[cfg(test)]
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
    /// Its parameters' count, without repetitions.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.parameters.len()
    }
    /// The parameter that an argument is for.
    fn parameter(&self, at: usize) -> P {
        self.parameters.get(at).or(self.parameters.last()).copied().unwrap_or(P::Any)
    }
    /// The name under which it is registered.
    pub(super) fn proc_name(&self) -> &'static str {
        self.name
    }
    /// The result changes from call to call or session to session: never folded.
    pub(super) fn volatile(mut self) -> Self {
        self.signature.volatility = Volatility::Volatile;
        self
    }
    /// Volatile, and each row has a value of its own.
    pub(super) fn each_row(self) -> Self {
        Self { each_row: true, ..self.volatile() }
    }
    pub(super) fn required(mut self, required: usize) -> Self {
        self.required = required;
        self
    }
    pub(super) fn variadic(mut self) -> Self {
        self.variadic = true;
        self
    }
    pub(super) fn alias(mut self, alias: &str) -> Self {
        self.aliases.push(alias.to_owned());
        self
    }
    pub(super) fn into_udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }
}

impl fmt::Debug for PgFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
impl PartialEq for PgFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for PgFunction {}
impl Hash for PgFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// `42883`
fn no_function(name: &str, types: &[DataType]) -> DataFusionError {
    let types: Vec<String> = types.iter().map(|ty| format_type(crate::types::arrow_oid(ty), None)).collect();
    to_datafusion(
        SqlError::new("42883", format!("function {name}({}) does not exist", types.join(", "))).with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ),
    )
}

impl ScalarUDFImpl for PgFunction {
    fn name(&self) -> &str {
        self.name
    }
    fn aliases(&self) -> &[String] {
        &self.aliases
    }
    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        Ok(call_name(self.name(), args))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        let most = if self.variadic { usize::MAX } else { self.parameters.len() };
        if types.len() < self.required || types.len() > most {
            return Err(no_function(self.name, types));
        }
        Ok(types.iter().enumerate().map(|(at, ty)| self.parameter(at).arrow(ty)).collect())
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        match &self.returns {
            Returns::Fixed(field) => Ok(field.data_type().clone()),
            Returns::By(by) => {
                let fields: Vec<FieldRef> = types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
                Ok(by(&fields).data_type().clone())
            }
            Returns::Args(by) => {
                let fields: Vec<FieldRef> = types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
                Ok(by(&fields, &[]).data_type().clone())
            }
        }
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let field = match &self.returns {
            Returns::Fixed(field) => field.as_ref().clone(),
            Returns::By(by) => by(args.arg_fields).as_ref().clone(),
            Returns::Args(by) => by(args.arg_fields, args.scalar_arguments).as_ref().clone(),
        };
        // SQL promises nothing about nulls: a promise made here would be one that simplification builds on.
        Ok(Arc::new(field.with_name(self.name).with_nullable(true)))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        if let Some(null) = null_without_type(self.name, &args) {
            return null;
        }
        let constant = !self.each_row && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        // Constants become columns: long ones are copied.
        let long = args.args.iter().map(long_constant).sum::<usize>();
        if long > 0 {
            running::may_allocate(long).map_err(to_datafusion)?;
        }
        let array = |(at, arg): (usize, &ColumnarValue)| {
            let array = arg.to_array(rows)?;
            Ok(match array.data_type() {
                DataType::Null => new_null_array(&self.parameter(at).arrow(&DataType::Null), rows),
                _ => array,
            })
        };
        let arrays = args.args.iter().enumerate().map(array).collect::<DfResult<Vec<_>>>()?;
        let call = Call { arrays, fields: &args.arg_fields, rows, returns: &args.return_field };
        let result = (self.body)(&call).map_err(to_datafusion)?;
        if constant {
            let scalar = ScalarValue::try_from_array(&result, 0)?;
            if &scalar.data_type() == result.data_type() {
                return Ok(ColumnarValue::Scalar(scalar));
            }
            // A constant list forgets which type its elements have.
            let first = UInt32Array::from(vec![0; args.number_rows]);
            Ok(ColumnarValue::Array(datafusion::arrow::compute::take(&result, &first, None)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

/// What a strict function gives of a NULL that has no type. The query engine computes conditions with such NULLs in the place
/// of columns, to see which of them reject rows; a body would look for values of the types that it is for.
fn null_without_type(name: &str, args: &ScalarFunctionArgs) -> Option<DfResult<ColumnarValue>> {
    let is_untyped = |arg: &ColumnarValue| match arg {
        ColumnarValue::Array(array) => array.data_type().is_null(),
        ColumnarValue::Scalar(value) => matches!(value, ScalarValue::Null),
    };
    if !args.args.iter().any(is_untyped) || !gives_null_of_null(name) {
        return None;
    }
    let ty = args.return_field.data_type();
    Some(match args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
        true => ScalarValue::try_from(ty).map(ColumnarValue::Scalar),
        false => Ok(ColumnarValue::Array(new_null_array(ty, args.number_rows))),
    })
}

/// Bytes of a constant whose copy has to be asked for.
const LONG: usize = 1 << 20;

/// Bytes of an argument that is a long constant.
fn long_constant(arg: &ColumnarValue) -> usize {
    match arg {
        ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text))) if text.len() > LONG => text.len(),
        ColumnarValue::Scalar(ScalarValue::BinaryView(Some(bytes))) if bytes.len() > LONG => bytes.len(),
        _ => 0,
    }
}

/// One evaluation over some rows.
pub(super) struct Call<'a> {
    pub arrays: Vec<ArrayRef>,
    pub fields: &'a [FieldRef],
    pub rows: usize,
    pub returns: &'a FieldRef,
}

impl Call<'_> {
    /// Whether an optional argument was given.
    pub(super) fn given(&self, at: usize) -> bool {
        at < self.arrays.len()
    }
    pub(super) fn text(&self, at: usize, row: usize) -> Option<&str> {
        let array = self.arrays.get(at)?.as_string_view_opt()?;
        (!array.is_null(row)).then(|| array.value(row))
    }
    pub(super) fn int(&self, at: usize, row: usize) -> Option<i64> {
        let array = self.arrays.get(at)?.as_primitive_opt::<Int64Type>()?;
        (!array.is_null(row)).then(|| array.value(row))
    }
    pub(super) fn oid(&self, at: usize, row: usize) -> Option<u32> {
        let array = self.arrays.get(at)?.as_primitive_opt::<UInt32Type>()?;
        (!array.is_null(row)).then(|| array.value(row))
    }
    pub(super) fn bool(&self, at: usize, row: usize) -> Option<bool> {
        let array = self.arrays.get(at)?.as_boolean_opt()?;
        (!array.is_null(row)).then(|| array.value(row))
    }

    /// A text for each row.
    pub(super) fn texts(
        &self,
        value: impl Fn(usize) -> Result<Option<String>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        self.strings(value)
    }
    /// A part of a text that is there for each row: of a short one nothing is allocated.
    pub(super) fn slices<'t>(
        &self,
        value: impl Fn(usize) -> Result<Option<&'t str>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        self.strings(value)
    }
    fn strings<T: AsRef<str>>(
        &self,
        value: impl Fn(usize) -> Result<Option<T>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let (value, rows) = (unless_stopped(value), self.rows);
        let mut bytes = 0usize;
        let mut bounded = |row: usize| {
            let text = value(row)?;
            if let Some(text) = &text {
                let length = text.as_ref().len();
                memory::value(length)?;
                bytes = bytes.saturating_add(length);
                memory::column(rows, bytes)?;
            }
            Ok::<_, SqlError>(text)
        };
        Ok(Arc::new((0..rows).map(&mut bounded).collect::<Result<StringViewArray, _>>()?))
    }
    /// Bytes for each row.
    pub(super) fn byteas(
        &self,
        value: impl Fn(usize) -> Result<Option<Vec<u8>>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        Ok(Arc::new((0..self.rows).map(unless_stopped(value)).collect::<Result<BinaryViewArray, _>>()?))
    }
    /// A boolean for each row.
    pub(super) fn bools(&self, value: impl Fn(usize) -> Result<Option<bool>, SqlError>) -> Result<ArrayRef, SqlError> {
        Ok(Arc::new((0..self.rows).map(unless_stopped(value)).collect::<Result<BooleanArray, _>>()?))
    }
    /// A `bigint` for each row.
    pub(super) fn ints(&self, value: impl Fn(usize) -> Result<Option<i64>, SqlError>) -> Result<ArrayRef, SqlError> {
        Ok(Arc::new((0..self.rows).map(unless_stopped(value)).collect::<Result<Int64Array, _>>()?))
    }
    /// An `integer` for each row.
    pub(super) fn int4s(&self, value: impl Fn(usize) -> Result<Option<i32>, SqlError>) -> Result<ArrayRef, SqlError> {
        Ok(Arc::new((0..self.rows).map(unless_stopped(value)).collect::<Result<Int32Array, _>>()?))
    }
    /// An oid for each row.
    pub(super) fn oids(&self, value: impl Fn(usize) -> Result<Option<u32>, SqlError>) -> Result<ArrayRef, SqlError> {
        Ok(Arc::new((0..self.rows).map(unless_stopped(value)).collect::<Result<UInt32Array, _>>()?))
    }
    /// The same value in every row, of the function's result type.
    pub(super) fn same(&self, value: ScalarValue) -> Result<ArrayRef, SqlError> {
        let value = if value.is_null() {
            ScalarValue::try_from(self.returns.data_type()).map_err(|error| from_datafusion(error, ""))?
        } else {
            value
        };
        value.to_array_of_size(self.rows).map_err(|error| from_datafusion(error, ""))
    }
    /// The same text in every row.
    pub(super) fn same_text(&self, text: impl Into<String>) -> Result<ArrayRef, SqlError> {
        self.same(ScalarValue::Utf8View(Some(text.into())))
    }
    /// Null in every row.
    pub(super) fn null(&self) -> Result<ArrayRef, SqlError> {
        Ok(new_null_array(self.returns.data_type(), self.rows))
    }
}

/// The values of rows until the statement has to stop: one of them may take long.
fn unless_stopped<T>(
    value: impl Fn(usize) -> Result<Option<T>, SqlError>,
) -> impl Fn(usize) -> Result<Option<T>, SqlError> {
    move |row| {
        crate::running::check()?;
        value(row)
    }
}
