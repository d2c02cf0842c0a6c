//! Queries, select lists and FROM items.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, Ident, LimitClause, Query, Select, SelectItem, TableAlias, TableAliasColumnDef,
    TableFactor, VisitorMut,
};
use resurgam_ast::AstWalkMut;

use super::{call, correlate, last_name, number, take};
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
    table_oids(select);
    for item in &mut select.projection {
        correlate::count_exists(item);
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        if let Expr::Function(function) = expr
            && returns_set(function)
        {
            *expr = call("unnest", vec![take(expr)]);
        }
    }
}

/// `t.tableoid`, where `t` is a system table of this SELECT, as the number it is.
fn table_oids(select: &mut Select) {
    struct Walk(Vec<(String, u32)>);
    impl VisitorMut for Walk {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr
                && let [table, column] = parts.as_slice()
                && column.value.eq_ignore_ascii_case("tableoid")
                && let Some((_, oid)) = self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(&table.value))
            {
                *expr = call("pg_cast_oid", vec![number((*oid).into())]);
            }
            ControlFlow::Continue(())
        }
    }
    let mut known = Vec::new();
    for table in &select.from {
        for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)) {
            if let TableFactor::Table { name, alias, args: None, .. } = factor
                && let Some(system) = crate::pg::catalog::system_relation("pg_catalog", &last_name(name))
            {
                let alias = alias.as_ref().map_or_else(|| last_name(name), |alias| alias.name.value.clone());
                known.push((alias, system.oid));
            }
        }
    }
    if !known.is_empty() {
        let _ = select.walk_mut(&mut Walk(known));
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
