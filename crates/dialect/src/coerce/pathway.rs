//! Whether and how a value of one type becomes one of another (`find_coercion_pathway`,
//! `can_coerce_type`, `IsBinaryCoercible` of `parse_coerce.c`).

use crate::catalog::{CastContext, CastMethod, Catalog, TypeKind};
use crate::types::TypeId;

/// The way from one type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pathway {
    /// There is none in this context.
    None,
    /// The value stays as it is (but a domain's constraints are checked).
    Relabel,
    /// The function of this oid.
    Function(u32),
    /// The text of the one, read as the other.
    ViaIo,
    /// Each element of an array by itself.
    Array,
}

impl Catalog {
    /// The way from `source` to `target` in a context. Polymorphic types and row types have none here;
    /// see [`can_coerce`](Catalog::can_coerce).
    pub fn find_pathway(&self, source: TypeId, target: TypeId, context: CastContext) -> Pathway {
        let (source, target) = (self.base_type(source), self.base_type(target));
        if source == target {
            return Pathway::Relabel;
        }
        // Nothing in SQL may make such a value.
        if target == TypeId::INTERNAL {
            return Pathway::None;
        }
        if let Some(cast) = self.cast_entry(source, target) {
            return match cast.method {
                _ if context < cast.context => Pathway::None,
                CastMethod::Function => Pathway::Function(cast.function),
                CastMethod::InOut => Pathway::ViaIo,
                CastMethod::Binary => Pathway::Relabel,
            };
        }
        // These two would else take what should go to real arrays.
        if !matches!(target, TypeId::OIDVECTOR | TypeId::INT2VECTOR) {
            let elements = (self.element_type(source), self.element_type(target));
            if let (Some(source), Some(target)) = elements
                && self.find_pathway(source, target, context) != Pathway::None
            {
                return Pathway::Array;
            }
        }
        // Without an entry, text is assigned from everything and cast to everything.
        let to_text = context >= CastContext::Assignment && self.category(target).0 == 'S';
        let from_text = context >= CastContext::Explicit && self.category(source).0 == 'S';
        if to_text || from_text { Pathway::ViaIo } else { Pathway::None }
    }

    /// Whether values of the `source` types can be given where the `target` types are wanted, in order:
    /// the arguments of a function against its declared types. Polymorphic targets are checked
    /// together. An unknown literal goes everywhere but to `internal`.
    pub fn can_coerce(&self, source: &[TypeId], target: &[TypeId], context: CastContext) -> bool {
        let mut generic = false;
        for (&source, &target) in source.iter().zip(target) {
            if source == target || target == TypeId::ANY {
                continue;
            }
            if target.is_polymorphic() {
                generic = true;
                continue;
            }
            if source.is_unknown() && target == TypeId::INTERNAL {
                return false;
            }
            if source.is_unknown() || self.find_pathway(source, target, context) != Pathway::None {
                continue;
            }
            let row = source == TypeId::RECORD && self.is_composite(target)
                || target == TypeId::RECORD && self.is_composite(source)
                || target == TypeId::RECORD_ARRAY && self.is_composite_array(source);
            if !row {
                return false;
            }
        }
        !generic || self.check_generic(source, target)
    }

    /// [`can_coerce`](Catalog::can_coerce) of one value.
    pub fn can_coerce_one(&self, source: TypeId, target: TypeId, context: CastContext) -> bool {
        self.can_coerce(&[source], &[target], context)
    }

    /// A value of `source` is one of `target` without any work.
    pub fn is_binary_coercible(&self, source: TypeId, target: TypeId) -> bool {
        if source == target || matches!(target, TypeId::ANY | TypeId::ANYELEMENT | TypeId::ANYCOMPATIBLE) {
            return true;
        }
        let source = self.base_type(source);
        let polymorphic = match target {
            TypeId::ANYARRAY | TypeId::ANYCOMPATIBLEARRAY => self.is_array(source),
            TypeId::ANYNONARRAY | TypeId::ANYCOMPATIBLENONARRAY => !self.is_array(source),
            TypeId::ANYENUM => self.is_kind(source, TypeKind::Enum),
            TypeId::ANYRANGE | TypeId::ANYCOMPATIBLERANGE => self.is_kind(source, TypeKind::Range),
            TypeId::ANYMULTIRANGE | TypeId::ANYCOMPATIBLEMULTIRANGE => self.is_kind(source, TypeKind::Multirange),
            TypeId::RECORD => self.is_composite(source),
            TypeId::RECORD_ARRAY => self.is_composite_array(source),
            _ => false,
        };
        let entry = self.cast_entry(source, target);
        source == target
            || polymorphic
            || entry.is_some_and(|c| c.method == CastMethod::Binary && c.context == CastContext::Implicit)
    }
}
