//! The type of `ARRAY[…]` (`transformArrayExpr` of `parse_expr.c`).

use crate::catalog::Catalog;
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

/// What `ARRAY[a, b]` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayType {
    /// The type of the whole.
    pub array: TypeId,
    /// What an array of it holds in the end.
    pub element: TypeId,
    /// What each member is cast to: `element`, or `array` where the members are arrays themselves.
    pub member: TypeId,
}

impl Catalog {
    /// The type of an ARRAY constructor with members of these types.
    ///
    /// # Errors
    /// 42P18 without members; 42804: they have no common type; 42704: there is no array of it.
    pub fn array_type_of(&self, members: &[TypeId]) -> Result<ArrayType> {
        if members.is_empty() {
            return Err(ResolveError::new("42P18", "cannot determine type of empty array")
                .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let member = self.common_type("ARRAY", members)?;
        let missing = |what: &str| {
            let shown = self.format_type(member);
            ResolveError::new("42704", format!("could not find {what} type for data type {shown}"))
        };
        // A member that is an array adds a dimension; these two are held to one.
        let vector = |ty| matches!(ty, TypeId::INT2VECTOR | TypeId::OIDVECTOR);
        if members.iter().any(|&ty| self.is_array(ty) && !vector(ty)) {
            let element = self.element_type(member).ok_or_else(|| missing("element"))?;
            return Ok(ArrayType { array: member, element, member });
        }
        let array = self.array_type(member).ok_or_else(|| missing("array"))?;
        Ok(ArrayType { array, element: member, member })
    }
}
