//! Long chains of operators as calls of as many arguments as there are terms, so that a plan stays shallow.
//!
//! What the query engine does with an expression takes time, and stack, with a power of its depth. A sum of 20,000 terms is
//! therefore no tree of 20,000 levels here: [`Fold`] has its terms as arguments and computes from the left to the
//! right, as the operators would. Terms joined by AND and OR stay such (they are evaluated only as far as need be), in
//! groups that [`together`] keeps apart: nobody makes one long chain of them again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use crate::exec::bridge;
use crate::pg::functions::checked_arithmetic;
use crate::pg::running;

/// The value so far, in the expression of a step.
const SO_FAR: &str = "so_far";
/// The next term, in the expression of a step.
const NEXT: &str = "next";

/// What a step computes with.
pub(crate) fn so_far() -> Expr {
    Expr::Column(Column::from_name(SO_FAR))
}

/// See [`so_far`].
pub(crate) fn next() -> Expr {
    Expr::Column(Column::from_name(NEXT))
}

/// Whether an expression over [`so_far`] and [`next`] may be hidden in a step: nothing of it depends on the session,
/// which is known by the names of functions.
pub(crate) fn is_step(expr: &Expr) -> Result<bool> {
    let depends = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::Column(_) | Expr::Literal(..) | Expr::BinaryExpr(_) | Expr::Cast(_) => false,
        _ => true,
    };
    Ok(!expr.exists(|expr| Ok(depends(expr)))?)
}

/// Whether the steps of such a call put texts together, or compare them for equality, and nothing else.
pub(crate) fn is_of_equality(function: &ScalarUDF) -> bool {
    let fine = |expr: &Expr| match expr {
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::StringConcat | Operator::Eq),
        Expr::Column(_) | Expr::Literal(..) | Expr::Case(_) | Expr::Cast(_) => true,
        _ => false,
    };
    let of = |step: &Expr| !step.exists(|expr| Ok(!fine(expr))).unwrap_or(true);
    function.inner().downcast_ref::<Fold>().is_some_and(|fold| fold.steps.iter().all(of))
}

/// `((a + b) - c) + d …` of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fold {
    /// What a step computes from [`so_far`] and [`next`]: each kind of step once.
    steps: Vec<Expr>,
    /// Which step each argument behind the first takes.
    which: Vec<usize>,
    data: DataType,
    signature: Signature,
}

impl Fold {
    /// A chain that begins with `first` and goes on with steps of these kinds.
    pub(crate) fn call(first: Expr, links: Vec<(Expr, Expr)>, data: DataType) -> Expr {
        let mut steps: Vec<Expr> = Vec::new();
        let mut which = Vec::with_capacity(links.len());
        let mut args = Vec::with_capacity(links.len() + 1);
        args.push(first);
        for (step, arg) in links {
            let at = steps.iter().position(|known| *known == step).unwrap_or_else(|| {
                steps.push(step);
                steps.len() - 1
            });
            which.push(at);
            args.push(arg);
        }
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { steps, which, data, signature }).call(args)
    }

    /// A step over values of this type.
    fn step(&self, at: usize, next: &DataType) -> Result<(Arc<dyn PhysicalExpr>, Arc<Schema>)> {
        let fields = vec![Field::new(SO_FAR, self.data.clone(), true), Field::new(NEXT, next.clone(), true)];
        let schema = Schema::new(fields);
        let named = DFSchema::try_from(schema.clone())?;
        let Some(step) = self.steps.get(at) else { return internal_err!("a chain without its steps") };
        let step = checked_arithmetic(step.clone(), &named)?;
        Ok((create_physical_expr(&step, &named, &ExecutionProps::new(), &Default::default())?, Arc::new(schema)))
    }
}

impl ScalarUDFImpl for Fold {
    fn name(&self) -> &str {
        "fold"
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(short_name(self, args))
    }
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(short_name(self, args))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data.clone())
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut values = args.args.into_iter();
        let Some(mut value) = values.next() else { return internal_err!("a chain without terms") };
        let mut made: Vec<(usize, DataType, Arc<dyn PhysicalExpr>, Arc<Schema>)> = Vec::new();
        for (at, next) in self.which.iter().zip(values) {
            running::check().map_err(bridge::failure)?;
            let ty = next.data_type();
            let known = made.iter().position(|(step, of, ..)| step == at && *of == ty);
            let known = match known {
                Some(known) => known,
                None => {
                    let (expr, schema) = self.step(*at, &ty)?;
                    made.push((*at, ty, expr, schema));
                    made.len() - 1
                }
            };
            let (_, _, expr, schema) = &made[known];
            let is_one = matches!((&value, &next), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
            let rows = if is_one { 1 } else { args.number_rows };
            let columns: Vec<ArrayRef> = vec![value.into_array(rows)?, next.into_array(rows)?];
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
            value = match (expr.evaluate(&batch)?, is_one) {
                (ColumnarValue::Array(array), true) => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
                (value, _) => value,
            };
        }
        Ok(value)
    }
}

/// What names a call among the columns of a plan: the same for the same terms. Written out, the names of a chain would be
/// as long as it is, at each of its levels and for each who asks.
fn short_name<F: ScalarUDFImpl + Hash>(function: &F, args: &[Expr]) -> String {
    let mut hasher = DefaultHasher::new();
    function.hash(&mut hasher);
    args.hash(&mut hasher);
    format!("{} of {} terms ({:016x})", function.name(), args.len(), hasher.finish())
}

/// A condition that stays one: neither taken apart nor put together with those beside it.
pub(crate) fn together(condition: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Together { signature: Signature::any(1, Volatility::Immutable) }))
    });
    FUNCTION.call(vec![condition])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Together {
    signature: Signature,
}

impl ScalarUDFImpl for Together {
    fn name(&self) -> &str {
        "together"
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(short_name(self, args))
    }
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(short_name(self, args))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("a condition that is none"),
        }
    }
}
