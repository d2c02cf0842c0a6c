//! What is sent of a row: a result list or RETURNING, encoded without Arrow.

use datafusion::arrow::datatypes::Fields;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use resurgam_engine::{ColumnType, DatumRef, Table};

use super::expr::{FastExpr, Input};
use crate::bridge;
use crate::pg::arrow::datum_of_scalar;
use crate::pg::datetime::Zone;
use crate::pg::encode::encode_datum;
use crate::pg::errors;
use crate::pg::types;
use crate::wire::{Format, RowChunk, SqlError};

/// Expressions, each with the type in which it is sent.
#[derive(Debug)]
pub(crate) struct Output(Vec<(FastExpr, ColumnType)>);

impl Output {
    /// The list over rows of `table`, whose schema is `schema`, as columns `fields`; `None` if it is
    /// not one for the short path.
    pub(crate) fn new(exprs: &[Expr], fields: &Fields, table: &Table, schema: &DFSchema) -> Option<Self> {
        let mut output = Vec::with_capacity(exprs.len());
        for (expr, field) in exprs.iter().zip(fields.iter()) {
            let expr = FastExpr::new(expr, Some(table), schema)?;
            let ty = match expr.column() {
                Some(column) => table.columns[column].ty,
                None => {
                    let (oid, typmod) = (types::field_oid(field), types::field_typmod(field));
                    let ty = types::column_type_of_oid(oid, typmod)?;
                    if &types::arrow_type(&ty) != field.data_type() {
                        return None;
                    }
                    ty
                }
            };
            if types::field_oid(field) != types::column_oid(&ty) {
                return None;
            }
            output.push((expr, ty));
        }
        Some(Self(output))
    }

    /// Whether that many formats can be for these columns.
    pub(crate) fn accepts(&self, formats: &[Format]) -> bool {
        formats.len() <= 1 || formats.len() == self.0.len()
    }

    /// No rows yet.
    pub(crate) fn chunk(&self) -> RowChunk {
        RowChunk { fields: self.0.len() as i16, ..RowChunk::default() }
    }

    /// Appends a row.
    pub(crate) fn append(
        &self,
        input: Input<'_>,
        formats: &[Format],
        zone: &Zone,
        chunk: &mut RowChunk,
    ) -> Result<(), SqlError> {
        let Some(row) = input.row else { return Err(SqlError::internal("no row")) };
        chunk.bytes.reserve(64);
        for (at, (expr, ty)) in self.0.iter().enumerate() {
            let format = match formats {
                [] => Format::Text,
                [one] => *one,
                many => many[at],
            };
            match expr.column().map(|column| row.column(column)) {
                Some(Ok(DatumRef::External(reference))) => {
                    let datum =
                        bridge::external(row.view, reference).map_err(|error| errors::from_datafusion(error, ""))?;
                    encode_datum(datum.as_ref(), ty, format, zone, &mut chunk.bytes)?;
                }
                Some(datum) => encode_datum(datum?, ty, format, zone, &mut chunk.bytes)?,
                None => {
                    let datum = datum_of_scalar(&expr.evaluate(input)?, ty, zone)?;
                    encode_datum(datum.as_ref(), ty, format, zone, &mut chunk.bytes)?;
                }
            }
        }
        chunk.ends.push(chunk.bytes.len() as u32);
        Ok(())
    }
}
