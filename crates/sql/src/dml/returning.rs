//! RETURNING: what is sent of each row that was written, as it is then (as it was, for DELETE).

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Schema};
use resurgam_engine::{ReadView, TxId};

use super::planned::{RowsPlan, WrittenRows};
use super::source::Stream;
use crate::exec::direct::{Input, Output, Row};
use crate::pg::encode::{RowEncoder, TextStyle};
use crate::pg::errors;
use crate::wire::{Field, Format, RowChunk, SqlError};

/// A RETURNING list.
#[derive(Debug)]
pub(crate) struct Returning {
    pub fields: Arc<[Field]>,
    /// With literals for parameters some of its types would be others.
    pub typed_by_literals: bool,
    pub by: By,
    /// Its values depend on the session.
    pub of_session: bool,
    /// It reads, beside each row, who updated it: of INSERT. See [`xmax_of`].
    pub xmax: bool,
}

/// `xmax` of a row that INSERT has written, as one row of its own: 0 if it was inserted, and the id of the transaction if ON
/// CONFLICT has updated it. PostgreSQL's has 32 bits, and the lowest numbers mean no transaction.
///
/// # Errors
/// Those of Arrow.
pub(super) fn xmax_of(updated_by: Option<TxId>) -> Result<RecordBatch, SqlError> {
    const FIRST: u32 = 3;
    let xmax = updated_by.map_or(0, |id| ((id.0 & u64::from(u32::MAX)) as u32).max(FIRST));
    let schema = Schema::new(vec![datafusion::arrow::datatypes::Field::new("xmax", DataType::UInt32, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(UInt32Array::from(vec![xmax]))])
        .map_err(|error| errors::from_arrow(&error))
}

/// How its values are computed.
#[derive(Debug)]
pub(crate) enum By {
    /// From each row as it is written.
    Row(Output),
    /// By a plan over all of them at the end.
    Plan(Box<RowsPlan>),
}

impl Returning {
    /// The plan over the rows, if there is one.
    pub(crate) fn plan(&self) -> Option<&RowsPlan> {
        match &self.by {
            By::Row(_) => None,
            By::Plan(plan) => Some(plan),
        }
    }
}

/// Its rows while they gather.
pub(crate) struct Returned<'a> {
    returning: Option<&'a Returning>,
    /// Rows that wait for the plan.
    rows: Option<WrittenRows>,
    pub formats: &'a [Format],
    pub params: &'a [ScalarValue],
    pub style: TextStyle,
    pub chunk: RowChunk,
    /// Counts them against the memory of queries.
    memory: Option<MemoryReservation>,
}

/// Bytes that are counted at a time.
const STEP_BYTES: usize = 1 << 20;

impl<'a> Returned<'a> {
    /// Of a statement with that list.
    ///
    /// # Errors
    /// `08P01` when the formats are not for its columns.
    pub(crate) fn new(
        returning: Option<&'a Returning>,
        formats: &'a [Format],
        params: &'a [ScalarValue],
        style: TextStyle,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Self, SqlError> {
        if let Some(returning) = returning
            && formats.len() > 1
            && formats.len() != returning.fields.len()
        {
            let (formats, columns) = (formats.len(), returning.fields.len());
            let message = format!("bind message has {formats} result formats but query has {columns} columns");
            return Err(SqlError::new("08P01", message));
        }
        let fields = returning.map_or(0, |returning| returning.fields.len() as i16);
        let chunk = RowChunk { fields, ..RowChunk::default() };
        let rows = returning.and_then(Returning::plan).map(RowsPlan::rows);
        let memory = returning.map(|_| MemoryConsumer::new("RETURNING").register(pool));
        Ok(Self { returning, rows, formats, params, style, chunk, memory })
    }

    /// Whether it reads `xmax` beside the rows.
    pub(super) fn reads_xmax(&self) -> bool {
        self.returning.is_some_and(|returning| returning.xmax)
    }

    /// Whether there is a list.
    pub(super) fn is_asked(&self) -> bool {
        self.returning.is_some()
    }

    /// A row was written; `others`: what it was joined with, as one row.
    pub(super) fn note(&mut self, row: Row<'_>, others: Option<RecordBatch>) -> Result<(), SqlError> {
        match (self.returning.map(|returning| &returning.by), &mut self.rows) {
            (Some(By::Row(output)), _) => {
                let input = Input { params: self.params, row: Some(row) };
                output.append(input, self.formats, &self.style, &mut self.chunk)?;
                let bytes = self.chunk.bytes.capacity() + self.chunk.ends.capacity() * size_of::<u32>();
                match &self.memory {
                    Some(memory) if bytes >= memory.size() + STEP_BYTES => {
                        memory.try_resize(bytes).map_err(|error| errors::from_datafusion(error, ""))
                    }
                    _ => Ok(()),
                }
            }
            (Some(By::Plan(_)), Some(rows)) => {
                rows.push(row, row.table.columns.len(), others)?;
                match &self.memory {
                    Some(memory) if rows.bytes() >= memory.size() + STEP_BYTES => {
                        memory.try_resize(rows.bytes()).map_err(|error| errors::from_datafusion(error, ""))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// All rows were written: what a list that goes by a plan makes of them.
    ///
    /// # Errors
    /// Those of the plan.
    pub(super) async fn take_rows(
        &mut self,
        stream: &Stream<'_>,
        view: &ReadView,
    ) -> Result<Vec<RecordBatch>, SqlError> {
        let (Some(plan), Some(rows)) = (self.returning.and_then(Returning::plan), &mut self.rows) else {
            return Ok(Vec::new());
        };
        let Some(rows) = rows.finish()? else { return Ok(Vec::new()) };
        let made = plan.run(stream, view, rows).await?;
        if let Some(memory) = &self.memory {
            memory.free();
        }
        Ok(made)
    }

    /// The same, for the client.
    ///
    /// # Errors
    /// Those of the plan.
    pub(super) async fn finish(&mut self, stream: &Stream<'_>, view: &ReadView) -> Result<(), SqlError> {
        let Some(plan) = self.returning.and_then(Returning::plan) else { return Ok(()) };
        let encoder = RowEncoder::new(plan.plan.schema.fields(), self.formats, &self.style)?;
        for batch in self.take_rows(stream, view).await? {
            encoder.encode(&batch, 0..batch.num_rows(), &mut self.chunk)?;
        }
        Ok(())
    }
}
