//! What is sent of a row: a result list or RETURNING, encoded without a batch.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Fields, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use resurgam_engine::{ColumnType, DatumRef, Table};

use super::expr::{Input, RowExpr, Values};
use crate::exec::bridge;
use crate::pg::arrow::datum_of_scalar;
use crate::pg::encode::{RowEncoder, TextStyle, encode_datum};
use crate::pg::errors;
use crate::pg::types;
use crate::wire::{Format, RowChunk, SqlError};

/// Expressions, each with the form in which it is sent.
#[derive(Debug)]
pub(crate) struct Output(Vec<(RowExpr, Sent)>);

#[derive(Debug)]
enum Sent {
    /// As a column of that type is.
    Column(ColumnType),
    /// What no column can hold.
    Other(Arc<Field>),
}

impl Output {
    /// Its columns, for EXPLAIN.
    pub(super) fn words(&self, column: &dyn Fn(usize) -> String) -> Vec<String> {
        self.0.iter().map(|(expr, _)| expr.words(column)).collect()
    }

    /// The list over rows of `table`, whose schema is `schema`, as columns `fields`; `None` if it
    /// needs more than the row.
    pub(crate) fn new(exprs: &[Expr], fields: &Fields, table: &Table, schema: &DFSchema) -> Option<Self> {
        Self::with(exprs, fields, Some(table), schema)
    }

    /// The same over what groups of rows give, in that schema.
    pub(super) fn of_groups(exprs: &[Expr], fields: &Fields, schema: &DFSchema) -> Option<Self> {
        Self::with(exprs, fields, None, schema)
    }

    /// The same over nothing.
    pub(super) fn of_nothing(exprs: &[Expr], fields: &Fields, schema: &DFSchema) -> Option<Self> {
        Self::with(exprs, fields, None, schema)
    }

    /// Whether it is computed at once: see `list.rs`.
    pub(super) fn is_light(&self) -> bool {
        self.0.iter().all(|(expr, _)| expr.is_light())
    }

    fn with(exprs: &[Expr], fields: &Fields, table: Option<&Table>, schema: &DFSchema) -> Option<Self> {
        let mut output = Vec::with_capacity(exprs.len());
        for (expr, field) in exprs.iter().zip(fields.iter()) {
            let expr = match table {
                Some(_) => RowExpr::new(expr, table, schema)?,
                None => RowExpr::over(expr, &|column| schema.maybe_index_of_column(column), schema)?,
            };
            let (oid, typmod) = (types::field_oid(field), types::field_typmod(field));
            let ty = match expr.column().zip(table) {
                Some((column, table)) => Some(table.columns[column].ty).filter(|ty| types::column_oid(ty) == oid),
                None => types::column_type_of_oid(oid, typmod).filter(|ty| &types::arrow_type(ty) == field.data_type()),
            };
            let sent = ty.map_or_else(|| Sent::Other(Arc::clone(field)), Sent::Column);
            output.push((expr, sent));
        }
        Some(Self(output))
    }

    /// Whether that many formats can be for these columns.
    pub(crate) fn accepts(&self, formats: &[Format]) -> bool {
        formats.len() <= 1 || formats.len() == self.0.len()
    }

    /// Whether it is columns of the row, as they are.
    pub(super) fn is_of_columns(&self) -> bool {
        self.0.iter().all(|(expr, sent)| expr.column().is_some() && matches!(sent, Sent::Column(_)))
    }

    /// No rows yet.
    pub(crate) fn chunk(&self) -> RowChunk {
        RowChunk { fields: self.fields(), ..RowChunk::default() }
    }

    /// Fields of each row.
    pub(crate) fn fields(&self) -> i16 {
        self.0.len() as i16
    }

    /// The value of the first column.
    ///
    /// # Errors
    /// Those of its expression.
    pub(super) fn first(&self, input: Input<'_>) -> Result<ScalarValue, SqlError> {
        match self.0.first() {
            Some((expr, _)) => expr.evaluate(input),
            None => Err(SqlError::internal("a value of no column")),
        }
    }

    /// Appends a row.
    ///
    /// # Errors
    /// Those of the expressions; `54000` when the chunk passes 2 GB.
    pub(crate) fn append(
        &self,
        input: Input<'_>,
        formats: &[Format],
        style: &TextStyle,
        chunk: &mut RowChunk,
    ) -> Result<(), SqlError> {
        let stored = input.row.filter(|row| !matches!(row.values, Values::Group(_)));
        chunk.bytes.reserve(64);
        let (zone, out) = (&style.zone, &mut chunk.bytes);
        for (at, (expr, sent)) in self.0.iter().enumerate() {
            let format = match formats {
                [] => Format::Text,
                [one] => *one,
                many => many[at],
            };
            let ty = match sent {
                Sent::Column(ty) => ty,
                Sent::Other(field) => {
                    put_other(expr.evaluate(input)?, field, format, style, out)?;
                    continue;
                }
            };
            match expr.column().zip(stored) {
                Some((column, row)) => match row.column(column)? {
                    DatumRef::External(reference) => {
                        let datum = bridge::external(row.view, reference)
                            .map_err(|error| errors::from_datafusion(error, ""))?;
                        encode_datum(datum.as_ref(), ty, format, zone, out)?;
                    }
                    datum => encode_datum(datum, ty, format, zone, out)?,
                },
                None => {
                    let datum = datum_of_scalar(&expr.evaluate(input)?, ty, zone)?;
                    encode_datum(datum.as_ref(), ty, format, zone, out)?;
                }
            }
        }
        let end = u32::try_from(out.len()).ok().filter(|end| *end <= i32::MAX as u32);
        chunk.ends.push(end.ok_or_else(|| SqlError::new("54000", "result row is too large"))?);
        Ok(())
    }
}

/// A value of a type that no column has, by way of a batch of it.
fn put_other(
    value: ScalarValue,
    field: &Arc<Field>,
    format: Format,
    style: &TextStyle,
    out: &mut BytesMut,
) -> Result<(), SqlError> {
    let failed = |error| errors::from_datafusion(error, "");
    let value = value.cast_to(field.data_type()).map_err(failed)?;
    let field = Arc::new(field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(vec![field]));
    let encoder = RowEncoder::new(schema.fields(), &[format], style)?;
    let batch = RecordBatch::try_new(schema, vec![value.to_array().map_err(failed)?])
        .map_err(|error| errors::from_arrow(&error))?;
    let cells = encoder.cells(&batch)?;
    let Some(cell) = cells.first().filter(|cell| !cell.is_null(0)) else {
        out.put_i32(-1);
        return Ok(());
    };
    let at = out.len();
    out.put_i32(0);
    match format {
        Format::Text => cell.put_text(0, out)?,
        Format::Binary => cell.put_binary(0, out)?,
    }
    let length =
        i32::try_from(out.len() - at - 4).map_err(|_| SqlError::new("54000", "field is too large for the protocol"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
