//! Values across the three representations that a statement meets: engine datums,
//! Arrow arrays and DataFusion scalars; and errors across the three layers.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder,
    Int16Builder, Int32Builder, Int64Builder, StringViewBuilder, Time64MicrosecondBuilder,
    TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use resurgam_engine::{ColumnType, Datum, DatumRef, ExternalRef, RawRow, ReadView, Table};

use crate::pg::errors;
use crate::pg::types::{EPOCH_DAYS, EPOCH_US, UTC};
use crate::wire::SqlError;

/// An engine error on its way through DataFusion.
#[cold]
pub(crate) fn storage(error: resurgam_base::Error) -> DataFusionError {
    errors::storage(error)
}

/// An SQL error on its way through DataFusion.
#[cold]
pub(crate) fn failure(error: SqlError) -> DataFusionError {
    errors::to_datafusion(error)
}

/// Lower-case text of a uuid.
pub(crate) fn uuid_text(bytes: &[u8; 16], out: &mut [u8; 36]) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut at = 0;
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out[at] = b'-';
            at += 1;
        }
        out[at] = HEX[usize::from(byte >> 4)];
        out[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    at
}

/// A large value's bytes.
pub(crate) fn external(view: &ReadView, reference: ExternalRef) -> Result<Datum> {
    let bytes = view.read_external(reference).map_err(storage)?;
    if reference.is_text {
        let text = String::from_utf8(bytes)
            .map_err(|_| storage(resurgam_base::Error::corrupt("a large text value is not UTF-8")))?;
        Ok(Datum::Text(text))
    } else {
        Ok(Datum::Bytes(bytes))
    }
}

/// Decodes columns of rows into Arrow arrays.
pub(crate) struct RowColumns<'a> {
    table: &'a Table,
    view: &'a ReadView,
}

#[cold]
fn mismatch(table: &Table, column: usize, datum: &DatumRef<'_>) -> DataFusionError {
    storage(resurgam_base::Error::corrupt(format!(
        "column \"{}\" of table \"{}\" holds {datum:?}",
        table.columns[column].name, table.name
    )))
}

macro_rules! fill {
    ($self:ident, $column:ident, $rows:ident, $builder:expr, $($pattern:pat => $value:expr),+) => {{
        let mut builder = $builder;
        for row in $rows {
            match $self.table.column(row, $column).map_err(storage)? {
                DatumRef::Null => builder.append_null(),
                $($pattern => builder.append_value($value),)+
                other => return Err(mismatch($self.table, $column, &other)),
            }
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

impl<'a> RowColumns<'a> {
    pub(crate) fn new(table: &'a Table, view: &'a ReadView) -> Self {
        Self { table, view }
    }

    /// Column `column` of `rows`.
    pub(crate) fn array<'r>(
        &mut self,
        column: usize,
        rows: impl ExactSizeIterator<Item = RawRow<'r>>,
    ) -> Result<ArrayRef>
    where
        'a: 'r,
    {
        let n = rows.len();
        Ok(match self.table.columns[column].ty {
            ColumnType::Bool => fill!(self, column, rows, BooleanBuilder::with_capacity(n), DatumRef::Bool(v) => v),
            ColumnType::Int2 => fill!(self, column, rows, Int16Builder::with_capacity(n), DatumRef::Int2(v) => v),
            ColumnType::Int4 => fill!(self, column, rows, Int32Builder::with_capacity(n), DatumRef::Int4(v) => v),
            ColumnType::Int8 => fill!(self, column, rows, Int64Builder::with_capacity(n), DatumRef::Int8(v) => v),
            ColumnType::Float4 => fill!(self, column, rows, Float32Builder::with_capacity(n), DatumRef::Float4(v) => v),
            ColumnType::Float8 => fill!(self, column, rows, Float64Builder::with_capacity(n), DatumRef::Float8(v) => v),
            ColumnType::Numeric { precision, scale } => {
                let builder = Decimal128Builder::with_capacity(n)
                    .with_data_type(DataType::Decimal128(precision, scale as i8));
                fill!(self, column, rows, builder, DatumRef::Numeric(v) => v)
            }
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) | ColumnType::Json => {
                let mut builder = StringViewBuilder::with_capacity(n);
                for row in rows {
                    match self.table.column(row, column).map_err(storage)? {
                        DatumRef::Null => builder.append_null(),
                        DatumRef::Text(v) => builder.append_value(v),
                        DatumRef::External(r) => match external(self.view, r)? {
                            Datum::Text(v) => builder.append_value(v),
                            other => return Err(mismatch(self.table, column, &other.as_ref())),
                        },
                        other => return Err(mismatch(self.table, column, &other)),
                    }
                }
                Arc::new(builder.finish())
            }
            ColumnType::Bytes => {
                let mut builder = BinaryViewBuilder::with_capacity(n);
                for row in rows {
                    match self.table.column(row, column).map_err(storage)? {
                        DatumRef::Null => builder.append_null(),
                        DatumRef::Bytes(v) => builder.append_value(v),
                        DatumRef::External(r) => match external(self.view, r)? {
                            Datum::Bytes(v) => builder.append_value(v),
                            other => return Err(mismatch(self.table, column, &other.as_ref())),
                        },
                        other => return Err(mismatch(self.table, column, &other)),
                    }
                }
                Arc::new(builder.finish())
            }
            ColumnType::Uuid => {
                let mut builder = StringViewBuilder::with_capacity(n);
                let mut text = [0u8; 36];
                for row in rows {
                    match self.table.column(row, column).map_err(storage)? {
                        DatumRef::Null => builder.append_null(),
                        DatumRef::Uuid(v) => {
                            let len = uuid_text(&v, &mut text);
                            builder.append_value(std::str::from_utf8(&text[..len]).unwrap_or_default());
                        }
                        other => return Err(mismatch(self.table, column, &other)),
                    }
                }
                Arc::new(builder.finish())
            }
            ColumnType::Date => {
                fill!(self, column, rows, Date32Builder::with_capacity(n), DatumRef::Date(v) => v.saturating_add(EPOCH_DAYS))
            }
            ColumnType::Time => {
                fill!(self, column, rows, Time64MicrosecondBuilder::with_capacity(n), DatumRef::Time(v) => v)
            }
            ColumnType::Timestamp => {
                let builder = TimestampMicrosecondBuilder::with_capacity(n);
                fill!(self, column, rows, builder, DatumRef::Timestamp(v) => v.saturating_add(EPOCH_US))
            }
            ColumnType::TimestampTz => {
                let builder = TimestampMicrosecondBuilder::with_capacity(n).with_timezone(UTC);
                fill!(self, column, rows, builder, DatumRef::TimestampTz(v) => v.saturating_add(EPOCH_US))
            }
        })
    }
}

/// A comparison value as a key column sees it.
#[derive(Debug)]
pub(crate) enum KeyValue {
    Exact(Datum),
    Null,
    /// Below every value that the column can hold.
    BelowAll,
    AboveAll,
    /// Cannot be turned into the column's type without loss.
    Unknown,
}

/// `value` as a bound on a column of type `ty`.
pub(crate) fn key_value(value: &ScalarValue, ty: &ColumnType) -> Result<KeyValue> {
    if value.is_null() {
        return Ok(KeyValue::Null);
    }
    let integer = match value {
        ScalarValue::Int8(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int16(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int32(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int64(Some(v)) => Some(*v),
        _ => None,
    };
    if let Some(v) = integer {
        let beyond = if v < 0 { KeyValue::BelowAll } else { KeyValue::AboveAll };
        return Ok(match ty {
            ColumnType::Int2 => i16::try_from(v).map_or(beyond, |v| KeyValue::Exact(Datum::Int2(v))),
            ColumnType::Int4 => i32::try_from(v).map_or(beyond, |v| KeyValue::Exact(Datum::Int4(v))),
            ColumnType::Int8 => KeyValue::Exact(Datum::Int8(v)),
            _ => KeyValue::Unknown,
        });
    }
    Ok(match (value, ty) {
        (ScalarValue::Boolean(Some(v)), ColumnType::Bool) => KeyValue::Exact(Datum::Bool(*v)),
        (ScalarValue::Float32(Some(v)), ColumnType::Float4) => KeyValue::Exact(Datum::Float4(*v)),
        (ScalarValue::Float64(Some(v)), ColumnType::Float8) => KeyValue::Exact(Datum::Float8(*v)),
        (ScalarValue::Decimal128(Some(v), _, scale), ColumnType::Numeric { scale: to, .. })
            if i32::from(*scale) == *to as i32 =>
        {
            KeyValue::Exact(Datum::Numeric(*v))
        }
        (
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_),
        ) => KeyValue::Exact(Datum::Text(v.clone())),
        (ScalarValue::Binary(Some(v)) | ScalarValue::BinaryView(Some(v)), ColumnType::Bytes) => {
            KeyValue::Exact(Datum::Bytes(v.clone()))
        }
        (
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)),
            ColumnType::Uuid,
        ) => parse_uuid(v).map_or(KeyValue::Unknown, |v| KeyValue::Exact(Datum::Uuid(v))),
        (ScalarValue::Date32(Some(v)), ColumnType::Date) => {
            v.checked_sub(EPOCH_DAYS).map_or(KeyValue::BelowAll, |v| KeyValue::Exact(Datum::Date(v)))
        }
        (ScalarValue::Time64Microsecond(Some(v)), ColumnType::Time) => KeyValue::Exact(Datum::Time(*v)),
        (ScalarValue::TimestampMicrosecond(Some(v), None), ColumnType::Timestamp) => {
            v.checked_sub(EPOCH_US).map_or(KeyValue::BelowAll, |v| KeyValue::Exact(Datum::Timestamp(v)))
        }
        (ScalarValue::TimestampMicrosecond(Some(v), Some(_)), ColumnType::TimestampTz) => {
            v.checked_sub(EPOCH_US).map_or(KeyValue::BelowAll, |v| KeyValue::Exact(Datum::TimestampTz(v)))
        }
        _ => KeyValue::Unknown,
    })
}

/// The 16 bytes of a uuid in canonical lower-case text.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut out = [0u8; 16];
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    if digits.len() != 32 || text.len() != 36 {
        return None;
    }
    for (i, pair) in digits.chunks_exact(2).enumerate() {
        let pair = std::str::from_utf8(pair).ok()?;
        if pair.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        out[i] = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(out)
}
