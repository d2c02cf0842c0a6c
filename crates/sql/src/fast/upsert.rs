//! INSERT … ON CONFLICT of one row.
//!
//! The steps are those of the general path (`WriteRun::upsert`): the newest row that stands in the
//! way is found, whatever the statement's snapshot sees, and changed if it is still the newest then;
//! otherwise everything begins again.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use resurgam_engine::{Change, Datum, DatumRef, StatementKind, Table, Transaction};

use super::expr::{FastExpr, Input, Row, Values};
use super::run::{New, assigned, named};
use crate::dml::{Conflict, conflicting};
use crate::pg::datetime::Zone;
use crate::pg::errors;
use crate::wait::{Waiting, settle};
use crate::wire::SqlError;

/// What is done about a conflict.
#[derive(Debug)]
pub(crate) enum Resolution {
    Nothing,
    /// New values of the existing row, over it and the proposed one.
    Update {
        set: Vec<(usize, FastExpr)>,
        condition: Option<FastExpr>,
    },
}

/// What was done with a row.
pub(super) enum Upserted {
    Inserted,
    Updated(Vec<Datum>),
    Nothing,
}

impl Resolution {
    /// DO UPDATE with expressions over `joined`: the table's columns, and then the proposed row's.
    pub(crate) fn update(set: &[(usize, Expr)], condition: Option<&Expr>, joined: &DFSchema) -> Option<Self> {
        let position = |column: &Column| joined.maybe_index_of_column(column);
        let expr = |expr: &Expr| FastExpr::over(expr, &position, joined);
        let set = set.iter().map(|(column, value)| Some((*column, expr(value)?))).collect::<Option<_>>()?;
        let condition = match condition {
            Some(condition) => Some(expr(condition)?),
            None => None,
        };
        Some(Self::Update { set, condition })
    }
}

/// Inserts `row`, or does what `resolution` says about the row in its way.
pub(super) async fn upsert(
    table: &Arc<Table>,
    conflict: &Conflict,
    resolution: &Resolution,
    row: &[DatumRef<'_>],
    params: &[ScalarValue],
    txn: &Transaction,
    waiting: &Waiting<'_>,
    zone: &Zone,
) -> Result<Upserted, SqlError> {
    let failed = |error| errors::from_datafusion(error, "");
    // The newest rows are of the newest definition.
    settle(waiting, || txn.lock_rows(table)).await?;
    loop {
        if let Some((key, existing, seen)) = conflicting(txn, table, conflict, row).map_err(failed)? {
            let Resolution::Update { set, condition } = resolution else { return Ok(Upserted::Nothing) };
            let view = txn.statement(StatementKind::PointWrite)?;
            let values = Values::Both(existing.raw(), row);
            let input = Input { params, row: Some(Row { table, values, view: &view }) };
            if let Some(condition) = condition
                && !condition.holds(input)?
            {
                return Ok(Upserted::Nothing);
            }
            let mut new = Vec::with_capacity(table.columns.len());
            for column in 0..table.columns.len() {
                new.push(New::Kept(table.column(existing.raw(), column)?));
            }
            for (column, expr) in set {
                new[*column] = New::Given(assigned(expr, input, &table.columns[*column], zone)?);
            }
            let refs: Vec<DatumRef<'_>> = new.iter().map(New::datum).collect();
            let change = settle(waiting, || txn.update(table, &key, seen, &refs))
                .await
                .map_err(|error| named(error, table, &refs))?;
            match change {
                Change::Done => return Ok(Upserted::Updated(refs.iter().map(DatumRef::to_owned).collect())),
                Change::SelfModified => return Err(SqlError::internal("a row was written twice by one statement")),
                Change::Changed | Change::Gone => continue,
            }
        }
        match settle(waiting, || txn.insert(table, row)).await {
            Ok(()) => return Ok(Upserted::Inserted),
            // Someone was faster, or another constraint is in the way.
            Err(error)
                if error.sqlstate == "23505" && conflicting(txn, table, conflict, row).map_err(failed)?.is_some() => {}
            Err(error) => return Err(named(error, table, row)),
        }
    }
}
