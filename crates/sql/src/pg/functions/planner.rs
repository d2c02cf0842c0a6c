//! Operators whose meaning hangs on types that DataFusion has no rule for.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::pg::datetime::Zone;
use crate::pg::decode::decode_param;
use crate::pg::errors::to_datafusion;
use crate::pg::types::arrow_oid;
use crate::wire::Format;

/// - list `=` `'{…}'`: the literal becomes a list
/// - `date + integer`, `date - integer`, `date - date`
#[derive(Debug)]
pub(super) struct PgExprPlanner;

fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// A text literal next to a list, read as one.
fn list_literal(list: &DataType, text: &str) -> DfResult<Expr> {
    let value = decode_param(arrow_oid(list), Format::Text, Some(text.as_bytes()), &Zone::Utc).map_err(to_datafusion)?;
    let value = if &value.data_type() == list { value } else { value.cast_to(list)? };
    Ok(lit(value))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

impl ExprPlanner for PgExprPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let comparison = matches!(
            expr.op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        );
        let arithmetic = matches!(expr.op, BinaryOperator::Plus | BinaryOperator::Minus);
        if !comparison && !arithmetic {
            return Ok(PlannerResult::Original(expr));
        }
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        if comparison {
            let mut expr = expr;
            if matches!(left, DataType::List(_))
                && let Some(text) = literal(&expr.right)
            {
                expr.right = list_literal(&left, text)?;
            } else if matches!(right, DataType::List(_))
                && let Some(text) = literal(&expr.left)
            {
                expr.left = list_literal(&right, text)?;
            }
            return Ok(PlannerResult::Original(expr));
        }
        let day_number = |expr: Expr| cast(expr, DataType::Int32);
        match (&left, &expr.op, &right) {
            (DataType::Date32, BinaryOperator::Minus, DataType::Date32) => {
                Ok(PlannerResult::Planned(binary(day_number(expr.left), Operator::Minus, day_number(expr.right))))
            }
            (DataType::Date32, op, ty) if ty.is_integer() => {
                let op = if matches!(op, BinaryOperator::Plus) { Operator::Plus } else { Operator::Minus };
                let days = binary(day_number(expr.left), op, day_number(expr.right));
                Ok(PlannerResult::Planned(cast(days, DataType::Date32)))
            }
            (ty, BinaryOperator::Plus, DataType::Date32) if ty.is_integer() => {
                let days = binary(day_number(expr.left), Operator::Plus, day_number(expr.right));
                Ok(PlannerResult::Planned(cast(days, DataType::Date32)))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}
