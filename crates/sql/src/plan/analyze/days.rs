//! A date compared with a timestamp that is not of a row.
//!
//! PostgreSQL compares the two as timestamps. Here the timestamp is brought to a day instead, and dates are compared: nothing
//! is computed of a row's date, none is out of a timestamp's range, and where the timestamp is a constant that is done once, and the
//! condition bounds a column as any other does (indexes, estimates).
//!
//! | condition | is | with the day that |
//! |---|---|---|
//! | `date < t`, `date >= t` | `date < day`, `date >= day` | begins at `t` or is the first to begin after it |
//! | `date > t`, `date <= t` | `date > day`, `date <= day` | `t` is in |
//!
//! Equality is left as it is: no day may equal the timestamp.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Date32Array};
use datafusion::arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::bound::{Bound, Type};
use crate::exec::access_path::{is_constant, is_row_wise};
use crate::exec::apply::{DAY_FROM, DAY_OF};
use crate::pg::datetime::DAY_US;
use crate::pg::types::oid;

/// The operands of a comparison, the timestamp as a day where it is one of these.
pub(super) fn by_day(op: Operator, left: Bound, right: Bound) -> (Bound, Bound) {
    let are = |a: &Bound, b: &Bound| a.ty.oid == oid::DATE && b.ty.oid == oid::TIMESTAMP && is_of_no_row(&b.expr);
    // As it is seen from the date.
    if are(&left, &right) {
        match function(op) {
            Some(function) => (left, day(&function, right)),
            None => (left, right),
        }
    } else if are(&right, &left) {
        match op.swap().and_then(function) {
            Some(function) => (day(&function, left), right),
            None => (left, right),
        }
    } else {
        (left, right)
    }
}

/// Whether it is a constant, or computed of such as `localtimestamp`.
fn is_of_no_row(expr: &Expr) -> bool {
    is_constant(expr) || is_row_wise(expr) && !expr.any_column_refs()
}

fn function(op: Operator) -> Option<Arc<ScalarUDF>> {
    let is_later = match op {
        Operator::Lt | Operator::GtEq => true,
        Operator::Gt | Operator::LtEq => false,
        _ => return None,
    };
    Some(Arc::new(ScalarUDF::new_from_impl(Day { is_later, signature: Signature::any(1, Volatility::Immutable) })))
}

fn day(function: &Arc<ScalarUDF>, timestamp: Bound) -> Bound {
    let span = timestamp.span;
    Bound::with_data(function.call(vec![timestamp.expr]), Type::of(oid::DATE), DataType::Date32).at(span)
}

/// The day that a timestamp is in, or the first that does not begin before it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Day {
    is_later: bool,
    signature: Signature,
}

impl Day {
    fn of(&self, us: i64) -> i32 {
        match us {
            i64::MAX => i32::MAX,
            i64::MIN => i32::MIN,
            us => {
                let day = us.div_euclid(DAY_US) + i64::from(self.is_later && us.rem_euclid(DAY_US) != 0);
                // All are in the range.
                i32::try_from(day).unwrap_or(if us > 0 { i32::MAX } else { i32::MIN })
            }
        }
    }
}

impl ScalarUDFImpl for Day {
    fn name(&self) -> &str {
        if self.is_later { DAY_FROM } else { DAY_OF }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return internal_err!("a day of several values") };
        let days = |array: &ArrayRef| match array.as_primitive_opt::<TimestampMicrosecondType>() {
            Some(array) => Ok(Arc::new(array.unary::<_, _>(|us| self.of(us)) as Date32Array) as ArrayRef),
            None => internal_err!("a day of no timestamp"),
        };
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(days(array)?),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&days(&value.to_array()?)?, 0)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight() {
        let day = |is_later, us| Day { is_later, signature: Signature::any(1, Volatility::Immutable) }.of(us);
        for (us, of, from) in [
            (0, 0, 0),
            (1, 0, 1),
            (-1, -1, 0),
            (DAY_US, 1, 1),
            (DAY_US - 1, 0, 1),
            (-DAY_US, -1, -1),
            (i64::MAX, i32::MAX, i32::MAX),
            (i64::MIN, i32::MIN, i32::MIN),
        ] {
            assert_eq!((day(false, us), day(true, us)), (of, from), "{us}");
        }
        assert!(day(true, i64::MAX - 1) < i32::MAX && day(false, i64::MIN + 1) > i32::MIN);
    }
}
