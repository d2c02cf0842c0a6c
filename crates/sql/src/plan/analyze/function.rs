//! Function calls.
//!
//! The dialect's tables choose the function; it is computed by what the session has registered under
//! its name. What PostgreSQL has and nobody has registered is `0A000`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{ScalarFunction, Unnest};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{Expr, ReturnFieldArgs, ScalarUDF, cast};
use datafusion::sql::sqlparser::ast::{self, DuplicateTreatment, FunctionArguments, Spanned};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_dialect::{Call, CallKind, CastContext, FIRST_EXTENSION_OID, FIRST_OWN_OID, TypeId, Variadic};

use super::bound::{Bound, Type};
use super::coerce::{catalog, is_shown_in_zone, sql_error};
use super::expr::{Clause, arguments, function_name, plain_args};
use super::scope::{Scope, folded};
use super::{Analyzer, Result, unknown};
use crate::parse::names::no_schema;
use crate::pg::definition::cast_function_oid;
use crate::pg::functions::{is_by_source, numeric, series_call_name};
use crate::pg::types::{self, oid};
use crate::pg::user_functions::{UserFunction, marked};
use crate::plan::lookup::has_schema;
use crate::plan::needs::denied;
use crate::wire::SqlError;

/// A bound call.
pub(super) struct Called {
    pub bound: Bound,
    pub returns_set: bool,
    /// Of its result, if the function has one.
    pub out_name: Option<&'static str>,
    /// It is of a function that a user made, with these arguments; `bound` is nothing yet.
    pub user: Option<(Arc<UserFunction>, Vec<Bound>)>,
}

/// What is written around the arguments of a call.
#[derive(Default)]
pub(super) struct CallForm {
    /// Names of the last arguments.
    pub(super) names: Vec<String>,
    /// The last argument is an array of arguments: VARIADIC is written before it.
    pub(super) variadic: bool,
}

/// Of a function that PostgreSQL has and nobody has registered.
fn not_computed(name: &str, args: &[Bound]) -> String {
    let types: Vec<String> = args.iter().map(|arg| arg.ty.name()).collect();
    format!("function {name}({}) is not supported", types.join(", "))
}

/// Functions that are no function of SQL: definitions of earlier versions have casts in this form.
fn is_own(name: &str) -> bool {
    name.starts_with("pg_cast_") || name == "pg_array_or_empty"
}

impl Analyzer<'_> {
    /// A call in an expression.
    pub(super) fn function(&mut self, function: &ast::Function, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        let span = function.name.span();
        let Some((schema, name)) = function_name(&function.name) else { return unknown("this kind of function name") };
        if !matches!(function.parameters, FunctionArguments::None) || function.uses_odbc_syntax {
            return unknown("this form of call");
        }
        if name == "array"
            && let FunctionArguments::Subquery(query) = &function.args
        {
            return self.array_of_rows(query, scope, clause, span);
        }
        if function.over.is_some() {
            return self.window_call(function, &name, scope, clause);
        }
        let no_list = ast::FunctionArgumentList { duplicate_treatment: None, args: vec![], clauses: vec![] };
        let list = match &function.args {
            FunctionArguments::List(_) => arguments(function).unwrap_or(&no_list),
            FunctionArguments::None => {
                return match name.as_str() {
                    "current_role" | "user" => self.call("current_user", vec![], span),
                    "current_catalog" => self.call("current_database", vec![], span),
                    "current_date" | "current_time" | "current_timestamp" | "localtime" | "localtimestamp" => {
                        self.call_special(&name, span)
                    }
                    _ => self.call(&name, vec![], span),
                };
            }
            FunctionArguments::Subquery(_) => return unknown("a subquery as a function's arguments"),
        };
        if schema.is_none() {
            match name.as_str() {
                "coalesce" | "greatest" | "least" => {
                    let seen = self.sets;
                    let args = self.plain(list, scope, clause, &name)?;
                    if name == "coalesce" {
                        self.no_sets_since(seen, "set-returning functions are not allowed in COALESCE")?;
                    }
                    let refs: Vec<&Bound> = args.iter().collect();
                    if refs.is_empty() {
                        return Err(self.at(SqlError::syntax("syntax error: no arguments"), span));
                    }
                    let common = self.common_type(&refs, &name.to_uppercase())?;
                    if name != "coalesce" {
                        self.check_elements(common, true, span)?;
                    }
                    return Ok(self.of_one_type(&name, args, common)?.at(span));
                }
                "nullif" => {
                    let args = self.plain(list, scope, clause, &name)?;
                    return self.nullif(args, span);
                }
                "grouping" => {
                    let Some(args) = plain_args(list) else { return unknown("this form of GROUPING") };
                    return self.grouping(&args, scope);
                }
                "current_date" | "current_time" | "current_timestamp" | "localtime" | "localtimestamp" => {
                    let bound = self.call_special(&name, span)?;
                    let digits = match list.args.as_slice() {
                        [] => return Ok(bound),
                        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(value)))] => {
                            match &value.value {
                                ast::Value::Number(digits, _) => digits.parse::<i32>().ok(),
                                _ => None,
                            }
                        }
                        _ => None,
                    };
                    let Some(digits) = digits else {
                        return Err(self.at(SqlError::syntax(format!("syntax error at or near \"{name}\"")), span));
                    };
                    let to = Type { typmod: if digits < 6 { digits } else { -1 }, ..bound.ty };
                    return self.cast_as(bound, to, CastContext::Explicit);
                }
                _ => {}
            }
        }
        if schema.as_deref() == Some("information_schema") && name == super::record::EXPANDED {
            return self.expanded_array(list, scope, clause, span);
        }
        if schema.is_none() && name == "row" {
            return self.row_with_wildcards(list, scope, clause, span);
        }
        if let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(last)))) = list.args.last()
            && function_name(&last.name).is_some_and(|(_, name)| name == crate::parse::spelling::VARIADIC)
        {
            let schema = schema.as_deref();
            let known = crate::pg::user_types::current();
            if schema.and_then(marked).is_some()
                || known.is_some_and(|known| known.functions_named(schema, &name).next().is_some())
            {
                return self.plain_call(function, (schema, &name), list, scope, clause);
            }
            return self.variadic_call(&name, list, last, scope, clause, span);
        }
        if schema.as_deref().and_then(marked).is_some() {
            return self.plain_call(function, (schema.as_deref(), &name), list, scope, clause);
        }
        if let Some(all) = self.percentiles(function, &name, list, scope, clause)? {
            return Ok(all.at(span));
        }
        if let Some(rank) = self.hypothetical(function, &name, list, scope, clause)? {
            return Ok(rank.at(span));
        }
        if self.is_aggregate(&name) {
            return self.aggregate_call(function, &name, list, scope, clause);
        }
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) && self.is_function(&name) {
            let message = format!("DISTINCT specified, but {name} is not an aggregate function");
            return Err(self.at(SqlError::new("42809", message), span));
        }
        if function.filter.is_some() && self.is_function(&name) {
            let message = format!("FILTER specified, but {name} is not an aggregate function");
            return Err(self.at(SqlError::new("42809", message), span));
        }
        if !list.clauses.is_empty() || !function.within_group.is_empty() || function.null_treatment.is_some() {
            return unknown("this form of call");
        }
        self.plain_call(function, (schema.as_deref(), &name), list, scope, clause)
    }

    /// A call of a function of one row's values, or one that returns a set.
    fn plain_call(
        &mut self,
        function: &ast::Function,
        (schema, name): (Option<&str>, &str),
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let (args, form) = self.arguments(&list.args, name, scope, clause)?;
        let called = self.call_named_so(&function.name, (schema, name), args, &form)?;
        if called.returns_set {
            self.see_set(clause, function.name.span())?;
        }
        Ok(called.bound)
    }

    /// `f(a, VARIADIC array)`, of functions that take any number of arguments.
    fn variadic_call(
        &mut self,
        name: &str,
        list: &ast::FunctionArgumentList,
        last: &ast::Function,
        scope: &Scope<'_>,
        clause: Clause,
        span: Span,
    ) -> Result<Bound> {
        let last = arguments(last).and_then(plain_args).unwrap_or_default();
        let [array] = last.as_slice() else { return unknown("this form of VARIADIC") };
        let array: &ast::Expr = array;
        let before = ast::FunctionArgumentList { args: list.args[..list.args.len() - 1].to_vec(), ..list.clone() };
        let mut args = self.plain(&before, scope, clause, name)?;
        // What stands before VARIADIC are the parameters before the last.
        let fixed = match name {
            "concat" | "num_nulls" | "num_nonnulls" | "json_build_array" | "json_build_object"
            | "jsonb_build_array" | "jsonb_build_object" => Some(0),
            "concat_ws" | "format" => Some(1),
            _ => None,
        };
        if fixed.is_some_and(|fixed| fixed != args.len()) {
            let message = format!("function {name} with VARIADIC in that place does not exist");
            return Err(self.at(SqlError::new("42883", message), span));
        }
        if let ast::Expr::Array(elements) = super::condition::bare(array)
            && matches!(
                name,
                "concat"
                    | "concat_ws"
                    | "format"
                    | "num_nulls"
                    | "num_nonnulls"
                    | "json_build_array"
                    | "json_build_object"
            )
            && !elements.elem.is_empty()
            && !elements.elem.iter().any(|e| matches!(super::condition::bare(e), ast::Expr::Array(_)))
        {
            let bound = elements.elem.iter().map(|e| self.expr(e, scope, clause)).collect::<Result<Vec<_>>>()?;
            let common = self.common_type(&bound.iter().collect::<Vec<_>>(), "ARRAY")?;
            for element in bound {
                let element = self.implicit(element, common)?;
                args.push(self.or_text(element)?);
            }
            return self.call(name, args, span);
        }
        let array = self.expr(array, scope, clause)?;
        if catalog().element_type(array.ty.id()).is_none() {
            return Err(self.at(SqlError::new("42804", "VARIADIC argument must be an array"), array.span));
        }
        match (name, args.len()) {
            // Both leave NULLs out.
            ("concat", 0) => {
                let nothing = self.text_constant("");
                self.call("array_to_string", vec![array, nothing], span)
            }
            ("concat_ws", 1) => {
                let separator = args.remove(0);
                self.call("array_to_string", vec![array, separator], span)
            }
            ("json_build_array" | "json_build_object" | "jsonb_build_array" | "jsonb_build_object", 0) => {
                self.json_of_elements(name, array, span)
            }
            ("format", 1) => {
                let pattern = self.or_text(args.remove(0))?;
                let pattern = self.implicit(pattern, Type::TEXT)?;
                let array = match is_shown_in_zone(array.ty.oid) {
                    true => self.cast_as(array, Type::of(oid::TEXT_ARRAY), CastContext::Explicit)?,
                    false => self.by_name(array)?,
                };
                let args = self.mixed_elements(vec![pattern, array])?;
                Ok(self.call_named("pg_format_elements", args, Type::TEXT)?.at(span))
            }
            _ => unknown(format!("VARIADIC in a call of {name}")),
        }
    }

    fn is_function(&self, name: &str) -> bool {
        super::coerce::builtin().functions_named(resurgam_dialect::Schema::PgCatalog, name).next().is_some()
    }

    fn plain(
        &mut self,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
        name: &str,
    ) -> Result<Vec<Bound>> {
        let Some(args) = plain_args(list) else {
            return Err(SqlError::syntax(format!("bad arguments of {name}")).into());
        };
        args.into_iter().map(|arg| self.expr(arg, scope, clause)).collect()
    }

    /// The arguments of a call, bound.
    pub(super) fn arguments(
        &mut self,
        args: &[ast::FunctionArg],
        name: &str,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<(Vec<Bound>, CallForm)> {
        use ast::{FunctionArg as A, FunctionArgExpr as E};
        let mut bound = Vec::with_capacity(args.len());
        let mut form = CallForm::default();
        for (at, arg) in args.iter().enumerate() {
            let (expr, mut named) = match arg {
                A::Unnamed(E::Expr(expr)) => (expr, None),
                A::Named { name, arg: E::Expr(expr), .. } => (expr, Some(folded(name))),
                A::ExprNamed { name: ast::Expr::Identifier(name), arg: E::Expr(expr), .. } => {
                    (expr, Some(folded(name)))
                }
                A::Unnamed(E::Wildcard) => {
                    let message = format!("{name}(*) specified, but {name} is not an aggregate function");
                    return Err(SqlError::new("42809", message).into());
                }
                A::Unnamed(E::QualifiedWildcard(item)) if form.names.is_empty() => {
                    bound.push(self.wildcard_value(scope, item)?);
                    continue;
                }
                _ => return unknown(format!("this form of the arguments of {name}")),
            };
            let expr = match expr {
                ast::Expr::Function(array)
                    if function_name(&array.name).is_some_and(|(_, name)| name == crate::parse::spelling::VARIADIC) =>
                {
                    let inner = arguments(array).map_or(&[][..], |list| &list.args);
                    let (array, name) = match inner {
                        [A::Unnamed(E::Expr(array))] => (array, None),
                        [A::Named { name, arg: E::Expr(array), .. }] => (array, Some(name)),
                        [A::ExprNamed { name: ast::Expr::Identifier(name), arg: E::Expr(array), .. }] => {
                            (array, Some(name))
                        }
                        _ => return unknown("this form of VARIADIC"),
                    };
                    if at + 1 != args.len() {
                        return unknown("this form of VARIADIC");
                    }
                    form.variadic = true;
                    named = name.map(folded).or(named);
                    array
                }
                expr => expr,
            };
            let is_named = named.is_some();
            match named {
                Some(name) => form.names.push(name),
                None if !form.names.is_empty() => {
                    let error = SqlError::syntax("positional argument cannot follow named argument");
                    return Err(self.at(error, expr.span()));
                }
                None => {}
            }
            let arg = self.expr(expr, scope, clause)?;
            // As in PostgreSQL: what stands for a result is no argument.
            let is_void = matches!(&arg.expr, Expr::Placeholder(param) if self.params.is_void(&param.id));
            if !is_void || is_named {
                bound.push(arg);
            }
        }
        Ok((bound, form))
    }

    /// A call of a function by its plain name.
    pub(super) fn call(&mut self, name: &str, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let called = self.call_function(None, name, args, &CallForm::default(), span)?;
        match called.returns_set {
            true => unknown("a function that returns a set here"),
            false => Ok(called.bound),
        }
    }

    /// `CURRENT_DATE` and its kin.
    pub(super) fn call_special(&mut self, word: &str, span: Span) -> Result<Bound> {
        let ty = match word {
            "current_date" => Type::of(oid::DATE),
            "current_time" => Type::of(oid::TIMETZ),
            "current_timestamp" => Type::of(oid::TIMESTAMPTZ),
            "localtime" => Type::of(oid::TIME),
            _ => Type::of(oid::TIMESTAMP),
        };
        let name = if word == "current_timestamp" { "now" } else { word };
        self.is_mutable = true;
        Ok(self.call_named(name, vec![], ty)?.at(span))
    }

    /// A call, computed.
    pub(super) fn call_function(
        &mut self,
        schema: Option<&str>,
        name: &str,
        args: Vec<Bound>,
        form: &CallForm,
        span: Span,
    ) -> Result<Called> {
        let called = self.called(schema, name, args, form, span)?;
        match called.user {
            Some((function, args)) => self.user_call(function, args, span),
            None => Ok(called),
        }
    }

    /// A call; of a function that a user made only what it is.
    pub(super) fn called(
        &mut self,
        schema: Option<&str>,
        name: &str,
        args: Vec<Bound>,
        form: &CallForm,
        span: Span,
    ) -> Result<Called> {
        // What has no PostgreSQL name is among its own.
        let schema = schema.filter(|schema| *schema != "sys");
        // A definition says which function it means.
        let known = schema.and_then(marked);
        let schema = schema.filter(|_| known.is_none());
        if let Some(schema) = schema
            && !has_schema(self.names.txn, schema)?
        {
            return Err(self.at(no_schema(schema), span));
        }
        let stored = self.stored || self.is_within_view();
        if let Some(schema) = schema
            && !stored
            && self.names.cx.rights()?.is_hidden(self.names.cx.role(), schema)
        {
            return Err(self.at(denied("schema", schema), span));
        }
        if known.is_none() && is_own(name) {
            return self.own_function(name, args, span);
        }
        // Definitions keep these words as calls.
        let name = match name {
            name if known.is_some() => name,
            "user" | "current_role" if args.is_empty() => "current_user",
            "current_catalog" if args.is_empty() => "current_database",
            "current_date" | "current_time" | "current_timestamp" | "localtime" | "localtimestamp"
                if args.is_empty() =>
            {
                return Ok(Called {
                    bound: self.call_special(name, span)?,
                    returns_set: false,
                    out_name: None,
                    user: None,
                });
            }
            name => name,
        };
        if name != "pg_typeof" && !super::json::is_json_builder(name) {
            for arg in &args {
                super::record::refuse_record(arg, &format!("the function {name}"))?;
            }
        }
        let args = match name {
            "concat" | "concat_ws" | "format" => {
                // The first of these two is a text by its declaration, and such a value is none by itself.
                let texts = usize::from(name != "concat");
                let shown = |(at, arg): (usize, Bound)| match () {
                    () if at < texts => Ok(arg),
                    () if arg.ty.oid == oid::CITEXT => self.citext_text(arg),
                    () if is_shown_in_zone(arg.ty.oid) => self.cast_as(arg, Type::TEXT, CastContext::Explicit),
                    () => self.by_name(arg),
                };
                args.into_iter().enumerate().map(shown).collect::<Result<Vec<_>>>()?
            }
            _ if super::json::is_json_builder(name) => {
                args.into_iter().map(|arg| self.citext_text(arg)).collect::<Result<Vec<_>>>()?
            }
            "array_to_string" => {
                let mut args = args;
                if let Some(first) = args.first_mut().filter(|arg| is_shown_in_zone(arg.ty.oid)) {
                    *first = self.cast_as(first.clone(), Type::of(oid::TEXT_ARRAY), CastContext::Explicit)?;
                }
                if let Some(first) = args.first_mut() {
                    *first = self.by_name(first.clone())?;
                }
                args
            }
            // In PostgreSQL they are functions in SQL with a cast in them, but for texts: of which type the arguments are says
            // which is meant, or that none is.
            "quote_literal" | "quote_nullable" => {
                let types: Vec<TypeId> = args.iter().map(|arg| arg.ty.id()).collect();
                let call = Call { schema, stored, oid: known, ..Call::new(name, &types) };
                if let Err(error) = catalog().resolve_function(&call) {
                    return Err(self.at(sql_error(error), span));
                }
                let text = |arg: Bound| match arg.ty.is_unknown() {
                    true => Ok(arg),
                    false => self.cast_as(arg, Type::TEXT, CastContext::Explicit),
                };
                args.into_iter().map(text).collect::<Result<Vec<_>>>()?
            }
            _ => args,
        };
        // A constant without a type is passed as a text, and is none.
        let is_untyped = |arg: &Bound| arg.ty.is_unknown() && matches!(arg.expr, Expr::Literal(..));
        let is_unknown = name == "pg_typeof" && args.first().is_some_and(is_untyped);
        let types: Vec<TypeId> = args.iter().map(|arg| arg.ty.id()).collect();
        let is_parameter = matches!(args.as_slice(), [Bound { expr: Expr::Placeholder(_), .. }]);
        let arg_names: Vec<&str> = form.names.iter().map(String::as_str).collect();
        let variadic = form.variadic;
        let call = Call {
            schema,
            stored,
            is_parameter,
            arg_names: &arg_names,
            oid: known,
            variadic,
            ..Call::new(name, &types)
        };
        let tables = catalog();
        let resolved = tables.resolve_function(&call);
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        let function = match &resolved.kind {
            CallKind::Function(function) => *function,
            CallKind::Cast(plan) => {
                let to = Type { oid: plan.ty.0, typmod: plan.typmod };
                let Some(arg) = args.into_iter().next() else { return unknown("a cast of nothing") };
                let bound = self.cast_as(arg, to, CastContext::Explicit)?;
                return Ok(Called { bound: bound.at(span), returns_set: false, out_name: None, user: None });
            }
            CallKind::Window(_) => {
                let message = format!("window function {name} requires an OVER clause");
                return Err(self.at(SqlError::new("42P20", message), span));
            }
            CallKind::Aggregate(..) | CallKind::Procedure(_) => return unknown(format!("{name} here")),
        };
        let user = self.user_function(function.oid);
        if user.is_none() {
            self.note_function(function.oid);
        }
        let mut typed = Vec::with_capacity(args.len());
        for (arg, to) in args.into_iter().zip(&resolved.args) {
            let arg = match arg.ty.oid == to.0 {
                true => arg,
                false => self.implicit(arg, Type::of(to.0))?,
            };
            typed.push(self.or_text(arg)?);
        }
        if let Some(user) = user {
            self.needs_function(&user);
            if let Some(Variadic::Collect { first, element, array }) = resolved.variadic {
                typed = self.collected(typed, first, (element, array))?;
            }
            let args = self.with_defaults(&user, typed, resolved.positions.as_deref())?;
            let (bound, returns_set) = (self.null(Type::TEXT)?, resolved.returns_set);
            let out_name = match function.out_columns().as_slice() {
                [(name, _)] if !name.is_empty() => Some(*name),
                _ => None,
            };
            return Ok(Called { bound, returns_set, out_name, user: Some((user, args)) });
        }
        if form.variadic {
            return unknown(format!("VARIADIC in a call of {name}"));
        }
        if let Some(positions) = &resolved.positions {
            typed = self.in_place(typed, positions, &resolved.defaults)?;
        } else if name.starts_with("jsonb_path_") {
            // Others know what they do without them.
            let positions: Vec<usize> = (0..typed.len()).collect();
            typed = self.in_place(typed, &positions, &resolved.defaults)?;
        }
        match resolved.variadic {
            Some(Variadic::Collect { first, element, array }) => {
                typed = self.collected(typed, first, (element, array))?;
            }
            Some(Variadic::Array) => return unknown(format!("VARIADIC arguments of {name}")),
            Some(Variadic::Any { .. }) | None => {}
        }
        let result = Type::of(resolved.result.0);
        if result.oid == oid::RECORD {
            if super::json_record::by_definition_list(name).is_some() {
                let error = SqlError::unsupported(format!("could not determine row type for result of {name}"))
                    .with_hint("Provide a non-null record argument, or call the function in the FROM clause using a column definition list.");
                return Err(self.at(error, span));
            }
            let columns = match name {
                "pg_get_keywords" => Some(self.keywords()?),
                _ => self.columns_of_records(name, &typed)?,
            };
            let Some(columns) = columns else {
                return unknown(format!("the result of {name}"));
            };
            let record = self.record(columns.clone(), span)?;
            let bound = super::json_record::while_there(record, &columns)?;
            return Ok(Called { bound, returns_set: true, out_name: None, user: None });
        }
        let out_name = match function.out_columns().as_slice() {
            [(name, _)] if !name.is_empty() => Some(*name),
            _ => None,
        };
        let returns_set = resolved.returns_set;
        if function.oid >= FIRST_EXTENSION_OID && function.oid < FIRST_OWN_OID {
            if let Some(bound) = self.citext_call(function, &typed, result, returns_set, span)? {
                return Ok(Called { bound, returns_set, out_name, user: None });
            }
            let source = function.source;
            let Some(udf) = self.names.state.scalar_functions().get(source).cloned().filter(|_| !returns_set) else {
                return unknown(not_computed(name, &typed));
            };
            let typed = typed.into_iter().map(|arg| self.without_blanks(arg)).collect::<Result<_>>()?;
            let (expr, data) = self.call_udf(&udf, typed)?;
            return Ok(Called { bound: self.of_type(expr, data, result)?.at(span), returns_set, out_name, user: None });
        }
        if !returns_set
            && !self.is_computed(name, function.source)
            && let Some(bound) = self.by_cast_or_operator(function, &typed, span)?
        {
            return Ok(Called { bound: bound.at(span), returns_set, out_name, user: None });
        }
        if is_unknown {
            typed.push(Bound::literal(ScalarValue::UInt32(Some(oid::UNKNOWN)), Type::of(oid::OID)));
        }
        let bound = self.computed_by(name, function.source, typed, result, returns_set, span)?;
        Ok(Called { bound: bound.at(span), returns_set, out_name, user: None })
    }

    /// The arguments of a call, of which those from `first` on are one array.
    fn collected(
        &mut self,
        mut args: Vec<Bound>,
        first: usize,
        (element, array): (TypeId, TypeId),
    ) -> Result<Vec<Bound>> {
        let rest = args.split_off(first.min(args.len()));
        let rest = self.one_form(rest, Type::of(element.0))?;
        args.push(self.call_named("make_array", rest, Type::of(array.0))?);
        Ok(args)
    }

    /// The arguments of a call with names in the places of their parameters; those that are not written
    /// have their defaults.
    fn in_place(
        &mut self,
        args: Vec<Bound>,
        positions: &[usize],
        defaults: &[(usize, &'static str, TypeId)],
    ) -> Result<Vec<Bound>> {
        let mut placed: Vec<(usize, Bound)> = positions.iter().copied().zip(args).collect();
        for (at, sql, ty) in defaults {
            let expr = crate::pg::definition::parse_expression(sql)?;
            let bound = self.expr(&expr, &Scope::empty(), Clause::Values)?;
            let bound = self.cast_as(bound, Type::of(ty.0), CastContext::Assignment)?;
            placed.push((*at, bound));
        }
        placed.sort_by_key(|(at, _)| *at);
        Ok(placed.into_iter().map(|(_, bound)| bound).collect())
    }

    /// A function of this name, or of what PostgreSQL calls its source, is there.
    fn is_computed(&self, name: &str, source: &str) -> bool {
        matches!(name, "position" | "substring" | "char_length" | "character_length")
            || self.names.state.scalar_functions().contains_key(name)
            || numeric::by_proc_name(source).is_some()
            || is_by_source(source)
    }

    /// The expression that computes a function.
    fn computed_by(
        &mut self,
        name: &str,
        source: &str,
        args: Vec<Bound>,
        result: Type,
        returns_set: bool,
        span: Span,
    ) -> Result<Bound> {
        if returns_set {
            return match name {
                "unnest" => {
                    let Some(list) = args.into_iter().next() else { return unknown("unnest of nothing") };
                    let data = match &list.data {
                        DataType::List(item) if !item.data_type().is_nested() => item.data_type().clone(),
                        _ => return unknown("unnest of an array of arrays"),
                    };
                    let expr = Expr::Unnest(Unnest { expr: Box::new(list.expr), outer: false });
                    Ok(Bound::with_data(expr, result, data))
                }
                "generate_series" => {
                    let Some(first) = args.first() else { return unknown("a series of nothing") };
                    let call = series_call_name(&first.data);
                    let data = if result.oid == oid::NUMERIC { numeric::DYNAMIC } else { result.data() };
                    let Some(function) = self.names.state.scalar_functions().get(call).cloned() else {
                        return unknown("generate_series");
                    };
                    let (series, _) = self.call_udf(&function, args)?;
                    let expr = Expr::Unnest(Unnest { expr: Box::new(series), outer: false });
                    Ok(Bound::with_data(expr, result, data))
                }
                "generate_subscripts" => {
                    // Those of a vector begin at 0.
                    let is_vector = args.first().is_some_and(|arg| is_vector(arg.ty));
                    let name = if is_vector { "generate_vector_subscripts" } else { name };
                    let list = self.call_named(name, args, Type::of(oid::INT8_ARRAY))?;
                    let expr = Expr::Unnest(Unnest { expr: Box::new(list.expr), outer: false });
                    self.of_type(expr, DataType::Int64, result)
                }
                // There are no partitions.
                "pg_partition_ancestors" => {
                    let data = result.data();
                    let none = ScalarValue::List(ScalarValue::new_list_nullable(&[], &data));
                    let expr = Expr::Unnest(Unnest { expr: Box::new(Expr::Literal(none, None)), outer: false });
                    Ok(Bound::with_data(expr, result, data))
                }
                "regexp_split_to_table"
                | "string_to_table"
                | "regexp_matches"
                | "pg_listening_channels"
                | "jsonb_array_elements"
                | "jsonb_array_elements_text"
                | "jsonb_object_keys"
                | "jsonb_path_query"
                | "jsonb_path_query_tz"
                | "json_array_elements"
                | "json_array_elements_text"
                | "json_object_keys" => {
                    let function = format!("pg_{name}");
                    let Some(function) = self.names.state.scalar_functions().get(function.as_str()).cloned() else {
                        return unknown(format!("the set-returning function {name}"));
                    };
                    let (list, data) = self.call_udf(&function, args)?;
                    let DataType::List(item) = &data else { return unknown("this set-returning function") };
                    let expr = Expr::Unnest(Unnest { expr: Box::new(list), outer: false });
                    Ok(Bound::with_data(expr, result, item.data_type().clone()))
                }
                _ => unknown(format!("the set-returning function {name}")),
            };
        }
        if matches!(name, "array_to_json" | "row_to_json") && args.len() == 2 {
            return self.json_in_lines(args, span);
        }
        if let Some(bound) = self.json_call(name, args.clone(), span)? {
            return Ok(bound);
        }
        if let Some(bound) = self.enum_call(name, &args, result)? {
            return Ok(bound);
        }
        let mut args = args;
        if let ("array_position" | "array_positions" | "array_remove" | "array_replace", Some(first)) =
            (name, args.first())
        {
            self.check_elements(first.ty, false, span)?;
        }
        if matches!(name, "concat" | "concat_ws" | "format") || source == "bpcharoctetlen" {
            args = args.into_iter().map(|arg| self.shown(arg)).collect::<Result<_>>()?;
        } else if result.oid == oid::BPCHAR_ARRAY || name == "array_to_string" {
            if matches!(name, "array_remove" | "array_replace") {
                return unknown(format!("{name} of arrays of character(n)"));
            }
            args = self.mixed_elements(args)?;
        } else if let ("pg_typeof", Some(ty)) = (name, args.first().filter(|arg| is_only_named(arg)).map(|arg| arg.ty))
        {
            args.push(Bound::literal(ScalarValue::UInt32(Some(ty.oid)), Type::of(oid::OID)));
        } else {
            args = args.into_iter().map(|arg| self.without_blanks(arg)).collect::<Result<_>>()?;
        }
        let known = match name {
            _ if is_by_source(source) => source,
            "position" => "strpos",
            "substr" => "substring",
            "substring" if source == "textregexsubstr" => source,
            "substring" if args.get(1).is_some_and(|arg| arg.ty.oid == oid::TEXT) => "pg_substring_similar",
            "char_length" | "character_length" if source == "textlen" => "character_length",
            "bit_length" if args.first().is_some_and(|arg| arg.ty.oid == oid::BIT) => "bitlength",
            other => other,
        };
        let registered = self.names.state.scalar_functions().get(known).cloned();
        let Some(function) = registered.or_else(|| numeric::by_proc_name(source)) else {
            return unknown(not_computed(name, &args));
        };
        let _ = span;
        let (expr, data) = self.call_udf(&function, args)?;
        self.of_type(expr, data, result)
    }

    /// `array_to_json` and `row_to_json` with a second argument: whether elements or fields are on lines of their own.
    fn json_in_lines(&mut self, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let fields = args.into_iter().zip(["value", "lines"]).map(|(arg, name)| (name.to_owned(), arg)).collect();
        let record = self.record(fields, span)?;
        let json = self.call_named("pg_json_lines_zoned", vec![record], Type::of(oid::JSON))?;
        Ok(json.at(span))
    }

    /// The columns of `pg_get_keywords`, each a set.
    fn keywords(&mut self) -> Result<Vec<(String, Bound)>> {
        let columns = [
            ("word", oid::TEXT),
            ("catcode", oid::CHAR),
            ("barelabel", oid::BOOL),
            ("catdesc", oid::TEXT),
            ("baredesc", oid::TEXT),
        ];
        let mut out = Vec::with_capacity(columns.len());
        for (name, ty) in columns {
            let function = format!("pg_keywords_{name}");
            let Some(udf) = self.names.state.scalar_functions().get(function.as_str()).cloned() else {
                return unknown("pg_get_keywords");
            };
            let (list, data) = self.call_udf(&udf, Vec::new())?;
            let DataType::List(item) = &data else { return unknown("this set-returning function") };
            let expr = Expr::Unnest(Unnest { expr: Box::new(list), outer: false });
            out.push((name.to_owned(), Bound::with_data(expr, Type::of(ty), item.data_type().clone())));
        }
        Ok(out)
    }

    /// Functions that PostgreSQL does not have.
    fn own_function(&mut self, name: &str, args: Vec<Bound>, span: Span) -> Result<Called> {
        if let Some(oid) = cast_function_oid(name) {
            // A definition that was kept in this form.
            let mut args = args.into_iter();
            let (Some(value), typmod) = (args.next(), args.next()) else { return unknown("a cast of nothing") };
            let typmod = typmod.and_then(|typmod| typmod.integer()).and_then(|v| i32::try_from(v).ok()).unwrap_or(-1);
            let bound = self.cast_as(value, Type { oid, typmod }, CastContext::Explicit)?;
            return Ok(Called { bound: bound.at(span), returns_set: false, out_name: None, user: None });
        }
        let Some(function) = self.names.state.scalar_functions().get(name).cloned() else {
            return unknown(format!("the function {name}"));
        };
        let args = args.into_iter().map(|arg| self.or_text(arg)).collect::<Result<Vec<_>>>()?;
        let (expr, data) = self.call_udf(&function, args)?;
        let ty = Type::of(types::arrow_oid(&data));
        Ok(Called { bound: Bound::with_data(expr, ty, data).at(span), returns_set: false, out_name: None, user: None })
    }

    /// A call of a function of DataFusion's kind, with its arguments cast to what it takes.
    pub(super) fn call_udf(&mut self, function: &Arc<ScalarUDF>, args: Vec<Bound>) -> Result<(Expr, DataType)> {
        super::citext::check_function(function.name(), &args)?;
        let fields: Vec<FieldRef> = args.iter().map(Bound::field).collect();
        let wanted = match args.is_empty() {
            true => fields.clone(),
            // PostgreSQL has it, and it is computed here for other types only.
            false => match fields_with_udf(&fields, function.as_ref()) {
                Ok(wanted) => wanted,
                Err(_) => {
                    let types: Vec<String> = args.iter().map(|arg| arg.ty.name()).collect();
                    return unknown(format!("function {}({})", function.name(), types.join(", ")));
                }
            },
        };
        let mut exprs = Vec::with_capacity(args.len());
        let mut arg_fields = Vec::with_capacity(args.len());
        for (arg, wanted) in args.into_iter().zip(&wanted) {
            let field = arg.field();
            if &arg.data == wanted.data_type() {
                exprs.push(arg.expr);
                arg_fields.push(field);
            } else {
                exprs.push(self.folded(cast(arg.expr, wanted.data_type().clone())));
                arg_fields.push(Arc::new(field.as_ref().clone().with_data_type(wanted.data_type().clone())));
            }
        }
        let scalars: Vec<Option<&ScalarValue>> = exprs
            .iter()
            .map(|expr| match expr {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            })
            .collect();
        let returned =
            function.return_field_from_args(ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalars })?;
        let data = returned.data_type().clone();
        Ok((Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), exprs)), data))
    }
}

/// Whether a type is `int2vector` or `oidvector`, whose elements are counted from 0.
pub(super) fn is_vector(ty: Type) -> bool {
    matches!(ty.name().as_str(), "int2vector" | "oidvector")
}

/// Whether the form of a value does not tell its type, so that only the analysis knows it.
fn is_only_named(bound: &Bound) -> bool {
    // Oids and names of objects are of one form, and the first of them is what it implies.
    bound.data == DataType::UInt32 || types::arrow_oid(&bound.data) != bound.ty.oid
}
