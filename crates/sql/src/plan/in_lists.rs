//! Lists of IN, kept from DataFusion's simplification of several of them.
//!
//! It takes `x IN (a, b) AND x NOT IN (c, d)` for the difference of the lists, and two lists joined by AND or by OR
//! for what they have in common, by comparing their expressions: a parameter equals no other although its value may,
//! and a NULL counts for nothing. So conditions with several lists, or with a NOT IN (a list may also come of
//! `x = 1 OR x = 2`), are simplified with their lists hidden in calls of a function that it knows nothing about.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The name of the rule that [`Simplify`] takes the place of.
pub(crate) const REPLACED: &str = "simplify_expressions";

/// The place of a list while it is hidden.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Hidden {
    negated: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Hidden {
    fn name(&self) -> &str {
        if self.negated { "resurgam_not_in" } else { "resurgam_in" }
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

/// The function for lists of IN, and that for NOT IN; volatile, so that nobody evaluates them.
fn functions() -> &'static [Arc<ScalarUDF>; 2] {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [false, true].map(|negated| {
            let signature = Signature::variadic_any(Volatility::Volatile);
            Arc::new(ScalarUDF::new_from_impl(Hidden { negated, signature }))
        })
    });
    &FUNCTIONS
}

/// Whether simplification could go wrong.
fn is_concerned(expr: &Expr) -> bool {
    let (mut lists, mut negated) = (0, false);
    let walked = expr.apply(|expr| {
        if let Expr::InList(list) = expr {
            lists += 1;
            negated |= list.negated;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.is_err() || negated || lists > 1
}

fn hide(expr: Expr) -> Result<Expr> {
    expr.transform_up(|expr| match expr {
        Expr::InList(InList { expr, list, negated }) => {
            let function = Arc::clone(&functions()[usize::from(negated)]);
            let args = std::iter::once(*expr).chain(list).collect();
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn show(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(call) if functions().iter().any(|function| Arc::ptr_eq(function, &call.func)) => {
            let negated = Arc::ptr_eq(&functions()[1], &call.func);
            let mut args = call.args.into_iter();
            match args.next() {
                Some(left) => Ok(Transformed::yes(Expr::InList(InList::new(Box::new(left), args.collect(), negated)))),
                None => internal_err!("a hidden list of nothing"),
            }
        }
        other => Ok(Transformed::no(other)),
    })
}

/// An expression, simplified by `simplify` with its lists hidden where that is due.
pub(crate) fn apart(expr: Expr, simplify: impl FnOnce(Expr) -> Result<Expr>) -> Result<Expr> {
    match is_concerned(&expr) {
        true => show(simplify(hide(expr)?)?).data(),
        false => simplify(expr),
    }
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
            return self.0.rewrite(plan, config);
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
        Ok(Transformed::new_transformed(shown.data, transformed))
    }
}
