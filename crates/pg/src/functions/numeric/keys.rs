//! Whatever compares bytes goes by keys.
//!
//! [`NumericKeys`] is an analyzer rule for any plan whose types are settled. Dynamic numerics that are equal may show
//! different digits, so it puts `numeric_key(…)` around them where operators look at bytes:
//! - comparisons, IN, BETWEEN, CASE with an operand (also `numeric_eq(…)` and its kin become comparisons of keys,
//!   which joins by hashing understand);
//! - ORDER BY, PARTITION BY, the columns that a join goes by, IN (subquery);
//! - GROUP BY and DISTINCT: the group is made by keys, and what is shown is the first value of each group, as
//!   PostgreSQL shows it;
//! - `count(DISTINCT x)`; `min` and `max` become `numeric_min` and `numeric_max`.
//!
//! Intervals likewise go by `interval_key(…)`: '1 month' equals '30 days'; documents, arrays, `character` with its
//! blanks, and `citext` by `order_key(…)`.
//!
//! Invariant: what it has put right it leaves alone when it comes again.
//!
//! Refused with 0A000: recursive queries with UNION (not ALL) over such columns, and window frames
//! RANGE with an offset.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, Spans};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Between, GroupingSet, InList, InSubquery, ScalarFunction, Sort,
    WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Case, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    ScalarUDF, Subquery, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

use super::column::DYNAMIC;
use super::{KEY, aggregate_by_name, by_proc_name};
use crate::citext::is_citext;
use crate::errors::to_datafusion;
use crate::wire::SqlError;

/// The rule.
#[derive(Debug)]
pub struct NumericKeys {
    key: Arc<ScalarUDF>,
    interval_key: Arc<ScalarUDF>,
    order_key: Arc<ScalarUDF>,
}

impl NumericKeys {
    /// The rule; `None` if its function is missing, which it is not.
    pub fn new() -> Option<Self> {
        Some(Self {
            key: by_proc_name(KEY)?,
            interval_key: Arc::new(crate::functions::interval_key()),
            order_key: Arc::new(crate::functions::order_key()),
        })
    }

    /// The key of an expression that has a dynamic numeric; any other as it is.
    pub fn of(&self, expr: Expr, schema: &dyn ExprSchema) -> Expr {
        if is_dynamic(&expr, schema) { self.key_of(expr, schema) } else { expr }
    }

    /// The keys of values that are compared, if one of them is dynamic; else nothing.
    fn keys(&self, exprs: Vec<&mut Expr>, schema: &dyn ExprSchema) -> bool {
        if !exprs.iter().any(|expr| is_dynamic(expr, schema)) {
            return false;
        }
        let function = if exprs.iter().any(|expr| is_interval(expr, schema)) {
            &self.interval_key
        } else if exprs.iter().any(|expr| is_by_order_key(expr, schema)) {
            &self.order_key
        } else {
            &self.key
        };
        for expr in exprs {
            *expr = function.call(vec![std::mem::take(expr)]);
        }
        true
    }

    fn key_of(&self, expr: Expr, schema: &dyn ExprSchema) -> Expr {
        if is_interval(&expr, schema) {
            self.interval_key.call(vec![expr])
        } else if is_by_order_key(&expr, schema) {
            self.order_key.call(vec![expr])
        } else {
            self.key.call(vec![expr])
        }
    }

    /// The comparison of keys of two values.
    pub fn compare(&self, left: Expr, op: Operator, right: Expr) -> Expr {
        let key = |expr: Expr| Box::new(self.key.call(vec![expr]));
        Expr::BinaryExpr(BinaryExpr::new(key(left), op, key(right)))
    }

    /// An expression over `schema` that is in no plan.
    ///
    /// # Errors
    /// 0A000.
    pub fn keyed(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        Ok(expr.transform_up(|expr| self.expression(expr, schema))?.data)
    }

    /// An expression over `schema` whose parts are right already.
    fn expression(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        refuse_lists(&expr, schema)?;
        refuse_records(&expr, schema)?;
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
                let changed = self.keys(vec![left.as_mut(), right.as_mut()], schema);
                let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::InList(InList { mut expr, mut list, negated }) => {
                let changed = self.keys(std::iter::once(expr.as_mut()).chain(&mut list).collect(), schema);
                let expr = Expr::InList(InList { expr, list, negated });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
                let changed = self.keys(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema);
                let expr = Expr::Between(Between { expr, negated, low, high });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::Case(Case { expr: Some(mut operand), mut when_then_expr, else_expr }) => {
                let whens = when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
                let changed = self.keys(std::iter::once(operand.as_mut()).chain(whens).collect(), schema);
                let expr = Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args })
                if args.len() == 2 && comparison_of(func.name()).is_some() =>
            {
                match (comparison_of(func.name()), args.pop(), args.pop()) {
                    (Some(op), Some(right), Some(left)) => Transformed::yes(self.compare(left, op, right)),
                    (_, right, left) => {
                        let args = left.into_iter().chain(right).collect();
                        Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))
                    }
                }
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if matches!(func.name(), "greatest" | "least") && args.iter().any(|arg| is_interval(arg, schema)) =>
            {
                let own = crate::functions::interval_extreme(func.name() == "greatest");
                Transformed::yes(own.call(args))
            }
            Expr::ScalarFunction(ScalarFunction { func, args })
                if matches!(func.name(), "greatest" | "least")
                    && args.iter().any(|arg| is_by_order_key(arg, schema)) =>
            {
                let own = crate::functions::order_extreme(func.name() == "greatest");
                Transformed::yes(own.call(args))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let rows = subquery.subquery.schema().fields();
                let dynamic = rows.len() == 1 && (needs_key(rows[0].data_type()) || is_dynamic(&expr, schema));
                if !dynamic {
                    return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })));
                }
                let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
                let key = self.key_of(Expr::Column(Column::from((qualifier, field))), subquery.subquery.schema());
                let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).project(vec![key])?.build()?;
                let subquery = Subquery {
                    subquery: Arc::new(plan),
                    outer_ref_columns: subquery.outer_ref_columns,
                    spans: Spans::new(),
                };
                let expr = Box::new(self.key_of(*expr, schema));
                Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated }))
            }
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                let dynamic = params.args.first().is_some_and(|arg| is_dynamic(arg, schema));
                let mut changed = self.sorts(&mut params.order_by, schema);
                let mut func = func;
                let own_key = |arg: &Expr| is_interval(arg, schema) || is_by_order_key(arg, schema);
                if dynamic && params.args.first().is_some_and(own_key) {
                    let list = params.args.first().is_some_and(|arg| is_list(arg, schema));
                    if matches!(func.name(), "min" | "max") {
                        let arg = params.args[0].clone();
                        params.order_by = vec![Sort::new(self.key_of(arg, schema), func.name() == "min", false)];
                        params.distinct = false;
                        func = first_value_udaf();
                        changed = true;
                    } else if params.distinct && (!list || func.name() == "count") {
                        changed |= self.distinct_by_key(func.name(), &mut params, schema)?;
                    }
                } else if dynamic {
                    if let Some(own) = extreme(func.name()) {
                        func = own;
                        changed = true;
                    }
                    if params.distinct {
                        changed |= self.distinct(func.name(), &mut params)?;
                    }
                }
                let expr = Expr::AggregateFunction(AggregateFunction { func, params });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::Negative(value) if matches!(value.get_type(schema), Ok(DYNAMIC)) => {
                match by_proc_name("numeric_uminus") {
                    Some(negate) => Transformed::yes(negate.call(vec![*value])),
                    None => Transformed::no(Expr::Negative(value)),
                }
            }
            Expr::Cast(cast) => {
                let from = cast.expr.get_type(schema).unwrap_or(DataType::Null);
                match cast_call(&from, cast.field.data_type(), cast.expr.as_ref()) {
                    Some(call) => Transformed::yes(call),
                    None => Transformed::no(Expr::Cast(cast)),
                }
            }
            Expr::WindowFunction(mut window) => {
                let changed = self.window(&mut window, schema)?;
                let expr = Expr::WindowFunction(window);
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            other => Transformed::no(other),
        })
    }

    /// DISTINCT of an aggregate's argument.
    fn distinct(&self, function: &str, params: &mut AggregateFunctionParams) -> Result<bool> {
        match function {
            "count" => {
                for arg in &mut params.args {
                    *arg = self.key.call(vec![std::mem::take(arg)]);
                }
                Ok(true)
            }
            // These tell by keys what is there twice; a filter keeps the optimizer from doing it by bytes.
            "sum" | "avg" | "var_pop" | "var_samp" | "variance" | "stddev_pop" | "stddev_samp" | "stddev" | "var" => {
                let changed = params.filter.is_none();
                params.filter.get_or_insert_with(|| Box::new(lit(true)));
                Ok(changed)
            }
            "numeric_min" | "numeric_max" => {
                params.distinct = false;
                Ok(true)
            }
            _ => Err(to_datafusion(SqlError::unsupported(format!(
                "{function}(DISTINCT …) of numerics with digits of their own is not supported"
            )))),
        }
    }

    fn distinct_by_key(
        &self,
        function: &str,
        params: &mut AggregateFunctionParams,
        schema: &dyn ExprSchema,
    ) -> Result<bool> {
        if function != "count" {
            let message = format!("{function}(DISTINCT …) of intervals, documents and arrays is not supported");
            return Err(to_datafusion(SqlError::unsupported(message)));
        }
        for arg in &mut params.args {
            *arg = self.key_of(std::mem::take(arg), schema);
        }
        Ok(true)
    }

    fn sorts(&self, sorts: &mut [Sort], schema: &dyn ExprSchema) -> bool {
        let mut changed = false;
        for sort in sorts {
            changed |= self.keys(vec![&mut sort.expr], schema);
        }
        changed
    }

    /// A window function over `schema`, as the rule leaves it: before DataFusion's own coercion, which knows no RANGE
    /// over bytes.
    ///
    /// # Errors
    /// 0A000.
    pub fn window(&self, window: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
        let params = &mut window.params;
        let mut changed = false;
        if params.args.first().is_some_and(|arg| is_dynamic(arg, schema))
            && let Some(own) = extreme(window.fun.name())
        {
            if is_interval(&params.args[0], schema) || is_by_order_key(&params.args[0], schema) {
                let message = "min and max of intervals and arrays over a window are not supported";
                return Err(to_datafusion(SqlError::unsupported(message)));
            }
            window.fun = WindowFunctionDefinition::AggregateUDF(own);
            changed = true;
        }
        for part in &mut params.partition_by {
            changed |= self.keys(vec![part], schema);
        }
        if self.sorts(&mut params.order_by, schema) {
            changed = true;
            let frame = &params.window_frame;
            let offset = |bound: &WindowFrameBound| matches!(bound, WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) if !value.is_null());
            if frame.units == WindowFrameUnits::Range && (offset(&frame.start_bound) || offset(&frame.end_bound)) {
                return Err(to_datafusion(SqlError::unsupported(
                    "RANGE with an offset over numerics with digits of their own is not supported",
                )));
            }
            // Without offsets both mean the same: up to the peers of the row.
            if frame.units == WindowFrameUnits::Range {
                params.window_frame.units = WindowFrameUnits::Groups;
            }
        }
        Ok(changed)
    }

    /// Groups by keys, with the first value of each group where a value is shown.
    fn aggregate(&self, aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
        let input = Arc::clone(&aggregate.input);
        let schema = input.schema();
        let shown: Vec<Expr> = match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(set)] => set.distinct_expr().into_iter().cloned().collect(),
            plain => plain.to_vec(),
        };
        if shown.iter().any(|expr| expr.get_type(schema).is_ok_and(|ty| in_record(&ty))) {
            return Err(to_datafusion(SqlError::unsupported(
                "groups of records with numerics, intervals, documents or arrays are not supported",
            )));
        }
        if !shown.iter().any(|expr| is_dynamic(expr, schema)) {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let keyed = |exprs: &[Expr]| -> Vec<Expr> {
            exprs.iter().map(|expr| self.of(expr.clone().unalias(), schema)).collect()
        };
        let group_expr = match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(GroupingSet::Rollup(exprs))] => {
                vec![Expr::GroupingSet(GroupingSet::Rollup(keyed(exprs)))]
            }
            [Expr::GroupingSet(GroupingSet::Cube(exprs))] => vec![Expr::GroupingSet(GroupingSet::Cube(keyed(exprs)))],
            [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => {
                let sets = sets.iter().map(|set| keyed(set)).collect();
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))]
            }
            plain => plain.iter().map(|expr| self.of(expr.clone(), schema)).collect(),
        };
        let firsts: Vec<Option<Expr>> = shown
            .iter()
            .enumerate()
            .map(|(at, expr)| {
                is_dynamic(expr, schema).then(|| {
                    let first = AggregateFunction::new_udf(
                        first_value_udaf(),
                        vec![expr.clone().unalias()],
                        false,
                        None,
                        vec![],
                        None,
                    );
                    Expr::AggregateFunction(first).alias(format!("__numeric_{at}"))
                })
            })
            .collect();
        let aggr_expr = aggregate.aggr_expr.iter().cloned().chain(firsts.iter().flatten().cloned()).collect();
        let made = Aggregate::try_new(input, group_expr, aggr_expr)?;
        let column = |at: usize| Expr::Column(Column::from(made.schema.qualified_field(at)));
        let grouped = made.schema.fields().len() - made.aggr_expr.len();
        // Of grouping sets there is one column more, that of their number.
        let extra = grouped - shown.len();
        let mut first_at = grouped + aggregate.aggr_expr.len();
        let mut exprs = Vec::with_capacity(aggregate.schema.fields().len());
        for (at, (qualifier, field)) in aggregate.schema.iter().enumerate() {
            let expr = if at < shown.len() && firsts[at].is_some() {
                let first = column(first_at);
                first_at += 1;
                match extra {
                    0 => first,
                    // In sets that it is not in, it is null.
                    _ => when(
                        column(at).is_null(),
                        Expr::Literal(datafusion::common::ScalarValue::try_from(field.data_type())?, None),
                    )
                    .otherwise(first)?,
                }
            } else {
                column(at)
            };
            exprs.push(expr.alias_qualified(qualifier.cloned(), field.name()));
        }
        let projection = Projection::try_new(exprs, Arc::new(LogicalPlan::Aggregate(made)))?;
        Ok(Transformed::yes(LogicalPlan::Projection(projection)))
    }

    fn node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
        }
        let names = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| self.expression(expr, &schema))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        plan.transform_data(|plan| {
            Ok(match plan {
                LogicalPlan::Sort(mut sort) => {
                    let changed = self.sorts(&mut sort.expr, sort.input.schema().as_ref());
                    let plan = LogicalPlan::Sort(sort);
                    if changed { Transformed::yes(plan) } else { Transformed::no(plan) }
                }
                LogicalPlan::Join(mut join) => {
                    let mut changed = false;
                    for (left, right) in &mut join.on {
                        if is_dynamic(left, join.left.schema()) || is_dynamic(right, join.right.schema()) {
                            *left = self.key_of(std::mem::take(left), join.left.schema());
                            *right = self.key_of(std::mem::take(right), join.right.schema());
                            changed = true;
                        }
                    }
                    let plan = LogicalPlan::Join(join);
                    if changed { Transformed::yes(plan) } else { Transformed::no(plan) }
                }
                LogicalPlan::Distinct(Distinct::All(input)) if has_dynamic(input.schema()) => {
                    let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
                    let aggregate = Aggregate::try_new(input, columns, vec![])?;
                    return self.aggregate(aggregate);
                }
                LogicalPlan::Distinct(Distinct::On(mut on)) => {
                    let schema = Arc::clone(on.input.schema());
                    let mut changed = false;
                    for expr in &mut on.on_expr {
                        changed |= self.keys(vec![expr], schema.as_ref());
                    }
                    if let Some(sorts) = &mut on.sort_expr {
                        changed |= self.sorts(sorts, schema.as_ref());
                    }
                    let plan = LogicalPlan::Distinct(Distinct::On(on));
                    if changed { Transformed::yes(plan) } else { Transformed::no(plan) }
                }
                LogicalPlan::RecursiveQuery(query)
                    if query.is_distinct
                        && query.static_term.schema().fields().iter().any(|field| {
                            differs_in_bytes(field.data_type()) || within(field.data_type())
                        }) =>
                {
                    return Err(to_datafusion(SqlError::unsupported(
                        "a recursive UNION of numerics with digits of their own, intervals or documents is not supported",
                    )));
                }
                LogicalPlan::Aggregate(aggregate) => return self.aggregate(aggregate),
                other => Transformed::no(other),
            })
        })
    }
}

/// The call that a cast from or to a dynamic numeric is; Arrow has no such casts.
fn cast_call(from: &DataType, to: &DataType, value: &Expr) -> Option<Expr> {
    use DataType as D;
    let call = |name: &str| Some(by_proc_name(name)?.call(vec![value.clone()]));
    match (from, to) {
        (from, to) if from == to => None,
        (D::LargeBinary, D::Decimal128(precision, scale)) => {
            let limits = resurgam_numeric::Typmod::new((*precision).into(), (*scale).into()).ok()?;
            Some(by_proc_name("numeric_fixed")?.call(vec![value.clone(), lit(limits.to_pg())]))
        }
        (D::LargeBinary, D::Int16) => call("numeric_int2"),
        (D::LargeBinary, D::Int32) => call("numeric_int4"),
        (D::LargeBinary, D::Int64) => call("numeric_int8"),
        (D::LargeBinary, D::Float32) => call("numeric_float4"),
        (D::LargeBinary, D::Float64) => call("numeric_float8"),
        (D::LargeBinary, D::Utf8View) => call("numeric_out"),
        (from, D::LargeBinary) if from.is_numeric() => call("numeric_dynamic"),
        (D::Utf8View, D::LargeBinary) => call("numeric_in"),
        _ => None,
    }
}

/// Whether there are dynamic numerics within values of that type: there is no key of such a value.
fn within(ty: &DataType) -> bool {
    let has = |ty: &DataType| differs_in_bytes(ty) || within(ty);
    match ty {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => has(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has(field.data_type())),
        _ => false,
    }
}

/// Comparisons of, and searches in, lists of dynamic numerics are refused.
fn refuse_lists(expr: &Expr, schema: &dyn ExprSchema) -> Result<()> {
    const SEARCHES: [&str; 15] = [
        "array_has",
        "array_has_all",
        "array_has_any",
        "array_position",
        "array_positions",
        "array_remove",
        "array_remove_n",
        "array_remove_all",
        "array_replace",
        "array_except",
        "array_intersect",
        "array_union",
        "array_distinct",
        "array_sort",
        "array_max",
    ];
    let nested = |expr: &Expr| expr.get_type(schema).is_ok_and(|ty| within(&ty));
    let refused = match expr {
        Expr::ScalarFunction(call) => SEARCHES.contains(&call.name()) && call.args.iter().any(nested),
        _ => false,
    };
    match refused {
        true => Err(to_datafusion(SqlError::unsupported(
            "searching in arrays of numerics with digits of their own, intervals and documents is not supported",
        ))),
        false => Ok(()),
    }
}

/// Comparisons of records as values are refused: a NULL within them makes the result unknown, which Arrow does not know.
fn refuse_records(expr: &Expr, schema: &dyn ExprSchema) -> Result<()> {
    let record = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Struct(_)));
    let refused = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => is_comparison(*op) && (record(left) || record(right)),
        Expr::InList(list) => record(&list.expr),
        _ => false,
    };
    match refused {
        true => Err(to_datafusion(SqlError::unsupported("comparisons of records are not supported"))),
        false => Ok(()),
    }
}

fn is_dynamic(expr: &Expr, schema: &dyn ExprSchema) -> bool {
    expr.get_type(schema).is_ok_and(|ty| needs_key(&ty))
}

/// Whether equal values of a type may differ in their bytes.
fn needs_key(ty: &DataType) -> bool {
    differs_in_bytes(ty) || matches!(ty, DataType::List(_))
}

/// The same of values that are no arrays.
fn differs_in_bytes(ty: &DataType) -> bool {
    ty == &DYNAMIC
        || ty == &crate::types::JSONB
        || ty == &crate::types::PADDED
        || is_citext(ty)
        || matches!(ty, DataType::Interval(_))
}

/// Whether there are values within records that would need keys.
fn in_record(ty: &DataType) -> bool {
    match ty {
        DataType::Struct(fields) => {
            fields.iter().any(|field| needs_key(field.data_type()) || in_record(field.data_type()))
        }
        DataType::List(item) => in_record(item.data_type()),
        _ => false,
    }
}

fn is_by_order_key(expr: &Expr, schema: &dyn ExprSchema) -> bool {
    let keyed = |ty: &DataType| ty == &crate::types::JSONB || ty == &crate::types::PADDED || is_citext(ty);
    expr.get_type(schema).is_ok_and(|ty| keyed(&ty) || matches!(ty, DataType::List(_)))
}

fn is_list(expr: &Expr, schema: &dyn ExprSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::List(_)))
}

fn is_interval(expr: &Expr, schema: &dyn ExprSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_)))
}

fn has_dynamic(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| needs_key(field.data_type()))
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

fn comparison_of(function: &str) -> Option<Operator> {
    Some(match function {
        "numeric_eq" => Operator::Eq,
        "numeric_ne" => Operator::NotEq,
        "numeric_lt" => Operator::Lt,
        "numeric_le" => Operator::LtEq,
        "numeric_gt" => Operator::Gt,
        "numeric_ge" => Operator::GtEq,
        _ => return None,
    })
}

/// What stands for `min` and `max` of dynamic numerics.
fn extreme(function: &str) -> Option<Arc<datafusion::logical_expr::AggregateUDF>> {
    matches!(function, "min" | "max").then(|| aggregate_by_name(function)).flatten()
}

impl AnalyzerRule for NumericKeys {
    fn name(&self) -> &str {
        "numeric_keys"
    }
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|plan| {
            let changed = self.node(plan)?;
            if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
        })?;
        Ok(analyzed.data)
    }
}
