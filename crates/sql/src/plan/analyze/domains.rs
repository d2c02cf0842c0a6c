//! Casts to domains: to what the domain is of, and a check of what it demands.
//!
//! Expressions are of what domains are of, never of a domain: what a column of a domain has to fulfil is checked when rows
//! are written ([`crate::dml::check`]), with the table's own conditions.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::sql::sqlparser::ast;
use resurgam_dialect::CastContext;
use resurgam_engine::ColumnType;

use super::bound::{Bound, Column, Type};
use super::expr::Clause;
use super::scope::{Item, Scope};
use super::{Analyzer, Refusal, Result, unknown};
use crate::pg::functions::domain_check;
use crate::pg::types::oid;
use crate::pg::user_types::{base_type, constraints};
use crate::plan::expression::parse_expression;
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// What a domain's conditions call the value.
const VALUE: &str = "value";

/// The domain that a type is, or 0, and what it is of, as untyped constants are read: only the fields of an interval count.
pub(super) fn under_domain(ty: Type) -> (u32, Type) {
    match base_type(ty.oid, ty.typmod) {
        (oid, _) if oid == ty.oid => (0, ty),
        (oid::INTERVAL, typmod) => (ty.oid, Type { oid: oid::INTERVAL, typmod }),
        (oid, _) => (ty.oid, Type::of(oid)),
    }
}

impl Analyzer<'_> {
    /// Does what reads values without a type: a parameter becomes one of that domain (0: of none).
    pub(super) fn of_domain<T>(&mut self, domain: u32, go: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.reads_domain, domain);
        let done = go(self);
        self.reads_domain = before;
        done
    }

    /// A value as one of a domain.
    pub(super) fn cast_to_domain(&mut self, bound: Bound, domain: u32, context: CastContext) -> Result<Bound> {
        let (oid, typmod) = base_type(domain, -1);
        let span = bound.span;
        let bound = match bound.expr {
            Expr::Placeholder(_) if bound.ty.is_unknown() => {
                let (_, of) = under_domain(Type::of(domain));
                self.of_domain(domain, |this| this.read(bound, of))?.at(span)
            }
            _ => bound,
        };
        let bound = self.cast_as(bound, Type { oid, typmod }, context)?;
        let constraints = constraints(domain);
        if constraints.is_empty() {
            return Ok(bound.at(span));
        }
        // It is written several times, and computed as often.
        let mut volatile = false;
        bound.expr.apply(|node| {
            volatile |= matches!(node, Expr::ScalarFunction(call)
                if call.func.signature().volatility == Volatility::Volatile && call.name() != "$");
            volatile |= matches!(node, Expr::ScalarSubquery(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
        if volatile {
            return unknown("a cast to a domain of what is computed anew each time");
        }
        // Conditions see a value of the domain, not of what it was.
        let seen = match crate::pg::collation::of_type(oid) {
            0 => bound.clone(),
            _ => Bound { expr: self.of_default(bound.expr.clone()), ..bound.clone() },
        };
        let column = Column { name: VALUE.to_owned(), bound: seen };
        let scope = Scope { items: vec![value_item(column)], ..Scope::empty() };
        let field = bound.field();
        let mut args = vec![bound.clone()];
        for constraint in &constraints {
            args.push(match &constraint.check {
                None => Bound::new(Expr::IsNotNull(Box::new(bound.expr.clone())), Type::BOOL),
                Some((_, sql)) => {
                    let expr = parse_expression(sql)?;
                    // Its places are in another text.
                    let text = std::mem::take(&mut self.text);
                    let condition = self.condition(&expr, &scope, Clause::Check);
                    self.text = text;
                    condition?
                }
            });
        }
        let function = Arc::new(domain_check(constraints, field));
        let (expr, data) = self.call_udf(&function, args)?;
        Ok(Bound::with_data(expr, bound.ty, data).at(span))
    }
}

/// A parameter, number `at` from 0, as a value of the domain that it is of.
///
/// # Errors
/// `0A000` for a domain of which that cannot be said.
pub(crate) fn parameter_of_domain(names: &Names<'_>, at: usize, domain: u32) -> std::result::Result<Expr, SqlError> {
    let mut declared = vec![0; at + 1];
    declared[at] = base_type(domain, -1).0;
    let mut params = ParamTypes::new(at + 1, &declared);
    let mut analyzer = Analyzer::new(names, "", &mut params);
    let mut bound = || -> Result<Expr> {
        let value = analyzer.parameter(&format!("${}", at + 1))?;
        Ok(analyzer.cast_to_domain(value, domain, CastContext::Explicit)?.expr)
    };
    bound().map_err(Refusal::into_error)
}

/// Whether an expression can be a domain's condition: over a value of that type, as `VALUE`.
///
/// # Errors
/// Those of its analysis.
pub(crate) fn check_domain_condition(
    names: &Names<'_>,
    expr: &ast::Expr,
    base: (u32, i32),
) -> std::result::Result<(), SqlError> {
    super::row::refuse_subqueries(expr, "check constraint")?;
    let mut params = ParamTypes::new(0, &[]);
    let mut analyzer = Analyzer::new(names, "", &mut params);
    analyzer.calls.plain = Some("check constraint");
    let ty = Type { oid: base.0, typmod: base.1 };
    let mut condition = || -> Result<()> {
        let value = analyzer.null(ty)?;
        let column = Column { name: VALUE.to_owned(), bound: value };
        let scope = Scope { items: vec![value_item(column)], ..Scope::empty() };
        analyzer.condition(expr, &scope, Clause::Check)?;
        match analyzer.collations.seen {
            true => unknown("a collation of ICU in a condition of a domain"),
            false => Ok(()),
        }
    };
    condition().map_err(Refusal::into_error)
}

/// Whether an expression can be the default of a domain of that name.
///
/// # Errors
/// Those of its analysis, `42804`.
pub(crate) fn check_domain_default(
    names: &Names<'_>,
    expr: &ast::Expr,
    domain: &str,
    ty: &ColumnType,
) -> std::result::Result<(), SqlError> {
    super::row::refuse_subqueries(expr, "DEFAULT expression")?;
    let mut params = ParamTypes::new(0, &[]);
    let mut analyzer = Analyzer::new(names, "", &mut params);
    analyzer.default_value(expr, domain, ty).map(|_| ()).map_err(Refusal::into_error)
}

/// What VALUE is a column of.
fn value_item(column: Column) -> Item {
    only_columns(vec![column])
}

/// Columns that are of no table.
pub(super) fn only_columns(columns: Vec<Column>) -> Item {
    Item { name: None, schema: None, columns, by_name: false, by_column: true, table: None, oid: 0, of_join: false }
}
