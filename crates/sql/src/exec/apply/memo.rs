//! Values of a subquery by the outer values that they were computed for.
//!
//! It holds up to [`BYTES_MAX`], of the query's memory; what comes after that is computed each time.

use std::collections::HashMap;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;

/// Bytes of one memo at most.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of an entry beside its key and its value.
const ENTRY_BYTES: usize = 64;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Memo {
    converter: Option<RowConverter>,
    known: HashMap<Box<[u8]>, ScalarValue>,
    full: bool,
}

impl Memo {
    /// The keys of the rows of some arguments; none if their types have no keys.
    pub(super) fn keys(&mut self, args: &[ArrayRef]) -> Result<Option<Rows>> {
        if self.converter.is_none() {
            let types: Vec<DataType> = args.iter().map(|arg| arg.data_type().clone()).collect();
            let fields: Vec<SortField> = types.into_iter().map(SortField::new).collect();
            if !RowConverter::supports_fields(&fields) {
                return Ok(None);
            }
            self.converter = Some(RowConverter::new(fields)?);
        }
        match &mut self.converter {
            Some(converter) => Ok(Some(converter.convert_columns(args)?)),
            None => Ok(None),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&ScalarValue> {
        self.known.get(key)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &ScalarValue, memory: Option<&MemoryReservation>) {
        let bytes = key.len() + value.size() + ENTRY_BYTES;
        let Some(memory) = memory else { return };
        if self.full || memory.size() + bytes > BYTES_MAX || memory.try_grow(bytes).is_err() {
            self.full = true;
            return;
        }
        self.known.insert(key.into(), value.clone());
    }
}
