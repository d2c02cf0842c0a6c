//! RETURNING: what is sent of each row that was written, as it is then (as it was, for DELETE).

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::exec::direct::{Input, Output, Row};
use crate::pg::encode::TextStyle;
use crate::pg::errors;
use crate::wire::{Field, Format, RowChunk, SqlError};

/// A RETURNING list.
#[derive(Debug)]
pub(crate) struct Returning {
    pub fields: Arc<[Field]>,
    /// With literals for parameters some of its types would be others.
    pub typed_by_literals: bool,
    pub output: Output,
    /// Its values depend on the session.
    pub of_session: bool,
}

/// Its rows while they gather.
pub(crate) struct Returned<'a> {
    pub output: Option<&'a Output>,
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
        let output = returning.map(|returning| &returning.output);
        if let (Some(returning), Some(output)) = (returning, output)
            && !output.accepts(formats)
        {
            let (formats, columns) = (formats.len(), returning.fields.len());
            let message = format!("bind message has {formats} result formats but query has {columns} columns");
            return Err(SqlError::new("08P01", message));
        }
        let chunk = output.map(Output::chunk).unwrap_or_default();
        let memory = output.map(|_| MemoryConsumer::new("RETURNING").register(pool));
        Ok(Self { output, formats, params, style, chunk, memory })
    }

    /// Whether there is a list.
    pub(super) fn is_asked(&self) -> bool {
        self.output.is_some()
    }

    /// A row was written.
    pub(super) fn note(&mut self, row: Row<'_>) -> Result<(), SqlError> {
        match self.output {
            Some(output) => {
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
            None => Ok(()),
        }
    }
}
