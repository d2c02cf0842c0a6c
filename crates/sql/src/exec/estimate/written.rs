//! Conditions as they are written, in logical and in physical expressions.
//!
//! Values of parameters are not known, and literals of texts are parameters. Those that are left (of views, and in plans that are
//! made for one run) are looked at.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr as PhysicalBinary, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use resurgam_engine::Datum;

use super::condition::Condition;
use super::table::Origin;
use crate::exec::access_path::{ARRAY_ELEMENTS, is_constant};
use crate::exec::any_of::{self, AnyOf};
use crate::exec::bridge::{self, KeyValue};
use crate::pg::functions::numeric;

/// As [`ARRAY_ELEMENTS`].
const ELEMENTS: usize = ARRAY_ELEMENTS as usize;

/// Values of a list that are looked at.
const VALUES_MAX: usize = 100;

type Physical = Arc<dyn PhysicalExpr>;

/// One side of a comparison.
#[derive(Default)]
struct Side {
    column: Option<Origin>,
    is_constant: bool,
    value: Option<ScalarValue>,
}

/// A value as the column has it, if it is one.
fn datum(column: &Origin, value: Option<&ScalarValue>) -> Option<Datum> {
    let ty = &column.of.table.columns.get(column.column)?.ty;
    match bridge::key_value(value?, ty).ok()? {
        KeyValue::Exact(datum) => Some(datum),
        _ => None,
    }
}

fn equals<'v>(column: Origin, count: usize, known: impl Iterator<Item = Option<&'v ScalarValue>>) -> Condition {
    let known = known.take(VALUES_MAX).filter_map(|value| datum(&column, value)).collect();
    Condition::Equals(column, count, known)
}

/// What a comparison of a column with a constant says.
fn compared(op: Operator, column: Origin, value: Option<&ScalarValue>) -> Condition {
    match op {
        Operator::Eq | Operator::IsNotDistinctFrom => equals(column, 1, std::iter::once(value)),
        Operator::NotEq | Operator::IsDistinctFrom => {
            Condition::Not(Box::new(equals(column, 1, std::iter::once(value))))
        }
        Operator::Gt | Operator::GtEq => {
            let value = datum(&column, value);
            Condition::Above(column, value)
        }
        Operator::Lt | Operator::LtEq => {
            let value = datum(&column, value);
            Condition::Below(column, value)
        }
        _ => Condition::Unknown,
    }
}

fn binary(op: Operator, left: Side, right: Side) -> Condition {
    match (left.column, right.column) {
        (Some(a), Some(b)) if op == Operator::Eq => Condition::Same(a, b),
        (Some(column), None) if right.is_constant => compared(op, column, right.value.as_ref()),
        (None, Some(column)) if left.is_constant => match op.swap() {
            Some(op) => compared(op, column, left.value.as_ref()),
            None => Condition::Unknown,
        },
        _ => Condition::Unknown,
    }
}

fn negated(is_negated: bool, condition: Condition) -> Condition {
    if is_negated { Condition::Not(Box::new(condition)) } else { condition }
}

fn constant_of(value: &ScalarValue) -> Condition {
    match value {
        ScalarValue::Boolean(value) => Condition::Constant(value.unwrap_or(false)),
        ScalarValue::Null => Condition::Constant(false),
        _ => Condition::Unknown,
    }
}

/// A condition in a logical plan; `column` says what a column is.
pub(crate) fn logical(expr: &Expr, column: &dyn Fn(&Expr) -> Option<Origin>) -> Condition {
    let inner = |expr: &Expr| logical(expr, column);
    let of = |expr: &Expr, make: &dyn Fn(Origin) -> Condition| column(expr).map_or(Condition::Unknown, make);
    match expr {
        Expr::Alias(alias) => inner(&alias.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Condition::All(vec![inner(left), inner(right)])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Condition::Any(vec![inner(left), inner(right)])
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let side = |expr: &Expr| Side {
                column: column(expr),
                is_constant: is_constant(expr),
                value: literal(expr).cloned(),
            };
            binary(*op, side(left), side(right))
        }
        Expr::Not(expr) => negated(true, inner(expr)),
        Expr::IsNull(expr) => of(expr, &Condition::Null),
        Expr::IsNotNull(expr) => negated(true, of(expr, &Condition::Null)),
        Expr::Like(like) | Expr::SimilarTo(like) => negated(like.negated, of(&like.expr, &|_| Condition::Matches)),
        Expr::Between(between) => {
            let both = |column: Origin| {
                let low = compared(Operator::GtEq, column.clone(), literal(&between.low));
                Condition::All(vec![low, compared(Operator::LtEq, column, literal(&between.high))])
            };
            negated(between.negated, of(&between.expr, &both))
        }
        Expr::InList(InList { expr, list, negated: is_negated }) => {
            let all = |column: Origin| equals(column, list.len(), list.iter().map(literal));
            negated(*is_negated, of(expr, &all))
        }
        Expr::ScalarFunction(_) => {
            let Some((value, values)) = any_of::membership(expr) else { return Condition::Unknown };
            let all = |column: Origin| match &values {
                any_of::Values::Elements(list) => equals(column, list.len(), list.iter().map(|item| literal(item))),
                any_of::Values::Array(_) => Condition::Equals(column, ELEMENTS, Vec::new()),
            };
            of(value, &all)
        }
        Expr::Literal(value, _) => constant_of(value),
        Expr::Column(_) => of(expr, &|column| Condition::Equals(column, 1, vec![Datum::Bool(true)])),
        _ => Condition::Unknown,
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// A condition in a physical plan over rows with these columns.
pub(crate) fn physical(expr: &Physical, columns: &[Option<Origin>]) -> Condition {
    let inner = |expr: &Physical| physical(expr, columns);
    let of =
        |expr: &Physical, make: &dyn Fn(Origin) -> Condition| column_of(expr, columns).map_or(Condition::Unknown, make);
    if let Some(binary_expr) = expr.downcast_ref::<PhysicalBinary>() {
        let (left, right) = (binary_expr.left(), binary_expr.right());
        return match binary_expr.op() {
            Operator::And => Condition::All(vec![inner(left), inner(right)]),
            Operator::Or => Condition::Any(vec![inner(left), inner(right)]),
            op => {
                let side = |expr: &Physical| Side {
                    column: column_of(expr, columns),
                    is_constant: reads_no_column(expr),
                    value: physical_literal(expr).cloned(),
                };
                binary(*op, side(left), side(right))
            }
        };
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return negated(true, inner(not.arg()));
    }
    if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
        return of(null.arg(), &Condition::Null);
    }
    if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
        return negated(true, of(null.arg(), &Condition::Null));
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let items = list.list();
        let all = |column: Origin| equals(column, items.len(), items.iter().map(physical_literal));
        return negated(list.negated(), of(list.expr(), &all));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return negated(like.negated(), of(like.expr(), &|_| Condition::Matches));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let Some(any) = call.fun().inner().downcast_ref::<AnyOf>() else { return Condition::Unknown };
        let Some(value) = call.args().first() else { return Condition::Unknown };
        let count = any.count().unwrap_or(ELEMENTS);
        return negated(any.is_negated(), of(value, &|column| Condition::Equals(column, count, Vec::new())));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return constant_of(literal.value());
    }
    of(expr, &|column| Condition::Equals(column, 1, vec![Datum::Bool(true)]))
}

fn physical_literal(expr: &Physical) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

/// The column that an expression is, seen through casts and what numerics are compared by.
pub(crate) fn column_of(expr: &Physical, columns: &[Option<Origin>]) -> Option<Origin> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return columns.get(column.index())?.clone();
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return column_of(cast.expr(), columns);
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == numeric::KEY)?;
    column_of(call.args().first()?, columns)
}

fn reads_no_column(expr: &Physical) -> bool {
    !expr.is::<Column>() && expr.children().into_iter().all(reads_no_column)
}
