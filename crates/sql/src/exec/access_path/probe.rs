//! What predicates say about columns: a column compared with something that does not depend on the row.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext as PlanningContext;
use datafusion::logical_expr::{BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use resurgam_engine::{ColumnType, Table};

use super::path::RANGES_MAX;
use crate::exec::any_of;
use crate::pg::functions::{ORDER_KEY, like_pattern, numeric};

/// `column op value` with `value` independent of the row.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub column: usize,
    pub kind: ProbeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ProbeKind {
    /// Equal to one of these.
    In(Vec<Expr>),
    /// Equal to an element of this array.
    InArray(Expr),
    Above {
        value: Expr,
        inclusive: bool,
    },
    Below {
        value: Expr,
        inclusive: bool,
    },
    /// A text that begins as this one does: all of it, or, of a pattern of LIKE, what is before its first wildcard.
    Prefix {
        text: Expr,
        is_pattern: bool,
    },
}

impl Probe {
    /// Whether the column has one value in all rows that satisfy it.
    pub(crate) fn is_one_value(&self) -> bool {
        matches!(&self.kind, ProbeKind::In(values) if values.len() == 1)
    }
}

/// The probes that a conjunct gives; BETWEEN gives two.
pub(crate) fn probes(table: &Table, expr: &Expr) -> Vec<Probe> {
    let mut out = Vec::new();
    collect(table, expr, &mut out);
    out
}

fn collect(table: &Table, expr: &Expr, out: &mut Vec<Probe>) {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            collect(table, left, out);
            collect(table, right, out);
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let mut column = None;
            let mut values = Vec::new();
            if alternatives(table, expr, &mut column, &mut values)
                && let Some(column) = column
            {
                out.push(Probe { column, kind: ProbeKind::In(values) });
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if let Some(column) = probe_column(table, left)
                && is_constant(right)
            {
                push(out, column, *op, right);
            } else if let Some(column) = probe_column(table, right)
                && is_constant(left)
                && let Some(op) = op.swap()
            {
                push(out, column, op, left);
            }
        }
        Expr::Between(between) if !between.negated => {
            if let Some(column) = probe_column(table, &between.expr) {
                if is_constant(&between.low) {
                    push(out, column, Operator::GtEq, &between.low);
                }
                if is_constant(&between.high) {
                    push(out, column, Operator::LtEq, &between.high);
                }
            }
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            if let Some(column) = probe_column(table, expr)
                && list.iter().all(is_constant)
            {
                out.push(Probe { column, kind: ProbeKind::In(list.clone()) });
            }
        }
        Expr::Like(like) if !like.negated && !like.case_insensitive && like.escape_char.is_none() => {
            prefix(table, &like.expr, like_pattern(&like.pattern), true, out);
        }
        Expr::ScalarFunction(call) if call.name() == "starts_with" => {
            if let [value, text] = call.args.as_slice() {
                prefix(table, value, text, false, out);
            }
        }
        Expr::ScalarFunction(_) => {
            let Some((value, values)) = any_of::membership(expr) else { return };
            let Some(column) = probe_column(table, value) else { return };
            let kind = match values {
                any_of::Values::Elements(list) => ProbeKind::In(list.into_iter().cloned().collect()),
                any_of::Values::Array(array) if is_constant(array) => ProbeKind::InArray(array.clone()),
                any_of::Values::Array(_) => return,
            };
            out.push(Probe { column, kind });
        }
        _ => {}
    }
}

fn prefix(table: &Table, value: &Expr, text: &Expr, is_pattern: bool, out: &mut Vec<Probe>) {
    // Of `char(n)` what is compared has its blanks, and what is kept has not.
    if let Some(column) = probe_column(table, value)
        && matches!(table.columns[column].ty, ColumnType::Text | ColumnType::Varchar(_))
        && is_constant(text)
    {
        out.push(Probe { column, kind: ProbeKind::Prefix { text: text.clone(), is_pattern } });
    }
}

/// `a = 1 OR a = 2 …` on one column.
fn alternatives(table: &Table, expr: &Expr, column: &mut Option<usize>, values: &mut Vec<Expr>) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            alternatives(table, left, column, values) && alternatives(table, right, column, values)
        }
        _ => {
            let mut one = Vec::new();
            collect(table, expr, &mut one);
            match one.pop() {
                Some(Probe { column: c, kind: ProbeKind::In(list) }) if one.is_empty() => {
                    let same = column.is_none_or(|known| known == c);
                    *column = Some(c);
                    values.extend(list);
                    same && values.len() <= RANGES_MAX && covers(table, expr)
                }
                _ => false,
            }
        }
    }
}

/// Whether the whole of `expr` is the equality that `collect` found in it.
fn covers(_: &Table, expr: &Expr) -> bool {
    matches!(expr, Expr::InList(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) | Expr::ScalarFunction(_))
}

fn push(out: &mut Vec<Probe>, column: usize, op: Operator, value: &Expr) {
    let value = value.clone();
    let kind = match op {
        Operator::Eq => ProbeKind::In(vec![value]),
        Operator::Gt => ProbeKind::Above { value, inclusive: false },
        Operator::GtEq => ProbeKind::Above { value, inclusive: true },
        Operator::Lt => ProbeKind::Below { value, inclusive: false },
        Operator::LtEq => ProbeKind::Below { value, inclusive: true },
        _ => return,
    };
    out.push(Probe { column, kind });
}

/// The table column that `expr` is, seen through casts that keep order and equality.
pub(crate) fn probe_column(table: &Table, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => table.columns.iter().position(|c| c.name == column.name),
        Expr::Cast(cast) => {
            let column = probe_column(table, &cast.expr)?;
            let ty = &table.columns[column].ty;
            let to = cast.field.data_type();
            cast_keeps(ty, to).then_some(column)
        }
        // As it is compared with a numeric whose digits are its own, by a key of which the value is known again.
        Expr::ScalarFunction(call) if call.name() == numeric::KEY => {
            let column = probe_column(table, call.args.first()?)?;
            matches!(table.columns[column].ty, ColumnType::Numeric { .. } | ColumnType::VarNumeric(_)).then_some(column)
        }
        Expr::ScalarFunction(call) if call.name() == ORDER_KEY => {
            let Expr::Column(column) = call.args.first()? else { return None };
            let column = table.columns.iter().position(|c| c.name == column.name)?;
            (table.columns[column].ty == ColumnType::Folded).then_some(column)
        }
        _ => None,
    }
}

/// Whether a cast of a column keeps order and equality of its values.
pub(crate) fn cast_keeps(ty: &ColumnType, to: &DataType) -> bool {
    match ty {
        ColumnType::Int2 => matches!(to, DataType::Int16 | DataType::Int32 | DataType::Int64),
        ColumnType::Int4 => matches!(to, DataType::Int32 | DataType::Int64),
        ColumnType::Int8 => matches!(to, DataType::Int64),
        // More digits behind the point, not fewer.
        ColumnType::Numeric { scale, .. } => {
            matches!(to, DataType::Decimal128(_, wider) if i32::from(*wider) >= *scale as i32)
        }
        ColumnType::VarNumeric(_) => to == &numeric::DYNAMIC,
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
            matches!(to, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
        }
        _ => false,
    }
}

/// The expression of a plan's column, if projections alone stand between.
pub(crate) fn column_of(plan: &LogicalPlan, at: usize) -> Option<&Expr> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let mut expr = projection.expr.get(at)?;
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            match expr {
                Expr::Column(column) => {
                    let at = projection.input.schema().maybe_index_of_column(column)?;
                    column_of(&projection.input, at)
                }
                expr => Some(expr),
            }
        }
        LogicalPlan::SubqueryAlias(alias) => column_of(&alias.input, at),
        LogicalPlan::Filter(filter) => column_of(&filter.input, at),
        LogicalPlan::Sort(sort) => column_of(&sort.input, at),
        LogicalPlan::Limit(limit) => column_of(&limit.input, at),
        _ => None,
    }
}

/// Whether `expr` has one value for the whole statement.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    !expr
        .exists(|e| {
            Ok(match e {
                Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_) => true,
                Expr::ScalarFunction(f) => {
                    f.name() != "$"
                        && !crate::exec::apply::is_constant_call(e)
                        && f.func.signature().volatility == datafusion::logical_expr::Volatility::Volatile
                }
                _ => false,
            })
        })
        .unwrap_or(true)
}

/// Whether `expr` can be computed from one row alone.
pub(crate) fn is_row_wise(expr: &Expr) -> bool {
    !expr
        .exists(|e| {
            Ok(matches!(
                e,
                Expr::OuterReferenceColumn(..)
                    | Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
                    | Expr::AggregateFunction(_)
                    | Expr::WindowFunction(_)
            ) || crate::exec::apply::is_call(e))
        })
        .unwrap_or(true)
}

/// A physical expression for something that reads no column.
pub(crate) fn constant(expr: &Expr) -> Result<Arc<dyn PhysicalExpr>> {
    create_physical_expr(expr, &DFSchema::empty(), &ExecutionProps::new(), &PlanningContext::default())
}

/// Its value.
pub(crate) fn evaluate_constant(expr: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
    thread_local! {
        static ONE_ROW: RecordBatch = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            vec![],
            &datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(1)),
        ).expect("an empty batch");
    }
    match ONE_ROW.with(|batch| expr.evaluate(batch))? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}
