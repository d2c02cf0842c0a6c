//! `generate_series` in FROM: DataFusion's, for arguments as PostgreSQL's types have them.

use std::sync::Arc;

use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::Expr;

use crate::pg::errors::to_datafusion;
use crate::wire::SqlError;

/// DataFusion's function, behind a translation of constants.
#[derive(Debug)]
pub(super) struct PgGenerateSeries(pub Arc<TableFunction>);

impl TableFunctionImpl for PgGenerateSeries {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DfResult<Arc<dyn TableProvider>> {
        let exprs = args.exprs().iter().map(translate).collect::<DfResult<Vec<_>>>()?;
        if let Some(Expr::Literal(step, _)) = exprs.get(2)
            && matches!(step, ScalarValue::Int64(Some(0)))
        {
            return Err(to_datafusion(SqlError::new("22023", "step size cannot equal zero")));
        }
        self.0.create_table_provider_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

/// Timestamps count nanoseconds there, and numbers are `bigint`.
fn translate(expr: &Expr) -> DfResult<Expr> {
    let Expr::Literal(value, metadata) = expr else { return Ok(expr.clone()) };
    let too_far = || to_datafusion(SqlError::new("22008", "timestamp out of range"));
    let value = match value {
        ScalarValue::TimestampMicrosecond(Some(us), zone) => {
            ScalarValue::TimestampNanosecond(Some(us.checked_mul(1000).ok_or_else(too_far)?), zone.clone())
        }
        ScalarValue::Date32(Some(days)) => ScalarValue::TimestampNanosecond(
            Some(i64::from(*days).checked_mul(86_400_000_000_000).ok_or_else(too_far)?),
            None,
        ),
        ScalarValue::Int8(Some(v)) => ScalarValue::Int64(Some((*v).into())),
        ScalarValue::Int16(Some(v)) => ScalarValue::Int64(Some((*v).into())),
        ScalarValue::Int32(Some(v)) => ScalarValue::Int64(Some((*v).into())),
        ScalarValue::UInt32(Some(v)) => ScalarValue::Int64(Some((*v).into())),
        ScalarValue::Decimal128(Some(v), _, scale) => {
            let whole = crate::pg::decode::rescale(*v, (*scale).into(), 38, 0).map_err(to_datafusion)?;
            let back = whole.checked_mul(10i128.pow((*scale).max(0) as u32));
            match (back == Some(*v), i64::try_from(whole)) {
                (true, Ok(whole)) => ScalarValue::Int64(Some(whole)),
                _ => {
                    return Err(to_datafusion(SqlError::unsupported(
                        "generate_series over fractional numbers is not supported",
                    )));
                }
            }
        }
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            // an untyped literal, as in generate_series(timestamp '…', timestamp '…', '1 day')
            let interval = crate::pg::decode::parse_interval(text).map_err(to_datafusion)?;
            let nanos = interval.us.checked_mul(1000).ok_or_else(too_far)?;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(interval.months, interval.days, nanos)))
        }
        other => other.clone(),
    };
    Ok(Expr::Literal(value, metadata.clone()))
}
