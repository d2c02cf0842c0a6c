//! Expressions of plans in the words of SQL: as PostgreSQL's EXPLAIN has them, with parentheses around each operator.
//!
//! Columns have the names that are given for them, functions that stand for operators are operators again, and what only the
//! engine needs is left out. Nobody reads these texts back: what has no other words is shown as the plan has it.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};

use crate::exec::apply;
use crate::exec::cell::ParamFunction;
use crate::naming;
use crate::pg::encode::{RowEncoder, TextStyle};
use crate::pg::errors;
use crate::pg::types::{arrow_oid, format_type};
use crate::wire::RowChunk;

type Expr = Arc<dyn PhysicalExpr>;

/// A longer expression is called by its column's name where others are made of it: texts that contain each other twice would
/// double with each operator.
pub(crate) const LENGTH_MAX: usize = 1000;

/// Functions that are operators of two arguments.
const OPERATORS: [(&str, &str); 27] = [
    ("pg_plus", "+"),
    ("pg_minus", "-"),
    ("pg_multiply", "*"),
    ("pg_float_plus", "+"),
    ("pg_float_minus", "-"),
    ("pg_float_multiply", "*"),
    ("pg_float_divide", "/"),
    ("pg_int_xor", "#"),
    ("pg_byteacat", "||"),
    ("numeric_add", "+"),
    ("numeric_sub", "-"),
    ("numeric_mul", "*"),
    ("numeric_div", "/"),
    ("numeric_mod", "%"),
    ("numeric_eq", "="),
    ("numeric_ne", "<>"),
    ("numeric_lt", "<"),
    ("numeric_le", "<="),
    ("numeric_gt", ">"),
    ("numeric_ge", ">="),
    ("interval_pl", "+"),
    ("interval_mi", "-"),
    ("interval_mul", "*"),
    ("interval_div", "/"),
    ("numeric_power", "^"),
    ("timestamptz_pl_interval", "+"),
    ("timestamptz_mi_interval", "-"),
];

/// Functions that give their first argument, as far as SQL can tell.
const TRANSPARENT: [&str; 6] = ["pg_nullable", "pg_single", "pg_nan", "unordered", "signless", "together"];

/// Functions of numerics that have another name than SQL's.
const NUMERIC: &str = "numeric_";
const OF_NUMERIC: [&str; 21] = [
    "min", "max", "sum", "avg", "abs", "ceil", "floor", "round", "trunc", "sqrt", "exp", "ln", "log", "sign",
    "greatest", "least", "coalesce", "nullif", "gcd", "lcm", "mod",
];

/// Writes expressions over columns of these names.
pub(crate) struct Words<'a> {
    pub columns: &'a [String],
    /// The subqueries that were met, by their ids.
    pub subplans: &'a RefCell<Vec<usize>>,
}

impl Words<'_> {
    pub(crate) fn of(&self, expr: &Expr) -> String {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self.column(column);
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return constant(literal.value());
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.call(call);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(cast.expr(), cast.cast_type());
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            return self.cast(cast.expr(), cast.cast_type());
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return format!("(NOT {})", self.of(not.arg()));
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            return format!("(- {})", self.of(negative.arg()));
        }
        if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
            return format!("({} IS NULL)", self.of(null.arg()));
        }
        if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
            return format!("({} IS NOT NULL)", self.of(null.arg()));
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            let (not, any_case) =
                (if like.negated() { "!" } else { "" }, if like.case_insensitive() { "*" } else { "" });
            return format!("({} {not}~~{any_case} {})", self.of(like.expr()), self.of(like.pattern()));
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            let values: Vec<String> = list.list().iter().map(|value| self.of(value)).collect();
            let how = if list.negated() { "<> ALL" } else { "= ANY" };
            return format!("({} {how} (ARRAY[{}]))", self.of(list.expr()), values.join(", "));
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case);
        }
        plain(&expr.to_string())
    }

    /// What a list of such gives for each.
    pub(crate) fn all<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<String> {
        exprs.into_iter().map(|expr| self.of(expr)).collect()
    }

    /// The conjuncts of a condition.
    pub(crate) fn conjuncts(&self, expr: &Expr) -> Vec<String> {
        let mut out = Vec::new();
        self.chain(expr, Operator::And, &mut out);
        out
    }

    /// Keys of an order, as in ORDER BY.
    pub(crate) fn order<'e>(&self, keys: impl IntoIterator<Item = &'e PhysicalSortExpr>) -> Vec<String> {
        keys.into_iter().map(|key| ordered(self.of(&key.expr), key.options)).collect()
    }

    pub(crate) fn aggregate(&self, of: &AggregateFunctionExpr, filter: Option<&Expr>) -> String {
        let args = of.expressions();
        let star = of.fun().name() == "count" && args.iter().all(|arg| arg.is::<Literal>());
        let mut inner = match star {
            true => "*".to_owned(),
            false => self.all(&args).join(", "),
        };
        if of.is_distinct() {
            inner = format!("DISTINCT {inner}");
        }
        if !of.order_bys().is_empty() {
            inner = format!("{inner} ORDER BY {}", self.order(of.order_bys()).join(", "));
        }
        let call = format!("{}({inner})", function_name(of.fun().name()));
        match filter {
            Some(filter) => format!("{call} FILTER (WHERE {})", self.of(filter)),
            None => call,
        }
    }

    fn column(&self, column: &Column) -> String {
        self.columns.get(column.index()).cloned().unwrap_or_else(|| name(column.name()))
    }

    fn binary(&self, binary: &BinaryExpr) -> String {
        let op = *binary.op();
        if matches!(op, Operator::And | Operator::Or) {
            let mut terms = Vec::new();
            self.chain(binary.left(), op, &mut terms);
            self.chain(binary.right(), op, &mut terms);
            return format!("({})", terms.join(if op == Operator::And { " AND " } else { " OR " }));
        }
        format!("({} {} {})", self.of(binary.left()), sign(op), self.of(binary.right()))
    }

    /// The terms that an operator joins, as one list.
    fn chain(&self, expr: &Expr, op: Operator, out: &mut Vec<String>) {
        match expr.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == op => {
                self.chain(binary.left(), op, out);
                self.chain(binary.right(), op, out);
            }
            _ => match transparent(expr) {
                Some(inner) => self.chain(inner, op, out),
                None => out.push(self.of(expr)),
            },
        }
    }

    fn call(&self, call: &ScalarFunctionExpr) -> String {
        let function = call.fun();
        if let Some(id) = apply::subplan_id(function) {
            let mut known = self.subplans.borrow_mut();
            let at = known.iter().position(|known| *known == id).unwrap_or_else(|| {
                known.push(id);
                known.len() - 1
            });
            return format!("(SubPlan {})", at + 1);
        }
        if let Some(outer) = apply::outer_name(function) {
            return name(outer);
        }
        if let Some(parameter) = function.inner().downcast_ref::<ParamFunction>() {
            return format!("${}", parameter.index + 1);
        }
        called(function.name(), self.all(call.args()))
    }

    fn cast(&self, inner: &Expr, to: &DataType) -> String {
        if let Some(literal) = inner.downcast_ref::<Literal>()
            && let Ok(value) = literal.value().cast_to(to)
        {
            return constant(&value);
        }
        let of = self.of(inner);
        match type_name(to) {
            // A change of how it is stored.
            ty if Some(&ty) == self.type_of(inner).as_ref() => of,
            ty if of.starts_with('(') => format!("{of}::{ty}"),
            ty => format!("({of})::{ty}"),
        }
    }

    /// The name of an expression's type, if that can be told without its input.
    fn type_of(&self, expr: &Expr) -> Option<String> {
        let ty = expr.downcast_ref::<CastExpr>().map(CastExpr::cast_type);
        ty.or_else(|| expr.downcast_ref::<ScalarFunctionExpr>().map(ScalarFunctionExpr::return_type)).map(type_name)
    }

    fn case(&self, case: &CaseExpr) -> String {
        let mut out = String::from("CASE");
        if let Some(of) = case.expr() {
            out.push_str(&format!(" {}", self.of(of)));
        }
        for (when, then) in case.when_then_expr() {
            out.push_str(&format!(" WHEN {} THEN {}", self.of(when), self.of(then)));
        }
        if let Some(other) = case.else_expr() {
            out.push_str(&format!(" ELSE {}", self.of(other)));
        }
        out.push_str(" END");
        out
    }
}

/// A call of a function, as the operator that it stands for if it does.
pub(crate) fn called(name: &str, args: Vec<String>) -> String {
    match args.as_slice() {
        [inner] if TRANSPARENT.contains(&name) => inner.clone(),
        [inner] if name == "numeric_uminus" => format!("(- {inner})"),
        [left, right] if let Some((_, sign)) = OPERATORS.iter().find(|(known, _)| *known == name) => {
            format!("({left} {sign} {right})")
        }
        args => format!("{}({})", function_name(name), args.join(", ")),
    }
}

/// The sign of an operator as PostgreSQL has it.
pub(crate) fn sign(op: Operator) -> String {
    match op {
        Operator::NotEq => "<>".to_owned(),
        Operator::LikeMatch => "~~".to_owned(),
        Operator::ILikeMatch => "~~*".to_owned(),
        Operator::NotLikeMatch => "!~~".to_owned(),
        Operator::NotILikeMatch => "!~~*".to_owned(),
        Operator::BitwiseXor => "#".to_owned(),
        Operator::StringConcat => "||".to_owned(),
        op => op.to_string(),
    }
}

/// What a function that changes nothing is of.
fn transparent(expr: &Expr) -> Option<&Expr> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    match call.args() {
        [inner] if TRANSPARENT.contains(&call.fun().name()) => Some(inner),
        _ => None,
    }
}

/// In parentheses, as PostgreSQL has what is no column in keys.
fn enclosed(words: String) -> String {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '$');
    if words.starts_with('(') || words.chars().all(is_name) { words } else { format!("({words})") }
}

/// A key of an order.
pub(crate) fn ordered(key: String, SortOptions { descending, nulls_first }: SortOptions) -> String {
    let mut key = enclosed(key);
    if descending {
        key.push_str(" DESC");
    }
    if nulls_first != descending {
        key.push_str(if nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
    }
    key
}

pub(crate) fn function_name(name: &str) -> &str {
    match name.strip_prefix(NUMERIC) {
        Some(short) if OF_NUMERIC.contains(&short) => short,
        _ => name,
    }
}

/// The name of a type.
pub(crate) fn type_name(ty: &DataType) -> String {
    format_type(arrow_oid(ty), None)
}

/// A column's name as SQL has it.
pub(crate) fn name(name: &str) -> String {
    let mut out = name.to_owned();
    naming::shown(&mut out);
    // A name of ours alone: that of a set's values.
    if out.is_empty() {
        out = name.chars().filter(|c| !c.is_control()).collect();
    }
    out.replace('\0', "$")
}

/// A constant as SQL has it.
pub(crate) fn constant(value: &ScalarValue) -> String {
    if value.is_null() {
        return match value.data_type() {
            DataType::Null => "NULL".to_owned(),
            ty => format!("NULL::{}", type_name(&ty)),
        };
    }
    let Ok(text) = value_text(value) else { return plain(&value.to_string()) };
    match value {
        ScalarValue::Boolean(Some(truth)) => truth.to_string(),
        ScalarValue::Int8(_)
        | ScalarValue::Int16(_)
        | ScalarValue::Int32(_)
        | ScalarValue::Int64(_)
        | ScalarValue::UInt8(_)
        | ScalarValue::UInt16(_)
        | ScalarValue::UInt32(_)
        | ScalarValue::UInt64(_)
            if !text.starts_with('-') =>
        {
            text
        }
        _ => format!("'{}'::{}", text.replace('\'', "''"), type_name(&value.data_type())),
    }
}

/// A value as it would be sent.
fn value_text(value: &ScalarValue) -> std::result::Result<String, crate::wire::SqlError> {
    let failed = |error| errors::from_datafusion(error, "");
    let batch = || -> Result<RecordBatch> {
        let schema = Schema::new(vec![Field::new("value", value.data_type(), true)]);
        Ok(RecordBatch::try_new(Arc::new(schema), vec![value.to_array()?])?)
    };
    let batch = batch().map_err(failed)?;
    let mut chunk = RowChunk::default();
    let encoder = RowEncoder::new(batch.schema().fields(), &[], &TextStyle::default())?;
    encoder.encode(&batch, 0..1, &mut chunk)?;
    // Behind its length.
    Ok(String::from_utf8_lossy(chunk.bytes.get(4..).unwrap_or_default()).into_owned())
}

/// What the plan calls something, without the places of columns (`a@0`).
pub(crate) fn plain(shown: &str) -> String {
    let mut out = String::with_capacity(shown.len());
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        let follows_name = out.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_');
        if c == '@' && follows_name && chars.peek().is_some_and(char::is_ascii_digit) {
            while chars.next_if(char::is_ascii_digit).is_some() {}
        } else if !c.is_control() {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use datafusion::physical_expr::expressions::lit;

    use super::*;

    fn words(expr: &Expr) -> String {
        let columns = ["t.a".to_owned(), "b".to_owned()];
        Words { columns: &columns, subplans: &RefCell::default() }.of(expr)
    }

    fn column(at: usize) -> Expr {
        Arc::new(Column::new("c", at))
    }

    fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    #[test]
    fn operators_and_constants_are_those_of_sql() {
        let one = binary(column(0), Operator::NotEq, lit(-1));
        assert_eq!(words(&one), "(t.a <> '-1'::integer)");
        let text = binary(column(1), Operator::Eq, lit(ScalarValue::Utf8View(Some("o'x".into()))));
        assert_eq!(words(&text), "(b = 'o''x'::text)");
        let null: Expr = Arc::new(IsNullExpr::new(column(1)));
        let all = binary(binary(one, Operator::And, text), Operator::And, null);
        assert_eq!(words(&all), "((t.a <> '-1'::integer) AND (b = 'o''x'::text) AND (b IS NULL))");
        let not: Expr = Arc::new(NotExpr::new(all));
        assert!(words(&not).starts_with("(NOT ((t.a"));
        assert_eq!(words(&lit(ScalarValue::Boolean(Some(true)))), "true");
        assert_eq!(words(&lit(ScalarValue::Date32(Some(1)))), "'1970-01-02'::date");
        assert_eq!(words(&lit(ScalarValue::Int32(None))), "NULL::integer");
    }

    #[test]
    fn orders_name_what_is_not_usual() {
        let columns = ["a".to_owned()];
        let words = Words { columns: &columns, subplans: &RefCell::default() };
        let key = |descending, nulls_first| PhysicalSortExpr::new(column(0), SortOptions { descending, nulls_first });
        let keys = [key(false, false), key(true, true), key(false, true), key(true, false)];
        assert_eq!(words.order(&keys), ["a", "a DESC", "a NULLS FIRST", "a DESC NULLS LAST"]);
    }

    #[test]
    fn places_of_columns_are_left_out() {
        assert_eq!(plain("f(a@0, b_1@12) + 'x@y'"), "f(a, b_1) + 'x@y'");
        assert_eq!(name("id\u{1}3"), "id");
        assert_eq!(name("\u{1}set"), "set");
    }
}
