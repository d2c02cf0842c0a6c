//! Aggregates.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment, Sort};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, Subquery, cast, lit};
use datafusion::sql::sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause, OrderByExpr, Spanned,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_dialect::{Call, CallKind, FunctionKind, Schema, TypeId};

use super::blanks::has_length;
use super::bound::{Bound, Type};
use super::coerce::{catalog, sql_error};
use super::expr::Clause;
use super::group::{read_within, subquery_of};
use super::scope::Scope;
use super::sort::direction;
use super::{Analyzer, Result, unknown};
use crate::naming;
use crate::pg::citext::is_citext;
use crate::pg::functions::{PIECE, PIECES, numeric};
use crate::pg::types::oid;
use crate::plan::alike_constants::types_in;
use crate::wire::SqlError;

/// An aggregate whose arguments are bound: what it is over groups or over frames.
pub(super) struct AggregateParts {
    pub function: Arc<AggregateUDF>,
    pub args: Vec<Expr>,
    pub distinct: bool,
    pub filter: Option<Box<Expr>>,
    pub order_by: Vec<Sort>,
    pub result: Type,
    /// What the function gives, before it is brought to `result`.
    pub data: DataType,
    /// It gives pieces, of which the result is to be made.
    pub pieces: bool,
    /// It gives bytes as hexadecimal digits.
    pub hex: bool,
}

/// An aggregate of a subquery that belongs to a query further out.
pub(super) struct OuterAggregate {
    /// Over the columns of that query.
    call: Expr,
    /// Of the column that it will be there.
    name: String,
    /// How many queries there are around that query.
    depth: usize,
}

fn outer_aggregate() -> SqlError {
    SqlError::unsupported("this aggregate function of an outer query is not supported in a subquery")
}

impl Analyzer<'_> {
    pub(super) fn is_aggregate(&self, name: &str) -> bool {
        super::coerce::builtin().functions_named(Schema::PgCatalog, name).any(|f| f.kind == FunctionKind::Aggregate)
    }

    /// A call of an aggregate over groups.
    pub(super) fn aggregate_call(
        &mut self,
        function: &ast::Function,
        name: &str,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Bound> {
        let span = function.name.span();
        let seen = self.sets;
        let parts = self.aggregate_parts(function, name, list, scope, Clause::Aggregate)?;
        self.no_sets_since(seen, "aggregate function calls cannot contain set-returning function calls")?;
        let level = self.level_of_aggregate(&parts, scope, span)?;
        if let Some(message) = clause.refuses_aggregates().filter(|_| level == 0) {
            return Err(self.at(SqlError::new("42803", message), span));
        }
        let (pieces, hex) = (parts.pieces, parts.hex);
        let call = AggregateFunction::new_udf(
            parts.function,
            parts.args,
            parts.distinct,
            parts.filter,
            parts.order_by,
            None::<NullTreatment>,
        );
        let call = Expr::AggregateFunction(call);
        let call = if level > 0 { self.of_outer(call, level, &parts.data, scope)? } else { call };
        let bound = self.of_type(call, parts.data, parts.result)?.at(span);
        let without = parts.result.oid == oid::BPCHAR_ARRAY && !bound.has_padded_elements();
        let bound = if without { self.with_blanks_in_elements(bound, parts.result.typmod)? } else { bound };
        match super::json::is_json_aggregate(name) {
            true => self.json_whole(name, bound, pieces, span),
            false if hex => {
                let bound = match pieces {
                    true => self.text_of("together", PIECES, vec![bound])?,
                    false => bound,
                };
                let format = self.text_constant("hex");
                self.call("decode", vec![bound, format], span)
            }
            false if pieces => self.text_of("together", PIECES, vec![bound]).map(|bound| bound.at(span)),
            false => Ok(bound),
        }
    }

    /// A text, computed by a function that has no name in SQL.
    fn text_of(&mut self, what: &str, function: &str, args: Vec<Bound>) -> Result<Bound> {
        let Some(function) = self.names.state.scalar_functions().get(function).cloned() else { return unknown(what) };
        let (expr, data) = self.call_udf(&function, args)?;
        Ok(Bound::with_data(expr, Type::TEXT, data))
    }

    /// Which query an aggregate belongs to: the innermost one that has any of its columns (0: this one, also if there are
    /// none; 1: the next one further out).
    fn level_of_aggregate(&self, parts: &AggregateParts, scope: &Scope<'_>, span: Span) -> Result<usize> {
        let (mut inner, mut nested, mut outer) = (false, false, Vec::new());
        let mut subqueries: Vec<Subquery> = Vec::new();
        let exprs = parts.args.iter().chain(parts.filter.as_deref());
        for expr in exprs.chain(parts.order_by.iter().map(|by| &by.expr)) {
            expr.apply(|expr| {
                match expr {
                    Expr::Column(_) => inner = true,
                    Expr::OuterReferenceColumn(_, column) => outer.push(column.clone()),
                    expr => {
                        for read in subquery_of(expr).iter().flat_map(|subquery| &subquery.outer_ref_columns) {
                            let Expr::OuterReferenceColumn(_, column) = read else { continue };
                            match scope.level_of(column) {
                                Some(0) => inner = true,
                                _ => {
                                    nested = true;
                                    outer.push(column.clone());
                                }
                            }
                        }
                        subqueries.extend(subquery_of(expr).cloned());
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        for column in subqueries.iter().map(read_within).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
            match scope.level_of(&column) {
                Some(0) => inner = true,
                Some(_) if !outer.contains(&column) => {
                    nested = true;
                    outer.push(column);
                }
                _ => {}
            }
        }
        if inner || outer.is_empty() {
            return Ok(0);
        }
        let level = outer.iter().filter_map(|column| scope.level_of(column)).min();
        let of_aggregates = outer.iter().filter_map(|column| {
            let found = self.outer_aggregates.iter().find(|known| known.name == column.name);
            found.map(|known| scope.depth().saturating_sub(known.depth))
        });
        if let Some(aggregate) = of_aggregates.min()
            && level.is_none_or(|level| aggregate <= level)
        {
            return Err(self.at(SqlError::new("42803", "aggregate function calls cannot be nested"), span));
        }
        let level = level.unwrap_or(0);
        let clause = self.within.len().checked_sub(level).and_then(|at| self.within.get(at)).copied();
        let refused = match clause {
            Some(Clause::From) => Some("aggregate functions are not allowed in FROM clause of their own query level"),
            clause => clause.and_then(Clause::refuses_aggregates),
        };
        if let Some(message) = refused {
            return Err(self.at(SqlError::new("42803", message), span));
        }
        if level == 0 || nested {
            return Err(self.at(outer_aggregate(), span));
        }
        Ok(level)
    }

    /// An aggregate that the query `level` further out computes, as this one refers to it.
    fn of_outer(&mut self, call: Expr, level: usize, data: &DataType, scope: &Scope<'_>) -> Result<Expr> {
        let call = call
            .transform_up(|expr| {
                Ok(match expr {
                    Expr::OuterReferenceColumn(_, column) if scope.level_of(&column) == Some(level) => {
                        Transformed::yes(Expr::Column(column))
                    }
                    other => Transformed::no(other),
                })
            })?
            .data;
        let types = types_in(&call)?;
        let is_it = |known: &&OuterAggregate| known.call == call && types_in(&known.call).is_ok_and(|its| its == types);
        let name = match self.outer_aggregates.iter().find(is_it) {
            Some(known) => known.name.clone(),
            None => {
                let name = self.qualifier(&format!("{}aggregate", naming::MARK));
                let depth = scope.depth().saturating_sub(level);
                self.outer_aggregates.push(OuterAggregate { call, name: name.clone(), depth });
                name
            }
        };
        let field = Arc::new(Field::new(&name, data.clone(), true));
        Ok(Expr::OuterReferenceColumn(field, Column::new_unqualified(name)))
    }

    /// The aggregates of subqueries that the query over `plan` computes, by the names that these know them by.
    pub(super) fn aggregates_of_subqueries(&mut self, plan: &LogicalPlan) -> Vec<Expr> {
        let is_here = |known: &mut OuterAggregate| {
            let mut here = true;
            let _ = known.call.apply(|expr| {
                here &= !matches!(expr, Expr::Column(column) if !plan.schema().has_column(column));
                Ok(TreeNodeRecursion::Continue)
            });
            here
        };
        self.outer_aggregates.extract_if(.., is_here).map(|known| known.call.alias(known.name)).collect()
    }

    /// # Errors
    /// `0A000` for an aggregate of a subquery that no query around has computed.
    pub(super) fn no_outer_aggregates(&self) -> Result<()> {
        if self.outer_aggregates.is_empty() { Ok(()) } else { Err(outer_aggregate().into()) }
    }

    pub(super) fn aggregate_parts(
        &mut self,
        function: &ast::Function,
        name: &str,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<AggregateParts> {
        let span = function.name.span();
        if function.null_treatment.is_some() {
            return Err(self.at(SqlError::syntax("RESPECT NULLS and IGNORE NULLS are not PostgreSQL's"), span));
        }
        let mut order: &[OrderByExpr] = &[];
        for part in &list.clauses {
            match part {
                FunctionArgumentClause::OrderBy(list) => order = list,
                _ => return unknown("this form of an aggregate"),
            }
        }
        if !function.within_group.is_empty() {
            return self.within_group(function, name, list, order, scope, clause);
        }
        let star = matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
        let mut args: Vec<Bound> = Vec::with_capacity(list.args.len());
        if !star {
            let key = match name {
                "count" if list.duplicate_treatment.is_none() => self.whole_row_argument(list, scope)?,
                _ => None,
            };
            match key {
                // A row is not NULL, but where a join has none.
                Some(key) => args.push(key),
                None => {
                    for arg in &list.args {
                        args.push(match arg {
                            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
                                if name == "count"
                                    && list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
                                    && order.is_empty()
                                    && list.args.len() == 1
                                    && super::condition::row(expr).is_some() =>
                            {
                                self.record_key(super::condition::row(expr).unwrap_or_default(), scope, clause, span)?
                            }
                            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr, scope, clause)?,
                            FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(item)) => {
                                self.wildcard_value(scope, item)?
                            }
                            _ => return unknown(format!("this form of the aggregate {name}")),
                        });
                    }
                }
            }
        }
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        // As they are written: a `varchar` is not the text that it becomes.
        let is_citext = |arg: &Bound| arg.ty.oid == oid::CITEXT;
        let given: Vec<(Expr, u32)> = match (distinct || args.iter().any(is_citext)) && !order.is_empty() {
            true => args.iter().map(|arg| (arg.expr.clone(), arg.ty.oid)).collect(),
            false => Vec::new(),
        };
        let types: Vec<TypeId> = args.iter().map(|arg| arg.ty.id()).collect();
        let call = Call {
            star,
            distinct,
            order_by: order.len(),
            filter: function.filter.is_some(),
            over: function.over.is_some(),
            ..Call::new(name, &types)
        };
        let tables = catalog();
        let resolved = match tables.resolve_function(&call) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        let CallKind::Aggregate(entry, _) = &resolved.kind else { return unknown(format!("{name} as an aggregate")) };
        let source = (entry.name, entry.args.clone());
        let result = Type::of(resolved.result.0);
        // Bytes are joined as their digits, whose order is the bytes' own.
        let hex = name == "string_agg" && result.oid == oid::BYTEA;
        let result = if hex { Type::TEXT } else { result };
        let mut typed = Vec::with_capacity(args.len());
        for (arg, to) in args.into_iter().zip(&resolved.args) {
            let arg = if arg.ty.oid == to.0 { arg } else { self.implicit(arg, Type::of(to.0))? };
            let mut arg = self.or_text(arg)?;
            if hex {
                let format = self.text_constant("hex");
                let digits = self.call("encode", vec![arg, format], span)?;
                // A separator that is a constant is to be seen as one.
                let is_constant = !digits.expr.any_column_refs() && !digits.expr.contains_outer();
                arg = match is_constant {
                    true => {
                        let state = self.names.state;
                        let expr = crate::plan::planner::simplified(state, digits.expr, &DFSchema::empty())?;
                        Bound { expr, ..digits }
                    }
                    false => digits,
                };
            }
            if !matches!(
                name,
                "count" | "min" | "max" | "json_agg" | "jsonb_agg" | "json_object_agg" | "jsonb_object_agg"
            ) {
                arg = match name {
                    // Those that are distinct are of one length, and get their blanks afterwards.
                    "array_agg" if distinct && has_length(arg.ty) => arg,
                    "array_agg" => self.mixed_elements(vec![arg])?.remove(0),
                    _ => self.without_blanks(arg)?,
                };
            }
            arg = self.citext_in_aggregate(name, arg)?;
            if matches!(name, "min" | "max") {
                self.check_elements(arg.ty, true, span)?;
            }
            let takes_records = name == "count" || super::json::is_json_aggregate(name);
            if !takes_records || list.duplicate_treatment.is_some() {
                super::record::refuse_record(&arg, "an aggregate")?;
            }
            typed.push(arg);
        }
        let filter = self.filter_of(function, scope)?;
        let mut order_by = Vec::with_capacity(order.len());
        for by in order {
            let bound = self.expr(&by.expr, scope, Clause::Aggregate)?;
            let same = |(expr, ty): &(Expr, u32)| *expr == bound.expr && *ty == bound.ty.oid && !bound.ty.is_unknown();
            // Of a `citext` as well: as the text that it becomes it is sorted, as PostgreSQL finds it among the arguments.
            let place = given.iter().position(same).and_then(|at| typed.get(at)).map(|arg| arg.expr.clone());
            let place = place.filter(|_| distinct || !super::json::is_json_aggregate(name));
            if distinct && place.is_none() {
                let text = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                return Err(self.at(SqlError::new("42P10", text), by.expr.span()));
            }
            let bound = self.or_text(bound)?;
            self.check_sortable(&bound)?;
            let (ascending, nulls_first) = direction(&by.options);
            order_by.push(Sort::new(place.unwrap_or(bound.expr), ascending, nulls_first));
        }
        if distinct {
            for arg in &typed {
                self.check_equality(arg)?;
            }
            // As PostgreSQL sorts them to find those that are equal.
            let first = typed.first().filter(|_| order_by.is_empty() && matches!(name, "array_agg" | "string_agg"));
            order_by.extend(first.map(|first| Sort::new(first.expr.clone(), true, false)));
        }
        let _ = source;
        // What is not computed: several arguments that are distinct together, no separator.
        if distinct && typed.len() > 1 {
            let separator = (name == "string_agg").then(|| &typed[1].expr);
            if separator.is_none_or(|expr| matches!(expr, Expr::Literal(value, _) if value.is_null())) {
                return unknown(format!("{name}(DISTINCT …) of these arguments"));
            }
        }
        if super::json::is_json_aggregate(name) {
            if distinct {
                return unknown(format!("{name} with DISTINCT"));
            }
            let in_lines = super::json::is_in_lines(name, &typed);
            let elements = self.json_elements(name, typed, in_lines, span)?;
            let (function, args, data) = self.aggregate_function("string_agg", elements, false, Type::TEXT, span)?;
            let function =
                if order_by.is_empty() { function } else { crate::pg::functions::sorts_at_the_end(function) };
            return Ok(AggregateParts {
                function,
                args,
                distinct,
                filter,
                order_by,
                result: Type::TEXT,
                data,
                pieces: in_lines,
                hex: false,
            });
        }
        let pieces = name == "string_agg"
            && result.oid == oid::TEXT
            && typed.get(1).is_some_and(|separator| !crate::exec::access_path::is_constant(&separator.expr));
        if pieces {
            if distinct || function.over.is_some() {
                return unknown("string_agg with DISTINCT or OVER and a separator that is no constant");
            }
            // Each row's value is behind its own separator, but for that of the row that comes first.
            typed.reverse();
            let piece = self.text_of("this separator of string_agg", PIECE, typed)?;
            typed = vec![piece, self.text_constant("")];
        }
        let result = match typed.first() {
            Some(arg) if distinct && result.oid == oid::BPCHAR_ARRAY && has_length(arg.ty) => {
                Type { typmod: arg.ty.typmod, ..result }
            }
            _ => super::blanks::given_back(result, &typed),
        };
        let is_window = function.over.is_some();
        let (function, args, data) = self.aggregate_function(name, typed, star, result, span)?;
        let in_order = !order_by.is_empty() && !is_window;
        let function = match name {
            "array_agg" | "string_agg" if distinct => crate::pg::functions::sorts_itself(function),
            "string_agg" if in_order => crate::pg::functions::sorts_at_the_end(function),
            _ => function,
        };
        Ok(AggregateParts { function, args, distinct, filter, order_by, result, data, pieces, hex })
    }

    /// The primary key's column of the table that an aggregate's argument is the whole row of: `t`, `t.*`.
    fn whole_row_argument(&self, list: &ast::FunctionArgumentList, scope: &Scope<'_>) -> Result<Option<Bound>> {
        let name = match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name))] => name.clone(),
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Identifier(ident)))]
                if !self.is_column(scope, ident)? =>
            {
                ast::ObjectName::from(vec![ident.clone()])
            }
            _ => return Ok(None),
        };
        let item = match self.item_of(&name, scope) {
            Ok(item) => item,
            // It is no row either.
            Err(_) if matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Expr(_))]) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let key = item.table.as_ref().and_then(|table| table.primary_key.first().copied());
        match key.and_then(|key| item.columns.get(key)) {
            Some(column) => Ok(Some(column.bound.clone())),
            // `t` is a value, then.
            None => Ok(None),
        }
    }

    /// `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)` and its kin.
    fn within_group(
        &mut self,
        function: &ast::Function,
        name: &str,
        list: &ast::FunctionArgumentList,
        order: &[OrderByExpr],
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<AggregateParts> {
        let span = function.name.span();
        if !order.is_empty() {
            return Err(self.at(SqlError::syntax("cannot use multiple ORDER BY clauses with WITHIN GROUP"), span));
        }
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
            return Err(self.at(SqlError::syntax("cannot use DISTINCT with WITHIN GROUP"), span));
        }
        let Some(direct) = super::expr::plain_args(list) else {
            return unknown(format!("this form of the aggregate {name}"));
        };
        let mut args = direct.into_iter().map(|expr| self.expr(expr, scope, clause)).collect::<Result<Vec<_>>>()?;
        let directs = args.len();
        let mut directions = Vec::with_capacity(function.within_group.len());
        for by in &function.within_group {
            args.push(self.expr(&by.expr, scope, clause)?);
            directions.push(direction(&by.options));
        }
        let types: Vec<TypeId> = args.iter().map(|arg| arg.ty.id()).collect();
        let call = Call {
            within_group: true,
            order_by: directions.len(),
            filter: function.filter.is_some(),
            over: function.over.is_some(),
            ..Call::new(name, &types)
        };
        let tables = catalog();
        let resolved = match tables.resolve_function(&call) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        if !matches!(&resolved.kind, CallKind::Aggregate(..))
            || !matches!(name, "percentile_cont" | "percentile_disc" | "mode")
        {
            return unknown(format!("the aggregate {name} WITHIN GROUP"));
        }
        let result = Type::of(resolved.result.0);
        let mut typed = Vec::with_capacity(args.len());
        for (arg, to) in args.into_iter().zip(&resolved.args) {
            let arg = if arg.ty.oid == to.0 { arg } else { self.implicit(arg, Type::of(to.0))? };
            typed.push(self.or_text(arg)?);
        }
        let sorted = typed.split_off(directs);
        let result = super::blanks::given_back(result, &sorted);
        if !typed.iter().all(|arg| crate::exec::access_path::is_constant(&arg.expr)) {
            return unknown(format!("arguments of {name} that are not constants"));
        }
        let filter = self.filter_of(function, scope)?;
        let mut order_by = Vec::with_capacity(sorted.len());
        for (bound, (ascending, nulls_first)) in sorted.iter().zip(directions) {
            self.check_sortable(bound)?;
            order_by.push(Sort::new(bound.expr.clone(), ascending, nulls_first));
        }
        if typed.iter().any(|arg| catalog().element_type(arg.ty.id()).is_some())
            || sorted.iter().any(|arg| arg.ty.oid == oid::INTERVAL && name == "percentile_cont")
            || sorted
                .iter()
                .any(|arg| arg.data == numeric::DYNAMIC && name == "mode" || arg.is_padded() || is_citext(&arg.data))
        {
            return unknown(format!("{name} of these types"));
        }
        // The values first, as the functions take them.
        let args = sorted.into_iter().chain(typed).collect();
        let (function, args, data) = self.aggregate_function(name, args, false, result, span)?;
        Ok(AggregateParts {
            function,
            args,
            distinct: false,
            filter,
            order_by,
            result,
            data,
            pieces: false,
            hex: false,
        })
    }

    fn filter_of(&mut self, function: &ast::Function, scope: &Scope<'_>) -> Result<Option<Box<Expr>>> {
        match &function.filter {
            Some(filter) => {
                let seen = self.sets;
                let bound = self.expr(filter, scope, Clause::Aggregate)?;
                self.no_sets_since(seen, "set-returning functions are not allowed in FILTER")?;
                Ok(Some(Box::new(self.boolean(bound, "FILTER")?.expr)))
            }
            None => Ok(None),
        }
    }

    /// What computes an aggregate, and over what.
    fn aggregate_function(
        &mut self,
        name: &str,
        args: Vec<Bound>,
        star: bool,
        result: Type,
        span: Span,
    ) -> Result<(Arc<AggregateUDF>, Vec<Expr>, DataType)> {
        let first = args.first().map(|arg| arg.ty.oid);
        let known = match name {
            "every" => "bool_and",
            "variance" => "var_samp",
            "stddev" => "stddev_samp",
            "any_value" => {
                return unknown(format!("the aggregate {name}"));
            }
            other => other,
        };
        if first == Some(oid::BIT)
            && let Some(function) = crate::pg::functions::bits_aggregate(known)
        {
            let exprs = args.into_iter().map(|arg| arg.expr).collect();
            return Ok((function, exprs, result.data()));
        }
        if matches!(known, "sum" | "avg" | "min" | "max")
            && first == Some(oid::INTERVAL)
            && let Some(function) = crate::pg::functions::interval_aggregate(known)
        {
            let exprs = args.into_iter().map(|arg| arg.expr).collect();
            return Ok((function, exprs, result.data()));
        }
        if matches!(first, Some(oid::FLOAT4 | oid::FLOAT8))
            && let Some(function) = crate::pg::functions::float_extreme(known)
        {
            let exprs = args.into_iter().map(|arg| arg.expr).collect();
            return Ok((function, exprs, result.data()));
        }
        let registered = self.names.state.aggregate_functions();
        let numerics = matches!((known, first), ("min" | "max", Some(oid::NUMERIC)))
            && args.first().is_some_and(|arg| arg.data == numeric::DYNAMIC);
        if numerics && let Some(function) = numeric::aggregate_by_name(known) {
            let exprs = args.into_iter().map(|arg| arg.expr).collect();
            return Ok((function, exprs, numeric::DYNAMIC));
        }
        let found = registered.get(known).or_else(|| match known {
            "var_samp" => registered.get("var"),
            "stddev_samp" => registered.get("stddev"),
            _ => None,
        });
        let Some(function) = found.cloned() else { return unknown(format!("the aggregate {name}")) };
        if star {
            return Ok((function, vec![lit(1i64)], DataType::Int64));
        }
        let fields: Vec<FieldRef> = args.iter().map(Bound::field).collect();
        let wanted = fields_with_udf(&fields, function.as_ref())?;
        let mut exprs = Vec::with_capacity(args.len());
        for (arg, wanted) in args.into_iter().zip(&wanted) {
            exprs.push(match &arg.data == wanted.data_type() {
                true => arg.expr,
                false => self.folded(cast(arg.expr, wanted.data_type().clone())),
            });
        }
        let data = function.return_field(&wanted)?.data_type().clone();
        let _ = (result, span);
        Ok((function, exprs, data))
    }
}
