//! What a policy of row security demands of new rows, as a condition of the plan that makes them: for conditions with
//! subqueries. A row that does not satisfy it is an error.

use std::sync::Arc;

use datafusion::arrow::array::{Array, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, cast::as_boolean_array, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::exec::bridge;
use crate::wire::SqlError;

/// A condition that is true, or the error with that text (`42501`). It is never left out nor moved: it is volatile to
/// whoever plans.
pub(crate) fn row_rule(condition: Expr, refusal: String) -> Expr {
    let signature = Signature::any(1, Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(RowRule { refusal, signature })).call(vec![condition])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RowRule {
    refusal: String,
    signature: Signature,
}

impl ScalarUDFImpl for RowRule {
    fn name(&self) -> &str {
        "row_rule"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.into_iter().next() else { return internal_err!("a rule without a condition") };
        // What is NULL is not satisfied.
        let holds = match &value {
            ColumnarValue::Scalar(ScalarValue::Boolean(held)) => *held == Some(true),
            ColumnarValue::Scalar(_) => false,
            ColumnarValue::Array(array) => all_true(as_boolean_array(array)?),
        };
        match holds || args.number_rows == 0 {
            true => Ok(value),
            false => Err(bridge::failure(SqlError::new("42501", self.refusal.clone()))),
        }
    }
}

fn all_true(held: &BooleanArray) -> bool {
    held.null_count() == 0 && held.true_count() == held.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_not_true() {
        assert!(all_true(&BooleanArray::from(vec![true, true])));
        assert!(all_true(&BooleanArray::from(Vec::<bool>::new())));
        assert!(!all_true(&BooleanArray::from(vec![Some(true), None])));
        assert!(!all_true(&BooleanArray::from(vec![true, false])));
    }
}
