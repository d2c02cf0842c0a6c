//! Window functions.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::expr::{NullTreatment, Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{Expr, WindowFrame, WindowFunctionDefinition, cast, lit};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArguments, Ident, NamedWindowExpr, Spanned, WindowSpec, WindowType,
};
use resurgam_dialect::{Call, CallKind, FunctionKind, Schema, TypeId};

use super::bound::{Bound, Type};
use super::coerce::{catalog, sql_error};
use super::expr::{Clause, plain_args};
use super::scope::{Scope, folded};
use super::sort::direction;
use super::{Analyzer, Result, unknown};
use crate::exec::weight;
use crate::parse::exclude;
use crate::pg::functions::{excluding, watched};
use crate::pg::types::oid;
use crate::wire::SqlError;

/// Whether values may be of any length. Numbers and intervals, however they are kept, are not.
fn has_weight(data: &DataType, ty: Type) -> bool {
    match data {
        DataType::List(_) | DataType::LargeList(_) | DataType::Struct(_) => true,
        DataType::LargeUtf8 | DataType::LargeBinary => true,
        data => weight::has_weight(data) && ![oid::NUMERIC, oid::INTERVAL].contains(&ty.oid),
    }
}

/// Whether values are compared as they are kept: no rule of the planner has another `min` for them.
fn is_in_its_order(data: &DataType, ty: Type) -> bool {
    match ty.oid {
        oid::NUMERIC => matches!(data, DataType::Decimal128(..)),
        oid::INT2 | oid::INT4 | oid::INT8 | oid::FLOAT4 | oid::FLOAT8 => true,
        oid::TEXT | oid::VARCHAR | oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ => true,
        _ => false,
    }
}

impl Analyzer<'_> {
    /// `f(…) OVER …`
    pub(super) fn window_call(
        &mut self,
        function: &ast::Function,
        name: &str,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = function.name.span();
        if let Some(message) = clause.refuses_windows() {
            return Err(self.at(SqlError::new("42P20", message), span));
        }
        let FunctionArguments::List(list) = &function.args else { return unknown("this form of window function") };
        let mut spec = match &function.over {
            Some(WindowType::WindowSpec(spec)) => self.window_spec(spec)?,
            Some(WindowType::NamedWindow(name)) => self.named_window(name)?,
            None => return Err(SqlError::internal("a window function without OVER").into()),
        };
        let excluded = exclude::taken(&mut spec).map(|(excluded, _)| excluded);
        let seen = self.sets;
        // rank() and its kin are aggregates, too, with WITHIN GROUP.
        let is_aggregate = self.is_aggregate(name) && !self.is_window_function(name);
        let mut pieces = false;
        let (mut fun, mut args, distinct, mut filter, data, result) = if is_aggregate {
            let parts = self.aggregate_parts(function, name, list, scope, Clause::Window)?;
            if parts.distinct {
                return Err(self.at(SqlError::unsupported("DISTINCT is not implemented for window functions"), span));
            }
            if !parts.order_by.is_empty() {
                let error = SqlError::unsupported("aggregate ORDER BY is not implemented for window functions");
                return Err(self.at(error, span));
            }
            pieces = parts.pieces;
            if parts.hex {
                return unknown("string_agg of bytea over a window");
            }
            let fun = WindowFunctionDefinition::AggregateUDF(parts.function);
            (fun, parts.args, false, parts.filter, parts.data, parts.result)
        } else {
            self.window_function(function, name, list, scope)?
        };
        self.no_sets_since(seen, "window function calls cannot contain set-returning function calls")?;
        let mut partition_by = Vec::with_capacity(spec.partition_by.len());
        for expr in &spec.partition_by {
            let bound = self.expr(expr, scope, Clause::Window)?;
            let bound = self.or_text(bound)?;
            self.check_equality(&bound)?;
            partition_by.push(bound.expr);
        }
        let mut order_by = Vec::with_capacity(spec.order_by.len());
        let mut sorted_by = Vec::with_capacity(spec.order_by.len());
        for by in &spec.order_by {
            let bound = self.expr(&by.expr, scope, Clause::Window)?;
            let bound = self.or_text(bound)?;
            self.check_sortable(&bound)?;
            let (ascending, nulls_first) = direction(&by.options);
            order_by.push(Sort::new(bound.expr.clone(), ascending, nulls_first));
            sorted_by.push(bound);
        }
        let window_frame = match &spec.window_frame {
            None => {
                let frame = WindowFrame::new((!order_by.is_empty()).then_some(false));
                super::frame::with_peers(frame, &sorted_by)
            }
            Some(frame) => {
                let (frame, is_empty) = self.frame(frame, &mut order_by, &sorted_by, scope)?;
                if let Some(excluded) = excluded.filter(|_| !is_empty) {
                    if matches!(name, "min" | "max") && !is_in_its_order(&data, result) {
                        return unknown(format!("EXCLUDE in the frame of {name} over such values"));
                    }
                    if let Some(made) = excluding(&fun, excluded, filter.is_some()) {
                        args.extend(filter.take().map(|filter| *filter));
                        fun = made;
                    }
                }
                if is_empty {
                    match &fun {
                        WindowFunctionDefinition::AggregateUDF(_) => filter = Some(Box::new(lit(false))),
                        // Of no row there is no value; the others do not go by frames.
                        _ if matches!(name, "first_value" | "last_value" | "nth_value") => {
                            return Ok(self.null(result)?.at(span));
                        }
                        _ => {}
                    }
                }
                frame
            }
        };
        self.no_sets_since(seen, "set-returning functions in the definition of a window are not supported")?;
        // What has no bound of its own is made for each row before anybody counts. And of extremes nothing is to be said of how they follow each other.
        let fun = if has_weight(&data, result) || matches!(name, "min" | "max") { watched(fun) } else { fun };
        let call = WindowFunction {
            fun,
            params: WindowFunctionParams {
                args,
                partition_by,
                order_by,
                window_frame,
                filter,
                null_treatment: None::<NullTreatment>,
                distinct,
            },
        };
        let bound = self.of_type(Expr::WindowFunction(Box::new(call)), data, result)?.at(span);
        match super::json::is_json_aggregate(name) {
            true => self.json_whole(name, bound, pieces, span),
            false => Ok(bound),
        }
    }

    fn is_window_function(&self, name: &str) -> bool {
        super::coerce::builtin().functions_named(Schema::PgCatalog, name).any(|f| f.kind == FunctionKind::Window)
    }

    fn window_function(
        &mut self,
        function: &ast::Function,
        name: &str,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
    ) -> Result<(WindowFunctionDefinition, Vec<Expr>, bool, Option<Box<Expr>>, DataType, Type)> {
        let span = function.name.span();
        if function.filter.is_some() {
            let error = SqlError::unsupported("FILTER is not implemented for non-aggregate window functions");
            return Err(self.at(error, span));
        }
        if list.duplicate_treatment.is_some() {
            return Err(self.at(SqlError::unsupported("DISTINCT is not implemented for window functions"), span));
        }
        if function.null_treatment.is_some() || !list.clauses.is_empty() {
            return Err(self.at(SqlError::syntax("IGNORE NULLS is not PostgreSQL's"), span));
        }
        let Some(exprs) = plain_args(list) else { return unknown("this form of window function") };
        let args = exprs.into_iter().map(|e| self.expr(e, scope, Clause::Window)).collect::<Result<Vec<_>>>()?;
        let types: Vec<TypeId> = args.iter().map(|arg| arg.ty.id()).collect();
        let tables = catalog();
        let resolved = match tables.resolve_function(&Call { over: true, ..Call::new(name, &types) }) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        if !matches!(resolved.kind, CallKind::Window(_)) {
            let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
            return Err(self.at(SqlError::new("42809", message), span));
        }
        let result = Type::of(resolved.result.0);
        let mut typed = Vec::with_capacity(args.len());
        for (arg, to) in args.into_iter().zip(&resolved.args) {
            let arg = if arg.ty.oid == to.0 { arg } else { self.implicit(arg, Type::of(to.0))? };
            typed.push(self.or_text(arg)?);
        }
        let result = super::blanks::given_back(result, &typed);
        // The second and third argument of these are read while the plan is made, which is made for each run then.
        let read = |arg: &Bound| !crate::exec::access_path::is_constant(&arg.expr);
        if typed.iter().skip(1).any(read) || name == "ntile" && typed.iter().any(read) {
            return unknown(format!("arguments of {name} that are not constants"));
        }
        // A default has the digits that are written, and so have the others.
        let typed = match (name, typed.as_slice()) {
            ("lag" | "lead", [value, offset, default]) if value.data != default.data => {
                let pair = self.one_form(vec![value.clone(), default.clone()], Type::of(value.ty.oid))?;
                match <[Bound; 2]>::try_from(pair) {
                    Ok([value, default]) if value.data == default.data => vec![value, offset.clone(), default],
                    _ => return unknown(format!("{name} with a default of another type")),
                }
            }
            _ => typed,
        };
        let least = |at: usize| typed.get(at).and_then(Bound::integer);
        if name == "nth_value" && least(1).is_some_and(|nth| nth < 1) {
            let error = SqlError::new("22016", "argument of nth_value must be greater than zero");
            return Err(self.at(error, span));
        }
        if name == "ntile" && least(0).is_some_and(|count| count < 1) {
            return Err(self.at(SqlError::new("22014", "argument of ntile must be greater than zero"), span));
        }
        let typed = match name {
            "lag" | "lead" | "nth_value" | "ntile" => typed
                .into_iter()
                .enumerate()
                .map(|(at, arg)| match (at, name) {
                    (1, _) | (0, "ntile") => self.converted(arg, Type::INT8),
                    _ => Ok(arg),
                })
                .collect::<Result<Vec<_>>>()?,
            _ => typed,
        };
        let Some(function) = self.names.state.window_functions().get(name).cloned() else {
            return unknown(format!("the window function {name}"));
        };
        let fields: Vec<_> = typed.iter().map(Bound::field).collect();
        let wanted = match fields.is_empty() {
            true => fields,
            false => fields_with_udf(&fields, function.as_ref())?,
        };
        let mut exprs = Vec::with_capacity(typed.len());
        for (arg, wanted) in typed.into_iter().zip(&wanted) {
            exprs.push(match &arg.data == wanted.data_type() {
                true => arg.expr,
                false => self.folded(cast(arg.expr, wanted.data_type().clone())),
            });
        }
        let data = function.field(datafusion::logical_expr::function::WindowUDFFieldArgs::new(&wanted, name))?;
        let data = data.data_type().clone();
        Ok((WindowFunctionDefinition::WindowUDF(function), exprs, false, None, data, result))
    }

    /// A window's definition with what it takes from the window that it names.
    fn window_spec(&mut self, spec: &WindowSpec) -> Result<WindowSpec> {
        let Some(name) = &spec.window_name else { return Ok(spec.clone()) };
        let mut spec = spec.clone();
        let excluded = exclude::taken(&mut spec).map(|(_, marker)| marker);
        let base = self.named_window(name)?;
        let shown = folded(name);
        if !spec.partition_by.is_empty() {
            let message = format!("cannot override PARTITION BY clause of window \"{shown}\"");
            return Err(self.at(SqlError::new("42P20", message), name.span));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            let message = format!("cannot override ORDER BY clause of window \"{shown}\"");
            return Err(self.at(SqlError::new("42P20", message), name.span));
        }
        if base.window_frame.is_some() {
            let message = format!("cannot copy window \"{shown}\" because it has a frame clause");
            return Err(self.at(SqlError::new("42P20", message), name.span));
        }
        let order_by = if spec.order_by.is_empty() { base.order_by } else { spec.order_by };
        Ok(WindowSpec {
            window_name: None,
            partition_by: base.partition_by.into_iter().chain(excluded).collect(),
            order_by,
            window_frame: spec.window_frame,
        })
    }

    fn named_window(&mut self, name: &Ident) -> Result<WindowSpec> {
        let wanted = folded(name);
        let found =
            self.windows.last().and_then(|windows| windows.iter().find(|window| folded(&window.0) == wanted)).cloned();
        match found {
            Some(window) => match &window.1 {
                NamedWindowExpr::WindowSpec(spec) => self.nested(|this| this.window_spec(spec)),
                NamedWindowExpr::NamedWindow(other) => self.nested(|this| this.named_window(other)),
            },
            None => {
                let error = SqlError::new("42704", format!("window \"{wanted}\" does not exist"));
                Err(self.at(error, name.span))
            }
        }
    }
}
