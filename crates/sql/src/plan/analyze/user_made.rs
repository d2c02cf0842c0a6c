//! Bodies and defaults of parameters that are being made: whether they can be analysed, and give what the function returns.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Statement};
use resurgam_dialect::CastContext;

use super::bound::{Bound, Type};
use super::expr::Clause;
use super::scope::Scope;
use super::user_function::{Frame, signature};
use super::user_result::{mismatch, result_columns, wrong_columns};
use super::{Analyzer, Refusal, Result, unknown};
use crate::pg::types::oid;
use crate::pg::user_functions::UserFunction;
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// Analyses a body that is given as a text, which is being made.
///
/// # Errors
/// Those of its analysis; `42P13` for what the function cannot return.
pub(crate) fn check_body(
    names: &Names<'_>,
    function: &Arc<UserFunction>,
    statements: &[Statement],
) -> std::result::Result<(), SqlError> {
    let mut params = ParamTypes::new(0, &[]);
    let mut analyzer = Analyzer::new(names, "", &mut params);
    let mut check = || {
        analyzer.begin_making(function)?;
        let mut last: Option<Vec<Bound>> = None;
        for statement in statements {
            last = analyzer.columns_of_statement(statement, function)?;
        }
        analyzer.check_result(function, last)
    };
    check().map_err(Refusal::into_error)
}

/// Analyses the query of a standard body, which is being made; `stored`: as it is kept.
///
/// # Errors
/// As [`check_body`].
pub(crate) fn standard_body(
    names: &Names<'_>,
    function: &Arc<UserFunction>,
    query: &ast::Query,
    stored: bool,
) -> std::result::Result<super::Seen, SqlError> {
    let mut params = ParamTypes::new(0, &[]);
    let mut analyzer = Analyzer::new(names, "", &mut params);
    analyzer.views.seen = Some(super::Seen::default());
    analyzer.stored = stored;
    let mut check = || {
        analyzer.begin_making(function)?;
        let relation = analyzer.bind_query_untyped(query, &Scope::empty())?;
        let last = relation.columns.into_iter().map(|column| column.bound).collect();
        analyzer.check_result(function, Some(last))
    };
    check().map_err(Refusal::into_error)?;
    let mut seen = analyzer.views.seen.take().unwrap_or_default();
    seen.functions = std::mem::take(&mut analyzer.calls.resolved);
    Ok(seen)
}

/// Checks that an expression can be the default of a parameter of that type.
///
/// # Errors
/// Those of its analysis.
pub(crate) fn check_param_default(names: &Names<'_>, expr: &ast::Expr, ty: u32) -> std::result::Result<(), SqlError> {
    super::row::refuse_subqueries(expr, "DEFAULT expression")?;
    let mut params = ParamTypes::new(0, &[]);
    let mut analyzer = Analyzer::new(names, "", &mut params);
    analyzer.calls.only_types = true;
    analyzer.stored = true;
    let mut check = || {
        let bound = analyzer.expr(expr, &Scope::empty(), Clause::Default)?;
        analyzer.cast_as(bound, Type::of(ty), CastContext::Assignment).map(|_| ())
    };
    check().map_err(Refusal::into_error)
}

impl Analyzer<'_> {
    /// From here on what is analysed is the body of a function that is being made.
    fn begin_making(&mut self, function: &Arc<UserFunction>) -> Result<()> {
        let mut args = Vec::new();
        for param in function.definition.inputs() {
            let value = self.null(Type::of(param.ty))?;
            args.push(Bound { data: Type::of(param.ty).data(), ..value });
        }
        let params = self.passed(function, args, &|_| true).params;
        self.calls.within.push(Frame { function: Arc::clone(function), params });
        (self.calls.making, self.calls.only_types) = (true, true);
        Ok(())
    }

    /// What a statement of a body gives; `None`: no rows.
    fn columns_of_statement(&mut self, statement: &Statement, function: &UserFunction) -> Result<Option<Vec<Bound>>> {
        if let Some((with, write)) = crate::parse::with_write::parts(statement) {
            let mut scope = Scope::empty();
            if let Some(with) = with {
                let uses = super::once::Uses::of(with, write);
                self.with_clause(with, &uses, true, &mut scope)?;
            }
            let write = self.one_write(write, &scope)?;
            return Ok(write.returning.map(|list| {
                let columns = list.columns.into_iter().zip(list.data);
                columns.map(|((column, expr), data)| Bound::with_data(expr, column.ty, data)).collect()
            }));
        }
        let Statement::Query(query) = statement else {
            return unknown(format!("a statement of this kind in the body of function {}", signature(function)));
        };
        self.once.at_top = true;
        let relation = self.bind_query_untyped(query, &Scope::empty())?;
        Ok(Some(relation.columns.into_iter().map(|column| column.bound).collect()))
    }

    /// Whether that can be what a function returns.
    fn check_result(&mut self, function: &UserFunction, last: Option<Vec<Bound>>) -> Result<()> {
        if function.definition.result == oid::VOID {
            return Ok(());
        }
        let Some(last) = last else {
            let text = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.";
            return Err(mismatch(function, text).into());
        };
        let wanted = result_columns(function);
        if last.len() != wanted.len() {
            return Err(wrong_columns(function, last.len(), wanted.len()).into());
        }
        for (at, (bound, (_, ty))) in last.into_iter().zip(&wanted).enumerate() {
            self.result_column(function, bound, *ty, at, wanted.len())?;
        }
        Ok(())
    }
}
