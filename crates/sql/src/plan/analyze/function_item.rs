//! Functions in FROM.
//!
//! A call is a SELECT of it from one row: its values are rows, its arguments may be columns of the items before it
//! and of outer queries.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::TableReference;
use datafusion::logical_expr::expr::Unnest;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableSource};
use datafusion::sql::sqlparser::ast::{self, Ident, Spanned, TableAlias};
use resurgam_dialect::Call;

use super::bound::{Bound, Relation, Type};
use super::coerce::{catalog, sql_error};
use super::expr::{Clause, arguments, function_name};
use super::from::From;
use super::function::Called;
use super::json_record::by_definition_list;
use super::record::EXPANDED;
use super::scope::{Item, Scope, folded};
use super::select::{Target, project};
use super::{Analyzer, Result, unknown};
use crate::exec::record::fields_of_record;
use crate::parse::spelling::ROWS;
use crate::pg::types::{self, oid};
use crate::wire::SqlError;

/// The view that shows what a function gives.
fn view_of(function: &str) -> Option<&'static str> {
    Some(match function {
        "pg_show_all_settings" => "pg_settings",
        "pg_timezone_names" => "pg_timezone_names",
        "pg_timezone_abbrevs" => "pg_timezone_abbrevs",
        "pg_prepared_statement" => "pg_prepared_statements",
        "pg_cursor" => "pg_cursors",
        _ => return None,
    })
}

/// An alias that is not written.
fn alias_of(name: &str) -> TableAlias {
    TableAlias { explicit: false, name: Ident::with_quote('"', name), columns: vec![], at: None }
}

/// The arguments of each call that one is: `unnest(a, b)` is `unnest(a)` beside `unnest(b)`.
fn each_array(function: &str, args: Vec<Bound>) -> Vec<Vec<Bound>> {
    match function == "unnest" && args.len() > 1 {
        true => args.into_iter().map(|arg| vec![arg]).collect(),
        false => vec![args],
    }
}

/// A column of a function in FROM: the name that it has of its own, the function's, the values.
pub(super) type Column = (Option<String>, String, Bound);

/// The columns of a call: several if it returns records.
fn columns_of(called: Called, function: &str) -> Vec<Column> {
    let Some((fields, exprs)) = fields_of_record(&called.bound.expr).filter(|_| called.returns_set) else {
        return vec![(called.out_name.map(str::to_owned), function.to_owned(), called.bound)];
    };
    let column = |(field, expr): (&FieldRef, &Expr)| {
        let ty = Type { oid: types::field_oid(field), typmod: types::field_typmod(field) };
        let bound = Bound::with_data(expr.clone(), ty, field.data_type().clone());
        (Some(field.name().clone()), function.to_owned(), bound)
    };
    fields.iter().zip(exprs).map(column).collect()
}

/// Of a function of one array that gives a table: the array's type, and each column with the function that gives its values.
fn table_of_arrays(function: &str) -> Option<(u32, &'static [(&'static str, &'static str, u32)])> {
    match function {
        "pg_options_to_table" => Some((
            oid::TEXT_ARRAY,
            &[("option_name", "pg_pg_option_names", oid::TEXT), ("option_value", "pg_pg_option_values", oid::TEXT)],
        )),
        "aclexplode" => Some((
            oid::ACLITEM_ARRAY,
            &[
                ("grantor", "pg_pg_acl_grantor", oid::OID),
                ("grantee", "pg_pg_acl_grantee", oid::OID),
                ("privilege_type", "pg_pg_acl_privilege_type", oid::TEXT),
                ("is_grantable", "pg_pg_acl_is_grantable", oid::BOOL),
            ],
        )),
        _ => None,
    }
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
        if schema.is_none() && function == ROWS {
            return self.rows_from(args, ordinality, alias, scope, before);
        }
        let mut around = scope.inner();
        around.outer = scope.outer;
        around.items = before.to_vec();
        let lateral = around.inner();
        let (bound, form) = self.arguments(args, &function, &lateral, Clause::From)?;
        if schema.as_deref() == Some("information_schema")
            && function == EXPANDED
            && let [array] = bound.as_slice()
        {
            let columns = self.expanded_columns(array.clone(), name.span())?;
            let columns = columns.into_iter().map(|(column, bound)| (Some(column), function.clone(), bound));
            return self.sets_item(columns.collect(), ordinality, alias, before);
        }
        if by_definition_list(&function).is_some() && form.names.is_empty() {
            return self.record_item(&function, bound, ordinality, alias, before, name.span());
        }
        if let Some(alias) = alias
            && alias.columns.iter().any(|column| column.data_type.is_some())
        {
            let error = SqlError::syntax("a column definition list is only allowed for functions returning \"record\"");
            return Err(self.at(error, alias.name.span));
        }
        let own = alias_of(&function);
        if function != "generate_series" && self.names.state.table_functions().contains_key(function.as_str()) {
            if ordinality || !bound.iter().all(|arg| crate::exec::access_path::is_constant(&arg.expr)) {
                return unknown(format!("this form of {function} in FROM"));
            }
            return self.table_function(&function, bound, alias.unwrap_or(&own));
        }
        if let Some((array, columns)) = table_of_arrays(&function)
            && bound.len() == 1
        {
            return self.table_of_arrays(&function, bound, (array, columns), ordinality, alias, before);
        }
        if function == "pg_identify_object" && bound.len() == 3 && !ordinality {
            return self.identified(bound, alias, before);
        }
        if let Some(view) = view_of(&function)
            && bound.is_empty()
            && !ordinality
            && matches!(schema.as_deref(), None | Some("pg_catalog"))
        {
            let source = self.names.get_table_source(TableReference::partial("pg_catalog", view))?;
            return self.source_item(&function, source, alias.unwrap_or(&own));
        }
        let mut targets = Vec::with_capacity(2);
        for args in each_array(&function, bound) {
            let called = self.called(schema.as_deref(), &function, args, &form, name.span())?;
            if let Some((user, args)) = self.set_in_from(name, &called).filter(|_| !ordinality) {
                return self.user_item(&user, args, alias, &own, before);
            }
            let called = match called.user {
                // Its one OUT parameter names the column.
                Some((user, args)) => Called { out_name: called.out_name, ..self.user_call(user, args, name.span())? },
                None => called,
            };
            targets.extend(columns_of(called, &function));
        }
        self.sets_item(targets, ordinality, alias, before)
    }

    /// A function of an array that gives a table: its columns side by side.
    fn table_of_arrays(
        &mut self,
        function: &str,
        args: Vec<Bound>,
        (array, columns): (u32, &[(&str, &str, u32)]),
        ordinality: bool,
        alias: Option<&TableAlias>,
        before: &[Item],
    ) -> Result<From> {
        let args = args.into_iter().map(|arg| match arg.ty.is_unknown() || array == oid::ACLITEM_ARRAY {
            true => self.implicit(arg, Type::of(array)),
            false => Ok(arg),
        });
        let args = args.collect::<Result<Vec<_>>>()?;
        let mut targets = Vec::with_capacity(columns.len());
        for (column, part, ty) in columns {
            let Some(udf) = self.names.state.scalar_functions().get(*part).cloned() else { return unknown(function) };
            let (list, data) = self.call_udf(&udf, args.clone())?;
            let DataType::List(item) = &data else { return unknown(function) };
            let expr = Expr::Unnest(Unnest { expr: Box::new(list), outer: false });
            let bound = Bound::with_data(expr, Type::of(*ty), item.data_type().clone());
            targets.push((Some((*column).to_owned()), (*part).to_owned(), bound));
        }
        self.sets_item(targets, ordinality, alias, before)
    }

    /// `pg_identify_object`: kind, schema, name and identity of an object.
    fn identified(&mut self, args: Vec<Bound>, alias: Option<&TableAlias>, before: &[Item]) -> Result<From> {
        let args = args.into_iter().zip([oid::OID, oid::OID, oid::INT4]);
        let args = args.map(|(arg, ty)| self.implicit(arg, Type::of(ty))).collect::<Result<Vec<_>>>()?;
        let mut targets = Vec::with_capacity(4);
        for column in ["type", "schema", "name", "identity"] {
            let function = format!("pg_pg_identify_object_{column}");
            let bound = self.call_named(&function, args.clone(), Type::TEXT)?;
            targets.push((Some(column.to_owned()), function, bound));
        }
        self.sets_item(targets, false, alias, before)
    }

    /// `ROWS FROM (f(), g())`: the rows of each side by side, with NULLs where one has no more.
    fn rows_from(
        &mut self,
        calls: &[ast::FunctionArg],
        ordinality: bool,
        alias: Option<&TableAlias>,
        scope: &Scope<'_>,
        before: &[Item],
    ) -> Result<From> {
        let mut around = scope.inner();
        around.outer = scope.outer;
        around.items = before.to_vec();
        let lateral = around.inner();
        let mut targets = Vec::with_capacity(calls.len() + 1);
        for call in calls {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(call))) = call else {
                return unknown("this form of ROWS FROM");
            };
            let plain = call.over.is_none()
                && call.filter.is_none()
                && call.within_group.is_empty()
                && call.null_treatment.is_none()
                && matches!(call.parameters, ast::FunctionArguments::None);
            let (Some((schema, function)), Some(list), true) = (function_name(&call.name), arguments(call), plain)
            else {
                return unknown("this form of ROWS FROM");
            };
            if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
                return unknown("this form of ROWS FROM");
            }
            if function != "generate_series" && self.names.state.table_functions().contains_key(function.as_str()) {
                return unknown(format!("{function} in ROWS FROM"));
            }
            let (bound, form) = self.arguments(&list.args, &function, &lateral, Clause::From)?;
            for args in each_array(&function, bound) {
                let called = self.call_named_so(&call.name, (schema.as_deref(), &function), args, &form)?;
                if !called.returns_set {
                    return unknown("a function that returns no set in ROWS FROM");
                }
                targets.extend(columns_of(called, &function));
            }
        }
        self.sets_item(targets, ordinality, alias, before)
    }

    /// Sets side by side, each with its column's name if it has one and its function's.
    pub(super) fn sets_item(
        &mut self,
        sets: Vec<Column>,
        ordinality: bool,
        alias: Option<&TableAlias>,
        before: &[Item],
    ) -> Result<From> {
        let several = sets.len() > 1;
        let own = alias_of(sets.first().map_or("", |(_, function, _)| function.as_str()));
        let mut targets = Vec::with_capacity(sets.len() + 1);
        for (out_name, function, bound) in sets {
            let name = match (out_name, alias) {
                (Some(name), _) => name,
                (None, Some(alias)) if !several => folded(&alias.name),
                _ => function,
            };
            targets.push(Target { name, bound, is_hidden: false });
        }
        let one = LogicalPlanBuilder::empty(true).build()?;
        let mut exprs: Vec<&mut Expr> = targets.iter_mut().map(|target| &mut target.bound.expr).collect();
        let (plan, _, number) = self.sets_of(one, &mut exprs, ordinality, true)?;
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
        let args = args.into_iter().map(|arg| self.or_text(arg).map(|arg| arg.expr)).collect::<Result<_>>()?;
        let source = {
            // Its errors are its own.
            let found = self.names.get_table_function_source(function, args);
            found.map_err(|error| crate::pg::errors::from_datafusion(error, self.text))?
        };
        self.source_item(function, source, alias)
    }

    /// All that a table has, under the name of a function.
    fn source_item(&mut self, function: &str, source: Arc<dyn TableSource>, alias: &TableAlias) -> Result<From> {
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
