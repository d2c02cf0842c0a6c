//! Types and labels in the texts of definitions.
//!
//! Definitions keep expressions as texts, in which labels have the names that they had then, as types had in earlier
//! versions; now these have their oids. (PostgreSQL keeps numbers of both.) So with another name of a label those of tables
//! change: DEFAULTs, and casts in CHECKs. What else names it (views, functions, generated columns, indexes on expressions,
//! conditions of domains, labels beside columns in a CHECK) is in the way of the change, by name.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, Query, Statement, Value, ValueWithSpan, Visitor, VisitorMut,
};
use resurgam_ast::{AstWalk, AstWalkMut};
use resurgam_engine::{ObjectKind, Table, TableChange, Transaction};

use super::{full_name, name_of};
use crate::parse::read::parse_known;
use crate::pg::search_path::PUBLIC;
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types::{UserType, marked, marked_type};
use crate::plan::expression::{kept_text, parse_expression};
use crate::session::Session;
use crate::wire::SqlError;

/// What gets another name.
#[derive(Clone, Copy)]
pub(super) enum Renamed<'a> {
    Type { to: &'a str },
    Label { from: &'a str, to: &'a str },
}

/// Whether a name in SQL is that of the type.
fn is_of(name: &ObjectName, ty: &UserType) -> bool {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    match parts.as_slice() {
        // What was kept before names had oids.
        [name] => *name == ty.name && ty.schema == PUBLIC,
        [schema, name] => match marked(schema) {
            Some(oid) => oid == ty.oid,
            None => *schema == ty.schema && *name == ty.name,
        },
        _ => false,
    }
}

fn names(data_type: &DataType, ty: &UserType) -> bool {
    match data_type {
        DataType::Custom(name, _) => is_of(name, ty),
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner)) => {
            names(inner, ty)
        }
        _ => false,
    }
}

fn rename(data_type: &mut DataType, ty: &UserType, to: &str) {
    match data_type {
        DataType::Custom(name, _) if is_of(name, ty) => {
            if let Some(last) = name.0.last_mut() {
                *last = datafusion::sql::sqlparser::ast::ObjectNamePart::Identifier(Ident::with_quote('"', to));
            }
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner)) => {
            rename(inner, ty, to);
        }
        _ => {}
    }
}

/// Whether an expression or a query has a cast to the type, or, of a label, a text that is it.
fn mentions(node: &dyn Fn(&mut Found<'_>) -> ControlFlow<()>, ty: &UserType, renamed: Renamed<'_>) -> bool {
    node(&mut Found { ty, renamed }).is_break()
}

struct Found<'a> {
    ty: &'a UserType,
    renamed: Renamed<'a>,
}

impl Visitor for Found<'_> {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let named = match expr {
            Expr::Cast { data_type, .. } => names(data_type, self.ty) && marked_type(data_type).is_none(),
            Expr::TypedString(typed) => names(&typed.data_type, self.ty),
            _ => false,
        };
        match named && matches!(self.renamed, Renamed::Type { .. }) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        match (&value.value, self.renamed) {
            // Of its own, or among the elements of an array.
            (Value::SingleQuotedString(text), Renamed::Label { from, .. })
                if text == from || text.trim_start().starts_with('{') && text.contains(from) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Gives the type, or the label in casts to it, its new name.
struct Reworded<'a> {
    ty: &'a UserType,
    renamed: Renamed<'a>,
}

impl VisitorMut for Reworded<'_> {
    type Break = ();
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match (expr, self.renamed) {
            (Expr::Cast { data_type, .. }, Renamed::Type { to }) if marked_type(data_type).is_none() => {
                rename(data_type, self.ty, to);
            }
            (Expr::TypedString(typed), Renamed::Type { to }) => rename(&mut typed.data_type, self.ty, to),
            (Expr::Cast { expr, data_type, .. }, Renamed::Label { from, to }) if names(data_type, self.ty) => {
                if let Expr::Value(value) = expr.as_mut() {
                    relabel(value, from, to);
                }
            }
            (Expr::TypedString(typed), Renamed::Label { from, to }) if names(&typed.data_type, self.ty) => {
                relabel(&mut typed.value, from, to);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn relabel(value: &mut ValueWithSpan, from: &str, to: &str) {
    if let Value::SingleQuotedString(text) = &mut value.value
        && text == from
    {
        to.clone_into(text);
    }
}

/// The text of an expression with the new name.
fn reworded(sql: &str, ty: &UserType, renamed: Renamed<'_>, of_column: bool) -> Result<Option<String>, SqlError> {
    let mut expr = parse_expression(sql)?;
    if let (Expr::Value(value), Renamed::Label { from, to }, true) = (&mut expr, renamed, of_column) {
        relabel(value, from, to);
    }
    let _ = expr.walk_mut(&mut Reworded { ty, renamed });
    let new = kept_text(&expr);
    Ok((new != kept_text(&parse_expression(sql)?)).then_some(new))
}

fn in_expression(sql: &str, ty: &UserType, renamed: Renamed<'_>) -> bool {
    parse_expression(sql).is_ok_and(|expr| mentions(&|found| expr.walk(found), ty, renamed))
}

/// Whether an expression casts to the type, or to arrays of it.
fn casts_to(sql: &str, ty: &UserType) -> bool {
    struct Casts<'a>(&'a UserType);
    impl Visitor for Casts<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Cast { data_type, .. } if names(data_type, self.0) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    parse_expression(sql).is_ok_and(|expr| expr.walk(&mut Casts(ty)).is_break())
}

fn in_query(sql: &str, ty: &UserType, renamed: Renamed<'_>) -> bool {
    let Ok(statements) = parse_known(sql) else { return true };
    statements.iter().any(|statement| match statement {
        Statement::Query(query) => {
            let query: &Query = query;
            mentions(&|found| query.walk(found), ty, renamed)
        }
        _ => true,
    })
}

impl Session {
    /// Gives a type or a label its new name in the texts of definitions.
    ///
    /// # Errors
    /// `0A000` where it is named by what is not reworded.
    pub(super) async fn reword_type(
        &mut self,
        txn: &Transaction,
        ty: &UserType,
        renamed: Renamed<'_>,
    ) -> Result<(), SqlError> {
        let refused = |what: String| {
            let message = match renamed {
                Renamed::Type { .. } => format!("renaming type {} while {what} names it is not supported", ty.name),
                Renamed::Label { from, .. } => {
                    format!("renaming enum label \"{from}\" while {what} has it as a constant is not supported")
                }
            };
            Err(SqlError::unsupported(message))
        };
        for view in txn.views()?.into_iter().chain(txn.objects(ObjectKind::POLICY)?) {
            let Some(definition) = view.view.as_ref().filter(|definition| !definition.sql.is_empty()) else { continue };
            if in_query(&definition.sql, ty, renamed) {
                let word = if view.policy_of().is_some() { "policy" } else { "view" };
                return refused(format!("{word} {}", view.name));
            }
        }
        for other in self.shared.types_now()?.iter() {
            let Some(domain) = other.as_domain() else { continue };
            let texts = domain.default_sql.iter().chain(domain.checks.iter().map(|check| &check.sql));
            if texts.into_iter().any(|sql| in_expression(sql, ty, renamed)) {
                return refused(format!("domain {}", other.name));
            }
        }
        for entry in txn.objects(ObjectKind::FUNCTION)? {
            let function = UserFunction::of_object(&entry)?;
            let params = function.definition.params.iter().filter_map(|param| param.default_sql.as_deref());
            let body = function.definition.source.view();
            if params.into_iter().any(|sql| in_expression(sql, ty, renamed))
                || body.is_some_and(|view| in_query(&view.sql, ty, renamed))
            {
                return refused(format!("function {}", function.definition.signature()));
            }
        }
        for table in txn.tables()? {
            self.reword_type_in(txn, table, ty, renamed, &refused).await?;
        }
        Ok(())
    }

    async fn reword_type_in(
        &mut self,
        txn: &Transaction,
        table: Arc<Table>,
        ty: &UserType,
        renamed: Renamed<'_>,
        refused: &(dyn Fn(String) -> Result<(), SqlError> + Sync),
    ) -> Result<(), SqlError> {
        for generated in &table.generated {
            if in_expression(&generated.sql, ty, renamed) {
                let name = &table.columns[generated.column].name;
                let name = if table.columns[generated.column].is_hidden() { "an index" } else { name };
                return refused(format!("{name} of table {}", table.name));
            }
        }
        let mut changes = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            if table.generated(at).is_some() {
                continue;
            }
            let Some(sql) = &column.default_sql else { continue };
            let of_it = column.ty.user_type() == Some(ty.oid);
            let new = reworded(sql, ty, renamed, of_it)?;
            let now = new.as_deref().unwrap_or(sql);
            if matches!(renamed, Renamed::Label { .. })
                && (of_it || casts_to(now, ty))
                && in_expression(now, ty, renamed)
            {
                return refused(format!("the default of column {} of table {}", column.name, table.name));
            }
            changes.extend(new.map(|new| TableChange::SetDefault(at, Some(new))));
        }
        for check in &table.checks {
            let new = reworded(&check.sql, ty, renamed, false)?;
            let now = new.as_deref().unwrap_or(&check.sql);
            if matches!(renamed, Renamed::Label { .. })
                && (casts_to(now, ty)
                    || check.columns.iter().any(|at| table.columns[*at].ty.user_type() == Some(ty.oid)))
                && in_expression(now, ty, renamed)
            {
                return refused(format!("constraint {} of table {}", check.name, table.name));
            }
            changes.extend(new.map(|new| TableChange::RewordCheck(check.name.clone(), new)));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let mut table = self.locked_table(txn, &full_name(&table)).await?;
        for change in changes {
            table = self.change(txn, &table, change).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::user_types::definition::Kind;
    use crate::pg::user_types::{Body, EnumType};

    #[test]
    fn casts_are_reworded() {
        let body = Body { array: 2, comment: None, kind: Kind::Enum(EnumType::default()) };
        let ty = UserType { oid: 1, schema: "public".into(), name: "mood".into(), owner: 10, body };
        let of = |sql: &str, renamed, of_column| reworded(sql, &ty, renamed, of_column).expect(sql);
        let to = Renamed::Type { to: "Feeling" };
        assert_eq!(of("'a'::mood", to, false).as_deref(), Some("'a'::\"Feeling\""));
        assert!(of("x = ANY (ARRAY['a']::public.mood[])", to, false).is_some());
        assert_eq!(of("'a'::moody", to, true), None);
        let label = Renamed::Label { from: "a", to: "b" };
        assert_eq!(of("'a'::mood", label, false).as_deref(), Some("'b'::mood"));
        assert_eq!((of("'a'", label, true).as_deref(), of("'a'", label, false)), (Some("'b'"), None));
        assert!(in_expression("m <> 'a'", &ty, label) && !in_expression("m <> 'c'", &ty, label));
        assert!(in_query("SELECT 'x'::mood", &ty, to) && !in_query("SELECT mood FROM t", &ty, to));
        // A type that is named by its oid has any name; labels are as they were.
        assert_eq!(of("'a'::pg_type_1.mood", to, false), None);
        assert_eq!(of("'a'::pg_type_1.sad", label, false).as_deref(), Some("'b'::pg_type_1.sad"));
        assert_eq!(of("'a'::pg_type_2.mood", label, false), None);
    }
}
