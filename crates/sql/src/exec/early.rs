//! Conditions that a scan looks at before it decodes what else is wanted of a row (late materialization).
//!
//! A filter right above a scan drops rows whose other columns were decoded for nothing. The scan is told the filter's terms,
//! from the first one on, as far as they cannot fail: it decodes the columns of the first for all rows that it has read, those of the
//! next for the rows that the first lets through, and so on, and the columns that no term reads for what is left.
//!
//! Invariants:
//! 1. The filter stays where it is, and is asked of what is left: nothing here is needed for an answer to be right, and a term that lets most
//!    rows through is given up (it would be evaluated twice for nothing).
//! 2. A row is dropped only where a term is false or NULL, and only terms that cannot fail are asked ([`is_harmless`]), in the order that the filter
//!    has them in: no error is lost that the filter would have met before it came to that term.
//! 3. Rows keep their order.
//!
//! What compares a column of integers, numerics, dates or times with a value is asked of the row's stored bytes before it is copied from its page
//! ([`RowTest`]); such a term is asked once more of what is left, lets all of it through, and is soon given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{filter, prep_null_mask_filter};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};

use resurgam_engine::{ColumnBounds, ColumnType, Datum, RowTest, Table, Tested};

use crate::exec::access_path::evaluate_constant;
use crate::exec::apply::{is_harmless_in_scans, is_harmless_operator};
use crate::exec::bridge::{KeyValue, key_value};
use crate::exec::filter::ByteFilterExec;
use crate::exec::late::moved;
use crate::exec::scan::ScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// A thread with less stack than this goes on with so much more.
const STACK_LEFT: usize = 256 << 10;
const STACK_MORE: usize = 4 << 20;

/// A term is given up when it was asked of so many rows and let more than [`MANY`] of them through.
const ASKED_ENOUGH: u64 = 4096;
const MANY: f64 = 0.7;
/// A test of the rows' bytes is given up when it was asked of as many and rejected less than this.
const FEW: f64 = 0.1;

/// Tells scans what the filters above them ask. It has to be the last rule: others look at filters and scans.
#[derive(Debug)]
pub(crate) struct EarlyConditions;

impl PhysicalOptimizerRule for EarlyConditions {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        told(plan)
    }
    fn name(&self) -> &str {
        "early_conditions"
    }
    fn schema_check(&self) -> bool {
        true
    }
}

fn told(plan: Plan) -> Result<Plan> {
    let keep = || ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    if let Some(predicate) = predicate_of(&plan)
        && let [input] = plan.children().as_slice()
        && let Some(scan) = input.downcast_ref::<ScanExec>()
    {
        let Some(early) = Early::of(predicate, &scan.schema()) else { return Ok(plan) };
        let scan: Plan = Arc::new(scan.with_early(early));
        return Arc::clone(&plan).replace_children(vec![scan], keep());
    }
    let children = plan.children();
    if children.is_empty() {
        return Ok(plan);
    }
    let mut changed = false;
    let mut done = Vec::with_capacity(children.len());
    for child in children {
        // A plan may be as deep as a statement is long.
        let new = stacker::maybe_grow(STACK_LEFT, STACK_MORE, || told(Arc::clone(child)))?;
        changed |= !Arc::ptr_eq(&new, child);
        done.push(new);
    }
    if changed { plan.replace_children(done, keep()) } else { Ok(plan) }
}

fn predicate_of(plan: &Plan) -> Option<&Arc<dyn PhysicalExpr>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(filter.predicate());
    }
    Some(plan.downcast_ref::<ByteFilterExec>()?.filter().predicate())
}

/// Whether an expression cannot fail, whatever the row, and says the same each time. (What is constant is evaluated when a run begins, and may fail there.)
fn is_harmless(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if is_constant(expr) {
        return true;
    }
    let itself = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        is_harmless_operator(binary.op())
    } else if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        is_harmless_in_scans(call.name())
    } else {
        expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.is::<InListExpr>()
            || expr.is::<NotExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
    };
    itself && expr.children().into_iter().all(is_harmless)
}

/// Whether an expression has one value in a run: a cast of parameters and literals, say.
fn is_constant(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let itself = match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) => call.name() == "$" && call.args().is_empty(),
        None => expr.is::<Literal>() || expr.is::<CastExpr>(),
    };
    itself && expr.children().into_iter().all(is_constant)
}

/// What a scan was told.
#[derive(Clone, Debug)]
pub(crate) struct Early {
    terms: Arc<[Term]>,
    /// Rows that were dropped, in all runs of the plan; for EXPLAIN ANALYZE.
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Term {
    /// Over `schema`.
    condition: Arc<dyn PhysicalExpr>,
    /// The scan's columns that it reads.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl Term {
    /// `None`: it reads no column.
    fn of(condition: &Arc<dyn PhysicalExpr>, scan: &Schema) -> Option<Self> {
        let mut columns: Vec<usize> = collect_columns(condition).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let schema = Arc::new(scan.project(&columns).ok().filter(|schema| !schema.fields().is_empty())?);
        let condition = moved(condition, &|column| columns.binary_search(&column).ok()).ok()?;
        Some(Self { condition, columns, schema })
    }
}

impl Early {
    /// The terms of a filter over a scan that are asked early; `None` if there are none.
    fn of(predicate: &Arc<dyn PhysicalExpr>, scan: &Schema) -> Option<Self> {
        // (A term without a column is not asked here, so that nothing behind it may be.)
        let is_asked = |term: &&Arc<dyn PhysicalExpr>| is_harmless(term) && !collect_columns(term).is_empty();
        let terms = split_conjunction(predicate).into_iter().take_while(is_asked);
        let terms: Arc<[Term]> = terms.filter_map(|term| Term::of(term, scan)).collect();
        (!terms.is_empty()).then(|| Self { terms, dropped: Arc::default() })
    }

    /// See the field.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// For a run, whose parameters have their values, of a scan of these columns of a table.
    pub(crate) fn begin(&self, table: &Table, columns: &[usize]) -> EarlyRun {
        let mut run = self.run();
        let asked = self.terms.iter().zip(&run.asked).filter(|(_, asked)| !asked.is_left);
        let bounds = asked.filter_map(|(term, asked)| {
            let column = *columns.get(*term.columns.first()?)?;
            bounds_of(&asked.condition, column, &table.columns.get(column)?.ty)
        });
        run.test = RowTest::new(table, bounds).map(Arc::new);
        run
    }

    /// As [`Early::begin`], without a test of the rows' bytes.
    fn run(&self) -> EarlyRun {
        let mut fails = false;
        let asked = self.terms.iter().map(|term| {
            let condition = with_values(&term.condition);
            // From the first one on that the filter is to fail in.
            fails |= condition.is_err();
            let condition = condition.unwrap_or_else(|_| Arc::clone(&term.condition));
            Asked { condition, rows: 0, passed: 0, is_left: fails }
        });
        EarlyRun { early: self.clone(), asked: asked.collect(), test: None, tested: Tested::default() }
    }
}

/// The same with literals in place of what is constant.
///
/// # Errors
/// Those of evaluating it: whatever it is that went wrong, the filter meets it.
fn with_values(condition: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let valued = Arc::clone(condition).transform_down(|expr| match is_constant(&expr) && !expr.is::<Literal>() {
        true => {
            let value: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(evaluate_constant(&expr)?));
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        }
        false => Ok(Transformed::no(expr)),
    });
    valued.data()
}

/// The bounds that a comparison with a value sets to a column, which is all that it reads.
fn bounds_of(condition: &Arc<dyn PhysicalExpr>, column: usize, ty: &ColumnType) -> Option<ColumnBounds> {
    let comparison = condition.downcast_ref::<BinaryExpr>()?;
    let (op, value) = match (comparison.left(), comparison.right()) {
        (left, right) if left.is::<Column>() => (*comparison.op(), right),
        (left, right) if right.is::<Column>() => (comparison.op().swap()?, left),
        _ => return None,
    };
    let KeyValue::Exact(value) = key_value(value.downcast_ref::<Literal>()?.value(), ty).ok()? else { return None };
    let value = match value {
        Datum::Int2(v) => v.into(),
        Datum::Int4(v) | Datum::Date(v) => v.into(),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => v.into(),
        Datum::Numeric(v) => v,
        _ => return None,
    };
    let (low, high) = match op {
        Operator::Eq => (value, value),
        Operator::Lt => (i128::MIN, value.checked_sub(1)?),
        Operator::LtEq => (i128::MIN, value),
        Operator::Gt => (value.checked_add(1)?, i128::MAX),
        Operator::GtEq => (value, i128::MAX),
        _ => return None,
    };
    Some(ColumnBounds { column, low, high })
}

/// A term in a run.
#[derive(Clone, Debug)]
struct Asked {
    condition: Arc<dyn PhysicalExpr>,
    rows: u64,
    passed: u64,
    /// It is not asked any more.
    is_left: bool,
}

/// See [`Early::begin`].
#[derive(Clone, Debug)]
pub(crate) struct EarlyRun {
    early: Early,
    asked: Vec<Asked>,
    /// What the rows' bytes say, until it turns out to be in vain.
    test: Option<Arc<RowTest>>,
    /// What became of it by now.
    tested: Tested,
}

/// Rows that are left of a batch, and columns of them that were decoded.
pub(crate) struct Left {
    /// Their numbers in the batch, ascending; `None`: all of them.
    pub(crate) rows: Option<Vec<u32>>,
    /// By column of the scan.
    pub(crate) columns: Vec<Option<ArrayRef>>,
}

impl EarlyRun {
    /// What a cursor over the table's own tree can be told.
    pub(crate) fn test(&self) -> Option<&Arc<RowTest>> {
        self.test.as_ref()
    }

    /// What became of the test, which is given up where it rejects next to nothing: false then.
    pub(crate) fn note(&mut self, tested: Tested) -> bool {
        self.early.dropped.fetch_add(tested.rejected, Ordering::Relaxed);
        self.tested.rows += tested.rows;
        self.tested.rejected += tested.rejected;
        let is_in_vain =
            self.tested.rows >= ASKED_ENOUGH && (self.tested.rejected as f64) < self.tested.rows as f64 * FEW;
        if is_in_vain {
            self.test = None;
        }
        !is_in_vain
    }

    /// The rows of a batch of `count` that are to be decoded as a whole; `None`: all of them. `decode` gives a column of the rows with
    /// these numbers (`None`: all), or nothing if it has values that are not in their rows.
    ///
    /// # Errors
    /// Those of `decode`.
    pub(crate) fn left(
        &mut self,
        count: usize,
        columns: usize,
        mut decode: impl FnMut(usize, Option<&[u32]>) -> Result<Option<ArrayRef>>,
    ) -> Result<Option<Left>> {
        let mut left: Option<Vec<u32>> = None;
        let mut decoded: Vec<Option<ArrayRef>> = vec![None; columns];
        let early = self.early.clone();
        'terms: for (term, asked) in early.terms.iter().zip(&mut self.asked) {
            let rows = left.as_ref().map_or(count, Vec::len);
            if asked.is_left || rows == 0 {
                continue;
            }
            for column in &term.columns {
                if decoded[*column].is_none() {
                    decoded[*column] = decode(*column, left.as_deref())?;
                }
                if decoded[*column].is_none() {
                    break 'terms;
                }
            }
            let arrays = term.columns.iter().filter_map(|column| decoded[*column].clone()).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&term.schema), arrays, &options)?;
            let truth = asked.condition.evaluate(&batch).and_then(|truth| truth.into_array(rows));
            // The filter says what is wrong.
            let Some(truth) = truth.ok().and_then(|truth| truth.as_boolean_opt().cloned()) else {
                asked.is_left = true;
                continue;
            };
            let truth = if truth.nulls().is_some() { prep_null_mask_filter(&truth) } else { truth };
            let passed = truth.true_count();
            asked.rows += rows as u64;
            asked.passed += passed as u64;
            asked.is_left = asked.rows >= ASKED_ENOUGH && asked.passed as f64 > asked.rows as f64 * MANY;
            if passed < rows {
                left = Some(passing(left, &truth));
                for array in decoded.iter_mut().flatten() {
                    *array = filter(array, &truth)?;
                }
            }
        }
        if let Some(rows) = &left {
            early.dropped.fetch_add((count - rows.len()) as u64, Ordering::Relaxed);
        }
        let has_any = left.is_some() || decoded.iter().any(Option::is_some);
        Ok(has_any.then_some(Left { rows: left, columns: decoded }))
    }
}

/// Those of the rows that are true.
fn passing(rows: Option<Vec<u32>>, truth: &BooleanArray) -> Vec<u32> {
    let indices = truth.values().set_indices();
    match rows {
        Some(rows) => indices.filter_map(|at| rows.get(at).copied()).collect(),
        None => indices.map(|at| at as u32).collect(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int32Array;
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, is_null, lit};

    use super::*;

    type Expr = Arc<dyn PhysicalExpr>;

    fn schema() -> Schema {
        Schema::new(["a", "b", "c"].map(|name| Field::new(name, DataType::Int32, true)).to_vec())
    }

    fn compared(column: &str, op: Operator, value: i32) -> Expr {
        let schema = schema();
        binary(col(column, &schema).expect("a column"), op, lit(value), &schema).expect("a comparison")
    }

    fn all(terms: Vec<Expr>) -> Expr {
        let both = |a, b| binary(a, Operator::And, b, &schema()).expect("AND");
        terms.into_iter().reduce(both).expect("a term")
    }

    /// Columns `a` = 0, 1, …, 99, `b` = a % 10 (NULL for 3), `c` = 7.
    fn column(at: usize, rows: Option<&[u32]>, asked: &mut Vec<(usize, usize)>) -> ArrayRef {
        let all: Vec<u32> = (0..100).collect();
        let rows = rows.unwrap_or(&all);
        asked.push((at, rows.len()));
        let value = |row: &u32| match at {
            0 => Some(*row as i32),
            1 => Some(*row as i32 % 10).filter(|b| *b != 3),
            _ => Some(7),
        };
        Arc::new(rows.iter().map(value).collect::<Int32Array>())
    }

    #[test]
    fn each_term_decodes_its_column_of_what_is_left() {
        let predicate = all(vec![compared("a", Operator::Lt, 20), compared("b", Operator::LtEq, 3)]);
        let mut run = Early::of(&predicate, &schema()).expect("terms").run();
        let mut asked = Vec::new();
        let left = run.left(100, 3, |at, rows| Ok(Some(column(at, rows, &mut asked)))).expect("left").expect("some");
        assert_eq!(asked, [(0, 100), (1, 20)]);
        assert_eq!(left.rows, Some(vec![0, 1, 2, 10, 11, 12]));
        let lengths: Vec<Option<usize>> = left.columns.iter().map(|array| array.as_ref().map(|a| a.len())).collect();
        assert_eq!(lengths, [Some(6), Some(6), None]);
        assert_eq!(run.early.dropped(), 94);
    }

    #[test]
    fn what_may_fail_is_not_asked_nor_what_follows_it() {
        let quotient = binary(compared_quotient(), Operator::Gt, lit(0), &schema()).expect("a comparison");
        let predicate = all(vec![compared("a", Operator::Lt, 20), quotient.clone(), compared("c", Operator::Eq, 7)]);
        let early = Early::of(&predicate, &schema()).expect("a term");
        assert_eq!(early.terms.iter().map(|term| term.columns.clone()).collect::<Vec<_>>(), [vec![0]]);
        assert!(Early::of(&all(vec![quotient, compared("a", Operator::Lt, 20)]), &schema()).is_none());
        let null = is_null(col("c", &schema()).expect("a column")).expect("IS NULL");
        assert!(Early::of(&null, &schema()).is_some());
    }

    fn compared_quotient() -> Expr {
        binary(lit(1), Operator::Divide, col("b", &schema()).expect("a column"), &schema()).expect("a quotient")
    }

    #[test]
    fn a_term_that_lets_most_through_is_given_up() {
        let mut run = Early::of(&compared("a", Operator::Lt, 90), &schema()).expect("a term").run();
        for batch in 0..60 {
            let mut asked = Vec::new();
            let left = run.left(100, 3, |at, rows| Ok(Some(column(at, rows, &mut asked)))).expect("left");
            assert_eq!(left.is_some(), batch < 41, "{batch}");
        }
    }
}
