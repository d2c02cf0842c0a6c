//! Results that are still being computed.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, BinaryViewArray, RecordBatch};
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use resurgam_engine::ReadView;
use tokio::time::Instant;

use crate::exec::context::StopFlag;
use crate::exec::once::Once;
use crate::exec::{panics, weight};
use crate::pg::encode::{RowEncoder, TextStyle};
use crate::pg::{errors, user_types};
use crate::plan::planner::Instance;
use crate::plan::statement::{Kind, Prepared};
use crate::plan::tally::{Call, Tally};
use crate::session::Session;
use crate::session::database::{Reserved, SqlDatabase};
use crate::session::scroll::Scroll;
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
    /// Columns that are shown. Those behind them are keys of the rows' tables.
    width: usize,
    /// The keys of the row that was given last.
    last: Vec<Option<Vec<u8>>>,
    /// What they are read by.
    view: Option<ReadView>,
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
            width: schema.fields().len(),
            last: Vec::new(),
            view: None,
        })
    }

    /// Its rows are read by that, and have keys of tables' rows.
    pub(crate) fn keyed(mut self, view: ReadView) -> Self {
        self.view = Some(view);
        self
    }

    /// What rows with keys are read by.
    pub(crate) fn view(&self) -> Option<ReadView> {
        self.view.clone()
    }

    /// The key of the row that was given last, in the table of that number.
    pub(crate) fn key_of_last(&self, number: usize) -> Option<Vec<u8>> {
        self.last.get(number).cloned().flatten()
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
            let rows = rest.from..rest.from + take;
            match self.view {
                Some(_) => {
                    if !rows.is_empty() {
                        self.last = keys(&rest.batch, self.width, rows.end - 1);
                    }
                    self.encoder.encode(&shown(&rest.batch, self.width)?, rows, chunk)?;
                }
                None => self.encoder.encode(&rest.batch, rows, chunk)?,
            }
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
        self.encoder = RowEncoder::new(&first_fields(&self.stream.schema(), self.width), formats, style)?;
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
        let schema = stream.schema();
        let width = match &prepared.kind {
            Kind::Query(query) => query.schema.fields().len(),
            _ => schema.fields().len(),
        };
        let encoder = RowEncoder::new(&first_fields(&schema, width), formats, style)?;
        let (pending, unsent, last, view) = (None, Unsent::default(), Vec::new(), None);
        let stream = match width < schema.fields().len() {
            true => without_keys(stream, width)?,
            false => stream,
        };
        Ok(Self {
            stream,
            instance: None,
            once: None,
            prepared,
            encoder,
            pending,
            stop,
            deadline,
            unsent,
            width,
            last,
            view,
        })
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

    /// Computes so many rows and keeps what is shown of them, if they are wanted. Gives the number of rows that came, and false
    /// at the end of the result.
    ///
    /// # Errors
    /// As [`ActiveRows::keep`].
    pub(crate) async fn keep_next(
        &mut self,
        mut kept: Option<&mut Scroll>,
        rows: u64,
    ) -> Result<(u64, bool), SqlError> {
        let mut count = 0;
        while count < rows {
            let rest = match self.pending.take() {
                Some(rest) => rest,
                None => match self.next_batch().await? {
                    Some(batch) => Rest::new(batch),
                    None => return Ok((count, false)),
                },
            };
            let there = rest.batch.num_rows() - rest.from;
            let take = usize::try_from(rows - count).map_or(there, |wanted| there.min(wanted));
            if take > 0 {
                if self.view.is_some() {
                    self.last = keys(&rest.batch, self.width, rest.from + take - 1);
                }
                if let Some(kept) = &mut kept {
                    kept.push(shown(&rest.batch.slice(rest.from, take), self.width)?)?;
                }
            }
            count += take as u64;
            self.pending = rest.after(take);
        }
        Ok((count, true))
    }

    /// What is shown of its rows.
    pub(crate) fn shown_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(first_fields(&self.stream.schema(), self.width)))
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

fn first_fields(schema: &Schema, width: usize) -> Fields {
    schema.fields().iter().take(width).cloned().collect()
}

/// A batch without the keys behind its columns.
fn shown(batch: &RecordBatch, width: usize) -> Result<RecordBatch, SqlError> {
    if batch.num_columns() == width {
        return Ok(batch.clone());
    }
    let columns: Vec<usize> = (0..width).collect();
    batch.project(&columns).map_err(|error| errors::from_arrow(&error))
}

/// The keys of one row, which are behind its columns.
pub(crate) fn keys(batch: &RecordBatch, width: usize, row: usize) -> Vec<Option<Vec<u8>>> {
    let key = |column: &Arc<dyn Array>| {
        let keys = column.as_any().downcast_ref::<BinaryViewArray>()?;
        (row < keys.len() && !keys.is_null(row)).then(|| keys.value(row).to_vec())
    };
    batch.columns().iter().skip(width).map(key).collect()
}

fn without_keys(stream: SendableRecordBatchStream, width: usize) -> Result<SendableRecordBatchStream, SqlError> {
    let columns: Vec<usize> = (0..width).collect();
    let schema = stream.schema().project(&columns).map_err(|error| errors::from_arrow(&error))?;
    let batches = stream.map(move |batch| Ok(batch?.project(&columns)?));
    Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::new(schema), batches)))
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
    /// The rows are those of a FETCH, of which this gives a part.
    pub(crate) of_fetch: bool,
    /// Counts the run when its rows have ended.
    pub(crate) call: Option<Call>,
}

impl RowStream {
    /// The run, which took so long until here, is counted there when it has ended.
    pub(crate) fn counted(&mut self, tally: Arc<Tally>, time: Duration) {
        self.call = Some(Call::new(tally, time, self.count));
    }

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
                FETCH if !self.of_fetch => session.statement_done(self.autocommit).await?,
                _ => {
                    session.shared.stop.end();
                    self.suspended = true;
                }
            }
            return Ok(None);
        }
        let mut chunk = RowChunk::default();
        let (begun, counts) = (std::time::Instant::now(), active.prepared.counts.clone());
        let types = session.type_source();
        let filled = user_types::scope(types, panics::caught_in(active.fill(&session.db, &mut chunk, self.left))).await;
        let time = begun.elapsed();
        if let Some(counts) = counts {
            counts.ran(time);
        }
        if let Some(call) = &mut self.call {
            call.time += time;
        }
        let more = match filled {
            Ok(more) => more,
            Err(error) => {
                if let Some(call) = &mut self.call {
                    call.forget();
                }
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
        if let Some(call) = &mut self.call {
            call.rows = self.count;
        }
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
