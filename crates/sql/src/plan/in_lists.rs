//! Lists of IN and comparisons, kept from DataFusion's simplification of several of them.
//!
//! It takes `x IN (a, b) AND x NOT IN (c, d)` for the difference of the lists, and two lists joined by AND or by OR
//! for what they have in common, by comparing their expressions: a parameter equals no other although its value may,
//! and a NULL counts for nothing. So conditions with several lists, or with a NOT IN (a list may also come of
//! `x = 1 OR x = 2`), are simplified with their lists hidden in calls of a function that it knows nothing about.
//!
//! It takes `x = a AND x = b` for false, and `x = a AND x <> b` for `x = a`, where the constants differ as expressions: also
//! where one has been cast and both have the same value, since a constant says what type it is of beside its value
//! (`'a'` and `'a'::varchar(5)`). So what is compared with constants of that kind is hidden as well, and comes out with texts,
//! numbers and times that are values alone: the rule that moves filters down compares equalities in the same way.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::exec::any_of::items;

/// The name of the rule that [`Simplify`] takes the place of.
pub(crate) const REPLACED: &str = "simplify_expressions";

/// The place of a list, or of a comparison, while it is hidden.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Hidden {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Hidden {
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
        internal_err!("a list of IN stayed hidden")
    }
}

const IN: usize = 0;
const NOT_IN: usize = 1;
const EQUAL: usize = 2;
const UNEQUAL: usize = 3;

/// The functions for lists of IN and NOT IN, and for `=` and `<>`; volatile, so that nobody evaluates them.
fn functions() -> &'static [Arc<ScalarUDF>; 4] {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
        ["resurgam_in", "resurgam_not_in", "resurgam_equal", "resurgam_unequal"].map(|name| {
            let signature = Signature::variadic_any(Volatility::Volatile);
            Arc::new(ScalarUDF::new_from_impl(Hidden { name, signature }))
        })
    });
    &FUNCTIONS
}

/// Whether an operand is, or will be when it is folded, a constant that says more than its value.
fn says_its_type(operand: &Expr) -> bool {
    match operand {
        Expr::Literal(_, said) => said.is_some(),
        Expr::Column(_) => false,
        other => {
            let varies = other.exists(|expr| {
                Ok(matches!(expr, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Placeholder(_)))
            });
            !varies.unwrap_or(true) && !other.is_volatile()
        }
    }
}

/// Whether it is `=` or `<>` with such a constant.
fn is_typed_comparison(compared: &BinaryExpr) -> bool {
    matches!(compared.op, Operator::Eq | Operator::NotEq)
        && (says_its_type(&compared.left) || says_its_type(&compared.right))
}

/// Whether simplification could go wrong.
fn is_concerned(expr: &Expr) -> bool {
    let (mut lists, mut negated, mut typed) = (0, false, false);
    let walked = expr.apply(|expr| {
        match expr {
            Expr::InList(list) => {
                lists += 1;
                negated |= list.negated;
                typed |= list.list.iter().any(says_its_type);
            }
            Expr::BinaryExpr(compared) => typed |= is_typed_comparison(compared),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.is_err() || negated || lists > 1 || typed
}

/// A constant that is compared, as its value alone, where that says what it is.
fn bare(operand: Expr) -> Expr {
    use ScalarValue::*;
    match operand {
        Expr::Literal(
            value @ (Utf8(_)
            | Utf8View(_)
            | LargeUtf8(_)
            | Decimal128(..)
            | TimestampMicrosecond(..)
            | Time64Microsecond(_)
            | Date32(_)),
            Some(_),
        ) => Expr::Literal(value, None),
        other => other,
    }
}

fn hide(expr: Expr) -> Result<Expr> {
    expr.transform_up(|expr| match expr {
        Expr::InList(InList { expr, list, negated }) => {
            let function = Arc::clone(&functions()[if negated { NOT_IN } else { IN }]);
            let args = std::iter::once(*expr).chain(list).collect();
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
        }
        Expr::BinaryExpr(compared) if is_typed_comparison(&compared) => {
            let function = Arc::clone(&functions()[if compared.op == Operator::Eq { EQUAL } else { UNEQUAL }]);
            let args = vec![*compared.left, *compared.right];
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn show(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(call) => {
            let Some(which) = functions().iter().position(|function| Arc::ptr_eq(function, &call.func)) else {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            };
            let mut args = call.args.into_iter().map(bare);
            let Some(left) = args.next() else { return internal_err!("a hidden list of nothing") };
            if which < EQUAL {
                let list = InList::new(Box::new(left), args.collect(), which == NOT_IN);
                return Ok(Transformed::yes(Expr::InList(list)));
            }
            let Some(right) = args.next() else { return internal_err!("a hidden comparison with nothing") };
            let op = if which == EQUAL { Operator::Eq } else { Operator::NotEq };
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// An expression, simplified by `simplify` with its lists hidden where that is due.
pub(crate) fn apart(expr: Expr, simplify: impl FnOnce(Expr) -> Result<Expr>) -> Result<Expr> {
    let simplified = match is_concerned(&expr) {
        true => show(simplify(hide(expr)?)?).data(),
        false => simplify(expr),
    };
    simplified?.transform_up(both_zeroes).data()
}

/// A list of floats, which goes by their bits, with zero of either sign if one is in it: DataFusion makes lists of alternatives that compare one
/// value with constants.
fn both_zeroes(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InList(mut of) = expr else { return Ok(Transformed::no(expr)) };
    let is_zero = |item: &Expr, negative: bool| match item {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 0.0 && value.is_sign_negative() == negative,
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value == 0.0 && value.is_sign_negative() == negative,
        _ => false,
    };
    let with = |negative: bool| of.list.iter().find(|item| is_zero(item, negative));
    let lacking = match (with(false), with(true)) {
        (Some(one), None) | (None, Some(one)) => items(one.clone()),
        _ => return Ok(Transformed::no(Expr::InList(of))),
    };
    let missing = lacking.into_iter().filter(|item| !of.list.contains(item)).collect::<Vec<_>>();
    of.list.extend(missing);
    Ok(Transformed::yes(Expr::InList(of)))
}

/// All lists of a plan's expressions like this.
fn all_with_both_zeroes(plan: Transformed<LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
    let mut has_lists = false;
    plan.data.apply_expressions(|expr| {
        has_lists |= expr.exists(|expr| Ok(matches!(expr, Expr::InList(_))))?;
        Ok(if has_lists { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_lists {
        return Ok(plan);
    }
    let names = NamePreserver::new(&plan.data);
    let transformed = plan.transformed;
    let done = plan.data.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.transform_up(both_zeroes)?.update_data(|expr| name.restore(expr)))
    })?;
    Ok(Transformed::new_transformed(done.data, transformed || done.transformed))
}

/// DataFusion's simplification of the expressions of a plan, with lists hidden where that is due.
#[derive(Debug, Default)]
pub(crate) struct Simplify(SimplifyExpressions);

impl OptimizerRule for Simplify {
    fn name(&self) -> &str {
        REPLACED
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut concerned = false;
        plan.apply_expressions(|expr| {
            concerned |= is_concerned(expr);
            Ok(if concerned { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !concerned {
            return all_with_both_zeroes(self.0.rewrite(plan, config)?);
        }
        let names = NamePreserver::new(&plan);
        let hidden = plan
            .map_expressions(|expr| {
                // Theirs are no names that could be kept.
                if matches!(expr, Expr::GroupingSet(_)) {
                    return Ok(Transformed::no(expr));
                }
                let name = names.save(&expr);
                Ok(Transformed::yes(name.restore(hide(expr)?)))
            })?
            .data;
        let simplified = self.0.rewrite(hidden, config)?;
        let names = NamePreserver::new(&simplified.data);
        let transformed = simplified.transformed;
        let shown = simplified.data.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(show(expr)?.update_data(|expr| name.restore(expr)))
        })?;
        all_with_both_zeroes(Transformed::new_transformed(shown.data, transformed))
    }
}
