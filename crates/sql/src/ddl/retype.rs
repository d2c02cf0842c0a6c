//! ALTER COLUMN … TYPE, and what else writes all rows of a table anew.
//!
//! Rows are read and written in batches: the new values of a batch are computed together, as
//! a query would compute them, then each row is put. See the engine's `rewrite.rs` for why that
//! rolls back in constant time.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Value, ValueWithSpan, Visitor,
};
use resurgam_ast::AstWalk;
use resurgam_engine::{
    ColumnSpec, ColumnType, DatumRef, OrderedType, RowBatch, Table, TableChange, Transaction, is_stored_alike,
};

use crate::exec::bridge::RowColumns;
use crate::parse::like::COLLATE;
use crate::pg::arrow::{DatumColumn, assignment_cast};
use crate::pg::catalog::declared;
use crate::pg::definition::parse_expression;
use crate::pg::functions::quote_ident;
use crate::pg::types::{bare_type_name, column_oid, column_type_from_sql, column_type_name, domain_from_sql};
use crate::pg::{collation, errors, operator_classes};
use crate::plan::analyze::is_assignable;
use crate::plan::expression::{Place, TableExpr};
use crate::session::Session;
use crate::wire::SqlError;

/// How a column gets its new values.
pub(crate) enum NewValue {
    /// The old one, cast.
    Cast,
    Using(TableExpr),
}

impl Session {
    pub(crate) async fn set_type(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        data_type: &DataType,
        using: Option<&Expr>,
    ) -> Result<Arc<Table>, SqlError> {
        let to = column_type_from_sql(data_type)?;
        self.keep_types(txn, [to]).await?;
        let column = &table.columns[at];
        let (from, name) = (column.ty, column.name.clone());
        let value = match using {
            None => {
                if !is_assignable(from, to) {
                    let type_name = column_type_name(&to);
                    return Err(SqlError::new(
                        "42804",
                        format!("column \"{name}\" cannot be cast automatically to type {}", bare_type_name(&to)),
                    )
                    .with_hint(format!("You might need to specify \"USING {}::{type_name}\".", quote_ident(&name))));
                }
                NewValue::Cast
            }
            Some(expr) => {
                let planned = self.plan_over(txn, table, expr, Place::Using(&name, to))?;
                NewValue::Using(planned)
            }
        };
        if column.default_sql.is_some() && !is_assignable(from, to) {
            return Err(SqlError::new(
                "42804",
                format!("default for column \"{name}\" cannot be cast automatically to type {}", bare_type_name(&to)),
            ));
        }
        let new = if matches!(value, NewValue::Cast) && is_stored_alike(from, to) {
            self.change(txn, table, TableChange::SetType(at, to)).await?
        } else {
            self.rewrite(txn, table, &[(at, to, value)], &[]).await?
        };
        let new = self.set_domain(txn, &new, at, domain_from_sql(data_type)).await?;
        // Conditions over the column mean what they say of the new type.
        for check in new.checks.iter().filter(|check| check.columns.contains(&at)) {
            let expr = parse_expression(&check.sql)?;
            if check.validated {
                self.validate_check(txn, &new, &check.name, &expr, Place::Check)?;
            } else {
                self.plan_over(txn, &new, &expr, Place::Check)?;
            }
            if !is_comparable(from, to) && has_untyped(&expr) {
                return Err(SqlError::unsupported(format!(
                    "ALTER TYPE of column \"{name}\" to another kind, while constraint \"{}\" has constants without a type, is \
                     not supported",
                    check.name
                )));
            }
        }
        Ok(new)
    }

    /// Gives a column a collation, or takes its own away. Indexes that name the same one have that of the column from now
    /// on, as where PostgreSQL makes them anew from their definitions.
    pub(super) async fn set_collation(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        collation: Option<u32>,
    ) -> Result<Arc<Table>, SqlError> {
        if table.collation(at) == collation {
            return Ok(Arc::clone(table));
        }
        let name = &table.columns[at].name;
        let ordered = [collation, table.collation(at)].into_iter().flatten().any(crate::pg::collation::is_icu);
        if ordered && table.generated.iter().any(|made| made.reads.contains(&at)) {
            // What is stored of them may have come of the earlier order.
            return Err(SqlError::unsupported(format!(
                "another collation of column \"{name}\", which a generated column or an index's expression reads, is not \
                 supported"
            )));
        }
        let mut table = self.change(txn, table, TableChange::SetCollation(at, collation)).await?;
        for check in table.checks.iter().filter(|check| ordered && check.validated && check.columns.contains(&at)) {
            self.validate_check(txn, &table, &check.name, &parse_expression(&check.sql)?, Place::Check)?;
        }
        let has = collation::of_column(&table, at);
        let mut changed = Vec::new();
        for index in table.indexes.iter().filter(|index| index.columns.contains(&at)) {
            let Some(details) = table.index_details(Some(index.id)) else { continue };
            let mut new = details.clone();
            for (declared, _) in new.declared.iter_mut().zip(&index.columns).filter(|(_, column)| **column == at) {
                if declared.collation == has {
                    declared.collation = 0;
                }
            }
            changed.extend(Some(new).filter(|new| new != details));
        }
        for details in changed {
            table = self.change(txn, &table, TableChange::SetIndexDetails(details)).await?;
        }
        Ok(table)
    }

    /// Writes all rows anew: `changed` columns with values of other types, `added` ones at the
    /// end.
    pub(crate) async fn rewrite(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        changed: &[(usize, ColumnType, NewValue)],
        added: &[(ColumnSpec, TableExpr)],
    ) -> Result<Arc<Table>, SqlError> {
        let zone = self.shared.variables.lock().zone;
        let types: Vec<(usize, ColumnType)> = changed.iter().map(|(at, ty, _)| (*at, *ty)).collect();
        let specs: Vec<ColumnSpec> = added.iter().map(|(spec, _)| spec.clone()).collect();
        let mut rewrite = self.settle_ddl(|| txn.rewrite_table(table, &types, &specs)).await?;
        tokio::task::block_in_place(|| {
            let failed = |error| errors::from_datafusion(error, "");
            let mut batch = RowBatch::default();
            while rewrite.read(&mut batch)? {
                let rows = (0..batch.len()).map(|i| batch.row(i));
                let view = rewrite.view();
                let mut arrays: Vec<(usize, ColumnType, ArrayRef)> = Vec::with_capacity(changed.len() + added.len());
                for (at, ty, value) in changed {
                    let array = match value {
                        NewValue::Cast => RowColumns::new(table, view).array(*at, rows.clone()).map_err(failed)?,
                        NewValue::Using(expr) => expr.evaluate_rows(table, view, rows.clone()).map_err(failed)?,
                    };
                    arrays.push((*at, *ty, assignment_cast(&array, ty, &zone)?));
                }
                for (i, (spec, expr)) in added.iter().enumerate() {
                    let array = expr.evaluate_rows(table, view, rows.clone()).map_err(failed)?;
                    arrays.push((table.columns.len() + i, spec.ty, assignment_cast(&array, &spec.ty, &zone)?));
                }
                let readers = arrays
                    .iter()
                    .map(|(at, ty, array)| Ok((*at, DatumColumn::new(array.as_ref(), ty)?)))
                    .collect::<Result<Vec<_>, SqlError>>()?;
                let mut new = Vec::with_capacity(table.columns.len() + added.len());
                for (i, raw) in rows.enumerate() {
                    new.clear();
                    for column in 0..table.columns.len() {
                        new.push(table.column(raw, column)?);
                    }
                    new.resize(table.columns.len() + added.len(), DatumRef::Null);
                    for (at, reader) in &readers {
                        new[*at] = reader.get(i)?;
                    }
                    rewrite.put(raw, &new)?;
                }
            }
            Ok(rewrite.finish()?)
        })
    }
}

/// What USING has where `TYPE … COLLATE …` was written ([`crate::parse::like`]): the collation, and the expression.
pub(super) fn collation_and_using(using: Option<&Expr>) -> (Option<&ObjectName>, Option<&Expr>) {
    let Some(Expr::Function(call)) = using else { return (None, using) };
    let FunctionArguments::List(list) = &call.args else { return (None, using) };
    if call.name.to_string() != COLLATE {
        return (None, using);
    }
    let argument = |at: usize| match list.args.get(at) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr),
        _ => None,
    };
    match argument(0) {
        Some(Expr::Collate { collation, .. }) => (Some(collation), argument(1)),
        _ => (None, using),
    }
}

/// Refuses another type of a column that the operator class does not accept which an index names for it.
///
/// # Errors
/// `42804`
pub(super) fn check_classes(table: &Table, at: usize, to: &ColumnType) -> Result<(), SqlError> {
    for index in &table.indexes {
        let declared = declared(table, index);
        for (declared, _) in declared.iter().zip(&index.columns).filter(|(_, column)| **column == at) {
            if let Some(class) = operator_classes::class_of(declared.class) {
                operator_classes::check(class, column_oid(to))?;
            }
            if declared.collation != 0 && collation::of_type(column_oid(to)) == 0 {
                let ty = column_type_name(to);
                return Err(SqlError::new("42804", format!("collations are not supported by type {ty}")));
            }
        }
    }
    Ok(())
}

/// Whether types compare with each other: a constant that was read as one of them means the same beside the other.
fn is_comparable(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType as T;
    let kind = |ty| match ty {
        T::Int2 | T::Int4 | T::Int8 | T::Float4 | T::Float8 => 1,
        T::Text | T::Varchar(_) | T::Ordered(OrderedType::Name) => 2,
        T::Date | T::Timestamp(_) | T::TimestampTz(_) => 3,
        T::Ordered(OrderedType::Bit(_) | OrderedType::VarBit(_)) => 4,
        _ => 0,
    };
    if let (T::Ordered(from), T::Ordered(to)) = (from, to) {
        return from.unlimited() == to.unlimited() || kind(T::Ordered(from)) > 0 && kind(T::Ordered(to)) > 0;
    }
    std::mem::discriminant(&from) == std::mem::discriminant(&to) || kind(from) > 0 && kind(from) == kind(to)
}

/// Whether a condition has a constant that gets its type from what is beside it. In PostgreSQL it has kept
/// the one that it got when the condition was made; here the text is kept.
fn has_untyped(expr: &Expr) -> bool {
    struct Untyped;
    impl Visitor for Untyped {
        type Break = ();
        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
            match value.value {
                Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.walk(&mut Untyped).is_break()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignable_as_in_postgresql() {
        use ColumnType as T;
        for (from, to, fine) in [
            (T::Int4, T::Int8, true),
            (T::Int8, T::Int2, true),
            (T::Int4, T::Text, true),
            (T::Text, T::Int4, false),
            (T::Text, T::Varchar(3), true),
            (T::Bool, T::Int4, false),
            (T::Int4, T::Bool, false),
            (T::Date, T::TimestampTz(None), true),
            (T::Timestamp(Some(3)), T::Date, true),
            (T::Time(None), T::Timestamp(None), false),
            (T::Text, T::Json, false),
            (T::Json, T::Text, true),
        ] {
            assert_eq!(is_assignable(from, to), fine, "{from} to {to}");
        }
    }
}
