//! Conditions of policies of row security in plans.
//!
//! | function | what it does |
//! |---|---|
//! | [`row_rule`] | What a policy demands of new rows, where it has subqueries: a row that does not satisfy it is an error |
//! | [`policy_mark`] | Is true, and says of the filter in which it stands that it is a policy's: what the query asks of the rows that it leaves out must not be evaluated for them, if it could tell of them by an error ([`crate::plan::rules`]) |

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

const MARK: &str = "policy_mark";

/// See the module's head; `column` is any column of the rows, so that it is no constant.
pub(crate) fn policy_mark(column: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(PolicyMark { signature })).call(vec![column])
}

/// Whether a part of a filter is such a mark.
pub(crate) fn is_policy_mark(part: &Expr) -> bool {
    matches!(part, Expr::ScalarFunction(call) if call.func.name() == MARK)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PolicyMark {
    signature: Signature,
}

impl ScalarUDFImpl for PolicyMark {
    fn name(&self) -> &str {
        MARK
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
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
