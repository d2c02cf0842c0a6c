//! The type that several values have in common: CASE, UNION, VALUES, ARRAY, COALESCE, GREATEST, IN
//! (`select_common_type`, `select_common_typmod` of `parse_coerce.c`).
//!
//! Order matters: what comes first wins in doubt. CASE counts its ELSE first.

use crate::catalog::{CastContext, Catalog};
use crate::error::{ResolveError, Result};
use crate::types::{TypeId, typmod};

/// The modifier that values have in common: that of all of them, if each has the common type and all
/// have the same one; else -1. For the columns of UNION and VALUES.
pub fn common_typmod(common: TypeId, values: &[(TypeId, i32)]) -> i32 {
    same_typmod(common, values)
}

/// The modifier of a CASE, COALESCE, GREATEST, LEAST or ARRAY whose (already cast) members have these
/// types and modifiers: theirs if all agree, else -1 (`exprTypmod`).
pub fn same_typmod(ty: TypeId, members: &[(TypeId, i32)]) -> i32 {
    match members {
        [(_, first), ..] if members.iter().all(|m| *m == (ty, *first)) => *first,
        _ => typmod::NONE,
    }
}

impl Catalog {
    /// The common type of values, of which there is at least one; all unknown is `text`.
    ///
    /// That each value can be cast to it is not promised: see [`check_common`](Catalog::check_common).
    ///
    /// # Errors
    /// 42804: "`context` types a and b cannot be matched": they are of different categories.
    pub fn common_type(&self, context: &str, types: &[TypeId]) -> Result<TypeId> {
        self.common(types).map_err(|(a, b)| {
            let (a, b) = (self.format_type(a), self.format_type(b));
            ResolveError::mismatch(format!("{context} types {a} and {b} cannot be matched"))
        })
    }

    /// The common type of a CASE's results; `otherwise` is that of its ELSE, unknown without one.
    ///
    /// # Errors
    /// As [`common_type`](Catalog::common_type), with `CASE`.
    pub fn case_type(&self, results: &[TypeId], otherwise: TypeId) -> Result<TypeId> {
        let mut all = Vec::with_capacity(results.len() + 1);
        all.push(otherwise);
        all.extend_from_slice(results);
        self.common_type("CASE", &all)
    }

    /// The common type of `left IN (items)` if the list can be one array: then it is
    /// `left = ANY (ARRAY[items])` with the items cast to this type. `None`: each item is compared with
    /// `left` by itself, joined by OR (NOT IN: by AND). PostgreSQL asks this only when there is more
    /// than one item without a column reference, and only for these items.
    pub fn in_list_type(&self, left: TypeId, items: &[TypeId]) -> Option<TypeId> {
        let mut all = Vec::with_capacity(items.len() + 1);
        all.push(left);
        all.extend_from_slice(items);
        let common = self.common(&all).ok().filter(|c| self.verify_common(*c, &all))?;
        (common != TypeId::RECORD && self.array_type(common).is_some()).then_some(common)
    }

    /// That a value of `ty` can become one of the `common` type.
    ///
    /// # Errors
    /// 42846: "`context` could not convert type a to b".
    pub fn check_common(&self, context: &str, ty: TypeId, common: TypeId) -> Result<()> {
        if self.can_coerce_one(ty, common, CastContext::Implicit) {
            return Ok(());
        }
        let (ty, common) = (self.format_type(ty), self.format_type(common));
        Err(ResolveError::new("42846", format!("{context} could not convert type {ty} to {common}")))
    }

    /// All of them can become the `common` type.
    pub(super) fn verify_common(&self, common: TypeId, types: &[TypeId]) -> bool {
        types.iter().all(|&ty| self.can_coerce_one(ty, common, CastContext::Implicit))
    }

    /// The common type, or the two of which it failed.
    pub(super) fn common(&self, types: &[TypeId]) -> Result<TypeId, (TypeId, TypeId)> {
        let Some((&first, rest)) = types.split_first() else {
            return Ok(TypeId::TEXT);
        };
        // Only here a domain stays itself.
        if !first.is_unknown() && rest.iter().all(|&ty| ty == first) {
            return Ok(first);
        }
        let implicit = |a, b| self.can_coerce_one(a, b, CastContext::Implicit);
        let mut chosen = self.base_type(first);
        let (mut category, mut preferred) = self.category(chosen);
        for &ty in rest {
            let ty = self.base_type(ty);
            if ty.is_unknown() || ty == chosen {
                continue;
            }
            let (new_category, new_preferred) = self.category(ty);
            let take = if chosen.is_unknown() {
                true
            } else if new_category != category {
                return Err((chosen, ty));
            } else {
                // One-way streets lead to the wider type; a preferred type is not left.
                !preferred && implicit(chosen, ty) && !implicit(ty, chosen)
            };
            if take {
                (chosen, category, preferred) = (ty, new_category, new_preferred);
            }
        }
        Ok(if chosen.is_unknown() { TypeId::TEXT } else { chosen })
    }
}
