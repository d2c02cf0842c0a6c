//! `enum_first`, `enum_last`, `enum_range`: what they give is known with the type, but for the bounds of a range.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::lit;

use super::bound::{Bound, Type};
use super::coerce::catalog;
use super::{Analyzer, Result, unknown};
use crate::pg::functions::enum_range;
use crate::pg::user_types::{enum_data, labels_of};

impl Analyzer<'_> {
    /// A call of one of them; `None`: it is none.
    pub(super) fn enum_call(&mut self, name: &str, args: &[Bound], result: Type) -> Result<Option<Bound>> {
        let last = match name {
            "enum_first" => false,
            "enum_last" => true,
            "enum_range" => {
                let Some(element) = catalog().element_type(result.id()) else { return Ok(None) };
                let Some(function) = enum_range(element.0) else { return unknown("a range of this type") };
                let whole = || Bound::literal(ScalarValue::Null, Type::of(element.0));
                let (from, to) = match args {
                    [from, to] => (from.clone(), to.clone()),
                    _ => (whole(), whole()),
                };
                let (expr, data) = self.call_udf(&Arc::new(function), vec![from, to])?;
                return Ok(Some(Bound::with_data(expr, result, data)));
            }
            _ => return Ok(None),
        };
        let number = labels_of(result.oid, None)?.end(last)?;
        let data = enum_data(result.oid);
        let value = ScalarValue::try_from(&data)?;
        let ScalarValue::TimestampSecond(_, zone) = value else { return unknown("labels of this type") };
        Ok(Some(Bound::with_data(lit(ScalarValue::TimestampSecond(Some(number), zone)), result, data)))
    }
}
