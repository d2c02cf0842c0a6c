//! TABLESAMPLE: each row of a table is in the result with a probability.
//!
//! SYSTEM may take whole pages where BERNOULLI takes rows; here both take rows, which both allow.
//! REPEATABLE, which wants the same rows for the same seed, is refused.

use datafusion::logical_expr::{LogicalPlanBuilder, Operator, binary_expr, lit};
use datafusion::sql::sqlparser::ast;

use super::bound::Type;
use super::from::From;
use super::{Analyzer, Result, unknown};
use crate::pg::types::oid;
use crate::wire::SqlError;

impl Analyzer<'_> {
    /// The rows of a table that a sample takes.
    ///
    /// # Errors
    /// `2202H` for a percentage that is none, `0A000` for what is not supported.
    pub(super) fn sample(&mut self, whole: From, sample: &ast::TableSample) -> Result<From> {
        if sample.name.is_none() || sample.bucket.is_some() || sample.offset.is_some() {
            return Err(SqlError::syntax("syntax error in TABLESAMPLE").into());
        }
        if sample.seed.is_some() {
            return unknown("TABLESAMPLE … REPEATABLE");
        }
        let Some(ast::TableSampleQuantity { parenthesized: true, value, unit: None }) = &sample.quantity else {
            return Err(SqlError::syntax("syntax error in TABLESAMPLE").into());
        };
        let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), span }) = value else {
            return unknown("TABLESAMPLE of a percentage that is no constant");
        };
        let span = *span;
        let percentage: f64 = digits.parse().unwrap_or(f64::NAN);
        if !(0.0..=100.0).contains(&percentage) {
            return Err(self.at(SqlError::new("2202H", "sample percentage must be between 0 and 100"), span));
        }
        let chance = self.call("random", vec![], span)?;
        debug_assert_eq!(chance.ty, Type::of(oid::FLOAT8));
        let taken = binary_expr(chance.expr, Operator::Lt, lit(percentage / 100.0));
        let plan = LogicalPlanBuilder::from(whole.plan).filter(taken)?.build()?;
        Ok(From { plan, items: whole.items })
    }
}
