//! Calls of functions that stand alone in their statement: `SELECT f(1)`, `SELECT * FROM f(1)`.
//!
//! A body that is one query takes the place of its call, wherever that is (`analyze::user_function`). Any other (several
//! statements, INSERT, UPDATE, DELETE, a function that returns `void`) is run, statement by statement, when the call is all that
//! its statement does: the arguments are computed once, and are the parameters of each statement of the body. What the last
//! one gives is the result. Each sees what those before it have done; an error takes all of it back with the statement.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, SelectItem, Statement, TableFactor};

use crate::parse::shape::bare_select;
use crate::pg::errors;
use crate::pg::types::{self, oid};
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types;
use crate::plan::analyze::{self, Type, result_columns};
use crate::plan::planner::{Names, QueryPlan};
use crate::plan::statement::{BodyStatement, For, Kind, ParamTypes, Prepared, prepare_within, query_kind};
use crate::wire::{Field, SqlError};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct CallPlan {
    pub function: Arc<UserFunction>,
    /// A query of one row; `None`: there are no arguments.
    pub args: Option<Arc<Prepared>>,
    pub statements: Vec<Arc<Prepared>>,
    pub fields: Arc<[Field]>,
}

impl CallPlan {
    pub(crate) fn bytes(&self) -> usize {
        self.statements.iter().chain(&self.args).map(|statement| statement.bytes).sum()
    }

    /// What it gives is nothing.
    pub(crate) fn is_void(&self) -> bool {
        self.function.definition.result == oid::VOID
    }
}

/// A call that is all that a query does.
pub(crate) struct Written<'q> {
    pub name: &'q ast::ObjectName,
    pub args: &'q [ast::FunctionArg],
    /// Of the column, or of the item in FROM.
    alias: Option<String>,
    in_from: bool,
}

fn folded(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn written(query: &ast::Query) -> Option<Written<'_>> {
    let select = bare_select(query)?;
    let [item] = select.projection.as_slice() else { return None };
    match (item, select.from.as_slice()) {
        (SelectItem::UnnamedExpr(ast::Expr::Function(call)), []) => of_expr(call, None),
        (SelectItem::ExprWithAlias { expr: ast::Expr::Function(call), alias }, []) => {
            of_expr(call, Some(folded(alias)))
        }
        (SelectItem::Wildcard(options), [from]) if from.joins.is_empty() && options.to_string().is_empty() => {
            let (name, args, alias) = match &from.relation {
                TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } => {
                    (name, args.args.as_slice(), alias)
                }
                TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
                    (name, args.as_slice(), alias)
                }
                _ => return None,
            };
            let alias = match alias {
                Some(alias) if !alias.columns.is_empty() => return None,
                Some(alias) => Some(folded(&alias.name)),
                None => None,
            };
            Some(Written { name, args, alias, in_from: true })
        }
        _ => None,
    }
}

fn of_expr(call: &ast::Function, alias: Option<String>) -> Option<Written<'_>> {
    let plain = call.over.is_none()
        && call.filter.is_none()
        && call.within_group.is_empty()
        && call.null_treatment.is_none()
        && !call.uses_odbc_syntax
        && matches!(call.parameters, ast::FunctionArguments::None);
    match &call.args {
        ast::FunctionArguments::List(list)
            if plain && list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
        {
            Some(Written { name: &call.name, args: &list.args, alias, in_from: false })
        }
        _ => None,
    }
}

/// Fields of the result.
fn fields_of(function: &UserFunction, call: &Written<'_>) -> Result<Arc<[Field]>, SqlError> {
    let columns = result_columns(function);
    let is_table = function.definition.columns().next().is_some();
    if !call.in_from && columns.len() != 1 {
        let text = format!("a row of function {} as a value is not supported", function.definition.signature());
        return Err(SqlError::unsupported(text));
    }
    let field = |(name, ty): (String, Type)| {
        let name = match &call.alias {
            Some(alias) if !(call.in_from && is_table) => alias.clone(),
            _ if !call.in_from => function.name().to_owned(),
            _ => name,
        };
        match ty.oid {
            oid::VOID => Field { name, type_oid: oid::VOID, type_len: 4, typmod: -1, table_oid: 0, column: 0 },
            _ => types::wire_field(&ty.field(&name, &ty.data()), 0, 0),
        }
    };
    Ok(columns.into_iter().map(field).collect())
}

/// The plan of a query that is nothing but a call whose body is more than a query; `None`: it is something else.
///
/// # Errors
/// Those of analysis.
pub(crate) fn of_alone(
    names: &Names<'_>,
    query: &ast::Query,
    text: &str,
    params: &mut ParamTypes,
    catalog_version: u64,
) -> Result<Option<CallPlan>, SqlError> {
    if user_types::current().is_none_or(|types| types.functions().is_empty()) {
        return Ok(None);
    }
    let Some(call) = written(query) else { return Ok(None) };
    let mut own = params.clone();
    let Some((function, args, statements)) = analyze::call_alone(names, &call, text, &mut own)? else {
        return Ok(None);
    };
    let fields = fields_of(&function, &call)?;
    let mut planned = None;
    if let Some(mut args) = args {
        let mut prepared = Prepared::new(text, Kind::Empty, catalog_version);
        prepared.needs = std::mem::take(&mut args.needs);
        let plan = QueryPlan::analyzed(names.state, args, own.data_types())
            .map_err(|error| errors::from_datafusion(error, text))?;
        prepared.param_oids = own.oids();
        prepared.kind = Kind::Query(query_kind(names, plan, None));
        prepared.bytes = crate::plan::plans::bytes_of(&prepared);
        planned = Some(Arc::new(prepared));
    }
    let types = function.definition.input_types();
    let count = statements.len();
    let mut all = Vec::with_capacity(count);
    for (at, statement) in statements.into_iter().enumerate() {
        let shown = statement.to_string();
        if !matches!(statement, Statement::Query(_)) && function.definition.volatility.letter() != 'v' {
            let word = shown.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
            return Err(SqlError::unsupported(format!("{word} is not allowed in a non-volatile function")));
        }
        let body = BodyStatement { function: Arc::clone(&function), is_last: at + 1 == count };
        let prepared = prepare_within(names, Some(statement), &shown, &types, catalog_version, For::Body(body));
        all.push(Arc::new(prepared.map_err(|mut error| {
            // In another text.
            error.position = None;
            error
        })?));
    }
    *params = own;
    Ok(Some(CallPlan { function, args: planned, statements: all, fields }))
}
