//! TABLESAMPLE: each row of a table is in the result with a probability.
//!
//! SYSTEM may take whole pages where BERNOULLI takes rows; here both take rows, which both allow.
//! REPEATABLE takes the rows whose primary key, hashed with the seed, is below a bound: the same ones as long as they are there.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{LogicalPlanBuilder, Operator, binary_expr, cast, lit};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_dialect::CastContext;

use super::bound::{Bound, Type};
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
        if let Some(seed) = &sample.seed {
            let ast::Value::Number(seed, _) = &seed.value.value else {
                return unknown("TABLESAMPLE … REPEATABLE of a seed that is no constant");
            };
            let seed: f64 = seed.parse().unwrap_or(0.0);
            let hash = self.hash_of_key(&whole, seed, span)?;
            // Of 2^32 values, as many as the percentage says.
            let bound = (percentage / 100.0 * 4_294_967_296.0) as i64 + i64::from(i32::MIN);
            let taken = binary_expr(cast(hash.expr, DataType::Int64), Operator::Lt, lit(bound));
            let plan = LogicalPlanBuilder::from(whole.plan).filter(taken)?.build()?;
            return Ok(From { plan, items: whole.items });
        }
        let chance = self.call("random", vec![], span)?;
        debug_assert_eq!(chance.ty, Type::of(oid::FLOAT8));
        let taken = binary_expr(chance.expr, Operator::Lt, lit(percentage / 100.0));
        let plan = LogicalPlanBuilder::from(whole.plan).filter(taken)?.build()?;
        Ok(From { plan, items: whole.items })
    }
    /// A number of 32 bits that goes by the primary key of a table's row, and by a seed.
    fn hash_of_key(&mut self, whole: &From, seed: f64, span: Span) -> Result<Bound> {
        let key: Option<Vec<Bound>> = match whole.items.as_slice() {
            [item] => item.table.as_ref().filter(|table| table.columns.len() == item.columns.len()).and_then(|table| {
                let column = |at: &usize| item.columns.get(*at).map(|column| column.bound.clone());
                table.primary_key.iter().map(column).collect()
            }),
            _ => None,
        };
        let Some(key) = key.filter(|key| !key.is_empty()) else {
            return unknown("TABLESAMPLE … REPEATABLE of a table without a primary key");
        };
        let mut parts = vec![self.text_constant(&seed.to_string())];
        for column in key {
            let text = self.cast_as(column, Type::TEXT, CastContext::Explicit)?;
            parts.extend([self.text_constant("|"), text]);
        }
        let text = self.call("concat", parts, span)?;
        self.call("hashtext", vec![text], span)
    }
}
