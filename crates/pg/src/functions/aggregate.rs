//! `pg_single(x)`: the only value of a group; the aggregate behind scalar subqueries.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::pg::errors::to_datafusion;
use crate::wire::SqlError;

/// The aggregate.
pub(super) fn pg_single() -> AggregateUDF {
    AggregateUDF::new_from_impl(Single { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Single {
    signature: Signature,
}

impl AggregateUDFImpl for Single {
    fn name(&self) -> &str {
        "pg_single"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }
    fn return_field(&self, fields: &[FieldRef]) -> DfResult<FieldRef> {
        let field = fields.first().map_or_else(|| Field::new("", DataType::Null, true), |f| f.as_ref().clone());
        Ok(std::sync::Arc::new(field.with_name("pg_single").with_nullable(true)))
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(SingleAccumulator { value: ScalarValue::try_from(args.return_field.data_type())?, seen: false }))
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        Ok(vec![
            Field::new("value", args.return_field.data_type().clone(), true).into(),
            Field::new("seen", DataType::Boolean, false).into(),
        ])
    }
}

#[derive(Debug)]
struct SingleAccumulator {
    value: ScalarValue,
    seen: bool,
}

impl SingleAccumulator {
    fn more(&mut self, values: &ArrayRef, row: usize) -> DfResult<()> {
        if self.seen {
            return Err(to_datafusion(SqlError::new(
                "21000",
                "more than one row returned by a subquery used as an expression",
            )));
        }
        self.value = ScalarValue::try_from_array(values, row)?;
        self.seen = true;
        Ok(())
    }
}

impl Accumulator for SingleAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        // two rows are one too many, so no more than two are looked at
        for row in 0..values[0].len().min(2) {
            self.more(&values[0], row)?;
        }
        Ok(())
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(self.value.clone())
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() - size_of_val(&self.value)
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Boolean(Some(self.seen))])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        use datafusion::arrow::array::AsArray;
        let seen = states[1].as_boolean();
        for row in 0..seen.len() {
            if seen.value(row) {
                self.more(&states[0], row)?;
            }
        }
        Ok(())
    }
}
