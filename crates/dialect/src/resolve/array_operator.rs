//! `a op ANY (array)` and `a op ALL (array)` (`make_scalar_array_op` of `parse_oper.c`).

use super::operator::ResolvedOperator;
use crate::catalog::Catalog;
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

/// An operator between a value and each element of an array.
#[derive(Clone, Debug)]
pub struct ResolvedArrayOperator<'a> {
    /// The operator between the value and one element; its `right` is an element's type. The result is
    /// boolean.
    pub operator: ResolvedOperator<'a>,
    /// What the array is cast to, implicitly.
    pub array: TypeId,
}

impl Catalog {
    /// The operator that `left name ANY (array)` means for each element of an array of type `array`.
    /// An unknown literal on the right is an array of what is on the left.
    ///
    /// # Errors
    /// 42809: the right side is no array, or the operator's result is not boolean; 42883, 42725 and
    /// 42804 as for [`resolve_operator`](Catalog::resolve_operator).
    pub fn resolve_array_operator(&self, name: &str, left: TypeId, array: TypeId) -> Result<ResolvedArrayOperator<'_>> {
        let element = match array {
            TypeId::UNKNOWN => TypeId::UNKNOWN,
            _ => self
                .base_element_type(array)
                .ok_or_else(|| ResolveError::wrong_object("op ANY/ALL (array) requires array on right side"))?,
        };
        let entry = self.choose_operator(name, Some(left), element)?;
        let declared = entry.right;
        let operator = self.resolve_operator(name, Some(left), element)?;
        if operator.result != TypeId::BOOL {
            return Err(ResolveError::wrong_object("op ANY/ALL (array) requires operator to yield boolean"));
        }
        if self.function(operator.function).is_some_and(|f| f.returns_set) {
            return Err(ResolveError::wrong_object("op ANY/ALL (array) requires operator not to return a set"));
        }
        // A polymorphic operand takes the elements as they are, so the array as well.
        let array = if declared.is_polymorphic() && !element.is_unknown() {
            self.base_type(array)
        } else {
            self.array_type(operator.right).ok_or_else(|| {
                let shown = self.format_type(operator.right);
                ResolveError::new("42704", format!("could not find array type for data type {shown}"))
            })?
        };
        Ok(ResolvedArrayOperator { operator, array })
    }
}
