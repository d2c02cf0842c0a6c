//! Relations between types that the rules ask for: polymorphic types and what they stand for.

use crate::types::TypeId;

impl TypeId {
    /// `anyelement` and its kin: all arguments declared so have one type.
    pub const fn is_polymorphic_family_1(self) -> bool {
        matches!(
            self,
            TypeId::ANYELEMENT
                | TypeId::ANYARRAY
                | TypeId::ANYNONARRAY
                | TypeId::ANYENUM
                | TypeId::ANYRANGE
                | TypeId::ANYMULTIRANGE
        )
    }

    /// `anycompatible` and its kin: all arguments declared so are cast to one common type.
    pub const fn is_polymorphic_family_2(self) -> bool {
        matches!(
            self,
            TypeId::ANYCOMPATIBLE
                | TypeId::ANYCOMPATIBLEARRAY
                | TypeId::ANYCOMPATIBLENONARRAY
                | TypeId::ANYCOMPATIBLERANGE
                | TypeId::ANYCOMPATIBLEMULTIRANGE
        )
    }

    /// Stands for a type that a call decides. `any`, which stands for every type, is not one.
    pub const fn is_polymorphic(self) -> bool {
        self.is_polymorphic_family_1() || self.is_polymorphic_family_2()
    }

    /// A literal or a parameter without a type yet.
    pub const fn is_unknown(self) -> bool {
        self.0 == TypeId::UNKNOWN.0
    }
}
