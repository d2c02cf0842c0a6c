//! Assignments to an element of an array or a document: `SET a[2] = x`, `SET d['k'] = x`.
//!
//! The value of the column is what it was, with the element changed; several such assignments to one column are done
//! one after another, in the order in which they are written.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::lit;
use datafusion::sql::sqlparser::ast;
use resurgam_dialect::CastContext;

use super::bound::{Bound, Type};
use super::coerce::catalog;
use super::expr::{arguments, plain_args};
use super::{Analyzer, Result, unknown};
use crate::parse::element::ELEMENT;
use crate::pg::types::oid;
use crate::wire::SqlError;

/// Subscripts and value, if the value of an assignment is one of an element.
pub(super) fn of_element(value: &ast::Expr) -> Option<(Vec<&ast::Expr>, &ast::Expr)> {
    let ast::Expr::Function(call) = value else { return None };
    if call.name.0.len() != 1 || call.name.0[0].as_ident().is_none_or(|name| name.value != ELEMENT) {
        return None;
    }
    let mut args = arguments(call).and_then(plain_args)?;
    let value = args.pop()?;
    Some((args, value))
}

impl Analyzer<'_> {
    /// `base` with the element changed that the subscripts name. `column` is the column's name.
    ///
    /// # Errors
    /// `42804` for a type without elements, for subscripts and values of other types.
    pub(super) fn with_element(
        &mut self,
        base: Bound,
        subscripts: Vec<Bound>,
        value: Bound,
        column: &str,
    ) -> Result<Bound> {
        if base.ty.oid == oid::JSONB {
            return self.with_part(base, subscripts, value, column);
        }
        let Some(element) = catalog().element_type(base.ty.id()).map(|ty| Type::of(ty.0)) else {
            let message = format!("cannot subscript type {} because it does not support subscripting", base.ty.name());
            return Err(SqlError::new("42804", message).into());
        };
        let DataType::List(item) = base.data.clone() else { return unknown("an array of this form") };
        let Ok([index]) = <[Bound; 1]>::try_from(subscripts) else {
            return unknown("an assignment to an element of several dimensions");
        };
        let index = self.assigned_to(index, Type::INT4, "array subscript must have type integer")?;
        let index = self.converted(index, Type::INT8)?;
        let value = self.element_value(value, element, column)?;
        let value = self.in_form(value, item.data_type())?;
        let (ty, data, span) = (base.ty, base.data.clone(), base.span);
        let changed = self.call_named("pg_array_assign", vec![base, index, value], ty)?;
        match changed.data == data {
            true => Ok(changed.at(span)),
            false => unknown("an assignment to an element of this type"),
        }
    }

    /// `document` with the part changed that a path of keys and numbers leads to.
    fn with_part(&mut self, document: Bound, path: Vec<Bound>, value: Bound, column: &str) -> Result<Bound> {
        let span = document.span;
        let mut steps = Vec::with_capacity(path.len());
        let mut is_number = None;
        for step in path {
            let step = self.or_text(step)?;
            match step.ty.oid {
                oid::INT2 | oid::INT4 | oid::TEXT | oid::VARCHAR => {}
                _ => return unknown("a jsonb subscript of this type"),
            }
            is_number.get_or_insert(matches!(step.ty.oid, oid::INT2 | oid::INT4));
            steps.push(self.cast_as(step, Type::TEXT, CastContext::Explicit)?);
        }
        let path = self.call_named("make_array", steps, Type::of(oid::TEXT_ARRAY))?;
        let value = self.element_value(value, Type::of(oid::JSONB), column)?;
        let number = Bound::new(lit(is_number.unwrap_or(false)), Type::BOOL);
        let args = vec![document, path, value, number];
        Ok(self.call_named("pg_jsonb_assign", args, Type::of(oid::JSONB))?.at(span))
    }

    /// What is assigned to an element, as one of its type.
    fn element_value(&mut self, value: Bound, to: Type, column: &str) -> Result<Bound> {
        if value.ty.is_unknown() {
            return self.read(value, to);
        }
        if value.ty.oid == to.oid {
            return Ok(value);
        }
        let span = value.span;
        if catalog().assign(column, value.ty.id(), value.ty.typmod, to.id(), -1).is_err() {
            let message = format!(
                "subscripted assignment to \"{column}\" requires type {} but expression is of type {}",
                to.name(),
                value.ty.name()
            );
            let error = SqlError::new("42804", message).with_hint("You will need to rewrite or cast the expression.");
            return Err(self.at(error, span));
        }
        self.cast_without_length(value, to)
    }
}
