//! CHECK constraints: what a write evaluates before its rows go in.
//!
//! The engine keeps them in the definition, as SQL text; their meaning is here. A row breaks a
//! constraint whose condition is false; NULL is good enough. As in PostgreSQL they are looked
//! at by name, after NOT NULL and before unique keys. The conditions of policies come before all of them. The conditions of
//! views WITH CHECK OPTION come last: they are of rows
//! that have been written, not of those that ON CONFLICT leaves out.

use datafusion::arrow::array::{Array, BooleanArray, RecordBatch};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast;
use resurgam_engine::{Datum, DatumRef, ReadView, Table};

use super::assign::assigned;
use crate::exec::bridge;
use crate::exec::direct::{Row, Values};
use crate::pg::datetime::Zone;
use crate::pg::user_types::{Constraint, constraints, violated};
use crate::plan::analyze::{RowRule, UpsertRules, condition_over_row};
use crate::plan::expression::{Place, TableExpr, rename_column};
use crate::plan::planner::Names;
use crate::plan::statement::parse_expression;
use crate::wire::SqlError;

type DfResult<T> = datafusion::common::Result<T>;

/// The constraints of a table, planned.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    list: Vec<(String, TableExpr)>,
    /// The first ones of the list are what the columns' domains demand.
    domains: Vec<Constraint>,
    /// Behind them are the conditions of the table's policies, by the policy where it is a restrictive one.
    rules: Vec<Option<String>>,
    /// The last ones of the list are conditions of views, WITH CHECK OPTION: so many.
    views: usize,
    /// What policies demand where ON CONFLICT DO UPDATE meets a row.
    upsert: Option<Upsert>,
    /// Columns whose values are made of others'.
    generated: Vec<(usize, TableExpr)>,
}

/// Conditions of policies, each by the policy where it is a restrictive one.
type Rules = Vec<(Option<String>, TableExpr)>;

#[derive(Debug)]
struct Upsert {
    /// Of the row that is there.
    existing: Rules,
    /// Of what becomes of it.
    updated: Rules,
}

fn planned(names: &Names<'_>, table: &Table, rules: Vec<RowRule>) -> Result<Rules, SqlError> {
    let plan = |RowRule { policy, condition }| {
        Ok((policy, TableExpr::over(names, table, condition_over_row(table, condition)?)?))
    };
    rules.into_iter().map(plan).collect()
}

/// Constraints by when they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Those of the table's policies: before all others.
    Rules,
    /// The table's: before a row is written, whether or not something is in its way then.
    Own,
    /// The conditions of views: of a row that is written, after its keys.
    Views,
}

/// For each row of a batch, the first constraint that it breaks.
#[derive(Debug, Default)]
pub(crate) struct Broken(Vec<Option<usize>>);

impl Checks {
    /// Plans the constraints of `table`.
    pub(crate) fn plan(names: &Names<'_>, table: &Table) -> Result<Self, SqlError> {
        let mut own = Vec::with_capacity(table.checks.len());
        for check in &table.checks {
            let expr = parse_expression(&check.sql)?;
            let expr = TableExpr::plan(names, table, &expr, Place::Check)?;
            own.push((check.name.clone(), expr));
        }
        own.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (mut list, mut domains) = (Vec::with_capacity(own.len()), Vec::new());
        for (column, domain) in &table.domains {
            for constraint in constraints(*domain) {
                let expr = demand(&table.columns[*column].name, &constraint)?;
                list.push((String::new(), TableExpr::plan(names, table, &expr, Place::Check)?));
                domains.push(constraint);
            }
        }
        list.append(&mut own);
        let mut generated = Vec::with_capacity(table.generated.len());
        for one in &table.generated {
            let Some(column) = table.columns.get(one.column) else { continue };
            let expr = parse_expression(&one.sql)?;
            generated
                .push((one.column, TableExpr::plan(names, table, &expr, Place::Generated(&column.name, column.ty))?));
        }
        Ok(Self { list, domains, rules: Vec::new(), views: 0, upsert: None, generated })
    }

    /// Adds conditions of views, the innermost first, each with its view's name.
    pub(crate) fn add_views(
        &mut self,
        names: &Names<'_>,
        table: &Table,
        views: Vec<(String, Expr)>,
    ) -> Result<(), SqlError> {
        for (view, condition) in views {
            let condition = condition_over_row(table, condition)?;
            self.list.push((view, TableExpr::over(names, table, condition)?));
            self.views += 1;
        }
        Ok(())
    }

    /// Adds conditions of policies: they come before the table's own constraints.
    pub(crate) fn add_rules(&mut self, names: &Names<'_>, table: &Table, rules: Vec<RowRule>) -> Result<(), SqlError> {
        for (policy, condition) in planned(names, table, rules)? {
            let at = self.domains.len() + self.rules.len();
            self.list.insert(at, (String::new(), condition));
            self.rules.push(policy);
        }
        Ok(())
    }

    /// Adds what policies demand where ON CONFLICT DO UPDATE meets a row.
    pub(crate) fn add_upsert(
        &mut self,
        names: &Names<'_>,
        table: &Table,
        UpsertRules { existing, updated }: UpsertRules,
    ) -> Result<(), SqlError> {
        let (existing, updated) = (planned(names, table, existing)?, planned(names, table, updated)?);
        self.upsert = Some(Upsert { existing, updated });
        Ok(())
    }

    /// Refuses a row that ON CONFLICT DO UPDATE meets, or (`existing` is false) what becomes of it.
    ///
    /// # Errors
    /// `42501`
    pub(crate) fn refuse_upsert(&self, existing: bool, row: Row<'_>) -> Result<(), SqlError> {
        let Some(upsert) = &self.upsert else { return Ok(()) };
        for (policy, rule) in if existing { &upsert.existing } else { &upsert.updated } {
            if rule.truth_of(row)? != Some(true) {
                let text = RowRule::refusal(policy.as_deref(), &row.table.name, existing);
                return Err(SqlError::new("42501", text));
            }
        }
        Ok(())
    }

    /// The policy's condition that number `check` is.
    fn rule(&self, check: usize) -> Option<&Option<String>> {
        self.rules.get(check.checked_sub(self.domains.len())?)
    }

    /// Whether a condition that is NULL is not satisfied.
    fn is_strict(&self, check: usize) -> bool {
        self.is_of_view(check) || self.rule(check).is_some()
    }

    /// Whether number `check` is the condition of a view.
    fn is_of_view(&self, check: usize) -> bool {
        check >= self.list.len() - self.views
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether no condition depends on the session that it was planned in.
    pub(crate) fn is_shareable(&self) -> bool {
        let upsert = self.upsert.iter().flat_map(|upsert| upsert.existing.iter().chain(&upsert.updated));
        self.list.iter().all(|(_, expr)| !expr.of_session) && upsert.into_iter().all(|(_, expr)| !expr.of_session)
    }

    /// The row with the values of its generated columns; `None`: the table has none.
    ///
    /// # Errors
    /// Those of computing them, and of values that do not fit.
    pub(crate) fn generated(
        &self,
        table: &Table,
        row: &[DatumRef<'_>],
        view: &ReadView,
    ) -> Result<Option<Vec<Datum>>, SqlError> {
        if self.generated.is_empty() {
            return Ok(None);
        }
        let mut made: Vec<Datum> = Vec::with_capacity(row.len());
        made.extend(row.iter().map(DatumRef::to_owned));
        for (at, expr) in &self.generated {
            let value = expr.value_of(Row { table, values: Values::Given(row), view })?;
            // It has the column's type already: no zone has a say.
            made[*at] = assigned(&value, &table.columns[*at], &Zone::Utc)?;
        }
        Ok(Some(made))
    }

    /// Whether rows are other ones when they are written than when they are given.
    pub(crate) fn has_generated(&self) -> bool {
        !self.generated.is_empty()
    }

    /// Evaluates them on rows: a batch that begins with all columns of the table, of their types.
    pub(crate) fn broken(&self, batch: &RecordBatch) -> DfResult<Broken> {
        let mut rows = Vec::new();
        for (at, (_, expr)) in self.list.iter().enumerate() {
            let holds = expr.holds(batch)?;
            let fails = |row: usize| is_false(&holds, row) || self.is_strict(at) && !holds.is_valid(row);
            for row in (0..batch.num_rows()).filter(|row| fails(*row)) {
                rows.resize(batch.num_rows(), None);
                rows[row].get_or_insert(at);
            }
        }
        Ok(Broken(rows))
    }

    /// The error of a row that is number `at` of the batch that `broken` is about, if it breaks a constraint of that
    /// part. (The first one that a row breaks is known: of the table's, if there is one.)
    pub(crate) fn refuse_known(
        &self,
        part: Part,
        broken: &Broken,
        at: usize,
        table: &Table,
        row: &[DatumRef<'_>],
    ) -> Result<(), SqlError> {
        match broken.0.get(at).copied().flatten() {
            // The rules are the first ones, and looked at with the others here.
            Some(check) if self.is_of_view(check) == (part == Part::Views) => self.violated(check, table, row),
            _ => Ok(()),
        }
    }

    #[cold]
    fn violated(&self, check: usize, table: &Table, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        // As in PostgreSQL, where the value has become one of the domain before it is in a row.
        if let Some(constraint) = self.domains.get(check) {
            return Err(violated(constraint));
        }
        if let Some(policy) = self.rule(check) {
            return Err(SqlError::new("42501", RowRule::refusal(policy.as_deref(), &table.name, false)));
        }
        // A NULL where there must be none comes first; it is told by whoever writes the row.
        if table.columns.iter().zip(row).any(|(column, datum)| !column.nullable && datum.is_null()) {
            return Ok(());
        }
        let name = &self.list[check].0;
        if self.is_of_view(check) {
            let message = format!("new row violates check option for view \"{name}\"");
            return Err(SqlError::new("44000", message).with_detail(bridge::failing_row(table, row)));
        }
        let message = format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name);
        let mut error = SqlError::new("23514", message).with_detail(bridge::failing_row(table, row));
        error.schema = Some(table.schema.clone());
        error.table = Some(table.name.clone());
        error.constraint = Some(name.clone());
        Err(error)
    }

    /// The error of a row that breaks a constraint of that part; its large values are read through `view`.
    pub(crate) fn refuse(
        &self,
        part: Part,
        table: &Table,
        row: &[DatumRef<'_>],
        view: &ReadView,
    ) -> Result<(), SqlError> {
        let (rules, own) = (self.domains.len()..self.domains.len() + self.rules.len(), self.list.len() - self.views);
        for (check, (_, expr)) in self.list.iter().enumerate() {
            let of = match check {
                check if rules.contains(&check) => Part::Rules,
                check if check < own => Part::Own,
                _ => Part::Views,
            };
            if of != part {
                continue;
            }
            let truth = expr.truth_of(Row { table, values: Values::Given(row), view })?;
            if truth == Some(false) || truth.is_none() && self.is_strict(check) {
                return self.violated(check, table, row);
            }
        }
        Ok(())
    }
}

/// What a domain's constraint demands of a column.
pub(crate) fn demand(column: &str, constraint: &Constraint) -> Result<ast::Expr, SqlError> {
    let column = ast::Ident::with_quote('"', column);
    match &constraint.check {
        None => Ok(ast::Expr::IsNotNull(Box::new(ast::Expr::Identifier(column)))),
        Some((_, sql)) => {
            let mut expr = parse_expression(sql)?;
            rename_column(&mut expr, "value", &column.value);
            Ok(expr)
        }
    }
}

fn is_false(holds: &BooleanArray, row: usize) -> bool {
    holds.is_valid(row) && !holds.value(row)
}

/// The error of rows that are there already and break a constraint that is being added.
pub(crate) fn some_row_breaks(table: &Table, name: &str) -> SqlError {
    let message = format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
    let mut error = SqlError::new("23514", message);
    error.schema = Some(table.schema.clone());
    error.table = Some(table.name.clone());
    error.constraint = Some(name.to_owned());
    error
}

/// Whether any of the values is false.
pub(crate) fn any_false(holds: &BooleanArray) -> bool {
    (0..holds.len()).any(|row| is_false(holds, row))
}
