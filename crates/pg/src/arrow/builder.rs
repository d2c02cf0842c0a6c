//! Arrow columns built from datums, one value after the other.

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use resurgam_engine::array::ArrayView;
use resurgam_engine::{ColumnType, DatumRef};

use crate::citext;
use crate::datetime::{days_from_engine, us_from_engine};
use crate::encode::uuid_bytes;
use crate::ordered;
use crate::types::UTC;
use crate::wire::SqlError;

/// Collects the values of one column.
pub struct ColumnBuilder {
    inner: Inner,
    /// `char(n)` may have been stored with its blanks by others.
    trim: bool,
}

enum Inner {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder),
    VarNumeric(LargeBinaryBuilder),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
    Ordered(ordered::Builder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Enum(TimestampSecondBuilder),
    Jsonb(BinaryBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Citext(citext::Builder),
    Array(Box<ListParts>),
}

/// Lists: their elements, and how many each has.
struct ListParts {
    /// Type of the stored elements.
    ty: ColumnType,
    item: FieldRef,
    elements: ColumnBuilder,
    lengths: Vec<usize>,
    nulls: NullBufferBuilder,
}

impl ColumnBuilder {
    /// A builder for a column type, with room for so many values.
    pub fn new(ty: &ColumnType, capacity: usize) -> Self {
        let inner = match *ty {
            ColumnType::Bool => Inner::Bool(BooleanBuilder::with_capacity(capacity)),
            ColumnType::Int2 => Inner::Int2(Int16Builder::with_capacity(capacity)),
            ColumnType::Int4 => Inner::Int4(Int32Builder::with_capacity(capacity)),
            ColumnType::Int8 => Inner::Int8(Int64Builder::with_capacity(capacity)),
            ColumnType::Float4 => Inner::Float4(Float32Builder::with_capacity(capacity)),
            ColumnType::Float8 => Inner::Float8(Float64Builder::with_capacity(capacity)),
            ColumnType::Numeric { .. } => {
                let ty = crate::types::arrow_type(ty);
                Inner::Numeric(Decimal128Builder::with_capacity(capacity).with_data_type(ty))
            }
            // Ordinary values take eleven bytes.
            ColumnType::VarNumeric(_) => Inner::VarNumeric(LargeBinaryBuilder::with_capacity(capacity, capacity * 11)),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) | ColumnType::Json | ColumnType::Uuid => {
                Inner::Text(StringViewBuilder::with_capacity(capacity))
            }
            ColumnType::Ordered(ty) => Inner::Ordered(ordered::Builder::new(ty, capacity)),
            ColumnType::Bytes => Inner::Bytes(BinaryViewBuilder::with_capacity(capacity)),
            ColumnType::Date => Inner::Date(Date32Builder::with_capacity(capacity)),
            ColumnType::Time(_) => Inner::Time(Time64MicrosecondBuilder::with_capacity(capacity)),
            ColumnType::Timestamp(_) => Inner::Timestamp(TimestampMicrosecondBuilder::with_capacity(capacity)),
            ColumnType::Enum(_) => {
                let ty = crate::types::arrow_type(ty);
                Inner::Enum(TimestampSecondBuilder::with_capacity(capacity).with_data_type(ty))
            }
            ColumnType::Folded => Inner::Citext(citext::Builder::new(capacity)),
            ColumnType::Jsonb => Inner::Jsonb(BinaryBuilder::with_capacity(capacity, capacity * 32)),
            ColumnType::Interval(_) => Inner::Interval(IntervalMonthDayNanoBuilder::with_capacity(capacity)),
            ColumnType::Array(element) => {
                let element = element.column_type();
                let item = match crate::types::arrow_type(ty) {
                    DataType::List(item) => item,
                    other => Arc::new(Field::new("item", other, true)),
                };
                Inner::Array(Box::new(ListParts {
                    ty: element,
                    item,
                    elements: ColumnBuilder::new(&element, capacity),
                    lengths: Vec::with_capacity(capacity),
                    nulls: NullBufferBuilder::new(capacity),
                }))
            }
            ColumnType::TimestampTz(_) => {
                Inner::Timestamp(TimestampMicrosecondBuilder::with_capacity(capacity).with_timezone(UTC))
            }
        };
        Self { inner, trim: matches!(ty, ColumnType::Char(_)) }
    }

    /// Appends a value.
    ///
    /// # Errors
    /// `XX000` for a datum of another type, or a large value that was not fetched.
    pub fn append(&mut self, datum: DatumRef<'_>) -> Result<(), SqlError> {
        match (&mut self.inner, datum) {
            (Inner::Bool(b), DatumRef::Bool(v)) => b.append_value(v),
            (Inner::Int2(b), DatumRef::Int2(v)) => b.append_value(v),
            (Inner::Int4(b), DatumRef::Int4(v)) => b.append_value(v),
            (Inner::Int8(b), DatumRef::Int8(v)) => b.append_value(v),
            // All NaNs are one; Arrow compares their bits.
            (Inner::Float4(b), DatumRef::Float4(v)) => b.append_value(if v.is_nan() { f32::NAN } else { v }),
            (Inner::Float8(b), DatumRef::Float8(v)) => b.append_value(if v.is_nan() { f64::NAN } else { v }),
            (Inner::Numeric(b), DatumRef::Numeric(v)) => b.append_value(v),
            (Inner::Text(b), DatumRef::Text(v)) => {
                b.append_value(if self.trim { v.trim_end_matches(' ') } else { v });
            }
            (Inner::Text(b), DatumRef::Uuid(v)) => {
                let bytes = uuid_bytes(&v);
                b.append_value(std::str::from_utf8(&bytes).unwrap_or_default());
            }
            (Inner::Bytes(b), DatumRef::Bytes(v)) => b.append_value(v),
            (Inner::Ordered(b), DatumRef::Bytes(v)) => b.append(v)?,
            (Inner::VarNumeric(b), DatumRef::Bytes(v)) => b.append_value(v),
            (Inner::Date(b), DatumRef::Date(v)) => b.append_value(days_from_engine(v)),
            (Inner::Time(b), DatumRef::Time(v)) => b.append_value(v),
            (Inner::Timestamp(b), DatumRef::Timestamp(v) | DatumRef::TimestampTz(v)) => {
                b.append_value(us_from_engine(v));
            }
            (Inner::Enum(b), DatumRef::Int8(v)) => b.append_value(v),
            (Inner::Jsonb(b), DatumRef::Bytes(v)) => b.append_value(v),
            (Inner::Interval(b), DatumRef::Interval(v)) => {
                let value = crate::decode::Interval { months: v.months, days: v.days, us: v.micros };
                b.append_value(crate::decode::interval_value(value)?);
            }
            (Inner::Citext(b), DatumRef::Bytes(v)) => b.append(v)?,
            (Inner::Array(parts), DatumRef::Bytes(v)) => {
                let array = ArrayView::new(v, parts.ty)?;
                for element in array.iter() {
                    parts.elements.append(element?)?;
                }
                parts.lengths.push(array.len());
                parts.nulls.append_non_null();
            }
            (_, DatumRef::Null) => self.append_null(),
            (_, other) => {
                return Err(SqlError::internal(format!("a column does not hold values such as {other:?}")));
            }
        }
        Ok(())
    }

    /// Appends a null.
    pub fn append_null(&mut self) {
        match &mut self.inner {
            Inner::Bool(b) => b.append_null(),
            Inner::Int2(b) => b.append_null(),
            Inner::Int4(b) => b.append_null(),
            Inner::Int8(b) => b.append_null(),
            Inner::Float4(b) => b.append_null(),
            Inner::Float8(b) => b.append_null(),
            Inner::Numeric(b) => b.append_null(),
            Inner::VarNumeric(b) => b.append_null(),
            Inner::Text(b) => b.append_null(),
            Inner::Bytes(b) => b.append_null(),
            Inner::Ordered(b) => b.append_null(),
            Inner::Date(b) => b.append_null(),
            Inner::Time(b) => b.append_null(),
            Inner::Timestamp(b) => b.append_null(),
            Inner::Enum(b) => b.append_null(),
            Inner::Jsonb(b) => b.append_null(),
            Inner::Interval(b) => b.append_null(),
            Inner::Citext(b) => b.append_null(),
            Inner::Array(parts) => {
                parts.lengths.push(0);
                parts.nulls.append_null();
            }
        }
    }

    /// The column; the builder is empty afterwards.
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.inner {
            Inner::Bool(b) => Arc::new(b.finish()),
            Inner::Int2(b) => Arc::new(b.finish()),
            Inner::Int4(b) => Arc::new(b.finish()),
            Inner::Int8(b) => Arc::new(b.finish()),
            Inner::Float4(b) => Arc::new(b.finish()),
            Inner::Float8(b) => Arc::new(b.finish()),
            Inner::Numeric(b) => Arc::new(b.finish()),
            Inner::VarNumeric(b) => Arc::new(b.finish()),
            Inner::Text(b) => Arc::new(b.finish()),
            Inner::Bytes(b) => Arc::new(b.finish()),
            Inner::Ordered(b) => b.finish(),
            Inner::Date(b) => Arc::new(b.finish()),
            Inner::Time(b) => Arc::new(b.finish()),
            Inner::Timestamp(b) => Arc::new(b.finish()),
            Inner::Enum(b) => Arc::new(b.finish()),
            Inner::Jsonb(b) => Arc::new(b.finish()),
            Inner::Interval(b) => Arc::new(b.finish()),
            Inner::Citext(b) => b.finish(),
            Inner::Array(parts) => {
                let offsets = OffsetBuffer::from_lengths(std::mem::take(&mut parts.lengths));
                let (elements, nulls) = (parts.elements.finish(), parts.nulls.finish());
                Arc::new(ListArray::new(Arc::clone(&parts.item), offsets, elements, nulls))
            }
        }
    }
}
