//! The values of a kept plan's parameters: there while it runs, and at no other time.
//!
//! A plan that is kept is made once and run with other values each time, so no value may get into
//! it. Where DataFusion evaluates, simplifies, prunes or caches by a constant when it makes a plan
//! is listed in `docs/parameters.md`; a list of such places is never complete. Here the class of
//! fault is made impossible instead:
//!
//! 1. A [`ParamCell`] belongs to one physical plan, and a run of it has it to itself. It is **empty** while the plan is made and between its runs. Whoever asks
//!    an empty cell gets an error, and the cell remembers that it was asked.
//! 2. A plan whose cell was asked while it was made is not kept ([`made_without_values`]): whether
//!    the error was passed on or swallowed, the statement is planned for each run with its values in
//!    place. So a value that planning has to know makes a statement slow, never wrong.
//! 3. The readers ([`ParamFunction`], [`AnyOf`](crate::exec::any_of::AnyOf)) are volatile in DataFusion's
//!    sense, so that well-behaved rules do not even ask.
//! 4. What a reader keeps from one batch to the next is kept with the number of the run
//!    ([`ParamCell::run`]) and made anew in the next.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use parking_lot::RwLock;

/// The values of the present run; see the module's head.
#[derive(Debug, Default)]
pub(crate) struct ParamCell {
    values: RwLock<Option<Arc<[ScalarValue]>>>,
    /// Runs so far.
    run: AtomicU64,
    /// Somebody wanted a value when there was none.
    asked_early: AtomicBool,
}

impl ParamCell {
    /// A run begins.
    pub(crate) fn fill(&self, values: Arc<[ScalarValue]>) {
        self.run.fetch_add(1, Ordering::Relaxed);
        *self.values.write() = Some(values);
    }

    /// The run has ended.
    pub(crate) fn clear(&self) {
        *self.values.write() = None;
    }

    /// The number of the present run.
    pub(crate) fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// No run is under way.
    pub(crate) fn get(&self, index: usize) -> Result<ScalarValue> {
        match self.values.read().as_ref() {
            Some(values) => values.get(index).cloned().ok_or_else(|| no_value(index)),
            None => {
                self.asked_early.store(true, Ordering::Relaxed);
                Err(DataFusionError::Internal(format!("parameter ${} is asked for before it has a value", index + 1)))
            }
        }
    }

    fn was_asked_early(&self) -> bool {
        self.asked_early.load(Ordering::Relaxed)
    }
}

#[cold]
fn no_value(index: usize) -> DataFusionError {
    DataFusionError::Internal(format!("no value for parameter ${}", index + 1))
}

/// What was made with an empty cell, if making it asked for no value; `None`: it cannot be kept.
/// An error that came of asking is not the statement's, so it does not come out here.
pub(crate) fn made_without_values<T>(cell: &ParamCell, made: Result<T>) -> Result<Option<T>> {
    match made {
        _ if cell.was_asked_early() => Ok(None),
        made => made.map(Some),
    }
}

/// Reads parameter `index` of `cell`.
#[derive(Debug)]
pub(crate) struct ParamFunction {
    pub(crate) index: usize,
    field: FieldRef,
    cell: Arc<ParamCell>,
    signature: Signature,
}

impl ParamFunction {
    pub(crate) fn new(index: usize, field: FieldRef, cell: Arc<ParamCell>) -> Self {
        Self { index, field, cell, signature: Signature::nullary(Volatility::Volatile) }
    }
}

impl PartialEq for ParamFunction {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && Arc::ptr_eq(&self.cell, &other.cell)
    }
}
impl Eq for ParamFunction {}
impl Hash for ParamFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl ScalarUDFImpl for ParamFunction {
    fn name(&self) -> &str {
        "$"
    }
    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(format!("${}", self.index + 1))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.cell.get(self.index)?))
    }
}

/// Index of a placeholder such as `$3` (then 2).
pub(crate) fn placeholder_index(id: &str) -> Option<usize> {
    id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::execution_props::ExecutionProps;
    use datafusion::logical_expr::{ScalarUDF, in_list, lit};
    use datafusion::physical_expr::create_physical_expr;

    use super::*;
    use crate::exec::access_path::evaluate_constant;

    /// Whoever asks while a plan is made is noted, though the error is swallowed; values are there only in
    /// a run.
    #[test]
    fn no_value_is_there_but_in_a_run() {
        let cell = Arc::<ParamCell>::default();
        let parameter = |index: usize| {
            let field = Arc::new(Field::new("$", DataType::Int32, true));
            ScalarUDF::new_from_impl(ParamFunction::new(index, field, Arc::clone(&cell))).call(vec![])
        };
        let make =
            |expr: &Expr| create_physical_expr(expr, &DFSchema::empty(), &ExecutionProps::new(), &Default::default());
        let sum = make_kept(&cell, make(&(parameter(0) + parameter(1)))).expect("nobody asked");
        assert!(evaluate_constant(&sum).is_err());
        let cell_of_list = &cell;
        cell.asked_early.store(false, Ordering::Relaxed);
        // DataFusion's list looks for constants, and makes do without.
        let list = make(&in_list(lit(1), vec![parameter(0), parameter(1)], false));
        assert!(list.is_ok() && make_kept(cell_of_list, list).is_none());
        for values in [[1, 2], [30, 40]] {
            cell.fill(values.map(|value| ScalarValue::Int32(Some(value))).into());
            assert_eq!(evaluate_constant(&sum).expect("a sum"), ScalarValue::Int32(Some(values.iter().sum())));
            assert!(cell.get(2).is_err());
            cell.clear();
            assert!(evaluate_constant(&sum).is_err());
        }
    }

    fn make_kept<T>(cell: &ParamCell, made: Result<T>) -> Option<T> {
        made_without_values(cell, made).expect("no error comes out")
    }
}
