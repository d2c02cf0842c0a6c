//! Values of a source as values of the columns that they are assigned to, by PostgreSQL's rules of
//! assignment: the same for a batch and for one value.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use resurgam_engine::{Column, Datum, DatumRef, Table};

use crate::pg::arrow::{DatumColumn, assignment_cast, datum_of_scalar};
use crate::pg::datetime::Zone;
use crate::pg::errors;
use crate::pg::types;
use crate::wire::SqlError;

fn of_column(mut error: SqlError, column: &Column) -> SqlError {
    if error.column.is_none() {
        error.column = Some(column.name.clone());
    }
    error
}

/// A value for a column.
pub(super) fn assigned(value: &ScalarValue, column: &Column, zone: &Zone) -> Result<Datum, SqlError> {
    datum_of_scalar(value, &column.ty, zone).map_err(|error| of_column(error, column))
}

/// The first columns of a batch for those of the table.
pub(super) fn assigned_batch(table: &Table, batch: &RecordBatch, zone: &Zone) -> Result<RecordBatch, SqlError> {
    let mut fields = Vec::with_capacity(table.columns.len());
    let mut arrays = Vec::with_capacity(table.columns.len());
    for (column, array) in table.columns.iter().zip(batch.columns()) {
        arrays.push(assignment_cast(array, &column.ty, zone).map_err(|error| of_column(error, column))?);
        fields.push(types::arrow_field(&column.name, &column.ty, true));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| errors::from_arrow(&error))
}

/// Rows of an assigned batch as datums.
pub(super) struct Assigned<'b>(Vec<DatumColumn<'b>>);

impl<'b> Assigned<'b> {
    pub(super) fn new(table: &Table, batch: &'b RecordBatch) -> Result<Self, SqlError> {
        let columns = table.columns.iter().zip(batch.columns());
        columns.map(|(column, array)| DatumColumn::new(array.as_ref(), &column.ty)).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn row(&self, at: usize) -> Result<Vec<DatumRef<'_>>, SqlError> {
        self.0.iter().map(|column| column.get(at)).collect()
    }
}
