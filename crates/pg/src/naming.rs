//! Names of result columns as PostgreSQL chooses them.
//!
//! DataFusion names an unnamed column after its whole text and refuses two columns of one
//! name in a projection. Here every unnamed column gets PostgreSQL's name as an alias; a
//! name that occurs again gets [`MARK`] and a number behind it, which [`shown`] takes off.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, Ident, Query, Select, SelectItem, SetExpr, VisitorMut};
use resurgam_ast::AstWalkMut;

/// Between a repeated name and its number; cannot occur in an identifier that a user writes by hand.
const MARK: char = '\u{1}';

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

/// PostgreSQL's `FigureColname`.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(folded(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => column_name(inner),
        Expr::Function(function) => {
            let last = function.name.0.last()?.as_ident()?;
            let name = folded(last);
            let _ = matches!(function.args, FunctionArguments::None);
            Some(name)
        }
        Expr::Cast { expr, data_type, .. } => match column_name(expr) {
            Some(name) => Some(name),
            None => Some(type_name(&data_type.to_string())),
        },
        Expr::TypedString(typed) => Some(type_name(&typed.data_type.to_string())),
        Expr::Case { else_result, .. } => match else_result.as_deref() {
            Some(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => column_name(else_result.as_deref()?),
            _ => Some("case".to_owned()),
        },
        Expr::Extract { .. } => Some("extract".to_owned()),
        Expr::Substring { .. } => Some("substring".to_owned()),
        Expr::Position { .. } => Some("position".to_owned()),
        Expr::Overlay { .. } => Some("overlay".to_owned()),
        Expr::Ceil { .. } => Some("ceil".to_owned()),
        Expr::Floor { .. } => Some("floor".to_owned()),
        Expr::Trim { trim_where, .. } => Some(
            match trim_where.map(|w| w.to_string()).as_deref() {
                Some("LEADING") => "ltrim",
                Some("TRAILING") => "rtrim",
                _ => "btrim",
            }
            .to_owned(),
        ),
        Expr::Exists { .. } => Some("exists".to_owned()),
        Expr::Interval(_) => Some("interval".to_owned()),
        Expr::Array(_) => Some("array".to_owned()),
        Expr::AtTimeZone { .. } => Some("timezone".to_owned()),
        Expr::Value(value) => match value.value {
            datafusion::sql::sqlparser::ast::Value::Boolean(_) => Some("bool".to_owned()),
            _ => None,
        },
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first()? {
                SelectItem::UnnamedExpr(expr) => column_name(expr),
                SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn type_name(written: &str) -> String {
    let bare = written.split('(').next().unwrap_or(written).trim().to_ascii_lowercase();
    crate::pg::types::type_by_name(&bare).map_or(bare, |ty| ty.name.to_owned())
}
