//! The catalog: every entry of PostgreSQL's, indexed for resolution.
//!
//! Invariants: built once and then only read; entries are never removed, so what a lookup returns
//! lives as long as the catalog. Own functions have oids of [`FIRST_OWN_OID`] and above, which
//! PostgreSQL gives to no built-in object.

mod citext;
mod entry;
mod kinds;
mod lookup;
mod own;
mod read;
mod user;
mod user_function;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

pub use citext::{CITEXT, CITEXT_ARRAY};
pub use entry::{Aggregate, Cast, Default, Function, Operator, OperatorClass, Type};
pub use kinds::{
    AggregateKind, ArgMode, CastContext, CastMethod, FunctionKind, Parallel, Schema, TypeKind, Volatility,
};
pub use own::{FIRST_OWN_OID, NewFunction};
pub use user::{UserKind, UserType, intern};
use user_function::UserFunctions;
pub use user_function::{FIRST_EXTENSION_OID, extension_functions};

use crate::types::TypeId;

/// PostgreSQL's types, operators, functions, casts and aggregates, with one's own functions.
///
/// Resolution is in its methods, grouped by the modules of this crate.
#[derive(Clone, Debug)]
pub struct Catalog {
    types: Arc<Vec<Type>>,
    operators: Arc<Vec<Operator>>,
    functions: Arc<Vec<Function>>,
    casts: Arc<Vec<Cast>>,
    type_by_oid: Arc<HashMap<TypeId, u32>>,
    type_by_name: Arc<HashMap<&'static str, Vec<u32>>>,
    operator_by_oid: Arc<HashMap<u32, u32>>,
    operators_by_name: Arc<HashMap<&'static str, Vec<u32>>>,
    function_by_oid: Arc<HashMap<u32, u32>>,
    functions_by_name: Arc<HashMap<&'static str, Vec<u32>>>,
    /// Beside the others, so that a catalog with some costs nothing else.
    user_functions: Arc<UserFunctions>,
    cast_by_types: Arc<HashMap<(TypeId, TypeId), u32>>,
    aggregates: Arc<HashMap<u32, Aggregate>>,
    classes: Arc<HashMap<TypeId, OperatorClass>>,
}

static POSTGRES: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog {
        types: Arc::new(read::types()),
        operators: Arc::new(read::operators()),
        functions: Arc::new(read::functions()),
        casts: Arc::new(read::casts()),
        type_by_oid: Arc::default(),
        type_by_name: Arc::default(),
        operator_by_oid: Arc::default(),
        operators_by_name: Arc::default(),
        function_by_oid: Arc::default(),
        functions_by_name: Arc::default(),
        user_functions: Arc::default(),
        cast_by_types: Arc::default(),
        aggregates: Arc::new(read::aggregates()),
        classes: Arc::new(read::classes()),
    };
    catalog.index();
    catalog
});

impl Catalog {
    /// PostgreSQL's own catalog, without additions. Parsed at the first call (a few milliseconds).
    pub fn postgres() -> &'static Catalog {
        &POSTGRES
    }

    /// PostgreSQL's catalog and `own` functions beside it, in the schema `pg_catalog`.
    ///
    /// Each gets the oid [`FIRST_OWN_OID`] plus its place in `own`.
    pub fn with_functions(own: &[NewFunction]) -> Catalog {
        let mut catalog = Catalog::postgres().clone();
        for (oid, new) in (FIRST_OWN_OID..).zip(own) {
            catalog.add_function(new.function(oid));
        }
        catalog
    }

    fn add_function(&mut self, function: Function) {
        let at = self.functions.len() as u32;
        Arc::make_mut(&mut self.function_by_oid).insert(function.oid, at);
        Arc::make_mut(&mut self.functions_by_name).entry(function.name).or_default().push(at);
        Arc::make_mut(&mut self.functions).push(function);
    }

    fn index(&mut self) {
        let (by_oid, by_name) = (Arc::make_mut(&mut self.type_by_oid), Arc::make_mut(&mut self.type_by_name));
        for (at, entry) in (0..).zip(self.types.iter()) {
            by_oid.insert(entry.oid, at);
            by_name.entry(entry.name).or_default().push(at);
        }
        let by_oid = Arc::make_mut(&mut self.operator_by_oid);
        let by_name = Arc::make_mut(&mut self.operators_by_name);
        for (at, entry) in (0..).zip(self.operators.iter()) {
            by_oid.insert(entry.oid, at);
            by_name.entry(entry.name).or_default().push(at);
        }
        let by_oid = Arc::make_mut(&mut self.function_by_oid);
        let by_name = Arc::make_mut(&mut self.functions_by_name);
        for (at, entry) in (0..).zip(self.functions.iter()) {
            by_oid.insert(entry.oid, at);
            by_name.entry(entry.name).or_default().push(at);
        }
        let by_types = Arc::make_mut(&mut self.cast_by_types);
        for (at, entry) in (0..).zip(self.casts.iter()) {
            by_types.insert((entry.source, entry.target), at);
        }
    }
}

#[cfg(test)]
mod tests;
