//! Blanks at the end of `character(n)`.
//!
//! Values are kept without them, as they are compared; the type's length says how many a value is shown with.
//! PostgreSQL keeps them, so they are seen where a value is shown as a text (`concat`), is matched with a pattern, or
//! comes out of something that has values of several lengths, as `coalesce(a, b)` of a `character(3)` and a
//! `character(5)`. Such a mixture has no length, and its values carry their blanks where nothing but the result can
//! see that: in the select list of a query that neither groups nor compares its rows ([`Analyzer::blanks`]). What
//! compares them there, or makes texts of them, takes the blanks off again. Elsewhere a mixture is refused.

use datafusion::logical_expr::{Expr, lit};

use super::bound::{Bound, Type};
use super::{Analyzer, Result};
use crate::pg::types::oid;

/// What a length's modifier is more than the length.
const HEADER: i32 = 4;

const BPCHAR: Type = Type::of(oid::BPCHAR);

impl Analyzer<'_> {
    /// A value as it is shown: a text, with its blanks if it is a `character(n)`.
    pub(super) fn shown(&mut self, bound: Bound) -> Result<Bound> {
        match bound.ty {
            Type { oid: oid::BPCHAR, typmod } if typmod > HEADER && !bound.is_null() => self.padded(bound, Type::TEXT),
            _ => Ok(bound),
        }
    }

    /// A value of `character(n)` beside others of other lengths.
    pub(super) fn mixed(&mut self, bound: Bound) -> Result<Bound> {
        match self.blanks && !bound.is_null() {
            true => self.padded(bound, BPCHAR),
            false => Ok(Bound { ty: BPCHAR, ..bound }),
        }
    }

    /// Refuses a `character` of several lengths where its blanks would be seen and are not there.
    pub(super) fn refuse_mixture(&self, values: &[&Bound], common: Type, context: &str) -> Result<()> {
        let shown = match context {
            _ if self.stored => false,
            "CASE" | "COALESCE" | "GREATEST" | "LEAST" => self.listed,
            "UNION" | "INTERSECT" | "EXCEPT" | "VALUES" | "UNION/INTERSECT/EXCEPT" => true,
            _ => false,
        };
        let has_length = |bound: &&Bound| bound.ty.oid == oid::BPCHAR && bound.ty.typmod > HEADER && !bound.is_null();
        if shown && common == BPCHAR && values.iter().any(has_length) {
            let message = "character(n) of different lengths where rows are grouped or compared, or in a subquery";
            return super::unknown(message);
        }
        Ok(())
    }

    fn padded(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        let (span, length) = (bound.span, bound.ty.typmod - HEADER);
        let args = vec![Bound { ty: Type::TEXT, ..bound }, Bound::new(lit(i64::from(length)), Type::INT8)];
        Ok(self.call_named("rpad", args, to)?.at(span))
    }

    /// A value that may carry blanks, without them.
    pub(super) fn without_blanks(&mut self, bound: Bound) -> Result<Bound> {
        let carries =
            self.blanks && bound.ty == BPCHAR && !matches!(bound.expr, Expr::Literal(..) | Expr::Placeholder(_));
        if !carries {
            return Ok(bound);
        }
        let span = bound.span;
        let args = vec![Bound { ty: Type::TEXT, ..bound }, Bound::new(lit(" "), Type::TEXT)];
        Ok(self.call_named("rtrim", args, BPCHAR)?.at(span))
    }
}

/// The type of the result of an aggregate or window function that gives one of its arguments back: PostgreSQL's has
/// no length, but the value has its blanks.
pub(super) fn given_back(result: Type, args: &[Bound]) -> Type {
    match (result.oid, args.first()) {
        (oid::BPCHAR, Some(first)) if first.ty.oid == oid::BPCHAR => first.ty,
        _ => result,
    }
}
