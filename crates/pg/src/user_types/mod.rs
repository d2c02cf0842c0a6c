//! Types that users make: enumerated types and domains; and what else a database has beside PostgreSQL's own that names are
//! resolved to, functions of users and of extensions.
//!
//! They are objects of the engine's catalog; [`definition`] has what their bodies say. [`UserTypes`] are all of one moment,
//! as a session's transaction sees them. What has to do with types asks for them by oid and has no session at hand, so the
//! session says which types are meant for its thread while something of it runs ([`with`], [`scope`], and
//! [`running`](crate::running) for what computes): [`current`] are these.
//!
//! # Values
//! A label is a number, by which its type orders it, and which never changes ([`definition::EnumType`]). In plans it is an
//! Arrow timestamp in seconds whose "zone" says which type it is ([`carrier`]): an integer with a parameter, which Arrow
//! compares, sorts, groups, hashes and finds the least of, and which no other value is of. Reading and printing ask for the
//! labels. Nothing ever computes with such a "time", since no operator of PostgreSQL's takes one.
//!
//! A domain's value is one of what the domain is of; what it has to fulfil is checked where the type becomes the domain.

mod carrier;
pub mod definition;
mod labels;
mod marker;
mod scope;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use resurgam_dialect::{Catalog, Schema, TypeId, UserKind, UserType as DialectType, intern};

pub use carrier::{enum_data, enum_of_data};
pub use definition::{Body, DomainCheck, DomainType, EnumType, Label, LabelPlace, UserType};
pub use labels::{Labels, labels_of, text_of};
pub use marker::{column_types, column_types_mut, is_marker, mark_types, marked, marked_type, shown_type};
pub use scope::{TypeSource, current, database, scope, transaction_start, with};

use crate::citext;
use crate::extensions::{Installed, functions_of};
use crate::search_path::{PG_CATALOG, SearchPath};
use crate::types::PgType;
use crate::user_functions::{UserFunction, is_hidden_by_builtin};
use crate::wire::SqlError;

/// First oid of what PostgreSQL's own catalog does not have: the two of `citext`, then what users make, from 16384 on.
pub const FIRST_USER_OID: u32 = crate::types::oid::CITEXT;

/// All types, extensions and functions of one moment.
#[derive(Debug)]
pub struct UserTypes {
    all: Vec<Arc<UserType>>,
    by_oid: HashMap<u32, usize>,
    by_array: HashMap<u32, usize>,
    /// In which order names without a schema are looked for in schemas.
    path: Arc<SearchPath>,
    extensions: Vec<Arc<Installed>>,
    /// Functions that users made, by age.
    functions: Vec<Arc<UserFunction>>,
    /// The schemas that there are, but for the system's and temporary ones.
    schemas: Vec<String>,
    /// PostgreSQL's catalog with them, made when it is asked for.
    catalog: OnceLock<Arc<Catalog>>,
}

impl UserTypes {
    /// `path` has the schemas in which names alone are looked for.
    pub fn new(mut all: Vec<Arc<UserType>>, path: Arc<SearchPath>) -> Self {
        // A domain comes behind what it is of, whose oid is lower.
        all.sort_by_key(|ty| ty.oid);
        let by_oid = all.iter().enumerate().map(|(at, ty)| (ty.oid, at)).collect();
        let by_array = all.iter().enumerate().map(|(at, ty)| (ty.body.array, at)).collect();
        let (extensions, functions, schemas) = (Vec::new(), Vec::new(), Vec::new());
        Self { all, by_oid, by_array, path, extensions, functions, schemas, catalog: OnceLock::new() }
    }

    /// The same with extensions and functions.
    pub fn with_functions(self, extensions: Vec<Arc<Installed>>, functions: Vec<Arc<UserFunction>>) -> Self {
        let this = match extensions.iter().find(|one| one.name == citext::NAME) {
            Some(one) => {
                let mut all = self.all.clone();
                all.push(Arc::new(citext::user_type(&one.schema, one.owner)));
                Self { schemas: self.schemas.clone(), ..Self::new(all, Arc::clone(&self.path)) }
            }
            None => self,
        };
        Self { extensions, functions, ..this }
    }

    /// The same with the schemas that there are.
    pub fn with_schemas(self, schemas: Vec<String>) -> Self {
        Self { schemas, ..self }
    }

    /// Whether there is a schema of that name, as far as that is known.
    pub fn has_schema(&self, name: &str) -> bool {
        name.starts_with("pg_") || name == "information_schema" || self.schemas.iter().any(|schema| schema == name)
    }

    /// Whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether there is nothing that PostgreSQL's own catalog does not have.
    pub fn is_builtin(&self) -> bool {
        self.all.is_empty() && !self.has_functions()
    }

    /// Whether there are functions that PostgreSQL's own catalog does not have.
    pub fn has_functions(&self) -> bool {
        !self.extensions.is_empty() || !self.functions.is_empty()
    }

    /// Functions that users made, by age.
    pub fn functions(&self) -> &[Arc<UserFunction>] {
        &self.functions
    }

    /// The function that a user made with that oid.
    pub fn function(&self, oid: u32) -> Option<&Arc<UserFunction>> {
        self.functions.iter().find(|function| function.oid() == oid)
    }

    /// Those of that name, in that schema or in one of those in which names alone are looked for.
    pub fn functions_named<'s>(
        &'s self,
        schema: Option<&'s str>,
        name: &'s str,
    ) -> impl Iterator<Item = &'s Arc<UserFunction>> {
        self.functions.iter().filter(move |function| {
            function.name() == name
                && match schema {
                    Some(schema) => function.schema == schema,
                    None => self.looks_for_functions_in(&function.schema),
                }
        })
    }

    /// Whether a function's name and the types of its arguments find it.
    pub fn is_function_visible(&self, function: &UserFunction) -> bool {
        let Some(own) = self.path.place(&function.schema) else { return false };
        let before = |other: &Arc<UserFunction>| {
            other.definition.input_types() == function.definition.input_types()
                && self.path.place(&other.schema).is_some_and(|place| place < own)
        };
        !is_hidden_by_builtin(&function.definition) && !self.functions_named(None, function.name()).any(before)
    }

    /// The name of a function, with its schema where that is needed to find it.
    pub fn shown_function(&self, function: &UserFunction) -> String {
        let name = resurgam_dialect::quote_identifier(function.name());
        match self.is_function_visible(function) {
            true => name.into_owned(),
            false => format!("{}.{name}", resurgam_dialect::quote_identifier(&function.schema)),
        }
    }

    /// The extensions that the database has, by age.
    pub fn extensions(&self) -> &[Arc<Installed>] {
        &self.extensions
    }

    /// The extension that has a function of that name which is found in that schema, or along the path.
    pub fn extension_with(&self, schema: Option<&str>, function: &str) -> Option<&Arc<Installed>> {
        let has = |one: &&Arc<Installed>| one.functions().any(|of| of.name == function);
        let mut all = self.extensions.iter().filter(has);
        match schema {
            Some(schema) => all.find(|one| one.schema == schema),
            None => {
                let place = |one: &&Arc<Installed>| self.path.place(&one.schema);
                all.filter(|one| place(one).is_some()).min_by_key(place)
            }
        }
    }

    /// Whether functions of a schema are found by their names alone.
    pub fn looks_for_functions_in(&self, schema: &str) -> bool {
        self.path.place(schema).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<UserType>> {
        self.all.iter()
    }

    pub fn by_oid(&self, oid: u32) -> Option<&Arc<UserType>> {
        self.by_oid.get(&oid).map(|at| &self.all[*at])
    }

    /// The type whose arrays are of the type with that oid.
    pub fn by_array(&self, oid: u32) -> Option<&Arc<UserType>> {
        self.by_array.get(&oid).map(|at| &self.all[*at])
    }

    /// The type of that name.
    pub fn named(&self, schema: Option<&str>, name: &str) -> Option<&Arc<UserType>> {
        match schema {
            Some(schema) => self.one(schema, name),
            None => self.path.schemas().find_map(|schema| self.one(schema, name)),
        }
    }

    /// The type that a name alone means though the system may have one of the name, which comes later in the path.
    pub fn named_before_system(&self, name: &str) -> Option<&Arc<UserType>> {
        self.path.schemas().take_while(|schema| *schema != PG_CATALOG).find_map(|schema| self.one(schema, name))
    }

    fn one(&self, schema: &str, name: &str) -> Option<&Arc<UserType>> {
        self.all.iter().find(|ty| ty.name == name && ty.schema == schema)
    }

    /// The oid of the type of that name, which may be that of the arrays of one (`_mood`).
    pub fn oid_named(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        if let Some(found) = self.named(schema, name) {
            return Some(found.oid);
        }
        let of_arrays = |ty: &&Arc<UserType>| {
            ty.array_name() == name && schema.map_or_else(|| self.is_visible(ty), |schema| ty.schema == schema)
        };
        Some(self.all.iter().find(of_arrays)?.body.array)
    }

    /// Whether the type is found by its name alone.
    pub fn is_visible(&self, ty: &UserType) -> bool {
        let system = || Catalog::postgres().type_named(Schema::PgCatalog, &ty.name).is_some();
        self.named(None, &ty.name).is_some_and(|found| found.oid == ty.oid)
            && (self.named_before_system(&ty.name).is_some() || !system())
    }

    /// `base` with these types and functions.
    pub fn catalog(&self, base: &Catalog) -> Arc<Catalog> {
        let made = || {
            let functions = functions_of(&self.extensions, &self.functions, &self.path);
            match self.all.is_empty() {
                true => Arc::new(base.with_user_functions(functions)),
                false => Arc::new(base.with_types(&self.of_dialect()).with_user_functions(functions)),
            }
        };
        Arc::clone(self.catalog.get_or_init(made))
    }

    /// As the dialect has them.
    pub fn of_dialect(&self) -> Vec<DialectType> {
        self.all.iter().map(|ty| self.one_of_dialect(ty)).collect()
    }

    fn one_of_dialect(&self, ty: &UserType) -> DialectType {
        DialectType {
            oid: TypeId(ty.oid),
            name: intern(&ty.name),
            schema: (intern(&ty.schema), self.is_visible(ty)),
            array: (TypeId(ty.body.array), intern(&ty.array_name())),
            kind: match &ty.body.kind {
                definition::Kind::Enum(_) => UserKind::Enum,
                definition::Kind::Citext => UserKind::Citext,
                definition::Kind::Domain(domain) => {
                    UserKind::Domain { base: TypeId(domain.base), typmod: domain.typmod, not_null: domain.not_null }
                }
            },
        }
    }

    /// The row of a type or of the type of its arrays, as those of PostgreSQL's own.
    pub fn row(&self, oid: u32) -> Option<PgType> {
        if let Some(ty) = self.by_oid(oid) {
            let base = match &ty.body.kind {
                definition::Kind::Enum(_) => PgType {
                    oid,
                    name: "",
                    sql_name: "",
                    len: 4,
                    by_value: true,
                    align: 'i',
                    category: 'E',
                    preferred: false,
                    array: 0,
                    elem: 0,
                },
                definition::Kind::Citext => crate::types::type_by_oid(crate::types::oid::TEXT)?,
                definition::Kind::Domain(domain) => crate::types::type_by_oid(self.base_of(domain).0)?,
            };
            let sql_name = intern(&self.sql_name(ty));
            let (name, array) = (intern(&ty.name), ty.body.array);
            return Some(PgType { oid, name, sql_name, preferred: false, array, elem: 0, ..base });
        }
        let ty = self.by_array(oid)?;
        Some(PgType {
            oid,
            name: intern(&ty.array_name()),
            sql_name: intern(&format!("{}[]", self.sql_name(ty))),
            len: -1,
            by_value: false,
            align: 'i',
            category: 'A',
            preferred: false,
            array: 0,
            elem: ty.oid,
        })
    }

    /// What a domain is of in the end, and the modifier.
    pub fn base_of(&self, domain: &DomainType) -> (u32, i32) {
        let (mut base, mut typmod) = (domain.base, domain.typmod);
        // A domain is of what was there before it.
        while let Some(definition::Kind::Domain(inner)) = self.by_oid(base).map(|ty| &ty.body.kind) {
            if inner.base >= base && inner.base >= FIRST_USER_OID {
                break;
            }
            (base, typmod) = (inner.base, inner.typmod);
        }
        (base, typmod)
    }

    /// Its name as SQL writes it here.
    pub fn sql_name(&self, ty: &UserType) -> String {
        let name = resurgam_dialect::quote_identifier(&ty.name);
        match self.is_visible(ty) {
            true => name.into_owned(),
            false => format!("{}.{name}", resurgam_dialect::quote_identifier(&ty.schema)),
        }
    }
}

/// The type with that oid, of those that are meant on this thread.
pub fn by_oid(oid: u32) -> Option<Arc<UserType>> {
    if oid < FIRST_USER_OID {
        return None;
    }
    current()?.by_oid(oid).cloned()
}

/// What a domain's values have to fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The domain whose value it is, as errors show it.
    pub domain: String,
    pub schema: String,
    /// Its name alone.
    pub name: String,
    /// Name and condition over `VALUE`; `None`: NOT NULL.
    pub check: Option<(String, String)>,
}

/// All that a domain's values have to fulfil, in the order in which it is looked at: what it is of comes first.
pub fn constraints(oid: u32) -> Vec<Constraint> {
    let Some(types) = current() else { return Vec::new() };
    let (mut chain, mut next) = (Vec::new(), oid);
    while let Some(ty) = types.by_oid(next).filter(|ty| ty.as_domain().is_some() && ty.oid == next) {
        chain.push(Arc::clone(ty));
        // A domain is of what was there before it.
        match ty.as_domain() {
            Some(domain) if domain.base < next => next = domain.base,
            _ => break,
        }
    }
    let (mut all, Some(outermost)) = (Vec::new(), chain.first()) else { return Vec::new() };
    let name = types.sql_name(outermost);
    for ty in chain.iter().rev() {
        let Some(domain) = ty.as_domain() else { continue };
        let one = |check| Constraint {
            domain: name.clone(),
            schema: outermost.schema.clone(),
            name: outermost.name.clone(),
            check,
        };
        if domain.not_null {
            all.push(one(None));
        }
        let mut checks: Vec<&DomainCheck> = domain.checks.iter().collect();
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        all.extend(checks.into_iter().map(|check| one(Some((check.name.clone(), check.sql.clone())))));
    }
    all
}

/// The DEFAULT of a domain, or of what it is of.
pub fn domain_default(oid: u32) -> Option<String> {
    let types = current()?;
    let mut next = oid;
    loop {
        let domain = types.by_oid(next)?.as_domain()?.clone();
        match domain.default_sql {
            Some(sql) => return Some(sql),
            None if domain.base < next => next = domain.base,
            None => return None,
        }
    }
}

/// The error of a value that does not fulfil a constraint.
#[cold]
pub fn violated(constraint: &Constraint) -> SqlError {
    let mut error = match &constraint.check {
        Some((name, _)) => SqlError::new(
            "23514",
            format!("value for domain {} violates check constraint \"{name}\"", constraint.domain),
        ),
        None => SqlError::new("23502", format!("domain {} does not allow null values", constraint.domain)),
    };
    error.schema = Some(constraint.schema.clone());
    error.datatype = Some(constraint.name.clone());
    error.constraint = constraint.check.as_ref().map(|(name, _)| name.clone());
    error
}

/// Whether the type with that oid is a domain of users.
pub fn is_domain(oid: u32) -> bool {
    by_oid(oid).is_some_and(|ty| ty.as_domain().is_some())
}

/// What a domain is of in the end and its modifier; any other type is its own.
pub fn base_type(oid: u32, typmod: i32) -> (u32, i32) {
    if oid < FIRST_USER_OID {
        return (oid, typmod);
    }
    let Some(types) = current() else { return (oid, typmod) };
    match types.by_oid(oid).map(|ty| &ty.body.kind) {
        Some(definition::Kind::Domain(domain)) => types.base_of(domain),
        _ => (oid, typmod),
    }
}
