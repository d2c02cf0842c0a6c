//! Collations: which one an expression has, and what is ordered by one of ICU.
//!
//! A statement in which no collation of ICU is met knows nothing of this. One in which one is met is analysed once more
//! ([`analysed`]), with what it says of collations written into its expressions ([`Said`]); then its whole plan is gone through,
//! from its tables up ([`Pass`]). Each expression has a collation by the rules of PostgreSQL's parse_collate.c ([`Derived`]),
//! and whatever goes by the order of texts that have one of ICU goes by their keys instead:
//!
//! | written | planned |
//! |---|---|
//! | `x < y` | `key(x) < key(y)` |
//! | `ORDER BY x`, also of windows and aggregates, and of DISTINCT ON | `ORDER BY key(x)` |
//! | `min(x)` | `text_of(min(key(x)))` |
//! | `greatest(x, y)` | `text_of(greatest(key(x), key(y)))` |
//! | `upper(x)`, `x ILIKE y` | by the letters of the language |
//! | `x < ANY (SELECT y …)` | `key(x) < ANY (SELECT key(y) …)` |
//!
//! Equality is that of bytes, so it stays what it is. To all that comes behind, a key is an opaque function of a column: an index,
//! which is in the order of bytes, is never taken for its order.
//!
//! Invariants:
//! 1. What is not known here is refused (`0A000`) where a value with a collation of ICU comes to it: nodes of plans, kinds of
//!    expressions, functions ([`passes`]), aggregates ([`is_orderless`]).
//! 2. Names of columns of plans stay what they are.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, DFSchemaRef, DataFusionError, JoinType, ScalarValue};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{
    AggregateFunction, BinaryExpr, GroupingSet, InList, InSubquery, ScalarFunction, SetComparison, Sort as SortExpr,
    WindowFunction,
};
use datafusion::logical_expr::logical_plan::{
    Aggregate, Distinct, DistinctOn, Projection, RecursiveQuery, Sort, Subquery, TableScan, Union, Values, Window,
};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, Operator, WindowFrame, WindowFrameUnits, WindowFunctionDefinition,
};
use resurgam_engine::Table;

use super::once::{OnceDone, OnceQueries};
use super::write::Write;
use super::{Analyzed, Analyzer, Locking, Refusal, Result as AnalysisResult};
use crate::exec::collate::{Said, Says, in_case, key, text_of};
use crate::exec::table::engine_table;
use crate::exec::{array_compare, computed_limit, fold, sets};
use crate::pg::collation::{C, DEFAULT, Order, by_oid, has_icu, is_icu, name_of, of_column};
use crate::pg::types::{self, oid};
use crate::pg::{errors, running};
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

type Result<T, E = SqlError> = std::result::Result<T, E>;

/// In the place of a column's collation: it has none that is determined.
pub(crate) const UNDETERMINED: u32 = u32::MAX;

/// What analysis knows of collations.
#[derive(Default)]
pub(super) struct Collations {
    /// What is said of them is written into expressions.
    pub(super) on: bool,
    /// One of ICU was met.
    pub(super) seen: bool,
    /// Queries that are computed once, and that lock their rows, by the names of their rows in plans.
    pub(super) once: HashMap<String, usize>,
    pub(super) locked: HashMap<String, usize>,
}

/// Analyses something, once more if collations of ICU are met.
pub(super) fn analysed<T>(
    names: &Names<'_>,
    text: &str,
    params: &mut ParamTypes,
    go: impl Fn(&mut Analyzer<'_>) -> AnalysisResult<T>,
) -> Result<T> {
    let before = params.clone();
    let mut analyzer = Analyzer::new(names, text, params);
    let done = go(&mut analyzer);
    if !analyzer.collations.seen {
        return done.map_err(Refusal::into_error);
    }
    drop(analyzer);
    *params = before;
    let mut analyzer = Analyzer::new(names, text, params);
    analyzer.collations.on = true;
    go(&mut analyzer).map_err(Refusal::into_error)
}

impl Analyzer<'_> {
    /// A table is read or written.
    pub(super) fn see_table(&mut self, table: &Table) {
        self.collations.seen |= has_icu(table);
    }

    /// An argument of a function of users, whose body is analysed as one of the default collation.
    pub(super) fn guarded(&self, expr: Expr) -> Expr {
        match (self.collations.on, &expr) {
            (false, _) | (true, Expr::Literal(..) | Expr::Placeholder(_)) => expr,
            _ => Said::call(Says::Default, vec![expr]),
        }
    }

    /// A value that has the default collation, whatever it is made of.
    pub(super) fn of_default(&self, expr: Expr) -> Expr {
        match (self.collations.on, expr) {
            (false, expr) => expr,
            (true, Expr::Unnest(mut set)) => {
                *set.expr = Said::call(Says::Implicit(DEFAULT), vec![*set.expr]);
                Expr::Unnest(set)
            }
            (true, expr) => Said::call(Says::Implicit(DEFAULT), vec![expr]),
        }
    }

    /// A query with its texts ordered as their collations say.
    pub(super) fn collate(&mut self, analyzed: &mut Analyzed) -> AnalysisResult<()> {
        if !self.collations.on {
            return Ok(());
        }
        let mut pass = Pass::new(&self.collations, &mut analyzed.once, &mut analyzed.locks);
        let (plan, columns) = pass.plan(std::mem::take(&mut analyzed.plan))?;
        pass.finish(&mut analyzed.once, &mut analyzed.locks)?;
        analyzed.plan = plan;
        for (column, derived) in analyzed.columns.iter_mut().zip(&columns) {
            column.collation = match derived {
                Derived::Conflict(..) | Derived::Lost => UNDETERMINED,
                other => other.oid(),
            };
        }
        Ok(())
    }

    /// The same of a statement that writes.
    pub(super) fn collate_write(&mut self, write: &mut Write) -> AnalysisResult<()> {
        if !self.collations.on {
            return Ok(());
        }
        let (mut once, mut locks) = (std::mem::take(&mut write.once), std::mem::take(&mut write.locks));
        let mut pass = Pass::new(&self.collations, &mut once, &mut locks);
        pass.write(write)?;
        pass.finish(&mut once, &mut locks)?;
        (write.once, write.locks) = (once, locks);
        Ok(())
    }
}

/// An expression over a row of a table, with its texts ordered as their collations say.
///
/// # Errors
/// As those of a statement; `0A000` where `kept` and the order of a collation of ICU counts: what was stored would be by another
/// version of it.
pub(super) fn over_row(table: &Table, schema: &DFSchema, expr: Expr, kept: Option<&str>) -> Result<Expr> {
    let columns = (0..schema.fields().len()).map(|at| of_table(table, at)).collect();
    let known = Known { schema: Arc::new(schema.clone()), columns };
    let mut pass = Pass::default();
    let (expr, _) = pass.expr(expr, &known)?;
    if let Some(error) = pass.undecided {
        return Err(error);
    }
    if let Some(what) = kept
        && (pass.keys > 0 || pass.explicit)
    {
        return Err(SqlError::unsupported(format!("a collation of ICU in an {what} is not supported")));
    }
    Ok(expr)
}

/// Whether something is said of collations in an expression.
pub(crate) fn says_any(expr: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    expr.exists(|e| Ok(matches!(e, Expr::ScalarFunction(call) if Said::of(&call.func).is_some()))).unwrap_or(true)
}

/// The collation of an expression, and how strongly it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Derived {
    /// It is of a type that has none.
    None,
    Implicit(u32),
    Explicit(u32),
    /// It has one of several.
    Conflict(u32, u32),
    /// The same of a column of a query within: any other counts more.
    Lost,
}

impl Derived {
    fn of_oid(oid: u32) -> Self {
        if oid == 0 { Self::None } else { Self::Implicit(oid) }
    }

    /// That of two expressions together.
    ///
    /// # Errors
    /// `42P21`
    fn and(self, other: Self) -> Result<Self> {
        Ok(match (self, other) {
            (Self::Explicit(one), Self::Explicit(other)) if one != other => {
                let (one, other) = (shown(one), shown(other));
                let text = format!("collation mismatch between explicit collations {one} and {other}");
                return Err(SqlError::new("42P21", text));
            }
            (one @ Self::Explicit(_), _) | (_, one @ Self::Explicit(_)) => one,
            (Self::None, other) | (other, Self::None) => other,
            (Self::Lost, other) | (other, Self::Lost) => other,
            (one @ Self::Conflict(..), _) | (_, one @ Self::Conflict(..)) => one,
            (Self::Implicit(DEFAULT), other) | (other, Self::Implicit(DEFAULT)) => other,
            (Self::Implicit(one), Self::Implicit(other)) if one == other => self,
            (Self::Implicit(one), Self::Implicit(other)) => Self::Conflict(one, other),
        })
    }

    /// As a column of a query, for the query around it.
    fn of_column(self) -> Self {
        match self {
            Self::Explicit(oid) => Self::Implicit(oid),
            Self::Conflict(..) => Self::Lost,
            other => other,
        }
    }

    /// The one that counts where texts are compared.
    ///
    /// # Errors
    /// `42P22`
    fn decided(self) -> Result<u32> {
        match self {
            Self::None => Ok(0),
            Self::Implicit(oid) | Self::Explicit(oid) => Ok(oid),
            Self::Conflict(..) | Self::Lost => {
                Err(SqlError::new("42P22", "could not determine which collation to use for string comparison")
                    .with_hint("Use the COLLATE clause to set the collation explicitly."))
            }
        }
    }

    /// Of what is sorted or grouped by.
    ///
    /// # Errors
    /// `42P21`
    fn of_key(self) -> Result<Self> {
        let Self::Conflict(one, other) = self else { return Ok(self) };
        let text = format!("collation mismatch between implicit collations {} and {}", shown(one), shown(other));
        let hint = "You can choose the collation by applying the COLLATE clause to one or both expressions.";
        Err(SqlError::new("42P21", text).with_hint(hint))
    }

    /// Whether one of ICU is, or may be, meant.
    fn is_icu(self) -> bool {
        match self {
            Self::None => false,
            Self::Lost => true,
            Self::Implicit(oid) | Self::Explicit(oid) => is_icu(oid),
            Self::Conflict(one, other) => is_icu(one) || is_icu(other),
        }
    }

    fn oid(self) -> u32 {
        match self {
            Self::None | Self::Conflict(..) | Self::Lost => 0,
            Self::Implicit(oid) | Self::Explicit(oid) => oid,
        }
    }
}

fn shown(oid: u32) -> String {
    format!("\"{}\"", name_of(oid).unwrap_or_default())
}

/// `0A000`: what stands there does not know collations.
fn refused(what: &str, derived: Derived) -> SqlError {
    if derived == Derived::Lost {
        return SqlError::unsupported(format!("{what} with a collation that is not determined is not supported"));
    }
    let oid = match derived {
        Derived::Conflict(one, other) => {
            if is_icu(one) {
                one
            } else {
                other
            }
        }
        other => other.oid(),
    };
    SqlError::unsupported(format!("{what} with the collation {} is not supported", shown(oid)))
}

fn failed(error: DataFusionError) -> SqlError {
    errors::from_datafusion(error, "")
}

fn is_text(data: &DataType) -> bool {
    data.is_string()
}

/// Whether values of an Arrow type have collations: texts and arrays of them.
fn is_collatable(data: &DataType) -> bool {
    match data {
        DataType::List(item) => is_collatable(item.data_type()),
        data => is_text(data),
    }
}

/// The collation that a column has by its type.
fn of_field(field: &datafusion::arrow::datatypes::FieldRef) -> Derived {
    match types::field_oid(field) {
        _ if !is_collatable(field.data_type()) => Derived::None,
        oid::NAME => Derived::Implicit(C),
        _ => Derived::Implicit(DEFAULT),
    }
}

/// What expressions are over: columns, and their collations.
#[derive(Clone, Debug)]
struct Known {
    schema: DFSchemaRef,
    columns: Vec<Derived>,
}

impl Known {
    fn of(plan: &LogicalPlan, columns: &[Derived]) -> Self {
        Self { schema: Arc::clone(plan.schema()), columns: columns.to_vec() }
    }

    fn nothing() -> Self {
        Self { schema: Arc::new(DFSchema::empty()), columns: Vec::new() }
    }

    fn find(&self, column: &Column) -> Option<Derived> {
        self.columns.get(self.schema.maybe_index_of_column(column)?).copied()
    }

    /// An Arrow type.
    fn data(&self, expr: &Expr) -> Result<DataType> {
        expr.get_type(&*self.schema).map_err(failed)
    }
}

/// A query whose plan is gone through when its rows are first met.
#[derive(Debug)]
enum Other {
    Waiting(Box<LogicalPlan>),
    Writes(Box<Write>),
    Under,
    Done { plan: Option<Box<LogicalPlan>>, write: Option<Box<Write>>, columns: Vec<Derived> },
}

/// One walk through a statement.
#[derive(Debug, Default)]
struct Pass {
    once_names: HashMap<String, usize>,
    lock_names: HashMap<String, usize>,
    once: Vec<Other>,
    locks: Vec<Other>,
    /// Columns of recursive queries, by the names of what they have found so far.
    working: HashMap<String, Vec<Derived>>,
    /// Columns below the names that they have in FROM, by these; where a name stands twice, the innermost.
    aliased: HashMap<(String, String), Derived>,
    /// What the queries around read, innermost last.
    around: Vec<Known>,
    /// How many keys there are.
    keys: usize,
    /// How often case goes by the letters of a language.
    cases: usize,
    /// COLLATE says one of ICU.
    explicit: bool,
    /// What was compared and has no collation. PostgreSQL says so when it comes to a row, after all else.
    undecided: Option<SqlError>,
}

impl Pass {
    fn new(known: &Collations, once: &mut OnceQueries, locks: &mut [Locking]) -> Self {
        let once = once.queries.iter_mut().map(|query| match &mut query.done {
            OnceDone::Read(plan) => Other::Waiting(Box::new(std::mem::take(plan.as_mut()))),
            OnceDone::Write(write) => {
                let plan = LogicalPlan::default();
                let rest = Write::of_rows(write.op, Arc::clone(&write.table), plan);
                Other::Writes(Box::new(std::mem::replace(write.as_mut(), rest)))
            }
        });
        let locks = locks.iter_mut().map(|lock| Other::Waiting(Box::new(std::mem::take(&mut lock.plan))));
        Self {
            once_names: known.once.clone(),
            lock_names: known.locked.clone(),
            once: once.collect(),
            locks: locks.collect(),
            ..Self::default()
        }
    }

    /// The collation that counts where texts are compared.
    fn decided(&mut self, derived: Derived) -> u32 {
        derived.decided().unwrap_or_else(|error| {
            self.undecided.get_or_insert(error);
            0
        })
    }

    /// The one of ICU that counts where texts are ordered.
    fn order(&mut self, derived: Derived) -> Option<u32> {
        Some(self.decided(derived)).filter(|oid| is_icu(*oid))
    }

    /// Puts the queries back.
    fn finish(mut self, once: &mut OnceQueries, locks: &mut [Locking]) -> Result<()> {
        for number in 0..self.once.len() {
            self.columns_of(true, number)?;
        }
        for number in 0..self.locks.len() {
            self.columns_of(false, number)?;
        }
        for (query, done) in once.queries.iter_mut().zip(self.once) {
            match (&mut query.done, done) {
                (OnceDone::Read(to), Other::Done { plan: Some(plan), .. }) => **to = *plan,
                (OnceDone::Write(to), Other::Done { write: Some(write), .. }) => **to = *write,
                _ => return Err(SqlError::internal("a WITH query that was lost")),
            }
        }
        for (lock, done) in locks.iter_mut().zip(self.locks) {
            let Other::Done { plan: Some(plan), .. } = done else {
                return Err(SqlError::internal("a locking query that was lost"));
            };
            lock.plan = *plan;
        }
        match self.undecided {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The columns of a query that stands apart, which is gone through if it was not.
    fn columns_of(&mut self, once: bool, number: usize) -> Result<Vec<Derived>> {
        let list = if once { &mut self.once } else { &mut self.locks };
        let Some(other) = list.get_mut(number) else { return Err(SqlError::internal("a query that is not there")) };
        if let Other::Done { columns, .. } = other {
            return Ok(columns.clone());
        }
        let other = std::mem::replace(other, Other::Under);
        let around = std::mem::take(&mut self.around);
        let done = match other {
            Other::Waiting(plan) => {
                let (plan, columns) = self.plan(*plan)?;
                Other::Done { plan: Some(Box::new(plan)), write: None, columns }
            }
            Other::Writes(mut write) => {
                let columns = self.write(&mut write)?;
                Other::Done { plan: None, write: Some(write), columns }
            }
            _ => return Err(SqlError::internal("a query that reads itself")),
        };
        self.around = around;
        let columns = match &done {
            Other::Done { columns, .. } => columns.iter().map(|derived| derived.of_column()).collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        let list = if once { &mut self.once } else { &mut self.locks };
        if let (Some(place), Other::Done { plan, write, .. }) = (list.get_mut(number), done) {
            *place = Other::Done { plan, write, columns: columns.clone() };
        }
        Ok(columns)
    }

    /// A statement that writes; the columns of its RETURNING.
    fn write(&mut self, write: &mut Write) -> Result<Vec<Derived>> {
        let merged = write.merge.is_some();
        let before = self.keys + self.cases;
        let (plan, columns) = self.plan(std::mem::take(&mut write.plan))?;
        if merged && self.keys + self.cases > before {
            // What rows are judged by anew is kept beside the plan.
            return Err(SqlError::unsupported(
                "MERGE that goes by the order or the letters of a collation of ICU is not supported",
            ));
        }
        let nothing = Known::nothing();
        for value in write.rows.iter_mut().flatten().flatten() {
            *value = self.expr(std::mem::take(value), &nothing)?.0;
        }
        let by_names = |schema: &DFSchema| -> Vec<Derived> {
            let of = |name: &String| write.table.columns.iter().position(|column| column.name == *name);
            let fields = schema.fields().iter();
            fields
                .map(|field| of(field.name()).map_or_else(|| of_field(field), |at| of_table(&write.table, at)))
                .collect()
        };
        let mut returned = Vec::new();
        if let Some(list) = &mut write.returning {
            let mut fields: Vec<_> =
                list.input.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
            let mut known = by_names(&list.input);
            for (at, (qualifier, field)) in list.others.iter().enumerate() {
                let name = format!("resurgam$other{at}");
                let place = plan.schema().fields().iter().position(|field| *field.name() == name);
                known.push(match place.and_then(|at| columns.get(at)) {
                    Some(derived) => derived.of_column(),
                    None if !is_collatable(field.data_type()) => Derived::None,
                    None => {
                        return Err(SqlError::unsupported(
                            "RETURNING of other tables with collations is not supported",
                        ));
                    }
                });
                fields.push((qualifier.clone(), Arc::clone(field)));
            }
            let schema = DFSchema::new_with_metadata(fields, HashMap::new()).map_err(failed)?;
            let known = Known { schema: Arc::new(schema), columns: known };
            for (_, expr) in &mut list.columns {
                let (changed, derived) = self.expr(std::mem::take(expr), &known)?;
                *expr = changed;
                returned.push(derived);
            }
            for ((column, _), derived) in list.columns.iter_mut().zip(&returned) {
                column.collation = derived.oid();
            }
        }
        if let Some(update) = write.conflict.as_mut().and_then(|conflict| conflict.update.as_mut()) {
            let known = Known { schema: Arc::clone(&update.joined), columns: by_names(&update.joined) };
            for (_, value) in &mut update.set {
                *value = self.expr(std::mem::take(value), &known)?.0;
            }
            if let Some(condition) = update.condition.take() {
                update.condition = Some(self.expr(condition, &known)?.0);
            }
        }
        // Conditions of views and policies are gone through where they are planned, over the table's row.
        write.plan = plan;
        Ok(returned)
    }

    /// A plan, and the collations of its columns.
    fn plan(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Derived>)> {
        running::check()?;
        let (plan, columns) = stacker::maybe_grow(256 << 10, 4 << 20, || self.node(plan))?;
        if columns.len() != plan.schema().fields().len() {
            return Err(SqlError::internal("collations of other columns than a plan has"));
        }
        Ok((plan, columns))
    }

    fn input(&mut self, input: &LogicalPlan) -> Result<(LogicalPlan, Vec<Derived>, Known)> {
        let (plan, columns) = self.plan(input.clone())?;
        let known = Known::of(&plan, &columns);
        Ok((plan, columns, known))
    }

    fn node(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Derived>)> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let columns = self.scan(&scan)?;
                Ok((LogicalPlan::TableScan(scan), columns))
            }
            LogicalPlan::EmptyRelation(empty) => {
                let columns = empty.schema.fields().iter().map(of_field).collect();
                Ok((LogicalPlan::EmptyRelation(empty), columns))
            }
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Projection(projection) => {
                let (input, _, known) = self.input(&projection.input)?;
                let (exprs, columns) = self.named(projection.expr, &known)?;
                let plan = Projection::try_new(exprs, Arc::new(input)).map_err(failed)?;
                Ok((LogicalPlan::Projection(plan), columns))
            }
            LogicalPlan::Sort(sort) => {
                let (input, columns, known) = self.input(&sort.input)?;
                let (expr, _) = self.sorts(sort.expr, &known)?;
                Ok((LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch: sort.fetch }), columns))
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Join(_) => self.join(plan),
            LogicalPlan::Union(union) => {
                let (plan, columns) = self.union(union)?;
                Ok((plan, columns.into_iter().map(Derived::of_column).collect()))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (input, columns) = match input.as_ref() {
                    // UNION has to decide.
                    LogicalPlan::Union(union) => self.union(union.clone())?,
                    input => self.plan(input.clone())?,
                };
                for column in &columns {
                    self.decided(column.of_key()?);
                }
                let columns = columns.into_iter().map(Derived::of_column).collect();
                Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(input))), columns))
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on),
            LogicalPlan::SubqueryAlias(alias) => {
                let (input, columns) = self.plan(alias.input.as_ref().clone())?;
                for (field, derived) in input.schema().fields().iter().zip(&columns) {
                    let name = (alias.alias.table().to_owned(), field.name().clone());
                    self.aliased.entry(name).or_insert(*derived);
                }
                let plan = datafusion::logical_expr::SubqueryAlias::try_new(Arc::new(input), alias.alias);
                Ok((
                    LogicalPlan::SubqueryAlias(plan.map_err(failed)?),
                    columns.iter().map(|one| one.of_column()).collect(),
                ))
            }
            LogicalPlan::Subquery(subquery) => {
                let (plan, columns) = self.plan(subquery.subquery.as_ref().clone())?;
                Ok((LogicalPlan::Subquery(Subquery { subquery: Arc::new(plan), ..subquery }), columns))
            }
            LogicalPlan::RecursiveQuery(query) => self.recursive(query),
            LogicalPlan::Extension(extension) => self.extension(extension),
            LogicalPlan::Filter(_) | LogicalPlan::Limit(_) => {
                let inputs = plan.inputs();
                let [input] = inputs.as_slice() else { return Err(SqlError::internal("a node without its input")) };
                let (input, columns, known) = self.input(input)?;
                let mut exprs = plan.expressions();
                self.list(&mut exprs, &known)?;
                Ok((plan.with_new_exprs(exprs, vec![input]).map_err(failed)?, columns))
            }
            other => {
                let name = other.display().to_string();
                let name = name.split([':', ' ']).next().unwrap_or_default().to_owned();
                Err(SqlError::unsupported(format!("{name} in a statement with collations of ICU is not supported")))
            }
        }
    }

    fn union(&mut self, union: Union) -> Result<(LogicalPlan, Vec<Derived>)> {
        let mut columns: Vec<Derived> = vec![Derived::None; union.schema.fields().len()];
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let (input, given) = self.plan(input.as_ref().clone())?;
            for (column, derived) in columns.iter_mut().zip(given) {
                *column = column.and(derived)?;
            }
            inputs.push(Arc::new(input));
        }
        Ok((LogicalPlan::Union(Union { inputs, schema: union.schema }), columns))
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Vec<Derived>> {
        if !scan.filters.is_empty() {
            return Err(SqlError::internal("a scan with conditions in a statement with collations of ICU"));
        }
        let name = scan.table_name.table();
        let all = if let Some(number) = self.once_names.get(name).copied() {
            self.columns_of(true, number)?
        } else if let Some(number) = self.lock_names.get(name).copied() {
            // Keys that are kept behind the columns are no texts.
            let mut columns = self.columns_of(false, number)?;
            columns.resize(scan.source.schema().fields().len(), Derived::None);
            columns
        } else if let Some((table, _)) = engine_table(&scan.source) {
            let fields = scan.source.schema().fields().len();
            (0..fields).map(|at| of_table(&table, at)).collect()
        } else if source_as_provider(&scan.source).is_ok_and(|one| one.downcast_ref::<CteWorkTable>().is_some()) {
            match self.working.get(name) {
                Some(columns) => columns.clone(),
                None => return Err(SqlError::internal("a recursive term without its query")),
            }
        } else {
            scan.source.schema().fields().iter().map(of_field).collect()
        };
        Ok(match &scan.projection {
            Some(columns) => columns.iter().map(|at| all.get(*at).copied().unwrap_or(Derived::None)).collect(),
            None => all,
        })
    }

    fn values(&mut self, values: Values) -> Result<(LogicalPlan, Vec<Derived>)> {
        let mut columns = vec![Derived::None; values.schema.fields().len()];
        let nothing = Known::nothing();
        let mut rows = Vec::with_capacity(values.values.len());
        for row in values.values {
            let mut changed = Vec::with_capacity(row.len());
            for (value, column) in row.into_iter().zip(&mut columns) {
                let (value, derived) = self.expr(value, &nothing)?;
                *column = column.and(derived)?;
                changed.push(value);
            }
            rows.push(changed);
        }
        let columns = columns.into_iter().map(Derived::of_column).collect();
        Ok((LogicalPlan::Values(Values { schema: values.schema, values: rows }), columns))
    }

    /// Expressions that keep their names.
    fn named(&mut self, exprs: Vec<Expr>, known: &Known) -> Result<(Vec<Expr>, Vec<Derived>)> {
        let mut done = (Vec::with_capacity(exprs.len()), Vec::with_capacity(exprs.len()));
        for expr in exprs {
            let name = expr.qualified_name();
            let (expr, derived) = self.expr(expr, known)?;
            done.0.push(renamed(expr, name));
            done.1.push(derived);
        }
        Ok(done)
    }

    /// What is sorted by, and whether keys are among it.
    fn sorts(&mut self, sorts: Vec<SortExpr>, known: &Known) -> Result<(Vec<SortExpr>, bool)> {
        let mut done = Vec::with_capacity(sorts.len());
        let mut keyed = false;
        for sort in sorts {
            let (expr, derived) = self.expr(sort.expr, known)?;
            let made = self.ordered(expr, derived, known, "ORDER BY of an array")?;
            keyed |= made.1;
            done.push(SortExpr { expr: made.0, ..sort });
        }
        Ok((done, keyed))
    }

    /// What a value is ordered by, and whether that is a key.
    fn ordered(&mut self, expr: Expr, derived: Derived, known: &Known, what: &str) -> Result<(Expr, bool)> {
        let Some(order) = self.order(derived.of_key()?) else { return Ok((expr, false)) };
        match is_text(&known.data(&expr)?) {
            true => Ok((self.key(order, expr)?, true)),
            false => Err(refused(what, derived)),
        }
    }

    fn in_case(&mut self, collation: u32, upper: bool, text: Expr) -> Result<Expr> {
        self.cases += 1;
        Ok(in_case(locale_of(collation)?, upper, text))
    }

    fn key(&mut self, collation: u32, text: Expr) -> Result<Expr> {
        self.keys += 1;
        let locale = locale_of(collation)?;
        // That of a constant is known.
        let value = match &text {
            Expr::Literal(value @ (ScalarValue::Utf8View(_) | ScalarValue::Utf8(_)), _) => value.try_as_str(),
            _ => None,
        };
        Ok(match value {
            Some(Some(text)) => {
                let mut key = Vec::new();
                Order::of(locale)?.put_key(text, &mut key);
                Expr::Literal(ScalarValue::BinaryView(Some(key)), None)
            }
            Some(None) => Expr::Literal(ScalarValue::BinaryView(None), None),
            None => key(locale, text),
        })
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> Result<(LogicalPlan, Vec<Derived>)> {
        let (input, _, known) = self.input(&aggregate.input)?;
        let width = aggregate.schema.fields().len();
        let mut keys = Vec::new();
        let mut groups = Vec::with_capacity(aggregate.group_expr.len());
        for expr in aggregate.group_expr {
            match expr {
                Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                    let set = Expr::GroupingSet(GroupingSet::GroupingSets(sets));
                    if let Expr::GroupingSet(set) = &set {
                        for expr in set.distinct_expr() {
                            let (_, derived) = self.expr(expr.clone(), &known)?;
                            self.decided(derived.of_key()?);
                            keys.push(derived);
                        }
                    }
                    // They are columns: nothing in them is ordered.
                    groups.push(set);
                }
                expr => {
                    let (mut exprs, derived) = self.named(vec![expr], &known)?;
                    for one in derived {
                        self.decided(one.of_key()?);
                        keys.push(one);
                    }
                    groups.append(&mut exprs);
                }
            }
        }
        let calls = aggregate.aggr_expr.len();
        if keys.len() + calls > width {
            return Err(SqlError::internal("an aggregate with other columns than its expressions"));
        }
        // The number of a grouping set.
        keys.resize(width - calls, Derived::None);
        let mut exprs = Vec::with_capacity(calls);
        let mut texts = Vec::with_capacity(calls);
        for expr in aggregate.aggr_expr {
            let name = expr.qualified_name();
            let (expr, derived, is_key) = self.aggregate_call(expr, &known)?;
            exprs.push(renamed(expr, name));
            keys.push(derived);
            texts.push(is_key);
        }
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, exprs).map_err(failed)?);
        if texts.contains(&true) {
            // Whoever asks for the number asks the aggregate itself.
            let number =
                plan.schema().fields().iter().position(|field| field.name() == Aggregate::INTERNAL_GROUPING_ID);
            if let Some(at) = number {
                keys.remove(at);
            }
        }
        Ok((with_texts(plan, &texts)?, keys))
    }

    fn window(&mut self, window: Window) -> Result<(LogicalPlan, Vec<Derived>)> {
        let (input, mut columns, known) = self.input(&window.input)?;
        let mut exprs = Vec::with_capacity(window.window_expr.len());
        let mut texts = Vec::with_capacity(window.window_expr.len());
        for expr in window.window_expr {
            let name = expr.qualified_name();
            let (expr, derived, is_key) = self.window_call(expr, &known)?;
            exprs.push(renamed(expr, name));
            columns.push(derived);
            texts.push(is_key);
        }
        let plan = Window::try_new(exprs, Arc::new(input)).map_err(failed)?;
        Ok((with_texts(LogicalPlan::Window(plan), &texts)?, columns))
    }

    fn join(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Derived>)> {
        let LogicalPlan::Join(join) = &plan else { return Err(SqlError::internal("not a join")) };
        let (left, mut left_columns, left_known) = self.input(&join.left)?;
        // An item that reads columns of those before it.
        self.around.push(left_known.clone());
        let right = self.input(&join.right);
        self.around.pop();
        let (right, right_columns, right_known) = right?;
        let joined = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => Some(Arc::clone(&join.schema)),
            _ if join.filter.is_some() => Some(Arc::new(left.schema().join(right.schema()).map_err(failed)?)),
            _ => None,
        };
        let columns: Vec<Derived> = left_columns.iter().chain(&right_columns).copied().collect();
        let both = joined.map(|schema| Known { schema, columns });
        let mut exprs = Vec::with_capacity(join.on.len() * 2 + 1);
        // Those of INTERSECT and EXCEPT: there are no others yet.
        let is_set = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti);
        for (one, other) in join.on.clone() {
            let (one, mut a) = self.expr(one, &left_known)?;
            let (other, mut b) = self.expr(other, &right_known)?;
            if is_set {
                (a, b) = (self.below(&one, a), self.below(&other, b));
                let of_both = a.and(b)?.of_key()?.of_column();
                let place = match &one {
                    Expr::Column(column) => left.schema().maybe_index_of_column(column),
                    _ => None,
                };
                if let Some(column) = place.and_then(|at| left_columns.get_mut(at)) {
                    *column = of_both;
                }
            }
            self.decided(a.and(b)?);
            exprs.extend([one, other]);
        }
        if let (Some(filter), Some(both)) = (join.filter.clone(), &both) {
            exprs.push(self.expr(filter, both)?.0);
        }
        let columns = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                both.map(|known| known.columns).unwrap_or_default()
            }
            JoinType::LeftSemi | JoinType::LeftAnti => left_columns,
            JoinType::RightSemi | JoinType::RightAnti => right_columns,
            JoinType::LeftMark => left_columns.into_iter().chain([Derived::None]).collect(),
            JoinType::RightMark => right_columns.into_iter().chain([Derived::None]).collect(),
        };
        Ok((plan.with_new_exprs(exprs, vec![left, right]).map_err(failed)?, columns))
    }

    /// The collation of a column of a side of INTERSECT or EXCEPT as the query there has it.
    fn below(&self, column: &Expr, otherwise: Derived) -> Derived {
        let Expr::Column(Column { relation: Some(relation), name, .. }) = column else { return otherwise };
        self.aliased.get(&(relation.table().to_owned(), name.clone())).copied().unwrap_or(otherwise)
    }

    fn distinct_on(&mut self, on: DistinctOn) -> Result<(LogicalPlan, Vec<Derived>)> {
        let (input, _, known) = self.input(&on.input)?;
        // Keys are equal where texts are, and what is sorted by begins with them.
        let mut exprs = Vec::with_capacity(on.on_expr.len());
        for expr in on.on_expr {
            let (expr, derived) = self.expr(expr, &known)?;
            exprs.push(self.ordered(expr, derived, &known, "DISTINCT ON of an array")?.0);
        }
        let (selected, columns) = self.named(on.select_expr, &known)?;
        let sorts = match on.sort_expr {
            Some(sorts) => Some(self.sorts(sorts, &known)?.0),
            None => None,
        };
        let plan = DistinctOn::try_new(exprs, selected, sorts, Arc::new(input)).map_err(failed)?;
        Ok((LogicalPlan::Distinct(Distinct::On(plan)), columns))
    }

    fn recursive(&mut self, query: RecursiveQuery) -> Result<(LogicalPlan, Vec<Derived>)> {
        let (first, columns) = self.plan(query.static_term.as_ref().clone())?;
        let columns: Vec<Derived> = columns.into_iter().map(Derived::of_column).collect();
        self.working.insert(query.name.clone(), columns.clone());
        let (next, found) = self.plan(query.recursive_term.as_ref().clone())?;
        for (at, (column, derived)) in columns.iter().zip(found).enumerate() {
            let overall = column.and(derived.of_column())?;
            if overall != *column {
                let (own, overall) = (shown(column.oid()), shown(overall.oid()));
                let text = format!(
                    "recursive query \"{}\" column {} has collation {own} in non-recursive term but collation {overall} overall",
                    query.name,
                    at + 1
                );
                return Err(SqlError::new("42P21", text)
                    .with_hint("Use the COLLATE clause to set the collation of the non-recursive term."));
            }
        }
        let plan = LogicalPlan::RecursiveQuery(query);
        Ok((plan.with_new_exprs(Vec::new(), vec![first, next]).map_err(failed)?, columns))
    }

    fn extension(&mut self, extension: Extension) -> Result<(LogicalPlan, Vec<Derived>)> {
        let is_limit = computed_limit::is_computed_limit(&extension);
        let node = Arc::clone(&extension.node);
        let inputs = node.inputs();
        let [input] = inputs.as_slice() else {
            return Err(SqlError::unsupported("this query with collations of ICU is not supported"));
        };
        if !is_limit && !sets::is_project_set(&extension) {
            let text = format!("{} in a statement with collations of ICU is not supported", node.name());
            return Err(SqlError::unsupported(text));
        }
        let (input, mut columns, known) = self.input(input)?;
        let mut exprs = Vec::new();
        for expr in node.expressions() {
            let (expr, derived) = self.expr(expr, &known)?;
            exprs.push(expr);
            if !is_limit {
                columns.push(derived);
            }
        }
        // The numbers of rows.
        columns.resize(node.schema().fields().len(), Derived::None);
        let plan = LogicalPlan::Extension(extension).with_new_exprs(exprs, vec![input]).map_err(failed)?;
        Ok((plan, columns))
    }
}

fn locale_of(collation: u32) -> Result<&'static str> {
    by_oid(collation)
        .and_then(|collation| collation.locale)
        .ok_or_else(|| SqlError::internal("a collation without a locale"))
}

/// The collation of a table's column.
fn of_table(table: &Table, at: usize) -> Derived {
    Derived::of_oid(of_column(table, at))
}

type Name = (Option<datafusion::common::TableReference>, String);

/// An expression under the name that it had.
fn renamed(expr: Expr, (qualifier, name): Name) -> Expr {
    match expr.qualified_name() == (qualifier.clone(), name.clone()) {
        true => expr,
        false => expr.alias_qualified(qualifier, name),
    }
}

/// A plan whose last columns are keys where `is_key` says so, with the texts in their places.
fn with_texts(plan: LogicalPlan, is_key: &[bool]) -> Result<LogicalPlan> {
    if !is_key.contains(&true) {
        return Ok(plan);
    }
    let schema = plan.schema();
    let first = schema.fields().len() - is_key.len();
    let shown = |at: &usize| schema.field(*at).name() != Aggregate::INTERNAL_GROUPING_ID;
    let exprs = (0..schema.fields().len()).filter(shown).map(|at| {
        let (qualifier, field) = schema.qualified_field(at);
        let column = Expr::Column(Column::from((qualifier, field)));
        match at.checked_sub(first).is_some_and(|at| is_key[at]) {
            true => text_of(column).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let exprs = exprs.collect();
    Projection::try_new(exprs, Arc::new(plan)).map(LogicalPlan::Projection).map_err(failed)
}

/// Expressions.
impl Pass {
    fn expr(&mut self, expr: Expr, known: &Known) -> Result<(Expr, Derived)> {
        let (expr, derived) = stacker::maybe_grow(128 << 10, 4 << 20, || self.expr_inner(expr, known))?;
        let stays = matches!(
            expr,
            Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Alias(_) | Expr::ScalarSubquery(_) | Expr::Case(_)
        );
        let derived = if derived == Derived::Lost && !stays { Derived::None } else { derived };
        // (What a chain computes with is of no relation; the chain says what it gives.)
        let data = known.data(&expr)?;
        Ok(match (is_collatable(&data), derived) {
            (false, _) => (expr, Derived::None),
            // Made of what has none.
            (true, Derived::None) => (expr, Derived::Implicit(DEFAULT)),
            (true, derived) => (expr, derived),
        })
    }

    fn boxed(&mut self, expr: &mut Box<Expr>, known: &Known) -> Result<Derived> {
        let (changed, derived) = self.expr(std::mem::take(expr.as_mut()), known)?;
        **expr = changed;
        Ok(derived)
    }

    fn list(&mut self, exprs: &mut [Expr], known: &Known) -> Result<Vec<Derived>> {
        let mut all = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let (changed, derived) = self.expr(std::mem::take(expr), known)?;
            *expr = changed;
            all.push(derived);
        }
        Ok(all)
    }

    fn outer(&self, column: &Column) -> Result<Derived> {
        if let Some(found) = self.around.iter().rev().find_map(|known| known.find(column)) {
            return Ok(found);
        }
        // An argument of a function of users, which has the default one.
        match &column.relation {
            Some(relation) if relation.table().starts_with(crate::naming::MARK) => Ok(Derived::None),
            _ => Err(SqlError::unsupported("this query within a statement with collations of ICU is not supported")),
        }
    }

    fn subquery(&mut self, subquery: &mut Subquery, known: &Known) -> Result<Vec<Derived>> {
        self.around.push(known.clone());
        let done = self.plan(subquery.subquery.as_ref().clone());
        self.around.pop();
        let (plan, columns) = done?;
        subquery.subquery = Arc::new(plan);
        Ok(columns.into_iter().map(Derived::of_column).collect())
    }

    fn expr_inner(&mut self, expr: Expr, known: &Known) -> Result<(Expr, Derived)> {
        let none = Derived::None;
        Ok(match expr {
            Expr::Column(column) => match known.find(&column) {
                Some(derived) => (Expr::Column(column), derived),
                None => return Err(SqlError::internal(format!("column {column} is not there"))),
            },
            Expr::OuterReferenceColumn(field, column) => {
                let derived = self.outer(&column)?;
                (Expr::OuterReferenceColumn(field, column), derived)
            }
            Expr::Literal(..) | Expr::Placeholder(_) => (expr, none),
            Expr::Alias(mut alias) => {
                let derived = self.boxed(&mut alias.expr, known)?;
                (Expr::Alias(alias), derived)
            }
            Expr::Cast(mut cast) => {
                let derived = self.boxed(&mut cast.expr, known)?;
                (Expr::Cast(cast), derived)
            }
            Expr::TryCast(mut cast) => {
                let derived = self.boxed(&mut cast.expr, known)?;
                (Expr::TryCast(cast), derived)
            }
            Expr::Unnest(mut set) => {
                let derived = self.boxed(&mut set.expr, known)?;
                (Expr::Unnest(set), derived)
            }
            Expr::Not(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::Not(of), none)
            }
            Expr::Negative(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::Negative(of), none)
            }
            Expr::IsNull(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsNull(of), none)
            }
            Expr::IsNotNull(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsNotNull(of), none)
            }
            Expr::IsTrue(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsTrue(of), none)
            }
            Expr::IsFalse(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsFalse(of), none)
            }
            Expr::IsUnknown(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsUnknown(of), none)
            }
            Expr::IsNotTrue(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsNotTrue(of), none)
            }
            Expr::IsNotFalse(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsNotFalse(of), none)
            }
            Expr::IsNotUnknown(mut of) => {
                self.boxed(&mut of, known)?;
                (Expr::IsNotUnknown(of), none)
            }
            Expr::BinaryExpr(binary) => self.binary(binary, known)?,
            Expr::Like(mut like) => {
                let derived = self.boxed(&mut like.expr, known)?.and(self.boxed(&mut like.pattern, known)?)?;
                // LIKE asks for no collation.
                if like.case_insensitive
                    && let Some(order) = self.order(derived)
                {
                    // As PostgreSQL does it: both in small letters.
                    for side in [&mut like.expr, &mut like.pattern] {
                        **side = self.in_case(order, false, std::mem::take(side.as_mut()))?;
                    }
                    like.case_insensitive = false;
                }
                (Expr::Like(like), none)
            }
            Expr::Case(mut case) => {
                if let Some(of) = &mut case.expr {
                    let derived = self.boxed(of, known)?;
                    if derived.is_icu() && derived != Derived::Lost {
                        return Err(refused("this form of CASE", derived));
                    }
                }
                let (mut derived, mut lost) = (none, false);
                for (when, then) in &mut case.when_then_expr {
                    self.boxed(when, known)?;
                    let one = self.boxed(then, known)?;
                    lost |= one == Derived::Lost;
                    derived = derived.and(one)?;
                }
                if let Some(otherwise) = &mut case.else_expr {
                    let one = self.boxed(otherwise, known)?;
                    lost |= one == Derived::Lost;
                    derived = derived.and(one)?;
                }
                // PostgreSQL's depends on which branches are there when constants have been folded.
                if lost && !matches!(derived, Derived::Explicit(_)) {
                    derived = Derived::Lost;
                }
                (Expr::Case(case), derived)
            }
            Expr::InList(InList { mut expr, mut list, negated }) => {
                let mut derived = self.boxed(&mut expr, known)?;
                for one in self.list(&mut list, known)? {
                    derived = derived.and(one)?;
                }
                self.decided(derived);
                (Expr::InList(InList { expr, list, negated }), none)
            }
            Expr::Exists(mut exists) => {
                self.subquery(&mut exists.subquery, known)?;
                (Expr::Exists(exists), none)
            }
            Expr::ScalarSubquery(mut subquery) => {
                let columns = self.subquery(&mut subquery, known)?;
                (Expr::ScalarSubquery(subquery), columns.first().copied().unwrap_or(none))
            }
            Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
                let derived = self.boxed(&mut expr, known)?;
                let columns = self.subquery(&mut subquery, known)?;
                self.decided(derived.and(columns.first().copied().unwrap_or(none))?);
                (Expr::InSubquery(InSubquery { expr, subquery, negated }), none)
            }
            Expr::SetComparison(compared) => self.set_comparison(compared, known)?,
            Expr::ScalarFunction(call) => self.call(call, known)?,
            Expr::Between(_) | Expr::SimilarTo(_) => {
                return Err(SqlError::unsupported(
                    "this condition in a statement with collations of ICU is not supported",
                ));
            }
            Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
                return Err(SqlError::internal("an aggregate outside of groups"));
            }
            other => {
                let text = format!("{} in a statement with collations of ICU is not supported", other.variant_name());
                return Err(SqlError::unsupported(text));
            }
        })
    }

    fn binary(&mut self, mut binary: BinaryExpr, known: &Known) -> Result<(Expr, Derived)> {
        use Operator as O;
        let left = self.boxed(&mut binary.left, known)?;
        let right = self.boxed(&mut binary.right, known)?;
        let derived = left.and(right)?;
        let mut result = Derived::None;
        match binary.op {
            O::Lt | O::LtEq | O::Gt | O::GtEq => {
                if let Some(order) = self.order(derived) {
                    for side in [&mut binary.left, &mut binary.right] {
                        if !is_text(&known.data(side)?) {
                            return Err(refused("a comparison of arrays", derived));
                        }
                        **side = self.key(order, std::mem::take(side.as_mut()))?;
                    }
                }
            }
            O::Eq | O::NotEq | O::IsDistinctFrom | O::IsNotDistinctFrom | O::AtArrow | O::ArrowAt => {
                self.decided(derived);
            }
            O::StringConcat => result = derived,
            O::And | O::Or | O::Plus | O::Minus | O::Multiply | O::Divide | O::Modulo => {}
            O::LikeMatch | O::NotLikeMatch => {}
            op if derived.is_icu() => return Err(refused(&format!("the operator {op}"), derived)),
            _ => {}
        }
        Ok((Expr::BinaryExpr(binary), result))
    }

    fn set_comparison(&mut self, mut compared: SetComparison, known: &Known) -> Result<(Expr, Derived)> {
        let derived = self.boxed(&mut compared.expr, known)?;
        let columns = self.subquery(&mut compared.subquery, known)?;
        let derived = derived.and(columns.first().copied().unwrap_or(Derived::None))?;
        match compared.op {
            Operator::Eq | Operator::NotEq => {
                self.decided(derived);
            }
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                if let Some(order) = self.order(derived) {
                    let plan = Arc::clone(&compared.subquery.subquery);
                    let field = plan.schema().field(0);
                    if !is_text(&known.data(&compared.expr)?) || !is_text(field.data_type()) {
                        return Err(refused("a comparison of arrays", derived));
                    }
                    let (qualifier, field) = plan.schema().qualified_field(0);
                    let column = Expr::Column(Column::from((qualifier, field)));
                    let name = field.name().clone();
                    let column = self.key(order, column)?.alias(name);
                    let plan = Projection::try_new(vec![column], plan).map_err(failed)?;
                    compared.subquery.subquery = Arc::new(LogicalPlan::Projection(plan));
                    *compared.expr = self.key(order, std::mem::take(compared.expr.as_mut()))?;
                }
            }
            op if derived.is_icu() => return Err(refused(&format!("the operator {op}"), derived)),
            _ => {}
        }
        Ok((Expr::SetComparison(compared), Derived::None))
    }

    fn call(&mut self, mut call: ScalarFunction, known: &Known) -> Result<(Expr, Derived)> {
        let args = self.list(&mut call.args, known)?;
        if let Some(says) = Said::of(&call.func) {
            return self.said(says, call, &args);
        }
        let mut derived = Derived::None;
        for arg in &args {
            derived = derived.and(*arg)?;
        }
        let name = call.func.name().to_owned();
        if let Some(op) = array_compare::operator(&call.func) {
            self.decided(derived);
            if derived.is_icu() && !matches!(op, Operator::Eq | Operator::NotEq) {
                return Err(refused("ANY and ALL of an array", derived));
            }
            return Ok((Expr::ScalarFunction(call), Derived::None));
        }
        if matches!(name.as_str(), "greatest" | "least")
            && let Some(order) = self.order(derived)
        {
            for arg in &mut call.args {
                if !matches!(known.data(arg)?, DataType::Utf8View | DataType::Utf8) {
                    return Err(refused(&name, derived));
                }
                *arg = self.key(order, std::mem::take(arg))?;
            }
            return Ok((text_of(Expr::ScalarFunction(call)), derived));
        }
        if let ("upper" | "lower", [text]) = (name.as_str(), call.args.as_mut_slice())
            && is_text(&known.data(text)?)
            && let Some(order) = self.order(derived)
        {
            return Ok((self.in_case(order, name == "upper", std::mem::take(text))?, derived));
        }
        if matches!(derived, Derived::Conflict(..) | Derived::Lost) && asks(&name) {
            self.decided(derived);
            return Ok((Expr::ScalarFunction(call), derived));
        }
        match name.as_str() {
            "$body" => return Ok((Expr::ScalarFunction(call), Derived::None)),
            "pg_cast_name" if matches!(call.args.first(), Some(Expr::Literal(..))) => derived = Derived::Implicit(C),
            name if is_of_other_type(name) => derived = Derived::None,
            "fold" if derived.is_icu() && !fold::is_of_equality(&call.func) => {
                return Err(refused("a chain of operators", derived));
            }
            name if derived.is_icu() && !passes(name) => {
                return Err(refused(&format!("function {name}"), derived));
            }
            // Of texts, and of whatever has none.
            _ => {}
        }
        Ok((Expr::ScalarFunction(call), derived))
    }

    /// A value of which something is said.
    fn said(&mut self, says: Says, mut call: ScalarFunction, args: &[Derived]) -> Result<(Expr, Derived)> {
        let own = args.first().copied().unwrap_or(Derived::None);
        call.args.truncate(1);
        let Some(value) = call.args.pop() else { return Err(SqlError::internal("a collation of nothing")) };
        let derived = match says {
            Says::Explicit(oid) => {
                self.explicit |= is_icu(oid);
                Derived::Explicit(oid)
            }
            Says::Implicit(oid) => Derived::Implicit(oid),
            Says::Together => {
                let mut derived = Derived::None;
                for arg in args {
                    derived = derived.and(*arg)?;
                }
                derived
            }
            Says::Default => match own {
                Derived::None | Derived::Implicit(DEFAULT) | Derived::Explicit(DEFAULT) => Derived::Implicit(DEFAULT),
                Derived::Conflict(..) | Derived::Lost => {
                    return Err(SqlError::unsupported("a function of users over several collations is not supported"));
                }
                other => return Err(refused("a function of users", other)),
            },
        };
        Ok((value, derived))
    }

    /// A call of an aggregate, its collation, and whether it gives a key.
    fn aggregate_call(&mut self, expr: Expr, known: &Known) -> Result<(Expr, Derived, bool)> {
        match expr {
            Expr::Alias(mut alias) => {
                let (expr, derived, is_key) = self.aggregate_call(*alias.expr, known)?;
                *alias.expr = expr;
                Ok((Expr::Alias(alias), derived, is_key))
            }
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                let args = self.list(&mut params.args, known)?;
                let (sorts, keyed) = self.sorts(std::mem::take(&mut params.order_by), known)?;
                params.order_by = sorts;
                if let Some(filter) = &mut params.filter {
                    self.boxed(filter, known)?;
                }
                if params.distinct {
                    for one in &args {
                        self.decided(one.of_key()?);
                    }
                }
                if params.distinct && keyed {
                    let derived = args.first().copied().unwrap_or(Derived::None);
                    return Err(refused(&format!("{}(DISTINCT …)", func.name()), derived));
                }
                let (derived, is_key) = self.over_group(func.name(), &mut params.args, &args, known)?;
                Ok((Expr::AggregateFunction(AggregateFunction { func, params }), derived, is_key))
            }
            _ => Err(SqlError::unsupported("this aggregate in a statement with collations of ICU is not supported")),
        }
    }

    fn window_call(&mut self, expr: Expr, known: &Known) -> Result<(Expr, Derived, bool)> {
        match expr {
            Expr::Alias(mut alias) => {
                let (expr, derived, is_key) = self.window_call(*alias.expr, known)?;
                *alias.expr = expr;
                Ok((Expr::Alias(alias), derived, is_key))
            }
            Expr::WindowFunction(call) => {
                let WindowFunction { fun, mut params } = *call;
                let args = self.list(&mut params.args, known)?;
                for derived in self.list(&mut params.partition_by, known)? {
                    self.decided(derived.of_key()?);
                }
                let (sorts, keyed) = self.sorts(std::mem::take(&mut params.order_by), known)?;
                params.order_by = sorts;
                if keyed && params.window_frame.units == WindowFrameUnits::Range {
                    // Peers alone count, which groups are as well.
                    let frame = params.window_frame;
                    params.window_frame =
                        WindowFrame::new_bounds(WindowFrameUnits::Groups, frame.start_bound, frame.end_bound);
                }
                if let Some(filter) = &mut params.filter {
                    self.boxed(filter, known)?;
                }
                let name = match &fun {
                    WindowFunctionDefinition::AggregateUDF(function) => function.name(),
                    WindowFunctionDefinition::WindowUDF(function) => function.name(),
                };
                let (derived, is_key) = self.over_group(name, &mut params.args, &args, known)?;
                let call = Expr::WindowFunction(Box::new(WindowFunction { fun: fun.clone(), params }));
                Ok((call, derived, is_key))
            }
            _ => Err(SqlError::unsupported("this window in a statement with collations of ICU is not supported")),
        }
    }

    /// The collation of what an aggregate or a window function gives, and whether that is a key.
    fn over_group(&mut self, name: &str, args: &mut [Expr], of: &[Derived], known: &Known) -> Result<(Derived, bool)> {
        let mut derived = Derived::None;
        for one in of {
            derived = derived.and(*one)?;
        }
        if !derived.is_icu() {
            return Ok((derived, false));
        }
        if matches!(derived, Derived::Conflict(..) | Derived::Lost) && matches!(name, "min" | "max") {
            self.decided(derived);
            return Ok((derived, false));
        }
        if matches!(name, "min" | "max")
            && let ([text], Some(order)) = (&mut *args, self.order(derived))
        {
            if !matches!(known.data(text)?, DataType::Utf8View | DataType::Utf8) {
                return Err(refused(name, derived));
            }
            *text = self.key(order, std::mem::take(text))?;
            return Ok((derived, true));
        }
        match is_orderless(name) {
            // Made of what has none.
            true if derived == Derived::Lost => Ok((Derived::Implicit(DEFAULT), false)),
            true => Ok((derived, false)),
            false => Err(refused(&format!("function {name}"), derived)),
        }
    }
}

/// Aggregates and window functions that do not compare what they are given, but for equality.
fn is_orderless(name: &str) -> bool {
    matches!(
        name,
        "count"
            | "array_agg"
            | "string_agg"
            | "first_value"
            | "last_value"
            | "nth_value"
            | "lag"
            | "lead"
            | "pg_single"
    )
}

/// Functions whose results are of types that have no collation, though they are kept as texts are.
fn is_of_other_type(name: &str) -> bool {
    match name.strip_prefix("pg_cast_") {
        Some(to) => !matches!(to, "text" | "varchar" | "bpchar" | "name" | "_text" | "_varchar" | "_bpchar" | "_name"),
        None => matches!(name, "to_json" | "to_jsonb") || name.starts_with("pg_json"),
    }
}

/// Functions that ask for the collation of what they are given, be it for equality.
fn asks(name: &str) -> bool {
    matches!(
        name,
        "array_has"
            | "array_has_all"
            | "array_has_any"
            | "array_position"
            | "array_positions"
            | "array_remove"
            | "array_replace"
            | "greatest"
            | "initcap"
            | "least"
            | "lower"
            | "position"
            | "replace"
            | "split_part"
            | "starts_with"
            | "string_to_array"
            | "strpos"
            | "upper"
    )
}

/// Functions of texts to which the order and the case of letters mean nothing.
fn passes(name: &str) -> bool {
    const PASSES: [&str; 72] = [
        "array_append",
        "array_cat",
        "array_concat",
        "array_dims",
        "array_element",
        "array_has",
        "array_has_all",
        "array_has_any",
        "array_length",
        "array_lower",
        "array_ndims",
        "array_position",
        "array_positions",
        "array_prepend",
        "array_remove",
        "array_replace",
        "array_to_string",
        "array_upper",
        "ascii",
        "barrier_mark",
        "bit_length",
        "btrim",
        "cardinality",
        "char_length",
        "character_length",
        "coalesce",
        "concat",
        "concat_ws",
        "domain_check",
        "encode",
        "fold",
        "left",
        "length",
        "like_escape",
        "lpad",
        "ltrim",
        "make_array",
        "md5",
        "num_nonnulls",
        "num_nulls",
        "octet_length",
        "overlay",
        "pg_array_assign",
        "pg_array_or_empty",
        "pg_array_slice",
        "pg_column_size",
        "pg_joined_piece",
        "pg_joined_pieces",
        "pg_like_pattern",
        "pg_like_pattern_ci",
        "pg_nullable",
        "policy_mark",
        "position",
        "quote_ident",
        "quote_literal",
        "quote_nullable",
        "repeat",
        "replace",
        "reverse",
        "right",
        "row_rule",
        "rpad",
        "rtrim",
        "split_part",
        "starts_with",
        "string_to_array",
        "strpos",
        "struct",
        "substr",
        "substring",
        "together",
        "translate",
    ];
    PASSES.binary_search(&name).is_ok() || name.starts_with("pg_cast_")
}
