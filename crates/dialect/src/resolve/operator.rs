//! Operators (`oper`, `left_oper`, `make_op` of `parse_oper.c`).

use super::candidate::{Candidate, Choice};
use crate::catalog::{Catalog, Operator};
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

/// The operator that a name with its operands is, and what to make of the operands.
#[derive(Clone, Debug)]
pub struct ResolvedOperator<'a> {
    pub operator: &'a Operator,
    /// Oid of the function that computes it.
    pub function: u32,
    /// What the left operand is cast to, implicitly; its own type where the operator takes it as it is.
    /// `None` for a prefix operator.
    pub left: Option<TypeId>,
    /// The same for the right operand.
    pub right: TypeId,
    pub result: TypeId,
}

impl Catalog {
    /// The operator that `left name right` means; without `left` a prefix operator.
    ///
    /// # Errors
    /// 42883: "operator does not exist: a + b"; 42725: "operator is not unique: a + b"; 42804 where
    /// polymorphic operands do not agree.
    pub fn resolve_operator(&self, name: &str, left: Option<TypeId>, right: TypeId) -> Result<ResolvedOperator<'_>> {
        let operator = self.choose_operator(name, left, right)?;
        if operator.code == 0 {
            let shown = self.operator_signature(name, operator.left, operator.right);
            return Err(ResolveError::undefined_function(format!("operator is only a shell: {shown}")));
        }
        let actual: Vec<TypeId> = left.into_iter().chain([right]).collect();
        let mut declared: Vec<TypeId> = operator.left.into_iter().chain([operator.right]).collect();
        let result = self.enforce_generic(&actual, &mut declared, operator.result)?;
        let mut targets = actual.iter().zip(&declared).map(|(&actual, &declared)| self.argument(actual, declared));
        let left = if left.is_some() { targets.next() } else { None };
        let right = targets.next().unwrap_or(right);
        Ok(ResolvedOperator { operator, function: operator.code, left, right, result })
    }

    /// What an argument is cast to: the declared type, or its own where the declared one takes any.
    pub(super) fn argument(&self, actual: TypeId, declared: TypeId) -> TypeId {
        match declared {
            TypeId::ANY
            | TypeId::ANYELEMENT
            | TypeId::ANYNONARRAY
            | TypeId::ANYCOMPATIBLE
            | TypeId::ANYCOMPATIBLENONARRAY => actual,
            _ if declared.is_polymorphic() && !actual.is_unknown() => self.base_type(actual),
            _ => declared,
        }
    }

    /// The catalog's entry, before polymorphic types are solved.
    pub(super) fn choose_operator(&self, name: &str, left: Option<TypeId>, right: TypeId) -> Result<&Operator> {
        if let Some(exact) = self.exact_operator(name, left, right) {
            return Ok(exact);
        }
        let args: Vec<TypeId> = left.into_iter().chain([right]).collect();
        let candidates = self
            .operators_named(name)
            .filter(|o| o.left.is_some() == left.is_some())
            .map(|of| Candidate { of, args: of.left.into_iter().chain([of.right]).collect() })
            .collect();
        match self.choose(&args, candidates) {
            Choice::One(one) => Ok(one.of),
            choice => Err(self.operator_error(name, left, right, matches!(choice, Choice::Several))),
        }
    }

    /// The operator of exactly these types, an unknown literal taken for the other operand's type.
    fn exact_operator(&self, name: &str, left: Option<TypeId>, right: TypeId) -> Option<&Operator> {
        let Some(known_left) = left else {
            return self.operator_exact(name, None, right);
        };
        let (a, b, guessed) = match (known_left.is_unknown(), right.is_unknown()) {
            (true, _) => (right, right, true),
            (false, true) => (known_left, known_left, true),
            (false, false) => (known_left, right, false),
        };
        let exact = self.operator_exact(name, Some(a), b);
        if exact.is_some() || !guessed {
            return exact;
        }
        let base = self.base_type(a);
        if base == a { None } else { self.operator_exact(name, Some(base), base) }
    }

    fn operator_error(&self, name: &str, left: Option<TypeId>, right: TypeId, several: bool) -> ResolveError {
        let shown = self.operator_signature(name, left, right);
        if several {
            return ResolveError::new("42725", format!("operator is not unique: {shown}"))
                .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.");
        }
        ResolveError::undefined_function(format!("operator does not exist: {shown}")).with_hint(match left {
            Some(_) => {
                "No operator matches the given name and argument types. You might need to add explicit type casts."
            }
            None => {
                "No operator matches the given name and argument type. You might need to add an explicit type cast."
            }
        })
    }

    /// `integer + text`, `- text`.
    fn operator_signature(&self, name: &str, left: Option<TypeId>, right: TypeId) -> String {
        let left = left.map(|ty| self.format_type(ty) + " ").unwrap_or_default();
        format!("{left}{name} {}", self.format_type(right))
    }
}
