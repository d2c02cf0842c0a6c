//! What a body gives, as the function returns it.

use std::sync::Arc;

use resurgam_dialect::CastContext;

use super::bound::{Bound, Relation, Type};
use super::select::{Target, project};
use super::write::Write;
use super::{Analyzer, Refusal, Result};
use crate::pg::types::oid;
use crate::pg::user_functions::{Param, UserFunction};
use crate::wire::SqlError;

impl Analyzer<'_> {
    /// The function whose last statement is analysed, if it returns something.
    fn returning_function(&self) -> Option<Arc<UserFunction>> {
        let body = self.params.body.as_ref().filter(|body| body.is_last)?;
        (body.function.definition.result != oid::VOID).then(|| Arc::clone(&body.function))
    }

    /// What the last query of a body gives, as the function returns it.
    pub(super) fn as_returned(&mut self, relation: Relation) -> Result<Relation> {
        match self.returning_function() {
            Some(function) => self.result_rows(&function, relation),
            None => Ok(relation),
        }
    }

    /// Rows of a body, as its function returns them.
    pub(super) fn result_rows(&mut self, function: &UserFunction, relation: Relation) -> Result<Relation> {
        let wanted = result_columns(function);
        if relation.columns.len() != wanted.len() {
            return Err(wrong_columns(function, relation.columns.len(), wanted.len()).into());
        }
        let mut targets = Vec::with_capacity(wanted.len());
        for (at, (column, (name, ty))) in relation.columns.into_iter().zip(&wanted).enumerate() {
            let bound = self.result_column(function, column.bound, *ty, at, wanted.len())?;
            targets.push(Target { name: name.clone(), bound, is_hidden: false });
        }
        project(relation.plan, &targets)
    }

    /// What RETURNING of the last statement of a body gives, as the function returns it.
    pub(super) fn return_from_body(&mut self, write: &mut Write) -> Result<()> {
        let Some(function) = self.returning_function() else { return Ok(()) };
        let wanted = result_columns(&function);
        let Some(list) = &mut write.returning else {
            let text = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.";
            return Err(mismatch(&function, text).into());
        };
        if list.columns.len() != wanted.len() {
            return Err(wrong_columns(&function, list.columns.len(), wanted.len()).into());
        }
        let columns = std::mem::take(&mut list.columns);
        let forms = std::mem::take(&mut list.data);
        for (at, ((column, expr), data)) in columns.into_iter().zip(forms).enumerate() {
            let (name, ty) = &wanted[at];
            let bound = Bound::with_data(expr, column.ty, data);
            let bound = self.result_column(&function, bound, *ty, at, wanted.len())?;
            list.data.push(bound.data.clone());
            list.columns.push((
                super::OutputColumn { name: name.clone(), ty: bound.ty, origin: None, collation: 0 },
                bound.expr,
            ));
        }
        Ok(())
    }

    /// A column of what a body gives, as the function returns it.
    pub(super) fn result_column(
        &mut self,
        function: &UserFunction,
        bound: Bound,
        wanted: Type,
        at: usize,
        columns: usize,
    ) -> Result<Bound> {
        let given = bound.ty.name();
        match self.as_result(function, bound, wanted) {
            Err(Refusal::Error(error)) if error.sqlstate == "42P13" && columns > 1 => {
                let text =
                    format!("Final statement returns {given} instead of {} at column {}.", wanted.name(), at + 1);
                Err(mismatch(function, text).into())
            }
            done => done,
        }
    }

    /// A body's value as one of the type that the function returns.
    pub(super) fn as_result(&mut self, function: &UserFunction, bound: Bound, result: Type) -> Result<Bound> {
        // As in PostgreSQL a constant without a type is a text by then.
        let bound = self.or_text(bound)?;
        if bound.ty.oid == result.oid {
            return Ok(Bound { ty: result, ..bound });
        }
        let given = bound.ty.name();
        match self.cast_as(bound, result, CastContext::Assignment) {
            Err(Refusal::Error(error)) if matches!(error.sqlstate.as_str(), "42846" | "42804") => {
                Err(mismatch(function, format!("Actual return type is {given}.")).into())
            }
            done => done,
        }
    }
}

/// What the final statement has to give, and did not.
pub(super) fn mismatch(function: &UserFunction, detail: impl Into<String>) -> SqlError {
    let returns = match function.definition.columns().count() {
        0 | 1 => crate::pg::types::format_type(function.definition.result, None),
        _ => "record".to_owned(),
    };
    SqlError::new("42P13", format!("return type mismatch in function declared to return {returns}")).with_detail(detail)
}

/// Names and types of what a function gives: one column, or those of RETURNS TABLE and of OUT parameters.
pub(crate) fn result_columns(function: &UserFunction) -> Vec<(String, Type)> {
    let count = function.definition.columns().count();
    let named = |(at, param): (usize, &Param)| {
        let name = match (param.name.is_empty(), count) {
            (false, _) => param.name.clone(),
            (true, 1) => function.name().to_owned(),
            (true, _) => format!("column{}", at + 1),
        };
        (name, Type::of(param.ty))
    };
    match count {
        0 => vec![(function.name().to_owned(), Type::of(function.definition.result))],
        _ => function.definition.columns().enumerate().map(named).collect(),
    }
}

pub(super) fn wrong_columns(function: &UserFunction, given: usize, wanted: usize) -> SqlError {
    match wanted {
        1 => mismatch(function, "Final statement must return exactly one column."),
        _ if given < wanted => mismatch(function, "Final statement returns too few columns."),
        _ => mismatch(function, "Final statement returns too many columns."),
    }
}
