//! Calls of functions that users made: the body takes the place of the call.
//!
//! | body | where it goes |
//! |---|---|
//! | one expression, without FROM and subqueries, each argument that costs something read once at most | the expression, with the arguments in it |
//! | any other query, as a value | a subquery that has one row at most: [`body_call`] gives it the arguments, which are evaluated once for each row |
//! | a function that returns a set, in FROM | a subquery of FROM, beside one row of arguments if these cost something |
//! | the same in a select list | an array of its rows, taken apart |
//!
//! While a body is analysed, names of its parameters and `$n` mean the arguments: constants and the statement's parameters as
//! they are, everything else as a column of an outer query that has a qualifier of its own. Names of relations and functions
//! mean what they mean to whoever calls, or, of a standard body (RETURN, BEGIN ATOMIC), what they meant when it was made.
//!
//! PostgreSQL gives a volatile function a snapshot for each of its queries, so that it sees what the statement has written so
//! far. Here a statement has one: one that writes to a table that such a function of it reads is refused.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::{AggregateFunction, Unnest};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Spanned, Statement, TableAlias, Visitor};
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_ast::AstWalk;
use resurgam_dialect::Volatility;
use resurgam_engine::{Access, Table};

use super::bound::{Bound, Relation, Type};
use super::expr::{Clause, as_subquery};
use super::from::From;
use super::function::{CallForm, Called};
use super::scope::{Item, Scope};
use super::select::{Target, project};
use super::user_args::{
    Passed, beside_args, given_nulls, has_volatile_call, if_no_nulls, is_cheap, is_given, nodes, uses,
};
use super::user_result::result_columns;
use super::{Analyzed, Analyzer, Refusal, Result, unknown};
use crate::exec::apply::body_call;
use crate::parse::depth::too_deep;
use crate::parse::read::parse_known;
use crate::parse::shape::bare_select;
use crate::pg::types::oid;
use crate::pg::user_functions::{Source, UserFunction};
use crate::plan::call::Written;
use crate::plan::needs::Needs;
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// Bodies within each other, as many as views: plans are as deep. (PostgreSQL ends where its stack does.)
const LEVELS_MAX: usize = 32;
/// Bodies that one statement may stand for.
const EXPANDED_MAX: usize = 2000;
/// Nodes of an expression that takes the place of a call, where an argument may be written several times.
const NODES_MAX: usize = 10_000;

/// What analysis knows of functions of users.
#[derive(Default)]
pub(super) struct Calls {
    /// Those whose bodies are being analysed, innermost last.
    pub(super) within: Vec<Frame>,
    /// How many were.
    expanded: usize,
    /// Bodies by the function's oid. They stay: places in memory of their syntax are what some things are known by.
    bodies: HashMap<u32, Arc<Body>>,
    /// Calls, so that one that is written twice is one expression.
    known: Vec<Known>,
    /// Tables that volatile functions read, with the function.
    volatile_reads: Vec<(u32, String)>,
    /// What is analysed has no subqueries: errors call it so.
    pub(super) plain: Option<&'static str>,
    /// A body is being made: it is the first of `within`.
    pub(super) making: bool,
    /// What is called is only typed.
    pub(super) only_types: bool,
    /// Functions that calls mean, by the places in memory of their names.
    pub(super) resolved: HashMap<usize, u32>,
}

/// A call that was met, and how many bodies stand in what it is.
struct Known {
    oid: u32,
    args: Vec<Expr>,
    bound: Bound,
    bodies: usize,
    is_mutable: bool,
}

/// A body that is being analysed.
pub(super) struct Frame {
    pub(super) function: Arc<UserFunction>,
    pub(super) params: Vec<Bound>,
}

/// What a function does, read.
pub(super) struct Body {
    pub statements: Vec<Statement>,
}

/// The statements of a function's body.
///
/// # Errors
/// `42601`, without a place: that is in another text.
pub(crate) fn statements_of(source: &Source) -> std::result::Result<Vec<Statement>, SqlError> {
    let sql = match source {
        Source::Text(sql) => sql,
        Source::Return(view) | Source::Atomic(view) => &view.sql,
    };
    parse_known(sql).map_err(|mut error| {
        error.position = None;
        error
    })
}

/// A function, the values of its arguments if there are any, and the statements of its body.
pub(crate) type Alone = (Arc<UserFunction>, Option<Analyzed>, Vec<Statement>);

/// A call that is alone in its statement, of a function whose body is more than a query that can take its place: the function,
/// the values of the arguments if there are any, and the statements. `None`: it is another call.
///
/// # Errors
/// PostgreSQL's; `0A000` for what is not known here.
pub(crate) fn call_alone(
    names: &Names<'_>,
    call: &Written<'_>,
    text: &str,
    params: &mut ParamTypes,
) -> std::result::Result<Option<Alone>, SqlError> {
    let Some((schema, name)) = super::expr::function_name(call.name) else { return Ok(None) };
    let types = crate::pg::user_types::current();
    if types.is_none_or(|types| types.functions_named(schema.as_deref(), &name).next().is_none()) {
        return Ok(None);
    }
    let mut analyzer = Analyzer::new(names, text, params);
    let mut found = || -> Result<Option<Alone>> {
        let (args, form) = analyzer.arguments(call.args, &name, &Scope::empty(), Clause::SelectList)?;
        let called = analyzer.called(schema.as_deref(), &name, args, &form, call.name.span())?;
        let Some((function, args)) = called.user else { return Ok(None) };
        let plain = |arg: &Bound| {
            let has = |e: &Expr| matches!(e, Expr::Unnest(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_));
            !arg.expr.exists(|e| Ok(has(e))).unwrap_or(true)
        };
        let statements = statements_of(&function.definition.source)?;
        if !args.iter().all(plain) || only_query(&statements).is_some() && function.definition.result != oid::VOID {
            return Ok(None);
        }
        let mut targets = Vec::with_capacity(args.len());
        for (at, (arg, param)) in args.into_iter().zip(function.definition.inputs()).enumerate() {
            // In the form in which parameters are.
            let form = crate::pg::types::parameter_field("", param.ty).data_type().clone();
            let bound = analyzer.in_form(arg, &form)?;
            targets.push(Target { name: format!("p{at}"), bound, is_hidden: false });
        }
        if targets.is_empty() {
            return Ok(Some((function, None, statements)));
        }
        let relation = project(LogicalPlanBuilder::empty(true).build()?, &targets)?;
        analyzer.no_outer_aggregates()?;
        if analyzer.collations.seen {
            return unknown("a collation of ICU in the arguments of this function");
        }
        let needs = analyzer.needs();
        let args = Analyzed { needs, ..relation.into_analyzed() };
        Ok(Some((function, Some(args), statements)))
    };
    found().map_err(Refusal::into_error)
}

impl Calls {
    /// The parameter of the innermost function of that name.
    fn named(&self, name: &str) -> Option<&Bound> {
        let frame = self.within.last()?;
        let inputs = frame.function.definition.inputs();
        inputs.zip(&frame.params).find(|(param, _)| param.name == name && !name.is_empty()).map(|(_, bound)| bound)
    }
}

/// The query that a body is, if it is one.
fn only_query(statements: &[Statement]) -> Option<&ast::Query> {
    match statements {
        [Statement::Query(query)] => Some(query),
        _ => None,
    }
}

/// The expression that a query is, if it is one, without subqueries.
fn only_expression<'q>(query: &'q ast::Query, is_aggregate: &dyn Fn(&str) -> bool) -> Option<&'q ast::Expr> {
    struct Find<'a>(&'a dyn Fn(&str) -> bool);
    impl Visitor for Find<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> std::ops::ControlFlow<()> {
            std::ops::ControlFlow::Break(())
        }
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> std::ops::ControlFlow<()> {
            match expr {
                ast::Expr::Function(call) if call.over.is_some() => std::ops::ControlFlow::Break(()),
                ast::Expr::Function(call) => {
                    let name = super::expr::function_name(&call.name);
                    match name.is_none_or(|(_, name)| self.0(&name)) {
                        true => std::ops::ControlFlow::Break(()),
                        false => std::ops::ControlFlow::Continue(()),
                    }
                }
                _ => std::ops::ControlFlow::Continue(()),
            }
        }
    }
    let select = bare_select(query).filter(|select| select.from.is_empty())?;
    let [ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    expr.walk(&mut Find(is_aggregate)).is_continue().then_some(expr)
}

/// A pseudo-view: names of a standard body mean what they meant when it was made. The rights are the caller's.
fn as_view(function: &UserFunction) -> Option<Arc<Table>> {
    let view = function.definition.source.view()?;
    let access = Access { invoker: true, ..Access::FIRST };
    Some(Arc::new(Table::of_names(function.id, &function.schema, function.name(), view.clone(), access)))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) | Expr::Unnest(_)
        )
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(true)
}

impl Analyzer<'_> {
    /// What is analysed is a statement of a function's body: its parameters are the function's.
    pub(super) fn begin_body(&mut self) {
        let Some(body) = self.params.body.clone() else { return };
        let count = body.function.definition.inputs().count();
        // Their types are declared.
        let params = (1..=count).filter_map(|number| self.parameter(&format!("${number}")).ok()).collect();
        if let Some(view) = as_view(&body.function) {
            self.enter_view(&view);
        }
        self.calls.within.push(Frame { function: body.function, params });
    }

    /// A parameter of the function whose body is analysed, by its name.
    pub(super) fn named_param(&self, name: &str) -> Option<Bound> {
        self.calls.named(name).cloned()
    }

    /// The same with the function's name before it.
    pub(super) fn qualified_param(&self, function: &str, name: &str) -> Option<Bound> {
        let frame = self.calls.within.last()?;
        (frame.function.name() == function).then(|| self.named_param(name)).flatten()
    }

    /// `$n` in the body of a function; `None`: there is no body around.
    pub(super) fn numbered_param(&self, id: &str) -> Result<Option<Bound>> {
        let Some(frame) = self.calls.within.last() else { return Ok(None) };
        let at = crate::exec::cell::placeholder_index(id);
        match at.and_then(|at| frame.params.get(at)) {
            Some(bound) => Ok(Some(bound.clone())),
            None => Err(SqlError::new("42P02", format!("there is no parameter {id}")).into()),
        }
    }

    /// What a call means, for what keeps the syntax: one of a query that is analysed itself.
    fn note_called(&mut self, name: &ast::ObjectName, called: &Called) {
        if self.calls.within.len() == usize::from(self.calls.making)
            && !self.is_within_view()
            && let Some((function, _)) = &called.user
        {
            self.calls.resolved.insert(std::ptr::from_ref(name) as usize, function.oid());
        }
    }

    /// A call by that name, which is `schema.function`.
    pub(super) fn call_named_so(
        &mut self,
        name: &ast::ObjectName,
        (schema, function): (Option<&str>, &str),
        args: Vec<Bound>,
        form: &CallForm,
    ) -> Result<Called> {
        let span = name.span();
        let called = self.called(schema, function, args, form, span)?;
        self.note_called(name, &called);
        match called.user {
            Some((user, args)) => self.user_call(user, args, span),
            None => Ok(called),
        }
    }

    /// The function of users with that oid.
    pub(super) fn user_function(&self, oid: u32) -> Option<Arc<UserFunction>> {
        crate::pg::user_types::current()?.function(oid).cloned()
    }

    fn body_of(&mut self, function: &UserFunction) -> Result<Arc<Body>> {
        if let Some(known) = self.calls.bodies.get(&function.oid()) {
            return Ok(Arc::clone(known));
        }
        let body = Arc::new(Body { statements: statements_of(&function.definition.source)? });
        self.calls.bodies.insert(function.oid(), Arc::clone(&body));
        Ok(body)
    }

    /// Analyses what stands in the body of a function.
    fn in_body<T>(
        &mut self,
        function: &Arc<UserFunction>,
        params: Vec<Bound>,
        go: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.calls.expanded += 1;
        if self.levels() >= LEVELS_MAX || self.calls.expanded > EXPANDED_MAX {
            let is_within = |frame: &Frame| frame.function.id == function.id;
            return Err(match self.calls.within.iter().any(is_within) {
                true => too_deep().with_hint(format!(
                    "Function {} calls itself, which is not supported: a call is replaced by the function's body.",
                    function.definition.signature()
                )),
                false => too_deep(),
            }
            .into());
        }
        let since = self.sought_so_far();
        // Its places are in another text, its names are of another query.
        let text = std::mem::take(&mut self.text);
        let windows = std::mem::take(&mut self.windows);
        let listed = std::mem::take(&mut self.listed);
        let views = self.leave_views(as_view(function));
        let stored = std::mem::replace(&mut self.stored, false);
        let (sets, at_top) = (self.sets, std::mem::take(&mut self.once.at_top));
        self.calls.within.push(Frame { function: Arc::clone(function), params });
        let done = self.nested(|this| this.inside(Clause::From, go));
        self.calls.within.pop();
        (self.text, self.windows, self.listed, self.stored) = (text, windows, listed, stored);
        (self.sets, self.once.at_top) = (sets, at_top);
        self.enter_views(views);
        if function.definition.volatility == Volatility::Volatile {
            let read = self.sought_since(since).into_iter();
            let name = function.definition.signature();
            self.calls.volatile_reads.extend(read.map(|table| (table, name.clone())));
        }
        done
    }

    /// Refuses a statement that writes to a table which a volatile function of it reads.
    pub(super) fn refuse_volatile_reads(&self, needs: &Needs) -> Result<()> {
        if self.calls.volatile_reads.is_empty() {
            return Ok(());
        }
        for table in needs.written() {
            if let Some((_, function)) = self.calls.volatile_reads.iter().find(|(read, _)| *read == table.id) {
                let text = format!("a volatile function that reads the table that the statement writes to, {function}");
                return Err(SqlError::unsupported(format!("{text}, is not supported"))
                    .with_hint("Declare the function STABLE if it is to see the table as it was before the statement.")
                    .into());
            }
        }
        Ok(())
    }

    /// What a call of a function of users gives, in an expression.
    pub(super) fn user_call(&mut self, function: Arc<UserFunction>, args: Vec<Bound>, span: Span) -> Result<Called> {
        let args = self.guarded_args(args);
        let before = self.is_mutable;
        let volatility = function.definition.volatility;
        let is_plain = !function.definition.returns_set && !function.definition.strict;
        let mut called = self.user_call_of(function, args, span);
        if let Ok(called) = &mut called
            && crate::pg::collation::of_type(called.bound.ty.oid) != 0
        {
            called.bound.expr = self.of_default(std::mem::take(&mut called.bound.expr));
        }
        // As in PostgreSQL: what is declared counts, but where the body takes the call's place.
        let takes_place = is_plain && called.as_ref().is_ok_and(|called| !has_subquery(&called.bound.expr));
        self.is_mutable = match volatility {
            Volatility::Immutable => before,
            _ => self.is_mutable || !takes_place,
        };
        called
    }

    fn user_call_of(&mut self, function: Arc<UserFunction>, args: Vec<Bound>, span: Span) -> Result<Called> {
        let returns_set = function.definition.returns_set;
        let done = |bound: Bound| Called { bound: bound.at(span), returns_set, out_name: None, user: None };
        if self.calls.only_types {
            let value = self.null(Type::of(function.definition.result))?;
            if !returns_set {
                return Ok(done(value));
            }
            return Ok(done(no_rows(value)));
        }
        let exprs: Vec<Expr> = args.iter().map(|arg| arg.expr.clone()).collect();
        let oid = function.oid();
        if let Some(known) = self.calls.known.iter().find(|known| known.oid == oid && known.args == exprs) {
            // What stands there twice is planned twice.
            let (bound, bodies) = (known.bound.clone(), known.bodies);
            self.is_mutable |= known.is_mutable;
            self.calls.expanded = self.calls.expanded.saturating_add(bodies);
            return match self.calls.expanded > EXPANDED_MAX {
                true => Err(too_deep().into()),
                false => Ok(done(bound)),
            };
        }
        let before = self.calls.expanded;
        let around = std::mem::take(&mut self.is_mutable);
        let bound = match returns_set {
            true => self.user_set(&function, args),
            false => self.user_value(&function, args),
        };
        let is_mutable = std::mem::replace(&mut self.is_mutable, around);
        self.is_mutable |= is_mutable;
        let (bound, bodies) = (bound?, self.calls.expanded - before);
        self.calls.known.push(Known { oid, args: exprs, bound: bound.clone(), bodies, is_mutable });
        Ok(done(bound))
    }

    /// A value of a function that returns no set.
    fn user_value(&mut self, function: &Arc<UserFunction>, args: Vec<Bound>) -> Result<Bound> {
        let result = Type::of(function.definition.result);
        if result.oid == oid::VOID {
            return unknown(format!("a call of function {}, which returns void, in this place", signature(function)));
        }
        if result_columns(function).len() != 1 {
            return unknown(format!("a row of function {} as a value", signature(function)));
        }
        let strict = function.definition.strict;
        if strict && args.iter().any(Bound::is_null) {
            return self.null(result);
        }
        let passed = self.passed(function, args, &|expr| !is_given(expr));
        let body = self.body_of(function)?;
        let Some(query) = only_query(&body.statements) else { return not_one_query(function) };
        let state = self.names.state;
        let is_aggregate = |name: &str| state.aggregate_functions().contains_key(name);
        let relation = match only_expression(query, &is_aggregate) {
            Some(expr) => {
                let bound = self.in_body(function, passed.params.clone(), |this| {
                    let bound = this.expr(expr, &Scope::empty(), Clause::SelectList)?;
                    this.as_result(function, bound, result)
                })?;
                if let Some(inlined) = self.inlined(&bound, &passed, strict)? {
                    return Ok(inlined);
                }
                match super::sets::has_set(&bound.expr) {
                    true => self.user_rows_of(function, query, &passed)?,
                    false => {
                        let one = LogicalPlanBuilder::empty(true).build()?;
                        project(one, &[Target { name: function.name().to_owned(), bound, is_hidden: false }])?
                    }
                }
            }
            None => self.user_rows_of(function, query, &passed)?,
        };
        self.refuse_where_plain(function)?;
        let plan = LogicalPlanBuilder::from(relation.plan).limit(0, Some(1))?.build()?;
        let column = relation.columns.into_iter().next();
        let Some(column) = column.map(|column| column.bound) else { return unknown("a function without a result") };
        let relation = Relation::of_plan(plan, [(function.name().to_owned(), column.ty)]);
        let data = relation.columns[0].bound.data.clone();
        let expr = body_call(as_subquery(relation), &self.call_args(&passed), strict)?;
        let expr = if_no_nulls(given_nulls(&passed).filter(|_| strict), expr, &data)?;
        Ok(Bound::with_data(expr, result, data))
    }

    /// `0A000` where there can be no subqueries.
    fn refuse_where_plain(&self, function: &UserFunction) -> Result<()> {
        match self.calls.plain {
            None => Ok(()),
            Some(place) => unknown(format!(
                "a call of function {}, whose body is more than an expression, in a {place}",
                signature(function)
            )),
        }
    }

    /// The expression of a body with the arguments in it; `None`: one of them would be computed more often than it is written.
    fn inlined(&mut self, bound: &Bound, passed: &Passed, strict: bool) -> Result<Option<Bound>> {
        if super::sets::has_set(&bound.expr) {
            return Ok(None);
        }
        let uses = uses(&bound.expr, passed)?;
        let plain = self.calls.plain.is_some();
        let mut size = nodes(&bound.expr);
        for (param, arg) in &passed.args {
            let times = uses.get(param).copied().unwrap_or(0) + usize::from(strict);
            size += times * nodes(&arg.expr);
            let fits = times <= 1 || is_cheap(&arg.expr) || plain && !has_volatile_call(&arg.expr);
            if !fits {
                return Ok(None);
            }
        }
        if size > NODES_MAX {
            return if plain { Err(too_deep().into()) } else { Ok(None) };
        }
        let value = bound
            .expr
            .clone()
            .transform_up(|expr| {
                Ok(match passed.param_of(&expr).and_then(|of| passed.args.iter().find(|(param, _)| *param == of)) {
                    Some((_, arg)) => Transformed::yes(arg.expr.clone()),
                    None => Transformed::no(expr),
                })
            })
            .data()?;
        let of_args = passed.args.iter().map(|(_, arg)| Expr::IsNull(Box::new(arg.expr.clone())));
        let nulls = given_nulls(passed).into_iter().chain(of_args).reduce(Expr::or).filter(|_| strict);
        let expr = if_no_nulls(nulls, value, &bound.data)?;
        Ok(Some(Bound { expr, ..bound.clone() }))
    }

    /// The rows of a body, with columns as the function returns them.
    fn user_rows_of(&mut self, function: &Arc<UserFunction>, query: &ast::Query, passed: &Passed) -> Result<Relation> {
        self.in_body(function, passed.params.clone(), |this| {
            let relation = this.nested(|this| this.bind_query_untyped(query, &Scope::empty()))?;
            let relation = this.type_columns(relation, None)?;
            this.result_rows(function, relation)
        })
    }

    /// The rows of a function that returns a set, in an expression.
    fn user_set(&mut self, function: &Arc<UserFunction>, args: Vec<Bound>) -> Result<Bound> {
        if result_columns(function).len() != 1 {
            return unknown(format!("a row of function {} as a value", signature(function)));
        }
        self.refuse_where_plain(function)?;
        let strict = function.definition.strict;
        if strict && args.iter().any(Bound::is_null) {
            // No rows, as of an empty array.
            let value = self.null(Type::of(function.definition.result))?;
            return Ok(no_rows(value));
        }
        let passed = self.passed(function, args, &|expr| !is_given(expr));
        let body = self.body_of(function)?;
        let Some(query) = only_query(&body.statements) else { return not_one_query(function) };
        let relation = self.user_rows_of(function, query, &passed)?;
        let column = relation.columns.first().map(|column| column.bound.ty);
        let Some(ty) = column else { return unknown("a function without a result") };
        let list = self.rows_as_list(relation)?;
        let data = list.columns[0].bound.data.clone();
        let DataType::List(item) = &data else { return unknown("this set-returning function") };
        let item = item.data_type().clone();
        let call = body_call(as_subquery(list), &self.call_args(&passed), strict)?;
        let call = if_no_nulls(given_nulls(&passed).filter(|_| strict), call, &data)?;
        let array = crate::pg::types::type_by_oid(ty.oid).map_or(0, |row| row.array);
        let list = self.or_empty(Bound::with_data(call, Type::of(array), data.clone()))?;
        let expr = Expr::Unnest(Unnest { expr: Box::new(list.expr), outer: false });
        Ok(Bound::with_data(expr, ty, item))
    }

    /// The function of users that returns rows, and its arguments, if such a call is an item of FROM.
    pub(super) fn set_in_from(
        &mut self,
        name: &ast::ObjectName,
        called: &Called,
    ) -> Option<(Arc<UserFunction>, Vec<Bound>)> {
        self.note_called(name, called);
        called.user.clone().filter(|(function, _)| called.returns_set || result_columns(function).len() != 1)
    }

    /// A function that returns a set, or one row of several columns, as an item of FROM.
    pub(super) fn user_item(
        &mut self,
        function: &Arc<UserFunction>,
        args: Vec<Bound>,
        alias: Option<&TableAlias>,
        own: &TableAlias,
        before: &[Item],
    ) -> Result<From> {
        let wanted = result_columns(function);
        let named = function.definition.columns().any(|param| !param.name.is_empty());
        if self.calls.only_types {
            let mut targets = Vec::new();
            for (name, ty) in &wanted {
                targets.push(Target { name: name.clone(), bound: self.null(*ty)?, is_hidden: false });
            }
            let relation = project(LogicalPlanBuilder::empty(true).build()?, &targets)?;
            return self.derived(relation, alias.unwrap_or(own), before);
        }
        let args = self.guarded_args(args);
        let strict = function.definition.strict;
        let is_null = strict && args.iter().any(Bound::is_null);
        let passed = self.passed(function, args, &|expr| !is_given(expr));
        let body = self.body_of(function)?;
        let Some(query) = only_query(&body.statements) else { return not_one_query(function) };
        let mut relation = self.user_rows_of(function, query, &passed)?;
        if !function.definition.returns_set {
            relation.plan = LogicalPlanBuilder::from(relation.plan).limit(0, Some(1))?.build()?;
        }
        if !passed.args.is_empty() {
            relation = beside_args(relation, &passed, strict)?;
        }
        if let Some(nulls) = given_nulls(&passed).filter(|_| strict) {
            relation.plan = LogicalPlanBuilder::from(relation.plan).filter(Expr::Not(Box::new(nulls)))?.build()?;
        }
        if is_null {
            let never = Expr::Literal(ScalarValue::Boolean(Some(false)), None);
            relation.plan = LogicalPlanBuilder::from(relation.plan).filter(never)?.build()?;
        }
        if !function.definition.returns_set {
            relation = self.one_row_of(relation)?;
        }
        relation = self.guarded_rows(relation)?;
        if let (false, Some(alias), [column]) = (named, alias, relation.columns.as_mut_slice()) {
            // The column of a function that returns no table has the item's name.
            column.name = super::scope::folded(&alias.name);
        }
        self.derived(relation, alias.unwrap_or(own), before)
    }
}

impl Analyzer<'_> {
    /// Arguments as bodies are analysed for them: of the default collation.
    fn guarded_args(&self, args: Vec<Bound>) -> Vec<Bound> {
        let of_text = |bound: &Bound| crate::pg::collation::of_type(bound.ty.oid) != 0;
        let guarded = |bound: Bound| match of_text(&bound) {
            true => Bound { expr: self.guarded(bound.expr), ..bound },
            false => bound,
        };
        args.into_iter().map(guarded).collect()
    }

    /// The rows of a function in FROM, whose columns must have the default collation.
    fn guarded_rows(&self, relation: Relation) -> Result<Relation> {
        if !self.collations.on {
            return Ok(relation);
        }
        let columns = self.guarded_args(relation.columns.iter().map(|column| column.bound.clone()).collect());
        let named = relation.columns.into_iter().map(|column| column.name);
        let targets: Vec<Target> =
            named.zip(columns).map(|(name, bound)| Target { name, bound, is_hidden: false }).collect();
        project(relation.plan, &targets)
    }

    /// The one row that a relation has, or a row of NULLs.
    fn one_row_of(&mut self, relation: Relation) -> Result<Relation> {
        let Some(first) = self.names.state.aggregate_functions().get("first_value").cloned() else {
            return unknown("a function that returns one row");
        };
        let names: Vec<(String, Type)> =
            relation.columns.iter().map(|column| (column.name.clone(), column.bound.ty)).collect();
        let exprs = relation.columns.iter().enumerate().map(|(at, column)| {
            let call = AggregateFunction::new_udf(
                Arc::clone(&first),
                vec![column.bound.expr.clone()],
                false,
                None,
                Vec::new(),
                None,
            );
            Expr::AggregateFunction(call).alias(format!("r{at}"))
        });
        let plan = LogicalPlanBuilder::from(relation.plan).aggregate(Vec::<Expr>::new(), exprs)?.build()?;
        Ok(Relation::of_plan(plan, names))
    }
}

/// A set of such values that has none.
fn no_rows(value: Bound) -> Bound {
    let none = ScalarValue::List(ScalarValue::new_list_nullable(&[], &value.data));
    let expr = Expr::Unnest(Unnest { expr: Box::new(Expr::Literal(none, None)), outer: false });
    Bound::with_data(expr, value.ty, value.data)
}

pub(super) fn signature(function: &UserFunction) -> String {
    function.definition.signature()
}

fn not_one_query<T>(function: &UserFunction) -> Result<T> {
    unknown(format!("a call of function {}, whose body is not one query, in this place", signature(function)))
}
