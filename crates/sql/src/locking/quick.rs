//! One row by its full key, locked: the short path of `SELECT … WHERE key = … FOR UPDATE`.
//!
//! Contract: as the general path (`run.rs`), without plans: the row is looked up, locked, judged
//! anew if it has changed, and sent from the engine's encoding.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, SetExpr, Value};
use resurgam_engine::{Change, RowBuf, Seen, StatementKind};

use super::clause::{Policy, policy};
use super::is_locking;
use super::run::attempt;
use crate::fast::{Fast, Key, has_index_key};
use crate::naming;
use crate::planner::{Names, QueryPlan};
use crate::session::Session;
use crate::statement::ParamTypes;
use crate::stream::guarded;
use crate::wait::{Waiting, settle};
use crate::wire::{Format, RowChunk, SqlError};

/// A SELECT of one row by its key, which locks it.
#[derive(Debug)]
pub(crate) struct FastLock {
    fast: Fast,
    policy: Policy,
}

impl FastLock {
    /// The short path of a query with a locking clause whose plan was accepted, if it has one.
    pub(crate) fn new(names: &Names<'_>, query: &Query, params: &ParamTypes) -> Option<Self> {
        let [clause] = query.locks.as_slice() else { return None };
        let policy = policy(clause);
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
        let mut plain = Box::new(query.clone());
        plain.locks.clear();
        plain.limit_clause = None;
        if is_locking(&*plain) {
            return None;
        }
        naming::name_columns(&mut plain);
        let logical = names.query(*plain, &params.known, None).ok()?;
        let plan = QueryPlan::new(names.state, logical, params.data_types()).ok()?;
        Some(Self { fast: Fast::select(names.state, &plan)?, policy })
    }
}

impl Session {
    /// The locked row; `None` if the general path has to do it.
    pub(crate) async fn fast_lock(
        &mut self,
        lock: &FastLock,
        params: &[ScalarValue],
        formats: &[Format],
    ) -> Result<Option<RowChunk>, SqlError> {
        let fast = &lock.fast;
        let lookup = &fast.lookup;
        let key = match lookup.key(params)? {
            Key::Bytes(key) => Some(key),
            Key::None => None,
            Key::Unknown => return Ok(None),
        };
        if !fast.output.accepts(formats) {
            return Ok(None); // told by the general path
        }
        self.refuse_if_read_only("SELECT FOR UPDATE")?;
        let (deadline, stop) = (self.deadline(), Arc::clone(&self.shared.stop));
        let (lock_timeout, zone) = {
            let variables = self.shared.variables.lock();
            (variables.lock_timeout, variables.zone)
        };
        let open = self.transaction();
        open.used = true;
        let txn = open.txn.clone();
        let work = async {
            let mut chunk = fast.output.chunk();
            let waiting = Waiting { stop: &stop, lock_timeout };
            let table = &lookup.table;
            let view = txn.statement(StatementKind::PointWrite)?;
            let mut row = RowBuf::default();
            let Some(key) = key else { return Ok(chunk) };
            settle(&waiting, || txn.lock_rows(table)).await?;
            if !lookup.read(&view, &key, &mut row)? {
                return Ok(chunk);
            }
            let mut seen = Seen::Snapshot;
            let mut newer = RowBuf::default();
            loop {
                if !lookup.qualifies(params, &row, &view)? {
                    return Ok(chunk);
                }
                match attempt(&txn, &waiting, table, row.raw().key, seen, lock.policy).await? {
                    Some(Change::Done | Change::SelfModified) => {
                        fast.append(params, &row, &view, formats, &zone, &mut chunk)?;
                        return Ok(chunk);
                    }
                    None => return Ok(chunk),
                    Some(change @ (Change::Changed | Change::Gone)) => {
                        let changed = change == Change::Changed;
                        let newest = if changed { txn.latest(table, row.raw().key, &mut newer)? } else { None };
                        match newest {
                            Some(version) if has_index_key(lookup, &key, &newer)? => {
                                seen = version;
                                std::mem::swap(&mut row, &mut newer);
                            }
                            // Not seen by the snapshot: it will be said to have changed.
                            _ if lookup.read_newest(&view, &key, &mut row)? => seen = Seen::Snapshot,
                            _ => return Ok(chunk),
                        }
                    }
                }
            }
        };
        guarded(&stop, deadline, work).await.map(Some)
    }
}
