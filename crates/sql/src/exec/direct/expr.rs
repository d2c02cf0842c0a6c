//! Expressions over one row.
//!
//! Columns, parameters, literals, casts, checked integer arithmetic, comparisons, logic and
//! CASE are computed here on scalars, with the results and errors of the planned functions.
//! Anything else goes through its physical expression on a batch of one row, with the columns
//! that it reads and the parameters as constants. What needs more than the row (a subquery) is
//! not taken.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, Volatility,
};
use datafusion::physical_expr::expressions::{Column as PhysicalColumn, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, create_physical_expr};
use resurgam_engine::{DatumRef, RawRow, ReadView, Table};

use super::list::is_light;
use crate::exec::bridge;
use crate::exec::cell::placeholder_index;
use crate::exec::explain::words::{self, Words};
use crate::pg::arrow::scalar_of_datum;
use crate::pg::{errors, types};
use crate::wire::SqlError;

/// Elements of a list that is looked through for each row, at most.
pub(super) const LIST_MAX: usize = 1000;

/// See the module's head.
#[derive(Debug)]
pub(crate) enum RowExpr {
    Column(usize),
    Param(usize),
    Literal(ScalarValue),
    Cast(Box<RowExpr>, DataType),
    Negative(Box<RowExpr>),
    Arithmetic(Arithmetic, Box<RowExpr>, Box<RowExpr>),
    /// The same of numerics whose types say their digits, with those of the result.
    Decimal(Arithmetic, Box<RowExpr>, Box<RowExpr>, (u8, i8)),
    /// A function of the plan, called with scalars.
    Call(Box<Call>),
    Compare(Operator, Box<RowExpr>, Box<RowExpr>),
    And(Box<RowExpr>, Box<RowExpr>),
    /// AND of which only the truth counts: what is not true on the left spares the right.
    Both(Box<RowExpr>, Box<RowExpr>),
    Or(Box<RowExpr>, Box<RowExpr>),
    Not(Box<RowExpr>),
    IsNull(Box<RowExpr>),
    IsNotNull(Box<RowExpr>),
    /// Whether a value is in a list, or (`true`) is not.
    InList(Box<RowExpr>, Vec<RowExpr>, bool),
    /// Conditions with their values, and the value if none holds.
    Case(Vec<(RowExpr, RowExpr)>, Box<RowExpr>),
    Planned(Box<Planned>),
}

/// A physical expression over a batch of some columns of the row. Columns behind these stand for
/// parameters.
#[derive(Debug)]
pub(crate) struct Planned {
    expr: Arc<dyn PhysicalExpr>,
    /// Of the batch.
    schema: Arc<Schema>,
    columns: Vec<usize>,
    params: Vec<(usize, DataType)>,
}

/// A function that is called as its physical expression calls it, without a batch.
#[derive(Debug)]
pub(crate) struct Call {
    args: Vec<RowExpr>,
    function: Arc<ScalarUDF>,
    arg_fields: Vec<FieldRef>,
    return_field: FieldRef,
}

/// What expressions are evaluated with; sessions' settings are no part of it.
static CONFIG: LazyLock<Arc<ConfigOptions>> = LazyLock::new(Arc::default);

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
    pub row: Option<Row<'a>>,
}

/// A row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub table: &'a Table,
    pub values: Values<'a>,
    /// What large values are read through.
    pub view: &'a ReadView,
}

#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    Stored(RawRow<'a>),
    Given(&'a [DatumRef<'a>]),
    /// What a group of rows gives.
    Group(&'a [ScalarValue]),
    /// ON CONFLICT: the columns of the row that is there, then those of the proposed one.
    Both(RawRow<'a>, &'a [DatumRef<'a>]),
}

impl<'a> Row<'a> {
    /// The value of a column; a large one is not fetched.
    pub(crate) fn column(&self, at: usize) -> Result<DatumRef<'a>, SqlError> {
        let table: &'a Table = self.table;
        let given = |row: &'a [DatumRef<'a>], at: usize| match row.get(at) {
            Some(datum) => Ok(*datum),
            None => Err(SqlError::internal("a row without that column")),
        };
        match self.values {
            Values::Stored(row) => Ok(table.column(row, at)?),
            Values::Given(row) => given(row, at),
            Values::Group(_) => Err(SqlError::internal("a value of a group is no column")),
            Values::Both(row, _) if at < table.columns.len() => Ok(table.column(row, at)?),
            Values::Both(_, row) => given(row, at - table.columns.len()),
        }
    }

    fn scalar(&self, at: usize) -> Result<ScalarValue, SqlError> {
        if let Values::Group(values) = self.values {
            let value = values.get(at).cloned();
            return value.ok_or_else(|| SqlError::internal("a group without that value"));
        }
        let ty = &self.table.columns[at % self.table.columns.len()].ty;
        match self.column(at)? {
            DatumRef::External(reference) => {
                let datum =
                    bridge::external(self.view, reference).map_err(|error| errors::from_datafusion(error, ""))?;
                scalar_of_datum(datum.as_ref(), ty)
            }
            datum => scalar_of_datum(datum, ty),
        }
    }
}

impl RowExpr {
    /// The expression over a row of `table`, whose schema is `schema`; `None` if it is not
    /// one that needs the row only.
    pub(crate) fn new(expr: &Expr, table: Option<&Table>, schema: &DFSchema) -> Option<Self> {
        let position = |column: &Column| table?.columns.iter().position(|c| c.name == column.name);
        Self::over(expr, &position, schema)
    }

    /// The same over whatever row `position` finds columns in; fields of `schema` have these positions.
    pub(crate) fn over(expr: &Expr, position: &dyn Fn(&Column) -> Option<usize>, schema: &DFSchema) -> Option<Self> {
        let sub = |expr: &Expr| Some(Box::new(Self::over(expr, position, schema)?));
        Some(match expr {
            Expr::Alias(alias) => Self::over(&alias.expr, position, schema)?,
            Expr::Column(column) => Self::Column(position(column)?),
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
            // Of one type, as planning leaves them; and few enough to be compared one by one.
            Expr::InList(list)
                if list.list.len() <= LIST_MAX
                    && list.expr.get_type(schema).is_ok_and(|ty| {
                        list.list.iter().all(|element| element.get_type(schema).is_ok_and(|other| other == ty))
                    }) =>
            {
                let elements = list.list.iter().map(|element| sub(element).map(|element| *element));
                Self::InList(sub(&list.expr)?, elements.collect::<Option<_>>()?, list.negated)
            }
            Expr::ScalarFunction(function) => {
                let op = match function.name() {
                    "pg_plus" => Arithmetic::Plus,
                    "pg_minus" => Arithmetic::Minus,
                    "pg_multiply" => Arithmetic::Multiply,
                    _ => return Self::call(expr, function, position, schema),
                };
                match function.args.as_slice() {
                    [left, right] => Self::Arithmetic(op, sub(left)?, sub(right)?),
                    _ => return None,
                }
            }
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::Plus | Operator::Minus | Operator::Multiply),
                right,
            }) => {
                let is_decimal = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Decimal128(..)));
                let op = match op {
                    Operator::Plus => Arithmetic::Plus,
                    Operator::Minus => Arithmetic::Minus,
                    _ => Arithmetic::Multiply,
                };
                match expr.get_type(schema) {
                    Ok(DataType::Decimal128(precision, scale)) if is_decimal(left) && is_decimal(right) => {
                        Self::Decimal(op, sub(left)?, sub(right)?, (precision, scale))
                    }
                    _ => return Planned::expression(expr, position, schema),
                }
            }
            Expr::Case(case) if case.expr.is_none() => {
                let mut branches = Vec::with_capacity(case.when_then_expr.len());
                for (when, then) in &case.when_then_expr {
                    branches.push((*sub(when)?, *sub(then)?));
                }
                let otherwise = match (&case.else_expr, expr.get_type(schema)) {
                    (Some(otherwise), _) => sub(otherwise)?,
                    (None, Ok(ty)) => Box::new(Self::Literal(ScalarValue::try_from(&ty).ok()?)),
                    _ => return Planned::expression(expr, position, schema),
                };
                Self::Case(branches, otherwise)
            }
            _ => return Planned::expression(expr, position, schema),
        })
    }

    /// A function, called with scalars if it is one that evaluates all of its arguments.
    fn call(
        expr: &Expr,
        function: &ScalarFunction,
        position: &dyn Fn(&Column) -> Option<usize>,
        schema: &DFSchema,
    ) -> Option<Self> {
        let planned = Planned::expression(expr, position, schema)?;
        let Self::Planned(inner) = &planned else { return Some(planned) };
        let batch = inner.batch_schema();
        let physical = inner.expr.downcast_ref::<ScalarFunctionExpr>();
        let Some(physical) = physical.filter(|f| !f.fun().short_circuits() && f.args().len() == function.args.len())
        else {
            return Some(planned);
        };
        let fields: Option<Vec<FieldRef>> = physical.args().iter().map(|arg| arg.return_field(&batch).ok()).collect();
        let args: Option<Vec<Self>> = function.args.iter().map(|arg| Self::over(arg, position, schema)).collect();
        let (Some(arg_fields), Some(args), Ok(return_field)) = (fields, args, physical.return_field(&batch)) else {
            return Some(planned);
        };
        let function = Arc::clone(&function.func);
        Some(Self::Call(Box::new(Call { args, function, arg_fields, return_field })))
    }

    /// As EXPLAIN shows it, in SQL's words, with these names of columns.
    pub(crate) fn words(&self, column: &dyn Fn(usize) -> String) -> String {
        let of = |expr: &Self| expr.words(column);
        let all = |exprs: &[Self]| exprs.iter().map(of).collect::<Vec<_>>();
        match self {
            Self::Column(at) => column(*at),
            Self::Param(at) => format!("${}", at + 1),
            Self::Literal(value) => words::constant(value),
            Self::Cast(inner, _) => of(inner),
            Self::Negative(inner) => format!("(- {})", of(inner)),
            Self::Arithmetic(op, left, right) => format!("({} {} {})", of(left), op.sign(), of(right)),
            Self::Decimal(op, left, right, _) => format!("({} {} {})", of(left), op.sign(), of(right)),
            Self::Call(call) => words::called(call.function.name(), all(&call.args)),
            Self::Compare(op, left, right) => format!("({} {} {})", of(left), words::sign(*op), of(right)),
            Self::And(..) | Self::Both(..) => format!("({})", self.conjuncts(column).join(" AND ")),
            Self::Or(left, right) => format!("({})", Self::disjuncts(left, right, column).join(" OR ")),
            Self::Not(inner) => format!("(NOT {})", of(inner)),
            Self::IsNull(inner) => format!("({} IS NULL)", of(inner)),
            Self::IsNotNull(inner) => format!("({} IS NOT NULL)", of(inner)),
            Self::InList(value, list, negated) => {
                let how = if *negated { "<> ALL" } else { "= ANY" };
                format!("({} {how} (ARRAY[{}]))", of(value), all(list).join(", "))
            }
            Self::Case(branches, otherwise) => {
                let branches = branches.iter().map(|(when, then)| format!(" WHEN {} THEN {}", of(when), of(then)));
                format!("CASE{} ELSE {} END", branches.collect::<String>(), of(otherwise))
            }
            Self::Planned(planned) => {
                let columns = planned.columns.iter().map(|at| column(*at));
                let params = planned.params.iter().map(|(at, _)| format!("${}", at + 1));
                let columns: Vec<String> = columns.chain(params).collect();
                Words { columns: &columns, subplans: &RefCell::default() }.of(&planned.expr)
            }
        }
    }

    fn disjuncts(left: &Self, right: &Self, column: &dyn Fn(usize) -> String) -> Vec<String> {
        let mut all = Vec::new();
        for side in [left, right] {
            match side {
                Self::Or(left, right) => all.extend(Self::disjuncts(left, right, column)),
                other => all.push(other.words(column)),
            }
        }
        all
    }

    /// The conditions that it is, if it is several that all have to hold.
    pub(crate) fn conjuncts(&self, column: &dyn Fn(usize) -> String) -> Vec<String> {
        match self {
            Self::And(left, right) | Self::Both(left, right) => {
                let mut all = left.conjuncts(column);
                all.extend(right.conjuncts(column));
                all
            }
            other => vec![other.words(column)],
        }
    }

    /// The column that this is, if it is just that.
    pub(crate) fn column(&self) -> Option<usize> {
        match self {
            Self::Column(column) => Some(*column),
            _ => None,
        }
    }

    /// Whether it is a constant or a parameter, or one of these as another type: nothing is computed for it.
    pub(crate) fn is_given(&self) -> bool {
        match self {
            Self::Param(_) | Self::Literal(_) => true,
            Self::Cast(of, _) => matches!(**of, Self::Param(_) | Self::Literal(_)),
            _ => false,
        }
    }

    /// Whether it hangs on constants and parameters alone, and is the same whenever it is computed.
    pub(crate) fn is_constant(&self) -> bool {
        match self {
            Self::Param(_) | Self::Literal(_) => true,
            Self::Cast(of, _) | Self::Negative(of) => of.is_constant(),
            Self::Arithmetic(_, left, right) | Self::Decimal(_, left, right, _) => {
                left.is_constant() && right.is_constant()
            }
            Self::Call(call) => {
                let volatility = call.function.signature().volatility;
                volatility == Volatility::Immutable && call.args.iter().all(Self::is_constant)
            }
            _ => false,
        }
    }

    /// Whether it needs no row, and takes no time to speak of: see `list.rs`.
    pub(super) fn is_light(&self) -> bool {
        match self {
            Self::Param(_) | Self::Literal(_) => true,
            Self::Cast(of, _) | Self::Negative(of) | Self::Not(of) | Self::IsNull(of) | Self::IsNotNull(of) => {
                of.is_light()
            }
            Self::Arithmetic(_, left, right)
            | Self::Decimal(_, left, right, _)
            | Self::Compare(_, left, right)
            | Self::And(left, right)
            | Self::Both(left, right)
            | Self::Or(left, right) => left.is_light() && right.is_light(),
            Self::Call(call) => is_light(call.function.name()) && call.args.iter().all(Self::is_light),
            Self::InList(value, list, _) => value.is_light() && list.iter().all(Self::is_light),
            Self::Case(branches, otherwise) => {
                otherwise.is_light() && branches.iter().all(|(when, then)| when.is_light() && then.is_light())
            }
            Self::Column(_) | Self::Planned(_) => false,
        }
    }

    /// The value; `Err` as the plan would fail.
    pub(crate) fn evaluate(&self, input: Input<'_>) -> Result<ScalarValue, SqlError> {
        let failed = |error| errors::from_datafusion(error, "");
        Ok(match self {
            Self::Column(column) => match input.row {
                Some(row) => row.scalar(*column)?,
                None => return Err(SqlError::internal("no row")),
            },
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
            Self::Decimal(op, left, right, ty) => decimal(*op, &left.evaluate(input)?, &right.evaluate(input)?, *ty)?,
            Self::Call(call) => call.evaluate(input)?,
            Self::Compare(op, left, right) => compare(*op, &left.evaluate(input)?, &right.evaluate(input)?)?,
            Self::Both(left, right) => {
                let both = truth(&left.evaluate(input)?) == Some(true) && truth(&right.evaluate(input)?) == Some(true);
                ScalarValue::Boolean(Some(both))
            }
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
            Self::InList(value, list, negated) => {
                let value = value.evaluate(input)?;
                let mut found = if value.is_null() { None } else { Some(false) };
                for element in list {
                    if found.is_none() && value.is_null() {
                        break;
                    }
                    let equal = match element {
                        Self::Literal(element) => compare(Operator::Eq, &value, element)?,
                        Self::Param(at) if input.params.get(*at).is_some() => {
                            compare(Operator::Eq, &value, &input.params[*at])?
                        }
                        element => compare(Operator::Eq, &value, &element.evaluate(input)?)?,
                    };
                    match truth(&equal) {
                        Some(true) => {
                            found = Some(true);
                            break;
                        }
                        Some(false) => {}
                        None => found = None,
                    }
                }
                ScalarValue::Boolean(found.map(|found| found != *negated))
            }
            Self::Case(branches, otherwise) => {
                for (when, then) in branches {
                    if when.holds(input)? {
                        return then.evaluate(input);
                    }
                }
                otherwise.evaluate(input)?
            }
            Self::Planned(planned) => planned.evaluate(input)?,
        })
    }

    /// The truth of a condition; `None` is NULL.
    pub(crate) fn truth(&self, input: Input<'_>) -> Result<Option<bool>, SqlError> {
        Ok(truth(&self.evaluate(input)?))
    }

    /// Whether a condition holds for no row, as far as parts of it say that read none.
    pub(super) fn is_shut(&self, params: &[ScalarValue]) -> bool {
        match self {
            Self::And(left, right) | Self::Both(left, right) => left.is_shut(params) || right.is_shut(params),
            other => other.truth(Input { params, row: None }).is_ok_and(|truth| truth != Some(true)),
        }
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, input: Input<'_>) -> Result<bool, SqlError> {
        Ok(truth(&self.evaluate(input)?) == Some(true))
    }
}

impl Call {
    fn evaluate(&self, input: Input<'_>) -> Result<ScalarValue, SqlError> {
        let failed = |error| errors::from_datafusion(error, "");
        let mut args = Vec::with_capacity(self.args.len());
        for (arg, field) in self.args.iter().zip(&self.arg_fields) {
            let value = arg.evaluate(input)?;
            let is_typed = &value.data_type() == field.data_type();
            let value = if is_typed { value } else { value.cast_to(field.data_type()).map_err(failed)? };
            args.push(ColumnarValue::Scalar(value));
        }
        let called = self.function.invoke_with_args(ScalarFunctionArgs {
            args,
            arg_fields: self.arg_fields.clone(),
            number_rows: 1,
            return_field: Arc::clone(&self.return_field),
            config_options: Arc::clone(&CONFIG),
        });
        match called.map_err(failed)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).map_err(failed),
        }
    }
}

impl Arithmetic {
    fn sign(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Multiply => "*",
        }
    }
}

impl Planned {
    /// The schema that its expression was made for: the columns, then the parameters.
    fn batch_schema(&self) -> Schema {
        let params = self.params.iter().map(|(at, ty)| Arc::new(Field::new(format!("p{at}"), ty.clone(), true)));
        let columns = self.schema.fields().iter().cloned();
        Schema::new(columns.chain(params).collect::<Vec<FieldRef>>())
    }

    fn expression(expr: &Expr, position: &dyn Fn(&Column) -> Option<usize>, schema: &DFSchema) -> Option<RowExpr> {
        if !crate::exec::access_path::is_row_wise(expr) {
            return None;
        }
        let (mut columns, mut params) = (Vec::<(usize, Field)>::new(), Vec::<(usize, Field)>::new());
        let mut found = true;
        let note = |list: &mut Vec<(usize, Field)>, at: usize, field: &Field, kind: &str| {
            let name = format!("{kind}{at}");
            if !list.iter().any(|(known, _)| *known == at) {
                list.push((at, field.clone().with_name(name.as_str()).with_nullable(true)));
            }
            Expr::Column(Column::new_unqualified(name))
        };
        let bound = expr.clone().transform_up(|node| {
            Ok(match &node {
                Expr::Column(column) => match position(column).filter(|at| *at < schema.fields().len()) {
                    Some(at) => Transformed::yes(note(&mut columns, at, schema.field(at), "c")),
                    None => {
                        found = false;
                        Transformed::no(node)
                    }
                },
                Expr::Placeholder(placeholder) => match (placeholder_index(&placeholder.id), &placeholder.field) {
                    (Some(at), Some(field)) => Transformed::yes(note(&mut params, at, field, "p")),
                    _ => {
                        found = false;
                        Transformed::no(node)
                    }
                },
                _ => Transformed::no(node),
            })
        });
        let bound = bound.data().ok().filter(|_| found)?;
        let fields: Vec<Field> = columns.iter().chain(&params).map(|(_, field)| field.clone()).collect();
        let schema = DFSchema::try_from(Schema::new(fields)).ok()?;
        let expr = create_physical_expr(&bound, &schema, &ExecutionProps::new(), &Default::default()).ok()?;
        let row: Vec<Field> = columns.iter().map(|(_, field)| field.clone()).collect();
        Some(RowExpr::Planned(Box::new(Self {
            expr,
            schema: Arc::new(Schema::new(row)),
            columns: columns.into_iter().map(|(at, _)| at).collect(),
            params: params.into_iter().map(|(at, field)| (at, field.data_type().clone())).collect(),
        })))
    }

    fn evaluate(&self, input: Input<'_>) -> Result<ScalarValue, SqlError> {
        let failed = |error| errors::from_datafusion(error, "");
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for column in &self.columns {
            let Some(row) = input.row else { return Err(SqlError::internal("no row")) };
            arrays.push(row.scalar(*column)?.to_array().map_err(failed)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| errors::from_arrow(&error))?;
        match self.bound(input.params)?.evaluate(&batch).map_err(failed)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).map_err(failed),
        }
    }
}

impl Planned {
    /// The expression with the values of the parameters in it: some functions want constants.
    fn bound(&self, params: &[ScalarValue]) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
        let expr = Arc::clone(&self.expr);
        if self.params.is_empty() {
            return Ok(expr);
        }
        let bound = expr.transform_up(|node| {
            let at = node.downcast_ref::<PhysicalColumn>().and_then(|c| c.index().checked_sub(self.columns.len()));
            let Some((param, ty)) = at.and_then(|at| self.params.get(at)) else { return Ok(Transformed::no(node)) };
            let Some(value) = params.get(*param) else { return internal_err!("missing parameter") };
            let value = if &value.data_type() == ty { value.clone() } else { value.cast_to(ty)? };
            Ok(Transformed::yes(Arc::new(Literal::new(value))))
        });
        bound.data().map_err(|error| errors::from_datafusion(error, ""))
    }
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
        // One of as many digits holds every integer.
        (ScalarValue::Int32(Some(v)), DataType::Decimal128(10.., 0)) => {
            if let DataType::Decimal128(precision, scale) = to {
                return Ok(ScalarValue::Decimal128(Some((*v).into()), *precision, *scale));
            }
        }
        (value, to) if &value.data_type() == to => {}
        _ => return value.cast_to(to).map_err(|error| errors::from_datafusion(error, "")),
    }
    Ok(value)
}

/// Numerics of fixed digits; the planned operators give them that type, and fail where it does not hold them.
fn decimal(op: Arithmetic, left: &ScalarValue, right: &ScalarValue, ty: (u8, i8)) -> Result<ScalarValue, SqlError> {
    let (precision, scale) = ty;
    let (ScalarValue::Decimal128(a, _, from_a), ScalarValue::Decimal128(b, _, from_b)) = (left, right) else {
        return Err(SqlError::internal("arithmetic on numerics of other forms"));
    };
    let (Some(a), Some(b)) = (a, b) else { return Ok(ScalarValue::Decimal128(None, precision, scale)) };
    let widened = |value: i128, from: i8| {
        let by = u32::try_from(i32::from(scale) - i32::from(from)).ok()?;
        value.checked_mul(10i128.checked_pow(by)?)
    };
    let value = match op {
        Arithmetic::Plus => widened(*a, *from_a).zip(widened(*b, *from_b)).and_then(|(a, b)| a.checked_add(b)),
        Arithmetic::Minus => widened(*a, *from_a).zip(widened(*b, *from_b)).and_then(|(a, b)| a.checked_sub(b)),
        Arithmetic::Multiply if i32::from(*from_a) + i32::from(*from_b) == i32::from(scale) => a.checked_mul(*b),
        Arithmetic::Multiply => return Err(SqlError::internal("a product of other digits")),
    };
    let value = value.ok_or_else(|| SqlError::new("22003", "numeric field overflow"))?;
    Ok(ScalarValue::Decimal128(Some(value), precision, scale))
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

fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn compare(op: Operator, left: &ScalarValue, right: &ScalarValue) -> Result<ScalarValue, SqlError> {
    if left.is_null() || right.is_null() {
        return Ok(ScalarValue::Boolean(None));
    }
    let order = match (left, right) {
        // As PostgreSQL and the planned comparison: zero has no sign, NaN is above all numbers.
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => Some(compare_floats(*a, *b)),
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => {
            Some(compare_floats(f64::from(*a), f64::from(*b)))
        }
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
