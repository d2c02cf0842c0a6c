//! The canary of direct execution: where the canary of kept plans is wanted (`plan/canary.rs`), the rows that a SELECT gives
//! directly are compared with those of a plan that is made for its values alone, in the same view. A difference is `XX000`.
//!
//! Not compared is what may differ from run to run (as there), the order of rows, and what the plan has an error for.

use std::sync::{Arc, Weak};

use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::execution::session_state::SessionState;
use resurgam_engine::ReadView;
use tokio::time::Instant;

use crate::exec::apply;
use crate::exec::context::{StatementContext, StopFlag, task_context};
use crate::pg::encode::TextStyle;
use crate::pg::types::oid;
use crate::pg::user_types;
use crate::plan::canary::{self, Fresh};
use crate::plan::statement::{Prepared, Query};
use crate::session::Session;
use crate::session::database::SqlDatabase;
use crate::session::stream::ActiveRows;
use crate::wire::{Format, RowChunk, SqlError};

/// Rows of a result that is compared, at most: direct execution gives fewer.
const ROWS_MAX: usize = 20_000;

/// What the rows of a plan take.
struct Run<'a> {
    db: &'a SqlDatabase,
    state: Arc<SessionState>,
    prepared: &'a Arc<Prepared>,
    query: &'a Query,
    values: &'a [ScalarValue],
    formats: &'a [Format],
    view: ReadView,
    style: TextStyle,
    stop: Arc<StopFlag>,
    deadline: Option<Instant>,
}

impl Run<'_> {
    /// The rows, and whether only their number says anything; `None` if they say nothing.
    async fn rows(self) -> DfResult<Option<(RowChunk, bool)>> {
        let Some(Fresh { instance, is_limited }) = self.query.plan.fresh(&self.state, self.values).await else {
            return Ok(None);
        };
        let Self { stop, deadline, formats, .. } = self;
        let context = StatementContext {
            view: self.view,
            stop: Arc::clone(&stop),
            target: None,
            locked: None,
            once: Weak::new(),
        };
        let stream = instance.start(task_context(&self.state, Arc::new(context)))?;
        let prepared = Arc::clone(self.prepared);
        let schema = &self.query.schema;
        let begun = ActiveRows::new(stream, instance, None, prepared, schema, formats, &self.style, stop, deadline);
        let Ok(mut active) = begun else { return Ok(None) };
        let mut rows = RowChunk::default();
        while rows.len() <= ROWS_MAX {
            let mut more = RowChunk::default();
            let Ok(goes_on) = active.fill(self.db, &mut more, usize::MAX).await else { return Ok(None) };
            for row in more.rows() {
                rows.bytes.extend_from_slice(row);
                rows.ends.push(rows.bytes.len() as u32);
            }
            if !goes_on {
                return Ok(Some((rows, is_limited)));
            }
        }
        Ok(None)
    }
}

impl Session {
    /// Compares `chunk`, which a SELECT has given directly out of `view`, with what a plan gives. `is_plain`: each row that it
    /// reads gives one.
    ///
    /// # Errors
    /// `XX000` for a difference.
    #[cold]
    pub(crate) fn compare_with_plan(
        &mut self,
        (prepared, query, is_plain): (&Arc<Prepared>, &Query, bool),
        values: &[ScalarValue],
        formats: &[Format],
        view: ReadView,
        chunk: &RowChunk,
    ) -> Result<(), SqlError> {
        let state = self.state()?;
        let (style, deadline) = (self.style(), self.deadline());
        let stop = Arc::clone(&self.shared.stop);
        let db = Arc::clone(&self.db);
        let run = Run { db: &db, state, prepared, query, values, formats, view, style, stop, deadline };
        let found = apply::wait(user_types::scope(self.type_source(), run.rows()));
        let Ok(Some((fresh, is_limited))) = found else { return Ok(()) };
        canary::compared();
        // Sums of floats are as exact as the order that they come in.
        let is_float = |ty: &u32| matches!(*ty, oid::FLOAT4 | oid::FLOAT8);
        let floats = prepared.fields.iter().flat_map(|fields| fields.iter()).any(|field| is_float(&field.type_oid));
        let is_counted = is_limited || (floats && !is_plain);
        let sorted = |chunk: &RowChunk| {
            let mut rows: Vec<Vec<u8>> = chunk.rows().map(<[u8]>::to_vec).collect();
            rows.sort_unstable();
            rows
        };
        if chunk.len() == fresh.len() && (is_counted || sorted(chunk) == sorted(&fresh)) {
            return Ok(());
        }
        let shown = |chunk: &RowChunk| {
            let rows = sorted(chunk);
            rows.iter().take(20).map(|row| row.escape_ascii().to_string()).collect::<Vec<_>>().join(" / ")
        };
        let message = format!(
            "direct execution gives other rows than a fresh plan, for {values:?}: {} rows, {} | {} rows, {}",
            chunk.len(),
            shown(chunk),
            fresh.len(),
            shown(&fresh)
        );
        tracing::error!("{message}");
        Err(SqlError::internal(message))
    }
}

#[cfg(test)]
mod tests {
    use resurgam_engine::{Database, Options};

    use super::*;
    use crate::exec::planning::Planning;
    use crate::plan::statement::Kind;
    use crate::session::database::SessionOptions;
    use crate::session::settings::SqlSettings;

    /// Rows that are not the plan's are found; the right ones are not.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn other_rows_are_found() {
        let dir = tempfile::tempdir().expect("folder");
        let engine = Database::open(dir.path().join("db"), Options::default()).expect("open");
        let planning = Planning { canary: true, ..Planning::default() };
        let db = SqlDatabase::new(engine, SqlSettings { planning, ..SqlSettings::default() });
        let mut session = db.session(SessionOptions::default()).expect("session");
        for text in ["CREATE TABLE t (a int PRIMARY KEY, b int)", "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)"] {
            session.query(text).await.expect(text);
        }
        let before = canary::plans_compared();
        for text in ["SELECT b FROM t WHERE a = 2", "SELECT b FROM t WHERE a BETWEEN 1 AND 2 ORDER BY b DESC"] {
            session.query(text).await.expect(text);
        }
        assert!(canary::plans_compared() >= before + 2);
        let prepared = session.prepare_text("SELECT b FROM t WHERE a >= $1 AND a < 10", &[]).expect("planned");
        session.sync().await.expect("sync");
        let Kind::Query(query) = &prepared.kind else { panic!("no query") };
        let select = query.direct.as_ref().expect("direct");
        let mut rows = async |of: i32, compared_as: i32| {
            let given = [ScalarValue::Int32(Some(of))];
            let (chunk, view) =
                session.select_directly(select, &given, &[], 0, &mut Default::default())?.expect("few rows");
            let values = [ScalarValue::Int32(Some(compared_as))];
            session.compare_with_plan((&prepared, query, select.is_plain()), &values, &[], view, &chunk)
        };
        rows(2, 2).await.expect("the plan's rows");
        let error = rows(2, 1).await.expect_err("others");
        assert!(error.sqlstate == "XX000" && error.message.contains("direct execution"), "{error}");
    }
}
