//! Which columns a name can mean: the FROM items of a query, and of the queries around it.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::Ident;
use resurgam_engine::Table;

use super::bound::{Bound, Column, Relation, Type};
use super::{Analyzer, Result, similar};
use crate::pg::catalog::{relation_oid, system_relations};
use crate::wire::SqlError;

/// What FROM has brought in under one name.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The name that qualifies its columns; `None` for a join without an alias.
    pub name: Option<String>,
    pub schema: Option<String>,
    pub columns: Vec<Column>,
    /// Its columns are seen under its name.
    pub by_name: bool,
    /// Its columns are seen without a qualifier.
    pub by_column: bool,
    /// The table that it is, if it is one.
    pub table: Option<Arc<Table>>,
    /// Oid of the relation, for `tableoid`.
    pub oid: u32,
    /// What a join gives: columns of other items.
    pub of_join: bool,
}

/// A query of WITH.
#[derive(Clone, Debug)]
pub(crate) struct Cte {
    pub name: String,
    pub relation: Relation,
    /// Those that are computed once which are read by whoever names it.
    pub reads: BTreeSet<usize>,
    /// It writes, and gives no rows.
    pub is_silent: bool,
}

/// See the module's head.
#[derive(Clone, Default)]
pub(crate) struct Scope<'p> {
    pub items: Vec<Item>,
    pub outer: Option<&'p Scope<'p>>,
    /// What FROM had before these: no name means them here, but a hint may name them (`similar.rs`).
    pub unseen: &'p [Item],
    /// Innermost last.
    pub ctes: Vec<Arc<Cte>>,
}

impl<'p> Scope<'p> {
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// The scope of a query inside this one, before its FROM.
    pub(crate) fn inner<'q>(&'q self) -> Scope<'q> {
        Scope { items: Vec::new(), outer: Some(self), unseen: &[], ctes: self.ctes.clone() }
    }

    pub(crate) fn cte(&self, name: &str) -> Option<&Arc<Cte>> {
        self.ctes.iter().rev().find(|cte| cte.name == name)
    }

    /// How many queries further out a column is; `None` if it is of none of them.
    pub(crate) fn level_of(&self, column: &datafusion::common::Column) -> Option<usize> {
        let (mut level, mut next) = (0, Some(self));
        while let Some(scope) = next {
            let mut columns = scope.items.iter().flat_map(|item| &item.columns);
            let is_here = columns.any(|known| {
                known.bound.expr.exists(|e| Ok(matches!(e, Expr::Column(known) if known == column))).unwrap_or(false)
            });
            if is_here {
                return Some(level);
            }
            level += 1;
            next = scope.outer;
        }
        None
    }

    /// How many queries are around this one.
    pub(crate) fn depth(&self) -> usize {
        std::iter::successors(self.outer, |scope| scope.outer).count()
    }

    /// The same without items: what VALUES and LIMIT see.
    pub(crate) fn without_items<'q>(&'q self) -> Scope<'q> {
        Scope { items: Vec::new(), outer: self.outer, unseen: self.unseen, ctes: self.ctes.clone() }
    }
}

/// The column that tells an updated row of an upsert (the id of its transaction) from an inserted one (0), and what qualifies it
/// in plans.
pub(crate) const XMAX: &str = "xmax";
pub(crate) const WRITTEN: &str = "resurgam$of_row";

/// Whether each table of PostgreSQL has a column of that name which no definition says.
pub(crate) fn is_system_column(name: &str) -> bool {
    matches!(name, "tableoid" | "ctid" | "xmin" | "xmax" | "cmin" | "cmax")
}

/// An identifier as PostgreSQL folds it.
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// A column of a query `levels` further out, as a subquery refers to it.
pub(super) fn from_outside(bound: &Bound, levels: usize) -> Result<Bound> {
    if levels == 0 {
        return Ok(bound.clone());
    }
    let (ty, data) = (bound.ty, bound.data.clone());
    let expr = bound.expr.clone().transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::new(ty.field(&column.name, &data));
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Bound { expr: expr.data, ..bound.clone() })
}

impl Analyzer<'_> {
    /// What a column's name means.
    ///
    /// # Errors
    /// `42703`, `42702`, `42P01`.
    pub(super) fn column(&mut self, scope: &Scope<'_>, parts: &[Ident]) -> Result<Bound> {
        let span = parts.first().map_or_else(datafusion::sql::sqlparser::tokenizer::Span::empty, |part| part.span);
        let found = match parts {
            [column] => self.by_column(scope, column)?,
            [relation, column] => self.by_relation(scope, None, relation, column)?,
            [schema, relation, column] => self.by_relation(scope, Some(schema), relation, column)?,
            [database, schema, relation, column] => {
                let database = folded(database);
                if crate::pg::user_types::database() != Some(database) {
                    let name = parts.iter().map(folded).collect::<Vec<_>>().join(".");
                    let what = format!("cross-database references are not implemented: {name}");
                    return Err(self.at(SqlError::unsupported(what), span));
                }
                self.by_relation(scope, Some(schema), relation, column)?
            }
            _ => {
                let name = parts.iter().map(folded).collect::<Vec<_>>().join(".");
                let error = SqlError::syntax(format!("improper qualified name (too many dotted names): {name}"));
                return Err(self.at(error, span));
            }
        };
        self.mark(&found.expr);
        // COLLATE says something of the expression around it, not of a column that is made of that.
        Ok(Bound { collation: None, ..found.at(span) })
    }

    /// The column of that name in one scope, without a qualifier.
    fn in_items(&self, items: &[Item], name: &str, ident: &Ident) -> Result<Option<Bound>> {
        let mut found: Option<&Bound> = None;
        for item in items.iter().filter(|item| item.by_column) {
            for column in item.columns.iter().filter(|column| column.name == name) {
                if found.is_some() {
                    let error = SqlError::new("42702", format!("column reference \"{name}\" is ambiguous"));
                    return Err(self.at(error, ident.span));
                }
                found = Some(&column.bound);
            }
        }
        if found.is_none() && is_system_column(name) {
            let mut relations = Vec::new();
            for item in items.iter().filter(|item| item.by_column) {
                if self.has_system_columns(item)? {
                    relations.push(item);
                }
            }
            return match relations.as_slice() {
                [] => Ok(None),
                [item] => self.system_column(item, name, ident).map(Some),
                _ => {
                    let error = SqlError::new("42702", format!("column reference \"{name}\" is ambiguous"));
                    Err(self.at(error, ident.span))
                }
            };
        }
        Ok(found.cloned())
    }

    /// Whether something of FROM is stored: a table or a catalog, not a view, a function or a query.
    fn has_system_columns(&self, item: &Item) -> Result<bool> {
        if item.table.is_some() || item.oid == 0 {
            return Ok(item.oid != 0);
        }
        if item.oid < relation_oid(0) {
            return Ok(system_relations().iter().any(|system| system.oid == item.oid && system.kind != 'v'));
        }
        let view = self.names.txn.view_by_id(item.oid - relation_oid(0)).map_err(SqlError::from)?;
        Ok(view.is_none())
    }

    /// A system column. But for the table's oid, and what INSERT … RETURNING says of `xmax`, there are none: what a version of
    /// a row says of who wrote it is gone once all see it, and a row has no place.
    ///
    /// # Errors
    /// `0A000`
    fn system_column(&self, item: &Item, name: &str, ident: &Ident) -> Result<Bound> {
        if name == "tableoid" {
            // It is nobody's column, so it takes the right to read them all.
            item.columns.iter().for_each(|column| self.mark(&column.bound.expr));
            let oid = datafusion::common::ScalarValue::UInt32(Some(item.oid));
            return Ok(Bound::literal(oid, Type::of(crate::pg::types::oid::OID)));
        }
        let is_returned = |column: &Column| match (&column.bound.expr, &self.returned) {
            (Expr::Column(column), Some(target)) => column.relation.as_ref() == Some(target),
            _ => false,
        };
        if name == XMAX && item.columns.iter().any(is_returned) {
            item.columns.iter().for_each(|column| self.mark(&column.bound.expr));
            let ty = Type::of(crate::pg::types::oid::XID);
            let column = datafusion::common::Column::new(Some(TableReference::bare(WRITTEN)), XMAX);
            return Ok(Bound::new(Expr::Column(column), ty));
        }
        let error = SqlError::unsupported(format!("system column \"{name}\" is not supported"));
        Err(self.at(error, ident.span))
    }

    /// The column of that name here, if there is one, in this scope only.
    pub(super) fn local_column(&self, scope: &Scope<'_>, ident: &Ident) -> Result<Option<Bound>> {
        self.in_items(&scope.items, &folded(ident), ident)
    }

    /// Whether a column of any query around has that name.
    pub(super) fn is_column(&self, scope: &Scope<'_>, ident: &Ident) -> Result<bool> {
        let name = folded(ident);
        let mut next = Some(scope);
        while let Some(scope) = next {
            if self.in_items(&scope.items, &name, ident)?.is_some() {
                return Ok(true);
            }
            next = scope.outer;
        }
        Ok(false)
    }

    fn by_column(&mut self, scope: &Scope<'_>, ident: &Ident) -> Result<Bound> {
        let name = folded(ident);
        let (mut level, mut next) = (0, Some(scope));
        while let Some(scope) = next {
            if let Some(found) = self.in_items(&scope.items, &name, ident)? {
                return from_outside(&found, level);
            }
            level += 1;
            next = scope.outer;
        }
        if let Some(row) = self.whole_row_value(scope, ident)? {
            return Ok(row);
        }
        if let Some(param) = self.named_param(&name) {
            return Ok(param);
        }
        let mut error = SqlError::new("42703", format!("column \"{name}\" does not exist"));
        error.hint = similar::hint(scope, self.unseen_target.as_ref(), None, &name);
        Err(self.at(error, ident.span))
    }

    fn by_relation(
        &self,
        scope: &Scope<'_>,
        schema: Option<&Ident>,
        relation: &Ident,
        column: &Ident,
    ) -> Result<Bound> {
        let (relation_name, name) = (folded(relation), folded(column));
        let schema_name = schema.map(folded);
        let around = scope;
        let (mut level, mut next) = (0, Some(scope));
        while let Some(scope) = next {
            let mut items = scope.items.iter().filter(|item| {
                item.by_name
                    && item.name.as_deref() == Some(&relation_name)
                    && schema_name.as_ref().is_none_or(|schema| item.schema.as_ref() == Some(schema))
            });
            if let Some(item) = items.next() {
                if items.next().is_some() {
                    let error = SqlError::new("42P09", format!("table reference \"{relation_name}\" is ambiguous"));
                    return Err(self.at(error, relation.span));
                }
                let mut columns = item.columns.iter().filter(|column| column.name == name);
                return match (columns.next(), columns.next()) {
                    (Some(found), None) => from_outside(&found.bound, level),
                    (Some(_), Some(_)) => {
                        let error = SqlError::new("42702", format!("column reference \"{name}\" is ambiguous"));
                        Err(self.at(error, column.span))
                    }
                    (None, _) if is_system_column(&name) && self.has_system_columns(item)? => {
                        self.system_column(item, &name, column)
                    }
                    (None, _) => {
                        let mut error = SqlError::new("42703", format!("column {relation_name}.{name} does not exist"));
                        error.hint = similar::hint(around, self.unseen_target.as_ref(), Some(&relation_name), &name);
                        Err(self.at(error, relation.span))
                    }
                };
            }
            level += 1;
            next = scope.outer;
        }
        if let (None, Some(param)) = (schema, self.qualified_param(&relation_name, &name)) {
            return Ok(param);
        }
        Err(self.at(self.no_relation(scope, &relation_name), relation.span))
    }

    /// Why a qualifier means nothing (`errorMissingRTE`).
    fn no_relation(&self, scope: &Scope<'_>, name: &str) -> SqlError {
        let invalid = |hint: String| {
            let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
            SqlError::new("42P01", message).with_hint(hint)
        };
        let unseen = |shown: &str| {
            format!("There is an entry for table \"{shown}\", but it cannot be referenced from this part of the query.")
        };
        let mut next = Some(scope);
        while let Some(scope) = next {
            let before = scope.unseen.iter().map(|item| (item, false));
            for (item, is_seen) in before.chain(scope.items.iter().map(|item| (item, item.by_name))) {
                let shown = item.name.as_deref().unwrap_or_default();
                if shown == name && !is_seen && !item.of_join {
                    return invalid(unseen(shown));
                }
                if item.table.as_ref().is_some_and(|table| table.name == name) {
                    return invalid(match is_seen && shown != name {
                        true => format!("Perhaps you meant to reference the table alias \"{shown}\"."),
                        false => unseen(shown),
                    });
                }
            }
            next = scope.outer;
        }
        if let Some((table, alias)) = &self.unseen_target {
            let shown = alias.as_ref().unwrap_or(&table.name);
            if shown == name || table.name == name {
                return invalid(unseen(shown));
            }
        }
        SqlError::new("42P01", format!("missing FROM-clause entry for table \"{name}\""))
    }
}
