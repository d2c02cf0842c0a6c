//! What shows sequences: `pg_sequence`, `pg_sequences`, `information_schema.sequences`, and a sequence as a relation of
//! one row, `SELECT * FROM s`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::memory::MemoryStream;
use resurgam_engine::{Sequence, Table};

use super::model::{Model, relation_oid};
use super::rows::Rows;
use super::seen::Seen;
use crate::computed::ComputedTable;
use crate::context::PgContext;
use crate::errors::{from_arrow, to_datafusion};
use crate::types::{field_of_oid, format_type, oid};
use crate::wire::SqlError;

/// The columns of every sequence, each with its type.
pub(super) const COLUMNS: [(&str, u32); 3] =
    [("last_value", oid::INT8), ("log_cnt", oid::INT8), ("is_called", oid::BOOL)];

/// The names of a sequence's columns, by their numbers.
pub fn sequence_columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}

/// Oid of a sequence's type.
fn type_of(sequence: &Sequence) -> u32 {
    match sequence.width {
        2 => oid::INT2,
        4 => oid::INT4,
        _ => oid::INT8,
    }
}

/// The sequences with their definitions.
fn all(model: &Model) -> impl Iterator<Item = (&Table, &Sequence)> {
    model.sequences.iter().filter_map(|entry| Some((entry.as_ref(), entry.sequence.as_deref()?)))
}

pub(super) fn pg_sequence(rows: &mut Rows<'_>, model: &Model) {
    for (entry, sequence) in all(model) {
        rows.add([
            ("seqrelid", relation_oid(entry.id).into()),
            ("seqtypid", type_of(sequence).into()),
            ("seqstart", sequence.start.into()),
            ("seqincrement", sequence.increment.into()),
            ("seqmax", sequence.max.into()),
            ("seqmin", sequence.min.into()),
            ("seqcache", sequence.cache.into()),
            ("seqcycle", sequence.cycle.into()),
        ]);
    }
}

pub(super) fn pg_sequences(rows: &mut Rows<'_>, cx: &dyn PgContext, model: &Model) -> Result<(), SqlError> {
    let (rights, seen) = (cx.rights()?, Seen::by(cx)?);
    for (entry, sequence) in all(model) {
        let state = match seen.place_of_sequence(entry) {
            true => Some(cx.sequence_state(relation_oid(entry.id))?),
            false => None,
        };
        rows.add([
            ("schemaname", entry.schema.as_str().into()),
            ("sequencename", entry.name.as_str().into()),
            ("sequenceowner", rights.name(super::roles::access_of(entry).owner).into()),
            ("data_type", type_of(sequence).into()),
            ("start_value", sequence.start.into()),
            ("min_value", sequence.min.into()),
            ("max_value", sequence.max.into()),
            ("increment_by", sequence.increment.into()),
            ("cycle", sequence.cycle.into()),
            ("cache_size", sequence.cache.into()),
            ("last_value", state.filter(|state| state.called).map(|state| state.last).into()),
        ]);
    }
    Ok(())
}

/// `information_schema.sequences`, which has those of identity columns not.
pub(super) fn information(rows: &mut Rows<'_>, database: &str, model: &Model, seen: &Seen) {
    let is_shown = |entry: &Table| model.identity_of(entry.id).is_none() && seen.sequence(entry);
    for (entry, sequence) in all(model).filter(|(entry, _)| is_shown(entry)) {
        rows.add([
            ("sequence_catalog", database.into()),
            ("sequence_schema", entry.schema.as_str().into()),
            ("sequence_name", entry.name.as_str().into()),
            ("data_type", format_type(type_of(sequence), None).into()),
            ("numeric_precision", (i64::from(sequence.width) * 8).into()),
            ("numeric_precision_radix", 2.into()),
            ("numeric_scale", 0.into()),
            ("start_value", sequence.start.to_string().into()),
            ("minimum_value", sequence.min.to_string().into()),
            ("maximum_value", sequence.max.to_string().into()),
            ("increment", sequence.increment.to_string().into()),
            ("cycle_option", (if sequence.cycle { "YES" } else { "NO" }).into()),
        ]);
    }
}

/// A sequence as a relation, bound to a session.
pub fn sequence_table(cx: &Arc<dyn PgContext>, sequence: &Table) -> Arc<dyn TableProvider> {
    let fields: Vec<Field> = COLUMNS.iter().filter_map(|(name, ty)| field_of_oid(name, *ty, -1)).collect();
    let schema = Arc::new(Schema::new(fields));
    let (cx, oid) = (Arc::clone(cx), relation_oid(sequence.id));
    let shown = format!("SequenceScan: {}.{}", sequence.schema, sequence.name);
    let of = Arc::clone(&schema);
    Arc::new(ComputedTable::new(shown, TableType::Base, schema, move |_| {
        let state = cx.sequence_state(oid).map_err(to_datafusion)?;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![state.last])),
            Arc::new(Int64Array::from(vec![state.ahead])),
            Arc::new(BooleanArray::from(vec![state.called])),
        ];
        let batch =
            RecordBatch::try_new(Arc::clone(&of), columns).map_err(|error| to_datafusion(from_arrow(&error)))?;
        Ok(Box::pin(MemoryStream::try_new(vec![batch], Arc::clone(&of), None)?))
    }))
}
