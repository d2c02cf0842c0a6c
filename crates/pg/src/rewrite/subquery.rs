//! Subqueries as values.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, OrderByExpr, OrderByKind, Query,
    Select, SelectItem, SetExpr, TableFactor, Value, Visitor,
};
use resurgam_ast::AstWalk;

use super::{bare, call, call_function, last_name, take};
use crate::wire::SqlError;

/// psql asks for the triggers of a table that is a partition; there is none.
pub(super) fn of_partitions(expr: &mut Expr) {
    struct Calls(bool);
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.0 |= matches!(expr, Expr::Function(_));
            ControlFlow::Continue(())
        }
    }
    let Expr::Subquery(query) = expr else { return };
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let of_ancestors = select.from.iter().any(|table| match &table.relation {
        TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
            last_name(name) == "pg_partition_ancestors"
        }
        _ => false,
    });
    // An aggregate would have a value without rows.
    let mut calls = Calls(false);
    let _ = select.projection.walk(&mut calls);
    if of_ancestors && !calls.0 {
        *expr = Expr::Value(Value::Null.into());
    }
}

/// Aggregates that a subquery may have in its select list.
const AGGREGATES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "array_agg",
    "string_agg",
    "bool_and",
    "bool_or",
    "every",
    "bit_and",
    "bit_or",
    "bit_xor",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "variance",
    "var_pop",
    "var_samp",
    "var",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "median",
    "first_value",
    "last_value",
    "nth_value",
    "percentile_cont",
    "percentile_disc",
    "mode",
    "any_value",
    "json_agg",
    "jsonb_agg",
    "approx_distinct",
    "approx_median",
    "grouping",
    "pg_single",
];

/// Whether an expression calls an aggregate or a window function, subqueries not counted.
fn aggregates(expr: &Expr) -> bool {
    struct Find {
        depth: usize,
    }
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if self.depth == 0
                && let Expr::Function(function) = expr
                && (function.over.is_some() || AGGREGATES.contains(&last_name(&function.name).as_str()))
            {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    expr.walk(&mut Find { depth: 0 }).is_break()
}

fn no_groups(group_by: &GroupByExpr) -> bool {
    matches!(group_by, GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty())
}

/// A plain SELECT without grouping, LIMIT, DISTINCT or set operations.
pub(super) fn plain_select(query: &mut Query) -> Option<&mut Select> {
    if query.with.is_some() || query.limit_clause.is_some() || query.fetch.is_some() || !query.locks.is_empty() {
        return None;
    }
    match query.body.as_mut() {
        SetExpr::Select(select)
            if select.distinct.is_none()
                && select.top.is_none()
                && select.having.is_none()
                && select.qualify.is_none()
                && no_groups(&select.group_by) =>
        {
            Some(select)
        }
        _ => None,
    }
}

/// The only item of a select list. It gets its column's name as an alias, which the helper
/// function around it would otherwise change.
fn only_item(select: &mut Select) -> Option<&mut Expr> {
    if let [item @ SelectItem::UnnamedExpr(_)] = select.projection.as_mut_slice()
        && let SelectItem::UnnamedExpr(expr) = item
        && let Some(alias) = match &*expr {
            Expr::Identifier(name) => Some(name.clone()),
            Expr::CompoundIdentifier(parts) => parts.last().cloned(),
            _ => None,
        }
    {
        *item = SelectItem::ExprWithAlias { expr: take(expr), alias };
    }
    match select.projection.as_mut_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => Some(expr),
        _ => None,
    }
}

/// A scalar subquery that may find several rows gets an aggregate that refuses them:
/// DataFusion plans correlated ones only with an aggregate.
pub(super) fn single(query: &mut Query) {
    let Some(select) = plain_select(query) else { return };
    if select.from.is_empty() {
        return;
    }
    let Some(expr) = only_item(select) else { return };
    if aggregates(expr) || matches!(expr, Expr::Function(f) if last_name(&f.name) == "unnest") {
        return;
    }
    *expr = call("pg_single", vec![take(expr)]);
    query.order_by = None;
}

/// The number of rows of a subquery, as an expression; `None` if its rows cannot just be counted.
pub(super) fn counted(query: &mut Query) -> Option<Expr> {
    let mut query = query.clone();
    query.order_by = None;
    let select = plain_select(&mut query)?;
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && aggregates(expr)
        {
            return None;
        }
    }
    let mut function = call_function("count", vec![]);
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = vec![datafusion::sql::sqlparser::ast::FunctionArg::Unnamed(
            datafusion::sql::sqlparser::ast::FunctionArgExpr::Wildcard,
        )];
    }
    select.projection = vec![SelectItem::ExprWithAlias {
        expr: Expr::Function(function),
        alias: datafusion::sql::sqlparser::ast::Ident::new("count"),
    }];
    Some(Expr::Subquery(Box::new(query)))
}

/// The argument of `unnest(…)` in FROM, if `query` selects nothing but its elements.
fn unnested(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let ([table], None, [item]) = (select.from.as_slice(), &select.selection, select.projection.as_slice()) else {
        return None;
    };
    if !table.joins.is_empty() || select.distinct.is_some() || query.limit_clause.is_some() {
        return None;
    }
    let (SelectItem::UnnamedExpr(Expr::Identifier(name))
    | SelectItem::ExprWithAlias { expr: Expr::Identifier(name), .. }) = item
    else {
        return None;
    };
    let (argument, alias) = match &table.relation {
        TableFactor::Table { name, alias: Some(alias), args: Some(args), .. } if last_name(name) == "unnest" => {
            match args.args.as_slice() {
                [
                    datafusion::sql::sqlparser::ast::FunctionArg::Unnamed(
                        datafusion::sql::sqlparser::ast::FunctionArgExpr::Expr(argument),
                    ),
                ] => (argument, alias),
                _ => return None,
            }
        }
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } => match array_exprs.as_slice() {
            [argument] => (argument, alias),
            _ => return None,
        },
        _ => return None,
    };
    let column = alias.columns.first().map_or(&alias.name, |column| &column.name);
    (column.value.eq_ignore_ascii_case(&name.value)).then(|| argument.clone())
}

/// Whether a condition asks for roles of a row security policy. There are no policies, so what
/// such a subquery gives is never seen; and it is correlated through `ANY`, which has no join.
fn asks_for_policy_roles(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    select.selection.as_ref().is_some_and(|condition| {
        matches!(bare(condition), Expr::AnyOp { right, .. } if right.to_string().trim_matches(['(', ')']).ends_with("polroles"))
    })
}

/// `ARRAY(SELECT x …)` as a subquery with `array_agg`; `None` if it cannot be.
pub(super) fn array_agg(query: &mut Query) -> Result<Option<Expr>, SqlError> {
    if let Some(array) = unnested(query) {
        return Ok(Some(array));
    }
    if asks_for_policy_roles(query) {
        return Ok(Some(call("pg_cast__text", vec![Expr::Value(Value::Null.into())])));
    }
    let order = match query.order_by.take() {
        None => vec![],
        Some(order) => match order.kind {
            OrderByKind::Expressions(list) => list,
            OrderByKind::All(_) => return Err(SqlError::unsupported("ORDER BY ALL is not supported")),
        },
    };
    let distinct = match query.body.as_mut() {
        SetExpr::Select(select) => matches!(select.distinct.take(), Some(Distinct::Distinct)),
        _ => false,
    };
    let unsupported = || SqlError::unsupported("ARRAY of this kind of subquery is not supported");
    let Some(select) = plain_select(query) else { return Err(unsupported()) };
    let Some(expr) = only_item(select) else {
        return Err(SqlError::syntax("subquery must return only one column"));
    };
    if aggregates(expr) {
        return Err(unsupported());
    }
    let value = take(expr);
    let order: Vec<OrderByExpr> = order
        .into_iter()
        .map(|mut by| {
            if let Expr::Value(number) = &by.expr
                && matches!(&number.value, Value::Number(text, _) if text == "1")
            {
                by.expr = value.clone();
            }
            by
        })
        .collect();
    let mut function: Function = call_function("array_agg", vec![value]);
    if let FunctionArguments::List(list) = &mut function.args {
        if distinct {
            list.duplicate_treatment = Some(datafusion::sql::sqlparser::ast::DuplicateTreatment::Distinct);
        }
        if !order.is_empty() {
            list.clauses.push(FunctionArgumentClause::OrderBy(order));
        }
    }
    *expr = Expr::Function(function);
    let subquery = Expr::Subquery(Box::new(query.clone()));
    Ok(Some(call("pg_array_or_empty", vec![subquery])))
}

/// `array(select 'toast.' || x from unnest(tc.reloptions) x)`, as psql's `\d+` has it, after its
/// own rewriting.
pub(super) fn is_option_array(expr: &Expr) -> bool {
    let Expr::Function(function) = bare(expr) else { return false };
    if last_name(&function.name) != "pg_array_or_empty" {
        return false;
    }
    let FunctionArguments::List(list) = &function.args else { return false };
    let Some(datafusion::sql::sqlparser::ast::FunctionArg::Unnamed(
        datafusion::sql::sqlparser::ast::FunctionArgExpr::Expr(Expr::Subquery(query)),
    )) = list.args.first()
    else {
        return false;
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [table] = select.from.as_slice() else { return false };
    let text = match &table.relation {
        TableFactor::Table { name, args: Some(args), .. } if last_name(name) == "unnest" => {
            args.args.iter().map(ToString::to_string).collect::<String>()
        }
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().map(ToString::to_string).collect::<String>(),
        TableFactor::Function { name, args, .. } if last_name(name) == "unnest" => {
            args.iter().map(ToString::to_string).collect::<String>()
        }
        _ => return false,
    };
    text.ends_with(".reloptions")
}
