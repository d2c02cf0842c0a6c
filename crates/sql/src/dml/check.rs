//! CHECK constraints and their kin: what a write evaluates before its rows go in.
//!
//! The engine keeps CHECK constraints in the definition, as SQL text; their meaning is here. A row breaks a constraint whose
//! condition is false; NULL is good enough. There is one order, PostgreSQL's, for rows one by one and in batches:
//!
//! | | |
//! |---|---|
//! | domains of columns that are given | where PostgreSQL makes the values that are given ones of the domains |
//! | generated columns | computing them; then their domains |
//! | policies | for `INSERT`, or what ON CONFLICT DO UPDATE makes of a row |
//! | NOT NULL | |
//! | CHECK constraints | by name |
//! | unique keys | when the row is written |
//! | views WITH CHECK OPTION | of rows that have been written, not of those that ON CONFLICT leaves out |
//!
//! Views have to show a row that ON CONFLICT DO UPDATE meets, whether or not they have a CHECK OPTION: that is asked of the row as
//! it is, before the condition of DO UPDATE.
//!
//! (Conditions of policies with subqueries are part of the plan that makes the rows, and come before all of these.)

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast;
use resurgam_engine::{Datum, DatumRef, ReadView, Table};

use super::assign::assigned;
use crate::exec::bridge;
use crate::exec::direct::{Row, Values};
use crate::pg::datetime::Zone;
use crate::pg::definition::parse_expression;
use crate::pg::user_types::{Constraint, constraints, violated};
use crate::plan::analyze::{RowRule, UpsertRules, condition_over_row};
use crate::plan::expression::{Place, TableExpr, rename_column};
use crate::plan::planner::Names;
use crate::wire::SqlError;

type DfResult<T> = datafusion::common::Result<T>;

/// The constraints of a table, planned.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    given: Vec<Check>,
    made: Vec<Check>,
    rules: Vec<Check>,
    existing: Vec<Check>,
    updated: Vec<Check>,
    own: Vec<Check>,
    views: Vec<Check>,
    shown: Vec<Check>,
    /// Columns whose values are made of others'.
    generated: Vec<(usize, TableExpr)>,
}

/// A condition of rows.
#[derive(Debug)]
struct Check {
    of: Of,
    expr: TableExpr,
}

/// What demands it.
#[derive(Debug)]
enum Of {
    /// A column's domain.
    Domain(Constraint),
    /// Policies: one restrictive one, or the permissive ones together. `existing`: of the row that ON CONFLICT meets.
    Policy { name: Option<String>, existing: bool },
    /// The table.
    Table(String),
    /// A view WITH CHECK OPTION.
    View(String),
    /// A view that has to show the row which ON CONFLICT DO UPDATE meets.
    Shown(String),
}

impl Check {
    /// Whether a truth is not good enough.
    fn is_broken(&self, truth: Option<bool>) -> bool {
        match self.of {
            Of::Domain(_) | Of::Table(_) => truth == Some(false),
            Of::Policy { .. } | Of::View(_) | Of::Shown(_) => truth != Some(true),
        }
    }

    #[cold]
    fn error(&self, table: &Table, row: &[DatumRef<'_>]) -> SqlError {
        match &self.of {
            // As in PostgreSQL, where the value has become one of the domain before it is in a row.
            Of::Domain(constraint) => violated(constraint),
            Of::Policy { name, existing } => {
                SqlError::new("42501", RowRule::refusal(name.as_deref(), &table.name, *existing))
            }
            Of::Table(name) => {
                let relation = &table.name;
                let message = format!("new row for relation \"{relation}\" violates check constraint \"{name}\"");
                let error = SqlError::new("23514", message).with_detail(bridge::failing_row(table, row));
                of_constraint(error, table, name)
            }
            Of::View(name) => {
                let message = format!("new row violates check option for view \"{name}\"");
                SqlError::new("44000", message).with_detail(bridge::failing_row(table, row))
            }
            Of::Shown(name) => {
                SqlError::new("55000", format!("conflicting row is not visible through view \"{name}\""))
            }
        }
    }
}

/// Conditions of views over a table's row; what each is of, by the view's name.
fn of_views(
    names: &Names<'_>,
    table: &Table,
    views: Vec<(String, Expr)>,
    of: fn(String) -> Of,
) -> Result<Vec<Check>, SqlError> {
    let check = |(view, condition)| {
        let expr = TableExpr::over(names, table, condition_over_row(table, condition)?)?;
        Ok(Check { of: of(view), expr })
    };
    views.into_iter().map(check).collect()
}

fn planned(names: &Names<'_>, table: &Table, rules: Vec<RowRule>, existing: bool) -> Result<Vec<Check>, SqlError> {
    let plan = |RowRule { policy, condition }| {
        let expr = TableExpr::over(names, table, condition_over_row(table, condition)?)?;
        Ok(Check { of: Of::Policy { name: policy, existing }, expr })
    };
    rules.into_iter().map(plan).collect()
}

/// Constraints by when they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What domains demand of columns that are given: before others are made of them.
    Given,
    /// What domains demand of generated columns.
    Made,
    /// What policies demand of a row.
    Rules,
    /// What they demand of the row that ON CONFLICT DO UPDATE meets.
    Existing,
    /// What they demand of what becomes of it, instead of `Rules`.
    Updated,
    /// What views show: of the row that ON CONFLICT DO UPDATE meets, before its condition is asked.
    Shown,
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
        let mut by_name: Vec<_> = table.checks.iter().collect();
        by_name.sort_by(|a, b| a.name.cmp(&b.name));
        for check in by_name {
            let expr = TableExpr::plan(names, table, &parse_expression(&check.sql)?, Place::Check)?;
            own.push(Check { of: Of::Table(check.name.clone()), expr });
        }
        let (mut given, mut made) = (Vec::new(), Vec::new());
        for (column, domain) in &table.domains {
            for constraint in constraints(*domain) {
                let expr = demand(&table.columns[*column].name, &constraint)?;
                let expr = TableExpr::plan(names, table, &expr, Place::Domain)?;
                let domains = if table.generated(*column).is_none() { &mut given } else { &mut made };
                domains.push(Check { of: Of::Domain(constraint), expr });
            }
        }
        let mut generated = Vec::with_capacity(table.generated.len());
        for one in &table.generated {
            let Some(column) = table.columns.get(one.column) else { continue };
            let expr = parse_expression(&one.sql)?;
            generated
                .push((one.column, TableExpr::plan(names, table, &expr, Place::Generated(&column.name, column.ty))?));
        }
        Ok(Self { given, made, own, generated, ..Self::default() })
    }

    /// Adds conditions of views, the innermost first, each with its view's name.
    pub(crate) fn add_views(
        &mut self,
        names: &Names<'_>,
        table: &Table,
        views: Vec<(String, Expr)>,
    ) -> Result<(), SqlError> {
        self.views.extend(of_views(names, table, views, Of::View)?);
        Ok(())
    }

    /// Adds conditions of views, the innermost first, that must show a row which ON CONFLICT DO UPDATE meets.
    pub(crate) fn add_shown(
        &mut self,
        names: &Names<'_>,
        table: &Table,
        views: Vec<(String, Expr)>,
    ) -> Result<(), SqlError> {
        self.shown.extend(of_views(names, table, views, Of::Shown)?);
        Ok(())
    }

    /// Adds conditions of policies.
    pub(crate) fn add_rules(&mut self, names: &Names<'_>, table: &Table, rules: Vec<RowRule>) -> Result<(), SqlError> {
        self.rules.extend(planned(names, table, rules, false)?);
        Ok(())
    }

    /// Adds what policies demand where ON CONFLICT DO UPDATE meets a row.
    pub(crate) fn add_upsert(
        &mut self,
        names: &Names<'_>,
        table: &Table,
        UpsertRules { existing, updated }: UpsertRules,
    ) -> Result<(), SqlError> {
        self.existing = planned(names, table, existing, true)?;
        self.updated = planned(names, table, updated, false)?;
        Ok(())
    }

    /// Those of rows of a batch, in their order.
    fn of_batch(&self) -> impl Iterator<Item = &Check> {
        self.given.iter().chain(&self.made).chain(&self.rules).chain(&self.own).chain(&self.views)
    }

    fn all(&self) -> impl Iterator<Item = &Check> {
        self.of_batch().chain(&self.existing).chain(&self.updated).chain(&self.shown)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Whether no condition depends on the session that it was planned in.
    pub(crate) fn is_shareable(&self) -> bool {
        self.all().all(|check| !check.expr.of_session)
    }

    /// The row with the values of its generated columns; `None`: the table has none.
    ///
    /// # Errors
    /// Those of domains of the columns that they are made of, of computing them, and of values that do not fit.
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
        let given = Row { table, values: Values::Given(row), view };
        self.refuse(Part::Given, given)?;
        for (at, expr) in &self.generated {
            let value = expr.value_of(given)?;
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
        for (at, check) in self.of_batch().enumerate() {
            let holds = check.expr.holds(batch)?;
            let truth = |row: usize| holds.is_valid(row).then(|| holds.value(row));
            for row in (0..batch.num_rows()).filter(|row| check.is_broken(truth(*row))) {
                rows.resize(batch.num_rows(), None);
                rows[row].get_or_insert(at);
            }
        }
        Ok(Broken(rows))
    }

    /// The error of a row that is number `at` of the batch that `broken` is about. `is_written`: if what it breaks first is
    /// the condition of a view; otherwise if it is anything else.
    pub(crate) fn refuse_known(
        &self,
        is_written: bool,
        broken: &Broken,
        at: usize,
        table: &Table,
        row: &[DatumRef<'_>],
    ) -> Result<(), SqlError> {
        let Some(first) = broken.0.get(at).copied().flatten() else { return Ok(()) };
        let Some(check) = self.of_batch().nth(first) else { return Ok(()) };
        let is_null = || table.columns.iter().zip(row).any(|(column, datum)| !column.nullable && datum.is_null());
        match check.of {
            Of::View(_) if !is_written => Ok(()),
            Of::View(_) => Err(check.error(table, row)),
            _ if is_written => Ok(()),
            // A NULL where there must be none comes first; it is told by whoever writes the row.
            Of::Table(_) if is_null() => Ok(()),
            _ => Err(check.error(table, row)),
        }
    }

    /// The error of a row that breaks a constraint of that part.
    pub(crate) fn refuse(&self, part: Part, row: Row<'_>) -> Result<(), SqlError> {
        let checks = match part {
            Part::Given => &self.given,
            Part::Made => &self.made,
            Part::Rules => &self.rules,
            Part::Existing => &self.existing,
            Part::Updated => &self.updated,
            Part::Shown => &self.shown,
            Part::Own => &self.own,
            Part::Views => &self.views,
        };
        for check in checks {
            if check.is_broken(check.expr.truth_of(row)?) {
                let given = if let Values::Given(given) = row.values { given } else { &[] };
                return Err(check.error(row.table, given));
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

/// The error of rows that are there already and break a constraint that is being added.
pub(crate) fn some_row_breaks(table: &Table, name: &str) -> SqlError {
    let message = format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
    of_constraint(SqlError::new("23514", message), table, name)
}

/// The error with the names of a constraint.
fn of_constraint(mut error: SqlError, table: &Table, name: &str) -> SqlError {
    error.schema = Some(table.schema.clone());
    error.table = Some(table.name.clone());
    error.constraint = Some(name.to_owned());
    error
}
