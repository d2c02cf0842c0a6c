//! One row by its key, answered without a transaction and without a future: what clients ask for most.
//!
//! It is what [`Session::execute`] and [`Session::execute_simple`] would do, less what such a statement has no use for: it
//! waits for nothing, writes nothing, and asks nothing of its session but the zone. Whatever is out of the ordinary is left to
//! them, before anything was done.
//!
//! # Invariants
//! 1. The session reads committed rows, no transaction is open (one in which a statement was planned is, until its Sync), none
//!    has failed, and the statement was planned with the definitions of this moment.
//! 2. The transaction that PostgreSQL would have begun has begun for the clock ([`Session::begin_plainly`]): `now()` of a
//!    later statement before the same Sync is that of this one.
//!    No table is locked in ACCESS EXCLUSIVE by name, for which readers wait, and no notification waits for its commit.
//! 3. Whether its role may read the row is asked as for any other statement.
//! 4. A panic is an error of the statement, as everywhere.

use std::sync::Arc;
use std::time::Instant;

use datafusion::common::ScalarValue;
use resurgam_engine::RowBuf;

use crate::exec::direct::DirectSelect;
use crate::exec::panics;
use crate::pg::user_types;
use crate::plan::plans::RunBy;
use crate::plan::statement::{Kind, Prepared, Query};
use crate::session::portals::Portal;
use crate::session::{Session, SimpleStatement};
use crate::wire::{Execution, Format, RowChunk, SqlError, Tag};

/// What it is about, if it is one row by its key.
fn plain_point(prepared: &Prepared) -> Option<(&Query, &DirectSelect)> {
    let Kind::Query(query) = &prepared.kind else { return None };
    let select = query.direct.as_ref().filter(|select| select.is_plain_point())?;
    (query.direct_lock.is_none() && prepared.locks.is_empty() && prepared.once.plans.is_empty())
        .then_some((query, select))
}

/// Bytes of buffers that are kept for the next answer.
const KEPT_BYTES_MAX: usize = 8 << 10;

impl Session {
    /// The rows of an answer that was sent: their memory serves the next one.
    pub fn give_back(&mut self, mut chunk: RowChunk) {
        if chunk.bytes.capacity() <= KEPT_BYTES_MAX && chunk.ends.capacity() <= 64 {
            chunk.bytes.clear();
            chunk.ends.clear();
            self.chunk_unused = chunk;
        }
    }

    /// The same of the row that was read.
    pub(crate) fn keep_row(&mut self, row: RowBuf) {
        // Its memory is at most twice as much, or what was kept before.
        if row.raw().key.len() + row.raw().value.len() <= KEPT_BYTES_MAX {
            self.row_unused = row;
        }
    }

    fn may_answer_at_once(&self) -> bool {
        self.open.is_none()
            && !self.failed
            && !self.met
            && !self.hot().repeatable_read
            && !self.db.engine.is_any_table_closed()
            && !self.shared.has_pending()
    }

    /// As [`Session::execute`]; `None`: that has to do it.
    pub fn execute_at_once(&mut self, name: &str) -> Option<Result<Execution, SqlError>> {
        self.look_at_settings();
        if !self.may_answer_at_once() {
            return None;
        }
        let now = self.definitions_now();
        let fresh = |portal: &&mut Portal| !portal.done && !portal.failed && portal.planned_at == now;
        let portal = self.portals.get_mut(name).filter(fresh)?;
        plain_point(&portal.prepared)?;
        let prepared = Arc::clone(&portal.prepared);
        let (values, formats) = (std::mem::take(&mut portal.values), std::mem::take(&mut portal.formats));
        let answer = self.answer_at_once(&prepared, &values, &formats, false);
        // One that failed has taken it along.
        if let Some(portal) = self.portals.get_mut(name) {
            portal.formats = formats;
            match &answer {
                None => portal.values = values,
                Some(result) => (portal.done, portal.failed) = (true, result.is_err()),
            }
        }
        answer
    }

    /// As [`Session::execute_simple`] of a statement alone; `None`: that has to do it.
    pub fn execute_simple_at_once(&mut self, statement: &SimpleStatement) -> Option<Result<Execution, SqlError>> {
        let (prepared, literals) = statement.ready()?;
        plain_point(prepared)?;
        self.look_at_settings();
        if !self.may_answer_at_once() || !self.is_current(prepared) {
            return None;
        }
        // What is wrong with a literal is told by who tells it ever.
        let values = user_types::with(&self.type_source(), || self.values_of(prepared, literals)).ok()?;
        let prepared = Arc::clone(prepared);
        self.answer_at_once(&prepared, &values, &[], true)
    }

    fn answer_at_once(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[ScalarValue],
        formats: &[Format],
        ends: bool,
    ) -> Option<Result<Execution, SqlError>> {
        let (query, select) = plain_point(prepared)?;
        if query.plan.leaves_out(values) {
            return None;
        }
        self.in_string = false;
        self.first_run();
        let begun = Instant::now();
        let answered = user_types::with(&self.type_source(), || {
            panics::caught(|| {
                self.statement_begins(prepared);
                self.check_allowed(prepared)?;
                let found = self.select_plainly(select, values, formats)?;
                let Some((chunk, view)) = found else { return Ok(None) };
                if self.db.settings.planning.canary {
                    self.compare_with_plan((prepared, query, select.is_plain()), values, formats, view, &chunk)?;
                }
                Ok(Some(chunk))
            })
        });
        self.shared.stop.end();
        if !matches!(answered, Ok(Ok(None)))
            && let Some(counts) = &prepared.counts
        {
            let time = begun.elapsed();
            counts.ran(time);
            if let Ok(Ok(Some(chunk))) = &answered {
                self.count_call(prepared, time, &Tag::Count("SELECT", chunk.len() as u64));
            }
        }
        let chunk = match answered.and_then(|answered| answered) {
            Ok(chunk) => chunk?,
            Err(error) => {
                self.statement_failed();
                return Some(Err(error));
            }
        };
        query.plan.counts.run(RunBy::Direct);
        if ends {
            self.end_plainly();
        }
        let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
        let tag = Tag::Count("SELECT", chunk.len() as u64);
        Some(Ok(Execution::Rows { fields, first: Some(chunk), rows: None, tag }))
    }
}
