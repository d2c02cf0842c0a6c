//! Expressions that stand in no query: those of definitions, over a row of a table, and arguments of EXECUTE.

use std::ops::ControlFlow;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column as PlanColumn, DFSchema, TableReference};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{self, Visitor};
use resurgam_ast::AstWalk;
use resurgam_dialect::CastContext;
use resurgam_engine::{ColumnType, Table};

use super::bound::{Bound, Column, Type};
use super::coerce::catalog;
use super::expr::Clause;
use super::scope::{Item, Scope};
use super::write::column_type;
use super::{Analyzer, Refusal, Result};
use crate::exec::table::table_schema;
use crate::pg::catalog::relation_oid;
use crate::pg::types;
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// What an expression of a definition is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// A condition over the columns.
    Check,
    /// What a domain demands of a column: by the domain's collation, whichever the column has.
    Domain,
    /// The value of a column of that name and type; reads no columns.
    Default(&'a str, ColumnType),
    /// ALTER COLUMN … TYPE … USING: the new value of that column, of the new type.
    Using(&'a str, ColumnType),
    /// GENERATED ALWAYS AS: the value of the column of that name and type, from others.
    Generated(&'a str, ColumnType),
    /// The value of a column of an index.
    Index,
    /// WHERE of CREATE INDEX.
    Predicate,
    /// WHERE of COPY FROM.
    Copied,
}

impl Place<'_> {
    fn clause(self) -> Clause {
        match self {
            Self::Check | Self::Domain => Clause::Check,
            Self::Default(..) => Clause::Default,
            Self::Using(..) => Clause::Transform,
            Self::Generated(..) => Clause::Generated,
            Self::Index => Clause::Index,
            Self::Predicate => Clause::Predicate,
            Self::Copied => Clause::CopyWhere,
        }
    }
    /// Rows are found by it.
    fn is_of_index(self) -> bool {
        matches!(self, Self::Index | Self::Predicate)
    }
    /// As PostgreSQL's errors call it.
    fn name(self) -> &'static str {
        match self {
            Self::Check | Self::Domain => "check constraint",
            Self::Default(..) => "DEFAULT expression",
            Self::Using(..) => "transform expression",
            Self::Generated(..) => "column generation expression",
            Self::Index => "index expression",
            Self::Predicate => "index predicate",
            Self::Copied => "COPY FROM WHERE condition",
        }
    }
}

/// An analysed expression over a row.
pub(crate) struct OverRow {
    pub expr: Expr,
    /// The table's columns.
    pub schema: DFSchema,
    /// Whether it depends on more than its row.
    pub is_mutable: bool,
}

/// Analyses an expression over `table`.
///
/// # Errors
/// `42703` and the like; `0A000` for a subquery, `42803` and `42P20` for aggregates and window functions;
/// `42804` for a value of another type.
pub(crate) fn over_row(
    names: &Names<'_>,
    table: &Table,
    expr: &ast::Expr,
    place: Place<'_>,
) -> Result<OverRow, SqlError> {
    over_row_in(names, table, expr, place, "")
}

/// The same of an expression that is a part of `text`, for positions in errors.
///
/// # Errors
/// As [`over_row`]; `0A000` for a function of users in WHERE of COPY FROM: nobody would ask for the right to call it.
pub(crate) fn over_row_in(
    names: &Names<'_>,
    table: &Table,
    expr: &ast::Expr,
    place: Place<'_>,
    text: &str,
) -> Result<OverRow, SqlError> {
    refuse_subqueries(expr, place.name())?;
    let mut params = ParamTypes::new(0, &[]);
    let schema = Schema::new(
        table_schema(table).fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>(),
    );
    let qualifier = TableReference::bare(table.name.clone());
    let schema = DFSchema::try_from_qualified_schema(qualifier, &schema)
        .map_err(|error| crate::pg::errors::from_datafusion(error, ""))?;
    let (expr, is_mutable) = super::collate::analysed(names, text, &mut params, |analyzer| {
        if !matches!(place, Place::Domain) {
            analyzer.see_table(table);
        }
        analyzer.calls.plain = Some(place.name());
        // USING and WHERE are the statement's own.
        analyzer.stored = !matches!(place, Place::Using(..) | Place::Copied);
        let bound = analyzer.over_row(table, expr, place)?;
        if matches!(place, Place::Copied) && !analyzer.needs().functions.is_empty() {
            let text = "a function of users in WHERE of COPY FROM is not supported";
            return Err(SqlError::unsupported(text).into());
        }
        let expr = match analyzer.collations.on {
            true => super::collate::over_row(table, &schema, bound.expr, place.is_of_index().then_some(place.name()))?,
            false => bound.expr,
        };
        Ok((expr, analyzer.is_mutable))
    })?;
    Ok(OverRow { expr, schema, is_mutable })
}

/// An analysed condition over the columns of a table, however the statement calls it.
///
/// # Errors
/// `0A000` for one with a subquery.
pub(crate) fn condition_over_row(table: &Table, condition: Expr) -> std::result::Result<OverRow, SqlError> {
    if crate::plan::expression::has_subquery(&condition) {
        return Err(SqlError::unsupported(
            "WITH CHECK OPTION, and ON CONFLICT DO UPDATE, of a view with a subquery in its condition is not supported",
        ));
    }
    let schema = Schema::new(
        table_schema(table).fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>(),
    );
    let qualifier = TableReference::bare(table.name.clone());
    let failed = |error| crate::pg::errors::from_datafusion(error, "");
    let schema = DFSchema::try_from_qualified_schema(qualifier.clone(), &schema).map_err(failed)?;
    let expr = condition
        .transform_up(|expr| {
            Ok(match expr {
                Expr::Column(column) => {
                    Transformed::yes(Expr::Column(PlanColumn::new(Some(qualifier.clone()), column.name)))
                }
                other => Transformed::no(other),
            })
        })
        .map_err(failed)?;
    let mut expr = expr.data;
    if crate::pg::collation::has_icu(table) || super::collate::says_any(&expr) {
        expr = super::collate::over_row(table, &schema, expr, None)?;
    }
    // Of views and policies: nobody asks.
    Ok(OverRow { expr, schema, is_mutable: true })
}

/// Analyses an argument of EXECUTE, number `at` from 0, for a parameter of that type.
///
/// # Errors
/// `42804` for another type; `0A000` for a subquery.
pub(crate) fn argument(names: &Names<'_>, expr: &ast::Expr, at: usize, oid: u32) -> Result<Expr, SqlError> {
    refuse_subqueries(expr, "EXECUTE parameter")?;
    let mut params = ParamTypes::new(0, &[]);
    let mut analyzer = Analyzer::new(names, "", &mut params);
    analyzer.calls.plain = Some("EXECUTE parameter");
    let argument = analyzer.argument(expr, at, Type::of(oid)).map(|bound| bound.expr).map_err(Refusal::into_error)?;
    match analyzer.collations.seen {
        true => Err(SqlError::unsupported("a collation of ICU in an EXECUTE parameter is not supported")),
        false => Ok(argument),
    }
}

/// Whether a value of one type can be assigned to a column of another.
pub(crate) fn is_assignable(from: ColumnType, to: ColumnType) -> bool {
    catalog().can_coerce_one(column_type(&from).id(), column_type(&to).id(), CastContext::Assignment)
}

pub(super) fn refuse_subqueries(expr: &ast::Expr, what: &str) -> Result<(), SqlError> {
    struct Find;
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    match expr.walk(&mut Find) {
        ControlFlow::Break(()) => Err(SqlError::unsupported(format!("cannot use subquery in {what}"))),
        ControlFlow::Continue(()) => Ok(()),
    }
}

impl Analyzer<'_> {
    fn over_row(&mut self, table: &Table, expr: &ast::Expr, place: Place<'_>) -> Result<Bound> {
        if let Place::Default(column, ty) = place {
            return self.default_value(expr, column, &ty);
        }
        let qualifier = TableReference::bare(table.name.clone());
        let columns = table.columns.iter().map(|column| {
            let expr = Expr::Column(PlanColumn::new(Some(qualifier.clone()), &column.name));
            let bound = Bound::with_data(expr, column_type(&column.ty), types::arrow_type(&column.ty));
            Column { name: column.name.clone(), bound }
        });
        let item = Item {
            name: Some(table.name.clone()),
            schema: Some(table.schema.clone()),
            columns: columns.collect(),
            by_name: true,
            by_column: true,
            table: None,
            oid: relation_oid(table.id),
            of_join: false,
        };
        let scope = Scope { items: vec![item], ..Scope::empty() };
        if let Place::Generated(column, ty) = place {
            let bound = self.expr(expr, &scope, Clause::Generated)?;
            return self.made_of(bound, column, &ty);
        }
        if let Place::Index = place {
            let bound = self.expr(expr, &scope, Clause::Index)?;
            return if bound.ty.is_unknown() { self.read(bound, Type::of(types::oid::TEXT)) } else { Ok(bound) };
        }
        let Place::Using(column, ty) = place else { return self.condition(expr, &scope, place.clause()) };
        let bound = self.expr(expr, &scope, place.clause())?;
        let (given, to) = (bound.ty, column_type(&ty));
        if given.is_unknown() {
            return self.read(bound, Type::of(to.oid));
        }
        if !catalog().can_coerce_one(given.id(), to.id(), CastContext::Assignment) {
            let message = format!(
                "result of USING clause for column \"{column}\" cannot be cast automatically to type {}",
                types::column_type_name(&ty)
            );
            let error = SqlError::new("42804", message).with_hint("You might need to add an explicit cast.");
            return Err(error.into());
        }
        if given.oid == to.oid { Ok(bound) } else { self.cast_without_length(bound, to) }
    }

    fn argument(&mut self, expr: &ast::Expr, at: usize, to: Type) -> Result<Bound> {
        let bound = self.expr(expr, &Scope::empty(), Clause::Execute)?;
        let given = bound.ty;
        if given.is_unknown() {
            return self.read(bound, to);
        }
        if !catalog().can_coerce_one(given.id(), to.id(), CastContext::Assignment) {
            let message = format!(
                "parameter ${} of type {} cannot be coerced to the expected type {}",
                at + 1,
                given.name(),
                to.name()
            );
            let error = SqlError::new("42804", message).with_hint("You will need to rewrite or cast the expression.");
            return Err(error.into());
        }
        if given.oid == to.oid { Ok(bound) } else { self.cast_without_length(bound, to) }
    }
}
