//! Objects of the catalog that are no relations: schemas, roles, types, and what else a layer above keeps.
//!
//! Such an object is an entry of the catalog like a table's: a definition in chunks under its id, a row for its name. So it
//! commits, rolls back (to savepoints, too) and recovers as definitions do, is in the states of the definitions that
//! snapshots see, and a change of it raises the catalog's version, by which kept plans notice. What it *is* (its body) is
//! the business of the layer above, and opaque here.
//!
//! # Invariants
//! 1. *Names are by kind.* A type and a table of one schema may have the same name; names of kinds that are in no schema have
//!    the empty one. An extension is in a schema, and its name is taken once in the database all the same
//!    ([`ObjectKind::naming_schema`]).
//! 2. *What an object needs is there as long as the object.* Whoever makes it holds a share lock on each object that it
//!    needs until it ends; whoever drops one holds it exclusively and looks for what needs it afterwards, in what is
//!    committed by now and in its own. So either finds the other.
//! 3. *Some are of the server.* Roles and databases are seen in all databases, everything else in its own
//!    (`databases.rs`).
//! 4. *One changes an object at a time.* A change locks it exclusively and refuses a definition that is not the newest
//!    ([`ErrorKind::DefinitionChanged`]): look it up again.
//!
//! ```text
//! part 8 of a definition    kind u8 | needed count u16, ids u32 each | body
//! ```

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_page::codec::Reader;

use crate::catalog::check_name;
use crate::catalog_row::object_name_key;
use crate::definition::Definition;
use crate::table::Table;
use crate::transaction::{Attempt, Transaction, attempt};

/// Objects that one can need.
const NEEDS_MAX: usize = u16::MAX as usize;
/// Bytes that a body can have.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What sort of object it is. The engine keeps kinds that it does not know of as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectKind(pub u8);

impl ObjectKind {
    pub const SCHEMA: Self = Self(1);
    pub const ROLE: Self = Self(2);
    pub const TYPE: Self = Self(3);
    /// A database's or a role's settings and rights.
    pub const DATABASE: Self = Self(4);
    pub const DEFAULT_PRIVILEGES: Self = Self(5);
    pub const FUNCTION: Self = Self(6);
    /// It has a schema, in which what it brings along is, and a name that no other of the database has.
    pub const EXTENSION: Self = Self(7);
    /// Which rows of a table somebody may see or write: a view beside, whose query reads the table (`policy_ddl.rs`).
    pub const POLICY: Self = Self(8);

    /// Among which names those of this kind in a schema are; no name of a schema holds a zero byte.
    pub(crate) fn namespace(self, schema: &str) -> String {
        format!("\0{}\0{}", self.0, self.naming_schema(schema))
    }

    /// The schema within which a name of this kind is taken once; empty for the whole database.
    pub fn naming_schema(self, schema: &str) -> &str {
        if self == Self::EXTENSION { "" } else { schema }
    }

    /// All databases of a server have the same objects of that kind.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::ROLE | Self::DATABASE)
    }

    fn word(self) -> &'static str {
        match self {
            Self::SCHEMA => "schema",
            Self::ROLE => "role",
            Self::TYPE => "type",
            Self::DATABASE => "database",
            Self::FUNCTION => "function",
            Self::EXTENSION => "extension",
            Self::POLICY => "policy",
            _ => "object",
        }
    }
}

/// What an entry says of an object that is no relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogObject {
    pub kind: ObjectKind,
    /// Ids of the entries that must not go before it: tables, types, roles.
    pub needs: Vec<u32>,
    /// What it is, in the form of the layer that made it.
    pub body: Vec<u8>,
}

impl CatalogObject {
    pub fn new(kind: ObjectKind, body: Vec<u8>) -> Self {
        Self { kind, needs: Vec::new(), body }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.kind.0];
        out.extend_from_slice(&(self.needs.len() as u16).to_le_bytes());
        for id in &self.needs {
            out.extend_from_slice(&id.to_le_bytes());
        }
        out.extend_from_slice(&self.body);
        out
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let kind = ObjectKind(r.u8()?);
        let count = r.u16()?;
        let needs = (0..count).map(|_| r.u32()).collect::<Result<_>>()?;
        Ok(Self { kind, needs, body: r.rest().to_vec() })
    }

    /// # Errors
    /// `LimitExceeded`.
    pub(crate) fn check(&self) -> Result<()> {
        let what = match () {
            () if self.needs.len() > NEEDS_MAX => "needs too many others",
            () if self.body.len() > BODY_BYTES_MAX => "is too large",
            () => return Ok(()),
        };
        Err(Error::new(ErrorKind::LimitExceeded, format!("the {} {what}", self.kind.word())))
    }
}

pub(crate) fn object_of(entry: &Table) -> Result<&CatalogObject> {
    entry.object.as_deref().ok_or_else(|| Error::internal(format!("\"{}\" is a relation", entry.name)))
}

fn key_of(database: u32, kind: ObjectKind, schema: &str, name: &str) -> Vec<u8> {
    object_name_key(database, kind.0, kind.naming_schema(schema), name)
}

impl Transaction {
    /// The object of a kind by its name; `schema` is empty for kinds that are in none.
    pub fn object_named(&self, kind: ObjectKind, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        self.entry_in(self.database_of(kind), &kind.namespace(schema), name)
    }

    /// The object with that id, of any kind; never a relation.
    pub fn object_by_id(&self, id: u32) -> Result<Option<Arc<Table>>> {
        Ok(self.entry_by_id(id)?.filter(|entry| entry.object.is_some()))
    }

    /// All objects of a kind, by schema and name.
    pub fn objects(&self, kind: ObjectKind) -> Result<Vec<Arc<Table>>> {
        let mut all = self.entries()?;
        all.retain(|entry| entry.object.as_ref().is_some_and(|object| object.kind == kind));
        Ok(all)
    }

    /// An id for a part of an object, above one that is in use: bodies are opaque here, and whoever makes them knows the ids in
    /// them. What is made afterwards has a higher one.
    ///
    /// # Errors
    /// `LimitExceeded` when there are no more.
    pub fn new_part_id(&self, above: u32) -> Result<u32> {
        let next = self.next_object()?;
        if next > above { Ok(next) } else { self.0.db.inner().next_object(above) }
    }

    /// Says which columns of a table are of domain types. (Its values are of what these are of.)
    pub fn set_domains(&self, table: &Arc<Table>, domains: Vec<(usize, u32)>) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        attempt!(self.lock_exclusive(table));
        let mut parts = Definition::of(table);
        parts.domains = domains;
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// Everything that needs an entry: relations and objects, by id, in what is committed by now and in its own.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn dependents(&self, id: u32) -> Result<Vec<Arc<Table>>> {
        let newest = self.0.db.inner().catalog.committed(&self.0.db)?;
        let mut all = self.0.state.lock().catalog.referrers(&newest, id);
        all.sort_by_key(|entry| entry.id);
        Ok(all)
    }

    /// Keeps an entry from being changed or dropped by others until this transaction has ended, as whoever makes something
    /// that needs it has to. Whether it may be used is the caller's care.
    ///
    /// # Errors
    /// `DefinitionChanged` when somebody else has changed or dropped it meanwhile.
    pub fn keep(&self, entry: &Table) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        match self.lock_for_rows(entry)? {
            Some(wait) => Ok(Attempt::Wait(wait)),
            None => Ok(Attempt::Done(())),
        }
    }

    /// Makes an object.
    ///
    /// # Errors
    /// `DuplicateObject`, `LimitExceeded`; `DefinitionChanged` when something that it needs was dropped meanwhile.
    pub fn create_object(&self, schema: &str, name: &str, object: CatalogObject) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if let Some(wait) = self.enter()? {
            return Ok(Attempt::Wait(wait));
        }
        object.check()?;
        if !schema.is_empty() {
            check_name("schema", schema)?;
        }
        attempt!(self.keep_needed(&object));
        let id = self.next_object()?;
        attempt!(self.claim_object(object.kind, schema, name, id));
        let parts = Definition {
            id,
            database: self.database_of(object.kind),
            schema: schema.to_owned(),
            name: name.to_owned(),
            object: Some(Box::new(object)),
            ..Definition::without_rows()
        };
        self.store_definition(&parts, None).map(Attempt::Done)
    }

    /// Gives an object another body, and other objects that it needs. Its kind stays.
    ///
    /// # Errors
    /// Those of [`Transaction::lock_for_change`] and [`Transaction::create_object`].
    pub fn replace_object(&self, old: &Arc<Table>, needs: Vec<u32>, body: Vec<u8>) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        let object = CatalogObject { kind: object_of(old)?.kind, needs, body };
        object.check()?;
        attempt!(self.lock_exclusive(old));
        attempt!(self.keep_needed(&object));
        let mut parts = Definition::of(old);
        parts.object = Some(Box::new(object));
        parts.generation += 1;
        self.store_definition(&parts, Some(old)).map(Attempt::Done)
    }

    /// Gives an object another name, or another schema.
    ///
    /// # Errors
    /// Those of [`Transaction::replace_object`].
    pub fn rename_object(&self, old: &Arc<Table>, schema: &str, name: &str) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        let kind = object_of(old)?.kind;
        if !schema.is_empty() {
            check_name("schema", schema)?;
        }
        attempt!(self.lock_exclusive(old));
        let database = old.database;
        let (before, now) = (key_of(database, kind, &old.schema, &old.name), key_of(database, kind, schema, name));
        if before != now {
            attempt!(self.claim_object(kind, schema, name, old.id));
            self.release_key(&before)?;
        }
        let mut parts = Definition::of(old);
        schema.clone_into(&mut parts.schema);
        name.clone_into(&mut parts.name);
        parts.generation += 1;
        self.store_definition(&parts, Some(old)).map(Attempt::Done)
    }

    /// Drops an object.
    ///
    /// # Errors
    /// `DependentObjects` when something needs it.
    pub fn drop_object(&self, old: &Arc<Table>) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        let kind = object_of(old)?.kind;
        attempt!(self.lock_exclusive(old));
        if let Some(other) = self.dependents(old.id)?.iter().find(|other| other.id != old.id) {
            return Err(Error::new(
                ErrorKind::DependentObjects,
                format!("cannot drop {} {} because {} depends on it", kind.word(), old.name, other.name),
            ));
        }
        self.release_key(&key_of(old.database, kind, &old.schema, &old.name))?;
        self.remove_definition(old)?;
        Ok(Attempt::Done(()))
    }

    pub(crate) fn claim_object(&self, kind: ObjectKind, schema: &str, name: &str, id: u32) -> Result<Attempt<()>> {
        check_name(kind.word(), name)?;
        let taken = || Error::new(ErrorKind::DuplicateObject, format!("{} \"{name}\" already exists", kind.word()));
        self.claim_key(&key_of(self.database_of(kind), kind, schema, name), id, false, taken)
    }

    /// Keeps what an object needs from going.
    pub(crate) fn keep_needed(&self, object: &CatalogObject) -> Result<Attempt<()>> {
        for id in &object.needs {
            let gone = || {
                let what = format!("something that the {} needs was dropped at the same time", object.kind.word());
                Error::new(ErrorKind::DefinitionChanged, what).with_hint("Retry the transaction.")
            };
            let entry = self.entry_by_id(*id)?.ok_or_else(gone)?;
            if let Some(wait) = self.lock_for_rows(&entry)? {
                return Ok(Attempt::Wait(wait));
            }
        }
        Ok(Attempt::Done(()))
    }
}
