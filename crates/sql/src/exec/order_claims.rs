//! What DataFusion holds for ordered by a comparison, an AND or an OR is not believed.
//!
//! Of an expression over ordered columns it works out whether its values come in an order, too (`PhysicalExpr::get_properties`), and leaves out
//! sorts, and takes partitions of windows for ended, by that. For these operators it forgets NULL: `x > 3 OR NULL` over an ascending `x` is
//! NULL, then true, then NULL again. So where an order may be taken from an expression, these are wrapped in a function of which it knows nothing.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use super::same_value::SameValue;

/// `plan`, which is to be made a physical one, without such claims.
pub(crate) fn without(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        // Filters and conditions of joins give no order, and are looked at closely by others.
        let gives_orders = matches!(
            node,
            LogicalPlan::Projection(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) | LogicalPlan::Aggregate(_)
        );
        if !gives_orders {
            return Ok(Transformed::no(node));
        }
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let wrapped = expr.transform_down(wrapped)?;
            Ok(if wrapped.transformed { wrapped.update_data(|expr| name.restore(expr)) } else { wrapped })
        })
    })
    .data()
}

fn wrapped(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::And | Operator::Or | Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq,
            ..
        }) => Transformed::new(unordered(expr), true, TreeNodeRecursion::Jump),
        // Nothing is known of the order of these, whatever they are of.
        Expr::Case(_) | Expr::InList(_) | Expr::Between(_) | Expr::Like(_) | Expr::ScalarSubquery(_) => {
            Transformed::new(expr, false, TreeNodeRecursion::Jump)
        }
        other => Transformed::no(other),
    })
}

/// Its argument, of whose order nothing is known.
fn unordered(expr: Expr) -> Expr {
    SameValue::function("unordered", |_| None).call(vec![expr])
}
