//! Results that are still being computed.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tokio::time::Instant;

use crate::exec::context::StopFlag;
use crate::exec::once::Once;
use crate::exec::weight;
use crate::pg::encode::{RowEncoder, TextStyle};
use crate::pg::errors;
use crate::pg::user_types;
use crate::plan::planner::Instance;
use crate::plan::statement::{Kind, Prepared};
use crate::session::database::{Reserved, SqlDatabase};
use crate::session::scroll::Scroll;
use crate::session::{Session, panics};
use crate::wire::{Format, RowChunk, SqlError, Tag};

use crate::exec::wait::guarded;

/// Rows that one chunk holds at most, and bytes after which it is handed out.
const CHUNK_ROWS: usize = 8192;
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes of rows that are encoded in one go at most, beside one row of more.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// Fewer bytes than that are not counted against the memory of queries.
const UNCOUNTED_BYTES: usize = 256 << 10;

/// The tag of a cursor's rows.
pub(crate) const FETCH: &str = "FETCH";

/// A running query with its encoder; lives in a portal between executions.
pub(crate) struct ActiveRows {
    stream: SendableRecordBatchStream,
    instance: Option<Instance>,
    /// WITH queries that it reads.
    once: Option<Arc<Once>>,
    prepared: Arc<Prepared>,
    encoder: RowEncoder,
    pending: Option<Rest>,
    stop: Arc<StopFlag>,
    deadline: Option<Instant>,
    unsent: Unsent,
}

/// What the memory of queries has given for rows that are computed and not sent yet: a client may take its time to read them.
#[derive(Default)]
pub(crate) struct Unsent(Option<Reserved>);

impl Unsent {
    /// Counts what is kept now in the place of what was before: the rest of a batch, and rows that are encoded.
    ///
    /// # Errors
    /// `53200`
    pub(crate) fn count(
        &mut self,
        database: &SqlDatabase,
        rest: Option<&Rest>,
        encoded: usize,
    ) -> Result<(), SqlError> {
        self.0 = None;
        let bytes = rest.map_or(0, |rest| rest.bytes) + encoded;
        if bytes > UNCOUNTED_BYTES {
            self.0 = Some(database.reserve("rows that a client has not read", bytes)?);
        }
        Ok(())
    }
}

/// A batch whose first rows are encoded.
pub(crate) struct Rest {
    pub batch: RecordBatch,
    pub from: usize,
    /// Of the whole batch.
    bytes: usize,
}

impl Rest {
    /// A batch of which nothing is encoded.
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self { bytes: 0, from: 0, batch }
    }

    /// What is left when so many more rows are encoded; nothing at its end.
    pub(crate) fn after(mut self, rows: usize) -> Option<Self> {
        self.from += rows;
        if self.from >= self.batch.num_rows() {
            return None;
        }
        if self.bytes == 0 {
            self.bytes = weight::kept(&self.batch);
        }
        Some(self)
    }
}

impl ActiveRows {
    #[allow(clippy::too_many_arguments)] // what a running query has
    pub(crate) fn new(
        stream: SendableRecordBatchStream,
        instance: Instance,
        once: Option<Arc<Once>>,
        prepared: Arc<Prepared>,
        schema: &Schema,
        formats: &[Format],
        style: &TextStyle,
        stop: Arc<StopFlag>,
        deadline: Option<Instant>,
    ) -> Result<Self, SqlError> {
        let encoder = RowEncoder::new(schema.fields(), formats, style)?;
        Ok(Self {
            stream,
            instance: Some(instance),
            once,
            prepared,
            encoder,
            pending: None,
            stop,
            deadline,
            unsent: Unsent::default(),
        })
    }

    /// What the plan gives next; none at its end.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        let text = &self.prepared.text;
        let next = async {
            match self.stream.next().await {
                Some(Ok(batch)) => Ok(Some(batch)),
                Some(Err(error)) => Err(errors::from_datafusion(error, text)),
                None => Ok(None),
            }
        };
        guarded(&self.stop, self.deadline, next).await
    }

    /// The values of its first row.
    pub(crate) async fn one_row(&mut self) -> Result<Option<Vec<ScalarValue>>, SqlError> {
        while let Some(batch) = self.next_batch().await? {
            if batch.num_rows() > 0 {
                let values = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, 0));
                let values = values.collect::<Result<_, _>>();
                return values.map(Some).map_err(|error| errors::from_datafusion(error, &self.prepared.text));
            }
        }
        Ok(None)
    }

    /// Appends up to `max` rows to `chunk`; false at the end of the result.
    pub(crate) async fn fill(
        &mut self,
        database: &SqlDatabase,
        chunk: &mut RowChunk,
        max: usize,
    ) -> Result<bool, SqlError> {
        let more = self.fill_chunk(chunk, max).await?;
        self.unsent.count(database, self.pending.as_ref(), chunk.bytes.len())?;
        Ok(more)
    }

    async fn fill_chunk(&mut self, chunk: &mut RowChunk, max: usize) -> Result<bool, SqlError> {
        let max = max.min(CHUNK_ROWS);
        while chunk.len() < max && chunk.bytes.len() < CHUNK_BYTES {
            let rest = match self.pending.take() {
                Some(rest) => rest,
                None => match self.next_batch().await? {
                    Some(batch) => Rest::new(batch),
                    None => return Ok(false),
                },
            };
            let take = weight::fitting(&rest.batch, rest.from, max - chunk.len(), STEP_BYTES);
            self.encoder.encode(&rest.batch, rest.from..rest.from + take, chunk)?;
            self.pending = rest.after(take);
        }
        Ok(true)
    }

    /// Its next rows are encoded in these formats, and computed until then.
    ///
    /// # Errors
    /// `08P01` for a wrong number of formats.
    pub(crate) fn shown(
        &mut self,
        formats: &[Format],
        style: &TextStyle,
        deadline: Option<Instant>,
    ) -> Result<(), SqlError> {
        let schema = self.stream.schema();
        self.encoder = RowEncoder::new(schema.fields(), formats, style)?;
        self.deadline = deadline;
        Ok(())
    }

    /// Rows that were computed before, of the statement that is prepared.
    ///
    /// # Errors
    /// `08P01` for a wrong number of formats.
    pub(crate) fn of_kept(
        stream: SendableRecordBatchStream,
        prepared: Arc<Prepared>,
        formats: &[Format],
        style: &TextStyle,
        stop: Arc<StopFlag>,
        deadline: Option<Instant>,
    ) -> Result<Self, SqlError> {
        let encoder = RowEncoder::new(stream.schema().fields(), formats, style)?;
        let (pending, unsent) = (None, Unsent::default());
        Ok(Self { stream, instance: None, once: None, prepared, encoder, pending, stop, deadline, unsent })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// Computes rows until so many are kept; false at the end of the result.
    ///
    /// # Errors
    /// The query's, and those of keeping rows.
    pub(crate) async fn keep(&mut self, kept: &mut Scroll, rows: u64) -> Result<bool, SqlError> {
        while kept.rows() < rows {
            match self.next_batch().await? {
                Some(batch) => kept.push(batch)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The result was read to its end: the plan can serve again.
    pub(crate) fn finish(mut self) {
        let (instance, once) = (self.instance.take(), self.once.take());
        let prepared = Arc::clone(&self.prepared);
        drop(self);
        if let Some(once) = once {
            once.end(&prepared.once);
        }
        if let (Some(instance), Kind::Query(query)) = (instance, &prepared.kind) {
            query.plan.give_back(instance);
        }
    }
}

/// The rest of a result; see [`crate::wire::Execution::Rows`].
pub struct RowStream {
    pub(crate) active: Option<ActiveRows>,
    /// Portal to which the rest goes back when the row limit is reached.
    pub(crate) portal: Option<String>,
    /// Rows that may still be handed out.
    pub(crate) left: usize,
    pub(crate) count: u64,
    pub(crate) suspended: bool,
    /// The statement is a transaction of its own.
    pub(crate) autocommit: bool,
    /// Of the tag: `SELECT`, or `FETCH` for a cursor, which is not suspended but done for now.
    pub(crate) verb: &'static str,
}

impl RowStream {
    /// The next rows; `None` at the end, or when the row limit is reached.
    ///
    /// # Errors
    /// The statement's; its transaction has then failed.
    pub async fn next(&mut self, session: &mut Session) -> Result<Option<RowChunk>, SqlError> {
        let Some(active) = &mut self.active else { return Ok(None) };
        if self.left == 0 {
            let active = self.active.take();
            if let (Some(name), Some(active)) = (&self.portal, active) {
                session.suspend(name, active);
                session.advance(name, self.count, false);
            }
            match self.verb {
                FETCH => session.statement_done(self.autocommit).await?,
                _ => self.suspended = true,
            }
            return Ok(None);
        }
        let mut chunk = RowChunk::default();
        let (begun, counts) = (std::time::Instant::now(), active.prepared.counts.clone());
        let types = session.type_source();
        let filled = user_types::scope(types, panics::caught_in(active.fill(&session.db, &mut chunk, self.left))).await;
        if let Some(counts) = counts {
            counts.ran(begun.elapsed());
        }
        let more = match filled {
            Ok(more) => more,
            Err(error) => {
                self.active = None;
                if let Some(name) = &self.portal {
                    session.portal_failed(name);
                }
                session.statement_failed();
                return Err(error);
            }
        };
        self.left -= chunk.len();
        self.count += chunk.len() as u64;
        if !more {
            if let Some(active) = self.active.take() {
                active.finish();
            }
            if let Some(name) = &self.portal {
                session.advance(name, self.count, true);
            }
            session.statement_done(self.autocommit).await?;
        }
        if chunk.is_empty() && !more { Ok(None) } else { Ok(Some(chunk)) }
    }

    /// Whether the end of [`Self::next`] was the row limit, not the end of the result.
    pub fn suspended(&self) -> bool {
        self.suspended
    }

    /// The command tag, with the rows handed out by this execution.
    pub fn tag(&self) -> Tag {
        Tag::Count(self.verb, self.count)
    }
}
