//! Batches to encoded rows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Fields;

use super::TextStyle;
use super::cell::{Cell, Look, Names};
use crate::types::{field_oid, field_typmod, oid, type_by_oid};
use crate::wire::{Format, RowChunk, SqlError};

/// Encodes the rows of batches of one schema. Made once for a result.
#[derive(Debug)]
pub struct RowEncoder {
    columns: Vec<(Look, Format)>,
}

impl RowEncoder {
    /// An encoder for columns of these fields. `formats` is as in `Bind`: none means text
    /// for all, one holds for all, else one a column.
    ///
    /// # Errors
    /// `08P01` if the number of formats fits neither.
    pub fn new(fields: &Fields, formats: &[Format], style: &TextStyle) -> Result<Self, SqlError> {
        let columns = fields
            .iter()
            .enumerate()
            .map(|(at, field)| {
                let format = column_format(formats, at, fields.len())?;
                let oid = field_oid(field);
                let names = match format {
                    Format::Text => reg_names(oid, style),
                    Format::Binary => None,
                };
                Ok((Look { oid, typmod: field_typmod(field), zone: style.zone, names }, format))
            })
            .collect::<Result<_, SqlError>>()?;
        Ok(Self { columns })
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Appends some rows of a batch.
    ///
    /// # Errors
    /// `22003` for values that the wire's type cannot hold; `54000` when the chunk passes 2 GB.
    pub fn encode(&self, batch: &RecordBatch, rows: Range<usize>, out: &mut RowChunk) -> Result<(), SqlError> {
        let cells = self.cells(batch)?;
        out.fields = self.columns.len() as i16;
        for row in rows {
            let start = out.bytes.len();
            for (cell, (_, format)) in cells.iter().zip(&self.columns) {
                put_cell(cell, row, *format, &mut out.bytes)?;
            }
            if out.bytes.len() - start > 1 << 30 || out.bytes.len() > i32::MAX as usize {
                return Err(SqlError::new("54000", "result row is too large"));
            }
            out.ends.push(out.bytes.len() as u32);
        }
        Ok(())
    }

    /// The columns of a batch, ready for `put_text` or `put_binary`.
    pub fn cells<'a>(&self, batch: &'a RecordBatch) -> Result<Vec<Cell<'a>>, SqlError> {
        if batch.num_columns() != self.columns.len() {
            return Err(SqlError::internal(format!(
                "batch has {} columns, expected {}",
                batch.num_columns(),
                self.columns.len()
            )));
        }
        batch.columns().iter().zip(&self.columns).map(|(array, (look, _))| Cell::new(array.as_ref(), look)).collect()
    }
}

fn column_format(formats: &[Format], at: usize, columns: usize) -> Result<Format, SqlError> {
    match formats {
        [] => Ok(Format::Text),
        [one] => Ok(*one),
        many if many.len() == columns => Ok(many[at]),
        many => Err(SqlError::new(
            "08P01",
            format!("bind message has {} result formats but query has {columns} columns", many.len()),
        )),
    }
}

fn put_cell(cell: &Cell<'_>, row: usize, format: Format, out: &mut BytesMut) -> Result<(), SqlError> {
    if cell.is_null(row) {
        out.put_i32(-1);
        return Ok(());
    }
    let at = out.len();
    out.put_i32(0);
    match format {
        Format::Text => cell.put_text(row, out)?,
        Format::Binary => cell.put_binary(row, out)?,
    }
    let length =
        i32::try_from(out.len() - at - 4).map_err(|_| SqlError::new("54000", "field is too large for the protocol"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Names for values of the `reg…` types; `None` for other types or without a source.
pub(super) fn reg_names(ty: u32, style: &TextStyle) -> Option<Names> {
    let cx = style.names.as_ref()?;
    let mut names = HashMap::new();
    match ty {
        oid::REGCLASS => {
            for row in crate::catalog::relations(cx.as_ref()).ok()? {
                names.insert(row.oid, row.visible_name());
            }
        }
        oid::REGTYPE => {
            for row in crate::types::TYPES {
                names.insert(row.oid, row.sql_name.to_owned());
            }
            for ty in resurgam_dialect::Catalog::postgres().types() {
                names.entry(ty.oid.0).or_insert_with(|| crate::types::format_type(ty.oid.0, None));
            }
            for ty in crate::user_types::current().iter().flat_map(|types| types.iter()) {
                for oid in [ty.oid, ty.body.array] {
                    names.extend(type_by_oid(oid).map(|row| (oid, row.sql_name.to_owned())));
                }
            }
        }
        oid::REGNAMESPACE => {
            for schema in crate::catalog::namespaces(cx.as_ref()).ok()? {
                names.insert(schema.oid, crate::functions::quote_ident(&schema.name));
            }
        }
        oid::REGROLE => {
            for role in cx.rights().ok()?.roles() {
                names.insert(role.oid, crate::functions::quote_ident(&role.name));
            }
        }
        _ => {
            let element = type_by_oid(ty)?.elem;
            return if element == 0 { None } else { reg_names(element, style) };
        }
    }
    Some(Arc::new(names))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::*;
    use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};

    use super::*;
    use crate::types::with_pg_type;

    fn rows(batch: &RecordBatch, format: Format) -> Vec<Vec<Option<Vec<u8>>>> {
        let encoder = RowEncoder::new(batch.schema().fields(), &[format], &TextStyle::default()).expect("encoder");
        let mut chunk = RowChunk::default();
        encoder.encode(batch, 0..batch.num_rows(), &mut chunk).expect("encode");
        chunk
            .rows()
            .map(|mut body| {
                let mut fields = Vec::new();
                while !body.is_empty() {
                    let length = i32::from_be_bytes(body[..4].try_into().expect("4"));
                    body = &body[4..];
                    if length < 0 {
                        fields.push(None);
                    } else {
                        fields.push(Some(body[..length as usize].to_vec()));
                        body = &body[length as usize..];
                    }
                }
                fields
            })
            .collect()
    }

    fn batch() -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("i", DataType::Int32, true),
            with_pg_type(Field::new("c", DataType::Utf8View, true), oid::BPCHAR, 7),
            Field::new("l", DataType::new_list(DataType::Int32, true), true),
            with_pg_type(Field::new("u", DataType::Utf8View, true), oid::UUID, -1),
        ]);
        RecordBatch::try_new(
            Arc::new(schema),
            vec![
                Arc::new(Int32Array::from(vec![Some(-7), None])),
                Arc::new(StringViewArray::from(vec![Some("ä"), Some("abc")])),
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
                    Some(vec![Some(1), None]),
                    Some(vec![]),
                ])),
                Arc::new(StringViewArray::from(vec![Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), None])),
            ],
        )
        .expect("batch")
    }

    #[test]
    fn text_rows() {
        let got = rows(&batch(), Format::Text);
        let text =
            |at: usize, column: usize| got[at][column].as_deref().map(|b| String::from_utf8_lossy(b).into_owned());
        assert_eq!(text(0, 0).as_deref(), Some("-7"));
        assert_eq!(text(1, 0), None);
        assert_eq!(text(0, 1).as_deref(), Some("ä  "));
        assert_eq!(text(0, 2).as_deref(), Some("{1,NULL}"));
        assert_eq!(text(1, 2).as_deref(), Some("{}"));
    }

    #[test]
    fn binary_rows() {
        let got = rows(&batch(), Format::Binary);
        assert_eq!(got[0][0].as_deref(), Some(&(-7i32).to_be_bytes()[..]));
        assert_eq!(got[0][3].as_ref().map(Vec::len), Some(16));
        let list = got[0][2].as_deref().expect("list");
        assert_eq!(
            list,
            [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 255, 255, 255, 255]
        );
        assert_eq!(got[1][2].as_deref(), Some(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23][..]));
    }

    #[test]
    fn array_elements_are_quoted_when_they_must() {
        let mut builder = ListBuilder::new(StringBuilder::new());
        builder.append_value([Some("a"), Some(""), Some("null"), Some("x y"), Some("q\"\\"), None]);
        let array = builder.finish();
        let batch = RecordBatch::try_from_iter([("a", Arc::new(array) as ArrayRef)]).expect("batch");
        let got = rows(&batch, Format::Text);
        assert_eq!(
            String::from_utf8_lossy(got[0][0].as_deref().expect("value")),
            r#"{a,"","null","x y","q\"\\",NULL}"#
        );
    }

    #[test]
    fn wrong_number_of_formats() {
        let error = RowEncoder::new(batch().schema().fields(), &[Format::Text; 2], &TextStyle::default()).unwrap_err();
        assert_eq!(error.sqlstate, "08P01");
    }
}
