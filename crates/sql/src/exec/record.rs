//! `ROW(a, b)` and whole rows as values: structures whose fields say their PostgreSQL types, as clients get them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StructArray};
use datafusion::arrow::datatypes::{DataType, Fields};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// Makes a record of its arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MakeRecord {
    fields: Fields,
    signature: Signature,
}

/// The function that makes records of these fields.
pub(crate) fn make_record(fields: Fields) -> Arc<ScalarUDF> {
    let signature = match fields.len() {
        0 => Signature::nullary(Volatility::Immutable),
        width => Signature::any(width, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::from(MakeRecord { fields, signature }))
}

impl ScalarUDFImpl for MakeRecord {
    fn name(&self) -> &str {
        "row"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(self.fields.clone()))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let record = match self.fields.is_empty() {
            true => StructArray::new_empty_fields(rows, None),
            false => {
                let columns: Vec<ArrayRef> =
                    args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<_>>()?;
                StructArray::try_new(self.fields.clone(), columns, None)?
            }
        };
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&record, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(record))),
        }
    }
}
