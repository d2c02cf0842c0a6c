//! The type that the extension `citext` brings along: its operators, casts and aggregates, laid over PostgreSQL's own where
//! the type is.
//!
//! Its oid is one that PostgreSQL gives to nothing and that is below those of what users make, so that a domain over it has a
//! higher one. (Elsewhere it is any: whoever wants it asks for the name.)

use std::sync::Arc;

use super::entry::OperatorClass;
use super::{Catalog, read};
use crate::types::TypeId;

/// The type, and that of its arrays.
pub const CITEXT: TypeId = TypeId(16_382);
pub const CITEXT_ARRAY: TypeId = TypeId(16_383);

const BTREE_FAMILY: u32 = 3_900_300_000;
const HASH_FAMILY: u32 = 3_900_300_001;

impl Catalog {
    /// Adds what goes with the type.
    pub(super) fn add_citext(&mut self) {
        let operators = Arc::make_mut(&mut self.operators);
        let by_oid = Arc::make_mut(&mut self.operator_by_oid);
        let by_name = Arc::make_mut(&mut self.operators_by_name);
        let mut class = OperatorClass {
            ty: CITEXT,
            btree_family: BTREE_FAMILY,
            less: 0,
            equal: 0,
            greater: 0,
            hash_family: HASH_FAMILY,
            hash_equal: 0,
        };
        for operator in read::citext_operators() {
            match operator.name {
                "<" => class.less = operator.oid,
                "=" => (class.equal, class.hash_equal) = (operator.oid, operator.oid),
                ">" => class.greater = operator.oid,
                _ => {}
            }
            let at = operators.len() as u32;
            by_oid.insert(operator.oid, at);
            by_name.entry(operator.name).or_default().push(at);
            operators.push(operator);
        }
        let casts = Arc::make_mut(&mut self.casts);
        let by_types = Arc::make_mut(&mut self.cast_by_types);
        for cast in read::citext_casts() {
            by_types.insert((cast.source, cast.target), casts.len() as u32);
            casts.push(cast);
        }
        Arc::make_mut(&mut self.aggregates).extend(read::citext_aggregates());
        Arc::make_mut(&mut self.classes).insert(CITEXT, class);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, CallKind, CastContext, Schema, UserKind, UserType, extension_functions, intern};

    fn catalog() -> Catalog {
        let schema = Schema::User("public", true);
        let functions = extension_functions("citext").map(|f| crate::Function { schema, ..f.clone() }).collect();
        let ty = UserType {
            oid: CITEXT,
            name: intern("citext"),
            schema: ("public", true),
            array: (CITEXT_ARRAY, intern("_citext")),
            kind: UserKind::Citext,
        };
        Catalog::postgres().with_types(&[ty]).with_user_functions(functions)
    }

    #[test]
    fn operators_as_postgresql_finds_them() {
        let catalog = catalog();
        let of = |name: &str, left: TypeId, right: TypeId| {
            let found = catalog.resolve_operator(name, Some(left), right);
            found.map(|found| (found.operator.left, found.operator.right)).map_err(|error| error.message)
        };
        let both = |ty: TypeId| Ok((Some(ty), ty));
        assert_eq!(of("=", CITEXT, TypeId::UNKNOWN), both(CITEXT));
        assert_eq!(of("=", TypeId::UNKNOWN, CITEXT), both(CITEXT));
        // A text goes before.
        assert_eq!(of("=", CITEXT, TypeId::TEXT), both(TypeId::TEXT));
        assert_eq!(of("=", TypeId::VARCHAR, CITEXT), both(TypeId::TEXT));
        assert_eq!(of("~~", CITEXT, TypeId::TEXT), Ok((Some(CITEXT), TypeId::TEXT)));
        assert_eq!(of("~~", TypeId::TEXT, CITEXT), both(TypeId::TEXT));
        assert_eq!(of("||", CITEXT, CITEXT), both(TypeId::TEXT));
    }

    #[test]
    fn casts_and_aggregates() {
        let catalog = catalog();
        let may = |from, to, context| catalog.cast(from, -1, to, -1, context).is_ok();
        assert!(
            may(CITEXT, TypeId::TEXT, CastContext::Implicit) && may(CITEXT, TypeId::VARCHAR, CastContext::Implicit)
        );
        assert!(
            !may(TypeId::TEXT, CITEXT, CastContext::Implicit) && may(TypeId::TEXT, CITEXT, CastContext::Assignment)
        );
        assert!(!may(CITEXT, TypeId::BPCHAR, CastContext::Implicit));
        let args = [CITEXT];
        let found = catalog.resolve_function(&Call::new("max", &args)).expect("an aggregate");
        assert!(matches!(found.kind, CallKind::Aggregate(..)) && found.result == CITEXT);
        assert!(catalog.ordering_operators(CITEXT).is_ok_and(|(less, _)| less >= crate::FIRST_EXTENSION_OID));
        assert_eq!(catalog.format_type(CITEXT_ARRAY), "citext[]");
    }
}
