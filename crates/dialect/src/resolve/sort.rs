//! What sorts and groups values of a type (`get_sort_group_operators` of `parse_oper.c`, the choice of
//! the operator class by `typcache.c`).

use crate::catalog::{Catalog, OperatorClass, TypeKind};
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

/// The operators by which a type is sorted and grouped, as oids; `None` where it has none. They may be
/// of another type that is the same in memory (`text`'s for `varchar`, `anyarray`'s for arrays).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOperators {
    pub less: Option<u32>,
    pub equal: Option<u32>,
    pub greater: Option<u32>,
    /// Values can be hashed.
    pub hashable: bool,
}

const NONE: SortOperators = SortOperators { less: None, equal: None, greater: None, hashable: false };

impl Catalog {
    /// What sorts and groups a type. An array has what its elements have.
    pub fn sort_operators(&self, ty: TypeId) -> SortOperators {
        let base = self.base_type(ty);
        let class = self.default_class(base, |c| c.btree_family != 0);
        let hash = self.default_class(base, |c| c.hash_family != 0);
        let oid = |oid: u32| Some(oid).filter(|&oid| oid != 0);
        let mut found = match (class, hash) {
            (Some(class), hash) => SortOperators {
                less: oid(class.less),
                equal: oid(class.equal),
                greater: oid(class.greater),
                hashable: hash.is_some(),
            },
            (None, Some(hash)) => SortOperators { equal: oid(hash.hash_equal), hashable: true, ..NONE },
            (None, None) => NONE,
        };
        // Not every row can be hashed, and its fields are not known here.
        found.hashable &= base != TypeId::RECORD;
        // The operators of arrays and ranges ask those of the elements.
        let inner =
            self.element_type(base).or_else(|| self.range_subtype(base)).or_else(|| self.multirange_range(base));
        if let Some(inner) = inner.filter(|_| !matches!(base, TypeId::OIDVECTOR | TypeId::INT2VECTOR)) {
            let inner = self.sort_operators(inner);
            if !self.is_array(base) {
                found.hashable &= inner.hashable;
                return found;
            }
            found.less = found.less.filter(|_| inner.less.is_some());
            found.greater = found.greater.filter(|_| inner.less.is_some());
            found.equal = found.equal.filter(|_| inner.equal.is_some());
            found.hashable &= inner.hashable;
        }
        found
    }

    /// The operator that sorts: `less` for ASC, `greater` for DESC.
    ///
    /// # Errors
    /// 42883: "could not identify an ordering operator for type json".
    pub fn ordering_operators(&self, ty: TypeId) -> Result<(u32, u32)> {
        let found = self.sort_operators(ty);
        found.less.zip(found.greater).ok_or_else(|| {
            let message = format!("could not identify an ordering operator for type {}", self.format_type(ty));
            ResolveError::undefined_function(message)
                .with_hint("Use an explicit ordering operator or modify the query.")
        })
    }

    /// The operator that groups: for DISTINCT, GROUP BY, UNION, PARTITION BY.
    ///
    /// # Errors
    /// 42883: "could not identify an equality operator for type json".
    pub fn equality_operator(&self, ty: TypeId) -> Result<u32> {
        self.sort_operators(ty).equal.ok_or_else(|| {
            let message = format!("could not identify an equality operator for type {}", self.format_type(ty));
            ResolveError::undefined_function(message)
        })
    }

    /// The class of the type itself, or of one that it is in memory; a preferred one before others.
    fn default_class(&self, ty: TypeId, wanted: impl Fn(&OperatorClass) -> bool) -> Option<OperatorClass> {
        if let Some(own) = self.operator_class(ty).filter(|c| wanted(c)) {
            return Some(*own);
        }
        let category = self.category(ty).0;
        let generic = match self.type_of(ty)? {
            t if t.is_true_array() => Some(TypeId::ANYARRAY),
            t => match t.kind {
                TypeKind::Enum => Some(TypeId::ANYENUM),
                TypeKind::Range => Some(TypeId::ANYRANGE),
                TypeKind::Multirange => Some(TypeId::ANYMULTIRANGE),
                TypeKind::Composite => Some(TypeId::RECORD),
                _ => None,
            },
        };
        if let Some(generic) = generic.and_then(|g| self.operator_class(g)).filter(|c| wanted(c)) {
            return Some(*generic);
        }
        let mut compatible: Vec<&OperatorClass> = self
            .casts()
            .iter()
            .filter(|c| c.source == ty && self.is_binary_coercible(ty, c.target))
            .filter_map(|c| self.operator_class(c.target))
            .filter(|c| wanted(c))
            .collect();
        compatible.sort_by_key(|c| self.category(c.ty) != (category, true));
        compatible.first().map(|c| **c)
    }
}
