//! Planning INSERT, UPDATE, DELETE and MERGE: from what analysis has found ([`crate::plan::analyze`]) to a planned source
//! for the executor ([`super::modify`]).
//!
//! The source of an UPDATE yields every column's new value and then the row's key; of a
//! DELETE the key; of an INSERT every column. UPDATE and DELETE are planned as queries over the target, so that
//! FROM, USING and subqueries need nothing special.

use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::{Statement, With};
use resurgam_engine::Table;

use super::conflict::{Conflict, ConflictUpdate};
use super::constants::Constants;
use super::merge::MergePlan;
use super::planned::{RowsPlan, without_key};
use super::returning::{By, Returning};
use super::source::Tree;
use crate::dml::check::Checks;
use crate::dml::foreign::References;
use crate::dml::locking::LockPlan;
use crate::exec::access_path::column_of;
use crate::exec::bridge;
use crate::exec::direct::Output;
use crate::exec::once::{OnceDoes, OncePlan, OncePlans};
use crate::pg::errors;
use crate::plan::analyze::{self, Does, List, Merged, OnConflict, OnceDone, OnceQueries, OnceQuery, Op, Write};
use crate::plan::expression::has_subquery;
use crate::plan::infer::arbiters;
use crate::plan::needs::Needs;
use crate::plan::params::is_typed_by_literal;
use crate::plan::planner::{Names, QueryPlan, as_in_plan, simplified};
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// A planned statement that writes.
#[derive(Debug)]
pub(crate) struct WritePlan {
    pub op: Op,
    pub table: Arc<Table>,
    /// Its rows by a plan.
    pub stream: QueryPlan,
    /// The same without one, if that can be.
    pub tree: Option<Tree>,
    pub returning: Option<Returning>,
    pub conflict: Option<Conflict>,
    /// What a MERGE does with its rows.
    pub merge: Option<MergePlan>,
    /// What its new rows must satisfy.
    pub checks: Checks,
    /// Foreign keys that its rows concern.
    pub references: Arc<References>,
    pub constants: Constants,
    /// The cursor whose row it writes, and no other.
    pub current_of: Option<String>,
    /// Its rows are written out, so that all of their values are there before the first is written.
    pub is_given: bool,
    /// See [`Write::sources`].
    pub sources: usize,
}

/// A statement that writes, with what is done beside it.
pub(crate) struct Planned {
    pub plan: WritePlan,
    /// Queries that lock their rows.
    pub locks: Vec<LockPlan>,
    /// WITH queries that are computed once.
    pub once: OncePlans,
    pub needs: Needs,
}

impl WritePlan {
    /// Whether it has no state of a session in it.
    pub(crate) fn is_shareable(&self, state: &SessionState) -> bool {
        self.stream.is_shareable(state)
            && self.returning.as_ref().is_none_or(|returning| !returning.of_session)
            && self.conflict.as_ref().is_none_or(|conflict| !conflict.of_session)
            && self.merge.as_ref().is_none_or(|merge| merge.is_shareable(state))
            && self.checks.is_shareable()
    }

    /// Whether with literals for its parameters some of its types would be others.
    pub(crate) fn typed_by_literals(&self) -> bool {
        self.stream.typed_by_literals || self.returning.as_ref().is_some_and(|returning| returning.typed_by_literals)
    }
}

impl OncePlans {
    /// Whether they have no state of a session in them.
    pub(crate) fn is_shareable(&self, state: &SessionState) -> bool {
        self.plans.iter().all(|plan| match &plan.does {
            OnceDoes::Read(query) => query.is_shareable(state),
            OnceDoes::Write(write) => write.is_shareable(state),
        })
    }

    /// Whether with literals for their parameters some of their types would be others.
    pub(crate) fn typed_by_literals(&self) -> bool {
        self.plans.iter().any(|plan| match &plan.does {
            OnceDoes::Read(query) => query.typed_by_literals,
            OnceDoes::Write(write) => write.typed_by_literals(),
        })
    }
}

/// Plans an INSERT, UPDATE, DELETE or MERGE with the WITH before it, and the queries of it that lock rows or are computed once.
pub(crate) fn plan(
    names: &Names<'_>,
    with: Option<&With>,
    statement: &Statement,
    params: &mut ParamTypes,
    text: &str,
) -> Result<Planned, SqlError> {
    let mut write = analyze::write(names, with, statement, text, params)?;
    let once = once_plans(names, std::mem::take(&mut write.once), params, text)?;
    let locks = std::mem::take(&mut write.locks).into_iter();
    let locks = locks.map(|query| LockPlan::new(names, query, params, text)).collect::<Result<_, _>>()?;
    let needs = std::mem::take(&mut write.needs);
    let plan = write_plan(names, write, ReturnTo::Client, params, text)?;
    Ok(Planned { plan, locks, once, needs })
}

/// Plans WITH queries that are computed once; `params` are all known.
pub(crate) fn once_plans(
    names: &Names<'_>,
    once: OnceQueries,
    params: &ParamTypes,
    text: &str,
) -> Result<OncePlans, SqlError> {
    let mut plans = Vec::with_capacity(once.queries.len());
    for OnceQuery { name, done, schema, reads } in once.queries {
        let does = match done {
            OnceDone::Read(plan) => {
                let query = QueryPlan::new(names.state, *plan, params.data_types())
                    .map_err(|error| errors::from_datafusion(error, text))?;
                same_types(&schema, &query)?;
                OnceDoes::Read(Box::new(query))
            }
            OnceDone::Write(write) => {
                let write = write_plan(names, *write, ReturnTo::Statement, params, text)?;
                if let Some(rows) = write.returning.as_ref().and_then(Returning::plan) {
                    same_types(&schema, &rows.plan)?;
                }
                OnceDoes::Write(Box::new(write))
            }
        };
        plans.push(OncePlan { name, does, schema, reads });
    }
    Ok(OncePlans { plans, read: once.read })
}

/// Refuses a plan whose columns are not those that analysis has promised.
fn same_types(schema: &Schema, query: &QueryPlan) -> Result<(), SqlError> {
    let fields = query.schema.fields();
    let same = schema.fields().len() == fields.len()
        && schema.fields().iter().zip(fields).all(|(a, b)| a.data_type() == b.data_type());
    if same { Ok(()) } else { Err(SqlError::internal("a WITH query of other types than analysed")) }
}

/// Where the rows of RETURNING go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReturnTo {
    Client,
    /// The statement around reads them.
    Statement,
}

/// Plans what was analysed.
fn write_plan(
    names: &Names<'_>,
    write: Write,
    to: ReturnTo,
    params: &ParamTypes,
    text: &str,
) -> Result<WritePlan, SqlError> {
    let failed = |error| errors::from_datafusion(error, text);
    let Write {
        op,
        table,
        plan,
        sources,
        rows,
        assigned,
        returning,
        conflict,
        merge,
        checks: of_views,
        rules,
        current_of,
        ..
    } = write;
    let returning = returning.map(|list| plan_returning(names, &table, list, to, params, text)).transpose()?;
    let mut conflict = conflict;
    let mut update = conflict.as_mut().and_then(|conflict| conflict.update.as_mut());
    let upsert = update.as_mut().and_then(|update| update.rules.take());
    let shown = update.map(|update| std::mem::take(&mut update.shown)).unwrap_or_default();
    let conflict = conflict.map(|conflict| plan_conflict(names, &table, conflict, params, text)).transpose()?;
    let updated = conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
    let updated: Vec<usize> = updated.map(ConflictUpdate::columns).unwrap_or_default();
    let updated = with_generated(&table, &updated);
    let references = match op {
        Op::Insert => References::of_insert(names.txn, &table, &updated)?,
        Op::Update => References::of_update(names.txn, &table, &with_generated(&table, &assigned))?,
        Op::Delete => References::of_delete(names.txn, &table)?,
        Op::Merge => match &merge {
            Some(merge) => merged_references(names, &table, merge, &assigned)?,
            None => return Err(SqlError::internal("a MERGE without its clauses")),
        },
    };
    let mut constants = Constants::default();
    let columns: Vec<usize> = match op {
        // Those that are not written out; what is, is evaluated in any case.
        Op::Insert if rows.is_none() => (0..table.columns.len()).collect(),
        Op::Update => assigned.clone(),
        _ => Vec::new(),
    };
    for column in columns {
        if let Some(expr) = column_of(&plan, column) {
            constants.add(names.state, &table, column, expr);
        }
    }
    for (column, expr) in conflict.iter().flat_map(|conflict| &conflict.assigned) {
        constants.add(names.state, &table, *column, expr);
    }
    for (column, expr) in merge.iter().flat_map(|merge| &merge.given) {
        constants.add(names.state, &table, *column, expr);
    }
    let merge = merge.map(|merge| MergePlan::new(names, merge, params)).transpose().map_err(failed)?;
    let is_given = rows.is_some();
    let stream = QueryPlan::new(names.state, plan, params.data_types()).map_err(failed)?;
    let mut checks = if op == Op::Delete { Checks::default() } else { Checks::plan(names, &table)? };
    checks.add_rules(names, &table, rules)?;
    if let Some(upsert) = upsert {
        checks.add_upsert(names, &table, upsert)?;
    }
    checks.add_views(names, &table, of_views)?;
    checks.add_shown(names, &table, shown)?;
    let references = Arc::new(references);
    let mut plan = WritePlan {
        op,
        table,
        stream,
        returning,
        conflict,
        merge,
        tree: None,
        checks,
        references,
        constants,
        current_of,
        is_given,
        sources,
    };
    if plan.current_of.is_none() {
        plan.tree = Tree::new(names.state, &plan, rows);
    }
    Ok(plan)
}

/// The foreign keys that the clauses of a MERGE concern; `assigned`: what its UPDATEs change.
fn merged_references(
    names: &Names<'_>,
    table: &Arc<Table>,
    merge: &Merged,
    assigned: &[usize],
) -> Result<References, SqlError> {
    let mut all = References::default();
    for does in merge.clauses.iter().map(|clause| clause.does) {
        match does {
            Does::Insert => all.add(References::of_insert(names.txn, table, &[])?),
            Does::Update => all.add(References::of_update(names.txn, table, &with_generated(table, assigned))?),
            Does::Delete => all.add(References::of_delete(names.txn, table)?),
            Does::Nothing => {}
        }
    }
    Ok(all)
}

/// Columns that are assigned, and those that are made of them.
fn with_generated(table: &Table, assigned: &[usize]) -> Vec<usize> {
    let mut all = assigned.to_vec();
    let made = table.generated.iter().filter(|one| one.reads.iter().any(|at| assigned.contains(at)));
    all.extend(made.map(|one| one.column));
    all
}

/// An analysed expression over `schema` as it is evaluated, and whether it depends on the session.
fn ready(names: &Names<'_>, expr: Expr, schema: &DFSchema) -> datafusion::common::Result<(Expr, bool)> {
    let expr = as_in_plan(names.state, expr, schema)?;
    let of_session = bridge::is_of_session(names.state, &expr);
    Ok((simplified(names.state, expr, schema)?, of_session))
}

fn plan_returning(
    names: &Names<'_>,
    table: &Table,
    list: List,
    to: ReturnTo,
    params: &ParamTypes,
    text: &str,
) -> Result<Returning, SqlError> {
    let failed = |error| errors::from_datafusion(error, text);
    let List { columns, data: _, input, others, xmax } = list;
    let origins: Vec<_> = columns.iter().map(|(column, _)| column.origin).collect();
    if to == ReturnTo::Statement || !others.is_empty() || columns.iter().any(|(_, expr)| has_subquery(expr)) {
        let mut given = without_key(&input);
        given.extend(others);
        let plan = RowsPlan::list(names, &given, columns, params).map_err(failed)?;
        let fields = crate::plan::statement::result_fields(&plan.plan.schema, &origins);
        let (typed_by_literals, of_session) = (plan.plan.typed_by_literals, !plan.plan.is_shareable(names.state));
        return Ok(Returning { fields, by: By::Plan(Box::new(plan)), typed_by_literals, of_session, xmax });
    }
    let mut exprs = Vec::with_capacity(columns.len());
    let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len());
    let mut of_session = false;
    for (column, expr) in columns {
        let (expr, session) = ready(names, expr, &input).map_err(failed)?;
        of_session |= session;
        let data = expr.get_type(&input).map_err(failed)?;
        fields.push(Arc::new(column.ty.field(&column.name, &data)));
        exprs.push(expr);
    }
    let typed_by_literals = exprs.iter().any(|expr| is_typed_by_literal(expr, &input));
    let schema = Schema::new(fields);
    let output = Output::new(&exprs, schema.fields(), table, &input)
        .ok_or_else(|| SqlError::unsupported("this expression in RETURNING is not supported"))?;
    let fields = crate::plan::statement::result_fields(&schema, &origins);
    Ok(Returning { fields, by: By::Row(output), typed_by_literals, of_session, xmax })
}

fn plan_conflict(
    names: &Names<'_>,
    table: &Table,
    on: OnConflict,
    params: &ParamTypes,
    text: &str,
) -> Result<Conflict, SqlError> {
    let failed = |error| errors::from_datafusion(error, text);
    let keys = arbiters(names, table, on.target.as_ref())?;
    let Some(update) = on.update else {
        return Ok(Conflict { keys, update: None, assigned: Vec::new(), of_session: false });
    };
    let all = update.set.iter().map(|(_, value)| value).chain(&update.condition);
    if all.into_iter().any(has_subquery) {
        let given = without_key(&update.joined);
        let (columns, values) = update.set.into_iter().unzip();
        let plan = RowsPlan::values(names, &given, values, update.condition, params).map_err(failed)?;
        let of_session = !plan.plan.is_shareable(names.state);
        let update = Some(ConflictUpdate::Plan(columns, Box::new(plan)));
        return Ok(Conflict { keys, update, assigned: Vec::new(), of_session });
    }
    let mut of_session = false;
    let mut plan = |expr: Expr| -> Result<Expr, SqlError> {
        let (expr, session) = ready(names, expr, &update.joined).map_err(failed)?;
        of_session |= session;
        Ok(expr)
    };
    let mut set = Vec::with_capacity(update.set.len());
    for (column, value) in update.set {
        set.push((column, plan(value)?));
    }
    let condition = update.condition.map(&mut plan).transpose()?;
    let update = ConflictUpdate::new(&set, condition.as_ref(), &update.joined)
        .ok_or_else(|| SqlError::unsupported("this expression in ON CONFLICT DO UPDATE is not supported"))?;
    Ok(Conflict { keys, update: Some(update), assigned: set, of_session })
}
