//! Operands of different types, brought together as PostgreSQL does it where DataFusion does
//! otherwise.
//!
//! | what meets | PostgreSQL | DataFusion alone |
//! |---|---|---|
//! | `timestamptz` and `timestamp` or `date` | `timestamptz`, by the session's zone | by UTC, or without a zone |
//! | `timestamp` and `date` | `timestamp` | nanoseconds, which end in 2262 |
//! | `double precision` or `real` and `numeric` | `double precision` | `numeric`, which has no infinity |
//! | `numeric` whose digits are its own and other exact numbers | `numeric` | nothing |
//! | numbers and an untyped text in CASE, coalesce and their like | the number's type | text |
//!
//! [`Coercion`] stands in the place of DataFusion's rule of that name and calls it, for each
//! expression, when it has done its part. [`ByZone`] comes after it: casts that are left between
//! times with and without a zone, or from text to them, become calls of `pg_cast_…`, which go by the
//! session. A constant is on its own side of a comparison then, so that keys are still found.
//!
//! Invariant: what these rules have put right they leave alone when they come again.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, Spans};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{Between, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, ScalarUDF, Subquery, Union, cast,
    lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use crate::pg::context::PgContext;
use crate::pg::functions::{cast_function, numeric, timestamp_of_date};
use crate::pg::types::{arrow_oid, oid, timestamptz};

/// Types that something is cast to here.
const CASTS: [u32; 10] = [
    oid::BOOL,
    oid::INT2,
    oid::INT4,
    oid::INT8,
    oid::FLOAT4,
    oid::FLOAT8,
    oid::DATE,
    oid::TIME,
    oid::TIMESTAMP,
    oid::TIMESTAMPTZ,
];

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Coercion {
    casts: Arc<HashMap<u32, Arc<ScalarUDF>>>,
    timestamp_of_date: Arc<ScalarUDF>,
}

/// The rule that comes after it.
#[derive(Debug)]
pub(crate) struct ByZone(Coercion);

impl Coercion {
    /// With the casts of a session.
    pub(crate) fn new(cx: &Arc<dyn PgContext>) -> Self {
        let casts = CASTS.iter().filter_map(|ty| Some((*ty, Arc::new(cast_function(cx, *ty)?))));
        Self { casts: Arc::new(casts.collect()), timestamp_of_date: Arc::new(timestamp_of_date()) }
    }

    /// DataFusion's analyzer rules with these in the place of its own.
    pub(crate) fn rules(&self) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
        let mut rules = Vec::new();
        for rule in Analyzer::new().rules {
            if rule.name() == self.name() {
                rules.push(Arc::new(self.clone()) as Arc<dyn AnalyzerRule + Send + Sync>);
                rules.push(Arc::new(ByZone(self.clone())));
            } else {
                rules.push(rule);
            }
        }
        rules
    }

    /// What that state plans with.
    pub(crate) fn of(state: &SessionState) -> Option<Arc<Self>> {
        state.config().get_extension::<Self>()
    }

    /// The same for an expression over `schema` that is in no plan.
    pub(crate) fn expression(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        let expr = expr.rewrite(&mut Rewriter::new(self, schema))?.data;
        Ok(self.by_zone(expr, schema)?.data)
    }

    fn call(&self, ty: u32, expr: Expr) -> Expr {
        match self.casts.get(&ty) {
            Some(function) => function.call(vec![expr]),
            None => expr,
        }
    }

    /// A value of type `from` as one of type `to`, if these are types that are put together here.
    fn bring(&self, expr: Expr, from: &DataType, to: &DataType) -> Expr {
        use DataType as D;
        match (from, to) {
            (D::Timestamp(_, None) | D::Date32, D::Timestamp(_, Some(_))) => self.call(oid::TIMESTAMPTZ, expr),
            (D::Date32, D::Timestamp(_, None)) => self.timestamp_of_date.call(vec![expr]),
            (from, D::LargeBinary) if numeric::is_exact_number(from) => proc("numeric_dynamic", expr),
            (D::LargeBinary, D::Float64) => proc("numeric_float8", expr),
            (D::Decimal128(..) | D::Decimal256(..), D::Float64) => {
                match digits(&expr).and_then(|digits| digits.parse::<f64>().ok()) {
                    Some(value) => lit(value),
                    None => self.call(oid::FLOAT8, expr),
                }
            }
            _ => match text(&expr) {
                Some(text) if matches!(to, D::Decimal128(..)) => numeric_literal(text).map_or(expr, lit),
                Some(_) if matches!(to, D::LargeBinary) => proc("numeric_in", expr),
                Some(_) => self.call(arrow_oid(to), expr),
                None => expr,
            },
        }
    }

    /// Brings `exprs` together, if anything has to be done here. Of texts only untyped ones are
    /// touched, and only if `read` says that they take the others' type.
    fn unify(&self, mut exprs: Vec<&mut Expr>, schema: &DFSchema, read: bool) {
        let Some(types) = exprs.iter().map(|expr| expr.get_type(schema).ok()).collect::<Option<Vec<_>>>() else {
            return;
        };
        let given: Vec<&DataType> = exprs
            .iter()
            .zip(&types)
            .filter(|(expr, ty)| text(expr).is_none() && !ty.is_null())
            .map(|(_, ty)| ty)
            .collect();
        let to = together(given.iter().copied());
        // What comes out shows the digits that it has, not those of another value.
        let to = to.or_else(|| (read && scales_differ(given.iter().copied())).then_some(DataType::LargeBinary));
        let literals = if read { number(&given) } else { None };
        for (expr, from) in exprs.iter_mut().zip(&types) {
            let to = if text(expr).is_some() { literals.as_ref() } else { to.as_ref() };
            if let Some(to) = to {
                **expr = self.bring(std::mem::take(*expr), from, to);
            }
        }
    }

    /// An expression whose parts are settled, before DataFusion's own coercion of it.
    fn prepare(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) => {
                let arithmetic = matches!(op, Operator::Plus | Operator::Multiply | Operator::Divide);
                if let Some(function) = numeric_operator(op)
                    && let (Ok(l), Ok(r)) = (left.get_type(schema), right.get_type(schema))
                    && [&l, &r].contains(&&DataType::LargeBinary)
                    && numeric::is_exact_number(&l)
                    && numeric::is_exact_number(&r)
                {
                    // A part of it turned out to have digits of its own.
                    return Ok(function.call(vec![*left, *right]));
                }
                if arithmetic || op == Operator::Minus || is_comparison(op) {
                    let types = (left.get_type(schema), right.get_type(schema));
                    let times = matches!(&types, (Ok(l), Ok(r)) if l.is_temporal() || r.is_temporal());
                    if !(times && arithmetic) {
                        self.unify(vec![left.as_mut(), right.as_mut()], schema, false);
                    }
                }
                Expr::BinaryExpr(BinaryExpr { left, op, right })
            }
            Expr::InList(InList { mut expr, mut list, negated }) => {
                self.unify(std::iter::once(expr.as_mut()).chain(&mut list).collect(), schema, false);
                Expr::InList(InList { expr, list, negated })
            }
            Expr::Case(mut case) => {
                if let Some(operand) = case.expr.as_deref_mut() {
                    let whens = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
                    self.unify(std::iter::once(operand).chain(whens).collect(), schema, false);
                }
                let thens = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
                self.unify(thens.chain(case.else_expr.as_deref_mut()).collect(), schema, true);
                Expr::Case(case)
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args }) => {
                if takes_one_type(func.name()) {
                    self.unify(args.iter_mut().collect(), schema, true);
                }
                Expr::ScalarFunction(ScalarFunction { func, args })
            }
            Expr::WindowFunction(mut window) => {
                static KEYS: LazyLock<Option<numeric::keys::NumericKeys>> =
                    LazyLock::new(numeric::keys::NumericKeys::new);
                if let Some(keys) = KEYS.as_ref() {
                    keys.window(&mut window, schema)?;
                }
                Expr::WindowFunction(window)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let (expr, subquery) = self.beside_rows(*expr, subquery, schema)?;
                Expr::InSubquery(InSubquery::new(Box::new(expr), subquery, negated))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let (expr, subquery) = self.beside_rows(*expr, subquery, schema)?;
                Expr::SetComparison(SetComparison::new(Box::new(expr), subquery, op, quantifier))
            }
            other => other,
        })
    }

    /// A value and the one column of the subquery that it is compared with.
    fn beside_rows(&self, expr: Expr, subquery: Subquery, schema: &DFSchema) -> Result<(Expr, Subquery)> {
        let fields = subquery.subquery.schema().fields();
        let (Ok(left), Some(field), 1) = (expr.get_type(schema), fields.first(), fields.len()) else {
            return Ok((expr, subquery));
        };
        let right = field.data_type().clone();
        let Some(to) = together([&left, &right].into_iter()) else { return Ok((expr, subquery)) };
        let expr = self.bring(expr, &left, &to);
        if right == to {
            return Ok((expr, subquery));
        }
        let plan = self.project(&subquery.subquery, std::slice::from_ref(&Some(to)))?;
        let outer_ref_columns = subquery.outer_ref_columns;
        Ok((expr, Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }))
    }

    /// `input` with columns brought to the types that are given.
    fn project(&self, input: &Arc<LogicalPlan>, to: &[Option<DataType>]) -> Result<LogicalPlan> {
        let columns = input.schema().iter().zip(to).map(|((qualifier, field), to)| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match to {
                Some(to) if to != field.data_type() => {
                    self.bring(column, field.data_type(), to).alias_qualified(qualifier.cloned(), field.name())
                }
                _ => column,
            }
        });
        LogicalPlanBuilder::from(input.as_ref().clone()).project(columns)?.build()
    }

    fn union(&self, union: Union) -> Result<Union> {
        let types = |at: usize| union.inputs.iter().filter_map(move |input| input.schema().fields().get(at));
        let width = union.schema.fields().len();
        let to: Vec<Option<DataType>> =
            (0..width).map(|at| together_shown(types(at).map(|field| field.data_type()))).collect();
        if to.iter().all(Option::is_none) {
            return Ok(union);
        }
        let inputs = union.inputs.iter().map(|input| Ok(Arc::new(self.project(input, &to)?)));
        Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)
    }

    fn join(&self, mut join: Join) -> Join {
        for (left, right) in &mut join.on {
            let (Ok(l), Ok(r)) = (left.get_type(join.left.schema()), right.get_type(join.right.schema())) else {
                continue;
            };
            if let Some(to) = together([&l, &r].into_iter()) {
                *left = self.bring(std::mem::take(left), &l, &to);
                *right = self.bring(std::mem::take(right), &r, &to);
            }
        }
        join
    }

    /// One node whose inputs are settled; DataFusion's own rule with [`Self::prepare`] in it.
    fn node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let schema = schema_of(&plan)?;
        let plan = match plan {
            LogicalPlan::Filter(mut filter) => {
                filter.predicate = filter.predicate.cast_to(&DataType::Boolean, &schema)?;
                LogicalPlan::Filter(filter)
            }
            LogicalPlan::Union(union) => LogicalPlan::Union(self.union(union)?),
            LogicalPlan::Join(join) => LogicalPlan::Join(self.join(join)),
            other => other,
        };
        let mut rewriter = Rewriter::new(self, &schema);
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.rewrite(&mut rewriter)?.update_data(|expr| name.restore(expr)))
        })?
        .map_data(|plan| rewriter.inner.coerce_plan(plan))?
        .map_data(LogicalPlan::recompute_schema)
    }

    /// Casts that go by a zone, or read a text, as calls that go by the session.
    fn by_zone(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        use DataType as D;
        expr.transform_up(|expr| {
            let Expr::Cast(found) = &expr else { return Ok(Transformed::no(expr)) };
            let to = found.field.data_type();
            if !to.is_temporal() {
                return Ok(Transformed::no(expr));
            }
            let Ok(from) = found.expr.get_type(schema) else { return Ok(Transformed::no(expr)) };
            let (ty, gives) = match (&from, to) {
                (D::Timestamp(_, None) | D::Date32, D::Timestamp(_, Some(_))) => (oid::TIMESTAMPTZ, timestamptz()),
                (D::Timestamp(_, Some(_)), D::Timestamp(_, None)) => (oid::TIMESTAMP, timestamp()),
                (D::Timestamp(_, Some(_)), D::Date32) => (oid::DATE, D::Date32),
                (from, D::Timestamp(_, Some(_))) if from.is_string() => (oid::TIMESTAMPTZ, timestamptz()),
                (from, D::Timestamp(_, None)) if from.is_string() => (oid::TIMESTAMP, timestamp()),
                (from, D::Date32) if from.is_string() => (oid::DATE, D::Date32),
                (from, D::Time64(TimeUnit::Microsecond)) if from.is_string() => (oid::TIME, to.clone()),
                _ => return Ok(Transformed::no(expr)),
            };
            let call = self.call(ty, found.expr.as_ref().clone());
            Ok(Transformed::yes(if &gives == to { call } else { cast(call, to.clone()) }))
        })
    }
}

/// The function that an operator of numerics is.
fn numeric_operator(op: Operator) -> Option<Arc<ScalarUDF>> {
    numeric::by_proc_name(match op {
        Operator::Plus => "numeric_add",
        Operator::Minus => "numeric_sub",
        Operator::Multiply => "numeric_mul",
        Operator::Divide => "numeric_div",
        Operator::Modulo => "numeric_mod",
        _ => return None,
    })
}

/// A call of a function of numerics.
fn proc(name: &str, expr: Expr) -> Expr {
    match numeric::by_proc_name(name) {
        Some(function) => function.call(vec![expr]),
        None => expr,
    }
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// What expressions of a node are over.
fn schema_of(plan: &LogicalPlan) -> Result<DFSchema> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    Ok(schema)
}

/// The type as which values of these types are taken together, where that is decided here.
fn together<'a>(types: impl Iterator<Item = &'a DataType>) -> Option<DataType> {
    use DataType as D;
    let (mut zoned, mut local, mut date, mut float, mut exact, mut dynamic) =
        (false, false, false, false, false, false);
    for ty in types {
        match ty {
            D::Timestamp(_, Some(_)) => zoned = true,
            D::Timestamp(_, None) => local = true,
            D::Date32 => date = true,
            D::Float32 | D::Float64 => float = true,
            D::Decimal128(..) | D::Decimal256(..) => exact = true,
            D::LargeBinary => dynamic = true,
            _ => {}
        }
    }
    if dynamic {
        return Some(if float { D::Float64 } else { D::LargeBinary });
    }
    if zoned && (local || date) {
        Some(timestamptz())
    } else if local && date {
        Some(timestamp())
    } else {
        (float && exact).then_some(D::Float64)
    }
}

/// The same of values that come out one by one, and are not only compared.
fn together_shown<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    together(types.clone()).or_else(|| scales_differ(types).then_some(DataType::LargeBinary))
}

/// Whether there are numerics that show different numbers of digits, or numerics and integers.
fn scales_differ<'a>(types: impl Iterator<Item = &'a DataType>) -> bool {
    let (mut first, mut differ, mut decimals) = (None, false, false);
    for ty in types {
        let scale = match ty {
            DataType::Decimal128(_, scale) => {
                decimals = true;
                *scale
            }
            DataType::Int16 | DataType::Int32 | DataType::Int64 => 0,
            DataType::Null => continue,
            _ => return false,
        };
        differ |= *first.get_or_insert(scale) != scale;
    }
    differ && decimals
}

/// As which type an untyped text is read beside values of these types, if they are all numbers or
/// all booleans.
fn number(types: &[&DataType]) -> Option<DataType> {
    let rank = |ty: &DataType| match ty {
        DataType::Int16 => Some(0),
        DataType::Int32 => Some(1),
        DataType::Int64 => Some(2),
        DataType::Decimal128(..) => Some(3),
        DataType::LargeBinary => Some(3),
        DataType::Float32 => Some(4),
        DataType::Float64 => Some(5),
        _ => None,
    };
    if let Some(first) = types.first()
        && types.iter().all(|ty| **ty == DataType::Boolean)
    {
        return Some((*first).clone());
    }
    let ranks = types.iter().map(|ty| rank(ty)).collect::<Option<Vec<_>>>()?;
    if ranks.contains(&3) && ranks.iter().any(|rank| *rank > 3) {
        return Some(DataType::Float64);
    }
    if types.contains(&&DataType::LargeBinary) {
        return Some(DataType::LargeBinary);
    }
    types.iter().zip(ranks).max_by_key(|(_, rank)| *rank).map(|(ty, _)| (*ty).clone())
}

/// Functions whose arguments become values of one type.
pub(crate) fn takes_one_type(function: &str) -> bool {
    matches!(function, "coalesce" | "greatest" | "least" | "nullif" | "make_array")
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// A text without a type of its own: casts have made calls of the others.
pub(crate) fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// The digits of a numeric constant: dividing them by a power of ten would round twice.
fn digits(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Decimal128(Some(value), precision, scale), _) => {
            Some(Decimal128Type::format_decimal(*value, *precision, *scale))
        }
        Expr::Literal(ScalarValue::Decimal256(Some(value), precision, scale), _) => {
            Some(Decimal256Type::format_decimal(*value, *precision, *scale))
        }
        _ => None,
    }
}

/// A number with the digits that are written; `None` if that is not all that the text is.
fn numeric_literal(text: &str) -> Option<ScalarValue> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || all.len() > 38 || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: i128 = all.parse().ok()?;
    let value = if text.starts_with('-') { -value } else { value };
    Some(ScalarValue::Decimal128(Some(value), all.len() as u8, fraction.len() as i8))
}

struct Rewriter<'a> {
    coercion: &'a Coercion,
    schema: &'a DFSchema,
    inner: TypeCoercionRewriter<'a>,
}

impl<'a> Rewriter<'a> {
    fn new(coercion: &'a Coercion, schema: &'a DFSchema) -> Self {
        Self { coercion, schema, inner: TypeCoercionRewriter::new(schema) }
    }

    fn settle(&mut self, expr: Expr) -> Result<Expr> {
        Ok(self.f_up(expr)?.data)
    }
}

impl TreeNodeRewriter for Rewriter<'_> {
    type Node = Expr;

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        if let Expr::Between(Between { expr: value, negated, low, high }) = &expr {
            let types: Result<Vec<_>> = [value, low, high].into_iter().map(|part| part.get_type(self.schema)).collect();
            if types.is_ok_and(|types| together(types.iter()).is_some()) {
                // Each bound is compared by itself.
                let compare =
                    |op, bound: &Expr| Expr::BinaryExpr(BinaryExpr::new(value.clone(), op, Box::new(bound.clone())));
                let (low, high) = (compare(Operator::GtEq, low), compare(Operator::LtEq, high));
                let both = self.settle(low)?.and(self.settle(high)?);
                return Ok(Transformed::yes(if *negated { !both } else { both }));
            }
        }
        let expr = self.coercion.prepare(expr, self.schema)?;
        self.inner.f_up(expr)
    }
}

impl AnalyzerRule for Coercion {
    fn name(&self) -> &str {
        "type_coercion"
    }
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|plan| self.node(plan))?.data)
    }
}

impl AnalyzerRule for ByZone {
    fn name(&self) -> &str {
        "casts_by_zone"
    }
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|plan| {
            let schema = schema_of(&plan)?;
            let names = NamePreserver::new(&plan);
            let rewritten = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(self.0.by_zone(expr, &schema)?.update_data(|expr| name.restore(expr)))
            })?;
            if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
        })?;
        Ok(analyzed.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_meet() {
        use DataType as D;
        let numeric = D::Decimal128(5, 2);
        for (types, wanted) in [
            (vec![timestamptz(), timestamp()], Some(timestamptz())),
            (vec![D::Date32, timestamptz()], Some(timestamptz())),
            (vec![D::Date32, timestamp()], Some(timestamp())),
            (vec![timestamp(), timestamp()], None),
            (vec![D::Float32, numeric.clone()], Some(D::Float64)),
            (vec![D::Int32, numeric.clone(), D::Float64], Some(D::Float64)),
            (vec![D::Int32, numeric], None),
            (vec![D::Float64, D::Utf8View], None),
        ] {
            assert_eq!(together(types.iter()), wanted, "{types:?}");
        }
    }

    #[test]
    fn texts_beside_numbers() {
        use DataType as D;
        let of = |types: &[D]| number(&types.iter().collect::<Vec<_>>());
        assert_eq!(of(&[D::Int32, D::Int64]), Some(D::Int64));
        assert_eq!(of(&[D::Float32, D::Decimal128(5, 2)]), Some(D::Float64));
        assert_eq!(of(&[D::Boolean, D::Boolean]), Some(D::Boolean));
        assert_eq!(of(&[D::Int32, D::Utf8View]), None);
        assert_eq!(of(&[]), None);
        assert_eq!(numeric_literal("-12.50"), Some(ScalarValue::Decimal128(Some(-1250), 4, 2)));
        assert_eq!(numeric_literal(" 7"), Some(ScalarValue::Decimal128(Some(7), 1, 0)));
        assert_eq!(numeric_literal("1e5"), None);
        assert_eq!(numeric_literal("-"), None);
    }

    #[test]
    fn constants_are_rounded_once() {
        let one =
            |text: &str| digits(&lit(numeric_literal(text).expect("number"))).and_then(|text| text.parse::<f64>().ok());
        assert_eq!(one("0.12345678901234567"), Some(0.12345678901234567));
        assert_eq!(one("9007199254740993.5"), Some(9007199254740993.5));
    }
}
