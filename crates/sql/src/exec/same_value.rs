//! A function of one argument that gives it, or what equals it, and of which DataFusion knows nothing but its name.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// See the module. Its column is named as the argument's.
#[derive(Debug)]
pub(crate) struct SameValue {
    name: &'static str,
    signature: Signature,
    /// What it makes of an array; `None`: nothing else.
    change: fn(&ArrayRef) -> Option<ArrayRef>,
}

/// A name says what it does.
impl PartialEq for SameValue {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SameValue {}

impl std::hash::Hash for SameValue {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl SameValue {
    /// The function `name`, which makes of arrays what `change` says; the same name always means the same.
    pub fn function(name: &'static str, change: fn(&ArrayRef) -> Option<ArrayRef>) -> ScalarUDF {
        ScalarUDF::from(Self { name, signature: Signature::any(1, Volatility::Immutable), change })
    }
}

impl ScalarUDFImpl for SameValue {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [arg] = args else { return internal_err!("one argument") };
        Ok(arg.schema_name().to_string())
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("it is by the argument's field")
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [field] = args.arg_fields else { return internal_err!("one argument") };
        Ok(Arc::clone(field))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(arg) = args.args.into_iter().next() else { return internal_err!("one argument") };
        Ok(match arg {
            ColumnarValue::Array(values) => ColumnarValue::Array((self.change)(&values).unwrap_or(values)),
            ColumnarValue::Scalar(value) => match (self.change)(&value.to_array()?) {
                Some(changed) => ColumnarValue::Scalar(ScalarValue::try_from_array(&changed, 0)?),
                None => ColumnarValue::Scalar(value),
            },
        })
    }
}
