//! Casts to calls of `pg_cast_…`.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Value};

use resurgam_engine::ColumnType;

use super::{bare, call, number, take};
use crate::pg::types::{arrow_field_from_sql, column_oid, column_typmod, field_oid, field_typmod, oid, type_by_oid};
use crate::wire::SqlError;

/// Types to which DataFusion casts as PostgreSQL does when the source is a parameter of that
/// very type: `$1::int` stays a cast, so that the parameter's type can be read off it.
fn plain_for_parameters(ty: u32) -> bool {
    matches!(
        ty,
        oid::BOOL
            | oid::INT2
            | oid::INT4
            | oid::INT8
            | oid::FLOAT4
            | oid::FLOAT8
            | oid::NUMERIC
            | oid::TEXT
            | oid::BYTEA
            | oid::DATE
            | oid::TIME
            | oid::TIMESTAMP
            | oid::TIMESTAMPTZ
            | oid::INTERVAL
            | oid::OID
    ) || type_by_oid(ty).is_some_and(|row| row.elem != 0 && row.category == 'A')
}

/// The oid that `pg_cast_NAME` casts to; `None` for other functions.
pub fn cast_function_oid(function: &str) -> Option<u32> {
    let name = function.strip_prefix("pg_cast_")?;
    crate::pg::types::TYPES.iter().find(|row| row.name == name).map(|row| row.oid)
}

/// Puts a cast to a column's type around an expression. Lengths of texts are left for the assignment to
/// judge: a cast would cut the texts short.
pub fn cast_to(expr: &mut Expr, ty: &ColumnType) {
    let (ty, typmod) = match ty {
        ColumnType::Varchar(_) | ColumnType::Char(_) => (oid::TEXT, -1),
        ty => (column_oid(ty), column_typmod(ty)),
    };
    let Some(row) = type_by_oid(ty) else { return };
    let mut args = vec![take(expr)];
    if typmod >= 0 {
        args.push(number(typmod.into()));
    }
    *expr = call(&format!("pg_cast_{}", row.name), args);
}

/// Rewrites `expr` cast to a type; `None` if it is to stay as it is.
pub(super) fn rewrite_cast(expr: &mut Expr, ty: &DataType) -> Result<Option<Expr>, SqlError> {
    let field = arrow_field_from_sql(ty)?;
    let ty = field_oid(&field);
    let typmod = field_typmod(&field);
    let Some(row) = type_by_oid(ty) else { return Ok(None) };
    match bare(expr) {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(_) if plain_for_parameters(ty) => return Ok(None),
            Value::Null => return Ok(None),
            Value::Boolean(_) if ty == oid::BOOL => return Ok(None),
            _ => {}
        },
        // a default kept in the catalog may have been rewritten already
        Expr::Function(inner) if super::last_name(&inner.name) == format!("pg_cast_{}", row.name) && typmod < 0 => {
            return Ok(Some(take(expr)));
        }
        _ => {}
    }
    let mut args = vec![take(expr)];
    if typmod >= 0 {
        args.push(number(typmod.into()));
    }
    Ok(Some(call(&format!("pg_cast_{}", row.name), args)))
}
