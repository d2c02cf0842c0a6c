//! A value against all rows of a subquery: IN, ANY, ALL, with PostgreSQL's NULLs.
//!
//! | | some row decides | none does, and some comparison is NULL | otherwise |
//! |---|---|---|---|
//! | ANY | true | NULL | false |
//! | ALL | false | NULL | true |

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::and_kleene;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{Column, Literal, binary};

use super::function::Kind;

/// The answer so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    all: bool,
    decided: bool,
    unknown: bool,
}

impl Answer {
    pub(super) fn new(kind: Kind) -> Self {
        Self { all: matches!(kind, Kind::All(_)), decided: false, unknown: false }
    }
    /// Whether more rows cannot change it.
    pub(super) fn is_decided(self) -> bool {
        self.decided
    }
    pub(super) fn value(self) -> ScalarValue {
        ScalarValue::Boolean(match (self.decided, self.unknown) {
            (true, _) => Some(!self.all),
            (false, true) => None,
            (false, false) => Some(self.all),
        })
    }

    /// With some more rows.
    pub(super) fn add(&mut self, operand: &ScalarValue, op: Operator, rows: &ArrayRef) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let found = match (operand, rows.as_struct_opt()) {
            // Rows of several columns are equal if all of these are.
            (ScalarValue::Struct(operand), Some(rows)) if op == Operator::Eq => {
                let mut all: Option<BooleanArray> = None;
                for (operand, column) in operand.columns().iter().zip(rows.columns()) {
                    let found = compared(&ScalarValue::try_from_array(operand, 0)?, op, column)?;
                    all = Some(match all {
                        Some(all) => and_kleene(&all, &found)?,
                        None => found,
                    });
                }
                match all {
                    Some(all) => all,
                    None => return internal_err!("a row without columns"),
                }
            }
            (ScalarValue::Struct(_), _) => return internal_err!("rows that are compared so"),
            _ => compared(operand, op, rows)?,
        };
        self.unknown |= found.null_count() > 0;
        let deciding = if self.all { found.false_count() } else { found.true_count() };
        self.decided |= deciding > 0;
        Ok(())
    }
}

fn compared(operand: &ScalarValue, op: Operator, rows: &ArrayRef) -> Result<BooleanArray> {
    let schema = Arc::new(Schema::new(vec![Field::new("row", rows.data_type().clone(), true)]));
    let left = Arc::new(Literal::new(operand.clone()));
    let compare = binary(left, op, Arc::new(Column::new("row", 0)), &schema)?;
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(rows)])?;
    let found = compare.evaluate(&batch)?.into_array(rows.len())?;
    match found.as_boolean_opt() {
        Some(found) => Ok(found.clone()),
        None => internal_err!("a comparison without a truth"),
    }
}

/// All rows of a subquery that reads no outer value.
#[derive(Debug)]
pub(super) struct KeptRows {
    rows: ArrayRef,
    keys: Option<Keys>,
}

#[derive(Debug)]
struct Keys {
    converter: RowConverter,
    known: HashSet<Box<[u8]>>,
    nulls: bool,
}

/// Types whose values are equal exactly if their keys are.
fn has_keys(ty: &DataType) -> bool {
    ty.is_integer()
        || matches!(
            ty,
            DataType::Boolean
                | DataType::Utf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::BinaryView
                | DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Time64(_)
        )
}

impl KeptRows {
    pub(super) fn new(kind: Kind, rows: ArrayRef) -> Result<Self> {
        let keys = match kind {
            Kind::Any(Operator::Eq) | Kind::All(Operator::NotEq) if has_keys(rows.data_type()) => {
                let converter = RowConverter::new(vec![SortField::new(rows.data_type().clone())])?;
                let all = converter.convert_columns(std::slice::from_ref(&rows))?;
                let known = (0..rows.len()).filter(|row| rows.is_valid(*row)).map(|row| all.row(row).as_ref().into());
                Some(Keys { known: known.collect(), nulls: rows.null_count() > 0, converter })
            }
            _ => None,
        };
        Ok(Self { rows, keys })
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, |keys| keys.known.iter().map(|key| key.len() + 24).sum());
        self.rows.get_array_memory_size() + keys
    }

    pub(super) fn answer(&self, kind: Kind, operand: &ScalarValue) -> Result<ScalarValue> {
        let mut answer = Answer::new(kind);
        match (&self.keys, kind) {
            (Some(keys), _) if operand.data_type() == *self.rows.data_type() => {
                if operand.is_null() {
                    answer.unknown = !self.rows.is_empty();
                } else {
                    let key = keys.converter.convert_columns(&[operand.to_array()?])?;
                    answer.decided = keys.known.contains(key.row(0).as_ref());
                    answer.unknown = keys.nulls;
                }
            }
            (_, Kind::Any(op) | Kind::All(op)) => answer.add(operand, op, &self.rows)?,
            _ => return internal_err!("nothing to compare"),
        }
        Ok(answer.value())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float64Array, Int32Array};

    use super::*;

    /// The table of the module's head, by keys and by comparisons.
    #[test]
    fn nulls() -> Result<()> {
        let (eq, ne) = (Kind::Any(Operator::Eq), Kind::All(Operator::NotEq));
        for (rows, operand, wanted) in [
            (vec![], Some(1), Some(false)),
            (vec![], None, Some(false)),
            (vec![Some(1), None], Some(1), Some(true)),
            (vec![Some(1), None], Some(2), None),
            (vec![Some(1)], Some(2), Some(false)),
            (vec![Some(1)], None, None),
        ] {
            let ints: ArrayRef = Arc::new(Int32Array::from(rows.clone()));
            let floats: Vec<Option<f64>> = rows.iter().map(|row| row.map(f64::from)).collect();
            let floats: ArrayRef = Arc::new(Float64Array::from(floats));
            let operands = [ScalarValue::Int32(operand), ScalarValue::Float64(operand.map(f64::from))];
            for (rows, operand) in [ints, floats].into_iter().zip(operands) {
                let any = KeptRows::new(eq, Arc::clone(&rows))?.answer(eq, &operand)?;
                assert_eq!(any, ScalarValue::Boolean(wanted), "{operand} = ANY {rows:?}");
                let all = KeptRows::new(ne, Arc::clone(&rows))?.answer(ne, &operand)?;
                assert_eq!(all, ScalarValue::Boolean(wanted.map(|w| !w)), "{operand} <> ALL {rows:?}");
            }
        }
        Ok(())
    }
}
