//! Functions in FROM.
//!
//! A call is a SELECT of it from one row: its values are rows, its arguments may be columns of the items before it
//! and of outer queries.

use datafusion::common::TableReference;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Ident, Spanned, TableAlias};
use resurgam_dialect::Call;

use super::bound::{Bound, Relation, Type};
use super::coerce::{catalog, sql_error};
use super::expr::{Clause, function_name};
use super::from::From;
use super::scope::{Item, Scope, folded};
use super::select::{Target, project};
use super::{Analyzer, Result, unknown};
use crate::pg::types;
use crate::wire::SqlError;

/// An alias that is not written.
fn alias_of(name: &str) -> TableAlias {
    TableAlias { explicit: false, name: Ident::with_quote('"', name), columns: vec![], at: None }
}

impl Analyzer<'_> {
    /// A function in FROM, with the columns of `before` at hand.
    pub(super) fn function_item(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        ordinality: bool,
        alias: Option<&TableAlias>,
        scope: &Scope<'_>,
        before: &[Item],
    ) -> Result<From> {
        let Some((schema, function)) = function_name(name) else { return unknown("this kind of function name") };
        let mut around = scope.inner();
        around.outer = scope.outer;
        around.items = before.to_vec();
        let lateral = around.inner();
        let (bound, form) = self.arguments(args, &function, &lateral, Clause::From)?;
        if let Some(alias) = alias
            && alias.columns.iter().any(|column| column.data_type.is_some())
        {
            let error = SqlError::syntax("a column definition list is only allowed for functions returning \"record\"");
            return Err(self.at(error, alias.name.span));
        }
        let own = alias_of(&function);
        if function != "generate_series" && self.names.state.table_functions().contains_key(function.as_str()) {
            if ordinality || !bound.iter().all(|arg| crate::plan::access::is_constant(&arg.expr)) {
                return unknown(format!("this form of {function} in FROM"));
            }
            return self.table_function(&function, bound, alias.unwrap_or(&own));
        }
        // unnest(a, b) is unnest(a) beside unnest(b).
        let calls = match function == "unnest" && bound.len() > 1 {
            true => bound.into_iter().map(|arg| vec![arg]).collect(),
            false => vec![bound],
        };
        let several = calls.len() > 1;
        let mut targets = Vec::with_capacity(calls.len() + 1);
        for args in calls {
            let called = self.call_function(schema.as_deref(), &function, args, &form, name.span())?;
            let name = match (called.out_name, alias) {
                (Some(name), _) => name.to_owned(),
                (None, Some(alias)) if !several => folded(&alias.name),
                _ => function.clone(),
            };
            targets.push(Target { name, bound: called.bound, is_hidden: false });
        }
        let one = LogicalPlanBuilder::empty(true).build()?;
        let mut exprs: Vec<&mut Expr> = targets.iter_mut().map(|target| &mut target.bound.expr).collect();
        let (plan, _, number) = self.sets_of(one, &mut exprs, ordinality)?;
        if ordinality {
            let number = number.unwrap_or_else(|| datafusion::logical_expr::lit(1i64));
            let bound = Bound::new(number, Type::INT8);
            targets.push(Target { name: "ordinality".to_owned(), bound, is_hidden: false });
        }
        let relation = project(plan, &targets)?;
        self.derived(relation, alias.unwrap_or(&own), before)
    }

    /// One of the functions that the planner knows as tables.
    fn table_function(&mut self, function: &str, args: Vec<Bound>, alias: &TableAlias) -> Result<From> {
        let types: Vec<_> = args.iter().map(|arg| arg.ty.id()).collect();
        if let Err(error) = catalog().resolve_function(&Call::new(function, &types)) {
            return Err(self.at(sql_error(error), alias.name.span));
        }
        let args = args.into_iter().map(|arg| self.settled(arg).map(|arg| arg.expr)).collect::<Result<_>>()?;
        let source = {
            // Its errors are its own.
            let found = self.names.get_table_function_source(function, args);
            found.map_err(|error| crate::pg::errors::from_datafusion(error, self.text))?
        };
        let fields: Vec<(String, Type)> = source
            .schema()
            .fields()
            .iter()
            .map(|f| (f.name().clone(), Type { oid: types::field_oid(f), typmod: types::field_typmod(f) }))
            .collect();
        let scan = LogicalPlanBuilder::scan(TableReference::bare(function), source, None)?.build()?;
        let relation = Relation::of_plan(scan, fields);
        // The types that PostgreSQL says, whatever the function computes in.
        let exprs = relation.columns.iter().map(|column| {
            let data = column.bound.ty.data();
            let expr = column.bound.expr.clone();
            let expr = match column.bound.data == data {
                true => expr,
                false => datafusion::logical_expr::cast(expr, data),
            };
            expr.alias(&column.name)
        });
        let names: Vec<(String, Type)> = relation.columns.iter().map(|c| (c.name.clone(), c.bound.ty)).collect();
        let plan = LogicalPlanBuilder::from(relation.plan).project(exprs.collect::<Vec<_>>())?.build()?;
        self.derived(Relation::of_plan(plan, names), alias, &[])
    }
}
