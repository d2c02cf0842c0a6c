//! Conditions of policies of row security, and of views with a security barrier, in plans.
//!
//! | function | what it does |
//! |---|---|
//! | [`row_rule`] | What a policy demands of new rows, where it has subqueries: a row that does not satisfy it is an error |
//! | [`policy_mark`] | Is true, and says of the filter in which it stands that it is a policy's: what the query asks of the rows that it leaves out must not be evaluated for them, if it could tell of them by an error ([`crate::plan::rules`]) |
//! | [`barrier_mark`] | The same, of a filter that stands above the rows of a view, whatever they are made of, and stays there |

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

const POLICY: &str = "policy_mark";
const BARRIER: &str = "barrier_mark";

/// See the module's head; `column` is any column of the rows, so that it is no constant.
pub(crate) fn policy_mark(column: Expr) -> Expr {
    mark(POLICY, column)
}

/// See the module's head; `column` as for [`policy_mark`].
pub(crate) fn barrier_mark(column: Expr) -> Expr {
    mark(BARRIER, column)
}

fn mark(name: &'static str, column: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Mark { name, signature })).call(vec![column])
}

fn is_mark(part: &Expr, name: &str) -> bool {
    matches!(part, Expr::ScalarFunction(call) if call.func.name() == name)
}

/// Whether a part of a filter says that it is a policy's.
pub(crate) fn is_policy_mark(part: &Expr) -> bool {
    is_mark(part, POLICY)
}

/// Whether the condition of a filter is a view's mark: it has no other part.
pub(crate) fn is_barrier(condition: &Expr) -> bool {
    is_mark(condition, BARRIER)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        self.name
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
