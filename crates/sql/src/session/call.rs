//! Runs calls of functions that stand alone in their statement ([`crate::plan::call`]).

use bytes::BufMut;
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;

use crate::plan::call::CallPlan;
use crate::plan::statement::{Kind, Prepared};
use crate::session::Session;
use crate::wire::{Execution, Format, RowChunk, SqlError, Tag};

use std::sync::Arc;

use resurgam_engine::StatementKind;

impl Session {
    /// Runs one: a future of its own, since statements of bodies are run as others are.
    pub(crate) fn run_call<'a>(
        &'a mut self,
        call: &'a CallPlan,
        values: &'a [ScalarValue],
        formats: &'a [Format],
        autocommit: bool,
    ) -> BoxFuture<'a, Result<Execution, SqlError>> {
        Box::pin(async move {
            self.note_undo(true)?;
            self.keep_undo(true);
            let chunk = self.rows_of_call(call, values, formats).await;
            self.keep_undo(false);
            let chunk = chunk?;
            self.statement_done(autocommit).await?;
            let tag = Tag::Count("SELECT", chunk.len() as u64);
            Ok(Execution::Rows { fields: Arc::clone(&call.fields), first: Some(chunk), rows: None, tag })
        })
    }

    async fn rows_of_call(
        &mut self,
        call: &CallPlan,
        values: &[ScalarValue],
        formats: &[Format],
    ) -> Result<RowChunk, SqlError> {
        let of = &call.function.definition;
        let args = match &call.args {
            Some(args) => self.one_row(args, values).await?,
            None => Vec::new(),
        };
        let width = call.fields.len();
        let mut result = RowChunk { fields: width as i16, ..RowChunk::default() };
        if !(of.strict && args.iter().any(ScalarValue::is_null)) {
            for (at, statement) in call.statements.iter().enumerate() {
                let is_result = at + 1 == call.statements.len() && !call.is_void();
                let formats = if is_result { formats } else { &[] };
                let execution = self.run_uncounted(statement, &args, formats, 0, None, false).await?;
                let rows = self.all_rows(execution, is_result).await?;
                if is_result {
                    result = rows;
                }
            }
        }
        if !of.returns_set {
            // The first row, or NULL.
            match result.ends.first() {
                Some(end) => {
                    let end = *end;
                    result.ends.truncate(1);
                    result.bytes.truncate(end as usize);
                }
                None => {
                    for _ in 0..width {
                        result.bytes.put_i32(-1);
                    }
                    result.ends.push(result.bytes.len() as u32);
                }
            }
        }
        Ok(result)
    }

    /// Everything that a statement of a body gives, which is kept if it is the result.
    pub(crate) async fn all_rows(&mut self, execution: Execution, keep: bool) -> Result<RowChunk, SqlError> {
        let Execution::Rows { first, rows, .. } = execution else { return Ok(RowChunk::default()) };
        let mut all = first.unwrap_or_default();
        let Some(mut rows) = rows else { return Ok(all) };
        let mut reserved = None;
        while let Some(next) = rows.next(self).await? {
            if !keep {
                continue;
            }
            let before = all.bytes.len();
            let bytes = before + next.bytes.len();
            drop(reserved.take());
            reserved = Some(self.db.reserve("rows of a function", bytes)?);
            let (Ok(before), Ok(_)) = (u32::try_from(before), u32::try_from(bytes)) else {
                return Err(SqlError::new("53200", "the rows of a function take too much memory"));
            };
            all.bytes.extend_from_slice(&next.bytes);
            all.ends.extend(next.ends.iter().map(|end| before + end));
        }
        Ok(all)
    }

    /// The values of a query of one row.
    async fn one_row(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[ScalarValue],
    ) -> Result<Vec<ScalarValue>, SqlError> {
        let Kind::Query(query) = &prepared.kind else { return Err(SqlError::internal("arguments of no query")) };
        self.check_allowed(prepared)?;
        let beside = Default::default();
        let mut active = self.start_plan(prepared, query, beside, values, &[], StatementKind::Read).await?;
        let row = active.one_row().await?;
        active.finish();
        row.ok_or_else(|| SqlError::internal("arguments without a row"))
    }
}
