//! One row by its full key, locked directly: `SELECT … WHERE key = … FOR UPDATE`.
//!
//! Contract: as by a plan (`run.rs`): the row is looked up, locked, judged
//! anew if it has changed, and sent from the engine's encoding.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, SetExpr, Value};
use resurgam_engine::{Change, ReadView, RowBuf, Seen, StatementKind};

use crate::dml::locking::run::RowLock;
use crate::dml::{Fate, RowWork, settle_row};
use crate::exec::direct::{DirectSelect, Input, Located, Row, Rows, Values};
use crate::exec::wait::{Waiting, guarded, settle};
use crate::plan::analyze;
use crate::plan::locking::{Taking, is_locking};
use crate::plan::planner::{LeavingOut, Names, QueryPlan};
use crate::plan::statement::ParamTypes;
use crate::session::Session;
use crate::wire::{Format, RowChunk, SqlError};

/// A SELECT of one row by its key, which locks it.
#[derive(Debug)]
pub(crate) struct DirectLock {
    pub select: DirectSelect,
    taking: Taking,
    leaving_out: LeavingOut,
}

impl DirectLock {
    /// The direct way of a query with a locking clause whose plan was accepted, if it has one.
    pub(crate) fn new(names: &Names<'_>, query: &Query, params: &ParamTypes) -> Option<Self> {
        let [clause] = query.locks.as_slice() else { return None };
        let taking = Taking::of(clause);
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let [from] = select.from.as_slice() else { return None };
        // One row at most comes anyway.
        let limit_is_idle = match &query.limit_clause {
            None => true,
            Some(LimitClause::LimitOffset { limit: Some(Expr::Value(value)), offset: None, .. }) => {
                matches!(&value.value, Value::Number(number, _) if number.parse::<u64>().is_ok_and(|n| n > 0))
            }
            Some(_) => false,
        };
        if !from.joins.is_empty() || query.with.is_some() || !limit_is_idle {
            return None;
        }
        let mut plain = query.clone();
        plain.locks.clear();
        plain.limit_clause = None;
        if is_locking(&plain) {
            return None;
        }
        let mut params = params.clone();
        let analyzed = analyze::query(names, &plain, "", &mut params).ok()?;
        let plan = QueryPlan::analyzed(names.state, analyzed, params.data_types()).ok()?;
        let select =
            DirectSelect::new(names.state, &plan).filter(|select| select.is_plain() && select.rows.path.is_one())?;
        Some(Self { select, taking, leaving_out: plan.leaving_out })
    }
}

impl Session {
    /// The locked row; `None`: left to the plan.
    pub(crate) async fn lock_directly(
        &mut self,
        lock: &DirectLock,
        params: &[ScalarValue],
        formats: &[Format],
    ) -> Result<Option<RowChunk>, SqlError> {
        let DirectSelect { rows, output, .. } = &lock.select;
        if !output.accepts(formats) {
            return Ok(None); // told by the encoder of planned rows
        }
        if lock.leaving_out.is_by(params) {
            return Ok(None); // what is not to be computed is computed here
        }
        let key = match rows.locate(params)? {
            Some(Located::One(key)) => Some(key),
            Some(Located::Ranges(ranges)) if ranges.is_empty() => None,
            _ => return Ok(None),
        };
        self.refuse_if_read_only("SELECT FOR UPDATE")?;
        let (deadline, stop) = (self.deadline(), Arc::clone(&self.shared.stop));
        let lock_timeout = self.shared.variables.lock().lock_timeout;
        let style = self.style();
        let open = self.transaction();
        open.used = true;
        let txn = open.txn.clone();
        let work = async {
            let mut chunk = output.chunk();
            let waiting = Waiting { stop: &stop, lock_timeout };
            let table = &rows.table;
            let view = txn.statement(StatementKind::PointWrite)?;
            let Some(key) = key else { return Ok(chunk) };
            settle(&waiting, || txn.lock_rows(table)).await?;
            let mut row = RowBuf::default();
            if !rows.one(&view, &key, params, &mut row)? {
                return Ok(chunk);
            }
            let at = row.raw().key.to_vec();
            let lock = RowLock { txn: &txn, table, waiting: &waiting, taking: lock.taking };
            let mut work = Locking { lock, rows, params, view: &view, row };
            match settle_row(&txn, table, &at, &mut work).await? {
                Fate::Left => {}
                Fate::Done | Fate::DoneNewer | Fate::Own => {
                    let row = Row { table, values: Values::Stored(work.row.raw()), view: &view };
                    output.append(Input { params, row: Some(row) }, formats, &style, &mut chunk)?;
                }
            }
            Ok(chunk)
        };
        guarded(&stop, deadline, work).await.map(Some)
    }
}

/// A row that is judged on its datums.
struct Locking<'a> {
    lock: RowLock<'a>,
    rows: &'a Rows,
    params: &'a [ScalarValue],
    view: &'a ReadView,
    /// As it was judged last.
    row: RowBuf,
}

impl RowWork for Locking<'_> {
    async fn attempt(&mut self, key: &[u8], seen: Seen) -> Result<Option<Change>, SqlError> {
        self.lock.attempt(key, seen).await
    }
    async fn judge(&mut self, newest: &RowBuf) -> Result<bool, SqlError> {
        self.row.set(newest.raw());
        self.rows.qualifies(newest.raw(), self.params, self.view)
    }
}
