//! `int4send` and its kin: a value as the bytes that it has in the protocol's binary format.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::Schema;

use super::define::{P, PgFunction, f, oid};
use crate::encode::{RowEncoder, TextStyle};
use crate::types::oid as t;
use crate::wire::{Format, SqlError};

/// Those of types whose bytes hang on nothing but the value.
const NAMES: [&str; 17] = [
    "boolsend",
    "byteasend",
    "date_send",
    "float4send",
    "float8send",
    "int2send",
    "int4send",
    "int8send",
    "interval_send",
    "numeric_send",
    "oidsend",
    "textsend",
    "time_send",
    "timestamp_send",
    "timestamptz_send",
    "uuid_send",
    "varcharsend",
];

pub(super) fn all() -> Vec<PgFunction> {
    let send = |name| {
        f(name, &[P::Any], oid(t::BYTEA), |call| {
            let array = &call.arrays[0];
            let field = call.fields[0].as_ref().clone().with_name("value").with_data_type(array.data_type().clone());
            let schema = Arc::new(Schema::new(vec![field.with_nullable(true)]));
            let encoder = RowEncoder::new(schema.fields(), &[Format::Binary], &TextStyle::default())?;
            let batch = RecordBatch::try_new(schema, vec![Arc::clone(array)])
                .map_err(|error| crate::errors::from_arrow(&error))?;
            let cells = encoder.cells(&batch)?;
            let Some(cell) = cells.first() else { return Err(SqlError::internal("a column without cells")) };
            call.byteas(|row| {
                if cell.is_null(row) {
                    return Ok(None);
                }
                let mut out = BytesMut::new();
                cell.put_binary(row, &mut out)?;
                Ok(Some(out.to_vec()))
            })
        })
    };
    NAMES.into_iter().map(send).collect()
}
