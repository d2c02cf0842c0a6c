//! Calls of functions of users, whose bodies are subqueries.
//!
//! Analysis gives the body as the first argument of a function [`NAME`], and behind it the arguments of the call, which the
//! body knows as outer columns of names that are theirs alone. When subqueries are taken out of the plan the body becomes a
//! call of a [`SubPlan`](super::function::SubPlan), as any other; the arguments of the call then take the places of those
//! columns. So an argument is evaluated once for each row, whatever it is and however often the body reads it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility,
};

use super::function::{Body, Kind, SubPlan, SubPlanFunction};

/// Name of the function.
const NAME: &str = "$body";

/// See the module's head.
#[derive(Debug)]
struct BodyFunction {
    /// The columns that stand for the arguments behind the first.
    columns: Vec<Column>,
    how: Body,
    signature: Signature,
}

impl PartialEq for BodyFunction {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && self.how == other.how
    }
}
impl Eq for BodyFunction {}
impl Hash for BodyFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.columns.hash(state);
    }
}

impl ScalarUDFImpl for BodyFunction {
    fn name(&self) -> &str {
        NAME
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(ty) => Ok(ty.clone()),
            None => internal_err!("a function without its body"),
        }
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(field) => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
            None => internal_err!("a function without its body"),
        }
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a function's body that is not in the plan")
    }
}

/// The value of a body, for arguments that it reads as these columns.
pub(crate) fn body_call(body: Subquery, args: &[(Column, Expr)], strict: bool) -> Result<Expr> {
    let mut volatile = false;
    super::function::walk(&body.subquery, &mut |node| {
        volatile |= node.expressions().iter().any(Expr::is_volatile);
        Ok(TreeNodeRecursion::Continue)
    })?;
    let volatility = if volatile { Volatility::Volatile } else { Volatility::Stable };
    let function = BodyFunction {
        columns: args.iter().map(|(column, _)| column.clone()).collect(),
        how: Body { strict, each_row: volatile },
        signature: Signature::variadic_any(volatility),
    };
    let func = Arc::new(ScalarUDF::new_from_impl(function));
    let args = std::iter::once(Expr::ScalarSubquery(body)).chain(args.iter().map(|(_, arg)| arg.clone())).collect();
    Ok(Expr::ScalarFunction(ScalarFunction { func, args }))
}

/// Whether an expression is such a call.
pub(super) fn is_body(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

/// The call of the subquery that a body became, with the arguments in the places of its outer columns.
pub(super) fn with_arguments(expr: Expr) -> Result<Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else {
        return internal_err!("a function's body that is none");
    };
    let Some(body) = func.inner().downcast_ref::<BodyFunction>() else {
        return internal_err!("a function's body of another kind");
    };
    let given = args.split_off(1);
    let Some(Expr::ScalarFunction(ScalarFunction { func, args: mut outer })) = args.pop() else {
        return internal_err!("a function's body that is no subquery");
    };
    let mut read = vec![false; given.len()];
    for arg in &mut outer {
        let Expr::OuterReferenceColumn(_, column) = &*arg else { continue };
        if let Some(at) = body.columns.iter().position(|known| known == column) {
            *arg = given[at].clone();
            read[at] = true;
        }
    }
    let call = Expr::ScalarFunction(ScalarFunction { func, args: outer });
    // What nobody reads is evaluated as well, where that can be told.
    let more = given.into_iter().zip(read).filter(|(arg, read)| !read && (body.how.strict || arg.is_volatile()));
    let more: Vec<Expr> = more.map(|(arg, _)| arg).collect();
    let Expr::ScalarFunction(ScalarFunction { func, args: mut outer }) = call else {
        return internal_err!("a call that is none");
    };
    let Some(sub) = func.inner().downcast_ref::<SubPlanFunction>().map(|function| &function.of) else {
        return internal_err!("a function's body that is no call");
    };
    if sub.kind != Kind::Value {
        return internal_err!("a function's body that is no value");
    }
    let mut sub: SubPlan = sub.with_plan(sub.plan.clone());
    // Their values are not read: no more is known of them than that they are there.
    sub.outers.extend(more.iter().map(|_| Arc::new(Field::new("", DataType::Null, true)) as FieldRef));
    sub.body = body.how;
    outer.extend(more);
    Ok(Expr::ScalarFunction(ScalarFunction { func: sub.function(), args: outer }))
}
