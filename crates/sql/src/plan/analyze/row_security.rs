//! Row security: which rows of a table a statement sees, and which it may write, by the table's policies (PostgreSQL's
//! `rowsecurity.c`).
//!
//! # Invariants
//! 1. *No relation is read or written without being asked about here.* Tables come into a plan at three places: FROM, the
//!    query of a view, and the target of a statement that writes.
//! 2. *A plan with policies in it is of one role.* Whether there are any is noted with what the statement needs
//!    ([`Needs::of_role`](crate::plan::needs::Needs)): such a plan is kept for its session alone, until the role or the
//!    setting `row_security` is another.
//! 3. *What could tell of a hidden row by an error is not evaluated for it.* Conditions of policies stand in a filter of
//!    their own at the scan, with a mark ([`policy_mark`]) that the optimiser heeds.
//! 4. *A condition means what it meant when the policy was made*, as the query of a view does, and counts with the rights of
//!    whoever reads the table.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as PlanColumn, ScalarValue};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use resurgam_engine::{Access, Table};

use super::bound::Column;
use super::expr::Clause;
use super::scope::{Item, Scope};
use super::view::view_query;
use super::write::Target;
use super::{Analyzer, Result};
use crate::exec::bridge;
use crate::exec::row_rule::{policy_mark, row_rule};
use crate::parse::depth::too_deep;
use crate::pg::catalog::relation_oid;
use crate::pg::policies::{Command, Conditions, Policy, apply_to};
use crate::plan::expression::has_subquery;
use crate::plan::needs::access_of;
use crate::wire::SqlError;

/// Policies within each other.
const LEVELS_MAX: usize = 32;

/// A condition that rows have to satisfy before they are written.
#[derive(Clone, Debug)]
pub(crate) struct RowRule {
    /// The restrictive policy that it is of; `None`: of the permissive ones together.
    pub policy: Option<String>,
    pub condition: Expr,
}

impl RowRule {
    /// What is said of a row of a table that does not satisfy it; `existing`: it is there already, and ON CONFLICT would
    /// update it.
    pub(crate) fn refusal(policy: Option<&str>, table: &str, existing: bool) -> String {
        let policy = policy.map(|name| format!(" \"{name}\"")).unwrap_or_default();
        let using = if existing { " (USING expression)" } else { "" };
        format!("new row violates row-level security policy{policy}{using} for table \"{table}\"")
    }
}

/// What the policies of a table demand where ON CONFLICT DO UPDATE meets a row.
#[derive(Debug)]
pub(crate) struct UpsertRules {
    /// Of the row that is there.
    pub existing: Vec<RowRule>,
    /// Of what becomes of it.
    pub updated: Vec<RowRule>,
}

/// Which condition of a policy counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// USING
    Seen,
    /// WITH CHECK, or else USING
    Written,
}

/// The policies of a table that a role has to satisfy, of all commands.
pub(super) struct Policies {
    of: Vec<Policy>,
    /// Whose rights count; `None`: those of whoever runs the statement.
    reader: Option<u32>,
    /// Columns of a target are read: its rows have to be seen as well.
    reads: bool,
}

impl Analyzer<'_> {
    /// The policies that count for a table; `None`: all rows are there. `reader`: whose rights count, but of whoever runs the
    /// statement.
    ///
    /// # Errors
    /// `42501` where the setting `row_security` refuses what they would leave out; `42P17` within a policy of the same table.
    fn policies_for(&self, table: &Table, reader: Option<u32>) -> Result<Option<Policies>> {
        // A view that is being made is not run.
        if !access_of(table).row_security || self.is_making_view() {
            return Ok(None);
        }
        self.note_role();
        let role = reader.unwrap_or_else(|| self.names.cx.role());
        let (rights, setting) = (self.names.cx.rights()?, self.names.cx.setting("row_security"));
        if !apply_to(table, &rights, role, setting.as_deref())? {
            return Ok(None);
        }
        if self.is_within_policy_of(table.id) {
            let text = format!("infinite recursion detected in policy for relation \"{}\"", table.name);
            return Err(SqlError::new("42P17", text).into());
        }
        let mut of = Vec::new();
        for entry in self.names.txn.policies_of(table.id).map_err(SqlError::from)? {
            let policy = Policy::of_entry(&entry)?;
            let rule = &policy.rule;
            if rule.is_public() || rule.roles.iter().any(|of| rights.has_rights_of(role, *of)) {
                of.push(policy);
            }
        }
        Ok(Some(Policies { of, reader, reads: false }))
    }

    /// The same of the target of a statement that writes, all of whose parts but the new rows are analysed.
    ///
    /// # Errors
    /// As of a table that is read.
    pub(super) fn policies_of_target(&self, table: &Table, target: &Target) -> Result<Option<Policies>> {
        let (reader, reads) = self.target_reader(target.sought);
        Ok(self.policies_for(table, reader)?.map(|policies| Policies { reads, ..policies }))
    }

    /// The rules of a command: one of the permissive policies, and each of the restrictive ones, by name. `columns` are
    /// all of the table's.
    fn row_rules(
        &mut self,
        table: &Arc<Table>,
        policies: &Policies,
        columns: &[Column],
        command: Command,
        which: Which,
    ) -> Result<Vec<RowRule>> {
        let (mut permissive, mut restrictive): (Option<Expr>, Vec<RowRule>) = (None, Vec::new());
        let is_of = |policy: &&Policy| policy.rule.command == Command::All || policy.rule.command == command;
        for policy in policies.of.iter().filter(is_of) {
            let condition = self.policy_condition(table, policy, policies.reader, columns, which)?;
            let Some(condition) = condition else { continue };
            match policy.rule.permissive {
                true => {
                    permissive = Some(match permissive {
                        Some(before) => before.or(condition),
                        None => condition,
                    });
                }
                false => restrictive.push(RowRule { policy: Some(policy.name().to_owned()), condition }),
            }
        }
        let condition = permissive.unwrap_or_else(|| lit(ScalarValue::Boolean(Some(false))));
        let mut rules = vec![RowRule { policy: None, condition }];
        rules.extend(restrictive);
        Ok(rules)
    }

    /// A condition of a policy over the columns of its table.
    fn policy_condition(
        &mut self,
        table: &Arc<Table>,
        policy: &Policy,
        reader: Option<u32>,
        columns: &[Column],
        which: Which,
    ) -> Result<Option<Expr>> {
        let view = policy.view()?;
        if view.sql.is_empty() {
            return Ok(None);
        }
        if self.levels() >= LEVELS_MAX {
            return Err(too_deep().into());
        }
        let bad = || SqlError::internal(format!("policy \"{}\" cannot be read", policy.name()));
        let Conditions { using, check } = Conditions::of(*view_query(&view.sql)?).ok_or_else(bad)?;
        let condition = match which {
            Which::Seen => using,
            Which::Written => check.or(using),
        };
        let Some(condition) = condition else { return Ok(None) };
        let relation = view.relations.iter().find(|relation| relation.id == table.id).ok_or_else(bad)?;
        let mut seen = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns {
            let found = columns.get(column.at).ok_or_else(bad)?;
            seen.push(Column { name: column.name.clone(), bound: found.bound.clone() });
        }
        let item = Item {
            name: Some(relation.name.clone()),
            schema: Some(relation.schema.clone()),
            columns: seen,
            by_name: true,
            by_column: true,
            table: None,
            oid: relation_oid(table.id),
            of_join: false,
        };
        // What it reads is read with the rights of whoever reads the table.
        let access = match reader {
            Some(owner) => Access::of(owner),
            None => Access { invoker: true, ..Access::FIRST },
        };
        let within = Table::of_names(policy.entry.id, &policy.entry.schema, policy.name(), view.clone(), access);
        let scope = Scope { items: vec![item], ..Scope::empty() };
        // The columns of the table itself need no privilege of whoever it is.
        let unnoted = self.unnote(columns);
        let (text, windows) = (std::mem::take(&mut self.text), std::mem::take(&mut self.windows));
        self.enter_policy(table.id, &Arc::new(within));
        let bound = self.condition(&condition, &scope, Clause::Where);
        self.leave_policy();
        (self.text, self.windows) = (text, windows);
        self.note_again(unnoted);
        Ok(Some(bound?.expr))
    }

    /// The same of a target: those of SELECT as well, if columns of it are read.
    fn target_rules(
        &mut self,
        table: &Arc<Table>,
        policies: &Policies,
        target: &Target,
        command: Command,
        which: Which,
    ) -> Result<Vec<RowRule>> {
        let mut rules = self.row_rules(table, policies, &target.base, command, which)?;
        if policies.reads {
            rules.extend(self.row_rules(table, policies, &target.base, Command::Select, Which::Seen)?);
        }
        Ok(rules)
    }

    /// The rows of a table that whoever reads it sees for each of the commands. `columns` are all of the table's.
    ///
    /// # Errors
    /// Those of the policies' conditions; `42501`.
    pub(super) fn rows_seen(
        &mut self,
        table: &Arc<Table>,
        plan: LogicalPlan,
        reader: Option<u32>,
        columns: &[Column],
        commands: &[Command],
    ) -> Result<LogicalPlan> {
        let Some(policies) = self.policies_for(table, reader)? else { return Ok(plan) };
        let mut seen = Vec::new();
        for command in commands {
            seen.extend(self.row_rules(table, &policies, columns, *command, Which::Seen)?);
        }
        marked(plan, columns, seen)
    }

    /// The rows of a target that UPDATE or DELETE may change: those that it may see as well, if it reads columns of it.
    pub(super) fn rows_changed(
        &mut self,
        table: &Arc<Table>,
        policies: Option<&Policies>,
        target: &Target,
        plan: LogicalPlan,
        command: Command,
    ) -> Result<LogicalPlan> {
        let Some(policies) = policies else { return Ok(plan) };
        let seen = self.target_rules(table, policies, target, command, Which::Seen)?;
        // Below what the statement itself asks of the rows.
        let mut seen = Some(seen);
        let placed = plan.transform_down(|node| match seen.take_if(|_| node == target.scan) {
            None => Ok(Transformed::no(node)),
            Some(seen) => {
                let node = marked(node, &target.base, seen).map_err(|refusal| bridge::failure(refusal.into_error()))?;
                Ok(Transformed::new(node, true, TreeNodeRecursion::Stop))
            }
        })?;
        match placed.transformed {
            true => Ok(placed.data),
            false => Err(SqlError::internal("a target that is nowhere in its plan").into()),
        }
    }

    /// What rows have to satisfy that INSERT or UPDATE writes: to be seen as well, if the statement reads columns of the table.
    /// Conditions with subqueries are asked by the plan that makes the rows, which is another one then; the others are
    /// returned.
    ///
    /// # Errors
    /// Those of the policies' conditions; `0A000` for subqueries beside generated columns.
    pub(super) fn rows_written(
        &mut self,
        table: &Arc<Table>,
        policies: Option<&Policies>,
        target: &Target,
        command: Command,
        plan: &LogicalPlan,
    ) -> Result<(Option<LogicalPlan>, Vec<RowRule>)> {
        let Some(policies) = policies else { return Ok((None, Vec::new())) };
        let rules = self.target_rules(table, policies, target, command, Which::Written)?;
        let (asked, rules): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| has_subquery(&rule.condition));
        if asked.is_empty() {
            return Ok((None, rules));
        }
        if !table.generated.is_empty() {
            return Err(with_subqueries(table, "generated columns").into());
        }
        let names: Vec<String> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
        let mut rows = LogicalPlanBuilder::from(plan.clone()).alias(target.qualifier.clone())?;
        for RowRule { policy, condition } in asked {
            rows = rows.filter(row_rule(condition, RowRule::refusal(policy.as_deref(), &table.name, false)))?;
        }
        let column = |name: &String| Expr::Column(PlanColumn::new(Some(target.qualifier.clone()), name)).alias(name);
        Ok((Some(rows.project(names.iter().map(column))?.build()?), rules))
    }

    /// What rows have to satisfy that ON CONFLICT DO UPDATE meets.
    ///
    /// # Errors
    /// Those of the policies' conditions; `0A000` for subqueries in them.
    pub(super) fn rows_upserted(
        &mut self,
        table: &Arc<Table>,
        policies: Option<&Policies>,
        target: &Target,
    ) -> Result<Option<UpsertRules>> {
        let Some(policies) = policies else { return Ok(None) };
        let existing = self.target_rules(table, policies, target, Command::Update, Which::Seen)?;
        let updated = self.target_rules(table, policies, target, Command::Update, Which::Written)?;
        match existing.iter().chain(&updated).any(|rule| has_subquery(&rule.condition)) {
            true => Err(with_subqueries(table, "ON CONFLICT DO UPDATE").into()),
            false => Ok(Some(UpsertRules { existing, updated })),
        }
    }

    /// Refuses a statement that policies have a say in.
    ///
    /// # Errors
    /// `0A000`, `42501`
    pub(super) fn refuse_policies(&self, table: &Table, target: &Target, what: &str) -> Result<()> {
        match self.policies_of_target(table, target)? {
            None => Ok(()),
            Some(_) => {
                let text = format!("{what} on table \"{}\" with row-level security is not supported", table.name);
                Err(SqlError::unsupported(text).into())
            }
        }
    }
}

/// `0A000`
fn with_subqueries(table: &Table, beside: &str) -> SqlError {
    let name = &table.name;
    SqlError::unsupported(format!("policies of table \"{name}\" with subqueries beside {beside} are not supported"))
}

/// The rows that satisfy conditions of policies, which are evaluated before whatever could tell of other rows.
fn marked(plan: LogicalPlan, columns: &[Column], rules: Vec<RowRule>) -> Result<LogicalPlan> {
    let Some(condition) = conjunction(rules.into_iter().map(|rule| rule.condition)) else { return Ok(plan) };
    let mark = columns.first().map(|column| policy_mark(column.bound.expr.clone()));
    let condition = mark.into_iter().fold(condition, Expr::and);
    Ok(LogicalPlanBuilder::from(plan).filter(condition)?.build()?)
}
