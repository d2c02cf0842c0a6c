//! Names of result columns as PostgreSQL chooses them.
//!
//! DataFusion names an unnamed column after its whole text and refuses two columns of one
//! name in a projection. Here every unnamed column gets PostgreSQL's name as an alias; a
//! name that occurs again gets [`MARK`] and a number behind it, which [`shown`] takes off.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Query, Select, SelectItem, SetExpr, TrimWhereField, VisitorMut,
};
use resurgam_ast::AstWalkMut;

/// Between a repeated name and its number; cannot occur in an identifier that a user writes by hand.
pub const MARK: char = '\u{1}';

/// Cuts the number off a repeated name.
pub fn shown(name: &mut String) {
    if let Some(at) = name.find(MARK) {
        name.truncate(at);
    }
}

/// Gives the columns of every SELECT in `query` their names.
pub fn name_columns(query: &mut Box<Query>) {
    struct Walk;
    impl VisitorMut for Walk {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            body(&mut query.body);
            ControlFlow::Continue(())
        }
    }
    let _ = query.walk_mut(&mut Walk);
}

fn body(expr: &mut SetExpr) {
    match expr {
        SetExpr::Select(select) => name_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            body(left);
            body(right);
        }
        _ => {}
    }
}

/// Names the columns of one select list.
pub fn name_select(select: &mut Select) {
    name_items(&mut select.projection);
}

/// Names the items of a select list.
pub fn name_items(items: &mut [SelectItem]) {
    let mut used: HashSet<String> = HashSet::new();
    for item in items {
        let (name, expr) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let name = column_name(expr).unwrap_or_else(|| "?column?".to_owned());
                if plain && used.insert(name.clone()) {
                    continue;
                }
                (name, expr.clone())
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = folded(alias);
                if used.insert(name.clone()) {
                    continue;
                }
                (name, expr.clone())
            }
            _ => continue,
        };
        let mut unique = name.clone();
        let mut n = 1;
        while !used.insert(unique.clone()) && n < 10_000 {
            n += 1;
            unique = format!("{name}{MARK}{n}");
        }
        if n == 1 {
            used.insert(name);
        }
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', unique) };
    }
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// PostgreSQL's `FigureColname`; `None` for what it calls `?column?`.
pub fn column_name(expr: &Expr) -> Option<String> {
    column_name_with(expr, &mut |_| None)
}

/// The same; `subquery` knows the name of a subquery's first column where its text does not say it.
pub fn column_name_with(expr: &Expr, subquery: &mut dyn FnMut(&Query) -> Option<String>) -> Option<String> {
    figure(expr, subquery).map(|(name, _)| name)
}

/// How much a name counts: a cast's type gives way to a name within it, unless that is one of these, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    Weak,
    Strong,
}

type Named = Option<(String, Strength)>;

fn strong(name: impl Into<String>) -> Named {
    Some((name.into(), Strength::Strong))
}

fn weak(name: impl Into<String>) -> Named {
    Some((name.into(), Strength::Weak))
}

fn figure(expr: &Expr, subquery: &mut dyn FnMut(&Query) -> Option<String>) -> Named {
    match expr {
        Expr::Identifier(ident) => strong(folded(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().and_then(|part| strong(folded(part))),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner, subquery),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(ident)) => Some(folded(ident)),
                _ => None,
            });
            field.map_or_else(|| figure(root, subquery), strong)
        }
        Expr::Function(function) => {
            let name = folded(function.name.0.last()?.as_ident()?);
            // A cast in the form in which it is kept.
            match crate::definition::cast_function_oid(&name) {
                Some(oid) => {
                    let inner = first_argument(function).and_then(|arg| figure(arg, subquery));
                    of_cast(inner, crate::types::type_by_oid(oid).map_or(name, |row| row.name.to_owned()))
                }
                None => strong(name),
            }
        }
        Expr::Cast { expr, data_type, .. } => of_cast(figure(expr, subquery), type_name(data_type)),
        Expr::TypedString(typed) => weak(type_name(&typed.data_type)),
        Expr::Interval(_) => weak("interval"),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(|e| figure(e, subquery)) {
            named @ Some((_, Strength::Strong)) => named,
            _ => weak("case"),
        },
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { shorthand, .. } => strong(if *shorthand { "substr" } else { "substring" }),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Subquery(query) => {
            let known = subquery(query);
            strong(known.or_else(|| first_column(query)).unwrap_or_else(|| "?column?".to_owned()))
        }
        _ => None,
    }
}

fn of_cast(inner: Named, ty: String) -> Named {
    match inner {
        Some((_, Strength::Strong)) => inner,
        _ => weak(ty),
    }
}

fn first_argument(function: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// The name of the first column of a query, as far as its text says it.
fn first_column(query: &Query) -> Option<String> {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::SetOperation { left, .. } => left,
            SetExpr::Query(query) => &query.body,
            SetExpr::Values(_) => return Some("column1".to_owned()),
            SetExpr::Select(select) => {
                return match select.projection.first()? {
                    SelectItem::UnnamedExpr(expr) => column_name(expr),
                    SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
                    _ => None,
                };
            }
            _ => return None,
        }
    }
}

/// The catalog's name of a type; of an array, that of its elements.
fn type_name(ty: &DataType) -> String {
    let mut ty = ty;
    while let DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner)) = ty {
        ty = inner;
    }
    let computed = || crate::types::arrow_field_from_sql(ty).ok().map(|field| crate::types::field_oid(&field));
    let known = crate::types::domain_from_sql(ty).or_else(computed);
    match known.and_then(crate::types::type_by_oid) {
        Some(row) => row.name.to_owned(),
        None => {
            let written = ty.to_string();
            let bare = written.split('(').next().unwrap_or(&written).trim().to_ascii_lowercase();
            bare.rsplit('.').next().unwrap_or(&bare).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    /// As PostgreSQL 15 names them.
    #[test]
    fn names() {
        for (sql, name) in [
            ("1", None),
            ("a.b", Some("b")),
            ("1::int::text", Some("text")),
            ("x::int::text", Some("x")),
            ("'1'::varchar(3)", Some("varchar")),
            ("'a'::char(3)", Some("bpchar")),
            ("'{1}'::int[]", Some("int4")),
            ("time '10:00'", Some("time")),
            ("'2020-01-01'::timestamp(3) with time zone", Some("timestamptz")),
            ("interval '1 day'", Some("interval")),
            ("case when a then b end", Some("case")),
            ("case when a then 1 else b end", Some("b")),
            ("case when a then 1 else f(b) end", Some("f")),
            ("case when a then 1 else 2::int end", Some("case")),
            ("(case when a then 1 end)::text", Some("text")),
            ("(select 1)", Some("?column?")),
            ("(select 1)::text", Some("?column?")),
            ("(select a + 1 as z)", Some("z")),
            ("exists (select 1)", Some("exists")),
            ("not exists (select 1)", None),
            ("true", None),
            ("true::text", Some("text")),
            ("a[1]", Some("a")),
            ("substr(a, 1)", Some("substr")),
            ("substring(a from 1)", Some("substring")),
            ("a is null", None),
            ("-a", None),
            ("coalesce(a, 1)", Some("coalesce")),
            ("row(1, 2)", Some("row")),
            ("pg_cast_time('x')", Some("time")),
            ("current_date", Some("current_date")),
        ] {
            let dialect = PostgreSqlDialect {};
            let expr = Parser::new(&dialect).try_with_sql(sql).and_then(|mut parser| parser.parse_expr());
            let found = expr.map(|expr| column_name(&expr)).expect(sql);
            assert_eq!(found.as_deref(), name, "{sql}");
        }
    }
}
