//! DataFusion's functions that make long texts out of short ones, with bounds.
//!
//! Before they are called it is computed how long each text becomes: one that is longer than a value may be is
//! refused as PostgreSQL refuses it, and so are all of a batch together ([`memory::column`]).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result as DfResult;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::strings::grows;
use crate::arrow::cast_array;
use crate::datetime::Zone;
use crate::errors::to_datafusion;
use crate::memory;
use crate::types::oid as t;
use crate::wire::SqlError;

/// The length of a function's result for a row, from its arguments; `None` for NULL.
type Length = fn(&[ArrayRef], usize) -> Result<Option<usize>, SqlError>;

/// Names, and how long their results are.
const GROWING: [(&str, Length); 2] = [("repeat", repeated), ("replace", replaced)];

/// Those that `state` knows, with bounds.
pub(super) fn bounded(state: &dyn FunctionRegistry) -> Vec<ScalarUDF> {
    let known = GROWING.iter().filter_map(|(name, length)| Some((state.udf(name).ok()?, *length)));
    known.map(|(inner, length)| ScalarUDF::new_from_impl(Bounded { inner, length })).collect()
}

fn text(array: &ArrayRef, row: usize) -> Option<&str> {
    let texts = array.as_string_view_opt()?;
    texts.is_valid(row).then(|| texts.value(row))
}

fn repeated(args: &[ArrayRef], row: usize) -> Result<Option<usize>, SqlError> {
    let (Some(text), Some(counts)) = (text(&args[0], row), args[1].as_primitive_opt::<Int64Type>()) else {
        return Ok(None);
    };
    if counts.is_null(row) {
        return Ok(None);
    }
    let count = usize::try_from(counts.value(row)).unwrap_or(0);
    match text.len().checked_mul(count) {
        Some(bytes) if bytes <= memory::VALUE_MAX => Ok(Some(bytes)),
        _ => Err(SqlError::new("54000", "requested length too large")),
    }
}

fn replaced(args: &[ArrayRef], row: usize) -> Result<Option<usize>, SqlError> {
    let (Some(whole), Some(from), Some(to)) = (text(&args[0], row), text(&args[1], row), text(&args[2], row)) else {
        return Ok(None);
    };
    if from.is_empty() || to.len() <= from.len() {
        return Ok(Some(whole.len()));
    }
    // Counted only where it could be much.
    let most = whole.len() / from.len();
    let more = to.len() - from.len();
    let mut bytes = whole.len().saturating_add(most.saturating_mul(more));
    if bytes > memory::PIECE_BYTES {
        bytes = whole.len().saturating_add(whole.matches(from).count().saturating_mul(more));
    }
    grows(bytes.saturating_sub(to.len()), to.len())?;
    Ok(Some(bytes))
}

/// See the module's head.
struct Bounded {
    inner: Arc<ScalarUDF>,
    length: Length,
}

impl fmt::Debug for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}
impl Eq for Bounded {}
impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        self.inner.schema_name(args)
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(types)
    }
    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<datafusion::arrow::datatypes::FieldRef> {
        self.inner.return_field_from_args(args)
    }
    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let read = |arg: &ColumnarValue| {
            let array = arg.to_array(rows)?;
            Ok(match array.data_type() {
                DataType::Utf8 | DataType::LargeUtf8 => {
                    cast_array(&array, &DataType::Utf8View, t::TEXT, &Zone::Utc).map_err(to_datafusion)?
                }
                _ => array,
            })
        };
        let arrays = args.args.iter().map(read).collect::<DfResult<Vec<_>>>()?;
        let mut bytes = 0usize;
        for row in 0..rows {
            if let Some(length) = (self.length)(&arrays, row).map_err(to_datafusion)? {
                bytes = bytes.saturating_add(length);
            }
        }
        memory::column(rows, bytes).map_err(to_datafusion)?;
        drop(arrays);
        self.inner.invoke_with_args(args)
    }
}
