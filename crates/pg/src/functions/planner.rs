//! Operators whose meaning hangs on types that DataFusion has no rule for.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, ScalarUDF, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::context::PgContext;
use crate::datetime::Zone;
use crate::decode::decode_param;
use crate::errors::to_datafusion;
use crate::functions::numeric;
use crate::types::{arrow_oid, field_oid, format_type, oid, type_by_oid};
use crate::wire::{Format, SqlError};

/// - list `=` `'{…}'`: the literal becomes a list
/// - `date + integer`, `date - integer`, `date - date`, `date + interval`
/// - `interval * number`, `interval / number`
/// - numerics whose digits their types do not say
/// - an untyped literal next to a typed value is read as PostgreSQL reads that type
#[derive(Debug)]
pub(super) struct PgExprPlanner {
    pub cx: Arc<dyn PgContext>,
    /// The cast of a text to a `timestamptz`.
    pub timestamptz: Arc<ScalarUDF>,
    /// Operators on times, and regular expressions.
    pub operators: Vec<Arc<ScalarUDF>>,
}

/// Types as which a literal beside them is read. `numeric` is not among them: its literals may
/// have more digits than the column keeps.
fn reads_literals(ty: u32) -> bool {
    matches!(
        ty,
        oid::BOOL
            | oid::INT2
            | oid::INT4
            | oid::INT8
            | oid::FLOAT8
            | oid::OID
            | oid::DATE
            | oid::TIME
            | oid::TIMESTAMP
            | oid::TIMESTAMPTZ
            | oid::INTERVAL
            | oid::UUID
            | oid::BPCHAR
            | oid::BYTEA
    )
}

impl PgExprPlanner {
    /// A literal as a value of the type that stands beside it.
    fn read(&self, literal: &str, beside: &Expr, schema: &DFSchema) -> DfResult<Option<Expr>> {
        let Ok((_, field)) = beside.to_field(schema) else { return Ok(None) };
        // a lone literal is text only for want of a better type
        if matches!(beside, Expr::Literal(..)) && field.data_type().is_string() {
            return Ok(None);
        }
        let ty = field_oid(&field);
        if !reads_literals(ty) {
            return Ok(None);
        }
        let value = decode_param(ty, Format::Text, Some(literal.as_bytes()), &self.cx.zone()).map_err(to_datafusion)?;
        if &value.data_type() != field.data_type() {
            return Ok(None);
        }
        // A time that is read otherwise in another zone stays a cast, for the plan to be the session's.
        if ty == oid::TIMESTAMPTZ {
            let elsewhere = Zone::parse("Asia/Tokyo").unwrap_or_default();
            let read_in = |zone: Zone| decode_param(ty, Format::Text, Some(literal.as_bytes()), &zone).ok();
            if read_in(Zone::Utc) != read_in(elsewhere) {
                return Ok(Some(self.timestamptz.call(vec![lit(ScalarValue::Utf8View(Some(literal.to_owned())))])));
            }
        }
        Ok(Some(lit(value)))
    }
}

fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// A text literal as a value of the type that texts have.
fn as_text(expr: Expr) -> Expr {
    match literal(&expr) {
        Some(text) => lit(ScalarValue::Utf8View(Some(text.to_owned()))),
        None => expr,
    }
}

/// A text literal next to a list, read as one.
fn list_literal(list: &DataType, text: &str) -> DfResult<Expr> {
    let value =
        decode_param(arrow_oid(list), Format::Text, Some(text.as_bytes()), &Zone::Utc).map_err(to_datafusion)?;
    let value = if &value.data_type() == list { value } else { value.cast_to(list)? };
    Ok(lit(value))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// What `||` is not for: it joins texts, lists and `bytea`, and a text with anything. Documents of `jsonb` are not
/// joined as letters.
fn no_letters(expr: &RawBinaryExpr, schema: &DFSchema) -> DfResult<()> {
    let oid_of = |expr: &Expr| match expr {
        _ if literal(expr).is_some() => Some(oid::UNKNOWN),
        expr => expr.to_field(schema).ok().map(|(_, field)| field_oid(&field)),
    };
    let (Some(left), Some(right)) = (oid_of(&expr.left), oid_of(&expr.right)) else { return Ok(()) };
    let list = |ty: u32| type_by_oid(ty).is_some_and(|ty| ty.elem != 0);
    if list(left) || list(right) || expr.left.get_type(schema).is_ok_and(|ty| ty.is_null()) {
        return Ok(());
    }
    if left == oid::JSONB || right == oid::JSONB {
        return Err(to_datafusion(SqlError::unsupported("the operator || of jsonb is not supported")));
    }
    let text = |ty: u32| matches!(ty, oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::UNKNOWN | oid::NAME);
    if text(left) || text(right) || (left == oid::BYTEA && right == oid::BYTEA) {
        return Ok(());
    }
    let (left, right) = (format_type(left, None), format_type(right, None));
    Err(to_datafusion(SqlError::new("42883", format!("operator does not exist: {left} || {right}")).with_hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    )))
}

/// An operation on numerics whose digits the operands' types do not say; `None` for others.
fn numeric_operation(expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    let (op, sign, name) = match expr.op {
        BinaryOperator::Plus => (Operator::Plus, '+', "numeric_add"),
        BinaryOperator::Minus => (Operator::Minus, '-', "numeric_sub"),
        BinaryOperator::Multiply => (Operator::Multiply, '*', "numeric_mul"),
        BinaryOperator::Divide => (Operator::Divide, '/', "numeric_div"),
        BinaryOperator::Modulo => (Operator::Modulo, '%', "numeric_mod"),
        BinaryOperator::Eq => (Operator::Eq, '=', "numeric_eq"),
        BinaryOperator::NotEq => (Operator::NotEq, '=', "numeric_ne"),
        BinaryOperator::Lt => (Operator::Lt, '=', "numeric_lt"),
        BinaryOperator::LtEq => (Operator::LtEq, '=', "numeric_le"),
        BinaryOperator::Gt => (Operator::Gt, '=', "numeric_gt"),
        BinaryOperator::GtEq => (Operator::GtEq, '=', "numeric_ge"),
        _ => return None,
    };
    let dynamic = [left, right].contains(&&numeric::DYNAMIC);
    let decimal = |ty: &DataType| matches!(ty, DataType::Decimal128(..) | DataType::Decimal256(..));
    let number = |ty: &DataType, expr: &Expr| numeric::is_exact_number(ty) || literal(expr).is_some() || ty.is_null();
    if dynamic && (left.is_floating() || right.is_floating()) {
        // As PostgreSQL does, in the type that has infinities.
        let float = |ty: &DataType, expr: &Expr| match numeric::by_proc_name("numeric_float8") {
            Some(function) if ty == &numeric::DYNAMIC => function.call(vec![expr.clone()]),
            _ => expr.clone(),
        };
        return Some(binary(float(left, &expr.left), op, float(right, &expr.right)));
    }
    if !number(left, &expr.left) || !number(right, &expr.right) {
        return None;
    }
    let by_digits = match sign {
        '=' | '%' => dynamic,
        sign => dynamic || ((decimal(left) || decimal(right)) && numeric::is_dynamic_result(left, sign, right)),
    };
    if !by_digits {
        return None;
    }
    numeric::by_proc_name(name)
        .map(|function| function.call(vec![as_text(expr.left.clone()), as_text(expr.right.clone())]))
}

impl ExprPlanner for PgExprPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        if matches!(
            expr.op,
            BinaryOperator::PGRegexMatch
                | BinaryOperator::PGRegexIMatch
                | BinaryOperator::PGRegexNotMatch
                | BinaryOperator::PGRegexNotIMatch
        ) {
            let name = match expr.op {
                BinaryOperator::PGRegexMatch => "textregexeq",
                BinaryOperator::PGRegexIMatch => "texticregexeq",
                BinaryOperator::PGRegexNotMatch => "textregexne",
                _ => "texticregexne",
            };
            return match self.operators.iter().find(|function| function.name() == name) {
                Some(function) => {
                    Ok(PlannerResult::Planned(function.call(vec![as_text(expr.left), as_text(expr.right)])))
                }
                None => Err(to_datafusion(SqlError::internal("an operator without a function"))),
            };
        }
        if matches!(expr.op, BinaryOperator::StringConcat) {
            no_letters(&expr, schema)?;
        }
        let comparison = matches!(
            expr.op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        );
        let arithmetic = matches!(
            expr.op,
            BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo
        );
        if !comparison && !arithmetic {
            return Ok(PlannerResult::Original(expr));
        }
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        if let Some(planned) = numeric_operation(&expr, &left, &right) {
            return Ok(PlannerResult::Planned(planned));
        }
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
            } else if let Some(text) = literal(&expr.right)
                && let Some(value) = self.read(text, &expr.left, schema)?
            {
                expr.right = value;
            } else if let Some(text) = literal(&expr.left)
                && let Some(value) = self.read(text, &expr.right, schema)?
            {
                expr.left = value;
            }
            return Ok(PlannerResult::Original(expr));
        }
        let mut expr = expr;
        if let Some(text) = literal(&expr.right)
            && left.is_numeric()
            && let Some(value) = self.read(text, &expr.left, schema)?
        {
            expr.right = value;
            return Ok(PlannerResult::Original(expr));
        }
        if let Some(text) = literal(&expr.left)
            && right.is_numeric()
            && let Some(value) = self.read(text, &expr.right, schema)?
        {
            expr.left = value;
            return Ok(PlannerResult::Original(expr));
        }
        let (l, r) = (arithmetic_oid(&left), arithmetic_oid(&right));
        let symbol = match expr.op {
            BinaryOperator::Plus => "+",
            BinaryOperator::Minus => "-",
            BinaryOperator::Multiply => "*",
            _ => "/",
        };
        // `interval` is multiplied by any number, days are added of any integer.
        let as_float = |ty: u32| if matches!(symbol, "*" | "/") && ty == oid::INT4 { oid::FLOAT8 } else { ty };
        let Some((name, swapped)) = super::time_operator(as_float(l), symbol, as_float(r)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let args = if swapped { vec![expr.right, expr.left] } else { vec![expr.left, expr.right] };
        match self.operators.iter().find(|function| function.name() == name) {
            Some(function) => Ok(PlannerResult::Planned(function.call(args))),
            None => Err(to_datafusion(SqlError::internal("an operator without a function"))),
        }
    }
}

/// The type of an operand of an operator on times; of any number, that of those that such operators take.
fn arithmetic_oid(ty: &DataType) -> u32 {
    match ty {
        ty if ty.is_integer() => oid::INT4,
        ty if ty.is_numeric() || ty == &numeric::DYNAMIC => oid::FLOAT8,
        ty => arrow_oid(ty),
    }
}
