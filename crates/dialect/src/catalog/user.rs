//! Types that users make: enumerated types and domains, laid over PostgreSQL's own.
//!
//! A catalog with them is made of the definitions of one moment and shares everything else with the one that it was
//! made from. Names are `&'static str` here, as those of the tables are: [`intern`] keeps each that ever was, once.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::Catalog;
use super::entry::Type;
use super::kinds::{Schema, TypeKind};
use crate::types::TypeId;

/// A type to be known beside PostgreSQL's.
#[derive(Clone, Copy, Debug)]
pub struct UserType {
    pub oid: TypeId,
    pub name: &'static str,
    /// Its schema, and whether names without one are looked for in it.
    pub schema: (&'static str, bool),
    /// The type of its arrays, and their name.
    pub array: (TypeId, &'static str),
    pub kind: UserKind,
}

/// What sort of type it is.
#[derive(Clone, Copy, Debug)]
pub enum UserKind {
    Enum,
    /// The type of the extension of that name, with its operators, casts and aggregates.
    Citext,
    /// Of that type, with that modifier; whether it takes no NULL.
    Domain {
        base: TypeId,
        typmod: i32,
        not_null: bool,
    },
}

/// A text that lives as long as the process; each is kept once.
pub fn intern(text: &str) -> &'static str {
    static KEPT: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    match kept.get(text) {
        Some(known) => known,
        None => {
            let text: &'static str = Box::leak(text.into());
            kept.insert(text);
            text
        }
    }
}

impl Catalog {
    /// This catalog and types of users beside it. A domain comes behind what it is of.
    pub fn with_types(&self, user: &[UserType]) -> Catalog {
        let mut catalog = self.clone();
        for ty in user {
            let own = catalog.own_type(ty);
            let array = Type {
                oid: ty.array.0,
                name: ty.array.1,
                len: -1,
                by_value: false,
                kind: TypeKind::Base,
                category: 'A',
                preferred: false,
                subscript: "array_subscript_handler",
                element: Some(ty.oid),
                array: None,
                input: catalog.code("array_in"),
                output: catalog.code("array_out"),
                receive: catalog.code("array_recv"),
                send: catalog.code("array_send"),
                typmod_in: 0,
                typmod_out: 0,
                analyze: catalog.code("array_typanalyze"),
                align: if own.align == 'd' { 'd' } else { 'i' },
                storage: 'x',
                not_null: false,
                base: None,
                typmod: -1,
                ..own.clone()
            };
            catalog.add_type(own);
            catalog.add_type(array);
            if matches!(ty.kind, UserKind::Citext) {
                catalog.add_citext();
            }
        }
        catalog
    }

    fn code(&self, name: &str) -> u32 {
        self.functions_named(Schema::PgCatalog, name).next().map_or(0, |function| function.oid)
    }

    fn own_type(&self, ty: &UserType) -> Type {
        let schema = Schema::User(ty.schema.0, ty.schema.1);
        let anyenum = || Type {
            oid: ty.oid,
            name: ty.name,
            schema,
            len: 4,
            by_value: true,
            kind: TypeKind::Enum,
            category: 'E',
            preferred: false,
            delimiter: ',',
            relation: 0,
            subscript: "-",
            element: None,
            array: Some(ty.array.0),
            input: self.code("enum_in"),
            output: self.code("enum_out"),
            receive: self.code("enum_recv"),
            send: self.code("enum_send"),
            typmod_in: 0,
            typmod_out: 0,
            analyze: 0,
            align: 'i',
            storage: 'p',
            not_null: false,
            base: None,
            typmod: -1,
            dimensions: 0,
            collation: 0,
            subtype: None,
            multirange: None,
        };
        match ty.kind {
            UserKind::Enum => anyenum(),
            UserKind::Citext => Type {
                oid: ty.oid,
                name: ty.name,
                schema,
                preferred: false,
                array: Some(ty.array.0),
                ..self.type_of(TypeId::TEXT).cloned().unwrap_or_else(anyenum)
            },
            UserKind::Domain { base, typmod, not_null } => {
                let of = self.type_of(base).cloned().unwrap_or_else(anyenum);
                Type {
                    oid: ty.oid,
                    name: ty.name,
                    schema,
                    kind: TypeKind::Domain,
                    preferred: false,
                    relation: 0,
                    element: None,
                    subscript: "-",
                    array: Some(ty.array.0),
                    input: self.code("domain_in"),
                    receive: self.code("domain_recv"),
                    typmod_in: 0,
                    typmod_out: 0,
                    not_null,
                    base: Some(base),
                    typmod,
                    subtype: None,
                    multirange: None,
                    ..of
                }
            }
        }
    }

    fn add_type(&mut self, ty: Type) {
        let at = self.types.len() as u32;
        Arc::make_mut(&mut self.type_by_oid).insert(ty.oid, at);
        Arc::make_mut(&mut self.type_by_name).entry(ty.name).or_default().push(at);
        Arc::make_mut(&mut self.types).push(ty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CastContext, CastStep};

    fn catalog() -> Catalog {
        Catalog::postgres().with_types(&[
            UserType {
                oid: TypeId(16_400),
                name: intern("mood"),
                schema: ("public", true),
                array: (TypeId(16_401), intern("_mood")),
                kind: UserKind::Enum,
            },
            UserType {
                oid: TypeId(16_402),
                name: intern("Short"),
                schema: ("s", false),
                array: (TypeId(16_403), intern("_Short")),
                kind: UserKind::Domain { base: TypeId::VARCHAR, typmod: 9, not_null: true },
            },
        ])
    }

    #[test]
    fn names_and_kinds() {
        let catalog = catalog();
        let shown = |oid| catalog.format_type(TypeId(oid));
        assert_eq!(
            (shown(16_400), shown(16_401), shown(16_402)),
            ("mood".into(), "mood[]".into(), "s.\"Short\"".into())
        );
        assert_eq!(catalog.element_type(TypeId(16_401)), Some(TypeId(16_400)));
        assert_eq!(catalog.base_type_typmod(TypeId(16_402), -1), (TypeId::VARCHAR, 9));
        assert_eq!(Catalog::postgres().format_type(TypeId(16_400)), "???");
    }

    #[test]
    fn operators_and_casts() {
        let catalog = catalog();
        let (mood, short) = (TypeId(16_400), TypeId(16_402));
        let less = catalog.resolve_operator("<", Some(mood), TypeId::UNKNOWN).expect("an order");
        assert_eq!((less.left, less.right), (Some(mood), mood));
        assert_eq!(catalog.resolve_operator("<", Some(mood), TypeId::TEXT).expect_err("none").sqlstate, "42883");
        assert!(catalog.cast(TypeId::TEXT, -1, mood, -1, CastContext::Assignment).is_err());
        let plan = catalog.cast(TypeId::TEXT, -1, mood, -1, CastContext::Explicit).expect("by its label");
        assert_eq!(plan.steps, [CastStep::ViaIo { ty: mood }]);
        let plan = catalog.cast(TypeId::TEXT, -1, short, -1, CastContext::Explicit).expect("a domain");
        assert_eq!(plan.steps.last(), Some(&CastStep::Domain { ty: short }));
        assert_eq!(catalog.common_type("CASE", &[mood, TypeId::UNKNOWN]).expect("one"), mood);
    }
}
