//! Expressions over one row.
//!
//! Columns, parameters, literals, casts, checked integer arithmetic, comparisons and
//! logic are computed here on scalars, with the results and errors of the planned
//! functions. Anything else that has no parameter goes through its physical expression on
//! a batch of one row; anything else that has one is not taken.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{BinaryExpr, ColumnarValue, Expr, Operator};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use resurgam_engine::{DatumRef, RawRow, ReadView, Table};

use crate::bridge;
use crate::params::{contains_placeholder, placeholder_index};
use crate::pg::arrow::scalar_of_datum;
use crate::pg::errors;
use crate::pg::types;
use crate::wire::SqlError;

/// See the module's head.
#[derive(Debug)]
pub(crate) enum FastExpr {
    Column(usize),
    Param(usize),
    Literal(ScalarValue),
    Cast(Box<FastExpr>, DataType),
    Negative(Box<FastExpr>),
    Arithmetic(Arithmetic, Box<FastExpr>, Box<FastExpr>),
    Compare(Operator, Box<FastExpr>, Box<FastExpr>),
    And(Box<FastExpr>, Box<FastExpr>),
    Or(Box<FastExpr>, Box<FastExpr>),
    Not(Box<FastExpr>),
    IsNull(Box<FastExpr>),
    IsNotNull(Box<FastExpr>),
    /// Over the table's whole row.
    Planned(Arc<dyn PhysicalExpr>, Arc<Schema>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Plus,
    Minus,
    Multiply,
}

/// What expressions read: the parameters, and a row if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub params: &'a [ScalarValue],
    pub row: Option<(&'a Table, RawRow<'a>, &'a ReadView)>,
}

impl FastExpr {
    /// The expression over a row of `table`, whose schema is `schema`; `None` if it is not
    /// one for the short path.
    pub(crate) fn new(expr: &Expr, table: Option<&Table>, schema: &DFSchema) -> Option<Self> {
        let sub = |expr: &Expr| Some(Box::new(Self::new(expr, table, schema)?));
        Some(match expr {
            Expr::Alias(alias) => Self::new(&alias.expr, table, schema)?,
            Expr::Column(column) => Self::Column(table?.columns.iter().position(|c| c.name == column.name)?),
            Expr::Placeholder(placeholder) => Self::Param(placeholder_index(&placeholder.id)?),
            Expr::Literal(value, _) => Self::Literal(value.clone()),
            Expr::Cast(cast) => match sub(&cast.expr).map(|inner| *inner)? {
                Self::Literal(value) => match value.cast_to(cast.field.data_type()) {
                    Ok(value) => Self::Literal(value),
                    Err(_) => Self::Cast(Box::new(Self::Literal(value)), cast.field.data_type().clone()),
                },
                inner => Self::Cast(Box::new(inner), cast.field.data_type().clone()),
            },
            Expr::Negative(inner) => Self::Negative(sub(inner)?),
            Expr::Not(inner) => Self::Not(sub(inner)?),
            Expr::IsNull(inner) => Self::IsNull(sub(inner)?),
            Expr::IsNotNull(inner) => Self::IsNotNull(sub(inner)?),
            Expr::BinaryExpr(BinaryExpr {
                left,
                op:
                    op @ (Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq),
                right,
            }) => Self::Compare(*op, sub(left)?, sub(right)?),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => Self::And(sub(left)?, sub(right)?),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => Self::Or(sub(left)?, sub(right)?),
            Expr::ScalarFunction(function) => {
                let op = match function.name() {
                    "pg_plus" => Arithmetic::Plus,
                    "pg_minus" => Arithmetic::Minus,
                    "pg_multiply" => Arithmetic::Multiply,
                    _ => return Self::planned(expr, schema),
                };
                match function.args.as_slice() {
                    [left, right] => Self::Arithmetic(op, sub(left)?, sub(right)?),
                    _ => return None,
                }
            }
            _ => return Self::planned(expr, schema),
        })
    }

    fn planned(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        let row_wise = crate::range::is_row_wise(expr);
        if !row_wise || contains_placeholder(expr) {
            return None;
        }
        let physical = create_physical_expr(expr, schema, &ExecutionProps::new(), &Default::default()).ok()?;
        Some(Self::Planned(physical, Arc::clone(schema.inner())))
    }

    /// The column that this is, if it is just that.
    pub(crate) fn column(&self) -> Option<usize> {
        match self {
            Self::Column(column) => Some(*column),
            _ => None,
        }
    }

    /// The value; `Err` as the general path would fail.
    pub(crate) fn evaluate(&self, input: Input<'_>) -> Result<ScalarValue, SqlError> {
        let failed = |error| errors::from_datafusion(error, "");
        Ok(match self {
            Self::Column(column) => {
                let Some((table, row, view)) = input.row else { return Err(SqlError::internal("no row")) };
                let ty = &table.columns[*column].ty;
                match table.column(row, *column)? {
                    DatumRef::External(reference) => {
                        let datum = bridge::external(view, reference).map_err(failed)?;
                        scalar_of_datum(datum.as_ref(), ty)?
                    }
                    datum => scalar_of_datum(datum, ty)?,
                }
            }
            Self::Param(index) => match input.params.get(*index) {
                Some(value) => value.clone(),
                None => return Err(SqlError::internal("missing parameter")),
            },
            Self::Literal(value) => value.clone(),
            Self::Cast(inner, to) => cast(inner.evaluate(input)?, to)?,
            Self::Negative(inner) => match inner.evaluate(input)? {
                ScalarValue::Int16(Some(v)) => {
                    ScalarValue::Int16(Some(v.checked_neg().ok_or_else(|| out_of_range("smallint"))?))
                }
                ScalarValue::Int32(Some(v)) => {
                    ScalarValue::Int32(Some(v.checked_neg().ok_or_else(|| out_of_range("integer"))?))
                }
                ScalarValue::Int64(Some(v)) => {
                    ScalarValue::Int64(Some(v.checked_neg().ok_or_else(|| out_of_range("bigint"))?))
                }
                other => other.arithmetic_negate().map_err(failed)?,
            },
            Self::Arithmetic(op, left, right) => arithmetic(*op, left.evaluate(input)?, right.evaluate(input)?)?,
            Self::Compare(op, left, right) => compare(*op, &left.evaluate(input)?, &right.evaluate(input)?)?,
            Self::And(left, right) => {
                let left = truth(&left.evaluate(input)?);
                if left == Some(false) {
                    ScalarValue::Boolean(Some(false))
                } else {
                    let right = truth(&right.evaluate(input)?);
                    ScalarValue::Boolean(match (left, right) {
                        (_, Some(false)) => Some(false),
                        (Some(true), Some(true)) => Some(true),
                        _ => None,
                    })
                }
            }
            Self::Or(left, right) => {
                let left = truth(&left.evaluate(input)?);
                if left == Some(true) {
                    ScalarValue::Boolean(Some(true))
                } else {
                    let right = truth(&right.evaluate(input)?);
                    ScalarValue::Boolean(match (left, right) {
                        (_, Some(true)) => Some(true),
                        (Some(false), Some(false)) => Some(false),
                        _ => None,
                    })
                }
            }
            Self::Not(inner) => ScalarValue::Boolean(truth(&inner.evaluate(input)?).map(|v| !v)),
            Self::IsNull(inner) => ScalarValue::Boolean(Some(inner.evaluate(input)?.is_null())),
            Self::IsNotNull(inner) => ScalarValue::Boolean(Some(!inner.evaluate(input)?.is_null())),
            Self::Planned(expr, schema) => {
                let batch = one_row(input, schema)?;
                match expr.evaluate(&batch).map_err(failed)? {
                    ColumnarValue::Scalar(value) => value,
                    ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).map_err(failed)?,
                }
            }
        })
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, input: Input<'_>) -> Result<bool, SqlError> {
        Ok(truth(&self.evaluate(input)?) == Some(true))
    }
}

fn one_row(input: Input<'_>, schema: &Arc<Schema>) -> Result<RecordBatch, SqlError> {
    let failed = |error| errors::from_datafusion(error, "");
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    if let Some((table, row, view)) = input.row {
        let mut columns = bridge::RowColumns::new(table, view);
        for (at, field) in schema.fields().iter().enumerate() {
            if at < table.columns.len() {
                arrays.push(columns.array(at, std::iter::once(row)).map_err(failed)?);
            } else {
                arrays.push(datafusion::arrow::array::new_null_array(field.data_type(), 1));
            }
        }
    }
    let fields: Vec<_> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| errors::from_arrow(&error))
}

#[cold]
fn out_of_range(ty: &str) -> SqlError {
    SqlError::new("22003", format!("{ty} out of range"))
}

fn truth(value: &ScalarValue) -> Option<bool> {
    match value {
        ScalarValue::Boolean(value) => *value,
        _ => None,
    }
}

fn cast(value: ScalarValue, to: &DataType) -> Result<ScalarValue, SqlError> {
    match (&value, to) {
        (ScalarValue::Int16(Some(v)), DataType::Int32) => return Ok(ScalarValue::Int32(Some((*v).into()))),
        (ScalarValue::Int16(Some(v)), DataType::Int64) => return Ok(ScalarValue::Int64(Some((*v).into()))),
        (ScalarValue::Int32(Some(v)), DataType::Int64) => return Ok(ScalarValue::Int64(Some((*v).into()))),
        (value, to) if &value.data_type() == to => {}
        _ => return value.cast_to(to).map_err(|error| errors::from_datafusion(error, "")),
    }
    Ok(value)
}

fn arithmetic(op: Arithmetic, left: ScalarValue, right: ScalarValue) -> Result<ScalarValue, SqlError> {
    macro_rules! checked {
        ($a:expr, $b:expr, $variant:ident, $name:literal) => {
            match ($a, $b) {
                (Some(a), Some(b)) => {
                    let result = match op {
                        Arithmetic::Plus => a.checked_add(b),
                        Arithmetic::Minus => a.checked_sub(b),
                        Arithmetic::Multiply => a.checked_mul(b),
                    };
                    ScalarValue::$variant(Some(result.ok_or_else(|| out_of_range($name))?))
                }
                _ => ScalarValue::$variant(None),
            }
        };
    }
    use ScalarValue::{Int16, Int32, Int64};
    Ok(match (left, right) {
        (Int16(a), Int16(b)) => checked!(a, b, Int16, "smallint"),
        (Int16(a), Int32(b)) => checked!(a.map(i32::from), b, Int32, "integer"),
        (Int32(a), Int16(b)) => checked!(a, b.map(i32::from), Int32, "integer"),
        (Int32(a), Int32(b)) => checked!(a, b, Int32, "integer"),
        (Int64(a), Int64(b)) => checked!(a, b, Int64, "bigint"),
        (Int64(a), Int32(b)) => checked!(a, b.map(i64::from), Int64, "bigint"),
        (Int32(a), Int64(b)) => checked!(a.map(i64::from), b, Int64, "bigint"),
        (Int64(a), Int16(b)) => checked!(a, b.map(i64::from), Int64, "bigint"),
        (Int16(a), Int64(b)) => checked!(a.map(i64::from), b, Int64, "bigint"),
        (left, right) => {
            return Err(SqlError::internal(format!(
                "arithmetic on {} and {}",
                types::format_type(types::arrow_oid(&left.data_type()), None),
                types::format_type(types::arrow_oid(&right.data_type()), None)
            )));
        }
    })
}

fn compare(op: Operator, left: &ScalarValue, right: &ScalarValue) -> Result<ScalarValue, SqlError> {
    if left.is_null() || right.is_null() {
        return Ok(ScalarValue::Boolean(None));
    }
    let order = match (left, right) {
        // Total order, as the vectorised comparison has it.
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => Some(a.total_cmp(b)),
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => Some(a.total_cmp(b)),
        _ => left.partial_cmp(right),
    };
    let Some(order) = order else {
        return Err(SqlError::internal(format!("comparison of {} and {}", left.data_type(), right.data_type())));
    };
    Ok(ScalarValue::Boolean(Some(match op {
        Operator::Eq => order == Ordering::Equal,
        Operator::NotEq => order != Ordering::Equal,
        Operator::Lt => order == Ordering::Less,
        Operator::LtEq => order != Ordering::Greater,
        Operator::Gt => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })))
}
