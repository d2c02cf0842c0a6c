//! Queries, select lists and FROM items.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, Ident, LimitClause, Query, Select, SelectItem, TableAlias,
    TableAliasColumnDef, TableFactor,
};

use super::{call, last_name, take};
use crate::wire::SqlError;

/// Before the parts of a query: `FETCH FIRST` to `LIMIT`.
pub(super) fn before(query: &mut Query) -> Result<(), SqlError> {
    let Some(fetch) = &query.fetch else { return Ok(()) };
    if fetch.with_ties || fetch.percent {
        return Err(SqlError::unsupported("FETCH FIRST … WITH TIES is not supported"));
    }
    let quantity = fetch.quantity.clone().unwrap_or_else(|| super::number(1));
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(quantity), offset: None, limit_by: vec![] });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(quantity),
        Some(_) => return Err(SqlError::syntax("multiple LIMIT clauses not allowed")),
    }
    query.fetch = None;
    Ok(())
}

/// Functions that return a set, which a select list has to unnest.
fn returns_set(function: &Function) -> bool {
    matches!(last_name(&function.name).as_str(), "generate_series" | "generate_subscripts" | "regexp_split_to_table")
        && matches!(function.args, FunctionArguments::List(_))
}

/// After the parts of a SELECT: functions that return sets.
pub(super) fn select(select: &mut Select) {
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        if let Expr::Function(function) = expr
            && returns_set(function)
        {
            *expr = call("unnest", vec![take(expr)]);
        }
    }
}

/// After the parts of a FROM item: a function's schema goes, and its column gets the name that
/// PostgreSQL gives it: the alias, or else the function's name.
pub(super) fn factor(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: Some(_), .. } = factor else {
        if let TableFactor::Function { name, alias, .. } = factor {
            strip(name);
            set_column(&last_name(name), alias);
        } else if let TableFactor::UNNEST { alias: Some(alias), .. } = factor
            && alias.columns.is_empty()
        {
            alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
        }
        return;
    };
    strip(name);
    let function = last_name(name);
    set_column(&function, alias);
}

fn strip(name: &mut datafusion::sql::sqlparser::ast::ObjectName) {
    if name.0.len() == 2
        && let Some(schema) = name.0[0].as_ident()
        && schema.value.eq_ignore_ascii_case("pg_catalog")
    {
        name.0.remove(0);
    }
}

fn set_column(function: &str, alias: &mut Option<TableAlias>) {
    // functions of one column
    if !matches!(
        function,
        "generate_series" | "unnest" | "generate_subscripts" | "regexp_split_to_table" | "current_schemas"
    ) {
        return;
    }
    match alias {
        Some(alias) if alias.columns.is_empty() => {
            alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
        }
        Some(_) => {}
        None => {
            let name = Ident::new(function);
            *alias = Some(TableAlias {
                explicit: true,
                name: name.clone(),
                columns: vec![TableAliasColumnDef { name, data_type: None }],
                at: None,
            });
        }
    }
}
