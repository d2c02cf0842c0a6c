//! Functions that users have: those of extensions, laid over PostgreSQL's own.
//!
//! A catalog with them shares everything else with the one that it was made from. They are in the order in which names
//! without a schema are looked for, and behind those of `pg_catalog`: of two that a call could mean equally the first counts.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::entry::Function;
use super::{Catalog, Schema, read};

/// Oid of the first function of an extension. An extension is there once in a database at most, so each of its functions has
/// an oid that is always the same.
pub const FIRST_EXTENSION_OID: u32 = 3_900_000_000;

static EXTENSIONS: LazyLock<Vec<(&'static str, Function)>> = LazyLock::new(read::extensions);

/// The functions that come with an extension, as if they were in `pg_catalog`. None for an extension that is not known.
pub fn extension_functions(extension: &str) -> impl Iterator<Item = &'static Function> {
    EXTENSIONS.iter().filter(move |(of, _)| *of == extension).map(|(_, function)| function)
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(super) struct UserFunctions {
    all: Vec<Function>,
    by_oid: HashMap<u32, u32>,
    by_name: HashMap<&'static str, Vec<u32>>,
}

impl UserFunctions {
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &Function> {
        self.by_name.get(name).into_iter().flatten().map(|&at| &self.all[at as usize])
    }

    pub(super) fn of_oid(&self, oid: u32) -> Option<&Function> {
        self.by_oid.get(&oid).map(|&at| &self.all[at as usize])
    }
}

impl Catalog {
    /// This catalog and functions of users beside it, in the order of the search path.
    pub fn with_user_functions(&self, all: Vec<Function>) -> Catalog {
        let mut user = UserFunctions { all, ..UserFunctions::default() };
        for (at, function) in (0..).zip(&user.all) {
            user.by_oid.insert(function.oid, at);
            user.by_name.entry(function.name).or_default().push(at);
        }
        Catalog { user_functions: Arc::new(user), ..self.clone() }
    }

    /// The functions of users, in no order that matters.
    pub fn user_functions(&self) -> &[Function] {
        &self.user_functions.all
    }

    /// The functions that a name may mean: those of that schema, or of all schemas in which names alone are looked for. In
    /// what is stored that is `public`, whatever the search path.
    pub(crate) fn functions_called(&self, schema: Option<&str>, name: &str, stored: bool) -> Vec<&Function> {
        let builtin = self.functions_by_name.get(name).into_iter().flatten().map(|&at| &self.functions[at as usize]);
        let may_be_meant = |function: &&Function| match (schema, function.schema) {
            (Some(wanted), own) => own.name() == wanted,
            (None, Schema::PgCatalog) => true,
            (None, Schema::InformationSchema) => false,
            (None, Schema::User(own, _)) if stored => own == "public",
            (None, Schema::User(_, is_visible)) => is_visible,
        };
        builtin.chain(self.user_functions.named(name)).filter(may_be_meant).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, TypeId};

    fn in_schema(extension: &str, schema: Schema) -> Vec<Function> {
        extension_functions(extension).map(|function| Function { schema, ..function.clone() }).collect()
    }

    #[test]
    fn they_are_found_where_they_are() {
        let of = |schema| Catalog::postgres().with_user_functions(in_schema("pgcrypto", schema));
        let args = [TypeId::UNKNOWN, TypeId::UNKNOWN];
        let call = |schema| Call { schema, ..Call::new("digest", &args) };
        let visible = of(Schema::User("s", true));
        let found = |catalog: &Catalog, schema| {
            catalog.resolve_function(&call(schema)).map(|found| found.args.clone()).map_err(|error| error.message)
        };
        assert_eq!(found(&visible, None), Ok(vec![TypeId::TEXT, TypeId::TEXT]));
        assert_eq!(found(&visible, Some("s")), found(&visible, None));
        assert_eq!(
            found(&visible, Some("public")),
            Err("function public.digest(unknown, unknown) does not exist".to_owned())
        );
        let hidden = of(Schema::User("s", false));
        assert_eq!(found(&hidden, None), Err("function digest(unknown, unknown) does not exist".to_owned()));
        assert!(found(&hidden, Some("s")).is_ok());
        // What is stored is of `public`, whoever reads it.
        let stored = Call { stored: true, ..call(None) };
        assert!(visible.resolve_function(&stored).is_err());
        assert!(of(Schema::User("public", false)).resolve_function(&stored).is_ok());
        assert!(Catalog::postgres().resolve_function(&call(None)).is_err());
    }

    #[test]
    fn that_of_the_system_goes_before() {
        let catalog = Catalog::postgres().with_user_functions(in_schema("pgcrypto", Schema::User("public", true)));
        let of = |schema| {
            let call = Call { schema, ..Call::new("gen_random_uuid", &[]) };
            catalog.resolve_function(&call).ok().and_then(|found| found.function()).map(|function| function.oid)
        };
        assert_eq!(of(None), Some(3432));
        assert!(of(Some("public")).is_some_and(|oid| oid >= FIRST_EXTENSION_OID));
        let oid = of(Some("public")).expect("it");
        assert_eq!(catalog.function(oid).map(|function| function.source), Some("pg_random_uuid"));
    }
}
