//! What a constraint does to the rows that refer to a key that is gone: CASCADE, SET NULL, SET
//! DEFAULT.
//!
//! Rows are found in the newest state, as they are for a check, and each is changed like one
//! that a statement of its own changes: its CHECK constraints hold, and it is looked after in
//! its turn, which may add to the queue.

use std::sync::Arc;

use resurgam_engine::{Change, Datum, Isolation, Presence, ReferentialAction, RowBuf, Seen, Table};

use super::enforce::{Enforcer, Help, entry_bytes, lock, pause};
use super::value::convert;
use super::{Reference, References, Side, columns_of};
use crate::dml::check::Checks;
use crate::dml::{ROWS_PER_TURN, Writer};
use crate::pg::arrow::fit_text;
use crate::pg::definition::parse_expression;
use crate::plan::expression::{Place, TableExpr};
use crate::wire::SqlError;

/// An action to be carried out.
pub(super) struct Act {
    pub reference: Arc<Reference>,
    /// The key that is gone.
    pub key: Vec<u8>,
    /// It was an update: what its row has now, in the order of the constraint's columns and of
    /// the parent's types.
    pub new: Option<Vec<Datum>>,
}

impl Act {
    /// What it takes while it waits, about.
    pub(super) fn bytes(&self) -> usize {
        let new = self.new.as_ref().map_or(0, |new| new.len() * size_of::<Datum>());
        entry_bytes(&self.key) + self.key.len() + new
    }
}

/// What is known of a table that actions write to.
pub(super) struct Work {
    references: Arc<References>,
    checks: Checks,
}

/// What becomes of a referring row.
enum To {
    Nothing,
    /// These values in the constraint's columns.
    Values(Vec<Datum>),
}

impl Enforcer {
    /// The tables that an action writes to, and what has to be looked after there.
    async fn work_on(&mut self, table: &Arc<Table>, help: &Help<'_>) -> Result<Arc<Work>, SqlError> {
        if let Some(work) = self.work.get(&table.id) {
            return Ok(Arc::clone(work));
        }
        let references = Arc::new(References::of(&self.txn, table)?);
        lock(&self.txn, &references, &help.waiting).await?;
        let checks = Checks::plan(&help.names, table)?;
        let work = Arc::new(Work { references, checks });
        self.work.insert(table.id, Arc::clone(&work));
        Ok(work)
    }

    /// Carries an action out.
    pub(super) async fn act(&mut self, act: &Act, help: &Help<'_>) -> Result<(), SqlError> {
        let reference = &act.reference;
        let child = &reference.child;
        let work = self.work_on(child, help).await?;
        let to = self.outcome(act, help)?;
        let Some(values) = reference.child_values(&act.key)? else { return Ok(()) };
        let mut search = self.txn.referencing(child, &reference.search, &reference.foreign.columns, values)?;
        let mut rows = 0usize;
        while !search.is_over() {
            let Some(row) = search.step()? else {
                pause(&help.waiting).await?;
                continue;
            };
            rows += 1;
            if rows.is_multiple_of(ROWS_PER_TURN) {
                pause(&help.waiting).await?;
            }
            // Again when it was changed by someone who had to be waited for.
            loop {
                let found = search.judge(&row)?;
                match found.presence {
                    Presence::No => break,
                    Presence::Yes => {}
                    Presence::Undecided(holder) => {
                        help.waiting.wait(self.txn.wait_for_writer(holder)?).await?;
                        continue;
                    }
                }
                let frozen = self.txn.isolation() == Isolation::RepeatableRead && !found.own;
                let seen = if frozen { Seen::Snapshot } else { found.seen };
                match self.apply(&to, reference, &work, &row, &found.row, seen, help).await? {
                    Change::Done | Change::Gone => break,
                    Change::Changed => {}
                    Change::SelfModified => return Err(SqlError::internal("an action met its own row")),
                }
            }
            help.waiting.stop.check()?;
        }
        if matches!(to, To::Values(_)) && self.action_of(act) == ReferentialAction::SetDefault {
            // The default may be the very key that is gone: then nothing has changed above.
            self.remember(reference, Side::Parent, act.key.clone(), false)?;
        }
        Ok(())
    }

    fn action_of(&self, act: &Act) -> ReferentialAction {
        let foreign = &act.reference.foreign;
        if act.new.is_some() { foreign.on_update } else { foreign.on_delete }
    }

    async fn apply(
        &mut self,
        to: &To,
        reference: &Reference,
        work: &Work,
        key: &[u8],
        row: &RowBuf,
        seen: Seen,
        help: &Help<'_>,
    ) -> Result<Change, SqlError> {
        let child = &reference.child;
        let mut old = RowBuf::default();
        let txn = self.txn.clone();
        let statement = txn.resume_statement(txn.view()?);
        let writer = Writer { statement: &statement, table: child, checks: &work.checks, waiting: &help.waiting };
        let values = match to {
            To::Nothing => {
                let change = writer.delete(key, seen, Some(&mut old)).await?;
                if change == Change::Done {
                    self.gone(&work.references, &old, &help.waiting).await?;
                }
                return Ok(change);
            }
            To::Values(values) => values,
        };
        let mut new = columns_of(child, row)?;
        for (column, value) in reference.foreign.columns.iter().zip(values) {
            new[*column] = value.as_ref();
        }
        let made = work.checks.generated(child, &new, writer.view())?;
        if let Some(made) = &made {
            new = made.iter().map(Datum::as_ref).collect();
        }
        writer.refuse(&new)?;
        let change = writer.update(key, seen, &new, Some(&mut old)).await?;
        if change == Change::Done {
            self.changed(&work.references, &old, &new, &help.waiting).await?;
        }
        Ok(change)
    }

    /// What the rows that refer to the key become.
    fn outcome(&self, act: &Act, help: &Help<'_>) -> Result<To, SqlError> {
        let reference = &act.reference;
        let foreign = &reference.foreign;
        let nulls = || To::Values(vec![Datum::Null; foreign.columns.len()]);
        Ok(match (self.action_of(act), &act.new) {
            (ReferentialAction::Cascade, None) => To::Nothing,
            (ReferentialAction::Cascade, Some(new)) => {
                let columns = foreign.columns.iter().zip(&reference.referenced);
                let values = columns.zip(new).map(|((&to, &from), value)| {
                    let (from, to) = (&reference.parent.columns[from].ty, &reference.child.columns[to].ty);
                    match convert(value.as_ref(), from, to) {
                        None if *value != Datum::Null => {
                            let name = crate::pg::types::column_type_name(to);
                            Err(SqlError::new("22003", format!("{name} out of range")))
                        }
                        Some(Datum::Text(text)) => Ok(Datum::Text(fit_text(&text, to, false)?.into())),
                        value => Ok(value.unwrap_or(Datum::Null)),
                    }
                });
                To::Values(values.collect::<Result<_, _>>()?)
            }
            (ReferentialAction::SetDefault, _) => To::Values(self.defaults(reference, help)?),
            _ => nulls(),
        })
    }

    /// The values of SET DEFAULT.
    fn defaults(&self, reference: &Reference, help: &Help<'_>) -> Result<Vec<Datum>, SqlError> {
        let child = &reference.child;
        let mut values = Vec::with_capacity(reference.foreign.columns.len());
        for column in &reference.foreign.columns {
            let column = &child.columns[*column];
            let Some(text) = &column.default_sql else {
                values.push(Datum::Null);
                continue;
            };
            let expr =
                TableExpr::plan(&help.names, child, &parse_expression(text)?, Place::Default(&column.name, column.ty))?;
            values.push(expr.assigned(&column.ty, &help.zone)?);
        }
        Ok(values)
    }
}
