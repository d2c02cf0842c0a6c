//! The catalog: every entry of PostgreSQL's, indexed for resolution.
//!
//! Invariants: built once and then only read; entries are never removed, so what a lookup returns
//! lives as long as the catalog. Own functions have oids of [`FIRST_OWN_OID`] and above, which
//! PostgreSQL gives to no built-in object.

mod entry;
mod kinds;
mod lookup;
mod own;
mod read;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use entry::{Aggregate, Cast, Default, Function, Operator, OperatorClass, Type};
pub use kinds::{
    AggregateKind, ArgMode, CastContext, CastMethod, FunctionKind, Parallel, Schema, TypeKind, Volatility,
};
pub use own::{FIRST_OWN_OID, NewFunction};

use crate::types::TypeId;

/// PostgreSQL's types, operators, functions, casts and aggregates, with one's own functions.
///
/// Resolution is in its methods, grouped by the modules of this crate.
#[derive(Clone, Debug)]
pub struct Catalog {
    types: Vec<Type>,
    operators: Vec<Operator>,
    functions: Vec<Function>,
    casts: Vec<Cast>,
    type_by_oid: HashMap<TypeId, u32>,
    type_by_name: HashMap<&'static str, Vec<u32>>,
    operator_by_oid: HashMap<u32, u32>,
    operators_by_name: HashMap<&'static str, Vec<u32>>,
    function_by_oid: HashMap<u32, u32>,
    functions_by_name: HashMap<&'static str, Vec<u32>>,
    cast_by_types: HashMap<(TypeId, TypeId), u32>,
    aggregates: HashMap<u32, Aggregate>,
    classes: HashMap<TypeId, OperatorClass>,
}

static POSTGRES: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog {
        types: read::types(),
        operators: read::operators(),
        functions: read::functions(),
        casts: read::casts(),
        type_by_oid: HashMap::new(),
        type_by_name: HashMap::new(),
        operator_by_oid: HashMap::new(),
        operators_by_name: HashMap::new(),
        function_by_oid: HashMap::new(),
        functions_by_name: HashMap::new(),
        cast_by_types: HashMap::new(),
        aggregates: read::aggregates(),
        classes: read::classes(),
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
        self.function_by_oid.insert(function.oid, at);
        self.functions_by_name.entry(function.name).or_default().push(at);
        self.functions.push(function);
    }

    fn index(&mut self) {
        for (at, entry) in (0..).zip(&self.types) {
            self.type_by_oid.insert(entry.oid, at);
            self.type_by_name.entry(entry.name).or_default().push(at);
        }
        for (at, entry) in (0..).zip(&self.operators) {
            self.operator_by_oid.insert(entry.oid, at);
            self.operators_by_name.entry(entry.name).or_default().push(at);
        }
        for (at, entry) in (0..).zip(&self.functions) {
            self.function_by_oid.insert(entry.oid, at);
            self.functions_by_name.entry(entry.name).or_default().push(at);
        }
        for (at, entry) in (0..).zip(&self.casts) {
            self.cast_by_types.insert((entry.source, entry.target), at);
        }
    }
}

#[cfg(test)]
mod tests;
