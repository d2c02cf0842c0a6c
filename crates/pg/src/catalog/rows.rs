//! Rows of system relations, by column name, and the batch that they become.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit};
use resurgam_numeric::Numeric;

use super::defs::SystemRelation;
use crate::errors::from_arrow;
use crate::types::{TEXT, UTC};
use crate::wire::SqlError;

/// A value of a system relation.
#[derive(Clone, Debug)]
pub(super) enum V {
    Null,
    Bool(bool),
    /// Any integer or oid, and floats that are whole.
    Int(i64),
    Float(f64),
    Text(String),
    /// Microseconds since 1970.
    Time(i64),
    /// An interval.
    Seconds(i64),
    List(Vec<V>),
}

impl From<bool> for V {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<&str> for V {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}
impl From<String> for V {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
macro_rules! from_int {
    ($($ty:ty),+) => {$(
        impl From<$ty> for V {
            fn from(value: $ty) -> Self {
                Self::Int(value as i64)
            }
        }
    )+};
}
from_int!(i16, i32, i64, u16, u32, u64, usize);
impl From<f64> for V {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
impl From<char> for V {
    fn from(value: char) -> Self {
        Self::Text(value.to_string())
    }
}
impl<T: Into<V>> From<Option<T>> for V {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
impl<T: Into<V>> From<Vec<T>> for V {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// Collects rows of one relation.
pub(super) struct Rows<'a> {
    relation: &'a SystemRelation,
    positions: HashMap<&'static str, usize>,
    columns: Vec<Vec<V>>,
    count: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn new(relation: &'a SystemRelation) -> Self {
        Self {
            relation,
            positions: relation.columns.iter().enumerate().map(|(at, c)| (c.name, at)).collect(),
            columns: vec![Vec::new(); relation.columns.len()],
            count: 0,
        }
    }

    /// Adds a row. Columns that are not named are null, or false, 0 or empty if never null.
    pub(super) fn add(&mut self, values: impl IntoIterator<Item = (&'static str, V)>) {
        for (name, value) in values {
            match self.positions.get(name) {
                Some(&at) => self.columns[at].push(value),
                None => debug_assert!(false, "{} has no column {name}", self.relation.name),
            }
        }
        self.count += 1;
        for (at, column) in self.columns.iter_mut().enumerate() {
            if column.len() < self.count {
                let definition = &self.relation.columns[at];
                column.push(if definition.not_null {
                    default_of(self.relation.schema.field(at).data_type())
                } else {
                    V::Null
                });
            }
        }
    }

    /// Another value of the row that was added last.
    pub(super) fn put(&mut self, name: &'static str, value: V) {
        match self.positions.get(name).and_then(|at| self.columns[*at].last_mut()) {
            Some(slot) => *slot = value,
            None => debug_assert!(false, "{} has no column {name}", self.relation.name),
        }
    }

    /// The batch.
    pub(super) fn finish(self) -> Result<RecordBatch, SqlError> {
        let arrays = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, values)| {
                let field = self.relation.schema.field(at);
                let texts = array(&text_form(field), values)?;
                crate::ordered::cast(&texts, field.data_type(), &crate::datetime::Zone::Utc).unwrap_or(Ok(texts))
            })
            .collect::<Result<Vec<_>, SqlError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        RecordBatch::try_new_with_options(self.relation.schema.clone(), arrays, &options)
            .map_err(|error| from_arrow(&error))
    }
}

/// In what form a column's values are written down before it has its own: addresses are written as text.
fn text_form(field: &Field) -> DataType {
    match crate::ordered::type_of_data(field.data_type()) {
        Some(_) => TEXT,
        None => field.data_type().clone(),
    }
}

fn default_of(ty: &DataType) -> V {
    match ty {
        DataType::Boolean => V::Bool(false),
        DataType::Utf8View => V::Text(String::new()),
        DataType::List(_) => V::List(vec![]),
        ty if ty.is_numeric() => V::Int(0),
        _ => V::Null,
    }
}

macro_rules! ints {
    ($values:expr, $array:ty, $native:ty) => {
        Arc::new($values.iter().map(|v| if let V::Int(v) = v { Some(*v as $native) } else { None }).collect::<$array>())
    };
}

fn array(ty: &DataType, values: &[V]) -> Result<ArrayRef, SqlError> {
    Ok(match ty {
        DataType::Boolean => {
            Arc::new(values.iter().map(|v| if let V::Bool(v) = v { Some(*v) } else { None }).collect::<BooleanArray>())
        }
        DataType::Int16 => ints!(values, Int16Array, i16),
        DataType::Int32 => ints!(values, Int32Array, i32),
        DataType::Int64 => ints!(values, Int64Array, i64),
        DataType::UInt32 => ints!(values, UInt32Array, u32),
        DataType::Float32 => Arc::new(
            values
                .iter()
                .map(|v| match v {
                    V::Int(v) => Some(*v as f32),
                    V::Float(v) => Some(*v as f32),
                    _ => None,
                })
                .collect::<Float32Array>(),
        ),
        DataType::Float64 => Arc::new(
            values
                .iter()
                .map(|v| match v {
                    V::Int(v) => Some(*v as f64),
                    V::Float(v) => Some(*v),
                    _ => None,
                })
                .collect::<Float64Array>(),
        ),
        DataType::Utf8View => Arc::new(
            values
                .iter()
                .map(|v| match v {
                    V::Text(text) => Some(text.clone()),
                    V::Int(number) => Some(number.to_string()),
                    _ => None,
                })
                .collect::<StringViewArray>(),
        ),
        DataType::Timestamp(_, zone) => {
            let array: TimestampMicrosecondArray =
                values.iter().map(|v| if let V::Time(us) = v { Some(*us) } else { None }).collect();
            match zone {
                Some(_) => Arc::new(array.with_timezone(UTC)),
                None => Arc::new(array),
            }
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => Arc::new(
            values
                .iter()
                .map(|v| match v {
                    V::Seconds(seconds) => Some(IntervalMonthDayNano::new(0, 0, seconds * 1_000_000_000)),
                    _ => None,
                })
                .collect::<IntervalMonthDayNanoArray>(),
        ),
        DataType::LargeBinary => {
            let numeric = |v: &V| match v {
                V::Int(v) => Numeric::from_scaled((*v).into(), 0).ok().map(|number| number.encoded()),
                _ => None,
            };
            Arc::new(values.iter().map(numeric).collect::<LargeBinaryArray>())
        }
        DataType::List(field) => {
            let mut flat = Vec::new();
            let mut lengths = Vec::with_capacity(values.len());
            let mut valid = Vec::with_capacity(values.len());
            for value in values {
                match value {
                    V::List(items) => {
                        lengths.push(items.len());
                        valid.push(true);
                        flat.extend(items.iter().cloned());
                    }
                    _ => {
                        lengths.push(0);
                        valid.push(false);
                    }
                }
            }
            let inner = array(field.data_type(), &flat)?;
            Arc::new(
                ListArray::try_new(
                    field.clone(),
                    datafusion::arrow::buffer::OffsetBuffer::from_lengths(lengths),
                    inner,
                    Some(valid.into()),
                )
                .map_err(|error| from_arrow(&error))?,
            )
        }
        other => new_null_array(other, values.len()),
    })
}
