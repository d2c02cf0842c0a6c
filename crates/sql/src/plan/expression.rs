//! Expressions over the rows of one table that a definition holds or a change of one needs:
//! CHECK conditions, USING of a type change, defaults that give each row a value of its own.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::sqlparser::ast::{self, Ident, VisitorMut};
use resurgam_ast::AstWalkMut;
use resurgam_engine::{ColumnType, Datum, OrderedType, RawRow, ReadView, Table};

use crate::exec::bridge::{self, RowColumns};
use crate::exec::direct::{Input, Row, RowExpr};
use crate::pg::arrow::{DatumColumn, assignment_cast};
use crate::pg::datetime::Zone;
use crate::pg::errors;
use crate::pg::types::{self, oid};
use crate::plan::analyze::{OverRow, over_row};
use crate::plan::planner::{Names, as_in_plan, simplified};
use crate::wire::SqlError;

pub(crate) use crate::pg::definition::{kept_text, parse_expression};
pub(crate) use crate::plan::analyze::Place;

type DfResult<T> = datafusion::common::Result<T>;

/// Functions that are marked volatile for being the session's, and give one value in all of a
/// statement.
const STABLE: [&str; 10] = [
    "now",
    "transaction_timestamp",
    "statement_timestamp",
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "localtime",
    "current_user",
    "session_user",
];

/// Such an expression, ready to be evaluated on batches of the columns that it mentions.
#[derive(Debug)]
pub(crate) struct TableExpr {
    physical: Arc<dyn PhysicalExpr>,
    /// The same over one row's datums.
    row: Option<RowExpr>,
    input: Arc<Schema>,
    /// Positions of the columns that it mentions; the input has them in this order.
    pub columns: Vec<usize>,
    /// Gives another value for each row, whatever is in it.
    pub volatile: bool,
    /// A function does so that is not `nextval`.
    pub may_look: bool,
    /// Its value depends on nothing but the row.
    pub immutable: bool,
    /// Its value depends on the session.
    pub of_session: bool,
}

impl TableExpr {
    /// Plans `expr` over `table`.
    ///
    /// # Errors
    /// Those of its analysis: [`over_row`].
    pub(crate) fn plan(names: &Names<'_>, table: &Table, expr: &ast::Expr, place: Place<'_>) -> Result<Self, SqlError> {
        Self::over(names, table, over_row(names, table, expr, place)?)
    }

    /// Plans an analysed expression over `table`.
    ///
    /// # Errors
    /// `0A000` for one that needs more than the row.
    pub(crate) fn over(names: &Names<'_>, table: &Table, expr: OverRow) -> Result<Self, SqlError> {
        let failed = |error| {
            let mut error = errors::from_datafusion(error, "");
            error.position = None; // in the expression, not in the statement
            error
        };
        let OverRow { expr, schema: full, is_mutable } = expr;
        // Before anything is simplified: what is written counts, and what a constant is made of.
        let (mut volatile, mut may_look, mut immutable) = (false, false, !is_mutable);
        expr.apply(|node| {
            if let Expr::ScalarFunction(call) = node {
                immutable &= !STABLE.contains(&call.name());
                let is_volatile =
                    call.func.signature().volatility == Volatility::Volatile && !STABLE.contains(&call.name());
                volatile |= is_volatile;
                may_look |= is_volatile && call.name() != "nextval";
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(failed)?;
        // In the order in which they are mentioned.
        let mut columns: Vec<usize> = Vec::new();
        expr.apply(|node| {
            if let Expr::Column(column) = node
                && let Some(at) = table.columns.iter().position(|known| known.name == column.name)
                && !columns.contains(&at)
            {
                columns.push(at);
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(failed)?;
        let expr = as_in_plan(names.state, expr, &full).map_err(failed)?;
        let of_session = bridge::is_of_session(names.state, &expr);
        let expr = simplified(names.state, expr, &full).map_err(failed)?;
        let fields: Vec<_> = columns
            .iter()
            .map(|at| types::arrow_field(&table.columns[*at].name, &table.columns[*at].ty, true))
            .collect();
        let input = Arc::new(Schema::new(fields));
        let qualifier = TableReference::bare(table.name.clone());
        let some = DFSchema::try_from_qualified_schema(qualifier, &input).map_err(failed)?;
        let physical =
            create_physical_expr(&expr, &some, &ExecutionProps::new(), &Default::default()).map_err(failed)?;
        let row = RowExpr::new(&expr, Some(table), &full);
        Ok(Self { physical, row, input, columns, volatile, may_look, immutable, of_session })
    }

    /// The table's columns that it mentions.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn run(&self, arrays: Vec<ArrayRef>, rows: usize) -> DfResult<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.input), arrays, &options)?;
        self.physical.evaluate(&batch)?.into_array(rows)
    }

    /// For each row of a batch that begins with all columns of the table, of their types,
    /// whether this holds: a condition.
    pub(crate) fn holds(&self, batch: &RecordBatch) -> DfResult<BooleanArray> {
        self.truth(self.columns.iter().map(|at| Arc::clone(batch.column(*at))).collect(), batch.num_rows())
    }

    /// As [`TableExpr::holds`] for stored rows.
    pub(crate) fn holds_rows<'r>(
        &self,
        table: &Table,
        view: &ReadView,
        rows: impl ExactSizeIterator<Item = RawRow<'r>> + Clone,
    ) -> DfResult<BooleanArray> {
        let count = rows.len();
        self.truth(self.arrays(table, view, rows)?, count)
    }

    /// Its value for one row.
    ///
    /// # Errors
    /// Those of evaluating it.
    pub(crate) fn value_of(&self, row: Row<'_>) -> Result<ScalarValue, SqlError> {
        match &self.row {
            Some(expr) => expr.evaluate(Input { params: &[], row: Some(row) }),
            None => Err(SqlError::internal("an expression that needs more than its row")),
        }
    }

    /// Whether it can be evaluated for one row.
    pub(crate) fn is_of_row(&self) -> bool {
        self.row.is_some()
    }

    /// The truth of a condition for one row; `None` is NULL.
    ///
    /// # Errors
    /// Those of evaluating it.
    pub(crate) fn truth_of(&self, row: Row<'_>) -> Result<Option<bool>, SqlError> {
        match &self.row {
            Some(expr) => expr.truth(Input { params: &[], row: Some(row) }),
            None => Err(SqlError::internal("a condition that needs more than its row")),
        }
    }

    /// Where the rows together fail, each is looked at by itself: what one is spared, by the
    /// other side of an OR, say, is evaluated for all when another is not.
    fn truth(&self, arrays: Vec<ArrayRef>, rows: usize) -> DfResult<BooleanArray> {
        if rows <= 1 {
            return self.truth_together(arrays, rows);
        }
        if let Ok(truth) = self.truth_together(arrays.clone(), rows) {
            return Ok(truth);
        }
        let one = |row| self.truth_together(arrays.iter().map(|array| array.slice(row, 1)).collect(), 1);
        (0..rows).map(|row| one(row).map(|truth| truth.is_valid(0).then(|| truth.value(0)))).collect()
    }

    fn truth_together(&self, arrays: Vec<ArrayRef>, rows: usize) -> DfResult<BooleanArray> {
        let values = self.run(arrays, rows)?;
        match values.as_boolean_opt() {
            Some(values) => Ok(values.clone()),
            None if values.data_type() == &DataType::Null => Ok(BooleanArray::new_null(rows)),
            None => Err(bridge::failure(SqlError::internal("a condition that is not boolean"))),
        }
    }

    fn arrays<'r>(
        &self,
        table: &Table,
        view: &ReadView,
        rows: impl ExactSizeIterator<Item = RawRow<'r>> + Clone,
    ) -> DfResult<Vec<ArrayRef>> {
        let mut columns = RowColumns::new(table, view);
        self.columns.iter().map(|at| columns.array(*at, rows.clone())).collect()
    }

    /// Its one value as one of a column of that type; it mentions no columns.
    ///
    /// # Errors
    /// Those of evaluating and of assigning it.
    pub(crate) fn assigned(&self, ty: &ColumnType, zone: &Zone) -> Result<Datum, SqlError> {
        let value = self.run(Vec::new(), 1).map_err(|error| errors::from_datafusion(error, ""))?;
        let value = assignment_cast(&value, ty, zone)?;
        Ok(DatumColumn::new(value.as_ref(), ty)?.get(0)?.to_owned())
    }

    /// Its values for stored rows.
    pub(crate) fn evaluate_rows<'r>(
        &self,
        table: &Table,
        view: &ReadView,
        rows: impl ExactSizeIterator<Item = RawRow<'r>> + Clone,
    ) -> DfResult<ArrayRef> {
        let count = rows.len();
        self.run(self.arrays(table, view, rows)?, count)
    }
}

fn name_of(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// An identifier, quoted if it must be.
fn ident(name: &str) -> Ident {
    let plain = !name.is_empty()
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && crate::pg::functions::quote_ident(name) == name;
    if plain { Ident::new(name) } else { Ident::with_quote('"', name) }
}

/// Columns by their name alone: the table's own may change.
pub(crate) fn unqualify(expr: &mut ast::Expr, table: &str) {
    struct Walk<'a>(&'a str);
    impl VisitorMut for Walk<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::CompoundIdentifier(parts) = expr
                && let Some(column) = parts.last().cloned()
                && parts.len() >= 2
                && name_of(&parts[parts.len() - 2]) == self.0
            {
                *expr = ast::Expr::Identifier(column);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Walk(table));
}

/// A column by its new name.
pub(crate) fn rename_column(expr: &mut ast::Expr, from: &str, to: &str) {
    struct Walk<'a>(&'a str, &'a str);
    impl VisitorMut for Walk<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Identifier(found) = expr
                && name_of(found) == self.0
            {
                *found = ident(self.1);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Walk(from, to));
}

/// Whether literals of that type mean something else in another session: a zone or an order of numbers has a say in them, or the moment.
fn is_of_session(ty: &ast::DataType) -> bool {
    types::arrow_field_from_sql(ty).is_ok_and(|field| {
        let times = [oid::TIMESTAMPTZ, oid::TSTZRANGE, oid::TIMESTAMP, oid::TSRANGE, oid::DATE, oid::DATERANGE];
        let arrays = [oid::TIMESTAMPTZ_ARRAY, oid::TIMESTAMP_ARRAY, oid::DATE_ARRAY];
        times.iter().chain(&arrays).any(|ty| *ty == types::field_oid(&field))
    })
}

/// The text of a literal that is read as such a type.
fn written_time(expr: &mut ast::Expr) -> Option<&mut ast::Value> {
    let value = match expr {
        ast::Expr::Cast { expr, data_type, .. } if is_of_session(data_type) => match expr.as_mut() {
            ast::Expr::Value(value) => &mut value.value,
            _ => return None,
        },
        ast::Expr::TypedString(typed) if is_of_session(&typed.data_type) => &mut typed.value.value,
        _ => return None,
    };
    matches!(value, ast::Value::SingleQuotedString(_)).then_some(value)
}

/// The name of a type whose literals mean something else in another session.
pub(crate) fn zoned_type(ty: &ColumnType) -> Option<&'static str> {
    match ty {
        ColumnType::TimestampTz(_) => Some("timestamptz"),
        ColumnType::Timestamp(_) => Some("timestamp"),
        ColumnType::Date => Some("date"),
        ColumnType::Ordered(ty @ (OrderedType::TstzRange | OrderedType::TsRange | OrderedType::DateRange)) => {
            Some(ty.name())
        }
        ColumnType::Array(element) => match element.column_type() {
            ColumnType::TimestampTz(_) => Some("timestamptz[]"),
            ColumnType::Timestamp(_) => Some("timestamp[]"),
            ColumnType::Date => Some("date[]"),
            _ => None,
        },
        _ => None,
    }
}

/// A literal as a cast to a type, as which it is read.
pub(crate) fn cast_literal(side: &mut ast::Expr, ty: &str) {
    if let ast::Expr::Value(value) = side
        && matches!(value.value, ast::Value::SingleQuotedString(_))
        && let Ok(call) = parse_expression(&format!("{value}::{ty}"))
    {
        *side = call;
    }
}

/// Literals that are compared with columns of such types as casts: they are read as such.
pub(crate) fn cast_times(expr: &mut ast::Expr, table: &Table) {
    let of = |name: &str| zoned_type(&table.columns.iter().find(|column| column.name == name)?.ty);
    cast_times_of(expr, &of);
}

/// The same of names of which `of` says the type, if it is one of these.
pub(crate) fn cast_times_of(expr: &mut ast::Expr, of: &dyn Fn(&str) -> Option<&'static str>) {
    struct Walk<'a>(&'a dyn Fn(&str) -> Option<&'static str>);
    impl VisitorMut for Walk<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            let is_time = |side: &ast::Expr| match side {
                ast::Expr::Identifier(name) => (self.0)(&name_of(name)),
                _ => None,
            };
            let is_range = |side: &ast::Expr| is_time(side).is_some_and(|ty| ty.ends_with("range"));
            let is_comparison = |op: &ast::BinaryOperator| {
                use ast::BinaryOperator as O;
                matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
            };
            let cast = cast_literal;
            match expr {
                // Beside other operators they may be of another type: `at + '1 day'`.
                ast::Expr::BinaryOp { left, op, right } if is_comparison(op) || is_range(left) || is_range(right) => {
                    if let Some(ty) = is_time(left) {
                        cast(right, ty);
                    } else if let Some(ty) = is_time(right) {
                        cast(left, ty);
                    }
                }
                ast::Expr::Between { expr, low, high, .. } => {
                    if let Some(ty) = is_time(expr) {
                        cast(low, ty);
                        cast(high, ty);
                    }
                }
                ast::Expr::InList { expr, list, .. } => {
                    if let Some(ty) = is_time(expr) {
                        list.iter_mut().for_each(|side| cast(side, ty));
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Walk(of));
}

/// All such literals with their casts.
pub(crate) fn written_times(expr: &ast::Expr) -> Vec<ast::Expr> {
    struct Walk(Vec<ast::Expr>);
    impl VisitorMut for Walk {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if written_time(expr).is_some() {
                self.0.push(expr.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut walk = Walk(Vec::new());
    let _ = expr.clone().walk_mut(&mut walk);
    walk.0
}

/// Writes the time that is written as `call` in other words.
pub(crate) fn fix_time(expr: &mut ast::Expr, call: &ast::Expr, text: &str) {
    struct Walk<'a>(&'a ast::Expr, &'a str);
    impl VisitorMut for Walk<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if expr == self.0
                && let Some(value) = written_time(expr)
            {
                *value = ast::Value::SingleQuotedString(self.1.to_owned());
            }
            ControlFlow::Continue(())
        }
    }
    let _ = expr.walk_mut(&mut Walk(call, text));
}

/// Whether an expression has a subquery.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let mut expr = parse_expression("t.A > 0 AND lower(t.b) = 'a'").expect("expression");
        unqualify(&mut expr, "t");
        assert_eq!(expr.to_string(), "A > 0 AND lower(b) = 'a'");
        rename_column(&mut expr, "a", "New one");
        rename_column(&mut expr, "b", "c");
        assert_eq!(expr.to_string(), "\"New one\" > 0 AND lower(c) = 'a'");
    }
}
