//! Blanks at the end of `character(n)`.
//!
//! Values are kept without them, as they are compared; the type's length says how many a value is shown with.
//! PostgreSQL keeps them, so they are seen where a value is shown as a text (`concat`), is matched with a pattern, or
//! comes out of something that has values of several lengths, as `coalesce(a, b)` of a `character(3)` and a
//! `character(5)`. Such a mixture has no length, so its values carry their blanks: they are of the Arrow type
//! [`PADDED`], which no other value is. Nothing compares them as they are: operators take the blanks off
//! ([`Analyzer::without_blanks`]), and what sorts, groups, or makes rows distinct goes by keys, as it does for all types
//! of which equal values may be shown in several ways (`NumericKeys`).
//!
//! An array of `character` is a mixture as well: its elements carry their blanks, but for what has come as a parameter or
//! a constant without a length. The same holds for it.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, cast, lit};

use super::bound::{Bound, Type};
use super::{Analyzer, Result};
use crate::pg::functions::array_blanks::{self, padded_list};
use crate::pg::types::{PADDED, TEXT, oid};

/// What a length's modifier is more than the length.
const HEADER: i32 = 4;

/// `character` without a length.
pub(super) const BPCHAR: Type = Type::of(oid::BPCHAR);

impl Bound {
    /// It is a `character` that carries its blanks.
    pub(super) fn is_padded(&self) -> bool {
        self.data == PADDED
    }

    /// It is an array of `character`s that carry their blanks.
    pub(super) fn has_padded_elements(&self) -> bool {
        self.data == padded_list()
    }
}

/// A `character` of a length.
pub(super) fn has_length(ty: Type) -> bool {
    ty.oid == oid::BPCHAR && ty.typmod > HEADER
}

impl Analyzer<'_> {
    /// A value as it is shown: a text, with its blanks if it is a `character`.
    pub(super) fn shown(&mut self, bound: Bound) -> Result<Bound> {
        if bound.is_padded() {
            let expr = self.folded(cast(bound.expr, TEXT));
            return Ok(Bound::new(expr, Type::TEXT).at(bound.span));
        }
        if bound.has_padded_elements() {
            let data = Type::of(oid::TEXT_ARRAY).data();
            let expr = self.folded(cast(bound.expr, data.clone()));
            return Ok(Bound::with_data(expr, Type::of(oid::TEXT_ARRAY), data).at(bound.span));
        }
        match has_length(bound.ty) && !bound.is_null() {
            true => self.with_blanks(bound),
            false => Ok(bound),
        }
    }

    /// A `character` as one without a length, beside others of other lengths.
    pub(super) fn mixed(&mut self, bound: Bound) -> Result<Bound> {
        if !has_length(bound.ty) {
            return Ok(Bound { ty: BPCHAR, ..bound });
        }
        if bound.is_null() {
            return Ok(Bound::literal(ScalarValue::LargeUtf8(None), BPCHAR).at(bound.span));
        }
        let text = self.with_blanks(bound)?;
        let expr = self.folded(cast(text.expr, PADDED));
        Ok(Bound::with_data(expr, BPCHAR, PADDED).at(text.span))
    }

    /// A text as a `character` without a length: it keeps the blanks that it has.
    pub(super) fn kept_blanks(&self, bound: &Bound, to: Type) -> Option<Bound> {
        if to.oid == oid::BPCHAR_ARRAY && to.typmod < 0 && bound.ty.oid == oid::TEXT_ARRAY {
            let list = padded_list();
            return Some(Bound::with_data(cast(bound.expr.clone(), list.clone()), to, list).at(bound.span));
        }
        if to != BPCHAR {
            return None;
        }
        let padded = |expr: Expr| Bound::with_data(expr, BPCHAR, PADDED).at(bound.span);
        if let Some(text) = bound.untyped_text() {
            let literal = || Expr::Literal(ScalarValue::LargeUtf8(Some(text.to_owned())), None);
            return text.ends_with(' ').then(|| padded(literal()));
        }
        let is_text = matches!(bound.ty.oid, oid::TEXT | oid::VARCHAR) && bound.data == TEXT;
        (is_text && !bound.is_null()).then(|| padded(self.folded(cast(bound.expr.clone(), PADDED))))
    }

    fn with_blanks(&mut self, bound: Bound) -> Result<Bound> {
        let (span, length) = (bound.span, bound.ty.typmod - HEADER);
        let args = vec![Bound { ty: Type::TEXT, ..bound }, Bound::new(lit(i64::from(length)), Type::INT8)];
        Ok(self.call_named("rpad", args, Type::TEXT)?.at(span))
    }

    /// An array of `character(n)`, whose elements have none, with blanks up to that length.
    pub(super) fn with_blanks_in_elements(&mut self, bound: Bound, typmod: i32) -> Result<Bound> {
        let (span, length) = (bound.span, (typmod - HEADER).max(0));
        let args = vec![bound, Bound::new(lit(i64::from(length)), Type::INT8)];
        let ty = Type { oid: oid::BPCHAR_ARRAY, typmod };
        Ok(self.call_named(array_blanks::PAD, args, ty)?.at(span))
    }

    /// Arguments of what puts arrays and elements together: with their blanks, if there is a `character` among them.
    pub(super) fn mixed_elements(&mut self, args: Vec<Bound>) -> Result<Vec<Bound>> {
        let mut out = Vec::with_capacity(args.len());
        for arg in args {
            out.push(match arg.ty.oid {
                oid::BPCHAR => {
                    let mixed = self.mixed(arg)?;
                    self.in_form(mixed, &PADDED)?
                }
                oid::BPCHAR_ARRAY => self.in_form(arg, &padded_list())?,
                _ => arg,
            });
        }
        Ok(out)
    }

    /// A value that may carry blanks, without them.
    pub(super) fn without_blanks(&mut self, bound: Bound) -> Result<Bound> {
        if bound.has_padded_elements() {
            let (ty, span) = (bound.ty, bound.span);
            return Ok(self.call_named(array_blanks::TRIM, vec![bound], ty)?.at(span));
        }
        if !bound.is_padded() {
            return Ok(bound);
        }
        let span = bound.span;
        if let Expr::Literal(ScalarValue::LargeUtf8(text), _) = &bound.expr {
            let text = text.as_ref().map(|text| text.trim_end_matches(' ').to_owned());
            return Ok(Bound::literal(ScalarValue::Utf8View(text), BPCHAR).at(span));
        }
        let text = match bound.expr {
            // What has been a text before.
            Expr::Cast(Cast { expr, field }) if field.data_type() == &PADDED => *expr,
            other => cast(other, TEXT),
        };
        let text = Bound::new(text, Type::TEXT);
        let args = vec![text, Bound::new(lit(" "), Type::TEXT)];
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
