//! `ROW(a, b)` and whole rows as values: structures whose fields say their PostgreSQL types, as clients get them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

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

/// The fields of a record that is made there, and their values.
pub(crate) fn fields_of_record(expr: &Expr) -> Option<(&Fields, &[Expr])> {
    let call = match expr {
        Expr::ScalarFunction(call) => call,
        // One that is NULL where its set has ended.
        Expr::Case(case) => match case.when_then_expr.as_slice() {
            [(_, then)] => return fields_of_record(then),
            _ => return None,
        },
        _ => return None,
    };
    let made = call.func.inner().downcast_ref::<MakeRecord>()?;
    Some((&made.fields, &call.args))
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

/// One field of a record.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldOfRecord {
    at: usize,
    field: FieldRef,
    signature: Signature,
}

/// The function that gives the field `at`, which is `field`, of a record.
pub(crate) fn field_of_record(at: usize, field: FieldRef) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(FieldOfRecord { at, field, signature: Signature::any(1, Volatility::Immutable) }))
}

impl ScalarUDFImpl for FieldOfRecord {
    fn name(&self) -> &str {
        "field"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [record] = args else { return internal_err!("a field of one record") };
        Ok(format!("({}).{}", record.schema_name(), self.field.name()))
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [record] = args.args.as_slice() else { return internal_err!("a field of one record") };
        let is_constant = matches!(record, ColumnarValue::Scalar(_));
        let records = record.to_array(if is_constant { 1 } else { args.number_rows })?;
        let Some(structs) = records.as_struct_opt() else { return internal_err!("a field of no record") };
        // Of a record that is NULL each field is.
        let column = structs.column(self.at);
        let column = match structs.nulls() {
            None => Arc::clone(column),
            Some(nulls) => {
                let absent = datafusion::arrow::array::BooleanArray::new(!nulls.inner(), None);
                datafusion::arrow::compute::nullif(column, &absent)?
            }
        };
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&column, 0)?)),
            false => Ok(ColumnarValue::Array(column)),
        }
    }
}
